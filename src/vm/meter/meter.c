/* Instructions and the path of dependent ones.
 *
 * A program is a stream of warp instructions in order. Each starts when those before it have been
 * issued and its operands are ready; loads and index arithmetic may start as soon as their operands
 * are known, but not before the last fence (a store, an atomic, a barrier, every UNROLL-th turn of
 * a loop: ptxas unrolls by that much). What is ready last when the program ends is its path: the
 * time it takes alone on an SM. Index arithmetic stays lazy in the vm and folds into addresses on a
 * GPU. */
#include "vm/meter/meter.h"
#include "base/base.h"
#include "cost/cost.h"
#include "cost/cost_layout.h"
#include "ttir/ttir.h"
#include "vm/core/program.h"
#include "vm/core/state.h"
#include "vm/map/map.h"
#include "vm/ptx/ptx.h"
#include <math.h>
#include <stdlib.h>

#define L1_BYTES_DEFAULT ((int64_t)32 << 10)
#define WARPS_DEFAULT 4
#define L1_WAYS 4
#define SCHEDULERS 4
#define UNROLL 4
/* Uniform values and index arithmetic: folded into addresses, hoisted, or on the uniform pipe. */
#define LAZY_INSTRS 0.25

/* Cycles. Alu: dependent instruction; the others as published microbenchmarks and
 * bench/cost_h200.py's chase_ns and reduce_ns give them for Hopper. */
#define ALU_CYCLES 4.5
#define SPECIAL_CYCLES 18
#define L1_CYCLES 38
#define L2_CYCLES 290
#define SHUFFLE_CYCLES 25
#define BARRIER_CYCLES 40
#define BARRIER_WARP_CYCLES 5
#define SHARED_CYCLE_BYTES 128
#define ATOMIC_CYCLES 400
#define DOT_CYCLES 35
#define PRINT_INSTRS 200          /* of an element that is printed: a call with its arguments in memory */
#define CONVERT_BYTES_MAX ((int64_t)1 << LAYOUT_BITS)
#define TENSOR_FLOPS_PER_CYCLE 4096   /* 16-bit, of one SM with wgmma */

/* fma, alu and special instructions of an element's operation: read in SASS of sm_90 and, where they are common,
 * checked against the rates that bench/cost_h200.py measures; of rare functions both sides of their branches. A 32-bit
 * product takes the fma pipe twice as long. ipowi is a loop: as many turns as an exponent has bits. The table below
 * takes one of each from the list of operations, so a new operation without a cost does not compile. */
// clang-format off
#define COST_OF_MAP_ADDI 0, 1, 0
#define COST_OF_MAP_SUBI 0, 1, 0
#define COST_OF_MAP_MULI 2, 0, 0
#define COST_OF_MAP_DIVSI 14, 12, 2
#define COST_OF_MAP_DIVUI 12, 10, 2
#define COST_OF_MAP_REMSI 14, 13, 2
#define COST_OF_MAP_REMUI 12, 11, 2
#define COST_OF_MAP_CEILDIVSI 14, 14, 2
#define COST_OF_MAP_CEILDIVUI 12, 12, 2
#define COST_OF_MAP_FLOORDIVSI 14, 14, 2
#define COST_OF_MAP_ANDI 0, 1, 0
#define COST_OF_MAP_ORI 0, 1, 0
#define COST_OF_MAP_XORI 0, 1, 0
#define COST_OF_MAP_SHLI 0, 1, 0
#define COST_OF_MAP_SHRSI 0, 1, 0
#define COST_OF_MAP_SHRUI 0, 1, 0
#define COST_OF_MAP_MAXSI 0, 1, 0
#define COST_OF_MAP_MAXUI 0, 1, 0
#define COST_OF_MAP_MINSI 0, 1, 0
#define COST_OF_MAP_MINUI 0, 1, 0
#define COST_OF_MAP_MULHIUI 2, 0, 0
#define COST_OF_MAP_MULHISI 2, 0, 0
#define COST_OF_MAP_IPOWI 64, 64, 0
#define COST_OF_MAP_ABSI 0, 1, 0
#define COST_OF_MAP_CTPOP 0, 0, 1
#define COST_OF_MAP_CTLZ 0, 1, 1
#define COST_OF_MAP_CTTZ 0, 1, 2
#define COST_OF_MAP_BREV 0, 0, 1
#define COST_OF_MAP_FFS 0, 1, 2
#define COST_OF_MAP_ADDF 1, 0, 0
#define COST_OF_MAP_SUBF 1, 0, 0
#define COST_OF_MAP_MULF 1, 0, 0
#define COST_OF_MAP_DIVF 2, 2, 1
#define COST_OF_MAP_PRECISE_DIVF 12, 6, 1
#define COST_OF_MAP_REMF 12, 8, 1
#define COST_OF_MAP_MAXIMUMF 0, 1, 0
#define COST_OF_MAP_MINIMUMF 0, 1, 0
#define COST_OF_MAP_MAXNUMF 0, 1, 0
#define COST_OF_MAP_MINNUMF 0, 1, 0
#define COST_OF_MAP_COPYSIGN 0, 1, 0
#define COST_OF_MAP_NEGF 0, 1, 0
#define COST_OF_MAP_ABSF 0, 1, 0
#define COST_OF_MAP_CEIL 0, 0, 1
#define COST_OF_MAP_FLOOR 0, 0, 1
#define COST_OF_MAP_ROUND 2, 1, 1
#define COST_OF_MAP_ROUNDEVEN 0, 0, 1
#define COST_OF_MAP_TRUNC 0, 0, 1
#define COST_OF_MAP_SQRT 2, 1, 1
#define COST_OF_MAP_PRECISE_SQRT 7, 4, 1
#define COST_OF_MAP_RSQRT 2, 1, 1
#define COST_OF_MAP_SATURATE 1, 0, 0
#define COST_OF_MAP_FMA 1, 0, 0
#define COST_OF_MAP_CLAMPF 0, 2, 0
#define COST_OF_MAP_CLAMPF_NAN 0, 2, 0
#define COST_OF_MAP_FMS 1, 0, 0
#define COST_OF_MAP_FNMA 1, 0, 0
#define COST_OF_MAP_EXP 2, 1, 1
#define COST_OF_MAP_EXP2 1, 1, 1
#define COST_OF_MAP_EXPM1 10, 3, 1
#define COST_OF_MAP_LOG 17, 11, 0
#define COST_OF_MAP_LOG2 2, 1, 1
#define COST_OF_MAP_LOG10 18, 11, 0
#define COST_OF_MAP_LOG1P 18, 12, 0
#define COST_OF_MAP_SIN 17, 12, 0
#define COST_OF_MAP_COS 17, 12, 0
#define COST_OF_MAP_TAN 20, 12, 1
#define COST_OF_MAP_SINH 10, 4, 2
#define COST_OF_MAP_COSH 6, 3, 2
#define COST_OF_MAP_TANH 8, 5, 2
#define COST_OF_MAP_ASIN 14, 6, 1
#define COST_OF_MAP_ACOS 14, 6, 1
#define COST_OF_MAP_ATAN 14, 6, 1
#define COST_OF_MAP_ASINH 22, 15, 3
#define COST_OF_MAP_ACOSH 25, 14, 2
#define COST_OF_MAP_ATANH 22, 13, 2
#define COST_OF_MAP_ERF 20, 11, 1
#define COST_OF_MAP_ERFC 22, 8, 2
#define COST_OF_MAP_CBRT 9, 5, 2
#define COST_OF_MAP_EXP10 2, 1, 1
#define COST_OF_MAP_LGAMMA 131, 58, 9
#define COST_OF_MAP_TGAMMA 100, 43, 12
#define COST_OF_MAP_ERFINV 19, 5, 2
#define COST_OF_MAP_NORMCDF 46, 13, 4
#define COST_OF_MAP_LOGB 2, 7, 3
#define COST_OF_MAP_SINPI 15, 5, 3
#define COST_OF_MAP_COSPI 15, 6, 2
#define COST_OF_MAP_RCBRT 9, 6, 2
#define COST_OF_MAP_RCP 1, 1, 1
#define COST_OF_MAP_J0 65, 61, 9
#define COST_OF_MAP_J1 65, 63, 9
#define COST_OF_MAP_Y0 162, 143, 19
#define COST_OF_MAP_Y1 198, 200, 23
#define COST_OF_MAP_POWF 30, 20, 2
#define COST_OF_MAP_ATAN2 20, 10, 1
#define COST_OF_MAP_HYPOT 20, 20, 2
#define COST_OF_MAP_FDIM 1, 2, 0
#define COST_OF_MAP_NEXTAFTER 6, 16, 0
#define COST_OF_MAP_REMAINDER 34, 37, 6
#define COST_OF_MAP_LDEXP 6, 10, 0
// clang-format on
struct pipes {
	uint8_t fma, alu, special;
};
#define X(id, ...) [id] = {COST_OF_##id},
static const struct pipes map_costs[MAP_COUNT] = {MAP_TABLE(X)};
#undef X

static void map_cost(const struct vm_program *p, const struct vm_instr *in, struct cost_plan *plan)
{
	if (in->map_op < 0) { /* casts, comparisons, selects */
		plan->alu = 1;
		bool from_int = elem_is_int((enum elem)in->elem), to_float = elem_is_float((enum elem)in->result_elem);
		plan->special = in->ndst && from_int == to_float && in->result_elem != ELEM_I1 &&
			in->nsrc == 1; /* int to float and back */
	} else {
		plan->fma = map_costs[in->map_op].fma;
		plan->alu = map_costs[in->map_op].alu;
		plan->special = map_costs[in->map_op].special;
	}
	if (elem_is_int((enum elem)in->elem) && elem_bytes((enum elem)in->elem) == 8) {
		plan->fma *= 3;
		plan->alu *= 2;
	}
	if (in->elem == ELEM_F64) plan->fma *= 2;
}

/* What kind of instruction each operation is, of all of them: what is missing here does not compile. Free are names and
 * shapes of what registers hold already (changes of layout are counted where the compiler put them), scalars that many
 * programs share, and addresses, which belong to the accesses that use them. A loop's test belongs to its jump. */
// clang-format off
#define PLAN_OF_OP_NOTHING PLAN_FREE
#define PLAN_OF_OP_MAP PLAN_MAP
#define PLAN_OF_OP_SELECT PLAN_MAP
#define PLAN_OF_OP_DIVIDE PLAN_MAP
#define PLAN_OF_OP_INLINE_ASM PLAN_ASM
#define PLAN_OF_OP_BITCAST PLAN_FREE
#define PLAN_OF_OP_ADDPTR PLAN_FREE
#define PLAN_OF_OP_SPLAT PLAN_FREE
#define PLAN_OF_OP_UNSPLAT PLAN_FREE
#define PLAN_OF_OP_RANGE PLAN_FREE
#define PLAN_OF_OP_BROADCAST PLAN_FREE
#define PLAN_OF_OP_RESHAPE PLAN_FREE
#define PLAN_OF_OP_TRANS PLAN_FREE
#define PLAN_OF_OP_CAT PLAN_FREE
#define PLAN_OF_OP_JOIN PLAN_FREE
#define PLAN_OF_OP_SPLIT PLAN_FREE
#define PLAN_OF_OP_HISTOGRAM PLAN_SCAN
#define PLAN_OF_OP_MOVE PLAN_MOVE
#define PLAN_OF_OP_JUMP PLAN_JUMP
#define PLAN_OF_OP_JUMP_UNLESS PLAN_BRANCH
#define PLAN_OF_OP_LOOP_TEST PLAN_FREE
#define PLAN_OF_OP_RETURN PLAN_FREE
#define PLAN_OF_OP_PROGRAM_ID PLAN_FREE
#define PLAN_OF_OP_NUM_PROGRAMS PLAN_FREE
#define PLAN_OF_OP_ASSERT PLAN_ASSERT
#define PLAN_OF_OP_POISON PLAN_FREE
#define PLAN_OF_OP_PRINT PLAN_PRINT
#define PLAN_OF_OP_LOAD PLAN_LOAD
#define PLAN_OF_OP_STORE PLAN_STORE
#define PLAN_OF_OP_GATHER PLAN_GATHER
#define PLAN_OF_OP_ATOMIC_RMW PLAN_ATOMIC
#define PLAN_OF_OP_ATOMIC_CAS PLAN_ATOMIC
#define PLAN_OF_OP_BLOCK_PTR PLAN_FREE
#define PLAN_OF_OP_ADVANCE PLAN_FREE
#define PLAN_OF_OP_BLOCK_ADDRESS PLAN_FREE
#define PLAN_OF_OP_ROW_ADDRESS PLAN_FREE
#define PLAN_OF_OP_REDUCE PLAN_REDUCE
#define PLAN_OF_OP_SCAN PLAN_SCAN
#define PLAN_OF_OP_MAP_REGION PLAN_REGION
#define PLAN_OF_OP_REGION_BEGIN PLAN_FREE
#define PLAN_OF_OP_REGION_END PLAN_FREE
#define PLAN_OF_OP_DOT PLAN_DOT
#define PLAN_OF_OP_SCALE PLAN_SCALE
#define PLAN_OF_OP_BARRIER PLAN_BARRIER
// clang-format on
static enum plan_kind kind_of(const struct vm_instr *in)
{
#define X(op, function) [op] = PLAN_OF_##op,
	static const enum plan_kind kinds[OP_COUNT] = {VM_OP_TABLE(X)};
#undef X
	return kinds[in->op];
}

/* Of a load or store: the value of its block's shape. */
static const struct vm_value_info *block_of(const struct vm_program *p, const struct vm_instr *in)
{
	return in->nsrc ? &p->values[p->ids[in->src]] : NULL;
}

static void memory_plan(struct vm_cost_plans *plans, const struct vm_instr *in, struct cost_plan *plan)
{
	static const enum cost_site_kind site_of[] = {
		[PLAN_LOAD] = COST_SITE_LOAD, [PLAN_STORE] = COST_SITE_STORE, [PLAN_ATOMIC] = COST_SITE_ATOMIC};
	const struct vm_program *p = plans->program;
	const struct vm_value_info *info = block_of(p, in);
	const struct vm_source *at = &p->locs[in->loc];
	if (!info || info->ndim < 1 || info->ndim > LAYOUT_DIMS) return;
	const struct vm_value_info *element = plan->kind == PLAN_LOAD || plan->kind == PLAN_ATOMIC
		? &p->values[p->ids[in->dst]]
		: &p->values[p->ids[in->src + 1]];
	const struct cost_site *site = cost_site_find(
		plans->layouts, site_of[plan->kind], at->line, at->column, info->ndim, info->shape);
	const struct cost_layout *layout = site && site->layout >= 0 && site->ndim == info->ndim
		? &plans->layouts->layouts[site->layout]
		: NULL;
	struct cost_lanes *lanes = arena_alloc(&plans->arena, sizeof *lanes);
	plan->is_async = site && site->is_async;
	plan->scattered = site && site->is_scattered ? info->count : 0;
	if (cost_lanes_of(layout, info->ndim, info->shape, (int)elem_bytes(element->elem), plans->warps, lanes))
		plan->lanes = lanes;
}

/* Without a TTGIR: what the compiler does with a block that is large enough. */
static int dot_version(const struct vm_cost_plans *plans, const struct vm_instr *in)
{
	const struct vm_source *at = &plans->program->locs[in->loc];
	const struct vm_value_info *d = &plans->program->values[plans->program->ids[in->dst]];
	const struct cost_site *site = cost_site_find(
		plans->layouts, COST_SITE_DOT, at->line, at->column, d->ndim, d->shape);
	if (site && site->layout >= 0) return plans->layouts->layouts[site->layout].mma_version;
	if (in->elem == ELEM_F64 || (in->elem == ELEM_F32 && in->special == 0)) return 0;
	return in->imm[1] >= 64 && plans->warps % 4 == 0 ? 3 : 2;
}

static void reduce_plan(struct vm_cost_plans *plans, const struct vm_instr *in, struct cost_plan *plan)
{
	const struct vm_program *p = plans->program;
	const struct vm_value_info *info = &p->values[p->ids[in->src]];
	const struct vm_source *at = &p->locs[in->loc];
	const struct region_shape *s = in->extra;
	const struct cost_site *site = cost_site_find(
		plans->layouts, COST_SITE_REDUCE, at->line, at->column, info->ndim, info->shape);
	if (!site || site->layout < 0 || site->ndim != info->ndim ||
		memcmp(site->shape, info->shape, (size_t)info->ndim * sizeof *info->shape))
		return;
	int axis = info->ndim - 1;
	for (int64_t inner = 1; inner < s->inner && axis > 0; axis--) inner *= info->shape[axis];
	struct cost_reduce *reduce = arena_alloc(&plans->arena, sizeof *reduce);
	if (cost_reduce_of(&plans->layouts->layouts[site->layout], info->ndim, info->shape, axis, plans->warps, reduce))
		plan->reduce = reduce;
}

/* An element's share of inline assembly: its instructions, each on its own pipe. */
static void asm_cost(const struct vm_instr *in, struct cost_plan *plan)
{
	const struct asm_block *b = in->extra;
	int fma = 0, alu = 0, special = 0;
	for (int i = 0; i < b->code.ninstrs; i++) {
		const struct ptx_instr *one = &b->code.instrs[i];
		int wide = one->type && one->type->bits == 64 ? 2 : 1;
		if (one->row->special) special += one->row->special;
		else if (one->row->flops) fma += wide;
		else alu += wide;
	}
	plan->fma = (uint16_t)((fma + b->pack - 1) / b->pack);
	plan->alu = (uint16_t)((alu + b->pack - 1) / b->pack);
	plan->special = (uint16_t)((special + b->pack - 1) / b->pack);
}

/* Whether a reduction's function does more than the operation that its name stands for: loops, assembly, or many
 * instructions. What runs of it is counted then. */
#define REGION_FEW 16
static bool is_heavy_region(const struct vm_program *p, const struct vm_instr *in)
{
	int own = (int)(in - p->instrs), n = 0;
	bool is_odd = false;
	for (int i = own + 1; i < in->target; i++) {
		enum vm_op op = p->instrs[i].op;
		n += op != OP_REGION_BEGIN && op != OP_REGION_END && op != OP_MOVE;
		is_odd |= op == OP_JUMP || op == OP_JUMP_UNLESS || op == OP_INLINE_ASM;
	}
	return !in->kernel && (is_odd || n > REGION_FEW);
}

static void add_conversions(struct vm_cost_plans *plans)
{
	const struct vm_layouts *l = plans->layouts;
	const struct vm_program *p = plans->program;
	for (int s = 0; l && s < l->nsites; s++) {
		const struct cost_site *site = &l->sites[s];
		if (site->kind != COST_SITE_CONVERT) continue;
		int64_t bytes = site->is_scattered ? SHARED_CYCLE_BYTES / 2
										   : MAX(site->elem_bits / 8, 1); /* counted twice, in and out */
		for (int d = 0; d < site->ndim; d++)
			bytes = MIN(bytes * MAX(site->shape[d], 1), CONVERT_BYTES_MAX); /* the text may claim any shape */
		for (int i = p->ninstrs - 1; i >= 0; i--) {
			const struct vm_source *at = &p->locs[p->instrs[i].loc];
			if (at->line != site->line || at->column != site->column || plans->plans[i].kind == PLAN_FREE) continue;
			plans->plans[i].convert_bytes += bytes;
			break;
		}
	}
}

struct vm_cost_plans *vm_cost_plans_create(
	const struct vm_program *p, const struct vm_compiled *compiled, const struct vm_memory *memory)
{
	struct vm_cost_plans *plans = xcalloc(1, sizeof *plans);
	*plans = (struct vm_cost_plans){
		.program = p,
		.memory = memory,
		.layouts = compiled ? compiled->layouts : NULL,
		.warps = compiled ? compiled->binary.warps : WARPS_DEFAULT,
		.stages = compiled && compiled->layouts ? compiled->layouts->stages : 0,
		.l1_bytes = compiled && compiled->l1_bytes > 0 ? compiled->l1_bytes : L1_BYTES_DEFAULT,
	};
	/* What each instruction costs is settled here, once for all programs, as far as it does not
	 * hang on values. */
	plans->plans = xcalloc((size_t)p->ninstrs + 1, sizeof *plans->plans);
	plans->atomics = xcalloc((size_t)memory->index_max + 1, sizeof *plans->atomics);
	plans->atomic_hits = xcalloc((size_t)memory->index_max + 1, sizeof *plans->atomic_hits);
	plans->atomic_hottest = xcalloc((size_t)memory->index_max + 1, sizeof *plans->atomic_hottest);
	for (int i = 0; i < p->ninstrs; i++) {
		const struct vm_instr *in = &p->instrs[i];
		struct cost_plan *plan = &plans->plans[i];
		plan->kind = kind_of(in);
		if (plan->kind == PLAN_MAP) map_cost(p, in, plan);
		if (plan->kind == PLAN_ASM) asm_cost(in, plan);
		if (plan->kind == PLAN_REGION) plan->is_metered = true;
		if ((in->op == OP_REDUCE || in->op == OP_SCAN) && is_heavy_region(p, in)) plan->is_metered = true;
		if (plan->kind == PLAN_LOAD || plan->kind == PLAN_STORE || plan->kind == PLAN_ATOMIC)
			memory_plan(plans, in, plan);
		const struct vm_source *at = &p->locs[in->loc];
		if (p->has_hints && compiled && (plan->kind == PLAN_LOAD || plan->kind == PLAN_STORE))
			plan->joined = vm_joined_bytes(compiled, at->line, at->column);
		if (plan->kind == PLAN_REDUCE) reduce_plan(plans, in, plan);
		if (plan->kind == PLAN_DOT) plan->mma_version = dot_version(plans, in);
	}
	add_conversions(plans);
	vm_sides_find(plans);
	return plans;
}

void vm_cost_plans_free(struct vm_cost_plans *plans)
{
	if (!plans) return;
	for (uint64_t i = 0; i <= plans->memory->index_max; i++) free(plans->atomics[i]);
	free(plans->atomics);
	free(plans->atomic_hits);
	free(plans->atomic_hottest);
	free(plans->plans);
	arena_release(&plans->arena);
	free(plans);
}

struct vm_meter *vm_meter_create(struct vm_cost_plans *plans)
{
	struct vm_meter *m = xcalloc(1, sizeof *m);
	m->plans = plans;
	m->ready = xcalloc((size_t)plans->program->nvalues + 1, sizeof *m->ready);
	m->l1_sets = 1;
	while ((int64_t)m->l1_sets * 2 * L1_WAYS * 32 <= plans->l1_bytes && m->l1_sets < 1 << 14) m->l1_sets *= 2;
	m->l1 = xcalloc(m->l1_sets * L1_WAYS, sizeof *m->l1);
	m->l2_loads = xcalloc((size_t)plans->memory->index_max + 1, sizeof *m->l2_loads);
	m->ran = xcalloc((size_t)plans->program->ninstrs + 1, 1);
	return m;
}

void vm_meter_free(struct vm_meter *m)
{
	if (!m) return;
	free(m->ready);
	free(m->l1);
	free(m->l2_loads);
	free(m->ran);
	free(m);
}

/* ---- a running program ---- */

void vm_cost_program_begin(struct vm_ctx *c)
{
	struct vm_meter *m = c->meter;
	memset(m->ready, 0, (size_t)c->program->nvalues * sizeof *m->ready);
	m->clock = m->fence = (struct when){0, 0};
	m->jumps = 0;
	m->program++;
}

void vm_cost_program_end(struct vm_ctx *c)
{
	struct vm_meter *m = c->meter;
	int64_t cycles = llround(fmin(m->clock.at, 1e15));
	m->path_cycles += cycles;
	m->path_trips += llround(fmin(m->clock.trips, 1e15));
	m->path_max = MAX(m->path_max, cycles);
}

static struct when later(struct when a, struct when b) { return a.at >= b.at ? a : b; }

/* instructions of each warp; floats: may move up to the last fence */
struct work {
	double fma, alu, special, other;
	double latency, trips;
	int64_t shared;
	bool is_fence, floats;
};

static int64_t elements_of(const struct vm_ctx *c, int value) { return MAX(c->program->values[value].count, 1); }

/* Without a layout: threads hold four neighbours, beside the axis where there are any. */
static struct cost_reduce reduce_guess(double n, double len, double inner, double threads)
{
	double beside = inner > 1 ? fmin(threads, fmax(inner / 4, 1)) : 1;
	double along = fmin(fmax(threads / beside, 1), fmax(inner > 1 ? len : len / 4, 1)), warps = fmax(along / 32, 1);
	double results = n / fmax(len, 1);
	return (struct cost_reduce){.results = (int64_t)ceil(fmax(results * along / threads, 1)),
		.steps = (int)ceil(log2(fmin(along, 32))),
		.warps_along = (int)warps,
		.wavefronts = warps > 1 ? (int64_t)ceil(results * warps * 8 / SHARED_CYCLE_BYTES) : 0};
}

static void reduce_work(const struct vm_ctx *c, const struct vm_instr *in, const struct cost_plan *plan, struct work *w)
{
	double warps = c->meter->plans->warps, threads = 32 * warps, n = (double)elements_of(c, vm_src(c, in, 0)), len = n,
		   inner = 1;
	if (in->op == OP_REDUCE || in->op == OP_SCAN) {
		const struct region_shape *s = in->extra;
		len = (double)s->len;
		inner = (double)s->inner;
	}
	/* How the compiled code moves values: by the layout, or guessed without one. */
	bool is_scan = plan->kind == PLAN_SCAN;
	struct cost_reduce r = plan->reduce ? *plan->reduce : reduce_guess(n, len, inner, threads);
	/* Of a function that is counted as it runs: what its instructions come to for each pair. */
	const struct cost_region *ran = &c->meter->region;
	double pairs = fmax(n - n / fmax(len, 1), 1), counted = (ran->fma + ran->alu + 8 * ran->special) / pairs;
	double combine = fmax(fmax(in->flops + in->special, 1), plan->is_metered ? counted : 0), each = ceil(n / threads),
		   twice = is_scan ? 2 : 1;
	double results = is_scan ? fmax((double)r.results, each / 4) : (double)r.results, shuffles = results * r.steps;
	/* A thread combines what it holds, lanes of a warp meet by shuffles; a scan does both once
	 * more to hand the sums on. */
	w->alu = each * combine * twice;
	w->other = shuffles * (1 + combine);
	w->latency = (each * combine * ALU_CYCLES / 2 + r.steps * (SHUFFLE_CYCLES + combine * ALU_CYCLES)) * twice;
	/* Warps meet in shared memory, behind a barrier. */
	if (r.warps_along > 1) {
		double steps = ceil(log2(r.warps_along));
		shuffles += (double)r.rounds * steps;
		w->other += results * 8;
		w->latency += 2 * BARRIER_CYCLES + BARRIER_WARP_CYCLES * r.warps_along + steps * SHUFFLE_CYCLES + 2 * L1_CYCLES;
		w->is_fence = true;
	}
	w->shared = (int64_t)(in->nsrc * ((double)r.wavefronts + shuffles * warps) *
		SHARED_CYCLE_BYTES); /* a shuffle takes the path of shared memory too */
}

static void dot_work(struct vm_ctx *c, const struct vm_instr *in, const struct cost_plan *plan, struct work *w)
{
	struct vm_cost *cost = vm_cost_row(c, in);
	double flops = 2.0 * in->imm[0] * in->imm[1] * in->imm[2] * in->imm[3], warps = c->meter->plans->warps;
	size_t size = elem_bytes((enum elem)in->elem);
	bool is_fma = !plan->mma_version;
	enum vm_dot unit = is_fma ? VM_DOT_FMA : size == 4 ? VM_DOT_TF32 : size == 2 ? VM_DOT_HALF : VM_DOT_BYTE;
	double parts = !is_fma && size == 4 && in->special >= 2 ? in->special == 4 ? 6 : 3 : 1; /* tf32x3, bf16x3, bf16x6 */
	cost->dot_by[unit] += (int64_t)flops;
	w->shared = (int64_t)in->imm[0] * ((int64_t)in->imm[1] + in->imm[2]) * in->imm[3] * (int64_t)size;
	if (is_fma) {
		w->fma = flops / 64 / warps;
		w->other = w->fma / 4;
		w->latency = L1_CYCLES + ALU_CYCLES;
		return;
	}
	double rate = TENSOR_FLOPS_PER_CYCLE * 2.0 / (double)size * (plan->mma_version >= 3 ? 1 : 0.6),
		   cycles = flops * parts / rate;
	cost->tensor_cycles += (int64_t)ceil(cycles);
	/* mma: operands come from shared memory through registers, 16 x 8 x 16 at a time; wgmma reads
	 * them itself. A warp has one quarter of the tensor cores. */
	if (plan->mma_version < 3) w->other = flops / 4096 * size / 2 / warps * 2;
	w->latency = DOT_CYCLES + cycles * fmax(4 / warps, 1);
	w->is_fence = plan->mma_version >= 3;
}

/* tl.gather: elements go to shared memory and are read there, each from wherever its index says. */
static void gather_work(struct vm_ctx *c, const struct vm_instr *in, struct work *w)
{
	double n = (double)elements_of(c, vm_dst(c, in, 0)), from = (double)elements_of(c, vm_src(c, in, 0));
	double each = ceil(n / (32.0 * c->meter->plans->warps)), size = (double)elem_bytes((enum elem)in->result_elem);
	w->alu = 2 * each;
	w->other = 2 * each;
	w->shared = (int64_t)((n + from) * size);
	w->latency = BARRIER_CYCLES + 2 * L1_CYCLES;
	w->is_fence = true;
}

static void memory_work(struct vm_ctx *c, const struct cost_plan *plan, struct work *w)
{
	struct vm_meter *m = c->meter;
	double each = ceil((double)m->requests / m->plans->warps);
	w->other = each * (plan->kind == PLAN_ATOMIC ? 2 : 1);
	w->alu = each;
	if (plan->kind == PLAN_LOAD) {
		double depth = plan->is_async ? MAX(m->plans->stages - 1, 1) : 1; /* a pipelined load was started turns ago */
		w->latency = (m->missed ? L2_CYCLES : L1_CYCLES) / depth;
		w->trips = m->missed ? 1 / depth : 0;
		w->floats = true;
		w->shared = plan->scattered * SHARED_CYCLE_BYTES;
	} else {
		w->latency = plan->kind == PLAN_ATOMIC ? ATOMIC_CYCLES : ALU_CYCLES;
		w->is_fence = true;
	}
	m->requests = 0;
	m->missed = false;
}

/* Element-wise: elements that the vm computed one by one; lazy and uniform results cost one
 * instruction a warp. */
static void map_work(struct vm_ctx *c, const struct vm_instr *in, const struct cost_plan *plan, struct work *w)
{
	int value = vm_dst(c, in, 0);
	bool is_dense = c->values[value].form == FORM_DENSE;
	w->latency = (plan->fma + plan->alu) * ALU_CYCLES * (plan->fma + plan->alu > 4 ? 0.6 : 1) +
		plan->special * SPECIAL_CYCLES;
	if (!is_dense) {
		w->other = LAZY_INSTRS;
		w->floats = true;
		return;
	}
	double n = (double)elements_of(c, value), each = ceil(n / (32.0 * c->meter->plans->warps));
	w->fma = plan->fma * each;
	w->alu = plan->alu * each;
	w->special = plan->special * each;
	struct vm_cost *cost = vm_cost_row(c, in);
	if (elem_is_int((enum elem)in->elem)) cost->int_ops += (int64_t)n;
	if (elem_is_narrow((enum elem)in->elem)) cost->flops_half += (int64_t)n * in->flops;
	if (in->elem == ELEM_F64) cost->flops_double += (int64_t)n * in->flops;
}

/* Elements by a function or by assembly: what their instructions are for the warps. */
static void elements_work(
	struct vm_ctx *c, const struct vm_instr *in, double fma, double alu, double special, struct work *w)
{
	double n = (double)(in->ndst ? elements_of(c, vm_dst(c, in, 0)) : 1);
	double warps = c->meter->plans->warps, each = ceil(n / (32.0 * warps));
	w->fma = fma / n * each;
	w->alu = alu / n * each;
	w->special = special / n * each;
	w->latency = (fma + alu) / n * ALU_CYCLES * 0.6 + special / n * SPECIAL_CYCLES;
	vm_cost_row(c, in)->int_ops += (int64_t)alu;
}

/* One instruction of a function on `lanes` pairs or elements; c->meter->region has the sums. */
void vm_cost_region(struct vm_ctx *c, const struct vm_instr *in)
{
	struct cost_region *r = &c->meter->region;
	const struct cost_plan *plan = vm_cost_plan(c, in);
	double lanes = (double)MAX(c->lanes, 1);
	bool is_map = plan->kind == PLAN_MAP || plan->kind == PLAN_ASM;
	r->fma += lanes * (is_map ? plan->fma : 0);
	r->alu += lanes * (is_map ? plan->alu : plan->kind == PLAN_JUMP || plan->kind == PLAN_BRANCH ? 2 : 0);
	r->special += lanes * (is_map ? plan->special : 0);
}

static void follow(
	struct vm_ctx *c, const struct vm_instr *in, const struct cost_plan *plan, const struct work *w, double issue)
{
	struct vm_meter *m = c->meter;
	struct when start = w->floats ? m->fence : m->clock;
	for (int i = 0; i < in->nsrc; i++) start = later(start, m->ready[vm_src(c, in, i)]);
	struct when done = {start.at + issue + w->latency, start.trips + w->trips};
	for (int i = 0; i < in->ndst; i++) m->ready[vm_dst(c, in, i)] = done;
	if (w->floats) m->clock.at += issue;
	else m->clock = (struct when){start.at + issue, start.trips};
	if (w->is_fence) m->fence = m->clock;
}

static void add_instrs(struct vm_ctx *c, const struct vm_instr *in, const struct work *w)
{
	struct vm_cost *cost = vm_cost_row(c, in);
	int64_t warps = c->meter->plans->warps;
	cost->fma_instrs += (int64_t)ceil(w->fma) * warps;
	cost->alu_instrs += (int64_t)ceil(w->alu) * warps;
	cost->special_instrs += (int64_t)ceil(w->special) * warps;
	cost->other_instrs += (int64_t)ceil(w->other * warps);
	cost->shared_bytes += w->shared;
}

void vm_cost_step(struct vm_ctx *c, const struct vm_instr *in)
{
	struct vm_meter *m = c->meter;
	const struct cost_plan *plan = vm_cost_plan(c, in);
	struct work w = {0};
	m->steps++;
	m->ran[in - c->program->instrs] |= 1;
	if (plan->has_sides) vm_sides_note(c, in);
	/* What this instruction is for a warp: instructions by pipe, bytes of shared memory, cycles
	 * until its result is there. */
	switch (plan->kind) {
	case PLAN_MAP: map_work(c, in, plan, &w); break;
	case PLAN_LOAD:
	case PLAN_STORE:
	case PLAN_ATOMIC: memory_work(c, plan, &w); break;
	case PLAN_REDUCE:
	case PLAN_SCAN: reduce_work(c, in, plan, &w); break;
	case PLAN_DOT: dot_work(c, in, plan, &w); break;
	case PLAN_JUMP:
		w.other = 2;
		if (++m->jumps % UNROLL == 0) w.is_fence = true;
		break;
	case PLAN_ASM: {
		double n = (double)elements_of(c, vm_dst(c, in, 0));
		elements_work(c, in, n * plan->fma, n * plan->alu, n * plan->special, &w);
		break;
	}
	case PLAN_REGION: elements_work(c, in, m->region.fma, m->region.alu, m->region.special, &w); break;
	case PLAN_SCALE: {
		double n = (double)elements_of(c, vm_dst(c, in, 0));
		elements_work(c, in, n, n, 0, &w);
		break;
	}
	case PLAN_GATHER: gather_work(c, in, &w); break;
	case PLAN_BRANCH: w.other = 2; break;
	case PLAN_BARRIER:
		w.other = 1;
		w.latency = BARRIER_CYCLES + BARRIER_WARP_CYCLES * m->plans->warps;
		w.is_fence = true;
		break;
	case PLAN_ASSERT:
	case PLAN_PRINT: {
		double n = in->nsrc ? (double)elements_of(c, vm_src(c, in, 0)) : 1;
		w.alu = ceil(n / (32.0 * m->plans->warps)) * (plan->kind == PLAN_PRINT ? PRINT_INSTRS : 2);
		w.latency = plan->kind == PLAN_PRINT ? PRINT_INSTRS * ALU_CYCLES : ALU_CYCLES;
		w.is_fence = true;
		break;
	}
	case PLAN_FREE:
	case PLAN_MOVE: break;
	}
	m->region = (struct cost_region){0};
	/* A change of layout goes through shared memory, with a barrier between. */
	if (plan->convert_bytes) {
		double each = ceil((double)plan->convert_bytes / (16 * 32 * m->plans->warps));
		w.shared += 2 * plan->convert_bytes;
		w.other += 2 * each + 2;
		w.latency += BARRIER_CYCLES + 2 * L1_CYCLES;
		w.is_fence = true;
	}
	if (plan->kind == PLAN_FREE || plan->kind == PLAN_MOVE) { /* no instruction of its own */
		struct when ready = {0, 0};
		for (int i = 0; i < in->nsrc; i++) {
			if (plan->kind == PLAN_MOVE && i < in->ndst) m->ready[vm_dst(c, in, i)] = m->ready[vm_src(c, in, i)];
			ready = later(ready, m->ready[vm_src(c, in, i)]);
		}
		for (int i = 0; plan->kind != PLAN_MOVE && i < in->ndst; i++) m->ready[vm_dst(c, in, i)] = ready;
		return;
	}
	/* The busiest of the issue slots, the integer pipe at half and the special one at an eighth
	 * of their rate. */
	double pipe = fmax(fmax(w.fma + w.alu + w.special + w.other, 2 * w.alu), 8 * w.special);
	follow(c, in, plan, &w, pipe * ceil(m->plans->warps / (double)SCHEDULERS));
	add_instrs(c, in, &w);
}

void vm_meter_gather(const struct vm_meter *m, struct vm_cost *to)
{
	to->steps += m->steps;
	to->steps_once += (int64_t)m->program * m->plans->program->ninstrs;
	to->path_cycles += m->path_cycles;
	to->path_trips += m->path_trips;
	to->path_cycles_max = MAX(to->path_cycles_max, m->path_max);
	to->atomic_hot = MAX(to->atomic_hot, m->plans->atomic_hot);
}

/* A buffer that is read again and again but fits in half of an L1 (weights, tables,
 * indices) stays there: each SM reads it once, whatever its programs ask for. */
#define RESIDENT_BYTES ((int64_t)64 << 10)
#define SMS_FEW 132
void vm_cost_l2(const int64_t *l2_loads, uint64_t index_max, const int64_t *footprint, struct vm_cost *to)
{
	for (uint64_t i = 0; i <= index_max; i++) {
		int64_t once = footprint[i] / 32 * SMS_FEW;
		if (footprint[i] <= RESIDENT_BYTES && l2_loads[i] > once) to->l2_sectors -= l2_loads[i] - once;
	}
}
