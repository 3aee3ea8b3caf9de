/* Coverage of comparisons on data, and what kernels promise about their arguments and addresses. */
#include "body_kernel.h"
#include "base/base.h"
#include "cost/cost.h"
#include <math.h>

#define N 8
#define BLOCK 256 /* enough elements for several a lane */
#define RANGE "%i = tt.make_range {end = 8 : i32, start = 0 : i32} : tensor<8xi32>\n"
#define POINTERS(p, a) "%" p "s = tt.splat %" a " : !tt.ptr<f32> -> tensor<8x!tt.ptr<f32>>\n%" p " = tt.addptr %" p \
	"s, %i : tensor<8x!tt.ptr<f32>>, tensor<8xi32>\n"
#define LOADED RANGE POINTERS("p", "a") POINTERS("q", "b") "%v = tt.load %p : tensor<8x!tt.ptr<f32>>" AT(3)
#define CONSTANT(name, value) "%" name " = arith.constant dense<" value "> : tensor<8xf32>\n"
#define STORED "tt.store %q, %r : tensor<8x!tt.ptr<f32>>" AT(9)

/* Launches with `values` in the first buffer, which adds to what the coverage knows. */
static void launch_as(
	struct body_kernel *b, struct vm_coverage *c, const float values[N], uint32_t programs, bool is_search)
{
	struct vm_report r;
	struct err err = {0};
	memcpy(b->buffers[0].data, values, N * sizeof *values);
	struct vm_launch_options o = {
		.grid = {programs, 1, 1}, .args = b->args, .nargs = 4, .buffers = b->buffers, .nbuffers = 3, .coverage = c};
	vm_coverage_begin(c);
	vm_coverage_row(c, is_search);
	if (vm_launch(b->k, &o, &r, &err)) fail_msg("%s", err.text);
	vm_report_release(&r);
}
static void launch(struct body_kernel *b, struct vm_coverage *c, const float values[N])
{
	launch_as(b, c, values, 1, false);
}
static void launch_searched(struct body_kernel *b, struct vm_coverage *c, const float values[N])
{
	launch_as(b, c, values, 1, true);
}

static struct body_kernel make(const char *body)
{
	static float data[3][N];
	return body_kernel_make(BODY_HEAD("f32"), body, data, sizeof data[0], sizeof data[0], N);
}

static void test_sides_of_a_comparison(void **state)
{
	const float below[N] = {1, 2, 3, -4, 5, 6, 7, 8}, equal[N] = {37.5f}, far[N] = {1e9f}, above[N] = {75},
				nan[N] = {NAN};
	struct body_kernel b = make(
		LOADED CONSTANT("c", "3.750000e+01") CONSTANT("z", "0.0") "%m = arith.cmpf ogt, %v, %c : tensor<8xf32>" AT(
			5) "%r = arith.select %m, %z, %v : tensor<8xi1>, tensor<8xf32>" AT(6) STORED);
	struct vm_coverage *c = vm_coverage_create(b.k);
	const struct vm_site *s;
	/* the select's bits are the comparison's: one site, and none for the range of indices */
	assert_int_equal(vm_coverage_sites(c, &s), 1);
	assert_int_equal(s->kind, SITE_COMPARE);
	assert_int_equal(s->line, 5);
	assert_true(s->constant == 37.5 && s->wanted == (SIDE_BELOW | SIDE_EQUAL | SIDE_ABOVE));
	launch(&b, c, below);
	assert_int_equal(s->taken, SIDE_BELOW);
	assert_true(s->least == -41.5 && s->most == -29.5 && s->nearest == 29.5);
	launch(&b, c, equal);
	assert_int_equal(s->taken, SIDE_BELOW | SIDE_EQUAL);
	launch(&b, c, nan);
	assert_int_equal(s->taken, SIDE_BELOW | SIDE_EQUAL);
	/* What a kernel does beyond 37.5 need not show at 1e9. */
	launch(&b, c, far);
	assert_int_equal(s->taken, SIDE_BELOW | SIDE_EQUAL);
	assert_true(s->most == 1e9f - 37.5);
	launch(&b, c, above);
	assert_int_equal(s->taken, s->wanted);
	vm_coverage_free(c);
	vm_kernel_free(b.k);
}

/* %s is the sum of the elements; %l and %h tell whether it is above 3 and below 5. */
#define SUMMED \
	LOADED "%s = \"tt.reduce\"(%v) <{axis = 0 : i32}> ({\n^bb0(%x: f32, %y: f32):\n%z = arith.addf %x, %y : f32\n" \
		   "tt.reduce.return %z : f32\n}) : (tensor<8xf32>) -> f32\n" \
		   "%three = arith.constant 3.0 : f32\n%five = arith.constant 5.0 : f32\n" \
		   "%l = arith.cmpf ogt, %s, %three : f32" AT(4) "%h = arith.cmpf olt, %s, %five : f32" AT(5) \
		   "%ls = tt.splat %l : i1 -> tensor<8xi1>\n%hs = tt.splat %h : i1 -> tensor<8xi1>\n" CONSTANT("w", "2.0")
#define SELECT(to, mask, a, b, line) \
	"%" to " = arith.select " mask ", " a ", " b " : tensor<8xi1>, tensor<8xf32>" AT(line)
#define NUMBER(to, mask) "%" to " = arith.uitofp " mask " : tensor<8xi1> to tensor<8xf32>\n"

/* Masks that decide together without an `and` are a site, whose sides are those of the second where
 * the first is true: open until one input has both. Of two numbers that are added the first may be
 * false as well. */
static void test_masks_together(void **state)
{
	enum { ALL = SIDE_BELOW | SIDE_ABOVE };
	static const struct {
		const char *body;
		int nsites;
		uint8_t taken[3]; /* of the last, after each input */
	} cases[] = {
		{SUMMED SELECT("i", "%hs", "%w", "%v", 6) SELECT("r", "%ls", "%i", "%v", 7) STORED, 1, {0, SIDE_BELOW, ALL}},
		{SUMMED NUMBER("n", "%ls") NUMBER("o", "%hs") "%r = arith.addf %n, %o : tensor<8xf32>" AT(7) STORED, 2,
			{0, SIDE_BELOW, ALL}},
		{SUMMED NUMBER("n", "%ls") NUMBER("o", "%hs") "%r = arith.subf %n, %o : tensor<8xf32>" AT(7) STORED, 2,
			{0, SIDE_BELOW, ALL}},
		{SUMMED SELECT("i", "%hs", "%w", "%v", 6) "scf.if %l {\n%r = arith.mulf %i, %w : tensor<8xf32>\n"
												  "tt.store %q, %r : tensor<8x!tt.ptr<f32>>\n}" AT(7),
			1, {0, SIDE_BELOW, ALL}},
		/* The select's mask is the first here. */
		{SUMMED "%i = scf.if %l -> (tensor<8xf32>) {\nscf.yield %w : tensor<8xf32>\n} else {\n"
				"scf.yield %v : tensor<8xf32>\n}" AT(6) SELECT("r", "%hs", "%i", "%v", 7) STORED,
			1, {SIDE_BELOW, SIDE_BELOW, ALL}},
		/* The same mask twice, and one alone. */
		{SUMMED SELECT("i", "%ls", "%w", "%v", 6) SELECT("r", "%ls", "%i", "%v", 7) STORED, 0, {0, 0, 0}},
		{SUMMED SELECT("r", "%ls", "%w", "%v", 7) STORED, 0, {0, 0, 0}},
	};
	/* Sums below the window, above it and inside. */
	const float inputs[3][N] = {{1, 1}, {4, 4}, {2, 2}};
	int bad = 0;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct body_kernel b = make(cases[i].body);
		struct vm_coverage *c = vm_coverage_create(b.k);
		const struct vm_site *s, *last = NULL;
		int nsites = 0;
		for (int n = vm_coverage_sites(c, &s); n > 0; n--, s++) {
			if (s->kind != SITE_SELECT || s->line != 7) continue;
			nsites++;
			last = s;
		}
		bool ok = nsites == cases[i].nsites;
		for (int k = 0; last && k < 3; k++) {
			launch_searched(&b, c, inputs[k]);
			ok &= last->taken == cases[i].taken[k];
		}
		if (!ok) print_message("# case %zu: %d sites, %d taken\n", i, nsites, last ? last->taken : -1);
		bad += !ok;
		vm_coverage_free(c);
		vm_kernel_free(b.k);
	}
	assert_int_equal(bad, 0);
}

/* One lane of an equality may be where nothing shows, four are not; inputs that were searched
 * for it take it by one. */
static void test_few_lanes(void **state)
{
	const float none[N] = {1, 2, 3, 4, 5, 6, 7, 8}, one[N] = {37.5f, 1, 2}, two[N] = {37.5f, 37.5f, 2};
	for (int is_search = 0; is_search < 2; is_search++) {
		struct body_kernel b = make(
			LOADED CONSTANT("c", "3.750000e+01") CONSTANT("z", "0.0") "%m = arith.cmpf oeq, %v, %c : tensor<8xf32>" AT(
				5) "%r = arith.select %m, %z, %v : tensor<8xi1>, tensor<8xf32>" AT(6) STORED);
		struct vm_coverage *c = vm_coverage_create(b.k);
		const struct vm_site *s;
		vm_coverage_sites(c, &s);
		launch(&b, c, none);
		assert_false(s->taken & SIDE_EQUAL);
		launch(&b, c, one);
		launch(&b, c, two);
		assert_false(s->taken & SIDE_EQUAL);
		if (is_search) launch_searched(&b, c, one);
		else launch(&b, c, one);
		assert_true(s->taken & SIDE_EQUAL);
		vm_coverage_free(c);
		vm_kernel_free(b.k);
	}
}

/* What data is compared with is told where the text does not say it, as soon as the data was
 * other: a number made of an argument, and entries of a table in the order of the lanes. */
static void test_numbers_that_stay(void **state)
{
	const float one[N] = {1, 2, 3, -4, 5, 6, 7, 9}, other[N] = {3, 2, 1, 4, 5, 6, 7, 9};
	float table[N] = {0.5f, 0.25f, 0.5f, 0.125f, 0.5f, 0.25f, 0.5f, 0.125f};
	double fixed[VM_FIXED_MAX];
	struct body_kernel b = make(
		LOADED "%f = arith.sitofp %n : i32 to f32\n%y = tt.splat %f : f32 -> tensor<8xf32>\n"
			   "%m = arith.cmpf ogt, %v, %y : tensor<8xf32>" AT(
				   5) "%r = arith.select %m, %y, %v : tensor<8xi1>, tensor<8xf32>" AT(6) STORED);
	struct vm_coverage *c = vm_coverage_create(b.k);
	const struct vm_site *s;
	assert_int_equal(vm_coverage_sites(c, &s), 1);
	launch(&b, c, one);
	launch(&b, c, one);
	assert_int_equal(vm_site_fixed(s, fixed), 0);
	launch(&b, c, other);
	assert_int_equal(vm_site_fixed(s, fixed), 1);
	assert_true(fixed[0] == N);
	/* Another launch has another argument, which the first one's programs do not hide. */
	vm_coverage_free(c);
	c = vm_coverage_create(b.k);
	for (int trial = 0; trial < 2; trial++) {
		struct vm_report r;
		struct err err = {0};
		struct vm_launch_options o = {
			.grid = {3, 1, 1}, .args = b.args, .nargs = 4, .buffers = b.buffers, .nbuffers = 3, .coverage = c};
		memcpy(b.buffers[0].data, trial ? other : one, sizeof one);
		vm_coverage_begin(c);
		for (int row = 2; row < 4; row++) {
			b.args[3].i = row * N;
			vm_coverage_row(c, false);
			assert_int_equal(vm_launch(b.k, &o, &r, &err), 0);
			vm_report_release(&r);
		}
	}
	vm_coverage_sites(c, &s);
	assert_int_equal(vm_site_fixed(s, fixed), 2);
	assert_true(fixed[0] == 2 * N && fixed[1] == 3 * N);
	vm_coverage_free(c);
	vm_kernel_free(b.k);
	/* A table, until it is seen to be data too. */
	b = make(LOADED POINTERS("t", "c") "%y = tt.load %t : tensor<8x!tt.ptr<f32>>" AT(
		4) "%m = arith.cmpf ogt, %v, %y : tensor<8xf32>" AT(5) "%r = arith.select %m, %y, %v : tensor<8xi1>, "
															   "tensor<8xf32>" AT(6) STORED);
	c = vm_coverage_create(b.k);
	memcpy(b.buffers[2].data, table, sizeof table);
	launch(&b, c, one);
	launch(&b, c, other);
	vm_coverage_sites(c, &s);
	assert_int_equal(vm_site_fixed(s, fixed), 3);
	assert_true(fixed[0] == 0.5 && fixed[1] == 0.25 && fixed[2] == 0.125);
	((float *)(void *)b.buffers[2].data)[7] = 2;
	launch(&b, c, one);
	assert_int_equal(vm_site_fixed(s, fixed), 0);
	vm_coverage_free(c);
	vm_kernel_free(b.k);
}

/* What a few elements come to is a gate where eight looks found one number, and a look is one whose
 * elements differ from those before: what eight programs make alike is one, and so is a trial that
 * comes again. So it is of a reduction of which nothing is left, and of an exponential. */
static void test_looks_at_other_operands(void **state)
{
#define LEAST_OF(type) \
	"%s = \"tt.reduce\"(%w) <{axis = 0 : i32}> ({\n^bb0(%x: f32, %y: f32):\n%z = arith.minnumf %x, %y : f32\n" \
	"tt.reduce.return %z : f32\n}) : (" type ") -> f32" AT(7) "%r = tt.splat %s : f32 -> tensor<8xf32>\n" STORED
	static const char *const bodies[] = {
		LOADED "%w = arith.addf %v, %v : tensor<8xf32>\n" LEAST_OF("tensor<8xf32>"),
		LOADED "%w = tt.cat %v, %v : tensor<8xf32> -> tensor<16xf32>\n" LEAST_OF("tensor<16xf32>"),
		LOADED "%e = \"tt.reduce\"(%v) <{axis = 0 : i32}> ({\n^bb0(%x: f32, %y: f32):\n"
			   "%z = arith.addf %x, %y : f32\ntt.reduce.return %z : f32\n}) : (tensor<8xf32>) -> f32\n"
			   "%h = arith.constant -1000.0 : f32\n%g = arith.mulf %e, %h : f32\n%s = math.exp %g : f32" AT(
				   7) "%r = tt.splat %s : f32 -> tensor<8xf32>\n" STORED,
	};
	int line = 0;
	/* Eight inputs, each in two launches of eight programs: what comes of them is 0. */
	for (size_t i = 0; i < ARRAY_LEN(bodies); i++) {
		struct body_kernel b = make(bodies[i]);
		struct vm_coverage *c = vm_coverage_create(b.k);
		float values[N] = {0, 1, 2, 3, 4, 5, 6, 7};
		for (int trial = 0; trial < 8; trial++) {
			values[1] = (float)trial;
			for (int again = 0; again < 2; again++) launch_as(&b, c, values, 8, false);
			int expected = trial == 7;
			if (vm_coverage_gates(c, &line) != expected) fail_msg("body %zu, trial %d: not %d", i, trial, expected);
		}
		assert_int_equal(line, 7);
		vm_coverage_free(c);
		vm_kernel_free(b.k);
	}
}

/* Runs the aim over the buffers as they are. */
static void aim_launch(struct body_kernel *b, struct vm_aim *a, uint64_t lot, int choose)
{
	struct vm_report r;
	struct err err = {0};
	struct vm_launch_options o = {
		.grid = {1, 1, 1}, .args = b->args, .nargs = 4, .buffers = b->buffers, .nbuffers = 3, .aim = a};
	vm_aim_begin(a, lot, choose);
	const uint64_t address[] = {b->buffers[0].address, b->buffers[1].address, b->buffers[2].address};
	assert_true(vm_aim_row(a, b->k, 0, address, address, 3));
	if (vm_launch(b->k, &o, &r, &err)) fail_msg("%s", err.text);
	vm_report_release(&r);
}

static const struct vm_site *site_of_line(struct vm_coverage *c, int line)
{
	const struct vm_site *s;
	int n = vm_coverage_sites(c, &s);
	for (int i = 0; i < n; i++)
		if (s[i].line == line) return &s[i];
	fail_msg("no site at line %d", line);
	return NULL;
}

/* Beside a zero, or a number that is next to nothing, what is left is no share of the sum. */
static void test_terms_beside_zeros(void **state)
{
	const float zeros[N] = {1, 2, 3, 0, 4, 1e-12f, 5, -6}, counts[N] = {1, 2, 3, 0, 4, 1e-5f, 5, -6};
	struct body_kernel b = make(LOADED CONSTANT("e", "1.000000e-12")
			CONSTANT("c", "1.000000e-12") "%w = arith.mulf %v, %v : tensor<8xf32>\n%g = arith.addf %w, %c : "
										  "tensor<8xf32>" AT(4) "%t = arith.divf %e, %g : tensor<8xf32>\n%u = "
																"arith.mulf %t, %c : tensor<8xf32>\n"
																"%r = arith.addf %v, %u : tensor<8xf32>" AT(5) STORED);
	struct vm_coverage *c = vm_coverage_create(b.k);
	/* u is 1e-12 beside zeros, and next to nothing beside the others. */
	launch(&b, c, zeros);
	launch(&b, c, counts);
	assert_int_equal(site_of_line(c, 5)->kind, SITE_TERM);
	assert_int_equal(site_of_line(c, 5)->taken, 0);
	vm_coverage_free(c);
	vm_kernel_free(b.k);
}

/* A sum with a constant that swallows the other operand cuts it to whole numbers. */
static void test_sums_that_are_steps(void **state)
{
	const float small[N] = {0.1f, -0.2f, 0.3f, 0, 0.01f, 1e-9f, 0.4f, -0.3f}, one[N] = {0.1f, 0.7f};
	struct body_kernel b = make(LOADED CONSTANT("m", "0x4B400000") "%a = arith.addf %v, %m : tensor<8xf32>" AT(
		4) "%r = arith.subf %a, %m : tensor<8xf32>" AT(5) STORED);
	struct vm_coverage *c = vm_coverage_create(b.k);
	launch(&b, c, small);
	const struct vm_site *s = site_of_line(c, 4);
	assert_int_equal(s->kind, SITE_STEP);
	assert_int_equal(s->taken, 0);
	launch(&b, c, one);
	assert_int_not_equal(site_of_line(c, 4)->taken, 0);
	vm_coverage_free(c);
	vm_kernel_free(b.k);
	/* Beside a small constant it is a term. */
	b = make(LOADED CONSTANT("m", "1.0") "%r = arith.addf %v, %m : tensor<8xf32>" AT(4) STORED);
	c = vm_coverage_create(b.k);
	assert_int_equal(site_of_line(c, 4)->kind, SITE_TERM);
	vm_coverage_free(c);
	vm_kernel_free(b.k);
}

static int taken_of(struct vm_coverage *c, int site)
{
	const struct vm_site *s;
	vm_coverage_sites(c, &s);
	return s[site].taken;
}

static int term_of_line(struct vm_coverage *c, int line)
{
	const struct vm_site *s;
	int n = vm_coverage_sites(c, &s);
	for (int i = 0; i < n; i++)
		if (s[i].line == line && s[i].kind == SITE_TERM) return i;
	fail_msg("no sum at line %d", line);
	return -1;
}

#define FOLDED(op, result) \
	LOADED "%s = \"tt." op "\"(%v) <{axis = 0 : i32" result "}> ({\n^bb0(%x: f32, %y: f32):\n%z = arith.addf %x, %y " \
		   ": f32\ntt." op ".return %z : f32\n}) : (tensor<8xf32>) -> "

/* Of a sum of many each place that was something, eight times and more, and never counted is open;
 * one that was always 0 is padding. Aims are at the open one alone. */
static void test_terms_of_a_fold(void **state)
{
	const float small[N] = {1, 2, 3, -4, 0, 5, 8, 0x1p-20f}, counts[N] = {1, 2, 3, -4, 0, 5, 8, 4};
	const char *const bodies[] = {
		FOLDED("reduce", "") "f32" AT(4) "%r = tt.splat %s : f32 -> tensor<8xf32>\n" STORED,
		FOLDED("scan", ", reverse = false") "tensor<8xf32>" AT(4) "%r = arith.addf %s, %s : tensor<8xf32>\n" STORED,
	};
	for (size_t k = 0; k < ARRAY_LEN(bodies); k++) {
		struct body_kernel b = make(bodies[k]);
		struct vm_coverage *c = vm_coverage_create(b.k);
		const struct vm_site *s;
		int found, term = term_of_line(c, 4);
		for (int i = 0; i < 7; i++) launch(&b, c, small);
		vm_coverage_sites(c, &s);
		assert_int_equal(taken_of(c, term), SIDE_ABOVE);
		launch(&b, c, small);
		assert_int_equal(taken_of(c, term), 0);
		assert_true(fabs(s[term].most - (-20 - 3 + 8)) < 1e-9); /* beside 8, below 2^-8 */
		struct vm_aim *a = vm_aim_create(b.k, c, term, SIDE_ABOVE);
		assert_non_null(a);
		aim_launch(&b, a, 7, N);
		const struct vm_aim_lane *lanes = vm_aim_lanes(a, &found);
		assert_int_equal(found, 1);
		assert_true(lanes[0].address == b.buffers[0].address + 7 * sizeof(float));
		assert_true(fabs(lanes[0].far - 15) < 1e-9);
		vm_aim_free(a);
		/* At other sizes the same place may be another thing. */
		b.args[3].i = N - 1;
		launch(&b, c, counts);
		assert_int_equal(taken_of(c, term), SIDE_ABOVE);
		b.args[3].i = N;
		launch(&b, c, small);
		assert_int_equal(taken_of(c, term), 0);
		launch(&b, c, counts);
		assert_int_equal(taken_of(c, term), SIDE_ABOVE);
		vm_coverage_free(c);
		vm_kernel_free(b.k);
	}
}

/* What is added to memory, lane by lane: beside what is there already. */
static void test_terms_of_an_atomic(void **state)
{
	const float small[N] = {1, 2, 3, -4, 1, 5, 8, 0x1p-20f};
	struct body_kernel b = make(
		LOADED "%t = arith.constant dense<true> : tensor<8xi1>\n%old = tt.atomic_rmw fadd, acq_rel, gpu, %q, %v, %t : "
			   "(tensor<8x!tt.ptr<f32>>, tensor<8xf32>, tensor<8xi1>) -> tensor<8xf32>" AT(4));
	struct vm_coverage *c = vm_coverage_create(b.k);
	const struct vm_site *s;
	int term = term_of_line(c, 4), found;
	vm_coverage_sites(c, &s);
	/* Onto zeros nothing is hidden. */
	for (int i = 0; i < 9; i++) {
		memset(b.buffers[1].data, 0, N * sizeof(float));
		launch(&b, c, small);
	}
	assert_int_equal(taken_of(c, term), SIDE_ABOVE);
	vm_coverage_free(c);
	c = vm_coverage_create(b.k);
	vm_coverage_sites(c, &s);
	for (int i = 0; i < 8; i++) {
		for (int k = 0; k < N; k++) ((float *)(void *)b.buffers[1].data)[k] = 4;
		launch(&b, c, small);
	}
	assert_int_equal(taken_of(c, term), 0);
	struct vm_aim *a = vm_aim_create(b.k, c, term, SIDE_ABOVE);
	aim_launch(&b, a, 7, N);
	const struct vm_aim_lane *lanes = vm_aim_lanes(a, &found);
	assert_int_equal(found, 1);
	assert_true(lanes[0].lane == 15 && lanes[0].far > 10); /* the value of lane 7 */
	vm_aim_free(a);
	vm_coverage_free(c);
	vm_kernel_free(b.k);
}

/* A sum whose smaller operand is below 2^-8 of the larger in all lanes is open, and its aim counts
 * powers of two; a constant that is the smaller is known. */
static void test_terms_of_a_sum(void **state)
{
	const float far[N] = {1000, 2000, 4096, -5000, 1e6f, 600, 1e9f, 1e4f}, near[N] = {1000, 200};
	struct body_kernel b = make(LOADED CONSTANT("c", "1.0") "%r = arith.addf %v, %c : tensor<8xf32>" AT(5) STORED);
	struct vm_coverage *c = vm_coverage_create(b.k);
	const struct vm_site *s;
	assert_int_equal(vm_coverage_sites(c, &s), 1);
	assert_int_equal(s->kind, SITE_TERM);
	launch(&b, c, far);
	assert_int_equal(s->taken, SIDE_ABOVE);
	vm_coverage_free(c);
	vm_kernel_free(b.k);
	/* Behind a reciprocal the data are the smaller. */
	b = make(LOADED CONSTANT("c", "1.0") "%d = arith.divf %c, %v : tensor<8xf32>" AT(
		4) "%r = arith.addf %d, %c : tensor<8xf32>" AT(5) STORED);
	c = vm_coverage_create(b.k);
	int n = vm_coverage_sites(c, &s), term = 0;
	while (term < n && s[term].kind != SITE_TERM) term++;
	assert_true(term < n);
	launch(&b, c, far);
	assert_int_equal(s[term].taken, 0);
	assert_true(fabs(s[term].most - log2(1.0 / 600 / VM_TERM)) < 1e-6);
	struct vm_aim *a = vm_aim_create(b.k, c, term, SIDE_ABOVE);
	int found;
	assert_non_null(a);
	aim_launch(&b, a, 7, N);
	const struct vm_aim_lane *lanes = vm_aim_lanes(a, &found);
	assert_int_equal(found, N);
	assert_true(fabs(lanes[2].far - 4) < 1e-5); /* 2^-12 is four powers of two away */
	vm_aim_free(a);
	launch(&b, c, near);
	assert_int_equal(taken_of(c, term), SIDE_ABOVE);
	vm_coverage_free(c);
	vm_kernel_free(b.k);
}

/* A mask of two comparisons: what both lack is added up, and each lane hangs on its own element. */
static void test_far_from_a_mask(void **state)
{
	const float values[N] = {1, 2.5f, 5, 4.25f, 100, -7, 3, 8}, far[N] = {2, 0.5f, 1, 0.25f, 96, 10, 0, 4};
	struct body_kernel b = make(LOADED CONSTANT("c", "3.0") CONSTANT("d", "4.0")
			CONSTANT("z", "0.0") "%x = arith.cmpf oge, %v, %c : tensor<8xf32>" AT(
				5) "%y = arith.cmpf ole, %v, %d : tensor<8xf32>" AT(5) "%m = arith.andi %x, %y : "
																	   "tensor<8xi1>" AT(5) "%r = "
																							"arith.select "
																							"%m, %z, %v : "
																							"tensor<8xi1>, "
																							"tensor<"
																							"8xf32>" AT(6) STORED);
	struct vm_coverage *c = vm_coverage_create(b.k);
	const struct vm_site *s;
	int n = vm_coverage_sites(c, &s), site = -1;
	for (int i = 0; i < n; i++)
		if (s[i].kind == SITE_SELECT) site = i;
	struct vm_aim *a = vm_aim_create(b.k, c, site, SIDE_ABOVE);
	assert_non_null(a);
	memcpy(b.buffers[0].data, values, sizeof values);
	aim_launch(&b, a, 1, N);
	struct vm_aim_lane *lanes = vm_aim_lanes(a, &n);
	/* the one that is there already is not chosen */
	assert_int_equal(n, N - 1);
	for (int i = 0; i < n; i++) {
		assert_true(fabs(lanes[i].far - far[lanes[i].lane]) < 1e-12);
		assert_int_equal(lanes[i].address, b.buffers[0].address + sizeof *values * (uint64_t)lanes[i].lane);
		assert_int_equal(lanes[i].elem, ELEM_F32);
	}
	/* the same lanes, with other values */
	((float *)(void *)b.buffers[0].data)[lanes[0].lane] = 3.5f;
	aim_launch(&b, a, 0, 0);
	assert_true(vm_aim_lanes(a, &n)[0].far == 0);
	assert_int_equal(n, N - 1);
	vm_aim_free(a);
	vm_coverage_free(c);
	vm_kernel_free(b.k);
}

/* A count of bits is as near to one more as the nearest bit, and hangs on its element. */
static void test_far_from_a_count(void **state)
{
	const float values[N] = {1, 2, 9, 2.5f, 9, -7, 2.75f, 1};
	struct body_kernel b = make(LOADED CONSTANT("c", "3.0") "%x = arith.cmpf oge, %v, %c : tensor<8xf32>" AT(
		5) "%k = arith.extui %x : tensor<8xi1> to tensor<8xi32>" AT(5) "%t = \"tt.reduce\"(%k) <{axis = 0 : i32}> "
																	   "({\n^bb0(%l: i32, %o: i32):\n%u = "
																	   "arith.addi %l, %o : i32\n"
																	   "tt.reduce.return %u : i32\n}) : "
																	   "(tensor<8xi32>) -> i32" AT(
																		   6) "%three = arith.constant 3 : i32\n%w "
																			  "= arith.cmpi eq, %t, %three : "
																			  "i32" AT(7) "%r = arith.select %w, "
																						  "%c, %v : "
																						  "tensor<8xf32>" AT(8) STORED);
	struct vm_coverage *c = vm_coverage_create(b.k);
	const struct vm_site *s;
	int n = vm_coverage_sites(c, &s), site = -1;
	for (int i = 0; i < n; i++)
		if (s[i].line == 7) site = i;
	struct vm_aim *a = vm_aim_create(b.k, c, site, SIDE_EQUAL);
	assert_non_null(a);
	memcpy(b.buffers[0].data, values, sizeof values);
	aim_launch(&b, a, 1, N);
	struct vm_aim_lane *lanes = vm_aim_lanes(a, &n);
	assert_int_equal(n, 1);
	/* two of three, and the nearest lacks 0.25 */
	assert_true(fabs(lanes[0].far - 0.25 / 1.25) < 1e-12);
	assert_int_equal(lanes[0].address, b.buffers[0].address + 6 * sizeof *values);
	assert_int_equal(lanes[0].bits, 0); /* which bits of a count differ solves nothing */
	vm_aim_free(a);
	vm_coverage_free(c);
	vm_kernel_free(b.k);
}

static void test_ends_and_extremes(void **state)
{
	const float small[N] = {0.5f, 1}, low[N] = {-200}, high[N] = {200};
	struct body_kernel b = make(LOADED CONSTANT("z", "0.0") "%x = arith.maxnumf %v, %z : tensor<8xf32>" AT(
		4) "%r = math.exp %v : tensor<8xf32>" AT(5) STORED);
	struct vm_coverage *c = vm_coverage_create(b.k);
	const struct vm_site *s;
	assert_int_equal(vm_coverage_sites(c, &s), 3);
	assert_int_equal(s[0].kind, SITE_EXTREME);
	assert_int_equal(s[1].kind, SITE_END);
	assert_int_equal(s[2].kind, SITE_POLE);
	launch(&b, c, small);
	assert_int_equal(s[0].taken & s[0].wanted, SIDE_ABOVE);
	assert_int_equal(s[1].taken & s[1].wanted, 0);
	assert_true(s[1].most == 1);
	launch(&b, c, low);
	assert_int_equal(s[0].taken & s[0].wanted, SIDE_BELOW | SIDE_ABOVE);
	assert_int_equal(s[1].taken & s[1].wanted, SIDE_BELOW);
	launch(&b, c, high);
	assert_int_equal(s[1].taken & s[1].wanted, SIDE_BELOW | SIDE_ABOVE);
	vm_coverage_free(c);
	vm_kernel_free(b.k);
}

static void test_indices_are_no_data(void **state)
{
	struct body_kernel b = make(LOADED
		"%ns = tt.splat %n : i32 -> tensor<8xi32>\n"
		"%m = arith.cmpi slt, %i, %ns : tensor<8xi32>" AT(5) "tt.store %q, %v, %m : tensor<8x!tt.ptr<f32>>" AT(6));
	struct vm_coverage *c = vm_coverage_create(b.k);
	const struct vm_site *s;
	assert_int_equal(vm_coverage_sites(c, &s), 0);
	vm_coverage_free(c);
	vm_kernel_free(b.k);
}

/* An argument of which the IR says that it is a multiple of 16. */
static void test_divisibility_of_arguments(void **state)
{
	static const char HEAD[] = "module {\n  tt.func public @k(%a: !tt.ptr<f32> {tt.divisibility = 16 : i32}, %b: "
							   "!tt.ptr<f32>, %c: !tt.ptr<f32>, %n: i32 {tt.divisibility = 16 : i32}) {\n";
	static float data[3][N];
	const struct {
		int64_t n, offset;
		const char *refused; /* NULL: taken */
	} cases[] = {{32, 0, NULL}, {33, 0, "argument 3 (n) is 33,"}, {-16, 16, NULL},
		{32, 4, "argument 0 (a) is a pointer at byte 4,"}, {32, 5, "argument 0 (a) is a pointer at byte 5,"}};
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct body_kernel b = body_kernel_make(HEAD, "", data, sizeof data[0], sizeof data[0], cases[i].n);
		b.args[0].i += cases[i].offset;
		struct vm_launch_options o = {
			.grid = {1, 1, 1}, .args = b.args, .nargs = 4, .buffers = b.buffers, .nbuffers = 3};
		struct vm_report r;
		struct err err = {0};
		int rc = vm_launch(b.k, &o, &r, &err);
		if (rc != (cases[i].refused ? ERR_RANGE : 0)) fail_msg("case %zu: %d %s", i, rc, err.text);
		if (cases[i].refused && !(strstr(err.text, cases[i].refused) && strstr(err.text, "multiple of 16")))
			fail_msg("case %zu: %s", i, err.text);
		vm_report_release(&r);
		vm_kernel_free(b.k);
	}
}

/* A hint that is false is an error where the machine code joins lanes by it, and nowhere else. */
static void expect_joined(const char *offsets, const char *hint, int bytes, enum vm_fault fault)
{
	static float data[3][BLOCK + 4];
	struct str body = {0};
	/* What the compiler says: at line 7 one access joins lanes into `bytes` bytes. */
	json_t *result = json_pack("{s:i, s:[[i, i, i]]}", "num_warps", 1, "joined", 7, 1, bytes);
	struct vm_compiled *compiled = NULL;
	struct vm_report r;
	struct err err = {0};
	assert_int_equal(vm_compiled_create(result, &vm_gpus[0], &compiled, &err), 0);
	/* A load at computed offsets, which carry the hint. */
	str_printf(&body,
		"%%i = tt.make_range {end = 256 : i32, start = 0 : i32} : tensor<256xi32>\n"
		"%%k = arith.constant dense<1> : tensor<256xi32>\n%%j = arith.%s %%i, %%k %s : tensor<256xi32>\n%s",
		offsets, hint,
		"%ps = tt.splat %a : !tt.ptr<f32> -> tensor<256x!tt.ptr<f32>>\n"
		"%p = tt.addptr %ps, %j : tensor<256x!tt.ptr<f32>>, tensor<256xi32>\n"
		"%v = tt.load %p : tensor<256x!tt.ptr<f32>>" AT(7));
	struct body_kernel b = body_kernel_make(BODY_HEAD("f32"), body.data, data, sizeof data[0], sizeof data[0], N);
	struct vm_launch_options o = {.grid = {1, 1, 1},
		.args = b.args,
		.nargs = 4,
		.buffers = b.buffers,
		.nbuffers = 3,
		.want_cost = true,
		.compiled = compiled};
	/* The fault, and a message that says why it matters. */
	int rc = vm_launch(b.k, &o, &r, &err);
	if (rc != (fault ? ERR_MISMATCH : 0) || r.fault != fault) fail_msg("%s %s: %d %s", offsets, hint, rc, err.text);
	if (fault) assert_non_null(strstr(r.text, "joins"));
	vm_report_release(&r);
	vm_compiled_free(compiled);
	vm_kernel_free(b.k);
	str_release(&body);
	json_decref(result);
}

#define HINT "{tt.contiguity = dense<4> : tensor<1xi32>, tt.divisibility = dense<4> : tensor<1xi32>}"
static void test_false_hints(void **state)
{
	expect_joined("addi", HINT, 8, VM_FAULT_MISALIGNED); /* side by side, but from an odd element on */
	expect_joined("xori", HINT, 8, VM_FAULT_MISALIGNED); /* neighbours change places */
	expect_joined("addi", HINT, 4, VM_FAULT_NONE);       /* nothing is joined */
	expect_joined("addi", "", 8, VM_FAULT_NONE);         /* no hint: the compiler knows better */
	expect_joined("muli", HINT, 16, VM_FAULT_NONE);      /* times one: the hint is true */
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_sides_of_a_comparison),
		cmocka_unit_test(test_masks_together),
		cmocka_unit_test(test_few_lanes),
		cmocka_unit_test(test_numbers_that_stay),
		cmocka_unit_test(test_looks_at_other_operands),
		cmocka_unit_test(test_terms_of_a_sum),
		cmocka_unit_test(test_terms_beside_zeros),
		cmocka_unit_test(test_terms_of_a_fold),
		cmocka_unit_test(test_terms_of_an_atomic),
		cmocka_unit_test(test_sums_that_are_steps),
		cmocka_unit_test(test_far_from_a_mask),
		cmocka_unit_test(test_far_from_a_count),
		cmocka_unit_test(test_ends_and_extremes),
		cmocka_unit_test(test_indices_are_no_data),
		cmocka_unit_test(test_divisibility_of_arguments),
		cmocka_unit_test(test_false_hints),
	};
	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
