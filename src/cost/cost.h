/* cost: what a launch costs on a GPU. Counts come from the vm (vm_launch, want_cost); layouts and
 * resources from the real compile of the same IR; the predicted time and the limiting resource from
 * both and a row of the table of GPUs. docs/cost-model.md has the formula and where it misleads.
 *
 *   struct vm_compiled *compiled;                a result of the compile worker: the one way to it,
 *   vm_compiled_create(result, gpu, &compiled, &err);     so that what was validated is what pays
 *   vm_launch(k, &(struct vm_launch_options){..., .want_cost = true, .compiled = compiled}, ...);
 *   struct vm_estimate e = vm_estimate(&report.cost, &compiled->binary, gpu);
 *   vm_cost_table(&text, name, &launch_cost, &compiled->binary, gpu);      or vm_cost_json
 *
 * All texts are hostile. Threading: everything here is a function of its arguments; a compiled is
 * immutable after create. */
#ifndef HONE_COST_H
#define HONE_COST_H
#include "base/base.h"
#include "base/dtype.h"
#include <math.h>

/* What computes a tt.dot. */
enum vm_dot {
	VM_DOT_FMA,  /* fp32 or fp64 pipes */
	VM_DOT_TF32, /* tensor cores, on tf32 */
	VM_DOT_HALF, /* on types of 16 bits */
	VM_DOT_BYTE, /* of 8 bits */
	VM_DOT_COUNT
};

/* What a launch may do of which nobody can tell how long it takes. */
#define VM_UNTIMED_TABLE(X) \
	X(SLEEP, "it sleeps for a time that only the data tells") \
	X(PRINT, "it prints") \
	X(ASSEMBLER, "ptx_options ask ptxas for other code than the one whose instructions are counted") \
	X(ORDER, "its programs wait for each other, and how long was too much to find out")
#define X(id, why) VM_UNTIMED_##id,
enum vm_untimed { VM_UNTIMED_TABLE(X) VM_UNTIMED_COUNT };
#undef X

/* Counts of one launch. Sectors are 32 bytes; a load or store of a program counts, for each
 * instruction of a warp, the distinct sectors that its active lanes touch: which elements those are
 * is the block's layout (layouts below), by default a row-major one with up to 16 bytes a lane. */
struct vm_cost {
	int64_t programs;
	int64_t load_bytes; /* asked for by active lanes */
	int64_t store_bytes;
	int64_t load_sectors;
	int64_t store_sectors;
	int64_t atomics;   /* elements of active lanes */
	int64_t flops;     /* element-wise and reduction floating-point operations; fma 2; transcendental 1, also counted in
						  `special` */
	int64_t special;   /* exp, log, sin, sqrt, division ... */
	int64_t dot_flops; /* 2 M N K of tt.dot */
	int64_t footprint_bytes; /* distinct bytes read plus distinct bytes written in this launch (32-byte granules); 0
								unless want_cost */
	/* What the GPU's units do, for the estimate below. Instructions are a warp's; a block that is
	 * smaller than the program's threads costs as much as one that is not. */
	int64_t flops_half;   /* of flops: on types of 16 bits and less */
	int64_t flops_double; /* of flops: on fp64 */
	int64_t int_ops;      /* on integer blocks whose elements are computed; index arithmetic that folds is free */
	int64_t dot_by[VM_DOT_COUNT]; /* dot_flops by the unit that runs them */
	int64_t fma_instrs;
	int64_t f64_instrs; /* on the pipes of fp64; each is two of fma_instrs besides */
	int64_t alu_instrs;
	int64_t special_instrs;
	int64_t other_instrs;   /* loads, stores, shuffles, jumps: the issue slots alone */
	int64_t footprint_read; /* of footprint_bytes: read */
	int64_t requests;       /* loads, stores and atomics of a warp */
	int64_t load_lines;     /* 128-byte lines that loads touch */
	int64_t store_lines;    /* and stores */
	int64_t missed_lines;   /* of load_lines: those that L1 does not hold whole */
	int64_t l2_sectors;     /* of the sectors, those that an SM's L1 does not hold */
	int64_t shared_bytes;   /* through shared memory: changes of layout, operands of tl.dot, reductions */
	int64_t tensor_cycles;  /* of one SM's tensor cores for tl.dot, by the compiled instruction; 0 without layouts */
	int64_t atomic_hot;     /* operations of L2 for atomics on the 32 bytes that have most: one a warp or more */
	int64_t steps;          /* vm instructions that ran */
	int64_t steps_once;     /* that would have, if every program ran each of its kernel's once: tells of loops */
	int64_t path_cycles;    /* of all programs together: dependent instructions one after another */
	int64_t path_trips;     /* loads from L2 or beyond among them */
	/* Of the longest program; where programs may wait for each other, or share out work as they go:
	 * from the launch's start to the end of the last one. */
	int64_t path_cycles_max;
	/* Of the program that has most: it has one SM to itself at best, however
	 * many others are idle. */
	int64_t l1_cycles_max; /* of L1 */
	int64_t shared_bytes_max;
	int64_t atomics_max;
	int64_t untimed[VM_UNTIMED_COUNT]; /* how often it did that; any: what is predicted is too little */
};
/* Cycles of an SM's L1: one for each line that a load touches, one more where it is missed, more
 * for each that is stored; and half of one for each sector that comes from L2 or goes there. */
static inline double vm_cost_l1_cycles(double load_lines, double missed_lines, double store_lines, double l2_sectors)
{
	return fmax(load_lines + missed_lines + 4 * store_lines, l2_sectors / 2);
}
/* Why no time can be told from such counts; NULL: one can. */
const char *vm_cost_untimed(const struct vm_cost *c);

struct vm_line_cost {
	int line; /* in the kernel's file */
	struct vm_cost cost;
};
/* What a launch costs: the sum, and its share of each source line that has any. */
struct vm_launch_cost {
	struct vm_cost cost;
	int nlines;
	struct vm_line_cost *lines;
};

/* One GPU. Public figures of its maker; those that no data sheet has were measured once, on the GPU
 * that docs/cost-model.md names. */
struct vm_gpu {
	const char *name;
	int sms;
	double clock_hz; /* boost */
	double dram_bytes_s;
	double l2_bytes_s;
	int64_t l2_bytes;
	int64_t l1_bytes;     /* of one SM, shared memory included */
	int64_t shared_bytes; /* of those, what blocks may have as shared memory */
	int registers;        /* of one SM, of 32 bits */
	int threads;          /* that one SM holds */
	int blocks;           /* likewise */
	int fp32;             /* this and the next three: lanes of one SM, operations a cycle */
	int int32;
	int special;
	int fp64;
	double tensor_flops[VM_DOT_COUNT]; /* dense, a second; [VM_DOT_FMA] is not used */
	int capability;                    /* 90: compute capability 9.0, what kernels are compiled for */
	int64_t memory_bytes;              /* DRAM, about what its driver reports */
	int bus_bits;                      /* of DRAM */
};
enum { VM_GPU_COUNT = 5 };
extern const struct vm_gpu vm_gpus[VM_GPU_COUNT];   /* a row a card; vm_gpu_find finds one by its name */
const struct vm_gpu *vm_gpu_find(const char *name); /* "H200", "h200", "rtx4090"; NULL: none of the table */
#define VM_GPU_DEFAULT "H200" /* where nobody names a card and there is none */
void vm_gpu_names(struct str *out); /* appended, with commas between */
/* As vm_gpu_find, or ERR_USAGE with the table's names. */
int vm_gpu_named(const char *name, const struct vm_gpu **out, struct err *err);
/* The card as Python's answers for it describe it (worker/tracer_cuda.py, CARD). */
json_t *vm_gpu_json(const struct vm_gpu *);
/* Blocks of a kernel that fit on one SM together, by its threads, registers, shared memory and
 * places. 0: not even one does. */
int64_t vm_gpu_fit(const struct vm_gpu *, int warps, int registers, int64_t shared_bytes);

/* The blocks' layouts in a TTGIR text, by source position. A text without any is fine;
 * malformed lines are skipped (they only cost precision); ERR_LIMIT when it is too large. */
struct vm_layouts;
int vm_layouts_create(const char *ttgir, size_t len, struct vm_layouts **out, struct err *err);
void vm_layouts_free(struct vm_layouts *l);

/* A kernel's resources. */
struct vm_binary {
	int warps;
	int registers;        /* of a thread */
	int stack_bytes;      /* of a thread: what does not fit its registers */
	int64_t local_bytes;  /* that a thread moves to and from its stack if it runs each instruction once */
	int64_t shared_bytes; /* of a program */
};
struct vm_binary vm_binary_default(int warps); /* 32 registers, no stack, no shared memory */

/* What the real compile says about a kernel: all that counts and a predicted time need of it. */
struct vm_compiled {
	struct vm_binary binary;
	struct vm_layouts *layouts; /* NULL: blocks are row-major, 16 bytes a lane */
	int64_t l1_bytes;           /* what one resident program has of an SM's L1 */
	int64_t resident;           /* programs that the whole GPU holds at once */
	int njoined;
	struct vm_joined *joined; /* heap */
};
/* What one instruction of the machine code reads or writes at once, at most, for each place of the
 * source. */
struct vm_joined {
	int line;
	int column;
	int bytes;
};
int vm_joined_bytes(const struct vm_compiled *c, int line, int column); /* 0: not known */
int64_t vm_cost_l1_bytes(const struct vm_binary *binary, const struct vm_gpu *gpu);
/* From a result of the compile worker (docs/worker-protocol.md, compile): num_warps, registers,
 * stack_bytes, spills, shared_bytes, ttgir. What is missing or no number gets its default.
 * ERR_LIMIT for a TTGIR that is too large. */
struct vm_binary vm_binary_of(const json_t *result);
/* Whether ptxas makes with these words (a tape's ptx_options, or NULL) the code whose instructions
 * are counted; spills and registers are counted as they are. */
bool vm_assembler_is_usual(const char *ptx_options);
int vm_compiled_create(const json_t *result, const struct vm_gpu *gpu, struct vm_compiled **out, struct err *err);
void vm_compiled_free(struct vm_compiled *c);

enum vm_limit {
	VM_LIMIT_LAUNCH,
	VM_LIMIT_DRAM,
	VM_LIMIT_L2,
	VM_LIMIT_L1,
	VM_LIMIT_ISSUE,
	VM_LIMIT_SPECIAL,
	VM_LIMIT_TENSOR,
	VM_LIMIT_SHARED,
	VM_LIMIT_ATOMIC,
	VM_LIMIT_LATENCY,
	VM_LIMIT_COUNT
};
const char *vm_limit_name(enum vm_limit l);
struct vm_estimate {
	double time_s;
	double part_s[VM_LIMIT_COUNT]; /* what the launch would take if this were the only limit */
	enum vm_limit limit;           /* the largest part */
	int blocks_per_sm;
	double occupancy;   /* resident warps of what an SM can hold */
	double waves;       /* programs over resident programs */
	int64_t dram_bytes; /* spills included */
	int64_t l2_bytes;   /* likewise */
	int64_t spill_bytes;
};
struct vm_estimate vm_estimate(const struct vm_cost *cost, const struct vm_binary *binary, const struct vm_gpu *gpu);

/* A launch of a library: what it must move and compute. Its kernels are taken to be as good as such
 * kernels are: coalesced, fully occupied, each byte once. */
struct cost_launch {
	double bytes;     /* read and written */
	double flops;     /* element by element */
	double special;   /* of those, transcendental */
	double dot_flops; /* of matrix products */
	double extent;    /* of an operator: elements that go into one result, the length of a sum; of a product its K */
	double warm;      /* of an operator: share of what it reads that an earlier one touched */
	double since;     /* bytes that have moved since then */
};
/* Which units matrix products of the reference run on: fp32 pipes (strict), tf32 or half tensor
 * cores. */
enum cost_dot { COST_DOT_FP32, COST_DOT_TF32, COST_DOT_HALF, COST_DOT_COUNT };
enum cost_dot cost_dot_of(enum dtype task, bool tf32);

double cost_launch_s(const struct cost_launch *l, enum cost_dot dot, const struct vm_gpu *gpu);
/* Predicted seconds of PyTorch's own operator, which is rarely that good: from the times of such
 * operators, one by one, on an H200 (bench/cost/cost_operators.py). name: without namespace and
 * overload ("native_layer_norm"); form: which of its kernels it takes, as worker/oracle_cost.py
 * says ("last", "other", "all", "training", "broadcast", ""). What was not timed costs what an
 * element-wise operator does. */
double cost_operator_s(
	const char *name, const char *form, const struct cost_launch *l, enum cost_dot dot, const struct vm_gpu *gpu);

/* A copy of elements from one strided view to another, both of this shape. */
#define COST_COPY_DIMS 12
#define COST_COPY_MAX ((int64_t)1 << 50) /* elements; of more there are no counts */
struct cost_copy {
	int ndim;
	int64_t shape[COST_COPY_DIMS];     /* 1 and more */
	int64_t to_step[COST_COPY_DIMS];   /* bytes from where an element is written to the next one's place */
	int64_t from_step[COST_COPY_DIMS]; /* likewise where it is read */
	int to_size;                       /* bytes of an element that is written, */
	int from_size;                     /* and of one that is read */
};
/* By a walk over a few of its blocks: lines and sectors that neighbouring
 * threads read and write. */
struct vm_cost cost_copy_counts(const struct cost_copy *c);
/* Predicted seconds of a copy of such counts by the kernels that a tape's rows and PyTorch's copies
 * have; name and form: of the operator that it is where nothing lies apart ("clone", ""). Without
 * counts it is that one. */
double cost_copy_s(const char *name, const char *form, const struct vm_cost *counts, const struct cost_launch *l,
	const struct vm_gpu *gpu);

/* The counts as an object without its zeros, and back: what is missing or no count is zero. */
json_t *vm_counts_json(const struct vm_cost *c); /* new reference */
void vm_counts_parse(const json_t *o, struct vm_cost *out);

/* A table for people: total, the limiting resource on `gpu`, the predicted time on all GPUs, and a
 * row for each source line. */
void vm_cost_table(struct str *out, const char *kernel, const struct vm_launch_cost *r, const struct vm_binary *binary,
	const struct vm_gpu *gpu);
/* {"kernel", "counts": {...}, "resources": {...}, "lines": [{"line", ...}],
 * "predicted": {"H200": {"time_s", "limit", "parts_s": {...}}, ...}}; new reference. */
json_t *vm_cost_json(const char *kernel, const struct vm_launch_cost *r, const struct vm_binary *binary);
json_t *vm_predicted_json(const struct vm_cost *cost, const struct vm_binary *binary); /* its "predicted" alone */
#endif
