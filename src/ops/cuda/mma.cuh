/* mma: what the attention kernels and the thin products share: tensor-core steps (bf16 m16n8k16,
 * fp32 accumulation), tiles of rows in shared memory, copies that run beside the arithmetic.
 *
 * Fragments, lane = 4 g + q. A (16 rows, 16 k): a[0] row g, k 2q; a[1] row g + 8; a[2] row g, k
 * 2q + 8; a[3] row g + 8, k 2q + 8. B (16 k, 8 columns): b0 column g, k 2q; b1 k 2q + 8. C (16
 * rows, 8 columns): c[0], c[1] row g, columns 2q, 2q + 1; c[2], c[3] row g + 8. So two
 * neighbouring C of a product are, rounded and packed, the A of the next one: P goes from scores
 * to P V without leaving the registers.
 *
 * A tile is rows of COLS elements, its 16-byte pieces permuted inside each row, so that the eight
 * rows an ldmatrix reads at once lie in different banks. */
#ifndef HONE_CUDA_MMA_CUH
#define HONE_CUDA_MMA_CUH
#include <cuda_bf16.h>
#include <stdint.h>

#define LOG2E 1.4426950408889634f

static __device__ __forceinline__ uint32_t shared_address(const void *p)
{
	return (uint32_t)__cvta_generic_to_shared(p);
}

static __device__ __forceinline__ float ex2(float x)
{
	float y;
	asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
	return y;
}

static __device__ __forceinline__ uint32_t pack_bf16(float low, float high)
{
	__nv_bfloat162 pair = __floats2bfloat162_rn(low, high);
	return *(uint32_t *)&pair;
}

static __device__ __forceinline__ float2 unpack_bf16(uint32_t bits)
{
	return make_float2(__uint_as_float(bits << 16), __uint_as_float(bits & 0xffff0000u));
}

/* ---- tensor-core steps ---- */

static __device__ __forceinline__ void mma_bf16(float c[4], const uint32_t a[4], uint32_t b0, uint32_t b1)
{
	asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
				 "{%0, %1, %2, %3};"
		: "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
		: "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

static __device__ __forceinline__ void ldmatrix(uint32_t r[4], uint32_t address)
{
	asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
		: "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
		: "r"(address)
		: "memory");
}

static __device__ __forceinline__ void ldmatrix_transposed(uint32_t r[4], uint32_t address)
{
	asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
		: "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
		: "r"(address)
		: "memory");
}

/* ---- copies from global to shared memory ---- */

/* A piece that does not exist is zeros: a product of nothing with NaN must not reach a sum. */
static __device__ __forceinline__ void copy_16(uint32_t to, const void *from, bool exists)
{
	int bytes = exists ? 16 : 0;
	asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(to), "l"(from), "r"(bytes) : "memory");
}

static __device__ __forceinline__ void copy_4(uint32_t to, const void *from, bool exists)
{
	int bytes = exists ? 4 : 0;
	asm volatile("cp.async.ca.shared.global [%0], [%1], 4, %2;" ::"r"(to), "l"(from), "r"(bytes) : "memory");
}

static __device__ __forceinline__ void copies_commit(void) { asm volatile("cp.async.commit_group;" ::: "memory"); }
template <int LEFT = 0> static __device__ __forceinline__ void copies_wait(void)
{
	asm volatile("cp.async.wait_group %0;" ::"n"(LEFT) : "memory");
}

/* ---- tiles ---- */

template <int COLS> static __device__ __forceinline__ uint32_t tile_at(int row, int piece)
{
	int swizzle = COLS >= 64 ? row & 7 : (row >> 1) & (COLS / 8 - 1);
	return (uint32_t)(row * COLS * 2 + ((piece ^ swizzle) << 4));
}

/* Rows of global memory, `stride` elements apart; those from `rows` on, and columns from
 * `columns` on, are zeros. */
template <int ROWS, int COLS, int THREADS>
static __device__ __forceinline__ void tile_load(
	uint32_t tile, const __nv_bfloat16 *from, int64_t stride, int rows, int columns = COLS)
{
	constexpr int PIECES = COLS / 8, STEP = THREADS / PIECES; /* rows from a thread's copy to its next */
	static_assert(ROWS % STEP == 0, "every thread copies as much");
	int row = (int)threadIdx.x / PIECES, piece = (int)threadIdx.x % PIECES;
	const __nv_bfloat16 *p = from + row * stride + piece * 8;
	/* A loop of few registers: those of the caller's sums are worth more
	 * than a few instructions. */
#pragma unroll 1
	for (int i = 0; i < ROWS / STEP; i++, row += STEP, p += STEP * stride)
		copy_16(tile + tile_at<COLS>(row, piece), row < rows && piece * 8 < columns ? p : from,
			row < rows && piece * 8 < columns);
}

/* Where a lane reads: in a tile of rows by k for A, or of k by columns for a transposed B; in a
 * tile of columns by k for B. To be added to the tile's address once. The step to piece p is
 * then an exclusive or with p << 4, because tiles are aligned to their rows, and the step to
 * row 16 i an addition. */
template <int COLS> static __device__ __forceinline__ uint32_t lane_rows(int lane)
{
	return tile_at<COLS>(lane & 15, lane >> 4);
}
template <int COLS> static __device__ __forceinline__ uint32_t lane_columns(int lane)
{
	return tile_at<COLS>((lane & 7) + ((lane >> 4) << 3), (lane >> 3) & 1);
}

/* The 16 x 16 square at row 16 * i and k or column 16 * j, seen from a lane's address. */
template <int COLS> static __device__ __forceinline__ uint32_t square(uint32_t lane_at, int i, int j)
{
	return (lane_at ^ (uint32_t)(j << 5)) + (uint32_t)(i * 16 * COLS * 2);
}

/* Keeps the compiler from computing every square's address ahead of a loop: there are too
 * few registers for that. */
static __device__ __forceinline__ uint32_t not_ahead(uint32_t address)
{
	asm volatile("" : "+r"(address));
	return address;
}

/* Sum and maximum over the four lanes that hold a row of C. Every lane gets the same bits. */
static __device__ __forceinline__ float quad_sum(float x)
{
	x += __shfl_xor_sync(0xffffffffu, x, 1);
	return x + __shfl_xor_sync(0xffffffffu, x, 2);
}
static __device__ __forceinline__ float quad_max(float x)
{
	x = fmaxf(x, __shfl_xor_sync(0xffffffffu, x, 1));
	return fmaxf(x, __shfl_xor_sync(0xffffffffu, x, 2));
}
#endif
