/* PyTorch's operators as they are: many take several kernels, or one that leaves most of the GPU idle. The tables are
 * measurements on an H200 (torch 2.11, CUDA graphs, cold L2), made by bench/cost/cost_operators.py --fit. */
#include "cost/cost.h"
#include "base/base.h"
#include <math.h>
#include <string.h>

#define SIZES 5          /* an operator was timed at */
#define SIZE_STEP 16.0   /* from one of them to the next */
#define H200 (&vm_gpus[0])
#define DRAM_REACHED 0.85 /* of the data sheet's bandwidth, read and written */
#define START_S 2e-6      /* of an operator that has hardly anything to do */

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

/* Products and convolutions, whose work is no matter of bytes alone: how much longer than a well-made launch they took,
 * at many shapes. */
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

/* The form whose rows stand for this product: its own, the first one of its name, or the first of all, mm. */
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

/* Seconds that an operator saves whose operands an earlier one touched: they are in L2, all of them as long as half of
 * it has passed since, none where twice of it has (it does not keep the latest alone); so is the memory of its results,
 * which PyTorch hands out again. What DRAM would have taken is then L2's. */
static double saved_s(const struct cost_launch *l, double time_s, const struct vm_gpu *gpu)
{
	double passed = (l->since + l->bytes) / (double)gpu->l2_bytes, held = fmin(fmax((2 - passed) / 1.5, 0), 1);
	double moving_s = fmin(l->bytes / (DRAM_REACHED * gpu->dram_bytes_s), fmax(time_s - START_S, 0));
	return l->warm * held * moving_s * fmax(1 - DRAM_REACHED * gpu->dram_bytes_s / gpu->l2_bytes_s, 0);
}

double cost_operator_s(
	const char *name, const char *form, const struct cost_launch *l, enum cost_dot dot, const struct vm_gpu *gpu)
{
	struct operator_rows rows = operator_find(name, form);
	if (!rows.count) rows = operator_find("add", "");
	double time_s = l->dot_flops > 0 ? cost_launch_s(l, dot, gpu) * product_slower(name, form, l, dot == COST_DOT_HALF)
									 : time_us(rows, l, gpu) * 1e-6;
	return time_s - saved_s(l, time_s, gpu);
}
