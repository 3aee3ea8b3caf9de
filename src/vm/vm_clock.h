/* vm_clock: a launch's programs on a clock of their own, for kernels in which one may wait for
 * another: how long the whole launch takes where each begins, waits and ends at its time. */
#ifndef HONE_VM_CLOCK_H
#define HONE_VM_CLOCK_H
#include "vm/core/program.h"
#include "vm/core/state.h"

struct vm_clock {
	int64_t programs; /* of the launch */
	uint64_t deadline_ns;
	int64_t cycles; /* from the launch's start to its last program's end */
};
/* Runs all programs on the n contexts given, each of which has the launch's arguments and counts
 * costs; so many are resident. False: a fault, a wait without an end, or too much to run. */
bool vm_clock_run(struct vm_clock *k, const struct vm_program *p, struct vm_ctx *const *ctx, int n);
#endif
