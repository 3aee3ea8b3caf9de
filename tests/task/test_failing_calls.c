/* Sets of tasks, written and read: whichever call of the machine fails, it is said. */
#include "../failing_calls.h"
#include "task/task.h"

static struct task_set set;

static int save(void *path, struct err *err) { return task_set_save(path, &set, err); }

static int load(void *path, struct err *err)
{
	struct task_set back = {0};
	int rc = task_set_load(path, &back, err);
	if (!rc) assert_int_equal(back.count, set.count);
	task_set_release(&back);
	return rc;
}

static void test_calls(void **state)
{
	static const char *const forms[] = {"set.jsonl", "set.jsonl.gz", "folder"};
	struct err err = {0};
	struct task_synth_options o = {.seed = 3, .count = {4}, .level_min = 1, .level_max = 1};
	if (task_synth(&o, &set, &err)) fail_msg("%s", err.text);
	for (size_t i = 0; i < ARRAY_LEN(forms); i++) {
		char *path = path_join(failing_folder, forms[i]);
		each_call_fails(forms[i], save, path, 6);
		each_call_fails(forms[i], load, path, 2);
		free(path);
	}
	task_set_release(&set);
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(test_calls)};
	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, failing_set_up, failing_tear_down);
}
