/* PyTorch's operators as they are: many take several kernels, or one that leaves most of the GPU idle. The tables are
 * measurements on an H200 (torch 2.11, CUDA graphs, cold L2), made by bench/cost/cost_operators.py --fit. */
#include "cost/cost.h"
#include "base/base.h"
#include <math.h>
#include <string.h>

#define SIZES 4          /* an operator was timed at */
#define SIZE_STEP 16.0   /* from one of them to the next */
#define H200 (&vm_gpus[0])

/* Time grows with size, but not by one law: where a reduction's rows are long and few, each of its threads adds alone.
 * So the table has times, and what lies between them is between them. */
struct operator_time {
	const char *name;
	const char *form;
	double bytes;     /* moved at the largest size */
	double us[SIZES]; /* microseconds at bytes / SIZE_STEP^3, ..., bytes */
};
static const struct operator_time operators[] = {
#include "cost/cost_operators.inc"
};

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

/* The row of this form, or the first one of the name. */
static const struct operator_time *operator_find(const char *name, const char *form)
{
	const struct operator_time *any = NULL;
	for (size_t i = 0; i < ARRAY_LEN(operators); i++) {
		const struct operator_time *o = &operators[i];
		if (strcmp(o->name, name) != 0) continue;
		if (!strcmp(o->form, form)) return o;
		if (!any) any = o;
	}
	return any;
}

/* As above; a product that was not timed is like the first one, mm. */
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

static double time_us(const struct operator_time *o, double bytes, const struct vm_gpu *gpu)
{
	double at = log(fmax(bytes, 1) * pow(SIZE_STEP, SIZES - 1) / o->bytes) / log(SIZE_STEP), us;
	int low = (int)fmin(fmax(floor(at), 0), SIZES - 2);
	if (at <= 0) us = o->us[0];
	else if (at >= SIZES - 1) us = o->us[SIZES - 1] * bytes / o->bytes;
	else us = o->us[low] * pow(o->us[low + 1] / o->us[low], at - low);
	/* What is more than the start takes as much longer as the card's memory is slower. */
	double start = fmin(us, o->us[0]);
	return start + (us - start) * H200->dram_bytes_s / gpu->dram_bytes_s;
}

double cost_operator_s(
	const char *name, const char *form, const struct cost_launch *l, enum cost_dot dot, const struct vm_gpu *gpu)
{
	static const struct cost_launch nothing;
	if (l->dot_flops > 0) {
		const struct product_time *p = product_find(name, form);
		double beyond_s = cost_launch_s(l, dot, gpu) - cost_launch_s(&nothing, dot, gpu);
		return p->start_us[dot] * 1e-6 + p->slow[dot] * beyond_s;
	}
	const struct operator_time *o = operator_find(name, form);
	if (!o) o = operator_find("add", "");
	return time_us(o, l->bytes, gpu) * 1e-6;
}
