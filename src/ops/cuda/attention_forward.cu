/* attention_forward: causal attention inside the sequences of a packed pass (Dao et al. 2022, arXiv
 * 2205.14135; Dao 2023, arXiv 2307.08691), in the one order that the paged form shares
 * (docs/design.md): chunks of 256 keys from position 0, each an online softmax of its own over
 * four subtiles of 64 keys, folded into the total in order (attention_walk.cuh). A row's bits do
 * not depend on what else is packed beside it. */
#include "attention.cuh"

/* Grid: (NH / pack, items, column halves). */
template <int HD, bool WHOLE, int ROWS, int STAGES>
static __global__ __launch_bounds__(ROWS * 2, 1) void attend_kernel(const struct packed_attention a)
{
	using shape = walk_shape<HD, ROWS, STAGES>;
	constexpr int DV = shape::DV, THREADS = shape::THREADS;
	const int width = width_of<HD, WHOLE>(a.HD);
	extern __shared__ __align__(1024) uint8_t shared[];
	int lane = (int)threadIdx.x & 31, warp = (int)threadIdx.x >> 5, positions = ROWS / a.pack;
	grid_begin();
	/* The longest walks first. */
	struct span span = span_find(a.start, a.S, (int)(gridDim.y - 1 - blockIdx.y), positions);
	if (span.length == 0) return;

	/* Which rows this warp has, and how many subtiles the block's last row sees. */
	int head = (int)blockIdx.x * a.pack, kv = head / a.group, column = HD > DV ? (int)blockIdx.z * DV : 0,
		own = span.row + warp * 16 % positions, end = min(span.row + positions, span.length);
	struct walk w = {a.q + span.first * a.q_row, a.q_row, span.length, span.row, head, own,
		head + warp * 16 / positions, own, (end - 1) / SUBTILE + 1, width, a.scale_log2};
	const bf16 *k_rows = a.k + span.first * a.k_row + kv * width,
			   *v_rows = a.v + span.first * a.v_row + kv * width + column;
	float o[DV / 8][4];
	struct softmax all;
	keys_walk<HD, ROWS, STAGES>(o, &all, shared, w, positions, lane, [&](int j, uint32_t stage) {
		int key = j * SUBTILE;
		tile_load<SUBTILE, HD, THREADS>(stage, k_rows + key * a.k_row, a.k_row, span.length - key, width);
		tile_load<SUBTILE, DV, THREADS>(
			stage + shape::K_BYTES, v_rows + key * a.v_row, a.v_row, span.length - key, width - column);
		copies_commit();
	});
	walk_store<HD>(a.att + span.first * a.att_row, a.att_row, w, o, all, column, lane);
	if (!a.lse || column || lane & 3) return;
#pragma unroll
	for (int r = 0; r < 2; r++) {
		int row = own + (lane >> 2) + 8 * r;
		if (row < span.length)
			a.lse[(int64_t)(span.first + row) * a.NH + w.own_head] = __fmaf_rn(all.m[r], a.scale, logf(all.l[r]));
	}
}

template <int HD, bool WHOLE, int ROWS, int STAGES = 2>
static bool forward_launch(struct ops_context *c, const struct packed_attention *a)
{
	using shape = walk_shape<HD, ROWS, STAGES>;
	if (shape::SHARED_BYTES > c->card.shared_block) return false;
	dim3 grid((unsigned)(a->NH / a->pack), span_count_max(a, ROWS / a->pack), (unsigned)(HD / shape::DV));
	cuda_launch(c, {grid, dim3(shape::THREADS), shape::SHARED_BYTES, 0}, attend_kernel<HD, WHOLE, ROWS, STAGES>, *a);
	return true;
}

/* As many rows a block as the card has memory for. */
template <int HD, bool WHOLE> static void forward_run(struct ops_context *c, const struct packed_attention *a)
{
	if (forward_launch<HD, WHOLE, WALK_ROWS>(c, a)) return;
	if (forward_launch<HD, WHOLE, WALK_ROWS / 2>(c, a)) return;
	if constexpr (HD > 128) forward_launch<HD, WHOLE, WALK_ROWS / 4, 1>(c, a);
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
