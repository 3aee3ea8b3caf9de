/* heads: norm and rotation of query and key heads, and the step's keys and values into their pages. One warp a head of
 * a row; the heads of a row are q, then k, then v (which is only stored). */
#include "cuda_device.cuh"

#define HEAD_WARPS 4

struct heads_args {
	bf16 *q, *k; /* row strides q_ld, k_ld */
	int64_t q_ld, k_ld;
	float *rstd;           /* (T, NH + NKV) or NULL */
	const bf16 *qkv;       /* (T, (NH + 2 NKV) * HD) */
	bf16 *kpages, *vpages; /* (pages, NKV, OPS_PAGE, HD) or NULL */
	const bf16 *q_norm, *k_norm;
	const float *rope;
	struct batch_view b;
	int NH, NKV, T;
	float eps;
};

/* Lane l holds pairs (i, i + HD / 2) of the head for i = l * PAIRS... */
template <int HD> static __global__ void __launch_bounds__(HEAD_WARPS *WARP) heads_kernel(const struct heads_args a)
{
	constexpr int HALF = HD / 2, PAIRS = HALF >= WARP ? HALF / WARP : 1;
	int lane = (int)threadIdx.x % WARP, heads = a.NH + 2 * a.NKV;
	int at = (int)blockIdx.x * HEAD_WARPS + (int)threadIdx.x / WARP, row = at / heads, head = at % heads;
	grid_begin();
	if (row >= a.T) return;
	bool is_q = head < a.NH, is_v = head >= a.NH + a.NKV, has_lane = lane * PAIRS < HALF;
	int first = lane * PAIRS, pos = a.b.pos[row];
	const bf16 *from = a.qkv + ((int64_t)row * heads + head) * HD;
	float low[PAIRS], high[PAIRS];
#pragma unroll
	for (int i = 0; i < PAIRS; i++) {
		low[i] = has_lane ? __bfloat162float(from[first + i]) : 0.0f;
		high[i] = has_lane ? __bfloat162float(from[first + i + HALF]) : 0.0f;
	}

	/* norm of the head */
	const bf16 *w = is_v ? NULL : is_q ? a.q_norm : a.k_norm;
	if (w) {
		float squares = 0;
#pragma unroll
		for (int i = 0; i < PAIRS; i++) squares = fmaf(low[i], low[i], fmaf(high[i], high[i], squares));
		float rstd = rsqrtf(lanes_sum<WARP>(squares) / HD + a.eps);
#pragma unroll
		for (int i = 0; i < PAIRS; i++) {
			if (!has_lane) break;
			low[i] *= rstd * __bfloat162float(w[first + i]);
			high[i] *= rstd * __bfloat162float(w[first + i + HALF]);
		}
		if (a.rstd && lane == 0) a.rstd[(int64_t)row * (a.NH + a.NKV) + head] = rstd;
	}
	if (!has_lane) return;

	/* rotation */
	if (!is_v) {
		const float *cosines = a.rope + (int64_t)pos * HD, *sines = cosines + HALF;
#pragma unroll
		for (int i = 0; i < PAIRS; i++) {
			float c = cosines[first + i], s = sines[first + i], x = low[i], y = high[i];
			low[i] = x * c - y * s;
			high[i] = y * c + x * s;
		}
	}

	/* out: q and k to their rows, k and v to their page */
	bf16 *out = is_v ? NULL : is_q ? a.q + row * a.q_ld + head * HD : a.k + row * a.k_ld + (head - a.NH) * HD;
	unsigned char *stored = NULL;
	int sequence = a.b.sequence[row], in_page = pos % OPS_PAGE;
	if (a.kpages && !is_q && sequence >= 0) {
		int kv = is_v ? head - a.NH - a.NKV : head - a.NH;
		int64_t page = a.b.table[(int64_t)sequence * a.b.pages + pos / OPS_PAGE];
		stored = (unsigned char *)((is_v ? a.vpages : a.kpages) + (page * a.NKV + kv) * OPS_PAGE * HD);
	}
#pragma unroll
	for (int i = 0; i < PAIRS; i++) {
		bf16 x = __float2bfloat16_rn(low[i]), y = __float2bfloat16_rn(high[i]);
		if (out) out[first + i] = x, out[first + i + HALF] = y;
		if (stored) {
			int j = first + i, k = j + HALF;
			((bf16 *)(stored + tile_at<HD>(in_page, j / 8)))[j % 8] = x;
			((bf16 *)(stored + tile_at<HD>(in_page, k / 8)))[k % 8] = y;
		}
	}
}

static void heads(struct ops_context *c, struct elem *q, struct elem *k, struct f32 *rstd, struct elem *qkv,
	struct elem *kpages, struct elem *vpages, const struct ops_heads *h, const struct ops_batch *b, int T)
{
	int Q = h->NH * h->HD, KV = h->NKV * h->HD, row = Q + 2 * KV;
	struct heads_args a = {};
	CHECKF(!kpages || !b->is_packed, "pages for a batch that has none");
	a.q = q == qkv ? elems(qkv) : elems(q), a.q_ld = q == qkv ? row : Q;
	a.k = k == qkv ? elems(qkv) + Q : elems(k), a.k_ld = k == qkv ? row : KV;
	a.rstd = floats(rstd), a.qkv = elems(qkv), a.kpages = elems(kpages), a.vpages = elems(vpages);
	a.q_norm = h->q_norm ? elems(h->q_norm->w) : NULL, a.k_norm = h->k_norm ? elems(h->k_norm->w) : NULL;
	a.rope = floats(h->rope), a.b = b->view, a.NH = h->NH, a.NKV = h->NKV, a.T = T, a.eps = h->eps;
	struct launch l = {dim3((unsigned)(((int64_t)T * (h->NH + 2 * h->NKV) + HEAD_WARPS - 1) / HEAD_WARPS)),
		dim3(HEAD_WARPS * WARP), 0, 0};
	if (h->HD == 32) cuda_launch(c, l, heads_kernel<32>, a);
	else if (h->HD == 64) cuda_launch(c, l, heads_kernel<64>, a);
	else {
		CHECKF(h->HD == 128, "heads of %d; the CUDA backend knows 32, 64 and 128", h->HD);
		cuda_launch(c, l, heads_kernel<128>, a);
	}
}

void cuda_heads_entries(struct ops *t) { t->heads = heads; }
