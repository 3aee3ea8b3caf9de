/* What each instruction of a program costs, as far as the program, the compiler's layouts and the
 * number of warps tell: settled once for a launch, before the first program runs (meter.c adds what
 * hangs on values). */
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
#define CONVERT_BYTES_MAX ((int64_t)1 << LAYOUT_BITS)

/* fma, alu and special instructions of an element's operation: read in SASS of sm_90 and, where
 * they are common, checked against the rates that bench/cost/cost_h200.py measures; of rare
 * functions both sides of their branches. A 32-bit product takes the fma pipe twice as long. ipowi
 * is a loop: as many turns as an exponent has bits. The table below takes one of each from the list
 * of operations, so a new operation without a cost does not compile. */
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
struct pipes { /* instructions on each, for one element */
	uint8_t fma;
	uint8_t alu;
	uint8_t special;
};
#define X(id, ...) [id] = {COST_OF_##id},
static const struct pipes map_costs[MAP_COUNT] = {MAP_TABLE(X)};
#undef X

/* fp64 has pipes of its own and no special function units: a quotient or root is a first guess of
 * 32 bits and Newton's steps, any other function a polynomial, in products of fp64. */
#define F64_QUOTIENT 10
#define F64_FUNCTION 24
static void f64_cost(const struct vm_instr *in, struct cost_plan *plan)
{
	static const int16_t quotients[] = {MAP_DIVF, MAP_PRECISE_DIVF, MAP_SQRT, MAP_PRECISE_SQRT, MAP_RSQRT, MAP_RCP};
	bool is_cast = in->nsrc == 1 && in->map_op < 0, is_quotient = false;
	for (size_t i = 0; i < ARRAY_LEN(quotients); i++) is_quotient |= in->map_op == quotients[i];
	int own = plan->fma + plan->alu;
	if (is_cast || (plan->special && !own)) return; /* conversions and whole parts are one instruction of special */
	if (own > 2 || plan->special) own = MAX(own, is_quotient ? F64_QUOTIENT : F64_FUNCTION);
	plan->fma = (uint16_t)(2 * own); /* comparisons and extremes too are these pipes' */
	plan->alu = (uint16_t)(own > 2);
	plan->is_f64 = true;
}

static void map_cost(const struct vm_program *p, const struct vm_instr *in, struct cost_plan *plan)
{
	if (in->map_op < 0) { /* casts, comparisons, selects */
		/* Between integers and floats the special pipe converts, but int32 to fp32 is the alu's,
		 * and a truth value is selected. */
		bool from_int = elem_is_int((enum elem)in->elem), to_float = elem_is_float((enum elem)in->result_elem);
		bool is_plain = in->elem == ELEM_I1 || in->result_elem == ELEM_I1 ||
			(in->elem == ELEM_I32 && in->result_elem == ELEM_F32);
		plan->special = in->ndst && in->nsrc == 1 && from_int == to_float && !is_plain;
		plan->alu = !plan->special;
	} else {
		plan->fma = map_costs[in->map_op].fma;
		plan->alu = map_costs[in->map_op].alu;
		plan->special = map_costs[in->map_op].special;
	}
	if (elem_is_int((enum elem)in->elem) && elem_bytes((enum elem)in->elem) == 8) {
		plan->fma *= 3;
		plan->alu *= 2;
	}
	if (in->elem == ELEM_F64) f64_cost(in, plan);
}

/* What kind of instruction each operation is, of all of them: what is missing here does not
 * compile. Free are names and shapes of what registers hold already (changes of layout are counted
 * where the compiler put them), scalars that many programs share, and addresses, which belong to
 * the accesses that use them. A loop's test belongs to its jump. */
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
#define PLAN_OF_OP_HISTOGRAM PLAN_HISTOGRAM
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

/* Registers may come in any order: it is the thread that counts. */
static uint64_t threads_of(const struct cost_lanes *l)
{
	uint64_t h = 1;
	for (int i = 0; i < 32; i++) h = (h ^ (uint64_t)l->lane[i]) * 0x9e3779b97f4a7c15u;
	for (int i = 0; i < l->nwarp; i++) h = ((h ^ h >> 32) + (uint64_t)l->warp[i]) * 0x9e3779b97f4a7c15u;
	return h | 1;
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
	plan->is_bulk = site && site->is_bulk;
	plan->scattered = site && site->is_scattered ? info->count : 0;
	if (cost_lanes_of(layout, info->ndim, info->shape, (int)elem_bytes(element->elem), plans->warps, lanes))
		plan->lanes = lanes;
	if (plan->lanes && layout) plan->threads = threads_of(lanes);
}

/* An exchange along an axis that no two warps share is made of shuffles: no warp waits for another
 * there. */
static void exchange_plan(
	struct vm_cost_plans *plans, const struct vm_instr *in, struct cost_plan *plan, enum cost_site_kind kind, int axis)
{
	const struct vm_program *p = plans->program;
	const struct vm_value_info *info = &p->values[p->ids[in->src]];
	const struct vm_source *at = &p->locs[in->loc];
	const struct cost_site *site = cost_site_find(plans->layouts, kind, at->line, at->column, info->ndim, info->shape);
	struct cost_reduce reduce;
	if (!site || site->layout < 0 || site->ndim != info->ndim || plans->warps < 2 ||
		memcmp(site->shape, info->shape, (size_t)info->ndim * sizeof *info->shape))
		return;
	plan->is_within_warps |= cost_reduce_of(&plans->layouts->layouts[site->layout], info->ndim, info->shape, axis,
								 plans->warps, &reduce) &&
		reduce.warps_along == 1;
}

/* The axis of a reduction or scan, of which the program keeps how many elements lie behind it. */
static int axis_of(const struct vm_value_info *info, const struct region_shape *s)
{
	int axis = info->ndim - 1;
	for (int64_t inner = 1; inner < s->inner && axis > 0; axis--) inner *= info->shape[axis];
	return axis;
}

/* By which unit, and what its operands cost. Without a TTGIR: what the compiler does with a block
 * that is large enough. */
static void dot_plan(struct vm_cost_plans *plans, const struct vm_instr *in, struct cost_plan *plan)
{
	const struct vm_source *at = &plans->program->locs[in->loc];
	const struct vm_value_info *d = &plans->program->values[plans->program->ids[in->dst]];
	const struct cost_site *site = cost_site_find(
		plans->layouts, COST_SITE_DOT, at->line, at->column, d->ndim, d->shape);
	const struct cost_layout *layout = site && site->layout >= 0 && site->ndim == d->ndim
		? &plans->layouts->layouts[site->layout]
		: NULL;
	if (layout) plan->mma_version = layout->mma_version;
	else if (in->elem == ELEM_F64 || (in->elem == ELEM_F32 && in->special == 0)) plan->mma_version = 0;
	else plan->mma_version = in->imm[1] >= 64 && plans->warps % 4 == 0 ? 3 : 2;
	/* A result of fewer elements than the program's warps hold is computed by several of them. */
	struct cost_lanes lanes;
	plan->copies = 1;
	if (layout && cost_lanes_of(layout, d->ndim, d->shape, 4, plans->warps, &lanes))
		plan->copies = fmax(ldexp(32.0 * plans->warps, lanes.nreg) / (double)d->count, 1);
	if (!plan->mma_version)
		plan->operand_turns = cost_dot_turns(
			site, layout, d->ndim, d->shape, in->imm[3], (int)elem_bytes((enum elem)in->elem), plans->warps);
}

static void reduce_plan(struct vm_cost_plans *plans, const struct vm_instr *in, struct cost_plan *plan)
{
	const struct vm_program *p = plans->program;
	const struct vm_value_info *info = &p->values[p->ids[in->src]];
	const struct vm_source *at = &p->locs[in->loc];
	const struct cost_site *site = cost_site_find(
		plans->layouts, COST_SITE_REDUCE, at->line, at->column, info->ndim, info->shape);
	if (!site || site->layout < 0 || site->ndim != info->ndim ||
		memcmp(site->shape, info->shape, (size_t)info->ndim * sizeof *info->shape))
		return;
	int axis = axis_of(info, in->extra);
	struct cost_reduce *reduce = arena_alloc(&plans->arena, sizeof *reduce);
	if (cost_reduce_of(&plans->layouts->layouts[site->layout], info->ndim, info->shape, axis, plans->warps, reduce))
		plan->reduce = reduce;
	plan->is_within_warps |= plan->reduce && reduce->warps_along == 1 && plans->warps > 1;
}

/* Of an element-wise operation on a block that is a slice of another: how many elements a thread
 * has. Lanes and warps along the axis that is gone hold the same ones, and each computes them. */
static void held_plan(struct vm_cost_plans *plans, const struct vm_instr *in, struct cost_plan *plan)
{
	const struct vm_value_info *info = in->ndst ? &plans->program->values[plans->program->ids[in->dst]] : NULL;
	const struct vm_source *at = &plans->program->locs[in->loc];
	struct cost_lanes lanes;
	if (!info || info->ndim < 1 || info->ndim > LAYOUT_DIMS) return;
	const struct cost_site *site = cost_site_find(
		plans->layouts, COST_SITE_MAP, at->line, at->column, info->ndim, info->shape);
	if (!site || site->layout < 0 || site->ndim != info->ndim ||
		memcmp(site->shape, info->shape, (size_t)info->ndim * sizeof *info->shape))
		return;
	if (cost_lanes_of(&plans->layouts->layouts[site->layout], info->ndim, info->shape, 4, plans->warps, &lanes))
		plan->held = (int64_t)1 << lanes.nreg;
}

/* An element's share of inline assembly: its instructions, each on its own
 * pipe, and what it waits. */
static void asm_cost(const struct vm_instr *in, int warps, struct cost_plan *plan)
{
	const struct asm_block *b = in->extra;
	const struct ptx_waits *waits = &b->code.waits_for;
	int fma = 0, alu = waits->count, special = 0, f64 = 0;
	for (int i = 0; i < b->code.ninstrs; i++) {
		struct ptx_cost c = ptx_cost_of(&b->code.instrs[i]);
		fma += c.fma;
		alu += c.alu;
		special += c.special;
		f64 += c.f64;
	}
	plan->fma = (uint16_t)MIN((fma + b->pack - 1) / b->pack, UINT16_MAX);
	plan->alu = (uint16_t)MIN((alu + b->pack - 1) / b->pack, UINT16_MAX);
	plan->special = (uint16_t)MIN((special + b->pack - 1) / b->pack, UINT16_MAX);
	plan->f64 = (uint16_t)MIN((f64 + b->pack - 1) / b->pack, UINT16_MAX);
	plan->wait = (waits->barriers * vm_cost_barrier(warps) + waits->fences * VM_FENCE_CYCLES +
					 waits->system_fences * VM_FENCE_SYSTEM_CYCLES + waits->sleep_ns * VM_SLEEP_TIMES * VM_CYCLES_NS) /
		b->pack;
	plan->is_open_sleep = waits->is_open;
}

/* Whether a reduction's function does more than the operation that its name stands for: loops,
 * assembly, or many instructions. What runs of it is counted then. */
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

/* Whom a change of layout belongs to: the last instruction at its place that costs something, or
 * the last one there (an expand_dims of a row, a trans for a product). -1: none. */
static int converts_at(const struct vm_cost_plans *plans, const struct cost_site *site)
{
	const struct vm_program *p = plans->program;
	int free_one = -1;
	for (int i = p->ninstrs - 1; i >= 0; i--) {
		const struct vm_source *at = &p->locs[p->instrs[i].loc];
		if (at->line != site->line || at->column != site->column) continue;
		if (plans->plans[i].kind != PLAN_FREE) return i;
		if (free_one < 0) free_one = i;
	}
	return free_one;
}

static void add_conversions(struct vm_cost_plans *plans)
{
	const struct vm_layouts *l = plans->layouts;
	for (int s = 0; l && s < l->nsites; s++) {
		const struct cost_site *site = &l->sites[s];
		if (site->kind != COST_SITE_CONVERT) continue;
		int64_t bytes = site->is_scattered ? SHARED_CYCLE_BYTES / 2
										   : MAX(site->elem_bits / 8, 1); /* counted twice, in and out */
		for (int d = 0; d < site->ndim; d++)
			bytes = MIN(bytes * MAX(site->shape[d], 1), CONVERT_BYTES_MAX); /* the text may claim any shape */
		int i = converts_at(plans, site);
		if (i >= 0) plans->plans[i].convert_bytes += bytes;
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
		/* By its kind: pipes, memory, what of it needs its values. */
		plan->kind = kind_of(in);
		if (plan->kind == PLAN_MAP) map_cost(p, in, plan);
		if (plan->kind == PLAN_ASM) asm_cost(in, plans->warps, plan);
		if (plan->kind == PLAN_REGION) plan->is_metered = true;
		if (plan->kind == PLAN_MAP || plan->kind == PLAN_ASM || plan->kind == PLAN_REGION) held_plan(plans, in, plan);
		if ((in->op == OP_REDUCE || in->op == OP_SCAN) && is_heavy_region(p, in)) plan->is_metered = true;
		if (plan->kind == PLAN_LOAD || plan->kind == PLAN_STORE || plan->kind == PLAN_ATOMIC)
			memory_plan(plans, in, plan);
		const struct vm_source *at = &p->locs[in->loc];
		bool is_memory = plan->kind == PLAN_LOAD || plan->kind == PLAN_STORE || plan->kind == PLAN_ATOMIC;
		if (p->has_hints && compiled && is_memory) plan->joined = vm_joined_bytes(compiled, at->line, at->column);
		/* Warps meet in shared memory alone. */
		plan->is_within_warps = plans->layouts && plans->warps > 1 && !compiled->binary.shared_bytes;
		if (plan->kind == PLAN_REDUCE) reduce_plan(plans, in, plan);
		if (in->op == OP_SCAN)
			exchange_plan(plans, in, plan, COST_SITE_SCAN, axis_of(&p->values[p->ids[in->src]], in->extra));
		if (in->op == OP_GATHER) exchange_plan(plans, in, plan, COST_SITE_GATHER, in->imm[0]);
		if (plan->kind == PLAN_DOT) dot_plan(plans, in, plan);
	}
	vm_cost_divisions(plans);
	vm_cost_folds(plans);
	/* Changes of layout stand in the compiled text alone: they are added where its lines say. */
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

/* ---- what it says of an order between threads ---- */

struct vm_code vm_plan_code(const struct vm_ctx *c, const struct vm_instr *in)
{
	if (!c->meter) return (struct vm_code){0};
	const struct cost_plan *plan = vm_cost_plan(c, in);
	int stages = c->meter->plans->stages;
	return (struct vm_code){plan->threads, plan->is_async ? MAX(stages, 1) : 0, stages > 0, plan->is_bulk};
}

void vm_plan_exchange(struct vm_ctx *c, const struct vm_instr *in)
{
	if (!c->meter || !vm_cost_plan(c, in)->is_within_warps) c->collectives++;
}
