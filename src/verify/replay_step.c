/* replay_step: correctness. A runner replays the tape for each trial; what it wrote is compared
 * here with what the oracle computed.
 *
 * Stock sizes come first. Only a candidate that passes those is traced at the other sizes, so that
 * wrong candidates stay cheap. The first failing trial settles the verdict, and which one it was
 * gives the reason: the task's own inputs (mismatch), other parameters with the same inputs
 * (stale-params), anything hidden (fragile).
 *
 * A kernel that does something whose order Triton leaves open (a reduction by a function that is no
 * known operation, tl.cat, ...) runs each trial twice, the second time in another order
 * (docs/vm.md): what is right in one order alone is right by luck, for a GPU has its own. */
#include "verify/gpu_steps.h"
#include "base/base.h"
#include "base/dtype.h"
#include "cost/cost.h"
#include "runner/runner.h"
#include "tape/tape.h"
#include "verify/guided.h"

/* Our own process died or fell silent on this tape. Once may be chance; twice is the tape's doing,
 * and no reason for a second chance. */
static int runner_lost(struct grading *g, int rc, struct err *err)
{
	char status[64] = "";
	int wait_status = 0;
	char said[400];
	snprintf(said, sizeof said, "%s", err->text);
	runner_end(g->s->runners, &g->runner, status, sizeof status, &wait_status);
	g->has_runner = false;
	if (rc == ERR_TIMEOUT)
		return grade_end(g, VERDICT_WRONG, STAGE_CORRECTNESS, "timeout-kernel", 0,
			"the kernels did not finish in %d ms", g->s->limits.replay_timeout_ms);
	if (g->attempt == 0) return err_set(err, ERR_INFRA, "the runner was lost: %s (%s)", status, said);
	return grade_end(g, VERDICT_INVALID, STAGE_CORRECTNESS, "replay-crash", 0,
		"the replay of this tape ends the runner: %s (%s)", status, said);
}

static bool has_library_rows(const struct tape *t)
{
	bool on_path[TAPE_ROWS_MAX], found = false;
	tape_data_path(t, on_path);
	for (int i = 0; i < t->nrows; i++) found |= on_path[i] && t->rows[i].kind == TAPE_LIBRARY;
	return found;
}

int replay_load(struct grading *g, const struct trace *t, struct runner_loaded *loaded, struct err *err)
{
	struct runner_fault fault = {0};
	uint64_t deadline = deadline_in_ms(g->s->limits.replay_timeout_ms + ATTEMPT_GRACE_MS);
	struct runner_load l = {.tape = t->text.data, .len = t->text.len, .binaries_fd = -1};
	*loaded = (struct runner_loaded){-1, -1, -1, -1, -1};
	int rc = runner_load(&g->runner, &l, deadline, loaded, &fault, err);
	if (rc == ERR_MISMATCH) return attempt_fault_end(g, &fault, NULL);
	if (rc) return runner_lost(g, rc, err);
	library_end(g);
	return has_library_rows(t->tape) ? library_start(g, t->tape, err) : GRADE_ON;
}

static int load(struct grading *g, const struct trace *t, int *order_line, struct err *err)
{
	struct runner_loaded loaded;
	int rc = replay_load(g, t, &loaded, err);
	if (rc) return rc;
	*order_line = loaded.order_line;
	g->cost_varies = loaded.data_line >= 0;
	if (loaded.fp8_line >= 0) g->v->fp8_line = loaded.fp8_line;
	bool is_strict = !g->s->tf32 && !g->is_coarse;
	if (loaded.tf32_line >= 0 && is_strict && g->oracle->dtype == DTYPE_F32)
		return grade_end(g, VERDICT_WRONG, STAGE_CORRECTNESS, "tf32", loaded.tf32_line,
			"candidate.py:%d: tl.dot on fp32 operands uses tf32 (11 bits of mantissa), which is its default; "
			"pass input_precision=\"ieee\", or verify with --precision tf32",
			loaded.tf32_line);
	if (loaded.narrow_line >= 0 && is_strict && g->oracle->dtype == DTYPE_F32 && !g->oracle->narrows)
		return grade_end(g, VERDICT_WRONG, STAGE_CORRECTNESS, "low-precision", loaded.narrow_line,
			"candidate.py:%d: values of fp32 are rounded to a narrower type there and then stored; the task computes "
			"in fp32 "
			"throughout, so its kernels have to, whatever the error is (or verify with --precision tf32)",
			loaded.narrow_line);
	return GRADE_ON;
}

/* One trial on the vm. */
static int trial_run(struct grading *g, const struct attempt *a, struct err *err)
{
	struct attempt_result r;
	int rc = attempt_run(g, &g->runner, a, &r, err);
	if (rc) return rc == ERR_INFRA ? rc : runner_lost(g, rc, err);
	if (!r.result.has_fault && !r.result.has_lineage) {
		attempt_release(&r);
		return err_set(err, ERR_INFRA, "the runner says nothing of where its outputs come from");
	}
	g->v->trials += !a->is_crosswise && !a->trial->is_edge;
	g->vm_ns = MAX(g->vm_ns, r.result.run_ns);
	if (a->want_coverage) guided_note(g, a->trial->variant, &r.result.coverage);
	rc = attempt_judge(g, a, &r);
	if (!rc && !r.result.has_fault) rc = state_compare(g, a, &r);
	g->v->trials_failed += rc == GRADE_END;
	if (!rc && a->want_cost && !g->is_partial) {
		cost_keep(g, g->oracle->cost, &r.result);
		g->v->device.predicted_s = g->v->cost_s;
		g->v->device.eager_predicted_s = g->v->eager_cost_s;
		/* What the first trial's launches did stays for the price at other sizes. */
		if (!g->judged.costs) {
			g->judged = r.result;
			r.result = (struct runner_result){0};
		}
	}
	/* Right or wrong by its values, and the GPU's word is still open. */
	bool is_by_values = rc == GRADE_END && !r.result.has_fault && r.result.lineage == TAPE_LINEAGE_OK;
	attempt_release(&r);
	if (is_by_values && !a->is_crosswise && !g->is_partial && g->on) gpu_second_opinion(g, a->trace, a->trial);
	return rc;
}

int guided_trial_on_vm(struct grading *g, const struct trace *tr, const struct oracle_trial *t,
	const struct runner_trial *aims, struct err *err)
{
	struct attempt a = {.trace = tr,
		.trial = t,
		.want_coverage = true,
		/* Of another configuration nothing is known yet. */
		.want_missed = !g->guided,
		.aims = aims,
		.may_be_given = attempt_given(g->oracle, tr->tape->noutputs)};
	return trial_run(g, &a, err);
}

int guided_trial(struct grading *g, const struct trace *tr, const struct oracle_trial *t,
	const struct runner_trial *aims, struct err *err)
{
	int rc = guided_trial_on_vm(g, tr, t, aims, err);
	return !rc && g->on && !g->is_partial ? gpu_guided(g, tr, t, err) : rc;
}

int sized_trial(struct grading *g, const struct trace *tr, const struct oracle_trial *t, struct err *err)
{
	int order_line = -1, rc = outputs_check(g, tr->tape, t);
	if (!rc) rc = load(g, tr, &order_line, err);
	struct attempt a = {.trace = tr, .trial = t, .may_be_given = attempt_given(g->oracle, tr->tape->noutputs)};
	if (!rc) rc = trial_run(g, &a, err);
	a.is_crosswise = true;
	a.order_line = order_line;
	if (!rc && order_line >= 0) rc = trial_run(g, &a, err);
	if (rc || !g->on) return rc;
	/* Torch's rows have no runner on the GPU. */
	g->v->device.vm_trials += g->is_partial;
	return g->is_partial ? GRADE_ON : gpu_guided(g, tr, t, err);
}

static int variant_run(struct grading *g, const struct trace *tr, int variant, struct err *err)
{
	int rc = GRADE_ON;
	bool first = true;
	int order_line = -1;
	uint64_t given = attempt_given(g->oracle, tr->tape->noutputs);
	for (int i = 0; i < g->oracle->ntrials && !rc; i++) {
		const struct oracle_trial *t = &g->oracle->trials[i];
		if ((!t->counts && !t->is_edge) || t->given_fd < 0 || t->variant != variant) continue;
		if (first) rc = outputs_check(g, tr->tape, t);
		if (first && !rc) rc = load(g, tr, &order_line, err);
		struct attempt in_order = {.trace = tr,
			.trial = t,
			.want_cost = variant == 0 && !t->is_edge && (first || g->cost_varies),
			.want_coverage = !t->is_edge,
			/* What lies between strided elements is nobody's. */
			.want_missed = !t->is_edge && first && strcmp(g->oracle->variants[variant].kind, "strided"),
			.may_be_given = given};
		struct attempt crosswise = {
			.trace = tr, .trial = t, .is_crosswise = true, .order_line = order_line, .may_be_given = given};
		if (!rc) rc = trial_run(g, &in_order, err);
		if (!rc && order_line >= 0 && !t->is_edge) rc = trial_run(g, &crosswise, err);
		first = false;
	}
	if (!rc && !first && !g->is_partial && g->on) rc = gpu_step(g, tr, variant, err);
	return rc;
}

#define OTHER_LEFT_OUT 2   /* other_trace: this variant is none for the candidate */
/* What a failure of another variant's trace means: a candidate that cannot even be traced there
 * works for one size, or one layout of its inputs, alone. Where Triton refuses a block at its
 * sizes, or the candidate refuses them itself, others take their place. */
static int other_trace(struct grading *g, int variant, struct trace *tr, struct err *err)
{
	const struct oracle_variant *v = &g->oracle->variants[variant];
	const char *changed = v->changed;
	g->has_refused_block = false;
	int rc = trace_other_step(g, tr, err);
	bool is_strided = !strcmp(v->kind, "strided"), is_built = !strcmp(v->kind, "built");
	bool is_compile = rc == GRADE_END && !strcmp(g->v->reason, "triton-compile-error");
	if (rc == GRADE_END && !is_strided && (powers_refused(g) || (is_built && is_compile)))
		rc = powers_step(g, variant, tr, &changed, err);
	/* What a constructor takes may have to be what it is for a kernel to compile. */
	if (rc == GRADE_END && is_built && !strcmp(g->v->reason, "triton-compile-error")) return OTHER_LEFT_OUT;
	if (rc == GRADE_END && g->ir && !strcmp(g->v->reason, "other-sizes")) return OTHER_LEFT_OUT;
	if (rc == GRADE_END) {
		char detail[sizeof g->v->detail], reason[sizeof g->v->reason];
		snprintf(detail, sizeof detail, "%s", g->v->detail);
		snprintf(reason, sizeof reason, "%s", g->v->reason);
		return grade_end(g, VERDICT_WRONG, STAGE_CORRECTNESS, "fragile", g->v->line,
			"right for the task's own %s only; with %s: %s: %.700s", is_strided ? "strides" : "sizes",
			is_strided ? "inputs that are not contiguous" : changed, reason, detail);
	}
	if (!rc && (rc = lineage_step(g, tr)) == GRADE_END) {
		size_t used = strlen(g->v->detail);
		snprintf(g->v->detail + used, sizeof g->v->detail - used, " (at other %s: %s)",
			is_strided ? "strides" : "sizes", g->oracle->variants[variant].changed);
	}
	return rc;
}

/* The further traces: the same source, other sizes and strides. The tracer makes them in the
 * oracle's order, so each is asked for even where none of its trials counts. */
static int other_variants(struct grading *g, struct err *err)
{
	int rc = GRADE_ON, last = 0;
	for (int i = 0; i < g->oracle->ntrials; i++)
		if (g->oracle->trials[i].counts) last = MAX(last, g->oracle->trials[i].variant);
	for (int i = 1; i <= last && !rc; i++) {
		struct trace tr = {0};
		times_lap(g, STEP_TRACE);
		rc = other_trace(g, i, &tr, err);
		/* What cannot be judged there is not, and says nothing of the next. */
		if (rc == OTHER_LEFT_OUT) {
			rc = GRADE_ON;
			g->is_left_out[i] = true;
			trace_release(&tr);
			continue;
		}
		times_lap(g, STEP_REBUILD);
		if (!rc) rc = rebuild_step(g, tr.tape, err);
		times_lap(g, STEP_REPLAY);
		if (!rc) rc = variant_run(g, &tr, i, err);
		if (!rc && guided_wants(g, i)) rc = guided_search(g, &tr, i, err);
		if (!rc && (g->emit || g->ir_form)) g->others[i] = tr;
		else trace_release(&tr);
	}
	powers_rest(g);
	return rc;
}

/* The stock tape's own search comes when all else is right: most candidates need none. */
static int guided_stock(struct grading *g, const struct trace *stock, struct err *err)
{
	int order_line;
	if (!guided_wants(g, 0)) return GRADE_ON;
	int rc = load(g, stock, &order_line, err);
	return rc ? rc : guided_search(g, stock, 0, err);
}

/* Narrowing that no text shows: the last digits were the same in nearly all lanes of all trials. */
static int digits_judge(struct grading *g)
{
	int line = guided_lost_line(g);
	if (!line || g->s->tf32 || g->oracle->dtype != DTYPE_F32 || g->oracle->narrows || g->oracle->rounds)
		return GRADE_ON;
	return grade_end(g, VERDICT_WRONG, STAGE_CORRECTNESS, "low-precision", line,
		"candidate.py:%d: the last digits of fp32 values are gone behind this line, in nearly all elements of all "
		"trials, and what is left is stored; the task computes in fp32 throughout, so its kernels have to, whatever "
		"the error is (or verify with --precision tf32)",
		line);
}

/* What is known of the tape before it is replayed, and a runner for it. */
static int replay_begin(struct grading *g, const struct trace *stock, struct err *err)
{
	g->v->stage = STAGE_CORRECTNESS;
	g->v->params_seeded = params_are_seeded(stock->tape, g->oracle);
	snprintf(g->v->sizes, sizeof g->v->sizes, "%s", g->oracle->variants[0].changed);
	int rc = g->has_runner ? 0 : runner_pool_take(g->s->runners, &g->runner, err);
	if (!rc) g->has_runner = true;
	return rc;
}

int screen_step(struct grading *g, const struct trace *stock, struct err *err)
{
	/* The trial that replay_step begins with, so that what is settled here is what it would say. */
	int i = 0, order_line = -1;
	const struct oracle_trial *t = g->oracle->trials;
	while (i < g->oracle->ntrials && (!t[i].counts || t[i].is_edge || t[i].given_fd < 0 || t[i].variant)) i++;
	if (i == g->oracle->ntrials) return GRADE_ON;
	int rc = replay_begin(g, stock, err);
	if (!rc) rc = outputs_check(g, stock->tape, &t[i]);
	if (!rc) rc = load(g, stock, &order_line, err);
	struct attempt a = {
		.trace = stock, .trial = &t[i], .may_be_given = attempt_given(g->oracle, stock->tape->noutputs)};
	if (!rc) rc = trial_run(g, &a, err);
	if (!rc) g->v->trials = 0; /* it is run again, with costs, and counts then */
	return rc;
}

int replay_step(struct grading *g, const struct trace *stock, struct err *err)
{
	int rc = replay_begin(g, stock, err);
	if (rc) return rc;
	rc = variant_run(g, stock, 0, err);
	if (!rc && g->ir != IR_TAPE) rc = other_variants(g, err);
	if (!rc) rc = guided_stock(g, stock, err);
	if (!rc) rc = digits_judge(g);
	guided_report(g);
	if (!rc) g->v->correct = true;
	return rc;
}
