/* attention_forward: causal attention inside the sequences of a packed pass (Dao et al. 2022, arXiv
 * 2205.14135; Dao 2023, arXiv 2307.08691), in the one order that the paged form shares (docs/design.md):
 * chunks of 256 keys from position 0, each an online softmax of its own over four subtiles of 64 keys,
 * folded into the total in order. A row's bits do not depend on what else is packed beside it.
 *
 * A block is 128 rows: `pack` heads of one group times 128 / pack positions, eight warps of 16 rows; half as many
 * where a card's shared memory does not hold the totals of 128.
 * Keys and values of the next subtile are copied while this one is multiplied. Heads of 256 elements
 * are made in two column halves that both compute the scores: the accumulators of all 256 and the
 * total would not fit in the registers. */
#include "attention.cuh"

#define ROWS_MOST 128

template <int HD, int ROWS = ROWS_MOST> struct forward_shape {
	static constexpr int THREADS = ROWS * 2;
	static constexpr int DV = HD < 128 ? HD : 128; /* columns of the result that a block makes */
	static constexpr bool Q_SHARED = HD > 128;     /* Q's fragments lie in shared memory, not in registers */
	static constexpr int K_BYTES = SUBTILE * HD * 2, V_BYTES = SUBTILE * DV * 2;
	static constexpr int STAGE_BYTES = K_BYTES + V_BYTES;
	static constexpr int TOTAL_BYTES = ROWS * DV * 4;
	static constexpr int SHARED_BYTES = 2 * STAGE_BYTES + TOTAL_BYTES + (Q_SHARED ? ROWS * HD * 2 : 0);
};

struct forward_row { /* what a warp works on */
	int head;
	int position; /* of its first row */
};

/* Q's fragments from global memory; rows behind the sequence are zeros. */
template <int HD>
static __device__ __forceinline__ void q_load(
	uint32_t q[HD / 16][4], const struct packed_attention *a, struct span span, struct forward_row row, int lane)
{
#pragma unroll
	for (int r = 0; r < 2; r++) {
		int position = row.position + (lane >> 2) + 8 * r;
		bool exists = position < span.length;
		const bf16 *from = a->q + (exists ? (span.first + position) * a->q_row + row.head * HD + 2 * (lane & 3) : 0);
#pragma unroll
		for (int k = 0; k < HD / 16; k++) {
			q[k][r] = exists ? *(const uint32_t *)(from + k * 16) : 0;
			q[k][2 + r] = exists ? *(const uint32_t *)(from + k * 16 + 8) : 0;
		}
	}
}

template <int HD, int ROWS>
static __device__ __forceinline__ void q_tile_load(
	uint32_t tile, const struct packed_attention *a, struct span span, int head, int positions)
{
	for (int at = (int)threadIdx.x; at < ROWS * HD / 8; at += ROWS * 2) {
		int row = at / (HD / 8), piece = at % (HD / 8), position = span.position + row % positions;
		bool exists = position < span.length;
		const bf16 *from = a->q +
			(exists ? (span.first + position) * a->q_row + (head + row / positions) * HD + piece * 8 : 0);
		copy_16(tile + tile_at<HD>(row, piece), from, exists);
	}
}

/* Scores of 16 rows against a subtile; Q's fragments come out of shared memory where they do not fit in registers. */
template <int HD>
static __device__ __forceinline__ void scores(
	float s[SUBTILE / 8][4], const uint32_t (*q)[4], uint32_t q_at, uint32_t k_at)
{
	if constexpr (!forward_shape<HD>::Q_SHARED) {
		scores_multiply<HD>(s, q, k_at);
	} else {
		/* one step of 16 at a time: the same order */
		float c[SUBTILE / 8][4] = {};
#pragma unroll
		for (int k = 0; k < HD / 16; k++) {
			uint32_t a[4], b[4];
			ldmatrix(a, square<HD>(q_at, 0, k));
#pragma unroll
			for (int i = 0; i < SUBTILE / 16; i++) {
				ldmatrix(b, square<HD>(k_at, i, k));
				mma_bf16(c[2 * i], a, b[0], b[1]);
				mma_bf16(c[2 * i + 1], a, b[2], b[3]);
			}
		}
#pragma unroll
		for (int i = 0; i < SUBTILE / 8; i++)
#pragma unroll
			for (int j = 0; j < 4; j++) s[i][j] = c[i][j];
	}
}

/* Divides by the sums and stores the rows that exist. */
template <int HD, int DV>
static __device__ __forceinline__ void forward_store(const struct packed_attention *a, struct span span,
	struct forward_row row, int column, const float o[DV / 8][4], const struct softmax *all, int lane)
{
#pragma unroll
	for (int r = 0; r < 2; r++) {
		int position = row.position + (lane >> 2) + 8 * r;
		if (position >= span.length) continue;
		int64_t t = span.first + position;
		float inverse = __frcp_rn(all->l[r]);
		bf16 *to = a->att + t * a->att_row + row.head * HD + column + 2 * (lane & 3);
#pragma unroll
		for (int i = 0; i < DV / 8; i++)
			*(uint32_t *)(to + 8 * i) = pack_bf16(__fmul_rn(o[i][2 * r], inverse), __fmul_rn(o[i][2 * r + 1], inverse));
		if (a->lse && column == 0 && (lane & 3) == 0)
			a->lse[t * a->NH + row.head] = __fmaf_rn(all->m[r], a->scale, logf(all->l[r]));
	}
}

/* Grid: (NH / pack, items, column halves). */
template <int HD, int ROWS>
static __global__ __launch_bounds__(ROWS * 2, 1) void attend_kernel(const struct packed_attention a)
{
	using shape = forward_shape<HD, ROWS>;
	constexpr int DV = shape::DV, THREADS = shape::THREADS;
	extern __shared__ __align__(1024) uint8_t shared[];
	int lane = (int)threadIdx.x & 31, warp = (int)threadIdx.x >> 5, positions = ROWS / a.pack;
	grid_begin();
	struct span span = span_find(
		a.start, a.S, (int)(gridDim.y - 1 - blockIdx.y), positions); /* the longest walks first */
	if (span.length == 0) return;

	/* Which rows this warp has, and how many subtiles the block's last row sees. */
	int head = (int)blockIdx.x * a.pack, kv = head / a.group, column = (int)blockIdx.z * DV;
	struct forward_row row = {head + warp * 16 / positions, span.position + warp * 16 % positions};
	int subtiles = (min(span.position + positions, span.length) - 1) / SUBTILE + 1;
	bool exists = row.position < span.length;
	const bf16 *k_rows = a.k + span.first * a.k_row + kv * HD, *v_rows = a.v + span.first * a.v_row + kv * HD + column;
	uint32_t base = shared_address(shared), q_tile = base + 2 * shape::STAGE_BYTES + shape::TOTAL_BYTES;
	float *total = (float *)(shared + 2 * shape::STAGE_BYTES) + threadIdx.x;

	uint32_t q_at = q_tile + warp * 16 * HD * 2 + lane_rows<HD>(lane), k_lane = lane_columns<HD>(lane),
			 v_lane = lane_rows<DV>(lane);

	/* The first copies, and Q. */
	uint32_t q[shape::Q_SHARED ? 1 : HD / 16][4];
	if constexpr (shape::Q_SHARED) q_tile_load<HD, ROWS>(q_tile, &a, span, head, positions);
	else q_load<HD>(q, &a, span, row, lane);
	tile_load<SUBTILE, HD, THREADS>(base, k_rows, a.k_row, span.length);
	tile_load<SUBTILE, DV, THREADS>(base + shape::K_BYTES, v_rows, a.v_row, span.length);
	copies_commit();

	float o[DV / 8][4];
	struct softmax all = {{-INFINITY, -INFINITY}, {0, 0}}, chunk = all;
#pragma unroll
	for (int i = 0; i < DV / 8; i++) o[i][0] = o[i][1] = o[i][2] = o[i][3] = 0;

	for (int j = 0; j < subtiles; j++) {
		/* Subtile j is here, and everybody has left the buffer of j - 1: j + 1 may go there. */
		copies_wait();
		__syncthreads();
		uint32_t stage = base + (uint32_t)(j & 1) * shape::STAGE_BYTES;
		int key = j * SUBTILE, next = key + SUBTILE;
		if (j + 1 < subtiles) {
			uint32_t other = base + (uint32_t)((j + 1) & 1) * shape::STAGE_BYTES;
			tile_load<SUBTILE, HD, THREADS>(other, k_rows + next * a.k_row, a.k_row, span.length - next);
			tile_load<SUBTILE, DV, THREADS>(
				other + shape::K_BYTES, v_rows + next * a.v_row, a.v_row, span.length - next);
			copies_commit();
		}
		/* A subtile beyond the warp's last row would change nothing. */
		if (exists && key <= row.position + 15) {
			float s[SUBTILE / 8][4];
			scores<HD>(s, q, q_at, stage + k_lane);
			scores_mask(s, lane, row.position, key);
			softmax_step<DV / 8>(s, o, &chunk, a.scale_log2);
			values_add<DV>(o, s, stage + shape::K_BYTES + v_lane);
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
	if (exists) forward_store<HD, DV>(&a, span, row, column, o, &all, lane);
}

static_assert(forward_shape<128, ROWS_MOST / 2>::SHARED_BYTES <= SHARED_LEAST, "every card has this");

template <int HD, int ROWS> static void forward_launch(struct ops_context *c, const struct packed_attention *a)
{
	using shape = forward_shape<HD, ROWS>;
	dim3 grid((unsigned)(a->NH / a->pack), span_count_max(a, ROWS / a->pack), (unsigned)(HD / shape::DV));
	cuda_launch(c, {grid, dim3(shape::THREADS), shape::SHARED_BYTES, 0}, attend_kernel<HD, ROWS>, *a);
}

template <int HD> static void forward_run(struct ops_context *c, const struct packed_attention *a)
{
	bool is_held = forward_shape<HD>::SHARED_BYTES <= c->card.shared_block;
	if (is_held) forward_launch<HD, ROWS_MOST>(c, a);
	else forward_launch<HD, ROWS_MOST / 2>(c, a);
}

static void attend(struct ops_context *c, struct elem *att, struct f32 *lse, const struct elem *q, const struct elem *k,
	const struct elem *qkv, const struct ops_heads *h, const struct ops_batch *b, int T, const struct ops_next *next)
{
	struct packed_attention a = packed_attention_of(c, h, b, q, k, qkv);
	a.att = elems(att), a.lse = floats(lse);
	if (h->HD == 32) forward_run<32>(c, &a);
	if (h->HD == 64) forward_run<64>(c, &a);
	if (h->HD == 128) forward_run<128>(c, &a);
	if (h->HD == 256) forward_run<256>(c, &a);
	surplus_clear(c, a.att, a.att_row, h->NH * h->HD, b, T);
	cuda_thin(c, a.att, h->NH * h->HD, T, next);
}

void cuda_attend_entries(struct ops *t) { t->attend = attend; }
