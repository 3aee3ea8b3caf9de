/* Lowering of block pointers and tensor descriptors.
 *
 * At run time both are a record of 64-bit numbers: base address, then per dimension shape, stride
 * and offset. A load or store first turns the record into an affine block of pointers and a box
 * mask (OP_BLOCK_ADDRESS), and is then an ordinary load or store: one place checks memory.
 * Triton's own rewrite pass does the same with more arithmetic. */
#include "vm/exec/exec.h"
#include "base/base.h"
#include "ttir/ttir.h"
#include "vm/core/program.h"
#include "vm/core/state.h"
#include "vm/lower/lower.h"

static struct ttir_type *tensor_of(struct lowerer *lo, int value)
{
	return lower_type(lo, lower_type(lo, lower_info(lo, value)->type)->inner);
}

static int check_scalars(struct lowerer *lo, const int *v, int n, enum elem e, const char *what)
{
	for (int i = 0; i < n; i++)
		if (lower_info(lo, v[i])->ndim || lower_info(lo, v[i])->elem != e)
			return lower_fail(lo, ERR_FORMAT, "%.*s: %s %d is not a scalar %s", (int)lo->op->name.len,
				lo->op->name.data, what, i, elem_name(e));
	return 0;
}

/* Result of kind block pointer or descriptor whose pointee scalar is what base points to. */
static int check_record(struct lowerer *lo, int base, int type, enum type_kind kind)
{
	const struct ttir_type *t = lower_type(lo, type), *b = lower_type(lo, lower_info(lo, base)->type);
	if (t->kind != kind || b->kind != TYPE_SCALAR || b->elem != ELEM_PTR || b->inner != lower_type(lo, t->inner)->inner)
		return lower_fail(lo, ERR_FORMAT, "%.*s: the base does not point to the block's elements",
			(int)lo->op->name.len, lo->op->name.data);
	if (lower_type(lo, t->inner)->ndim > VM_LAZY_DIMS)
		return lower_fail(lo, ERR_UNSUPPORTED, "%.*s of more than %d dimensions", (int)lo->op->name.len,
			lo->op->name.data, VM_LAZY_DIMS);
	return 0;
}

/* base, [shape], [strides], [offsets] */
int lower_make_tensor_ptr(struct lowerer *lo, const struct ttir_op *op, const struct lower_row *row)
{
	int src[1 + 3 * VM_LAZY_DIMS];
	if (op->ntypes != 1) return lower_fail(lo, ERR_FORMAT, "tt.make_tensor_ptr needs one type");
	if (lower_uses(lo, op, 0, op->nuses, src) || check_record(lo, src[0], op->types[0], TYPE_BLOCK_PTR))
		return lo->code;
	int n = lower_type(lo, lower_type(lo, op->types[0])->inner)->ndim;
	if (op->nuses != 1 + 3 * n)
		return lower_fail(lo, ERR_FORMAT, "tt.make_tensor_ptr: %d operands for %d dimensions", op->nuses, n);
	if (check_scalars(lo, src + 1, 2 * n, ELEM_I64, "shape or stride") ||
		check_scalars(lo, src + 1 + 2 * n, n, ELEM_I32, "offset"))
		return lo->code;
	int dst = lower_result(lo, op, 0, op->types[0]);
	return dst < 0 || !lower_emit(lo, OP_BLOCK_PTR, &dst, 1, src, op->nuses) ? lo->code : 0;
}

int lower_advance(struct lowerer *lo, const struct ttir_op *op, const struct lower_row *row)
{
	int src[1 + VM_LAZY_DIMS];
	if (lower_uses(lo, op, 0, op->nuses, src)) return lo->code;
	const struct ttir_type *t = lower_type(lo, lower_info(lo, src[0])->type);
	if (t->kind != TYPE_BLOCK_PTR || op->nuses != 1 + tensor_of(lo, src[0])->ndim)
		return lower_fail(lo, ERR_FORMAT, "tt.advance needs a block pointer and an offset for each dimension");
	if (check_scalars(lo, src + 1, op->nuses - 1, ELEM_I32, "offset")) return lo->code;
	int dst = lower_result(lo, op, 0, lower_info(lo, src[0])->type);
	return dst < 0 || !lower_emit(lo, OP_ADVANCE, &dst, 1, src, op->nuses) ? lo->code : 0;
}

/* base, [shape], [strides] */
int lower_make_descriptor(struct lowerer *lo, const struct ttir_op *op, const struct lower_row *row)
{
	int src[1 + 2 * VM_LAZY_DIMS];
	int64_t padding = 1;
	if (op->ntypes != 2) return lower_fail(lo, ERR_FORMAT, "tt.make_tensor_descriptor needs two types");
	/* The pretty form prints the result as <tensor<...>>, which reads as a block pointer. */
	struct ttir_type desc = *lower_type(lo, op->types[1]);
	if (desc.kind == TYPE_BLOCK_PTR) desc.kind = TYPE_DESC;
	int type = ttir_type_intern(lo->m, &desc);
	if (type < 0) return lower_fail(lo, ERR_LIMIT, "too many types");
	if (lower_uses(lo, op, 0, op->nuses, src) || check_record(lo, src[0], type, TYPE_DESC)) return lo->code;
	if (lower_attr(op, "padding") && lower_attr_int(lo, op, "padding", 1, 2, &padding)) return lo->code;
	int n = lower_type(lo, lower_type(lo, type)->inner)->ndim;
	if (op->nuses != 1 + 2 * n)
		return lower_fail(lo, ERR_FORMAT, "tt.make_tensor_descriptor: %d operands for %d dimensions", op->nuses, n);
	if (check_scalars(lo, src + 1, n, ELEM_I32, "shape") || check_scalars(lo, src + 1 + n, n, ELEM_I64, "stride"))
		return lo->code;
	int dst = lower_result(lo, op, 0, type);
	struct vm_instr *in = dst < 0 ? NULL : lower_emit(lo, OP_BLOCK_PTR, &dst, 1, src, op->nuses);
	if (!in) return lo->code;
	in->imm[0] = 1;
	in->imm[1] = padding == 2;
	return 0;
}

/* New values for the pointers, the mask and, if nout is 3, the padding of a block of the given
 * type. */
static int address_values(struct lowerer *lo, int tensor, int *out, int nout)
{
	struct ttir_type t = *lower_type(lo, tensor),
					 pointer = {.kind = TYPE_SCALAR, .elem = ELEM_PTR, .inner = t.inner, .count = 1};
	t.inner = ttir_type_intern(lo->m, &pointer);
	t.elem = ELEM_PTR;
	int pointers = t.inner < 0 ? t.inner : ttir_type_intern(lo->m, &t), bools = lower_same_shape(lo, tensor, ELEM_I1);
	if (pointers < 0 || bools < 0) return lower_fail(lo, ERR_LIMIT, "too many types");
	out[0] = lower_value_new(lo, pointers);
	out[1] = lower_value_new(lo, bools);
	if (nout == 3) out[2] = lower_value_new(lo, tensor);
	return lo->code;
}

/* address_values of a record's block; a descriptor's indices may follow the record. checked: bit d
 * when dimension d is bounded by the shape. */
static int emit_address(struct lowerer *lo, const int *src, int nsrc, uint32_t checked, int *out, int nout)
{
	if (address_values(lo, lower_type(lo, lower_info(lo, src[0])->type)->inner, out, nout)) return lo->code;
	struct vm_instr *in = lower_emit(lo, OP_BLOCK_ADDRESS, out, nout, src, nsrc);
	if (!in) return lo->code;
	in->imm[0] = (int32_t)checked;
	return 0;
}

static int boundary_bits(struct lowerer *lo, const struct ttir_op *op, int ndim, uint32_t *out)
{
	const struct ttir_attr *a = lower_attr(op, "boundaryCheck");
	*out = 0;
	if (a && a->kind != ATTR_INTS) return lower_fail(lo, ERR_FORMAT, "boundaryCheck is not a list");
	for (int i = 0; a && i < a->nitems; i++) {
		if (a->ints[i] < 0 || a->ints[i] >= ndim)
			return lower_fail(lo, ERR_RANGE, "boundaryCheck of dimension %lld of %d", (long long)a->ints[i], ndim);
		*out |= 1u << a->ints[i];
	}
	return 0;
}

/* other < 0: what lies outside is undefined. */
static int emit_load(struct lowerer *lo, const int address[2], int other, int dst)
{
	int src[3] = {address[0], address[1], other};
	uint8_t *bits = arena_alloc(&lo->k->arena, 8);
	vm_pattern(lower_info(lo, dst)->elem, bits);
	struct vm_instr *in = lower_emit(lo, OP_LOAD, &dst, 1, src, other < 0 ? 2 : 3);
	if (in) in->extra = bits;
	return lo->code;
}

int lower_block_load(struct lowerer *lo, const struct ttir_op *op, int ptr)
{
	uint32_t checked;
	int64_t padding = 0;
	int address[2], tensor = lower_type(lo, lower_info(lo, ptr)->type)->inner;
	if (op->nuses != 1) return lower_fail(lo, ERR_FORMAT, "tt.load of a block pointer with a mask");
	if (boundary_bits(lo, op, lower_type(lo, tensor)->ndim, &checked)) return lo->code;
	if (lower_attr(op, "padding") && lower_attr_int(lo, op, "padding", 1, 2, &padding)) return lo->code;
	if (padding == 2 && !elem_is_float(lower_type(lo, tensor)->elem))
		return lower_fail(lo, ERR_FORMAT, "NaN padding of integers");
	if (emit_address(lo, &ptr, 1, checked, address, 2)) return lo->code;
	int dst = lower_result(lo, op, 0, tensor), other = -1;
	if (dst < 0) return dst;
	if (padding) {
		uint8_t bits[8] = {0};
		other = lower_value_new(lo, tensor);
		if (other < 0) return other;
		if (padding == 2) vm_pattern(lower_info(lo, dst)->elem, bits);
		lower_const(lo, other, bits);
	}
	return emit_load(lo, address, other, dst);
}

int lower_block_store(struct lowerer *lo, const struct ttir_op *op, const int *src)
{
	uint32_t checked;
	int address[2], tensor = lower_type(lo, lower_info(lo, src[0])->type)->inner;
	if (op->nuses != 2) return lower_fail(lo, ERR_FORMAT, "tt.store to a block pointer with a mask");
	if (lower_info(lo, src[1])->type != tensor)
		return lower_fail(lo, ERR_FORMAT, "the value of tt.store does not have the block's type");
	if (boundary_bits(lo, op, lower_type(lo, tensor)->ndim, &checked) || emit_address(lo, src, 1, checked, address, 2))
		return lo->code;
	struct vm_instr *in = lower_emit(lo, OP_STORE, NULL, 0, (int[]){address[0], src[1], address[1]}, 3);
	if (in) in->n = lower_info(lo, src[1])->count;
	return lo->code;
}

/* ---- descriptors ---- */

/* desc[indices]: all dimensions bounded. *indices: how many operands they
 * and the descriptor are. */
static int descriptor_operands(struct lowerer *lo, const struct ttir_op *op, int *src, int *count)
{
	if (lower_uses(lo, op, 0, op->nuses, src)) return lo->code;
	if (lower_type(lo, lower_info(lo, src[0])->type)->kind != TYPE_DESC)
		return lower_fail(lo, ERR_FORMAT, "%.*s needs a tensor descriptor", (int)op->name.len, op->name.data);
	*count = 1 + tensor_of(lo, src[0])->ndim;
	if (op->nuses < *count)
		return lower_fail(lo, ERR_FORMAT, "%.*s: too few indices", (int)op->name.len, op->name.data);
	return check_scalars(lo, src + 1, *count - 1, ELEM_I32, "index");
}

/* The result may leave out leading dimensions of 1. */
static bool same_elements(const struct ttir_type *a, const struct ttir_type *b)
{
	return a->kind == TYPE_TENSOR && b->kind == TYPE_TENSOR && a->inner == b->inner && a->count == b->count;
}

int lower_descriptor_load(struct lowerer *lo, const struct ttir_op *op, const struct lower_row *row)
{
	int src[1 + VM_LAZY_DIMS + 1], count, address[3];
	if (descriptor_operands(lo, op, src, &count)) return lo->code;
	int tensor = lower_type(lo, lower_info(lo, src[0])->type)->inner;
	if (op->nuses != count || op->ntypes != 2 || !same_elements(lower_type(lo, tensor), lower_type(lo, op->types[1])))
		return lower_fail(lo, ERR_FORMAT, "tt.descriptor_load: the result does not have the block's type");
	if (emit_address(lo, src, count, ~0u, address, 3)) return lo->code;
	int loaded = lower_value_new(lo, tensor);
	if (loaded < 0) return lo->code;
	if (emit_load(lo, address, address[2], loaded)) return lo->code;
	int dst = lower_result(lo, op, 0, op->types[1]);
	return dst < 0 || !lower_emit(lo, OP_RESHAPE, &dst, 1, &loaded, 1) ? lo->code : 0;
}

/* The value in the block's own shape. */
static int as_block(struct lowerer *lo, const struct ttir_op *op, int value, int tensor)
{
	if (!same_elements(lower_type(lo, tensor), lower_type(lo, lower_info(lo, value)->type)))
		return lower_fail(
			lo, ERR_FORMAT, "%.*s: the value does not have the block's type", (int)op->name.len, op->name.data);
	int shaped = lower_value_new(lo, tensor);
	return shaped < 0 || !lower_emit(lo, OP_RESHAPE, &shaped, 1, &value, 1) ? lo->code : shaped;
}

int lower_descriptor_store(struct lowerer *lo, const struct ttir_op *op, const struct lower_row *row)
{
	int src[1 + VM_LAZY_DIMS + 1], count, address[2];
	if (descriptor_operands(lo, op, src, &count)) return lo->code;
	if (op->nuses != count + 1) return lower_fail(lo, ERR_FORMAT, "tt.descriptor_store without a value");
	int tensor = lower_type(lo, lower_info(lo, src[0])->type)->inner, value = as_block(lo, op, src[count], tensor);
	if (value < 0 || emit_address(lo, src, count, ~0u, address, 2)) return lo->code;
	struct vm_instr *in = lower_emit(lo, OP_STORE, NULL, 0, (int[]){address[0], value, address[1]}, 3);
	if (in) in->n = lower_info(lo, value)->count;
	return lo->code;
}

/* ---- rows of a descriptor whose block is one row: gather and scatter; and reductions into memory
 * ---- */

/* desc[rows, column]: address_values of the rows' block, which has the given type. */
static int emit_rows(struct lowerer *lo, const struct ttir_op *op, int tensor, int *out, int nout)
{
	int src[3];
	if (lower_uses(lo, op, 0, 3, src)) return lo->code;
	int len = (int)op->name.len;
	const char *name = op->name.data;
	if (lower_type(lo, lower_info(lo, src[0])->type)->kind != TYPE_DESC)
		return lower_fail(lo, ERR_FORMAT, "%.*s needs a tensor descriptor", len, name);
	struct ttir_type row = *tensor_of(lo, src[0]), block = *lower_type(lo, tensor);
	const struct vm_value_info *rows = lower_info(lo, src[1]);
	if (row.ndim != 2 || row.shape[0] != 1 || block.kind != TYPE_TENSOR || block.ndim != 2 ||
		block.inner != row.inner || block.shape[1] != row.shape[1] || rows->ndim != 1 || rows->elem != ELEM_I32 ||
		rows->shape[0] != block.shape[0])
		return lower_fail(lo, ERR_UNSUPPORTED,
			"%.*s: expected a block of one row, 32-bit row numbers and as many rows as there are numbers", len, name);
	if (check_scalars(lo, src + 2, 1, ELEM_I32, "column")) return lo->code;
	if (address_values(lo, tensor, out, nout)) return lo->code;
	return lower_emit(lo, OP_ROW_ADDRESS, out, nout, src, 3) ? 0 : lo->code;
}

int lower_descriptor_gather(struct lowerer *lo, const struct ttir_op *op, const struct lower_row *row)
{
	int address[3], tensor = op->ntypes ? op->types[op->ntypes - 1] : -1;
	if (op->ntypes != 4) return lower_fail(lo, ERR_FORMAT, "tt.descriptor_gather needs four types");
	if (emit_rows(lo, op, tensor, address, 3)) return lo->code;
	int dst = lower_result(lo, op, 0, tensor);
	return dst < 0 ? lo->code : emit_load(lo, address, address[2], dst);
}

int lower_descriptor_scatter(struct lowerer *lo, const struct ttir_op *op, const struct lower_row *row)
{
	int address[2], value;
	if (lower_uses(lo, op, 3, 1, &value) || emit_rows(lo, op, lower_info(lo, value)->type, address, 2)) return lo->code;
	struct vm_instr *in = lower_emit(lo, OP_STORE, NULL, 0, (int[]){address[0], value, address[1]}, 3);
	if (in) in->n = lower_info(lo, value)->count;
	return lo->code;
}

int lower_descriptor_reduce(struct lowerer *lo, const struct ttir_op *op, const struct lower_row *row)
{
	static const struct {
		const char *word;
		int integers; /* the atomic operation's number; -1: there is none */
		int floats;
	} kinds[] = {
		{"add", 3, 4},
		{"max", 5, -1},
		{"min", 6, -1},
		{"and", 0, -1},
		{"or", 1, -1},
		{"xor", 2, -1},
	};
	/* The descriptor, the corner of its block, and a value of that block's type. */
	int src[1 + VM_LAZY_DIMS + 1], count, address[2], kind = -1;
	if (descriptor_operands(lo, op, src, &count)) return lo->code;
	if (op->nuses != count + 1) return lower_fail(lo, ERR_FORMAT, "tt.descriptor_reduce without a value");
	int tensor = lower_type(lo, lower_info(lo, src[0])->type)->inner, value = as_block(lo, op, src[count], tensor);
	if (value < 0) return lo->code;
	enum elem e = lower_info(lo, value)->elem;
	/* What is done to memory, by the name and whether elements are floats. */
	for (size_t i = 0; i < ARRAY_LEN(kinds); i++)
		if (op->nwords == 1 && slice_is(op->words[0], kinds[i].word))
			kind = elem_is_float(e) ? kinds[i].floats : kinds[i].integers;
	if (kind < 0 || e == ELEM_I1 || (elem_is_float(e) && elem_bytes(e) < 2))
		return lower_fail(lo, ERR_UNSUPPORTED, "tt.descriptor_reduce %.*s on %s",
			op->nwords ? (int)MIN(op->words[0].len, 20) : 0, op->nwords ? op->words[0].data : "", elem_name(e));
	/* Pointers and mask of the block inside of the tensor's bounds, then one atomic over them. */
	if (emit_address(lo, src, count, ~0u, address, 2)) return lo->code;
	int before = lower_value_new(lo, tensor); /* what was there; nobody asks */
	struct vm_instr *in = before < 0
		? NULL
		: lower_emit(lo, OP_ATOMIC_RMW, &before, 1, (int[]){address[0], value, address[1]}, 3);
	if (in) in->imm[0] = kind;
	lo->p->has_atomics = true;
	return lo->code;
}
