/* The stages of the table that inference runs, on the backend that HONE_DEVICE names (cuda),
 * against plain formulas in double precision written here, over odd sizes; results lie
 * between sentinels and are NaN before: log-probabilities, and the tokens that are drawn.
 * Tolerances: stage_forward.h. */
#include "stage_forward.h"

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
			/* fp32 exponents below 60 in size: 2^-24 * 60 absolute in each, and the
			 * exponential's own error */
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
	/* Weights, heaviest first. */
	for (int i = 0; i < V; i++) top = fmax(top, d->row[i]), order[i] = i;
	for (int i = 0; i < V; i++) p[i] = exp((d->row[i] - top) / T);
	for (int i = 1; i < V; i++) /* heaviest first, lower id first */
		for (int j = i; j > 0 && p[order[j]] > p[order[j - 1]]; j--) {
			int t = order[j];
			order[j] = order[j - 1], order[j - 1] = t;
		}
	/* top_k, then top_p of what it left, then min_p. */
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

/* Chi-square over a million draws: with f degrees of freedom its mean is f, its variance 2 f; a
 * bound of f + 5 sqrt(2 f) + 10 is passed by chance less than once in a hundred thousand. */
static void test_draws(void)
{
	static const struct ops_draw hows[] = {{.temperature = 1, .top_p = 1}, {.temperature = 0.7f, .top_p = 1},
		{.temperature = 1, .top_p = 1, .top_k = 5}, {.temperature = 1.3f, .top_p = 0.8f},
		{.temperature = 1, .top_p = 0.9f, .top_k = 9}, {.temperature = 1, .top_p = 1, .min_p = 0.1f},
		{.temperature = 0, .top_p = 1}};
	for (size_t k = 0; k < ARRAY_LEN(hows); k++) {
		int n = stages_are_small() ? 64 : 4096, V = 23, rounds = stages_are_small() ? 1 : k == 0 ? 245 : 25;
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
	int shared = stages_are_small() ? 21 : SHARED;
	int32_t from[SHARED], alone[SHARED], tokens[SHARED];
	draws_make(&d, shared, 23, (struct ops_draw){.temperature = 1, .top_p = 1, .seed = 8}, 1.5f);
	float *rows = normals(79, (int64_t)shared * 23, 1.5f), *spread = xmalloc((size_t)shared * 23 * sizeof *spread);
	for (int i = 0; i < shared; i++) {
		from[i] = i / 7;
		memcpy(spread + i * 23, rows + from[i] * 23, 23 * sizeof *spread);
	}
	ops->put_f32(ctx, array_f32(&d.logits), spread, (int64_t)shared * 23);
	ops->batch_put(ctx, d.x.b, &d.x.r);
	draws_take(&d);
	memcpy(alone, d.drawn, (size_t)shared * sizeof *alone);
	ops->put_f32(ctx, array_f32(&d.logits), rows, (int64_t)shared * 23);
	ops->batch_put(ctx, d.x.b, &d.x.r);
	int n = ops->batch_want(
		ctx, d.x.b, &(struct ops_want){.n = d.n, .at = d.at, .draw = d.draw, .from = from, .draws = shared});
	ops->sample(ctx, (struct i32 *)d.tokens.at, array_f32(&d.logprob), array_f32(&d.logits), d.x.b, n, d.V);
	ops->get_i32(ctx, tokens, (struct i32 *)d.tokens.at, shared);
	for (int i = 0; i < shared; i++) equal_to("draw from a shared row", i, tokens[i], alone[i]);
	free(rows), free(spread);
	draws_free(&d);
	test_end(
		"a million draws follow the rules of temperature, top_k, top_p and min_p, from rows of their own or shared");
}

/* Large vocabularies: the drawn token is where u falls, up to the rounding of sums; figures of NaN
 * rows; batch moves on. */
static void test_draw_large(void)
{
	/* The small form has as few rows as tell a row of NaN from its neighbour, and a vocabulary just
	 * too large for one block of a cluster. */
	int n = stages_are_small() ? 2 : 7, V = stages_are_small() ? 8209 : 151937;
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

/* ---- the list ---- */

static void run(void)
{
	STAGE(test_logprob());
	STAGE(test_draws());
	STAGE(test_draw_large());
}

int main(int argc, char **argv) { return stages_main(argc, argv, run, NULL); }
