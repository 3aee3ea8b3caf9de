/* cuda_device: small things that kernels of several files use. */
#ifndef HONE_CUDA_DEVICE_CUH
#define HONE_CUDA_DEVICE_CUH
#include "cuda_internal.h"

#define WARP 32
#define ALL_LANES 0xffffffffu

struct alignas(16) bf16x8 {
	__nv_bfloat162 pair[4];
};

static __device__ __forceinline__ bf16x8 load8(const bf16 *p) { return *(const bf16x8 *)p; }
static __device__ __forceinline__ void store8(bf16 *p, bf16x8 v) { *(bf16x8 *)p = v; }
static __device__ __forceinline__ bf16x8 zero8(void)
{
	bf16x8 v;
#pragma unroll
	for (int i = 0; i < 4; i++) v.pair[i] = __floats2bfloat162_rn(0.0f, 0.0f);
	return v;
}
static __device__ __forceinline__ void unpack8(float out[8], bf16x8 v)
{
#pragma unroll
	for (int i = 0; i < 4; i++) {
		float2 f = __bfloat1622float2(v.pair[i]);
		out[2 * i] = f.x;
		out[2 * i + 1] = f.y;
	}
}
static __device__ __forceinline__ bf16x8 pack8(const float in[8])
{
	bf16x8 v;
#pragma unroll
	for (int i = 0; i < 4; i++) v.pair[i] = __floats2bfloat162_rn(in[2 * i], in[2 * i + 1]);
	return v;
}
static __device__ __forceinline__ uint32_t bits_of(__nv_bfloat162 v)
{
	return (uint32_t)__bfloat16_as_ushort(v.x) | (uint32_t)__bfloat16_as_ushort(v.y) << 16;
}

/* d += a b: a (16, 16) by rows, b (16, 8) by columns, d (16, 8). Lane l holds of a rows l / 4 and l / 4 + 8 at columns
 * 2 (l % 4)..; of b column l / 4 at rows 2 (l % 4)..; of d rows l / 4 (d[0], d[1]) and l / 4 + 8 (d[2], d[3]). */
static __device__ __forceinline__ void mma_16816(float d[4], const uint32_t a[4], uint32_t b0, uint32_t b1)
{
	asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
				 : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
				 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}
/* Four 8 x 8 matrices out of shared memory: lanes 8 i.. give the rows of matrix i. */
static __device__ __forceinline__ void ldmatrix4(uint32_t r[4], const bf16 *row)
{
	uint32_t at = (uint32_t)__cvta_generic_to_shared(row);
	asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
				 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
				 : "r"(at)
				 : "memory");
}
static __device__ __forceinline__ void ldmatrix4_transposed(uint32_t r[4], const bf16 *row)
{
	uint32_t at = (uint32_t)__cvta_generic_to_shared(row);
	asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];"
				 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
				 : "r"(at)
				 : "memory");
}
/* 16 bytes to shared memory while the thread goes on; zeros when from is NULL. */
static __device__ __forceinline__ void copy16(bf16 *to, const bf16 *from)
{
	uint32_t at = (uint32_t)__cvta_generic_to_shared(to);
	if (from) asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(at), "l"(from) : "memory");
	else *(uint4 *)to = make_uint4(0, 0, 0, 0);
}
static __device__ __forceinline__ void copies_commit(void) { asm volatile("cp.async.commit_group;" ::: "memory"); }
template <int LEFT> static __device__ __forceinline__ void copies_wait(void)
{
	asm volatile("cp.async.wait_group %0;" ::"n"(LEFT) : "memory");
}

/* base's rng_philox, to the bit. */
static __device__ __forceinline__ uint4 philox(uint64_t seed, uint64_t stream, uint64_t index)
{
	uint32_t c0 = (uint32_t)index, c1 = (uint32_t)(index >> 32), c2 = (uint32_t)stream, c3 = (uint32_t)(stream >> 32);
	uint32_t k0 = (uint32_t)seed, k1 = (uint32_t)(seed >> 32);
#pragma unroll
	for (int round = 0; round < 10; round++) {
		uint64_t p0 = (uint64_t)0xd2511f53u * c0, p1 = (uint64_t)0xcd9e8d57u * c2;
		c0 = (uint32_t)(p1 >> 32) ^ c1 ^ k0;
		c1 = (uint32_t)p1;
		c2 = (uint32_t)(p0 >> 32) ^ c3 ^ k1;
		c3 = (uint32_t)p0;
		k0 += 0x9e3779b9u;
		k1 += 0xbb67ae85u;
	}
	return make_uint4(c0, c1, c2, c3);
}
/* Dropout's rule, as on the CPU: element i is kept when word i % 4 of block i / 4 is at least p 2^32. */
static __device__ __forceinline__ bool dropout_keeps(uint32_t word, float p)
{
	return (double)word >= (double)p * 4294967296.0;
}

template <int LANES> static __device__ __forceinline__ float lanes_sum(float x)
{
#pragma unroll
	for (int i = LANES / 2; i; i /= 2) x += __shfl_xor_sync(ALL_LANES, x, i);
	return x;
}
#endif
