/* Reductions that give another value in another order.
 *
 * Triton asks of a reduction's function that it commutes and associates, and a GPU relies on it.
 * Nobody can read that off a region; but a region that is evaluated in two orders (exec_region.c)
 * shows it. Integers must be equal bit for bit.
 *
 * Floats are rounded on the way, and how far that carries depends on the function: a sum of both
 * signs loses more digits than it has left. What is compared with is therefore the size of
 * everything that went in, the root of the sum of squares over the axis and over all float operands
 * (a variance is off by what its means are off), and a difference counts only when it reaches the
 * upper half of the digits: 2^-12 of that size for f32. Rounding errors are 2^-24 each and grow
 * with the root of their number; a function that prefers one side, forgets one or weighs by place
 * is off by far more. What overflowed on the way, and an axis with a NaN (all comparisons with it
 * are false), say nothing. */
#include "vm/check/check.h"
#include "base/base.h"
#include "ttir/ttir.h"
#include "vm/core/program.h"
#include "vm/core/state.h"
#include "vm/map/map.h"
#include <math.h>

static double number_at(enum elem e, const uint8_t *p, int64_t i)
{
	float f;
	if (e == ELEM_F64) return ((const double *)(const void *)p)[i];
	if (e == ELEM_F32) return ((const float *)(const void *)p)[i];
	map_widen(e, &f, p + (size_t)i * elem_bytes(e), 1);
	return f;
}

static int digits_of(enum elem e)
{
	switch (e) {
	case ELEM_F64: return 53;
	case ELEM_F32: return 24;
	case ELEM_F16: return 11;
	case ELEM_BF16: return 8;
	case ELEM_F8E4M3: return 4;
	case ELEM_F8E5M2: return 3;
	default: return 64;
	}
}

/* Half of the digits of the coarsest float among operands and what the region computes. */
static double tolerance_of(const struct vm_ctx *c, const struct vm_instr *in)
{
	const struct vm_program *p = c->program;
	int digits = 64;
	for (int i = 0; i < in->nsrc; i++) digits = MIN(digits, digits_of(p->values[vm_src(c, in, i)].elem));
	for (const struct vm_instr *r = in + 1; r < p->instrs + in->target; r++)
		for (int d = 0; d < r->ndst; d++) digits = MIN(digits, digits_of(p->values[vm_dst(c, r, d)].elem));
	return exp2(-0.5 * digits);
}

/* All float operands over the axis of one lane: the root of the sum of squares; NaN where one is
 * NaN, infinite where one is. */
static double size_of_axis(struct vm_ctx *c, const struct vm_instr *in, int64_t lane)
{
	const struct region_shape *s = in->extra;
	double size = 0;
	bool has_nan = false;
	for (int i = 0; i < in->nsrc; i++) {
		enum elem e = c->program->values[vm_src(c, in, i)].elem;
		const uint8_t *data = c->values[vm_src(c, in, i)].buf->data; /* dense: both orders were made from it */
		for (int64_t j = 0; elem_is_float(e) && j < s->len; j++) {
			double x = number_at(e, data, (lane / s->inner * s->len + j) * s->inner + lane % s->inner);
			has_nan |= isnan(x);
			size = hypot(size, x);
		}
	}
	return has_nan ? NAN : size;
}

static bool differs(enum elem e, const uint8_t *a, const uint8_t *b, int64_t lane, double size, double tolerance)
{
	if (isnan(size)) return false;
	if (!elem_is_float(e)) return true;
	double x = number_at(e, a, lane), y = number_at(e, b, lane);
	if (isnan(x) && isnan(y)) return false;
	if (!isfinite(x) || !isfinite(y)) return isinf(size) && x != y;
	return fabs(x - y) > tolerance * hypot(isinf(size) ? 0 : size, hypot(x, y));
}

void vm_reduce_compare(struct vm_ctx *c, const struct vm_instr *in, struct vm_buf *const *a, struct vm_buf *const *b)
{
	const struct region_shape *s = in->extra;
	int64_t lanes = s->outer * s->inner;
	double tolerance = tolerance_of(c, in);
	for (int i = 0; i < in->nsrc; i++) {
		enum elem e = c->program->values[vm_src(c, in, i)].elem;
		size_t size = elem_bytes(e);
		for (int64_t lane = 0; lane < lanes; lane++) {
			const uint8_t *x = a[i]->data, *y = b[i]->data;
			if (!memcmp(x + (size_t)lane * size, y + (size_t)lane * size, size)) continue;
			if (differs(e, x, y, lane, size_of_axis(c, in, lane), tolerance))
				vm_taint_mark(c, in, i, lane, lanes, TAINT_ORDER);
		}
	}
}
