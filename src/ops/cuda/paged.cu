/* paged: attention of a step over pages, in the order of attention_step.cuh.
 *
 * Two kernels, the same bits. Where every sequence has one row (decode) the work is a row of
 * units, each a chunk of 256 keys of a pair of row and key head, a pair's chunks one behind the
 * other; every block has as many units as the others, keys and values of the next one on their way
 * while this one is multiplied. Pairs that lie within a block are folded as they come. Of those
 * that do not, each chunk's partial sums go to scratch, and whichever block is the last to leave
 * some there folds them, in the order of chunks. One block's four warps share a unit: warp j makes
 * the scores of subtile j, row maxima through shared memory give every warp the maxima that
 * walking the subtiles in order would have met, and then each warp owns a quarter of the columns.
 * Without bulk copies, and for heads of other widths than 32, 64 and 128, a plain kernel does the
 * same with one buffer. Where sequences have more rows (prompts) a block owns a tile of a
 * sequence's rows: paged_tiles.cu.
 */
#include "paged.cuh"
#include "paged_shares.cuh"

#define GROUP_MAX 8   /* query heads that share a walk over keys */

#define STAGES 3   /* chunks of keys or values in shared memory at once */

template <int HD> struct decode_shape {
	static constexpr int COLS = half_of(HD); /* columns of a head that lie in shared memory at once */
	static constexpr int PARTS = HD / COLS;
	static constexpr int CHUNK_BYTES = CHUNK * COLS * 2;
	static constexpr int P_STRIDE = CHUNK + 8;
	static constexpr int P_BYTES = GROUP_MAX * P_STRIDE * 2;
	static constexpr int STAT_BYTES = 2 * DECODE_WARPS * GROUP_MAX * 4;
	static constexpr int SHARED_BYTES = STAGES * CHUNK_BYTES + P_BYTES + STAT_BYTES + STAGES * 8;
	static constexpr int PLAIN_BYTES = CHUNK_BYTES + P_BYTES + STAT_BYTES; /* without bulk copies */
	static constexpr int SQUARES = COLS / 16 >= DECODE_WARPS ? COLS / 16 / DECODE_WARPS
															 : 1; /* of 16 columns, a warp's */
};

/* Query heads of the item's group as rows 0.. of an A operand; rows 8 to 15 are zeros. */
template <int HD, bool WHOLE>
static __device__ __forceinline__ void group_load(
	uint32_t q[HD / 16][4], const struct paged_args &a, const struct item &it, int lane)
{
	const int width = width_of<HD, WHOLE>(a.HD);
	int g = lane >> 2;
	const bf16 *from = a.q + it.row * a.q_ld + (it.kv * a.group + g) * width + 2 * (lane & 3);
#pragma unroll
	for (int k = 0; k < HD / 16; k++) {
		q[k][0] = g < a.group && k * 16 < width ? *(const uint32_t *)(from + k * 16) : 0;
		q[k][2] = g < a.group && k * 16 + 8 < width ? *(const uint32_t *)(from + k * 16 + 8) : 0;
		q[k][1] = q[k][3] = 0;
	}
}

struct folded {                /* what walking the four subtiles in order gives for the lane's row */
	float alpha[DECODE_WARPS]; /* factors of the accumulators */
	float m[DECODE_WARPS];     /* the maximum so far */
};

static __device__ __forceinline__ struct folded tops_fold(const float *tops, int g, float scale_log2)
{
	struct folded f;
	float m = -INFINITY;
#pragma unroll
	for (int j = 0; j < DECODE_WARPS; j++) {
		float now = fmaxf(m, tops[j * GROUP_MAX + g]);
		f.alpha[j] = shift_factor(m, now, scale_log2, shift_of(now, scale_log2));
		f.m[j] = m = now;
	}
	return f;
}

/* This warp's subtile: probabilities to shared memory, as bf16, and their sum. */
static __device__ __forceinline__ float probabilities_store(
	const float s[SUBTILE / 8][4], bf16 *p, float shift, float scale_log2, int lane)
{
	float sum = 0;
#pragma unroll
	for (int i = 0; i < SUBTILE / 8; i++) {
		float low = ex2(__fmaf_rn(s[i][0], scale_log2, -shift)), high = ex2(__fmaf_rn(s[i][1], scale_log2, -shift));
		sum = __fadd_rn(__fadd_rn(sum, low), high);
		*(uint32_t *)(p + 8 * i + 2 * (lane & 3)) = pack_bf16(low, high);
	}
	return quad_sum(sum);
}

/* A warp's columns of o over the whole chunk. */
template <int HD>
static __device__ __forceinline__ void chunk_values(float o[decode_shape<HD>::SQUARES * 2][4], const bf16 *p,
	uint32_t v_at, const struct folded &f, int first_square, int steps, int lane)
{
	constexpr int SQUARES = decode_shape<HD>::SQUARES;
#pragma unroll
	for (int i = 0; i < SQUARES * 2; i++) o[i][0] = o[i][1] = o[i][2] = o[i][3] = 0;
	/* Probabilities of a subtile are relative to the maximum so far, so what was summed before is
	 * scaled first. */
#pragma unroll
	for (int j = 0; j < DECODE_WARPS; j++) {
#pragma unroll
		for (int i = 0; i < SQUARES * 2; i++) {
			o[i][0] = __fmul_rn(o[i][0], f.alpha[j]);
			o[i][1] = __fmul_rn(o[i][1], f.alpha[j]);
		}
#pragma unroll
		for (int k = j * SUBTILE / 16; k < (j + 1) * SUBTILE / 16; k++) {
			if (k >= steps) break; /* no keys there: their probabilities are 0 */
			/* Row 8 and those behind it are no heads of the group: their halves of the A operand
			 * are zeros. */
			const uint32_t *from = (const uint32_t *)(p + 16 * k + 2 * (lane & 3));
			const uint32_t a[4] = {from[0], 0, from[4], 0};
			/* One load brings sixteen columns of sixteen keys, which are two products of eight
			 * columns. */
#pragma unroll
			for (int i = 0; i < SQUARES; i++) {
				uint32_t b[4];
				ldmatrix_transposed(b, square<HD>(v_at, k, first_square + i));
				mma_bf16(o[2 * i], a, b[0], b[1]);
				mma_bf16(o[2 * i + 1], a, b[2], b[3]);
			}
		}
	}
}

#if HOPPER_CODE
/* ---- the ring: chunks of keys and values by turns, brought by bulk copies of whole pages ---- */

static __device__ __forceinline__ void barrier_make(uint32_t barrier)
{
	asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(barrier) : "memory");
}
static __device__ __forceinline__ void barrier_wait(uint32_t barrier, uint32_t parity)
{
	asm volatile("{\n.reg .pred done;\nagain:\nmbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1;\n@done bra "
				 "there;\nbra again;\nthere:\n}" ::"r"(barrier),
		"r"(parity)
		: "memory");
}

static __device__ __forceinline__ int item_pages(const struct item &it)
{
	return (min(CHUNK, it.pos + 1 - it.chunk * CHUNK) + OPS_PAGE - 1) / OPS_PAGE;
}

/* A warp asks for the pages [first, last) of an item's chunk, a lane a page: one thread alone would
 * wait for the table's entries one by one. */
template <int HD>
static __device__ __forceinline__ void pages_fetch(uint32_t stage, uint32_t barrier, const bf16 *pages,
	const struct paged_args &a, const struct item &it, int first, int last)
{
	constexpr uint32_t BYTES = OPS_PAGE * HD * 2;
	for (int i = first + (int)threadIdx.x % WARP; i < last; i += WARP) {
		int64_t page = it.table[it.chunk * (CHUNK / OPS_PAGE) + i];
		const bf16 *from = pages + (page * a.NKV + it.kv) * OPS_PAGE * HD;
		asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(
						 stage + (uint32_t)i * BYTES),
			"l"(from), "r"(BYTES), "r"(barrier)
			: "memory");
	}
}

/* The barrier opens when all bytes of the chunk are there. */
template <int HD> static __device__ __forceinline__ void chunk_expect(uint32_t barrier, const struct item &it)
{
	if (threadIdx.x % WARP) return;
	asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(barrier),
		"r"((uint32_t)(item_pages(it) * OPS_PAGE * HD * 2))
		: "memory");
}

template <int HD>
static __device__ __forceinline__ void chunk_fetch(
	uint32_t stage, uint32_t barrier, const bf16 *pages, const struct paged_args &a, const struct item &it)
{
	chunk_expect<HD>(barrier, it);
	pages_fetch<HD>(stage, barrier, pages, a, it, 0, item_pages(it));
}

/* The ring's first turns: keys and values of the first item, keys of the second, if there is one.
 * Earlier steps wrote all pages but that of the step's own token: those are asked for while the
 * kernel before still runs (is_old), and that one after it. */
template <int HD>
static __device__ __forceinline__ void ring_begin(uint32_t ring, uint32_t barriers, const struct paged_args &a,
	const struct item &first, const struct item &second, bool has_second, bool is_old)
{
	auto turn = [&](uint32_t i, const bf16 *pages, const struct item &it) {
		int all = item_pages(it), old = all - (it.chunk == it.pos / CHUNK);
		uint32_t stage = ring + i * decode_shape<HD>::CHUNK_BYTES, barrier = barriers + 8 * i;
		if (is_old) chunk_expect<HD>(barrier, it);
		pages_fetch<HD>(stage, barrier, pages, a, it, is_old ? 0 : old, is_old ? old : all);
	};
	turn(0, a.kpages, first);
	turn(1, a.vpages, first);
	if (has_second) turn(2, a.kpages, second);
}

/* Rows of a last, partly filled page behind the last key, up to where products read: 0 times
 * what stands there must be
 * 0. */
template <int HD> static __device__ __forceinline__ void values_clear(unsigned char *stage, int keys)
{
	int from = keys * HD * 2, to = (keys + 15) / 16 * 16 * HD * 2;
	for (int at = from + (int)threadIdx.x * 16; at < to; at += DECODE_THREADS * 16)
		*(uint4 *)(stage + at) = make_uint4(0, 0, 0, 0);
	if (from < to) asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}
#endif

/* Scores of this warp's subtile become -inf behind the last key; their maximum. */
static __device__ __forceinline__ float scores_end(float s[SUBTILE / 8][4], int key, int pos, int lane)
{
	float top = -INFINITY;
#pragma unroll
	for (int i = 0; i < SUBTILE / 8; i++) {
		int at = key + 8 * i + 2 * (lane & 3);
		if (at > pos) s[i][0] = -INFINITY;
		if (at + 1 > pos) s[i][1] = -INFINITY;
		top = fmaxf(top, fmaxf(s[i][0], s[i][1]));
	}
	return quad_max(top);
}

/* This warp's subtile: scores, -inf behind the last key. */
template <int HD>
static __device__ __forceinline__ float decode_scores(
	float s[SUBTILE / 8][4], const uint32_t (*q)[4], uint32_t k_at, int key, int pos, int lane)
{
	if (key > pos) {
#pragma unroll
		for (int i = 0; i < SUBTILE / 8; i++) s[i][0] = s[i][1] = -INFINITY;
		return -INFINITY;
	}
	scores_multiply<HD>(s, q, k_at);
	return scores_end(s, key, pos, lane);
}

/* The lane's row of the chunk's sum of probabilities. */
static __device__ __forceinline__ float chunk_sum(const struct folded &f, const float *sums, int g)
{
	float l = 0;
#pragma unroll
	for (int j = 0; j < DECODE_WARPS; j++) l = __fmaf_rn(l, f.alpha[j], sums[j * GROUP_MAX + g]);
	return l;
}

static __device__ __forceinline__ float *partial_at(
	const struct paged_args &a, const struct item &it, int chunk, int g, int width)
{
	return a.partial + (((int64_t)it.row * a.b.chunks + chunk) * a.NH + it.kv * a.group + g) * (width + 2);
}

/* The first of the columns that this warp has of a part. */
template <int HD> static __device__ __forceinline__ int column_of(int part, int warp)
{
	return part * decode_shape<HD>::COLS + warp * decode_shape<HD>::SQUARES * 16;
}

template <int HD, bool WHOLE>
static __device__ __forceinline__ void partial_store(const struct paged_args &a, const struct item &it,
	const float (*o)[4], const struct folded &f, const float *sums, int part, int warp, int lane)
{
	constexpr int SQUARES = decode_shape<HD>::SQUARES;
	int g = lane >> 2, column = column_of<HD>(part, warp), width = width_of<HD, WHOLE>(a.HD);
	float *out = partial_at(a, it, it.chunk, g, width);
#pragma unroll
	for (int i = 0; i < SQUARES * 2; i++) {
		if (!WHOLE && column + i * 8 >= width) break;
		*(float2 *)(out + column + i * 8 + 2 * (lane & 3)) = make_float2(o[i][0], o[i][1]);
	}
	if (part == 0 && warp == 0 && (lane & 3) == 0)
		*(float2 *)(out + width) = make_float2(f.m[DECODE_WARPS - 1], chunk_sum(f, sums, g));
}

/* A pair's total so far of a part's columns, as the lane holds it. */
template <int HD> struct pair_total {
	float o[decode_shape<HD>::SQUARES * 2][2]; /* weighted values */
	float m;                                   /* the maximum */
	float l;                                   /* sum of the weights */
};

template <int HD>
static __device__ __forceinline__ void pair_fold(
	struct pair_total<HD> &t, const float (*o)[4], float m, float l, bool is_first, float scale_log2)
{
	if (is_first) t = {}, t.m = -INFINITY;
	float M = fmaxf(t.m, m), shift = shift_of(M, scale_log2);
	float keep = shift_factor(t.m, M, scale_log2, shift), take = shift_factor(m, M, scale_log2, shift);
#pragma unroll
	for (int i = 0; i < decode_shape<HD>::SQUARES * 2; i++)
#pragma unroll
		for (int c = 0; c < 2; c++) t.o[i][c] = fmaf(o[i][c], take, __fmul_rn(t.o[i][c], keep));
	t.l = fmaf(l, take, __fmul_rn(t.l, keep));
	t.m = M;
}

template <int HD, bool WHOLE>
static __device__ __forceinline__ void pair_store(
	const struct paged_args &a, const struct item &it, const struct pair_total<HD> &t, int part, int warp, int lane)
{
	constexpr int SQUARES = decode_shape<HD>::SQUARES;
	int width = width_of<HD, WHOLE>(a.HD), column = column_of<HD>(part, warp);
	float inverse = __frcp_rn(t.l);
	bf16 *to = a.att + it.row * a.att_ld + (it.kv * a.group + (lane >> 2)) * width + column + 2 * (lane & 3);
#pragma unroll
	for (int i = 0; i < SQUARES * 2; i++) {
		if (!WHOLE && column + i * 8 >= width) break;
		*(uint32_t *)(to + i * 8) = pack_bf16(__fmul_rn(t.o[i][0], inverse), __fmul_rn(t.o[i][1], inverse));
	}
}

/* Rows that no sequence has: what the next product multiplies must be finite. And what counts the
 * blocks that make the thin product there. */
static __device__ __forceinline__ void surplus_clear(const struct paged_args &a, int columns)
{
	if (a.thin && !blockIdx.x && !threadIdx.x) *a.thin = 0;
	for (int row = a.b.head[HEAD_ROWS] + (int)blockIdx.x; row < a.T; row += (int)gridDim.x)
		for (int i = (int)threadIdx.x * 2; i < columns; i += DECODE_THREADS * 2)
			*(uint32_t *)(a.att + row * a.att_ld + i) = 0;
}

/* A pair that several blocks have parts of: this one has left `held` chunks of it in partial. The
 * last block to do so folds them all, in order. Called by all threads. */
template <int HD, bool WHOLE>
static __device__ __forceinline__ void pair_join(
	const struct paged_args &a, const struct item &it, int *arrived, int held, int warp, int lane)
{
	using shape = decode_shape<HD>;
	constexpr int SQUARES = shape::SQUARES;
	__shared__ bool is_last;
	int g = lane >> 2, chunks = it.pos / CHUNK + 1, width = width_of<HD, WHOLE>(a.HD);
	/* What this block has left is seen before its chunks count as arrived. */
	__threadfence();
	__syncthreads();
	if (threadIdx.x == 0) is_last = atomicAdd(arrived, held) + held == chunks;
	__syncthreads();
	if (!is_last) return;
	if (threadIdx.x == 0) *arrived = 0;
	if (warp * SQUARES >= shape::COLS / 16 || g >= a.group) return;
	/* The others' parts, read past L1, which may hold what stood there before. */
	__threadfence();
#pragma unroll 1
	for (int part = 0; part < shape::PARTS; part++) {
		int column = column_of<HD>(part, warp);
		struct pair_total<HD> total;
#pragma unroll 4
		for (int chunk = 0; chunk < chunks; chunk++) {
			const float *from = partial_at(a, it, chunk, g, width);
			float2 ml = __ldcg((const float2 *)(from + width));
			float o[SQUARES * 2][4] = {};
#pragma unroll
			for (int i = 0; i < SQUARES * 2; i++) {
				if (!WHOLE && column + i * 8 >= width) break;
				float2 v = __ldcg((const float2 *)(from + column + i * 8 + 2 * (lane & 3)));
				o[i][0] = v.x, o[i][1] = v.y;
			}
			pair_fold<HD>(total, o, ml.x, ml.y, chunk == 0, a.scale_log2);
		}
		pair_store<HD, WHOLE>(a, it, total, part, warp, lane);
	}
}

/* Whether all of the pair lies in the block's share; `at` of which is the unit `it`. */
static __device__ __forceinline__ bool pair_is_whole(
	const struct paged_args &a, const struct share &share, const struct item &it, int at)
{
	return !a.leaves_parts && at >= it.chunk && at - it.chunk + it.pos / CHUNK < share.count;
}

/* Behind a unit: it may be the block's last one of a pair that others have parts of. */
template <int HD, bool WHOLE>
static __device__ __forceinline__ void pair_end(
	const struct paged_args &a, const struct share &share, const struct item &it, int at, int warp, int lane)
{
	bool is_last = at + 1 == share.count || it.chunk == it.pos / CHUNK;
	if (!is_last || a.leaves_parts || pair_is_whole(a, share, it, at)) return;
	int64_t begin = share.first + at - it.chunk, owner = ((begin + 1) * gridDim.x - 1) / share.all;
	pair_join<HD, WHOLE>(a, it, a.arrived + owner, min(at, it.chunk) + 1, warp, lane);
}

/* Values of a part of a unit's chunk, a warp a share of its columns: into the pair's
 * total, or out as a partial. */
template <int HD, bool WHOLE>
static __device__ __forceinline__ void item_values(const struct paged_args &a, const struct item &it, bool is_whole,
	struct pair_total<HD> *total, const bf16 *p, uint32_t v_at, const struct folded &f, const float *sums, int part,
	int warp, int lane)
{
	constexpr int SQUARES = decode_shape<HD>::SQUARES, COLS = decode_shape<HD>::COLS;
	int g = lane >> 2, keys = min(CHUNK, it.pos + 1 - it.chunk * CHUNK);
	float o[SQUARES * 2][4];
	if (warp * SQUARES >= COLS / 16) return;
	chunk_values<COLS>(o, p, v_at, f, warp * SQUARES, (keys + 15) / 16, lane);
	if (is_whole) {
		pair_fold<HD>(*total, o, f.m[DECODE_WARPS - 1], chunk_sum(f, sums, g), it.chunk == 0, a.scale_log2);
		if (g < a.group && it.chunk == it.pos / CHUNK) pair_store<HD, WHOLE>(a, it, *total, part, warp, lane);
	} else if (g < a.group) {
		partial_store<HD, WHOLE>(a, it, o, f, sums, part, warp, lane);
	}
}

template <int HD>
static __global__ void __launch_bounds__(DECODE_THREADS,
	HD == 128      ? 1
		: HD == 64 ? 2
				   : 4) decode_kernel(const struct paged_args a)
{
#if HOPPER_CODE
	using shape = decode_shape<HD>;
	extern __shared__ __align__(1024) unsigned char shared[];
	bf16 *p = (bf16 *)(shared + STAGES * shape::CHUNK_BYTES); /* (GROUP_MAX, P_STRIDE) */
	float *tops = (float *)((unsigned char *)p + shape::P_BYTES),
		  *sums = tops + DECODE_WARPS * GROUP_MAX; /* (subtile, GROUP_MAX) */
	uint32_t ring = shared_address(shared), barriers = shared_address(sums + DECODE_WARPS * GROUP_MAX);
	int lane = (int)threadIdx.x & 31, warp = (int)threadIdx.x >> 5, g = lane >> 2;
	bool is_fetcher = warp == 0;
	if (threadIdx.x == 0) {
		for (int i = 0; i < STAGES; i++) barrier_make(barriers + 8 * i);
		asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
	}
	__syncthreads();

	/* The batch and the pages of earlier steps stand since before the last kernel. */
	struct share share = share_find(a);
	struct item it = share.begin, next = {};
	if (share.count > 1) next = item_next(a, it);
	if (is_fetcher && share.count) ring_begin<HD>(ring, barriers, a, it, next, share.count > 1, true);
	grid_begin_of(a.T);
	surplus_clear(a, a.NH * HD);
	if (!share.count) return;
	if (is_fetcher) ring_begin<HD>(ring, barriers, a, it, next, share.count > 1, false);

	/* Turn t is a unit's keys (even) or values (odd), in stage t % STAGES. */
	struct pair_total<HD> total;
	uint32_t q[HD / 16][4];
	group_load<HD, true>(q, a, it, lane);
	for (int at = 0;; at++) {
		int turn = 2 * at;
		uint32_t k_stage = (uint32_t)(turn % STAGES), v_stage = (uint32_t)((turn + 1) % STAGES);
		int keys = min(CHUNK, it.pos + 1 - it.chunk * CHUNK);
		bool more = at + 1 < share.count, has_after = at + 2 < share.count;
		struct item after = has_after ? item_next(a, next) : next;
		barrier_wait(barriers + 8 * k_stage, (uint32_t)(turn / STAGES & 1));

		/* scores of this warp's subtile, and their maxima */
		float s[SUBTILE / 8][4];
		uint32_t k_at = ring + k_stage * shape::CHUNK_BYTES + (uint32_t)(warp * SUBTILE * HD * 2) +
			lane_columns<HD>(lane);
		float top = decode_scores<HD>(s, q, k_at, it.chunk * CHUNK + warp * SUBTILE, it.pos, lane);
		if (more) group_load<HD, true>(q, a, next, lane); /* on their way until the next turn */
		if ((lane & 3) == 0) tops[warp * GROUP_MAX + g] = top;
		__syncthreads();

		/* everybody has read the keys: the next values take their place */
		if (is_fetcher && more)
			chunk_fetch<HD>(ring + k_stage * shape::CHUNK_BYTES, barriers + 8 * k_stage, a.vpages, a, next);
		struct folded f = tops_fold(tops, g, a.scale_log2);
		float mine = warp == 0 ? f.m[0] : warp == 1 ? f.m[1] : warp == 2 ? f.m[2] : f.m[3];
		float sum = probabilities_store(
			s, p + g * shape::P_STRIDE + warp * SUBTILE, shift_of(mine, a.scale_log2), a.scale_log2, lane);
		if ((lane & 3) == 0) sums[warp * GROUP_MAX + g] = sum;
		barrier_wait(barriers + 8 * v_stage, (uint32_t)((turn + 1) / STAGES & 1));
		values_clear<HD>(shared + v_stage * shape::CHUNK_BYTES, keys);
		__syncthreads();

		item_values<HD, true>(a, it, pair_is_whole(a, share, it, at), &total, p + g * shape::P_STRIDE,
			ring + v_stage * shape::CHUNK_BYTES + lane_rows<HD>(lane), f, sums, 0, warp, lane);
		pair_end<HD, true>(a, share, it, at, warp, lane);
		if (!more) break;
		__syncthreads();
		if (is_fetcher && has_after)
			chunk_fetch<HD>(ring + v_stage * shape::CHUNK_BYTES, barriers + 8 * v_stage, a.kpages, a, after);
		it = next, next = after;
	}
#endif
}

/* The same without bulk copies, and with less shared memory: one buffer, which all threads fill
 * with a unit's keys and then its values, some columns at a time where a head is wide. Other blocks
 * of the processor multiply meanwhile. */
template <int HD, bool WHOLE>
static __global__ void __launch_bounds__(DECODE_THREADS) decode_plain_kernel(const struct paged_args a)
{
	using shape = decode_shape<HD>;
	constexpr int COLS = shape::COLS, PARTS = shape::PARTS;
	extern __shared__ __align__(1024) unsigned char shared[];
	bf16 *p = (bf16 *)(shared + shape::CHUNK_BYTES); /* (GROUP_MAX, P_STRIDE) */
	float *tops = (float *)((unsigned char *)p + shape::P_BYTES),
		  *sums = tops + DECODE_WARPS * GROUP_MAX; /* (subtile, GROUP_MAX) */
	uint32_t buffer = shared_address(shared);
	int lane = (int)threadIdx.x & 31, warp = (int)threadIdx.x >> 5, g = lane >> 2;
	struct share share = share_find(a);
	struct item it = share.begin;
	grid_begin();
	surplus_clear(a, a.NH * width_of<HD, WHOLE>(a.HD));
	struct pair_total<HD> total[PARTS];
	for (int at = 0; at < share.count; at++) {
		int first = it.chunk * CHUNK, end = it.pos + 1, key = first + warp * SUBTILE, kv = it.kv / a.shares;
		uint32_t q[HD / 16][4], k_at = buffer + (uint32_t)(warp * SUBTILE * COLS * 2) + lane_columns<COLS>(lane);

		/* scores of this warp's subtile, and their maxima */
		float s[SUBTILE / 8][4], top = 0;
		scores_clear(s);
#pragma unroll
		for (int part = 0; part < PARTS; part++) {
			pages_load<CHUNK, HD, WHOLE, COLS, DECODE_THREADS>(
				buffer, a.kpages, it.table, a, kv, first, end, part * COLS);
			copies_commit();
			if (part == 0) group_load<HD, WHOLE>(q, a, it, lane);
			copies_wait();
			__syncthreads();
			if (key <= it.pos) scores_add<COLS>(s, q + part * (COLS / 16), k_at);
			if (part + 1 == PARTS) {
				top = scores_end(s, key, it.pos, lane);
				if ((lane & 3) == 0) tops[warp * GROUP_MAX + g] = top;
			}
			__syncthreads();
		}

		/* everybody has read the keys: the values take their place */
		pages_load<CHUNK, HD, WHOLE, COLS, DECODE_THREADS>(buffer, a.vpages, it.table, a, kv, first, end);
		copies_commit();
		struct folded f = tops_fold(tops, g, a.scale_log2);
		float mine = warp == 0 ? f.m[0] : warp == 1 ? f.m[1] : warp == 2 ? f.m[2] : f.m[3];
		float sum = probabilities_store(
			s, p + g * shape::P_STRIDE + warp * SUBTILE, shift_of(mine, a.scale_log2), a.scale_log2, lane);
		if ((lane & 3) == 0) sums[warp * GROUP_MAX + g] = sum;
#pragma unroll
		for (int part = 0; part < PARTS; part++) {
			copies_wait();
			__syncthreads();
			item_values<HD, WHOLE>(a, it, pair_is_whole(a, share, it, at), &total[part], p + g * shape::P_STRIDE,
				buffer + lane_rows<COLS>(lane), f, sums, part, warp, lane);
			if (part + 1 == PARTS) break;
			__syncthreads();
			pages_load<CHUNK, HD, WHOLE, COLS, DECODE_THREADS>(
				buffer, a.vpages, it.table, a, kv, first, end, (part + 1) * COLS);
			copies_commit();
		}
		pair_end<HD, WHOLE>(a, share, it, at, warp, lane);
		if (at + 1 < share.count) it = item_next(a, it);
		__syncthreads();
	}
}

static_assert(decode_shape<128>::PLAIN_BYTES + 1024 <= SHARED_LEAST, "every card has this, and 1 KiB for the shares");
static_assert(decode_shape<256>::PLAIN_BYTES + 1024 <= SHARED_LEAST, "and this");

/* The ring is for heads whose pages lie as tiles do, and whose group is walked at once. */
template <int HD, bool WHOLE> static void decode_run(struct ops_context *c, const struct paged_args *a)
{
	constexpr bool HAS_RING = WHOLE && HD <= 128;
	bool is_plain = !HAS_RING || !c->card.is_hopper || a->shares > 1;
	int bytes = is_plain ? decode_shape<HD>::PLAIN_BYTES : decode_shape<HD>::SHARED_BYTES,
		each = MIN(8, c->card.shared_all / (bytes + 2048));
	int64_t most = (int64_t)a->T * a->NKV * a->shares * a->b.chunks,
			blocks = MIN(MIN(c->sms * each, ARRIVED_COUNT), most);
	CHECKF(
		most <= INT32_MAX / 2, "%d rows of %d chunks of keys; lower max_sequences or max_context", a->T, a->b.chunks);
	struct launch l = {dim3((unsigned)blocks), dim3(DECODE_THREADS), (size_t)bytes, 0};
	if constexpr (HAS_RING)
		if (!is_plain) return cuda_launch(c, l, decode_kernel<HD>, *a);
	cuda_launch(c, l, decode_plain_kernel<HD, WHOLE>, *a);
}

/* Into how many shares a group is cut, so that none has more heads than a walk serves. */
static int shares_of(int group)
{
	int shares = 1;
	while (group % shares || group / shares > GROUP_MAX) shares++;
	return shares;
}

/* ---- the operation ---- */

/* Rows that no sequence has. */
static __global__ void surplus_zero_kernel(bf16 *x, int64_t ld, const int32_t *sequence, int columns)
{
	grid_begin();
	if (sequence[blockIdx.x] >= 0) return;
	for (int i = (int)threadIdx.x; i < columns; i += (int)blockDim.x)
		x[blockIdx.x * ld + i] = __float2bfloat16_rn(0.0f);
}

static void attend_paged(struct ops_context *c, struct elem *att, const struct elem *q, const struct elem *kpages,
	const struct elem *vpages, const struct ops_heads *h, const struct ops_batch *b, int T, const struct ops_next *next)
{
	struct paged_args a = {};
	int Q = h->NH * h->HD;
	CHECKF(!b->is_packed, "attention over pages for a batch that has none");
	/* Where things lie, and how heads share blocks. */
	a.q = elems(q), a.q_ld = h->q_norm ? Q : Q + 2 * h->NKV * h->HD; /* without a norm q lies in qkv */
	a.kpages = elems(kpages), a.vpages = elems(vpages), a.att = elems(att), a.att_ld = Q + c->tail;
	a.b = b->view, a.S = b->sequences, a.NH = h->NH, a.NKV = h->NKV, a.group = h->NH / h->NKV, a.HD = h->HD;
	a.T = T, a.scale_log2 = scale_log2_of(h->HD);
	/* In a decode step each sequence has one row, so the work is cut by chunks of its keys. */
	if (b->is_decode) {
		a.shares = shares_of(a.group), a.group /= a.shares;
		a.partial = (float *)scratch_of(c, cuda_paged_scratch(b->S, b->view.chunks, h->NH, h->HD));
		struct thin_wait wait = thin_leave(c, a.att, Q, T, next);
		a.thin = wait.arrived;
		a.leaves_parts = c->card.is_hopper && T <= GEMV_ROWS && Q <= ROWS_MERGED_MAX && !wait.x;
		a.arrived = (int *)((char *)c->workspace + WORKSPACE_BYTES - ARRIVED_COUNT * sizeof(int));
		HEADS_RUN(h->HD, decode_run, c, &a);
		/* Of the fewest rows whoever makes their tail folds the chunks, on its way, if it has a
		 * kernel of its own: a launch and its wait less. */
		if (a.leaves_parts) cuda_merge(c, elems(att), a.partial, &a.b, h->NH, h->HD, T, next);
		else if (wait.x) c->thin = wait;
		else cuda_thin(c, elems(att), Q, T, next);
		return;
	}
	/* Otherwise tiles of rows walk all their keys. Surplus rows become zeros,
	 * since products read them. */
	cuda_paged_tiles(c, a);
	if (T > b->rows)
		cuda_launch(
			c, {dim3((unsigned)T), dim3(128), 0, 0}, surplus_zero_kernel, elems(att), a.att_ld, b->view.sequence, Q);
	cuda_thin(c, elems(att), Q, T, next);
}

void cuda_paged_entries(struct ops *t) { t->attend_paged = attend_paged; }
