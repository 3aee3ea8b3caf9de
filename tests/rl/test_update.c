/* The update, on a tiny random model: packing does not matter, the ratio of the recomputation is
 * exactly 1, what the sampler recorded is what the trainer recomputes, gradients point the right
 * way. */
#include "rl/rl.h"
#include "../model/host_values.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

enum { VOCAB = 61, K = 6, PROMPT = 7, ANSWER = 11 };

static const struct model_config config = {
	.vocab_size = VOCAB,
	.hidden_size = 32,
	.num_hidden_layers = 2,
	.num_attention_heads = 4,
	.num_key_value_heads = 2,
	.head_dim = 16,
	.intermediate_size = 48,
	.max_position_embeddings = 64,
	.rms_norm_eps = 1e-6,
	.rope_theta = 1e4,
	.tie_word_embeddings = true,
	.qk_norm = true,
	.bos_token_id = -1,
	.eos_token_id = VOCAB - 1,
	.pad_token_id = -1,
};

struct fixture {
	struct ops *ops;
	struct model *model;
	struct adapter *adapter;
	struct prompt_row row;
	struct prompt_set prompts;
	struct rollout rollouts[K];
};

static struct prompt_row make_row(void)
{
	struct prompt_row r = {.text = NULL};
	for (int i = 0; i < PROMPT; i++) ids_push(&r.ids, (int32_t)(rng_u32(3, 1, (uint64_t)i) % (VOCAB - 1)));
	return r;
}

/* Answers come from the engine itself, so that they carry the sampler's log-probabilities. */
static void sample_answers(struct fixture *f)
{
	struct engine *e;
	struct err err = {0};
	struct engine_options o = {.max_sequences = 4, .max_context = PROMPT + ANSWER};
	if (engine_create(f->model, &o, &e, &err)) fail_msg("%s", err.text);
	struct request q = {
		.prompt = f->row.ids.data,
		.nprompt = PROMPT,
		.num_samples = K,
		.sampling = {.temperature = 1, .top_p = 1, .seed = 11},
		.max_new_tokens = ANSWER,
		.adapter = f->adapter,
	};
	if (engine_submit(e, &q, &err)) fail_msg("%s", err.text);
	for (int active = 1; active;) engine_step(e, &active);
	struct completion c;
	for (int n = 0; engine_take(e, &c); n++)
		f->rollouts[c.sample] = (struct rollout){.sample = c.sample, .completion = c};
	engine_free(e);
}

static int setup(void **state)
{
	struct fixture *f = xcalloc(1, sizeof *f);
	struct err err = {0};
	struct ops_options oo = {.threads = 1};
	if (ops_cpu_create(&oo, &f->ops, &err) || model_create(&config, 5, f->ops, &f->model, &err))
		fail_msg("%s", err.text);
	struct adapter_options a = {.r = 4, .lora_alpha = 8, .seed = 9};
	if (adapter_create(f->model, &a, &f->adapter, &err)) fail_msg("%s", err.text);
	int n;
	struct param *p = adapter_params(f->adapter, &n); /* B = 0 would leave half of the gradients at zero */
	for (int i = 0; i < n; i++)
		for (int64_t k = 0; k < p[i].count; k++)
			host_values(&p[i])[k] = 0.1f * rng_normal(21, (uint64_t)i, (uint64_t)k);
	model_enable_grad(f->model, f->adapter);
	f->row = make_row();
	f->prompts = (struct prompt_set){.rows = &f->row, .count = 1};
	sample_answers(f);
	for (int i = 0; i < K; i++) f->rollouts[i].advantage_plan = f->rollouts[i].advantage_code = i % 3 - 0.7;
	*state = f;
	return 0;
}

static int teardown(void **state)
{
	struct fixture *f = *state;
	rollouts_release(f->rollouts, K);
	ids_release(&f->row.ids);
	adapter_free(f->adapter);
	model_free(f->model);
	ops_free(f->ops);
	free(f);
	return 0;
}

static struct update_stats update(
	struct fixture *f, double lr, int max_tokens, int num_iterations, enum loss_type type, float beta)
{
	int n;
	struct param *p = adapter_params(f->adapter, &n);
	struct optimizer_options oo = {.learning_rate = lr,
		.adam_beta1 = 0.9,
		.adam_beta2 = 0.999,
		.adam_epsilon = 1e-8,
		.lr_scheduler_type = "constant"};
	struct optimizer *opt = optimizer_create(f->ops, p, n, &oo);
	struct updater_options uo = {
		.loss = {.type = type, .epsilon = 0.2f, .epsilon_high = 0.28f, .beta = beta},
		.num_iterations = num_iterations,
		.max_tokens = max_tokens,
		.max_completion_length = ANSWER,
		.temperature = 1,
	};
	struct updater *u;
	struct update_stats stats;
	struct err err = {0};
	if (updater_create(f->model, f->adapter, opt, &uo, &u, &err)) fail_msg("%s", err.text);
	if (updater_run(u, f->rollouts, K, &f->prompts, NULL, false, &stats, &err)) fail_msg("%s", err.text);
	updater_free(u);
	optimizer_free(opt);
	return stats;
}

/* One sequence a micro-batch against all in one: the same sums in another order, so equal to a few
 * hundred rounding errors of fp32 (1e-4 relative). */
static void test_packing_does_not_matter(void **state)
{
	struct update_stats one = update(*state, 0, PROMPT + ANSWER, 1, LOSS_GRPO, 0),
						all = update(*state, 0, 512, 1, LOSS_GRPO, 0);
	assert_true(one.grad_norm > 0);
	assert_true(fabs(one.grad_norm - all.grad_norm) < 1e-4 * one.grad_norm);
	assert_true(fabs(one.loss.loss - all.loss.loss) < 1e-4 * fmax(1e-3, fabs(all.loss.loss)));
	assert_int_equal(one.loss.rows, all.loss.rows);
}

/* With lr 0 both iterations see the same weights: the recomputation and the training pass must
 * agree to the last bit. */
static void test_ratio_is_exactly_one(void **state)
{
	for (enum loss_type t = LOSS_GRPO; t < LOSS_TYPE_COUNT; t++) {
		assert_true(update(*state, 0, 64, 1, t, 0).loss.ratio_max_dev == 0);
		assert_true(update(*state, 0, 64, 2, t, 0).loss.ratio_max_dev == 0);
	}
}

static void test_second_iteration_moves(void **state)
{
	assert_true(update(*state, 1e-3, 64, 2, LOSS_DAPO, 0).loss.ratio_max_dev > 0);
}

/* Sampler and trainer run the same walk over fp32; logits of size about 1 over a hidden size of 32
 * differ by reordered sums alone: well below 1e-5. */
static void test_sampler_gap(void **state)
{
	struct update_stats s = update(*state, 0, 512, 1, LOSS_GRPO, 0);
	assert_true(s.loss.logprob_diff_max < 1e-5);
	assert_true(s.loss.rows > 0 && s.loss.logprob_diff_sum / (double)s.loss.rows < 2e-6);
}

/* k3 >= 0, and exactly 0 when policy and reference agree: here the adapter is not zero, so it must
 * be positive. */
static void test_kl_needs_a_reference(void **state)
{
	assert_true(update(*state, 0, 512, 1, LOSS_GRPO, 0.1f).loss.kl > 0);
	assert_true(update(*state, 0, 512, 1, LOSS_GRPO, 0).loss.kl == 0);
}

/* A step on one answer with a positive advantage alone makes it likelier: its log-probabilities
 * leave the recorded ones upwards. */
static void test_direction(void **state)
{
	struct fixture *f = *state;
	for (int k = 0; k < K; k++) f->rollouts[k].is_dropped = k != 2;
	f->rollouts[2].advantage_plan = f->rollouts[2].advantage_code = 1;
	update(f, 1e-2, 64, 1, LOSS_DAPO, 0);
	struct update_stats after = update(f, 0, 64, 1, LOSS_DAPO, 0);
	assert_true(after.loss.logprob_diff_sum > 0.05);
	struct err err = {0};
	struct pass *pass;
	struct pass_options po = {.max_tokens = 64, .head_rows = 64};
	if (pass_create(f->model, &po, &pass, &err)) fail_msg("%s", err.text);
	const struct completion *c = &f->rollouts[2].completion;
	int32_t ids[PROMPT + ANSWER], pos[PROMPT + ANSWER], start[2] = {0, PROMPT + c->count};
	struct head_row rows[ANSWER];
	float logprob[ANSWER];
	for (int i = 0; i < PROMPT + c->count; i++) {
		ids[i] = i < PROMPT ? f->row.ids.data[i] : c->tokens[i - PROMPT];
		pos[i] = i;
	}
	for (int i = 0; i < c->count; i++) rows[i] = (struct head_row){PROMPT + i - 1, c->tokens[i]};
	struct batch b = {ids, {PROMPT + c->count, 1, start, pos}};
	pass_forward(pass, f->adapter, &b, 0);
	pass_logprobs(pass, rows, c->count, 1, logprob, NULL);
	double before = 0, now = 0;
	for (int i = 0; i < c->count; i++) {
		before += c->logprobs[i];
		now += logprob[i];
	}
	assert_true(now > before + 0.05);
	pass_free(pass);
}

static void test_dropped_and_zero_do_not_train(void **state)
{
	struct fixture *f = *state;
	f->rollouts[0].is_dropped = true;
	f->rollouts[1].advantage_plan = f->rollouts[1].advantage_code = 0;
	assert_int_equal(update(f, 0, 64, 1, LOSS_GRPO, 0).sequences, K - 2);
	for (int k = 0; k < K; k++) f->rollouts[k].is_dropped = true;
	struct update_stats s = update(f, 1, 64, 1, LOSS_GRPO, 0);
	assert_int_equal(s.sequences, 0);
	assert_true(s.grad_norm == 0 && s.tokens == 0);
}

int main(void)
{
#define T(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
	const struct CMUnitTest tests[] = {
		T(test_packing_does_not_matter),
		T(test_ratio_is_exactly_one),
		T(test_second_iteration_moves),
		T(test_sampler_gap),
		T(test_kl_needs_a_reference),
		T(test_direction),
		T(test_dropped_and_zero_do_not_train),
	};
	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
