/* The backend for a policy: a GPU keeps an adapter's B in columns beside the weights, whose number
 * is fixed when it is opened, so the ranks of the adapters to come are looked up first. */
#include "model/model_internal.h"
#include "base/base.h"
#include "ops/cuda_figures.h"
#include "ops/ops.h"

#include <stdlib.h>

#define COLUMNS_STEP 64

#define CAP_LEAST 1e6 /* bytes: less holds nothing, and would be told as 0 MiB */

/* "24GiB", "80GB", "512MiB": a number and its unit. */
static int memory_parse(const char *text, size_t *bytes, struct err *err)
{
	static const struct {
		const char *name;
		double bytes;
	} units[] = {{"MiB", 1 << 20}, {"GiB", 1 << 30}, {"TiB", 1099511627776.0}, {"MB", 1e6}, {"GB", 1e9}, {"TB", 1e12}};
	char *end = NULL;
	*bytes = 0;
	if (!text) return 0;
	double number = strtod(text, &end), factor = 0;
	for (size_t i = 0; i < ARRAY_LEN(units); i++)
		if (!strcmp(end, units[i].name)) factor = units[i].bytes;
	if (end == text || factor == 0 || !(number > 0 && number * factor < 1e18))
		return err_set(
			err, ERR_USAGE, "--memory \"%.40s\": expected a number with MiB, GiB, TiB, MB, GB or TB, as 24GiB", text);
	if (number * factor < CAP_LEAST)
		return err_set(err, ERR_USAGE, "--memory \"%.40s\": expected 1MB or more, as 24GiB", text);
	*bytes = (size_t)(number * factor);
	return 0;
}

static int ops_options_of(const struct device_options *o, struct ops_options *out, struct err *err)
{
	int r = o->new_rank;
	for (int i = 0; i < o->nadapters; i++) {
		struct err quiet = {0};
		int rank = 0;
		/* What is wrong with the folder is said when the adapter is opened. */
		if (o->adapters[i] && !adapter_rank(o->adapters[i], &rank, &quiet)) r = MAX(r, rank);
	}
	*out = (struct ops_options){.threads = o->threads,
		.batch_invariant = o->batch_invariant,
		.adapter_columns = (OPS_PARTS * r + COLUMNS_STEP - 1) / COLUMNS_STEP * COLUMNS_STEP,
		.cuda_libs = o->cuda_libs};
	int rc = memory_parse(o->memory, &out->memory_cap, err);
	if (!rc) rc = ops_card_find(o->card, &out->card, err);
	if (!rc && out->card.capability)
		out->memory_cap = MIN(out->memory_cap ? out->memory_cap : SIZE_MAX, (size_t)out->card.memory_bytes);
	return rc;
}

int device_open(const struct device_options *o, struct ops **out, struct err *err)
{
	struct ops_options ops;
	int rc = ops_options_of(o, &ops, err);
	return rc ? rc : ops_open(o->device, &ops, out, err);
}

int device_describe(const struct device_options *o, struct ops *out, size_t *cap, struct err *err)
{
	struct ops_options ops;
	int rc = ops_options_of(o, &ops, err);
	*cap = ops.memory_cap;
	return rc ? rc : ops_describe(o->device, &ops, out, err);
}

size_t device_room(struct ops *ops)
{
	size_t free_bytes, total;
	ops->memory(ops->ctx, &free_bytes, &total);
	return ops->host_memory ? total : MIN(total, free_bytes + CUDA_DRIVER_BYTES + CUDA_WORKSPACE_BYTES);
}
