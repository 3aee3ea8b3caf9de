/* rows: who writes the input of a projection: norm, gate, attention's merged partials; and behind each row the thin
 * product h = scaling * drop(x) A^T of the projection's adapter. One kernel over four sources.
 *
 * A cluster of blocks owns ROWS rows; each block owns a slice of their columns (the number of blocks follows from the
 * width alone, so that no bit depends on T). It makes its part of the rows in shared memory, stores it, multiplies it
 * with its part of A on tensor cores (every warp a share of the columns), and the cluster adds the parts up in order:
 * warps first, then blocks. Decode and training run this same code. */
#include "cuda_device.cuh"
#include "attention_step.cuh"
#include <cooperative_groups.h>

namespace cg = cooperative_groups;

#define ROWS 16
#define THREADS 256
#define WARPS (THREADS / WARP)
#define CLUSTER_MAX 8
#define SLICE_MIN 512   /* columns worth a block of their own */
#define THIN_COLUMNS 64 /* of the tail at a time */
#define PAD 32          /* elements between rows in shared memory: the lanes of a load fall into different banks */
#define THIN_TILES (THIN_COLUMNS / 8)

/* ---- the thin product's side ---- */

struct thin_part {
	const bf16 *a; /* (r, in), NULL: not adapted */
	int64_t ld;
};
struct thin {
	struct thin_part part[OPS_PARTS];
	int r, used; /* rank; columns with an adapter behind them, r * parts: the rest of the tail is zeros */
	int columns; /* of the tail; 0: leave it alone */
	float scaling;
	float p; /* dropout */
	uint64_t seed, stream;
};

static struct thin thin_of(const struct ops_context *c, const struct ops_next *next, int in)
{
	struct thin t = {};
	if (!next || !c->tail) return t;
	t.columns = c->tail;
	const struct ops_lora *l = next->lora;
	CHECKF(
		!next->linear || next->linear->in == in, "a projection of %d columns reads rows of %d", next->linear->in, in);
	if (!l) return t;
	int parts = next->linear ? next->linear->parts : 1;
	t.r = l->r;
	t.used = l->r * parts;
	CHECKF(t.used <= c->tail, "an adapter of rank %d needs %d spare columns, the backend was opened with %d", l->r,
		t.used, c->tail);
	for (int i = 0; i < parts; i++) {
		t.part[i].a = elems(l->a[i].w);
		t.part[i].ld = l->a[i].ld;
		CHECK(!l->a[i].w || (l->a[i].cols == in && l->a[i].ld % 8 == 0));
	}
	t.scaling = l->scaling;
	if (l->seed && l->dropout > 0) {
		t.p = l->dropout;
		t.seed = l->seed;
		t.stream = l->stream;
		t.scaling /= 1.0f - l->dropout;
	}
	return t;
}

/* ---- sources: where the rows come from ---- */

struct rows_args {
	bf16 *y; /* (T, width + tail) */
	int64_t y_ld;
	float *rstd;   /* norm */
	const bf16 *x; /* norm: (T, width); gate: (T, 2 width) */
	const bf16 *w; /* norm: (width) */
	float eps;
	const float *partial; /* merge: (T, chunks, NH, HD + 2): o, m, l */
	const int32_t *pos, *sequence;
	int chunks, HD;
	float scale_log2;    /* merge: log2(e) / sqrt(HD) */
	int T, width, slice; /* slice: columns of a block */
	struct thin thin;
};

enum source { SOURCE_NORM, SOURCE_GATE, SOURCE_MERGE, SOURCE_PLAIN };

static __device__ __forceinline__ float silu(float x) { return x / (1.0f + __expf(-x)); }

/* Eight columns of a row of attention: partials of chunks of keys, folded in order. */
static __device__ __forceinline__ void merge8(float out[8], const struct rows_args &a, int row, int column)
{
	int NH = a.width / a.HD, head = column / a.HD, d = column % a.HD;
	int64_t step = (int64_t)NH * (a.HD + 2);
	const float *from = a.partial + (int64_t)row * a.chunks * step + (int64_t)head * (a.HD + 2);
	int n = a.sequence[row] < 0 ? 0 : a.pos[row] / CHUNK + 1;
	float M = -INFINITY, L = 0;
#pragma unroll
	for (int i = 0; i < 8; i++) out[i] = 0;
	for (int j = 0; j < n; j++, from += step) {
		float m = from[a.HD], l = from[a.HD + 1];
		float M1 = fmaxf(M, m), shift = shift_of(M1, a.scale_log2);
		float keep = shift_factor(M, M1, a.scale_log2, shift), take = shift_factor(m, M1, a.scale_log2, shift);
		float2 o[4];
#pragma unroll
		for (int i = 0; i < 4; i++) o[i] = *(const float2 *)(from + d + 2 * i);
#pragma unroll
		for (int i = 0; i < 4; i++) {
			out[2 * i] = fmaf(o[i].x, take, __fmul_rn(out[2 * i], keep));
			out[2 * i + 1] = fmaf(o[i].y, take, __fmul_rn(out[2 * i + 1], keep));
		}
		L = fmaf(l, take, __fmul_rn(L, keep));
		M = M1;
	}
	float inverse = n ? __frcp_rn(L) : 0.0f;
#pragma unroll
	for (int i = 0; i < 8; i++) out[i] = __fmul_rn(out[i], inverse);
}

template <enum source SOURCE>
static __device__ __forceinline__ bf16x8 source8(const struct rows_args &a, int row, int column)
{
	if (SOURCE == SOURCE_NORM) return load8(a.x + (int64_t)row * a.width + column);
	if (SOURCE == SOURCE_PLAIN) return load8(a.y + (int64_t)row * a.y_ld + column);
	float out[8];
	if (SOURCE == SOURCE_GATE) {
		float gate[8], up[8];
		unpack8(gate, load8(a.x + (int64_t)row * 2 * a.width + column));
		unpack8(up, load8(a.x + (int64_t)row * 2 * a.width + a.width + column));
#pragma unroll
		for (int i = 0; i < 8; i++) out[i] = silu(gate[i]) * up[i];
	} else {
		merge8(out, a, row, column);
	}
	return pack8(out);
}

/* ---- the kernel ---- */

/* The block's slice of ROWS rows, in shared memory with rows of `stride` elements. Sixteen threads a row. Also gives
 * the row's sum of squares over the slice. */
template <enum source SOURCE>
static __device__ __forceinline__ float rows_make(
	const struct rows_args &a, bf16 *tile, int stride, int row0, int column0, int columns)
{
	int r = (int)threadIdx.x / (THREADS / ROWS), lane = (int)threadIdx.x % (THREADS / ROWS);
	bool exists = row0 + r < a.T;
	float squares = 0;
	for (int column = lane * 8; column < stride - PAD; column += THREADS / ROWS * 8) {
		bf16x8 v = exists && column < columns ? source8<SOURCE>(a, row0 + r, column0 + column) : zero8();
		store8(tile + r * stride + column, v);
		if (SOURCE == SOURCE_NORM) {
			float x[8];
			unpack8(x, v);
#pragma unroll
			for (int i = 0; i < 8; i++) squares = fmaf(x[i], x[i], squares);
		} else if (SOURCE != SOURCE_PLAIN && exists && column < columns) {
			store8(a.y + (int64_t)(row0 + r) * a.y_ld + column0 + column, v);
		}
	}
	return SOURCE == SOURCE_NORM ? lanes_sum<THREADS / ROWS>(squares) : 0.0f;
}

/* What stands in the tile becomes x * rstd * w, and goes out. */
static __device__ __forceinline__ void rows_scale(
	const struct rows_args &a, bf16 *tile, int stride, int row0, int column0, int columns, float rstd)
{
	int r = (int)threadIdx.x / (THREADS / ROWS), lane = (int)threadIdx.x % (THREADS / ROWS);
	if (row0 + r >= a.T) return;
	for (int column = lane * 8; column < columns; column += THREADS / ROWS * 8) {
		float x[8], w[8];
		unpack8(x, load8(tile + r * stride + column));
		unpack8(w, load8(a.w + column0 + column));
#pragma unroll
		for (int i = 0; i < 8; i++) x[i] = x[i] * rstd * w[i];
		bf16x8 v = pack8(x);
		store8(tile + r * stride + column, v);
		store8(a.y + (int64_t)(row0 + r) * a.y_ld + column0 + column, v);
	}
}

/* Eight elements of A's row for column n of the tail; zeros where there is no adapter. */
static __device__ __forceinline__ bf16x8 thin_a8(const struct thin &t, int n, int column, bool exists)
{
	if (!exists || n >= t.used) return zero8();
	int part = n / t.r;
	const bf16 *a = part == 0 ? t.part[0].a : part == 1 ? t.part[1].a : t.part[2].a;
	int64_t ld = part == 0 ? t.part[0].ld : part == 1 ? t.part[1].ld : t.part[2].ld;
	if (!a) return zero8();
	return load8(a + (n - part * t.r) * ld + column);
}

static __device__ __forceinline__ bf16x8 thin_drop(bf16x8 v, const struct thin &t, int part, uint64_t element)
{
	uint4 low = philox(t.seed, t.stream + (uint64_t)part, element / 4),
		  high = philox(t.seed, t.stream + (uint64_t)part, element / 4 + 1);
	uint32_t word[8] = {low.x, low.y, low.z, low.w, high.x, high.y, high.z, high.w};
	float x[8];
	unpack8(x, v);
#pragma unroll
	for (int i = 0; i < 8; i++) x[i] = dropout_keeps(word[i], t.p) ? x[i] : 0.0f;
	return pack8(x);
}

/* A warp's share: acc (ROWS, THIN_COLUMNS from n0) += tile A^T over the columns [k0, k1) of the slice. Lane 4 g + q
 * reads columns 8 q.. of every 32: the two steps of 16 then multiply columns in another order than they stand, the same
 * one for rows and for A. With dropout each part sees other zeros, and a tile of eight columns may hold two parts: it
 * is gone over once for each part. */
template <bool DROPOUT>
static __device__ __forceinline__ void thin_multiply(float acc[THIN_TILES][4], const struct rows_args &a,
	const bf16 *tile, int stride, int row0, int column0, int columns, int n0, int k0, int k1)
{
	const struct thin &t = a.thin;
	int lane = (int)threadIdx.x % WARP, g = lane / 4, q = lane % 4;
	int first_part = DROPOUT ? n0 / t.r : 0, last_part = DROPOUT ? (min(n0 + THIN_COLUMNS, t.used) - 1) / t.r : 0;
	for (int part = first_part; part <= last_part; part++)
		for (int k = k0; k < k1; k += 32) {
			int column = k + q * 8;
			union {
				bf16x8 v;
				uint32_t u[4];
			} low, high, b;
			low.v = load8(tile + g * stride + column);
			high.v = load8(tile + (g + 8) * stride + column);
			if (DROPOUT) {
				uint64_t element = (uint64_t)(row0 + g) * (uint64_t)a.width + (uint64_t)(column0 + column);
				low.v = thin_drop(low.v, t, part, element);
				high.v = thin_drop(high.v, t, part, element + 8 * (uint64_t)a.width);
			}
			uint32_t first[4] = {low.u[0], high.u[0], low.u[1], high.u[1]},
					 second[4] = {low.u[2], high.u[2], low.u[3], high.u[3]};
#pragma unroll
			for (int i = 0; i < THIN_TILES; i++) {
				int n = n0 + i * 8 + g;
				if (n0 + i * 8 >= t.used) break;
				b.v = thin_a8(t, n, column0 + column, column < columns && (!DROPOUT || n / t.r == part));
				mma_bf16(acc[i], first, b.u[0], b.u[1]);
				mma_bf16(acc[i], second, b.u[2], b.u[3]);
			}
		}
}

/* parts (WARPS, ROWS, THIN_COLUMNS) of this block become one in parts[0], and those of the cluster the rows' tail. */
static __device__ __forceinline__ void thin_store(
	cg::cluster_group &cluster, const struct rows_args &a, float *parts, int row0, int n0)
{
	int blocks = (int)cluster.num_blocks(), rank = (int)cluster.block_rank(),
		columns = min(THIN_COLUMNS, a.thin.columns - n0);
	__syncthreads();
	for (int i = (int)threadIdx.x; i < ROWS * THIN_COLUMNS; i += THREADS) {
		float sum = parts[i];
#pragma unroll
		for (int w = 1; w < WARPS; w++) sum += parts[w * ROWS * THIN_COLUMNS + i];
		parts[i] = sum;
	}
	cluster.sync();
	int share = ROWS * THIN_COLUMNS / blocks;
	for (int i = rank * share + (int)threadIdx.x; i < (rank + 1) * share; i += THREADS) {
		int row = row0 + i / THIN_COLUMNS, column = i % THIN_COLUMNS;
		float sum = 0;
		for (int b = 0; b < blocks; b++) sum += *cluster.map_shared_rank(parts + i, b);
		if (row < a.T && column < columns)
			a.y[(int64_t)row * a.y_ld + a.width + n0 + column] = __float2bfloat16_rn(sum * a.thin.scaling);
	}
	cluster.sync();
}

template <enum source SOURCE, bool DROPOUT>
static __global__ void __launch_bounds__(THREADS) rows_kernel(const struct rows_args a)
{
	extern __shared__ __align__(16) unsigned char shared[];
	cg::cluster_group cluster = cg::this_cluster();
	int rank = (int)cluster.block_rank(), blocks = (int)cluster.num_blocks();
	int row0 = (int)blockIdx.x / blocks * ROWS, column0 = rank * a.slice,
		columns = max(0, min(a.slice, a.width - column0));
	int stride = a.slice + PAD;
	bf16 *tile = (bf16 *)shared;                      /* (ROWS, slice + PAD) */
	float *squares = (float *)(tile + ROWS * stride); /* (ROWS) */
	float *parts = squares + ROWS;                    /* (WARPS, ROWS, THIN_COLUMNS) */

	grid_begin();
	float own = rows_make<SOURCE>(a, tile, stride, row0, column0, columns);

	/* norm: the row's sum over the cluster, in order, then the values */
	if (SOURCE == SOURCE_NORM) {
		int r = (int)threadIdx.x / (THREADS / ROWS);
		if (threadIdx.x % (THREADS / ROWS) == 0) squares[r] = own;
		cluster.sync();
		float sum = 0;
		for (int b = 0; b < blocks; b++) sum += *cluster.map_shared_rank(squares + r, b);
		float rstd = rsqrtf(sum / (float)a.width + a.eps);
		rows_scale(a, tile, stride, row0, column0, columns, rstd);
		if (a.rstd && rank == 0 && threadIdx.x % (THREADS / ROWS) == 0 && row0 + r < a.T) a.rstd[row0 + r] = rstd;
		cluster.sync();
	}
	__syncthreads();

	/* the tail */
	int share = (a.slice + 32 * WARPS - 1) / (32 * WARPS) * 32, warp = (int)threadIdx.x / WARP,
		lane = (int)threadIdx.x % WARP;
	for (int n0 = 0; n0 < a.thin.columns; n0 += THIN_COLUMNS) {
		float acc[THIN_TILES][4] = {};
		if (n0 < a.thin.used)
			thin_multiply<DROPOUT>(
				acc, a, tile, stride, row0, column0, columns, n0, warp * share, min((warp + 1) * share, a.slice));
		float *mine = parts + warp * ROWS * THIN_COLUMNS;
#pragma unroll
		for (int i = 0; i < THIN_TILES; i++) {
			int at = lane / 4 * THIN_COLUMNS + i * 8 + lane % 4 * 2;
			*(float2 *)(mine + at) = make_float2(acc[i][0], acc[i][1]);
			*(float2 *)(mine + at + 8 * THIN_COLUMNS) = make_float2(acc[i][2], acc[i][3]);
		}
		thin_store(cluster, a, parts, row0, n0);
	}
}

/* Blocks of a cluster: by the width alone. */
static void rows_shape(struct rows_args *a, int *cluster)
{
	*cluster = 1;
	while (*cluster < CLUSTER_MAX && a->width > *cluster * SLICE_MIN) *cluster *= 2;
	a->slice = (a->width + *cluster * 32 - 1) / (*cluster * 32) * 32;
}

template <enum source SOURCE> static void rows_run(struct ops_context *c, struct rows_args *a)
{
	int cluster;
	CHECKF(a->width % 8 == 0, "rows of %d columns; the CUDA backend takes multiples of 8", a->width);
	if (!a->T) return;
	rows_shape(a, &cluster);
	size_t bytes = ROWS * (size_t)(a->slice + PAD) * sizeof(bf16) + ROWS * sizeof(float) +
		WARPS * ROWS * THIN_COLUMNS * sizeof(float);
	CHECKF(bytes <= 227 << 10, "rows of %d columns; the CUDA backend takes at most %d", a->width, 48000);
	struct launch l = {dim3((unsigned)((a->T + ROWS - 1) / ROWS * cluster)), dim3(THREADS), bytes, cluster};
	if (a->thin.p > 0) cuda_launch(c, l, rows_kernel<SOURCE, true>, *a);
	else cuda_launch(c, l, rows_kernel<SOURCE, false>, *a);
}

/* ---- entries ---- */

static void norm(struct ops_context *c, struct elem *y, struct f32 *rstd, const struct elem *x,
	const struct ops_weight *w, float eps, int T, const struct ops_next *next)
{
	struct rows_args a = {};
	a.y = elems(y), a.y_ld = w->cols + c->tail, a.rstd = floats(rstd), a.x = elems(x), a.w = elems(w->w), a.eps = eps;
	a.T = T, a.width = w->cols, a.thin = thin_of(c, next, w->cols);
	rows_run<SOURCE_NORM>(c, &a);
}

static void gate(
	struct ops_context *c, struct elem *act, const struct elem *gu, int I, int T, const struct ops_next *next)
{
	struct rows_args a = {};
	a.y = elems(act), a.y_ld = I + c->tail, a.x = elems(gu), a.T = T, a.width = I, a.thin = thin_of(c, next, I);
	rows_run<SOURCE_GATE>(c, &a);
}

void cuda_merge(struct ops_context *c, bf16 *att, const float *partial, const struct batch_view *v, int NH, int HD,
	int T, const struct ops_next *next)
{
	struct rows_args a = {};
	a.y = att, a.y_ld = NH * HD + c->tail, a.partial = partial, a.pos = v->pos, a.sequence = v->sequence,
	a.chunks = v->chunks, a.HD = HD;
	a.scale_log2 = scale_log2_of(HD), a.T = T, a.width = NH * HD, a.thin = thin_of(c, next, NH * HD);
	rows_run<SOURCE_MERGE>(c, &a);
}

void cuda_thin(struct ops_context *c, bf16 *x, int in, int T, const struct ops_next *next)
{
	struct rows_args a = {};
	a.y = x, a.y_ld = in + c->tail, a.T = T, a.width = in, a.thin = thin_of(c, next, in);
	if (a.thin.columns) rows_run<SOURCE_PLAIN>(c, &a);
}

/* ---- rows that are fetched ---- */

static __global__ void fetch_kernel(
	bf16 *out, int64_t out_ld, const bf16 *from, int64_t from_ld, const int32_t *which, int columns)
{
	grid_begin();
	const uint4 *in = (const uint4 *)(from + which[blockIdx.x] * from_ld);
	uint4 *to = (uint4 *)(out + blockIdx.x * out_ld);
	for (int i = (int)threadIdx.x; i < columns / 8; i += (int)blockDim.x) to[i] = in[i];
}

static void fetch(
	struct ops_context *c, bf16 *out, const bf16 *from, int64_t from_ld, const int32_t *which, int columns, int n)
{
	CHECKF(columns % 8 == 0 && from_ld % 8 == 0,
		"rows of %d columns, %lld apart; the CUDA backend takes multiples of 8", columns, (long long)from_ld);
	if (n)
		cuda_launch(c, {dim3((unsigned)n), dim3(128), 0, 0}, fetch_kernel, out, (int64_t)columns, from, from_ld, which,
			columns);
}

static void embed(
	struct ops_context *c, struct elem *x, const struct ops_weight *table, const struct ops_batch *b, int T)
{
	fetch(c, elems(x), elems(table->w), table->ld, b->view.ids, table->cols, T);
}

static void gather(struct ops_context *c, struct elem *out, const struct elem *x, int C, int x_tail,
	const struct ops_batch *b, int first, int n)
{
	fetch(c, elems(out), elems(x), C + x_tail, b->view.at + first, C, n);
}

void cuda_rows_entries(struct ops *t)
{
	t->norm = norm;
	t->gate = gate;
	t->embed = embed;
	t->gather = gather;
}
