/* The stages of the table that inference runs, on the backend that HONE_DEVICE names
 * (cuda), against plain formulas in double precision written here, over odd sizes; results
 * lie between sentinels and are NaN before: the heads, and attention over pages.
 * Tolerances: stage_forward.h. */
#include "stage_forward.h"

/* ---- heads and attention ---- */

struct heads_case {
	int NH, NKV, HD;
	bool has_norm;
};
static const struct heads_case heads_cases[] = {{4, 4, 32, true}, {9, 3, 64, false}, {8, 2, 128, true},
	{5, 1, 32, false}, {14, 2, 64, true}, {8, 1, 128, true},
	/* Wide heads, heads of no power of two, and groups that a walk over keys
	 * does not serve at once. */
	{6, 2, 256, true}, {2, 2, 256, false}, {6, 2, 96, true}, {4, 1, 120, false}, {2, 2, 16, true}, {3, 1, 200, true},
	{16, 1, 64, true}, {12, 1, 128, false}, {22, 2, 80, true}, {9, 1, 256, true}};

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
		/* Three sequences at different positions. */
		step_make(&s, q, 3, lengths, first, 9);
		float *raw = normals(40 + k, s.qkv.n, 1);
		array_put(ops, &s.qkv, raw);
		free(raw);
		raw = array_get(ops, &s.qkv);
		step_heads(&s);
		float *qkv = array_get(ops, &s.qkv), *qo = array_get(ops, &s.qout), *ko = array_get(ops, &s.kout),
			  *kp = array_get(ops, &s.kpages), *vp = array_get(ops, &s.vpages), *rstd = array_get(ops, &s.rstd);
		/* Each head against the reference: normed, turned, values untouched. */
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
		/* Nothing but these keys was written into pages. */
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

/* Random keys and values of every position that the batch reads, (S, POSITIONS, NKV, HD) each, put
 * into pages by heads itself without norm or rotation: how a page lies inside is the backend's.
 * What no row may read stays NaN. Random queries too. The batch is sent again at the end. */
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
		/* Each sequence's whole past, as a batch of its own. */
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
	/* The queries. */
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
			/* Scores, softmax and the sum of values, in fp64. */
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
		/* One row a sequence, or prompts beside single rows. */
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
		/* The values, the thin product behind them, and rows that nobody asked for. */
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

/* The rows of one sequence, `many` of them by turns, each as a sequence of its own over the same
 * pages: steps so large that a backend may divide their work in another way. */
static void many_rows_check(const struct heads_case *q, const struct step *s, int length, const float *queries, int row,
	const float *all, int ld, int many)
{
	enum { ROOM = 1280 };
	int pages = s->x.r.pages, Q = q->NH * q->HD;
	int32_t *ids = xcalloc(ROOM, 4), *pos = xcalloc(ROOM, 4), *sequence = xcalloc(ROOM, 4),
			*table = xcalloc((size_t)(ROOM * pages), 4);
	float *host = xcalloc((size_t)(ROOM * row), 4);
	/* Every row is a sequence that ends at its own position, over the one sequence's pages. */
	for (int t = 0; t < many; t++) {
		pos[t] = length - 1 - t % length, sequence[t] = t; /* the longest first */
		memcpy(table + t * pages, s->x.table, (size_t)pages * 4);
		memcpy(host + t * row, queries + pos[t] * row, (size_t)row * 4);
	}
	struct array from = elem_array((int64_t)ROOM * row), att = elem_array((int64_t)ROOM * ld);
	array_put(ops, &from, host);
	struct ops_batch *b = ops->batch_create(ctx, ROOM, ROOM, pages, 1, 1);
	int T = ops->batch_put(ctx, b,
		&(struct ops_rows){
			.T = many, .S = many, .ids = ids, .pos = pos, .sequence = sequence, .table = table, .pages = pages});
	ops->attend_paged(
		ctx, array_elem(&att), array_elem(&from), array_elem(&s->kpages), array_elem(&s->vpages), &s->h, b, T, NULL);
	/* The rows have the bits that they had in the small step; rows beyond them are numbers at
	 * least. */
	float *got = array_get(ops, &att);
	for (int t = 0; t < many; t++)
		for (int j = 0; j < Q; j++) equal_to("one of many", (int64_t)t * ld + j, got[t * ld + j], all[pos[t] * ld + j]);
	for (int t = many; t < T; t++)
		for (int j = 0; j < Q; j++)
			if (!isfinite(got[t * ld + j])) breach("surplus rows of many", (int64_t)t * ld + j, got[t * ld + j], 0, 0);
	guards_hold("attention of many", &att);
	free(ids), free(pos), free(sequence), free(table), free(host), free(got);
	array_free(ops, &from), array_free(ops, &att);
	ops->batch_free(ctx, b);
}

/* A row's attention has the same bits whether its sequence sends it alone or among others. */
static void test_attend_bits(void)
{
	for (size_t k = 0; k < ARRAY_LEN(heads_cases); k++) {
		const struct heads_case *q = &heads_cases[k];
		struct step s;
		int length = 600, zero = 0, Q = q->NH * q->HD, ld = Q + ops->tail,
			row = q->has_norm ? Q : Q + 2 * q->NKV * q->HD;
		/* A whole prompt at once. */
		step_make(&s, q, 1, &length, &zero, 27);
		float *queries, *keys, *values;
		step_fill(&s, &queries, &keys, &values);
		struct array att = elem_array((int64_t)s.x.T * ld), one = elem_array(ld * 4);
		struct elem *from = q->has_norm ? array_elem(&s.qout) : array_elem(&s.qkv);
		ops->attend_paged(
			ctx, array_elem(&att), from, array_elem(&s.kpages), array_elem(&s.vpages), &s.h, s.x.b, s.x.T, NULL);
		float *all = array_get(ops, &att);
		static const int rows[] = {0, 15, 63, 64, 255, 256, 300, 511, 512, 599};
		for (size_t i = 0; i < ARRAY_LEN(rows); i += stages_are_small() ? 3 : 1) {
			/* One of its rows alone. */
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
		float *rows_of = array_get(ops, q->has_norm ? &s.qout : &s.qkv);
		static const int many[] = {1100, 300, 77};
		for (size_t i = !stages_are_small() ? 0 : k ? 2 : 1; i < ARRAY_LEN(many); i++)
			many_rows_check(q, &s, length, rows_of, row, all, ld, many[i]);
		free(rows_of);
		free(queries), free(keys), free(values), free(all);
		array_free(ops, &att), array_free(ops, &one);
		step_free(&s);
	}
	test_end("a row of attention has the same bits alone and among others");
}

/* Column n of row t of what the projection makes of these rows and their tail. */
static void project_check(
	const struct linear *l, const float *w, const float *b, const float *rows, const float *y, int t, int n)
{
	int in = l->l.in, r = l->lora.r;
	const float *row = rows + (int64_t)t * (in + ops->tail);
	double want = 0, absolute = 0;
	for (int i = 0; i < in + r; i++) {
		double product = row[i] * (double)(i < in ? w[(int64_t)n * in + i] : b[n * r + i - in]);
		want += product, absolute += fabs(product);
	}
	int64_t at = (int64_t)t * l->l.out + n;
	close_to("projection behind attention", at, y[at], want, sum_tolerance(want, absolute, in + r));
}

/* Attention of a few rows and so large a projection behind it that a backend may make the thin
 * product in its kernel: attention has the bits that it has without, and what the projection has
 * read and made is right. */
static void test_attend_project(void)
{
	static const struct heads_case q = {8, 2, 128, true};
	static const int firsts[] = {700, 255, 1023, 0}, ones[] = {1, 1, 1, 1}, counts[] = {1, 4};
	int Q = q.NH * q.HD, ld = Q + ops->tail, out = 8192;
	struct linear l;
	linear_make(ops, &l, Q, &out, 1, false, false, ops->tail ? 16 : 0, 0, 90);
	const struct ops_next next = {&l.l, l.lora.r ? &l.lora : NULL};
	float *w = weight_get(&l.l.w[0]), *a[OPS_PARTS] = {weight_get(&l.lora.a[0])}, *b = weight_get(&l.lora.b[0]);
	for (size_t k = 0; k < ARRAY_LEN(counts); k++) {
		struct step s;
		float *queries, *keys, *values, *rows[2], *y;
		step_make(&s, &q, counts[k], ones, firsts, 33);
		step_fill(&s, &queries, &keys, &values);
		struct array made = elem_array((int64_t)s.x.T * out);
		/* Alone, then with the projection, which nobody looks at before it is made. */
		for (int joined = 0; joined < 2; joined++) {
			struct array att = elem_array((int64_t)s.x.T * ld);
			ops->attend_paged(ctx, array_elem(&att), array_elem(&s.qout), array_elem(&s.kpages), array_elem(&s.vpages),
				&s.h, s.x.b, s.x.T, joined ? &next : NULL);
			if (joined) ops->linear(ctx, array_elem(&made), array_elem(&att), &l.l, next.lora, NULL, s.x.T);
			rows[joined] = array_get(ops, &att);
			guards_hold("attention", &att);
			array_free(ops, &att);
		}
		/* What the projection read, and what it made of that. */
		y = array_get(ops, &made);
		for (int t = 0; t < counts[k]; t++) {
			for (int i = 0; i < Q; i++)
				equal_to(
					"attention before a projection", i, rows[1][(int64_t)t * ld + i], rows[0][(int64_t)t * ld + i]);
			tail_check("thin product behind attention", rows[1], Q, t, &l, (const float *const *)a);
			for (int n = 0; n < out; n += 61) project_check(&l, w, b, rows[1], y, t, n);
		}
		guards_hold("projection", &made);
		free(queries), free(keys), free(values), free(rows[0]), free(rows[1]), free(y);
		array_free(ops, &made);
		step_free(&s);
	}
	free(w), free(a[0]), free(b);
	linear_free(ops, &l);
	test_end("attention of few rows, and the projection that makes their thin product");
}

/* ---- the list ---- */

static void run(void)
{
	STAGE(test_heads());
	STAGE(test_attend_paged(true));
	STAGE(test_attend_paged(false));
	STAGE(test_attend_bits());
	STAGE(test_attend_project());
}
static void run_invariant(void) { STAGE(test_attend_bits()); }

int main(int argc, char **argv) { return stages_main(argc, argv, run, run_invariant); }
