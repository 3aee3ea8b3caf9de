/* linear_backward: gradients of projections. dx and the adapter's dh are one product, dy [W B] =
 * [dx dh], dh in the tail columns of dx. What is left of an adapter are three thin products, made
 * here, each of them one pass over its large side, on tensor cores:
 *
 *   dA = scaling dh' drop(x)     dB = dy' h     dx += scaling drop'(dh A)
 *
 * where h = scaling drop(x) A' stands behind x. The first two are sums over all rows: slices of
 * fixed length, each summed by one block, then added in order. drop draws base's Philox mask again,
 * as the forward pass did. */
#include "cuda_device.cuh"

#define THREADS 256
#define GROUP 64          /* tail columns at a time */
#define COLUMNS 128       /* of the large side, for a block */
#define STEP 64           /* rows of a step */
#define SLICE CUDA_SLICE
#define ADD_ROWS 64
/* Floats from row to row in shared memory: the quads of a store fall into different banks. */
#define ADD_STRIDE (COLUMNS + 4)
#define SUM_THREADS 256

struct drop {        /* inverted dropout of a (T, width) input */
	float p;         /* 0: none */
	uint64_t seed;   /* of the mask's draws */
	uint64_t stream; /* the part's own */
	int width;       /* columns of the input */
};

/* Element `at` and the seven after it, kept or 0; at is a multiple of 8. */
static __device__ __forceinline__ bf16x8 dropped8(bf16x8 v, const struct drop &d, uint64_t at)
{
	uint4 low = philox(d.seed, d.stream, at / 4), high = philox(d.seed, d.stream, at / 4 + 1);
	uint32_t word[8] = {low.x, low.y, low.z, low.w, high.x, high.y, high.z, high.w};
	float x[8];
	unpack8(x, v);
#pragma unroll
	for (int i = 0; i < 8; i++) x[i] = dropout_keeps(word[i], d.p) ? x[i] : 0.0f;
	return pack8(x);
}

/* ---- sums over rows: dA and dB ---- */

struct thin_gradient {
	const bf16 *thin; /* (T, ?) the narrow side, from tail column 0 */
	int64_t thin_ld;  /* elements from a row of thin to the next */
	const bf16 *wide; /* (T, N) */
	int64_t wide_ld;  /* the same of wide */
	float *partial;   /* (slices, end - first, N) */
	int first;        /* tail column wanted */
	int end;          /* the one behind the last */
	int N;            /* columns of wide */
	int T;            /* rows */
	struct drop drop; /* of wide */
};

/* Block (128 columns, slice, 64 tail columns): partial = thin' wide over the slice. A warp owns 16
 * columns and all 64 tail columns. */
static __global__ void __launch_bounds__(THREADS) thin_gradient_kernel(const struct thin_gradient a)
{
	extern __shared__ __align__(1024) uint8_t shared[];
	constexpr uint32_t THIN_BYTES = STEP * GROUP * 2, STAGE_BYTES = THIN_BYTES + STEP * COLUMNS * 2;
	int lane = (int)threadIdx.x % WARP, warp = (int)threadIdx.x / WARP, column = (int)blockIdx.x * COLUMNS;
	int row = (int)blockIdx.y * SLICE, end = min(row + SLICE, a.T),
		tail = a.first / GROUP * GROUP + (int)blockIdx.z * GROUP;
	uint32_t base = shared_address(shared), thin_lane = lane_columns<GROUP>(lane),
			 wide_lane = lane_rows<COLUMNS>(lane) ^ (uint32_t)(warp << 5);
	float acc[GROUP / 16][2][4] = {};

	/* copies of one step; columns behind the last are zeros */
	auto load = [&](uint32_t stage, int t) {
		tile_load<STEP, GROUP, THREADS>(stage, a.thin + t * a.thin_ld + tail, a.thin_ld, end - t);
		int piece = (int)threadIdx.x % (COLUMNS / 8), r = (int)threadIdx.x / (COLUMNS / 8);
		for (; r < STEP; r += THREADS / (COLUMNS / 8)) {
			bool exists = t + r < end && column + piece * 8 < a.N;
			copy_16(stage + THIN_BYTES + tile_at<COLUMNS>(r, piece),
				a.wide + (exists ? (int64_t)(t + r) * a.wide_ld + column + piece * 8 : 0), exists);
		}
		copies_commit();
	};

	grid_begin();
	load(base, row);
	for (int t = row, step = 0; t < end; t += STEP, step++) {
		copies_wait();
		__syncthreads();
		uint32_t stage = base + (uint32_t)(step & 1) * STAGE_BYTES, wide = stage + THIN_BYTES;
		if (t + STEP < end) load(base + (uint32_t)((step + 1) & 1) * STAGE_BYTES, t + STEP);
		/* dropout goes over the tile where it lies */
		if (a.drop.p > 0) {
			bf16 *tile = (bf16 *)(shared + (step & 1) * STAGE_BYTES + THIN_BYTES);
			for (int i = (int)threadIdx.x; i < STEP * COLUMNS / 8; i += THREADS) {
				int r = i / (COLUMNS / 8), piece = i % (COLUMNS / 8);
				bf16 *at = tile + tile_at<COLUMNS>(r, piece) / 2;
				store8(at,
					dropped8(load8(at), a.drop,
						(uint64_t)(t + r) * (uint64_t)a.drop.width + (uint64_t)(column + piece * 8)));
			}
			__syncthreads();
		}
#pragma unroll
		for (int k = 0; k < STEP / 16; k++) {
			uint32_t b[4];
			ldmatrix_transposed(b, square<COLUMNS>(wide + wide_lane, k, 0));
#pragma unroll
			for (int m = 0; m < GROUP / 16; m++) {
				if (tail + m * 16 >= a.end || tail + m * 16 + 16 <= a.first) continue;
				uint32_t f[4];
				ldmatrix_transposed(f, square<GROUP>(stage + thin_lane, k, m));
				mma_bf16(acc[m][0], f, b[0], b[1]);
				mma_bf16(acc[m][1], f, b[2], b[3]);
			}
		}
	}

	/* rows of the result are tail columns */
	int wanted = a.end - a.first;
	float *to = a.partial + (int64_t)blockIdx.y * wanted * a.N;
#pragma unroll
	for (int m = 0; m < GROUP / 16; m++)
#pragma unroll
		for (int i = 0; i < 4; i++) {
			int r = tail + m * 16 + lane / 4 + (i & 2) * 4 - a.first, n = column + warp * 16 + lane % 4 * 2;
			if (r < 0 || r >= wanted) continue;
			if (n + (i & 1) < a.N) to[(int64_t)r * a.N + n + (i & 1)] = acc[m][0][i];
			if (n + 8 + (i & 1) < a.N) to[(int64_t)r * a.N + n + 8 + (i & 1)] = acc[m][1][i];
		}
}

struct thin_sum {
	float *grad[OPS_PARTS]; /* of part row / r; NULL: not wanted */
	const float *partial;   /* (slices, rows, N) */
	int slices;             /* of the rows */
	int rows;               /* tail columns */
	int N;                  /* columns of the wide side */
	int r;                  /* rank */
	bool is_b;              /* grad is (N, r), else (r, N) */
	float scale;            /* by which the sum is multiplied */
};

static __global__ void __launch_bounds__(SUM_THREADS) thin_sum_kernel(const struct thin_sum a)
{
	grid_begin();
	int n = (int)(blockIdx.x * SUM_THREADS + threadIdx.x), row = (int)blockIdx.y, part = row / a.r;
	float *grad = part == 0 ? a.grad[0] : part == 1 ? a.grad[1] : a.grad[2];
	if (n >= a.N || !grad) return;
	float sum = 0;
#pragma unroll 4
	for (int s = 0; s < a.slices; s++) sum += a.partial[((int64_t)s * a.rows + row) * a.N + n];
	int64_t at = a.is_b ? (int64_t)n * a.r + row % a.r : (int64_t)(row % a.r) * a.N + n;
	grad[at] += a.scale * sum;
}

/* The largest that thin_gradient needs for partial. */
static size_t partial_bytes(const struct ops_linear *l, const struct ops_lora *lora, int T)
{
	int64_t largest = (int64_t)l->in * l->parts;
	for (int i = 0; i < l->parts; i++) largest = MAX(largest, (int64_t)l->w[i].rows);
	return cuda_thin_scratch(T, lora->r, largest);
}

/* grad[0..] += scale * thin[first..end)' wide, in slices. */
static void thin_gradient(struct ops_context *c, struct thin_gradient a, struct thin_sum sum)
{
	CHECKF(a.N % 8 == 0 && a.wide_ld % 8 == 0 && a.thin_ld % 8 == 0,
		"%d columns, %lld apart; the CUDA backend takes multiples of 8", a.N, (long long)a.wide_ld);
	int slices = (a.T + SLICE - 1) / SLICE, rows = a.end - a.first;
	int groups = (a.end + GROUP - 1) / GROUP - a.first / GROUP;
	size_t shared_bytes = 2 * (STEP * GROUP * 2 + STEP * COLUMNS * 2);
	cuda_launch(c,
		{dim3((unsigned)((a.N + COLUMNS - 1) / COLUMNS), (unsigned)slices, (unsigned)groups), dim3(THREADS),
			shared_bytes, 0},
		thin_gradient_kernel, a);
	sum.partial = a.partial, sum.slices = slices, sum.rows = rows, sum.N = a.N;
	cuda_launch(c, {dim3((unsigned)((a.N + SUM_THREADS - 1) / SUM_THREADS), (unsigned)rows), dim3(SUM_THREADS), 0, 0},
		thin_sum_kernel, sum);
}

/* ---- dx += scale drop'(dh A) ---- */

struct thin_add {
	bf16 *dx;                 /* (T, N; row stride dx_ld) */
	int64_t dx_ld;            /* elements from a row of dx to the next */
	const bf16 *dh;           /* (T, ?), from tail column 0 */
	int64_t dh_ld;            /* the same of dh */
	const bf16 *a[OPS_PARTS]; /* (r, N) of each part; NULL: not adapted */
	int64_t a_ld[OPS_PARTS];  /* elements from a row of each to the next */
	int r;                    /* rank */
	int used;                 /* tail columns in use: parts * r */
	int N;                    /* columns of dx */
	int T;                    /* rows */
	int parts;                /* of the linear */
	float scale;              /* by which the sum is multiplied */
	struct drop drop;         /* of part 0; part i draws from stream + i */
};

/* A's rows of tail columns tail.. + 64 that belong to parts [part, part_end), zeros elsewhere. */
static __device__ __forceinline__ void a_load(
	uint32_t tile, const struct thin_add &a, int tail, int column, int part, int part_end)
{
#pragma unroll 1
	for (int i = (int)threadIdx.x; i < GROUP * COLUMNS / 8; i += THREADS) {
		int k = i / (COLUMNS / 8), piece = i % (COLUMNS / 8), j = tail + k, own = j / a.r, n = column + piece * 8;
		const bf16 *from = own == 0 ? a.a[0] : own == 1 ? a.a[1] : a.a[2];
		int64_t ld = own == 0 ? a.a_ld[0] : own == 1 ? a.a_ld[1] : a.a_ld[2];
		bool exists = j < a.used && own >= part && own < part_end && from && n < a.N;
		copy_16(tile + tile_at<COLUMNS>(k, piece), exists ? from + (int64_t)(j - own * a.r) * ld + n : a.dh, exists);
	}
}

/* A part's eight sums, or 0 where its mask dropped the input. */
static __device__ __forceinline__ void dropped_add(
	float total[8], const float *sum, const struct drop &d, int part, uint64_t element)
{
	uint64_t stream = d.stream + (uint64_t)part;
	uint4 low = philox(d.seed, stream, element / 4), high = philox(d.seed, stream, element / 4 + 1);
	uint32_t word[8] = {low.x, low.y, low.z, low.w, high.x, high.y, high.z, high.w};
#pragma unroll
	for (int j = 0; j < 8; j++) total[j] += dropout_keeps(word[j], d.p) ? sum[j] : 0.0f;
}

/* Block (128 columns, 64 rows). Without dropout one pass takes all parts; with it each part is
 * made, masked and added by itself. The sum goes through shared memory, so that dx is read and
 * written in whole pieces. */
template <bool DROPS>
static __global__ void __launch_bounds__(THREADS, DROPS ? 1 : 3) thin_add_kernel(const struct thin_add a)
{
	extern __shared__ __align__(1024) uint8_t shared[];
	constexpr uint32_t DH_BYTES = ADD_ROWS * GROUP * 2, A_BYTES = GROUP * COLUMNS * 2;
	static_assert(DH_BYTES + A_BYTES <= ADD_ROWS * ADD_STRIDE * sizeof(float), "the tiles fit where the sum comes");
	constexpr int PIECES = ADD_ROWS * COLUMNS / 8 / THREADS, ROW_STEP = THREADS / (COLUMNS / 8);
	int lane = (int)threadIdx.x % WARP, warp = (int)threadIdx.x / WARP, column = (int)blockIdx.x * COLUMNS,
		row = (int)blockIdx.y * ADD_ROWS;
	int rows16 = warp % 4, half = warp / 4; /* a warp makes 16 rows by 64 columns */
	uint32_t dh_tile = shared_address(shared), a_tile = dh_tile + DH_BYTES;
	uint32_t dh_at = dh_tile + lane_rows<GROUP>(lane) + (uint32_t)(rows16 * 16 * GROUP * 2),
			 a_at = a_tile + (lane_rows<COLUMNS>(lane) ^ (uint32_t)(half << 7));
	float *sum = (float *)shared; /* (ADD_ROWS, ADD_STRIDE), where the tiles were */
	float total[PIECES][8] = {};

	/* the pieces of dx that this thread adds to: asked for early */
	int r0 = (int)threadIdx.x / (COLUMNS / 8), n0 = (int)threadIdx.x % (COLUMNS / 8) * 8;
	bf16 *to = a.dx + (int64_t)(row + r0) * a.dx_ld + column + n0;
	bf16x8 old[PIECES];
	grid_begin();
#pragma unroll
	for (int i = 0; i < PIECES; i++) {
		bool exists = row + r0 + i * ROW_STEP < a.T && column + n0 < a.N;
		old[i] = exists ? load8(to + (int64_t)i * ROW_STEP * a.dx_ld) : zero8();
	}

	for (int part = 0; part < a.parts; part += DROPS ? 1 : a.parts) {
		float acc[8][4] = {};
		int part_end = DROPS ? part + 1 : a.parts;
		for (int tail = part * a.r / GROUP * GROUP; tail < part_end * a.r; tail += GROUP) {
			__syncthreads();
			tile_load<ADD_ROWS, GROUP, THREADS>(dh_tile, a.dh + row * a.dh_ld + tail, a.dh_ld, a.T - row);
			a_load(a_tile, a, tail, column, part, part_end);
			copies_commit();
			copies_wait();
			__syncthreads();
#pragma unroll
			for (int k = 0; k < GROUP / 16; k++) {
				if (tail + k * 16 >= a.used) break;
				uint32_t f[4], b[4];
				ldmatrix(f, square<GROUP>(dh_at, 0, k));
#pragma unroll
				for (int i = 0; i < 4; i++) {
					ldmatrix_transposed(b, square<COLUMNS>(a_at, k, i));
					mma_bf16(acc[2 * i], f, b[0], b[1]);
					mma_bf16(acc[2 * i + 1], f, b[2], b[3]);
				}
			}
		}
		__syncthreads();
		float *mine = sum + (rows16 * 16 + lane / 4) * ADD_STRIDE + half * 64 + lane % 4 * 2;
#pragma unroll
		for (int i = 0; i < 8; i++) {
			*(float2 *)(mine + i * 8) = make_float2(acc[i][0], acc[i][1]);
			*(float2 *)(mine + i * 8 + 8 * ADD_STRIDE) = make_float2(acc[i][2], acc[i][3]);
		}
		__syncthreads();
		/* the part's mask, then the sum of parts; the next part's barrier keeps these reads
		 * apart from its stores */
#pragma unroll
		for (int i = 0; DROPS && i < PIECES; i++)
			dropped_add(total[i], sum + (r0 + i * ROW_STEP) * ADD_STRIDE + n0, a.drop, part,
				(uint64_t)(row + r0 + i * ROW_STEP) * (uint64_t)a.drop.width + (uint64_t)(column + n0));
	}
#pragma unroll
	for (int i = 0; i < PIECES; i++) {
		if (row + r0 + i * ROW_STEP >= a.T || column + n0 >= a.N) continue;
		const float *add = DROPS ? total[i] : sum + (r0 + i * ROW_STEP) * ADD_STRIDE + n0;
		float x[8];
		unpack8(x, old[i]);
#pragma unroll
		for (int j = 0; j < 8; j++) x[j] = fmaf(add[j], a.scale, x[j]);
		store8(to + (int64_t)i * ROW_STEP * a.dx_ld, pack8(x));
	}
}

static void thin_add(struct ops_context *c, const struct thin_add *a)
{
	static_assert(ADD_ROWS >= CUDA_TILE_ROWS && SLICE >= CUDA_TILE_ROWS, "as the limits say");
	size_t shared_bytes = ADD_ROWS * ADD_STRIDE * sizeof(float);
	cuda_launch(c,
		{dim3((unsigned)((a->N + COLUMNS - 1) / COLUMNS), (unsigned)((a->T + ADD_ROWS - 1) / ADD_ROWS)), dim3(THREADS),
			shared_bytes, 0},
		a->drop.p > 0 ? thin_add_kernel<true> : thin_add_kernel<false>, *a);
}

/* ---- biases ---- */

struct bias_sum {
	const bf16 *dy; /* (T, columns; row stride ld) */
	int64_t ld;     /* elements from a row of dy to the next */
	float *partial; /* (slices, columns) */
	float *grad;    /* (columns) += */
	int columns;    /* of the bias */
	int T;          /* rows */
	int slices;     /* of the rows */
};

static __global__ void __launch_bounds__(SUM_THREADS) bias_partial_kernel(const struct bias_sum a)
{
	grid_begin();
	int column = (int)(blockIdx.x * SUM_THREADS + threadIdx.x), row = (int)blockIdx.y * SLICE,
		end = min(row + SLICE, a.T);
	if (column >= a.columns) return;
	float sum = 0;
#pragma unroll 8
	for (int t = row; t < end; t++) sum += __bfloat162float(a.dy[t * a.ld + column]);
	a.partial[(int64_t)blockIdx.y * a.columns + column] = sum;
}

static __global__ void __launch_bounds__(SUM_THREADS) bias_total_kernel(const struct bias_sum a)
{
	grid_begin();
	int column = (int)(blockIdx.x * SUM_THREADS + threadIdx.x);
	if (column >= a.columns) return;
	float sum = 0;
	for (int s = 0; s < a.slices; s++) sum += a.partial[(int64_t)s * a.columns + column];
	a.grad[column] += sum;
}

static void bias_backward(struct ops_context *c, struct ops_weight *bias, const bf16 *dy, int64_t ld, int T)
{
	struct bias_sum a = {};
	a.dy = dy, a.ld = ld, a.grad = floats(bias->grad), a.columns = bias->cols, a.T = T,
	a.slices = (T + SLICE - 1) / SLICE;
	a.partial = (float *)scratch_of(c, (size_t)a.slices * (size_t)a.columns * sizeof(float));
	unsigned runs = (unsigned)((a.columns + SUM_THREADS - 1) / SUM_THREADS);
	cuda_launch(c, {dim3(runs, (unsigned)a.slices), dim3(SUM_THREADS), 0, 0}, bias_partial_kernel, a);
	cuda_launch(c, {dim3(runs), dim3(SUM_THREADS), 0, 0}, bias_total_kernel, a);
}

/* ---- the entry ---- */

/* dx (T, columns) = dy W, from column `first` of W and with what stands in its tail; parts that do
 * not adjoin one by one. */
static void input_gradient(struct ops_context *c, bf16 *d, int64_t ldd, const bf16 *dy, const struct ops_linear *l,
	int first, int columns, int T, bool adds)
{
	int parts = parts_adjoin(l) ? 1 : l->parts, at = 0;
	for (int i = 0; i < parts; i++) {
		struct product p = {};
		p.M = T, p.N = columns, p.K = parts == 1 ? l->out : l->w[i].rows;
		p.a = dy + at, p.lda = l->out, p.b = elems(l->w[i].w) + first, p.ldb = l->w[i].ld;
		p.c = p.d = d, p.ldc = p.ldd = ldd, p.alpha = 1, p.beta = adds || i ? 1.0f : 0.0f;
		cuda_product(c, &p);
		at += p.K;
	}
}

static struct drop drop_of(const struct ops_lora *lora, int in)
{
	struct drop d = {};
	if (lora->seed && lora->dropout > 0)
		d.p = lora->dropout, d.seed = lora->seed, d.stream = lora->stream, d.width = in;
	return d;
}

/* dA of all parts at once, or one by one where each has a mask of its own; dB of each. */
static void adapter_gradients(struct ops_context *c, const bf16 *dy, const bf16 *x, const bf16 *dh, int64_t dh_ld,
	float *partial, const struct ops_linear *l, struct ops_lora *lora, int T)
{
	struct drop drop = drop_of(lora, l->in);
	/* What dropout keeps weighs 1 / (1 - p); the factor is the same for all elements, so it is
	 * applied to the sum. */
	float scale = drop.p > 0 ? lora->scaling / (1.0f - drop.p) : lora->scaling;
	int64_t x_ld = l->in + c->tail;
	int step = drop.p > 0 ? 1 : l->parts, at = 0;
	/* Without dropout all parts see the same x, so one pass over it serves them all. With it each
	 * part has a mask of its own. */
	for (int i = 0; i < l->parts; i += step) {
		struct thin_gradient a = {dh, dh_ld, x, x_ld, partial, i * lora->r, (i + step) * lora->r, l->in, T, drop};
		struct thin_sum sum = {};
		bool is_wanted = false;
		for (int j = 0; j < step; j++) {
			sum.grad[j] = floats(lora->a[i + j].grad);
			is_wanted = is_wanted || sum.grad[j];
		}
		/* A part's mask has the stream that the forward pass drew it from. */
		a.drop.stream += (uint64_t)i;
		sum.r = lora->r, sum.scale = scale;
		if (is_wanted) thin_gradient(c, a, sum);
	}
	/* The gradient of B needs no factor: h stands behind x with its scaling already in it. */
	for (int i = 0; i < l->parts; at += l->w[i++].rows) {
		if (!lora->b[i].grad) continue;
		struct thin_gradient b = {
			x + l->in, x_ld, dy + at, l->out, partial, i * lora->r, (i + 1) * lora->r, l->w[i].rows, T, {}};
		struct thin_sum sum = {};
		sum.grad[0] = floats(lora->b[i].grad), sum.r = lora->r, sum.is_b = true, sum.scale = 1;
		thin_gradient(c, b, sum);
	}
}

static void adapter_input_gradient(
	struct ops_context *c, bf16 *dx, const struct ops_linear *l, const struct ops_lora *lora, int T)
{
	struct thin_add a = {};
	a.dx = dx, a.dx_ld = a.dh_ld = l->in + c->tail, a.dh = dx + l->in, a.r = lora->r, a.used = lora->r * l->parts;
	a.N = l->in, a.T = T, a.parts = l->parts, a.drop = drop_of(lora, l->in);
	a.scale = a.drop.p > 0 ? lora->scaling / (1.0f - a.drop.p) : lora->scaling;
	for (int i = 0; i < l->parts; i++) a.a[i] = elems(lora->a[i].w), a.a_ld[i] = lora->a[i].ld;
	thin_add(c, &a);
}

/* Weights and biases, where they learn. */
static void weight_gradients(struct ops_context *c, const bf16 *dy, const bf16 *x, struct ops_linear *l, int T)
{
	int at = 0;
	for (int i = 0; i < l->parts; at += l->w[i++].rows) {
		struct ops_weight *w = &l->w[i];
		if (w->grad) {
			struct product p = {};
			p.M = w->rows, p.N = l->in, p.K = T, p.a_transposed = true, p.is_f32 = true;
			p.a = dy + at, p.lda = l->out, p.b = x, p.ldb = l->in + c->tail;
			p.c = p.d = w->grad, p.ldc = p.ldd = l->in, p.alpha = p.beta = 1;
			cuda_product(c, &p);
		}
		if (l->bias[i].w && l->bias[i].grad) bias_backward(c, &l->bias[i], dy + at, l->out, T);
	}
}

static void linear_backward(struct ops_context *c, struct elem *dx, const struct elem *dy, const struct elem *x,
	struct ops_linear *l, struct ops_lora *lora, int T, enum ops_accumulate acc)
{
	CHECKF(!lora || c->tail, "an adapter, but the backend was opened with adapter_columns 0");
	int used = lora ? (lora->r * l->parts + GROUP - 1) / GROUP * GROUP : 0;
	int64_t dx_ld = l->in + c->tail;
	CHECKF(used <= c->tail, "an adapter of rank %d needs %d spare columns, the backend was opened with %d",
		lora ? lora->r : 0, used, c->tail);
	if (!T) return;

	/* scratch: dh, where it is not behind dx, then the partial sums */
	size_t dh_bytes = dx ? 0 : cuda_thin_input(T, used);
	char *scratch = lora ? (char *)scratch_of(c, dh_bytes + partial_bytes(l, lora, T)) : NULL;
	bf16 *dh = dx ? elems(dx) + l->in : (bf16 *)scratch;
	int64_t dh_ld = dx ? dx_ld : used;

	/* dx and dh in one product, or dh alone */
	if (dx && lora && acc == OPS_ADD)
		CUDA_CHECK(
			cudaMemset2DAsync(dh, (size_t)dx_ld * sizeof *dh, 0, (size_t)used * sizeof *dh, (size_t)T, c->stream));
	if (dx) input_gradient(c, elems(dx), dx_ld, elems(dy), l, 0, l->in + used, T, acc == OPS_ADD);
	else if (lora) input_gradient(c, dh, dh_ld, elems(dy), l, l->in, used, T, false);
	if (lora) {
		adapter_gradients(c, elems(dy), elems(x), dh, dh_ld, (float *)(scratch + dh_bytes), l, lora, T);
		if (dx) adapter_input_gradient(c, elems(dx), l, lora, T);
	}
	weight_gradients(c, elems(dy), elems(x), l, T);
}

void cuda_linear_backward_entries(struct ops *t) { t->linear_backward = linear_backward; }
