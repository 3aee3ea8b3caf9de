/* The stages of the table that inference runs, on the backend that HONE_DEVICE names (cuda),
 * against plain formulas in double precision written here, over odd sizes; results lie between
 * sentinels and are NaN before: memory, rows and projections, and regions that repeat.
 * Tolerances: stage_forward.h. */
#include "stage_forward.h"

/* ---- memory ---- */

static void test_put(void)
{
	static const enum dtype types[] = {DTYPE_F32, DTYPE_BF16, DTYPE_F16, DTYPE_F64};
	for (size_t k = 0; k < ARRAY_LEN(types); k++)
		for (int has_master = 0; has_master < 2; has_master++) {
			/* A matrix with a gap behind each row, which is NaN before. */
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
			/* What comes back is the master's value, or the working copy's rounded one. */
			ops->put(ctx, &x, raw, types[k]);
			ops->get(ctx, back, &x);
			for (int i = 0; i < rows * cols; i++) {
				double v = dtype_load(types[k], raw, i);
				close_to("get", i, back[i], v, has_master ? 1e-30 + 0x1p-24 * fabs(v) : unit * fabs(v) + 1e-30);
			}
			/* Rows stand where they belong, and the gaps are as they were. */
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
	free(after);
	/* One page of one plane goes another way. */
	ops->pages_copy(ctx, array_elem(&kv), 1, 0, page, (const int32_t[]){4}, (const int32_t[]){8}, 1);
	after = array_get(ops, &kv);
	for (int i = 0; i < planes * pages * page; i++) {
		int p = i / page % pages, from = i / page == 4 ? 8 : p == 0 ? 5 : p == 7 ? 2 : p;
		equal_to("one page", i, after[i], before[i + (from - p) * page]);
	}
	guards_hold("one page", &kv);
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

struct tail_case {
	int in, r, parts, skip;
	float dropout;
};
static const struct tail_case tail_cases[] = {{72, 0, 1, 0, 0}, {576, 4, 3, 2, 0}, {200, 16, 3, 0, 0},
	{1536, 16, 2, 0, 0.25f}, {4096, 16, 3, 0, 0}, {64, 21, 3, 0, 0.5f},
	/* an MLP's alone: wider than a backend may hold with the adapter's A beside it */
	{40000, 16, 1, 0, 0}};

static void test_norm_and_gate(bool is_gate)
{
	static const int T_cases[] = {1, 3, 16, 17, 65, 250, 300};
	for (size_t k = 0; k < ARRAY_LEN(tail_cases) * ARRAY_LEN(T_cases); k++) {
		const struct tail_case *q = &tail_cases[k / ARRAY_LEN(T_cases)];
		int T = T_cases[k % ARRAY_LEN(T_cases)], C = q->in, ld = C + ops->tail, out[] = {16, 8, 8};
		if (q->in > 1000 && T > 70) continue;
		if (q->in > 12288 && (!is_gate || T > 17)) continue;
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
	/* so long that a backend may cut the sums into ranges: still rounded once,
	 * behind the residual stream */
	{4096, {96}, 1, false, false, 16, 0, true, true},
	{2048, {40}, 1, true, false, 0, 0, true, false},
	/* so large that a backend may have kernels of its own for few rows */
	{2048, {2048, 1024, 1024}, 3, true, false, 16, 2, false, false},
	{4096, {2048}, 1, false, false, 16, 0, true, true},
	/* a row is several pieces for who asks for it piece by piece; the last one brings the tail */
	{12288, {192}, 1, false, false, 16, 0, true, true},
};

/* Every row_step-th row of T. */
static void linear_check(const struct linear_case *q, const struct linear *l, const float *x, const float *add,
	const float *got, int T, int row_step)
{
	int ld = q->in + ops->tail, first = 0;
	char name[96]; /* a value that is off names its product: few of them take one way through the backend */
	snprintf(name, sizeof name, "linear (%d, %d) to %d%s%s%s", T, q->in, l->l.out, q->has_bias ? ", bias" : "",
		q->has_add ? ", add" : "", q->is_in_place ? " in place" : "");
	for (int p = 0; p < q->parts; first += q->out[p++]) {
		float *w = weight_get(&l->l.w[p]), *bias = weight_get(&l->l.bias[p]), *b = weight_get(&l->lora.b[p]);
		for (int t = 0; t < T; t += row_step)
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
				/* The product may be rounded to an element before the residual stream is added, as
				 * where a framework adds two tensors: half a unit in its last place more. cuBLASLt
				 * does so (seen at 5 and at 130 rows, also where it may not split K). */
				double rounded = add ? unit * fabs(sum) : 0;
				close_to(name, (int64_t)t * l->l.out + first + o, got[t * l->l.out + first + o], sum + last,
					rounded + sum_tolerance(sum + last, absolute + fabs(last), q->in));
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
		if (q->in > 4096 && T > 5) continue; /* long sums: what is said of many rows is said above */
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
		linear_check(q, &l, x, q->has_add ? sum : NULL, got, T, 1);
		guards_hold("linear", &y);
		free(x), free(sum), free(got);
		array_free(ops, &in), array_free(ops, &y), array_free(ops, &add);
		linear_free(ops, &l);
	}
	test_end("projections of one to three parts, with bias, adapter and residual stream");
}

/* A projection into the residual stream and the norm behind it: a backend may leave sums for the
 * norm to add. Whoever looks at the stream in between, or not, the bits are the same. */
static void test_stream(void)
{
	static const int T_cases[] = {1, 5, 17, 64, 130};
	int in = 4096, C = 192, ld = in + ops->tail, out[] = {C}, three[] = {C, 64, 64};
	struct linear l, next;
	linear_make(ops, &l, in, out, 1, false, false, ops->tail ? 16 : 0, 0, 800);
	linear_make(ops, &next, C, three, 3, false, false, ops->tail ? 16 : 0, 0, 850);
	struct ops_next behind = {&next.l, next.lora.r ? &next.lora : NULL};
	for (size_t k = 0; k < ARRAY_LEN(T_cases); k++) {
		int T = T_cases[k];
		float *x, *w, *before, *stream[2], *rows[2];
		struct array from = filled(k, (int64_t)T * ld, 1, &x), scale = filled(9, C, 1, &w),
					 start = filled(11, (int64_t)T * C, 1, &before);
		struct ops_weight weight = {.rows = 1, .cols = C, .ld = C, .w = array_elem(&scale)};
		/* The same projection and norm twice; in between the stream is read once and once not. */
		for (int looks = 0; looks < 2; looks++) {
			struct array y = elem_array((int64_t)T * C), n = elem_array((int64_t)T * (C + ops->tail));
			array_put(ops, &y, before);
			ops->linear(ctx, array_elem(&y), array_elem(&from), &l.l, l.lora.r ? &l.lora : NULL, array_elem(&y), T);
			if (looks) free(array_get(ops, &y));
			ops->norm(ctx, array_elem(&n), NULL, array_elem(&y), &weight, 1e-5f, T, &behind);
			stream[looks] = array_get(ops, &y), rows[looks] = array_get(ops, &n);
			guards_hold("stream", &y), guards_hold("norm of the stream", &n);
			array_free(ops, &y), array_free(ops, &n);
		}
		for (int64_t i = 0; i < (int64_t)T * C; i++) equal_to("stream", i, stream[1][i], stream[0][i]);
		for (int64_t i = 0; i < (int64_t)T * (C + ops->tail); i++) equal_to("its norm", i, rows[1][i], rows[0][i]);
		for (int i = 0; i < 2; i++) free(stream[i]), free(rows[i]);
		free(x), free(w), free(before);
		array_free(ops, &from), array_free(ops, &scale), array_free(ops, &start);
	}
	linear_free(ops, &l), linear_free(ops, &next);
	test_end("the residual stream and its norm have the same bits whether somebody looks in between");
}

/* How far the stream behind a gated MLP may move when every value on the way to it (thin products,
 * gu, act) is rounded to the other of its two neighbours: by sums of what each of them weighs. */
static void mlp_tolerance(double *allowed, const float *wide, const float *norms, const float *acts,
	const float *stream, const struct linear *gu, const struct linear *down)
{
	int C = down->l.out, I = down->l.in, in = gu->l.in;
	float *w = weight_get(&down->l.w[0]), *a = weight_get(&down->lora.a[0]), *b = weight_get(&down->lora.b[0]);
	double *moved = xcalloc((size_t)I, sizeof *moved), *thin = xcalloc((size_t)down->lora.r + 1, sizeof *thin);
	/* gate and up by their own rounding and by the thin product's; silu is
	 * nowhere steeper than 1.1 */
	for (int part = 0; part < 2; part++) {
		float *own = weight_get(&gu->lora.b[part]);
		for (int i = 0; i < I; i++) {
			double by = 2 * unit * fabs(wide[part * I + i]), other = wide[(1 - part) * I + i];
			for (int j = 0; own && j < gu->lora.r; j++)
				by += 2 * unit * fabs((double)norms[in + part * gu->lora.r + j] * own[i * gu->lora.r + j]);
			moved[i] += by * (part ? fabs(other / (1 + exp(-other))) : 1.1 * fabs(other));
		}
		free(own);
	}
	for (int i = 0; i < I; i++) moved[i] += 2 * unit * fabs(acts[i]);
	for (int j = 0; a && j < down->lora.r; j++) {
		thin[j] = 2 * unit * fabs(acts[I + j]);
		for (int i = 0; i < I; i++) thin[j] += (double)down->lora.scaling * fabs(a[j * I + i]) * moved[i];
	}
	for (int o = 0; o < C; o++) {
		allowed[o] = 2 * unit * fabs(stream[o]) + 1e-30;
		for (int i = 0; i < I; i++) allowed[o] += fabs(w[o * I + i]) * moved[i];
		for (int j = 0; b && j < down->lora.r; j++) allowed[o] += fabs(b[o * down->lora.r + j]) * thin[j];
	}
	free(w), free(a), free(b), free(moved), free(thin);
}

/* Norm, gate and up, the gate and the product behind it, in a batch of pages: a backend may
 * make thin products and the gate in the products beside them. What is looked at on the way is
 * right, each from what stood before it; and where nobody looks the stream is as near as other
 * orders of the sums allow. */
static void test_mlp(void)
{
	/* The last two are so large that a backend may have a kernel of its own for more
	 * than few rows of them. */
	static const struct {
		int T, I, row_step;
	} cases[] = {{1, 2048, 1}, {3, 2048, 1}, {7, 2048, 1}, {33, 2048, 1}, {64, 2048, 1}, {72, 2048, 1}, {100, 8192, 33},
		{200, 8192, 66}},
	  /* the smallest that take the kernels for one, for few and for more rows, on Hopper */
		small[] = {{1, 2048, 1}, {7, 2048, 3}, {72, 4096, 36}};
	size_t ncases = stages_are_small() ? ARRAY_LEN(small) : ARRAY_LEN(cases);
	for (size_t k = 0; k < ncases; k++) {
		int T = stages_are_small() ? small[k].T : cases[k].T, I = stages_are_small() ? small[k].I : cases[k].I,
			row_step = stages_are_small() ? small[k].row_step : cases[k].row_step;
		int lengths[200], firsts[200] = {0}, C = 4096, ld = C + ops->tail, ld_act = I + ops->tail, both[] = {I, I},
						  out[] = {C};
		struct linear gu, down;
		/* Every second time one of the two parts has no adapter. */
		linear_make(ops, &gu, C, both, 2, false, false, ops->tail ? 16 : 0, k & 1, 600);
		linear_make(ops, &down, I, out, 1, false, false, ops->tail ? 8 : 0, 0, 700);
		struct ops_next first = {&gu.l, gu.lora.r ? &gu.lora : NULL},
						second = {&down.l, down.lora.r ? &down.lora : NULL};
		for (int i = 0; i < T; i++) lengths[i] = 1;
		struct rows rows = rows_make(T, lengths, firsts, 1, T, 100);
		float *x, *w, *start, *norms = NULL, *wide = NULL, *acts = NULL, *streams[2], *unseen[2] = {NULL, NULL};
		int padded = rows.T;
		struct array from = filled(k, (int64_t)padded * C, 1, &x), scale = filled(9, C, 1, &w),
					 before = filled(13, (int64_t)padded * C, 1, &start);
		struct ops_weight weight = {.rows = 1, .cols = C, .ld = C, .w = array_elem(&scale)};
		for (int looks = 0; looks < 2; looks++) {
			struct array n = elem_array((int64_t)padded * ld), g = elem_array((int64_t)padded * 2 * I),
						 act = elem_array((int64_t)padded * ld_act), y = elem_array((int64_t)padded * C);
			array_put(ops, &y, start);
			ops->norm(ctx, array_elem(&n), NULL, array_elem(&from), &weight, 1e-5f, padded, &first);
			if (looks) norms = array_get(ops, &n);
			ops->linear(ctx, array_elem(&g), array_elem(&n), &gu.l, first.lora, NULL, padded);
			if (looks) wide = array_get(ops, &g);
			ops->gate(ctx, array_elem(&act), array_elem(&g), I, padded, &second);
			if (looks) acts = array_get(ops, &act);
			ops->linear(ctx, array_elem(&y), array_elem(&act), &down.l, second.lora, array_elem(&y), padded);
			streams[looks] = array_get(ops, &y);
			if (!looks) unseen[0] = array_get(ops, &n), unseen[1] = array_get(ops, &act);
			guards_hold("norm", &n), guards_hold("gu", &g), guards_hold("act", &act), guards_hold("stream", &y);
			array_free(ops, &n), array_free(ops, &g), array_free(ops, &act), array_free(ops, &y);
		}
		/* What was looked at: thin products, the gate, and both products from
		 * what stood before them. */
		const struct linear_case wide_case = {C, {I, I}, 2, .r = gu.lora.r},
								 down_case = {I, {C}, 1, .r = down.lora.r, .has_add = true};
		float *a[OPS_PARTS] = {weight_get(&gu.lora.a[0]), weight_get(&gu.lora.a[1])},
			  *b[OPS_PARTS] = {weight_get(&down.lora.a[0])};
		linear_check(&wide_case, &gu, norms, NULL, wide, T, row_step);
		linear_check(&down_case, &down, acts, start, streams[1], T, row_step);
		for (int t = 0; t < T; t += row_step) {
			const float *row = wide + (int64_t)t * 2 * I;
			double allowed[4096];
			tail_check("thin product of gate and up", norms, C, t, &gu, (const float *const *)a);
			tail_check("thin product behind the gate", acts, I, t, &down, (const float *const *)b);
			tail_check(
				"thin product of gate and up where nobody looked", unseen[0], C, t, &gu, (const float *const *)a);
			tail_check(
				"thin product behind the gate where nobody looked", unseen[1], I, t, &down, (const float *const *)b);
			for (int i = 0; i < I; i++) {
				double v = row[i], want = v / (1 + exp(-v)) * row[I + i];
				close_to("gate of a batch of pages", (int64_t)t * ld_act + i, acts[(int64_t)t * ld_act + i], want,
					(unit + 4e-6) * fabs(want) + 1e-30);
			}
			mlp_tolerance(allowed, row, norms + (int64_t)t * ld, acts + (int64_t)t * ld_act,
				streams[1] + (int64_t)t * C, &gu, &down);
			for (int i = 0; i < C; i++)
				close_to("stream where nobody looked", (int64_t)t * C + i, streams[0][(int64_t)t * C + i],
					streams[1][(int64_t)t * C + i], allowed[i]);
		}
		float *all[] = {x, w, start, norms, wide, acts, streams[0], streams[1], unseen[0], unseen[1], a[0], a[1], b[0]};
		for (size_t i = 0; i < ARRAY_LEN(all); i++) free(all[i]);
		array_free(ops, &from), array_free(ops, &scale), array_free(ops, &before);
		linear_free(ops, &gu), linear_free(ops, &down);
		rows_free(&rows);
	}
	test_end("the gated MLP of a batch of pages, looked at and not");
}

/* Norm and projection with adapter as one chain, against W x + b + scaling B (A x)
 * from the norm's values. */
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

#define STEPS_MAX 12

/* Tokens and log-probabilities of so many steps: `inside` steps a region,
 * regions off when key is 0. */
static void decode_run(struct decoder *d, uint64_t key, int steps, int inside, int count, int32_t *tokens, float *lps)
{
	int32_t ids[64], pos[64];
	float *zero = normals(3, 4096, 1);
	d->ops->zero(
		ctx, d->kv, 2 * (size_t)d->s.layers * (size_t)d->kv_pages * (size_t)page_elems(d) * (size_t)d->ops->elem_bytes);
	for (int step = 0; step < steps; step += inside) {
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
	/* A region's first run is direct, its second recorded, its third replayed: so three of
	 * the longest at least. */
	bool is_small = stages_are_small();
	int steps = is_small ? 6 : STEPS_MAX, inside = is_small ? 2 : 3;
	const struct shape s = {.layers = is_small ? 1 : 3,
		.C = 192,
		.I = 320,
		.NH = 6,
		.NKV = 2,
		.HD = 32,
		.V = is_small ? 301 : 2111,
		.r = ops->tail ? 16 : 0,
		.positions = 640};
	struct decoder d;
	decoder_make(&d, ops, &s, 40, 40, 20, 40 * 20, test_linear_make);
	static const int counts[] = {1, 3, 33}, small_counts[] = {1, 5};
	for (size_t c = 0; c < (is_small ? ARRAY_LEN(small_counts) : ARRAY_LEN(counts)); c++) {
		/* Called directly, replayed, and several tokens a region: the same tokens. */
		int count = is_small ? small_counts[c] : counts[c];
		int32_t tokens[3][STEPS_MAX * 64];
		float lps[3][STEPS_MAX * 64];
		decode_run(&d, 0, steps, 1, count, tokens[0], lps[0]);
		decode_run(&d, 100 + c, steps, 1, count, tokens[1], lps[1]); /* first run, recording, then replays */
		decode_run(&d, 200 + c, steps, inside, count, tokens[2], lps[2]);
		for (int i = 0; i < steps * count; i++) {
			equal_to("replayed token", i, tokens[1][i], tokens[0][i]),
				equal_to("replayed log-probability", i, lps[1][i], lps[0][i]);
			equal_to("token of several in a region", i, tokens[2][i], tokens[0][i]),
				equal_to("log-probability of several in a region", i, lps[2][i], lps[0][i]);
			if (!(lps[0][i] < 0)) breach("log-probability", i, lps[0][i], -1, 0);
		}
	}
	decoder_free(&d);
	test_end("a region replayed, and several tokens in one, give the bits of direct calls");
}

/* ---- a row's bits do not depend on T (batch_invariant) ---- */

/* Numbers of rows, rising. None of the larger ones is a multiple of what a library's tiles have. */
static const int invariant_rows[] = {1, 2, 5, 8, 33, 64, 100, 130, 300, 1100, 1299};
static int invariant_counts(void) { return stages_are_small() ? 8 : (int)ARRAY_LEN(invariant_rows); }

/* Where column i of row t lies in the result of a projection of T rows: rows of all parts on
 * a GPU, planes on the CPU.
 */
static int64_t result_at(const struct ops_linear *l, int T, int t, int i)
{
	int part = 0, before = 0;
	if (!ops->host_memory) return (int64_t)t * l->out + i;
	while (i - before >= l->w[part].rows) before += l->w[part++].rows;
	return (int64_t)T * before + (int64_t)t * l->w[part].rows + i - before;
}

/* out: of three parts, or of one and zeros. */
static void invariance_check(int C, const int *out, bool has_add)
{
	int total = out[0] + out[1] + out[2], most = invariant_rows[invariant_counts() - 1], ld = C + ops->tail;
	char name[96];
	snprintf(name, sizeof name, "row among others, %d columns to %d", C, total);
	struct linear l;
	linear_make(ops, &l, C, out, out[1] ? 3 : 1, true, false, ops->tail ? 16 : 0, 0, 700);
	struct ops_next next = {&l.l, l.lora.r ? &l.lora : NULL};
	float *x, *w, *sum;
	struct array in = filled(8, most * C, 1, &x), scale = filled(9, C, 1, &w), n = elem_array((int64_t)most * ld),
				 y = elem_array((int64_t)most * total), add = filled(10, (int64_t)most * total, 1, &sum);
	struct ops_weight weight = {.rows = 1, .cols = C, .ld = C, .w = array_elem(&scale)};
	float *first = NULL;
	/* From the most rows down: the first result is what the others' rows are compared with. */
	for (int k = invariant_counts(); k-- > 0;) {
		int T = invariant_rows[k];
		ops->norm(ctx, array_elem(&n), NULL, array_elem(&in), &weight, 1e-5f, T, &next);
		ops->linear(ctx, array_elem(&y), array_elem(&n), &l.l, next.lora, has_add ? array_elem(&add) : NULL, T);
		float *got = array_get(ops, &y);
		for (int i = 0; first && i < T * total; i++)
			equal_to(name, i, got[result_at(&l.l, T, i / total, i % total)],
				first[result_at(&l.l, most, i / total, i % total)]);
		if (!first) first = got;
		else free(got);
	}
	free(first), free(x), free(w), free(sum);
	array_free(ops, &in), array_free(ops, &scale), array_free(ops, &n), array_free(ops, &y), array_free(ops, &add);
	linear_free(ops, &l);
}

/* The gradient of a projection's input, row by row, from gradients of the output
 * that are random numbers. */
static void invariance_backward_check(int in, int out)
{
	int most = invariant_rows[invariant_counts() - 1], ld = in + ops->tail;
	char name[96];
	snprintf(name, sizeof name, "gradient of a row among others, %d columns from %d", in, out);
	struct linear l;
	linear_make(ops, &l, in, &out, 1, false, false, ops->tail ? 16 : 0, 0, 720);
	float *unused, *gradient;
	struct array x = filled(12, (int64_t)most * ld, 1, &unused), dy = filled(13, (int64_t)most * out, 1, &gradient),
				 dx = elem_array((int64_t)most * ld);
	float *first = NULL;
	/* From the most rows down, as above. */
	for (int k = invariant_counts(); k-- > 0;) {
		int T = invariant_rows[k];
		ops->linear_backward(
			ctx, array_elem(&dx), array_elem(&dy), array_elem(&x), &l.l, l.lora.r ? &l.lora : NULL, T, OPS_SET);
		float *got = array_get(ops, &dx);
		for (int t = 0; first && t < T; t++)
			for (int i = 0; i < in; i++) equal_to(name, (int64_t)t * ld + i, got[t * ld + i], first[t * ld + i]);
		if (!first) first = got;
		else free(got);
	}
	guards_hold(name, &dx);
	free(first), free(unused), free(gradient);
	array_free(ops, &x), array_free(ops, &dy), array_free(ops, &dx);
	linear_free(ops, &l);
}

static void test_invariance(void)
{
	invariance_check(1024, (const int[]){1024, 256, 256}, false);
	/* a matrix whose columns are cut into ranges, the sums of which are added in order */
	invariance_check(8192, (const int[]){256, 64, 64}, true);
	test_end("batch_invariant: norm, thin product and projection of a row have the same bits for 1 to 1,299 rows");
}

/* With the tail of 64 these are the products (rows, columns, terms) (T, 128, 256) and (T, 512,
 * 192), and smaller ones: forward, and backward, where the matrix lies the other way round and has
 * more columns than terms. A product has no refusal: a width for which a library has no algorithm
 * with the right bits goes another way. */
static void test_invariance_narrow(void)
{
	invariance_check(192, (const int[]){64, 32, 32}, false);
	invariance_check(128, (const int[]){512, 0, 0}, true);
	invariance_check(8, (const int[]){8, 8, 8}, false);
	invariance_check(8, (const int[]){24, 0, 0}, true);
	invariance_backward_check(64, 256);
	invariance_backward_check(448, 192);
	invariance_backward_check(192, 448);
	invariance_backward_check(8, 8);
	test_end("batch_invariant: narrow projections and their gradients have the same bits for 1 to 1,299 rows");
}

/* ---- the list ---- */

static void run(void)
{
	STAGE(test_put());
	STAGE(test_pages_copy());
	STAGE(test_embed_gather());
	STAGE(test_norm_and_gate(false));
	STAGE(test_norm_and_gate(true));
	STAGE(test_linear());
	STAGE(test_stream());
	STAGE(test_mlp());
	STAGE(test_tail_against_adapter());
	STAGE(test_regions());
}
static void run_invariant(void)
{
	STAGE(test_invariance());
	STAGE(test_invariance_narrow());
}

int main(int argc, char **argv) { return stages_main(argc, argv, run, run_invariant); }
