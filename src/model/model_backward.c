/* The decoder block, backward: walk_block's lines in reverse order. g->dx is the gradient of the
 * residual stream: each branch adds to it. Frozen parameters have no gradient array and cost
 * nothing; below the lowest block that learns, nothing is computed. */
#include "model/model_internal.h"
#include "ops/ops.h"

static void linear_backward(
	const struct walk *w, int layer, enum linear l, struct elem *dx, const struct elem *dy, const struct elem *x)
{
	struct ops *ops = w->model->ops;
	struct ops_linear *linear = &w->model->layers[layer].linear[l];
	ops->linear_backward(ops->ctx, dx, dy, x, linear, adapter_lora(w->adapter, layer, l), w->T, OPS_SET);
}

/* The forward pass's own calls once more, on the same values: the same bits, the thin product
 * behind each row included.
 */
static void norm_again(
	const struct walk *w, int layer, enum linear l, struct elem *n, const struct elem *x, const struct param *norm)
{
	struct ops *ops = w->model->ops;
	struct ops_next next = {&w->model->layers[layer].linear[l], adapter_lora(w->adapter, layer, l)};
	if (w->recomputes) ops->norm(ops->ctx, n, NULL, x, &norm->w, (float)w->model->config.rms_norm_eps, w->T, &next);
}

static void mlp_backward(const struct walk *w, int layer, const struct acts *a, const struct grads *g)
{
	struct ops *ops = w->model->ops;
	struct layer *y = &w->model->layers[layer];
	struct ops_next down = {&y->linear[LINEAR_DOWN], adapter_lora(w->adapter, layer, LINEAR_DOWN)};
	if (w->recomputes) ops->gate(ops->ctx, a->act, a->gu, w->model->config.intermediate_size, w->T, &down);
	linear_backward(w, layer, LINEAR_DOWN, g->dact, g->dx, a->act);
	ops->gate_backward(ops->ctx, g->dgu, g->dact, a->gu, w->model->config.intermediate_size, w->T);
	norm_again(w, layer, LINEAR_GU, a->n2, a->x_mid, y->norm2);
	linear_backward(w, layer, LINEAR_GU, g->dn, g->dgu, a->n2);
	ops->norm_backward(ops->ctx, g->dx, g->dn, a->x_mid, &y->norm2->w, a->rstd2, w->T, OPS_ADD);
}

static void attention_backward(const struct walk *w, int layer, const struct acts *a, const struct grads *g)
{
	struct ops *ops = w->model->ops;
	struct layer *y = &w->model->layers[layer];
	bool needs_dx = layer > 0 || w->model->embed->w.grad;
	struct elem *dn = needs_dx || y->norm1->w.grad ? g->dn : NULL;

	linear_backward(w, layer, LINEAR_O, g->datt, g->dx, a->att);
	ops->attend_backward(
		ops->ctx, g->dq, g->dk, g->dqkv, g->datt, a->att, a->lse, a->q, a->k, a->qkv, &y->heads, w->batch, w->T);
	ops->heads_backward(ops->ctx, g->dqkv, g->dq, g->dk, a->qkv, a->rstd_qk, &y->heads, w->batch, w->T);
	norm_again(w, layer, LINEAR_QKV, a->n1, a->x_in, y->norm1);
	linear_backward(w, layer, LINEAR_QKV, dn, g->dqkv, a->n1);
	if (dn) ops->norm_backward(ops->ctx, g->dx, dn, a->x_in, &y->norm1->w, a->rstd1, w->T, OPS_ADD);
}

void walk_block_backward(const struct walk *w, int layer, const struct acts *a, const struct grads *g)
{
	mlp_backward(w, layer, a, g);
	attention_backward(w, layer, a, g);
}
