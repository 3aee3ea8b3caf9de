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

/* All of them, in the order of a seed, byte for byte: what docs/results.md says about a seed is
 * said about these texts. Whoever changes one on purpose writes the new hash here. */
static void test_texts_of_a_seed(void **state)
{
	struct redteam_candidate *all = NULL;
	struct task_set tasks = {0};
	struct str text = {0};
	struct err err = {0};
	int n = redteam_count();
	if (redteam_draw(42, n, NULL, NULL, &all, &err) || redteam_tasks(&tasks, &err)) fail_msg("%s", err.text);
	for (int i = 0; i < n; i++) {
		str_printf(&text, "%s %s %s %d\n", all[i].name, all[i].family, all[i].payload, all[i].task);
		str_append(&text, all[i].source.data, all[i].source.len);
		assert_true(all[i].task >= 0 && (size_t)all[i].task < tasks.count);
	}
	/* Each task is whole, and the candidate of its number is named after it. */
	for (size_t i = 0; i < tasks.count; i++) {
		const struct task *t = &tasks.tasks[i];
		str_printf(&text, "%s %s %s %d\n%s", t->name, t->structure, t->split, t->level, t->source);
		assert_string_equal(t->hash.text, hash_bytes(t->source, strlen(t->source)).text);
	}
	for (int i = 0; i < n; i++) {
		const char *base = tasks.tasks[all[i].task].name + strlen("redteam-");
		assert_memory_equal(all[i].name, base, strlen(base));
		assert_int_equal(all[i].name[strlen(base)], '/');
	}
	assert_string_equal(
		hash_bytes(text.data, text.len).text, "0418cbba67fc0c4bb29b01f6b0c5daebabd0b8ee99a7850f4c8a9b1a2853bd7e");
	release(all, n);
	task_set_release(&tasks);
	str_release(&text);
	/* One family, one payload. */
	assert_int_equal(redteam_draw(3, 40, "size", "halved", &all, &err), 0);
	for (int i = 0; i < 40; i++) {
		assert_string_equal(all[i].family, "size");
		assert_string_equal(all[i].payload, "halved");
	}
	release(all, 40);
	assert_int_equal(redteam_draw(3, 1, NULL, "halve", &all, &err), ERR_USAGE);
	assert_non_null(strstr(err.text, "\"halve\": expected one of "));
	assert_non_null(strstr(err.text, "endless, halved"));
	assert_int_equal(redteam_draw(3, 100000, "size", "halved", &all, &err), ERR_RANGE);
}

/* None of the above leaves memory or descriptors behind, errors included. */
static void everything(void *ctx)
{
	test_distinct(NULL);
	test_texts_of_a_seed(NULL);
}

static void test_leaves_nothing(void **state) { leaves_nothing(everything, NULL); }

int main(void)
{
	cmocka_set_message_output(CM_OUTPUT_TAP);
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_distinct), cmocka_unit_test(test_texts_of_a_seed), cmocka_unit_test(test_leaves_nothing)};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
