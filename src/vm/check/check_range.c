/* Numbers that are one and the same whatever memory holds: min(exp(x), 0). What such a number
 * decides is decided by the kernel alone, so no input that nobody tried could decide otherwise.
 *
 * Each value gets an interval that holds it for all inputs, by one walk over the program and as
 * many more as loops need. An interval is as wide as rounding and the differences between our
 * functions and a GPU's can make it, and says whether the value may be no number (0 * inf, inf -
 * inf): such a one is never still, since a window can be made of it.
 *
 * Intervals also tell what LLVM leaves open: a shift that is in no lane by less than the
 * width, a cast of what the type never holds. The compiler may see that as well, and then it stores
 * whatever lies in a register. */
#include "vm/check/check.h"
#include "base/base.h"
#include "ttir/ttir.h"
#include "vm/core/program.h"
#include "vm/map/map.h"
#include <float.h>
#include <math.h>
#include <stdlib.h>

#define SLACK 0x1p-16 /* relative: what functions differ by */
#define PATIENCE 4    /* walks after which a bound that still moves has no end */

struct range {
	double lo;
	double hi;
	bool nan; /* it may be no number */
	bool is;  /* some way leads to it */
};

/* What a value is of another one in the same lane: a power of it times a number, as x * x * |x| is
 * of x. Two powers of one number do not vanish and overflow at once, so that their product is a
 * number; and an even one has a sign. */
struct power {
	int base;      /* a value; of the most it is the value itself */
	double shift;  /* by how many powers of two its numbers move where it vanishes and overflows */
	bool is_even;  /* it is on one side of 0, */
	bool is_below; /* on this; of an odd one, where the base is above it */
};
#define SHIFT_MAX 60 /* half of what lies between 1 and where an fp32 vanishes or overflows */

static struct range make(double lo, double hi, bool nan)
{
	if (isnan(lo)) lo = -INFINITY;
	if (isnan(hi)) hi = INFINITY;
	return (struct range){lo, hi, nan, true};
}
static struct range anything(enum elem e)
{
	if (e == ELEM_I1) return make(0, 1, false);
	return make(-INFINITY, INFINITY, elem_is_float(e));
}
static struct range either(struct range a, struct range b)
{
	if (!a.is || !b.is) return a.is ? a : b;
	return make(fmin(a.lo, b.lo), fmax(a.hi, b.hi), a.nan || b.nan);
}
static bool is_infinite(struct range a) { return a.lo == -INFINITY || a.hi == INFINITY; }
static bool has_zero(struct range a) { return a.lo <= 0 && a.hi >= 0; }

/* ---- numbers of a type ---- */

static const struct {
	double step;    /* relative, from a number to the next */
	double largest; /* what is larger is infinite */
	double least;   /* what is smaller may be 0 */
} formats[ELEM_COUNT] = {
	[ELEM_F8E4M3] = {0x1p-3, 448, 0x1p-6},
	[ELEM_F8E5M2] = {0x1p-2, 57344, 0x1p-14},
	[ELEM_F16] = {0x1p-10, 65504, 0x1p-14},
	[ELEM_BF16] = {0x1p-7, 0x1.fep127, 0x1p-126},
	[ELEM_F32] = {0x1p-23, FLT_MAX, FLT_MIN},
	[ELEM_F64] = {0x1p-51, DBL_MAX, DBL_MIN},
};

/* Whether a type has this number: rounding is monotone, so nothing above it is rounded below it. */
static bool is_number_of(double x, enum elem e)
{
	int exponent;
	double digits = frexp(x, &exponent) * 2 / formats[e].step;
	return e != ELEM_F64 && (x == 0 || fabs(x) >= formats[e].least) && digits == rint(digits);
}

static double outward(double x, enum elem e, double slack, int sign)
{
	if (slack == 0 && is_number_of(x, e) && fabs(x) <= formats[e].largest) return x;
	double wide = x + sign * fabs(x) * (formats[e].step + slack);
	if (fabs(wide) < formats[e].least && wide * sign < 0) return 0;
	/* What lies below the largest number is not rounded to more. */
	if (slack == 0 && fabs(x) <= formats[e].largest) return fmin(fmax(wide, -formats[e].largest), formats[e].largest);
	if (fabs(wide) > formats[e].largest) return wide * sign > 0 ? sign * INFINITY : -sign * formats[e].largest;
	return wide;
}
/* As the type rounds it; whole numbers wrap, so that bounds beyond are none. */
static struct range rounded(struct range r, enum elem e, double slack)
{
	if (elem_is_float(e)) return make(outward(r.lo, e, slack, -1), outward(r.hi, e, slack, 1), r.nan);
	double bits = e == ELEM_I1 ? 1 : 8.0 * (double)elem_bytes(e), top = exp2(bits - 1);
	if (e == ELEM_I1) return r.lo >= 0 && r.hi <= 1 ? r : anything(e);
	return r.lo >= -top && r.hi <= top - 1 ? make(r.lo, r.hi, false) : anything(e);
}

/* ---- arithmetic ---- */

static struct range negated(struct range a) { return make(-a.hi, -a.lo, a.nan); }

static struct range sum(struct range a, struct range b)
{
	bool cancels = (a.hi == INFINITY && b.lo == -INFINITY) || (a.lo == -INFINITY && b.hi == INFINITY);
	return make(a.lo + b.lo, a.hi + b.hi, a.nan || b.nan || cancels);
}

static double times(double a, double b) { return a == 0 || b == 0 ? 0 : a * b; }
/* is_one: both are powers of one number. */
static struct range product(struct range a, struct range b, bool is_square, bool is_one)
{
	double w = times(a.lo, b.lo), x = times(a.lo, b.hi), y = times(a.hi, b.lo), z = times(a.hi, b.hi);
	if (is_square) return make(has_zero(a) ? 0 : fmin(w, z), fmax(w, z), a.nan);
	bool vanishes = !is_one && ((has_zero(a) && is_infinite(b)) || (is_infinite(a) && has_zero(b)));
	return make(fmin(fmin(w, x), fmin(y, z)), fmax(fmax(w, x), fmax(y, z)), a.nan || b.nan || vanishes);
}

/* A divisor that may be 0 may be 0 of either sign. */
static struct range quotient(struct range a, struct range b)
{
	if (has_zero(b)) return make(-INFINITY, INFINITY, true);
	if (is_infinite(a) && is_infinite(b)) return make(-INFINITY, INFINITY, true);
	double w = a.lo / b.lo, x = a.lo / b.hi, y = a.hi / b.lo, z = a.hi / b.hi;
	return make(fmin(fmin(w, x), fmin(y, z)), fmax(fmax(w, x), fmax(y, z)), a.nan || b.nan);
}

static struct range least(struct range a, struct range b, bool takes_numbers)
{
	struct range r = make(fmin(a.lo, b.lo), fmin(a.hi, b.hi), a.nan || b.nan);
	if (takes_numbers && (a.nan || b.nan)) return either(either(a, b), r); /* the other one of the two */
	return r;
}
static struct range largest(struct range a, struct range b, bool takes_numbers)
{
	return negated(least(negated(a), negated(b), takes_numbers));
}

static struct range magnitude(struct range a)
{
	double most = fmax(fabs(a.lo), fabs(a.hi));
	return make(has_zero(a) ? 0 : fmin(fabs(a.lo), fabs(a.hi)), most, a.nan);
}

/* ---- functions of one number ---- */

static double normal_cdf(double x) { return 0.5 * erfc(-x * M_SQRT1_2); }

/* Those that only rise (way 1) or only fall (-1), from a first to a last argument. */
static const struct {
	int16_t map_op;
	int8_t way;
	bool is_exact; /* gives whole numbers: nothing to differ by */
	double (*f)(double);
	double first;
	double last;
} monotones[] = {
	{MAP_EXP, 1, false, exp, -INFINITY, INFINITY},
	{MAP_EXP2, 1, false, exp2, -INFINITY, INFINITY},
	{MAP_EXP10, 1, false, exp10, -INFINITY, INFINITY},
	{MAP_EXPM1, 1, false, expm1, -INFINITY, INFINITY},
	{MAP_LOG, 1, false, log, 0, INFINITY},
	{MAP_LOG2, 1, false, log2, 0, INFINITY},
	{MAP_LOG10, 1, false, log10, 0, INFINITY},
	{MAP_LOG1P, 1, false, log1p, -1, INFINITY},
	{MAP_SQRT, 1, false, sqrt, 0, INFINITY},
	{MAP_PRECISE_SQRT, 1, false, sqrt, 0, INFINITY},
	{MAP_CBRT, 1, false, cbrt, -INFINITY, INFINITY},
	{MAP_SINH, 1, false, sinh, -INFINITY, INFINITY},
	{MAP_TANH, 1, false, tanh, -INFINITY, INFINITY},
	{MAP_ASIN, 1, false, asin, -1, 1},
	{MAP_ACOS, -1, false, acos, -1, 1},
	{MAP_ATAN, 1, false, atan, -INFINITY, INFINITY},
	{MAP_ASINH, 1, false, asinh, -INFINITY, INFINITY},
	{MAP_ACOSH, 1, false, acosh, 1, INFINITY},
	{MAP_ATANH, 1, false, atanh, -1, 1},
	{MAP_ERF, 1, false, erf, -INFINITY, INFINITY},
	{MAP_ERFC, -1, false, erfc, -INFINITY, INFINITY},
	{MAP_NORMCDF, 1, false, normal_cdf, -INFINITY, INFINITY},
	{MAP_FLOOR, 1, true, floor, -INFINITY, INFINITY},
	{MAP_CEIL, 1, true, ceil, -INFINITY, INFINITY},
	{MAP_TRUNC, 1, true, trunc, -INFINITY, INFINITY},
	{MAP_ROUND, 1, true, round, -INFINITY, INFINITY},
	{MAP_ROUNDEVEN, 1, true, rint, -INFINITY, INFINITY},
};

static bool monotone(int map_op, struct range a, enum elem e, struct range *out)
{
	for (size_t i = 0; i < ARRAY_LEN(monotones); i++) {
		if (monotones[i].map_op != map_op) continue;
		double first = monotones[i].first, last = monotones[i].last;
		bool leaves = a.lo < first || a.hi > last;
		double x = monotones[i].f(fmin(fmax(a.lo, first), last)), y = monotones[i].f(fmin(fmax(a.hi, first), last));
		*out = monotones[i].way > 0 ? make(x, y, a.nan || leaves) : make(y, x, a.nan || leaves);
		*out = rounded(*out, e, monotones[i].is_exact ? 0 : SLACK);
		return true;
	}
	return false;
}

/* ---- maps ---- */

static struct range clamped(struct range x, struct range lo, struct range hi, bool keeps_nan)
{
	struct range r = least(largest(x, lo, false), hi, false);
	if (x.nan && !keeps_nan) r = either(r, either(lo, hi));
	r.nan = lo.nan || hi.nan || (x.nan && keeps_nan);
	return r;
}

/* An operation of floats; false: nothing is known of it. is_square, is_one: its first two operands
 * are one value, or powers of one. */
static bool map_floats(int map_op, const struct range *a, bool is_square, bool is_one, enum elem e, struct range *out)
{
	struct range r;
	if (monotone(map_op, a[0], e, out)) return true;
	switch (map_op) {
	case MAP_ADDF: r = sum(a[0], a[1]); break;
	case MAP_SUBF: r = sum(a[0], negated(a[1])); break;
	case MAP_MULF: r = product(a[0], a[1], is_square, is_one); break;
	case MAP_FMA: r = sum(product(a[0], a[1], is_square, false), a[2]); break;
	case MAP_FMS: r = sum(product(a[0], a[1], is_square, false), negated(a[2])); break;
	case MAP_FNMA: r = sum(a[2], negated(product(a[0], a[1], is_square, false))); break;
	case MAP_DIVF:
	case MAP_PRECISE_DIVF: r = quotient(a[0], a[1]); break;
	case MAP_RCP: r = quotient(make(1, 1, false), a[0]); break;
	case MAP_RSQRT:
		if (a[0].lo <= 0) return false;
		r = make(1 / sqrt(a[0].hi), 1 / sqrt(a[0].lo), a[0].nan);
		break;
	case MAP_MINIMUMF:
	case MAP_MINNUMF: r = least(a[0], a[1], map_op == MAP_MINNUMF); break;
	case MAP_MAXIMUMF:
	case MAP_MAXNUMF: r = largest(a[0], a[1], map_op == MAP_MAXNUMF); break;
	case MAP_CLAMPF:
	case MAP_CLAMPF_NAN: r = clamped(a[0], a[1], a[2], map_op == MAP_CLAMPF_NAN); break;
	case MAP_SATURATE: r = clamped(a[0], make(0, 0, false), make(1, 1, false), false); break;
	case MAP_NEGF: r = negated(a[0]); break;
	case MAP_ABSF: r = magnitude(a[0]); break;
	case MAP_COSH: r = make(1, INFINITY, a[0].nan); break;
	case MAP_SIN:
	case MAP_COS:
	case MAP_SINPI:
	case MAP_COSPI: {
		bool is_falling = map_op == MAP_COS && a[0].lo >= 0 && a[0].hi <= M_PI;
		r = is_falling ? make(cos(a[0].hi), cos(a[0].lo), a[0].nan) : make(-1, 1, a[0].nan || is_infinite(a[0]));
		break;
	}
	case MAP_HYPOT: r = make(0, INFINITY, a[0].nan || a[1].nan); break;
	default: return false;
	}
	/* Sums and products are rounded; functions differ by more. */
	*out = rounded(r, e, map_rows[map_op].special ? SLACK : 0);
	return true;
}

static bool map_ints(int map_op, const struct range *a, enum elem e, struct range *out)
{
	bool is_truth = e == ELEM_I1;
	switch (map_op) {
	case MAP_ADDI: *out = rounded(sum(a[0], a[1]), e, 0); return !is_truth;
	case MAP_SUBI: *out = rounded(sum(a[0], negated(a[1])), e, 0); return !is_truth;
	case MAP_MINSI: *out = least(a[0], a[1], false); return !is_truth;
	case MAP_MAXSI: *out = largest(a[0], a[1], false); return !is_truth;
	case MAP_ANDI:
		*out = least(a[0], a[1], false);
		if (!is_truth) *out = make(0, a[0].lo < 0 ? a[1].hi : a[1].lo < 0 ? a[0].hi : out->hi, false);
		return is_truth || a[0].lo >= 0 || a[1].lo >= 0;
	case MAP_ORI:
		*out = largest(a[0], a[1], false);
		if (!is_truth) out->hi = INFINITY;
		return is_truth || (a[0].lo >= 0 && a[1].lo >= 0);
	default: return false;
	}
}

/* The truth of a comparison that holds in the given orders. */
static struct range compared(struct range a, struct range b, int orders)
{
	int possible = (a.lo < b.hi ? MAP_LESS : 0) | (a.hi > b.lo ? MAP_GREATER : 0) |
		(a.lo <= b.hi && b.lo <= a.hi ? MAP_EQUAL : 0) | (a.nan || b.nan ? MAP_UNORDERED : 0);
	return make((possible & ~orders) == 0, (possible & orders) != 0, false);
}

static struct range map_range(
	const struct vm_program *p, const struct vm_instr *in, const struct range *a, const struct power *powers)
{
	enum elem e = (enum elem)in->result_elem;
	bool is_square = in->nsrc > 1 && src_id(p, in, 0) == src_id(p, in, 1);
	struct range r = anything(e);
	int map_op = in->number == NUMBER_MAP ? in->imm[1] : in->map_op;
	if (map_op >= 0) {
		const struct power *own = &powers[dst_id(p, in, 0)];
		bool is_one = own->base != dst_id(p, in, 0);
		bool known = elem_is_float(e) ? map_floats(map_op, a, is_square, is_one, e, &r) : map_ints(map_op, a, e, &r);
		if (known && own->is_even && own->is_below) r.hi = fmin(r.hi, 0);
		if (known && own->is_even && !own->is_below) r.lo = fmax(r.lo, 0);
		return known ? r : anything(e);
	}
	switch (in->number) {
	case NUMBER_COMPARE: return compared(a[0], a[1], in->imm[2]);
	case NUMBER_CAST: return rounded(a[0], e, 0);
	case NUMBER_FROM_SIGNED: /* a truth's one bit is its sign */
		return rounded(in->elem == ELEM_I1 ? negated(a[0]) : make(a[0].lo, a[0].hi, false), e, 0);
	case NUMBER_FROM_UNSIGNED: return a[0].lo >= 0 ? rounded(make(a[0].lo, a[0].hi, false), e, 0) : r;
	default: return r;
	}
}

/* ---- powers ---- */

/* The powers of two in a constant; NaN: the value is none, or 0. */
static double constant_shift(double constant)
{
	return isfinite(constant) && constant != 0 ? fabs(log2(fabs(constant))) : NAN;
}

static struct power power_of(
	const struct vm_program *p, const struct vm_instr *in, const struct power *powers, const double *constant)
{
	struct power own = {.base = dst_id(p, in, 0)}, x = powers[src_id(p, in, 0)];
	if (in->op != OP_MAP || in->result_elem != ELEM_F32 || in->elem != ELEM_F32) return own;
	/* A sign, a constant's factor, or a product of two powers of one base. */
	if (in->map_op == MAP_NEGF) {
		x.is_below = !x.is_below;
	} else if (in->map_op == MAP_ABSF) {
		x.is_even = true;
		x.is_below = false;
	} else if (in->map_op == MAP_MULF) {
		struct power y = powers[src_id(p, in, 1)];
		double first = constant[src_id(p, in, 0)], second = constant[src_id(p, in, 1)];
		if (!isnan(constant_shift(first))) {
			y.shift += constant_shift(first);
			y.is_below ^= first < 0;
			x = y;
		} else if (!isnan(constant_shift(second))) {
			x.shift += constant_shift(second);
			x.is_below ^= second < 0;
		} else {
			if (x.base != y.base) return own;
			x.shift += y.shift;
			x.is_even = x.is_even == y.is_even;
			x.is_below ^= y.is_below;
		}
	} else {
		return own;
	}
	return x.shift <= SHIFT_MAX ? x : own;
}

/* (nvalues), heap. Values of loops and of other shapes are bases of their own: another turn's
 * number, or another lane's, is another one. */
static struct power *powers_find(const struct vm_program *p)
{
	struct power *powers = xmalloc(((size_t)p->nvalues + 1) * sizeof *powers);
	double *constant = xmalloc(((size_t)p->nvalues + 1) * sizeof *constant);
	for (int i = 0; i < p->nvalues; i++) {
		powers[i] = (struct power){.base = i};
		constant[i] = NAN;
	}
	for (int i = 0; i < p->nconsts; i++) constant[p->consts[i].value] = vm_constant_of(p, p->consts[i].value);
	for (int i = 0; i < p->ninstrs; i++) {
		const struct vm_instr *in = &p->instrs[i];
		/* A number for all lanes is the same number in each. */
		if (in->op == OP_SPLAT) constant[dst_id(p, in, 0)] = constant[src_id(p, in, 0)];
		if (in->ndst == 1 && in->nsrc) powers[dst_id(p, in, 0)] = power_of(p, in, powers, constant);
	}
	free(constant);
	return powers;
}

/* ---- a program ---- */

/* A sum, product or extreme of all elements along an axis; others are not known. */
static struct range reduced(const struct vm_instr *in, struct range a)
{
	enum elem e = (enum elem)in->result_elem;
	int64_t n = in->extra ? ((const struct region_shape *)in->extra)->len : 0;
	if (in->op != OP_REDUCE || in->number != NUMBER_MAP || n < 1) return anything(e);
	switch (in->imm[1]) {
	case MAP_MAXIMUMF:
	case MAP_MINIMUMF:
	case MAP_MAXNUMF:
	case MAP_MINNUMF:
	case MAP_MAXSI:
	case MAP_MINSI: return a;
	case MAP_ADDF:
	case MAP_ADDI: {
		struct range all = make(times((double)n, a.lo), times((double)n, a.hi), a.nan);
		all.nan |= a.lo == -INFINITY && a.hi == INFINITY;
		return rounded(all, e, elem_is_float(e) ? (double)n * formats[e].step : 0);
	}
	default: return anything(e);
	}
}

/* What is known of memory: held by argument, and from which of these a pointer comes. */
struct memory {
	const struct vm_roots *roots;   // (nvalues)
	const struct vm_held *held;
};

/* What the one argument's memory holds that a pointer comes from, where launches alone wrote it;
 * NULL where it is not one, or not known. */
static const struct vm_held *held_behind(const struct memory *m, int pointer, enum elem e)
{
	if (!m) return NULL;
	const struct vm_roots *r = &m->roots[pointer];
	if (r->from_memory || __builtin_popcountll(r->args[0]) + __builtin_popcountll(r->args[1]) != 1) return NULL;
	const struct vm_held *h = &m->held[r->args[0] ? __builtin_ctzll(r->args[0]) : 64 + __builtin_ctzll(r->args[1])];
	return h->state == HELD_NUMBERS && h->elem == e ? h : NULL;
}

static struct range loaded(
	const struct vm_program *p, const struct vm_instr *in, const struct range *of, const struct memory *m)
{
	enum elem e = (enum elem)in->result_elem;
	const struct vm_held *h = held_behind(m, src_id(p, in, 0), e);
	if (!h && !elem_is_float(e)) return anything(e);
	/* Finite: no other inputs are judged, and a launch that writes what is not for another to read
	 * is looked at where it makes it (an end of a quotient, a large trial). */
	struct range r = make(-formats[e].largest, formats[e].largest, false);
	if (h) r = make(h->lo, h->hi, h->may_be_nan);
	/* What lanes get that read nothing: 0, where nobody says otherwise. */
	if (in->nsrc == 2) r = either(r, make(0, 0, false));
	for (int s = 1; s < in->nsrc; s++)
		if (p->values[src_id(p, in, s)].elem == e) r = either(r, of[src_id(p, in, s)]);
	return r;
}

/* The result of an instruction whose operands have ranges. */
static struct range result_range(const struct vm_program *p, const struct vm_instr *in, const struct range *of,
	const struct power *powers, const struct memory *m)
{
	struct range a[3] = {{0}};
	enum elem e = p->values[dst_id(p, in, 0)].elem;
	for (int s = 0; s < in->nsrc && s < 3; s++) a[s] = of[src_id(p, in, s)];
	switch (in->op) {
	case OP_MAP: return in->nsrc <= 3 ? map_range(p, in, a, powers) : anything(e);
	case OP_SELECT: return a[0].lo == a[0].hi ? a[a[0].lo == 0 ? 2 : 1] : either(a[1], a[2]);
	case OP_SPLAT:
	case OP_UNSPLAT:
	case OP_BROADCAST:
	case OP_RESHAPE:
	case OP_TRANS:
	case OP_SPLIT: return a[0];
	case OP_CAT:
	case OP_JOIN: return either(a[0], a[1]);
	case OP_REDUCE: return reduced(in, a[0]);
	case OP_LOAD: return loaded(p, in, of, m);
	case OP_DOT: {
		/* Overflow is the reference's too, whose terms these are. */
		bool is_positive = in->nsrc > 2 && a[0].lo >= 0 && a[1].lo >= 0 && a[2].lo >= 0;
		return make(is_positive ? 0 : -INFINITY, INFINITY, a[0].nan || a[1].nan || (in->nsrc > 2 && a[2].nan));
	}
	default: return anything(e);
	}
}

static bool widen(struct range *r, struct range by, bool has_patience)
{
	struct range next = either(*r, by);
	if (r->is && next.lo == r->lo && next.hi == r->hi && next.nan == r->nan) return false;
	if (r->is && !has_patience) {
		if (next.lo < r->lo) next.lo = -INFINITY;
		if (next.hi > r->hi) next.hi = INFINITY;
	}
	*r = next;
	return true;
}

static bool walk_step(const struct vm_program *p, const struct vm_instr *in, struct range *of,
	const struct power *powers, const struct memory *m, bool has_patience)
{
	bool changed = false;
	if (in->op == OP_MOVE) {
		for (int s = 0; s < in->nsrc; s++)
			if (of[src_id(p, in, s)].is) changed |= widen(&of[dst_id(p, in, s)], of[src_id(p, in, s)], has_patience);
		return changed;
	}
	for (int s = 0; s < in->nsrc; s++)
		if (!of[src_id(p, in, s)].is) return false; /* a later walk knows it */
	for (int d = 0; d < in->ndst; d++) {
		int id = dst_id(p, in, d);
		bool is_first = d == 0 || in->op == OP_SPLIT;
		struct range r = is_first ? result_range(p, in, of, powers, m) : anything(p->values[id].elem);
		changed |= widen(&of[id], r, has_patience);
	}
	return changed;
}

static void constants_put(const struct vm_program *p, struct range *of)
{
	for (int i = 0; i < p->nconsts; i++) {
		double x = vm_constant_of(p, p->consts[i].value);
		enum elem e = p->values[p->consts[i].value].elem;
		if (e == ELEM_I1) x = x != 0;
		of[p->consts[i].value] = isnan(x) ? anything(e) : make(x, x, false);
	}
}

/* (nvalues), heap. spans: of (nvalues), what arguments are known to be; NULL: anything. m: NULL:
 * nothing is known of memory. */
static struct range *ranges_find(const struct vm_program *p, const struct vm_span *spans, const struct memory *m)
{
	struct range *of = xcalloc((size_t)p->nvalues + 1, sizeof *of);
	bool *is_made = xcalloc((size_t)p->nvalues + 1, sizeof *is_made);
	for (int i = 0; i < p->ninstrs; i++)
		for (int d = 0; d < p->instrs[i].ndst; d++) is_made[dst_id(p, &p->instrs[i], d)] = true;
	for (int i = 0; i < p->nvalues; i++) {
		if (is_made[i]) continue;
		bool is_known = spans && spans[i].lo <= spans[i].hi;
		of[i] = is_known ? make(spans[i].lo, spans[i].hi, false) : anything(p->values[i].elem); /* arguments */
	}
	constants_put(p, of);
	struct power *powers = powers_find(p);
	bool changed = true;
	for (int walk = 0; changed; walk++) {
		changed = false;
		for (int i = 0; i < p->ninstrs; i++) changed |= walk_step(p, &p->instrs[i], of, powers, m, walk < PATIENCE);
	}
	free(powers);
	free(is_made);
	return of;
}

void vm_still_find(const struct vm_program *p, const struct vm_roots *roots, const struct vm_held *held, bool *still)
{
	struct range *of = ranges_find(p, NULL, held ? &(struct memory){roots, held} : NULL);
	for (int i = 0; i < p->nvalues; i++) still[i] = of[i].is && !of[i].nan && of[i].lo == of[i].hi;
	free(of);
}

void vm_spans_find(const struct vm_program *p, struct vm_span *spans)
{
	struct range *of = ranges_find(p, spans, NULL);
	for (int i = 0; i < p->nvalues; i++)
		spans[i] = of[i].is ? (struct vm_span){of[i].lo, of[i].hi} : (struct vm_span){-INFINITY, INFINITY};
	free(of);
}

/* ---- what launches leave in memory ---- */

bool vm_stored_find(const struct vm_program *p, const struct vm_roots *roots, struct vm_held *const *held, int nargs)
{
	struct vm_held *now = xcalloc((size_t)nargs + 1, sizeof *now);
	for (int i = 0; i < nargs; i++) now[i] = held[i] ? *held[i] : (struct vm_held){.state = HELD_ANYTHING};
	struct range *of = ranges_find(p, NULL, &(struct memory){roots, now});
	bool changed = false;
	for (int i = 0; i < p->ninstrs; i++) {
		const struct vm_instr *in = &p->instrs[i];
		if (in->op != OP_STORE && in->op != OP_ATOMIC_RMW && in->op != OP_ATOMIC_CAS) continue;
		struct vm_held by = {.state = HELD_ANYTHING};
		int value = in->op == OP_STORE ? src_id(p, in, 1) : 0;
		enum elem e = p->values[value].elem;
		/* A sum in memory, and what no walk came to, may be anything. */
		if (in->op == OP_STORE && of[value].is && (elem_is_float(e) || elem_is_int(e)))
			by = (struct vm_held){HELD_NUMBERS, e, of[value].lo, of[value].hi, of[value].nan, 0};
		changed |= vm_stored_join(&roots[src_id(p, in, 0)], held, nargs, by);
	}
	free(of);
	free(now);
	return changed;
}

/* ---- what has no result ---- */

/* What is known of a program's values. */
struct known {
	const struct vm_program *p;
	struct range *of;   // (nvalues)
	bool *is_nan;       // (nvalues): a constant that is no number
	int *maker;         // (nvalues): the one instruction that makes it, -1: none, or several
};

/* Constants that are no number, and blocks of them. */
static void nans_find(const struct known *k)
{
	const struct vm_program *p = k->p;
	for (int i = 0; i < p->nconsts; i++) {
		const struct vm_const *constant = &p->consts[i];
		enum elem e = p->values[constant->value].elem;
		float x = 0;
		double y = 0;
		if (constant->data || !elem_is_float(e)) continue;
		if (e == ELEM_F64) memcpy(&y, constant->bits, sizeof y);
		else map_widen(e, &x, constant->bits, 1);
		k->is_nan[constant->value] = isnan(x) || isnan(y);
	}
	for (int i = 0; i < p->ninstrs; i++) {
		const struct vm_instr *in = &p->instrs[i];
		bool is_same = in->op == OP_SPLAT || in->op == OP_BROADCAST || in->op == OP_RESHAPE;
		if (is_same) k->is_nan[dst_id(p, in, 0)] = k->is_nan[src_id(p, in, 0)];
	}
}

static void makers_find(const struct known *k)
{
	const struct vm_program *p = k->p;
	bool *is_made = xcalloc((size_t)p->nvalues + 1, sizeof *is_made);
	for (int i = 0; i < p->nvalues; i++) k->maker[i] = -1;
	for (int i = 0; i < p->ninstrs; i++)
		for (int d = 0; d < p->instrs[i].ndst; d++) {
			int id = dst_id(p, &p->instrs[i], d);
			k->maker[id] = is_made[id] ? -1 : i;
			is_made[id] = true;
		}
	free(is_made);
}

/* Bits of a whole number that are known: those of constants, through what joins bits. */
struct bits {
	uint64_t ones;
	uint64_t zeros;
};
#define BITS_DEPTH 6

static struct bits bits_of(const struct known *k, int value, int depth)
{
	double x = vm_constant_of(k->p, value);
	if (fabs(x) < 0x1p53) return (struct bits){(uint64_t)(int64_t)x, ~(uint64_t)(int64_t)x};
	if (k->maker[value] < 0 || !depth) return (struct bits){0};
	const struct vm_instr *in = &k->p->instrs[k->maker[value]];
	if (in->op == OP_SPLAT || in->op == OP_BROADCAST || in->op == OP_RESHAPE)
		return bits_of(k, src_id(k->p, in, 0), depth - 1);
	bool joins = in->map_op == MAP_ANDI || in->map_op == MAP_ORI || in->map_op == MAP_XORI;
	if (in->op != OP_MAP || !joins) return (struct bits){0};
	struct bits a = bits_of(k, src_id(k->p, in, 0), depth - 1), b = bits_of(k, src_id(k->p, in, 1), depth - 1);
	switch (in->map_op) {
	case MAP_ANDI: return (struct bits){a.ones & b.ones, a.zeros | b.zeros};
	case MAP_ORI: return (struct bits){a.ones | b.ones, a.zeros & b.zeros};
	default: return (struct bits){(a.ones & b.zeros) | (a.zeros & b.ones), (a.ones & b.ones) | (a.zeros & b.zeros)};
	}
}

/* A shift that is in no lane by less than the width. */
static bool is_beyond_width(const struct known *k, int amount, enum elem e)
{
	uint64_t width = 8 * elem_bytes(e), all = width == 64 ? UINT64_MAX : (1ull << width) - 1;
	struct range a = k->of[amount];
	if (!a.is) return false;
	return a.lo >= (double)width || a.hi < 0 || (bits_of(k, amount, BITS_DEPTH).ones & all & ~(width - 1));
}

/* A cast of floats of which none has a place in the type. */
static bool is_beyond_type(const struct known *k, int value, enum elem e, bool is_signed)
{
	double bits = 8 * (double)elem_bytes(e);
	double above = ldexp(1, (int)bits - is_signed), below = is_signed ? -above : 0;
	struct range a = k->of[value];
	return k->is_nan[value] || (a.is && !a.nan && (a.lo >= above || a.hi <= below - 1));
}

/* Whether an instruction's result is nobody's. Functions of reductions (n is 0) run over lanes that
 * are nobody's yet; a quotient by zero is a fault of its own. */
static bool is_undefined(const struct known *k, const struct vm_instr *in)
{
	enum elem e = (enum elem)in->result_elem;
	if (in->op != OP_MAP || !in->n || e == ELEM_I1) return false;
	if (in->number == NUMBER_TO_SIGNED || in->number == NUMBER_TO_UNSIGNED)
		return is_beyond_type(k, src_id(k->p, in, 0), e, in->number == NUMBER_TO_SIGNED);
	bool is_shift = in->map_op == MAP_SHLI || in->map_op == MAP_SHRSI || in->map_op == MAP_SHRUI;
	return is_shift && is_beyond_width(k, src_id(k->p, in, 1), e);
}

void vm_undefined_find(const struct vm_program *p, bool *is_open)
{
	size_t n = (size_t)p->nvalues + 1;
	struct known k = {p, ranges_find(p, NULL, NULL), xcalloc(n, sizeof(bool)), xcalloc(n, sizeof(int))};
	nans_find(&k);
	makers_find(&k);
	for (int i = 0; i < p->ninstrs; i++) is_open[i] = is_undefined(&k, &p->instrs[i]);
	free(k.maker);
	free(k.is_nan);
	free(k.of);
}
