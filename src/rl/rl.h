/* rl: the loop. prompts -> rollouts (generation and verdicts overlap) -> rewards -> advantages ->
 * update, and evaluation with the same parts.
 *
 * Every random choice is a function of (seed, step, prompt, sample, position). Every verdict that
 * reaches a reward is in the store before it is used, so a resumed run replays the same rewards;
 * checkpoints are atomic; metrics and samples of steps after the checkpoint are dropped on resume
 * and written again.
 *
 * One thread drives model, engine and loop; the verifier has its own threads and child processes.
 *
 * Started as several ranks (ranks.h) each writes and grades its share of a step's groups and passes
 * its share of the update's sequences through the model. Rank 0 has the run's folder and store; the
 * others keep the verdicts they gave in a store of their own beside it. */
#ifndef HONE_RL_H
#define HONE_RL_H
#include "agent/agent.h"
#include "base/base.h"
#include "infer/infer.h"
#include "model/model.h"
#include "policy/policy.h"
#include "ranks/ranks.h"
#include "task/task.h"
#include "text/text.h"
#include "train/train.h"
#include "verify/verdict.h"
#include "verify/verify.h"

/* ---- prompts: a task (and, for the midend, a kernel with its profile) rendered and tokenised ----
 */

struct prompt_row {
	struct task task;
	char *kernel;                    /* midend, else NULL */
	struct verdict profile;          /* midend: the kernel's verdict */
	struct prompt_variant *variants; /* (nvariants) owned; slowest first */
	int nvariants;
	char *body; /* rendered template: what the user says */
	char *text; /* body in the chat form; in ids control tokens are the template's alone, whatever the task spells */
	struct ids ids; /* empty for a policy outside, which reads texts */
};
struct prompt_set {
	struct prompt_row *rows;
	size_t count;
	int others;  /* of another split or level */
	int refused; /* longer than max_prompt_length: counted, not cut */
	int alone;   /* left out for want of two variants */
	int truncated;
};
struct prompt_options {
	/* As task_set_load; midend: .jsonl[.gz] rows with "kernel" and "profile" as
	 * `hone pairs` writes them. */
	const char *tasks;
	const char *split; /* keep rows of this split; NULL or "" keeps all */
	const char *stage;
	const char *prompt_template;
	const char *precision;
	const struct chat_template *chat_template;
	const char *chat_date; /* as chat_render takes it */
	int level;             /* keep rows of this level; 0: all */
	int64_t limit;         /* first rows after a seeded shuffle; 0: all, in file order */
	uint64_t seed;
	int64_t max_prompt_length;
	bool truncate_prompts; /* paper recipes alone: cut on the left, counted */
	int variants; /* kernels of the task beside it, at most; 0: none, else tasks with fewer than two are left out */
	const struct option_list *variants_from;
};
/* Of a task's kernels those that are shown beside one another: by predicted time, leaving out
 * what is within 2 % of a faster one that was kept; where more than `most` are left, evenly
 * spread ranks with the fastest and the slowest among them. Puts them in front, slowest first,
 * and returns how many. */
int variants_choose(struct prompt_variant *v, int n, int most);
/* Gives each row of the set its variants, from the genuine answers to its task in run folders,
 * stores or rows of `hone eval --out`; rows with fewer than two go, and are counted. */
int variants_attach(struct prompt_set *s, const struct option_list *from, int most, struct err *err);
void variants_release(struct prompt_row *r);
/* t NULL: for a policy outside; no chat form, no ids. */
int prompt_set_load(const struct prompt_options *o, const struct tokenizer *t, struct prompt_set *out, struct err *err);
/* Prompts of the mid-end for kernels that are there, in place of those in a file: o->tasks, split,
 * level and limit are not looked at. A set may come out empty. Copies. */
struct prompt_kernel {
	const struct task *task;
	const char *source; /* (len) */
	size_t len;
	const struct verdict *profile; /* genuine */
};
int prompt_set_kernels(const struct prompt_options *o, const struct prompt_kernel *k, size_t n,
	const struct tokenizer *t, struct prompt_set *out, struct err *err);
void prompt_set_release(struct prompt_set *s);

/* ---- rollouts ---- */

/* Who writes answers: a model in an engine, or a policy outside, which
 * leaves the other two NULL. */
struct author {
	const struct policy *policy;
	struct engine *engine;
	struct outside *outside;
	const char *stage; /* what a policy outside is told */
};
struct rollout {
	int prompt;                   /* number in the prompt set */
	int sample;                   /* number among the prompt's answers */
	struct completion completion; /* tokens and the sampler's log-probabilities; from outside neither, but the count */
	char *text;
	size_t text_len; /* decoded answer without the end token */
	struct answer answer;
	struct verdict verdict; /* format failures get one too (stage format) */
	bool is_dropped;        /* infra: no reward, out of every statistic but the count of dropped */
	struct reward reward;
	double advantage_plan; /* of the tokens in front of the code */
	double advantage_code; /* of the code's */
	/* An answer may be one turn of an episode: the verdict on it is told, and the
	 * policy answers again. */
	int turn;           /* 0: the first */
	bool is_absent;     /* the episode ended before this turn; nothing else is set but prompt, sample and turn */
	struct ids context; /* of a later turn, all that stands before the answer, token for token as the turns before wrote
						   and read it; else empty: the prompt's ids */
	char *feedback;     /* of a later turn, what the user said last; else NULL */
	struct reward value; /* the reward, and those of the episode's later turns, discounted */
};
/* Episodes: refinement with the verdict's feedback. */
struct turn_options {
	int most;                  /* turns of an episode; 0 and 1: answers stand alone */
	bool is_refining;          /* goes on behind a genuine answer, towards a faster one */
	int max_feedback;          /* tokens (of a policy outside: bytes) of what a turn adds before its answer */
	const char *template_text; /* with {{feedback}} */
	const char *template_name; /* for messages */
	const char *precision;     /* as a prompt's */
};
/* Metrics with this prefix: the verifier's steps by name, in seconds of its threads, and
 * `made`, the verdicts. */
#define RL_VERDICT_STEP "timing_s/verdicts/"
struct rollout_times {
	double generate_s;     /* until there was nothing to generate, verdicts that came meanwhile included */
	double idle_s;         /* nothing to generate, and verdicts were waited for */
	double verify_s;       /* that the verdicts took, each on a thread of the verifier's; none for those it knew */
	double (*clock)(void); /* in seconds; NULL: of the wall */
};
struct rollout_options {
	int num_samples;
	/* Staged groups: so many answers first (0: all), and the others as soon as those have
	 * verdicts, if they pay. */
	int first;
	bool (*pays)(void *ctx, const struct rollout *group, int first, int rest);
	void *pays_ctx;
	int64_t id_base; /* request id of prompt i is id_base + i: part of the random stream */
	struct sampling sampling;
	float temperature_code; /* at which tokens behind the opening fence are drawn; 0: sampling's for all */
	const int *samples;     /* (n) number of each prompt's first sample, part of the random stream; NULL: 0 */
	struct turn_options turns;
	int max_new_tokens;
	const int32_t *stop_ids;
	int nstop;
	struct adapter *adapter;
	const char *progress;                     /* label, or NULL */
	int (*watch)(void *ctx, struct err *err); /* asked between the engine's steps; an error ends it. NULL: nobody is */
	void *watch_ctx;
	const char *gpu; /* UUID of the engine's GPU: between its steps those who time something on that GPU have
						it to themselves (gpu_lock.h). NULL or "": none */
	struct rollout_times *times; /* added to; NULL: not wanted */
};
/* Whether an answer that is still being written has come to its code: a line that begins with three
 * backticks or more. A state of zeros is the beginning of a text. */
struct span_state {
	int seen;      /* tokens looked at */
	int backticks; /* of the line so far where nothing but blanks stands before them; -1: something else does */
	bool is_code;
};
bool span_is_code(struct span_state *s, const struct tokenizer *t, const int32_t *tokens, int count);
/* Fills out[(i * num_samples + s) * turns + t] for prompts[index[i]], turn t; sizes (n, may be
 * NULL) says how many answers each has (with turns: episodes, whose later turns may be absent).
 * Without a verifier (NULL) no answer has a verdict. Verdicts are waited for only when there is
 * nothing to generate. Returns 0, or the author's or verifier's error. */
int rollouts_collect(const struct author *a, struct verifier *v, const struct prompt_set *prompts, const int *index,
	int n, const struct rollout_options *o, struct rollout *out, int *sizes, struct err *err);
void rollouts_release(struct rollout *r, int n);
/* What the store and --out files keep. */
json_t *rollout_json(const struct rollout *r, const struct prompt_set *prompts);

struct advantage_options {
	const struct reward_rule *rule;
	enum advantage_type type;
	double weight;          /* all advantages are multiplied by it; 0: rewards are published and do not train */
	double negative_weight; /* those below 0 by this too */
	/* DAPO's soft punishment: an answer of more than max_completion_length - buffer tokens loses up
	 * to penalty of its reward, in proportion; buffer 0: off. */
	int max_completion_length;
	int overlong_buffer_len;
	double overlong_penalty_factor;
	double turn_gamma; /* a turn's value: its reward + gamma times the value of the episode's next turn */
};
/* Rewards, values and advantages of groups of rollouts in place; sizes (groups) says how many
 * answers each has, one group behind the other. Answers of one turn to one prompt are a group;
 * those of its later turns follow it, as turns_order puts them. has_variance (groups, may be NULL)
 * says which teach something. Returns how many teach nothing. */
int rollouts_advantages(struct rollout *r, const int *sizes, int groups, const struct advantage_options *o,
	const struct prompt_set *prompts, bool *has_variance);
/* Puts episodes as rollouts_collect leaves them (n prompts, K episodes of T turns) in place into
 * groups: of a prompt those of its first turn, of its second, ...; absent ones go. sizes: (n * T).
 * Returns how many groups, and in *total how many answers. */
int turns_order(struct rollout *r, int n, int K, int T, int *sizes, int *total);
/* Of an episode of T slots, the best answer so far: the genuine one of least predicted time, else
 * the last that there is. */
int episode_best(const struct rollout *episode, int T);
/* The turn behind r: its message is what the verdict on r says, shortened by whole lines from its
 * end while the turn's tokens exceed o->max_feedback; its context is r's, r's own tokens (an end
 * where the answer was cut), and the message in the chat form. p NULL: for a policy outside, no
 * context. *next is replaced, and to be released whatever this returns. */
int turn_begin(const struct turn_options *o, const struct policy *p, const struct prompt_row *prompt,
	const struct rollout *r, struct rollout *next, struct err *err);
/* Before a run: whether each task's turn fits o->max_feedback where nothing is told. ERR_LIMIT,
 * with the first task that does not. p as turn_begin's. */
int turns_check(
	const struct turn_options *o, const struct policy *p, const struct prompt_set *prompts, struct err *err);
/* The reward that is published: the code part plus the weighted plan part. */
double reward_total(const struct reward_rule *rule, const struct reward *r);

/* ---- training ---- */

/* Settings of hone rl. Each field is the option of its name in rl_option_defs, whose text
 * says what it means, its unit and its range; an int64_t is an integer, a double a
 * number, a bool a switch. */
struct rl_options {
	struct policy_options policy;
	struct optimizer_options optimizer;
	struct ranks_options ranks;
	struct option_list variants_from;
	const char *output_dir;
	const char *store;
	const char *stage;
	const char *tasks;
	const char *split;
	const char *prompt_template;
	const char *precision;
	const char *reward;
	const char *reward_time;
	const char *advantage;
	const char *loss_type;
	const char *importance_sampling_mode;
	const char *prompt_selection;
	const char *level_weights;
	const char *guard;
	const char *verify_device;
	bool verify_profile;
	const char *gpu;
	const char *cost_size;
	const char *replay_pairs;
	const char *turn_template;
	const char *pipeline;
	bool truncate_prompts;
	bool dry_run;
	bool mask_truncated_completions;
	bool filter_groups;
	bool turn_refines;
	int64_t num_generations;
	int64_t num_generations_first;
	int64_t generation_batch_size;
	int64_t num_iterations;
	int64_t steps_per_generation;
	int64_t max_prompt_length;
	int64_t max_completion_length;
	int64_t max_steps;
	int64_t save_steps;
	int64_t save_total_limit;
	int64_t seed;
	int64_t verify_threads;
	int64_t max_tokens;
	int64_t num_correct_trials;
	int64_t limit;
	int64_t level;
	int64_t overlong_buffer_len;
	int64_t max_num_gen_batches;
	int64_t replay_updates;
	int64_t replay_batch_size;
	int64_t replay_min;
	int64_t eval_steps;
	int64_t eval_limit;
	int64_t eval_patience;
	int64_t guard_patience;
	int64_t max_sequences;
	int64_t num_turns;
	int64_t max_feedback_length;
	int64_t pipeline_kernels;
	int64_t variants;
	double turn_gamma;
	double temperature;
	double temperature_code;
	double top_p;
	double min_p;
	double max_grad_ratio;
	double epsilon;
	double epsilon_high;
	double delta;
	double beta;
	double max_seconds;
	double reward_alpha;
	double reward_beta;
	double reward_clip;
	double policy_weight;
	double negative_weight;
	double importance_sampling_clip_max;
	double overlong_penalty_factor;
	double replay_rate;
	double replay_weight;
	double promise_decay;
	double promise_floor;
	double level_admission;
	double guard_gap;
	double guard_kl;
	double guard_degenerate;
	double guard_hack;
	double guard_truncation;
	double guard_format;
	double guard_collapse;
	double sanitize_share;
	int64_t top_k;
	/* No settings, for `hone bench rl`: rows and sequences apart, to measure what sharing saves;
	 * the clock of a step's seconds, NULL: of the wall. */
	bool apart;
	double (*clock)(void);
};
extern const struct option_def rl_option_defs[];
extern const size_t rl_option_count;
void rl_options_default(struct rl_options *o);
int rl_run(const struct rl_options *o, metrics_fn *metrics, void *ctx, struct err *err);
/* Two runs, one behind the other: the frontend's (settings o) in <output_dir>/frontend, then the
 * mid-end's (o with the recipe of o->pipeline laid over) in <output_dir>/midend, on the genuine
 * kernels that the first one found. Each trains an adapter of its own on the same base. Stopped at
 * any moment and started again it goes on where it was. */
int rl_pipeline(const struct rl_options *o, metrics_fn *metrics, void *ctx, struct err *err);
/* Prints the memory plan, prompt and token counts and what would run. Of the model's folder it
 * reads config.json and the tokenizer alone. */
int rl_dry_run(const struct rl_options *o, FILE *out, struct err *err);

/* ---- the update: rows, packing, loss ---- */

struct updater;
#define UPDATE_HEAD_ROWS 512   /* rows of logits held at once */
/* Weights of tokens whose sampler was another policy than the one that trains (older weights,
 * another program): exp(old - sampler), TRL's modes. */
enum importance_mode {
	IMPORTANCE_OFF,
	IMPORTANCE_TOKEN_TRUNCATE,
	IMPORTANCE_TOKEN_MASK,
	IMPORTANCE_SEQUENCE_TRUNCATE,
	IMPORTANCE_SEQUENCE_MASK,
	IMPORTANCE_COUNT
};
int importance_mode_from_name(const char *name, enum importance_mode *out, struct err *err);
struct updater_options {
	struct loss_options loss;
	int num_iterations;       /* passes over a batch of rollouts */
	int steps_per_generation; /* mini-batches, each with its optimiser step, that a pass is cut into */
	int max_tokens;           /* of a packed pass */
	int max_completion_length;
	float temperature; /* of tokens that carry none of their own */
	float min_p;       /* as the sampler's: log-probabilities are of what it leaves */
	enum importance_mode importance;
	double importance_cap;
	double max_grad_ratio;           /* limits a norm to so many times the mean of those before; 0: off */
	bool mask_truncated_completions; /* answers cut by length do not train, and their tokens do not count */
	uint64_t seed;                   /* of which answer goes to which mini-batch */
	uint64_t dropout_seed;
	bool full_reference;
	const char *reference_model;
	bool recompute;      /* pass_options */
	struct ranks *ranks; /* that share the sequences of every update, all with the same rollouts; NULL: alone */
	bool apart; /* every answer passes through the model whole, with its prompt: to measure what sharing saves */
};
int updater_create(struct model *m, struct adapter *a, struct optimizer *opt, const struct updater_options *o,
	struct updater **out, struct err *err);
void updater_free(struct updater *u);
/* Optimiser steps that every batch of rollouts takes (of the schedule, too,
 * where nothing trains). */
int updater_steps(const struct updater_options *o);
struct update_stats {
	struct loss_stats loss;
	double grad_norm;          /* mean over updates, before clipping */
	int counted;               /* answers that enter normalisers */
	int sequences;             /* that train */
	int updates;               /* optimiser steps with a gradient */
	int not_finite;            /* of them: skipped for their norm */
	int spikes;                /* held to max_grad_ratio */
	int64_t completion_tokens; /* of the counted answers */
	int64_t tokens;            /* passed through the model for gradients */
	int64_t tokens_apart;      /* of rollouts, if every answer were passed whole with its prompt */
	double weight_sum;         /* importance weights of the tokens that train */
	double weight_min;
	double weight_max;
	int fit_updates;    /* supervised updates beside */
	int fit_examples;   /* their examples */
	int64_t fit_tokens; /* of `tokens`, theirs; examples that were drawn again count once */
	double fit_loss;    /* sum over them of the mean loss of a token */
	double fit_norm;    /* sum over them of the norm before clipping */
};
/* With ranks both are rounds, and a figure of stats that is a sum over sequences is
 * of this rank's alone. */
/* One batch of rollouts (those with a non-zero advantage train; with beta > 0 all that were not
 * dropped). */
int updater_run(struct updater *u, const struct rollout *r, int n, const struct prompt_set *prompts,
	const struct tokenizer *t, bool is_split, struct update_stats *stats, struct err *err);
/* One supervised update: mean log-loss over the examples' completion tokens times weight, at
 * rate_scale times the schedule's rate; adds to stats. Without examples a step of the schedule
 * alone. Each example has a prompt and fits max_tokens. */
int updater_fit(struct updater *u, const struct sft_example *const *e, int count, double rate_scale, double weight,
	struct update_stats *stats, struct err *err);
/* What a checkpoint keeps of an updater. */
json_t *updater_state(const struct updater *u);
void updater_state_set(struct updater *u, const json_t *state);

/* Whether the longest prompt, and what an episode of so many turns has behind it, fit the model's
 * positions: ERR_LIMIT names the options, where the engine's own refusal could not. */
int rl_positions_check(int64_t prompt, int64_t behind, int64_t turns, int64_t positions, struct err *err);

/* ---- evaluation ---- */

/* Rates over rollouts of `tasks` tasks x K samples: pass@1, pass@k (over the tasks that have k
 * answers with a verdict: pass_tasks), well_formed, valid, compiled, correct, genuine, reasons,
 * mean length, mean and geometric mean speedup over the reference, or over the kernel that was
 * given (of genuine answers with times that can be compared; 0: none has). */
json_t *rollouts_summary(
	const struct rollout *r, const struct prompt_set *prompts, int tasks, int K, const int *ks, int nks);
/* Independent answers to one prompt, drawn one after another until what another way of working used
 * is used too: what that way is compared with. */
struct chain {
	int prompt;            /* in the set */
	int sample;            /* number of the next answer */
	int stride;            /* what is added for the one behind it */
	int64_t tokens_budget; /* ends when as many were written: the answer that crosses it counts in full */
	int answers_max;       /* 0: no limit */
	bool stops_solved;     /* ends at a genuine answer too */
	/* what came out, and before chains_draw what was drawn already */
	int answers;
	int64_t tokens;      /* written */
	int64_t tokens_read; /* of the prompts */
	bool is_solved;
	double cost_s;      /* of the cheapest genuine answer; 0: none */
	double reference_s; /* of the reference, as its verdict has it; 0: none */
};
/* Takes an answer into a chain. */
void chain_add(struct chain *c, const struct rollout *r, const struct prompt_set *prompts);
/* o: as for rollouts_collect, of one sample and one turn; its id_base is counted up from. */
int chains_draw(const struct author *a, struct verifier *v, const struct prompt_set *prompts,
	const struct rollout_options *o, struct chain *chains, int n, struct err *err);
/* Means over chains: solved, answers, tokens, tokens_read, speedup_geomean
 * (reference / cheapest). */
json_t *chains_json(const struct chain *c, int n);
/* a[i] beside b[i], which answered the same prompt, with 95 % intervals over structures: the
 * difference of what was solved, and the ratio of speedups where both did. */
json_t *chains_paired(
	const struct chain *a, const struct chain *b, int n, const struct prompt_set *prompts, uint64_t seed);
/* Refinement beside best of n: of episodes (tasks x K of T turns) those chains (tasks * K) that
 * begin with the same first answers and are to write at least as many tokens. */
void episode_chains(const struct rollout *episodes, const struct prompt_set *prompts, int tasks, int K, int T,
	bool is_refining, struct chain *chains);
/* Rates by turn, and beside the chains as chains_draw left them; NULL: the episodes alone. */
json_t *turns_summary(const struct rollout *episodes, const struct chain *chains, const struct prompt_set *prompts,
	int tasks, int K, int T, uint64_t seed);
/* Of answers (prompts x K) to prompts with a kernel: how many are genuine, faster and slower, the
 * changes by which the best ones are faster, and the geometric mean of what was gained over the
 * kernels given with its 95 % interval over structures; a kernel that nothing is faster than stays
 * as it was. `untimed`: genuine answers that could not be compared, because the kernel or the
 * answer has no predicted time, or both have one at different sizes or for different cards. */
json_t *midend_summary(const struct rollout *r, const struct prompt_set *prompts, int K, uint64_t seed);
/* Numbers tasks by structure (0..count - 1, in byte order of structures); a task without one is a
 * structure of its own. Returns the count. */
int tasks_clusters(const struct task *const *tasks, int n, int *cluster /* (n) */);
/* Paired bootstrap over clusters of tasks: 95 % interval of mean(a) - mean(b), a[i] and b[i] of the
 * same task. cluster (n) numbers them below n; NULL: each task is one. */
void bootstrap_paired(const double *a, const double *b, const int *cluster, int n, uint64_t seed, double *low,
	double *mean, double *high);
#endif
