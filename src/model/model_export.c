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
	struct arena host;
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

/* The tensor's values on the host in the type asked for; memory comes from host unless the values
 * can be used where they are. */
static const void *values(struct export *x, const struct param *p)
{
	struct ops *ops = x->m->ops;
	const struct param *A = NULL, *B = NULL;
	size_t n = (size_t)p->count, bytes = size_mul(n, sizeof(float));
	bool is_merged = lora_of(x, p, &A, &B);
	if (ops->host_memory && !is_merged && x->o.dtype == DTYPE_F32) return p->w.w;
	float *from = x->o.dtype == DTYPE_F32 ? arena_alloc(&x->host, bytes) : xmalloc(bytes);
	param_get(ops, p, from);
	if (is_merged) merge_into(x, A, B, from);
	if (x->o.dtype == DTYPE_F32) return from;
	uint16_t *out = arena_alloc(&x->host, size_mul(n, sizeof *out));
	for (size_t i = 0; i < n; i++) out[i] = x->o.dtype == DTYPE_BF16 ? f32_to_bf16(from[i]) : f32_to_f16(from[i]);
	free(from);
	return out;
}

static int weights_write(struct export *x, const char *dir, struct err *err)
{
	int count = x->m->nparams;
	struct tensor_info *t = xcalloc((size_t)count, sizeof *t);
	for (int i = 0; i < count; i++) {
		const struct param *p = &x->m->params[i];
		t[i] = (struct tensor_info){.name = p->name,
			.dtype = x->o.dtype,
			.ndim = p->ndim,
			.data = values(x, p),
			.bytes = size_mul((size_t)p->count, dtype_bytes(x->o.dtype))};
		for (int d = 0; d < p->ndim; d++) t[i].shape[d] = p->shape[d];
	}
	int rc = safetensors_write_folder(dir, t, (size_t)count, NULL, x->o.shard_bytes, err);
	arena_release(&x->host);
	free(t);
	return rc;
}

int model_export(const struct model *m, const struct adapter *a, const char *dir, const struct export_options *options,
	struct err *err)
{
	struct export x = {.m = m, .a = a, .o = {.dtype = DTYPE_F32, .shard_bytes = MODEL_SHARD_BYTES}};
	if (options) x.o = *options;
	if (x.o.dtype != DTYPE_F32 && x.o.dtype != DTYPE_BF16 && x.o.dtype != DTYPE_F16)
		return err_set(err, ERR_UNSUPPORTED, "%s: weights are written as float32, bfloat16 or float16, not as %s", dir,
			dtype_name(x.o.dtype));
	int rc = model_folder_begin(dir, err);
	if (!rc) rc = weights_write(&x, dir, err);
	if (!rc) rc = model_config_save_as(dir, &m->config, x.o.dtype, err);
	return rc;
}

int model_save(const struct model *m, const char *dir, struct err *err)
{
	return model_export(m, NULL, dir, NULL, err);
}
