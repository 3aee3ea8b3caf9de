/* stage_head: from the wanted rows to logits, their figures and drawn tokens, and back. The small
 * operations know one temperature a call, so rows are walked in runs of one temperature; every row
 * stands alone, so the runs change no bit. */
#include <math.h>
#include "ops_cpu.h"

static void gather(struct ops_context *c, struct elem *out, const struct elem *x, int C, int x_tail,
	const struct ops_batch *b, int first, int n)
{
	CHECK(x_tail == 0 && first >= 0 && first + n <= b->n);
	c->f.embed(c, FLOATS(out), CONST_FLOATS(x), b->at + first, n, C);
}

static void scatter(struct ops_context *c, struct elem *dx, const struct elem *d, int C, int dx_tail,
	const struct ops_batch *b, int first, int n)
{
	CHECK(dx_tail == 0 && first >= 0 && first + n <= b->n);
	c->f.embed_backward(c, FLOATS(dx), CONST_FLOATS(d), b->at + first, n, C, b->T);
}

static void logits(struct ops_context *c, struct f32 *out, const struct elem *x, const struct ops_linear *head, int n)
{
	c->f.matmul(
		c, FLOATS(out), CONST_FLOATS(x), CONST_FLOATS(head->w[0].w), n, head->out, head->in, false, true, 1, OPS_SET);
}

/* Rows from begin on that share its temperature. */
static int run_end(const float *temperature, int begin, int n)
{
	int end = begin + 1;
	while (end < n && temperature[end] == temperature[begin]) end++;
	return end;
}

/* ---- log-probabilities ---- */

struct figures {
	float *out;                /* (rows, OPS_FIGURES) */
	const float *logits;       /* (rows, V) */
	const struct ops_batch *b; /* whose logprob, entropy and lse are copied */
	int first;                 /* row of the batch that row 0 is */
	int V;
};

/* Integer reduction without a branch, so that the compiler vectorises it. */
static bool is_largest(const float *row, int V, int32_t target)
{
	int larger = 0;
	for (int j = 0; j < V; j++) larger += row[j] > row[target];
	return larger == 0;
}

static void figures_rows(void *arg, int64_t begin, int64_t end, int thread)
{
	const struct figures *f = arg;
	for (int64_t i = begin; i < end; i++) {
		float *out = f->out + i * OPS_FIGURES;
		out[FIGURE_LOGPROB] = f->b->logprob[f->first + i];
		out[FIGURE_ENTROPY] = f->b->entropy[f->first + i];
		out[FIGURE_LOG_SUM] = f->b->lse[f->first + i];
		out[FIGURE_IS_HIT] = is_largest(f->logits + i * f->V, f->V, f->b->target[f->first + i]);
	}
}

static void logprob(struct ops_context *c, struct f32 *out, const struct f32 *logits_in, const struct ops_batch *b,
	int first, int n, int V)
{
	const float *x = CONST_FLOATS(logits_in);
	CHECK(first >= 0 && first + n <= b->n);
	for (int i = first, end; i < first + n; i = end) {
		end = run_end(b->temperature, i, first + n);
		c->f.logprob(c, b->logprob + i, b->entropy + i, b->lse + i, x + (int64_t)(i - first) * V, NULL, b->target + i,
			b->temperature[i], end - i, V);
	}
	struct figures f = {FLOATS(out), x, b, first, V};
	pool_run(c->pool, n, rows_grain(V), figures_rows, &f);
}

static void head_backward(struct ops_context *c, struct elem *dx, struct f32 *logits_in, const struct f32 *out,
	const float *g, const struct elem *x, struct ops_linear *head, const struct ops_batch *b, int first, int n, int V)
{
	float *d = FLOATS(logits_in);
	struct ops_weight *w = &head->w[0];
	CHECK(first >= 0 && first + n <= b->n && V == head->out);
	for (int i = 0; i < n; i++) b->lse[first + i] = CONST_FLOATS(out)[(int64_t)i * OPS_FIGURES + FIGURE_LOG_SUM];
	/* Logits become their own gradient, a run of rows of one temperature at a time; then the head's
	 * and the rows' gradients are products of it. */
	for (int i = first, end; i < first + n; i = end) {
		end = run_end(b->temperature, i, first + n);
		c->f.logprob_backward(
			c, d + (int64_t)(i - first) * V, b->lse + i, b->target + i, g + (i - first), b->temperature[i], end - i, V);
	}
	if (w->grad) c->f.matmul(c, FLOATS(w->grad), d, CONST_FLOATS(x), V, head->in, n, true, false, 1, OPS_ADD);
	c->f.matmul(c, FLOATS(dx), d, CONST_FLOATS(w->w), n, head->in, V, false, false, 1, OPS_SET);
}

/* ---- sampling ---- */

/* At the first draw from a vocabulary: what any way of drawing from it may need. */
static void sampler_reserve(struct ops_context *c, int V)
{
	if (V <= c->sampler_V) return;
	c->sampler_V = V;
	for (int i = 0; i < c->threads; i++) {
		arena_release(&c->samplers[i]);
		arena_alloc(&c->samplers[i], size_mul((size_t)V, 3 * sizeof(float)) + (size_t)V + 65536);
	}
}

static bool is_renormalised(const struct ops_draw *d) { return d->temperature > 0 && d->min_p > 0; }

/* Draws from i on that share its temperature. */
static int draws_end(const struct ops_batch *b, int i)
{
	int end = i + 1;
	while (end < b->draws && b->drawn_temperature[end] == b->drawn_temperature[i]) end++;
	return end;
}

/* Two draws that see the same row the same way. */
static bool is_alike(const struct ops_batch *b, int i, int k)
{
	const struct ops_draw *x = &b->draw[i], *y = &b->draw[k];
	return b->from[i] == b->from[k] && x->temperature == y->temperature && x->top_k == y->top_k &&
		x->top_p == y->top_p && x->min_p == y->min_p;
}

struct draws {
	struct ops_context *c;
	struct ops_batch *b;
	int32_t *ids;        /* (draws) */
	const float *logits; /* (n, V) */
	int V;
};

static void draw_tokens(void *arg, int64_t begin, int64_t end, int thread)
{
	const struct draws *g = arg;
	struct ops_batch *b = g->b;
	struct sampled_row row;
	for (int i = (int)begin; i < end; i++) {
		const struct ops_draw *d = &b->draw[i];
		if (i == begin || !is_alike(b, i, i - 1))
			row = sampled_row(g->logits + (int64_t)b->from[i] * g->V, g->V, d, &g->c->samplers[thread]);
		g->ids[i] = sampled_draw(&row, rng_uniform(d->seed, d->stream, d->index), &b->drawn_logprob[i]);
		b->drawn_temperature[i] = d->temperature > 0 ? d->temperature : 1;
	}
}

/* The row's next token is its input now, unless it was its last. */
static void row_advance(struct ops_batch *b, int i, int32_t id)
{
	int t = b->at[i];
	b->left[i]--;
	for (int k = 0; k < b->nstop; k++)
		if (b->stop[k] == id) b->left[i] = 0;
	if (b->left[i] == 0) return;
	b->ids[t] = id;
	b->pos[t]++;
	b->draw[i].index++;
	if (b->pages) batch_slot_set(b, t);
}

static void sample(struct ops_context *c, struct i32 *drawn, struct f32 *logprob_out, const struct f32 *logits_in,
	struct ops_batch *b, int n, int V)
{
	int32_t *ids = (int32_t *)drawn;
	float *out = FLOATS(logprob_out);
	const float *x = CONST_FLOATS(logits_in);
	CHECK(n == b->n);
	sampler_reserve(c, V);
	struct draws g = {c, b, ids, x, V};
	pool_run(c->pool, b->draws, rows_grain((int64_t)V * 2), draw_tokens, &g);
	/* By the operation that the trainer uses: equal logits give it equal bits. */
	for (int i = 0, end; i < b->draws; i = end) {
		end = draws_end(b, i);
		c->f.logprob(c, out + i, NULL, b->drawn_lse + i, x, b->from + i, ids + i, b->drawn_temperature[i], end - i, V);
	}
	for (int i = 0; i < b->draws; i++) {
		if (is_renormalised(&b->draw[i]) && !isnan(out[i])) out[i] = b->drawn_logprob[i];
		if (!b->moves_on) continue;
		if (b->left[i] > 0) row_advance(b, i, ids[i]);
		else ids[i] = -1, out[i] = 0;
	}
}

void stage_head_entries(struct ops *t)
{
	t->gather = gather;
	t->logits = logits;
	t->logprob = logprob;
	t->sample = sample;
	t->head_backward = head_backward;
	t->scatter = scatter;
}
