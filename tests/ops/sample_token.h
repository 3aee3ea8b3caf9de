/* One draw alone: the row as this draw sees it, then the draw. */
#ifndef TESTS_SAMPLE_TOKEN_H
#define TESTS_SAMPLE_TOKEN_H
#include "ops/cpu/ops_cpu.h"

static inline int32_t sample_token(
	const float *logits, int V, const struct ops_draw *d, float u, float *logprob, struct arena *scratch)
{
	float own;
	struct sampled_row row = sampled_row(logits, V, d, scratch);
	return sampled_draw(&row, u, logprob ? logprob : &own);
}
#endif
