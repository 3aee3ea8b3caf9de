/* replay_step: correctness. A runner replays the tape for each trial; what it wrote is compared
 * here with what the oracle computed.
 *
 * Stock sizes come first. Only a candidate that passes those is traced a second time for the other
 * sizes, so that wrong candidates stay cheap. The first failing trial settles the verdict, and
 * which one it was gives the reason: the task's own inputs (mismatch), other parameters with the
 * same inputs (stale-params), anything hidden (fragile).
 *
 * A kernel that does something whose order Triton leaves open (a reduction by a function that is no
 * known operation, tl.cat, ...) runs each trial twice, the second time in another order
 * (docs/vm.md): what is right in one order alone is right by luck, for a GPU has its own. */
#include "verify/verify_internal.h"
#include "base/base.h"
#include "base/dtype.h"
#include "cost/cost.h"
#include "runner/runner.h"
#include "tape/tape.h"
#include "verify/guided.h"
#include <errno.h>
#include <math.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#define GRACE_MS 3000   /* from the vm's own deadline to ours */

/* Fault codes of the runner, and what they mean for a verdict. */
static const struct {
	const char *code;   /* the runner's */
	const char *reason; /* the verdict's */
	enum verdict_class class;
	enum verdict_stage stage;
} FAULTS[] = {
	{"out-of-bounds", NULL, VERDICT_WRONG, STAGE_CORRECTNESS},
	{"misaligned", NULL, VERDICT_WRONG, STAGE_CORRECTNESS},
	{"uninitialised", NULL, VERDICT_WRONG, STAGE_CORRECTNESS},
	{"division-by-zero", NULL, VERDICT_WRONG, STAGE_CORRECTNESS},
	{"assert", NULL, VERDICT_WRONG, STAGE_CORRECTNESS},
	{"input-modified", NULL, VERDICT_WRONG, STAGE_CORRECTNESS},
	{"param-modified", NULL, VERDICT_WRONG, STAGE_CORRECTNESS},
	{"timeout", "timeout-kernel", VERDICT_WRONG, STAGE_CORRECTNESS},
	{"race", NULL, VERDICT_WRONG, STAGE_CORRECTNESS},
	{"needs-co-residency", NULL, VERDICT_INVALID, STAGE_CORRECTNESS},
	{"memory", NULL, VERDICT_INVALID, STAGE_CORRECTNESS},
	{"unsupported", "unsupported-op", VERDICT_INVALID, STAGE_CORRECTNESS},
	{"unsupported-op", NULL, VERDICT_INVALID, STAGE_CORRECTNESS},
	{"argument", "bad-argument", VERDICT_INVALID, STAGE_CORRECTNESS},
	{"bad-ir", NULL, VERDICT_INVALID, STAGE_CORRECTNESS},
	{"bad-tape", NULL, VERDICT_INVALID, STAGE_TRACE},
	{"library-row", NULL, VERDICT_PARTIAL, STAGE_LINEAGE},
};

/* What a failing trial tells, given that all before it passed. */
const char *attempt_reason(const struct oracle_trial *t, const char *plain)
{
	if (t->is_guided) return plain;
	if (!t->is_stock) return "fragile";
	return t->is_random_params && t->nparams ? "stale-params" : plain;
}

void attempt_text(const struct grading *g, const struct oracle_trial *t, char *text, size_t len)
{
	const struct oracle_variant *v = oracle_variant_of(g->oracle, t);
	snprintf(text, len, "%s inputs%s%s%s%s", t->distribution,
		strcmp(v->kind, "strided") ? "" : " that are not contiguous",
		t->is_random_params && t->nparams ? " with other parameter values" : "", v->changed[0] ? " at sizes " : "",
		v->changed);
}

static int fault_end(struct grading *g, const struct runner_fault *f, const struct oracle_trial *t)
{
	char trial[400] = "";
	bool hidden = t && !t->is_stock;
	if (hidden) attempt_text(g, t, trial, sizeof trial);
	for (size_t i = 0; i < ARRAY_LEN(FAULTS); i++) {
		if (strcmp(FAULTS[i].code, f->code)) continue;
		const char *reason = FAULTS[i].reason ? FAULTS[i].reason : FAULTS[i].code;
		bool is_late = hidden && FAULTS[i].class == VERDICT_WRONG;
		return grade_end(g, FAULTS[i].class, FAULTS[i].stage, is_late && !t->is_guided ? "fragile" : reason, f->line,
			"%s%s%s%.800s", is_late ? "only for hidden trials: " : "", trial, hidden ? ": " : "", f->text);
	}
	return grade_end(g, VERDICT_INVALID, STAGE_CORRECTNESS, "replay-crash", f->line,
		"the replay of this tape ends with %.60s: %.600s", f->code, f->text);
}

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

static void shape_text(int ndim, const int64_t *shape, char *text, size_t len)
{
	size_t used = (size_t)snprintf(text, len, "[");
	for (int i = 0; i < ndim && used < len; i++)
		used += (size_t)snprintf(text + used, len - used, "%s%lld", i ? ", " : "", (long long)shape[i]);
	if (used < len) snprintf(text + used, len - used, "]");
}

/* Number, dtypes and shapes of what forward returned. */
int outputs_check(struct grading *g, const struct tape *t, const struct oracle_trial *trial)
{
	const char *hidden = trial->is_stock ? "" : " at other sizes";
	if (t->noutputs != trial->noutputs)
		return grade_end(g, VERDICT_WRONG, STAGE_CORRECTNESS, attempt_reason(trial, "output-count"), 0,
			"forward returned %d tensors%s, the reference returns %d", t->noutputs, hidden, trial->noutputs);
	/* One tensor is no tuple of one. An answer in IR has no such word. */
	bool is_tuple = json_is_true(json_object_get(t->json, "tuple"));
	const json_t *wanted = json_object_get(g->oracle->variants[0].job, "tuple");
	if (!g->ir && wanted && is_tuple != json_is_true(wanted))
		return grade_end(g, VERDICT_WRONG, STAGE_CORRECTNESS, attempt_reason(trial, "output-count"), 0,
			"forward returned %s%s, the reference returns %s", is_tuple ? "several values" : "a tensor", hidden,
			is_tuple ? "a tensor" : "several values");
	/* Dicts, and what is beside the tensors. */
	const json_t *like = json_object_get(oracle_variant_of(g->oracle, trial)->job, "form");
	const char *form = json_string_value(json_object_get(t->json, "form")), *asked = json_string_value(like);
	if (!g->ir && like && strcmp(form ? form : "", asked ? asked : ""))
		return grade_end(g, VERDICT_WRONG, STAGE_CORRECTNESS, attempt_reason(trial, "output-form"), 0,
			"forward returned %.200s%s, the reference returns %.200s (t: a tensor)", form ? form : "tensors alone",
			hidden, asked ? asked : "tensors alone");
	for (int i = 0; i < t->noutputs; i++) {
		const struct tape_view *found = &t->outputs[i];
		const struct compare_output *want = &trial->outputs[i];
		char a[200], b[200];
		shape_text(found->ndim, found->shape, a, sizeof a);
		shape_text(want->ndim, want->shape, b, sizeof b);
		if (strcmp(a, b))
			return grade_end(g, VERDICT_WRONG, STAGE_CORRECTNESS, attempt_reason(trial, "output-shape"), 0,
				"output %d has shape %s%s, the reference's has %s", i, a, hidden, b);
		if (found->dtype != want->dtype)
			return grade_end(g, VERDICT_WRONG, STAGE_CORRECTNESS, attempt_reason(trial, "output-dtype"), 0,
				"output %d is %s%s, the reference's is %s", i, dtype_name(found->dtype), hidden,
				dtype_name(want->dtype));
	}
	return GRADE_ON;
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
	uint64_t deadline = clock_ns() + (uint64_t)(g->s->limits.replay_timeout_ms + GRACE_MS) * 1000000u;
	struct runner_load l = {.tape = t->text.data, .len = t->text.len, .binaries_fd = -1};
	*loaded = (struct runner_loaded){-1, -1, -1, -1, -1};
	int rc = runner_load(&g->runner, &l, deadline, loaded, &fault, err);
	if (rc == ERR_MISMATCH) return fault_end(g, &fault, NULL);
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
	if (loaded.tf32_line >= 0 && !g->s->tf32 && g->oracle->dtype == DTYPE_F32)
		return grade_end(g, VERDICT_WRONG, STAGE_CORRECTNESS, "tf32", loaded.tf32_line,
			"candidate.py:%d: tl.dot on fp32 operands uses tf32 (11 bits of mantissa), which is its default; "
			"pass input_precision=\"ieee\", or verify with --precision tf32",
			loaded.tf32_line);
	if (loaded.narrow_line >= 0 && !g->s->tf32 && g->oracle->dtype == DTYPE_F32 && !g->oracle->narrows)
		return grade_end(g, VERDICT_WRONG, STAGE_CORRECTNESS, "low-precision", loaded.narrow_line,
			"candidate.py:%d: values of fp32 are rounded to a narrower type there and then stored; the task computes "
			"in fp32 "
			"throughout, so its kernels have to, whatever the error is (or verify with --precision tf32)",
			loaded.narrow_line);
	return GRADE_ON;
}

void cost_keep(struct grading *g, const json_t *reference, const struct runner_result *r)
{
	struct verdict *v = g->v;
	enum cost_dot dot = cost_dot_of(g->oracle->dtype, g->s->tf32);
	/* Of several trials the dearest counts. */
	double error, cost = cost_candidate_s(r->costs, r->ncosts, g->compiled, &g->s->gpu, &error);
	if (cost <= v->cost_s) return;
	v->cost_s = cost;
	v->cost_error = error;
	snprintf(v->limit, sizeof v->limit, "%s", cost_candidate_limit(r->costs, r->ncosts, g->compiled, &g->s->gpu));
	cost_reference_s(reference, dot, &g->s->gpu, &v->eager_cost_s, &v->fused_cost_s);
	v->speedup_eager = v->cost_s > 0 ? v->eager_cost_s / v->cost_s : NAN;
	v->speedup_fused = v->cost_s > 0 ? v->fused_cost_s / v->cost_s : NAN;
	/* Totals of that trial. */
	v->launches = v->nlines = 0;
	v->programs = v->bytes = v->sectors = v->flops = 0;
	for (int i = 0; i < r->ncosts; i++) {
		v->launches += r->costs[i].kind == TAPE_LAUNCH;
		v->programs += r->costs[i].programs;
		v->bytes += r->costs[i].bytes;
		v->sectors += r->costs[i].sectors;
		v->flops += r->costs[i].flops + r->costs[i].dot_flops;
	}
	/* The dearest lines by bytes, then in line order as they came. Lines that move and compute
	 * nothing (indices, masks) say nothing. */
	for (int i = 0; i < r->nlines; i++) {
		if (!r->lines[i].bytes && !r->lines[i].sectors && !r->lines[i].flops) continue;
		struct verdict_line line = {r->lines[i].line, r->lines[i].bytes, r->lines[i].sectors, r->lines[i].flops};
		int at = v->nlines;
		if (at == VERDICT_LINES_MAX)
			for (at = 0; at < VERDICT_LINES_MAX && v->lines[at].bytes >= line.bytes; at++) continue;
		if (at < VERDICT_LINES_MAX) v->lines[at] = line;
		v->nlines = MAX(v->nlines, MIN(at + 1, VERDICT_LINES_MAX));
	}
}

/* Compares all outputs of one trial; settles the verdict at the first that differs. */
static int outputs_compare(struct grading *g, const struct attempt *a, const uint8_t *outputs, const int64_t *offset)
{
	const struct oracle_trial *t = a->trial;
	struct verdict *v = g->v;
	bool kernelbench = true;
	int rc = GRADE_ON;
	for (int i = 0; i < t->noutputs; i++) {
		struct compare_result r;
		compare_run(&t->outputs[i], &t->bounds[i], outputs + offset[i], &r);
		kernelbench &= r.kernelbench;
		/* The comparison is negated because error_max is NaN before the first output. */
		if (!(v->error_max >= r.error_max)) {
			v->error_max = r.error_max;
			v->tolerance = t->bounds[i].tolerance;
		}
		/* Errors and KernelBench's check go on; the first difference alone is the verdict. */
		if (r.is_equal || rc) continue;
		char trial[400];
		attempt_text(g, t, trial, sizeof trial);
		/* The first order gave the right result, so the order makes the difference. */
		if (a->is_crosswise)
			rc = grade_end(g, VERDICT_WRONG, STAGE_CORRECTNESS, "order-dependent", a->order_line,
				"candidate.py:%d: the result depends on an order that a GPU "
				"chooses for itself. The function of tl.reduce must be commutative and associative; what tl.cat, a "
				"reshape with can_reorder or packed inline assembly put where is open, and so is which program comes "
				"first at an atomic. Output %d for %s: %s",
				a->order_line, i, trial, r.text);
		else
			rc = grade_end(g, VERDICT_WRONG, STAGE_CORRECTNESS, attempt_reason(t, "mismatch"), 0,
				"output %d for %s: %s", i, trial, r.text);
	}
	/* KernelBench checks stock inputs with the seed's own parameters; one failure stays. */
	if (!a->is_crosswise && t->is_stock && !(t->is_random_params && t->nparams))
		v->kernelbench = v->kernelbench != 0 && kernelbench;
	return rc;
}

/* What the candidate does with NaN, infinities and denormals is said and never judged: Triton
 * promises little about them. */
static int edge_note(struct grading *g, const struct oracle_trial *t, const struct runner_result *r,
	const uint8_t *outputs, const int64_t *offset)
{
	struct verdict *v = g->v;
	snprintf(v->edge, sizeof v->edge, "as the reference");
	if (r->has_fault) snprintf(v->edge, sizeof v->edge, "%.40s: %.190s", r->fault.code, r->fault.text);
	for (int i = 0; i < t->noutputs && !r->has_fault; i++) {
		struct compare_result c;
		compare_run(&t->outputs[i], &t->bounds[i], outputs + offset[i], &c);
		if (c.is_equal) continue;
		snprintf(v->edge, sizeof v->edge, "output %d: %.230s", i, c.text);
		break;
	}
	return GRADE_ON;
}

static int unwritten_end(struct grading *g, const struct oracle_trial *t, const struct tape_place *place,
	const char *reason, const char *trial)
{
	/* The place is the runner's word, and only a text is made of it. */
	int output = place->output >= 0 && place->output < t->noutputs ? place->output : 0;
	const struct compare_output *o = &t->outputs[output];
	char first[160] = "an unknown place";
	if (place->first < compare_elements(o)) compare_index_text(o, place->first, first, sizeof first);
	return grade_end(g, VERDICT_WRONG, STAGE_CORRECTNESS, t->is_stock || t->is_guided ? reason : "fragile", 0,
		"%lld of the %lld elements of output %d were never written, the first at %s%s%s", (long long)place->unwritten,
		(long long)compare_elements(o), output, first, t->is_stock ? "" : ": ", t->is_stock ? "" : trial);
}

static int result_judge(struct grading *g, const struct attempt *a, const struct runner_result *r,
	const uint8_t *outputs, const int64_t *offset, struct err *err)
{
	const struct oracle_trial *t = a->trial;
	if (t->is_edge) return edge_note(g, t, r, outputs, offset);
	if (r->has_fault) return fault_end(g, &r->fault, t);
	const char *reason = tape_lineage_reason(r->lineage);
	char trial[400];
	attempt_text(g, t, trial, sizeof trial);
	if (r->lineage == TAPE_LINEAGE_OUTPUT_UNWRITTEN) return unwritten_end(g, t, &r->place, reason, trial);
	int rc = outputs_compare(g, a, outputs, offset);
	if (r->lineage == TAPE_LINEAGE_LIBRARY && !g->is_partial) {
		g->is_partial = true;
		snprintf(g->library_op, sizeof g->library_op,
			"cast to output %d (float to integer or bool, or straight from what was given)", r->place.output);
	}
	if (rc || r->lineage == TAPE_LINEAGE_OK || r->lineage == TAPE_LINEAGE_LIBRARY) return rc;
	/* On hidden inputs an honest kernel may have nothing to store (a histogram that none is in the
	 * range of): what was filled is right then. */
	if (!t->is_stock) return GRADE_ON;
	return grade_end(g, VERDICT_CHEAT, STAGE_LINEAGE, reason, 0,
		"output %d: its bytes come from inputs, constants or fills, not from a launched kernel", r->place.output);
}

void params_stand_in(const struct tape *t, const json_t *state, const struct runner_given *params, int nparams, int *of)
{
	bool *is_taken = xcalloc((size_t)nparams + 1, sizeof *is_taken);
	for (int b = 0; b < t->nbuffers; b++)
		for (int p = 0; p < nparams && t->buffers[b].kind == TAPE_PARAM; p++)
			is_taken[p] |= !strcmp(t->buffers[b].name, params[p].name);
	for (int b = 0; b < t->nbuffers; b++) {
		const struct tape_buffer *tb = &t->buffers[b];
		of[b] = -1;
		if (tb->kind != TAPE_CONST || !tb->name || !tb->name[0]) continue;
		struct sha256_hex hash = hash_bytes(tb->data, (size_t)tb->bytes);
		for (int p = 0; p < nparams && of[b] < 0; p++) {
			const char *want = json_string_value(json_object_get(json_object_get(state, params[p].name), "sha256"));
			if (is_taken[p] || params[p].bytes != tb->bytes || !want || strcmp(want, hash.text)) continue;
			is_taken[p] = true;
			of[b] = p;
		}
	}
	free(is_taken);
}

/* Returns how many names of constants that stand for a parameter were added to `params`. */
static int params_pair(
	const struct tape *t, const struct oracle_data *d, const struct oracle_trial *trial, struct runner_given *params)
{
	int *of = xcalloc((size_t)t->nbuffers + 1, sizeof *of), added = 0;
	params_stand_in(t, oracle_variant_of(d, trial)->state, trial->params, trial->nparams, of);
	for (int b = 0; b < t->nbuffers; b++) {
		if (of[b] < 0) continue;
		params[added] = trial->params[of[b]];
		params[added].name = t->buffers[b].name;
		params[added++].for_const = true;
	}
	free(of);
	return added;
}

static bool is_given(const struct oracle_trial *t, const struct runner_given *g, const void *bytes, size_t size)
{
	return (size_t)g->bytes == size && t->given && !memcmp(t->given + g->offset, bytes, size);
}

static size_t output_bytes(const struct oracle_trial *t, int output)
{
	return (size_t)compare_elements(&t->outputs[output]) * dtype_bytes(t->outputs[output].dtype);
}

/* Whether something that the trials are given holds the reference's output in all of them: input or
 * parameter number k, or, for k = -1, what its output was in the first trial of the same sizes. */
static bool is_always_given(const struct oracle_data *d, int output, bool is_param, int k)
{
	const struct oracle_trial *first[ORACLE_VARIANTS_MAX] = {0};
	bool was_compared = false;
	for (int i = 0; i < d->ntrials; i++) {
		const struct oracle_trial *t = &d->trials[i];
		if (!t->counts) continue;
		if (output >= t->noutputs || !t->outputs[output].plain || !output_bytes(t, output)) return false;
		const struct oracle_trial *f = first[t->variant];
		const void *plain = t->outputs[output].plain;
		size_t size = output_bytes(t, output);
		bool same = k < 0 ? !f || (output_bytes(f, output) == size && !memcmp(f->outputs[output].plain, plain, size))
			: is_param    ? k < t->nparams && is_given(t, &t->params[k], plain, size)
						  : k < t->ninputs && is_given(t, &t->inputs[k], plain, size);
		if (!same) return false;
		was_compared |= f != NULL;
		first[t->variant] = f ? f : t;
	}
	return was_compared;
}

/* The outputs that the reference passes through or makes of constants: it asks nobody to compute
 * them, and a candidate that does the same is as honest. */
static uint64_t outputs_given(const struct oracle_data *d, int noutputs)
{
	uint64_t mask = 0;
	for (int i = 0; i < noutputs; i++) {
		bool found = is_always_given(d, i, false, -1);
		for (int k = 0; k < d->trials[0].ninputs && !found; k++) found = is_always_given(d, i, false, k);
		for (int k = 0; k < d->trials[0].nparams && !found; k++) found = is_always_given(d, i, true, k);
		if (found) mask |= (uint64_t)1 << i;
	}
	return mask;
}

/* Nothing that is given is protected: inputs as a copy, parameters in place. */
static struct runner_given *given_free(struct runner_trial *t)
{
	struct runner_given *inputs = xcalloc((size_t)t->ninputs + 1, sizeof *inputs);
	if (t->ninputs) memcpy(inputs, t->inputs, (size_t)t->ninputs * sizeof *inputs);
	for (int i = 0; i < t->ninputs; i++) inputs[i].may_change = true;
	for (int i = 0; i < t->nparams; i++) t->params[i].may_change = true;
	return inputs;
}

/* One replay of one trial by one runner. The outputs' memory is made here, sealed in size, and read
 * only after the runner answered. */
int attempt_run(
	struct grading *g, struct runner *runner, const struct attempt *a, struct attempt_result *out, struct err *err)
{
	const struct trace *tr = a->trace;
	const struct oracle_trial *t = a->trial;
	struct runner_trial rt = {.ninputs = t->ninputs,
		.inputs = t->inputs,
		.want_cost = a->want_cost,
		.crosswise = a->is_crosswise,
		.is_unchecked = a->is_unchecked,
		.is_overlapped = a->is_overlapped,
		.may_be_given = a->may_be_given,
		.want_coverage = a->want_coverage,
		.is_timed = a->asker != NULL,
		.deadline_ms = a->deadline_ms ? a->deadline_ms : g->s->limits.replay_timeout_ms,
		.compiled = a->want_cost ? g->compiled : NULL,
		.gpu = g->s->gpu.name};
	if (a->aims) {
		rt.naims = a->aims->naims;
		rt.aim_replays = a->aims->aim_replays;
		rt.aim_programs = a->aims->aim_programs;
		memcpy(rt.aims, a->aims->aims, sizeof rt.aims);
		rt.want_turned = a->aims->want_turned;
	}
	*out = (struct attempt_result){.bytes = 64};
	/* The reference's parameters, and those that the candidate calls otherwise. */
	rt.params = xcalloc((size_t)(t->nparams + tr->tape->nbuffers) + 1, sizeof *rt.params);
	memcpy(rt.params, t->params, (size_t)t->nparams * sizeof *rt.params);
	rt.nparams = t->nparams + params_pair(tr->tape, g->oracle, t, rt.params + t->nparams);
	/* Where each output is to lie, and behind them the buffers that are looked at. */
	for (int i = 0; i < tr->tape->noutputs; i++) {
		rt.output_offset[i] = out->offset[i] = out->bytes;
		out->bytes += runner_output_bytes(&tr->tape->outputs[i]);
	}
	out->state = state_ask(t, rt.params, rt.nparams, &out->bytes);
	int fd = memfd_make("outputs", (size_t)out->bytes, err);
	if (fd < 0) {
		free(rt.params);
		attempt_release(out);
		return err_set(err, ERR_INFRA, "no memory for %lld bytes of outputs", (long long)out->bytes);
	}

	/* An unchecked run may write where it likes; the answer has GRACE_MS to arrive. */
	if (a->is_unchecked) rt.inputs = given_free(&rt);
	uint64_t deadline = clock_ns() + (uint64_t)(rt.deadline_ms + GRACE_MS) * 1000000u;
	struct runner_data data = {t->given_fd, fd, runner == &g->runner && g->library ? &g->computes : NULL, a->asker};
	int rc = runner_try(runner, &rt, tr->tape->noutputs, &data, deadline, &out->result, err);
	if (!rc) rc = runner_result_check(&out->result, tr->tape, err);
	if (a->is_unchecked) free(rt.inputs);
	free(rt.params);
	/* The runner has answered: what it wrote is mapped for reading. */
	if (!rc) {
		void *outputs = mmap(NULL, (size_t)out->bytes, PROT_READ, MAP_SHARED, fd, 0);
		if (outputs == MAP_FAILED)
			rc = err_set(err, ERR_INFRA, "mapping %lld bytes of outputs: %s", (long long)out->bytes, strerror(errno));
		else out->outputs = outputs;
	}
	close(fd);
	if (rc) attempt_release(out);
	return rc;
}

void attempt_release(struct attempt_result *r)
{
	if (r->outputs) munmap((void *)(uintptr_t)r->outputs, (size_t)r->bytes);
	runner_result_release(&r->result);
	free(r->state);
	*r = (struct attempt_result){0};
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
	rc = result_judge(g, a, &r.result, r.outputs, r.offset, err);
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

int guided_trial(struct grading *g, const struct trace *tr, const struct oracle_trial *t,
	const struct runner_trial *aims, struct err *err)
{
	struct attempt a = {.trace = tr,
		.trial = t,
		.want_coverage = true,
		.aims = aims,
		.may_be_given = outputs_given(g->oracle, tr->tape->noutputs)};
	/* The vm alone can turn a gate; on the GPU that trial would be one that it had. */
	bool is_turned = aims && aims->want_turned;
	int rc = trial_run(g, &a, err);
	return !rc && g->on && !g->is_partial && !is_turned ? gpu_guided(g, tr, t, err) : rc;
}

int sized_trial(struct grading *g, const struct trace *tr, const struct oracle_trial *t, struct err *err)
{
	int order_line = -1, rc = outputs_check(g, tr->tape, t);
	if (!rc) rc = load(g, tr, &order_line, err);
	struct attempt a = {.trace = tr, .trial = t, .may_be_given = outputs_given(g->oracle, tr->tape->noutputs)};
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
	uint64_t given = outputs_given(g->oracle, tr->tape->noutputs);
	for (int i = 0; i < g->oracle->ntrials && !rc; i++) {
		const struct oracle_trial *t = &g->oracle->trials[i];
		if ((!t->counts && !t->is_edge) || t->given_fd < 0 || t->variant != variant) continue;
		if (first) rc = outputs_check(g, tr->tape, t);
		if (first && !rc) rc = load(g, tr, &order_line, err);
		struct attempt in_order = {.trace = tr,
			.trial = t,
			.want_cost = variant == 0 && !t->is_edge && (first || g->cost_varies),
			.want_coverage = !t->is_edge,
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

/* Some parameter of the candidate has no counterpart and keeps its own values. */
static bool params_are_seeded(const struct tape *t, const struct oracle_data *d)
{
	const struct oracle_trial *trial = &d->trials[0];
	int named = 0;
	for (int b = 0; b < t->nbuffers; b++)
		named += t->buffers[b].kind == TAPE_CONST && t->buffers[b].name && t->buffers[b].name[0];
	struct runner_given *pairs = xcalloc((size_t)named + 1, sizeof *pairs);
	int paired = params_pair(t, d, trial, pairs);
	free(pairs);
	return paired < named;
}

#define OTHER_LEFT_OUT 2   /* other_trace: this variant is none for the candidate */
/* What a failure of another variant's trace means: a candidate that cannot even be traced there
 * works for one size, or one layout of its inputs, alone. */
static int other_trace(struct grading *g, const struct oracle_variant *variant, struct trace *tr, struct err *err)
{
	int rc = trace_other_step(g, tr, err);
	bool is_strided = !strcmp(variant->kind, "strided");
	/* Triton wants powers of two in many places, and what a constructor takes often is one. */
	if (rc == GRADE_END && !strcmp(variant->kind, "built") && !strcmp(g->v->reason, "triton-compile-error"))
		return OTHER_LEFT_OUT;
	if (rc == GRADE_END && g->ir && !strcmp(g->v->reason, "other-sizes")) return OTHER_LEFT_OUT;
	if (rc == GRADE_END) {
		char detail[sizeof g->v->detail], reason[sizeof g->v->reason];
		snprintf(detail, sizeof detail, "%s", g->v->detail);
		snprintf(reason, sizeof reason, "%s", g->v->reason);
		return grade_end(g, VERDICT_WRONG, STAGE_CORRECTNESS, "fragile", g->v->line,
			"right for the task's own %s only; with %s: %s: %.700s", is_strided ? "strides" : "sizes",
			is_strided ? "inputs that are not contiguous" : variant->changed, reason, detail);
	}
	if (!rc && (rc = lineage_step(g, tr->tape)) == GRADE_END) {
		size_t used = strlen(g->v->detail);
		snprintf(g->v->detail + used, sizeof g->v->detail - used, " (at other %s: %s)",
			is_strided ? "strides" : "sizes", variant->changed);
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
		rc = other_trace(g, &g->oracle->variants[i], &tr, err);
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
		.trace = stock, .trial = &t[i], .may_be_given = outputs_given(g->oracle, stock->tape->noutputs)};
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
