/* aim: a search, inside one trial's inputs, for elements that bring lanes of open sites to the
 * sides that no trial took (vm.h, struct vm_aim). replay.c calls it after a trial on the vm, with
 * the trial's data still in the launcher's memory. */
#ifndef HONE_AIM_H
#define HONE_AIM_H
#include "runner/launcher.h"
#include "runner/runner.h"
#include "tape/tape.h"

struct aim_place {
	struct launcher *launcher;
	const struct tape *tape;
	const bool *is_skipped;     // (tape->nrows)
	const bool *is_read_only;   // (tape->nbuffers): no row writes there
	const int *given;           // (tape->nbuffers): which input or parameter it is; -1: none
	uint64_t deadline_ns;       /* the trial's */
};
/* Elements of inputs and parameters that have to be other for what was found;
 * appended to out->placed. */
void aim_search(const struct aim_place *at, const struct runner_trial *t, struct runner_coverage *out);
#endif
