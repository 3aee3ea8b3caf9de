/* runner: hone-runner, the clean C process that replays tapes, and the words that it and the verify
 * room exchange.
 *
 *   hone-runner LEVEL MEMORY_BYTES [template | cuda:N [exact | under TOOL WORD...]], socket as
 *   descriptor 3, messages in base's framing, one JSON object each. Without a GPU rows run on the
 *   vm; exact: without canaries and poison. under: TOOL starts the runner proper, exact and
 *   at level none, and watches it; what LEVEL gives, namespaces, is around both. template:
 *   forks runners for orders on descriptor 3 (sandbox_template_serve), of which the first
 *   descriptor is the runner's.
 *     runner      {"ready": true, "device": {...struct runner_device...}}  or  {"failed": text}
 *                 once, after it entered the sandbox; before that it reads nothing
 *     supervisor  {"load": {"bytes": N, "binaries": [...struct runner_binary...]}}
 *                 + descriptors: memfd with the tape's text; for a GPU, memfd with the binaries
 *     runner      {"loaded": {"tf32_line": L, "order_line": L, "narrow_line": L, "data_line": L,
 *                             "fp8_line": L}}
 *                 or  {"fault": {...}}
 *                 of a tf32 dot on fp32 operands, of what may depend on an order, of what rounds
 *                 fp32 to less, of what makes costs depend on data, of a sum of fp8 products in the
 *                 tensor core; -1 when there is none (a GPU's runner never says)
 *     supervisor  {"trial": {...struct runner_trial...}}
 *                 + descriptors: memfd with the given data, memfd for the outputs and, where
 *                 library rows are to be computed, memfd for their operands. GPU only: the first
 *                 two may be memory on it that another process exported (shared_given_bytes)
 *     runner      {"begun": true}     what was given is in place: the candidate's time begins
 *     runner      {"library": row}    a row of the tape, whose reads lie in the memfd for operands
 *     supervisor  {"library": true}     its writes lie there
 *                 or  {"failed": text}  it cannot be computed
 *     runner      {"clock": {"ns": N}}    GPU only, of a trial that is timed, after the rows ran:
 *                 what the last question's answer is (0 before the first)
 *     supervisor  {"clock": "span"}       the next question (enum runner_clock), or "end"
 *     runner      {"trial": {...struct runner_result...}}
 *     supervisor  {"price": {...struct runner_trial, without data...}}      vm only
 *                 + descriptor: memfd with a tape's text, which is not the loaded one
 *     runner      {"trial": {...struct runner_result...}}     costs alone, from samples of each
 *                 launch's programs on memory by offset; a fault where they cannot be told
 *     supervisor  {"proof": {"seed", "ms"}}      vm only
 *                 + descriptors: memfds with a tape's text, with {"graphs": [...], "names": [...]},
 *                 and for each graph with its inputs and parameters and with its tables (prove.h)
 *     runner      {"proof": {...struct prove_result...}}  or  {"proof": {"failed": text}}
 *     supervisor  {"reset": {}}       GPU only: the candidate is done, the next one's loads follow
 *     runner      {"ready": true}     everything of it is gone, and the GPU answered; else it ends
 * Any number of loads and trials, all of one candidate up to a reset; the end of the stream ends
 * the process. A load replaces the tape; kernels that were seen before are not parsed again. A
 * fault on a GPU can leave its context useless: the runner answers with the fault and ends.
 *
 * The runner never sees expected values. Whoever controls it could fake outputs but not know what
 * to fake: the supervisor treats its messages as untrusted data. */
#ifndef HONE_RUNNER_H
#define HONE_RUNNER_H
#include "base/base.h"
#include "base/dtype.h"
#include "cost/cost.h"
#include "tape/tape.h"
#include "vm/vm.h"

#define RUNNER_MESSAGE_BYTES_MAX ((size_t)64 << 20)
#define RUNNER_TTGIR_BYTES_MAX ((size_t)32 << 20) /* of all kernels of a trial together */
#define RUNNER_SITES_MAX 512
#define RUNNER_PLACED_MAX 2048 /* elements that a search of inputs changes */

/* Where one input or parameter lies in the given memfd. name: parameters only. may_change: the
 * reference itself modifies it, so a kernel may too. for_const: the values of the tape's *constant*
 * of this name (a parameter that the candidate calls otherwise). */
struct runner_given {
	const char *name;
	int64_t offset;
	int64_t bytes;
	bool may_change;
	bool for_const;
	int64_t read_offset; /* parameters: where their last contents go in the outputs memfd; -1: nowhere */
	enum dtype dtype;    /* inputs, as the oracle says: the supervisor's alone; DTYPE_COUNT: no type of a tape's */
};
/* A side that no trial took so far, of a site that a trial of this tape reported. */
#define RUNNER_AIMS_MAX 16
struct runner_aim {
	int site;
	enum vm_side side;
	double constant; /* that it compares with; NaN: none */
	bool is_pole;    /* it is searched for twice, so that two numbers meet it */
};
struct runner_trial {
	int ninputs;
	struct runner_given *inputs;
	int nparams;
	struct runner_given *params;
	int64_t output_offset[TAPE_OUTPUTS_MAX]; /* of each output in the outputs memfd, dense row-major */
	bool want_cost;                          /* costs are counted */
	bool crosswise;                          /* reductions combine in the vm's second order */
	bool is_unchecked;                       /* as a GPU runs it: no race is looked for */
	bool is_overlapped;         /* on a GPU: rows are queued on the tape's own streams and nothing waits in between */
	bool is_timed;              /* on a GPU: questions of time follow; the outputs given back are the last replay's */
	int64_t shared_given_bytes; /* on a GPU: the two descriptors are memory on it, which another process shares; 0: they
								   are memfds */
	int64_t shared_outputs_bytes;
	int deadline_ms; /* for the whole replay; of one that is timed, for each question */
	/* want_cost: what costs are counted with. */
	const json_t *compiled; /* the compile worker's result for each kernel of the tape, or NULL: borrowed */
	const char *gpu;        /* the card whose costs they are, of the table; needed where costs are asked for */
	uint64_t may_be_given;  /* outputs that need no kernel: tape_lineage_outputs */
	uint64_t seed;          /* of a price: which programs run */
	bool want_coverage;     /* on the vm: which sides of their comparisons on data kernels take */
	int naims;              /* want_coverage: for these sides inputs are searched behind the trial */
	struct runner_aim aims[RUNNER_AIMS_MAX];
	int aim_replays;      /* for all of them together */
	int64_t aim_programs; /* of each launch, where there is one alone */
	bool is_search;       /* want_coverage: inputs were searched for the sides that they take */
	bool want_missed;     /* want_coverage: which elements of what was given launches do not use */
	bool want_turned;     /* want_coverage: gates are turned behind the trial, to see whether outputs hang on them */
};

/* What a supervisor asks of a launcher that has a clock, in any order and as often as it likes.
 *   span     from the first row's start to the last one's end, all rows queued behind
 *            a gate, with cold caches
 *   wall     the host's clock from before the first row is queued until the last one's
 *            end is seen, cold caches
 *   paper    the mean of 100 replays after 10, back to back and warm, each between two events
 *   empty    a span with no rows: what the clock itself costs
 *   control  a span of the launcher's own work, which reads memory and multiplies: the same on the
 *            same machine in the same state, whatever the tape */
#define RUNNER_CLOCK_TABLE(X) \
	X(RUNNER_SPAN, "span") X(RUNNER_WALL, "wall") X(RUNNER_PAPER, "paper") X(RUNNER_EMPTY, "empty") \
	X(RUNNER_CONTROL, "control") X(RUNNER_END, "end")
#define X(e, t) e,
enum runner_clock { RUNNER_CLOCK_TABLE(X) RUNNER_CLOCK_COUNT };
#undef X
const char *runner_clock_name(enum runner_clock c);
int runner_clock_find(const char *name, enum runner_clock *out); /* 0, or ERR_NOT_FOUND */
#define RUNNER_PAPER_WARM_UP 10
#define RUNNER_PAPER_REPEATS 100

/* What the runner runs on. A GPU's figures are the driver's. */
struct runner_device {
	char name[64];        /* "vm", or the GPU's: "NVIDIA H200" */
	char uuid[48];        /* "GPU-...", "" for the vm: which of several alike it is */
	int clock_khz;        /* limit of its multiprocessors', not what it is at the moment */
	int memory_clock_khz; /* limit of its memory's */
	int capability;       /* 90; 0 for the vm */
	int sms;
	int64_t shared_bytes; /* of one block at most */
	int64_t memory_bytes;
	int driver; /* CUDA version that the driver knows: 13000 */
};

/* One host tensor descriptor of a kernel, as the compiler lowered it to a tensor map. */
struct runner_tensor_map {
	int swizzle;
	int element_bytes;
	int element_type; /* as the driver numbers them */
	int ndim;
	int block[TAPE_DESCRIPTOR_DIMS_MAX];
	bool is_fp4_padded;
};
/* A kernel of the tape compiled for the GPU (docs/worker-protocol.md, compile): where it lies among
 * the binaries, and what its launch needs. */
struct runner_binary {
	const char *name;
	int64_t offset;
	int64_t bytes;
	int num_warps; /* warp specialisation has more than the tape's */
	int64_t shared_bytes;
	int64_t global_scratch_bytes;  /* for each program's cluster member */
	int64_t profile_scratch_bytes; /* for each program's cluster member */
	int nargs;
	const char *args[TAPE_ARGS_MAX]; /* types of the IR's function: "*f32", "i32", "f32", "!tt.tensordesc<...>" */
	int nmaps;                       /* 0: descriptors are passed as base, sizes, strides and padding */
	struct runner_tensor_map maps[TAPE_ARGS_MAX / 3];
};
struct runner_binaries {
	const uint8_t *data;
	int64_t bytes;
	int count; /* the tape's kernels; 0 for the vm */
	struct runner_binary *binaries;
};
enum runner_question { RUNNER_TF32, RUNNER_ORDER, RUNNER_NARROW, RUNNER_DATA, RUNNER_FP8 };

/* Why a load or a trial stopped. code is a vm fault's name (vm_fault_name), or one of
 *   bad-tape         the tape does not parse, or does not fit the given data (sizes, names)
 *   bad-ir           a kernel's IR does not parse
 *   unsupported-op   the IR, or a row, has an operation that is not known here
 *   memory           buffers over the bound
 *   slow             the trial's time was spent, but programs and rows were ending
 *   library-row      a torch operator stands on the data path, and nobody computes it
 *   input-modified   a row wrote to an input that the reference leaves alone
 *   param-modified   likewise to a parameter
 *   race             nothing orders two rows that use the same memory (also
 *                    the vm's, inside a launch)
 *   canary           memory around a buffer changed: on the vm our own bug, on a GPU a kernel's
 *   gpu-fault        a GPU's own error: an instruction that cannot be executed
 *   out-of-resources more registers, shared memory or programs at once than the GPU has
 *   gpu-lost         the GPU does not answer any more
 *   no-room          a GPU's memory is used by others
 *   bad-binary       the driver does not take the binary, or it does not fit the tape
 *   unshared         memory that another process shares cannot be mapped here
 *   unknown-card     costs are asked for, of no card of the table */
#define RUNNER_SLOW "slow"
struct runner_fault {
	char code[32];
	char text[1024];
	int line; /* of the candidate; 0: not known */
	int row;  /* of the tape; -1: no row's */
};

struct runner_row_cost {
	int row;
	enum tape_row_kind kind;
	int64_t programs; /* this and the next six: as struct vm_cost has them; bytes: loads and stores together */
	int64_t bytes;
	int64_t sectors;
	int64_t flops;
	int64_t special;
	int64_t dot_flops;
	int64_t footprint_bytes;
	int kernel;            /* of a launch: into the tape's kernels */
	struct vm_cost counts; /* of a launch and of a copy: what the predicted time is made from */
	int64_t sampled;       /* of a launch: programs that ran for these counts */
	double error;          /* of a launch: relative standard error of the counts; 0: exact */
	char *reached;         /* of a launch: vm_report.reached; heap, or NULL */
};
/* Distinct bytes of one buffer of the tape that all launches together read and wrote: at most so
 * many, where launches were sampled. Movement rows count whole. */
struct runner_touched {
	int64_t read;
	int64_t written;
};
struct runner_line_cost {
	int line; /* of the candidate */
	int64_t bytes;
	int64_t sectors; /* of 32 bytes */
	int64_t flops;
};
/* A site of a kernel of the tape; struct vm_site's fields. least, most,
 * nearest: of this trial; NaN where nothing was seen. */
struct runner_site {
	int id; /* the same in every trial of a tape */
	int kernel;
	int line;
	int column;
	enum vm_site_kind kind;
	bool is_equality;
	bool is_one_value; /* a gate (vm.h) that gave one value in all trials so far */
	uint8_t wanted;
	uint8_t taken;
	double low;
	double high;
	double constant;
	double least;
	double most;
	double nearest;
	int nfixed; /* what it compares with, where the text does not say it */
	double fixed[VM_FIXED_MAX];
	char what[32];
};
/* An element of an input or parameter, and the bits that it should have. */
struct runner_placed {
	int input;            /* -1: a parameter */
	int64_t param_offset; /* of the parameter in what the trial was given */
	int64_t element;
	int size; /* bytes */
	uint64_t bits;
	int aim; /* of the trial's, that is met with it; a pole's second search counts from RUNNER_AIMS_MAX on */
};
/* An element of an input or parameter that launches leave out, or single out by an index. */
#define RUNNER_MISSED_MAX 64
struct runner_missed {
	uint64_t name;        /* the launcher's: an address of the tape. The rest follows from it: */
	int input;            /* -1: a parameter */
	int64_t param_offset; /* as in struct runner_placed */
	int64_t element;
	int size; /* bytes */
	int line; /* of the candidate */
};
struct runner_coverage {
	int sides; /* over all sites of the tape's kernels */
	int taken; /* of them, in all trials so far */
	int nsites;
	struct runner_site *sites; /* heap; the first RUNNER_SITES_MAX */
	int nplaced;
	struct runner_placed *placed; /* heap: with these the trial takes sides that were aimed at */
	int nmissed;
	struct runner_missed *missed; /* want_missed: heap */
	int nsmall;
	double small[VM_SMALL_MAX]; /* want_missed: numbers next to nothing that launches add to data */
	int gate_line;              /* of a gate of the kernels (vm.h) that no trial so far has opened; 0: none */
	bool gate_matters;          /* want_turned: an output is another where the gates are */
};
struct runner_result {
	bool has_fault;
	struct runner_fault fault;
	bool has_lineage; /* the launcher keeps origin tags */
	enum tape_lineage lineage;
	struct tape_place place; /* the output that lineage speaks of */
	int ncosts;
	struct runner_row_cost *costs; /* want_cost: one for each row that ran; heap */
	int nlines;
	struct runner_line_cost *lines; /* want_cost: heap */
	int ntouched;
	struct runner_touched *touched; /* want_cost: for each buffer of the tape; heap */
	int64_t run_ns;                 /* of the whole replay */
	int64_t memory_bytes;           /* of a GPU's: all buffers of the tape, and its launches' scratch */
	char untimed[128];              /* why a tape that was to be timed was not: no question came */
	struct runner_coverage coverage;
};
void runner_result_release(struct runner_result *r);

json_t *runner_trial_json(const struct runner_trial *t, int noutputs);
/* out's strings point into o; release with runner_trial_release. */
int runner_trial_parse(const json_t *o, int noutputs, struct runner_trial *out, struct err *err);
void runner_trial_release(struct runner_trial *t);
json_t *runner_result_json(const struct runner_result *r);
int runner_result_parse(const json_t *o, struct runner_result *out, struct err *err);
/* A result against the tape that it is of: ERR_FORMAT where it speaks of rows, kernels, buffers or
 * outputs that the tape has not. Behind it the result's numbers are places in the tape. */
int runner_result_check(const struct runner_result *r, const struct tape *t, struct err *err);
json_t *runner_fault_json(const struct runner_fault *f);
int runner_fault_parse(const json_t *o, struct runner_fault *out, struct err *err);

/* The "binaries" of a load, and back. Strings of out point into o; release
 * with free(out->binaries). */
json_t *runner_binaries_json(const struct runner_binary *b, int count);
int runner_binaries_parse(const json_t *list, int64_t bytes, struct runner_binaries *out, struct err *err);
json_t *runner_device_json(const struct runner_device *d);
int runner_device_parse(const json_t *o, struct runner_device *out, struct err *err);

/* Bytes that an output takes in the outputs memfd: dense, rounded up to 64. */
int64_t runner_output_bytes(const struct tape_view *v);
#endif
