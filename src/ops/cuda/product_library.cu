/* product_library: cuBLASLt, which is opened at run time: where it is looked for, and how a product
 * is described to it. It is column-major: our row-major d = a b is its d' = b' a'. */
#include "product.cuh"
#include <dlfcn.h>
extern "C" {
#include "base/base.h"
#include "ops/cuda/libraries.h"
}

#define PLANS_FIRST 1024 /* places of the hash table of shapes, at first */
#define LT_MAJOR 13      /* whose functions and numbers are called here */

/* ---- opening ---- */

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

static void *lt_library(const char *cuda_libs, struct str *tried)
{
	static const char *const names[] = {"libcublasLt.so.13", "libcublasLt.so", NULL};
	char own[4000];
	struct library_places places = {};
	places.names = names, places.named = cuda_libs, places.only_named = true, places.packages = "nvidia/cu13/lib";
	if (own_folder(own, sizeof own)) places.own = own;
	return library_open(&places, tried);
}

int lt_open(struct ops_context *c, const char *cuda_libs, struct err *err)
{
	struct str tried = {};
	struct lt *lt = (struct lt *)xcalloc(1, sizeof *lt);
	/* The context owns this from here on: a caller that sees an error frees it with the context. */
	c->lt = lt;
	lt->library = lt_library(cuda_libs, &tried);
	int rc = 0;
	if (!lt->library)
		rc = err_set(err, ERR_NOT_FOUND,
			"device cuda: cuBLASLt of CUDA 13 was not found (%s); name its folder with --cuda_libs, or HONE_PYTHON as "
			"a Python with torch for CUDA 13",
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
	/* A file without the number in its name may be of any. */
	size_t version = lt->GetVersion();
	if (version / 10000 != LT_MAJOR)
		return err_set(err, ERR_MISMATCH,
			"device cuda: the cuBLASLt that was found is %zu.%zu, expected one of CUDA %d; name its folder with "
			"--cuda_libs",
			version / 10000, version / 100 % 100, LT_MAJOR);
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
void lt_close(struct ops_context *c)
{
	struct lt *lt = c->lt;
	if (!lt) return;
	for (int i = 0; i < lt->places; i++) {
		if (lt->plans[i]) plan_release(lt, lt->plans[i]);
		free(lt->plans[i]);
	}
	block_release(c, lt->room);
	if (lt->handle) lt->Destroy(lt->handle);
	free(lt->plans);
	free(lt); /* the library stays: closing it would cost the next context its load */
	c->lt = NULL;
}
/* ---- a product as the library sees it ---- */

void plan_describe(struct lt *lt, struct plan *p)
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
void plan_release(struct lt *lt, struct plan *p)
{
	if (p->desc) lt->MatmulDescDestroy(p->desc);
	cublasLtMatrixLayout_t layouts[] = {p->a, p->b, p->c, p->d};
	for (size_t i = 0; i < ARRAY_LEN(layouts); i++)
		if (layouts[i]) lt->MatrixLayoutDestroy(layouts[i]);
}
int heuristic(
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
