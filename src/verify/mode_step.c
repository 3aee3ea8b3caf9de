/* mode_step: trials of forward in modes that a process may be in.
 *
 * A tape is made under torch.no_grad(), without autocast, in the mode of train() and eval() that
 * the constructor left. Host code may know the mode: a module may keep more for a backward pass.
 * What it returns has to be right all the same. So the second trace also calls forward in these
 * modes (worker/tracer_elsewhere.py) and sends the tapes that are others than the first; each is
 * replayed on a hidden trial of the task's own sizes. The mode of train() and eval() counts where
 * the reference itself gives the same in both. */
#include "verify/verify_internal.h"
#include "base/base.h"
#include "tape/tape.h"
#include "verify/oracle.h"
#include <stdlib.h>

#define MODES_MAX 10 /* calls of modes() in worker/tracer_elsewhere.py */

/* A mode in which the reference gives something else: what is right there nobody has computed. */
static bool is_free(const struct grading *g, const char *name)
{
	const json_t *job = g->oracle->variants[0].job;
	return strstr(name, "train()") && !json_is_true(json_object_get(job, "modeless"));
}

/* Autocast may hand a kernel numbers of fewer digits: then values are no measure. */
static bool is_cast(const struct tape *t, const struct oracle_trial *trial)
{
	for (int i = 0; i < t->nrows; i++)
		if (t->rows[i].kind == TAPE_COPY && t->rows[i].dst.dtype != t->rows[i].src.dtype) return true;
	for (int i = 0; i < t->noutputs && i < trial->noutputs; i++)
		if (t->outputs[i].dtype != trial->outputs[i].dtype) return true;
	return false;
}

static int one_mode(
	struct grading *g, const char *name, const json_t *text, const struct oracle_trial *trial, struct err *err)
{
	struct trace tr = {0};
	struct err bad = {0};
	const char *tape = json_string_value(text);
	size_t len = json_string_length(text);
	int row, rc = !tape || tape_parse(tape, len, &tr.tape, &bad) ? GRADE_END : GRADE_ON;
	if (rc) return grade_end(g, VERDICT_INVALID, STAGE_TRACE, "bad-tape", 0, "%.900s", bad.text);
	str_append(&tr.text, tape, len);
	if (tape_lineage_static(tr.tape, &row) != TAPE_LINEAGE_OK)
		rc = grade_end(g, VERDICT_INVALID, STAGE_LINEAGE, "unsupported", MAX(tr.tape->rows[row].line, 0),
			"candidate.py:%d: torch computes on the way to what forward returns", MAX(tr.tape->rows[row].line, 0));
	bool is_judged = !rc && !(strstr(name, "autocast") && is_cast(tr.tape, trial));
	if (is_judged) rc = rebuild_step(g, tr.tape, err);
	if (!rc && is_judged) rc = sized_trial(g, &tr, trial, err);
	if (rc == GRADE_END) {
		size_t used = strlen(g->v->detail);
		snprintf(g->v->detail + used, sizeof g->v->detail - used, " (when forward is called %.60s)", name);
		g->v->correct = false;
	}
	trace_release(&tr);
	return rc;
}

/* Where products may be in tf32, that is the bound, for a task that has products. */
static int coarse_mode(
	struct grading *g, const char *name, const json_t *text, const struct oracle_trial *trial, struct err *err)
{
	/* Trials are shared with other candidates of the task, so bounds are a copy's. */
	struct oracle_trial coarse = *trial;
	coarse.bounds = xcalloc((size_t)trial->noutputs + 1, sizeof *coarse.bounds);
	coarse.after = xcalloc((size_t)trial->nafter + 1, sizeof *coarse.after);
	for (int i = 0; i < trial->nafter; i++) coarse.after[i] = trial->after[i];
	oracle_trial_calibrate(g->oracle, &coarse, true);
	g->is_coarse = true;
	int rc = one_mode(g, name, text, &coarse, err);
	g->is_coarse = false;
	free(coarse.bounds);
	free(coarse.after);
	return rc;
}

int mode_step(struct grading *g, const json_t *modes, struct err *err)
{
	int rc = GRADE_ON;
	const struct oracle_trial *trial = oracle_hidden_trial(g->oracle);
	for (size_t i = 0; trial && i + 1 < json_array_size(modes) && i < 2 * MODES_MAX && !rc; i += 2) {
		const char *name = json_string_value(json_array_get(modes, i));
		if (!name || is_free(g, name)) continue;
		if (!g->has_runner) rc = runner_pool_take(g->s->runners, &g->runner, err);
		g->has_runner |= !rc;
		bool is_coarse = strstr(name, "tf32") && g->oracle->has_dot;
		if (!rc) rc = (is_coarse ? coarse_mode : one_mode)(g, name, json_array_get(modes, i + 1), trial, err);
	}
	return rc;
}
