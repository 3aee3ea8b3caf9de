/* Operations on values: residues by the fields' arithmetic, the interval beside them.
 *
 * What a residue cannot know (an order, a sign, the nearest whole number) the interval decides, or
 * the caller is told to draw again. What has no identities of its own that kernels use is a random
 * function of the residue, the same for equal arguments: erf, sin, cos keep their parity. */
#include "field/field.h"
#include "base/base.h"
#include "field/field_internal.h"
#include "field/field_interval.h"

#define INTEGER_POWER_MAX 64
#define EXP_NOTHING (-1000.0) /* exp of less is 0 in every type of floats */

static const struct {
	int operands;
	const char *name;
} op_rows[] = {
#define X(id, operands, name) [id] = {operands, name},
	FIELD_OP_TABLE(X)
#undef X
};
const char *field_op_name(enum field_op op) { return op_rows[op].name; }
int field_op_operands(enum field_op op) { return op_rows[op].operands; }

/* ---- kinds of values ---- */

struct field_value field_nan(void) { return (struct field_value){.lo = NAN, .hi = NAN}; }

struct field_value field_infinity(bool is_negative)
{
	double x = is_negative ? -INFINITY : INFINITY;
	return (struct field_value){.lo = x, .hi = x};
}

struct field_value field_integer(const struct field *f, int64_t i)
{
	uint64_t size = i < 0 ? -(uint64_t)i : (uint64_t)i;
	struct field_value v = {
		residue_of(&f->q, size), residue_of(&f->p, size), (double)i, (double)i, 0, FIELD_Q | FIELD_P};
	if (i < 0) {
		v.q = residue_sub(&f->q, 0, v.q);
		v.p = residue_sub(&f->p, 0, v.p);
	}
	/* beyond 2^53 the nearest double may be off by half a unit */
	if (size > (uint64_t)1 << 53) v.lo = step_down(v.lo), v.hi = step_up(v.hi);
	return v;
}

struct field_value field_input(struct field *f, double x)
{
	uint64_t h = field_mix(f->seed + ++f->fresh * 0x9e3779b97f4a7c15u);
	if (isnan(x)) return field_nan();
	if (isinf(x)) return field_infinity(x < 0);
	return (struct field_value){(uint32_t)(h % f->q.m), (uint32_t)(field_mix(h) % f->p.m), x, x, 1, FIELD_Q | FIELD_P};
}

static struct interval interval_of(const struct field_value *v) { return (struct interval){v->lo, v->hi}; }

#define MANNER (FIELD_RATIONAL | FIELD_EXP | FIELD_BEYOND | FIELD_LOG_OF_NO_SQUARE | FIELD_UNDEFINED)
#define HISTORY (FIELD_NOT_SQUARE_Q | FIELD_NOT_SQUARE_P | MANNER)
/* What is left of two operands' flags: residues that both have, the history of either. */
static inline uint32_t flags_of(uint32_t a, uint32_t b) { return (a & b & (FIELD_Q | FIELD_P)) | ((a | b) & HISTORY); }

static bool is_point(const struct field_value *v) { return v->lo == v->hi && v->degree == 0; }

/* 0 whatever the inputs are, as y - y is: each residue that there is says so. */
static bool is_nothing(const struct field_value *v)
{
	return (v->flags & (FIELD_Q | FIELD_P)) && !(v->flags & FIELD_Q && v->q) && !(v->flags & FIELD_P && v->p);
}

/* ---- arithmetic ---- */

static struct field_value add_signed(
	struct field *f, const struct field_value *a, const struct field_value *b, bool minus)
{
	struct interval i = interval_add(interval_of(a), minus ? (struct interval){-b->hi, -b->lo} : interval_of(b));
	if (!field_is_infinite(a) && !field_is_infinite(b)) i = interval_finite(i);
	struct field_value r = {.lo = i.lo, .hi = i.hi, .flags = flags_of(a->flags, b->flags)};
	if (isnan(i.lo) || isnan(i.hi)) return field_nan();
	r.q = minus ? residue_sub(&f->q, a->q, b->q) : residue_add(&f->q, a->q, b->q);
	r.p = minus ? residue_sub(&f->p, a->p, b->p) : residue_add(&f->p, a->p, b->p);
	/* Fractions meet over a common denominator. */
	r.degree = r.flags & FIELD_RATIONAL ? a->degree + b->degree : fmaxf(a->degree, b->degree);
	return r;
}

struct field_value field_add(struct field *f, struct field_value a, struct field_value b)
{
	/* 0 + x is x, with all that x has */
	if (field_is_zero(&a)) return b;
	if (field_is_zero(&b)) return a;
	return add_signed(f, &a, &b, false);
}

struct field_value field_sub(struct field *f, struct field_value a, struct field_value b)
{
	if (field_is_zero(&b)) return a;
	return add_signed(f, &a, &b, true);
}

struct field_value field_mul(struct field *f, struct field_value a, struct field_value b)
{
	if (field_is_nan(&a) || field_is_nan(&b)) return field_nan();
	/* 0 x is 0, even where x lacks a residue; 0 times infinity is NaN */
	if (field_is_zero(&a) || field_is_zero(&b)) {
		bool is_undefined = field_is_infinite(&a) || field_is_infinite(&b);
		return is_undefined ? field_nan() : field_integer(f, 0);
	}
	struct interval i = interval_mul(interval_of(&a), interval_of(&b));
	if (!field_is_infinite(&a) && !field_is_infinite(&b)) i = interval_finite(i);
	/* a square */
	if (i.lo < 0 && a.q == b.q && a.p == b.p && a.lo == b.lo && a.hi == b.hi && a.flags == b.flags &&
		(a.flags & (FIELD_Q | FIELD_P)))
		i.lo = 0;
	return (struct field_value){residue_mul(&f->q, a.q, b.q), residue_mul(&f->p, a.p, b.p), i.lo, i.hi,
		a.degree + b.degree, flags_of(a.flags, b.flags)};
}

struct field_value field_div(struct field *f, struct field_value a, struct field_value b)
{
	if (field_is_nan(&a) || field_is_nan(&b)) return field_nan();
	if (field_is_infinite(&b)) return field_is_infinite(&a) ? field_nan() : field_integer(f, 0);
	if (field_is_zero(&b)) {
		if (a.lo > 0) return field_infinity(false);
		if (a.hi < 0) return field_infinity(true);
		return field_nan();
	}
	if (is_nothing(&b)) return field_nan();
	if (field_is_zero(&a)) return a;
	struct interval i = interval_div(interval_of(&a), interval_of(&b));
	if (!field_is_infinite(&a)) i = interval_finite(i);
	struct field_value r = {.lo = i.lo, .hi = i.hi, .degree = a.degree + b.degree, .flags = flags_of(a.flags, b.flags)};
	if (b.degree > 0) r.flags |= FIELD_RATIONAL;
	/* A residue of 0 has no inverse: the quotient lacks it. */
	if (!b.q) r.flags &= ~(uint32_t)FIELD_Q;
	if (!b.p) r.flags &= ~(uint32_t)FIELD_P;
	if (r.flags & FIELD_Q) r.q = residue_mul(&f->q, a.q, residue_power(&f->q, b.q, f->q.m - 2));
	if (r.flags & FIELD_P) r.p = residue_mul(&f->p, a.p, residue_power(&f->p, b.p, f->p.m - 2));
	return r;
}

static struct field_value negated(const struct field *f, struct field_value a)
{
	struct field_value r = a;
	r.q = residue_sub(&f->q, 0, a.q);
	r.p = residue_sub(&f->p, 0, a.p);
	r.lo = -a.hi;
	r.hi = -a.lo;
	return r;
}

/* ---- order ---- */

enum field_verdict field_agree(const struct field_value *a, const struct field_value *b)
{
	uint32_t both = a->flags & b->flags, odd = a->flags | b->flags;
	if (field_is_nan(a) || field_is_nan(b)) return field_is_nan(a) && field_is_nan(b) ? FIELD_SAME : FIELD_DIFFERENT;
	if (field_is_infinite(a) || field_is_infinite(b))
		return a->lo == b->lo && a->hi == b->hi ? FIELD_SAME : FIELD_DIFFERENT;
	/* Apart at the real point: what residues take for the same (x and the root
	 * of x squared) is not. */
	if (a->hi < b->lo || b->hi < a->lo) return FIELD_DIFFERENT;
	if (!(both & (FIELD_Q | FIELD_P))) return FIELD_NOTHING;
	bool counts_q = (both & FIELD_Q) && !(odd & FIELD_NOT_SQUARE_Q),
		 counts_p = (both & FIELD_P) && !(odd & FIELD_NOT_SQUARE_P);
	if ((counts_q && a->q != b->q) || (counts_p && a->p != b->p)) return FIELD_DIFFERENT;
	return counts_q || counts_p ? FIELD_SAME : FIELD_SILENT;
}

enum field_order field_compare(const struct field_value *a, const struct field_value *b)
{
	if (field_is_nan(a) || field_is_nan(b)) return FIELD_UNORDERED;
	if (a->hi < b->lo) return FIELD_LESS;
	if (a->lo > b->hi) return FIELD_GREATER;
	if (is_point(a) && is_point(b)) return FIELD_EQUAL;
	if (field_is_infinite(a) && field_is_infinite(b)) return FIELD_EQUAL;
	/* One expression against itself, or against an equal one. */
	return field_agree(a, b) == FIELD_SAME ? FIELD_EQUAL : FIELD_UNDECIDED;
}

static int pick(const struct field_value *a, const struct field_value *b, bool wants_greater, struct field_value *out)
{
	switch (field_compare(a, b)) {
	case FIELD_UNORDERED: *out = field_nan(); return 0;
	case FIELD_UNDECIDED: return ERR_MISMATCH;
	case FIELD_LESS: *out = wants_greater ? *b : *a; return 0;
	case FIELD_GREATER: *out = wants_greater ? *a : *b; return 0;
	default: break;
	}
	/* Equal: the one that knows more. */
	uint32_t mine = a->flags & (FIELD_Q | FIELD_P), other = b->flags & (FIELD_Q | FIELD_P);
	*out = (mine & other) == other ? *a : *b;
	return 0;
}

/* The interval does not say whether a root or logarithm of it is a number. */
static bool is_astride(const struct field_value *a) { return a->lo < 0 && a->hi >= 0 && !is_nothing(a); }

/* -1, 0, 1; 2: not decided */
static int sign_of(const struct field_value *a)
{
	if (a->lo > 0) return 1;
	if (a->hi < 0) return -1;
	return field_is_zero(a) ? 0 : 2;
}

static int round_by(struct field *f, double (*function)(double), const struct field_value *a, struct field_value *out)
{
	if (field_is_nan(a) || field_is_infinite(a)) {
		*out = *a;
		return 0;
	}
	double lo = function(a->lo), hi = function(a->hi);
	if (lo != hi || fabs(lo) > 0x1p62) return ERR_MISMATCH;
	*out = field_integer(f, (int64_t)lo);
	return 0;
}

/* ---- exponentials, logarithms, roots ---- */

static void lose(struct field *f, enum field_op op)
{
	if (!f->lost) f->lost = op_rows[op].name;
}

static struct field_value exponential(struct field *f, enum field_op op, const struct field_value *a)
{
	double (*real)(double) = op == FIELD_EXP2 ? exp2 : exp;
	if (field_is_nan(a)) return *a;
	if (field_is_infinite(a)) return a->lo < 0 ? field_integer(f, 0) : *a;
	if (field_is_zero(a)) return field_integer(f, 1);
	/* Masks of -1e9 and -1e30 are meant as minus infinity. */
	if (a->hi < (op == FIELD_EXP2 ? EXP_NOTHING / M_LN2 : EXP_NOTHING)) return field_integer(f, 0);
	struct interval i = interval_finite(interval_about(real(a->lo), real(a->hi)));
	struct field_value r = {
		.lo = fmax(i.lo, 0), .hi = i.hi, .degree = a->degree + 1, .flags = (a->flags & MANNER) | FIELD_EXP};
	if (!(a->flags & FIELD_Q)) {
		lose(f, op);
		return r;
	}
	r.flags |= FIELD_P;
	r.p = op == FIELD_EXP2 ? residue_exp2(f, a->q) : residue_exp(f, a->q);
	/* what was no square modulo q makes the exponent, and so the result, say nothing */
	if (a->flags & (FIELD_NOT_SQUARE_Q | FIELD_LOG_OF_NO_SQUARE)) r.flags |= FIELD_NOT_SQUARE_P;
	return r;
}

static struct field_value logarithm(struct field *f, enum field_op op, const struct field_value *a)
{
	double (*real)(double) = op == FIELD_LOG2 ? log2 : log;
	if (field_is_nan(a) || a->hi < 0) return field_nan();
	if (field_is_zero(a) || is_nothing(a)) return field_infinity(true);
	if (field_is_infinite(a)) return *a;
	struct interval i = interval_about(a->lo > 0 ? real(a->lo) : -INFINITY, real(a->hi));
	struct field_value r = {
		.lo = i.lo, .hi = i.hi, .degree = a->degree + 1, .flags = (a->flags & MANNER) | FIELD_BEYOND};
	if (is_point(a) && a->lo == 1) return field_integer(f, 0);
	if (!(a->flags & FIELD_P) || !a->p) {
		lose(f, op);
		return r;
	}
	r.flags |= FIELD_Q;
	r.q = residue_log2(f, a->p);
	if (!residue_is_square(&f->p, a->p)) r.flags |= FIELD_LOG_OF_NO_SQUARE;
	if (op == FIELD_LOG_E) r.q = residue_mul(&f->q, r.q, f->ln2_q);
	if (a->flags & FIELD_NOT_SQUARE_P) r.flags |= FIELD_NOT_SQUARE_Q;
	return r;
}

/* x to the power (m + 1) / 4: a root where x is a square, and multiplicative everywhere. */
static struct field_value square_root(struct field *f, const struct field_value *a)
{
	if (field_is_nan(a) || a->hi < 0) return field_nan();
	if (field_is_zero(a) || field_is_infinite(a) || (is_point(a) && a->lo == 1)) return *a;
	if (is_nothing(a)) return field_integer(f, 0);
	struct interval i = interval_about(sqrt(fmax(a->lo, 0)), sqrt(a->hi));
	struct field_value r = {.q = residue_power(&f->q, a->q, (f->q.m + 1) / 4),
		.p = residue_power(&f->p, a->p, (f->p.m + 1) / 4),
		.lo = fmax(i.lo, 0),
		.hi = i.hi,
		.degree = a->degree,
		.flags = a->flags | FIELD_BEYOND};
	if (!residue_is_square(&f->q, a->q)) r.flags |= FIELD_NOT_SQUARE_Q;
	if (!residue_is_square(&f->p, a->p)) r.flags |= FIELD_NOT_SQUARE_P;
	return r;
}

/* Cubing is a bijection of both fields, since 3 divides neither q - 1 nor p - 1. */
static uint32_t residue_cube_root(const struct field_modulus *m, uint32_t a)
{
	uint32_t order = m->m - 1,
			 e = order % 3 == 1 ? (2 * (uint64_t)order + 1) / 3 : (uint32_t)(((uint64_t)order + 1) / 3);
	return residue_power(m, a, e);
}

static struct field_value cube_root(struct field *f, const struct field_value *a)
{
	if (field_is_nan(a) || field_is_infinite(a) || field_is_zero(a)) return *a;
	struct interval i = interval_about(cbrt(a->lo), cbrt(a->hi));
	return (struct field_value){
		residue_cube_root(&f->q, a->q), residue_cube_root(&f->p, a->p), i.lo, i.hi, a->degree, a->flags | FIELD_BEYOND};
}

static struct field_value integer_power(struct field *f, struct field_value a, int n)
{
	struct field_value r = field_integer(f, 1), x = a;
	for (int e = n < 0 ? -n : n; e; e >>= 1) {
		if (e & 1) r = field_mul(f, r, x);
		if (e > 1) x = field_mul(f, x, x);
	}
	if (n % 2 == 0 && r.lo < 0) r.lo = 0;
	return n < 0 ? field_div(f, field_integer(f, 1), r) : r;
}

static int power(struct field *f, const struct field_value *a, const struct field_value *b, struct field_value *out)
{
	/* Whole and half exponents that the program wrote itself. */
	double twice = 2 * b->lo;
	if (is_point(b) && twice == floor(twice) && fabs(twice) <= INTEGER_POWER_MAX) {
		bool is_half = fmod(twice, 2) != 0;
		if (is_half && is_astride(a)) return ERR_MISMATCH;
		struct field_value base = is_half ? square_root(f, a) : *a;
		*out = integer_power(f, base, is_half ? (int)twice : (int)b->lo);
		return 0;
	}
	if (is_point(a) && a->lo == 2) {
		*out = exponential(f, FIELD_EXP2, b);
		return 0;
	}
	/* a^b = exp(b log a) where a is positive */
	if (sign_of(a) != 1) return ERR_MISMATCH;
	struct field_value l = logarithm(f, FIELD_LOG_E, a), e = field_mul(f, *b, l);
	*out = exponential(f, FIELD_EXP_E, &e);
	return 0;
}

/* ---- random functions ---- */

enum parity { NO_PARITY, ODD, EVEN };

static uint32_t random_residue(
	const struct field *f, const struct field_modulus *m, unsigned function, enum parity parity, uint32_t x)
{
	if (parity == ODD && !x) return 0;
	bool is_upper = parity != NO_PARITY && x > m->m / 2;
	uint32_t r = residue_random(f, m, function, is_upper ? m->m - x : x);
	return is_upper && parity == ODD ? residue_sub(m, 0, r) : r;
}

/* slope: how much the real function changes at most for a change of 1 (all that have a parity here
 * are smooth); 0: it is not decreasing, and its ends are its image's. */
static struct field_value random_function(struct field *f, enum field_op op, enum parity parity, double (*real)(double),
	double slope, const struct field_value *a)
{
	if (field_is_nan(a)) return *a;
	if (field_is_zero(a) && parity == ODD) return *a;
	struct interval i;
	if (slope > 0) {
		double half = slope * (a->hi - a->lo), middle = real(a->lo);
		i = isfinite(half) ? interval_about(middle - half, middle + half) : (struct interval){-INFINITY, INFINITY};
	} else {
		double lo = real(a->lo), hi = real(a->hi);
		if (isnan(lo) && isnan(hi)) return field_nan();
		i = interval_about(lo, hi);
	}
	if (field_is_zero(a) && parity == EVEN) return field_integer(f, (int64_t)real(0));
	return (struct field_value){random_residue(f, &f->q, op, parity, a->q), random_residue(f, &f->p, op, parity, a->p),
		i.lo, i.hi, a->degree + 1, a->flags | FIELD_BEYOND};
}

static struct field_value random_of_two(struct field *f, enum field_op op, double (*real)(double, double),
	const struct field_value *a, const struct field_value *b)
{
	if (field_is_nan(a) || field_is_nan(b)) return field_nan();
	/* Seen from the origin, a box that does not hold it lies between its corners, and a direction
	 * jumps only where the first number changes its sign beside a negative second one. */
	struct interval i = {-M_PI, M_PI};
	if (a->lo > 0 || a->hi < 0 || b->lo > 0) {
		double corners[4] = {real(a->lo, b->lo), real(a->lo, b->hi), real(a->hi, b->lo), real(a->hi, b->hi)};
		i = (struct interval){corners[0], corners[0]};
		for (int c = 1; c < 4; c++) i = (struct interval){fmin(i.lo, corners[c]), fmax(i.hi, corners[c])};
	}
	i = interval_about(i.lo, i.hi);
	return (struct field_value){residue_random(f, &f->q, op, residue_random(f, &f->q, op, a->q) ^ b->q),
		residue_random(f, &f->p, op, residue_random(f, &f->p, op, a->p) ^ b->p), i.lo, i.hi, a->degree + b->degree + 1,
		flags_of(a->flags, b->flags) | FIELD_BEYOND};
}

/* ---- what is written in exp and log ---- */

static struct field_value exp_of(struct field *f, struct field_value a) { return exponential(f, FIELD_EXP_E, &a); }
static struct field_value log_of(struct field *f, struct field_value a) { return logarithm(f, FIELD_LOG_E, &a); }
static struct field_value root_of(struct field *f, struct field_value a) { return square_root(f, &a); }

/* The real function's own interval, which is narrower than that of the expression. */
static struct field_value within(struct field_value v, double lo, double hi)
{
	struct interval i = interval_about(lo, hi);
	if (field_is_nan(&v) || isnan(lo) || isnan(hi) || field_is_infinite(&v)) return v;
	v.lo = i.lo;
	v.hi = i.hi;
	return v;
}

static double sigmoid(double x) { return 1 / (1 + exp(-x)); }

static int composed(struct field *f, enum field_op op, const struct field_value *a, struct field_value *out)
{
	struct field_value x = *a, one = field_integer(f, 1), two = field_integer(f, 2), e, d;
	/* The limits of those that have any: exp alone would divide one infinity by another. */
	if (field_is_infinite(a) && (op == FIELD_SIGMOID || op == FIELD_TANH)) {
		*out = field_integer(f, a->lo > 0 ? 1 : op == FIELD_TANH ? -1 : 0);
		return 0;
	}
	switch (op) {
	case FIELD_SIGMOID: /* 1 / (1 + exp(-x)) */
		e = exp_of(f, negated(f, x));
		*out = within(field_div(f, one, field_add(f, one, e)), sigmoid(a->lo), sigmoid(a->hi));
		return 0;
	case FIELD_TANH: /* (exp(2x) - 1) / (exp(2x) + 1) */
		e = exp_of(f, field_mul(f, two, x));
		*out = within(field_div(f, field_sub(f, e, one), field_add(f, e, one)), tanh(a->lo), tanh(a->hi));
		return 0;
	case FIELD_SINH:
	case FIELD_COSH: /* (exp(x) -+ exp(-x)) / 2 */
		e = exp_of(f, x);
		d = exp_of(f, negated(f, x));
		*out = field_div(f, op == FIELD_SINH ? field_sub(f, e, d) : field_add(f, e, d), two);
		return 0;
	case FIELD_EXPM1: *out = within(field_sub(f, exp_of(f, x), one), expm1(a->lo), expm1(a->hi)); return 0;
	case FIELD_LOG1P: *out = within(log_of(f, field_add(f, one, x)), log1p(a->lo), log1p(a->hi)); return 0;
	case FIELD_LOG10: *out = field_div(f, log_of(f, x), log_of(f, field_integer(f, 10))); return 0;
	case FIELD_EXP10: *out = exp_of(f, field_mul(f, x, log_of(f, field_integer(f, 10)))); return 0;
	case FIELD_ASINH: /* log(x + sqrt(x^2 + 1)) */
		d = root_of(f, field_add(f, field_mul(f, x, x), one));
		*out = within(log_of(f, field_add(f, x, d)), asinh(a->lo), asinh(a->hi));
		return 0;
	case FIELD_ACOSH:
		d = root_of(f, field_sub(f, field_mul(f, x, x), one));
		*out = within(log_of(f, field_add(f, x, d)), acosh(a->lo), acosh(a->hi));
		return 0;
	case FIELD_ATANH: /* log((1 + x) / (1 - x)) / 2 */
		e = log_of(f, field_div(f, field_add(f, one, x), field_sub(f, one, x)));
		*out = within(field_div(f, e, two), atanh(a->lo), atanh(a->hi));
		return 0;
	case FIELD_NORMCDF: /* (1 + erf(x / sqrt 2)) / 2 */
		e = field_div(f, x, root_of(f, two));
		d = random_function(f, FIELD_ERF, ODD, erf, 0, &e);
		*out = field_div(f, field_add(f, one, d), two);
		return 0;
	case FIELD_ERFC: *out = field_sub(f, one, random_function(f, FIELD_ERF, ODD, erf, 0, a)); return 0;
	case FIELD_TAN:
		*out = field_div(
			f, random_function(f, FIELD_SIN, ODD, sin, 1, a), random_function(f, FIELD_COS, EVEN, cos, 1, a));
		return 0;
	case FIELD_ACOS: /* pi / 2 - asin(x) */
		d = field_div(f, field_constant(f, M_PI, 53), two);
		*out = field_sub(f, d, random_function(f, FIELD_ASIN, ODD, asin, 0, a));
		return 0;
	default: return ERR_UNSUPPORTED;
	}
}

/* ---- one operation ---- */

static bool domain_undecided(enum field_op op, const struct field_value *a)
{
	switch (op) {
	case FIELD_SQRT:
	case FIELD_RSQRT:
	case FIELD_LOG_E:
	case FIELD_LOG2:
	case FIELD_LOG10: return is_astride(a);
	case FIELD_LOG1P: return a->lo < -1 && a->hi >= -1;
	case FIELD_ACOSH: return a->lo < 1 && a->hi >= 1;
	case FIELD_ATANH:
	case FIELD_ASIN:
	case FIELD_ACOS: return (a->lo < -1 && a->hi >= -1) || (a->lo <= 1 && a->hi > 1);
	default: return false;
	}
}

static int apply_unary(struct field *f, enum field_op op, const struct field_value *a, struct field_value *out)
{
	int sign;
	/* Outside of its domain a function is no number: residues do not say where that is. */
	if (domain_undecided(op, a)) return ERR_MISMATCH;
	/* The interval's operations first, then the residues' own, then random functions; the rest is
	 * composed. */
	switch (op) {
	case FIELD_NEG: *out = negated(f, *a); return 0;
	case FIELD_ABS:
	case FIELD_SIGN:
		sign = field_is_nan(a) ? 1 : sign_of(a);
		if (sign == 2) return ERR_MISMATCH;
		if (field_is_nan(a)) *out = *a;
		else if (op == FIELD_SIGN) *out = field_integer(f, sign);
		else *out = sign < 0 ? negated(f, *a) : *a;
		return 0;
	case FIELD_CEIL: return round_by(f, ceil, a, out);
	case FIELD_FLOOR: return round_by(f, floor, a, out);
	case FIELD_TRUNC: return round_by(f, trunc, a, out);
	case FIELD_ROUND: return round_by(f, round, a, out);
	case FIELD_ROUND_EVEN: return round_by(f, rint, a, out);
	case FIELD_SQRT: *out = square_root(f, a); return 0;
	case FIELD_RSQRT: *out = field_div(f, field_integer(f, 1), square_root(f, a)); return 0;
	case FIELD_RECIPROCAL: *out = field_div(f, field_integer(f, 1), *a); return 0;
	case FIELD_CBRT: *out = cube_root(f, a); return 0;
	case FIELD_EXP_E:
	case FIELD_EXP2: *out = exponential(f, op, a); return 0;
	case FIELD_LOG_E:
	case FIELD_LOG2: *out = logarithm(f, op, a); return 0;
	case FIELD_ERF: *out = random_function(f, op, ODD, erf, 0, a); return 0;
	case FIELD_SIN: *out = random_function(f, op, ODD, sin, 1, a); return 0;
	case FIELD_COS: *out = random_function(f, op, EVEN, cos, 1, a); return 0;
	case FIELD_ASIN: *out = random_function(f, op, ODD, asin, 0, a); return 0;
	case FIELD_ATAN: *out = random_function(f, op, ODD, atan, 0, a); return 0;
	case FIELD_LGAMMA:
		if (a->lo < 2) return ERR_UNSUPPORTED;
		*out = random_function(f, op, NO_PARITY, lgamma, 0, a);
		return 0;
	default: return composed(f, op, a, out);
	}
}

static int apply_binary(struct field *f, enum field_op op, const struct field_value *a, const struct field_value *b,
	struct field_value *out)
{
	struct field_value t, x = *a, y = *b;
	int rc;
	switch (op) {
	/* What is exact in a field. */
	case FIELD_ADD: *out = field_add(f, x, y); return 0;
	case FIELD_SUB: *out = field_sub(f, x, y); return 0;
	case FIELD_MUL: *out = field_mul(f, x, y); return 0;
	case FIELD_DIV: *out = field_div(f, x, y); return 0;
	/* What has to know which of two is larger, or how large a quotient is: the intervals decide, or
	 * nothing does. */
	case FIELD_MAX:
	case FIELD_MIN: return pick(a, b, op == FIELD_MAX, out);
	case FIELD_POW: return power(f, &x, &y, out);
	case FIELD_MOD_TRUNC:
	case FIELD_MOD_FLOOR: /* x - y round(x / y) */
		t = field_div(f, x, y);
		rc = round_by(f, op == FIELD_MOD_TRUNC ? trunc : floor, &t, &t);
		if (!rc) *out = field_sub(f, x, field_mul(f, y, t));
		return rc;
	case FIELD_FDIM: /* max(x - y, 0) */
		t = field_integer(f, 0);
		x = field_sub(f, x, y);
		return pick(&x, &t, true, out);
	case FIELD_COPYSIGN: {
		int from = sign_of(&x), to = sign_of(&y);
		if (from == 2 || to == 2 || to == 0) return ERR_MISMATCH;
		*out = from * to < 0 ? negated(f, x) : x;
		return 0;
	}
	/* Roots follow from a square; an angle is a random function of its two numbers. */
	case FIELD_HYPOT: *out = root_of(f, field_add(f, field_mul(f, x, x), field_mul(f, y, y))); return 0;
	case FIELD_ATAN2: *out = random_of_two(f, op, atan2, &x, &y); return 0;
	default: return ERR_UNSUPPORTED;
	}
}

int field_apply(struct field *f, enum field_op op, const struct field_value *a, const struct field_value *b,
	struct field_value *out)
{
	struct field_value x = *a, zero, one;
	int rc;
	if (op_rows[op].operands == 2) {
		rc = apply_binary(f, op, a, b, out);
	} else if (op == FIELD_SATURATE) { /* min(max(x, 0), 1) */
		zero = field_integer(f, 0);
		one = field_integer(f, 1);
		rc = pick(&x, &zero, true, &x);
		if (!rc) rc = pick(&x, &one, false, out);
	} else {
		rc = apply_unary(f, op, &x, out);
	}
	/* What has no reading: the caller finds it at the outputs, if it reaches any. */
	if (rc == ERR_UNSUPPORTED) {
		if (!f->lost) f->lost = op_rows[op].name;
		*out = (struct field_value){.lo = -INFINITY, .hi = INFINITY};
		return 0;
	}
	return rc;
}
