/* matmul: dense products, cut into blocks of the result that depend on its shape alone; a block is one task of the pool.
 *
 * The built-in engine (gemm_kernel.h) computes each element as one chain of sums whatever block, tile or batch it falls into, and measured against OpenBLAS 0.3.21 in the same
 * blocks it is as fast for large products and up to twice as fast for few rows (docs/perf-log.md). So it runs every product of the forward pass, and a token's logits do not
 * depend on its batch even without batch_invariant. OpenBLAS, where it loads, serves weight gradients (A transposed), where it is a few per cent faster. */
#include "ops_cpu.h"
#include "gemm_kernel.h"

#define BLOCK_ROWS 480
#define BLOCK_COLUMNS 128
#define BLAS_BLOCK_COLUMNS 256
#define GROUP_TILES 16           /* tiles of transposed A packed at once: whole cache lines of each of its rows are used while they are near */
#define FEW_ROWS 32              /* up to here blocks are sized by their work, to feed all threads */
#define FEW_BLOCK_WORK 65536     /* multiply-adds (and turned elements) worth a task when rows are few */

_Static_assert(KC * BLOCK_COLUMNS + GROUP_TILES * A_PANEL <= SCRATCH_FLOATS, "a packed block of B and packed tiles of A lie in a thread's scratch");

struct matmul_args {
	float *out; const float *a, *b;
	int M, N, K;
	bool at, bt, add;
	float alpha;
	int block_rows, block_columns, across;   /* blocks in a row of blocks */
	struct ops_context *c;
};

/* ---- OpenBLAS ---- */

/* Once in each thread that calls BLAS (cpu.c tells why). */
static void blas_thread_ready(const struct ops_context *c)
{
	static _Thread_local bool ready;
	if (!ready && c->omp_set_num_threads) c->omp_set_num_threads(1);
	ready = true;
}

static void blas_blocks(void *arg, int64_t begin, int64_t end, int thread)
{
	const struct matmul_args *g = arg;
	blas_thread_ready(g->c);
	for (int64_t block = begin; block < end; block++) {
		int64_t m0 = block / g->across * g->block_rows, n0 = block % g->across * g->block_columns;
		int M = (int)MIN(g->block_rows, g->M - m0), N = (int)MIN(g->block_columns, g->N - n0), lda = g->at ? g->M : g->K, ldb = g->bt ? g->K : g->N;
		const float *a = g->a + (g->at ? m0 : m0 * g->K), *b = g->b + (g->bt ? n0 * g->K : n0);
		g->c->sgemm(CBLAS_ROW_MAJOR, g->at ? CBLAS_TRANS : CBLAS_NO_TRANS, g->bt ? CBLAS_TRANS : CBLAS_NO_TRANS, M, N, g->K, g->alpha, a, lda, b, ldb, g->add ? 1.0f : 0.0f,
			g->out + m0 * g->N + n0, g->N);
	}
}

/* ---- built-in ---- */

static void direct_block(const struct matmul_args *g, int n0, int N)
{
	for (int k = 0; k < g->K; k += KC)
		for (int n = n0; n < n0 + N; n += NR) {
			struct direct d = {.a = g->a + k, .lda = g->K, .b = g->b + (int64_t)n * g->K + k, .ldb = g->K, .c = g->out + n, .ldc = g->N, .K = MIN(KC, g->K - k),
				.columns = MIN(NR, n0 + N - n), .alpha = g->alpha, .add = g->add || k > 0};
			direct_run(&d, g->M);
		}
}

/* One block of KC: pack, then tiles; the packed rows of A of a tile stay in L1 while the panels of B pass. Rows are shared out evenly: 16 are 8 + 8 and not 12 + 4. */
static void tiled_block(const struct matmul_args *g, float *scratch, int m0, int M, int n0, int N, int k0, int K)
{
	float *packed_b = scratch, *packed_a = scratch + KC * BLOCK_COLUMNS;
	int64_t lda = g->at ? g->M : g->K, ldb = g->bt ? g->K : g->N;
	for (int n = 0; n < N; n += NR) {
		int columns = MIN(NR, N - n);
		if (g->bt) pack_columns(packed_b + n * KC, g->b + (n0 + n) * ldb + k0, ldb, K, columns);
		else pack_rows(packed_b + n * KC, g->b + k0 * ldb + n0 + n, ldb, K, columns);
	}
	int ntiles = (M + MR - 1) / MR, each = (M + ntiles - 1) / ntiles, group = g->at ? each * GROUP_TILES : each;
	for (int first = 0; first < M; first += group) {
		int end = MIN(M, first + group);
		if (g->at) pack_a_columns(packed_a, g->a + k0 * lda + m0 + first, lda, end - first, each, K);
		for (int m = first; m < end; m += each) {
			int rows = MIN(each, M - m);
			float *tile_a = packed_a + (m - first) / each * A_PANEL;
			if (!g->at) pack_a_rows(tile_a, g->a + (m0 + m) * lda + k0, lda, rows, K);
			for (int n = 0; n < N; n += NR) {
				struct tile t = {.a = tile_a, .a_col = MR, .b = packed_b + n * KC, .b_row = NR, .c = g->out + (int64_t)(m0 + m) * g->N + n0 + n, .c_row = g->N, .K = K,
					.columns = MIN(NR, N - n), .alpha = g->alpha, .add = g->add || k0 > 0, .by_column = g->at, .padded = true};
				tile_run(&t, rows);
			}
		}
	}
}

static void builtin_blocks(void *arg, int64_t begin, int64_t end, int thread)
{
	const struct matmul_args *g = arg;
	for (int64_t block = begin; block < end; block++) {
		int m0 = (int)(block / g->across) * g->block_rows, n0 = (int)(block % g->across) * g->block_columns;
		int M = MIN(g->block_rows, g->M - m0), N = MIN(g->block_columns, g->N - n0);
		if (g->M <= DIRECT_ROWS && g->bt && !g->at) direct_block(g, n0, N);
		else
			for (int k = 0; k < g->K; k += KC) tiled_block(g, scratch_of(g->c, thread), m0, M, n0, N, k, MIN(KC, g->K - k));
	}
}

static int round_up_to(int64_t x, int unit) { return (int)((x + unit - 1) / unit * unit); }

static void matmul(struct ops_context *c, float *out, const float *a, const float *b, int M, int N, int K, bool a_transposed, bool b_transposed, float alpha, enum ops_accumulate acc)
{
	CHECK(M >= 0 && N >= 0 && K > 0);
	if (!M || !N) return;
	bool blas = c->sgemm && !c->batch_invariant && a_transposed && M > FEW_ROWS;
	struct matmul_args g = {.out = out, .a = a, .b = b, .M = M, .N = N, .K = K, .at = a_transposed, .bt = b_transposed, .add = acc == OPS_ADD, .alpha = alpha, .c = c,
		.block_rows = BLOCK_ROWS, .block_columns = BLOCK_COLUMNS};
	if (blas) g.block_columns = BLAS_BLOCK_COLUMNS;
	else if (M <= FEW_ROWS) g.block_columns = MIN(BLOCK_COLUMNS, round_up_to(FEW_BLOCK_WORK / ((int64_t)K * (1 + M / 8)) + 1, NR));
	g.across = (N + g.block_columns - 1) / g.block_columns;
	pool_run(c->pool, (int64_t)g.across * ((M + g.block_rows - 1) / g.block_rows), 1, blas ? blas_blocks : builtin_blocks, &g);
}

void ISA(matmul_entries)(struct ops *t) { t->matmul = matmul; }
