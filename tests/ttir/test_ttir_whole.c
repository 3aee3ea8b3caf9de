/* Triton IR as whole texts: one with every form, shown field by field; each message with its code;
 * how much is read at most; and how many names the table of operations takes. */
#include "ttir/ttir.h"
#include "base/base.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <cmocka.h>
#include "../leaks.h"

#define HEAD "module {\n  tt.func public @k(%x: i32, %y: f32) {\n"
#define TAIL "    tt.return\n  }\n}\n"

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
	test_every_form(NULL);
	test_messages(NULL);
	test_limits(NULL);
	test_table_is_full(NULL);
}

static void test_leaves_nothing(void **state) { leaves_nothing(everything, NULL); }

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(test_every_form), cmocka_unit_test(test_messages),
		cmocka_unit_test(test_limits), cmocka_unit_test(test_table_is_full), cmocka_unit_test(test_leaves_nothing)};
	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
