/* cost_model: predicted seconds of a candidate (the vm's counts, the real compile's resources) and
 * of the reference (the oracle's log), both by cost.h's one model on one card of its table.
 * docs/cost-model.md. */
#ifndef HONE_COST_MODEL_H
#define HONE_COST_MODEL_H
#include "cost/cost.h"
#include "runner/runner.h"

/* Seconds of all of a candidate's rows. compiled: the compile worker's results for the
 * tape's kernels, by their number; a kernel without one (nothing was compiled) has the
 * default of 4 warps. *error: the relative standard error that sampled launches give the
 * sum, weighed by their times. */
double cost_candidate_s(
	const struct runner_row_cost *rows, int count, const json_t *compiled, const struct vm_gpu *gpu, double *error);
/* The limit (vm_limit_name) of the launches that take most of those seconds together. */
const char *cost_candidate_limit(
	const struct runner_row_cost *rows, int count, const json_t *compiled, const struct vm_gpu *gpu);
/* The oracle's {"eager": [...], "fused": [...]}: eager is the sum of what PyTorch's own operators
 * take (cost_operator_s), fused of launches that are as good as can be (cost_launch_s); NaN where
 * there is nothing to sum.
 */
void cost_reference_s(
	const json_t *cost, enum cost_dot dot, const struct vm_gpu *gpu, double *eager_s, double *fused_s);
#endif
