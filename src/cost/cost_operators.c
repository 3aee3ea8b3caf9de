/* PyTorch's operators as they are: many take several kernels, or one that leaves most of the GPU idle. The tables are
 * measurements on an H200 (torch 2.11, CUDA graphs, cold L2), made by bench/cost/cost_operators.py --fit. */
#include "cost/cost.h"
#include "base/base.h"
#include <math.h>
#include <string.h>

#define SIZES 5          /* an operator was timed at */
#define SIZE_STEP 16.0   /* from one of them to the next */
#define H200 (&vm_gpus[0])

/* Time grows with size, but not by one law: a reduction does side by side as much as it keeps, and adds the rest one
 * after another. So the table has times at sizes and extents, and what lies between them is between them. Rows of a
 * name stand together, those of a form too, in the order of their extents. */
struct operator_time {
	const char *name;
	const char *form;
	double extent;    /* elements that go into one result */
	double bytes;     /* moved at the largest size */
	double us[SIZES]; /* microseconds at bytes / SIZE_STEP^4, ..., bytes */
};
static const struct operator_time operators[] = {
#include "cost/cost_operators.inc"
};

/* Of an operator's time, what is left where all that it reads is in L2, at its sizes from the least to the largest. */
static const double warm_left[SIZES] = {
#include "cost/cost_warm.inc"
};
#define WARM_BYTES ((double)(3 << 26)) /* moved at the last of them */

/* Products and convolutions: a well-made launch is the measure, since their work is no matter of bytes. */
struct product_time {
	const char *name;
	const char *form;
	double start_us[COST_DOT_COUNT]; /* where there is hardly anything to do */
	double slow[COST_DOT_COUNT];     /* of what a well-made launch takes beyond its own start */
};
static const struct product_time products[] = {
#include "cost/cost_products.inc"
};

struct operator_rows {
	const struct operator_time *first;
	int count;
};

/* The rows of this form, or those of the first form of the name. */
static struct operator_rows operator_find(const char *name, const char *form)
{
	struct operator_rows found = {0};
	for (size_t i = 0; i < ARRAY_LEN(operators); i++) {
		const struct operator_time *o = &operators[i];
		if (strcmp(o->name, name) != 0) continue;
		bool is_exact = !strcmp(o->form, form);
		if (!found.first || (is_exact && strcmp(found.first->form, form) != 0)) found = (struct operator_rows){o, 0};
		found.count += !strcmp(o->form, found.first->form);
	}
	return found;
}

/* The row of this form, or the first one of the name; a product that was not timed is like the first of all, mm. */
static const struct product_time *product_find(const char *name, const char *form)
{
	const struct product_time *any = NULL;
	for (size_t i = 0; i < ARRAY_LEN(products); i++) {
		const struct product_time *p = &products[i];
		if (strcmp(p->name, name) != 0) continue;
		if (!strcmp(p->form, form)) return p;
		if (!any) any = p;
	}
	return any ? any : &products[0];
}

/* The measured law between two sizes; beyond the last one time goes with the bytes. */
static double row_us(const struct operator_time *o, double bytes)
{
	double at = log(fmax(bytes, 1) * pow(SIZE_STEP, SIZES - 1) / o->bytes) / log(SIZE_STEP);
	int low = (int)fmin(fmax(floor(at), 0), SIZES - 2);
	if (at <= 0) return o->us[0];
	if (at >= SIZES - 1) return o->us[SIZES - 1] * bytes / o->bytes;
	return o->us[low] * pow(o->us[low + 1] / o->us[low], at - low);
}

static double time_us(struct operator_rows rows, const struct cost_launch *l, const struct vm_gpu *gpu)
{
	/* Between the two extents that are next to the launch's. */
	int low = 0;
	while (low + 2 < rows.count && rows.first[low + 1].extent < l->extent) low++;
	const struct operator_time *o = &rows.first[low];
	double us = row_us(o, l->bytes), start = o->us[0];
	if (rows.count > 1 && l->extent > o->extent) {
		double share = fmin(log(l->extent / o->extent) / log(o[1].extent / o->extent), 1);
		us *= pow(row_us(o + 1, l->bytes) / us, share);
		start *= pow(o[1].us[0] / start, share);
	}
	/* What is more than the start takes as much longer as the card's memory is slower. */
	start = fmin(us, start);
	return start + (us - start) * H200->dram_bytes_s / gpu->dram_bytes_s;
}

/* 1: an operator that reads what an earlier one touched takes no less; smaller as L2 still holds it: all of it as long
 * as half of L2 has passed since, nothing any more where all has. */
static double warm_share(const struct cost_launch *l, const struct vm_gpu *gpu)
{
	double passed = (l->since + l->bytes) / (double)gpu->l2_bytes, held = fmin(fmax(2 - 2 * passed, 0), 1);
	double at = log(fmax(l->bytes, 1) * pow(SIZE_STEP, SIZES - 1) / WARM_BYTES) / log(SIZE_STEP);
	int low = (int)fmin(fmax(floor(at), 0), SIZES - 2);
	double beyond = fmin(fmax(at - low, 0), 1), left = warm_left[low] * (1 - beyond) + warm_left[low + 1] * beyond;
	return 1 - l->warm * held * (1 - left);
}

double cost_operator_s(
	const char *name, const char *form, const struct cost_launch *l, enum cost_dot dot, const struct vm_gpu *gpu)
{
	static const struct cost_launch nothing;
	if (l->dot_flops > 0) {
		const struct product_time *p = product_find(name, form);
		double beyond_s = cost_launch_s(l, dot, gpu) - cost_launch_s(&nothing, dot, gpu);
		return (p->start_us[dot] * 1e-6 + p->slow[dot] * beyond_s) * warm_share(l, gpu);
	}
	struct operator_rows rows = operator_find(name, form);
	if (!rows.count) rows = operator_find("add", "");
	return time_us(rows, l, gpu) * 1e-6 * warm_share(l, gpu);
}
