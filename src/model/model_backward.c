/* The decoder block, backward: walk_block's lines in reverse order. g->dx is the gradient of the
 * residual stream: each branch adds to it. Frozen parameters have no gradient array and cost
 * nothing; below the lowest block that learns, nothing is computed. */
#include "model/model_internal.h"

static bool embed_learns(const struct model *m) { return m->embed->grad != NULL; }

/* dq, dk from after the rotation to before the head norms: into datt and dk_raw, or in place
 * without qk_norm. */
static void queries_and_keys_backward(
	struct walk *w, const struct layer *y, const struct acts *a, const struct grads *g)
{
	const struct model_config *c = &w->model->config;
	struct ops *ops = w->model->ops;
	int NH = c->num_attention_heads, NKV = c->num_key_value_heads, HD = c->head_dim;
	ops->rope(ops->ctx, g->dq, w->model->rope, w->pos, w->T, NH, HD, true);
	ops->rope(ops->ctx, g->dk, w->model->rope, w->pos, w->T, NKV, HD, true);
	if (!c->qk_norm) return;
	ops->rmsnorm_backward(
		ops->ctx, g->datt, y->q_norm->grad, g->dq, a->q_raw, y->q_norm->data, a->rstd_q, w->T * NH, HD, OPS_SET);
	ops->rmsnorm_backward(
		ops->ctx, g->dk_raw, y->k_norm->grad, g->dk, a->k_raw, y->k_norm->data, a->rstd_k, w->T * NKV, HD, OPS_SET);
}

static void mlp_backward(struct walk *w, int layer, const struct acts *a, const struct grads *g)
{
	const struct model_config *c = &w->model->config;
	const struct layer *y = &w->model->layers[layer];
	struct ops *ops = w->model->ops;
	walk_linear_backward(w, layer, PROJ_DOWN, g->dx, a->act, g->dact, OPS_SET);
	ops->silu_mul_backward(ops->ctx, g->dgate, g->dup, g->dact, a->gate, a->up, (int64_t)w->T * c->intermediate_size);
	walk_linear_backward(w, layer, PROJ_UP, g->dup, a->n2, g->dn, OPS_SET);
	walk_linear_backward(w, layer, PROJ_GATE, g->dgate, a->n2, g->dn, OPS_ADD);
	ops->rmsnorm_backward(
		ops->ctx, g->dx, y->norm2->grad, g->dn, a->x_mid, y->norm2->data, a->rstd2, w->T, c->hidden_size, OPS_ADD);
}

static void attention_backward(
	struct walk *w, int layer, const struct acts *a, const struct ops_packed *b, const struct grads *g)
{
	const struct model_config *c = &w->model->config;
	const struct layer *y = &w->model->layers[layer];
	struct ops *ops = w->model->ops;
	const float *dq_raw = c->qk_norm ? g->datt : g->dq, *dk_raw = c->qk_norm ? g->dk_raw : g->dk;
	bool needs_dx = layer > 0 || embed_learns(w->model);
	float *dn = needs_dx || y->norm1->grad ? g->dn : NULL;

	walk_linear_backward(w, layer, PROJ_O, g->dx, a->att, g->datt, OPS_SET);
	ops->attention_backward(ops->ctx, g->dq, g->dk, g->dv, g->datt, a->att, a->lse, a->q, a->k, a->v, b,
		c->num_attention_heads, c->num_key_value_heads, c->head_dim);
	queries_and_keys_backward(w, y, a, g);
	walk_linear_backward(w, layer, PROJ_V, g->dv, a->n1, dn, OPS_SET);
	walk_linear_backward(w, layer, PROJ_K, dk_raw, a->n1, dn, OPS_ADD);
	walk_linear_backward(w, layer, PROJ_Q, dq_raw, a->n1, dn, OPS_ADD);
	if (dn)
		ops->rmsnorm_backward(
			ops->ctx, g->dx, y->norm1->grad, dn, a->x_in, y->norm1->data, a->rstd1, w->T, c->hidden_size, OPS_ADD);
}

void walk_block_backward(
	struct walk *w, int layer, const struct acts *a, const struct ops_packed *b, const struct grads *g)
{
	mlp_backward(w, layer, a, g);
	attention_backward(w, layer, a, b, g);
}
