/* Checkpoints, saved and loaded, and the folder of a run: whichever call of the machine fails, it
 * is said, and the newest checkpoint is a whole one. */
#include "../failing_calls.h"
#include "sft_run_ref.h"

static struct sft_setup setup;
static struct optimizer *optimizer;
static char *run_dir;
static int64_t step; /* of the newest checkpoint that was said to be saved */

static int claim(void *ctx, struct err *err) { return run_folder_claim(run_dir, err); }

static int load(void *ctx, struct err *err)
{
	struct checkpoint_state s = {0};
	int rc = checkpoint_load(run_dir, setup.m, setup.a, optimizer, NULL, &s, err);
	if (!rc) assert_int_equal(json_integer_value(json_object_get(s.extra, "own")), s.step);
	if (!rc) assert_true(s.step >= step);
	json_decref(s.extra);
	return rc;
}

static int save(void *ctx, struct err *err)
{
	struct checkpoint_state s = {.step = step + 1, .extra = json_pack("{s:I}", "own", (json_int_t)step + 1)};
	struct err why = {0};
	int rc = checkpoint_save(run_dir, setup.m, setup.a, optimizer, &s, 2, err), failing = calls_left;
	json_decref(s.extra);
	/* Whether it was saved or not, what is there can be loaded. */
	calls_left = 0;
	if (!rc) step++;
	if (step && load(NULL, &why)) fail_msg("after call %s: %s", call_failed, why.text);
	calls_left = failing;
	return rc;
}

static void calls_of(bool with_adapter)
{
	struct err err = {0};
	int n;
	step = 0;
	sft_setup_make(&setup, with_adapter);
	struct optimizer_options o = {.learning_rate = 1e-3, .adam_beta1 = 0.9, .adam_beta2 = 0.99, .adam_epsilon = 1e-8};
	o.lr_scheduler_type = "constant";
	o.max_steps = 1000;
	model_enable_grad(setup.m, setup.a);
	struct param *p = with_adapter ? adapter_params(setup.a, &n) : model_params(setup.m, &n);
	optimizer = optimizer_create(setup.ops, p, n, &o);
	each_call_fails("a checkpoint", save, NULL, 18);
	each_call_fails("loading it", load, NULL, 6);
	optimizer_free(optimizer);
	sft_setup_release(&setup);
	if (dir_remove(run_dir, &err)) fail_msg("%s", err.text);
}

static void test_calls(void **state)
{
	run_dir = path_join(failing_folder, "run");
	each_call_fails("claiming a folder", claim, NULL, 2);
	calls_of(true);
	calls_of(false);
	free(run_dir);
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(test_calls)};
	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, failing_set_up, failing_tear_down);
}
