/* tensor: named arrays on disk. safetensors in and out, in shards with an index too, mapped, validated to the byte. */
#ifndef HONE_TENSOR_H
#define HONE_TENSOR_H
#include "base/dtype.h"

#define TENSOR_DIMS_MAX 8
struct tensor_info { const char *name; enum dtype dtype; int ndim; int64_t shape[TENSOR_DIMS_MAX]; const void *data; size_t bytes; };

struct safetensors;   /* one or several mapped files */
/* path: a .safetensors file, a .index.json, or a folder holding either. Everything is checked before success: header length and limit (100 MB), JSON, dtypes,
 * shapes against byte ranges, overlaps, gaps, bounds, duplicate names, alignment. Errors name file and tensor. */
int safetensors_open(const char *path, struct safetensors **out, struct err *err);
void safetensors_close(struct safetensors *s);
size_t safetensors_count(const struct safetensors *s);
const struct tensor_info *safetensors_at(const struct safetensors *s, size_t i);       /* in name order */
const struct tensor_info *safetensors_find(const struct safetensors *s, const char *name);   /* NULL when absent */
/* Finds and checks the shape; error says expected and found. */
int safetensors_get(const struct safetensors *s, const char *name, int ndim, const int64_t *shape, const struct tensor_info **out, struct err *err);
/* Copies as fp32 (from F32, F16, BF16, F64, F8). */
void tensor_to_f32(const struct tensor_info *t, float *out);
#define SAFETENSORS_SHARDS_MAX 4096
/* Writes one file atomically, tensors in the order given, metadata {"format": "pt"} plus the pairs given. */
int safetensors_write(const char *path, const struct tensor_info *tensors, size_t count, const json_t *metadata, struct err *err);
/* Writes a folder (which exists) as Hugging Face names its files: model.safetensors, or, where the tensors are more than shard_bytes (0: no limit),
 * model-00001-of-0000N.safetensors with at most so many bytes of data each and model.safetensors.index.json. What the folder held before under these names
 * goes. A kill leaves the old model, the new one, or shards without an index, which nobody opens. */
int safetensors_write_folder(const char *dir, const struct tensor_info *tensors, size_t count, const json_t *metadata, int64_t shard_bytes, struct err *err);
#endif
