/* gguf: reading llama.cpp's file format by mapping. All numbers are little-endian and unaligned:
 *
 *     "GGUF" | u32 version | u64 tensors | u64 metadata entries
 *     entries: key string | u32 type | value          string: u64 length, bytes          list: u32
 *     element type | u64 count | elements
 *     tensors: name string | u32 dimensions | u64 each, fastest first | u32 packing | u64 offset
 *     into the data
 *     zeros up to general.alignment (32) | data, each tensor padded to the alignment
 *
 * One cursor walks it and every step asks whether the file is long enough; counts are compared with
 * the bytes that are left before anything is allocated for them. The data must be laid out as
 * llama.cpp demands: tensors follow each other in the file's order, without
 * overlap, gap or tail. */
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include "tensor/gguf_internal.h"
#include "base/base.h"

#define ALIGNMENT_DEFAULT 32
#define ENTRIES_MAX (1u << 20)   /* metadata entries, and tensors */
#define KEY_BYTES_MAX 65535
#define NAME_BYTES_MAX 64
#define LISTS_NESTED_MAX 4

struct gguf {
	struct arena arena; /* keys, names, slices of string lists */
	struct file_map map;
	char *path;
	struct gguf_value *values; /* sorted by key */
	size_t nvalues;
	struct gguf_tensor *tensors; /* sorted by name */
	size_t count;
};

static const struct {
	const char *name;
	int bytes; /* 0: not of fixed size */
} types[GGUF_TYPE_COUNT] = {
	[GGUF_U8] = {"uint8", 1},
	[GGUF_I8] = {"int8", 1},
	[GGUF_U16] = {"uint16", 2},
	[GGUF_I16] = {"int16", 2},
	[GGUF_U32] = {"uint32", 4},
	[GGUF_I32] = {"int32", 4},
	[GGUF_F32] = {"float32", 4},
	[GGUF_BOOL] = {"bool", 1},
	[GGUF_STRING] = {"string", 0},
	[GGUF_ARRAY] = {"list", 0},
	[GGUF_U64] = {"uint64", 8},
	[GGUF_I64] = {"int64", 8},
	[GGUF_F64] = {"float64", 8},
};

/* ---- the cursor ---- */

struct cursor {
	struct gguf *g;
	const uint8_t *at;
	const uint8_t *end;
	char field[160]; /* what is being read, for messages */
	struct err *err;
};

static uint64_t left(const struct cursor *c) { return (uint64_t)(c->end - c->at); }

#define FAIL(c, code, fmt, ...) err_set((c)->err, code, "%s: %s: " fmt, (c)->g->path, (c)->field, __VA_ARGS__)

static int take(struct cursor *c, uint64_t bytes, const uint8_t **out)
{
	if (bytes > left(c))
		return FAIL(c, ERR_FORMAT, "%llu bytes are needed, the file ends after %llu; is it cut off?",
			(unsigned long long)bytes, (unsigned long long)left(c));
	*out = c->at;
	c->at += bytes;
	return 0;
}

static uint64_t number_at(const uint8_t *p, int bytes)
{
	uint64_t n = 0;
	memcpy(&n, p, (size_t)bytes);
	return n;
}

static int take_u32(struct cursor *c, uint32_t *out)
{
	const uint8_t *p = NULL;
	int rc = take(c, 4, &p);
	if (!rc) *out = (uint32_t)number_at(p, 4);
	return rc;
}

static int take_u64(struct cursor *c, uint64_t *out)
{
	const uint8_t *p = NULL;
	int rc = take(c, 8, &p);
	if (!rc) *out = number_at(p, 8);
	return rc;
}

static int take_string(struct cursor *c, struct slice *out)
{
	uint64_t len = 0;
	const uint8_t *p = NULL;
	int rc = take_u64(c, &len);
	if (!rc) rc = take(c, len, &p);
	if (!rc) *out = (struct slice){(const char *)p, (size_t)len};
	return rc;
}

/* Keys and names are ASCII without spaces (the format's words), so that they can be shown and
 * compared as they stand. */
static int take_name(struct cursor *c, size_t bytes_max, const char **out)
{
	struct slice s = {0};
	int rc = take_string(c, &s);
	if (rc) return rc;
	if (!s.len || s.len > bytes_max)
		return FAIL(c, ERR_LIMIT, "a name of %zu bytes; expected 1 to %zu", s.len, bytes_max);
	for (size_t i = 0; i < s.len; i++)
		if (s.data[i] <= ' ' || s.data[i] > '~')
			return FAIL(
				c, ERR_FORMAT, "byte %zu of its name is 0x%02x; expected printable ASCII", i, (uint8_t)s.data[i]);
	*out = arena_strndup(&c->g->arena, s.data, s.len);
	return 0;
}

/* ---- metadata ---- */

static int take_type(struct cursor *c, enum gguf_type *out)
{
	uint32_t type = 0;
	int rc = take_u32(c, &type);
	if (!rc && type >= GGUF_TYPE_COUNT)
		rc = FAIL(c, ERR_FORMAT, "value type %u is not known; expected 0 to %d", type, GGUF_TYPE_COUNT - 1);
	*out = (enum gguf_type)type;
	return rc;
}

/* count numbers of one type. */
static int take_numbers(struct cursor *c, enum gguf_type type, uint64_t count, const uint8_t **out)
{
	uint64_t size = (uint64_t)types[type].bytes;
	if (count > left(c) / size)
		return FAIL(c, ERR_FORMAT,
			"%llu values of %s do not fit into the %llu bytes that are left; is the file cut off?",
			(unsigned long long)count, types[type].name, (unsigned long long)left(c));
	int rc = take(c, count * size, out);
	for (uint64_t i = 0; type == GGUF_BOOL && i < count && !rc; i++)
		if ((*out)[i] > 1)
			rc = FAIL(c, ERR_FORMAT, "bool %llu is %d; expected 0 or 1", (unsigned long long)i, (*out)[i]);
	return rc;
}

static int take_strings(struct cursor *c, uint64_t count, const struct slice **out)
{
	if (count > left(c) / 8)
		return FAIL(c, ERR_FORMAT, "%llu strings do not fit into the %llu bytes that are left; is the file cut off?",
			(unsigned long long)count, (unsigned long long)left(c));
	struct slice *strings = arena_alloc(&c->g->arena, size_mul((size_t)count, sizeof *strings));
	*out = strings;
	int rc = 0;
	for (uint64_t i = 0; i < count && !rc; i++) rc = take_string(c, &strings[i]);
	return rc;
}

/* One string, with a NUL behind it: gguf_get_str hands it out. */
static int take_text(struct cursor *c, const struct slice **out)
{
	struct slice *text = arena_alloc(&c->g->arena, sizeof *text);
	*out = text;
	int rc = take_string(c, text);
	if (!rc && text->len) text->data = memcpy(arena_alloc(&c->g->arena, text->len + 1), text->data, text->len);
	else text->data = "";
	return rc;
}

/* Lists of lists occur in no model that hone knows: they are walked to find their end. */
static int skip_list(struct cursor *c, int depth)
{
	enum gguf_type element = GGUF_U8;
	uint64_t count = 0;
	struct slice s;
	const uint8_t *p;
	if (depth > LISTS_NESTED_MAX) return FAIL(c, ERR_LIMIT, "lists nested more than %d deep", LISTS_NESTED_MAX);
	int rc = take_type(c, &element);
	if (!rc) rc = take_u64(c, &count);
	if (!rc && types[element].bytes) return take_numbers(c, element, count, &p);
	/* Each takes at least 8 bytes, so the file's length bounds the loop. */
	while (!rc && count--) rc = element == GGUF_STRING ? take_string(c, &s) : skip_list(c, depth + 1);
	return rc;
}

static int take_value(struct cursor *c, struct gguf_value *v)
{
	int rc = take_type(c, &v->type);
	v->element = v->type;
	v->count = 1;
	if (!rc && v->type == GGUF_ARRAY) {
		rc = take_type(c, &v->element);
		if (!rc) rc = take_u64(c, &v->count);
	}
	if (rc) return rc;
	if (v->type == GGUF_STRING) return take_text(c, &v->strings);
	if (v->element == GGUF_STRING) return take_strings(c, v->count, &v->strings);
	if (v->element != GGUF_ARRAY) return take_numbers(c, v->element, v->count, &v->data);
	for (uint64_t i = 0; i < v->count && !rc; i++) rc = skip_list(c, 1);
	return rc;
}

static int by_key(const void *a, const void *b)
{
	return strcmp(((const struct gguf_value *)a)->key, ((const struct gguf_value *)b)->key);
}

static int take_metadata(struct cursor *c, uint64_t count)
{
	struct gguf *g = c->g;
	g->values = xcalloc(MAX((size_t)count, 1), sizeof *g->values);
	for (uint64_t i = 0; i < count; i++) {
		struct gguf_value *v = &g->values[i];
		snprintf(c->field, sizeof c->field, "metadata entry %llu", (unsigned long long)i);
		int rc = take_name(c, KEY_BYTES_MAX, &v->key);
		if (rc) return rc;
		snprintf(c->field, sizeof c->field, "metadata '%.120s'", v->key);
		if ((rc = take_value(c, v))) return rc;
		g->nvalues++;
	}
	qsort(g->values, g->nvalues, sizeof *g->values, by_key);
	for (size_t i = 1; i < g->nvalues; i++)
		if (!by_key(&g->values[i - 1], &g->values[i]))
			return err_set(c->err, ERR_FORMAT, "%s: metadata '%.120s' occurs twice", g->path, g->values[i].key);
	return 0;
}

/* ---- tensors ---- */

static int take_shape(struct cursor *c, struct gguf_tensor *t)
{
	uint32_t ndim = 0;
	int rc = take_u32(c, &ndim);
	if (rc) return rc;
	if (ndim < 1 || ndim > ARRAY_LEN(t->shape))
		return FAIL(c, ERR_LIMIT, "%u dimensions; expected 1 to %zu", ndim, ARRAY_LEN(t->shape));
	t->ndim = (int)ndim;
	t->count = 1;
	for (int i = t->ndim - 1; i >= 0; i--) {
		uint64_t side = 0;
		if ((rc = take_u64(c, &side))) return rc;
		if (side < 1 || side > INT64_MAX || __builtin_mul_overflow(t->count, (int64_t)side, &t->count))
			return FAIL(c, ERR_RANGE, "a dimension of %llu; expected at least 1 and a product below 2^63",
				(unsigned long long)side);
		t->shape[i] = (int64_t)side;
	}
	return 0;
}

static int take_packing(struct cursor *c, struct gguf_tensor *t)
{
	uint32_t type = 0;
	int64_t bytes;
	int rc = take_u32(c, &type);
	if (rc) return rc;
	t->quant = gguf_quant_find(type);
	if (!t->quant) return FAIL(c, ERR_UNSUPPORTED, "type %u is not known", type);
	if (!t->quant->unpack)
		return FAIL(c, ERR_UNSUPPORTED,
			"type %s is not supported; take a file of F32, F16, BF16, Q8_0, Q4_0, Q4_1, Q5_0, Q5_1, Q4_K, Q5_K or "
			"Q6_K, "
			"or convert with llama.cpp's llama-quantize",
			t->quant->name);
	int64_t columns = t->shape[t->ndim - 1];
	if (columns % t->quant->values)
		return FAIL(c, ERR_FORMAT, "rows of %lld values; type %s needs a multiple of %d", (long long)columns,
			t->quant->name, t->quant->values);
	if (__builtin_mul_overflow(t->count / t->quant->values, (int64_t)t->quant->bytes, &bytes))
		return FAIL(c, ERR_RANGE, "%lld values are too many", (long long)t->count);
	t->bytes = (size_t)bytes;
	return 0;
}

/* offsets (count): where in the data each begins, to be checked when the data's place is known. */
static int take_tensors(struct cursor *c, uint64_t count, uint64_t *offsets)
{
	struct gguf *g = c->g;
	for (uint64_t i = 0; i < count; i++) {
		struct gguf_tensor *t = &g->tensors[i];
		snprintf(c->field, sizeof c->field, "tensor %llu", (unsigned long long)i);
		int rc = take_name(c, NAME_BYTES_MAX, &t->name);
		if (rc) return rc;
		snprintf(c->field, sizeof c->field, "tensor '%s'", t->name);
		rc = take_shape(c, t);
		if (!rc) rc = take_packing(c, t);
		if (!rc) rc = take_u64(c, &offsets[i]);
		if (rc) return rc;
		g->count++;
	}
	return 0;
}

static uint64_t padding(uint64_t at, uint64_t alignment) { return -at & (alignment - 1); }

/* Gives each tensor its bytes: one after the other, as long as packing and shape say, each padded
 * but for the last, whose padding may be missing. */
static int place_tensors(struct cursor *c, const uint64_t *offsets, uint64_t alignment)
{
	struct gguf *g = c->g;
	uint64_t next = 0, pad = padding((uint64_t)(c->at - g->map.data), alignment);
	/* Without tensors there is no data, and no more than the padding may follow the header. */
	if (!g->count)
		return left(c) <= pad ? 0
							  : err_set(c->err, ERR_FORMAT, "%s: %llu bytes after the header belong to no tensor",
									g->path, (unsigned long long)left(c));
	snprintf(c->field, sizeof c->field, "padding before the data");
	const uint8_t *skipped;
	int rc = take(c, pad, &skipped);
	for (size_t i = 0; i < g->count && !rc; i++) {
		struct gguf_tensor *t = &g->tensors[i];
		snprintf(c->field, sizeof c->field, "tensor '%s'", t->name);
		/* The offset is compared with what the sizes add up to, so that no two tensors share
		 * bytes. */
		if (offsets[i] != next)
			return FAIL(c, ERR_FORMAT,
				"begins at byte %llu of the data, expected %llu: tensors must follow each other without gap or overlap",
				(unsigned long long)offsets[i], (unsigned long long)next);
		rc = take(c, t->bytes, &t->data);
		if (rc) return rc;
		pad = padding(t->bytes, alignment);
		next += t->bytes + pad;
		if (i + 1 < g->count) rc = take(c, pad, &skipped);
	}
	/* What is left is the last padding at most. */
	if (!rc && left(c) > pad)
		rc = err_set(c->err, ERR_FORMAT, "%s: %llu bytes after the last tensor belong to none", g->path,
			(unsigned long long)(left(c) - pad));
	return rc;
}

static int by_name(const void *a, const void *b)
{
	return strcmp(((const struct gguf_tensor *)a)->name, ((const struct gguf_tensor *)b)->name);
}

/* ---- the file ---- */

static int take_counts(struct cursor *c, uint64_t *tensors, uint64_t *entries)
{
	const uint8_t *magic = NULL;
	uint32_t version = 0;
	snprintf(c->field, sizeof c->field, "header");
	/* Four letters and a version, whose bytes tell also which way round the file was written. */
	int rc = take(c, 4, &magic);
	if (!rc && memcmp(magic, "GGUF", 4))
		rc = FAIL(c, ERR_FORMAT, "the file begins with %02x %02x %02x %02x; expected \"GGUF\"", magic[0], magic[1],
			magic[2], magic[3]);
	if (!rc) rc = take_u32(c, &version);
	if (!rc && version && !(version & 0xffff))
		rc = FAIL(c, ERR_UNSUPPORTED, "version %u in big-endian order; only little-endian files are read",
			__builtin_bswap32(version));
	if (!rc && version != 2 && version != 3)
		rc = FAIL(c, ERR_UNSUPPORTED,
			"version %u is not supported, only 2 and 3; write the file again with a current llama.cpp", version);
	if (!rc) rc = take_u64(c, tensors);
	if (!rc) rc = take_u64(c, entries);
	if (rc) return rc;
	/* The shortest entry is a key of one letter with a value of one byte; the shortest tensor has a
	 * name of one letter and one dimension. */
	if (*entries > ENTRIES_MAX || *entries > left(c) / 14)
		return FAIL(c, ERR_LIMIT, "%llu metadata entries; at most %u and what fits into %llu bytes are expected",
			(unsigned long long)*entries, ENTRIES_MAX, (unsigned long long)left(c));
	if (*tensors > ENTRIES_MAX || *tensors > left(c) / 33)
		return FAIL(c, ERR_LIMIT, "%llu tensors; at most %u and what fits into %llu bytes are expected",
			(unsigned long long)*tensors, ENTRIES_MAX, (unsigned long long)left(c));
	return 0;
}

static int take_file(struct cursor *c)
{
	struct gguf *g = c->g;
	uint64_t ntensors = 0, nentries = 0, *offsets = NULL;
	int64_t alignment = ALIGNMENT_DEFAULT;
	int rc = take_counts(c, &ntensors, &nentries);
	if (!rc) rc = take_metadata(c, nentries);
	if (!rc) rc = gguf_opt_int(g, "general.alignment", 1, 1 << 30, &alignment, c->err);
	if (!rc && alignment & (alignment - 1))
		rc = err_set(c->err, ERR_RANGE, "%s: metadata 'general.alignment': expected a power of two, found %lld",
			g->path, (long long)alignment);
	if (rc) return rc;
	g->tensors = xcalloc(MAX((size_t)ntensors, 1), sizeof *g->tensors);
	offsets = xcalloc(MAX((size_t)ntensors, 1), sizeof *offsets);
	rc = take_tensors(c, ntensors, offsets);
	if (!rc) rc = place_tensors(c, offsets, (uint64_t)alignment);
	free(offsets);
	if (rc) return rc;
	qsort(g->tensors, g->count, sizeof *g->tensors, by_name);
	for (size_t i = 1; i < g->count; i++)
		if (!by_name(&g->tensors[i - 1], &g->tensors[i]))
			return err_set(c->err, ERR_FORMAT, "%s: tensor '%s' occurs twice", g->path, g->tensors[i].name);
	return 0;
}

int gguf_open(const char *path, struct gguf **out, struct err *err)
{
	struct gguf *g = xcalloc(1, sizeof *g);
	struct err own = {0};
	g->path = xstrdup(path);
	*out = NULL;
	int rc = file_map_open(path, &g->map, &own);
	if (!rc) rc = take_file(&(struct cursor){.g = g, .at = g->map.data, .end = g->map.data + g->map.len, .err = &own});
	if (rc) {
		gguf_close(g);
		return err_set(err, rc, "%s", own.text);
	}
	*out = g;
	return 0;
}

void gguf_close(struct gguf *g)
{
	if (!g) return;
	file_map_close(&g->map);
	arena_release(&g->arena);
	free(g->values);
	free(g->tensors);
	free(g->path);
	free(g);
}

/* ---- lookup ---- */

const char *gguf_path(const struct gguf *g) { return g->path; }
size_t gguf_value_count(const struct gguf *g) { return g->nvalues; }
const struct gguf_value *gguf_value_at(const struct gguf *g, size_t i)
{
	CHECK(i < g->nvalues);
	return &g->values[i];
}

const struct gguf_value *gguf_find(const struct gguf *g, const char *key)
{
	struct gguf_value wanted = {.key = key};
	return g->nvalues ? bsearch(&wanted, g->values, g->nvalues, sizeof wanted, by_key) : NULL;
}

size_t gguf_count(const struct gguf *g) { return g->count; }
const struct gguf_tensor *gguf_at(const struct gguf *g, size_t i)
{
	CHECK(i < g->count);
	return &g->tensors[i];
}
const struct gguf_tensor *gguf_tensor_find(const struct gguf *g, const char *name)
{
	struct gguf_tensor wanted = {.name = name};
	return g->count ? bsearch(&wanted, g->tensors, g->count, sizeof wanted, by_name) : NULL;
}

/* ---- values ---- */

static int wrong_kind(const struct gguf *g, const struct gguf_value *v, const char *expected, struct err *err)
{
	return err_set(err, ERR_FORMAT, "%s: metadata '%.120s': expected %s, found %s%s", g->path, v->key, expected,
		types[v->type].name, v->type == GGUF_ARRAY ? "" : " value");
}

static int absent(const struct gguf *g, const char *key, struct err *err)
{
	return err_set(err, ERR_NOT_FOUND, "%s: metadata '%s' is missing", g->path, key);
}

static bool is_integer(enum gguf_type t) { return types[t].bytes && t != GGUF_F32 && t != GGUF_F64 && t != GGUF_BOOL; }
static bool is_signed(enum gguf_type t) { return t == GGUF_I8 || t == GGUF_I16 || t == GGUF_I32 || t == GGUF_I64; }

/* An unsigned number beyond int64 becomes INT64_MAX, which is outside every range that is asked
 * for. */
static int64_t integer_at(enum gguf_type t, const uint8_t *p)
{
	int bits = 8 * types[t].bytes;
	uint64_t n = number_at(p, types[t].bytes);
	if (is_signed(t)) return (int64_t)(n << (64 - bits)) >> (64 - bits);
	return n > INT64_MAX ? INT64_MAX : (int64_t)n;
}

int64_t gguf_int_at(const struct gguf_value *v, uint64_t i)
{
	CHECKF(v->data && is_integer(v->element) && i < v->count, "metadata '%s', element %llu", v->key,
		(unsigned long long)i);
	return integer_at(v->element, v->data + i * (uint64_t)types[v->element].bytes);
}

int gguf_opt_int(const struct gguf *g, const char *key, int64_t min, int64_t max, int64_t *out, struct err *err)
{
	const struct gguf_value *v = gguf_find(g, key);
	if (!v) return 0;
	if (!is_integer(v->type)) return wrong_kind(g, v, "an integer", err);
	int64_t n = integer_at(v->type, v->data);
	if (n < min || n > max)
		return err_set(err, ERR_RANGE, "%s: metadata '%s': expected %lld to %lld, found %lld", g->path, key,
			(long long)min, (long long)max, (long long)n);
	*out = n;
	return 0;
}

int gguf_get_int(const struct gguf *g, const char *key, int64_t min, int64_t max, int64_t *out, struct err *err)
{
	return gguf_find(g, key) ? gguf_opt_int(g, key, min, max, out, err) : absent(g, key, err);
}

int gguf_opt_num(const struct gguf *g, const char *key, double *out, struct err *err)
{
	const struct gguf_value *v = gguf_find(g, key);
	float f;
	double d;
	if (!v) return 0;
	if (v->type == GGUF_F32) {
		memcpy(&f, v->data, sizeof f);
		d = (double)f;
	} else if (v->type == GGUF_F64) {
		memcpy(&d, v->data, sizeof d);
	} else if (is_integer(v->type)) {
		d = (double)integer_at(v->type, v->data);
	} else {
		return wrong_kind(g, v, "a number", err);
	}
	if (!isfinite(d))
		return err_set(err, ERR_RANGE, "%s: metadata '%s': expected a finite number, found %g", g->path, key, d);
	*out = d;
	return 0;
}

int gguf_opt_bool(const struct gguf *g, const char *key, bool *out, struct err *err)
{
	const struct gguf_value *v = gguf_find(g, key);
	if (!v) return 0;
	if (v->type != GGUF_BOOL) return wrong_kind(g, v, "a bool", err);
	*out = *v->data;
	return 0;
}

int gguf_opt_str(const struct gguf *g, const char *key, const char **out, struct err *err)
{
	const struct gguf_value *v = gguf_find(g, key);
	if (!v) return 0;
	if (v->type != GGUF_STRING) return wrong_kind(g, v, "a string", err);
	if (memchr(v->strings->data, 0, v->strings->len))
		return err_set(err, ERR_FORMAT, "%s: metadata '%s': the string has a NUL byte", g->path, key);
	*out = v->strings->data;
	return 0;
}

int gguf_get_str(const struct gguf *g, const char *key, const char **out, struct err *err)
{
	return gguf_find(g, key) ? gguf_opt_str(g, key, out, err) : absent(g, key, err);
}
