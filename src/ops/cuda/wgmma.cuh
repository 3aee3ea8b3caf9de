/* wgmma: tensor-core steps of a warpgroup on tiles in shared memory (bf16, fp32 sums), and what
 * feeds them: tensor copies (TMA), barriers in shared memory. Hopper alone. */
#ifndef HONE_CUDA_WGMMA_CUH
#define HONE_CUDA_WGMMA_CUH
#include <stdint.h>

/* Tiles of rows of 64 elements (128 bytes), the 16-byte pieces of a row permuted as TMA's 128-byte
 * swizzle does: eight rows are 1,024 bytes, and a tile begins at a multiple of that. A step of 16
 * columns is 32 bytes further: + 2. */
static __device__ __forceinline__ uint64_t tile_descriptor(uint32_t address)
{
	return (uint64_t)((address & 0x3ffff) >> 4) | (uint64_t)1 << 16 | (uint64_t)(1024 >> 4) << 32 | (uint64_t)1 << 62;
}

/* Operands of the sums. */
#define OUT4(d, i) "+f"(d[i]), "+f"(d[i + 1]), "+f"(d[i + 2]), "+f"(d[i + 3])
#define OUT8(d, i) OUT4(d, i), OUT4(d, i + 4)
#define OUT16(d, i) OUT8(d, i), OUT8(d, i + 8)
#define OUT32(d, i) OUT16(d, i), OUT16(d, i + 16)

/* c = a b + c, or a b where has_sum is 0. a: tile of 64 rows, b: tile of N rows, c: 64 rows and N
 * columns, of which lane 4 g + q of warp w holds rows 16 w + g and 16 w + g + 8, columns 8 i + 2 q
 * and 8 i + 2 q + 1. */
template <int N> static __device__ __forceinline__ void wgmma(float *c, uint64_t a, uint64_t b, int has_sum);
template <> __device__ __forceinline__ void wgmma<32>(float *c, uint64_t a, uint64_t b, int has_sum)
{
	asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, %18, 0;\nwgmma.mma_async.sync.aligned.m64n32k16.f32.bf16.bf16 {"
				 "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15"
				 "}, %16, %17, p, 1, 1, 0, 0;\n}"
		: OUT16(c, 0)
		: "l"(a), "l"(b), "r"(has_sum));
}
template <> __device__ __forceinline__ void wgmma<64>(float *c, uint64_t a, uint64_t b, int has_sum)
{
	asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, %34, 0;\nwgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16 {"
				 "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "
				 "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31"
				 "}, %32, %33, p, 1, 1, 0, 0;\n}"
		: OUT32(c, 0)
		: "l"(a), "l"(b), "r"(has_sum));
}
template <> __device__ __forceinline__ void wgmma<128>(float *c, uint64_t a, uint64_t b, int has_sum)
{
	asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, %66, 0;\nwgmma.mma_async.sync.aligned.m64n128k16.f32.bf16.bf16 {"
				 "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "
				 "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, "
				 "%32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, "
				 "%48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63"
				 "}, %64, %65, p, 1, 1, 0, 0;\n}"
		: OUT32(c, 0), OUT32(c, 32)
		: "l"(a), "l"(b), "r"(has_sum));
}
/* Two steps, since no instruction takes as many registers as a kernel of four
 * warpgroups is compiled with. */
template <> __device__ __forceinline__ void wgmma<256>(float *c, uint64_t a, uint64_t b, int has_sum)
{
	wgmma<128>(c, a, b, has_sum);
	wgmma<128>(c + 64, a, b + (128 * 128 >> 4), has_sum);
}
static __device__ __forceinline__ void wgmma_begin(void) { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
static __device__ __forceinline__ void wgmma_commit(void)
{
	asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
}
template <int LEFT> static __device__ __forceinline__ void wgmma_wait(void)
{
	asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(LEFT) : "memory");
}

/* ---- barriers ---- */

static __device__ __forceinline__ void gate_make(uint32_t barrier, int count)
{
	asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(barrier), "r"(count) : "memory");
}
static __device__ __forceinline__ void gate_wait(uint32_t barrier, uint32_t parity)
{
	asm volatile("{\n.reg .pred done;\nagain:\nmbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1;\n@done bra "
				 "there;\nbra again;\nthere:\n}" ::"r"(barrier),
		"r"(parity)
		: "memory");
}
static __device__ __forceinline__ void gate_expect(uint32_t barrier, uint32_t bytes)
{
	asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(barrier), "r"(bytes) : "memory");
}
/* In the shared memory of block `rank` of the cluster, at the same place. Nothing that was written
 * is told of: a release over the cluster took some 1,000 cycles each time. */
static __device__ __forceinline__ void gate_arrive(uint32_t barrier, int rank)
{
	asm volatile("{\n.reg .b32 there;\nmapa.shared::cluster.u32 there, %0, %1;\nmbarrier.arrive."
				 "shared::cluster.b64 _, [there];\n}" ::"r"(barrier),
		"r"(rank)
		: "memory");
}

/* ---- tensor copies ---- */

#define KEEP_NOT 0x12f0000000000000ull  /* L2 policies: what is read once; what others read again */
#define KEEP 0x14f0000000000000ull

static __device__ __forceinline__ void box_fetch(
	uint32_t to, const void *map, uint32_t barrier, int x, int y, uint64_t policy)
{
	asm volatile(
		"cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes.L2::cache_hint [%0], [%1, "
		"{%3, %4}], [%2], %5;" ::"r"(to),
		"l"(map), "r"(barrier), "r"(x), "r"(y), "l"(policy)
		: "memory");
}
static __device__ __forceinline__ void box_fetch_4(
	uint32_t to, const void *map, uint32_t barrier, int x, int y, int z, int w, uint64_t policy)
{
	asm volatile(
		"cp.async.bulk.tensor.4d.shared::cluster.global.mbarrier::complete_tx::bytes.L2::cache_hint [%0], [%1, "
		"{%3, %4, %5, %6}], [%2], %7;" ::"r"(to),
		"l"(map), "r"(barrier), "r"(x), "r"(y), "r"(z), "r"(w), "l"(policy)
		: "memory");
}
/* To the same place in all blocks of the mask, whose barriers count it too. */
static __device__ __forceinline__ void box_spread(
	uint32_t to, const void *map, uint32_t barrier, int x, int y, uint16_t mask, uint64_t policy)
{
	asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster.L2::"
				 "cache_hint [%0], [%1, {%3, %4}], [%2], %5, %6;" ::"r"(to),
		"l"(map), "r"(barrier), "r"(x), "r"(y), "h"(mask), "l"(policy)
		: "memory");
}
static __device__ __forceinline__ void cluster_meet(void)
{
	asm volatile("barrier.cluster.arrive.release.aligned;\nbarrier.cluster.wait.acquire.aligned;" ::: "memory");
}
#endif
