/* The head: last norm's output to logits to log-probabilities, and the loss's way back. A chunk of
 * rows at a time, because all logits of a batch would be the largest array by far (vocabulary x 4
 * bytes a token); only rows that somebody asks for are computed.
 *
 * pass_logprobs and pass_backward cut the same rows into the same chunks: equal inputs give equal
 * bits, so the first update's ratio is exactly 1. */
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

static void chunk_logits(struct pass *p, int first, int n)
{
	struct ops *ops = p->model->ops;
	struct head *h = &p->head;
	ops->gather(ops->ctx, h->x, p->hidden, p->model->config.hidden_size, ops->tail, p->walk.batch, first, n);
	ops->logits(ops->ctx, h->logits, h->x, &p->model->head_linear, n);
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
	int V = p->model->config.vocab_size;
	ops->get_f32(ops->ctx, h->host_logits, h->logits, (int64_t)n * V);
	for (int i = 0; i < n; i++) {
		float *x = h->host_logits + (int64_t)i * V, top = x[0], inverse = 1.0f / h->temperature[first + i];
		for (int k = 1; k < V; k++) top = fmaxf(top, x[k]);
		for (int k = 0; k < V; k++)
			if (k != h->target[first + i] && expf((x[k] - top) * inverse) < h->min_p) x[k] = IMPOSSIBLE;
	}
	ops->put_f32(ops->ctx, h->logits, h->host_logits, (int64_t)n * V);
}

/* Of n rows from `first` of the group on, the first `wanted` are somebody's; their figures go to
 * the host, hits to the caller's rows from `row` on. */
static void chunk_forward(struct pass *p, int first, int n, int wanted, int row)
{
	struct ops *ops = p->model->ops;
	struct head *h = &p->head;
	chunk_logits(p, first, n);
	if (h->min_p > 0) chunk_truncate(p, first, wanted);
	ops->logprob(ops->ctx, h->out, h->logits, p->walk.batch, first, n, p->model->config.vocab_size);
	ops->get_f32(ops->ctx, h->figures, h->out, (int64_t)wanted * OPS_FIGURES);
	for (int i = 0; i < wanted; i++) {
		const float *figures = h->figures + (int64_t)i * OPS_FIGURES;
		h->logprob[i] = figures[0];
		h->entropy[i] = figures[1];
		if (h->hits) h->hits[row + i] = figures[3] != 0;
	}
}

void pass_logprobs(
	struct pass *p, const struct head_row *rows, int n, float temperature, float *logprob, float *entropy)
{
	struct head *h = &p->head;
	for (int begin = 0; begin < n; begin += h->group_max) {
		int group = MIN(h->group_max, n - begin), padded = group_want(p, rows, NULL, begin, group, temperature);
		for (int first = 0; first < group; first += h->rows_max) {
			int wanted = MIN(h->rows_max, group - first);
			chunk_forward(p, first, MIN(h->rows_max, padded - first), wanted, begin + first);
			memcpy(logprob + begin + first, h->logprob, (size_t)wanted * sizeof *logprob);
			if (entropy) memcpy(entropy + begin + first, h->entropy, (size_t)wanted * sizeof *entropy);
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
	ops->head_backward(
		ops->ctx, h->dx, h->logits, h->out, h->g, h->x, &m->head_linear, p->walk.batch, first, n, m->config.vocab_size);
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
		int group = MIN(h->group_max, n - begin), padded = group_want(p, rows, NULL, begin, group, temperature);
		for (int first = 0; first < group; first += h->rows_max) {
			int rows_now = MIN(h->rows_max, padded - first), wanted = MIN(rows_now, group - first);
			chunk_forward(p, first, rows_now, wanted, begin + first);
			loss(ctx, begin + first, wanted, h->logprob, h->entropy, h->g);
			for (int i = wanted; i < rows_now; i++) h->g[i] = 0; /* surplus rows teach nothing */
			chunk_backward(p, first, rows_now);
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
			ops->get_f32(ops->ctx, logits + (int64_t)(begin + first) * V, h->logits,
				(int64_t)MIN(h->rows_max, group - first) * V);
		}
	}
}
