/* optim: AdamW with decoupled weight decay (Loshchilov & Hutter 2019, arXiv 1711.05101), in the
 * order of operations of torch.optim.AdamW, and the sum of squares of a flat array in an order that
 * depends on the length alone: fixed chunks, fp64 partial sums, added from first to last. */
#include "ops_cpu.h"
#include "simd.h"
#include <math.h>

#define SUM_CHUNK 32768

/* What an element's step needs; factors that are the same for all elements are made once. */
struct adamw_args {
	float *p;          /* (n) parameters */
	float *m;          /* (n) mean of gradients */
	float *v;          /* (n) mean of their squares */
	const float *grad; /* (n) */
	float decay;       /* 1 - lr weight_decay: the parameter is multiplied by it */
	float beta2;
	float one_minus_beta1;
	float one_minus_beta2;
	float step_size;      /* lr / (1 - beta1^step) */
	float inv_root_bias2; /* 1 / sqrt(1 - beta2^step) */
	float eps;
};

static void adamw_chunk(void *arg, int64_t begin, int64_t end, int thread)
{
	const struct adamw_args *a = arg;
	vf decay = vf_set1(a->decay), b1 = vf_set1(a->one_minus_beta1), beta2 = vf_set1(a->beta2),
	   b2 = vf_set1(a->one_minus_beta2);
	vf step = vf_set1(a->step_size), inv_root = vf_set1(a->inv_root_bias2), eps = vf_set1(a->eps);
	for (int64_t i = begin; i < end; i += VL) {
		int n = (int)MIN(VL, end - i);
		vf g = vf_load_n(a->grad + i, n), m = vf_load_n(a->m + i, n), v = vf_load_n(a->v + i, n);
		m = vf_fma(b1, vf_sub(g, m), m);
		v = vf_fma(vf_mul(b2, g), g, vf_mul(beta2, v));
		vf denominator = vf_add(vf_mul(vf_sqrt(v), inv_root), eps);
		vf p = vf_mul(vf_load_n(a->p + i, n), decay);
		vf_store_n(a->p + i, vf_sub(p, vf_div(vf_mul(step, m), denominator)), n);
		vf_store_n(a->m + i, m, n);
		vf_store_n(a->v + i, v, n);
	}
}

static void adamw(
	struct ops_context *c, float *p, const float *grad, float *m, float *v, int64_t n, const struct ops_adamw *o)
{
	CHECK(o->step >= 1);
	double bias1 = 1 - pow(o->beta1, (double)o->step), bias2 = 1 - pow(o->beta2, (double)o->step);
	struct adamw_args a = {
		.p = p,
		.m = m,
		.v = v,
		.grad = grad,
		.decay = (float)(1 - (double)o->lr * o->weight_decay),
		.beta2 = o->beta2,
		.one_minus_beta1 = (float)(1 - (double)o->beta1),
		.one_minus_beta2 = (float)(1 - (double)o->beta2),
		.step_size = (float)(o->lr / bias1),
		.inv_root_bias2 = (float)(1 / sqrt(bias2)),
		.eps = o->eps,
	};
	pool_run(c->pool, n, 8192, adamw_chunk, &a);
}

struct sum_args {
	const float *x;
	double *partials;
	int64_t grain;
};

static void sum_chunk(void *arg, int64_t begin, int64_t end, int thread)
{
	const struct sum_args *a = arg;
	double total[4] = {0};
	int64_t i = begin;
	for (; i + 4 <= end; i += 4)
		for (int k = 0; k < 4; k++) total[k] += (double)a->x[i + k] * a->x[i + k];
	for (; i < end; i++) total[0] += (double)a->x[i] * a->x[i];
	a->partials[begin / a->grain] = (total[0] + total[1]) + (total[2] + total[3]);
}

static double sum_squares(struct ops_context *c, const float *x, int64_t n)
{
	struct sum_args a = {x, c->partials, MAX(SUM_CHUNK, (n + PARTIALS_MAX - 1) / PARTIALS_MAX)};
	pool_run(c->pool, n, a.grain, sum_chunk, &a);
	double total = 0;
	for (int64_t i = 0; i * a.grain < n; i++) total += c->partials[i];
	return total;
}

void ISA(optim_entries)(struct cpu_ops *t)
{
	t->adamw = adamw;
	t->sum_squares = sum_squares;
}
