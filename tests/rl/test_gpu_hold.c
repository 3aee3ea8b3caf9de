/* A GPU that is shared: while somebody has its lock alone no step is made, and who wants it gets it
 * between two steps. The CPU generates here, under the lock of a GPU that is not there. */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdlib.h>
#include <cmocka.h>
#include "infer/infer.h"
#include "ops/ops.h"
#include "rl/rl_internal.h"
#include "verify/gpu_lock.h"

enum { WINDOWS = 5, SAMPLES = 4, TOKENS = 900 };
static const char gpu[] = "GPU-test-hold";
static const struct model_config config = {
	.vocab_size = 61,
	.hidden_size = 32,
	.num_hidden_layers = 2,
	.num_attention_heads = 2,
	.num_key_value_heads = 1,
	.head_dim = 16,
	.intermediate_size = 48,
	.max_position_embeddings = 1024,
	.rms_norm_eps = 1e-6,
	.rope_theta = 1000,
	.tie_word_embeddings = true,
	.bos_token_id = -1,
	.eos_token_id = -1,
	.pad_token_id = -1,
};

static atomic_int begun, ended, windows, spoiled;
static atomic_bool over;

/* Takes the GPU alone again and again, and looks whether anything moves meanwhile. */
static void *time_things(void *unused)
{
	struct err err = {0};
	while (windows < WINDOWS && !over) {
		int lock;
		if (gpu_lock_take(NULL, gpu, true, 60000, &lock, &err)) break;
		int before = begun;
		bool moves = before != ended;
		sleep_ms(20);
		spoiled += moves || before != begun;
		windows++;
		gpu_lock_release(lock);
		sleep_ms(1);
	}
	return NULL;
}

static void test_windows(void **state)
{
	struct ops *ops;
	struct model *m;
	struct engine *e;
	struct err err = {0};
	pthread_t thread;
	char *folder = xasprintf("%s/ref/gpu_hold", getenv("BUILD") ? getenv("BUILD") : "build/release");
	assert_int_equal(dir_make(folder, &err), 0);
	setenv("HONE_LOCKS", folder, 1);
	assert_int_equal(ops_open("cpu", &(struct ops_options){.threads = 1}, &ops, &err), 0);
	assert_int_equal(model_create(&config, 2, ops, &m, &err), 0);
	const struct engine_options o = {.max_sequences = SAMPLES, .max_context = 1000};
	assert_int_equal(engine_create(m, &o, &e, &err), 0);
	const int32_t prompt[] = {1, 2, 3};
	const struct request r = {.prompt = prompt,
		.nprompt = 3,
		.num_samples = SAMPLES,
		.sampling = {.temperature = 1, .top_p = 1, .seed = 1},
		.max_new_tokens = TOKENS};
	assert_int_equal(engine_submit(e, &r, &err), 0);
	assert_int_equal(pthread_create(&thread, NULL, time_things, NULL), 0);
	/* Steps are counted as a held step does them: begun and ended inside the lock. */
	int active = 1;
	while (active) {
		int lock;
		assert_int_equal(gpu_hold(gpu, "here", &lock, &err), 0);
		begun++;
		ended++;
		gpu_let_go(lock);
		assert_int_equal(engine_step_held(e, gpu, &active, &err), 0);
	}
	over = true;
	pthread_join(thread, NULL);
	assert_int_equal(windows, WINDOWS); /* all of them while the engine had work */
	assert_int_equal(spoiled, 0);
	assert_int_equal(engine_tokens_generated(e), SAMPLES * TOKENS);
	/* Where there is no GPU nothing is locked. */
	int none;
	assert_int_equal(gpu_hold("", "here", &none, &err) || none != -1, 0);
	/* A lock that cannot be had is said, and no step is made. */
	setenv("HONE_LOCKS", "/dev/null", 1);
	active = 7;
	assert_int_equal(engine_step_held(e, gpu, &active, &err), ERR_IO);
	assert_int_equal(active, 7);
	for (struct completion c; engine_take(e, &c);) completion_release(&c);
	engine_free(e);
	model_free(m);
	ops_free(ops);
	free(folder);
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(test_windows)};
	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
