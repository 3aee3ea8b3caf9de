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
#include <math.h>
#include <stdlib.h>

#define L1_WAYS 4
#define SCHEDULERS 4
#define UNROLL 4
/* Uniform values and index arithmetic: folded into addresses, hoisted, or on the uniform pipe. */
#define LAZY_INSTRS 0.25

/* Cycles. Alu: dependent instruction; the others as published microbenchmarks and
 * bench/cost/cost_h200.py's chase_ns and reduce_ns give them for Hopper. */
#define ALU_CYCLES 4.5
#define SPECIAL_CYCLES 18
#define L1_CYCLES 38
#define L2_CYCLES 290
#define SHUFFLE_CYCLES 25
#define ATOMIC_CYCLES 400
#define DOT_CYCLES 35
#define PRINT_INSTRS 200          /* of an element that is printed: a call with its arguments in memory */
#define TENSOR_FLOPS_PER_CYCLE 4096   /* 16-bit, of one SM with wgmma */

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
	free(m->runs); /* of a function that faulted */
	free(m->most);
	free(m);
}

/* ---- a running program ---- */

void vm_cost_program_begin(struct vm_ctx *c)
{
	struct vm_meter *m = c->meter;
	memset(m->ready, 0, (size_t)c->program->nvalues * sizeof *m->ready);
	m->clock = m->fence = (struct when){0, 0};
	m->own = (struct meter_own){0};
	m->jumps = 0;
	m->has_stored = false;
	m->program++;
}

void vm_cost_program_end(struct vm_ctx *c)
{
	struct vm_meter *m = c->meter;
	int64_t cycles = llround(fmin(m->clock.at, 1e15));
	m->path_cycles += cycles;
	m->path_trips += llround(fmin(m->clock.trips, 1e15));
	m->path_max = MAX(m->path_max, cycles);
	const struct meter_own *own = &m->own;
	double l1 = vm_cost_l1_cycles(
		(double)own->load_lines, (double)own->missed_lines, (double)own->store_lines, (double)own->l2_sectors);
	m->l1_max = MAX(m->l1_max, llround(l1));
	m->shared_max = MAX(m->shared_max, own->shared_bytes);
	m->atomics_max = MAX(m->atomics_max, own->atomics);
}

static struct when later(struct when a, struct when b) { return a.at >= b.at ? a : b; }

void vm_cost_program_at(struct vm_ctx *c, double cycle) { c->meter->clock.at = c->meter->fence.at = cycle; }

double vm_cost_program_now(const struct vm_ctx *c) { return c->meter->clock.at; }

/* What an atomic waits for before it begins, beside its operands. */
static double fence_before(const struct vm_ctx *c, const struct vm_instr *in)
{
	bool is_atomic = in->op == OP_ATOMIC_RMW || in->op == OP_ATOMIC_CAS;
	if (!is_atomic || (in->imm[3] & ORDER_LOCAL)) return 0;
	bool is_ordered = in->imm[3] & (ORDER_ACQUIRE | ORDER_RELEASE);
	if (is_ordered && (in->imm[3] & ORDER_SYSTEM)) return VM_FENCE_SYSTEM_CYCLES;
	return (in->imm[3] & ORDER_RELEASE) && c->meter->has_stored ? VM_FENCE_CYCLES : 0;
}

double vm_cost_next_at(const struct vm_ctx *c, const struct vm_instr *in)
{
	struct when start = c->meter->clock;
	for (int i = 0; i < in->nsrc; i++) start = later(start, c->meter->ready[vm_src(c, in, i)]);
	return start.at + fence_before(c, in);
}

/* Instructions of each warp. */
struct work {
	double fma;
	double alu;
	double special;
	double other;
	double latency; /* cycles from its begin to its result */
	double trips;   /* waits for memory behind L1; a part of one where loads overlap */
	double before;  /* cycles that it waits, with its operands at hand */
	double f64;     /* of fma: products of fp64, each twice there */
	int64_t shared; /* turns of shared memory */
	bool is_fence;  /* what follows does not begin before */
	bool floats;    /* it may move up to the last fence */
};

static int64_t elements_of(const struct vm_ctx *c, int value) { return MAX(c->program->values[value].count, 1); }

/* Of n elements: how many a thread computes. */
static double each_of(const struct vm_ctx *c, const struct cost_plan *plan, double n)
{
	return fmax(ceil(n / (32.0 * c->meter->plans->warps)), (double)plan->held);
}

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
	w->f64 = in->elem == ELEM_F64 ? w->alu : 0;
	w->other = shuffles * (1 + combine);
	w->latency = (each * combine * ALU_CYCLES / 2 + r.steps * (SHUFFLE_CYCLES + combine * ALU_CYCLES)) * twice;
	/* What the function waits for, it waits for at each turn of these. */
	if (plan->is_metered) w->latency += ran->wait / pairs * (each + r.steps) * twice;
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
	/* The program's warps put the operands into shared memory for each other and meet
	 * before they read them. */
	w->latency = BARRIER_CYCLES + BARRIER_WARP_CYCLES * warps + L1_CYCLES;
	if (is_fma) {
		/* Every thread reads the rows and columns of its elements. */
		w->shared += plan->operand_turns * SHARED_CYCLE_BYTES;
		w->latency += (double)plan->operand_turns;
		w->fma = flops * plan->copies / 64 / warps * (size == 8 ? 2 : 1);
		w->f64 = size == 8 ? w->fma / 2 : 0;
		w->other = w->fma / 4;
		w->latency += ALU_CYCLES;
		return;
	}
	/* Tensor cores have fp64 at twice the rate of its pipes, where they have it. */
	if (size == 8) w->f64 = flops * plan->copies / 128 / warps;
	double rate = TENSOR_FLOPS_PER_CYCLE * 2.0 / (double)size * (plan->mma_version >= 3 ? 1 : 0.6),
		   cycles = flops * plan->copies * parts / rate;
	cost->tensor_cycles += (int64_t)ceil(cycles);
	/* mma: operands come from shared memory through registers, 16 x 8 x 16 at a time; wgmma reads
	 * them itself. A warp has one quarter of the tensor cores. */
	if (plan->mma_version < 3) w->other = flops * plan->copies / 4096 * (double)size / 2 / warps * 2;
	w->latency += DOT_CYCLES + cycles * fmax(4 / warps, 1);
	w->is_fence = plan->mma_version >= 3;
}

/* tl.histogram, as Triton makes it: for each element that a thread holds its warp votes once for
 * each bit of the bin's number, and a thread that owns every 32nd bin counts for each of these
 * which lanes voted for it. Then warps add theirs in shared memory, and read the sums. */
static void histogram_work(struct vm_ctx *c, const struct vm_instr *in, struct work *w)
{
	double warps = c->meter->plans->warps, bins = fmax((double)elements_of(c, vm_dst(c, in, 0)), 2);
	double each = ceil((double)elements_of(c, vm_src(c, in, 0)) / (32 * warps)), bits = ceil(log2(bins)),
		   own = fmax(bins / 32, 1);
	w->alu = each * (2 * bits + 10 + own * (fmax(bits - 5, 0) + 1));
	w->special = each * own;
	w->other = 2 * own;
	w->shared = (int64_t)(2 * warps * bins * 4);
	w->latency = w->alu * ALU_CYCLES * 0.6 + 2 * (vm_cost_barrier((int)warps) + L1_CYCLES);
	w->is_fence = true;
}

/* tl.gather: elements go to shared memory and are read there, each from wherever its index says: as
 * often as lanes meet in a bank, if 32 neighbours are a warp's. */
static void gather_work(struct vm_ctx *c, const struct vm_instr *in, struct work *w)
{
	double n = (double)elements_of(c, vm_dst(c, in, 0)), from = (double)elements_of(c, vm_src(c, in, 0));
	double each = ceil(n / (32.0 * c->meter->plans->warps)), size = (double)elem_bytes((enum elem)in->result_elem);
	w->alu = 2 * each;
	w->other = 2 * each;
	w->shared = (int64_t)(from * size) + c->meter->bank_turns * SHARED_CYCLE_BYTES;
	w->latency = BARRIER_CYCLES + 2 * L1_CYCLES + (double)c->meter->bank_turns;
	c->meter->bank_turns = 0;
	w->is_fence = true;
}

static void memory_work(struct vm_ctx *c, const struct vm_instr *in, const struct cost_plan *plan, struct work *w)
{
	struct vm_meter *m = c->meter;
	double each = ceil((double)m->requests / m->plans->warps);
	w->other = each * (plan->kind == PLAN_ATOMIC ? 2 : 1);
	w->alu = each;
	if (plan->kind == PLAN_LOAD) {
		/* A pipelined load was started turns ago, but the first one of a program is waited for. */
		bool is_first = m->ready[vm_dst(c, in, 0)].at == 0;
		double depth = plan->is_async && !is_first ? MAX(m->plans->stages - 1, 1) : 1;
		w->latency = (m->missed ? L2_CYCLES : L1_CYCLES) / depth;
		w->trips = m->missed ? 1 / depth : 0;
		/* Each turn of a pipelined loop waits for its own copies, behind a barrier. */
		w->floats = !plan->is_async || is_first;
		w->shared = plan->scattered * SHARED_CYCLE_BYTES;
	} else {
		w->latency = plan->kind == PLAN_ATOMIC ? ATOMIC_CYCLES : ALU_CYCLES;
		w->before = fence_before(c, in);
		if (plan->kind == PLAN_STORE) m->has_stored = true;
		else if ((in->imm[3] & ORDER_RELEASE) && !(in->imm[3] & ORDER_LOCAL)) m->has_stored = false;
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
	/* Before the loop it was made already: nothing is waited for. */
	bool was_made = plan->is_hoisted && c->meter->ready[value].at > 0;
	if (!was_made)
		w->latency = (plan->fma + plan->alu) * ALU_CYCLES * (plan->fma + plan->alu > 4 ? 0.6 : 1) +
			plan->special * SPECIAL_CYCLES;
	if (!is_dense || plan->is_folded || was_made) {
		w->other = LAZY_INSTRS;
		w->floats = true;
		/* A float that is the same for all is every warp's all the same: the
		 * uniform pipe has none. */
		if (c->values[value].form != FORM_SPLAT || was_made || elem_is_int((enum elem)in->result_elem)) return;
		w->other = 0;
		w->fma = plan->fma;
		w->alu = plan->alu;
		w->special = plan->special;
		w->f64 = plan->is_f64 ? w->fma / 2 : 0;
		return;
	}
	double n = (double)elements_of(c, value), each = each_of(c, plan, n);
	w->fma = plan->fma * each;
	w->f64 = plan->is_f64 ? w->fma / 2 : 0;
	w->alu = plan->alu * each;
	w->special = plan->special * each;
	struct vm_cost *cost = vm_cost_row(c, in);
	if (elem_is_int((enum elem)in->elem)) cost->int_ops += (int64_t)n;
	if (elem_is_narrow((enum elem)in->elem)) cost->flops_half += (int64_t)n * in->flops;
	if (in->elem == ELEM_F64) cost->flops_double += (int64_t)n * in->flops;
}

/* Elements by a function or by assembly: what their instructions are for the warps. */
static void elements_work(struct vm_ctx *c, const struct vm_instr *in, const struct cost_region *all, struct work *w)
{
	double n = (double)(in->ndst ? elements_of(c, vm_dst(c, in, 0)) : 1);
	double each = each_of(c, vm_cost_plan(c, in), n);
	w->fma = all->fma / n * each;
	w->alu = all->alu / n * each;
	w->special = all->special / n * each;
	w->f64 = all->f64 / n * each;
	/* A warp that waits does so for each element that a thread has, one after another. */
	w->latency = (all->fma + all->alu) / n * ALU_CYCLES * 0.6 + all->special / n * SPECIAL_CYCLES +
		all->wait / n * each;
	w->is_fence = all->wait > 0;
	vm_cost_row(c, in)->int_ops += (int64_t)all->alu;
}

static void region_add(struct cost_region *r, const struct cost_plan *plan, double times)
{
	bool is_map = plan->kind == PLAN_MAP || plan->kind == PLAN_ASM;
	r->fma += times * (is_map ? plan->fma : 0);
	r->alu += times * (is_map ? plan->alu : plan->kind == PLAN_JUMP || plan->kind == PLAN_BRANCH ? 2 : 0);
	r->special += times * (is_map ? plan->special : 0);
	r->f64 += times * (plan->is_f64 ? plan->fma / 2.0 : plan->f64);
	r->wait += times * plan->wait;
}

/* ---- lanes that go ways of their own ----
 *
 * A function with branches runs for one element or pair after another here, and for the 32 of a
 * warp together on a GPU: what one of them runs the others wait for. So each instruction counts as
 * often as the lane ran it that ran it most. Which lanes are a warp's is the compiler's choice, and
 * may have neighbours in other warps or in one thread, so the lanes of four
 * warps are taken for one.
 */
#define LANES_TOGETHER 128

void vm_cost_lanes_begin(struct vm_ctx *c, const struct vm_instr *first, const struct vm_instr *last)
{
	struct vm_meter *m = c->meter;
	if (!c->want_cost || !vm_cost_plan(c, first - 1)->is_metered) return;
	m->runs = xcalloc((size_t)c->program->ninstrs + 1, sizeof *m->runs);
	m->most = xcalloc((size_t)c->program->ninstrs + 1, sizeof *m->most);
	m->first = (int)(first - c->program->instrs);
	m->last = (int)(last - c->program->instrs);
	m->together = 0;
}

static void lanes_take(struct vm_ctx *c)
{
	struct vm_meter *m = c->meter;
	for (int i = m->first; i <= m->last; i++) {
		const struct cost_plan *plan = &m->plans->plans[i];
		region_add(&m->region, plan, (double)m->most[i] * m->together);
		if (m->most[i] && plan->is_open_sleep) vm_cost_row(c, &c->program->instrs[i])->untimed[VM_UNTIMED_SLEEP]++;
		m->most[i] = 0;
	}
	m->together = 0;
}

void vm_cost_lane(struct vm_ctx *c)
{
	struct vm_meter *m = c->meter;
	if (!c->want_cost || !m->runs) return;
	for (int i = m->first; i <= m->last; i++) {
		m->most[i] = MAX(m->most[i], m->runs[i]);
		m->runs[i] = 0;
	}
	if (++m->together == LANES_TOGETHER) lanes_take(c);
}

void vm_cost_lanes_end(struct vm_ctx *c)
{
	struct vm_meter *m = c->meter;
	if (!c->want_cost || !m->runs) return;
	lanes_take(c);
	free(m->runs);
	free(m->most);
	m->runs = m->most = NULL;
}

/* One instruction of a function on `lanes` pairs or elements; c->meter->region has the sums. */
void vm_cost_region(struct vm_ctx *c, const struct vm_instr *in)
{
	struct cost_region *r = &c->meter->region;
	const struct cost_plan *plan = vm_cost_plan(c, in);
	double lanes = (double)MAX(c->lanes, 1);
	if (c->meter->runs) {
		c->meter->runs[in - c->program->instrs]++;
		return;
	}
	region_add(r, plan, lanes);
	if (plan->is_open_sleep) vm_cost_row(c, in)->untimed[VM_UNTIMED_SLEEP]++;
}

static void follow(
	struct vm_ctx *c, const struct vm_instr *in, const struct cost_plan *plan, const struct work *w, double issue)
{
	struct vm_meter *m = c->meter;
	struct when start = w->floats ? m->fence : m->clock;
	for (int i = 0; i < in->nsrc; i++) start = later(start, m->ready[vm_src(c, in, i)]);
	start.at += w->before;
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
	cost->f64_instrs += (int64_t)ceil(w->f64) * warps;
	cost->alu_instrs += (int64_t)ceil(w->alu) * warps;
	cost->special_instrs += (int64_t)ceil(w->special) * warps;
	cost->other_instrs += (int64_t)ceil(w->other * warps);
	cost->shared_bytes += w->shared;
	c->meter->own.shared_bytes += w->shared;
}

/* A turn of an outer loop is over: what it changes and loops within it do not is made anew in the
 * next one. */
static void outer_turn(struct vm_ctx *c, const struct vm_instr *jump)
{
	const struct cost_plan *plans = c->meter->plans->plans;
	for (int i = jump->target; &c->program->instrs[i] < jump; i++)
		if (plans[i].is_hoisted && plans[i].made_anew >= jump->target)
			c->meter->ready[vm_dst(c, &c->program->instrs[i], 0)] = (struct when){0, 0};
}

/* What an instruction is for a warp: instructions by pipe, bytes of shared memory, cycles until its
 * result is there. */
static struct work work_of(struct vm_ctx *c, const struct vm_instr *in, const struct cost_plan *plan)
{
	struct vm_meter *m = c->meter;
	struct work w = {0};
	switch (plan->kind) {
	case PLAN_MAP: map_work(c, in, plan, &w); break;
	case PLAN_LOAD:
	case PLAN_STORE:
	case PLAN_ATOMIC: memory_work(c, in, plan, &w); break;
	case PLAN_REDUCE:
	case PLAN_SCAN: reduce_work(c, in, plan, &w); break;
	case PLAN_DOT: dot_work(c, in, plan, &w); break;
	case PLAN_JUMP:
		w.other = 2;
		if (++m->jumps % UNROLL == 0) w.is_fence = true;
		if (plan->makes_anew) outer_turn(c, in);
		break;
	case PLAN_ASM: {
		double n = (double)elements_of(c, vm_dst(c, in, 0));
		struct cost_region all = {n * plan->fma, n * plan->alu, n * plan->special, n * plan->f64, n * plan->wait};
		elements_work(c, in, &all, &w);
		if (plan->is_open_sleep) vm_cost_row(c, in)->untimed[VM_UNTIMED_SLEEP]++;
		break;
	}
	case PLAN_REGION: elements_work(c, in, &m->region, &w); break;
	case PLAN_SCALE: {
		double n = (double)elements_of(c, vm_dst(c, in, 0));
		elements_work(c, in, &(struct cost_region){.fma = n, .alu = n}, &w);
		break;
	}
	case PLAN_HISTOGRAM: histogram_work(c, in, &w); break;
	case PLAN_GATHER: gather_work(c, in, &w); break;
	case PLAN_BRANCH: w.other = 2; break;
	case PLAN_BARRIER:
		w.other = 1;
		w.latency = vm_cost_barrier(m->plans->warps);
		w.is_fence = true;
		break;
	case PLAN_ASSERT:
	case PLAN_PRINT: {
		double n = in->nsrc ? (double)elements_of(c, vm_src(c, in, 0)) : 1;
		w.alu = ceil(n / (32.0 * m->plans->warps)) * (plan->kind == PLAN_PRINT ? PRINT_INSTRS : 2);
		if (plan->kind == PLAN_PRINT) vm_cost_row(c, in)->untimed[VM_UNTIMED_PRINT]++;
		w.latency = plan->kind == PLAN_PRINT ? PRINT_INSTRS * ALU_CYCLES : ALU_CYCLES;
		w.is_fence = true;
		break;
	}
	case PLAN_FREE:
	case PLAN_MOVE: break;
	}
	/* A change of layout goes through shared memory, with a barrier between. */
	if (plan->convert_bytes) {
		double each = ceil((double)plan->convert_bytes / (16 * 32 * m->plans->warps));
		w.shared += 2 * plan->convert_bytes;
		w.other += 2 * each + 2;
		w.latency += BARRIER_CYCLES + 2 * L1_CYCLES;
		w.is_fence = true;
	}
	return w;
}

/* No instruction of its own: its results are there when its operands are, a moved one when its own
 * operand is. */
static void names_follow(struct vm_ctx *c, const struct vm_instr *in, bool is_move)
{
	struct vm_meter *m = c->meter;
	struct when ready = {0, 0};
	for (int i = 0; i < in->nsrc; i++) {
		if (is_move && i < in->ndst) m->ready[vm_dst(c, in, i)] = m->ready[vm_src(c, in, i)];
		ready = later(ready, m->ready[vm_src(c, in, i)]);
	}
	for (int i = 0; !is_move && i < in->ndst; i++) m->ready[vm_dst(c, in, i)] = ready;
}

void vm_cost_step(struct vm_ctx *c, const struct vm_instr *in)
{
	struct vm_meter *m = c->meter;
	const struct cost_plan *plan = vm_cost_plan(c, in);
	m->steps++;
	m->ran[in - c->program->instrs] |= 1;
	if (plan->has_sides) vm_sides_note(c, in);
	struct work w = work_of(c, in, plan);
	m->region = (struct cost_region){0};
	if (plan->kind == PLAN_FREE || plan->kind == PLAN_MOVE) {
		names_follow(c, in, plan->kind == PLAN_MOVE);
		if (!plan->convert_bytes) return;
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
	vm_meter_gather_most(m, to);
}

void vm_meter_gather_most(const struct vm_meter *m, struct vm_cost *to)
{
	to->l1_cycles_max = MAX(to->l1_cycles_max, m->l1_max);
	to->shared_bytes_max = MAX(to->shared_bytes_max, m->shared_max);
	to->atomics_max = MAX(to->atomics_max, m->atomics_max);
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
