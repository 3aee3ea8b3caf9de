/* The decoder block, forward. Training over packed sequences and generation over pages run this
 * same function; the caller's attend() is their only difference.
 *
 *   n1 = norm(x)                      q, k, v = n1 Wq, n1 Wk, n1 Wv (+ bias)
 *   q, k = rope(norm_head(q)), ...    x += att(q, k, v) Wo
 *   n2 = norm(x)                      x += (silu(n2 Wgate) * n2 Wup) Wdown */
#include "model/model_internal.h"

static void residual(struct ops *ops, float *out, const float *x, int64_t n)
{
	if (out != x) ops->copy(ops->ctx, out, x, (size_t)n * sizeof *x);
}

/* Head-wise norm and rotation of the raw projections. */
static void queries_and_keys(struct walk *w, const struct layer *y, const struct acts *a)
{
	const struct model_config *c = &w->model->config;
	struct ops *ops = w->model->ops;
	int NH = c->num_attention_heads, NKV = c->num_key_value_heads, HD = c->head_dim;
	if (c->qk_norm) {
		ops->rmsnorm(ops->ctx, a->q, a->rstd_q, a->q_raw, y->q_norm->data, (float)c->rms_norm_eps, w->T * NH, HD);
		ops->rmsnorm(ops->ctx, a->k, a->rstd_k, a->k_raw, y->k_norm->data, (float)c->rms_norm_eps, w->T * NKV, HD);
	}
	ops->rope(ops->ctx, a->q, w->model->rope, w->pos, w->T, NH, HD, false);
	ops->rope(ops->ctx, a->k, w->model->rope, w->pos, w->T, NKV, HD, false);
}

void walk_block(struct walk *w, int layer, const struct acts *a, float *x_out)
{
	const struct model_config *c = &w->model->config;
	const struct layer *y = &w->model->layers[layer];
	struct ops *ops = w->model->ops;
	int C = c->hidden_size;
	int64_t nx = (int64_t)w->T * C, ni = (int64_t)w->T * c->intermediate_size;

	ops->rmsnorm(ops->ctx, a->n1, a->rstd1, a->x_in, y->norm1->data, (float)c->rms_norm_eps, w->T, C);
	walk_linear(w, layer, PROJ_Q, a->q_raw, a->n1, OPS_SET);
	walk_linear(w, layer, PROJ_K, a->k_raw, a->n1, OPS_SET);
	walk_linear(w, layer, PROJ_V, a->v, a->n1, OPS_SET);
	queries_and_keys(w, y, a);
	w->attend(w, layer, a);
	residual(ops, a->x_mid, a->x_in, nx);
	walk_linear(w, layer, PROJ_O, a->x_mid, a->att, OPS_ADD);

	ops->rmsnorm(ops->ctx, a->n2, a->rstd2, a->x_mid, y->norm2->data, (float)c->rms_norm_eps, w->T, C);
	walk_linear(w, layer, PROJ_GATE, a->gate, a->n2, OPS_SET);
	walk_linear(w, layer, PROJ_UP, a->up, a->n2, OPS_SET);
	ops->silu_mul(ops->ctx, a->act, a->gate, a->up, ni);
	residual(ops, x_out, a->x_mid, nx);
	walk_linear(w, layer, PROJ_DOWN, x_out, a->act, OPS_ADD);
}
