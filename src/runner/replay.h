/* replay: executes a tape in this process, on the vm. Used by hone-runner's main and by tests. */
#ifndef HONE_REPLAY_H
#define HONE_REPLAY_H
#include "runner/runner.h"
#include "tape/tape.h"

struct replay;
struct replay_given {
	const uint8_t *data;
	int64_t bytes;
};
/* Takes the tape over (also on failure). On failure *fault says why. memory_bytes bounds all
 * buffers with their origin tags. */
int replay_create(struct tape *t, int64_t memory_bytes, struct replay **out, struct runner_fault *fault);
void replay_free(struct replay *r);
/* Another tape of the same candidate: its kernels are kept. */
int replay_reload(struct replay *r, struct tape *t, struct runner_fault *fault);
const struct tape *replay_tape(const struct replay *r);
/* Line of the first tf32 dot on fp32 operands in a kernel on the data path; -1 when there is none. */
int replay_tf32_line(const struct replay *r);
/* Line of the first operation on the data path that rounds fp32 to fp16, bf16 or fp8 on its way to memory
 * (vm_kernel_narrows), or of such a cast by the host; -1 when there is none. */
int replay_narrow_line(const struct replay *r);
/* Line of the first operation on the data path whose order is open (vm_kernel_may_depend_on_order);
 * -1 when there is none. */
int replay_order_line(const struct replay *r);
/* One trial: fills every buffer anew, runs all rows, checks canaries and what may not change,
 * writes dense outputs to `outputs` (bytes). */
void replay_run(struct replay *r, const struct runner_trial *trial, const struct replay_given *given, uint8_t *outputs,
	int64_t outputs_bytes, struct runner_result *out);
#endif
