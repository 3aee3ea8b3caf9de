/* Settings of `hone rl`: one table drives command line, recipes, --help and what a run records.
 * Names are TRL's where TRL has one. */
#include "rl/rl.h"
#include "base/base.h"
#include "text/text.h"

#define S(field, help, choices) { #field, OPTION_STR, offsetof(struct rl_options, field), help, choices }
#define I(field, help, range) { #field, OPTION_INT, offsetof(struct rl_options, field), help, range }
#define F(field, help, range) { #field, OPTION_FLOAT, offsetof(struct rl_options, field), help, range }
#define B(field, help) { #field, OPTION_BOOL, offsetof(struct rl_options, field), help, NULL }

const struct option_def rl_option_defs[] = {
	S(model, "model folder to start from", NULL),
	S(adapter, "PEFT adapter folder to start from; default: a fresh adapter", NULL),
	S(output_dir, "run folder: checkpoints, metrics.jsonl, final/", NULL),
	S(store, "SQLite file for metrics, samples and verdicts; default: <output_dir>/hone.db", NULL),
	S(stage, "agent", "frontend|midend"),
	S(tasks, "task file or folder (midend: rows with kernel and profile from `hone pairs`)", NULL),
	S(split, "keep tasks of this split; empty keeps all", NULL),
	I(level, "keep tasks of this level; 0: all", "0 to 9"),
	I(limit, "number of tasks after a seeded shuffle; 0: all", "0 or more"),
	S(prompt_template, "template file (recipes/prompts/)", NULL),
	S(chat_template, "chat form of the prompt; auto: what the model's folder says", "auto|" CHAT_TEMPLATE_NAMES),
	S(chat_date, "of chat templates that write the date into the prompt, as \"26 Jul 2024\", which is the default",
		NULL),
	S(precision, "fp32 rule that the verifier applies", "strict|tf32"),
	S(reward, "row of the reward table (docs/rewards.md)",
		"frontend|hrd|uniform|paper-frontend|paper-midend|tritonrl|kevin"),
	S(advantage, "advantages inside a group: leave-one-out, mean and std, mean only, the raw reward",
		"loo|mean_std|mean|raw"),
	S(loss_type, "loss normalisation", "grpo|dr_grpo|dapo|bnpo"),
	B(use_peft, "train a LoRA adapter; --no-use_peft trains all weights"),
	I(lora_r, "adapter rank", "1 to 256"),
	F(lora_alpha, "adapter scaling numerator", "1e-6 or more"),
	F(lora_dropout, "dropout on the adapter's input in the gradient pass alone", "0 to 0.999"),
	S(lora_target_modules, "comma list of projections; default: all seven", NULL),
	I(num_generations, "answers per prompt (K)", "2 to 4096"),
	I(generation_batch_size, "answers per step; a multiple of num_generations", "2 to 262144"),
	I(num_iterations, "updates per batch of answers (mu)", "1 to 1024"),
	F(temperature, "sampling temperature, applied in training too", "0.001 to 1000"),
	I(top_k, "keep the k most likely tokens; 0: off", "0 to 2147483647"),
	F(top_p, "nucleus mass; 1: off", "1e-6 to 1"),
	I(max_prompt_length, "longer prompts are refused and counted; 0: no limit", "0 to 16777216"),
	B(truncate_prompts, "cut long prompts on the left instead (the paper's setting), counted"),
	I(max_completion_length, "tokens per answer", "1 to 16777216"),
	I(max_tokens, "packed tokens per micro-batch", "2 to 16777216"),
	F(learning_rate, "AdamW's learning rate", "0 to 1000"),
	F(adam_beta1, "AdamW beta1", "0 to 0.999999"),
	F(adam_beta2, "AdamW beta2", "0 to 0.99999999"),
	F(adam_epsilon, "AdamW epsilon", "0 to 1"),
	F(weight_decay, "decoupled weight decay", "0 to 1000"),
	F(max_grad_norm, "gradient clipping by global norm; 0: off", "0 or more"),
	S(lr_scheduler_type, "schedule", "constant|constant_with_warmup|linear|cosine"),
	I(warmup_steps, "linear warm-up", "0 or more"),
	F(epsilon, "lower clip range of the ratio", "0 to 1"),
	F(epsilon_high, "upper clip range of the ratio", "0 or more"),
	F(beta, "weight of the KL term to the model without adapter; 0: no reference pass", "0 or more"),
	I(max_steps, "optimiser steps", "0 to 1000000000"),
	F(max_seconds, "stop after this wall time; 0: off", "0 or more"),
	I(save_steps, "checkpoint every N steps; 0: only at the end", "0 or more"),
	I(save_total_limit, "checkpoints kept", "0 to 1048576"),
	I(seed, "of prompts, sampling and hidden inputs", NULL),
	I(threads, "threads of the engine; 0: cores", "0 to 4096"),
	I(verify_threads, "candidates graded at once; 0: cores", "0 to 4096"),
	I(num_correct_trials, "trials per verdict; 0: the verifier's default", "0 to 32"),
	B(dry_run, "print the memory plan, token counts and what would run, and stop"),
};
const size_t rl_option_count = ARRAY_LEN(rl_option_defs);

void rl_options_default(struct rl_options *o)
{
	*o = (struct rl_options){
		.stage = "frontend",
		.split = "train",
		.prompt_template = "recipes/prompts/frontend.txt",
		.chat_template = "auto",
		.precision = "strict",
		.reward = "frontend",
		.advantage = "loo",
		.loss_type = "dr_grpo",
		.epsilon = 0.2,
		.epsilon_high = 0.28,
		.num_generations = 8,
		.generation_batch_size = 64,
		.num_iterations = 1,
		.max_tokens = 16384,
		.max_completion_length = 8192,
		.temperature = 1.0,
		.top_p = 1.0,
		.seed = 42,
		.learning_rate = 1e-5,
		.lr_scheduler_type = "constant",
		.adam_beta1 = 0.9,
		.adam_beta2 = 0.999,
		.adam_epsilon = 1e-8,
		.max_grad_norm = 1.0,
		.use_peft = true,
		.lora_r = 16,
		.lora_alpha = 32,
		.max_steps = 100,
		.save_steps = 50,
		.save_total_limit = 2,
	};
}
