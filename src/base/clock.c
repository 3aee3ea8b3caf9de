/* Time: one monotonic clock for the whole program, in nanoseconds. */
#include "base/base.h"
#include <errno.h>
#include <time.h>

uint64_t clock_ns(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

uint64_t deadline_in_ms(int64_t ms) { return clock_ns() + (uint64_t)MAX(ms, 0) * 1000000u; }

/* Sleeps to an absolute time, so that signals do not make it longer. */
void sleep_ms(int ms)
{
	if (ms <= 0) return;
	uint64_t end = deadline_in_ms(ms);
	struct timespec t = {.tv_sec = (time_t)(end / 1000000000u), .tv_nsec = (long)(end % 1000000000u)};
	while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &t, NULL) == EINTR) {}
}
