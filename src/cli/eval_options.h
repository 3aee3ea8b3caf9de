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
	const char *gpu;
	const char *cost_size;
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
	double temperature;
	double top_p;
	bool json;
};
struct verify_options eval_verify_options(const struct eval_options *o, struct store *store);
/* Grades --from_runs against --tasks, writes, prints. */
int eval_runs(const struct eval_options *o, struct err *err);
void eval_analysis_print(const json_t *analysis);
#endif
