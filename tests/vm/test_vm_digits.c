/* Lost digits of values on their way to memory, from the values alone: the kernels take a pattern
 * and give it back, so that what is stored is what a row says, and that is watched. */
#include "body_kernel.h"
#include "base/base.h"
#include <math.h>

#define N 512
#define BODY(type, int_type, pointer) "%i = tt.make_range {end = 512 : i32, start = 0 : i32} : tensor<512xi32>\n" \
	"%ps = tt.splat " pointer " : !tt.ptr<" type "> -> tensor<512x!tt.ptr<" type ">>\n" \
	"%p = tt.addptr %ps, %i : tensor<512x!tt.ptr<" type ">>, tensor<512xi32>\n" \
	"%v = tt.load %p : tensor<512x!tt.ptr<" type ">>\n%x = tt.bitcast %v : tensor<512x" type "> -> tensor<512x" \
	int_type ">\n%r = tt.bitcast %x : tensor<512x" int_type "> -> tensor<512x" type ">" AT(5) \
	"tt.store %p, %r : tensor<512x!tt.ptr<" type ">>\n"

enum digits { WHOLE, CUT, CUT_TO_POWER, ZERO, INFINITE, NOT_A_NUMBER };

/* Number i of a row: between 1 and 4 with all its digits, or without its last ones, or none that
 * has digits. Every lane differs in what comes before. */
static double number_of(enum digits d, bool is_double, int i)
{
	static const double others[] = {[ZERO] = 0, [INFINITE] = -INFINITY, [NOT_A_NUMBER] = NAN};
	double x = 1 + 3 * rng_uniform(9, 1, (uint64_t)i) + 1e-9 * rng_uniform(9, 2, (uint64_t)i);
	if (d == CUT) return floor(x * 4096) / 4096;
	if (d == CUT_TO_POWER) return ldexp(1, i % 8);
	return d == WHOLE ? is_double ? x : (double)((float)x) : others[d];
}

/* Of every eight lanes the first `share` are of one kind and the others of another. */
struct row {
	enum digits kind;
	enum digits others;
	int share;
	int trials;
	bool is_lost;
};

static bool is_told(const struct row *row, bool is_double)
{
	static double data[3][N];
	struct body_kernel b = body_kernel_make(BODY_HEAD("f64"),
		is_double ? BODY("f64", "i64", "%c") : BODY("f32", "i32", "%a"), data, sizeof data[0], sizeof data[0], N);
	struct vm_coverage *c = vm_coverage_create(b.k);
	const struct vm_site *s;
	assert_int_equal(vm_coverage_sites(c, &s), 1);
	assert_true(s->kind == SITE_DIGITS && s->line == 5);
	for (int trial = 0; trial < row->trials; trial++) {
		struct vm_report r;
		struct err err = {0};
		struct vm_launch_options o = {
			.grid = {1, 1, 1}, .args = b.args, .nargs = 4, .buffers = b.buffers, .nbuffers = 3, .coverage = c};
		/* The kernel of floats works in the first buffer, that of doubles in the third. */
		for (int i = 0; i < N; i++) {
			double x = number_of(i % 8 < row->share ? row->kind : row->others, is_double, trial * N + i);
			if (is_double) data[2][i] = x;
			else ((float *)data[0])[i] = (float)x;
		}
		vm_coverage_begin(c);
		vm_coverage_row(c, false);
		if (vm_launch(b.k, &o, &r, &err)) fail_msg("%s", err.text);
		vm_report_release(&r);
	}
	bool is_lost = s->taken == SIDE_ABOVE;
	vm_coverage_free(c);
	vm_kernel_free(b.k);
	return is_lost;
}

static void test_lost_digits(void **state)
{
	static const struct row rows[] = {
		{WHOLE, WHOLE, 8, 4, false},
		{CUT, CUT, 8, 1, true},
		/* Fewer than one lane in four has all its digits, or more. */
		{CUT, WHOLE, 7, 1, true},
		{CUT, WHOLE, 5, 1, false},
		/* Powers of two have none to lose. */
		{CUT_TO_POWER, CUT_TO_POWER, 8, 1, false},
		/* Half of the lanes are enough, a quarter is so in the second trial. */
		{CUT, ZERO, 4, 1, true},
		{CUT, ZERO, 2, 1, false},
		{CUT, ZERO, 2, 2, true},
		/* What is no number with digits says nothing beside those that have all theirs. */
		{WHOLE, ZERO, 1, 8, false},
		{WHOLE, INFINITE, 1, 8, false},
		{WHOLE, NOT_A_NUMBER, 1, 8, false},
	};
	int bad = 0;
	for (int is_double = 0; is_double < 2; is_double++)
		for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
			bool is_right = is_told(&rows[i], is_double) == rows[i].is_lost;
			if (!is_right) print_message("# row %zu of fp%d\n", i, is_double ? 64 : 32);
			bad += !is_right;
		}
	assert_int_equal(bad, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(test_lost_digits)};
	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
