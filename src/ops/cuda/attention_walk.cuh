/* attention_walk: a block's rows of one sequence walk all keys that they see, for packed passes
 * (attention_forward.cu) and for prompts over pages (paged_tiles.cu): one walk, so that both have
 * one order by construction; how a block finds its rows is the backward pass's way as well. Whose
 * rows they are and where keys and values come from is the kernel's business.
 *
 * A block is ROWS rows: some heads of a group times some positions, warps of 16 rows of one head.
 * Keys and values of the next subtile are copied while this one is multiplied. Heads of 256
 * elements are made in two column halves that both compute the scores: the accumulators of all 256
 * and the total would not fit in the registers. Where memory is least, subtiles of theirs come one
 * by one. */
#ifndef HONE_CUDA_ATTENTION_WALK_CUH
#define HONE_CUDA_ATTENTION_WALK_CUH
#include "attention_step.cuh"
#include "cuda_device.cuh"

/* ---- which rows a block has ---- */

struct span {
	int first;    /* the sequence's first row in the batch */
	int length;   /* its rows; 0: this block has nothing to do */
	int row;      /* the item's first row, counted from the sequence's first */
	int sequence; /* whose it is */
};

/* Item `index` of all sequences cut into runs of `positions` rows. Every warp counts by itself, 32
 * sequences at a time, so that the host has no table to build and nothing to send. */
static __device__ __forceinline__ struct span span_find(const int32_t *start, int S, int index, int positions)
{
	int lane = (int)(threadIdx.x & 31);
	for (int base = 0; base < S; base += 32) {
		/* A lane a sequence: how many items it has, and how many those before it. */
		int s = base + lane, first = s < S ? start[s] : 0, length = s < S ? start[s + 1] - first : 0;
		int items = (length + positions - 1) / positions, before = items;
		for (int d = 1; d < 32; d *= 2) {
			int left = __shfl_up_sync(ALL_LANES, before, d);
			if (lane >= d) before += left;
		}
		int all = __shfl_sync(ALL_LANES, before, 31);
		before -= items;
		/* The lane in whose sequence the item lies tells the others. */
		unsigned mine = __ballot_sync(ALL_LANES, index >= before && index < before + items);
		if (mine) {
			int owner = __ffs((int)mine) - 1;
			struct span found;
			found.first = __shfl_sync(ALL_LANES, first, owner);
			found.length = __shfl_sync(ALL_LANES, length, owner);
			found.row = (index - __shfl_sync(ALL_LANES, before, owner)) * positions;
			found.sequence = base + owner;
			return found;
		}
		index -= all;
	}
	struct span none = {0, 0, 0, 0};
	return none;
}

/* ---- the walk ---- */

#define WALK_ROWS 128   /* of a block, fewer where a card's shared memory does not hold the totals of so many */

/* STAGES: subtiles in shared memory. */
template <int HD, int ROWS = WALK_ROWS, int STAGES = 2> struct walk_shape {
	static constexpr int THREADS = ROWS * 2;
	static constexpr int DV = half_of(HD);     /* columns of the result that a block makes */
	static constexpr bool Q_SHARED = HD > 128; /* Q's fragments lie in shared memory, not in registers */
	static constexpr int K_BYTES = SUBTILE * HD * 2;
	static constexpr int STAGE_BYTES = K_BYTES + SUBTILE * DV * 2;
	static constexpr int TOTAL_BYTES = ROWS * DV * 4;
	static constexpr int SHARED_BYTES = STAGES * STAGE_BYTES + TOTAL_BYTES + (Q_SHARED ? ROWS * HD * 2 : 0);
};
static_assert(walk_shape<128, WALK_ROWS / 2>::SHARED_BYTES <= SHARED_LEAST, "every card has this");
static_assert(walk_shape<256, WALK_ROWS / 4, 1>::SHARED_BYTES <= SHARED_LEAST, "and this");
static_assert(WALK_ROWS / 4 / 2 >= CUDA_TILE_ROWS, "as the limits say, of two heads that share a block;");
static_assert(WALK_ROWS / 2 / 2 >= 2 * CUDA_TILE_ROWS, "of small ones, as memory plans say");

struct walk {
	const bf16 *q;    /* of the sequence's first row, column 0 */
	int64_t q_row;    /* elements from a row of it to the next */
	int length;       /* rows of the sequence in this batch */
	int first;        /* the block's first of them */
	int head;         /* the block's first head */
	int own_row;      /* this warp's first row, counted as first is */
	int own_head;     /* this warp's head */
	int position;     /* of own_row among the sequence's keys */
	int subtiles;     /* that the block's last row sees */
	int width;        /* columns of a head */
	float scale_log2; /* log2(e) / sqrt(width) */
};

/* All rows of the block's Q into a tile; zeros behind the sequence. */
template <int HD, int ROWS>
static __device__ __forceinline__ void q_tile_load(uint32_t tile, const struct walk &w, int positions)
{
	for (int at = (int)threadIdx.x; at < ROWS * HD / 8; at += ROWS * 2) {
		int row = at / (HD / 8), piece = at % (HD / 8), index = w.first + row % positions;
		bool exists = index < w.length && piece * 8 < w.width;
		const bf16 *from = w.q + (exists ? index * w.q_row + (w.head + row / positions) * w.width + piece * 8 : 0);
		copy_16(tile + tile_at<HD>(row, piece), from, exists);
	}
}

/* The warp's sums of weighted values in o, and *all of its rows. load(j, stage) asks for the keys
 * of subtile j, and behind them its values. */
template <int HD, int ROWS, int STAGES, typename LOAD>
static __device__ __forceinline__ void keys_walk(float o[half_of(HD) / 8][4], struct softmax *all,
	unsigned char *shared, const struct walk &w, int positions, int lane, LOAD load)
{
	using shape = walk_shape<HD, ROWS, STAGES>;
	constexpr int DV = shape::DV, THREADS = shape::THREADS;
	int warp = (int)threadIdx.x >> 5;
	bool exists = w.own_row < w.length;
	uint32_t base = shared_address(shared), q_tile = base + STAGES * shape::STAGE_BYTES + shape::TOTAL_BYTES,
			 q_at = q_tile + (uint32_t)(warp * 16 * HD * 2) + lane_rows<HD>(lane), k_lane = lane_columns<HD>(lane),
			 v_lane = lane_rows<DV>(lane);
	float *total = (float *)(shared + STAGES * shape::STAGE_BYTES) + threadIdx.x;
	auto stage_of = [&](int j) { return base + (uint32_t)(j % STAGES) * shape::STAGE_BYTES; };

	/* Q, and the first copies. */
	uint32_t q[shape::Q_SHARED ? 1 : HD / 16][4];
	if constexpr (shape::Q_SHARED) q_tile_load<HD, ROWS>(q_tile, w, positions);
	else
		fragments_load<HD>(
			q, w.q + w.own_row * w.q_row + w.own_head * w.width, w.q_row, w.length - w.own_row, w.width, lane);
	load(0, stage_of(0));

	struct softmax chunk = {{-INFINITY, -INFINITY}, {0, 0}};
	*all = chunk;
#pragma unroll
	for (int i = 0; i < DV / 8; i++) o[i][0] = o[i][1] = o[i][2] = o[i][3] = 0;
	for (int j = 0; j < w.subtiles; j++) {
		/* Subtile j is here, and everybody has left the buffer of j - 1: j + 1 may go there. */
		copies_wait();
		__syncthreads();
		uint32_t stage = stage_of(j);
		int key = j * SUBTILE, next = key + SUBTILE;
		if (STAGES > 1 && j + 1 < w.subtiles) load(j + 1, stage_of(j + 1));
		/* A subtile beyond the warp's last row would change nothing. */
		if (exists && key <= w.position + 15) {
			float s[SUBTILE / 8][4];
			if constexpr (shape::Q_SHARED) scores_of_tile<HD>(s, q_at, stage + k_lane);
			else scores_multiply<HD>(s, q, stage + k_lane);
			scores_mask(s, lane, w.position, key);
			softmax_step<DV / 8>(s, o, &chunk, w.scale_log2);
			values_add<DV>(o, s, stage + shape::K_BYTES + v_lane);
		}
		/* The only buffer is free when everybody has left it. */
		if (STAGES == 1 && j + 1 < w.subtiles) {
			__syncthreads();
			load(j + 1, stage_of(j + 1));
		}
		/* The chunk ends: fold it, and begin anew unless it was the last. */
		if (next % CHUNK != 0 && j + 1 < w.subtiles) continue;
		chunk_fold<DV / 8, THREADS>(o, &chunk, total, all, key < CHUNK, w.scale_log2);
		if (j + 1 == w.subtiles) break;
		chunk.m[0] = chunk.m[1] = -INFINITY;
		chunk.l[0] = chunk.l[1] = 0;
#pragma unroll
		for (int i = 0; i < DV / 8; i++)
#pragma unroll
			for (int c = 0; c < 4; c++) total[(i * 4 + c) * THREADS] = o[i][c], o[i][c] = 0;
	}
}

/* Divides by the sums and stores the rows that exist, the block's columns from `column` on. att: of
 * the sequence's first row, column 0. */
template <int HD>
static __device__ __forceinline__ void walk_store(bf16 *att, int64_t att_row, const struct walk &w,
	const float o[half_of(HD) / 8][4], const struct softmax &all, int column, int lane)
{
#pragma unroll
	for (int r = 0; r < 2; r++) {
		int row = w.own_row + (lane >> 2) + 8 * r;
		if (row >= w.length) continue;
		float inverse = __frcp_rn(all.l[r]);
		bf16 *to = att + row * att_row + w.own_head * w.width + column + 2 * (lane & 3);
#pragma unroll
		for (int i = 0; i < half_of(HD) / 8; i++) {
			if (column + 8 * i >= w.width) break;
			*(uint32_t *)(to + 8 * i) = pack_bf16(__fmul_rn(o[i][2 * r], inverse), __fmul_rn(o[i][2 * r + 1], inverse));
		}
	}
}
#endif
