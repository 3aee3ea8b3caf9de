/* The comparison: what passes, what does not, and the numbers it reports. */
#include "verify/compare.h"
#include <math.h>
#include <setjmp.h>
#include <stdlib.h>
#include <cmocka.h>

#define N 1024

struct fixture {
	float plain[N], found[N];
	double exact[N];
	struct compare_output o;
	struct compare_bound b;
	struct compare_result r;
};

/* Expected values of size `scale` with both signs, and the reference's fp32 rounding of them. */
static void prepare(struct fixture *f, double scale)
{
	for (int i = 0; i < N; i++) {
		f->exact[i] = scale * (double)rng_normal(1, 2, (uint64_t)i) * (1 + 1e-12);
		f->plain[i] = (float)f->exact[i];
		f->found[i] = f->plain[i];
	}
	f->o = (struct compare_output){
		.dtype = DTYPE_F32, .ndim = 2, .shape = {32, 32}, .exact = f->exact, .plain = (const uint8_t *)f->plain};
}

static bool run(struct fixture *f)
{
	compare_calibrate(&f->o, false, false, &f->b);
	compare_run(&f->o, &f->b, (const uint8_t *)f->found, &f->r);
	return f->r.is_equal;
}

static void test_rounding_passes_at_any_scale(void **state)
{
	struct fixture f;
	const double scales[] = {1e-30, 4e-6, 1, 1e10};
	for (size_t s = 0; s < ARRAY_LEN(scales); s++) {
		prepare(&f, scales[s]);
		for (int i = 0; i < N; i++)
			f.found[i] *= 1 + 3e-6f; /* fifty units in the last place: another order of summation, an approximate exp */
		assert_true(run(&f));
		assert_true(f.b.is_usable);
		assert_true(f.r.error_max < 5e-6);
	}
}

/* The cases that loose absolute tolerances accept: zeros for small outputs, half precision inside
 * an fp32 task. */
static void test_zeros_and_half_precision_fail_at_any_scale(void **state)
{
	struct fixture f;
	const double scales[] = {4e-6, 1, 1e4};
	for (size_t s = 0; s < ARRAY_LEN(scales); s++) {
		prepare(&f, scales[s]);
		memset(f.found, 0, sizeof f.found);
		assert_false(run(&f));
		assert_int_equal(f.r.found_zero, N);
		assert_non_null(strstr(f.r.text, "every found value is 0"));
	}
	prepare(&f, 1);
	for (int i = 0; i < N; i++) f.found[i] = f16_to_f32(f32_to_f16(f.plain[i]));
	assert_false(run(&f));
	assert_true(f.r.kernelbench == false || f.r.error_max > f.b.tolerance);
}

static void test_one_wild_element_fails_and_is_named(void **state)
{
	struct fixture f;
	prepare(&f, 1);
	f.found[33] += 1;
	assert_false(run(&f));
	assert_int_equal(f.r.mismatches, 1);
	assert_int_equal(f.r.first_bad, 33);
	assert_non_null(strstr(f.r.text, "first at [1, 1]"));
	assert_true(fabs(f.r.abs_max - 1) < 1e-6);
	assert_false(f.r.kernelbench);
}

/* A row of which the reference leaves rounding alone: 8 times its sensitivity is right, and no more
 * than 10 floors of the mean size, whatever the sensitivity. */
static void test_noise_of_a_row(void **state)
{
	struct fixture f;
	double noise[32] = {0};
	prepare(&f, 1);
	for (int i = 96; i < 128; i++) f.exact[i] = f.plain[i] = f.found[i] = 0;
	f.o.noise = noise;
	f.found[100] = 7e-5f;
	assert_false(run(&f));
	noise[3] = 1e-5;
	assert_true(run(&f));
	f.found[100] = 9e-5f;
	assert_false(run(&f));
	noise[3] = 1;
	f.found[100] = 3e-4f; /* floor 5e-5, mean size 0.77 of a normal draw: up to 3.9e-4 */
	assert_true(run(&f));
	f.found[100] = 6e-4f;
	assert_false(run(&f));
	/* elsewhere it changes nothing */
	f.found[100] = 0;
	f.found[200] += 3e-4f;
	assert_false(run(&f));
	/* An output that is zero throughout has no mean size: the sensitivity alone says. */
	prepare(&f, 0);
	f.found[100] = 7e-8f;
	assert_false(run(&f));
	f.o.noise = noise;
	noise[3] = 1e-8;
	assert_true(run(&f));
	f.found[100] = 9e-8f;
	assert_false(run(&f));
	f.found[100] = 0;
	f.found[200] = 7e-8f;
	assert_false(run(&f));
}

/* Each element is measured by what is usual in its own row and its own column. */
static void test_usual_size_of_each_place(void **state)
{
	struct fixture f;
	prepare(&f, 1);
	for (int i = 0; i < N; i++) {
		f.exact[i] = (1 + i / 32) * exp2(-(i % 32) / 4);
		f.found[i] = f.plain[i] = (float)f.exact[i];
	}
	for (int i = 0; i < N; i += 37) {
		f.found[i] *= 1.5f;
		assert_false(run(&f));
		assert_true(f.b.share_min < 1 && f.b.rows && f.b.columns);
		double share = f.b.rows[i / 32] * f.b.columns[i % 32], r = f.exact[i];
		double usual = f.b.scale * fmin(1, fmax(share, f.b.share_min));
		assert_true(f.r.error_max == fabs((double)f.found[i] - r) / (fabs(r) + usual));
		assert_int_equal(f.r.first_bad, i);
		f.found[i] = f.plain[i];
		compare_bound_release(&f.b);
	}
}

static void test_nan_is_no_wildcard(void **state)
{
	struct fixture f;
	prepare(&f, 1);
	f.found[5] = NAN;
	assert_false(run(&f));
	assert_int_equal(f.r.found_nan, 1);
	prepare(&f, 1);
	f.found[5] = INFINITY;
	assert_false(run(&f));
}

static void test_nonfinite_references_need_their_own_kind(void **state)
{
	struct fixture f;
	prepare(&f, 1);
	f.exact[1] = INFINITY;
	f.plain[1] = f.found[1] = INFINITY;
	f.exact[2] = NAN;
	f.plain[2] = f.found[2] = NAN;
	assert_true(run(&f));
	assert_int_equal(f.b.nonfinite, 2);
	assert_true(f.b.torn == 0 && f.b.is_usable); /* the task asks for them */
	f.found[1] = -INFINITY;
	assert_false(run(&f));
	f.found[1] = INFINITY;
	f.found[2] = 0;
	assert_false(run(&f));
	/* fp32 overflowed where fp64 did not: both the overflow and the true value are right. */
	prepare(&f, 1);
	f.exact[3] = 1e39;
	f.plain[3] = f.found[3] = INFINITY;
	assert_true(run(&f));
	assert_true(f.b.nonfinite == 1 && f.b.reference_error < 1e-6); /* of the elements where both are numbers */
	assert_true(f.b.torn == 1);
	assert_false(f.b.is_usable); /* a hidden trial would not count */
}

/* The bound follows the reference's own error, but not without limit. */
static void test_bound_follows_the_reference(void **state)
{
	struct fixture f;
	prepare(&f, 1);
	for (int i = 0; i < N; i++) f.plain[i] *= 1 + 1e-4f;
	run(&f);
	assert_true(f.b.reference_error > 5e-5 && f.b.reference_error < 1e-4);
	assert_true(fabs(f.b.tolerance - 8 * f.b.reference_error) < 1e-12);
	assert_true(f.b.is_usable);
	for (int i = 0; i < N; i++) f.plain[i] *= 1.5f;
	run(&f);
	assert_false(f.b.is_usable);
	assert_true(f.b.tolerance < 2e-3);
}

/* The bounds that docs/verifier.md names: the least one of each type, four times as much without an
 * fp64 value, and the most, eight times the error up to which a reference is believed. */
static void test_bounds_of_each_type(void **state)
{
	static const struct {
		enum dtype dtype;
		double least;
		double usable;
	} rows[] = {{DTYPE_F64, 1e-10, 1e-9}, {DTYPE_F32, 5e-5, 2e-4}, {DTYPE_F16, 2e-3, 1e-2}, {DTYPE_BF16, 1.6e-2, 5e-2},
		{DTYPE_F8E4M3, 0.13, 0.2}, {DTYPE_F8E5M2, 0.26, 0.4}};
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		enum dtype t = rows[i].dtype;
		assert_true(compare_tolerance(t, true, false, 0) == rows[i].least);
		assert_true(compare_tolerance(t, false, false, 0) == 4 * rows[i].least);
		assert_true(compare_tolerance(t, true, false, rows[i].usable / 2) == 4 * rows[i].usable);
		assert_true(compare_tolerance(t, true, false, 1) == 8 * rows[i].usable);
		/* Where tf32 is allowed fp32 alone gets its rounding. */
		assert_true(compare_tolerance(t, true, true, 0) == (t == DTYPE_F32 ? 5e-3 : rows[i].least));
	}
}

static void test_integers_and_bools_are_exact(void **state)
{
	int64_t plain[4] = {1, INT64_MAX, -5, 0}, found[4] = {1, INT64_MAX - 1, -5, 0};
	struct compare_output o = {.dtype = DTYPE_I64, .ndim = 1, .shape = {4}, .plain = (const uint8_t *)plain};
	struct compare_bound b;
	struct compare_result r;
	compare_calibrate(&o, false, false, &b);
	compare_run(&o, &b, (const uint8_t *)found, &r);
	assert_false(r.is_equal);
	assert_int_equal(r.first_bad, 1);
	uint8_t truth[4] = {1, 0, 1, 0}, other[4] = {1, 0, 1, 0};
	o = (struct compare_output){.dtype = DTYPE_BOOL, .ndim = 1, .shape = {4}, .plain = truth};
	compare_run(&o, &b, other, &r);
	assert_true(r.is_equal);
	other[0] = 255; /* torch sums such bytes, and inverts them to 254 */
	compare_run(&o, &b, other, &r);
	assert_false(r.is_equal);
}

static void test_empty_and_scalar(void **state)
{
	float one = 2, found = 2;
	double exact = 2;
	struct compare_output o = {.dtype = DTYPE_F32, .ndim = 0, .plain = (const uint8_t *)&one, .exact = &exact};
	struct compare_bound b;
	struct compare_result r;
	compare_calibrate(&o, false, false, &b);
	compare_run(&o, &b, (const uint8_t *)&found, &r);
	assert_true(r.is_equal);
	found = 2.1f;
	compare_run(&o, &b, (const uint8_t *)&found, &r);
	assert_false(r.is_equal);
	assert_non_null(strstr(r.text, "first at []"));
	o = (struct compare_output){.dtype = DTYPE_F32, .ndim = 2, .shape = {0, 7}, .plain = (const uint8_t *)&one};
	compare_calibrate(&o, false, false, &b);
	compare_run(&o, &b, (const uint8_t *)&found, &r);
	assert_true(r.is_equal);
}

/* Values of a half format in fp32: a few may be the next one, since the exact value lay between
 * two; more, further away, not of the format, or whole numbers are wrong. */
static void test_values_of_a_half_format(void **state)
{
	enum { FEW = N / 64 };
	struct fixture f;
	for (int format = 0; format < 2; format++) {
		prepare(&f, 1);
		for (int i = 0; i < N; i++) {
			float v = format ? bf16_to_f32(f32_to_bf16(f.plain[i])) : f16_to_f32(f32_to_f16(f.plain[i]));
			f.exact[i] = f.plain[i] = f.found[i] = v;
		}
		for (int i = 0; i < FEW; i++) {
			uint16_t bits = format ? f32_to_bf16(f.plain[i * 64]) : f32_to_f16(f.plain[i * 64]);
			f.found[i * 64] = format ? bf16_to_f32(bits + 1) : f16_to_f32(bits + 1);
		}
		assert_true(run(&f));
		float was = f.found[0];
		/* half a step, two steps, the next value of the other sign, one more */
		f.found[0] = (f.plain[0] + was) / 2;
		assert_false(run(&f));
		f.found[0] = f.plain[0] + 2 * (was - f.plain[0]);
		assert_false(run(&f));
		f.found[0] = -was;
		assert_false(run(&f));
		f.found[0] = was;
		f.found[1] = format ? bf16_to_f32(f32_to_bf16(f.plain[1]) + 1) : f16_to_f32(f32_to_f16(f.plain[1]) + 1);
		assert_false(run(&f));
	}
	/* Places between 1024 and 2047 are all values of fp16, one step apart. */
	prepare(&f, 1);
	for (int i = 0; i < N; i++) f.exact[i] = f.plain[i] = f.found[i] = (float)(1024 + i);
	f.found[7] += 1;
	assert_false(run(&f));
	/* So are eighths, which lie many steps apart. */
	prepare(&f, 1);
	for (int i = 0; i < N; i++) f.exact[i] = f.plain[i] = f.found[i] = roundf(f.plain[i] * 8) / 8;
	f.exact[7] = f.plain[7] = 1, f.found[7] = f16_to_f32(f32_to_f16(1) + 1);
	assert_false(run(&f));
}

/* Odd inputs widen the bound by what the reference itself is off there, never
 * by its last rounding. */
static void test_bound_where_inputs_are_odd(void **state)
{
	struct fixture f;
	/* off by nothing but the last rounding */
	prepare(&f, 1);
	assert_true(run(&f));
	assert_true(f.b.odd_tolerance == f.b.tolerance);
	assert_true(f.b.odd_on_gpu == 16 * f.b.tolerance);
	/* by some roundings, for which the ordinary bound has room too, and by many */
	const double off[] = {2e-6, 1e-4, 1};
	for (size_t k = 0; k < ARRAY_LEN(off); k++) {
		prepare(&f, 1);
		for (int i = 0; i < N; i++) f.plain[i] = (float)(f.exact[i] * (1 + 2 * off[k]));
		run(&f);
		double usable = fmin(f.b.reference_error, 2e-4), rounding = 0x1p-24;
		assert_true(f.b.reference_error > rounding);
		assert_true(f.b.odd_tolerance > f.b.tolerance);
		assert_true(f.b.odd_tolerance >= 128 * (usable - rounding) && f.b.odd_tolerance <= 128 * usable);
		assert_true(f.b.odd_tolerance <= f.b.odd_on_gpu);
	}
	/* where nobody knows how far it is off */
	prepare(&f, 1);
	f.o.exact = NULL;
	assert_true(run(&f));
	assert_true(f.b.odd_tolerance == 16 * f.b.tolerance);
}

int main(void)
{
	cmocka_set_message_output(CM_OUTPUT_TAP);
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_rounding_passes_at_any_scale),
		cmocka_unit_test(test_zeros_and_half_precision_fail_at_any_scale),
		cmocka_unit_test(test_one_wild_element_fails_and_is_named),
		cmocka_unit_test(test_nan_is_no_wildcard),
		cmocka_unit_test(test_nonfinite_references_need_their_own_kind),
		cmocka_unit_test(test_bound_follows_the_reference),
		cmocka_unit_test(test_bounds_of_each_type),
		cmocka_unit_test(test_integers_and_bools_are_exact),
		cmocka_unit_test(test_noise_of_a_row),
		cmocka_unit_test(test_usual_size_of_each_place),
		cmocka_unit_test(test_values_of_a_half_format),
		cmocka_unit_test(test_empty_and_scalar),
		cmocka_unit_test(test_bound_where_inputs_are_odd),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
