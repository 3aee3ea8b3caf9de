/* Rules that keep integers, pointers and masks lazy. Each either makes the result affine or a box
 * and returns true, or returns false and the instruction runs over elements.
 *
 * The invariant that makes this exact: an affine value's elements, computed without wrapping, all
 * lie in the signed range of its type. Where a result would not (a genuine overflow), the rule
 * declines and the element kernel wraps as the hardware does. */
#include "vm/exec/exec.h"
#include "base/base.h"
#include "ttir/ttir.h"
#include "vm/core/program.h"
#include "vm/core/state.h"

static bool operands(struct vm_ctx *c, const struct vm_instr *in, struct affine *a, struct affine *b)
{
	return in->n && vm_affine_of(c, vm_src(c, in, 0), a) && vm_affine_of(c, vm_src(c, in, 1), b);
}

static bool is_constant(const struct affine *a)
{
	for (int d = 0; d < VM_LAZY_DIMS; d++)
		if (a->stride[d]) return false;
	return true;
}

static bool scale(struct affine *a, int64_t by)
{
	bool overflow = __builtin_mul_overflow(a->base, by, &a->base);
	for (int d = 0; d < VM_LAZY_DIMS; d++) overflow |= __builtin_mul_overflow(a->stride[d], by, &a->stride[d]);
	return !overflow;
}

static bool add(struct affine *a, const struct affine *b)
{
	bool overflow = __builtin_add_overflow(a->base, b->base, &a->base);
	for (int d = 0; d < VM_LAZY_DIMS; d++)
		overflow |= __builtin_add_overflow(a->stride[d], b->stride[d], &a->stride[d]);
	return !overflow;
}

bool rule_add(struct vm_ctx *c, const struct vm_instr *in)
{
	struct affine a, b;
	return operands(c, in, &a, &b) && add(&a, &b) && vm_result_affine(c, in, &a);
}

bool rule_sub(struct vm_ctx *c, const struct vm_instr *in)
{
	struct affine a, b;
	return operands(c, in, &a, &b) && scale(&b, -1) && add(&a, &b) && vm_result_affine(c, in, &a);
}

bool rule_mul(struct vm_ctx *c, const struct vm_instr *in)
{
	struct affine a, b;
	if (!operands(c, in, &a, &b)) return false;
	if (is_constant(&b)) return scale(&a, b.base) && vm_result_affine(c, in, &a);
	return is_constant(&a) && scale(&b, a.base) && vm_result_affine(c, in, &b);
}

/* extsi, trunci, index_cast: the same numbers if they fit. extui (imm[1]): if none is negative. */
bool rule_cast(struct vm_ctx *c, const struct vm_instr *in)
{
	struct affine a;
	int64_t min, max;
	if (!in->n || !vm_affine_of(c, vm_src(c, in, 0), &a)) return false;
	if (in->imm[1] && (!vm_affine_range(&c->program->values[vm_src(c, in, 0)], &a, &min, &max) || min < 0))
		return false;
	return vm_result_affine(c, in, &a);
}

/* x % m where 0 <= x < m everywhere is x; x / m is then 0. This is what offsets % M usually are. */
bool rule_rem(struct vm_ctx *c, const struct vm_instr *in)
{
	struct affine a, b;
	int64_t min, max;
	if (!operands(c, in, &a, &b) || !is_constant(&b) ||
		!vm_affine_range(&c->program->values[vm_src(c, in, 0)], &a, &min, &max))
		return false;
	return min >= 0 && max < b.base && vm_result_affine(c, in, &a);
}

bool rule_div(struct vm_ctx *c, const struct vm_instr *in)
{
	struct affine a, b;
	int64_t min, max;
	if (!operands(c, in, &a, &b) || !is_constant(&b) ||
		!vm_affine_range(&c->program->values[vm_src(c, in, 0)], &a, &min, &max))
		return false;
	if (b.base == 1) return vm_result_affine(c, in, &a);
	return min >= 0 && max < b.base && vm_result_affine(c, in, &(struct affine){.base = 0});
}

/* pointer + offset * size */
bool rule_addptr(struct vm_ctx *c, const struct vm_instr *in)
{
	struct affine a, b;
	return operands(c, in, &a, &b) && scale(&b, in->imm[1]) && add(&a, &b) && vm_result_affine(c, in, &a);
}

/* ---- masks ---- */

static bool box_of(const struct vm_ctx *c, int value, struct box *b)
{
	const struct vm_value *v = &c->values[value];
	const struct vm_value_info *info = &c->program->values[value];
	if (v->form == FORM_BOX) {
		*b = v->box;
		return true;
	}
	if (v->form != FORM_SPLAT || info->ndim > VM_LAZY_DIMS) return false;
	*b = (struct box){.lo = {0}};
	for (int d = 0; d < info->ndim; d++) b->hi[d] = v->splat[0] ? info->shape[d] : 0;
	return true;
}

static void result_box(struct vm_ctx *c, const struct vm_instr *in, const struct box *b)
{
	int id = vm_dst(c, in, 0);
	const struct vm_value_info *info = &c->program->values[id];
	bool is_full = true, is_empty = false;
	for (int d = 0; d < info->ndim; d++) {
		is_full &= b->lo[d] <= 0 && b->hi[d] >= info->shape[d];
		is_empty |= b->lo[d] >= b->hi[d];
	}
	struct vm_value *v = &c->values[id];
	vm_value_clear(c, v);
	if (is_full || is_empty) {
		v->form = FORM_SPLAT;
		v->splat_int = !is_empty;
		return;
	}
	v->form = FORM_BOX;
	v->box = *b;
}

bool rule_and(struct vm_ctx *c, const struct vm_instr *in)
{
	struct box a, b;
	if (!in->n || in->result_elem != ELEM_I1 || !box_of(c, vm_src(c, in, 0), &a) || !box_of(c, vm_src(c, in, 1), &b))
		return false;
	for (int d = 0; d < VM_LAZY_DIMS; d++) {
		a.lo[d] = MAX(a.lo[d], b.lo[d]);
		a.hi[d] = MIN(a.hi[d], b.hi[d]);
	}
	result_box(c, in, &a);
	return true;
}

/* How many leading indices j have base + j * step <= limit (step > 0), clamped to [0, n]. */
static int32_t count_below(int64_t base, int64_t step, int64_t limit, int32_t n)
{
	int32_t lo = 0, hi = n; /* the values fit int64 by the invariant */
	while (lo < hi) {
		int32_t mid = lo + (hi - lo) / 2;
		if (base + mid * step <= limit) lo = mid + 1;
		else hi = mid;
	}
	return lo;
}

/* imm[1]: 0 lt, 1 le, 2 gt, 3 ge; imm[2]: unsigned. The affine side varies along one dimension
 * only; the other side is a constant. */
bool rule_cmp(struct vm_ctx *c, const struct vm_instr *in)
{
	struct affine a, b;
	if (in->imm[1] < 0 || !operands(c, in, &a, &b)) return false;
	int op = in->imm[1], source = 0;
	/* The affine side to the left, which turns the comparison round. */
	if (is_constant(&a)) {
		struct affine t = a;
		a = b;
		b = t;
		op = (op + 2) % 4;
		source = 1;
	}
	if (!is_constant(&b)) return false;
	const struct vm_value_info *info = &c->program->values[vm_src(c, in, source)];
	/* Along which dimension it varies, within a range that cannot overflow or change sign. */
	int dim = -1;
	for (int d = 0; d < info->ndim; d++) {
		if (!a.stride[d]) continue;
		if (dim >= 0) return false;
		dim = d;
	}
	int64_t min, max;
	if (dim < 0 || !vm_affine_range(info, &a, &min, &max)) return false;
	if (in->imm[2] && (min < 0 || b.base < 0)) return false;
	/* x < L is x <= L - 1; x > L is not (x <= L). A falling sequence is a rising one read
	 * backwards. */
	bool is_strict = op == 0 || op == 3;
	if (is_strict && b.base == INT64_MIN) return false;
	int32_t n = info->shape[dim];
	bool falls = a.stride[dim] < 0;
	int64_t base = falls ? a.base + a.stride[dim] * (n - 1) : a.base;
	/* So many of the rising sequence are below: the true ones are a run at one of its ends. */
	int32_t k = count_below(base, falls ? -a.stride[dim] : a.stride[dim], b.base - is_strict, n);
	bool takes_low = op == 0 || op == 1;
	struct box box = {.lo = {0}};
	for (int d = 0; d < info->ndim; d++) box.hi[d] = info->shape[d];
	if (takes_low != falls) box.hi[dim] = takes_low ? k : n - k;
	else box.lo[dim] = takes_low ? n - k : k;
	result_box(c, in, &box);
	return true;
}
