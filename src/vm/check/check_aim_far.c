/* check_aim_far: how far bits are from turning. */
#include "vm/check/check_aim.h"
#include "base/base.h"
#include "ttir/ttir.h"
#include "vm/core/program.h"
#include "vm/core/state.h"
#include "vm/map/map.h"
#include <math.h>
#include <stdlib.h>

#define LITTLE 1e-300     /* of a strict order, where the operands are equal */
#define WEIGHT 16.0

/* Of the orders `less`, `equal` and `greater` the nearest one that holds what is asked for. */
double aim_far_of_orders(double d, int orders)
{
	double in = INFINITY, out = INFINITY;
	const double to[3] = {d < 0 ? 0 : d + LITTLE, fabs(d), d > 0 ? 0 : LITTLE - d};
	if (isnan(d)) return INFINITY;
	for (int i = 0; i < 3; i++) {
		double *side = orders >> i & 1 ? &in : &out;
		*side = MIN(*side, to[i]);
	}
	return in == 0 ? -out : in;
}

/* A number that counts bits: one more of them is as near as the nearest of them is. */
static double far_of_count(double far, double d, int orders, double turn)
{
	bool needs_more = far > 0 && turn > 0 && ((d < 0 && orders & 6) || (d == 0 && orders == MAP_GREATER));
	return needs_more ? MAX(far, 1) - 1 + (isinf(turn) ? 1 : turn / (1 + turn)) : far;
}

static double far_and(double x, double y) { return x <= 0 && y <= 0 ? MAX(x, y) : MAX(x, 0) + MAX(y, 0); }
static double far_or(double x, double y) { return -far_and(-x, -y); }

/* The two operands of a comparison: their difference, an order's distance, and how bits differ. */
bool aim_compare_far(struct vm_ctx *c, const struct vm_instr *in, int orders, int64_t n, double *far, uint64_t *bits)
{
	struct vm_reader x, y;
	const struct aim_shadow *count = &c->aim->shadows[aim_src(c->aim, in, 0)];
	if (!vm_reader_make(c, in, 0, n, &x) || !vm_reader_make(c, in, 1, n, &y)) return false;
	bool is_int = elem_is_int((enum elem)in->elem);
	for (int64_t at = 0; at < n; at += VM_STRIP) {
		int64_t m = MIN(n - at, VM_STRIP);
		const double *p = vm_reader_strip(&x, at, m), *q = vm_reader_strip(&y, at, m);
		for (int64_t i = 0; i < m; i++) {
			far[at + i] = aim_far_of_orders(p[i] - q[i], orders);
			if (count->far) far[at + i] = far_of_count(far[at + i], p[i] - q[i], orders, aim_far_at(count, at + i));
			/* A count is no sum of an element's bits: nothing solves it. */
			bool has_bits = is_int && !count->far;
			if (bits) bits[at + i] = has_bits ? (uint64_t)(int64_t)p[i] ^ (uint64_t)(int64_t)q[i] : 0;
		}
	}
	return true;
}

/* Bits of an operand, by its shadow, or as they are where it has none. */
bool aim_bits_far(struct vm_ctx *c, const struct vm_instr *in, int operand, int64_t n, double *far)
{
	const struct aim_shadow *s = &c->aim->shadows[aim_src(c->aim, in, operand)];
	struct vm_reader r;
	for (int64_t i = 0; s->far && i < n; i++) far[i] = aim_far_at(s, i);
	if (s->far) return true;
	if (!vm_reader_make(c, in, operand, n, &r)) return false;
	for (int64_t at = 0; at < n; at += VM_STRIP) {
		int64_t m = MIN(n - at, VM_STRIP);
		const double *x = vm_reader_strip(&r, at, m);
		for (int64_t i = 0; i < m; i++) far[at + i] = x[i] != 0 ? -INFINITY : INFINITY;
	}
	return true;
}

/* One side of a joint: above 0 where the mask is not what it has to be. */
static double joint_side(const struct vm_aim *a, int k, bool to, int64_t i)
{
	double far = aim_far_at(&a->shadows[a->joint->masks[k]], i);
	return to ? far : -far;
}

double aim_joint_far(const struct vm_aim *a, bool to, int64_t i)
{
	return far_and(joint_side(a, 0, a->joint->wanted, i), joint_side(a, 1, to, i));
}

uint64_t aim_joint_origin(const struct vm_aim *a, const struct vm_instr *in, bool to, int64_t i)
{
	bool first = joint_side(a, 0, a->joint->wanted, i) > 0, second = joint_side(a, 1, to, i) > 0;
	int k = first != second ? second : (int)(aim_draw(a, in, i, 4) & 1);
	return aim_origin_at(&a->shadows[a->joint->masks[k]], i);
}

bool aim_is_compare(const struct vm_instr *in)
{
	return in->op == OP_MAP && in->map_op < 0 && in->nsrc == 2 && in->ndst == 1 && in->result_elem == ELEM_I1 &&
		in->elem != ELEM_I1;
}
bool aim_is_logic(const struct vm_instr *in)
{
	return in->op == OP_MAP && in->elem == ELEM_I1 &&
		(in->map_op == MAP_ANDI || in->map_op == MAP_ORI || in->map_op == MAP_XORI);
}

/* `and`, `or` and `xor` of bits, and a choice between two. Who is false is who is followed. */
void aim_logic_make(struct vm_ctx *c, const struct vm_instr *in, struct aim_shadow *to)
{
	const struct vm_aim *a = c->aim;
	int first = in->op == OP_SELECT ? 1 : 0;
	double *x = xmalloc((size_t)to->n * sizeof *x), *y = xmalloc((size_t)to->n * sizeof *y),
		   *m = xcalloc((size_t)to->n, sizeof *m);
	bool is_made = aim_bits_far(c, in, first, to->n, x) && aim_bits_far(c, in, first + 1, to->n, y) &&
		(!first || aim_bits_far(c, in, 0, to->n, m));
	if (is_made && a->lot) to->origin = xcalloc((size_t)to->n, sizeof *to->origin);
	for (int64_t i = 0; is_made && i < to->n; i++) {
		/* What one side gains by an element another may lose: by lot one of
		 * them counts for more. */
		uint64_t way = a->weights
			? aim_mix(a->weights + (uint64_t)(in - a->p->instrs) + aim_mix((uint64_t)(a->program + i)))
			: 0;
		if (way % 3 == 1) x[i] *= WEIGHT;
		if (way % 3 == 2) y[i] *= WEIGHT;
		double far = first           ? far_or(far_and(m[i], x[i]), far_and(-m[i], y[i]))
			: in->map_op == MAP_ANDI ? far_and(x[i], y[i])
			: in->map_op == MAP_ORI  ? far_or(x[i], y[i])
									 : far_or(far_and(x[i], -y[i]), far_and(-x[i], y[i]));
		bool is_one = !first && in->map_op == MAP_ANDI && (x[i] > 0) != (y[i] > 0);
		if (to->origin)
			to->origin[i] = is_one ? aim_origin_of(a, in, x[i] > 0 ? 0 : 1, 1, i)
								   : aim_origin_of(a, in, 0, in->nsrc, i);
		x[i] = far;
	}
	if (is_made) to->far = x;
	else free(x);
	free(y);
	free(m);
}

/* A choice between a number and 0 counts its mask. */
void aim_far_of_choice(struct vm_ctx *c, const struct vm_instr *in, struct aim_shadow *to)
{
	const struct vm_value *x = &c->values[aim_src(c->aim, in, 1)], *y = &c->values[aim_src(c->aim, in, 2)];
	const struct aim_shadow *mask = &c->aim->shadows[aim_src(c->aim, in, 0)];
	bool is_flat = x->form == FORM_SPLAT && y->form == FORM_SPLAT;
	if (!mask->far || !is_flat || (x->splat_int != 0) == (y->splat_int != 0)) return;
	to->far = xmalloc((size_t)to->n * sizeof *to->far);
	for (int64_t i = 0; i < to->n; i++) to->far[i] = x->splat_int ? aim_far_at(mask, i) : -aim_far_at(mask, i);
}
