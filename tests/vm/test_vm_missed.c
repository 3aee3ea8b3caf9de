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

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_elements), cmocka_unit_test(test_what_was_made), cmocka_unit_test(test_small_numbers)};
	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
