/* Lowering of operations with a combine region over scalars: tt.reduce, tt.scan,
 * tt.map_elementwise; and of tt.dot.
 *
 * A region that is one operation on its two arguments in order (add, max, and, ...) needs no region
 * at run time: the instruction gets that operation's kernel. Any other region becomes instructions
 * right behind the reduction, whose values run over lanes: the same code combines two elements or
 * two halves of a block. A region with control flow runs one pair at a time. */
#include "vm/exec/exec.h"
#include "base/base.h"
#include "ttir/ttir.h"
#include "vm/core/program.h"
#include "vm/lower/lower.h"
#include "vm/map/map.h"

/* The operations for which the halves of a block may be combined in any order. */
static bool is_commutative(enum map_op op)
{
	static const enum map_op ops[] = {
		MAP_ADDI,
		MAP_MULI,
		MAP_ANDI,
		MAP_ORI,
		MAP_XORI,
		MAP_MAXSI,
		MAP_MAXUI,
		MAP_MINSI,
		MAP_MINUI,
		MAP_ADDF,
		MAP_MULF,
		MAP_MAXIMUMF,
		MAP_MINIMUMF,
		MAP_MAXNUMF,
		MAP_MINNUMF,
	};
	for (size_t i = 0; i < ARRAY_LEN(ops); i++)
		if (ops[i] == op) return true;
	return false;
}

/* The map that a region consists of, or -1. */
static int single_map(const struct ttir_block *b)
{
	const struct ttir_op *op = b->first;
	/* Two arguments, one operation of two operands, and an end that returns its result. */
	if (b->nargs != 2 || !op || op->next != b->last || op->nuses != 2 || b->last->nuses != 1 || op->nresults != 1)
		return -1;
	const struct lower_row *row = lower_row_find(op->name);
	if (!row || row->lower != lower_map || !is_commutative((enum map_op)row->arg)) return -1;
	/* The operands are the arguments in their order: x + x, or x + an outer value, is no fold of
	 * this map. */
	for (int i = 0; i < 2; i++)
		if (!slice_same(op->uses[i].name, b->args[i].name)) return -1;
	return slice_same(b->last->uses[0].name, op->results[0].name) ? row->arg : -1;
}

static bool allowed_in_region(const struct vm_instr *in)
{
	static const enum vm_op allowed[] = {
		OP_MAP,
		OP_SELECT,
		OP_DIVIDE,
		OP_INLINE_ASM,
		OP_MOVE,
		OP_BITCAST,
		OP_JUMP,
		OP_JUMP_UNLESS,
		OP_LOOP_TEST,
		OP_NOTHING,
		OP_ASSERT,
	};
	for (size_t i = 0; i < ARRAY_LEN(allowed); i++)
		if (in->op == allowed[i]) return true;
	return false;
}

/* Looks over the region's instructions [from, to): all must work on lanes; says whether one at a
 * time is needed, and what a pair costs. */
static int check_region(struct lowerer *lo, int from, int to, bool *has_control, int *flops, int *special)
{
	struct vm_program *p = lo->p;
	for (int i = from; i < to; i++) {
		const struct vm_instr *in = &p->instrs[i];
		if (!allowed_in_region(in))
			return lower_fail(lo, ERR_UNSUPPORTED, "%.*s with an operation on blocks or memory in its region",
				(int)lo->op->name.len, lo->op->name.data);
		for (int d = 0; d < in->ndst; d++)
			if (p->values[p->ids[in->dst + d]].ndim)
				return lower_fail(lo, ERR_UNSUPPORTED, "%.*s with a block inside its region", (int)lo->op->name.len,
					lo->op->name.data);
		for (int s = 0; s < in->nsrc; s++)
			if (p->values[p->ids[in->src + s]].ndim)
				return lower_fail(lo, ERR_UNSUPPORTED, "%.*s whose region uses a block from outside",
					(int)lo->op->name.len, lo->op->name.data);
		*has_control |= in->op == OP_JUMP_UNLESS || in->op == OP_LOOP_TEST;
		*flops += in->flops;
		*special += in->special;
	}
	return 0;
}

/* Emits the region behind the instruction `owner`; args are the values of its block arguments,
 * end_types those of its results. */
static int emit_region(struct lowerer *lo, const struct ttir_op *op, int owner, const int *args, int nargs,
	const int *like, int nresults, const char *terminator)
{
	struct lower_scope scope;
	int *results = arena_alloc(&lo->k->arena, (size_t)nresults * sizeof *results + 4);
	bool has_control = false;
	int flops = 0, special = 0;
	/* The region's code lies between a begin, which receives the two sides of each pair, and an
	 * end, which hands their combination back. */
	lo->in_region = true;
	int begin = lo->p->ninstrs;
	if (!lower_emit(lo, OP_REGION_BEGIN, args, nargs, NULL, 0)) return lo->code;
	if (lower_region_begin(lo, &op->regions[0], args, nargs, terminator, &scope) ||
		lower_region_values(lo, &scope, 0, nresults, like, results))
		return lo->code;
	lower_region_end(lo, &scope);
	/* Its instructions must work on lanes; what a pair costs goes to the owner. */
	if (check_region(lo, begin + 1, lo->p->ninstrs, &has_control, &flops, &special)) return lo->code;
	struct vm_instr *end = lower_emit(lo, OP_REGION_END, NULL, 0, results, nresults);
	if (!end) return lo->code;
	lo->in_region = false;
	/* The owner runs the region by itself and goes on behind it. */
	end->imm[0] = begin;
	end->target = lo->p->ninstrs;
	struct vm_instr *in = &lo->p->instrs[owner];
	in->target = lo->p->ninstrs;
	in->imm[2] = has_control;
	in->flops = (uint8_t)MIN(flops, 255);
	in->special = (uint8_t)MIN(special, 255);
	return 0;
}

/* Operands of reduce and scan: blocks of one shape. */
static int block_operands(struct lowerer *lo, const struct ttir_op *op, int *src)
{
	if (!op->is_generic || op->nregions != 1 || !op->regions[0].first)
		return lower_fail(lo, ERR_FORMAT, "%.*s without a region", (int)op->name.len, op->name.data);
	if (lo->in_region)
		return lower_fail(lo, ERR_UNSUPPORTED, "%.*s inside a combine region", (int)op->name.len, op->name.data);
	if (lower_uses(lo, op, 0, op->nuses, src)) return lo->code;
	for (int i = 0; i < op->nuses; i++) {
		const struct ttir_type *t = lower_type(lo, lower_info(lo, src[i])->type),
							   *first = lower_type(lo, lower_info(lo, src[0])->type);
		if (t->kind != TYPE_TENSOR || t->ndim != first->ndim ||
			memcmp(t->shape, first->shape, (size_t)t->ndim * sizeof t->shape[0]) || t->elem == ELEM_PTR)
			return lower_fail(
				lo, ERR_FORMAT, "operands of %.*s are not blocks of one shape", (int)op->name.len, op->name.data);
		if (lower_written(lo, op, i, lower_info(lo, src[i])->type)) return lo->code;
	}
	return 0;
}

static int region_args(struct lowerer *lo, const int *src, int n, int *args)
{
	for (int i = 0; i < 2 * n; i++) {
		args[i] = lower_value_new(lo, lower_type(lo, lower_info(lo, src[i % n])->type)->inner);
		if (args[i] < 0) return lo->code;
	}
	return 0;
}

/* Type of operand i without dimension axis; a scalar when none is left. */
static int reduced_type(struct lowerer *lo, int type, int axis)
{
	struct ttir_type t = *lower_type(lo, type);
	if (t.ndim == 1) return t.inner;
	t.count /= t.shape[axis];
	for (int d = axis; d + 1 < t.ndim; d++) t.shape[d] = t.shape[d + 1];
	t.ndim--;
	t.shape[t.ndim] = 0;
	int id = ttir_type_intern(lo->m, &t);
	return id < 0 ? lower_fail(lo, ERR_LIMIT, "too many types") : id;
}

static int set_axis(struct lowerer *lo, int owner, int type, int axis)
{
	const struct ttir_type *t = lower_type(lo, type);
	struct region_shape *s = arena_alloc(&lo->k->arena, sizeof *s);
	*s = (struct region_shape){1, t->shape[axis], 1};
	for (int d = 0; d < t->ndim; d++) {
		if (d < axis) s->outer *= t->shape[d];
		if (d > axis) s->inner *= t->shape[d];
	}
	lo->p->instrs[owner].extra = s;
	lo->p->instrs[owner].weight = 2 * t->count;
	return 0;
}

static int lower_combine(
	struct lowerer *lo, const struct ttir_op *op, enum vm_op opcode, const char *terminator, bool keeps_shape)
{
	int n = op->nuses, *src = arena_alloc(&lo->k->arena, (size_t)(4 * n) * sizeof *src), *dst = src + n,
		*args = src + 2 * n;
	/* Operands and attributes. */
	int64_t axis, reverse = 0;
	if (block_operands(lo, op, src) || lower_attr_int(lo, op, "axis", 0, lower_info(lo, src[0])->ndim - 1, &axis))
		return lo->code;
	if (keeps_shape && lower_attr_int(lo, op, "reverse", 0, 1, &reverse)) return lo->code;
	if (op->ntypes != 2 * n)
		return lower_fail(
			lo, ERR_FORMAT, "%.*s: %d types for %d operands", (int)op->name.len, op->name.data, op->ntypes, n);
	/* Results: of the operands' shapes for a scan, without the axis for a reduction. */
	for (int i = 0; i < n; i++) {
		int type = keeps_shape ? lower_info(lo, src[i])->type
							   : reduced_type(lo, lower_info(lo, src[i])->type, (int)axis);
		if (type < 0 || lower_written(lo, op, n + i, type)) return lo->code;
		dst[i] = lower_result(lo, op, i, type);
		if (dst[i] < 0) return lo->code;
	}
	/* The instruction itself; its region, if it needs one, follows it. */
	int owner = lo->p->ninstrs;
	struct vm_instr *in = lower_emit(lo, opcode, dst, n, src, n);
	if (!in) return lo->code;
	in->imm[3] = (int32_t)reverse;
	set_axis(lo, owner, lower_info(lo, src[0])->type, (int)axis);
	/* A region that is one commutative operation on its arguments is that operation's kernel.
	 * The elements may meet in any order then, as they do on a GPU. */
	int map = n == 1 ? single_map(op->regions[0].first) : -1;
	enum elem e = lower_info(lo, src[0])->elem;
	map_fn *kernel = map >= 0 ? map_kernel((enum map_op)map, e) : NULL;
	if (kernel) {
		in->kernel = kernel;
		in->number = NUMBER_MAP;
		in->imm[1] = map;
		in->imm[0] = elem_is_narrow(e);
		in->flops = map_rows[map].flops;
		in->special = map_rows[map].special;
		return 0;
	}
	/* Any other function may give another result in another order, a scan's with other
	 * brackets: the caller is told. */
	lower_note_order(lo);
	if (region_args(lo, src, n, args)) return lo->code;
	return emit_region(lo, op, owner, args, 2 * n, args, n, terminator);
}

int lower_reduce(struct lowerer *lo, const struct ttir_op *op, const struct lower_row *row)
{
	return lower_combine(lo, op, OP_REDUCE, "tt.reduce.return", false);
}

int lower_scan(struct lowerer *lo, const struct ttir_op *op, const struct lower_row *row)
{
	return lower_combine(lo, op, OP_SCAN, "tt.scan.return", true);
}

#define REGION_VALUES_MAX 64
int lower_map_elementwise(struct lowerer *lo, const struct ttir_op *op, const struct lower_row *row)
{
	int n = op->nuses, nout = op->nresult_types;
	int64_t pack;
	if (lower_attr_int(lo, op, "pack", 1, 64, &pack)) return lo->code;
	/* One list for all values: operands, results, then the region's arguments and what it
	 * returns, `per` of each. */
	int per = (int)pack, *src = arena_alloc(&lo->k->arena, (size_t)((n + nout) * (1 + per) + 4) * sizeof *src),
		*dst = src + n, *args = dst + nout, *like = args + n * per;
	if (block_operands(lo, op, src)) return lo->code;
	if (lower_type(lo, lower_info(lo, src[0])->type)->count % per || MAX(n, nout) * per > REGION_VALUES_MAX)
		return lower_fail(lo, ERR_UNSUPPORTED, "tt.map_elementwise of %d elements at a time", per);
	if (op->ntypes != n + nout)
		return lower_fail(
			lo, ERR_FORMAT, "tt.map_elementwise: %d types for %d operands and %d results", op->ntypes, n, nout);
	/* Results have the operands' shape and types of their own. */
	for (int i = 0; i < nout; i++) {
		int type = op->types[n + i];
		if (lower_type(lo, type)->elem == ELEM_PTR ||
			lower_same_shape(lo, lower_info(lo, src[0])->type, lower_type(lo, type)->elem) != type)
			return lower_fail(lo, ERR_FORMAT, "tt.map_elementwise changes the shape");
		dst[i] = lower_result(lo, op, i, type);
		if (dst[i] < 0) return lo->code;
	}
	/* Inside the region every operand is `per` scalars, and so is every result. */
	for (int i = 0; i < nout * per; i++) {
		like[i] = lower_value_new(lo, lower_type(lo, op->types[n + i / per])->inner);
		if (like[i] < 0) return lo->code;
	}
	for (int i = 0; i < n * per; i++) {
		args[i] = lower_value_new(lo, lower_type(lo, lower_info(lo, src[i / per])->type)->inner);
		if (args[i] < 0) return lo->code;
	}
	int owner = lo->p->ninstrs;
	struct vm_instr *in = lower_emit(lo, OP_MAP_REGION, dst, nout, src, n);
	if (!in) return lo->code;
	in->imm[0] = per;
	return emit_region(lo, op, owner, args, n * per, like, nout * per, "tt.map_elementwise.return");
}

/* ---- dot ---- */

static bool dot_types_are_known(enum elem a, enum elem b, enum elem c)
{
	if (a == ELEM_I8 && b == ELEM_I8) return c == ELEM_I32;
	if (a == ELEM_F64) return b == ELEM_F64 && c == ELEM_F64;
	bool is_f8 = (a == ELEM_F8E4M3 || a == ELEM_F8E5M2) && (b == ELEM_F8E4M3 || b == ELEM_F8E5M2);
	bool is_float = elem_is_float(a) && (a == b || is_f8);
	return is_float && (c == ELEM_F32 || c == ELEM_F16 || (c == ELEM_BF16 && a == ELEM_BF16));
}

int lower_dot(struct lowerer *lo, const struct ttir_op *op, const struct lower_row *row)
{
	static const char *const precisions[] = {"ieee", "tf32", "tf32x3", "bf16x3", "bf16x6"};
	int src[3], precision = 0;
	if (lower_uses(lo, op, 0, 3, src)) return lo->code;
	const struct ttir_type *a = lower_type(lo, lower_info(lo, src[0])->type),
						   *b = lower_type(lo, lower_info(lo, src[1])->type),
						   *c = lower_type(lo, lower_info(lo, src[2])->type);
	/* Two or three dimensions, the first of three being a batch: (M, K) times (K, N) onto (M,
	 * N). */
	int n = a->ndim;
	bool fits = a->kind == TYPE_TENSOR && b->kind == TYPE_TENSOR && c->kind == TYPE_TENSOR && (n == 2 || n == 3) &&
		b->ndim == n && c->ndim == n && a->shape[n - 1] == b->shape[n - 2] && c->shape[n - 2] == a->shape[n - 2] &&
		c->shape[n - 1] == b->shape[n - 1] && (n == 2 || (a->shape[0] == b->shape[0] && a->shape[0] == c->shape[0]));
	if (!fits) return lower_fail(lo, ERR_FORMAT, "tt.dot of shapes that do not fit");
	if (!dot_types_are_known(a->elem, b->elem, c->elem))
		return lower_fail(lo, ERR_UNSUPPORTED, "tt.dot of %s and %s to %s", elem_name(a->elem), elem_name(b->elem),
			elem_name(c->elem));
	/* How operands of f32 are rounded before they meet; without a word, not at all. */
	const struct ttir_attr *p = lower_attr(op, "inputPrecision");
	if (p) {
		precision = -1;
		for (int i = 0; i < (int)ARRAY_LEN(precisions); i++)
			if (p->kind == ATTR_KEYWORD && slice_is(p->text, precisions[i])) precision = i;
		if (precision < 0)
			return lower_fail(
				lo, ERR_UNSUPPORTED, "tt.dot with inputPrecision '%.*s'", (int)MIN(p->text.len, 20), p->text.data);
	}
	int dst = lower_result(lo, op, 0, lower_info(lo, src[2])->type);
	struct vm_instr *in = dst < 0 ? NULL : lower_emit(lo, OP_DOT, &dst, 1, src, 3);
	if (!in) return lo->code;
	/* Batch, M, N, K. */
	in->imm[0] = n == 3 ? a->shape[0] : 1;
	in->imm[1] = a->shape[n - 2];
	in->imm[2] = b->shape[n - 1];
	in->imm[3] = a->shape[n - 1];
	in->map_op = -1;
	in->special = (uint8_t)(a->elem == ELEM_F32 ? precision : 0); /* the precision only means something for f32 */
	in->weight = (int64_t)in->imm[0] * in->imm[1] * in->imm[2] * in->imm[3] / 8;
	/* The strict rule on precision asks for the first such line. */
	/* Sums of so many products are kept in the tensor core, which on Hopper has fewer
	 * digits for them; 0: none. */
	int64_t kept = 0;
	if (lower_attr(op, "maxNumImpreciseAcc") && lower_attr_int(lo, op, "maxNumImpreciseAcc", 0, INT32_MAX, &kept))
		return lo->code;
	if (elem_bytes(a->elem) == 1 && !elem_is_int(a->elem) && kept > 0 && !lo->k->sums_fp8) {
		lo->k->sums_fp8 = true;
		lo->k->fp8_line = lo->p->locs[in->loc].line;
	}
	if (a->elem == ELEM_F32 && precision == 1 && !lo->k->uses_tf32) {
		lo->k->uses_tf32 = true;
		lo->k->tf32_line = lo->p->locs[in->loc].line;
	}
	return 0;
}

/* ---- tt.dot_scaled: both operands become f32 blocks times their scales, which is exact, and meet
 * in an ordinary dot ---- */

struct scaled_format {
	const char *name;
	enum elem elem;
	bool is_packed;
}; /* packed: two 4-bit numbers a byte, along k */
static const struct scaled_format scaled_formats[] = {
	{"e2m1", ELEM_I8, true},
	{"e4m3", ELEM_F8E4M3, false},
	{"e5m2", ELEM_F8E5M2, false},
	{"bf16", ELEM_BF16, false},
	{"fp16", ELEM_F16, false},
};

static const struct scaled_format *scaled_format(struct lowerer *lo, const struct ttir_op *op, const char *side)
{
	const struct ttir_attr *a = lower_attr(op, side);
	for (size_t i = 0; a && a->kind == ATTR_KEYWORD && i < ARRAY_LEN(scaled_formats); i++)
		if (slice_is(a->text, scaled_formats[i].name)) return &scaled_formats[i];
	lower_fail(lo, ERR_UNSUPPORTED, "tt.dot_scaled with %s = '%.*s'", side, a ? (int)MIN(a->text.len, 20) : 0,
		a ? a->text.data : "");
	return NULL;
}

/* Operand i has a scale behind it: the word stands between the two in the text. */
static bool has_scale(const struct ttir_op *op, int i)
{
	for (int w = 0; w < op->nwords; w++)
		if (slice_is(op->words[w], "scale") && op->words[w].data > op->uses[i].name.data && i + 1 < op->nuses &&
			op->words[w].data < op->uses[i + 1].name.data)
			return true;
	return false;
}

/* The operand at *at, and its scale if it has one, as an f32 value; *at moves on. */
static int scaled_operand(
	struct lowerer *lo, const struct ttir_op *op, const int *src, int *at, const struct scaled_format *f, bool is_rhs)
{
	int i = *at, nsrc = 1 + has_scale(op, i), k_dim = is_rhs ? 0 : 1;
	*at += nsrc;
	if (*at >= op->nuses) return lower_fail(lo, ERR_FORMAT, "tt.dot_scaled needs two operands and a sum");
	/* The operand as it is stored: two dimensions, of the format that the operation names. */
	const struct ttir_type data = *lower_type(lo, lower_info(lo, src[i])->type);
	if (data.kind != TYPE_TENSOR || data.ndim != 2 || data.elem != f->elem)
		return lower_fail(
			lo, ERR_UNSUPPORTED, "tt.dot_scaled of %s as %s, or not of two dimensions", elem_name(data.elem), f->name);
	/* As f32, with two numbers for each byte of a packed one. */
	int type = lower_same_shape(lo, lower_info(lo, src[i])->type, ELEM_F32);
	if (type < 0) return lower_fail(lo, ERR_LIMIT, "too many types");
	struct ttir_type wide = *lower_type(lo, type);
	if (f->is_packed) {
		wide.shape[k_dim] *= 2;
		wide.count *= 2;
		if (wide.count > TTIR_ELEMENTS_MAX || (type = ttir_type_intern(lo->m, &wide)) < 0)
			return lower_fail(lo, ERR_LIMIT, "tt.dot_scaled of blocks that are too large");
	}
	/* One scale for some whole number of elements along K. */
	if (nsrc == 2) {
		const struct ttir_type s = *lower_type(lo, lower_info(lo, src[i + 1])->type);
		if (s.kind != TYPE_TENSOR || s.ndim != 2 || (s.elem != ELEM_I8 && s.elem != ELEM_F8E4M3) ||
			s.shape[0] != wide.shape[1 - k_dim] || wide.shape[k_dim] % s.shape[1])
			return lower_fail(lo, ERR_FORMAT, "a scale of tt.dot_scaled does not fit its operand");
	}
	int dst = lower_value_new(lo, type);
	struct vm_instr *in = dst < 0 ? NULL : lower_emit(lo, OP_SCALE, &dst, 1, src + i, nsrc);
	if (!in) return lo->code;
	in->imm[0] = is_rhs;
	in->imm[1] = f->is_packed;
	return dst;
}

int lower_dot_scaled(struct lowerer *lo, const struct ttir_op *op, const struct lower_row *row)
{
	int src[5], at = 0, operands[3];
	if (lower_uses(lo, op, 0, op->nuses, src)) return lo->code;
	/* Both operands become f32 blocks, each times its scale. */
	for (int side = 0; side < 2; side++) {
		const struct ttir_attr *pack = lower_attr(op, side ? "rhs_k_pack" : "lhs_k_pack");
		const struct scaled_format *f = scaled_format(lo, op, side ? "rhs" : "lhs");
		if (!f) return lo->code;
		if (pack && !pack->i)
			return lower_fail(lo, ERR_UNSUPPORTED, "tt.dot_scaled with operands that are not packed along k");
		operands[side] = scaled_operand(lo, op, src, &at, f, side == 1);
		if (operands[side] < 0) return lo->code;
	}
	if (at != op->nuses - 1) return lower_fail(lo, ERR_FORMAT, "tt.dot_scaled has %d operands", op->nuses);
	/* The sum that they are added to comes last. */
	operands[2] = src[at];
	const struct vm_value_info a = *lower_info(lo, operands[0]), b = *lower_info(lo, operands[1]),
							   c = *lower_info(lo, src[at]);
	if (c.ndim != 2 || c.elem != ELEM_F32 || a.shape[1] != b.shape[0] || a.shape[0] != c.shape[0] ||
		b.shape[1] != c.shape[1])
		return lower_fail(lo, ERR_FORMAT, "tt.dot_scaled of shapes that do not fit");
	int dst = lower_result(lo, op, 0, c.type);
	struct vm_instr *in = dst < 0 ? NULL : lower_emit(lo, OP_DOT, &dst, 1, operands, 3);
	if (!in) return lo->code;
	memcpy(in->imm, (int32_t[]){1, a.shape[0], b.shape[1], a.shape[1]}, sizeof in->imm);
	in->map_op = -1;
	in->weight = (int64_t)a.shape[0] * b.shape[1] * a.shape[1] / 8;
	return 0;
}
