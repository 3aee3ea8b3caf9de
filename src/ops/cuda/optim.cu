/* optim: the sum of squares of all gradients, and AdamW over a list of weights in one launch each.
 * The list goes to the device with the number of chunks before each entry; a block finds its
 * weight by bisection. Chunks have one size, so every sum has one order whatever the number of
 * blocks that run at a time. */
#include "cuda_device.cuh"

#define CHUNK_ELEMENTS CUDA_SQUARES_ELEMENTS
#define THREADS 256
#define FINAL_THREADS 1024

struct entry {      /* a weight as the kernels see it */
	float *master;  /* (n) the weight in fp32 */
	float *grad;    /* (n) */
	float *m;       /* (n) AdamW's first moment */
	float *v;       /* (n) its second */
	bf16 *w;        /* (n / cols, cols; row stride ld) the working copy; NULL: there is none */
	int64_t n;      /* values */
	int64_t ld;     /* elements from a row of w to the next */
	int64_t chunks; /* of the entries before this one */
	int cols;       /* values of a row */
	bool decays;    /* whether weight decay applies: not to vectors */
};

/* The weights on the device; *chunks: of all. The staging buffer is to be given
 * back after the launch. */
static struct staging *entries_send(
	struct ops_context *c, struct ops_weight *const *weights, int count, int *entries, int64_t *chunks)
{
	CHECKF((size_t)count * sizeof(struct entry) <= STAGING_BYTES, "%d weights in one call", count);
	struct staging *s = staging_take(c);
	struct entry *e = (struct entry *)s->host;
	int n = 0;
	*chunks = 0;
	for (int i = 0; i < count; i++) {
		const struct ops_weight *w = weights[i];
		CHECKF(w->grad && w->master, "weight %d of %d has no gradient or no master", i, count);
		struct entry *mine = &e[n++];
		mine->master = (float *)w->master, mine->grad = (float *)w->grad, mine->m = (float *)w->m,
		mine->v = (float *)w->v;
		mine->w = (bf16 *)w->w, mine->n = (int64_t)w->rows * w->cols, mine->ld = w->ld, mine->cols = w->cols;
		mine->decays = w->rows != 1, mine->chunks = *chunks;
		*chunks += (mine->n + CHUNK_ELEMENTS - 1) / CHUNK_ELEMENTS;
	}
	*entries = n;
	if (n) CUDA_CHECK(cudaMemcpyAsync(s->device, s->host, (size_t)n * sizeof *e, cudaMemcpyHostToDevice, c->stream));
	return s;
}

/* The entry that holds a chunk: the last one that begins at or before it. */
static __device__ const struct entry *entry_of(const struct entry *e, int entries, int64_t chunk)
{
	int low = 0, high = entries - 1;
	while (low < high) {
		int middle = (low + high + 1) / 2;
		if (e[middle].chunks <= chunk) low = middle;
		else high = middle - 1;
	}
	return &e[low];
}

/* ---- sum of squares ---- */

/* Threads' sums added by halves: one order. */
template <int N> static __device__ __forceinline__ double block_sum(double x)
{
	__shared__ double sums[N];
	sums[threadIdx.x] = x;
	for (int half = N / 2; half; half /= 2) {
		__syncthreads();
		if ((int)threadIdx.x < half) sums[threadIdx.x] += sums[threadIdx.x + half];
	}
	__syncthreads();
	return sums[0];
}

static __global__ void __launch_bounds__(THREADS)
	squares_kernel(double *partial, const struct entry *entries, int count)
{
	grid_begin();
	const struct entry *e = entry_of(entries, count, blockIdx.x);
	int64_t first = ((int64_t)blockIdx.x - e->chunks) * CHUNK_ELEMENTS, end = min(first + CHUNK_ELEMENTS, e->n);
	double sum = 0;
#pragma unroll 8
	for (int64_t i = first + threadIdx.x; i < end; i += THREADS) sum += (double)e->grad[i] * e->grad[i];
	sum = block_sum<THREADS>(sum);
	if (threadIdx.x == 0) partial[blockIdx.x] = sum;
}

static __global__ void __launch_bounds__(FINAL_THREADS)
	squares_total_kernel(double *total, const double *partial, int64_t n)
{
	grid_begin();
	double sum = 0;
	for (int64_t i = threadIdx.x; i < n; i += FINAL_THREADS) sum += partial[i];
	sum = block_sum<FINAL_THREADS>(sum);
	if (threadIdx.x == 0) *total = sum;
}

static double sum_squares(struct ops_context *c, struct ops_weight *const *weights, int count)
{
	int entries;
	int64_t chunks;
	struct staging *s = entries_send(c, weights, count, &entries, &chunks);
	double total = 0;
	if (chunks) {
		double *partial = (double *)scratch_of(c, cuda_squares_scratch(chunks));
		cuda_launch(c, {dim3((unsigned)chunks), dim3(THREADS), 0, 0}, squares_kernel, partial,
			(const struct entry *)s->device, entries);
		cuda_launch(c, {dim3(1), dim3(FINAL_THREADS), 0, 0}, squares_total_kernel, partial + chunks,
			(const double *)partial, chunks);
		CUDA_CHECK(cudaMemcpyAsync(c->pinned, partial + chunks, sizeof total, cudaMemcpyDeviceToHost, c->stream));
		CUDA_CHECK(cudaStreamSynchronize(c->stream));
		total = *(const double *)c->pinned;
	}
	staging_sent(c, s);
	return total;
}

/* ---- AdamW ---- */

struct adamw_factors {
	float decay;           /* what a decaying weight is multiplied with: 1 - lr * weight_decay */
	float beta2;           /* of the second moment */
	float one_minus_beta1; /* the gradient's share of the first moment */
	float one_minus_beta2; /* its square's share of the second */
	float step_size;       /* lr / (1 - beta1^step) */
	float inv_root_bias2;  /* 1 / sqrt(1 - beta2^step) */
	float eps;             /* added to the denominator */
	float grad_scale;      /* what gradients are multiplied with before all else: clipping */
};

/* torch.optim.AdamW's order: decay, moments, denominator, step. */
static __device__ __forceinline__ void adamw_element(const struct entry *e, int64_t i, const struct adamw_factors &f)
{
	float g = e->grad[i] * f.grad_scale, m = e->m[i], v = e->v[i];
	m = fmaf(f.one_minus_beta1, g - m, m);
	v = fmaf(f.one_minus_beta2 * g, g, f.beta2 * v);
	float denominator = sqrtf(v) * f.inv_root_bias2 + f.eps, p = e->master[i];
	if (e->decays) p *= f.decay;
	p -= f.step_size * m / denominator;
	e->master[i] = p;
	e->m[i] = m;
	e->v[i] = v;
	e->grad[i] = 0;
	if (e->w) e->w[e->ld == e->cols ? i : i / e->cols * e->ld + i % e->cols] = __float2bfloat16_rn(p);
}

static __global__ void __launch_bounds__(THREADS, 6)
	adamw_kernel(const struct entry *entries, int count, const struct adamw_factors f)
{
	grid_begin();
	const struct entry e = *entry_of(entries, count, blockIdx.x);
	int64_t first = ((int64_t)blockIdx.x - e.chunks) * CHUNK_ELEMENTS, end = min(first + CHUNK_ELEMENTS, e.n);
#pragma unroll 4
	for (int64_t i = first + threadIdx.x; i < end; i += THREADS) adamw_element(&e, i, f);
}

static void adamw(struct ops_context *c, struct ops_weight *const *weights, int count, const struct ops_adamw *o)
{
	CHECK(o->step >= 1);
	double bias1 = 1 - pow(o->beta1, (double)o->step), bias2 = 1 - pow(o->beta2, (double)o->step);
	struct adamw_factors f = {};
	f.decay = (float)(1 - (double)o->lr * o->weight_decay), f.beta2 = o->beta2;
	f.one_minus_beta1 = (float)(1 - (double)o->beta1), f.one_minus_beta2 = (float)(1 - (double)o->beta2);
	f.step_size = (float)(o->lr / bias1), f.inv_root_bias2 = (float)(1 / sqrt(bias2));
	f.eps = o->eps, f.grad_scale = o->grad_scale;
	for (int i = 0; i < count; i++) CHECKF(weights[i]->m && weights[i]->v, "weight %d of %d has no moments", i, count);
	int entries;
	int64_t chunks;
	struct staging *s = entries_send(c, weights, count, &entries, &chunks);
	if (chunks)
		cuda_launch(c, {dim3((unsigned)chunks), dim3(THREADS), 0, 0}, adamw_kernel, (const struct entry *)s->device,
			entries, f);
	c->weights_written = true;
	staging_sent(c, s);
}

void cuda_optim_entries(struct ops *t)
{
	t->sum_squares = sum_squares;
	t->adamw = adamw;
}
