/* safetensors_write: writing one file or a folder of shards; a file is written beside and then
 * renamed, tensor by tensor from the caller's memory (a model is not copied to be saved) or from a
 * function that makes each in its turn (a model that is converted need not fit into memory). Data
 * lies in order of falling element size, so that every tensor is aligned whatever the order given;
 * the header lists tensors as given. */
#include <stdlib.h>
#include <unistd.h>
#include "tensor.h"

/* Offsets of each tensor, largest elements first; ties in the order given. Returns the total. */
static uint64_t place(const struct tensor_info *tensors, size_t count, uint64_t *begin)
{
	uint64_t at = 0;
	for (size_t size = 8; size; size /= 2)
		for (size_t i = 0; i < count; i++)
			if (dtype_bytes(tensors[i].dtype) == size) {
				begin[i] = at;
				at += tensors[i].bytes;
			}
	return at;
}

static json_t *header_json(
	const struct tensor_info *tensors, size_t count, const uint64_t *begin, const json_t *metadata)
{
	json_t *header = json_object(), *meta = json_pack("{s:s}", "format", "pt");
	if (metadata) json_object_update(meta, (json_t *)metadata);
	json_object_set_new(header, "__metadata__", meta);
	for (size_t i = 0; i < count; i++) {
		const struct tensor_info *t = &tensors[i];
		json_t *shape = json_array();
		int64_t bytes = (int64_t)dtype_bytes(t->dtype);
		for (int d = 0; d < t->ndim; d++) {
			json_array_append_new(shape, json_integer(t->shape[d]));
			bytes *= t->shape[d];
		}
		CHECKF((size_t)bytes == t->bytes, "tensor '%s': %zu bytes, its shape needs %lld", t->name, t->bytes,
			(long long)bytes);
		CHECKF(!json_object_get(header, t->name), "tensor '%s' is given twice", t->name);
		json_object_set_new(header, t->name,
			json_pack("{s:s, s:o, s:[I, I]}", "dtype", dtype_safetensors_name(t->dtype), "shape", shape, "data_offsets",
				(json_int_t)begin[i], (json_int_t)(begin[i] + t->bytes)));
	}
	return header;
}

struct source {
	const struct tensor_info *tensors;
	size_t count;
	const json_t *metadata;
	tensor_fill_fn *fill; /* NULL: the tensors have their data */
	void *ctx;
	size_t first; /* number of the first tensor, as fill counts them */
	void *room;   /* for the largest tensor, where there is a fill */
};

static int write_tensor(int fd, const struct source *s, size_t i)
{
	const void *data = s->tensors[i].data;
	if (s->fill) {
		s->fill(s->ctx, s->first + i, s->room);
		data = s->room;
	}
	return fd_write(fd, data, s->tensors[i].bytes);
}

static int source_put(int fd, const void *ctx)
{
	const struct source *s = ctx;
	const struct tensor_info *tensors = s->tensors;
	size_t count = s->count;
	uint64_t *begin = xcalloc(MAX(count, 1), sizeof *begin);
	/* The header's length, the header with blanks to a multiple of 8, then data by
	 * falling element size. */
	place(tensors, count, begin);
	json_t *header = header_json(tensors, count, begin, s->metadata);
	char *text = json_dumps(header, JSON_COMPACT), spaces[8] = "        ";
	CHECK(text);
	uint64_t len = strlen(text), padded = (len + 7) / 8 * 8;
	uint8_t prefix[8];
	for (int i = 0; i < 8; i++) prefix[i] = (uint8_t)(padded >> 8 * i);
	int rc = fd_write(fd, prefix, 8) || fd_write(fd, text, len) || fd_write(fd, spaces, padded - len);
	for (size_t size = 8; size && !rc; size /= 2)
		for (size_t i = 0; i < count && !rc; i++)
			if (dtype_bytes(tensors[i].dtype) == size) rc = write_tensor(fd, s, i);
	free(text);
	json_decref(header);
	free(begin);
	return rc;
}

static int source_write(const char *path, struct source s, struct err *err)
{
	size_t largest = 1;
	for (size_t i = 0; s.fill && i < s.count; i++) largest = MAX(largest, s.tensors[i].bytes);
	s.room = s.fill ? xmalloc(largest) : NULL;
	int rc = file_write_atomic_by(path, source_put, &s, err);
	free(s.room);
	return rc;
}

int safetensors_write(
	const char *path, const struct tensor_info *tensors, size_t count, const json_t *metadata, struct err *err)
{
	return source_write(path, (struct source){.tensors = tensors, .count = count, .metadata = metadata}, err);
}

int safetensors_write_filled(const char *path, const struct tensor_info *tensors, size_t count, const json_t *metadata,
	tensor_fill_fn *fill, void *ctx, struct err *err)
{
	return source_write(
		path, (struct source){.tensors = tensors, .count = count, .metadata = metadata, .fill = fill, .ctx = ctx}, err);
}

/* ---- a folder ---- */

/* Fills the shard of each tensor, in the order given; a tensor larger than a shard has one of its
 * own. Returns how many there are. */
static int shards_plan(const struct tensor_info *tensors, size_t count, int64_t shard_bytes, int *shard)
{
	int n = 1;
	size_t used = 0;
	for (size_t i = 0; i < count; i++) {
		if (shard_bytes > 0 && used && tensors[i].bytes && used + tensors[i].bytes > (size_t)shard_bytes) {
			n++;
			used = 0;
		}
		used += tensors[i].bytes;
		shard[i] = n - 1;
	}
	return n;
}

static char *shard_name(int index, int n) { return xasprintf("model-%05d-of-%05d.safetensors", index + 1, n); }

struct stale {
	const char *dir;
	int n; /* shards that belong */
};

static int stale_remove(const char *name, void *ctx)
{
	const struct stale *s = ctx;
	int index, n, end = 0;
	bool is_shard = sscanf(name, "model-%5d-of-%5d.safetensors%n", &index, &n, &end) == 2 && end && !name[end];
	if (!is_shard || (s->n > 1 && n == s->n)) return 0;
	char *path = path_join(s->dir, name);
	unlink(path);
	free(path);
	return 0;
}

static int shards_write(const char *dir, const struct source *all, const int *shard, int n, struct err *err)
{
	const struct tensor_info *tensors = all->tensors;
	size_t count = all->count;
	json_t *map = json_object();
	char *index_path = path_join(dir, "model.safetensors.index.json");
	json_int_t total = 0;
	int rc = 0;
	unlink(index_path); /* shards of two models are never read as one: until the new index stands there, the folder has
						   none */
	/* A file of each run of tensors with the same shard; the index tells
	 * which tensor lies where. */
	for (size_t begin = 0, end; begin < count && !rc; begin = end) {
		char *name = shard_name(shard[begin], n), *path = path_join(dir, name);
		for (end = begin; end < count && shard[end] == shard[begin]; end++) {
			json_object_set_new(map, tensors[end].name, json_string(name));
			total += (json_int_t)tensors[end].bytes;
		}
		struct source part = *all;
		part.tensors += begin, part.first = begin, part.count = end - begin;
		rc = source_write(path, part, err);
		free(name);
		free(path);
	}
	json_t *index = json_pack("{s:{s:I}, s:o}", "metadata", "total_size", total, "weight_map", map);
	if (!rc) rc = json_save(index_path, index, err);
	json_decref(index);
	free(index_path);
	return rc;
}

/* The file that readers look for first goes last. */
int safetensors_write_folder(const char *dir, const struct tensor_info *tensors, size_t count, const json_t *metadata,
	int64_t shard_bytes, tensor_fill_fn *fill, void *ctx, struct err *err)
{
	const struct source all = {.tensors = tensors, .count = count, .metadata = metadata, .fill = fill, .ctx = ctx};
	int *shard = xcalloc(MAX(count, 1), sizeof *shard), n = shards_plan(tensors, count, shard_bytes, shard);
	char *whole = path_join(dir, "model.safetensors"), *index = path_join(dir, "model.safetensors.index.json");
	int rc;
	if (n == 1) rc = source_write(whole, all, err);
	else if (n <= SAFETENSORS_SHARDS_MAX) rc = shards_write(dir, &all, shard, n, err);
	else
		rc = err_set(err, ERR_LIMIT, "%s: %d shards of %lld bytes; at most %d, choose larger ones", dir, n,
			(long long)shard_bytes, SAFETENSORS_SHARDS_MAX);
	if (!rc) unlink(n == 1 ? index : whole);
	if (!rc) rc = dir_each(dir, stale_remove, &(struct stale){dir, n}, err);
	free(shard);
	free(whole);
	free(index);
	return rc;
}
