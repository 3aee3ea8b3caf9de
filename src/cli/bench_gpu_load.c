/* The part load of `hone bench gpu`: a folder of weights on the disk, opened into the device. */
#include "base/base.h"
#include "base/dtype.h"
#include "cli/bench.h"
#include "cli/bench_gpu.h"
#include "model/model.h"
#include "ops/ops.h"
#include "tensor/tensor.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/statvfs.h>

#define SHARD_BYTES ((int64_t)4 << 30)

/* Whether the file finds room beside what others may need. */
static bool has_room(struct gpu_bench *b, const char *path, size_t bytes)
{
	struct statvfs v;
	double gib = 1.0 / (double)(1 << 30), has = statvfs(path, &v) ? 0 : (double)v.f_bavail * (double)v.f_frsize;
	if (has >= 1.1 * (double)bytes) return true;
	gpu_skip(b, "load: %.1f GiB are to be written, %s has %.1f GiB", (double)bytes * gib, path, has * gib);
	return false;
}

int gpu_load_prepare(struct gpu_bench *b, char *path, size_t room, struct err *err)
{
	int n, rc = bench_folder_make(path, room, err);
	if (rc) return rc;
	const struct param *params = model_params(b->m, &n);
	struct tensor_info *t = xcalloc((size_t)n, sizeof *t);
	size_t bytes = 0;
	/* Every tensor is the same noise, as far as it reaches. */
	for (int i = 0; i < n; i++) {
		t[i] = (struct tensor_info){.name = params[i].name,
			.dtype = DTYPE_BF16,
			.ndim = params[i].ndim,
			.data = (const uint8_t *)b->noise,
			.bytes = (size_t)params[i].count * sizeof *b->noise};
		for (int d = 0; d < params[i].ndim; d++) t[i].shape[d] = params[i].shape[d];
		bytes += t[i].bytes;
	}
	bool fits = has_room(b, path, bytes);
	if (fits) rc = safetensors_write_folder(path, t, (size_t)n, NULL, SHARD_BYTES, NULL, NULL, err);
	if (fits && !rc) rc = model_config_save_as(path, &b->c, DTYPE_BF16, err);
	free(t);
	if (rc || !fits) {
		dir_remove(path, NULL);
		*path = 0;
	}
	return rc;
}

/* Seconds until the device has all weights. */
static int open_seconds(struct gpu_bench *b, const char *path, double *seconds, struct err *err)
{
	struct device_options d = {
		.device = b->o->device, .cuda_libs = b->o->cuda_libs, .memory = b->o->memory, .card = b->o->cuda_card};
	struct ops *ops = NULL;
	struct model *m = NULL;
	int n, rc = device_open(&d, &ops, err);
	uint64_t begin = clock_ns();
	if (!rc) rc = model_open(path, ops, &m, err);
	if (!rc) {
		struct param *params = model_params(m, &n);
		param_value(ops, &params[n - 1], 0); /* waits */
		*seconds = 1e-9 * (double)(clock_ns() - begin);
	}
	model_free(m);
	ops_free(ops);
	return rc;
}

int gpu_load_run(struct gpu_bench *b, const char *path, struct err *err)
{
	char title[80];
	double first, second, bytes = (double)model_config_params(&b->c) * 2;
	int rc = open_seconds(b, path, &first, err);
	if (!rc) rc = open_seconds(b, path, &second, err);
	dir_remove(path, NULL);
	if (rc) return rc;
	snprintf(title, sizeof title, "load %.1f GB, second read (first %.1f s)", bytes * 1e-9, first);
	gpu_figure_add(b, "load", title, second, "s", 1, 0, "");
	return 0;
}
