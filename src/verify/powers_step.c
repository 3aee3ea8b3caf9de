/* powers_step: other sizes for a candidate whose blocks are as large as a size is.
 *
 * `tl.arange(0, D)` is honest where D is a power of two, as the width of an attention head is, and
 * the secret smaller and larger sizes are none: there Triton refuses the kernel, or a line of the
 * candidate's own does (`assert D in (16, 32, 64, 128)`). Such a candidate is judged at other sizes
 * in their place: those that reach a block are halved or doubled (or quartered; the secret says
 * which), all others are what they would have been.
 *
 * Which sizes reach a block nobody is asked. All that may are halved first; then one after another
 * takes its ordinary size, and keeps it where the candidate compiles there. So a size is halved
 * only because its ordinary one is refused beside the others': by Triton in a clean process, or by
 * a line of the text that asserts or raises. Whoever runs the candidate there gets no result that
 * could be wrong, and a candidate that has more of its sizes halved has refused more of them: it is
 * judged at sizes that it takes, never at fewer sides of one. What ends otherwise (a shape that
 * does not fit, an index) is no refusal, but a fault. That no block is frozen is seen by both
 * directions: what was 64 is 32 in place of the smaller sizes, and 128 in place of the larger.
 *
 * The trials made here stand in the oracle's data of this candidate for those of the variant that
 * it refused, so that all that follows (coverage, guided trials, sizes that it names, what is
 * written for others) sees the sizes that were judged. */
#include "verify/verify_internal.h"
#include "base/base.h"
#include "tape/tape.h"
#include "verify/oracle.h"
#include <ctype.h>
#include <stdlib.h>

#define NAMES_MAX 24
#define WAYS 3
#define LAST_WAY 3 /* of larger sizes alone */
#define SMALL_BLOCK 64    /* from which on a size may be quartered: tl.dot wants sixteen */
#define LARGE_BLOCK 64    /* up to which it may be taken four times */
#define FIRST_DRAW 3000   /* of trials' seeds, for what the secret chooses here */
#define FIRST_ASK 100     /* of trials' seeds: sized_step has those below */
#define NO_TRIAL 3        /* set_try, beside what steps return: the reference does not run there */
#define ASKS_MAX 120      /* of the reference, for one candidate */

/* A set of sizes, one for each name; and what is asked of one variant. */
struct set {
	int64_t of[NAMES_MAX];
};
struct powers {
	const struct oracle_data *lent; /* the task's */
	struct oracle_data own;         /* the same, with other trials in place of those of variants that were refused */
	struct oracle_session *session; /* NULL: not begun */
	bool is_over;                   /* it is of no more use */
	int asks;
	int nnames;
	const char *names[NAMES_MAX];
	struct set stock; /* the judged sizes */
	char tried[256];  /* the last set at which the candidate was traced, as a variant's `changed` */
	int nmade;
	struct oracle_sized *made[ASKS_MAX]; /* what own points into; each was asked for */
};

/* What a variant asks of each size. */
struct asked {
	int variant;
	bool is_larger;
	bool is_built;              /* would be left out: whatever Triton refuses there is a refusal */
	struct set ordinary;        /* the variant's sizes */
	bool is_changed[NAMES_MAX]; /* they differ from the judged ones */
	bool may_halve[NAMES_MAX];  /* the judged one has a half, or is one */
	bool is_needed[NAMES_MAX];  /* its ordinary size is refused: it reaches a block */
	bool is_drawn;              /* of two ways the second comes first */
};

static struct powers *powers_begin(struct grading *g)
{
	const char *name;
	json_t *value;
	if (g->powers) return g->powers;
	struct powers *p = g->powers = xcalloc(1, sizeof *p);
	p->lent = g->oracle;
	p->own = *g->oracle;
	p->own.task = json_copy(p->own.task);
	json_object_set_new(p->own.task, "variants", json_copy(json_object_get(p->own.task, "variants")));
	json_object_foreach(json_object_get(p->own.task, "sizes"), name, value)
	{
		if (p->nnames == NAMES_MAX) break;
		p->stock.of[p->nnames] = json_integer_value(value);
		p->names[p->nnames++] = name;
	}
	return p;
}

const struct oracle_data *powers_end(struct grading *g)
{
	struct powers *p = g->powers;
	if (!p) return g->oracle;
	const struct oracle_data *lent = p->lent;
	for (int i = 0; i < p->nmade; i++) {
		oracle_trial_release(&p->made[i]->trial);
		free(p->made[i]);
	}
	oracle_session_end(p->session);
	json_decref(p->own.task);
	free(p);
	g->powers = NULL;
	return lent;
}

static struct asked asked_of(const struct grading *g, const struct powers *p, int variant)
{
	const char *kind = g->oracle->variants[variant].kind;
	struct asked a = {.variant = variant, .is_larger = !strcmp(kind, "larger"), .is_built = !strcmp(kind, "built")};
	const json_t *changed = json_object_get(
		json_array_get(json_object_get(p->own.task, "variants"), (size_t)variant), "changed");
	a.ordinary = p->stock;
	for (int i = 0; i < p->nnames; i++) {
		const json_t *pair = json_object_get(changed, p->names[i]);
		if (!pair) continue;
		a.ordinary.of[i] = json_integer_value(json_array_get(pair, 1));
		a.is_changed[i] = true;
		a.may_halve[i] = p->stock.of[i] % 2 == 0 || p->stock.of[i] == 1;
	}
	const struct oracle_options *o = oracle_cache_options(g->s->oracles, NULL);
	a.is_drawn = oracle_trial_seed(o->seed, g->task, FIRST_DRAW + variant) & 1;
	return a;
}

/* Another size of which a block can be made where the judged one makes one. Smaller: a half or a
 * quarter, in the order that was drawn, and at last twice the size; larger: twice, or four times,
 * and at last a half, for who takes no more than the judged one. */
static int64_t power_of(const struct asked *a, int64_t size, int way)
{
	bool is_second = (way == 1) != a->is_drawn;
	if (way == LAST_WAY) return size % 2 ? size : size / 2;
	if (a->is_larger) return size * (way < 2 && is_second && size <= LARGE_BLOCK ? 4 : 2);
	if (way == 2 || size < 4) return 2 * size;
	return is_second && size >= SMALL_BLOCK && size % 4 == 0 ? size / 4 : size / 2;
}

/* ---- one set of sizes ---- */

/* The reference at a set: a description, or a trial of a distribution. NULL: there is none. */
static struct oracle_sized *sized_ask(struct grading *g, struct powers *p, const struct set *set, const char *like)
{
	struct err local = {0};
	char why[200];
	if (p->asks == ASKS_MAX) return NULL;
	json_t *values = json_array();
	for (int i = 0; i < p->nnames; i++) json_array_append_new(values, json_integer(set->of[i]));
	struct oracle_side ask = {.side = "at", .sets = json_pack("[o]", values), .like = like};
	if (!p->session && oracle_sized_start(g->s->oracles, g->task, p->lent, &p->session, &local)) p->is_over = true;
	p->asks++;
	if (!p->is_over) p->is_over = oracle_sized_ask(p->session, FIRST_ASK + p->asks, &ask, &local) != 0;
	json_decref(ask.sets);
	/* One answer, and behind it the end of what was asked. */
	struct oracle_sized *out = p->is_over ? NULL : xcalloc(1, sizeof *out), none;
	if (!out) return NULL;
	int said = oracle_sized_next(p->session, out, why, sizeof why, &local);
	int end = said ? said : oracle_sized_next(p->session, &none, why, sizeof why, &local);
	p->is_over |= end != 1;
	if (!end) oracle_trial_release(&none.trial);
	if (said) {
		free(out);
		return NULL;
	}
	out->trial.sized = NULL; /* its variant takes another's place */
	return out;
}

static void sized_free(struct oracle_sized *z)
{
	if (z) oracle_trial_release(&z->trial);
	free(z);
}

/* The candidate at a set. GRADE_ON with its tape; GRADE_END with its verdict there; NO_TRIAL.
 * at: who describes the set, where it is to be judged: then the candidate is asked what it was to
 * be asked at the sizes that it refused. NULL: it is asked whether it compiles. */
static int set_try(struct grading *g, struct powers *p, const struct asked *a, const struct set *set, struct trace *tr,
	struct oracle_sized **at, struct err *err)
{
	struct oracle_sized *z = sized_ask(g, p, set, "");
	if (!z) return NO_TRIAL;
	snprintf(p->tried, sizeof p->tried, "%s", z->variant.changed);
	g->asked = 0; /* a clean process has to say of these kernels what it said of the refused ones */
	g->has_refused_block = false;
	int rc = at ? trace_instead_step(g, z->variant.job, a->variant == 1, tr, err)
				: trace_sized_step(g, z->variant.job, tr, err);
	if (at) *at = z;
	else sized_free(z);
	return rc;
}

static bool is_of_name(char c) { return c == '_' || isalnum((unsigned char)c); }

/* Whether a line of the candidate's text asserts or raises something. */
static bool line_refuses(const char *source, size_t len, int line)
{
	static const char *const words[] = {"assert", "static_assert", "raise"};
	const char *at = source, *end = source + len;
	for (int n = 1; n < line && at; n++) {
		at = memchr(at, '\n', (size_t)(end - at));
		if (at) at++;
	}
	while (line > 0 && at && at < end && *at != '\n' && *at != '#') {
		size_t width = 0;
		while (at + width < end && is_of_name(at[width])) width++;
		for (size_t i = 0; i < ARRAY_LEN(words); i++)
			if (width == strlen(words[i]) && !memcmp(at, words[i], width)) return true;
		at += width ? width : 1;
	}
	return false;
}

bool powers_refused(const struct grading *g)
{
	const char *reason = g->v->reason;
	bool is_compile = !strcmp(reason, "triton-compile-error");
	bool is_raised = !strcmp(reason, "forward-error") || !strcmp(reason, "init-error");
	return (is_compile && g->has_refused_block) ||
		((is_compile || is_raised) && line_refuses(g->source, g->source_len, g->v->line));
}

/* The same; or, where any refusal of Triton's counts, other kernels of these sizes. */
static bool is_refused(const struct grading *g, bool of_any_kind)
{
	return powers_refused(g) || (of_any_kind && !strcmp(g->v->reason, "triton-compile-error"));
}

/* ---- which sizes reach a block ---- */

/* What came of one set: Triton refuses a block; the reference does not run; the candidate compiles;
 * it ends otherwise; our own fault. */
enum outcome { SET_REFUSED, SET_OPEN, SET_TAKEN, SET_FAILED, SET_INFRA };

static enum outcome step_try(
	struct grading *g, struct powers *p, const struct asked *a, const struct set *set, struct err *err)
{
	struct trace tr = {0};
	int rc = set_try(g, p, a, set, &tr, NULL, err);
	trace_release(&tr);
	if (rc == NO_TRIAL) return SET_OPEN;
	if (rc == GRADE_ON) return SET_TAKEN;
	return rc != GRADE_END ? SET_INFRA : is_refused(g, a->is_built) ? SET_REFUSED : SET_FAILED;
}

static bool is_end(enum outcome o) { return o == SET_FAILED || o == SET_INFRA; }

/* All that may be are halved, in the first way that the reference and the candidate take. */
static enum outcome base_find(
	struct grading *g, struct powers *p, const struct asked *a, struct set *base, struct err *err)
{
	struct asked down = *a;
	enum outcome said = SET_OPEN;
	bool goes_on = true;
	down.is_larger = false;
	*base = a->ordinary;
	for (int way = 0; way < WAYS && goes_on; way++) {
		for (int i = 0; i < p->nnames; i++)
			if (a->may_halve[i]) base->of[i] = power_of(&down, p->stock.of[i], way);
		said = step_try(g, p, a, base, err);
		/* What is too small for an operation of Triton's is refused in other words. */
		goes_on = said == SET_REFUSED || said == SET_OPEN || (said == SET_FAILED && is_refused(g, true));
	}
	return said;
}

/* One size of a set goes back to what it was to be, and stays where the candidate takes that.
 * Smaller sizes are odd. Where those are refused the larger ones alone show what a tail needs, and
 * most of them do where they are odd too. */
static enum outcome back_try(
	struct grading *g, struct powers *p, struct asked *a, struct set *set, int i, struct err *err)
{
	struct set next = *set;
	int64_t size = a->ordinary.of[i];
	next.of[i] = size - (a->is_larger && size % 2 == 0 && size > p->stock.of[i] + 1);
	enum outcome said = step_try(g, p, a, &next, err);
	if (said == SET_OPEN && next.of[i] != size) {
		next.of[i] = size;
		said = step_try(g, p, a, &next, err);
	}
	if (said == SET_TAKEN) {
		a->ordinary.of[i] = next.of[i];
		*set = next;
	}
	return said;
}

/* Which sizes of the variant's are refused, into is_needed: from all halved one after another goes
 * back to what it was to be, beside what is back already. SET_TAKEN where that was found. */
static enum outcome needed_find(struct grading *g, struct powers *p, struct asked *a, struct err *err)
{
	struct set base;
	bool is_open[NAMES_MAX] = {false};
	int nopen = 0;
	enum outcome said = base_find(g, p, a, &base, err);
	if (said != SET_TAKEN) return said;
	for (int i = 0; i < p->nnames; i++) {
		if (!a->may_halve[i]) continue;
		said = back_try(g, p, a, &base, i, err);
		if (is_end(said)) return said;
		a->is_needed[i] = said != SET_TAKEN;
		nopen += is_open[i] = said == SET_OPEN;
	}
	/* Sizes of which the reference takes none alone (a width and what divides it). */
	if (nopen < 2) return SET_TAKEN;
	for (int i = 0; i < p->nnames; i++)
		if (is_open[i]) base.of[i] = a->ordinary.of[i];
	said = step_try(g, p, a, &base, err);
	for (int i = 0; i < p->nnames && said == SET_TAKEN; i++) a->is_needed[i] &= !is_open[i];
	return is_end(said) ? said : SET_TAKEN;
}

/* ---- what is judged in the variant's place ---- */

/* A way to take the variant's sizes with blocks that are powers of two. Of larger ones the last way
 * makes all others small, where together they would be too much. */
static struct set set_of(const struct powers *p, const struct asked *a, int way)
{
	struct set out = a->ordinary;
	for (int i = 0; i < p->nnames; i++) {
		if (a->is_needed[i]) out.of[i] = power_of(a, p->stock.of[i], way);
		else if (a->is_larger && way == 2 && a->is_changed[i] && out.of[i] >= 16) out.of[i] = (out.of[i] / 2) | 1;
	}
	return out;
}

/* Trials there in place of the variant's. False where none counts. */
static bool trials_replace(struct grading *g, struct powers *p, const struct asked *a, const struct set *set)
{
	bool any = false;
	for (int i = 0; i < p->own.ntrials; i++) {
		const struct oracle_trial *was = &p->lent->trials[i];
		struct oracle_trial *t = &p->own.trials[i];
		if (was->variant != a->variant || !was->counts) continue;
		struct oracle_sized *z = sized_ask(g, p, set, strncmp(was->distribution, "stock", 5) ? "sign-mixed" : "stock");
		/* A trial that cannot be made is left out; the refused one is none any more. */
		*t = (struct oracle_trial){.given_fd = -1, .variant = a->variant, .why = "the reference gives none there"};
		snprintf(t->distribution, sizeof t->distribution, "%s", was->distribution);
		if (!z) continue;
		p->made[p->nmade++] = z;
		z->trial.variant = a->variant;
		*t = z->trial;
		any |= t->counts;
	}
	return any;
}

/* The variant's place in what everybody reads. */
static void variant_replace(struct grading *g, struct powers *p, const struct asked *a, struct oracle_sized *z)
{
	struct oracle_variant *v = &p->own.variants[a->variant];
	const char *kind = v->kind;
	*v = z->variant;
	v->kind = kind;
	json_array_set(
		json_object_get(p->own.task, "variants"), (size_t)a->variant, json_object_get(z->trial.message, "variant"));
	p->made[p->nmade++] = z;
	g->oracle = &p->own;
}

/* A size near `odd` that 2^twos divides and no higher power of two; 0 where that is a power of two
 * itself. */
static int64_t even_size(int64_t odd, int twos)
{
	int64_t part = (odd >> twos) | 1;
	return part > 1 ? part << twos : 0;
}

/* A block is refused at whatever is no power of two. A candidate that refuses odd sizes, or those
 * that sixteen does not divide, and takes others has no block there: it is judged at the least even
 * of those that it takes, where what lies behind its last block is most. */
static enum outcome evens_try(
	struct grading *g, struct powers *p, struct asked *a, struct set *set, int i, struct err *err)
{
	for (int twos = 1; even_size(a->ordinary.of[i], twos); twos++) {
		struct set next = *set;
		next.of[i] = even_size(a->ordinary.of[i], twos);
		if (next.of[i] == p->stock.of[i]) continue;
		enum outcome said = step_try(g, p, a, &next, err);
		if (said == SET_INFRA) return said;
		if (said != SET_TAKEN) continue;
		*set = next;
		a->ordinary.of[i] = next.of[i];
		a->is_needed[i] = false;
		return said;
	}
	return SET_REFUSED;
}

/* What was refused among small sizes may be taken beside the ones that are judged:
 * then it is judged there. One size alone was refused beside all others' ordinary
 * ones, by the variant itself. */
static enum outcome refine(struct grading *g, struct powers *p, struct asked *a, struct set *set, struct err *err)
{
	int nneeded = 0;
	for (int i = 0; i < p->nnames; i++)
		if (a->is_needed[i] && evens_try(g, p, a, set, i, err) == SET_INFRA) return SET_INFRA;
	for (int i = 0; i < p->nnames; i++) nneeded += a->is_needed[i];
	for (int i = 0; i < p->nnames && nneeded > 1; i++) {
		if (!a->is_needed[i]) continue;
		enum outcome said = back_try(g, p, a, set, i, err);
		if (said == SET_INFRA || (said == SET_FAILED && !is_refused(g, true))) return said;
	}
	return SET_TAKEN;
}

/* One way after another. GRADE_ON with the tape; GRADE_END with the verdict of the last way that
 * was tried; NO_TRIAL where the reference takes none. */
static int ways_try(struct grading *g, struct powers *p, struct asked *a, struct trace *tr, struct err *err)
{
	int rc = NO_TRIAL;
	bool goes_on = true;
	for (int way = 0; way < WAYS + a->is_larger && goes_on; way++) {
		struct oracle_sized *z = NULL;
		struct set set = set_of(p, a, way);
		enum outcome refined = refine(g, p, a, &set, err);
		if (refined != SET_TAKEN) return refined == SET_INFRA ? ERR_INFRA : GRADE_END;
		int said = set_try(g, p, a, &set, tr, &z, err);
		if (said == GRADE_ON && trials_replace(g, p, a, &set)) {
			variant_replace(g, p, a, z);
			return GRADE_ON;
		}
		sized_free(z);
		trace_release(tr);
		*tr = (struct trace){0};
		/* Refused by Triton again: the next way may suit. What ends
		 * otherwise is the candidate's. */
		goes_on = said == GRADE_ON || said == NO_TRIAL || (said == GRADE_END && is_refused(g, true));
		if (said != GRADE_ON && said != NO_TRIAL) rc = said;
	}
	return rc;
}

int powers_step(struct grading *g, int variant, struct trace *tr, const char **tried, struct err *err)
{
	struct powers *p = powers_begin(g);
	struct asked a = asked_of(g, p, variant);
	struct verdict *first = xmalloc(sizeof *first);
	*first = *g->v;
	enum outcome found = needed_find(g, p, &a, err);
	int rc = found == SET_TAKEN ? ways_try(g, p, &a, tr, err)
		: found == SET_INFRA    ? ERR_INFRA
		: found == SET_FAILED   ? GRADE_END
								: NO_TRIAL;
	if (oracle_session_fault(p->session, err)) rc = ERR_INFRA;
	/* Nothing but refusals, or no reference: the first one stands. */
	bool is_first = rc == NO_TRIAL || (rc == GRADE_END && is_refused(g, true));
	*tried = is_first ? g->oracle->variants[variant].changed : p->tried;
	if (is_first || !rc) *g->v = *first;
	free(first);
	return is_first ? GRADE_END : rc;
}

void powers_rest(struct grading *g)
{
	if (!g->powers) return;
	oracle_session_end(g->powers->session);
	g->powers->session = NULL;
}
