/* update_world: a tiny random model with an adapter, one prompt, K answers that its own engine
 * sampled, and an updater over them. What test_update.c and test_update_sampling.c share. */
#ifndef HONE_TEST_UPDATE_WORLD_H
#define HONE_TEST_UPDATE_WORLD_H
#include "rl/rl.h"
#include "rl/rl_internal.h"
#include "train/train_internal.h"
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

static inline struct prompt_row make_row(void)
{
	struct prompt_row r = {.text = NULL};
	for (int i = 0; i < PROMPT; i++) ids_push(&r.ids, (int32_t)(rng_u32(3, 1, (uint64_t)i) % (VOCAB - 1)));
	return r;
}

/* Answers come from the engine itself, so that they carry the sampler's log-probabilities. */
static inline void sample_answers(struct fixture *f)
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

static inline int setup(void **state)
{
	struct fixture *f = xcalloc(1, sizeof *f);
	struct err err = {0};
	struct ops_options oo = {.threads = 1};
	if (ops_cpu_create(&oo, &f->ops, &err) || model_create(&config, 5, f->ops, &f->model, &err))
		fail_msg("%s", err.text);
	struct adapter_options a = {.r = 4, .lora_alpha = 8, .lora_dropout = 0.3, .seed = 9}; /* acts with a seed alone */
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

static inline int teardown(void **state)
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

/* What a test asks of an updater beside the usual. */
static struct updater_options asked __attribute__((unused));

static inline struct update_stats update(
	struct fixture *f, double lr, int max_tokens, int num_iterations, enum loss_type type, float beta)
{
	int n;
	struct param *p = adapter_params(f->adapter, &n);
	/* An optimiser of its own, so that no moments are left of an earlier call. */
	struct optimizer_options oo = {.learning_rate = lr,
		.adam_beta1 = 0.9,
		.adam_beta2 = 0.999,
		.adam_epsilon = 1e-8,
		.lr_scheduler_type = "constant"};
	struct optimizer *opt = optimizer_create(f->ops, p, n, &oo);
	struct updater_options uo = asked;
	uo.loss = (struct loss_options){
		.type = type, .epsilon = 0.2f, .epsilon_high = type == LOSS_CISPO ? 5 : 0.28f, .beta = beta};
	uo.num_iterations = num_iterations;
	uo.max_tokens = max_tokens;
	uo.max_completion_length = ANSWER;
	uo.temperature = 1;
	struct updater *u;
	struct update_stats stats;
	struct err err = {0};
	if (updater_create(f->model, f->adapter, opt, &uo, &u, &err)) fail_msg("%s", err.text);
	if (updater_run(u, f->rollouts, K, &f->prompts, NULL, false, &stats, &err)) fail_msg("%s", err.text);
	updater_free(u);
	optimizer_free(opt);
	return stats;
}

/* An updater for more than one call; lr 0 unless a test says otherwise. */
struct open {
	struct optimizer *optimizer;
	struct updater *updater;
};
static inline struct open open_updater(struct fixture *f, struct updater_options uo, double lr, int64_t max_steps)
{
	struct open x;
	struct err err = {0};
	int n;
	struct param *p = adapter_params(f->adapter, &n);
	struct optimizer_options oo = {.learning_rate = lr,
		.adam_beta1 = 0.9,
		.adam_beta2 = 0.999,
		.adam_epsilon = 1e-8,
		.max_steps = max_steps,
		.lr_scheduler_type = max_steps ? "linear" : "constant"};
	uo.max_tokens = uo.max_tokens ? uo.max_tokens : 512;
	uo.max_completion_length = ANSWER;
	uo.temperature = 1;
	uo.loss.type = uo.loss.type == LOSS_SFT ? LOSS_GRPO : uo.loss.type;
	uo.loss.epsilon = 0.2f;
	uo.loss.epsilon_high = 0.28f;
	x.optimizer = optimizer_create(f->ops, p, n, &oo);
	if (updater_create(f->model, f->adapter, x.optimizer, &uo, &x.updater, &err)) fail_msg("%s", err.text);
	return x;
}
static inline struct update_stats run(struct fixture *f, const struct open *x, int n)
{
	struct update_stats stats;
	struct err err = {0};
	if (updater_run(x->updater, f->rollouts, n, &f->prompts, NULL, false, &stats, &err)) fail_msg("%s", err.text);
	return stats;
}
static inline void close_updater(struct open *x)
{
	updater_free(x->updater);
	optimizer_free(x->optimizer);
}
#endif
