/* rows: who writes the input of a projection: norm, gate, attention's rows; and behind each row the
 * thin product h = scaling * drop(x) A^T of the projection's adapter. One kernel over four sources.
 *
 * A cluster of blocks owns up to ROWS rows, fewer where a step has too few to keep the machine
 * busy; each block owns a slice of their columns (the number of blocks follows from the width
 * alone, so that no bit depends on T). It makes its part of the rows in shared memory, stores it,
 * multiplies it with its part of A on tensor cores (every warp a share of the columns), and the
 * cluster adds the parts up in order: warps first, then blocks. No bit of a row depends on how many
 * rows its cluster has. */
#include "cuda_device.cuh"
#include "few.cuh"
#include "rows_source.cuh"
#include "team.cuh"

#define ROWS 16
#define THREADS 256
#define WARPS (THREADS / WARP)
#define EARLY_ROWS 64   /* up to which A is asked for before the rows */
#define THIN_COLUMNS 64 /* of the tail at a time */
#define PAD 32          /* elements between rows in shared memory: the lanes of a load fall into different banks */
#define THIN_TILES (THIN_COLUMNS / 8)

/* ---- the thin product's side ---- */

static struct thin thin_of(const struct ops_context *c, const struct ops_next *next, int in)
{
	struct thin t = {};
	if (!next || !c->tail) return t;
	/* The tail is written also where there is no adapter, since the product that follows reads it:
	 * zeros then. */
	t.columns = c->tail;
	const struct ops_lora *l = next->lora;
	CHECKF(
		!next->linear || next->linear->in == in, "a projection of %d columns reads rows of %d", next->linear->in, in);
	if (!l) return t;
	/* Parts that read the same input have their ranks side by side in the tail. */
	int parts = next->linear ? next->linear->parts : 1;
	t.r = l->r;
	t.used = l->r * parts;
	CHECKF(t.used <= c->tail, "an adapter of rank %d needs %d spare columns, the backend was opened with %d", l->r,
		t.used, c->tail);
	for (int i = 0; i < parts; i++) {
		t.part[i].a = elems(l->a[i].w);
		t.part[i].ld = l->a[i].ld;
		CHECK(!l->a[i].w || (l->a[i].cols == in && l->a[i].ld % 8 == 0));
	}
	t.scaling = l->scaling;
	/* What dropout keeps weighs 1 / (1 - p), a factor that goes into the scaling. */
	if (l->seed && l->dropout > 0) {
		t.p = l->dropout;
		t.seed = l->seed;
		t.stream = l->stream;
		t.scaling /= 1.0f - l->dropout;
	}
	return t;
}

/* ---- the kernel ---- */

#if HOPPER_CODE

/* Rows [first, last) of the tile become zeros. */
static __device__ __forceinline__ void rows_clear(
	const struct rows_args &a, bf16 *tile, int stride, int first, int last)
{
	int pieces = a.slice / 8;
	for (int at = first * pieces + (int)threadIdx.x; at < last * pieces; at += THREADS)
		store8(tile + at / pieces * stride + at % pieces * 8, zero8());
}

/* The block's slice of its rows into shared memory, rows of `stride` elements, and out where it is
 * what the stage makes; zeros for rows that do not exist. meanwhile is called by all threads when
 * the first loads are on their way. */
template <enum source SOURCE, typename F>
static __device__ __forceinline__ void rows_make(
	const struct rows_args &a, bf16 *tile, int stride, int row0, int column0, int columns, F meanwhile)
{
	constexpr int DEPTH = SOURCE == SOURCE_MERGE || SOURCE == SOURCE_SUMS ? 1 : 4;
	int pieces = a.slice / 8, rows = min(a.rows, a.T - row0);
	/* So many pieces are read before the first one is stored: a load does not pass a store. */
	for (int base = 0; base < rows * pieces; base += DEPTH * THREADS) {
		int at0 = base + (int)threadIdx.x;
		struct eight p[DEPTH];
#pragma unroll
		for (int d = 0; d < DEPTH; d++) {
			int at = at0 + d * THREADS, r = at / pieces, column = at % pieces * 8;
			if (r < rows && column < columns) p[d] = eight_load<SOURCE>(a, row0 + r, column0 + column);
		}
		if (!base) meanwhile();
#pragma unroll
		for (int d = 0; d < DEPTH; d++) {
			int at = at0 + d * THREADS, r = at / pieces, column = at % pieces * 8;
			if (r >= rows) break;
			bf16x8 v = column < columns ? eight_value<SOURCE>(p[d]) : zero8();
			store8(tile + r * stride + column, v);
			if (column >= columns) continue;
			int64_t row = row0 + r;
			if (SOURCE == SOURCE_SUMS) store8(a.sums.y + row * a.width + column0 + column, v);
			if (SOURCE == SOURCE_GATE || SOURCE == SOURCE_MERGE) store8(a.y + row * a.y_ld + column0 + column, v);
		}
	}
	rows_clear(a, tile, stride, rows, a.rows);
}

/* Sums of squares of the tile's rows: sixteen threads a row, always the same ones. */
static __device__ __forceinline__ float rows_squares(const struct rows_args &a, const bf16 *tile, int stride)
{
	int r = (int)threadIdx.x / (THREADS / ROWS), lane = (int)threadIdx.x % (THREADS / ROWS);
	float squares = 0;
#pragma unroll 4
	for (int column = lane * 8; column < a.slice && r < a.rows; column += THREADS / ROWS * 8) {
		float x[8];
		unpack8(x, load8(tile + r * stride + column));
#pragma unroll
		for (int i = 0; i < 8; i++) squares = fmaf(x[i], x[i], squares);
	}
	return lanes_sum<THREADS / ROWS>(squares);
}

/* What stands in the tile becomes x * rstd * w, and goes out. */
static __device__ __forceinline__ void rows_scale(const struct rows_args &a, bf16 *tile, int stride, int row0,
	int column0, int columns, const bf16 *weights, const float *rstd)
{
	constexpr int DEPTH = 4;
	/* The block's threads share the pieces of eight columns, each thread several rows apart. */
	int pieces = columns / 8, rows = min(a.rows, a.T - row0);
	for (int at0 = (int)threadIdx.x; at0 < rows * pieces; at0 += DEPTH * THREADS) {
		bf16x8 from[DEPTH], scale[DEPTH];
		float factor[DEPTH];
#pragma unroll
		/* All loads before the first use; the thread's own first piece stands in where there is
		 * none: another's may be written by now. */
		for (int d = 0; d < DEPTH; d++) {
			int at = at0 + d * THREADS < rows * pieces ? at0 + d * THREADS : at0, r = at / pieces,
				column = at % pieces * 8;
			from[d] = load8(tile + r * stride + column), scale[d] = load8(weights + column), factor[d] = rstd[r];
		}
#pragma unroll
		for (int d = 0; d < DEPTH; d++) {
			int at = at0 + d * THREADS, r = at / pieces, column = at % pieces * 8;
			if (r >= rows) break;
			float x[8], w[8];
			unpack8(x, from[d]);
			unpack8(w, scale[d]);
#pragma unroll
			for (int i = 0; i < 8; i++) x[i] = x[i] * factor[d] * w[i];
			/* The tile keeps what was stored, rounded as it was, for the thin product. */
			bf16x8 v = pack8(x);
			store8(tile + r * stride + column, v);
			store8(a.y + (int64_t)(row0 + r) * a.y_ld + column0 + column, v);
		}
	}
}

/* ---- the thin product ---- */

/* Rows n0.. of A (columns of the tail) into shared memory, the block's slice of each; zeros
 * where there is no adapter.
 */
static __device__ __forceinline__ void thin_fetch(
	bf16 *to, const struct rows_args &a, int stride, int n0, int column0, int columns)
{
	const struct thin &t = a.thin;
	for (int i = (int)threadIdx.x / WARP; i < t.group; i += WARPS) { /* a warp a row */
		int n = n0 + i, part = n < t.used ? n / t.r : -1;
		const bf16 *row = part == 0 ? t.part[0].a : part == 1 ? t.part[1].a : part == 2 ? t.part[2].a : NULL;
		int64_t ld = part == 0 ? t.part[0].ld : part == 1 ? t.part[1].ld : t.part[2].ld;
		const bf16 *from = row ? row + (n - part * t.r) * ld + column0 : a.y;
		uint32_t at = shared_address(to + i * stride);
#pragma unroll 4
		for (int column = (int)threadIdx.x % WARP * 8; column < a.slice; column += WARP * 8) {
			bool exists = row && column < columns;
			copy_16(at + (uint32_t)column * 2, exists ? from + column : a.y, exists);
		}
	}
	copies_commit();
}

/* A warp's share: acc (ROWS, group) += tile A^T over the columns [k0, k1) of the slice. Lane 4 g +
 * q reads columns 8 q.. of every 32: the two steps of 16 then multiply columns in another order
 * than they stand, the same one for rows and for A. With dropout only the columns of one part are
 * multiplied, by what the part's mask leaves of the rows. */
template <bool DROPOUT>
static __device__ __forceinline__ void thin_multiply(float acc[THIN_TILES][4], const struct rows_args &a,
	const bf16 *tile, const bf16 *thin, int stride, uint64_t element, int part, int n0, int k0, int k1)
{
	constexpr int EACH = DROPOUT ? 1 : 2; /* tiles of A read side by side: there are registers for so many */
	int lane = (int)threadIdx.x % WARP, g = lane / 4, q = lane % 4, tiles = a.thin.group / 8;
	for (int k = k0; k < k1; k += 32) {
		int column = k + q * 8;
		union piece {
			bf16x8 v;
			uint32_t u[4];
		} low, high;
		low.v = load8(tile + g * stride + column);
		/* A tile of eight rows leaves the upper half of the operand empty. */
		high.v = a.held > 8 ? load8(tile + (g + 8) * stride + column) : zero8();
		/* Each part has a mask of its own, drawn by the number that the element has in the whole
		 * matrix. */
		if (DROPOUT) {
			uint64_t stream = a.thin.stream + (uint64_t)part, at = element + (uint64_t)column;
			low.v = thin_drop(low.v, a.thin.seed, stream, a.thin.p, at);
			high.v = thin_drop(high.v, a.thin.seed, stream, a.thin.p, at + 8 * (uint64_t)a.width);
		}
		/* The 32 columns make two products of 16, as said above: low and high words of what a
		 * lane holds. */
		uint32_t first[4] = {low.u[0], high.u[0], low.u[1], high.u[1]},
				 second[4] = {low.u[2], high.u[2], low.u[3], high.u[3]};
#pragma unroll
		for (int i0 = 0; i0 < THIN_TILES; i0 += EACH) {
			if (i0 >= tiles) break;
			union piece b[EACH];
#pragma unroll
			for (int i = i0; i < i0 + EACH; i++)
				b[i - i0].v = load8(thin + (min(i, tiles - 1) * 8 + g) * stride + column);
#pragma unroll
			for (int i = i0; i < i0 + EACH; i++) {
				union piece &own = b[i - i0];
				if (i >= tiles) break;
				/* Under a mask, tail columns that belong to other parts must not be added to: their
				 * rows of A become zeros. */
				if (DROPOUT && (n0 + i * 8 + g) / a.thin.r != part) own.v = zero8();
				mma_bf16(acc[i], first, own.u[0], own.u[1]);
				mma_bf16(acc[i], second, own.u[2], own.u[3]);
			}
		}
	}
}

/* The warps' sums become the block's, in order, and go to the block of the cluster that adds
 * up this share of them. */
static __device__ __forceinline__ void thin_push(
	team &cluster, const struct rows_args &a, const float acc[THIN_TILES][4], float *parts, float *gathered)
{
	int group = a.thin.group, blocks = (int)cluster.num_blocks(), rank = (int)cluster.block_rank(),
		share = a.rows * group / blocks, lane = (int)threadIdx.x % WARP;
	float *mine = parts + (int)threadIdx.x / WARP * a.held * group + lane / 4 * group + lane % 4 * 2;
#pragma unroll
	for (int i = 0; i < THIN_TILES; i++) {
		if (i * 8 >= group) break;
		*(float2 *)(mine + i * 8) = make_float2(acc[i][0], acc[i][1]);
		if (a.held > 8) *(float2 *)(mine + i * 8 + 8 * group) = make_float2(acc[i][2], acc[i][3]);
	}
	__syncthreads();
	for (int i = (int)threadIdx.x; i < a.rows * group; i += THREADS) {
		float sum = parts[i];
#pragma unroll
		for (int w = 1; w < WARPS; w++) sum += parts[w * a.held * group + i];
		cluster.map_shared_rank(gathered, i / share)[rank * share + i % share] = sum;
	}
}

/* This block's share of the cluster's sums, in the order of blocks, into the rows' tail. */
static __device__ __forceinline__ void thin_store(
	team &cluster, const struct rows_args &a, const float *gathered, int row0, int n0)
{
	int blocks = (int)cluster.num_blocks(), group = a.thin.group, share = a.rows * group / blocks,
		first = (int)cluster.block_rank() * share;
	for (int i = (int)threadIdx.x; i < share; i += THREADS) {
		int row = row0 + (first + i) / group, column = n0 + (first + i) % group;
		float sum = 0;
		for (int b = 0; b < blocks; b++) sum += gathered[b * share + i];
		if (row < a.T && column < a.thin.columns)
			a.y[(int64_t)row * a.y_ld + a.width + column] = __float2bfloat16_rn(sum * a.thin.scaling);
	}
}

/* Norm: rows' sums over the cluster, in the order of blocks, then the values. */
template <typename F>
static __device__ __forceinline__ void norm_finish(team &cluster, const struct rows_args &a, bf16 *tile, int stride,
	int row0, int column0, int columns, bool has_thin, const bf16 *weights, float *squares, float *rstd, F meanwhile)
{
	int blocks = (int)cluster.num_blocks(), rank = (int)cluster.block_rank(), r = (int)threadIdx.x / (THREADS / ROWS);
	float own = rows_squares(a, tile, stride);
	int to = (int)threadIdx.x % (THREADS / ROWS);
	if (to < blocks) cluster.map_shared_rank(squares, to)[rank * ROWS + r] = own;
	meanwhile();
	cluster.sync();
	if ((int)threadIdx.x < a.rows) {
		float sum = 0;
		for (int b = 0; b < blocks; b++) sum += squares[b * ROWS + (int)threadIdx.x];
		rstd[threadIdx.x] = rsqrtf(sum / (float)a.width + a.eps);
		if (a.rstd && rank == 0 && row0 + (int)threadIdx.x < a.T) a.rstd[row0 + (int)threadIdx.x] = rstd[threadIdx.x];
	}
	/* The weights were asked for before A, which may still be on its way. */
	if (has_thin) copies_wait<1>();
	else copies_wait<0>();
	__syncthreads();
	rows_scale(a, tile, stride, row0, column0, columns, weights, rstd);
}

#endif

/* Where a block keeps what, in shared memory. */
struct rows_shared {
	bf16 *tile;      /* (held, slice + PAD) */
	bf16 *thin;      /* (group, slice + PAD) of A */
	bf16 *weights;   /* (slice) of the norm */
	float *squares;  /* (2, CLUSTER_MAX, ROWS): by turns, as gathered, since the others may be a step ahead */
	float *rstd;     /* (ROWS) */
	float *parts;    /* (WARPS, held, group) */
	float *gathered; /* (2, held * group) */
};
static __host__ __device__ __forceinline__ size_t rows_carve(
	struct rows_shared *s, unsigned char *base, int slice, int held, int group)
{
	size_t stride = (size_t)slice + PAD;
	s->tile = (bf16 *)base;
	s->thin = s->tile + (size_t)held * stride;
	s->weights = s->thin + (size_t)group * stride;
	s->squares = (float *)(s->weights + slice);
	s->rstd = s->squares + 2 * CLUSTER_MAX * ROWS;
	s->parts = s->rstd + ROWS;
	s->gathered = s->parts + WARPS * held * group;
	return (size_t)((unsigned char *)(s->gathered + 2 * held * group) - base);
}

/* A cluster goes over its rows, a.rows at a time. A is fetched once where all of its columns
 * fit, else for each group.
 */
template <enum source SOURCE, bool DROPOUT>
static __global__ void __launch_bounds__(THREADS, 2) rows_kernel(const struct rows_args a)
{
#if HOPPER_CODE
	extern __shared__ __align__(16) unsigned char shared[];
	team cluster = team_own();
	int rank = (int)cluster.block_rank(), blocks = (int)cluster.num_blocks(), group = a.thin.group,
		stride = a.slice + PAD;
	int column0 = rank * a.slice, columns = max(0, min(a.slice, a.width - column0));
	bool is_fetched_once = a.thin.used <= group;
	struct rows_shared s;
	rows_carve(&s, shared, a.slice, a.held, group);
	cluster.barrier_arrive();

	/* The norm's weights come while the kernel before still runs, and A; or A behind the rows where
	 * there are many and no such time, for asking for A takes as long as the rows do. */
	if (is_norm(SOURCE)) {
		for (int at = (int)threadIdx.x * 8; at < columns; at += THREADS * 8)
			copy_16(shared_address(s.weights + at), a.w + column0 + at, true);
		copies_commit();
	}
	bool has_thin = group && is_fetched_once;
	if (has_thin && a.is_early) thin_fetch(s.thin, a, stride, 0, column0, columns);
	rows_clear(a, s.tile, stride, a.rows, a.held);
	grid_begin_of(a.T);
	int share = (a.slice + 32 * WARPS - 1) / (32 * WARPS) * 32, warp = (int)threadIdx.x / WARP,
		lane = (int)threadIdx.x % WARP;
	int k0 = warp * share, k1 = min(k0 + share, a.slice), turn = 0, push = 0;
	for (int row0 = (int)blockIdx.x / blocks * a.rows; row0 < a.T; row0 += (int)gridDim.x / blocks * a.rows, turn++) {
		auto late_fetch = [&] {
			if (has_thin && !a.is_early && !turn) thin_fetch(s.thin, a, stride, 0, column0, columns);
		};
		rows_make<SOURCE>(a, s.tile, stride, row0, column0, columns, [&] {
			if (!is_norm(SOURCE)) late_fetch();
		});
		if (!turn) cluster.barrier_wait(); /* the others have begun: their memory may be written */
		__syncthreads();
		if (is_norm(SOURCE))
			norm_finish(cluster, a, s.tile, stride, row0, column0, columns, has_thin, s.weights,
				s.squares + (turn & 1) * CLUSTER_MAX * ROWS, s.rstd, late_fetch);

		/* the tail; with dropout each part sees other zeros: the columns are gone over for each */
		for (int n0 = 0; n0 < a.thin.used; n0 += group, push++) {
			float acc[THIN_TILES][4] = {}, *to = s.gathered + (push & 1) * a.held * group;
			uint64_t element = (uint64_t)(row0 + lane / 4) * (uint64_t)a.width + (uint64_t)column0;
			int last_part = DROPOUT ? (min(n0 + group, a.thin.used) - 1) / a.thin.r : 0;
			if (!is_fetched_once) thin_fetch(s.thin, a, stride, n0, column0, columns);
			copies_wait<0>();
			__syncthreads();
			for (int part = DROPOUT ? n0 / a.thin.r : 0; part <= last_part; part++)
				thin_multiply<DROPOUT>(acc, a, s.tile, s.thin, stride, element, part, n0, k0, k1);
			thin_push(cluster, a, acc, s.parts, to);
			cluster.sync();
			thin_store(cluster, a, to, row0, n0);
		}
		/* what no adapter uses */
		int first = (a.thin.used + group - 1) / max(group, 1) * group, rest = a.thin.columns - first;
		if (rank == blocks - 1)
			for (int i = (int)threadIdx.x; i < a.rows * rest; i += THREADS)
				if (row0 + i / rest < a.T)
					a.y[(int64_t)(row0 + i / rest) * a.y_ld + a.width + first + i % rest] = __float2bfloat16_rn(0.0f);
		__syncthreads();
	}
#endif
}

/* Blocks of a cluster: by the width alone. Rows of one: as few as make no more than `most` blocks,
 * so that a step of few rows uses the whole machine. */
static void rows_shape(struct rows_args *a, int most, int *cluster)
{
	rows_slices(a, cluster);
	a->rows = 1;
	while (a->rows < ROWS && (a->T + a->rows - 1) / a->rows * *cluster > most) a->rows *= 2;
	a->held = a->rows > 8 ? ROWS : 8;
}

#define SHARED_MOST (226 << 10)       /* of a block */
#define SHARED_ALL (228 << 10)        /* of a multiprocessor, which takes 1 KiB of it for each block */

/* Blocks that a multiprocessor holds, 0: the rows are too wide for one; columns of the tail at a
 * time: all of them where two blocks still fit, else as many as do. */
static int rows_group(struct rows_args *a, size_t *bytes)
{
	struct rows_shared s;
	int most = MIN(THIN_COLUMNS, (a->thin.used + 7) / 8 * 8);
	for (a->thin.group = most; a->thin.group > 8; a->thin.group -= 8)
		if (2 * (rows_carve(&s, NULL, a->slice, a->held, a->thin.group) + 1024) <= SHARED_ALL) break;
	*bytes = rows_carve(&s, NULL, a->slice, a->held, a->thin.group);
	return 2 * (*bytes + 1024) <= SHARED_ALL ? 2 : *bytes <= SHARED_MOST ? 1 : 0;
}

/* The rows, then their tail, in kernels of their own that give the same bits. false: too
 * wide, nothing was done. */
static bool many_run(struct ops_context *c, enum source source, const struct rows_args *a, int cluster)
{
	static const enum rows_source sources[] = {[SOURCE_NORM] = ROWS_NORM,
		[SOURCE_SUMS] = ROWS_NORM,
		[SOURCE_GATE] = ROWS_GATE,
		[SOURCE_MERGE] = ROWS_PLAIN,
		[SOURCE_PLAIN] = ROWS_PLAIN};
	struct rows_many m = {};
	m.y = a->y, m.y_ld = a->y_ld, m.rstd = a->rstd, m.x = a->x, m.w = a->w, m.eps = a->eps;
	m.T = a->T, m.width = a->width, m.slice = a->slice, m.blocks = cluster;
	for (int i = 0; i < OPS_PARTS; i++) m.a[i] = a->thin.part[i].a, m.a_ld[i] = a->thin.part[i].ld;
	m.r = a->thin.r, m.used = a->thin.used, m.columns = a->thin.columns, m.scaling = a->thin.scaling;
	m.p = a->thin.p, m.seed = a->thin.seed, m.stream = a->thin.stream;
	return cuda_rows_many(c, sources[source], &m);
}

template <enum source SOURCE> static void rows_run(struct ops_context *c, struct rows_args *a)
{
	int cluster;
	size_t bytes;
	CHECKF(a->width % 8 == 0, "rows of %d columns; the CUDA backend takes multiples of 8", a->width);
	if (!a->T) return;
	if (SOURCE == SOURCE_PLAIN && cuda_thin_few(c, a)) return;
	rows_shape(a, c->sms, &cluster);
	/* Attention is ours and lets this begin early. Elsewhere A goes first where there are
	 * few rows to read: measured.
	 */
	a->is_early = SOURCE == SOURCE_MERGE || SOURCE == SOURCE_PLAIN || a->T <= EARLY_ROWS;
	bool is_many = a->T >= ROWS_MANY && SOURCE != SOURCE_SUMS && SOURCE != SOURCE_MERGE;
	int each = rows_group(a, &bytes);
	/* Norms are narrow enough (CUDA_HIDDEN_MAX), and what is merged (ROWS_MERGED_MAX): the
	 * widest rows are an MLP's. */
	if ((is_many || !each || !c->card.is_hopper) && many_run(c, SOURCE, a, cluster)) return;
	CHECKF(
		c->card.is_hopper, "rows of %d columns; the CUDA backend takes norms of at most %d", a->width, CUDA_HIDDEN_MAX);
	if (!a->thin.columns && cuda_rows_few(c, SOURCE, a, cluster)) return;
	/* Many blocks make a norm's rows in half the time, and the thin product afterwards. */
	if (is_norm(SOURCE) && a->T > EARLY_ROWS) {
		struct rows_args rows = *a, thin = *a;
		rows.thin = {};
		if (cuda_rows_few(c, SOURCE, &rows, cluster)) {
			rows_run<SOURCE_PLAIN>(c, &thin);
			return;
		}
	}
	int clusters = MIN((a->T + a->rows - 1) / a->rows, c->sms * each / cluster);
	struct launch l = {dim3((unsigned)(clusters * cluster)), dim3(THREADS), bytes, cluster};
	if (a->thin.p > 0) cuda_launch(c, l, rows_kernel<SOURCE, true>, *a);
	else cuda_launch(c, l, rows_kernel<SOURCE, false>, *a);
}

/* ---- entries ---- */

static void norm(struct ops_context *c, struct elem *y, struct f32 *rstd, const struct elem *x,
	const struct ops_weight *w, float eps, int T, const struct ops_next *next)
{
	struct rows_args a = {};
	a.y = elems(y), a.y_ld = w->cols + c->tail, a.rstd = floats(rstd), a.x = elems(x), a.w = elems(w->w), a.eps = eps;
	struct thin_wait wait = {};
	if (T > GEMV_ROWS || w->cols <= ROWS_FEW_COLUMNS) wait = thin_leave(c, elems(y), w->cols, T, next);
	a.arrived = wait.arrived;
	a.T = T, a.width = w->cols, a.thin = wait.x ? (struct thin){} : thin_of(c, next, w->cols);
	const struct sums *s = &c->waiting;
	if (c->card.is_hopper && s->ranges && s->y == a.x && s->N == a.width && s->T == T && T < ROWS_MANY) {
		a.sums = *s;
		c->waiting.ranges = 0;
		rows_run<SOURCE_SUMS>(c, &a);
	} else {
		rows_run<SOURCE_NORM>(c, &a);
	}
	c->thin = wait;
}

static void gate(
	struct ops_context *c, struct elem *act, const struct elem *gu, int I, int T, const struct ops_next *next)
{
	struct rows_args a = {};
	struct thin_wait wait = {};
	if (T > GEMV_ROWS) wait = thin_leave(c, elems(act), I, T, next);
	/* The product that makes gu may have waited for this. */
	if (c->gate.T == T && c->gate.p.y == gu && c->gate.p.N == 2 * I) {
		struct gate_wait g = c->gate;
		c->gate.T = 0;
		g.p.y = act, g.p.y_ld = I + c->tail;
		few_run(c, &g.p, T, &g.thin, true);
		if (wait.x) c->thin = wait;
		else cuda_thin(c, elems(act), I, T, next);
		return;
	}
	a.y = elems(act), a.y_ld = I + c->tail, a.x = elems(gu), a.T = T, a.width = I;
	a.thin = wait.x ? (struct thin){} : thin_of(c, next, I);
	rows_run<SOURCE_GATE>(c, &a);
	c->thin = wait;
}

void cuda_merge(struct ops_context *c, bf16 *att, const float *partial, const struct batch_view *v, int NH, int HD,
	int T, const struct ops_next *next)
{
	struct rows_args a = {};
	a.y = att, a.y_ld = NH * HD + c->tail, a.partial = partial, a.pos = v->pos, a.sequence = v->sequence,
	a.chunks = v->chunks, a.HD = HD;
	a.scale_log2 = scale_log2_of(HD), a.T = T, a.width = NH * HD;
	a.thin = thin_of(c, next, NH * HD);
	rows_run<SOURCE_MERGE>(c, &a);
}

static void thin_run(struct ops_context *c, bf16 *x, int in, int T, const struct ops_next *next)
{
	struct rows_args a = {};
	a.y = x, a.y_ld = in + c->tail, a.T = T, a.width = in, a.thin = thin_of(c, next, in);
	if (a.thin.columns) rows_run<SOURCE_PLAIN>(c, &a);
}

void cuda_thin(struct ops_context *c, bf16 *x, int in, int T, const struct ops_next *next)
{
	struct thin_wait wait = {};
	if (T > GEMV_ROWS) wait = thin_leave(c, x, in, T, next);
	if (wait.x) {
		settle(c);
		c->thin = wait;
	} else {
		thin_run(c, x, in, T, next);
	}
}

void thin_settle(struct ops_context *c, const struct thin_wait *t) { thin_run(c, t->x, t->in, t->T, &t->next); }

/* ---- rows that are fetched ---- */

static __global__ void fetch_kernel(
	bf16 *out, int64_t out_ld, const bf16 *from, int64_t from_ld, const int32_t *which, int columns)
{
	grid_begin();
	const uint4 *in = (const uint4 *)(from + which[blockIdx.x] * from_ld);
	uint4 *to = (uint4 *)(out + blockIdx.x * out_ld);
	for (int i = (int)threadIdx.x; i < columns / 8; i += (int)blockDim.x) to[i] = in[i];
}

static void fetch(
	struct ops_context *c, bf16 *out, const bf16 *from, int64_t from_ld, const int32_t *which, int columns, int n)
{
	CHECKF(columns % 8 == 0 && from_ld % 8 == 0,
		"rows of %d columns, %lld apart; the CUDA backend takes multiples of 8", columns, (long long)from_ld);
	if (n)
		cuda_launch(c, {dim3((unsigned)n), dim3(128), 0, 0}, fetch_kernel, out, (int64_t)columns, from, from_ld, which,
			columns);
}

static void embed(
	struct ops_context *c, struct elem *x, const struct ops_weight *table, const struct ops_batch *b, int T)
{
	fetch(c, elems(x), elems(table->w), table->ld, b->view.ids, table->cols, T);
}

static void gather(struct ops_context *c, struct elem *out, const struct elem *x, int C, int x_tail,
	const struct ops_batch *b, int first, int n)
{
	fetch(c, elems(out), elems(x), C + x_tail, b->view.at + first, C, n);
}

void cuda_rows_entries(struct ops *t)
{
	t->norm = norm;
	t->gate = gate;
	t->embed = embed;
	t->gather = gather;
}
