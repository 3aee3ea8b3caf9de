/* The head: last norm's output to logits to log-probabilities, and the loss's way back. A chunk of
 * rows at a time, because all logits of a batch would be the largest array by far (vocabulary x 4
 * bytes a token); only rows that somebody asks for are computed.
 *
 * pass_logprobs and pass_backward cut the same rows into the same chunks: equal inputs give equal
 * bits, so the first update's ratio is exactly 1. */
#include "model/model_internal.h"

#include <math.h>

void head_logits(const struct model *m, float *logits, const float *x, int n)
{
	m->ops->matmul(
		m->ops->ctx, logits, x, m->head->data, n, m->config.vocab_size, m->config.hidden_size, false, true, 1, OPS_SET);
}

void pass_want_hits(struct pass *p, uint8_t *hits) { p->head.hits = hits; }

const float *pass_hidden(const struct pass *p) { return p->hidden; }

/* Integer reduction without a branch, so that the compiler vectorises it. */
static bool is_largest(const float *row, int V, int32_t target)
{
	int larger = 0;
	for (int j = 0; j < V; j++) larger += row[j] > row[target];
	return larger == 0;
}

static void hits_store(struct pass *p, int begin, int n)
{
	struct ops *ops = p->model->ops;
	struct head *h = &p->head;
	int V = p->model->config.vocab_size;
	for (int i = 0; i < n; i++) {
		ops->download(ops->ctx, h->host_logits, h->logits + (int64_t)i * V, (size_t)V * sizeof(float));
		h->hits[begin + i] = is_largest(h->host_logits, V, h->target[i]);
	}
}

/* Logits and per-row figures of rows [begin, begin + n); host copies of the figures lie in h->host.
 */
static void chunk_forward(struct pass *p, const struct head_row *rows, int begin, int n, float temperature)
{
	const struct model_config *c = &p->model->config;
	struct ops *ops = p->model->ops;
	struct head *h = &p->head;
	for (int i = 0; i < n; i++) {
		int at = rows[begin + i].at, target = rows[begin + i].target;
		CHECKF(at >= 0 && at < p->packed.T, "row %d is at %d of %d tokens", begin + i, at, p->packed.T);
		CHECKF(target >= 0 && target < c->vocab_size, "row %d has target %d of %d", begin + i, target, c->vocab_size);
		h->at[i] = at;
		h->target[i] = target;
	}
	ops->embed(ops->ctx, h->x, p->hidden, h->at, n, c->hidden_size); /* a gather of rows */
	head_logits(p->model, h->logits, h->x, n);
	ops->logprob(ops->ctx, h->logprob, h->entropy, h->lse, h->logits, h->target, temperature, n, c->vocab_size);
	ops->download(ops->ctx, h->host, h->logprob, (size_t)n * sizeof(float));
	ops->download(ops->ctx, h->host + h->rows_max, h->entropy, (size_t)n * sizeof(float));
	if (h->hits) hits_store(p, begin, n);
}

void pass_logprobs(
	struct pass *p, const struct head_row *rows, int n, float temperature, float *logprob, float *entropy)
{
	struct head *h = &p->head;
	for (int begin = 0; begin < n; begin += h->rows_max) {
		int m = MIN(h->rows_max, n - begin);
		chunk_forward(p, rows, begin, m, temperature);
		memcpy(logprob + begin, h->host, (size_t)m * sizeof *logprob);
		if (entropy) memcpy(entropy + begin, h->host + h->rows_max, (size_t)m * sizeof *entropy);
	}
	h->hits = NULL;
}

/* d logits in place of the logits, then to the head's weights and to the hidden rows they came
 * from. */
static void chunk_backward(struct pass *p, int n, float temperature)
{
	const struct model *m = p->model;
	struct ops *ops = m->ops;
	struct head *h = &p->head;
	int C = m->config.hidden_size, V = m->config.vocab_size;
	ops->upload(ops->ctx, h->g, h->host + 2 * h->rows_max, (size_t)n * sizeof(float));
	ops->logprob_backward(ops->ctx, h->logits, h->lse, h->target, h->g, temperature, n, V);
	if (m->head->grad) ops->matmul(ops->ctx, m->head->grad, h->logits, h->x, V, C, n, true, false, 1, OPS_ADD);
	ops->matmul(ops->ctx, h->dx, h->logits, m->head->data, n, C, V, false, false, 1, OPS_SET);
	ops->embed_backward(ops->ctx, p->dhidden, h->dx, h->at, n, C, p->packed.T); /* a scatter */
}

void pass_backward(struct pass *p, const struct head_row *rows, int n, float temperature, loss_fn *loss, void *ctx)
{
	const struct model *m = p->model;
	struct ops *ops = m->ops;
	struct head *h = &p->head;
	int C = m->config.hidden_size, T = p->packed.T;
	CHECK(p->options.backward);
	ops->zero(ops->ctx, p->dhidden, (size_t)T * (size_t)C * sizeof(float));
	for (int begin = 0; begin < n; begin += h->rows_max) {
		int rows_now = MIN(h->rows_max, n - begin);
		chunk_forward(p, rows, begin, rows_now, temperature);
		loss(ctx, begin, rows_now, h->host, h->host + h->rows_max, h->host + 2 * h->rows_max);
		chunk_backward(p, rows_now, temperature);
	}
	h->hits = NULL;

	ops->rmsnorm_backward(
		ops->ctx, p->grads.dx, m->norm->grad, p->dhidden, p->x_last, m->norm->data, p->rstd_last, T, C, OPS_SET);
	for (int l = m->config.num_hidden_layers - 1; l >= 0; l--)
		walk_block_backward(&p->walk, l, &p->layers[l], &p->packed, &p->grads);
	if (m->embed->grad) ops->embed_backward(ops->ctx, m->embed->grad, p->grads.dx, p->ids, T, C, m->config.vocab_size);
}

void pass_logits(struct pass *p, const int32_t *at, int n, float *logits)
{
	struct ops *ops = p->model->ops;
	struct head *h = &p->head;
	int C = p->model->config.hidden_size, V = p->model->config.vocab_size;
	for (int begin = 0; begin < n; begin += h->rows_max) {
		int m = MIN(h->rows_max, n - begin);
		for (int i = 0; i < m; i++)
			CHECKF(at[begin + i] >= 0 && at[begin + i] < p->packed.T, "row %d is at %d of %d tokens", begin + i,
				at[begin + i], p->packed.T);
		ops->embed(ops->ctx, h->x, p->hidden, at + begin, m, C);
		head_logits(p->model, h->logits, h->x, m);
		ops->download(ops->ctx, logits + (int64_t)begin * V, h->logits, (size_t)m * (size_t)V * sizeof(float));
	}
}
