/* kernelbench_step: KernelBench's own verdict, beside ours in every record. Its check calls forward
 * five times on get_inputs() under five seeds, with the seed's parameters, and asks torch.allclose
 * with 1e-4 (fp32) or 1e-2 (half) each time.
 *
 * What is computed here is that check on the tape, the candidate's first call of forward as a
 * whole: kernels by the vm, torch's own operators by torch (library_step.c), under secret seeds.
 * Nothing of what only we look for holds it up: races, writes to inputs, who computed what. So a
 * cheat that hands back the reference's operators passes here as it passes there. What cannot be
 * had from a tape is not guessed:
 *   - where there is no tape (the host code reads values, keeps results, crashed, took too long),
 *     an operation that the vm does not know, or a fault of a kernel (an access out of bounds,
 *     memory that nobody wrote), the answer is not known, null in the record, since a GPU may give
 *     anything there;
 *   - host code that attacks the process which compares (a patched allclose, a frame walk) has that
 *     process there and not here: the verdict is about the values that its forward leaves.
 * A candidate that is genuine has trial 1 compared so and no more: the other trials of ours are
 * stricter than these four. */
#include "verify/attempt.h"
#include "base/base.h"
#include "tape/tape.h"

/* Ends of a verdict that KernelBench's check knows as an exception of the
 * candidate's: false there. */
static const struct {
	enum verdict_class class;
	const char *reason;
} REFUSED[] = {
	{VERDICT_INVALID, "syntax-error"},
	{VERDICT_INVALID, "no-model-new"},
	{VERDICT_INVALID, "not-text"},
	{VERDICT_INVALID, "import-error"},
	{VERDICT_INVALID, "init-error"},
	{VERDICT_INVALID, "forward-error"},
	{VERDICT_INVALID, "triton-compile-error"},
	{VERDICT_INVALID, "no-class"},
	{VERDICT_INVALID, "no-output"},
	{VERDICT_INVALID, "output-not-tensor"},
	{VERDICT_INVALID, "compile-error"},
	{VERDICT_INVALID, "ptxas-error"},
	{VERDICT_INVALID, "out-of-resources"},
	{VERDICT_INVALID, "too-many-threads"},
	{VERDICT_INVALID, "cluster-too-large"},
	{VERDICT_INVALID, "grid-not-resident"},
	{VERDICT_INVALID, "no-allocator"},
};

bool kernelbench_refused(struct verdict *v)
{
	for (size_t i = 0; i < ARRAY_LEN(REFUSED); i++)
		if (v->class == REFUSED[i].class && !strcmp(v->reason, REFUSED[i].reason)) v->kernelbench = 0;
	return v->kernelbench == 0;
}

/* One trial: 1 passes, 0 fails, -1 not known. The tape is loaded. */
static int trial_check(struct grading *g, const struct trace *stock, const struct oracle_trial *t)
{
	struct attempt a = {.trace = stock, .trial = t, .is_unchecked = true, .may_be_given = UINT64_MAX};
	struct attempt_result r;
	struct err err = {0};
	if (outputs_check(g, stock->tape, t)) return 0;
	int rc = attempt_run(g, &g->runner, &a, &r, &err), found = 1;
	if (rc) {
		runner_end(g->s->runners, &g->runner, NULL, 0, NULL);
		g->has_runner = false;
		return -1;
	}
	if (r.result.has_fault) found = -1;
	for (int i = 0; i < t->noutputs && found > 0; i++) {
		struct compare_result c;
		compare_run(&t->outputs[i], &t->bounds[i], r.outputs + r.offset[i], &c);
		found = c.kernelbench;
	}
	attempt_release(&r);
	return found;
}

/* All trials of the check that were not run yet, on a verdict of its own that is dropped. */
static void trials_check(struct grading *g, const struct trace *stock)
{
	struct verdict *v = g->v, said = {0};
	struct runner_loaded loaded;
	struct err err = {0};
	int found = v->kernelbench;
	if (!g->has_runner && runner_pool_take(g->s->runners, &g->runner, &err)) return;
	g->has_runner = true;
	g->v = &said;
	bool is_loaded = replay_load(g, stock, &loaded, &err) == GRADE_ON;
	if (!is_loaded) found = -1;
	for (int i = 0; i < g->oracle->ntrials && is_loaded; i++) {
		const struct oracle_trial *t = &g->oracle->trials[i];
		bool is_first = i == 0 && v->kernelbench < 0;
		if (!(is_first || t->is_check) || t->given_fd < 0) continue;
		found = trial_check(g, stock, t);
		v->kernelbench_trials++;
		if (found != 1) break;
	}
	g->v = v;
	v->kernelbench = found;
}

/* The tape of a candidate whose text alone was judged. */
static void trace_alone(struct grading *g, struct trace *stock)
{
	struct verdict *v = g->v, said = {0};
	struct err err = {0};
	g->v = &said;
	bool is_refused = trace_step(g, stock, &err) == GRADE_END && kernelbench_refused(&said);
	g->v = v;
	if (is_refused) v->kernelbench = 0;
}

void kernelbench_step(struct grading *g, struct trace *stock)
{
	struct verdict *v = g->v;
	v->kernelbench_trials = v->kernelbench >= 0;
	if (v->class == VERDICT_INFRA || v->class == VERDICT_GENUINE || !g->oracle || kernelbench_refused(v)) return;
	if (!stock->tape && v->stage == STAGE_STATIC) trace_alone(g, stock);
	if (stock->tape && v->kernelbench) trials_check(g, stock);
}
