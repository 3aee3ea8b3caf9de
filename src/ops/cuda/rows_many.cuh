/* rows_many: norm, gate and thin products over many rows; rows.cu asks for it. */
#ifndef HONE_CUDA_ROWS_MANY_CUH
#define HONE_CUDA_ROWS_MANY_CUH
#include "ops_cuda_internal.h"

#define ROWS_MANY 1024   /* rows from which on the rows are made and multiplied in two kernels */

enum rows_source { ROWS_NORM, ROWS_GATE, ROWS_PLAIN /* the rows stand already */ };
struct rows_many {
	bf16 *y; /* (T, width + tail) */
	int64_t y_ld;
	float *rstd;   /* norm; may be NULL */
	const bf16 *x; /* norm: (T, width); gate: (T, 2 width) */
	const bf16 *w; /* norm: (width) */
	float eps;
	int T;
	int width;
	int slice;                /* columns of a block, of rows.cu for this width */
	int blocks;               /* of a cluster, of rows.cu for this width */
	const bf16 *a[OPS_PARTS]; /* (r, width), NULL: not adapted */
	int64_t a_ld[OPS_PARTS];
	int r;       /* rank */
	int used;    /* tail columns with an adapter behind them */
	int columns; /* of the tail; 0: no thin product */
	float scaling;
};

/* Two units in the last place, far below an element's rounding; where exp(-x) is near the largest number, 0. */
static __device__ __forceinline__ float silu(float x) { return __fdividef(x, 1.0f + __expf(-x)); }

/* false: too few rows, or too wide; nothing was done. */
bool cuda_rows_many(struct ops_context *, enum rows_source, const struct rows_many *);
#endif
