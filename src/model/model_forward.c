/* The decoder block, forward. Training over packed sequences and generation over pages run this
 * same function; with pages, attention reads them, and that is the only difference.
 *
 *   n1 = norm(x)                      q, k, v = n1 Wq, n1 Wk, n1 Wv (+ bias)
 *   q, k = rope(norm_head(q)), ...    x += att(q, k, v) Wo
 *   n2 = norm(x)                      x += (silu(n2 Wgate) * n2 Wup) Wdown */
#include "model/model_internal.h"
#include "ops/ops.h"

void walk_block(const struct walk *w, int layer, const struct acts *a, struct elem *x_out)
{
	const struct model_config *c = &w->model->config;
	const struct layer *y = &w->model->layers[layer];
	struct ops *ops = w->model->ops;
	struct ops_context *ctx = ops->ctx;
	float eps = (float)c->rms_norm_eps;
	int T = w->T;

	/* Each linear with its adapter; whoever writes the input of one is told which will read it. */
	struct ops_next next[LINEAR_COUNT];
	for (enum linear l = 0; l < LINEAR_COUNT; l++)
		next[l] = (struct ops_next){&y->linear[l], adapter_lora(w->adapter, layer, l)};

	/* Attention: over the pages of the sampler, or over packed rows in training. Its output joins
	 * the residual stream. */
	ops->norm(ctx, a->n1, a->rstd1, a->x_in, &y->norm1->w, eps, T, &next[LINEAR_QKV]);
	ops->linear(ctx, a->qkv, a->n1, &y->linear[LINEAR_QKV], next[LINEAR_QKV].lora, NULL, T);
	struct elem *kpages = w->kv ? kv_layer(w->kv, layer, 0) : NULL, *vpages = w->kv ? kv_layer(w->kv, layer, 1) : NULL;
	ops->heads(ctx, a->q, a->k, a->rstd_qk, a->qkv, kpages, vpages, &y->heads, w->batch, T);
	if (w->kv) ops->attend_paged(ctx, a->att, a->q, kpages, vpages, &y->heads, w->batch, T, &next[LINEAR_O]);
	else ops->attend(ctx, a->att, a->lse, a->q, a->k, a->qkv, &y->heads, w->batch, T, &next[LINEAR_O]);
	ops->linear(ctx, a->x_mid, a->att, &y->linear[LINEAR_O], next[LINEAR_O].lora, a->x_in, T);

	/* The gated MLP, which joins the stream likewise. */
	ops->norm(ctx, a->n2, a->rstd2, a->x_mid, &y->norm2->w, eps, T, &next[LINEAR_GU]);
	ops->linear(ctx, a->gu, a->n2, &y->linear[LINEAR_GU], next[LINEAR_GU].lora, NULL, T);
	ops->gate(ctx, a->act, a->gu, c->intermediate_size, T, &next[LINEAR_DOWN]);
	ops->linear(ctx, x_out, a->act, &y->linear[LINEAR_DOWN], next[LINEAR_DOWN].lora, a->x_mid, T);
}
