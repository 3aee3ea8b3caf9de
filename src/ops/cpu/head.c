/* head: log-probability of targets under softmax(logits / temperature), entropy, and the gradient,
 * in place in the logits. One row, one task. */
#include "ops_cpu.h"
#include "simd.h"
#include <math.h>

/* Elements summed in fp32 lanes before the partial sum goes to fp64: the error does not grow with
 * the vocabulary. */
#define SUM_SPAN 1024

struct head_args {
	float *logprob;         /* (N) of the targets */
	float *entropy;         /* (N); NULL: not asked for */
	float *lse_out;         /* (N) log-sum-exp of logits / temperature */
	float *logits_out;      /* (N, V) their gradient; in place of logits */
	const float *logits;    /* (N, V), or the rows of from */
	const int32_t *from;    /* (N) row of logits of each target; NULL: its own */
	const float *lse;       /* (N) as forward left it */
	const float *g;         /* (N) gradient of each row's logprob */
	const int32_t *targets; /* (N) */
	float inv_temperature;
	int V;
};

static float row_max(const float *x, int V)
{
	vf m = vf_set1(-INFINITY);
	int i = 0;
	for (; i + VL <= V; i += VL) m = vf_max(m, vf_load(x + i));
	if (i < V) m = vf_max(m, vf_keep(vf_load_n(x + i, V - i), V - i, -INFINITY));
	return vf_hmax(m);
}

static void logprob_rows(void *arg, int64_t begin, int64_t end, int thread)
{
	const struct head_args *a = arg;
	vf inv = vf_set1(a->inv_temperature);
	float top = 0;
	double sum = 0, weighted = 0, log_sum = 0; /* of e = exp((x - top) / T), and of e (x - top) / T */
	for (int64_t row = begin; row < end; row++) {
		const float *x = a->logits + (a->from ? a->from[row] : row) * a->V;
		/* Targets of one row share its sums. */
		bool is_again = a->from && row > begin && a->from[row] == a->from[row - 1];
		/* Subtracting the maximum keeps every exponential at 1 or less, so none overflows. */
		if (!is_again) top = row_max(x, a->V);
		if (!is_again) sum = weighted = 0;
		vf shift = vf_set1(top);
		for (int base = 0; !is_again && base < a->V; base += SUM_SPAN) {
			vf s = vf_zero(), w = vf_zero();
			int stop = MIN(a->V, base + SUM_SPAN);
			/* Lanes behind the last logit must add nothing, though exp of what they were filled
			 * with may not be 0. */
			for (int i = base; i < stop; i += VL) {
				int n = MIN(VL, stop - i);
				vf z = vf_mul(vf_sub(vf_load_n(x + i, n), shift), inv);
				vf e = n == VL ? vf_exp(z) : vf_keep(vf_exp(z), n, 0.0f);
				s = vf_add(s, e);
				if (a->entropy) w = vf_fma(e, vf_max(vf_set1(-1e30f), z), w); /* a logit of -inf weighs 0, not NaN */
			}
			sum += vf_sum(s);
			weighted += vf_sum(w);
		}
		/* The row's figures are formed in fp64 and rounded once. */
		if (!is_again) log_sum = log(sum);
		a->lse_out[row] = (float)((double)top * a->inv_temperature + log_sum);
		a->logprob[row] = (float)(((double)x[a->targets[row]] - top) * a->inv_temperature - log_sum);
		if (a->entropy) a->entropy[row] = (float)(log_sum - weighted / sum);
	}
}

static void logprob(struct ops_context *c, float *out, float *entropy, float *lse, const float *logits,
	const int32_t *from, const int32_t *targets, float temperature, int N, int V)
{
	CHECK(temperature > 0 && V > 0);
	struct head_args a = {.logprob = out,
		.entropy = entropy,
		.lse_out = lse,
		.logits = logits,
		.from = from,
		.targets = targets,
		.inv_temperature = 1.0f / temperature,
		.V = V};
	for (int i = 0; i < N; i++)
		CHECKF(targets[i] >= 0 && targets[i] < V, "target %d of a vocabulary of %d", targets[i], V);
	pool_run(c->pool, N, rows_grain((int64_t)V * 4), logprob_rows, &a);
}

static void logprob_backward_rows(void *arg, int64_t begin, int64_t end, int thread)
{
	const struct head_args *a = arg;
	vf inv = vf_set1(a->inv_temperature);
	for (int64_t row = begin; row < end; row++) {
		float *x = a->logits_out + row * a->V;
		float g = a->g[row] * a->inv_temperature;
		if (g == 0.0f) {
			memset(x, 0, (size_t)a->V * sizeof *x);
			continue;
		}
		vf lse = vf_set1(a->lse[row]), minus_g = vf_set1(-g);
		for (int i = 0; i < a->V; i += VL) {
			int n = MIN(VL, a->V - i);
			vf p = vf_exp(vf_sub(vf_mul(vf_load_n(x + i, n), inv), lse));
			vf_store_n(x + i, vf_mul(minus_g, p), n);
		}
		x[a->targets[row]] += g;
	}
}

static void logprob_backward(struct ops_context *c, float *logits, const float *lse, const int32_t *targets,
	const float *g, float temperature, int N, int V)
{
	CHECK(temperature > 0 && V > 0);
	struct head_args a = {
		.logits_out = logits, .lse = lse, .targets = targets, .g = g, .inv_temperature = 1.0f / temperature, .V = V};
	pool_run(c->pool, N, rows_grain((int64_t)V * 4), logprob_backward_rows, &a);
}

void ISA(head_entries)(struct cpu_ops *t)
{
	t->logprob = logprob;
	t->logprob_backward = logprob_backward;
}
