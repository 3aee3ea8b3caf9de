/* tape_fields: what the objects of a tape are made of: numbers, lists, names and views, each read
 * from hostile JSON with a message that names its place. */
#include "tape/tape_internal.h"
#include "base/base.h"
#include "base/dtype.h"
#include <math.h>

#define NAME_BYTES_MAX 256

struct tape_path tape_path_at(const char *what, const char *field, int index)
{
	struct tape_path p;
	if (index < 0) snprintf(p.text, sizeof(p.text), "%s%s%s", what, *what ? "." : "", field);
	else snprintf(p.text, sizeof(p.text), "%s%s%s[%d]", what, *what ? "." : "", field, index);
	return p;
}

/* ---- fields ---- */

int tape_check_object(const json_t *o, const char *what, const char *const *keys, struct err *err)
{
	if (!json_is_object(o)) return err_set(err, ERR_FORMAT, "tape: %s: expected an object", *what ? what : "text");
	const char *key;
	json_t *value;
	json_object_foreach((json_t *)o, key, value)
	{
		const char *const *k = keys;
		while (*k && strcmp(*k, key)) k++;
		if (!*k) return err_set(err, ERR_FORMAT, "tape: %s: unknown key \"%.40s\"", *what ? what : "text", key);
	}
	return 0;
}

int tape_get_int(
	const json_t *o, const char *what, const char *field, int64_t min, int64_t max, int64_t *out, struct err *err)
{
	struct tape_path p = tape_path_at(what, field, -1);
	const json_t *v = json_object_get(o, field);
	if (!json_is_integer(v)) return err_set(err, ERR_FORMAT, "tape: %s: expected an integer", p.text);
	int64_t n = json_integer_value(v);
	if (n < min || n > max)
		return err_set(err, ERR_RANGE, "tape: %s: expected %lld .. %lld, found %lld", p.text, (long long)min,
			(long long)max, (long long)n);
	*out = n;
	return 0;
}

int tape_get_array(
	const json_t *o, const char *what, const char *field, size_t min, size_t max, const json_t **out, struct err *err)
{
	struct tape_path p = tape_path_at(what, field, -1);
	const json_t *v = json_object_get(o, field);
	if (!json_is_array(v)) return err_set(err, ERR_FORMAT, "tape: %s: expected a list", p.text);
	size_t n = json_array_size(v);
	if (n < min || n > max)
		return err_set(err, ERR_LIMIT, "tape: %s: expected %zu .. %zu entries, found %zu", p.text, min, max, n);
	*out = v;
	return 0;
}

/* Names end up in messages and reports: no control characters. */
int tape_get_name(const json_t *o, const char *what, const char *field, const char **out, struct err *err)
{
	struct tape_path p = tape_path_at(what, field, -1);
	const json_t *v = json_object_get(o, field);
	if (!json_is_string(v)) return err_set(err, ERR_FORMAT, "tape: %s: expected a string", p.text);
	const char *s = json_string_value(v);
	size_t len = json_string_length(v);
	if (len == 0 || len > NAME_BYTES_MAX)
		return err_set(err, ERR_LIMIT, "tape: %s: expected 1 .. %d bytes, found %zu", p.text, NAME_BYTES_MAX, len);
	for (size_t i = 0; i < len; i++)
		if ((unsigned char)s[i] < 0x20 || s[i] == 0x7f)
			return err_set(err, ERR_FORMAT, "tape: %s: control character", p.text);
	*out = s;
	return 0;
}

/* A JSON number, or the three strings for what JSON has no number for. */
int tape_read_double(const json_t *v, const char *what, double *out, struct err *err)
{
	static const struct {
		const char *text;
		double value;
	} special[] = {{"nan", NAN}, {"inf", INFINITY}, {"-inf", -INFINITY}};
	if (json_is_number(v)) {
		*out = json_number_value(v);
		return 0;
	}
	for (size_t i = 0; json_is_string(v) && i < ARRAY_LEN(special); i++)
		if (!strcmp(json_string_value(v), special[i].text)) {
			*out = special[i].value;
			return 0;
		}
	return err_set(err, ERR_FORMAT, "tape: %s: expected a number, \"nan\", \"inf\" or \"-inf\"", what);
}

/* ---- views ---- */

static int read_dims(const json_t *o, const char *what, struct tape_view *v, struct err *err)
{
	const json_t *shape, *stride;
	int rc = tape_get_array(o, what, "shape", 0, TAPE_DIMS_MAX, &shape, err);
	if (!rc) rc = tape_get_array(o, what, "stride", 0, TAPE_DIMS_MAX, &stride, err);
	if (rc) return rc;
	v->ndim = (int)json_array_size(shape);
	if (json_array_size(stride) != (size_t)v->ndim)
		return err_set(err, ERR_FORMAT, "tape: %s: %d sizes but %zu strides", what, v->ndim, json_array_size(stride));
	for (int i = 0; i < v->ndim; i++) {
		const json_t *n = json_array_get(shape, (size_t)i), *s = json_array_get(stride, (size_t)i);
		if (!json_is_integer(n) || !json_is_integer(s))
			return err_set(err, ERR_FORMAT, "tape: %s: shape[%d], stride[%d]: expected integers", what, i, i);
		v->shape[i] = json_integer_value(n);
		v->stride[i] = json_integer_value(s);
		if (v->shape[i] < 0 || v->stride[i] < 0)
			return err_set(err, ERR_RANGE, "tape: %s: shape[%d] is %lld, stride[%d] is %lld: expected 0 or more", what,
				i, (long long)v->shape[i], i, (long long)v->stride[i]);
	}
	return 0;
}

/* Every element inside the buffer; number of elements bounded even where
 * strides of 0 repeat them. */
static int check_extent(const struct tape *t, const char *what, const struct tape_view *v, struct err *err)
{
	int64_t size = (int64_t)dtype_bytes(v->dtype), bytes = t->buffers[v->buffer].bytes;
	if (v->offset_bytes % size)
		return err_set(err, ERR_RANGE, "tape: %s.offset: %lld is no multiple of %lld", what, (long long)v->offset_bytes,
			(long long)size);
	int64_t count = 1, last = 0;
	bool empty = false, overflow = false;
	for (int i = 0; i < v->ndim; i++) {
		int64_t reach;
		if (v->shape[i] == 0) empty = true;
		overflow |= __builtin_mul_overflow(count, MAX(v->shape[i], 1), &count);
		overflow |= __builtin_mul_overflow(MAX(v->shape[i], 1) - 1, v->stride[i], &reach) ||
			__builtin_add_overflow(last, reach, &last);
	}
	if (empty) return 0;
	if (overflow || count > TAPE_BUFFER_BYTES_MAX / size)
		return err_set(
			err, ERR_LIMIT, "tape: %s: more than %lld bytes of elements", what, (long long)TAPE_BUFFER_BYTES_MAX);
	if (last > TAPE_BUFFER_BYTES_MAX || v->offset_bytes + (last + 1) * size > bytes)
		return err_set(err, ERR_RANGE, "tape: %s: element %lld at offset %lld lies outside buffer %d of %lld bytes",
			what, (long long)last, (long long)v->offset_bytes, v->buffer, (long long)bytes);
	return 0;
}

int tape_read_view(const struct tape *t, const json_t *o, const char *what, struct tape_view *v, struct err *err)
{
	static const char *const keys[] = {"buffer", "offset", "dtype", "shape", "stride", NULL};
	int64_t buffer;
	const char *name;
	*v = (struct tape_view){0};
	int rc = tape_check_object(o, what, keys, err);
	if (!rc) rc = tape_get_int(o, what, "buffer", 0, t->nbuffers - 1, &buffer, err);
	if (!rc) rc = tape_get_int(o, what, "offset", 0, t->buffers[buffer].bytes, &v->offset_bytes, err);
	if (!rc) rc = tape_get_name(o, what, "dtype", &name, err);
	if (rc) return rc;
	v->buffer = (int)buffer;
	if (dtype_from_name(name, &v->dtype))
		return err_set(err, ERR_FORMAT, "tape: %s.dtype: \"%.40s\" is no element type", what, name);
	rc = read_dims(o, what, v, err);
	return rc ? rc : check_extent(t, what, v, err);
}

/* What is written to: no element twice by a stride of 0, and no more elements than the buffer has,
 * so that the work is bounded by memory. */
int tape_read_target(const struct tape *t, const json_t *o, const char *what, struct tape_view *v, struct err *err)
{
	int rc = tape_read_view(t, o, what, v, err);
	if (rc) return rc;
	for (int i = 0; i < v->ndim; i++)
		if (v->shape[i] > 1 && v->stride[i] == 0)
			return err_set(err, ERR_RANGE, "tape: %s: stride[%d] is 0: one element would be written %lld times", what,
				i, (long long)v->shape[i]);
	if (tape_view_elements(v) > t->buffers[v->buffer].bytes / (int64_t)dtype_bytes(v->dtype))
		return err_set(err, ERR_RANGE, "tape: %s: more elements than buffer %d has", what, v->buffer);
	return 0;
}

int tape_read_views(struct tape *t, const json_t *list, const char *what, const char *field, int *count,
	struct tape_view **out, struct err *err)
{
	int n = (int)json_array_size(list), rc = 0;
	struct tape_view *views = arena_alloc(&t->arena, size_mul((size_t)n, sizeof(*views)));
	for (int i = 0; i < n && !rc; i++)
		rc = tape_read_view(t, json_array_get(list, (size_t)i), tape_path_at(what, field, i).text, &views[i], err);
	*count = n;
	*out = views;
	return rc;
}
