/* field: numbers for a proof by evaluation: what `hone prove` computes with in place of floats.
 *
 * A value is a random point's image under three readings of the same real expression:
 *   q, p      residues modulo two primes, p = 2q + 1, q = 7 mod 8. Both are fields, so a real
 *             identity of + - * / holds in them, and one that is false fails at a random point
 *             except with a chance of at most its degree over the prime (Schwartz, Zippel).
 *   lo, hi    an interval that holds the real value at one ordinary real point. It alone decides
 *             comparisons, maxima, signs, rounding to integers: residues have no order.
 * exp takes the residue modulo q to one modulo p, by a random element of order q, so that exp(x +
 * y) = exp(x) exp(y) holds exactly; log takes p back to q, as the discrete logarithm of the one of
 * x and -x that is a square. What such an operation does not give is absent (flags), and an
 * operation that needs it gives neither.
 *
 * 2 is a square modulo both, so sqrt(4x) is 2 sqrt(x), and sqrt(8 / pi) is 2 sqrt(2 / pi). The
 * random element is chosen as a root of 2: exp(a) = 2 for a random residue a, which is ln 2 modulo
 * q. Powers and logarithms to base 2 agree with those to base e.
 *
 * Values without any residue: infinities (both ends infinite), NaN (both ends NaN), and what lacked
 * a residue on the way. struct field is one draw: primes and random elements, made anew for each.
 * Threading: one struct field a thread. */
#ifndef HONE_FIELD_H
#define HONE_FIELD_H
#include "base/base.h"
#include <math.h>

enum field_flag {
	FIELD_Q = 1,            /* q holds a residue */
	FIELD_P = 2,            /* p holds a residue */
	FIELD_NOT_SQUARE_Q = 4, /* some root was taken of no square: a mismatch of this residue says nothing */
	FIELD_NOT_SQUARE_P = 8,
	FIELD_RATIONAL = 16,          /* was divided by something that is no constant */
	FIELD_EXP = 32,               /* came through exp */
	FIELD_BEYOND = 64,            /* came through log, a root or a random function */
	FIELD_LOG_OF_NO_SQUARE = 128, /* holds the logarithm of the negative: exp does not lead back */
	FIELD_UNDEFINED = 256,        /* made of what nobody defined, as its maker says */
};
struct field_value {
	uint32_t q; /* residue modulo q, in Montgomery's form; with FIELD_Q */
	uint32_t p; /* modulo p; with FIELD_P */
	double lo;  /* the real value lies between lo and hi */
	double hi;
	float degree;   /* of the expression in the inputs, at most; a fraction has the sum of both its parts' */
	uint32_t flags; /* enum field_flag, or'ed */
};

struct field_modulus {
	uint32_t m;       /* odd, below 2^31 */
	uint32_t inverse; /* -1/m mod 2^32 */
	uint32_t square;  /* 2^64 mod m */
	uint32_t one;     /* 2^32 mod m */
};
#define FIELD_POWER_WINDOWS 4
struct field_log_table;
struct field {
	struct field_modulus q; /* the prime that exponents are kept by */
	struct field_modulus p; /* 2 q + 1 */
	uint64_t seed;          /* of random functions and fresh values */
	uint64_t fresh;         /* how many fresh values were drawn */
	uint32_t ln2_q;         /* in Montgomery's form, as the next four */
	uint32_t ln2_p;
	uint32_t inverse_ln2_q;
	uint32_t pi_q;
	uint32_t pi_p;
	uint32_t power[FIELD_POWER_WINDOWS][256]; /* 2^(d 256^w) modulo p */
	struct field_log_table *logs;             /* made at the first logarithm */
	const char *lost;                         /* the first operation that lacked a residue; NULL: none */
	const char *outside;                      /* an operation that has no reading here; NULL: none */
};
/* Draws the primes, q between 2^29 and 2^30, and the random elements. */
void field_init(struct field *f, uint64_t seed);
void field_release(struct field *f);

/* ---- operations ---- */

/*        id               operands  name */
#define FIELD_OP_TABLE(X) \
	X(FIELD_ADD, 2, "add") X(FIELD_SUB, 2, "sub") X(FIELD_MUL, 2, "mul") X(FIELD_DIV, 2, "div") \
	X(FIELD_MAX, 2, "max") X(FIELD_MIN, 2, "min") X(FIELD_POW, 2, "pow") X(FIELD_MOD_TRUNC, 2, "fmod") \
	X(FIELD_MOD_FLOOR, 2, "remainder") X(FIELD_ATAN2, 2, "atan2") X(FIELD_HYPOT, 2, "hypot") \
	X(FIELD_COPYSIGN, 2, "copysign") X(FIELD_FDIM, 2, "fdim") \
	X(FIELD_NEG, 1, "neg") X(FIELD_ABS, 1, "abs") X(FIELD_SIGN, 1, "sign") X(FIELD_CEIL, 1, "ceil") \
	X(FIELD_FLOOR, 1, "floor") X(FIELD_TRUNC, 1, "trunc") X(FIELD_ROUND, 1, "round") \
	X(FIELD_ROUND_EVEN, 1, "round to even") \
	X(FIELD_SATURATE, 1, "saturate") X(FIELD_SQRT, 1, "sqrt") X(FIELD_RSQRT, 1, "rsqrt") \
	X(FIELD_RECIPROCAL, 1, "reciprocal") X(FIELD_EXP_E, 1, "exp") X(FIELD_EXP2, 1, "exp2") X(FIELD_EXP10, 1, "exp10") \
	X(FIELD_EXPM1, 1, "expm1") X(FIELD_LOG_E, 1, "log") X(FIELD_LOG2, 1, "log2") X(FIELD_LOG10, 1, "log10") \
	X(FIELD_LOG1P, 1, "log1p") X(FIELD_TANH, 1, "tanh") X(FIELD_SINH, 1, "sinh") X(FIELD_COSH, 1, "cosh") \
	X(FIELD_ASINH, 1, "asinh") X(FIELD_ACOSH, 1, "acosh") X(FIELD_ATANH, 1, "atanh") \
	X(FIELD_SIGMOID, 1, "sigmoid") X(FIELD_NORMCDF, 1, "normcdf") X(FIELD_ERFC, 1, "erfc") \
	X(FIELD_ERF, 1, "erf") X(FIELD_SIN, 1, "sin") X(FIELD_COS, 1, "cos") X(FIELD_TAN, 1, "tan") \
	X(FIELD_ASIN, 1, "asin") X(FIELD_ACOS, 1, "acos") X(FIELD_ATAN, 1, "atan") X(FIELD_LGAMMA, 1, "lgamma") \
	X(FIELD_ERFINV, 1, "erfinv") X(FIELD_CBRT, 1, "cbrt")
#define X(id, ...) id,
enum field_op { FIELD_OP_TABLE(X) FIELD_OP_COUNT };
#undef X
const char *field_op_name(enum field_op op);
int field_op_operands(enum field_op op);

/* 0, or ERR_MISMATCH: the interval does not decide what the operation asks (a sign, a maximum, a
 * rounding): the inputs must be drawn again. An operation that has no reading here gives 0 and a
 * value without any residue, and f->lost names the first. out may be an operand. */
int field_apply(struct field *f, enum field_op op, const struct field_value *a, const struct field_value *b,
	struct field_value *out);
/* The four that never fail, for loops. */
struct field_value field_add(struct field *f, struct field_value a, struct field_value b);
struct field_value field_sub(struct field *f, struct field_value a, struct field_value b);
struct field_value field_mul(struct field *f, struct field_value a, struct field_value b);
struct field_value field_div(struct field *f, struct field_value a, struct field_value b);

enum field_order { FIELD_LESS, FIELD_EQUAL, FIELD_GREATER, FIELD_UNORDERED /* a NaN */, FIELD_UNDECIDED };
enum field_order field_compare(const struct field_value *a, const struct field_value *b);

/* ---- making values ---- */

struct field_value field_integer(const struct field *f, int64_t i);
/* A constant of a program: the simplest of integers, fractions, decimals, their roots, and
 * multiples of pi and ln 2 that lies within half a unit in the last place of `bits` (24: fp32; 53:
 * fp64; ...) around x; else x itself, exactly. */
struct field_value field_constant(struct field *f, double x, int bits);
/* An input: random residues beside the real value. */
struct field_value field_input(struct field *f, double x);
struct field_value field_nan(void);
struct field_value field_infinity(bool is_negative);
static inline bool field_is_nan(const struct field_value *v) { return isnan(v->lo); }
static inline bool field_is_infinite(const struct field_value *v) { return isinf(v->lo) && v->lo == v->hi; }
/* Known to be exactly 0. */
static inline bool field_is_zero(const struct field_value *v)
{
	return v->lo == 0 && v->hi == 0 && v->degree == 0 && !v->q && !v->p &&
		(v->flags & (FIELD_Q | FIELD_P)) == (FIELD_Q | FIELD_P);
}

/* ---- what two computations of one thing agree in ---- */

enum field_verdict {
	FIELD_SAME,      /* each residue that both have, and may be counted, is the same, and there is one */
	FIELD_DIFFERENT, /* a residue that may be counted differs */
	FIELD_SILENT,    /* none may be counted in this draw: a root was taken of no square */
	FIELD_NOTHING    /* they share no residue */
};
enum field_verdict field_agree(const struct field_value *a, const struct field_value *b);
#endif
