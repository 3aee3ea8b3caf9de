/* What a kernel is asked before it runs: through which arguments it may write, what it does before
 * it waits for the launch in front of it, whether it rounds to fewer digits, whether its costs
 * depend on data, whether its results depend on an order. A row is a kernel of a few lines and the
 * answer, by hand from vm.h; line 0: no. */
#include "body_kernel.h"
#include "vm/core/program.h"
#include "vm/meter/depend.h"

#define HEAD BODY_HEAD("f32")
#define CONSTANTS "%zero = arith.constant 0 : i32\n%one = arith.constant 1 : i32\n%t = arith.constant true\n" \
	"%f = arith.constant 1.0 : f32\n"
/* The first word of b, as a number and as a pointer. */
#define LOADED "%bi = tt.bitcast %b : !tt.ptr<f32> -> !tt.ptr<i32>\n%d = tt.load %bi : !tt.ptr<i32>\n"
#define FROM_MEMORY "%bw = tt.bitcast %b : !tt.ptr<f32> -> !tt.ptr<i64>\n%w = tt.load %bw : !tt.ptr<i64>\n" \
	"%p = tt.int_to_ptr %w : i64 -> !tt.ptr<f32>\n"
#define STORE(p, v) "tt.store %" p ", %" v " : !tt.ptr<f32>"

static struct vm_kernel *made(const char *body)
{
	struct vm_kernel *k;
	struct err err = {0};
	char *text = xasprintf("%s%s%s%s", HEAD, CONSTANTS, body, TAIL);
	if (vm_kernel_create(text, strlen(text), &k, &err)) fail_msg("%s: %s", body, err.text);
	free(text);
	return k;
}

/* The first line that answers yes; 0: no. line NULL gives the same answer. */
static int line_of(const char *body, bool (*question)(const struct vm_kernel *, int *))
{
	struct vm_kernel *k = made(body);
	int line = -2;
	bool is_so = question(k, &line);
	assert_int_equal(question(k, NULL), is_so);
	vm_kernel_free(k);
	return is_so ? line : 0;
}

struct line_row {
	const char *body;
	int line;
};

static void lines_check(const struct line_row *rows, size_t n, bool (*question)(const struct vm_kernel *, int *))
{
	int bad = 0;
	for (size_t i = 0; i < n; i++) {
		int line = line_of(rows[i].body, question);
		if (line != rows[i].line) print_message("# row %zu: line %d, not %d\n", i, line, rows[i].line);
		bad += line != rows[i].line;
	}
	assert_int_equal(bad, 0);
}

/* ---- arguments ---- */

static void test_written(void **state)
{
	static const struct {
		const char *body;
		unsigned written; /* a bit an argument */
	} rows[] = {
		{"%v = tt.load %a : !tt.ptr<f32>\n", 0},
		{"%v = tt.load %a : !tt.ptr<f32>\n" STORE("b", "v") "\n", 2},
		{STORE("a", "f") "\n" STORE("c", "f") "\n", 5},
		{"%old = tt.atomic_rmw fadd, relaxed, gpu, %c, %f, %t : (!tt.ptr<f32>, f32, i1) -> f32\n", 4},
		{"%ci = tt.bitcast %c : !tt.ptr<f32> -> !tt.ptr<i32>\n"
		 "%old = tt.atomic_cas relaxed, gpu, %ci, %zero, %one : (!tt.ptr<i32>, i32, i32) -> i32\n",
			4},
		/* Either of two pointers; one that moves by what was read; one that goes round a loop. */
		{"%y = arith.cmpi slt, %n, %one : i32\n%p = arith.select %y, %a, %c : !tt.ptr<f32>\n" STORE("p", "f") "\n", 13},
		{LOADED "%p = tt.addptr %a, %d : !tt.ptr<f32>, i32\n" STORE("p", "f") "\n", 1},
		{"%p = scf.for %i = %zero to %n step %one iter_args(%q = %c) -> (!tt.ptr<f32>) : i32 {\n"
		 "%r = tt.addptr %q, %i : !tt.ptr<f32>, i32\nscf.yield %r : !tt.ptr<f32>\n}\n" STORE("p", "f") "\n",
			4},
		/* A pointer out of memory may be any. */
		{FROM_MEMORY STORE("p", "f") "\n", 15},
		{FROM_MEMORY "%v = tt.load %p : !tt.ptr<f32>\n" STORE("b", "v") "\n", 2},
	};
	int bad = 0;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct vm_kernel *k = made(rows[i].body);
		unsigned written = 0;
		for (int a = 0; a < 4; a++) written |= (unsigned)vm_kernel_arg_may_be_written(k, a) << a;
		if (written != rows[i].written) print_message("# row %zu: %u, not %u\n", i, written, rows[i].written);
		bad += written != rows[i].written;
		vm_kernel_free(k);
	}
	assert_int_equal(bad, 0);
}

/* The bits of arguments beyond the 64th are in a word of their own. */
static void test_many_arguments(void **state)
{
	enum { ARGS = 100, WRITTEN = 70, READ = 64 };
	struct str text = {0};
	struct vm_kernel *k;
	struct err err = {0};
	str_puts(&text, "module {\n  tt.func public @many(");
	for (int i = 0; i < ARGS; i++) str_printf(&text, "%s%%p%d: !tt.ptr<f32>", i ? ", " : "", i);
	str_printf(
		&text, ") {\n%%v = tt.load %%p%d : !tt.ptr<f32>\ntt.store %%p%d, %%v : !tt.ptr<f32>\n%s", READ, WRITTEN, TAIL);
	if (vm_kernel_create(text.data, text.len, &k, &err)) fail_msg("%s", err.text);
	assert_string_equal(vm_kernel_name(k), "many");
	assert_int_equal(vm_kernel_nargs(k), ARGS);
	for (int i = 0; i < ARGS; i++) {
		assert_int_equal(vm_kernel_arg_may_be_written(k, i), i == WRITTEN);
		assert_int_equal(vm_kernel_arg_may_be_early(k, i, true), i == WRITTEN);
		assert_int_equal(vm_kernel_arg_may_be_early(k, i, false), i == READ);
		assert_true(vm_kernel_arg_is_pointer(k, i) && !vm_kernel_arg_is_descriptor(k, i));
	}
	vm_kernel_free(k);
	str_release(&text);
}

/* ---- dependent launches ---- */

#define ASM(name, text, pure) "%" name " = tt.elementwise_inline_asm \"" text "\" {constraints = \"=r,r\", " \
	"packed_element = 1 : i32, pure = " pure "} %n : i32 -> i32\n"
#define WAIT ASM("wait", "griddepcontrol.wait; mov.b32 $0, $1;", "false")
#define TRIGGER ASM("go", "griddepcontrol.launch_dependents; mov.b32 $0, $1;", "false")
#define LOAD_A "%v = tt.load %a : !tt.ptr<f32>\n"
#define COND "%y = arith.cmpi slt, %n, %one : i32\n"
enum { SKIPS = 1, TRIGGERS = 2, EARLY = 4 };

static void test_early(void **state)
{
	static const struct {
		const char *body;
		unsigned reads; /* before the wait: a bit an argument */
		unsigned writes;
		unsigned does;
	} rows[] = {
		/* No wait at all; all behind it; all before it. */
		{LOAD_A STORE("b", "v") "\n", 1, 2, SKIPS},
		{WAIT LOAD_A STORE("b", "v") "\n", 0, 0, 0},
		{LOAD_A STORE("b", "v") "\n" WAIT, 1, 2, 0},
		{LOAD_A WAIT STORE("b", "v") "\n", 1, 0, 0},
		{"%old = tt.atomic_rmw fadd, relaxed, gpu, %c, %f, %t : (!tt.ptr<f32>, f32, i1) -> f32\n" WAIT, 0, 4, 0},
		{"%ci = tt.bitcast %c : !tt.ptr<f32> -> !tt.ptr<i32>\n"
		 "%old = tt.atomic_cas relaxed, gpu, %ci, %zero, %one : (!tt.ptr<i32>, i32, i32) -> i32\n" WAIT,
			0, 4, 0},
		{FROM_MEMORY STORE("p", "f") "\n" WAIT, 2, 15, 0},
		{FROM_MEMORY "%v = tt.load %p : !tt.ptr<f32>\n" WAIT, 15, 0, 0},
		/* A wait in one way of two; in both; in a loop that may turn zero times; before a loop. */
		{COND "scf.if %y {\n" WAIT "}\n" LOAD_A, 1, 0, SKIPS},
		{COND "scf.if %y {\n" WAIT "} else {\n" ASM("w2", "griddepcontrol.wait; mov.b32 $0, $1;", "false") "}\n" LOAD_A,
			0, 0, 0},
		{COND "scf.if %y {\n" WAIT "} else {\n" LOAD_A "}\n" STORE("b", "f") "\n", 1, 2, SKIPS},
		{"scf.for %i = %zero to %n step %one : i32 {\n" WAIT "}\n" LOAD_A, 1, 0, SKIPS},
		{WAIT "scf.for %i = %zero to %n step %one : i32 {\n" LOAD_A "}\n", 0, 0, 0},
		{"scf.for %i = %zero to %n step %one : i32 {\n" LOAD_A "}\n" WAIT STORE("b", "f") "\n", 1, 0, 0},
		/* Assembly that may be dropped, and a wait that is guarded, are none. */
		{ASM("wait", "griddepcontrol.wait; mov.b32 $0, $1;", "true") LOAD_A, 1, 0, SKIPS},
		{ASM("wait", "{ .reg .pred p; setp.eq.s32 p, $1, 0; @p griddepcontrol.wait; mov.b32 $0, $1; }", "false") LOAD_A,
			1, 0, SKIPS},
		/* The body of a reduction belongs to it, and what follows is reached. */
		{"%x = tt.splat %f : f32 -> tensor<8xf32>\n%s = \"tt.reduce\"(%x) <{axis = 0 : i32}> ({\n^bb0(%p: f32, %q: "
		 "f32):\n"
		 "%r = arith.addf %p, %q : f32\ntt.reduce.return %r : f32\n}) : (tensor<8xf32>) -> f32\n" STORE(
			 "b", "s") "\n" WAIT LOAD_A,
			0, 2, 0},
		/* Where the next launch may start. */
		{TRIGGER WAIT LOAD_A, 0, 0, TRIGGERS | EARLY},
		{WAIT TRIGGER LOAD_A, 0, 0, TRIGGERS},
		{COND "scf.if %y {\n" WAIT "}\n" TRIGGER, 0, 0, SKIPS | TRIGGERS | EARLY},
		{COND "scf.if %y {\n" TRIGGER "}\n" WAIT, 0, 0, TRIGGERS | EARLY},
	};
	int bad = 0;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct vm_kernel *k = made(rows[i].body);
		unsigned reads = 0, writes = 0,
				 does = (vm_kernel_may_skip_wait(k) ? SKIPS : 0) | (vm_kernel_triggers(k) ? TRIGGERS : 0) |
			(vm_kernel_triggers_early(k) ? EARLY : 0);
		for (int a = 0; a < 4; a++) {
			reads |= (unsigned)vm_kernel_arg_may_be_early(k, a, false) << a;
			writes |= (unsigned)vm_kernel_arg_may_be_early(k, a, true) << a;
		}
		bool is_right = reads == rows[i].reads && writes == rows[i].writes && does == rows[i].does;
		if (!is_right) print_message("# row %zu: reads %u, writes %u, does %u\n", i, reads, writes, does);
		bad += !is_right;
		vm_kernel_free(k);
	}
	assert_int_equal(bad, 0);
}

/* ---- digits ---- */

#define HALF(name) "%" name "p = tt.bitcast %b : !tt.ptr<f32> -> !tt.ptr<" name ">\n"
#define DOWN(to, line) "%h = arith.truncf %v : f32 to " to AT(line)
#define UP "%u = arith.extf %h : f16 to f32\n"

static void test_narrows(void **state)
{
	static const struct line_row rows[] = {
		/* Stored as it is, and as fp32 again; each narrow type; fp64. */
		{LOAD_A HALF("f16") DOWN("f16", 5) "tt.store %f16p, %h : !tt.ptr<f16>\n", 5},
		{LOAD_A DOWN("f16", 6) UP STORE("b", "u") "\n", 6},
		{LOAD_A HALF("bf16") DOWN("bf16", 7) "tt.store %bf16p, %h : !tt.ptr<bf16>\n", 7},
		{LOAD_A HALF("f8E5M2") "%h = tt.fp_to_fp %v, rounding = rtne : f32 -> f8E5M2" AT(
			 8) "tt.store %f8E5M2p, %h : !tt.ptr<f8E5M2>\n",
			8},
		{LOAD_A HALF("f16") "%x = arith.extf %v : f32 to f64\n%h = arith.truncf %x : f64 to f16" AT(
			 9) "tt.store %f16p, %h : !tt.ptr<f16>\n",
			9},
		{LOAD_A "%x = arith.extf %v : f32 to f64\n%h = arith.truncf %x : f64 to f32" AT(9) STORE("b", "h") "\n", 0},
		/* The first of two. */
		{LOAD_A DOWN("f16", 4) UP
			"%h2 = arith.truncf %u : f32 to f16" AT(3) "%u2 = arith.extf %h2 : f16 to f32\n" STORE("b", "u2") "\n",
			4},
		/* Never stored; seen by a comparison alone; chosen by; an address; an atomic adds it. */
		{LOAD_A DOWN("f16", 5) STORE("b", "v") "\n", 0},
		{LOAD_A DOWN("f16", 5) UP
			"%y = arith.cmpf olt, %u, %f : f32\n%s = arith.select %y, %v, %f : f32\n" STORE("b", "s") "\n",
			0},
		{LOAD_A DOWN("f16", 5) UP
			"%y = arith.cmpf olt, %v, %f : f32\n%s = arith.select %y, %u, %f : f32\n" STORE("b", "s") "\n",
			5},
		{LOAD_A DOWN("f16", 5) UP
			"%i = arith.fptosi %u : f32 to i32\n%p = tt.addptr %b, %i : !tt.ptr<f32>, i32\n" STORE("p", "v") "\n",
			0},
		{LOAD_A DOWN("f16", 5) UP
			"%old = tt.atomic_rmw fadd, relaxed, gpu, %c, %u, %t : (!tt.ptr<f32>, f32, i1) -> f32\n",
			5},
		/* Through a loop's value, and one beside it that is not rounded. */
		{LOAD_A DOWN("f16", 5) UP
			"%r:2 = scf.for %i = %zero to %n step %one iter_args(%q = %u, %w = %v) -> (f32, f32) : "
			"i32 {\n%z = arith.addf %q, %f : f32\nscf.yield %z, %w : f32, f32\n}\n" STORE("b", "r#0") "\n",
			5},
		{LOAD_A DOWN("f16", 5) UP
			"%r:2 = scf.for %i = %zero to %n step %one iter_args(%q = %u, %w = %v) -> (f32, f32) : "
			"i32 {\n%z = arith.addf %q, %f : f32\nscf.yield %z, %w : f32, f32\n}\n" STORE("b", "r#1") "\n",
			0},
		/* Through a reduction. */
		{LOAD_A DOWN("f16", 5) UP
			"%x = tt.splat %u : f32 -> tensor<8xf32>\n%s = \"tt.reduce\"(%x) <{axis = 0 : i32}> "
			"({\n^bb0(%p: f32, %q: f32):\n%r = arith.addf %p, %q : f32\ntt.reduce.return %r : f32\n}) : "
			"(tensor<8xf32>) -> f32\n" STORE("b", "s") "\n",
			5},
		/* A split product keeps the rest: x - hi, stored too. */
		{LOAD_A DOWN("f16", 5) UP
			"%rest = arith.subf %v, %u : f32\n%s = arith.addf %u, %rest : f32\n" STORE("b", "s") "\n",
			0},
		{LOAD_A DOWN("f16", 5) UP
			"%rest = arith.subf %u, %v : f32\n%s = arith.addf %u, %rest : f32\n" STORE("b", "s") "\n",
			5},
		{LOAD_A DOWN("f16", 5) UP "%rest = arith.subf %f, %u : f32\n" STORE("b", "rest") "\n", 5},
	/* A pattern cut by a mask of ten bits and more, not of nine, not of the exponent. */
#define CUT(mask) LOAD_A "%m = arith.constant " mask " : i32\n%x = tt.bitcast %v : f32 -> i32\n" \
	"%z = arith.andi %x, %m : i32" AT(11) "%s = tt.bitcast %z : i32 -> f32\n" STORE("b", "s") "\n"
		{CUT("-1024"), 11},
		{CUT("-8192"), 11},
		{CUT("-65536"), 11},
		{CUT("-512"), 0},
		{CUT("-1023"), 0},
		{CUT("0"), 0},
		{CUT("1073740800"), 0},
		{LOAD_A "%m = arith.constant -1024 : i32\n%x = arith.fptosi %v : f32 to i32\n%z = arith.andi %x, %m : i32" AT(
			 11) "%s = tt.bitcast %z : i32 -> f32\n" STORE("b", "s") "\n",
			0},
	};
	lines_check(rows, ARRAY_LEN(rows), vm_kernel_narrows);
}

#define DOT8(type, kept) "%x = arith.constant dense<1.0> : tensor<32x32x" type ">\n%z = arith.constant dense<0.0> : " \
	"tensor<32x32xf32>\n%d = tt.dot %x, %x, %z" kept " : tensor<32x32x" type "> * tensor<32x32x" type \
	"> -> tensor<32x32xf32>" AT(12)

static void test_sums_fp8(void **state)
{
	static const struct line_row rows[] = {
		{DOT8("f8E5M2", " {maxNumImpreciseAcc = 1 : i32}"), 12},
		{DOT8("f8E4M3FN", " {maxNumImpreciseAcc = 1073741824 : i32}"), 12},
		{DOT8("f8E5M2", " {maxNumImpreciseAcc = 0 : i32}"), 0},
		{DOT8("f8E5M2", ""), 0},
		{DOT8("f16", " {maxNumImpreciseAcc = 32 : i32}"), 0},
		{DOT8("f8E5M2",
			 " {maxNumImpreciseAcc = 32 : i32}") "%d2 = tt.dot %x, %x, %z {maxNumImpreciseAcc = 32 : i32} : "
												 "tensor<32x32xf8E5M2> * tensor<32x32xf8E5M2> -> tensor<32x32xf32>" AT(
													 13),
			12},
	};
	lines_check(rows, ARRAY_LEN(rows), vm_kernel_sums_fp8);
}

/* ---- costs ---- */

static void test_data(void **state)
{
	static const struct {
		const char *body;
		int line;
		const char *what;
	} rows[] = {
		/* Values alone; the program's number, and an argument, are no data. */
		{LOADED "%v = arith.sitofp %d : i32 to f32\n" STORE("a", "v") AT(5), 0, ""},
		{"%i = tt.get_program_id x : i32\n%p = tt.addptr %a, %i : !tt.ptr<f32>, i32\n" STORE("p", "f") AT(5), 0, ""},
		{COND "scf.if %y {\n" STORE("a", "f") AT(5) "}\n", 0, ""},
		/* Each operand that decides. */
		{LOADED "%p = tt.addptr %a, %d : !tt.ptr<f32>, i32\n%v = tt.load %p : !tt.ptr<f32>" AT(6), 6,
			"the address of a load"},
		{LOADED "%y = arith.cmpi slt, %d, %one : i32\n%v = tt.load %a, %y : !tt.ptr<f32>" AT(7), 7,
			"the mask of a load"},
		{LOADED "%p = tt.addptr %a, %d : !tt.ptr<f32>, i32\n" STORE("p", "f") AT(8), 8, "the address of a store"},
		{LOADED "%y = arith.cmpi slt, %d, %one : i32\ntt.store %a, %f, %y : !tt.ptr<f32>" AT(9), 9,
			"the mask of a store"},
		{LOADED "%p = tt.addptr %a, %d : !tt.ptr<f32>, i32\n"
				"%o = tt.atomic_rmw fadd, relaxed, gpu, %p, %f, %t : (!tt.ptr<f32>, f32, i1) -> f32" AT(10),
			10, "the address of an atomic"},
		{LOADED "%y = arith.cmpi slt, %d, %one : i32\n"
				"%o = tt.atomic_rmw fadd, relaxed, gpu, %a, %f, %y : (!tt.ptr<f32>, f32, i1) -> f32" AT(11),
			11, "the mask of an atomic"},
		{LOADED "%p = tt.addptr %bi, %d : !tt.ptr<i32>, i32\n"
				"%o = tt.atomic_cas relaxed, gpu, %p, %zero, %one : (!tt.ptr<i32>, i32, i32) -> i32" AT(12),
			12, "the address of an atomic"},
		{LOADED "%x = tt.splat %f : f32 -> tensor<8xf32>\n%i = tt.splat %d : i32 -> tensor<8xi32>\n"
				"%g = tt.gather %x[%i] {axis = 0 : i32} : (tensor<8xf32>, tensor<8xi32>) -> tensor<8xf32>" AT(13),
			13, "the index of a gather"},
		{LOADED "%y = arith.cmpi slt, %d, %one : i32\nscf.if %y {\n" STORE("a", "f") "\n}" AT(14), 14, "a branch"},
		{LOADED "scf.for %i = %zero to %d step %one : i32 {\n" STORE("a", "f") "\n}" AT(15), 15,
			"the trip count of a loop"},
		{LOADED "scf.for %i = %d to %n step %one : i32 {\n" STORE("a", "f") "\n}" AT(16), 16,
			"the trip count of a loop"},
		/* What an atomic gave back is data; so is what went through a loop or a reduction. */
		{"%o = tt.atomic_rmw fadd, relaxed, gpu, %a, %f, %t : (!tt.ptr<f32>, f32, i1) -> f32\n"
		 "%i = arith.fptosi %o : f32 to i32\n%p = tt.addptr %b, %i : !tt.ptr<f32>, i32\n" STORE("p", "f") AT(17),
			17, "the address of a store"},
		{LOADED "%r:2 = scf.for %i = %zero to %n step %one iter_args(%q = %d, %w = %n) -> (i32, i32) : i32 {\n"
				"%z = arith.addi %q, %one : i32\nscf.yield %z, %w : i32, i32\n}\n%p = tt.addptr %a, %r#0 : "
				"!tt.ptr<f32>, i32\n" STORE("p", "f") AT(18),
			18, "the address of a store"},
		{LOADED "%r:2 = scf.for %i = %zero to %n step %one iter_args(%q = %d, %w = %n) -> (i32, i32) : i32 {\n"
				"%z = arith.addi %q, %one : i32\nscf.yield %z, %w : i32, i32\n}\n%p = tt.addptr %a, %r#1 : "
				"!tt.ptr<f32>, i32\n" STORE("p", "f") AT(18),
			0, ""},
		{LOADED "%x = tt.splat %d : i32 -> tensor<8xi32>\n%s = \"tt.reduce\"(%x) <{axis = 0 : i32}> ({\n^bb0(%e: i32, "
				"%q: i32):\n%r = arith.addi %e, %q : i32\ntt.reduce.return %r : i32\n}) : (tensor<8xi32>) -> i32\n"
				"%p = tt.addptr %a, %s : !tt.ptr<f32>, i32\n" STORE("p", "f") AT(19),
			19, "the address of a store"},
		/* The first of two. */
		{LOADED "%p = tt.addptr %a, %d : !tt.ptr<f32>, i32\n%v = tt.load %p : !tt.ptr<f32>" AT(20) STORE("p", "f")
				AT(21),
			20, "the address of a load"},
	};
	int bad = 0;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		int line = line_of(rows[i].body, vm_kernel_cost_depends_on_data);
		struct vm_kernel *k = made(rows[i].body);
		struct vm_dependence d;
		vm_dependence_make(&k->program, &d);
		bool is_right = line == rows[i].line && !strcmp(d.what, rows[i].what);
		if (!is_right) print_message("# row %zu: line %d, %s\n", i, line, d.what);
		bad += !is_right;
		vm_dependence_release(&d);
		vm_kernel_free(k);
	}
	assert_int_equal(bad, 0);
}

/* ---- order ---- */

#define RMW(name, kind, line) "%" name " = tt.atomic_rmw " kind ", relaxed, gpu, %a, %f, %t : " \
	"(!tt.ptr<f32>, f32, i1) -> f32" AT(line)
#define RMWI(name, kind, line) "%" name " = tt.atomic_rmw " kind ", relaxed, gpu, %ai, %one, %t : " \
	"(!tt.ptr<i32>, i32, i1) -> i32" AT(line)
#define INTS "%ai = tt.bitcast %a : !tt.ptr<f32> -> !tt.ptr<i32>\n"
#define REDUCE(body) "%x = tt.splat %f : f32 -> tensor<8xf32>\n%s = \"tt.reduce\"(%x) <{axis = 0 : i32}> ({\n" \
	"^bb0(%p: f32, %q: f32):\n" body "tt.reduce.return %r : f32\n}) : (tensor<8xf32>) -> f32" AT(5)

static void test_order(void **state)
{
	static const struct line_row rows[] = {
		/* Additions of whole numbers that nobody looks at commute; so does any one kind. Sums of
		 * floats are rounded. */
		{INTS RMWI("o", "add", 3), 0},
		{INTS RMWI("o", "add", 3) RMWI("o2", "add", 4), 0},
		{RMW("o", "fadd", 3), 3},
		{RMW("o", "fadd", 3) RMW("o2", "fadd", 4), 3},
		{INTS RMWI("o", "max", 3) RMWI("o2", "max", 4), 0},
		{INTS RMWI("o", "add", 3) RMWI("o2", "max", 4), 4},
		{INTS RMWI("o", "and", 3) RMWI("o2", "and", 4) RMWI("o3", "or", 5) RMWI("o4", "xor", 6), 5},
		/* What was there before is for the order to say, and who came last. */
		{RMW("o", "fadd", 3) STORE("b", "o") "\n", 3},
		{INTS RMWI("o", "exch", 7), 7},
		{INTS "%o = tt.atomic_cas relaxed, gpu, %ai, %zero, %one : (!tt.ptr<i32>, i32, i32) -> i32" AT(8), 8},
		/* A plain load orders nothing. */
		{LOAD_A STORE("b", "v") "\n", 0},
		/* Reductions by one known operation, and by another. */
		{REDUCE("%r = arith.addf %p, %q : f32\n"), 0},
		{REDUCE("%r = arith.maxnumf %p, %q : f32\n"), 0},
		{REDUCE("%h = arith.subf %p, %q : f32\n%r = arith.mulf %h, %q : f32\n"), 5},
		/* Blocks whose order Triton leaves open. */
		{"%x = tt.splat %f : f32 -> tensor<8xf32>\n%y = tt.cat %x, %x : tensor<8xf32> -> tensor<16xf32>" AT(6), 6},
		{"%x = tt.splat %f : f32 -> tensor<8xf32>\n%y = tt.reshape %x allow_reorder : tensor<8xf32> -> "
		 "tensor<4x2xf32>" AT(7),
			7},
		{"%x = tt.splat %f : f32 -> tensor<8xf32>\n%y = tt.reshape %x : tensor<8xf32> -> tensor<4x2xf32>" AT(7), 0},
		/* Of two reasons that which is known first: the program's text, then its atomics. */
		{RMW("o", "fadd", 3)
				STORE("b", "o") "\n" REDUCE("%h = arith.subf %p, %q : f32\n%r = arith.mulf %h, %q : f32\n"),
			5},
	};
	lines_check(rows, ARRAY_LEN(rows), vm_kernel_may_depend_on_order);
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(test_written), cmocka_unit_test(test_many_arguments),
		cmocka_unit_test(test_early), cmocka_unit_test(test_narrows), cmocka_unit_test(test_sums_fp8),
		cmocka_unit_test(test_data), cmocka_unit_test(test_order)};
	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
