/* cuda_figures: what the CUDA backend takes of the GPU's memory beside what it is asked for,
 * in one place for the backend, which takes it, and for memory plans, which are made on
 * machines without a GPU too. */
#ifndef HONE_CUDA_FIGURES_H
#define HONE_CUDA_FIGURES_H
#include <stddef.h>
#include <stdint.h>
#include "ops/ops.h"

#define CUDA_WORKSPACE_BYTES ((size_t)64 << 20)   /* of products */
#define CUDA_STAGING_BYTES ((size_t)16 << 20)     /* one of the buffers that weights travel through */
#define CUDA_STAGING_COUNT 4
#define CUDA_CHUNK 256   /* keys of a partial result of attention */
#define CUDA_SLICE 1024  /* rows of a partial sum of adapter and bias gradients */
#define CUDA_RANKS_BYTES ((size_t)256 << 20) /* values of all ranks, a chunk at a time */
#define CUDA_RANKS_LIBRARY_BYTES ((size_t)1 << 30) /* NCCL's own, of several ranks: an estimate */
/* Driver, kernels, cuBLASLt's own and recorded graphs: what was seen on an H200, rounded
 * up (docs/perf-log.md). */
#define CUDA_DRIVER_BYTES ((size_t)1 << 30)

#define CUDA_HEAD_STEP 8              /* of which a head's size is a multiple, */
#define CUDA_HEAD_MAX 256             /* and its most */
#define CUDA_VOCAB_MAX (8 * 48 * 1024) /* floats of a row of logits in the shared memory of a cluster of 8 blocks */
#define CUDA_HIDDEN_MAX (3 * 512 * 8) /* columns of a norm's row: pieces of 8 of 512 threads */
#define CUDA_NORM_ROWS 16             /* rows of a partial sum of a norm's gradient */
#define CUDA_SQUARES_ELEMENTS 16384   /* of a partial sum of squares */

static inline size_t cuda_blocks(int64_t n, int64_t size) { return (size_t)((n + size - 1) / size); }
static inline size_t cuda_rounded(size_t bytes) { return (bytes + 255) / 256 * 256; }

/* ---- scratch: the same memory serves every stage ---- */

/* Decode attention: partial results (rows, chunks, NH, HD + 2) of every row
 * that a batch may hold. */
static inline size_t cuda_paged_scratch(int rows, int chunks, int NH, int HD)
{
	return (size_t)rows * (size_t)chunks * (size_t)NH * ((size_t)HD + 2) * sizeof(float);
}
/* A product of few rows, cut along K: the sums of its ranges, at most. */
#define CUDA_RANGES 8
#define CUDA_RANGES_ROWS 1024   /* at a time */
static inline size_t cuda_ranges_scratch(int T, int64_t widest)
{
	return (size_t)CUDA_RANGES * (size_t)(T < CUDA_RANGES_ROWS ? T : CUDA_RANGES_ROWS) * (size_t)widest * sizeof(float);
}
/* An adapter's gradients: partial sums, r times the widest side of a linear
 * for each slice of rows, */
static inline size_t cuda_thin_scratch(int T, int r, int64_t widest)
{
	return cuda_blocks(T, CUDA_SLICE) * (size_t)r * (size_t)widest * sizeof(float);
}
/* and the gradient of h (T, columns), where it has no place behind that of x. */
static inline size_t cuda_thin_input(int T, int columns) { return cuda_rounded((size_t)T * (size_t)columns * 2); }
/* Attention's backward pass: a sum for each row and head. */
static inline size_t cuda_delta_scratch(int T, int NH) { return (size_t)T * (size_t)NH * sizeof(float); }
/* The gradient of a norm's weights. */
static inline size_t cuda_norm_scratch(int T, int C)
{
	return cuda_blocks(T, CUDA_NORM_ROWS) * (size_t)C * sizeof(float);
}
/* The norm of all gradients: a sum for each chunk of values, and the total. */
static inline size_t cuda_squares_scratch(int64_t chunks) { return (size_t)(chunks + 1) * sizeof(double); }

/* ---- a batch ---- */

/* Bytes of its fields, in their order (struct batch_view), and how many there are. */
enum cuda_batch_field {
	CUDA_BATCH_HEAD,
	CUDA_BATCH_IDS,
	CUDA_BATCH_POS,
	CUDA_BATCH_SEQUENCE,
	CUDA_BATCH_START,
	CUDA_BATCH_TABLE,
	CUDA_BATCH_WANT,
	CUDA_BATCH_AT,
	CUDA_BATCH_TARGET,
	CUDA_BATCH_TEMPERATURE,
	CUDA_BATCH_FROM,
	CUDA_BATCH_LEFT,
	CUDA_BATCH_STOP,
	CUDA_BATCH_DRAW,
	CUDA_BATCH_FIELDS
};
#define CUDA_BATCH_HEADS 3   /* numbers of the head, and of what is wanted: at most */
static inline int cuda_batch_chunks(int pages) { return (pages * OPS_PAGE + CUDA_CHUNK - 1) / CUDA_CHUNK; }
static inline size_t cuda_batch_field(enum cuda_batch_field f, int T, int S, int pages, int n, int draws)
{
	size_t rows = (size_t)T,
		   each[CUDA_BATCH_FIELDS] = {CUDA_BATCH_HEADS, rows, rows, rows, (size_t)S + 1, (size_t)S * (size_t)pages,
			   CUDA_BATCH_HEADS, (size_t)n, (size_t)n, (size_t)n, (size_t)draws, (size_t)draws, OPS_STOPS_MAX,
			   (size_t)draws};
	return cuda_rounded(each[f] * (f == CUDA_BATCH_DRAW ? sizeof(struct ops_draw) : sizeof(int32_t)));
}
static inline size_t cuda_batch_bytes(int T, int S, int pages, int n, int draws)
{
	size_t bytes = 0;
	for (int f = 0; f < CUDA_BATCH_FIELDS; f++)
		bytes += cuda_batch_field((enum cuda_batch_field)f, T, S, pages, n, draws);
	return bytes;
}
#endif
