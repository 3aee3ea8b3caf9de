/* few: products of 5 to 256 rows by our own kernel on Hopper, and the thin products that they make
 * beside; linear.cu and rows.cu ask for it. */
#ifndef HONE_CUDA_FEW_CUH
#define HONE_CUDA_FEW_CUH
#include "ops_cuda_internal.h"

#define FEW_MIN 5
#define FEW_MAX 256
#define FEW_WEIGHTS (1 << 23)  /* elements of W from which on it pays: less comes before the thin product is made */
#define TILE_COLUMNS 64        /* of K in a stage; of a thin product that is made beside, at most */

/* Whether this product can be made here. */
bool few_takes(const struct ops_context *, const struct projection *, int T);
/* y = x w^T + bias + add; thin: the tail of x is to be written first, NULL or without x: it
 * stands, or is not read. is_gate: w holds gate | up, y becomes silu(gate) * up of N / 2 columns.
 * The sums may be left waiting. */
void few_run(struct ops_context *, const struct projection *, int T, const struct thin_wait *thin, bool is_gate);
void few_open(struct ops_context *);
static inline unsigned *few_flags(const struct ops_context *c) /* (FEW_FLAGS) */
{
	return (unsigned *)((float *)((char *)c->workspace + LT_WORKSPACE_BYTES) + FEW_PARTIAL);
}
#endif
