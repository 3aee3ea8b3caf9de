/* few: products of 5 to 256 rows by our own kernel on Hopper, and the thin products that they make
 * beside; linear.cu and rows.cu ask for it. */
#ifndef HONE_CUDA_FEW_CUH
#define HONE_CUDA_FEW_CUH
#include "ops_cuda_internal.h"

#define FEW_MIN 5
#define FEW_MAX 256

/* Whether this product, or the thin product of rows (T, in + tail) that `next`
 * reads, can be made here. */
bool few_takes(const struct ops_context *, const struct projection *, int T);
bool few_takes_thin(const struct ops_context *, const struct ops_next *, int in, int T);
/* y = x w^T + bias + add; thin: the tail of x is to be written first, NULL or without x: it
 * stands, or is not read. is_gate: w holds gate | up, y becomes silu(gate) * up of N / 2 columns.
 * The sums may be left waiting. */
void few_run(struct ops_context *, const struct projection *, int T, const struct thin_wait *thin, bool is_gate);
void few_open(struct ops_context *);
#endif
