/* rl: the loop. prompts -> rollouts (generation and verdicts overlap) -> rewards -> advantages ->
 * update, and evaluation with the same parts.
 *
 * Every random choice is a function of (seed, step, prompt, sample, position). Every verdict that
 * reaches a reward is in the store before it is used, so a resumed run replays the same rewards;
 * checkpoints are atomic; metrics and samples of steps after the checkpoint are dropped on resume
 * and written again.
 *
 * One thread drives model, engine and loop; the verifier has its own threads and child processes. */
#ifndef HONE_RL_H
#define HONE_RL_H
#include "agent/agent.h"
#include "base/base.h"
#include "infer/infer.h"
#include "model/model.h"
#include "task/task.h"
#include "text/text.h"
#include "train/train.h"
#include "verify/verdict.h"
#include "verify/verify.h"

/* ---- prompts: a task (and, for the midend, a kernel with its profile) rendered and tokenised ----
 */

struct prompt_row {
	struct task task;
	char *kernel;           /* midend, else NULL */
	struct verdict profile; /* midend: the kernel's verdict */
	char *text; /* rendered prompt; in ids control tokens are the chat template's alone, whatever the task spells */
	struct ids ids;
};
struct prompt_set {
	struct prompt_row *rows;
	size_t count;
	int refused; /* longer than max_prompt_length: counted, not cut */
	int truncated;
};
struct prompt_options {
	const char
		*tasks; /* as task_set_load; midend: .jsonl[.gz] rows with "kernel" and "profile" as `hone pairs` writes them */
	const char *split; /* keep rows of this split; NULL or "" keeps all */
	const char *stage, *prompt_template, *precision;
	const struct chat_template *chat_template;
	const char *chat_date; /* as chat_render takes it */
	int level;             /* keep rows of this level; 0: all */
	int64_t limit;         /* first rows after a seeded shuffle; 0: all, in file order */
	uint64_t seed;
	int64_t max_prompt_length;
	bool truncate_prompts; /* paper recipes alone: cut on the left, counted */
};
int prompt_set_load(const struct prompt_options *o, const struct tokenizer *t, struct prompt_set *out, struct err *err);
void prompt_set_release(struct prompt_set *s);

/* ---- rollouts ---- */

struct rollout {
	int prompt, sample;
	struct completion completion; /* tokens and the sampler's log-probabilities */
	char *text;
	size_t text_len; /* decoded answer without the end token */
	struct answer answer;
	struct verdict verdict; /* format failures get one too (stage format) */
	bool is_dropped;        /* infra: no reward, out of every statistic but the count of dropped */
	struct reward reward;
	double advantage_plan, advantage_code;
};
struct rollout_options {
	int num_samples;
	int64_t id_base; /* request id of prompt i is id_base + i: part of the random stream */
	struct sampling sampling;
	int max_new_tokens;
	const int32_t *stop_ids;
	int nstop;
	struct adapter *adapter;
	const char *progress; /* label, or NULL */
};
/* Fills out[i * num_samples + s] for prompts[index[i]]. Returns 0, or the verifier's or engine's
 * error. */
int rollouts_collect(struct engine *e, struct verifier *v, const struct tokenizer *t, const struct prompt_set *prompts,
	const int *index, int n, const struct rollout_options *o, struct rollout *out, struct err *err);
void rollouts_release(struct rollout *r, int n);
json_t *rollout_json(
	const struct rollout *r, const struct prompt_set *prompts); /* what the store and --out files keep */

/* Rewards and advantages of n groups of K rollouts in place. *dropped_groups counts those without
 * variance. */
void rollouts_advantages(struct rollout *r, int groups, int K, const struct reward_rule *rule, enum advantage_type type,
	const struct prompt_set *prompts, int *dropped_groups);

/* ---- training ---- */

struct rl_options {
	const char *model, *adapter, *output_dir, *store, *stage, *tasks, *split, *prompt_template, *chat_template,
		*chat_date, *precision, *reward, *advantage, *loss_type, *lr_scheduler_type, *lora_target_modules, *device,
		*cuda_libs, *verify_device, *gpu;
	bool use_peft, truncate_prompts, dry_run;
	int64_t num_generations, generation_batch_size, num_iterations, max_prompt_length, max_completion_length, max_steps,
		save_steps, save_total_limit, warmup_steps, seed, lora_r, threads, verify_threads, max_tokens,
		num_correct_trials, limit, level;
	double temperature, top_p, learning_rate, adam_beta1, adam_beta2, adam_epsilon, weight_decay, max_grad_norm,
		epsilon, epsilon_high, beta, lora_alpha, lora_dropout, max_seconds;
	int64_t top_k;
};
extern const struct option_def rl_option_defs[];
extern const size_t rl_option_count;
void rl_options_default(struct rl_options *o);
int rl_run(const struct rl_options *o, metrics_fn *metrics, void *ctx, struct err *err);
/* Prints the memory plan, prompt and token counts and what would run. Of the model's folder it
 * reads config.json and the tokenizer alone. */
int rl_dry_run(const struct rl_options *o, FILE *out, struct err *err);

/* ---- the update: rows, packing, loss ---- */

struct updater;
struct updater_options {
	struct loss_options loss;
	int num_iterations, max_tokens, max_completion_length;
	float temperature;
	uint64_t dropout_seed;
	bool full_reference;
	const char *reference_model;
};
int updater_create(struct model *m, struct adapter *a, struct optimizer *opt, const struct updater_options *o,
	struct updater **out, struct err *err);
void updater_free(struct updater *u);
struct update_stats {
	struct loss_stats loss;
	double grad_norm;
	int sequences, tokens;
};
/* One batch of rollouts (those with a non-zero advantage train; with beta > 0 all that were not
 * dropped). */
int updater_run(struct updater *u, const struct rollout *r, int n, const struct prompt_set *prompts,
	const struct tokenizer *t, bool is_split, struct update_stats *stats, struct err *err);

/* ---- evaluation ---- */

/* Rates over rollouts of `tasks` tasks x K samples: pass@1, pass@k, well_formed, valid,
 * compiled, correct, genuine, reasons, mean and geometric mean speedup, mean length. */
json_t *rollouts_summary(
	const struct rollout *r, const struct prompt_set *prompts, int tasks, int K, const int *ks, int nks);
/* Paired bootstrap over tasks: 95 % interval of mean(a) - mean(b), a[i] and b[i] of the same task. */
void bootstrap_paired(const double *a, const double *b, int n, uint64_t seed, double *low, double *mean, double *high);
#endif
