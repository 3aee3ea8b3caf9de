/* Between the files of the rl room: the loop's state, a step's answers, and what a run folder
 * remembers beside its checkpoints. */
#ifndef HONE_RL_INTERNAL_H
#define HONE_RL_INTERNAL_H
#include "agent/agent.h"
#include "base/base.h"
#include "infer/infer.h"
#include "model/model.h"
#include "ops/ops.h"
#include "policy/policy.h"
#include "ranks/ranks.h"
#include "rl/rl.h"
#include "rl/rl_guard.h"
#include "rl/rl_history.h"
#include "store/store.h"
#include "train/train.h"
#include "verify/verify.h"

struct loop {
	const struct rl_options *o;
	struct ranks *ranks;  /* NULL: this process is alone */
	struct policy policy; /* of zeros where the policy is outside, as what trains: NULL */
	struct author author;
	struct optimizer *optimizer;
	struct engine *engine;
	struct verifier *verifier;
	struct updater *updater;
	struct updater_options update;
	struct store *store; /* of the run, or another rank's of its verdicts alone */
	struct prompt_set prompts;
	struct prompt_set dev; /* of the evaluations inside the run */
	struct sft_data pairs; /* that supervised updates draw from beside the run's own answers */
	struct history *history;
	struct guard guard;
	struct str turn_template; /* of --num_turns above 1 */
	struct reward_rule rule;
	struct advantage_options advantage;
	double level_weights[LEVELS_MAX];
	int64_t run;
	int64_t step;          /* done so far */
	double seconds_before; /* of earlier starts of this run */
	double seconds;        /* spent so far, by rank 0's clock: as of the last step's end */
	uint64_t start_ns;
	int64_t tokens;
	struct rollout_times times;   /* of this step */
	struct verify_times verified; /* where verdicts spent their time up to the last step's end */
	FILE *metrics_file;
};

/* ---- settings (rl_check.c) ---- */

/* Whether l->o's settings go together; sets l's reward, advantage and loss from their names. */
int rl_options_check(struct loop *l, struct err *err);
/* What cannot be done by several ranks; after ranks_open. */
int rl_ranks_check(const struct loop *l, struct err *err);
/* What is wrong with the settings and templates of a pipeline's mid-end: asked before the frontend
 * trains, when there are no kernels yet. */
int rl_midend_check(const struct rl_options *o, struct err *err);

/* ---- opening a run (rl_open.c) ---- */

/* All that the steps need, from l->o; not yet where an earlier start left off. l is to be released
 * whatever this returns. */
int loop_open(struct loop *l, struct err *err);
/* Kernels whose times are predicted for another card, or at other sizes: nothing that is gained
 * over them would be seen, so they are refused. */
int kernels_check_times(const struct prompt_set *prompts, const char *card, const char *sizes, struct err *err);
void loop_release(struct loop *l);
/* Whether this process has the run's folder and store. */
static inline bool loop_is_first(const struct loop *l) { return ranks_rank(l->ranks) == 0; }

/* ---- a step's answers (rl_step.c) ---- */

/* Groups in one row, those that train first. Sizes differ where groups are staged. With turns a
 * group is the answers of one turn to one prompt, its first turn before its second. */
struct step_batch {
	struct rollout *r;
	int *sizes;   /* (groups) */
	bool *varies; /* (groups) whether the group teaches something */
	int n;        /* rollouts */
	int groups;
	int flat;   /* groups without variance */
	int kept;   /* rollouts of the groups that train: the first ones */
	int rounds; /* of generation: more than one with filter_groups */
};
/* Of l's options and the template that was read; of one turn where there are no more. */
struct turn_options loop_turn_options(const struct loop *l);
int step_collect(struct loop *l, struct step_batch *b, struct err *err);
void step_batch_release(struct step_batch *b);
/* Prompts of a step: the next ones of the epoch's permutation, whole chunks
 * only, as TRL's sampler. */
void epoch_prompts(uint64_t seed, int prompts, int64_t step, int groups, int *index /* (groups) */);
/* Answers to dev prompts, greedily: puts eval/... into metrics. */
int step_evaluate(struct loop *l, json_t *metrics, struct err *err);

/* ---- metrics (rl_metrics.c) ---- */

/* What a step's answers and updates say, under TRL's names where TRL has one. u
 * NULL: nothing trains. */
json_t *step_metrics(const struct rl_options *o, const struct reward_rule *rule, const struct prompt_set *prompts,
	const struct step_batch *b, const struct update_stats *u);
/* A number that is not finite (a run that diverged) is null: JSON has no other way to say so. */
void put_number(json_t *m, const char *key, double x);

/* ---- the run folder (rl_resume.c) ---- */

/* Everything that a step's result depends on: the options but for places, ends, saves and threads;
 * hashes of the weights at the start (of a policy outside there are none here), and of the contents
 * of the files that options name: prompts, and dev tasks, turn_template and replay_pairs where they
 * are used. New reference. */
json_t *rl_settings_json(const struct loop *l);
/* A folder with checkpoints (steps -1), or with so many steps of a policy outside, must have been
 * written with the same settings (ERR_MISMATCH names option and both values); any other
 * folder gets settings.json. */
int rl_settings_settle(const char *output_dir, int64_t steps, json_t *settings, struct err *err);
/* The store is the source; metrics.jsonl is a copy for people, written anew at every
 * start. Fails when the store lacks steps that the checkpoint has behind it. */
int rl_metrics_open(
	const char *output_dir, struct store *s, int64_t run, int64_t last_step, FILE **out, struct err *err);
void rl_metrics_put(FILE *f, const json_t *row);
/* ---- a GPU on which kernels are timed too (rl_gpu.c) ---- */

/* The GPU of that UUID beside others' work, not beside their timings; NULL or "":
 * there is none to share. */
int gpu_hold(const char *gpu, const char *what, int *lock, struct err *err);
void gpu_let_go(int lock);
/* One step of the engine, at the end of which the device rests. */
int engine_step_held(struct engine *e, const char *gpu, int *active, struct err *err);

/* ---- several ranks (rl_ranks.c); each a round, and with ranks NULL what one process does ---- */

/* rollouts_collect, shared out by groups: all of out and sizes is there on every rank. */
int rollouts_share(struct ranks *ranks, const struct author *a, struct verifier *v, const struct prompt_set *prompts,
	const int *index, int n, const struct rollout_options *o, struct rollout *out, int *sizes, struct err *err);
/* Sums and extremes become those of all ranks. */
int update_stats_join(struct ranks *ranks, struct update_stats *u, struct err *err);
/* Calls fn for each sample of the run in rank 0's store, on every rank. */
typedef int rl_row_fn(int64_t step, int64_t index, const json_t *row, void *ctx);
int samples_relay(struct ranks *ranks, struct store *store, int64_t run, rl_row_fn *fn, void *ctx, struct err *err);

/* ---- the plan (rl_plan.c) ---- */

struct rl_memory {
	struct memory_plan plan;
	size_t room;      /* bytes that it is held against; 0: not known */
	bool recompute;   /* it would not fit otherwise (pass_options) */
	char advice[300]; /* what to change where it does not fit all the same; else "" */
};
/* Tokens of a whole episode behind its prompt: answers, and what is said between them. */
int64_t rl_episode_tokens(const struct rl_options *o);
/* longest: tokens of the longest prompt. */
struct engine_options rl_engine_options(const struct rl_options *o, int longest);
void rl_memory_plan(const struct rl_options *o, const struct model_config *c, const struct ops *ops, int longest,
	bool recompute, struct memory_plan *out);
void rl_memory_settle(const struct rl_options *o, const struct model_config *c, const struct ops *ops, int longest,
	size_t room, struct rl_memory *out);
void rl_memory_print(const struct rl_options *o, const struct ops *ops, const struct rl_memory *m, FILE *out);
/* What --dry_run prints (out NULL: nothing). Needs neither weights nor the device. ERR_LIMIT where
 * it does not fit, as the run itself would end. */
int rl_plan_print(const struct rl_options *o, const struct model_config *c, const struct ops *ops, size_t room,
	const struct prompt_set *prompts, const struct reward_rule *rule, FILE *out, struct err *err);

/* ---- the pipeline (rl_pipeline.c) ---- */

/* Rows of the mid-end's tasks from a run's samples: of each task of `tasks` (the
 * frontend's prompts) the first `per_task` distinct genuine kernels in the order of steps,
 * with their verdicts, in the order of tasks. Each row is a task of its own, TASK+HASH.
 * Adds how many to *count. */
int pipeline_rows(struct store *s, int64_t run, const struct prompt_set *tasks, int per_task, struct str *out,
	int *count, struct err *err);

/* ---- the update (rl_update.c) ---- */

/* The rows of the last batch, in the order in which they trained: tests look at them, the program
 * never does. */
const struct loss_row *updater_rows(const struct updater *u, size_t *count);
#endif
