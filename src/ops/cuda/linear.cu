/* linear: projections. An adapter costs no launch: its B stands in spare columns of W
 * (bind) and its thin product behind the input's rows (rows.cu), so [x h] [W B]^T is one
 * product. Up to GEMV_ROWS rows are multiplied here, by reading W once at the speed of
 * memory, large matrices on Hopper by stream.cu for one or two rows; up to FEW_MAX by few.cu,
 * where it can; more go to cuBLASLt, long sums of few rows in ranges of K that are added here.
 *
 * The matrix-vector kernels make the thin product too, if the rows' writer has left it (struct
 * thin_wait): rows of A are walked like those of W, by the first blocks, while the others walk
 * over W. The columns of the tail come last in every walk, and who reads them waits until those
 * blocks have arrived. No block waits for one behind it. */
#include "cuda_device.cuh"
#include "few.cuh"
#include "gemv.cuh"

#define GEMV_WARPS 4
#define GEMV_PIECES 8        /* of W that are on their way to a lane at once */
#define GEMV_STEP (WARP * 8) /* elements of a row that a warp reads at once */
#define GEMV_BLOCKS 8        /* of a multiprocessor, where two warps share a row of W */

/* ---- few rows ---- */

/* A block's columns of the tail stand. */
template <int M> static __device__ __forceinline__ void thin_end(const struct gemv &g)
{
	if (!blockIdx.x) rest_clear<M>(g, (int)threadIdx.x, GEMV_WARPS * WARP);
	__threadfence();
	__syncthreads();
	if (threadIdx.x == 0) atomicAdd(g.thin.arrived, 1);
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

/* A block's walk over its rows of W, or of A. */
template <int M, int SPLIT, int OUTPUTS, bool THIN>
static __device__ __forceinline__ void gemv_walk(const struct gemv &g, int block)
{
	constexpr int DEPTH = GEMV_PIECES / OUTPUTS; /* pieces of a row among them */
	constexpr int ROUND = DEPTH * SPLIT * GEMV_STEP;
	__shared__ float halves[GEMV_WARPS / 2][M][OUTPUTS];
	int lane = (int)threadIdx.x % WARP, warp = (int)threadIdx.x / WARP, half = warp % SPLIT;
	const int K = THIN ? g.in : g.K;
	int n0 = (block * (GEMV_WARPS / SPLIT) + warp / SPLIT) * OUTPUTS, first = half * GEMV_STEP + lane * 8;
	const bf16 *w[OUTPUTS];
#pragma unroll
	for (int j = 0; j < OUTPUTS; j++) w[j] = gemv_row<THIN>(g, n0 + j);

	/* weights come while the kernel before still runs */
	bf16x8 raw[DEPTH][OUTPUTS];
	gemv_load<SPLIT, OUTPUTS, DEPTH>(raw, w, first, K);
	grid_begin();

	float acc[M][OUTPUTS] = {};
	for (int k = first; k < K; k += ROUND) {
		/* The tail is waited for while the last pieces before it are still on their way. */
		int meet = max(0, g.in - ROUND), base = k - first;
		if (!THIN && g.thin.blocks && base <= meet && meet < base + ROUND) thin_meet(g);
#pragma unroll
		for (int d = 0; d < DEPTH; d++) {
			int at = k + d * SPLIT * GEMV_STEP, later = at + DEPTH * SPLIT * GEMV_STEP;
			bf16x8 now[OUTPUTS];
#pragma unroll
			for (int j = 0; j < OUTPUTS; j++) {
				now[j] = raw[d][j];
				raw[d][j] = later < K ? load8_once(w[j] + later) : zero8(); /* this place's next */
			}
			if (at >= K) continue;
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
#pragma unroll
	for (int m = 0; m < M; m++)
#pragma unroll
		for (int j = 0; j < OUTPUTS; j++) {
			if (half || lane) continue;
			float v = SPLIT == 2 ? acc[m][j] + halves[warp / 2][m][j] : acc[m][j];
			if (THIN) thin_store(g, m, n0 + j, v);
			else gemv_store<M>(g, m, n0 + j, v);
		}
	if (THIN) thin_end<M>(g);
}

/* Two warps share one row of A: all of 4,096 columns are on their way before x is there, and done
 * long before the other walks reach the tail. */
#define THIN_ROWS (GEMV_WARPS / 2) /* of A, a block's */

template <int M, int SPLIT, int OUTPUTS>
static __global__ void __launch_bounds__(GEMV_WARPS *WARP, M == 1 ? GEMV_BLOCKS : 1) gemv_kernel(const struct gemv g)
{
	int block = (int)blockIdx.x;
	if (block < g.thin.blocks) gemv_walk<M, 2, 1, true>(g, block);
	else gemv_walk<M, SPLIT, OUTPUTS, false>(g, block - g.thin.blocks);
}

static bool gemv_takes(const struct ops_context *c, const struct projection *p, int T)
{
	uintptr_t places = (uintptr_t)p->x | (uintptr_t)p->w;
	return T <= GEMV_ROWS && !c->batch_invariant && p->x_ld % 8 == 0 && p->w_ld % 8 == 0 && places % 16 == 0;
}

/* The thin product that waits behind x. K ends with the columns that it has. */
static void gemv_thin_fill(const struct ops_context *c, struct gemv *g, const struct thin_wait *t)
{
	const struct ops_lora *l = t->next.lora;
	g->thin.r = l->r, g->thin.columns = l->r * t->next.linear->parts, g->thin.tail = c->tail;
	g->thin.scaling = l->scaling, g->thin.arrived = t->arrived;
	for (int i = 0; i < t->next.linear->parts; i++) g->thin.a[i] = elems(l->a[i].w), g->thin.ld[i] = l->a[i].ld;
	g->thin.blocks = (g->thin.columns + THIN_ROWS - 1) / THIN_ROWS;
	g->in = t->in, g->K = t->in + g->thin.columns;
}

/* thin: what waits behind x; NULL or without x: its tail stands, or is not read. */
static void gemv(struct ops_context *c, const struct projection *p, int M, const struct thin_wait *thin)
{
	struct gemv g = {p->x, p->w, p->bias, p->add, p->y, p->x_ld, p->w_ld, p->y_ld, p->N, p->K, p->is_f32, p->K};
	if (thin && thin->x) gemv_thin_fill(c, &g, thin);
	if (stream_takes(c, &g, M)) {
		stream_run(c, &g, M);
		return;
	}
	/* Few outputs leave multiprocessors short of loads: two warps share rows, if all blocks still
	 * run at once, for only then may the next kernel begin early. Three rows for the two of them,
	 * where two rows make too many blocks. */
	static const struct {
		int split;   /* warps that share rows of W */
		int outputs; /* rows of W that they read side by side */
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
		blocks = (g.N + each - 1) / each + g.thin.blocks;
		if (form + 1 == ARRAY_LEN(forms) || blocks <= c->sms * GEMV_BLOCKS) break;
	}
	cuda_launch(c, {dim3((unsigned)blocks), dim3(GEMV_WARPS * WARP), 0, 0}, forms[form].kernels[M - 1], g);
}

/* ---- products of a projection ---- */

/* The sums over ranges of K, in order; then bias and add; rounded once. Four columns a thread. */
static __global__ void __launch_bounds__(256)
	ranges_add_kernel(const struct projection p, const float *sums, int64_t step, int ranges, int T)
{
	grid_begin();
	int64_t i = ((int64_t)blockIdx.x * blockDim.x + threadIdx.x) * 4;
	int row = (int)(i / p.N), column = (int)(i % p.N);
	if (row >= T) return;
	float4 v = *(const float4 *)(sums + i);
	for (int r = 1; r < ranges; r++) {
		float4 next = *(const float4 *)(sums + r * step + i);
		v.x += next.x, v.y += next.y, v.z += next.z, v.w += next.w;
	}
	const bf16 *const more[] = {p.bias ? p.bias + column : NULL, p.add ? p.add + row * p.y_ld + column : NULL};
#pragma unroll
	for (int k = 0; k < 2; k++) {
		if (!more[k]) continue;
		float2 low = unpack_bf16(*(const uint32_t *)more[k]), high = unpack_bf16(*(const uint32_t *)(more[k] + 2));
		v.x += low.x, v.y += low.y, v.z += high.x, v.w += high.y;
	}
	*(uint2 *)((bf16 *)p.y + row * p.y_ld + column) = make_uint2(pack_bf16(v.x, v.y), pack_bf16(v.z, v.w));
}

#define RANGE_MIN 1024   /* columns of K worth a range of their own */

static bool ranges_fit(const struct projection *p)
{
	uintptr_t places = (uintptr_t)p->y | (uintptr_t)p->add | (uintptr_t)p->bias;
	return !p->is_f32 && p->N % 4 == 0 && p->y_ld % 4 == 0 && places % 8 == 0;
}

/* Into how many ranges K is cut, the products of which run side by side. A product of few rows
 * whose N leaves multiprocessors without work needs it; the library's own way takes the residual
 * stream no better, and its bits depend on the number of rows. With batch_invariant the number
 * follows from the matrix alone. */
static int ranges_of(const struct ops_context *c, const struct projection *p, int T)
{
	int most = p->K / RANGE_MIN;
	if (!ranges_fit(p)) return 1;
	if (c->batch_invariant) most = cuda_invariant_ranges(p->K);
	else most = p->add ? MIN(most, c->sms / ((T + 63) / 64 * ((p->N + 127) / 128))) : 1;
	int ranges = MIN(most, CUDA_RANGES);
	while (ranges > 1 && p->K % (8 * ranges)) ranges--;
	return MAX(ranges, 1);
}

static void sums_add(struct ops_context *c)
{
	struct sums s = c->waiting;
	if (!s.ranges) return;
	c->waiting.ranges = 0;
	struct projection p = {};
	p.y = s.y, p.y_ld = s.N, p.add = s.y, p.N = s.N;
	int64_t step = (int64_t)s.T * s.N;
	cuda_launch(c, {dim3((unsigned)((step / 4 + 255) / 256)), dim3(256), 0, 0}, ranges_add_kernel, p, s.part, step,
		s.ranges, s.T);
}

/* In the order in which they were left: a gate's product may read what sums make. */
void settle(struct ops_context *c)
{
	if (c->waiting.ranges) sums_add(c);
	if (c->gate.T) {
		struct gate_wait g = c->gate;
		c->gate.T = 0;
		few_run(c, &g.p, g.T, &g.thin, false);
	}
	if (c->thin.x) {
		struct thin_wait t = c->thin;
		c->thin.x = NULL;
		thin_settle(c, &t);
	}
}

/* The ranges' products to scratch, as fp32; then their sums, unless the norm behind a
 * residual stream will make them.
 */
static void ranges_multiply(struct ops_context *c, const struct projection *all, int ranges, int T)
{
	int rows = MIN(T, CUDA_RANGES_ROWS);
	float *sums = (float *)scratch_of(c, cuda_ranges_scratch(T, (int64_t)ranges * all->N));
	for (int first = 0; first < T; first += rows) {
		struct projection part = *all;
		int n = MIN(rows, T - first);
		part.x += first * all->x_ld, part.y = (bf16 *)all->y + first * all->y_ld;
		if (part.add) part.add += first * all->y_ld;
		struct product p = {};
		p.M = n, p.N = all->N, p.K = all->K / ranges;
		p.b_transposed = true, p.is_f32 = true, p.alpha = 1;
		p.a = part.x, p.lda = all->x_ld, p.b = all->w, p.ldb = all->w_ld, p.d = sums, p.ldc = p.ldd = all->N;
		p.batch = ranges, p.a_step = p.b_step = p.K, p.d_step = (int64_t)n * all->N;
		cuda_product(c, &p);
		/* In place, and all rows at once: it may wait. */
		if (rows == T && all->add == all->y && !all->bias && all->y_ld == all->N) {
			c->waiting = {(bf16 *)all->y, sums, ranges, T, all->N};
			return;
		}
		int64_t threads = (int64_t)n * all->N / 4;
		cuda_launch(c, {dim3((unsigned)((threads + 255) / 256)), dim3(256), 0, 0}, ranges_add_kernel, part,
			(const float *)sums, p.d_step, ranges, n);
	}
}

static void project(struct ops_context *c, const struct projection *q, int T)
{
	CHECKF(q->K % 8 == 0, "a projection of %d columns; the CUDA backend takes multiples of 8", q->K);
	if (!T) return;
	bool is_aligned = q->x_ld % 8 == 0 && q->w_ld % 8 == 0 && (uintptr_t)q->x % 16 == 0 && (uintptr_t)q->w % 16 == 0;
	if (gemv_takes(c, q, T)) {
		gemv(c, q, T, NULL);
		return;
	}
	/* With batch_invariant we also add bias and residual stream, since the library's algorithms
	 * differ in where they round. */
	int ranges = is_aligned ? ranges_of(c, q, T) : 1;
	bool is_ours = c->batch_invariant && is_aligned && (q->add || q->bias) && ranges_fit(q);
	if (ranges > 1 || is_ours) {
		ranges_multiply(c, q, ranges, T);
		return;
	}
	struct product p = {};
	p.M = T, p.N = q->N, p.K = q->K;
	p.b_transposed = true, p.is_f32 = q->is_f32;
	p.a = q->x, p.lda = q->x_ld, p.b = q->w, p.ldb = q->w_ld, p.c = q->add, p.ldc = q->y_ld, p.d = q->y;
	p.ldd = q->y_ld, p.alpha = 1, p.beta = q->add ? 1.0f : 0.0f, p.bias = q->bias;
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

struct thin_wait thin_leave(const struct ops_context *c, bf16 *x, int in, int T, const struct ops_next *next)
{
	struct thin_wait wait = {};
	struct projection p = {};
	const struct ops_lora *l = next ? next->lora : NULL;
	if (!l || !next->linear || !parts_adjoin(next->linear) || in % TILE_COLUMNS || l->r % 8 ||
		l->r * next->linear->parts > TILE_COLUMNS || l->r * next->linear->parts > c->tail ||
		(l->seed && l->dropout > 0))
		return wait;
	for (int i = 0; i < next->linear->parts; i++)
		if (l->a[i].w && ((uintptr_t)l->a[i].w % 16 || l->a[i].ld % 8)) return wait;
	p.x_ld = in + c->tail, p.w_ld = next->linear->w[0].ld, p.w = elems(next->linear->w[0].w);
	p.N = next->linear->out, p.K = in + TILE_COLUMNS;
	bool is_gemv = c->card.is_hopper && gemv_takes(c, &p, T) && (int64_t)p.N * p.K >= FEW_WEIGHTS;
	if (is_gemv) wait.arrived = few_flags(c) + GEMV_ARRIVED;
	if (is_gemv || few_takes(c, &p, T)) wait.x = x, wait.in = in, wait.T = T, wait.next = *next;
	return wait;
}

/* The whole projection by our own kernels for few rows, with what waits behind x. Gate and up of a
 * batch that nothing goes back from may wait for the gate. */
static bool linear_few(struct ops_context *c, const struct projection *p, const struct ops_linear *l, int T)
{
	bool is_gemv = gemv_takes(c, p, T);
	if (!is_gemv && !few_takes(c, p, T)) return false;
	struct thin_wait thin = {};
	if (c->thin.x == p->x && c->thin.T == T && p->K > l->in) thin = c->thin, c->thin.x = NULL;
	settle(c);
	if (is_gemv) {
		gemv(c, p, T, &thin);
		return true;
	}
	bool may_wait = c->is_paged && l->parts == 2 && !p->add && !p->bias && l->w[0].rows == l->w[1].rows &&
		l->w[0].rows % 8 == 0 && p->y_ld == p->N;
	if (may_wait) c->gate.p = *p, c->gate.T = T, c->gate.thin = thin;
	else few_run(c, p, T, &thin, false);
	return true;
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
		struct projection p = {elems(y) + at, l->out, l->in + c->tail, w->ld, false, elems(x), elems(w->w),
			elems(l->bias[i].w), add ? elems(add) + at : NULL, N, l->in + tail};
		if (parts > 1 || !linear_few(c, &p, l, T)) project(c, &p, T);
		at += N;
	}
}

static void logits(struct ops_context *c, struct f32 *out, const struct elem *x, const struct ops_linear *head, int n)
{
	const struct ops_weight *w = &head->w[0];
	struct projection p = {out, w->rows, w->cols, w->ld, true, elems(x), elems(w->w), NULL, NULL, w->rows, w->cols};
	if (few_takes(c, &p, n)) {
		settle(c);
		few_run(c, &p, n, NULL, false);
		return;
	}
	project(c, &p, n);
}

/* ---- B in the tail columns of W ---- */

struct bind_part {
	bf16 *w;       /* first tail column of the part's first row */
	const bf16 *b; /* (rows, r), NULL: zeros */
	int64_t ld;    /* elements from a row of w to the next */
	int64_t b_ld;  /* elements from a row of b to the next */
	int rows;      /* of the part */
	int first;     /* tail column of its first value */
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
