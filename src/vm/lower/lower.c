/* Lowering: the tree of one kernel to a flat program. This file has what every operation needs:
 * names and scopes, values, instructions, source lines, and the walk over blocks. Functions are
 * inlined where they are called, so the program has one frame. */
#include "vm/exec/exec.h"
#include "base/base.h"
#include "ttir/ttir.h"
#include "vm/core/program.h"
#include "vm/core/state.h"
#include "vm/lower/lower.h"
#include <stdlib.h>

#define LOC_STEPS 256
#define LINES_MAX 4096

static int32_t loc_of(struct lowerer *lo, int loc);

/* What is not supported is named with its line in the source. */
int lower_fail(struct lowerer *lo, int code, const char *fmt, ...)
{
	if (lo->code) return lo->code;
	char text[400];
	va_list ap;
	va_start(ap, fmt);
	vsnprintf(text, sizeof text, fmt, ap);
	va_end(ap);
	char where[256] = "";
	const struct vm_source *at = lo->op && lo->loc_of && code == ERR_UNSUPPORTED ? &lo->p->locs[loc_of(lo, lo->op->loc)]
																				 : NULL;
	if (at) snprintf(where, sizeof where, " (%s:%d)", at->file, at->line);
	lo->code = err_set(lo->err, code, "kernel %s: ttir:%d:%d: %s%s", lo->k->name ? lo->k->name : "?",
		lo->op ? lo->op->line : 0, lo->op ? lo->op->column : 0, text, where);
	return lo->code;
}

struct ttir_type *lower_type(const struct lowerer *lo, int type) { return &lo->m->types[type]; }
struct vm_value_info *lower_info(const struct lowerer *lo, int value) { return &lo->p->values[value]; }

int lower_same_shape(struct lowerer *lo, int type, enum elem e)
{
	struct ttir_type t = *lower_type(lo, type);
	int scalar = ttir_type_scalar(lo->m, e);
	if (scalar > 0 && t.kind != TYPE_TENSOR) return scalar;
	t.elem = e;
	t.inner = scalar;
	int id = scalar < 0 ? scalar : ttir_type_intern(lo->m, &t);
	return id < 0 ? lower_fail(lo, ERR_LIMIT, "more than %d different types", TTIR_TYPES_MAX) : id;
}

int lower_value_new(struct lowerer *lo, int type)
{
	struct vm_program *p = lo->p;
	if (lo->code) return lo->code;
	if (p->nvalues >= VM_VALUES_MAX) return lower_fail(lo, ERR_LIMIT, "more than %d values", VM_VALUES_MAX);
	if (p->nvalues == p->values_cap) {
		p->values_cap = MAX(p->values_cap * 2, 256);
		p->values = xrealloc(p->values, size_mul((size_t)p->values_cap, sizeof *p->values));
	}
	const struct ttir_type *t = lower_type(lo, type);
	p->values[p->nvalues] = (struct vm_value_info){type, t->elem, t->ndim, t->count, t->shape};
	return p->nvalues++;
}

/* ---- names ---- */

static uint32_t name_bucket(const struct lowerer *lo, struct slice s, int func)
{
	return slice_hash(s, lo->m->seed + (uint32_t)func) & (ARRAY_LEN(lo->buckets) - 1);
}

int lower_bind(struct lowerer *lo, struct slice name, int value, int count)
{
	if (lo->nnames == lo->names_cap) {
		lo->names_cap = MAX(lo->names_cap * 2, 256);
		lo->names = xrealloc(lo->names, size_mul((size_t)lo->names_cap, sizeof *lo->names));
	}
	int *bucket = &lo->buckets[name_bucket(lo, name, lo->func)];
	lo->names[lo->nnames] = (struct lower_name){name, lo->func, value, count, 0, *bucket};
	*bucket = ++lo->nnames;
	return 0;
}

void lower_scope_close(struct lowerer *lo, int nnames)
{
	while (lo->nnames > nnames) {
		struct lower_name *n = &lo->names[--lo->nnames];
		lo->buckets[name_bucket(lo, n->name, n->func)] = n->next;
	}
}

int lower_use(struct lowerer *lo, const struct ttir_use *u)
{
	if (lo->code) return lo->code;
	for (int i = lo->buckets[name_bucket(lo, u->name, lo->func)]; i; i = lo->names[i - 1].next) {
		const struct lower_name *n = &lo->names[i - 1];
		if (n->func != lo->func || !slice_same(n->name, u->name)) continue;
		if (u->index >= n->count)
			return lower_fail(lo, ERR_FORMAT, "'%%%.*s' has %d values, number %d is used", (int)MIN(u->name.len, 60),
				u->name.data, n->count, u->index);
		return n->value + u->index;
	}
	return lower_fail(lo, ERR_FORMAT, "'%%%.*s' is used before it is defined", (int)MIN(u->name.len, 60), u->name.data);
}

int lower_uses(struct lowerer *lo, const struct ttir_op *op, int first, int count, int *out)
{
	for (int i = 0; i < count; i++) {
		out[i] = lower_use(lo, &op->uses[first + i]);
		if (lo->code) return lo->code;
	}
	return 0;
}

/* Result i counted over all result names: %a, %b:2 = ... has three. Values of one name are
 * consecutive. */
int lower_result(struct lowerer *lo, const struct ttir_op *op, int i, int type)
{
	int value = lower_value_new(lo, type);
	if (value < 0) return value;
	for (int r = 0, first = 0; r < op->nresults; first += op->results[r++].index)
		if (i == first) lower_bind(lo, op->results[r].name, value, op->results[r].index);
	return value;
}

/* ---- instructions ---- */

static int add_ids(struct vm_program *p, const int *ids, int n)
{
	int first = p->nids;
	while (p->nids + n > p->ids_cap) {
		p->ids_cap = MAX(p->ids_cap * 2, 1024);
		p->ids = xrealloc(p->ids, size_mul((size_t)p->ids_cap, sizeof *p->ids));
	}
	for (int i = 0; i < n; i++) p->ids[p->nids++] = ids[i];
	return first;
}

/* The source line of a location: the innermost frame of a call chain that is in the kernel's own
 * file (a library's tl.sum is charged to the line that called it), else the outermost. Aliases can
 * be tied into anything, so the walk has a budget of steps. */
static int loc_resolve(const struct lowerer *lo, int loc, int *steps, bool kernel_file_only)
{
	while (loc >= 0 && --*steps > 0) {
		const struct ttir_loc *l = &lo->m->locs[loc];
		if (l->kind == LOC_FILE) {
			bool is_own = !lo->kernel_file.data || slice_same(l->file, lo->kernel_file);
			return !kernel_file_only || is_own ? loc : -1;
		}
		if (l->kind == LOC_UNKNOWN) return -1;
		if (l->kind == LOC_CALLSITE) {
			if (kernel_file_only) {
				int inner = loc_resolve(lo, l->a, steps, true);
				if (inner >= 0) return inner;
			}
			loc = l->b;
		} else {
			loc = l->a;
		}
	}
	return -1;
}

static int loc_find(const struct lowerer *lo, int loc, bool kernel_file_only)
{
	int steps = LOC_STEPS;
	return loc_resolve(lo, loc, &steps, kernel_file_only);
}

/* The variable that a location names, as Triton does for assignments; none behind a call, where it
 * would be the callee's. */
static struct slice loc_name(const struct lowerer *lo, int loc)
{
	for (int steps = LOC_STEPS; loc >= 0 && steps > 0; steps--) {
		const struct ttir_loc *l = &lo->m->locs[loc];
		if (l->kind == LOC_NAMED && l->file.len) return l->file;
		if (l->kind != LOC_NAMED && l->kind != LOC_ALIAS) break;
		loc = l->a;
	}
	return (struct slice){"", 0};
}

static int32_t loc_of(struct lowerer *lo, int loc)
{
	if (loc < 0) return 0;
	if (lo->loc_of[loc]) return lo->loc_of[loc];
	int found = loc_find(lo, loc, true);
	if (found < 0) found = loc_find(lo, loc, false);
	int32_t id = 0;
	if (found >= 0 && found != loc) {
		id = loc_of(lo, found);
		struct slice name = loc_name(lo, loc);
		if (name.len) {
			lo->p->locs[lo->p->nlocs] = lo->p->locs[id];
			id = lo->p->nlocs++;
			lo->p->locs[id].name = arena_strndup(&lo->k->arena, name.data, MIN(name.len, 60));
		}
	} else if (found >= 0) {
		const struct ttir_loc *l = &lo->m->locs[found];
		id = lo->p->nlocs++;
		lo->p->locs[id] = (struct vm_source){
			arena_strndup(&lo->k->arena, l->file.data, MIN(l->file.len, 200)), l->line, l->column, ""};
	}
	lo->loc_of[loc] = id;
	return id;
}

/* Costs are kept for each line; what comes after LINES_MAX different ones shares the row of line 0.
 */
static int32_t line_row(struct lowerer *lo, int line)
{
	struct vm_program *p = lo->p;
	for (int i = p->nlines - 1; i >= 0; i--)
		if (p->lines[i] == line) return i;
	if (p->nlines >= LINES_MAX) line = 0;
	if (p->nlines > LINES_MAX) return p->nlines - 1;
	if ((p->nlines & (p->nlines - 1)) == 0)
		p->lines = xrealloc(p->lines, size_mul((size_t)MAX(p->nlines * 2, 8), sizeof *p->lines));
	p->lines[p->nlines] = line;
	return p->nlines++;
}

struct vm_instr *lower_emit(struct lowerer *lo, enum vm_op opcode, const int *dst, int ndst, const int *src, int nsrc)
{
	struct vm_program *p = lo->p;
	if (lo->code) return NULL;
	if (p->ninstrs >= VM_INSTRS_MAX) {
		lower_fail(lo, ERR_LIMIT, "more than %d instructions", VM_INSTRS_MAX);
		return NULL;
	}
	if (p->ninstrs == p->instrs_cap) {
		p->instrs_cap = MAX(p->instrs_cap * 2, 256);
		p->instrs = xrealloc(p->instrs, size_mul((size_t)p->instrs_cap, sizeof *p->instrs));
	}
	/* Operands' and results' numbers lie in one list of the program's. */
	struct vm_instr *in = &p->instrs[p->ninstrs++];
	*in = (struct vm_instr){.target = -1, .n = 1, .weight = 1, .map_op = -1};
	vm_instr_set(in, opcode);
	in->dst = add_ids(p, dst, ndst);
	in->src = add_ids(p, src, nsrc);
	in->ndst = (int16_t)ndst;
	in->nsrc = (int16_t)nsrc;
	/* Types and size as most instructions have them: of the first result, else of the first
	 * operand. In a region the number of lanes takes the size's place. */
	if (nsrc) in->elem = (uint8_t)p->values[src[0]].elem;
	if (ndst) {
		in->result_elem = (uint8_t)p->values[dst[0]].elem;
		in->n = p->values[dst[0]].count;
	} else if (nsrc) {
		in->n = p->values[src[0]].count;
	}
	in->weight = in->n;
	if (lo->in_region) in->n = 0;
	/* Where it comes from: for faults, and for counts by line. */
	in->loc = lo->op ? loc_of(lo, lo->op->loc) : 0;
	in->line_row = line_row(lo, p->locs[in->loc].line);
	return in;
}

void lower_note_order(struct lowerer *lo)
{
	if (lo->k->may_depend_on_order) return;
	lo->k->may_depend_on_order = true;
	lo->k->order_line = lo->p->locs[lo->p->instrs[lo->p->ninstrs - 1].loc].line;
}

int lower_const(struct lowerer *lo, int value, const void *bits)
{
	struct vm_program *p = lo->p;
	if ((p->nconsts & (p->nconsts - 1)) == 0)
		p->consts = xrealloc(p->consts, size_mul((size_t)MAX(p->nconsts * 2, 16), sizeof *p->consts));
	p->consts[p->nconsts] = (struct vm_const){.value = value};
	memcpy(p->consts[p->nconsts++].bits, bits, elem_bytes(p->values[value].elem));
	return 0;
}

/* ---- attributes and types as written ---- */

const struct ttir_attr *lower_attr(const struct ttir_op *op, const char *key)
{
	for (int i = 0; i < op->nattrs; i++)
		if (slice_is(op->attrs[i].key, key)) return &op->attrs[i];
	return NULL;
}

int lower_attr_int(
	struct lowerer *lo, const struct ttir_op *op, const char *key, int64_t min, int64_t max, int64_t *out)
{
	const struct ttir_attr *a = lower_attr(op, key);
	if (!a || (a->kind != ATTR_NUMBER && a->kind != ATTR_BOOL))
		return lower_fail(lo, ERR_FORMAT, "%.*s needs the attribute %s", (int)op->name.len, op->name.data, key);
	if (a->i < min || a->i > max)
		return lower_fail(lo, ERR_RANGE, "%.*s: %s is %lld, allowed %lld to %lld", (int)op->name.len, op->name.data,
			key, (long long)a->i, (long long)min, (long long)max);
	*out = a->i;
	return 0;
}

int lower_written(struct lowerer *lo, const struct ttir_op *op, int i, int expected)
{
	if (lo->code) return lo->code;
	if (i < op->ntypes && op->types[i] == expected) return 0;
	struct str want = {0}, have = {0};
	ttir_type_text(lo->m, expected, &want);
	if (i < op->ntypes) ttir_type_text(lo->m, op->types[i], &have);
	lower_fail(lo, ERR_FORMAT, "%.*s: type %d is written %s, expected %s", (int)op->name.len, op->name.data, i,
		have.data ? have.data : "not at all", want.data);
	str_release(&want);
	str_release(&have);
	return lo->code;
}

static bool word_in(struct slice word, const char *list)
{
	for (const char *p = list; *p; p += strcspn(p, " "), p += strspn(p, " "))
		if (strcspn(p, " ") == word.len && !memcmp(p, word.data, word.len)) return true;
	return false;
}

/* Attributes with a dot belong to some pass (tt.num_stages) and may be dropped by definition; any
 * other must be known. Two of them are promises about addresses, which the metered launch holds the
 * compiled code to (meter_memory.c). */
static int check_row(struct lowerer *lo, const struct ttir_op *op, const struct lower_row *row)
{
	int len = (int)op->name.len;
	const char *name = op->name.data;
	if (op->nuses < row->min_uses || op->nuses > row->max_uses)
		return lower_fail(lo, ERR_FORMAT, "%.*s has %d operands, expected %d to %d", len, name, op->nuses,
			row->min_uses, row->max_uses);
	int nresults = 0;
	for (int i = 0; i < op->nresults; i++) nresults += op->results[i].index;
	if (row->nresults >= 0 && nresults != row->nresults)
		return lower_fail(lo, ERR_FORMAT, "%.*s has %d results, expected %d", len, name, nresults, row->nresults);
	for (int i = 0; i < op->nattrs; i++) {
		struct slice key = op->attrs[i].key;
		/* what the compiler is told and cannot see */
		lo->p->has_hints |= slice_is(key, "tt.divisibility") || slice_is(key, "tt.contiguity") ||
			slice_is(key, "tt.constancy");
		if (!memchr(key.data, '.', key.len) && !word_in(key, row->attrs))
			return lower_fail(
				lo, ERR_UNSUPPORTED, "%.*s with attribute '%.*s'", len, name, (int)MIN(key.len, 60), key.data);
	}
	bool takes_words = word_in((struct slice){"*", 1}, row->attrs);
	for (int i = 0; i < op->nwords && !takes_words; i++)
		if (!word_in(op->words[i], row->attrs))
			return lower_fail(
				lo, ERR_UNSUPPORTED, "%.*s with '%.*s'", len, name, (int)MIN(op->words[i].len, 60), op->words[i].data);
	return 0;
}

int lower_block_ops(struct lowerer *lo, const struct ttir_block *b, const struct ttir_op *until)
{
	for (const struct ttir_op *op = b->first; op && op != until && !lo->code; op = op->next) {
		const struct ttir_op *outer = lo->op;
		lo->op = op;
		const struct lower_row *row = lower_row_find(op->name);
		if (!row)
			lower_fail(
				lo, ERR_UNSUPPORTED, "operation '%.*s' is not supported", (int)MIN(op->name.len, 60), op->name.data);
		else if (!check_row(lo, op, row)) row->lower(lo, op, row);
		if (!lo->code) lo->op = outer;
	}
	return lo->code;
}

/* ---- regions ---- */

/* Arguments of b become names of the values args. */
static int lower_region_args(struct lowerer *lo, const struct ttir_block *b, const int *args, int nargs)
{
	if (b->nargs != nargs)
		return lower_fail(lo, ERR_FORMAT, "a region of %.*s has %d arguments, expected %d", (int)lo->op->name.len,
			lo->op->name.data, b->nargs, nargs);
	for (int i = 0; i < nargs; i++) {
		if (b->args[i].type != lower_info(lo, args[i])->type)
			return lower_fail(lo, ERR_FORMAT, "argument %d of a region of %.*s has another type than its value", i,
				(int)lo->op->name.len, lo->op->name.data);
		lower_bind(lo, b->args[i].name, args[i], 1);
	}
	return 0;
}

int lower_region_begin(struct lowerer *lo, const struct ttir_region *r, const int *args, int nargs,
	const char *terminator, struct lower_scope *scope)
{
	const struct ttir_block *b = r->first;
	*scope = (struct lower_scope){.nnames = lo->nnames};
	if (!b || b->next)
		return lower_fail(
			lo, ERR_UNSUPPORTED, "a region with several blocks inside %.*s", (int)lo->op->name.len, lo->op->name.data);
	if (++lo->depth > TTIR_DEPTH_MAX) return lower_fail(lo, ERR_LIMIT, "nested more than %d deep", TTIR_DEPTH_MAX);
	if (lower_region_args(lo, b, args, nargs)) return lo->code;
	bool has_end = b->last && slice_is(b->last->name, terminator);
	if (!has_end && strcmp(terminator, "scf.yield"))
		return lower_fail(lo, ERR_FORMAT, "a region of %.*s does not end in %s", (int)lo->op->name.len,
			lo->op->name.data, terminator);
	scope->end = has_end ? b->last : NULL; /* an empty scf.yield may be left out */
	return lower_block_ops(lo, b, scope->end);
}

int lower_region_values(
	struct lowerer *lo, const struct lower_scope *scope, int first, int count, const int *types_of, int *out)
{
	int have = scope->end ? scope->end->nuses - first : 0;
	if (have != count)
		return lower_fail(lo, ERR_FORMAT, "a region of %.*s ends with %d values, expected %d", (int)lo->op->name.len,
			lo->op->name.data, have, count);
	if (count && lower_uses(lo, scope->end, first, count, out)) return lo->code;
	for (int i = 0; i < count; i++)
		if (lower_info(lo, out[i])->type != lower_info(lo, types_of[i])->type)
			return lower_fail(lo, ERR_FORMAT, "value %d at the end of a region of %.*s has the wrong type", i,
				(int)lo->op->name.len, lo->op->name.data);
	return 0;
}

void lower_region_end(struct lowerer *lo, const struct lower_scope *scope)
{
	lower_scope_close(lo, scope->nnames);
	lo->depth--;
}

/* ---- the kernel ---- */

static int find_kernel(struct lowerer *lo, struct ttir_func **out)
{
	*out = NULL;
	for (struct ttir_func *f = lo->m->funcs; f; f = f->next) {
		if (!f->is_public || !f->has_body) continue;
		if (*out) return lower_fail(lo, ERR_UNSUPPORTED, "two public functions: which one is the kernel?");
		*out = f;
	}
	return *out ? 0 : lower_fail(lo, ERR_FORMAT, "no public tt.func with a body: there is no kernel");
}

/* A descriptor made on the host arrives as its base; its shape and strides are the arguments behind
 * it. */
static int arg_type(struct ttir_module *m, int type)
{
	if (m->types[type].kind != TYPE_DESC) return type;
	struct ttir_type pointer = {
		.kind = TYPE_SCALAR, .elem = ELEM_PTR, .inner = m->types[m->types[type].inner].inner, .count = 1};
	return ttir_type_intern(m, &pointer);
}

static int describe_args(struct vm_kernel *k, const struct ttir_func *f)
{
	k->name = arena_strndup(&k->arena, f->name.data, MIN(f->name.len, 200));
	k->nargs = f->nargs;
	int *types = arena_alloc(&k->arena, ((size_t)f->nargs + 1) * sizeof *types);
	k->arg_type_text = arena_alloc(&k->arena, ((size_t)f->nargs + 1) * sizeof *k->arg_type_text);
	k->arg_values = arena_alloc(&k->arena, ((size_t)f->nargs + 1) * sizeof *k->arg_values);
	k->arg_names = arena_alloc(&k->arena, ((size_t)f->nargs + 1) * sizeof *k->arg_names);
	k->arg_is_descriptor = arena_alloc(&k->arena, ((size_t)f->nargs + 1) * sizeof *k->arg_is_descriptor);
	k->arg_divisibility = arena_alloc(&k->arena, ((size_t)f->nargs + 1) * sizeof *k->arg_divisibility);
	for (int i = 0; i < f->nargs; i++) {
		struct str s = {0};
		k->arg_divisibility[i] = f->args[i].divisibility;
		types[i] = arg_type(&k->module, f->args[i].type);
		if (types[i] < 0) return ERR_LIMIT;
		k->arg_is_descriptor[i] = types[i] != f->args[i].type;
		ttir_type_text(&k->module, types[i], &s);
		k->arg_type_text[i] = arena_strndup(&k->arena, s.data, s.len);
		k->arg_names[i] = arena_strndup(&k->arena, f->args[i].name.data, MIN(f->args[i].name.len, 60));
		str_release(&s);
	}
	k->arg_types = types;
	return 0;
}

/* base, then n shapes (i32), then n strides (i64) are made one descriptor, as
 * tt.make_tensor_descriptor does. */
static int lower_descriptor_arg(struct lowerer *lo, const struct ttir_func *f, int i)
{
	int n = lower_type(lo, lower_type(lo, f->args[i].type)->inner)->ndim, src[1 + 2 * VM_LAZY_DIMS];
	if (n > VM_LAZY_DIMS || i + 2 * n >= f->nargs)
		return lower_fail(
			lo, ERR_UNSUPPORTED, "argument %d of the kernel, a descriptor of %d dimensions without its shape", i, n);
	for (int d = 0; d <= 2 * n; d++) {
		src[d] = lo->k->arg_values[i + d];
		if (d && lower_info(lo, src[d])->elem != (d <= n ? ELEM_I32 : ELEM_I64))
			return lower_fail(lo, ERR_FORMAT, "argument %d of the kernel is no %s", i + d, d <= n ? "shape" : "stride");
	}
	int dst = lower_value_new(lo, f->args[i].type);
	struct vm_instr *in = dst < 0 ? NULL : lower_emit(lo, OP_BLOCK_PTR, &dst, 1, src, 1 + 2 * n);
	if (!in) return lo->code;
	in->imm[0] = 1;
	in->imm[2] = 1 + i;
	return lower_bind(lo, f->args[i].name, dst, 1);
}

static int lower_function_body(struct lowerer *lo, struct ttir_func *f)
{
	for (int i = 0; i < f->nargs; i++) {
		int type = lo->k->arg_types[i];
		if (lower_type(lo, type)->kind != TYPE_SCALAR)
			return lower_fail(lo, ERR_UNSUPPORTED, "argument %d of the kernel is %s, expected a pointer or a number", i,
				lo->k->arg_type_text[i]);
		int value = lower_value_new(lo, type);
		if (value < 0) return value;
		lo->k->arg_values[i] = value;
		if (type == f->args[i].type) lower_bind(lo, f->args[i].name, value, 1);
	}
	for (int i = 0; i < f->nargs && !lo->code; i++)
		if (lower_type(lo, f->args[i].type)->kind == TYPE_DESC) lower_descriptor_arg(lo, f, i);
	if (lo->code) return lo->code;
	if (f->nresults) return lower_fail(lo, ERR_FORMAT, "the kernel returns a value");
	return lower_function_blocks(lo, f);
}

int lower_kernel(struct vm_kernel *k, struct vm_program *p, bool contract, struct err *err)
{
	struct lowerer lo = {.k = k, .m = &k->module, .p = p, .err = err, .func = 1, .nfuncs = 1};
	struct ttir_func *f;
	if (find_kernel(&lo, &f)) return lo.code;
	if (!k->name && describe_args(k, f)) return lower_fail(&lo, ERR_LIMIT, "too many types");
	lo.loc_of = xcalloc((size_t)lo.m->nlocs + 1, sizeof *lo.loc_of);
	p->locs = arena_alloc(&k->arena, ((size_t)lo.m->nlocs + 1) * sizeof *p->locs);
	p->locs[0] = (struct vm_source){"unknown", 0, 0, ""};
	p->nlocs = 1;
	int own = loc_find(&lo, f->loc, false);
	if (own >= 0) lo.kernel_file = lo.m->locs[own].file;
	if (!lower_function_body(&lo, f)) lower_patch_jumps(&lo);
	lower_scope_close(&lo, 0);
	free(lo.names);
	free(lo.loc_of);
	free(lo.labels);
	return lo.code ? lo.code : vm_flow(k, p, contract, err);
}
