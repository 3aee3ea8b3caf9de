/* attention_forward: causal attention inside the sequences of a packed pass (Dao et al. 2022, arXiv
 * 2205.14135; Dao 2023, arXiv 2307.08691), in the one order that the paged form shares
 * (docs/design.md): chunks of 256 keys from position 0, each an online softmax of its own over
 * four subtiles of 64 keys, folded into the total in order. A row's bits do not depend on what
 * else is packed beside it.
 *
 * A block is 128 rows: `pack` heads of one group times 128 / pack positions, eight warps of 16
 * rows; fewer where a card's shared memory does not hold the totals of 128. Keys and values of the
 * next subtile are copied while this one is multiplied. Heads of 256 elements are made in two
 * column halves that both compute the scores: the accumulators of all 256 and the total would not
 * fit in the registers. Where memory is least, subtiles of theirs come one by one. */
#include "attention.cuh"

#define ROWS_MOST 128

template <int HD, int ROWS = ROWS_MOST, int STAGES = 2> struct forward_shape {
	static constexpr int THREADS = ROWS * 2;
	static constexpr int DV = half_of(HD);     /* columns of the result that a block makes */
	static constexpr bool Q_SHARED = HD > 128; /* Q's fragments lie in shared memory, not in registers */
	static constexpr int K_BYTES = SUBTILE * HD * 2;
	static constexpr int V_BYTES = SUBTILE * DV * 2;
	static constexpr int STAGE_BYTES = K_BYTES + V_BYTES;
	static constexpr int TOTAL_BYTES = ROWS * DV * 4;
	static constexpr int SHARED_BYTES = STAGES * STAGE_BYTES + TOTAL_BYTES + (Q_SHARED ? ROWS * HD * 2 : 0);
};

struct forward_row { /* what a warp works on */
	int head;
	int position; /* of its first row */
};

/* Q's fragments from global memory; rows behind the sequence are zeros. */
template <int HD>
static __device__ __forceinline__ void q_load(uint32_t q[HD / 16][4], const struct packed_attention *a,
	struct span span, struct forward_row row, int width, int lane)
{
#pragma unroll
	for (int r = 0; r < 2; r++) {
		int position = row.position + (lane >> 2) + 8 * r;
		bool exists = position < span.length;
		const bf16 *from = a->q + (exists ? (span.first + position) * a->q_row + row.head * width + 2 * (lane & 3) : 0);
#pragma unroll
		for (int k = 0; k < HD / 16; k++) {
			q[k][r] = exists && k * 16 < width ? *(const uint32_t *)(from + k * 16) : 0;
			q[k][2 + r] = exists && k * 16 + 8 < width ? *(const uint32_t *)(from + k * 16 + 8) : 0;
		}
	}
}

template <int HD, int ROWS>
static __device__ __forceinline__ void q_tile_load(
	uint32_t tile, const struct packed_attention *a, struct span span, int head, int positions, int width)
{
	for (int at = (int)threadIdx.x; at < ROWS * HD / 8; at += ROWS * 2) {
		int row = at / (HD / 8), piece = at % (HD / 8), position = span.position + row % positions;
		bool exists = position < span.length && piece * 8 < width;
		const bf16 *from = a->q +
			(exists ? (span.first + position) * a->q_row + (head + row / positions) * width + piece * 8 : 0);
		copy_16(tile + tile_at<HD>(row, piece), from, exists);
	}
}

/* Divides by the sums and stores the rows that exist. */
template <int DV>
static __device__ __forceinline__ void forward_store(const struct packed_attention *a, struct span span,
	struct forward_row row, int column, const float o[DV / 8][4], const struct softmax *all, int width, int lane)
{
#pragma unroll
	for (int r = 0; r < 2; r++) {
		int position = row.position + (lane >> 2) + 8 * r;
		if (position >= span.length) continue;
		int64_t t = span.first + position;
		float inverse = __frcp_rn(all->l[r]);
		bf16 *to = a->att + t * a->att_row + row.head * width + column + 2 * (lane & 3);
#pragma unroll
		for (int i = 0; i < DV / 8; i++) {
			if (column + 8 * i >= width) break;
			*(uint32_t *)(to + 8 * i) = pack_bf16(__fmul_rn(o[i][2 * r], inverse), __fmul_rn(o[i][2 * r + 1], inverse));
		}
		if (a->lse && column == 0 && (lane & 3) == 0)
			a->lse[t * a->NH + row.head] = __fmaf_rn(all->m[r], a->scale, logf(all->l[r]));
	}
}

/* Grid: (NH / pack, items, column halves). STAGES: subtiles in shared memory. */
template <int HD, bool WHOLE, int ROWS, int STAGES>
static __global__ __launch_bounds__(ROWS * 2, 1) void attend_kernel(const struct packed_attention a)
{
	using shape = forward_shape<HD, ROWS, STAGES>;
	constexpr int DV = shape::DV, THREADS = shape::THREADS;
	const int width = width_of<HD, WHOLE>(a.HD);
	extern __shared__ __align__(1024) uint8_t shared[];
	int lane = (int)threadIdx.x & 31, warp = (int)threadIdx.x >> 5, positions = ROWS / a.pack;
	grid_begin();
	/* The longest walks first. */
	struct span span = span_find(a.start, a.S, (int)(gridDim.y - 1 - blockIdx.y), positions);
	if (span.length == 0) return;

	/* Which rows this warp has, and how many subtiles the block's last row sees. */
	int head = (int)blockIdx.x * a.pack, kv = head / a.group, column = HD > DV ? (int)blockIdx.z * DV : 0;
	struct forward_row row = {head + warp * 16 / positions, span.position + warp * 16 % positions};
	int subtiles = (min(span.position + positions, span.length) - 1) / SUBTILE + 1;
	bool exists = row.position < span.length;
	const bf16 *k_rows = a.k + span.first * a.k_row + kv * width,
			   *v_rows = a.v + span.first * a.v_row + kv * width + column;
	uint32_t base = shared_address(shared), q_tile = base + STAGES * shape::STAGE_BYTES + shape::TOTAL_BYTES;
	float *total = (float *)(shared + STAGES * shape::STAGE_BYTES) + threadIdx.x;

	uint32_t q_at = q_tile + warp * 16 * HD * 2 + lane_rows<HD>(lane), k_lane = lane_columns<HD>(lane),
			 v_lane = lane_rows<DV>(lane);

	/* The first copies, and Q. */
	uint32_t q[shape::Q_SHARED ? 1 : HD / 16][4];
	if constexpr (shape::Q_SHARED) q_tile_load<HD, ROWS>(q_tile, &a, span, head, positions, width);
	else q_load<HD>(q, &a, span, row, width, lane);
	auto subtile_load = [&](int j) {
		uint32_t stage = base + (uint32_t)(j % STAGES) * shape::STAGE_BYTES;
		int key = j * SUBTILE;
		tile_load<SUBTILE, HD, THREADS>(stage, k_rows + key * a.k_row, a.k_row, span.length - key, width);
		tile_load<SUBTILE, DV, THREADS>(
			stage + shape::K_BYTES, v_rows + key * a.v_row, a.v_row, span.length - key, width - column);
		copies_commit();
	};
	subtile_load(0);

	float o[DV / 8][4];
	struct softmax all = {{-INFINITY, -INFINITY}, {0, 0}}, chunk = all;
#pragma unroll
	for (int i = 0; i < DV / 8; i++) o[i][0] = o[i][1] = o[i][2] = o[i][3] = 0;

	for (int j = 0; j < subtiles; j++) {
		/* Subtile j is here, and everybody has left the buffer of j - 1: j + 1 may go there. */
		copies_wait();
		__syncthreads();
		uint32_t stage = base + (uint32_t)(j % STAGES) * shape::STAGE_BYTES;
		int key = j * SUBTILE, next = key + SUBTILE;
		if (STAGES > 1 && j + 1 < subtiles) subtile_load(j + 1);
		/* A subtile beyond the warp's last row would change nothing. */
		if (exists && key <= row.position + 15) {
			float s[SUBTILE / 8][4];
			if constexpr (shape::Q_SHARED) scores_of_tile<HD>(s, q_at, stage + k_lane);
			else scores_multiply<HD>(s, q, stage + k_lane);
			scores_mask(s, lane, row.position, key);
			softmax_step<DV / 8>(s, o, &chunk, a.scale_log2);
			values_add<DV>(o, s, stage + shape::K_BYTES + v_lane);
		}
		/* The only buffer is free when everybody has left it. */
		if (STAGES == 1 && j + 1 < subtiles) {
			__syncthreads();
			subtile_load(j + 1);
		}
		/* The chunk ends: fold it, and begin anew unless it was the last. */
		if (next % CHUNK != 0 && j + 1 < subtiles) continue;
		chunk_fold<DV / 8, THREADS>(o, &chunk, total, &all, key < CHUNK, a.scale_log2);
		if (j + 1 == subtiles) break;
		chunk.m[0] = chunk.m[1] = -INFINITY;
		chunk.l[0] = chunk.l[1] = 0;
#pragma unroll
		for (int i = 0; i < DV / 8; i++)
#pragma unroll
			for (int c = 0; c < 4; c++) total[(i * 4 + c) * THREADS] = o[i][c], o[i][c] = 0;
	}
	if (exists) forward_store<DV>(&a, span, row, column, o, &all, width, lane);
}

static_assert(forward_shape<128, ROWS_MOST / 2>::SHARED_BYTES <= SHARED_LEAST, "every card has this");
static_assert(forward_shape<256, ROWS_MOST / 4, 1>::SHARED_BYTES <= SHARED_LEAST, "and this");

template <int HD, bool WHOLE, int ROWS, int STAGES = 2>
static bool forward_launch(struct ops_context *c, const struct packed_attention *a)
{
	using shape = forward_shape<HD, ROWS, STAGES>;
	if (shape::SHARED_BYTES > c->card.shared_block) return false;
	dim3 grid((unsigned)(a->NH / a->pack), span_count_max(a, ROWS / a->pack), (unsigned)(HD / shape::DV));
	cuda_launch(c, {grid, dim3(shape::THREADS), shape::SHARED_BYTES, 0}, attend_kernel<HD, WHOLE, ROWS, STAGES>, *a);
	return true;
}

/* As many rows a block as the card has memory for. */
template <int HD, bool WHOLE> static void forward_run(struct ops_context *c, const struct packed_attention *a)
{
	if (forward_launch<HD, WHOLE, ROWS_MOST>(c, a)) return;
	if (forward_launch<HD, WHOLE, ROWS_MOST / 2>(c, a)) return;
	if constexpr (HD > 128) forward_launch<HD, WHOLE, ROWS_MOST / 4, 1>(c, a);
}

static void attend(struct ops_context *c, struct elem *att, struct f32 *lse, const struct elem *q, const struct elem *k,
	const struct elem *qkv, const struct ops_heads *h, const struct ops_batch *b, int T, const struct ops_next *next)
{
	struct packed_attention a = packed_attention_of(c, h, b, q, k, qkv);
	a.att = elems(att), a.lse = floats(lse);
	HEADS_RUN(h->HD, forward_run, c, &a);
	surplus_clear(c, a.att, a.att_row, h->NH * h->HD, b, T);
	cuda_thin(c, a.att, h->NH * h->HD, T, next);
}

void cuda_attend_entries(struct ops *t) { t->attend = attend; }
