/* Lanes that went wrong, followed to where they matter.
 *
 * An addition, multiplication, shift or narrowing on the way to an address that does not fit its
 * type, and an integer lane divided by zero, are no errors by themselves: the lane may be masked
 * off, or a select may take another value. So such lanes are marked, and the marks go along with
 * the values: through element-wise operations, selects (the side that was taken), changes of shape,
 * reductions along their axis, and the values that loops carry. An error is a marked lane in the
 * address of an access that happens, or (division) in a value that is stored. Comparisons, scans,
 * dot and whatever else is not listed here drop the marks: what they make is not called wrong.
 *
 * Marks are rare: nothing is followed until a watched instruction (check_plan.c) makes the first,
 * and a new program starts without any. */
#include "vm/check/check.h"
#include "base/base.h"
#include "ttir/ttir.h"
#include "vm/core/program.h"
#include "vm/core/state.h"
#include "vm/map/map.h"
#include <stdlib.h>

static struct check_taint *taint_of(const struct vm_ctx *c, int value) { return &c->check->taints[value]; }
static bool is_clean(const struct check_taint *t) { return !t->lanes && !t->all; }

static void taint_drop(struct check_taint *t)
{
	free(t->lanes);
	t->lanes = NULL;
	t->all = 0;
}

void vm_taint_clear(struct vm_ctx *c)
{
	for (int i = 0; i < c->program->nvalues; i++) taint_drop(&c->check->taints[i]);
	c->is_tainted = false;
}

/* Marks for each of n lanes. */
static uint8_t *lanes_of(struct check_taint *t, int64_t n)
{
	if (t->lanes) return t->lanes;
	t->lanes = xmalloc((size_t)n + 1);
	memset(t->lanes, t->all, (size_t)n);
	t->count = n;
	t->all = 0;
	return t->lanes;
}

static uint8_t lane(const struct check_taint *t, int64_t i) { return t->lanes ? t->lanes[i] : t->all; }

static void take_origin(struct check_taint *to, const struct check_taint *from)
{
	uint8_t kinds = from->all;
	for (int64_t i = 0; from->lanes && i < from->count; i++) kinds |= from->lanes[i];
	for (int i = 0; i < TAINT_KINDS; i++)
		if (kinds >> i & 1) to->origin[i] = from->origin[i];
}

/* ---- along operations ---- */

/* to |= from, lane by lane; both of n elements. */
static void taint_join(struct check_taint *to, const struct check_taint *from, int64_t n)
{
	if (is_clean(from)) return;
	take_origin(to, from);
	if (!from->lanes && !to->lanes) {
		to->all |= from->all;
		return;
	}
	uint8_t *lanes = lanes_of(to, n);
	for (int64_t i = 0; i < n; i++) lanes[i] |= lane(from, i);
}

static void taint_select(struct vm_ctx *c, const struct vm_instr *in, struct check_taint *to)
{
	const struct vm_value *mask = &c->values[vm_src(c, in, 0)];
	const struct check_taint *yes = taint_of(c, vm_src(c, in, 1)), *no = taint_of(c, vm_src(c, in, 2));
	if (is_clean(yes) && is_clean(no)) return;
	if (mask->form == FORM_SPLAT) {
		taint_join(to, mask->splat[0] ? yes : no, in->n);
		return;
	}
	const uint8_t *m = vm_dense(c, in, vm_src(c, in, 0), in->n);
	if (!m) return;
	take_origin(to, yes);
	take_origin(to, no);
	uint8_t *lanes = lanes_of(to, in->n);
	for (int64_t i = 0; i < in->n; i++) lanes[i] = lane(m[i] ? yes : no, i);
}

/* The source's dimensions of size 1 repeat (broadcast), or its dimensions change places (trans:
 * result dimension d is source dimension imm... of it). */
static void taint_strided(struct vm_ctx *c, const struct vm_instr *in, struct check_taint *to,
	const struct check_taint *from, const int32_t *order)
{
	const struct vm_value_info *s = &c->program->values[vm_src(c, in, 0)], *d = &c->program->values[vm_dst(c, in, 0)];
	if (!from->lanes) {
		taint_join(to, from, in->n);
		return;
	}
	int64_t stride[TTIR_DIMS_MAX], own[TTIR_DIMS_MAX], step = 1;
	for (int k = s->ndim - 1; k >= 0; k--) {
		own[k] = s->shape[k] == 1 ? 0 : step;
		step *= s->shape[k];
	}
	for (int k = 0; k < d->ndim; k++) stride[k] = own[order ? order[k] : k];
	take_origin(to, from);
	vm_copy_strided(lanes_of(to, in->n), d->shape, d->ndim, from->lanes, stride, 1);
}

static void taint_reduce(struct vm_ctx *c, const struct vm_instr *in, int i, struct check_taint *to)
{
	const struct check_taint *from = taint_of(c, vm_src(c, in, i));
	const struct region_shape *s = in->extra;
	if (is_clean(from)) return;
	take_origin(to, from);
	if (!from->lanes) {
		to->all |= from->all;
		return;
	}
	uint8_t *lanes = lanes_of(to, s->outer * s->inner);
	for (int64_t o = 0; o < s->outer; o++)
		for (int64_t j = 0; j < s->len; j++)
			for (int64_t k = 0; k < s->inner; k++)
				lanes[o * s->inner + k] |= from->lanes[(o * s->len + j) * s->inner + k];
}

static void taint_moves(struct vm_ctx *c, const struct vm_instr *in)
{
	struct check_taint *moved = xcalloc((size_t)in->nsrc + 1, sizeof *moved);
	for (int i = 0; i < in->nsrc; i++)
		taint_join(&moved[i], taint_of(c, vm_src(c, in, i)), c->program->values[vm_src(c, in, i)].count);
	for (int i = 0; i < in->ndst; i++) {
		struct check_taint *to = taint_of(c, vm_dst(c, in, i));
		taint_drop(to);
		*to = moved[i];
	}
	free(moved);
}

static bool keeps_lanes(const struct vm_instr *in)
{
	return in->op == OP_DIVIDE || in->op == OP_ADDPTR || in->op == OP_BITCAST ||
		(in->op == OP_MAP && in->result_elem != ELEM_I1);
}

/* The marks of result d. They are made beside the old ones, since a result may be one of the
 * operands. */
static struct check_taint result_marks(struct vm_ctx *c, const struct vm_instr *in, int d)
{
	struct check_taint new = {.lanes = NULL};
	bool has_region = in->op == OP_REDUCE;
	/* Constants have none, and what runs inside a region has no lanes of its own. */
	if (!in->nsrc || (!in->n && !has_region)) return new;
	const struct check_taint *from = taint_of(c, vm_src(c, in, 0));
	if (has_region) taint_reduce(c, in, d, &new);
	else if (in->op == OP_SELECT) taint_select(c, in, &new);
	else if (keeps_lanes(in))
		for (int s = 0; s < in->nsrc; s++) taint_join(&new, taint_of(c, vm_src(c, in, s)), in->n);
	else if (in->op == OP_RESHAPE) taint_join(&new, from, in->n);
	else if (in->op == OP_SPLAT || in->op == OP_UNSPLAT) {
		take_origin(&new, from);
		new.all = lane(from, 0);
	} else if (in->op == OP_BROADCAST) taint_strided(c, in, &new, from, NULL);
	else if (in->op == OP_TRANS) taint_strided(c, in, &new, from, in->extra);
	return new;
}

static void propagate(struct vm_ctx *c, const struct vm_instr *in)
{
	if (in->op == OP_MOVE) {
		taint_moves(c, in);
		return;
	}
	for (int d = 0; d < in->ndst; d++) {
		struct check_taint new = result_marks(c, in, d), *to = taint_of(c, vm_dst(c, in, d));
		taint_drop(to);
		*to = new;
	}
}

/* ---- where marks come from ---- */

struct pair {
	const void *p[2];
	int64_t step[2];
}; /* operands; step 0: one element for all */

static bool pair_get(struct vm_ctx *c, const struct vm_instr *in, struct pair *x)
{
	for (int i = 0; i < in->nsrc && i < 2; i++) {
		struct vm_value *v = &c->values[vm_src(c, in, i)];
		x->step[i] = v->form != FORM_SPLAT;
		x->p[i] = v->form == FORM_SPLAT ? v->splat : vm_dense(c, in, vm_src(c, in, i), in->n);
		if (!x->p[i]) return false;
	}
	return true;
}

/* W holds sums, differences, products and shifts of two T exactly (a shift by the width or more
 * loses all bits). bad: lanes to mark, or NULL to ask whether there are any. */
#define WRAPS(name, T, W) \
	static bool name(enum map_op op, const struct pair *x, int64_t n, uint8_t *bad) \
	{ \
		const T *a = x->p[0], *b = x->p[1]; \
		int64_t sa = x->step[0], sb = x->step[1]; \
		unsigned any = 0; \
		for (int64_t i = 0; i < n; i++) { \
			W u = (W)a[i * sa], v = (W)b[i * sb], r; \
			if (op == MAP_ADDI) r = u + v; \
			else if (op == MAP_SUBI) r = u - v; \
			else if (op == MAP_MULI) r = u * v; \
			else r = u * ((W)1 << (int)(v & (W)(8 * sizeof(T) - 1))); \
			unsigned is_bad = r != (W)(T)r || (op == MAP_SHLI && (uint64_t)v >= 8 * sizeof(T) && u != 0); \
			if (bad && is_bad) bad[i] |= TAINT_OVERFLOW; \
			any |= is_bad; \
		} \
		return any; \
	}
WRAPS(wraps_i8, int8_t, int64_t)
WRAPS(wraps_i16, int16_t, int64_t)
WRAPS(wraps_i32, int32_t, int64_t)
WRAPS(wraps_i64, int64_t, __int128)
WRAPS(wraps_u8, uint8_t, uint64_t)
WRAPS(wraps_u16, uint16_t, uint64_t)
WRAPS(wraps_u32, uint32_t, uint64_t)
WRAPS(wraps_u64, uint64_t, unsigned __int128)
typedef bool wraps_fn(enum map_op op, const struct pair *x, int64_t n, uint8_t *bad);
static wraps_fn *const wraps[2][4] = {
	{wraps_i8, wraps_i16, wraps_i32, wraps_i64}, {wraps_u8, wraps_u16, wraps_u32, wraps_u64}};

static bool narrows(const struct vm_instr *in, const struct pair *x, int64_t n, uint8_t *bad)
{
	int bits = 8 * (int)elem_bytes((enum elem)in->result_elem);
	bool any = false;
	for (int64_t i = 0; i < n; i++) {
		int64_t v = vm_int_at((enum elem)in->elem, x->p[0], i * x->step[0]);
		bool is_bad = v < -((int64_t)1 << (bits - 1)) || v >= (int64_t)1 << bits; /* as either signed or unsigned */
		if (bad && is_bad) bad[i] |= TAINT_OVERFLOW;
		any |= is_bad;
	}
	return any;
}

static bool divides_by_zero(const struct vm_instr *in, const struct pair *x, int64_t n, uint8_t *bad)
{
	bool any = false;
	for (int64_t i = 0; i < n; i++) {
		bool is_bad = vm_int_at((enum elem)in->elem, x->p[1], i * x->step[1]) == 0;
		if (bad && is_bad) bad[i] |= TAINT_DIVISION;
		any |= is_bad;
	}
	return any;
}

static bool goes_wrong(const struct vm_instr *in, uint8_t watch, const struct pair *x, int64_t n, uint8_t *bad)
{
	if (watch & WATCH_DIVISION) return divides_by_zero(in, x, n, bad);
	if (in->nsrc == 1) return narrows(in, x, n, bad);
	int width = __builtin_ctzll(elem_bytes((enum elem)in->elem));
	return wraps[!(watch & WATCH_SIGNED)][width]((enum map_op)in->map_op, x, n, bad);
}

/* Affine operands of an addition or multiplication: their corners decide, no element is made. */
static bool affine_fits(struct vm_ctx *c, const struct vm_instr *in, uint8_t watch)
{
	struct affine a, b, r = {.base = 0};
	int64_t min, max;
	if (!(watch & WATCH_SIGNED) || in->nsrc != 2 || !vm_affine_of(c, vm_src(c, in, 0), &a) ||
		!vm_affine_of(c, vm_src(c, in, 1), &b))
		return false;
	/* A flat block is one number everywhere. */
	bool overflow = false, a_flat = true, b_flat = true;
	for (int d = 0; d < VM_LAZY_DIMS; d++) {
		a_flat &= !a.stride[d];
		b_flat &= !b.stride[d];
	}
	/* The result as an affine block of its own, without wrapping; a product is one where a
	 * factor is flat. */
	if (in->map_op == MAP_ADDI) {
		overflow |= __builtin_add_overflow(a.base, b.base, &r.base);
		for (int d = 0; d < VM_LAZY_DIMS; d++)
			overflow |= __builtin_add_overflow(a.stride[d], b.stride[d], &r.stride[d]);
	} else if (in->map_op == MAP_SUBI) {
		overflow |= __builtin_sub_overflow(a.base, b.base, &r.base);
		for (int d = 0; d < VM_LAZY_DIMS; d++)
			overflow |= __builtin_sub_overflow(a.stride[d], b.stride[d], &r.stride[d]);
	} else if (in->map_op == MAP_MULI && (a_flat || b_flat)) {
		const struct affine *s = a_flat ? &b : &a;
		int64_t by = a_flat ? a.base : b.base;
		overflow |= __builtin_mul_overflow(s->base, by, &r.base);
		for (int d = 0; d < VM_LAZY_DIMS; d++) overflow |= __builtin_mul_overflow(s->stride[d], by, &r.stride[d]);
	} else {
		return false;
	}
	/* It fits if both of its corners fit the type. */
	const struct vm_value_info *info = &c->program->values[vm_dst(c, in, 0)];
	int bits = 8 * (int)elem_bytes(info->elem);
	int64_t type_max = (int64_t)(UINT64_MAX >> (65 - bits));
	return !overflow && vm_affine_range(info, &r, &min, &max) && min >= -type_max - 1 && max <= type_max;
}

static void start_marks(struct vm_ctx *c, const struct vm_instr *in, uint8_t watch)
{
	unsigned checks = c->check->checks;
	if (!in->n || !(checks & (watch & WATCH_DIVISION ? VM_CHECK_DIVISION : VM_CHECK_OVERFLOW))) return;
	if (!(watch & WATCH_DIVISION) && affine_fits(c, in, watch)) return;
	struct pair x = {{NULL}, {0}};
	bool is_flat = true;
	for (int i = 0; i < in->nsrc; i++) is_flat &= c->values[vm_src(c, in, i)].form == FORM_SPLAT;
	int64_t n = is_flat ? 1 : in->n;
	if ((watch & WATCH_DIVISION) && c->values[vm_src(c, in, 1)].form == FORM_SPLAT) return; /* a fault of its own */
	if (!pair_get(c, in, &x) || !goes_wrong(in, watch, &x, n, NULL)) return;
	struct check_taint *t = taint_of(c, vm_dst(c, in, 0));
	int kind = watch & WATCH_DIVISION ? 1 : 0;
	t->origin[kind] = (int32_t)(in - c->program->instrs);
	if (is_flat) t->all |= (uint8_t)(1 << kind);
	else goes_wrong(in, watch, &x, n, lanes_of(t, in->n));
	c->is_tainted = true;
}

void vm_taint_mark(struct vm_ctx *c, const struct vm_instr *in, int i, int64_t lane, int64_t n, uint8_t kind)
{
	struct check_taint *t = taint_of(c, vm_dst(c, in, i));
	lanes_of(t, n)[lane] |= kind;
	t->origin[__builtin_ctz(kind)] = (int32_t)(in - c->program->instrs);
	c->is_tainted = true;
}

void vm_taint_step(struct vm_ctx *c, const struct vm_instr *in, uint8_t watch)
{
	if (c->is_tainted) propagate(c, in);
	if (watch) start_marks(c, in, watch);
}

/* ---- where they matter ---- */

static int report(struct vm_ctx *c, const struct vm_instr *in, const struct check_taint *t, int kind, int64_t element,
	bool is_address)
{
	const struct vm_instr *at = &c->program->instrs[t->origin[kind]];
	int line = c->program->locs[in->loc].line;
	const char *what = in->op == OP_LOAD ? "load" : in->op == OP_STORE ? "store" : "atomic access";
	if (kind == 0)
		vm_fault(c, at, VM_FAULT_INDEX_OVERFLOW, element,
			"the result does not fit %s, and is part of the address of element %lld of the %s at line %d: use int64",
			elem_name((enum elem)at->result_elem), (long long)element, what, line);
	else if (kind == 2)
		vm_fault(c, at, VM_FAULT_ORDER, element,
			"another order of combining gives another result, and element %lld of the %s at line %d %s it: a GPU has "
			"an order of its own, so the function must be commutative and associative",
			(long long)element, what, line, is_address ? "takes its address from" : "stores");
	else
		vm_fault(c, at, VM_FAULT_DIVISION_BY_ZERO, element,
			"an element is divided by 0, and element %lld of the %s at line %d %s it", (long long)element, what, line,
			is_address ? "takes its address from" : "stores");
	return !c->check->goes_on;
}

int vm_taint_use(struct vm_ctx *c, const struct vm_instr *in, int value, int mask, int64_t n, bool is_address)
{
	const struct check_taint *t = taint_of(c, value);
	bool failed = false;
	if (is_clean(t)) return 0;
	const uint8_t *m = NULL;
	if (mask >= 0) {
		m = c->values[mask].form == FORM_SPLAT && n == 1 ? c->values[mask].splat : vm_dense(c, in, mask, n);
		failed = !m;
	}
	for (int64_t i = 0; i < n && !failed; i++) {
		if (m && !m[i]) continue;
		for (int kind = is_address ? 0 : 1; kind < TAINT_KINDS; kind++)
			if ((lane(t, i) >> kind & 1) && report(c, in, t, kind, i, is_address)) return 1;
	}
	return failed;
}
