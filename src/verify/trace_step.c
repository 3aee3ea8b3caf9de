/* trace_step: one candidate in one tracer process; out comes a tape or a settled verdict. The
 * process stays, and traces the candidate for other sizes when the first tape turned out right:
 * that saves a fork, and a wrong candidate never gets there.
 *
 * Everything that arrives here was written by a process in which the candidate's code ran. It is
 * used for two things: a tape, which tape_parse validates and the replay judges, and a fault, whose
 * code is looked up in a table (an unknown one is just "error") and whose text goes to people. The
 * announced phase only picks a deadline and a word. How the process ended comes from the zygote. */
#include "verify/verify_internal.h"
#include "base/base.h"
#include "cost/cost.h"
#include "tape/tape.h"
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>

#if !JSON_HAVE_ATOMIC_BUILTINS
#error "jansson without atomic reference counts: oracle data is shared between threads"
#endif

#define MESSAGES_MAX 16           /* beside the recipes that it asks for */
#define RECIPES_MAX 4096
#define RECIPE_BYTES_MAX ((size_t)1 << 20)
#define VALUES_MAX 64             /* in one message; a tape is a string there */
#define LARGE_TAPE_BYTES ((size_t)4 << 20)
#define CPU_S 120
#define PLAIN_CALLS 4             /* buffers that the second trace may have at once, in tapes */
#define PLAIN_CALLS_SMALL 20      /* and where these are less than PLAIN_BYTES: all that it ever makes */
#define PLAIN_BYTES ((int64_t)6 << 30)

static const char *const PHASES[] = {"import", "init", "forward"};
/* Reason codes that a tracer may give (docs/worker-protocol.md). */
static const char *const FAULT_CODES[] = {
	"import-error",
	"init-error",
	"forward-error",
	"triton-compile-error",
	"no-class",
	"no-output",
	"output-not-tensor",
	"data-dependent",
	"nondeterministic",
	"random",
	"unsupported",
	"too-large",
	"grid-too-large",
};

/* Parsing a huge tape takes many times its size in memory: one at a time. */
static pthread_mutex_t large_tape_lock = PTHREAD_MUTEX_INITIALIZER;

static json_t *job_json(const struct grading *g)
{
	const struct oracle_data *d = g->oracle;
	json_t *job = json_pack(
		"{s:s%, s:s, s:i}", "source", g->source, g->source_len, "class", "ModelNew", "init_seed", ORACLE_INIT_SEED);
	json_t *others = json_array();
	json_object_update(job, (json_t *)(uintptr_t)d->variants[0].job);
	for (int i = 1; i < d->nvariants; i++) json_array_append(others, (json_t *)(uintptr_t)d->variants[i].job);
	if (json_object_get(d->priced, "job")) json_array_append(others, json_object_get(d->priced, "job"));
	json_object_set_new(job, "others", others);
	json_object_set_new(job, "stays", json_true());
	json_object_set_new(job, "asks", json_true());
	json_object_set_new(job, "gpu", vm_gpu_json(&g->s->gpu));
	if (g->choices) json_object_set(job, "choices", g->choices);
	return job;
}

static int phase_of(const json_t *message)
{
	const char *name = json_string_value(json_object_get(message, "phase"));
	for (int i = 0; name && i < (int)ARRAY_LEN(PHASES); i++)
		if (!strcmp(PHASES[i], name)) return i;
	return -1;
}

static int fault_end(struct grading *g, const json_t *fault)
{
	const char *code = json_string_value(json_object_get(fault, "code")),
			   *type = json_string_value(json_object_get(fault, "type"));
	const char *text = json_string_value(json_object_get(fault, "text")), *reason = "error";
	json_int_t line = json_integer_value(json_object_get(fault, "line"));
	for (size_t i = 0; code && i < ARRAY_LEN(FAULT_CODES); i++)
		if (!strcmp(FAULT_CODES[i], code)) reason = FAULT_CODES[i];
	if (type && !strcmp(type, "MemoryError")) reason = "memory";
	if (line < 0 || line > INT32_MAX) line = 0;
	bool is_own = type && !strcmp(type, "Fault"); /* the tracer's own words, no exception's */
	if (line)
		return grade_end(g, VERDICT_INVALID, STAGE_TRACE, reason, (int)line, "candidate.py:%d: %.60s%s%.800s",
			(int)line, is_own || !type ? "" : type, is_own || !type ? "" : ": ", text ? text : "");
	return grade_end(g, VERDICT_INVALID, STAGE_TRACE, reason, 0, "%.60s%s%.800s", is_own || !type ? "" : type,
		is_own || !type ? "" : ": ", text ? text : "");
}

static int timeout_end(struct grading *g, int phase, int timeout_ms)
{
	char reason[32];
	snprintf(reason, sizeof reason, "timeout-%s", PHASES[phase]);
	return grade_end(g, VERDICT_INVALID, STAGE_TRACE, reason, 0, "%s took longer than %d ms",
		phase == 0       ? "importing the source"
			: phase == 1 ? "the constructor of ModelNew"
						 : "tracing the calls of forward",
		timeout_ms);
}

/* The process ended, or stopped making sense, before it gave a result. */
static int death_end(struct grading *g, struct job *j, int phase, const char *what, struct err *err)
{
	char status[64] = "it closed its socket and went on";
	job_wait(j, 1000);
	if (job_check_entered(j, err)) return ERR_INFRA;
	bool ended = j->ended;
	if (ended) child_status_text(j->status, status, sizeof status);
	int sig = ended && WIFSIGNALED(j->status) ? WTERMSIG(j->status) : 0;
	bool is_late = job_is_out_of_time(j);
	const char *reason = !ended ? "no-result"
		: sig == SIGSYS         ? "forbidden"
		: is_late               ? "timeout-cpu"
		: sig                   ? "crash"
								: "exit";
	if (sig == SIGKILL && !is_late && j->max_rss_bytes > g->s->limits.trace_memory_bytes / 2) reason = "memory";
	return grade_end(g, VERDICT_INVALID, STAGE_TRACE, reason, 0,
		"the process that ran the candidate ended without a result during %s: %s%s%s%s", PHASES[phase], status,
		sig == SIGSYS ? " (a forbidden system call)" : "", ended ? "" : ", ", ended ? "" : what);
}

static int tape_take(struct grading *g, const json_t *value, struct trace *out)
{
	const char *text = json_string_value(value);
	size_t len = json_string_length(value);
	struct err err = {0};
	if (!text) return grade_end(g, VERDICT_INVALID, STAGE_TRACE, "bad-tape", 0, "the tracer's result is not a tape");
	int rc = tape_parse(text, len, &out->tape, &err);
	if (rc) return grade_end(g, VERDICT_INVALID, STAGE_TRACE, "bad-tape", 0, "%.900s", err.text);
	str_append(&out->text, text, len);
	return GRADE_ON;
}

/* [label, how many, which, ...]: what does not look so is no autotuner to choose for. */
static void tuned_take(const json_t *list, struct trace *out)
{
	for (size_t i = 0; i + 2 < json_array_size(list) && out->ntuned < VERDICT_TUNED_MAX; i += 3) {
		const char *label = json_string_value(json_array_get(list, i));
		json_int_t configs = json_integer_value(json_array_get(list, i + 1)),
				   chosen = json_integer_value(json_array_get(list, i + 2));
		if (!label || configs < 2 || configs > TUNED_CONFIGS_MAX || chosen < 0 || chosen >= configs) return;
		struct tuned *t = &out->tuned[out->ntuned++];
		snprintf(t->label, sizeof t->label, "%s", label);
		t->configs = (int)configs;
		t->chosen = (int)chosen;
	}
}

/* [line, kernel, x, y, z] */
static void empty_take(const json_t *list, struct empty_launch *out)
{
	const char *kernel = json_string_value(json_array_get(list, 1));
	if (!kernel) return;
	snprintf(out->kernel, sizeof out->kernel, "%s", kernel);
	text_make_printable(out->kernel);
	out->line = (int)MIN(MAX(json_integer_value(json_array_get(list, 0)), 0), INT32_MAX);
	for (size_t i = 0; i < ARRAY_LEN(out->grid); i++)
		out->grid[i] = MAX(json_integer_value(json_array_get(list, i + 2)), 0);
}

/* A message of megabytes of tiny values would cost many times its size to parse: what our tracer
 * says is a handful of values. */
static bool has_few_values(const struct str *text)
{
	int marks = 0;
	bool in_string = false;
	for (size_t i = 0; i < text->len && marks <= VALUES_MAX; i++) {
		char c = text->data[i];
		if (in_string && c == '\\') i++;
		else if (c == '"') in_string = !in_string;
		else if (!in_string) marks += c == ',' || c == ':' || c == '[' || c == '{';
	}
	return marks <= VALUES_MAX;
}

/* The tracer asks what a clean process makes of a recipe. Where that has no answer it compiles by
 * itself. */
static int recipe_answer(struct grading *g, const char *recipe, struct err *err)
{
	struct err local = {0};
	char *ttir = NULL;
	int rc = strlen(recipe) > RECIPE_BYTES_MAX ? GRADE_ON : rebuild_answer(g, recipe, &ttir, err);
	if (!rc) {
		json_t *answer = json_pack("{s:s?}", "ttir", ttir);
		char *text = json_dumps(answer, JSON_COMPACT);
		if (msg_send(
				g->tracer.data_fd, text, strlen(text), NULL, 0, deadline_in_ms(g->s->limits.trace_timeout_ms), &local))
			rc = death_end(g, &g->tracer, 0, local.text, err);
		free(text);
		json_decref(answer);
	}
	free(ttir);
	return rc;
}

/* One message; sets *done when it was the last. */
static int message_take(
	struct grading *g, const struct str *text, int *phase, bool *done, struct trace *out, struct err *infra)
{
	json_t *m = NULL;
	struct err err = {0};
	bool is_large = text->len > LARGE_TAPE_BYTES;
	if (is_large) pthread_mutex_lock(&large_tape_lock);
	int rc = has_few_values(text) ? json_parse(text->data, text->len, "tracer's message", &m, &err)
								  : err_set(&err, ERR_LIMIT, "a message of more than %d values", VALUES_MAX);
	*done = true;
	/* An announcement is followed by more; an answer, of the kind that was
	 * asked for, is the last. */
	if (rc) {
		rc = grade_end(g, VERDICT_INVALID, STAGE_TRACE, "bad-tape", 0, "%.900s", err.text);
	} else if (phase_of(m) >= 0) {
		*phase = MAX(*phase, phase_of(m));
		*done = false;
	} else if (json_is_string(json_object_get(m, "compile"))) {
		rc = recipe_answer(g, json_string_value(json_object_get(m, "compile")), infra);
		*done = false;
	} else if (out->is_probe && json_is_string(json_object_get(m, "probe"))) {
		const json_t *found = json_object_get(m, "probe");
		str_append(&out->text, json_string_value(found), json_string_length(found));
	} else if (json_object_get(m, "tape") && !out->is_probe) {
		rc = tape_take(g, json_object_get(m, "tape"), out);
		if (!rc) tuned_take(json_object_get(m, "tuned"), out);
		if (!rc) empty_take(json_object_get(m, "empty"), &out->empty);
		if (json_array_size(json_object_get(m, "modes"))) out->modes = json_incref(json_object_get(m, "modes"));
	} else {
		rc = fault_end(g, json_object_get(m, "fault"));
	}
	json_decref(m);
	if (is_large) pthread_mutex_unlock(&large_tape_lock);
	return rc;
}

/* Listens to the tracer until it has a result. */
static int listen(struct grading *g, struct trace *out, struct err *err)
{
	int timeout_ms = g->s->limits.trace_timeout_ms, phase = 0, messages = 0, before = -1, rc = GRADE_ON;
	struct str text = {0};
	struct err local = {0};
	bool done = false;
	uint64_t deadline = 0;
	g->v->stage = STAGE_TRACE;
	while (!done && rc == GRADE_ON) {
		if (phase != before) deadline = deadline_in_ms(timeout_ms);
		before = phase;
		rc = job_next(&g->tracer, TAPE_BYTES_MAX, &text, NULL, NULL, deadline, &local);
		if (rc == ERR_TIMEOUT) rc = timeout_end(g, phase, timeout_ms);
		else if (rc == ERR_INFRA) *err = local;
		else if (rc || ++messages > MESSAGES_MAX + RECIPES_MAX) rc = death_end(g, &g->tracer, phase, local.text, err);
		else rc = message_take(g, &text, &phase, &done, out, err);
	}
	str_release(&text);
	return rc;
}

int trace_step(struct grading *g, struct trace *out, struct err *err)
{
	struct job_limits limits = {g->s->level, g->s->limits.trace_memory_bytes, CPU_S};
	int rc = job_start(g->s->tracer, &limits, job_json(g), &g->tracer, err);
	g->has_tracer = rc == 0;
	g->next_other = 1;
	return rc ? rc : listen(g, out, err);
}

/* ---- the second trace ---- */

static int differs_end(struct grading *g, int line, const char *what)
{
	return grade_end(g, VERDICT_INVALID, STAGE_TRACE, "trace-differs", line,
		"traced again in a new process, on tensors of another kind, forward did other work: %.700s. Host code may "
		"depend on "
		"shapes, strides, dtypes, the device's properties, constructor arguments and versions only",
		what);
}

/* Names the first thing in which two tapes differ. */
static int tapes_differ(struct grading *g, const struct tape *a, const struct tape *b)
{
	static const char *const parts[] = {"buffers", "outputs", "kernels", "tuple", "form"};
	const json_t *before = json_object_get(a->json, "rows"), *after = json_object_get(b->json, "rows");
	char what[200];
	for (size_t i = 0; i < json_array_size(before) && i < json_array_size(after); i++) {
		const json_t *x = json_array_get(before, i), *y = json_array_get(after, i);
		if (json_equal(x, y)) continue;
		int line = (int)json_integer_value(json_object_get(y, "line"));
		snprintf(what, sizeof what, "row %zu is a %.20s (candidate.py:%d), was a %.20s (candidate.py:%d)", i,
			json_string_value(json_object_get(y, "op")), line, json_string_value(json_object_get(x, "op")),
			(int)json_integer_value(json_object_get(x, "line")));
		return differs_end(g, line, what);
	}
	if (a->nrows != b->nrows) {
		snprintf(what, sizeof what, "%d rows, were %d", b->nrows, a->nrows);
		return differs_end(g, 0, what);
	}
	for (size_t i = 0; i < ARRAY_LEN(parts); i++)
		if (!json_equal(json_object_get(a->json, parts[i]), json_object_get(b->json, parts[i]))) {
			snprintf(what, sizeof what, "the same rows with other %s", parts[i]);
			return differs_end(g, 0, what);
		}
	return GRADE_ON;
}

/* The kernels of a tape, each with its recipe: a clean process has found that
 * the one gives the other. */
static json_t *kernels_json(const struct tape *t)
{
	json_t *list = json_array();
	for (int k = 0; k < t->nkernels; k++)
		json_array_append_new(
			list, json_pack("[s, s%]", t->kernels[k].source, t->kernels[k].ttir, (int)t->kernels[k].ttir_len));
	return list;
}

/* A tape that would be genuine is traced once more, where host code sees other tensors, addresses,
 * clocks and names (worker/tracer_plain.py). Its tensors have addresses of their own in all calls,
 * of which few pages are ever written, so its limit is higher by what the tape's buffers take. It
 * need not compile what a clean process has compiled: a launch whose recipe is another one is
 * compiled there, and then the tape is another one. */
int trace_again_step(struct grading *g, const struct trace *stock, struct err *err)
{
	int64_t bytes = 0;
	for (int b = 0; b < stock->tape->nbuffers; b++) bytes += stock->tape->buffers[b].bytes;
	int64_t room = MAX(PLAIN_CALLS * bytes, MIN(PLAIN_CALLS_SMALL * bytes, PLAIN_BYTES));
	struct job_limits limits = {g->s->level, g->s->limits.trace_memory_bytes + room, CPU_S};
	struct trace again = {0};
	/* The same job, without other sizes, with the kernels that are known and a seed for what
	 * differs. */
	json_t *job = job_json(g);
	json_object_del(job, "others");
	json_object_del(job, "stays");
	json_object_del(job, "asks");
	json_object_set_new(job, "kernels", kernels_json(stock->tape));
	json_object_set_new(job, "plain", json_integer((json_int_t)(clock_ns() & 0x7fffffff) + 1));
	/* In a process of its own, while the first one ends. */
	if (g->has_tracer) ending_job(g, &g->tracer, STEP_TRACE);
	g->is_traced_again = true;
	int rc = job_start(g->s->tracer, &limits, job, &g->tracer, err);
	g->has_tracer = rc == 0;
	if (!rc) rc = listen(g, &again, err);
	if (rc == GRADE_END) {
		char detail[sizeof g->v->detail], reason[sizeof g->v->reason];
		snprintf(detail, sizeof detail, "%s: %.600s", g->v->reason, g->v->detail);
		snprintf(reason, sizeof reason, "%s", g->v->reason);
		/* A machine that is too slow, or too small, says nothing about the candidate's honesty; and
		 * what is refused by name keeps its name. */
		bool is_named = !strcmp(reason, "unsupported") || !strcmp(reason, "data-dependent");
		if (strncmp(reason, "timeout", 7) && strcmp(reason, "memory") && !is_named)
			rc = differs_end(g, g->v->line, detail);
	}
	/* Two tapes of one text: what differs came from somewhere that the host code may not look. */
	if (!rc && strcmp(again.tape->hash.text, stock->tape->hash.text)) rc = tapes_differ(g, stock->tape, again.tape);
	if (!rc && again.modes) rc = mode_step(g, again.modes, err);
	trace_release(&again);
	return rc;
}

static int trace_ask(struct grading *g, const char *ask, struct trace *out, struct err *err)
{
	struct err local = {0};
	if (msg_send(g->tracer.data_fd, ask, strlen(ask), NULL, 0, deadline_in_ms(g->s->limits.trace_timeout_ms), &local))
		return death_end(g, &g->tracer, 0, local.text, err);
	return listen(g, out, err);
}

int trace_other_step(struct grading *g, struct trace *out, struct err *err)
{
	int variant = g->next_other++;
	return g->ir ? ir_other_step(g, variant, out) : trace_ask(g, "{\"next\": true}", out, err);
}

static int job_ask(struct grading *g, json_t *ask, struct trace *out, struct err *err)
{
	char *text = json_dumps(ask, JSON_COMPACT);
	int rc = trace_ask(g, text, out, err);
	free(text);
	json_decref(ask);
	return rc;
}

int trace_sized_step(struct grading *g, const json_t *job, struct trace *out, struct err *err)
{
	return job_ask(g, json_pack("{s:O}", "job", (json_t *)(uintptr_t)job), out, err);
}

int trace_instead_step(struct grading *g, const json_t *job, bool returns, struct trace *out, struct err *err)
{
	return job_ask(
		g, json_pack("{s:O, s:b, s:b}", "job", (json_t *)(uintptr_t)job, "stands", 1, "returns", returns), out, err);
}

int trace_probe_step(struct grading *g, json_t *probe, struct trace *out, struct err *err)
{
	out->is_probe = true;
	return job_ask(g, json_pack("{s:{s:o}}", "job", "probe", probe), out, err);
}
