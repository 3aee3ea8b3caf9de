/* Waiting is not free: programs that go one after another take the sum of what they do in turn, and
 * those that only meet do not; sleeps, fences, and lanes that go ways of their own. */
#include "body_kernel.h"
#include "cost/cost.h"
#include <math.h>

static int32_t data[3][4096];
static int64_t resident = 132 * 32; /* programs of the next launches */

/* What the launch counts; buffer c begins as zeros, and a is 1, 2, 3, ... */
static struct vm_cost count(const char *body, uint32_t grid, int64_t n)
{
	struct err err = {0};
	struct vm_report r;
	for (int i = 0; i < 4096; i++) {
		float f = (float)(i + 1);
		memcpy(&data[0][i], &f, sizeof f);
		data[1][i] = data[2][i] = 0;
	}
	struct body_kernel b = body_kernel_make(BODY_HEAD("i32"), body, data, sizeof data[0], sizeof data[0], n);
	struct vm_compiled one_warp = {.binary = vm_binary_default(1), .resident = resident};
	struct vm_launch_options o = {.grid = {grid, 1, 1},
		.args = b.args,
		.nargs = 4,
		.buffers = b.buffers,
		.nbuffers = 3,
		.want_cost = true,
		.compiled = &one_warp};
	if (vm_launch(b.k, &o, &r, &err)) fail_msg("%s", err.text);
	vm_kernel_free(b.k);
	struct vm_cost cost = r.cost;
	vm_report_release(&r);
	return cost;
}

#define NUMBERS "%zero = arith.constant 0 : i32\n%one = arith.constant 1 : i32\n%t = arith.constant true\n" \
	"%three = arith.constant 3 : i32\n%less = arith.constant -1 : i32\n%pid = tt.get_program_id x : i32\n" \
	"%next = tt.addptr %c, %one : !tt.ptr<i32>, i32\n%own = tt.addptr %next, %pid : !tt.ptr<i32>, i32\n" \
	"%before = tt.addptr %own, %less : !tt.ptr<i32>, i32\n%is_later = arith.cmpi sgt, %pid, %zero : i32\n"
#define RMW(name, what, at, value) "%" name " = tt.atomic_rmw " what ", acq_rel, gpu, " at ", " value \
	", %t : (!tt.ptr<i32>, i32, i1) -> i32\n"
#define CAS(name, at, old, new) "%" name " = tt.atomic_cas acq_rel, gpu, " at ", " old ", " new \
	" : (!tt.ptr<i32>, i32, i32) -> i32\n"
/* Looks until it sees something else than that; `look` makes %seen. */
#define UNTIL_NOT(look, that) "scf.while : () -> () {\n" look "%on = arith.cmpi eq, %seen, " that " : i32\n" \
	"scf.condition(%on)\n} do {\nscf.yield\n}\n"
#define ADD_ONE "%x = tt.load %b : !tt.ptr<f32>\n%y = arith.addf %x, %x : f32\ntt.store %b, %y : !tt.ptr<f32>\n" \
	"gpu.barrier\n"
#define ATOMIC 400   /* cycles of one, and of a load from L2 */
#define LOAD 290

/* Programs that go one after another: 64 take 64 times what one does of it, whoever says whose turn
 * it is and however it is asked. */
static void test_turns(void **state)
{
	static const struct {
		const char *name;
		const char *body;
		int least; /* cycles that each takes at least before the next one's turn */
	} rows[] = {
		{"a lock", UNTIL_NOT(CAS("seen", "%c", "%zero", "%one"), "%one") ADD_ONE RMW("_", "exch", "%c", "%zero"),
			ATOMIC + LOAD},
		{"a lock by exchanges",
			UNTIL_NOT(RMW("seen", "exch", "%c", "%one"), "%one") ADD_ONE RMW("_", "exch", "%c", "%zero"),
			ATOMIC + LOAD},
		{"a chain of flags",
			"scf.if %is_later {\n" UNTIL_NOT(RMW("seen", "add", "%before", "%zero"), "%zero") "}\n" ADD_ONE RMW(
				"_", "exch", "%own", "%one"),
			ATOMIC + LOAD},
		{"a chain that loads look at",
			"scf.if %is_later {\n" UNTIL_NOT("%seen = tt.load %before {isVolatile = true} : !tt.ptr<i32>\n",
				"%zero") "}\n" ADD_ONE RMW("_", "exch", "%own", "%one"),
			2 * LOAD},
		{"a chain of numbers by compare and swap",
			"scf.while : () -> () {\n" CAS(
				"seen", "%c", "%pid", "%pid") "%on = arith.cmpi ne, %seen, %pid : i32\n"
											  "scf.condition(%on)\n} do {\nscf.yield\n}\n" ADD_ONE
											  "%after = arith.addi %pid, %one : i32\n" RMW("_", "exch", "%c", "%after"),
			ATOMIC + LOAD},
		{"a ticket and whose turn it is",
			RMW("ticket", "add", "%c", "%one") "scf.while : () -> () {\n" RMW("seen", "add", "%next",
				"%zero") "%on = arith.cmpi ne, %seen, %ticket : i32\nscf.condition(%on)\n} do {\nscf.yield\n}\n" ADD_ONE
				RMW("_", "add", "%next", "%one"),
			ATOMIC + LOAD},
		{"a flag by way of memory",
			"scf.if %is_later {\nscf.while : () -> () {\n" RMW("seen", "add", "%before",
				"%zero") "%room = tt.addptr %a, %pid : !tt.ptr<f32>, i32\n%is_there = arith.sitofp %seen : i32 to f32\n"
						 "tt.store %room, %is_there : !tt.ptr<f32>\ngpu.barrier\n%back = tt.load %room : !tt.ptr<f32>\n"
						 "%f0 = arith.constant 0.0 : f32\n%on = arith.cmpf oeq, %back, %f0 : "
						 "f32\nscf.condition(%on)\n} do {\n"
						 "scf.yield\n}\n}\n" ADD_ONE RMW("_", "exch", "%own", "%one"),
			ATOMIC + LOAD},
		{"a lock whose turns are counted",
			"%n2 = scf.while (%k = %zero) : (i32) -> i32 {\n" CAS("seen", "%c", "%zero",
				"%one") "%on = arith.cmpi eq, %seen, %one : i32\nscf.condition(%on) %k : i32\n} do {\n^bb0(%k: i32):\n"
						"%k2 = arith.addi %k, %one : i32\nscf.yield %k2 : i32\n}\n" ADD_ONE RMW(
							"_", "exch", "%c", "%zero"),
			ATOMIC + LOAD},
	};
	/* Each alone, then 64 of it: between their turns' sum and four times that. */
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct str body = {0};
		str_printf(&body, "%s%s", NUMBERS, rows[i].body);
		struct vm_cost one = count(body.data, 1, 64), all = count(body.data, 64, 64);
		if (all.path_cycles_max < 64 * rows[i].least || all.path_cycles_max > 64 * 4 * rows[i].least ||
			one.path_cycles_max > 8 * rows[i].least || vm_cost_untimed(&all))
			fail_msg("%s: one program takes %lld cycles, 64 take %lld (%s)", rows[i].name,
				(long long)one.path_cycles_max, (long long)all.path_cycles_max,
				vm_cost_untimed(&all) ? vm_cost_untimed(&all) : "timed");
		str_release(&body);
	}
}

/* Who meets without waiting goes side by side, however the atomics are used. */
static void test_meetings(void **state)
{
	static const char *const rows[] = {
		/* a sum */
		RMW("_", "add", "%c", "%one"),
		/* the last one finishes */
		"tt.store %own, %pid : !tt.ptr<i32>\n" RMW(
			"seen", "add", "%c", "%one") "%is_last = arith.cmpi eq, %seen, %n : i32\nscf.if %is_last {\n" ADD_ONE "}\n",
		/* a slot for each */
		RMW("seen", "add", "%c", "%one") "%slot = tt.addptr %next, %seen : !tt.ptr<i32>, i32\n"
										 "tt.store %slot, %pid : !tt.ptr<i32>\n",
		/* a part of a loop's work */
		"scf.for %k = %zero to %three step %one : i32 {\n" RMW("_", "add", "%c", "%one") "}\n",
		/* a flag that is there already */
		UNTIL_NOT(RMW("seen", "add", "%c", "%zero"), "%one"),
	};
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct str body = {0};
		str_printf(&body, "%s%s", NUMBERS, rows[i]);
		struct vm_cost one = count(body.data, 1, 64), all = count(body.data, 65, 64);
		if (all.path_cycles_max > 2 * one.path_cycles_max + 2 * ATOMIC + 2 * LOAD || vm_cost_untimed(&all))
			fail_msg("row %zu: one program takes %lld cycles, 65 take %lld", i, (long long)one.path_cycles_max,
				(long long)all.path_cycles_max);
		str_release(&body);
	}
}

/* A queue is shared out: eight programs take an eighth of the time that one takes, though the first
 * of them finds all of it when they run one after another. What memory holds is as if they did. */
static void test_queue(void **state)
{
	const char *body = NUMBERS "scf.while : () -> () {\n" RMW("seen", "add", "%c",
		"%one") "%on = arith.cmpi slt, %seen, %n : i32\nscf.condition(%on)\n} do {\n" ADD_ONE "scf.yield\n}\n";
	struct vm_cost one = count(body, 1, 800), eight = count(body, 8, 800);
	double share = (double)one.path_cycles_max / (double)eight.path_cycles_max;
	if (share < 6 || share > 9) fail_msg("one takes %.2f times as long as eight", share);
	assert_int_equal(data[2][0], 808);
	/* A thousandth of them at a time is a second wave. */
	assert_int_equal(count(NUMBERS RMW("_", "add", "%c", "%one"), 8, 1).untimed[VM_UNTIMED_ORDER], 0);
}

/* Waits that are looked at too often to be followed have no time. */
static void test_too_long(void **state)
{
	const char *body = NUMBERS
		"%many = arith.constant 1500000 : i32\nscf.if %is_later {\n"
		"%n2 = scf.while (%k = %zero) : (i32) -> i32 {\n" RMW("seen", "add", "%c",
			"%zero") "%on = arith.cmpi eq, %seen, %zero : i32\nscf.condition(%on) %k : i32\n} do {\n^bb0(%k: i32):\n"
					 "%k2 = arith.addi %k, %one : i32\nscf.yield %k2 : i32\n}\n} else {\n"
					 "%f = arith.constant 1.0 : f32\n%s = scf.for %k = %zero to %many step %one iter_args(%q = %f) -> "
					 "(f32) : i32 {\n"
					 "%q2 = arith.mulf %q, %q : f32\nscf.yield %q2 : f32\n}\ntt.store %b, %s : !tt.ptr<f32>\n" RMW(
						 "_", "exch", "%c", "%one") "}\n";
	struct vm_cost c = count(body, 256, 1);
	assert_int_equal(c.untimed[VM_UNTIMED_ORDER], 1);
	assert_non_null(strstr(vm_cost_untimed(&c), "wait for each other"));
	/* So have waits of more programs than there is memory for at once; and one program
	 * alone waits for nobody. */
	body = NUMBERS UNTIL_NOT(CAS("seen", "%c", "%zero", "%one"), "%one") RMW("_", "exch", "%c", "%zero");
	resident = 1 << 20;
	assert_int_equal(count(body, 65535, 1).untimed[VM_UNTIMED_ORDER], 1);
	assert_int_equal(count(body, 1, 1).untimed[VM_UNTIMED_ORDER], 0);
	resident = 132 * 32;
}

/* ---- assembly ---- */

#define BLOCK "%i = tt.make_range {end = 128 : i32, start = 0 : i32} : tensor<128xi32>\n" \
	"%as = tt.splat %a : !tt.ptr<f32> -> tensor<128x!tt.ptr<f32>>\n" \
	"%pa = tt.addptr %as, %i : tensor<128x!tt.ptr<f32>>, tensor<128xi32>\n" \
	"%bs = tt.splat %b : !tt.ptr<f32> -> tensor<128x!tt.ptr<f32>>\n" \
	"%pb = tt.addptr %bs, %i : tensor<128x!tt.ptr<f32>>, tensor<128xi32>\n" \
	"%v = tt.load %pa : tensor<128x!tt.ptr<f32>>\n"
#define STORED "tt.store %pb, %w : tensor<128x!tt.ptr<f32>>\n"
#define ASM(text) BLOCK "%w = tt.elementwise_inline_asm \"" text \
	"\" {constraints = \"=f,f\", packed_element = 1 : i32, pure = false} %v : tensor<128xf32> -> " \
	"tensor<128xf32>\n" STORED

static int64_t path_of(const char *body) { return count(body, 1, 1).path_cycles_max; }

static void test_assembly(void **state)
{
	/* Four elements a thread, one after another; cycles that the text waits for one. */
	static const struct {
		const char *body;
		double least;
		double most;
	} rows[] = {
		{ASM("nanosleep.u32 1000; mov.f32 $0, $1;"), 3069, 3190},
		{ASM("nanosleep.u32 /* so long */ 0x3e8; mov.f32 $0, $1;"), 3069, 3190},
		{ASM("nanosleep.u32 500; nanosleep.u32 500; mov.f32 $0, $1;"), 3069, 3190},
		{ASM("nanosleep.u32 4000000000; mov.f32 $0, $1;"), 3.069e6, 3.09e6}, /* of a millisecond, the most */
		{ASM("membar.sys; mov.f32 $0, $1;"), 2300, 2400}, {ASM("fence.acq_rel.sys; mov.f32 $0, $1;"), 2300, 2400},
		{ASM("membar.gl; mov.f32 $0, $1;"), 290, 350}, {ASM("fence.sc.gpu; mov.f32 $0, $1;"), 290, 350},
		{ASM("bar.sync 0; mov.f32 $0, $1;"), 40, 80}, {ASM("barrier.sync 1, 32; mov.f32 $0, $1;"), 40, 80},
		{ASM("fence.acq_rel.cta; mov.f32 $0, $1;"), 0, 20},
		{ASM("griddepcontrol.wait; mov.f32 $0, $1;"), 0, 20}, /* launches are summed up in any case */
	};
	int64_t plain = path_of(ASM("mov.f32 $0, $1;"));
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		double each = (double)(path_of(rows[i].body) - plain) / 4;
		if (!(each >= rows[i].least && each <= rows[i].most)) fail_msg("row %zu: %.1f cycles", i, each);
	}
	/* As long as a register says is not known. */
	struct vm_cost open = count(ASM("{ .reg .u32 t; cvt.rzi.u32.f32 t, $1; nanosleep.u32 t; } mov.f32 $0, $1;"), 1, 1);
	assert_int_equal(open.untimed[VM_UNTIMED_SLEEP], 1);
	assert_null(vm_cost_untimed(&(struct vm_cost){.programs = 1}));
	struct vm_cost known = count(ASM("nanosleep.u32 8; mov.f32 $0, $1;"), 1, 1);
	assert_null(vm_cost_untimed(&known));
}

static int64_t slots(const char *text)
{
	struct str body = {0};
	str_puts(&body, BLOCK "%w = tt.elementwise_inline_asm \"");
	str_puts(&body, text);
	str_puts(&body,
		"\" {constraints = \"=f,f\", packed_element = 1 : i32, pure = true} %v : tensor<128xf32> -> "
		"tensor<128xf32>\n" STORED);
	struct vm_cost c = count(body.data, 1, 1),
				   none = count(BLOCK "%w = arith.negf %v : tensor<128xf32>\n" STORED, 1, 1);
	str_release(&body);
	return c.fma_instrs + c.alu_instrs + 8 * c.special_instrs - (none.fma_instrs + none.alu_instrs);
}

/* What is many instructions of the machine is so in assembly too, at its width. */
static void test_assembly_is_long(void **state)
{
	int64_t sum = slots("add.f32 $0, $1, $1;");
	assert_true(slots("div.rn.f32 $0, $1, $1;") > 5 * (sum + 4));
	assert_true(slots("{ .reg .u32 t; mov.b32 t, $1; rem.u32 t, t, 7; mov.b32 $0, t; }") >
		slots("{ .reg .u32 t; mov.b32 t, $1; add.u32 t, t, 7; mov.b32 $0, t; }") + 4 * 25);
	int64_t wide = slots("{ .reg .u64 t; mov.b64 t, {$1, $1}; rem.u64 t, t, 7; mov.b64 {$0, _}, t; }");
	assert_true(wide > slots("{ .reg .u64 t; mov.b64 t, {$1, $1}; add.u64 t, t, 7; mov.b64 {$0, _}, t; }") + 4 * 60);
}

/* ---- lanes ---- */

/* A function whose turns are as many as its element says, or one. */
#define TURNS(count) "%n2 = " count "%f1 = arith.constant 1.0 : f32\n%zero = arith.constant 0 : i32\n" \
	"%one = arith.constant 1 : i32\n%y = scf.for %k = %zero to %n2 step %one iter_args(%q = %f1) -> (f32) : i32 {\n" \
	"%q2 = arith.mulf %q, %q : f32\nscf.yield %q2 : f32\n}\n"
#define OVER(body) BLOCK "%w = \"tt.map_elementwise\"(%v) <{pack = 1 : i32}> ({\n^bb0(%x: f32):\n" body \
	"tt.map_elementwise.return %y : f32\n}) : (tensor<128xf32>) -> tensor<128xf32>\n" STORED
#define WHEN(condition) "%z0 = arith.constant 7.0 : f32\n%big = arith.constant 4000 : i32\n" \
	"%few = arith.constant 1 : i32\n%is = arith.cmpf " condition ", %x, %z0 : f32\n"

static int64_t issued(const char *body)
{
	struct vm_cost c = count(body, 1, 1);
	return c.fma_instrs + c.alu_instrs;
}

static void test_lanes(void **state)
{
	/* A warp takes as long as the lane that takes longest: one that turns is as dear as all. */
	int64_t all = issued(OVER(WHEN("oge") TURNS("arith.constant 4000 : i32\n")));
	int64_t one = issued(OVER(WHEN("oeq") TURNS("arith.select %is, %big, %few : i32\n")));
	int64_t none = issued(OVER(WHEN("oge") TURNS("arith.constant 1 : i32\n")));
	assert_true(all > 100 * none);
	if (one < all || one > all + all / 10) fail_msg("all %lld, one of 128 %lld", (long long)all, (long long)one);
	/* Likewise of a reduction's function. */
#define SUM(body) BLOCK "%s = \"tt.reduce\"(%v) <{axis = 0 : i32}> ({\n^bb0(%x: f32, %u: f32):\n" body \
	"tt.reduce.return %y : f32\n}) : (tensor<128xf32>) -> f32\n%w = tt.splat %s : f32 -> tensor<128xf32>\n" STORED
	all = issued(SUM(WHEN("oge") TURNS("arith.constant 4000 : i32\n")));
	one = issued(SUM("%z0 = arith.constant 128.0 : f32\n%big = arith.constant 4000 : i32\n"
					 "%few = arith.constant 1 : i32\n%is = arith.cmpf oeq, %u, %z0 : f32\n" TURNS(
						 "arith.select %is, %big, %few : i32\n")));
	if (one < all / 2) fail_msg("all %lld, one pair %lld", (long long)all, (long long)one);
}

static void test_histogram(void **state)
{
#define BINS(n) BLOCK "%k = arith.fptosi %v : tensor<128xf32> to tensor<128xi32>\n" \
	"%h = tt.histogram %k : tensor<128xi32> -> tensor<" n "xi32>\n%w = arith.negf %v : tensor<128xf32>\n" STORED
	/* A thread looks at each element for every 32nd bin. */
	struct vm_cost few = count(BINS("32"), 1, 1), many = count(BINS("4096"), 1, 1);
	assert_true(many.alu_instrs - few.alu_instrs >= 4 * (128 - 1) * 8);
	assert_int_equal(many.special_instrs - few.special_instrs, 4 * (128 - 1));
}

/* What a gather reads it reads as often as lanes meet in a bank. */
static void test_banks(void **state)
{
#define GATHER(index) BLOCK "%c32 = arith.constant dense<32> : tensor<128xi32>\n" \
	"%c127 = arith.constant dense<127> : tensor<128xi32>\n" index \
	"%w = tt.gather %v[%x] {axis = 0 : i32} : (tensor<128xf32>, tensor<128xi32>) -> tensor<128xf32>\n" STORED
	int64_t same = count(GATHER("%x = arith.subi %c32, %c32 : tensor<128xi32>\n"), 1, 1).shared_bytes;
	int64_t apart = count(GATHER("%x = arith.ori %i, %i : tensor<128xi32>\n"), 1, 1).shared_bytes;
	assert_int_equal(same, apart);
	/* Places 32 apart are one bank's: four of them here, each for as many lanes. */
	int64_t met = count(
		GATHER("%m = arith.muli %i, %c32 : tensor<128xi32>\n%x = arith.andi %m, %c127 : tensor<128xi32>\n"), 1, 1)
					  .shared_bytes;
	assert_int_equal(met - apart, 4 * 3 * 128);
}

/* ---- fp64 ---- */

#define WIDE(body) BLOCK "%d = arith.extf %v : tensor<128xf32> to tensor<128xf64>\n" body \
	"%w = arith.truncf %e : tensor<128xf64> to tensor<128xf32>\n" STORED

static void test_wide(void **state)
{
	struct vm_cost product = count(WIDE("%e = arith.mulf %d, %d : tensor<128xf64>\n"), 1, 1);
	struct vm_cost quotient = count(WIDE("%e = arith.divf %d, %d : tensor<128xf64>\n"), 1, 1);
	struct vm_cost exp = count(WIDE("%e = math.exp %d : tensor<128xf64>\n"), 1, 1);
	struct vm_cost whole = count(WIDE("%e = math.floor %d : tensor<128xf64>\n"), 1, 1);
	assert_int_equal(product.f64_instrs, 4);
	assert_int_equal(quotient.f64_instrs, 40);
	assert_int_equal(exp.f64_instrs, 96);
	assert_int_equal(whole.f64_instrs, 0);
	/* A card for games has a 64th of its lanes. */
	struct vm_binary b = vm_binary_default(4);
	struct vm_cost c = {.programs = 100000, .fma_instrs = 2e9, .f64_instrs = 1e9};
	assert_true(vm_estimate(&c, &b, vm_gpu_find("4090")).time_s > 10 * vm_estimate(&c, &b, vm_gpu_find("H200")).time_s);
}

/* One float for all lanes is computed by every warp, on the pipe of any other. */
static void test_scalars(void **state)
{
#define SCALARS(op) NUMBERS "%x = tt.load %a : !tt.ptr<f32>\n" \
	"%s = scf.for %k = %zero to %n step %one iter_args(%q = %x) -> (f32) : i32 {\n%q2 = " op " : f32\n" \
	"scf.yield %q2 : f32\n}\ntt.store %b, %s : !tt.ptr<f32>\n"
	assert_int_equal(count(SCALARS("math.exp %q"), 1, 100).special_instrs, 100);
	assert_int_equal(count(SCALARS("arith.mulf %q, %x"), 1, 100).fma_instrs, 100);
}

/* Printing goes through the host; nobody knows when that comes to it. */
static void test_print(void **state)
{
	struct vm_cost c = count("tt.print \"n\" {hex = false, isSigned = array<i32: 0>} : %n : i32\n", 3, 1);
	assert_int_equal(c.untimed[VM_UNTIMED_PRINT], 3);
	assert_string_equal(vm_cost_untimed(&c), "it prints");
}

/* What is written before a release has to arrive first, and the whole system is farther. */
static void test_fences(void **state)
{
	int64_t plain = path_of(NUMBERS RMW("_", "add", "%c", "%one"));
	int64_t behind = path_of(NUMBERS "tt.store %own, %pid : !tt.ptr<i32>\n" RMW("_", "add", "%c", "%one"));
	int64_t relaxed = path_of(
		NUMBERS "tt.store %own, %pid : !tt.ptr<i32>\n"
				"%_ = tt.atomic_rmw add, relaxed, gpu, %c, %one, %t : (!tt.ptr<i32>, i32, i1) -> i32\n");
	int64_t far = path_of(
		NUMBERS "%_ = tt.atomic_rmw add, acq_rel, sys, %c, %one, %t : (!tt.ptr<i32>, i32, i1) -> i32\n");
	assert_in_range(behind - plain, LOAD, LOAD + 10);
	assert_in_range(relaxed - plain, 0, 10);
	assert_in_range(far - plain, 2300, 2310);
	/* A volatile load finds nothing in L1. */
#define CHASE(how) NUMBERS "%s = scf.for %k = %zero to %n step %one iter_args(%q = %zero) -> (i32) : i32 {\n" \
	"%p = tt.addptr %c, %q : !tt.ptr<i32>, i32\n%v = tt.load %p" how " : !tt.ptr<i32>\nscf.yield %v : i32\n}\n" \
	"tt.store %own, %s : !tt.ptr<i32>\n"
	assert_true(count(CHASE(" {isVolatile = true}"), 1, 20).path_cycles_max > 20 * LOAD);
	assert_true(count(CHASE(""), 1, 20).path_cycles_max < 10 * LOAD);
	assert_true(count(CHASE(" cacheModifier = cg"), 1, 20).path_cycles_max > 20 * LOAD);
	assert_true(count(CHASE(" cacheModifier = cv"), 1, 20).path_cycles_max > 20 * LOAD);
	assert_true(count(CHASE(" cacheModifier = ca"), 1, 20).path_cycles_max < 10 * LOAD);
	/* So what it asks of L2 is not what each SM asks once of a small buffer. */
	assert_true(count(CHASE(" {isVolatile = true}"), 1, 1000).l2_sectors >= 1000);
	assert_true(count(CHASE(" cacheModifier = cg"), 1, 1000).l2_sectors >= 1000);
	assert_true(count(CHASE(""), 1, 1000).l2_sectors < 200);
}

int main(void)
{
	cmocka_set_message_output(CM_OUTPUT_TAP);
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_turns),
		cmocka_unit_test(test_meetings),
		cmocka_unit_test(test_queue),
		cmocka_unit_test(test_too_long),
		cmocka_unit_test(test_assembly),
		cmocka_unit_test(test_assembly_is_long),
		cmocka_unit_test(test_lanes),
		cmocka_unit_test(test_histogram),
		cmocka_unit_test(test_banks),
		cmocka_unit_test(test_wide),
		cmocka_unit_test(test_scalars),
		cmocka_unit_test(test_print),
		cmocka_unit_test(test_fences),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
