/* The backend's space: declarations that hold and that do not, points there and back. */
#include "agent/agent.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>
#include "../leaks.h"

static const char text[] = "# tune: BLOCK = 64 | 128|256\n"
						   "# tune: WARPS=2 | 4\n"
						   "WARPS = 4\n"
						   "BLOCK_M = 7\n"
						   "BLOCK = 128  # of elements\n"
						   "if BLOCK == 64: pass\n"
						   "    BLOCK = 3\n";

static void expect_error(const char *source, const char *part)
{
	struct tune_space s;
	struct err err = {0};
	assert_true(tune_space_parse(source, &s, &err) < 0);
	if (!strstr(err.text, part)) fail_msg("\"%s\" lacks \"%s\"", err.text, part);
}

static void test_points(void **state)
{
	struct tune_space s;
	struct err err = {0};
	struct str out = {0};
	if (tune_space_parse(text, &s, &err)) fail_msg("%s", err.text);
	assert_true(s.count == 2 && s.points == 6 && s.given == 1 + 3 * 1);
	for (int64_t p = 0; p < s.points; p++) {
		struct tune_space again;
		str_clear(&out);
		tune_render(text, &s, p, &out);
		/* The text that is made has the point as its own, and is the same
		 * but for the two values. */
		if (tune_space_parse(out.data, &again, &err)) fail_msg("%s", err.text);
		assert_true(again.given == p && again.points == s.points);
		str_clear(&out);
		tune_point_put(&s, p, &out);
		assert_int_equal(tune_point_parse(&s, out.data), p);
	}
	str_clear(&out);
	tune_render(text, &s, s.given, &out);
	assert_string_equal(out.data, text);
	str_clear(&out);
	tune_render(text, &s, 2, &out); /* BLOCK 256, WARPS 2 */
	assert_non_null(
		strstr(out.data, "WARPS = 2\nBLOCK_M = 7\nBLOCK = 256  # of elements\nif BLOCK == 64: pass\n    BLOCK = 3\n"));
	str_release(&out);
}

static void test_answers(void **state)
{
	struct tune_space s;
	struct err err = {0};
	assert_int_equal(tune_space_parse(text, &s, &err), 0);
	assert_int_equal(tune_point_parse(&s, "first BLOCK=64, then better:\nBLOCK = 256 WARPS=2"), 2);
	assert_int_equal(tune_point_parse(&s, "WARPS=2"), 1);               /* BLOCK stays */
	assert_int_equal(tune_point_parse(&s, "MY_BLOCK=256 BLOCK=64"), 3); /* a longer name is another one */
	assert_int_equal(tune_point_parse(&s, "BLOCK=512"), -1);
	assert_int_equal(tune_point_parse(&s, "BLOCK=64x"), -1);
	assert_int_equal(tune_point_parse(&s, "larger blocks"), -1);
}

static void test_refusals(void **state)
{
	expect_error("B = 1\n", "nothing is declared");
	expect_error("# tune: B = 1 | 1\nB = 1\n", "line 1");
	expect_error("\n# tune: B = 0\nB = 0\n", "line 2");
	expect_error("# tune: B = 1 |\nB = 1\n", "line 1");
	expect_error("# tune: B\nB = 1\n", "line 1");
	expect_error("# tune: 9 = 1\n", "line 1");
	expect_error("# tune: B = 1\n# tune: B = 2\nB = 1\n", "declared twice");
	expect_error("# tune: B = 1 | 2\n", "no line");
	expect_error("# tune: B = 1 | 2\nB = 3\n", "B: line 2: expected one of the declared values, found \"3\"");
	expect_error("# tune: B = 1 | 2\nB = 1\nB = 2\n", "found lines 2 and 3");
	expect_error("# tune: B = 1 | 2\nB = 1 + 1\n", "found \"1 + 1\"");
	expect_error("# tune: B = 1_0\nB = 1\n", "line 1");
	expect_error("# tune: B = 1 | 2\n\nB == 1\n", "no line");
	expect_error("# tune: B = 1 | 2\n\nB = 1\nB = 1\n", "found lines 3 and 4");
}

/* Three parameters, whatever the order of their assignments: a point is written over each. */
static void test_orders(void **state)
{
	static const char *const lines[] = {"A = 1\n", "B = 20\n", "C = 300  # last\n"};
	static const int orders[][3] = {{0, 1, 2}, {0, 2, 1}, {1, 0, 2}, {1, 2, 0}, {2, 0, 1}, {2, 1, 0}};
	for (size_t o = 0; o < ARRAY_LEN(orders); o++) {
		struct tune_space s;
		struct err err = {0};
		struct str out = {0}, want = {0};
		char *source = xasprintf("# tune: A = 1 | 2\n# tune: B = 10 | 20 | 30\n# tune: C = 100 | 300\n%s%s%s",
			lines[orders[o][0]], lines[orders[o][1]], lines[orders[o][2]]);
		if (tune_space_parse(source, &s, &err)) fail_msg("%s", err.text);
		assert_true(s.count == 3 && s.points == 12 && s.given == 0 + 2 * 1 + 6 * 1);
		/* A 2, B 30, C 100: the first parameter varies fastest. */
		const char *const other[] = {"A = 2\n", "B = 30\n", "C = 100  # last\n"};
		str_printf(&want, "# tune: A = 1 | 2\n# tune: B = 10 | 20 | 30\n# tune: C = 100 | 300\n%s%s%s",
			other[orders[o][0]], other[orders[o][1]], other[orders[o][2]]);
		tune_render(source, &s, 1 + 2 * 2, &out);
		assert_string_equal(out.data, want.data);
		str_clear(&out);
		tune_point_put(&s, 1 + 2 * 2, &out);
		assert_string_equal(out.data, "A=2 B=30 C=100");
		assert_int_equal(tune_point_parse(&s, "C=300 A = 2, B=30; then C=100"), 1 + 2 * 2);
		str_release(&out);
		str_release(&want);
		free(source);
	}
}

/* As many parameters, values, points and letters as there is room for, and one more. */
static void test_limits(void **state)
{
	for (int over = 0; over < 2; over++) {
		struct str values = {0}, knobs = {0}, points = {0};
		struct tune_space s;
		struct err err = {0};
		for (int v = 1; v <= TUNE_VALUES_MAX + over; v++)
			str_printf(&values, "%s%d", v > 1 ? " | " : "# tune: V = ", v);
		str_puts(&values, "\nV = 32\n");
		for (int k = 0; k < TUNE_KNOBS_MAX + over; k++) str_printf(&knobs, "# tune: K%d = 1\nK%d = 1\n", k, k);
		/* 10^6 points, and 11 times 10^5. */
		for (int k = 0; k < 6; k++) {
			str_printf(&points, "P%d = 1\n# tune: P%d = 1", k, k);
			for (int v = 2; v <= 10 + (over && k == 5); v++) str_printf(&points, " | %d", v);
			str_puts(&points, "\n");
		}
		const char *const texts[] = {values.data, knobs.data, points.data},
						  *const said[] = {"line 1: more than 32 values", "line 17: more than 8 parameters",
							  "more than 1000000 points"};
		for (int i = 0; i < 3; i++) {
			int rc = tune_space_parse(texts[i], &s, &err);
			assert_int_equal(rc, over ? ERR_LIMIT : 0);
			if (over && !strstr(err.text, said[i])) fail_msg("%s", err.text);
			if (!over && i == 0) assert_true(s.points == 32 && s.given == 31);
			if (!over && i == 2) assert_int_equal(s.points, TUNE_POINTS_MAX);
		}
		/* Where the list is full a value that is not in it is none, whatever
		 * lies behind the list. */
		str_clear(&values);
		for (int v = 1; v <= TUNE_VALUES_MAX; v++) str_printf(&values, "%s%d", v > 1 ? " | " : "# tune: V = ", v + 100);
		str_puts(&values, "\nV = 101\n");
		assert_int_equal(tune_space_parse(values.data, &s, &err), 0);
		for (int v = 1; v <= 101; v++) {
			char answer[16];
			snprintf(answer, sizeof answer, "V = %d", v);
			assert_int_equal(tune_point_parse(&s, answer), v == 101 ? 0 : -1);
		}
		str_release(&values);
		str_release(&knobs);
		str_release(&points);
		/* A name's letters; a value's size. */
		char name[sizeof s.knobs[0].name + 1], text_of[400];
		memset(name, 'n', sizeof name);
		name[sizeof s.knobs[0].name - 1 + over] = 0;
		snprintf(text_of, sizeof text_of, "# tune: %s = 1\n%s = 1\n", name, name);
		assert_int_equal(tune_space_parse(text_of, &s, &err), over ? ERR_FORMAT : 0);
		snprintf(text_of, sizeof text_of, "# tune: B = %lld\nB = %lld\n", INT32_MAX + (long long)over,
			INT32_MAX + (long long)over);
		assert_int_equal(tune_space_parse(text_of, &s, &err), over ? ERR_FORMAT : 0);
	}
}

/* None of the above leaves memory or descriptors behind, errors included. */
static void everything(void *ctx)
{
	test_points(NULL);
	test_answers(NULL);
	test_refusals(NULL);
	test_orders(NULL);
	test_limits(NULL);
}

static void test_leaves_nothing(void **state) { leaves_nothing(everything, NULL); }

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(test_points), cmocka_unit_test(test_answers),
		cmocka_unit_test(test_refusals), cmocka_unit_test(test_orders), cmocka_unit_test(test_limits),
		cmocka_unit_test(test_leaves_nothing)};
	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
