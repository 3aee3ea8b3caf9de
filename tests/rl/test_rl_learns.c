/* The loop's learning half without a verifier: sampled answers, a made-up reward, advantages,
 * updates. A policy that is told nothing but rewards must come to earn them. A sign error, a row
 * shifted by one, or an advantage with the wrong baseline leaves the reward where chance puts it.
 *
 * The bandit: the reward is 1 when the first token of the answer is one of GOOD out of VOCAB
 * tokens. A fresh model is close to uniform, so chance is about GOOD / VOCAB = 0.25. All draws are
 * functions of fixed seeds: a result here is the same on every run. */
#include "rl/rl.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

enum { VOCAB = 32, GOOD = 8, K = 16, GROUPS = 2, PROMPT = 4, ANSWER = 3, STEPS = 30 };

static const struct model_config config = {
	.vocab_size = VOCAB,
	.hidden_size = 32,
	.num_hidden_layers = 1,
	.num_attention_heads = 2,
	.num_key_value_heads = 1,
	.head_dim = 16,
	.intermediate_size = 48,
	.max_position_embeddings = 32,
	.rms_norm_eps = 1e-6,
	.rope_theta = 1e4,
	.tie_word_embeddings = true,
	.qk_norm = true,
	.bos_token_id = -1,
	.eos_token_id = -1,
	.pad_token_id = -1,
};

struct bandit {
	struct ops *ops;
	struct model *model;
	struct optimizer *optimizer;
	struct updater *updater;
	struct engine *engine;
	struct prompt_row rows[GROUPS];
	struct prompt_set prompts;
	struct rollout rollouts[GROUPS * K];
};

static void bandit_open(struct bandit *b, enum loss_type loss, int steps_per_generation, int num_iterations)
{
	struct err err = {0};
	struct ops_options oo = {.threads = 1};
	struct engine_options eo = {.max_sequences = GROUPS * K, .max_context = PROMPT + ANSWER};
	struct updater_options uo = {
		.loss = {.type = loss, .epsilon = 0.2f, .epsilon_high = loss == LOSS_CISPO ? 5 : 0.28f},
		.num_iterations = num_iterations,
		.steps_per_generation = steps_per_generation,
		.seed = 3,
		.max_tokens = 256,
		.max_completion_length = ANSWER,
		.temperature = 1,
	};
	struct optimizer_options po = {
		.learning_rate = 2e-2,
		.adam_beta1 = 0.9,
		.adam_beta2 = 0.999,
		.adam_epsilon = 1e-8,
		.max_grad_norm = 1,
		.lr_scheduler_type = "constant",
	};
	/* A fresh model of one seed, an optimizer over all of its parameters, an
	 * updater and an engine. */
	*b = (struct bandit){0};
	if (ops_cpu_create(&oo, &b->ops, &err) || model_create(&config, 7, b->ops, &b->model, &err))
		fail_msg("%s", err.text);
	model_enable_grad(b->model, NULL);
	int n;
	struct param *p = model_params(b->model, &n);
	b->optimizer = optimizer_create(b->ops, p, n, &po);
	if (updater_create(b->model, NULL, b->optimizer, &uo, &b->updater, &err) ||
		engine_create(b->model, &eo, &b->engine, &err))
		fail_msg("%s", err.text);
	/* The prompts are random ids of another seed: all that tells the groups apart. */
	for (int g = 0; g < GROUPS; g++)
		for (int i = 0; i < PROMPT; i++)
			ids_push(&b->rows[g].ids, (int32_t)(rng_u32(5, (uint64_t)g, (uint64_t)i) % VOCAB));
	b->prompts = (struct prompt_set){.rows = b->rows, .count = GROUPS};
}

static void bandit_close(struct bandit *b)
{
	for (int g = 0; g < GROUPS; g++) ids_release(&b->rows[g].ids);
	engine_free(b->engine);
	updater_free(b->updater);
	optimizer_free(b->optimizer);
	model_free(b->model);
	ops_free(b->ops);
}

static void bandit_sample(struct bandit *b, int step)
{
	struct err err = {0};
	for (int g = 0; g < GROUPS; g++) {
		struct request q = {
			.id = g,
			.prompt = b->rows[g].ids.data,
			.nprompt = PROMPT,
			.num_samples = K,
			.sampling = {.temperature = 1, .top_p = 1, .seed = (uint64_t)(step * GROUPS + g + 1)},
			.max_new_tokens = ANSWER,
		};
		if (engine_submit(b->engine, &q, &err)) fail_msg("%s", err.text);
	}
	struct completion c;
	for (int active = 1; active;) engine_step(b->engine, &active);
	while (engine_take(b->engine, &c))
		b->rollouts[(int)c.id * K + c.sample] = (struct rollout){
			.prompt = (int)c.id, .sample = c.sample, .completion = c};
}

/* A verdict stands in for the verifier's: the reward and the advantages then take the loop's own
 * way. */
static double bandit_step(struct bandit *b, int step, enum advantage_type advantage)
{
	double reward = 0;
	int sizes[GROUPS];
	struct update_stats stats;
	struct err err = {0};
	bandit_sample(b, step);
	for (int i = 0; i < GROUPS * K; i++) {
		bool is_good = b->rollouts[i].completion.tokens[0] < GOOD;
		b->rollouts[i].verdict = (struct verdict){
			.class = is_good ? VERDICT_GENUINE : VERDICT_WRONG, .speedup_fused = 1, .cost_s = 1};
		reward += is_good;
	}
	for (int g = 0; g < GROUPS; g++) sizes[g] = K;
	const struct advantage_options o = {
		.rule = reward_rule_find("frontend"), .type = advantage, .weight = 1, .negative_weight = 1};
	rollouts_advantages(b->rollouts, sizes, GROUPS, &o, &b->prompts, NULL);
	if (updater_run(b->updater, b->rollouts, GROUPS * K, &b->prompts, NULL, false, &stats, &err))
		fail_msg("%s", err.text);
	rollouts_release(b->rollouts, GROUPS * K);
	return reward / (GROUPS * K);
}

/* Chance is 0.25; the mean of 4 steps x 32 answers has a standard error of 0.038 there, so 0.45 is
 * five of them above what chance gives. */
static void learns(enum loss_type loss, enum advantage_type advantage, int steps_per_generation, int num_iterations)
{
	struct bandit b;
	double first = 0, last = 0;
	bandit_open(&b, loss, steps_per_generation, num_iterations);
	for (int s = 0; s < STEPS; s++) {
		double r = bandit_step(&b, s, advantage);
		if (s < 2) first += r / 2;
		if (s >= STEPS - 4) last += r / 4;
	}
	bandit_close(&b);
	print_message("# loss %d, advantage %d, %d x %d updates: reward %.3f -> %.3f\n", (int)loss, (int)advantage,
		num_iterations, steps_per_generation, first, last);
	if (!(first < 0.45)) fail_msg("reward before learning %.3f: the task is not one", first);
	if (!(last > 0.8)) fail_msg("reward after %d updates %.3f, expected more than 0.8", STEPS, last);
}

static void test_losses(void **state)
{
	for (enum loss_type t = LOSS_GRPO; t < LOSS_TYPE_COUNT; t++) learns(t, ADVANTAGE_LEAVE_ONE_OUT, 1, 1);
}

static void test_advantages(void **state)
{
	for (enum advantage_type a = 0; a < ADVANTAGE_TYPE_COUNT; a++) learns(LOSS_DR_GRPO, a, 1, 1);
}

/* Mini-batches and several passes, also for the loss whose ratio is a sequence's. */
static void test_mini_batches(void **state)
{
	learns(LOSS_DAPO, ADVANTAGE_LEAVE_ONE_OUT, 4, 2);
	learns(LOSS_GSPO, ADVANTAGE_LEAVE_ONE_OUT, 2, 2);
	learns(LOSS_CISPO, ADVANTAGE_MAXRL, 2, 1);
}

/* The counter-proof: advantages of the wrong sign unlearn, so the reward is
 * what moves the policy. */
static void test_wrong_sign_unlearns(void **state)
{
	struct bandit b;
	double last = 0;
	bandit_open(&b, LOSS_DR_GRPO, 1, 1);
	for (int s = 0; s < STEPS; s++) {
		struct update_stats stats;
		struct err err = {0};
		bandit_sample(&b, s);
		for (int i = 0; i < GROUPS * K; i++) {
			bool is_good = b.rollouts[i].completion.tokens[0] < GOOD;
			b.rollouts[i].advantage_plan = b.rollouts[i].advantage_code = is_good ? -1 : 0.25;
			if (s >= STEPS - 4) last += is_good / (4.0 * GROUPS * K);
		}
		if (updater_run(b.updater, b.rollouts, GROUPS * K, &b.prompts, NULL, false, &stats, &err))
			fail_msg("%s", err.text);
		rollouts_release(b.rollouts, GROUPS * K);
	}
	bandit_close(&b);
	assert_true(last < 0.1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(test_losses), cmocka_unit_test(test_advantages),
		cmocka_unit_test(test_mini_batches), cmocka_unit_test(test_wrong_sign_unlearns)};
	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
