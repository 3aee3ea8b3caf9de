/* paged_tiles: attention over pages where sequences have more than one row (prompts, in chunks), in
 * the order of attention_step.cuh and so with decode's bits (paged.cu). A block owns WALK_ROWS rows
 * of a sequence, some heads of a group times some positions, and walks all keys they see:
 * attention_walk.cuh. */
#include "attention_walk.cuh"
#include "paged.cuh"

/* Grid: (NH / pack, tiles, column halves). */
template <int HD, bool WHOLE, int ROWS, int STAGES>
static __global__ void __launch_bounds__(ROWS * 2, 1) tile_kernel(const struct paged_args a)
{
	using shape = walk_shape<HD, ROWS, STAGES>;
	constexpr int THREADS = shape::THREADS, DV = shape::DV;
	const int width = width_of<HD, WHOLE>(a.HD);
	extern __shared__ __align__(1024) unsigned char shared[];
	int lane = (int)threadIdx.x & 31, warp = (int)threadIdx.x >> 5, positions = ROWS / a.pack;
	grid_begin();
	struct span span = span_find(a.b.start, a.S, (int)blockIdx.y, positions);
	if (span.length == 0) return;

	/* Which rows this warp has: 16 of one head; and how many subtiles the block's last row sees. */
	int head = (int)blockIdx.x * a.pack, kv = head / a.group, own = span.row + warp * 16 % positions;
	int before = a.b.pos[span.first], end = before + min(span.row + positions, span.length);
	int column = HD > DV ? (int)blockIdx.z * DV : 0;
	struct walk w = {a.q + span.first * a.q_ld, a.q_ld, span.length, span.row, head, own, head + warp * 16 / positions,
		before + own, (end - 1) / SUBTILE + 1, width, a.scale_log2};
	const int32_t *table = a.b.table + (int64_t)span.sequence * a.b.pages;
	float o[DV / 8][4];
	struct softmax all;
	keys_walk<HD, ROWS, STAGES>(o, &all, shared, w, positions, lane, [&](int j, uint32_t stage) {
		pages_load<SUBTILE, HD, WHOLE, HD, THREADS>(stage, a.kpages, table, a, kv, j * SUBTILE, end);
		pages_load<SUBTILE, HD, WHOLE, DV, THREADS>(
			stage + shape::K_BYTES, a.vpages, table, a, kv, j * SUBTILE, end, column);
		copies_commit();
	});
	walk_store<HD>(a.att + span.first * a.att_ld, a.att_ld, w, o, all, column, lane);
}

template <int HD, bool WHOLE, int ROWS, int STAGES = 2>
static bool tile_launch(struct ops_context *c, struct paged_args a)
{
	using shape = walk_shape<HD, ROWS, STAGES>;
	if (shape::SHARED_BYTES > c->card.shared_block) return false;
	a.pack = MIN(a.pack, ROWS / 16); /* a warp's rows are of one head */
	static_assert(CUDA_TILE_ROWS <= 16, "as the limits say");
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
	if (tile_launch<HD, WHOLE, WALK_ROWS>(c, *a)) return;
	if (tile_launch<HD, WHOLE, WALK_ROWS / 2>(c, *a)) return;
	if constexpr (HD > 128) tile_launch<HD, WHOLE, WALK_ROWS / 4, 1>(c, *a);
}

void cuda_paged_tiles(struct ops_context *c, struct paged_args a)
{
	a.pack = pack_of(a.group);
	HEADS_RUN(a.HD, tile_run, c, &a);
}
