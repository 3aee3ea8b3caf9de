/* The mid-end's tasks, from what a frontend's run left in the store: which
 * kernels are handed on. */
#include "rl/rl_internal.h"
#include "base/base.h"
#include "store/store.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>
#include "../leaks.h"

static void sample_put(struct store *s, int64_t run, int64_t index, const char *code, const char *class, double cost_s)
{
	struct err err = {0};
	char *answer = xasprintf("plan\n```python\n%s\n```\n", code);
	json_t *row = json_pack("{s:s, s:s, s:{s:s, s:o}}", "task", "a", "answer", answer, "verdict", "verdict", class,
		"cost_s", cost_s > 0 ? json_real(cost_s) : json_null());
	if (store_sample_put(s, run, 1, index, row, &err)) fail_msg("%s", err.text);
	json_decref(row);
	free(answer);
}

static void test_which(void **state)
{
	struct err err = {0};
	struct store *s;
	struct str rows = {0};
	int64_t run;
	int count = 0;
	const char *build = getenv("BUILD");
	char *dir = path_join(build ? build : "build/release", "ref/pipeline_rows"), *path = path_join(dir, "hone.db");
	dir_remove(dir, NULL);
	assert_int_equal(dir_make(dir, &err), 0);
	json_t *config = json_object();
	if (store_open(path, &s, &err) || store_run_open(s, "front", config, &run, &err)) fail_msg("%s", err.text);
	/* What is wrong, what has no predicted time, what was there before, and what is one
	 * too many stay behind. */
	sample_put(s, run, 0, "wrong = 1", "wrong", 1e-6);
	sample_put(s, run, 1, "untimed = 1", "genuine", 0);
	sample_put(s, run, 2, "first = 1", "genuine", 2e-6);
	sample_put(s, run, 3, "first = 1", "genuine", 2e-6);
	sample_put(s, run, 4, "second = 1", "genuine", 1e-6);
	sample_put(s, run, 5, "third = 1", "genuine", 1e-6);
	struct prompt_row row = {
		.task = {.name = (char *)"a", .source = (char *)"S", .structure = (char *)"", .split = (char *)"train"}};
	struct prompt_set tasks = {.rows = &row, .count = 1};
	if (pipeline_rows(s, run, &tasks, 2, &rows, &count, &err)) fail_msg("%s", err.text);
	assert_int_equal(count, 2);
	/* Each row's kernel is the code of the answer, and nothing of what stands around it. */
	static const char *const kernels[] = {"first = 1\n", "second = 1\n"};
	const char *line = rows.data;
	for (size_t i = 0; i < ARRAY_LEN(kernels); i++) {
		const char *next = strchr(line, '\n') + 1, *kernel;
		json_t *made;
		assert_int_equal(json_parse(line, (size_t)(next - line), "a row", &made, &err), 0);
		assert_int_equal(json_get_str(made, "a row", "kernel", &kernel, &err), 0);
		assert_string_equal(kernel, kernels[i]);
		json_decref(made);
		line = next;
	}
	assert_int_equal(line - rows.data, rows.len);
	json_decref(config);
	store_close(s);
	str_release(&rows);
	free(path);
	free(dir);
}

/* None of the above leaves memory or descriptors behind, errors included. */
static void everything(void *ctx) { test_which(NULL); }

static void test_leaves_nothing(void **state) { leaves_nothing(everything, NULL); }

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(test_which), cmocka_unit_test(test_leaves_nothing)};
	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
