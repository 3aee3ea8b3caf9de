/* Tables of parameters to and from safetensors files: model weights, adapters and optimiser moments
 * all go through here. */
#include "model/model_internal.h"
#include "base/base.h"
#include "base/dtype.h"
#include "ops/ops.h"
#include "tensor/tensor.h"

#include <stdlib.h>

/* Values without a working copy are fp32 alone, in master: moments. */
void param_get(struct ops *ops, const struct param *p, float *host)
{
	if (p->w.w) ops->get(ops->ctx, host, &p->w);
	else ops->get_f32(ops->ctx, host, p->w.master, p->count);
}

void param_put(struct ops *ops, struct param *p, const void *host, enum dtype dtype)
{
	if (p->w.w) {
		ops->put(ops->ctx, &p->w, host, dtype);
	} else {
		struct tensor_info t = {
			.name = p->name, .dtype = dtype, .data = host, .bytes = size_mul((size_t)p->count, dtype_bytes(dtype))};
		float *values = xmalloc(size_mul((size_t)p->count, sizeof *values));
		tensor_to_f32(&t, values);
		ops->put_f32(ops->ctx, p->w.master, values, p->count);
		free(values);
	}
	++*p->changes;
}

float param_value(struct ops *ops, const struct param *p, int64_t k)
{
	float value;
	int64_t at = k / p->w.cols * p->w.ld + k % p->w.cols;
	ops->get_elem(ops->ctx, &value, ops_elem_at(ops, p->w.w, at), 1);
	return value;
}

int params_save(struct ops *ops, const struct param *params, int count, const char *path, struct err *err)
{
	struct tensor_info *t = xcalloc((size_t)MAX(count, 1), sizeof *t);
	struct arena host = {0};
	for (int i = 0; i < count; i++) {
		const struct param *p = &params[i];
		size_t bytes = size_mul((size_t)p->count, sizeof(float));
		t[i] = (struct tensor_info){.name = p->name, .dtype = DTYPE_F32, .ndim = p->ndim, .bytes = bytes};
		for (int d = 0; d < p->ndim; d++) t[i].shape[d] = p->shape[d];
		if (ops->host_memory) { /* written from where they lie */
			t[i].data = p->w.w ? (const void *)p->w.w : (const void *)p->w.master;
			continue;
		}
		float *copy = arena_alloc(&host, bytes);
		param_get(ops, p, copy);
		t[i].data = copy;
	}
	int rc = safetensors_write(path, t, (size_t)count, NULL, err);
	arena_release(&host);
	free(t);
	return rc;
}

static int extra_check(
	const struct param *params, int count, const struct safetensors *s, const char *path, struct err *err)
{
	if (safetensors_count(s) == (size_t)count) return 0;
	for (size_t i = 0; i < safetensors_count(s); i++) {
		const char *name = safetensors_at(s, i)->name;
		int k = 0;
		while (k < count && strcmp(params[k].name, name)) k++;
		if (k == count)
			return err_set(err, ERR_MISMATCH, "%s: tensor %s does not belong here (%d tensors expected, %zu found)",
				path, name, count, safetensors_count(s));
	}
	return 0; /* some are missing: named by who asks for them */
}

int params_read(
	struct ops *ops, struct param *params, int count, const struct safetensors *s, const char *path, struct err *err)
{
	const struct tensor_info *t;
	int rc = extra_check(params, count, s, path, err);
	for (int i = 0; i < count && !rc; i++) { /* all are checked before the first is written */
		rc = safetensors_get(s, params[i].name, params[i].ndim, params[i].shape, &t, err);
		if (rc) err_prefix(err, "%s", path);
		else if (!dtype_is_float(t->dtype))
			rc = err_set(err, ERR_UNSUPPORTED, "%s: %s has type %s; expected a floating point type", path, t->name,
				dtype_name(t->dtype));
	}
	for (int i = 0; i < count && !rc; i++) {
		t = safetensors_find(s, params[i].name);
		param_put(ops, &params[i], t->data, t->dtype);
	}
	return rc;
}

int params_load(struct ops *ops, struct param *params, int count, const char *path, struct err *err)
{
	struct safetensors *s = NULL;
	int rc = safetensors_open(path, &s, err);
	if (!rc) rc = params_read(ops, params, count, s, path, err);
	safetensors_close(s);
	return rc;
}

int model_copy_tokenizer(const char *from, const char *to, struct err *err)
{
	static const char *const files[] = {"tokenizer.json", "tokenizer_config.json", "special_tokens_map.json",
		"added_tokens.json", "vocab.json", "merges.txt", "chat_template.jinja", "generation_config.json"};
	int rc = dir_make(to, err);
	for (size_t i = 0; i < ARRAY_LEN(files) && !rc; i++) {
		char *source = path_join(from, files[i]), *target = path_join(to, files[i]);
		struct str text = {0};
		if (path_exists(source)) {
			rc = file_read(source, 1 << 28, &text, err);
			if (!rc) rc = file_write_atomic(target, text.data ? text.data : "", text.len, err);
		}
		str_release(&text);
		free(source);
		free(target);
	}
	return rc;
}
