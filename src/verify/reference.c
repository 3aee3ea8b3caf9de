/* reference: the conversation with a timer's job (reference.h, docs/worker-protocol.md "timer").
 * The job runs a stranger's code, so each of its answers is checked. */
#include "verify/reference.h"
#include "base/base.h"
#include "base/dtype.h"
#include "runner/runner.h"
#include "tape/tape.h"
#include "verify/compare.h"
#include <math.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#define ANSWER_BYTES_MAX ((size_t)1 << 20)
#define CPU_S 600
#define ALIGN 64

struct reference {
	struct reference_options options;
	const struct oracle_trial *trial;
	struct job job;
	bool is_counted; /* among options.njobs */
	int outputs_fd;
	int64_t outputs_bytes;
	int64_t offset[TAPE_OUTPUTS_MAX]; /* of each output in the file, in bytes */
};

static json_t *given_json(const struct runner_given *g, int n)
{
	json_t *list = json_array();
	for (int i = 0; i < n; i++)
		json_array_append_new(list,
			json_pack("{s:s, s:I, s:I, s:b}", "name", g[i].name ? g[i].name : "", "offset", (json_int_t)g[i].offset,
				"bytes", (json_int_t)g[i].bytes, "changes", g[i].may_change));
	return list;
}

static json_t *job_json(const struct reference_options *o, enum verdict_reference_kind kind,
	const struct oracle_variant *variant, const struct oracle_trial *t)
{
	return json_pack("{s:s, s:i, s:s, s:s, s:b, s:O?, s:O?, s:{s:o, s:o}}", "source", variant->source, "init_seed",
		ORACLE_INIT_SEED, "mode", verdict_reference_name(kind), "device", o->device, "training", variant->training,
		"inputs", json_object_get(variant->job, "inputs"), "input_kwargs",
		json_object_get(variant->job, "input_kwargs"), "trial", "inputs", given_json(t->inputs, t->ninputs), "params",
		given_json(t->params, t->nparams));
}

/* The process ended or fell silent: the doing of what it was given, once it was in its sandbox. */
static int lost(struct reference *r, int rc, char *why, size_t len, struct err *err)
{
	char status[64] = "it fell silent";
	job_wait(&r->job, 1000);
	if (job_check_entered(&r->job, err)) return ERR_INFRA;
	if (r->job.ended) child_status_text(r->job.status, status, sizeof status);
	snprintf(why, len, "the reference's process on the GPU: %s", rc == ERR_TIMEOUT ? "no time left" : status);
	return ERR_MISMATCH;
}

/* The next answer, which must have `field`. */
static int answer_take(
	struct reference *r, const char *field, int timeout_ms, json_t **out, char *why, size_t len, struct err *err)
{
	struct str text = {0};
	*out = NULL;
	uint64_t deadline = deadline_in_ms(timeout_ms);
	int rc = job_next(&r->job, ANSWER_BYTES_MAX, &text, NULL, NULL, deadline, err);
	if (!rc) rc = json_parse(text.data, text.len, "timer's answer", out, err);
	str_release(&text);
	if (rc) return lost(r, rc, why, len, err);
	const char *fault = json_string_value(json_object_get(json_object_get(*out, "fault"), "text"));
	if (!fault && json_object_get(*out, field)) return 0;
	snprintf(why, len, "%s", fault ? fault : "the reference's process made no sense");
	text_make_printable(why);
	json_decref(*out);
	*out = NULL;
	return ERR_MISMATCH;
}

static int ask(
	struct reference *r, json_t *question, const char *field, json_t **out, char *why, size_t len, struct err *err)
{
	char *text = json_dumps(question, JSON_COMPACT);
	CHECKF(text, "a question that is not JSON");
	json_decref(question);
	uint64_t deadline = deadline_in_ms(r->options.question_ms);
	int rc = msg_send(r->job.data_fd, text, strlen(text), NULL, 0, deadline, err);
	free(text);
	return rc ? lost(r, rc, why, len, err) : answer_take(r, field, r->options.question_ms, out, why, len, err);
}

/* Where each output will lie. */
static void outputs_place(struct reference *r)
{
	r->outputs_bytes = ALIGN;
	for (int i = 0; i < r->trial->noutputs && i < TAPE_OUTPUTS_MAX; i++) {
		int64_t bytes = compare_elements(&r->trial->outputs[i]) * (int64_t)dtype_bytes(r->trial->outputs[i].dtype);
		r->offset[i] = r->outputs_bytes;
		r->outputs_bytes += (bytes + ALIGN - 1) / ALIGN * ALIGN;
	}
}

/* Takes over the job. */
static int start(const struct reference_options *o, json_t *job, const struct oracle_trial *trial,
	struct reference **out, struct err *err)
{
	struct reference *r = xcalloc(1, sizeof *r);
	*r = (struct reference){
		.trial = trial, .options = *o, .outputs_fd = -1, .job = {.data_fd = -1, .status_fd = -1, .pid_fd = -1}};
	outputs_place(r);
	r->outputs_fd = memfd_make("reference", (size_t)r->outputs_bytes, err);
	int rc = r->outputs_fd < 0 ? ERR_INFRA : 0;
	struct job_limits limits = o->limits;
	limits.cpu_s = CPU_S;
	if (!rc) rc = job_start(o->zygote, &limits, json_incref(job), &r->job, err);
	json_decref(job);
	r->is_counted = !rc && o->njobs;
	if (r->is_counted) atomic_fetch_add(o->njobs, 1);
	/* A process that is gone already shows when its first answer is waited for. */
	int fds[2] = {trial->given_fd, r->outputs_fd};
	if (!rc) msg_send(r->job.data_fd, "{}", 2, fds, 2, deadline_in_ms(o->question_ms), NULL);
	if (rc) reference_end(r);
	else *out = r;
	return rc;
}

int reference_start(const struct reference_options *o, enum verdict_reference_kind kind,
	const struct oracle_variant *variant, const struct oracle_trial *trial, struct reference **out, struct err *err)
{
	return start(o, job_json(o, kind, variant, trial), trial, out, err);
}

int reference_live(const struct reference_options *o, const char *source, size_t source_len,
	const struct oracle_variant *variant, const struct oracle_trial *t, struct reference **out, struct err *err)
{
	static const char *const keys[] = {"init_args", "init_kwargs", "inputs", "input_kwargs", "state"};
	json_t *job = json_pack("{s:s%, s:i, s:b, s:{s:o, s:o}}", "source", source, source_len, "init_seed",
		ORACLE_INIT_SEED, "training", variant->training, "trial", "inputs", given_json(t->inputs, t->ninputs), "params",
		given_json(t->params, t->nparams));
	CHECKF(job, "a candidate that is no text");
	for (size_t i = 0; i < ARRAY_LEN(keys); i++) {
		json_t *v = json_object_get(variant->job, keys[i]);
		json_object_set_new(job, keys[i], v ? json_incref(v) : json_object());
	}
	return start(o, json_pack("{s:o, s:s}", "live", job, "device", o->device), t, out, err);
}

int reference_ready(struct reference *r, struct reference_facts *facts, char *why, size_t len, struct err *err)
{
	json_t *answer = NULL;
	int rc = answer_take(r, "ready", r->options.timeout_ms, &answer, why, len, err);
	if (rc) return rc;

	/* What it says of itself. */
	const json_t *ready = json_object_get(answer, "ready");
	*facts = (struct reference_facts){json_is_true(json_object_get(ready, "gated")),
		json_is_true(json_object_get(ready, "draws")),
		MAX(json_integer_value(json_object_get(ready, "memory_bytes")), 0)};
	json_decref(answer);
	return 0;
}

int reference_time(struct reference *r, enum runner_clock question, int64_t *ns, char *why, size_t len, struct err *err)
{
	json_t *answer = NULL;
	int rc = ask(r, json_pack("{s:s}", "clock", runner_clock_name(question)), "ns", &answer, why, len, err);
	if (rc) return rc;
	*ns = json_integer_value(json_object_get(answer, "ns"));
	json_decref(answer);
	if (*ns > 0) return 0;
	snprintf(why, len, "the reference's process gives no time");
	return ERR_MISMATCH;
}

/* Whether what it handed over has the expected form: numbers of elements and dtypes. */
static bool outputs_fit(const struct reference *r, const json_t *told)
{
	if (json_array_size(told) != (size_t)r->trial->noutputs) return false;
	for (int i = 0; i < r->trial->noutputs; i++) {
		const json_t *o = json_array_get(told, (size_t)i), *shape = json_object_get(o, "shape");
		const char *name = json_string_value(json_object_get(o, "dtype"));
		const struct compare_output *want = &r->trial->outputs[i];
		if (!name || strcmp(name, dtype_name(want->dtype)) || json_array_size(shape) != (size_t)want->ndim)
			return false;
		for (int d = 0; d < want->ndim; d++)
			if (json_integer_value(json_array_get(shape, (size_t)d)) != want->shape[d]) return false;
	}
	return true;
}

int reference_check(struct reference *r, double slack, double floor, bool *agrees, double *error_max, char *why,
	size_t len, struct err *err)
{
	json_t *places = json_array(), *answer = NULL;
	*agrees = false;
	*error_max = NAN;
	if (r->trial->noutputs > TAPE_OUTPUTS_MAX) {
		json_decref(places);
		snprintf(why, len, "more outputs than are compared");
		return 0;
	}
	for (int i = 0; i < r->trial->noutputs; i++)
		json_array_append_new(places,
			json_pack("{s:I, s:I}", "offset", (json_int_t)r->offset[i], "bytes",
				(json_int_t)(compare_elements(&r->trial->outputs[i]) *
					(int64_t)dtype_bytes(r->trial->outputs[i].dtype))));
	int rc = ask(r, json_pack("{s:o}", "outputs", places), "outputs", &answer, why, len, err);
	if (rc) return rc;
	bool fits = outputs_fit(r, json_object_get(answer, "outputs"));
	json_decref(answer);
	if (!fits) {
		snprintf(why, len, "on the GPU the reference returns other shapes or dtypes than on the CPU");
		return 0;
	}

	/* In place: the process may still write there, and only spoils its own comparison. */
	uint8_t *found = mmap(NULL, (size_t)r->outputs_bytes, PROT_READ, MAP_SHARED, r->outputs_fd, 0);
	if (found == MAP_FAILED) return err_set(err, ERR_INFRA, "mapping a reference's outputs");
	*agrees = true;
	for (int i = 0; i < r->trial->noutputs; i++) {
		struct compare_bound bound = r->trial->bounds[i];
		struct compare_result c;
		bound.tolerance = fmax(slack * bound.tolerance, floor);
		compare_run(&r->trial->outputs[i], &bound, found + r->offset[i], &c);
		if (!(*error_max >= c.error_max)) *error_max = c.error_max;
		if (!c.is_equal && *agrees) snprintf(why, len, "its timed forward is off: %.120s", c.text);
		*agrees = *agrees && c.is_equal;
	}
	munmap(found, (size_t)r->outputs_bytes);
	return 0;
}

void reference_end(struct reference *r)
{
	if (!r) return;
	job_end(&r->job);
	if (r->is_counted) atomic_fetch_sub(r->options.njobs, 1);
	if (r->outputs_fd >= 0) close(r->outputs_fd);
	free(r);
}
