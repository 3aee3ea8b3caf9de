/* product_invariant: the same bits for a row, whatever the number of rows. An
 * algorithm is compared, on noise, with the first one that the library names for
 * BLOCK_ROWS rows of the same matrix. */
#include "product.cuh"

static __global__ void noise_kernel(bf16 *x, int64_t n, uint64_t stream)
{
	grid_begin();
	int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x;
	if (i < n) x[i] = __float2bfloat16_rn((float)(int32_t)philox(1, stream, (uint64_t)i).x * 0x1p-31f);
}

static __global__ void differs_kernel(const uint32_t *a, const uint32_t *b, int64_t n, int32_t *differs)
{
	grid_begin();
	int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x;
	if (i < n && a[i] != b[i]) *differs = 1;
}

struct shape block_shape(const struct shape *s)
{
	struct shape b = *s;
	b.M = BLOCK_ROWS;
	b.lda = cuda_padded((int64_t)s->K * s->batch);
	b.ldc = b.ldd = s->N;
	if (s->batch > 1) b.a_step = s->K, b.d_step = (int64_t)BLOCK_ROWS * s->N;
	b.alignment_a = b.alignment_c = b.alignment_d = 256;
	return b;
}

/* The same product over arrays of our own, and nothing added: a is (M, batch * K), b (N, batch *
 * K), or (K, N) as in the backward pass, where there is no batch. */
static struct shape trial_shape(struct shape s)
{
	s.has_bias = 0, s.has_c = 0;
	s.lda = cuda_padded((int64_t)s.K * s.batch);
	s.ldb = s.b_transposed ? s.lda : cuda_padded(s.N);
	s.ldc = s.ldd = s.N;
	if (s.batch > 1) s.a_step = s.b_step = s.K, s.d_step = (int64_t)s.M * s.N;
	return s;
}

/* A product of noise of this shape, at most CUDA_TRIAL_COLUMNS of it, by an algorithm of the plan's
 * own. false: the library does not take the algorithm for it. */
static bool trial_run(struct ops_context *c, const struct shape *shape, const cublasLtMatmulAlgo_t *algo, const bf16 *x,
	const bf16 *w, void *out)
{
	struct lt *lt = c->lt;
	struct plan p = {};
	p.shape = trial_shape(*shape);
	plan_describe(lt, &p);
	float one = 1, zero = 0;
	cublasStatus_t status = lt->Matmul(lt->handle, p.desc, &one, w, p.a, x, p.b, &zero, out, p.c, out, p.d, algo,
		c->workspace, LT_WORKSPACE_BYTES, c->stream);
	CUDA_CHECK(cudaStreamSynchronize(c->stream));
	plan_release(lt, &p);
	return status == CUBLAS_STATUS_SUCCESS;
}

struct trial {          /* what algorithms of a matrix are compared on */
	struct shape shape; /* of the product in question, cut to CUDA_TRIAL_ROWS and as many columns */
	struct shape base;  /* the same matrix with BLOCK_ROWS rows */
	char *block;        /* what holds the arrays */
	bf16 *x;            /* (rows, batch * K) noise, rows of the larger of the two */
	bf16 *w;            /* (N, batch * K), or (K, N), noise */
	char *want;         /* what the base gives */
	char *got;          /* what the algorithm gives that is tried */
	size_t out_bytes;   /* of want and of got, each */
	int32_t *differs;   /* 1: the two are not equal */
};

static void trial_make(struct ops_context *c, struct trial *t, const struct shape *s)
{
	int64_t K = (int64_t)s->K * s->batch;
	t->shape = *s;
	t->shape.M = MIN(s->M, CUDA_TRIAL_ROWS);
	t->shape.N = (int)cuda_trial_columns(K, s->N);
	t->base = block_shape(s);
	t->base.N = t->shape.N;
	struct shape own = trial_shape(t->shape);
	size_t x_count = (size_t)MAX(t->shape.M, BLOCK_ROWS) * (size_t)own.lda,
		   w_count = (size_t)(s->b_transposed ? own.N : own.K) * (size_t)own.ldb;
	/* The sizes are those of memory plans: one array behind the other. */
	char *at[CUDA_TRIAL_PARTS], *next = t->block = (char *)device_block(c, cuda_trial_bytes(K, s->N, s->batch));
	for (int p = 0; p < CUDA_TRIAL_PARTS; p++) {
		at[p] = next;
		next += cuda_trial_part((enum cuda_trial_part)p, K, s->N, s->batch);
	}
	t->x = (bf16 *)at[CUDA_TRIAL_X], t->w = (bf16 *)at[CUDA_TRIAL_W];
	t->want = at[CUDA_TRIAL_WANT], t->got = at[CUDA_TRIAL_GOT], t->differs = (int32_t *)at[CUDA_TRIAL_DIFFERS];
	t->out_bytes = cuda_trial_part(CUDA_TRIAL_WANT, K, s->N, s->batch);
	/* Other bytes than `got` begins with: what both algorithms leave alone is then no agreement. */
	CUDA_CHECK(cudaMemsetAsync(t->want, 0, t->out_bytes, c->stream));
	cuda_launch(c, {dim3((unsigned)((x_count + 255) / 256)), dim3(256), 0, 0}, noise_kernel, t->x, (int64_t)x_count,
		(uint64_t)1);
	cuda_launch(c, {dim3((unsigned)((w_count + 255) / 256)), dim3(256), 0, 0}, noise_kernel, t->w, (int64_t)w_count,
		(uint64_t)2);
}

/* Whether the algorithm takes the plan's own layout, and gives on noise the bits that stand in
 * t->want, as far as both have the rows. */
static bool trial_passes(
	struct ops_context *c, const struct trial *t, const struct plan *p, const cublasLtMatmulAlgo_t *algo)
{
	struct lt *lt = c->lt;
	cublasLtMatmulHeuristicResult_t checked = {};
	cublasStatus_t status = lt->MatmulAlgoCheck(lt->handle, p->desc, p->a, p->b, p->c, p->d, algo, &checked);
	if (status != CUBLAS_STATUS_SUCCESS || checked.workspaceSize > LT_WORKSPACE_BYTES) return false;
	CUDA_CHECK(cudaMemsetAsync(t->differs, 0, sizeof *t->differs, c->stream));
	/* NaN, so that a place which this algorithm leaves alone is not equal by
	 * what the last one left. */
	CUDA_CHECK(cudaMemsetAsync(t->got, 0xff, t->out_bytes, c->stream));
	if (!trial_run(c, &t->shape, algo, t->x, t->w, t->got)) return false;
	/* of a batch the first product: the others are computed as it is */
	size_t rows = (size_t)MIN(t->shape.M, BLOCK_ROWS);
	int64_t words = (int64_t)(rows * (size_t)t->shape.N * (t->shape.is_f32 ? 4 : 2) / 4);
	cuda_launch(c, {dim3((unsigned)((words + 255) / 256)), dim3(256), 0, 0}, differs_kernel, (const uint32_t *)t->want,
		(const uint32_t *)t->got, words, t->differs);
	int32_t differs = 1;
	CUDA_CHECK(cudaMemcpyAsync(&differs, t->differs, sizeof differs, cudaMemcpyDeviceToHost, c->stream));
	CUDA_CHECK(cudaStreamSynchronize(c->stream));
	return !differs;
}

bool invariant_choose(struct ops_context *c, struct plan *p, const cublasLtMatmulHeuristicResult_t *found, int n)
{
	struct trial t;
	struct plan reference = {};
	cublasLtMatmulHeuristicResult_t first;
	trial_make(c, &t, &p->shape);
	/* What every algorithm is held against follows from the matrix alone. */
	reference.shape = trial_shape(t.base);
	plan_describe(c->lt, &reference);
	bool has_base = heuristic(c->lt, &reference, false, 1, &first) > 0 &&
		trial_run(c, &t.base, &first.algo, t.x, t.w, t.want);
	plan_release(c->lt, &reference);
	/* That one is tried second: the library's own choice for these rows is
	 * likely the faster one. */
	const cublasLtMatmulAlgo_t *tried[CANDIDATES + 1];
	int count = 0;
	for (int i = 0; i < n; i++) {
		if (i == 1) tried[count++] = &first.algo;
		tried[count++] = &found[i].algo;
	}
	if (n < 2) tried[count++] = &first.algo;
	bool is_chosen = false;
	for (int i = 0; has_base && i < count && !is_chosen; i++) {
		is_chosen = trial_passes(c, &t, p, tried[i]);
		if (is_chosen) p->algo = *tried[i];
	}
	block_release(c, t.block);
	return is_chosen;
}
