/* few: products of a large projection for 5 to 64 rows on Hopper, and of the largest for up
 * to 256: y (T, N) = x W^T as tensor-core steps whose rows are W's, so that a step of few
 * tokens wastes nothing. Such a product lasts as long as its W takes to come, so everything
 * here is there to keep W coming.
 *
 * There is one block a multiprocessor. One of its warps asks for tiles of W and x by tensor copies,
 * up to ten stages ahead; 1 to 3 warpgroups multiply, each 64 rows of W by all rows of x. W does
 * not depend on the kernel before: its first stages are asked for while that one still runs. K may
 * be cut into ranges, whose sums go to scratch, for whoever adds the residual stream (struct sums).
 * Blocks of a cluster have neighbouring rows of W: each asks for its share of x and all get it.
 *
 * The thin product of the adapter is made here as well, if its rows' writer has left it (struct
 * thin_wait): a few blocks, the first ones, multiply x with A while the others walk over W, and
 * write the tail of x; the columns of the tail come last in every walk, and who asks for them waits
 * for a flag. No block waits for one behind it.
 *
 * Gate and up: where the caller's next stage is the gate, rows 8 i.. of both parts share a tile of
 * 16, so that a thread holds gate and up of the same column and stores silu(gate) * up.
 *
 * Fixed order of sums: for one number of rows the same bits each time. Not the order of other
 * numbers of rows: with batch_invariant linear.cu does not come here. */
#include "cuda_device.cuh"
#include "rows_many.cuh"
#include "wgmma.cuh"
#include "few.cuh"

#define FEW_SMALL 64                 /* rows; of more it pays from */
#define FEW_WEIGHTS_LARGE (1 << 25)  /* elements on: the library has no gate in its end */
#define FEW_GROUPS 3       /* warpgroups that multiply, at most */
#define FEW_STAGES 10
#define FEW_THIN_BLOCKS 4  /* that make the thin product */
#define FEW_RANGES 4       /* of K, at most */
#define FEW_SHARED_LARGE (227 << 10) /* where sums take so many registers that no other block fits */
#define FEW_SHARED (220 << 10)       /* of a block: what is left serves the rows of the kernel before */
#define RING_HEAD 1024     /* of shared memory, for barriers */
#define TILE_ROW (TILE_COLUMNS * 2)

struct few_maps {             /* what tensor copies are told of the matrices */
	CUtensorMap w;            /* of a tile of W */
	CUtensorMap x;            /* of a cluster's share of x */
	CUtensorMap a[OPS_PARTS]; /* of each part's A; unused where a part has none */
};
struct few_args {
	void *y;              /* (T, N), or the gate's (T, N / 2) */
	int64_t y_ld;         /* elements from a row of y to the next */
	float *sums;          /* (ranges, T, N) where there are several */
	const bf16 *bias;     /* (N) or NULL */
	const bf16 *add;      /* as y, or NULL */
	int T;                /* rows */
	int N;                /* rows of W, both parts of a gate together */
	bool is_f32;          /* y is fp32, else bf16 */
	bool is_gate;         /* W is gate | up, y silu(gate) * up */
	int groups;           /* of this launch */
	int stages;           /* of the ring */
	uint32_t w_bytes;     /* of a stage */
	uint32_t stage_bytes; /* of a stage: W's tile and x's rows */
	int chunks;           /* of K and the tail's, TILE_COLUMNS each */
	int ranges;           /* of K */
	int tiles;            /* of W's rows, a multiple of the cluster */
	int cluster;          /* blocks of one */
	int walks;            /* clusters of tiles times ranges */
	int step;             /* clusters of the launch */
	/* the thin product */
	int thin_blocks;  /* 0: there is none, or it stands already */
	int thin_chunks;  /* of the input, TILE_COLUMNS each */
	int r;            /* rank */
	int parts;        /* of the linear */
	int used;         /* columns of the tail: r * parts <= 64 */
	int tail;         /* spare columns behind a row of x */
	unsigned adapted; /* bit i: part i has an A */
	float scaling;    /* of the thin product */
	bf16 *x;          /* (T, in + tail) whose tail is written here */
	int64_t x_ld;     /* elements from a row of x to the next */
	int in;           /* columns of x before its tail */
	float *partial;   /* (thin_blocks, T, used) */
	/* Blocks that have stored their share; their rows of the tail; blocks that
	 * know. 0 between launches. */
	unsigned *flags;
};

/* Threads that ask for stages, behind those that multiply: two warps; where sums need more
 * registers than an equal share, a group, which gives most of its own away. */
template <int ROWS> struct few_shape {
	static constexpr bool HAS_LARGE_SUMS = ROWS > 128;
	static constexpr int ASKING = HAS_LARGE_SUMS ? 128 : 2 * WARP;
	static constexpr int THREADS = FEW_GROUPS * 128 + ASKING;
};

#ifdef __CUDA_ARCH_FEAT_SM90_ALL

/* ---- what a block has to do ---- */

struct walk {  /* over chunks of K, for a tile of W */
	int first; /* chunk */
	int last;  /* behind it */
	int tile;  /* of W's rows */
	int range; /* of K */
};

/* Clusters take the walks in turn; a block of the thin product has one of its own. */
static __device__ __forceinline__ bool is_thin(const struct few_args &a) { return (int)blockIdx.x < a.thin_blocks; }
static __device__ __forceinline__ int rank_of(const struct few_args &a) { return (int)blockIdx.x & (a.cluster - 1); }
static __device__ __forceinline__ int walk_begin(const struct few_args &a)
{
	return is_thin(a) ? 0 : ((int)blockIdx.x - a.thin_blocks) / a.cluster;
}
static __device__ __forceinline__ int walk_end(const struct few_args &a) { return is_thin(a) ? 1 : a.walks; }

static __device__ __forceinline__ struct walk walk_of(const struct few_args &a, int index)
{
	int across = a.tiles / a.cluster;
	struct walk w;
	w.range = is_thin(a) ? (int)blockIdx.x : index / across;
	int chunks = is_thin(a) ? a.thin_chunks : a.chunks, ranges = is_thin(a) ? a.thin_blocks : a.ranges;
	w.first = chunks * w.range / ranges, w.last = chunks * (w.range + 1) / ranges;
	w.tile = index % across * a.cluster + rank_of(a);
	return w;
}

/* The ring of stages in shared memory: two barriers of each, that it is full and that it is
 * empty, then the stages. */
static __device__ __forceinline__ uint32_t full_at(uint32_t ring, int stage) { return ring + 8 * (uint32_t)stage; }
static __device__ __forceinline__ uint32_t empty_at(uint32_t ring, int stage)
{
	return ring + 8 * (uint32_t)(FEW_STAGES + stage);
}
static __device__ __forceinline__ uint32_t stage_at(uint32_t ring, const struct few_args &a, int stage)
{
	return ring + RING_HEAD + (uint32_t)stage * a.stage_bytes;
}
struct place {     /* in the ring */
	int stage;     /* of the ring */
	uint32_t turn; /* 0 and 1 alternately, as the ring goes round: the parity of its barriers */
};
static __device__ __forceinline__ void place_next(struct place *p, const struct few_args &a)
{
	if (++p->stage == a.stages) p->stage = 0, p->turn ^= 1;
}

/* ---- the warp that asks ---- */

/* W's or A's part of a stage. */
static __device__ __forceinline__ void weights_ask(
	const struct few_maps &m, const struct few_args &a, uint32_t ring, int stage, int k, int tile)
{
	uint32_t to = stage_at(ring, a, stage), barrier = full_at(ring, stage);
	if (!is_thin(a)) {
		gate_expect(barrier, a.w_bytes);
		if (a.is_gate) box_fetch_4(to, &m.w, barrier, k * TILE_COLUMNS, 0, 0, tile * a.groups * 4, KEEP_NOT);
		else box_fetch(to, &m.w, barrier, k * TILE_COLUMNS, tile * a.groups * 64, KEEP_NOT);
		return;
	}
	gate_expect(barrier, (uint32_t)(__popc(a.adapted) * a.r * TILE_ROW));
#pragma unroll
	for (int i = 0; i < OPS_PARTS; i++)
		if (a.adapted >> i & 1)
			box_fetch(to + (uint32_t)(i * a.r * TILE_ROW), &m.a[i], barrier, k * TILE_COLUMNS, 0, KEEP);
}

/* x's part: this block's share of the rows for the whole cluster, or all of them for itself. */
template <int ROWS>
static __device__ __forceinline__ void rows_ask(
	const struct few_maps &m, const struct few_args &a, uint32_t ring, int stage, int k)
{
	int share = ROWS / a.cluster;
	uint32_t to = stage_at(ring, a, stage) + a.w_bytes, barrier = full_at(ring, stage),
			 bytes = (uint32_t)(share * TILE_ROW);
	gate_expect(barrier, ROWS * TILE_ROW);
	if (!is_thin(a) && a.cluster > 1) {
		box_spread(to + (uint32_t)rank_of(a) * bytes, &m.x, barrier, k * TILE_COLUMNS, rank_of(a) * share,
			(uint16_t)((1 << a.cluster) - 1), KEEP);
		return;
	}
	for (int i = 0; i < a.cluster; i++)
		box_fetch(to + (uint32_t)i * bytes, &m.x, barrier, k * TILE_COLUMNS, i * share, KEEP);
}

static __device__ __forceinline__ unsigned flag_read(const unsigned *p)
{
	unsigned v;
	asm volatile("ld.acquire.gpu.global.u32 %0, [%1];" : "=r"(v) : "l"(p) : "memory");
	return v;
}
/* The tail was written by ordinary stores, and is read by tensor copies. */
static __device__ __forceinline__ void tail_wait(const struct few_args &a)
{
	while (flag_read(a.flags + 1) < FEW_THIN_BLOCKS) __nanosleep(20);
	asm volatile("fence.proxy.async;" ::: "memory");
}

/* Two threads ask, one for W and one for x: one alone was slower than the stages. W does not wait
 * for the kernel before. */
static __device__ __forceinline__ void ask_weights(const struct few_maps &m, const struct few_args &a, uint32_t ring)
{
	int end = walk_end(a);
	struct place p = {0, 1};
	for (int i = walk_begin(a); i < end; i += a.step) {
		struct walk w = walk_of(a, i);
		for (int k = w.first; k < w.last; k++) {
			gate_wait(empty_at(ring, p.stage), p.turn);
			weights_ask(m, a, ring, p.stage, k, w.tile);
			place_next(&p, a);
		}
	}
}

template <int ROWS>
static __device__ __forceinline__ void ask_rows(const struct few_maps &m, const struct few_args &a, uint32_t ring)
{
	int end = walk_end(a);
	struct place p = {0, 1};
	bool has_tail = !a.thin_blocks || is_thin(a);
	grid_begin();
	for (int i = walk_begin(a); i < end; i += a.step) {
		struct walk w = walk_of(a, i);
		for (int k = w.first; k < w.last; k++) {
			gate_wait(empty_at(ring, p.stage), p.turn);
			if (!has_tail && k >= a.thin_chunks) tail_wait(a), has_tail = true;
			rows_ask<ROWS>(m, a, ring, p.stage, k);
			place_next(&p, a);
		}
	}
	/* Who knows last that the tail stands clears the flags, for the next launch. */
	if (!a.thin_blocks || is_thin(a)) return;
	if (!has_tail) tail_wait(a);
	if (atomicAdd(a.flags + 2, 1) == gridDim.x - a.thin_blocks - 1) a.flags[0] = a.flags[1] = a.flags[2] = 0;
}

/* ---- warpgroups that multiply ---- */

/* This group is done with a stage: whoever writes there is told. */
static __device__ __forceinline__ void stage_leave(const struct few_args &a, uint32_t ring, int stage)
{
	int thread = (int)threadIdx.x % 128;
	if (is_thin(a) ? thread == 0 : thread < a.cluster)
		gate_arrive(empty_at(ring, stage), is_thin(a) ? rank_of(a) : thread);
}

/* chunks: of the walk. */
template <int ROWS>
static __device__ __forceinline__ void multiply(
	float acc[ROWS / 2], const struct few_args &a, uint32_t ring, int chunks, struct place *p, int group)
{
	int has_sum = 0;
	/* A walk may have no chunk: of so few that there are more blocks. */
	if (!chunks)
#pragma unroll
		for (int i = 0; i < ROWS / 2; i++) acc[i] = 0;
	for (; chunks > 0; chunks--) {
		uint32_t stage = stage_at(ring, a, p->stage);
		gate_wait(full_at(ring, p->stage), p->turn);
		uint64_t rows_of_w = tile_descriptor(stage + (uint32_t)(group * 64 * TILE_ROW)),
				 rows_of_x = tile_descriptor(stage + a.w_bytes);
		wgmma_begin();
#pragma unroll
		for (int i = 0; i < TILE_COLUMNS / 16; i++)
			wgmma<ROWS>(acc, rows_of_w + 2 * (uint64_t)i, rows_of_x + 2 * (uint64_t)i, i ? 1 : has_sum);
		wgmma_commit();
		/* The steps of the stage before are over when at most this one's are left. */
		if (has_sum) {
			wgmma_wait<1>();
			stage_leave(a, ring, (p->stage ? p->stage : a.stages) - 1);
		}
		has_sum = 1;
		place_next(p, a);
	}
	wgmma_wait<0>();
	if (has_sum) stage_leave(a, ring, (p->stage ? p->stage : a.stages) - 1);
}

/* ---- results: lane 4 g + q of warp w of a group holds W's rows 16 w + g and 16 w + g + 8 and x's
 * rows 8 i + 2 q and 8 i + 2 q + 1 ---- */

/* Numbers that are asked of the machine again behind the sums: keeping them, or what follows from
 * them, would cost registers. */
static __device__ __forceinline__ int thread_again(void)
{
	int thread;
	asm volatile("mov.u32 %0, %%tid.x;" : "=r"(thread));
	return thread;
}
static __device__ __forceinline__ int block_again(void)
{
	int block;
	asm volatile("mov.u32 %0, %%ctaid.x;" : "=r"(block));
	return block;
}

static __device__ __forceinline__ uint32_t transposed(uint32_t v)
{
	uint32_t o;
	/* "memory": loads of later rows do not come before it, for which there are no registers */
	asm volatile("movmatrix.sync.aligned.m8n8.trans.b16 %0, %1;" : "=r"(o) : "r"(v) : "memory");
	return o;
}

/* to [T, N] from a warp's sums as mma leaves them: acc[4 i + e] is output n0 + lane / 4 + 8 (e / 2)
 * of row 8 i + lane % 4 * 2 + e % 2. */
template <int ROWS>
static __device__ __forceinline__ void floats_store(
	float *to, int64_t ld, const float acc[ROWS / 2], int T, int N, int n0, int lane)
{
	int n = n0 + lane / 4, t0 = lane % 4 * 2;
	float *from = to + t0 * ld + n;
#pragma unroll
	for (int i = 0; i < ROWS / 8; i++) {
#pragma unroll
		for (int e = 0; e < 4; e++)
			if (t0 + 8 * i + e % 2 < T && n + e / 2 * 8 < N) from[(e % 2) * ld + e / 2 * 8] = acc[4 * i + e];
		from += 8 * ld;
	}
}

template <int ROWS>
static __device__ __forceinline__ void gate_store(const struct few_args &a, const float acc[ROWS / 2], int n0, int lane)
{
	int n = n0 / 2 + lane % 4 * 2, t = lane / 4;
	bf16 *to = (bf16 *)a.y + t * a.y_ld + n;
#pragma unroll
	for (int i = 0; i < ROWS / 8; i++, t += 8, to += 8 * a.y_ld) {
		float v[2];
		/* Both rounded first, as they are where they go through memory. */
#pragma unroll
		for (int e = 0; e < 2; e++) {
			float2 both = unpack_bf16(pack_bf16(acc[4 * i + e], acc[4 * i + 2 + e]));
			v[e] = silu(both.x) * both.y;
		}
		uint32_t o = transposed(pack_bf16(v[0], v[1]));
		if (t < a.T && n < a.N / 2) *(uint32_t *)to = o;
	}
}

/* Bias and residual stream are added to the sum before it is rounded. */
template <int ROWS>
static __device__ __forceinline__ void elems_store(const struct few_args &a, float acc[ROWS / 2], int n0, int lane)
{
	int n = n0 + lane / 4, t0 = lane % 4 * 2;
	const bf16 *add = a.add ? a.add + t0 * a.y_ld + n : NULL;
	int t = lane / 4, column = n0 + lane % 4 * 2;
	bf16 *to = (bf16 *)a.y + t * a.y_ld + column;
#pragma unroll
	for (int i = 0; i < ROWS / 8; i++, t += 8, to += 8 * a.y_ld) {
#pragma unroll
		for (int e = 0; e < 4; e++) {
			if (a.bias && n + e / 2 * 8 < a.N) acc[4 * i + e] += __bfloat162float(a.bias[n + e / 2 * 8]);
			if (add && t0 + 8 * i + e % 2 < a.T && n + e / 2 * 8 < a.N)
				acc[4 * i + e] += __bfloat162float(add[(8 * i + e % 2) * a.y_ld + e / 2 * 8]);
		}
#pragma unroll
		for (int j = 0; j < 2; j++) {
			uint32_t o = transposed(pack_bf16(acc[4 * i + 2 * j], acc[4 * i + 2 * j + 1]));
			if (t < a.T && column + 8 * j < a.N) *(uint32_t *)(to + 8 * j) = o;
		}
	}
}

static __device__ __forceinline__ void group_meet(void) { asm volatile("bar.sync 1, 128;" ::: "memory"); }
static __device__ __forceinline__ void flag_raise(unsigned *p)
{
	__threadfence();
	group_meet();
	if (threadIdx.x == 0) atomicAdd(p, 1);
}

/* Four columns of the tail's row t, from the blocks' sums in their order. */
static __device__ __forceinline__ void tail_store(const struct few_args &a, int t, int column)
{
	float4 part[FEW_THIN_BLOCKS], sum = make_float4(0, 0, 0, 0);
	if (column < a.used && a.adapted >> column / a.r & 1) {
#pragma unroll
		for (int b = 0; b < FEW_THIN_BLOCKS; b++)
			part[b] = __ldcg((const float4 *)(a.partial + ((int64_t)b * a.T + t) * a.used + column));
#pragma unroll
		for (int b = 0; b < FEW_THIN_BLOCKS; b++)
			sum.x += part[b].x, sum.y += part[b].y, sum.z += part[b].z, sum.w += part[b].w;
	}
	*(uint2 *)(a.x + t * a.x_ld + a.in + column) = make_uint2(
		pack_bf16(sum.x * a.scaling, sum.y * a.scaling), pack_bf16(sum.z * a.scaling, sum.w * a.scaling));
}

/* The thin product's share of a block. When all have stored theirs, each
 * adds up some of the rows. */
template <int ROWS>
static __device__ __forceinline__ void thin_store(const struct few_args &a, const float acc[ROWS / 2], int n0, int lane)
{
	int block = block_again();
	floats_store<ROWS>(a.partial + (int64_t)block * a.T * a.used, a.used, acc, a.T, a.used, n0, lane);
	flag_raise(a.flags);
	while (flag_read(a.flags) < FEW_THIN_BLOCKS) __nanosleep(20);
	int quads = a.tail / 4, first = a.T * block / FEW_THIN_BLOCKS, last = a.T * (block + 1) / FEW_THIN_BLOCKS;
#pragma unroll 1
	for (int i = thread_again(); i < (last - first) * quads; i += 128) tail_store(a, first + i / quads, i % quads * 4);
	asm volatile("fence.proxy.async;" ::: "memory");
	flag_raise(a.flags + 1);
}

/* ROWS: of x, that a step multiplies. */
template <int ROWS> static __device__ __forceinline__ void compute(const struct few_args &a, uint32_t ring)
{
	struct place p = {0, 0};
	grid_begin();
	/* A block of the thin product has one walk, for one warpgroup. Apart from the
	 * others', which keep more. */
	if (is_thin(a)) {
		if (threadIdx.x >= 128) return;
		float acc[ROWS / 2];
		struct walk w = walk_of(a, 0);
		multiply<ROWS>(acc, a, ring, w.last - w.first, &p, 0);
		int thread = thread_again();
		thin_store<ROWS>(a, acc, thread / WARP * 16, thread % WARP);
		return;
	}
	for (int i = walk_begin(a); i < a.walks; i += a.step) {
		float acc[ROWS / 2];
		struct walk w = walk_of(a, i);
		multiply<ROWS>(acc, a, ring, w.last - w.first, &p, (int)threadIdx.x / 128);
		asm volatile("" : "+r"(i));
		w = walk_of(a, i);
		int thread = thread_again(), lane = thread % WARP;
		int n0 = w.tile * a.groups * 64 + thread / WARP * 16;
		if (a.ranges > 1) floats_store<ROWS>(a.sums + (int64_t)w.range * a.T * a.N, a.N, acc, a.T, a.N, n0, lane);
		else if (a.is_f32) floats_store<ROWS>((float *)a.y, a.y_ld, acc, a.T, a.N, n0, lane);
		else if (a.is_gate) gate_store<ROWS>(a, acc, n0, lane);
		else elems_store<ROWS>(a, acc, n0, lane);
	}
}
#endif

template <int ROWS>
static __global__ void __launch_bounds__(few_shape<ROWS>::THREADS, 1)
	few_kernel(const __grid_constant__ struct few_maps m, const struct few_args a)
{
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
	extern __shared__ unsigned char shared[];
	uint32_t ring = (shared_address(shared) + 1023) & ~1023u;
	if (threadIdx.x == 0) {
		for (int s = 0; s < a.stages; s++) {
			gate_make(full_at(ring, s), 2);
			gate_make(empty_at(ring, s), is_thin(a) ? 1 : a.groups * a.cluster);
		}
		asm volatile("fence.mbarrier_init.release.cluster;\nfence.proxy.async.shared::cta;" ::: "memory");
	}
	if (a.cluster > 1) cluster_meet();
	else __syncthreads();

	int multiplying = a.groups * 128;
	if ((int)threadIdx.x >= multiplying) {
		if (few_shape<ROWS>::HAS_LARGE_SUMS) asm volatile("setmaxnreg.dec.sync.aligned.u32 32;");
		if ((int)threadIdx.x == multiplying) ask_weights(m, a, ring);
		if ((int)threadIdx.x == multiplying + WARP) ask_rows<ROWS>(m, a, ring);
		__syncwarp();
	} else {
		if (few_shape<ROWS>::HAS_LARGE_SUMS) asm volatile("setmaxnreg.inc.sync.aligned.u32 160;");
		compute<ROWS>(a, ring);
		__syncwarp();
	}
	/* Nobody leaves while others may still write to its memory, or tell it something. */
	if (a.cluster > 1) cluster_meet();
#endif
}

/* ---- launching ---- */

static void map_make(struct ops_context *c, CUtensorMap *m, const bf16 *p, int rank, const int64_t *dims,
	const int64_t *steps, const int *box)
{
	/* Extents and steps from the fastest dimension on; the first step is an
	 * element and is not told. */
	cuuint64_t extent[4], bytes[3];
	cuuint32_t box_extent[4], every[4] = {1, 1, 1, 1};
	for (int i = 0; i < rank; i++) {
		extent[i] = (cuuint64_t)dims[i], box_extent[i] = (cuuint32_t)box[i];
		if (i) bytes[i - 1] = (cuuint64_t)steps[i] * sizeof(bf16);
	}
	CUresult rc = c->encode_map(m, CU_TENSOR_MAP_DATA_TYPE_BFLOAT16, (cuuint32_t)rank, (void *)p, extent, bytes,
		box_extent, every, CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_128B,
		CU_TENSOR_MAP_L2_PROMOTION_L2_256B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
	CHECKF(rc == CUDA_SUCCESS, "a tensor map of (%lld, %lld) elements is refused with status %d", (long long)dims[1],
		(long long)dims[0], (int)rc);
}

static void map_rows(
	struct ops_context *c, CUtensorMap *m, const bf16 *p, int64_t columns, int64_t rows, int64_t ld, int box_rows)
{
	const int64_t dims[2] = {columns, rows}, steps[2] = {1, ld};
	const int box[2] = {TILE_COLUMNS, box_rows};
	map_make(c, m, p, 2, dims, steps, box);
}

/* Tiles of W's rows by warpgroups, and ranges: those with the least estimated time, in cycles. A
 * chunk takes a block what its bytes take on their way into a multiprocessor, but never less than a
 * stage's turn; no launch ends before its thin product; ranges are written and read again. Figures
 * of an H200. Where a tile is no larger than x, two blocks share x (larger tiles gain nothing, and
 * clusters of four leave too many multiprocessors without a block). */
static void few_choose(const struct ops_context *c, struct few_args *a, int rows, bool may_range)
{
	const double byte = 1.0 / 40, turn = 450, step = 2.2, thin = 11000, stored = 2.0 / 3000;
	double least = a->thin_blocks ? a->thin_chunks / a->thin_blocks * turn + thin : 0, best = 1e30;
	int free_blocks = c->sms - a->thin_blocks, most = may_range ? MIN(FEW_RANGES, a->chunks) : 1;
	struct few_args found = *a;
	for (int groups = 1; groups <= FEW_GROUPS; groups++)
		for (int ranges = 1; ranges <= most; ranges++) {
			int cluster = groups == 1 && ranges == 1 ? 2 : 1, tiles = (a->N + groups * 64 - 1) / (groups * 64);
			tiles = (tiles + cluster - 1) / cluster * cluster;
			int blocks = MIN(free_blocks / cluster * cluster, tiles * ranges);
			int walks = (tiles * ranges + blocks - 1) / blocks, chunks = (a->chunks + ranges - 1) / ranges;
			double chunk = MAX(MAX((groups * 64 + rows) * TILE_ROW * byte, turn), step * groups * rows);
			double cost = MAX(walks * chunks * chunk, least) + (ranges > 1 ? stored * ranges * a->T * a->N : 0);
			if (cost >= best) continue;
			best = cost;
			found.groups = groups, found.cluster = cluster, found.ranges = ranges, found.tiles = tiles;
		}
	*a = found;
}

/* Ranges where the residual stream takes all rows at once, so that the norm
 * behind it adds them up. */
static bool sums_may_wait(const struct projection *p)
{
	return p->add && p->add == p->y && !p->bias && p->y_ld == p->N && !p->is_f32 && p->K > TILE_COLUMNS;
}

bool few_takes(const struct ops_context *c, const struct projection *p, int T)
{
	uintptr_t places = (uintptr_t)p->x | (uintptr_t)p->w;
	if ((int64_t)p->N * p->K < FEW_WEIGHTS) return false;
	if (T > FEW_SMALL && ((int64_t)p->N * p->K < FEW_WEIGHTS_LARGE || p->is_f32)) return false;
	return c->encode_map && !c->batch_invariant && T >= FEW_MIN && T <= FEW_MAX && p->K % TILE_COLUMNS == 0 &&
		p->N % 16 == 0 && p->x_ld % 8 == 0 && p->w_ld % 8 == 0 && places % 16 == 0 && p->y_ld % 2 == 0 &&
		(uintptr_t)p->y % 4 == 0;
}

static void thin_fill(struct ops_context *c, struct few_args *a, struct few_maps *m, const struct thin_wait *t)
{
	const struct ops_lora *l = t->next.lora;
	a->thin_blocks = FEW_THIN_BLOCKS, a->thin_chunks = t->in / TILE_COLUMNS;
	a->r = l->r, a->parts = t->next.linear->parts, a->used = a->r * a->parts, a->tail = c->tail,
	a->scaling = l->scaling;
	a->x = t->x, a->x_ld = t->in + c->tail, a->in = t->in;
	a->partial = (float *)((char *)c->workspace + LT_WORKSPACE_BYTES), a->flags = few_flags(c);
	for (int i = 0; i < a->parts; i++) {
		if (!l->a[i].w) continue;
		a->adapted |= 1u << i;
		map_rows(c, &m->a[i], elems(l->a[i].w), t->in, a->r, l->a[i].ld, a->r);
	}
}

static_assert(FEW_PARTIAL == FEW_THIN_BLOCKS * FEW_MAX * TILE_COLUMNS, "partial thin products");

template <int ROWS> static void few_launch(struct ops_context *c, struct few_args *a, struct few_maps *m)
{
	a->w_bytes = (uint32_t)(a->groups * 64 * TILE_ROW), a->stage_bytes = a->w_bytes + ROWS * TILE_ROW;
	int head = 1024 + RING_HEAD, room = (few_shape<ROWS>::HAS_LARGE_SUMS ? FEW_SHARED_LARGE : FEW_SHARED) - head;
	a->stages = MIN(FEW_STAGES, room / (int)a->stage_bytes);
	int most = (c->sms - a->thin_blocks) / a->cluster * a->cluster,
		blocks = MIN(most, a->tiles * a->ranges) + a->thin_blocks;
	a->walks = a->tiles / a->cluster * a->ranges, a->step = (blocks - a->thin_blocks) / a->cluster;
	struct launch l = {dim3((unsigned)blocks), dim3((unsigned)(a->groups * 128 + few_shape<ROWS>::ASKING)),
		(size_t)(a->stages * (int)a->stage_bytes + head), a->cluster > 1 ? a->cluster : 0};
	cuda_launch(c, l, few_kernel<ROWS>, *m, *a);
}

/* The sums' place: scratch; what waits there already is added first. */
void few_run(struct ops_context *c, const struct projection *p, int T, const struct thin_wait *thin, bool is_gate)
{
	struct few_args a = {};
	struct few_maps m;
	memset(&m, 0, sizeof m);
	int rows = T <= 32 ? 32 : T <= 64 ? 64 : T <= 128 ? 128 : FEW_MAX;
	a.y = p->y, a.y_ld = p->y_ld, a.bias = p->bias, a.add = p->add, a.T = T, a.N = p->N;
	a.is_f32 = p->is_f32, a.is_gate = is_gate, a.chunks = p->K / TILE_COLUMNS;
	if (thin && thin->x) thin_fill(c, &a, &m, thin);
	few_choose(c, &a, rows, sums_may_wait(p));
	if (a.ranges > 1) a.sums = (float *)scratch_of(c, (size_t)a.ranges * (size_t)T * (size_t)a.N * sizeof(float));

	/* What the copies are told: x a cluster's share at a time, W a tile. */
	map_rows(c, &m.x, p->x, p->K, T, p->x_ld, rows / a.cluster);
	if (is_gate) {
		const int64_t dims[4] = {p->K, 8, 2, p->N / 16}, steps[4] = {1, p->w_ld, p->w_ld * (p->N / 2), p->w_ld * 8};
		const int box[4] = {TILE_COLUMNS, 8, 2, a.groups * 4};
		map_make(c, &m.w, p->w, 4, dims, steps, box);
	} else {
		map_rows(c, &m.w, p->w, p->K, p->N, p->w_ld, a.groups * 64);
	}
	if (rows == 32) few_launch<32>(c, &a, &m);
	else if (rows == 64) few_launch<64>(c, &a, &m);
	else if (rows == 128) few_launch<128>(c, &a, &m);
	else few_launch<FEW_MAX>(c, &a, &m);
	if (a.ranges > 1) c->waiting = {(bf16 *)p->y, a.sums, a.ranges, T, p->N};
}

/* The function is the driver's, found at run time; other cards than Hopper's do without. */
void few_open(struct ops_context *c)
{
	void *function = NULL;
	cudaDriverEntryPointQueryResult found;
	if (!c->card.is_hopper) return;
	cudaError_t rc = cudaGetDriverEntryPointByVersion(
		"cuTensorMapEncodeTiled", &function, 12000, cudaEnableDefault, &found);
	if (rc != cudaSuccess || found != cudaDriverEntryPointSuccess) return;
	c->encode_map = (tensor_map_encode)function;
}
