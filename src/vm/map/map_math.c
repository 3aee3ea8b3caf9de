/* Kernels of the transcendental functions.
 *
 * f32: what kernels use all the time (exp, log, tanh, erf, sin, cos and relatives) is vectorised in
 * vm_math.c; the rest calls libm in double and rounds once, which is within 0.51 ulp. f64: libm,
 * within 1 ulp for the functions that glibc states so. */
#include "vm/map/map.h"
#include "ttir/ttir.h"
#include "vm/map/vm_math.h"
#include <math.h>

#define VM_MATH_STRIP 256
#define ARGS void *vd, const void *va, const void *vb, const void *vc, int64_t n, unsigned splat

static double erfinv(double x)
{
	if (x <= -1 || x >= 1) return x == 1 ? INFINITY : x == -1 ? -INFINITY : NAN;
	/* Giles 2010 starts it. */
	double w = -log((1 - x) * (1 + x)), p;
	if (w < 5) {
		w -= 2.5;
		p = 1.50140941 +
			w *
				(0.246640727 +
					w * (-0.00417768164 + w * (-0.00125372503 + w * (0.000218580870 + w * -4.39150654e-06))));
	} else {
		w = sqrt(w) - 3;
		p = 2.83297682 +
			w * (1.00167406 + w * (0.00943887047 + w * (-0.0076224613 + w * (0.00573950773 + w * -0.00367342844))));
	}
	/* Newton's steps finish it: on erf, and where that is nearly 1 on the logarithm of what it
	 * lacks, of which no digit is lost. */
	double y = fabs(p * x), a = fabs(x);
	for (int i = 0; i < 4; i++) {
		double slope = 1.1283791670955126 * exp(-y * y);
		if (a < 0.5) y -= (erf(y) - a) / slope;
		else y += log(erfc(y) / (1 - a)) * erfc(y) / slope;
	}
	return copysign(y, x);
}

static double normcdf(double x) { return 0.5 * erfc(-x * M_SQRT1_2); }

/* Near their zeros both are the sine of a small angle, of which no digit is lost. */
static double sinpi_(double x)
{
	double r = x - 2 * rint(0.5 * x);
	if (fabs(r) > 0.5) r = copysign(1 - fabs(r), r);
	return r == 0 ? copysign(0, x) : sin(M_PI * r);
}
static double cospi_(double x)
{
	double r = fabs(x - 2 * rint(0.5 * x));
	return r > 0.25 && r < 0.75 ? sin(M_PI * (0.5 - r)) : cos(M_PI * r);
}

static double rcbrt_(double x) { return 1 / cbrt(x); }
static double rcp_(double x) { return 1 / x; }

#define UNARY(name, f) \
	static void name##_f32(ARGS) \
	{ float *d = vd; const float *a = va; for (int64_t i = 0; i < n; i++) d[i] = (float)f((double)a[i]); } \
	static void name##_f64(ARGS) \
	{ double *d = vd; const double *a = va; for (int64_t i = 0; i < n; i++) d[i] = f(a[i]); }
#define BINARY(name, T, s, call) \
	static void name##_##s(ARGS) \
	{ \
		T *d = vd; const T *a = va, *b = vb; \
		for (int64_t i = 0; i < n; i++) \
		{ const T x = a[splat & 1 ? 0 : i], y = b[splat & 2 ? 0 : i]; d[i] = (T)(call); } \
	}
#define BINARY_DOUBLE(name, f) BINARY(name, float, f32, f((double)x, (double)y)) BINARY(name, double, f64, f(x, y))

/* The loops of vm_math.c take whole blocks. */
#define BLOCK(name, f) \
	static void name##_f32(ARGS) { vm_math_##name(vd, va, n); } \
	static void name##_f64(ARGS) \
	{ double *d = vd; const double *a = va; for (int64_t i = 0; i < n; i++) d[i] = f(a[i]); }

BLOCK(exp, exp)
BLOCK(exp2, exp2)
BLOCK(expm1, expm1)
/* clang-format off */
BLOCK(log, log) BLOCK(log2, log2) BLOCK(log10, log10) BLOCK(log1p, log1p) BLOCK(sin, sin) BLOCK(cos, cos)
BLOCK(tanh, tanh) BLOCK(erf, erf)
	UNARY(tan, tan) UNARY(sinh, sinh) UNARY(cosh, cosh) UNARY(asin, asin) UNARY(acos, acos) UNARY(atan, atan)
UNARY(asinh, asinh) UNARY(acosh, acosh) UNARY(atanh, atanh) UNARY(erfc, erfc) UNARY(cbrt, cbrt) UNARY(exp10, exp10)
UNARY(lgamma, lgamma) UNARY(tgamma, tgamma)
UNARY(erfinv, erfinv) UNARY(normcdf, normcdf) UNARY(logb, logb) UNARY(sinpi, sinpi_) UNARY(cospi, cospi_)
UNARY(rcbrt, rcbrt_) UNARY(rcp, rcp_)
UNARY(j0, j0) UNARY(j1, j1) UNARY(y0, y0) UNARY(y1, y1)
BINARY_DOUBLE(atan2, atan2) BINARY_DOUBLE(hypot, hypot) BINARY_DOUBLE(fdim, fdim)
BINARY(pow, double, f64, pow(x, y))
BINARY(nextafter, float, f32, nextafterf(x, y)) BINARY(nextafter, double, f64, nextafter(x, y))
BINARY(ldexp, float, f32, ldexp((double)x, (int)y)) BINARY(ldexp, double, f64, ldexp(x, (int)y))
BINARY(remainder, float, f32, remainderf(x, y)) BINARY(remainder, double, f64, remainder(x, y))
	/* clang-format on */

	/* A splat base or exponent is repeated in strips. */
	static void pow_f32(ARGS)
{
	float x[VM_MATH_STRIP], y[VM_MATH_STRIP];
	float *d = vd;
	const float *a = va, *b = vb;
	for (int64_t at = 0; at < n; at += VM_MATH_STRIP) {
		int64_t m = n - at < VM_MATH_STRIP ? n - at : VM_MATH_STRIP;
		for (int64_t i = 0; i < m; i++) {
			x[i] = a[splat & 1 ? 0 : at + i];
			y[i] = b[splat & 2 ? 0 : at + i];
		}
		vm_math_pow(d + at, x, y, m);
	}
}

#define ROW(id, fn) [id] = {fn##_f32, fn##_f64}
static map_fn *const kernels[MAP_COUNT][2] = {
	ROW(MAP_EXP, exp),
	ROW(MAP_EXP2, exp2),
	ROW(MAP_EXPM1, expm1),
	ROW(MAP_LOG, log),
	ROW(MAP_LOG2, log2),
	ROW(MAP_LOG10, log10),
	ROW(MAP_LOG1P, log1p),
	ROW(MAP_SIN, sin),
	ROW(MAP_COS, cos),
	ROW(MAP_TAN, tan),
	ROW(MAP_SINH, sinh),
	ROW(MAP_COSH, cosh),
	ROW(MAP_TANH, tanh),
	ROW(MAP_ASIN, asin),
	ROW(MAP_ACOS, acos),
	ROW(MAP_ATAN, atan),
	ROW(MAP_ASINH, asinh),
	ROW(MAP_ACOSH, acosh),
	ROW(MAP_ATANH, atanh),
	ROW(MAP_ERF, erf),
	ROW(MAP_ERFC, erfc),
	ROW(MAP_CBRT, cbrt),
	ROW(MAP_EXP10, exp10),
	ROW(MAP_LGAMMA, lgamma),
	ROW(MAP_TGAMMA, tgamma),
	ROW(MAP_ERFINV, erfinv),
	ROW(MAP_NORMCDF, normcdf),
	ROW(MAP_LOGB, logb),
	ROW(MAP_SINPI, sinpi),
	ROW(MAP_COSPI, cospi),
	ROW(MAP_RCBRT, rcbrt),
	ROW(MAP_RCP, rcp),
	ROW(MAP_J0, j0),
	ROW(MAP_J1, j1),
	ROW(MAP_Y0, y0),
	ROW(MAP_Y1, y1),
	ROW(MAP_POWF, pow),
	ROW(MAP_ATAN2, atan2),
	ROW(MAP_HYPOT, hypot),
	ROW(MAP_FDIM, fdim),
	ROW(MAP_NEXTAFTER, nextafter),
	ROW(MAP_REMAINDER, remainder),
	ROW(MAP_LDEXP, ldexp),
};

#define X(id, name, nsrc, class, flops, special) [id] = {name, nsrc, class, flops, special},
const struct map_row map_rows[MAP_COUNT] = {MAP_TABLE(X)};
#undef X

map_fn *map_kernel(enum map_op op, enum elem e)
{
	if (map_rows[op].class == 'I') return map_int_kernel(op, e);
	if (!elem_is_float(e)) return NULL;
	map_fn *fn = map_float_kernels[op][e == ELEM_F64];
	return fn ? fn : kernels[op][e == ELEM_F64];
}
