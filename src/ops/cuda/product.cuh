/* product: what its files share.
 *   product.cu            which way a product is made, and making it
 *   product_library.cu    opening cuBLASLt; describing a product to it, asking for its algorithms
 *   product_invariant.cu  algorithms that give a row the same bits, whatever the number of rows
 *   product_choices.cu    what was chosen, kept for a later run */
#ifndef HONE_CUDA_PRODUCT_CUH
#define HONE_CUDA_PRODUCT_CUH
#include "cuda_device.cuh"
#include <cublasLt.h>

#define LT_FUNCTIONS(X) \
	X(Create) X(Destroy) X(Matmul) X(MatmulDescCreate) X(MatmulDescDestroy) X(MatmulDescSetAttribute) \
	X(MatrixLayoutCreate) X(MatrixLayoutDestroy) X(MatrixLayoutSetAttribute) X(MatmulPreferenceCreate) \
	X(MatmulPreferenceDestroy) X(MatmulPreferenceSetAttribute) X(MatmulAlgoGetHeuristic) X(MatmulAlgoCheck) \
	X(GetVersion)
#define CANDIDATES 16 /* algorithms asked for where bits decide */
#define BLOCK_ROWS CUDA_BLOCK_ROWS

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
		if (lt_rc_ != CUBLAS_STATUS_SUCCESS) \
			check_failed(__FILE__, __LINE__, #call, \
				"in cuBLASLt: status %d (3: no memory, 7: an argument that it does not take, 13: the GPU " \
				"failed); CUBLASLT_LOG_LEVEL=1 says more", (int)lt_rc_); \
	} while (0)

/* ---- product_library.cu ---- */

/* Fills the library's descriptions of p->shape. */
void plan_describe(struct lt *, struct plan *p);
void plan_release(struct lt *, struct plan *p);
/* At most `wanted` algorithms for a plan that is described, the library's own choice first; returns
 * how many, 0 where it has none. Where K is split over blocks, the parts are added as fp32: the
 * other schemes round each to an element first. */
int heuristic(
	struct lt *, const struct plan *p, bool is_split_allowed, int wanted, cublasLtMatmulHeuristicResult_t *found);

/* ---- product_invariant.cu ---- */

/* The product of BLOCK_ROWS rows by the matrix of s, between rows of a and d that lie in our own
 * room: it is the same shape, whatever the rows of s are and wherever they lie. */
struct shape block_shape(const struct shape *s);
/* The first of the n algorithms found for the plan if its rows have the bits of the first one that
 * is named for BLOCK_ROWS rows of the same matrix, else that one itself, else another of those
 * found. false: none has them. Runs on noise, outside of any recording. */
bool invariant_choose(struct ops_context *, struct plan *p, const cublasLtMatmulHeuristicResult_t *found, int n);

/* ---- product.cu: the table of plans ---- */

/* Where the plan of the shape stands, or would stand. At least half of the places are free. */
struct plan **plan_place(const struct lt *, const struct shape *s);
/* A plan for a shape that has none, with nothing but the shape in it. Plans never move. */
struct plan *plan_add(struct lt *, const struct shape *s);

/* ---- product_choices.cu: ops.h says what they do ---- */

json_t *product_choices(struct ops_context *);
int product_choices_set(struct ops_context *, const json_t *all, struct err *err);
#endif
