/* The stages of the table that inference runs, on the backend that HONE_DEVICE names (cuda), against plain formulas in
 * double precision written here, over odd sizes; results lie between sentinels and are NaN before.
 *
 * Tolerances. u is half a unit in the last place of an element (2^-8 for bf16, 2^-24 for fp32). References start from
 * the values as the backend holds them. A result e that is one rounding of an fp32 sum of n products may differ by
 * u |e| + 2^-24 (8 + 2 sqrt(n)) sum |products|: the sums' own roundings, as a random walk. Attention also rounds its
 * probabilities to elements: u sum p |v| more. What else adds an error says so at its place.
 *
 * Without a GPU all is skipped; HONE_REQUIRE_GPU=1 makes that a failure. */
#include "stage_world.h"

static struct ops *ops;
static struct ops_context *ctx;
static double unit;
static int tests, failed, breaches, seen;
static double worst;

/* ---- TAP ---- */

static void test_end(const char *name)
{
	bool ok = !breaches && seen > 0;
	printf("%s %d - %s (%d values, worst %.2f of the tolerance)\n", ok ? "ok" : "not ok", ++tests, name, seen, worst);
	fflush(stdout);
	failed += !ok;
	breaches = seen = 0;
	worst = 0;
}

static void breach(const char *what, int64_t i, double got, double want, double tolerance)
{
	if (breaches++ < 5)
		printf("# %s: element %lld is %.9g, expected %.9g within %.3g\n", what, (long long)i, got, want, tolerance);
}

static void close_to(const char *what, int64_t i, double got, double want, double tolerance)
{
	seen++;
	double share = fabs(got - want) / tolerance;
	if (!(share <= 1)) breach(what, i, got, want, tolerance);
	else worst = fmax(worst, share);
}
static void equal_to(const char *what, int64_t i, double got, double want)
{
	seen++;
	if (!(got == want)) breach(what, i, got, want, 0);
}
static void guards_hold(const char *what, const struct array *a)
{
	int n = array_breaches(ops, a);
	if (n) breach(what, -1, n, 0, 0);
}

static double sum_tolerance(double value, double absolute, double n)
{
	return unit * fabs(value) + 0x1p-24 * (8 + 2 * sqrt(n)) * absolute + 1e-30;
}

/* ---- arrays and batches ---- */

static struct array elem_array(int64_t n) { return array_make(ops, KIND_ELEM, n); }
static struct array f32_array(int64_t n) { return array_make(ops, KIND_F32, n); }

/* n normal numbers of this scale on the backend; *host gets them back as they are held. */
static struct array filled(uint64_t stream, int64_t n, float scale, float **host)
{
	struct array a = elem_array(n);
	float *x = normals(stream, n, scale);
	array_put(ops, &a, x);
	free(x);
	*host = array_get(ops, &a);
	return a;
}

static float *weight_get(const struct ops_weight *w)
{
	if (!w->w) return NULL;
	float *host = xmalloc((size_t)w->rows * (size_t)w->cols * 4);
	ops->get(ctx, host, w);
	return host;
}

struct rows { /* a batch's host side: S sequences of given rows, each beginning at some position */
	struct ops_rows r;
	int32_t *ids, *pos, *sequence, *table;
	struct ops_batch *b;
	int T; /* what batch_put returned */
};

/* lengths, first positions (NULL: packed) of S sequences. Pages are shuffled over kv_pages. */
static struct rows rows_make(int S, const int *length, const int *first, int pages, int kv_pages, int V)
{
	struct rows x = {0};
	int T = 0;
	for (int s = 0; s < S; s++) T += length[s];
	x.ids = xcalloc((size_t)T, 4), x.pos = xcalloc((size_t)T, 4), x.sequence = xcalloc((size_t)T, 4);
	for (int s = 0, t = 0; s < S; s++)
		for (int i = 0; i < length[s]; i++, t++) {
			x.ids[t] = (int32_t)(rng_u32(11, 0, (uint64_t)t) % (uint32_t)V);
			x.pos[t] = (first ? first[s] : 0) + i;
			x.sequence[t] = s;
		}
	if (first) {
		x.table = xcalloc((size_t)(S * pages), 4);
		CHECK(S * pages <= kv_pages);
		int32_t *all = xcalloc((size_t)kv_pages, 4);
		for (int p = 0; p < kv_pages; p++) all[p] = p;
		for (int p = 0; p < kv_pages; p++) {
			int q = (int)(rng_u32(12, 0, (uint64_t)p) % (uint32_t)kv_pages), t = all[p];
			all[p] = all[q], all[q] = t;
		}
		memcpy(x.table, all, (size_t)(S * pages) * 4);
		free(all);
	}
	x.r = (struct ops_rows){.T = T,
		.S = S,
		.ids = x.ids,
		.pos = x.pos,
		.sequence = x.sequence,
		.table = x.table,
		.pages = first ? pages : 0};
	int most = (T + 127) / 128 * 128 + 16; /* room for what the backend rounds up to */
	x.b = ops->batch_create(ctx, most, most, pages + 3, most, most);
	x.T = ops->batch_put(ctx, x.b, &x.r);
	if (x.T < T || x.T > most) breach("batch_put's rows", 0, x.T, T, 0);
	return x;
}
static void rows_free(struct rows *x)
{
	ops->batch_free(ctx, x->b);
	free(x->ids), free(x->pos), free(x->sequence), free(x->table);
}

/* ---- memory ---- */

static void test_put(void)
{
	static const enum dtype types[] = {DTYPE_F32, DTYPE_BF16, DTYPE_F16, DTYPE_F64};
	for (size_t k = 0; k < ARRAY_LEN(types); k++)
		for (int has_master = 0; has_master < 2; has_master++) {
			int rows = 37, cols = 24, ld = cols + 8;
			struct array w = elem_array(rows * ld), master = f32_array(rows * cols);
			struct ops_weight x = {.rows = rows,
				.cols = cols,
				.ld = ld,
				.w = array_elem(&w),
				.master = has_master ? array_f32(&master) : NULL};
			float *values = normals(k, rows * cols, 3), back[37 * 24];
			char raw[37 * 24 * 8];
			for (int i = 0; i < rows * cols; i++) dtype_store(types[k], raw, i, values[i]);
			ops->put(ctx, &x, raw, types[k]);
			ops->get(ctx, back, &x);
			for (int i = 0; i < rows * cols; i++) {
				double v = dtype_load(types[k], raw, i);
				close_to("get", i, back[i], v, has_master ? 1e-30 + 0x1p-24 * fabs(v) : unit * fabs(v) + 1e-30);
			}
			float *all = array_get(ops, &w);
			for (int r = 0; r < rows; r++)
				for (int i = 0; i < ld; i++) {
					if (i < cols)
						close_to("put", r * ld + i, all[r * ld + i], values[r * cols + i],
							(unit + 0x1p-7) * fabs(values[r * cols + i]) + 1e-30);
					else if (!isnan(all[r * ld + i])) breach("between rows", r * ld + i, all[r * ld + i], NAN, 0);
				}
			guards_hold("put", &w);
			free(all), free(values);
			array_free(ops, &w), array_free(ops, &master);
		}
	test_end("put and get of four types, with and without a master, leave the gaps between rows alone");
}

static void test_pages_copy(void)
{
	int planes = 3, pages = 9, page = 256;
	float *before;
	struct array kv = filled(1, planes * pages * page, 1, &before);
	ops->pages_copy(
		ctx, array_elem(&kv), planes, pages * page, page, (const int32_t[]){0, 7}, (const int32_t[]){5, 2}, 2);
	float *after = array_get(ops, &kv);
	for (int i = 0; i < planes * pages * page; i++) {
		int p = i / page % pages, from = p == 0 ? 5 : p == 7 ? 2 : p;
		equal_to("page", i, after[i], before[i + (from - p) * page]);
	}
	guards_hold("pages", &kv);
	free(before), free(after);
	array_free(ops, &kv);
	test_end("pages_copy copies pages of all planes and nothing else");
}

static void test_embed_gather(void)
{
	int V = 531, C = 72, ld = C + ops->tail, lengths[] = {3, 1, 9};
	float *table;
	struct array w = filled(2, (int64_t)V * ld, 1, &table);
	struct ops_weight weight = {.rows = V, .cols = C, .ld = ld, .w = array_elem(&w)};
	struct rows x = rows_make(3, lengths, NULL, 0, 0, V);
	struct array out = elem_array(x.T * C);
	ops->embed(ctx, array_elem(&out), &weight, x.b, x.T);
	float *got = array_get(ops, &out);
	for (int t = 0; t < x.r.T; t++)
		for (int i = 0; i < C; i++) equal_to("embed", t * C + i, got[t * C + i], table[x.ids[t] * ld + i]);
	for (int64_t i = 0; i < out.n; i++)
		if (!isfinite(got[i])) breach("embed's surplus rows", i, got[i], 0, 0);
	guards_hold("embed", &out);
	free(got);

	/* gather: rows of an input with a tail; a chunk of the wanted ones */
	float *input;
	struct array in = filled(3, (int64_t)x.T * ld, 1, &input);
	const int32_t at[] = {12, 0, 7, 7};
	int n = ops->batch_want(ctx, x.b, &(struct ops_want){.n = 4, .at = at});
	struct array rows = elem_array(n * C);
	ops->gather(ctx, array_elem(&rows), array_elem(&in), C, ops->tail, x.b, 1, 3);
	got = array_get(ops, &rows);
	for (int k = 0; k < 3; k++)
		for (int i = 0; i < C; i++) equal_to("gather", k * C + i, got[k * C + i], input[at[k + 1] * ld + i]);
	guards_hold("gather", &rows);
	free(got), free(input), free(table);
	array_free(ops, &out), array_free(ops, &in), array_free(ops, &rows), array_free(ops, &w);
	rows_free(&x);
	test_end("embed and gather give rows as they are");
}

/* ---- rows with a thin product behind them ---- */

/* What stands behind row t of y must be scaling * drop(y) A^T, part by part, then zeros. */
static void tail_check(const char *what, const float *y, int in, int t, const struct linear *l, const float *const *a)
{
	int ld = in + ops->tail, r = l->lora.r;
	const float *row = y + (int64_t)t * ld;
	for (int j = 0; j < ops->tail; j++) {
		double want = 0, absolute = 0;
		int part = r ? j / r : 0;
		bool exists = r && part < l->l.parts && l->lora.a[part].w;
		double keep = l->lora.seed ? 1 / (1 - (double)l->lora.dropout) : 1;
		for (int i = 0; exists && i < in; i++) {
			double x = row[i];
			if (l->lora.seed) {
				uint64_t element = (uint64_t)t * (uint64_t)in + (uint64_t)i;
				if ((double)rng_philox(l->lora.seed, l->lora.stream + (uint64_t)part, element / 4).v[element % 4] <
					(double)l->lora.dropout * 0x1p32)
					x = 0;
			}
			double product = x * a[part][(j % r) * in + i] * l->lora.scaling * keep;
			want += product, absolute += fabs(product);
		}
		close_to(what, (int64_t)t * ld + in + j, row[in + j], want, sum_tolerance(want, absolute, in));
	}
}

struct tail_case {
	int in, r, parts, skip;
	float dropout;
};
static const struct tail_case tail_cases[] = {{72, 0, 1, 0, 0}, {576, 4, 3, 2, 0}, {200, 16, 3, 0, 0},
	{1536, 16, 2, 0, 0.25f}, {4096, 16, 3, 0, 0}, {64, 21, 3, 0, 0.5f}};

static void test_norm_and_gate(bool is_gate)
{
	static const int T_cases[] = {1, 3, 16, 17, 65, 300};
	for (size_t k = 0; k < ARRAY_LEN(tail_cases) * ARRAY_LEN(T_cases); k++) {
		const struct tail_case *q = &tail_cases[k / ARRAY_LEN(T_cases)];
		int T = T_cases[k % ARRAY_LEN(T_cases)], C = q->in, ld = C + ops->tail, out[] = {16, 8, 8};
		if (q->in > 1000 && T > 70) continue;
		struct linear l;
		linear_make(ops, &l, C, out, q->parts, false, false, ops->tail ? q->r : 0, q->skip, 70);
		if (q->dropout > 0 && l.lora.r) l.lora.dropout = q->dropout, l.lora.seed = 99, l.lora.stream = 5;
		struct ops_next next = {&l.l, l.lora.r ? &l.lora : NULL};
		float *x, *w, *a[OPS_PARTS] = {weight_get(&l.lora.a[0]), weight_get(&l.lora.a[1]), weight_get(&l.lora.a[2])};
		struct array in = filled(k, (int64_t)T * C * (is_gate ? 2 : 1), 2, &x), scale = filled(5, C, 1, &w),
					 y = elem_array((int64_t)T * ld), rstd = f32_array(T);
		struct ops_weight weight = {.rows = 1, .cols = C, .ld = C, .w = array_elem(&scale)};
		if (is_gate) ops->gate(ctx, array_elem(&y), array_elem(&in), C, T, &next);
		else ops->norm(ctx, array_elem(&y), array_f32(&rstd), array_elem(&in), &weight, 1e-5f, T, &next);
		float *got = array_get(ops, &y), *got_rstd = array_get(ops, &rstd);
		for (int t = 0; t < T; t++) {
			double squares = 0;
			for (int i = 0; i < C && !is_gate; i++) squares += (double)x[t * C + i] * x[t * C + i];
			double want_rstd = 1 / sqrt(squares / C + (double)1e-5f);
			if (!is_gate) close_to("rstd", t, got_rstd[t], want_rstd, 1e-6 * want_rstd);
			for (int i = 0; i < C; i++) {
				/* fp32 formulas: a few roundings, and the fast exponential's 2^-21 */
				double g = x[(int64_t)t * (is_gate ? 2 : 1) * C + i],
					   want = is_gate ? g / (1 + exp(-g)) * x[(int64_t)t * 2 * C + C + i] : g * want_rstd * w[i];
				close_to(is_gate ? "gate" : "norm", (int64_t)t * ld + i, got[(int64_t)t * ld + i], want,
					(unit + 4e-6) * fabs(want) + 1e-30);
			}
			tail_check("thin product", got, C, t, &l, (const float *const *)a);
		}
		guards_hold("rows", &y), guards_hold("rstd", &rstd);
		free(x), free(w), free(got), free(got_rstd);
		for (int i = 0; i < OPS_PARTS; i++) free(a[i]);
		array_free(ops, &in), array_free(ops, &scale), array_free(ops, &y), array_free(ops, &rstd);
		linear_free(ops, &l);
	}
	test_end(is_gate ? "gate and the thin product behind it" : "norm and the thin product behind it");
}

/* ---- projections ---- */

struct linear_case {
	int in, out[OPS_PARTS], parts;
	bool has_bias, is_apart;
	int r, skip;
	bool has_add, is_in_place;
};
static const struct linear_case linear_cases[] = {
	{64, {64}, 1, false, false, 0, 0, false, false},
	{576, {576, 192, 192}, 3, true, false, 16, 0, false, false},
	{200, {96, 40, 40}, 3, true, true, 5, 2, false, false},
	{72, {136, 136}, 2, false, false, 8, 1, false, false},
	{1536, {576}, 1, false, false, 16, 0, true, true},
	{320, {72}, 1, true, false, 0, 0, true, false},
};

static void linear_check(
	const struct linear_case *q, const struct linear *l, const float *x, const float *add, const float *got, int T)
{
	int ld = q->in + ops->tail, first = 0;
	for (int p = 0; p < q->parts; first += q->out[p++]) {
		float *w = weight_get(&l->l.w[p]), *bias = weight_get(&l->l.bias[p]), *b = weight_get(&l->lora.b[p]);
		for (int t = 0; t < T; t++)
			for (int o = 0; o < q->out[p]; o++) {
				double sum = bias ? bias[o] : 0, absolute = fabs(sum), last = add ? add[t * l->l.out + first + o] : 0;
				for (int i = 0; i < q->in; i++) {
					double product = (double)x[t * ld + i] * w[o * q->in + i];
					sum += product, absolute += fabs(product);
				}
				for (int j = 0; b && j < l->lora.r; j++) { /* the thin product as it stands behind the row */
					double product = (double)x[t * ld + q->in + p * l->lora.r + j] * b[o * l->lora.r + j];
					sum += product, absolute += fabs(product);
				}
				close_to("linear", (int64_t)t * l->l.out + first + o, got[t * l->l.out + first + o], sum + last,
					sum_tolerance(sum + last, absolute + fabs(last), q->in));
			}
		free(w), free(bias), free(b);
	}
}

static void test_linear(void)
{
	static const int T_cases[] = {1, 2, 3, 4, 5, 17, 64, 130};
	for (size_t k = 0; k < ARRAY_LEN(linear_cases) * ARRAY_LEN(T_cases); k++) {
		const struct linear_case *q = &linear_cases[k / ARRAY_LEN(T_cases)];
		int T = T_cases[k % ARRAY_LEN(T_cases)], ld = q->in + ops->tail;
		if (!ops->tail && q->r)
			continue; /* a backend without tail makes the thin products itself: tested as tail against adapters below */
		struct linear l;
		linear_make(ops, &l, q->in, q->out, q->parts, q->has_bias, q->is_apart, q->r, q->skip, 300);
		float *x = normals(k, (int64_t)T * ld, 1), *sum;
		/* columns that no part uses hold zeros in a thin product */
		for (int t = 0; t < T; t++)
			for (int j = q->r * q->parts; j < ops->tail; j++) x[t * ld + q->in + j] = 0;
		struct array in = elem_array((int64_t)T * ld), y = elem_array((int64_t)T * l.l.out),
					 add = filled(6, (int64_t)T * l.l.out, 1, &sum);
		array_put(ops, &in, x);
		free(x);
		x = array_get(ops, &in);
		if (q->is_in_place) array_put(ops, &y, sum);
		ops->linear(ctx, array_elem(&y), array_elem(&in), &l.l, q->r ? &l.lora : NULL,
			q->is_in_place   ? array_elem(&y)
				: q->has_add ? array_elem(&add)
							 : NULL,
			T);
		float *got = array_get(ops, &y);
		linear_check(q, &l, x, q->has_add ? sum : NULL, got, T);
		guards_hold("linear", &y);
		free(x), free(sum), free(got);
		array_free(ops, &in), array_free(ops, &y), array_free(ops, &add);
		linear_free(ops, &l);
	}
	test_end("projections of one to three parts, with bias, adapter and residual stream");
}

/* Norm and projection with adapter as one chain, against W x + b + scaling B (A x) from the norm's values. */
static void test_tail_against_adapter(void)
{
	int C = 384, T = 21, r = 16, out[] = {128, 64, 64}, total = 256, ld = C + ops->tail;
	struct linear l;
	linear_make(ops, &l, C, out, 3, true, false, r, 0, 500);
	float *x, *w;
	struct array in = filled(8, T * C, 1, &x), scale = filled(9, C, 1, &w), n = elem_array((int64_t)T * ld),
				 y = elem_array((int64_t)T * total);
	struct ops_weight weight = {.rows = 1, .cols = C, .ld = C, .w = array_elem(&scale)};
	ops->norm(ctx, array_elem(&n), NULL, array_elem(&in), &weight, 1e-5f, T, &(struct ops_next){&l.l, &l.lora});
	ops->linear(ctx, array_elem(&y), array_elem(&n), &l.l, &l.lora, NULL, T);
	float *rows = array_get(ops, &n), *got = array_get(ops, &y);
	for (int p = 0, first = 0; p < 3; first += out[p++]) {
		float *W = weight_get(&l.l.w[p]), *bias = weight_get(&l.l.bias[p]), *A = weight_get(&l.lora.a[p]),
			  *B = weight_get(&l.lora.b[p]);
		for (int t = 0; t < T; t++) {
			double h[16] = {0};
			for (int j = 0; j < r; j++)
				for (int i = 0; i < C; i++) h[j] += (double)l.lora.scaling * rows[t * ld + i] * A[j * C + i];
			for (int o = 0; o < out[p]; o++) {
				double sum = bias[o], absolute = fabs(sum), thin = 0;
				for (int i = 0; i < C; i++)
					sum += (double)rows[t * ld + i] * W[o * C + i],
						absolute += fabs((double)rows[t * ld + i] * W[o * C + i]);
				for (int j = 0; j < r; j++) sum += h[j] * B[o * r + j], thin += fabs(h[j] * B[o * r + j]);
				/* h is rounded once */
				close_to("chain", t * total + first + o, got[t * total + first + o], sum,
					sum_tolerance(sum, absolute + thin, C) + unit * thin);
			}
		}
		free(W), free(bias), free(A), free(B);
	}
	/* bind of nothing: the base policy again, whatever the tail of the input holds */
	ops->bind(ctx, &l.l, NULL);
	ops->linear(ctx, array_elem(&y), array_elem(&n), &l.l, &l.lora, NULL, ops->tail ? T : 0);
	float *unbound = array_get(ops, &y);
	ops->linear(ctx, array_elem(&y), array_elem(&n), &l.l, NULL, NULL, ops->tail ? T : 0);
	float *base = array_get(ops, &y);
	for (int64_t i = 0; i < y.n && ops->tail; i++)
		close_to("bind of nothing", i, unbound[i], base[i], 2 * unit * fabs((double)base[i]) + 1e-3);
	free(rows), free(got), free(unbound), free(base), free(x), free(w);
	array_free(ops, &in), array_free(ops, &scale), array_free(ops, &n), array_free(ops, &y);
	linear_free(ops, &l);
	test_end("the tail gives what a separate adapter gives");
}

/* ---- heads and attention ---- */

struct heads_case {
	int NH, NKV, HD;
	bool has_norm;
};
static const struct heads_case heads_cases[] = {
	{4, 4, 32, true}, {9, 3, 64, false}, {8, 2, 128, true}, {5, 1, 32, false}, {14, 2, 64, true}, {8, 1, 128, true}};

#define POSITIONS 1200

/* A step's heads and attention over pages, made by the stages from one random qkv. */
struct step {
	const struct heads_case *q;
	struct rows x;
	struct ops_heads h;
	struct ops_weight q_norm, k_norm;
	struct array wq, wk, rope, qkv, qout, kout, rstd, kpages, vpages;
	float *wq_host, *wk_host, *rope_host;
	int kv_pages;
};

static void step_make(struct step *s, const struct heads_case *q, int S, const int *length, const int *first, int pages)
{
	*s = (struct step){.q = q, .kv_pages = S * pages + 2};
	s->x = rows_make(S, length, first, pages, s->kv_pages, 100);
	s->wq = filled(20, q->HD, 1, &s->wq_host), s->wk = filled(21, q->HD, 1, &s->wk_host);
	s->q_norm = s->k_norm = (struct ops_weight){.rows = 1, .cols = q->HD, .ld = q->HD, .w = array_elem(&s->wq)};
	s->k_norm.w = array_elem(&s->wk);
	s->rope = f32_array(POSITIONS * q->HD);
	s->rope_host = xmalloc((size_t)(POSITIONS * q->HD) * 4);
	for (int p = 0; p < POSITIONS; p++)
		for (int i = 0; i < q->HD / 2; i++) {
			double angle = p * pow(10000.0, -2.0 * i / q->HD);
			s->rope_host[p * q->HD + i] = (float)cos(angle);
			s->rope_host[p * q->HD + q->HD / 2 + i] = (float)sin(angle);
		}
	array_put(ops, &s->rope, s->rope_host);
	s->h = (struct ops_heads){q->NH, q->NKV, q->HD, 1e-6f, q->has_norm ? &s->q_norm : NULL,
		q->has_norm ? &s->k_norm : NULL, array_f32(&s->rope)};
	int64_t page = (int64_t)OPS_PAGE * q->NKV * q->HD;
	s->kpages = elem_array(s->kv_pages * page), s->vpages = elem_array(s->kv_pages * page);
	s->qkv = elem_array((int64_t)s->x.T * (q->NH + 2 * q->NKV) * q->HD);
	s->qout = elem_array((int64_t)s->x.T * q->NH * q->HD), s->kout = elem_array((int64_t)s->x.T * q->NKV * q->HD);
	s->rstd = f32_array((int64_t)s->x.T * (q->NH + q->NKV));
}
static void step_free(struct step *s)
{
	struct array *all[] = {&s->wq, &s->wk, &s->rope, &s->qkv, &s->qout, &s->kout, &s->rstd, &s->kpages, &s->vpages};
	for (size_t i = 0; i < ARRAY_LEN(all); i++) array_free(ops, all[i]);
	free(s->wq_host), free(s->wk_host), free(s->rope_host);
	rows_free(&s->x);
}

static void step_heads(struct step *s)
{
	struct elem *q = s->q->has_norm ? array_elem(&s->qout) : array_elem(&s->qkv),
				*k = s->q->has_norm ? array_elem(&s->kout) : array_elem(&s->qkv);
	ops->heads(ctx, q, k, array_f32(&s->rstd), array_elem(&s->qkv), array_elem(&s->kpages), array_elem(&s->vpages),
		&s->h, s->x.b, s->x.T);
}

/* One head of raw values, normed and rotated. */
static void head_reference(const struct step *s, double *out, const float *raw, const float *w, int pos)
{
	int HD = s->q->HD;
	double squares = 0, x[256];
	for (int i = 0; i < HD; i++) squares += (double)raw[i] * raw[i];
	double rstd = s->q->has_norm ? 1 / sqrt(squares / HD + (double)s->h.eps) : 1;
	for (int i = 0; i < HD; i++) x[i] = raw[i] * rstd * (s->q->has_norm ? w[i] : 1);
	for (int i = 0; i < HD / 2; i++) {
		double c = s->rope_host[pos * HD + i], n = s->rope_host[pos * HD + HD / 2 + i];
		out[i] = x[i] * c - x[i + HD / 2] * n;
		out[i + HD / 2] = x[i + HD / 2] * c + x[i] * n;
	}
}

static void test_heads(void)
{
	for (size_t k = 0; k < ARRAY_LEN(heads_cases); k++) {
		const struct heads_case *q = &heads_cases[k];
		int lengths[] = {1, 40, 3}, first[] = {70, 0, 255}, HD = q->HD, heads = q->NH + 2 * q->NKV;
		struct step s;
		step_make(&s, q, 3, lengths, first, 9);
		float *raw = normals(40 + k, s.qkv.n, 1);
		array_put(ops, &s.qkv, raw);
		free(raw);
		raw = array_get(ops, &s.qkv);
		step_heads(&s);
		float *qkv = array_get(ops, &s.qkv), *qo = array_get(ops, &s.qout), *ko = array_get(ops, &s.kout),
			  *kp = array_get(ops, &s.kpages), *vp = array_get(ops, &s.vpages), *rstd = array_get(ops, &s.rstd);
		for (int t = 0; t < s.x.r.T; t++)
			for (int h = 0; h < heads; h++) {
				const float *from = raw + ((int64_t)t * heads + h) * HD, *own = qkv + ((int64_t)t * heads + h) * HD;
				bool is_q = h < q->NH, is_v = h >= q->NH + q->NKV;
				int kv = is_v ? h - q->NH - q->NKV : h - q->NH;
				double want[256], size = 0;
				head_reference(&s, want, from, is_q ? s.wq_host : s.wk_host, s.x.pos[t]);
				for (int i = 0; i < HD; i++) size = fmax(size, fabs((double)want[i]));
				const float *got = is_v ? NULL
					: !q->has_norm      ? own
					: is_q              ? qo + ((int64_t)t * q->NH + h) * HD
										: ko + ((int64_t)t * q->NKV + kv) * HD;
				for (int i = 0; i < HD; i++) {
					double tolerance = unit * fabs(want[i]) + 2e-6 * size;
					if (is_v) equal_to("value", i, own[i], from[i]);
					else
						close_to(is_q ? "query" : "key", ((int64_t)t * heads + h) * HD + i, got[i], want[i], tolerance);
				}
				if (q->has_norm && !is_v) {
					double squares = 0;
					for (int i = 0; i < HD; i++) squares += (double)from[i] * from[i];
					double expected = 1 / sqrt(squares / HD + (double)s.h.eps);
					close_to("head rstd", t, rstd[t * (q->NH + q->NKV) + h], expected, 1e-6 * expected);
				}
			}
		int written = 0;
		for (int64_t i = 0; i < s.kpages.n; i++) written += !isnan(kp[i]);
		equal_to("elements written into pages", 0, written, (double)s.x.r.T * q->NKV * HD);
		guards_hold("qkv", &s.qkv), guards_hold("q", &s.qout), guards_hold("k", &s.kout),
			guards_hold("keys", &s.kpages), guards_hold("values", &s.vpages);
		free(raw), free(qkv), free(qo), free(ko), free(kp), free(vp), free(rstd);
		step_free(&s);
	}
	test_end("heads: norm, rotation, and keys and values in their pages");
}

/* Random keys and values of every position that the batch reads, (S, POSITIONS, NKV, HD) each, put into pages by heads
 * itself without norm or rotation: how a page lies inside is the backend's. What no row may read stays NaN. Random
 * queries too. The batch is sent again at the end. */
static void step_fill(struct step *s, float **queries, float **keys, float **values)
{
	const struct heads_case *q = s->q;
	int KV = q->NKV * q->HD, Q = q->NH * q->HD, row = Q + 2 * KV;
	size_t count = (size_t)s->x.r.S * POSITIONS * (size_t)KV;
	float *angles = xcalloc((size_t)(POSITIONS * q->HD), 4);
	for (int i = 0; i < POSITIONS * q->HD; i++) angles[i] = i % q->HD < q->HD / 2;
	struct array rope = f32_array(POSITIONS * q->HD);
	array_put(ops, &rope, angles);
	struct ops_heads plain = {q->NH, q->NKV, q->HD, 1e-6f, NULL, NULL, array_f32(&rope)};
	*keys = xcalloc(count, 4), *values = xcalloc(count, 4);
	for (int t = 0; t < s->x.r.T; t++) {
		int sequence = s->x.sequence[t], n = s->x.pos[t] + 1;
		if (t + 1 < s->x.r.T && s->x.sequence[t + 1] == sequence) continue; /* the last row of a sequence reads most */
		int lengths[] = {n}, first[] = {0};
		struct rows all = rows_make(1, lengths, first, s->x.r.pages, s->kv_pages, 100);
		memcpy(all.table, s->x.table + sequence * s->x.r.pages, (size_t)s->x.r.pages * 4);
		all.T = ops->batch_put(ctx, all.b, &all.r);
		float *raw;
		struct array qkv = filled(61 + (uint64_t)sequence, (int64_t)all.T * row, 1, &raw);
		ops->heads(ctx, array_elem(&qkv), array_elem(&qkv), NULL, array_elem(&qkv), array_elem(&s->kpages),
			array_elem(&s->vpages), &plain, all.b, all.T);
		for (int p = 0; p < n; p++) {
			size_t to = ((size_t)sequence * POSITIONS + (size_t)p) * (size_t)KV;
			memcpy(*keys + to, raw + (int64_t)p * row + Q, (size_t)KV * 4);
			memcpy(*values + to, raw + (int64_t)p * row + Q + KV, (size_t)KV * 4);
		}
		free(raw);
		array_free(ops, &qkv);
		rows_free(&all);
	}
	struct array *to = q->has_norm ? &s->qout : &s->qkv;
	float *x = normals(60, to->n, 1.5f);
	array_put(ops, to, x);
	*queries = array_get(ops, to);
	ops->batch_put(ctx, s->x.b, &s->x.r);
	free(x), free(angles);
	array_free(ops, &rope);
}
static int64_t key_at(const struct step *s, int t, int kv, int pos)
{
	return (((int64_t)s->x.sequence[t] * POSITIONS + pos) * s->q->NKV + kv) * s->q->HD;
}

static void attend_check(
	const struct step *s, const float *queries, const float *keys, const float *values, const float *att, int ld)
{
	const struct heads_case *q = s->q;
	int HD = q->HD, row = q->has_norm ? q->NH * HD : (q->NH + 2 * q->NKV) * HD;
	double *p = xcalloc(POSITIONS, sizeof *p), scale = 1 / sqrt((double)HD);
	for (int t = 0; t < s->x.r.T; t++)
		for (int h = 0; h < q->NH; h++) {
			int kv = h / (q->NH / q->NKV), n = s->x.pos[t] + 1;
			double top = -INFINITY, sum = 0, out[256] = {0}, absolute[256] = {0};
			for (int j = 0; j < n; j++) {
				const float *key = keys + key_at(s, t, kv, j);
				p[j] = 0;
				for (int i = 0; i < HD; i++) p[j] += (double)queries[(int64_t)t * row + h * HD + i] * key[i];
				top = fmax(top, p[j] *= scale);
			}
			for (int j = 0; j < n; j++) sum += p[j] = exp(p[j] - top);
			for (int j = 0; j < n; j++)
				for (int i = 0; i < HD; i++) {
					double product = p[j] / sum * values[key_at(s, t, kv, j) + i];
					out[i] += product, absolute[i] += fabs(product);
				}
			for (int i = 0; i < HD; i++)
				close_to("attention", (int64_t)t * ld + h * HD + i, att[(int64_t)t * ld + h * HD + i], out[i],
					unit * fabs(out[i]) + (unit + 1e-5) * absolute[i]);
		}
	free(p);
}

static void test_attend_paged(bool is_decode)
{
	static const int firsts[] = {0, 31, 255, 256, 640, 1023}, starts[] = {0, 250, 0, 700};
	static const int ones[] = {1, 1, 1, 1, 1, 1}, lengths[] = {70, 20, 1, 131};
	for (size_t k = 0; k < ARRAY_LEN(heads_cases); k++) {
		const struct heads_case *q = &heads_cases[k];
		struct step s;
		if (is_decode) step_make(&s, q, 6, ones, firsts, 33);
		else step_make(&s, q, 4, lengths, starts, 27);
		int Q = q->NH * q->HD, ld = Q + ops->tail, out[] = {24};
		struct linear l;
		linear_make(ops, &l, Q, out, 1, false, false, ops->tail ? 16 : 0, 0, 80);
		float *queries, *keys, *values, *a[OPS_PARTS] = {weight_get(&l.lora.a[0])};
		step_fill(&s, &queries, &keys, &values);
		struct array att = elem_array((int64_t)s.x.T * ld);
		struct elem *from = q->has_norm ? array_elem(&s.qout) : array_elem(&s.qkv);
		ops->attend_paged(ctx, array_elem(&att), from, array_elem(&s.kpages), array_elem(&s.vpages), &s.h, s.x.b, s.x.T,
			&(struct ops_next){&l.l, l.lora.r ? &l.lora : NULL});
		float *got = array_get(ops, &att);
		attend_check(&s, queries, keys, values, got, ld);
		for (int t = 0; t < s.x.r.T; t++)
			tail_check("attention's thin product", got, Q, t, &l, (const float *const *)a);
		for (int64_t i = 0; i < att.n; i++)
			if (!isfinite(got[i])) breach("attention's surplus rows", i, got[i], 0, 0);
		guards_hold("attention", &att);
		free(queries), free(keys), free(values), free(got), free(a[0]);
		array_free(ops, &att);
		linear_free(ops, &l);
		step_free(&s);
	}
	test_end(
		is_decode ? "attention over pages, one row a sequence" : "attention over pages, prompts beside single rows");
}

/* A row's attention has the same bits whether its sequence sends it alone or among others. */
static void test_attend_bits(void)
{
	for (size_t k = 0; k < ARRAY_LEN(heads_cases); k++) {
		const struct heads_case *q = &heads_cases[k];
		struct step s;
		int length = 600, zero = 0, Q = q->NH * q->HD, ld = Q + ops->tail,
			row = q->has_norm ? Q : Q + 2 * q->NKV * q->HD;
		step_make(&s, q, 1, &length, &zero, 27);
		float *queries, *keys, *values;
		step_fill(&s, &queries, &keys, &values);
		struct array att = elem_array((int64_t)s.x.T * ld), one = elem_array(ld * 4);
		struct elem *from = q->has_norm ? array_elem(&s.qout) : array_elem(&s.qkv);
		ops->attend_paged(
			ctx, array_elem(&att), from, array_elem(&s.kpages), array_elem(&s.vpages), &s.h, s.x.b, s.x.T, NULL);
		float *all = array_get(ops, &att);
		static const int rows[] = {0, 15, 63, 64, 255, 256, 300, 511, 512, 599};
		for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
			int32_t id = 0, pos = rows[i], sequence = 0;
			struct ops_rows r = {.T = 1,
				.S = 1,
				.ids = &id,
				.pos = &pos,
				.sequence = &sequence,
				.table = s.x.table,
				.pages = s.x.r.pages};
			int T = ops->batch_put(ctx, s.x.b, &r);
			ops->attend_paged(ctx, array_elem(&one), ops_elem_at(ops, from, (int64_t)pos * row), array_elem(&s.kpages),
				array_elem(&s.vpages), &s.h, s.x.b, T, NULL);
			float *alone = array_get(ops, &one);
			for (int j = 0; j < Q; j++) equal_to("alone", (int64_t)pos * Q + j, alone[j], all[(int64_t)pos * ld + j]);
			free(alone);
		}
		free(queries), free(keys), free(values), free(all);
		array_free(ops, &att), array_free(ops, &one);
		step_free(&s);
	}
	test_end("a row of attention has the same bits alone and among others");
}

/* ---- the head ---- */

static void test_logprob(void)
{
	static const int vocabularies[] = {7, 531, 8192, 49153, 151937};
	for (size_t k = 0; k < ARRAY_LEN(vocabularies); k++) {
		int V = vocabularies[k], length = 5, n, C = 64;
		struct rows x = rows_make(1, &length, NULL, 0, 0, V);
		const int32_t at[] = {0, 1, 2, 4, 3}, target[] = {0, V - 1, V / 2, 3, 5};
		const float temperature[] = {1, 0.7f, 1.5f, 1, 2};
		n = ops->batch_want(
			ctx, x.b, &(struct ops_want){.n = 5, .at = at, .target = target, .temperature = temperature});
		float *w, *h;
		struct array weight = filled(90, (int64_t)V * C + (V & 1) * C, 0.5f, &w), hidden = filled(91, n * C, 1, &h),
					 logits = f32_array((int64_t)n * V), out = f32_array(n * OPS_FIGURES);
		struct ops_linear head = {
			.in = C, .out = V, .parts = 1, .w = {{.rows = V, .cols = C, .ld = C, .w = array_elem(&weight)}}};
		ops->logits(ctx, array_f32(&logits), array_elem(&hidden), &head, n);
		ops->logprob(ctx, array_f32(&out), array_f32(&logits), x.b, 0, n, V);
		float *z = array_get(ops, &logits), *got = array_get(ops, &out);
		for (int i = 0; i < 5; i++) {
			double top = -INFINITY, sum = 0, weighted = 0, T = temperature[i];
			bool is_largest = true;
			for (int v = 0; v < V; v++) {
				double want = 0, absolute = 0;
				for (int j = 0; j < C; j++)
					want += (double)h[i * C + j] * w[(int64_t)v * C + j],
						absolute += fabs((double)h[i * C + j] * w[(int64_t)v * C + j]);
				close_to("logit", (int64_t)i * V + v, z[(int64_t)i * V + v], want,
					0x1p-24 * (fabs(want) + (8 + 2 * sqrt(C)) * absolute));
				top = fmax(top, z[(int64_t)i * V + v]);
				is_largest = is_largest && !(z[(int64_t)i * V + v] > z[(int64_t)i * V + target[i]]);
			}
			for (int v = 0; v < V; v++) {
				double e = exp((z[(int64_t)i * V + v] - top) / T);
				sum += e, weighted += e * (z[(int64_t)i * V + v] - top) / T;
			}
			/* fp32 exponents below 60 in size: 2^-24 * 60 absolute in each, and the exponential's own error */
			double lse = top / T + log(sum),
				   want[] = {z[(int64_t)i * V + target[i]] / T - lse, log(sum) - weighted / sum, lse, is_largest};
			for (int f = 0; f < OPS_FIGURES; f++)
				close_to("figure", i * OPS_FIGURES + f, got[i * OPS_FIGURES + f], want[f], 1e-5 * (1 + fabs(want[f])));
		}
		guards_hold("logits", &logits), guards_hold("figures", &out);
		free(w), free(h), free(z), free(got);
		array_free(ops, &weight), array_free(ops, &hidden), array_free(ops, &logits), array_free(ops, &out);
		rows_free(&x);
	}
	test_end("logits and their figures, odd vocabularies");
}

/* One row of logits for n draws; which token each of n rows draws. */
struct draws {
	int n, V;
	struct rows x;
	struct ops_draw *draw;
	int32_t *at, *drawn;
	struct array logits, logprob, tokens;
	float *row;
};

static void draws_make(struct draws *d, int n, int V, struct ops_draw how, float scale)
{
	*d = (struct draws){.n = n, .V = V};
	int *length = xcalloc((size_t)n, sizeof *length);
	for (int i = 0; i < n; i++) length[i] = 1;
	int *first = xcalloc((size_t)n, sizeof *first);
	d->x = rows_make(n, length, first, 1, n, V);
	free(length), free(first);
	d->draw = xcalloc((size_t)n, sizeof *d->draw), d->at = xcalloc((size_t)n, 4),
	d->drawn = xcalloc((size_t)n + 128, 4);
	for (int i = 0; i < n; i++) d->draw[i] = how, d->draw[i].stream = (uint64_t)i, d->at[i] = i;
	d->row = normals(77, V, scale);
	d->logits = f32_array((int64_t)(n + 128) * V), d->logprob = f32_array(n + 128),
	d->tokens = array_make(ops, KIND_I32, n + 128);
	float *all = xmalloc((size_t)d->logits.n * 4);
	for (int64_t i = 0; i < d->logits.n; i++) all[i] = d->row[i % V];
	array_put(ops, &d->logits, all);
	free(all);
}
static void draws_free(struct draws *d)
{
	rows_free(&d->x);
	free(d->draw), free(d->at), free(d->drawn), free(d->row);
	array_free(ops, &d->logits), array_free(ops, &d->logprob), array_free(ops, &d->tokens);
}
static void draws_take(struct draws *d)
{
	int n = ops->batch_want(ctx, d->x.b, &(struct ops_want){.n = d->n, .at = d->at, .draw = d->draw});
	ops->sample(ctx, (struct i32 *)d->tokens.at, array_f32(&d->logprob), array_f32(&d->logits), d->x.b, n, d->V);
	ops->get_i32(ctx, d->drawn, (struct i32 *)d->tokens.at, d->n);
}

/* Probability of each token under the rules of ops_draw, by sorting. */
static double *rules(const struct draws *d, const struct ops_draw *how)
{
	int V = d->V, *order = xcalloc((size_t)V, sizeof *order), kept = V;
	double *p = xcalloc((size_t)V, sizeof *p), top = -INFINITY, sum = 0,
		   T = how->temperature > 0 ? how->temperature : 1;
	for (int i = 0; i < V; i++) top = fmax(top, d->row[i]), order[i] = i;
	for (int i = 0; i < V; i++) p[i] = exp((d->row[i] - top) / T);
	for (int i = 1; i < V; i++) /* heaviest first, lower id first */
		for (int j = i; j > 0 && p[order[j]] > p[order[j - 1]]; j--) {
			int t = order[j];
			order[j] = order[j - 1], order[j - 1] = t;
		}
	if (how->temperature <= 0) kept = 1;
	if (how->top_k > 0) kept = MIN(kept, how->top_k);
	for (int i = 0; i < kept; i++) sum += p[order[i]];
	if (how->top_p < 1) {
		double to = 0;
		int nucleus = 0;
		while (nucleus < kept && to < (double)how->top_p * sum) to += p[order[nucleus++]];
		kept = nucleus;
	}
	sum = 0;
	for (int i = 0; i < V; i++) {
		bool stays = i < kept && p[order[i]] >= (double)how->min_p;
		sum += stays ? p[order[i]] : 0;
		if (!stays) p[order[i]] = 0;
	}
	for (int i = 0; i < V; i++) p[i] /= sum;
	free(order);
	return p;
}

/* Chi-square over a million draws: with f degrees of freedom its mean is f, its variance 2 f; a bound of f + 5 sqrt(2
 * f)
 * + 10 is passed by chance less than once in a hundred thousand. */
static void test_draws(void)
{
	static const struct ops_draw hows[] = {{.temperature = 1, .top_p = 1}, {.temperature = 0.7f, .top_p = 1},
		{.temperature = 1, .top_p = 1, .top_k = 5}, {.temperature = 1.3f, .top_p = 0.8f},
		{.temperature = 1, .top_p = 0.9f, .top_k = 9}, {.temperature = 1, .top_p = 1, .min_p = 0.1f},
		{.temperature = 0, .top_p = 1}};
	for (size_t k = 0; k < ARRAY_LEN(hows); k++) {
		int n = 4096, V = 23, rounds = k == 0 ? 245 : 25;
		struct draws d;
		draws_make(&d, n, V, hows[k], 1.5f);
		double *p = rules(&d, &hows[k]), counts[23] = {0}, chi = 0, freedom = -1;
		for (int round = 0; round < rounds; round++) {
			for (int i = 0; i < n; i++) d.draw[i].seed = 5, d.draw[i].index = (uint64_t)round;
			ops->batch_put(ctx, d.x.b, &d.x.r);
			draws_take(&d);
			for (int i = 0; i < n; i++) {
				if (d.drawn[i] < 0 || d.drawn[i] >= V) breach("drawn token", i, d.drawn[i], 0, 0);
				else counts[d.drawn[i]]++;
			}
		}
		for (int v = 0; v < V; v++) {
			double expected = p[v] * n * rounds;
			if (p[v] == 0) equal_to("draws of what was cut", v, counts[v], 0);
			else chi += (counts[v] - expected) * (counts[v] - expected) / expected, freedom++;
		}
		close_to("chi-square", (int64_t)k, chi, freedom, 5 * sqrt(2 * MAX(freedom, 0)) + 10);
		float *lp = array_get(ops, &d.logprob);
		double *full = rules(
			&d, &(struct ops_draw){.temperature = hows[k].temperature > 0 ? hows[k].temperature : 1, .top_p = 1});
		for (int i = 0; i < n; i++)
			close_to(
				"its log-probability", i, lp[i], log(hows[k].min_p > 0 ? p[d.drawn[i]] : full[d.drawn[i]]), 1e-5 * 10);
		free(lp), free(p), free(full);
		draws_free(&d);
	}
	/* Several draws from one row, none from others: what each would give alone. */
	struct draws d;
	enum { SHARED = 300 };
	int32_t from[SHARED], alone[SHARED], tokens[SHARED];
	draws_make(&d, SHARED, 23, (struct ops_draw){.temperature = 1, .top_p = 1, .seed = 8}, 1.5f);
	float *rows = normals(79, (int64_t)SHARED * 23, 1.5f), *spread = xmalloc((size_t)SHARED * 23 * sizeof *spread);
	for (int i = 0; i < SHARED; i++) {
		from[i] = i / 7;
		memcpy(spread + i * 23, rows + from[i] * 23, 23 * sizeof *spread);
	}
	ops->put_f32(ctx, array_f32(&d.logits), spread, (int64_t)SHARED * 23);
	ops->batch_put(ctx, d.x.b, &d.x.r);
	draws_take(&d);
	memcpy(alone, d.drawn, sizeof alone);
	ops->put_f32(ctx, array_f32(&d.logits), rows, (int64_t)SHARED * 23);
	ops->batch_put(ctx, d.x.b, &d.x.r);
	int n = ops->batch_want(
		ctx, d.x.b, &(struct ops_want){.n = d.n, .at = d.at, .draw = d.draw, .from = from, .draws = SHARED});
	ops->sample(ctx, (struct i32 *)d.tokens.at, array_f32(&d.logprob), array_f32(&d.logits), d.x.b, n, d.V);
	ops->get_i32(ctx, tokens, (struct i32 *)d.tokens.at, SHARED);
	for (int i = 0; i < SHARED; i++) equal_to("draw from a shared row", i, tokens[i], alone[i]);
	free(rows), free(spread);
	draws_free(&d);
	test_end(
		"a million draws follow the rules of temperature, top_k, top_p and min_p, from rows of their own or shared");
}

/* Large vocabularies: the drawn token is where u falls, up to the rounding of sums; figures of NaN rows; batch moves
 * on. */
static void test_draw_large(void)
{
	int n = 7, V = 151937;
	struct draws d;
	draws_make(&d, n, V, (struct ops_draw){.temperature = 1, .top_p = 0.95f, .top_k = 200, .seed = 3, .index = 9}, 2);
	draws_take(&d);
	/* the nucleus by a threshold: nothing drawn may weigh less than the 200th */
	int heavier[7] = {0};
	for (int i = 0; i < n; i++)
		for (int v = 0; v < V; v++) heavier[i] += d.row[v] > d.row[d.drawn[i]];
	for (int i = 0; i < n; i++) close_to("tokens above the drawn one", i, heavier[i], 0, 199.5);
	int32_t ids[16], pos[16];
	struct array x = elem_array(16 * 8);
	/* ids and positions moved on: embed shows the token, the next draw its index */
	float *table;
	struct array w = filled(78, (int64_t)V * 8 + 8, 1, &table);
	struct ops_weight weight = {.rows = V, .cols = 8, .ld = 8, .w = array_elem(&w)};
	ops->embed(ctx, array_elem(&x), &weight, d.x.b, n);
	float *rows = array_get(ops, &x);
	for (int i = 0; i < n; i++)
		for (int j = 0; j < 8; j++) equal_to("id moved on", i, rows[i * 8 + j], table[(int64_t)d.drawn[i] * 8 + j]);
	ops->sample(ctx, (struct i32 *)d.tokens.at, array_f32(&d.logprob), array_f32(&d.logits), d.x.b, n, V);
	int32_t next[16], again[16];
	ops->get_i32(ctx, next, (struct i32 *)d.tokens.at, n);
	for (int i = 0; i < n; i++) d.draw[i].index++;
	ops->batch_put(ctx, d.x.b, &d.x.r);
	draws_take(&d);
	memcpy(again, d.drawn, sizeof(int32_t) * (size_t)n);
	for (int i = 0; i < n; i++) equal_to("index moved on", i, next[i], again[i]);
	/* a row of NaN */
	float *nan = xmalloc((size_t)V * 4);
	for (int v = 0; v < V; v++) nan[v] = NAN;
	ops->put_f32(ctx, array_f32(&d.logits), nan, V);
	draws_take(&d);
	float *lp = array_get(ops, &d.logprob);
	equal_to("token of a row of NaN", 0, d.drawn[0], 0);
	equal_to("its log-probability is NaN", 0, isnan(lp[0]), 1);
	equal_to("the next row's is not", 0, isnan(lp[1]), 0);
	(void)ids, (void)pos;
	free(nan), free(lp), free(rows), free(table);
	array_free(ops, &x), array_free(ops, &w);
	draws_free(&d);
	test_end("draws from a large vocabulary, and the batch moves one token on");
}

/* ---- regions ---- */

static void test_linear_make(struct ops *o, struct linear *l, int in, const int *out, int parts, int r, uint64_t stream)
{
	linear_make(o, l, in, out, parts, false, false, r, 0, stream);
}

static void decode_rows(const struct decoder *d, int *T, int *n, int32_t *ids, int32_t *pos, int count, int step)
{
	int32_t sequence[64], table[64 * 20], at[64];
	struct ops_draw draw[64];
	for (int i = 0; i < count; i++) {
		sequence[i] = at[i] = i;
		pos[i] = 250 + i % 7 + step;
		if (!step) ids[i] = i + 1;
		for (int p = 0; p < 20; p++) table[i * 20 + p] = i * 20 + p;
		draw[i] = (struct ops_draw){
			.temperature = 0.9f, .top_p = 1, .seed = 4, .stream = (uint64_t)i, .index = (uint64_t)step};
	}
	*T = d->ops->batch_put(d->ops->ctx, d->batch,
		&(struct ops_rows){
			.T = count, .S = count, .ids = ids, .pos = pos, .sequence = sequence, .table = table, .pages = 20});
	*n = d->ops->batch_want(d->ops->ctx, d->batch, &(struct ops_want){.n = count, .at = at, .draw = draw});
}

/* Tokens and log-probabilities of 12 steps: `inside` steps a region, regions off when key is 0. */
static void decode_run(struct decoder *d, uint64_t key, int inside, int count, int32_t *tokens, float *lps)
{
	int32_t ids[64], pos[64];
	float *zero = normals(3, 4096, 1);
	d->ops->zero(
		ctx, d->kv, 2 * (size_t)d->s.layers * (size_t)d->kv_pages * (size_t)page_elems(d) * (size_t)d->ops->elem_bytes);
	for (int step = 0; step < 12; step += inside) {
		int T, n;
		decode_rows(d, &T, &n, ids, pos, count, step);
		bool runs = !key || ops->begin(ctx, key);
		for (int k = 0; runs && k < inside; k++) decoder_walk(d, T, n, k);
		if (key && runs) ops->end(ctx);
		for (int k = 0; k < inside; k++) {
			ops->get_i32(ctx, tokens + (step + k) * count,
				(struct i32 *)((int32_t *)(void *)d->drawn + (size_t)k * (size_t)d->n), count);
			ops->get_f32(ctx, lps + (step + k) * count,
				(struct f32 *)((float *)(void *)d->logprob + (size_t)k * (size_t)d->n), count);
		}
		memcpy(ids, tokens + (step + inside - 1) * count, (size_t)count * 4);
	}
	free(zero);
}

static void test_regions(void)
{
	const struct shape s = {.layers = 3,
		.C = 192,
		.I = 320,
		.NH = 6,
		.NKV = 2,
		.HD = 32,
		.V = 2111,
		.r = ops->tail ? 16 : 0,
		.positions = 640};
	struct decoder d;
	decoder_make(&d, ops, &s, 40, 40, 20, 40 * 20, test_linear_make);
	static const int counts[] = {1, 3, 33};
	for (size_t c = 0; c < ARRAY_LEN(counts); c++) {
		int count = counts[c];
		int32_t tokens[3][12 * 64];
		float lps[3][12 * 64];
		decode_run(&d, 0, 1, count, tokens[0], lps[0]);
		decode_run(&d, 100 + c, 1, count, tokens[1], lps[1]); /* first run, recording, ten replays */
		decode_run(&d, 200 + c, 3, count, tokens[2], lps[2]); /* three tokens a region */
		for (int i = 0; i < 12 * count; i++) {
			equal_to("replayed token", i, tokens[1][i], tokens[0][i]),
				equal_to("replayed log-probability", i, lps[1][i], lps[0][i]);
			equal_to("token of three in a region", i, tokens[2][i], tokens[0][i]),
				equal_to("log-probability of three in a region", i, lps[2][i], lps[0][i]);
			if (!(lps[0][i] < 0)) breach("log-probability", i, lps[0][i], -1, 0);
		}
	}
	decoder_free(&d);
	test_end("a region replayed, and three tokens in one, give the bits of direct calls");
}

/* ---- a row's bits do not depend on T (batch_invariant) ---- */

static void test_invariance(void)
{
	static const int Ts[] = {1, 2, 5, 8, 33, 64, 130, 300};
	int C = 1024, out[] = {1024, 256, 256}, total = 1536, most = 300, ld = C + ops->tail;
	struct linear l;
	linear_make(ops, &l, C, out, 3, true, false, ops->tail ? 16 : 0, 0, 700);
	struct ops_next next = {&l.l, l.lora.r ? &l.lora : NULL};
	float *x, *w;
	struct array in = filled(8, most * C, 1, &x), scale = filled(9, C, 1, &w), n = elem_array((int64_t)most * ld),
				 y = elem_array((int64_t)most * total);
	struct ops_weight weight = {.rows = 1, .cols = C, .ld = C, .w = array_elem(&scale)};
	float *first = NULL;
	for (size_t k = ARRAY_LEN(Ts); k-- > 0;) {
		ops->norm(ctx, array_elem(&n), NULL, array_elem(&in), &weight, 1e-5f, Ts[k], &next);
		ops->linear(ctx, array_elem(&y), array_elem(&n), &l.l, next.lora, NULL, Ts[k]);
		float *got = array_get(ops, &y);
		for (int i = 0; first && i < Ts[k] * total; i++) equal_to("row among others", i, got[i], first[i]);
		if (!first) first = got;
		else free(got);
	}
	free(first), free(x), free(w);
	array_free(ops, &in), array_free(ops, &scale), array_free(ops, &n), array_free(ops, &y);
	linear_free(ops, &l);
	test_end("batch_invariant: norm, thin product and projection of a row have the same bits for 1 to 300 rows");
}

static bool open_table(bool is_invariant, struct err *err)
{
	const char *device = getenv("HONE_DEVICE");
	struct ops_options o = {
		.batch_invariant = is_invariant, .adapter_columns = 64, .cuda_libs = getenv("HONE_CUDA_LIBS")};
	if (ops_open(device ? device : "cuda", &o, &ops, err)) return false;
	ctx = ops->ctx;
	unit = ops->elem_bytes == 2 ? 0x1p-8 : 0x1p-24;
	return true;
}

int main(void)
{
	struct err err;
	if (!open_table(false, &err)) {
		const char *required = getenv("HONE_REQUIRE_GPU");
		if (required && *required == '1') return printf("1..1\nnot ok 1 - %s\n", err.text), 1;
		return printf("1..0 # SKIP no GPU: %s\n", err.text), 0;
	}
	test_put();
	test_pages_copy();
	test_embed_gather();
	test_norm_and_gate(false);
	test_norm_and_gate(true);
	test_linear();
	test_tail_against_adapter();
	test_heads();
	test_attend_paged(true);
	test_attend_paged(false);
	test_attend_bits();
	test_logprob();
	test_draws();
	test_draw_large();
	test_regions();
	ops_free(ops);
	if (!open_table(true, &err)) return printf("not ok %d - %s\n", tests + 1, err.text), 1;
	test_invariance();
	test_attend_bits();
	ops_free(ops);
	printf("1..%d\n", tests);
	return failed > 0;
}
