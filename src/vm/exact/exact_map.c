/* Element-wise instructions, and dot. */
#include "vm/exact/exact.h"
#include "base/base.h"
#include "field/field.h"
#include "ttir/ttir.h"
#include "vm/core/program.h"
#include "vm/core/state.h"
#include "vm/map/map.h"

/* Maps that are one operation of the field room; FIELD_OP_COUNT: others, or none. */
static const uint8_t field_ops[MAP_COUNT] = {
	[MAP_ADDF] = FIELD_ADD + 1,
	[MAP_SUBF] = FIELD_SUB + 1,
	[MAP_MULF] = FIELD_MUL + 1,
	[MAP_DIVF] = FIELD_DIV + 1,
	[MAP_PRECISE_DIVF] = FIELD_DIV + 1,
	[MAP_REMF] = FIELD_MOD_TRUNC + 1,
	[MAP_MAXIMUMF] = FIELD_MAX + 1,
	[MAP_MINIMUMF] = FIELD_MIN + 1,
	[MAP_MAXNUMF] = FIELD_MAX + 1,
	[MAP_MINNUMF] = FIELD_MIN + 1,
	[MAP_COPYSIGN] = FIELD_COPYSIGN + 1,
	[MAP_NEGF] = FIELD_NEG + 1,
	[MAP_ABSF] = FIELD_ABS + 1,
	[MAP_CEIL] = FIELD_CEIL + 1,
	[MAP_FLOOR] = FIELD_FLOOR + 1,
	[MAP_ROUND] = FIELD_ROUND + 1,
	[MAP_ROUNDEVEN] = FIELD_ROUND_EVEN + 1,
	[MAP_TRUNC] = FIELD_TRUNC + 1,
	[MAP_SQRT] = FIELD_SQRT + 1,
	[MAP_PRECISE_SQRT] = FIELD_SQRT + 1,
	[MAP_RSQRT] = FIELD_RSQRT + 1,
	[MAP_SATURATE] = FIELD_SATURATE + 1,
	[MAP_EXP] = FIELD_EXP_E + 1,
	[MAP_EXP2] = FIELD_EXP2 + 1,
	[MAP_EXP10] = FIELD_EXP10 + 1,
	[MAP_EXPM1] = FIELD_EXPM1 + 1,
	[MAP_LOG] = FIELD_LOG_E + 1,
	[MAP_LOG2] = FIELD_LOG2 + 1,
	[MAP_LOG10] = FIELD_LOG10 + 1,
	[MAP_LOG1P] = FIELD_LOG1P + 1,
	[MAP_SIN] = FIELD_SIN + 1,
	[MAP_COS] = FIELD_COS + 1,
	[MAP_TAN] = FIELD_TAN + 1,
	[MAP_SINH] = FIELD_SINH + 1,
	[MAP_COSH] = FIELD_COSH + 1,
	[MAP_TANH] = FIELD_TANH + 1,
	[MAP_ASIN] = FIELD_ASIN + 1,
	[MAP_ACOS] = FIELD_ACOS + 1,
	[MAP_ATAN] = FIELD_ATAN + 1,
	[MAP_ASINH] = FIELD_ASINH + 1,
	[MAP_ACOSH] = FIELD_ACOSH + 1,
	[MAP_ATANH] = FIELD_ATANH + 1,
	[MAP_ERF] = FIELD_ERF + 1,
	[MAP_ERFC] = FIELD_ERFC + 1,
	[MAP_NORMCDF] = FIELD_NORMCDF + 1,
	[MAP_CBRT] = FIELD_CBRT + 1,
	[MAP_LGAMMA] = FIELD_LGAMMA + 1,
	[MAP_RCP] = FIELD_RECIPROCAL + 1,
	[MAP_POWF] = FIELD_POW + 1,
	[MAP_ATAN2] = FIELD_ATAN2 + 1,
	[MAP_HYPOT] = FIELD_HYPOT + 1,
	[MAP_FDIM] = FIELD_FDIM + 1,
};

static int undecided(struct exact *e, const struct vm_instr *in, const char *what)
{
	return exact_stop(e, in, VM_EXACT_UNDECIDED, "%s is not decided by the real values", what);
}

/* Maximum or minimum; those named num leave a NaN out. */
static int extreme(struct exact *e, const struct vm_instr *in, int op, const struct field_value *a,
	const struct field_value *b, struct field_value *out)
{
	bool ignores_nan = op == MAP_MAXNUMF || op == MAP_MINNUMF, is_max = op == MAP_MAXNUMF || op == MAP_MAXIMUMF;
	if (ignores_nan && (field_is_nan(a) || field_is_nan(b))) {
		*out = field_is_nan(a) ? *b : *a;
		return 0;
	}
	enum field_order order = field_compare(a, b);
	if (field_apply(e->f, is_max ? FIELD_MAX : FIELD_MIN, a, b, out))
		return undecided(e, in, is_max ? "a maximum" : "a minimum");
	exact_note_side(e, in, a, b, order);
	return 0;
}

int exact_apply(struct exact *e, const struct vm_instr *in, int map_op, const struct field_value *const x[3],
	struct field_value *out)
{
	struct field_value t;
	switch (map_op) {
	/* Arithmetic of a field. A fused product and sum is both: nothing rounds here. */
	case MAP_ADDF: *out = field_add(e->f, *x[0], *x[1]); return 0;
	case MAP_SUBF: *out = field_sub(e->f, *x[0], *x[1]); return 0;
	case MAP_MULF: *out = field_mul(e->f, *x[0], *x[1]); return 0;
	case MAP_FMA: *out = field_add(e->f, field_mul(e->f, *x[0], *x[1]), *x[2]); return 0;
	/* Which of two is larger is read from the intervals; the four differ in
	 * what they do with NaN. */
	case MAP_MAXIMUMF:
	case MAP_MINIMUMF:
	case MAP_MAXNUMF:
	case MAP_MINNUMF: return extreme(e, in, map_op, x[0], x[1], out);
	case MAP_CLAMPF:
	case MAP_CLAMPF_NAN: /* min(max(x, low), high) */
		if (map_op == MAP_CLAMPF_NAN && field_is_nan(x[0])) {
			*out = *x[0];
			return 0;
		}
		return extreme(e, in, MAP_MAXNUMF, x[0], x[1], &t) || extreme(e, in, MAP_MINNUMF, &t, x[2], out);
	default: break;
	}
	/* Everything else is a row of field_ops, or is not known as a real function. */
	if (map_op < 0 || map_op >= MAP_COUNT || !field_ops[map_op])
		return exact_stop(e, in, VM_EXACT_OUTSIDE, "the operation '%s'",
			map_op >= 0 && map_op < MAP_COUNT ? map_rows[map_op].name : "of this map");
	enum field_op op = (enum field_op)(field_ops[map_op] - 1);
	if (field_apply(e->f, op, x[0], x[1], out)) return undecided(e, in, field_op_name(op));
	return 0;
}

/* ---- comparisons, classes and casts ---- */

static int compare(
	struct exact *e, const struct vm_instr *in, const struct field_value *a, const struct field_value *b, int64_t *out)
{
	enum field_order order = field_compare(a, b);
	if (order == FIELD_UNDECIDED) return undecided(e, in, "a comparison");
	exact_note_side(e, in, a, b, order);
	static const int bits[] = {MAP_LESS, MAP_EQUAL, MAP_GREATER, MAP_UNORDERED};
	*out = (in->imm[2] & bits[order]) != 0;
	return 0;
}

static int classify(struct exact *e, const struct vm_instr *in, const struct field_value *a, int64_t *out)
{
	bool is_odd = field_is_nan(a) || field_is_infinite(a);
	switch (in->imm[2]) {
	case MAP_ISNAN: *out = field_is_nan(a); return 0;
	case MAP_ISINF: *out = field_is_infinite(a); return 0;
	case MAP_ISFINITE: *out = !is_odd; return 0;
	case MAP_ISNORMAL: *out = !is_odd && !field_is_zero(a); return 0;
	default: break;
	}
	if (a->lo < 0 && a->hi >= 0) return undecided(e, in, "a sign");
	*out = a->hi < 0;
	return 0;
}

/* A float as an integer, toward zero. */
static int to_integer(struct exact *e, const struct vm_instr *in, const struct field_value *a, int64_t *out)
{
	double lo = trunc(a->lo), hi = trunc(a->hi);
	if (field_is_nan(a) || field_is_infinite(a) || fabs(lo) >= 0x1p63)
		return exact_stop(e, in, VM_EXACT_OUTSIDE, "a float as an integer that cannot hold it");
	if (lo != hi) return undecided(e, in, "a rounding to an integer");
	*out = (int64_t)lo;
	return 0;
}

/* One element with an integer result. */
static int integer_result(
	struct exact *e, const struct vm_instr *in, const struct field_value *const x[3], int64_t *out)
{
	if (in->number == NUMBER_COMPARE) return compare(e, in, x[0], x[1], out);
	if (in->number == NUMBER_CLASS) return classify(e, in, x[0], out);
	if (in->number == NUMBER_TO_SIGNED || in->number == NUMBER_TO_UNSIGNED) return to_integer(e, in, x[0], out);
	return exact_stop(e, in, VM_EXACT_OUTSIDE, "a map from floats to integers");
}

static int map_to_integers(struct exact *e, const struct vm_instr *in, int64_t n, struct exact_block *const *src)
{
	struct vm_ctx *c = &e->c;
	size_t size = elem_bytes((enum elem)in->result_elem);
	uint8_t one[8] = {0}, *d = n == 1 ? one : vm_result(c, in, 0, n);
	if (!d) return 1;
	for (int64_t i = 0; i < n; i++) {
		const struct field_value *x[3] = {NULL};
		int64_t value = 0;
		for (int s = 0; s < in->nsrc; s++) x[s] = exact_at(src[s], i);
		if (integer_result(e, in, x, &value)) return 1;
		memcpy(d + (size_t)i * size, &value, size);
	}
	if (n == 1) vm_result_splat(c, in, 0, one);
	return 0;
}

static int from_integers(struct exact *e, const struct vm_instr *in, int64_t n)
{
	struct exact_ints x;
	if (!exact_ints_of(e, in, vm_src(&e->c, in, 0), n, &x)) return 1;
	if (!x.step) n = 1;
	bool is_signed = in->number == NUMBER_FROM_SIGNED;
	if (x.elem == ELEM_PTR || (in->number != NUMBER_FROM_SIGNED && in->number != NUMBER_FROM_UNSIGNED))
		return exact_stop(e, in, VM_EXACT_OUTSIDE, "a map from integers to floats");
	struct exact_block *b = exact_block_new(e, in, n);
	if (!b) return 1;
	for (int64_t i = 0; i < n; i++) {
		int64_t v = exact_int_at(&x, i, is_signed);
		bool is_large = !is_signed && x.elem == ELEM_I64 && v < 0; /* beyond 2^63 */
		b->v[i] = field_integer(e->f, is_large ? (int64_t)((uint64_t)v >> 1) : v);
		if (is_large) b->v[i] = field_add(e->f, field_add(e->f, b->v[i], b->v[i]), field_integer(e->f, v & 1));
	}
	exact_set(e, vm_dst(&e->c, in, 0), b);
	return 0;
}

/* ---- instructions ---- */

static int map_floats(struct exact *e, const struct vm_instr *in, int64_t n, struct exact_block *const *src)
{
	struct exact_block *b = exact_block_new(e, in, n);
	int op = in->number == NUMBER_MAP ? in->imm[1] : in->map_op;
	if (!b) return 1;
	for (int64_t i = 0; i < n; i++) {
		const struct field_value *x[3] = {NULL};
		for (int s = 0; s < in->nsrc; s++) x[s] = exact_at(src[s], i);
		if (in->number == NUMBER_CAST) b->v[i] = *x[0];
		else if (exact_apply(e, in, op, x, &b->v[i])) {
			exact_block_put(e, b);
			return 1;
		}
	}
	exact_set(e, vm_dst(&e->c, in, 0), b);
	return 0;
}

int exact_map(struct exact *e, const struct vm_instr *in)
{
	struct exact_block *src[3] = {NULL};
	int64_t n = in->n ? in->n : e->c.lanes;
	int rc;
	if (!exact_is_float(e, vm_src(&e->c, in, 0))) {
		rc = from_integers(e, in, n);
	} else {
		/* one element where all operands are one */
		bool all_splat = true;
		for (int s = 0; s < in->nsrc; s++) {
			src[s] = exact_source(e, in, s);
			if (!src[s]) return exact_stop(e, in, VM_EXACT_OUTSIDE, "a float that has no value");
			all_splat &= src[s]->n == 1;
		}
		if (all_splat) n = 1;
		rc = exact_is_float(e, vm_dst(&e->c, in, 0)) ? map_floats(e, in, n, src) : map_to_integers(e, in, n, src);
	}
	if (!rc) exact_kill(e, in);
	return rc;
}

int exact_select(struct exact *e, const struct vm_instr *in)
{
	int64_t n = in->n ? in->n : e->c.lanes;
	struct exact_ints mask;
	struct exact_block *x = exact_source(e, in, 1), *y = exact_source(e, in, 2), *b;
	if (!exact_ints_of(e, in, vm_src(&e->c, in, 0), n, &mask)) return 1;
	if (!mask.step) {
		b = exact_int_at(&mask, 0, false) ? x : y;
		b->refs++;
	} else {
		b = exact_block_new(e, in, n);
		for (int64_t i = 0; b && i < n; i++) b->v[i] = *exact_at(exact_int_at(&mask, i, false) ? x : y, i);
	}
	if (!b) return 1;
	exact_set(e, vm_dst(&e->c, in, 0), b);
	exact_kill(e, in);
	return 0;
}

/* Bits of data have no reading; those of integers are a constant. */
int exact_bitcast(struct exact *e, const struct vm_instr *in)
{
	int from = vm_src(&e->c, in, 0), to = vm_dst(&e->c, in, 0);
	int64_t n = in->n ? in->n : e->c.lanes;
	enum elem elem = e->c.program->values[to].elem;
	struct exact_ints x;
	if (exact_is_float(e, from) || !exact_is_float(e, to))
		return exact_stop(e, in, VM_EXACT_OUTSIDE, "a bitcast of floats");
	if (!exact_ints_of(e, in, from, n, &x)) return 1;
	if (!x.step) n = 1;
	struct exact_block *b = exact_block_new(e, in, n);
	if (!b) return 1;
	for (int64_t i = 0; i < n; i++) b->v[i] = exact_constant(e, elem, x.data + i * x.step);
	exact_set(e, to, b);
	exact_kill(e, in);
	return 0;
}

/* ---- dot ---- */

/* d = c + a b; tf32 and its like are no rounding here. */
int exact_dot(struct exact *e, const struct vm_instr *in)
{
	int64_t batch = in->imm[0], m = in->imm[1], n = in->imm[2], k = in->imm[3];
	const struct exact_block *a = exact_source(e, in, 0), *b = exact_source(e, in, 1), *c = exact_source(e, in, 2);
	if (!a || !b || !c) return exact_stop(e, in, VM_EXACT_OUTSIDE, "tt.dot of integers to floats");
	struct exact_block *d = exact_block_new(e, in, batch * m * n);
	if (!d) return 1;
	e->c.fuel -= batch * m * n * k / 2;
	for (int64_t o = 0; o < batch; o++)
		for (int64_t i = 0; i < m; i++)
			for (int64_t j = 0; j < n; j++) {
				struct field_value sum = *exact_at(c, (o * m + i) * n + j);
				for (int64_t l = 0; l < k; l++)
					sum = field_add(e->f, sum,
						field_mul(e->f, *exact_at(a, (o * m + i) * k + l), *exact_at(b, (o * k + l) * n + j)));
				d->v[(o * m + i) * n + j] = sum;
			}
	exact_set(e, vm_dst(&e->c, in, 0), d);
	exact_kill(e, in);
	return 0;
}

int exact_scale(struct exact *e, const struct vm_instr *in)
{
	return exact_stop(e, in, VM_EXACT_OUTSIDE, "tt.dot_scaled");
}
