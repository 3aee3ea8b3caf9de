/* Cost counting against counts made by hand, and contraction of mulf + addf. */
#include "body_kernel.h"
#include "cost/cost.h"
#include <math.h>

#define POINTERS(name, arg) "%" name "s = tt.splat %" arg " : !tt.ptr<f32> -> tensor<64x!tt.ptr<f32>>\n" \
	"%p" name " = tt.addptr %" name "s, %i : tensor<64x!tt.ptr<f32>>, tensor<64xi32>\n"
#define RANGE "%i = tt.make_range {end = 64 : i32, start = 0 : i32} : tensor<64xi32>\n" \
	"%ns = tt.splat %n : i32 -> tensor<64xi32>\n" \
	POINTERS("a", "a") POINTERS("b", "b") POINTERS("c", "c")

static float data[3][4096];
static struct pool *pool; /* of the next launches */

static void run(const char *body, int64_t n, uint32_t grid, bool fma, struct vm_report *r)
{
	struct err err = {0};
	struct body_kernel b = body_kernel_make(BODY_HEAD("f32"), body, data, sizeof data[0], sizeof data[0], n);
	struct vm_compiled two_warps = {.binary = vm_binary_default(2)};
	struct vm_launch_options o = {
		.grid = {grid, 1, 1},
		.args = b.args,
		.nargs = 4,
		.buffers = b.buffers,
		.nbuffers = 3,
		.want_cost = true,
		.compiled = &two_warps,
		.fma_contract = fma,
		.pool = pool,
	};
	if (vm_launch(b.k, &o, r, &err)) fail_msg("%s", err.text);
	vm_kernel_free(b.k);
}

static const struct vm_cost *line_cost(const struct vm_report *r, int line)
{
	static const struct vm_cost nothing;
	for (int i = 0; i < r->nlines; i++)
		if (r->lines[i].line == line) return &r->lines[i].cost;
	return &nothing;
}

static void test_contiguous(void **state)
{
	struct vm_report r;
	run(RANGE "%m = arith.cmpi slt, %i, %ns : tensor<64xi32>\n%v = tt.load %pa, %m : tensor<64x!tt.ptr<f32>>" AT(
			5) "%w = math.exp %v : tensor<64xf32>" AT(6) "tt.store %pb, %w, %m : tensor<64x!tt.ptr<f32>>" AT(7),
		40, 3, false, &r);
	/* 40 floats are 5 sectors: 4 in the first 32 elements, 1 in the rest */
	assert_int_equal(r.cost.programs, 3);
	assert_int_equal(line_cost(&r, 5)->load_sectors, 3 * 5);
	assert_int_equal(line_cost(&r, 5)->load_bytes, 3 * 160);
	assert_int_equal(line_cost(&r, 6)->flops, 3 * 64);
	assert_int_equal(line_cost(&r, 6)->special, 3 * 64);
	assert_int_equal(line_cost(&r, 7)->store_sectors, 3 * 5);
	assert_int_equal(line_cost(&r, 7)->load_sectors, 0);
	/* the three programs touch the same bytes */
	assert_int_equal(r.cost.footprint_bytes, 2 * 160);
	vm_report_release(&r);
}

static void test_strided(void **state)
{
	struct vm_report r;
	const char *body = RANGE
		"%j = arith.muli %i, %ns : tensor<64xi32>\n%p = tt.addptr %as, %j : tensor<64x!tt.ptr<f32>>, tensor<64xi32>\n"
		"%v = tt.load %p : tensor<64x!tt.ptr<f32>>" AT(5) "tt.store %pb, %v : tensor<64x!tt.ptr<f32>>" AT(6);
	run(body, 8, 1, false, &r); /* a sector for each element */
	assert_int_equal(line_cost(&r, 5)->load_sectors, 64);
	assert_int_equal(r.cost.footprint_bytes, 64 * 32 + 256);
	vm_report_release(&r);
	run(body, 2, 1, false, &r); /* 256 bytes a warp */
	assert_int_equal(line_cost(&r, 5)->load_sectors, 16);
	vm_report_release(&r);
	run(body, 0, 1, false, &r); /* one address, asked for by two warps */
	assert_int_equal(line_cost(&r, 5)->load_sectors, 2);
	assert_int_equal(line_cost(&r, 5)->load_bytes, 256);
	vm_report_release(&r);
}

/* Programs that read the same bytes on several threads count what they count on one (the thread
 * sanitizer watches their maps). */
static void test_threads(void **state)
{
	struct vm_report one, two;
	const char *body = RANGE
		"%v = tt.load %pa : tensor<64x!tt.ptr<f32>>" AT(5) "%w = tt.load %pb : tensor<64x!tt.ptr<f32>>" AT(6);
	run(body, 0, 4096, false, &one);
	pool = pool_create(2);
	run(body, 0, 4096, false, &two);
	pool_free(pool);
	pool = NULL;
	assert_memory_equal(&one.cost, &two.cost, sizeof one.cost);
	assert_int_equal(two.cost.footprint_bytes, 512);
	vm_report_release(&one);
	vm_report_release(&two);
}

/* The program that has most counts by itself: the first one of 64 loads ten times, sums, and meets
 * 640 times; the others do nothing. Two such programs are no dearer. */
#define ONLY_FIRST(which) RANGE "%zero = arith.constant 0 : i32\n%one = arith.constant 1 : i32\n" \
	"%ten = arith.constant 10 : i32\n%odd = tt.get_program_id x : i32\n" \
	"%is = arith.cmpi " which ", %odd, %one : i32\nscf.if %is {\n" \
	"scf.for %t = %zero to %ten step %one : i32 {\n%v = tt.load %pa {isVolatile = true} : " \
	"tensor<64x!tt.ptr<f32>>\ntt.store %pb, %v : tensor<64x!tt.ptr<f32>>\n" \
	"%s = \"tt.reduce\"(%v) <{axis = 0 : i32}> ({\n^bb0(%x: f32, %y: f32):\n%z = arith.addf %x, %y : f32\n" \
	"tt.reduce.return %z : f32\n}) : (tensor<64xf32>) -> f32\n" \
	"%w = tt.splat %s : f32 -> tensor<64xf32>\n" \
	"%o = tt.atomic_rmw fadd, relaxed, gpu, %pc, %w : (tensor<64x!tt.ptr<f32>>, tensor<64xf32>) -> tensor<64xf32>\n" \
	"}\n}\n"
static void test_one_program_does_all(void **state)
{
	struct vm_report one, first, two;
	run(ONLY_FIRST("slt"), 0, 1, false, &one);
	run(ONLY_FIRST("slt"), 0, 64, false, &first);
	run(ONLY_FIRST("sle"), 0, 64, false, &two);
	/* 256 bytes are 2 lines: each is loaded, missed, and stored; the
	 * atomics' are stored ones too. */
	assert_true(one.cost.l1_cycles_max >= 10 * (2 + 2 + 4 * 2));
	assert_int_equal(one.cost.atomics_max, 640);
	assert_int_equal(one.cost.shared_bytes_max, one.cost.shared_bytes);
	assert_int_equal(first.cost.l1_cycles_max, one.cost.l1_cycles_max);
	assert_int_equal(first.cost.shared_bytes_max, one.cost.shared_bytes);
	assert_int_equal(first.cost.atomics_max, 640);
	assert_int_equal(two.cost.l1_cycles_max, one.cost.l1_cycles_max);
	assert_int_equal(two.cost.shared_bytes_max, one.cost.shared_bytes);
	assert_int_equal(two.cost.shared_bytes, 2 * one.cost.shared_bytes);
	assert_int_equal(two.cost.atomics_max, 640);
	vm_report_release(&one);
	vm_report_release(&first);
	vm_report_release(&two);
}

/* Lanes that are masked off may point anywhere, further from each other than a signed number holds:
 * the distance wraps (the sanitizer watches). */
static void test_far_lanes(void **state)
{
	struct vm_report r;
	run("%i = tt.make_range {end = 256 : i32, start = 0 : i32} : tensor<256xi32>\n%j = arith.extsi %i : "
		"tensor<256xi32> to tensor<256xi64>\n"
		"%far = arith.constant dense<2305843009213693951> : tensor<256xi64>\n%k = arith.muli %j, %far : "
		"tensor<256xi64>\n"
		"%s = tt.splat %a : !tt.ptr<f32> -> tensor<256x!tt.ptr<f32>>\n%p = tt.addptr %s, %k : "
		"tensor<256x!tt.ptr<f32>>, tensor<256xi64>\n"
		"%ns = tt.splat %n : i32 -> tensor<256xi32>\n%m = arith.cmpi slt, %i, %ns : tensor<256xi32>\n"
		"%v = tt.load %p, %m : tensor<256x!tt.ptr<f32>>" AT(5),
		1, 1, false, &r);
	assert_int_equal(line_cost(&r, 5)->load_bytes, 4);
	assert_int_equal(line_cost(&r, 5)->load_sectors, 1);
	vm_report_release(&r);
}

static void test_reduction_and_dot(void **state)
{
	struct vm_report r;
	run(RANGE "%v = tt.load %pa : tensor<64x!tt.ptr<f32>>\n%s = \"tt.reduce\"(%v) <{axis = 0 : i32}> ({\n^bb0(%x: f32, "
			  "%y: f32):\n"
			  "%z = arith.addf %x, %y : f32\ntt.reduce.return %z : f32\n}) : (tensor<64xf32>) -> f32" AT(
				  5) "%q = \"tt.reduce\"(%v) <{axis = 0 : i32}> ({\n^bb0(%x: f32, %y: f32):\n%z = arith.subf %x, %y : "
					 "f32\n%w = arith.mulf %z, %y : f32\n"
					 "tt.reduce.return %w : f32\n}) : (tensor<64xf32>) -> f32" AT(
						 6) "%d0 = arith.constant dense<0.0> : tensor<16x32xf16>\n%d1 = arith.constant dense<0.0> : "
							"tensor<32x16xf16>\n"
							"%d2 = arith.constant dense<0.0> : tensor<16x16xf32>\n"
							"%d = tt.dot %d0, %d1, %d2 : tensor<16x32xf16> * tensor<32x16xf16> -> tensor<16x16xf32>" AT(
								7) "%one = arith.constant dense<1.0> : tensor<64xf32>\n%m = arith.cmpi slt, %i, %ns : "
								   "tensor<64xi32>\n"
								   "%o = tt.atomic_rmw fadd, acq_rel, gpu, %pb, %one, %m : (tensor<64x!tt.ptr<f32>>, "
								   "tensor<64xf32>, tensor<64xi1>) -> tensor<64xf32>" AT(8),
		10, 1, false, &r);
	assert_int_equal(line_cost(&r, 5)->flops, 63);
	assert_int_equal(line_cost(&r, 6)->flops, 2 * 63);
	assert_int_equal(line_cost(&r, 7)->dot_flops, 2 * 16 * 16 * 32);
	assert_int_equal(line_cost(&r, 8)->atomics, 10);
	assert_int_equal(r.cost.atomic_hot, 1); /* neighbours of one warp reach 32 bytes as one */
	vm_report_release(&r);
}

#define ATOMICS(type, name, pointers) \
	RANGE "%bt = tt.bitcast %b : !tt.ptr<f32> -> !tt.ptr<" type ">\n%s = tt.splat %bt : !tt.ptr<" type \
		  "> -> tensor<64x!tt.ptr<" type ">>\n%j = arith.constant dense<3> : tensor<64xi32>\n" \
		  "%k = arith.andi %i, %j : tensor<64xi32>\n%apart = tt.addptr %s, %k : tensor<64x!tt.ptr<" type \
		  ">>, tensor<64xi32>\n%all = tt.addptr %s, %i : tensor<64x!tt.ptr<" type ">>, tensor<64xi32>\n" \
		  "%one = arith.constant dense<1" name "> : tensor<64x" type ">\n" \
		  "%m = arith.cmpi slt, %i, %ns : tensor<64xi32>\n" \
		  "%o = tt.atomic_rmw " pointers ", %one, %m : (tensor<64x!tt.ptr<" type ">>, tensor<64x" type \
		  ">, tensor<64xi1>) -> tensor<64x" type ">" AT(5)

/* What the lanes of a warp do to 32 bytes reaches them as one operation, what another warp does as
 * one more: two warps at one place are two. Where lanes meet they are more: floats on an
 * address are 0.35 of an operation each; integers and doubles are 0.075 and 0.116 each,
 * wherever the others of their warp are; rounded up for each warp. Integers that all are on one
 * address are made one. */
static void test_atomics_of_two_warps(void **state)
{
	static const struct {
		const char *text;
		int64_t hot;
	} cases[] = {
		{ATOMICS("f32", ".0", "fadd, acq_rel, gpu, %s"), 2 * 12},    /* 32 on an address: 11.2 */
		{ATOMICS("f32", ".0", "fadd, acq_rel, gpu, %apart"), 2 * 3}, /* 8 on each of four: 2.8 */
		{ATOMICS("f32", ".0", "fadd, acq_rel, gpu, %all"), 1},       /* neighbours */
		{ATOMICS("i32", "", "add, acq_rel, gpu, %s"), 2 * 1},        /* made one */
		{ATOMICS("i32", "", "add, acq_rel, gpu, %apart"), 2 * 3},    /* 32 of a warp: 2.4 */
		{ATOMICS("i32", "", "add, acq_rel, gpu, %all"), 1},          /* neighbours */
		{ATOMICS("f64", ".0", "fadd, acq_rel, gpu, %s"), 2 * 12},    /* 32 on an address: 11.2 */
		{ATOMICS("f64", ".0", "fadd, acq_rel, gpu, %apart"), 2 * 4}, /* 32 of a warp: 3.7 */
	};
	for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
		struct vm_report r;
		run(cases[k].text, 64, 1, false, &r);
		assert_int_equal(line_cost(&r, 5)->atomics, 64);
		if (r.cost.atomic_hot != cases[k].hot)
			fail_msg("case %zu: %lld operations, not %lld", k, (long long)r.cost.atomic_hot, (long long)cases[k].hot);
		vm_report_release(&r);
	}
}

/* A thread holds neighbours: of 512 lanes over 64 threads four floats, which are one operation of
 * its lane, so that a warp's lanes are on each fourth element; four integers, which are one each.
 * Modulo 32 elements four lanes are on each of eight places. */
static void test_atomics_of_threads(void **state)
{
	static const struct {
		const char *text;
		int64_t hot;
	} cases[] = {
#define HELD(type, name, op) \
	"%i = tt.make_range {end = 512 : i32, start = 0 : i32} : tensor<512xi32>\n" \
	"%bt = tt.bitcast %b : !tt.ptr<f32> -> !tt.ptr<" type ">\n%s = tt.splat %bt : !tt.ptr<" type \
	"> -> tensor<512x!tt.ptr<" type ">>\n%j = arith.constant dense<31> : tensor<512xi32>\n" \
	"%k = arith.andi %i, %j : tensor<512xi32>\n%p = tt.addptr %s, %k : tensor<512x!tt.ptr<" type \
	">>, tensor<512xi32>\n%one = arith.constant dense<1" name "> : tensor<512x" type ">\n" \
	"%t = arith.constant dense<true> : tensor<512xi1>\n" \
	"%o = tt.atomic_rmw " op ", acq_rel, gpu, %p, %one, %t : (tensor<512x!tt.ptr<" type ">>, tensor<512x" type \
	">, tensor<512xi1>) -> tensor<512x" type ">" AT(5)
		{HELD("f32", ".0", "fadd"), 4 * 2},  /* four groups of 128, each one operation of 32 lanes: 1.4 */
		{HELD("i32", "", "add"), 4 * 4 * 3}, /* four in each group, all of them in each granule: 2.4 */
	};
	/* The hottest granule of a whole launch. */
	for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
		struct vm_report r;
		run(cases[k].text, 64, 1, false, &r);
		if (r.cost.atomic_hot != cases[k].hot)
			fail_msg("case %zu: %lld operations, not %lld", k, (long long)r.cost.atomic_hot, (long long)cases[k].hot);
		vm_report_release(&r);
	}
}

/* A call into a library is charged to the line of the kernel's file that made it. */
static void test_library_line(void **state)
{
	struct vm_report r;
	run(RANGE "%v = tt.load %pa : tensor<64x!tt.ptr<f32>>\n"
			  "%w = arith.mulf %v, %v : tensor<64xf32> loc(callsite(\"lib.py\":99:3 at callsite(\"k.py\":12:4 at "
			  "\"k.py\":30:2)))\n",
		0, 1, false, &r);
	assert_int_equal(line_cost(&r, 12)->flops, 64);
	assert_int_equal(line_cost(&r, 99)->flops, 0);
	vm_report_release(&r);
}

/* a * a + b, with values for which one rounding and two differ. */
#define MUL "%v = tt.load %pa : tensor<64x!tt.ptr<f32>>\n%w = tt.load %pb : tensor<64x!tt.ptr<f32>>\n" \
	"%p = arith.mulf %v, %v : tensor<64xf32>" AT(5)
#define STORE "tt.store %pc, %s : tensor<64x!tt.ptr<f32>>\n"

static void expect_fma(const char *tail, bool fma, float want)
{
	struct vm_report r;
	struct str body = {0};
	str_printf(&body, "%s%s%s%s", RANGE, MUL, tail, STORE);
	for (int i = 0; i < 64; i++) {
		data[0][i] = 1 + 0x1p-12f;
		data[1][i] = -1;
		data[2][i] = 7;
	}
	run(body.data, 0, 1, fma, &r);
	for (int i = 0; i < 64; i++)
		if (!(data[2][i] == want))
			fail_msg("%s contracted %d: %.9g, expected %.9g", tail, fma, (double)data[2][i], (double)want);
	vm_report_release(&r);
	str_release(&body);
}

static void test_contraction(void **state)
{
	float x = 1 + 0x1p-12f, once = fmaf(x, x, -1), twice = x * x - 1;
	assert_true(once != twice);
	expect_fma("%s = arith.addf %p, %w : tensor<64xf32>\n", false, twice);
	expect_fma("%s = arith.addf %p, %w : tensor<64xf32>\n", true, once);
	expect_fma("%s = arith.addf %w, %p : tensor<64xf32>\n", true, once);
	expect_fma("%s = arith.subf %p, %w : tensor<64xf32>\n", true, fmaf(x, x, 1));
	expect_fma("%s = arith.subf %w, %p : tensor<64xf32>\n", true, fmaf(-x, x, -1));
	/* a product with a second use stays a product */
	expect_fma("%t = arith.addf %p, %w : tensor<64xf32>\n%u = arith.subf %p, %p : tensor<64xf32>\n%s = arith.addf %t, "
			   "%u : tensor<64xf32>\n",
		true, twice);
}

/* Nothing is free: what a kernel computes in assembly, in a function over elements or in a long
 * function of a reduction counts like the same instructions written out. */
#define LOADED RANGE "%v = tt.load %pa : tensor<64x!tt.ptr<f32>>" AT(5)
#define STORED "tt.store %pb, %w : tensor<64x!tt.ptr<f32>>" AT(7)
#define TEN(x) x x x x x x x x x x
#define ASM(text) "%w = tt.elementwise_inline_asm \"" text \
	"\" {constraints = \"=f,f\", packed_element = 1 : i32, pure = true} %v : " \
	"tensor<64xf32> -> tensor<64xf32>" AT(6)
#define OVER(body) "%w = \"tt.map_elementwise\"(%v) <{pack = 1 : i32}> ({\n^bb0(%x: f32):\n" body \
	"tt.map_elementwise.return %y : f32\n}) : (tensor<64xf32>) -> tensor<64xf32>" AT(6)
#define SUM(body) "%s = \"tt.reduce\"(%v) <{axis = 0 : i32}> ({\n^bb0(%x: f32, %z: f32):\n" body \
	"tt.reduce.return %y : f32\n}) : (tensor<64xf32>) -> f32" AT(6) "%w = tt.splat %s : f32 -> tensor<64xf32>\n"
#define TURNS(n) "%zero = arith.constant 0 : i32\n%one = arith.constant 1 : i32\n%t = arith.constant " n " : i32\n" \
	"%y = scf.for %k = %zero to %t step %one iter_args(%q = %x) -> (f32) : i32 {\n" \
	"%q2 = arith.mulf %q, %x : f32\nscf.yield %q2 : f32\n}\n"

static int64_t instructions(const char *body)
{
	struct vm_report r;
	run(body, 64, 1, false, &r);
	const struct vm_cost *c = line_cost(&r, 6);
	int64_t n = c->fma_instrs + c->alu_instrs + c->special_instrs;
	vm_report_release(&r);
	return n;
}

static void test_nothing_is_free(void **state)
{
	/* 64 elements are one instruction of each of two warps */
	assert_int_equal(instructions(LOADED ASM("add.f32 $0, $1, $1;") STORED), 2);
	assert_int_equal(instructions(LOADED ASM("mov.f32 $0, $1; " TEN("fma.rn.f32 $0, $0, $0, $0; ")) STORED), 22);
	assert_int_equal(instructions(LOADED ASM("ex2.approx.f32 $0, $1;") STORED), 2);
	/* a turn of a loop is a product, and its test and jump */
	int64_t few = instructions(LOADED OVER(TURNS("4")) STORED), many = instructions(LOADED OVER(TURNS("400")) STORED);
	assert_true(few >= 2 * 4);
	assert_true(many - few >= 2 * (400 - 4));
	few = instructions(LOADED SUM(TURNS("4")) STORED);
	many = instructions(LOADED SUM(TURNS("400")) STORED);
	assert_true(many - few >= 2 * (400 - 4));
}

/* Integer divisions, by what is known of the divisor: instructions of one element, as SASS
 * has them (meter_divide.c).
 */
#define WHOLE LOADED "%k = arith.fptosi %v : tensor<64xf32> to tensor<64xi32>" AT(5) \
	"%c7 = arith.constant dense<7> : tensor<64xi32>\n%c8 = arith.constant dense<8> : tensor<64xi32>\n" \
	"%e = arith.addi %k, %c7 : tensor<64xi32>" AT(5)
#define DIVIDED(op, divisor, at) "%r" at " = arith." op " %k, " divisor " : tensor<64xi32>" AT(6)
#define WHOLE_STORED(at) "%w = arith.sitofp %r" at " : tensor<64xi32> to tensor<64xf32>" AT(8) STORED

static void expect_line6(const char *body, int fma, int alu, int special)
{
	struct vm_report r;
	run(body, 64, 1, false, &r);
	const struct vm_cost *c = line_cost(&r, 6); /* two warps, an element a lane */
	if (c->fma_instrs != 2 * fma || c->alu_instrs != 2 * alu || c->special_instrs != 2 * special)
		fail_msg("%lld fma, %lld alu, %lld special", (long long)c->fma_instrs, (long long)c->alu_instrs,
			(long long)c->special_instrs);
	vm_report_release(&r);
}

static void test_divisions(void **state)
{
	expect_line6(WHOLE DIVIDED("divsi", "%e", "0") WHOLE_STORED("0"), 14, 12, 2);
	expect_line6(WHOLE DIVIDED("divsi", "%ns", "0") WHOLE_STORED("0"), 6, 10, 0);
	expect_line6(WHOLE DIVIDED("remsi", "%ns", "0") WHOLE_STORED("0"), 8, 7, 0);
	expect_line6(WHOLE DIVIDED("divsi", "%c7", "0") WHOLE_STORED("0"), 2, 3, 0);
	expect_line6(WHOLE DIVIDED("remsi", "%c7", "0") WHOLE_STORED("0"), 4, 3, 0);
	expect_line6(WHOLE DIVIDED("divui", "%c8", "0") WHOLE_STORED("0"), 0, 3, 0);
	/* In a function over elements each has its own divisor; beside the division there are two
	 * conversions and a sum. */
	expect_line6(
		LOADED OVER("%k = arith.fptosi %x : f32 to i32\n%c = arith.constant 7 : i32\n%e = arith.addi %k, %c : i32\n"
					"%d = arith.divsi %k, %e : i32\n%y = arith.sitofp %d : i32 to f32\n") STORED,
		14, 12 + 2, 2 + 1);
	/* A quotient and a remainder of the same operands share the work, of others they do not. */
	expect_line6(WHOLE DIVIDED("divsi", "%ns", "0") DIVIDED("remsi", "%ns", "1") WHOLE_STORED("1"), 6 + 2, 10 + 1, 0);
	expect_line6(WHOLE DIVIDED("divsi", "%e", "0") DIVIDED("remsi", "%e", "1") WHOLE_STORED("1"), 14 + 2, 12 + 1, 2);
	expect_line6(WHOLE DIVIDED("divsi", "%ns", "0") DIVIDED("remsi", "%c7", "1") WHOLE_STORED("1"), 6 + 4, 10 + 3, 0);
	expect_line6(WHOLE DIVIDED("divsi", "%ns", "0") DIVIDED("remui", "%ns", "1") WHOLE_STORED("1"), 6 + 8, 10 + 7, 0);
}

/* What stands on line 6 in each turn of a loop of ten, and makes the address of a load. */
#define TURNING(line6, mask) WHOLE LOOPS "%w = scf.for %t = %zero to %ten step %one iter_args(%q = %v) -> " \
	"(tensor<64xf32>) : i32 {\n%ts = tt.splat %t : i32 -> tensor<64xi32>\n" line6 mask \
	"%q2 = arith.addf %q, %x : tensor<64xf32>" AT(5) "scf.yield %q2 : tensor<64xf32>\n}\n" STORED
#define LOOPS "%zero = arith.constant 0 : i32\n%one = arith.constant 1 : i32\n%ten = arith.constant 10 : i32\n"
#define AT_J "%pj = tt.addptr %as, %j : tensor<64x!tt.ptr<f32>>, tensor<64xi32>\n"
/* The same in a loop within that one. */
#define WITHIN(turns, line6) "%x = scf.for %u = %zero to %" turns " step %one iter_args(%r = %q) -> " \
	"(tensor<64xf32>) : i32 {\n" line6 AT_J "%y = tt.load %pj : tensor<64x!tt.ptr<f32>>" AT(5) \
	"%r2 = arith.addf %r, %y : tensor<64xf32>" AT(5) "scf.yield %r2 : tensor<64xf32>\n}\n"
#define PLAIN AT_J "%x = tt.load %pj : tensor<64x!tt.ptr<f32>>" AT(5)
#define MASKED AT_J "%m = arith.cmpi slt, %j, %ns : tensor<64xi32>" AT(5) \
	"%x = tt.load %pj, %m : tensor<64x!tt.ptr<f32>>" AT(5)
#define BLOCK_OF(op, a, b) " = arith." op " " a ", " b " : tensor<64xi32>" AT(6)

static void test_loops(void **state)
{
	/* A part that stays and the turn's number: a step of the address, unless a
	 * mask wants the value. */
	expect_line6(TURNING("%j" BLOCK_OF("addi", "%k", "%ts"), PLAIN), 0, 0, 0);
	expect_line6(TURNING("%j" BLOCK_OF("addi", "%k", "%ts"), MASKED), 0, 10, 0);
	/* Times what stays it is one still; times what turns it is none, and no product of
	 * two parts that stay is. */
	expect_line6(TURNING("%i0" BLOCK_OF("addi", "%k", "%ts") "%j" BLOCK_OF("muli", "%i0", "%c7"), PLAIN), 0, 0, 0);
	expect_line6(TURNING("%i0" BLOCK_OF("addi", "%k", "%ts") "%j" BLOCK_OF("muli", "%i0", "%ts"), PLAIN), 20, 10, 0);
	/* What stays is made once. */
	expect_line6(TURNING("%j" BLOCK_OF("muli", "%k", "%c7"), PLAIN), 2, 0, 0);
	expect_line6(TURNING("%j" BLOCK_OF("muli", "%k", "%ts"), PLAIN), 20, 0, 0);
	/* What a loop within does not change, but the one around it does, is made once in each turn of
	 * that; a loop of one turn shares nothing. */
	expect_line6(TURNING(WITHIN("one", "%j" BLOCK_OF("muli", "%k", "%ts")), ""), 20, 0, 0);
	expect_line6(TURNING(WITHIN("ten", "%j" BLOCK_OF("muli", "%k", "%ts")), ""), 20, 0, 0);
	expect_line6(TURNING(WITHIN("ten", "%j" BLOCK_OF("muli", "%k", "%c7")), ""), 2, 0, 0);
	expect_line6(
		TURNING(WITHIN("ten", "%us = tt.splat %u : i32 -> tensor<64xi32>\n%j" BLOCK_OF("muli", "%k", "%us")), ""), 200,
		0, 0);
}

int main(void)
{
	cmocka_set_message_output(CM_OUTPUT_TAP);
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_contiguous),
		cmocka_unit_test(test_strided),
		cmocka_unit_test(test_threads),
		cmocka_unit_test(test_one_program_does_all),
		cmocka_unit_test(test_far_lanes),
		cmocka_unit_test(test_reduction_and_dot),
		cmocka_unit_test(test_atomics_of_two_warps),
		cmocka_unit_test(test_atomics_of_threads),
		cmocka_unit_test(test_library_line),
		cmocka_unit_test(test_contraction),
		cmocka_unit_test(test_nothing_is_free),
		cmocka_unit_test(test_divisions),
		cmocka_unit_test(test_loops),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
