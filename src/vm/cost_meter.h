/* cost_meter: what counting needs beside the counts. Private to the room. */
#ifndef HONE_COST_METER_H
#define HONE_COST_METER_H
#include "vm/vm_internal.h"
#include "vm/cost_layout.h"

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
	PLAN_SHAPE,
	PLAN_JUMP
};
/* One instruction of the program, as far as the launch's layouts and number of warps tell. */
struct cost_plan {
	enum plan_kind kind;
	uint8_t fma, alu, special; /* instructions for each element */
	bool is_async;
	int mma_version;                  /* of a dot: tensor-core instruction, 0 when it runs on the fp32 pipes */
	int64_t scattered;                /* elements of a load that go to one bank of shared memory, one a cycle */
	int64_t convert_bytes;            /* changes of layout that belong to it */
	const struct cost_lanes *lanes;   /* NULL: neighbours */
	const struct cost_reduce *reduce; /* NULL: layout not known */
};
struct vm_cost_plans {
	const struct vm_program *program;
	const struct vm_memory *memory;
	struct cost_plan *plans; /* (ninstrs) */
	struct arena arena;
	int warps, stages;
	int64_t l1_bytes;
	uint32_t **atomics; /* (buffer index), (granules) or NULL: how many atomics hit it */
	int64_t atomic_hot;
};
struct l1_entry {
	int64_t sector;
	uint64_t program;
};
struct when {
	double at, trips;
}; /* cycle; loads from L2 or beyond among the instructions that led there */
struct vm_meter {
	struct vm_cost_plans *plans;
	struct when *ready;       /* (nvalues) */
	struct when clock, fence; /* next instruction in order; loads do not move above the fence */
	int jumps;
	bool missed; /* of the current instruction's loads */
	int64_t requests;
	uint64_t program; /* number of the program, from 1: entries of other programs are not there */
	size_t l1_sets;
	struct l1_entry *l1; /* (l1_sets, L1_WAYS) */
	int64_t *l2_loads;   /* (buffer index): sectors */
	int64_t steps, path_cycles, path_trips, path_max;
};

static inline const struct cost_plan *vm_cost_plan(const struct vm_ctx *c, const struct vm_instr *in)
{
	return &c->meter->plans->plans[in - c->program->instrs];
}
#endif
