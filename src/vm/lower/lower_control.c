/* Lowering of control flow: scf.for, while and if, branches between blocks, calls (inlined) and
 * returns.
 *
 * Jumps name a label; labels get their instruction numbers as they are placed, and
 * lower_function_blocks patches all jumps at the end. Values that a loop or a branch carries are
 * moved by one instruction that moves them all at once, so that exchanges need no temporaries here.
 */
#include "vm/exec/exec.h"
#include "base/base.h"
#include "ttir/ttir.h"
#include "vm/core/program.h"
#include "vm/lower/lower.h"
#include "vm/map/map.h"
#include <stdlib.h>

static int label_new(struct lowerer *lo)
{
	if (lo->nlabels == lo->labels_cap) {
		lo->labels_cap = MAX(lo->labels_cap * 2, 64);
		lo->labels = xrealloc(lo->labels, size_mul((size_t)lo->labels_cap, sizeof *lo->labels));
	}
	lo->labels[lo->nlabels] = (struct lower_label){.target = -1};
	return lo->nlabels++;
}

static void label_place(struct lowerer *lo, int label) { lo->labels[label].target = lo->p->ninstrs; }

static int emit_jump(struct lowerer *lo, enum vm_op opcode, int label, const int *src, int nsrc)
{
	struct vm_instr *in = lower_emit(lo, opcode, NULL, 0, src, nsrc);
	if (!in) return lo->code;
	in->target = label;
	in->n = in->weight = 1;
	return 0;
}

static int emit_move(struct lowerer *lo, const int *dst, const int *src, int n)
{
	if (n == 0) return lo->code;
	struct vm_instr *in = lower_emit(lo, OP_MOVE, dst, n, src, n);
	if (in) in->weight = n;
	return lo->code;
}

static int check_bool(struct lowerer *lo, int value)
{
	const struct vm_value_info *v = lower_info(lo, value);
	if (v->elem == ELEM_I1 && v->ndim == 0) return 0;
	return lower_fail(
		lo, ERR_FORMAT, "the condition of %.*s is not a scalar i1", (int)lo->op->name.len, lo->op->name.data);
}

/* count values of the types, or of the types of the values `like`, or both lists NULL on error. */
static int values_new(struct lowerer *lo, const int *types, int count, int *out)
{
	for (int i = 0; i < count; i++) {
		out[i] = lower_value_new(lo, types[i]);
		if (out[i] < 0) return out[i];
	}
	return 0;
}

static int results_new(struct lowerer *lo, const struct ttir_op *op, const int *types, int count, int *out)
{
	int have = 0;
	for (int i = 0; i < op->nresults; i++) have += op->results[i].index;
	if (have != count)
		return lower_fail(
			lo, ERR_FORMAT, "%.*s makes %d values, %d are named", (int)op->name.len, op->name.data, count, have);
	for (int i = 0; i < count; i++) {
		out[i] = lower_result(lo, op, i, types[i]);
		if (out[i] < 0) return out[i];
	}
	return 0;
}

static int *list_new(struct lowerer *lo, int count)
{
	return arena_alloc(&lo->k->arena, ((size_t)count + 4) * sizeof(int));
}

static int check_types(struct lowerer *lo, const int *values, const int *types, int count)
{
	for (int i = 0; i < count; i++)
		if (lower_info(lo, values[i])->type != types[i])
			return lower_fail(lo, ERR_FORMAT, "value %d carried by %.*s has another type than written", i,
				(int)lo->op->name.len, lo->op->name.data);
	return 0;
}

static int same_int_type(struct lowerer *lo, const int *v, int n)
{
	const struct vm_value_info *first = lower_info(lo, v[0]);
	for (int i = 0; i < n; i++)
		if (lower_info(lo, v[i])->type != first->type || !elem_is_int(first->elem) || first->elem == ELEM_I1 ||
			first->ndim)
			return lower_fail(lo, ERR_FORMAT, "bounds of %.*s are not integers of one type", (int)lo->op->name.len,
				lo->op->name.data);
	return 0;
}

/* bounds: lower, upper, step. args[0] is the loop variable, the rest is carried. */
int lower_for(struct lowerer *lo, const struct ttir_op *op, const struct lower_row *row)
{
	const struct ttir_block *body = op->regions[0].first;
	int n = op->nuses - 3, bounds[3];
	if (lower_uses(lo, op, 0, 3, bounds) || same_int_type(lo, bounds, 3)) return lo->code;
	if (body->nargs != n + 1 || op->nresult_types != n)
		return lower_fail(lo, ERR_FORMAT, "scf.for carries %d values into a block of %d arguments", n, body->nargs);
	/* Four lists: what the loop starts with, what its body is given, what a turn hands on, and
	 * what is left behind the loop. The loop variable is the first of the first three. */
	int *inits = list_new(lo, n + 1), *args = list_new(lo, n + 1), *yields = list_new(lo, n + 1),
		*results = list_new(lo, n);
	inits[0] = bounds[0];
	if (lower_uses(lo, op, 3, n, inits + 1) || check_types(lo, inits + 1, op->types, n)) return lo->code;
	args[0] = lower_value_new(lo, lower_info(lo, bounds[0])->type);
	if (args[0] < 0 || values_new(lo, op->types, n, args + 1)) return lo->code;
	/* args = inits; head: leave when the variable has reached the bound. */
	int head = label_new(lo), exit = label_new(lo);
	emit_move(lo, args, inits, n + 1);
	label_place(lo, head);
	if (emit_jump(lo, OP_LOOP_TEST, exit, (int[]){args[0], bounds[1]}, 2)) return lo->code;

	struct lower_scope scope;
	if (lower_region_begin(lo, &op->regions[0], args, n + 1, "scf.yield", &scope) ||
		lower_region_values(lo, &scope, 0, n, args + 1, yields + 1))
		return lo->code;
	lower_region_end(lo, &scope);
	/* Behind the body: the variable goes one step on, args = yields, and round again. */
	yields[0] = lower_value_new(lo, lower_info(lo, bounds[0])->type);
	if (yields[0] < 0) return lo->code;
	struct vm_instr *in = lower_emit(lo, OP_MAP, &yields[0], 1, (int[]){args[0], bounds[2]}, 2);
	if (!in) return lo->code;
	in->kernel = map_kernel(MAP_ADDI, lower_info(lo, bounds[0])->elem);
	emit_move(lo, args, yields, n + 1);
	emit_jump(lo, OP_JUMP, head, NULL, 0);
	label_place(lo, exit);
	/* What was carried last is the result. */
	if (results_new(lo, op, op->types, n, results)) return lo->code;
	return emit_move(lo, results, args + 1, n);
}

int lower_while(struct lowerer *lo, const struct ttir_op *op, const struct lower_row *row)
{
	int n = op->nuses, nout = op->nresult_types;
	int *inits = list_new(lo, n), *before = list_new(lo, n), *yields = list_new(lo, n), *after = list_new(lo, nout),
		*passed = list_new(lo, nout), *results = list_new(lo, nout);
	if (lower_uses(lo, op, 0, n, inits) || check_types(lo, inits, op->types, n)) return lo->code;
	const int *out_types = op->types + n;
	if (values_new(lo, op->types, n, before) || values_new(lo, out_types, nout, after)) return lo->code;
	/* before = inits; head: the first region computes the condition and what passes on. */
	int head = label_new(lo), exit = label_new(lo);
	emit_move(lo, before, inits, n);
	label_place(lo, head);

	struct lower_scope scope;
	if (lower_region_begin(lo, &op->regions[0], before, n, "scf.condition", &scope)) return lo->code;
	if (scope.end->nuses < 1) return lower_fail(lo, ERR_FORMAT, "scf.condition without a condition");
	int condition = lower_use(lo, &scope.end->uses[0]);
	if (condition < 0 || check_bool(lo, condition) || lower_region_values(lo, &scope, 1, nout, after, passed))
		return lo->code;
	lower_region_end(lo, &scope);
	/* Where it holds, the second region gets that and hands back what the first begins with. */
	emit_jump(lo, OP_JUMP_UNLESS, exit, &condition, 1);
	emit_move(lo, after, passed, nout);

	if (lower_region_begin(lo, &op->regions[1], after, nout, "scf.yield", &scope) ||
		lower_region_values(lo, &scope, 0, n, before, yields))
		return lo->code;
	lower_region_end(lo, &scope);
	emit_move(lo, before, yields, n);
	emit_jump(lo, OP_JUMP, head, NULL, 0);
	label_place(lo, exit);
	if (results_new(lo, op, out_types, nout, results)) return lo->code;
	return emit_move(lo, results, passed, nout);
}

int lower_if(struct lowerer *lo, const struct ttir_op *op, const struct lower_row *row)
{
	int n = op->nresult_types, condition = lower_use(lo, &op->uses[0]);
	if (condition < 0 || check_bool(lo, condition)) return lo->code;
	if (n && op->nregions != 2) return lower_fail(lo, ERR_FORMAT, "scf.if with results needs an else");
	/* Both branches move their values to the same places. */
	int *results = list_new(lo, n), *values = list_new(lo, n);
	if (values_new(lo, op->types, n, results)) return lo->code;
	int otherwise = label_new(lo), end = label_new(lo);
	emit_jump(lo, OP_JUMP_UNLESS, otherwise, &condition, 1);
	/* A false condition jumps to the else; the other branch ends with a jump behind it. */
	for (int r = 0; r < op->nregions && !lo->code; r++) {
		struct lower_scope scope;
		if (r) label_place(lo, otherwise);
		if (lower_region_begin(lo, &op->regions[r], NULL, 0, "scf.yield", &scope) ||
			lower_region_values(lo, &scope, 0, n, results, values))
			return lo->code;
		lower_region_end(lo, &scope);
		emit_move(lo, results, values, n);
		if (r == 0 && op->nregions == 2) emit_jump(lo, OP_JUMP, end, NULL, 0);
	}
	if (op->nregions == 1) label_place(lo, otherwise);
	label_place(lo, end);
	/* The values exist already; what is left is to give them their names. */
	int *named = list_new(lo, n);
	if (results_new(lo, op, op->types, n, named)) return lo->code;
	return emit_move(lo, named, results, n);
}

/* A region that runs once, in place: its code follows here, without a jump. */
int lower_execute_region(struct lowerer *lo, const struct ttir_op *op, const struct lower_row *row)
{
	int n = op->nresult_types;
	int *values = list_new(lo, n), *results = list_new(lo, n), *like = list_new(lo, n);
	struct lower_scope scope;
	/* like: values of the results' types, against which those that the
	 * region yields are checked. */
	if (values_new(lo, op->types, n, like)) return lo->code;
	if (lower_region_begin(lo, &op->regions[0], NULL, 0, "scf.yield", &scope) ||
		lower_region_values(lo, &scope, 0, n, like, values))
		return lo->code;
	/* The region's names end with it; the results get theirs outside, and what was yielded moves
	 * there. */
	lower_region_end(lo, &scope);
	if (results_new(lo, op, op->types, n, results)) return lo->code;
	return emit_move(lo, results, values, n);
}

/* ---- branches ---- */

static int branch_to(struct lowerer *lo, const struct ttir_target *t)
{
	for (int i = lo->first_label; i < lo->last_label; i++) {
		const struct lower_label *l = &lo->labels[i];
		if (l->func != lo->func || !slice_same(l->name, t->label)) continue;
		if (l->nargs != t->nuses)
			return lower_fail(lo, ERR_FORMAT, "branch to ^%.*s with %d values, it takes %d", (int)MIN(t->label.len, 40),
				t->label.data, t->nuses, l->nargs);
		int *values = list_new(lo, t->nuses);
		for (int j = 0; j < t->nuses; j++) {
			values[j] = lower_use(lo, &t->uses[j]);
			if (values[j] < 0) return lo->code;
			if (lower_info(lo, values[j])->type != lower_info(lo, l->args[j])->type)
				return lower_fail(lo, ERR_FORMAT, "branch to ^%.*s: value %d has the wrong type",
					(int)MIN(t->label.len, 40), t->label.data, j);
		}
		emit_move(lo, l->args, values, t->nuses);
		return emit_jump(lo, OP_JUMP, i, NULL, 0);
	}
	return lower_fail(lo, ERR_FORMAT, "branch to ^%.*s, which is not a block of this function",
		(int)MIN(t->label.len, 40), t->label.data);
}

int lower_br(struct lowerer *lo, const struct ttir_op *op, const struct lower_row *row)
{
	if (op->ntargets != 1) return lower_fail(lo, ERR_FORMAT, "cf.br without a target");
	return branch_to(lo, &op->targets[0]);
}

int lower_cond_br(struct lowerer *lo, const struct ttir_op *op, const struct lower_row *row)
{
	if (op->ntargets != 2) return lower_fail(lo, ERR_FORMAT, "cf.cond_br without two targets");
	int condition = lower_use(lo, &op->uses[0]);
	if (condition < 0 || check_bool(lo, condition)) return lo->code;
	int otherwise = label_new(lo);
	emit_jump(lo, OP_JUMP_UNLESS, otherwise, &condition, 1);
	branch_to(lo, &op->targets[0]);
	label_place(lo, otherwise);
	return branch_to(lo, &op->targets[1]);
}

/* cf.switch %x : i32, [default: ^a, 3: ^b]: compared one after another. targets[0] is the default;
 * literals are the cases. */
int lower_switch(struct lowerer *lo, const struct ttir_op *op, const struct lower_row *row)
{
	int flag = lower_use(lo, &op->uses[0]);
	if (flag < 0) return flag;
	const struct vm_value_info info = *lower_info(lo, flag);
	if (info.ndim || !elem_is_int(info.elem) || info.elem == ELEM_I1)
		return lower_fail(lo, ERR_FORMAT, "cf.switch on something that is not a scalar integer");
	if (op->ntargets != op->nliterals + 1 || lower_written(lo, op, 0, info.type))
		return lower_fail(lo, ERR_FORMAT, "cf.switch: %d targets for %d cases", op->ntargets, op->nliterals);
	int bool_type = ttir_type_scalar(lo->m, ELEM_I1);
	for (int i = 0; i < op->nliterals; i++) {
		int value = lower_value_new(lo, info.type), is_it = lower_value_new(lo, bool_type), next = label_new(lo);
		if (is_it < 0) return lo->code;
		lower_const(lo, value, &op->literals[i].i);
		struct vm_instr *in = lower_emit(lo, OP_MAP, &is_it, 1, (int[]){flag, value}, 2);
		if (!in) return lo->code;
		in->kernel = map_cmpi_kernel((struct slice){"eq", 2}, info.elem);
		emit_jump(lo, OP_JUMP_UNLESS, next, &is_it, 1);
		if (branch_to(lo, &op->targets[i + 1])) return lo->code;
		label_place(lo, next);
	}
	return branch_to(lo, &op->targets[0]);
}

static bool ends_block(const struct ttir_block *b)
{
	static const char *const enders[] = {"tt.return", "cf.br", "cf.cond_br", "cf.switch"};
	for (size_t i = 0; i < ARRAY_LEN(enders); i++)
		if (b->last && slice_is(b->last->name, enders[i])) return true;
	return false;
}

int lower_function_blocks(struct lowerer *lo, const struct ttir_func *f)
{
	/* A label and values for the arguments of each block first: branches may lead forward. */
	int first_label = lo->nlabels;
	for (const struct ttir_block *b = f->body.first; b; b = b->next) {
		int label = label_new(lo);
		if (b == f->body.first) continue; /* the entry is never branched to */
		int *args = list_new(lo, b->nargs);
		for (int i = 0; i < b->nargs; i++) {
			args[i] = lower_value_new(lo, b->args[i].type);
			if (args[i] < 0) return lo->code;
			lower_bind(lo, b->args[i].name, args[i], 1);
		}
		lo->labels[label] = (struct lower_label){b->label, lo->func, -1, b->nargs, args};
	}
	/* Then the blocks one behind another. */
	int label = first_label;
	lo->first_label = first_label;
	lo->last_label = lo->nlabels;
	for (const struct ttir_block *b = f->body.first; b && !lo->code; b = b->next) {
		label_place(lo, label++);
		if (!ends_block(b))
			return lower_fail(lo, ERR_FORMAT, "a block of function %.*s does not end in a branch or return",
				(int)MIN(f->name.len, 60), f->name.data);
		lower_block_ops(lo, b, NULL);
	}
	return lo->code;
}

/* All labels are placed by now. */
int lower_patch_jumps(struct lowerer *lo)
{
	for (int i = 0; i < lo->p->ninstrs && !lo->code; i++) {
		struct vm_instr *in = &lo->p->instrs[i];
		if (in->op != OP_JUMP && in->op != OP_JUMP_UNLESS && in->op != OP_LOOP_TEST) continue;
		in->target = lo->labels[in->target].target;
		if (in->target < 0) return lower_fail(lo, ERR_FORMAT, "a branch leads nowhere");
	}
	return lo->code;
}

/* ---- functions ---- */

int lower_return(struct lowerer *lo, const struct ttir_op *op, const struct lower_row *row)
{
	if (!lo->in_func) {
		if (op->nuses) return lower_fail(lo, ERR_FORMAT, "the kernel returns a value");
		return lower_emit(lo, OP_RETURN, NULL, 0, NULL, 0) ? 0 : lo->code;
	}
	if (op->nuses != lo->in_func->nresults)
		return lower_fail(
			lo, ERR_FORMAT, "tt.return of %d values from a function of %d", op->nuses, lo->in_func->nresults);
	int *values = list_new(lo, op->nuses);
	if (lower_uses(lo, op, 0, op->nuses, values) || check_types(lo, values, lo->in_func->results, op->nuses))
		return lo->code;
	emit_move(lo, lo->return_values, values, op->nuses);
	return emit_jump(lo, OP_JUMP, lo->return_label, NULL, 0);
}

static const struct ttir_func *find_func(const struct lowerer *lo, struct slice name)
{
	for (const struct ttir_func *f = lo->m->funcs; f; f = f->next)
		if (slice_same(f->name, name)) return f;
	return NULL;
}

int lower_call(struct lowerer *lo, const struct ttir_op *op, const struct lower_row *row)
{
	const struct ttir_func *f = find_func(lo, op->symbol);
	int len = (int)MIN(op->symbol.len, 60);
	if (!f || !f->has_body)
		return lower_fail(lo, ERR_UNSUPPORTED, "call of function @%.*s, which has no body here", len, op->symbol.data);
	if (op->nuses != f->nargs)
		return lower_fail(
			lo, ERR_FORMAT, "call of @%.*s with %d arguments, it takes %d", len, op->symbol.data, op->nuses, f->nargs);
	/* The function's body is lowered anew at each call. */
	if (++lo->inline_depth > VM_INLINE_DEPTH_MAX)
		return lower_fail(lo, ERR_UNSUPPORTED, "calls nested more than %d deep (is @%.*s recursive?)",
			VM_INLINE_DEPTH_MAX, len, op->symbol.data);
	int *args = list_new(lo, f->nargs), *returned = list_new(lo, f->nresults), *results = list_new(lo, f->nresults);
	if (lower_uses(lo, op, 0, f->nargs, args) || values_new(lo, f->results, f->nresults, returned)) return lo->code;

	/* Names of the body belong to this call alone (func is their scope); its returns move their
	 * values to `returned` and jump behind the body. */
	struct lowerer outer = *lo;
	lo->func = ++lo->nfuncs;
	lo->in_func = f;
	lo->return_values = returned;
	lo->return_label = label_new(lo);
	for (int i = 0; i < f->nargs; i++) {
		if (lower_info(lo, args[i])->type != f->args[i].type)
			return lower_fail(lo, ERR_FORMAT, "argument %d of @%.*s has the wrong type", i, len, op->symbol.data);
		lower_bind(lo, f->args[i].name, args[i], 1);
	}
	if (lower_function_blocks(lo, f)) return lo->code;
	label_place(lo, lo->return_label);
	/* Back in the caller. */
	lower_scope_close(lo, outer.nnames);
	lo->func = outer.func;
	lo->in_func = outer.in_func;
	lo->return_values = outer.return_values;
	lo->return_label = outer.return_label;
	lo->first_label = outer.first_label;
	lo->last_label = outer.last_label;
	lo->inline_depth--;
	lo->op = op;
	if (results_new(lo, op, f->results, f->nresults, results)) return lo->code;
	return emit_move(lo, results, returned, f->nresults);
}
