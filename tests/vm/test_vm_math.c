/* The vectorised functions of vm_math.c against libm in double, over a stride through all 2^32 bit
 * patterns (zeros, subnormals, infinities and NaNs included). The bound is the one that vm_math.h
 * states: 0.502 ulp. libm's own error in double is 2^-29 of that. */
#include "vm/map/vm_math.h"
#include "vm/map/map.h"
#include <math.h>
#include <setjmp.h>
#include <stdlib.h>
#include <cmocka.h>

#define STRIDE 1499   /* odd and prime: 2.9 million patterns in all binades */
#define CHUNK 500
#define BOUND_ULPS 0.502

static float pattern(uint64_t i)
{
	uint32_t u = (uint32_t)i;
	float x;
	memcpy(&x, &u, 4);
	return x;
}

/* Distance of two results in units of the last place of the float nearest to want. */
static double error_ulps(float got, double want)
{
	if (isnan(want) || isnan(got)) return isnan(got) && isnan(want) ? 0 : INFINITY;
	float near = (float)want;
	if (isinf(near) || isinf(got)) return near == got ? 0 : INFINITY;
	int exponent;
	frexp(fabs(want) < 0x1p-126 ? 0x1p-126 : fabs(want), &exponent);
	return fabs((double)got - want) / ldexp(1, exponent - 24);
}

typedef void block_fn(float *d, const float *a, int64_t n);
static void check(const char *name, block_fn *fn, double (*exact)(double))
{
	float a[CHUNK], d[CHUNK];
	double worst = 0;
	for (uint64_t i = 0; i < 1ull << 32; i += (uint64_t)STRIDE * CHUNK) {
		int n = 0;
		for (; n < CHUNK && i + (uint64_t)n * STRIDE < 1ull << 32; n++) d[n] = a[n] = pattern(i + (uint64_t)n * STRIDE);
		fn(d, d, n); /* in place, as the machine calls it */
		for (int k = 0; k < n; k++) {
			double e = error_ulps(d[k], exact((double)a[k]));
			if (e > BOUND_ULPS)
				fail_msg("%s(%.9g) is %.9g, exactly %.17g: %g ulp", name, (double)a[k], (double)d[k],
					exact((double)a[k]), e);
			if (e > worst) worst = e;
		}
	}
	print_message("# %s: worst %.6f ulp\n", name, worst);
}

#define TEST(name) static void test_##name(void **state) { check(#name, vm_math_##name, name); }
/* clang-format off */
TEST(exp) TEST(exp2) TEST(expm1) TEST(log) TEST(log2) TEST(log10) TEST(log1p) TEST(sin) TEST(cos) TEST(tanh) TEST(erf)
	/* clang-format on */

	/* Around the points where formulas change hands. */
	static void test_joints(void **state)
{
	static const struct {
		block_fn *fn;
		double (*exact)(double);
		double at;
	} joints[] = {
		{vm_math_erf, erf, 0.84},
		{vm_math_erf, erf, 4},
		{vm_math_erf, erf, -0.84},
		{vm_math_exp, exp, 88.72284},
		{vm_math_exp, exp, -103.97},
		{vm_math_exp, exp, 0.34657359},
		{vm_math_exp2, exp2, 128},
		{vm_math_exp2, exp2, -149.5},
		{vm_math_log, log, 1},
		{vm_math_log, log, 0.70710678},
		{vm_math_log1p, log1p, -1},
		{vm_math_log1p, log1p, 0x1p-29},
		{vm_math_sin, sin, 0x1p20},
		{vm_math_sin, sin, 3.14159265},
		{vm_math_cos, cos, 1.57079633},
		{vm_math_tanh, tanh, 9.01},
		{vm_math_expm1, expm1, -17.3},
		{vm_math_sin, sin, 100000 * M_PI},
	};
	/* The 200 floats on each side of the point. */
	for (size_t j = 0; j < ARRAY_LEN(joints); j++) {
		float a[400], d[400];
		a[200] = (float)joints[j].at;
		for (int i = 201; i < 400; i++) a[i] = nextafterf(a[i - 1], INFINITY);
		for (int i = 199; i >= 0; i--) a[i] = nextafterf(a[i + 1], -INFINITY);
		joints[j].fn(d, a, 400);
		for (int i = 0; i < 400; i++) {
			double e = error_ulps(d[i], joints[j].exact((double)a[i]));
			if (e > BOUND_ULPS)
				fail_msg("joint %zu: f(%.9g) is %.9g, exactly %.17g: %g ulp", j, (double)a[i], (double)d[i],
					joints[j].exact((double)a[i]), e);
		}
	}
}

static void test_pow(void **state)
{
	static const float special[] = {0, -0.0f, 1, -1, 2, -2, 0.5f, 3, -3, INFINITY, -INFINITY, NAN, 1e-45f, 3e38f};
	float x[CHUNK], y[CHUNK], d[CHUNK];
	for (size_t i = 0; i < ARRAY_LEN(special); i++)
		for (size_t j = 0; j < ARRAY_LEN(special); j++) {
			vm_math_pow(d, &special[i], &special[j], 1);
			if (error_ulps(d[0], pow((double)special[i], (double)special[j])) > BOUND_ULPS)
				fail_msg("pow(%g, %g) is %g", (double)special[i], (double)special[j], (double)d[0]);
		}
	for (uint64_t i = 0; i < 2000; i++) {
		for (int k = 0; k < CHUNK; k++) {
			x[k] = ldexpf(1 + rng_uniform(1, i, (uint64_t)k), (int)(rng_u32(2, i, (uint64_t)k) % 60) - 30);
			y[k] = (rng_uniform(3, i, (uint64_t)k) - 0.5f) * 10;
		}
		vm_math_pow(d, x, y, CHUNK);
		for (int k = 0; k < CHUNK; k++)
			if (error_ulps(d[k], pow((double)x[k], (double)y[k])) > BOUND_ULPS)
				fail_msg("pow(%.9g, %.9g) is %.9g", (double)x[k], (double)y[k], (double)d[k]);
	}
}

/* rsqrt lives with the exact operations, but is rounded twice (sqrt and division in double). */
static void rsqrt_block(float *d, const float *a, int64_t n)
{
	map_kernel(MAP_RSQRT, ELEM_F32)(d, a, NULL, NULL, n, 0);
}
static double rsqrt_exact(double x) { return 1 / sqrt(x); }
static void test_rsqrt(void **state) { check("rsqrt", rsqrt_block, rsqrt_exact); }

/* ---- functions that libm does not have ---- */

/* The y of which erf is x, 0 <= x < 1, by halving: where erf is nearly 1, of what it lacks. */
static long double erfinv_exact(long double x)
{
	long double low = 0, high = 8;
	for (int i = 0; i < 160; i++) {
		long double y = (low + high) / 2;
		bool is_low = x < 0.5L ? erfl(y) < x : erfcl(y) > 1 - x;
		if (is_low) low = y;
		else high = y;
	}
	return low;
}
static long double sinpi_exact(long double x)
{
	return sinl(3.14159265358979323846264338327950288L * (x > 0.5L ? 1 - x : x));
}
static long double cospi_exact(long double x) { return sinpi_exact(fabsl(0.5L - x)) * (x > 0.5L ? -1 : 1); }
static long double rcbrt_exact(long double x) { return 1 / cbrtl(x); }
static long double rcp_exact(long double x) { return 1 / x; }

/* Over (0, 1), near both ends and in the middle too, of both signs: in double within a few
 * roundings, in float within one of what is exact. */
static void test_own(void **state)
{
	static const struct {
		const char *name;
		enum map_op op;
		long double (*exact)(long double);
		bool is_even;
	} own[] = {{"erfinv", MAP_ERFINV, erfinv_exact, false}, {"sinpi", MAP_SINPI, sinpi_exact, false},
		{"cospi", MAP_COSPI, cospi_exact, true}, {"rcbrt", MAP_RCBRT, rcbrt_exact, false},
		{"rcp", MAP_RCP, rcp_exact, false}};
	enum { EACH = 200, FROM = 3 };
	int bad = 0;
	for (size_t f = 0; f < ARRAY_LEN(own); f++)
		for (int i = 0; i < FROM * EACH; i++) {
			/* From 0 on, below 1 and beside a half, by steps that grow from the last place. */
			double step = ldexp(
				1 + (double)rng_uniform(4, 0, (uint64_t)i), -2 - (int)(rng_u32(5, 0, (uint64_t)i) % 50));
			double places[FROM] = {step, 1 - step, 0.5 + (i & 8 ? step : -step)}, x = places[i % FROM];
			float near = (float)x;
			if (!(x > 0 && x < 1)) continue;
			for (int sign = 1; sign >= -1; sign -= 2) {
				double a = sign * x, d;
				float b = (float)sign * near, e = 0;
				long double turn = own[f].is_even ? 1 : sign, want = turn * own[f].exact((long double)x);
				map_kernel(own[f].op, ELEM_F64)(&d, &a, NULL, NULL, 1, 0);
				/* Few roundings: of the argument's multiple, of the function, of steps. */
				if (fabsl((long double)d - want) > 0x1p-50L * fabsl(want)) {
					print_message("# %s(%.17g) is %.17g, exactly %.20Lg\n", own[f].name, a, d, want);
					bad++;
				}
				if (near >= 1) continue;
				map_kernel(own[f].op, ELEM_F32)(&e, &b, NULL, NULL, 1, 0);
				double exactly = (double)(turn * own[f].exact((long double)near));
				if (error_ulps(e, exactly) > 0.51) {
					print_message("# %s(%.9g) is %.9g, exactly %.17g\n", own[f].name, (double)b, (double)e, exactly);
					bad++;
				}
			}
		}
	assert_int_equal(bad, 0);
}

/* Where they have no finite value, or a zero of a sign. */
static void test_own_ends(void **state)
{
	static const struct {
		enum map_op op;
		double x, want;
	} ends[] = {{MAP_ERFINV, 1, INFINITY}, {MAP_ERFINV, -1, -INFINITY}, {MAP_ERFINV, 1.5, NAN}, {MAP_ERFINV, -1.5, NAN},
		{MAP_ERFINV, NAN, NAN}, {MAP_ERFINV, 0, 0.0}, {MAP_ERFINV, -0.0, -0.0}, {MAP_SINPI, 0, 0.0},
		{MAP_SINPI, -0.0, -0.0}, {MAP_SINPI, 3, 0.0}, {MAP_SINPI, -3, -0.0}, {MAP_SINPI, 2.5, 1}, {MAP_SINPI, 3.5, -1},
		{MAP_SINPI, -0.5, -1}, {MAP_COSPI, 0, 1}, {MAP_COSPI, 1, -1}, {MAP_COSPI, -1, -1}, {MAP_COSPI, 6, 1},
		{MAP_COSPI, 0.5, 0.0}, {MAP_COSPI, 1.5, 0.0}, {MAP_COSPI, -0.5, 0.0}, {MAP_SINPI, INFINITY, NAN},
		{MAP_COSPI, INFINITY, NAN}, {MAP_RCP, 0, INFINITY}, {MAP_RCP, -0.0, -INFINITY}, {MAP_RCBRT, -8, -0.5}};
	for (size_t i = 0; i < ARRAY_LEN(ends); i++) {
		double d;
		map_kernel(ends[i].op, ELEM_F64)(&d, &ends[i].x, NULL, NULL, 1, 0);
		bool is_same = isnan(ends[i].want) ? isnan(d) : d == ends[i].want && !signbit(d) == !signbit(ends[i].want);
		if (!is_same) fail_msg("row %zu: f(%g) is %g, not %g", i, ends[i].x, d, ends[i].want);
	}
}

int main(void)
{
	cmocka_set_message_output(CM_OUTPUT_TAP);
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_exp),
		cmocka_unit_test(test_exp2),
		cmocka_unit_test(test_expm1),
		cmocka_unit_test(test_log),
		cmocka_unit_test(test_log2),
		cmocka_unit_test(test_log10),
		cmocka_unit_test(test_log1p),
		cmocka_unit_test(test_sin),
		cmocka_unit_test(test_cos),
		cmocka_unit_test(test_tanh),
		cmocka_unit_test(test_erf),
		cmocka_unit_test(test_joints),
		cmocka_unit_test(test_pow),
		cmocka_unit_test(test_rsqrt),
		cmocka_unit_test(test_own),
		cmocka_unit_test(test_own_ends),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
