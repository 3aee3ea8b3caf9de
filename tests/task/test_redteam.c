/* Candidates that are wrong by construction: all different, the same for the same
 * seed, as many as are said. */
#include "task/task_redteam.h"
#include "base/base.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <cmocka.h>
#include "../leaks.h"

#define MANY 5000

static int by_hash(const void *a, const void *b)
{
	return strcmp(((const struct redteam_candidate *)a)->hash.text, ((const struct redteam_candidate *)b)->hash.text);
}

static void release(struct redteam_candidate *list, int n)
{
	for (int i = 0; i < n; i++) redteam_candidate_release(&list[i]);
	free(list);
}

static void test_distinct(void **state)
{
	struct redteam_candidate *all = NULL, *some = NULL;
	struct err err = {0};
	int n = redteam_count();
	assert_true(n >= MANY);
	/* every one there is: no two texts are equal */
	if (redteam_draw(1, n, NULL, NULL, &all, &err)) fail_msg("%s", err.text);
	qsort(all, (size_t)n, sizeof *all, by_hash);
	for (int i = 1; i < n; i++)
		if (!strcmp(all[i].hash.text, all[i - 1].hash.text)) fail_msg("%s is %s", all[i].name, all[i - 1].name);
	release(all, n);
	/* a seed names them */
	assert_int_equal(redteam_draw(7, 50, NULL, NULL, &all, &err), 0);
	assert_int_equal(redteam_draw(7, 50, NULL, NULL, &some, &err), 0);
	for (int i = 0; i < 50; i++) assert_string_equal(all[i].source.data, some[i].source.data);
	release(some, 50);
	assert_int_equal(redteam_draw(8, 50, NULL, NULL, &some, &err), 0);
	int same = 0;
	for (int i = 0; i < 50; i++) same += !strcmp(all[i].name, some[i].name);
	assert_true(same < 10);
	release(all, 50);
	release(some, 50);
	assert_int_equal(redteam_draw(1, n + 1, NULL, NULL, &all, &err), ERR_RANGE);
	assert_int_equal(redteam_draw(1, 1, "nothing", NULL, &all, &err), ERR_RANGE);
}

/* None of the above leaves memory or descriptors behind, errors included. */
static void everything(void *ctx) { test_distinct(NULL); }

static void test_leaves_nothing(void **state) { leaves_nothing(everything, NULL); }

int main(void)
{
	cmocka_set_message_output(CM_OUTPUT_TAP);
	const struct CMUnitTest tests[] = {cmocka_unit_test(test_distinct), cmocka_unit_test(test_leaves_nothing)};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
