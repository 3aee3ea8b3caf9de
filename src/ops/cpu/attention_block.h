/* attention_block: what attention's forward and backward share: a block of queries that belong to
 * one key/value head, laid out as the rows of a matrix.
 *
 * Row r is head r % group of token r / group, so rows are in order of position and all rows use the
 * same keys: grouped-query attention makes the matrices taller. */
#ifndef HONE_ATTENTION_BLOCK_H
#define HONE_ATTENTION_BLOCK_H
#include "ops_cpu.h"
#include "gemm_kernel.h"

#define ROWS_MAX CPU_GROUP_MAX /* of a block: one token's heads of a group at least */
#define KEYS OPS_PAGE
#define KEY_VECTORS (KEYS / VL)

struct attention_args {
	float *out; /* results, in ops_cpu.h's shapes */
	float *lse_out;
	float *dq;
	float *dk;
	float *dv;
	const float *q; /* operands */
	const float *k;
	const float *v;
	const float *dout;
	const float *saved_out;
	const float *lse;
	const struct ops_packed *packed;
	const struct ops_paged *paged;
	int NH;
	int NKV;
	int HD;
	int group;      /* NH / NKV */
	int tokens_max; /* of a block of queries */
	float scale;
	struct ops_context *c;
};

static inline struct attention_args attention_args(struct ops_context *c, int NH, int NKV, int HD)
{
	CHECKF(HD > 0 && HD <= HEAD_DIM_MAX && NKV > 0 && NH % NKV == 0 && NH / NKV <= ROWS_MAX,
		"%d query heads, %d key heads of size %d", NH, NKV, HD);
	int group = NH / NKV;
	return (struct attention_args){
		.c = c,
		.NH = NH,
		.NKV = NKV,
		.HD = HD,
		.group = group,
		.tokens_max = MIN(64, ROWS_MAX / group),
		.scale = 1.0f / sqrtf((float)HD),
	};
}

/* The rows that hold positions p.. of a sequence's past, as far as they lie side by side. */
struct past_run {
	int64_t row;
	int count;
};
static inline struct past_run past_run(const struct ops_packed *b, int sequence, int p)
{
	/* Up through the sequences it follows, to the one that p belongs to. What follows the last row
	 * of a run sees no more of that sequence. */
	int row = b->start[sequence + 1] - 1;
	while (p < b->pos[b->start[sequence]]) {
		row = b->follows[sequence];
		sequence = b->sequence[row];
	}
	int first = b->start[sequence] + p - b->pos[b->start[sequence]];
	return (struct past_run){first, row + 1 - first};
}

/* Rows (tokens * group, A_ROW) from x (T, NH, HD), where x points at the first token's first head
 * of the group. */
static inline void rows_gather(float *rows, const float *x, const struct attention_args *a, int tokens, float scale)
{
	for (int i = 0; i < tokens; i++)
		for (int h = 0; h < a->group; h++, rows += A_ROW) {
			const float *from = x + ((int64_t)i * a->NH + h) * a->HD;
			for (int d = 0; d < a->HD; d++) rows[d] = from[d] * scale;
		}
}

/* A block of up to KEYS keys as panels (KEYS / NR, HD, NR): B of the product with queries. */
static inline void keys_pack(float *panels, const float *keys, int64_t stride, int n, int HD)
{
	for (int p = 0; p < KEYS; p += NR)
		pack_columns(panels + p * HD, keys + p * stride, stride, HD, MAX(0, MIN(NR, n - p)));
}

/* scores (rows, A_ROW) = queries (rows, A_ROW) times panels. */
static inline void scores_run(float *scores, const float *queries, const float *panels, int rows, int HD)
{
	for (int p = 0; p < KEYS; p += NR)
		tiles_run((struct tile){.a = queries,
					  .b = panels + p * HD,
					  .b_row = NR,
					  .c = scores + p,
					  .c_row = A_ROW,
					  .K = HD,
					  .alpha = 1,
					  .padded = true},
			rows, NR);
}

/* Lanes of vector i of a row of scores that lie behind its last visible key become fill. */
static inline vf visible(vf x, int i, int nvisible, float fill)
{
	int n = nvisible - i * VL;
	return n >= VL ? x : vf_keep(x, MAX(n, 0), fill);
}
#endif
