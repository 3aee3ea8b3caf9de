/* The backend for a policy: a GPU keeps an adapter's B in columns beside the weights, whose number
 * is fixed when it is opened, so the ranks of the adapters to come are looked up first. */
#include "model/model_internal.h"
#include "base/base.h"
#include "ops/ops.h"

#define COLUMNS_STEP 64

int device_open(const struct device_options *o, struct ops **out, struct err *err)
{
	int r = o->new_rank;
	for (int i = 0; i < o->nadapters; i++) {
		struct err quiet = {0};
		int rank = 0;
		/* What is wrong with the folder is said when the adapter is opened. */
		if (o->adapters[i] && !adapter_rank(o->adapters[i], &rank, &quiet)) r = MAX(r, rank);
	}
	struct ops_options ops = {.threads = o->threads,
		.batch_invariant = o->batch_invariant,
		.adapter_columns = (OPS_PARTS * r + COLUMNS_STEP - 1) / COLUMNS_STEP * COLUMNS_STEP,
		.cuda_libs = o->cuda_libs};
	return ops_open(o->device, &ops, out, err);
}
