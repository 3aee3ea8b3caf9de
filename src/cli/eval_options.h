/* eval_options: settings of `hone eval`, which its two halves share: cmd_eval.c asks a model,
 * eval_runs.c grades kernels that others generated. */
#ifndef HONE_EVAL_OPTIONS_H
#define HONE_EVAL_OPTIONS_H
#include "base/base.h"
#include "policy/policy.h"
#include "store/store.h"
#include "verify/verify.h"

struct eval_options {
	struct policy_options policy;
	const char *tasks, *split, *stage, *prompt_template, *precision, *out, *compare, *store, *from_runs, *results,
		*timings, *baseline, *verify_device, *gpu, *cost_size, *turn_template;
	int64_t limit, num_samples, max_prompt_length, max_completion_length, top_k, seed, verify_threads,
		num_correct_trials, verify_seed, level, oracle_timeout_ms, num_turns, max_feedback_length;
	double temperature, top_p;
	bool json, turn_refines;
};
struct verify_options eval_verify_options(const struct eval_options *o, struct store *store);
/* Grades --from_runs against --tasks, writes, prints. */
int eval_runs(const struct eval_options *o, struct err *err);
void eval_analysis_print(const json_t *analysis);
#endif
