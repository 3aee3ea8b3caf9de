/* guided_step: the search for guided inputs (guided.h).
 *
 * One recipe changes all sites at once, so a ladder of recipes is climbed and every open side
 * watches: values that the program text compares with (and their neighbours) among ordinary ones,
 * rows of one value, equal elements, larger, shifted and single values, then each input alone. A
 * step that brings some open side nearer is kept and taken again: hill climbing on the distance
 * between what is compared. Recipes follow from the sites and the verifier's seed alone.
 *
 * Which sides are open is guided_sites.c's to say; before all that come the inputs for what
 * launches left out (guided_missed.c), and behind it those at which operations have poles
 * (guided_poles.c). */
#include "verify/guided_internal.h"
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
#define VALUES_MAX 24      /* compared constants in one recipe */
#define VALUES_ALL_MAX 256 /* in all of them */
#define SPRINKLES_MAX 12   /* recipes that put constants among ordinary values */
#define ORDINARY 0x1p10    /* constants up to here drown nothing that is of the size of ordinary values */
#define SPAN 0x1p12        /* nor do larger ones each other, where one is at most so many times the other */
#define REPEATS 3
#define ROOTS_MAX 3        /* sites that are searched by themselves */
#define ROOT_PROBES 6
#define ROOT_MAX 1e6
#define NONZERO 1.375      /* of all elements: of few digits, and no number that functions favour */
#define EDITS_MAX 6
#define FAR_MAX 1024 /* of a lone value */
#define DWARFED 0x1p-8 /* of a number: what never was more beside it was made small before */
#define GROWN 0x1p80  /* by which rows grow, for what is made small before it is compared */
#define AIM_TURNS 4
#define AIM_WORK 60e6       /* of all replays of one search, as WORK_MAX has it */
#define AIM_REPLAY_WORK 6e4 /* of one of them, in as many programs */
#define AIM_REPLAYS_MIN 60
#define AIM_REPLAYS_MAX 2000

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

static int value_add(double v, double *out, int n, int max)
{
	bool is_new = fabs(v) <= VALUE_MAX && n < max;
	for (int k = 0; k < n; k++) is_new &= out[k] != v;
	if (is_new) out[n] = v;
	return n + is_new;
}

/* The numbers that open sides are compared with, whether the text or an argument says them, each
 * with those from which a product by two or a half makes it. */
static int values_find(const struct guided *s, int variant, double *out, int max)
{
	static const double BY[] = {1, 2, 0.5, -1};
	int n = 0;
	bool is_truth_wanted = false;
	for (int i = 0; i < s->variants[variant].n; i++) is_truth_wanted |= truth_is_open(&s->variants[variant].sites[i]);
	for (int i = 0; i < s->variants[variant].n; i++) {
		const struct site_state *st = &s->variants[variant].sites[i];
		bool any = is_truth_wanted || site_is_unreached(s, st);
		for (int side = 0; side < SIDES; side++) any |= side_is_searched(st, side);
		if (!any || st->site.kind == SITE_END || st->site.kind == SITE_POLE) continue;
		for (size_t k = 0; k < ARRAY_LEN(BY); k++) {
			n = value_add(BY[k] * st->site.constant, out, n, max);
			for (int f = 0; f < st->site.nfixed; f++) n = value_add(BY[k] * st->site.fixed[f], out, n, max);
		}
	}
	return n;
}

/* Whether something that is compared with a number stayed next to nothing beside it in all trials:
 * data that was made small before. */
static bool is_dwarfed(const struct guided *s, int variant)
{
	bool any = false;
	for (int i = 0; i < s->variants[variant].n; i++) {
		const struct site_state *st = &s->variants[variant].sites[i];
		double c = st->site.constant;
		for (int side = 0; side < SIDES && isfinite(c) && c != 0; side++)
			any |= side_is_searched(st, side) && fabs(st->sides[side].best + c) < fabs(c) * DWARFED;
	}
	return any;
}

/* Step k of the ladder, from 1 on; NULL behind the last. */
static json_t *ladder(const struct guided *s, int variant, int ninputs, int k)
{
	double values[VALUES_MAX] = {0}, largest = 1;
	int n = MAX(values_find(s, variant, values, VALUES_MAX), 1);
	for (int i = 0; i < n; i++) largest = MAX(largest, fabs(values[i]));
	/* Lone values are such that one end of a function would be reached by
	 * their difference alone. */
	double far = 4 * largest;
	for (int i = 0; i < s->variants[variant].n; i++) {
		const struct runner_site *e = &s->variants[variant].sites[i].site;
		if (e->kind == SITE_END && isfinite(e->high)) far = MAX(far, MIN(1.5 * fabs(e->high), FAR_MAX));
	}
	far = MIN(far, VALUE_MAX);
	double lone[] = {far, -far}, past = MIN(1.25 * largest, VALUE_MAX);
	switch (k) {
	case 1: return edit("scale", -1, 64);
	case 2: return edit_values("fill", values, n);
	case 3: return edit("ties", -1, 0);
	case 4: return edit_values("lone", lone, 2);
	case 5: return edit("shift", -1, past);
	case 6: return edit("shift", -1, -past);
	case 7: return edit("scale", -1, 1.0 / 64);
	case STEPS_GROWN: return edit("grow", -1, GROWN);
	case STEPS_GROWN + 1: return edit("grow", -1, -GROWN);
	default: break;
	}
	int input = (k - STEPS_ALL) / 2;
	if (input >= ninputs || ninputs < 2) return NULL;
	return (k - STEPS_ALL) % 2 == 0 ? edit("scale", input, -16) : edit("shift", input, past);
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
			bool is_bits = truth_is_open(st) && site_is_open(&st->site, side);
			double left = site_distance(&st->site, side, st->sides[side].best);
			out[SIDES * i + side] = is_bits ? 1 : side_is_searched(st, side) ? left : NAN;
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
			if (!site_is_open(&st->site, side)) m.open++;
			else if (was > 0 && !site_is_truth(&st->site))
				m.nearest = MIN(m.nearest, site_distance(&st->site, side, st->sides[side].best) / was);
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

static int by_size(const void *a, const void *b)
{
	double x = fabs(*(const double *)a), y = fabs(*(const double *)b);
	return (x > y) - (x < y);
}

/* The ladder's first step: constants among ordinary values, in as many recipes as it takes for none
 * to drown what another one does. A result that is off by one is seen beside ordinary values, and
 * not beside 1e9: neither where both stand among the inputs, nor where a relu leaves the one and
 * takes the other, so that large constants come with one sign at a time. */
static int sprinkles(struct grading *g, struct oracle_session *session, const struct trace *tr, int variant,
	int *probes, bool *is_over, struct err *err)
{
	double all[VALUES_ALL_MAX] = {0}, values[VALUES_MAX];
	int count = MAX(values_find(g->guided, variant, all, VALUES_ALL_MAX), 1), rc = GRADE_ON;
	qsort(all, (size_t)count, sizeof *all, by_size);
	*probes = 0;
	for (int i = 0; i < count && !rc && !*is_over;) {
		/* As many as may stand beside each other. */
		double bound = MAX(ORDINARY, SPAN * fabs(all[i]));
		bool is_large = fabs(all[i]) > ORDINARY;
		int from = i, n = 0;
		while (i < count && i - from < VALUES_MAX && fabs(all[i]) <= bound) i++;
		for (int sign = 1; sign >= (is_large ? -1 : 1) && !rc && !*is_over; sign -= 2) {
			if (*probes == SPRINKLES_MAX || !guided_has_searched(g->guided, variant, 0)) return rc;
			n = 0;
			for (int k = from; k < i; k++)
				n = value_add(is_large ? sign * fabs(all[k]) : all[k], values, n, VALUES_MAX);
			struct measure m;
			json_t *edits = json_pack("[o]", edit_values("sprinkle", values, n));
			rc = probe(g, session, tr, variant, edits, &m, is_over, err);
			json_decref(edits);
			++*probes;
		}
	}
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

/* Whether data is compared with data. */
static bool has_compared(const struct guided *s, int variant)
{
	for (int i = 0; i < s->variants[variant].n; i++) {
		const struct runner_site *site = &s->variants[variant].sites[i].site;
		if (site->kind == SITE_COMPARE && isnan(site->constant) && !site->nfixed) return true;
	}
	return false;
}

/* All elements are one number. */
static int uniform_probe(struct grading *g, struct oracle_session *session, const struct trace *tr, int variant,
	double u, bool *is_over, struct err *err)
{
	struct measure m;
	json_t *edits = json_pack("[o]", edit("uniform", -1, u));
	int rc = probe(g, session, tr, variant, edits, &m, is_over, err);
	json_decref(edits);
	return rc;
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
		struct site_state *st = &g->guided->variants[variant].sites[site];
		st->site.least = st->site.most = NAN;
		rc = uniform_probe(g, session, tr, variant, u[at], &is_over, err);
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
		bool is_wanted = st->site.is_equality && side_is_searched(st, 1);
		for (int side = 0; side < SIDES; side += 2)
			is_wanted |= st->site.kind == SITE_COMPARE && side_is_searched(st, side);
		if (!is_wanted) continue;
		searched++;
		rc = root_search(g, session, tr, variant, i, err);
	}
	return rc;
}

/* ---- aims ---- */

void guided_aims_allow(const struct grading *g, const struct tape *t, struct runner_trial *out)
{
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

/* Adds the sides that had so many searches. picked: (RUNNER_AIMS_MAX), how many each had. */
static void aims_add(struct guided *s, int variant, int had, struct runner_trial *out, uint8_t **picked)
{
	for (int i = 0; i < s->variants[variant].n; i++)
		for (int side = 0; side < SIDES && out->naims < RUNNER_AIMS_MAX; side++) {
			struct site_state *st = &s->variants[variant].sites[i];
			if (st->aimed[side] != had || !side_is_aimed(st, side)) continue;
			bool is_fixed = isnan(st->site.constant) && st->site.nfixed;
			picked[out->naims] = &st->aimed[side];
			out->aims[out->naims++] = (struct runner_aim){.site = st->site.id,
				.side = (enum vm_side)SIDE_OF[side],
				.constant = site_is_truth(&st->site) ? NAN
					: is_fixed                       ? st->site.fixed[0]
													 : st->site.constant};
		}
}

/* Those that had the fewest searches: sides that nothing takes hide no others. */
static void aims_find(const struct grading *g, const struct tape *t, int variant, struct runner_trial *out)
{
	uint8_t *picked[RUNNER_AIMS_MAX];
	*out = (struct runner_trial){.naims = 0};
	/* Behind an operator of torch each of these replays would have to ask torch again. */
	if (g->is_partial) return;
	for (int had = 0; had < AIM_TURNS && !out->naims; had++) aims_add(g->guided, variant, had, out, picked);
	for (int i = 0; i < out->naims; i++) ++*picked[i];
	guided_aims_allow(g, t, out);
}

/* Whether some side had no search yet. */
static bool has_untried(const struct guided *s, int variant)
{
	bool any = false;
	for (int i = 0; i < s->variants[variant].n; i++)
		for (int side = 0; side < SIDES; side++) {
			const struct site_state *st = &s->variants[variant].sites[i];
			any |= !st->aimed[side] && side_is_aimed(st, side);
		}
	return any;
}

static int sides_taken(const struct guided *s, int variant)
{
	int n = 0;
	for (int i = 0; i < s->variants[variant].n; i++)
		n += __builtin_popcount(s->variants[variant].sites[i].site.wanted & s->variants[variant].sites[i].site.taken);
	return n;
}

json_t *guided_places(const json_t *before, const struct guided *s, int aim, const struct oracle_trial *t)
{
	json_t *at = json_copy((json_t *)(uintptr_t)before);
	for (int i = 0; i < s->nplaced; i++) {
		const struct runner_placed *e = &s->placed[i];
		json_t *which = aim < 0 || e->aim == aim ? guided_whose(e->input, e->param_offset, t->params, t->nparams)
												 : NULL;
		if (!which) continue;
		json_array_append_new(
			at, json_pack("[o, I, i, I]", which, (json_int_t)e->element, e->size, (json_int_t)e->bits));
	}
	return at;
}

/* What the aims of one turn found: places for the next inputs, by aim and all together. */
struct aimed {
	json_t *own[RUNNER_AIMS_MAX]; /* from where that turn began; NULL: nothing */
	json_t *all;
};

static void aimed_release(struct aimed *f)
{
	for (int k = 0; k < RUNNER_AIMS_MAX; k++) json_decref(f->own[k]);
	json_decref(f->all);
	*f = (struct aimed){.all = NULL};
}

/* at: the places that the turn began with. */
static void aimed_take(const struct guided *s, const json_t *at, const struct oracle_trial *t, struct aimed *out)
{
	*out = (struct aimed){.all = guided_places(at, s, -1, t)};
	for (int k = 0; k < RUNNER_AIMS_MAX; k++) {
		json_t *own = guided_places(at, s, k, t);
		if (json_array_size(own) > json_array_size(at)) out->own[k] = own;
		else json_decref(own);
	}
}

/* One trial with places, and aims that begin there. found: what these met. */
static int aims_trial(struct grading *g, struct oracle_session *session, const struct trace *tr, int number,
	const json_t *at, const struct runner_trial *aims, struct aimed *found, bool *counts, struct err *err)
{
	struct oracle_trial t;
	struct err local = {0};
	int rc = GRADE_ON;
	json_t *edits = json_pack("[{s:s, s:O}]", "op", "place", "at", at);
	*found = (struct aimed){.all = NULL};
	*counts = false;
	g->guided->nplaced = 0;
	if (oracle_session_trial(session, number, edits, &t, &local)) return GRADE_ON;
	*counts = t.counts && t.ninputs == g->oracle->trials[0].ninputs;
	if (*counts) rc = guided_trial(g, tr, &t, aims && aims->naims ? aims : NULL, err);
	aimed_take(g->guided, at, &t, found);
	oracle_trial_release(&t);
	return rc;
}

/* Where the reference is not finite with all that was found, each aim has a trial of its own: one
 * that the kernel itself brings there hides no other. at: becomes what counted. */
static int aims_apart(struct grading *g, struct oracle_session *session, const struct trace *tr, int number,
	const struct aimed *last, json_t **at, struct err *err)
{
	int rc = GRADE_ON;
	json_t *good = json_copy(*at);
	for (int k = 0; k < RUNNER_AIMS_MAX && !rc; k++) {
		struct aimed nothing;
		bool counts;
		if (!last->own[k]) continue;
		rc = aims_trial(g, session, tr, number, last->own[k], NULL, &nothing, &counts, err);
		aimed_release(&nothing);
		for (size_t i = json_array_size(*at); counts && i < json_array_size(last->own[k]); i++)
			json_array_append(good, json_array_get(last->own[k], i));
	}
	json_decref(*at);
	*at = good;
	return rc;
}

/* The trial of what the last turn found, with aims that begin there; at: becomes what counted. */
static int aims_turn(struct grading *g, struct oracle_session *session, const struct trace *tr, int variant, int number,
	const struct runner_trial *aims, const struct aimed *last, json_t **at, struct aimed *found, struct err *err)
{
	bool counts;
	int taken = sides_taken(g->guided, variant);
	int rc = aims_trial(g, session, tr, number, last->all ? last->all : *at, aims, found, &counts, err);
	if (!rc && !counts && last->all) {
		rc = aims_apart(g, session, tr, number, last, at, err);
	} else if (last->all) {
		json_decref(*at);
		*at = json_incref(last->all);
	}
	g->v->guided += sides_taken(g->guided, variant) > taken;
	return rc;
}

/* Single elements are searched inside one trial's inputs (src/runner/aim.c), and the
 * same inputs with these elements are the next trial. A condition behind a condition is
 * met in the one after. out: the last inputs; its list is the caller's. */
static int aims_search(struct grading *g, struct oracle_session *session, const struct trace *tr, int variant,
	struct guided_inputs *out, struct err *err)
{
	struct guided *s = g->guided;
	struct aimed last = {.all = NULL};
	json_t *at = json_array();
	int number = s->searches++, rc = GRADE_ON;
	for (int turn = 0; turn < AIM_TURNS && !rc; turn++) {
		struct runner_trial aims;
		struct aimed found;
		/* What is open now, and with what was placed so far. */
		aims_find(g, tr->tape, variant, &aims);
		if (!aims.naims && !last.all) break;
		int taken = sides_taken(s, variant);
		rc = aims_turn(g, session, tr, variant, number, &aims, &last, &at, &found, err);
		/* What its aims found stands in the next one, which judges it. */
		bool is_met = found.all && s->nplaced, is_on = is_met || sides_taken(s, variant) != taken;
		is_on |= aims.naims && has_untried(s, variant);
		aimed_release(&last);
		if (is_met) last = found;
		else aimed_release(&found);
		if (!is_on) break;
	}
	/* What the last turn found is judged too. */
	if (last.all && !rc) {
		struct aimed nothing;
		rc = aims_turn(g, session, tr, variant, number, NULL, &last, &at, &nothing, err);
		aimed_release(&nothing);
	}
	aimed_release(&last);
	*out = (struct guided_inputs){.number = number, .at = at};
	return rc;
}

/* A gate that is still shut: with the variant's ordinary trials once more the vm turns it, until
 * one shows it: a gate may stand behind a branch that stock inputs do not take. Where outputs hang
 * on it, what the kernel does behind it is anybody's guess. */
static int gates_judge(struct grading *g, const struct trace *tr, int variant, struct err *err)
{
	int line = guided_gate_line(g->guided, variant), rc = GRADE_ON;
	if (!line || g->is_partial) return GRADE_ON;
	for (int i = 0; i < g->oracle->ntrials && !rc && !g->guided->variants[variant].gate_matters; i++) {
		const struct oracle_trial *t = &g->oracle->trials[i];
		struct runner_trial turned = {.want_turned = true};
		if (!t->counts || t->is_edge || t->given_fd < 0 || t->variant != variant) continue;
		/* The vm alone can turn a gate; on the GPU that trial would be one that it had. */
		rc = guided_trial_on_vm(g, tr, t, &turned, err);
		g->v->trials--; /* it was counted before */
	}
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
			st->sides[side].at_first = site_distance(&st->site, side, st->sides[side].best);
		}
	int allowed = probes_allowed(g->v), repeats = 0, ninputs = g->oracle->trials[0].ninputs;
	json_t *kept = json_array();
	bool is_over = false, is_over_early = false;
	if (variant == g->guided->missed_variant && g->guided->nmissed) rc = guided_missed_search(g, session, tr, err);
	if (variant == 0 && !rc) rc = guided_small_search(g, session, tr, err);
	int n = 0;
	if (!rc) rc = sprinkles(g, session, tr, variant, &n, &is_over_early, err);
	/* Rows of zeros may be the only block that is equal throughout, and a sum that
	 * leaves those out is right. */
	if (!rc && !is_over_early && has_compared(g->guided, variant))
		rc = uniform_probe(g, session, tr, variant, NONZERO, &is_over_early, err);
	is_over = is_over_early;
	/* Of several such recipes one counts. A step that helped is taken once more on top of itself;
	 * else the next one is tried. */
	n = MIN(n, 1);
	for (int k = 1; n < allowed && !rc && !is_over && guided_has_searched(g->guided, variant, k); n++) {
		if (k == STEPS_GROWN && !is_dwarfed(g->guided, variant)) k = STEPS_ALL;
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
	struct guided_inputs placed = {.at = NULL};
	if (!rc && !is_over_early && guided_has_aimed(g, variant)) rc = aims_search(g, session, tr, variant, &placed, err);
	if (!rc && placed.at) rc = guided_poles_search(g, session, tr, variant, &placed, err);
	json_decref(placed.at);
	if (rc >= 0 && oracle_session_fault(session, err)) rc = ERR_INFRA;
	oracle_session_end(session);
	return rc ? rc : gates_judge(g, tr, variant, err);
}
