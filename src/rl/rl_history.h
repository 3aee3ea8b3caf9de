/* What a run has learned about its prompts and kept of its answers: a fold over the samples in the
 * store, in their order. A run that is continued folds the stored rows again and has the same
 * estimates and the same buffer, bit for bit; nothing of it is in a checkpoint.
 *
 *   estimates   for each structure a Beta of successes and failures that decays with the steps that
 *               pass, so that what was solved or hopeless long ago becomes uncertain again
 *   levels      success rate of each level, decaying too; the next level is admitted by it
 *   buffer      unique successful answers (task and text), drawn by
 *               structure, and pairs beside them
 *
 * Draws are functions of (seed, step, slot) and the fold. One thread. */
#ifndef HONE_RL_HISTORY_H
#define HONE_RL_HISTORY_H
#include "base/base.h"
#include "rl/rl.h"
#include "text/text.h"
#include "train/train.h"

#define LEVELS_MAX 10

struct history_options {
	uint64_t seed;
	double decay; /* of counts, for every step that passes: 0 to 1 */
	double floor; /* least weight of a structure, whatever its estimate: solved and hopeless ones are drawn rarely */
	int num_generations;              /* K: a structure's promise is the chance that K answers differ */
	double level_weights[LEVELS_MAX]; /* share of draws; all 0: levels are not looked at */
	double level_admission;           /* success rate at which the level above is admitted; 0: all are from the start */
	int max_tokens;                   /* answers that are longer with their prompt are not kept */
	int32_t stop_id;
	int vocab_size; /* of the model: an id of the tokenizer beyond it is refused */
	bool is_stock; /* a success is what KernelBench's own check passes, where that is what is paid; else what is genuine
					*/
	const struct sft_example *pairs; /* (npairs) borrowed: drawn beside the buffer, each as a structure of its own */
	int npairs;
};
struct history;
struct history *history_create(
	const struct history_options *o, const struct prompt_set *prompts, const struct tokenizer *t);
void history_free(struct history *h);
/* Reads "1:0.8,2:0.2": level and share of draws. ERR_USAGE for anything else. */
int level_weights_parse(const char *text, double weights[LEVELS_MAX], struct err *err);
/* ERR_USAGE where a level has a share and none of the prompts, or no level has a share. */
int level_weights_check(
	const char *text, const double weights[LEVELS_MAX], const struct prompt_set *prompts, struct err *err);
/* One sample as rollout_json writes it. Rows of tasks that are not among the prompts are passed
 * over: they are not drawn, and what is kept of them could not be rendered. */
int history_add(struct history *h, int64_t step, const json_t *row, struct err *err);

/* n prompts of different structures for a step, by promise; `taken` (of count ntaken) are prompts
 * that the step has already, whose structures do not come again while others are left. */
void history_draw(
	const struct history *h, int64_t step, int round, const int *taken, int ntaken, int n, int *index /* (n) */);
/* The chance that K more answers to this prompt's task are not all alike, given the fold and c
 * successes among `tried` answers that are not in it yet. */
double history_promise(const struct history *h, int64_t step, int prompt, int c, int tried, int K);
/* Whether the rest of a staged group, so many more answers to the prompt, is worth drawing behind
 * its first n, which are not in the fold yet. */
bool history_group_pays(const struct history *h, int64_t step, const struct rollout *first, int n, int rest);

/* A supervised batch: a structure of the buffer or a pair by chance, of a structure one of its
 * answers. Fewer than n only when there is neither. Pointers live until the next history_add. */
int history_replay(const struct history *h, int64_t step, int update, int n, const struct sft_example **out);
int history_unique(const struct history *h);
/* Counts for the step's metrics: prompts/..., levels/..., replay/... */
void history_metrics(const struct history *h, int64_t step, json_t *metrics);
#endif
