/* Constants of programs: from the nearest double, or less, back to the number that was meant.
 *
 * 0.1f is no tenth, and a proof over rationals needs the tenth: one side may multiply by it where
 * the other divides by ten. So a constant becomes the simplest number within half a unit in the
 * last place of its type: a whole number, a small fraction, a short decimal, the root of a
 * fraction, or a small fraction of pi, 1/pi, ln 2, 1/ln 2 and their roots. "Simple" is bounded so
 * that a number that was not meant so meets one with a chance of about a hundredth; what meets none
 * is itself, exactly. Both sides of a proof read equal constants equally, so a wrong guess cannot
 * make different constants equal: two constants get one reading only where they are the same number
 * in their type, or where both are that number rounded. */
#include "field/field.h"
#include "field/field_internal.h"
#include "field/field_interval.h"
#include <stdlib.h>

struct fraction {
	int64_t n;
	int64_t d; /* above 0 */
};

/* The simplest fraction within [lo, hi], 0 < lo, by its continued fraction; false: beyond `max`. */
static bool simplest(long double lo, long double hi, double max, struct fraction *out)
{
	/* Convergents of the two ends agree until the first term in which they differ. Each is at least
	 * the sum of the two before it, so `max` is soon passed. */
	int64_t n0 = 0, d0 = 1, n1 = 1, d1 = 0;
	for (;;) {
		long double whole = floorl(lo);
		bool ends = whole == lo || whole + 1 <= hi;
		long double term = whole == lo ? whole : ends ? whole + 1 : whole;
		if (!(term < 0x1p40)) return false;
		int64_t t = (int64_t)term, n, d;
		if (__builtin_mul_overflow(t, n1, &n) || __builtin_add_overflow(n, n0, &n) ||
			__builtin_mul_overflow(t, d1, &d) || __builtin_add_overflow(d, d0, &d) || (double)n * (double)d > max)
			return false;
		n0 = n1, d0 = d1, n1 = n, d1 = d;
		if (ends) {
			*out = (struct fraction){n1, d1};
			return true;
		}
		long double next_lo = 1 / (hi - whole), next_hi = 1 / (lo - whole);
		lo = next_lo;
		hi = next_hi;
	}
}

static struct field_value ratio(struct field *f, struct fraction r, int shift)
{
	struct field_value v = field_div(f, field_integer(f, r.n), field_integer(f, r.d)), two = field_integer(f, 2),
					   factor = field_integer(f, 1);
	for (int i = 0; i < abs(shift); i++) factor = field_mul(f, factor, two);
	return shift < 0 ? field_div(f, v, factor) : field_mul(f, v, factor);
}

/* x as it is: a whole number times a power of two. */
static struct field_value exactly(struct field *f, double x)
{
	int e;
	double m = frexp(x, &e);
	return ratio(f, (struct fraction){(int64_t)ldexp(m, 53), 1}, e - 53);
}

/* A fraction near x: of x itself, or of its significand, since powers of two cost nothing. */
static bool try_fraction(struct field *f, long double lo, long double hi, double max, struct field_value *out)
{
	struct fraction r;
	int e;
	frexpl(lo, &e);
	if (simplest(ldexpl(lo, 1 - e), ldexpl(hi, 1 - e), max, &r)) {
		*out = ratio(f, r, e - 1);
		return true;
	}
	if (lo > 0x1p-30 && hi < 0x1p30 && simplest(lo, hi, max, &r)) {
		*out = ratio(f, r, 0);
		return true;
	}
	return false;
}

/* x with a few decimal digits. */
static bool try_decimal(struct field *f, double x, long double lo, long double hi, int digits, struct field_value *out)
{
	for (int n = 1; n <= digits; n++) {
		char text[40];
		snprintf(text, sizeof text, "%.*e", n - 1, x);
		long double shown = strtold(text, NULL);
		if (shown < lo || shown > hi) continue;
		/* digits without the point, and the power of ten behind them */
		char *exponent = strchr(text, 'e'), whole[40];
		size_t len = 0;
		for (const char *c = text; c < exponent; c++)
			if (*c != '.') whole[len++] = *c;
		whole[len] = 0;
		int power = atoi(exponent + 1) - (n - 1);
		struct field_value v = field_integer(f, strtoll(whole, NULL, 10)), ten = field_integer(f, 10);
		for (int i = 0; i < abs(power); i++) v = power < 0 ? field_div(f, v, ten) : field_mul(f, v, ten);
		*out = v;
		return true;
	}
	return false;
}

/* Fractions times a transcendental or its inverse, and roots of those. */
static struct field_value transcendental(struct field *f, double real, uint32_t q, uint32_t p, bool is_inverse)
{
	struct interval i = interval_about(real, real);
	struct field_value v = {q, p, i.lo, i.hi, 0, FIELD_Q | FIELD_P};
	return is_inverse ? field_div(f, field_integer(f, 1), v) : v;
}

static bool try_forms(struct field *f, long double lo, long double hi, double max, struct field_value *out)
{
	for (int form = 0; form < 10; form++) {
		/* 0: root of a fraction; then pi, 1/pi, ln 2, 1/ln 2, and, from 5 on, roots: sqrt(r pi),
		 * sqrt(r / pi), sqrt(r) / ln 2, sqrt(r) ln 2, and sqrt(r) pi */
		static const struct {
			long double real;
			bool is_pi;          /* else ln 2, or 1 */
			bool is_inverse;     /* the unit is 1 / real */
			bool is_root_of_all; /* sqrt(r unit) */
			bool is_root;        /* sqrt(r) unit */
		} forms[10] = {{1, false, false, false, true}, {M_PIl, true, false, false, false},
			{M_PIl, true, true, false, false}, {M_LN2l, false, false, false, false},
			{M_LN2l, false, true, false, false}, {M_PIl, true, false, true, false}, {M_PIl, true, true, true, false},
			{M_LN2l, false, true, false, true}, {M_LN2l, false, false, false, true}, {M_PIl, true, false, false, true}};
		long double unit = forms[form].is_inverse ? 1 / forms[form].real : forms[form].real, a = lo, b = hi;
		struct field_value r;
		/* x = sqrt(r unit), x = sqrt(r) unit, or x = r unit */
		if (forms[form].is_root_of_all) a = a * a / unit, b = b * b / unit;
		else if (forms[form].is_root) a = a / unit * (a / unit), b = b / unit * (b / unit);
		else a /= unit, b /= unit;
		if (!try_fraction(f, a, b, max, &r)) continue;
		struct field_value u = forms[form].real == 1 ? field_integer(f, 1)
			: forms[form].is_pi                      ? transcendental(f, M_PI, f->pi_q, f->pi_p, forms[form].is_inverse)
								: transcendental(f, M_LN2, f->ln2_q, f->ln2_p, forms[form].is_inverse);
		if (forms[form].is_root_of_all) r = field_mul(f, r, u);
		if (forms[form].is_root_of_all || forms[form].is_root) field_apply(f, FIELD_SQRT, &r, NULL, &r);
		*out = forms[form].is_root_of_all ? r : field_mul(f, r, u);
		return true;
	}
	return false;
}

struct field_value field_constant(struct field *f, double x, int bits)
{
	if (isnan(x)) return field_nan();
	if (isinf(x)) return field_infinity(x < 0);
	double size = fabs(x);
	if (size == floor(size) && size < 0x1p53 && size < ldexp(1, bits)) return field_integer(f, (int64_t)x);
	int e;
	frexp(size, &e);
	/* Wider than a double, which has no half of its own unit beside it. */
	long double half = ldexpl(1, e - 1 - bits), lo = size - half, hi = size + half;
	struct field_value v;
	/* The bounds leave about a hundredth for chance: so many fractions, decimals and forms lie
	 * within a relative distance of 2^-bits. */
	bool is_wide = bits > 24;
	double fraction_max = is_wide ? 0x1p34
		: bits == 24              ? 0x1p17
								  : 256,
		   form_max = is_wide ? 0x1p26
		: bits == 24          ? 0x1p12
							  : 16;
	int digits = is_wide ? 8 : bits == 24 ? 6 : 2;
	bool found = try_fraction(f, lo, hi, fraction_max, &v) || try_decimal(f, size, lo, hi, digits, &v) ||
		try_forms(f, lo, hi, form_max, &v) || (is_wide && try_decimal(f, size, lo, hi, 15, &v));
	if (!found) v = exactly(f, size);
	/* The program's own number lies within it too. */
	v.lo = fmin(v.lo, size);
	v.hi = fmax(v.hi, size);
	return x < 0 ? (field_apply(f, FIELD_NEG, &v, NULL, &v), v) : v;
}
