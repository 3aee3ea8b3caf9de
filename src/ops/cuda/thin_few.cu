/* thin_few: the thin product of up to 256 rows that stand already and that no product of ours reads
 * (few.cu makes it beside its own work): the library waits for it, so all of it is latency. A
 * block makes 8 rows by 16 columns of the tail; its warps share the columns of the rows. What a
 * warp has of A is on its way in registers while the kernel before still runs, then its part of
 * the rows comes at once; no cluster, and shared memory for the warps' sums alone.
 *
 * Fixed order of sums: each warp's columns in steps of 32, then the warps. It is not that of
 * rows.cu, so with batch_invariant rows.cu does not come here. */
#include "rows_source.cuh"

#define ROWS 8       /* of a block: the columns of a tensor-core step */
#define COLUMNS 16   /* of the tail, a block's: the rows of a step */
#define WARPS 16
#define STEP 32      /* columns of the rows that a warp multiplies at once, as two steps */
#define STEPS_MAX 8  /* of a warp */
#define THIN_FEW 256 /* rows at most: one turn of an H200's multiprocessors for three parts */
#define PADDED (COLUMNS + 4)   /* so that the lanes of a store fall into different banks */

/* Row n of the parts' A, one part behind the other; NULL: the tail is zeros there. */
static __device__ __forceinline__ const bf16 *row_of(const struct thin &t, int n)
{
	if (n >= t.used) return NULL;
	int part = n / t.r;
	return t.part[part].a ? t.part[part].a + (n - part * t.r) * t.part[part].ld : NULL;
}

static __device__ __forceinline__ uint4 words(bf16x8 v)
{
	uint4 u;
	memcpy(&u, &v, sizeof u);
	return u;
}

/* Grid: (runs of ROWS rows, runs of COLUMNS columns of the tail). */
template <int STEPS> static __global__ void __launch_bounds__(WARPS *WARP, 1) thin_few_kernel(const struct rows_args a)
{
	__shared__ float sums[WARPS][ROWS][PADDED];
	int lane = (int)threadIdx.x % WARP, warp = (int)threadIdx.x / WARP, g = lane / 4, q = lane % 4;
	int row0 = (int)blockIdx.x * ROWS, n0 = (int)blockIdx.y * COLUMNS, first = warp * STEPS * STEP + q * 8;
	const bf16 *low = row_of(a.thin, n0 + g), *high = row_of(a.thin, n0 + g + 8);
	bf16x8 low_a[STEPS], high_a[STEPS], x[STEPS];
#pragma unroll
	for (int i = 0; i < STEPS; i++) {
		int k = first + i * STEP;
		low_a[i] = low && k < a.width ? load8_once(low + k) : zero8();
		high_a[i] = high && k < a.width ? load8_once(high + k) : zero8();
	}
	grid_begin();
	/* Eight columns of each row a lane: the lanes' elements are multiplied in an order of their
	 * own, the same one for A. */
	bool exists = row0 + g < a.T && n0 < a.thin.used;
	const bf16 *from = a.y + (int64_t)(row0 + g) * a.y_ld;
#pragma unroll
	for (int i = 0; i < STEPS; i++) {
		int k = first + i * STEP;
		x[i] = exists && k < a.width ? load8(from + k) : zero8();
	}
	float acc[4] = {};
#pragma unroll
	for (int i = 0; i < STEPS; i++) {
		uint4 u = words(low_a[i]), v = words(high_a[i]), b = words(x[i]);
		const uint32_t early[4] = {u.x, v.x, u.y, v.y}, late[4] = {u.z, v.z, u.w, v.w};
		mma_bf16(acc, early, b.x, b.y);
		mma_bf16(acc, late, b.z, b.w);
	}
#pragma unroll
	for (int e = 0; e < 4; e++) sums[warp][2 * q + e % 2][g + e / 2 * 8] = acc[e];
	__syncthreads();

	/* Two columns of a row a thread. */
	int r = (int)threadIdx.x / (COLUMNS / 2), n = (int)threadIdx.x % (COLUMNS / 2) * 2;
	if (r >= ROWS || row0 + r >= a.T || n0 + n >= a.thin.columns) return;
	float2 sum = make_float2(0, 0);
#pragma unroll
	for (int w = 0; w < WARPS; w++) sum.x += sums[w][r][n], sum.y += sums[w][r][n + 1];
	*(uint32_t *)(a.y + (int64_t)(row0 + r) * a.y_ld + a.width + n0 + n) = pack_bf16(
		sum.x * a.thin.scaling, sum.y * a.thin.scaling);
}

bool cuda_thin_few(struct ops_context *c, const struct rows_args *a)
{
	int steps = (a->width + WARPS * STEP - 1) / (WARPS * STEP);
	if (!c->card.is_hopper || c->batch_invariant || a->T > THIN_FEW || a->thin.p > 0 || steps > STEPS_MAX) return false;
	dim3 grid((unsigned)((a->T + ROWS - 1) / ROWS), (unsigned)((a->thin.columns + COLUMNS - 1) / COLUMNS));
	struct launch l = {grid, dim3(WARPS * WARP), 0, 0};
	if (steps <= 2) cuda_launch(c, l, thin_few_kernel<2>, *a);
	else if (steps <= 4) cuda_launch(c, l, thin_few_kernel<4>, *a);
	else cuda_launch(c, l, thin_few_kernel<STEPS_MAX>, *a);
	return true;
}
