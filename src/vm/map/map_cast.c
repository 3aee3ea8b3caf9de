/* Conversions between element types, and the conversion of strips for the kernels that compute in
 * f32.
 *
 * Integer to float and f64 to a narrow float are rounded once: the value goes through a double or
 * float that is rounded to odd, so that the second rounding cannot be wrong. Float to integer
 * truncates and saturates, NaN gives 0: what PTX's cvt.rzi does. It has no 8 bits: those are the
 * lower half of what saturates at 16. */
#include "vm/map/map.h"
#include "base/base.h"
#include "base/dtype.h"
#include "ttir/ttir.h"
#include <immintrin.h>
#include <math.h>

#define LOOP _Pragma("GCC ivdep") for (int64_t i = 0; i < n; i++)
#define ARGS void *vd, const void *va, const void *vb, const void *vc, int64_t n, unsigned splat
#define CAST(name, D, A, expr) \
	static void name(ARGS) { D *d = vd; const A *a = va; LOOP { const A x = a[i]; d[i] = (D)(expr); } }

/* ---- integers ---- */

#define INT_PAIR(da, aa) \
	CAST(sext_##aa##_##da, int##da##_t, int##aa##_t, x) CAST(zext_##aa##_##da, uint##da##_t, uint##aa##_t, x)
#define INT_FROM(aa) \
	INT_PAIR(8, aa) INT_PAIR(16, aa) INT_PAIR(32, aa) INT_PAIR(64, aa) CAST(bit_##aa, uint8_t, uint##aa##_t, x & 1)
INT_FROM(8)
INT_FROM(16)
INT_FROM(32)
INT_FROM(64)
/* From i1: 0 or -1. */
CAST(sext_1_8, int8_t, uint8_t, 0 - x)
CAST(sext_1_16, int16_t, uint8_t, 0 - x)
CAST(sext_1_32, int32_t, uint8_t, 0 - x)
CAST(sext_1_64, int64_t, uint8_t, 0 - (int64_t)x)

/* [from][to]: i1, i8, i16, i32, i64 */
#define INT_ROW(p, aa, b1) {b1, p##_##aa##_8, p##_##aa##_16, p##_##aa##_32, p##_##aa##_64}
static map_fn *const sext[5][5] = {INT_ROW(sext, 1, bit_8), INT_ROW(sext, 8, bit_8), INT_ROW(sext, 16, bit_16),
	INT_ROW(sext, 32, bit_32), INT_ROW(sext, 64, bit_64)};
static map_fn *const zext[5][5] = {INT_ROW(zext, 8, bit_8), INT_ROW(zext, 8, bit_8), INT_ROW(zext, 16, bit_16),
	INT_ROW(zext, 32, bit_32), INT_ROW(zext, 64, bit_64)};

/* ---- integer to float ---- */

/* A double that rounds to any narrower format as the integer itself would: bits below the 53rd
 * become one sticky bit. */
static double odd_double(int64_t x)
{
	uint64_t lost = (uint64_t)x & 0x7ff;
	if (x < (1ll << 53) && x > -(1ll << 53)) return (double)x;
	return (double)(((x >> 11) | (lost != 0)) * 2048); /* no shift: x may be negative */
}

static double odd_double_unsigned(uint64_t x)
{
	if (x < 1ull << 53) return (double)x;
	return (double)(((x >> 11) | ((x & 0x7ff) != 0)) << 11);
}

static void narrow_double(enum elem e, void *d, int64_t i, double x);
#define FROM_INT(A, s, odd) \
	CAST(s##_f32, float, A, x) CAST(s##_f64, double, A, x) \
	static void s##_f16(ARGS) \
	{ const A *a = va; for (int64_t i = 0; i < n; i++) narrow_double(ELEM_F16, vd, i, odd(a[i])); } \
	static void s##_bf16(ARGS) \
	{ const A *a = va; for (int64_t i = 0; i < n; i++) narrow_double(ELEM_BF16, vd, i, odd(a[i])); }
FROM_INT(int8_t, si8, odd_double)
FROM_INT(int16_t, si16, odd_double)
FROM_INT(int32_t, si32, odd_double)
FROM_INT(int64_t, si64, odd_double)
FROM_INT(uint8_t, ui8, odd_double)
FROM_INT(uint16_t, ui16, odd_double)
FROM_INT(uint32_t, ui32, odd_double)
FROM_INT(uint64_t, ui64, odd_double_unsigned)
CAST(si1_f32, float, uint8_t, -(float)x)
CAST(si1_f64, double, uint8_t, -(double)x)
#define FROM_INT_ROW(s) {s##_f16, s##_bf16, s##_f32, s##_f64}
static map_fn *const from_signed[5][4] = {
	{NULL, NULL, si1_f32, si1_f64}, FROM_INT_ROW(si8), FROM_INT_ROW(si16), FROM_INT_ROW(si32), FROM_INT_ROW(si64)};
static map_fn *const from_unsigned[5][4] = {
	FROM_INT_ROW(ui8), FROM_INT_ROW(ui8), FROM_INT_ROW(ui16), FROM_INT_ROW(ui32), FROM_INT_ROW(ui64)};

/* ---- float to integer ---- */

/* Clamped before the conversion (lo and hi are the outermost values that convert without overflow),
 * so the loop has no undefined case. */
#define TO_INT(name, D, A, I, lo, hi, below, above) \
	static void name(ARGS) \
	{ \
		D *d = vd; const A *a = va; \
		LOOP { \
			const A x = a[i]; \
			A y = x == x ? x : 0; \
			y = y > (A)(lo) ? y : (A)(lo); \
			y = y < (A)(hi) ? y : (A)(hi); \
			I r = (I)y; \
			r = x > (A)(hi) ? (I)(above) : r; \
			r = x < (A)(lo) ? (I)(below) : r; \
			d[i] = (D)r; \
		} \
	}
#define TO_INT_FROM(A, s, hi32, hi64, hiu32, hiu64) \
	TO_INT(s##_si8, int8_t, A, int32_t, -0x1p15, 0x1.fffcp14, INT16_MIN, INT16_MAX) \
	TO_INT(s##_si16, int16_t, A, int32_t, -0x1p15, 0x1.fffcp14, INT16_MIN, INT16_MAX) \
	TO_INT(s##_si32, int32_t, A, int32_t, -0x1p31, hi32, INT32_MIN, INT32_MAX) \
	TO_INT(s##_si64, int64_t, A, int64_t, -0x1p63, hi64, INT64_MIN, INT64_MAX) \
	TO_INT(s##_ui8, uint8_t, A, uint32_t, 0, 0x1.fffep15, 0, UINT16_MAX) \
	TO_INT(s##_ui16, uint16_t, A, uint32_t, 0, 0x1.fffep15, 0, UINT16_MAX) \
	TO_INT(s##_ui32, uint32_t, A, uint32_t, 0, hiu32, 0, UINT32_MAX) \
	TO_INT(s##_ui64, uint64_t, A, uint64_t, 0, hiu64, 0, UINT64_MAX)
TO_INT_FROM(float, f32, 0x1.fffffep30, 0x1.fffffep62, 0x1.fffffep31, 0x1.fffffep63)
TO_INT_FROM(double, f64, 0x1.fffffffcp30, 0x1.fffffffffffffp62, 0x1.fffffffep31, 0x1.fffffffffffffp63)
static map_fn *const to_int[2][2][4] = {
	{{f32_si8, f32_si16, f32_si32, f32_si64}, {f32_ui8, f32_ui16, f32_ui32, f32_ui64}},
	{{f64_si8, f64_si16, f64_si32, f64_si64}, {f64_ui8, f64_ui16, f64_ui32, f64_ui64}},
};

/* ---- float to float ---- */

static uint16_t bf16_bits(float x)
{
	uint32_t u;
	memcpy(&u, &x, 4);
	uint32_t r = (u + 0x7fff + (u >> 16 & 1)) >> 16;
	return (uint16_t)((u & 0x7fffffff) > 0x7f800000 ? (u >> 16 | 0x40) : r);
}

static uint8_t f8_bits(enum elem e, float x)
{
	float max = e == ELEM_F8E4M3 ? 448.0f : 57344.0f;
	if (fabsf(x) > max) x = copysignf(max, x); /* NaN compares false and stays */
	return e == ELEM_F8E4M3 ? f32_to_f8e4m3(x) : f32_to_f8e5m2(x);
}

void map_widen(enum elem e, float *d, const void *a, int64_t n)
{
	int64_t i = 0;
	if (e == ELEM_F16) {
		const uint16_t *s = a;
		for (; i + 8 <= n; i += 8) _mm256_storeu_ps(d + i, _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)(s + i))));
		for (; i < n; i++) d[i] = _cvtsh_ss(s[i]);
	} else if (e == ELEM_BF16) {
		const uint16_t *s = a;
		uint32_t *u = (uint32_t *)d;
		_Pragma("GCC ivdep") for (; i < n; i++) u[i] = (uint32_t)s[i] << 16;
	} else if (e == ELEM_F8E4M3) {
		for (; i < n; i++) d[i] = f8e4m3_to_f32(((const uint8_t *)a)[i]);
	} else if (e == ELEM_F8E5M2) {
		for (; i < n; i++) d[i] = f8e5m2_to_f32(((const uint8_t *)a)[i]);
	} else {
		memcpy(d, a, (size_t)n * sizeof *d);
	}
}

void map_narrow(enum elem e, void *d, const float *a, int64_t n)
{
	int64_t i = 0;
	if (e == ELEM_F16) {
		uint16_t *to = d;
		for (; i + 8 <= n; i += 8)
			_mm_storeu_si128((__m128i *)(to + i), _mm256_cvtps_ph(_mm256_loadu_ps(a + i), _MM_FROUND_TO_NEAREST_INT));
		for (; i < n; i++) to[i] = (uint16_t)_cvtss_sh(a[i], _MM_FROUND_TO_NEAREST_INT);
	} else if (e == ELEM_BF16) {
		uint16_t *to = d;
		_Pragma("GCC ivdep") for (; i < n; i++) to[i] = bf16_bits(a[i]);
	} else if (e == ELEM_F8E4M3 || e == ELEM_F8E5M2) {
		for (; i < n; i++) ((uint8_t *)d)[i] = f8_bits(e, a[i]);
	} else {
		memcpy(d, a, (size_t)n * sizeof *a);
	}
}

static void narrow_double(enum elem e, void *d, int64_t i, double x)
{
	/* To float, rounded to odd: the neighbour whose last bit is set unless the conversion is exact.
	 */
	float f = (float)x;
	uint32_t u;
	memcpy(&u, &f, 4);
	if (isfinite(x) && (double)f != x) {
		if (isinf(f)) u--;
		else if (!(u & 1)) u = fabs((double)f) > fabs(x) ? u - 1 : u | 1;
		memcpy(&f, &u, 4);
	}
	map_narrow(e, (uint8_t *)d + (size_t)i * elem_bytes(e), &f, 1);
}

static void copy_f32(ARGS) { memmove(vd, va, (size_t)n * 4); }
static void f16_f32(ARGS) { map_widen(ELEM_F16, vd, va, n); }
static void bf16_f32(ARGS) { map_widen(ELEM_BF16, vd, va, n); }
static void f32_f16(ARGS) { map_narrow(ELEM_F16, vd, va, n); }
static void f32_bf16(ARGS) { map_narrow(ELEM_BF16, vd, va, n); }
CAST(f32_f64, double, float, x)
CAST(f64_f32, float, double, x)
#define FROM_F64(s, e) \
	static void f64_##s(ARGS) \
	{ const double *a = va; for (int64_t i = 0; i < n; i++) narrow_double(e, vd, i, a[i]); }
FROM_F64(f16, ELEM_F16)
FROM_F64(bf16, ELEM_BF16)
FROM_F64(e4m3, ELEM_F8E4M3)
FROM_F64(e5m2, ELEM_F8E5M2)

/* Toward zero: f32 (strips) to f16, bf16; f8E5M2 is the upper byte of the truncated f16. */
static void rtz_f16(ARGS)
{
	const float *a = va;
	for (int64_t i = 0; i < n; i++) ((uint16_t *)vd)[i] = (uint16_t)_cvtss_sh(a[i], _MM_FROUND_TO_ZERO);
}
CAST(rtz_bf16, uint16_t, uint32_t, x >> 16 | ((x & 0x7fffffff) > 0x7f800000 ? 0x40 : 0))
static void rtz_e5m2_f32(ARGS)
{
	const float *a = va;
	for (int64_t i = 0; i < n; i++) ((float *)vd)[i] = _cvtsh_ss(_cvtss_sh(a[i], _MM_FROUND_TO_ZERO) & 0xff00);
}
static void rtz_e5m2(ARGS)
{
	const float *a = va;
	for (int64_t i = 0; i < n; i++) ((uint8_t *)vd)[i] = (uint8_t)(_cvtss_sh(a[i], _MM_FROUND_TO_ZERO) >> 8);
}

static const struct {
	enum elem from;
	enum elem to;
	map_fn *fn;
} float_casts[] = {
	{ELEM_F16, ELEM_F32, f16_f32},
	{ELEM_BF16, ELEM_F32, bf16_f32},
	{ELEM_F32, ELEM_F16, f32_f16},
	{ELEM_F32, ELEM_BF16, f32_bf16},
	{ELEM_F32, ELEM_F64, f32_f64},
	{ELEM_F64, ELEM_F32, f64_f32},
	{ELEM_F64, ELEM_F16, f64_f16},
	{ELEM_F64, ELEM_BF16, f64_bf16},
	{ELEM_F64, ELEM_F8E4M3, f64_e4m3},
	{ELEM_F64, ELEM_F8E5M2, f64_e5m2},
};

static map_fn *float_cast(enum elem from, enum elem to, bool *strips)
{
	for (size_t i = 0; i < ARRAY_LEN(float_casts); i++)
		if (float_casts[i].from == from && float_casts[i].to == to) return float_casts[i].fn;
	*strips = true; /* the operand arrives as f32; a narrow result leaves as f32 */
	return to == ELEM_F64 ? f32_f64 : copy_f32;
}

static int float_column(enum elem e)
{
	return e == ELEM_F16 ? 0 : e == ELEM_BF16 ? 1 : e == ELEM_F32 ? 2 : e == ELEM_F64 ? 3 : -1;
}

map_fn *map_cast_kernel(const char *kind, enum elem from, enum elem to, bool *strips)
{
	*strips = false;
	if (elem_is_int(from) && elem_is_int(to))
		return !strcmp(kind, "extui") || !strcmp(kind, "index_castui") ? zext[from][to] : sext[from][to];
	if (elem_is_int(from) && elem_is_float(to)) {
		int column = float_column(to);
		if (column < 0) return NULL;
		return !strcmp(kind, "uitofp") ? from_unsigned[from][column] : from_signed[from][column];
	}
	if (elem_is_float(from) && elem_is_int(to)) {
		*strips = elem_is_narrow(from);
		return to == ELEM_I1 ? NULL : to_int[from == ELEM_F64][!strcmp(kind, "fptoui")][to - ELEM_I8];
	}
	if (!elem_is_float(from) || !elem_is_float(to)) return NULL;
	if (strcmp(kind, "rtz")) return float_cast(from, to, strips);
	*strips = elem_is_narrow(from);
	if (to == ELEM_F8E5M2 && from != ELEM_F64) return *strips ? rtz_e5m2_f32 : rtz_e5m2;
	return from != ELEM_F32 ? NULL : to == ELEM_F16 ? rtz_f16 : to == ELEM_BF16 ? rtz_bf16 : NULL;
}
