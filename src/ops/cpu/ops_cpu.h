/* ops_cpu: what the files of the CPU backend share. Each family of operations is one file that
 * fills its entries of the table through ISA(<family>_entries); the files are compiled once for
 * AVX2 and once for AVX-512 (simd.h says how). */
#ifndef HONE_OPS_CPU_H
#define HONE_OPS_CPU_H
#include "ops/ops.h"

#define HEAD_DIM_MAX 256              /* of one attention head */
#define SCRATCH_FLOATS (192 * 1024)   /* per thread: attention_backward needs most */
#define PARTIALS_MAX 1024             /* chunks of a reduction over a flat array */

/* A second operand packed once for all of its products: panels of NR columns, each (K, NR) in one
 * of the forms of panels.h. */
struct prepared {
	const float *b;
	int N, K;
	const struct panel_form *form;
	uint8_t *panels;
	size_t panel_bytes;
};

struct ops_context {
	struct pool *pool;
	int threads;
	bool avx512;
	float *scratch; /* (threads, SCRATCH_FLOATS) */
	double partials[PARTIALS_MAX];
	struct prepared *prepared;
	int nprepared;
	size_t prepared_bytes;
};

static inline float *scratch_of(const struct ops_context *c, int thread)
{
	return c->scratch + (size_t)thread * SCRATCH_FLOATS;
}
/* Rows per chunk so that a chunk is worth waking a thread for; depends on sizes alone. */
static inline int64_t rows_grain(int64_t row_cost)
{
	return row_cost >= 16384 ? 1 : 16384 / (row_cost > 0 ? row_cost : 1);
}

#define FAMILIES(X) X(matmul) X(panels) X(norm) X(rope) X(attention) X(attention_backward) X(mlp) X(head) X(optim)
#define X(family) void family##_entries_avx2(struct ops *t); void family##_entries_avx512(struct ops *t);
FAMILIES(X)
#undef X
#endif
