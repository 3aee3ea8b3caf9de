/* vm_schedule: a launch's programs in turns that switch at atomics, so that what depends on who
 * comes first shows. */
#ifndef HONE_VM_SCHEDULE_H
#define HONE_VM_SCHEDULE_H
#include "vm/core/program.h"
#include "vm/core/state.h"
#include "vm/exec/exec.h"

#define VM_RESIDENT_MAX 16
#define VM_SWITCHES_MAX ((uint64_t)1 << 16)

/* Runs all programs on the n contexts given, each of which has the launch's arguments. 1 after a
 * fault, with the number of its program in *faulted. */
int vm_schedule(const struct vm_launch_options *o, const struct vm_program *p, struct vm_ctx *const *ctx, int n,
	int64_t programs, int64_t *faulted);
#endif
