/* config_step: trials of what an autotuner may choose.
 *
 * The tape that is judged has the first configuration that compiles. A real run times all of them
 * on the first call's own arguments, some kernels many times over, and takes the quickest. So the
 * candidate is traced with another configuration, drawn by the verifier's secret, and compared as
 * in any hidden trial: a configuration that computes something else is found. That is done twice.
 * At the first call launches as a benchmark makes them come before, which finds a kernel that works
 * in place and restores nothing between its timings; at a later one they do not, which finds one
 * that leaves out what the benchmark's launches of other configurations have written for it. */
#include "verify/verify_internal.h"
#include "base/base.h"
#include "tape/tape.h"
#include "verify/guided.h"
#include "verify/oracle.h"
#include <stdlib.h>

#define TURNS_MAX 3  /* configurations that are tried */

/* How many configurations the autotuners of this tape's kernels have at most. */
static int configurations(const struct tape *t)
{
	json_int_t most = 1;
	const json_t *kernels = json_object_get(t->json, "kernels");
	for (size_t k = 0; k < json_array_size(kernels); k++)
		most = MAX(most, json_integer_value(json_object_get(json_array_get(kernels, k), "configs")));
	return (int)most;
}

/* Hidden inputs, and at a first call the search for those that its own comparisons lead to: which
 * side of them was taken with another configuration says nothing of this one. */
static int values_judge(
	struct grading *g, const struct trace *tr, const struct oracle_trial *trial, bool is_later, struct err *err)
{
	int rc = sized_trial(g, tr, trial, err);
	if (rc || is_later) return rc;
	struct guided *kept = g->guided;
	g->guided = NULL;
	rc = guided_trial(g, tr, trial, NULL, err);
	if (!rc && guided_wants(g, 0)) rc = guided_search(g, tr, 0, err);
	guided_free(g->guided);
	g->guided = kept;
	return rc;
}

/* The candidate with this turn's configuration, at its first call or a later one. What ends
 * without a wrong value, a configuration that does not compile among it, says nothing: a real
 * run takes another one. */
static int turn_judge(struct grading *g, const struct trace *stock, const struct oracle_trial *trial, int turn,
	bool is_later, struct err *err)
{
	struct trace tr = {0};
	struct verdict *kept = g->v, *said = xmalloc(sizeof *said);
	json_t *job = json_copy((json_t *)(uintptr_t)g->oracle->variants[0].job);
	json_object_set_new(job, "config", json_integer(turn));
	if (is_later) json_object_set_new(job, "later", json_true());
	*said = *kept;
	g->v = said;
	int row, rc = trace_sized_step(g, job, &tr, err);
	/* With this one torch computes, which no runner can: what hooks change is not judged. */
	bool is_torchs = !rc && tape_lineage_static(tr.tape, &row) != TAPE_LINEAGE_OK;
	if (is_torchs)
		rc = grade_end(g, VERDICT_INVALID, STAGE_LINEAGE, "unsupported", MAX(tr.tape->rows[row].line, 0),
			"candidate.py:%d: torch computes on the way to what forward returns", tr.tape->rows[row].line);
	/* What was judged whole needs no other look. */
	bool is_known = !rc && !strcmp(tr.tape->hash.text, stock->tape->hash.text);
	if (!rc && !is_known) rc = rebuild_step(g, tr.tape, err);
	if (!rc && !is_known) rc = values_judge(g, &tr, trial, is_later, err);
	g->v = kept;
	if (rc == GRADE_END && said->class == VERDICT_INVALID && !is_torchs) {
		rc = GRADE_ON;
	} else if (rc == GRADE_END) {
		*kept = *said;
		size_t used = strlen(kept->detail);
		snprintf(kept->detail + used, sizeof kept->detail - used,
			is_later ? " (with another of the autotuner's configurations, at a call behind the first)"
					 : " (with another of the autotuner's configurations, or after its benchmark)");
	}
	trace_release(&tr);
	json_decref(job);
	free(said);
	if (!rc && !g->has_runner) {
		rc = runner_pool_take(g->s->runners, &g->runner, err);
		g->has_runner = !rc;
	}
	return rc;
}

int config_step(struct grading *g, const struct trace *stock, struct err *err)
{
	int rc = GRADE_ON, count = configurations(stock->tape);
	const struct oracle_trial *trial = oracle_hidden_trial(g->oracle);
	if (count < 2 || !trial) return rc;
	/* All of a few, and a few of many. */
	int first = (int)(g->s->cost_seed % (uint64_t)count);
	for (int turn = 0; turn < MIN(count, TURNS_MAX) && !rc; turn++) {
		rc = turn_judge(g, stock, trial, 1 + (first + turn) % count, false, err);
		if (!rc) rc = turn_judge(g, stock, trial, 1 + (first + turn) % count, true, err);
	}
	if (rc) g->v->correct = false;
	return rc;
}
