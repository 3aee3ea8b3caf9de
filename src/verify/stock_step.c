/* stock_step: values at the task's own sizes, on a GPU, where they are judged at smaller ones
 * because the host has no room for the task's own.
 *
 * Who computes what: a process of the task's (worker/stock.py, in the timer's zygote, sandboxed as
 * a reference is) makes inputs on the GPU and what is expected of them, in the reference's own
 * precision and in fp64; the candidate's runner replays the tape of these sizes on the same GPU, on
 * inputs that it may only read; the task's process compares. Inputs and outputs lie in memory that
 * the task's process exports: descriptors pass through here, bytes do not. The runner never sees an
 * expected value, and is asked when all of them are there.
 *
 * Memory: while such a trial lasts the GPU holds the inputs twice (shared, and between the runner's
 * canaries), the outputs three times (the reference's, the runner's, shared) and in fp64, and what
 * the fp64 reference needs itself, which is computed in slices of the batch where it does not fit.
 * One such job at a time has the room, by a lock of its own beside the GPU's; the GPU's is held
 * shared, as by any replay. */
#include "verify/gpu_steps.h"
#include "base/base.h"
#include "base/dtype.h"
#include "runner/runner.h"
#include "tape/tape.h"
#include "verify/compare.h"
#include "verify/gpu_lock.h"
#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>

#define LOCK_MS 240000  /* timings are in front */
#define ROOM_MS 1800000 /* others' jobs are, of all threads and processes, some seconds each */
#define AGAIN_MS 3000
#define ANSWER_BYTES_MAX ((size_t)4 << 20)
#define CPU_S 600
#define SEED_FIRST 4096 /* trials' numbers as far as their seeds go: behind all of the oracle's */
#define SHARED_BYTES_MAX ((int64_t)1 << 40)

/* What is tried there: the values that the task itself makes, with the seed's own
 * parameters; then others. */
static const struct {
	const char *distribution;
	bool has_random_params;
} TRIALS[] = {{"stock", false}, {"sign-mixed", true}, {"heavy-tail", true}};

struct stock_job {
	struct job job;
	char *words;  /* what it was started with: who asks with the same words may have it again */
	bool is_done; /* all its trials are told, and it waits */
	int lock;     /* the GPU's, shared */
	int room;     /* the GPU's room, alone */
	uint64_t deadline;
	bool is_coarse;    /* as compare.h has it */
	atomic_int *njobs; /* of the GPU; NULL: it is not counted there */
};
/* One trial as the task's process describes it. */
struct stock_trial {
	json_t *message; /* keeps names alive */
	int ninputs;
	struct runner_given *inputs;
	int nparams;
	struct runner_given *params;
	int noutputs;
	int64_t offset[TAPE_OUTPUTS_MAX];   /* of outputs, in their memory */
	double tolerance[TAPE_OUTPUTS_MAX]; /* scaled error that is right */
	int64_t given_bytes;
	int64_t outputs_bytes;
	int fds[2]; /* the memory of both; -1 */
};

static void trial_release(struct stock_trial *t)
{
	free(t->inputs);
	free(t->params);
	json_decref(t->message);
	for (int i = 0; i < 2; i++)
		if (t->fds[i] >= 0) close(t->fds[i]);
}

/* One process a GPU may wait for the next candidate of its task. */
static struct stock_job *stock_waiting_swap(struct verify_gpu *on, struct stock_job *s)
{
	static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
	pthread_mutex_lock(&lock);
	struct stock_job *was = on->waiting;
	on->waiting = s;
	pthread_mutex_unlock(&lock);
	return was;
}

static json_t *job_json(const struct grading *g)
{
	json_t *trials = json_array();
	struct zygote *unused;
	const struct oracle_options *o = oracle_cache_options(g->s->oracles, &unused);
	for (size_t i = 0; i < ARRAY_LEN(TRIALS); i++)
		json_array_append_new(trials,
			json_pack("{s:I, s:s, s:s}", "seed", (json_int_t)oracle_trial_seed(o->seed, g->task, SEED_FIRST + (int)i),
				"distribution", TRIALS[i].distribution, "parameters",
				TRIALS[i].has_random_params ? "random" : "initial"));
	return json_pack("{s:{s:s, s:i, s:b, s:o, s:o}, s:s}", "stock", "source", g->task->source, "init_seed",
		ORACLE_INIT_SEED, "training", g->oracle->variants[0].training, "trials", trials, "rules",
		compare_rules_json(g->oracle->has_dot, g->s->tf32), "device", g->on->device.uuid);
}

bool stock_is_due(const struct grading *g)
{
	const json_t *p = g->oracle->priced;
	return g->on && g->s->timer && p && json_object_get(p, "job") && !g->oracle->priced_at[0] && !g->ir;
}

static void job_free(struct stock_job *s)
{
	if (!s) return;
	job_end(&s->job);
	if (s->njobs) atomic_fetch_sub(s->njobs, 1);
	free(s->words);
	free(s);
}

/* The process that waits on this GPU, where it is this task's and still there. */
static bool again(struct stock_job *s)
{
	struct str text = {0};
	uint64_t deadline = clock_ns() + AGAIN_MS * UINT64_C(1000000);
	bool is_there = !msg_send(s->job.data_fd, "{}", 2, NULL, 0, deadline, NULL) &&
		!job_next(&s->job, ANSWER_BYTES_MAX, &text, NULL, NULL, deadline, NULL);
	str_release(&text);
	return is_there;
}

int stock_begin(struct grading *g, struct stock_job **out, struct err *err)
{
	int room_fd = -1, lock = -1;
	char room[80];
	snprintf(room, sizeof room, "%s-room", g->on->device.uuid);
	int rc = gpu_lock_take(NULL, room, true, ROOM_MS, &room_fd, err);
	if (!rc) rc = gpu_lock_take(NULL, g->on->device.uuid, false, LOCK_MS, &lock, err);
	if (rc) {
		gpu_lock_release(room_fd);
		return err_set(err, ERR_INFRA, "%.300s", err->text);
	}

	/* Who waits for this task's next candidate saves a context's start; who
	 * waits for another's ends. */
	json_t *job = job_json(g);
	char *words = json_dumps(job, JSON_COMPACT | JSON_SORT_KEYS);
	struct stock_job *s = stock_waiting_swap(g->on, NULL);
	if (s && (strcmp(s->words, words) || !again(s))) {
		job_free(s);
		s = NULL;
	}
	if (!s) {
		struct job_limits limits = {g->s->level, 0, CPU_S};
		s = xcalloc(1, sizeof *s);
		*s = (struct stock_job){.job = {.data_fd = -1, .status_fd = -1, .pid_fd = -1}, .words = xstrdup(words)};
		rc = job_start(g->s->timer, &limits, json_incref(job), &s->job, err);
		s->njobs = rc ? NULL : &g->on->njobs;
		if (s->njobs) atomic_fetch_add(s->njobs, 1);
	}
	json_decref(job);
	free(words);
	s->lock = lock;
	s->room = room_fd;
	s->is_done = false;
	s->is_coarse = g->oracle->has_dot && g->s->tf32;
	s->deadline = deadline_in_ms(g->s->limits.oracle_timeout_ms);
	g->has_gpu_lock = true;
	if (rc) stock_end(g, s);
	else *out = s;
	return rc;
}

void stock_end(struct grading *g, struct stock_job *s)
{
	if (!s) return;
	int lock = s->lock, room = s->room;
	/* Before the room is another's, who may look for it. */
	job_free(s->is_done ? stock_waiting_swap(g->on, s) : s);
	g->has_gpu_lock = false;
	gpu_lock_release(lock);
	gpu_lock_release(room);
}

void stock_forget(struct verify_gpu *on) { job_free(stock_waiting_swap(on, NULL)); }

/* ---- its words ---- */

/* The next message; ERR_MISMATCH with why the process is of no more use, which is the
 * task's doing or the GPU's. */
static int next(struct stock_job *s, json_t **out, int *fds, int *nfds, char *why, size_t len, struct err *err)
{
	struct str text = {0};
	*out = NULL;
	int rc = job_next(&s->job, ANSWER_BYTES_MAX, &text, fds, nfds, s->deadline, err);
	bool has_come = !rc;
	if (!rc) rc = json_parse(text.data, text.len, "the reference's answer", out, err);
	str_release(&text);
	const char *fault = json_string_value(json_object_get(json_object_get(*out, "fault"), "text"));
	/* Descriptors are the caller's with a message that it gets. */
	for (int i = 0; (rc || fault) && has_come && nfds && i < *nfds; i++) close(fds[i]);
	if (rc) {
		char status[64] = "it fell silent";
		job_wait(&s->job, 1000);
		if (job_check_entered(&s->job, err)) return ERR_INFRA;
		if (s->job.ended) child_status_text(s->job.status, status, sizeof status);
		snprintf(why, len, "the reference's process on the GPU: %s", rc == ERR_TIMEOUT ? "no time left" : status);
		return ERR_MISMATCH;
	}
	if (!fault) return 0;
	snprintf(why, len, "%s", fault);
	text_make_printable(why);
	json_decref(*out);
	*out = NULL;
	return ERR_MISMATCH;
}

/* An output as the process describes it: the tape's own form, a place inside of the memory, and the
 * bound that the reference's error allows. */
static int output_read(
	const struct stock_job *s, const json_t *e, const struct tape_view *v, struct stock_trial *t, struct err *err)
{
	const char *name = "";
	int i = t->noutputs;
	bool is_exact = json_is_true(json_object_get(e, "exact"));
	int64_t bytes = tape_view_elements(v) * (int64_t)dtype_bytes(v->dtype);
	int rc = json_get_str(e, "output", "dtype", &name, err);
	if (!rc) rc = json_get_int(e, "output", "offset", 0, t->outputs_bytes - bytes, &t->offset[i], err);
	if (rc) return rc;
	const json_t *shape = json_object_get(e, "shape");
	bool fits = !strcmp(name, dtype_name(v->dtype)) && json_array_size(shape) == (size_t)v->ndim;
	for (int d = 0; d < v->ndim && fits; d++)
		fits = json_integer_value(json_array_get(shape, (size_t)d)) == v->shape[d];
	if (!fits) return err_set(err, ERR_MISMATCH, "on the GPU output %d of the reference has another shape or dtype", i);
	t->tolerance[i] = compare_tolerance(
		v->dtype, is_exact, s->is_coarse, json_number_value(json_object_get(e, "error")));
	t->noutputs++;
	return 0;
}

/* Takes the descriptors over. */
static int trial_read(const struct stock_job *s, json_t *message, const int *fds, int nfds, const struct tape *tape,
	struct stock_trial *t, struct err *err)
{
	*t = (struct stock_trial){.message = message, .fds = {-1, -1}};
	const json_t *o = json_object_get(message, "trial"), *outputs = json_object_get(o, "outputs");
	for (int i = 0; i < nfds; i++) t->fds[i] = fds[i];
	int rc = nfds == 2 ? 0 : err_set(err, ERR_FORMAT, "a trial comes with %d descriptors, expected 2", nfds);
	if (!rc) rc = json_get_int(o, "trial", "given_bytes", 1, SHARED_BYTES_MAX, &t->given_bytes, err);
	if (!rc) rc = json_get_int(o, "trial", "outputs_bytes", 1, SHARED_BYTES_MAX, &t->outputs_bytes, err);
	if (!rc) rc = oracle_given_read(json_object_get(o, "inputs"), t->given_bytes, false, &t->inputs, &t->ninputs, err);
	if (!rc) rc = oracle_given_read(json_object_get(o, "params"), t->given_bytes, true, &t->params, &t->nparams, err);
	if (!rc && json_array_size(outputs) != (size_t)tape->noutputs)
		rc = err_set(err, ERR_MISMATCH, "on the GPU the reference returns %zu tensors, the candidate %d",
			json_array_size(outputs), tape->noutputs);
	for (int i = 0; !rc && i < tape->noutputs; i++)
		rc = output_read(s, json_array_get(outputs, (size_t)i), &tape->outputs[i], t, err);
	return rc;
}

/* ---- one trial ---- */

/* Parameters that the candidate calls otherwise are constants without values at these sizes: which
 * parameter each stands for is known from the judged tape, of which this one has the buffers. -1
 * where one stands for none. */
static int params_add(const struct trace *judged, const struct trace *large, const struct oracle_data *d,
	const struct stock_trial *t, struct runner_given *params)
{
	const struct oracle_trial *small = oracle_first_trial(d);
	int *of = xcalloc((size_t)judged->tape->nbuffers + 1, sizeof *of), added = 0;
	if (small) params_stand_in(judged->tape, d->variants[0].state, small->params, small->nparams, of);
	for (int b = 0; b < large->tape->nbuffers && small && added >= 0; b++) {
		const struct tape_buffer *tb = &large->tape->buffers[b];
		if (tb->kind != TAPE_CONST || !tb->name || !tb->name[0]) continue;
		const char *name = of[b] >= 0 ? small->params[of[b]].name : NULL;
		int p = 0;
		while (name && p < t->nparams && strcmp(t->params[p].name, name)) p++;
		if (!name || p == t->nparams) {
			added = -1;
			break;
		}
		params[added] = t->params[p];
		params[added].name = tb->name;
		params[added++].for_const = true;
	}
	free(of);
	return small ? added : -1;
}

/* The replay. 0 with the outputs where they are compared; ERR_MISMATCH with the runner's fault. */
static int trial_replay(struct grading *g, const struct trace *judged, const struct trace *large,
	const struct stock_trial *t, struct runner_fault *fault, struct err *err)
{
	struct runner_trial rt = {.ninputs = t->ninputs,
		.inputs = t->inputs,
		.is_overlapped = true,
		.deadline_ms = g->s->limits.replay_timeout_ms,
		.shared_given_bytes = t->given_bytes,
		.shared_outputs_bytes = t->outputs_bytes};
	/* The reference's parameters come from its process; those that only the
	 * candidate has are made here. */
	rt.params = xcalloc((size_t)(t->nparams + large->tape->nbuffers) + 1, sizeof *rt.params);
	memcpy(rt.params, t->params, (size_t)t->nparams * sizeof *rt.params);
	for (int p = 0; p < t->nparams; p++) rt.params[p].read_offset = -1;
	int added = params_add(judged, large, g->oracle, t, rt.params + t->nparams);
	if (added < 0) {
		free(rt.params);
		snprintf(fault->code, sizeof fault->code, "unshared");
		snprintf(fault->text, sizeof fault->text, "parameters of its own have no values at these sizes");
		return ERR_MISMATCH;
	}
	rt.nparams = t->nparams + added;
	memcpy(rt.output_offset, t->offset, sizeof t->offset);

	/* A runner that failed is not used again, unless memory merely could not be
	 * mapped: nothing ran then. */
	uint64_t deadline = deadline_in_ms(rt.deadline_ms + ATTEMPT_GPU_GRACE_MS);
	struct runner_data data = {t->fds[0], t->fds[1], NULL, NULL};
	struct runner_result r = {0};
	int rc = runner_try(&g->gpu_runner, &rt, large->tape->noutputs, &data, deadline, &r, err);
	if (!rc) rc = runner_result_check(&r, large->tape, err);
	free(rt.params);
	g->gpu_runner.is_tainted |= rc || (r.has_fault && strcmp(r.fault.code, "unshared"));
	if (!rc && r.has_fault) {
		*fault = r.fault;
		rc = ERR_MISMATCH;
	} else if (rc && rc != ERR_INFRA) {
		rc = gpu_runner_lost(g, rc, err);
	}
	if (!rc) g->v->device.seconds += (double)r.run_ns * 1e-9;
	runner_result_release(&r);
	return rc;
}

/* The sentence about one output that differs. */
static void difference_text(
	const json_t *told, int output, const struct tape_view *v, double tolerance, char *text, size_t len)
{
	const char *expected = json_string_value(json_object_get(told, "expected")),
			   *found = json_string_value(json_object_get(told, "found"));
	char place[320];
	tape_index_text(v->ndim, v->shape, json_integer_value(json_object_get(told, "first")), place, sizeof place);
	snprintf(text, len,
		"output %d: %lld of %lld elements differ, first at %s: expected %.24s, found %.24s (scaled error %.3g, bound "
		"%.3g)",
		output, (long long)json_integer_value(json_object_get(told, "mismatches")), (long long)tape_view_elements(v),
		place, expected ? expected : "?", found ? found : "?", json_real_or(json_object_get(told, "error"), INFINITY),
		tolerance);
	text_make_printable(text);
}

/* Asks the task's process what the outputs are worth. 0 with *differ; ERR_MISMATCH with
 * why it could not say. */
static int trial_compare(struct grading *g, struct stock_job *s, const struct stock_trial *t, const struct tape *tape,
	bool *differ, char *text, size_t len, struct err *err)
{
	json_t *bounds = json_array(), *answer = NULL;
	*differ = false;
	for (int i = 0; i < t->noutputs; i++) json_array_append_new(bounds, json_real(t->tolerance[i]));
	json_t *question = json_pack("{s:o}", "compare", bounds);
	char *words = json_dumps(question, JSON_COMPACT);
	json_decref(question);
	/* A process that is gone shows when its answer is waited for. */
	msg_send(s->job.data_fd, words, strlen(words), NULL, 0, s->deadline, NULL);
	free(words);
	int rc = next(s, &answer, NULL, NULL, text, len, err);
	const json_t *told = json_object_get(answer, "compared");
	if (!rc && json_array_size(told) != (size_t)t->noutputs) {
		snprintf(text, len, "the reference's process made no sense");
		rc = ERR_MISMATCH;
	}
	for (int i = 0; i < t->noutputs && !rc; i++) {
		const json_t *one = json_array_get(told, (size_t)i);
		double error = json_real_or(json_object_get(one, "error"), INFINITY);
		if (!(g->v->device.stock_error_max >= error)) g->v->device.stock_error_max = error;
		if (!json_integer_value(json_object_get(one, "mismatches")) && error <= t->tolerance[i]) continue;
		if (!*differ) difference_text(one, i, &tape->outputs[i], t->tolerance[i], text, len);
		*differ = true;
	}
	json_decref(answer);
	return rc;
}

/* What a fault of the runner's means: nothing where the GPU had no room or no way, else a verdict,
 * which is left in g->v. */
static int fault_judge(struct grading *g, const struct runner_fault *f, struct stock_result *out, struct err *err)
{
	bool is_room = !strcmp(f->code, "no-room") || !strcmp(f->code, "memory");
	if (strcmp(f->code, "unshared") && !is_room) return gpu_fault_end(g, f, NULL, err);
	snprintf(out->why, sizeof out->why, "%.200s", f->text);
	return GRADE_ON;
}

/* The next trial. GRADE_ON with out->why where it was not judged, and is_over where
 * no further one will be. */
static int trial_judge(struct grading *g, struct stock_job *s, const struct trace *judged, const struct trace *large,
	struct stock_result *out, bool *is_over, struct err *err)
{
	struct stock_trial t = {.fds = {-1, -1}};
	struct runner_fault fault = {.row = -1};
	json_t *message = NULL;
	int fds[WORKER_FDS_MAX], nfds = WORKER_FDS_MAX;
	char text[sizeof out->why] = "";
	bool differ = false;
	/* The task's process says what comes: the end, a trial that it has no room for,
	 * or one with its memory. */
	int rc = next(s, &message, fds, &nfds, out->why, sizeof out->why, err);
	s->is_done = !rc && json_object_get(message, "done");
	*is_over = rc || s->is_done;
	if (*is_over) {
		json_decref(message);
		return rc == ERR_MISMATCH ? GRADE_ON : rc;
	}
	const json_t *o = json_object_get(message, "trial");
	const char *skipped = json_string_value(json_object_get(o, "skipped")),
			   *distribution = json_string_value(json_object_get(o, "distribution"));
	if (skipped) {
		snprintf(out->skipped, sizeof out->skipped, "%.60s: %.100s", distribution ? distribution : "", skipped);
		for (int i = 0; i < nfds; i++) close(fds[i]);
		json_decref(message);
		return GRADE_ON;
	}
	/* Replayed here and compared there. What goes wrong on our side ends the
	 * trials without a verdict. */
	rc = trial_read(s, message, fds, nfds, large->tape, &t, err);
	if (rc) snprintf(out->why, sizeof out->why, "%.200s", err->text);
	if (rc) *is_over = true;
	if (!rc) {
		rc = trial_replay(g, judged, large, &t, &fault, err);
		*is_over = rc != 0;
		if (rc == ERR_MISMATCH) rc = fault_judge(g, &fault, out, err);
		else if (!rc) rc = trial_compare(g, s, &t, large->tape, &differ, text, sizeof text, err);
		if (rc == ERR_MISMATCH) snprintf(out->why, sizeof out->why, "%s", text);
		*is_over |= rc != 0;
	}
	/* The first trial has the task's own inputs; a difference in a later one alone is fragile. */
	if (!*is_over) {
		g->v->device.stock_trials++;
		if (differ)
			rc = grade_end(g, VERDICT_WRONG, STAGE_CORRECTNESS,
				g->v->device.stock_trials > 1 ? "fragile" : "gpu-mismatch", 0, "on the GPU, with %.40s inputs: %.400s",
				distribution ? distribution : "its", text);
	}
	trial_release(&t);
	return rc == ERR_MISMATCH || rc == ERR_FORMAT || rc == ERR_RANGE || rc == ERR_LIMIT ? GRADE_ON : rc;
}

/* What a candidate that is settled leaves: the trial that was being made is dropped, so that the
 * process can wait for the next one. */
static void drain(struct stock_job *s)
{
	char why[16];
	struct err err = {0};
	for (bool is_over = false; !is_over && !s->is_done;) {
		json_t *message = NULL;
		int fds[WORKER_FDS_MAX], nfds = WORKER_FDS_MAX;
		is_over = next(s, &message, fds, &nfds, why, sizeof why, &err) != 0;
		for (int i = 0; i < nfds && !is_over; i++) close(fds[i]);
		s->is_done = !is_over && json_object_get(message, "done");
		bool waits = !is_over && json_object_get(json_object_get(message, "trial"), "outputs");
		if (waits) is_over = msg_send(s->job.data_fd, "{\"stop\":true}", 13, NULL, 0, s->deadline, NULL) != 0;
		json_decref(message);
	}
}

int stock_step(struct grading *g, struct stock_job *s, const struct trace *judged, const struct trace *large,
	struct stock_result *out, struct err *err)
{
	bool is_over = false;
	*out = (struct stock_result){0};
	/* While the task's process computes, the runner takes the tape of these sizes. */
	int rc = gpu_start(g, large, err);
	bool is_larger = rc == GRADE_END && !strcmp(g->v->reason, "memory-gpu");
	if (is_larger || (rc < 0 && g->is_gpu_full)) {
		snprintf(out->why, sizeof out->why, "%.200s", is_larger ? g->v->detail : err->text);
		return GRADE_ON;
	}
	while (!rc && !is_over) rc = trial_judge(g, s, judged, large, out, &is_over, err);
	if (rc == GRADE_END && !is_over) drain(s);
	return rc;
}
