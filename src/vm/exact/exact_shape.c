/* Blocks that move their elements. */
#include "vm/exact/exact.h"
#include "base/base.h"
#include "ttir/ttir.h"
#include "vm/core/program.h"
#include "vm/core/state.h"

/* The same elements in the same order: shared. Where a reshape may reorder, this is one of the
 * orders; that others give the same is the replay's question (vm_launch_options.crosswise). */
int exact_reshape(struct exact *e, const struct vm_instr *in)
{
	struct exact_block *b = exact_source(e, in, 0);
	b->refs++;
	exact_set(e, vm_dst(&e->c, in, 0), b);
	exact_kill(e, in);
	return 0;
}

static const struct vm_value_info *info_of(const struct exact *e, int value) { return &e->c.program->values[value]; }

/* Element `at` of the result is which of source 0: by the place of each dimension. */
static int64_t place_of(const struct vm_value_info *to, const int64_t *stride, int64_t at)
{
	int64_t from = 0;
	for (int d = to->ndim - 1; d >= 0; d--) {
		from += at % to->shape[d] * stride[d];
		at /= to->shape[d];
	}
	return from;
}

static void strides_of(const struct exact *e, const struct vm_instr *in, int64_t *stride)
{
	const struct vm_value_info *from = info_of(e, vm_src(&e->c, in, 0)), *to = info_of(e, vm_dst(&e->c, in, 0));
	int64_t natural[TTIR_DIMS_MAX];
	const int32_t *perm = in->extra;
	vm_row_major(from, natural);
	for (int d = 0; d < to->ndim; d++) {
		if (in->op == OP_TRANS) stride[d] = natural[perm[d]];
		else stride[d] = from->shape[d] == to->shape[d] ? natural[d] : 0;
	}
}

/* tt.gather: the index takes the place of the result's own along one axis. */
static int gather(struct exact *e, const struct vm_instr *in, const struct exact_block *s, struct exact_block *d)
{
	const struct vm_value_info *from = info_of(e, vm_src(&e->c, in, 0)), *to = info_of(e, vm_dst(&e->c, in, 0));
	int axis = in->imm[0];
	int64_t stride[TTIR_DIMS_MAX];
	struct exact_ints index;
	if (!exact_ints_of(e, in, vm_src(&e->c, in, 1), to->count, &index)) return 1;
	vm_row_major(from, stride);
	int64_t along = stride[axis], inner = 1;
	for (int k = axis + 1; k < to->ndim; k++) inner *= to->shape[k];
	stride[axis] = 0;
	for (int64_t i = 0; i < to->count; i++) {
		int64_t k = exact_int_at(&index, i, true);
		if (k < 0 || k >= from->shape[axis])
			return exact_stop(
				e, in, VM_EXACT_FAULT, "gather of index %lld along an axis of %d", (long long)k, from->shape[axis]);
		d->v[i] = *exact_at(s, place_of(to, stride, i) + k * along);
	}
	return 0;
}

/* Elements that only change their places: broadcasts and transposes, whose places follow from
 * strides, joins and gathers. */
int exact_permute(struct exact *e, const struct vm_instr *in)
{
	const struct vm_value_info *to = info_of(e, vm_dst(&e->c, in, 0));
	const struct exact_block *a = exact_source(e, in, 0), *b = in->nsrc > 1 ? exact_source(e, in, 1) : NULL;
	int64_t stride[TTIR_DIMS_MAX], n = to->count;
	if (in->op == OP_CAT) return exact_stop(e, in, VM_EXACT_OUTSIDE, "tt.cat, whose order is open");
	/* A block of one element, whatever its shape, is the same in each place. */
	if (a->n == 1 && in->op != OP_JOIN && in->op != OP_GATHER) return exact_reshape(e, in);
	struct exact_block *d = exact_block_new(e, in, n);
	if (!d) return 1;
	int rc = 0;
	if (in->op == OP_GATHER) rc = gather(e, in, a, d);
	else if (in->op == OP_JOIN) /* the last dimension of two */
		for (int64_t i = 0; i < n; i++) d->v[i] = *exact_at(i % 2 ? b : a, i / 2);
	else {
		strides_of(e, in, stride);
		for (int64_t i = 0; i < n; i++) d->v[i] = *exact_at(a, place_of(to, stride, i));
	}
	if (rc) {
		exact_block_put(e, d);
		return 1;
	}
	exact_set(e, vm_dst(&e->c, in, 0), d);
	exact_kill(e, in);
	return 0;
}

/* The two halves of the last dimension. */
int exact_split(struct exact *e, const struct vm_instr *in)
{
	const struct exact_block *s = exact_source(e, in, 0);
	for (int half = 0; half < 2; half++) {
		struct exact_block *d = exact_block_new(e, in, in->n);
		if (!d) return 1;
		for (int64_t i = 0; i < in->n; i++) d->v[i] = *exact_at(s, 2 * i + half);
		exact_set(e, vm_dst(&e->c, in, half), d);
	}
	exact_kill(e, in);
	return 0;
}
