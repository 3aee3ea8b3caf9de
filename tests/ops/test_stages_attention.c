/* Attention forward and backward, packed and over pages, on each backend, against references in
 * double that are written here and checked themselves against finite differences. */
#include "stage_backward.h"

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

/* One query of one head: rows begin at q, k, v of the sequence's first row.
 * p: room for its keys. */
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
	{12, 1, 64, {2, {70, 129}}, false},
	{6, 2, 96, {3, {270, 66, 1}}, false},
	{2, 1, 120, {2, {65, 257}}, true},
	{2, 2, 16, {3, {33, 64, 65}}, false},
	{3, 1, 200, {2, {131, 300}}, true},
	{2, 2, 248, {1, {260}}, false},
};

static void attention_body(struct harness *h)
{
	for (size_t i = 0; i < ARRAY_LEN(attention_cases); i++) {
		if (stages_are_small() && rows_of(&attention_cases[i].lengths) > 300) continue;
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

/* Over pages a row has the bits that it has in a packed pass: sampler and trainer see the
 * same numbers. One step of many rows, and one of a single row for each sequence, whose
 * keys were stored before. */
static void paged_check(struct harness *h, int NH, int NKV, int HD)
{
	enum { PAGES = 20 };
	struct ops *o = h->o;
	struct lengths lengths = {3, {70, 600, 1}};
	int T, Tp, rows = rows_of(&lengths), Q = NH * HD, KV = NKV * HD, row = Q + o->tail;
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
	print_message("# %s, %d/%d heads of %d, paged against packed: %lld of %lld elements differ\n", o->name, NH, NKV, HD,
		(long long)differ, (long long)rows * Q);
	if (differ) h->failures++;

	/* the last row of each sequence alone */
	int32_t last_pos[3], last_sequence[3] = {0, 1, 2}, ids[3] = {0};
	float *last_q = host_floats(3 * (int64_t)Q);
	for (int s = 0, first = 0; s < 3; first += lengths.n[s++]) {
		last_pos[s] = lengths.n[s] - 1;
		memcpy(last_q + s * Q, queries + (int64_t)(first + lengths.n[s] - 1) * Q, (size_t)Q * sizeof *last_q);
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
		"# %s, one row over pages against packed: %lld of %d elements differ\n", o->name, (long long)differ, 3 * Q);
	if (differ) h->failures++;
	bits_add(h, got, (size_t)rows * (size_t)Q * sizeof *got);

	array_drop(h, &qkv), array_drop(h, &k), array_drop(h, &kpages), array_drop(h, &vpages), array_drop(h, &anorm),
		array_drop(h, &one_q), f32_drop(h, &arope);
	free(want), free(got), free(got_one), free(queries), free(rope), free(ones), free(pos), free(last_q);
	attention_data_free(&x);
	o->batch_free(o->ctx, packed), o->batch_free(o->ctx, paged);
}

static void paged_body(struct harness *h)
{
	static const int shapes[][3] = {{4, 2, 128}, {4, 2, 256}, {6, 2, 96}, {12, 1, 64}, {3, 1, 120}, {2, 2, 184}};
	int n = stages_are_small() ? 2 : (int)ARRAY_LEN(shapes);
	for (int i = 0; i < n; i++) paged_check(h, shapes[i][0], shapes[i][1], shapes[i][2]);
}

/* ---- the reference against finite differences ---- */

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

static void attention_differences(void **state)
{
	struct harness h = {.stream = 1};
	struct ops host = {.host_memory = true};
	h.o = &host;
	/* The reference itself is checked: its gradients against differences of its loss. */
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
			/* What is really between the two points is divided by, since fp32 rounds them. */
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

/* ---- the list ---- */

#define CASES(X) X(attention) X(alone) X(paged)
CASES(CASE_BOTH)

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(attention_differences), CASES(CASE_LIST)};
	return cases_run(argc, argv, tests);
}
