/* norm: RMSNorm and the small row operations around it (bias, embedding). Rows are independent;
 * parameter gradients are split by columns, each summed over the rows in order, so that nothing
 * depends on the number of threads. */
#include "ops_cpu.h"
#include "simd.h"
#include <math.h>

struct norm_args {
	float *y;          /* (M, N) result; backward: gradient of x */
	float *rstd_out;   /* (M); NULL: not kept */
	float *dw;         /* (N), added to */
	const float *x;    /* (M, N) */
	const float *w;    /* (N) */
	const float *dy;   /* (M, N) */
	const float *rstd; /* (M) as forward left it */
	float eps;
	int M;
	int N;
	bool add; /* to y, which else is set */
};

static float row_sum_squares(const float *x, int N)
{
	vf s0 = vf_zero(), s1 = vf_zero();
	int i = 0;
	for (; i + 2 * VL <= N; i += 2 * VL) {
		vf a = vf_load(x + i), b = vf_load(x + i + VL);
		s0 = vf_fma(a, a, s0);
		s1 = vf_fma(b, b, s1);
	}
	for (; i < N; i += VL) {
		vf a = vf_load_n(x + i, MIN(VL, N - i));
		s0 = vf_fma(a, a, s0);
	}
	return vf_sum(vf_add(s0, s1));
}

static void rmsnorm_rows(void *arg, int64_t begin, int64_t end, int thread)
{
	const struct norm_args *a = arg;
	for (int64_t m = begin; m < end; m++) {
		const float *x = a->x + m * a->N;
		float *y = a->y + m * a->N;
		float rstd = 1.0f / sqrtf(row_sum_squares(x, a->N) / (float)a->N + a->eps);
		if (a->rstd_out) a->rstd_out[m] = rstd;
		vf r = vf_set1(rstd);
		int i = 0;
		for (; i + VL <= a->N; i += VL) vf_store(y + i, vf_mul(vf_mul(vf_load(x + i), r), vf_load(a->w + i)));
		int n = a->N - i;
		if (n > 0) vf_store_n(y + i, vf_mul(vf_mul(vf_load_n(x + i, n), r), vf_load_n(a->w + i, n)), n);
	}
}

static void rmsnorm(
	struct ops_context *c, float *y, float *rstd, const float *x, const float *w, float eps, int M, int N)
{
	CHECK(M >= 0 && N > 0);
	struct norm_args a = {.y = y, .rstd_out = rstd, .x = x, .w = w, .eps = eps, .M = M, .N = N};
	pool_run(c->pool, M, rows_grain(2 * N), rmsnorm_rows, &a);
}

/* With xhat = x rstd and g = dy w:  dx = rstd (g - xhat mean(g xhat)). */
static void rmsnorm_backward_rows(void *arg, int64_t begin, int64_t end, int thread)
{
	const struct norm_args *a = arg;
	for (int64_t m = begin; m < end; m++) {
		const float *x = a->x + m * a->N, *dy = a->dy + m * a->N;
		float *dx = a->y + m * a->N;
		vf dot = vf_zero();
		for (int i = 0; i < a->N; i += VL) {
			int n = MIN(VL, a->N - i);
			dot = vf_fma(vf_mul(vf_load_n(dy + i, n), vf_load_n(a->w + i, n)), vf_load_n(x + i, n), dot);
		}
		float rstd = a->rstd[m];
		vf r = vf_set1(rstd),
		   k = vf_set1(vf_sum(dot) / (float)a->N * rstd * rstd); /* mean(g xhat) rstd, to be multiplied by x */
		for (int i = 0; i < a->N; i += VL) {
			int n = MIN(VL, a->N - i);
			vf g = vf_mul(vf_load_n(dy + i, n), vf_load_n(a->w + i, n));
			vf d = vf_mul(r, vf_fnma(vf_load_n(x + i, n), k, g));
			vf_store_n(dx + i, a->add ? vf_add(vf_load_n(dx + i, n), d) : d, n);
		}
	}
}

static void rmsnorm_dw_columns(void *arg, int64_t begin, int64_t end, int thread)
{
	const struct norm_args *a = arg;
	for (int64_t i = begin; i < end; i += VL) {
		int n = (int)MIN(VL, end - i);
		vf s0 = vf_zero(), s1 = vf_zero();
		int m = 0;
		for (; m + 2 <= a->M; m += 2) {
			const float *dy = a->dy + (int64_t)m * a->N + i, *x = a->x + (int64_t)m * a->N + i;
			s0 = vf_fma(vf_load_n(dy, n), vf_mul(vf_load_n(x, n), vf_set1(a->rstd[m])), s0);
			s1 = vf_fma(vf_load_n(dy + a->N, n), vf_mul(vf_load_n(x + a->N, n), vf_set1(a->rstd[m + 1])), s1);
		}
		if (m < a->M)
			s0 = vf_fma(vf_load_n(a->dy + (int64_t)m * a->N + i, n),
				vf_mul(vf_load_n(a->x + (int64_t)m * a->N + i, n), vf_set1(a->rstd[m])), s0);
		vf_store_n(a->dw + i, vf_add(vf_load_n(a->dw + i, n), vf_add(s0, s1)), n);
	}
}

static void rmsnorm_backward(struct ops_context *c, float *dx, float *dw, const float *dy, const float *x,
	const float *w, const float *rstd, int M, int N, enum ops_accumulate acc)
{
	CHECK(M >= 0 && N > 0);
	struct norm_args a = {
		.y = dx, .dw = dw, .x = x, .w = w, .dy = dy, .rstd = rstd, .M = M, .N = N, .add = acc == OPS_ADD};
	if (dw) pool_run(c->pool, N, N >= 512 ? 64 : 16, rmsnorm_dw_columns, &a); /* head norms are narrow and long */
	pool_run(c->pool, M, rows_grain(4 * N), rmsnorm_backward_rows, &a);
}

/* ---- bias and embedding ---- */

struct row_args {
	float *out;         /* (M, N) rows; a gradient: (N) of a bias, (V, N) of a table */
	const float *in;    /* (N) a bias, (V, N) a table; a gradient: (M, N) */
	const int32_t *ids; /* (M) rows of the table */
	int M;
	int N;
	int64_t V; /* rows of the table; 0 where nothing is added to it */
};

static void bias_add_rows(void *arg, int64_t begin, int64_t end, int thread)
{
	const struct row_args *a = arg;
	for (int64_t m = begin; m < end; m++)
		for (int i = 0; i < a->N; i++) a->out[m * a->N + i] += a->in[i];
}

static void bias_add(struct ops_context *c, float *x, const float *bias, int M, int N)
{
	struct row_args a = {.out = x, .in = bias, .M = M, .N = N};
	pool_run(c->pool, M, rows_grain(N), bias_add_rows, &a);
}

static void bias_backward_columns(void *arg, int64_t begin, int64_t end, int thread)
{
	const struct row_args *a = arg;
	for (int64_t i = begin; i < end; i += VL) {
		int n = (int)MIN(VL, end - i);
		vf s = vf_zero();
		for (int m = 0; m < a->M; m++) s = vf_add(s, vf_load_n(a->in + (int64_t)m * a->N + i, n));
		vf_store_n(a->out + i, vf_add(vf_load_n(a->out + i, n), s), n);
	}
}

static void bias_backward(struct ops_context *c, float *dbias, const float *dy, int M, int N)
{
	struct row_args a = {.out = dbias, .in = dy, .M = M, .N = N};
	pool_run(c->pool, N, 64, bias_backward_columns, &a);
}

static void embed_rows(void *arg, int64_t begin, int64_t end, int thread)
{
	const struct row_args *a = arg;
	for (int64_t t = begin; t < end; t++)
		memcpy(a->out + t * a->N, a->in + (int64_t)a->ids[t] * a->N, (size_t)a->N * sizeof(float));
}

static void embed(struct ops_context *c, float *out, const float *table, const int32_t *ids, int T, int C)
{
	struct row_args a = {.out = out, .in = table, .ids = ids, .M = T, .N = C};
	pool_run(c->pool, T, rows_grain(C), embed_rows, &a);
}

/* Split by columns: an id may occur in many rows. */
static void embed_backward_columns(void *arg, int64_t begin, int64_t end, int thread)
{
	const struct row_args *a = arg;
	for (int t = 0; t < a->M; t++) {
		int64_t id = a->ids[t];
		CHECKF(id >= 0 && id < a->V, "token id %lld of %lld", (long long)id, (long long)a->V);
		float *row = a->out + id * a->N;
		const float *d = a->in + (int64_t)t * a->N;
		for (int64_t i = begin; i < end; i++) row[i] += d[i];
	}
}

static void embed_backward(
	struct ops_context *c, float *dtable, const float *dout, const int32_t *ids, int T, int C, int V)
{
	struct row_args a = {.out = dtable, .in = dout, .ids = ids, .M = T, .N = C, .V = V};
	pool_run(c->pool, C, 64, embed_backward_columns, &a);
}

void ISA(norm_entries)(struct cpu_ops *t)
{
	t->rmsnorm = rmsnorm;
	t->rmsnorm_backward = rmsnorm_backward;
	t->bias_add = bias_add;
	t->bias_backward = bias_backward;
	t->embed = embed;
	t->embed_backward = embed_backward;
}
