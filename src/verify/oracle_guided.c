/* oracle_guided: one reference in a process of its own, asked for one trial after another: inputs
 * by recipe at one variant's sizes, or the sizes that a candidate names.
 *
 * The process holds a stranger's task as the oracle's does, and is believed as little: what it
 * sends is read by the same functions. A process that ends or falls silent ends the search for
 * guided inputs and settles nothing. */
#include "base/base.h"
#include "task/task.h"
#include "verify/oracle.h"
#include <stdlib.h>
#include <unistd.h>

#define MESSAGE_BYTES_MAX ((size_t)16 << 20)
#define FIRST_NUMBER 1000 /* of a guided trial's seed: the ordinary trials have the numbers below */
#define FIRST_SIZED 2000 /* of a trial's at sizes that a candidate names */

struct oracle_session {
	struct job job;
	const struct task *task;
	const struct oracle_data *data;
	const struct oracle_options *options;
	int variant;
	uint64_t deadline;
	struct str text;
	char *own_fault; /* what our own code in the process failed by; NULL: it did not */
};

/* more: what the job says beside the reference, {key: value}; taken over. */
static int session_start(struct oracle_cache *c, const struct task *task, const struct oracle_data *d, int variant,
	json_t *more, struct oracle_session **out, struct err *err)
{
	struct zygote *z;
	const struct oracle_options *o = oracle_cache_options(c, &z);
	struct oracle_session *s = xcalloc(1, sizeof *s);
	*s = (struct oracle_session){.task = task, .data = d, .options = o, .variant = variant};
	json_t *job = json_pack("{s:s, s:i}", "source", d->variants[variant].source, "init_seed", ORACLE_INIT_SEED);
	json_object_update(job, more);
	json_decref(more);
	struct job_limits limits = oracle_limits(o, &s->deadline);
	int rc = job_start(z, &limits, job, &s->job, err);
	if (rc) free(s);
	else *out = s;
	return rc;
}

int oracle_session_start(struct oracle_cache *c, const struct task *task, const struct oracle_data *d, int variant,
	struct oracle_session **out, struct err *err)
{
	struct zygote *z;
	const struct oracle_options *o = oracle_cache_options(c, &z);
	json_t *more = json_pack("{s:{s:s, s:I}}", "guided", "kind", d->variants[variant].kind, "probe_seed",
		(json_int_t)oracle_trial_seed(o->seed, task, 0));
	return session_start(c, task, d, variant, more, out, err);
}

int oracle_sized_start(struct oracle_cache *c, const struct task *task, const struct oracle_data *d,
	struct oracle_session **out, struct err *err)
{
	return session_start(c, task, d, 0, json_pack("{s:b}", "sized", 1), out, err);
}

void oracle_session_end(struct oracle_session *s)
{
	if (!s) return;
	job_end(&s->job);
	str_release(&s->text);
	free(s->own_fault);
	free(s);
}

int oracle_session_fault(const struct oracle_session *s, struct err *err)
{
	if (!s || !s->own_fault) return 0;
	return err_set(err, ERR_INFRA, "our own code around the task's reference failed: %.600s", s->own_fault);
}

/* What the process answered: a trial with its data, or why there is none. */
static int answer_take(
	struct oracle_session *s, const json_t *m, const int *fds, int nfds, struct oracle_trial *t, struct err *err)
{
	const json_t *trial = json_object_get(m, "trial");
	const char *name = "", *skipped = NULL;
	int rc = json_get_str(trial, "trial", "distribution", &name, err);
	if (!rc) rc = json_opt_str(trial, "trial", "skipped", &skipped, err);
	if (rc) return rc;
	snprintf(t->distribution, sizeof t->distribution, "%s", name);
	text_make_printable(t->distribution);
	if (skipped) {
		snprintf(t->why, sizeof t->why, "%s", skipped);
		return 0;
	}
	if (nfds != 2) return err_set(err, ERR_FORMAT, "a guided trial came with %d descriptors", nfds);
	rc = oracle_trial_read(trial, fds[0], fds[1], t, err);
	if (rc) return rc;
	t->counts = true;
	oracle_trial_calibrate(s->data, t, s->options->tf32);
	if (!t->is_guided) return 0;
	for (int i = 0; i < t->noutputs; i++) t->bounds[i].tolerance = t->bounds[i].odd_tolerance;
	for (int i = 0; i < t->nafter; i++) t->after[i].bound.tolerance = t->after[i].bound.odd_tolerance;
	return 0;
}

/* The process's next message; descriptors are the caller's to close. */
static int message_next(struct oracle_session *s, json_t **out, int *fds, int *nfds, struct err *err)
{
	*out = NULL;
	*nfds = WORKER_FDS_MAX;
	int rc = oracle_next(&s->job, s->options, MESSAGE_BYTES_MAX, &s->text, fds, nfds, s->deadline, err);
	if (rc) *nfds = 0;
	if (!rc) rc = json_parse(s->text.data, s->text.len, "a trial made for a candidate", out, err);
	/* A fault is the last message; whose it is says its code. */
	const json_t *fault = json_object_get(*out, "fault");
	const char *code = json_string_value(json_object_get(fault, "code")),
			   *text = json_string_value(json_object_get(fault, "text"));
	if (code && text && !strcmp(code, ORACLE_FAULT_OURS) && !s->own_fault) s->own_fault = xstrdup(text);
	return rc;
}

static int session_say(struct oracle_session *s, json_t *message, struct err *err)
{
	char *text = json_dumps(message, JSON_COMPACT);
	int rc = msg_send(s->job.data_fd, text, strlen(text), NULL, 0, s->deadline, err);
	free(text);
	json_decref(message);
	return rc;
}

int oracle_sized_ask(struct oracle_session *s, int number, const struct oracle_side *side, struct err *err)
{
	return session_say(s,
		json_pack("{s:s, s:I, s:I, s:i, s:O*, s:I, s:s*, s:I}", "side", side->side, "number", (json_int_t)side->number,
			"modulus", (json_int_t)side->modulus, "way", side->way, "sets", side->sets, "seed",
			(json_int_t)oracle_trial_seed(s->options->seed, s->task, FIRST_SIZED + number), "like", side->like, "probe",
			(json_int_t)oracle_trial_seed(s->options->seed, s->task, 0)),
		err);
}

int oracle_sized_next(struct oracle_session *s, struct oracle_sized *out, char *why, size_t len, struct err *err)
{
	int fds[WORKER_FDS_MAX], nfds;
	json_t *m;
	*out = (struct oracle_sized){.trial = {.given_fd = -1, .is_random_params = true}};
	int rc = message_next(s, &m, fds, &nfds, err);
	const char *end = json_string_value(json_object_get(m, "end"));
	/* Strings of both point into the message, which goes with the trial. */
	out->trial.message = m;
	out->trial.sized = &out->variant;
	if (!rc && end) {
		snprintf(why, len, "%s", end);
		out->way = (int)json_integer_value(json_object_get(m, "way"));
		rc = 1;
	}
	if (!rc) rc = oracle_variant_read(json_object_get(m, "variant"), &out->variant, err);
	if (!rc) rc = answer_take(s, m, fds, nfds, &out->trial, err);
	for (int i = 0; i < nfds; i++) close(fds[i]);
	if (rc) oracle_trial_release(&out->trial);
	return rc;
}

int oracle_session_trial(struct oracle_session *s, int number, json_t *edits, struct oracle_trial *out, struct err *err)
{
	*out = (struct oracle_trial){.given_fd = -1, .variant = s->variant, .is_guided = true, .is_random_params = true};
	json_t *recipe = json_pack("{s:I, s:o}", "seed",
		(json_int_t)oracle_trial_seed(s->options->seed, s->task, FIRST_NUMBER + number), "edits", edits);
	int fds[WORKER_FDS_MAX], nfds = 0;
	json_t *m = NULL;
	int rc = session_say(s, recipe, err);
	/* One answer to each recipe. */
	if (!rc) rc = message_next(s, &m, fds, &nfds, err);
	out->message = m;
	if (!rc) rc = answer_take(s, m, fds, nfds, out, err);
	for (int i = 0; i < nfds; i++) close(fds[i]);
	if (rc) oracle_trial_release(out);
	return rc;
}
