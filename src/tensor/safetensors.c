/* safetensors: the file format of Hugging Face's weights, read by mapping. A file is
 *
 *     u64 little-endian n | n bytes of JSON {"name": {"dtype", "shape", "data_offsets": [begin,
 *     end)}, ..., "__metadata__": {string: string}} | data
 *
 * with offsets relative to the data. Everything is validated before a pointer is handed out, so
 * that readers need no checks: byte ranges tile the data exactly (no overlap, no gap, no tail),
 * each is as long as dtype and shape say, and starts at a multiple of its element size. Shards
 * named by an index are one namespace. */
#include <errno.h>
#include <stdlib.h>
#include <sys/stat.h>
#include "tensor.h"

#define HEADER_BYTES_MAX (100u * 1024 * 1024)   /* as the reference implementation */
#define TENSORS_MAX (1u << 20)
#define INDEX_BYTES_MAX (64u * 1024 * 1024)

struct safetensors {
	struct arena arena; /* names */
	struct file_map *shards;
	size_t nshards;
	struct tensor_info *tensors; /* sorted by name */
	size_t count;
	size_t cap; /* of tensors */
};

static int by_name(const void *a, const void *b)
{
	return strcmp(((const struct tensor_info *)a)->name, ((const struct tensor_info *)b)->name);
}
static int by_data(const void *a, const void *b)
{
	const struct tensor_info *x = *(const struct tensor_info *const *)a, *y = *(const struct tensor_info *const *)b;
	if (x->data != y->data) return (const char *)x->data < (const char *)y->data ? -1 : 1;
	return x->bytes < y->bytes ? -1
							   : x->bytes > y->bytes; /* empty tensors before the one that starts at the same byte */
}

/* ---- one tensor's entry ---- */

static int read_offset(const json_t *v, uint64_t *out)
{
	if (!json_is_integer(v) || json_integer_value(v) < 0) return -1;
	*out = (uint64_t)json_integer_value(v);
	return 0;
}

static int read_shape(struct tensor_info *t, const json_t *shape, const char *path, uint64_t *bytes, struct err *err)
{
	if (!json_is_array(shape))
		return err_set(err, ERR_FORMAT, "%s: tensor '%s': expected a list \"shape\"", path, t->name);
	if (json_array_size(shape) > TENSOR_DIMS_MAX)
		return err_set(err, ERR_LIMIT, "%s: tensor '%s' has %zu dimensions; at most %d are supported", path, t->name,
			json_array_size(shape), TENSOR_DIMS_MAX);
	t->ndim = (int)json_array_size(shape);
	*bytes = dtype_bytes(t->dtype);
	for (int i = 0; i < t->ndim; i++) {
		uint64_t side;
		if (read_offset(json_array_get(shape, (size_t)i), &side))
			return err_set(
				err, ERR_FORMAT, "%s: tensor '%s': dimension %d is not a non-negative integer", path, t->name, i);
		t->shape[i] = (int64_t)side;
		if (__builtin_mul_overflow(*bytes, side, bytes) || *bytes > INT64_MAX)
			return err_set(err, ERR_RANGE, "%s: tensor '%s': the product of its shape overflows", path, t->name);
	}
	return 0;
}

static int read_entry(struct tensor_info *t, const json_t *entry, const char *path, const uint8_t *data,
	uint64_t data_bytes, struct err *err)
{
	const json_t *dtype = json_object_get(entry, "dtype"), *offsets = json_object_get(entry, "data_offsets");
	if (!json_is_string(dtype))
		return err_set(err, ERR_FORMAT, "%s: tensor '%s': expected a string \"dtype\"", path, t->name);
	if (dtype_from_safetensors(json_string_value(dtype), &t->dtype))
		return err_set(err, ERR_UNSUPPORTED, "%s: tensor '%s' has dtype '%.32s', which is not supported", path, t->name,
			json_string_value(dtype));
	/* The size is counted from the shape, and the offsets have to agree with it. */
	uint64_t bytes = 0, begin = 0, end = 0;
	int rc = read_shape(t, json_object_get(entry, "shape"), path, &bytes, err);
	if (rc) return rc;
	if (!json_is_array(offsets) || json_array_size(offsets) != 2 || read_offset(json_array_get(offsets, 0), &begin) ||
		read_offset(json_array_get(offsets, 1), &end))
		return err_set(err, ERR_FORMAT, "%s: tensor '%s': expected \"data_offsets\": [begin, end]", path, t->name);
	/* The range is checked before a pointer is made of it: the numbers come from a file. */
	if (begin > end || end > data_bytes)
		return err_set(err, ERR_RANGE,
			"%s: tensor '%s': bytes %llu..%llu lie outside the %llu bytes of data; is the file cut off?", path, t->name,
			(unsigned long long)begin, (unsigned long long)end, (unsigned long long)data_bytes);
	if (end - begin != bytes)
		return err_set(err, ERR_MISMATCH, "%s: tensor '%s': dtype and shape need %llu bytes, data_offsets give %llu",
			path, t->name, (unsigned long long)bytes, (unsigned long long)(end - begin));
	t->data = data + begin;
	t->bytes = (size_t)bytes;
	/* Elements are read where they lie in the mapped file, which needs them aligned. */
	if ((uintptr_t)t->data % dtype_bytes(t->dtype))
		return err_set(err, ERR_FORMAT,
			"%s: tensor '%s' is not aligned to its element size; save the file again with a current safetensors", path,
			t->name);
	return 0;
}

/* ---- one file ---- */

static int check_tiling(const struct tensor_info *tensors, size_t count, const char *path, const uint8_t *data,
	uint64_t data_bytes, struct err *err)
{
	const struct tensor_info **order = xmalloc(size_mul(MAX(count, 1), sizeof *order));
	for (size_t i = 0; i < count; i++) order[i] = &tensors[i];
	qsort(order, count, sizeof *order, by_data);
	const uint8_t *next = data;
	int rc = 0;
	for (size_t i = 0; i < count && !rc; i++) {
		if ((const uint8_t *)order[i]->data != next)
			rc = err_set(err, ERR_FORMAT,
				"%s: tensor '%s' begins at byte %lld of the data, expected %lld: ranges must follow each other without "
				"gap or overlap",
				path, order[i]->name, (long long)((const uint8_t *)order[i]->data - data), (long long)(next - data));
		next = (const uint8_t *)order[i]->data + order[i]->bytes;
	}
	if (!rc && next != data + data_bytes)
		rc = err_set(
			err, ERR_FORMAT, "%s: %lld bytes of data belong to no tensor", path, (long long)(data + data_bytes - next));
	free(order);
	return rc;
}

static int check_metadata(const json_t *metadata, const char *path, struct err *err)
{
	const char *key;
	json_t *value;
	if (!json_is_object(metadata)) return err_set(err, ERR_FORMAT, "%s: __metadata__ is not an object", path);
	json_object_foreach((json_t *)metadata, key, value) if (!json_is_string(value)) return err_set(
		err, ERR_FORMAT, "%s: __metadata__ '%.64s' is not a string", path, key);
	return 0;
}

static int read_header(struct safetensors *s, const json_t *header, const char *path, const uint8_t *data,
	uint64_t data_bytes, struct err *err)
{
	size_t first = s->count, room = json_object_size(header);
	if (room > TENSORS_MAX - s->count) return err_set(err, ERR_LIMIT, "%s: more than %u tensors", path, TENSORS_MAX);
	s->cap = s->count + room;
	s->tensors = xrealloc(s->tensors, size_mul(MAX(s->cap, 1), sizeof *s->tensors));
	const char *name;
	json_t *entry;
	json_object_foreach((json_t *)header, name, entry)
	{
		int rc;
		if (strcmp(name, "__metadata__") == 0) {
			if ((rc = check_metadata(entry, path, err))) return rc;
			continue;
		}
		struct tensor_info *t = &s->tensors[s->count];
		memset(t, 0, sizeof *t);
		t->name = arena_strndup(&s->arena, name, strlen(name));
		if ((rc = read_entry(t, entry, path, data, data_bytes, err))) return rc;
		s->count++;
	}
	return check_tiling(s->tensors + first, s->count - first, path, data, data_bytes, err);
}

static int add_file(struct safetensors *s, const char *path, struct err *err)
{
	struct file_map *map = &s->shards[s->nshards];
	int rc = file_map_open(path, map, err);
	if (rc) return rc;
	/* The file counts as soon as it is open, so that closing the set closes it whatever fails
	 * below. */
	s->nshards++;
	if (map->len < 8)
		return err_set(err, ERR_FORMAT, "%s: %zu bytes are too few for a safetensors file", path, map->len);
	/* The length of the header: 8 bytes, the lowest first. It is bounded before anything is
	 * parsed. */
	uint64_t n = 0;
	for (int i = 7; i >= 0; i--) n = n << 8 | map->data[i];
	if (n > HEADER_BYTES_MAX)
		return err_set(err, ERR_LIMIT, "%s: header of %llu bytes exceeds the limit of %u; is this a safetensors file?",
			path, (unsigned long long)n, HEADER_BYTES_MAX);
	if (n > map->len - 8)
		return err_set(err, ERR_FORMAT, "%s: header of %llu bytes, but the file ends after %zu; is the file cut off?",
			path, (unsigned long long)n, map->len - 8);
	/* The header has to begin with the object itself: white space before it is refused. */
	json_error_t e;
	json_t *header = n && map->data[8] == '{'
		? json_loadb((const char *)map->data + 8, (size_t)n, JSON_REJECT_DUPLICATES, &e)
		: NULL;
	if (!header)
		return err_set(err, ERR_FORMAT, "%s: header is not a JSON object%s%s", path,
			n && map->data[8] == '{' ? ": " : "", n && map->data[8] == '{' ? e.text : "");
	rc = read_header(s, header, path, map->data + 8 + n, map->len - 8 - n, err);
	json_decref(header);
	return rc;
}

/* ---- shards ---- */

static int sort_and_refuse_duplicates(struct safetensors *s, const char *path, struct err *err)
{
	qsort(s->tensors, s->count, sizeof *s->tensors, by_name);
	for (size_t i = 1; i < s->count; i++)
		if (strcmp(s->tensors[i - 1].name, s->tensors[i].name) == 0)
			return err_set(err, ERR_FORMAT, "%s: tensor '%s' occurs in two files", path, s->tensors[i].name);
	return 0;
}

/* Shard names come from a file: plain names only, no way out of the folder. */
static int add_shard(struct safetensors *s, const char *folder, const char *name, json_t *seen, struct err *err)
{
	if (!*name || strchr(name, '/') || strcmp(name, ".") == 0 || strcmp(name, "..") == 0)
		return err_set(err, ERR_FORMAT, "index names the file '%.128s'; expected a plain file name", name);
	if (json_object_get(seen, name)) return 0;
	if (s->nshards == SAFETENSORS_SHARDS_MAX)
		return err_set(err, ERR_LIMIT, "index names more than %d files", SAFETENSORS_SHARDS_MAX);
	json_object_set_new(seen, name, json_integer((json_int_t)s->nshards));
	char *path = path_join(folder, name);
	int rc = add_file(s, path, err);
	free(path);
	return rc;
}

static size_t shard_of(const struct safetensors *s, const struct tensor_info *t)
{
	for (size_t i = 0; i < s->nshards; i++)
		if ((const uint8_t *)t->data >= s->shards[i].data &&
			(const uint8_t *)t->data < s->shards[i].data + s->shards[i].len)
			return i;
	return s->nshards;
}

static int check_weight_map(
	const struct safetensors *s, const json_t *weight_map, const json_t *seen, const char *path, struct err *err)
{
	const char *name;
	json_t *file;
	json_object_foreach((json_t *)weight_map, name, file)
	{
		const struct tensor_info *t = safetensors_find(s, name);
		if (!t)
			return err_set(err, ERR_NOT_FOUND, "%s: tensor '%.128s' is in the index but not in %.128s", path, name,
				json_string_value(file));
		if (t->bytes &&
			(json_int_t)shard_of(s, t) != json_integer_value(json_object_get(seen, json_string_value(file))))
			return err_set(err, ERR_MISMATCH, "%s: tensor '%.128s' is not in %.128s, where the index puts it", path,
				name, json_string_value(file));
	}
	if (json_object_size(weight_map) != s->count)
		return err_set(err, ERR_MISMATCH, "%s: the files hold %zu tensors, the index lists %zu", path, s->count,
			json_object_size(weight_map));
	return 0;
}

static int add_index(struct safetensors *s, const char *path, struct err *err)
{
	json_t *index = NULL, *seen = json_object();
	char *folder = path_folder(path);
	const char *name;
	json_t *file;
	int rc = json_load(path, INDEX_BYTES_MAX, &index, err);
	if (rc) goto cleanup;
	const json_t *weight_map = json_object_get(index, "weight_map");
	if (!json_is_object(weight_map) || json_object_size(weight_map) == 0) {
		rc = err_set(err, ERR_FORMAT, "%s: expected an object \"weight_map\" with at least one tensor", path);
		goto cleanup;
	}
	/* Room for as many files as there may be is made once, before the first is added. */
	s->shards = xrealloc(s->shards, SAFETENSORS_SHARDS_MAX * sizeof *s->shards);
	/* The index names a file for each tensor; seen remembers those that are open already. */
	json_object_foreach((json_t *)weight_map, name, file)
	{
		if (!json_is_string(file)) rc = err_set(err, ERR_FORMAT, "%s: weight_map '%.128s' is not a string", path, name);
		else if ((rc = add_shard(s, folder, json_string_value(file), seen, err))) err_prefix(err, "%s", path);
		if (rc) goto cleanup;
	}
	/* What the files hold is then compared with what the index says. */
	rc = sort_and_refuse_duplicates(s, path, err);
	if (!rc) rc = check_weight_map(s, weight_map, seen, path, err);
cleanup:
	free(folder);
	json_decref(seen);
	json_decref(index);
	return rc;
}

/* ---- finding the file ---- */

static int resolve(const char *path, char **out, struct err *err)
{
	static const char *const names[] = {
		"model.safetensors", "model.safetensors.index.json", "adapter_model.safetensors"};
	struct stat st;
	if (stat(path, &st)) return err_set(err, ERR_IO, "%s: %s", path, strerror(errno));
	if (!S_ISDIR(st.st_mode)) {
		*out = xstrdup(path);
		return 0;
	}
	for (size_t i = 0; i < ARRAY_LEN(names); i++) {
		char *p = path_join(path, names[i]);
		if (path_exists(p)) {
			*out = p;
			return 0;
		}
		free(p);
	}
	return err_set(err, ERR_NOT_FOUND, "%s: expected %s, %s or %s in this folder", path, names[0], names[1], names[2]);
}

int safetensors_open(const char *path, struct safetensors **out, struct err *err)
{
	char *file = NULL;
	int rc = resolve(path, &file, err);
	if (rc) return rc;
	struct safetensors *s = xcalloc(1, sizeof *s);
	s->shards = xcalloc(1, sizeof *s->shards);
	if (text_ends_in(file, ".json")) rc = add_index(s, file, err);
	else if (!(rc = add_file(s, file, err))) rc = sort_and_refuse_duplicates(s, file, err);
	free(file);
	if (rc) {
		safetensors_close(s);
		return rc;
	}
	*out = s;
	return 0;
}

void safetensors_close(struct safetensors *s)
{
	if (!s) return;
	for (size_t i = 0; i < s->nshards; i++) file_map_close(&s->shards[i]);
	free(s->shards);
	free(s->tensors);
	arena_release(&s->arena);
	free(s);
}

/* ---- lookup ---- */

size_t safetensors_count(const struct safetensors *s) { return s->count; }
const struct tensor_info *safetensors_at(const struct safetensors *s, size_t i)
{
	CHECK(i < s->count);
	return &s->tensors[i];
}
const struct tensor_info *safetensors_find(const struct safetensors *s, const char *name)
{
	struct tensor_info key = {.name = name};
	return s->count ? bsearch(&key, s->tensors, s->count, sizeof key, by_name) : NULL;
}

static const char *shape_text(char *text, size_t len, int ndim, const int64_t *shape)
{
	size_t at = (size_t)snprintf(text, len, "(");
	for (int i = 0; i < ndim && at < len; i++)
		at += (size_t)snprintf(text + at, len - at, "%s%lld", i ? ", " : "", (long long)shape[i]);
	if (at < len) snprintf(text + at, len - at, ")");
	return text;
}

int safetensors_get(const struct safetensors *s, const char *name, int ndim, const int64_t *shape,
	const struct tensor_info **out, struct err *err)
{
	const struct tensor_info *t = safetensors_find(s, name);
	if (!t) return err_set(err, ERR_NOT_FOUND, "tensor '%s' is missing (the file holds %zu tensors)", name, s->count);
	if (t->ndim != ndim || (ndim && memcmp(t->shape, shape, (size_t)ndim * sizeof *shape))) {
		char expected[256], found[256];
		return err_set(err, ERR_MISMATCH, "tensor '%s': expected shape %s, found %s", name,
			shape_text(expected, sizeof expected, ndim, shape), shape_text(found, sizeof found, t->ndim, t->shape));
	}
	*out = t;
	return 0;
}
