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
}

/* None of the above leaves memory or descriptors behind, errors included. */
static void everything(void *ctx)
{
	test_points(NULL);
	test_answers(NULL);
	test_refusals(NULL);
}

static void test_leaves_nothing(void **state) { leaves_nothing(everything, NULL); }

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(test_points), cmocka_unit_test(test_answers),
		cmocka_unit_test(test_refusals), cmocka_unit_test(test_leaves_nothing)};
	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
