/* Single steps of the optimiser, by hand: without momentum a gradient g moves its weight by
 * rate * g / (|g| + 1). What limits and scales the next step alone is gone behind it. And what else
 * a run asks before it begins. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>
#include <cmocka.h>
#include "ops/ops.h"
#include "train/train.h"
#include "../leaks.h"

static void test_steps(void **state)
{
	static const struct {
		double fixed;      /* limit of every gradient's norm; 0: none */
		double rate_scale; /* of this step, and its own limit; 0: not said */
		double next_norm;
		double gradient;
		double moves; /* the weight, at a rate of 1/2 */
	} rows[] = {
		{0, 0, 0, 3, -0.5 * 3 / 4},
		{0, 0, 0, -3, 0.5 * 3 / 4},
		{0, 0.1, 0, 3, -0.05 * 3 / 4},
		{0, 1, 1.5, 3, -0.5 * 1.5 / 2.5},
		{0, 1, 4, 3, -0.5 * 3 / 4},
		{2, 0, 0, 3, -0.5 * 2 / 3},
		{2, 1, 1.5, 3, -0.5 * 1.5 / 2.5},
		{2, 1, 2.5, 3, -0.5 * 2 / 3},
		{4, 0, 0, 3, -0.5 * 3 / 4},
		{0, 0, 0, 0, 0},
		{0, 0.1, 1, NAN, 0},
		{0, 0.1, 1, INFINITY, 0},
	};
	const struct model_config c = {.vocab_size = 7,
		.hidden_size = 8,
		.num_hidden_layers = 1,
		.num_attention_heads = 2,
		.num_key_value_heads = 1,
		.head_dim = 4,
		.intermediate_size = 12,
		.max_position_embeddings = 16,
		.rms_norm_eps = 1e-6,
		.rope_theta = 10000,
		.tie_word_embeddings = true};
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct ops *ops;
		struct model *m;
		struct err err = {0};
		int n;
		if (ops_cpu_create(&(struct ops_options){.threads = 1}, &ops, &err)) fail_msg("%s", err.text);
		if (model_create(&c, 1, ops, &m, &err)) fail_msg("%s", err.text);
		model_enable_grad(m, NULL);
		struct param *p = model_params(m, &n);
		struct optimizer_options oo = {
			.learning_rate = 0.5, .adam_epsilon = 1, .max_grad_norm = rows[i].fixed, .lr_scheduler_type = "constant"};
		struct optimizer *o = optimizer_create(ops, p, n, &oo);
		float *weights = (float *)(void *)p[2].w.w, *gradients = (float *)(void *)p[2].w.grad;
		/* Twice: the second step has only what holds for every one. A step that is skipped between
		 * them moves nothing and counts. */
		for (int k = 0; k < 2; k++) {
			float before = weights[3], beside = weights[4];
			uint64_t changes = *p[2].changes;
			gradients[3] = (float)(k ? 3 : rows[i].gradient);
			if (!k && rows[i].rate_scale > 0) optimizer_next(o, rows[i].rate_scale, rows[i].next_norm);
			double norm = optimizer_step(o), moves = k ? -0.5 * 3 / 4 : rows[i].moves;
			if (k && rows[i].fixed == 2) moves = -0.5 * 2 / 3;
			/* A few roundings of numbers below 4. */
			if (fabs((double)weights[3] - (double)before - moves) > 4e-6)
				fail_msg("row %zu, step %d: moves %g, not %g", i, k, (double)weights[3] - (double)before, moves);
			bool is_finite = k || isfinite(rows[i].gradient);
			assert_true(is_finite ? fabs(norm - fabs(k ? 3 : rows[i].gradient)) < 1e-6 : !isfinite(norm));
			assert_true(weights[4] == beside && gradients[3] == 0);
			assert_int_equal(*p[2].changes - changes, is_finite ? n : 0); /* one counter of all */
			assert_int_equal(optimizer_steps(o), 1 + 2 * k);
			before = weights[3];
			if (!k) optimizer_skip(o);
			assert_true(weights[3] == before);
		}
		optimizer_free(o);
		model_free(m);
		ops_free(ops);
	}
}

/* Of all losses one looks at the ratio of a whole sequence. */
static void test_ratios(void **state)
{
	static const char *const names[] = {"sft", "grpo", "dr_grpo", "dapo", "bnpo", "gspo", "cispo"};
	assert_int_equal(ARRAY_LEN(names), LOSS_TYPE_COUNT);
	for (size_t i = 0; i < ARRAY_LEN(names); i++) {
		enum loss_type t;
		struct err err = {0};
		assert_int_equal(loss_type_from_name(names[i], &t, &err), 0);
		assert_int_equal(t, i);
		assert_int_equal(loss_type_needs_sequence_ratio(t), !strcmp(names[i], "gspo"));
	}
}

/* A folder has a checkpoint when one of its entries has the very form of a name. */
static void test_exists(void **state)
{
	static const struct {
		const char *name;
		bool is_one;
	} rows[] = {{"checkpoint-0", true}, {"checkpoint-12", true}, {"checkpoint-123456789012345", true},
		{"checkpoint-1234567890123456", false}, {"checkpoint-", false}, {"checkpoint-1x", false}, {"checkpoint", false},
		{"checkpoint-1.tmp", false}, {"xcheckpoint-1", false}, {"checkpoint--1", false}, {"c", false}};
	char run[] = "/tmp/hone-checkpoints-XXXXXX";
	bool exists = true;
	struct err err = {0};
	assert_int_equal(checkpoint_exists("/nowhere/at/all", &exists, &err), 0);
	assert_false(exists);
	assert_non_null(mkdtemp(run));
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		char *path = path_join(run, rows[i].name);
		assert_int_equal(mkdir(path, 0700), 0);
		assert_int_equal(checkpoint_exists(run, &exists, &err), 0);
		if (exists != rows[i].is_one) fail_msg("%s", rows[i].name);
		assert_int_equal(rmdir(path), 0);
		free(path);
	}
	assert_int_equal(rmdir(run), 0);
}

/* None of the above leaves memory or descriptors behind, errors included. */
static void everything(void *ctx)
{
	test_steps(NULL);
	test_exists(NULL);
}

static void test_leaves_nothing(void **state) { leaves_nothing(everything, NULL); }

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(test_steps), cmocka_unit_test(test_ratios),
		cmocka_unit_test(test_exists), cmocka_unit_test(test_leaves_nothing)};
	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
