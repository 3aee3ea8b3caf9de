/* The head: last norm's output to logits to log-probabilities, and the loss's way back. A chunk of
 * rows at a time, because all logits of a batch would be the largest array by far (vocabulary x 4
 * bytes a token); only rows that somebody asks for are computed.
 *
 * pass_logprobs and pass_backward cut the same rows into the same chunks: equal inputs give equal
 * bits, so the first update's ratio is exactly 1.
 *
 * On a device pass_backward holds two chunks. The next one's logits are asked for before the host
 * waits for this one's figures and computes its loss, so the device has work meanwhile. */
#include "model/model_internal.h"
#include "base/base.h"
#include "ops/ops.h"

#include <math.h>

void pass_want_hits(struct pass *p, uint8_t *hits) { p->head.hits = hits; }

/* Tells the batch of rows [begin, begin + n); returns n as the stages are to be called with. rows
 * NULL: at alone. */
static int group_want(
	struct pass *p, const struct head_row *rows, const int32_t *at, int begin, int n, float temperature)
{
	struct head *h = &p->head;
	int V = p->model->config.vocab_size;
	for (int i = 0; i < n; i++) {
		h->at[i] = rows ? rows[begin + i].at : at[begin + i];
		h->target[i] = rows ? rows[begin + i].target : 0;
		h->temperature[i] = rows && rows[begin + i].temperature > 0 ? rows[begin + i].temperature : temperature;
		CHECKF(h->at[i] >= 0 && h->at[i] < p->T, "row %d is at %d of %d tokens", begin + i, h->at[i], p->T);
		CHECKF(h->target[i] >= 0 && h->target[i] < V, "row %d has target %d of %d", begin + i, h->target[i], V);
	}
	struct ops *ops = p->model->ops;
	struct ops_want want = {.n = n, .at = h->at, .target = rows ? h->target : NULL, .temperature = h->temperature};
	return ops->batch_want(ops->ctx, p->walk.batch, &want);
}

static struct head_buffer *buffer_of(struct head *h, int first) { return &h->buffer[first / h->rows_max % h->buffers]; }

static void chunk_logits(struct pass *p, int first, int n)
{
	struct ops *ops = p->model->ops;
	struct head_buffer *b = buffer_of(&p->head, first);
	ops->gather(ops->ctx, b->x, p->hidden, p->model->config.hidden_size, ops->tail, p->walk.batch, first, n);
	ops->logits(ops->ctx, b->logits, b->x, &p->model->head_linear, n);
}

void pass_min_p(struct pass *p, float min_p)
{
	struct head *h = &p->head;
	h->min_p = min_p;
	if (min_p > 0 && !h->host_logits)
		h->host_logits = xmalloc(
			size_mul(size_mul((size_t)h->rows_max, (size_t)p->model->config.vocab_size), sizeof *h->host_logits));
}

/* What min_p drops gets a logit so low that it has no weight, and with it no gradient; by the
 * sampler's own comparison of weights exp((x - top) / T) with min_p. The host does it: it is rare,
 * and no stage of the table has it. */
static void chunk_truncate(struct pass *p, int first, int n)
{
	enum { IMPOSSIBLE = -1000000000 };
	struct ops *ops = p->model->ops;
	struct head *h = &p->head;
	struct f32 *logits = buffer_of(h, first)->logits;
	int V = p->model->config.vocab_size;
	ops->get_f32(ops->ctx, h->host_logits, logits, (int64_t)n * V);
	for (int i = 0; i < n; i++) {
		float *x = h->host_logits + (int64_t)i * V, top = x[0], inverse = 1.0f / h->temperature[first + i];
		for (int k = 1; k < V; k++) top = fmaxf(top, x[k]);
		for (int k = 0; k < V; k++)
			if (k != h->target[first + i] && expf((x[k] - top) * inverse) < h->min_p) x[k] = IMPOSSIBLE;
	}
	ops->put_f32(ops->ctx, logits, h->host_logits, (int64_t)n * V);
}

/* A group of wanted rows, which the batch knows, in chunks. */
struct group {
	int begin;  /* of the caller's rows */
	int count;  /* of them */
	int padded; /* as the stages take them */
};
/* Rows of the chunk that begins at `first`: as stages take them, and those that are somebody's. */
static int chunk_rows(const struct head *h, const struct group *g, int first)
{
	return MIN(h->rows_max, g->padded - first);
}
static int chunk_wanted(const struct head *h, const struct group *g, int first)
{
	return MIN(h->rows_max, g->count - first);
}

/* Asks for a chunk's logits and figures, and does not wait for them. */
static void chunk_begin(struct pass *p, const struct group *g, int first)
{
	struct ops *ops = p->model->ops;
	struct head *h = &p->head;
	struct head_buffer *b = buffer_of(h, first);
	int n = chunk_rows(h, g, first), wanted = chunk_wanted(h, g, first);
	chunk_logits(p, first, n);
	if (h->min_p > 0) chunk_truncate(p, first, wanted);
	ops->logprob(ops->ctx, b->out, b->logits, p->walk.batch, first, n, p->model->config.vocab_size);
	ops->fetch_f32(ops->ctx, first / h->rows_max % h->buffers, b->out, (int64_t)wanted * OPS_FIGURES);
}

/* Its figures, when they are there: for the callback, and hits for the caller. */
static void chunk_figures(struct pass *p, const struct group *g, int first)
{
	struct ops *ops = p->model->ops;
	struct head *h = &p->head;
	int wanted = chunk_wanted(h, g, first);
	ops->fetched_f32(ops->ctx, first / h->rows_max % h->buffers, h->figures, (int64_t)wanted * OPS_FIGURES);
	for (int i = 0; i < wanted; i++) {
		const float *figures = h->figures + (int64_t)i * OPS_FIGURES;
		h->logprob[i] = figures[FIGURE_LOGPROB];
		h->entropy[i] = figures[FIGURE_ENTROPY];
		if (h->hits) h->hits[g->begin + first + i] = figures[FIGURE_IS_HIT] != 0;
	}
}

void pass_logprobs(
	struct pass *p, const struct head_row *rows, int n, float temperature, float *logprob, float *entropy)
{
	struct head *h = &p->head;
	for (int begin = 0; begin < n; begin += h->group_max) {
		struct group g = {.begin = begin, .count = MIN(h->group_max, n - begin)};
		g.padded = group_want(p, rows, NULL, begin, g.count, temperature);
		for (int first = 0; first < g.count; first += h->rows_max) {
			size_t wanted = (size_t)chunk_wanted(h, &g, first);
			chunk_begin(p, &g, first);
			chunk_figures(p, &g, first);
			memcpy(logprob + begin + first, h->logprob, wanted * sizeof *logprob);
			if (entropy) memcpy(entropy + begin + first, h->entropy, wanted * sizeof *entropy);
		}
	}
	h->hits = NULL;
}

/* d logits in place of the logits, then to the head's weights and to the hidden rows they came
 * from. */
static void chunk_backward(struct pass *p, int first, int n)
{
	struct model *m = p->model;
	struct ops *ops = m->ops;
	struct head *h = &p->head;
	struct head_buffer *b = buffer_of(h, first);
	ops->head_backward(
		ops->ctx, h->dx, b->logits, b->out, h->g, b->x, &m->head_linear, p->walk.batch, first, n, m->config.vocab_size);
	ops->scatter(ops->ctx, p->dhidden, h->dx, m->config.hidden_size, ops->tail, p->walk.batch, first, n);
}

static void blocks_backward(struct pass *p)
{
	struct model *m = p->model;
	struct ops *ops = m->ops;
	ops->norm_backward(ops->ctx, p->grads.dx, p->dhidden, p->x_last, &m->norm->w, p->rstd_last, p->walk.T, OPS_SET);
	for (int l = m->config.num_hidden_layers - 1; l >= 0; l--)
		walk_block_backward(&p->walk, l, &p->layers[l], &p->grads);
	if (m->embed->w.grad) ops->embed_backward(ops->ctx, &m->embed->w, p->grads.dx, p->walk.batch, p->walk.T);
}

void pass_backward(struct pass *p, const struct head_row *rows, int n, float temperature, loss_fn *loss, void *ctx)
{
	struct ops *ops = p->model->ops;
	struct head *h = &p->head;
	size_t row_bytes = size_mul((size_t)(p->model->config.hidden_size + ops->tail), (size_t)ops->elem_bytes);
	CHECK(p->options.backward);
	adapter_dropout(p->walk.adapter, p->dropout_seed); /* the forward's masks */
	ops->zero(ops->ctx, p->dhidden, size_mul((size_t)p->walk.T, row_bytes));
	for (int begin = 0; begin < n; begin += h->group_max) {
		struct group g = {.begin = begin, .count = MIN(h->group_max, n - begin)};
		g.padded = group_want(p, rows, NULL, begin, g.count, temperature);
		/* With two buffers the next chunk is under way before the host looks at this one. */
		int ahead = (h->buffers - 1) * h->rows_max, begun = 0;
		for (int first = 0; first < g.count; first += h->rows_max) {
			int now = chunk_rows(h, &g, first), wanted = chunk_wanted(h, &g, first);
			for (; begun < g.count && begun <= first + ahead; begun += h->rows_max) chunk_begin(p, &g, begun);
			chunk_figures(p, &g, first);
			loss(ctx, begin + first, wanted, h->logprob, h->entropy, h->g);
			for (int i = wanted; i < now; i++) h->g[i] = 0; /* surplus rows teach nothing */
			chunk_backward(p, first, now);
		}
	}
	h->hits = NULL;
	blocks_backward(p);
}

void pass_logits(struct pass *p, const int32_t *at, int n, float *logits)
{
	struct ops *ops = p->model->ops;
	struct head *h = &p->head;
	int V = p->model->config.vocab_size;
	for (int begin = 0; begin < n; begin += h->group_max) {
		int group = MIN(h->group_max, n - begin), padded = group_want(p, NULL, at, begin, group, 1);
		for (int first = 0; first < group; first += h->rows_max) {
			chunk_logits(p, first, MIN(h->rows_max, padded - first));
			ops->get_f32(ops->ctx, logits + (int64_t)(begin + first) * V, buffer_of(h, first)->logits,
				(int64_t)MIN(h->rows_max, group - first) * V);
		}
	}
}
