/* The settings that a run has where nobody says otherwise: each one that is not zero, by hand. */
#include "rl/rl.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <cmocka.h>
#include "../leaks.h"

static void test_defaults(void **state)
{
	struct rl_options o;
	rl_options_default(&o);
	assert_true(o.policy.use_peft && o.policy.lora_r == 16 && o.policy.lora_alpha == 32 && o.policy.lora_dropout == 0);
	assert_string_equal(o.policy.device, "cpu");
	assert_string_equal(o.policy.chat_template, "auto");
	assert_string_equal(o.stage, "frontend");
	assert_string_equal(o.split, "train");
	assert_string_equal(o.precision, "strict");
	assert_string_equal(o.reward, "frontend");
	assert_string_equal(o.guard, "stop");
	assert_true(o.guard_patience == 3 && o.guard_gap == 0.01 && o.guard_degenerate == 0.5 && o.guard_hack == 0.2 &&
		o.guard_truncation == 0.5 && o.guard_kl == 0 && o.guard_format == 0 && o.guard_collapse == 0.1);
	assert_true(o.eval_limit == 50 && o.eval_patience == 3 && o.eval_steps == 0 && o.replay_weight == 1);
	assert_int_equal(o.max_tokens, 16384);
	assert_int_equal(o.max_completion_length, 8192);
	assert_true(o.temperature == 1 && o.temperature_code == 0 && o.top_p == 1 && o.min_p == 0 && o.seed == 42);
	assert_true(o.optimizer.learning_rate == 1e-5 && o.beta == 0);
	assert_string_equal(o.optimizer.lr_scheduler_type, "constant");
}

/* None of the above leaves memory or descriptors behind, errors included. */
static void everything(void *ctx) { test_defaults(NULL); }

static void test_leaves_nothing(void **state) { leaves_nothing(everything, NULL); }

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(test_defaults), cmocka_unit_test(test_leaves_nothing)};
	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
