/* simd_transpose: VL vectors as the rows of a square become its columns. */
#ifndef HONE_SIMD_TRANSPOSE_H
#define HONE_SIMD_TRANSPOSE_H
#include "simd.h"

#if VL == 16
static inline __attribute__((always_inline)) void vf_transpose(vf r[VL])
{
	vf t[VL];
#pragma GCC unroll 16
	for (int i = 0; i < 16; i += 2) {
		t[i] = _mm512_unpacklo_ps(r[i], r[i + 1]);
		t[i + 1] = _mm512_unpackhi_ps(r[i], r[i + 1]);
	}
#pragma GCC unroll 16
	for (int i = 0; i < 16; i += 4) {   /* 4 x 4 blocks inside each quarter */
		r[i] = _mm512_shuffle_ps(t[i], t[i + 2], 0x44);
		r[i + 1] = _mm512_shuffle_ps(t[i], t[i + 2], 0xee);
		r[i + 2] = _mm512_shuffle_ps(t[i + 1], t[i + 3], 0x44);
		r[i + 3] = _mm512_shuffle_ps(t[i + 1], t[i + 3], 0xee);
	}
#pragma GCC unroll 16
	for (int i = 0; i < 4; i++) {
		t[i] = _mm512_shuffle_f32x4(r[i], r[i + 4], 0x88);
		t[i + 4] = _mm512_shuffle_f32x4(r[i + 8], r[i + 12], 0x88);
		t[i + 8] = _mm512_shuffle_f32x4(r[i], r[i + 4], 0xdd);
		t[i + 12] = _mm512_shuffle_f32x4(r[i + 8], r[i + 12], 0xdd);
	}
#pragma GCC unroll 16
	for (int i = 0; i < 4; i++) {
		r[i] = _mm512_shuffle_f32x4(t[i], t[i + 4], 0x88);
		r[i + 8] = _mm512_shuffle_f32x4(t[i], t[i + 4], 0xdd);
		r[i + 4] = _mm512_shuffle_f32x4(t[i + 8], t[i + 12], 0x88);
		r[i + 12] = _mm512_shuffle_f32x4(t[i + 8], t[i + 12], 0xdd);
	}
}
#else
static inline __attribute__((always_inline)) void vf_transpose(vf r[VL])
{
	vf t[VL];
#pragma GCC unroll 8
	for (int i = 0; i < 8; i += 2) {
		t[i] = _mm256_unpacklo_ps(r[i], r[i + 1]);
		t[i + 1] = _mm256_unpackhi_ps(r[i], r[i + 1]);
	}
#pragma GCC unroll 8
	for (int i = 0; i < 8; i += 4) {
		r[i] = _mm256_shuffle_ps(t[i], t[i + 2], 0x44);
		r[i + 1] = _mm256_shuffle_ps(t[i], t[i + 2], 0xee);
		r[i + 2] = _mm256_shuffle_ps(t[i + 1], t[i + 3], 0x44);
		r[i + 3] = _mm256_shuffle_ps(t[i + 1], t[i + 3], 0xee);
	}
#pragma GCC unroll 8
	for (int i = 0; i < 4; i++) {
		t[i] = _mm256_permute2f128_ps(r[i], r[i + 4], 0x20);
		t[i + 4] = _mm256_permute2f128_ps(r[i], r[i + 4], 0x31);
	}
#pragma GCC unroll 8
	for (int i = 0; i < 8; i++) r[i] = t[i];
}
#endif
#endif
