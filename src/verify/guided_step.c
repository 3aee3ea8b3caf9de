/* guided_step: the search for guided inputs (guided.h).
 *
 * One recipe changes all sites at once, so a ladder of recipes is climbed and every open side
 * watches: values that the program text compares with (and their neighbours) among ordinary ones,
 * rows of one value, equal elements, larger, shifted and single values, then each input alone. A
 * step that brings some open side nearer is kept and taken again: hill climbing on the distance
 * between what is compared. Recipes follow from the sites and the verifier's seed alone.
 *
 * A side at which two trials stopped at the same value, however different they were, has a bound
 * there (a softmax never gives exp more than 0) and is not searched for.
 *
 * Before all that come the elements of inputs that launches left out, or singled out by an index
 * (vm.h, missed): they are made larger than all others, which a maximum or a long sum must not
 * leave unseen. Those of the first variant that has any stand for all.
 *
 * A comparison that no trial came to stands in a branch that the vm never takes. A GPU may take it:
 * what is compared there is tried too where there is one. */
#include "verify/guided.h"
#include "base/base.h"
#include "runner/runner.h"
#include "tape/tape.h"
#include "vm/vm.h"
#include <math.h>
#include <stdlib.h>

#define WORK_MAX 96e6      /* bytes and operations of all probes together, as the first trial counted them */
#define PROGRAM_WORK 2000  /* what a program costs beside them */
#define PROBES_MIN 3
#define PROBES_MAX 12
#define NEXT 4.0 /* of numbers that are compared for equality: nearer is no bound, where they are whole */
#define SAME 1e-6          /* relative distance of two trials that stopped at one bound */
#define NEARER 0.95        /* a step that leaves this part of a distance is worth another */
#define VALUES_MAX 24      /* compared constants in one recipe */
#define REPEATS 3
#define ROOTS_MAX 3        /* sites that are searched by themselves */
#define ROOT_PROBES 6
#define ROOT_MAX 1e6
#define EDITS_MAX 6
#define FAR_MAX 1024 /* of a lone value */
#define AIM_TURNS 4
#define SMALL_TURNS 4 /* sizes that small data has (worker/oracle_guided.py, tiny) */
#define AIM_WORK 60e6       /* of all replays of one search, as WORK_MAX has it */
#define AIM_REPLAY_WORK 6e4 /* of one of them, in as many programs */
#define AIM_REPLAYS_MIN 60
#define AIM_REPLAYS_MAX 2000

/* Of the ladder: up to lone values; before the inputs one by one. */
enum { STEPS_FIRST = 5, STEPS_ALL = 8 };
enum { SIDES = 3 };
static const uint8_t SIDE_OF[SIDES] = {SIDE_BELOW, SIDE_EQUAL, SIDE_ABOVE};

struct side_state {
	double best;     /* nearest value of d so far */
	double at_first; /* its distance when the search began */
	int times;       /* trials that stopped there */
	bool is_seen;
};
struct site_state {
	struct runner_site site;
	struct side_state sides[SIDES];
	bool is_known_before; /* an earlier variant has a site at this place */
};
struct guided {
	int searches;                  /* recipes so far: numbers of their seeds */
	bool has_gpu;                  /* which replays what the vm has passed */
	int lost[ORACLE_VARIANTS_MAX]; /* line at which digits were lost in the trials so far; 0: none */
	struct {
		int n;
		struct site_state *sites;
		int gate_line; /* of a gate that no trial has opened (vm.h); 0: none */
		bool gate_matters;
	} variants[ORACLE_VARIANTS_MAX];
	int nplaced; /* elements that the last trial's aims found */
	struct runner_placed *placed;
	int nmissed; /* elements that the launches of some variant's first trial did not use */
	int missed_variant;
	struct runner_missed *missed;
	int nsmall; /* numbers next to nothing that they add to data */
	double small[VM_SMALL_MAX];
};

void guided_free(struct guided *s)
{
	if (!s) return;
	for (int i = 0; i < ORACLE_VARIANTS_MAX; i++) free(s->variants[i].sites);
	free(s->placed);
	free(s->missed);
	free(s);
}

/* ---- what trials showed ---- */

static bool is_open(const struct runner_site *s, int side)
{
	return s->wanted & SIDE_OF[side] && !(s->taken & SIDE_OF[side]);
}

/* How far d is from a side: 0 when it is reached. */
static double distance(const struct runner_site *s, int side, double d)
{
	double low = isfinite(s->low) ? s->low : 0, high = isfinite(s->high) ? s->high : 0;
	return side == 0 ? MAX(d - low, 0) : side == 1 ? fabs(d) : MAX(high - d, 0);
}

static void side_note(struct side_state *st, const struct runner_site *s, int side)
{
	double d = side == 0 ? s->least : side == 1 ? s->nearest : s->most;
	if (!isfinite(d)) return;
	double scale = MAX(fabs(d), fabs(st->best));
	if (st->is_seen && fabs(d - st->best) <= SAME * scale) {
		st->times++;
		return;
	}
	if (st->is_seen && distance(s, side, d) >= distance(s, side, st->best)) return;
	*st = (struct side_state){.best = d, .at_first = st->at_first, .times = 1, .is_seen = true};
}

static bool is_same_place(const struct runner_site *a, const struct runner_site *b)
{
	return a->line == b->line && a->column == b->column && a->kind == b->kind && !strcmp(a->what, b->what);
}

static struct site_state *state_of(struct guided *s, int variant, const struct runner_site *site)
{
	struct site_state *list = s->variants[variant].sites;
	for (int i = 0; i < s->variants[variant].n; i++)
		if (list[i].site.id == site->id) return &list[i];
	list = xrealloc(list, size_mul((size_t)s->variants[variant].n + 1, sizeof *list));
	s->variants[variant].sites = list;
	struct site_state *st = &list[s->variants[variant].n++];
	*st = (struct site_state){.site = *site};
	for (int v = 0; v < variant; v++)
		for (int i = 0; i < s->variants[v].n; i++)
			st->is_known_before |= is_same_place(&s->variants[v].sites[i].site, site);
	return st;
}

void guided_note(struct grading *g, int variant, const struct runner_coverage *c)
{
	if (!g->guided) g->guided = xcalloc(1, sizeof *g->guided);
	g->guided->has_gpu = g->on != NULL;
	g->guided->lost[variant] = 0;
	for (int i = 0; i < c->nsites; i++) {
		if (c->sites[i].kind == SITE_DIGITS) {
			if (!g->guided->lost[variant]) g->guided->lost[variant] = MAX(c->sites[i].line, 1);
			continue;
		}
		struct site_state *st = state_of(g->guided, variant, &c->sites[i]);
		st->site = c->sites[i];
		for (int side = 0; side < SIDES; side++)
			if (is_open(&st->site, side)) side_note(&st->sides[side], &st->site, side);
	}
	g->guided->variants[variant].gate_line = c->gate_line;
	g->guided->variants[variant].gate_matters |= c->gate_matters;
	/* The first variant that has any stands for all. */
	if (c->nmissed && !g->guided->nmissed) {
		g->guided->nmissed = c->nmissed;
		g->guided->missed_variant = variant;
		g->guided->missed = xmalloc((size_t)c->nmissed * sizeof *c->missed);
		memcpy(g->guided->missed, c->missed, (size_t)c->nmissed * sizeof *c->missed);
	}
	if (c->nsmall && variant == 0) {
		g->guided->nsmall = c->nsmall;
		memcpy(g->guided->small, c->small, sizeof c->small);
	}
	g->guided->nplaced = c->nplaced;
	g->guided->placed = xrealloc(g->guided->placed, size_mul((size_t)c->nplaced + 1, sizeof *c->placed));
	if (c->nplaced) memcpy(g->guided->placed, c->placed, (size_t)c->nplaced * sizeof *c->placed);
}

int guided_lost_line(const struct grading *g)
{
	int line = 0;
	for (int v = 0; g->guided && v < ORACLE_VARIANTS_MAX && !line; v++) line = g->guided->lost[v];
	return line;
}

/* ---- what is worth a search ---- */

static bool is_truth(const struct runner_site *s)
{
	return s->kind == SITE_SELECT || s->kind == SITE_MASK || s->kind == SITE_BRANCH;
}

/* Masks and branches made of several comparisons have no distance: those comparisons have. */
static bool is_searched(const struct site_state *st, int side)
{
	const struct side_state *s = &st->sides[side];
	/* Whole numbers stop next to each other without a bound between them. */
	bool is_next = SIDE_OF[side] == SIDE_EQUAL && st->site.is_equality && fabs(s->best) <= NEXT;
	return !st->is_known_before && !is_truth(&st->site) && !vm_site_is_quiet(st->site.kind) &&
		is_open(&st->site, side) && s->is_seen && (s->times < 2 || is_next);
}

/* Several comparisons that were never true (or false) together: each alone may have been. */
static bool is_truth_open(const struct site_state *st)
{
	return !st->is_known_before && is_truth(&st->site) && (is_open(&st->site, 0) || is_open(&st->site, 2));
}

/* No trial came to this comparison, and a GPU may. */
static bool is_unreached(const struct guided *s, const struct site_state *st)
{
	bool is_seen = st->site.taken != 0;
	for (int side = 0; side < SIDES; side++) is_seen |= st->sides[side].is_seen;
	return s->has_gpu && !st->is_known_before && !is_truth(&st->site) && st->site.wanted && !is_seen;
}

/* Whether some side is searched for at step k. The first steps are for all. That two numbers
 * are equal matters little to an order (< and its like are continuous there, mostly), and an
 * end that the first steps brought no nearer depends on parameters or on shapes: the further
 * steps are not for those. */
static bool is_any_searched(const struct guided *s, int variant, int k)
{
	for (int i = 0; s && i < s->variants[variant].n; i++)
		for (int side = 0; side < SIDES; side++) {
			const struct site_state *st = &s->variants[variant].sites[i];
			if (k < STEPS_FIRST && (is_truth_open(st) || is_unreached(s, st))) return true;
			double left = distance(&st->site, side, st->sides[side].best);
			bool is_weak = st->site.kind == SITE_END ? left > NEARER * st->sides[side].at_first
													 : SIDE_OF[side] == SIDE_EQUAL && !st->site.is_equality;
			if (is_searched(st, side) && !(is_weak && k >= STEPS_FIRST)) return true;
		}
	return false;
}

/* What an aim is worth: a side that is open, that no bound shows before, and that more
 * than an order hangs on. */
static bool is_aimed(const struct site_state *st, int side)
{
	const struct side_state *s = &st->sides[side];
	bool is_order = SIDE_OF[side] != SIDE_EQUAL;
	if (st->is_known_before || !is_open(&st->site, side)) return false;
	if (is_truth(&st->site)) return true;
	bool has_distance = st->site.kind == SITE_COMPARE || st->site.kind == SITE_EXTREME || st->site.kind == SITE_CLAMP ||
		vm_site_is_quiet(st->site.kind);
	if (!has_distance) return false;
	/* One that no trial came to is seen first in the trial that is searched. */
	return is_order ? !s->is_seen || s->times < 2 : st->site.is_equality;
}

static bool is_any_aimed(const struct grading *g, int variant)
{
	const struct guided *s = g->guided;
	/* Elements are placed in inputs that lie as they are counted. */
	if (!s || !strcmp(g->oracle->variants[variant].kind, "strided")) return false;
	for (int i = 0; i < s->variants[variant].n; i++)
		for (int side = 0; side < SIDES; side++)
			if (is_aimed(&s->variants[variant].sites[i], side)) return true;
	return false;
}

/* The line of a variant's shut gate; the first variant's are judged behind its own search. */
static int gate_line(const struct guided *s, int variant)
{
	return !s || (variant && s->variants[0].gate_line) ? 0 : s->variants[variant].gate_line;
}

bool guided_wants(const struct grading *g, int variant)
{
	const struct guided *s = g->guided;
	bool has_missed = s && s->nmissed && variant == s->missed_variant, has_small = s && s->nsmall && variant == 0;
	return has_missed || has_small || is_any_searched(g->guided, variant, 0) || is_any_aimed(g, variant) ||
		gate_line(g->guided, variant);
}

/* ---- recipes ---- */

static json_t *edit(const char *op, int input, double by)
{
	return json_pack("{s:s, s:i, s:f}", "op", op, "input", input, "by", by);
}

static json_t *edit_values(const char *op, const double *values, int n)
{
	json_t *list = json_array();
	for (int i = 0; i < n; i++) json_array_append_new(list, json_real(values[i]));
	return json_pack("{s:s, s:o}", "op", op, "values", list);
}

static int value_add(double v, double *out, int n)
{
	bool is_new = isfinite(v) && n < VALUES_MAX;
	for (int k = 0; k < n; k++) is_new &= out[k] != v;
	if (is_new) out[n] = v;
	return n + is_new;
}

/* The numbers that open sides are compared with, whether the text or an argument says them, each
 * with those from which a product by two or a half makes it. */
static int values_find(const struct guided *s, int variant, double *out)
{
	static const double BY[] = {1, 2, 0.5, -1};
	int n = 0;
	bool is_truth_wanted = false;
	for (int i = 0; i < s->variants[variant].n; i++) is_truth_wanted |= is_truth_open(&s->variants[variant].sites[i]);
	for (int i = 0; i < s->variants[variant].n; i++) {
		const struct site_state *st = &s->variants[variant].sites[i];
		bool any = is_truth_wanted || is_unreached(s, st);
		for (int side = 0; side < SIDES; side++) any |= is_searched(st, side);
		if (!any || st->site.kind == SITE_END) continue;
		for (size_t k = 0; k < ARRAY_LEN(BY); k++) {
			n = value_add(BY[k] * st->site.constant, out, n);
			for (int f = 0; f < st->site.nfixed; f++) n = value_add(BY[k] * st->site.fixed[f], out, n);
		}
	}
	return n;
}

/* Step k of the ladder; NULL behind the last. */
static json_t *ladder(const struct guided *s, int variant, int ninputs, int k)
{
	double values[VALUES_MAX] = {0}, largest = 1;
	int n = MAX(values_find(s, variant, values), 1);
	for (int i = 0; i < n; i++) largest = MAX(largest, fabs(values[i]));
	/* Lone values are such that one end of a function would be reached by
	 * their difference alone. */
	double far = 4 * largest;
	for (int i = 0; i < s->variants[variant].n; i++) {
		const struct runner_site *e = &s->variants[variant].sites[i].site;
		if (e->kind == SITE_END && isfinite(e->high)) far = MAX(far, MIN(1.5 * fabs(e->high), FAR_MAX));
	}
	double lone[] = {far, -far};
	switch (k) {
	case 0: return edit_values("sprinkle", values, n);
	case 1: return edit("scale", -1, 64);
	case 2: return edit_values("fill", values, n);
	case 3: return edit("ties", -1, 0);
	case 4: return edit_values("lone", lone, 2);
	case 5: return edit("shift", -1, 1.25 * largest);
	case 6: return edit("shift", -1, -1.25 * largest);
	case 7: return edit("scale", -1, 1.0 / 64);
	default: break;
	}
	int input = (k - STEPS_ALL) / 2;
	if (input >= ninputs || ninputs < 2) return NULL;
	return k % 2 == 0 ? edit("scale", input, -16) : edit("shift", input, 1.25 * largest);
}

/* ---- the search ---- */

/* The sum of what is left to the open sides, each as a part of what it was at the start of the
 * search, and their number: smaller is nearer. */
struct measure {
	int open;
	double nearest; /* smallest part that some side has left */
};

static void distances(const struct guided *s, int variant, double *out)
{
	for (int i = 0; i < s->variants[variant].n; i++)
		for (int side = 0; side < SIDES; side++) {
			const struct site_state *st = &s->variants[variant].sites[i];
			bool is_bits = is_truth_open(st) && is_open(&st->site, side);
			double left = distance(&st->site, side, st->sides[side].best);
			out[SIDES * i + side] = is_bits ? 1 : is_searched(st, side) ? left : NAN;
		}
}

/* Compares two looks at the sides: how many were reached, and whether one came nearer. */
static struct measure progress(const struct guided *s, int variant, const double *before)
{
	struct measure m = {0, 1};
	for (int i = 0; i < s->variants[variant].n; i++)
		for (int side = 0; side < SIDES; side++) {
			const struct site_state *st = &s->variants[variant].sites[i];
			double was = before[SIDES * i + side];
			if (isnan(was)) continue;
			if (!is_open(&st->site, side)) m.open++;
			else if (was > 0 && !is_truth(&st->site))
				m.nearest = MIN(m.nearest, distance(&st->site, side, st->sides[side].best) / was);
		}
	return m;
}

static int probes_allowed(const struct verdict *v)
{
	double work = (double)v->bytes + (double)v->flops + PROGRAM_WORK * (double)v->programs;
	double n = work > 0 ? WORK_MAX / work : PROBES_MAX;
	return (int)MIN(MAX(n, PROBES_MIN), PROBES_MAX);
}

/* One recipe: asked for, replayed, judged. reached: sides that nothing took before. */
static int probe(struct grading *g, struct oracle_session *session, const struct trace *tr, int variant,
	const json_t *edits, struct measure *m, bool *is_over, struct err *err)
{
	struct guided *s = g->guided;
	struct oracle_trial t;
	double *before = xcalloc((size_t)s->variants[variant].n * SIDES + 1, sizeof *before);
	struct err local = {0};
	*m = (struct measure){0, 1};
	distances(s, variant, before);
	int rc = GRADE_ON;
	if (oracle_session_trial(session, s->searches++, json_deep_copy(edits), &t, &local)) {
		*is_over = true; /* the reference's process ended on its own inputs: what is open stays open, and is listed */
	} else {
		if (t.counts && t.ninputs == g->oracle->trials[0].ninputs) {
			rc = guided_trial(g, tr, &t, NULL, err);
			*m = progress(s, variant, before);
			g->v->guided += m->open > 0;
		}
		oracle_trial_release(&t);
	}
	free(before);
	return rc;
}

static bool is_alike(double a, double b) { return fabs(a - b) <= SAME * MAX(fabs(a), fabs(b)); }

/* What a site saw in the last trial, where all its operands were alike; NaN otherwise. Lanes beyond
 * the data may hold a zero, whose value is known from the trial on zeros. */
static double seen_alike(const struct runner_site *s, double at_zero)
{
	if (!isfinite(s->most) || !isfinite(s->least)) return NAN;
	if (is_alike(s->least, s->most) || is_alike(s->least, at_zero)) return s->most;
	return is_alike(s->most, at_zero) ? s->least : NAN;
}

/* One site by the secant method: all elements of all inputs are one number, which moves to where
 * the operands meet; then that number and its neighbours stand among ordinary values. What depends
 * on more than one number is left alone.
 */
static int root_search(
	struct grading *g, struct oracle_session *session, const struct trace *tr, int variant, int site, struct err *err)
{
	struct measure m;
	bool is_over = false;
	double u[2] = {0, 1}, d[2] = {NAN, NAN}, at_zero = NAN;
	int rc = GRADE_ON;
	for (int n = 0; n < ROOT_PROBES && !rc && !is_over; n++) {
		/* One probe: every element of every input is the number u, and the site tells how far apart
		 * its operands were. `u` and `d` hold the last two probes, taking
		 * turns: 0 first, then 1. */
		int at = n & 1;
		json_t *edits = json_pack("[o]", edit("uniform", -1, u[at]));
		struct site_state *st = &g->guided->variants[variant].sites[site];
		st->site.least = st->site.most = NAN;
		rc = probe(g, session, tr, variant, edits, &m, &is_over, err);
		json_decref(edits);
		st = &g->guided->variants[variant].sites[site];
		/* Without one distance for all elements this is no function of one number; at distance 0
		 * the operands met. */
		d[at] = seen_alike(&st->site, at_zero);
		if (rc || isnan(d[at]) || d[at] == 0) break;
		/* Where the line through both crosses zero. A slope of 0 sends it to infinity. */
		if (n == 0) at_zero = d[0];
		if (n == 0) continue;
		double slope = (d[0] - d[1]) / (u[0] - u[1]), next = u[at] - d[at] / slope;
		if (!isfinite(next) || fabs(next) > ROOT_MAX || next == u[at]) break;
		u[1 - at] = next;
		/* Where the steps end, the number is tried as it would meet a user: with its neighbours,
		 * among ordinary values. */
		json_t *among = json_pack("[o]", edit_values("sprinkle", &next, 1));
		bool is_last = n == ROOT_PROBES - 1 || fabs(next - u[at]) <= SAME * fabs(next);
		if (is_last) rc = probe(g, session, tr, variant, among, &m, &is_over, err);
		json_decref(among);
		if (is_last) break;
	}
	return rc;
}

static int roots_search(
	struct grading *g, struct oracle_session *session, const struct trace *tr, int variant, struct err *err)
{
	int rc = GRADE_ON, searched = 0;
	for (int i = 0; i < g->guided->variants[variant].n && searched < ROOTS_MAX && !rc; i++) {
		const struct site_state *st = &g->guided->variants[variant].sites[i];
		bool is_wanted = st->site.is_equality && is_searched(st, 1);
		for (int side = 0; side < SIDES; side += 2) is_wanted |= st->site.kind == SITE_COMPARE && is_searched(st, side);
		if (!is_wanted) continue;
		searched++;
		rc = root_search(g, session, tr, variant, i, err);
	}
	return rc;
}

/* ---- aims ---- */

static void aims_find(const struct grading *g, const struct tape *t, int variant, struct runner_trial *out)
{
	const struct guided *s = g->guided;
	*out = (struct runner_trial){.naims = 0};
	/* Behind an operator of torch each of these replays would have to ask torch again. */
	if (g->is_partial) return;
	for (int i = 0; i < s->variants[variant].n; i++)
		for (int side = 0; side < SIDES && out->naims < RUNNER_AIMS_MAX; side++) {
			const struct site_state *st = &s->variants[variant].sites[i];
			if (!is_aimed(st, side)) continue;
			bool is_fixed = isnan(st->site.constant) && st->site.nfixed;
			out->aims[out->naims++] = (struct runner_aim){.site = st->site.id,
				.side = (enum vm_side)SIDE_OF[side],
				.constant = is_truth(&st->site) ? NAN
					: is_fixed                  ? st->site.fixed[0]
												: st->site.constant};
		}
	/* As many programs as a replay may have, all of them where one launch feeds another; and as
	 * many replays as the work allows. A few would find nothing. */
	int launches = 0;
	for (int i = 0; i < t->nrows; i++) launches += t->rows[i].kind == TAPE_LAUNCH;
	double work = (double)g->v->bytes + (double)g->v->flops, programs = MAX((double)g->v->programs, 1);
	double own = work / programs + PROGRAM_WORK;
	out->aim_programs = (int64_t)(launches == 1 ? MIN(MAX(AIM_REPLAY_WORK / own, 1), programs) : programs);
	out->aim_replays = (int)MIN(AIM_WORK / (own * (double)out->aim_programs), AIM_REPLAYS_MAX);
	if (out->aim_replays < AIM_REPLAYS_MIN) out->naims = 0;
}

static int sides_taken(const struct guided *s, int variant)
{
	int n = 0;
	for (int i = 0; i < s->variants[variant].n; i++)
		n += __builtin_popcount(s->variants[variant].sites[i].site.wanted & s->variants[variant].sites[i].site.taken);
	return n;
}

/* ---- what was not used ---- */

/* Which input, by number, or which parameter, by the reference's name; NULL: none that it knows. */
static json_t *whose(int input, int64_t param_offset, const struct runner_given *params, int nparams)
{
	json_t *which = input >= 0 ? json_integer(input) : NULL;
	for (int p = 0; p < nparams && !which; p++)
		if (params[p].offset == param_offset) which = json_string(params[p].name);
	return which;
}

/* The verdict says which elements were large. */
static void missed_tell(struct grading *g, const struct runner_missed *m)
{
	struct verdict *v = g->v;
	size_t used = strlen(v->detail);
	if (v->class != VERDICT_WRONG) return;
	if (!v->line) v->line = m->line;
	snprintf(v->detail + used, sizeof v->detail - used,
		"; larger than all others there is what candidate.py:%d leaves out, or singles out by an index: element %lld "
		"of %s%d%s",
		m->line, (long long)m->element, m->input >= 0 ? "input " : "a parameter", MAX(m->input, 0),
		g->guided->nmissed > 1 ? ", and others" : "");
}

/* The elements that launches did not use stand far above all others, then far below. A trial that
 * the reference does not take so far is made with less. The vm alone judges: which elements are
 * used is no question of a GPU's arithmetic, and beside so large a score of attention the fused
 * score * scale - maximum is far from 0, and its exp infinite. */
static int missed_search(struct grading *g, struct oracle_session *session, const struct trace *tr, struct err *err)
{
	static const double BY[] = {64, 3};
	struct guided *s = g->guided;
	/* The trial that found them lays parameters out. */
	const struct oracle_trial *first = g->oracle->trials;
	while (first->variant != s->missed_variant || first->given_fd < 0) first++;
	int rc = GRADE_ON;
	json_t *at = json_array();
	for (int i = 0; i < s->nmissed; i++) {
		json_t *which = whose(s->missed[i].input, s->missed[i].param_offset, first->params, first->nparams);
		if (which)
			json_array_append_new(
				at, json_pack("[o, I, i]", which, (json_int_t)s->missed[i].element, s->missed[i].size));
	}
	for (int sign = 1; sign >= -1 && !rc && json_array_size(at); sign -= 2) {
		bool counts = false;
		for (size_t i = 0; i < ARRAY_LEN(BY) && !counts && !rc; i++) {
			struct oracle_trial t;
			struct err local = {0};
			json_t *edits = json_pack("[{s:s, s:f, s:O}]", "op", "dominate", "by", sign * BY[i], "at", at);
			if (oracle_session_trial(session, s->searches++, edits, &t, &local)) break;
			counts = t.counts && t.ninputs == first->ninputs;
			if (counts) {
				rc = guided_trial_on_vm(g, tr, &t, NULL, err);
				g->v->device.vm_trials += g->on != NULL;
			}
			if (rc == GRADE_END) missed_tell(g, &s->missed[0]);
			oracle_trial_release(&t);
		}
	}
	json_decref(at);
	return rc;
}

/* All data comes down to where an epsilon counts: another one than the reference's, or another
 * place for it, shows there. Where the reference wants numbers above zero they are. */
static int small_search(struct grading *g, struct oracle_session *session, const struct trace *tr, struct err *err)
{
	static const char *const OPS[] = {"tiny", "tiny-positive"};
	struct guided *s = g->guided;
	int rc = GRADE_ON;
	for (int i = 0; i < s->nsmall * SMALL_TURNS && !rc; i++) {
		bool counts = false;
		/* Of many rows the first turn has all sizes, and no further one is a trial. */
		for (size_t k = 0; k < ARRAY_LEN(OPS) && !counts && !rc; k++) {
			struct oracle_trial t;
			struct err local = {0};
			json_t *edits = json_pack(
				"[{s:s, s:f, s:i}]", "op", OPS[k], "by", s->small[i / SMALL_TURNS], "turn", i % SMALL_TURNS);
			if (oracle_session_trial(session, s->searches++, edits, &t, &local)) return rc;
			counts = t.counts && t.ninputs == g->oracle->trials[0].ninputs;
			if (counts) rc = guided_trial(g, tr, &t, NULL, err);
			oracle_trial_release(&t);
		}
	}
	return rc;
}

/* Inputs by number, parameters by the reference's name. */
static json_t *places(const json_t *before, const struct guided *s, const struct runner_given *params, int nparams)
{
	json_t *at = json_copy((json_t *)(uintptr_t)before);
	for (int i = 0; i < s->nplaced; i++) {
		const struct runner_placed *e = &s->placed[i];
		json_t *which = whose(e->input, e->param_offset, params, nparams);
		if (!which) continue;
		json_array_append_new(
			at, json_pack("[o, I, i, I]", which, (json_int_t)e->element, e->size, (json_int_t)e->bits));
	}
	return at;
}

/* Single elements are searched inside one trial's inputs (src/runner/aim.c), and the
 * same inputs with these elements are the next trial. A condition behind a condition is
 * met in the one after. */
static int aims_search(
	struct grading *g, struct oracle_session *session, const struct trace *tr, int variant, struct err *err)
{
	struct guided *s = g->guided;
	json_t *at = json_array();
	int number = s->searches++, rc = GRADE_ON;
	s->nplaced = 0;
	for (int turn = 0; turn < AIM_TURNS && !rc; turn++) {
		struct oracle_trial t;
		struct runner_trial aims;
		struct err local = {0};
		/* What is open now, and with what was placed so far. */
		aims_find(g, tr->tape, variant, &aims);
		if (!aims.naims && !s->nplaced) break;
		json_t *edits = json_pack("[{s:s, s:O}]", "op", "place", "at", at);
		s->nplaced = 0;
		int taken = sides_taken(s, variant);
		if (oracle_session_trial(session, number, edits, &t, &local)) break;
		if (t.counts && t.ninputs == g->oracle->trials[0].ninputs)
			rc = guided_trial(g, tr, &t, aims.naims ? &aims : NULL, err);
		/* What its aims found stands in the next one, which judges it. */
		json_t *more = places(at, s, t.params, t.nparams);
		oracle_trial_release(&t);
		g->v->guided += sides_taken(s, variant) > taken;
		json_decref(at);
		at = more;
		if (!s->nplaced && sides_taken(s, variant) == taken) break;
	}
	json_decref(at);
	return rc;
}

/* A gate that is still shut: with one of the variant's ordinary trials once more the vm turns it.
 * Where outputs hang on it, what the kernel does behind it is anybody's guess. */
static int gates_judge(struct grading *g, const struct trace *tr, int variant, struct err *err)
{
	int i = 0, line = gate_line(g->guided, variant);
	const struct oracle_trial *t = g->oracle->trials;
	while (i < g->oracle->ntrials && (!t[i].counts || t[i].is_edge || t[i].given_fd < 0 || t[i].variant != variant))
		i++;
	if (!line || i == g->oracle->ntrials || g->is_partial) return GRADE_ON;
	struct runner_trial turned = {.want_turned = true};
	/* The vm alone can turn a gate; on the GPU that trial would be one that it had. */
	int rc = guided_trial_on_vm(g, tr, &t[i], &turned, err);
	g->v->trials--; /* it was counted before */
	if (rc || !g->guided->variants[variant].gate_matters) return rc;
	return grade_end(g, VERDICT_INVALID, STAGE_CORRECTNESS, "branch-not-reached", line,
		"candidate.py:%d: what is made of data there was one value in all trials, though the data changed, and no "
		"search "
		"turns it: a condition on a hash, or a window that nothing fell into; what is stored hangs on it, so nobody "
		"knows what the kernel does where it is another",
		line);
}

int guided_search(struct grading *g, const struct trace *tr, int variant, struct err *err)
{
	struct oracle_session *session = NULL;
	int rc = oracle_session_start(g->s->oracles, g->task, g->oracle, variant, &session, err);
	if (rc) return rc;
	/* From where each site stands now, so that a step can be told to have helped. */
	for (int i = 0; i < g->guided->variants[variant].n; i++)
		for (int side = 0; side < SIDES; side++) {
			struct site_state *st = &g->guided->variants[variant].sites[i];
			st->sides[side].at_first = distance(&st->site, side, st->sides[side].best);
		}
	int allowed = probes_allowed(g->v), repeats = 0, ninputs = g->oracle->trials[0].ninputs;
	json_t *kept = json_array();
	bool is_over = false, is_over_early = false;
	if (variant == g->guided->missed_variant && g->guided->nmissed) rc = missed_search(g, session, tr, err);
	if (variant == 0 && !rc) rc = small_search(g, session, tr, err);
	/* A step that helped is taken once more on top of itself; else the next one is tried. */
	for (int k = 0, n = 0; n < allowed && !rc && !is_over && is_any_searched(g->guided, variant, k); n++) {
		json_t *step = ladder(g->guided, variant, ninputs, k), *edits = json_copy(kept);
		if (step) json_array_append(edits, step);
		struct measure m;
		if (step) rc = probe(g, session, tr, variant, edits, &m, &is_over_early, err);
		is_over = !step || is_over_early;
		/* Kept edits are the beginning of every later recipe. */
		bool is_nearer = step && m.nearest < NEARER && (k == 1 || k >= STEPS_FIRST) && repeats < REPEATS &&
			json_array_size(kept) < EDITS_MAX;
		if (is_nearer) {
			json_array_append(kept, step);
			repeats++;
		} else {
			k++;
			repeats = 0;
		}
		json_decref(step);
		json_decref(edits);
	}
	json_decref(kept);
	/* What is still open may be a function of one number. */
	if (!rc && !is_over_early) rc = roots_search(g, session, tr, variant, err);
	if (!rc && !is_over_early && is_any_aimed(g, variant)) rc = aims_search(g, session, tr, variant, err);
	oracle_session_end(session);
	return rc ? rc : gates_judge(g, tr, variant, err);
}

bool guided_has_site(const struct grading *g, int line, int column)
{
	const struct guided *s = g->guided;
	for (int v = 0; s && v < ORACLE_VARIANTS_MAX; v++)
		for (int i = 0; i < s->variants[v].n; i++)
			if (s->variants[v].sites[i].site.line == line && s->variants[v].sites[i].site.column == column) return true;
	return false;
}

/* ---- the record ---- */

/* "math.exp never at 88 or above (highest 3.2)" */
static void side_text(const struct site_state *st, int side, char *text, size_t len)
{
	const struct runner_site *s = &st->site;
	const struct side_state *seen = &st->sides[side];
	char than[48] = "", best[48] = "";
	if (is_truth(s)) {
		snprintf(text, len, "%s never %s", vm_site_kind_name(s->kind), side == 0 ? "false" : "true");
		return;
	}
	if (s->kind == SITE_TERM) {
		snprintf(text, len, "%s: one operand never counts (at most %.3g of the other)", s->what,
			seen->is_seen ? seen->best + VM_TERM : 0);
		return;
	}
	if (s->kind == SITE_STEP) {
		snprintf(text, len, "%s: never another whole number than the first", s->what);
		return;
	}
	if (s->kind == SITE_END) snprintf(than, sizeof than, " at %.4g", side == 0 ? s->low : s->high);
	else if (isfinite(s->constant)) snprintf(than, sizeof than, " %.6g", s->constant);
	if (seen->is_seen)
		snprintf(best, sizeof best, " (%s %.4g)", s->kind == SITE_END ? "nearest" : "nearest difference", seen->best);
	snprintf(text, len, "%s%s: never %s%s", s->what, than, side == 0 ? "below" : side == 1 ? "equal" : "above", best);
}

/* Whether an earlier line of the record says the same: a device function that is called
 * twice has its sites twice. */
void guided_unreached_add(struct verdict *v, int line, const char *text)
{
	for (int i = 0; i < v->nunreached; i++)
		if (v->unreached[i].line == line && !strcmp(v->unreached[i].text, text)) return;
	if (v->nunreached == VERDICT_SIDES_MAX) {
		v->unreached_more++;
		return;
	}
	struct verdict_side *to = &v->unreached[v->nunreached++];
	to->line = MAX(line, 0);
	snprintf(to->text, sizeof to->text, "%s", text);
	text_make_printable(to->text);
}

void guided_report(struct grading *g)
{
	const struct guided *s = g->guided;
	struct verdict *v = g->v;
	v->sides = v->sides_taken = v->nunreached = v->unreached_more = 0;
	for (int variant = 0; s && variant < ORACLE_VARIANTS_MAX; variant++)
		for (int i = 0; i < s->variants[variant].n; i++) {
			const struct site_state *st = &s->variants[variant].sites[i];
			if (st->is_known_before) continue;
			bool is_side = !vm_site_is_quiet(st->site.kind);
			v->sides += is_side ? __builtin_popcount(st->site.wanted) : 0;
			v->sides_taken += is_side ? __builtin_popcount(st->site.wanted & st->site.taken) : 0;
			for (int side = 0; side < SIDES; side++) {
				char text[sizeof v->unreached[0].text];
				if (!is_open(&st->site, side)) continue;
				side_text(st, side, text, sizeof text);
				guided_unreached_add(v, st->site.line, text);
			}
		}
}
