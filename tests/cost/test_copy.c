/* Copies between strided views: their counts, worked by hand, and predicted times against
 * those that were measured on an H200 (docs/perf-log.md, 2026-11-28), by the launcher's
 * kernel and by PyTorch's. */
#include "base/base.h"
#include "cost/cost.h"
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <cmocka.h>

/* Steps in elements of `size` bytes, as tensors have them. */
struct view_pair {
	int ndim;
	int size;
	int64_t shape[4];
	int64_t to[4];
	int64_t from[4];
};

static struct cost_copy copy_of(const struct view_pair *v)
{
	struct cost_copy c = {.ndim = v->ndim, .to_size = v->size, .from_size = v->size};
	for (int i = 0; i < v->ndim; i++)
		c.shape[i] = v->shape[i], c.to_step[i] = v->to[i] * v->size, c.from_step[i] = v->from[i] * v->size;
	return c;
}

static double bytes_of(const struct view_pair *v)
{
	double bytes = 2.0 * v->size;
	for (int i = 0; i < v->ndim; i++) bytes *= (double)v->shape[i];
	return bytes;
}

static double predicted_us(const struct view_pair *v)
{
	struct cost_copy c = copy_of(v);
	struct vm_cost counts = cost_copy_counts(&c);
	struct cost_launch l = {.bytes = bytes_of(v)};
	return 1e6 * cost_copy_s("clone", "", &counts, &l, vm_gpu_find("H200"));
}

/* Where what is read lies apart, the time is within a fifth of both kernels'. Where it lies along
 * rows, it is that of as many bytes side by side, and cutting rows takes up to a third more. */
static void test_measured(void **state)
{
	static const struct {
		const char *name;
		struct view_pair v;
		double launcher_us;
		double torch_us;
		double least; /* of the predicted time over either measured one */
		double most;
	} rows[] = {
		{"last two of (2, 2048, 4095) exchanged",
			{3, 4, {2, 4095, 2048}, {4095 * 2048, 2048, 1}, {2048 * 4095, 1, 4095}}, 127.9, 123.8, 0.8, 1.2},
		{"4,096 x 4,096 of fp32 transposed", {2, 4, {4096, 4096}, {4096, 1}, {1, 4096}}, 130.1, 124.6, 0.8, 1.2},
		{"of fp16", {2, 2, {4096, 4096}, {4096, 1}, {1, 4096}}, 131.2, 123.7, 0.8, 1.2},
		{"to channels last", {4, 4, {16, 64, 128, 128}, {1 << 20, 1, 8192, 64}, {1 << 20, 16384, 128, 1}}, 74.8, 75.9,
			0.8, 1.2},
		{"and back", {4, 4, {16, 64, 128, 128}, {1 << 20, 16384, 128, 1}, {1 << 20, 1, 8192, 64}}, 123.6, 120.1, 0.8,
			1.2},
		{"the last of 512 x 512 x 64 bytes in front", {3, 1, {64, 512, 512}, {1 << 18, 512, 1}, {1, 1 << 15, 64}}, 65.1,
			65.0, 0.8, 1.2},
		{"2,048 x 2,048 doubles transposed", {2, 8, {2048, 2048}, {2048, 1}, {1, 2048}}, 41.2, 40.8, 0.8, 1.2},
		{"heads in front of rows", {4, 4, {8, 16, 512, 64}, {1 << 19, 1 << 15, 64, 1}, {1 << 19, 64, 1024, 1}}, 19.6,
			16.3, 0.65, 1},
		{"2,049 of 4,096 columns", {2, 4, {8192, 2049}, {2049, 1}, {4096, 1}}, 40.7, 49.2, 0.65, 1},
	};
	/* Both kernels are held against: the slower one from below, the faster one from above. */
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		double t = predicted_us(&rows[i].v), high = fmax(rows[i].launcher_us, rows[i].torch_us),
			   low = fmin(rows[i].launcher_us, rows[i].torch_us);
		if (!(t >= rows[i].least * high && t <= rows[i].most * low))
			fail_msg("%s: %.1f us, measured %.1f and %.1f", rows[i].name, t, rows[i].launcher_us, rows[i].torch_us);
	}
}

/* What lies side by side on both sides takes what as many bytes take, to the last bit, whatever its
 * size; so does what has no elements, or one. */
static void test_straight(void **state)
{
	for (int64_t n = 1; n <= (int64_t)1 << 26; n *= 4) {
		struct view_pair v = {3, 4, {2, n, 3}, {3 * n, 3, 1}, {3 * n, 3, 1}};
		struct cost_launch l = {.bytes = bytes_of(&v)};
		assert_true(predicted_us(&v) == 1e6 * cost_operator_s("clone", "", &l, COST_DOT_FP32, vm_gpu_find("H200")));
	}
	struct vm_cost none = cost_copy_counts(&(struct cost_copy){.ndim = 1, .shape = {0}, .to_size = 4, .from_size = 4});
	assert_true(none.load_lines == 0 && none.programs == 0);
	struct vm_cost one = cost_copy_counts(&(struct cost_copy){.to_size = 4, .from_size = 4});
	assert_true(one.load_lines == 1 && one.store_lines == 1 && one.l2_sectors == 2 && one.programs == 1);
}

/* Blocks of 1,024 elements, warps of 32: lines of 128 bytes, sectors of 32. */
static void test_counts(void **state)
{
	static const struct {
		struct view_pair v;
		int64_t load_lines;
		int64_t missed_lines;
		int64_t l2_sectors;
		int64_t store_lines;
	} rows[] = {
		/* Side by side: a line a warp, of four sectors. */
		{{2, 4, {64, 1024}, {1024, 1}, {1024, 1}}, 2048, 2048, 2 * 8192, 2048},
		/* Transposed: a line and a sector for each element that is read. */
		{{2, 4, {1024, 64}, {64, 1}, {1, 1024}}, 65536, 8192, 8192 + 8192, 2048},
		{{2, 4, {64, 1024}, {1024, 1}, {1, 64}}, 65536, 65536, 65536 + 8192, 2048},
		/* Two neighbours 64 bytes apart share a line, not a sector. */
		{{1, 1, {65536}, {1}, {64}}, 32768, 32768, 65536 + 2048, 2048},
		/* One element again and again. */
		{{1, 4, {65536}, {1}, {0}}, 2048, 64, 64 + 8192, 2048},
		/* Written apart: threads follow the order in which is written, whatever that of the
		 * dimensions is. */
		{{2, 4, {64, 1024}, {1, 64}, {1024, 1}}, 65536, 8192, 8192 + 8192, 2048},
	};
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct cost_copy c = copy_of(&rows[i].v);
		struct vm_cost k = cost_copy_counts(&c);
		if (k.load_lines != rows[i].load_lines || k.missed_lines != rows[i].missed_lines ||
			k.l2_sectors != rows[i].l2_sectors || k.store_lines != rows[i].store_lines || k.programs != 64 ||
			k.footprint_bytes != 2 * 65536 * rows[i].v.size || k.footprint_read * 2 != k.footprint_bytes)
			fail_msg("row %zu: %lld lines, %lld missed, %lld sectors, %lld stored, %lld programs", i,
				(long long)k.load_lines, (long long)k.missed_lines, (long long)k.l2_sectors, (long long)k.store_lines,
				(long long)k.programs);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_measured), cmocka_unit_test(test_straight), cmocka_unit_test(test_counts)};
	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
