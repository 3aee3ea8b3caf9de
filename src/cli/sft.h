/* sft: settings of `hone sft`, and the command as a function: `hone distill` ends in it. */
#ifndef HONE_SFT_H
#define HONE_SFT_H
#include "base/base.h"
#include "policy/policy.h"
#include "ranks/ranks.h"
#include "train/train.h"

struct sft_cmd {
	struct policy_options policy;
	struct optimizer_options optimizer;
	struct ranks_options ranks;
	const char *data;
	const char *output_dir;
	const char *store;
	bool stop_at_eval_minimum;
	bool dry_run;
	int64_t max_tokens;
	int64_t gradient_accumulation_steps;
	int64_t max_steps;
	int64_t save_steps;
	int64_t eval_steps;
	int64_t save_total_limit;
	int64_t logging_steps;
	int64_t patience;
	int64_t seed;
	double num_train_epochs;
	double max_seconds;
};

extern const struct option_def sft_option_defs[];
extern const size_t sft_option_count;
extern const struct sft_cmd sft_defaults;
/* Trains, or prints the plan with dry_run; prints the result's folder. */
int sft_command(const struct sft_cmd *o, struct err *err);
#endif
