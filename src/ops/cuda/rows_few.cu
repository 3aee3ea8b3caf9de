/* rows_few: the rows of a decode step without their thin product, which few.cu makes: norm, with or without sums to add
 * first, and attention's merged partials. One row a block, no cluster and next to no shared memory, so that the product
 * behind it finds room to ask for its weights meanwhile. The sum of a row's squares is made in the order of rows.cu's
 * kernel, by as many lanes: the same bits. */
#include "rows_source.cuh"

#define ROWS_FEW 512 /* at most, where clusters could take more of them */
#define PIECES 4     /* of eight columns, a thread's */

/* What the threads of a row hold becomes x * rstd * w, and goes out. */
static __device__ __forceinline__ void row_scale(
	const struct rows_args &a, bf16x8 value[PIECES], const bf16x8 weight[PIECES], int slice, int lane)
{
	__shared__ float squares[CLUSTER_MAX];
	int row = (int)blockIdx.x, column0 = slice * a.slice, end = min(a.slice, a.width - column0);
	/* Squares: a lane's columns, the lanes of a slice, the slices. */
	float sum = 0, all = 0;
#pragma unroll
	for (int i = 0; i < PIECES; i++) {
		float x[8];
		if ((i * ROW_LANES + lane) * 8 >= end) break;
		unpack8(x, value[i]);
#pragma unroll
		for (int e = 0; e < 8; e++) sum = fmaf(x[e], x[e], sum);
	}
	sum = lanes_sum<ROW_LANES>(sum);
	if (!lane) squares[slice] = sum;
	__syncthreads();
	for (int s = 0; s < (int)blockDim.x / ROW_LANES; s++) all += squares[s];
	float rstd = rsqrtf(all / (float)a.width + a.eps);
	if (a.rstd && !threadIdx.x) a.rstd[row] = rstd;
#pragma unroll
	for (int i = 0; i < PIECES; i++) {
		int column = (i * ROW_LANES + lane) * 8;
		float x[8], w[8];
		if (column >= end) break;
		unpack8(x, value[i]);
		unpack8(w, weight[i]);
#pragma unroll
		for (int e = 0; e < 8; e++) x[e] = x[e] * rstd * w[e];
		store8(a.y + row * a.y_ld + column0 + column, pack8(x));
	}
}

/* A thread has the columns that the lane of a slice has in rows.cu. */
template <enum source SOURCE>
static __global__ void __launch_bounds__(CLUSTER_MAX *ROW_LANES, 4) row_kernel(const struct rows_args a)
{
	int row = (int)blockIdx.x, slice = (int)threadIdx.x / ROW_LANES, lane = (int)threadIdx.x % ROW_LANES;
	int column0 = slice * a.slice, end = min(a.slice, a.width - column0);
	bf16x8 value[PIECES], weight[PIECES];
	/* The norm's weights come while the kernel before still runs. */
#pragma unroll
	for (int i = 0; i < PIECES; i++) {
		int column = (i * ROW_LANES + lane) * 8;
		if (column < end) weight[i] = load8(a.w + column0 + column);
	}
	grid_begin();
#pragma unroll
	for (int i = 0; i < PIECES; i++) {
		int column = (i * ROW_LANES + lane) * 8;
		if (column >= end) break;
		struct eight p = eight_load<SOURCE>(a, row, column0 + column);
		value[i] = eight_value<SOURCE>(p);
		if (SOURCE == SOURCE_SUMS) store8(a.sums.y + (int64_t)row * a.width + column0 + column, value[i]);
	}
	row_scale(a, value, weight, slice, lane);
}

/* Attention's merged partials: nothing has to be held, so a row may be as wide as it likes. */
static __global__ void __launch_bounds__(CLUSTER_MAX *ROW_LANES, 4) merge_kernel(const struct rows_args a)
{
	grid_begin();
#pragma unroll 4
	for (int column = (int)threadIdx.x * 8; column < a.width; column += (int)blockDim.x * 8)
		store8(a.y + blockIdx.x * a.y_ld + column,
			eight_value<SOURCE_MERGE>(eight_load<SOURCE_MERGE>(a, (int)blockIdx.x, column)));
}

bool cuda_rows_few(struct ops_context *c, enum source source, const struct rows_args *a, int cluster)
{
	if ((a->T > ROWS_FEW && c->card.is_hopper) || (is_norm(source) && a->slice > PIECES * ROW_LANES * 8)) return false;
	struct launch l = {dim3((unsigned)a->T), dim3((unsigned)(cluster * ROW_LANES)), 0, 0};
	if (source == SOURCE_NORM) cuda_launch(c, l, row_kernel<SOURCE_NORM>, *a);
	else if (source == SOURCE_SUMS) cuda_launch(c, l, row_kernel<SOURCE_SUMS>, *a);
	else if (source == SOURCE_MERGE) cuda_launch(c, l, merge_kernel, *a);
	else return false;
	return true;
}
