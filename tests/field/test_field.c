/* Exact values: identities that hold, identities that do not, and intervals
 * against the C library. */
#include "field/field.h"
#include "field/field_internal.h"
#include "field/field_interval.h"
#include "base/base.h"
#include <math.h>
#include <setjmp.h>
#include <stdlib.h>
#include <cmocka.h>
#include "../leaks.h"

#define POINTS 40

static struct field_value unary(struct field *f, enum field_op op, struct field_value a)
{
	struct field_value r;
	assert_int_equal(field_apply(f, op, &a, NULL, &r), 0);
	return r;
}

static bool same(struct field_value a, struct field_value b) { return field_agree(&a, &b) == FIELD_SAME; }
static bool differs(struct field_value a, struct field_value b) { return field_agree(&a, &b) == FIELD_DIFFERENT; }

static bool is_prime_by_division(uint64_t n)
{
	for (uint64_t d = 2; d * d <= n; d++)
		if (n % d == 0) return false;
	return n > 1;
}

static void primes_are_what_they_must_be(void **state)
{
	for (uint64_t seed = 0; seed < 4; seed++) {
		struct field f;
		field_init(&f, seed);
		assert_true(is_prime_by_division(f.q.m) && is_prime_by_division(f.p.m));
		assert_int_equal(f.p.m, 2 * f.q.m + 1);
		assert_int_equal(f.p.m % 8, 7);
		assert_true(f.q.m >= 1u << 29 && f.p.m < 1u << 31);
		field_release(&f);
	}
}

/* Steele, Lea and Flood's mixing, by the first numbers that their generator gives from seed 0; what
 * random functions and fresh values are made of is as good as it is published to be. */
static void mixing_is_the_published_one(void **state)
{
	static const uint64_t first[] = {0xe220a8397b1dcdaf, 0x6e789e6aa1b965f4, 0x06c45d188009454f};
	for (size_t i = 0; i < ARRAY_LEN(first); i++) assert_true(field_mix((i + 1) * 0x9e3779b97f4a7c15) == first[i]);
}

/* x and y positive, so that every function is defined. */
static void identities(struct field *f, struct field_value x, struct field_value y)
{
	struct field_value one = field_integer(f, 1), two = field_integer(f, 2), e;
	struct field_value ex = unary(f, FIELD_EXP_E, x), ey = unary(f, FIELD_EXP_E, y);
	/* rational arithmetic: (x + y)^2 = x^2 + 2xy + y^2; (x / y) y = x */
	struct field_value sum = field_add(f, x, y), square = field_mul(f, sum, sum);
	struct field_value parts = field_add(
		f, field_add(f, field_mul(f, x, x), field_mul(f, two, field_mul(f, x, y))), field_mul(f, y, y));
	assert_true(same(square, parts));
	assert_true(same(field_mul(f, field_div(f, x, y), y), x));
	assert_true(differs(field_mul(f, x, y), field_add(f, x, y)));
	/* exponentials and logarithms */
	assert_true(same(unary(f, FIELD_EXP_E, sum), field_mul(f, ex, ey)));
	assert_true(same(unary(f, FIELD_LOG_E, ex), x));
	assert_true(same(
		unary(f, FIELD_LOG_E, field_mul(f, x, y)), field_add(f, unary(f, FIELD_LOG_E, x), unary(f, FIELD_LOG_E, y))));
	assert_true(differs(unary(f, FIELD_LOG_E, sum), field_add(f, unary(f, FIELD_LOG_E, x), unary(f, FIELD_LOG_E, y))));
	e = field_mul(f, x, field_constant(f, M_LN2, 53));
	assert_true(same(unary(f, FIELD_EXP2, x), unary(f, FIELD_EXP_E, e)));
	assert_false(differs(unary(f, FIELD_EXP2, unary(f, FIELD_LOG2, x)), x));
	/* tanh(x) = 2 sigmoid(2x) - 1, and sigmoid by its definition */
	e = field_sub(f, field_mul(f, two, unary(f, FIELD_SIGMOID, field_mul(f, two, x))), one);
	assert_true(same(unary(f, FIELD_TANH, x), e));
	e = field_div(f, one, field_add(f, one, unary(f, FIELD_EXP_E, unary(f, FIELD_NEG, x))));
	assert_true(same(unary(f, FIELD_SIGMOID, x), e));
	assert_true(differs(unary(f, FIELD_SIGMOID, x), unary(f, FIELD_TANH, x)));
	/* parity */
	struct field_value minus = unary(f, FIELD_NEG, x);
	assert_true(same(unary(f, FIELD_ERF, minus), unary(f, FIELD_NEG, unary(f, FIELD_ERF, x))));
	assert_true(same(unary(f, FIELD_SIN, minus), unary(f, FIELD_NEG, unary(f, FIELD_SIN, x))));
	assert_true(same(unary(f, FIELD_COS, minus), unary(f, FIELD_COS, x)));
	assert_true(differs(unary(f, FIELD_SIN, x), unary(f, FIELD_COS, x)));
}

/* Roots agree where their arguments are squares, and say nothing elsewhere; half
 * of the draws are each. */
static void roots(struct field *f, struct field_value x, struct field_value y, int *counted)
{
	struct field_value r = unary(f, FIELD_SQRT, x), s = unary(f, FIELD_SQRT, y);
	struct field_value product = field_mul(f, r, s), back = field_mul(f, r, r),
					   root = unary(f, FIELD_SQRT, field_mul(f, x, y));
	assert_false(differs(back, x));
	*counted += same(back, x) && same(unary(f, FIELD_EXP_E, unary(f, FIELD_LOG_E, x)), x);
	assert_false(differs(product, root));
	assert_false(same(unary(f, FIELD_SQRT, field_add(f, x, y)), field_add(f, r, s)));
	assert_true(same(unary(f, FIELD_CBRT, field_mul(f, x, field_mul(f, x, x))), x));
}

static void what_holds_and_what_does_not(void **state)
{
	int counted = 0;
	for (int i = 0; i < POINTS; i++) {
		struct field f;
		field_init(&f, 100 + (uint64_t)i);
		struct field_value x = field_input(&f, 0.3 + 0.05 * i), y = field_input(&f, 1.7 - 0.03 * i);
		identities(&f, x, y);
		roots(&f, x, y, &counted);
		field_release(&f);
	}
	/* x is a square modulo p in half of the draws, and then both count; the seeds are fixed */
	assert_true(counted > POINTS / 4 && counted < 3 * POINTS / 4);
}

static void intervals_hold_the_real_value(void **state)
{
	static const struct {
		enum field_op op;
		double (*real)(double);
	} rows[] = {{FIELD_EXP_E, exp}, {FIELD_EXP2, exp2}, {FIELD_LOG_E, log}, {FIELD_LOG2, log2}, {FIELD_LOG1P, log1p},
		{FIELD_EXPM1, expm1}, {FIELD_SQRT, sqrt}, {FIELD_TANH, tanh}, {FIELD_ERF, erf}, {FIELD_ERFC, erfc},
		{FIELD_SIN, sin}, {FIELD_COS, cos}, {FIELD_TAN, tan}, {FIELD_ATAN, atan}, {FIELD_SINH, sinh},
		{FIELD_COSH, cosh}, {FIELD_ASINH, asinh}, {FIELD_CBRT, cbrt}, {FIELD_FLOOR, floor}, {FIELD_CEIL, ceil},
		{FIELD_ROUND_EVEN, rint}, {FIELD_ABS, fabs}};
	struct field f;
	field_init(&f, 7);
	for (int i = 1; i < POINTS; i++)
		for (size_t k = 0; k < ARRAY_LEN(rows); k++) {
			double x = 0.11 * i;
			struct field_value r = unary(&f, rows[k].op, field_input(&f, x));
			assert_true(r.lo <= rows[k].real(x) && rows[k].real(x) <= r.hi);
			assert_true(r.hi - r.lo < 1e-9 * (fabs(r.hi) + 1));
		}
	/* whole numbers stay exact, so that they can be rounded and compared */
	struct field_value three = field_add(&f, field_integer(&f, 1), field_integer(&f, 2)),
					   r = unary(&f, FIELD_FLOOR, three);
	assert_true(three.lo == 3 && three.hi == 3 && same(r, field_integer(&f, 3)));
	field_release(&f);
}

/* What a constant of fp32 is taken to be, by an identity that only the
 * number that was meant has. */
static void constants(void **state)
{
	struct field f;
	field_init(&f, 11);
	struct field_value one = field_integer(&f, 1), ten = field_integer(&f, 10), two = field_integer(&f, 2);
#define C(x) field_constant(&f, (double)(float)(x), 24)
	assert_true(same(field_mul(&f, C(0.1), ten), one));
	assert_true(same(field_mul(&f, C(1.0 / 3), field_integer(&f, 3)), one));
	assert_true(same(field_mul(&f, C(1.0 / 196), field_integer(&f, 196)), one));
	assert_true(same(field_mul(&f, C(1e-5), field_integer(&f, 100000)), one));
	assert_true(same(field_mul(&f, C(0.044715), field_integer(&f, 1000000)), field_integer(&f, 44715)));
	assert_true(same(unary(&f, FIELD_EXP_E, field_div(&f, one, C(1.4426950408889634))), two));
	assert_true(same(field_constant(&f, M_PI, 53), C(M_PI)));
	assert_true(same(field_mul(&f, C(-0.25), field_integer(&f, -4)), one));
	/* half way between two numbers of fp32: rounded down, and up, to the even one */
	assert_true(same(C(134221000.0), field_integer(&f, 134221000)));
	assert_true(same(C(134219000.0), field_integer(&f, 134219000)));
	/* a whole number is itself while all of its kind are numbers of the type; behind them it may be
	 * a fraction that was rounded to it: 1024/3 is 342 to 8 digits, 512/3 would be 171 */
	assert_true(same(field_constant(&f, 171, 8), field_integer(&f, 171)));
	assert_true(same(field_constant(&f, -255, 8), field_integer(&f, -255)));
	assert_true(same(field_mul(&f, field_constant(&f, 342, 8), field_integer(&f, 3)), field_integer(&f, 1024)));
	/* what is near, and not meant */
	assert_true(differs(field_mul(&f, C(0.3333), field_integer(&f, 3)), one));
	assert_true(differs(C(0.1), field_constant(&f, nextafterf(0.1f, 1), 24)));
	assert_true(differs(C(0.7071), unary(&f, FIELD_SQRT, field_div(&f, one, two))));
	/* a number without a form is itself */
	double odd = (double)0.62513789f;
	struct field_value v = field_constant(&f, odd, 24);
	for (int i = 0; i < 40; i++) v = field_mul(&f, v, two);
	assert_true(same(v, field_integer(&f, (int64_t)(odd * 0x1p40))));
	field_release(&f);
	/* roots count in draws in which 2 is a square in both fields, or in one */
	int counted = 0;
	for (uint64_t seed = 0; seed < 12; seed++) {
		field_init(&f, seed);
		struct field_value r = C(0.70710678), g = C(0.7978845608);
		assert_false(differs(field_mul(&f, field_mul(&f, r, r), field_integer(&f, 2)), field_integer(&f, 1)));
		assert_false(differs(field_mul(&f, field_mul(&f, g, g), field_constant(&f, M_PI, 53)), field_integer(&f, 2)));
		counted += same(field_mul(&f, field_mul(&f, r, r), field_integer(&f, 2)), field_integer(&f, 1));
		field_release(&f);
	}
	assert_true(counted > 0);
#undef C
}

/* Each form that a constant may have, by its square: a fraction times powers of pi and of ln 2. */
static void forms_of_constants(void **state)
{
	static const struct {
		int n, d;
		int pi, ln2; /* powers of these in the square */
	} rows[] = {{3, 5, 0, 0}, {4, 9, 2, 0}, {9, 49, -2, 0}, {9, 25, 0, 2}, {9, 25, 0, -2}, {3, 5, 1, 0}, {2, 3, -1, 0},
		{3, 1, 0, -2}, {3, 1, 0, 2}, {3, 1, 2, 0},
		/* 17/23 is in reach of what is tried at 24 bits, its square is not: no
		 * root stands in for it. */
		{289, 529, 2, 0}, {289, 529, -2, 0}, {289, 529, 0, 2}, {289, 529, 0, -2}};
	static const int widths[] = {24, 53};
	int counted[ARRAY_LEN(rows)][ARRAY_LEN(widths)] = {{0}};
	for (uint64_t seed = 0; seed < 12; seed++) {
		struct field f;
		field_init(&f, 40 + seed);
		/* ln 2 by what it is: 2 is e to it. */
		struct field_value two = field_integer(&f, 2),
						   units[2] = {field_constant(&f, M_PI, 53), unary(&f, FIELD_LOG_E, two)};
		for (size_t k = 0; k < ARRAY_LEN(rows) * ARRAY_LEN(widths); k++) {
			size_t i = k / ARRAY_LEN(widths), w = k % ARRAY_LEN(widths);
			/* Rounded once, as a program's constant is. */
			double x = (double)sqrtl(
				(long double)rows[i].n / rows[i].d * powl(M_PIl, rows[i].pi) * powl(M_LN2l, rows[i].ln2));
			struct field_value expected = field_div(&f, field_integer(&f, rows[i].n), field_integer(&f, rows[i].d));
			for (int u = 0; u < 2; u++)
				for (int p = u ? rows[i].ln2 : rows[i].pi; p; p += p < 0 ? 1 : -1)
					expected = p < 0 ? field_div(&f, expected, units[u]) : field_mul(&f, expected, units[u]);
			struct field_value v = field_constant(&f, widths[w] == 24 ? (double)(float)x : x, widths[w]),
							   square = field_mul(&f, v, v);
			if (differs(square, expected)) fail_msg("row %zu, %d bits: %.9g", i, widths[w], x);
			counted[i][w] += same(square, expected);
			assert_true(v.degree == 0);
			assert_true(v.lo <= x * (1 + 0x1p-23) && x * (1 - 0x1p-23) <= v.hi);
			/* Its neighbour is another number. */
			double next = widths[w] == 24 ? (double)nextafterf((float)x, INFINITY) : nextafter(x, INFINITY);
			v = field_constant(&f, next, widths[w]);
			assert_false(same(field_mul(&f, v, v), expected));
		}
		field_release(&f);
	}
	for (size_t i = 0; i < ARRAY_LEN(rows); i++)
		for (size_t w = 0; w < ARRAY_LEN(widths); w++)
			if (!counted[i][w]) fail_msg("row %zu, %d bits: silent in all draws", i, widths[w]);
}

static void order_is_the_intervals(void **state)
{
	struct field f;
	field_init(&f, 3);
	struct field_value a = field_input(&f, 1), b = field_input(&f, 2), c = field_input(&f, 1), r;
	struct field_value low = field_infinity(true), nan = field_nan();
	assert_int_equal(field_compare(&a, &b), FIELD_LESS);
	assert_int_equal(field_compare(&b, &a), FIELD_GREATER);
	assert_int_equal(field_compare(&a, &a), FIELD_EQUAL);
	assert_int_equal(field_compare(&a, &c), FIELD_UNDECIDED);
	assert_int_equal(field_compare(&low, &a), FIELD_LESS);
	assert_int_equal(field_compare(&nan, &a), FIELD_UNORDERED);
	assert_int_equal(field_apply(&f, FIELD_MAX, &a, &c, &r), ERR_MISMATCH);
	assert_int_equal(field_apply(&f, FIELD_MAX, &low, &a, &r), 0);
	assert_true(same(r, a));
	/* exp of minus infinity is 0, and 0 x is 0 */
	r = field_mul(&f, unary(&f, FIELD_EXP_E, low), b);
	assert_true(field_is_zero(&r));
	field_release(&f);
}

static void expect_interval(struct interval i, double lo, double hi)
{
	if (i.lo != lo || i.hi != hi) fail_msg("[%a, %a], expected [%a, %a]", i.lo, i.hi, lo, hi);
}

/* Not only around the real value, but no wider than is stated: exact results stay points, others
 * move one step at each end, the C library's four. A step of 1 is 2^-52. */
static void intervals_are_tight(void **state)
{
#define I(lo, hi) (struct interval){lo, hi}
	const double ulp = 0x1p-52;
	expect_interval(interval_add(I(1, 2), I(3, 4)), 4, 6);
	expect_interval(interval_add(I(1, 1), I(0x1p-60, 0x1p-60)), 1 - ulp, 1 + ulp);
	expect_interval(interval_mul(I(3, 3), I(-5, -5)), -15, -15);
	expect_interval(interval_mul(I(0, 0), I(7, 7)), 0, 0);
	expect_interval(interval_mul(I(7, 7), I(0, 0)), 0, 0);
	/* A product that vanishes is no zero. */
	assert_true(interval_mul(I(0x1p-600, 0x1p-600), I(0x1p-600, 0x1p-600)).hi > 0);
	assert_true(interval_mul(I(0x1p-600, 0x1p-600), I(-0x1p-600, -0x1p-600)).lo < 0);
	expect_interval(interval_mul(I(-1, 1), I(1, 2)), -2 - 2 * ulp, 2 + 2 * ulp);
	expect_interval(interval_mul(I(-2, -1), I(-4, 1)), -2 - 2 * ulp, 8 + 8 * ulp);
	expect_interval(interval_mul(I(1, 1), I(1, 2)), 1 - ulp, 2 + 2 * ulp);
	expect_interval(interval_mul(I(0, 1), I(1, INFINITY)), -INFINITY, INFINITY);
	expect_interval(interval_div(I(6, 6), I(3, 3)), 2, 2);
	expect_interval(interval_div(I(1, 2), I(-4, -2)), -1 - ulp, -0.25 + 0.25 * ulp);
	expect_interval(interval_div(I(4, 8), I(2, 4)), 1 - ulp, 4 + 4 * ulp);
	assert_true(interval_div(I(1, 1), I(3, 3)).lo < 1.0 / 3 && interval_div(I(1, 1), I(3, 3)).hi > 1.0 / 3);
	expect_interval(interval_div(I(1, 1), I(-1, 0)), -INFINITY, INFINITY);
	expect_interval(interval_div(I(1, 1), I(0, 1)), -INFINITY, INFINITY);
	expect_interval(interval_about(1, 1), 1 - 4 * ulp, 1 + 4 * ulp);
	expect_interval(interval_about(NAN, 1), -INFINITY, INFINITY);
	expect_interval(interval_finite(I(INFINITY, INFINITY)), DBL_MAX, INFINITY);
	expect_interval(interval_finite(I(-INFINITY, -INFINITY)), -INFINITY, -DBL_MAX);
#undef I
}

/* Functions have one operand, but for these. */
static void operands_of_functions(void **state)
{
	static const char *const two[] = {
		"add", "sub", "mul", "div", "max", "min", "pow", "atan2", "hypot", "copysign", "fdim", "fmod", "remainder"};
	for (int op = 0; op < FIELD_OP_COUNT; op++) {
		int expected = 1;
		for (size_t i = 0; i < ARRAY_LEN(two); i++)
			if (!strcmp(field_op_name((enum field_op)op), two[i])) expected = 2;
		if (field_op_operands((enum field_op)op) != expected) fail_msg("%s", field_op_name((enum field_op)op));
	}
}

/* None of the above leaves memory or descriptors behind, errors included. */
static void everything(void *ctx)
{
	primes_are_what_they_must_be(NULL);
	what_holds_and_what_does_not(NULL);
	intervals_hold_the_real_value(NULL);
	constants(NULL);
	forms_of_constants(NULL);
	order_is_the_intervals(NULL);
	intervals_are_tight(NULL);
	operands_of_functions(NULL);
}

static void test_leaves_nothing(void **state) { leaves_nothing(everything, NULL); }

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(primes_are_what_they_must_be),
		cmocka_unit_test(mixing_is_the_published_one),
		cmocka_unit_test(what_holds_and_what_does_not),
		cmocka_unit_test(intervals_hold_the_real_value),
		cmocka_unit_test(constants),
		cmocka_unit_test(forms_of_constants),
		cmocka_unit_test(order_is_the_intervals),
		cmocka_unit_test(intervals_are_tight),
		cmocka_unit_test(operands_of_functions),
		cmocka_unit_test(test_leaves_nothing),
	};
	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
