/* A sample of a launch's programs, and the launch's counts from theirs.
 *
 * Which programs are alike is asked of the program itself. Where no branch depends on the program's
 * number, all of them go the same way, and only masks at the edges of the grid differ: a program's
 * place on the last row of an axis makes its stratum. Where branches do depend on it, the
 * instructions that steer are run for every program, and nothing else: how much work lies on its
 * way puts a program beside those with as much, so that none that is dearer than the others can
 * hide from the draw. The corners of the grid always run.
 *
 * Counts that add up over programs are scaled by each stratum's programs. What programs share does
 * not add up: distinct bytes are the lesser of the programs' own together and of the range between
 * the lowest and the highest that any of them touched. That is what it is where programs share
 * nothing, or where together they read all there is; elsewhere it is more, and the prediction
 * slower, never faster. */
#include "vm/vm_sample.h"
#include "base/base.h"
#include "cost/cost.h"
#include "vm/check/check.h"
#include "vm/exec/exec.h"
#include "vm/meter/depend.h"
#include "vm/vm.h"
#include <math.h>
#include <stdlib.h>

#define STRATA_MAX 64
#define CORNERS_MAX 8
#define SHARED_OUT 96             /* programs that are drawn beyond two a stratum */
_Static_assert(CORNERS_MAX + 2 * STRATA_MAX + SHARED_OUT == 232, "docs/cost-model.md names how many run at most");
_Static_assert(CORNERS_MAX + 2 * STRATA_MAX + SHARED_OUT <= VM_SAMPLE_MAX, "each has a number in a granule's byte");
#define ALL_WORK_DEFAULT ((int64_t)1 << 28)
#define WORK_MAX_DEFAULT ((int64_t)1 << 33)
#define WORK_WANTED ((int64_t)1 << 30)      /* a sample of more is made smaller, as far as two a stratum */
#define FEW 512                   /* programs: a persistent grid, of which each does another part of the output */
#define STEERED_MAX ((int64_t)1 << 22)      /* programs whose ways are followed */
#define STEPS_MAX ((int64_t)1 << 28)        /* on all of them together; an instruction that runs counts RUN_STEPS */
#define RUN_STEPS 16
#define MAP_BYTES_MAX ((int64_t)3 << 29)    /* of the maps of touched granules */
#define GRANULE_BYTES 32

/* ---- ways ---- */

/* A program and its way through the kernel. */
struct way {
	int64_t number; /* of the program */
	int64_t work;   /* the weights of the instructions on it */
	int face;       /* bit d: on the last row of axis d */
	bool is_corner;
};

static void program_set(struct vm_ctx *c, int64_t i)
{
	c->id[0] = (uint32_t)(i % c->grid[0]);
	c->id[1] = (uint32_t)(i / c->grid[0] % c->grid[1]);
	c->id[2] = (uint32_t)(i / c->grid[0] / c->grid[1]);
}

static void place_of(const struct vm_ctx *c, struct way *w)
{
	w->face = 0;
	w->is_corner = true;
	for (int d = 0; d < 3; d++) {
		bool is_last = c->id[d] + 1 == c->grid[d] && c->grid[d] > 1;
		w->face |= is_last << d;
		w->is_corner &= is_last || !c->id[d];
	}
}

static bool owns_region(const struct vm_instr *in)
{
	return (in->op == OP_REDUCE || in->op == OP_SCAN || in->op == OP_MAP_REGION) && in->target >= 0;
}

/* Element operations on one program's way: what steers runs, the rest is added up. */
static int way_follow(const struct vm_launch_options *o, struct vm_ctx *c, const struct vm_dependence *d, struct way *w,
	int64_t *steps, struct err *err)
{
	const struct vm_instr *first = c->program->instrs, *end = first + c->program->ninstrs;
	place_of(c, w);
	w->work = 0;
	for (const struct vm_instr *in = first; in != end; in = c->next) {
		bool is_run = d->is_control[in - first];
		c->next = in + 1;
		w->work += in->weight;
		*steps += is_run ? RUN_STEPS : 1;
		if (*steps > STEPS_MAX || (*steps % 4096 < RUN_STEPS && o->deadline_ns && clock_ns() > o->deadline_ns))
			return err_set(err, ERR_UNSUPPORTED, "following the branches of all programs takes too long");
		if (in->op == OP_JUMP) c->next = first + in->target;
		else if (is_run && in->exec(c, in)) return err_set(err, ERR_UNSUPPORTED, "%s", c->report->text);
		else if (!is_run && owns_region(in)) c->next = first + in->target;
	}
	return 0;
}

static int ways_order(const void *a, const void *b)
{
	const struct way *x = a, *y = b;
	if (x->is_corner != y->is_corner) return x->is_corner ? -1 : 1;
	if (x->face != y->face) return x->face < y->face ? -1 : 1;
	if (x->work != y->work) return x->work < y->work ? -1 : 1;
	return x->number < y->number ? -1 : x->number > y->number;
}

/* ---- strata ---- */

/* Programs that stand for each other, before any is drawn. The k-th of them: by a list, or by its
 * place in the grid. */
struct group {
	int64_t programs;
	int64_t work;           /* of all of them */
	const struct way *list; /* NULL: those of a face, without the corner */
	int face;
};

static int64_t group_member(const struct group *g, const struct vm_ctx *c, int64_t k)
{
	if (g->list) return g->list[k].number;
	int64_t number = 0, scale = 1;
	k++; /* the first of a face is a corner */
	for (int d = 0; d < 3; d++) {
		int64_t size = c->grid[d], rows = g->face >> d & 1 ? 1 : size > 1 ? size - 1 : 1;
		number += (g->face >> d & 1 ? size - 1 : k % rows) * scale;
		k /= rows;
		scale *= size;
	}
	return number;
}

/* All programs go one way: strata by face. Corners come first, each its own. */
static int groups_of_grid(const struct vm_ctx *c, int64_t work, struct group *groups, int64_t *corners, int *ncorners)
{
	int n = 0;
	for (int face = 0; face < 8; face++) {
		int64_t members = 1, corner = 0, scale = 1;
		bool is_there = true;
		for (int d = 0; d < 3; d++) {
			int64_t size = c->grid[d];
			bool is_last = face >> d & 1;
			is_there &= !is_last || size > 1;
			members *= is_last || size == 1 ? 1 : size - 1;
			corner += is_last ? (size - 1) * scale : 0;
			scale *= size;
		}
		if (!is_there) continue;
		corners[(*ncorners)++] = corner;
		if (members > 1)
			groups[n++] = (struct group){.programs = members - 1, .work = (members - 1) * work, .face = face};
	}
	return n;
}

/* Programs of one face with equal work each; where those are too many groups, neighbours in the
 * order of work that have an equal share of all work together. */
static int groups_of_ways(const struct way *ways, int64_t n, int64_t total, struct group *groups)
{
	int count = 0, faces = 0;
	bool is_fine = true;
	/* First with a group for each amount of work; if those are more than STRATA_MAX, again with
	 * neighbours put together until they have a share of the work. */
	for (int pass = 0; pass < 2; pass++) {
		int64_t share = 0;
		count = faces = 0;
		for (int64_t i = 0; i < n; i++) {
			/* Programs come sorted by face and then by work, so a group is
			 * a stretch of the list. */
			bool is_face = i == 0 || ways[i].face != ways[i - 1].face;
			bool is_work = i > 0 && ways[i].work != ways[i - 1].work;
			faces += is_face;
			if (is_face || (is_fine ? is_work : is_work && share >= total / (STRATA_MAX - CORNERS_MAX))) {
				if (count == STRATA_MAX) break;
				groups[count++] = (struct group){.list = ways + i};
				share = 0;
			}
			share += ways[i].work;
			groups[count - 1].programs++;
			groups[count - 1].work += ways[i].work;
		}
		/* All programs are in a group, or the array was too small. */
		int64_t held = 0;
		for (int g = 0; g < count; g++) held += groups[g].programs;
		if (held == n) return count;
		is_fine = false;
		memset(groups, 0, STRATA_MAX * sizeof *groups);
	}
	CHECKF(false, "%d faces in %d strata", faces, count);
	return 0;
}

/* How many of a group run when `shared` are shared out by work. */
static int64_t group_share(const struct group *g, int64_t shared, int64_t total)
{
	int64_t by_work = total > 0 ? (int64_t)((double)shared * (double)g->work / (double)total) : 0;
	return MIN(g->programs, MAX(by_work, 2));
}

static void plan_add(struct vm_sample_plan *plan, int64_t programs, int64_t number)
{
	struct vm_stratum *s = &plan->strata[plan->nstrata - 1];
	if (programs) {
		s = &plan->strata[plan->nstrata++];
		*s = (struct vm_stratum){.programs = programs, .first = plan->count};
	}
	plan->numbers[plan->count++] = number;
	s->count++;
}

/* Draws from every group: one from each of as many equal parts as programs of it run. */
static int plan_draw(const struct vm_launch_options *o, const struct vm_ctx *c, const struct group *groups, int n,
	const int64_t *corners, int ncorners, struct vm_sample_plan *plan, struct err *err)
{
	int64_t total = 0, wanted = 0, shared = 2 * SHARED_OUT;
	for (int g = 0; g < n; g++) total += groups[g].work;
	/* How many are drawn beyond two of each group: halved until what they compute is affordable.
	 * Two of each are always drawn. */
	do {
		shared /= 2;
		wanted = 0;
		for (int g = 0; g < n; g++)
			wanted += (int64_t)((double)groups[g].work / (double)groups[g].programs *
				(double)group_share(&groups[g], shared, total));
	} while (wanted > WORK_WANTED && shared);
	/* Dearer than a caller wants to wait for: no number rather than a bad one. */
	int64_t work_max = o->sample->work_max ? o->sample->work_max : WORK_MAX_DEFAULT;
	if (wanted > work_max)
		return err_set(err, ERR_UNSUPPORTED,
			"even two programs of each kind are %lld element operations, at most %lld "
			"are spent on a launch",
			(long long)wanted, (long long)work_max);
	/* Corners first, each standing for itself. */
	plan->strata = xcalloc((size_t)(n + ncorners) + 1, sizeof *plan->strata);
	plan->numbers = xcalloc(2 * VM_SAMPLE_MAX, sizeof *plan->numbers);
	for (int i = 0; i < ncorners; i++) plan_add(plan, 1, corners[i]);
	for (int g = 0; g < n; g++) {
		/* Then a group in as many equal parts as it runs programs, one from each part at a place
		 * that the seed gives. The first of them stands for the whole group,
		 * the others add to it. */
		int64_t k = group_share(&groups[g], shared, total), size = groups[g].programs;
		for (int64_t j = 0; j < k; j++) {
			int64_t low = (int64_t)((__int128)j * size / k), room = (int64_t)((__int128)(j + 1) * size / k) - low;
			struct rng_block b = rng_philox(o->sample->seed, 0x73616d706c65u + (uint64_t)g, (uint64_t)j);
			int64_t at = low + (int64_t)(((uint64_t)b.v[0] << 32 | b.v[1]) % (uint64_t)MAX(room, 1));
			plan_add(plan, j == 0 ? size : 0, group_member(&groups[g], c, at));
		}
	}
	CHECKF(plan->count <= VM_SAMPLE_MAX, "%d programs of a sample", plan->count);
	return 0;
}

/* Every program's way, in the order of strata. */
static int ways_make(const struct vm_launch_options *o, struct vm_ctx *c, const struct vm_dependence *d,
	int64_t programs, struct way **out, int64_t *total, struct err *err)
{
	int64_t steps = 0;
	int rc = 0;
	if (programs > STEERED_MAX)
		return err_set(err, ERR_UNSUPPORTED,
			"branches depend on the program's number, and %lld programs are too many to follow", (long long)programs);
	struct way *ways = *out = xcalloc((size_t)programs + 1, sizeof *ways);
	for (int64_t i = 0; i < programs && !rc; i++) {
		program_set(c, i);
		ways[i].number = i;
		rc = way_follow(o, c, d, &ways[i], &steps, err);
		*total += ways[i].work;
	}
	if (!rc) qsort(ways, (size_t)programs, sizeof *ways, ways_order);
	return rc;
}

static int plan_steered(const struct vm_launch_options *o, struct vm_ctx *c, const struct vm_dependence *d,
	int64_t programs, int64_t all_work, struct vm_sample_plan *plan, struct err *err)
{
	struct way *ways = NULL;
	struct group groups[STRATA_MAX] = {{0}};
	int64_t total = 0, corners[CORNERS_MAX];
	int ncorners = 0;
	int rc = ways_make(o, c, d, programs, &ways, &total, err);
	plan->is_all = !rc && total <= all_work;
	if (!rc && !plan->is_all) {
		while (ncorners < CORNERS_MAX && ways[ncorners].is_corner) {
			corners[ncorners] = ways[ncorners].number;
			ncorners++;
		}
		int n = groups_of_ways(ways + ncorners, programs - ncorners, total, groups);
		rc = plan_draw(o, c, groups, n, corners, ncorners, plan, err);
	}
	free(ways);
	return rc;
}

static int plan_straight(const struct vm_launch_options *o, struct vm_ctx *c, const struct vm_dependence *d,
	int64_t programs, int64_t all_work, struct vm_sample_plan *plan, struct err *err)
{
	struct group groups[STRATA_MAX] = {{0}};
	struct way one = {0};
	int64_t steps = 0, corners[CORNERS_MAX];
	int ncorners = 0;
	program_set(c, 0);
	int rc = way_follow(o, c, d, &one, &steps, err);
	if (rc) return rc;
	one.work = MAX(one.work, 1);
	plan->is_all = programs <= all_work / one.work;
	if (plan->is_all) return 0;
	int n = groups_of_grid(c, one.work, groups, corners, &ncorners);
	return plan_draw(o, c, groups, n, corners, ncorners, plan, err);
}

int vm_sample_plan_make(
	const struct vm_launch_options *o, struct vm_ctx *c, int64_t programs, struct vm_sample_plan *out, struct err *err)
{
	const struct vm_program *p = c->program;
	struct vm_dependence d;
	int64_t bytes = 0;
	*out = (struct vm_sample_plan){0};
	for (int i = 0; i < o->nbuffers; i++) bytes += o->buffers[i].bytes / GRANULE_BYTES * 2;
	if (bytes > MAP_BYTES_MAX)
		return err_set(err, ERR_UNSUPPORTED, "the launch's buffers are larger than %lld GiB together",
			(long long)(MAP_BYTES_MAX * GRANULE_BYTES / 2 >> 30));
	vm_dependence_make(p, &d);
	int rc = 0;
	if (d.data_instr >= 0) {
		const struct vm_source *at = &p->locs[p->instrs[d.data_instr].loc];
		rc = err_set(err, ERR_UNSUPPORTED, "%s:%d: %s depends on data", at->file, at->line, d.what);
	}
	/* Of a few large programs all run as long as a sample of many might: what none of the drawn
	 * ones wrote would look unwritten. */
	int64_t all_work = o->sample->all_work ? o->sample->all_work : programs <= FEW ? WORK_WANTED : ALL_WORK_DEFAULT;
	if (!rc && d.steered) rc = plan_steered(o, c, &d, programs, all_work, out, err);
	else if (!rc) rc = plan_straight(o, c, &d, programs, all_work, out, err);
	vm_dependence_release(&d);
	if (rc) vm_sample_plan_release(out);
	return rc;
}

void vm_sample_plan_release(struct vm_sample_plan *plan)
{
	free(plan->strata);
	free(plan->numbers);
	*plan = (struct vm_sample_plan){0};
}

/* ---- sums ---- */

/* What else is counted of a program, beside its lines' counts: single numbers, then four for each
 * buffer. */
enum { SUM_STEPS, SUM_PATH, SUM_TRIPS, SUM_SINGLE };
enum { OF_L2_LOADS, OF_READ, OF_WRITTEN, OF_ATOMICS, OF_BUFFER };
#define CERTAINTIES 7

struct vm_sample {
	const struct vm_sample_plan *plan;
	struct vm_ctx *c;
	int nlines;
	uint64_t nindex;
	size_t nsums;
	struct vm_cost *lines;        // (nlines): of the launch
	struct vm_cost *part_lines;   // (nlines): of the running stratum
	int64_t *sums;                // (nsums): of the launch
	int64_t *part;                // (nsums): of the running stratum
	int64_t *before;              // (nsums): of it, when the running program began
	struct vm_touched touched;
	int done;                     /* programs of the running stratum */
	double sum[CERTAINTIES];      /* over the running stratum's programs */
	double square[CERTAINTIES];   /* of squares, likewise */
	double total[CERTAINTIES];    /* estimate for the strata that are done */
	double variance[CERTAINTIES]; /* of that */
};

static size_t sum_at(const struct vm_sample *s, int what, uint64_t index)
{
	return SUM_SINGLE + (size_t)what * s->nindex + index;
}

struct vm_sample *vm_sample_create(const struct vm_sample_plan *plan, struct vm_ctx *c)
{
	struct vm_sample *s = xcalloc(1, sizeof *s);
	s->plan = plan;
	s->c = c;
	s->nlines = c->program->nlines;
	s->nindex = c->memory->index_max + 1;
	s->nsums = SUM_SINGLE + OF_BUFFER * (size_t)s->nindex;
	s->lines = xcalloc((size_t)s->nlines + 1, sizeof *s->lines);
	s->part_lines = xcalloc((size_t)s->nlines + 1, sizeof *s->part_lines);
	s->sums = xcalloc(s->nsums, sizeof *s->sums);
	s->part = xcalloc(s->nsums, sizeof *s->part);
	s->before = xcalloc(s->nsums, sizeof *s->before);
	for (int w = 0; w < 2; w++) {
		s->touched.own[w] = xcalloc((size_t)s->nindex, sizeof *s->touched.own[w]);
		s->touched.low[w] = xcalloc((size_t)s->nindex, sizeof *s->touched.low[w]);
		s->touched.high[w] = xcalloc((size_t)s->nindex, sizeof *s->touched.high[w]);
		for (uint64_t i = 0; i < s->nindex; i++) {
			s->touched.low[w][i] = INT64_MAX;
			s->touched.high[w][i] = -1;
		}
	}
	c->meter->touched = &s->touched;
	return s;
}

void vm_sample_free(struct vm_sample *s)
{
	if (!s) return;
	s->c->meter->touched = NULL;
	for (int w = 0; w < 2; w++) {
		free(s->touched.own[w]);
		free(s->touched.low[w]);
		free(s->touched.high[w]);
	}
	free(s->lines);
	free(s->part_lines);
	free(s->sums);
	free(s->part);
	free(s->before);
	free(s);
}

/* Where the meter stands. */
static void sums_read(const struct vm_sample *s, int64_t *to)
{
	const struct vm_meter *m = s->c->meter;
	to[SUM_STEPS] = m->steps;
	to[SUM_PATH] = m->path_cycles;
	to[SUM_TRIPS] = m->path_trips;
	for (uint64_t i = 0; i < s->nindex; i++) {
		to[sum_at(s, OF_L2_LOADS, i)] = m->l2_loads[i];
		to[sum_at(s, OF_ATOMICS, i)] = m->plans->atomic_hits[i];
		to[sum_at(s, OF_READ, i)] = s->touched.own[0][i];
		to[sum_at(s, OF_WRITTEN, i)] = s->touched.own[1][i];
	}
}

void vm_sample_begin(struct vm_sample *s)
{
	memset(s->c->cost, 0, (size_t)s->nlines * sizeof *s->c->cost);
	for (int w = 0; w < 2; w++) memset(s->touched.own[w], 0, (size_t)s->nindex * sizeof *s->touched.own[w]);
	s->touched.program++;
	sums_read(s, s->before);
}

#define COUNTS (sizeof(struct vm_cost) / sizeof(int64_t))
static void counts_add(struct vm_cost *to, const struct vm_cost *from, int64_t times, int64_t over)
{
	int64_t *t = (int64_t *)to;
	const int64_t *f = (const int64_t *)from;
	for (size_t i = 0; i < COUNTS; i++) t[i] += (int64_t)(((__int128)f[i] * times + over / 2) / over);
}

/* The counts that the predicted time is made of. */
static void certainties_of(const struct vm_cost *c, int64_t path, double out[CERTAINTIES])
{
	const double all[CERTAINTIES] = {(double)(c->fma_instrs + c->alu_instrs + c->special_instrs + c->other_instrs),
		(double)(c->load_sectors + c->store_sectors), (double)c->l2_sectors, (double)c->tensor_cycles,
		(double)c->shared_bytes, (double)c->atomics, (double)path};
	memcpy(out, all, sizeof all);
}

/* The stratum's programs stand for all that it has. */
static void stratum_end(struct vm_sample *s, const struct vm_stratum *t)
{
	for (int l = 0; l < s->nlines; l++) counts_add(&s->lines[l], &s->part_lines[l], t->programs, t->count);
	for (size_t i = 0; i < s->nsums; i++)
		s->sums[i] += (int64_t)(((__int128)s->part[i] * t->programs + t->count / 2) / t->count);
	double n = t->count, all = (double)t->programs;
	for (int k = 0; k < CERTAINTIES; k++) {
		double mean = s->sum[k] / n, spread = n > 1 ? fmax(s->square[k] - n * mean * mean, 0) / (n - 1) : 0;
		s->total[k] += all * mean;
		s->variance[k] += all * all * (1 - n / all) * spread / n;
	}
	memset(s->part_lines, 0, (size_t)s->nlines * sizeof *s->part_lines);
	memset(s->part, 0, s->nsums * sizeof *s->part);
	memset(s->sum, 0, sizeof s->sum);
	memset(s->square, 0, sizeof s->square);
	s->done = 0;
}

void vm_sample_end(struct vm_sample *s, int stratum)
{
	struct vm_cost all = {0};
	double y[CERTAINTIES];
	int64_t *now = xcalloc(s->nsums, sizeof *now);
	sums_read(s, now);
	/* What the program touched itself was set to nothing when it began. */
	for (uint64_t i = 0; i < s->nindex; i++) s->before[sum_at(s, OF_READ, i)] = s->before[sum_at(s, OF_WRITTEN, i)] = 0;
	for (size_t i = 0; i < s->nsums; i++) s->part[i] += now[i] - s->before[i];
	for (int l = 0; l < s->nlines; l++) {
		counts_add(&s->part_lines[l], &s->c->cost[l], 1, 1);
		counts_add(&all, &s->c->cost[l], 1, 1);
	}
	certainties_of(&all, now[SUM_PATH] - s->before[SUM_PATH], y);
	for (int k = 0; k < CERTAINTIES; k++) {
		s->sum[k] += y[k];
		s->square[k] += y[k] * y[k];
	}
	free(now);
	if (++s->done == s->plan->strata[stratum].count) stratum_end(s, &s->plan->strata[stratum]);
}

/* Distinct bytes of one buffer. */
static int64_t distinct_bytes(const struct vm_sample *s, int is_store, uint64_t index)
{
	int64_t own = s->sums[sum_at(s, is_store ? OF_WRITTEN : OF_READ, index)];
	int64_t range = MAX(s->touched.high[is_store][index] - s->touched.low[is_store][index] + 1, 0);
	return s->touched.high[is_store][index] < 0 ? 0 : MIN(own, range) * GRANULE_BYTES;
}

/* Atomics on the granule that has most of them: as many as come on each on average, or, where the
 * sampled programs met on one more often than one of them alone would explain, that one's share of
 * all. */
static int64_t hottest(const struct vm_sample *s, uint64_t index)
{
	const struct vm_cost_plans *plans = s->c->meter->plans;
	int64_t hits = s->sums[sum_at(s, OF_ATOMICS, index)], seen = plans->atomic_hits[index];
	int64_t own = s->sums[sum_at(s, OF_WRITTEN, index)], most = plans->atomic_hottest[index];
	if (!hits || !seen) return 0;
	int64_t granules = MAX(distinct_bytes(s, 1, index) / GRANULE_BYTES, 1),
			once = (hits + MAX(own, 1) - 1) / MAX(own, 1);
	int64_t mean = (hits + granules - 1) / granules;
	return most > 2 * once + 1 ? MAX(mean, (int64_t)((__int128)hits * most / seen)) : MAX(mean, most);
}

void vm_sample_finish(struct vm_sample *s, int64_t programs, struct vm_report *report)
{
	struct vm_cost *cost = &report->cost;
	report->lines = xcalloc((size_t)s->nlines + 1, sizeof *report->lines);
	for (int l = 0; l < s->nlines; l++) {
		static const struct vm_cost nothing;
		if (!memcmp(&s->lines[l], &nothing, sizeof nothing)) continue;
		counts_add(cost, &s->lines[l], 1, 1);
		report->lines[report->nlines] = (struct vm_line_cost){.line = s->c->program->lines[l], .cost = s->lines[l]};
		report->lines[report->nlines++].cost.programs = programs;
	}
	/* Sums over programs are scaled already. */
	cost->programs = programs;
	cost->steps = s->sums[SUM_STEPS];
	cost->steps_once = programs * s->c->program->ninstrs;
	cost->path_cycles = s->sums[SUM_PATH];
	cost->path_trips = s->sums[SUM_TRIPS];
	cost->path_cycles_max = s->c->meter->path_max;
	vm_meter_gather_most(s->c->meter, cost);
	/* What programs share. */
	int64_t *read = xcalloc((size_t)s->nindex, sizeof *read);
	report->touched = xcalloc(2 * (size_t)s->c->memory->nbuffers + 1, sizeof *report->touched);
	for (uint64_t i = 0; i < s->nindex; i++) {
		read[i] = distinct_bytes(s, 0, i);
		cost->footprint_read += read[i];
		cost->footprint_bytes += read[i] + distinct_bytes(s, 1, i);
		const struct vm_buffer *b = vm_buffer_at(s->c->memory, i);
		int64_t *touched = b ? report->touched + 2 * (b - s->c->memory->buffers) : NULL;
		if (touched) touched[0] = MIN(read[i], b->bytes);
		if (touched) touched[1] = MIN(distinct_bytes(s, 1, i), b->bytes);
		cost->atomic_hot = MAX(cost->atomic_hot, hottest(s, i));
	}
	vm_cost_l2(s->sums + sum_at(s, OF_L2_LOADS, 0), s->nindex - 1, read, cost);
	free(read);
	/* How far the counts may be off: the largest relative standard error. */
	for (int k = 0; k < CERTAINTIES; k++)
		if (s->total[k] > 0) report->sample_error = fmax(report->sample_error, sqrt(s->variance[k]) / s->total[k]);
}

void vm_pattern_fill(uint8_t *data, int64_t period)
{
	/* Each two bytes: an exponent near one in every float format, digits that differ by place. */
	for (int64_t i = 0; i < period; i += 2) {
		data[i] = (uint8_t)((uint64_t)i * 0x9e3779b97f4a7c15u >> 58);
		data[i + 1] = 0x3c;
	}
	memcpy(data + period, data, (size_t)period);
}
