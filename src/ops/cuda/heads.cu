/* heads: norm and rotation of query and key heads, and the step's keys and values into their pages. One warp a head of
 * a row; the heads of a row are q, then k, then v (which is only stored). */
#include "cuda_device.cuh"

#define HEAD_WARPS 8

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

/* PAIRS neighbours, one access where they are two. */
template <int PAIRS> static __device__ __forceinline__ void neighbours_load(float out[PAIRS], const bf16 *from)
{
	if (PAIRS == 2) {
		float2 v = unpack_bf16(*(const uint32_t *)from);
		out[0] = v.x, out[PAIRS - 1] = v.y;
	} else {
		out[0] = __bfloat162float(*from);
	}
}
template <int PAIRS> static __device__ __forceinline__ void neighbours_store(bf16 *to, const float v[PAIRS])
{
	if (PAIRS == 2) *(uint32_t *)to = pack_bf16(v[0], v[PAIRS - 1]);
	else *to = __float2bfloat16_rn(v[0]);
}

/* Lane l holds pairs (i, i + HD / 2) of the head for i = l * PAIRS... */
template <int HD> static __global__ void __launch_bounds__(HEAD_WARPS *WARP, 8) heads_kernel(const struct heads_args a)
{
	constexpr int HALF = HD / 2, PAIRS = HALF >= WARP ? HALF / WARP : 1;
	int lane = (int)threadIdx.x % WARP, heads = a.NH + 2 * a.NKV;
	int at = (int)blockIdx.x * HEAD_WARPS + (int)threadIdx.x / WARP, row = at / heads, head = at % heads;
	bool is_q = head < a.NH, is_v = head >= a.NH + a.NKV, exists = row < a.T, has_lane = exists && lane * PAIRS < HALF;
	int first = lane * PAIRS, pos = exists ? a.b.pos[row] : 0, sequence = exists ? a.b.sequence[row] : -1;

	/* What the last kernel did not write comes while it runs: the norm's weights, the angles, where the page is. */
	const bf16 *w = is_v ? NULL : is_q ? a.q_norm : a.k_norm;
	float low_w[PAIRS] = {}, high_w[PAIRS] = {}, cosines[PAIRS] = {}, sines[PAIRS] = {};
	if (w && has_lane) neighbours_load<PAIRS>(low_w, w + first), neighbours_load<PAIRS>(high_w, w + first + HALF);
#pragma unroll
	for (int i = 0; i < PAIRS; i++) {
		if (is_v || !has_lane) break;
		cosines[i] = a.rope[(int64_t)pos * HD + first + i];
		sines[i] = a.rope[(int64_t)pos * HD + HALF + first + i];
	}
	int page = -1;
	if (a.kpages && !is_q && sequence >= 0) page = a.b.table[(int64_t)sequence * a.b.pages + pos / OPS_PAGE];
	grid_begin();
	if (!exists) return;
	const bf16 *from = a.qkv + ((int64_t)row * heads + head) * HD;
	float low[PAIRS] = {}, high[PAIRS] = {};
	if (has_lane) neighbours_load<PAIRS>(low, from + first), neighbours_load<PAIRS>(high, from + first + HALF);

	/* norm of the head */
	if (w) {
		float squares = 0;
#pragma unroll
		for (int i = 0; i < PAIRS; i++) squares = fmaf(low[i], low[i], fmaf(high[i], high[i], squares));
		float rstd = rsqrtf(lanes_sum<WARP>(squares) / HD + a.eps);
#pragma unroll
		for (int i = 0; i < PAIRS; i++) low[i] *= rstd * low_w[i], high[i] *= rstd * high_w[i];
		if (a.rstd && lane == 0) a.rstd[(int64_t)row * (a.NH + a.NKV) + head] = rstd;
	}
	if (!has_lane) return;

	/* rotation */
#pragma unroll
	for (int i = 0; i < PAIRS; i++) {
		if (is_v) break;
		float x = low[i], y = high[i];
		low[i] = x * cosines[i] - y * sines[i];
		high[i] = y * cosines[i] + x * sines[i];
	}

	/* out: q and k to their rows, k and v to their page */
	bf16 *out = is_v ? NULL : is_q ? a.q + row * a.q_ld + head * HD : a.k + row * a.k_ld + (head - a.NH) * HD;
	if (out) neighbours_store<PAIRS>(out + first, low), neighbours_store<PAIRS>(out + first + HALF, high);
	if (page < 0) return;
	int kv = is_v ? head - a.NH - a.NKV : head - a.NH, in_page = pos % OPS_PAGE, second = first + HALF;
	unsigned char *stored = (unsigned char *)((is_v ? a.vpages : a.kpages) +
		((int64_t)page * a.NKV + kv) * OPS_PAGE * HD);
	neighbours_store<PAIRS>((bf16 *)(stored + tile_at<HD>(in_page, first / 8)) + first % 8, low);
	neighbours_store<PAIRS>((bf16 *)(stored + tile_at<HD>(in_page, second / 8)) + second % 8, high);
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
