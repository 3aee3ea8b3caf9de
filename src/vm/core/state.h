/* state: one running program: its values, the memory that its launch may touch, and where its
 * faults go. Private to the vm room; below everything that runs, checks or counts.
 *
 * At run time a value has one of these forms:
 *   dense   a buffer of elements, reference-counted, immutable once two values share it (so moves
 *           and reshapes never copy)
 *   splat   one element that stands for all; every scalar is a splat
 *   affine  integers and pointers base + sum(index[d] * stride[d]), what make_range, splat,
 *           broadcast and addptr make: nothing is stored, and a load through such a pointer is a
 *           check of two corners and a memcpy of rows
 *   box     an i1 block that is true inside a box lo <= index < hi: what comparing an affine block
 *           with a scalar makes
 * Affine and box values are turned into buffers only where an operation needs elements; they keep
 * their form beside the buffer. */
#ifndef HONE_VM_STATE_H
#define HONE_VM_STATE_H
#include "cost/cost.h"
#include "ttir/ttir.h"
#include "vm/core/program.h"

#define VM_LAZY_DIMS 4                            /* affine and box blocks have at most this many dimensions */
#define VM_ARENA_BYTES_MAX ((size_t)1 << 29)      /* block buffers of one running program */
#define VM_STRIP 512                              /* elements converted at a time */
/* Element operations between two looks at the clock; a scalar one takes as long as hundreds in a
 * block. */
#define VM_FUEL ((int64_t)1 << 18)

enum form { FORM_DENSE, FORM_SPLAT, FORM_AFFINE, FORM_BOX };
struct vm_buf {
	struct vm_buf *next; /* in the list of free ones */
	int32_t refs;
	int32_t size_class;
	uint8_t pad[48];
	uint8_t data[]; /* 64-byte aligned */
};
struct affine {
	int64_t base;
	int64_t stride[VM_LAZY_DIMS];
};
struct box {
	int32_t lo[VM_LAZY_DIMS];
	int32_t hi[VM_LAZY_DIMS];
};
/* Whether it has all elements of a block of that shape. */
static inline bool vm_box_is_full(const struct box *b, const struct vm_value_info *info)
{
	for (int d = 0; d < info->ndim; d++)
		if (b->lo[d] > 0 || b->hi[d] < info->shape[d]) return false;
	return true;
}
struct vm_value {
	enum form form;
	struct vm_buf *buf; /* dense; other forms: the elements once something needed them */
	union {
		uint8_t splat[8];
		int64_t splat_int;
		struct affine affine;
		struct box box;
	};
};

struct vm_memory {
	uint64_t index_max;
	const struct vm_buffer **by_index; /* of an address: by_index[address >> TAPE_ADDRESS_SHIFT] */
	const struct vm_buffer *buffers;
	int nbuffers;
	bool has_host_pointers;
};

/* The buffer with addresses of this index (address >> TAPE_ADDRESS_SHIFT), or NULL. */
static inline const struct vm_buffer *vm_buffer_at(const struct vm_memory *m, uint64_t index)
{
	return index <= m->index_max ? m->by_index[index] : NULL;
}

/* Where a buffer's bytes are from an offset on: at least a period of them, where it has one. */
static inline uint8_t *vm_buffer_data(const struct vm_buffer *b, int64_t offset, bool is_write)
{
	if (!b->period) return b->data + offset;
	return b->data + (offset & (b->period - 1)) + (is_write ? 2 * b->period : 0);
}

struct vm_check;
struct vm_spin {
	const struct vm_instr *jump;
	uint64_t version; /* of memory, at the jump */
	uint64_t polls;   /* so far, at the jump */
	uint64_t hash;    /* of the program's values */
	int64_t turns;
};
#define VM_SPINS 8

/* What a launch with checks found, one for each kind and place (fault.c). */
struct finding_key {
	int32_t loc;
	uint8_t fault;        /* enum vm_fault */
	uint8_t note;         /* enum vm_note */
	int64_t last_program; /* that it was found in: each program counts once */
};
struct vm_findings {
	int max; /* findings that are kept */
	int count;
	struct vm_finding *list;
	int64_t dropped; /* at places beyond max */
	struct finding_key *keys;
	struct vm_finding *last; /* just added or counted; NULL when it was dropped */
	int64_t program;         /* number of the running one */
};

/* What the compiled code says of an access, where a launch has it: which thread has which lane, as
 * a hash (0: not known); how many turns of its loop a load is made ahead of its place; whether some
 * load is; whether it is done by the unit that copies boxes of a tensor. */
struct vm_code {
	uint64_t threads;
	int ahead;
	bool has_pipeline;
	bool is_bulk;
};

/* Atomics of a program that are on their way: relaxed ones whose result nobody
 * uses (exec_atomic.c). */
#define VM_LATE_MAX 64
struct vm_late {
	bool takes; /* the next such atomic */
	int n;
	int meetings; /* atomics of the program since the first of these */
	struct vm_late_item {
		uint8_t *at;      /* where it arrives */
		uint64_t index;   /* of its buffer */
		uint8_t value[8]; /* its operand */
		uint8_t elem;     /* enum elem of that */
		uint8_t kind;     /* what it does with it (lower_memory.c, rmw_names) */
	} items[VM_LATE_MAX];
};

struct vm_ctx {
	const struct vm_kernel *kernel;
	const struct vm_program *program;
	const struct vm_instr *next; /* instruction to run after the current one */
	struct vm_value *values;
	int64_t lanes; /* elements of a region's values */
	uint32_t id[3];
	uint32_t grid[3];
	const struct vm_arg *args;
	const struct vm_memory *memory;
	uint64_t deadline_ns;
	int64_t fuel;
	struct vm_buf *free_bufs[32];
	size_t arena_bytes;
	bool want_cost;
	bool undefined_is_zero;
	bool crosswise;
	bool counts_region;   /* want_cost is off inside a function; its instructions count all the same */
	uint64_t sizes;       /* of the launch: its scalar arguments, as a hash */
	bool ignores_asserts; /* of a sampled launch: its values are nobody's */
	FILE *print;
	struct vm_cost *cost;     /* per line row; NULL unless want_cost */
	uint8_t *const *read_map; /* one byte per 32-byte granule of each buffer index; NULL unless want_cost */
	uint8_t *const *write_map;
	struct vm_meter *meter; /* NULL unless want_cost */
	struct vm_report *report;
	struct vm_report *passed_over; /* the first load in the rest of a buffer's granule */
	int64_t load_granule;
	struct vm_findings *found; /* NULL unless the launch has checks, as check is */
	struct vm_check *check;
	const uint8_t *watch;         /* of the program's plan; NULL unless the launch follows lanes (overflow, division) */
	struct vm_coverage *coverage; /* NULL unless sides are to be recorded */
	struct vm_aim *aim;           /* NULL unless the lanes of one site are followed */
	struct vm_missed *missed;     /* NULL unless it is asked what is left out */
	uint32_t collectives;         /* operations so far in which all threads of the program exchange values */
	uint32_t turns;               /* jumps back so far: turns of the program's loops */
	uint32_t entered;             /* `turns` as the loop of the last jump back was entered */
	const struct vm_instr *jumped; /* that jump */
	bool is_tainted;               /* some lane is being followed: every instruction is looked at */
	bool yields;          /* a program that waits for another is no fault: others are resident (vm_schedule.c) */
	bool is_waiting;      /* it says so by this */
	struct vm_late *late; /* NULL unless programs take turns */
	uint64_t version;     /* how often memory changed */
	uint64_t polls;       /* how often an atomic looked at it */
	const struct vm_instr *polled; /* the last that did */
	struct vm_spin spins[VM_SPINS];
};

static inline int32_t vm_src(const struct vm_ctx *c, const struct vm_instr *in, int i)
{
	return c->program->ids[in->src + i];
}
static inline int32_t vm_dst(const struct vm_ctx *c, const struct vm_instr *in, int i)
{
	return c->program->ids[in->dst + i];
}

/* ---- faults and findings (fault.c) ---- */

/* Stops the program: 1. The launch's first fault is the report's; with
 * checks it is a finding too. */
int vm_fault(struct vm_ctx *c, const struct vm_instr *in, enum vm_fault fault, int64_t element, const char *fmt, ...)
	__attribute__((format(printf, 5, 6)));
/* A finding that stops nothing; NULL where no list is kept. */
struct vm_finding *vm_note(struct vm_ctx *c, const struct vm_instr *in, enum vm_note note, int64_t element,
	const char *fmt, ...) __attribute__((format(printf, 5, 6)));
/* Says where the last finding happened in memory. */
void vm_finding_where(struct vm_ctx *c, uint64_t index, int64_t offset);
const char *vm_buffer_name(const struct vm_ctx *c, uint64_t index, char text[96]); /* "x_ptr", or "buffer 3" */

/* ---- values (values.c) ---- */

/* A buffer of at least `bytes`, refs 1, contents undefined; NULL after a fault when the arena is
 * full. */
struct vm_buf *vm_buf_get(struct vm_ctx *c, const struct vm_instr *in, size_t bytes);
void vm_buf_put(struct vm_ctx *c, struct vm_buf *b);
void vm_value_clear(struct vm_ctx *c, struct vm_value *v);
/* The value becomes what the buffer holds; the buffer is its own from then on. */
void vm_value_dense(struct vm_ctx *c, int id, struct vm_buf *b);
void vm_value_share(struct vm_ctx *c, struct vm_value *to, const struct vm_value *from);
/* The value's elements; splat, affine and box values get a buffer beside their form. NULL after a
 * fault. n: elements. */
const void *vm_dense(struct vm_ctx *c, const struct vm_instr *in, int value, int64_t n);
void vm_kill(struct vm_ctx *c, const struct vm_instr *in);
/* New buffer for result i of count elements; the value becomes dense. */
void *vm_result(struct vm_ctx *c, const struct vm_instr *in, int i, int64_t n);
void vm_result_splat(struct vm_ctx *c, const struct vm_instr *in, int i, const void *bits);
/* Element i of integers, sign-extended. */
static inline int64_t vm_int_at(enum elem e, const void *p, int64_t i)
{
	switch (e) {
	case ELEM_I1:
	case ELEM_I8: return ((const int8_t *)p)[i];
	case ELEM_I16: return ((const int16_t *)p)[i];
	case ELEM_I32: return ((const int32_t *)p)[i];
	default: return ((const int64_t *)p)[i];
	}
}
/* A float's value from its bits. */
double vm_float_of(enum elem e, const void *bits);
/* Whether a value is an integer or pointer that is splat or affine; a: its form. */
bool vm_affine_of(const struct vm_ctx *c, int value, struct affine *a);
/* Makes result 0 affine (a splat when all strides are zero) if every element fits its type; false:
 * not done. */
bool vm_result_affine(struct vm_ctx *c, const struct vm_instr *in, const struct affine *a);
bool vm_affine_range(const struct vm_value_info *info, const struct affine *a, int64_t *min, int64_t *max);
/* d, contiguous, from n elements `step` apart. */
void vm_copy_row(uint8_t *d, const uint8_t *s, int64_t step, int64_t n, size_t size);
/* d, contiguous of the given shape, from s with strides in elements (0 repeats). */
void vm_copy_strided(
	uint8_t *d, const int32_t *shape, int ndim, const uint8_t *s, const int64_t *stride, size_t elem_size);
void vm_fill(void *d, const void *bits, size_t elem_size, int64_t n);
void vm_ctx_init(struct vm_ctx *c, const struct vm_kernel *k, const struct vm_program *p);
void vm_ctx_release(struct vm_ctx *c);

/* ---- reader.c ---- */
/* One operand as doubles, a strip at a time. */
struct vm_reader {
	const uint8_t *data;
	enum elem elem;
	bool is_splat;
	double strip[VM_STRIP];
};
/* n: of a block; false after a fault. */
bool vm_reader_make(struct vm_ctx *c, const struct vm_instr *in, int operand, int64_t n, struct vm_reader *r);
/* m elements from element `at` on. */
const double *vm_reader_strip(struct vm_reader *r, int64_t at, int64_t m);
#endif
