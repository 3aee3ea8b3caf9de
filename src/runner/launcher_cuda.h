/* launcher_cuda: rows on one GPU, by the driver's interface (driver.h). The kernels are binaries
 * that the compile service made from the tape's IR; nothing of the candidate's host code is here.
 *
 * Memory is the launcher's own: each buffer lies between two canaries in an allocation of its own.
 * Errors of kernels are facts of the driver (struct runner_fault's codes); most of them leave the
 * process's context useless, and the launcher is_spent. Between two candidates it is reset: what
 * one brought is gone, memory and code, before the next is loaded. */
#ifndef HONE_LAUNCHER_CUDA_H
#define HONE_LAUNCHER_CUDA_H
#include "runner/launcher.h"

/* Opens the driver and the device's context, and proves with a small write that it works. -1 with a
 * sentence in text. memory_bytes bounds all buffers of a tape. */
int launcher_cuda_create(
	int device, int64_t memory_bytes, struct launcher **out, struct runner_device *facts, char *text, size_t len);
/* Before the first tape: allocations have the buffers' own sizes, without canaries, and what nobody
 * wrote stays so, for a sanitizer that watches both (docs/verifier.md, Under tools). */
void launcher_cuda_make_exact(struct launcher *l);
#endif
