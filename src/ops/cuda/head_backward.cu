/* head_backward: logits become their gradient in place, as bf16 in the first half of each row; then
 * dx = d W, and the head's own gradient where it learns. */
#include "cuda_device.cuh"

#define THREADS 512
#define STEP (THREADS * 8) /* elements of a row that a block holds in registers */

struct logits_gradient {
	float *logits;            /* (n, V), which become the gradient */
	const float *out;         /* (n, OPS_FIGURES): logprob's */
	const float *g;           /* (wanted rows of this chunk) */
	const int32_t *target;    /* (rows) each row's token */
	const float *temperature; /* (rows) by which its logits are divided */
	int64_t V;                /* tokens */
	int wanted;               /* rows that count; the others become zeros */
};

/* A row's element j of two bytes lies where the float j / 2 was. Elements are read a step
 * ahead of the barrier and written behind it, so nothing is overwritten that was not read.
 * VECTOR: V is a multiple of 8. */
template <bool VECTOR>
static __global__ void __launch_bounds__(THREADS) logits_gradient_kernel(const struct logits_gradient a)
{
	grid_begin();
	int row = (int)blockIdx.x, target = a.target[row];
	const float *in = a.logits + row * a.V;
	bf16 *to = (bf16 *)in;
	/* The log-probability's gradient is ((j is the target) - p_j) / T. The forward pass left the
	 * log of the sum, so p needs no second pass over the row. */
	float inverse = 1.0f / a.temperature[row], g = row < a.wanted ? a.g[row] * inverse : 0.0f;
	float scale = inverse * LOG2E, shift = a.out[(int64_t)row * OPS_FIGURES + FIGURE_LOG_SUM] * LOG2E;
	bool is_zero = g == 0; /* also rows nobody wants: what they hold is not looked at */
	for (int64_t base = 0; base < a.V; base += STEP) {
		int64_t first = base + (VECTOR ? threadIdx.x * 8 : threadIdx.x);
		/* Rows with a zero gradient are not read: what they hold may not even be finite. */
		float x[8] = {};
		if (!is_zero) {
			if (VECTOR && first < a.V) {
				*(float4 *)x = *(const float4 *)(in + first);
				*(float4 *)(x + 4) = *(const float4 *)(in + first + 4);
			}
#pragma unroll
			for (int i = 0; !VECTOR && i < 8; i++)
				if (first + i * THREADS < a.V) x[i] = in[first + i * THREADS];
#pragma unroll
			for (int i = 0; i < 8; i++) {
				int64_t j = first + (VECTOR ? i : i * THREADS);
				x[i] = (j == target ? g : 0.0f) - g * ex2(fmaf(x[i], scale, -shift));
			}
		}
		/* The two-byte results lie over floats that other threads read in this step, so all have to
		 * have read them. */
		__syncthreads();
		if (VECTOR && first < a.V) store8(to + first, pack8(x));
#pragma unroll
		for (int i = 0; !VECTOR && i < 8; i++)
			if (first + i * THREADS < a.V) to[first + i * THREADS] = __float2bfloat16_rn(x[i]);
	}
}

static void head_backward(struct ops_context *c, struct elem *dx, struct f32 *logits, const struct f32 *out,
	const float *g, const struct elem *x, struct ops_linear *head, const struct ops_batch *b, int first, int n, int V)
{
	struct ops_weight *w = &head->w[0];
	int wanted = MAX(0, MIN(n, b->wanted - first)), C = w->cols;
	CHECK(w->rows == V && first >= 0);
	if (!n) return;

	/* g travels through a pinned buffer: the host may change its own at once */
	struct staging *s = staging_take(c);
	CHECK((size_t)wanted * sizeof *g <= STAGING_BYTES);
	memcpy(s->host, g, (size_t)wanted * sizeof *g);
	if (wanted)
		CUDA_CHECK(cudaMemcpyAsync(s->device, s->host, (size_t)wanted * sizeof *g, cudaMemcpyHostToDevice, c->stream));
	struct logits_gradient a = {};
	a.logits = floats(logits), a.out = floats(out), a.g = (const float *)s->device, a.target = b->view.target + first;
	a.temperature = b->view.temperature + first, a.V = V, a.wanted = wanted;
	cuda_launch(c, {dim3((unsigned)n), dim3(THREADS), 0, 0},
		V % 8 ? logits_gradient_kernel<false> : logits_gradient_kernel<true>, a);
	staging_sent(c, s);

	struct product p = {};
	p.M = n, p.N = C, p.K = V, p.a = logits, p.lda = 2 * (int64_t)V, p.b = w->w, p.ldb = w->ld, p.d = dx, p.ldd = C,
	p.alpha = 1;
	cuda_product(c, &p);
	if (!w->grad) return;
	struct product q = {};
	q.M = V, q.N = C, q.K = n, q.a_transposed = true, q.is_f32 = true;
	q.a = logits, q.lda = 2 * (int64_t)V, q.b = x, q.ldb = C, q.c = q.d = w->grad, q.ldc = q.ldd = C,
	q.alpha = q.beta = 1;
	cuda_product(c, &q);
}

void cuda_head_backward_entries(struct ops *t) { t->head_backward = head_backward; }
