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
	const char *tasks, *split, *stage, *prompt_template, *precision, *out, *compare, *store, *from_runs, *results,
		*timings, *baseline, *verify_device, *gpu, *cost_size, *turn_template, *midend_adapter, *midend_template;
	int64_t limit, num_samples, max_prompt_length, max_completion_length, top_k, seed, verify_threads,
		num_correct_trials, verify_seed, level, oracle_timeout_ms, num_turns, max_feedback_length, midend_samples;
	double temperature, top_p;
	bool json, turn_refines, pipeline;
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
/* --pipeline: frontend and mid-end beside a single agent at equal answers and at equal tokens. The
 * mid-end's answers go to rows (JSONL) too. New reference in *out. */
int eval_pipeline(struct eval_chain *c, struct str *rows, json_t **out, struct err *err);
void eval_pipeline_print(const json_t *pipeline);
/* Grades --from_runs against --tasks, writes, prints. */
int eval_runs(const struct eval_options *o, struct err *err);
void eval_analysis_print(const json_t *analysis);
#endif
