/* rows_few: the norm of a decode step without its thin product, which few.cu makes, with or without
 * sums to add first. One row a block, eight columns a thread, no cluster and next to no shared
 * memory, so that the product behind it finds room to ask for its weights meanwhile. The sum of a
 * row's squares is made in the order of rows.cu's kernel, by as many lanes: the same bits. */
#include "rows_source.cuh"

#define ROWS_FEW 512 /* at most */
#define PIECES 4     /* of eight columns, of a lane of rows.cu's */
#define THREADS (CLUSTER_MAX * ROW_LANES * PIECES)
static_assert(ROWS_FEW_COLUMNS == THREADS * 8, "eight columns a thread");

/* A row's sum of squares: a lane's pieces one after the other, the lanes of a slice, the slices. A
 * lane's pieces are those of neighbouring threads. Called by all threads. */
static __device__ __forceinline__ float row_squares(bf16x8 value, bool exists, int lanes)
{
	__shared__ float sums[CLUSTER_MAX * ROW_LANES], squares[CLUSTER_MAX];
	int thread = (int)threadIdx.x, piece = thread % PIECES;
	float x[8], sum = 0, all = 0;
	unpack8(x, value);
#pragma unroll
	for (int i = 0; i < PIECES; i++) {
		float before = __shfl_up_sync(ALL_LANES, sum, 1);
		if (piece != i) continue;
		if (i) sum = before;
#pragma unroll
		for (int e = 0; e < 8; e++)
			if (exists) sum = fmaf(x[e], x[e], sum);
	}
	if (piece == PIECES - 1) sums[thread / PIECES] = sum;
	__syncthreads();
	sum = lanes_sum<ROW_LANES>(thread < lanes ? sums[thread] : 0.0f);
	if (thread < lanes && thread % ROW_LANES == 0) squares[thread / ROW_LANES] = sum;
	__syncthreads();
	for (int s = 0; s < lanes / ROW_LANES; s++) all += squares[s];
	return all;
}

/* PIECES threads have the columns that a lane of a slice has in rows.cu. */
template <enum source SOURCE>
static __global__ void __launch_bounds__(THREADS, 1) row_kernel(const struct rows_args a, int lanes)
{
	int row = (int)blockIdx.x, lane = (int)threadIdx.x / PIECES, piece = (int)threadIdx.x % PIECES;
	int within = (piece * ROW_LANES + lane % ROW_LANES) * 8, column = lane / ROW_LANES * a.slice + within;
	bool exists = within < a.slice && column < a.width;
	bf16x8 value = zero8(), weight = zero8();
	/* The norm's weights come while the kernel before still runs. */
	if (exists) weight = load8(a.w + column);
	grid_begin_of(a.T);
	if (a.arrived && !row && !threadIdx.x) *a.arrived = 0;
	if (exists) {
		value = eight_value<SOURCE>(eight_load<SOURCE>(a, row, column));
		if (SOURCE == SOURCE_SUMS) store8(a.sums.y + (int64_t)row * a.width + column, value);
	}
	float rstd = rsqrtf(row_squares(value, exists, lanes) / (float)a.width + a.eps);
	if (a.rstd && !threadIdx.x) a.rstd[row] = rstd;
	if (!exists) return;
	float x[8], w[8];
	unpack8(x, value);
	unpack8(w, weight);
#pragma unroll
	for (int e = 0; e < 8; e++) x[e] = x[e] * rstd * w[e];
	store8(a.y + row * a.y_ld + column, pack8(x));
}

bool cuda_rows_few(struct ops_context *c, enum source source, const struct rows_args *a, int cluster)
{
	int lanes = cluster * ROW_LANES;
	if (a->T > ROWS_FEW || a->slice > PIECES * ROW_LANES * 8) return false;
	struct launch l = {dim3((unsigned)a->T), dim3((unsigned)(lanes * PIECES)), 0, 0};
	if (source == SOURCE_NORM) cuda_launch(c, l, row_kernel<SOURCE_NORM>, *a, lanes);
	else if (source == SOURCE_SUMS) cuda_launch(c, l, row_kernel<SOURCE_SUMS>, *a, lanes);
	else return false;
	return true;
}
