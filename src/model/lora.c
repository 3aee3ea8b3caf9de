/* Low-rank adapters: y = x W^T + s (drop(x) A^T) B^T, never merged into W. Merging small updates
 * into weights rounds them away in bf16 and drifts the base, and would give sampler and trainer
 * different sums; kept apart, both run the same products and the reference policy is the same walk
 * with the adapter left out.
 *
 * Dropout exists only in a gradient pass (seed != 0). Its mask is a function of (seed, layer,
 * projection, element), so backward draws it again instead of storing it. Where the backend's
 * elements are shorter than fp32, what learns are fp32 masters beside them: a step of a small
 * learning rate would round away. */
#include "model/model_internal.h"
#include "base/base.h"
#include "base/dtype.h"
#include "ops/ops.h"

#include <math.h>
#include <stdlib.h>

/* ---- the adapter ---- */

static struct param *matrix_add(struct adapter *a, int rows, int cols, int layer, enum proj p, const char *which)
{
	struct param *m = &a->params[a->nparams++];
	*m = (struct param){.ndim = 2,
		.shape = {rows, cols},
		.count = (int64_t)rows * cols,
		.w = {.rows = rows, .cols = cols, .ld = cols},
		.changes = &a->changes};
	snprintf(m->name, sizeof m->name, "base_model.model.model.layers.%d.%s.%s.lora_%s.weight", layer,
		proj_defs[p].parent, proj_defs[p].name, which);
	a->count += m->count;
	return m;
}

static void lora_add(struct adapter *a, int layer, enum proj p)
{
	struct proj_shape s = proj_shape(&a->model->config, p);
	a->a[layer * PROJ_COUNT + (int)p] = matrix_add(a, a->r, s.in, layer, p, "A");
	a->b[layer * PROJ_COUNT + (int)p] = matrix_add(a, s.out, a->r, layer, p, "B");
}

void adapter_link(struct adapter *a)
{
	for (int l = 0; l < a->model->config.num_hidden_layers; l++)
		for (enum linear k = 0; k < LINEAR_COUNT; k++) {
			const struct linear_def *d = &linear_defs[k];
			struct ops_lora *lora = &a->loras[l * LINEAR_COUNT + (int)k];
			int first = l * PROJ_COUNT + (int)d->first;
			*lora = (struct ops_lora){
				.r = a->r, .scaling = (float)a->scaling, .dropout = (float)a->dropout, .stream = (uint64_t)first};
			for (int i = 0; i < d->parts; i++)
				if (a->a[first + i]) {
					lora->a[i] = a->a[first + i]->w;
					lora->b[i] = a->b[first + i]->w;
				}
		}
}

struct ops_lora *adapter_lora(const struct adapter *a, int layer, enum linear l)
{
	bool any = false;
	for (int i = 0; a && i < linear_defs[l].parts; i++) any |= a->targets[(int)linear_defs[l].first + i];
	return any ? &a->loras[layer * LINEAR_COUNT + (int)l] : NULL;
}

void adapter_dropout(struct adapter *a, uint64_t seed)
{
	int n = a ? a->model->config.num_hidden_layers * LINEAR_COUNT : 0;
	for (int i = 0; i < n; i++) a->loras[i].seed = seed;
}

void model_bind(struct model *m, const struct adapter *a)
{
	uint64_t serial = a ? a->serial : 0, changes = a ? a->changes : 0;
	if (m->is_prepared && m->prepared_changes != m->changes) model_prepare(m);
	if (m->bound_serial == serial && m->bound_changes == changes) return;
	for (int l = 0; l < m->config.num_hidden_layers; l++)
		for (enum linear k = 0; k < LINEAR_COUNT; k++)
			m->ops->bind(m->ops->ctx, &m->layers[l].linear[k], adapter_lora(a, l, k));
	m->bound_serial = serial;
	m->bound_changes = changes;
}

/* A device that cannot hold the adapter says so before it is asked to. */
static int room_check(const struct adapter *a, struct err *err)
{
	const struct ops *ops = a->model->ops;
	double mib = 1.0 / (1 << 20), copies = (double)params_bytes(ops, a->params, a->nparams) * mib,
		   masters = (double)a->count * sizeof(float) * mib, has = (double)model_memory(a->model) * mib;
	if (ops->host_memory || copies + masters <= has) return 0;
	return err_set(err, ERR_LIMIT,
		"an adapter of rank %d needs %.0f MiB + %.0f MiB of masters on device %s, which has %.0f MiB free; take a "
		"lower rank, fewer target_modules or adapters, or --device cpu",
		a->r, copies, masters, ops->name, has);
}

int adapter_alloc(struct model *m, int r, double alpha, double dropout, bool is_rslora, const bool *targets,
	struct adapter **out, struct err *err)
{
	struct ops *ops = m->ops;
	if (ops->tail && OPS_PARTS * r > ops->tail)
		return err_set(err, ERR_LIMIT,
			"an adapter of rank %d needs %d columns beside the weights, this device was opened with %d", r,
			OPS_PARTS * r, ops->tail);
	struct adapter *a = xcalloc(1, sizeof *a);
	size_t layers = (size_t)m->config.num_hidden_layers, pairs = layers * PROJ_COUNT;
	*a = (struct adapter){.model = m,
		.r = r,
		.alpha = alpha,
		.dropout = dropout,
		.is_rslora = is_rslora,
		.scaling = alpha / (is_rslora ? sqrt(r) : r),
		.serial = ++m->serial_last};
	/* The table: a pair for every adapted projection, layer by layer. */
	memcpy(a->targets, targets, sizeof a->targets);
	a->params = xcalloc(2 * pairs, sizeof *a->params);
	a->a = xcalloc(pairs, sizeof(struct param *));
	a->b = xcalloc(pairs, sizeof(struct param *));
	a->loras = xcalloc(layers * LINEAR_COUNT, sizeof *a->loras);
	for (int l = 0; l < m->config.num_hidden_layers; l++)
		for (enum proj p = 0; p < PROJ_COUNT; p++)
			if (targets[p]) lora_add(a, l, p);
	/* Memory: working copies, and masters where those are shorter than fp32. */
	int rc = room_check(a, err);
	if (rc) {
		adapter_free(a);
		return rc;
	}
	a->block = ops->alloc(ops->ctx, params_bytes(ops, a->params, a->nparams));
	params_carve(ops, a->params, a->nparams, a->block);
	if (!ops->host_memory) a->masters = ops->alloc(ops->ctx, size_mul((size_t)a->count, sizeof(float)));
	params_carve_masters(ops, a->params, a->nparams, a->masters);
	adapter_link(a);
	*out = a;
	return 0;
}

void adapter_free(struct adapter *a)
{
	if (!a) return;
	struct ops *ops = a->model->ops;
	ops->release(ops->ctx, a->block);
	ops->release(ops->ctx, a->masters);
	ops->release(ops->ctx, a->grads);
	free(a->params);
	free(a->a);
	free(a->b);
	free(a->loras);
	free(a);
}

struct param *adapter_params(struct adapter *a, int *count)
{
	*count = a->nparams;
	return a->params;
}

/* ---- create ---- */

int targets_parse(const char *list, bool targets[PROJ_COUNT], struct err *err)
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

int adapter_modules_check(const char *list, struct err *err)
{
	bool targets[PROJ_COUNT];
	return targets_parse(list, targets, err);
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
	struct adapter *a;
	rc = adapter_alloc(m, o->r, o->lora_alpha, o->lora_dropout, false, targets, &a, err);
	if (rc) return rc;
	for (int i = 0; i < a->nparams; i += 2) { /* A; the B after it stays zero, so that a new adapter changes nothing */
		struct param *A = &a->params[i];
		float bound = 1 / sqrtf((float)A->shape[1]), *host = xmalloc((size_t)A->count * sizeof *host);
		for (int64_t k = 0; k < A->count; k++)
			host[k] = bound * (2 * rng_uniform(o->seed, (uint64_t)i, (uint64_t)k) - 1);
		param_put(m->ops, A, host, DTYPE_F32);
		free(host);
	}
	*out = a;
	return 0;
}
