/* rows_many: norm, gate and thin products in kernels of their own, without clusters: over many
 * rows, and over any number on cards that have no clusters; rows.cu asks for it. */
#ifndef HONE_CUDA_ROWS_MANY_CUH
#define HONE_CUDA_ROWS_MANY_CUH
#include "cuda_device.cuh"

#define ROWS_MANY 1024   /* rows from which on the rows are made and multiplied in two kernels */

enum rows_source { ROWS_NORM, ROWS_GATE, ROWS_PLAIN /* the rows stand already */ };
struct rows_many {
	bf16 *y;                  /* (T, width + tail) */
	int64_t y_ld;             /* elements from a row of y to the next */
	float *rstd;              /* norm; may be NULL */
	const bf16 *x;            /* norm: (T, width); gate: (T, 2 width) */
	const bf16 *w;            /* norm: (width) */
	float eps;                /* of the norm */
	int T;                    /* rows */
	int width;                /* columns of a row, without the tail */
	int slice;                /* columns of a block, of rows.cu for this width */
	int blocks;               /* of a cluster, of rows.cu for this width */
	const bf16 *a[OPS_PARTS]; /* (r, width), NULL: not adapted */
	int64_t a_ld[OPS_PARTS];  /* elements from a row of each to the next */
	int r;                    /* rank */
	int used;                 /* tail columns with an adapter behind them */
	int columns;              /* of the tail; 0: no thin product */
	float scaling;            /* of the thin product */
	float p;                  /* dropout of the thin product's input; 0: none */
	uint64_t seed;            /* of dropout's draws */
	uint64_t stream;          /* of part 0 */
	float *shares; /* of the tail, (blocks, T, columns), where each slice has its own; NULL: none. rows_many.cu's */
};

/* Two units in the last place, far below an element's rounding; where exp(-x) is near
 * the largest number, 0. */
static __device__ __forceinline__ float silu(float x) { return __fdividef(x, 1.0f + __expf(-x)); }

/* Eight columns of a part's input under its mask, drawn by the number that the first
 * has in the whole matrix. */
static __device__ __forceinline__ bf16x8 thin_drop(bf16x8 v, uint64_t seed, uint64_t stream, float p, uint64_t element)
{
	uint4 low = philox(seed, stream, element / 4), high = philox(seed, stream, element / 4 + 1);
	uint32_t word[8] = {low.x, low.y, low.z, low.w, high.x, high.y, high.z, high.w};
	float x[8];
	unpack8(x, v);
#pragma unroll
	for (int i = 0; i < 8; i++) x[i] = dropout_keeps(word[i], p) ? x[i] : 0.0f;
	return pack8(x);
}

/* false: too wide; nothing was done. */
bool cuda_rows_many(struct ops_context *, enum rows_source, const struct rows_many *);
#endif
