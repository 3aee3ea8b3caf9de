/* sized_step: trials at the sizes that a candidate names.
 *
 * Ordinary trials have the task's own sizes, smaller ones and slightly larger ones. A candidate
 * that compares a size, an index or a number made of them with a number of its own may do something
 * else beyond it, where no trial was. Those numbers stand in its text (lint_sizes.h); comparisons
 * on data are left out, since the vm knows which they are. For each side that the judged sizes
 * leave open a reference makes a trial at sizes that take it, where they are small enough to be
 * judged. The candidate is right there, or refuses by an exception, or is wrong. What no sizes
 * could take is in the record, line by line.
 *
 * This is about what the text distinguishes. Kernels that know one size only (a block that a row
 * fits into, a shape without a mask) and say so nowhere are judged at the ordinary sizes alone:
 * docs/design.md, What genuine promises. */
#include "verify/verify_internal.h"
#include "base/base.h"
#include "lint/lint_sizes.h"
#include "tape/tape.h"
#include "verify/guided.h"
#include "verify/oracle.h"
#include <stdlib.h>

#define NAMES_MAX 24   /* sizes of a task that are looked at */
#define JUDGED_MAX 64  /* sets of sizes */
#define ASKS_MAX 12    /* sides that one candidate's trials may be made for */
#define REFUSED_MAX 36 /* more of them, where it refuses all sizes that come */
#define TRIALS_MAX 16  /* of them all together */
#define GROUPS_MAX 8   /* sets of sizes that are judged for the ways that a probe found */
#define ANSWERS_MAX 32 /* messages to one question */
#define HIDDEN_TIMES 4 /* the task's largest size: where a number that nobody knows is passed, if it is near */
#define PAIRED_MAX 3   /* sizes whose order among each other is looked at, as worker/oracle_sized.py */
#define BEHIND 2       /* as worker/oracle_sized.py: a number k is passed by the size k + 2 */

enum side { ABOVE, BELOW, EQUAL, REST, NO_REST, BITS, PAIR, SIDE_COUNT };
static const char *const SIDE_NAMES[SIDE_COUNT] = {"above", "below", "equal", "rest", "no rest", "bits", "pair"};
/* Which sides a number has. */
static const uint8_t SIDES_OF[] = {
	[LINT_SIZE_ORDER] = 1 << ABOVE | 1 << BELOW,
	[LINT_SIZE_EQUAL] = 1 << EQUAL | 1 << ABOVE,
	[LINT_SIZE_BEYOND] = 1 << ABOVE,
	[LINT_SIZE_REST] = 1 << REST | 1 << NO_REST | 1 << ABOVE,
	[LINT_SIZE_BITS] = 1 << BITS,
	[LINT_SIZE_PAIR] = 1 << PAIR,
	[LINT_SIZE_HIDDEN] = 1 << ABOVE,
};

/* Sizes at which the candidate was judged: a row for each set, a column for each name. */
struct judged {
	int nnames;
	int nsets;
	const char *names[NAMES_MAX];
	int64_t own[NAMES_MAX]; /* of the first set */
	int64_t sizes[JUDGED_MAX][NAMES_MAX];
	int64_t elements[JUDGED_MAX]; /* of the largest input */
};

static int64_t elements_of(const json_t *job)
{
	int64_t most = 0;
	const json_t *inputs = json_object_get(job, "inputs");
	for (size_t i = 0; i < json_array_size(inputs); i++) {
		const json_t *shape = json_object_get(json_object_get(json_array_get(inputs, i), "tensor"), "shape");
		double n = shape ? 1 : 0;
		for (size_t d = 0; d < json_array_size(shape); d++) n *= json_number_value(json_array_get(shape, d));
		most = MAX(most, (int64_t)MIN(n, 1e15));
	}
	return most;
}

/* changed: {name: [own, other]}, NULL: the own sizes. */
static void judged_add(struct judged *j, const json_t *changed, const json_t *job)
{
	if (j->nsets == JUDGED_MAX) return;
	for (int i = 0; i < j->nnames; i++) {
		const json_t *pair = json_object_get(changed, j->names[i]);
		j->sizes[j->nsets][i] = pair ? json_integer_value(json_array_get(pair, 1)) : j->own[i];
	}
	j->elements[j->nsets++] = elements_of(job);
}

static bool was_judged(const struct oracle_data *d, int variant)
{
	bool any = false;
	for (int i = 0; i < d->ntrials; i++) any |= d->trials[i].variant == variant && d->trials[i].counts;
	return any;
}

static void judged_begin(struct judged *j, const struct oracle_data *d)
{
	const char *name;
	json_t *value;
	*j = (struct judged){0};
	json_object_foreach(json_object_get(d->task, "sizes"), name, value)
	{
		if (j->nnames == NAMES_MAX) break;
		j->own[j->nnames] = json_integer_value(value);
		j->names[j->nnames++] = name;
	}
	/* Of the first variant "changed" says how the judged sizes differ from the task's own, and so
	 * it does where only strides are others. */
	const json_t *variants = json_object_get(d->task, "variants");
	for (int i = 0; i < d->nvariants; i++) {
		const json_t *v = json_array_get(variants, (size_t)i);
		bool is_own = i == 0 || !strcmp(d->variants[i].kind, "strided");
		if (was_judged(d, i)) judged_add(j, is_own ? NULL : json_object_get(v, "changed"), d->variants[i].job);
	}
}

static bool holds(enum side side, const struct lint_size *z, int64_t size)
{
	switch (side) {
	case ABOVE: return size >= z->number + BEHIND;
	case BELOW: return size < MAX(z->number, 2) || z->number < 1; /* nothing is smaller than a size of 1 */
	case EQUAL: return size == z->number || z->number < 1;
	case REST: return z->modulus < 2 || size % z->modulus == z->number;
	case NO_REST: return z->modulus < 2 || size % z->modulus != z->number;
	case BITS: return size & z->number;
	default: return true;
	}
}

/* Whether of each two of the first sizes each was the larger one in some
 * trial, and both were equal. */
static bool are_pairs_taken(const struct judged *j)
{
	for (int a = 0; a < MIN(j->nnames, PAIRED_MAX); a++)
		for (int b = 0; b < a; b++) {
			unsigned seen = 0;
			for (int s = 0; s < j->nsets; s++)
				seen |= j->sizes[s][a] < j->sizes[s][b] ? 1 : j->sizes[s][a] > j->sizes[s][b] ? 2 : 4;
			if (seen != 7) return false;
		}
	return true;
}

/* Whether each size of the task was on that side in some trial; of bits, both on and off. */
static bool is_taken(const struct judged *j, enum side side, const struct lint_size *z)
{
	if (side == PAIR) return are_pairs_taken(j);
	for (int i = 0; i < j->nnames; i++) {
		int on = 0;
		for (int s = 0; s < j->nsets; s++) on += holds(side, z, j->sizes[s][i]);
		if (side == BITS ? on == 0 || on == j->nsets : on == 0) return false;
	}
	/* A number may be compared with how many elements there are. */
	bool is_few = side != BELOW;
	for (int s = 0; s < j->nsets; s++) is_few |= j->elements[s] < z->number;
	return is_few || j->elements[0] < z->number;
}

static void side_text(enum side side, const struct lint_size *z, const char *why, char *text, size_t len)
{
	static const char *const words[SIDE_COUNT] = {"above %lld", "below %lld", "of %lld", "with rest %lld",
		"without rest %lld", "with other bits %lld", "in another order"};
	char what[64];
	snprintf(what, sizeof what, words[side], (long long)z->number);
	if (side == PAIR)
		snprintf(text, len, "compares two sizes that were not judged %s%s%.90s", what, why[0] ? ": " : "", why);
	else snprintf(text, len, "names a number that no judged size is %s%s%.90s", what, why[0] ? ": " : "", why);
}

/* ---- one trial ---- */

/* Reasons that say nothing about the candidate's values there: time, memory, what cannot be run at
 * all, or an output of a few elements that no kernel had to touch. */
static bool is_silent(const struct verdict *v)
{
	return v->class == VERDICT_INVALID || !strcmp(v->reason, "output-not-from-kernel") ||
		!strcmp(v->reason, "timeout-kernel") || !strcmp(v->reason, "timeout-gpu");
}

/* The candidate at these sizes. GRADE_ON: it is right, or refuses, and then why, which is empty so
 * far, says how. */
static int judge(struct grading *g, const struct oracle_sized *z, char *why, size_t len, struct err *err)
{
	struct trace tr = {0};
	struct verdict *kept = g->v, *said = xmalloc(sizeof *said);
	*said = *kept;
	g->v = said;
	int row = -1, rc = trace_sized_step(g, z->variant.job, &tr, err);
	/* Who leaves such sizes to torch has refused them as well, unless what it computes is wrong. */
	enum tape_lineage lineage = rc ? TAPE_LINEAGE_OK : tape_lineage_static(tr.tape, &row);
	bool is_left = lineage != TAPE_LINEAGE_OK;
	/* One element leaves a loop over levels, or over blocks behind the first, nothing to do. */
	bool is_judged = lineage != TAPE_LINEAGE_NO_LAUNCH || elements_of(z->variant.job) > 1;
	g->is_partial = lineage == TAPE_LINEAGE_LIBRARY;
	if (!rc && is_judged) rc = rebuild_step(g, tr.tape, err);
	if (!rc && is_judged) rc = sized_trial(g, &tr, &z->trial, err);
	g->v = kept;
	g->is_partial = false;
	if (is_left && (rc == GRADE_ON || (rc == GRADE_END && is_silent(said))))
		snprintf(why, len, "at %.60s no kernel has a part in what forward returns, or torch has", z->variant.changed);
	/* What was counted stays; a verdict that says nothing is none. */
	if (rc == GRADE_END && is_silent(said)) {
		if (!is_left) snprintf(why, len, "at %.60s it ends with %.30s", z->variant.changed, said->reason);
		rc = GRADE_ON;
	} else if (rc >= 0) {
		*kept = *said;
	}
	if (rc == GRADE_END && kept->reason[0] && !strstr(kept->detail, z->variant.changed)) {
		size_t used = strlen(kept->detail);
		snprintf(kept->detail + used, sizeof kept->detail - used, " (at sizes %s)", z->variant.changed);
	}
	trace_release(&tr);
	free(said);
	/* A vm's runner that was lost has a successor. */
	if (!rc && !g->has_runner) {
		rc = runner_pool_take(g->s->runners, &g->runner, err);
		g->has_runner = !rc;
	}
	return rc;
}

/* ---- all of them ---- */

struct search {
	struct judged judged;
	struct oracle_session *session;
	int asks;     /* sides that were asked for */
	int refused;  /* of them, those for which it refused all sizes: they judge nothing, and cost little */
	int trials;   /* that were judged for them */
	int most;     /* trials that there may be */
	bool is_over; /* the reference's process is of no more use */
};
struct way {
	int next;          /* number of the next way */
	char why[200];     /* it gave no trial */
	char refused[200]; /* how the candidate refused some sizes */
};

static bool has_room(const struct search *s)
{
	return s->asks - MIN(s->refused, REFUSED_MAX) < ASKS_MAX && s->trials < s->most && !s->is_over;
}

/* One way to take a side: trials until the reference has no more; each adds to the sizes that were
 * judged. Sizes that the candidate refuses were not: what it does on their side of another number
 * is open still. refused: how it refused some of them. next: the number of the next way. */
static int way_try(struct grading *g, struct search *s, const struct oracle_side *ask, struct way *w, struct err *err)
{
	struct err local = {0};
	int rc = GRADE_ON, said = 0, judged = 0, refused = 0;
	/* A session that failed once is over: no further way is tried by it. */
	if (!s->is_over) s->is_over = oracle_sized_ask(s->session, s->asks++, ask, &local) != 0;
	bool is_end = s->is_over;
	for (int n = 0; !is_end && !rc; n++) {
		struct oracle_sized *sized = xcalloc(1, sizeof *sized);
		said = n < ANSWERS_MAX ? oracle_sized_next(s->session, sized, w->why, sizeof w->why, &local) : -1;
		is_end = said != 0;
		s->is_over |= said < 0;
		/* 0 is a trial, which counts where the reference is of use; 1 the end of this way, with the
		 * number of the next; below 0 the end of the session. */
		if (said == 1) w->next = sized->way;
		if (!said && sized->trial.counts && s->trials < s->most) {
			char why[sizeof w->refused] = "";
			rc = judge(g, sized, why, sizeof why, err);
			g->v->sized++;
			if (why[0]) {
				memcpy(w->refused, why, sizeof w->refused);
				refused++;
			} else {
				judged_add(&s->judged, json_object_get(json_object_get(sized->trial.message, "variant"), "changed"),
					sized->variant.job);
				judged = ++s->trials;
			}
		}
		if (!said) oracle_trial_release(&sized->trial);
		free(sized);
	}
	s->refused += refused && !judged;
	return rc;
}

static void session_begin(struct grading *g, struct search *s)
{
	struct err local = {0};
	if (!s->session && oracle_sized_start(g->s->oracles, g->task, g->oracle, &s->session, &local)) s->is_over = true;
}

/* One side: asked for, and judged at whatever sizes come. What the candidate refuses in one
 * way may suit it in the next: sizes that grow together need not be powers of two together.
 * why: what stays open. */
static int side_try(struct grading *g, struct search *s, enum side side, const struct lint_size *z, char *why,
	size_t len, struct err *err)
{
	struct oracle_side ask = {.side = SIDE_NAMES[side], .number = z->number, .modulus = z->modulus};
	struct way w = {.why = "the reference gave no answer"};
	session_begin(g, s);
	int rc = way_try(g, s, &ask, &w, err);
	while (!rc && w.refused[0] && w.next > ask.way && has_room(s)) {
		struct way other = {0};
		ask.way = w.next;
		rc = way_try(g, s, &ask, &other, err);
		/* What no later way could try stays open for the earlier one's reason. */
		if (!other.why[0]) memcpy(w.refused, other.refused, sizeof w.refused);
		w.next = other.next;
	}
	snprintf(why, len, "%s", w.refused[0] ? w.refused : w.why);
	return rc;
}

static int number_try(struct grading *g, struct search *s, const struct lint_size *z, struct err *err)
{
	int rc = GRADE_ON;
	for (enum side side = 0; side < SIDE_COUNT && !rc; side++) {
		char why[200] = "", text[sizeof g->v->unreached[0].text];
		if (!(SIDES_OF[z->kind] & 1 << side) || is_taken(&s->judged, side, z)) continue;
		bool is_room = has_room(s);
		if (is_room) rc = side_try(g, s, side, z, why, sizeof why, err);
		if (rc || (is_room && !why[0])) continue;
		side_text(side, z, is_room ? why : "enough other sizes were judged", text, sizeof text);
		guided_unreached_add(g->v, z->line, text);
	}
	return rc;
}

/* ---- sizes at which it takes another way ---- */

/* What the tracer is asked: the sizes that were judged, the task's own where they are others, and
 * how arguments follow from sizes. */
static json_t *probe_json(const struct grading *g, const struct judged *j)
{
	const struct oracle_data *d = g->oracle;
	json_t *names = json_array(), *own = json_array(), *sizes = json_array(), *more = json_array(),
		   *variants = json_array();
	for (int i = 0; i < j->nnames; i++) {
		json_array_append_new(names, json_string(j->names[i]));
		json_array_append_new(own, json_integer(j->own[i]));
	}
	for (int i = 1; i < d->nvariants; i++)
		if (was_judged(d, i)) json_array_append(variants, (json_t *)(uintptr_t)d->variants[i].job);
	for (int s = 0; s < j->nsets; s++) {
		json_t *set = json_array();
		for (int i = 0; i < j->nnames; i++) json_array_append_new(set, json_integer(j->sizes[s][i]));
		json_array_append_new((size_t)s <= json_array_size(variants) ? sizes : more, set);
	}
	json_t *probe = json_pack("{s:o, s:o, s:o, s:o, s:o, s:O?, s:I}", "names", names, "own", own, "sizes", sizes,
		"variants", variants, "more", more, "template", json_object_get(d->task, "template"), "seed",
		(json_int_t)(g->s->cost_seed & INT32_MAX));
	/* Of the first variant "changed" says what the task's own sizes were. */
	if (!d->priced_at[0] && json_object_get(d->priced, "job")) {
		const json_t *changed = json_object_get(json_array_get(json_object_get(d->task, "variants"), 0), "changed");
		json_t *stock_sizes = json_array();
		for (int i = 0; i < j->nnames; i++) {
			const json_t *was = json_array_get(json_object_get(changed, j->names[i]), 0);
			json_array_append_new(stock_sizes, was ? json_incref((json_t *)(uintptr_t)was) : json_integer(j->own[i]));
		}
		json_object_set(probe, "stock", json_object_get(d->priced, "job"));
		json_object_set_new(probe, "stock_sizes", stock_sizes);
	}
	return probe;
}

/* A list of sets of sizes that a reference may be asked about. */
static bool are_sizes(const json_t *sets, int nnames)
{
	for (size_t i = 0; i < json_array_size(sets); i++) {
		const json_t *set = json_array_get(sets, i);
		if (json_array_size(set) != (size_t)nnames) return false;
		for (int k = 0; k < nnames; k++) {
			json_int_t n = json_integer_value(json_array_get(set, (size_t)k));
			if (n < 1 || n > INT32_MAX) return false;
		}
	}
	return json_is_array(sets);
}

/* The candidate at the judged sizes with its host code made to go the way that it goes at the
 * task's own. GRADE_ON: it is right so, or why says what came of it. */
static int force_judge(struct grading *g, const json_t *results, char *why, size_t len, struct err *err)
{
	const struct oracle_trial *trial = oracle_hidden_trial(g->oracle);
	struct trace tr = {0};
	struct verdict *kept = g->v, *said = xmalloc(sizeof *said);
	json_t *job = json_copy((json_t *)(uintptr_t)g->oracle->variants[0].job);
	json_object_set(job, "force", (json_t *)(uintptr_t)results);
	*said = *kept;
	g->v = said;
	/* What the verdict would be so is kept apart: it says why, and is none. */
	int row, rc = trace_sized_step(g, job, &tr, err);
	if (!rc && (!trial || tape_lineage_static(tr.tape, &row) != TAPE_LINEAGE_OK))
		rc = grade_end(g, VERDICT_INVALID, STAGE_LINEAGE, "unsupported", 0, "torch computes on this way");
	if (!rc) rc = rebuild_step(g, tr.tape, err);
	if (!rc) rc = sized_trial(g, &tr, trial, err);
	g->v = kept;
	if (rc == GRADE_END) snprintf(why, len, "at the judged sizes that way ends with %.30s", said->reason);
	trace_release(&tr);
	json_decref(job);
	free(said);
	if (rc == GRADE_END) rc = GRADE_ON;
	if (!rc && !g->has_runner) {
		rc = runner_pool_take(g->s->runners, &g->runner, err);
		g->has_runner = !rc;
	}
	return rc;
}

/* Where the task's own sizes go unjudged the verdict says so; elsewhere the record does. line: 0
 * where nothing could be looked for. */
static int group_open(struct grading *g, int line, bool is_stock, const char *why)
{
	char text[sizeof g->v->unreached[0].text];
	if (is_stock)
		return grade_end(g, VERDICT_INVALID, STAGE_CORRECTNESS, "unjudged-size", line,
			"%d %s (%s), but at the task's own sizes a condition on sizes (candidate.py:%d) goes another way "
			"than in %s, and no trial could be made where it does so: %.200s",
			g->v->trials, plural(g->v->trials, "trial agrees", "trials agree"), g->v->sizes, line,
			plural(g->v->trials, "it", "all of them"), why);
	snprintf(text, sizeof text, "%s%s%.90s",
		line ? "takes another way at sizes that were not judged" : "sizes that take another way were not looked for",
		why[0] ? ": " : "", why);
	guided_unreached_add(g->v, line, text);
	return GRADE_ON;
}

static int group_try(struct grading *g, struct search *s, const json_t *group, struct err *err)
{
	struct way w = {.why = "no such sizes fit"};
	struct oracle_side ask = {.side = "at", .sets = json_object_get(group, "sets")};
	int rc = GRADE_ON, before = s->trials, line = (int)json_integer_value(json_object_get(group, "line"));
	if (json_array_size(ask.sets) && are_sizes(ask.sets, s->judged.nnames)) {
		session_begin(g, s);
		rc = way_try(g, s, &ask, &w, err);
	}
	bool is_judged = s->trials > before && !w.refused[0], is_stock = json_is_true(json_object_get(group, "stock"));
	const json_t *force = json_object_get(group, "force");
	const char *why = w.refused[0] ? w.refused : w.why;
	char forced[200] = "";
	if (!rc && !is_judged && is_stock && json_is_object(force)) {
		rc = force_judge(g, force, forced, sizeof forced, err);
		is_judged = !forced[0];
		why = forced;
	}
	return rc || is_judged ? rc : group_open(g, line, is_stock, why);
}

/* Host code and conditions of kernels at sizes that no text names: the tracer looks for those at
 * which something goes another way than at every judged one, and the
 * reference makes a trial there. */
static int probe_try(struct grading *g, struct search *s, struct err *err)
{
	bool has_stock = !g->oracle->priced_at[0] && json_object_get(g->oracle->priced, "job");
	if (!s->judged.nnames && !has_stock) return GRADE_ON;
	/* What goes wrong in the tracer there says nothing of values: it writes into a record of its
	 * own, which is read for its words alone. */
	struct trace found = {0};
	struct verdict *kept = g->v, *said = xmalloc(sizeof *said);
	struct err local = {0};
	json_t *groups = NULL;
	*said = *kept;
	g->v = said;
	int rc = trace_probe_step(g, probe_json(g, &s->judged), &found, err);
	g->v = kept;
	if (!rc && json_parse(found.text.data, found.text.len, "what was found at other sizes", &groups, &local))
		rc = GRADE_END;
	if (rc == GRADE_END) rc = group_open(g, 0, has_stock, said->detail[0] ? said->detail : local.text);
	s->most = s->trials + GROUPS_MAX;
	for (size_t i = 0; i < MIN(json_array_size(groups), GROUPS_MAX) && !rc; i++)
		rc = group_try(g, s, json_array_get(groups, i), err);
	json_decref(groups);
	trace_release(&found);
	free(said);
	return rc;
}

int sized_step(struct grading *g, struct err *err)
{
	struct search *s = xcalloc(1, sizeof *s);
	struct lint_sizes *named = xcalloc(1, sizeof *named);
	s->most = TRIALS_MAX;
	int rc = lint_sizes(g->source, g->source_len, named);
	judged_begin(&s->judged, g->oracle);
	/* A task without sizes that can change is judged at its own alone, and says so itself. */
	for (int i = 0; i < named->count && s->judged.nnames && !rc; i++) {
		struct lint_size *z = &named->list[i];
		/* Whatever the number is: sizes well above the task's own are on its other side,
		 * or it is further away. */
		for (int k = 0; k < s->judged.nnames && z->kind == LINT_SIZE_HIDDEN; k++)
			z->number = MAX(z->number, HIDDEN_TIMES * s->judged.own[k]);
		if (!guided_has_site(g, z->line, z->column)) rc = number_try(g, s, z, err);
	}
	char more[96];
	snprintf(more, sizeof more, "names %d %s more than are looked at", named->more,
		plural(named->more, "number", "numbers"));
	if (named->more && s->judged.nnames) guided_unreached_add(g->v, 1, more);
	if (!rc) rc = probe_try(g, s, err);
	if (rc >= 0 && oracle_session_fault(s->session, err)) rc = ERR_INFRA;
	oracle_session_end(s->session);
	if (rc) g->v->correct = false;
	free(named);
	free(s);
	return rc;
}
