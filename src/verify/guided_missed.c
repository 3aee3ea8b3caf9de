/* guided_missed: the elements of inputs that launches left out, or singled out by an index (vm.h,
 * missed): they are made larger than all others, which a maximum or a long sum must not leave
 * unseen. Those of the first variant that has any stand for all. Data next to nothing shows
 * where an epsilon stands. */
#include "verify/guided_internal.h"
#include "base/base.h"
#include "runner/runner.h"

#define SMALL_TURNS 4 /* sizes that small data has (worker/oracle_guided.py, tiny) */

/* Which input, by number, or which parameter, by the reference's name; NULL: none that it knows. */
json_t *guided_whose(int input, int64_t param_offset, const struct runner_given *params, int nparams)
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
int guided_missed_search(struct grading *g, struct oracle_session *session, const struct trace *tr, struct err *err)
{
	static const double BY[] = {64, 3};
	struct guided *s = g->guided;
	/* The trial that found them lays parameters out. */
	const struct oracle_trial *first = g->oracle->trials;
	while (first->variant != s->missed_variant || first->given_fd < 0) first++;
	int rc = GRADE_ON;
	json_t *at = json_array();
	for (int i = 0; i < s->nmissed; i++) {
		json_t *which = guided_whose(s->missed[i].input, s->missed[i].param_offset, first->params, first->nparams);
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
int guided_small_search(struct grading *g, struct oracle_session *session, const struct trace *tr, struct err *err)
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
