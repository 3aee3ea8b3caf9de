/* KernelBench's files and run folders, written and read: whichever call of the machine fails, it is
 * said. */
#include "../failing_calls.h"
#include "eval/eval.h"

static struct task tasks[] = {{.name = (char *)(uintptr_t)"level1/3_Relu", .level = 1, .problem_id = 3}};
static const struct task_set set = {tasks, ARRAY_LEN(tasks)};
static char *out, *results, *times;

static int write_results(void *ctx, struct err *err)
{
	struct verdict v = {.class = VERDICT_GENUINE};
	struct kernelbench_times t = {.baseline = json_pack("{s:{s:i}}", "3_Relu.py", "mean", 4)};
	json_t *entries = json_object(), *analysis = NULL;
	kernelbench_add(entries, 3, 0, &v);
	int rc = kernelbench_write(out, entries, &set, 1, &t, &analysis, err);
	assert_true(rc || analysis);
	json_decref(analysis);
	json_decref(entries);
	kernelbench_times_release(&t);
	return rc;
}

static int load_results(void *ctx, struct err *err)
{
	json_t *found = NULL;
	int rc = kernelbench_results_load(results, &found, err);
	if (!rc) assert_int_equal(json_object_size(found), 1);
	json_decref(found);
	return rc;
}

static int load_times(void *ctx, struct err *err)
{
	struct kernelbench_times t;
	int rc = kernelbench_times_load(out, results, times, 1, &t, err);
	assert_true(rc || (t.measured && t.baseline));
	kernelbench_times_release(&t);
	return rc;
}

static int open_folder(void *ctx, struct err *err)
{
	struct run_folder r;
	int rc = run_folder_open(failing_folder, 1, &set, "set", &r, err);
	if (!rc) assert_int_equal(r.count, 1);
	run_folder_release(&r);
	return rc;
}

static void test_calls(void **state)
{
	struct err err = {0};
	char *kernel = path_join(failing_folder, "level_1_problem_3_sample_0_kernel.py");
	out = path_join(failing_folder, "out");
	results = path_join(out, "eval_results.json");
	times = path_join(out, KERNELBENCH_BASELINE);
	assert_int_equal(file_write_atomic(kernel, "x", 1, &err), 0);
	each_call_fails("results", write_results, NULL, 18);
	each_call_fails("reading results", load_results, NULL, 2);
	each_call_fails("reading times", load_times, NULL, 4);
	each_call_fails("a folder of kernels", open_folder, NULL, 1);
	free(kernel);
	free(out);
	free(results);
	free(times);
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(test_calls)};
	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, failing_set_up, failing_tear_down);
}
