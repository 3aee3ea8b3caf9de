/* guided_sites: what trials showed of a candidate's comparisons, and which of their
 * sides are worth a search.
 *
 * A side at which two trials stopped at the same value, however different they were, has a bound
 * there (a softmax never gives exp more than 0) and is not searched for.
 *
 * A comparison that no trial came to stands in a branch that the vm never takes. A GPU may take it:
 * what is compared there is tried too where there is one. */
#include "verify/guided_internal.h"
#include "base/base.h"
#include "runner/runner.h"
#include "vm/vm.h"
#include <math.h>
#include <stdlib.h>

#define UNTOLD 0x1p-45 /* of a number: less beside it is lost in a difference */
#define NEXT 4.0 /* of numbers that are compared for equality: nearer is no bound, where they are whole */

void guided_free(struct guided *s)
{
	if (!s) return;
	for (int i = 0; i < ORACLE_VARIANTS_MAX; i++) free(s->variants[i].sites);
	free(s->placed);
	free(s->missed);
	free(s);
}

bool site_is_open(const struct runner_site *s, int side)
{
	return s->wanted & SIDE_OF[side] && !(s->taken & SIDE_OF[side]);
}

/* How far d is from a side: 0 when it is reached. */
double site_distance(const struct runner_site *s, int side, double d)
{
	double low = isfinite(s->low) ? s->low : 0, high = isfinite(s->high) ? s->high : 0;
	return side == 0 ? MAX(d - low, 0) : side == 1 ? fabs(d) : MAX(high - d, 0);
}

/* Whether two trials stopped at one value. What was compared with a number is asked for itself:
 * beside 1e20 all ordinary data is as far off. Where it is too small beside the number to be told
 * from the difference, nobody knows. */
static bool is_same_stop(const struct runner_site *s, double d, double best)
{
	double c = isfinite(s->constant) && fabs(s->constant) <= VALUE_MAX ? s->constant : 0;
	double a = d + c, b = best + c, scale = MAX(fabs(a), fabs(b));
	return fabs(a - b) <= SAME * scale && (c == 0 || scale > fabs(c) * UNTOLD);
}

static void side_note(struct side_state *st, const struct runner_site *s, int side)
{
	double d = side == 0 ? s->least : side == 1 ? s->nearest : s->most;
	if (!isfinite(d)) return;
	if (st->is_seen && is_same_stop(s, d, st->best)) {
		st->times++;
		return;
	}
	if (st->is_seen && site_distance(s, side, d) >= site_distance(s, side, st->best)) return;
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
			if (site_is_open(&st->site, side)) side_note(&st->sides[side], &st->site, side);
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

bool site_is_truth(const struct runner_site *s)
{
	return s->kind == SITE_SELECT || s->kind == SITE_MASK || s->kind == SITE_BRANCH;
}

/* Masks and branches made of several comparisons have no distance: those comparisons have. */
/* A place that an earlier variant has is searched for there, and here only where this one's few
 * trials left it one value: that may be their luck (a clamp of one element), or a gate that is shut
 * at these sizes alone. */
static bool is_of_earlier(const struct site_state *st) { return st->is_known_before && !st->site.is_one_value; }

bool side_is_searched(const struct site_state *st, int side)
{
	const struct side_state *s = &st->sides[side];
	/* Whole numbers stop next to each other without a bound between them. */
	bool is_next = SIDE_OF[side] == SIDE_EQUAL && st->site.is_equality && fabs(s->best) <= NEXT;
	return !is_of_earlier(st) && !site_is_truth(&st->site) && !vm_site_is_quiet(st->site.kind) &&
		site_is_open(&st->site, side) && s->is_seen && (s->times < 2 || is_next);
}

/* Several comparisons that were never true (or false) together: each alone may have been. */
bool truth_is_open(const struct site_state *st)
{
	return !st->is_known_before && site_is_truth(&st->site) &&
		(site_is_open(&st->site, 0) || site_is_open(&st->site, 2));
}

/* No trial came to this comparison, and a GPU may. */
bool site_is_unreached(const struct guided *s, const struct site_state *st)
{
	bool is_seen = st->site.taken != 0;
	for (int side = 0; side < SIDES; side++) is_seen |= st->sides[side].is_seen;
	return s->has_gpu && !st->is_known_before && !site_is_truth(&st->site) && st->site.kind != SITE_POLE &&
		st->site.wanted && !is_seen;
}

/* Whether some side is searched for at step k. The first steps are for all. That two numbers
 * are equal matters little to an order (< and its like are continuous there, mostly), and an
 * end that the first steps brought no nearer depends on parameters or on shapes: the further
 * steps are not for those. */
bool guided_has_searched(const struct guided *s, int variant, int k)
{
	for (int i = 0; s && i < s->variants[variant].n; i++)
		for (int side = 0; side < SIDES; side++) {
			const struct site_state *st = &s->variants[variant].sites[i];
			if (k < STEPS_FIRST && (truth_is_open(st) || site_is_unreached(s, st))) return true;
			double left = site_distance(&st->site, side, st->sides[side].best);
			bool is_weak = st->site.kind == SITE_END ? left > NEARER * st->sides[side].at_first
													 : SIDE_OF[side] == SIDE_EQUAL && !st->site.is_equality;
			if (side_is_searched(st, side) && !(is_weak && k >= STEPS_FIRST)) return true;
		}
	return false;
}

/* What an aim is worth: a side that is open, that no bound shows before, and that more
 * than an order hangs on. */
bool side_is_aimed(const struct site_state *st, int side)
{
	const struct side_state *s = &st->sides[side];
	bool is_order = SIDE_OF[side] != SIDE_EQUAL;
	if (is_of_earlier(st) || !site_is_open(&st->site, side)) return false;
	if (site_is_truth(&st->site)) return true;
	bool has_distance = st->site.kind == SITE_COMPARE || st->site.kind == SITE_EXTREME || st->site.kind == SITE_CLAMP ||
		st->site.kind == SITE_TERM || st->site.kind == SITE_STEP;
	if (!has_distance) return false;
	/* One that no trial came to is seen first in the trial that is searched. */
	return is_order ? !s->is_seen || s->times < 2 : st->site.is_equality;
}

/* One that two trials came equally near has a bound there (exp in a softmax). */
bool pole_is_aimed(const struct site_state *st)
{
	return st->site.kind == SITE_POLE && !st->is_known_before && !st->is_tried && site_is_open(&st->site, 1) &&
		st->sides[1].times < 2;
}

bool guided_has_aimed(const struct grading *g, int variant)
{
	const struct guided *s = g->guided;
	/* Elements are placed in inputs that lie as they are counted. */
	if (!s || !strcmp(g->oracle->variants[variant].kind, "strided")) return false;
	for (int i = 0; i < s->variants[variant].n; i++) {
		if (pole_is_aimed(&s->variants[variant].sites[i])) return true;
		for (int side = 0; side < SIDES; side++)
			if (side_is_aimed(&s->variants[variant].sites[i], side)) return true;
	}
	return false;
}

/* The line of a variant's shut gate; the first variant's are judged behind its own search. */
int guided_gate_line(const struct guided *s, int variant)
{
	return !s || (variant && s->variants[0].gate_line) ? 0 : s->variants[variant].gate_line;
}

bool guided_wants(const struct grading *g, int variant)
{
	const struct guided *s = g->guided;
	bool has_missed = s && s->nmissed && variant == s->missed_variant, has_small = s && s->nsmall && variant == 0;
	return has_missed || has_small || guided_has_searched(g->guided, variant, 0) || guided_has_aimed(g, variant) ||
		guided_gate_line(g->guided, variant);
}

bool guided_has_site(const struct grading *g, int line, int column)
{
	const struct guided *s = g->guided;
	for (int v = 0; s && v < ORACLE_VARIANTS_MAX; v++)
		for (int i = 0; i < s->variants[v].n; i++)
			if (s->variants[v].sites[i].site.line == line && s->variants[v].sites[i].site.column == column) return true;
	return false;
}
