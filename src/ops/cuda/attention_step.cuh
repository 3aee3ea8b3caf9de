/* attention_step: the arithmetic of attention, one order for all of its kernels: packed or paged, a
 * tile of queries or one token. A row's bits depend on its own keys alone.
 *
 * Chunks of CHUNK keys from position 0, each an online softmax of its own over subtiles of SUBTILE
 * keys, in order; the chunks' sums are folded into the total in order. Where the maximum did not
 * change the factor is exactly 1 (the exponent's rounding error would make it 1 up to a few units
 * in the last place), so a subtile or a chunk that is wholly masked changes nothing: a walk may
 * stop at a row's last key or go on with its neighbours. */
#ifndef HONE_CUDA_ATTENTION_STEP_CUH
#define HONE_CUDA_ATTENTION_STEP_CUH
#include "mma.cuh"
#include "ops_cuda_internal.h"
#include <math.h>

#define SUBTILE 64   /* keys of one step of the online softmax */

/* Kernels are made for heads of HD columns: WHOLE, or of fewer, a multiple of 8 that is known
 * when they run. What is missing then is zeros in tiles, which adds exactly nothing to a
 * product, and is not stored. */
template <int HD, bool WHOLE> static __device__ __forceinline__ int width_of(int width) { return WHOLE ? HD : width; }
#define HEADS_RUN(width, run, ...) \
	((width) == 32        ? run<32, true>(__VA_ARGS__) \
			: (width) == 64  ? run<64, true>(__VA_ARGS__) \
			: (width) == 128 ? run<128, true>(__VA_ARGS__) \
			: (width) == 256 ? run<256, true>(__VA_ARGS__) \
			: (width) < 64   ? run<64, false>(__VA_ARGS__) \
			: (width) < 128  ? run<128, false>(__VA_ARGS__) \
						   : run<256, false>(__VA_ARGS__))

/* Where a 16-byte piece of a row of a page lies: as in a tile, so that whole pages are copied as
 * they are; rows of other widths one behind the other. */
template <int HD, bool WHOLE> static __device__ __forceinline__ uint32_t page_at(int row, int piece, int width)
{
	return WHOLE ? tile_at<HD>(row, piece) : (uint32_t)((row * width + piece * 8) * 2);
}

/* Heads of 256 columns are made in two halves, so that accumulators and totals fit into registers
 * and shared memory; Q's fragments lie in shared memory then. */
static __host__ __device__ constexpr int half_of(int HD) { return HD < 128 ? HD : 128; }

/* exp(scale * (old - now)), old <= now; shift is now * scale_log2 rounded. */
static __device__ __forceinline__ float shift_factor(float old, float now, float scale_log2, float shift)
{
	return old == now ? 1.0f : ex2(__fmaf_rn(old, scale_log2, -shift));
}
static __device__ __forceinline__ float shift_of(float m, float scale_log2)
{
	return m == -INFINITY ? 0.0f : __fmul_rn(m, scale_log2);
}

struct softmax { /* of rows g and g + 8: running maximum (raw scores) and sum */
	float m[2];  /* the maximum */
	float l[2];  /* the sum */
};

/* Scores s become probabilities, the chunk's accumulators move to the new maximum. */
template <int NV>
static __device__ __forceinline__ void softmax_step(
	float s[SUBTILE / 8][4], float o[NV][4], struct softmax *x, float scale_log2)
{
#pragma unroll
	for (int r = 0; r < 2; r++) {
		/* A lane has two rows of a tile. The row's new maximum, over the
		 * four lanes that share it. */
		float top = -INFINITY;
#pragma unroll
		for (int i = 0; i < SUBTILE / 8; i++) top = fmaxf(top, fmaxf(s[i][2 * r], s[i][2 * r + 1]));
		float m = fmaxf(x->m[r], quad_max(top)), shift = shift_of(m, scale_log2);
		/* Weights against it; what was summed before shrinks by the same factor. */
		float alpha = shift_factor(x->m[r], m, scale_log2, shift), sum = 0;
#pragma unroll
		for (int i = 0; i < SUBTILE / 8; i++) {
			float low = ex2(__fmaf_rn(s[i][2 * r], scale_log2, -shift));
			float high = ex2(__fmaf_rn(s[i][2 * r + 1], scale_log2, -shift));
			sum = __fadd_rn(__fadd_rn(sum, low), high);
			s[i][2 * r] = low;
			s[i][2 * r + 1] = high;
		}
		x->l[r] = __fmaf_rn(x->l[r], alpha, quad_sum(sum));
		x->m[r] = m;
#pragma unroll
		for (int i = 0; i < NV; i++) {
			o[i][2 * r] = __fmul_rn(o[i][2 * r], alpha);
			o[i][2 * r + 1] = __fmul_rn(o[i][2 * r + 1], alpha);
		}
	}
}

/* The chunk's sums join those of the chunks before it. The total waits in shared memory, each
 * thread's elements THREADS apart: it is touched once in 256 keys. o becomes the new total. */
template <int NV, int THREADS>
static __device__ __forceinline__ void chunk_fold(
	float o[NV][4], const struct softmax *chunk, const float *total, struct softmax *all, bool first, float scale_log2)
{
#pragma unroll
	for (int r = 0; r < 2; r++) {
		float m = fmaxf(all->m[r], chunk->m[r]), shift = shift_of(m, scale_log2);
		float a = shift_factor(all->m[r], m, scale_log2, shift), b = shift_factor(chunk->m[r], m, scale_log2, shift);
		all->l[r] = __fmaf_rn(chunk->l[r], b, __fmul_rn(all->l[r], a));
		all->m[r] = m;
#pragma unroll
		for (int i = 0; i < NV; i++)
#pragma unroll
			for (int c = 2 * r; c < 2 * r + 2; c++)
				o[i][c] = __fmaf_rn(o[i][c], b, first ? 0.0f : __fmul_rn(total[(i * 4 + c) * THREADS], a));
	}
}

/* Scores of keys from `key` on that lie behind the row's position become -inf.
 * position: of row 0 of the 16. */
static __device__ __forceinline__ void scores_mask(float s[SUBTILE / 8][4], int lane, int position, int key)
{
	if (key + SUBTILE - 1 <= position) return;
	int mine = position + (lane >> 2) - key - 2 * (lane & 3); /* the last visible key, counted from this lane's first */
#pragma unroll
	for (int i = 0; i < SUBTILE / 8; i++)
#pragma unroll
		for (int c = 0; c < 4; c++)
			if (8 * i + (c & 1) > mine + 8 * (c >> 1)) s[i][c] = -INFINITY;
}

/* Fragments of 16 rows of a matrix, `rows` of which exist; the others are zeros. */
template <int HD>
static __device__ __forceinline__ void fragments_load(
	uint32_t f[HD / 16][4], const bf16 *from, int64_t stride, int rows, int width, int lane)
{
#pragma unroll
	for (int r = 0; r < 2; r++) {
		int row = (lane >> 2) + 8 * r;
		const uint32_t *at = (const uint32_t *)(from + (row < rows ? row * stride : 0) + 2 * (lane & 3));
#pragma unroll
		for (int k = 0; k < HD / 16; k++) {
			f[k][r] = row < rows && k * 16 < width ? at[k * 8] : 0;
			f[k][2 + r] = row < rows && k * 16 + 8 < width ? at[k * 8 + 4] : 0;
		}
	}
}

/* Scores of 16 rows against a subtile, or the share of them that some columns make: Q's fragments
 * of those in registers. k_at: the subtile of HD columns, seen from the lane. */
template <int HD>
static __device__ __forceinline__ void scores_add(float s[SUBTILE / 8][4], const uint32_t (*q)[4], uint32_t k_at)
{
#pragma unroll
	for (int k = 0; k < HD / 16; k++)
#pragma unroll
		for (int i = 0; i < SUBTILE / 16; i++) {
			uint32_t b[4];
			ldmatrix(b, square<HD>(k_at, i, k));
			mma_bf16(s[2 * i], q[k], b[0], b[1]);
			mma_bf16(s[2 * i + 1], q[k], b[2], b[3]);
		}
}

static __device__ __forceinline__ void scores_clear(float s[SUBTILE / 8][4])
{
#pragma unroll
	for (int i = 0; i < SUBTILE / 8; i++) s[i][0] = s[i][1] = s[i][2] = s[i][3] = 0;
}
template <int HD>
static __device__ __forceinline__ void scores_multiply(float s[SUBTILE / 8][4], const uint32_t (*q)[4], uint32_t k_at)
{
	scores_clear(s);
	scores_add<HD>(s, q, k_at);
}

/* The same with Q in a tile, q_at as seen from the lane: one step of 16 columns at a
 * time, in the same order. */
template <int HD>
static __device__ __forceinline__ void scores_of_tile(float s[SUBTILE / 8][4], uint32_t q_at, uint32_t k_at)
{
	float c[SUBTILE / 8][4] = {};
#pragma unroll
	for (int k = 0; k < HD / 16; k++) {
		uint32_t a[4], b[4];
		ldmatrix(a, square<HD>(q_at, 0, k));
#pragma unroll
		for (int i = 0; i < SUBTILE / 16; i++) {
			ldmatrix(b, square<HD>(k_at, i, k));
			mma_bf16(c[2 * i], a, b[0], b[1]);
			mma_bf16(c[2 * i + 1], a, b[2], b[3]);
		}
	}
#pragma unroll
	for (int i = 0; i < SUBTILE / 8; i++)
#pragma unroll
		for (int j = 0; j < 4; j++) s[i][j] = c[i][j];
}

/* o += P V, keys in ascending steps of 16. */
template <int DV>
static __device__ __forceinline__ void values_add(float o[DV / 8][4], const float p[SUBTILE / 8][4], uint32_t v_at)
{
#pragma unroll
	for (int k = 0; k < SUBTILE / 16; k++) {
		const uint32_t a[4] = {pack_bf16(p[2 * k][0], p[2 * k][1]), pack_bf16(p[2 * k][2], p[2 * k][3]),
			pack_bf16(p[2 * k + 1][0], p[2 * k + 1][1]), pack_bf16(p[2 * k + 1][2], p[2 * k + 1][3])};
#pragma unroll
		for (int i = 0; i < DV / 16; i++) {
			uint32_t b[4];
			ldmatrix_transposed(b, square<DV>(v_at, k, i));
			mma_bf16(o[2 * i], a, b[0], b[1]);
			mma_bf16(o[2 * i + 1], a, b[2], b[3]);
		}
	}
}
#endif
