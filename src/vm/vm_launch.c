/* A launch: arguments checked and set, programs of the grid run over the pool, faults and counts
 * gathered.
 *
 * What a launch reports does not depend on the number of threads: the fault of the lowest program
 * number wins (programs above it are skipped, those below still run), counts are sums, and kernels
 * with atomics and launches with checks run on one thread in order. */
#include "vm/check/check.h"
#include "base/base.h"
#include "cost/cost.h"
#include "tape/tape.h"
#include "ttir/ttir.h"
#include "vm/exec/exec.h"
#include "vm/lower/lower.h"
#include "vm/meter/meter.h"
#include "vm/meter/depend.h"
#include "vm/vm_clock.h"
#include "vm/vm_sample.h"
#include "vm/vm_schedule.h"
#include <stdatomic.h>
#include <stdlib.h>

#define GRID_X_MAX 0x7fffffffu
#define GRID_YZ_MAX 65535u

struct launch {
	const struct vm_kernel *k;
	const struct vm_program *p;
	const struct vm_launch_options *o;
	struct vm_memory memory;
	_Atomic int64_t faulted; /* lowest program number with a fault; INT64_MAX: none */
	int threads;
	struct vm_ctx **ctx;           /* (threads), made when a thread runs its first program */
	struct vm_report *reports;     /* (threads) */
	struct vm_report *passed_over; /* (threads) */
	struct vm_cost **costs;        /* (threads, lines) */
	uint8_t **read_map;            /* (buffer index): granules that loads touched, a byte each */
	uint8_t **write_map;           /* (buffer index): and stores */
	struct vm_check *check;        /* NULL unless checks are asked for */
	struct vm_cost_plans *plans;   /* want_cost */
	struct vm_meter **meters;      /* (threads) */
	struct vm_progress *progress;  /* (threads) */
};

static int set_memory(struct launch *l, struct err *err)
{
	const struct vm_launch_options *o = l->o;
	uint64_t max = 0, last = 0;
	for (int i = 0; i < o->nbuffers; i++) {
		const struct vm_buffer *b = &o->buffers[i];
		uint64_t index = b->address >> TAPE_ADDRESS_SHIFT;
		if (b->address != index << TAPE_ADDRESS_SHIFT || index <= last || index > TAPE_BUFFERS_MAX || b->bytes < 0 ||
			b->bytes > (int64_t)1 << TAPE_ADDRESS_SHIFT)
			return err_set(err, ERR_RANGE,
				"launch of %s: buffer %d (address 0x%llx, %lld bytes) is not a tape buffer, or out of order",
				l->k->name, i, (unsigned long long)b->address, (long long)b->bytes);
		max = last = index;
	}
	l->memory = (struct vm_memory){
		.index_max = max, .buffers = o->buffers, .nbuffers = o->nbuffers, .has_host_pointers = o->has_host_pointers};
	l->memory.by_index = xcalloc((size_t)max + 1, sizeof *l->memory.by_index);
	for (int i = 0; i < o->nbuffers; i++)
		l->memory.by_index[o->buffers[i].address >> TAPE_ADDRESS_SHIFT] = &o->buffers[i];
	return 0;
}

static int arg_bits(const struct vm_kernel *k, int i, const struct vm_arg *a, uint8_t bits[8], struct err *err)
{
	enum elem e = k->module.types[k->arg_types[i]].elem;
	memset(bits, 0, 8);
	if (elem_is_float(e)) {
		bool strips;
		if (e == ELEM_F64) memcpy(bits, &a->f, 8);
		else map_cast_kernel("truncf", ELEM_F64, e, &strips)(bits, &a->f, NULL, NULL, 1, 0);
		return 0;
	}
	int width = e == ELEM_I1 ? 1 : 8 * (int)elem_bytes(e);
	if (width < 64 && (a->i < -((int64_t)1 << (width - 1)) || a->i >= (int64_t)1 << width))
		return err_set(err, ERR_RANGE, "launch of %s: argument %d is %lld, which does not fit %s", k->name, i,
			(long long)a->i, k->arg_type_text[i]);
	int64_t v = e == ELEM_I1 ? a->i & 1 : a->i;
	memcpy(bits, &v, elem_bytes(e));
	return 0;
}

/* The IR was specialised for arguments that are multiples of a number; launched with another it
 * does what it likes. */
static int check_divisibility(const struct vm_kernel *k, int i, const struct vm_arg *a, struct err *err)
{
	int64_t by = k->arg_divisibility[i];
	enum elem e = k->module.types[k->arg_types[i]].elem;
	if (by < 2 || elem_is_float(e) || a->i % by == 0) return 0;
	int64_t value = e == ELEM_PTR ? a->i & (((int64_t)1 << TAPE_ADDRESS_SHIFT) - 1) : a->i;
	return err_set(err, ERR_RANGE,
		"launch of %s: argument %d (%s) is %s%lld, but this kernel was compiled for a multiple of %lld", k->name, i,
		k->arg_names[i], e == ELEM_PTR ? "a pointer at byte " : "", (long long)value, (long long)by);
}

static int check_launch(const struct launch *l, struct err *err)
{
	const struct vm_launch_options *o = l->o;
	if (o->nargs != l->k->nargs)
		return err_set(
			err, ERR_RANGE, "launch of %s: %d arguments given, the kernel takes %d", l->k->name, o->nargs, l->k->nargs);
	if (o->grid[0] > GRID_X_MAX || o->grid[1] > GRID_YZ_MAX || o->grid[2] > GRID_YZ_MAX)
		return err_set(err, ERR_RANGE, "launch of %s: grid (%u,%u,%u), allowed (%u,%u,%u)", l->k->name, o->grid[0],
			o->grid[1], o->grid[2], GRID_X_MAX, GRID_YZ_MAX, GRID_YZ_MAX);
	for (int i = 0; i < o->nargs; i++) {
		uint8_t bits[8];
		int rc = arg_bits(l->k, i, &o->args[i], bits, err);
		if (!rc) rc = check_divisibility(l->k, i, &o->args[i], err);
		if (rc) return rc;
	}
	return 0;
}

static struct vm_ctx *ctx_of(struct launch *l, int thread)
{
	if (l->ctx[thread]) return l->ctx[thread];
	struct vm_ctx *c = l->ctx[thread] = xcalloc(1, sizeof *c);
	/* Values with the kernel's constants and this launch's arguments. */
	vm_ctx_init(c, l->k, l->p);
	for (int i = 0; i < l->k->nargs; i++) {
		uint8_t *bits = c->values[l->k->arg_values[i]].splat;
		arg_bits(l->k, i, &l->o->args[i], bits, NULL);
		uint64_t word;
		memcpy(&word, bits, sizeof word);
		if (!vm_arg_is_pointer(l->k, i)) c->sizes = (c->sizes ^ word) * 0x9e3779b97f4a7c15u + (c->sizes >> 29);
	}
	memcpy(c->grid, l->o->grid, sizeof c->grid);
	/* What the launch allows, and where its thread reports. */
	c->args = l->o->args;
	c->memory = &l->memory;
	c->deadline_ns = l->o->deadline_ns;
	c->undefined_is_zero = l->o->undefined_is_zero;
	c->crosswise = l->o->crosswise;
	c->ignores_asserts = l->o->sample != NULL;
	c->print = l->o->print;
	c->coverage = l->p == &l->k->program ? l->o->coverage : NULL;
	c->aim = l->p == &l->k->program ? l->o->aim : NULL;
	c->missed = l->p == &l->k->program ? l->o->missed : NULL;
	c->report = &l->reports[thread];
	c->passed_over = &l->passed_over[thread];
	c->load_granule = l->o->load_granule;
	c->check = l->check;
	c->found = l->check ? &l->check->found : NULL;
	if (l->o->checks & (VM_CHECK_OVERFLOW | VM_CHECK_DIVISION | VM_CHECK_ORDER)) c->watch = l->p->plan.watch;
	/* Counts of its own, which are added up at the end. */
	if (l->o->want_cost) {
		c->want_cost = true;
		c->cost = l->costs[thread] = xcalloc((size_t)l->p->nlines + 1, sizeof *c->cost);
		c->read_map = l->read_map;
		c->write_map = l->write_map;
		c->meter = l->meters[thread] = vm_meter_create(l->plans);
	}
	return c;
}

static void program_set(const struct launch *l, struct vm_ctx *c, int64_t i)
{
	c->id[0] = (uint32_t)(i % l->o->grid[0]);
	c->id[1] = (uint32_t)(i / l->o->grid[0] % l->o->grid[1]);
	c->id[2] = (uint32_t)(i / l->o->grid[0] / l->o->grid[1]);
}

/* One more program of this thread ended; what it took. */
static void program_ended(struct vm_progress *p)
{
	uint64_t now = clock_ns();
	p->longest_ns = MAX(p->longest_ns, now - p->begun_ns);
	p->spent_ns += now - p->begun_ns;
	p->ended++;
	p->begun_ns = now;
}

static void run_programs(void *arg, int64_t begin, int64_t end, int thread)
{
	struct launch *l = arg;
	struct vm_ctx *c = ctx_of(l, thread);
	const struct vm_instr *first = l->p->instrs;
	if (l->o->progress) l->progress[thread].begun_ns = clock_ns();
	for (int64_t i = begin; i < end; i++) {
		if (i > atomic_load_explicit(&l->faulted, memory_order_relaxed)) return;
		program_set(l, c, i);
		if (c->check) vm_check_program(c, i);
		if (c->aim) vm_aim_program(c->aim, i);
		struct vm_report before = *c->report;
		if (c->want_cost) vm_cost_program_begin(c);
		bool faulted = vm_run(c, first, first + l->p->ninstrs);
		if (c->want_cost) vm_cost_program_end(c);
		if (!faulted && l->o->progress) program_ended(&l->progress[thread]);
		if (!faulted) continue;
		int64_t lowest = atomic_load(&l->faulted);
		while (i < lowest && !atomic_compare_exchange_weak(&l->faulted, &lowest, i)) {}
		if (i > lowest && before.fault != VM_FAULT_NONE) *c->report = before;
		return;
	}
	l->progress[thread].begun_ns = 0; /* a thread without a program waits for others' */
}

/* Programs in turns, on contexts of their own. */
static void run_scheduled(struct launch *l, int64_t programs)
{
	int64_t faulted = 0;
	for (int t = 0; t < l->threads; t++) ctx_of(l, t);
	if (vm_schedule(l->o, l->p, l->ctx, l->threads, programs, &faulted)) atomic_store(&l->faulted, faulted);
}

/* The programs of a sample on one context; where the plan says so, all of
 * them, one after another. */
static int run_sampled(struct launch *l, int64_t programs, struct vm_report *report, struct err *err)
{
	struct vm_sample_plan plan;
	struct vm_ctx *c = ctx_of(l, 0);
	/* Branches are followed on a context of their own: what they leave behind is not what a program
	 * leaves. */
	int rc = vm_sample_plan_make(l->o, ctx_of(l, 1), programs, &plan, err);
	if (rc) return rc;
	report->sampled = plan.is_all ? programs : plan.count;
	if (plan.is_all) run_programs(l, 0, programs, 0);
	struct vm_sample *s = plan.is_all ? NULL : vm_sample_create(&plan, c);
	for (int k = 0; s && k < plan.nstrata; k++)
		for (int i = 0; i < plan.strata[k].count && atomic_load(&l->faulted) == INT64_MAX; i++) {
			int64_t number = plan.numbers[plan.strata[k].first + i];
			vm_sample_begin(s);
			run_programs(l, number, number + 1, 0);
			vm_sample_end(s, k);
		}
	if (s) vm_sample_finish(s, programs, report);
	vm_sample_free(s);
	vm_sample_plan_release(&plan);
	return 0;
}

/* Counts are sums, all of them 64-bit. */
static void add_cost(struct vm_cost *to, const struct vm_cost *from)
{
	int64_t *t = (int64_t *)to;
	const int64_t *f = (const int64_t *)from;
	for (size_t i = 0; i < sizeof *to / sizeof *t; i++) t[i] += f[i];
}

static void gather_footprint(struct launch *l, struct vm_report *r)
{
	r->touched = xcalloc(2 * (size_t)l->o->nbuffers + 1, sizeof *r->touched);
	int64_t *read = xcalloc((size_t)l->memory.index_max + 1, sizeof *read);
	for (uint64_t i = 0; i <= l->memory.index_max; i++) {
		const struct vm_buffer *b = l->memory.by_index[i];
		int64_t written = 0;
		for (int64_t g = 0; b && g < (b->bytes + 31) / 32; g++) {
			read[i] += 32 * l->read_map[i][g];
			written += 32 * l->write_map[i][g];
		}
		r->cost.footprint_read += read[i];
		r->cost.footprint_bytes += read[i] + written;
		if (!b) continue;
		r->touched[2 * (b - l->o->buffers)] = MIN(read[i], b->bytes);
		r->touched[2 * (b - l->o->buffers) + 1] = MIN(written, b->bytes);
	}
	int64_t *loads = xcalloc((size_t)l->memory.index_max + 1, sizeof *loads);
	for (int t = 0; t < l->threads; t++)
		for (uint64_t i = 0; l->meters[t] && i <= l->memory.index_max; i++) loads[i] += l->meters[t]->l2_loads[i];
	vm_cost_l2(loads, l->memory.index_max, read, &r->cost);
	free(loads);
	free(read);
}

static void gather_cost(struct launch *l, struct vm_report *r, int64_t programs)
{
	r->lines = xcalloc((size_t)l->p->nlines + 1, sizeof *r->lines);
	for (int row = 0; row < l->p->nlines; row++) {
		struct vm_line_cost sum = {.line = l->p->lines[row]};
		for (int t = 0; t < l->threads; t++)
			if (l->costs[t]) add_cost(&sum.cost, &l->costs[t][row]);
		static const struct vm_cost nothing;
		if (!memcmp(&sum.cost, &nothing, sizeof nothing)) continue;
		add_cost(&r->cost, &sum.cost);
		sum.cost.programs = programs;
		r->lines[r->nlines++] = sum;
	}
	r->cost.programs = programs;
	for (int t = 0; t < l->threads; t++)
		if (l->meters[t]) vm_meter_gather(l->meters[t], &r->cost);
	gather_footprint(l, r);
}

static void make_maps(struct launch *l)
{
	l->read_map = xcalloc((size_t)l->memory.index_max + 1, sizeof *l->read_map);
	l->write_map = xcalloc((size_t)l->memory.index_max + 1, sizeof *l->write_map);
	for (uint64_t i = 0; i <= l->memory.index_max; i++) {
		if (!l->memory.by_index[i]) continue;
		size_t granules = (size_t)(l->memory.by_index[i]->bytes + 31) / 32;
		l->read_map[i] = xcalloc(granules + 1, 1);
		l->write_map[i] = xcalloc(granules + 1, 1);
	}
}

static void launch_release(struct launch *l)
{
	for (int t = 0; t < l->threads; t++) {
		if (l->ctx[t] && l->ctx[t]->missed) vm_missed_release(l->ctx[t]);
		if (l->ctx[t]) vm_ctx_release(l->ctx[t]);
		free(l->ctx[t]);
		free(l->costs[t]);
		vm_meter_free(l->meters[t]);
	}
	vm_cost_plans_free(l->plans);
	free(l->meters);
	for (uint64_t i = 0; l->read_map && i <= l->memory.index_max; i++) {
		free(l->read_map[i]);
		free(l->write_map[i]);
	}
	vm_check_free(l->check, l->p, &l->memory);
	free(l->read_map);
	free(l->write_map);
	free(l->ctx);
	free(l->costs);
	free(l->reports);
	free(l->passed_over);
	free(l->progress);
	free(l->memory.by_index);
}

static int64_t program_number(const struct vm_launch_options *o, const struct vm_report *r)
{
	return r->program[0] + (int64_t)o->grid[0] * (r->program[1] + (int64_t)o->grid[1] * r->program[2]);
}

/* Of what was passed over, the lowest program's. */
static void take_passed_over(const struct launch *l, struct vm_report *report)
{
	for (int t = 0; t < l->threads; t++) {
		const struct vm_report *r = &l->passed_over[t];
		if (r->fault == VM_FAULT_NONE ||
			(report->fault != VM_FAULT_NONE && program_number(l->o, r) > program_number(l->o, report)))
			continue;
		*report = *r;
		report->is_passed_over = true;
	}
}

/* How many programs run side by side. Atomics, checks and prints need programs in order, on one
 * thread. */
static int launch_threads(const struct launch *l, int64_t programs, bool takes_turns)
{
	const struct vm_launch_options *o = l->o;
	bool is_serial = !o->pool || o->sample || l->p->has_atomics || o->checks || o->coverage || o->aim || o->missed ||
		(o->print && l->p->has_prints);
	if (o->sample) return 2; /* a second one follows branches */
	if (takes_turns) return (int)MIN(programs, VM_RESIDENT_MAX);
	return is_serial ? 1 : pool_threads(o->pool);
}

/* What the threads fill in, and what checks and costs keep. */
static void launch_begin(struct launch *l, int threads)
{
	size_t n = (size_t)threads;
	l->threads = threads;
	atomic_init(&l->faulted, INT64_MAX);
	l->ctx = xcalloc(n, sizeof *l->ctx);
	l->costs = xcalloc(n, sizeof *l->costs);
	l->reports = xcalloc(n, sizeof *l->reports);
	l->passed_over = xcalloc(n, sizeof *l->passed_over);
	l->meters = xcalloc(n, sizeof *l->meters);
	l->progress = xcalloc(n, sizeof *l->progress);
	if (l->o->checks) l->check = vm_check_create(l->k, l->p, l->o, &l->memory);
	if (!l->o->want_cost) return;
	make_maps(l);
	l->plans = vm_cost_plans_create(l->p, l->o->compiled, &l->memory);
}

/* The report is that of the lowest program with a fault; with checks, what the one thread found. */
static void take_report(struct launch *l, struct vm_report *report)
{
	int64_t first = atomic_load(&l->faulted);
	for (int t = 0; t < l->threads; t++)
		if (l->reports[t].fault != VM_FAULT_NONE && program_number(l->o, &l->reports[t]) == first)
			*report = l->reports[t];
	if (l->check && l->ctx[0]) {
		vm_check_finish(l->ctx[0], &l->reports[0], first != INT64_MAX);
		*report = l->reports[0];
	}
	if (report->fault == VM_FAULT_NONE) take_passed_over(l, report);
}

/* Whether a launch whose time was spent might have ended. In turns no program has a time of its
 * own: there the launch may take as long as all others did. */
static void take_progress(const struct launch *l, bool takes_turns, uint64_t begun_ns, struct vm_report *report)
{
	struct vm_progress *all = l->o->progress;
	uint64_t now = clock_ns(), running = takes_turns ? now - begun_ns : 0;
	for (int t = 0; t < l->threads; t++) {
		const struct vm_progress *own = &l->progress[t];
		all->ended += own->ended;
		all->spent_ns += own->spent_ns;
		all->longest_ns = MAX(all->longest_ns, own->longest_ns);
		if (own->begun_ns) running = MAX(running, now - own->begun_ns);
	}
	uint64_t known = takes_turns ? all->spent_ns : all->longest_ns;
	report->is_slow = report->fault == VM_FAULT_TIMEOUT && all->ended && running <= VM_STEADY * known;
}

/* ---- on a clock ---- */

#define RESIDENT_DEFAULT (132 * 16) /* programs of four warps, on an H200 */

/* What a launch may change of its buffers. */
struct kept {
	uint8_t **data;     // (nbuffers): NULL: nothing
	uint8_t **origin;   // likewise
};

static void kept_make(const struct vm_launch_options *o, struct kept *kept)
{
	kept->data = xcalloc((size_t)o->nbuffers + 1, sizeof *kept->data);
	kept->origin = xcalloc((size_t)o->nbuffers + 1, sizeof *kept->origin);
	for (int i = 0; i < o->nbuffers; i++) {
		const struct vm_buffer *b = &o->buffers[i];
		if (b->is_read_only || !b->bytes) continue;
		kept->data[i] = xmalloc((size_t)b->bytes);
		memcpy(kept->data[i], b->data, (size_t)b->bytes);
		if (!b->origin) continue;
		kept->origin[i] = xmalloc((size_t)b->bytes);
		memcpy(kept->origin[i], b->origin, (size_t)b->bytes);
	}
}

static void kept_restore(const struct vm_launch_options *o, struct kept *kept)
{
	for (int i = 0; i < o->nbuffers; i++) {
		if (kept->data[i]) memcpy(o->buffers[i].data, kept->data[i], (size_t)o->buffers[i].bytes);
		if (kept->origin[i]) memcpy(o->buffers[i].origin, kept->origin[i], (size_t)o->buffers[i].bytes);
		free(kept->data[i]);
		free(kept->origin[i]);
	}
	free(kept->data);
	free(kept->origin);
}

/* What it takes beside blocks: buffers twice, with maps of them, and of each resident program its
 * values, counts and cache. */
#define CLOCK_BYTES_MAX 768e6
static double clock_bytes(const struct launch *l, int64_t resident)
{
	const struct vm_launch_options *o = l->o;
	double bytes = 0, each = 2e4;
	for (int i = 0; i < o->nbuffers; i++) bytes += 2.1 * (double)o->buffers[i].bytes;
	each += (double)l->p->nvalues * (sizeof(struct vm_value) + sizeof(struct when));
	each += (double)l->p->nlines * sizeof(struct vm_cost) + (double)l->p->ninstrs;
	each += o->compiled ? (double)o->compiled->l1_bytes / 2 : 0;
	return bytes + each * (double)resident;
}

/* The same launch in front of the one that counts, for its time alone: nothing is looked for, and
 * memory is then as it was. It may take half of the time that there is. -1:
 * its time is not known. */
static int64_t clock_cycles(const struct launch *of, int64_t programs)
{
	struct vm_launch_options o = *of->o;
	o.checks = o.findings_max = 0;
	o.coverage = NULL;
	o.aim = NULL;
	o.missed = NULL;
	o.print = NULL;
	o.progress = NULL;
	struct launch l = {.k = of->k, .p = of->p, .o = &o, .memory = of->memory};
	uint64_t now = clock_ns();
	struct vm_clock clock = {.programs = programs};
	if (o.deadline_ns) clock.deadline_ns = o.deadline_ns = now + (MAX(o.deadline_ns, now) - now) / 2;
	int64_t resident = MIN(programs, o.compiled && o.compiled->resident ? o.compiled->resident : RESIDENT_DEFAULT);
	if (clock_bytes(of, resident) > CLOCK_BYTES_MAX) return -1;
	struct kept kept;
	kept_make(&o, &kept);
	launch_begin(&l, (int)resident);
	for (int t = 0; t < l.threads; t++) ctx_of(&l, t);
	bool is_known = vm_clock_run(&clock, l.p, l.ctx, l.threads);
	l.memory.by_index = NULL; /* the caller's */
	launch_release(&l);
	kept_restore(&o, &kept);
	return is_known ? clock.cycles : -1;
}

int vm_launch(const struct vm_kernel *k, const struct vm_launch_options *o, struct vm_report *report, struct err *err)
{
	struct launch l = {.k = k, .p = o->fma_contract ? &k->contracted : &k->program, .o = o};
	*report = (struct vm_report){.fault = VM_FAULT_NONE};
	int rc = check_launch(&l, err);
	if (!rc) rc = set_memory(&l, err);
	if (rc) return rc;
	int64_t programs = (int64_t)o->grid[0] * o->grid[1] * o->grid[2];
	if (o->programs_max) programs = MIN(programs, o->programs_max);
	bool takes_turns = o->schedule && l.p->plan.order_instr >= 0 && !o->checks && !o->want_cost;
	bool may_wait = o->want_cost && !o->sample && programs > 1 && vm_may_wait(l.p);
	int64_t cycles = may_wait ? clock_cycles(&l, programs) : 0;
	uint64_t begun_ns = o->progress ? clock_ns() : 0;
	launch_begin(&l, launch_threads(&l, programs, takes_turns));
	/* Run, on several threads in pieces small enough to spread. */
	int rc_sample = 0;
	if (o->sample && programs) rc_sample = run_sampled(&l, programs, report, err);
	else if (takes_turns && programs) run_scheduled(&l, programs);
	else if (l.threads == 1 && programs) run_programs(&l, 0, programs, 0);
	else if (programs) pool_run(o->pool, programs, MAX(programs / (8 * l.threads), 1), run_programs, &l);

	take_report(&l, report);
	if (o->progress) take_progress(&l, takes_turns, begun_ns, report);
	bool is_scaled = o->sample && report->sampled < programs; /* its counts are there already */
	if (!o->sample) report->sampled = programs;
	if (o->want_cost && !is_scaled) gather_cost(&l, report, programs);
	if (may_wait) report->cost.untimed[VM_UNTIMED_ORDER] = cycles < 0;
	if (may_wait && cycles >= 0) report->cost.path_cycles_max = cycles;
	if (o->want_cost) report->reached = vm_sides_text(l.p, l.meters, l.threads);
	launch_release(&l);
	if (o->missed) vm_missed_end(o->missed);
	if (rc_sample) return rc_sample;
	if (report->fault == VM_FAULT_NONE || report->is_passed_over) return 0;
	return err_set(err, ERR_MISMATCH, "%s", report->text);
}

void vm_report_release(struct vm_report *r)
{
	if (!r) return;
	free(r->lines);
	free(r->touched);
	free(r->reached);
	free(r->findings);
	r->lines = NULL;
	r->touched = NULL;
	r->reached = NULL;
	r->findings = NULL;
	r->nlines = r->nfindings = 0;
}
