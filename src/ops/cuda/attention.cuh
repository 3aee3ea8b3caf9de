/* attention: what the packed forward and backward passes share. A work item is `positions` queries (or
 * keys) of one sequence; a block finds its item by counting through the sequences, so that the host
 * has no table to build and nothing to send. */
#ifndef HONE_CUDA_ATTENTION_CUH
#define HONE_CUDA_ATTENTION_CUH
#include "mma.cuh"

#define CHUNK_KEYS 256   /* keys folded into the total at once, from position 0 (docs/design.md) */
#define SUBTILE_KEYS 64  /* keys of one step of the online softmax */

struct packed_attention {
	const __nv_bfloat16 *q, *k, *v;   /* row strides below; head h of q at h * HD */
	int64_t q_row, k_row, v_row;
	__nv_bfloat16 *att;               /* forward's result */
	int64_t att_row;
	float *lse;                       /* (T, NH), natural; NULL: not wanted */
	const __nv_bfloat16 *datt;        /* backward: row stride att_row, as att */
	__nv_bfloat16 *dq, *dk, *dv;
	int64_t dq_row, dk_row, dv_row;
	float *delta;                     /* (T, NH) scratch of backward: sum over d of datt * att */
	const int32_t *start;             /* (S + 1) first row of each sequence */
	int S, T;
	int NH, NKV;
	int group;                        /* NH / NKV */
	int pack;                         /* forward: heads of a group that share a block's keys */
	float scale;                      /* 1 / sqrt(HD) */
	float scale_log2;                 /* the same times log2(e) */
};

/* false: no kernel for this head size. */
bool attention_forward_launch(const struct packed_attention *, int HD, cudaStream_t);
bool attention_backward_launch(const struct packed_attention *, int HD, cudaStream_t);

struct span {
	int first;      /* the sequence's first row */
	int length;     /* its rows; 0: this block has nothing to do */
	int position;   /* the item's first position */
};

/* Item `index` of all sequences cut into runs of `positions`. Every warp counts by itself: 32 sequences at a time. */
static __device__ __forceinline__ struct span span_find(const int32_t *start, int S, int index, int positions)
{
	int lane = (int)(threadIdx.x & 31);
	for (int base = 0; base < S; base += 32) {
		int s = base + lane, first = s < S ? start[s] : 0, length = s < S ? start[s + 1] - first : 0;
		int items = (length + positions - 1) / positions, before = items;
		for (int d = 1; d < 32; d *= 2) {
			int left = __shfl_up_sync(0xffffffffu, before, d);
			if (lane >= d) before += left;
		}
		int all = __shfl_sync(0xffffffffu, before, 31);
		before -= items;
		unsigned mine = __ballot_sync(0xffffffffu, index >= before && index < before + items);
		if (mine) {
			int owner = __ffs((int)mine) - 1;
			struct span found;
			found.first = __shfl_sync(0xffffffffu, first, owner);
			found.length = __shfl_sync(0xffffffffu, length, owner);
			found.position = (index - __shfl_sync(0xffffffffu, before, owner)) * positions;
			return found;
		}
		index -= all;
	}
	struct span none = {0, 0, 0};
	return none;
}

/* No more items than this: every sequence rounds up once. */
static inline int span_count_max(int T, int S, int positions) { return T / positions + S; }
#endif
