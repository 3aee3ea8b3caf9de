/* Low-rank adapters: y = x W^T + s (drop(x) A^T) B^T, never merged into W. Merging small updates
 * into weights rounds them away in bf16 and drifts the base, and would give sampler and trainer
 * different sums; kept apart, both run the same two thin products and the reference policy is the
 * same walk with the adapter left out.
 *
 * Dropout exists only in a gradient pass (dropout_seed != 0). Its mask is a function of (seed,
 * layer, projection, element), so backward draws it again instead of storing it. The thin product h
 * = drop(x) A^T is recomputed in backward too: it costs r / out of the projection and saves a
 * buffer for each one. */
#include "model/model_internal.h"

#include <math.h>
#include <stdlib.h>

/* ---- the adapter ---- */

static void lora_add(struct adapter *a, int layer, enum proj p)
{
	struct proj_shape s = proj_shape(&a->model->config, p);
	struct lora *lora = &a->lora[layer * PROJ_COUNT + p];
	struct param *A = &a->params[a->nparams++], *B = &a->params[a->nparams++];
	*A = (struct param){.ndim = 2, .shape = {a->r, s.in}, .count = (int64_t)a->r * s.in};
	*B = (struct param){.ndim = 2, .shape = {s.out, a->r}, .count = (int64_t)s.out * a->r};
	snprintf(A->name, sizeof A->name, "base_model.model.model.layers.%d.%s.%s.lora_A.weight", layer,
		proj_defs[p].parent, proj_defs[p].name);
	snprintf(B->name, sizeof B->name, "base_model.model.model.layers.%d.%s.%s.lora_B.weight", layer,
		proj_defs[p].parent, proj_defs[p].name);
	lora->a = A;
	lora->b = B;
	a->count += A->count + B->count;
}

struct adapter *adapter_alloc(struct model *m, int r, double alpha, double dropout, bool is_rslora, const bool *targets)
{
	struct adapter *a = xcalloc(1, sizeof *a);
	size_t pairs = (size_t)m->config.num_hidden_layers * PROJ_COUNT;
	*a = (struct adapter){.model = m,
		.r = r,
		.alpha = alpha,
		.dropout = dropout,
		.is_rslora = is_rslora,
		.scaling = alpha / (is_rslora ? sqrt(r) : r)};
	memcpy(a->targets, targets, sizeof a->targets);
	a->params = xcalloc(2 * pairs, sizeof *a->params);
	a->lora = xcalloc(pairs, sizeof *a->lora);
	for (int l = 0; l < m->config.num_hidden_layers; l++)
		for (enum proj p = 0; p < PROJ_COUNT; p++)
			if (targets[p]) lora_add(a, l, p);
	a->block = m->ops->alloc(m->ops->ctx, size_mul((size_t)a->count, sizeof(float)));
	params_carve(a->params, a->nparams, a->block);
	return a;
}

void adapter_free(struct adapter *a)
{
	if (!a) return;
	struct ops *ops = a->model->ops;
	ops->release(ops->ctx, a->block);
	if (a->grads) ops->release(ops->ctx, a->grads);
	free(a->params);
	free(a->lora);
	free(a);
}

struct param *adapter_params(struct adapter *a, int *count)
{
	*count = a->nparams;
	return a->params;
}

const struct lora *adapter_lora(const struct adapter *a, int layer, enum proj p)
{
	return a && a->targets[p] ? &a->lora[layer * PROJ_COUNT + p] : NULL;
}

/* ---- create ---- */

static int targets_parse(const char *list, bool targets[PROJ_COUNT], struct err *err)
{
	for (enum proj p = 0; p < PROJ_COUNT; p++) targets[p] = !list;
	for (const char *s = list; s && *s;) {
		size_t len = strcspn(s, ",");
		enum proj p = 0;
		while (p < PROJ_COUNT && (strlen(proj_defs[p].name) != len || memcmp(proj_defs[p].name, s, len))) p++;
		if (p == PROJ_COUNT)
			return err_set(err, ERR_USAGE,
				"target_modules: \"%.*s\" is unknown; known are q_proj, k_proj, v_proj, o_proj, gate_proj, up_proj, "
				"down_proj",
				(int)MIN(len, 60), s);
		targets[p] = true;
		s += len + (s[len] == ',');
	}
	for (enum proj p = 0; p < PROJ_COUNT; p++)
		if (targets[p]) return 0;
	return err_set(err, ERR_USAGE, "target_modules is empty; leave it out for all seven projections");
}

int adapter_create(struct model *m, const struct adapter_options *o, struct adapter **out, struct err *err)
{
	bool targets[PROJ_COUNT];
	if (o->r < 1 || o->r > ADAPTER_RANK_MAX)
		return err_set(err, ERR_RANGE, "adapter rank %d; expected 1 to %d", o->r, ADAPTER_RANK_MAX);
	if (!(o->lora_alpha > 0 && o->lora_alpha < 1e6))
		return err_set(err, ERR_RANGE, "lora_alpha %g; expected a positive number", o->lora_alpha);
	if (!(o->lora_dropout >= 0 && o->lora_dropout < 1))
		return err_set(err, ERR_RANGE, "lora_dropout %g; expected 0 up to, not including, 1", o->lora_dropout);
	int rc = targets_parse(o->target_modules, targets, err);
	if (rc) return rc;
	struct adapter *a = adapter_alloc(m, o->r, o->lora_alpha, o->lora_dropout, false, targets);
	for (int i = 0; i < a->nparams; i += 2) { /* A; the B after it stays zero, so that a new adapter changes nothing */
		const struct param *A = &a->params[i];
		float bound = 1 / sqrtf((float)A->shape[1]), *host = xmalloc((size_t)A->count * sizeof *host);
		for (int64_t k = 0; k < A->count; k++)
			host[k] = bound * (2 * rng_uniform(o->seed, (uint64_t)i, (uint64_t)k) - 1);
		m->ops->upload(m->ops->ctx, A->data, host, (size_t)A->count * sizeof *host);
		free(host);
	}
	*out = a;
	return 0;
}

/* ---- the adapted projection ---- */

static const float *dropped(struct walk *w, int layer, enum proj p, const float *x, int in)
{
	struct ops *ops = w->model->ops;
	if (!w->dropout_seed || w->dropout <= 0) return x;
	ops->dropout(ops->ctx, w->lora_x, x, w->dropout, w->dropout_seed, (uint64_t)(layer * PROJ_COUNT + (int)p),
		(int64_t)w->T * in);
	return w->lora_x;
}

void walk_linear(struct walk *w, int layer, enum proj p, float *y, const float *x, enum ops_accumulate acc)
{
	const struct model *m = w->model;
	struct ops *ops = m->ops;
	const struct lora *lora = adapter_lora(w->adapter, layer, p);
	const struct param *bias = m->layers[layer].bias[p];
	struct proj_shape s = proj_shape(&m->config, p);

	ops->matmul(ops->ctx, y, x, m->layers[layer].weight[p]->data, w->T, s.out, s.in, false, true, 1, acc);
	if (bias) ops->bias_add(ops->ctx, y, bias->data, w->T, s.out);
	if (!lora) return;
	int r = w->adapter->r;
	ops->matmul(
		ops->ctx, w->lora_h, dropped(w, layer, p, x, s.in), lora->a->data, w->T, r, s.in, false, true, 1, OPS_SET);
	ops->matmul(
		ops->ctx, y, w->lora_h, lora->b->data, w->T, s.out, r, false, true, (float)w->adapter->scaling, OPS_ADD);
}

/* dh = s dy B;  dB += s dy^T h;  dA += dh^T drop(x);  dx += drop'(dh A). */
static void lora_backward(
	struct walk *w, int layer, enum proj p, const struct lora *lora, const float *dy, const float *x, float *dx)
{
	struct ops *ops = w->model->ops;
	struct proj_shape s = proj_shape(&w->model->config, p);
	float scaling = (float)w->adapter->scaling;
	int r = w->adapter->r, T = w->T;

	ops->matmul(ops->ctx, w->lora_dh, dy, lora->b->data, T, r, s.out, false, false, scaling, OPS_SET);
	if (lora->a->grad) {
		const float *xd = dropped(w, layer, p, x, s.in);
		ops->matmul(ops->ctx, w->lora_h, xd, lora->a->data, T, r, s.in, false, true, 1, OPS_SET);
		ops->matmul(ops->ctx, lora->b->grad, dy, w->lora_h, s.out, r, T, true, false, scaling, OPS_ADD);
		ops->matmul(ops->ctx, lora->a->grad, w->lora_dh, xd, r, s.in, T, true, false, 1, OPS_ADD);
	}
	if (!dx) return;
	if (!w->dropout_seed || w->dropout <= 0) {
		ops->matmul(ops->ctx, dx, w->lora_dh, lora->a->data, T, s.in, r, false, false, 1, OPS_ADD);
		return;
	}
	ops->matmul(ops->ctx, w->lora_x, w->lora_dh, lora->a->data, T, s.in, r, false, false, 1, OPS_SET);
	dropped(w, layer, p, w->lora_x, s.in);
	ops->axpy(ops->ctx, dx, w->lora_x, 1, (int64_t)T * s.in);
}

void walk_linear_backward(
	struct walk *w, int layer, enum proj p, const float *dy, const float *x, float *dx, enum ops_accumulate acc)
{
	const struct model *m = w->model;
	struct ops *ops = m->ops;
	const struct lora *lora = adapter_lora(w->adapter, layer, p);
	const struct param *weight = m->layers[layer].weight[p], *bias = m->layers[layer].bias[p];
	struct proj_shape s = proj_shape(&m->config, p);

	if (weight->grad) ops->matmul(ops->ctx, weight->grad, dy, x, s.out, s.in, w->T, true, false, 1, OPS_ADD);
	if (bias && bias->grad) ops->bias_backward(ops->ctx, bias->grad, dy, w->T, s.out);
	if (dx) ops->matmul(ops->ctx, dx, dy, weight->data, w->T, s.in, s.out, false, false, 1, acc);
	if (lora) lora_backward(w, layer, p, lora, dy, x, dx);
}
