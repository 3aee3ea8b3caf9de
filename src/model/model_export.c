/* A model as a folder for other programs: with an adapter added into its weights or without, in
 * fp32 or rounded once to a shorter type, in one file or in shards. */
#include "model/model_internal.h"

#include <stdlib.h>

static void merge_into(const struct model *m, const struct adapter *a, struct param *merged)
{
	struct ops *ops = m->ops;
	for (int l = 0; l < m->config.num_hidden_layers; l++)
		for (enum proj p = 0; p < PROJ_COUNT; p++) {
			const struct lora *lora = adapter_lora(a, l, p);
			if (!lora) continue;
			struct proj_shape s = proj_shape(&m->config, p);
			float *w = merged[m->layers[l].weight[p] - m->params].data;
			ops->matmul(
				ops->ctx, w, lora->b->data, lora->a->data, s.out, s.in, a->r, false, false, (float)a->scaling, OPS_ADD);
		}
}

/* The tensor's values on the host in the type asked for; memory comes from host unless the values
 * can be used where they are. */
static const void *values(struct ops *ops, const struct param *p, enum dtype dtype, struct arena *host)
{
	size_t n = (size_t)p->count, bytes = size_mul(n, sizeof(float));
	bool is_host = !strcmp(ops->name, "cpu");
	if (is_host && dtype == DTYPE_F32) return p->data;
	float *copy = is_host ? NULL : xmalloc(bytes);
	if (copy) ops->download(ops->ctx, copy, p->data, bytes);
	const float *from = copy ? copy : p->data;
	void *out = arena_alloc(host, size_mul(n, dtype_bytes(dtype)));
	if (dtype == DTYPE_F32) memcpy(out, from, bytes);
	for (size_t i = 0; i < n && dtype != DTYPE_F32; i++)
		((uint16_t *)out)[i] = dtype == DTYPE_BF16 ? f32_to_bf16(from[i]) : f32_to_f16(from[i]);
	free(copy);
	return out;
}

static int weights_write(struct ops *ops, const struct param *params, int count, const char *dir,
	const struct export_options *o, struct err *err)
{
	struct tensor_info *t = xcalloc((size_t)count, sizeof *t);
	struct arena host = {0};
	for (int i = 0; i < count; i++) {
		const struct param *p = &params[i];
		t[i] = (struct tensor_info){.name = p->name,
			.dtype = o->dtype,
			.ndim = p->ndim,
			.data = values(ops, p, o->dtype, &host),
			.bytes = size_mul((size_t)p->count, dtype_bytes(o->dtype))};
		for (int d = 0; d < p->ndim; d++) t[i].shape[d] = p->shape[d];
	}
	int rc = safetensors_write_folder(dir, t, (size_t)count, NULL, o->shard_bytes, err);
	arena_release(&host);
	free(t);
	return rc;
}

int model_export(const struct model *m, const struct adapter *a, const char *dir, const struct export_options *options,
	struct err *err)
{
	struct export_options o = options ? *options
									  : (struct export_options){.dtype = DTYPE_F32, .shard_bytes = MODEL_SHARD_BYTES};
	struct ops *ops = m->ops;
	struct param *merged = NULL;
	float *block = NULL;
	if (o.dtype != DTYPE_F32 && o.dtype != DTYPE_BF16 && o.dtype != DTYPE_F16)
		return err_set(err, ERR_UNSUPPORTED, "%s: weights are written as float32, bfloat16 or float16, not as %s", dir,
			dtype_name(o.dtype));
	if (a) {
		size_t table = (size_t)m->nparams * sizeof *m->params;
		merged = memcpy(xmalloc(table), m->params, table);
		block = model_copy(m, merged);
		merge_into(m, a, merged);
	}
	int rc = model_folder_begin(dir, err);
	if (!rc) rc = weights_write(ops, a ? merged : m->params, m->nparams, dir, &o, err);
	if (!rc) rc = model_config_save_as(dir, &m->config, o.dtype, err);
	if (block) ops->release(ops->ctx, block);
	free(merged);
	return rc;
}

int model_save(const struct model *m, const char *dir, struct err *err)
{
	return model_export(m, NULL, dir, NULL, err);
}
