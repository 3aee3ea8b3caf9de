/* matmul: dense products. OpenBLAS in fixed chunks where it is loaded, else (and always with batch_invariant) the built-in loops, whose value of a row depends on that row of A
 * and on B alone. */
#include "ops_cpu.h"
#include "simd.h"

struct matmul_args {
	float *out; const float *a, *b;
	int M, N, K;
	bool at, bt, by_columns, add;
	float alpha;
	const struct ops_context *c;
};

/* Once in each thread that calls BLAS (cpu.c tells why). */
static void blas_thread_ready(const struct ops_context *c)
{
	static _Thread_local bool ready;
	if (!ready && c->omp_set_num_threads) c->omp_set_num_threads(1);
	ready = true;
}

static void sgemm_chunk(void *arg, int64_t begin, int64_t end, int thread)
{
	const struct matmul_args *g = arg;
	int64_t m0 = g->by_columns ? 0 : begin, n0 = g->by_columns ? begin : 0;
	int M = (int)(g->by_columns ? g->M : end - begin), N = (int)(g->by_columns ? end - begin : g->N);
	int lda = g->at ? g->M : g->K, ldb = g->bt ? g->K : g->N;
	const float *a = g->a + (g->at ? m0 : m0 * g->K), *b = g->b + (g->bt ? n0 * g->K : n0);
	blas_thread_ready(g->c);
	g->c->sgemm(CBLAS_ROW_MAJOR, g->at ? CBLAS_TRANS : CBLAS_NO_TRANS, g->bt ? CBLAS_TRANS : CBLAS_NO_TRANS, M, N, g->K, g->alpha, a, lda, b, ldb, g->add ? 1.0f : 0.0f, g->out + m0 * g->N + n0, g->N);
}

static float dot_any(const struct matmul_args *g, int64_t m, int64_t n)
{
	float s = 0;
	for (int k = 0; k < g->K; k++) s += (g->at ? g->a[(int64_t)k * g->M + m] : g->a[m * g->K + k]) * (g->bt ? g->b[n * g->K + k] : g->b[(int64_t)k * g->N + n]);
	return s;
}

static void builtin_rows(void *arg, int64_t begin, int64_t end, int thread)
{
	const struct matmul_args *g = arg;
	for (int64_t m = begin; m < end; m++)
		for (int n = 0; n < g->N; n++) {
			float *o = g->out + m * g->N + n;
			*o = (g->add ? *o : 0.0f) + g->alpha * dot_any(g, m, n);
		}
}

static void matmul(struct ops_context *c, float *out, const float *a, const float *b, int M, int N, int K, bool a_transposed, bool b_transposed, float alpha, enum ops_accumulate acc)
{
	CHECK(M >= 0 && N >= 0 && K > 0);
	if (!M || !N) return;
	struct matmul_args g = {out, a, b, M, N, K, a_transposed, b_transposed, N >= M, acc == OPS_ADD, alpha, c};
	if (c->sgemm && !c->batch_invariant) {
		int side = MAX(M, N), chunk = MAX(64, (side / 8 + 63) / 64 * 64);
		pool_run(c->pool, side, chunk, sgemm_chunk, &g);
	} else {
		pool_run(c->pool, M, 4, builtin_rows, &g);
	}
}

void ISA(matmul_entries)(struct ops *t) { t->matmul = matmul; }
