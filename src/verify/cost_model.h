/* cost_model: seconds on a model GPU from counts, for the candidate (the vm's counts) and the reference (the oracle's). docs/cost-model.md. */
#ifndef HONE_COST_MODEL_H
#define HONE_COST_MODEL_H
#include "runner/runner.h"

/* One launch. bytes: distinct bytes that must cross DRAM; sectors: 32-byte pieces that its instructions ask for. */
struct cost_launch { double bytes, sectors, flops, special, dot_flops, programs; };
/* Which units matrix products run on: fp32 pipes (strict), tf32 or half tensor cores. */
enum cost_dot { COST_DOT_FP32, COST_DOT_TF32, COST_DOT_HALF, COST_DOT_COUNT };
enum cost_dot cost_dot_of(enum dtype task, bool tf32);

double cost_launch_s(const struct cost_launch *l, enum cost_dot dot);
double cost_candidate_s(const struct runner_row_cost *rows, int count, enum cost_dot dot);
/* The oracle's {"eager": [...], "fused": [...]}: the smaller of the two sums. NaN when there is nothing to sum. */
double cost_reference_s(const json_t *cost, enum cost_dot dot, double *eager_s, double *fused_s);
#endif
