/* What a candidate leaves in the buffers that the reference's forward changes (running statistics).
 * forward's result is what a task asks for, so a candidate that leaves all of them as they were is
 * right; one that writes any of them has to leave in all of them what the reference does. */
#include "verify/attempt.h"
#include "base/base.h"
#include "runner/runner.h"
#include "verify/compare.h"
#include "verify/oracle.h"
#include <stdlib.h>

int64_t *state_ask(const struct oracle_trial *t, struct runner_given *params, int nparams, int64_t *bytes)
{
	for (int p = 0; p < nparams; p++) params[p].read_offset = -1;
	if (t->is_edge || t->is_check || !t->nafter) return NULL;
	int64_t *at = xcalloc((size_t)t->nafter, sizeof *at);
	for (int i = 0; i < t->nafter; i++) {
		/* Under the name of the reference's, or the candidate's own for it, which comes last. */
		int last = t->after[i].param;
		for (int p = t->nparams; p < nparams; p++)
			if (params[p].offset == t->params[last].offset) last = p;
		params[last].read_offset = at[i] = *bytes;
		*bytes += (params[last].bytes + 63) / 64 * 64;
	}
	return at;
}

int state_compare(struct grading *g, const struct attempt *a, const struct attempt_result *r)
{
	const struct oracle_trial *t = a->trial;
	bool is_written = false;
	if (t->is_edge || !t->nafter || !r->state) return GRADE_ON;
	for (int i = 0; i < t->nafter; i++) {
		const struct runner_given *p = &t->params[t->after[i].param];
		is_written |= memcmp(r->outputs + r->state[i], t->given + p->offset, (size_t)p->bytes) != 0;
	}
	snprintf(g->v->state, sizeof g->v->state, "%s", is_written ? "as the reference leaves it" : "left alone");
	for (int i = 0; is_written && i < t->nafter; i++) {
		const struct oracle_after *after = &t->after[i];
		struct compare_result c;
		compare_run(&after->want, &after->bound, r->outputs + r->state[i], &c);
		if (c.is_equal || !after->bound.is_usable) continue;
		char trial[400];
		attempt_text(g, t, trial, sizeof trial);
		snprintf(g->v->state, sizeof g->v->state, "not as the reference leaves it");
		return grade_end(g, VERDICT_WRONG, STAGE_CORRECTNESS, attempt_reason(t, "state-mismatch"), 0,
			"buffer %.80s after forward, for %s: %s", t->params[after->param].name, trial, c.text);
	}
	return GRADE_ON;
}
