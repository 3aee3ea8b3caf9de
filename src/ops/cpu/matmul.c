/* matmul: dense products, cut into blocks of the result; a block is one task of the pool. Blocks
 * change no bit of it, so their size may follow the number of threads.
 *
 * No BLAS. What this backend needs from a product is that a row's value depends on that row alone,
 * so that sampler and trainer agree to the bit whatever their batches are, and that the result does
 * not depend on the number of threads; no BLAS promises either. Measured against OpenBLAS 0.3.21 in
 * the same blocks the tiles of gemm_kernel.h are faster on AVX-512 (4-14 % for large products,
 * 1.2-2x for 5 to 64 rows) and even on AVX2 (docs/perf-log.md), so nothing is given up for it but
 * products of 1 to 4 rows out of L2. */
#include "ops_cpu.h"
#include "gemm_kernel.h"
#include "panels.h"

#define BLOCK_COLUMNS_MAX 256    /* packed, a block of B takes KC x 256 floats: half of a small L2 */
/* Tiles of transposed A packed at once: whole cache lines of each of its rows are used while they
 * are near. */
#define GROUP_TILES 16
/* Up to so many rows read small forms into registers; more share what one unpacking wrote. */
#define PACKED_ROWS (2 * MR)
#define TASK_WORK 131072         /* multiply-adds worth a task; turning and packing an element of B counts as 8 */

_Static_assert(KC *BLOCK_COLUMNS_MAX + GROUP_TILES * A_PANEL <= SCRATCH_FLOATS,
	"a packed block of B and packed tiles of A lie in a thread's scratch");

struct matmul_args {
	float *out;     /* (M, N) */
	const float *a; /* (M, K); (K, M) with at */
	const float *b; /* (K, N); (N, K) with bt */
	int M;
	int N;
	int K;
	bool at;
	bool bt;
	bool add;                        /* to out, which else is set */
	float alpha;                     /* a factor of the product */
	const struct prepared *prepared; /* B, or NULL */
	int block_rows;
	int block_columns;
	int across; /* blocks in a row of blocks */
	struct ops_context *c;
};

static void direct_block(const struct matmul_args *g, int n0, int N)
{
	for (int k = 0; k < g->K; k += KC)
		for (int n = n0; n < n0 + N; n += NR) {
			struct direct d = {.a = g->a + k,
				.lda = g->K,
				.b = g->b + (int64_t)n * g->K + k,
				.ldb = g->K,
				.c = g->out + n,
				.ldc = g->N,
				.K = MIN(KC, g->K - k),
				.columns = MIN(NR, n0 + N - n),
				.alpha = g->alpha,
				.add = g->add || k > 0};
			direct_run(&d, g->M);
		}
}

/* Both give the block's first panel and the distance between panels, in floats. */
static const float *pack_block(
	const struct matmul_args *g, float *scratch, int n0, int N, int k0, int K, int64_t *panel)
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

static const uint8_t *prepared_rows(const struct prepared *p, int n0, int k0)
{
	return p->panels + (size_t)(n0 / NR) * p->panel_bytes + p->form->bytes(k0);
}

static const float *unpack_block(const struct prepared *p, float *scratch, int n0, int N, int k0, int K, int64_t *panel)
{
	if (!p->form->unpack) {
		*panel = (int64_t)NR * p->K;
		return (const float *)prepared_rows(p, n0, k0);
	}
	*panel = NR * KC;
	for (int n = 0; n < N; n += NR) p->form->unpack(scratch + n * KC, prepared_rows(p, n0 + n, k0), K);
	return scratch;
}

/* tiled_block for few rows: what a small form holds becomes floats in registers. */
static void packed_block(const struct matmul_args *g, float *packed_a, int m0, int M, int n0, int N, int k0, int K)
{
	int ntiles = (M + MR - 1) / MR, each = (M + ntiles - 1) / ntiles;
	for (int m = 0; m < M; m += each) {
		int rows = MIN(each, M - m);
		pack_a_rows(packed_a, g->a + (int64_t)(m0 + m) * g->K + k0, g->K, rows, K);
		for (int n = 0; n < N; n += NR) {
			struct tile t = {.a = packed_a,
				.packed = prepared_rows(g->prepared, n0 + n, k0),
				.c = g->out + (int64_t)(m0 + m) * g->N + n0 + n,
				.c_row = g->N,
				.K = K,
				.columns = MIN(NR, N - n),
				.alpha = g->alpha,
				.add = g->add || k0 > 0};
			g->prepared->form->tile(&t, rows);
		}
	}
}

/* One block of KC: pack, then tiles; the packed rows of A of a tile stay in L1 while the panels of
 * B pass. Rows are shared out evenly: 16 are 8 + 8 and not 12 + 4. */
static void tiled_block(const struct matmul_args *g, float *scratch, int m0, int M, int n0, int N, int k0, int K)
{
	float *packed_a = scratch + KC * BLOCK_COLUMNS_MAX;
	int64_t lda = g->at ? g->M : g->K, panel;
	const float *packed_b = g->prepared ? unpack_block(g->prepared, scratch, n0, N, k0, K, &panel)
										: pack_block(g, scratch, n0, N, k0, K, &panel);
	int ntiles = (M + MR - 1) / MR, each = (M + ntiles - 1) / ntiles, group = g->at ? each * GROUP_TILES : each;
	/* Transposed A is packed some tiles at a time, rows of A tile by tile. */
	for (int first = 0; first < M; first += group) {
		int end = MIN(M, first + group);
		if (g->at) pack_a_columns(packed_a, g->a + k0 * lda + m0 + first, lda, end - first, each, K);
		/* One tile of rows against all panels of columns. */
		for (int m = first; m < end; m += each) {
			int rows = MIN(each, M - m);
			float *tile_a = packed_a + (m - first) / each * A_PANEL;
			if (!g->at) pack_a_rows(tile_a, g->a + (m0 + m) * lda + k0, lda, rows, K);
			for (int n = 0; n < N; n += NR) {
				struct tile t = {.a = tile_a,
					.a_col = MR,
					.b = packed_b + n / NR * panel,
					.b_row = NR,
					.c = g->out + (int64_t)(m0 + m) * g->N + n0 + n,
					.c_row = g->N,
					.K = K,
					.columns = MIN(NR, N - n),
					.alpha = g->alpha,
					.add = g->add || k0 > 0,
					.by_column = g->at,
					.padded = true};
				tile_run(&t, rows);
			}
		}
	}
}

static bool in_registers(const struct matmul_args *g)
{
	return g->prepared && g->prepared->form->tile && g->M <= PACKED_ROWS && !g->at;
}

static void matmul_blocks(void *arg, int64_t begin, int64_t end, int thread)
{
	const struct matmul_args *g = arg;
	for (int64_t block = begin; block < end; block++) {
		int m0 = (int)(block / g->across) * g->block_rows, n0 = (int)(block % g->across) * g->block_columns;
		int M = MIN(g->block_rows, g->M - m0), N = MIN(g->block_columns, g->N - n0);
		/* Packed panels are streamed even by one row: turning B in registers costs it more than the
		 * reading. */
		if (g->M <= DIRECT_ROWS && g->bt && !g->at && !g->prepared) direct_block(g, n0, N);
		else if (in_registers(g))
			for (int k = 0; k < g->K; k += KC)
				packed_block(g, scratch_of(g->c, thread), m0, M, n0, N, k, MIN(KC, g->K - k));
		else
			for (int k = 0; k < g->K; k += KC)
				tiled_block(g, scratch_of(g->c, thread), m0, M, n0, N, k, MIN(KC, g->K - k));
	}
}

static int64_t blocks_in(const struct matmul_args *g, int rows, int columns)
{
	return (int64_t)((g->M + rows - 1) / rows) * ((g->N + columns - 1) / columns);
}

/* The largest blocks that give every thread some: small ones pack A and B more often than they use
 * it. */
static void choose_blocks(struct matmul_args *g)
{
	static const struct {
		int rows;
		int columns;
	} sizes[] = {{480, BLOCK_COLUMNS_MAX}, {480, 128}, {240, 128}, {240, 64}, {120, 64}, {120, 32}, {48, 32}};
	int64_t work = ((int64_t)g->M + 8) * g->N * g->K,
			wanted = g->c->threads == 1 ? 1 : MIN(4 * g->c->threads, work / TASK_WORK + 1);
	size_t i = 0;
	while (i + 1 < ARRAY_LEN(sizes) && blocks_in(g, sizes[i].rows, sizes[i].columns) < wanted) i++;
	g->block_rows = sizes[i].rows;
	g->block_columns = sizes[i].columns;
	g->across = (g->N + g->block_columns - 1) / g->block_columns;
}

static void matmul(struct ops_context *c, float *out, const float *a, const float *b, int M, int N, int K,
	bool a_transposed, bool b_transposed, float alpha, enum ops_accumulate acc)
{
	CHECK(M >= 0 && N >= 0 && K > 0);
	if (!M || !N) return;
	struct matmul_args g = {
		.out = out,
		.a = a,
		.b = b,
		.M = M,
		.N = N,
		.K = K,
		.at = a_transposed,
		.bt = b_transposed,
		.add = acc == OPS_ADD,
		.alpha = alpha,
		.c = c,
	};
	if (b_transposed) g.prepared = ISA(prepared_find)(c, b);
	CHECK(!g.prepared || (g.prepared->N == N && g.prepared->K == K));
	choose_blocks(&g);
	pool_run(c->pool, blocks_in(&g, g.block_rows, g.block_columns), 1, matmul_blocks, &g);
}

void ISA(matmul_entries)(struct cpu_ops *t) { t->matmul = matmul; }
