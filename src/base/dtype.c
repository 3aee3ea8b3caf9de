/* Element types: names and scalar conversions.
 *
 * The two 8-bit formats go through one routine: scaling by a power of two and adding a magic
 * constant lets the FPU round denormals, and integer arithmetic rounds normals; both are round to
 * nearest even. Doubles are narrowed to float by rounding to odd first, so that the second rounding
 * (to bf16, f16 or f8) cannot be wrong: a float has more than two extra bits over each of these
 * formats (Boldo and Melquiond 2008). */
#include "base/dtype.h"
#include <immintrin.h>
#include <math.h>

struct dtype_row {
	const char *name;        /* hone's */
	const char *safetensors; /* that of a safetensors header; NULL: the format has none */
	uint8_t bytes;           /* of one element */
	bool is_float;
	bool is_signed;
};
#define X(e, torch, st, ttir, size, fp, sgn) [e] = {torch, st, size, fp, sgn},
static const struct dtype_row rows[DTYPE_COUNT] = {DTYPE_TABLE(X)};
#undef X

static const struct dtype_row *row_of(enum dtype t)
{
	CHECKF((unsigned)t < DTYPE_COUNT, "dtype %d", (int)t);
	return &rows[t];
}

size_t dtype_bytes(enum dtype t) { return row_of(t)->bytes; }
bool dtype_is_float(enum dtype t) { return row_of(t)->is_float; }
const char *dtype_name(enum dtype t) { return row_of(t)->name; }
const char *dtype_safetensors_name(enum dtype t) { return row_of(t)->safetensors; }

int dtype_from_name(const char *name, enum dtype *out)
{
	for (int i = 0; i < DTYPE_COUNT; i++)
		if (!strcmp(name, rows[i].name)) {
			*out = (enum dtype)i;
			return 0;
		}
	return ERR_NOT_FOUND;
}

int dtype_from_safetensors(const char *name, enum dtype *out)
{
	for (int i = 0; i < DTYPE_COUNT; i++)
		if (!strcmp(name, rows[i].safetensors)) {
			*out = (enum dtype)i;
			return 0;
		}
	return ERR_NOT_FOUND;
}

static uint32_t bits_of(float x)
{
	uint32_t u;
	memcpy(&u, &x, 4);
	return u;
}
static float float_of(uint32_t u)
{
	float x;
	memcpy(&x, &u, 4);
	return x;
}

uint16_t f32_to_bf16(float x)
{
	if (x != x) return 0x7fc0;
	uint32_t u = bits_of(x);
	return (uint16_t)((u + 0x7fff + ((u >> 16) & 1)) >> 16);
}

float bf16_to_f32(uint16_t x) { return float_of((uint32_t)x << 16); }
uint16_t f32_to_f16(float x) { return (uint16_t)_cvtss_sh(x, _MM_FROUND_TO_NEAREST_INT); }
float f16_to_f32(uint16_t x) { return _cvtsh_ss(x); }

/* Rounds |x| < overflow to a format with `mant` mantissa bits and exponent bias `bias`; returns the
 * bits without sign. */
static uint32_t mini_round(uint32_t u, int mant, int bias)
{
	uint32_t smallest_normal = (uint32_t)(128 - bias) << 23;
	if (u < smallest_normal) {
		/* ulp of the magic number is the format's denormal step, so the addition rounds to it. */
		uint32_t magic = (uint32_t)(151 - bias - mant) << 23;
		return bits_of(float_of(u) + float_of(magic)) - magic;
	}
	int drop = 23 - mant;
	uint32_t odd = (u >> drop) & 1;
	return (u - ((uint32_t)(127 - bias) << 23) + ((1u << (drop - 1)) - 1) + odd) >> drop;
}

uint8_t f32_to_f8e4m3(float x)
{
	uint32_t u = bits_of(x), sign = u >> 31 << 7;
	u &= 0x7fffffff;
	if (u >= 1087u << 20) return (uint8_t)(sign | 0x7f); /* 480 and more, inf, NaN */
	return (uint8_t)(sign | mini_round(u, 3, 7));
}

uint8_t f32_to_f8e5m2(float x)
{
	uint32_t u = bits_of(x), sign = u >> 31 << 7;
	u &= 0x7fffffff;
	if (u > 0x7f800000) return (uint8_t)(sign | 0x7f);
	if (u >= 143u << 23) return (uint8_t)(sign | 0x7c); /* 65536 and more */
	return (uint8_t)(sign | mini_round(u, 2, 15));
}

float f8e4m3_to_f32(uint8_t x)
{
	uint32_t sign = (uint32_t)(x >> 7) << 31, mag = x & 0x7f;
	if (mag == 0x7f) return float_of(sign | 0x7fc00000);
	if (mag < 8) return float_of(sign | bits_of((float)mag * 0x1p-9f));
	return float_of(sign | ((mag << 20) + ((127u - 7) << 23)));
}

/* The upper byte of an f16. */
float f8e5m2_to_f32(uint8_t x) { return f16_to_f32((uint16_t)(x << 8)); }

/* double to float with round to odd: exact, or the neighbour whose last bit is 1. */
static float narrow_odd(double x)
{
	float f = (float)x;
	if (!isfinite(x) || (double)f == x) return f;
	if (isinf(f)) return float_of(bits_of(f) - 1);
	uint32_t u = bits_of(f);
	if (u & 1) return f;
	bool went_up = fabs((double)f) > fabs(x);
	return float_of(went_up ? u - 1 : u | 1);
}

/* Truncates; NaN is 0, values outside int64 saturate. */
static int64_t truncate(double x)
{
	if (x != x) return 0;
	if (x >= 0x1p63) return INT64_MAX;
	if (x < -0x1p63) return INT64_MIN;
	return (int64_t)x;
}

static uint64_t truncate_unsigned(double x)
{
	if (x >= 0x1p64) return UINT64_MAX;
	return x >= 0x1p63 ? (uint64_t)x : (uint64_t)truncate(x);
}

double dtype_load(enum dtype t, const void *base, int64_t i)
{
	switch (t) {
	case DTYPE_F32: return ((const float *)base)[i];
	case DTYPE_F64: return ((const double *)base)[i];
	case DTYPE_F16: return f16_to_f32(((const uint16_t *)base)[i]);
	case DTYPE_BF16: return bf16_to_f32(((const uint16_t *)base)[i]);
	case DTYPE_F8E4M3: return f8e4m3_to_f32(((const uint8_t *)base)[i]);
	case DTYPE_F8E5M2: return f8e5m2_to_f32(((const uint8_t *)base)[i]);
	case DTYPE_I8: return ((const int8_t *)base)[i];
	case DTYPE_I16: return ((const int16_t *)base)[i];
	case DTYPE_I32: return ((const int32_t *)base)[i];
	case DTYPE_I64: return (double)((const int64_t *)base)[i];
	case DTYPE_U8: return ((const uint8_t *)base)[i];
	case DTYPE_U16: return ((const uint16_t *)base)[i];
	case DTYPE_U32: return ((const uint32_t *)base)[i];
	case DTYPE_U64: return (double)((const uint64_t *)base)[i];
	case DTYPE_BOOL: return ((const uint8_t *)base)[i] != 0;
	default: CHECKF(false, "dtype %d", (int)t);
	}
}

void dtype_store(enum dtype t, void *base, int64_t i, double value)
{
	switch (t) {
	case DTYPE_F32: ((float *)base)[i] = (float)value; return;
	case DTYPE_F64: ((double *)base)[i] = value; return;
	case DTYPE_F16: ((uint16_t *)base)[i] = f32_to_f16(narrow_odd(value)); return;
	case DTYPE_BF16: ((uint16_t *)base)[i] = f32_to_bf16(narrow_odd(value)); return;
	case DTYPE_F8E4M3: ((uint8_t *)base)[i] = f32_to_f8e4m3(narrow_odd(value)); return;
	case DTYPE_F8E5M2: ((uint8_t *)base)[i] = f32_to_f8e5m2(narrow_odd(value)); return;
	case DTYPE_I8:
	case DTYPE_U8: ((uint8_t *)base)[i] = (uint8_t)truncate(value); return;
	case DTYPE_I16:
	case DTYPE_U16: ((uint16_t *)base)[i] = (uint16_t)truncate(value); return;
	case DTYPE_I32:
	case DTYPE_U32: ((uint32_t *)base)[i] = (uint32_t)truncate(value); return;
	case DTYPE_I64: ((int64_t *)base)[i] = truncate(value); return;
	case DTYPE_U64: ((uint64_t *)base)[i] = truncate_unsigned(value); return;
	case DTYPE_BOOL: ((uint8_t *)base)[i] = value != 0; return;
	default: CHECKF(false, "dtype %d", (int)t);
	}
}
