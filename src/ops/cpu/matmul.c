/* matmul: dense products, cut into blocks of the result; a block is one task of the pool. Blocks change no bit of it, so their size may follow the number of threads.
 *
 * No BLAS. What this backend needs from a product is that a row's value depends on that row alone, so that sampler and trainer agree to the bit whatever their batches are, and
 * that the result does not depend on the number of threads; no BLAS promises either. Measured against OpenBLAS 0.3.21 in the same blocks the tiles of gemm_kernel.h are faster on
 * AVX-512 (4-14 % for large products, 1.2-2x for 5 to 64 rows) and even on AVX2 (docs/perf-log.md), so nothing is given up for it but products of 1 to 4 rows out of L2. */
#include "ops_cpu.h"
#include "gemm_kernel.h"

#define BLOCK_COLUMNS_MAX 256    /* packed, a block of B takes KC x 256 floats: half of a small L2 */
#define GROUP_TILES 16           /* tiles of transposed A packed at once: whole cache lines of each of its rows are used while they are near */
#define TASK_WORK 131072         /* multiply-adds worth a task; turning and packing an element of B counts as 8 */

_Static_assert(KC * BLOCK_COLUMNS_MAX + GROUP_TILES * A_PANEL <= SCRATCH_FLOATS, "a packed block of B and packed tiles of A lie in a thread's scratch");

struct matmul_args {
	float *out; const float *a, *b;
	int M, N, K;
	bool at, bt, add;
	float alpha;
	const struct prepared *prepared;         /* B, or NULL */
	int block_rows, block_columns, across;   /* blocks in a row of blocks */
	struct ops_context *c;
};

static void direct_block(const struct matmul_args *g, int n0, int N)
{
	for (int k = 0; k < g->K; k += KC)
		for (int n = n0; n < n0 + N; n += NR) {
			struct direct d = {.a = g->a + k, .lda = g->K, .b = g->b + (int64_t)n * g->K + k, .ldb = g->K, .c = g->out + n, .ldc = g->N, .K = MIN(KC, g->K - k),
				.columns = MIN(NR, n0 + N - n), .alpha = g->alpha, .add = g->add || k > 0};
			direct_run(&d, g->M);
		}
}

/* Both give the block's first panel and the distance between panels, in floats. */
static const float *pack_block(const struct matmul_args *g, float *scratch, int n0, int N, int k0, int K, int64_t *panel)
{
	int64_t ldb = g->bt ? g->K : g->N;
	*panel = NR * KC;
	for (int n = 0; n < N; n += NR) {
		int columns = MIN(NR, N - n);
		if (g->bt) pack_columns(scratch + n * KC, g->b + (n0 + n) * ldb + k0, ldb, K, columns);
		else pack_rows(scratch + n * KC, g->b + k0 * ldb + n0 + n, ldb, K, columns);
	}
	return scratch;
}

static const float *prepared_block(const struct prepared *p, int n0, int k0, int64_t *panel)
{
	*panel = (int64_t)NR * p->K;
	return p->panels + n0 / NR * *panel + (int64_t)k0 * NR;
}

/* One block of KC: pack, then tiles; the packed rows of A of a tile stay in L1 while the panels of B pass. Rows are shared out evenly: 16 are 8 + 8 and not 12 + 4. */
static void tiled_block(const struct matmul_args *g, float *scratch, int m0, int M, int n0, int N, int k0, int K)
{
	float *packed_a = scratch + KC * BLOCK_COLUMNS_MAX;
	int64_t lda = g->at ? g->M : g->K, panel;
	const float *packed_b = g->prepared ? prepared_block(g->prepared, n0, k0, &panel) : pack_block(g, scratch, n0, N, k0, K, &panel);
	int ntiles = (M + MR - 1) / MR, each = (M + ntiles - 1) / ntiles, group = g->at ? each * GROUP_TILES : each;
	for (int first = 0; first < M; first += group) {
		int end = MIN(M, first + group);
		if (g->at) pack_a_columns(packed_a, g->a + k0 * lda + m0 + first, lda, end - first, each, K);
		for (int m = first; m < end; m += each) {
			int rows = MIN(each, M - m);
			float *tile_a = packed_a + (m - first) / each * A_PANEL;
			if (!g->at) pack_a_rows(tile_a, g->a + (m0 + m) * lda + k0, lda, rows, K);
			for (int n = 0; n < N; n += NR) {
				struct tile t = {.a = tile_a, .a_col = MR, .b = packed_b + n / NR * panel, .b_row = NR, .c = g->out + (int64_t)(m0 + m) * g->N + n0 + n, .c_row = g->N, .K = K,
					.columns = MIN(NR, N - n), .alpha = g->alpha, .add = g->add || k0 > 0, .by_column = g->at, .padded = true};
				tile_run(&t, rows);
			}
		}
	}
}

static void matmul_blocks(void *arg, int64_t begin, int64_t end, int thread)
{
	const struct matmul_args *g = arg;
	for (int64_t block = begin; block < end; block++) {
		int m0 = (int)(block / g->across) * g->block_rows, n0 = (int)(block % g->across) * g->block_columns;
		int M = MIN(g->block_rows, g->M - m0), N = MIN(g->block_columns, g->N - n0);
		/* Packed panels are streamed even by one row: turning B in registers costs it more than the reading. */
		if (g->M <= DIRECT_ROWS && g->bt && !g->at && !g->prepared) direct_block(g, n0, N);
		else
			for (int k = 0; k < g->K; k += KC) tiled_block(g, scratch_of(g->c, thread), m0, M, n0, N, k, MIN(KC, g->K - k));
	}
}

static int64_t blocks_in(const struct matmul_args *g, int rows, int columns) { return (int64_t)((g->M + rows - 1) / rows) * ((g->N + columns - 1) / columns); }

/* The largest blocks that give every thread some: small ones pack A and B more often than they use it. */
static void choose_blocks(struct matmul_args *g)
{
	static const struct { int rows, columns; } sizes[] = {{480, BLOCK_COLUMNS_MAX}, {480, 128}, {240, 128}, {240, 64}, {120, 64}, {120, 32}, {48, 32}};
	int64_t work = ((int64_t)g->M + 8) * g->N * g->K, wanted = g->c->threads == 1 ? 1 : MIN(4 * g->c->threads, work / TASK_WORK + 1);
	size_t i = 0;
	while (i + 1 < ARRAY_LEN(sizes) && blocks_in(g, sizes[i].rows, sizes[i].columns) < wanted) i++;
	g->block_rows = sizes[i].rows;
	g->block_columns = sizes[i].columns;
	g->across = (g->N + g->block_columns - 1) / g->block_columns;
}

/* ---- operands packed ahead: with few rows, as in generation, turning B costs as much as using it ---- */

#define PREPARED_BYTES_MAX ((size_t)1 << 30)   /* of one backend; what is beyond is packed when used */

static struct prepared *prepared_find(const struct ops_context *c, const float *b)
{
	for (int i = 0; i < c->nprepared; i++)
		if (c->prepared[i].b == b) return &c->prepared[i];
	return NULL;
}

static size_t prepared_bytes(int N, int K) { return size_mul(size_mul((size_t)(N + NR - 1) / NR * NR, (size_t)K), sizeof(float)); }

static void prepare(struct ops_context *c, const float *b, int N, int K)
{
	size_t bytes = prepared_bytes(N, K);
	if (prepared_find(c, b) || c->prepared_bytes + bytes > PREPARED_BYTES_MAX) return;
	float *panels = aligned_alloc(64, bytes);
	if (!panels) return;   /* a faster order is all that is lost */
	for (int n = 0; n < N; n += NR)
		for (int k = 0; k < K; k += KC)
			pack_columns(panels + (int64_t)n * K + (int64_t)k * NR, b + (int64_t)n * K + k, K, MIN(KC, K - k), MIN(NR, N - n));
	c->prepared = xrealloc(c->prepared, size_mul((size_t)c->nprepared + 1, sizeof *c->prepared));
	c->prepared[c->nprepared++] = (struct prepared){b, N, K, panels};
	c->prepared_bytes += bytes;
}

static void forget(struct ops_context *c, const float *b)
{
	struct prepared *p = prepared_find(c, b);
	if (!p) return;
	c->prepared_bytes -= prepared_bytes(p->N, p->K);
	free(p->panels);
	*p = c->prepared[--c->nprepared];
}

static void matmul(struct ops_context *c, float *out, const float *a, const float *b, int M, int N, int K, bool a_transposed, bool b_transposed, float alpha, enum ops_accumulate acc)
{
	CHECK(M >= 0 && N >= 0 && K > 0);
	if (!M || !N) return;
	struct matmul_args g = {.out = out, .a = a, .b = b, .M = M, .N = N, .K = K, .at = a_transposed, .bt = b_transposed, .add = acc == OPS_ADD, .alpha = alpha, .c = c};
	if (b_transposed) g.prepared = prepared_find(c, b);
	CHECK(!g.prepared || (g.prepared->N == N && g.prepared->K == K));
	choose_blocks(&g);
	pool_run(c->pool, blocks_in(&g, g.block_rows, g.block_columns), 1, matmul_blocks, &g);
}

void ISA(matmul_entries)(struct ops *t) 
{
	t->matmul = matmul;
	t->prepare = prepare;
	t->forget = forget;
}
