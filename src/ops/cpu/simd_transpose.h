/* simd_transpose: a square of VL x VL floats in memory, its columns as vectors.
 *
 * Shuffles are what a transpose costs: AVX-512 has one port for them. So the square is loaded in
 * quarters of a row: lane l of a vector takes 4 floats of row 4 l + j (inserts from memory, which
 * two ports do), and what is left is a transpose of 4 x 4 inside lanes: 32 shuffles and not 64 for
 * 16 x 16. */
#ifndef HONE_SIMD_TRANSPOSE_H
#define HONE_SIMD_TRANSPOSE_H
#include "simd.h"

#if VL == 16
static inline vf load_quarters(const float *p, int64_t rows4)
{
	vf x = _mm512_castps128_ps512(_mm_loadu_ps(p));
	x = _mm512_insertf32x4(x, _mm_loadu_ps(p + rows4), 1);
	x = _mm512_insertf32x4(x, _mm_loadu_ps(p + 2 * rows4), 2);
	return _mm512_insertf32x4(x, _mm_loadu_ps(p + 3 * rows4), 3);
}
static inline vf unpack_low(vf a, vf b) { return _mm512_unpacklo_ps(a, b); }
static inline vf unpack_high(vf a, vf b) { return _mm512_unpackhi_ps(a, b); }
#define shuffle_pairs(a, b, how) _mm512_shuffle_ps(a, b, how)
#else
static inline vf load_quarters(const float *p, int64_t rows4)
{
	return _mm256_insertf128_ps(_mm256_castps128_ps256(_mm_loadu_ps(p)), _mm_loadu_ps(p + rows4), 1);
}
static inline vf unpack_low(vf a, vf b) { return _mm256_unpacklo_ps(a, b); }
static inline vf unpack_high(vf a, vf b) { return _mm256_unpackhi_ps(a, b); }
#define shuffle_pairs(a, b, how) _mm256_shuffle_ps(a, b, how)
#endif

/* r[i] = (p[i], p[row + i], p[2 row + i], ...) */
static inline __attribute__((always_inline)) void vf_load_columns(vf r[VL], const float *p, int64_t row)
{
#pragma GCC unroll 4
	for (int q = 0; q < VL; q += 4) {
		vf a = load_quarters(p + q, 4 * row), b = load_quarters(p + row + q, 4 * row);
		vf c = load_quarters(p + 2 * row + q, 4 * row), d = load_quarters(p + 3 * row + q, 4 * row);
		vf ab = unpack_low(a, b), cd = unpack_low(c, d);
		r[q] = shuffle_pairs(ab, cd, 0x44);
		r[q + 1] = shuffle_pairs(ab, cd, 0xee);
		ab = unpack_high(a, b), cd = unpack_high(c, d);
		r[q + 2] = shuffle_pairs(ab, cd, 0x44);
		r[q + 3] = shuffle_pairs(ab, cd, 0xee);
	}
}

/* The same where only `columns` rows of `depth` floats are there: the rest is 0. */
static inline void vf_load_columns_part(vf r[VL], const float *p, int64_t row, int depth, int columns)
{
	float square[VL * VL];
	for (int j = 0; j < VL; j++) vf_store(square + j * VL, j < columns ? vf_load_n(p + j * row, depth) : vf_zero());
	vf_load_columns(r, square, VL);
}
#endif
