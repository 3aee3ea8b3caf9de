/* tensor: named arrays on disk, mapped, validated to the byte. safetensors in and out, in shards
 * with an index too; GGUF in.
 *
 * What an open file hands out (names, strings, data) are views that live until it is closed. Files
 * are strangers': whatever they hold, opening one ends in success or an error that names file and
 * field, and after success readers need no checks of their own. Open files are read-only: any
 * thread may read. */
#ifndef HONE_TENSOR_H
#define HONE_TENSOR_H
#include "base/base.h"
#include "base/dtype.h"

#define TENSOR_DIMS_MAX 8
struct tensor_info {
	const char *name;
	enum dtype dtype;
	int ndim;
	int64_t shape[TENSOR_DIMS_MAX]; /* (ndim) */
	const void *data;               /* (bytes) row-major */
	size_t bytes;
};

struct safetensors; /* one or several mapped files */
/* path: a .safetensors file, a .index.json, or a folder holding either. Everything is checked
 * before success: header length and limit (100 MB), JSON, dtypes, shapes against byte ranges,
 * overlaps, gaps, bounds, duplicate names, alignment. Errors name file and tensor. */
int safetensors_open(const char *path, struct safetensors **out, struct err *err);
void safetensors_close(struct safetensors *s);
size_t safetensors_count(const struct safetensors *s);
const struct tensor_info *safetensors_at(const struct safetensors *s, size_t i);           /* in name order */
const struct tensor_info *safetensors_find(const struct safetensors *s, const char *name); /* NULL when absent */
/* Finds and checks the shape; error says expected and found. */
int safetensors_get(const struct safetensors *s, const char *name, int ndim, const int64_t *shape,
	const struct tensor_info **out, struct err *err);
/* Copies all values as fp32, from F32, F16, BF16, F64 and both F8; CHECKs that they are floats. */
void tensor_to_f32(const struct tensor_info *t, float *out);
#define SAFETENSORS_SHARDS_MAX 4096
/* Writes one file atomically, tensors in the order given, metadata {"format": "pt"} plus the pairs
 * given. */
int safetensors_write(
	const char *path, const struct tensor_info *tensors, size_t count, const json_t *metadata, struct err *err);
/* The same with data made one tensor at a time, each once: fill writes tensors[i].bytes into out.
 * The `data` of the tensors is not looked at. */
typedef void tensor_fill_fn(void *ctx, size_t i, void *out);
int safetensors_write_filled(const char *path, const struct tensor_info *tensors, size_t count, const json_t *metadata,
	tensor_fill_fn *fill, void *ctx, struct err *err);
/* Writes a folder (which exists) as Hugging Face names its files: model.safetensors, or, where the
 * tensors are more than shard_bytes (0: no limit), model-00001-of-0000N.safetensors with at most so
 * many bytes of data each and model.safetensors.index.json. What the folder held before under these
 * names goes. A kill leaves the old model, the new one, or shards without an index, which nobody
 * opens. fill: as above, i counted over all tensors; NULL: they have their data. */
int safetensors_write_folder(const char *dir, const struct tensor_info *tensors, size_t count, const json_t *metadata,
	int64_t shard_bytes, tensor_fill_fn *fill, void *ctx, struct err *err);

/* ---- GGUF: llama.cpp's one file of metadata and tensors, versions 2 and 3, little-endian ---- */

/* The file's numbers. */
enum gguf_type {
	GGUF_U8,
	GGUF_I8,
	GGUF_U16,
	GGUF_I16,
	GGUF_U32,
	GGUF_I32,
	GGUF_F32,
	GGUF_BOOL,
	GGUF_STRING,
	GGUF_ARRAY,
	GGUF_U64,
	GGUF_I64,
	GGUF_F64,
	GGUF_TYPE_COUNT
};
struct gguf_value {
	const char *key;
	enum gguf_type type;
	enum gguf_type element; /* of a GGUF_ARRAY's list; else as type */
	uint64_t count;         /* 1, or the list's length */
	const uint8_t *data;    /* numbers, little-endian and not aligned; NULL for strings and lists of lists, which are
							   checked and skipped */
	const struct slice *strings; /* (count) bytes as they stand in the file, which need not be UTF-8; NULL for others */
};
struct gguf_tensor {
	const char *name;
	const struct gguf_quant *quant; /* how values are packed */
	int ndim;
	int64_t shape[4]; /* rows before columns, as numpy and torch say it; the file has it the other way round */
	int64_t count;    /* values */
	const uint8_t *data;
	size_t bytes;
};

struct gguf;
int gguf_open(const char *path, struct gguf **out, struct err *err);
void gguf_close(struct gguf *g);
const char *gguf_path(const struct gguf *g);
size_t gguf_value_count(const struct gguf *g);
const struct gguf_value *gguf_value_at(const struct gguf *g, size_t i);    /* metadata, in key order */
const struct gguf_value *gguf_find(const struct gguf *g, const char *key); /* NULL when absent */
/* Readers of single values: `get` insists, `opt` leaves *out alone when the key is absent; another
 * kind or a value outside the range is an error. */
int gguf_get_int(const struct gguf *g, const char *key, int64_t min, int64_t max, int64_t *out, struct err *err);
int gguf_opt_int(const struct gguf *g, const char *key, int64_t min, int64_t max, int64_t *out, struct err *err);
int gguf_opt_num(const struct gguf *g, const char *key, double *out, struct err *err); /* finite */
int gguf_opt_bool(const struct gguf *g, const char *key, bool *out, struct err *err);
int gguf_get_str(const struct gguf *g, const char *key, const char **out, struct err *err); /* without NUL bytes */
int gguf_opt_str(const struct gguf *g, const char *key, const char **out, struct err *err);
int64_t gguf_int_at(const struct gguf_value *v, uint64_t i); /* of a list of integers; CHECKs kind and index */
size_t gguf_count(const struct gguf *g);
const struct gguf_tensor *gguf_at(const struct gguf *g, size_t i);                  /* tensors, in name order */
const struct gguf_tensor *gguf_tensor_find(const struct gguf *g, const char *name); /* NULL when absent */
/* All values as fp32, (t->count), the very bits that gguf-py's dequantiser gives. */
void gguf_to_f32(const struct gguf_tensor *t, float *out);
#endif
