/* simd: one small vocabulary of float vectors with two spellings, AVX2 (8 lanes) and AVX-512 (16
 * lanes), so that each kernel is written once.
 *
 * The files of this folder are compiled twice: by themselves for x86-64-v3, and all together
 * through avx512.c for x86-64-v4. ISA(name) gives each copy its own symbols, and cpu.c picks a set
 * by CPUID. fused multiply-add is always spelled out (vf_fma): the compiler may not contract a*b+c
 * as it likes (-ffp-contract=off), because batch-invariant results need the same operations in
 * every copy of a loop. */
#ifndef HONE_SIMD_H
#define HONE_SIMD_H
#include <immintrin.h>
#include <stdbool.h>
#include <stdint.h>

#define ISA_PASTE(a, b) a##_##b
#define ISA_PASTE2(a, b) ISA_PASTE(a, b)

#if defined(__AVX512F__)
#define ISA(name) ISA_PASTE2(name, avx512)
#define VL 16
typedef __m512 vf;
static inline vf vf_load(const float *p) { return _mm512_loadu_ps(p); }
static inline void vf_store(float *p, vf v) { _mm512_storeu_ps(p, v); }
static inline vf vf_load_n(const float *p, int n)
{
	return _mm512_maskz_loadu_ps((__mmask16)((1u << n) - 1), p);
} /* lanes >= n are 0, n in 0..VL */
static inline void vf_store_n(float *p, vf v, int n) { _mm512_mask_storeu_ps(p, (__mmask16)((1u << n) - 1), v); }
static inline vf vf_set1(float x) { return _mm512_set1_ps(x); }
static inline vf vf_add(vf a, vf b) { return _mm512_add_ps(a, b); }
static inline vf vf_sub(vf a, vf b) { return _mm512_sub_ps(a, b); }
static inline vf vf_mul(vf a, vf b) { return _mm512_mul_ps(a, b); }
static inline vf vf_div(vf a, vf b) { return _mm512_div_ps(a, b); }
static inline vf vf_sqrt(vf a) { return _mm512_sqrt_ps(a); }
static inline vf vf_fma(vf a, vf b, vf c) { return _mm512_fmadd_ps(a, b, c); }   /* a*b + c */
static inline vf vf_fnma(vf a, vf b, vf c) { return _mm512_fnmadd_ps(a, b, c); } /* c - a*b */
static inline vf vf_max(vf a, vf b) { return _mm512_max_ps(a, b); }              /* b when either is NaN */
static inline vf vf_min(vf a, vf b) { return _mm512_min_ps(a, b); }
static inline vf vf_round(vf a) { return _mm512_roundscale_ps(a, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC); }
static inline vf vf_scalef(vf a, vf n) { return _mm512_scalef_ps(a, n); } /* a * 2^n, n whole */
/* 0 where x < bound; elsewhere, and where x is NaN, a. */
static inline vf vf_zero_below(vf a, vf x, vf bound)
{
	return _mm512_maskz_mov_ps(_mm512_cmp_ps_mask(x, bound, _CMP_NLT_UQ), a);
}
/* Lanes >= n become fill. */
static inline vf vf_keep(vf a, int n, float fill)
{
	return _mm512_mask_blend_ps((__mmask16)((1u << n) - 1), _mm512_set1_ps(fill), a);
}
static inline __m256 vf_low(vf a) { return _mm512_castps512_ps256(a); }
static inline __m256 vf_high(vf a) { return _mm512_extractf32x8_ps(a, 1); }
/* Floats from VL stored small numbers. */
typedef __m512i vi;
static inline vi vi_load_u8(const uint8_t *p) { return _mm512_cvtepu8_epi32(_mm_loadu_si128((const __m128i *)p)); }
static inline vi vi_load_i8(const uint8_t *p) { return _mm512_cvtepi8_epi32(_mm_loadu_si128((const __m128i *)p)); }
static inline vi vi_low_nibble(vi a) { return _mm512_and_si512(a, _mm512_set1_epi32(15)); }
static inline vi vi_high_nibble(vi a) { return _mm512_srli_epi32(a, 4); }
static inline vf vf_from_ints(vi a) { return _mm512_cvtepi32_ps(a); }
static inline vf vf_load_bf16(const uint16_t *p)
{
	return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(_mm256_loadu_si256((const __m256i *)p)), 16));
}
static inline vf vf_load_f16(const uint16_t *p) { return _mm512_cvtph_ps(_mm256_loadu_si256((const __m256i *)p)); }
static inline void vf_store_f16(uint16_t *p, vf a)
{
	_mm256_storeu_si256((__m256i *)p, _mm512_cvtps_ph(a, _MM_FROUND_TO_NEAREST_INT));
}
static inline bool vf_same_bits(vf a, vf b)
{
	return !_mm512_cmpneq_epi32_mask(_mm512_castps_si512(a), _mm512_castps_si512(b));
}
#else
#define ISA(name) ISA_PASTE2(name, avx2)
#define VL 8
typedef __m256 vf;
static inline __m256i vf_mask(int n)
{
	static const int32_t lanes[16] = {-1, -1, -1, -1, -1, -1, -1, -1, 0, 0, 0, 0, 0, 0, 0, 0};
	return _mm256_loadu_si256((const __m256i *)(lanes + 8 - n));
}
static inline vf vf_load(const float *p) { return _mm256_loadu_ps(p); }
static inline void vf_store(float *p, vf v) { _mm256_storeu_ps(p, v); }
static inline vf vf_load_n(const float *p, int n) { return _mm256_maskload_ps(p, vf_mask(n)); }
static inline void vf_store_n(float *p, vf v, int n) { _mm256_maskstore_ps(p, vf_mask(n), v); }
static inline vf vf_set1(float x) { return _mm256_set1_ps(x); }
static inline vf vf_add(vf a, vf b) { return _mm256_add_ps(a, b); }
static inline vf vf_sub(vf a, vf b) { return _mm256_sub_ps(a, b); }
static inline vf vf_mul(vf a, vf b) { return _mm256_mul_ps(a, b); }
static inline vf vf_div(vf a, vf b) { return _mm256_div_ps(a, b); }
static inline vf vf_sqrt(vf a) { return _mm256_sqrt_ps(a); }
static inline vf vf_fma(vf a, vf b, vf c) { return _mm256_fmadd_ps(a, b, c); }
static inline vf vf_fnma(vf a, vf b, vf c) { return _mm256_fnmadd_ps(a, b, c); }
static inline vf vf_max(vf a, vf b) { return _mm256_max_ps(a, b); }
static inline vf vf_min(vf a, vf b) { return _mm256_min_ps(a, b); }
static inline vf vf_round(vf a) { return _mm256_round_ps(a, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC); }
static inline vf vf_zero_below(vf a, vf x, vf bound) { return _mm256_and_ps(_mm256_cmp_ps(x, bound, _CMP_NLT_UQ), a); }
static inline vf vf_keep(vf a, int n, float fill)
{
	return _mm256_blendv_ps(_mm256_set1_ps(fill), a, _mm256_castsi256_ps(vf_mask(n)));
}
/* Two steps, each a normal power of two, so that results may overflow to infinity. */
static inline vf vf_scalef(vf a, vf n)
{
	__m256i whole = _mm256_cvtps_epi32(n), half = _mm256_srai_epi32(whole, 1), rest = _mm256_sub_epi32(whole, half);
	__m256i bias = _mm256_set1_epi32(127);
	vf p1 = _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_add_epi32(half, bias), 23));
	vf p2 = _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_add_epi32(rest, bias), 23));
	return _mm256_mul_ps(_mm256_mul_ps(a, p1), p2);
}
typedef __m256i vi;
static inline vi vi_load_u8(const uint8_t *p) { return _mm256_cvtepu8_epi32(_mm_loadl_epi64((const __m128i *)p)); }
static inline vi vi_load_i8(const uint8_t *p) { return _mm256_cvtepi8_epi32(_mm_loadl_epi64((const __m128i *)p)); }
static inline vi vi_low_nibble(vi a) { return _mm256_and_si256(a, _mm256_set1_epi32(15)); }
static inline vi vi_high_nibble(vi a) { return _mm256_srli_epi32(a, 4); }
static inline vf vf_from_ints(vi a) { return _mm256_cvtepi32_ps(a); }
static inline vf vf_load_bf16(const uint16_t *p)
{
	return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(_mm_loadu_si128((const __m128i *)p)), 16));
}
static inline vf vf_load_f16(const uint16_t *p) { return _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)p)); }
static inline void vf_store_f16(uint16_t *p, vf a)
{
	_mm_storeu_si128((__m128i *)p, _mm256_cvtps_ph(a, _MM_FROUND_TO_NEAREST_INT));
}
static inline bool vf_same_bits(vf a, vf b)
{
	return _mm256_movemask_epi8(_mm256_cmpeq_epi32(_mm256_castps_si256(a), _mm256_castps_si256(b))) == -1;
}
#endif

static inline vf vf_zero(void) { return vf_set1(0.0f); }

/* Horizontal sum and maximum in one fixed tree. */
static inline float half_sum(__m256 a)
{
	__m128 s = _mm_add_ps(_mm256_castps256_ps128(a), _mm256_extractf128_ps(a, 1));
	s = _mm_add_ps(s, _mm_movehl_ps(s, s));
	return _mm_cvtss_f32(_mm_add_ss(s, _mm_movehdup_ps(s)));
}
static inline float half_max(__m256 a)
{
	__m128 s = _mm_max_ps(_mm256_castps256_ps128(a), _mm256_extractf128_ps(a, 1));
	s = _mm_max_ps(s, _mm_movehl_ps(s, s));
	return _mm_cvtss_f32(_mm_max_ss(s, _mm_movehdup_ps(s)));
}
#if VL == 16
static inline float vf_sum(vf a) { return half_sum(_mm256_add_ps(vf_low(a), vf_high(a))); }
static inline float vf_hmax(vf a) { return half_max(_mm256_max_ps(vf_low(a), vf_high(a))); }
#else
static inline float vf_sum(vf a) { return half_sum(a); }
static inline float vf_hmax(vf a) { return half_max(a); }
#endif

/* exp; x = n ln2 + r, |r| <= ln2/2 (Cody-Waite in two parts); exp(r) by a minimax polynomial of
 * degree 7, scaled by 2^n. At most 1.5 ulp off where the result is a normal number
 * (tests/ops/test_invariance.c walks the range); results below 2^-126 are 0, because denormal
 * numbers cost a hundred cycles each and attention's masked scores would all be such. NaN stays
 * NaN, -inf gives 0, overflow and +inf give inf. */
static inline vf vf_exp(vf x)
{
	const vf lowest = vf_set1(-87.33654f);
	vf y = vf_min(vf_set1(89.0f), vf_max(lowest, x));
	vf n = vf_round(vf_mul(y, vf_set1(1.44269504088896341f)));
	vf r = vf_fnma(n, vf_set1(0.693145751953125f), y);
	r = vf_fnma(n, vf_set1(1.42860682030941723212e-6f), r);
	vf p = vf_set1(1.9875691500e-4f);
	p = vf_fma(p, r, vf_set1(1.3981999507e-3f));
	p = vf_fma(p, r, vf_set1(8.3334519073e-3f));
	p = vf_fma(p, r, vf_set1(4.1665795894e-2f));
	p = vf_fma(p, r, vf_set1(1.6666665459e-1f));
	p = vf_fma(p, r, vf_set1(5.0000001201e-1f));
	p = vf_fma(vf_mul(p, r), r, r);
	return vf_zero_below(vf_scalef(vf_add(p, vf_set1(1.0f)), n), x, lowest);
}
#endif
