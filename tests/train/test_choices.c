/* A checkpoint keeps what the device's libraries chose, and a run goes on only where it can choose
 * the same: on the device "check", which says that it chose, and on the CPU, which never does. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <cmocka.h>
#include "ops/ops.h"
#include "train/train.h"
#include "../leaks.h"

#define FILE_NAME "algorithms.json"

struct side {
	struct ops *ops;
	struct model *m;
	struct adapter *a;
	struct optimizer *o;
};

static void side_open(struct side *s, const char *device)
{
	struct err err = {0};
	struct model_config c = {.vocab_size = 61,
		.hidden_size = 16,
		.num_hidden_layers = 1,
		.num_attention_heads = 2,
		.num_key_value_heads = 1,
		.head_dim = 8,
		.intermediate_size = 24,
		.max_position_embeddings = 64,
		.rms_norm_eps = 1e-6,
		.rope_theta = 10000,
		.qk_norm = true,
		.bos_token_id = -1,
		.eos_token_id = -1,
		.pad_token_id = -1};
	struct optimizer_options oo = {.learning_rate = 1e-3, .lr_scheduler_type = "constant"};
	int n;
	/* A model of one layer with an adapter: two sides differ in their device alone. */
	assert_int_equal(ops_open(device, &(struct ops_options){.threads = 1}, &s->ops, &err), 0);
	assert_int_equal(model_create(&c, 1, s->ops, &s->m, &err), 0);
	assert_int_equal(adapter_create(s->m, &(struct adapter_options){.r = 2, .lora_alpha = 4}, &s->a, &err), 0);
	model_enable_grad(s->m, s->a);
	struct param *params = adapter_params(s->a, &n);
	s->o = optimizer_create(s->ops, params, n, &oo);
}

static void side_close(struct side *s)
{
	optimizer_free(s->o);
	adapter_free(s->a);
	model_free(s->m);
	ops_free(s->ops);
}

static void save(const char *device, const char *dir)
{
	struct side s;
	struct err err = {0};
	struct checkpoint_state state = {.step = 3};
	side_open(&s, device);
	dir_remove(dir, NULL);
	assert_int_equal(dir_make(dir, &err), 0);
	if (checkpoint_save(dir, s.m, s.a, s.o, &state, 1, &err)) fail_msg("%s", err.text);
	side_close(&s);
}

static int load(const char *device, const char *dir, struct err *err)
{
	struct side s;
	struct checkpoint_state state = {0};
	side_open(&s, device);
	int rc = checkpoint_load(dir, s.m, s.a, s.o, NULL, &state, err);
	if (!rc) assert_int_equal(state.step, 3);
	json_decref(state.extra);
	side_close(&s);
	return rc;
}

static void test_choices(void **unused)
{
	const char *build = getenv("BUILD") ? getenv("BUILD") : "build/release";
	char *dir = path_join(build, "ref/choices"), *file = path_join(dir, "checkpoint-3/" FILE_NAME),
		 *state = path_join(dir, "checkpoint-3/trainer_state.json");
	struct err err = {0};
	json_t *j;
	char *ref = path_join(build, "ref");
	assert_int_equal(dir_make(ref, &err), 0);
	save("check", dir);
	assert_true(path_exists(file));
	assert_int_equal(load("check", dir, &err), 0);

	/* A library that chooses nothing cannot go on with another's choices, nor can
	 * one of another version. */
	assert_int_equal(load("cpu", dir, &err), ERR_MISMATCH);
	assert_non_null(strstr(err.text, "checkpoint-3 cannot be continued here with the bits it would have had"));
	assert_non_null(strstr(err.text, "--output_dir"));
	assert_int_equal(json_load(file, 1 << 20, &j, &err), 0);
	json_object_set_new(j, "library", json_string("check 2"));
	assert_int_equal(json_save(file, j, &err), 0);
	json_decref(j);
	assert_int_equal(load("check", dir, &err), ERR_MISMATCH);
	assert_non_null(strstr(err.text, "were chosen with check 2, here it is check"));
	/* What is no JSON is said to be none. */
	assert_int_equal(file_write_atomic(file, "{", 1, &err), 0);
	assert_int_equal(load("check", dir, &err), ERR_FORMAT);
	assert_non_null(strstr(err.text, FILE_NAME));

	/* The CPU writes no such file, and its checkpoints go on anywhere that their settings allow. */
	save("cpu", dir);
	assert_false(path_exists(file));
	assert_int_equal(load("cpu", dir, &err), 0);
	/* A state of another step than its folder's is no checkpoint. */
	assert_int_equal(json_load(state, 1 << 20, &j, &err), 0);
	json_object_set_new(j, "global_step", json_integer(4));
	assert_int_equal(json_save(state, j, &err), 0);
	json_decref(j);
	assert_int_equal(load("cpu", dir, &err), ERR_FORMAT);
	assert_non_null(strstr(err.text, "trainer_state.json: global_step is 4, its folder is of step 3"));
	free(state);
	free(ref);
	free(dir);
	free(file);
}

/* None of the above leaves memory or descriptors behind, errors included. */
static void everything(void *ctx) { test_choices(NULL); }

static void test_leaves_nothing(void **state) { leaves_nothing(everything, NULL); }

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(test_choices), cmocka_unit_test(test_leaves_nothing)};
	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
