/* grade: the sequence of one verdict. Each step either passes or settles the verdict with a reason
 * code; docs/verifier.md lists them.
 *
 * The order is chosen so that the cheap things come first and what costs most is spent on
 * candidates that are right so far:
 *
 *   grade_text    size, UTF-8, syntax, a jitted function that is used: no process is needed
 *   steps         the task's own data (oracle), the candidate's tape (trace), what the tape alone
 *                 shows (lineage), whether its IR is the source's (rebuild), machine code
 *                 (compile), values on stock and hidden inputs and at other sizes (replay), other
 *                 configurations and sizes that the text names (config, sized), costs at the task's
 *                 own sizes (price), a second trace in another process (again), and on a GPU the
 *                 choice of an autotuner (tune), times, and the tools that watch a run
 *   grade         what stands beside the verdict: a run of the file itself, KernelBench's check */
#include "verify/gpu_steps.h"
#include "base/base.h"
#include "lint/lint.h"
#include "prove/prove.h"
#include "runner/runner.h"
#include "sandbox/sandbox.h"
#include "tape/tape.h"
#include "task/task.h"
#include "verify/guided.h"
#include <ctype.h>
#include <math.h>
#include <stdlib.h>

#define ATTEMPTS 2

int grade_end(struct grading *g, enum verdict_class class, enum verdict_stage stage, const char *reason, int line,
	const char *fmt, ...)
{
	struct verdict *v = g->v;
	v->class = class;
	v->stage = stage;
	v->line = MAX(line, 0);
	snprintf(v->reason, sizeof v->reason, "%s", reason);
	va_list ap;
	va_start(ap, fmt);
	vsnprintf(v->detail, sizeof v->detail, fmt, ap);
	va_end(ap);
	/* Both may hold a candidate's words, and people read them in terminals, logs and reports. */
	text_make_printable(v->reason);
	text_make_printable(v->detail);
	return GRADE_END;
}

void trace_release(struct trace *t)
{
	str_release(&t->text);
	tape_free(t->tape);
	json_decref(t->modes);
	*t = (struct trace){0};
}

/* Where a line ends, as Python counts them. */
static size_t line_end(const char *s, size_t len, size_t at)
{
	while (at < len && s[at] != '\n' && s[at] != '\r') at++;
	return at;
}

/* The name of the encoding that a comment in the first two lines declares, as Python reads it from
 * a file (PEP 263); empty without. */
static struct slice encoding_of(const char *s, size_t len)
{
	for (size_t line = 0, at = 0; line < 2 && at < len; line++) {
		size_t end = line_end(s, len, at), i = at;
		while (i < end && (s[i] == ' ' || s[i] == '\t' || s[i] == '\f')) i++;
		if (i < end && s[i] != '#') break;
		for (; i + 7 <= end; i++) {
			if (memcmp(s + i, "coding", 6) || (s[i + 6] != ':' && s[i + 6] != '=')) continue;
			size_t from = i + 7, to;
			while (from < end && (s[from] == ' ' || s[from] == '\t')) from++;
			for (to = from; to < end && (isalnum((unsigned char)s[to]) || strchr("-_.", s[to]));) to++;
			if (to > from) return (struct slice){s + from, to - from};
		}
		at = end + 1 + (end + 1 < len && s[end] == '\r' && s[end + 1] == '\n');
	}
	return (struct slice){s, 0};
}

/* Whether a text means the same in an encoding as in UTF-8. Elsewhere a comment may hold code. */
static bool is_same_text(struct slice name, const char *s, size_t len)
{
	static const char *const OF_ASCII[] = {
		"ascii", "us-ascii", "latin-1", "latin1", "iso-8859-1", "iso8859-1", "cp1252"};
	char word[16] = "";
	bool is_ascii = true;
	if (!name.len) return true;
	for (size_t i = 0; i < name.len && i + 1 < sizeof word; i++)
		word[i] = name.data[i] == '_' ? '-' : (char)tolower((unsigned char)name.data[i]);
	if (name.len >= sizeof word) return false;
	if (!strcmp(word, "utf-8") || !strcmp(word, "utf8")) return true;
	for (size_t i = 0; i < len; i++) is_ascii &= (unsigned char)s[i] < 128;
	for (size_t i = 0; i < ARRAY_LEN(OF_ASCII); i++)
		if (!strcmp(word, OF_ASCII[i])) return is_ascii;
	return false;
}

static int format_step(struct grading *g)
{
	if (g->source_len > VERIFY_SOURCE_BYTES_MAX)
		return grade_end(g, VERDICT_INVALID, STAGE_FORMAT, "too-large", 0,
			"the source has %zu bytes, at most %zu are read", g->source_len, VERIFY_SOURCE_BYTES_MAX);
	if (memchr(g->source, 0, g->source_len))
		return grade_end(g, VERDICT_INVALID, STAGE_FORMAT, "not-text", 0, "the source holds a NUL byte");
	json_t *s = json_stringn(g->source, g->source_len);
	if (!s) return grade_end(g, VERDICT_INVALID, STAGE_FORMAT, "not-text", 0, "the source is not valid UTF-8");
	json_decref(s);
	struct slice encoding = encoding_of(g->source, g->source_len);
	if (!is_same_text(encoding, g->source, g->source_len))
		return grade_end(g, VERDICT_INVALID, STAGE_FORMAT, "not-text", 0,
			"the source declares the encoding %.*s, in which a file is another text", (int)MIN(encoding.len, 40),
			encoding.data);
	return GRADE_ON;
}

int lineage_step(struct grading *g, const struct trace *tr)
{
	const struct tape *t = tr->tape;
	int row = -1, launches = 0;
	enum tape_lineage l = tape_lineage_static(t, &row);
	if (l == TAPE_LINEAGE_OK) return GRADE_ON;
	for (int i = 0; i < t->nrows; i++) launches += t->rows[i].kind == TAPE_LAUNCH;
	/* Somebody else's work, but work: it is judged, as partial. */
	if (l == TAPE_LINEAGE_LIBRARY) {
		if (!g->is_partial) g->library_line = t->rows[row].line;
		if (!g->is_partial) snprintf(g->library_op, sizeof g->library_op, "%s", t->rows[row].op);
		g->is_partial = true;
		return GRADE_ON;
	}
	/* A size divided by a block, rounded down: what the kernel would do is not seen here, and
	 * that there is none is not shown. */
	const struct empty_launch *e = &tr->empty;
	const char *changed = g->oracle->variants[0].changed;
	if (e->kernel[0])
		return grade_end(g, VERDICT_INVALID, STAGE_LINEAGE, "empty-grid", e->line,
			"candidate.py:%d: kernel %.80s is launched with a grid of %lld x %lld x %lld, which runs no program, at "
			"%s%s; "
			"a grid has to hold at every size: round it up (triton.cdiv), or make the block no larger than what it "
			"divides",
			e->line, e->kernel, (long long)e->grid[0], (long long)e->grid[1], (long long)e->grid[2],
			changed[0] ? "the judged sizes: " : "the task's own sizes", changed);
	if (!launches)
		return grade_end(g, VERDICT_CHEAT, STAGE_LINEAGE, tape_lineage_reason(TAPE_LINEAGE_NO_LAUNCH), 0,
			"forward launches no Triton kernel");
	return grade_end(g, VERDICT_CHEAT, STAGE_LINEAGE, tape_lineage_reason(TAPE_LINEAGE_OUTPUT_NOT_FROM_KERNEL), 0,
		launches == 1 ? "forward launches a kernel, but it has no part in what it returns"
					  : "forward launches %d kernels, but none of them has a part in what it returns",
		launches);
}

/* What the judgement of a partial candidate is called: right or wrong with torch's own part
 * computed by torch, or library-row where torch could not do that here. */
static int partial_end(struct grading *g, int rc)
{
	struct verdict *v = g->v;
	char said[sizeof v->detail], reason[sizeof v->reason], head[256];
	if (!g->is_partial || rc < 0 || (rc == GRADE_END && v->class != VERDICT_WRONG && v->class != VERDICT_PARTIAL))
		return rc;
	snprintf(said, sizeof said, "%s", v->detail);
	snprintf(reason, sizeof reason, "%s", v->reason);
	if (g->library_line)
		snprintf(head, sizeof head, "candidate.py:%d: torch's %s stands between the inputs and what forward returns",
			g->library_line, g->library_op);
	else snprintf(head, sizeof head, "torch's %s stands between the inputs and what forward returns", g->library_op);
	if (rc == GRADE_ON)
		return grade_end(g, VERDICT_PARTIAL, STAGE_LINEAGE, "right", g->library_line,
			"%s; with that part computed by torch, %d %s", head, v->trials,
			plural(v->trials, "trial agrees", "trials agree"));
	if (v->class == VERDICT_WRONG)
		return grade_end(g, VERDICT_PARTIAL, STAGE_LINEAGE, "wrong", v->line ? v->line : g->library_line,
			"%s; with that part computed by torch: %s: %.600s", head, reason, said);
	return grade_end(
		g, VERDICT_PARTIAL, STAGE_LINEAGE, reason, g->library_line, "%s; nothing was compared: %.600s", head, said);
}

/* Only what makes a candidate hopeless whatever it does at run time; lint's notes are not for
 * verdicts. */
static int static_step(struct grading *g)
{
	struct lint_report *r = xcalloc(1, sizeof *r);
	int rc = GRADE_ON;
	if (lint_source(g->source, g->source_len, r) == 0 && r->errors && r->count) {
		const struct lint_finding *f = &r->findings[0];
		bool is_cheat = f->code == LINT_NO_JIT || f->code == LINT_JIT_UNUSED;
		char place[40] = "";
		if (f->line) snprintf(place, sizeof place, "candidate.py:%d: ", f->line);
		rc = grade_end(g, is_cheat ? VERDICT_CHEAT : VERDICT_INVALID, STAGE_STATIC, lint_code_name(f->code), f->line,
			"%s%s", place, f->text);
	}
	free(r);
	return rc;
}

static int oracle_step(struct grading *g, struct err *err)
{
	struct oracle_fault fault = {0};
	int rc = oracle_cache_get(g->s->oracles, g->task, &g->oracle, &fault, err);
	if (rc == ERR_MISMATCH)
		return grade_end(g, VERDICT_INFRA, STAGE_TRACE, fault.code, 0,
			"the task itself cannot be judged: task.py:%d: %.800s", fault.line, fault.text);
	/* Trials that tell nothing apart matter to who compares: a proof does not. */
	if (!rc && g->oracle->null_kernel && !g->s->skip_replay)
		return grade_end(g, VERDICT_INFRA, STAGE_TRACE, "task-not-discriminating", 0,
			"%s would pass for right: nothing can be concluded from this task", g->oracle->null_kernel);
	return rc;
}

/* What a genuine answer in IR was not asked. */
static const char *ir_words(const struct grading *g)
{
	bool has_others = false;
	for (int i = 0; i < g->oracle->ntrials; i++)
		has_others |= g->oracle->trials[i].counts && g->oracle->trials[i].variant &&
			!g->is_left_out[g->oracle->trials[i].variant];
	if (!g->ir) return "";
	return g->ir == IR_TEXT && has_others ? " (an answer in IR)"
										  : " (an answer in IR, judged at one size: it has no other)";
}

/* A genuine candidate in other forms, where somebody asked for them. The verdict stands; what could
 * not be written is said with it. */
static void delivery_step(struct grading *g, const struct trace *stock, struct err *err)
{
	if (g->emit) emit_step(g, stock, err);
	if (!g->ir_form || !ir_form(g, stock, g->ir_form, err)) return;
	size_t used = strlen(g->v->detail);
	snprintf(g->v->detail + used, sizeof g->v->detail - used, "; not in IR: %.300s", err->text);
	text_make_printable(g->v->detail);
}

static int steps(struct grading *g, struct trace *stock, struct err *err)
{
	/* What the candidate is: its tape, by host code that runs without data or by its own text, and
	 * kernels whose IR a clean process made again. */
	times_lap(g, STEP_ORACLE);
	int rc = oracle_step(g, err);
	times_lap(g, STEP_TRACE);
	if (!rc) rc = g->ir ? ir_step(g, stock) : trace_step(g, stock, err);
	if (!rc) rc = lineage_step(g, stock);
	times_lap(g, STEP_REBUILD);
	if (!rc) rc = rebuild_step(g, stock->tape, err);
	/* A proof needs no more than that. */
	if (!rc && g->proof) rc = prove_step(g, stock, err);
	if (!rc && g->proof && g->s->skip_replay)
		rc = grade_end(
			g, VERDICT_INFRA, STAGE_CORRECTNESS, "replay-skipped", 0, "the tape was proved, and not replayed");
	/* What it computes: on every counted trial. A partial tape ends here, whatever came of it.
	 * Machine code takes most of a verdict's time: who asks for a screen has it made of those alone
	 * that the first trial finds right. */
	times_lap(g, STEP_REPLAY);
	if (!rc && g->s->screens && !g->s->ngpus && !g->is_partial) rc = screen_step(g, stock, err);
	times_lap(g, STEP_COMPILE);
	if (!rc && !g->s->skip_compile) rc = compile_step(g, stock->tape, err);
	times_lap(g, STEP_REPLAY);
	if (!rc) rc = replay_step(g, stock, err);
	rc = partial_end(g, rc);
	if (!rc && !g->is_partial && !g->ir) rc = config_step(g, stock, err);
	if (!rc && !g->is_partial && !g->ir) rc = sized_step(g, err);
	/* Dear and needed by those alone that are right so far: costs at other sizes, a second
	 * trace, times on a GPU. */
	times_lap(g, STEP_GPU);
	if (!rc && !g->is_partial) rc = price_step(g, stock, err);
	if (!rc && g->on && !g->ir && !g->choices && g->s->time_repeats) rc = tune_step(g, stock, err);
	times_lap(g, STEP_AGAIN);
	if (!rc && !g->ir) rc = trace_again_step(g, stock, err);
	times_lap(g, STEP_GPU);
	if (!rc && g->on && g->s->time_repeats) rc = timing_step(g, stock, err);
	if (!rc && g->on) rc = sanitize_step(g, stock, err);
	if (!rc && g->on) rc = profile_step(g, stock, err);
	if (!rc && g->s->skip_compile)
		rc = grade_end(g, VERDICT_INFRA, STAGE_COMPILE, "compile-skipped", 0,
			"all else passed, but the kernels were not compiled");
	if (!rc)
		rc = grade_end(g, VERDICT_GENUINE, STAGE_DONE, "ok", 0,
			g->v->not_predicted[0] ? "%d %s%s; at the sizes of the cost no time is predicted"
								   : "%d %s%s; by the cost model %.2fx as fast as PyTorch's operators, %.2fx "
									 "as fast as these fused",
			g->v->trials, plural(g->v->trials, "trial agrees", "trials agree"), ir_words(g), g->v->speedup_eager,
			g->v->speedup_fused);
	if (rc == GRADE_END && g->v->class == VERDICT_GENUINE && !g->ir) delivery_step(g, stock, err);
	return rc;
}

static void grading_release(struct grading *g, struct trace *stock)
{
	trace_release(stock);
	guided_free(g->guided);
	g->guided = NULL;
	for (int i = 0; i < ORACLE_VARIANTS_MAX; i++) trace_release(&g->others[i]);
	json_decref(g->compiled);
	g->compiled = NULL;
	runner_result_release(&g->judged);
	/* The verdict waits for none of its processes' ends. */
	if (g->has_tracer) ending_job(g, &g->tracer, g->is_traced_again ? STEP_AGAIN : STEP_TRACE);
	if (g->has_builder) ending_job(g, &g->builder, STEP_REBUILD);
	if (g->has_runner) ending_runner(g, &g->runner, STEP_REPLAY);
	else if (g->runner.child.pid > 0) times_child(g, STEP_REPLAY, (double)g->runner.child.cpu_us * 1e-6);
	g->has_tracer = g->has_builder = g->has_runner = false;
	library_end(g);
	gpu_runner_done(g);
	oracle_cache_put(g->s->oracles, powers_end(g));
	g->oracle = NULL;
}

static void verdict_clear(const struct verify_shared *s, const struct verify_gpu *on, struct verdict *out)
{
	*out = (struct verdict){.cost_s = NAN,
		.eager_cost_s = NAN,
		.fused_cost_s = NAN,
		.speedup_eager = NAN,
		.speedup_fused = NAN,
		.error_max = NAN,
		.tolerance = NAN,
		.cost_error = NAN,
		.kernelbench = -1,
		.kernelbench_trials = 0};
	struct verdict_device *d = &out->device;
	d->error_max = d->stock_error_max = d->time_s = d->time_low_s = d->time_high_s = d->empty_s = NAN;
	d->predicted_s = d->eager_predicted_s = NAN;
	d->wall_s = d->paper_s = d->control_s = d->floor_s = d->floor_rate = NAN;
	d->others = -1;
	for (int k = 0; k < SANITIZER_COUNT; k++) d->sanitized[k] = -1;
	out->gpu_arch = s->gpu.capability;
	snprintf(out->sandbox, sizeof out->sandbox, "%s", sandbox_level_name(s->level));
	snprintf(out->gpu, sizeof out->gpu, "%s", s->gpu.name ? s->gpu.name : "");
	snprintf(out->device.name, sizeof out->device.name, "%s", on ? on->device.name : "vm");
	out->device.driver = on ? on->device.driver : 0;
}

/* What the steps begin with: the request, and nothing that an earlier pass over them left. */
static struct grading grading_begin(struct verify_shared *s, struct verify_gpu *on, const struct verify_request *r,
	struct verdict *out, struct prove_result *proof)
{
	verdict_clear(s, on, out);
	return (struct grading){.s = s,
		.on = on,
		.task = r->task,
		.source = r->source,
		.source_len = r->source_len,
		.is_final = r->is_final,
		.ir = ir_kind_of(r->source, r->source_len),
		.ir_form = r->ir_form,
		.emit = r->emit,
		.v = out,
		.proof = proof};
}

/* From the start once more, with the configurations that were chosen: everything that is said of
 * the candidate is said of these. What tuning found stays in the record. */
static int steps_tuned(struct grading *g, const struct verify_request *r, struct trace *stock, struct err *err)
{
	struct verdict *v = g->v;
	struct verdict_device was = v->device;
	/* Released before the new one is made, which keeps what the attempt is, took and chose. */
	grading_release(g, stock);
	struct grading again = grading_begin(g->s, g->on, r, v, g->proof);
	again.attempt = g->attempt;
	again.lap = g->lap;
	again.choices = g->choices;
	*g = again;
	v->device.ntuned = was.ntuned;
	memcpy(v->device.tuned, was.tuned, sizeof was.tuned);
	int rc = steps(g, stock, err);
	if (rc != GRADE_END || v->class == VERDICT_GENUINE) return rc;
	/* Which configuration it was: the first one was right. */
	char detail[sizeof v->detail];
	snprintf(detail, sizeof detail, "%s", v->detail);
	for (int i = 0, n = 0; i < was.ntuned; i++)
		if (json_object_get(g->choices, was.tuned[i].label) && !n++)
			snprintf(v->detail, sizeof v->detail,
				"in configuration %d of %d of the autotuner of %s, the fastest here: %.800s", was.tuned[i].chosen + 1,
				was.tuned[i].configs, was.tuned[i].label, detail);
	return rc;
}

bool grade_text(struct verify_shared *s, const char *source, size_t source_len, struct verdict *out)
{
	uint64_t start = clock_ns();
	struct grading g = {.s = s, .source = source, .source_len = source_len, .v = out};
	verdict_clear(s, s->ngpus ? &s->gpus[0] : NULL, out);
	int rc = format_step(&g);
	if (!rc && !ir_kind_of(source, source_len)) rc = static_step(&g);
	out->seconds = (double)(clock_ns() - start) * 1e-9;
	return rc == GRADE_END;
}

void grade(struct verify_shared *s, struct verify_gpu *on, const struct verify_request *r, struct verdict *out,
	struct prove_result *proof)
{
	uint64_t start = clock_ns();
	struct err err = {0};
	int rc = -1;
	for (int attempt = 0; attempt < ATTEMPTS && rc < 0; attempt++) {
		/* An attempt begins with nothing of the one before: a fault of the machine may have left
		 * half a verdict. */
		struct trace stock = {0};
		struct grading g = grading_begin(s, on, r, out, proof);
		g.attempt = attempt;
		rc = steps(&g, &stock, &err);
		if (rc == GRADE_TUNED) rc = steps_tuned(&g, r, &stock, &err);
		if (rc == GRADE_END && live_step(&g, &err)) rc = -1;
		/* Negative is our own failure, not the candidate's: it is tried again, and the last
		 * attempt's stands as `infra`, which is no judgement. KernelBench's own number is asked for
		 * whatever the verdict was. */
		if (rc < 0) {
			log_warn("verify: %s (attempt %d of %d)", err.text, attempt + 1, ATTEMPTS);
			grade_end(&g, VERDICT_INFRA, out->stage, "infra", 0, "%.900s", err.text);
		} else {
			kernelbench_step(&g, &stock);
		}
		/* The attempt's time is noted before its processes end. */
		times_lap(&g, STEP_END);
		grading_release(&g, &stock);
		json_decref(g.choices);
		times_add(&g);
	}
	out->seconds = (double)(clock_ns() - start) * 1e-9;
}

void grade_kernelbench(
	struct verify_shared *s, const struct task *task, const char *source, size_t source_len, struct verdict *out)
{
	uint64_t start = clock_ns();
	struct grading g = {.s = s, .task = task, .source = source, .source_len = source_len, .v = out};
	struct oracle_fault fault = {0};
	struct trace stock = {0};
	struct err err = {0};
	if (!oracle_cache_get(s->oracles, task, &g.oracle, &fault, &err)) {
		kernelbench_step(&g, &stock);
		grading_release(&g, &stock);
	}
	out->seconds += (double)(clock_ns() - start) * 1e-9;
}
