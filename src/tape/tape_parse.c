/* tape_parse: hostile text to a validated struct tape (docs/tape-format.md).
 *
 * One function per object of the format. Each takes `what`, the object's path (rows[3].dst), for
 * messages, and fails at the first thing that is not exactly as documented: unknown keys too, so
 * that a tape means one thing only. Strings are not copied: the tape keeps the JSON alive. */
#include "tape/tape_internal.h"
#include "base/base.h"
#include "base/dtype.h"
#include <limits.h>
#include <math.h>
#include <stdlib.h>

#define PATH_MAX_BYTES 96
#define NAME_BYTES_MAX 256
#define TTIR_BYTES_MAX ((size_t)16 << 20)
#define SOURCE_BYTES_MAX ((size_t)4 << 20)
#define LIBRARY_VIEWS_MAX 512

struct path {
	char text[PATH_MAX_BYTES];
};

static struct path path_at(const char *what, const char *field, int index)
{
	struct path p;
	if (index < 0) snprintf(p.text, sizeof(p.text), "%s%s%s", what, *what ? "." : "", field);
	else snprintf(p.text, sizeof(p.text), "%s%s%s[%d]", what, *what ? "." : "", field, index);
	return p;
}

/* ---- fields ---- */

static int check_object(const json_t *o, const char *what, const char *const *keys, struct err *err)
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

static int get_int(
	const json_t *o, const char *what, const char *field, int64_t min, int64_t max, int64_t *out, struct err *err)
{
	struct path p = path_at(what, field, -1);
	const json_t *v = json_object_get(o, field);
	if (!json_is_integer(v)) return err_set(err, ERR_FORMAT, "tape: %s: expected an integer", p.text);
	int64_t n = json_integer_value(v);
	if (n < min || n > max)
		return err_set(err, ERR_RANGE, "tape: %s: expected %lld .. %lld, found %lld", p.text, (long long)min,
			(long long)max, (long long)n);
	*out = n;
	return 0;
}

static int get_array(
	const json_t *o, const char *what, const char *field, size_t min, size_t max, const json_t **out, struct err *err)
{
	struct path p = path_at(what, field, -1);
	const json_t *v = json_object_get(o, field);
	if (!json_is_array(v)) return err_set(err, ERR_FORMAT, "tape: %s: expected a list", p.text);
	size_t n = json_array_size(v);
	if (n < min || n > max)
		return err_set(err, ERR_LIMIT, "tape: %s: expected %zu .. %zu entries, found %zu", p.text, min, max, n);
	*out = v;
	return 0;
}

/* Names end up in messages and reports: no control characters. */
static int get_name(const json_t *o, const char *what, const char *field, const char **out, struct err *err)
{
	struct path p = path_at(what, field, -1);
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
static int read_double(const json_t *v, const char *what, double *out, struct err *err)
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
	int rc = get_array(o, what, "shape", 0, TAPE_DIMS_MAX, &shape, err);
	if (!rc) rc = get_array(o, what, "stride", 0, TAPE_DIMS_MAX, &stride, err);
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

/* Every element inside the buffer; number of elements bounded even where strides of 0 repeat them. */
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

static int read_view(const struct tape *t, const json_t *o, const char *what, struct tape_view *v, struct err *err)
{
	static const char *const keys[] = {"buffer", "offset", "dtype", "shape", "stride", NULL};
	int64_t buffer;
	const char *name;
	*v = (struct tape_view){0};
	int rc = check_object(o, what, keys, err);
	if (!rc) rc = get_int(o, what, "buffer", 0, t->nbuffers - 1, &buffer, err);
	if (!rc) rc = get_int(o, what, "offset", 0, t->buffers[buffer].bytes, &v->offset_bytes, err);
	if (!rc) rc = get_name(o, what, "dtype", &name, err);
	if (rc) return rc;
	v->buffer = (int)buffer;
	if (dtype_from_name(name, &v->dtype))
		return err_set(err, ERR_FORMAT, "tape: %s.dtype: \"%.40s\" is no element type", what, name);
	rc = read_dims(o, what, v, err);
	return rc ? rc : check_extent(t, what, v, err);
}

/* What is written to: no element twice by a stride of 0, and no more elements than the buffer has,
 * so that the work is bounded by memory. */
static int read_target(const struct tape *t, const json_t *o, const char *what, struct tape_view *v, struct err *err)
{
	int rc = read_view(t, o, what, v, err);
	if (rc) return rc;
	for (int i = 0; i < v->ndim; i++)
		if (v->shape[i] > 1 && v->stride[i] == 0)
			return err_set(err, ERR_RANGE, "tape: %s: stride[%d] is 0: one element would be written %lld times", what,
				i, (long long)v->shape[i]);
	if (tape_view_elements(v) > t->buffers[v->buffer].bytes / (int64_t)dtype_bytes(v->dtype))
		return err_set(err, ERR_RANGE, "tape: %s: more elements than buffer %d has", what, v->buffer);
	return 0;
}

static int read_views(struct tape *t, const json_t *list, const char *what, const char *field, int *count,
	struct tape_view **out, struct err *err)
{
	int n = (int)json_array_size(list), rc = 0;
	struct tape_view *views = arena_alloc(&t->arena, size_mul((size_t)n, sizeof(*views)));
	for (int i = 0; i < n && !rc; i++)
		rc = read_view(t, json_array_get(list, (size_t)i), path_at(what, field, i).text, &views[i], err);
	*count = n;
	*out = views;
	return rc;
}

/* ---- buffers ---- */

static int read_const(struct tape *t, const json_t *o, const char *what, struct tape_buffer *b, struct err *err)
{
	const json_t *data = json_object_get(o, "data");
	if (!json_is_string(data)) return err_set(err, ERR_FORMAT, "tape: %s.data: expected a string", what);
	if ((uint64_t)b->bytes > json_string_length(data))
		return err_set(err, ERR_FORMAT, "tape: %s.data: too short for %lld bytes", what, (long long)b->bytes);
	uint8_t *bytes = arena_alloc(&t->arena, (size_t)b->bytes);
	if (!tape_base64_decode(json_string_value(data), json_string_length(data), bytes, (size_t)b->bytes))
		return err_set(err, ERR_FORMAT, "tape: %s.data: expected base64 of %lld bytes", what, (long long)b->bytes);
	b->data = bytes;
	return json_object_get(o, "name") ? get_name(o, what, "name", &b->name, err) : 0;
}

static int read_buffer(struct tape *t, const json_t *o, const char *what, struct tape_buffer *b, struct err *err)
{
	static const char *const kinds[TAPE_BUFFER_KIND_COUNT] = {"input", "param", "const", "temp"};
	static const char *const keys[TAPE_BUFFER_KIND_COUNT][5] = {{"kind", "bytes", "input", NULL},
		{"kind", "bytes", "name", NULL}, {"kind", "bytes", "data", "name", NULL}, {"kind", "bytes", NULL}};
	if (!json_is_object(o)) return err_set(err, ERR_FORMAT, "tape: %s: expected an object", what);
	const char *kind;
	int64_t input;
	/* The kind comes first, because it decides which keys the object may have. */
	int rc = get_name(o, what, "kind", &kind, err), k = 0;
	if (rc) return rc;
	while (k < TAPE_BUFFER_KIND_COUNT && strcmp(kind, kinds[k])) k++;
	if (k == TAPE_BUFFER_KIND_COUNT)
		return err_set(err, ERR_FORMAT, "tape: %s.kind: \"%.40s\" is no kind of buffer", what, kind);
	b->kind = (enum tape_buffer_kind)k;
	rc = check_object(o, what, keys[k], err);
	if (!rc) rc = get_int(o, what, "bytes", 0, TAPE_BUFFER_BYTES_MAX, &b->bytes, err);
	if (rc) return rc;
	/* What the kind brings with it; a temporary buffer has no more than its size. */
	switch (b->kind) {
	case TAPE_INPUT:
		rc = get_int(o, what, "input", 0, TAPE_BUFFERS_MAX - 1, &input, err);
		if (!rc) b->input = (int)input;
		return rc;
	case TAPE_PARAM: return get_name(o, what, "name", &b->name, err);
	case TAPE_CONST: return read_const(t, o, what, b, err);
	default: return 0;
	}
}

static int compare_names(const void *a, const void *b)
{
	return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* One buffer per input and per parameter: two buffers for the same thing would make two truths. */
static int check_buffers(struct tape *t, struct err *err)
{
	bool seen[TAPE_BUFFERS_MAX] = {0};
	const char *names[TAPE_BUFFERS_MAX];
	size_t nnames = 0;
	int64_t total = 0;
	for (int i = 0; i < t->nbuffers; i++) {
		const struct tape_buffer *b = &t->buffers[i];
		total += b->bytes;
		if (total > TAPE_TOTAL_BYTES_MAX)
			return err_set(err, ERR_LIMIT, "tape: buffers[%d]: all buffers together exceed %lld bytes", i,
				(long long)TAPE_TOTAL_BYTES_MAX);
		if (b->kind == TAPE_INPUT && seen[b->input])
			return err_set(err, ERR_FORMAT, "tape: buffers[%d].input: %d appears twice", i, b->input);
		if (b->kind == TAPE_INPUT) seen[b->input] = true;
		if (b->kind == TAPE_PARAM) names[nnames++] = b->name;
	}
	qsort(names, nnames, sizeof(*names), compare_names);
	for (size_t i = 1; i < nnames; i++)
		if (!strcmp(names[i - 1], names[i]))
			return err_set(err, ERR_FORMAT, "tape: buffers: parameter \"%.100s\" appears twice", names[i]);
	return 0;
}

/* ---- kernels ---- */

/* An option that is left out at its default: two texts for one meaning would be two tapes. */
static int get_flag(const json_t *o, const char *what, const char *field, bool written, bool *out, struct err *err)
{
	const json_t *v = json_object_get(o, field);
	*out = v != NULL;
	if (!v || (written ? json_is_true(v) : json_is_false(v))) return 0;
	return err_set(
		err, ERR_FORMAT, "tape: %s.%s: expected %s, or no such key", what, field, written ? "true" : "false");
}

/* Printable words with one space between two: what ptxas gets as arguments. Which words it may get
 * is the compile worker's rule. */
static int read_ptx_options(const json_t *o, const char *what, struct tape_kernel *k, struct err *err)
{
	if (!json_object_get(o, "ptx_options")) return 0;
	int rc = get_name(o, what, "ptx_options", &k->ptx_options, err);
	if (rc) return rc;
	size_t len = strlen(k->ptx_options);
	const char *s = k->ptx_options;
	bool is_good = len <= TAPE_PTX_OPTIONS_BYTES_MAX && s[0] != ' ' && s[len - 1] != ' ' && !strstr(s, "  ");
	for (size_t i = 0; i < len; i++) is_good &= (unsigned char)s[i] < 0x7f;
	return is_good
		? 0
		: err_set(err, ERR_FORMAT, "tape: %s.ptx_options: expected ASCII words with one space between two, %d bytes",
			  what, TAPE_PTX_OPTIONS_BYTES_MAX);
}

static int read_options(const json_t *o, const char *what, struct tape_kernel *k, struct err *err)
{
	int64_t warps, stages, ctas, registers = 0;
	int rc = get_int(o, what, "num_warps", 1, 64, &warps, err);
	if (!rc) rc = get_int(o, what, "num_stages", 0, 64, &stages, err);
	if (!rc) rc = get_int(o, what, "num_ctas", 1, 16, &ctas, err);
	if (!rc && json_object_get(o, "maxnreg")) rc = get_int(o, what, "maxnreg", 1, 255, &registers, err);
	if (!rc) rc = get_flag(o, what, "enable_fp_fusion", false, &k->no_fp_fusion, err);
	if (!rc) rc = get_flag(o, what, "enable_reflect_ftz", false, &k->no_reflect_ftz, err);
	if (!rc) rc = get_flag(o, what, "launch_cooperative_grid", true, &k->is_cooperative, err);
	if (!rc) rc = get_flag(o, what, "launch_pdl", true, &k->is_pdl, err);
	if (!rc) rc = read_ptx_options(o, what, k, err);
	if (rc) return rc;
	if (warps & (warps - 1))
		return err_set(
			err, ERR_RANGE, "tape: %s.num_warps: expected a power of two, found %lld", what, (long long)warps);
	k->num_warps = (int)warps;
	k->num_stages = (int)stages;
	k->num_ctas = (int)ctas;
	k->maxnreg = (int)registers;
	return 0;
}

static int read_kernel(struct tape *t, const json_t *o, const char *what, struct tape_kernel *k, struct err *err)
{
	static const char *const keys[] = {"name", "ttir", "num_warps", "num_stages", "num_ctas", "maxnreg",
		"enable_fp_fusion", "enable_reflect_ftz", "launch_cooperative_grid", "launch_pdl", "ptx_options", "configs",
		"source", NULL};
	int64_t configs;
	/* Name and options are checked before the long texts. */
	int rc = check_object(o, what, keys, err);
	if (!rc) rc = get_name(o, what, "name", &k->name, err);
	if (!rc) rc = read_options(o, what, k, err);
	if (!rc && json_object_get(o, "configs")) rc = get_int(o, what, "configs", 1, 1 << 20, &configs, err);
	if (rc) return rc;
	/* The texts stay where the JSON holds them: only their lengths are checked here. */
	const json_t *ttir = json_object_get(o, "ttir");
	if (!json_is_string(ttir)) return err_set(err, ERR_FORMAT, "tape: %s.ttir: expected a string", what);
	k->ttir = json_string_value(ttir);
	k->ttir_len = json_string_length(ttir);
	if (k->ttir_len == 0 || k->ttir_len > TTIR_BYTES_MAX)
		return err_set(
			err, ERR_LIMIT, "tape: %s.ttir: expected 1 .. %zu bytes, found %zu", what, TTIR_BYTES_MAX, k->ttir_len);
	const json_t *source = json_object_get(o, "source");
	if (source && (!json_is_string(source) || json_string_length(source) > SOURCE_BYTES_MAX))
		return err_set(
			err, ERR_FORMAT, "tape: %s.source: expected a string of at most %zu bytes", what, SOURCE_BYTES_MAX);
	k->source = json_string_value(source);
	/* The hash is the key of the compile cache: all that the code depends on, and not the
	 * source. */
	char options[64];
	int len = snprintf(options, sizeof(options), "%d,%d,%d,%d,%d,%d,%d,%d", k->num_warps, k->num_stages, k->num_ctas,
		k->maxnreg, k->no_fp_fusion, k->no_reflect_ftz, k->is_cooperative, k->is_pdl);
	const char *ptx = k->ptx_options ? k->ptx_options : "";
	const struct slice parts[] = {{k->ttir, k->ttir_len}, {options, (size_t)len}, {ptx, strlen(ptx)}};
	k->hash = hash_parts(parts, ARRAY_LEN(parts));
	return 0;
}

/* ---- rows ---- */

/* What the driver would refuse in a tensor map: checked here, so that it is never asked. */
static int check_descriptor(const char *what, const struct tape_view *v, struct err *err)
{
	int64_t size = (int64_t)dtype_bytes(v->dtype);
	if (v->ndim < 1 || v->ndim > TAPE_DESCRIPTOR_DIMS_MAX)
		return err_set(
			err, ERR_RANGE, "tape: %s: expected 1 to %d dimensions, found %d", what, TAPE_DESCRIPTOR_DIMS_MAX, v->ndim);
	if (v->offset_bytes % 16)
		return err_set(
			err, ERR_RANGE, "tape: %s.offset: expected a multiple of 16, found %lld", what, (long long)v->offset_bytes);
	for (int i = 0; i < v->ndim; i++) {
		if (v->shape[i] < 1 || v->shape[i] > INT32_MAX)
			return err_set(err, ERR_RANGE, "tape: %s.shape[%d]: expected 1 .. %d, found %lld", what, i, INT32_MAX,
				(long long)v->shape[i]);
		bool is_last = i == v->ndim - 1;
		if (is_last ? v->stride[i] != 1 : v->stride[i] % (16 / (size > 16 ? 16 : size)))
			return err_set(err, ERR_RANGE, "tape: %s.stride[%d]: expected %s, found %lld", what, i,
				is_last ? "1" : "steps of 16 bytes", (long long)v->stride[i]);
	}
	return 0;
}

static int read_descriptor(struct tape *t, const json_t *o, const char *what, struct tape_arg *a, struct err *err)
{
	static const char *const keys[] = {"view", "block", "padding", NULL};
	const json_t *block;
	const char *padding;
	struct tape_descriptor *d = arena_alloc(&t->arena, sizeof *d);
	int rc = check_object(o, what, keys, err);
	if (!rc) rc = read_view(t, json_object_get(o, "view"), path_at(what, "view", -1).text, &d->view, err);
	if (!rc) rc = check_descriptor(path_at(what, "view", -1).text, &d->view, err);
	if (!rc) rc = get_array(o, what, "block", (size_t)d->view.ndim, (size_t)d->view.ndim, &block, err);
	if (!rc) rc = get_name(o, what, "padding", &padding, err);
	if (rc) return rc;
	for (int i = 0; i < d->view.ndim; i++) {
		json_int_t n = json_integer_value(json_array_get(block, (size_t)i));
		if (n < 1 || n > (1 << 20) || (n & (n - 1)))
			return err_set(err, ERR_RANGE, "tape: %s.block[%d]: expected a power of two up to 2^20", what, i);
		d->block[i] = (int32_t)n;
	}
	d->nan_padding = !strcmp(padding, "nan");
	if (!d->nan_padding && strcmp(padding, "zero"))
		return err_set(err, ERR_FORMAT, "tape: %s.padding: expected \"zero\" or \"nan\"", what);
	*a = (struct tape_arg){
		.kind = TAPE_ARG_DESCRIPTOR, .buffer = d->view.buffer, .offset_bytes = d->view.offset_bytes, .descriptor = d};
	return 0;
}

static int read_arg(struct tape *t, const json_t *o, const char *what, struct tape_arg *a, struct err *err)
{
	static const char *const keys[] = {"buffer", "offset", "int", "float", "descriptor", NULL};
	int64_t buffer;
	int rc = check_object(o, what, keys, err);
	if (rc) return rc;
	/* The keys say which form it is; their number is checked too, so that no two forms are
	 * mixed. */
	size_t n = json_object_size(o);
	const json_t *f = json_object_get(o, "float");
	*a = (struct tape_arg){0};
	if (n == 2 && json_object_get(o, "buffer")) {
		a->kind = TAPE_ARG_POINTER;
		rc = get_int(o, what, "buffer", 0, t->nbuffers - 1, &buffer, err);
		if (!rc) rc = get_int(o, what, "offset", 0, t->buffers[buffer].bytes, &a->offset_bytes, err);
		if (!rc) a->buffer = (int)buffer;
		return rc;
	}
	if (n == 1 && json_object_get(o, "int")) {
		a->kind = TAPE_ARG_INT;
		return get_int(o, what, "int", INT64_MIN, INT64_MAX, &a->i, err);
	}
	if (n == 1 && f) {
		a->kind = TAPE_ARG_FLOAT;
		return read_double(f, path_at(what, "float", -1).text, &a->f, err);
	}
	if (n == 1 && json_object_get(o, "descriptor"))
		return read_descriptor(t, json_object_get(o, "descriptor"), path_at(what, "descriptor", -1).text, a, err);
	return err_set(err, ERR_FORMAT,
		"tape: %s: expected {\"buffer\", \"offset\"}, {\"int\"}, {\"float\"} or {\"descriptor\"}", what);
}

static int read_launch(struct tape *t, const json_t *o, const char *what, struct tape_row *r, struct err *err)
{
	static const char *const keys[] = {"op", "line", "stream", "kernel", "grid", "args", "allocator", NULL};
	static const int64_t grid_max[3] = {INT32_MAX, 65535, 65535};
	const json_t *grid, *args;
	int64_t kernel;
	int rc = check_object(o, what, keys, err);
	if (!rc) rc = get_int(o, what, "kernel", 0, t->nkernels - 1, &kernel, err);
	if (!rc) rc = get_array(o, what, "grid", 3, 3, &grid, err);
	if (!rc) rc = get_array(o, what, "args", 0, TAPE_ARGS_MAX, &args, err);
	/* Like an option, it is left out where it is not so: two texts for one meaning would be two tapes. */
	const json_t *allocator = json_object_get(o, "allocator");
	if (!rc && allocator && !json_is_true(allocator))
		rc = err_set(err, ERR_FORMAT, "tape: %s.allocator: expected true, or nothing", what);
	if (rc) return rc;
	r->has_allocator = allocator != NULL;
	r->kernel = (int)kernel;
	/* Each axis of the grid has a limit of its own. */
	for (int i = 0; i < 3; i++) {
		const json_t *g = json_array_get(grid, (size_t)i);
		if (!json_is_integer(g)) return err_set(err, ERR_FORMAT, "tape: %s.grid[%d]: expected an integer", what, i);
		int64_t n = json_integer_value(g);
		if (n < 1 || n > grid_max[i])
			return err_set(err, ERR_RANGE, "tape: %s.grid[%d]: expected 1 .. %lld, found %lld", what, i,
				(long long)grid_max[i], (long long)n);
		r->grid[i] = (uint32_t)n;
	}
	r->nargs = (int)json_array_size(args);
	r->args = arena_alloc(&t->arena, (size_t)r->nargs * sizeof(*r->args));
	/* A descriptor is several arguments of the IR, so the widths are added up, not the entries. */
	int width = 0;
	for (int i = 0; i < r->nargs && !rc; i++) {
		rc = read_arg(t, json_array_get(args, (size_t)i), path_at(what, "args", i).text, &r->args[i], err);
		if (!rc) width += tape_arg_width(&r->args[i]);
	}
	if (!rc && width > TAPE_ARGS_MAX)
		rc = err_set(err, ERR_LIMIT, "tape: %s.args: %d arguments of the IR, at most %d", what, width, TAPE_ARGS_MAX);
	return rc;
}

/* The value must be one of the type's: a fill of 300 into int8 has no meaning. */
static int read_fill_int(const json_t *v, const char *what, struct tape_row *r, struct err *err)
{
	static const struct {
		enum dtype type;
		int64_t min, max;
	} ranges[] = {{DTYPE_I8, INT8_MIN, INT8_MAX}, {DTYPE_I16, INT16_MIN, INT16_MAX}, {DTYPE_I32, INT32_MIN, INT32_MAX},
		{DTYPE_I64, INT64_MIN, INT64_MAX}, {DTYPE_U8, 0, UINT8_MAX}, {DTYPE_U16, 0, UINT16_MAX},
		{DTYPE_U32, 0, UINT32_MAX}, {DTYPE_U64, INT64_MIN, INT64_MAX}, {DTYPE_BOOL, 0, 1}};
	if (!json_is_integer(v))
		return err_set(err, ERR_FORMAT, "tape: %s.value: expected an integer for %s", what, dtype_name(r->dst.dtype));
	r->fill_int = json_integer_value(v);
	r->fill = (double)r->fill_int;
	for (size_t i = 0; i < ARRAY_LEN(ranges); i++)
		if (ranges[i].type == r->dst.dtype && (r->fill_int < ranges[i].min || r->fill_int > ranges[i].max))
			return err_set(err, ERR_RANGE, "tape: %s.value: %lld does not fit %s", what, (long long)r->fill_int,
				dtype_name(r->dst.dtype));
	return 0;
}

static int read_fill(struct tape *t, const json_t *o, const char *what, struct tape_row *r, struct err *err)
{
	static const char *const keys[] = {"op", "line", "stream", "dst", "value", NULL};
	int rc = check_object(o, what, keys, err);
	if (!rc) rc = read_target(t, json_object_get(o, "dst"), path_at(what, "dst", -1).text, &r->dst, err);
	if (rc) return rc;
	const json_t *value = json_object_get(o, "value");
	if (!dtype_is_float(r->dst.dtype)) return read_fill_int(value, what, r, err);
	return read_double(value, path_at(what, "value", -1).text, &r->fill, err);
}

static int read_copy(struct tape *t, const json_t *o, const char *what, struct tape_row *r, struct err *err)
{
	static const char *const keys[] = {"op", "line", "stream", "dst", "src", NULL};
	int rc = check_object(o, what, keys, err);
	if (!rc) rc = read_target(t, json_object_get(o, "dst"), path_at(what, "dst", -1).text, &r->dst, err);
	if (!rc) rc = read_view(t, json_object_get(o, "src"), path_at(what, "src", -1).text, &r->src, err);
	if (rc) return rc;
	if (r->dst.ndim != r->src.ndim || memcmp(r->dst.shape, r->src.shape, sizeof(r->dst.shape)))
		return err_set(err, ERR_FORMAT, "tape: %s: dst and src have different shapes", what);
	return 0;
}

/* Every {"view": i} inside a library row's arguments names one of its reads. */
static int check_view_references(const json_t *v, const char *what, int nreads, struct err *err)
{
	int rc = 0;
	size_t i;
	const char *key;
	json_t *item;
	if (json_is_array(v)) {
		json_array_foreach((json_t *)v, i, item) if ((rc = check_view_references(item, what, nreads, err))) return rc;
	} else if (json_is_object(v)) {
		const json_t *view = json_object_get(v, "view");
		if (view && (!json_is_integer(view) || json_integer_value(view) < 0 || json_integer_value(view) >= nreads))
			return err_set(err, ERR_RANGE, "tape: %s.args: \"view\" must be 0 .. %d", what, nreads - 1);
		json_object_foreach(
			(json_t *)v, key, item) if ((rc = check_view_references(item, what, nreads, err))) return rc;
	}
	return 0;
}

static int read_library(struct tape *t, const json_t *o, const char *what, struct tape_row *r, struct err *err)
{
	static const char *const keys[] = {"op", "line", "stream", "name", "reads", "writes", "args", NULL};
	const json_t *reads, *writes;
	int rc = check_object(o, what, keys, err);
	if (!rc) rc = get_name(o, what, "name", &r->op, err);
	if (!rc) rc = get_array(o, what, "reads", 0, LIBRARY_VIEWS_MAX, &reads, err);
	if (!rc) rc = get_array(o, what, "writes", 0, LIBRARY_VIEWS_MAX, &writes, err);
	if (!rc) rc = read_views(t, reads, what, "reads", &r->nreads, &r->reads, err);
	if (!rc) rc = read_views(t, writes, what, "writes", &r->nwrites, &r->writes, err);
	if (rc) return rc;
	r->op_args = json_object_get(o, "args");
	if (!json_is_object(r->op_args)) return err_set(err, ERR_FORMAT, "tape: %s.args: expected an object", what);
	return check_view_references(r->op_args, what, r->nreads, err);
}

/* record and wait. That a wait names an event which was recorded is check_order's. */
static int read_event(struct tape *t, const json_t *o, const char *what, struct tape_row *r, struct err *err)
{
	static const char *const keys[] = {"op", "line", "stream", "event", NULL};
	int64_t event;
	int rc = check_object(o, what, keys, err);
	if (!rc) rc = get_int(o, what, "event", 0, TAPE_EVENTS_MAX - 1, &event, err);
	if (!rc) r->event = (int)event;
	return rc;
}

static int read_row(struct tape *t, const json_t *o, const char *what, struct tape_row *r, struct err *err)
{
	static int (*const readers[TAPE_ROW_KIND_COUNT])(struct tape *, const json_t *, const char *, struct tape_row *,
		struct err *) = {read_launch, read_fill, read_copy, read_library, read_event, read_event};
	static const char *const ops[TAPE_ROW_KIND_COUNT] = {"launch", "fill", "copy", "library", "record", "wait"};
	if (!json_is_object(o)) return err_set(err, ERR_FORMAT, "tape: %s: expected an object", what);
	const char *op;
	int64_t line, stream = 0;
	int kind = 0, rc = get_name(o, what, "op", &op, err);
	if (!rc) rc = get_int(o, what, "line", 0, INT_MAX, &line, err);
	if (!rc && json_object_get(o, "stream")) rc = get_int(o, what, "stream", 1, TAPE_STREAMS_MAX - 1, &stream, err);
	if (rc) return rc;
	while (kind < TAPE_ROW_KIND_COUNT && strcmp(op, ops[kind])) kind++;
	if (kind == TAPE_ROW_KIND_COUNT)
		return err_set(err, ERR_FORMAT, "tape: %s.op: \"%.40s\" is no kind of row", what, op);
	r->kind = (enum tape_row_kind)kind;
	r->line = (int)line;
	r->stream = (int)stream;
	return readers[kind](t, o, what, r, err);
}

/* Streams and events are numbered by first use, so that equal orders are equal texts; a wait for
 * what nobody recorded would order nothing. */
static int check_order(struct tape *t, struct err *err)
{
	t->nstreams = 1;
	for (int i = 0; i < t->nrows; i++) {
		const struct tape_row *r = &t->rows[i];
		if (r->stream > t->nstreams)
			return err_set(err, ERR_RANGE, "tape: rows[%d].stream: %d is used before %d", i, r->stream, t->nstreams);
		t->nstreams = MAX(t->nstreams, r->stream + 1);
		if (!tape_row_is_order(r->kind)) continue;
		if (r->event > t->nevents - (r->kind == TAPE_WAIT))
			return err_set(err, ERR_RANGE, "tape: rows[%d].event: %d was not recorded before", i, r->event);
		t->nevents = MAX(t->nevents, r->event + 1);
	}
	return 0;
}

/* ---- the whole ---- */

static int read_tape(struct tape *t, struct err *err)
{
	static const char *const keys[] = {"version", "buffers", "kernels", "rows", "outputs", "tuple", NULL};
	const json_t *buffers, *kernels, *rows, *outputs, *tuple = json_object_get(t->json, "tuple");
	int64_t version;
	/* Form and lengths first: the memory below is taken by the numbers that were checked here. */
	int rc = check_object(t->json, "", keys, err);
	if (!rc) rc = get_int(t->json, "", "version", TAPE_VERSION, TAPE_VERSION, &version, err);
	if (!rc) rc = get_array(t->json, "", "buffers", 0, TAPE_BUFFERS_MAX, &buffers, err);
	if (!rc) rc = get_array(t->json, "", "kernels", 0, TAPE_KERNELS_MAX, &kernels, err);
	if (!rc) rc = get_array(t->json, "", "rows", 0, TAPE_ROWS_MAX, &rows, err);
	if (!rc) rc = get_array(t->json, "", "outputs", 1, TAPE_OUTPUTS_MAX, &outputs, err);
	if (!rc && !json_is_boolean(tuple)) rc = err_set(err, ERR_FORMAT, "tape: tuple: expected true or false");
	if (rc) return rc;
	t->output_is_tuple = json_is_true(tuple);
	t->nbuffers = (int)json_array_size(buffers);
	t->nkernels = (int)json_array_size(kernels);
	t->nrows = (int)json_array_size(rows);
	t->buffers = arena_alloc(&t->arena, (size_t)t->nbuffers * sizeof(*t->buffers));
	t->kernels = arena_alloc(&t->arena, (size_t)t->nkernels * sizeof(*t->kernels));
	t->rows = arena_alloc(&t->arena, (size_t)t->nrows * sizeof(*t->rows));
	/* Buffers, then kernels, then rows: each refers to what was read before it. */
	for (int i = 0; i < t->nbuffers && !rc; i++)
		rc = read_buffer(t, json_array_get(buffers, (size_t)i), path_at("", "buffers", i).text, &t->buffers[i], err);
	if (!rc) rc = check_buffers(t, err);
	for (int i = 0; i < t->nkernels && !rc; i++)
		rc = read_kernel(t, json_array_get(kernels, (size_t)i), path_at("", "kernels", i).text, &t->kernels[i], err);
	for (int i = 0; i < t->nrows && !rc; i++)
		rc = read_row(t, json_array_get(rows, (size_t)i), path_at("", "rows", i).text, &t->rows[i], err);
	if (!rc) rc = check_order(t, err);
	return rc ? rc : read_views(t, outputs, "", "outputs", &t->noutputs, &t->outputs, err);
}

/* IR text without locations: "#loc" lines and loc(...) with what it encloses; strings are kept whole
 * inside it. */
static json_t *ir_without_locations(const char *text, size_t len)
{
	struct str out = {0};
	for (size_t i = 0; i < len; i++) {
		bool line_start = !i || text[i - 1] == '\n';
		if (line_start && !strncmp(text + i, "#loc", 4)) {
			while (i < len && text[i] != '\n') i++;
			continue;
		}
		if (strncmp(text + i, " loc(", 5)) {
			str_putc(&out, text[i]);
			continue;
		}
		int depth = 0;
		for (i += 4; i < len; i++) {
			if (text[i] == '"')
				for (i++; i < len && text[i] != '"'; i++) i += text[i] == '\\';
			depth += text[i] == '(' ? 1 : text[i] == ')' ? -1 : 0;
			if (!depth) break;
		}
	}
	json_t *o = json_stringn(out.data ? out.data : "", out.len);
	str_release(&out);
	return o;
}

struct sha256_hex tape_program_hash(const struct tape *t)
{
	json_t *copy = json_deep_copy(t->json), *o;
	size_t i;
	json_array_foreach(json_object_get(copy, "rows"), i, o) json_object_del(o, "line");
	json_array_foreach(json_object_get(copy, "kernels"), i, o)
	{
		json_object_del(o, "configs");
		json_object_del(o, "source");
		json_object_set_new(o, "ttir", ir_without_locations(t->kernels[i].ttir, t->kernels[i].ttir_len));
	}
	char *text = json_dumps(copy, JSON_COMPACT | JSON_SORT_KEYS);
	struct sha256_hex hash = hash_bytes(text ? text : "", text ? strlen(text) : 0);
	free(text);
	json_decref(copy);
	return hash;
}

static int hash_canonical(struct tape *t, struct err *err)
{
	char *text = json_dumps(t->json, JSON_SORT_KEYS | JSON_COMPACT | JSON_REAL_PRECISION(17));
	if (!text) return err_set(err, ERR_FORMAT, "tape: the values cannot be written back as JSON");
	t->hash = hash_bytes(text, strlen(text));
	free(text);
	return 0;
}

int tape_parse(const char *text, size_t len, struct tape **out, struct err *err)
{
	if (len > TAPE_BYTES_MAX)
		return err_set(err, ERR_LIMIT, "tape: %zu bytes of text, the limit is %zu", len, TAPE_BYTES_MAX);
	int rc = tape_text_check(text, len, err);
	if (rc) return rc;
	struct tape *t = xcalloc(1, sizeof(*t));
	rc = json_parse(text, len, "tape", &t->json, err);
	if (!rc) rc = read_tape(t, err);
	if (!rc) rc = hash_canonical(t, err);
	if (rc) {
		tape_free(t);
		return rc;
	}
	*out = t;
	return 0;
}
