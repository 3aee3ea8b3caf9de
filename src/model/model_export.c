/* A model as a folder for other programs: with an adapter added into its weights or without, in
 * fp32 or rounded once to a shorter type, in one file or in shards. */
#include "model/model_internal.h"
#include "base/base.h"
#include "base/dtype.h"
#include "ops/ops.h"
#include "tensor/tensor.h"

#include <math.h>
#include <stdlib.h>

struct export
{
	const struct model *m;
	const struct adapter *a; /* NULL: the weights as they are */
	struct export_options o;
};

/* The adapter's pair for the parameter, if it has one. */
static bool lora_of(const struct export *x, const struct param *p, const struct param **A, const struct param **B)
{
	for (int i = 0; x->a && i < x->m->config.num_hidden_layers * PROJ_COUNT; i++) {
		if (x->m->layers[i / PROJ_COUNT].weight[i % PROJ_COUNT] != p) continue;
		*A = x->a->a[i];
		*B = x->a->b[i];
		return *A != NULL;
	}
	return false;
}

/* w += scaling * B A, as a product of the CPU backend would: one chain of fused multiply-adds over
 * the rank for each element, then the scaling. */
static void merge_into(const struct export *x, const struct param *A, const struct param *B, float *w)
{
	struct ops *ops = x->m->ops;
	int64_t out = B->shape[0], r = B->shape[1], in = A->shape[1];
	float *a = xmalloc(size_mul((size_t)A->count, sizeof *a)), *b = xmalloc(size_mul((size_t)B->count, sizeof *b)),
		  *row = xmalloc(size_mul((size_t)in, sizeof *row)), scaling = (float)x->a->scaling;
	param_get(ops, A, a);
	param_get(ops, B, b);
	for (int64_t o = 0; o < out; o++, w += in) {
		memset(row, 0, (size_t)in * sizeof *row);
		for (int64_t k = 0; k < r; k++)
			for (int64_t i = 0; i < in; i++) row[i] = fmaf(b[o * r + k], a[k * in + i], row[i]);
		for (int64_t i = 0; i < in; i++) w[i] = fmaf(row[i], scaling, w[i]);
	}
	free(a);
	free(b);
	free(row);
}

/* The tensor's values in the type asked for. */
static void tensor_make(void *ctx, size_t i, void *out)
{
	const struct export *x = ctx;
	const struct param *p = &x->m->params[i], *A = NULL, *B = NULL;
	size_t n = (size_t)p->count;
	bool is_short = x->o.dtype != DTYPE_F32;
	float *from = is_short ? xmalloc(size_mul(n, sizeof *from)) : out;
	uint16_t *to = out;
	param_get(x->m->ops, p, from);
	if (lora_of(x, p, &A, &B)) merge_into(x, A, B, from);
	if (!is_short) return;
	for (size_t k = 0; k < n; k++) to[k] = x->o.dtype == DTYPE_BF16 ? f32_to_bf16(from[k]) : f32_to_f16(from[k]);
	free(from);
}

/* All parameters as tensors of one type, which `make` makes one at a time: a model is not copied to
 * be saved. */
static int weights_write(const struct model *m, const struct export_options *o, tensor_fill_fn *make, void *ctx,
	const char *dir, struct err *err)
{
	struct tensor_info *t = xcalloc((size_t)m->nparams, sizeof *t);
	for (int i = 0; i < m->nparams; i++) {
		const struct param *p = &m->params[i];
		t[i] = (struct tensor_info){.name = p->name,
			.dtype = o->dtype,
			.ndim = p->ndim,
			.bytes = size_mul((size_t)p->count, dtype_bytes(o->dtype))};
		for (int d = 0; d < p->ndim; d++) t[i].shape[d] = p->shape[d];
	}
	int rc = model_folder_begin(dir, err);
	if (!rc) rc = safetensors_write_folder(dir, t, (size_t)m->nparams, NULL, o->shard_bytes, make, ctx, err);
	if (!rc) rc = model_config_save_as(dir, &m->config, o->dtype, err);
	free(t);
	return rc;
}

static const struct export_options as_is = {.dtype = DTYPE_F32, .shard_bytes = MODEL_SHARD_BYTES};

int model_export(const struct model *m, const struct adapter *a, const char *dir, const struct export_options *options,
	struct err *err)
{
	struct export x = {.m = m, .a = a, .o = options ? *options : as_is};
	if (x.o.dtype != DTYPE_F32 && x.o.dtype != DTYPE_BF16 && x.o.dtype != DTYPE_F16)
		return err_set(err, ERR_UNSUPPORTED, "%s: weights are written as float32, bfloat16 or float16, not as %s", dir,
			dtype_name(x.o.dtype));
	return weights_write(m, &x.o, tensor_make, &x, dir, err);
}

int model_save(const struct model *m, const char *dir, struct err *err)
{
	return model_export(m, NULL, dir, NULL, err);
}

int model_create_saved(const struct model_config *c, uint64_t seed, const char *dir, struct err *err)
{
	int rc = model_shape_check(c, err);
	if (rc) return rc;
	struct model *m = model_alloc(c, NULL);
	m->seed = seed;
	struct draw draw = {.m = m, .pool = pool_create(0)};
	rc = weights_write(m, &as_is, param_draw, &draw, dir, err);
	pool_free(draw.pool);
	model_free(m);
	return rc;
}
