/* paged_shares: how decode's units of work, each a chunk of keys of a pair of row and key head, are
 * dealt to blocks: as many to each as to the others, a block's one behind the other (paged.cu). */
#ifndef HONE_CUDA_PAGED_SHARES_CUH
#define HONE_CUDA_PAGED_SHARES_CUH
#include "paged.cuh"

#define DECODE_WARPS 4
#define DECODE_THREADS (DECODE_WARPS * WARP)

struct item { /* a unit */
	int row;
	int chunk;
	int kv;               /* its key head, or share of one's group */
	int pos;              /* the row's position: its last key */
	const int32_t *table; /* the sequence's pages */
};

struct share {
	int first;         /* number of its first unit, of all */
	int all;           /* units of all blocks */
	int count;         /* its units */
	struct item begin; /* the first */
};
struct mark { /* where a share begins */
	int unit; /* number of the unit, of all */
	int row;
	int kv;
	int chunk;
	int pos;
	int sequence;
};

/* Unit `unit` of a row whose first one is `before`. A pair that is short beside a share is not cut:
 * the share begins with all of it. */
static __device__ __forceinline__ struct mark mark_of(
	const struct paged_args &a, int row, int pos, int sequence, int before, int unit, int all)
{
	int chunks = pos / CHUNK + 1, rest = unit - before;
	struct mark m = {unit, row, rest / chunks, rest % chunks, pos, sequence};
	if (2 * chunks <= all / (int)gridDim.x) m.unit -= m.chunk, m.chunk = 0;
	return m;
}

/* The block's share, from the positions of all rows; called by all threads. Loads that depend on
 * each other are what it waits for, so a thread asks for all of its first row at once. */
static __device__ __forceinline__ struct share share_find(const struct paged_args &a)
{
	__shared__ int warps[DECODE_WARPS];
	__shared__ struct mark marks[2];
	int each = (a.T + DECODE_THREADS - 1) / DECODE_THREADS, first = (int)threadIdx.x * each, own = 0, before;
	int lane = (int)threadIdx.x % WARP, at_first = min(first, a.T - 1), pos_first = a.b.pos[at_first],
		sequence_first = a.b.sequence[at_first], last = min(a.b.head[HEAD_ROWS], first + each);
	auto pos_of = [&](int row) { return row == first ? pos_first : a.b.pos[row]; };
	/* Chunks of this thread's rows, and of those before them. */
	for (int row = first; row < last; row++) own += pos_of(row) / CHUNK + 1;
	before = own;
	for (int d = 1; d < WARP; d *= 2) {
		int left = __shfl_up_sync(ALL_LANES, before, d);
		if (lane >= d) before += left;
	}
	if (lane == WARP - 1) warps[threadIdx.x / WARP] = before;
	__syncthreads();
	int all = 0;
	before -= own;
	for (int w = 0; w < DECODE_WARPS; w++) {
		if (w < (int)threadIdx.x / WARP) before += warps[w];
		all += warps[w];
	}
	/* Who has the row in which a share begins says so: this block's and the next one's. */
	int pairs = a.NKV * a.shares, units = all * pairs, blocks = (int)gridDim.x, each_share = units / blocks,
		over = units % blocks;
	for (int i = 0; i < 2; i++) {
		/* units * block / blocks, rounded down */
		int block = (int)blockIdx.x + i, unit = each_share * block + over * block / blocks, at = before * pairs;
		if (unit == units && threadIdx.x == 0) marks[i] = {units, 0, 0, 0, 0, 0};
		for (int row = first; row < last && at <= unit; row++) {
			int next = at + (pos_of(row) / CHUNK + 1) * pairs;
			if (unit < next)
				marks[i] = mark_of(
					a, row, pos_of(row), row == first ? sequence_first : a.b.sequence[row], at, unit, units);
			at = next;
		}
	}
	__syncthreads();
	struct mark m = marks[0];
	struct item begin = {m.row, m.chunk, m.kv, m.pos, a.b.table + (int64_t)m.sequence * a.b.pages};
	return {m.unit, units, marks[1].unit - m.unit, begin};
}

/* The unit behind it, which there is. */
static __device__ __forceinline__ struct item item_next(const struct paged_args &a, const struct item &it)
{
	struct item next = it;
	if (it.chunk < it.pos / CHUNK) {
		next.chunk++;
		return next;
	}
	next.chunk = 0;
	if (++next.kv < a.NKV * a.shares) return next;
	next.kv = 0, next.pos = a.b.pos[++next.row];
	next.table = a.b.table + (int64_t)a.b.sequence[next.row] * a.b.pages;
	return next;
}
#endif
