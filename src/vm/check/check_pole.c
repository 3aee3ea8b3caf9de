/* Poles: operations on data that give no finite number at some value of a finite operand: a divisor
 * that is 0, the logarithm of 0, the root of what is below it, an exponential that overflows, a
 * cast to a whole number beyond its type. No comparison marks them, and ordinary inputs come
 * near one and never to it: 0 / (x - c) is 0 but where x is c. So each is a site of its own,
 * that aims try to reach exactly.
 *
 * Most operations of honest kernels have none. By the intervals of check_range.c a divisor is none
 * whose interval ends above 0 (1 + exp(x), a square plus an epsilon). And what is put together of
 * exponentials and constants alone, without a difference, is above 0 as a real number: a softmax's
 * sum, in a loop too. It vanishes where all its exponentials do, and those have ends that are
 * searched for. An exponential's own pole is left where it overflowed in some trial (a sigmoid's)
 * or never comes nearer (a softmax's, whose operand is 0 at most). */
#include "vm/check/check.h"
#include "base/base.h"
#include "ttir/ttir.h"
#include "vm/core/program.h"
#include "vm/map/map.h"
#include "vm/vm.h"
#include <float.h>
#include <math.h>
#include <stdlib.h>

#define NEXT_BELOW_ZERO (-0x1p-1074) /* roots and powers: 0 itself is none */
#define NEXT_ABOVE_ONE (1 + 0x1p-52)
#define GAIN_POLE 64    /* powers of two that constants have multiplied data by, from which on products are looked at */
#define GAIN_MAX 1024.0 /* more is as much */

/* Where an operation's operand meets its pole. */
static const struct {
	int16_t op;
	uint8_t operand;
	bool by_size;   /* its magnitude is what counts */
	int8_t way;     /* -1: at `at` and below, 1: at it and above */
	bool is_beside; /* the operation has an end, which is looked at in all trials */
	double at;
	double at_f64; /* the same of an operand that is an f64 */
} POLES[] = {
	{MAP_DIVF, 1, true, -1, false, 0, 0},
	{MAP_PRECISE_DIVF, 1, true, -1, false, 0, 0},
	{MAP_RCP, 0, true, -1, false, 0, 0},
	{MAP_REMF, 1, true, -1, false, 0, 0},
	{MAP_REMAINDER, 1, true, -1, false, 0, 0},
	{MAP_DIVSI, 1, true, -1, false, 0, 0},
	{MAP_DIVUI, 1, true, -1, false, 0, 0},
	{MAP_REMSI, 1, true, -1, false, 0, 0},
	{MAP_REMUI, 1, true, -1, false, 0, 0},
	{MAP_CEILDIVSI, 1, true, -1, false, 0, 0},
	{MAP_CEILDIVUI, 1, true, -1, false, 0, 0},
	{MAP_FLOORDIVSI, 1, true, -1, false, 0, 0},
	{MAP_LOG, 0, false, -1, false, 0, 0},
	{MAP_LOG2, 0, false, -1, false, 0, 0},
	{MAP_LOG10, 0, false, -1, false, 0, 0},
	{MAP_LOG1P, 0, false, -1, false, -1, -1},
	{MAP_LOGB, 0, true, -1, false, 0, 0},
	{MAP_SQRT, 0, false, -1, false, NEXT_BELOW_ZERO, NEXT_BELOW_ZERO},
	{MAP_PRECISE_SQRT, 0, false, -1, false, NEXT_BELOW_ZERO, NEXT_BELOW_ZERO},
	{MAP_RSQRT, 0, false, -1, false, 0, 0},
	{MAP_RCBRT, 0, true, -1, false, 0, 0},
	{MAP_ASIN, 0, true, 1, false, NEXT_ABOVE_ONE, NEXT_ABOVE_ONE},
	{MAP_ACOS, 0, true, 1, false, NEXT_ABOVE_ONE, NEXT_ABOVE_ONE},
	{MAP_ATANH, 0, true, 1, false, 1, 1},
	{MAP_ACOSH, 0, false, -1, false, 1 - 0x1p-53, 1 - 0x1p-53},
	{MAP_ERFINV, 0, true, 1, false, 1, 1},
	{MAP_LGAMMA, 0, true, -1, false, 0, 0},
	{MAP_TGAMMA, 0, true, -1, false, 0, 0},
	{MAP_Y0, 0, false, -1, false, 0, 0},
	{MAP_Y1, 0, false, -1, false, 0, 0},
	{MAP_POWF, 0, true, -1, false, 0, 0},
	{MAP_POWF, 0, false, -1, false, NEXT_BELOW_ZERO, NEXT_BELOW_ZERO},
	{MAP_EXP, 0, false, 1, true, 88.73, 709.79},
	{MAP_EXP2, 0, false, 1, true, 128, 1024},
	{MAP_EXP10, 0, false, 1, true, 38.54, 308.26},
	{MAP_EXPM1, 0, false, 1, true, 88.73, 709.79},
};

/* ---- which operations have one ---- */

/* Of a power: 0 is none where the exponent cannot be below 0, nor what is below 0 where it is a
 * whole number. */
static bool is_harmless_power(double exponent, double at)
{
	return isfinite(exponent) && (at == 0 ? exponent >= 0 : exponent == rint(exponent));
}

static int map_op_of(const struct vm_instr *in) { return in->number == NUMBER_MAP ? in->imm[1] : in->map_op; }

static bool is_loose(const struct vm_instr *in)
{
	return in->op == OP_SPLAT || in->op == OP_UNSPLAT || in->op == OP_BROADCAST || in->op == OP_RESHAPE ||
		in->op == OP_TRANS || in->op == OP_SPLIT;
}

/* Each value's constant, behind changes of shape; NaN: it has none. (nvalues), heap. */
static double *constants_find(const struct vm_program *p)
{
	double *out = xmalloc(((size_t)p->nvalues + 1) * sizeof *out);
	for (int i = 0; i < p->nvalues; i++) out[i] = NAN;
	for (int i = 0; i < p->nconsts; i++) out[p->consts[i].value] = vm_constant_of(p, p->consts[i].value);
	for (int i = 0; i < p->ninstrs; i++)
		if (is_loose(&p->instrs[i])) out[dst_id(p, &p->instrs[i], 0)] = out[src_id(p, &p->instrs[i], 0)];
	return out;
}

/* By how many powers of two a value is larger than the data that it was made of, by its constants:
 * (x - c) * 1e30 * 1e30 is infinite but where x is c. */
static double gain_of(const struct vm_program *p, const struct vm_instr *in, const double *gain, const double *constant)
{
	double most = 0, all = 0;
	for (int s = 0; s < in->nsrc; s++) {
		double k = constant[src_id(p, in, s)], own = gain[src_id(p, in, s)];
		if (!isnan(k)) own = k != 0 && isfinite(k) ? log2(fabs(k)) : 0;
		if (isnan(k)) most = MAX(most, own);
		all += s == 1 && (in->map_op == MAP_DIVF || in->map_op == MAP_PRECISE_DIVF) ? -own : own;
	}
	bool is_product = in->op == OP_MAP &&
		(in->map_op == MAP_MULF || in->map_op == MAP_DIVF || in->map_op == MAP_PRECISE_DIVF);
	return MIN(MAX(is_product ? all : most, 0), GAIN_MAX);
}

static struct vm_site *pole_add(struct vm_coverage *c, const struct vm_program *p, int i)
{
	int at = c->at[i];
	struct vm_site *s = vm_site_add(c, p, i, SITE_POLE, 0);
	/* Nothing is recorded of it beside what the instruction's own site records. */
	c->at[i] = at;
	s->instr = i;
	c->npoles++;
	return s;
}

static void poles_of(
	struct vm_coverage *c, const struct vm_program *p, int i, const bool *is_data, const double *constant)
{
	const struct vm_instr *in = &p->instrs[i];
	int map_op = map_op_of(in);
	for (size_t k = 0; k < ARRAY_LEN(POLES); k++) {
		if (POLES[k].op != map_op || !is_data[src_id(p, in, POLES[k].operand)]) continue;
		if (map_op == MAP_POWF && is_harmless_power(constant[src_id(p, in, 1)], POLES[k].at)) continue;
		/* An end that no trial can leave, as of an operand that is infinite, has no site. */
		bool has_end = c->at[i] >= 0 && c->sites[c->at[i]].kind == SITE_END;
		if (POLES[k].is_beside && !has_end) continue;
		int end = c->at[i];
		struct vm_site *s = pole_add(c, p, i);
		s->operand = POLES[k].operand;
		s->by_size = POLES[k].by_size;
		s->way = POLES[k].way;
		s->constant = in->elem == ELEM_F64 ? POLES[k].at_f64 : POLES[k].at;
		if (POLES[k].is_beside) c->sites[end].pole = c->nsites - 1;
	}
}

/* A cast to a whole number has none beyond the type: a floor by way of a cast is right up to there.
 * Compiled code gives the type's largest there, which is next to right at first. */
#define BEYOND 2 /* bits */

static void cast_of(struct vm_coverage *c, const struct vm_program *p, int i, const bool *is_data)
{
	const struct vm_instr *in = &p->instrs[i];
	int bits = 8 * (int)elem_bytes((enum elem)in->result_elem);
	bool is_cast = in->op == OP_MAP && in->nsrc == 1 && elem_is_float((enum elem)in->elem) &&
		elem_is_int((enum elem)in->result_elem) && in->result_elem != ELEM_I1;
	if (!is_cast || !is_data[src_id(p, in, 0)]) return;
	for (int way = -1; way <= 1; way += 2) {
		struct vm_site *s = pole_add(c, p, i);
		s->what = "a cast to a whole number";
		s->way = (int8_t)way;
		s->constant = ldexp(way, bits - 1 + BEYOND);
	}
}

void vm_poles_find(struct vm_coverage *c, const struct vm_program *p, const bool *is_data)
{
	double *constant = constants_find(p), *gain = xcalloc((size_t)p->nvalues + 1, sizeof *gain);
	for (int i = 0; i < p->ninstrs; i++) {
		const struct vm_instr *in = &p->instrs[i];
		if ((in->op != OP_MAP && in->op != OP_DIVIDE && !is_loose(in)) || !in->n || !is_data[dst_id(p, in, 0)])
			continue;
		poles_of(c, p, i, is_data, constant);
		cast_of(c, p, i, is_data);
		int to = dst_id(p, in, 0);
		gain[to] = gain_of(p, in, gain, constant);
		bool grows = in->map_op == MAP_MULF && in->result_elem == ELEM_F32 && gain[to] >= GAIN_POLE;
		for (int s = 0; s < in->nsrc; s++) grows &= gain[src_id(p, in, s)] < gain[to];
		if (grows) pole_add(c, p, i)->operand = VM_POLE_PRODUCT;
	}
	if (c->npoles) {
		c->spans = xmalloc(((size_t)p->nvalues + 1) * sizeof *c->spans);
		for (int i = 0; i < p->nvalues; i++) c->spans[i] = (struct vm_span){INFINITY, -INFINITY};
	}
	c->is_settled = !c->npoles;
	free(constant);
	free(gain);
}

/* ---- which of them some input may meet ---- */

void vm_coverage_args(struct vm_coverage *c, const struct vm_kernel *k, const struct vm_arg *args, int nargs)
{
	for (int i = 0; c->npoles && i < nargs && i < k->nargs; i++) {
		int value = k->arg_values[i];
		enum elem e = c->program->values[value].elem;
		struct vm_span *s = &c->spans[value];
		double x = elem_is_float(e) ? args[i].f : (double)args[i].i;
		if ((!elem_is_float(e) && !elem_is_int(e)) || vm_arg_is_pointer(k, i) || !isfinite(x)) continue;
		/* As the type rounds it, either way. */
		double wide = elem_is_float(e) ? fabs(x) * 0x1p-7 : 0;
		if (x - wide >= s->lo && x + wide <= s->hi) continue;
		s->lo = MIN(s->lo, x - wide);
		s->hi = MAX(s->hi, x + wide);
		c->is_settled = false;
	}
}

/* Whether result d of an instruction is above 0 as a real number, or a constant 0, if all that is
 * marked is. */
static bool is_sum_of_exponentials(const struct vm_program *p, const struct vm_instr *in, int d, const bool *is)
{
	bool all = true;
	int first = 0;
	if (in->op == OP_MOVE) return is[src_id(p, in, d)];
	/* Which operands a result is made of. What memory gives is anything. */
	switch (in->op) {
	case OP_MAP:
	case OP_REDUCE: break;
	case OP_SELECT: first = 1; break;
	case OP_SPLAT:
	case OP_UNSPLAT:
	case OP_BROADCAST:
	case OP_RESHAPE:
	case OP_TRANS:
	case OP_SPLIT:
	case OP_JOIN:
	case OP_CAT:
	case OP_DOT: break;
	default: return false;
	}
	for (int s = first; s < in->nsrc; s++) all &= is[src_id(p, in, s)];
	if (in->op == OP_REDUCE && in->number != NUMBER_MAP) return false;
	if (in->op != OP_MAP && in->op != OP_REDUCE) return all;
	/* Anything has an exponential, and these leave what is above 0 there. */
	switch (map_op_of(in)) {
	case MAP_EXP:
	case MAP_EXP2:
	case MAP_EXP10: return true;
	case MAP_ADDF:
	case MAP_MULF:
	case MAP_DIVF:
	case MAP_PRECISE_DIVF:
	case MAP_RCP:
	case MAP_FMA:
	case MAP_SQRT:
	case MAP_PRECISE_SQRT:
	case MAP_RSQRT:
	case MAP_ABSF:
	case MAP_MAXIMUMF:
	case MAP_MAXNUMF:
	case MAP_MINIMUMF:
	case MAP_MINNUMF: return all;
	default: return in->op == OP_MAP && in->number == NUMBER_CAST && all;
	}
}

/* The largest set of values that are so: all are at first, and those go that are not. (nvalues),
 * heap. */
static bool *exponentials_find(const struct vm_program *p, const struct vm_span *spans)
{
	bool *is = xcalloc((size_t)p->nvalues + 1, sizeof *is);
	for (int i = 0; i < p->nvalues; i++) is[i] = elem_is_float(p->values[i].elem) && spans[i].lo >= 0;
	for (int i = 0; i < p->ninstrs; i++)
		for (int d = 0; d < p->instrs[i].ndst; d++)
			is[dst_id(p, &p->instrs[i], d)] = elem_is_float(p->values[dst_id(p, &p->instrs[i], d)].elem);
	for (bool changed = true; changed;) {
		changed = false;
		for (int i = 0; i < p->ninstrs; i++)
			for (int d = 0; d < p->instrs[i].ndst; d++) {
				int to = dst_id(p, &p->instrs[i], d);
				if (!is[to] || is_sum_of_exponentials(p, &p->instrs[i], d, is)) continue;
				is[to] = false;
				changed = true;
			}
	}
	return is;
}

static bool may_be_met(const struct vm_site *s, struct vm_span r, bool is_sum)
{
	/* A product's is met by what is finite. */
	if (s->operand == VM_POLE_PRODUCT) return true;
	double size = MAX(fabs(r.lo), fabs(r.hi)), least = r.lo > 0 ? r.lo : r.hi < 0 ? -r.hi : 0;
	if (s->way > 0) return (s->by_size ? size : r.hi) >= s->constant;
	return (s->by_size ? least : r.lo) <= s->constant && !is_sum;
}

void vm_poles_settle(struct vm_coverage *c)
{
	const struct vm_program *p = c->program;
	struct vm_span *spans = xmalloc(((size_t)p->nvalues + 1) * sizeof *spans);
	memcpy(spans, c->spans, (size_t)p->nvalues * sizeof *spans);
	vm_spans_find(p, spans);
	bool *is_sum = exponentials_find(p, spans);
	for (int i = 0; i < c->nsites; i++) {
		struct vm_site *s = &c->sites[i];
		if (s->kind != SITE_POLE) continue;
		int value = src_id(p, &p->instrs[s->instr], s->operand == VM_POLE_PRODUCT ? 0 : s->operand);
		s->wanted = may_be_met(s, spans[value], is_sum[value]) ? SIDE_EQUAL : 0;
	}
	free(is_sum);
	free(spans);
	c->is_settled = true;
}

/* ---- how far they are ---- */

double vm_pole_far(const struct vm_site *pole, double a, double b)
{
	if (pole->operand == VM_POLE_PRODUCT) {
		double size = fabs(a * b);
		return isnan(size) ? NAN : size <= FLT_MAX ? 0 : log2(size) - FLT_MAX_EXP + 1;
	}
	double x = pole->by_size ? fabs(a) : a, d = pole->way < 0 ? x - pole->constant : pole->constant - x;
	return isnan(d) ? NAN : MAX(d, 0);
}

void vm_pole_look(struct vm_coverage *c, const struct vm_site *end)
{
	struct vm_site *s = &c->sites[end->pole];
	double far = vm_pole_far(s, s->way < 0 ? end->least : end->most, 1);
	if (isnan(far) || isinf(far)) return;
	s->nearest = far;
	if (far == 0) s->taken |= SIDE_EQUAL;
}
