/* What a launch says of elements that it could use and does not (vm.h, missed): those that a load
 * leaves out, those that an index singles out after they were read, and what a temporary was made
 * of; and the small numbers that it adds before a steep function. */
#include "body_kernel.h"
#include "base/base.h"
#include <math.h>

#define N 8
#define F "tensor<8xf32>"
#define B "tensor<8xi1>"
#define I "tensor<8xi32>"
#define RANGE "%i = tt.make_range {end = 8 : i32, start = 0 : i32} : " I "\n"
#define POINTERS(p, a) "%" p "s = tt.splat %" a " : !tt.ptr<f32> -> tensor<8x!tt.ptr<f32>>\n%" p " = tt.addptr %" p \
	"s, %i : tensor<8x!tt.ptr<f32>>, " I "\n"
#define BEGIN RANGE POINTERS("p", "a") POINTERS("q", "b") \
	"%five = arith.constant dense<5> : " I "\n%z = arith.constant dense<0.0> : " F "\n" \
	"%ns = tt.splat %n : i32 -> " I "\n%in = arith.cmpi slt, %i, %ns : " I "\n" \
	"%m = arith.cmpi ne, %i, %five : " I "\n"
#define LOAD(mask) "%v = tt.load %p, " mask ", %z : tensor<8x!tt.ptr<f32>>" AT(3)
#define SUM(value) "%r = \"tt.reduce\"(" value ") <{axis = 0 : i32}> ({\n^bb0(%x: f32, %y: f32):\n" \
	"%o = arith.addf %x, %y : f32\ntt.reduce.return %o : f32\n}) : (" F ") -> f32\n"
#define STORE "tt.store %b, %r : !tt.ptr<f32>" AT(9)

static float data[3][N];

/* One launch; the elements of the first buffer that are missed, as bits. */
static unsigned missed_of(const char *body, int n, double small[VM_SMALL_MAX], int *nsmall)
{
	struct body_kernel b = body_kernel_make(BODY_HEAD("f32"), body, data, sizeof data[0], sizeof data[0], n);
	uint8_t is_read[sizeof data[0]] = {0};
	struct vm_followed f = {.name = 0x1000, .is_read = is_read};
	struct vm_report r;
	struct err err = {0};
	unsigned out = 0;
	b.buffers[0].followed = &f;
	struct vm_missed *m = vm_missed_create(b.k, false);
	struct vm_launch_options o = {
		.grid = {1, 1, 1}, .args = b.args, .nargs = 4, .buffers = b.buffers, .nbuffers = 3, .missed = m};
	if (vm_launch(b.k, &o, &r, &err)) fail_msg("%s", err.text);
	vm_report_release(&r);
	/* What is missed, by its name. */
	const struct vm_missed_at *at;
	const double *numbers;
	int count = vm_missed_list(m, &at);
	for (int i = 0; i < count; i++) {
		assert_true(at[i].size == 4 && at[i].name >= 0x1000 && at[i].name < 0x1000 + sizeof data[0]);
		assert_int_equal(at[i].line, 3);
		out |= 1u << (at[i].name - 0x1000) / 4;
	}
	*nsmall = vm_missed_small(m, &numbers);
	memcpy(small, numbers, (size_t)*nsmall * sizeof *numbers);
	vm_missed_free(m);
	vm_kernel_free(b.k);
	return out;
}

static void test_elements(void **state)
{
	static const struct {
		const char *what;
		const char *body;
		int n;
		unsigned missed;
	} cases[] = {
		{"all are used", BEGIN LOAD("%in") SUM("%v") STORE, N, 0},
		{"left out by a mask", BEGIN LOAD("%m") SUM("%v") STORE, N, 1 << 5},
		{"half of them is none of a few", BEGIN LOAD("%in") SUM("%v") STORE, N / 2, 0},
		{"selected away", BEGIN LOAD("%in") "%w = arith.select %m, %v, %z : " B ", " F "\n" SUM("%w") STORE, N, 1 << 5},
		{"selected away among those that were not read",
			BEGIN LOAD("%in") "%k = arith.andi %in, %m : " B "\n%w = arith.select %k, %v, %z : " B ", " F "\n" SUM("%w")
				STORE,
			N - 1, 1 << 5 | 1 << 7},
		{"the rest of a block that was not read",
			BEGIN LOAD("%in") "%w = arith.select %in, %v, %z : " B ", " F "\n" SUM("%w") STORE, N / 2, 0},
		{"multiplied away",
			BEGIN LOAD("%in") "%u = arith.uitofp %m : " B " to " F "\n%w = arith.mulf %v, %u : " F "\n" SUM("%w") STORE,
			N, 1 << 5},
		{"behind other operations",
			BEGIN LOAD("%in") "%e = arith.mulf %v, %v : " F "\n%w = arith.select %m, %e, %z : " B ", " F "\n" SUM("%w")
				STORE,
			N, 1 << 5},
		{"no lane is alone among all that differ",
			BEGIN LOAD("%in") "%u = arith.sitofp %i : " I " to " F "\n%w = arith.mulf %v, %u : " F "\n" SUM("%w") STORE,
			N, 0},
	};
	int bad = 0;
	/* All rows are told, so that a change shows whole. */
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		double small[VM_SMALL_MAX];
		int nsmall;
		unsigned found = missed_of(cases[i].body, cases[i].n, small, &nsmall);
		if (found != cases[i].missed) print_message("# %s: %x, not %x\n", cases[i].what, found, cases[i].missed);
		bad += found != cases[i].missed;
	}
	assert_int_equal(bad, 0);
}

/* What a launch stores leads back to what it read; reading that names the element. */
static void test_what_was_made(void **state)
{
	struct body_kernel b = body_kernel_make(BODY_HEAD("f32"),
		BEGIN LOAD("%in") "%w = arith.mulf %v, %v : " F "\ntt.store %q, %w : tensor<8x!tt.ptr<f32>>" AT(9), data,
		sizeof data[0], sizeof data[0], N);
	uint8_t is_read[2][sizeof data[0]] = {{0}};
	struct vm_missed_at made[sizeof data[0]] = {{0}};
	/* What is given has a name alone; a temporary keeps what each element was made of. */
	struct vm_followed given = {.name = 0x1000, .is_read = is_read[0]};
	struct vm_followed temporary = {.name = 0x2000, .is_read = is_read[1], .made_of = made};
	struct vm_report r;
	struct err err = {0};
	b.buffers[0].followed = &given;
	b.buffers[1].followed = &temporary;
	struct vm_missed *m = vm_missed_create(b.k, true);
	struct vm_launch_options o = {
		.grid = {1, 1, 1}, .args = b.args, .nargs = 4, .buffers = b.buffers, .nbuffers = 3, .missed = m};
	if (vm_launch(b.k, &o, &r, &err)) fail_msg("%s", err.text);
	vm_report_release(&r);
	for (int i = 0; i < N; i++) {
		struct vm_missed_at at = vm_followed_at(&temporary, 4 * i, 4, 7);
		assert_true(at.name == 0x1000 + 4 * (uint64_t)i && at.size == 4 && at.line == 7);
		assert_true(is_read[0][4 * i + 3] && !is_read[1][4 * i]);
	}
	vm_missed_free(m);
	vm_kernel_free(b.k);
}

static void test_small_numbers(void **state)
{
	static const struct {
		const char *what;
		const char *body;
		double small; /* 0: none is told */
	} cases[] = {
		{"below a root",
			BEGIN LOAD("%in") SUM("%v") "%c = arith.constant 1.0e-12 : f32\n%t = arith.addf %r, %c : f32\n"
										"%s = math.rsqrt %t : f32\ntt.store %b, %s : !tt.ptr<f32>" AT(9),
			1e-12},
		{"a bound of a divisor",
			BEGIN LOAD("%in") SUM("%v") "%c = arith.constant 1.0e-08 : f32\n%t = arith.maxnumf %r, %c : f32\n"
										"%s = arith.divf %r, %t : f32\ntt.store %b, %s : !tt.ptr<f32>" AT(9),
			1e-8},
		{"beside nothing steep",
			BEGIN LOAD("%in") SUM("%v") "%c = arith.constant 1.0e-12 : f32\n%t = arith.addf %r, %c : f32\n"
										"tt.store %b, %t : !tt.ptr<f32>" AT(9),
			0},
		{"not small",
			BEGIN LOAD("%in") SUM("%v") "%c = arith.constant 0.5 : f32\n%t = arith.addf %r, %c : f32\n"
										"%s = math.rsqrt %t : f32\ntt.store %b, %s : !tt.ptr<f32>" AT(9),
			0},
	};
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		/* As many as there should be, to the digits of fp32. */
		double small[VM_SMALL_MAX] = {0};
		int nsmall;
		missed_of(cases[i].body, N, small, &nsmall);
		if (nsmall != (cases[i].small > 0) || (nsmall && fabs(small[0] / cases[i].small - 1) > 1e-6))
			fail_msg("%s: %d, %g", cases[i].what, nsmall, small[0]);
	}
}

/* ---- of a buffer of 64 ---- */

enum { MANY = 64 };
#define T64(t) "tensor<64x" t ">"
#define T8(t) "tensor<8x" t ">"
#define T88(t) "tensor<8x8x" t ">"
/* All 64 as a block of 8 by 8, and of each lane its row, its column and its number. */
#define SQUARE "%i = tt.make_range {end = 64 : i32, start = 0 : i32} : " T64("i32") "\n" \
	"%ps = tt.splat %a : !tt.ptr<f32> -> " T64("!tt.ptr<f32>") "\n" \
	"%p = tt.addptr %ps, %i : " T64("!tt.ptr<f32>") ", " T64("i32") "\n" \
	"%v = tt.load %p : " T64("!tt.ptr<f32>") AT(3) "%v2 = tt.reshape %v : " T64("f32") " -> " T88("f32") "\n" LANES
#define LANES "%r = tt.make_range {end = 8 : i32, start = 0 : i32} : " T8("i32") "\n" \
	"%r1 = tt.expand_dims %r {axis = 1 : i32} : " T8("i32") " -> tensor<8x1xi32>\n" \
	"%rows = tt.broadcast %r1 : tensor<8x1xi32> -> " T88("i32") "\n" \
	"%c1 = tt.expand_dims %r {axis = 0 : i32} : " T8("i32") " -> tensor<1x8xi32>\n" \
	"%columns = tt.broadcast %c1 : tensor<1x8xi32> -> " T88("i32") "\n" \
	"%eight = arith.constant dense<8> : " T88("i32") "\n%r8 = arith.muli %rows, %eight : " T88("i32") "\n" \
	"%lane = arith.addi %r8, %columns : " T88("i32") "\n%zero2 = arith.constant dense<0.0> : " T88("f32") "\n" \
	"%three = arith.constant dense<3> : " T8("i32") "\n%zero1 = arith.constant dense<0.0> : " T8("f32") "\n"
/* One lane of a block is selected away: row 2, column 5. */
#define WITHOUT_21(value) "%k = arith.constant dense<21> : " T88("i32") "\n" \
	"%m = arith.cmpi ne, %lane, %k : " T88("i32") "\n" \
	"%w = arith.select %m, " value ", %zero2 : " T88("i1") ", " T88("f32") "\n" SQUARE_OUT("%w")
#define SQUARE_OUT(value) "%o = tt.reshape " value " : " T88("f32") " -> " T64("f32") "\n" \
	"%qi = tt.make_range {end = 64 : i32, start = 0 : i32} : " T64("i32") "\n" \
	"%qs = tt.splat %b : !tt.ptr<f32> -> " T64("!tt.ptr<f32>") "\n" \
	"%q = tt.addptr %qs, %qi : " T64("!tt.ptr<f32>") ", " T64("i32") "\n" \
	"tt.store %q, %o : " T64("!tt.ptr<f32>") AT(9)
/* The third of eight is selected away. */
#define WITHOUT_3(value) "%m = arith.cmpi ne, %r, %three : " T8("i32") "\n" \
	"%w = arith.select %m, " value ", %zero1 : " T8("i1") ", " T8("f32") "\n" ROW_OUT("%w")
#define ROW_OUT(value) "%qs = tt.splat %b : !tt.ptr<f32> -> " T8("!tt.ptr<f32>") "\n" \
	"%q = tt.addptr %qs, %r : " T8("!tt.ptr<f32>") ", " T8("i32") "\ntt.store %q, " value \
	" : " T8("!tt.ptr<f32>") AT(9)
#define SUMS(axis) "%s = \"tt.reduce\"(%v2) <{axis = " #axis " : i32}> ({\n^bb0(%x: f32, %y: f32):\n" \
	"%xy = arith.addf %x, %y : f32\ntt.reduce.return %xy : f32\n}) : (" T88("f32") ") -> " T8("f32") "\n"
/* Of the rows' sums those are selected away whose number makes `number` by `lane`. */
#define FEW(number, lane) SQUARE "%k2 = arith.constant dense<" number "> : " T8("i32") "\n%d = arith." lane " : " \
	T8("i32") "\n%m = arith.cmpi ne, %d, %k2 : " T8("i32") "\n" SUMS(1) \
	"%w = arith.select %m, %s, %zero1 : " T8("i1") ", " T8("f32") "\n" ROW_OUT("%w")
/* Row %k of eight. */
#define ROW "%at = arith.muli %k, %i8 : i32\n%ap = tt.addptr %a, %at : !tt.ptr<f32>, i32\n" \
	"%rs = tt.splat %ap : !tt.ptr<f32> -> " T8("!tt.ptr<f32>") "\n" \
	"%rp = tt.addptr %rs, %r : " T8("!tt.ptr<f32>") ", " T8("i32") "\n" \
	"%v = tt.load %rp : " T8("!tt.ptr<f32>") AT(3)
#define NUMBERS LANES "%i0 = arith.constant 0 : i32\n%i1 = arith.constant 1 : i32\n%i2 = arith.constant 2 : i32\n" \
	"%i8 = arith.constant 8 : i32\n"
/* A turn for each row, and what it makes of the sum so far, %q. */
#define ROWS(turn) NUMBERS "%t = scf.for %k = %i0 to %i8 step %i1 iter_args(%q0 = %zero1) -> (" T8("f32") \
	") : i32 {\n" ROW turn "}\n" ROW_OUT("%t")
#define ADDED(value) "%sum = arith.addf %q0, " value " : " T8("f32") "\nscf.yield %sum : " T8("f32") "\n"
#define GROWN "%g = arith.addf %q0, %v : " T8("f32") "\nscf.yield %g : " T8("f32") "\n"
#define KEPT "scf.yield %q0 : " T8("f32") "\n"
#define BRANCH(yes, no) "%w = scf.if %c -> (" T8("f32") ") {\n" yes "} else {\n" no "}\nscf.yield %w : " T8("f32") "\n"
#define NOT_2 "%c = arith.cmpi ne, %k, %i2 : i32\n"
/* The elements of a load of 64 whose number fulfils something are left out. */
#define LOADED(mask) "%i = tt.make_range {end = 64 : i32, start = 0 : i32} : " T64("i32") "\n" \
	"%z = arith.constant dense<0.0> : " T64("f32") "\n%n1 = arith.constant dense<1> : " T64("i32") "\n" \
	"%n3 = arith.constant dense<3> : " T64("i32") "\n%n5 = arith.constant dense<5> : " T64("i32") "\n" \
	"%n8 = arith.constant dense<8> : " T64("i32") "\n%n48 = arith.constant dense<48> : " T64("i32") "\n" \
	"%n49 = arith.constant dense<49> : " T64("i32") "\n" mask \
	"%ps = tt.splat %a : !tt.ptr<f32> -> " T64("!tt.ptr<f32>") "\n" \
	"%p = tt.addptr %ps, %i : " T64("!tt.ptr<f32>") ", " T64("i32") "\n" \
	"%v = tt.load %p, %m, %z : " T64("!tt.ptr<f32>") AT(3) \
	"%qs = tt.splat %b : !tt.ptr<f32> -> " T64("!tt.ptr<f32>") "\n" \
	"%q = tt.addptr %qs, %i : " T64("!tt.ptr<f32>") ", " T64("i32") "\n" \
	"tt.store %q, %v : " T64("!tt.ptr<f32>") AT(9)
#define REST_IS_NOT(by, rest) "%d = arith.remsi %i, %" by " : " T64("i32") "\n%m = arith.cmpi ne, %d, %" rest \
	" : " T64("i32") "\n"

static float many[3][MANY];

static uint64_t row_of(int row) { return (uint64_t)0xff << 8 * row; }
static uint64_t column_of(int column) { return 0x0101010101010101u << column; }

/* One launch of so many programs over buffers of 64; which elements of the first are missed. */
static uint64_t many_missed(const char *body, int programs)
{
	struct body_kernel b = body_kernel_make(BODY_HEAD("f32"), body, many, sizeof many[0], sizeof many[0], MANY);
	uint8_t is_read[sizeof many[0]] = {0};
	struct vm_followed f = {.name = 0x1000, .is_read = is_read};
	struct vm_report r;
	struct err err = {0};
	const struct vm_missed_at *at;
	uint64_t out = 0;
	b.buffers[0].followed = &f;
	struct vm_missed *m = vm_missed_create(b.k, false);
	struct vm_launch_options o = {
		.grid = {programs, 1, 1}, .args = b.args, .nargs = 4, .buffers = b.buffers, .nbuffers = 3, .missed = m};
	if (vm_launch(b.k, &o, &r, &err)) fail_msg("%s", err.text);
	vm_report_release(&r);
	int count = vm_missed_list(m, &at);
	for (int i = 0; i < count; i++) {
		assert_true(at[i].size == 4 && at[i].name >= 0x1000 && at[i].name < 0x1000 + sizeof many[0]);
		out |= (uint64_t)1 << (at[i].name - 0x1000) / 4;
	}
	vm_missed_free(m);
	vm_kernel_free(b.k);
	return out;
}

/* From what is singled out back to elements, by each way that data takes: no others are named, and
 * as many as there are told of each. */
static void test_ways_back(void **state)
{
	const struct {
		const char *what;
		const char *body;
		uint64_t among; /* the elements that may be named */
		int least;
		int most; /* of them */
		int programs;
	} cases[] = {
		{"in another form", SQUARE WITHOUT_21("%v2"), (uint64_t)1 << 21, 1, 1, 1},
		{"rows for columns",
			SQUARE "%t = tt.trans %v2 {order = array<i32: 1, 0>} : " T88("f32") " -> " T88("f32") "\n" WITHOUT_21("%t"),
			(uint64_t)1 << 42, 1, 1, 1},
		{"a row in each",
			SQUARE SUMS(1) "%s1 = tt.expand_dims %s {axis = 0 : i32} : " T8(
				"f32") " -> tensor<1x8xf32>\n"
					   "%t = tt.broadcast %s1 : tensor<1x8xf32> -> " T88("f32") "\n" WITHOUT_21("%t"),
			row_of(5), 1, 1, 1},
		{"a column in each",
			SQUARE SUMS(1) "%s1 = tt.expand_dims %s {axis = 1 : i32} : " T8(
				"f32") " -> tensor<8x1xf32>\n"
					   "%t = tt.broadcast %s1 : tensor<8x1xf32> -> " T88("f32") "\n" WITHOUT_21("%t"),
			row_of(2), 1, 1, 1},
		{"of a sum over rows", SQUARE SUMS(1) WITHOUT_3("%s"), row_of(3), 1, 1, 1},
		{"of a sum over columns", SQUARE SUMS(0) WITHOUT_3("%s"), column_of(3), 1, 1, 1},
		{"of a product",
			SQUARE
			"%t = tt.dot %v2, %v2, %zero2 : " T88("f32") " * " T88("f32") " -> " T88("f32") "\n" WITHOUT_21("%t"),
			row_of(2) | column_of(5), 1, 1, 1},
		/* The turns of a loop, or programs, of which one is another than the rest. */
		{"of one turn", ROWS(NOT_2 "%w = arith.select %c, %v, %zero1 : " T8("f32") "\n" ADDED("%w")), row_of(2), 1, 8,
			1},
		{"of one turn, by a factor",
			ROWS(NOT_2 "%u = arith.uitofp %c : i1 to f32\n%us = tt.splat %u : f32 -> " T8(
				"f32") "\n"
					   "%w = arith.mulf %v, %us : " T8("f32") "\n" ADDED("%w")),
			row_of(2), 1, 8, 1},
		{"of turns that all differ",
			ROWS("%u = arith.sitofp %k : i32 to f32\n%us = tt.splat %u : f32 -> " T8(
				"f32") "\n"
					   "%w = arith.mulf %v, %us : " T8("f32") "\n" ADDED("%w")),
			0, 0, 0, 1},
		{"behind a branch", ROWS(NOT_2 BRANCH(GROWN, KEPT)), row_of(2), 1, 8, 1},
		{"behind the other side of a branch", ROWS("%c = arith.cmpi eq, %k, %i2 : i32\n" BRANCH(KEPT, GROWN)),
			row_of(2), 1, 8, 1},
		{"of one program",
			NUMBERS "%k = tt.get_program_id x : i32\n" ROW NOT_2
					"%w = arith.select %c, %v, %zero1 : " T8("f32") "\n" ROW_OUT("%w"),
			row_of(2), 1, 1, 8},
		/* Several lanes that are few, at the ends too, and as many as the others. */
		{"two beside each other", FEW("2", "divsi %r, %k2"), row_of(4) | row_of(5), 2, 2, 1},
		{"the first", FEW("0", "addi %r, %k2"), row_of(0), 1, 1, 1},
		{"the last", FEW("7", "andi %r, %k2"), row_of(7), 1, 1, 1},
		{"every other one", FEW("1", "andi %r, %k2"), 0, 0, 0, 1},
		/* A load that leaves out many: some of them; none where it reads three quarters. */
		{"eight of 64", LOADED(REST_IS_NOT("n8", "n3")), column_of(3), 8, 8, 1},
		{"thirteen of 64", LOADED(REST_IS_NOT("n5", "n3")), 0x1084210842108421u << 3, 6, 7, 1},
		{"a quarter", LOADED("%m = arith.cmpi slt, %i, %n48 : " T64("i32") "\n"), 0, 0, 0, 1},
		{"nearly a quarter", LOADED("%m = arith.cmpi slt, %i, %n49 : " T64("i32") "\n"), (uint64_t)0x7fff << 49, 7, 8,
			1},
	};
	int bad = 0;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) /* What is drawn follows the data. */
		for (int draw = 0; draw < 8; draw++) {
			for (int k = 0; k < MANY; k++) many[0][k] = 1 + rng_uniform(3, (uint64_t)draw, (uint64_t)k);
			uint64_t found = many_missed(cases[i].body, cases[i].programs);
			int n = __builtin_popcountll(found);
			bool is_right = !(found & ~cases[i].among) && n >= cases[i].least && n <= cases[i].most;
			if (!is_right)
				print_message("# %s: %llx, not %d to %d of %llx\n", cases[i].what, (unsigned long long)found,
					cases[i].least, cases[i].most, (unsigned long long)cases[i].among);
			bad += !is_right;
		}
	assert_int_equal(bad, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(test_elements), cmocka_unit_test(test_what_was_made),
		cmocka_unit_test(test_small_numbers), cmocka_unit_test(test_ways_back)};
	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
