/* norm_backward: gradients of RMSNorm over rows, and of the norms and rotation of heads. Gradients
 * of the weights are sums over all rows: each block sums a fixed run of rows in order, a second
 * kernel adds the blocks' sums in order. */
#include "attention_step.cuh"
#include "cuda_device.cuh"

#define NORM_ROWS CUDA_NORM_ROWS
#define NORM_THREADS 512   /* of a block at most */
#define NORM_PIECES_MAX 3  /* of eight columns a thread: rows of up to 12,288 columns */
static_assert(NORM_PIECES_MAX * NORM_THREADS * 8 == CUDA_HIDDEN_MAX, "wider rows are refused when a model is opened");
#define HEADS_TOKENS 16    /* tokens of a block */
#define HEADS_THREADS 256
#define SUM_THREADS 256

/* grad (columns) += the blocks' sums (blocks, stride), in order. */
static __global__ void __launch_bounds__(SUM_THREADS)
	partials_add_kernel(float *grad, const float *partial, int64_t stride, int blocks, int columns)
{
	grid_begin();
	int column = (int)(blockIdx.x * SUM_THREADS + threadIdx.x);
	if (column >= columns) return;
	float sum = 0;
	for (int b = 0; b < blocks; b++) sum += partial[b * stride + column];
	grad[column] += sum;
}

static void partials_add(
	struct ops_context *c, struct f32 *grad, const float *partial, int64_t stride, int blocks, int columns)
{
	cuda_launch(c, {dim3((unsigned)((columns + SUM_THREADS - 1) / SUM_THREADS)), dim3(SUM_THREADS), 0, 0},
		partials_add_kernel, floats(grad), partial, stride, blocks, columns);
}

/* ---- rows ---- */

struct norm_backward_args {
	bf16 *dx;          /* (T, C) */
	const bf16 *dy;    /* (T, C; row stride dy_ld) */
	const bf16 *x;     /* (T, C) */
	const bf16 *w;     /* (C) */
	const float *rstd; /* (T) */
	float *partial;    /* (blocks, C) or NULL */
	int64_t dy_ld;     /* elements from a row of dy to the next */
	int C;             /* columns */
	int T;             /* rows */
	bool adds;         /* dx += the gradient, else = */
};

/* Sum over the block; `sums` is one of two arrays in turn, so that one barrier a row is enough. */
static __device__ __forceinline__ float block_sum(float x, float *sums)
{
	x = lanes_sum<WARP>(x);
	if (threadIdx.x % WARP == 0) sums[threadIdx.x / WARP] = x;
	__syncthreads();
	float total = 0;
	for (int i = 0; i < (int)(blockDim.x / WARP); i++) total += sums[i];
	return total;
}

/* With xhat = x rstd and g = dy w: dx = rstd (g - xhat mean(g xhat)), dw += dy xhat. A thread owns
 * the same columns in all rows of its block. */
template <int PIECES>
static __global__ void __launch_bounds__(NORM_THREADS) norm_backward_kernel(const struct norm_backward_args a)
{
	__shared__ float sums[2][WARP];
	float w[PIECES][8], dw[PIECES][8] = {};
	grid_begin();
#pragma unroll
	for (int p = 0; p < PIECES; p++) {
		int column = (p * (int)blockDim.x + (int)threadIdx.x) * 8;
		unpack8(w[p], column < a.C ? load8(a.w + column) : zero8());
	}
	int first = (int)blockIdx.x * NORM_ROWS, end = min(first + NORM_ROWS, a.T);
	for (int t = first; t < end; t++) {
		/* the row, and the sum of g x */
		bf16x8 dy[PIECES], x[PIECES];
		float dot = 0, rstd = a.rstd[t];
#pragma unroll
		for (int p = 0; p < PIECES; p++) {
			int column = (p * (int)blockDim.x + (int)threadIdx.x) * 8;
			bool exists = column < a.C;
			dy[p] = exists ? load8(a.dy + t * a.dy_ld + column) : zero8();
			x[p] = exists ? load8(a.x + (int64_t)t * a.C + column) : zero8();
			float d[8], v[8];
			unpack8(d, dy[p]);
			unpack8(v, x[p]);
#pragma unroll
			for (int i = 0; i < 8; i++) {
				dot = fmaf(d[i] * w[p][i], v[i], dot);
				dw[p][i] = fmaf(d[i], v[i] * rstd, dw[p][i]);
			}
		}
		float k = block_sum(dot, sums[t & 1]) / (float)a.C * rstd * rstd;
		/* the gradient */
#pragma unroll
		for (int p = 0; p < PIECES; p++) {
			int column = (p * (int)blockDim.x + (int)threadIdx.x) * 8;
			if (column >= a.C) continue;
			bf16 *to = a.dx + (int64_t)t * a.C + column;
			float d[8], v[8], out[8] = {};
			unpack8(d, dy[p]);
			unpack8(v, x[p]);
			if (a.adds) unpack8(out, load8(to));
#pragma unroll
			for (int i = 0; i < 8; i++) out[i] += rstd * fmaf(-v[i], k, d[i] * w[p][i]);
			store8(to, pack8(out));
		}
	}
	if (!a.partial) return;
#pragma unroll
	for (int p = 0; p < PIECES; p++) {
		int column = (p * (int)blockDim.x + (int)threadIdx.x) * 8;
		float *to = a.partial + (int64_t)blockIdx.x * a.C + column;
		if (column < a.C)
#pragma unroll
			for (int i = 0; i < 8; i++) to[i] = dw[p][i];
	}
}

static void norm_backward(struct ops_context *c, struct elem *dx, const struct elem *dy, const struct elem *x,
	struct ops_weight *w, const struct f32 *rstd, int T, enum ops_accumulate acc)
{
	static void (*const kernels[NORM_PIECES_MAX])(const struct norm_backward_args) = {
		norm_backward_kernel<1>, norm_backward_kernel<2>, norm_backward_kernel<3>};
	int C = w->cols, threads = MIN((C / 8 + WARP - 1) / WARP * WARP, NORM_THREADS),
		pieces = (C / 8 + threads - 1) / MAX(threads, 1);
	CHECKF(C % 8 == 0 && pieces <= NORM_PIECES_MAX,
		"rows of %d columns; the CUDA backend takes multiples of 8 up to %d", C, NORM_PIECES_MAX * NORM_THREADS * 8);
	if (!T) return;
	int blocks = (T + NORM_ROWS - 1) / NORM_ROWS;
	struct norm_backward_args a = {};
	a.dx = elems(dx), a.dy = elems(dy), a.x = elems(x), a.w = elems(w->w), a.rstd = floats(rstd);
	a.dy_ld = C + c->tail, a.C = C, a.T = T, a.adds = acc == OPS_ADD;
	if (w->grad) a.partial = (float *)scratch_of(c, cuda_norm_scratch(T, C));
	cuda_launch(c, {dim3((unsigned)blocks), dim3((unsigned)threads), 0, 0}, kernels[pieces - 1], a);
	if (w->grad) partials_add(c, w->grad, a.partial, C, blocks, C);
}

/* ---- heads ---- */

struct heads_backward_args {
	bf16 *dqkv;         /* as qkv */
	const bf16 *dq;     /* (T, NH, HD; row stride dq_ld) */
	const bf16 *dk;     /* (T, NKV, HD; row stride dk_ld) */
	const bf16 *qkv;    /* (T; row stride qkv_ld) as forward read it */
	int64_t dq_ld;      /* elements from a row of dq to the next */
	int64_t dk_ld;      /* the same of dk */
	int64_t qkv_ld;     /* the same of qkv */
	const bf16 *q_norm; /* (HD) the norm's weights of query heads; NULL: they are not normed */
	const bf16 *k_norm; /* (HD) the same of key heads */
	const float *rstd;  /* of each head, as forward left it */
	const float *rope;  /* (positions, HD) */
	float *partial;     /* (blocks, 2 HD): q_norm's, k_norm's; or NULL */
	const int32_t *pos; /* (T) position of each row in its sequence */
	int NH;             /* query heads */
	int NKV;            /* key heads */
	int HD;             /* columns of a head */
	int T;              /* rows */
};

/* N neighbours, 4 or 8, that lie at a multiple of N. */
template <int N> static __device__ __forceinline__ void neighbours_load(float out[N], const bf16 *from)
{
	if constexpr (N == 8) {
		unpack8(out, load8(from));
	} else {
		uint2 v = *(const uint2 *)from;
		float2 low = unpack_bf16(v.x), high = unpack_bf16(v.y);
		out[0] = low.x, out[1] = low.y, out[2] = high.x, out[3] = high.y;
	}
}
template <int N> static __device__ __forceinline__ void neighbours_store(bf16 *to, const float v[N])
{
	if constexpr (N == 8) store8(to, pack8(v));
	else *(uint2 *)to = make_uint2(pack_bf16(v[0], v[1]), pack_bf16(v[2], v[3]));
}

/* A head of a token is some lanes: each has N elements of the first half and those that
 * they are rotated with. N is 8, or 4 where a half may be no multiple of 8; lanes
 * behind the half have zeros. */
template <int HD, bool WHOLE, bool NORM>
static __global__ void __launch_bounds__(HEADS_THREADS) heads_backward_kernel(const struct heads_backward_args a)
{
	constexpr int N = WHOLE ? 8 : 4, LANES = HD / 2 / N, TEAMS = HEADS_THREADS / LANES;
	__shared__ float sums[NORM ? TEAMS : 1][HD];
	const int width = width_of<HD, WHOLE>(a.HD), half = width / 2;
	int team = (int)threadIdx.x / LANES, at = (int)threadIdx.x % LANES * N, all = a.NH + a.NKV;
	bool has_lane = WHOLE || at < half;
	if (!has_lane) at = 0;
	int first = (int)blockIdx.x * HEADS_TOKENS, tokens = min(HEADS_TOKENS, a.T - first);
	float dw[2][2 * N] = {};
	grid_begin();

	/* teams go over (token, head) side by side; q heads first, so that a lane
	 * knows whose weight it sums */
#pragma unroll
	for (int part = 0; part < 2; part++) {
		int heads = part ? a.NKV : a.NH, count = tokens * heads;
		const bf16 *weight = part ? a.k_norm : a.q_norm;
		for (int base = 0; base < count; base += TEAMS) {
			int item = base + team;
			bool exists = item < count;
			int64_t t = first + (exists ? item / heads : 0);
			int head = exists ? item % heads : 0, column = (part ? a.NH + head : head) * width + at;
			const bf16 *from = part ? a.dk + t * a.dk_ld + head * width + at : a.dq + t * a.dq_ld + head * width + at;
			const float *cosines = a.rope + (int64_t)a.pos[t] * width + at, *sines = cosines + half;
			float low[N], high[N], d[2 * N];
			neighbours_load<N>(low, from);
			neighbours_load<N>(high, from + half);
			/* the rotation is orthogonal: its transpose turns the gradient back */
#pragma unroll
			for (int i = 0; i < N; i++) {
				d[i] = fmaf(high[i], sines[i], low[i] * cosines[i]);
				d[N + i] = fmaf(-low[i], sines[i], high[i] * cosines[i]);
			}
			if (NORM) {
				float x[2 * N], w[2 * N], dot = 0, rstd = a.rstd[t * all + (part ? a.NH + head : head)];
				neighbours_load<N>(x, a.qkv + t * a.qkv_ld + column);
				neighbours_load<N>(x + N, a.qkv + t * a.qkv_ld + column + half);
				neighbours_load<N>(w, weight + at);
				neighbours_load<N>(w + N, weight + at + half);
#pragma unroll
				for (int i = 0; i < 2 * N; i++) {
					if (!has_lane) break;
					if (exists) dw[part][i] = fmaf(d[i], x[i] * rstd, dw[part][i]);
					d[i] *= w[i];
					dot = fmaf(d[i], x[i], dot);
				}
				float k = lanes_sum<LANES>(dot) / width * rstd * rstd;
#pragma unroll
				for (int i = 0; i < 2 * N; i++) d[i] = rstd * fmaf(-x[i], k, d[i]);
			}
			if (!exists || !has_lane) continue;
			neighbours_store<N>(a.dqkv + t * a.qkv_ld + column, d);
			neighbours_store<N>(a.dqkv + t * a.qkv_ld + column + half, d + N);
		}
	}
	/* the teams' sums, added in order */
	if constexpr (NORM) {
#pragma unroll
		for (int part = 0; part < 2; part++) {
			if (!a.partial) break;
			__syncthreads();
#pragma unroll
			for (int i = 0; i < N; i++) {
				if (!has_lane) break;
				sums[team][at + i] = dw[part][i], sums[team][at + half + i] = dw[part][N + i];
			}
			__syncthreads();
			for (int i = (int)threadIdx.x; i < width; i += HEADS_THREADS) {
				float sum = 0;
				for (int j = 0; j < TEAMS; j++) sum += sums[j][i];
				a.partial[((int64_t)blockIdx.x * 2 + part) * width + i] = sum;
			}
		}
	}
}

template <int HD, bool WHOLE>
static void heads_run(struct ops_context *c, unsigned blocks, const struct heads_backward_args *a)
{
	struct launch l = {dim3(blocks), dim3(HEADS_THREADS), 0, 0};
	if (a->q_norm) cuda_launch(c, l, heads_backward_kernel<HD, WHOLE, true>, *a);
	else cuda_launch(c, l, heads_backward_kernel<HD, WHOLE, false>, *a);
}

static void heads_backward(struct ops_context *c, struct elem *dqkv, const struct elem *dq, const struct elem *dk,
	const struct elem *qkv, const struct f32 *rstd, struct ops_heads *h, const struct ops_batch *b, int T)
{
	CHECKF(h->HD % CUDA_HEAD_STEP == 0 && h->HD <= CUDA_HEAD_MAX,
		"heads of %d elements; the CUDA backend takes multiples of %d up to %d", h->HD, CUDA_HEAD_STEP, CUDA_HEAD_MAX);
	CHECK(!h->q_norm == !h->k_norm);
	if (!T) return;
	/* dq and dk may lie in dqkv: then they are turned in place */
	int Q = h->NH * h->HD, KV = h->NKV * h->HD, blocks = (T + HEADS_TOKENS - 1) / HEADS_TOKENS;
	struct f32 *grads[2] = {h->q_norm ? h->q_norm->grad : NULL, h->k_norm ? h->k_norm->grad : NULL};
	struct heads_backward_args a = {};
	a.dqkv = elems(dqkv), a.qkv = elems(qkv), a.qkv_ld = Q + 2 * KV;
	a.dq = elems(dq), a.dq_ld = dq == dqkv ? a.qkv_ld : Q;
	a.dk = dk == dqkv ? elems(dqkv) + Q : elems(dk), a.dk_ld = dk == dqkv ? a.qkv_ld : KV;
	a.rstd = floats(rstd), a.rope = floats(h->rope), a.pos = b->view.pos, a.NH = h->NH, a.NKV = h->NKV, a.HD = h->HD,
	a.T = T;
	if (h->q_norm) a.q_norm = elems(h->q_norm->w), a.k_norm = elems(h->k_norm->w);
	if (grads[0] || grads[1]) a.partial = (float *)scratch_of(c, (size_t)blocks * 2 * (size_t)h->HD * sizeof(float));
	HEADS_RUN(h->HD, heads_run, c, (unsigned)blocks, &a);
	for (int i = 0; i < 2; i++)
		if (grads[i]) partials_add(c, grads[i], a.partial + i * h->HD, 2 * h->HD, blocks, h->HD);
}

void cuda_norm_backward_entries(struct ops *t)
{
	t->norm_backward = norm_backward;
	t->heads_backward = heads_backward;
}
