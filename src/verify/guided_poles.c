/* guided_poles: inputs at which an operation of the kernel gives no finite number (vm.h,
 * SITE_POLE): a divisor that is 0 at one number alone. Single elements are searched as aims search
 * them, and the same inputs with these elements are a trial.
 *
 * The pole may be the reference's own (a logarithm of an input): then nothing is expected there,
 * and the trial does not count. So that such a one hides no other, each pole has a trial of its own
 * where they do not count together. */
#include "verify/guided_internal.h"
#include "base/base.h"
#include "runner/runner.h"
#include "tape/tape.h"
#include "vm/vm.h"

#define ROUNDS_MAX 4 /* of as many poles as a search has aims */
#define SEARCHES (2 * RUNNER_AIMS_MAX)

/* What one search of several poles found. */
struct poles {
	int n;
	int number;                 /* of the inputs' seed, the same for all trials */
	int which[RUNNER_AIMS_MAX]; /* of these */
	json_t *found[SEARCHES];    /* by aim, places; NULL: none */
	json_t *all;
};

static void poles_find(
	const struct grading *g, const struct tape *t, int variant, struct runner_trial *aims, struct poles *p)
{
	*aims = (struct runner_trial){.naims = 0};
	for (int i = 0; i < g->guided->variants[variant].n && aims->naims < RUNNER_AIMS_MAX; i++) {
		struct site_state *st = &g->guided->variants[variant].sites[i];
		if (!pole_is_aimed(st)) continue;
		st->is_tried = true;
		p->which[aims->naims] = i;
		aims->aims[aims->naims++] = (struct runner_aim){
			.site = st->site.id, .side = SIDE_EQUAL, .constant = st->site.constant, .is_pole = true};
	}
	guided_aims_allow(g, t, aims);
	p->n = aims->naims;
}

/* The verdict says where the kernel met what. */
static void pole_tell(struct grading *g, int variant, const struct poles *p, int aim)
{
	struct verdict *v = g->v;
	size_t used = strlen(v->detail);
	if (v->class != VERDICT_WRONG) return;
	const struct runner_site *s = &g->guided->variants[variant].sites[p->which[aim % RUNNER_AIMS_MAX]].site;
	if (!v->line) v->line = s->line;
	snprintf(v->detail + used, sizeof v->detail - used,
		"; one element there brings %s at candidate.py:%d to where it "
		"gives no finite number",
		s->what, s->line);
}

/* One trial with places that were found; counts: the reference is finite there. */
static int poles_trial(struct grading *g, struct oracle_session *session, const struct trace *tr, const struct poles *p,
	const json_t *at, const struct runner_trial *aims, struct oracle_trial *t, bool *counts, struct err *err)
{
	struct err local = {0};
	json_t *edits = json_pack("[{s:s, s:O}]", "op", "place", "at", at);
	*counts = false;
	if (oracle_session_trial(session, p->number, edits, t, &local)) {
		*t = (struct oracle_trial){.given_fd = -1};
		return GRADE_ON;
	}
	*counts = t->counts && t->ninputs == g->oracle->trials[0].ninputs;
	return *counts ? guided_trial(g, tr, t, aims, err) : GRADE_ON;
}

/* What was found all together, and where that does not count one by one. */
static int poles_judge(struct grading *g, struct oracle_session *session, const struct trace *tr, int variant,
	const struct poles *p, struct err *err)
{
	struct oracle_trial t;
	bool counts;
	int nfound = 0, last = 0;
	for (int k = 0; k < SEARCHES; k++) {
		if (!p->found[k]) continue;
		nfound++;
		last = k;
	}
	if (!nfound) return GRADE_ON;
	int rc = poles_trial(g, session, tr, p, p->all, NULL, &t, &counts, err);
	oracle_trial_release(&t);
	g->v->guided += counts;
	if (rc == GRADE_END) pole_tell(g, variant, p, last);
	for (int k = 0; k < SEARCHES && !rc && !counts && nfound > 1; k++) {
		bool is_own;
		if (!p->found[k]) continue;
		rc = poles_trial(g, session, tr, p, p->found[k], NULL, &t, &is_own, err);
		oracle_trial_release(&t);
		g->v->guided += is_own;
		if (rc == GRADE_END) pole_tell(g, variant, p, k);
	}
	return rc;
}

int guided_poles_search(struct grading *g, struct oracle_session *session, const struct trace *tr, int variant,
	struct guided_inputs *from, struct err *err)
{
	int rc = GRADE_ON;
	/* Behind an operator of torch each replay would have to ask torch again. */
	if (g->is_partial) return GRADE_ON;
	for (int round = 0; round < ROUNDS_MAX && !rc; round++) {
		struct runner_trial aims;
		struct oracle_trial t;
		struct poles p = {.number = from->number};
		bool counts;
		poles_find(g, tr->tape, variant, &aims, &p);
		if (!p.n) break;
		g->guided->nplaced = 0;
		rc = poles_trial(g, session, tr, &p, from->at, &aims, &t, &counts, err);
		if (!counts && json_array_size(from->at)) {
			/* What aims had found is nothing that the reference is finite with. */
			oracle_trial_release(&t);
			json_array_clear(from->at);
			rc = poles_trial(g, session, tr, &p, from->at, &aims, &t, &counts, err);
		}
		/* The list is the last trial's: it is read before the next one. */
		p.all = guided_places(from->at, g->guided, -1, &t);
		for (int k = 0; k < SEARCHES; k++) {
			json_t *at = guided_places(from->at, g->guided, k, &t);
			if (json_array_size(at) > json_array_size(from->at)) {
				p.found[k] = json_incref(at);
				g->guided->variants[variant].sites[p.which[k % RUNNER_AIMS_MAX]].is_met = true;
			}
			json_decref(at);
		}
		oracle_trial_release(&t);
		if (!rc) rc = poles_judge(g, session, tr, variant, &p, err);
		for (int k = 0; k < SEARCHES; k++) json_decref(p.found[k]);
		json_decref(p.all);
	}
	return rc;
}
