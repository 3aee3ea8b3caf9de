/* See vm_math.h.
 *
 * Every function is an expression without branches in double, so that the loops vectorise; NaN and
 * out-of-range arguments are put right by selects at the end. fma is written out (the build forbids
 * contraction), so results are the same at every vector width. */
#include "vm/map/vm_math.h"
#include <math.h>
#include <string.h>

/* One version for AVX-512 beside the x86-64-v3 one, picked at load time. clang does not know the
 * level, and sanitizers run before their runtime is ready in such resolvers. */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__) || defined(__clang__)
#define WIDE
#else
#define WIDE __attribute__((target_clones("arch=x86-64-v4", "default")))
#endif
#define INLINE static inline __attribute__((always_inline))

#define LN2 0x1.62e42fefa39efp-1
#define INV_LN2 0x1.71547652b82fep+0
#define INV_LN10 0x1.bcb7b1526e50ep-2
#define TWO_OVER_PI 0x1.45f306dc9c883p-1
#define PI_2_HEAD 0x1.921fb544p+0                 /* 33 bits: k * head is exact for |k| < 2^20 */
#define PI_2_TAIL 0x1.0b4611a626331p-34
#define ROUND_MAGIC 0x1.8p52                      /* adding it leaves the nearest integer in the low mantissa bits */
#define TRIG_MAX 0x1p20f

INLINE double from_bits(uint64_t u)
{
	double x;
	memcpy(&x, &u, 8);
	return x;
}
INLINE uint64_t to_bits(double x)
{
	uint64_t u;
	memcpy(&u, &x, 8);
	return u;
}
INLINE double fma_(double a, double b, double c) { return __builtin_fma(a, b, c); }

/* exp(r) - 1 for |r| <= ln2/2: Taylor to r^10, whose next term is below 2.5e-13 of the sum. */
INLINE double expm1_core(double r)
{
	double p = 2.755731922398589e-07;
	p = fma_(p, r, 2.7557319223985893e-06);
	p = fma_(p, r, 2.48015873015873e-05);
	p = fma_(p, r, 0.0001984126984126984);
	p = fma_(p, r, 0.001388888888888889);
	p = fma_(p, r, 0.008333333333333333);
	p = fma_(p, r, 0.041666666666666664);
	p = fma_(p, r, 0.16666666666666666);
	p = fma_(p, r, 0.5);
	return fma_(p * r, r, r);
}

/* 2^k for the integer that ROUND_MAGIC was added to. */
INLINE double power_of_two(double shifted) { return from_bits((to_bits(shifted) << 52) + 0x3ff0000000000000); }

/* exp and exp - 1 for x in [-700, 700]; one of the two is used. */
INLINE double exp_double(double x)
{
	double s = fma_(x, INV_LN2, ROUND_MAGIC), k = s - ROUND_MAGIC, r = fma_(k, -LN2, x);
	double scale = power_of_two(s);
	return fma_(scale, expm1_core(r), scale);
}

INLINE double expm1_double(double x)
{
	double s = fma_(x, INV_LN2, ROUND_MAGIC), k = s - ROUND_MAGIC, r = fma_(k, -LN2, x);
	double scale = power_of_two(s);
	return fma_(scale, expm1_core(r), scale - 1);
}

INLINE double clamp(double x, double lo, double hi)
{
	x = x < lo ? lo : x;
	return x > hi ? hi : x; /* NaN stays NaN */
}

/* Clamped where the float result has long been 0, inf or -1. The integer part of a NaN is nonsense,
 * its polynomial is NaN. */
INLINE double f_exp(double x) { return exp_double(clamp(x, -120, 100)); }
INLINE double f_expm1(double x) { return expm1_double(clamp(x, -120, 100)); }
INLINE double f_exp2(double x)
{
	x = clamp(x, -170, 140);
	double s = x + ROUND_MAGIC, r = (x - (s - ROUND_MAGIC)) * LN2, scale = power_of_two(s);
	return fma_(scale, expm1_core(r), scale);
}

INLINE double f_tanh(double x)
{
	double e = expm1_double(clamp(2 * x, -40, 40));
	return e / (e + 2);
}

/* ln of a positive normal double as k ln2 + log(m), m in [sqrt(1/2), sqrt(2)): 2 atanh((m - 1) / (m
 * + 1)), series to s^17. */
INLINE double log_parts(double x, double *k)
{
	uint64_t u = to_bits(x) + (0x3ff0000000000000 - 0x3fe6a09e00000000), e = u >> 52;
	*k = from_bits(e | 0x4330000000000000) - (0x1p52 + 1023);
	double m = from_bits((u & 0x000fffffffffffff) + 0x3fe6a09e00000000), f = m - 1, s = f / (2 + f), z = s * s;
	double p = 2.0 / 17;
	p = fma_(p, z, 2.0 / 15);
	p = fma_(p, z, 2.0 / 13);
	p = fma_(p, z, 2.0 / 11);
	p = fma_(p, z, 2.0 / 9);
	p = fma_(p, z, 2.0 / 7);
	p = fma_(p, z, 2.0 / 5);
	p = fma_(p, z, 2.0 / 3);
	return fma_(p * z, s, 2 * s);
}

INLINE double log_special(double x, double r)
{
	r = x == 0 ? -INFINITY : r;
	r = x < 0 ? NAN : r;
	r = x == INFINITY ? INFINITY : r;
	return x != x ? x : r;
}

INLINE double f_log(double x)
{
	double k, m = log_parts(x, &k);
	return log_special(x, fma_(k, LN2, m));
}

INLINE double f_log2(double x)
{
	double k, m = log_parts(x, &k);
	return log_special(x, fma_(m, INV_LN2, k));
}

INLINE double f_log10(double x)
{
	double k, m = log_parts(x, &k);
	return log_special(x, fma_(k, LN2, m) * INV_LN10);
}

/* log(u) + (x - (u - 1)) / u with u = 1 + x rounded: what the sum lost comes back. */
INLINE double f_log1p(double x)
{
	double u = 1 + x, k, m = log_parts(u, &k), lost = (x - (u - 1)) / u;
	double r = log_special(u, fma_(k, LN2, m) + lost);
	r = u == 0 ? -INFINITY : u == INFINITY ? INFINITY : r;
	return x == 0 ? x : r;
}

/* |x| <= 0.84: Taylor to x^27. Beyond: 1 - exp(p(|x|)), p interpolating log(erfc) at Chebyshev
 * nodes of [0.84, 4] (error 1.4e-11); at 4
 * the float result is 1. */
INLINE double f_erf(double x)
{
	double z = x * x, a = clamp(fabs(x), 0.84, 4), t = a - 2.42;
	/* Near zero: the Taylor polynomial in x squared, which is odd again after the product with
	 * x. */
	double p = -6.7113668551641105e-12;
	p = fma_(p, z, 9.422759064650411e-11);
	p = fma_(p, z, -1.2290555301717928e-09);
	p = fma_(p, z, 1.4807192815879218e-08);
	p = fma_(p, z, -1.6365844691234924e-07);
	p = fma_(p, z, 1.6462114365889248e-06);
	p = fma_(p, z, -1.492565035840625e-05);
	p = fma_(p, z, 0.00012055332981789664);
	p = fma_(p, z, -0.0008548327023450853);
	p = fma_(p, z, 0.005223977625442188);
	p = fma_(p, z, -0.026866170645131252);
	p = fma_(p, z, 0.11283791670955126);
	p = fma_(p, z, -0.37612638903183754);
	p = fma_(p, z, 1.1283791670955126);
	/* Beyond: log(erfc), as a polynomial about 2.42, the middle of the interval. */
	double q = 1.1903402829475053e-09;
	q = fma_(q, t, -6.094655909974042e-09);
	q = fma_(q, t, 1.43248728095206e-08);
	q = fma_(q, t, -1.8455627887036047e-08);
	q = fma_(q, t, -1.4095755876316157e-07);
	q = fma_(q, t, 1.8676138402671306e-06);
	q = fma_(q, t, -1.3923523625773372e-05);
	q = fma_(q, t, 8.450548139488648e-05);
	q = fma_(q, t, -0.000459673034289942);
	q = fma_(q, t, 0.0023414753648268003);
	q = fma_(q, t, -0.011578772472654928);
	q = fma_(q, t, -0.9412024378571989);
	q = fma_(q, t, -5.201870751260161);
	q = fma_(q, t, -7.384636083124774);
	/* The polynomial knows |x| alone; the sign is put back. */
	double far = copysign(1 - exp_double(q), x);
	return fabs(x) > 0.84 ? far : p * x;
}

/* sin (quarter 0) or cos (quarter 1) of |x| <= 2^20: quadrant and remainder
 * by two words of pi/2. */
INLINE double sin_quarter(double x, uint64_t quarter)
{
	double s = fma_(x, TWO_OVER_PI, ROUND_MAGIC), k = s - ROUND_MAGIC;
	uint64_t q = to_bits(s) + quarter;
	double r = fma_(k, -PI_2_TAIL, fma_(k, -PI_2_HEAD, x)), z = r * r;
	double a = 1.6059043836821613e-10;
	a = fma_(a, z, -2.505210838544172e-08);
	a = fma_(a, z, 2.7557319223985893e-06);
	a = fma_(a, z, -0.0001984126984126984);
	a = fma_(a, z, 0.008333333333333333);
	a = fma_(a, z, -0.16666666666666666);
	a = fma_(a * z, r, r);
	double b = -1.1470745597729725e-11;
	b = fma_(b, z, 2.08767569878681e-09);
	b = fma_(b, z, -2.755731922398589e-07);
	b = fma_(b, z, 2.48015873015873e-05);
	b = fma_(b, z, -0.001388888888888889);
	b = fma_(b, z, 0.041666666666666664);
	b = fma_(b, z, -0.5);
	b = fma_(b, z, 1);
	double v = q & 1 ? b : a;
	return from_bits(to_bits(v) ^ (q & 2) << 62);
}

#define BLOCK(name) \
	WIDE void vm_math_##name(float *d, const float *a, int64_t n) \
	{ \
		_Pragma("GCC ivdep") for (int64_t i = 0; i < n; i++) d[i] = (float)f_##name((double)a[i]); \
	}
BLOCK(exp)
BLOCK(exp2)
BLOCK(expm1)
BLOCK(log)
BLOCK(log2)
BLOCK(log10)
BLOCK(log1p)
BLOCK(tanh)
BLOCK(erf)

static int all_small(const float *a, int64_t n)
{
	int64_t big = 0;
	for (int64_t i = 0; i < n; i++) big += !(fabsf(a[i]) <= TRIG_MAX);
	return big == 0;
}

WIDE static void sin_small(float *d, const float *a, int64_t n, uint64_t quarter)
{
	_Pragma("GCC ivdep") for (int64_t i = 0; i < n; i++) d[i] = (float)sin_quarter((double)a[i], quarter);
}

/* Strips with a large argument, inf or NaN go to libm as a whole. */
#define STRIP 256
#define TRIG(name, quarter) \
	void vm_math_##name(float *d, const float *a, int64_t n) \
	{ \
		for (int64_t at = 0; at < n; at += STRIP) { \
			int64_t m = n - at < STRIP ? n - at : STRIP; \
			if (all_small(a + at, m)) sin_small(d + at, a + at, m, quarter); \
			else for (int64_t i = at; i < at + m; i++) d[i] = (float)name((double)a[i]); \
		} \
	}
TRIG(sin, 0)
TRIG(cos, 1)

/* x^y = exp(y log x) in double is good to 1e-13 where the result is a float at all. Strips of
 * positive finite x and finite y only. */
static int all_plain(const float *x, const float *y, int64_t n)
{
	int64_t odd = 0;
	for (int64_t i = 0; i < n; i++) odd += !(x[i] > 0 && x[i] < INFINITY && fabsf(y[i]) < 0x1p100f);
	return odd == 0;
}

WIDE static void pow_plain(float *d, const float *x, const float *y, int64_t n)
{
	_Pragma("GCC ivdep") for (int64_t i = 0; i < n; i++) d[i] = (float)f_exp((double)y[i] * f_log((double)x[i]));
}

void vm_math_pow(float *d, const float *x, const float *y, int64_t n)
{
	for (int64_t at = 0; at < n; at += STRIP) {
		int64_t m = n - at < STRIP ? n - at : STRIP;
		if (all_plain(x + at, y + at, m)) pow_plain(d + at, x + at, y + at, m);
		else
			for (int64_t i = at; i < at + m; i++) d[i] = (float)pow((double)x[i], (double)y[i]);
	}
}
