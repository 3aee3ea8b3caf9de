/* vm_sample: counts of a launch of which a sample of programs runs. Which ones, and how their
 * counts become the launch's. Private to the vm room; vm.h says what a sampled launch is. */
#ifndef HONE_VM_SAMPLE_H
#define HONE_VM_SAMPLE_H
#include "base/base.h"
#include "vm/core/program.h"
#include "vm/core/state.h"
#include "vm/meter/meter.h"

#define VM_SAMPLE_MAX 240   /* programs; a granule's byte names the last of them that touched it */

/* Programs that stand for each other: of `programs`, those from `first` on
 * in the plan's list run. */
struct vm_stratum {
	int64_t programs;
	int first;
	int count;
};
struct vm_sample_plan {
	bool is_all; /* every program runs, once, in order; no strata */
	int nstrata;
	struct vm_stratum *strata;
	int count;
	int64_t *numbers;   // (count): of programs, stratum by stratum
};
/* c: a context with the launch's arguments, on which branches are followed. ERR_UNSUPPORTED with
 * the reason where counts do not follow from arguments and grid alone, or where even a sample takes
 * too long. */
int vm_sample_plan_make(
	const struct vm_launch_options *o, struct vm_ctx *c, int64_t programs, struct vm_sample_plan *out, struct err *err);
void vm_sample_plan_release(struct vm_sample_plan *plan);

/* The sums of a running sample. begin and end stand around each program's run; a stratum's programs
 * follow each other. */
struct vm_sample;
struct vm_sample *vm_sample_create(const struct vm_sample_plan *plan, struct vm_ctx *c);
void vm_sample_free(struct vm_sample *s);
void vm_sample_begin(struct vm_sample *s);
void vm_sample_end(struct vm_sample *s, int stratum);
/* After the last program: the launch's counts by line, its sums, and how far they may be off. */
void vm_sample_finish(struct vm_sample *s, int64_t programs, struct vm_report *report);
#endif
