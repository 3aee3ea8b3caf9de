/* price_step: what a candidate does, and costs, at other sizes than those at
 * which its values were judged.
 *
 * Values want small sizes, costs large ones: a kernel that is right at 2^16 elements is timed at
 * 2^22. The tracer, whose tensors have shapes alone, makes a tape at the large sizes; a runner
 * counts a sample of each launch's programs on memory by offset; the reference's operators were
 * logged at those sizes without contents.
 *
 * Nobody compares values there, so the time counts only where the large tape is the judged program
 * at another size (same_program.h): the same rows over the same buffers, kernels whose IR differs
 * in numbers alone, the same instructions reached; outputs that are written to the end, inputs that
 * are read as far as they were, products not fewer than the reference's for no reason. What does
 * not pass is not predicted, which is no fault of the candidate and earns nothing for speed.
 *
 * But for the task's own sizes: those are looked at whether costs are asked for or not,
 * wherever values are judged at smaller ones. What fails there is wrong; what does other work
 * there was never judged. */
#include "verify/gpu_steps.h"
#include "verify/same_program.h"
#include "base/base.h"
#include "base/dtype.h"
#include "runner/runner.h"
#include "tape/tape.h"
#include "vm/vm.h"
#include <math.h>
#include <stdlib.h>

#define NEARLY 0.98        /* of an input's bytes, where all of them were read: granules at edges */
#define PRODUCTS_MIN 0.45  /* of the reference's products: a causal mask halves them */

/* What was found there, by how much it says: nothing that speaks against the candidate; work that
 * no trial judged; a result that is wrong, or none, whatever the values are. */
enum found { FOUND_NOTHING, FOUND_UNKNOWN, FOUND_UNJUDGED, FOUND_WRONG };
struct finding {
	enum found kind;
	enum verdict_class class; /* of what is wrong, with its reason */
	char reason[32];
	int line;
	char text[400];
};

static int found(struct finding *f, enum found kind, const char *reason, int line, const char *fmt, ...)
	__attribute__((format(printf, 5, 6)));
static int found(struct finding *f, enum found kind, const char *reason, int line, const char *fmt, ...)
{
	va_list ap;
	va_start(ap, fmt);
	*f = (struct finding){.kind = kind, .class = VERDICT_WRONG, .line = line};
	snprintf(f->reason, sizeof f->reason, "%s", reason);
	vsnprintf(f->text, sizeof f->text, fmt, ap);
	va_end(ap);
	return 1;
}

/* A verdict about the tracing or the compilation there. What may be for want of time or
 * memory here says nothing. */
static int found_verdict(struct finding *f, const struct verdict *said)
{
	static const char *const telling[] = {"forward-error", "triton-compile-error", "grid-too-large", "no-output",
		"output-not-tensor", "data-dependent", "nondeterministic", "compile-error", "ptxas-error", "out-of-resources",
		"too-many-threads", "cluster-too-large", "grid-not-resident", "no-allocator"};
	bool tells = false;
	for (size_t i = 0; i < ARRAY_LEN(telling); i++) tells |= !strcmp(said->reason, telling[i]);
	/* The host's own tensors are real: there may be no room for them here, where a GPU has it. */
	tells &= !strstr(said->detail, "allocate") && !strstr(said->detail, "MemoryError");
	found(f, tells ? FOUND_WRONG : FOUND_UNKNOWN, said->reason, said->line, "%.60s there: %.180s", said->reason,
		said->detail);
	f->class = said->class;
	return 1;
}

/* ---- as much work as there is ---- */

/* The shapes of what the reference returns there. */
static bool outputs_fit(const struct tape *t, const json_t *outputs)
{
	if (json_array_size(outputs) != (size_t)t->noutputs) return false;
	for (int i = 0; i < t->noutputs; i++) {
		const json_t *shape = json_array_get(json_array_get(outputs, (size_t)i), 1);
		if (json_array_size(shape) != (size_t)t->outputs[i].ndim) return false;
		for (int d = 0; d < t->outputs[i].ndim; d++)
			if (json_integer_value(json_array_get(shape, (size_t)d)) != t->outputs[i].shape[d]) return false;
	}
	return true;
}

static double products_of_reference(const json_t *cost)
{
	double sum = 0;
	const json_t *eager = json_object_get(cost, "eager");
	for (size_t i = 0; i < json_array_size(eager); i++)
		sum += json_number_value(json_object_get(json_array_get(eager, i), "dot_flops"));
	return sum;
}

static double products_of(const struct runner_result *r)
{
	double sum = 0;
	for (int i = 0; i < r->ncosts; i++) sum += (double)r->costs[i].dot_flops;
	return sum;
}

/* Whether a launch reaches nothing there that its judged row did not. A loop's further turn
 * stands for all judged launches of its kernel: the first and the last turn may go other ways. */
static bool is_reached_within(const struct runner_row_cost *there, const struct tape *judged,
	const struct runner_result *small, const struct same_program *same)
{
	int row = same->row[there->row], kernel = judged->rows[row].kernel;
	for (int i = 0; i < small->ncosts; i++) {
		const struct runner_row_cost *c = &small->costs[i];
		bool is_it = c->row == row ||
			(same->has_turns && c->kind == TAPE_LAUNCH && judged->rows[c->row].kernel == kernel);
		if (is_it && vm_reached_within(there->reached, c->reached)) return true;
	}
	return false;
}

/* Where what the launches do there is not what they did, or too little to be all. */
static int work_compare(const struct grading *g, const struct trace *judged, const struct trace *large,
	const struct same_program *same, const struct runner_result *r, struct finding *f)
{
	const struct runner_result *small = &g->judged;
	const json_t *priced = g->oracle->priced;
	for (int i = 0; i < r->ncosts; i++) {
		int line = large->tape->rows[r->costs[i].row].line;
		if (r->costs[i].kind == TAPE_LAUNCH && !is_reached_within(&r->costs[i], judged->tape, small, same))
			return found(f, FOUND_UNJUDGED, "", line,
				"a kernel takes other branches there, compares sizes with another result, or computes places in floats "
				"that do not hold them, unlike where it was judged (candidate.py:%d)",
				line);
	}
	/* Outputs to the last byte; inputs and parameters as far as they were read. */
	for (int i = 0; i < large->tape->noutputs; i++) {
		const struct tape_view *v = &large->tape->outputs[i];
		/* An expanded dimension shows the same elements again. */
		int64_t bytes = (int64_t)dtype_bytes(v->dtype) * (tape_view_elements(v) > 0);
		for (int d = 0; d < v->ndim; d++) bytes *= v->stride[d] ? v->shape[d] : 1;
		int64_t written = v->buffer < r->ntouched ? r->touched[v->buffer].written : 0;
		bool is_given = large->tape->buffers[v->buffer].kind != TAPE_TEMP;
		if (!is_given && written < bytes)
			return found(f, FOUND_WRONG, "output-unwritten", 0,
				"at most %lld of the %lld bytes of output %d are written there", (long long)written, (long long)bytes,
				i);
	}
	for (int b = 0; b < MIN(r->ntouched, large->tape->nbuffers); b++) {
		int was = same->buffer[b];
		if (was < 0 || was >= small->ntouched || (same->has_turns && large->tape->buffers[b].kind == TAPE_TEMP))
			continue;
		double all = (double)judged->tape->buffers[was].bytes, now = (double)large->tape->buffers[b].bytes;
		if ((double)small->touched[was].read >= NEARLY * all && all > 0 && (double)r->touched[b].read < NEARLY * now)
			return found(f, FOUND_UNJUDGED, "", 0,
				"at most %lld of the %.0f bytes of buffer %d are read there, where all were when it was judged",
				(long long)r->touched[b].read, now, b);
	}
	/* Products: in proportion to the reference's. */
	double before = products_of_reference(g->oracle->cost), after = products_of_reference(priced);
	double share = before > 0 ? fmin(products_of(small) / before, 1) : 0;
	if (after > 0 && products_of(r) / after < PRODUCTS_MIN * share)
		return found(f, FOUND_UNJUDGED, "", 0,
			"tl.dot computes %.3g of the reference's products there, judged it was %.3g", products_of(r) / after,
			share);
	return 0;
}

/* ---- the step ---- */

/* The tape at the sizes of the cost, from the tracer that stayed. Sizes that no trial
 * needed are in front of it. */
static int large_trace(struct grading *g, struct trace *out, struct err *err)
{
	int rc = GRADE_ON;
	while (g->next_other < g->oracle->nvariants && rc >= 0) {
		struct trace unused = {0};
		rc = trace_other_step(g, &unused, err);
		trace_release(&unused);
	}
	return rc < 0 ? rc : trace_other_step(g, out, err);
}

static int runner_ask(
	struct grading *g, const struct trace *large, struct runner_result *out, struct finding *f, struct err *err)
{
	struct runner_trial t = {.compiled = g->compiled,
		.gpu = g->s->gpu.name,
		.deadline_ms = g->s->limits.replay_timeout_ms,
		.want_cost = true,
		.seed = g->s->cost_seed};
	uint64_t deadline = deadline_in_ms(t.deadline_ms + ATTEMPT_GRACE_MS);
	int rc = runner_price(&g->runner, large->text.data, large->text.len, &t, deadline, out, err);
	if (!rc) rc = runner_result_check(out, large->tape, err);
	if (!rc) return 0;
	runner_result_release(out);
	/* A second time it is the tape's doing. */
	runner_end(g->s->runners, &g->runner, NULL, 0, NULL);
	g->has_runner = false;
	if (rc != ERR_TIMEOUT && g->attempt == 0) return err_set(err, ERR_INFRA, "the runner was lost while it counted");
	return found(f, FOUND_UNKNOWN, "", 0, "counting what the launches do there %s",
		rc == ERR_TIMEOUT ? "took too long" : "ended the runner");
}

/* The large tape, which is the judged program, is compiled and its launches are counted. */
static int large_count(struct grading *g, const struct trace *stock, const struct trace *large,
	const struct same_program *same, struct finding *f, struct err *err)
{
	struct runner_result r = {0};
	struct verdict said = *g->v, *kept = g->v;
	int rc = 0;
	/* A verdict about the compilation there is a reason here. */
	g->v = &said;
	if (!g->s->skip_compile) rc = compile_step(g, large->tape, err);
	g->v = kept;
	if (rc == GRADE_END) found_verdict(f, &said);
	if (!rc) rc = runner_ask(g, large, &r, f, err);
	/* What is in *f ends this look and not the grading; an error (below 0) ends both. */
	if (rc) return rc < 0 ? rc : GRADE_ON;
	/* A place that every launch there has, whatever is read, is out of bounds for certain; anything
	 * else may be a matter of values, which are nobody's there. */
	bool is_certain = r.has_fault && (!strcmp(r.fault.code, "out-of-bounds") || !strcmp(r.fault.code, "misaligned"));
	/* Rows that nothing orders used other bytes of their buffers where they were judged. */
	if (r.has_fault && !strcmp(r.fault.code, "race"))
		found(f, FOUND_UNJUDGED, "", r.fault.line, "whether rows that nothing orders keep apart there: %.240s",
			r.fault.text);
	else if (r.has_fault)
		found(f, is_certain ? FOUND_WRONG : FOUND_UNKNOWN, r.fault.code, r.fault.line, "%.240s", r.fault.text);
	else if (!work_compare(g, stock, large, same, &r, f) && g->s->wants_price) {
		g->v->cost_s = NAN; /* the judged sizes' */
		cost_keep(g, g->oracle->priced, &r);
	}
	runner_result_release(&r);
	return GRADE_ON;
}

/* With the large tape in hand. GRADE_ON: *f says what was found. */
static int large_look(
	struct grading *g, const struct trace *stock, const struct trace *large, struct finding *f, struct err *err)
{
	struct same_program same = {0};
	/* Its kernels are made again from the candidate's text like those of the judged sizes, and it
	 * has to be the same program. */
	int rc = rebuild_step(g, large->tape, err);
	if (rc) return rc;
	if (!same_program(stock->tape, large->tape, &same)) found(f, FOUND_UNJUDGED, "", same.line, "%s", same.why);
	else if (!outputs_fit(large->tape, json_object_get(g->oracle->priced, "outputs")))
		found(f, FOUND_WRONG, "output-shape", 0, "forward returns other shapes there than the reference");
	else rc = large_count(g, stock, large, &same, f, err);
	same_program_release(&same);
	return rc;
}

/* The values at the task's own sizes, on a GPU, where nothing that was found there speaks
 * against the candidate. */
static int stock_look(struct grading *g, struct stock_job *job, const struct trace *stock, const struct trace *large,
	struct finding *f, struct err *err)
{
	struct verdict said = *g->v, *kept = g->v;
	struct stock_result r = {0};
	g->v = &said;
	int rc = stock_step(g, job, stock, large, &r, err);
	g->v = kept;
	struct verdict_device *d = &kept->device;
	d->stock_trials = said.device.stock_trials;
	d->stock_error_max = said.device.stock_error_max;
	d->seconds = said.device.seconds;
	snprintf(d->stock_why, sizeof d->stock_why, "%.150s", r.why[0] ? r.why : r.skipped);
	text_make_printable(d->stock_why);
	if (rc != GRADE_END) return rc;
	found(f, FOUND_WRONG, said.reason, said.line, "%.390s", said.detail);
	f->class = said.class;
	return GRADE_ON;
}

/* What was found at the sizes that the task itself has settles the verdict; at others it
 * only leaves no price. */
static int finding_end(struct grading *g, const struct finding *f)
{
	if (f->kind != FOUND_NOTHING && g->s->wants_price) cost_none(g, f->text);
	if (f->kind < FOUND_UNJUDGED || g->oracle->priced_at[0]) return GRADE_ON;
	if (f->kind == FOUND_UNJUDGED)
		return grade_end(g, VERDICT_INVALID, STAGE_CORRECTNESS, "unjudged-size", f->line,
			"%d %s (%s), but %s nothing of the task's own sizes: %s", g->v->trials,
			plural(g->v->trials, "trial agrees", "trials agree"), g->v->sizes,
			plural(g->v->trials, "it says", "they say"), f->text);
	return grade_end(g, f->class, STAGE_CORRECTNESS, f->reason, f->line, "at the task's own sizes (judged at %s): %s",
		g->v->sizes, f->text);
}

int price_step(struct grading *g, const struct trace *stock, struct err *err)
{
	const json_t *priced = g->oracle->priced;
	struct verdict *v = g->v, said = *v;
	if (!priced) return GRADE_ON;
	/* Which sizes the price is of. The judged ones have theirs from the trials already. */
	const char *at = g->oracle->priced_at[0] ? g->oracle->priced_at : "stock", *why = NULL;
	bool is_same = json_is_true(json_object_get(priced, "same"));
	if (g->s->wants_price) snprintf(v->cost_size, sizeof v->cost_size, "%s", is_same && v->sizes[0] ? v->sizes : at);
	if (is_same) return GRADE_ON;
	struct finding f = {0};
	if ((why = json_string_value(json_object_get(priced, "why")))) {
		if (g->on) snprintf(v->device.stock_why, sizeof v->device.stock_why, "%.150s", why);
		found(&f, FOUND_UNKNOWN, "", 0, "%.240s", why);
		return finding_end(g, &f);
	}
	if (g->ir == IR_TAPE) {
		found(&f, FOUND_UNKNOWN, "", 0, "an answer in IR has the sizes of its tape alone");
		return finding_end(g, &f);
	}
	struct trace large = {0};
	struct stock_job *job = NULL;
	int rc = stock_is_due(g) ? stock_begin(g, &job, err) : 0;
	if (rc) return rc;
	json_t *compiled = json_incref(g->compiled);
	/* What goes wrong in the tracer there is no verdict of its own. */
	g->v = &said;
	rc = large_trace(g, &large, err);
	g->v = v;
	if (rc == GRADE_END) found_verdict(&f, &said);
	int64_t compile_ms = g->compile_ms;
	if (rc == GRADE_ON) rc = large_look(g, stock, &large, &f, err);
	else if (rc > 0) rc = GRADE_ON;
	if (!rc && job && large.tape && f.kind <= FOUND_UNKNOWN) rc = stock_look(g, job, stock, &large, &f, err);
	stock_end(g, job);
	/* The judged sizes' kernels are the verdict's. */
	json_decref(g->compiled);
	g->compiled = compiled;
	g->compile_ms = compile_ms;
	trace_release(&large);
	return rc == GRADE_ON ? finding_end(g, &f) : rc;
}
