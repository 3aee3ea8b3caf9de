/* Lowering of loads, stores and atomics through pointers. Block pointers and descriptors are in
 * lower_block.c. */
#include "vm/exec/exec.h"
#include "base/base.h"
#include "ttir/ttir.h"
#include "vm/core/program.h"
#include "vm/lower/lower.h"

/* Operands ptr, then value or other, and mask agree in shape with the pointer. */
static int pointee_type(struct lowerer *lo, int ptr, int *out)
{
	const struct vm_value_info p = *lower_info(lo, ptr);
	const struct ttir_type *t = lower_type(lo, p.type);
	if (p.elem != ELEM_PTR || (t->kind != TYPE_SCALAR && t->kind != TYPE_TENSOR))
		return lower_fail(
			lo, ERR_FORMAT, "%.*s through something that is not a pointer", (int)lo->op->name.len, lo->op->name.data);
	int scalar = t->kind == TYPE_TENSOR ? lower_type(lo, t->inner)->inner : t->inner;
	if (t->kind == TYPE_SCALAR) {
		*out = scalar;
		return 0;
	}
	struct ttir_type like = *t;
	like.inner = scalar;
	like.elem = lower_type(lo, scalar)->elem;
	*out = ttir_type_intern(lo->m, &like);
	return *out < 0 ? lower_fail(lo, ERR_LIMIT, "too many types") : 0;
}

static int check_mask(struct lowerer *lo, int mask, int ptr)
{
	if (lower_info(lo, mask)->type == lower_same_shape(lo, lower_info(lo, ptr)->type, ELEM_I1)) return 0;
	return lower_fail(
		lo, ERR_FORMAT, "the mask of %.*s does not have the pointer's shape", (int)lo->op->name.len, lo->op->name.data);
}

static bool is_block_pointer(struct lowerer *lo, int value)
{
	return lower_type(lo, lower_info(lo, value)->type)->kind == TYPE_BLOCK_PTR;
}

int lower_load(struct lowerer *lo, const struct ttir_op *op, const struct lower_row *row)
{
	int src[3], type;
	if (lower_uses(lo, op, 0, op->nuses, src) || lower_written(lo, op, 0, lower_info(lo, src[0])->type))
		return lo->code;
	if (is_block_pointer(lo, src[0])) return lower_block_load(lo, op, src[0]);
	if (pointee_type(lo, src[0], &type)) return lo->code;
	if (lower_attr(op, "boundaryCheck") && lower_attr(op, "boundaryCheck")->nitems)
		return lower_fail(lo, ERR_FORMAT, "tt.load with boundaryCheck needs a block pointer");
	if (op->nuses > 1 && check_mask(lo, src[1], src[0])) return lo->code;
	if (op->nuses > 2 && lower_info(lo, src[2])->type != type)
		return lower_fail(lo, ERR_FORMAT, "`other` of tt.load does not have the result's type");
	int dst = lower_result(lo, op, 0, type);
	struct vm_instr *in = dst < 0 ? NULL : lower_emit(lo, OP_LOAD, &dst, 1, src, op->nuses);
	if (!in) return lo->code;
	uint8_t *bits = arena_alloc(&lo->k->arena, 8);
	vm_pattern(lower_info(lo, dst)->elem, bits);
	in->extra = bits;
	const struct ttir_attr *is_volatile = lower_attr(op, "isVolatile");
	if (is_volatile && is_volatile->i) {
		in->imm[3] = ORDER_VOLATILE | ORDER_ACQUIRE;
		lo->p->has_atomics = true;
	}
	/* What it says of L1 is no matter of values, but of what it costs. */
	const struct ttir_attr *cache = lower_attr(op, "cacheModifier");
	bool is_beyond = cache && cache->text.len == 2 &&
		(!memcmp(cache->text.data, "cg", 2) || !memcmp(cache->text.data, "cv", 2));
	if (is_beyond) in->imm[3] |= ORDER_UNCACHED;
	return 0;
}

int lower_store(struct lowerer *lo, const struct ttir_op *op, const struct lower_row *row)
{
	int src[3], type;
	if (lower_uses(lo, op, 0, op->nuses, src) || lower_written(lo, op, 0, lower_info(lo, src[0])->type))
		return lo->code;
	if (is_block_pointer(lo, src[0])) return lower_block_store(lo, op, src);
	if (pointee_type(lo, src[0], &type)) return lo->code;
	if (lower_info(lo, src[1])->type != type)
		return lower_fail(lo, ERR_FORMAT, "the value of tt.store does not have the type that the pointer points to");
	if (op->nuses > 2 && check_mask(lo, src[2], src[0])) return lo->code;
	struct vm_instr *in = lower_emit(lo, OP_STORE, NULL, 0, src, op->nuses);
	if (in) in->n = lower_info(lo, src[1])->count;
	return lo->code;
}

static const char *const rmw_names[] = {"and", "or", "xor", "add", "fadd", "max", "min", "umax", "umin", "exch"};

/* Ordering and scope: ORDER_ bits in *order. */
static int check_order(struct lowerer *lo, const struct ttir_op *op, int first, int32_t *order)
{
	static const struct {
		const char *word;
		int32_t order;
	} known[] = {{"relaxed", 0}, {"acquire", ORDER_ACQUIRE}, {"release", ORDER_RELEASE},
		{"acq_rel", ORDER_ACQUIRE | ORDER_RELEASE}, {"gpu", 0}, {"cta", ORDER_LOCAL}, {"sys", ORDER_SYSTEM}};
	*order = 0;
	for (int i = first; i < op->nwords; i++) {
		bool is_known = false;
		for (size_t k = 0; k < ARRAY_LEN(known); k++) {
			if (!slice_is(op->words[i], known[k].word)) continue;
			is_known = true;
			*order |= known[k].order;
		}
		if (!is_known)
			return lower_fail(lo, ERR_UNSUPPORTED, "%.*s with '%.*s'", (int)op->name.len, op->name.data,
				(int)MIN(op->words[i].len, 40), op->words[i].data);
	}
	return 0;
}

int lower_atomic_rmw(struct lowerer *lo, const struct ttir_op *op, const struct lower_row *row)
{
	int src[3], type, kind = -1;
	int32_t order;
	for (size_t i = 0; i < ARRAY_LEN(rmw_names); i++)
		if (op->nwords && slice_is(op->words[0], rmw_names[i])) kind = (int)i;
	if (kind < 0) return lower_fail(lo, ERR_FORMAT, "tt.atomic_rmw needs an operation");
	/* Ordering and scope, then pointer, value and perhaps a mask of one shape. */
	if (check_order(lo, op, 1, &order) || lower_uses(lo, op, 0, op->nuses, src) || pointee_type(lo, src[0], &type))
		return lo->code;
	if (lower_info(lo, src[1])->type != type)
		return lower_fail(
			lo, ERR_FORMAT, "the value of tt.atomic_rmw does not have the type that the pointer points to");
	if (op->nuses > 2 && check_mask(lo, src[2], src[0])) return lo->code;
	enum elem e = lower_info(lo, src[1])->elem;
	/* Which operations a type has: fadd is of floats, exchange of anything of a register's size,
	 * all others of integers. */
	bool is_legal = kind == 4 ? elem_is_float(e) && elem_bytes(e) > 1
		: kind == 9           ? elem_bytes(e) >= 4 || elem_is_int(e)
							  : elem_is_int(e) && e != ELEM_I1;
	if (!is_legal) return lower_fail(lo, ERR_UNSUPPORTED, "tt.atomic_rmw %s on %s", rmw_names[kind], elem_name(e));
	if (lower_written(lo, op, op->nuses, type)) return lo->code;
	int dst = lower_result(lo, op, 0, type);
	struct vm_instr *in = dst < 0 ? NULL : lower_emit(lo, OP_ATOMIC_RMW, &dst, 1, src, op->nuses);
	if (in) in->imm[0] = kind;
	if (in) in->imm[3] = order;
	lo->p->has_atomics = true;
	return lo->code;
}

int lower_atomic_cas(struct lowerer *lo, const struct ttir_op *op, const struct lower_row *row)
{
	int src[3], type;
	int32_t order;
	if (check_order(lo, op, 0, &order) || lower_uses(lo, op, 0, 3, src) || pointee_type(lo, src[0], &type))
		return lo->code;
	if (lower_info(lo, src[1])->type != type || lower_info(lo, src[2])->type != type)
		return lower_fail(
			lo, ERR_FORMAT, "the values of tt.atomic_cas do not have the type that the pointer points to");
	if (elem_bytes(lower_info(lo, src[1])->elem) < 2)
		return lower_fail(lo, ERR_UNSUPPORTED, "tt.atomic_cas on %s", elem_name(lower_info(lo, src[1])->elem));
	if (lower_written(lo, op, 3, type)) return lo->code;
	int dst = lower_result(lo, op, 0, type);
	lo->p->has_atomics = true;
	struct vm_instr *in = dst < 0 ? NULL : lower_emit(lo, OP_ATOMIC_CAS, &dst, 1, src, 3);
	if (in) in->imm[3] = order;
	return lo->code;
}
