/* product: dense products by cuBLASLt, which is opened at run time: bf16 operands, fp32 sums.
 *
 * The algorithm of a shape is the first one that the library's heuristic names, never one that
 * was timed: the same shapes get the same algorithms in every run, so a resumed run repeats its
 * bits. With batch_invariant no algorithm may split K over blocks, and each has to give, row by
 * row, the bits of a first one that was chosen for the same matrix: those that do not are passed
 * over. Where a number of rows has no such algorithm, its product is made in blocks of as many
 * rows as that first one was chosen for; a matrix for which even those have none is multiplied
 * by our plain kernel, whatever the number of rows. cuBLASLt is column-major: our row-major d =
 * a b is its d' = b' a'. */
#include "cuda_device.cuh"
#include <cublasLt.h>
#include <dlfcn.h>
#include <unistd.h>

#define LT_FUNCTIONS(X) \
	X(Create) X(Destroy) X(Matmul) X(MatmulDescCreate) X(MatmulDescDestroy) X(MatmulDescSetAttribute) \
	X(MatrixLayoutCreate) X(MatrixLayoutDestroy) X(MatrixLayoutSetAttribute) X(MatmulPreferenceCreate) \
	X(MatmulPreferenceDestroy) X(MatmulPreferenceSetAttribute) X(MatmulAlgoGetHeuristic) X(MatmulAlgoCheck) \
	X(GetVersion)
#define PLANS_FIRST 1024 /* places of the hash table of shapes, at first */
#define CANDIDATES 16    /* algorithms asked for where bits decide */

struct shape { /* what an algorithm is chosen by */
	int M;     /* as in struct product, and so all up to d_step */
	int N;
	int K;
	uint8_t a_transposed;
	uint8_t b_transposed;
	uint8_t is_f32;
	uint8_t has_c;
	uint8_t has_bias;
	uint8_t gap[3]; /* zeros: shapes are compared as bytes */
	int batch;
	int64_t lda;
	int64_t ldb;
	int64_t ldc;
	int64_t ldd;
	int64_t a_step;
	int64_t b_step;
	int64_t d_step;
	int alignment_a; /* bytes that a's address and its rows' are multiples of */
	int alignment_b; /* the same of b */
	int alignment_c; /* the same of c */
	int alignment_d; /* the same of d */
};
enum way {
	WAY_LIBRARY, /* by algo */
	WAY_BLOCKS,  /* BLOCK_ROWS rows at a time, by the plan of block_shape: with batch_invariant alone */
	WAY_PLAIN    /* by plain_kernel: no algorithm of the library takes these strides, or has the right bits */
};
struct plan {
	struct shape shape;        /* of the product */
	cublasLtMatmulDesc_t desc; /* the library's description of it; NULL where it has none */
	cublasLtMatrixLayout_t a;  /* of our b: the library sees columns where we see rows */
	cublasLtMatrixLayout_t b;  /* of our a */
	cublasLtMatrixLayout_t c;  /* of c */
	cublasLtMatrixLayout_t d;  /* of d */
	cublasLtMatmulAlgo_t algo; /* where the way is WAY_LIBRARY */
	enum way way;              /* how it is made */
};
struct lt {
	void *library;           /* of dlopen */
	cublasLtHandle_t handle; /* the library's own */
#define X(name) decltype(&cublasLt##name) name;
	LT_FUNCTIONS(X)
#undef X
	struct plan **plans; /* (places) by the hash of their shapes; NULL: free */
	int places;          /* of the table */
	int nplans;          /* in use */
	void *room;          /* of products in blocks: rows of a, then of d */
	size_t room_bytes;   /* of room */
};

#define LT_CHECK(call) \
	do { \
		cublasStatus_t lt_rc_ = (call); \
		CHECKF(lt_rc_ == CUBLAS_STATUS_SUCCESS, "cuBLASLt gives status %d", (int)lt_rc_); \
	} while (0)

/* ---- opening ---- */

static void *library_try(const char *folder, const char *name, struct str *tried)
{
	char path[4096];
	if (folder) snprintf(path, sizeof path, "%s/%s", folder, name);
	else snprintf(path, sizeof path, "%s", name);
	void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
	if (!library) str_printf(tried, "%s%s", tried->len ? ", " : "", path);
	return library;
}

/* The folder that this library lies in. */
static bool own_folder(char *folder, size_t room)
{
	Dl_info info;
	if (!dladdr((void *)&own_folder, &info) || !info.dli_fname) return false;
	char *real = realpath(info.dli_fname, NULL);
	char *slash = real ? strrchr(real, '/') : NULL;
	if (slash) snprintf(folder, room, "%.*s", (int)(slash - real), real);
	free(real);
	return slash != NULL;
}

/* nvidia/cu13/lib of a Python environment: HONE_PYTHON is .../bin/python, its packages
 * lie in .../lib/python3.x/site-packages. */
static bool python_folder(char *folder, size_t room)
{
	const char *python = getenv("HONE_PYTHON");
	const char *slash = python ? strrchr(python, '/') : NULL;
	if (!slash) return false;
	for (int minor = 9; minor < 20; minor++) {
		snprintf(
			folder, room, "%.*s/../lib/python3.%d/site-packages/nvidia/cu13/lib", (int)(slash - python), python, minor);
		if (access(folder, X_OK) == 0) return true;
	}
	return false;
}

static void *library_open(const char *cuda_libs, struct str *tried)
{
	static const char *const names[] = {"libcublasLt.so.13", "libcublasLt.so"};
	char own[4000], python[4000];
	const char *folders[4];
	int n = 0;
	if (cuda_libs) folders[n++] = cuda_libs;
	if (own_folder(own, sizeof own)) folders[n++] = own;
	if (python_folder(python, sizeof python)) folders[n++] = python;
	folders[n++] = NULL;
	for (int i = 0; i < n; i++)
		for (size_t j = 0; j < ARRAY_LEN(names); j++) {
			void *library = library_try(folders[i], names[j], tried);
			if (library) return library;
		}
	return NULL;
}

int lt_open(struct ops_context *c, const char *cuda_libs, struct err *err)
{
	struct str tried = {};
	struct lt *lt = (struct lt *)xcalloc(1, sizeof *lt);
	/* The context owns this from here on: a caller that sees an error frees it with the context. */
	c->lt = lt;
	lt->library = library_open(cuda_libs, &tried);
	int rc = 0;
	if (!lt->library)
		rc = err_set(err, ERR_NOT_FOUND,
			"device cuda: cuBLASLt of CUDA 13 was not found (%s); name its folder with --cuda_libs, or HONE_PYTHON as "
			"a Python with torch",
			tried.data);
	str_release(&tried);
	if (rc) return rc;
	/* The library is not linked, so its functions are looked up by name. */
#define X(name) \
	if (!(lt->name = (decltype(lt->name))dlsym(lt->library, "cublasLt" #name))) \
		return err_set(err, ERR_NOT_FOUND, \
			"device cuda: the cuBLASLt that was found has no cublasLt" #name "; expected version 13");
	LT_FUNCTIONS(X)
#undef X
	cublasStatus_t status = lt->Create(&lt->handle);
	if (status != CUBLAS_STATUS_SUCCESS)
		return err_set(err, ERR_INFRA,
			"device cuda: cuBLASLt does not start (status %d); is another program holding the GPU's memory?",
			(int)status);
	/* The table of plans is empty at first and fills as shapes come up. */
	lt->places = PLANS_FIRST;
	lt->plans = (struct plan **)xcalloc(PLANS_FIRST, sizeof *lt->plans);
	return 0;
}

static void plan_release(struct lt *lt, struct plan *p)
{
	if (p->desc) lt->MatmulDescDestroy(p->desc);
	cublasLtMatrixLayout_t layouts[] = {p->a, p->b, p->c, p->d};
	for (size_t i = 0; i < ARRAY_LEN(layouts); i++)
		if (layouts[i]) lt->MatrixLayoutDestroy(layouts[i]);
}

void lt_close(struct ops_context *c)
{
	struct lt *lt = c->lt;
	if (!lt) return;
	for (int i = 0; i < lt->places; i++) {
		if (lt->plans[i]) plan_release(lt, lt->plans[i]);
		free(lt->plans[i]);
	}
	if (lt->room) CUDA_CHECK(cudaFree(lt->room));
	if (lt->handle) lt->Destroy(lt->handle);
	free(lt->plans);
	free(lt); /* the library stays: closing it would cost the next context its load */
	c->lt = NULL;
}

/* ---- choosing ---- */

/* Of p and of every p + i * step. */
static int alignment_of(const void *p, int64_t step_bytes)
{
	int bytes = 256;
	while (bytes > 1 && ((uintptr_t)p | (uintptr_t)step_bytes) % (uintptr_t)bytes) bytes /= 2;
	return bytes;
}

static struct shape shape_of(const struct product *p)
{
	struct shape s = {};
	s.M = p->M, s.N = p->N, s.K = p->K;
	s.a_transposed = p->a_transposed, s.b_transposed = p->b_transposed, s.is_f32 = p->is_f32;
	s.has_c = p->beta != 0, s.has_bias = p->bias != NULL;
	s.lda = p->lda, s.ldb = p->ldb, s.ldc = p->ldc, s.ldd = p->ldd;
	s.batch = MAX(p->batch, 1);
	if (s.batch > 1) s.a_step = p->a_step, s.b_step = p->b_step, s.d_step = p->d_step;
	s.alignment_a = alignment_of(p->a, s.a_step * 2), s.alignment_b = alignment_of(p->b, s.b_step * 2);
	s.alignment_d = alignment_of(p->d, s.d_step * (s.is_f32 ? 4 : 2));
	s.alignment_c = s.has_c ? alignment_of(p->c, 0) : s.alignment_d;
	if (!s.has_c) s.ldc = s.ldd;
	return s;
}

static void plan_describe(struct lt *lt, struct plan *p)
{
	const struct shape *s = &p->shape;
	cudaDataType_t out = s->is_f32 ? CUDA_R_32F : CUDA_R_16BF;
	cublasOperation_t first = s->b_transposed ? CUBLAS_OP_T : CUBLAS_OP_N,
					  second = s->a_transposed ? CUBLAS_OP_T : CUBLAS_OP_N;
	/* The library counts in columns: its first operand is our b, its M our N. */
	LT_CHECK(lt->MatmulDescCreate(&p->desc, CUBLAS_COMPUTE_32F, CUDA_R_32F));
	LT_CHECK(lt->MatmulDescSetAttribute(p->desc, CUBLASLT_MATMUL_DESC_TRANSA, &first, sizeof first));
	LT_CHECK(lt->MatmulDescSetAttribute(p->desc, CUBLASLT_MATMUL_DESC_TRANSB, &second, sizeof second));
	/* A bias is added while the sum is still fp32. */
	if (s->has_bias) {
		cublasLtEpilogue_t epilogue = CUBLASLT_EPILOGUE_BIAS;
		cudaDataType_t type = CUDA_R_16BF;
		LT_CHECK(lt->MatmulDescSetAttribute(p->desc, CUBLASLT_MATMUL_DESC_EPILOGUE, &epilogue, sizeof epilogue));
		LT_CHECK(lt->MatmulDescSetAttribute(p->desc, CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE, &type, sizeof type));
	}
	/* A transposed operand lies in memory with its sides exchanged. */
	uint64_t M = (uint64_t)s->M, N = (uint64_t)s->N, K = (uint64_t)s->K;
	LT_CHECK(lt->MatrixLayoutCreate(&p->a, CUDA_R_16BF, s->b_transposed ? K : N, s->b_transposed ? N : K, s->ldb));
	LT_CHECK(lt->MatrixLayoutCreate(&p->b, CUDA_R_16BF, s->a_transposed ? M : K, s->a_transposed ? K : M, s->lda));
	LT_CHECK(lt->MatrixLayoutCreate(&p->c, out, N, M, s->ldc));
	LT_CHECK(lt->MatrixLayoutCreate(&p->d, out, N, M, s->ldd));
	/* A batch is the same product at steps of each operand. */
	if (s->batch == 1) return;
	const struct {
		cublasLtMatrixLayout_t layout;
		int64_t step;
	} steps[] = {{p->a, s->b_step}, {p->b, s->a_step}, {p->c, s->d_step}, {p->d, s->d_step}};
	for (size_t i = 0; i < ARRAY_LEN(steps); i++) {
		LT_CHECK(lt->MatrixLayoutSetAttribute(
			steps[i].layout, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, &s->batch, sizeof s->batch));
		LT_CHECK(lt->MatrixLayoutSetAttribute(
			steps[i].layout, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, &steps[i].step, sizeof steps[i].step));
	}
}

/* Where K is split over blocks, the parts are added as fp32: the other schemes round
 * each to an element first. */
static int heuristic(
	struct lt *lt, const struct plan *p, bool is_split_allowed, int wanted, cublasLtMatmulHeuristicResult_t *found)
{
	/* The library's A is our b, as it counts in columns, so the alignments change places too. */
	const struct shape *s = &p->shape;
	cublasLtMatmulPreference_t preference;
	size_t workspace = LT_WORKSPACE_BYTES;
	uint32_t schemes = is_split_allowed ? (uint32_t)CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE
										: (uint32_t)CUBLASLT_REDUCTION_SCHEME_NONE;
	const struct {
		cublasLtMatmulPreferenceAttributes_t name;
		uint32_t value;
	} values[] = {{CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, schemes},
		{CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, (uint32_t)s->alignment_b},
		{CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, (uint32_t)s->alignment_a},
		{CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, (uint32_t)s->alignment_c},
		{CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, (uint32_t)s->alignment_d}};
	/* Only algorithms that do with the workspace we have, and with these alignments, are wanted. */
	LT_CHECK(lt->MatmulPreferenceCreate(&preference));
	LT_CHECK(lt->MatmulPreferenceSetAttribute(
		preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &workspace, sizeof workspace));
	for (size_t i = 0; i < ARRAY_LEN(values); i++)
		LT_CHECK(
			lt->MatmulPreferenceSetAttribute(preference, values[i].name, &values[i].value, sizeof values[i].value));
	/* A refusal is no error here: the caller learns that there is no algorithm for this shape. */
	int n = 0;
	cublasStatus_t status = lt->MatmulAlgoGetHeuristic(
		lt->handle, p->desc, p->a, p->b, p->c, p->d, preference, wanted, found, &n);
	lt->MatmulPreferenceDestroy(preference);
	return status == CUBLAS_STATUS_SUCCESS ? n : 0;
}

/* ---- the same bits for a row, whatever M ---- */

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

#define BLOCK_ROWS 64        /* of the product that all others of a matrix are held against */
#define TRIAL_ROWS (8 * BLOCK_ROWS)
#define TRIAL_COLUMNS 4096   /* as many as TRIAL_WEIGHTS elements have, at least BLOCK_ROWS */
#define TRIAL_WEIGHTS (1 << 27)

/* Elements from row to row where rows of so many columns begin at multiples of 16 bytes. */
static int64_t padded(int64_t columns) { return (columns + 7) / 8 * 8; }

/* The product of BLOCK_ROWS rows by the matrix of s, between rows of a and d that lie in our own
 * room: it is the same shape, whatever the rows of s are and wherever they lie. */
static struct shape block_shape(const struct shape *s)
{
	struct shape b = *s;
	b.M = BLOCK_ROWS;
	b.lda = padded((int64_t)s->K * s->batch);
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
	s.lda = padded((int64_t)s.K * s.batch);
	s.ldb = s.b_transposed ? s.lda : padded(s.N);
	s.ldc = s.ldd = s.N;
	if (s.batch > 1) s.a_step = s.b_step = s.K, s.d_step = (int64_t)s.M * s.N;
	return s;
}

/* A product of noise of this shape, at most TRIAL_COLUMNS of it, by an algorithm of the plan's own.
 * false: the library does not take the algorithm for it. */
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
	struct shape shape; /* of the product in question, cut to TRIAL_ROWS and TRIAL_COLUMNS */
	struct shape base;  /* the same matrix with BLOCK_ROWS rows */
	bf16 *x;            /* (rows, batch * K) noise, rows of the larger of the two */
	bf16 *w;            /* (N, batch * K), or (K, N), noise */
	char *want;         /* what the base gives */
	char *got;          /* what the algorithm gives that is tried */
	int32_t *differs;   /* 1: the two are not equal */
};

static void *product_memory(const struct shape *s, size_t bytes)
{
	void *p = NULL;
	cudaError_t rc = cudaMalloc(&p, bytes);
	CHECKF(rc == cudaSuccess,
		"out of GPU memory: %zu MiB wanted for a product of %d rows by a matrix of %d columns and %d terms under "
		"batch_invariant; lower max_sequences, max_context or max_tokens (%s)",
		bytes >> 20, s->M, s->N, s->K, cudaGetErrorName(rc));
	return p;
}

static void trial_make(struct ops_context *c, struct trial *t, const struct shape *s)
{
	t->shape = *s;
	int64_t most = TRIAL_WEIGHTS / ((int64_t)s->K * s->batch) / BLOCK_ROWS * BLOCK_ROWS;
	t->shape.M = MIN(s->M, TRIAL_ROWS);
	t->shape.N = (int)MIN((int64_t)s->N, MIN((int64_t)TRIAL_COLUMNS, MAX(most, (int64_t)BLOCK_ROWS)));
	t->base = block_shape(s);
	t->base.N = t->shape.N;
	struct shape own = trial_shape(t->shape);
	size_t rows = (size_t)MAX(t->shape.M, BLOCK_ROWS), x_count = rows * (size_t)own.lda,
		   w_count = (size_t)(s->b_transposed ? own.N : own.K) * (size_t)own.ldb,
		   out_bytes = (size_t)s->batch * rows * (size_t)t->shape.N * sizeof(float);
	t->x = (bf16 *)product_memory(s, x_count * sizeof(bf16));
	t->w = (bf16 *)product_memory(s, w_count * sizeof(bf16));
	t->want = (char *)product_memory(s, 2 * out_bytes);
	t->got = t->want + out_bytes;
	t->differs = (int32_t *)product_memory(s, sizeof *t->differs);
	cuda_launch(c, {dim3((unsigned)((x_count + 255) / 256)), dim3(256), 0, 0}, noise_kernel, t->x, (int64_t)x_count,
		(uint64_t)1);
	cuda_launch(c, {dim3((unsigned)((w_count + 255) / 256)), dim3(256), 0, 0}, noise_kernel, t->w, (int64_t)w_count,
		(uint64_t)2);
}

static void trial_free(struct trial *t)
{
	void *all[] = {t->x, t->w, t->want, t->differs};
	for (size_t i = 0; i < ARRAY_LEN(all); i++) CUDA_CHECK(cudaFree(all[i]));
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

/* The first of the n algorithms found for the plan if its rows have the bits of the first one that
 * is named for BLOCK_ROWS rows of the same matrix, else that one itself, else another of those
 * found. false: none has them. Runs on noise, outside of any recording. */
static bool invariant_choose(struct ops_context *c, struct plan *p, const cublasLtMatmulHeuristicResult_t *found, int n)
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
	trial_free(&t);
	return is_chosen;
}

/* ---- the library takes 16-byte rows; what else there is goes through this ---- */

struct plain {
	const bf16 *a;    /* op(a) is (M, K) */
	const bf16 *b;    /* op(b) is (K, N) */
	const bf16 *bias; /* (N) or NULL */
	const void *c;    /* (M, N; row stride ldc) */
	void *d;          /* (M, N; row stride ldd) */
	int64_t a_row;    /* elements of a from m to m + 1 */
	int64_t a_col;    /* elements of a from k to k + 1 */
	int64_t b_row;    /* elements of b from k to k + 1 */
	int64_t b_col;    /* elements of b from n to n + 1 */
	int64_t ldc;      /* elements from a row of c to the next */
	int64_t ldd;      /* elements from a row of d to the next */
	int M;            /* rows of d */
	int N;            /* columns of d */
	int K;            /* terms of a sum */
	float alpha;      /* of the product */
	float beta;       /* of c, which is not read where it is 0 */
	bool is_f32;      /* c and d are fp32, else bf16 */
};

#define PLAIN_TILE 32

static __global__ void plain_kernel(struct plain p)
{
	__shared__ float a[PLAIN_TILE][PLAIN_TILE + 1], b[PLAIN_TILE][PLAIN_TILE + 1];
	int x = (int)threadIdx.x, y = (int)threadIdx.y, n = (int)blockIdx.x * PLAIN_TILE + x,
		m0 = (int)blockIdx.y * PLAIN_TILE;
	float sum[4] = {};
	grid_begin();
	/* Tiles of both operands go through shared memory as fp32. What lies outside the matrices is 0
	 * and adds nothing. */
	for (int k0 = 0; k0 < p.K; k0 += PLAIN_TILE) {
		for (int i = 0; i < 4; i++) {
			int r = y + i * 8;
			a[r][x] = m0 + r < p.M && k0 + x < p.K ? __bfloat162float(p.a[(m0 + r) * p.a_row + (k0 + x) * p.a_col])
												   : 0.0f;
			b[r][x] = k0 + r < p.K && n < p.N ? __bfloat162float(p.b[(k0 + r) * p.b_row + n * p.b_col]) : 0.0f;
		}
		__syncthreads();
		/* A thread owns four rows of one column, so the element of b is used four times. */
		for (int k = 0; k < PLAIN_TILE; k++)
			for (int i = 0; i < 4; i++) sum[i] = fmaf(a[y + i * 8][k], b[k][x], sum[i]);
		__syncthreads();
	}
	/* With beta 0 c is not read: it may hold anything. */
	for (int i = 0; i < 4; i++) {
		int m = m0 + y + i * 8;
		if (m >= p.M || n >= p.N) continue;
		float v = p.alpha * sum[i];
		if (p.beta != 0)
			v += p.beta *
				(p.is_f32 ? ((const float *)p.c)[m * p.ldc + n] : __bfloat162float(((const bf16 *)p.c)[m * p.ldc + n]));
		if (p.bias) v += __bfloat162float(p.bias[n]);
		if (p.is_f32) ((float *)p.d)[m * p.ldd + n] = v;
		else ((bf16 *)p.d)[m * p.ldd + n] = __float2bfloat16_rn(v);
	}
}

static void plain_product(struct ops_context *c, const struct product *p)
{
	struct plain q = {(const bf16 *)p->a, (const bf16 *)p->b, p->bias, p->c, p->d, p->a_transposed ? 1 : p->lda,
		p->a_transposed ? p->lda : 1, p->b_transposed ? 1 : p->ldb, p->b_transposed ? p->ldb : 1, p->ldc, p->ldd, p->M,
		p->N, p->K, p->alpha, p->beta, p->is_f32};
	dim3 grid((unsigned)((p->N + PLAIN_TILE - 1) / PLAIN_TILE), (unsigned)((p->M + PLAIN_TILE - 1) / PLAIN_TILE));
	cuda_launch(c, {grid, dim3(PLAIN_TILE, 8), 0, 0}, plain_kernel, q);
}

static void plain_batch(struct ops_context *c, const struct product *p)
{
	struct product one = *p;
	for (int i = 0; i < MAX(p->batch, 1); i++) {
		one.a = (const bf16 *)p->a + i * p->a_step, one.b = (const bf16 *)p->b + i * p->b_step;
		one.d = (char *)p->d + i * p->d_step * (p->is_f32 ? 4 : 2);
		plain_product(c, &one);
	}
}

/* ---- running ---- */

static uint64_t shape_hash(const struct shape *s)
{
	const unsigned char *p = (const unsigned char *)s;
	uint64_t h = 0xcbf29ce484222325u;
	for (size_t i = 0; i < sizeof *s; i++) h = (h ^ p[i]) * 0x100000001b3u;
	return h;
}

/* Where the plan of the shape stands, or would stand. At least half of the places are free. */
static struct plan **plan_place(const struct lt *lt, const struct shape *s)
{
	uint64_t at = shape_hash(s) % (uint64_t)lt->places;
	while (lt->plans[at] && memcmp(&lt->plans[at]->shape, s, sizeof *s)) at = (at + 1) % (uint64_t)lt->places;
	return &lt->plans[at];
}

/* A plan for a shape that has none, with nothing but the shape in it. Plans
 * themselves never move. */
static struct plan *plan_add(struct lt *lt, const struct shape *s)
{
	if (2 * (lt->nplans + 1) > lt->places) {
		struct lt larger = {};
		larger.places = 2 * lt->places;
		larger.plans = (struct plan **)xcalloc((size_t)larger.places, sizeof *larger.plans);
		for (int i = 0; i < lt->places; i++)
			if (lt->plans[i]) *plan_place(&larger, &lt->plans[i]->shape) = lt->plans[i];
		free(lt->plans);
		lt->plans = larger.plans, lt->places = larger.places;
	}
	struct plan *p = (struct plan *)xcalloc(1, sizeof *p);
	p->shape = *s;
	lt->nplans++;
	return *plan_place(lt, s) = p;
}

static bool rows_are_aligned(const struct shape *s)
{
	return s->lda % 8 == 0 && s->ldb % 8 == 0 && s->alignment_a >= 16 && s->alignment_b >= 16;
}

static struct plan *plan_of(struct ops_context *, const struct shape *);

/* Who makes products of this shape under batch_invariant. It has to be settled by the matrix alone
 * whether it is the library or the plain kernel, since their bits differ; so the product of
 * BLOCK_ROWS rows settles it for all. */
static enum way invariant_way(
	struct ops_context *c, struct plan *p, const cublasLtMatmulHeuristicResult_t *found, int n)
{
	struct shape block = block_shape(&p->shape);
	bool is_block = !memcmp(&block, &p->shape, sizeof block);
	if (!is_block && plan_of(c, &block)->way == WAY_PLAIN) return WAY_PLAIN;
	if (invariant_choose(c, p, found, n)) return WAY_LIBRARY;
	return is_block ? WAY_PLAIN : WAY_BLOCKS;
}

static void plan_make(struct ops_context *c, struct plan *p)
{
	struct lt *lt = c->lt;
	const struct shape *s = &p->shape;
	cublasLtMatmulHeuristicResult_t found[CANDIDATES];
	bool is_invariant = c->batch_invariant && !s->a_transposed; /* a sum over rows depends on them anyway */
	p->way = WAY_PLAIN;
	/* given both, the library rounds to an element between residual stream and
	 * bias; no model has both */
	if (!rows_are_aligned(s) || (s->has_c && s->has_bias)) return;
	plan_describe(lt, p);
	/* With c the algorithms that do not split K were faster (down at 256 rows); where rows are too
	 * few for them, linear cuts K itself. */
	bool is_split_allowed = !c->batch_invariant && (!s->has_c || s->is_f32);
	int n = heuristic(lt, p, is_split_allowed, c->batch_invariant ? CANDIDATES : 1, found);
	CHECKF(!c->batch_invariant || !c->is_recording, "a product (%d, %d, %d) is met first while a region is recorded",
		s->M, s->N, s->K);
	if (is_invariant) {
		p->way = invariant_way(c, p, found, n);
	} else if (n) {
		p->way = WAY_LIBRARY;
		p->algo = found[0].algo;
	}
}

static struct plan *plan_of(struct ops_context *c, const struct shape *s)
{
	struct plan *p = *plan_place(c->lt, s);
	if (p) return p;
	p = plan_add(c->lt, s);
	plan_make(c, p);
	return p;
}

static void library_product(struct ops_context *c, const struct plan *plan, const struct product *p)
{
	struct lt *lt = c->lt;
	if (p->bias)
		LT_CHECK(lt->MatmulDescSetAttribute(plan->desc, CUBLASLT_MATMUL_DESC_BIAS_POINTER, &p->bias, sizeof p->bias));
	const void *add = p->beta != 0 ? p->c : p->d;
	LT_CHECK(lt->Matmul(lt->handle, plan->desc, &p->alpha, p->b, plan->a, p->a, plan->b, &p->beta, add, plan->c, p->d,
		plan->d, &plan->algo, c->workspace, LT_WORKSPACE_BYTES, c->stream));
}

/* ---- products in blocks of rows ---- */

struct move {             /* (planes, rows, halves) of 16-bit values: elements, or the halves of floats */
	uint16_t *to;         /* (planes, rows, halves) */
	const uint16_t *from; /* the same */
	int64_t to_ld;        /* 16-bit values from a row to the next, */
	int64_t to_step;      /* and from a plane to the next */
	int64_t from_ld;      /* the same of from */
	int64_t from_step;    /* and of its planes */
	int halves;           /* of a row */
};

#define MOVE_THREADS 256

/* Block (pieces of a row, rows, planes). */
static __global__ void __launch_bounds__(MOVE_THREADS) move_kernel(const struct move m)
{
	grid_begin();
	int i = (int)(blockIdx.x * MOVE_THREADS + threadIdx.x);
	if (i < m.halves)
		m.to[blockIdx.z * m.to_step + blockIdx.y * m.to_ld + i] =
			m.from[blockIdx.z * m.from_step + blockIdx.y * m.from_ld + i];
}

static void move_rows(struct ops_context *c, const struct move *m, int rows, int planes)
{
	dim3 grid((unsigned)((m->halves + MOVE_THREADS - 1) / MOVE_THREADS), (unsigned)rows, (unsigned)planes);
	cuda_launch(c, {grid, dim3(MOVE_THREADS), 0, 0}, move_kernel, *m);
}

/* At least so many bytes for rows of a and d. Not counted among the blocks, since few runs need it:
 * the plan's line of the driver has room for it. */
static char *block_room(struct ops_context *c, const struct shape *s, size_t bytes)
{
	struct lt *lt = c->lt;
	if (bytes <= lt->room_bytes) return (char *)lt->room;
	CHECKF(!c->is_recording, "a recorded region needs %zu bytes for rows of a product, its first run %zu", bytes,
		lt->room_bytes);
	regions_forget(c); /* what was recorded may name the room that goes */
	CUDA_CHECK(cudaStreamSynchronize(c->stream));
	if (lt->room) CUDA_CHECK(cudaFree(lt->room));
	lt->room = product_memory(s, bytes);
	lt->room_bytes = bytes;
	CUDA_CHECK(cudaMemsetAsync(lt->room, 0, bytes, c->stream));
	return (char *)lt->room;
}

/* BLOCK_ROWS rows at a time, of which the last block may have fewer: what stands behind them in the
 * room is of earlier products, and a row's result does not depend on it. */
static void blocks_product(struct ops_context *c, const struct shape *s, const struct product *p)
{
	struct shape b = block_shape(s);
	const struct plan *plan = plan_of(c, &b);
	if (plan->way != WAY_LIBRARY) { /* choices of another run that do not fit together */
		plain_batch(c, p);
		return;
	}
	int wide = s->is_f32 ? 2 : 1; /* 16-bit values of one of c and d */
	size_t a_bytes = ((size_t)BLOCK_ROWS * (size_t)b.lda * sizeof(bf16) + 255) / 256 * 256,
		   d_bytes = (size_t)s->batch * BLOCK_ROWS * (size_t)s->N * (size_t)wide * 2;
	char *room = block_room(c, s, a_bytes + d_bytes);
	struct product block = *p;
	block.M = BLOCK_ROWS, block.a = room, block.lda = b.lda, block.a_step = b.a_step;
	block.c = block.d = room + a_bytes, block.ldc = block.ldd = b.ldd, block.d_step = b.d_step;
	/* Each block's rows of a, and of c, come into the room; their results go where they belong. */
	for (int first = 0; first < p->M; first += BLOCK_ROWS) {
		int rows = MIN(BLOCK_ROWS, p->M - first);
		struct move a = {
			(uint16_t *)room, (const uint16_t *)p->a + first * p->lda, b.lda, b.a_step, p->lda, s->a_step, s->K};
		struct move add = {(uint16_t *)block.d, (const uint16_t *)p->c + first * s->ldc * wide, b.ldd * wide, 0,
			s->ldc * wide, 0, s->N * wide};
		struct move out = {(uint16_t *)p->d + first * p->ldd * wide, (const uint16_t *)block.d, p->ldd * wide,
			s->d_step * wide, b.ldd * wide, b.d_step * wide, s->N * wide};
		move_rows(c, &a, rows, s->batch);
		if (s->has_c) move_rows(c, &add, rows, 1);
		library_product(c, plan, &block);
		move_rows(c, &out, rows, s->batch);
	}
}

void cuda_product(struct ops_context *c, const struct product *p)
{
	CHECK(p->M >= 0 && p->N > 0 && p->K > 0);
	if (!p->M) return;
	settle(c);
	struct shape s = shape_of(p);
	const struct plan *plan = plan_of(c, &s);
	switch (plan->way) {
	case WAY_LIBRARY: library_product(c, plan, p); break;
	case WAY_BLOCKS: blocks_product(c, &s, p); break;
	case WAY_PLAIN: plain_batch(c, p); break;
	}
}

/* ---- choices, for a later run ----
 *
 * The heuristic is the library's, so another version of it may name other algorithms, and an
 * algorithm's number means one thing in one version alone. What is kept is therefore good for the
 * same version on the same kind of GPU, and refused elsewhere. Rows are sorted by shape: equal
 * choices are equal files. */

#define SHAPE_NUMBERS 20
#define SHAPE_STEPS 16  /* from here on: of products side by side, 0 where there is but one */
#define ALGO_WORDS ((int)(sizeof(cublasLtMatmulAlgo_t) / sizeof(uint64_t)))

static void shape_numbers(const struct shape *s, int64_t n[SHAPE_NUMBERS])
{
	const int64_t all[SHAPE_NUMBERS] = {s->M, s->N, s->K, s->a_transposed, s->b_transposed, s->is_f32, s->has_c,
		s->has_bias, s->lda, s->ldb, s->ldc, s->ldd, s->alignment_a, s->alignment_b, s->alignment_c, s->alignment_d,
		s->batch, s->a_step, s->b_step, s->d_step};
	memcpy(n, all, sizeof all);
}

static struct shape shape_from(const int64_t n[SHAPE_NUMBERS])
{
	struct shape s = {};
	s.M = (int)n[0], s.N = (int)n[1], s.K = (int)n[2];
	s.a_transposed = n[3] != 0, s.b_transposed = n[4] != 0, s.is_f32 = n[5] != 0, s.has_c = n[6] != 0,
	s.has_bias = n[7] != 0;
	s.lda = n[8], s.ldb = n[9], s.ldc = n[10], s.ldd = n[11];
	s.alignment_a = (int)n[12], s.alignment_b = (int)n[13], s.alignment_c = (int)n[14], s.alignment_d = (int)n[15];
	s.batch = (int)n[16], s.a_step = n[17], s.b_step = n[18], s.d_step = n[19];
	return s;
}

static int by_shape(const void *a, const void *b)
{
	int64_t x[SHAPE_NUMBERS], y[SHAPE_NUMBERS];
	shape_numbers(&(*(const struct plan *const *)a)->shape, x);
	shape_numbers(&(*(const struct plan *const *)b)->shape, y);
	for (int i = 0; i < SHAPE_NUMBERS; i++)
		if (x[i] != y[i]) return x[i] < y[i] ? -1 : 1;
	return 0;
}

/* Who chose: the library's version, and the GPU. */
static void chooser_names(struct ops_context *c, char *library, char *device, size_t room)
{
	const struct card *card = &c->card;
	snprintf(library, room, "cuBLASLt %zu", c->lt->GetVersion());
	snprintf(device, room, "%s, compute capability %d.%d, %d multiprocessors", card->name, card->capability / 10,
		card->capability % 10, c->sms);
}

/* What stands in an algorithm's place. */
static const char *const way_names[] = {[WAY_LIBRARY] = "", [WAY_BLOCKS] = "blocks", [WAY_PLAIN] = "plain"};

static json_t *plan_json(const struct plan *p)
{
	int64_t n[SHAPE_NUMBERS];
	json_t *row = json_object(), *shape = json_array();
	char words[ALGO_WORDS * 16 + 1];
	shape_numbers(&p->shape, n);
	snprintf(words, sizeof words, "%s", way_names[p->way]);
	for (int i = 0; i < SHAPE_NUMBERS; i++) json_array_append_new(shape, json_integer(n[i]));
	for (int i = 0; i < ALGO_WORDS && p->way == WAY_LIBRARY; i++)
		snprintf(words + 16 * i, 17, "%016llx", (unsigned long long)p->algo.data[i]);
	json_object_set_new(row, "shape", shape);
	json_object_set_new(row, "algorithm", json_string(words));
	return row;
}

static json_t *product_choices(struct ops_context *c)
{
	char library[300], device[300];
	const struct plan **sorted = (const struct plan **)xcalloc((size_t)c->lt->nplans + 1, sizeof *sorted);
	int n = 0;
	for (int i = 0; i < c->lt->places; i++)
		if (c->lt->plans[i]) sorted[n++] = c->lt->plans[i];
	qsort(sorted, (size_t)n, sizeof *sorted, by_shape);
	json_t *all = json_object(), *rows = json_array();
	chooser_names(c, library, device, sizeof library);
	json_object_set_new(all, "library", json_string(library));
	json_object_set_new(all, "device", json_string(device));
	json_object_set_new(all, "batch_invariant", json_boolean(c->batch_invariant));
	for (int i = 0; i < n; i++) json_array_append_new(rows, plan_json(sorted[i]));
	json_object_set_new(all, "products", rows);
	free(sorted);
	return all;
}

/* One row of the file into a plan; what it says is checked by the library before it is believed. */
static int plan_read(struct ops_context *c, const json_t *row, struct plan *p, struct err *err)
{
	int64_t n[SHAPE_NUMBERS];
	const json_t *shape = json_object_get(row, "shape");
	const char *words = json_string_value(json_object_get(row, "algorithm"));
	if (json_array_size(shape) != SHAPE_NUMBERS || !words)
		return err_set(
			err, ERR_FORMAT, "algorithms: a product without a shape of %d numbers and an algorithm", SHAPE_NUMBERS);
	/* Sizes and strides are positive, flags and steps may be 0. */
	for (int i = 0; i < SHAPE_NUMBERS; i++) {
		n[i] = json_integer_value(json_array_get(shape, (size_t)i));
		bool is_positive = i < 3 || (i > 7 && i < SHAPE_STEPS);
		if (n[i] < is_positive || n[i] > INT32_MAX)
			return err_set(err, ERR_FORMAT, "algorithms: a product's number %d is %lld", i, (long long)n[i]);
	}
	p->shape = shape_from(n);
	p->way = !strcmp(words, way_names[WAY_PLAIN]) ? WAY_PLAIN
		: !strcmp(words, way_names[WAY_BLOCKS])   ? WAY_BLOCKS
												  : WAY_LIBRARY;
	if (p->way == WAY_BLOCKS && (!c->batch_invariant || p->shape.a_transposed))
		return err_set(err, ERR_FORMAT, "algorithms: a product (%d, %d, %d) in blocks of rows, without batch_invariant",
			p->shape.M, p->shape.N, p->shape.K);
	if (p->way != WAY_LIBRARY) return 0;
	/* The library's opaque words, as hexadecimal; only its own check says
	 * whether they mean anything. */
	for (int i = 0; i < ALGO_WORDS; i++) {
		char word[17] = "", *end = word;
		if (strlen(words) == (size_t)ALGO_WORDS * 16) memcpy(word, words + 16 * i, 16);
		p->algo.data[i] = strtoull(word, &end, 16);
		if (end != word + 16) return err_set(err, ERR_FORMAT, "algorithms: \"%.40s\" is no algorithm", words);
	}
	plan_describe(c->lt, p);
	cublasLtMatmulHeuristicResult_t result = {};
	cublasStatus_t status = c->lt->MatmulAlgoCheck(c->lt->handle, p->desc, p->a, p->b, p->c, p->d, &p->algo, &result);
	if (status == CUBLAS_STATUS_SUCCESS && result.workspaceSize <= LT_WORKSPACE_BYTES) return 0;
	return err_set(err, ERR_FORMAT, "algorithms: cuBLASLt does not take the one for (%d, %d, %d)", p->shape.M,
		p->shape.N, p->shape.K);
}

static int product_choices_set(struct ops_context *c, const json_t *all, struct err *err)
{
	char library[300], device[300];
	const struct {
		const char *key; /* in the file */
		const char *is;  /* what it has to say */
	} names[] = {{"library", library}, {"device", device}};
	chooser_names(c, library, device, sizeof library);
	for (size_t i = 0; i < ARRAY_LEN(names); i++) {
		const char *was = json_string_value(json_object_get(all, names[i].key));
		if (!was || strcmp(was, names[i].is) != 0)
			return err_set(err, ERR_MISMATCH,
				"the algorithms of its products were chosen with %.120s, here it is %.120s, which may give other bits",
				was ? was : "an unknown library", names[i].is);
	}
	if (json_is_true(json_object_get(all, "batch_invariant")) != c->batch_invariant)
		return err_set(err, ERR_MISMATCH, "the algorithms of its products were chosen with%s batch_invariant",
			c->batch_invariant ? "out" : "");
	/* Every row replaces what this run may have chosen for the shape already. */
	const json_t *rows = json_object_get(all, "products");
	regions_forget(c);
	for (size_t i = 0; i < json_array_size(rows); i++) {
		struct plan read = {};
		int rc = plan_read(c, json_array_get(rows, i), &read, err);
		if (rc) {
			plan_release(c->lt, &read);
			return rc;
		}
		struct plan *p = *plan_place(c->lt, &read.shape);
		if (p) plan_release(c->lt, p);
		else p = plan_add(c->lt, &read.shape);
		*p = read;
	}
	return 0;
}

void cuda_product_entries(struct ops *t)
{
	t->choices = product_choices;
	t->choices_set = product_choices_set;
}
