/* replay: executes a tape in this process, with a launcher (launcher.h). Used by hone-runner's main
 * and by tests. */
#ifndef HONE_REPLAY_H
#define HONE_REPLAY_H
#include "runner/launcher.h"
#include "runner/runner.h"
#include "tape/tape.h"

struct replay;
/* The data of one trial: inputs and parameters, at the offsets that the trial names. */
struct replay_given {
	const uint8_t *data; /* (bytes) */
	int64_t bytes;
	const struct launcher_library *library; /* who computes library rows; NULL: one on the data path is a fault */
	const struct launcher_clock *clock;     /* who asks, of a trial that is timed; NULL: nobody */
	const struct launcher_shared *shared;   /* on a GPU: in place of `data` and of the outputs; NULL: host memory */
	void (*begun)(void); /* called when all memory is filled and the first row comes next; NULL: nobody asks */
};
/* Takes the tape over (also on failure), and the launcher. On failure *fault says why. binaries may
 * be NULL for the vm. */
int replay_create(struct tape *t, struct launcher *l, const struct runner_binaries *binaries, struct replay **out,
	struct runner_fault *fault);
void replay_free(struct replay *r);
/* Another tape of the same candidate: its kernels are kept. */
int replay_reload(struct replay *r, struct tape *t, const struct runner_binaries *binaries, struct runner_fault *fault);
const struct tape *replay_tape(const struct replay *r);
/* The candidate is done: nothing of it is left, and the launcher is as good as new. On failure this
 * process must end. */
int replay_reset(struct replay *r, struct runner_fault *fault);
/* The first line of a kernel on the data path that has what is asked for; -1 when there is none:
 *   RUNNER_TF32    a tf32 dot on fp32 operands
 *   RUNNER_ORDER   an operation whose order is open (vm_kernel_may_depend_on_order)
 *   RUNNER_NARROW  what rounds fp32 to less on its way to memory (vm_kernel_narrows),
 *                  or such a cast by the host
 *   RUNNER_DATA    what makes costs depend on data (vm_kernel_cost_depends_on_data)
 *   RUNNER_FP8     a dot on fp8 operands that leaves its sums in the tensor
 *                  core (vm_kernel_sums_fp8) */
int replay_line(const struct replay *r, enum runner_question question);
/* The launcher cannot be used any more: this process must end. */
bool replay_is_spent(const struct replay *r);
/* One trial: fills every buffer anew, runs all rows, checks canaries and what may not change,
 * writes dense outputs to `outputs` (bytes). The rows' deadline counts from the first row on. */
void replay_run(struct replay *r, const struct runner_trial *trial, const struct replay_given *given, uint8_t *outputs,
	int64_t outputs_bytes, struct runner_result *out);
/* What the tape's rows cost, with a launcher that samples: no data, no outputs. out->has_fault with
 * the reason where that cannot be told. Of trial: compiled, gpu, deadline_ms, seed. */
void replay_price(struct replay *r, const struct runner_trial *trial, struct runner_result *out);
#endif
