/* mlp: the elementwise operations: SwiGLU's silu(gate) * up and its gradient, scalings, dropout.
 * Chunks are fixed; every element stands alone. */
#include "ops_cpu.h"
#include "simd.h"

#define FLAT_GRAIN 16384

/* Arguments of a function of n elements; each uses those it needs. Arrays are (n). */
struct flat_args {
	float *out;
	float *out2;
	const float *a;
	const float *b;
	const float *d; /* gradient of the function's result */
	float alpha;    /* a factor */
	float p;        /* chance that an element is dropped */
	uint64_t seed;
	uint64_t stream;
};

/* sigmoid(x) = 1 / (1 + exp(-x)); exp overflows to infinity for x below -89 and the quotient is
 * then 0, as it should be. */
static inline vf vf_sigmoid(vf x) { return vf_div(vf_set1(1.0f), vf_add(vf_set1(1.0f), vf_exp(vf_sub(vf_zero(), x)))); }

static void silu_mul_chunk(void *arg, int64_t begin, int64_t end, int thread)
{
	const struct flat_args *f = arg;
	for (int64_t i = begin; i < end; i += VL) {
		int n = (int)MIN(VL, end - i);
		vf g = vf_load_n(f->a + i, n);
		vf_store_n(f->out + i, vf_mul(vf_mul(g, vf_sigmoid(g)), vf_load_n(f->b + i, n)), n);
	}
}

static void silu_mul(struct ops_context *c, float *out, const float *gate, const float *up, int64_t n)
{
	struct flat_args f = {.out = out, .a = gate, .b = up};
	pool_run(c->pool, n, FLAT_GRAIN / 4, silu_mul_chunk, &f);
}

/* silu'(g) = s (1 + g (1 - s)), s = sigmoid(g). */
static void silu_mul_backward_chunk(void *arg, int64_t begin, int64_t end, int thread)
{
	const struct flat_args *f = arg;
	for (int64_t i = begin; i < end; i += VL) {
		int n = (int)MIN(VL, end - i);
		vf g = vf_load_n(f->a + i, n), up = vf_load_n(f->b + i, n), d = vf_load_n(f->d + i, n), s = vf_sigmoid(g),
		   one = vf_set1(1.0f);
		vf slope = vf_mul(s, vf_fma(g, vf_sub(one, s), one));
		vf_store_n(f->out + i, vf_mul(vf_mul(d, up), slope), n);
		vf_store_n(f->out2 + i, vf_mul(d, vf_mul(g, s)), n);
	}
}

static void silu_mul_backward(
	struct ops_context *c, float *dgate, float *dup, const float *dout, const float *gate, const float *up, int64_t n)
{
	struct flat_args f = {.out = dgate, .out2 = dup, .a = gate, .b = up, .d = dout};
	pool_run(c->pool, n, FLAT_GRAIN / 4, silu_mul_backward_chunk, &f);
}

static void axpy_chunk(void *arg, int64_t begin, int64_t end, int thread)
{
	const struct flat_args *f = arg;
	for (int64_t i = begin; i < end; i++) f->out[i] += f->alpha * f->a[i];
}
static void scale_chunk(void *arg, int64_t begin, int64_t end, int thread)
{
	const struct flat_args *f = arg;
	for (int64_t i = begin; i < end; i++) f->out[i] *= f->alpha;
}

static void axpy(struct ops_context *c, float *y, const float *x, float alpha, int64_t n)
{
	struct flat_args f = {.out = y, .a = x, .alpha = alpha};
	pool_run(c->pool, n, FLAT_GRAIN, axpy_chunk, &f);
}
static void scale(struct ops_context *c, float *x, float alpha, int64_t n)
{
	struct flat_args f = {.out = x, .alpha = alpha};
	pool_run(c->pool, n, FLAT_GRAIN, scale_chunk, &f);
}

/* Element i is kept when word i % 4 of Philox block i / 4 is at least p 2^32. Chunks begin at
 * multiples of 4. */
static void dropout_chunk(void *arg, int64_t begin, int64_t end, int thread)
{
	const struct flat_args *f = arg;
	double bound = (double)f->p * 4294967296.0;
	for (int64_t i = begin; i < end; i += 4) {
		struct rng_block r = rng_philox(f->seed, f->stream, (uint64_t)i / 4);
		for (int64_t j = i; j < MIN(i + 4, end); j++)
			f->out[j] = (double)r.v[j - i] >= bound ? f->a[j] * f->alpha : 0.0f;
	}
}

static void dropout(
	struct ops_context *c, float *out, const float *x, float p, uint64_t seed, uint64_t stream, int64_t n)
{
	CHECK(p >= 0 && p < 1);
	struct flat_args f = {.out = out, .a = x, .alpha = 1.0f / (1.0f - p), .p = p, .seed = seed, .stream = stream};
	pool_run(c->pool, n, FLAT_GRAIN / 8, dropout_chunk, &f);
}

void ISA(mlp_entries)(struct cpu_ops *t)
{
	t->silu_mul = silu_mul;
	t->silu_mul_backward = silu_mul_backward;
	t->axpy = axpy;
	t->scale = scale;
	t->dropout = dropout;
}
