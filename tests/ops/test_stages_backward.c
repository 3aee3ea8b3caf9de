/* The stages of the backward pass and the optimiser, on each backend, against references in double
 * that are written from the formulas alone; the references themselves against finite differences.
 * Bounds are derived: u is the rounding of elem (2^-8 on a GPU), sums of n terms in fp32 are within
 * n 2^-23 of the sum of their magnitudes (tensor cores cut instead of rounding). Without a GPU its
 * half is skipped, and counted; with HONE_REQUIRE_GPU=1 that is a failure. */
#include "stage_backward.h"

/* ---- norm ---- */

/* dx of a row and dw's terms; shared by rows and heads. */
static void norm_row(
	double *dx, double *dw, double *dw_magnitude, const double *dy, const float *x, const float *w, double rstd, int n)
{
	double mean = 0;
	for (int i = 0; i < n; i++) mean += dy[i] * w[i] * x[i] * rstd;
	mean /= n;
	for (int i = 0; i < n; i++) {
		dx[i] = rstd * (dy[i] * w[i] - x[i] * rstd * mean);
		dw[i] += dy[i] * x[i] * rstd;
		dw_magnitude[i] += fabs(dy[i] * x[i] * rstd);
	}
}

/* How far dx may be off: of the mean, and of the difference. */
static double norm_row_error(const double *dy, const float *x, const float *w, double rstd, int n, int i)
{
	double magnitude = 0;
	for (int k = 0; k < n; k++) magnitude += fabs(dy[k] * w[k] * x[k] * rstd);
	return (n + 8) * SUM_U * rstd * (fabs(dy[i] * w[i]) + fabs(x[i] * rstd) * magnitude / n);
}

static double rstd_of(const float *x, int n)
{
	double squares = 0;
	for (int i = 0; i < n; i++) squares += (double)x[i] * x[i];
	return 1 / sqrt(squares / n + 1e-6);
}

static void norm_check(struct harness *h, int rows, int C, enum ops_accumulate acc)
{
	struct ops *o = h->o;
	int T = rows + (o->host_memory ? 0 : 5), row = C + o->tail;
	int64_t n = (int64_t)rows * C;
	float *x = randoms(h, n, 1), *dy = randoms(h, n, 1), *w = randoms(h, C, 1), *old = randoms(h, n, 1),
		  *zeros = host_floats(C), *rstd = host_floats(T);
	double *want = doubles(n), *bound = doubles(n), *dw = doubles(C), *dw_bound = doubles(C), *d = doubles(C);
	/* What is expected, in fp64, with the bound that its roundings allow. */
	for (int t = 0; t < rows; t++) {
		int64_t at = (int64_t)t * C;
		rstd[t] = (float)rstd_of(x + at, C);
		for (int i = 0; i < C; i++) d[i] = dy[at + i];
		norm_row(want + at, dw, dw_bound, d, x + at, w, rstd[t], C);
		for (int i = 0; i < C; i++) {
			if (acc == OPS_ADD) want[at + i] += old[at + i];
			bound[at + i] = SLACK * (h->u * fabs(want[at + i]) + norm_row_error(d, x + at, w, rstd[t], C, i)) + 1e-30;
		}
	}
	for (int i = 0; i < C; i++) dw_bound[i] = SLACK * (rows + 4) * SUM_U * dw_bound[i] + 1e-30;

	/* The same on the backend, with rows behind the last that must not matter. */
	struct array ax = rows_make(h, x, rows, C, T, C, 1), ady = rows_make(h, dy, rows, C, T, row, 0),
				 aw = array_make(h, w, C);
	struct array dx = acc == OPS_ADD ? rows_make(h, old, rows, C, T, C, 0) : array_make(h, NULL, (int64_t)T * C);
	struct f32_array grad = f32_make(h, zeros, C), ar = f32_make(h, rstd, T);
	struct ops_weight weight = {.rows = 1, .cols = C, .ld = C, .w = aw.p, .grad = grad.p};
	o->norm_backward(o->ctx, dx.p, ady.p, ax.p, &weight, ar.p, T, acc);
	char what[64];
	snprintf(what, sizeof what, "norm (%d, %d)%s dx", rows, C, acc == OPS_ADD ? " adds" : "");
	float *got = rows_take(h, what, &dx, rows, C, T, C), *got_dw = f32_take(h, "dw", &grad);
	compare(h, what, got, want, bound, n);
	compare(h, "norm dw", got_dw, dw, dw_bound, C);
	array_drop(h, &ax), array_drop(h, &ady), array_drop(h, &aw), f32_drop(h, &ar);
	float *data[] = {x, dy, w, old, zeros, rstd, got, got_dw};
	double *more[] = {want, bound, dw, dw_bound, d};
	for (size_t i = 0; i < ARRAY_LEN(data); i++) free(data[i]);
	for (size_t i = 0; i < ARRAY_LEN(more); i++) free(more[i]);
}

static void norm_body(struct harness *h)
{
	norm_check(h, 37, 72, OPS_SET);
	norm_check(h, 16, 576, OPS_ADD);
	norm_check(h, 33, 4096, OPS_ADD);
	norm_check(h, 3, 12280, OPS_SET);
	norm_check(h, 18, 5000, OPS_ADD);
	norm_check(h, 1, 8, OPS_SET);
}

/* ---- heads ---- */

struct heads_case {
	int NH, NKV, HD;
	bool has_norm;
};

/* One head of one token: d is its gradient behind the rotation; dw and dw_bound gain its terms. */
static void head_row_reference(const struct heads_case *c, const float *d, const float *x, const float *w,
	const float *cosines, double r, double u, double *want, double *bound, double *dw, double *dw_bound)
{
	int HD = c->HD;
	const float *sines = cosines + HD / 2;
	double back[256];
	for (int i = 0; i < HD / 2; i++) {
		double low = d[i], high = d[HD / 2 + i];
		back[i] = low * cosines[i] + high * sines[i];
		back[HD / 2 + i] = high * cosines[i] - low * sines[i];
	}
	for (int i = 0; i < HD && !c->has_norm; i++) want[i] = back[i];
	if (c->has_norm) norm_row(want, dw, dw_bound, back, x, w, r, HD);
	for (int i = 0; i < HD; i++)
		bound[i] = SLACK *
			((u + 0x1p-21) * fabs(want[i]) + 0x1p-20 + (c->has_norm ? norm_row_error(back, x, w, r, HD, i) : 0));
}

static void heads_check(struct harness *h, const struct heads_case *c)
{
	struct ops *o = h->o;
	struct lengths lengths = {3, {19, 1, 12}};
	int T, rows = rows_of(&lengths), HD = c->HD, Q = c->NH * HD, KV = c->NKV * HD, widths[] = {Q, KV, KV},
		   all_heads = c->NH + c->NKV;
	struct ops_batch *b = batch_of(h, &lengths, NULL, &T);
	float *rope = host_floats((int64_t)32 * HD), *norms = randoms(h, 2 * HD, 1),
		  *raw[2] = {randoms(h, (int64_t)rows * Q, 1), randoms(h, (int64_t)rows * KV, 1)};
	float *d[2] = {randoms(h, (int64_t)rows * Q, 1), randoms(h, (int64_t)rows * KV, 1)},
		  *rstd = host_floats((int64_t)T * all_heads), *zeros = host_floats(HD);
	float *qkv = host_floats((int64_t)T * (Q + 2 * KV)), *din = host_floats((int64_t)T * (Q + 2 * KV));
	for (int p = 0; p < 32; p++)
		for (int i = 0; i < HD / 2; i++)
			rope[p * HD + i] = (float)cos(p / (1.0 + i)), rope[p * HD + HD / 2 + i] = (float)sin(p / (1.0 + i));

	/* the reference, head by head */
	double *want[2], *bound[2], *dw = doubles(2 * HD), *dw_bound = doubles(2 * HD);
	for (int part = 0; part < 2; part++) {
		want[part] = doubles((int64_t)rows * widths[part]), bound[part] = doubles((int64_t)rows * widths[part]);
		for (int t = 0, p = 0, s = 0; t < rows; t++, p++) {
			if (p == lengths.n[s]) p = 0, s++;
			for (int head = 0; head < widths[part] / HD; head++) {
				int64_t at = (int64_t)t * widths[part] + head * HD, planes = part ? (int64_t)T * c->NH : 0;
				float r = (float)rstd_of(raw[part] + at, HD);
				rstd[o->host_memory ? planes + (int64_t)t * (widths[part] / HD) + head
									: (int64_t)t * all_heads + (part ? c->NH : 0) + head] = r;
				head_row_reference(c, d[part] + at, raw[part] + at, norms + part * HD, rope + p * HD, r, h->u,
					want[part] + at, bound[part] + at, dw + part * HD, dw_bound + part * HD);
			}
		}
	}
	for (int part = 0; part < 2; part++)
		for (int t = 0; t < rows; t++)
			for (int i = 0; i < widths[part]; i++) {
				qkv[part_at(h, T, widths, 3, part, t, i)] = raw[part][(int64_t)t * widths[part] + i];
				din[part_at(h, T, widths, 3, part, t, i)] = d[part][(int64_t)t * widths[part] + i];
			}
	for (int i = 0; i < 2 * HD; i++) dw_bound[i] = SLACK * (rows * c->NH + 8) * 2 * SUM_U * dw_bound[i] + 1e-30;

	/* on the backend: without a norm in place */
	struct array aqkv = array_make(h, qkv, (int64_t)T * (Q + 2 * KV)), anorms = array_make(h, norms, 2 * HD);
	struct array dqkv = array_make(h, c->has_norm ? NULL : din, (int64_t)T * (Q + 2 * KV)), dq = dqkv, dk = dqkv;
	if (c->has_norm) dq = rows_make(h, d[0], rows, Q, T, Q, 0), dk = rows_make(h, d[1], rows, KV, T, KV, 0);
	struct f32_array arope = f32_make(h, rope, 32 * HD), ar = f32_make(h, rstd, (int64_t)T * all_heads),
					 grad[2] = {f32_make(h, zeros, HD), f32_make(h, zeros, HD)};
	struct ops_weight q_norm = {.rows = 1, .cols = HD, .ld = HD, .w = anorms.p, .grad = grad[0].p}, k_norm = q_norm;
	k_norm.w = ops_elem_at(o, anorms.p, HD), k_norm.grad = grad[1].p;
	struct ops_heads heads = {
		c->NH, c->NKV, HD, 1e-6f, c->has_norm ? &q_norm : NULL, c->has_norm ? &k_norm : NULL, arope.p};
	o->heads_backward(o->ctx, dqkv.p, dq.p, dk.p, aqkv.p, ar.p, &heads, b, T);

	float *got = array_take(h, "dqkv", &dqkv);
	char what[64];
	for (int part = 0; part < 2; part++) {
		float *mine = part_take(h, got, T, widths, 3, part, rows), *got_dw = f32_take(h, "dw", &grad[part]);
		snprintf(what, sizeof what, "heads %d/%d of %d%s d%c", c->NH, c->NKV, HD, c->has_norm ? ", norm" : "",
			part ? 'k' : 'q');
		compare(h, what, mine, want[part], bound[part], (int64_t)rows * widths[part]);
		if (c->has_norm) compare(h, "heads dw", got_dw, dw + part * HD, dw_bound + part * HD, HD);
		free(mine), free(got_dw), free(want[part]), free(bound[part]), free(raw[part]), free(d[part]);
	}
	if (c->has_norm) array_drop(h, &dq), array_drop(h, &dk);
	array_drop(h, &aqkv), array_drop(h, &anorms), f32_drop(h, &arope), f32_drop(h, &ar);
	free(got), free(rope), free(norms), free(rstd), free(zeros), free(qkv), free(din), free(dw), free(dw_bound);
	o->batch_free(o->ctx, b);
}

static void heads_body(struct harness *h)
{
	static const struct heads_case cases[] = {{4, 2, 32, true}, {3, 1, 64, false}, {9, 3, 64, true}, {8, 2, 128, true},
		{2, 2, 128, false}, {3, 1, 256, true}, {3, 1, 32, false}, {2, 1, 256, false}, {4, 2, 96, true},
		{3, 1, 120, true}, {2, 2, 8, true}, {2, 1, 200, false}, {2, 1, 48, true}};
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) heads_check(h, &cases[i]);
}

/* ---- gate ---- */

static void gate_check(struct harness *h, int rows, int I)
{
	struct ops *o = h->o;
	int T = rows + (o->host_memory ? 0 : 3), widths[] = {I, I};
	int64_t n = (int64_t)rows * I;
	float *x[2] = {randoms(h, n, 3), randoms(h, n, 1)}, *d = randoms(h, n, 1), *gu = host_floats((int64_t)T * 2 * I);
	x[0][0] = rounded(h, -100), x[0][1 % n] = rounded(h, 100); /* exp at its ends */
	double *want[2] = {doubles(n), doubles(n)}, *bound[2] = {doubles(n), doubles(n)};
	for (int64_t i = 0; i < n; i++) {
		double g = x[0][i], s = 1 / (1 + exp(-g)), slope = s * (1 + g * (1 - s));
		want[0][i] = (double)d[i] * x[1][i] * slope, want[1][i] = d[i] * g * s;
		/* exp is off by 2^-21 |g|, sigmoid and 1 - s with it */
		double e = 0x1p-20 * (1 + fabs(g)) * s * (1 + fabs(g));
		bound[0][i] = SLACK * (h->u * fabs(want[0][i]) + fabs((double)d[i] * x[1][i]) * (e + 0x1p-22)) + 1e-30;
		bound[1][i] = SLACK * (h->u * fabs(want[1][i]) + fabs((double)d[i]) * e) + 1e-30;
	}
	for (int part = 0; part < 2; part++)
		for (int t = 0; t < rows; t++)
			for (int i = 0; i < I; i++) gu[part_at(h, T, widths, 2, part, t, i)] = x[part][(int64_t)t * I + i];
	struct array agu = array_make(h, gu, (int64_t)T * 2 * I), dact = rows_make(h, d, rows, I, T, I + o->tail, 0),
				 dgu = array_make(h, NULL, (int64_t)T * 2 * I);
	o->gate_backward(o->ctx, dgu.p, dact.p, agu.p, I, T);
	float *got = array_take(h, "dgu", &dgu);
	for (int part = 0; part < 2; part++) {
		float *mine = part_take(h, got, T, widths, 2, part, rows);
		compare(h, part ? "gate dup" : "gate dgate", mine, want[part], bound[part], n);
		free(mine), free(want[part]), free(bound[part]), free(x[part]);
	}
	array_drop(h, &agu), array_drop(h, &dact);
	free(got), free(gu), free(d);
}

static void gate_body(struct harness *h)
{
	gate_check(h, 13, 72);
	gate_check(h, 1, 8);
	gate_check(h, 40, 1536);
}

/* ---- rows that are added at places ---- */

static void embed_body(struct harness *h)
{
	struct ops *o = h->o;
	enum { V = 50, C = 72 };
	struct lengths lengths = {2, {300, 41}};
	int T, rows = rows_of(&lengths);
	int32_t *ids = xcalloc((size_t)rows, sizeof *ids);
	/* One token comes often, so that many rows add to one place. */
	for (int t = 0; t < rows; t++) ids[t] = t % 3 == 0 ? 7 : (int32_t)(rng_u32(5, 5, (uint64_t)t) % V);
	struct ops_batch *b = batch_of(h, &lengths, ids, &T);
	float *d = randoms(h, (int64_t)rows * C, 1), *old = randoms(h, V * C, 1);
	/* Expected, in fp64. */
	double *want = doubles(V * C), *bound = doubles(V * C);
	for (int i = 0; i < V * C; i++) want[i] = old[i], bound[i] = fabs((double)old[i]);
	for (int t = 0; t < rows; t++)
		for (int i = 0; i < C; i++)
			want[ids[t] * C + i] += d[(int64_t)t * C + i], bound[ids[t] * C + i] += fabs((double)d[(int64_t)t * C + i]);
	for (int i = 0; i < V * C; i++) bound[i] = SLACK * rows * SUM_U * bound[i] + 1e-30;
	/* On the backend. */
	struct array dx = rows_make(h, d, rows, C, T, C, 1);
	struct f32_array grad = f32_make(h, old, V * C);
	struct ops_weight table = {.rows = V, .cols = C, .ld = C, .grad = grad.p};
	o->embed_backward(o->ctx, &table, dx.p, b, T);
	float *got = f32_take(h, "dtable", &grad);
	compare(h, "embed dtable", got, want, bound, V * C);
	array_drop(h, &dx);
	free(got), free(d), free(old), free(want), free(bound), free(ids);
	o->batch_free(o->ctx, b);
}

static void scatter_body(struct harness *h)
{
	struct ops *o = h->o;
	enum { C = 136, WANTED = 21, FIRST = 4 };
	struct lengths lengths = {1, {50}};
	int T, rows = 50, row = C + o->tail;
	struct ops_batch *b = batch_of(h, &lengths, NULL, &T);
	int32_t at[WANTED], target[WANTED];
	for (int i = 0; i < WANTED; i++) at[i] = (i * 7) % 50, target[i] = 0;
	int n = o->batch_want(o->ctx, b, &(struct ops_want){.n = WANTED, .at = at, .target = target});
	float *d = randoms(h, (int64_t)n * C, 1), *old = randoms(h, (int64_t)rows * C, 1);
	double *want = doubles((int64_t)rows * C), *bound = doubles((int64_t)rows * C);
	for (int64_t i = 0; i < (int64_t)rows * C; i++) want[i] = old[i];
	for (int i = FIRST; i < WANTED; i++)
		for (int k = 0; k < C; k++) want[at[i] * C + k] += d[(int64_t)(i - FIRST) * C + k];
	for (int64_t i = 0; i < (int64_t)rows * C; i++) bound[i] = SLACK * (h->u + 0x1p-23) * fabs(want[i]) + 1e-30;
	struct array ad = rows_make(h, d, n - FIRST, C, n - FIRST, C, 0), dx = rows_make(h, old, rows, C, T, row, 0);
	o->scatter(o->ctx, dx.p, ad.p, C, o->tail, b, FIRST, n - FIRST);
	float *got = rows_take(h, "dx", &dx, rows, C, T, row);
	compare(h, "scatter", got, want, bound, (int64_t)rows * C);
	array_drop(h, &ad);
	free(got), free(d), free(old), free(want), free(bound);
	o->batch_free(o->ctx, b);
}

/* ---- head ---- */

struct head_want { /* values and bounds: (rows, V), (rows, C), (V, C) */
	double *d, *d_bound, *dx, *dx_bound, *dw, *dw_bound;
};

/* d logits, then dx and dW; the rows' log-sum-exps go to out. */
static struct head_want head_reference(const float *logits, const float *x, const float *w, const float *g,
	const float *temperature, const int32_t *target, float *out, int used, int V, int C, double u)
{
	double *d = doubles((int64_t)used * V), *d_bound = doubles((int64_t)used * V), *dx = doubles((int64_t)used * C),
		   *dx_bound = doubles((int64_t)used * C);
	double *dw = doubles((int64_t)V * C), *dw_bound = doubles((int64_t)V * C);
	for (int r = 0; r < used; r++) {
		/* Softmax of the row. */
		double inverse = 1 / (double)temperature[r], top = -INFINITY, sum = 0;
		for (int v = 0; v < V; v++) top = fmax(top, logits[(int64_t)r * V + v] * inverse);
		for (int v = 0; v < V; v++) sum += exp(logits[(int64_t)r * V + v] * inverse - top);
		double lse = top + log(sum);
		out[r * OPS_FIGURES + 2] = (float)lse;
		/* Its gradient, and what that gives to x and to W, with bounds for both. */
		for (int v = 0; v < V; v++) {
			int64_t i = (int64_t)r * V + v;
			double z = logits[i] * inverse, p = exp(z - lse);
			d[i] = g[r] * inverse * ((v == target[r]) - p);
			d_bound[i] = SLACK *
					(u * fabs(d[i]) + fabs(g[r] * inverse) * (p * 0x1p-20 * (1 + fabs(z) + fabs(lse)) + 0x1p-22)) +
				1e-30;
			for (int k = 0; k < C; k++) {
				double weight = w[(int64_t)v * C + k], input = x[(int64_t)r * C + k];
				dx[r * C + k] += d[i] * weight,
					dx_bound[r * C + k] += (d_bound[i] + V * SUM_U * fabs(d[i])) * fabs(weight);
				dw[(int64_t)v * C + k] += d[i] * input,
					dw_bound[(int64_t)v * C + k] += (d_bound[i] + used * SUM_U * fabs(d[i])) * fabs(input);
			}
		}
	}
	for (int i = 0; i < used * C; i++) dx_bound[i] = SLACK * (dx_bound[i] + u * fabs(dx[i])) + 1e-30;
	for (int64_t i = 0; i < (int64_t)V * C; i++) dw_bound[i] = SLACK * dw_bound[i] + 1e-30;
	return (struct head_want){d, d_bound, dx, dx_bound, dw, dw_bound};
}

static void head_check(struct harness *h, int wanted, int V, int C)
{
	struct ops *o = h->o;
	struct lengths lengths = {1, {40}};
	int T;
	struct ops_batch *b = batch_of(h, &lengths, NULL, &T);
	int32_t *at = xcalloc((size_t)wanted, sizeof *at), *target = xcalloc((size_t)wanted, sizeof *target);
	float *temperature = host_floats(wanted);
	for (int i = 0; i < wanted; i++)
		at[i] = i % 40, target[i] = (i * 131) % V, temperature[i] = 0.5f + 0.25f * (float)(i % 4);
	int n = o->batch_want(
			o->ctx, b, &(struct ops_want){.n = wanted, .at = at, .target = target, .temperature = temperature}),
		first = wanted > 2 ? 1 : 0;
	int rows = n - first, used = wanted - first;
	float *logits = randoms(h, (int64_t)rows * V, 2), *x = randoms(h, (int64_t)rows * C, 1),
		  *w = randoms(h, (int64_t)V * C, 0.1f), *g = randoms(h, used, 1);
	float *out = host_floats((int64_t)rows * OPS_FIGURES), *weights = host_floats((int64_t)V * (C + o->tail)),
		  *zeros = host_floats((int64_t)V * C);
	if (used > 1) g[1] = 0;
	for (int64_t i = (int64_t)used * V; i < (int64_t)rows * V; i++)
		logits[i] = NAN; /* what surplus rows hold is not looked at */
	for (int64_t i = 0; i < (int64_t)used * C; i++) x[i] = rounded(h, x[i]);
	for (int v = 0; v < V; v++)
		for (int k = 0; k < C + o->tail; k++)
			weights[(int64_t)v * (C + o->tail) + k] = k < C ? w[(int64_t)v * C + k] : NAN;

	struct head_want want = head_reference(logits, x, w, g, temperature + first, target + first, out, used, V, C, h->u);
	struct f32_array alogits = f32_make(h, logits, (int64_t)rows * V),
					 aout = f32_make(h, out, (int64_t)rows * OPS_FIGURES), grad = f32_make(h, zeros, (int64_t)V * C);
	struct array ax = array_make(h, x, (int64_t)rows * C), aw = array_make(h, weights, (int64_t)V * (C + o->tail)),
				 adx = array_make(h, NULL, (int64_t)rows * C);
	struct ops_linear head = {.in = C, .out = V, .parts = 1};
	head.w[0] = (struct ops_weight){.rows = V, .cols = C, .ld = C + o->tail, .w = aw.p, .grad = grad.p};
	o->head_backward(o->ctx, adx.p, alogits.p, aout.p, g, ax.p, &head, b, first, rows, V);

	/* d logits lie in the first half of each row of logits on a GPU */
	int64_t row = (int64_t)V * 4 / o->elem_bytes;
	float *half = host_floats(rows * row), *got_d = host_floats((int64_t)used * V);
	o->get_elem(o->ctx, half, (const struct elem *)alogits.p, rows * row);
	for (int r = 0; r < used; r++) memcpy(got_d + (int64_t)r * V, half + r * row, (size_t)V * sizeof *got_d);
	char what[64];
	snprintf(what, sizeof what, "head %d rows of %d: d logits", used, V);
	compare(h, what, got_d, want.d, want.d_bound, (int64_t)used * V);
	float *got_dx = rows_take(h, "head dx", &adx, used, C, rows, C), *got_dw = f32_take(h, "head dw", &grad);
	compare(h, "head dx", got_dx, want.dx, want.dx_bound, (int64_t)used * C);
	compare(h, "head dw", got_dw, want.dw, want.dw_bound, (int64_t)V * C);
	f32_drop(h, &alogits), f32_drop(h, &aout), array_drop(h, &ax), array_drop(h, &aw);
	float *data[] = {logits, x, w, g, out, weights, zeros, half, got_d, got_dx, got_dw, temperature};
	double *more[] = {want.d, want.d_bound, want.dx, want.dx_bound, want.dw, want.dw_bound};
	for (size_t i = 0; i < ARRAY_LEN(data); i++) free(data[i]);
	for (size_t i = 0; i < ARRAY_LEN(more); i++) free(more[i]);
	free(at), free(target);
	o->batch_free(o->ctx, b);
}

static void head_body(struct harness *h)
{
	head_check(h, 5, 40, 24);
	head_check(h, 13, 9000, 16);
	head_check(h, 3, 4097, 8);
	head_check(h, 1, 37, 8);
}

/* ---- optimiser ---- */

#define WEIGHTS 4
static const struct {
	int rows, cols, gap;
} optimised[WEIGHTS] = {{33, 72, 64}, {1, 1000, 0}, {16, 1, 0}, {300, 60, 0}};

static void adamw_want(double *p, double *m, double *v, double g, bool decays, const struct ops_adamw *o)
{
	g *= o->grad_scale;
	*m += (1 - (double)o->beta1) * (g - *m);
	*v = o->beta2 * *v + (1 - (double)o->beta2) * g * g;
	double first = *m / (1 - pow(o->beta1, (double)o->step)), second = *v / (1 - pow(o->beta2, (double)o->step));
	if (decays) *p *= 1 - (double)o->lr * o->weight_decay;
	*p -= o->lr * first / (sqrt(second) + o->eps);
}

struct optimised_arrays {
	struct f32_array master, grad, m, v;
	struct array copy; /* bf16 beside the master; none on the CPU */
};

/* Weight i after the last step. fp32 steps of lr each: a few roundings of
 * p, and of the quotient. */
static void optimised_check(struct harness *h, int i, struct optimised_arrays *a, double *want, int64_t ld)
{
	int64_t n = (int64_t)optimised[i].rows * optimised[i].cols, cleared = 0;
	double *bound = doubles(n);
	for (int64_t k = 0; k < n; k++) bound[k] = 6 * 0x1p-23 * (fabs(want[k]) + 0.01 * 16) + 1e-30;
	float *p = f32_take(h, "master", &a->master);
	compare(h, "adamw master", p, want, bound, n);
	float *g = f32_take(h, "grad", &a->grad);
	for (int64_t k = 0; k < n; k++) cleared += g[k] == 0;
	if (cleared != n)
		print_error("%lld of %lld gradients are not cleared\n", (long long)(n - cleared), (long long)n), h->failures++;
	free(g), f32_drop(h, &a->m), f32_drop(h, &a->v);
	for (int r = 0; a->copy.base && r < optimised[i].rows; r++)
		for (int k = 0; k < optimised[i].cols; k++)
			want[(int64_t)r * optimised[i].cols + k] = rounded(h, p[(int64_t)r * optimised[i].cols + k]);
	if (a->copy.base) {
		float *w = rows_take(h, "w", &a->copy, optimised[i].rows, optimised[i].cols, optimised[i].rows, (int)ld);
		compare(h, "adamw w", w, want, bound, n);
		free(w);
	}
	free(p), free(bound), free(want);
}

static void optimiser_body(struct harness *h)
{
	struct ops *o = h->o;
	struct ops_weight weights[WEIGHTS], *list[WEIGHTS];
	struct optimised_arrays arrays[WEIGHTS] = {0};
	double *p_want[WEIGHTS], *m_want[WEIGHTS], *v_want[WEIGHTS];
	for (int i = 0; i < WEIGHTS; i++) {
		/* Each weight on the backend and as fp64 here. */
		int64_t n = (int64_t)optimised[i].rows * optimised[i].cols;
		int gap = o->host_memory ? 0 : optimised[i].gap, ld = optimised[i].cols + gap;
		float *p = randoms(h, n, 1), *zeros = host_floats(n);
		arrays[i].copy = o->host_memory
			? (struct array){0}
			: rows_make(h, p, optimised[i].rows, optimised[i].cols, optimised[i].rows, ld, 3);
		arrays[i].master = f32_make(h, p, n);
		weights[i] = (struct ops_weight){
			.rows = optimised[i].rows, .cols = optimised[i].cols, .ld = ld, .master = arrays[i].master.p};
		weights[i].w = o->host_memory ? (struct elem *)arrays[i].master.p : arrays[i].copy.p;
		list[i] = &weights[i];
		p_want[i] = doubles(n), m_want[i] = doubles(n), v_want[i] = doubles(n);
		for (int64_t k = 0; k < n; k++) p_want[i][k] = p[k];
		arrays[i].m = f32_make(h, zeros, n), arrays[i].v = f32_make(h, zeros, n);
		weights[i].m = arrays[i].m.p, weights[i].v = arrays[i].v.p;
		free(p), free(zeros);
	}
	for (int step = 1; step <= 3; step++) {
		/* Three steps, so that moments have a past. */
		struct ops_adamw a = {.lr = 0.01f,
			.beta1 = 0.9f,
			.beta2 = 0.95f,
			.eps = 1e-8f,
			.weight_decay = 0.1f,
			.grad_scale = 0.7f,
			.step = step};
		double squares = 0;
		for (int i = 0; i < WEIGHTS; i++) {
			int64_t n = (int64_t)optimised[i].rows * optimised[i].cols;
			float *g = randoms(h, n, 0.1f);
			if (step == 1) arrays[i].grad = f32_make(h, g, n), weights[i].grad = arrays[i].grad.p;
			else o->put_f32(o->ctx, arrays[i].grad.p, g, n);
			for (int64_t k = 0; k < n; k++) {
				squares += (double)g[k] * g[k];
				adamw_want(&p_want[i][k], &m_want[i][k], &v_want[i][k], g[k], optimised[i].rows != 1, &a);
			}
			free(g);
		}
		/* The norm that clipping needs, then the update of all weights. */
		double got = o->sum_squares(o->ctx, list, WEIGHTS);
		if (!(fabs(got - squares) <= 1e-12 * squares))
			print_error("sum of squares %.17g, expected %.17g\n", got, squares), h->failures++;
		bits_add(h, &got, sizeof got);
		o->adamw(o->ctx, list, WEIGHTS, &a);
	}
	for (int i = 0; i < WEIGHTS; i++) {
		optimised_check(h, i, &arrays[i], p_want[i], weights[i].ld);
		free(m_want[i]), free(v_want[i]);
	}
}

/* ---- the reference against finite differences ---- */

static double norm_loss(const float *x, const float *w, const double *dy, int n)
{
	double r = rstd_of(x, n), loss = 0;
	for (int i = 0; i < n; i++) loss += dy[i] * x[i] * r * w[i];
	return loss;
}

static void norm_differences(void **state)
{
	enum { N = 24 };
	float x[N], w[N];
	double dy[N], dx[N], dw[N] = {0}, magnitude[N] = {0};
	for (int i = 0; i < N; i++)
		x[i] = rng_normal(2, 1, (uint64_t)i), w[i] = rng_normal(2, 2, (uint64_t)i),
		dy[i] = rng_normal(2, 3, (uint64_t)i);
	norm_row(dx, dw, magnitude, dy, x, w, rstd_of(x, N), N);
	for (int i = 0; i < 2 * N; i++) {
		float *p = i < N ? &x[i] : &w[i - N], keep = *p;
		volatile float up = keep + DIFFERENCE, down = keep - DIFFERENCE;
		*p = up;
		double high = norm_loss(x, w, dy, N);
		*p = down;
		double low = norm_loss(x, w, dy, N);
		*p = keep;
		difference_check(
			i < N ? "norm dx" : "norm dw", i < N ? dx[i] : dw[i - N], (high - low) / ((double)up - (double)down));
	}
}

/* ---- the list ---- */

#define CASES(X) X(norm) X(heads) X(gate) X(embed) X(scatter) X(head) X(optimiser)
CASES(CASE_BOTH)

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(norm_differences), CASES(CASE_LIST)};
	return cases_run(argc, argv, tests);
}
