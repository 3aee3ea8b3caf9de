/* Kernels of floating-point operations that IEEE 754 defines exactly: each is one correctly rounded
 * operation. */
#include "vm/map/map.h"
#include <math.h>

#define LOOP _Pragma("GCC ivdep") for (int64_t i = 0; i < n; i++)
#define BINARY(name, expr) \
	static void FN(name)(void *vd, const void *va, const void *vb, const void *vc, int64_t n, unsigned splat) \
	{ \
		T *d = vd; const T *a = va, *b = vb; \
		if (splat & 1) { const T x = a[0]; LOOP { const T y = b[i]; d[i] = (expr); } } \
		else if (splat & 2) { const T y = b[0]; LOOP { const T x = a[i]; d[i] = (expr); } } \
		else LOOP { const T x = a[i], y = b[i]; d[i] = (expr); } \
	}
#define UNARY(name, expr) \
	static void FN(name)(void *vd, const void *va, const void *vb, const void *vc, int64_t n, unsigned splat) \
	{ \
		T *d = vd; const T *a = va; \
		LOOP { const T x = a[i]; d[i] = (expr); } \
	}
/* Splats of three operands are expanded by the caller. */
#define TERNARY(name, expr) \
	static void FN(name)(void *vd, const void *va, const void *vb, const void *vc, int64_t n, unsigned splat) \
	{ \
		T *d = vd; const T *a = va, *b = vb, *c = vc; \
		LOOP { const T x = a[i], y = b[i], z = c[i]; d[i] = (expr); } \
	}

/* maxnum ignores a NaN, maximum passes it on. Both order -0 below +0: of two equal operands the
 * sign bits decide. */
#define EQUAL_AND(x, y) FROM_BITS(TO_BITS(x) & TO_BITS(y))
#define EQUAL_OR(x, y) FROM_BITS(TO_BITS(x) | TO_BITS(y))
#define MAXNUM(x, y) ((x) != (x) ? (y) : (y) != (y) ? (x) : (x) > (y) ? (x) : (x) < (y) ? (y) : EQUAL_AND(x, y))
#define MINNUM(x, y) ((x) != (x) ? (y) : (y) != (y) ? (x) : (x) < (y) ? (x) : (x) > (y) ? (y) : EQUAL_OR(x, y))
#define MAXIMUM(x, y) ((x) != (x) ? (x) : (y) != (y) ? (y) : (x) > (y) ? (x) : (x) < (y) ? (y) : EQUAL_AND(x, y))
#define MINIMUM(x, y) ((x) != (x) ? (x) : (y) != (y) ? (y) : (x) < (y) ? (x) : (x) > (y) ? (y) : EQUAL_OR(x, y))

#define FLOAT_OPS \
	BINARY(addf, x + y) BINARY(subf, x - y) BINARY(mulf, x * y) BINARY(divf, x / y) BINARY(remf, M(fmod)(x, y)) \
	BINARY(maximumf, MAXIMUM(x, y)) BINARY(minimumf, MINIMUM(x, y)) BINARY(maxnumf, MAXNUM(x, y)) \
	BINARY(minnumf, MINNUM(x, y)) \
	BINARY(copysignf_, M(copysign)(x, y)) UNARY(negf, -x) UNARY(absf, M(fabs)(x)) UNARY(ceilf_, M(ceil)(x)) \
	UNARY(floorf_, M(floor)(x)) \
	UNARY(roundf_, M(round)(x)) UNARY(roundevenf_, M(rint)(x)) UNARY(truncf_, M(trunc)(x)) UNARY(sqrtf_, M(sqrt)(x)) \
	UNARY(saturatef_, (x) > 0 ? (x < 1 ? x : 1) : 0) \
	TERNARY(fmaf_, M(fma)(x, y, z)) TERNARY(fmsf_, M(fma)(x, y, -z)) TERNARY(fnmaf_, M(fma)(-x, y, z)) \
	TERNARY(clampf_, MINNUM(MAXNUM(x, y), z)) TERNARY(clampnanf_, MINIMUM(MAXIMUM(x, y), z))

static inline uint32_t bits32(float x)
{
	uint32_t u;
	memcpy(&u, &x, 4);
	return u;
}
static inline float from32(uint32_t u)
{
	float x;
	memcpy(&x, &u, 4);
	return x;
}
static inline uint64_t bits64(double x)
{
	uint64_t u;
	memcpy(&u, &x, 8);
	return u;
}
static inline double from64(uint64_t u)
{
	double x;
	memcpy(&x, &u, 8);
	return x;
}

#define T float
#define FN(name) name##_f32
#define M(name) name##f
#define TO_BITS bits32
#define FROM_BITS from32
FLOAT_OPS
/* 1 / sqrt in double, rounded once: within half an ulp and a hair. */
UNARY(rsqrt_, (float)(1.0 / sqrt((double)x)))
#undef T
#undef FN
#undef M
#undef TO_BITS
#undef FROM_BITS
#define T double
#define FN(name) name##_f64
#define M(name) name
#define TO_BITS bits64
#define FROM_BITS from64
FLOAT_OPS
UNARY(rsqrt_, 1.0 / sqrt(x))

#define ROW(id, fn) [id] = {fn##_f32, fn##_f64}
map_fn *const map_float_kernels[MAP_COUNT][2] = {
	ROW(MAP_ADDF, addf),
	ROW(MAP_SUBF, subf),
	ROW(MAP_MULF, mulf),
	ROW(MAP_DIVF, divf),
	ROW(MAP_PRECISE_DIVF, divf),
	ROW(MAP_REMF, remf),
	ROW(MAP_MAXIMUMF, maximumf),
	ROW(MAP_MINIMUMF, minimumf),
	ROW(MAP_MAXNUMF, maxnumf),
	ROW(MAP_MINNUMF, minnumf),
	ROW(MAP_COPYSIGN, copysignf_),
	ROW(MAP_NEGF, negf),
	ROW(MAP_ABSF, absf),
	ROW(MAP_CEIL, ceilf_),
	ROW(MAP_FLOOR, floorf_),
	ROW(MAP_ROUND, roundf_),
	ROW(MAP_ROUNDEVEN, roundevenf_),
	ROW(MAP_TRUNC, truncf_),
	ROW(MAP_SQRT, sqrtf_),
	ROW(MAP_PRECISE_SQRT, sqrtf_),
	ROW(MAP_RSQRT, rsqrt_),
	ROW(MAP_SATURATE, saturatef_),
	ROW(MAP_FMA, fmaf_),
	ROW(MAP_FMS, fmsf_),
	ROW(MAP_FNMA, fnmaf_),
	ROW(MAP_CLAMPF, clampf_),
	ROW(MAP_CLAMPF_NAN, clampnanf_),
};
