/* eval: settings of `hone eval`, which its two halves share: cmd_eval.c asks a model, eval_runs.c
 * grades kernels that others generated. */
#ifndef HONE_EVAL_H
#define HONE_EVAL_H
#include "store/store.h"
#include "verify/verify.h"

struct eval_options {
	const char *model, *adapter, *tasks, *split, *stage, *prompt_template, *chat_template, *chat_date, *precision, *out,
		*compare, *store, *from_runs, *results, *timings, *baseline;
	int64_t limit, num_samples, max_prompt_length, max_completion_length, top_k, seed, threads, verify_threads,
		num_correct_trials, verify_seed, level, oracle_timeout_ms;
	double temperature, top_p;
	bool json;
};
struct verify_options eval_verify_options(const struct eval_options *o, struct store *store);
/* Grades --from_runs against --tasks, writes, prints. */
int eval_runs(const struct eval_options *o, struct err *err);
/* What --timings and --baseline name, read before the long part. level is the tasks'. */
struct eval_times {
	json_t *measured, *baseline;
	bool is_baseline_here;
}; /* here: --baseline is the file that would be written, and stays as it is */
int eval_times_load(const struct eval_options *o, const char *dir, int level, struct eval_times *out, struct err *err);
void eval_times_release(struct eval_times *t);
/* Puts measured times into results, writes the folder, returns the analysis. */
struct task_set;
int eval_results_write(const char *dir, json_t *results, const struct task_set *tasks, int level,
	const struct eval_times *t, json_t **analysis, struct err *err);
void eval_analysis_print(const json_t *analysis);
#endif
