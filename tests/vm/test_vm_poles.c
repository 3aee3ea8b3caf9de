/* Poles (src/vm/check/check_pole.c): which operations give no finite number at some input. A row is
 * a few operations on %x, a number that is read, or on a block of such, and how many poles some
 * input may meet there: by hand, over all finite x. */
#include "body_kernel.h"
#include "base/base.h"
#include "vm/check/check.h"
#include <math.h>

#define HEAD "module {\n  tt.func public @k(%a: !tt.ptr<f32>, %b: !tt.ptr<f32>, %e: f32, %n: i32) {\n" \
	"%zero = arith.constant 0.0 : f32\n%one = arith.constant 1.0 : f32\n%c = arith.constant 0.75 : f32\n" \
	"%eps = arith.constant 1.0e-5 : f32\n%far = arith.constant 1.0e+30 : f32\n%third = arith.constant 3.0 : f32\n" \
	"%low = arith.constant -1.5 : f32\n%izero = arith.constant 0 : i32\n%ione = arith.constant 1 : i32\n" \
	"%eight = arith.constant 8 : i32\n%x = tt.load %a : !tt.ptr<f32>\n"
#define ONE(r, op, x) "%" r " = math." op " %" x " : f32\n"
#define TWO(r, op, x, y) "%" r " = arith." op " %" x ", %" y " : f32\n"
#define EXTERN(r, name, x) "%" r " = tt.extern_elementwise %" x \
	" {libname = \"\", libpath = \"\", pure = true, symbol = \"" name "\"} : (f32) -> f32\n"
#define EXTERN2(r, name, x, y) "%" r " = tt.extern_elementwise %" x ", %" y \
	" {libname = \"\", libpath = \"\", pure = true, symbol = \"" name "\"} : (f32, f32) -> f32\n"
#define CAST(r, x) "%" r " = arith.fptosi %" x " : f32 to i32\n"
#define INT(r, op, x, y) "%" r " = arith." op " %" x ", %" y " : i32\n"
#define OFF TWO("d", "subf", "x", "c")
#define SQUARE TWO("s", "mulf", "x", "x")
#define SIGMOID TWO("m", "subf", "zero", "x") ONE("e1", "exp", "m") TWO("d", "addf", "one", "e1")
/* A row of eight, its maximum, and exponentials of what lies below it. */
#define ROW "%i = tt.make_range {end = 8 : i32, start = 0 : i32} : tensor<8xi32>\n" \
	"%p0 = tt.splat %a : !tt.ptr<f32> -> tensor<8x!tt.ptr<f32>>\n" \
	"%p = tt.addptr %p0, %i : tensor<8x!tt.ptr<f32>>, tensor<8xi32>\n%v = tt.load %p : tensor<8x!tt.ptr<f32>>\n"
#define REDUCED(r, op, x) "%" r " = \"tt.reduce\"(%" x ") <{axis = 0 : i32}> ({\n^bb0(%l" r ": f32, %r" r ": f32):\n" \
	"%o" r " = arith." op " %l" r ", %r" r " : f32\ntt.reduce.return %o" r " : f32\n}) : (tensor<8xf32>) -> f32\n"
#define EXPONENTIALS ROW REDUCED("top", "maxnumf", "v") "%tops = tt.splat %top : f32 -> tensor<8xf32>\n" \
	"%below = arith.subf %v, %tops : tensor<8xf32>\n%w = math.exp %below : tensor<8xf32>\n"

static const struct {
	const char *body;
	int npoles;
	double arg; /* what %e is */
} rows[] = {
	/* Each operation with its pole. */
	{OFF TWO("q", "divf", "one", "d"), 1, 0},
	{OFF "%q = tt.precise_divf %one, %d : f32\n", 1, 0},
	{OFF EXTERN("q", "__nv_frcp_rn", "d"), 1, 0},
	{OFF TWO("q", "remf", "one", "d"), 1, 0},
	{OFF EXTERN2("q", "__nv_remainderf", "one", "d"), 1, 0},
	{OFF ONE("q", "log", "d"), 1, 0},
	{OFF ONE("q", "log2", "d"), 1, 0},
	{OFF EXTERN("q", "__nv_log10f", "d"), 1, 0},
	{OFF EXTERN("q", "__nv_log1pf", "d"), 1, 0},
	{OFF EXTERN("q", "__nv_logbf", "d"), 1, 0},
	{OFF ONE("q", "sqrt", "d"), 1, 0},
	{OFF "%q = tt.precise_sqrt %d : f32\n", 1, 0},
	{OFF ONE("q", "rsqrt", "d"), 1, 0},
	{OFF EXTERN("q", "__nv_rcbrtf", "d"), 1, 0},
	{OFF EXTERN("q", "__nv_asinf", "d"), 1, 0},
	{OFF EXTERN("q", "__nv_acosf", "d"), 1, 0},
	{OFF EXTERN("q", "__nv_atanhf", "d"), 1, 0},
	{OFF EXTERN("q", "__nv_acoshf", "d"), 1, 0},
	{OFF EXTERN("q", "__nv_erfinvf", "d"), 1, 0},
	{OFF EXTERN("q", "__nv_lgammaf", "d"), 1, 0},
	{OFF EXTERN("q", "__nv_tgammaf", "d"), 1, 0},
	{OFF EXTERN("q", "__nv_y0f", "d"), 1, 0},
	{OFF EXTERN("q", "__nv_y1f", "d"), 1, 0},
	{OFF EXTERN2("q", "__nv_powf", "d", "low"), 2, 0},
	{OFF EXTERN2("q", "__nv_powf", "d", "third"), 0, 0},
	{OFF EXTERN2("q", "__nv_powf", "third", "d"), 0, 0},
	{ONE("q", "exp", "x"), 1, 0},
	{ONE("q", "exp2", "x"), 1, 0},
	{EXTERN("q", "__nv_exp10f", "x"), 1, 0},
	{EXTERN("q", "__nv_expm1f", "x"), 1, 0},
	{CAST("k", "x") INT("q", "divsi", "eight", "k"), 3, 0},
	{CAST("k", "x") INT("q", "divui", "eight", "k"), 3, 0},
	{CAST("k", "x") INT("q", "remsi", "eight", "k"), 3, 0},
	{CAST("k", "x") INT("q", "remui", "eight", "k"), 3, 0},
	{CAST("k", "x") INT("q", "ceildivsi", "eight", "k"), 3, 0},
	{CAST("k", "x") INT("q", "ceildivui", "eight", "k"), 3, 0},
	{CAST("k", "x") INT("q", "floordivsi", "eight", "k"), 3, 0},
	/* A cast alone has two, but for sides that are cut before. */
	{CAST("q", "x"), 2, 0},
	{TWO("m", "maxnumf", "x", "zero") CAST("q", "m"), 1, 0},
	{TWO("m", "maxnumf", "x", "zero") TWO("d", "minnumf", "m", "one") CAST("q", "d"), 0, 0},
	/* Products by constants: the one that passes all numbers, and each behind it. */
	{OFF TWO("p", "mulf", "d", "far") TWO("q", "mulf", "p", "far"), 2, 0},
	{OFF TWO("q", "mulf", "d", "third"), 0, 0},
	{OFF TWO("p", "mulf", "d", "far") TWO("q", "mulf", "p", "eps"), 1, 0},
	{TWO("p", "mulf", "x", "x") TWO("q", "mulf", "p", "p"), 0, 0},
	/* None, by what made the operand. */
	{TWO("q", "divf", "x", "c"), 0, 0},
	{SQUARE TWO("d", "addf", "s", "eps") TWO("q", "divf", "x", "d"), 0, 0},
	{SQUARE TWO("d", "addf", "s", "eps") ONE("q", "rsqrt", "d"), 0, 0},
	{SQUARE ONE("q", "sqrt", "s"), 0, 0},
	{SQUARE ONE("q", "rsqrt", "s"), 1, 0},
	{EXTERN("t", "__nv_tanhf", "x") TWO("d", "mulf", "t", "c") EXTERN("q", "__nv_asinf", "d"), 0, 0},
	{ONE("t", "absf", "x") TWO("m", "subf", "zero", "t") ONE("q", "exp", "m"), 0, 0},
	{TWO("d", "maxnumf", "x", "eps") ONE("q", "log", "d"), 0, 0},
	{TWO("d", "minnumf", "x", "c") ONE("q", "log", "d"), 1, 0},
	/* An argument is what it was in the launches. */
	{SQUARE TWO("d", "addf", "s", "e") ONE("q", "rsqrt", "d"), 0, 1e-5},
	{SQUARE TWO("d", "addf", "s", "e") ONE("q", "rsqrt", "d"), 1, -0.25},
	{TWO("q", "divf", "x", "e"), 0, 0},
	/* Of a sigmoid the exponential alone, which is left where it overflowed in a trial. */
	{SIGMOID TWO("q", "divf", "x", "d"), 1, 0},
	{SIGMOID TWO("g", "divf", "one", "d") ONE("q", "log", "g"), 1, 0},
	{SIGMOID TWO("g", "divf", "one", "d") TWO("h", "subf", "one", "g") ONE("q", "log", "h"), 2, 0},
	/* So of a softmax, a masked one, and one that goes through its row in a loop. */
	{EXPONENTIALS REDUCED("sum", "addf", "w") TWO("q", "divf", "one", "sum"), 1, 0},
	{EXPONENTIALS REDUCED("sum", "addf", "w") ONE("q", "log", "sum"), 1, 0},
	{EXPONENTIALS REDUCED("sum", "addf", "w") TWO("d", "subf", "sum", "third") TWO("q", "divf", "one", "d"), 2, 0},
	{EXPONENTIALS "%zeros = tt.splat %zero : f32 -> tensor<8xf32>\n%eights = tt.splat %eight : i32 -> tensor<8xi32>\n"
				  "%in = arith.cmpi slt, %i, %eights : tensor<8xi32>\n"
				  "%k = arith.select %in, %w, %zeros : tensor<8xi1>, tensor<8xf32>\n" REDUCED("sum", "addf", "k")
					  TWO("q", "divf", "one", "sum"),
		1, 0},
	{"%sum = scf.for %j = %izero to %eight step %ione iter_args(%acc = %zero) -> (f32) : i32 {\n"
	 "%y = tt.load %a : !tt.ptr<f32>\n%g = math.exp %y : f32\n%h = arith.mulf %acc, %g : f32\n"
	 "%next = arith.addf %h, %g : f32\nscf.yield %next : f32\n}\n" TWO("q", "divf", "one", "sum"),
		1, 0},
	{"%sum = scf.for %j = %izero to %eight step %ione iter_args(%acc = %zero) -> (f32) : i32 {\n"
	 "%y = tt.load %a : !tt.ptr<f32>\n%g = math.exp %y : f32\n%h = arith.mulf %acc, %y : f32\n"
	 "%next = arith.addf %h, %g : f32\nscf.yield %next : f32\n}\n" TWO("q", "divf", "one", "sum"),
		2, 0},
};

static int poles_of(struct vm_coverage *c, const struct vm_site **first)
{
	const struct vm_site *s;
	int n = vm_coverage_sites(c, &s), npoles = 0;
	for (int i = n - 1; i >= 0; i--) {
		if (s[i].kind != SITE_POLE || !s[i].wanted) continue;
		*first = &s[i];
		npoles++;
	}
	return npoles;
}

static void test_rows(void **state)
{
	int bad = 0;
	float data[3][8] = {{0}};
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct body_kernel b = body_kernel_make(HEAD, rows[i].body, data, sizeof data[0], sizeof data[0], 8);
		struct vm_coverage *c = vm_coverage_create(b.k);
		const struct vm_site *first;
		b.args[2] = (struct vm_arg){.f = rows[i].arg};
		vm_coverage_args(c, b.k, b.args, 4);
		int found = poles_of(c, &first);
		if (found != rows[i].npoles) print_message("# %d, not %d: %s\n", found, rows[i].npoles, rows[i].body);
		bad += found != rows[i].npoles;
		vm_coverage_free(c);
		vm_kernel_free(b.k);
	}
	assert_int_equal(bad, 0);
}

/* An argument that another launch has otherwise counts too. */
static void test_arguments_add_up(void **state)
{
	float data[3][8] = {{0}};
	struct body_kernel b = body_kernel_make(
		HEAD, SQUARE TWO("d", "addf", "s", "e") ONE("q", "rsqrt", "d"), data, sizeof data[0], sizeof data[0], 8);
	struct vm_coverage *c = vm_coverage_create(b.k);
	const struct vm_site *first;
	static const struct {
		double arg;
		int npoles;
	} launches[] = {{0.5, 0}, {2, 0}, {-1, 1}, {3, 1}};
	for (size_t i = 0; i < ARRAY_LEN(launches); i++) {
		b.args[2] = (struct vm_arg){.f = launches[i].arg};
		vm_coverage_args(c, b.k, b.args, 4);
		assert_int_equal(poles_of(c, &first), launches[i].npoles);
	}
	vm_coverage_free(c);
	vm_kernel_free(b.k);
}

static void test_far(void **state)
{
	struct vm_site divisor = {.by_size = true, .way = -1, .operand = 1};
	struct vm_site logarithm = {.way = -1};
	struct vm_site root = {.way = -1, .constant = -0x1p-1074};
	struct vm_site sine = {.by_size = true, .way = 1, .constant = 1 + 0x1p-52};
	struct vm_site product = {.operand = VM_POLE_PRODUCT};
	assert_true(vm_pole_far(&divisor, -0.5, 1) == 0.5 && vm_pole_far(&divisor, -0.0, 1) == 0);
	assert_true(vm_pole_far(&divisor, 0x1p-149, 1) == 0x1p-149);
	assert_true(vm_pole_far(&logarithm, 2, 1) == 2 && vm_pole_far(&logarithm, -3, 1) == 0);
	assert_true(vm_pole_far(&root, 0, 1) > 0 && vm_pole_far(&root, -0x1p-149, 1) == 0);
	assert_true(vm_pole_far(&sine, -1, 1) > 0 && vm_pole_far(&sine, -1.5, 1) == 0 && vm_pole_far(&sine, 0, 1) > 1);
	/* A product is met by what is finite, and counts powers of two. */
	assert_true(vm_pole_far(&product, 0x1p100, 0x1p50) == 23 && vm_pole_far(&product, 0, 0x1p100) == 0);
	assert_true(vm_pole_far(&product, 0x1p100, 0x1p27) == 0 && isnan(vm_pole_far(&product, NAN, 1)));
	assert_true(isnan(vm_pole_far(&divisor, NAN, 1)));
}

/* An exponential's pole is looked at with its end: met where it overflows, and else as near as the
 * largest operand came. */
static void test_an_exponential(void **state)
{
	float data[3][8] = {{0}};
	struct body_kernel b = body_kernel_make(
		HEAD, ONE("q", "exp", "x") "tt.store %b, %q : !tt.ptr<f32>\n", data, sizeof data[0], sizeof data[0], 8);
	struct vm_coverage *c = vm_coverage_create(b.k);
	const struct vm_site *s;
	static const float inputs[] = {3, 88.5f, -90, 89, -90};
	static const double nearest[] = {85.73, 0.23, 178.73, 0, 178.73};
	for (size_t i = 0; i < ARRAY_LEN(inputs); i++) {
		struct vm_report r;
		struct err err = {0};
		struct vm_launch_options o = {
			.grid = {1, 1, 1}, .args = b.args, .nargs = 4, .buffers = b.buffers, .nbuffers = 3, .coverage = c};
		data[0][0] = inputs[i];
		b.args[2] = (struct vm_arg){.f = 1};
		vm_coverage_begin(c);
		vm_coverage_row(c, false);
		vm_coverage_args(c, b.k, b.args, 4);
		if (vm_launch(b.k, &o, &r, &err)) fail_msg("%s", err.text);
		vm_report_release(&r);
		assert_int_equal(poles_of(c, &s), 1);
		/* Once it was met it stays so; of few lanes an exponential is looked at
		 * for longer, as a gate. */
		assert_int_equal(s->taken, i < 3 ? 0 : SIDE_EQUAL);
		assert_true(s->nearest == nearest[i] || fabs(s->nearest - nearest[i]) < 1e-5);
	}
	vm_coverage_free(c);
	vm_kernel_free(b.k);
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(test_rows), cmocka_unit_test(test_arguments_add_up),
		cmocka_unit_test(test_far), cmocka_unit_test(test_an_exponential)};
	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
