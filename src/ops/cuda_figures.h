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
#define CUDA_GROUP_MAX INT32_MAX      /* query heads of a key head: cut into shares where they are many */
#define CUDA_VOCAB_MAX (8 * 48 * 1024) /* floats of a row of logits in the shared memory of a cluster of 8 blocks */
#define CUDA_HIDDEN_STEP 8            /* of which hidden size and MLP are multiples, */
#define CUDA_HIDDEN_MAX (3 * 512 * 8) /* and columns of a norm's row: pieces of 8 of 512 threads */
#define CUDA_TILE_ROWS 16             /* rows of a block in the kernels whose rows lie along y of the grid, at least, */
#define CUDA_GRID_MOST 65535          /* and blocks along y and z, on every card */
#define CUDA_LIMITS \
	{CUDA_HEAD_STEP, CUDA_HEAD_MAX, CUDA_GROUP_MAX, CUDA_VOCAB_MAX, CUDA_HIDDEN_STEP, CUDA_HIDDEN_MAX, CUDA_TILE_ROWS, \
		CUDA_GRID_MOST}
#define CUDA_NORM_ROWS 16             /* rows of a partial sum of a norm's gradient */
#define CUDA_SQUARES_ELEMENTS 16384   /* of a partial sum of squares */

static inline size_t cuda_blocks(int64_t n, int64_t size) { return (size_t)((n + size - 1) / size); }
static inline size_t cuda_rounded(size_t bytes) { return (bytes + 255) / 256 * 256; }

/* ---- scratch: the same memory serves every stage ---- */

/* Decode attention: partial results (sequences, chunks, NH, HD + 2) of the one row that each
 * sequence of a batch has then. */
static inline size_t cuda_paged_scratch(int sequences, int chunks, int NH, int HD)
{
	return (size_t)sequences * (size_t)chunks * (size_t)NH * ((size_t)HD + 2) * sizeof(float);
}
/* A product of few rows, cut along K: the sums of its ranges, so many columns of all of them. Into
 * the residual stream at most CUDA_RANGES; with batch_invariant as many as follow from K alone,
 * whatever the product is for. */
#define CUDA_RANGES 8
#define CUDA_RANGES_ROWS 1024   /* at a time */
#define CUDA_INVARIANT_RANGES 4 /* where K is at least CUDA_INVARIANT_K, else 1 */
#define CUDA_INVARIANT_K 8192
static inline int cuda_invariant_ranges(int64_t K) { return K >= CUDA_INVARIANT_K ? CUDA_INVARIANT_RANGES : 1; }
static inline size_t cuda_ranges_scratch(int T, int64_t columns)
{
	return (size_t)(T < CUDA_RANGES_ROWS ? T : CUDA_RANGES_ROWS) * (size_t)columns * sizeof(float);
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
/* The gradient of a norm's weights; of the norms of heads two rows of a head's columns. */
static inline size_t cuda_norm_scratch(int T, int C)
{
	return cuda_blocks(T, CUDA_NORM_ROWS) * (size_t)C * sizeof(float);
}
/* The norm of all gradients: a sum for each chunk of values, and the total. */
static inline size_t cuda_squares_scratch(int64_t chunks) { return (size_t)(chunks + 1) * sizeof(double); }

/* ---- batch_invariant: products, beside scratch ---- */

#define CUDA_BLOCK_ROWS 64   /* of the product that all others of a matrix are held against */

static inline int64_t cuda_padded(int64_t columns) { return (columns + 7) / 8 * 8; }

/* Rows of x and of y (K terms and N columns, in `ranges` of K side by side) where a product is made
 * CUDA_BLOCK_ROWS rows at a time: y's begin behind x's. */
static inline size_t cuda_block_input(int64_t K) { return cuda_rounded(CUDA_BLOCK_ROWS * (size_t)cuda_padded(K) * 2); }
static inline size_t cuda_block_bytes(int64_t K, int64_t N, int ranges)
{
	return cuda_block_input(K) + (size_t)ranges * CUDA_BLOCK_ROWS * (size_t)N * sizeof(float);
}

/* What algorithms of a matrix are compared on, when the first product by it is met: bytes of each
 * array, in their order. */
enum cuda_trial_part {
	CUDA_TRIAL_X,
	CUDA_TRIAL_W,
	CUDA_TRIAL_WANT,
	CUDA_TRIAL_GOT,
	CUDA_TRIAL_DIFFERS,
	CUDA_TRIAL_PARTS
};
#define CUDA_TRIAL_ROWS (8 * CUDA_BLOCK_ROWS)
#define CUDA_TRIAL_COLUMNS 4096   /* as many as CUDA_TRIAL_WEIGHTS elements have, at least CUDA_BLOCK_ROWS */
#define CUDA_TRIAL_WEIGHTS (1 << 27)
static inline int64_t cuda_trial_columns(int64_t K, int64_t N)
{
	int64_t most = CUDA_TRIAL_WEIGHTS / K / CUDA_BLOCK_ROWS * CUDA_BLOCK_ROWS;
	if (most < CUDA_BLOCK_ROWS) most = CUDA_BLOCK_ROWS;
	if (most > CUDA_TRIAL_COLUMNS) most = CUDA_TRIAL_COLUMNS;
	return N < most ? N : most;
}
static inline size_t cuda_trial_part(enum cuda_trial_part p, int64_t K, int64_t N, int ranges)
{
	size_t terms = (size_t)cuda_padded(K), columns = (size_t)cuda_padded(cuda_trial_columns(K, N)),
		   outputs = (size_t)ranges * CUDA_TRIAL_ROWS * columns * sizeof(float),
		   bytes[CUDA_TRIAL_PARTS] = {CUDA_TRIAL_ROWS * terms * 2, columns * terms * 2, outputs, outputs, 4};
	return cuda_rounded(bytes[p]);
}
static inline size_t cuda_trial_bytes(int64_t K, int64_t N, int ranges)
{
	size_t bytes = 0;
	for (int p = 0; p < CUDA_TRIAL_PARTS; p++) bytes += cuda_trial_part((enum cuda_trial_part)p, K, N, ranges);
	return bytes;
}

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
