/* Each operation of the table: its interval holds the C library's value, at arguments of both
 * signs; it obeys an identity that its neighbours in the table do not; it says what it cannot
 * decide; and it goes to its limit at zero, infinities and NaN. */
#include "field/field.h"
#include "base/base.h"
#include <math.h>
#include <setjmp.h>
#include <stdlib.h>
#include <cmocka.h>
#include "../leaks.h"

static struct field_value of(struct field *f, enum field_op op, struct field_value a, struct field_value b)
{
	struct field_value r;
	int rc = field_apply(f, op, &a, field_op_operands(op) == 2 ? &b : NULL, &r);
	if (rc) fail_msg("%s of %g, %g: %d", field_op_name(op), a.lo, b.lo, rc);
	return r;
}
#define ONE(op, a) of(f, FIELD_##op, a, (struct field_value){0})
#define TWO(op, a, b) of(f, FIELD_##op, a, b)

static double sigmoid(double x) { return 1 / (1 + exp(-x)); }
static double normcdf(double x) { return erfc(-x / sqrt(2)) / 2; }
static double rsqrt(double x) { return 1 / sqrt(x); }
static double reciprocal(double x) { return 1 / x; }
static double saturate(double x) { return fmin(fmax(x, 0), 1); }
static double negative(double x) { return -x; }
static double sign(double x) { return (x > 0) - (x < 0); }
static double exp_10(double x) { return exp(x * log(10)); }
static double add(double x, double y) { return x + y; }
static double sub(double x, double y) { return x - y; }
static double mul(double x, double y) { return x * y; }
static double quotient(double x, double y) { return x / y; }
static double floored(double x, double y) { return x - y * floor(x / y); }

static void expect_holds(const struct field_value *v, double real, enum field_op op, double x, double y)
{
	double slack = 3e-9 * (fabs(real) + 1);
	/* The C library's own value is off by a few units in the last place. */
	if (!(v->lo <= real + 1e-14 * fabs(real) && real - 1e-14 * fabs(real) <= v->hi && v->hi - v->lo < slack))
		fail_msg("%s(%g, %g) in [%.17g, %.17g], expected %.17g", field_op_name(op), x, y, v->lo, v->hi, real);
}

static void intervals_of_functions(void **state)
{
	static const struct {
		enum field_op op;
		double (*real)(double);
		double from;
		double to;
	} rows[] = {{FIELD_NEG, negative, -2, 2}, {FIELD_ABS, fabs, -2, 2}, {FIELD_SIGN, sign, -2, 2},
		{FIELD_CEIL, ceil, -2, 2}, {FIELD_FLOOR, floor, -2, 2}, {FIELD_TRUNC, trunc, -2, 2},
		{FIELD_ROUND, round, -2, 2}, {FIELD_ROUND_EVEN, rint, -2, 2}, {FIELD_SATURATE, saturate, -1, 2},
		{FIELD_SQRT, sqrt, 0.1, 5}, {FIELD_RSQRT, rsqrt, 0.1, 5}, {FIELD_RECIPROCAL, reciprocal, -3, 3},
		{FIELD_EXP_E, exp, -3, 3}, {FIELD_EXP2, exp2, -3, 3}, {FIELD_EXP10, exp_10, -3, 3}, {FIELD_EXPM1, expm1, -3, 3},
		{FIELD_LOG_E, log, 0.1, 9}, {FIELD_LOG2, log2, 0.1, 9}, {FIELD_LOG10, log10, 0.1, 9},
		{FIELD_LOG1P, log1p, -0.9, 9}, {FIELD_TANH, tanh, -2, 2}, {FIELD_SINH, sinh, -2, 2}, {FIELD_COSH, cosh, -2, 2},
		{FIELD_ASINH, asinh, -2, 2}, {FIELD_ACOSH, acosh, 1.1, 9}, {FIELD_ATANH, atanh, -0.9, 0.9},
		{FIELD_SIGMOID, sigmoid, -4, 4}, {FIELD_NORMCDF, normcdf, -2, 2}, {FIELD_ERFC, erfc, -2, 2},
		{FIELD_ERF, erf, -2, 2}, {FIELD_SIN, sin, -4, 4}, {FIELD_COS, cos, -4, 4}, {FIELD_TAN, tan, -1, 1},
		{FIELD_ASIN, asin, -0.9, 0.9}, {FIELD_ACOS, acos, -0.9, 0.9}, {FIELD_ATAN, atan, -4, 4},
		{FIELD_LGAMMA, lgamma, 2, 9}, {FIELD_CBRT, cbrt, -5, 5}};
	struct field field, *f = &field;
	field_init(f, 21);
	/* The table is whole. */
	int unary = 0;
	for (int op = 0; op < FIELD_OP_COUNT; op++) unary += field_op_operands((enum field_op)op) == 1;
	assert_int_equal(ARRAY_LEN(rows) + 1, unary); /* erfinv has no reading */
	for (size_t i = 0; i < ARRAY_LEN(rows); i++)
		for (int k = 0; k < 12; k++) {
			double x = rows[i].from + (rows[i].to - rows[i].from) * (k + 0.31) / 12;
			struct field_value r = of(f, rows[i].op, field_input(f, x), (struct field_value){0});
			expect_holds(&r, rows[i].real(x), rows[i].op, x, 0);
		}
	field_release(f);
}

static void intervals_of_two(void **state)
{
	static const struct {
		enum field_op op;
		double (*real)(double, double);
		double from; /* of the first operand */
	} rows[] = {{FIELD_ADD, add, -3}, {FIELD_SUB, sub, -3}, {FIELD_MUL, mul, -3}, {FIELD_DIV, quotient, -3},
		{FIELD_MAX, fmax, -3}, {FIELD_MIN, fmin, -3}, {FIELD_POW, pow, 0.2}, {FIELD_MOD_TRUNC, fmod, -3},
		{FIELD_MOD_FLOOR, floored, -3}, {FIELD_ATAN2, atan2, -3}, {FIELD_HYPOT, hypot, -3},
		{FIELD_COPYSIGN, copysign, -3}, {FIELD_FDIM, fdim, -3}};
	struct field field, *f = &field;
	field_init(f, 22);
	for (size_t i = 0; i < ARRAY_LEN(rows); i++)
		for (int k = 0; k < 64; k++) {
			double x = rows[i].from + (3 - rows[i].from) * (k / 8 + 0.37) / 8, y = -2.9 + 5.9 * (k % 8 + 0.11) / 8;
			struct field_value r = of(f, rows[i].op, field_input(f, x), field_input(f, y));
			expect_holds(&r, rows[i].real(x, y), rows[i].op, x, y);
		}
	field_release(f);
}

/* x is no whole number, so that nothing is a point; x and y are positive. Rows: two computations
 * of one thing. Where a root is taken of no square the draw says nothing. */
static void identities_at(struct field *f, struct field_value x, struct field_value y, int *counted)
{
	struct field_value one = field_integer(f, 1), two = field_integer(f, 2), three = field_integer(f, 3),
					   minus = ONE(NEG, x), half = field_constant(f, 0.5, 53), e = ONE(EXP_E, x),
					   back = field_div(f, one, e), t = ONE(TANH, x);
	const struct {
		const char *what;
		struct field_value a, b;
	} rows[] = {
		{"expm1", field_add(f, ONE(EXPM1, x), one), e},
		{"log1p", ONE(LOG1P, x), ONE(LOG_E, field_add(f, one, x))},
		{"exp10, log10", ONE(LOG10, ONE(EXP10, x)), x},
		{"log10", field_mul(f, ONE(LOG10, x), ONE(LOG_E, field_integer(f, 10))), ONE(LOG_E, x)},
		{"reciprocal", field_mul(f, ONE(RECIPROCAL, x), x), one},
		{"rsqrt", field_mul(f, ONE(RSQRT, x), ONE(SQRT, x)), one},
		{"root of 4x", ONE(SQRT, field_mul(f, field_integer(f, 4), x)), field_mul(f, two, ONE(SQRT, x))},
		{"root of 8/pi", field_constant(f, 1.5957691216057308, 53),
			field_mul(f, two, field_constant(f, 0.7978845608028654, 53))},
		{"sinh", field_mul(f, two, ONE(SINH, x)), field_sub(f, e, back)},
		{"cosh", field_mul(f, two, ONE(COSH, x)), field_add(f, e, back)},
		{"tan", field_mul(f, ONE(TAN, x), ONE(COS, x)), ONE(SIN, x)},
		{"atanh", ONE(ATANH, t), x},
		{"erfc", field_add(f, ONE(ERFC, x), ONE(ERF, x)), one},
		{"acos", field_add(f, ONE(ACOS, field_mul(f, x, half)), ONE(ASIN, field_mul(f, x, half))),
			field_mul(f, field_constant(f, M_PI, 53), half)},
		{"normcdf", field_add(f, ONE(NORMCDF, x), ONE(NORMCDF, minus)), one},
		{"normcdf by erf", field_sub(f, field_mul(f, two, ONE(NORMCDF, field_mul(f, x, ONE(SQRT, two)))), one),
			ONE(ERF, x)},
		{"odd asin", ONE(ASIN, ONE(NEG, field_mul(f, x, half))), ONE(NEG, ONE(ASIN, field_mul(f, x, half)))},
		{"odd atan", ONE(ATAN, minus), ONE(NEG, ONE(ATAN, x))},
		{"abs", ONE(ABS, minus), x},
		{"cbrt", ONE(CBRT, minus), ONE(NEG, ONE(CBRT, x))},
		{"x^3", TWO(POW, x, three), field_mul(f, x, field_mul(f, x, x))},
		{"x^-2", field_mul(f, TWO(POW, x, field_integer(f, -2)), field_mul(f, x, x)), one},
		{"x^0", TWO(POW, x, field_integer(f, 0)), one},
		{"x^1.5", TWO(POW, x, field_constant(f, 1.5, 53)), field_mul(f, x, ONE(SQRT, x))},
		{"2^y", TWO(POW, two, y), ONE(EXP2, y)},
		{"x^y", TWO(POW, x, y), ONE(EXP_E, field_mul(f, y, ONE(LOG_E, x)))},
		{"hypot", field_mul(f, TWO(HYPOT, x, y), TWO(HYPOT, x, y)),
			field_add(f, field_mul(f, x, x), field_mul(f, y, y))},
		{"atan2", TWO(ATAN2, x, y), TWO(ATAN2, x, y)},
		{"copysign", TWO(COPYSIGN, x, ONE(NEG, y)), minus},
		{"fdim", TWO(FDIM, field_add(f, x, y), y), x},
	};
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		enum field_verdict v = field_agree(&rows[i].a, &rows[i].b);
		if (v == FIELD_DIFFERENT || v == FIELD_NOTHING) fail_msg("%s: %d", rows[i].what, v);
		counted[i] += v == FIELD_SAME;
		/* And a neighbour is not taken for it. */
		struct field_value off = field_add(f, rows[i].b, one);
		if (field_agree(&rows[i].a, &off) == FIELD_SAME) fail_msg("%s and one more", rows[i].what);
	}
	struct field_value a = TWO(ATAN2, x, y), b = TWO(ATAN2, y, x);
	assert_int_equal(field_agree(&a, &b), FIELD_DIFFERENT);
}

static void identities(void **state)
{
	int counted[64] = {0}, draws = 24, rows = 30;
	for (int i = 0; i < draws; i++) {
		struct field f;
		field_init(&f, 300 + (uint64_t)i);
		identities_at(&f, field_input(&f, 0.3 + 0.04 * i), field_input(&f, 1.7 - 0.03 * i), counted);
		field_release(&f);
	}
	/* Each said something in some draw. */
	for (int i = 0; i < rows; i++)
		if (!counted[i]) fail_msg("row %d is silent in all draws", i);
}

/* On whole numbers every operation of numbers is exact. */
static void exact_results(void **state)
{
	static const struct {
		enum field_op op;
		double x, y, expected;
	} rows[] = {{FIELD_MOD_TRUNC, -7, 3, -1}, {FIELD_MOD_FLOOR, -7, 3, 2}, {FIELD_MOD_TRUNC, 7, -3, 1},
		{FIELD_MOD_FLOOR, 7, -3, -2}, {FIELD_FDIM, 5, 3, 2}, {FIELD_FDIM, 3, 5, 0}, {FIELD_COPYSIGN, 3, -2, -3},
		{FIELD_COPYSIGN, -3, -2, -3}, {FIELD_COPYSIGN, -3, 2, 3}, {FIELD_COPYSIGN, 0, -2, 0}, {FIELD_MAX, -2, -3, -2},
		{FIELD_MIN, -2, -3, -3}, {FIELD_POW, -2, 5, -32}, {FIELD_POW, 2, -1, 0.5}, {FIELD_SATURATE, -1, 0, 0},
		{FIELD_SATURATE, 0.5, 0, 0.5}, {FIELD_SATURATE, 2, 0, 1}, {FIELD_SIGN, -4, 0, -1}, {FIELD_SIGN, 0, 0, 0},
		{FIELD_SIGN, 4, 0, 1}, {FIELD_ABS, -4, 0, 4}, {FIELD_ABS, 0, 0, 0}, {FIELD_TRUNC, -1.5, 0, -1},
		{FIELD_FLOOR, -1.5, 0, -2}, {FIELD_CEIL, -1.5, 0, -1}, {FIELD_ROUND, 2.5, 0, 3}, {FIELD_ROUND_EVEN, 2.5, 0, 2},
		{FIELD_ROUND, -2.5, 0, -3}, {FIELD_ROUND, 0x1p62, 0, 0x1p62}, {FIELD_EXP_E, 0, 0, 1}, {FIELD_EXP2, 0, 0, 1},
		{FIELD_EXP_E, -2000, 0, 0}, {FIELD_EXP2, -2000, 0, 0}, {FIELD_LOG_E, 1, 0, 0}, {FIELD_LOG2, 1, 0, 0},
		{FIELD_SQRT, 0, 0, 0}, {FIELD_SQRT, 1, 0, 1}, {FIELD_CBRT, 0, 0, 0}, {FIELD_SIN, 0, 0, 0}, {FIELD_COS, 0, 0, 1},
		{FIELD_ERF, 0, 0, 0}, {FIELD_ATAN, 0, 0, 0}};
	struct field field, *f = &field;
	field_init(f, 23);
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct field_value r = of(f, rows[i].op, field_constant(f, rows[i].x, 53), field_constant(f, rows[i].y, 53)),
						   expected = field_constant(f, rows[i].expected, 53);
		if (field_agree(&r, &expected) != FIELD_SAME || !(r.lo <= rows[i].expected && rows[i].expected <= r.hi))
			fail_msg("%s(%g, %g) in [%g, %g], expected %g", field_op_name(rows[i].op), rows[i].x, rows[i].y, r.lo, r.hi,
				rows[i].expected);
	}
	/* Whole numbers that a double cannot hold lie within their interval. */
	const int64_t large = ((int64_t)1 << 53) + 1;
	struct field_value v = field_integer(f, large), one = field_integer(f, 1), less = field_sub(f, v, one);
	assert_true(v.lo <= 0x1p53 && v.hi >= 0x1p53 + 2);
	struct field_value expected = field_integer(f, large - 1);
	assert_int_equal(field_agree(&less, &expected), FIELD_SAME);
	assert_true(expected.lo == expected.hi);
	/* A residue is below its modulus: of equal numbers nothing is left. */
	struct field_value nothing = field_sub(f, v, v);
	assert_true(nothing.q == 0 && nothing.p == 0);
	/* An even power is not negative, whatever its base may be. */
	struct field_value wide = field_input(f, 1);
	wide.lo = -1;
	assert_true(TWO(POW, wide, field_integer(f, 2)).lo == 0 && TWO(POW, wide, field_integer(f, 3)).lo < 0);
	field_release(f);
}

/* Values without residues: infinities and NaN, in and out. */
static void limits(void **state)
{
	const double inf = INFINITY;
	static const double none = 0;
	const struct {
		enum field_op op;
		double x, y, expected;
	} rows[] = {{FIELD_EXP_E, inf, none, inf}, {FIELD_EXP_E, -inf, none, 0}, {FIELD_LOG_E, 0, none, -inf},
		{FIELD_LOG_E, inf, none, inf}, {FIELD_LOG_E, -1, none, NAN}, {FIELD_SQRT, -1, none, NAN},
		{FIELD_SQRT, inf, none, inf}, {FIELD_CBRT, -inf, none, -inf}, {FIELD_SIGMOID, inf, none, 1},
		{FIELD_SIGMOID, -inf, none, 0}, {FIELD_TANH, inf, none, 1}, {FIELD_TANH, -inf, none, -1},
		{FIELD_FLOOR, -inf, none, -inf}, {FIELD_ABS, -inf, none, inf}, {FIELD_SIGN, -inf, none, -1},
		{FIELD_NEG, inf, none, -inf}, {FIELD_SATURATE, inf, none, 1}, {FIELD_ADD, inf, 1, inf},
		{FIELD_ADD, inf, -inf, NAN}, {FIELD_SUB, inf, inf, NAN}, {FIELD_SUB, 1, inf, -inf}, {FIELD_MUL, inf, -2, -inf},
		{FIELD_MUL, 0, inf, NAN}, {FIELD_MUL, inf, 0, NAN}, {FIELD_DIV, 1, 0, inf}, {FIELD_DIV, -1, 0, -inf},
		{FIELD_DIV, 0, 0, NAN}, {FIELD_DIV, 3, -inf, 0}, {FIELD_DIV, inf, inf, NAN}, {FIELD_DIV, -inf, 2, -inf},
		{FIELD_MAX, inf, 3, inf}, {FIELD_MIN, inf, 3, 3}, {FIELD_MAX, -inf, -inf, -inf}, {FIELD_FDIM, 1, inf, 0},
		{FIELD_RECIPROCAL, 0, none, inf}, {FIELD_RSQRT, inf, none, 0}};
	struct field field, *f = &field;
	field_init(f, 24);
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct field_value r = of(f, rows[i].op, field_constant(f, rows[i].x, 53), field_constant(f, rows[i].y, 53));
		bool is_right = isnan(rows[i].expected) ? field_is_nan(&r)
												: r.lo == rows[i].expected && r.hi == rows[i].expected;
		if (!is_right || field_is_infinite(&r) != !!isinf(rows[i].expected))
			fail_msg("%s(%g, %g) = [%g, %g], expected %g", field_op_name(rows[i].op), rows[i].x, rows[i].y, r.lo, r.hi,
				rows[i].expected);
	}
	/* A NaN stays one, on either side. */
	for (int op = 0; op < FIELD_OP_COUNT; op++)
		for (int side = 0; side < field_op_operands((enum field_op)op); side++) {
			struct field_value nan = field_nan(), x = field_input(f, 2.5);
			/* These ask for a sign or a rounding first. */
			bool asks = op == FIELD_COPYSIGN || op == FIELD_MOD_TRUNC || op == FIELD_MOD_FLOOR ||
				(op == FIELD_POW && !side);
			if (asks || op == FIELD_ERFINV) continue;
			struct field_value r = of(f, (enum field_op)op, side ? x : nan, side ? nan : x);
			if (!field_is_nan(&r)) fail_msg("%s of a NaN as operand %d", field_op_name((enum field_op)op), side);
		}
	/* An input may be one of these too. */
	struct field_value v = field_input(f, NAN), low = field_input(f, -inf);
	assert_true(field_is_nan(&v) && field_is_infinite(&low) && low.lo < 0);
	field_release(f);
}

/* The interval decides a sign, an order, a rounding, or the caller is told to draw again. What has
 * no reading gives no residue, and the first of these is named. */
static void undecided_and_outside(void **state)
{
	static const enum field_op asks[] = {FIELD_ABS, FIELD_SIGN, FIELD_FLOOR, FIELD_CEIL, FIELD_SATURATE, FIELD_MAX,
		FIELD_MIN, FIELD_COPYSIGN, FIELD_FDIM, FIELD_MOD_TRUNC, FIELD_MOD_FLOOR, FIELD_POW};
	struct field field, *f = &field;
	struct field_value r;
	field_init(f, 25);
	/* From below 0 to above 0, and the operand beside it within the same. */
	struct field_value wide = field_input(f, 0.5), y = field_input(f, 0.6);
	wide.lo = -0.5;
	wide.hi = 1.5;
	for (size_t i = 0; i < ARRAY_LEN(asks); i++)
		if (field_apply(f, asks[i], &wide, &y, &r) != ERR_MISMATCH) fail_msg("%s decides", field_op_name(asks[i]));
	struct field_value x = field_input(f, 0.25), beyond = field_input(f, 0x1p63), zero = field_integer(f, 0);
	assert_int_equal(field_apply(f, FIELD_FLOOR, &beyond, NULL, &r), ERR_MISMATCH);
	assert_int_equal(field_apply(f, FIELD_COPYSIGN, &x, &zero, &r), ERR_MISMATCH);
	assert_null(f->lost);
	/* No reading: erfinv at all, lgamma where it is not monotonous. */
	r = ONE(LGAMMA, x);
	assert_true(!(r.flags & (FIELD_Q | FIELD_P)) && r.lo == -INFINITY && r.hi == INFINITY);
	assert_string_equal(f->lost, "lgamma");
	r = ONE(ERFINV, x);
	assert_true(!(r.flags & (FIELD_Q | FIELD_P)));
	assert_string_equal(f->lost, "lgamma");
	field_release(f);
	field_init(f, 25);
	/* exp gives a residue modulo p alone, so that exp of exp has none. */
	r = ONE(EXP_E, ONE(EXP_E, field_input(f, 0.25)));
	assert_true(!(r.flags & (FIELD_Q | FIELD_P)) && r.lo <= exp(exp(0.25)) && exp(exp(0.25)) <= r.hi);
	assert_string_equal(f->lost, "exp");
	struct field_value same = r;
	assert_int_equal(field_agree(&r, &same), FIELD_NOTHING);
	field_release(f);
}

/* Where a function is no number the interval says, or nobody: residues have roots and logarithms
 * of negative numbers too. y - y is nothing whatever y is, and what lies apart is not the same. */
static void domains(void **state)
{
	struct field field, *f = &field;
	struct field_value r;
	field_init(f, 27);
	static const struct {
		enum field_op op;
		double lo, hi;
	} rows[] = {{FIELD_SQRT, -1e-30, 1}, {FIELD_RSQRT, -1, 1}, {FIELD_LOG_E, -1, 1}, {FIELD_LOG2, -1, 1},
		{FIELD_LOG10, -1, 1}, {FIELD_LOG1P, -2, 1}, {FIELD_ACOSH, 0, 2}, {FIELD_ATANH, 0, 2}, {FIELD_ATANH, -2, 0},
		{FIELD_ASIN, 0, 2}, {FIELD_ACOS, -2, 0}};
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct field_value x = field_input(f, 0.5), outside = field_input(f, rows[i].op == FIELD_ACOSH ? 0.5 : -3);
		x.lo = rows[i].lo;
		x.hi = rows[i].hi;
		if (field_apply(f, rows[i].op, &x, NULL, &r) != ERR_MISMATCH) fail_msg("%s decides", field_op_name(rows[i].op));
		r = of(f, rows[i].op, outside, x);
		if (!field_is_nan(&r)) fail_msg("%s is a number outside", field_op_name(rows[i].op));
	}
	struct field_value x = field_input(f, 0.5), y = field_input(f, 0.1), zero = field_integer(f, 0);
	struct field_value half = field_constant(f, 0.5, 53), wide = x;
	wide.lo = -1;
	assert_int_equal(field_apply(f, FIELD_POW, &wide, &half, &r), ERR_MISMATCH);
	/* A square has no sign to be asked for. */
	r = ONE(SQRT, field_mul(f, wide, wide));
	assert_true(r.lo == 0 && r.hi >= 1);
	/* Nothing, with an interval that does not know it; by one residue alone, too. */
	struct field_value nothing = field_sub(f, y, y), e = ONE(EXP_E, y), less = field_sub(f, e, e);
	nothing.lo = less.lo = -1e-9;
	nothing.hi = less.hi = 1e-9;
	for (int i = 0; i < 2; i++) {
		struct field_value n = i ? less : nothing;
		struct field_value quotient = field_div(f, x, n), none = field_div(f, zero, n), log = ONE(LOG_E, n);
		assert_true(field_is_nan(&quotient) && field_is_nan(&none) && log.lo == -INFINITY && log.hi == -INFINITY);
		r = ONE(SQRT, n);
		assert_true(r.lo == 0 && r.hi == 0);
	}
	/* The root of a square is x or -x to the residues, and the size of x to the interval. */
	int same = 0, apart = 0;
	for (int i = 0; i < 64; i++) {
		struct field_value below = field_input(f, -0.5), root = ONE(SQRT, field_mul(f, below, below));
		same += root.p == below.p && root.q == below.q;
		apart += field_agree(&root, &below) == FIELD_DIFFERENT;
	}
	assert_true(same > 0 && apart == 64);
	/* An angle of wide numbers is all that their corners see, and any where it jumps. */
	struct field_value up = field_input(f, 1), right = field_input(f, 2);
	up.lo = 0.5;
	right.lo = -1;
	r = TWO(ATAN2, up, right);
	assert_true(r.lo <= atan2(0.5, 2) && r.lo > 0.2 && r.hi >= atan2(0.5, -1) && r.hi < 2.7);
	up.lo = -1;
	r = TWO(ATAN2, up, right);
	assert_true(r.lo <= -M_PI && r.hi >= M_PI);
	field_release(f);
}

/* A root in one field says nothing of what is made of the other's residue. */
static void flags_of_the_other_field(void **state)
{
	struct field field, *f = &field;
	int counted = 0;
	field_init(f, 28);
	for (int i = 0; i < 64; i++) {
		struct field_value root = ONE(SQRT, field_input(f, 0.5)), e = ONE(EXP_E, root), l = ONE(LOG_E, root);
		assert_true(!(e.flags & FIELD_NOT_SQUARE_P) == !(root.flags & FIELD_NOT_SQUARE_Q));
		assert_true(!(l.flags & FIELD_NOT_SQUARE_Q) == !(root.flags & FIELD_NOT_SQUARE_P));
		counted += field_agree(&l, &l) == FIELD_SAME;
	}
	/* half of 64, and not a quarter */
	assert_true(counted > 22 && counted < 42);
	field_release(f);
}

/* A sum's degree is the larger of its terms', a product's the sum of its factors'; fractions meet
 * over a common denominator. A proof's chance of error is made of these. */
static void degrees(void **state)
{
	struct field field, *f = &field;
	field_init(f, 26);
	struct field_value x = field_input(f, 0.7), y = field_input(f, 0.6), c = field_integer(f, 3);
	struct field_value square = field_mul(f, x, x), fraction = field_div(f, x, y);
	assert_true(x.degree == 1 && c.degree == 0 && square.degree == 2);
	assert_true(field_add(f, square, y).degree == 2 && field_sub(f, y, square).degree == 2);
	assert_true(field_div(f, x, c).degree == 1 && !(field_div(f, x, c).flags & FIELD_RATIONAL));
	assert_true(fraction.degree == 2 && (fraction.flags & FIELD_RATIONAL));
	assert_true(field_add(f, fraction, square).degree == 4);
	assert_true(ONE(EXP_E, square).degree == 3 && (ONE(EXP_E, square).flags & FIELD_EXP));
	assert_true(ONE(LOG_E, square).degree == 3 && (ONE(LOG_E, square).flags & FIELD_BEYOND));
	assert_true(ONE(SIN, square).degree == 3 && TWO(ATAN2, square, x).degree == 4);
	assert_true(ONE(SQRT, square).degree == 2 && (ONE(SQRT, square).flags & FIELD_BEYOND));
	field_release(f);
}

/* A function has another residue at another argument, and at the same one another than the others
 * have: what two of them share would prove that they are one. */
static void functions_differ(void **state)
{
	static const enum field_op ops[] = {FIELD_EXP_E, FIELD_EXP2, FIELD_EXP10, FIELD_EXPM1, FIELD_LOG_E, FIELD_LOG2,
		FIELD_LOG10, FIELD_LOG1P, FIELD_TANH, FIELD_SINH, FIELD_COSH, FIELD_ASINH, FIELD_ATANH, FIELD_SIGMOID,
		FIELD_NORMCDF, FIELD_ERFC, FIELD_ERF, FIELD_SIN, FIELD_COS, FIELD_TAN, FIELD_ASIN, FIELD_ACOS, FIELD_ATAN,
		FIELD_LGAMMA, FIELD_RECIPROCAL};
	static const double at[] = {0.37, 0.61};
	enum { ALL = ARRAY_LEN(ops) * ARRAY_LEN(at) };
	struct field field, *f = &field;
	struct field_value seen[ALL];
	int compared = 0;
	field_init(f, 29);
	for (int i = 0; i < ALL; i++) {
		struct field_value x = field_input(f, at[i % 2]);
		seen[i] = of(f, ops[i / 2], x, (struct field_value){0});
		/* Residues that both have, of each pair. */
		for (int k = 0; k < i; k++) {
			int both = seen[k].flags & seen[i].flags;
			bool shares = (both & FIELD_Q && seen[k].q == seen[i].q) || (both & FIELD_P && seen[k].p == seen[i].p);
			if (shares)
				fail_msg("%s(%g) and %s(%g) share a residue", field_op_name(ops[k / 2]), at[k % 2],
					field_op_name(ops[i / 2]), at[i % 2]);
			compared += both & (FIELD_Q | FIELD_P) ? 1 : 0;
		}
	}
	assert_true(compared > ALL);
	field_release(f);
}

/* None of the above leaves memory or descriptors behind, errors included. */
static void everything(void *ctx)
{
	functions_differ(NULL);
	intervals_of_functions(NULL);
	intervals_of_two(NULL);
	identities(NULL);
	exact_results(NULL);
	limits(NULL);
	undecided_and_outside(NULL);
	degrees(NULL);
}

static void test_leaves_nothing(void **state) { leaves_nothing(everything, NULL); }

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(intervals_of_functions), cmocka_unit_test(intervals_of_two),
		cmocka_unit_test(identities), cmocka_unit_test(exact_results), cmocka_unit_test(limits),
		cmocka_unit_test(undecided_and_outside), cmocka_unit_test(domains), cmocka_unit_test(flags_of_the_other_field),
		cmocka_unit_test(degrees), cmocka_unit_test(functions_differ), cmocka_unit_test(test_leaves_nothing)};
	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
