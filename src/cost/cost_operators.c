/* PyTorch's operators as they are: many take several kernels, or one that leaves most of the GPU
 * idle. The tables are measurements on an H200 (torch 2.11, CUDA graphs, cold L2), made by
 * bench/cost/cost_operators.py --fit. */
#include "cost/cost.h"
#include "base/base.h"
#include <math.h>
#include <string.h>

#define SIZES 5          /* an operator was timed at */
#define SIZE_STEP 16.0   /* from one of them to the next */
#define MEASURED_ON vm_gpu_find("H200")   /* whose times the table has */
#define DRAM_REACHED 0.85 /* of the data sheet's bandwidth, by a product's operands */
#define START_S 2e-6      /* of a product that has hardly anything to do */

/* Time grows with size, but not by one law: a reduction does side by side as much as it keeps,
 * and adds the rest one after another. So the table has times at sizes and extents, and what
 * lies between them is between them. Rows of a name stand together, those of a form too, in the
 * order of their extents. */
struct operator_time {
	const char *name;
	const char *form;
	double extent;      /* elements that go into one result */
	double bytes;       /* moved at the largest size */
	double us[SIZES];   /* microseconds at bytes / SIZE_STEP^4, ..., bytes, with a cold L2 */
	double warm[SIZES]; /* of those, the share that it takes when L2 holds its operands */
};
static const struct operator_time operators[] = {
#include "cost/cost_operators.inc"
};

/* Products and convolutions, whose work is no matter of bytes alone: how much longer than a
 * well-made launch they took, at many shapes. */
struct product_time {
	const char *name;
	const char *form;
	bool is_half; /* operands of 16 bits, else fp32 */
	float flops;  /* logarithms to base 2 of this, ... */
	float bytes;
	float extent; /* ... and K */
	float slower; /* time over a well-made launch's */
};
static const struct product_time products[] = {
#include "cost/cost_products.inc"
};
#define NEAR 0.05 /* square of a distance, in doublings, within which measured shapes are the shape itself */

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

/* The form whose rows stand for this product: its own, the first one of its name, or
 * the first of all, mm. */
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

/* Over a well-made launch: the mean of the measured shapes, each by how near it is. */
static double product_slower(const char *name, const char *form, const struct cost_launch *l, bool is_half)
{
	const struct product_time *kind = product_find(name, form);
	double flops = log2(l->dot_flops), bytes = log2(fmax(l->bytes, 1)), extent = log2(fmax(l->extent, 1));
	double sum = 0, weights = 0;
	for (int units = 0; units < 2 && weights == 0; units++) /* not timed with these operands: with the others */
		for (size_t i = 0; i < ARRAY_LEN(products); i++) {
			const struct product_time *p = &products[i];
			if (strcmp(p->name, kind->name) != 0 || strcmp(p->form, kind->form) != 0 ||
				p->is_half != (is_half != (units == 1)))
				continue;
			double f = p->flops - flops, b = p->bytes - bytes, k = l->extent > 0 ? p->extent - extent : 0;
			double away = f * f + b * b + k * k + NEAR, weight = 1 / (away * away);
			sum += weight * log(p->slower);
			weights += weight;
		}
	return weights > 0 ? exp(sum / weights) : 1;
}

/* Microseconds. The measured law between two sizes; beyond the last one
 * time goes with the bytes. */
struct row_time {
	double cold;
	double warm; /* with its operands in L2 */
};

static struct row_time row_us(const struct operator_time *o, double bytes)
{
	double at = fmax(log(fmax(bytes, 1) * pow(SIZE_STEP, SIZES - 1) / o->bytes) / log(SIZE_STEP), 0);
	int low = (int)fmin(floor(at), SIZES - 2);
	double cold = at >= SIZES - 1 ? o->us[SIZES - 1] * bytes / o->bytes
								  : o->us[low] * pow(o->us[low + 1] / o->us[low], at - low);
	double share = o->warm[low] * pow(o->warm[low + 1] / o->warm[low], fmin(at - low, 1));
	return (struct row_time){cold, cold * share};
}

static double between(double a, double b, double share) { return a * pow(b / a, share); }

/* What is more than the start takes as much longer as the other card's memory is slower. */
static double on_gpu(double us, double start, double h200_bytes_s, double gpu_bytes_s)
{
	start = fmin(us, start);
	return start + (us - start) * h200_bytes_s / gpu_bytes_s;
}

static struct row_time time_us(struct operator_rows rows, const struct cost_launch *l, const struct vm_gpu *gpu)
{
	/* Between the two extents that are next to the launch's. */
	int low = 0;
	while (low + 2 < rows.count && rows.first[low + 1].extent < l->extent) low++;
	const struct operator_time *o = &rows.first[low];
	struct row_time us = row_us(o, l->bytes), start = row_us(o, 0);
	if (rows.count > 1 && l->extent > o->extent) {
		double share = fmin(log(l->extent / o->extent) / log(o[1].extent / o->extent), 1);
		struct row_time next = row_us(o + 1, l->bytes), next_start = row_us(o + 1, 0);
		us = (struct row_time){between(us.cold, next.cold, share), between(us.warm, next.warm, share)};
		start = (struct row_time){
			between(start.cold, next_start.cold, share), between(start.warm, next_start.warm, share)};
	}
	const struct vm_gpu *measured = MEASURED_ON;
	return (struct row_time){on_gpu(us.cold, start.cold, measured->dram_bytes_s, gpu->dram_bytes_s),
		on_gpu(us.warm, start.warm, measured->l2_bytes_s, gpu->l2_bytes_s)};
}

/* The share of what an earlier operator touched that L2 still holds when this one wants it.
 * Measured on an H200: of a chain of operators in which each reads what the one before it made, and
 * of one that reads 8 MiB again after others have moved 8 to 192 MiB (l2_calls of
 * bench/cost/cost_operators.py). */
#define OWN_KEPT 0.56     /* of L2's size: what an operator still finds of its operands, moving its own bytes */
#define OTHERS_ALL 0.25   /* of L2's size: moved by others since, everything is still there ... */
#define OTHERS_NOTHING 0.95 /* ... or nothing any more */
static double held(const struct cost_launch *l, const struct vm_gpu *gpu)
{
	double l2 = (double)gpu->l2_bytes, since = (OTHERS_NOTHING - l->since / l2) / (OTHERS_NOTHING - OTHERS_ALL);
	return l->warm * fmin(OWN_KEPT * l2 / fmax(l->bytes, 1), 1) * fmin(fmax(since, 0), 1);
}

/* Seconds that a product saves whose operands L2 holds: what DRAM would have taken is then L2's. */
static double product_saved_s(const struct cost_launch *l, double time_s, const struct vm_gpu *gpu)
{
	double moving_s = fmin(l->bytes / (DRAM_REACHED * gpu->dram_bytes_s), fmax(time_s - START_S, 0));
	return moving_s * fmax(1 - DRAM_REACHED * gpu->dram_bytes_s / gpu->l2_bytes_s, 0);
}

double cost_operator_s(
	const char *name, const char *form, const struct cost_launch *l, enum cost_dot dot, const struct vm_gpu *gpu)
{
	if (l->dot_flops > 0) {
		double time_s = cost_launch_s(l, dot, gpu) * product_slower(name, form, l, dot == COST_DOT_HALF);
		return time_s - held(l, gpu) * product_saved_s(l, time_s, gpu);
	}
	struct operator_rows rows = operator_find(name, form);
	if (!rows.count) rows = operator_find("add", "");
	struct row_time us = time_us(rows, l, gpu);
	return (us.cold - held(l, gpu) * (us.cold - us.warm)) * 1e-6;
}
