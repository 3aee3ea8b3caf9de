/* eval_options: settings of `hone eval`, which its parts share: cmd_eval.c asks a policy,
 * eval_pipeline.c carries its answers on to a mid-end, eval_runs.c grades kernels that others
 * generated. */
#ifndef HONE_EVAL_OPTIONS_H
#define HONE_EVAL_OPTIONS_H
#include "base/base.h"
#include "policy/policy.h"
#include "rl/rl.h"
#include "store/store.h"
#include "verify/verify.h"

struct eval_options {
	struct policy_options policy;
	const char *tasks;
	const char *split;
	const char *stage;
	const char *prompt_template;
	const char *precision;
	const char *out;
	const char *compare;
	const char *store;
	const char *from_runs;
	const char *results;
	const char *timings;
	const char *baseline;
	const char *verify_device;
	bool verify_profile;
	const char *gpu;
	const char *cost_size;
	const char *turn_template;
	const char *midend_adapter;
	const char *midend_template;
	int64_t limit;
	int64_t num_samples;
	int64_t max_prompt_length;
	int64_t max_completion_length;
	int64_t top_k;
	int64_t seed;
	int64_t verify_threads;
	int64_t num_correct_trials;
	int64_t verify_seed;
	int64_t level;
	int64_t oracle_timeout_ms;
	int64_t num_turns;
	int64_t max_feedback_length;
	int64_t midend_samples;
	int64_t variants;
	struct option_list variants_from;
	double temperature;
	double top_p;
	bool json;
	bool judge;
	bool turn_refines;
	bool pipeline;
};
struct verify_options eval_verify_options(const struct eval_options *o, struct store *store);
/* The answers of a frontend, to be carried on by a mid-end. */
struct eval_chain {
	const struct eval_options *o;
	struct policy *policy;
	struct author *author; /* its engine is made anew where the mid-end's prompts need more room */
	struct verifier *verifier;
	const struct prompt_set *prompts;
	const struct rollout *rollouts; /* (prompts x num_samples) */
	struct rollout_options front;   /* how they were drawn */
};
/* Fields of what is printed for people. */
static inline double real_at(const json_t *o, const char *key) { return json_number_value(json_object_get(o, key)); }
static inline long long count_at(const json_t *o, const char *key)
{
	return (long long)json_integer_value(json_object_get(o, key));
}
/* --pipeline: frontend and mid-end beside a single agent at equal answers and at equal tokens. The
 * mid-end's answers go to rows (JSONL) too. New reference in *out. */
int eval_pipeline(struct eval_chain *c, struct str *rows, json_t **out, struct err *err);
void eval_pipeline_print(const json_t *pipeline);
void eval_midend_print(const json_t *midend); /* of midend_summary */
/* The best genuine kernel of each task (the fastest on the GPU, where both were timed; else the one
 * of least predicted time) once more, as a final best: under compute-sanitizer, timed turn by turn
 * with the reference in three forms. What the finding is stands beside the answers' own verdicts,
 * in rows (JSONL, stage "final") and in *out (new reference).
 */
int eval_finals(const struct eval_options *o, struct verifier *v, const struct prompt_set *prompts,
	const struct rollout *rollouts, struct str *rows, json_t **out, struct err *err);
void eval_finals_print(const json_t *finals);
/* Grades --from_runs against --tasks, writes, prints. */
int eval_runs(const struct eval_options *o, struct err *err);
void eval_analysis_print(const json_t *analysis);
#endif
