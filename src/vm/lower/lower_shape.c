/* Lowering of operations that make, move and reinterpret blocks, and of the few that ask the
 * launch. */
#include "vm/exec/exec.h"
#include "base/base.h"
#include "ttir/ttir.h"
#include "vm/core/program.h"
#include "vm/lower/lower.h"

static int64_t shape_count(const struct ttir_type *t) { return t->count; }

/* One operand, types "src -> dst" of the same element type; emits opcode. */
static struct vm_instr *emit_reshaped(struct lowerer *lo, const struct ttir_op *op, enum vm_op opcode, int nsrc)
{
	int src[2];
	if (lower_uses(lo, op, 0, nsrc, src) || lower_written(lo, op, 0, lower_info(lo, src[0])->type)) return NULL;
	int type = op->types[op->ntypes - 1];
	if (op->nresult_types != 1 || lower_type(lo, type)->kind != TYPE_TENSOR) {
		lower_fail(lo, ERR_FORMAT, "%.*s needs one tensor type as its result", (int)op->name.len, op->name.data);
		return NULL;
	}
	const struct ttir_type *from = lower_type(lo, lower_info(lo, src[0])->type), *to = lower_type(lo, type);
	int scalar = from->kind == TYPE_TENSOR ? from->inner : lower_info(lo, src[0])->type;
	if (to->inner != scalar || (from->kind != TYPE_TENSOR && from->kind != TYPE_SCALAR)) {
		lower_fail(lo, ERR_FORMAT, "%.*s changes the element type", (int)op->name.len, op->name.data);
		return NULL;
	}
	int dst = lower_result(lo, op, 0, type);
	return dst < 0 ? NULL : lower_emit(lo, opcode, &dst, 1, src, nsrc);
}

static int bad_shape(struct lowerer *lo)
{
	return lower_fail(lo, ERR_FORMAT, "%.*s: the shapes do not fit", (int)lo->op->name.len, lo->op->name.data);
}

static void types_of(
	struct lowerer *lo, const struct vm_instr *in, const struct ttir_type **from, const struct ttir_type **to)
{
	*from = lower_type(lo, lower_info(lo, lo->p->ids[in->src])->type);
	*to = lower_type(lo, lower_info(lo, lo->p->ids[in->dst])->type);
}

int lower_splat(struct lowerer *lo, const struct ttir_op *op, const struct lower_row *row)
{
	struct vm_instr *in = emit_reshaped(lo, op, OP_SPLAT, 1);
	if (!in) return lo->code;
	const struct ttir_type *from, *to;
	types_of(lo, in, &from, &to);
	return shape_count(from) == 1 ? 0 : bad_shape(lo);
}

int lower_unsplat(struct lowerer *lo, const struct ttir_op *op, const struct lower_row *row)
{
	int src;
	if (lower_uses(lo, op, 0, 1, &src) || lower_written(lo, op, 0, lower_info(lo, src)->type)) return lo->code;
	const struct ttir_type *t = lower_type(lo, lower_info(lo, src)->type);
	if (t->kind != TYPE_TENSOR || t->count != 1) return bad_shape(lo);
	int dst = lower_result(lo, op, 0, t->inner);
	return dst < 0 || !lower_emit(lo, OP_UNSPLAT, &dst, 1, &src, 1) ? lo->code : 0;
}

int lower_range(struct lowerer *lo, const struct ttir_op *op, const struct lower_row *row)
{
	int64_t start, end;
	if (lower_attr_int(lo, op, "start", INT32_MIN, INT32_MAX, &start) ||
		lower_attr_int(lo, op, "end", INT32_MIN, INT32_MAX, &end))
		return lo->code;
	if (op->ntypes != 1) return lower_fail(lo, ERR_FORMAT, "tt.make_range needs one type");
	const struct ttir_type *t = lower_type(lo, op->types[0]);
	if (t->kind != TYPE_TENSOR || t->ndim != 1 || t->elem != ELEM_I32 || end - start != t->count) return bad_shape(lo);
	int dst = lower_result(lo, op, 0, op->types[0]);
	struct vm_instr *in = dst < 0 ? NULL : lower_emit(lo, OP_RANGE, &dst, 1, NULL, 0);
	if (in) in->imm[0] = (int32_t)start;
	return lo->code;
}

int lower_expand_dims(struct lowerer *lo, const struct ttir_op *op, const struct lower_row *row)
{
	int64_t axis;
	if (lower_attr_int(lo, op, "axis", 0, TTIR_DIMS_MAX, &axis)) return lo->code;
	struct vm_instr *in = emit_reshaped(lo, op, OP_RESHAPE, 1);
	if (!in) return lo->code;
	const struct ttir_type *from, *to;
	types_of(lo, in, &from, &to);
	if (to->ndim != from->ndim + 1 || axis > from->ndim || to->shape[axis] != 1) return bad_shape(lo);
	for (int d = 0; d < from->ndim; d++)
		if (to->shape[d + (d >= axis)] != from->shape[d]) return bad_shape(lo);
	return 0;
}

int lower_broadcast(struct lowerer *lo, const struct ttir_op *op, const struct lower_row *row)
{
	struct vm_instr *in = emit_reshaped(lo, op, OP_BROADCAST, 1);
	if (!in) return lo->code;
	const struct ttir_type *from, *to;
	types_of(lo, in, &from, &to);
	if (to->ndim != from->ndim) return bad_shape(lo);
	for (int d = 0; d < from->ndim; d++)
		if (to->shape[d] != from->shape[d] && from->shape[d] != 1) return bad_shape(lo);
	return 0;
}

/* allow_reorder permits any order; row-major is one, halves swapped another. */
int lower_reshape(struct lowerer *lo, const struct ttir_op *op, const struct lower_row *row)
{
	struct vm_instr *in = emit_reshaped(lo, op, OP_RESHAPE, 1);
	if (!in) return lo->code;
	for (int w = 0; w < op->nwords; w++) in->imm[0] |= slice_is(op->words[w], "allow_reorder");
	if (in->imm[0]) lower_note_order(lo);
	const struct ttir_type *from, *to;
	types_of(lo, in, &from, &to);
	return from->count == to->count ? 0 : bad_shape(lo);
}

int lower_trans(struct lowerer *lo, const struct ttir_op *op, const struct lower_row *row)
{
	const struct ttir_attr *order = lower_attr(op, "order");
	if (!order || order->kind != ATTR_INTS) return lower_fail(lo, ERR_FORMAT, "tt.trans needs the attribute order");
	struct vm_instr *in = emit_reshaped(lo, op, OP_TRANS, 1);
	if (!in) return lo->code;
	const struct ttir_type *from, *to;
	types_of(lo, in, &from, &to);
	if (to->ndim != from->ndim || order->nitems != from->ndim) return bad_shape(lo);
	int32_t *perm = arena_alloc(&lo->k->arena, (size_t)from->ndim * sizeof *perm);
	uint32_t seen = 0;
	for (int d = 0; d < from->ndim; d++) {
		int64_t o = order->ints[d];
		if (o < 0 || o >= from->ndim || (seen >> o & 1) || to->shape[d] != from->shape[o]) return bad_shape(lo);
		seen |= 1u << o;
		perm[d] = (int32_t)o;
	}
	in->extra = perm;
	return 0;
}

static int two_of_a_kind(struct lowerer *lo, const struct ttir_op *op)
{
	int src[2];
	if (lower_uses(lo, op, 0, 2, src)) return lo->code;
	return lower_info(lo, src[0])->type == lower_info(lo, src[1])->type ? 0 : bad_shape(lo);
}

int lower_cat(struct lowerer *lo, const struct ttir_op *op, const struct lower_row *row)
{
	if (two_of_a_kind(lo, op)) return lo->code;
	struct vm_instr *in = emit_reshaped(lo, op, OP_CAT, 2);
	if (!in) return lo->code;
	lower_note_order(lo);
	const struct ttir_type *from, *to;
	types_of(lo, in, &from, &to);
	if (to->ndim != from->ndim || to->shape[0] != 2 * from->shape[0] || to->count != 2 * from->count)
		return bad_shape(lo);
	return 0;
}

int lower_join(struct lowerer *lo, const struct ttir_op *op, const struct lower_row *row)
{
	if (two_of_a_kind(lo, op)) return lo->code;
	struct vm_instr *in = emit_reshaped(lo, op, OP_JOIN, 2);
	if (!in) return lo->code;
	const struct ttir_type *from, *to;
	types_of(lo, in, &from, &to);
	if (to->ndim != from->ndim + 1 || to->shape[from->ndim] != 2 ||
		memcmp(to->shape, from->shape, (size_t)from->ndim * sizeof to->shape[0]))
		return bad_shape(lo);
	return 0;
}

int lower_split(struct lowerer *lo, const struct ttir_op *op, const struct lower_row *row)
{
	int src, dst[2];
	if (lower_uses(lo, op, 0, 1, &src) || lower_written(lo, op, 0, lower_info(lo, src)->type)) return lo->code;
	const struct ttir_type *from = lower_type(lo, lower_info(lo, src)->type);
	if (op->ntypes != 2 || from->ndim < 2 || from->shape[from->ndim - 1] != 2) return bad_shape(lo);
	const struct ttir_type *to = lower_type(lo, op->types[1]);
	if (to->kind != TYPE_TENSOR || to->inner != from->inner || to->ndim != from->ndim - 1 ||
		memcmp(to->shape, from->shape, (size_t)to->ndim * sizeof to->shape[0]))
		return bad_shape(lo);
	for (int i = 0; i < 2; i++) {
		dst[i] = lower_result(lo, op, i, op->types[1]);
		if (dst[i] < 0) return lo->code;
	}
	return lower_emit(lo, OP_SPLIT, dst, 2, &src, 1) ? 0 : lo->code;
}

/* %src[%indices] {axis}: like torch.gather. */
int lower_gather(struct lowerer *lo, const struct ttir_op *op, const struct lower_row *row)
{
	int src[2];
	int64_t axis;
	if (lower_uses(lo, op, 0, 2, src) || lower_attr_int(lo, op, "axis", 0, TTIR_DIMS_MAX - 1, &axis)) return lo->code;
	const struct ttir_type *s = lower_type(lo, lower_info(lo, src[0])->type),
						   *index = lower_type(lo, lower_info(lo, src[1])->type);
	if (op->ntypes != 3 || s->kind != TYPE_TENSOR || index->kind != TYPE_TENSOR || !elem_is_int(index->elem) ||
		index->elem == ELEM_I1 || s->ndim != index->ndim || axis >= s->ndim)
		return bad_shape(lo);
	for (int d = 0; d < s->ndim; d++)
		if (d != axis && index->shape[d] > s->shape[d]) return bad_shape(lo);
	const struct ttir_type *to = lower_type(lo, op->types[2]);
	if (to->inner != s->inner || to->ndim != index->ndim ||
		memcmp(to->shape, index->shape, (size_t)to->ndim * sizeof to->shape[0]))
		return bad_shape(lo);
	int dst = lower_result(lo, op, 0, op->types[2]);
	struct vm_instr *in = dst < 0 ? NULL : lower_emit(lo, OP_GATHER, &dst, 1, src, 2);
	if (in) in->imm[0] = (int32_t)axis;
	return lo->code;
}

int lower_histogram(struct lowerer *lo, const struct ttir_op *op, const struct lower_row *row)
{
	int src[2];
	if (lower_uses(lo, op, 0, op->nuses, src)) return lo->code;
	const struct ttir_type *s = lower_type(lo, lower_info(lo, src[0])->type);
	if (op->nresult_types != 1 || s->kind != TYPE_TENSOR || s->ndim != 1 || !elem_is_int(s->elem) || s->elem == ELEM_I1)
		return bad_shape(lo);
	int type = op->types[op->ntypes - 1];
	const struct ttir_type *to = lower_type(lo, type);
	if (to->kind != TYPE_TENSOR || to->ndim != 1 || to->elem != ELEM_I32) return bad_shape(lo);
	if (op->nuses == 2 && lower_info(lo, src[1])->type != lower_same_shape(lo, lower_info(lo, src[0])->type, ELEM_I1))
		return bad_shape(lo);
	int dst = lower_result(lo, op, 0, type);
	return dst < 0 || !lower_emit(lo, OP_HISTOGRAM, &dst, 1, src, op->nuses) ? lo->code : 0;
}

/* ---- the launch ---- */

int lower_program_id(struct lowerer *lo, const struct ttir_op *op, const struct lower_row *row)
{
	static const char *const axes[] = {"x", "y", "z"};
	int axis = -1;
	for (int i = 0; i < 3; i++)
		if (op->nwords == 1 && slice_is(op->words[0], axes[i])) axis = i;
	if (axis < 0) return lower_fail(lo, ERR_FORMAT, "%.*s needs an axis x, y or z", (int)op->name.len, op->name.data);
	int type = ttir_type_scalar(lo->m, ELEM_I32);
	if (lower_written(lo, op, 0, type)) return lo->code;
	int dst = lower_result(lo, op, 0, type);
	struct vm_instr *in = dst < 0 ? NULL : lower_emit(lo, row->arg ? OP_NUM_PROGRAMS : OP_PROGRAM_ID, &dst, 1, NULL, 0);
	if (in) in->imm[0] = axis;
	return lo->code;
}

int lower_assert(struct lowerer *lo, const struct ttir_op *op, const struct lower_row *row)
{
	int src;
	if (op->nliterals != 1 || op->literals[0].kind != ATTR_STRING)
		return lower_fail(lo, ERR_FORMAT, "%.*s needs a message", (int)op->name.len, op->name.data);
	if (lower_uses(lo, op, 0, 1, &src)) return lo->code;
	if (op->ntypes && lower_written(lo, op, 0, lower_info(lo, src)->type)) return lo->code; /* cf.assert writes none */
	if (lower_info(lo, src)->elem != ELEM_I1)
		return lower_fail(lo, ERR_FORMAT, "the condition of %.*s is not i1", (int)op->name.len, op->name.data);
	struct vm_instr *in = lower_emit(lo, OP_ASSERT, NULL, 0, &src, 1);
	if (in) in->extra = arena_strndup(&lo->k->arena, op->literals[0].text.data, MIN(op->literals[0].text.len, 200));
	return lo->code;
}

/* A promise to the compiler, which may make code of it that goes wrong where it is broken:
 * asserted. */
int lower_assume(struct lowerer *lo, const struct ttir_op *op, const struct lower_row *row)
{
	int src;
	if (lower_uses(lo, op, 0, 1, &src)) return lo->code;
	if (lower_info(lo, src)->elem != ELEM_I1)
		return lower_fail(lo, ERR_FORMAT, "the condition of %.*s is not i1", (int)op->name.len, op->name.data);
	struct vm_instr *in = lo->in_region ? NULL : lower_emit(lo, OP_ASSERT, NULL, 0, &src, 1);
	if (in) in->extra = "tl.assume does not hold";
	return lo->code;
}

/* Orders the lanes of a program for those who check them (check_race.c); a program itself is one
 * thread here. */
int lower_barrier(struct lowerer *lo, const struct ttir_op *op, const struct lower_row *row)
{
	if (lower_ignore(lo, op, row) || lo->in_region) return lo->code;
	lower_emit(lo, OP_BARRIER, NULL, 0, NULL, 0);
	return lo->code;
}

/* Operations without an effect on memory or values. */
int lower_ignore(struct lowerer *lo, const struct ttir_op *op, const struct lower_row *row)
{
	for (int i = 0; i < op->nuses; i++)
		if (lower_use(lo, &op->uses[i]) < 0) return lo->code;
	return 0;
}

/* One instruction for each operand. */
int lower_print(struct lowerer *lo, const struct ttir_op *op, const struct lower_row *row)
{
	const struct ttir_attr *hex = lower_attr(op, "hex"), *is_signed = lower_attr(op, "isSigned");
	const struct slice text = op->nliterals && op->literals[0].kind == ATTR_STRING ? op->literals[0].text
																				   : (struct slice){"", 0};
	const char *prefix = arena_strndup(&lo->k->arena, text.data, MIN(text.len, 200));
	if (lo->in_region)
		return lower_ignore(lo, op, row); /* in a combine region: the lanes' order is nobody's business */
	for (int i = 0; i < op->nuses; i++) {
		int src = lower_use(lo, &op->uses[i]);
		if (src < 0) return lo->code;
		enum type_kind kind = lower_type(lo, lower_info(lo, src)->type)->kind;
		if (kind != TYPE_SCALAR && kind != TYPE_TENSOR)
			return lower_fail(lo, ERR_UNSUPPORTED, "tt.print of a block pointer or descriptor");
		struct print_shape *p = arena_alloc(&lo->k->arena, sizeof *p);
		*p = (struct print_shape){prefix, i, op->nuses, hex && hex->i,
			!is_signed || is_signed->kind != ATTR_INTS || i >= is_signed->nitems || is_signed->ints[i]};
		struct vm_instr *in = lower_emit(lo, OP_PRINT, NULL, 0, &src, 1);
		if (!in) return lo->code;
		in->extra = p;
	}
	lo->p->has_prints = true;
	return 0;
}
