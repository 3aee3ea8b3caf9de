/* Triton IR as text, read: what each form of an attribute, a type and a loop becomes, and
 * which places are refused. */
#include "ttir/ttir.h"
#include "base/base.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <cmocka.h>
#include "../leaks.h"

#define HEAD "module {\n  tt.func public @k(%x: i32, %y: f32) {\n"
#define TAIL "    tt.return\n  }\n}\n"

static struct ttir_module parse(const char *body)
{
	/* The module points into its text. */
	static char *text;
	struct ttir_module m = {.funcs = NULL};
	struct err err = {0};
	free(text);
	text = xasprintf("%s%s%s", HEAD, body, TAIL);
	if (ttir_parse(text, strlen(text), &m, &err)) fail_msg("%s: %s", body, err.text);
	return m;
}

static bool is(struct slice s, const char *text) { return s.len == strlen(text) && !memcmp(s.data, text, s.len); }

static void test_attributes(void **state)
{
	struct ttir_module m = parse(
		"    %c = arith.constant {a, b = 7 : i32, \"c d\" = \"text\", e = true, f = false, g = #tt.x<{h = "
		"[1, 2], i = (3)}>, j = [4, {k = 5}], l = slt, m = array<i32: 1, 2, -3>} 9 : i32\n");
	const struct ttir_op *op = m.funcs->body.first->first;
	assert_true(is(op->name, "arith.constant") && is(op->results[0].name, "c") && op->line == 3);
	static const struct {
		const char *key;
		enum attr_kind kind;
	} expected[] = {{"a", ATTR_UNIT}, {"b", ATTR_NUMBER}, {"c d", ATTR_STRING}, {"e", ATTR_BOOL}, {"f", ATTR_BOOL},
		{"g", ATTR_OTHER}, {"j", ATTR_OTHER}, {"l", ATTR_KEYWORD}, {"m", ATTR_INTS}};
	assert_int_equal(op->nattrs, ARRAY_LEN(expected));
	for (int i = 0; i < op->nattrs; i++)
		if (!is(op->attrs[i].key, expected[i].key) || op->attrs[i].kind != expected[i].kind)
			fail_msg("attribute %d: %.*s of kind %d", i, (int)op->attrs[i].key.len, op->attrs[i].key.data,
				op->attrs[i].kind);
	assert_true(op->attrs[1].i == 7 && m.types[op->attrs[1].type].elem == ELEM_I32 && op->attrs[0].type == -1);
	assert_true(
		is(op->attrs[2].text, "text") && op->attrs[3].i == 1 && op->attrs[4].i == 0 && is(op->attrs[7].text, "slt"));
	assert_true(op->attrs[8].nitems == 3 && op->attrs[8].ints[0] == 1 && op->attrs[8].ints[2] == -3);
	assert_true(op->nliterals == 1 && op->literals[0].i == 9);
	ttir_release(&m);
}

/* A loop: its variable, bounds and carried values; the variable is an index of 64 bits
 * where no type is written. */
static void test_loop(void **state)
{
	static const struct {
		const char *written;
		enum elem type;
	} cases[] = {{"", ELEM_I64}, {" : i32", ELEM_I32}};
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		char *body = xasprintf(
			"    %%r:2 = scf.for %%i = %%x to %%n step %%s iter_args(%%a = %%y, %%b = %%x) -> (f32, i32) %s {\n"
			"      scf.yield %%a, %%i : f32, i32\n    }\n",
			cases[i].written);
		struct ttir_module m = parse(body);
		/* The operation: its operands are bounds, step and what the carried values begin with. */
		const struct ttir_op *op = m.funcs->body.first->first;
		assert_true(is(op->name, "scf.for") && op->nuses == 5 && op->nresult_types == 2 && op->nregions == 1);
		static const char *const uses[] = {"x", "n", "s", "y", "x"}, *const names[] = {"i", "a", "b"};
		for (int k = 0; k < 5; k++) assert_true(is(op->uses[k].name, uses[k]));
		/* Its block: the variable, then the carried values. */
		const struct ttir_block *b = op->regions[0].first;
		const enum elem types[] = {cases[i].type, ELEM_F32, ELEM_I32};
		assert_int_equal(b->nargs, 3);
		for (int k = 0; k < 3; k++) {
			assert_true(is(b->args[k].name, names[k]));
			assert_int_equal(m.types[b->args[k].type].elem, types[k]);
		}
		assert_true(is(b->first->name, "scf.yield") && b->first->nuses == 2 && b->first == b->last);
		ttir_release(&m);
		free(body);
	}
}

/* A type written as text comes back as that text; equal types are one. */
static void test_types(void **state)
{
	static const char *const types[] = {"i1", "i8", "i16", "i32", "i64", "f16", "bf16", "f32", "f64", "f8E4M3FN",
		"f8E5M2", "!tt.ptr<f32>", "tensor<16xf32>", "tensor<2x4x!tt.ptr<bf16>>", "tensor<1x128xi64>",
		"!tt.tensordesc<tensor<16x8xf16>>"};
	for (size_t i = 0; i < ARRAY_LEN(types); i++) {
		char *body = xasprintf("    %%c = tt.splat %%x : %s -> %s\n", types[i], types[i]);
		struct ttir_module m = parse(body);
		const struct ttir_op *op = m.funcs->body.first->first;
		struct str text = {0};
		assert_true(op->ntypes == 2 && op->nresult_types == 1 && op->types[0] == op->types[1]);
		ttir_type_text(&m, op->types[0], &text);
		assert_string_equal(text.data, types[i]);
		str_release(&text);
		ttir_release(&m);
		free(body);
	}
}

/* A dense constant: its numbers in their order, whatever brackets are around them. */
static void test_dense(void **state)
{
	static const char *const numbers[] = {"1", "-2", "3", "40", "5", "6", "0x7", "8"};
	struct ttir_module m = parse("    %c = arith.constant dense<[[1, -2, 3, 40], [5, 6, 0x7, 8]]> : tensor<2x4xi32>\n"
								 "    %d = arith.constant dense<1.5> : tensor<4xf32>\n");
	const struct ttir_op *op = m.funcs->body.first->first;
	const struct ttir_attr *dense = &op->literals[0];
	assert_true(op->nliterals == 1 && dense->kind == ATTR_DENSE && dense->nitems == ARRAY_LEN(numbers));
	for (size_t i = 0; i < ARRAY_LEN(numbers); i++) assert_true(is(dense->items[i], numbers[i]));
	dense = &op->next->literals[0];
	assert_true(dense->kind == ATTR_DENSE && dense->nitems == 1 && is(dense->items[0], "1.5"));
	ttir_release(&m);
}

/* Numbers as MLIR writes them, whole: what stands behind one is read as what it is. */
static void test_numbers(void **state)
{
	static const char *const numbers[] = {"0", "17", "-3", "0x1F", "0xFF800000", "0xabc", "1.5", "-1.500000e+00",
		"1.5e-3", "2.25E10", "9.99999997E-7", "0.000000e+00"};
	for (size_t i = 0; i < ARRAY_LEN(numbers); i++) {
		char *body = xasprintf(
			"    %%c = arith.constant %s : f32\n    %%d = arith.constant dense<[%s, 1]> : tensor<2xf32>\n", numbers[i],
			numbers[i]);
		struct ttir_module m = parse(body);
		const struct ttir_op *op = m.funcs->body.first->first;
		assert_true(op->nliterals == 1 && op->ntypes == 1);
		if (!is(op->literals[0].text, numbers[i]))
			fail_msg("%s: %.*s", numbers[i], (int)op->literals[0].text.len, op->literals[0].text.data);
		assert_true(op->next->literals[0].nitems == 2 && is(op->next->literals[0].items[0], numbers[i]));
		ttir_release(&m);
		free(body);
	}
	/* No exponent: the letter begins a word. */
	struct ttir_module m = parse("    %c = arith.constant 1.5 exact : f32\n");
	const struct ttir_op *op = m.funcs->body.first->first;
	assert_true(is(op->literals[0].text, "1.5") && op->nwords == 1 && is(op->words[0], "exact"));
	ttir_release(&m);
}

/* Operands: one of several results by its index; how many brackets opened before it. */
static void test_operands(void **state)
{
	struct ttir_module m = parse("    %p = tt.make_tensor_ptr %x, [%a#1, %b], [%c#20], [] {order = array<i32: 1>} : "
								 "!tt.ptr<tensor<4xf32>>\n    %q = tt.splat %x : i32 -> tensor<2xi32>\n");
	static const struct {
		const char *name;
		int index, group;
	} uses[] = {{"x", -1, 0}, {"a", 1, 1}, {"b", -1, 1}, {"c", 20, 2}};
	const struct ttir_op *op = m.funcs->body.first->first;
	assert_int_equal(op->nuses, ARRAY_LEN(uses));
	for (int i = 0; i < op->nuses; i++) {
		assert_true(is(op->uses[i].name, uses[i].name));
		assert_int_equal(op->uses[i].group, uses[i].group);
		assert_int_equal(op->uses[i].index, MAX(uses[i].index, 0));
	}
	assert_int_equal(op->next->uses[0].group, 0);
	ttir_release(&m);
}

/* Each entry of the table of element types, by what the name says. */
static void test_elements(void **state)
{
	static const struct {
		const char *name;
		int bytes;
		bool is_int, is_float;
	} rows[] = {{"i1", 1, true, false}, {"i8", 1, true, false}, {"i16", 2, true, false}, {"i32", 4, true, false},
		{"i64", 8, true, false}, {"f16", 2, false, true}, {"bf16", 2, false, true}, {"f32", 4, false, true},
		{"f64", 8, false, true}, {"f8E4M3FN", 1, false, true}, {"f8E5M2", 1, false, true},
		{"pointer", 8, false, false}};
	int found = 0;
	for (int e = 0; e < ELEM_COUNT; e++)
		for (size_t i = 0; i < ARRAY_LEN(rows); i++)
			if (!strcmp(elem_name((enum elem)e), rows[i].name)) {
				found++;
				assert_int_equal(elem_bytes((enum elem)e), rows[i].bytes);
				assert_int_equal(elem_is_int((enum elem)e), rows[i].is_int);
				assert_int_equal(elem_is_float((enum elem)e), rows[i].is_float);
				assert_int_equal(elem_is_narrow((enum elem)e), rows[i].is_float && rows[i].bytes < 4);
			}
	assert_int_equal(found, ARRAY_LEN(rows));
}

static void test_refusals(void **state)
{
	static const struct {
		const char *body, *says;
	} cases[] = {
		{"    %c = arith.constant {7 = 1} 9 : i32\n", "expected the name of an attribute"},
		{"    %c = arith.constant {a = [1, 2} 9 : i32\n", "ttir:3:"},
		{"    %c = arith.constant {a = [1, 2)]} 9 : i32\n", "ttir:3:"},
		{"    %c = arith.constant {a = [[[[1, 2\n", "attribute has no end"},
		{"    scf.for 7 = %x to %x step %x {\n", "expected the loop variable"},
		{"    %r = scf.for %i = %x to %x step %x iter_args(%a = %y) -> (f32, f32) {\n", "1 carried values and 2 types"},
		{"    %c = tt.splat %x : !tt.tensordesc<f32> -> i32\n", "descriptor of something that is not a tensor"},
		{"    scf.for unsigned %i = %x to %x step %x {\n", "unsigned comparison"},
	};
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct ttir_module m = {.funcs = NULL};
		struct err err = {0};
		char *text = xasprintf("%s%s%s", HEAD, cases[i].body, TAIL);
		assert_true(ttir_parse(text, strlen(text), &m, &err) < 0);
		if (!strstr(err.text, cases[i].says)) fail_msg("%s: %s", cases[i].body, err.text);
		ttir_release(&m);
		free(text);
	}
}

/* A location and what it stands on, as a text. */
static void loc_text(const struct ttir_module *m, int id, struct str *out)
{
	if (id < 0) {
		str_puts(out, id == -1 ? "-" : "?");
		return;
	}
	const struct ttir_loc *l = &m->locs[id];
	static const char *const kinds[] = {"unknown", "file", "named", "callsite", "alias"};
	str_printf(out, "%s", kinds[l->kind]);
	if (l->kind == LOC_FILE) str_printf(out, " %.*s:%d:%d", (int)l->file.len, l->file.data, l->line, l->column);
	if (l->a == -1 && l->b == -1) return;
	str_puts(out, "(");
	loc_text(m, l->a, out);
	str_puts(out, ", ");
	loc_text(m, l->b, out);
	str_puts(out, ")");
}

/* Every form of a location, one within another. */
static void test_locations(void **state)
{
	static const struct {
		const char *written, *read;
	} cases[] = {
		{"\"k.py\":3:14", "file k.py:3:14"},
		{"\"k.py\":3:14 to 5:6", "file k.py:3:14"},
		{"\"k.py\":3:14 to :16", "file k.py:3:14"},
		{"#no_such", "alias"},
		{"unknown", "unknown"},
		{"\"x\"(\"k.py\":3:4)", "named(file k.py:3:4, -)"},
		{"callsite(\"a.py\":1:2 at \"b.py\":3:4)", "callsite(file a.py:1:2, file b.py:3:4)"},
		{"callsite(unknown at callsite(\"a.py\":1:2 at \"b.py\":3:4))",
			"callsite(unknown, callsite(file a.py:1:2, file b.py:3:4))"},
		{"fused[\"a.py\":1:2, \"b.py\":3:4]", "named(file a.py:1:2, -)"},
		{"fused<\"why\">[\"a.py\":1:2]", "named(file a.py:1:2, -)"},
		{"fused[]", "named"},
	};
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct str text = {0};
		/* Written behind an operation, and read back from it. */
		char *body = xasprintf("    %%c = arith.constant 1 : i32 loc(%s)\n", cases[i].written);
		struct ttir_module m = parse(body);
		loc_text(&m, m.funcs->body.first->first->loc, &text);
		assert_string_equal(text.data, cases[i].read);
		ttir_release(&m);
		str_release(&text);
		free(body);
	}
}

/* Many names of locations, written before and behind the functions, each found again; of two of one
 * name the first counts. */
static void test_aliases(void **state)
{
	enum { COUNT = 300 };
	struct str text = {0};
	struct ttir_module m = {.funcs = NULL};
	struct err err = {0};
	for (int i = 0; i < COUNT / 2; i++) str_printf(&text, "#l%d = loc(\"k.py\":%d:1)\n", i, i + 1);
	str_puts(&text, "#l7 = loc(\"k.py\":1000:1)\ntt.func @k() {\n");
	for (int i = 0; i < COUNT; i++) str_printf(&text, "  a.b loc(#l%d)\n", i);
	str_puts(&text, "}\n");
	for (int i = COUNT / 2; i < COUNT; i++) str_printf(&text, "#l%d = loc(\"k.py\":%d:1)\n", i, i + 1);
	if (ttir_parse(text.data, text.len, &m, &err)) fail_msg("%s", err.text);
	int line = 1;
	for (const struct ttir_op *op = m.funcs->body.first->first; op; op = op->next, line++) {
		const struct ttir_loc *alias = &m.locs[op->loc];
		assert_int_equal(alias->kind, LOC_ALIAS);
		assert_int_equal(m.locs[alias->a].line, line);
	}
	assert_int_equal(line, COUNT + 1);
	ttir_release(&m);
	str_release(&text);
}

/* ---- a whole module, as a text that shows every field ---- */

static void show_type(const struct ttir_module *m, int type, struct str *out)
{
	static const char *const kinds[] = {"", "", "block of ", "desc of "};
	if (type < 0) return str_puts(out, "-");
	str_puts(out, kinds[m->types[type].kind]);
	ttir_type_text(m, type, out);
	str_printf(out, "/%lld", (long long)m->types[type].count);
}

static void show_slice(struct slice s, struct str *out) { str_printf(out, "%.*s", (int)s.len, s.data); }

static void show_attr(const struct ttir_module *m, const struct ttir_attr *a, struct str *out)
{
	static const char *const kinds[] = {"unit", "bool", "number", "string", "keyword", "ints", "dense", "other"};
	str_puts(out, " ");
	show_slice(a->key, out);
	str_printf(out, "=%s", kinds[a->kind]);
	if (a->kind == ATTR_BOOL || a->kind == ATTR_NUMBER) str_printf(out, " %lld", (long long)a->i);
	if (a->text.len && a->kind != ATTR_DENSE && a->kind != ATTR_INTS) {
		str_puts(out, " '");
		show_slice(a->text, out);
		str_puts(out, "'");
	}
	for (int i = 0; i < a->nitems; i++) {
		str_puts(out, i ? "," : " ");
		if (a->kind == ATTR_INTS) str_printf(out, "%lld", (long long)a->ints[i]);
		else show_slice(a->items[i], out);
	}
	if (a->kind == ATTR_DENSE && !a->nitems) str_puts(out, " "), show_slice(a->text, out);
	if (a->type < 0) return;
	str_puts(out, " of ");
	show_type(m, a->type, out);
}

static void show_uses(const struct ttir_use *uses, int n, struct str *out)
{
	for (int i = 0; i < n; i++) {
		str_puts(out, i ? ", " : " ");
		show_slice(uses[i].name, out);
		str_printf(out, "#%d@%d", uses[i].index, uses[i].group);
	}
}

static void show_args(const struct ttir_module *m, const struct ttir_arg *args, int n, struct str *out)
{
	str_puts(out, "(");
	for (int i = 0; i < n; i++) {
		str_puts(out, i ? ", " : "");
		show_slice(args[i].name, out);
		str_puts(out, " ");
		show_type(m, args[i].type, out);
		if (args[i].divisibility) str_printf(out, " by %lld", (long long)args[i].divisibility);
	}
	str_puts(out, ")");
}

static void show_region(const struct ttir_module *m, const struct ttir_region *r, int depth, struct str *out);

static void show_op(const struct ttir_module *m, const struct ttir_op *op, int depth, struct str *out)
{
	/* Its head: place, results, name, and what follows it. */
	str_printf(out, "%*s%d:%d", 2 * depth, "", op->line, op->column);
	if (op->nresults) show_uses(op->results, op->nresults, out), str_puts(out, " =");
	str_puts(out, op->is_generic ? " generic " : " ");
	show_slice(op->name, out);
	show_uses(op->uses, op->nuses, out);
	if (op->symbol.len) str_puts(out, " @"), show_slice(op->symbol, out);
	for (int i = 0; i < op->nwords; i++) str_puts(out, " `"), show_slice(op->words[i], out);
	for (int i = 0; i < op->nliterals; i++) show_attr(m, &op->literals[i], out);
	for (int i = 0; i < op->nattrs; i++) show_attr(m, &op->attrs[i], out);
	/* Types, those of results behind a bar; blocks that it goes to; where it was written. */
	for (int i = 0; i < op->ntypes; i++) {
		str_puts(out, i == op->ntypes - op->nresult_types ? " | " : i ? ", " : " : ");
		show_type(m, op->types[i], out);
	}
	for (int i = 0; i < op->ntargets; i++) {
		str_puts(out, " ^");
		show_slice(op->targets[i].label, out);
		show_uses(op->targets[i].uses, op->targets[i].nuses, out);
	}
	const struct ttir_loc *loc = op->loc < 0 ? NULL : &m->locs[op->loc];
	if (loc) str_printf(out, " loc %d", loc->kind == LOC_ALIAS ? m->locs[loc->a].line : loc->line);
	str_puts(out, op->nregions > 2 ? " too many\n" : "\n");
	for (int i = 0; i < op->nregions; i++) show_region(m, &op->regions[i], depth + 1, out);
}

static void show_region(const struct ttir_module *m, const struct ttir_region *r, int depth, struct str *out)
{
	for (const struct ttir_block *b = r->first; b; b = b->next) {
		str_printf(out, "%*s^", 2 * depth - 1, "");
		show_slice(b->label, out);
		show_args(m, b->args, b->nargs, out);
		str_puts(out, "\n");
		for (const struct ttir_op *op = b->first; op; op = op->next) show_op(m, op, depth, out);
	}
}

static void show_module(const struct ttir_module *m, struct str *out)
{
	for (const struct ttir_func *f = m->funcs; f; f = f->next) {
		str_puts(out, f->is_public ? "public " : "private ");
		show_slice(f->name, out);
		show_args(m, f->args, f->nargs, out);
		for (int i = 0; i < f->nresults; i++) str_puts(out, i ? ", " : " -> "), show_type(m, f->results[i], out);
		if (f->loc >= 0) str_printf(out, " loc %d", m->locs[f->loc].line);
		str_puts(out, f->has_body ? "\n" : " declared\n");
		show_region(m, &f->body, 1, out);
	}
}

/* Every form that the parser knows, once or more. */
static const char whole[] =
	"#loc = loc(\"k.py\":70:1)\n"
	"// a line of words\n"
	"module @m attributes {a.b = 1 : i32} {\n"
	"  tt.func private @helper(%x: f32 {tt.divisibility = 16 : i32, other} loc(\"k.py\":2:3), %p: !tt.ptr<f16, 1>) -> "
	"(f32, i1) attributes {noinline = true} {\n"
	"    %0:2 = tt.call @\"inner one\"(%x, %p) : (f32, !tt.ptr<f16>) -> (f32, i1) loc(\"k.py\":5:1)\n"
	"    tt.return %0#0, %0#1 : f32, i1 loc(#loc)\n"
	"  } loc(\"k.py\":1:1)\n"
	"  tt.func @declared(%a: index, %b: !tt.tensordesc<tensor<2x4xsi32>>, %c: ui8)\n"
	"  tt.func public @k(%a: i32, %t: !tt.ptr<tensor<8xf32>>) {\n"
	"    %r:2, %s = scf.while (%u = %a, %v = %a#3) : (i32, f64) -> (i32, f64, i1) {\n"
	"      scf.condition(%u) %u, %v : i32, f64\n"
	"    } do {\n"
	"    ^bb0(%w: i32 {tt.divisibility = 4 : i64}, %z: f64):\n"
	"      scf.yield %w, %z : i32, f64\n"
	"    } attributes {deep = 3 : i32}\n"
	"    scf.if %s {\n"
	"      tt.print \"words\" {hex = false} : %a, %r#1 : i32, i32\n"
	"    } {once}\n"
	"    %q = scf.if %s -> (i32) {\n"
	"      scf.yield %a : i32\n"
	"    } else {\n"
	"      scf.yield %r#0 : i32\n"
	"    }\n"
	"    scf.for %i = %a to %a step %a  : i32 {\n"
	"      %l = tt.load %t, %m cacheModifier = ca evictionPolicy = 2 : !tt.ptr<f32>\n"
	"    } {tt.num_stages = 3 : i32}\n"
	"    %e = scf.execute_region -> (i32) no_inline {\n"
	"      cf.cond_br %s, ^one(%a, %q : i32, i32), ^two\n"
	"    ^one(%b: i32, %c: i32):\n"
	"      cf.br ^two\n"
	"    ^two:\n"
	"      cf.switch %a : i32, [ default: ^one(%a, %b : i32, i32), 42: ^two, -7: ^two ]\n"
	"    }\n"
	"    %g:2 = \"tt.reduce\"(%x, %y) <{axis = 1 : i32}> ({\n"
	"    ^bb0(%lhs: f32, %rhs: f32):\n"
	"      tt.reduce.return %lhs : f32\n"
	"    }, {\n"
	"      tt.reduce.return %rhs : f32\n"
	"    }) {late = [1, {x = 2}]} : (tensor<2x1xf32>, tensor<2x1xf32>) -> (f32, f32)\n"
	"    \"tt.none\"() : () -> ()\n"
	"    %d = arith.addf %x, %y fastmath<contract> : f32\n"
	"    %f = arith.cmpi slt, %x, %y : tensor<4xi64>\n"
	"    %h = tt.dot %x, %y, %d, inputPrecision = tf32 : tensor<4x2xf16> * tensor<2x4xf16> -> tensor<4x4xf32>\n"
	"    %j = arith.constant dense<\"0x00FF\"> : tensor<2xi8>\n"
	"    %k = arith.constant dense<[true, false]> : tensor<2xi1>\n"
	"    %n = arith.constant true\n"
	"    %o = arith.extsi %n {w = array<i1: true, false>, v = array<i32>, u = @sym, s = \"a\\\"b\"} : i1 to i64\n"
	"    %p-1 = tt.x %a->i8 // the end\n"
	"    tt.return -> i8\n"
	"  }\n"
	"}\n"
	"#end = loc(unknown) // no end of line";

static const char shown[] =
	"private helper(x f32/1 by 16, p !tt.ptr<f16>/1) -> f32/1, i1/1 loc 1\n"
	" ^(x f32/1 by 16, p !tt.ptr<f16>/1)\n"
	"  5:12 0#2@0 = tt.call x#0@0, p#0@0 @inner one : f32/1, !tt.ptr<f16>/1 | f32/1, i1/1 loc 5\n"
	"  6:5 tt.return 0#0@0, 0#1@0 : f32/1, i1/1 loc 70\n"
	"public declared(a i64/1, b desc of !tt.tensordesc<tensor<2x4xi32>>/1, c i8/1) declared\n"
	"public k(a i32/1, t block of !tt.ptr<tensor<8xf32>>/1)\n"
	" ^(a i32/1, t block of !tt.ptr<tensor<8xf32>>/1)\n"
	"  10:16 r#2@0, s#1@0 = scf.while a#0@1, a#3@1 deep=number 3 '3' of i32/1 : i32/1, f64/1 | i32/1, "
	"f64/1, i1/1\n"
	"   ^(u i32/1, v f64/1)\n"
	"    11:7 scf.condition u#0@0, u#0@0, v#0@0 : i32/1, f64/1\n"
	"   ^bb0(w i32/1 by 4, z f64/1)\n"
	"    14:7 scf.yield w#0@0, z#0@0 : i32/1, f64/1\n"
	"  16:5 scf.if s#0@0 once=unit\n"
	"   ^()\n"
	"    17:7 tt.print a#0@0, r#1@0 =string 'words' hex=bool 0 'false' : i32/1, i32/1\n"
	"  19:10 q#1@0 = scf.if s#0@0 | i32/1\n"
	"   ^()\n"
	"    20:7 scf.yield a#0@0 : i32/1\n"
	"   ^()\n"
	"    22:7 scf.yield r#0@0 : i32/1\n"
	"  24:5 scf.for a#0@0, a#0@0, a#0@0 tt.num_stages=number 3 '3' of i32/1\n"
	"   ^(i i32/1)\n"
	"    25:12 l#1@0 = tt.load t#0@0, m#0@0 cacheModifier=keyword 'ca' evictionPolicy=number 2 '2' : "
	"!tt.ptr<f32>/1\n"
	"  27:10 e#1@0 = scf.execute_region | i32/1\n"
	"   ^()\n"
	"    28:7 cf.cond_br s#0@0 ^one a#0@0, q#0@0 ^two\n"
	"   ^one(b i32/1, c i32/1)\n"
	"    30:7 cf.br ^two\n"
	"   ^two()\n"
	"    32:7 cf.switch a#0@0 =number 42 '42' =number -7 '-7' : i32/1 ^one a#0@0, b#0@0 ^two ^two\n"
	"  34:12 g#2@0 = generic tt.reduce x#0@0, y#0@0 axis=number 1 '1' of i32/1 late=other '[' : "
	"tensor<2x1xf32>/2, tensor<2x1xf32>/2 | f32/1, f32/1\n"
	"   ^bb0(lhs f32/1, rhs f32/1)\n"
	"    36:7 tt.reduce.return lhs#0@0 : f32/1\n"
	"   ^()\n"
	"    38:7 tt.reduce.return rhs#0@0 : f32/1\n"
	"  40:5 generic tt.none\n"
	"  41:10 d#1@0 = arith.addf x#0@0, y#0@0 : f32/1\n"
	"  42:10 f#1@0 = arith.cmpi x#0@0, y#0@0 `slt : tensor<4xi64>/4\n"
	"  43:10 h#1@0 = tt.dot x#0@0, y#0@0, d#0@0 inputPrecision=keyword 'tf32' : tensor<4x2xf16>/8, "
	"tensor<2x4xf16>/8 | tensor<4x4xf32>/16\n"
	"  44:10 j#1@0 = arith.constant =dense 0x00FF : tensor<2xi8>/2\n"
	"  45:10 k#1@0 = arith.constant =dense true,false : tensor<2xi1>/2\n"
	"  46:10 n#1@0 = arith.constant =bool 1 'true'\n"
	"  47:10 o#1@0 = arith.extsi n#0@0 w=ints 1,0 v=ints u=keyword 'sym' s=string 'a\\\"b' : i1/1 | i64/1\n"
	"  48:12 p-1#1@0 = tt.x a#0@0 | i8/1\n"
	"  49:5 tt.return | i8/1\n";

static void test_every_form(void **state)
{
	struct ttir_module m = {.funcs = NULL};
	struct err err = {0};
	struct str text = {0};
	if (ttir_parse(whole, strlen(whole), &m, &err)) fail_msg("%s", err.text);
	show_module(&m, &text);
	assert_string_equal(text.data, shown);
	str_release(&text);
	ttir_release(&m);
}

/* Whole texts, each with the code and the message for it. */
static void test_messages(void **state)
{
	static const struct {
		const char *text;
		int code;
		const char *says;
	} rows[] = {
		{"#x = #tt.blocked<{a = 1}>\n", ERR_UNSUPPORTED,
			"ttir:1:6: attribute alias '#x' (a layout? expected TTIR, not TTGIR)"},
		{"#x loc(unknown)\n", ERR_FORMAT, "ttir:1:4: expected '=', found 'loc'"},
		{"#x = loc(5)\n", ERR_FORMAT, "ttir:1:10: expected a location, found '5'"},
		{"#x = loc(unknown\n", ERR_FORMAT, "ttir:2:1: expected ')', found ''"},
		{"#x = loc(\"a\":1)\n", ERR_FORMAT, "ttir:1:15: expected ':', found ')'"},
		{"#x = loc(\"a\":1:-1)\n", ERR_FORMAT, "ttir:1:16: expected a small number"},
		{"#x = loc(\"a\":1234567890:1)\n", ERR_FORMAT, "ttir:1:14: expected a small number"},
		{"#x = loc(\"a\":1.5:1)\n", ERR_FORMAT, "ttir:1:14: expected a small number"},
		{"#x = loc(\"a\":1:2 to 5)\n", ERR_FORMAT, "ttir:1:22: expected ':', found ')'"},
		{"#x = loc(\"a\":1:2 to 5:x)\n", ERR_FORMAT, "ttir:1:23: expected a small number"},
		{"#x = loc(callsite(unknown in unknown))\n", ERR_FORMAT, "ttir:1:27: expected 'at' in a callsite location"},
		{"#x = loc(callsite(unknown at unknown]\n", ERR_FORMAT, "ttir:1:37: expected ')', found ']'"},
		{"#x = loc(fused(unknown))\n", ERR_FORMAT, "ttir:1:15: expected '[', found '('"},
		{"module {\n} extra", ERR_FORMAT, "ttir:2:3: expected the end of the text, found 'extra'"},
		{"module {\n", ERR_FORMAT, "ttir:2:1: expected '}', found ''"},
		{"a123456789b123456789c123456789d123456789e1", ERR_FORMAT,
			"ttir:1:1: expected the end of the text, found 'a123456789b123456789c123456789d123456789'"},
		{"modul {\n}", ERR_FORMAT, "ttir:1:1: expected the end of the text, found 'modul'"},
		{"tt.func k(%a: i32)", ERR_FORMAT, "ttir:1:10: expected the name of a function"},
		{"tt.func @k", ERR_FORMAT, "ttir:1:11: expected '(', found ''"},
		{"tt.func @\"k(%a: i32)", ERR_FORMAT, "ttir:1:9: expected the name of a function"},
		{"tt.func @k(%a i32)", ERR_FORMAT, "ttir:1:15: expected ':', found 'i32'"},
		{"tt.func @k(%a: i33)", ERR_UNSUPPORTED, "ttir:1:16: type 'i33'"},
		{"tt.func @k(%a: !llvm.ptr)", ERR_UNSUPPORTED, "ttir:1:16: type '!llvm.ptr'"},
		{"tt.func @k(%a: aui32)", ERR_UNSUPPORTED, "ttir:1:16: type 'aui32'"},
		{"tt.func @k(%a: ui)", ERR_UNSUPPORTED, "ttir:1:16: type 'ui'"},
		{"tt.func @k(%a: 7)", ERR_FORMAT, "ttir:1:16: expected a type, found '7'"},
		{"tt.func @k(%a: !tt.ptr<f32, 3>)", ERR_UNSUPPORTED, "ttir:1:29: pointer in an address space other than 1"},
		{"tt.func @k(%a: !tt.ptr<!tt.ptr<tensor<4xf32>>>)", ERR_UNSUPPORTED, "ttir:1:47: pointer to a block pointer"},
		{"tt.func @k(%a: tensor<f32>)", ERR_FORMAT, "ttir:1:23: tensor without dimensions"},
		{"tt.func @k(%a: tensor<4f32>)", ERR_FORMAT, "ttir:1:23: expected 'x' after a tensor dimension"},
		{"tt.func @k(%a: tensor<4xtensor<4xf32>>)", ERR_FORMAT, "ttir:1:38: tensor of something that is not a scalar"},
		{"tt.func @k(%a: tensor<3xf32>)", ERR_RANGE,
			"ttir:1:23: tensor dimension is not a power of two, as Triton demands"},
		{"tt.func @k(%a: tensor<0xf32>)", ERR_RANGE,
			"ttir:1:23: tensor dimension is not a power of two, as Triton demands"},
		{"tt.func @k(%a: tensor<2097152xf32>)", ERR_LIMIT, "ttir:1:23: tensor of more than 1048576 elements"},
		{"tt.func @k(%a: tensor<1048576x2xf32>)", ERR_LIMIT, "ttir:1:23: tensor of more than 1048576 elements"},
		{"tt.func @k(%a: tensor<1x1x1x1x1x1x1x1x1x1x1x1x1x1x1x1x1x1x1x1x1xf32>)", ERR_LIMIT,
			"ttir:1:23: tensor of more than 20 dimensions"},
		{"tt.func @k(%a: tensor<4xf32, #blocked>)", ERR_UNSUPPORTED,
			"ttir:1:28: tensor layout: this is TTGIR, expected TTIR"},
		{"tt.func @k() {\n  tt.return\n", ERR_FORMAT, "ttir:3:1: the text ends inside a region"},
		{"tt.func @k() {\n  return\n}", ERR_FORMAT, "ttir:2:3: expected an operation, found 'return'"},
		{"tt.func @k() {\n  %a:0 = tt.x\n}", ERR_LIMIT, "ttir:2:8: an operation of 0 results"},
		{"tt.func @k() {\n  %a:1025 = tt.x\n}", ERR_LIMIT, "ttir:2:11: an operation of 1025 results"},
		{"tt.func @k() {\n  %a tt.x\n}", ERR_FORMAT, "ttir:2:6: expected '=', found 'tt.x'"},
		{"tt.func @k() {\n  scf.if 7 {}\n}", ERR_FORMAT, "ttir:2:10: expected an operand of scf.if"},
		{"tt.func @k() {\n  scf.for %i = %a until %b step %c {\n  }\n}", ERR_FORMAT,
			"ttir:2:19: expected 'to', found 'until'"},
		{"tt.func @k() {\n  scf.while (%a = 5) : (i32) -> () {\n  } do {\n  }\n}", ERR_FORMAT,
			"ttir:2:19: expected the value a loop variable starts from"},
		{"tt.func @k() {\n  scf.while (%a = %b) : (i32, i32) -> () {\n  } do {\n  }\n}", ERR_FORMAT,
			"ttir:2:42: scf.while has 1 carried values and 2 types"},
		{"tt.func @k() {\n  scf.while : () -> () {\n  } {\n  }\n}", ERR_FORMAT, "ttir:3:5: expected 'do', found '{'"},
		{"tt.func @k() {\n  cf.switch %a : i32, [ 7: ^one ]\n}", ERR_FORMAT,
			"ttir:2:25: expected 'default', found '7'"},
		{"tt.func @k() {\n  cf.switch %a : i32, [ default: one ]\n}", ERR_FORMAT,
			"ttir:2:34: expected a block label in cf.switch"},
		{"tt.func @k() {\n  cf.switch %a : i32, [ default: ^one, two: ^x ]\n}", ERR_FORMAT,
			"ttir:2:40: expected a case of cf.switch"},
		{"tt.func @k() {\n  cf.switch %a : i32, [ default: ^one(%a : i32 ]\n}", ERR_FORMAT,
			"ttir:2:48: expected ')', found ']'"},
		{"tt.func @k() {\n  \"a.b\"(%x)[^bb1] : () -> ()\n}", ERR_UNSUPPORTED,
			"ttir:2:12: generic form with successors of 'a.b'"},
		{"tt.func @k() {\n  \"a.b\"() ({\n}, {\n}, {\n}) : () -> ()\n}", ERR_UNSUPPORTED,
			"ttir:4:4: operation with more than two regions"},
		{"tt.func @k() {\n  \"a.b\"(%x ({\n}) : () -> ()\n}", ERR_FORMAT, "ttir:2:12: expected ')', found '('"},
		{"tt.func @k() {\n  \"a.b\n}", ERR_FORMAT, "ttir:2:3: expected an operation, found '\"'"},
		{"tt.func @k() {\n  %c = arith.constant dense<[1, x]> : i32\n}", ERR_FORMAT,
			"ttir:2:33: expected a number in a dense constant"},
		{"tt.func @k() {\n  %c = arith.constant {a = array<i32: \"1\">} 1 : i32\n}", ERR_FORMAT,
			"ttir:2:39: expected a number in an array"},
		{"tt.func @k() {\n  %c = arith.constant {a = )} 1 : i32\n}", ERR_FORMAT,
			"ttir:2:28: unbalanced brackets in an attribute"},
		{"tt.func @k() {\n  % = arith.constant 1 : i32\n}", ERR_FORMAT, "ttir:2:3: expected an operation, found ''"},
		{"tt.func @k() {\n  ;\n}", ERR_FORMAT, "ttir:2:3: expected an operation, found ';'"},
	};
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct ttir_module m = {.funcs = NULL};
		struct err err = {0};
		/* The code and every byte of the message, with the place that it names. */
		int code = ttir_parse(rows[i].text, strlen(rows[i].text), &m, &err);
		if (code != rows[i].code || strcmp(err.text, rows[i].says))
			fail_msg("%s\n%s: %s", rows[i].text, err_name(code), err.text);
		ttir_release(&m);
	}
}

/* Each limit, at its last number and at the first beyond: a text of a head, so many units, and a
 * tail, with so many closing units before it. */
static void test_limits(void **state)
{
	static const struct {
		const char *head, *unit, *closing, *tail;
		int most, code;
		const char *says;
	} rows[] = {
		{"", "tt.func @k()\n", "", "", TTIR_FUNCS_MAX, ERR_LIMIT, "more than 1024 functions"},
		{"tt.func @k() {\n", "a.b\n", "", "}", TTIR_OPS_MAX, ERR_LIMIT, "more than 65536 operations"},
		{"tt.func @k() {\n", "^b:\n", "", "}", TTIR_BLOCKS_MAX, ERR_LIMIT, "more than 4096 blocks in one region"},
		{"tt.func @k() {\na.b", " %x,", "", "}", TTIR_LIST_MAX, ERR_LIMIT, "more than 1024 items in one list"},
		{"tt.func @k() {\na.b loc(fused[", "unknown,", "", "])\n}", TTIR_LOCS_MAX - 1, ERR_LIMIT,
			"more than 65536 locations"},
		{"tt.func @k(%x: ", "!tt.ptr<", ">", "f32)", TTIR_DEPTH_MAX - 1, ERR_LIMIT, "nested more than 48 deep"},
		{"#a = loc(", "fused[", "]", "unknown)", TTIR_DEPTH_MAX - 1, ERR_LIMIT, "nested more than 48 deep"},
		{"tt.func @k() {\na.b ", "dense<[", "]>", "1 : i32\n}", 1, ERR_FORMAT, "expected a number in a dense constant"},
		{"tt.func @k(%x: tensor<", "1x", "", "f32>)", TTIR_DIMS_MAX, ERR_LIMIT, "tensor of more than 20 dimensions"},
		{"tt.func @k(%x: tensor<", "2x", "", "f32>)", 20, ERR_LIMIT, "tensor of more than 20 dimensions"},
		{"tt.func @k(%x: tensor<", "4x", "", "f32>)", 10, ERR_LIMIT, "tensor of more than 1048576 elements"},
		{"tt.func @k() {\na.b {a = array<i32: ", "3, ", "", ">}\n}", TTIR_LIST_MAX, ERR_LIMIT,
			"more than 1024 items in one list"},
		{"tt.func @k() {\n%x:", "0", "", "1 = a.b\n}", 8, ERR_FORMAT, "expected a small number"},
	};
	for (size_t i = 0; i < ARRAY_LEN(rows); i++)
		for (int n = rows[i].most; n <= rows[i].most + 1; n++) {
			struct ttir_module m = {.funcs = NULL};
			struct err err = {0};
			struct str text = {0};
			str_puts(&text, rows[i].head);
			for (int k = 0; k < n; k++) str_puts(&text, rows[i].unit);
			/* What opens with the units closes behind the innermost word of the tail. */
			size_t inner = rows[i].closing[0] ? strspn(rows[i].tail, "abcdefghijklmnopqrstuvwxyz0123456789") : 0;
			str_append(&text, rows[i].tail, inner);
			for (int k = 0; k < n; k++) str_puts(&text, rows[i].closing);
			str_puts(&text, rows[i].tail + inner);
			int code = ttir_parse(text.data, text.len, &m, &err);
			if (code != (n > rows[i].most ? rows[i].code : 0) || (code && !strstr(err.text, rows[i].says)))
				fail_msg("row %zu, %d times: %s: %s", i, n, err_name(code), err.text);
			ttir_release(&m);
			str_release(&text);
		}
}

/* Types are found again, up to the last that there is room for; a text up to its last byte. */
static void test_table_is_full(void **state)
{
	struct err err = {0};
	struct ttir_module m = {.funcs = NULL};
	char *blanks = xmalloc(TTIR_TEXT_BYTES_MAX + 1);
	memset(blanks, ' ', TTIR_TEXT_BYTES_MAX + 1);
	assert_int_equal(ttir_parse(blanks, TTIR_TEXT_BYTES_MAX + 1, &m, &err), ERR_LIMIT);
	assert_string_equal(err.text, "ttir text has 4194305 bytes, at most 4194304 are read");
	assert_int_equal(ttir_parse(blanks, TTIR_TEXT_BYTES_MAX, &m, &err), 0);
	free(blanks);
	struct ttir_type t = {.kind = TYPE_TENSOR, .elem = ELEM_F32, .ndim = 2};
	for (int round = 0; round < 2; round++)
		for (int id = 1; id < TTIR_TYPES_MAX; id++) {
			t.shape[0] = id % 50;
			t.shape[1] = id;
			assert_int_equal(ttir_type_intern(&m, &t), id);
		}
	t.shape[0] = 50;
	assert_int_equal(ttir_type_intern(&m, &t), ERR_LIMIT);
	ttir_release(&m);
}

/* None of the above leaves memory or descriptors behind, errors included. */
static void everything(void *ctx)
{
	test_attributes(NULL);
	test_dense(NULL);
	test_loop(NULL);
	test_types(NULL);
	test_numbers(NULL);
	test_operands(NULL);
	test_elements(NULL);
	test_refusals(NULL);
	test_locations(NULL);
	test_aliases(NULL);
	test_every_form(NULL);
	test_messages(NULL);
	test_limits(NULL);
	test_table_is_full(NULL);
}

static void test_leaves_nothing(void **state) { leaves_nothing(everything, NULL); }

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(test_attributes), cmocka_unit_test(test_dense),
		cmocka_unit_test(test_loop), cmocka_unit_test(test_types), cmocka_unit_test(test_numbers),
		cmocka_unit_test(test_operands), cmocka_unit_test(test_elements), cmocka_unit_test(test_refusals),
		cmocka_unit_test(test_locations), cmocka_unit_test(test_aliases), cmocka_unit_test(test_every_form),
		cmocka_unit_test(test_messages), cmocka_unit_test(test_limits), cmocka_unit_test(test_table_is_full),
		cmocka_unit_test(test_leaves_nothing)};
	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
