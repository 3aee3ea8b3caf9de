/* kernelbench: results and times in the shapes of KernelBench's own scripts, so that its analysis
 * reads what hone graded, and hone reads what it measured:
 *
 *   eval_results.json        {"<problem id>": [{sample_id, compiled, correctness, metadata,
 *   runtime, runtime_stats}]}     one level a file
 *   pass_at_k_results.json   {averages, metadata, problems}
 *   baseline_time_*.json     {"level1": {"<file>.py": {mean, std, min, max, num_trials, hardware,
 *   device}}}
 *
 * Times are milliseconds on a GPU. A verdict of the vm has none: runtime stays -1, as KernelBench
 * leaves what it did not measure, and no speedup is made from it. */
#ifndef HONE_KERNELBENCH_H
#define HONE_KERNELBENCH_H
#include "task/task.h"
#include "verify/verdict.h"

/* Adds an entry to results (an object, in ascending order of problem ids). correctness is hone's:
 * genuine alone. metadata says what was found. */
void kernelbench_add(json_t *results, int64_t problem_id, int64_t sample_id, const struct verdict *v);
/* Takes runtime and runtime_stats of the same problem and sample over from measured, another
 * eval_results.json. Returns how many. */
int kernelbench_take_times(json_t *results, const json_t *measured);
/* Reads such a file and checks its shape. */
int kernelbench_results_load(const char *path, json_t **out, struct err *err);
int kernelbench_baseline_load(
	const char *path, int level, json_t **out, struct err *err); /* out: that level's object, file name to times */
/* The numbers of KernelBench's analysis (sample 0, its formulas) over the problems of one level in
 * tasks; baseline may be NULL. fast_p is a share of the problems that the baseline has; it and
 * geo_mean_speedup are null unless every correct kernel among those has a time. */
json_t *kernelbench_analysis(const json_t *results, const struct task_set *tasks, int level, const json_t *baseline);
/* The one level of the tasks, which all need a problem id; several levels or a task without an id
 * are refused. */
int kernelbench_level(const struct task *const *tasks, size_t count, int *level, struct err *err);
/* Refuses a folder whose eval_results.json hone did not write: it may hold measured times. */
int kernelbench_folder_check(const char *dir, struct err *err);
#define KERNELBENCH_BASELINE "baseline_time.json"
/* Writes eval_results.json, pass_at_k_results.json and, with a baseline, the rows of it that belong
 * to results' problems as KERNELBENCH_BASELINE. */
int kernelbench_save(
	const char *dir, json_t *results, const struct task_set *tasks, int level, const json_t *baseline, struct err *err);
#endif
