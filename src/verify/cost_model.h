/* cost_model: predicted seconds of a candidate (the vm's counts, the real compile's resources) and
 * of the reference (the oracle's log), both by cost.h's one model on one card of its table.
 * docs/cost-model.md. */
#ifndef HONE_COST_MODEL_H
#define HONE_COST_MODEL_H
#include "base/dtype.h"
#include "cost/cost.h"
#include "runner/runner.h"

/* A launch of a library: what it must move and compute. Its kernels are taken to be as good as such
 * kernels are: coalesced, fully occupied, each byte once. */
struct cost_launch {
	double bytes, flops, special, dot_flops;
};
/* Which units matrix products of the reference run on: fp32 pipes (strict), tf32 or half tensor
 * cores. */
enum cost_dot { COST_DOT_FP32, COST_DOT_TF32, COST_DOT_HALF, COST_DOT_COUNT };
enum cost_dot cost_dot_of(enum dtype task, bool tf32);

double cost_launch_s(const struct cost_launch *l, enum cost_dot dot, const struct vm_gpu *gpu);
/* binaries: of the tape's kernels, by their number; a kernel beyond nbinaries (nothing was
 * compiled) has the default of 4 warps. */
double cost_candidate_s(const struct runner_row_cost *rows, int count, const struct vm_binary *binaries, int nbinaries,
	const struct vm_gpu *gpu);
/* The oracle's {"eager": [...], "fused": [...]}: the smaller of the two sums. NaN when there is
 * nothing to sum. */
double cost_reference_s(
	const json_t *cost, enum cost_dot dot, const struct vm_gpu *gpu, double *eager_s, double *fused_s);
/* From compile's result (docs/worker-protocol.md). */
struct vm_binary cost_binary(const json_t *result);
#endif
