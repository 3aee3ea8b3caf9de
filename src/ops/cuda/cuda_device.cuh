/* cuda_device: small things that kernels of several files use. */
#ifndef HONE_CUDA_DEVICE_CUH
#define HONE_CUDA_DEVICE_CUH
#include "ops_cuda_internal.h"
#include "mma.cuh"

#define WARP 32
#define ALL_LANES 0xffffffffu

struct alignas(16) bf16x8 {
	__nv_bfloat162 pair[4];
};

/* As one access: copied member by member, which a pair's own constructors ask
 * for, it would be four. */
static __device__ __forceinline__ bf16x8 load8(const bf16 *p)
{
	uint4 u = *(const uint4 *)p;
	bf16x8 v;
	memcpy(&v, &u, sizeof v);
	return v;
}
/* What is read once in a step: no place in L1 for it. Not as a constant (.nc): ptxas would move the
 * load behind grid_begin's wait. */
static __device__ __forceinline__ bf16x8 load8_once(const bf16 *p)
{
	uint4 u;
	bf16x8 v;
	asm volatile("ld.global.L1::no_allocate.v4.u32 {%0, %1, %2, %3}, [%4];"
		: "=r"(u.x), "=r"(u.y), "=r"(u.z), "=r"(u.w)
		: "l"(p));
	memcpy(&v, &u, sizeof v);
	return v;
}
static __device__ __forceinline__ void store8(bf16 *p, bf16x8 v)
{
	uint4 u;
	memcpy(&u, &v, sizeof u);
	*(uint4 *)p = u;
}
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
/* Dropout's rule, as on the CPU: element i is kept when word i % 4 of block i /
 * 4 is at least p 2^32. */
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
