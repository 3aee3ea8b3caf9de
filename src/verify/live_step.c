/* live_step: the candidate's own file, run for real on the GPU, where somebody asks
 * for it (worker/live.py).
 *
 * A candidate that cannot be traced (its host code looks at values, keeps results, does what a tape
 * cannot say) may be right all the same: such a one becomes `partial/live-right` or
 * `partial/live-wrong`, never more, because its host code met the data. A genuine one's record says
 * whether its file gives what its tape gave. */
#include "verify/gpu_steps.h"
#include "base/base.h"
#include "verify/gpu_lock.h"
#include "verify/reference.h"
#include <math.h>
#include <stdlib.h>

#define TRIALS 2        /* the task's own inputs with the seed's parameters, and with others */
#define LOCK_MS 120000
#define ANSWER_MS 20000

/* What a tracer says of candidates that may work for real. */
static const char *const REASONS[] = {"data-dependent", "nondeterministic", "random", "unsupported", "forward-error",
	"init-error", "import-error", "too-large", "output-not-tensor"};

static bool may_run(const struct verdict *v)
{
	if (v->class == VERDICT_GENUINE) return true;
	if (v->class != VERDICT_INVALID || v->stage != STAGE_TRACE) return false;
	for (size_t i = 0; i < ARRAY_LEN(REASONS); i++)
		if (!strcmp(v->reason, REASONS[i])) return true;
	return false;
}

/* One trial in a process of its own: "right", "wrong" or "failed", with why. */
static int run(
	struct grading *g, const struct oracle_trial *t, const char **said, char *why, size_t len, struct err *err)
{
	struct verify_shared *s = g->s;
	struct reference_options o = {.zygote = s->timer,
		.limits = {s->level, 0, 0},
		.device = g->on->device.uuid,
		.timeout_ms = s->limits.trace_timeout_ms + s->limits.compile_timeout_ms,
		.question_ms = ANSWER_MS,
		.njobs = &g->on->njobs};
	struct reference *r = NULL;
	struct reference_facts facts;
	bool agrees = false;
	double error_max = NAN;
	int lock = -1, rc = gpu_lock_take(NULL, g->on->device.uuid, false, LOCK_MS, &lock, err);
	if (!rc) rc = reference_live(&o, g->source, g->source_len, &g->oracle->variants[0], t, &r, err);
	if (!rc) rc = reference_ready(r, &facts, why, len, err);
	if (!rc) rc = reference_check(r, 1, 0, &agrees, &error_max, why, len, err);
	*said = rc == ERR_MISMATCH ? "failed" : agrees ? "right" : "wrong";
	reference_end(r);
	gpu_lock_release(lock);
	return rc == ERR_MISMATCH ? 0 : rc;
}

int live_step(struct grading *g, struct err *err)
{
	struct verdict *v = g->v;
	struct verdict_device *d = &v->device;
	const char *said = "";
	char why[sizeof d->live_why] = "";
	int trials = 0, rc = 0;
	if (!g->s->is_live || !g->on || !g->s->timer || !g->oracle || g->ir || !may_run(v)) return 0;
	/* Draws on a GPU are other numbers than those that are expected. */
	if (json_array_size(json_object_get(g->oracle->variants[0].job, "draws"))) return 0;
	for (int i = 0; i < g->oracle->ntrials && trials < TRIALS && !rc; i++) {
		const struct oracle_trial *t = &g->oracle->trials[i];
		if (!t->counts || t->variant != 0 || !t->is_stock) continue;
		rc = run(g, t, &said, why, sizeof why, err);
		trials++;
		if (strcmp(said, "right")) break;
	}
	if (rc || !trials) return rc;
	text_make_printable(why);
	snprintf(d->live, sizeof d->live, "%s", said);
	snprintf(d->live_why, sizeof d->live_why, "%s", why);
	if (v->class == VERDICT_GENUINE || !strcmp(said, "failed")) return 0;
	char detail[sizeof v->detail], reason[sizeof v->reason];
	snprintf(detail, sizeof detail, "%s", v->detail);
	snprintf(reason, sizeof reason, "%s", v->reason);
	grade_end(g, VERDICT_PARTIAL, STAGE_TRACE, !strcmp(said, "right") ? "live-right" : "live-wrong", v->line,
		"run for real in %d %s, its results are %s%s%s; it cannot be traced: %s: %.600s", trials,
		plural(trials, "trial", "trials"), said, why[0] ? ": " : "", why, reason, detail);
	return 0;
}
