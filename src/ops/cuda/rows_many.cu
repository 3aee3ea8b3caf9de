/* rows_many: norm, gate and thin products over the many rows of a training pass. rows.cu makes a
 * row and its thin product at once, which is right where a step has few rows and waits for each
 * launch; over thousands of rows it reads A again for every 16 of them. Here the rows are made
 * first, at the speed of memory, then multiplied, 64 rows to one reading of A. Cards without
 * clusters come here with few rows too: a block then multiplies one slice, so that more
 * multiprocessors read, and the slices are added by a kernel of their own.
 *
 * The bits are those of rows.cu: a row is cut into `blocks` slices of `slice` columns; sums of
 * squares go over a slice in sixteen interleaved lanes; the thin product goes over an eighth of a
 * slice at a time, in steps of 32 columns of which lane 4 g + q multiplies 8 q.. in two halves;
 * eighths are added in order, then slices. */
#include "cuda_device.cuh"
#include "rows_many.cuh"

#define THREADS 256
#define THIN_THREADS 128
#define THIN_ROWS 64
#define THIN_COLUMNS 64     /* of the tail at a time */
#define THIN_TILES (THIN_COLUMNS / 8)
#define STEP 128            /* columns of a stage */
#define STAGES 3
#define EIGHTHS 8           /* warps of a block of rows.cu */
#define NORM_LANES 16
#define NORM_PIECES_MAX 12  /* of eight columns a lane has of its slice */
#define SPLIT_ROWS 512      /* up to which a block without clusters multiplies a slice of the columns alone */
#define SPLIT_MAX 8         /* slices */
static_assert(NORM_PIECES_MAX * NORM_LANES * 8 * SPLIT_MAX >= CUDA_HIDDEN_MAX, "the widest norm");

/* ---- norm ---- */

/* Row and slice are fixed for a thread: NORM_LANES lanes a slice, `blocks` slices a row,
 * one row after the other. */
template <int PIECES> static __global__ void __launch_bounds__(THREADS) norm_many_kernel(const struct rows_many a)
{
	__shared__ float squares[2][THREADS / NORM_LANES];
	int team = (int)threadIdx.x / NORM_LANES, lane = (int)threadIdx.x % NORM_LANES,
		rows = THREADS / NORM_LANES / a.blocks;
	int mine = team / a.blocks, slice = team % a.blocks, column0 = slice * a.slice,
		columns = max(0, min(a.slice, a.width - column0));
	grid_begin();
	for (int row0 = (int)blockIdx.x * rows, turn = 0; row0 < a.T; row0 += (int)gridDim.x * rows, turn ^= 1) {
		int row = row0 + mine;
		bool exists = row < a.T && mine < rows;
		bf16x8 x[PIECES];
		float sum = 0, v[8];
		/* The row stays in registers, so that it is read once for the sum and for the output. */
#pragma unroll
		for (int p = 0; p < PIECES; p++) {
			int column = (p * NORM_LANES + lane) * 8;
			x[p] = exists && column < columns ? load8(a.x + (int64_t)row * a.width + column0 + column) : zero8();
		}
		/* Sums of squares follow the order that rows.cu has, so that both give the same bits. */
#pragma unroll
		for (int p = 0; p < PIECES; p++) {
			unpack8(v, x[p]);
#pragma unroll
			for (int i = 0; i < 8; i++) sum = fmaf(v[i], v[i], sum);
		}
		sum = lanes_sum<NORM_LANES>(sum);
		/* The two halves take turns, so one barrier a row is enough: the next row writes where
		 * nobody reads. */
		if (lane == 0) squares[turn][team] = sum;
		__syncthreads();
		/* Slices are added in order, by every lane for itself. */
		sum = 0;
		for (int b = 0; b < a.blocks; b++) sum += squares[turn][min(mine, rows - 1) * a.blocks + b];
		float rstd = rsqrtf(sum / (float)a.width + a.eps);
		/* Threads without a row leave here, behind the barrier that they had to reach too. */
		if (!exists) continue;
		if (a.rstd && slice == 0 && lane == 0) a.rstd[row] = rstd;
#pragma unroll
		for (int p = 0; p < PIECES; p++) {
			int column = (p * NORM_LANES + lane) * 8;
			if (column >= columns) continue;
			float w[8];
			unpack8(v, x[p]);
			unpack8(w, load8(a.w + column0 + column));
#pragma unroll
			for (int i = 0; i < 8; i++) v[i] = v[i] * rstd * w[i];
			store8(a.y + (int64_t)row * a.y_ld + column0 + column, pack8(v));
		}
	}
}

/* ---- gate ---- */

static __global__ void __launch_bounds__(THREADS) gate_many_kernel(const struct rows_many a)
{
	grid_begin();
	int64_t at = (int64_t)blockIdx.x * THREADS + threadIdx.x, pieces = a.width / 8, row = at / pieces;
	if (row >= a.T) return;
	int column = (int)(at % pieces) * 8;
	float gate[8], up[8];
	unpack8(gate, load8(a.x + row * 2 * a.width + column));
	unpack8(up, load8(a.x + row * 2 * a.width + a.width + column));
#pragma unroll
	for (int i = 0; i < 8; i++) gate[i] = silu(gate[i]) * up[i];
	store8(a.y + row * a.y_ld + column, pack8(gate));
}

/* ---- the thin product ---- */

/* A tile's rows are STEP columns; the pieces of every other row change halves, so that eight lanes
 * that read 16 bytes of two rows find them in different banks. */
static __device__ __forceinline__ uint32_t piece_at(int row, int piece)
{
	return (uint32_t)(row * STEP * 2 + ((piece ^ (row & 1) << 2) << 4));
}

/* Columns k.. of this block's rows and of A (a row of it each; NULL: none) into a stage; what
 * does not exist is zeros. */
static __device__ __forceinline__ void stage_load(
	uint32_t stage, const struct rows_many &a, const bf16 *const *a_rows, int row0, int k, int end)
{
#pragma unroll 1
	for (int i = (int)threadIdx.x; i < THIN_ROWS * STEP / 8; i += THIN_THREADS) {
		int r = i / (STEP / 8), piece = i % (STEP / 8), column = k + piece * 8;
		bool exists = row0 + r < a.T && column < end;
		copy_16(stage + piece_at(r, piece), a.y + (exists ? (int64_t)(row0 + r) * a.y_ld + column : 0), exists);
	}
#pragma unroll 1
	for (int i = (int)threadIdx.x; i < THIN_COLUMNS * STEP / 8; i += THIN_THREADS) {
		int r = i / (STEP / 8), piece = i % (STEP / 8), column = k + piece * 8;
		bool exists = a_rows[r] && column < end;
		copy_16(stage + THIN_ROWS * STEP * 2 + piece_at(r, piece), exists ? a_rows[r] + column : a.y, exists);
	}
}

static __device__ __forceinline__ uint4 shared_16(const unsigned char *base, uint32_t at)
{
	return *(const uint4 *)(base + at);
}

/* sum += part, then part is 0. */
static __device__ __forceinline__ void move(float sum[THIN_TILES][4], float part[THIN_TILES][4])
{
#pragma unroll
	for (int i = 0; i < THIN_TILES; i++)
#pragma unroll
		for (int j = 0; j < 4; j++) sum[i][j] += part[i][j], part[i][j] = 0;
}

/* acc (16 rows, 64 columns) += 32 columns of the rows, in the order told above,
 * times those of A's tiles. */
static __device__ __forceinline__ void thin_step(
	float acc[THIN_TILES][4], uint4 low, uint4 high, const unsigned char *columns, int tiles, int k, int g, int q)
{
	const uint32_t first[4] = {low.x, high.x, low.y, high.y}, second[4] = {low.z, high.z, low.w, high.w};
#pragma unroll
	for (int i = 0; i < THIN_TILES; i++) {
		if (i >= tiles) break;
		uint4 b = shared_16(columns, piece_at(i * 8 + g, k / 8 + q));
		mma_bf16(acc[i], first, b.x, b.y);
		mma_bf16(acc[i], second, b.z, b.w);
	}
}

static __device__ __forceinline__ uint4 dropped(uint4 x, const struct rows_many &a, int part, int64_t row, int column)
{
	bf16x8 v;
	memcpy(&v, &x, sizeof v);
	v = thin_drop(v, a.seed, a.stream + (uint64_t)part, a.p, (uint64_t)row * (uint64_t)a.width + (uint64_t)column);
	memcpy(&x, &v, sizeof x);
	return x;
}

/* The same with dropout: each part multiplies what its own mask leaves of the rows, and a tile's
 * columns of other parts are zeros meanwhile. row: of low; high is eight rows on. */
static __device__ __forceinline__ void thin_step_dropped(float acc[THIN_TILES][4], uint4 low, uint4 high,
	const unsigned char *columns, const struct rows_many &a, int64_t row, int column, int n0, int tiles, int k, int g,
	int q)
{
	int last = (min(n0 + tiles * 8, a.used) - 1) / a.r;
#pragma unroll 1
	for (int part = n0 / a.r; part <= last; part++) {
		uint4 x = dropped(low, a, part, row, column), y = dropped(high, a, part, row + 8, column);
		const uint32_t first[4] = {x.x, y.x, x.y, y.y}, second[4] = {x.z, y.z, x.w, y.w};
#pragma unroll
		for (int i = 0; i < THIN_TILES; i++) {
			int n = n0 + i * 8;
			if (i >= tiles || n / a.r > part || (n + 7) / a.r < part) continue;
			uint4 b = shared_16(columns, piece_at(i * 8 + g, k / 8 + q));
			if ((n + g) / a.r != part) b = make_uint4(0, 0, 0, 0);
			mma_bf16(acc[i], first, b.x, b.y);
			mma_bf16(acc[i], second, b.z, b.w);
		}
	}
}

/* What a lane holds of the block's rows: into the tail, or a slice's share of it to scratch. */
static __device__ __forceinline__ void thin_many_store(
	const struct rows_many &a, const float total[THIN_TILES][4], int row0, int n0, int lane)
{
#pragma unroll
	for (int i = 0; i < THIN_TILES; i++)
#pragma unroll
		for (int r = 0; r < 2; r++) {
			int row = row0 + lane / 4 + 8 * r, column = n0 + i * 8 + lane % 4 * 2;
			if (row >= a.T || column >= a.columns) continue;
			float2 v = make_float2(total[i][2 * r], total[i][2 * r + 1]);
			if (a.shares) *(float2 *)(a.shares + ((int64_t)blockIdx.z * a.T + row) * a.columns + column) = v;
			else
				*(uint32_t *)(a.y + (int64_t)row * a.y_ld + a.width + column) = pack_bf16(
					v.x * a.scaling, v.y * a.scaling);
		}
}

/* Grid: (runs of 64 rows, groups of 64 tail columns, slices where each has blocks of its own). A
 * warp makes 16 rows by 64 columns over the whole width, or over a slice. Steps are cut at the ends
 * of eighths, which are multiples of 32. */
template <bool DROPOUT>
static __global__ void __launch_bounds__(THIN_THREADS, 2) thin_many_kernel(const struct rows_many a)
{
	extern __shared__ __align__(1024) unsigned char shared[];
	constexpr uint32_t STAGE_BYTES = (THIN_ROWS + THIN_COLUMNS) * STEP * 2;
	int lane = (int)threadIdx.x % WARP, warp = (int)threadIdx.x / WARP, g = lane / 4, q = lane % 4;
	int row0 = (int)blockIdx.x * THIN_ROWS, n0 = (int)blockIdx.y * THIN_COLUMNS,
		tiles = min(THIN_TILES, (a.used - n0 + 7) / 8);
	int eighth = (a.slice + 32 * EIGHTHS - 1) / (32 * EIGHTHS) * 32, loaded = 0;
	int slice = a.shares ? (int)blockIdx.z : 0, begin = slice * a.slice,
		width = a.shares ? min(begin + a.slice, a.width) : a.width;
	uint32_t base = shared_address(shared);
	float total[THIN_TILES][4] = {}, of_slice[THIN_TILES][4] = {}, acc[THIN_TILES][4] = {};

	/* where A's rows lie: a division for each copied piece of them would
	 * take longer than the copy */
	__shared__ const bf16 *a_rows[THIN_COLUMNS];
	for (int i = (int)threadIdx.x; i < THIN_COLUMNS; i += THIN_THREADS) {
		int n = n0 + i, own = n / a.r;
		const bf16 *from = own == 0 ? a.a[0] : own == 1 ? a.a[1] : a.a[2];
		int64_t ld = own == 0 ? a.a_ld[0] : own == 1 ? a.a_ld[1] : a.a_ld[2];
		a_rows[i] = n < a.used && from ? from + (n - own * a.r) * ld : NULL;
	}
	__syncthreads();

	/* stages hold STEP columns each, in order, from `begin` to `width` */
	grid_begin();
	int stages = (width - begin + STEP - 1) / STEP;
	for (; loaded < STAGES - 1; loaded++) {
		if (loaded < stages)
			stage_load(base + (uint32_t)loaded * STAGE_BYTES, a, a_rows, row0, begin + loaded * STEP, width);
		copies_commit();
	}
	int slice_end = min(begin + a.slice, width), eighth_end = min(begin + eighth, slice_end);
	for (int s = 0; s < stages; s++, loaded++) {
		copies_wait<STAGES - 2>();
		__syncthreads();
		if (loaded < stages)
			stage_load(base + (uint32_t)(loaded % STAGES) * STAGE_BYTES, a, a_rows, row0, begin + loaded * STEP, width);
		copies_commit();
		const unsigned char *rows = shared + (uint32_t)(s % STAGES) * STAGE_BYTES,
							*columns = rows + THIN_ROWS * STEP * 2;
#pragma unroll 1
		for (int k = 0; k < STEP && begin + s * STEP + k < width; k += 32) {
			uint4 low = shared_16(rows, piece_at(warp * 16 + g, k / 8 + q)),
				  high = shared_16(rows, piece_at(warp * 16 + g + 8, k / 8 + q));
			int next = begin + s * STEP + k + 32;
			if (DROPOUT)
				thin_step_dropped(
					acc, low, high, columns, a, row0 + warp * 16 + g, next - 32 + q * 8, n0, tiles, k, g, q);
			else thin_step(acc, low, high, columns, tiles, k, g, q);
			/* an eighth ends: it joins its slice; a slice ends: it joins the total */
			if (next < eighth_end && next < width) continue;
			move(of_slice, acc);
			if (next >= slice_end || next >= width) {
				move(total, of_slice);
				slice++;
				slice_end = min((slice + 1) * a.slice, width);
				eighth_end = slice * a.slice;
			}
			eighth_end = min(eighth_end + eighth, slice_end);
		}
	}
	thin_many_store(a, total, row0 + warp * 16, n0, lane);
}

/* The slices' shares of the tail, in order. Grid: rows; a thread two columns at a time. */
static __global__ void __launch_bounds__(WARP) shares_add_kernel(const struct rows_many a, int made)
{
	grid_begin();
	int row = (int)blockIdx.x;
	for (int column = (int)threadIdx.x * 2; column < made; column += WARP * 2) {
		float2 sum = make_float2(0, 0);
		for (int s = 0; s < a.blocks; s++) {
			float2 v = *(const float2 *)(a.shares + ((int64_t)s * a.T + row) * a.columns + column);
			sum.x += v.x, sum.y += v.y;
		}
		*(uint32_t *)(a.y + (int64_t)row * a.y_ld + a.width + column) = pack_bf16(sum.x * a.scaling, sum.y * a.scaling);
	}
}

/* ---- launches ---- */

static bool norm_many(struct ops_context *c, const struct rows_many *a)
{
	int pieces = (a->slice / 8 + NORM_LANES - 1) / NORM_LANES, rows = THREADS / NORM_LANES / a->blocks;
	struct launch l = {dim3((unsigned)MIN((a->T + rows - 1) / rows, 8 * c->sms)), dim3(THREADS), 0, 0};
	if (pieces <= 2) cuda_launch(c, l, norm_many_kernel<2>, *a);
	else if (pieces <= 4) cuda_launch(c, l, norm_many_kernel<4>, *a);
	else if (pieces <= 8) cuda_launch(c, l, norm_many_kernel<8>, *a);
	else if (pieces <= NORM_PIECES_MAX) cuda_launch(c, l, norm_many_kernel<NORM_PIECES_MAX>, *a);
	else return false;
	return true;
}

/* The tail's first `made` columns. Of few rows each slice has blocks of its own; their sums go
 * to the workspace of products, none of which runs meanwhile: without programmatic launch
 * kernels follow one another. */
static void thin_many(struct ops_context *c, struct rows_many a, int groups, int made)
{
	bool is_split = !c->card.is_hopper && a.T <= SPLIT_ROWS && a.blocks > 1 &&
		(size_t)a.blocks * (size_t)a.T * (size_t)a.columns * sizeof(float) <= LT_WORKSPACE_BYTES;
	a.shares = is_split ? (float *)c->workspace : NULL;
	constexpr size_t shared_bytes = STAGES * (THIN_ROWS + THIN_COLUMNS) * STEP * 2;
	static_assert(shared_bytes + 1024 <= SHARED_LEAST, "every card has this, and 1 KiB for where A's rows lie");
	dim3 grid((unsigned)((a.T + THIN_ROWS - 1) / THIN_ROWS), (unsigned)groups, is_split ? (unsigned)a.blocks : 1);
	struct launch l = {grid, dim3(THIN_THREADS), shared_bytes, 0};
	if (a.p > 0) cuda_launch(c, l, thin_many_kernel<true>, a);
	else cuda_launch(c, l, thin_many_kernel<false>, a);
	if (is_split) cuda_launch(c, {dim3((unsigned)a.T), dim3(WARP), 0, 0}, shares_add_kernel, a, made);
}

bool cuda_rows_many(struct ops_context *c, enum rows_source source, const struct rows_many *a)
{
	if (source == ROWS_NORM && !norm_many(c, a)) return false;
	if (source == ROWS_GATE) {
		int64_t pieces = (int64_t)a->T * (a->width / 8);
		cuda_launch(c, {dim3((unsigned)((pieces + THREADS - 1) / THREADS)), dim3(THREADS), 0, 0}, gate_many_kernel, *a);
	}
	/* the tail: groups with an adapter behind them, zeros in the others */
	int groups = (a->used + THIN_COLUMNS - 1) / THIN_COLUMNS, made = MIN(groups * THIN_COLUMNS, a->columns);
	if (a->columns > made)
		CUDA_CHECK(cudaMemset2DAsync(a->y + a->width + made, (size_t)a->y_ld * sizeof(bf16), 0,
			(size_t)(a->columns - made) * sizeof(bf16), (size_t)a->T, c->stream));
	if (made) thin_many(c, *a, groups, made);
	return true;
}
