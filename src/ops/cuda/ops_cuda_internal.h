/* cuda: what the files of this backend share: the context, batches as kernels see them, products,
 * and how kernels are launched. The .cu files are C with kernels in it.
 *
 * Order in memory (ops.h leaves it to the backend):
 *   qkv (T, Q + 2 KV)  row t holds q | k | v of token t: the three projections are one product
 *   gu (T, 2 I)        row t holds gate | up
 *   a page             (NKV, OPS_PAGE, HD), keys and values alike, the 16-byte pieces of a
 *                      row permuted as in mma.cuh's tiles, so that a page comes into
 *                      shared memory by one bulk copy
 *   tail               part i's thin product stands at columns i * r.. of the tail,
 *                      zeros behind the last part; B of part i stands at the same tail
 *                      columns of part i's rows of W
 *
 * Every width that a projection reads is a multiple of 8, so that rows begin
 * at multiples of 16 bytes.
 *
 * Surplus rows (batch_put rounds T up) have id 0, position 0 and sequence -1. Every stage must
 * leave finite values in them: their gradients are 0, and 0 times NaN would not be.
 *
 * Launches. Kernels go through cuda_launch, which lets the next kernel start while this one ends
 * (programmatic dependent launch). So every kernel calls grid_begin() before it reads or writes
 * what an earlier kernel touched: it waits for that one, then allows the next. What a kernel does
 * ahead of grid_begin may read whatever was written two kernels back.
 *
 * Cards. Everything is compiled twice: for Hopper (sm_90a) and for every card from 8.0 on
 * (compute_80). What only Hopper has, clusters, bulk copies and warpgroups' products, stands under
 * HOPPER_CODE, and has a path of its own for the others, by the same arithmetic in the same order.
 * struct card is the one place that says which path is taken, how many multiprocessors there are
 * and how much shared memory a block may have. */
#ifndef HONE_OPS_CUDA_INTERNAL_H
#define HONE_OPS_CUDA_INTERNAL_H
#include <jansson.h>
#include <math.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>
#include <cuda.h>
#include <cuda_runtime.h>
#include <cuda_bf16.h>
extern "C" {
#include "base/base.h"
#include "ops/ops.h"
#include "ops/cuda_figures.h"
}

typedef __nv_bfloat16 bf16;

/* Whether this pass of the compiler makes code for Hopper; the host's pass sees both. */
#if !defined __CUDA_ARCH__ || __CUDA_ARCH__ >= 900
#define HOPPER_CODE 1
#else
#define HOPPER_CODE 0
#endif

/* A device that fails while it works ends the program: nothing on it can be trusted after
 * that. What failed is named as it stands in the source; kernels run behind the host, so it
 * may be an earlier one's fault. */
#define CUDA_CHECK(call) \
	do { \
		cudaError_t cuda_rc_ = (call); \
		if (cuda_rc_ != cudaSuccess) cuda_failed(__FILE__, __LINE__, #call, cuda_rc_); \
	} while (0)
[[noreturn]] static inline void cuda_failed(const char *file, int line, const char *call, cudaError_t rc)
{
	static const char memory[] =
		"lower max_sequences, max_context or max_tokens, or see with nvidia-smi who else holds its memory";
	static const char fault[] = "dmesg names a fault of the device (Xid) if it was one; saved checkpoints are whole: "
								"start again, and the run goes on after the newest one";
	check_failed(file, line, call, "on the GPU: %s (%s); %s", cudaGetErrorString(rc), cudaGetErrorName(rc),
		rc == cudaErrorMemoryAllocation ? memory : fault);
}

/* The opaque types of ops.h as what they are here. */
static inline bf16 *elems(struct elem *p) { return (bf16 *)p; }
static inline const bf16 *elems(const struct elem *p) { return (const bf16 *)p; }
static inline float *floats(struct f32 *p) { return (float *)p; }
static inline const float *floats(const struct f32 *p) { return (const float *)p; }
static inline int32_t *ints(struct i32 *p) { return (int32_t *)p; }

/* ---- the context ---- */

#define WORKSPACE_BYTES CUDA_WORKSPACE_BYTES
#define FEW_PARTIAL (4 * 256 * 64)                                    /* floats of few.cu's partial thin products, */
#define FEW_FLAGS 64                                                 /* numbers; of them two counters of */
#define GEMV_ARRIVED 32                                              /* linear.cu's, from here on */
#define ARRIVED_COUNT 2048                                           /* counters of paged.cu: blocks, at most */
#define LT_WORKSPACE_BYTES (WORKSPACE_BYTES - (FEW_PARTIAL + FEW_FLAGS + ARRIVED_COUNT) * 4) /* cuBLASLt's share */
#define STAGING_BYTES CUDA_STAGING_BYTES   /* of pinned memory, and of the device's */
#define STAGING_COUNT CUDA_STAGING_COUNT
#define GRAPHS_MAX 128

struct staging {      /* pinned; busy until its event has passed */
	void *host;       /* STAGING_BYTES */
	void *device;     /* as large: values that are converted on arrival */
	cudaEvent_t done; /* the last copy that reads host is over */
};

struct fetch {        /* values on their way to the host, in pinned memory; made when first asked for */
	void *host;       /* (OPS_FETCH_MAX) fp32 */
	int64_t n;        /* values under way */
	cudaEvent_t done; /* they are there */
};

enum region_state { REGION_NEW, REGION_WARM, REGION_RECORDED };
struct region {
	uint64_t key;            /* the caller's, mixed with the batch's shape */
	enum region_state state; /* what its next run is */
	cudaGraphExec_t exec;    /* the graph; NULL until it is recorded */
	uint64_t used;           /* when last, in calls of begin */
};

/* A product in the residual stream whose sums over ranges of K lie in scratch: the norm
 * that reads the stream next adds them up, which saves a launch; whatever else comes next
 * makes settle do it first. */
struct sums {
	bf16 *y;           /* (T, N) the stream: y += the sums, in order */
	const float *part; /* (ranges, T, N) */
	int ranges;        /* 0: nothing waits */
	int T;             /* rows */
	int N;             /* columns */
};

/* The thin product behind rows (T, in + tail) that stand already: the product that reads them makes
 * it as it goes, where it can; whatever else comes next makes settle do it first. */
struct thin_wait {
	bf16 *x;              /* NULL: nothing waits */
	int in;               /* columns before the tail */
	int T;                /* rows */
	struct ops_next next; /* the projection that reads x */
	/* Of at most GEMV_ROWS rows: a counter that the rows' writer has cleared; else NULL. */
	unsigned *arrived;
};

struct projection {   /* y (T, N; row stride y_ld) = x w^T + bias + add, add as y */
	void *y;          /* (T, N) */
	int64_t y_ld;     /* elements from a row of y, and of add, to the next */
	int64_t x_ld;     /* the same of x */
	int64_t w_ld;     /* the same of w */
	bool is_f32;      /* y is fp32, else bf16 */
	const bf16 *x;    /* (T, K) */
	const bf16 *w;    /* (N, K) */
	const bf16 *bias; /* (N) or NULL */
	const bf16 *add;  /* or NULL */
	int N;            /* columns of y */
	int K;            /* terms of a sum */
};

/* A product of gate and up, for the gate behind it, which needs no gu then. */
struct gate_wait {
	struct projection p;   /* the product */
	int T;                 /* 0: nothing waits */
	struct thin_wait thin; /* of its input */
};

typedef decltype(&cuTensorMapEncodeTiled) tensor_map_encode;

/* The GPU as the kernels see it: its own figures, or less where it is held to those of
 * another card (ops_options). */
struct card {
	char name[64];    /* the driver's, or the table's */
	int capability;   /* 90: compute capability 9.0 */
	int shared_block; /* bytes of shared memory that a block may have */
	int shared_all;   /* of a multiprocessor, which takes 1 KiB for each block */
	/* It has clusters, bulk copies, warpgroups' products and programmatic launch, and the code
	 * at hand has them too. */
	bool is_hopper;
};

struct block {    /* of device memory */
	void *p;      /* where it begins */
	size_t bytes; /* rounded up as it was asked for */
};

struct ops_context {
	struct ops table;                      /* what the program calls */
	int device;                            /* the driver's number */
	struct card card;                      /* what kernels are chosen for */
	int sms;                               /* multiprocessors, of the card */
	int tail;                              /* spare elements behind a projection's input */
	bool batch_invariant;                  /* a row's bits depend on no other row */
	size_t memory_cap;                     /* 0: none */
	size_t taken_bytes;                    /* of all blocks, and what the driver and the libraries are taken to need */
	struct block *blocks;                  /* (nblocks) all memory that was taken */
	int nblocks;                           /* in use */
	int blocks_cap;                        /* room of the list */
	cudaStream_t stream;                   /* the only one */
	struct lt *lt;                         /* cuBLASLt, by dlopen: product.cu */
	char *cuda_libs;                       /* the folder that was named for libraries; NULL: none */
	struct ranks_link *ranks;              /* NCCL, by dlopen: ranks.cu; NULL: not asked for */
	void *workspace;                       /* WORKSPACE_BYTES */
	void *scratch;                         /* what a stage needs between its own kernels: scratch_of */
	size_t scratch_bytes;                  /* of scratch */
	bool poison_scratch;                   /* fill it with NaN whenever a stage takes it: for tests */
	struct staging staging[STAGING_COUNT]; /* buffers in turn */
	int staging_next;                      /* number of the next one, counted on */
	struct pool *copiers;                  /* threads that fill them; made when first needed */
	struct fetch fetches[OPS_FETCHES];     /* by slot */
	void *pinned;                          /* small results on their way to the host */
	size_t pinned_bytes;                   /* of pinned */
	struct region regions[GRAPHS_MAX];     /* (nregions) known by their keys */
	int nregions;                          /* in use */
	uint64_t begins;                       /* calls of begin so far */
	struct region *region;                 /* between begin and end */
	bool is_recording;                     /* the stream is */
	bool weights_written;                  /* by the last kernel */
	struct sums waiting;                   /* sums that nobody has added yet */
	struct thin_wait thin;                 /* a thin product that nobody has made yet */
	struct gate_wait gate;                 /* a product of gate and up that waits for its gate */
	bool is_paged;                         /* the batch last sent has pages: nothing is computed backward from it */
	tensor_map_encode encode_map;          /* NULL: few.cu has no kernel for this card */
	uint64_t shape;                        /* of the batch last sent, as far as it decides which kernels run */
};

/* At least so many bytes, the same memory for every stage. Grows only while nothing is recorded;
 * recorded regions are forgotten then. */
void *scratch_of(struct ops_context *, size_t bytes);
void settle(struct ops_context *);                      /* what waits is done */
void *device_block(struct ops_context *, size_t bytes); /* of device memory, counted; ends the program without it */
void block_release(struct ops_context *, void *);       /* NULL is fine; nothing may use it any more */
void regions_forget(struct ops_context *);
struct staging *staging_take(struct ops_context *); /* the next one, waited for */
void staging_sent(struct ops_context *, struct staging *);

/* ---- a batch as kernels see it; everything lies at addresses that do not change ---- */

#define CHUNK CUDA_CHUNK       /* keys of a partial result of attention */
enum batch_head { HEAD_ROWS, HEAD_SEQUENCES, HEAD_COUNT };
enum batch_want_head { WANT_DRAWS /* in use */, WANT_MOVES_ON /* one draw a row */, WANT_STOPS, WANT_COUNT };
static_assert(HEAD_COUNT <= CUDA_BATCH_HEADS && WANT_COUNT <= CUDA_BATCH_HEADS, "numbers of a batch's heads");

struct batch_view {
	int32_t *head;            /* (HEAD_COUNT) how many of each are in use */
	int32_t *ids;             /* (T) */
	int32_t *pos;             /* (T) */
	const int32_t *sequence;  /* (T) -1: a surplus row */
	const int32_t *start;     /* (S + 1) first row of a sequence */
	const int32_t *table;     /* (S, pages) */
	int pages;                /* columns of table, whatever the host's had */
	int chunks;               /* most chunks of CHUNK keys that pages hold */
	int32_t *want;            /* (WANT_COUNT) */
	const int32_t *at;        /* (n) 0 in surplus rows */
	const int32_t *target;    /* (n) 0 where the host gave none */
	const float *temperature; /* (n) 1 where the host gave none */
	struct ops_draw *draw;    /* (draws) */
	const int32_t *from;      /* (draws) wanted row of each; 0 in surplus draws */
	int32_t *left;            /* (draws) tokens that its row may still draw */
	const int32_t *stop;      /* (want[WANT_STOPS]) tokens behind which a row draws no more */
};

struct ops_batch {
	struct batch_view view; /* the fields' addresses on the device */
	int T;                  /* the largest of each, as the next four */
	int S;                  /* sequences */
	int pages;              /* columns of the table */
	int n;                  /* wanted rows */
	int draws;              /* of a step */
	int rows;               /* of the last batch_put */
	int sequences;          /* of the last batch_put */
	bool is_packed;         /* no pages */
	bool is_decode;         /* every sequence has one row */
	int wanted;             /* rows of the last batch_want */
	int drawn;              /* draws of the last batch_want, rounded up */
	char *device;           /* one block */
	char *host;             /* one block, pinned: two halves in turn */
	size_t bytes;           /* of the block */
	size_t want_at;         /* where what batch_want sends begins */
	int half;               /* of host that the next batch_put writes */
	int want_half;          /* the same of batch_want */
	cudaEvent_t sent[2];    /* of each half: the copy that reads it is done */
	cudaEvent_t want_sent[2];
	int32_t *start; /* host copy of view.start, (S + 1) */
};

#define GEMV_ROWS 4 /* up to which W is read by matrix-vector kernels */

/* ---- products ---- */

/* d (M, N) = alpha * op(a) op(b) + beta * c + bias, everything row-major: a is (M, K), or (K, M)
 * when a_transposed; b is (K, N), or (N, K) when b_transposed. a, b and bias are bf16, c and d bf16
 * or fp32. c may be d. Row strides in elements. */
struct product {
	int M;             /* rows of d */
	int N;             /* columns of d */
	int K;             /* terms of a sum */
	bool a_transposed; /* a is (K, M) */
	bool b_transposed; /* b is (N, K) */
	bool is_f32;       /* c and d */
	const void *a;     /* bf16 */
	const void *b;     /* bf16 */
	const void *c;     /* as d; read where beta is not 0 */
	void *d;           /* bf16 or fp32 */
	int64_t lda;       /* elements from a row of a to the next */
	int64_t ldb;       /* the same of b */
	int64_t ldc;       /* the same of c */
	int64_t ldd;       /* the same of d */
	float alpha;       /* of the product */
	float beta;        /* of c */
	const bf16 *bias;  /* (N) or NULL */
	int batch;         /* so many products, whose a, b and d lie steps apart; 0: one. Without c and bias */
	int64_t a_step;    /* elements from one a of a batch to the next */
	int64_t b_step;    /* the same of b */
	int64_t d_step;    /* the same of d */
};
void cuda_product(struct ops_context *, const struct product *);
size_t product_room(const struct ops_context *); /* bytes that products in blocks of rows hold (ops_held) */

int lt_open(struct ops_context *, const char *cuda_libs, struct err *);
void lt_close(struct ops_context *);
void ranks_link_close(struct ops_context *);

/* ---- stages that others build on ---- */

/* h = scaling * drop(x) A^T behind rows (T, in + tail) that stand already; zeros where there is no
 * adapter. May be left to the product that reads them (struct thin_wait). */
void cuda_thin(struct ops_context *, bf16 *x, int in, int T, const struct ops_next *);
/* What is to wait behind rows that are about to be written, if the product that reads them can make
 * their thin product; else x is NULL. Their writer clears *arrived, if there is one. */
struct thin_wait thin_leave(const struct ops_context *, bf16 *x, int in, int T, const struct ops_next *);
void thin_settle(struct ops_context *, const struct thin_wait *); /* now, by rows.cu */
#define ROWS_MERGED_MAX 20480   /* columns of a row that cuda_merge takes */
/* Partial results of attention over chunks of keys, (T, chunks, NH, HD + 2) with o, m and l of
 * each, become rows (T, NH * HD + tail), of GEMV_ROWS at most. */
void cuda_merge(struct ops_context *, bf16 *att, const float *partial, const struct batch_view *, int NH, int HD, int T,
	const struct ops_next *);
static inline float scale_log2_of(int HD) { return (float)(1.4426950408889634 / sqrt((double)HD)); }
/* Whether the parts lie one behind the other, so that one product serves all; biases as well. */
bool parts_adjoin(const struct ops_linear *);

/* Families of entries; each file fills its own. */
#define CUDA_FAMILIES(X) X(memory) X(batch) X(product) X(rows) X(linear) X(heads) X(paged) X(head) \
	X(attend) X(attend_backward) X(head_backward) X(linear_backward) X(gate_backward) X(norm_backward) \
	X(rows_backward) X(optim) X(ranks)
#define X(name) void cuda_##name##_entries(struct ops *);
CUDA_FAMILIES(X)
#undef X

/* ---- launches ---- */

static __device__ __forceinline__ void grid_begin(void)
{
#if HOPPER_CODE
	cudaGridDependencySynchronize();
	cudaTriggerProgrammaticLaunchCompletion();
#endif
}

/* The same where there are so few rows that the next kernel's blocks find room beside this one's,
 * and read nothing ahead of its own grid_begin but weights: it may start at once. */
#define GRID_ROWS_FEW 2
static __device__ __forceinline__ void grid_begin_of(int rows)
{
#if HOPPER_CODE
	if (rows <= GRID_ROWS_FEW) cudaTriggerProgrammaticLaunchCompletion();
#endif
	grid_begin();
}

struct launch {
	dim3 grid;           /* blocks */
	dim3 block;          /* threads */
	size_t shared_bytes; /* of a block, beside its fixed arrays */
	int cluster;         /* blocks of a cluster along x; 0: none */
};

#define SHARED_UNASKED (48 << 10) /* of a block, on every card */
#define SHARED_LEAST (99 << 10)   /* that a block may have on the cards from 8.0 on that have the least (8.6, 8.9) */

/* Shared memory past 48 KiB has to be asked for. No more than the card has,
 * whatever this GPU would give. */
template <typename... P>
static inline void kernel_shared(const struct ops_context *c, void (*kernel)(P...), size_t bytes)
{
	cudaFuncAttributes own;
	if (bytes <= SHARED_UNASKED) return;
	CUDA_CHECK(cudaFuncGetAttributes(&own, (const void *)kernel));
	CHECKF(own.sharedSizeBytes + bytes <= (size_t)c->card.shared_block,
		"a kernel needs %zu bytes of shared memory; a block of this card (%s) may have %d", own.sharedSizeBytes + bytes,
		c->card.name, c->card.shared_block);
	CUDA_CHECK(cudaFuncSetAttribute((const void *)kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, (int)bytes));
}

template <typename... P, typename... A>
static inline void cuda_launch(struct ops_context *c, struct launch l, void (*kernel)(P...), A... args)
{
	settle(c);
	CHECKF(l.grid.y <= CUDA_GRID_MOST && l.grid.z <= CUDA_GRID_MOST,
		"a kernel of %u x %u x %u blocks, of which a GPU takes %d along the second and third: too many rows or "
		"sequences at once; lower max_tokens, max_sequences or prefill_rows",
		l.grid.x, l.grid.y, l.grid.z, CUDA_GRID_MOST);
	cudaLaunchAttribute attribute[2] = {};
	cudaLaunchConfig_t config = {};
	config.gridDim = l.grid;
	config.blockDim = l.block;
	config.dynamicSmemBytes = l.shared_bytes;
	config.stream = c->stream;
	config.attrs = attribute;
	/* It may start early, but not ahead of who writes what it reads before it waits. */
	if (c->card.is_hopper) {
		attribute[config.numAttrs].id = cudaLaunchAttributeProgrammaticStreamSerialization;
		attribute[config.numAttrs++].val.programmaticStreamSerializationAllowed = !c->weights_written;
	}
	c->weights_written = false;
	if (l.cluster) {
		CHECKF(c->card.is_hopper, "a kernel for clusters of blocks, which this card (%s) has not", c->card.name);
		attribute[config.numAttrs].id = cudaLaunchAttributeClusterDimension;
		attribute[config.numAttrs].val.clusterDim.x = (unsigned)l.cluster;
		attribute[config.numAttrs].val.clusterDim.y = 1;
		attribute[config.numAttrs++].val.clusterDim.z = 1;
	}
	kernel_shared(c, kernel, l.shared_bytes);
	CUDA_CHECK(cudaLaunchKernelEx(&config, kernel, (P)args...));
}
#endif
