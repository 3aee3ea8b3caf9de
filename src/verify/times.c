/* times: where the time of verdicts goes, by step. A thread that grades has a lap clock: the time
 * since its last lap belongs to the step that ran then. Processes that worked for it say how much
 * processor time they took when they have ended; each counts for the step that it was started for.
 *
 * Sums are kept for a verifier, and are no part of a verdict. */
#include "verify/verify_internal.h"
#include "base/base.h"
#include <time.h>

const char *verify_step_name(enum verify_step s)
{
#define X(e, t) t,
	static const char *const names[] = {VERIFY_STEP_TABLE(X)};
#undef X
	return s >= 0 && s < VERIFY_STEP_COUNT ? names[s] : "unknown";
}

static uint64_t thread_cpu_ns(void)
{
	struct timespec t = {0};
	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

void times_lap(struct grading *g, enum verify_step next)
{
	struct lap *l = &g->lap;
	uint64_t wall = clock_ns(), cpu = thread_cpu_ns();
	if (l->wall_ns) {
		l->spent.wall_s[l->step] += (double)(wall - l->wall_ns) * 1e-9;
		l->spent.cpu_s[l->step] += (double)(cpu - l->cpu_ns) * 1e-9;
	}
	l->step = next;
	l->wall_ns = wall;
	l->cpu_ns = cpu;
}

void times_child(struct grading *g, enum verify_step step, double cpu_s)
{
	g->lap.spent.cpu_s[step] += cpu_s;
	g->lap.spent.processes[step]++;
}

void times_late(struct verify_shared *s, enum verify_step step, double cpu_s)
{
	pthread_mutex_lock(&s->times_lock);
	s->times.cpu_s[step] += cpu_s;
	s->times.processes[step]++;
	pthread_mutex_unlock(&s->times_lock);
}

void times_add(struct grading *g)
{
	struct verify_times *sum = &g->s->times;
	times_lap(g, g->lap.step);
	pthread_mutex_lock(&g->s->times_lock);
	sum->count++;
	for (int i = 0; i < VERIFY_STEP_COUNT; i++) {
		sum->wall_s[i] += g->lap.spent.wall_s[i];
		sum->cpu_s[i] += g->lap.spent.cpu_s[i];
		sum->processes[i] += g->lap.spent.processes[i];
	}
	pthread_mutex_unlock(&g->s->times_lock);
	g->lap = (struct lap){0};
}
