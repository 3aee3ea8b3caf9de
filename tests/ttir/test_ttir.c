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
				assert_int_equal(elem_is_wide((enum elem)e), rows[i].is_float && rows[i].bytes >= 4);
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

/* A word of each kind behind the end of a module is named as it stands there,
 * and nothing beside it. */
static void test_words(void **state)
{
	static const char *const words[][2] = {{"->", "->"}, {"word.of", "word.of"}, {"-12", "-12"}, {"\"a b\"", "a b"},
		{"%v", "v"}, {"@s", "s"}, {"!t", "t"}, {"^b", "b"}, {"(", "("}, {"-", "-"}, {"~", "~"}};
	for (size_t i = 0; i < ARRAY_LEN(words); i++) {
		struct ttir_module m = {.funcs = NULL};
		struct err err = {0};
		char *text = xasprintf("%s%s%s beside\n", HEAD, TAIL, words[i][0]),
			 *says = xasprintf("expected the end of the text, found '%s'", words[i][1]);
		assert_true(ttir_parse(text, strlen(text), &m, &err) < 0);
		if (!strstr(err.text, says)) fail_msg("%s: %s", words[i][0], err.text);
		ttir_release(&m);
		free(says);
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
	test_words(NULL);
	test_locations(NULL);
	test_aliases(NULL);
}

static void test_leaves_nothing(void **state) { leaves_nothing(everything, NULL); }

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(test_attributes), cmocka_unit_test(test_dense),
		cmocka_unit_test(test_loop), cmocka_unit_test(test_types), cmocka_unit_test(test_numbers),
		cmocka_unit_test(test_operands), cmocka_unit_test(test_elements), cmocka_unit_test(test_refusals),
		cmocka_unit_test(test_words), cmocka_unit_test(test_locations), cmocka_unit_test(test_aliases),
		cmocka_unit_test(test_leaves_nothing)};
	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
