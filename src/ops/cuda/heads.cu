/* heads: norm and rotation of query and key heads, and the step's keys and values into their pages.
 * One warp a head of a row; the heads of a row are q, then k, then v (which is only stored). */
#include "attention_step.cuh"
#include "cuda_device.cuh"

#define HEAD_WARPS 8

struct heads_args {
	bf16 *q;             /* (T, NH, HD; row stride q_ld): the query heads, normed and rotated */
	bf16 *k;             /* (T, NKV, HD; row stride k_ld): the key heads, likewise */
	int64_t q_ld;        /* elements from a row of q to the next */
	int64_t k_ld;        /* elements from a row of k to the next */
	float *rstd;         /* (T, NH + NKV): each head's 1 / sqrt(mean square + eps); NULL: not wanted */
	const bf16 *qkv;     /* (T, (NH + 2 NKV) * HD) */
	bf16 *kpages;        /* (pages, NKV, OPS_PAGE, HD), where keys are kept; NULL: nowhere */
	bf16 *vpages;        /* (pages, NKV, OPS_PAGE, HD), the same of values */
	const bf16 *q_norm;  /* (HD) the norm's weights of query heads; NULL: they are not normed */
	const bf16 *k_norm;  /* (HD) the same of key heads */
	const float *rope;   /* (positions, HD) cosines of HD / 2 angles, then their sines */
	struct batch_view b; /* which position and sequence a row is, and where its pages are */
	int NH;              /* query heads */
	int NKV;             /* key heads, and value heads */
	int HD;              /* columns of a head */
	int T;               /* rows */
	float eps;           /* of the norm */
};

/* N neighbours, two at an access where they are an even number. */
template <int N> static __device__ __forceinline__ void neighbours_load(float out[N], const bf16 *from)
{
	if (N % 2) out[0] = __bfloat162float(*from);
#pragma unroll
	for (int i = 0; i + 1 < N; i += 2) {
		float2 v = unpack_bf16(*(const uint32_t *)(from + i));
		out[i] = v.x, out[i + 1] = v.y;
	}
}
template <int N> static __device__ __forceinline__ void neighbours_store(bf16 *to, const float v[N])
{
	if (N % 2) *to = __float2bfloat16_rn(v[0]);
#pragma unroll
	for (int i = 0; i + 1 < N; i += 2) *(uint32_t *)(to + i) = pack_bf16(v[i], v[i + 1]);
}

/* Lane l holds pairs (i, i + width / 2) of the head for i = l * PAIRS... A half is a multiple of 4,
 * so that a lane has all of its pairs or none. */
template <int HD, bool WHOLE>
static __global__ void __launch_bounds__(HEAD_WARPS *WARP, WHOLE &&HD <= 128 ? 8 : 4)
	heads_kernel(const struct heads_args a)
{
	constexpr int PAIRS = HD / 2 >= WARP ? HD / 2 / WARP : 1;
	const int width = width_of<HD, WHOLE>(a.HD), HALF = width / 2;
	int lane = (int)threadIdx.x % WARP, heads = a.NH + 2 * a.NKV;
	int at = (int)blockIdx.x * HEAD_WARPS + (int)threadIdx.x / WARP, row = at / heads, head = at % heads;
	bool is_q = head < a.NH, is_v = head >= a.NH + a.NKV, exists = row < a.T, has_lane = exists && lane * PAIRS < HALF;
	int first = lane * PAIRS, pos = exists ? a.b.pos[row] : 0, sequence = exists ? a.b.sequence[row] : -1;

	/* What the last kernel did not write comes while it runs: the norm's weights, the
	 * angles, where the page is. */
	const bf16 *w = is_v ? NULL : is_q ? a.q_norm : a.k_norm;
	float low_w[PAIRS] = {}, high_w[PAIRS] = {}, cosines[PAIRS] = {}, sines[PAIRS] = {};
	if (w && has_lane) neighbours_load<PAIRS>(low_w, w + first), neighbours_load<PAIRS>(high_w, w + first + HALF);
#pragma unroll
	for (int i = 0; i < PAIRS; i++) {
		if (is_v || !has_lane) break;
		cosines[i] = a.rope[(int64_t)pos * width + first + i];
		sines[i] = a.rope[(int64_t)pos * width + HALF + first + i];
	}
	int page = -1;
	if (a.kpages && !is_q && sequence >= 0) page = a.b.table[(int64_t)sequence * a.b.pages + pos / OPS_PAGE];
	grid_begin_of(a.T);
	if (!exists) return;
	const bf16 *from = a.qkv + ((int64_t)row * heads + head) * width;
	float low[PAIRS] = {}, high[PAIRS] = {};
	if (has_lane) neighbours_load<PAIRS>(low, from + first), neighbours_load<PAIRS>(high, from + first + HALF);

	/* norm of the head */
	if (w) {
		float squares = 0;
#pragma unroll
		for (int i = 0; i < PAIRS; i++) squares = fmaf(low[i], low[i], fmaf(high[i], high[i], squares));
		float rstd = rsqrtf(lanes_sum<WARP>(squares) / width + a.eps);
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
	bf16 *out = is_v ? NULL : is_q ? a.q + row * a.q_ld + head * width : a.k + row * a.k_ld + (head - a.NH) * width;
	if (out) neighbours_store<PAIRS>(out + first, low), neighbours_store<PAIRS>(out + first + HALF, high);
	if (page < 0) return;
	int kv = is_v ? head - a.NH - a.NKV : head - a.NH, in_page = pos % OPS_PAGE, second = first + HALF;
	unsigned char *stored = (unsigned char *)((is_v ? a.vpages : a.kpages) +
		((int64_t)page * a.NKV + kv) * OPS_PAGE * width);
	neighbours_store<PAIRS>((bf16 *)(stored + page_at<HD, WHOLE>(in_page, first / 8, width)) + first % 8, low);
	neighbours_store<PAIRS>((bf16 *)(stored + page_at<HD, WHOLE>(in_page, second / 8, width)) + second % 8, high);
}

template <int HD, bool WHOLE>
static void heads_run(struct ops_context *c, const struct launch *l, const struct heads_args *a)
{
	cuda_launch(c, *l, heads_kernel<HD, WHOLE>, *a);
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
	a.rope = floats(h->rope), a.b = b->view, a.NH = h->NH, a.NKV = h->NKV, a.HD = h->HD, a.T = T, a.eps = h->eps;
	struct launch l = {dim3((unsigned)(((int64_t)T * (h->NH + 2 * h->NKV) + HEAD_WARPS - 1) / HEAD_WARPS)),
		dim3(HEAD_WARPS * WARP), 0, 0};
	CHECKF(h->HD % CUDA_HEAD_STEP == 0 && h->HD <= CUDA_HEAD_MAX,
		"heads of %d elements; the CUDA backend takes multiples of %d up to %d", h->HD, CUDA_HEAD_STEP, CUDA_HEAD_MAX);
	HEADS_RUN(h->HD, heads_run, c, &l, &a);
}

void cuda_heads_entries(struct ops *t) { t->heads = heads; }
