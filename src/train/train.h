/* train: losses over rows, advantages, AdamW, schedules, checkpoints, and supervised training.
 * Knows nothing about kernels, rewards or verdicts: a loss sees rows of (token, old
 * log-probability, weight, normaliser), and supervised training sees pairs of texts.
 *
 * Formulas: docs/training.md (GRPO arXiv 2402.03300, Dr. GRPO 2503.20783, DAPO 2503.14476). Names
 * as TRL's. */
#ifndef HONE_TRAIN_H
#define HONE_TRAIN_H
#include "base/base.h"
#include "model/model.h"
#include "ops/ops.h"
#include "policy/policy.h"
#include "ranks/ranks.h"

/* ---- losses ---- */

struct loss_row {
	int32_t at;           /* as struct head_row, into the packed batch */
	int32_t target;       /* likewise */
	float old_logprob;    /* of the policy that sampled it (trainer's recomputation); ignored by sft */
	float ref_logprob;    /* of the reference policy; used when beta > 0 */
	float advantage;      /* already weighted (alpha of plan or code) */
	float normaliser;     /* this row's loss is multiplied by it: 1/(sequences * length), 1/(sequences * max length),
							 1/tokens ... */
	float weight;         /* of the policy term, not of the KL: 1, or the importance weight of stale generation */
	float sequence_ratio; /* gspo: exp of the mean of logprob - old_logprob over the row's sequence */
};
enum loss_type { LOSS_SFT, LOSS_GRPO, LOSS_DR_GRPO, LOSS_DAPO, LOSS_BNPO, LOSS_GSPO, LOSS_CISPO, LOSS_TYPE_COUNT };
int loss_type_from_name(const char *name, enum loss_type *out, struct err *err);
bool loss_type_needs_sequence_ratio(enum loss_type t);
struct loss_options {
	enum loss_type type;
	float epsilon;      /* the ratio is clipped below 1 - epsilon */
	float epsilon_high; /* and above 1 + epsilon_high; cispo: the cap of the ratio itself */
	float beta;         /* weight of the KL to the reference; 0: none */
	float delta;        /* two-sided clipping: the ratio counts as at most this before min; 0: off */
};
struct loss_stats {
	double loss;             /* mean over updates */
	double clip_low;         /* rows that the lower clip held back (A < 0, ratio below 1 - epsilon), over all updates */
	double clip_high;        /* rows that the upper clip held back, over all updates */
	double ratio_max_dev;    /* largest |ratio - 1| over all updates */
	double kl;               /* sum over rows, before any update */
	double entropy;          /* likewise */
	double logprob_diff_max; /* largest |trainer - sampler| of a token, in the first pass */
	double logprob_diff_sum; /* sum of |trainer - sampler| over rows, in the first pass */
	int64_t rows;            /* tokens that train, each once however often it is passed over */
};
/* Value and derivative of one row: *g = d loss / d logprob. Formulas: loss.c. */
float loss_row_value(const struct loss_options *o, const struct loss_row *r, float logprob, float *g);
/* Which clip holds a row back: -1 the lower, 1 the upper, 0 none. */
int loss_row_clip(const struct loss_options *o, const struct loss_row *r, float logprob);
/* Sets normalisers from the lengths of ALL sequences of an update, those that do not train included
 * (a length of 0 is a sequence whose tokens do not count): grpo and gspo per-sequence mean, then
 * mean over sequences; dr_grpo sequences * max_completion_length; dapo, bnpo, cispo and sft all
 * tokens. */
void loss_normalisers(
	enum loss_type type, const int *lengths /* (S) */, int S, int max_completion_length, float *per_sequence /* (S) */);

/* ---- advantages: rewards (K) of one group to advantages (K) ---- */

/* RAW: the reward itself, no baseline (rejection sampling). BATCH: r - mean, to be divided by
 * advantages_batch_scale of all rewards of the batch. MAXRL: (r - mean) / mean, for rewards that
 * are never negative. */
enum advantage_type {
	ADVANTAGE_LEAVE_ONE_OUT,
	ADVANTAGE_MEAN_STD,
	ADVANTAGE_MEAN,
	ADVANTAGE_BATCH,
	ADVANTAGE_MAXRL,
	ADVANTAGE_RAW,
	ADVANTAGE_TYPE_COUNT
};
int advantage_type_from_name(const char *name /* "loo" | "mean_std" | "mean" | "batch" | "maxrl" | "raw" */,
	enum advantage_type *out, struct err *err);
/* NaN rewards (dropped samples) get 0 and do not count. Returns false when the group teaches
 * nothing (no variance; raw: all 0): all advantages are 0 then. Bessel-corrected std + 1e-4, as
 * TRL. */
bool group_advantages(enum advantage_type type, const double *rewards, int K, double *advantages);
/* 1 / (std + 1e-4) over all n rewards of a batch (Bessel-corrected, NaN left out), as TRL's
 * scale_rewards "batch". */
double advantages_batch_scale(const double *rewards, int n);

/* ---- optimiser ---- */

struct optimizer_options {
	double learning_rate; /* at the top of the schedule */
	double adam_beta1;
	double adam_beta2;
	double adam_epsilon;
	double weight_decay;           /* decoupled; norms and biases do not decay */
	double max_grad_norm;          /* gradients are scaled down to it; 0: off */
	const char *lr_scheduler_type; /* constant | constant_with_warmup | linear | cosine, as transformers */
	int64_t warmup_steps;          /* over which the rate rises from 0 */
	int64_t max_steps;             /* at which the schedule ends */
};
/* Rows of a command's table of options, whose settings hold a struct
 * optimizer_options `optimizer`. */
#define OPTIMIZER_OPTION(settings, type, field, help, choices) \
	{ #field, OPTION_##type, offsetof(struct settings, optimizer.field), help, choices }
#define OPTIMIZER_OPTIONS(settings) \
	OPTIMIZER_OPTION(settings, FLOAT, learning_rate, "AdamW's learning rate", "0 to 1000"), \
		OPTIMIZER_OPTION(settings, FLOAT, adam_beta1, "AdamW beta1", "0 to 0.999999"), \
		OPTIMIZER_OPTION(settings, FLOAT, adam_beta2, "AdamW beta2", "0 to 0.99999999"), \
		OPTIMIZER_OPTION(settings, FLOAT, adam_epsilon, "AdamW epsilon", "0 to 1"), \
		OPTIMIZER_OPTION(settings, FLOAT, weight_decay, "decoupled weight decay; norms and biases do not decay", \
			"0 to 1000"), \
		OPTIMIZER_OPTION( \
			settings, FLOAT, max_grad_norm, "gradient clipping by global norm; 0: off", "0 or more"), \
		OPTIMIZER_OPTION( \
			settings, STR, lr_scheduler_type, "schedule", "constant|constant_with_warmup|linear|cosine"), \
		OPTIMIZER_OPTION(settings, INT, warmup_steps, "linear warm-up, in steps", "0 to 1000000000"), \
		OPTIONS_NEED("warmup_steps", "lr_scheduler_type!=constant"), \
		OPTIONS_NEED("learning_rate adam_beta1 adam_beta2 adam_epsilon weight_decay max_grad_norm lr_scheduler_type " \
					 "warmup_steps", \
			"!policy_command | !policy_answers")
struct optimizer;
struct optimizer *optimizer_create(struct ops *ops, struct param *params, int count, const struct optimizer_options *o);
void optimizer_free(struct optimizer *o);
double optimizer_lr(const struct optimizer *o, int64_t step); /* at 0-based step */
/* A run that ends by the clock, not by a count of steps: called before each step with the share of
 * the time that is spent, it places the schedule's end where the steps so far say it will be. */
void optimizer_pace(struct optimizer *o, double spent);
/* Clips by global norm, applies AdamW (no decay on 1-d parameters), zeroes gradients, advances.
 * Returns the norm before clipping; a non-finite norm skips the update and is returned. */
double optimizer_step(struct optimizer *o);
/* Gradients become their sums over all ranks, in rank order: before optimizer_step where each rank
 * has those of its share. A round (ranks.h); nothing with ranks NULL. */
int optimizer_gather(struct optimizer *o, struct ranks *ranks, struct err *err);
/* For the next step alone: its rate is multiplied by rate_scale, and its gradient's norm is also
 * limited to max_norm (0: no further limit). */
void optimizer_next(struct optimizer *o, double rate_scale, double max_norm);
/* A step of the schedule without an update: there was nothing to learn from. */
void optimizer_skip(struct optimizer *o);
int64_t optimizer_steps(const struct optimizer *o);

/* ---- checkpoints: folder checkpoint-<step>/ written beside, fsynced, renamed; never half there
 * ---- */

/* For a start in a folder that a killed run may have left: makes it, claims it for this process
 * (base.h's dir_claim) and removes what is half-written in it and in its final/. */
int run_folder_claim(const char *run_dir, struct err *err);
struct checkpoint_state {
	int64_t step;
	json_t *extra; /* loop's own state: cursors, counters, metrics so far */
};
/* Saves model weights (full training) or the adapter, optimiser moments and state; prunes all but
 * the newest keep. */
int checkpoint_save(const char *run_dir, struct model *m, struct adapter *a, const struct optimizer *o,
	const struct checkpoint_state *s, int keep, struct err *err);
/* Whether the folder holds a complete one. */
int checkpoint_exists(const char *run_dir, bool *exists, struct err *err);
/* Loads the newest complete one into the given objects; ERR_NOT_FOUND when there is none.
 * With ranks a round: rank 0 reads, and the others, who need not see the folder, get the same
 * from it, extra included. */
int checkpoint_load(const char *run_dir, struct model *m, struct adapter *a, struct optimizer *o, struct ranks *ranks,
	struct checkpoint_state *s, struct err *err);

/* ---- supervised fine-tuning ---- */

struct sft_example {
	const int32_t *ids; /* (count) prompt, then completion */
	int count;
	int completion_begin; /* the loss is on ids[completion_begin..] */
};
/* Rows of JSONL (gzip or plain) carry prompt and completion as rendered text, and optionally
 * structure and split: "train" rows and rows without a split are trained on, "dev" rows are held
 * out for evaluation, all others ("test" above all) are left alone and counted. A split must be the
 * structure's. A completion that does not end in one of the model's end tokens gets the first of
 * them. What has more than max_tokens tokens, or more than the model has positions, is refused and
 * counted, never cut. */
struct sft_examples {
	struct sft_example *v; /* (count) */
	size_t count;
	size_t cap;                /* room in v */
	int64_t tokens;            /* of all examples */
	int64_t completion_tokens; /* of those, with loss */
};
struct sft_data {
	struct sft_examples train;
	struct sft_examples heldout;
	int64_t too_long;     /* rows refused for their length */
	int64_t other_splits; /* rows left alone */
};
/* ERR_RANGE when nothing is left to train on. */
int sft_data_load(const char *path, const struct policy *p, int max_tokens, struct sft_data *out, struct err *err);
void sft_data_release(struct sft_data *d);
struct sft_options {
	struct optimizer_options optimizer;
	int max_tokens;                  /* packed tokens per micro-batch: padding is not computed */
	bool recompute;                  /* pass_options */
	int gradient_accumulation_steps; /* micro-batches of one optimiser step */
	int64_t max_steps;       /* optimiser steps; 0: off. What ends first of this and the next two ends the run */
	double num_train_epochs; /* 0: off */
	double max_seconds;      /* wall clock; 0: off. With it runs are not the same bit by bit */
	int64_t save_steps;      /* between checkpoints; 0: none but the last */
	int64_t eval_steps;      /* between evaluations; 0: none */
	int save_total_limit;    /* checkpoints kept */
	int logging_steps;       /* between calls of the metrics function */
	uint64_t seed;           /* of the order of examples */
	const char *output_dir;
	struct ranks *ranks; /* that share the micro-batches of every step; NULL: this process is alone. Rank 0 alone
							writes, and calls metrics */
	json_t *fixed;       /* borrowed: further settings that a later part of the run must share, by name; NULL: none */
	bool stop_at_eval_minimum;
	int patience; /* stop when held-out loss has not improved for `patience` evaluations; best weights kept */
};
/* Called every logging_steps optimiser steps and after evaluations, with that step's values under
 * TRL's metric names (loss, grad_norm, learning_rate, num_tokens, epoch, mean_token_accuracy,
 * eval_loss, eval_mean_token_accuracy); values that are not finite are null. Non-zero stops after a
 * checkpoint; a later run goes on. */
typedef int metrics_fn(void *ctx, int64_t step, const json_t *metrics);
/* Trains on examples in an order that is a function of (seed, epoch); resumes from output_dir's
 * newest checkpoint: same bytes as uninterrupted. */
int sft_run(struct model *m, struct adapter *a, const struct sft_example *train, size_t ntrain,
	const struct sft_example *heldout, size_t nheldout, const struct sft_options *o, metrics_fn *metrics, void *ctx,
	struct err *err);
/* What such a run, of so many ranks, is refused for before its first step. */
int sft_check(const struct sft_example *train, size_t ntrain, const struct sft_example *heldout, size_t nheldout,
	const struct sft_options *o, int ranks, struct err *err);
/* Optimiser steps that such a run has; INT64_MAX when only time ends it. */
int64_t sft_total_steps(const struct sft_example *train, size_t ntrain, const struct sft_options *o);
#endif
