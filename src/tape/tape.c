/* A parsed tape's lifetime, and questions about single views. */
#include "tape/tape.h"
#include "base/base.h"
#include "base/dtype.h"
#include <stdlib.h>

void tape_free(struct tape *t)
{
	if (!t) return;
	json_decref(t->json);
	arena_release(&t->arena);
	free(t);
}

int64_t tape_view_elements(const struct tape_view *v)
{
	int64_t n = 1;
	for (int i = 0; i < v->ndim; i++)
		if (v->shape[i] == 0) return 0;
	for (int i = 0; i < v->ndim; i++) n *= v->shape[i]; /* tape_parse bounded the product */
	return n;
}

void tape_dims_text(int ndim, const int64_t *dims, char *text, size_t len)
{
	size_t used = (size_t)snprintf(text, len, "[");
	for (int d = 0; d < ndim && used < len; d++)
		used += (size_t)snprintf(text + used, len - used, "%s%lld", d ? ", " : "", (long long)dims[d]);
	if (used < len) snprintf(text + used, len - used, "]");
}

void tape_index_text(int ndim, const int64_t *shape, int64_t element, char *text, size_t len)
{
	int64_t index[TAPE_DIMS_MAX];
	for (int d = ndim - 1; d >= 0; d--) {
		index[d] = shape[d] ? element % shape[d] : 0;
		element = shape[d] ? element / shape[d] : 0;
	}
	tape_dims_text(ndim, index, text, len);
}

/* In row-major order without gaps; the stride of a dimension of size 1 does not matter. */
bool tape_view_is_contiguous(const struct tape_view *v)
{
	int64_t expected = 1;
	for (int i = v->ndim - 1; i >= 0; i--) {
		if (v->shape[i] == 0) return true;
		if (v->shape[i] != 1 && v->stride[i] != expected) return false;
		expected *= v->shape[i];
	}
	return true;
}

double tape_arg_value(const struct tape_arg *a, const uint8_t *data)
{
	return dtype_load(a->dtype, data + a->offset_bytes, 0);
}

bool tape_has_value_of(const struct tape *t, int buffer)
{
	for (int r = 0; r < t->nrows; r++)
		for (int a = 0; a < t->rows[r].nargs; a++)
			if (t->rows[r].args[a].kind == TAPE_ARG_VALUE && t->rows[r].args[a].buffer == buffer) return true;
	return false;
}

int64_t tape_library_layout(const struct tape_row *r, int64_t *offset)
{
	int64_t at = 0;
	for (int i = 0; i < r->nreads + r->nwrites; i++) {
		const struct tape_view *v = i < r->nreads ? &r->reads[i] : &r->writes[i - r->nreads];
		if (offset) offset[i] = at;
		at += (tape_view_elements(v) * (int64_t)dtype_bytes(v->dtype) + 63) / 64 * 64;
	}
	return at;
}
