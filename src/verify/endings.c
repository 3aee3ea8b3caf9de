/* endings: processes of verdicts that are out. A process that was forked from a zygote takes
 * milliseconds to end, since as many pages as it had are dropped, and nobody needs its end before
 * the verdict is told. So it is killed, or its stream is closed, and then handed over to one thread
 * that waits for it while the next candidate is judged.
 *
 * They are bounded in number: whoever would hand over one more than that waits for one to end.
 * Processor time is counted when a process has ended, for the step that it worked for. */
#include "verify/verify_internal.h"
#include "base/base.h"
#include <pthread.h>
#include <stdlib.h>

#define ENDINGS_MAX 32 /* a verdict has three processes that end with it */

/* A job or a vm's runner. */
struct ending {
	bool is_runner;
	struct job job;
	struct runner runner;
	enum verify_step step;
};
struct endings {
	struct verify_shared *s;
	struct ending queue[ENDINGS_MAX]; /* a ring; the first is the one that is waited for */
	int first;
	int count;
	bool is_closing;
	pthread_t thread;
	pthread_mutex_t lock;
	pthread_cond_t has_more;
	pthread_cond_t has_less;
};

/* Waits for one; returns its processor time in seconds. */
static double ended(struct endings *e, struct ending *x)
{
	if (x->is_runner) {
		runner_end(e->s->runners, &x->runner, NULL, 0, NULL);
		return (double)x->runner.child.cpu_us * 1e-6;
	}
	job_end(&x->job);
	return (double)x->job.cpu_ms * 1e-3;
}

static void *endings_main(void *arg)
{
	struct endings *e = arg;
	pthread_mutex_lock(&e->lock);
	for (;;) {
		while (!e->count && !e->is_closing) pthread_cond_wait(&e->has_more, &e->lock);
		if (!e->count) break;
		/* It keeps its place while it is waited for, so that it counts
		 * among those that are left. */
		struct ending x = e->queue[e->first];
		pthread_mutex_unlock(&e->lock);
		times_late(e->s, x.step, ended(e, &x));
		pthread_mutex_lock(&e->lock);
		e->first = (e->first + 1) % ENDINGS_MAX;
		e->count--;
		pthread_cond_broadcast(&e->has_less);
	}
	pthread_mutex_unlock(&e->lock);
	return NULL;
}

int endings_create(struct verify_shared *s, struct endings **out, struct err *err)
{
	struct endings *e = xcalloc(1, sizeof *e);
	e->s = s;
	pthread_mutex_init(&e->lock, NULL);
	pthread_cond_init(&e->has_more, NULL);
	pthread_cond_init(&e->has_less, NULL);
	int rc = pthread_create(&e->thread, NULL, endings_main, e);
	if (!rc) {
		*out = e;
		return 0;
	}
	pthread_cond_destroy(&e->has_more);
	pthread_cond_destroy(&e->has_less);
	pthread_mutex_destroy(&e->lock);
	free(e);
	return err_set(err, ERR_INFRA, "cannot start the thread that waits for processes: %s", strerror(rc));
}

void endings_free(struct endings *e)
{
	if (!e) return;
	pthread_mutex_lock(&e->lock);
	e->is_closing = true;
	pthread_cond_signal(&e->has_more);
	pthread_mutex_unlock(&e->lock);
	pthread_join(e->thread, NULL);
	pthread_cond_destroy(&e->has_more);
	pthread_cond_destroy(&e->has_less);
	pthread_mutex_destroy(&e->lock);
	free(e);
}

void endings_wait(struct endings *e)
{
	if (!e) return;
	pthread_mutex_lock(&e->lock);
	while (e->count) pthread_cond_wait(&e->has_less, &e->lock);
	pthread_mutex_unlock(&e->lock);
}

static void add(struct endings *e, const struct ending *x)
{
	pthread_mutex_lock(&e->lock);
	while (e->count == ENDINGS_MAX) pthread_cond_wait(&e->has_less, &e->lock);
	e->queue[(e->first + e->count++) % ENDINGS_MAX] = *x;
	pthread_cond_signal(&e->has_more);
	pthread_mutex_unlock(&e->lock);
}

void ending_job(struct grading *g, struct job *j, enum verify_step step)
{
	job_stop(j);
	add(g->s->endings, &(struct ending){.job = *j, .step = step});
}

void ending_runner(struct grading *g, struct runner *r, enum verify_step step)
{
	runner_stop(r);
	add(g->s->endings, &(struct ending){.is_runner = true, .runner = *r, .step = step});
}
