/* attention_backward: gradients of packed causal attention from the saved log-sum-exp (Dao et al.
 * 2022, arXiv 2205.14135, algorithm 4):
 *
 *   P = exp(scale q k - lse)   delta = sum_d dO O   dP = dO V'   dS = P (dP - delta)
 *   dQ = scale dS K            dV = P' dO           dK = scale dS' Q
 *
 * Two passes and no atomics, so that every sum has one order: the first owns 64 queries of a head
 * and walks their keys (dQ, and delta for the second), the second owns 64 keys of a key head and
 * walks the later queries of all heads of the group, head after head (dK, dV). Scores are computed
 * twice: seven products instead of five, against partial dQs of the same cost in memory traffic.
 *
 * Both passes are four warps of 16 rows; the other side's next tile is copied while this one is
 * multiplied. Heads of 256 elements make their results in two column halves; where a card's shared
 * memory does not hold two of their tiles, the next one is copied afterwards, and where it is
 * least, two warps share a block. */
#include "attention.cuh"

#define TILE 64   /* queries and keys of a tile */
#define NT (TILE / 8) /* column tiles of a 16 x TILE product */

/* ROWS: queries (keys) that a block owns. STAGES: tiles of the other side in shared memory. */
template <int HD, int ROWS = TILE, int STAGES = 2> struct backward_shape {
	static constexpr int THREADS = 2 * ROWS;
	static constexpr int COLS = half_of(HD);        /* columns of a result that a block makes */
	static constexpr bool IN_REGISTERS = HD <= 128; /* first pass: Q's and dO's fragments */
	static constexpr int OWN_BYTES = ROWS * HD * 2;
	static constexpr int TILE_BYTES = TILE * HD * 2;
	static constexpr int STAGE_BYTES = 2 * TILE_BYTES;
	static constexpr int DQ_BYTES = STAGES * STAGE_BYTES + (IN_REGISTERS ? 0 : 2 * OWN_BYTES);
	static constexpr int DKDV_BYTES = STAGES * STAGE_BYTES + 2 * OWN_BYTES + STAGES * 2 * TILE * 4;
	static constexpr int BLOCKS = HD <= 128 ? 2 : 1; /* on a multiprocessor */
};

static __device__ __forceinline__ void clear(float (*c)[4], int n)
{
#pragma unroll
	for (int i = 0; i < n; i++) c[i][0] = c[i][1] = c[i][2] = c[i][3] = 0;
}

/* c (16, TILE) = A B' over HD: A's fragments in registers or in a tile, B a tile of TILE
 * rows; what ends in _at are lane addresses. */
template <int HD, bool REGISTERS>
static __device__ __forceinline__ void product(
	float c[NT][4], const uint32_t (*a_registers)[4], uint32_t a_at, uint32_t b_at)
{
	static_assert(TILE == SUBTILE, "scores are such products");
	static_assert(TILE / 2 >= CUDA_TILE_ROWS, "as the limits say");
	if constexpr (REGISTERS) scores_multiply<HD>(c, a_registers, b_at);
	else scores_of_tile<HD>(c, not_ahead(a_at), b_at);
}

/* A product's result, rounded, as fragments of A. */
static __device__ __forceinline__ void fragments_of(uint32_t w[TILE / 16][4], const float c[NT][4])
{
#pragma unroll
	for (int k = 0; k < TILE / 16; k++)
#pragma unroll
		for (int i = 0; i < 4; i++)
			w[k][i] = pack_bf16(c[2 * k + i / 2][2 * (i & 1)], c[2 * k + i / 2][2 * (i & 1) + 1]);
}

/* c (16, COLS) += w B: w (16, TILE) as fragments of A, b_at a lane's address
 * in a tile (TILE, HD). */
template <int HD, int COLS>
static __device__ __forceinline__ void product_add(float c[COLS / 8][4], const uint32_t w[TILE / 16][4], uint32_t b_at)
{
#pragma unroll
	for (int k = 0; k < TILE / 16; k++) {
		const uint32_t *a = w[k];
#pragma unroll
		for (int i = 0; i < COLS / 16; i++) {
			uint32_t b[4];
			ldmatrix_transposed(b, square<HD>(b_at, k, i));
			mma_bf16(c[2 * i], a, b[0], b[1]);
			mma_bf16(c[2 * i + 1], a, b[2], b[3]);
		}
	}
}

/* ---- first pass: dQ and delta ---- */

/* sum over d of dO O of rows g and g + 8, in the order of the columns a lane
 * holds, then over the quad. */
static __device__ __forceinline__ void deltas(
	float delta[2], const struct packed_attention *a, int width, int64_t at, int rows, int lane)
{
#pragma unroll
	for (int r = 0; r < 2; r++) {
		int row = (lane >> 2) + 8 * r;
		float sum = 0;
		if (row < rows) {
			const uint32_t *o = (const uint32_t *)(a->att + at + row * a->att_row + 2 * (lane & 3)),
						   *d = (const uint32_t *)(a->datt + at + row * a->att_row + 2 * (lane & 3));
			for (int i = 0; i < width / 8; i++) {
				float2 x = unpack_bf16(o[i * 4]), y = unpack_bf16(d[i * 4]);
				sum = __fmaf_rn(x.x, y.x, sum);
				sum = __fmaf_rn(x.y, y.y, sum);
			}
		}
		delta[r] = quad_sum(sum);
	}
}

/* Scores become P (masked: 0), dP becomes dS, which is left in dp. Rows are
 * queries, columns keys. */
static __device__ __forceinline__ void weights_of_queries(
	float s[NT][4], float dp[NT][4], const float lse2[2], const float delta[2], float scale_log2, int visible)
{
#pragma unroll
	for (int i = 0; i < NT; i++)
#pragma unroll
		for (int c = 0; c < 4; c++) {
			float p = ex2(__fmaf_rn(s[i][c], scale_log2, -lse2[c >> 1]));
			if (8 * i + (c & 1) > visible + 8 * (c >> 1)) p = 0;
			dp[i][c] = p * (dp[i][c] - delta[c >> 1]);
		}
}

/* Grid: (NH, items of ROWS queries, column halves). */
template <int HD, bool WHOLE, int ROWS, int STAGES>
static __global__ __launch_bounds__(2 * ROWS, backward_shape<HD>::BLOCKS) void dq_kernel(
	const struct packed_attention a)
{
	using shape = backward_shape<HD, ROWS, STAGES>;
	constexpr bool REGISTERS = shape::IN_REGISTERS;
	constexpr int THREADS = shape::THREADS;
	const int width = width_of<HD, WHOLE>(a.HD);
	extern __shared__ __align__(1024) uint8_t shared[];
	int lane = (int)threadIdx.x & 31, warp = (int)threadIdx.x >> 5, head = (int)blockIdx.x, kv = head / a.group;
	grid_begin();
	struct span span = span_find(a.start, a.S, (int)(gridDim.y - 1 - blockIdx.y), ROWS); /* the longest walks first */
	if (span.length == 0) return;

	/* The block's tile and this warp's 16 rows of it. */
	int column = HD > shape::COLS ? (int)blockIdx.z * shape::COLS : 0, position = span.row + warp * 16,
		rows = span.length - position;
	int64_t first = span.first, tile_row = first + span.row, row = rows > 0 ? first + position : first;
	const bf16 *k_rows = a.k + first * a.k_row + kv * width, *v_rows = a.v + first * a.v_row + kv * width;
	uint32_t base = shared_address(shared), q_tile = base + STAGES * shape::STAGE_BYTES,
			 d_tile = q_tile + shape::OWN_BYTES;

	uint32_t own_lane = lane_rows<HD>(lane) + warp * 16 * HD * 2, other_lane = lane_columns<HD>(lane),
			 sum_lane = lane_rows<HD>(lane) ^ (uint32_t)(column * 2);

	/* The first copies; Q and dO to registers or to shared memory. */
	uint32_t q[REGISTERS ? HD / 16 : 1][4], d[REGISTERS ? HD / 16 : 1][4];
	if constexpr (REGISTERS) {
		fragments_load<HD>(q, a.q + row * a.q_row + head * width, a.q_row, rows, width, lane);
		fragments_load<HD>(d, a.datt + row * a.att_row + head * width, a.att_row, rows, width, lane);
	} else {
		int left = span.length - span.row;
		tile_load<ROWS, HD, THREADS>(q_tile, a.q + tile_row * a.q_row + head * width, a.q_row, left, width);
		tile_load<ROWS, HD, THREADS>(d_tile, a.datt + tile_row * a.att_row + head * width, a.att_row, left, width);
	}
	auto keys_load = [&](int j) {
		uint32_t stage = base + (uint32_t)(j % STAGES) * shape::STAGE_BYTES;
		int key = j * TILE;
		tile_load<TILE, HD, THREADS>(stage, k_rows + key * a.k_row, a.k_row, span.length - key, width);
		tile_load<TILE, HD, THREADS>(
			stage + shape::TILE_BYTES, v_rows + key * a.v_row, a.v_row, span.length - key, width);
		copies_commit();
	};
	keys_load(0);

	/* delta and lse of rows g and g + 8; a row that does not exist has a weight of
	 * 1 and a gradient of 0. */
	float delta[2], lse2[2];
	deltas(delta, &a, width, row * a.att_row + head * width, rows, lane);
#pragma unroll
	for (int r = 0; r < 2; r++) {
		int mine = (lane >> 2) + 8 * r;
		lse2[r] = mine < rows ? a.lse[(row + mine) * a.NH + head] * LOG2E : 0;
		if (mine < rows && (lane & 3) == 0 && blockIdx.z == 0) a.delta[(row + mine) * a.NH + head] = delta[r];
	}

	float dq[shape::COLS / 8][4];
	clear(dq, shape::COLS / 8);
	int tiles = span.row / TILE + 1;
	for (int j = 0; j < tiles; j++) {
		/* Tile j is here, the buffer of j - 1 is free. */
		copies_wait();
		__syncthreads();
		uint32_t k_tile = base + (uint32_t)(j % STAGES) * shape::STAGE_BYTES, v_tile = k_tile + shape::TILE_BYTES;
		int key = j * TILE;
		if (STAGES > 1 && j + 1 < tiles) keys_load(j + 1);
		if (rows > 0) {
			float s[NT][4], dp[NT][4];
			product<HD, REGISTERS>(s, q, q_tile + own_lane, k_tile + other_lane);
			product<HD, REGISTERS>(dp, d, d_tile + own_lane, v_tile + other_lane);
			weights_of_queries(s, dp, lse2, delta, a.scale_log2, position + (lane >> 2) - key - 2 * (lane & 3));
			uint32_t w[TILE / 16][4];
			fragments_of(w, dp);
			product_add<HD, shape::COLS>(dq, w, k_tile + sum_lane);
		}
		/* The only buffer is free when everybody has left it. */
		if (STAGES > 1 || j + 1 == tiles) continue;
		__syncthreads();
		keys_load(j + 1);
	}

#pragma unroll
	for (int r = 0; r < 2; r++) {
		int mine = (lane >> 2) + 8 * r;
		if (mine >= rows) continue;
		bf16 *to = a.dq + (row + mine) * a.dq_row + head * width + column + 2 * (lane & 3);
#pragma unroll
		for (int i = 0; i < shape::COLS / 8; i++) {
			if (column + 8 * i >= width) break;
			*(uint32_t *)(to + 8 * i) = pack_bf16(dq[i][2 * r] * a.scale, dq[i][2 * r + 1] * a.scale);
		}
	}
}

/* ---- second pass: dK and dV ---- */

struct queries { /* of one step of the walk */
	int head;
	int position; /* of the first */
};

/* Tiles of one head in rising positions, then the next head. */
static __device__ __forceinline__ void queries_next(struct queries *at, int first, int length)
{
	at->position += TILE;
	if (at->position >= length) at->position = first, at->head++;
}

/* Queries, their dO, and the figures of their rows, into a stage. */
template <int HD, int THREADS>
static __device__ __forceinline__ void queries_load(
	uint32_t stage, uint32_t figures, const struct packed_attention *a, struct span span, struct queries at, int width)
{
	int rows = span.length - at.position;
	int64_t t = span.first + at.position;
	tile_load<TILE, HD, THREADS>(stage, a->q + t * a->q_row + at.head * width, a->q_row, rows, width);
	tile_load<TILE, HD, THREADS>(
		stage + backward_shape<HD>::TILE_BYTES, a->datt + t * a->att_row + at.head * width, a->att_row, rows, width);
#pragma unroll
	for (int i = (int)threadIdx.x; i < 2 * TILE; i += THREADS) {
		const float *from = i < TILE ? a->lse : a->delta;
		int mine = i % TILE;
		copy_4(figures + 4 * i, from + (mine < rows ? (t + mine) * a->NH + at.head : 0), mine < rows);
	}
	copies_commit();
}

/* Scores become P (masked: 0). Rows are keys, columns queries, whose log-sum-exps
 * lie in shared memory. */
static __device__ __forceinline__ void weights_of_keys(
	float s[NT][4], const float *lse, float scale_log2, int hidden, int lane)
{
#pragma unroll
	for (int i = 0; i < NT; i++) {
		const float2 mine = *(const float2 *)(lse + 8 * i + 2 * (lane & 3));
#pragma unroll
		for (int c = 0; c < 4; c++) {
			float p = ex2(__fmaf_rn(s[i][c], scale_log2, -LOG2E * (c & 1 ? mine.y : mine.x)));
			s[i][c] = 8 * i + (c & 1) < hidden + 8 * (c >> 1) ? 0 : p;
		}
	}
}

/* dP becomes dS, by the rounded P that dV was made with: 16 registers instead of 32. */
static __device__ __forceinline__ void scores_gradient(
	float dp[NT][4], const uint32_t w[TILE / 16][4], const float *delta, int lane)
{
#pragma unroll
	for (int i = 0; i < NT; i++) {
		const float2 mine = *(const float2 *)(delta + 8 * i + 2 * (lane & 3));
#pragma unroll
		for (int r = 0; r < 2; r++) {
			float2 p = unpack_bf16(w[i / 2][2 * (i & 1) + r]);
			dp[i][2 * r] = p.x * (dp[i][2 * r] - mine.x);
			dp[i][2 * r + 1] = p.y * (dp[i][2 * r + 1] - mine.y);
		}
	}
}

/* Grid: (NKV, items of ROWS keys, column halves). */
template <int HD, bool WHOLE, int ROWS, int STAGES>
static __global__ __launch_bounds__(2 * ROWS, backward_shape<HD>::BLOCKS) void dkdv_kernel(
	const struct packed_attention a)
{
	using shape = backward_shape<HD, ROWS, STAGES>;
	constexpr int THREADS = shape::THREADS;
	const int width = width_of<HD, WHOLE>(a.HD);
	extern __shared__ __align__(1024) uint8_t shared[];
	int lane = (int)threadIdx.x & 31, warp = (int)threadIdx.x >> 5, kv = (int)blockIdx.x;
	grid_begin();
	struct span span = span_find(a.start, a.S, (int)blockIdx.y, ROWS);
	if (span.length == 0) return;

	/* The block's keys and this warp's 16 of them; steps walk query tiles from the keys'
	 * own on, for each head. */
	int column = HD > shape::COLS ? (int)blockIdx.z * shape::COLS : 0, key = span.row + warp * 16,
		rows = span.length - key;
	int steps = ((span.length - span.row + TILE - 1) / TILE) * a.group;
	int64_t tile_row = span.first + span.row;
	uint32_t base = shared_address(shared), k_tile = base + STAGES * shape::STAGE_BYTES,
			 v_tile = k_tile + shape::OWN_BYTES, figures = v_tile + shape::OWN_BYTES;
	const float *figures_at = (const float *)(shared + STAGES * shape::STAGE_BYTES + 2 * shape::OWN_BYTES);

	uint32_t own_lane = lane_rows<HD>(lane) + warp * 16 * HD * 2, other_lane = lane_columns<HD>(lane),
			 sum_lane = lane_rows<HD>(lane) ^ (uint32_t)(column * 2);

	/* Keys and values stay; queries, dO and their figures come a tile ahead of their use. */
	int left = span.length - span.row;
	tile_load<ROWS, HD, THREADS>(k_tile, a.k + tile_row * a.k_row + kv * width, a.k_row, left, width);
	tile_load<ROWS, HD, THREADS>(v_tile, a.v + tile_row * a.v_row + kv * width, a.v_row, left, width);
	struct queries at = {kv * a.group, span.row}, after = at;
	auto step_load = [&](int j) {
		uint32_t stage = (uint32_t)(j % STAGES);
		queries_load<HD, THREADS>(
			base + stage * shape::STAGE_BYTES, figures + stage * 2 * TILE * 4, &a, span, after, width);
	};
	step_load(0);

	float dk[shape::COLS / 8][4], dv[shape::COLS / 8][4];
	clear(dk, shape::COLS / 8);
	clear(dv, shape::COLS / 8);
	for (int j = 0; j < steps; j++) {
		/* This step's tile is here, and the buffer of the step before is free for the next one. */
		copies_wait();
		__syncthreads();
		uint32_t q_tile = base + (uint32_t)(j % STAGES) * shape::STAGE_BYTES, d_tile = q_tile + shape::TILE_BYTES;
		at = after;
		queries_next(&after, span.row, span.length);
		if (STAGES > 1 && j + 1 < steps) step_load(j + 1);
		if (rows > 0) {
			float s[NT][4];
			uint32_t w[TILE / 16][4];
			/* P again, which gives dV; then dP and dS, which give dK. Scores lie
			 * transposed: a row is a key. */
			const float *lse = figures_at + j % STAGES * 2 * TILE;
			product<HD, false>(s, NULL, k_tile + own_lane, q_tile + other_lane);
			weights_of_keys(s, lse, a.scale_log2, key + (lane >> 2) - at.position - 2 * (lane & 3), lane);
			fragments_of(w, s);
			product_add<HD, shape::COLS>(dv, w, d_tile + sum_lane);
			product<HD, false>(s, NULL, v_tile + own_lane, d_tile + other_lane);
			scores_gradient(s, w, lse + TILE, lane);
			fragments_of(w, s);
			product_add<HD, shape::COLS>(dk, w, q_tile + sum_lane);
		}
		/* The only buffer is free when everybody has left it. */
		if (STAGES > 1 || j + 1 == steps) continue;
		__syncthreads();
		step_load(j + 1);
	}

#pragma unroll
	for (int r = 0; r < 2; r++) {
		int mine = (lane >> 2) + 8 * r;
		if (mine >= rows) continue;
		int64_t t = span.first + key + mine;
		int at = kv * width + column + 2 * (lane & 3);
#pragma unroll
		for (int i = 0; i < shape::COLS / 8; i++) {
			if (column + 8 * i >= width) break;
			*(uint32_t *)(a.dk + t * a.dk_row + at + 8 * i) = pack_bf16(
				dk[i][2 * r] * a.scale, dk[i][2 * r + 1] * a.scale);
			*(uint32_t *)(a.dv + t * a.dv_row + at + 8 * i) = pack_bf16(dv[i][2 * r], dv[i][2 * r + 1]);
		}
	}
}

/* ---- launch ---- */

template <int HD, bool WHOLE, int ROWS, int STAGES>
static bool backward_launch(struct ops_context *c, const struct packed_attention *a)
{
	using shape = backward_shape<HD, ROWS, STAGES>;
	if (MAX(shape::DQ_BYTES, shape::DKDV_BYTES) > c->card.shared_block) return false;
	unsigned items = span_count_max(a, ROWS), halves = (unsigned)(HD / shape::COLS);
	cuda_launch(c, {dim3((unsigned)a->NH, items, halves), dim3(shape::THREADS), shape::DQ_BYTES, 0},
		dq_kernel<HD, WHOLE, ROWS, STAGES>, *a);
	cuda_launch(c, {dim3((unsigned)a->NKV, items, halves), dim3(shape::THREADS), shape::DKDV_BYTES, 0},
		dkdv_kernel<HD, WHOLE, ROWS, STAGES>, *a);
	return true;
}

/* What the card has memory for: tiles ahead of their use, else one by one,
 * else few rows a block. */
template <int HD, bool WHOLE> static void backward_run(struct ops_context *c, const struct packed_attention *a)
{
	static_assert(HD > 128 || backward_shape<HD>::DKDV_BYTES + 1024 <= SHARED_LEAST, "every card has this");
	static_assert(backward_shape<HD, TILE / 2, 1>::DKDV_BYTES + 1024 <= SHARED_LEAST, "and this");
	static_assert(backward_shape<HD, TILE / 2, 1>::DQ_BYTES + 1024 <= SHARED_LEAST, "and this");
	if (backward_launch<HD, WHOLE, TILE, 2>(c, a)) return;
	if constexpr (HD > 128) {
		if (backward_launch<HD, WHOLE, TILE, 1>(c, a)) return;
		backward_launch<HD, WHOLE, TILE / 2, 1>(c, a);
	}
}

static void attend_backward(struct ops_context *c, struct elem *dq, struct elem *dk, struct elem *dqkv,
	const struct elem *datt, const struct elem *att, const struct f32 *lse, const struct elem *q, const struct elem *k,
	const struct elem *qkv, const struct ops_heads *h, const struct ops_batch *b, int T)
{
	struct packed_attention a = packed_attention_of(c, h, b, q, k, qkv);
	int Q = h->NH * h->HD, KV = h->NKV * h->HD, all = Q + 2 * KV;
	a.att = (bf16 *)elems(att), a.datt = elems(datt), a.lse = (float *)floats(lse);
	a.dq = elems(dq), a.dq_row = dq == dqkv ? all : Q;
	a.dk = dk == dqkv ? elems(dqkv) + Q : elems(dk), a.dk_row = dk == dqkv ? all : KV;
	a.dv = elems(dqkv) + Q + KV, a.dv_row = all;
	a.delta = (float *)scratch_of(c, cuda_delta_scratch(b->rows, h->NH));
	HEADS_RUN(h->HD, backward_run, c, &a);
	surplus_clear(c, a.dq, a.dq_row, Q, b, T);
	surplus_clear(c, a.dk, a.dk_row, KV, b, T);
	surplus_clear(c, a.dv, a.dv_row, KV, b, T);
}

void cuda_attend_backward_entries(struct ops *t) { t->attend_backward = attend_backward; }
