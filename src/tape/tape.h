/* tape: the record of one forward call of a candidate, made by the tracer (a sandboxed, hostile
 * process) and replayed by the runner.
 *
 * A tape is data about memory, never code of the candidate's host side:
 *   buffers   what exists: inputs, parameters, constants (with contents), temporaries. Buffer b
 *             lives at the synthetic address (b + 1) << TAPE_ADDRESS_SHIFT; a pointer's buffer can
 *             always be told from its high bits, however it was computed.
 *   kernels   Triton IR text (TTIR, with locations) and launch options of each distinct kernel
 *   rows      in order: launch, fill, copy (strided, with cast: contiguous, cat, pad and the like
 *             become copies), library (any other torch operator: it is recorded so that lineage can
 *             see it); each on a stream, with record and wait rows for the order between streams
 *   outputs   views that forward returned, in flattened order
 * The text form is one JSON object (docs/tape-format.md). tape_parse trusts nothing: every index,
 * view bound, size, count and name is checked against the limits below, and the error names the
 * field.
 *
 * Lineage: each byte of a buffer has an origin tag (enum tape_origin), kept by the replayer.
 * tape_data_path says which rows can reach an output at all. Neither looks at the candidate's
 * source. */
#ifndef HONE_TAPE_H
#define HONE_TAPE_H
#include "base/base.h"
#include "base/dtype.h"

#define TAPE_VERSION 2
#define TAPE_ADDRESS_SHIFT 40
#define TAPE_BYTES_MAX ((size_t)64 << 20)        /* text of one tape */
#define TAPE_BUFFERS_MAX 4096
#define TAPE_ROWS_MAX 4096
#define TAPE_KERNELS_MAX 128
#define TAPE_ARGS_MAX 128
#define TAPE_OUTPUTS_MAX 64
#define TAPE_DIMS_MAX 12
#define TAPE_DESCRIPTOR_DIMS_MAX 5               /* of a tensor map */
#define TAPE_STREAMS_MAX 64
#define TAPE_EVENTS_MAX 1024
#define TAPE_PTX_OPTIONS_BYTES_MAX 256
#define TAPE_BUFFER_BYTES_MAX ((int64_t)1 << 36)
#define TAPE_TOTAL_BYTES_MAX ((int64_t)1 << 37)   /* all buffers; the replayer has its own, lower bound */

enum tape_buffer_kind { TAPE_INPUT, TAPE_PARAM, TAPE_CONST, TAPE_TEMP, TAPE_BUFFER_KIND_COUNT };
struct tape_buffer {
	enum tape_buffer_kind kind;
	int64_t bytes;
	int input;           /* TAPE_INPUT: index among forward's flattened tensor arguments */
	const char *name;    /* TAPE_PARAM: qualified parameter or buffer name, as in state_dict; TAPE_CONST: the name that
							its values are given under (runner_given.for_const), or NULL */
	const uint8_t *data; /* TAPE_CONST: contents, `bytes` of them */
};

/* offset_bytes and the strides (in elements, >= 0) keep every element inside the buffer: checked by
 * tape_parse. */
struct tape_view {
	int buffer;
	int64_t offset_bytes;
	enum dtype dtype;
	int ndim;
	int64_t shape[TAPE_DIMS_MAX];
	int64_t stride[TAPE_DIMS_MAX]; /* in elements */
};

/* A tensor descriptor that the host made. In the IR it is 1 + 2 n arguments: itself, then the n
 * sizes of view (i32), then its n strides in elements (i64). */
struct tape_descriptor {
	struct tape_view view;                   /* 1 to 5 dimensions, the last with stride 1, 16-byte steps */
	int32_t block[TAPE_DESCRIPTOR_DIMS_MAX]; /* (view.ndim): powers of two */
	bool nan_padding;                        /* what lies outside is NaN, not 0 */
};

enum tape_arg_kind { TAPE_ARG_POINTER, TAPE_ARG_INT, TAPE_ARG_FLOAT, TAPE_ARG_DESCRIPTOR, TAPE_ARG_VALUE };
struct tape_arg {
	enum tape_arg_kind kind;
	int buffer;           /* pointer, descriptor, value */
	int64_t offset_bytes; /* pointer, value; descriptor: of its base */
	enum dtype dtype;     /* value: of the element, a float */
	int64_t i;            /* int */
	double f;             /* float */
	const struct tape_descriptor *descriptor;
};

struct tape_kernel {
	const char *name;
	const char *ttir;
	size_t ttir_len;
	/* Options that reach the machine code. */
	int num_warps;
	int num_stages;
	int num_ctas;            /* blocks of a cluster that make one program */
	int maxnreg;             /* registers of a thread at most; 0: the compiler's own choice */
	bool no_fp_fusion;       /* products and sums are not fused */
	bool no_reflect_ftz;     /* libdevice keeps subnormal numbers */
	const char *ptx_options; /* more words for ptxas, one space between two; NULL: none */
	/* Options that reach the launch. */
	bool is_cooperative;    /* all programs are resident at once */
	bool is_pdl;            /* programmatic dependent launch: may start before the launch in front of it ended */
	const char *source;     /* what the IR can be made from again (worker/tracer_source.py), or NULL */
	struct sha256_hex hash; /* of ttir and options: the key of the compile cache */
};

enum tape_row_kind {
	TAPE_LAUNCH,
	TAPE_FILL,
	TAPE_COPY,
	TAPE_LIBRARY,
	TAPE_RECORD, /* event: all rows before it on its stream */
	TAPE_WAIT,   /* what follows on its stream waits for the event's last record row */
	TAPE_ROW_KIND_COUNT
};
struct tape_row {
	enum tape_row_kind kind;
	int line;   /* candidate's source line, 0 when unknown: for messages only */
	int stream; /* 0: the default one. Rows of one stream run in order */
	int event;  /* record, wait */
	int kernel;
	uint32_t grid[3];
	bool has_allocator; /* launch of a kernel that makes descriptors: the host had given Triton an allocator */
	int nargs;
	struct tape_arg *args; /* launch: arguments of the IR's function, in order */
	struct tape_view dst;  /* fill and copy */
	struct tape_view src;  /* copy: of dst's shape */
	double fill;           /* fill: the value */
	int64_t fill_int;      /* fill: the value, for integer types, exactly */
	const char *op;        /* library: torch's name of the operator */
	int nreads;
	int nwrites;
	struct tape_view *reads;  /* library: (nreads) */
	struct tape_view *writes; /* library: (nwrites) */
	const json_t *op_args;    /* library: the call's arguments; tensors as {"view": index into reads} */
};

struct tape {
	struct arena arena;
	json_t *json; /* kept alive: strings point into it */
	int nbuffers;
	struct tape_buffer *buffers;
	int nkernels;
	struct tape_kernel *kernels;
	int nrows;
	struct tape_row *rows;
	int noutputs;
	struct tape_view *outputs;
	int nstreams;           /* 1 + the highest number used */
	int nevents;            /* likewise */
	struct sha256_hex hash; /* of the canonical text: equal tapes have equal hashes */
};

/* Parses and validates. On failure *out is untouched; ERR_FORMAT, ERR_RANGE or ERR_LIMIT, text
 * names the field (rows[3].grid[0]). */
int tape_parse(const char *text, size_t len, struct tape **out, struct err *err);
void tape_free(struct tape *t);
/* The hash of what a tape does: without lines, IR locations, recipes and numbers of
 * configurations, and with buffers in the order of their first use, so that the same program
 * written elsewhere has the same. */
struct sha256_hex tape_program_hash(const struct tape *t);
int64_t tape_view_elements(const struct tape_view *v);
/* A shape or an index as "[3, 17]"; and the index of an element that is counted in row-major
 * order. */
void tape_dims_text(int ndim, const int64_t *dims, char *text, size_t len);
void tape_index_text(int ndim, const int64_t *shape, int64_t element, char *text, size_t len);
bool tape_view_is_contiguous(const struct tape_view *v);
/* Where a library row's operands lie when they are handed to whoever computes it: the reads, then
 * the writes, each dense in row-major order and 64-byte aligned. offset: (nreads + nwrites), or
 * NULL. Returns the bytes of all. */
int64_t tape_library_layout(const struct tape_row *r, int64_t *offset);
/* A kind that touches no memory. */
static inline bool tape_row_is_order(enum tape_row_kind k) { return k == TAPE_RECORD || k == TAPE_WAIT; }
/* Arguments of the IR's function that a launch row's argument stands for. */
static inline int tape_arg_width(const struct tape_arg *a)
{
	return a->kind == TAPE_ARG_DESCRIPTOR ? 1 + 2 * a->descriptor->view.ndim : 1;
}
/* What a value is, from the bytes of its buffer. */
double tape_arg_value(const struct tape_arg *a, const uint8_t *data);
/* Whether some argument is a value of this buffer. */
bool tape_has_value_of(const struct tape *t, int buffer);
/* Memory that the launch reaches: a value's was read before it. */
static inline bool tape_arg_has_buffer(const struct tape_arg *a)
{
	return a->kind == TAPE_ARG_POINTER || a->kind == TAPE_ARG_DESCRIPTOR;
}
static inline uint64_t tape_buffer_address(int buffer) { return (uint64_t)(buffer + 1) << TAPE_ADDRESS_SHIFT; }

/* ---- lineage ---- */

/* Who wrote the bytes last: nobody; an input, parameter, constant or fill; a launch; torch. */
enum tape_origin { TAPE_ORIGIN_NONE, TAPE_ORIGIN_GIVEN, TAPE_ORIGIN_KERNEL, TAPE_ORIGIN_LIBRARY };

/* on_path[r] is true where row r can influence an output: walked backwards at buffer level, a
 * launch reads and writes all its pointer arguments' buffers (an over-approximation, so nothing
 * escapes it). */
void tape_data_path(const struct tape *t, bool *on_path /* (nrows) */);

enum tape_lineage {
	TAPE_LINEAGE_OK,
	TAPE_LINEAGE_NO_LAUNCH,
	TAPE_LINEAGE_LIBRARY,
	TAPE_LINEAGE_OUTPUT_NOT_FROM_KERNEL,
	TAPE_LINEAGE_OUTPUT_UNWRITTEN,
	TAPE_LINEAGE_COUNT
};
/* Reason codes: "no-launch", "library-row", "output-not-from-kernel", "output-unwritten". */
const char *tape_lineage_reason(enum tape_lineage l);
/* What can be judged before anything runs: that no launch is on the data path, or that a library
 * row is (the first one in *row). */
enum tape_lineage tape_lineage_static(const struct tape *t, int *row);
/* The output that a lineage speaks of, and what of it nobody wrote. */
struct tape_place {
	int output;        /* -1: none */
	int64_t unwritten; /* elements with a byte that nobody wrote */
	int64_t first;     /* of these, counted in row-major order */
};
/* After a replay: origin[b] is the tag array of buffer b, one byte per byte. Looks at every byte of
 * every output. may_be_given: a bit for each output that needs no kernel, since the reference
 * itself passes it through or makes it of constants. */
enum tape_lineage tape_lineage_outputs(
	const struct tape *t, uint8_t *const *origin, uint64_t may_be_given, struct tape_place *place);
#endif
