/* stream: one or two rows times a large matrix on Hopper, as fast as the matrix comes. There is one
 * block a multiprocessor, and each has neighbouring rows of W. Its warps take a row each and
 * multiply it by x, which lies in shared memory. A warp asks for its rows by itself, piece by
 * piece, by bulk copies into a ring of its own: who waits for a piece has had the one before it in
 * that place, so a barrier's parity says which of the two is there.
 *
 * W does not depend on the kernel before, so the rings fill while that one runs. They are as large
 * as one block may have: measured on an H200, 96 and 128 KiB on their way to a multiprocessor reach
 * what half of it does not, even where the next product's rings fill beside (docs/perf-log.md).
 *
 * The adapter's thin product is made here as well (struct thin_wait): each row of A is the first
 * row of a block of its own, and the tail's columns come last in every row of W. Who comes to them
 * waits for those blocks: all blocks run at once, since there is one for each multiprocessor. */
#include "cuda_device.cuh"
#include "gemv.cuh"
#include "wgmma.cuh"

#define STREAM_WARPS 12
#define STREAM_STAGES 3     /* of a warp's ring */
#define STREAM_PIECE 2048   /* columns of a row in a stage */
#define STREAM_MORE 256     /* and so many more of its last ones */
#define STREAM_HEAD 512     /* bytes of shared memory, for barriers */
#define STREAM_THREADS (STREAM_WARPS * WARP)
#define STAGE_BYTES ((STREAM_PIECE + STREAM_MORE) * 2)
#define RING_BYTES (STREAM_WARPS * STREAM_STAGES * STAGE_BYTES)
static_assert(STREAM_WARPS * STREAM_STAGES * 8 <= STREAM_HEAD, "a barrier for each stage");

#if HOPPER_CODE

struct stream {     /* a block's rows, and where a warp's pieces of them come */
	int has_a;      /* 1: the block's first row is one of A, the others are of W */
	int first;      /* the block's first row of W */
	int rows;       /* of the block, A's too */
	uint32_t gates; /* barriers of the warp's stages, in shared memory */
	uint32_t ring;  /* its stages */
};
struct piece { /* what a warp asks for next */
	int row;   /* of the block */
	int at;    /* its first column */
	int stage; /* where it comes */
};

static __device__ __forceinline__ struct stream stream_of(const struct gemv &g, uint32_t head, int warp)
{
	struct stream s;
	int block = (int)blockIdx.x, blocks = (int)gridDim.x;
	s.has_a = block < g.thin.blocks;
	s.first = (int)((int64_t)g.N * block / blocks);
	s.rows = s.has_a + (int)((int64_t)g.N * (block + 1) / blocks) - s.first;
	s.gates = head + (uint32_t)(warp * STREAM_STAGES * 8);
	s.ring = head + STREAM_HEAD + (uint32_t)(warp * STREAM_STAGES * STAGE_BYTES);
	return s;
}

static __device__ __forceinline__ int columns_of(const struct gemv &g, const struct stream &s, int row)
{
	return row < s.has_a ? g.in : g.K;
}

/* Columns of the piece that begins at `at`: the last one of a row takes what is left. */
static __device__ __forceinline__ int piece_columns(int at, int columns)
{
	return columns - at <= STREAM_PIECE + STREAM_MORE ? columns - at : STREAM_PIECE;
}

static __device__ __forceinline__ void run_fetch(uint32_t to, const void *from, uint32_t bytes, uint32_t barrier)
{
	asm volatile(
		"cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.L2::cache_hint [%0], [%1], %2, [%3], %4;" ::
			"r"(to),
		"l"(from), "r"(bytes), "r"(barrier), "l"(KEEP_NOT)
		: "memory");
}

/* Asks for the warp's next piece, if there is one. Called by one lane, which alone keeps p. */
static __device__ __forceinline__ void ask(const struct gemv &g, const struct stream &s, struct piece &p)
{
	if (p.row >= s.rows) return;
	int columns = columns_of(g, s, p.row), n = piece_columns(p.at, columns);
	const bf16 *w = p.row < s.has_a ? gemv_row<true>(g, (int)blockIdx.x)
									: gemv_row<false>(g, s.first + p.row - s.has_a);
	uint32_t gate = s.gates + 8 * (uint32_t)p.stage;
	gate_expect(gate, (uint32_t)n * 2);
	run_fetch(s.ring + (uint32_t)p.stage * STAGE_BYTES, w + p.at, (uint32_t)n * 2, gate);
	p.stage = (p.stage + 1) % STREAM_STAGES;
	p.at += n;
	if (p.at == columns) p.at = 0, p.row += STREAM_WARPS;
}

static __device__ __forceinline__ bf16x8 shared8(uint32_t at)
{
	uint4 u;
	bf16x8 v;
	asm volatile("ld.shared.v4.u32 {%0, %1, %2, %3}, [%4];" : "=r"(u.x), "=r"(u.y), "=r"(u.z), "=r"(u.w) : "r"(at));
	memcpy(&v, &u, sizeof v);
	return v;
}

/* Eight terms of each row's sum. */
template <int M> static __device__ __forceinline__ void terms_add(float acc[M], bf16x8 w8, const bf16x8 x8[M])
{
	float w[8], x[8];
	unpack8(w, w8);
#pragma unroll
	for (int m = 0; m < M; m++) {
		unpack8(x, x8[m]);
#pragma unroll
		for (int i = 0; i < 8; i++) acc[m] = fmaf(x[i], w[i], acc[m]);
	}
}

/* A warp's rows of the block; `next` is what its first lane asks for next. x: (M, in), in shared
 * memory. A piece's place is free for the next one when all lanes have read it. */
template <int M>
static __device__ __forceinline__ void multiply(
	const struct gemv &g, const struct stream &s, struct piece next, uint32_t x, int warp, int lane)
{
	bool has_tail = false;
	bf16x8 tail[M] = {};
	int stage = 0;
	uint32_t parity = 0;
	for (int row = warp; row < s.rows; row += STREAM_WARPS) {
		int columns = columns_of(g, s, row);
		float acc[M] = {};
		for (int at = 0, n; at < columns; at += n) {
			n = piece_columns(at, columns);
			int plain = min(n, g.in - at);
			uint32_t w = s.ring + (uint32_t)stage * STAGE_BYTES;
			gate_wait(s.gates + 8 * (uint32_t)stage, parity);
#pragma unroll 4
			for (int i = lane * 8; i < plain; i += WARP * 8) {
				bf16x8 x8[M];
#pragma unroll
				for (int m = 0; m < M; m++) x8[m] = shared8(x + (uint32_t)(m * g.in + at + i) * 2);
				terms_add<M>(acc, shared8(w + (uint32_t)i * 2), x8);
			}
			/* The columns behind x's own, once they stand. */
			if (n > plain) {
				if (!has_tail) {
					thin_meet(g);
#pragma unroll
					for (int m = 0; m < M; m++)
						if (lane * 8 < n - plain) tail[m] = load8(g.x + m * g.x_ld + g.in + lane * 8);
					has_tail = true;
				}
				if (lane * 8 < n - plain) terms_add<M>(acc, shared8(w + (uint32_t)(plain + lane * 8) * 2), tail);
			}
			__syncwarp();
			if (!lane) ask(g, s, next);
			stage = (stage + 1) % STREAM_STAGES;
			parity ^= !stage;
		}
#pragma unroll
		for (int m = 0; m < M; m++) {
			acc[m] = lanes_sum<WARP>(acc[m]);
			if (lane) continue;
			if (row < s.has_a) thin_store(g, m, (int)blockIdx.x, acc[m]);
			else gemv_store<M>(g, m, s.first + row - s.has_a, acc[m]);
		}
		if (row < s.has_a) {
			if (!blockIdx.x) rest_clear<M>(g, lane, WARP);
			__threadfence();
			__syncwarp();
			if (!lane) atomicAdd(g.thin.arrived, 1);
		}
	}
}
#endif

template <int M> static __global__ void __launch_bounds__(STREAM_THREADS, 1) stream_kernel(const struct gemv g)
{
#if HOPPER_CODE
	extern __shared__ __align__(128) unsigned char shared[];
	uint32_t head = shared_address(shared), x = head + STREAM_HEAD + RING_BYTES;
	int lane = (int)threadIdx.x % WARP, warp = (int)threadIdx.x / WARP;
	struct stream s = stream_of(g, head, warp);
	struct piece next = {warp, 0, 0};
	/* W comes while the kernel before still runs. */
	if (!lane) {
		for (int i = 0; i < STREAM_STAGES; i++) gate_make(s.gates + 8 * (uint32_t)i, 1);
		asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
		for (int i = 0; i < STREAM_STAGES; i++) ask(g, s, next);
	}
	grid_begin();
	/* x, for all warps */
#pragma unroll
	for (int m = 0; m < M; m++)
		for (int i = (int)threadIdx.x * 8; i < g.in; i += STREAM_THREADS * 8) {
			bf16x8 v = load8(g.x + m * g.x_ld + i);
			uint4 u;
			memcpy(&u, &v, sizeof u);
			asm volatile("st.shared.v4.u32 [%0], {%1, %2, %3, %4};" ::"r"(x + (uint32_t)(m * g.in + i) * 2), "r"(u.x),
				"r"(u.y), "r"(u.z), "r"(u.w)
				: "memory");
		}
	__syncthreads(); /* x stands, and so do the barriers */
	multiply<M>(g, s, next, x, warp, lane);
#endif
}

static size_t stream_shared(const struct gemv *g, int M) { return STREAM_HEAD + RING_BYTES + (size_t)M * g->in * 2; }

bool stream_takes(const struct ops_context *c, const struct gemv *g, int M)
{
	bool is_aligned = g->in % 8 == 0 && g->K % 8 == 0 && (g->K - g->in) <= WARP * 8;
	return c->card.is_hopper && M <= STREAM_ROWS && is_aligned && (int64_t)g->N * g->K >= STREAM_WEIGHTS &&
		g->thin.columns <= c->sms && stream_shared(g, M) <= STREAM_SHARED;
}

void stream_run(struct ops_context *c, struct gemv *g, int M)
{
	static void (*const kernels[STREAM_ROWS])(const struct gemv) = {stream_kernel<1>, stream_kernel<2>};
	if (g->thin.blocks) g->thin.blocks = g->thin.columns; /* a row of A each */
	cuda_launch(c, {dim3((unsigned)c->sms), dim3(STREAM_THREADS), stream_shared(g, M), 0}, kernels[M - 1], *g);
}
