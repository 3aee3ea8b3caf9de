/* linear: projections. An adapter costs no launch: its B stands in spare columns of W (bind) and its thin product
 * behind the input's rows (rows.cu), so [x h] [W B]^T is one product. Up to GEMV_ROWS rows are multiplied here, by
 * reading W once at the speed of memory; more go to cuBLASLt. */
#include "cuda_device.cuh"

#define GEMV_ROWS 4
#define GEMV_WARPS 4
#define GEMV_PIECES 8        /* of W that are on their way to a lane at once */
#define GEMV_STEP (WARP * 8) /* elements of a row that a warp reads at once */
#define GEMV_BLOCKS 8        /* of a multiprocessor, where two warps share a row of W */

/* ---- few rows ---- */

struct gemv {
	const bf16 *x, *w, *bias, *add;
	void *y;
	int64_t x_ld, w_ld, y_ld;
	int N, K;
	bool is_f32;
};

template <int M> static __device__ __forceinline__ void gemv_store(const struct gemv &g, int m, int n, float v)
{
	if (g.bias) v += __bfloat162float(g.bias[n]);
	if (g.add) v += __bfloat162float(g.add[m * g.y_ld + n]);
	if (g.is_f32) ((float *)g.y)[m * g.y_ld + n] = v;
	else ((bf16 *)g.y)[m * g.y_ld + n] = __float2bfloat16_rn(v);
}

/* DEPTH pieces of each of the warp's rows of W, from column k on; zeros behind the row. */
template <int SPLIT, int OUTPUTS, int DEPTH>
static __device__ __forceinline__ void gemv_load(bf16x8 raw[DEPTH][OUTPUTS], const bf16 *const w[OUTPUTS], int k, int K)
{
#pragma unroll
	for (int d = 0; d < DEPTH; d++)
#pragma unroll
		for (int j = 0; j < OUTPUTS; j++)
			raw[d][j] = k + d * SPLIT * GEMV_STEP < K ? load8_once(w[j] + k + d * SPLIT * GEMV_STEP) : zero8();
}

template <int M, int SPLIT, int OUTPUTS>
static __global__ void __launch_bounds__(GEMV_WARPS *WARP, M == 1 ? GEMV_BLOCKS : 1) gemv_kernel(const struct gemv g)
{
	constexpr int DEPTH = GEMV_PIECES / OUTPUTS; /* pieces of a row among them */
	__shared__ float halves[GEMV_WARPS / 2][M][OUTPUTS];
	int lane = (int)threadIdx.x % WARP, warp = (int)threadIdx.x / WARP, half = warp % SPLIT;
	int n0 = ((int)blockIdx.x * (GEMV_WARPS / SPLIT) + warp / SPLIT) * OUTPUTS, first = half * GEMV_STEP + lane * 8;
	const bf16 *w[OUTPUTS];
#pragma unroll
	for (int j = 0; j < OUTPUTS; j++) w[j] = g.w + (int64_t)min(n0 + j, g.N - 1) * g.w_ld;

	/* weights come while the kernel before still runs */
	bf16x8 raw[DEPTH][OUTPUTS];
	gemv_load<SPLIT, OUTPUTS, DEPTH>(raw, w, first, g.K);
	grid_begin();

	float acc[M][OUTPUTS] = {};
	for (int k = first; k < g.K; k += DEPTH * SPLIT * GEMV_STEP) {
#pragma unroll
		for (int d = 0; d < DEPTH; d++) {
			int at = k + d * SPLIT * GEMV_STEP, later = at + DEPTH * SPLIT * GEMV_STEP;
			bf16x8 now[OUTPUTS];
#pragma unroll
			for (int j = 0; j < OUTPUTS; j++) {
				now[j] = raw[d][j];
				raw[d][j] = later < g.K ? load8_once(w[j] + later) : zero8(); /* this place's next */
			}
			if (at >= g.K) continue;
#pragma unroll
			for (int m = 0; m < M; m++) {
				float x[8], v[8];
				unpack8(x, load8(g.x + m * g.x_ld + at));
#pragma unroll
				for (int j = 0; j < OUTPUTS; j++) {
					unpack8(v, now[j]);
#pragma unroll
					for (int i = 0; i < 8; i++) acc[m][j] = fmaf(x[i], v[i], acc[m][j]);
				}
			}
		}
	}
#pragma unroll
	for (int m = 0; m < M; m++)
#pragma unroll
		for (int j = 0; j < OUTPUTS; j++) {
			acc[m][j] = lanes_sum<WARP>(acc[m][j]);
			if (SPLIT == 2 && half && lane == 0) halves[warp / 2][m][j] = acc[m][j];
		}
	if (SPLIT == 2) __syncthreads();
	if (half || lane) return;
#pragma unroll
	for (int m = 0; m < M; m++)
#pragma unroll
		for (int j = 0; j < OUTPUTS; j++)
			if (n0 + j < g.N) gemv_store<M>(g, m, n0 + j, SPLIT == 2 ? acc[m][j] + halves[warp / 2][m][j] : acc[m][j]);
}

static void gemv(struct ops_context *c, const struct gemv *g, int M)
{
	/* Few outputs leave multiprocessors short of loads: two warps share rows, if all blocks still run at once, for only
	 * then may the next kernel begin early. Three rows for the two of them, where two rows make too many blocks. */
	static const struct {
		int split, outputs; /* warps that share rows, rows of W that they read side by side */
		void (*kernels[GEMV_ROWS])(const struct gemv);
	} forms[] = {
		{2, 2, {gemv_kernel<1, 2, 2>, gemv_kernel<2, 2, 2>, gemv_kernel<3, 2, 2>, gemv_kernel<4, 2, 2>}},
		{2, 3, {gemv_kernel<1, 2, 3>, gemv_kernel<2, 2, 3>, gemv_kernel<3, 2, 3>, gemv_kernel<4, 2, 3>}},
		{1, 2, {gemv_kernel<1, 1, 2>, gemv_kernel<2, 1, 2>, gemv_kernel<3, 1, 2>, gemv_kernel<4, 1, 2>}},
	};
	size_t form = 0;
	int each, blocks;
	for (;; form++) {
		each = GEMV_WARPS / forms[form].split * forms[form].outputs;
		blocks = (g->N + each - 1) / each;
		if (form + 1 == ARRAY_LEN(forms) || blocks <= c->sms * GEMV_BLOCKS) break;
	}
	cuda_launch(c, {dim3((unsigned)blocks), dim3(GEMV_WARPS * WARP), 0, 0}, forms[form].kernels[M - 1], *g);
}

/* ---- products of a projection ---- */

/* y (T, rows of w; row stride y_ld) = x w^T + bias + add. */
static void project(struct ops_context *c, void *y, int64_t y_ld, bool is_f32, const bf16 *x, int64_t x_ld,
	const bf16 *w, int64_t w_ld, int N, int K, const bf16 *bias, const bf16 *add, int T)
{
	CHECKF(K % 8 == 0, "a projection of %d columns; the CUDA backend takes multiples of 8", K);
	bool is_aligned = x_ld % 8 == 0 && w_ld % 8 == 0 && (uintptr_t)x % 16 == 0 && (uintptr_t)w % 16 == 0;
	if (T > 0 && T <= GEMV_ROWS && !c->batch_invariant && is_aligned) {
		struct gemv g = {x, w, bias, add, y, x_ld, w_ld, y_ld, N, K, is_f32};
		gemv(c, &g, T);
		return;
	}
	struct product p = {};
	p.M = T, p.N = N, p.K = K;
	p.b_transposed = true, p.is_f32 = is_f32;
	p.a = x, p.lda = x_ld, p.b = w, p.ldb = w_ld, p.c = add, p.ldc = y_ld, p.d = y, p.ldd = y_ld;
	p.alpha = 1, p.beta = add ? 1.0f : 0.0f, p.bias = bias;
	cuda_product(c, &p);
}

bool parts_adjoin(const struct ops_linear *l)
{
	for (int i = 1; i < l->parts; i++) {
		const struct ops_weight *a = &l->w[i - 1], *b = &l->w[i], *u = &l->bias[i - 1], *v = &l->bias[i];
		if (b->ld != a->ld || elems(b->w) != elems(a->w) + a->rows * a->ld) return false;
		if (!u->w != !v->w || (u->w && elems(v->w) != elems(u->w) + u->cols)) return false;
	}
	return true;
}

/* Columns of the tail that an adapter uses, in steps that products like. */
static int tail_columns(const struct ops_context *c, const struct ops_linear *l, const struct ops_lora *lora)
{
	if (!lora || !c->tail) return 0;
	int used = (lora->r * l->parts + 63) / 64 * 64;
	CHECKF(used <= c->tail, "an adapter of rank %d needs %d spare columns, the backend was opened with %d", lora->r,
		used, c->tail);
	return used;
}

static void linear(struct ops_context *c, struct elem *y, const struct elem *x, const struct ops_linear *l,
	const struct ops_lora *lora, const struct elem *add, int T)
{
	CHECKF(!lora || c->tail, "an adapter, but the backend was opened with adapter_columns 0");
	int tail = tail_columns(c, l, lora), parts = parts_adjoin(l) ? 1 : l->parts, at = 0;
	for (int i = 0; i < parts; i++) {
		const struct ops_weight *w = &l->w[i];
		int N = parts == 1 ? l->out : w->rows;
		CHECKF(w->ld >= l->in + tail, "weights of %d columns stand %lld apart; an adapter needs %d more", l->in,
			(long long)w->ld, tail);
		project(c, elems(y) + at, l->out, false, elems(x), l->in + c->tail, elems(w->w), w->ld, N, l->in + tail,
			elems(l->bias[i].w), add ? elems(add) + at : NULL, T);
		at += N;
	}
}

static void logits(struct ops_context *c, struct f32 *out, const struct elem *x, const struct ops_linear *head, int n)
{
	const struct ops_weight *w = &head->w[0];
	project(c, out, w->rows, true, elems(x), w->cols, elems(w->w), w->ld, w->rows, w->cols, NULL, NULL, n);
}

/* ---- B in the tail columns of W ---- */

struct bind_part {
	bf16 *w;       /* first tail column of the part's first row */
	const bf16 *b; /* (rows, r), NULL: zeros */
	int64_t ld, b_ld;
	int rows, first; /* tail column of its first value */
};

static __global__ void bind_kernel(const struct bind_part p, int r, int tail)
{
	grid_begin();
	int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x;
	if (i >= (int64_t)p.rows * tail) return;
	int row = (int)(i / tail), column = (int)(i % tail), from = column - p.first;
	bool exists = p.b && from >= 0 && from < r;
	p.w[row * p.ld + column] = exists ? p.b[row * p.b_ld + from] : __float2bfloat16_rn(0.0f);
}

static void bind(struct ops_context *c, struct ops_linear *l, const struct ops_lora *lora)
{
	if (!c->tail) return;
	CHECKF(!lora || lora->r * l->parts <= c->tail,
		"an adapter of rank %d needs %d spare columns, the backend was opened with %d", lora->r, lora->r * l->parts,
		c->tail);
	for (int i = 0; i < l->parts; i++) {
		struct ops_weight *w = &l->w[i];
		CHECK(w->ld >= w->cols + c->tail);
		struct bind_part p = {elems(w->w) + w->cols, lora ? elems(lora->b[i].w) : NULL, w->ld, lora ? lora->b[i].ld : 0,
			w->rows, lora ? i * lora->r : 0};
		int64_t n = (int64_t)w->rows * c->tail;
		cuda_launch(
			c, {dim3((unsigned)((n + 255) / 256)), dim3(256), 0, 0}, bind_kernel, p, lora ? lora->r : 0, c->tail);
		c->weights_written = true;
	}
}

/* Products read W as it stands. */
static void prepare(struct ops_context *c, struct ops_linear *l) {}
static void forget(struct ops_context *c, struct ops_linear *l) {}

void cuda_linear_entries(struct ops *t)
{
	t->linear = linear;
	t->logits = logits;
	t->bind = bind;
	t->prepare = prepare;
	t->forget = forget;
}
