/* attention: what the packed forward and backward passes share. A work item is `positions` queries
 * (or keys) of one sequence (span_find). */
#ifndef HONE_CUDA_ATTENTION_CUH
#define HONE_CUDA_ATTENTION_CUH
#include "attention_walk.cuh"
#include "cuda_device.cuh"

struct packed_attention {
	int HD;               /* columns of a head */
	const bf16 *q;        /* head h of a row at h * HD */
	const bf16 *k;        /* key heads, likewise */
	const bf16 *v;        /* value heads, likewise */
	int64_t q_row;        /* elements from a row of q to the next */
	int64_t k_row;        /* the same of k */
	int64_t v_row;        /* the same of v */
	bf16 *att;            /* forward's result, heads as in q */
	int64_t att_row;      /* elements from a row of it to the next */
	float *lse;           /* (T, NH), natural; NULL: not wanted */
	const bf16 *datt;     /* backward: row stride att_row, as att */
	bf16 *dq;             /* the gradients, heads as in q, k and v */
	bf16 *dk;             /* of k */
	bf16 *dv;             /* of v */
	int64_t dq_row;       /* elements from a row of dq to the next */
	int64_t dk_row;       /* the same of dk */
	int64_t dv_row;       /* the same of dv */
	float *delta;         /* (T, NH) scratch of backward: sum over d of datt * att */
	const int32_t *start; /* (S + 1) first row of each sequence */
	int S;                /* sequences */
	int T;                /* rows */
	int NH;               /* query heads */
	int NKV;              /* key heads */
	int group;            /* NH / NKV */
	int pack;             /* forward: heads of a group that share a block's keys */
	float scale;          /* 1 / sqrt(HD) */
	float scale_log2;     /* the same times log2(e) */
};

/* No more items than this: every sequence rounds up once. */
static inline unsigned span_count_max(const struct packed_attention *a, int positions)
{
	return (unsigned)(a->T / positions + a->S);
}

/* What both directions say of a batch. q and k lie in qkv where the heads have no norm. */
static inline struct packed_attention packed_attention_of(const struct ops_context *c, const struct ops_heads *h,
	const struct ops_batch *b, const struct elem *q, const struct elem *k, const struct elem *qkv)
{
	CHECKF(b->is_packed, "attention over packed rows, but the batch has pages");
	CHECKF(h->HD % CUDA_HEAD_STEP == 0 && h->HD <= CUDA_HEAD_MAX,
		"heads of %d elements; the CUDA backend takes multiples of %d up to %d", h->HD, CUDA_HEAD_STEP, CUDA_HEAD_MAX);
	CHECK(h->NH > 0 && h->NKV > 0 && h->NH % h->NKV == 0);
	int Q = h->NH * h->HD, KV = h->NKV * h->HD, all = Q + 2 * KV;
	struct packed_attention a = {};
	a.HD = h->HD, a.q = elems(q), a.q_row = q == qkv ? all : Q;
	a.k = k == qkv ? elems(qkv) + Q : elems(k), a.k_row = k == qkv ? all : KV;
	a.v = elems(qkv) + Q + KV, a.v_row = all;
	a.att_row = Q + c->tail;
	a.start = b->view.start, a.S = b->sequences, a.T = b->rows;
	a.NH = h->NH, a.NKV = h->NKV, a.group = h->NH / h->NKV, a.pack = a.group % 2 ? 1 : 2;
	a.scale = (float)(1 / sqrt((double)h->HD)), a.scale_log2 = scale_log2_of(h->HD);
	return a;
}

/* Surplus rows of a matrix become zeros: what is multiplied with them must be finite. */
static inline void surplus_clear(
	struct ops_context *c, bf16 *rows, int64_t row, int columns, const struct ops_batch *b, int T)
{
	if (T > b->rows)
		CUDA_CHECK(cudaMemset2DAsync(rows + b->rows * row, (size_t)row * sizeof *rows, 0,
			(size_t)columns * sizeof *rows, (size_t)(T - b->rows), c->stream));
}
#endif
