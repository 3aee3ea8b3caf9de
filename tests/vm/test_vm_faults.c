/* What the vm refuses: faults of running kernels, each at its source line; arguments that do not
 * fit; texts that are not accepted. */
#include "body_kernel.h"
#include <math.h>

#define HEAD BODY_HEAD("i32")
#define RANGE "%i = tt.make_range {end = 8 : i32, start = 0 : i32} : tensor<8xi32>\n"
#define PTRS(name, arg) "%" name "s = tt.splat %" arg " : !tt.ptr<f32> -> tensor<8x!tt.ptr<f32>>\n" \
	"%" name " = tt.addptr %" name "s, %i : tensor<8x!tt.ptr<f32>>, tensor<8xi32>\n"

struct setup {
	uint8_t data[3][64], origin[3][64];
	bool use_origin, read_only[3], want_cost;
	uint32_t grid;
	uint64_t deadline_ns;
	int64_t n;
	struct pool *pool;
	unsigned checks;
	int findings_max;
	bool has_host_pointers;
	int races, notes; /* found by the last run */
};

static int run(const char *body, struct setup *s, struct vm_report *r)
{
	struct err err = {0};
	struct body_kernel b = body_kernel_make(HEAD, body, s->data, sizeof s->data[0], 32, s->n);
	for (int i = 0; i < 3; i++) {
		b.buffers[i].origin = s->use_origin ? s->origin[i] : NULL;
		b.buffers[i].is_read_only = s->read_only[i];
	}
	/* Three buffers and a length, with what the setup asks for. */
	struct vm_launch_options o = {
		.grid = {s->grid ? s->grid : 1, 1, 1},
		.args = b.args,
		.nargs = 4,
		.buffers = b.buffers,
		.nbuffers = 3,
		.deadline_ns = s->deadline_ns,
		.pool = s->pool,
		.want_cost = s->want_cost,
		.checks = s->checks,
		.findings_max = s->findings_max,
		.has_host_pointers = s->has_host_pointers,
	};
	int rc = vm_launch(b.k, &o, r, &err);
	/* The findings by kind; the report itself is given back without its memory. */
	s->races = s->notes = 0;
	for (int i = 0; i < r->nfindings; i++) {
		s->races += r->findings[i].fault == VM_FAULT_RACE;
		s->notes += r->findings[i].note != VM_NOTE_NONE;
	}
	vm_report_release(r);
	vm_kernel_free(b.k);
	return rc;
}

static void expect(const char *body, struct setup *s, enum vm_fault fault, int line, int64_t element)
{
	struct vm_report r;
	int rc = run(body, s, &r);
	if (rc != (fault == VM_FAULT_NONE ? 0 : ERR_MISMATCH) || r.fault != fault)
		fail_msg("rc %d, fault %s, expected %s: %s", rc, vm_fault_name(r.fault), vm_fault_name(fault), r.text);
	if (fault == VM_FAULT_NONE) return;
	if (line >= 0) assert_int_equal(r.line, line);
	assert_int_equal(r.element, element);
	assert_non_null(strstr(r.text, vm_fault_name(fault)));
}

#define LOAD_STORE(line_load, line_store, extra) RANGE extra PTRS("p", "a") PTRS("q", "b") \
	"%v = tt.load %p : tensor<8x!tt.ptr<f32>>" AT(line_load) "tt.store %q, %v : tensor<8x!tt.ptr<f32>>" AT(line_store)

static void test_in_bounds(void **state)
{
	struct setup s = {.n = 0};
	for (int i = 0; i < 32; i++) s.data[0][i] = (uint8_t)i;
	expect(LOAD_STORE(5, 6, ""), &s, VM_FAULT_NONE, 0, 0);
	assert_memory_equal(s.data[0], s.data[1], 32);
}

/* The offset of one block is a run-time number, so that affine, masked and scattered accesses are
 * all seen. */
#define SHIFTED(body) RANGE "%ns = tt.splat %n : i32 -> tensor<8xi32>\n%j = arith.addi %i, %ns : tensor<8xi32>\n" \
	"%ps = tt.splat %a : !tt.ptr<f32> -> tensor<8x!tt.ptr<f32>>\n" \
	"%p = tt.addptr %ps, %j : tensor<8x!tt.ptr<f32>>, tensor<8xi32>\n" body
#define SCATTERED "%jj = arith.muli %j, %j : tensor<8xi32>\n" \
	"%ps2 = tt.splat %a : !tt.ptr<f32> -> tensor<8x!tt.ptr<f32>>\n" \
	"%p2 = tt.addptr %ps2, %jj : tensor<8x!tt.ptr<f32>>, tensor<8xi32>\n"

static void test_out_of_bounds(void **state)
{
	struct setup s = {.n = 3};
	expect(SHIFTED("%v = tt.load %p : tensor<8x!tt.ptr<f32>>" AT(7)), &s, VM_FAULT_OUT_OF_BOUNDS, 7, 5);
	s.n = -2;
	expect(SHIFTED("%v = tt.load %p : tensor<8x!tt.ptr<f32>>" AT(8)), &s, VM_FAULT_OUT_OF_BOUNDS, 8, 0);
	expect(SHIFTED("%z = arith.constant dense<0.0> : tensor<8xf32>\ntt.store %p, %z : tensor<8x!tt.ptr<f32>>" AT(9)),
		&s, VM_FAULT_OUT_OF_BOUNDS, 9, 0);
	s.n = 0;
	expect(SHIFTED(SCATTERED "%v = tt.load %p2 : tensor<8x!tt.ptr<f32>>" AT(10)), &s, VM_FAULT_OUT_OF_BOUNDS, 10, 3);
	/* masked off, nothing is touched */
	s.n = 3;
	expect(SHIFTED("%e = arith.constant dense<8> : tensor<8xi32>\n%m = arith.cmpi slt, %j, %e : tensor<8xi32>\n%v = "
				   "tt.load %p, %m : tensor<8x!tt.ptr<f32>>" AT(7)),
		&s, VM_FAULT_NONE, 0, 0);
	expect(SHIFTED("%e = arith.constant dense<9> : tensor<8xi32>\n%m = arith.cmpi slt, %j, %e : tensor<8xi32>\n%v = "
				   "tt.load %p, %m : tensor<8x!tt.ptr<f32>>" AT(7)),
		&s, VM_FAULT_OUT_OF_BOUNDS, 7, 5);
	/* counting cost does not change what is found */
	s.want_cost = true;
	expect(SHIFTED("%v = tt.load %p : tensor<8x!tt.ptr<f32>>" AT(7)), &s, VM_FAULT_OUT_OF_BOUNDS, 7, 5);
	/* a scalar */
	s.n = 8;
	expect("%p = tt.addptr %a, %n : !tt.ptr<f32>, i32\n%v = tt.load %p : !tt.ptr<f32>" AT(4), &s,
		VM_FAULT_OUT_OF_BOUNDS, 4, 0);
	s.n = 1 << 30;
	expect("%q = tt.addptr %a, %n : !tt.ptr<f32>, i32\n%q2 = tt.addptr %q, %n : !tt.ptr<f32>, i32\n%f = arith.constant "
		   "1.0 : f32\n"
		   "tt.store %q2, %f : !tt.ptr<f32>" AT(4),
		&s, VM_FAULT_OUT_OF_BOUNDS, 4, 0);
}

static void test_addresses(void **state)
{
	struct setup s = {.n = 1};
	expect(
		"%x = tt.ptr_to_int %a : !tt.ptr<f32> -> i64\n%w = arith.extsi %n : i32 to i64\n%y = arith.addi %x, %w : i64\n"
		"%p = tt.int_to_ptr %y : i64 -> !tt.ptr<f32>\n%v = tt.load %p : !tt.ptr<f32>" AT(12),
		&s, VM_FAULT_MISALIGNED, 12, 0);
	expect(
		"%w = arith.constant 64 : i64\n%p = tt.int_to_ptr %w : i64 -> !tt.ptr<f32>\n%v = tt.load %p : !tt.ptr<f32>" AT(
			13),
		&s, VM_FAULT_OUT_OF_BOUNDS, 13, 0);
	expect(
		"%w = arith.constant -8 : i64\n%p = tt.int_to_ptr %w : i64 -> !tt.ptr<f32>\n%v = tt.load %p : !tt.ptr<f32>" AT(
			13),
		&s, VM_FAULT_OUT_OF_BOUNDS, 13, 0);
	/* offsets that overflow 64 bits */
	expect("%w = arith.constant 4611686018427387904 : i64\n%p = tt.addptr %a, %w : !tt.ptr<f32>, i64\n%v = tt.load %p "
		   ": !tt.ptr<f32>" AT(14),
		&s, VM_FAULT_NONE, 0, 0);
	expect("%w = arith.constant 2305843009213693952 : i64\n%p = tt.addptr %a, %w : !tt.ptr<f32>, i64\n%v = tt.load %p "
		   ": !tt.ptr<f32>" AT(15),
		&s, VM_FAULT_OUT_OF_BOUNDS, 15, 0);
}

static void test_origin(void **state)
{
	struct setup s = {.use_origin = true};
	memset(s.origin[0], TAPE_ORIGIN_GIVEN, 64);
	s.origin[0][5 * 4 + 2] = TAPE_ORIGIN_NONE;
	expect(LOAD_STORE(20, 21, ""), &s, VM_FAULT_UNINITIALISED, 20, 5);
	s.origin[0][5 * 4 + 2] = TAPE_ORIGIN_KERNEL;
	expect(LOAD_STORE(20, 21, ""), &s, VM_FAULT_NONE, 0, 0);
	for (int i = 0; i < 32; i++) assert_int_equal(s.origin[1][i], TAPE_ORIGIN_KERNEL);
	for (int i = 32; i < 64; i++) assert_int_equal(s.origin[1][i], TAPE_ORIGIN_NONE);
	s.read_only[1] = true;
	expect(LOAD_STORE(20, 21, ""), &s, VM_FAULT_READ_ONLY, 21, 0);
	s.origin[2][0] = TAPE_ORIGIN_NONE;
	expect("%one = arith.constant 1 : i32\n%t = arith.constant true\n%o = tt.atomic_rmw add, acq_rel, gpu, %c, %one, "
		   "%t : (!tt.ptr<i32>, i32, i1) -> i32" AT(22),
		&s, VM_FAULT_UNINITIALISED, 22, 0);
	memset(s.origin[2], TAPE_ORIGIN_GIVEN, 4);
	s.read_only[2] = true;
	expect("%one = arith.constant 1 : i32\n%t = arith.constant true\n%o = tt.atomic_rmw add, acq_rel, gpu, %c, %one, "
		   "%t : (!tt.ptr<i32>, i32, i1) -> i32" AT(22),
		&s, VM_FAULT_READ_ONLY, 22, 0);
}

static void test_division(void **state)
{
	struct setup s = {.n = 0};
	expect("%x = arith.constant 7 : i32\n%q = arith.divsi %x, %n : i32" AT(30), &s, VM_FAULT_DIVISION_BY_ZERO, 30, -1);
	expect(RANGE "%ns = tt.splat %n : i32 -> tensor<8xi32>\n%q = arith.remui %i, %ns : tensor<8xi32>" AT(31), &s,
		VM_FAULT_DIVISION_BY_ZERO, 31, -1);
	/* a lane may be masked off later: no fault */
	expect(RANGE "%q = arith.divsi %i, %i : tensor<8xi32>" AT(32), &s, VM_FAULT_NONE, 0, 0);
}

static void test_assert(void **state)
{
	struct setup s = {.n = 4};
	expect(RANGE "%ns = tt.splat %n : i32 -> tensor<8xi32>\n%m = arith.cmpi slt, %i, %ns : tensor<8xi32>\ntt.assert "
				 "%m, \"i < n\" : tensor<8xi1>" AT(40),
		&s, VM_FAULT_ASSERT, 40, 4);
	s.n = 8;
	expect(RANGE "%ns = tt.splat %n : i32 -> tensor<8xi32>\n%m = arith.cmpi slt, %i, %ns : tensor<8xi32>\ntt.assert "
				 "%m, \"i < n\" : tensor<8xi1>" AT(40),
		&s, VM_FAULT_NONE, 0, 0);
}

static void test_timeout(void **state)
{
	struct setup s = {.deadline_ns = clock_ns() + 30000000};
	expect("%t = arith.constant true\nscf.while : () -> () {\n  scf.condition(%t)\n} do {\n  scf.yield\n}" AT(50), &s,
		VM_FAULT_TIMEOUT, 50, -1);
	s.deadline_ns = clock_ns() + 30000000;
	expect("%z = arith.constant 0 : i32\n%one = arith.constant 1 : i32\nscf.for %k = %z to %one step %z : i32 {\n%x = "
		   "arith.addi %k, %k : i32" AT(52) "}" AT(51),
		&s, VM_FAULT_TIMEOUT, 51, -1);
	/* launched after its deadline: found at any instruction */
	s.deadline_ns = 1;
	s.grid = 100000;
	expect(LOAD_STORE(5, 6, ""), &s, VM_FAULT_TIMEOUT, -1, -1);
}

static void test_descriptor_alignment(void **state)
{
	struct setup s = {.n = 3};
	expect("%one = arith.constant 1 : i64\n%w = arith.extsi %n : i32 to i64\n%d = tt.make_tensor_descriptor %a, [%n, "
		   "%n], [%w, %one] : <f32>, <tensor<2x4xf32>>" AT(60),
		&s, VM_FAULT_ARGUMENT, 60, -1);
}

/* Programs 40.. fault; the lowest is reported whatever the threads do. */
static void test_first_program(void **state)
{
	struct setup s = {.grid = 64, .pool = pool_create(2)};
	for (int i = 0; i < 20; i++) {
		struct vm_report r;
		int rc = run("%p = tt.get_program_id x : i32\n%x = arith.constant 40 : i32\n%m = arith.cmpi slt, %p, %x : i32\n"
					 "tt.assert %m, \"low\" : i1" AT(3),
			&s, &r);
		assert_int_equal(rc, ERR_MISMATCH);
		assert_int_equal(r.program[0], 40);
	}
	pool_free(s.pool);
}

/* ---- texts ---- */

static void refuse(const char *text, int code, const char *part)
{
	struct vm_kernel *k;
	struct err err = {0};
	int rc = vm_kernel_create(text, strlen(text), &k, &err);
	if (rc != code || !strstr(err.text, part)) fail_msg("rc %d (%s), expected %d with '%s'", rc, err.text, code, part);
}

#define ONES "%l = arith.constant dense<1.0> : tensor<4x32xbf16>\n%r = arith.constant dense<1.0> : " \
	"tensor<32x4xbf16>\n%z = arith.constant dense<0.0> : tensor<4x4xf32>\n"

static void test_refused(void **state)
{
	/* No module, or half of one. */
	refuse("", ERR_FORMAT, "no public");
	refuse("module {", ERR_FORMAT, "expected");
	/* Operations: unknown, undefined or mistyped operands, too few of them, odd attributes. */
	refuse(HEAD "%x = foo.bar %n : i32" AT(9) TAIL, ERR_UNSUPPORTED, "'foo.bar' is not supported (k.py:9)");
	refuse(HEAD "%x = arith.addi %n, %m : i32\n" TAIL, ERR_FORMAT, "'%m' is used before");
	refuse(HEAD "%x = arith.addi %n, %a : i32\n" TAIL, ERR_FORMAT, "different types");
	refuse(HEAD "%x = arith.addf %n, %n : i32\n" TAIL, ERR_UNSUPPORTED, "on i32");
	refuse(HEAD "%x = arith.addi %n, %n : i64\n" TAIL, ERR_FORMAT, "written i64, expected i32");
	refuse(HEAD "%x = arith.addi %n : i32\n" TAIL, ERR_FORMAT, "1 operands");
	refuse(HEAD "%x = arith.addi %n, %n {surprise = 1 : i32} : i32\n" TAIL, ERR_UNSUPPORTED, "surprise");
	/* Types: shapes, sizes, layouts. */
	refuse(HEAD "%x = arith.constant dense<0> : tensor<3xi32>\n" TAIL, ERR_RANGE, "power of two");
	refuse(HEAD "%x = arith.constant dense<0> : tensor<2097152xi32>\n" TAIL, ERR_LIMIT, "elements");
	refuse(HEAD "%x = arith.constant dense<0> : tensor<8xi32, #blocked>\n" TAIL, ERR_UNSUPPORTED, "TTGIR");
	/* A product whose last operand is a scale, so that there is no sum. */
	refuse(HEAD ONES
		"%d = tt.dot_scaled %l, %r scale %z, lhs = bf16 rhs = bf16 {fastMath = false} : tensor<4x32xbf16> * "
		"tensor<32x4xbf16>, tensor<4x4xf32> -> tensor<4x4xf32>\n" TAIL,
		ERR_FORMAT, "needs two operands and a sum");
	/* Memory through what is no pointer. */
	refuse(HEAD "%x = tt.load %n : i32\n" TAIL, ERR_FORMAT, "not a pointer");
	refuse(HEAD "tt.store %a, %n : !tt.ptr<f32>\n" TAIL, ERR_FORMAT, "value of tt.store");
	/* Blocks, and values of a block that does not come before. */
	refuse(HEAD "cf.br ^bb7\n^bb1:\n" TAIL, ERR_FORMAT, "not a block");
	refuse(HEAD "%t = arith.constant true\ncf.cond_br %t, ^bb1, ^bb2\n^bb1:\n%x = arith.addi %n, %n : i32\ncf.br "
				"^bb2\n^bb2:\n%y = arith.addi %x, %n : i32\n" TAIL,
		ERR_FORMAT, "before it is defined");
	/* Functions: two kernels, recursion, blocks as arguments; and TTGIR. */
	refuse("module { tt.func public @a() { tt.return } tt.func public @b() { tt.return } }", ERR_UNSUPPORTED,
		"two public");
	refuse("module { tt.func public @a() { tt.call @f() : () -> () tt.return } tt.func private @f() { tt.call @f() : "
		   "() -> () tt.return } }",
		ERR_UNSUPPORTED, "recursive");
	refuse("module { tt.func public @a(%x: tensor<8xf32>) { tt.return } }", ERR_UNSUPPORTED,
		"expected a pointer or a number");
	refuse("#b = #ttg.blocked<{}>\nmodule { }", ERR_UNSUPPORTED, "alias '#b'");
}

static void test_arguments(void **state)
{
	struct vm_kernel *k;
	struct err err = {0};
	struct vm_report r;
	const char *text = HEAD TAIL;
	assert_int_equal(vm_kernel_create(text, strlen(text), &k, &err), 0);
	struct vm_arg args[4] = {{.i = 0}};
	struct vm_buffer buffer = {.address = tape_buffer_address(0), .bytes = 4};
	struct vm_launch_options o = {.grid = {1, 1, 1}, .args = args, .nargs = 3, .buffers = &buffer, .nbuffers = 1};
	assert_int_equal(vm_launch(k, &o, &r, &err), ERR_RANGE);
	o.nargs = 4;
	assert_int_equal(vm_launch(k, &o, &r, &err), 0);
	args[3].i = (int64_t)1 << 32;
	assert_int_equal(vm_launch(k, &o, &r, &err), ERR_RANGE);
	args[3].i = 0xffffffff; /* an unsigned argument is fine */
	assert_int_equal(vm_launch(k, &o, &r, &err), 0);
	o.grid[1] = 65536;
	assert_int_equal(vm_launch(k, &o, &r, &err), ERR_RANGE);
	o.grid[1] = 0;
	assert_int_equal(vm_launch(k, &o, &r, &err), 0);
	buffer.address += 8;
	assert_int_equal(vm_launch(k, &o, &r, &err), ERR_RANGE);
	vm_kernel_free(k);
}

static void test_tf32(void **state)
{
	struct vm_kernel *k;
	struct err err = {0};
	int line = -1;
#define DOT(attr) HEAD "%z = arith.constant dense<0.0> : tensor<16x16xf32>\n%d = tt.dot %z, %z, %z" attr \
	" : tensor<16x16xf32> * tensor<16x16xf32> -> tensor<16x16xf32>" AT(77) TAIL
	const char *texts[] = {DOT(", inputPrecision = tf32"), DOT(""), DOT(", inputPrecision = tf32x3")};
	for (int i = 0; i < 3; i++) {
		if (vm_kernel_create(texts[i], strlen(texts[i]), &k, &err)) fail_msg("%s", err.text);
		assert_int_equal(vm_kernel_uses_tf32(k, &line), i == 0);
		if (i == 0) assert_int_equal(line, 77);
		vm_kernel_free(k);
	}
}

#define PROGRAM "%id = tt.get_program_id x : i32\n%f = arith.sitofp %id : i32 to f32\n"
/* The first word of a, as a pointer. */
#define FROM_MEMORY "%t = tt.bitcast %a : !tt.ptr<f32> -> !tt.ptr<i64>\n%w = tt.load %t : !tt.ptr<i64>\n" \
	"%p = tt.int_to_ptr %w : i64 -> !tt.ptr<f32>\n"

/* Through a pointer that the host put in memory, races are found as through any other, by stores
 * and by atomics. */
static void test_races_through_host_pointers(void **state)
{
	struct setup s = {.grid = 2, .checks = VM_CHECK_RACE, .has_host_pointers = true};
	uint64_t address = (uint64_t)(uintptr_t)s.data[1];
	memcpy(s.data[0], &address, sizeof address);
	expect(PROGRAM FROM_MEMORY "tt.store %p, %f : !tt.ptr<f32>" AT(5), &s, VM_FAULT_RACE, 5, 0);
	memcpy(s.data[0], &address, sizeof address);
	expect(PROGRAM FROM_MEMORY RANGE
		"%ps = tt.splat %p : !tt.ptr<f32> -> tensor<8x!tt.ptr<f32>>\n"
		"%q = tt.addptr %ps, %i : tensor<8x!tt.ptr<f32>>, tensor<8xi32>\n"
		"%fs = tt.splat %f : f32 -> tensor<8xf32>\ntt.store %q, %fs : tensor<8x!tt.ptr<f32>>" AT(6),
		&s, VM_FAULT_RACE, 6, 0);
	memset(s.data[1], 0, sizeof s.data[1]);
	expect(PROGRAM FROM_MEMORY
		"%true = arith.constant true\n%one = arith.constant 1.0 : f32\n"
		"%old = tt.atomic_rmw fadd, relaxed, gpu, %p, %one, %true : (!tt.ptr<f32>, f32, i1) -> f32" AT(
			7) "%v = tt.load %b : !tt.ptr<f32>",
		&s, VM_FAULT_RACE, -1, 0); /* of two programs, or of the load's threads with the one that adds */
}

/* A load from nowhere, also from an address below 0, is an error of its own and takes no attention
 * from the races. */
static void test_races_beside_wild_addresses(void **state)
{
	static const char *const wild[] = {"-4", "-8796093022208", "9223372036854775804", "8796093022208"};
	for (size_t i = 0; i < ARRAY_LEN(wild); i++) {
		struct setup s = {.grid = 2, .checks = VM_CHECK_RACE, .findings_max = 8};
		struct vm_report r;
		char body[1024];
		snprintf(body, sizeof body,
			"%s%%far = arith.constant %s : i64\n%%p = tt.int_to_ptr %%far : i64 -> !tt.ptr<f32>\n%%v = tt.load %%p : "
			"!tt.ptr<f32>\n"
			"tt.store %%b, %%f : !tt.ptr<f32>\n",
			PROGRAM, wild[i]);
		assert_int_equal(run(body, &s, &r), ERR_MISMATCH);
		assert_int_equal(r.fault, VM_FAULT_OUT_OF_BOUNDS);
		assert_int_equal(s.races, 1);
		assert_int_equal(s.notes, 0);
	}
}

/* Program p stores element p + 1, releases a flag of its own, and reads element p behind the flag
 * of the program that stored it: no race, as long as the checks tell a hundred and twenty flags
 * apart. Behind its own flag alone it is one.
 */
static void test_order_over_many_places(void **state)
{
	enum { PROGRAMS = 120, BYTES = 4 * (PROGRAMS + 1) * (PROGRAMS + 1) };
#define FLAG(name, of) "%" name "q = arith.muli %" of ", %" of " : i32\n%" name " = tt.addptr %c, %" name "q : " \
	"!tt.ptr<i32>, i32\n%" name "o = tt.atomic_rmw add, acq_rel, gpu, %" name ", %one, %t : " \
	"(!tt.ptr<i32>, i32, i1) -> i32\n"
#define ORDERED(by) "%p = tt.get_program_id x : i32\n%one = arith.constant 1 : i32\n%t = arith.constant true\n" \
	"%s = arith.addi %p, %one : i32\n%f = arith.constant 1.0 : f32\n" \
	"%sa = tt.addptr %a, %s : !tt.ptr<f32>, i32\ntt.store %sa, %f : !tt.ptr<f32>\n" \
	FLAG("mine", "s") FLAG("theirs", by) \
	"%none = arith.constant 0 : i32\n%z = arith.andi %theirso, %none : i32\n%at = arith.addi %p, %z : i32\n" \
	"%pa = tt.addptr %a, %at : !tt.ptr<f32>, i32\n%v = tt.load %pa : !tt.ptr<f32>" AT(9) \
	"%pb = tt.addptr %b, %p : !tt.ptr<f32>, i32\ntt.store %pb, %v : !tt.ptr<f32>\n"
	static const char *const bodies[] = {ORDERED("p"), ORDERED("s")};
	/* Behind the neighbour's flag, then behind its own. */
	for (int i = 0; i < 2; i++) {
		struct vm_report r;
		struct err err = {0};
		uint8_t *data = xcalloc(3, BYTES);
		struct body_kernel b = body_kernel_make(HEAD, bodies[i], data, BYTES, BYTES, 0);
		struct vm_launch_options o = {.grid = {PROGRAMS, 1, 1},
			.args = b.args,
			.nargs = 4,
			.buffers = b.buffers,
			.nbuffers = 3,
			.checks = VM_CHECK_RACE};
		int rc = vm_launch(b.k, &o, &r, &err);
		if (rc != (i ? ERR_MISMATCH : 0) || r.fault != (i ? VM_FAULT_RACE : VM_FAULT_NONE))
			fail_msg("%s: %d: %s %s", i ? "own flags" : "neighbours' flags", rc, r.text, err.text);
		vm_report_release(&r);
		vm_kernel_free(b.k);
		free(data);
	}
}

/* %s is the eight elements of a, reduced. */
#define REDUCED(region) RANGE PTRS("p", "a") "%v = tt.load %p : tensor<8x!tt.ptr<f32>>\n" \
	"%s = \"tt.reduce\"(%v) <{axis = 0 : i32}> ({\n^bb0(%x: f32, %y: f32):\n" region \
	"tt.reduce.return %r : f32\n}) : (tensor<8xf32>) -> f32" AT(5) "tt.store %b, %s : !tt.ptr<f32>" AT(6)
#define SUM "%r = arith.addf %x, %y : f32\n"
/* The left one, unless the right one is none that can be multiplied by zero. */
#define LEFT "%z = arith.constant 0.0 : f32\n%m = arith.mulf %y, %z : f32\n%r = arith.addf %x, %m : f32\n"

/* Orders of a reduction with numbers that are none: where one order gives NaN and the other
 * does not, the function is to blame as long as no operand was NaN. */
static void test_order_without_numbers(void **state)
{
	static const struct {
		const char *body;
		float x[8];
		enum vm_fault fault;
	} rows[] = {
		{REDUCED(SUM), {1, 2, 3, 4, 5, 6, 7, 8}, VM_FAULT_NONE},
		{REDUCED(SUM), {INFINITY, 2, 3, 4, 5, 6, 7, 8}, VM_FAULT_NONE},
		{REDUCED(SUM), {INFINITY, 2, 3, -INFINITY, 5, 6, 7, 8}, VM_FAULT_NONE},
		{REDUCED(SUM), {1, 2, NAN, 4, 5, 6, 7, 8}, VM_FAULT_NONE},
		{REDUCED(LEFT), {1, 1, 1, 1, 1, 1, 1, 1}, VM_FAULT_NONE},
		{REDUCED(LEFT), {1, 2, 3, 4, 5, 6, 7, 8}, VM_FAULT_ORDER},
		{REDUCED(LEFT), {INFINITY, 1, 1, 1, 1, 1, 1, 1}, VM_FAULT_ORDER},
		{REDUCED(LEFT), {1, 2, NAN, 4, 5, 6, 7, 8}, VM_FAULT_NONE},
	};
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct setup s = {.checks = VM_CHECK_ORDER};
		struct vm_report r;
		memcpy(s.data[0], rows[i].x, sizeof rows[i].x);
		run(rows[i].body, &s, &r);
		if (r.fault != rows[i].fault) fail_msg("row %zu: %s", i, vm_fault_name(r.fault));
	}
}

int main(void)
{
	cmocka_set_message_output(CM_OUTPUT_TAP);
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_in_bounds),
		cmocka_unit_test(test_out_of_bounds),
		cmocka_unit_test(test_addresses),
		cmocka_unit_test(test_origin),
		cmocka_unit_test(test_division),
		cmocka_unit_test(test_assert),
		cmocka_unit_test(test_timeout),
		cmocka_unit_test(test_descriptor_alignment),
		cmocka_unit_test(test_first_program),
		cmocka_unit_test(test_refused),
		cmocka_unit_test(test_arguments),
		cmocka_unit_test(test_tf32),
		cmocka_unit_test(test_races_through_host_pointers),
		cmocka_unit_test(test_races_beside_wild_addresses),
		cmocka_unit_test(test_order_over_many_places),
		cmocka_unit_test(test_order_without_numbers),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
