/* The stages of the backward pass and the optimiser, on each backend, against references in double that are written
 * from the formulas alone; the references themselves against finite differences. Bounds are derived: u is the rounding
 * of elem (2^-8 on a GPU), sums of n terms in fp32 are within n 2^-23 of the sum of their magnitudes (tensor cores cut
 * instead of rounding). Without a GPU its half is skipped, and counted; with HONE_REQUIRE_GPU=1 that is a failure. */
#include "stage_harness.h"

#define SUM_U 0x1p-23 /* a step of a sum in fp32 */
#define SLACK 1.1     /* products of two errors */

/* ---- batches ---- */

struct lengths {
	int S;
	int n[8];
};

static int rows_of(const struct lengths *l)
{
	int T = 0;
	for (int s = 0; s < l->S; s++) T += l->n[s];
	return T;
}

/* A packed batch with room for more rows than it has, so that a backend may round up. ids (T) may be NULL. */
static struct ops_batch *batch_of(struct harness *h, const struct lengths *l, const int32_t *ids, int *T)
{
	struct ops *o = h->o;
	int rows = rows_of(l), t = 0;
	int32_t *all = xcalloc((size_t)rows * 3, sizeof *all), *pos = all + rows, *sequence = pos + rows;
	for (int s = 0; s < l->S; s++)
		for (int i = 0; i < l->n[s]; i++, t++) all[t] = ids ? ids[t] : t % 7, pos[t] = i, sequence[t] = s;
	struct ops_batch *b = o->batch_create(o->ctx, rows + 128, l->S + 1, 0, rows + 128, rows + 128);
	*T = o->batch_put(
		o->ctx, b, &(struct ops_rows){.T = rows, .S = l->S, .ids = all, .pos = pos, .sequence = sequence});
	free(all);
	return b;
}

/* (rows, width) values as an array of T rows with `row` elements each; the rest is `fill`. */
static struct array rows_make(struct harness *h, const float *x, int rows, int width, int T, int row, float fill)
{
	float *all = host_floats((int64_t)T * row);
	for (int t = 0; t < T; t++)
		for (int i = 0; i < row; i++)
			all[(int64_t)t * row + i] = t < rows && i < width ? x[(int64_t)t * width + i] : fill;
	struct array a = array_make(h, all, (int64_t)T * row);
	free(all);
	return a;
}

/* The way back, in place: the first `width` of each of `rows` rows, without gaps. Surplus rows must be finite. */
static float *rows_take(struct harness *h, const char *name, struct array *a, int rows, int width, int T, int row)
{
	float *x = array_take(h, name, a);
	for (int t = 0; t < T; t++)
		for (int i = 0; i < width; i++) {
			float v = x[(int64_t)t * row + i];
			if (t < rows) x[(int64_t)t * width + i] = v;
			else if (!isfinite(v)) {
				print_error("%s: surplus row %d holds %g\n", name, t, (double)v);
				h->failures++;
				return x;
			}
		}
	return x;
}

/* ---- attention ---- */

struct attention {
	int NH, NKV, HD;
	struct lengths lengths;
	bool in_place; /* q and k lie in qkv */
};

struct attention_want { /* values and bounds, (T, Q) or (T, KV) or (T, NH) */
	double *o, *lse, *dq, *dk, *dv, *o_bound, *lse_bound, *dq_bound, *dk_bound, *dv_bound;
};

static struct attention_want attention_want_make(int T, int Q, int KV, int NH)
{
	return (struct attention_want){doubles((int64_t)T * Q), doubles((int64_t)T * NH), doubles((int64_t)T * Q),
		doubles((int64_t)T * KV), doubles((int64_t)T * KV), doubles((int64_t)T * Q), doubles((int64_t)T * NH),
		doubles((int64_t)T * Q), doubles((int64_t)T * KV), doubles((int64_t)T * KV)};
}

static void attention_want_free(struct attention_want *w)
{
	double *all[] = {
		w->o, w->lse, w->dq, w->dk, w->dv, w->o_bound, w->lse_bound, w->dq_bound, w->dk_bound, w->dv_bound};
	for (size_t i = 0; i < ARRAY_LEN(all); i++) free(all[i]);
}

static double dot(const float *a, const float *b, int n, double *magnitude)
{
	double sum = 0, m = 0;
	for (int i = 0; i < n; i++) sum += (double)a[i] * b[i], m += fabs((double)a[i] * b[i]);
	*magnitude = m;
	return sum;
}

/* One query of one head: rows begin at q, k, v of the sequence's first row. p: room for its keys. */
static void attention_row(const struct attention *a, const float *q, const float *k, const float *v, const float *dout,
	int first, int i, int head, double u, double *p, const struct attention_want *w)
{
	int HD = a->HD, Q = a->NH * HD, KV = a->NKV * HD, kv = head / (a->NH / a->NKV);
	int64_t t = first + i, at = t * Q + head * HD;
	double scale = 1 / sqrt(HD), top = -INFINITY, sum = 0, spread = 0, m;
	const float *key = k + (int64_t)first * KV + kv * HD, *value = v + (int64_t)first * KV + kv * HD;
	for (int j = 0; j <= i; j++) {
		p[j] = scale * dot(q + at, key + (int64_t)j * KV, HD, &m);
		top = fmax(top, p[j]);
		spread = fmax(spread, HD * SUM_U * m * scale);
	}
	for (int j = 0; j <= i; j++) sum += exp(p[j] - top);
	w->lse[t * a->NH + head] = top + log(sum);
	w->lse_bound[t * a->NH + head] = SLACK * (spread + 0x1p-20 * (1 + fabs(w->lse[t * a->NH + head])));
	for (int j = 0; j <= i; j++) p[j] = exp(p[j] - top) / sum;

	/* out; D = sum dO O and how far it may be off, O being rounded */
	double D = 0, D_error = 0, relative = 2 * spread + 0x1p-20;
	for (int d = 0; d < HD; d++) {
		double o = 0, magnitude = 0;
		for (int j = 0; j <= i; j++)
			o += p[j] * value[(int64_t)j * KV + d], magnitude += p[j] * fabs((double)value[(int64_t)j * KV + d]);
		w->o[at + d] = o;
		w->o_bound[at + d] = SLACK * (u * fabs(o) + (u + relative + i * SUM_U) * magnitude);
		D += (double)dout[at + d] * o;
		D_error += fabs((double)dout[at + d]) * (w->o_bound[at + d] + HD * SUM_U * fabs(o));
	}
	relative += w->lse_bound[t * a->NH + head];
	for (int j = 0; j <= i; j++) {
		const float *kj = key + (int64_t)j * KV, *vj = value + (int64_t)j * KV;
		double dp = dot(dout + at, vj, HD, &m), ds = p[j] * (dp - D);
		double error = p[j] * (fabs(dp - D) * (2 * u + relative + (i + HD) * SUM_U) + HD * SUM_U * m + D_error);
		int64_t to = (int64_t)(first + j) * KV + kv * HD;
		for (int d = 0; d < HD; d++) {
			w->dv[to + d] += p[j] * dout[at + d];
			w->dv_bound[to + d] += p[j] * (u + relative + (i + HD) * SUM_U) * fabs((double)dout[at + d]);
			w->dk[to + d] += scale * ds * q[at + d];
			w->dk_bound[to + d] += scale * error * fabs((double)q[at + d]);
			w->dq[at + d] += scale * ds * kj[d];
			w->dq_bound[at + d] += scale * error * fabs((double)kj[d]);
		}
	}
}

static void attention_reference(const struct attention *a, const float *q, const float *k, const float *v,
	const float *dout, double u, const struct attention_want *w)
{
	int T = rows_of(&a->lengths), first = 0;
	double *p = doubles(T);
	for (int s = 0; s < a->lengths.S; first += a->lengths.n[s++])
		for (int i = 0; i < a->lengths.n[s]; i++)
			for (int head = 0; head < a->NH; head++) attention_row(a, q, k, v, dout, first, i, head, u, p, w);
	free(p);
	double *value[] = {w->dq, w->dk, w->dv}, *bound[] = {w->dq_bound, w->dk_bound, w->dv_bound};
	for (int x = 0; x < 3; x++)
		for (int64_t i = 0; i < (int64_t)T * (x ? a->NKV : a->NH) * a->HD; i++)
			bound[x][i] = SLACK * (bound[x][i] + u * fabs(value[x][i])) + 1e-30;
}

struct attention_data {
	float *q, *k, *v, *dout;
};

/* qkv with v, and q and k where they lie in it; NaN elsewhere. */
static struct array qkv_make(struct harness *h, const struct attention *a, const struct attention_data *x, int T)
{
	int Q = a->NH * a->HD, KV = a->NKV * a->HD, widths[] = {Q, KV, KV}, rows = rows_of(&a->lengths);
	const float *from[] = {x->q, x->k, x->v};
	float *all = host_floats((int64_t)T * (Q + 2 * KV));
	for (int part = 0; part < 3; part++)
		for (int t = 0; t < T; t++)
			for (int i = 0; i < widths[part]; i++)
				all[part_at(h, T, widths, 3, part, t, i)] = t >= rows ? 0
					: part < 2 && !a->in_place                        ? NAN
																	  : from[part][(int64_t)t * widths[part] + i];
	struct array qkv = array_make(h, all, (int64_t)T * (Q + 2 * KV));
	free(all);
	return qkv;
}

/* A part of an array such as qkv, without gaps; rows of the batch alone. */
static float *part_take(struct harness *h, const float *all, int T, const int *widths, int parts, int part, int rows)
{
	float *x = host_floats((int64_t)rows * widths[part]);
	for (int t = 0; t < rows; t++)
		for (int i = 0; i < widths[part]; i++)
			x[(int64_t)t * widths[part] + i] = all[part_at(h, T, widths, parts, part, t, i)];
	return x;
}

static void attention_backward_check(struct harness *h, const struct attention *a, const struct attention_want *w,
	const char *name, struct array *dq, struct array *dk, struct array *dqkv, int T)
{
	int Q = a->NH * a->HD, KV = a->NKV * a->HD, widths[] = {Q, KV, KV}, rows = rows_of(&a->lengths);
	char what[128];
	float *all = array_take(h, "dqkv", dqkv), *got[3];
	for (int part = 0; part < 3; part++) got[part] = part_take(h, all, T, widths, 3, part, rows);
	if (!a->in_place) {
		free(got[0]);
		free(got[1]);
		got[0] = rows_take(h, "dq", dq, rows, Q, T, Q);
		got[1] = rows_take(h, "dk", dk, rows, KV, T, KV);
	}
	const double *want[] = {w->dq, w->dk, w->dv}, *bound[] = {w->dq_bound, w->dk_bound, w->dv_bound};
	static const char *const names[] = {"dq", "dk", "dv"};
	for (int part = 0; part < 3; part++) {
		snprintf(what, sizeof what, "%s %s", name, names[part]);
		compare(h, what, got[part], want[part], bound[part], (int64_t)rows * widths[part]);
		free(got[part]);
	}
	free(all);
}

/* Both directions; att_out (rows, Q) gets the forward result's bits where it is not NULL. */
static void attention_check(
	struct harness *h, const struct attention *a, const struct attention_data *x, float *att_out)
{
	struct ops *o = h->o;
	int T, rows = rows_of(&a->lengths), Q = a->NH * a->HD, KV = a->NKV * a->HD, row = Q + o->tail;
	char name[96];
	snprintf(name, sizeof name, "attend %d/%d heads of %d%s", a->NH, a->NKV, a->HD, a->in_place ? " in place" : "");
	struct ops_batch *b = batch_of(h, &a->lengths, NULL, &T);
	struct ops_heads heads = {.NH = a->NH, .NKV = a->NKV, .HD = a->HD};
	struct attention_want w = attention_want_make(rows, Q, KV, a->NH);
	attention_reference(a, x->q, x->k, x->v, x->dout, h->u, &w);

	/* forward into NaN */
	struct array qkv = qkv_make(h, a, x, T), att = array_make(h, NULL, (int64_t)T * row), q = qkv, k = qkv;
	if (!a->in_place) q = rows_make(h, x->q, rows, Q, T, Q, 0), k = rows_make(h, x->k, rows, KV, T, KV, 0);
	struct f32_array lse = f32_make(h, NULL, (int64_t)T * a->NH);
	o->attend(o->ctx, att.p, lse.p, q.p, k.p, qkv.p, &heads, b, T, NULL);

	/* backward from its att and lse, into NaN */
	struct array datt = rows_make(h, x->dout, rows, Q, T, row, 0),
				 dqkv = array_make(h, NULL, (int64_t)T * (Q + 2 * KV)), dq = dqkv, dk = dqkv;
	if (!a->in_place) dq = array_make(h, NULL, (int64_t)T * Q), dk = array_make(h, NULL, (int64_t)T * KV);
	o->attend_backward(o->ctx, dq.p, dk.p, dqkv.p, datt.p, att.p, lse.p, q.p, k.p, qkv.p, &heads, b, T);

	float *got = rows_take(h, "att", &att, rows, Q, T, row), *got_lse = f32_take(h, "lse", &lse);
	if (att_out) memcpy(att_out, got, (size_t)rows * (size_t)Q * sizeof *got);
	compare(h, name, got, w.o, w.o_bound, (int64_t)rows * Q);
	compare(h, "lse", got_lse, w.lse, w.lse_bound, (int64_t)rows * a->NH);
	attention_backward_check(h, a, &w, name, &dq, &dk, &dqkv, T);
	if (!a->in_place) array_drop(h, &q), array_drop(h, &k);
	array_drop(h, &qkv);
	array_drop(h, &datt);
	free(got);
	free(got_lse);
	attention_want_free(&w);
	o->batch_free(o->ctx, b);
}

static struct attention_data attention_randoms(struct harness *h, const struct attention *a)
{
	int64_t rows = rows_of(&a->lengths), Q = a->NH * a->HD, KV = a->NKV * a->HD;
	return (struct attention_data){
		randoms(h, rows * Q, 1), randoms(h, rows * KV, 1), randoms(h, rows * KV, 1), randoms(h, rows * Q, 1)};
}

static void attention_data_free(struct attention_data *x)
{
	free(x->q);
	free(x->k);
	free(x->v);
	free(x->dout);
}

/* Lengths about every edge: a tile of 16, a subtile of 64, a chunk of 256, and none of them. */
static const struct attention attention_cases[] = {
	{4, 4, 32, {5, {1, 64, 65, 129, 31}}, false},
	{9, 3, 64, {4, {300, 1, 63, 128}}, false},
	{4, 2, 64, {3, {33, 2, 257}}, true},
	{8, 2, 128, {4, {513, 17, 256, 64}}, false},
	{3, 3, 128, {2, {100, 7}}, true},
	{8, 1, 128, {3, {65, 1, 1}}, false},
	{4, 2, 256, {3, {270, 66, 16}}, false},
	{1, 1, 256, {1, {130}}, true},
};

static void attention_body(struct harness *h)
{
	for (size_t i = 0; i < ARRAY_LEN(attention_cases); i++) {
		struct attention_data x = attention_randoms(h, &attention_cases[i]);
		attention_check(h, &attention_cases[i], &x, NULL);
		attention_data_free(&x);
	}
}

/* A sequence alone has the bits that it has among others. */
static void alone_body(struct harness *h)
{
	struct attention many = {4, 2, 128, {3, {70, 300, 9}}, false}, one = {4, 2, 128, {1, {300}}, false};
	int64_t Q = 4 * 128, KV = 2 * 128;
	struct attention_data x = attention_randoms(h, &many),
						  part = {x.q + 70 * Q, x.k + 70 * KV, x.v + 70 * KV, x.dout + 70 * Q};
	float *together = host_floats(379 * Q), *apart = host_floats(300 * Q);
	attention_check(h, &many, &x, together);
	attention_check(h, &one, &part, apart);
	if (memcmp(together + 70 * Q, apart, (size_t)(300 * Q) * sizeof *apart))
		print_error("a packed sequence has other bits than the sequence alone\n"), h->failures++;
	free(together);
	free(apart);
	attention_data_free(&x);
}

/* Over pages a row has the bits that it has in a packed pass: sampler and trainer see the same numbers. One step of
 * many rows, and one of a single row for each sequence, whose keys were stored before. */
static void paged_body(struct harness *h)
{
	enum { NH = 4, NKV = 2, HD = 128, Q = NH * HD, KV = NKV * HD, PAGES = 20 };
	struct ops *o = h->o;
	struct lengths lengths = {3, {70, 600, 1}};
	int T, Tp, rows = rows_of(&lengths), row = Q + o->tail;
	struct attention shape = {NH, NKV, HD, lengths, true};
	struct attention_data x = attention_randoms(h, &shape);
	float *rope = host_floats((int64_t)PAGES * OPS_PAGE * HD), *ones = host_floats(HD);
	for (int i = 0; i < PAGES * OPS_PAGE * HD; i++) rope[i] = i % HD < HD / 2 ? 1 : 0;
	for (int i = 0; i < HD; i++) ones[i] = 1;

	/* the packed batch and the paged one, whose pages lie in no order */
	struct ops_batch *packed = batch_of(h, &lengths, NULL, &T),
					 *paged = o->batch_create(o->ctx, rows + 128, 3, PAGES, 1, 1);
	int32_t *pos = xcalloc((size_t)rows * 3, sizeof *pos), *sequence = pos + rows, table[3 * PAGES];
	for (int i = 0; i < 3 * PAGES; i++) table[i] = (i * 7) % (3 * PAGES);
	for (int s = 0, t = 0; s < 3; s++)
		for (int i = 0; i < lengths.n[s]; i++, t++) pos[t] = i, sequence[t] = s;
	struct ops_rows all = {
		.T = rows, .S = 3, .ids = sequence + rows, .pos = pos, .sequence = sequence, .table = table, .pages = PAGES};
	Tp = o->batch_put(o->ctx, paged, &all);
	assert_int_equal(T, Tp);

	struct array qkv = qkv_make(h, &shape, &x, T), q = array_make(h, NULL, (int64_t)T * Q),
				 k = array_make(h, NULL, (int64_t)T * KV);
	struct array att = array_make(h, NULL, (int64_t)T * row), att_paged = array_make(h, NULL, (int64_t)T * row);
	struct array kpages = rows_make(h, x.k, 0, 1, 3 * PAGES * OPS_PAGE, KV, 0),
				 vpages = rows_make(h, x.k, 0, 1, 3 * PAGES * OPS_PAGE, KV, 0), anorm = array_make(h, ones, HD);
	struct f32_array arope = f32_make(h, rope, (int64_t)PAGES * OPS_PAGE * HD);
	struct ops_weight norm = {.rows = 1, .cols = HD, .ld = HD, .w = anorm.p};
	struct ops_heads heads = {NH, NKV, HD, 1e-6f, &norm, &norm, arope.p};
	o->heads(o->ctx, q.p, k.p, NULL, qkv.p, kpages.p, vpages.p, &heads, paged, T);
	o->attend(o->ctx, att.p, NULL, q.p, k.p, qkv.p, &heads, packed, T, NULL);
	o->attend_paged(o->ctx, att_paged.p, q.p, kpages.p, vpages.p, &heads, paged, T, NULL);
	float *want = rows_take(h, "att", &att, rows, Q, T, row), *got = rows_take(h, "att", &att_paged, rows, Q, T, row),
		  *queries = array_take(h, "q", &q);
	int64_t differ = 0;
	for (int64_t i = 0; i < (int64_t)rows * Q; i++) differ += got[i] != want[i];
	print_message(
		"# %s paged against packed: %lld of %lld elements differ\n", o->name, (long long)differ, (long long)rows * Q);
	if (differ) h->failures++;

	/* the last row of each sequence alone */
	int32_t last_pos[3], last_sequence[3] = {0, 1, 2}, ids[3] = {0};
	float last_q[3 * Q];
	for (int s = 0, first = 0; s < 3; first += lengths.n[s++]) {
		last_pos[s] = lengths.n[s] - 1;
		memcpy(last_q + s * Q, queries + (int64_t)(first + lengths.n[s] - 1) * Q, Q * sizeof *last_q);
	}
	struct ops_rows last = {
		.T = 3, .S = 3, .ids = ids, .pos = last_pos, .sequence = last_sequence, .table = table, .pages = PAGES};
	int T1 = o->batch_put(o->ctx, paged, &last);
	struct array one_q = rows_make(h, last_q, 3, Q, T1, Q, 0), one = array_make(h, NULL, (int64_t)T1 * row);
	o->attend_paged(o->ctx, one.p, one_q.p, kpages.p, vpages.p, &heads, paged, T1, NULL);
	float *got_one = rows_take(h, "att", &one, 3, Q, T1, row);
	differ = 0;
	for (int s = 0, first = 0; s < 3; first += lengths.n[s++])
		for (int i = 0; i < Q; i++) differ += got_one[s * Q + i] != want[(int64_t)(first + lengths.n[s] - 1) * Q + i];
	print_message(
		"# %s one row over pages against packed: %lld of %d elements differ\n", o->name, (long long)differ, 3 * Q);
	if (differ) h->failures++;
	bits_add(h, got, (size_t)rows * Q * sizeof *got);

	array_drop(h, &qkv), array_drop(h, &k), array_drop(h, &kpages), array_drop(h, &vpages), array_drop(h, &anorm),
		array_drop(h, &one_q), f32_drop(h, &arope);
	free(want), free(got), free(got_one), free(queries), free(rope), free(ones), free(pos);
	attention_data_free(&x);
	o->batch_free(o->ctx, packed), o->batch_free(o->ctx, paged);
}

/* A training pass makes the inputs of projections by other kernels than a step of few rows: the same bits. */
static void many_check(struct harness *h, int C, int r, bool is_gate)
{
	enum { MANY = 1100, FEW = 37 };
	struct ops *o = h->o;
	int row = C + o->tail, parts = is_gate ? 1 : 3, wide = is_gate ? 2 * C : C, widths[] = {C, C};
	float *x = randoms(h, (int64_t)MANY * wide, 1), *w = randoms(h, C, 1), *a = randoms(h, (int64_t)3 * r * C, 0.1f),
		  *got[2];
	struct array aw = array_make(h, w, C), aa = array_make(h, a, (int64_t)3 * r * C);
	struct ops_weight weight = {.rows = 1, .cols = C, .ld = C, .w = aw.p};
	struct ops_linear l = {.in = C, .out = 8 * parts, .parts = parts};
	struct ops_lora lora = {.r = r, .scaling = 2};
	for (int p = 0; p < parts; p++)
		lora.a[p] = (struct ops_weight){.rows = r, .cols = C, .ld = C, .w = ops_elem_at(o, aa.p, (int64_t)p * r * C)};
	for (int run = 0; run < 2; run++) {
		int T = run ? FEW : MANY;
		float *from = host_floats((int64_t)T * wide);
		for (int t = 0; t < T; t++)
			for (int i = 0; i < wide; i++)
				from[is_gate ? part_at(h, T, widths, 2, i / C, t, i % C) : (int64_t)t * C + i] =
					x[(int64_t)t * wide + i];
		struct array ax = array_make(h, from, (int64_t)T * wide), y = array_make(h, NULL, (int64_t)T * row);
		struct f32_array rstd = f32_make(h, NULL, T);
		if (is_gate) o->gate(o->ctx, y.p, ax.p, C, T, &(struct ops_next){&l, &lora});
		else o->norm(o->ctx, y.p, rstd.p, ax.p, &weight, 1e-6f, T, &(struct ops_next){&l, &lora});
		got[run] = rows_take(h, "rows", &y, T, row, T, row);
		array_drop(h, &ax), f32_drop(h, &rstd);
		free(from);
	}
	int64_t differ = 0, zeros = 0;
	for (int64_t i = 0; i < (int64_t)FEW * row; i++) {
		differ += !(got[0][i] == got[1][i]);
		zeros += i % row >= C && i % row < C + parts * r && got[0][i] == 0;
	}
	bits_add(h, got[0], (size_t)MANY * (size_t)row * sizeof *got[0]);
	print_message("# %s %s of %d, r %d: %lld of %lld elements of %d rows differ from those of %d\n", o->name,
		is_gate ? "gate" : "norm", C, r, (long long)differ, (long long)FEW * row, FEW, MANY);
	if (differ || zeros)
		print_error("many rows: %lld elements differ, %lld thin products are 0\n", (long long)differ, (long long)zeros),
			h->failures++;
	array_drop(h, &aw), array_drop(h, &aa);
	free(x), free(w), free(a), free(got[0]), free(got[1]);
}

static void many_body(struct harness *h)
{
	many_check(h, 4096, 16, false);
	many_check(h, 72, 5, false);
	many_check(h, 576, 40, false);
	many_check(h, 12288, 16, true);
	many_check(h, 1544, 72, true);
}

/* ---- linear ---- */

struct linear_case {
	int T, in, parts, out[OPS_PARTS], r; /* r 0: no adapter */
	float dropout;
	bool learns; /* weights and biases too */
	bool apart;  /* parts of the weight lie apart */
	bool no_dx;
	enum ops_accumulate acc;
};

struct linear_data {
	float *x, *dy, *w[OPS_PARTS], *a[OPS_PARTS], *b[OPS_PARTS],
		*dx; /* dy: parts one after the other, (T, out_i) each */
	uint64_t seed, stream;
};

static bool kept(const struct linear_case *c, const struct linear_data *d, int part, int64_t element)
{
	if (c->dropout <= 0) return true;
	return (double)rng_philox(d->seed, d->stream + (uint64_t)part, (uint64_t)element / 4).v[element % 4] >=
		(double)c->dropout * 4294967296.0;
}

#define LORA_SCALING 0.75

/* What one part adds to dx, and its dA, dB; magnitudes are those of bounds. */
struct linear_want {
	double *dx, *dx_bound, *da[OPS_PARTS], *da_bound[OPS_PARTS], *db[OPS_PARTS], *db_bound[OPS_PARTS], *dw[OPS_PARTS],
		*dw_bound[OPS_PARTS], *dbias[OPS_PARTS], *dbias_bound[OPS_PARTS];
};

static void lora_reference(const struct linear_case *c, const struct linear_data *d, int part, const float *dy,
	double u, struct linear_want *w)
{
	int out = c->out[part];
	double keep = 1 / (1 - (double)c->dropout), s = LORA_SCALING * keep;
	for (int t = 0; t < c->T; t++)
		for (int j = 0; j < c->r; j++) {
			double dh = 0, dh_magnitude = 0, hidden = 0, h_magnitude = 0;
			for (int n = 0; n < out; n++) {
				double term = (double)dy[(int64_t)t * out + n] * d->b[part][n * c->r + j];
				dh += term, dh_magnitude += fabs(term);
			}
			double dh_error = u * fabs(dh) + out * SUM_U * dh_magnitude;
			for (int i = 0; i < c->in; i++) {
				int64_t at = (int64_t)t * c->in + i;
				double x = kept(c, d, part, at) ? d->x[at] : 0,
					   A = kept(c, d, part, at) ? d->a[part][j * c->in + i] : 0;
				hidden += s * x * d->a[part][j * c->in + i], h_magnitude += fabs(s * x * d->a[part][j * c->in + i]);
				w->da[part][j * c->in + i] += s * dh * x;
				w->da_bound[part][j * c->in + i] += s * fabs(x) * (dh_error + c->T * SUM_U * fabs(dh));
				w->dx[at] += s * dh * A;
				w->dx_bound[at] += s * fabs(A) * (dh_error + c->r * OPS_PARTS * SUM_U * fabs(dh));
			}
			double h_error = u * fabs(hidden) + c->in * SUM_U * h_magnitude;
			for (int n = 0; n < out; n++) {
				double y = dy[(int64_t)t * out + n];
				w->db[part][n * c->r + j] += y * hidden;
				w->db_bound[part][n * c->r + j] += fabs(y) * (h_error + c->T * SUM_U * fabs(hidden));
			}
		}
}

/* dx without the adapter's share, dW, dbias. */
static void part_reference(
	const struct linear_case *c, const struct linear_data *d, int part, const float *dy, struct linear_want *w)
{
	int out = c->out[part];
	for (int t = 0; t < c->T; t++)
		for (int n = 0; n < out; n++) {
			double y = dy[(int64_t)t * out + n];
			w->dbias[part][n] += y;
			w->dbias_bound[part][n] += c->T * SUM_U * fabs(y);
			for (int i = 0; i < c->in; i++) {
				double x = d->x[(int64_t)t * c->in + i], weight = d->w[part][n * c->in + i];
				w->dx[(int64_t)t * c->in + i] += y * weight;
				w->dx_bound[(int64_t)t * c->in + i] += 2 * out * SUM_U * fabs(y * weight);
				w->dw[part][n * c->in + i] += y * x;
				w->dw_bound[part][n * c->in + i] += c->T * SUM_U * fabs(y * x);
			}
		}
}

static struct linear_want linear_reference(const struct linear_case *c, const struct linear_data *d, double u)
{
	struct linear_want w = {.dx = doubles((int64_t)c->T * c->in), .dx_bound = doubles((int64_t)c->T * c->in)};
	const float *dy = d->dy;
	int64_t n = (int64_t)c->T * c->in;
	for (int p = 0; p < c->parts; p++) {
		int64_t a = (int64_t)c->r * c->in, b = (int64_t)c->out[p] * c->r, full = (int64_t)c->out[p] * c->in;
		w.da[p] = doubles(a), w.da_bound[p] = doubles(a), w.db[p] = doubles(b), w.db_bound[p] = doubles(b);
		w.dw[p] = doubles(full), w.dw_bound[p] = doubles(full), w.dbias[p] = doubles(c->out[p]),
		w.dbias_bound[p] = doubles(c->out[p]);
		part_reference(c, d, p, dy, &w);
		/* dx is rounded behind each product: what stood there so far */
		for (int64_t i = 0; i < n; i++)
			w.dx_bound[i] += u * (fabs(w.dx[i]) + (c->acc == OPS_ADD ? fabs((double)d->dx[i]) : 0));
		dy += (int64_t)c->T * c->out[p];
	}
	dy = d->dy;
	for (int p = 0; p < c->parts; dy += (int64_t)c->T * c->out[p++])
		if (c->r) lora_reference(c, d, p, dy, u, &w);
	for (int64_t i = 0; i < n; i++) {
		if (c->acc == OPS_ADD) w.dx[i] += d->dx[i];
		w.dx_bound[i] = SLACK * (w.dx_bound[i] + 2 * u * fabs(w.dx[i])) + 1e-30;
	}
	for (int p = 0; p < c->parts; p++) {
		for (int64_t i = 0; i < (int64_t)c->r * c->in; i++) w.da_bound[p][i] = SLACK * w.da_bound[p][i] + 1e-30;
		for (int64_t i = 0; i < (int64_t)c->r * c->out[p]; i++) w.db_bound[p][i] = SLACK * w.db_bound[p][i] + 1e-30;
	}
	return w;
}

static void linear_want_free(struct linear_want *w)
{
	free(w->dx);
	free(w->dx_bound);
	for (int p = 0; p < OPS_PARTS; p++) {
		double *all[] = {w->da[p], w->da_bound[p], w->db[p], w->db_bound[p], w->dw[p], w->dw_bound[p], w->dbias[p],
			w->dbias_bound[p]};
		for (size_t i = 0; i < ARRAY_LEN(all); i++) free(all[i]);
	}
}

struct linear_arrays { /* in the backend's memory */
	struct array w, w_apart[OPS_PARTS], a[OPS_PARTS], b[OPS_PARTS], bias;
	struct f32_array dw[OPS_PARTS], dbias[OPS_PARTS], da[OPS_PARTS], db[OPS_PARTS];
};

static struct linear_data linear_randoms(struct harness *h, const struct linear_case *c)
{
	int out = 0;
	struct linear_data d = {.seed = 77, .stream = 1000};
	for (int p = 0; p < c->parts; p++) {
		out += c->out[p];
		d.w[p] = randoms(h, (int64_t)c->out[p] * c->in, 0.1f);
		d.a[p] = randoms(h, (int64_t)c->r * c->in, 0.2f);
		d.b[p] = randoms(h, (int64_t)c->r * c->out[p], 0.3f);
	}
	d.x = randoms(h, (int64_t)c->T * c->in, 1);
	d.dy = randoms(h, (int64_t)c->T * out, 1);
	d.dx = randoms(h, (int64_t)c->T * c->in, 1);
	return d;
}

/* Weights in one block, or each by itself with a hole between; the tail columns are NaN until bind writes them. */
static void weights_make(struct harness *h, const struct linear_case *c, const struct linear_data *d,
	struct ops_linear *l, struct linear_arrays *m)
{
	struct ops *o = h->o;
	int ld = c->in + o->tail, at = 0;
	float *all = host_floats((int64_t)l->out * ld);
	for (int p = 0; p < c->parts; p++) {
		float *mine = all + (int64_t)at * ld;
		for (int n = 0; n < c->out[p]; n++)
			for (int i = 0; i < ld; i++) mine[(int64_t)n * ld + i] = i < c->in ? d->w[p][n * c->in + i] : NAN;
		if (c->apart) m->w_apart[p] = array_make(h, mine, (int64_t)c->out[p] * ld);
		at += c->out[p];
	}
	m->w = array_make(h, all, (int64_t)l->out * ld);
	m->bias = array_make(h, all, l->out);
	free(all);
	at = 0;
	for (int p = 0; p < c->parts; at += c->out[p++]) {
		l->w[p] = (struct ops_weight){.rows = c->out[p], .cols = c->in, .ld = ld};
		l->w[p].w = c->apart ? m->w_apart[p].p : ops_elem_at(o, m->w.p, (int64_t)at * ld);
		float *zeros = host_floats((int64_t)c->out[p] * c->in);
		if (c->learns) {
			m->dw[p] = f32_make(h, zeros, (int64_t)c->out[p] * c->in);
			m->dbias[p] = f32_make(h, zeros, c->out[p]);
			l->bias[p] = (struct ops_weight){.rows = 1,
				.cols = c->out[p],
				.ld = c->out[p],
				.w = ops_elem_at(o, m->bias.p, at),
				.grad = m->dbias[p].p};
			l->w[p].grad = m->dw[p].p;
		}
		free(zeros);
	}
}

static void lora_make(struct harness *h, const struct linear_case *c, const struct linear_data *d,
	struct ops_lora *lora, struct linear_arrays *m)
{
	*lora = (struct ops_lora){.r = c->r,
		.scaling = (float)LORA_SCALING,
		.dropout = c->dropout,
		.seed = c->dropout > 0 ? d->seed : 0,
		.stream = d->stream};
	for (int p = 0; p < c->parts; p++) {
		int64_t a = (int64_t)c->r * c->in, b = (int64_t)c->out[p] * c->r;
		float *zeros = host_floats(MAX(a, b));
		m->a[p] = array_make(h, d->a[p], a), m->b[p] = array_make(h, d->b[p], b);
		m->da[p] = f32_make(h, zeros, a), m->db[p] = f32_make(h, zeros, b);
		lora->a[p] = (struct ops_weight){.rows = c->r, .cols = c->in, .ld = c->in, .w = m->a[p].p, .grad = m->da[p].p};
		lora->b[p] = (struct ops_weight){
			.rows = c->out[p], .cols = c->r, .ld = c->r, .w = m->b[p].p, .grad = m->db[p].p};
		free(zeros);
	}
}

/* x with the thin products in its tail, as who writes the row leaves it. */
static struct array input_make(struct harness *h, const struct linear_case *c, const struct linear_data *d, int T)
{
	int row = c->in + h->o->tail;
	float *all = host_floats((int64_t)T * row);
	for (int t = 0; t < c->T; t++) {
		for (int i = 0; i < c->in; i++) all[(int64_t)t * row + i] = d->x[(int64_t)t * c->in + i];
		for (int j = 0; h->o->tail && j < c->parts * c->r; j++) {
			double sum = 0;
			for (int i = 0; i < c->in; i++) {
				int64_t at = (int64_t)t * c->in + i;
				if (kept(c, d, j / c->r, at)) sum += (double)d->x[at] * d->a[j / c->r][j % c->r * c->in + i];
			}
			all[(int64_t)t * row + c->in + j] = rounded(h, (float)(sum * LORA_SCALING / (1 - (double)c->dropout)));
		}
	}
	struct array x = array_make(h, all, (int64_t)T * row);
	free(all);
	return x;
}

static void gradients_check(
	struct harness *h, const struct linear_case *c, const struct linear_want *w, struct linear_arrays *m)
{
	for (int p = 0; p < c->parts; p++) {
		struct {
			const char *name;
			struct f32_array *got;
			const double *want, *bound;
		} all[] = {{"dA", &m->da[p], w->da[p], w->da_bound[p]}, {"dB", &m->db[p], w->db[p], w->db_bound[p]},
			{"dW", &m->dw[p], w->dw[p], w->dw_bound[p]}, {"dbias", &m->dbias[p], w->dbias[p], w->dbias_bound[p]}};
		for (size_t i = 0; i < ARRAY_LEN(all); i++) {
			if (!all[i].got->base) continue;
			float *got = f32_take(h, all[i].name, all[i].got);
			compare(h, all[i].name, got, all[i].want, all[i].bound, all[i].got->n);
			free(got);
		}
		if (m->a[p].base) array_drop(h, &m->a[p]), array_drop(h, &m->b[p]);
		if (m->w_apart[p].base) array_drop(h, &m->w_apart[p]);
	}
	array_drop(h, &m->w);
	array_drop(h, &m->bias);
}

static void linear_check(struct harness *h, const struct linear_case *c)
{
	struct ops *o = h->o;
	int T = c->T + (o->host_memory ? 0 : 11), row = c->in + o->tail, rows = c->T;
	struct linear_data d = linear_randoms(h, c);
	struct linear_want w = linear_reference(c, &d, h->u);
	struct linear_arrays m = {0};
	struct ops_linear l = {.in = c->in, .parts = c->parts};
	struct ops_lora lora = {0};
	for (int p = 0; p < c->parts; p++) l.out += c->out[p];
	weights_make(h, c, &d, &l, &m);
	if (c->r) lora_make(h, c, &d, &lora, &m);
	o->bind(o->ctx, &l, c->r ? &lora : NULL);

	/* dy of surplus rows is 0 */
	float *all = host_floats((int64_t)T * l.out);
	const float *from = d.dy;
	for (int p = 0; p < c->parts; from += (int64_t)rows * c->out[p++])
		for (int t = 0; t < rows; t++)
			for (int n = 0; n < c->out[p]; n++)
				all[part_at(h, T, c->out, c->parts, p, t, n)] = from[(int64_t)t * c->out[p] + n];
	struct array dy = array_make(h, all, (int64_t)T * l.out), x = input_make(h, c, &d, T);
	struct array dx = c->acc == OPS_ADD ? rows_make(h, d.dx, rows, c->in, T, row, 0)
										: array_make(h, NULL, (int64_t)T * row);
	o->linear_backward(o->ctx, c->no_dx ? NULL : dx.p, dy.p, x.p, &l, c->r ? &lora : NULL, T, c->acc);

	print_message("# %s linear (%d, %d) -> %d, %d parts, r %d, dropout %g%s%s%s%s\n", o->name, rows, c->in, l.out,
		c->parts, c->r, (double)c->dropout, c->learns ? ", learns" : "", c->apart ? ", apart" : "",
		c->no_dx ? ", no dx" : "", c->acc == OPS_ADD ? ", adds" : "");
	if (c->no_dx) array_drop(h, &dx);
	else {
		float *got = rows_take(h, "dx", &dx, rows, c->in, T, row);
		compare(h, "dx", got, w.dx, w.dx_bound, (int64_t)rows * c->in);
		free(got);
	}
	gradients_check(h, c, &w, &m);
	array_drop(h, &dy);
	array_drop(h, &x);
	linear_want_free(&w);
	free(all);
	float *data[] = {d.x, d.dy, d.dx, d.w[0], d.w[1], d.w[2], d.a[0], d.a[1], d.a[2], d.b[0], d.b[1], d.b[2]};
	for (size_t i = 0; i < ARRAY_LEN(data); i++) free(data[i]);
}

static const struct linear_case linear_cases[] = {
	{.T = 130, .in = 72, .parts = 3, .out = {40, 24, 16}, .r = 16},
	{.T = 65, .in = 136, .parts = 3, .out = {128, 72, 8}, .r = 5, .dropout = 0.3f},
	{.T = 1100, .in = 24, .parts = 1, .out = {16}, .r = 8},
	{.T = 31, .in = 264, .parts = 1, .out = {56}, .r = 72, .dropout = 0.1f},
	{.T = 33, .in = 40, .parts = 2, .out = {24, 24}, .r = 16, .no_dx = true},
	{.T = 70, .in = 40, .parts = 2, .out = {24, 24}, .r = 16, .apart = true},
	{.T = 40, .in = 48, .parts = 1, .out = {32}, .r = 4, .acc = OPS_ADD},
	{.T = 77, .in = 40, .parts = 3, .out = {24, 8, 16}, .learns = true},
	{.T = 1030, .in = 16, .parts = 1, .out = {24}, .learns = true, .acc = OPS_ADD},
	{.T = 1, .in = 8, .parts = 1, .out = {8}, .r = 1},
};

static void linear_body(struct harness *h)
{
	for (size_t i = 0; i < ARRAY_LEN(linear_cases); i++) linear_check(h, &linear_cases[i]);
}

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
		{2, 2, 128, false}, {3, 1, 256, true}};
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
	for (int t = 0; t < rows; t++) ids[t] = t % 3 == 0 ? 7 : (int32_t)(rng_u32(5, 5, (uint64_t)t) % V);
	struct ops_batch *b = batch_of(h, &lengths, ids, &T);
	float *d = randoms(h, (int64_t)rows * C, 1), *old = randoms(h, V * C, 1);
	double *want = doubles(V * C), *bound = doubles(V * C);
	for (int i = 0; i < V * C; i++) want[i] = old[i], bound[i] = fabs((double)old[i]);
	for (int t = 0; t < rows; t++)
		for (int i = 0; i < C; i++)
			want[ids[t] * C + i] += d[(int64_t)t * C + i], bound[ids[t] * C + i] += fabs((double)d[(int64_t)t * C + i]);
	for (int i = 0; i < V * C; i++) bound[i] = SLACK * rows * SUM_U * bound[i] + 1e-30;
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
		double inverse = 1 / (double)temperature[r], top = -INFINITY, sum = 0;
		for (int v = 0; v < V; v++) top = fmax(top, logits[(int64_t)r * V + v] * inverse);
		for (int v = 0; v < V; v++) sum += exp(logits[(int64_t)r * V + v] * inverse - top);
		double lse = top + log(sum);
		out[r * OPS_FIGURES + 2] = (float)lse;
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

/* Weight i after the last step. fp32 steps of lr each: a few roundings of p, and of the quotient. */
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

/* ---- the references against finite differences ---- */

/* sum of out * weights of a small attention, by attention_reference. */
static double attention_loss(const struct attention *a, const struct attention_data *x)
{
	int rows = rows_of(&a->lengths), Q = a->NH * a->HD;
	struct attention_want w = attention_want_make(rows, Q, a->NKV * a->HD, a->NH);
	attention_reference(a, x->q, x->k, x->v, x->dout, 0, &w);
	double loss = 0;
	for (int64_t i = 0; i < (int64_t)rows * Q; i++) loss += w.o[i] * x->dout[i];
	attention_want_free(&w);
	return loss;
}

static void difference_check(const char *what, double got, double want)
{
	if (!(fabs(got - want) <= 2e-4 * (1 + fabs(want))))
		fail_msg("%s: gradient %.9g, finite difference %.9g", what, got, want);
}

/* Inputs are floats, so the step is one that a float holds. */
#define DIFFERENCE 0x1p-9f

static void attention_differences(void **state)
{
	struct harness h = {.stream = 1};
	struct ops host = {.host_memory = true};
	h.o = &host;
	struct attention a = {4, 2, 8, {2, {7, 3}}, false};
	struct attention_data x = attention_randoms(&h, &a);
	int rows = 10, Q = 32, KV = 16;
	struct attention_want w = attention_want_make(rows, Q, KV, 4);
	attention_reference(&a, x.q, x.k, x.v, x.dout, 0, &w);
	struct {
		const char *name;
		float *x;
		const double *gradient;
		int n;
	} all[] = {{"dq", x.q, w.dq, rows * Q}, {"dk", x.k, w.dk, rows * KV}, {"dv", x.v, w.dv, rows * KV}};
	for (size_t i = 0; i < ARRAY_LEN(all); i++)
		for (int k = 0; k < all[i].n; k += 3) {
			float keep = all[i].x[k];
			volatile float up = keep + DIFFERENCE, down = keep - DIFFERENCE;
			all[i].x[k] = up;
			double high = attention_loss(&a, &x);
			all[i].x[k] = down;
			double low = attention_loss(&a, &x);
			all[i].x[k] = keep;
			difference_check(all[i].name, all[i].gradient[k], (high - low) / ((double)up - (double)down));
		}
	attention_want_free(&w);
	attention_data_free(&x);
}

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

static double lora_loss(const struct linear_case *c, const struct linear_data *d)
{
	double loss = 0;
	const float *dy = d->dy;
	for (int p = 0; p < c->parts; dy += (int64_t)c->T * c->out[p++])
		for (int t = 0; t < c->T; t++)
			for (int n = 0; n < c->out[p]; n++) {
				double y = 0;
				for (int i = 0; i < c->in; i++) {
					int64_t at = (int64_t)t * c->in + i;
					y += (double)d->x[at] * d->w[p][n * c->in + i];
					for (int j = 0; j < c->r && kept(c, d, p, at); j++)
						y += LORA_SCALING / (1 - (double)c->dropout) * d->x[at] * d->a[p][j * c->in + i] *
							d->b[p][n * c->r + j];
				}
				loss += y * dy[(int64_t)t * c->out[p] + n];
			}
	return loss;
}

static void linear_differences(void **state)
{
	struct ops host = {.host_memory = true};
	struct harness h = {.o = &host, .stream = 1};
	struct linear_case c = {.T = 5, .in = 8, .parts = 2, .out = {6, 3}, .r = 2, .dropout = 0.3f};
	struct linear_data d = linear_randoms(&h, &c);
	struct linear_want w = linear_reference(&c, &d, 0);
	struct {
		const char *name;
		float *x;
		const double *gradient;
		int n;
	} all[] = {{"linear dx", d.x, w.dx, 40}, {"dA", d.a[1], w.da[1], 16}, {"dB", d.b[0], w.db[0], 12},
		{"dW", d.w[1], w.dw[1], 24}};
	for (size_t i = 0; i < ARRAY_LEN(all); i++)
		for (int k = 0; k < all[i].n; k++) {
			float keep = all[i].x[k];
			volatile float up = keep + DIFFERENCE, down = keep - DIFFERENCE;
			all[i].x[k] = up;
			double high = lora_loss(&c, &d);
			all[i].x[k] = down;
			double low = lora_loss(&c, &d);
			all[i].x[k] = keep;
			difference_check(all[i].name, all[i].gradient[k], (high - low) / ((double)up - (double)down));
		}
	linear_want_free(&w);
	float *data[] = {d.x, d.dy, d.dx, d.w[0], d.w[1], d.a[0], d.a[1], d.b[0], d.b[1]};
	for (size_t i = 0; i < ARRAY_LEN(data); i++) free(data[i]);
}

/* ---- the list ---- */

#define CASES(X) \
	X(attention) X(alone) X(paged) X(many) X(linear) X(norm) X(heads) X(gate) X(embed) X(scatter) X(head) X(optimiser)
#define X(name) \
	static void name##_cpu(void **state) { run_case("cpu", name##_body); } \
	static void name##_cuda(void **state) { run_case("cuda", name##_body); }
CASES(X)
#undef X

int main(int argc, char **argv)
{
	cmocka_set_message_output(CM_OUTPUT_TAP);
	if (argc > 1) cmocka_set_test_filter(argv[1]); /* one case by its name */
#define X(name) cmocka_unit_test(name##_cpu), cmocka_unit_test(name##_cuda),
	const struct CMUnitTest tests[] = {cmocka_unit_test(attention_differences), cmocka_unit_test(norm_differences),
		cmocka_unit_test(linear_differences), CASES(X)};
#undef X
	return cmocka_run_group_tests(tests, NULL, NULL);
}
