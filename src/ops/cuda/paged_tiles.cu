/* paged_tiles: attention over pages where sequences have more than one row (prompts, in chunks), in
 * the order of attention_step.cuh and so with decode's bits (paged.cu). A block owns TILE_ROWS rows
 * of a sequence, some heads of a group times some positions, and walks all keys they see.
 */
#include "paged.cuh"

#define TILE_ROWS 128   /* half as many where a card's shared memory does not hold the totals of so many */

/* Heads of 256 columns as in attention_forward.cu: in two halves, Q in shared memory, and one
 * subtile at a time where that is least. */
template <int HD, int ROWS = TILE_ROWS, int STAGES = 2> struct tile_shape {
	static constexpr int THREADS = ROWS * 2;
	static constexpr int DV = half_of(HD); /* columns of the result that a block makes */
	static constexpr bool Q_SHARED = HD > 128;
	static constexpr int K_BYTES = SUBTILE * HD * 2;
	static constexpr int STAGE_BYTES = K_BYTES + SUBTILE * DV * 2;
	static constexpr int TOTAL_BYTES = ROWS * DV * 4;
	static constexpr int SHARED_BYTES = STAGES * STAGE_BYTES + TOTAL_BYTES + (Q_SHARED ? ROWS * HD * 2 : 0);
};

struct span {
	int first;    /* the sequence's first row in the batch */
	int length;   /* its rows; 0: nothing to do */
	int index;    /* the tile's first row, counted from the sequence's first */
	int sequence; /* whose it is */
};

/* Tile `index` of all sequences, each cut into runs of `positions` rows. Every
 * warp counts for itself. */
static __device__ __forceinline__ struct span span_find(const int32_t *start, int S, int index, int positions)
{
	int lane = (int)(threadIdx.x & 31);
	for (int base = 0; base < S; base += 32) {
		int s = base + lane, first = s < S ? start[s] : 0, length = s < S ? start[s + 1] - first : 0;
		int tiles = (length + positions - 1) / positions, before = tiles;
		for (int d = 1; d < 32; d *= 2) {
			int left = __shfl_up_sync(ALL_LANES, before, d);
			if (lane >= d) before += left;
		}
		int all = __shfl_sync(ALL_LANES, before, 31);
		before -= tiles;
		unsigned mine = __ballot_sync(ALL_LANES, index >= before && index < before + tiles);
		if (mine) {
			int owner = __ffs((int)mine) - 1;
			return {__shfl_sync(ALL_LANES, first, owner), __shfl_sync(ALL_LANES, length, owner),
				(index - __shfl_sync(ALL_LANES, before, owner)) * positions, base + owner};
		}
		index -= all;
	}
	return {0, 0, 0, 0};
}

/* Q's fragments of this warp's rows, from row `index` of the sequence on;
 * those behind it are zeros. */
template <int HD>
static __device__ __forceinline__ void q_load(uint32_t q[HD / 16][4], const struct paged_args &a,
	const struct span &span, int index, int head, int width, int lane)
{
#pragma unroll
	for (int r = 0; r < 2; r++) {
		int at = index + (lane >> 2) + 8 * r;
		bool exists = at < span.length;
		const bf16 *from = a.q + (int64_t)(span.first + min(at, span.length - 1)) * a.q_ld + head * width +
			2 * (lane & 3);
#pragma unroll
		for (int k = 0; k < HD / 16; k++) {
			q[k][r] = exists && k * 16 < width ? *(const uint32_t *)(from + k * 16) : 0;
			q[k][2 + r] = exists && k * 16 + 8 < width ? *(const uint32_t *)(from + k * 16 + 8) : 0;
		}
	}
}

/* The same of all the block's rows, into a tile. */
template <int HD, int ROWS>
static __device__ __forceinline__ void q_tile_load(
	uint32_t tile, const struct paged_args &a, const struct span &span, int head, int positions, int width)
{
	for (int at = (int)threadIdx.x; at < ROWS * HD / 8; at += ROWS * 2) {
		int row = at / (HD / 8), piece = at % (HD / 8), index = span.index + row % positions;
		bool exists = index < span.length && piece * 8 < width;
		const bf16 *from = a.q +
			(exists ? (int64_t)(span.first + index) * a.q_ld + (head + row / positions) * width + piece * 8 : 0);
		copy_16(tile + tile_at<HD>(row, piece), from, exists);
	}
}

/* Grid: (NH / pack, tiles, column halves). STAGES: subtiles in shared memory. */
template <int HD, bool WHOLE, int ROWS, int STAGES>
static __global__ void __launch_bounds__(ROWS * 2, 1) tile_kernel(const struct paged_args a)
{
	using shape = tile_shape<HD, ROWS, STAGES>;
	constexpr int THREADS = shape::THREADS, DV = shape::DV;
	const int width = width_of<HD, WHOLE>(a.HD);
	extern __shared__ __align__(1024) unsigned char shared[];
	int lane = (int)threadIdx.x & 31, warp = (int)threadIdx.x >> 5, positions = ROWS / a.pack;
	grid_begin();
	struct span span = span_find(a.b.start, a.S, (int)blockIdx.y, positions);
	if (span.length == 0) return;

	/* which rows this warp has: 16 of one head; and how many subtiles the block's last row sees */
	int head = (int)blockIdx.x * a.pack + warp * 16 / positions, kv = (int)blockIdx.x * a.pack / a.group;
	int index = span.index + warp * 16 % positions, before = a.b.pos[span.first], position = before + index;
	bool exists = index < span.length;
	int end = before + min(span.index + positions, span.length), subtiles = (end - 1) / SUBTILE + 1;
	const int32_t *table = a.b.table + (int64_t)span.sequence * a.b.pages;
	int column = HD > DV ? (int)blockIdx.z * DV : 0;
	uint32_t base = shared_address(shared), q_tile = base + STAGES * shape::STAGE_BYTES + shape::TOTAL_BYTES,
			 q_at = q_tile + (uint32_t)(warp * 16 * HD * 2) + lane_rows<HD>(lane), k_lane = lane_columns<HD>(lane),
			 v_lane = lane_rows<DV>(lane);
	float *total = (float *)(shared + STAGES * shape::STAGE_BYTES) + threadIdx.x;

	/* Q, and the first copies */
	uint32_t q[shape::Q_SHARED ? 1 : HD / 16][4];
	if constexpr (shape::Q_SHARED) q_tile_load<HD, ROWS>(q_tile, a, span, (int)blockIdx.x * a.pack, positions, width);
	else q_load<HD>(q, a, span, index, head, width, lane);
	auto subtile_load = [&](int j) {
		uint32_t stage = base + (uint32_t)(j % STAGES) * shape::STAGE_BYTES;
		pages_load<SUBTILE, HD, WHOLE, HD, THREADS>(stage, a.kpages, table, a, kv, j * SUBTILE, end);
		pages_load<SUBTILE, HD, WHOLE, DV, THREADS>(
			stage + shape::K_BYTES, a.vpages, table, a, kv, j * SUBTILE, end, column);
		copies_commit();
	};
	subtile_load(0);

	float o[DV / 8][4] = {};
	struct softmax all = {{-INFINITY, -INFINITY}, {0, 0}}, chunk = all;
	for (int j = 0; j < subtiles; j++) {
		/* subtile j is here, and everybody has left the buffer of j - 1: j + 1 may go there */
		copies_wait<0>();
		__syncthreads();
		uint32_t stage = base + (uint32_t)(j % STAGES) * shape::STAGE_BYTES;
		int key = j * SUBTILE, next = key + SUBTILE;
		if (STAGES > 1 && j + 1 < subtiles) subtile_load(j + 1);
		/* a subtile beyond the warp's last row would change nothing */
		if (exists && key <= position + 15) {
			float s[SUBTILE / 8][4];
			if constexpr (shape::Q_SHARED) scores_of_tile<HD>(s, q_at, stage + k_lane);
			else scores_multiply<HD>(s, q, stage + k_lane);
			scores_mask(s, lane, position, key);
			softmax_step<DV / 8>(s, o, &chunk, a.scale_log2);
			values_add<DV>(o, s, stage + shape::K_BYTES + v_lane);
		}
		/* the only buffer is free when everybody has left it */
		if (STAGES == 1 && j + 1 < subtiles) {
			__syncthreads();
			subtile_load(j + 1);
		}
		/* the chunk ends: fold it, and begin anew unless it was the last */
		if (next % CHUNK != 0 && j + 1 < subtiles) continue;
		chunk_fold<DV / 8, THREADS>(o, &chunk, total, &all, key < CHUNK, a.scale_log2);
		if (j + 1 == subtiles) break;
		chunk.m[0] = chunk.m[1] = -INFINITY;
		chunk.l[0] = chunk.l[1] = 0;
#pragma unroll
		for (int i = 0; i < DV / 8; i++)
#pragma unroll
			for (int e = 0; e < 4; e++) total[(i * 4 + e) * THREADS] = o[i][e], o[i][e] = 0;
	}
#pragma unroll
	for (int r = 0; r < 2; r++) {
		int at = index + (lane >> 2) + 8 * r;
		if (at >= span.length) continue;
		float inverse = __frcp_rn(all.l[r]);
		bf16 *to = a.att + (int64_t)(span.first + at) * a.att_ld + head * width + column + 2 * (lane & 3);
#pragma unroll
		for (int i = 0; i < DV / 8; i++) {
			if (column + 8 * i >= width) break;
			*(uint32_t *)(to + 8 * i) = pack_bf16(__fmul_rn(o[i][2 * r], inverse), __fmul_rn(o[i][2 * r + 1], inverse));
		}
	}
}

static_assert(tile_shape<128, TILE_ROWS / 2>::SHARED_BYTES <= SHARED_LEAST, "every card has this");
static_assert(tile_shape<256, TILE_ROWS / 4, 1>::SHARED_BYTES <= SHARED_LEAST, "and this");

template <int HD, bool WHOLE, int ROWS, int STAGES = 2>
static bool tile_launch(struct ops_context *c, struct paged_args a)
{
	using shape = tile_shape<HD, ROWS, STAGES>;
	if (shape::SHARED_BYTES > c->card.shared_block) return false;
	a.pack = MIN(a.pack, ROWS / 16); /* a warp's rows are of one head */
	int positions = ROWS / a.pack, tiles = a.T / positions + a.S;
	dim3 grid((unsigned)(a.NH / a.pack), (unsigned)tiles, (unsigned)(HD / shape::DV));
	cuda_launch(c, {grid, dim3(shape::THREADS), shape::SHARED_BYTES, 0}, tile_kernel<HD, WHOLE, ROWS, STAGES>, a);
	return true;
}

/* Heads of a group that share a block: as many of 1, 2, 4, 8 as divide it. */
static int pack_of(int group)
{
	int pack = 1;
	while (pack < 8 && group % (2 * pack) == 0) pack *= 2;
	return pack;
}

/* As many rows a block as the card has memory for. */
template <int HD, bool WHOLE> static void tile_run(struct ops_context *c, const struct paged_args *a)
{
	if (tile_launch<HD, WHOLE, TILE_ROWS>(c, *a)) return;
	if (tile_launch<HD, WHOLE, TILE_ROWS / 2>(c, *a)) return;
	if constexpr (HD > 128) tile_launch<HD, WHOLE, TILE_ROWS / 4, 1>(c, *a);
}

void cuda_paged_tiles(struct ops_context *c, struct paged_args a)
{
	a.pack = pack_of(a.group);
	HEADS_RUN(a.HD, tile_run, c, &a);
}
