/* Lowering of element-wise operations: the maps of map.h, comparisons, casts, select, constants.
 * Here operand types are checked, so that the kernels never see an array of another type or length
 * than they expect. */
#include "vm/exec/exec.h"
#include "base/base.h"
#include "ttir/ttir.h"
#include "vm/core/program.h"
#include "vm/lower/lower.h"
#include "vm/map/map.h"
#include <stdlib.h>

int lower_same_types(struct lowerer *lo, const int *v, int n)
{
	enum type_kind kind = lower_type(lo, lower_info(lo, v[0])->type)->kind;
	if (kind != TYPE_SCALAR && kind != TYPE_TENSOR)
		return lower_fail(lo, ERR_UNSUPPORTED, "%.*s on block pointers", (int)lo->op->name.len, lo->op->name.data);
	for (int i = 1; i < n; i++)
		if (lower_info(lo, v[i])->type != lower_info(lo, v[0])->type)
			return lower_fail(
				lo, ERR_FORMAT, "operands of %.*s have different types", (int)lo->op->name.len, lo->op->name.data);
	return 0;
}

int lower_no_kernel(struct lowerer *lo, enum elem e)
{
	return lower_fail(lo, ERR_UNSUPPORTED, "%.*s on %s", (int)lo->op->name.len, lo->op->name.data, elem_name(e));
}

/* A kernel over operands of one type with a result of the type `result_type`. */
struct vm_instr *lower_emit_map(
	struct lowerer *lo, enum vm_op opcode, map_fn *kernel, const int *src, int nsrc, int result_type, int result_index)
{
	if (lo->code) return NULL;
	if (!kernel) {
		lower_no_kernel(lo, lower_info(lo, src[0])->elem);
		return NULL;
	}
	int dst = lower_result(lo, lo->op, result_index, result_type);
	struct vm_instr *in = dst < 0 ? NULL : lower_emit(lo, opcode, &dst, 1, src, nsrc);
	if (in) in->kernel = kernel;
	return in;
}

struct vm_instr *lower_emit_op(struct lowerer *lo, enum map_op op, const int *src, int nsrc, int result_index)
{
	static vm_affine_rule *const rules[MAP_COUNT] = {
		[MAP_ADDI] = rule_add,
		[MAP_SUBI] = rule_sub,
		[MAP_MULI] = rule_mul,
		[MAP_REMSI] = rule_rem,
		[MAP_REMUI] = rule_rem,
		[MAP_DIVSI] = rule_div,
		[MAP_DIVUI] = rule_div,
		[MAP_ANDI] = rule_and,
	};
	const struct vm_value_info info = *lower_info(lo, src[0]);
	map_fn *kernel = info.elem == ELEM_PTR ? NULL : map_kernel(op, info.elem);
	struct vm_instr *in = lower_emit_map(
		lo, op >= MAP_DIVSI && op <= MAP_FLOORDIVSI ? OP_DIVIDE : OP_MAP, kernel, src, nsrc, info.type, result_index);
	if (!in) return NULL;
	in->map_op = (int16_t)op;
	in->imm[0] = elem_is_narrow(info.elem);
	in->flops = map_rows[op].flops;
	in->special = map_rows[op].special;
	bool is_bool = info.elem == ELEM_I1;
	if (elem_is_int(info.elem) && is_bool == (op == MAP_ANDI)) in->rule = rules[op];
	return in;
}

int lower_map(struct lowerer *lo, const struct ttir_op *op, const struct lower_row *row)
{
	int src[3];
	if (lower_uses(lo, op, 0, op->nuses, src) || lower_same_types(lo, src, op->nuses) ||
		lower_written(lo, op, 0, lower_info(lo, src[0])->type))
		return lo->code;
	lower_emit_op(lo, (enum map_op)row->arg, src, op->nuses, 0);
	return lo->code;
}

int lower_clamp(struct lowerer *lo, const struct ttir_op *op, const struct lower_row *row)
{
	const struct ttir_attr *nan = lower_attr(op, "propagateNan");
	if (!nan || nan->kind != ATTR_KEYWORD || !(slice_is(nan->text, "all") || slice_is(nan->text, "none")))
		return lower_fail(lo, ERR_FORMAT, "tt.clampf needs propagateNan = all or none");
	struct lower_row as = *row;
	as.arg = slice_is(nan->text, "all") ? MAP_CLAMPF_NAN : MAP_CLAMPF;
	return lower_map(lo, op, &as);
}

/* Low and high half of a product, or sum and carry. */
int lower_extended(struct lowerer *lo, const struct ttir_op *op, const struct lower_row *row)
{
	int src[2];
	if (lower_uses(lo, op, 0, 2, src) || lower_same_types(lo, src, 2) ||
		lower_written(lo, op, 0, lower_info(lo, src[0])->type))
		return lo->code;
	if (!elem_is_int(lower_info(lo, src[0])->elem)) return lower_no_kernel(lo, lower_info(lo, src[0])->elem);
	bool is_add = row->arg == MAP_ADDI;
	struct vm_instr *low = lower_emit_op(lo, is_add ? MAP_ADDI : MAP_MULI, src, 2, 0);
	if (!low) return lo->code;
	int sum = lo->p->ids[low->dst];
	if (!is_add) {
		lower_emit_op(lo, (enum map_op)row->arg, src, 2, 1);
		return lo->code;
	}
	/* carry: the sum is below an operand */
	int bool_type = lower_same_shape(lo, lower_info(lo, src[0])->type, ELEM_I1);
	if (bool_type < 0) return lo->code;
	struct vm_instr *in = lower_emit_map(lo, OP_MAP,
		map_cmpi_kernel((struct slice){"ult", 3}, lower_info(lo, src[0])->elem), (int[]){sum, src[0]}, 2, bool_type, 1);
	if (in) in->imm[1] = -1;
	return lo->code;
}

int lower_cmp(struct lowerer *lo, const struct ttir_op *op, const struct lower_row *row)
{
	static const char *const lazy[] = {"slt", "sle", "sgt", "sge", "ult", "ule", "ugt", "uge"};
	/* The predicate: a word, or for cmpf also true or false. */
	int src[2];
	bool is_literal = op->nwords == 0 && op->nliterals == 1 &&
		op->literals[0].kind == ATTR_BOOL; /* cmpf true, cmpf false */
	if (op->nwords != 1 && !is_literal)
		return lower_fail(lo, ERR_FORMAT, "%.*s needs one predicate", (int)op->name.len, op->name.data);
	struct slice predicate = is_literal ? op->literals[0].text : op->words[0];
	if (lower_uses(lo, op, 0, 2, src) || lower_same_types(lo, src, 2) ||
		lower_written(lo, op, 0, lower_info(lo, src[0])->type))
		return lo->code;
	/* A block of bits of the operands' shape, by the kernel of the predicate and their type. */
	const struct vm_value_info info = *lower_info(lo, src[0]);
	int type = lower_same_shape(lo, info.type, ELEM_I1);
	if (type < 0) return lo->code;
	map_fn *kernel = row->arg ? map_cmpf_kernel(predicate, info.elem) : map_cmpi_kernel(predicate, info.elem);
	if (!kernel)
		return lower_fail(lo, ERR_UNSUPPORTED, "%.*s %.*s on %s", (int)op->name.len, op->name.data,
			(int)MIN(predicate.len, 20), predicate.data, elem_name(info.elem));
	struct vm_instr *in = lower_emit_map(lo, OP_MAP, kernel, src, 2, type, 0);
	if (!in) return lo->code;
	in->imm[0] = elem_is_narrow(info.elem);
	in->flops = row->arg ? 1 : 0;
	/* Ordered comparisons of integers may stay lazy: an affine block against a scalar is a box. */
	in->imm[1] = -1;
	in->imm[3] = map_cmp_orders(predicate);
	if (row->arg) {
		in->number = NUMBER_COMPARE;
		in->imm[2] = map_cmp_orders(predicate);
	}
	if (row->arg || info.elem == ELEM_I1) return 0;
	for (int i = 0; i < 8; i++)
		if (slice_is(predicate, lazy[i])) {
			in->imm[1] = i % 4;
			in->imm[2] = i / 4;
			in->rule = rule_cmp;
		}
	return 0;
}

/* math.isnan and its kind */
int lower_class(struct lowerer *lo, const struct ttir_op *op, const struct lower_row *row)
{
	int src;
	if (lower_uses(lo, op, 0, 1, &src) || lower_written(lo, op, 0, lower_info(lo, src)->type)) return lo->code;
	const struct vm_value_info info = *lower_info(lo, src);
	int type = lower_same_shape(lo, info.type, ELEM_I1);
	if (type < 0) return lo->code;
	struct vm_instr *in = lower_emit_map(
		lo, OP_MAP, map_class_kernel(row->name + strlen("math."), info.elem, ELEM_I1), &src, 1, type, 0);
	if (!in) return lo->code;
	in->imm[0] = elem_is_narrow(info.elem);
	in->number = NUMBER_CLASS;
	in->imm[2] = map_class_of(row->name + strlen("math."));
	in->flops = 1;
	return 0;
}

int lower_sincos(struct lowerer *lo, const struct ttir_op *op, const struct lower_row *row)
{
	int src;
	if (lower_uses(lo, op, 0, 1, &src) || lower_written(lo, op, 0, lower_info(lo, src)->type)) return lo->code;
	if (lower_emit_op(lo, MAP_SIN, &src, 1, 0)) lower_emit_op(lo, MAP_COS, &src, 1, 1);
	return lo->code;
}

int lower_select(struct lowerer *lo, const struct ttir_op *op, const struct lower_row *row)
{
	int src[3];
	if (lower_uses(lo, op, 0, 3, src) || lower_same_types(lo, src + 1, 2)) return lo->code;
	const struct vm_value_info info = *lower_info(lo, src[1]), mask = *lower_info(lo, src[0]);
	if (mask.elem != ELEM_I1) return lower_fail(lo, ERR_FORMAT, "the condition of arith.select is not i1");
	if (mask.ndim == 0 && info.ndim) {
		/* a scalar condition picks one of two blocks; its form is always splat */
	} else if (mask.type != lower_same_shape(lo, info.type, ELEM_I1)) {
		return lower_fail(lo, ERR_FORMAT, "the condition of arith.select has another shape than its values");
	}
	if (op->ntypes < 1 || op->types[op->ntypes - 1] != info.type) return lower_written(lo, op, op->ntypes, info.type);
	struct vm_instr *in = lower_emit_map(lo, OP_SELECT, map_select_kernel(elem_bytes(info.elem)), src, 3, info.type, 0);
	if (in) in->n = lo->in_region ? 0 : info.count;
	return lo->code;
}

/* ---- casts ---- */

bool lower_cast_is_legal(const char *kind, enum elem from, enum elem to)
{
	size_t a = elem_bytes(from), b = elem_bytes(to);
	bool from_bool = from == ELEM_I1 && to != ELEM_I1, to_bool = to == ELEM_I1 && from != ELEM_I1;
	if (!strcmp(kind, "extsi") || !strcmp(kind, "extui"))
		return elem_is_int(from) && elem_is_int(to) && (a < b || from_bool);
	if (!strcmp(kind, "trunci")) return elem_is_int(from) && elem_is_int(to) && (a > b || to_bool);
	if (!strncmp(kind, "index_cast", 10))
		return elem_is_int(from) && elem_is_int(to) && from != ELEM_I1 && to != ELEM_I1;
	if (!strcmp(kind, "extf")) return elem_is_float(from) && elem_is_float(to) && a < b;
	if (!strcmp(kind, "truncf")) return elem_is_float(from) && elem_is_float(to) && a > b;
	if (!strcmp(kind, "sitofp") || !strcmp(kind, "uitofp")) return elem_is_int(from) && elem_is_float(to);
	return elem_is_float(from) && elem_is_int(to);
}

static enum vm_number cast_number(const char *kind, enum elem from, enum elem to)
{
	if (elem_is_float(from) && elem_is_float(to)) return NUMBER_CAST;
	if (elem_is_float(to)) return kind[0] == 'u' ? NUMBER_FROM_UNSIGNED : NUMBER_FROM_SIGNED;
	if (elem_is_float(from)) return !strcmp(kind, "fptoui") ? NUMBER_TO_UNSIGNED : NUMBER_TO_SIGNED;
	return NUMBER_NONE;
}

int lower_emit_cast(struct lowerer *lo, const char *kind, int src, int type)
{
	const struct vm_value_info from = *lower_info(lo, src);
	enum elem to = lower_type(lo, type)->elem;
	bool strips;
	map_fn *kernel = map_cast_kernel(kind, from.elem, to, &strips);
	if (!kernel)
		return lower_fail(lo, ERR_UNSUPPORTED, "%.*s from %s to %s", (int)lo->op->name.len, lo->op->name.data,
			elem_name(from.elem), elem_name(to));
	struct vm_instr *in = lower_emit_map(lo, OP_MAP, kernel, &src, 1, type, 0);
	if (!in) return lo->code;
	in->imm[0] = strips;
	in->number = (uint8_t)cast_number(kind, from.elem, to);
	bool is_unsigned = !strcmp(kind, "extui") || !strcmp(kind, "index_castui");
	in->imm[1] = is_unsigned;
	if (elem_is_int(from.elem) && elem_is_int(to) && from.elem != ELEM_I1 && to != ELEM_I1) in->rule = rule_cast;
	return 0;
}

/* The operand of a cast, written as its own type "to" another: the two differ in the element alone.
 * To a pointer there is no cast, which is for lower_emit_cast to say. */
static int cast_types(struct lowerer *lo, const struct ttir_op *op, int *src)
{
	if (op->ntypes != 2) return lower_fail(lo, ERR_FORMAT, "%.*s needs two types", (int)op->name.len, op->name.data);
	if (lower_uses(lo, op, 0, 1, src) || lower_written(lo, op, 0, lower_info(lo, *src)->type)) return lo->code;
	if (lower_same_shape(lo, op->types[0], lower_type(lo, op->types[1])->elem) != op->types[1] &&
		lower_type(lo, op->types[1])->elem != ELEM_PTR && !lo->code)
		return lower_fail(lo, ERR_FORMAT, "%.*s changes the shape", (int)op->name.len, op->name.data);
	return lo->code;
}

int lower_cast(struct lowerer *lo, const struct ttir_op *op, const struct lower_row *row)
{
	const char *kind = row->name + strlen("arith.");
	int src;
	for (int i = 0; i < op->nwords; i++)
		if (!slice_is(op->words[i], "to_nearest_even"))
			return lower_fail(lo, ERR_UNSUPPORTED, "%.*s with rounding '%.*s'", (int)op->name.len, op->name.data,
				(int)MIN(op->words[i].len, 40), op->words[i].data);
	if (cast_types(lo, op, &src)) return lo->code;
	enum elem from = lower_info(lo, src)->elem, to = lower_type(lo, op->types[1])->elem;
	if (!lower_cast_is_legal(kind, from, to))
		return lower_fail(lo, ERR_FORMAT, "%s from %s to %s", row->name, elem_name(from), elem_name(to));
	return lower_emit_cast(lo, kind, src, op->types[1]);
}

int lower_fp_to_fp(struct lowerer *lo, const struct ttir_op *op, const struct lower_row *row)
{
	int src;
	const struct ttir_attr *rounding = lower_attr(op, "rounding");
	if (rounding &&
		(rounding->kind != ATTR_KEYWORD || !(slice_is(rounding->text, "rtz") || slice_is(rounding->text, "rtne"))))
		return lower_fail(lo, ERR_FORMAT, "tt.fp_to_fp rounds rtz or rtne");
	if (cast_types(lo, op, &src)) return lo->code;
	return lower_emit_cast(lo, rounding && slice_is(rounding->text, "rtz") ? "rtz" : "truncf", src, op->types[1]);
}

/* Same bits under another type; pointers count as 64 bits. */
int lower_emit_alias(struct lowerer *lo, int src, int type)
{
	const struct vm_value_info from = *lower_info(lo, src);
	const struct ttir_type *to = lower_type(lo, type);
	if (to->kind != TYPE_SCALAR && to->kind != TYPE_TENSOR)
		return lower_fail(lo, ERR_UNSUPPORTED, "%.*s on block pointers", (int)lo->op->name.len, lo->op->name.data);
	bool is_same_shape = from.ndim == to->ndim &&
		!memcmp(from.shape, to->shape, (size_t)to->ndim * sizeof to->shape[0]);
	if (to->kind != lower_type(lo, from.type)->kind || !is_same_shape ||
		elem_bytes(from.elem) != elem_bytes(to->elem) || (from.elem == ELEM_I1) != (to->elem == ELEM_I1))
		return lower_fail(
			lo, ERR_FORMAT, "%.*s between types of different size", (int)lo->op->name.len, lo->op->name.data);
	int dst = lower_result(lo, lo->op, 0, type);
	if (dst < 0) return dst;
	bool is_number = !elem_is_float(from.elem) && !elem_is_float(to->elem);
	struct vm_instr *in = lower_emit(lo, is_number ? OP_MOVE : OP_BITCAST, &dst, 1, &src, 1);
	return in ? 0 : lo->code;
}

int lower_bitcast(struct lowerer *lo, const struct ttir_op *op, const struct lower_row *row)
{
	int src;
	if (op->ntypes != 2) return lower_fail(lo, ERR_FORMAT, "%.*s needs two types", (int)op->name.len, op->name.data);
	if (lower_uses(lo, op, 0, 1, &src) || lower_written(lo, op, 0, lower_info(lo, src)->type)) return lo->code;
	return lower_emit_alias(lo, src, op->types[1]);
}

int lower_ptr_int(struct lowerer *lo, const struct ttir_op *op, const struct lower_row *row)
{
	if (op->ntypes != 2) return lower_fail(lo, ERR_FORMAT, "%.*s needs two types", (int)op->name.len, op->name.data);
	enum elem a = lower_type(lo, op->types[0])->elem, b = lower_type(lo, op->types[1])->elem;
	bool to_int = row->arg;
	if ((to_int ? a : b) != ELEM_PTR || (to_int ? b : a) != ELEM_I64)
		return lower_fail(
			lo, ERR_FORMAT, "%.*s between %s and %s", (int)op->name.len, op->name.data, elem_name(a), elem_name(b));
	return lower_bitcast(lo, op, row);
}

/* pointer + integer: the offset counts elements. */
int lower_addptr(struct lowerer *lo, const struct ttir_op *op, const struct lower_row *row)
{
	int src[2];
	if (lower_uses(lo, op, 0, 2, src)) return lo->code;
	const struct vm_value_info p = *lower_info(lo, src[0]), offset = *lower_info(lo, src[1]);
	const struct ttir_type *t = lower_type(lo, p.type);
	if (p.elem != ELEM_PTR || (t->kind != TYPE_SCALAR && t->kind != TYPE_TENSOR) || !elem_is_int(offset.elem) ||
		lower_same_shape(lo, p.type, offset.elem) != offset.type)
		return lower_fail(lo, ERR_FORMAT, "tt.addptr needs a pointer and integers of the same shape");
	if (lower_written(lo, op, 0, p.type) || lower_written(lo, op, 1, offset.type)) return lo->code;
	int scalar = t->kind == TYPE_TENSOR ? t->inner : p.type;
	int dst = lower_result(lo, op, 0, p.type);
	struct vm_instr *in = dst < 0 ? NULL : lower_emit(lo, OP_ADDPTR, &dst, 1, src, 2);
	if (!in) return lo->code;
	in->rule = rule_addptr;
	in->imm[1] = (int32_t)elem_bytes(lower_type(lo, lower_type(lo, scalar)->inner)->elem);
	return 0;
}

/* ---- constants ---- */

static int token_bits(struct lowerer *lo, struct slice s, enum elem e, uint8_t bits[8])
{
	char text[64];
	if (s.len >= sizeof text) return lower_fail(lo, ERR_LIMIT, "a number of %zu characters", s.len);
	memcpy(text, s.data, s.len);
	text[s.len] = 0;
	memset(bits, 0, 8);
	/* Integers: true, false, decimal with a sign, or hexadecimal. */
	bool is_hex = !strncmp(text, "0x", 2), is_word = text[0] == 't' || text[0] == 'f';
	if (elem_is_int(e)) {
		if (strpbrk(text, ".eE") && !is_hex && !is_word)
			return lower_fail(lo, ERR_FORMAT, "constant '%s' of an integer type", text);
		uint64_t v = is_word ? text[0] == 't'
			: text[0] == '-' ? (uint64_t)strtoll(text, NULL, 10)
							 : strtoull(text, NULL, is_hex ? 16 : 10);
		if (e == ELEM_I1) v &= 1;
		memcpy(bits, &v, elem_bytes(e));
		return 0;
	}
	/* Floats: the bits in hexadecimal, or a decimal that is rounded to the type once. */
	if (is_word) return lower_fail(lo, ERR_FORMAT, "constant '%s' of a float type", text);
	if (is_hex) {
		uint64_t v = strtoull(text, NULL, 16);
		memcpy(bits, &v, elem_bytes(e));
		return 0;
	}
	double x = strtod(text, NULL);
	bool strips;
	if (e == ELEM_F64) memcpy(bits, &x, 8);
	else map_cast_kernel("truncf", ELEM_F64, e, &strips)(bits, &x, NULL, NULL, 1, 0);
	return 0;
}

static int hex_digit(char c)
{
	return c >= '0' && c <= '9' ? c - '0'
		: c >= 'a' && c <= 'f'  ? c - 'a' + 10
		: c >= 'A' && c <= 'F'  ? c - 'A' + 10
								: -1;
}

/* dense<"0x0123..."> : the elements' bytes. */
static int hex_block(struct lowerer *lo, struct slice s, uint8_t *data, size_t bytes)
{
	if (s.len != bytes * 2 + 2)
		return lower_fail(lo, ERR_FORMAT, "a dense constant of %zu hex digits, expected %zu", s.len, bytes * 2 + 2);
	for (size_t i = 0; i < bytes; i++) {
		int a = hex_digit(s.data[2 + 2 * i]), b = hex_digit(s.data[3 + 2 * i]);
		if (a < 0 || b < 0) return lower_fail(lo, ERR_FORMAT, "a dense constant that is not hex");
		data[i] = (uint8_t)(a << 4 | b);
	}
	return 0;
}

static int constant_block(struct lowerer *lo, const struct ttir_attr *a, int value)
{
	const struct vm_value_info info = *lower_info(lo, value);
	size_t size = elem_bytes(info.elem);
	uint8_t bits[8];
	if (a->nitems == 1) return token_bits(lo, a->items[0], info.elem, bits) ? lo->code : lower_const(lo, value, bits);
	uint8_t *data = arena_alloc(&lo->k->arena, (size_t)info.count * size);
	if (a->nitems == 0) {
		if (info.elem == ELEM_I1) return lower_fail(lo, ERR_UNSUPPORTED, "a packed i1 constant");
		if (hex_block(lo, a->text, data, (size_t)info.count * size)) return lo->code;
	} else {
		if (a->nitems != info.count)
			return lower_fail(
				lo, ERR_FORMAT, "a dense constant of %d elements, the type has %lld", a->nitems, (long long)info.count);
		for (int i = 0; i < a->nitems; i++) {
			if (token_bits(lo, a->items[i], info.elem, bits)) return lo->code;
			memcpy(data + (size_t)i * size, bits, size);
		}
	}
	lower_const(lo, value, data);
	if (info.count > 1) lo->p->consts[lo->p->nconsts - 1].data = data;
	return 0;
}

int lower_constant(struct lowerer *lo, const struct ttir_op *op, const struct lower_row *row)
{
	if (op->nliterals != 1) return lower_fail(lo, ERR_FORMAT, "arith.constant without a value");
	const struct ttir_attr *a = &op->literals[0];
	int type = op->ntypes == 1                    ? op->types[0]
		: a->kind == ATTR_BOOL && op->ntypes == 0 ? ttir_type_scalar(lo->m, ELEM_I1)
												  : -1;
	if (type < 0) return lower_fail(lo, ERR_FORMAT, "arith.constant needs one type");
	const struct ttir_type *t = lower_type(lo, type);
	if (t->elem == ELEM_PTR) return lower_fail(lo, ERR_FORMAT, "arith.constant of a pointer type");
	if ((a->kind == ATTR_DENSE) != (t->kind == TYPE_TENSOR) || a->kind == ATTR_STRING)
		return lower_fail(lo, ERR_FORMAT, "arith.constant: the value does not fit its type");
	int value = lower_result(lo, op, 0, type);
	if (value < 0) return value;
	uint8_t bits[8];
	if (a->kind == ATTR_DENSE) return constant_block(lo, a, value);
	return token_bits(lo, a->text, t->elem, bits) ? lo->code : lower_const(lo, value, bits);
}

int lower_poison(struct lowerer *lo, const struct ttir_op *op, const struct lower_row *row)
{
	if (op->ntypes != 1) return lower_fail(lo, ERR_FORMAT, "ub.poison needs one type");
	enum type_kind kind = lower_type(lo, op->types[0])->kind;
	if (kind != TYPE_SCALAR && kind != TYPE_TENSOR)
		return lower_fail(lo, ERR_UNSUPPORTED, "ub.poison of a block pointer");
	int value = lower_result(lo, op, 0, op->types[0]);
	if (value < 0) return value;
	uint8_t bits[8];
	vm_pattern(lower_info(lo, value)->elem, bits);
	return lower_const(lo, value, bits);
}

/* op(x, n) of a float and an integer: the integer becomes a float of x's type first, exactly for
 * every exponent that can matter. */
int lower_float_with_int(struct lowerer *lo, const int *src, enum map_op op)
{
	const struct vm_value_info x = *lower_info(lo, src[0]), n = *lower_info(lo, src[1]);
	if (!elem_is_float(x.elem) || !elem_is_int(n.elem) || lower_same_shape(lo, n.type, x.elem) != x.type)
		return lower_fail(
			lo, ERR_FORMAT, "%.*s needs a float and an integer of one shape", (int)lo->op->name.len, lo->op->name.data);
	bool strips;
	map_fn *cast = map_cast_kernel("sitofp", n.elem, x.elem, &strips);
	int power = lower_value_new(lo, x.type);
	struct vm_instr *in = power < 0 || !cast ? NULL : lower_emit(lo, OP_MAP, &power, 1, &src[1], 1);
	if (!in) return lo->code ? lo->code : lower_no_kernel(lo, n.elem);
	in->kernel = cast;
	in->number = NUMBER_FROM_SIGNED;
	lower_emit_op(lo, op, (int[]){src[0], power}, 2, 0);
	return lo->code;
}

int lower_fpowi(struct lowerer *lo, const struct ttir_op *op, const struct lower_row *row)
{
	int src[2];
	return lower_uses(lo, op, 0, 2, src) ? lo->code : lower_float_with_int(lo, src, MAP_POWF);
}
