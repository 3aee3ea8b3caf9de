/* meter: counts what a launch does, for the cost room to make a time of. Private to the vm room. */
#ifndef HONE_VM_METER_H
#define HONE_VM_METER_H
#include "base/base.h"
#include "cost/cost.h"
#include "cost/cost_layout.h"
#include "vm/core/program.h"
#include "vm/core/state.h"

#define SHARED_CYCLE_BYTES 128 /* what shared memory of an SM moves in a cycle */

/* Cycles. */
#define BARRIER_CYCLES 40
#define BARRIER_WARP_CYCLES 5
/* What is written before a release, or before a fence, has to be in L2 first; where the whole
 * system is its scope it waits longer, written or not. */
#define VM_FENCE_CYCLES 290
#define VM_FENCE_SYSTEM_CYCLES 2300
#define VM_CYCLES_NS 1.98 /* of an H200: what waits for a time waits for nanoseconds */
#define VM_SLEEP_TIMES 1.55 /* of what nanosleep says; it may take up to twice that */

enum plan_kind {
	PLAN_FREE,
	PLAN_MOVE,
	PLAN_MAP,
	PLAN_LOAD,
	PLAN_STORE,
	PLAN_ATOMIC,
	PLAN_REDUCE,
	PLAN_SCAN,
	PLAN_DOT,
	PLAN_HISTOGRAM,
	PLAN_SCALE,
	PLAN_GATHER,
	PLAN_ASM,
	PLAN_REGION,
	PLAN_JUMP,
	PLAN_BRANCH,
	PLAN_BARRIER,
	PLAN_ASSERT,
	PLAN_PRINT
};
/* One instruction of the program, as far as the launch's layouts and number of warps tell. */
struct cost_plan {
	enum plan_kind kind;
	uint16_t fma; /* instructions for each element, as the next two */
	uint16_t alu;
	uint16_t special;
	uint16_t f64;       /* of inline assembly: instructions of fp64, each of which is two of fma */
	bool is_f64;        /* fma are products of fp64, each two of them */
	bool is_open_sleep; /* inline assembly that sleeps as long as an operand says */
	double wait;        /* cycles that inline assembly waits for each element */
	bool is_hoisted;    /* made once, before the loop */
	int made_anew;      /* of what is: where the innermost loop begins whose turns change it; -1: none */
	bool makes_anew;    /* of a jump: the end of a loop that such values lie in */
	bool is_folded;     /* index arithmetic that becomes a step of an address */
	bool is_async;
	bool is_bulk;         /* as a cost_site's */
	bool is_within_warps; /* an exchange of lanes for which no warp waits for another */
	bool has_sides;  /* an integer comparison, or a cast of a place, that follows from no data: what it gave is noted */
	int joined;      /* bytes that the compiled code reads or writes at once, where hints may lie; 0 */
	bool is_metered; /* of a function over elements or pairs: what runs of it is counted */
	int mma_version; /* of a dot: tensor-core instruction, 0 when it runs on the fp32 pipes */
	double copies;   /* of a dot: how many threads compute each element, 1 where each its own */
	int64_t operand_turns;            /* of a dot on the fp32 pipes: of shared memory, to read its operands */
	int64_t scattered;                /* elements of a load that go to one bank of shared memory, one a cycle */
	int64_t convert_bytes;            /* changes of layout that belong to it */
	uint64_t threads;                 /* of an access: which thread has which lane, as a hash; 0: not known */
	int64_t held;                     /* element-wise: elements that a thread holds, copies among them; 0: its share */
	const struct cost_lanes *lanes;   /* NULL: neighbours */
	const struct cost_reduce *reduce; /* NULL: layout not known */
};
struct vm_cost_plans {
	const struct vm_program *program;
	const struct vm_memory *memory;
	struct cost_plan *plans; /* (ninstrs) */
	struct arena arena;
	const struct vm_layouts *layouts; /* NULL: row-major */
	int warps;
	int stages;
	int64_t l1_bytes;
	uint32_t **atomics;      /* (buffer index), (granules) or NULL: how many atomics hit it */
	int64_t *atomic_hits;    /* (buffer index): all of them, a warp's neighbours as one */
	int64_t *atomic_hottest; /* (buffer index): of one granule */
	int64_t atomic_hot;
};
struct l1_entry {
	int64_t sector;
	uint64_t program;
};
struct cost_region { /* instructions of elements or pairs */
	double fma;
	double alu;
	double special;
	double f64;  /* of those, products of fp64: each is two of fma */
	double wait; /* cycles */
};
/* What a program asks of its SM, or the most that one of several did. */
struct meter_own {
	int64_t load_lines;
	int64_t missed_lines;
	int64_t store_lines;
	int64_t l2_sectors;
	int64_t shared_bytes;
	int64_t atomics;
};
struct when {
	double at;    /* cycle */
	double trips; /* loads from L2 or beyond among the instructions that led there */
};
struct vm_meter {
	struct vm_cost_plans *plans;
	struct when *ready; /* (nvalues) */
	struct when clock;  /* next instruction in order */
	struct when fence;  /* loads do not move above it */
	int jumps;
	bool has_stored;    /* since the last release */
	int64_t bank_turns; /* of shared memory, for what the current instruction reads there */
	bool missed;        /* of the current instruction's loads */
	int64_t requests;
	uint64_t program; /* number of the program, from 1: entries of other programs are not there */
	size_t l1_sets;
	struct l1_entry *l1; /* (l1_sets, L1_WAYS) */
	int64_t *l2_loads;   /* (buffer index): sectors */
	int64_t steps;
	int64_t path_cycles;
	int64_t path_trips;
	int64_t path_max;
	struct meter_own own; /* of the running program */
	int64_t l1_max;       /* cycles, as vm_cost.l1_cycles_max */
	int64_t shared_max;
	int64_t atomics_max;
	struct cost_region region; /* of the function that runs */
	uint32_t *runs;            /* (ninstrs): how often its lane ran each; NULL: lanes go one way together */
	uint32_t *most;            /* likewise: of the lanes so far */
	int first;                 /* its instructions, and */
	int last;
	int together;               /* so many lanes so far */
	uint8_t *ran;               /* (ninstrs): that the instruction ran, and what it gave (meter_sides.c) */
	struct vm_touched *touched; /* of a sampled launch; else NULL */
};
/* What the running program of a sample touches of each buffer, in granules of 32 bytes. The maps'
 * bytes name the last program that was there. */
struct vm_touched {
	uint8_t program;   /* 1 and up */
	int64_t *own[2];   // read, written: (buffer index), of this program
	int64_t *low[2];   /* the lowest granule of all programs that ran */
	int64_t *high[2];  /* the highest */
};

/* ---- meter_plan.c ---- */
/* Of an access to memory, for who looks at its order with others. */
struct vm_code vm_plan_code(const struct vm_ctx *c, const struct vm_instr *in);
/* Lanes exchange values, by this instruction. */
void vm_plan_exchange(struct vm_ctx *c, const struct vm_instr *in);

/* ---- meter_divide.c ---- */
/* Integer divisions whose divisor the compiler knows more of, after all plans have
 * what they cost without. */
void vm_cost_divisions(struct vm_cost_plans *plans);

/* ---- meter_fold.c ---- */
void vm_cost_folds(struct vm_cost_plans *plans);

/* ---- meter_sides.c ---- */
void vm_sides_find(struct vm_cost_plans *plans);
void vm_sides_note(struct vm_ctx *c, const struct vm_instr *in);
/* vm_report.reached, over the meters of all threads. */
char *vm_sides_text(const struct vm_program *p, struct vm_meter *const *meters, int count);

/* ---- meter.c, meter_memory.c, meter_plan.c: counts of a launch ---- */

void vm_cost_map(struct vm_ctx *c, const struct vm_instr *in, int64_t n);
int vm_cost_access(struct vm_ctx *c, const struct vm_instr *in, const int64_t *address, const uint8_t *mask, int64_t n,
	size_t size, bool is_store);
struct vm_cost *vm_cost_row(struct vm_ctx *c, const struct vm_instr *in);
/* The cost model's view of a launch (shared by its threads) and of one running program. step is
 * called after each instruction. */
struct vm_cost_plans *vm_cost_plans_create(
	const struct vm_program *p, const struct vm_compiled *compiled, const struct vm_memory *memory);
void vm_cost_plans_free(struct vm_cost_plans *plans);
struct vm_meter *vm_meter_create(struct vm_cost_plans *plans);
void vm_meter_free(struct vm_meter *m);
void vm_cost_program_begin(struct vm_ctx *c);
void vm_cost_program_end(struct vm_ctx *c);
/* The running program goes on at this cycle; the one that it has come to; the one at which an
 * instruction, which is next, has its operands. */
void vm_cost_program_at(struct vm_ctx *c, double cycle);
double vm_cost_program_now(const struct vm_ctx *c);
double vm_cost_next_at(const struct vm_ctx *c, const struct vm_instr *in);
void vm_cost_step(struct vm_ctx *c, const struct vm_instr *in);
/* Called after each instruction of a function whose instructions count (c->counts_region). */
void vm_cost_region(struct vm_ctx *c, const struct vm_instr *in);
/* Around a function that is run lane by lane, and behind each lane. */
void vm_cost_lanes_begin(struct vm_ctx *c, const struct vm_instr *first, const struct vm_instr *last);
void vm_cost_lane(struct vm_ctx *c);
void vm_cost_lanes_end(struct vm_ctx *c);
void vm_cost_atomic(
	struct vm_ctx *c, const struct vm_instr *in, const int64_t *address, const uint8_t *mask, int64_t n);
/* So many lanes of a warp read shared memory at once, at these bytes. */
void vm_cost_banks(struct vm_ctx *c, const int64_t *bytes, int n, size_t size);
/* Adds what only the whole launch shows: contention and paths of one thread's meter. */
void vm_meter_gather(const struct vm_meter *m, struct vm_cost *to);
/* Adds to `to` the most that one program of this meter asked of its SM. */
void vm_meter_gather_most(const struct vm_meter *m, struct vm_cost *to);
/* L2 traffic. l2_loads: sectors by buffer index; footprint: bytes read of each buffer index. */
void vm_cost_l2(const int64_t *l2_loads, uint64_t index_max, const int64_t *footprint, struct vm_cost *to);

static inline double vm_cost_barrier(int warps) { return BARRIER_CYCLES + BARRIER_WARP_CYCLES * warps; }
static inline const struct cost_plan *vm_cost_plan(const struct vm_ctx *c, const struct vm_instr *in)
{
	return &c->meter->plans->plans[in - c->program->instrs];
}
#endif
