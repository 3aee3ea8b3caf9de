/* oracle_guided: one reference in a process of its own, asked for one trial after another.
 *
 * The process holds a stranger's task as the oracle's does, and is believed as little: what it sends is read by the
 * same functions. A process that ends or falls silent ends the search for guided inputs and settles nothing. */
#include "base/base.h"
#include "task/task.h"
#include "verify/oracle.h"
#include <stdlib.h>
#include <unistd.h>

#define MESSAGE_BYTES_MAX ((size_t)16 << 20)
#define FIRST_NUMBER 1000 /* of a guided trial's seed: the ordinary trials have the numbers below */

/* Guided inputs are as odd as their recipes: saturated functions, equal elements. There the orders of rounding of two
 * honest programs differ by more than the reference's own error shows; another side of a comparison differs by more
 * than that. */
#define SLACK 16

struct oracle_session {
	struct job job;
	const struct task *task;
	const struct oracle_data *data;
	const struct oracle_options *options;
	int variant;
	uint64_t deadline;
	struct str text;
};

int oracle_session_start(struct oracle_cache *c, const struct task *task, const struct oracle_data *d, int variant,
	struct oracle_session **out, struct err *err)
{
	struct zygote *z;
	const struct oracle_options *o = oracle_cache_options(c, &z);
	const struct oracle_variant *v = &d->variants[variant];
	struct oracle_session *s = xcalloc(1, sizeof *s);
	*s = (struct oracle_session){.task = task, .data = d, .options = o, .variant = variant};
	json_t *job = json_pack("{s:s, s:i, s:{s:s, s:I}}", "source", v->source, "init_seed", ORACLE_INIT_SEED, "guided",
		"kind", v->kind, "probe_seed", (json_int_t)oracle_trial_seed(o->seed, task, 0));
	struct job_limits limits = oracle_limits(o, &s->deadline);
	int rc = job_start(z, &limits, job, &s->job, err);
	if (rc) free(s);
	else *out = s;
	return rc;
}

void oracle_session_end(struct oracle_session *s)
{
	if (!s) return;
	job_end(&s->job);
	str_release(&s->text);
	free(s);
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
	for (int i = 0; i < t->noutputs; i++) t->bounds[i].tolerance *= SLACK;
	for (int i = 0; i < t->nafter; i++) t->after[i].bound.tolerance *= SLACK;
	return 0;
}

int oracle_session_trial(struct oracle_session *s, int number, json_t *edits, struct oracle_trial *out, struct err *err)
{
	*out = (struct oracle_trial){.given_fd = -1, .variant = s->variant, .is_guided = true, .is_random_params = true};
	json_t *recipe = json_pack("{s:I, s:o}", "seed",
		(json_int_t)oracle_trial_seed(s->options->seed, s->task, FIRST_NUMBER + number), "edits", edits);
	char *text = json_dumps(recipe, JSON_COMPACT);
	int rc = msg_send(s->job.data_fd, text, strlen(text), NULL, 0, s->deadline, err);
	free(text);
	json_decref(recipe);
	/* One answer to each recipe. */
	int fds[WORKER_FDS_MAX], nfds = WORKER_FDS_MAX;
	json_t *m = NULL;
	if (!rc) rc = job_next(&s->job, MESSAGE_BYTES_MAX, &s->text, fds, &nfds, s->deadline, err);
	if (rc) return rc;
	rc = json_parse(s->text.data, s->text.len, "a guided trial", &m, err);
	out->message = m;
	if (!rc) rc = answer_take(s, m, fds, nfds, out, err);
	for (int i = 0; i < nfds; i++) close(fds[i]);
	if (rc) oracle_trial_release(out);
	return rc;
}
