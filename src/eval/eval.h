/* eval: what grades become: the unbiased pass@k, and KernelBench's run folders, results and times.
 *
 * Results and times have the shapes of KernelBench's own scripts, so that its analysis
 * reads what hone graded, and hone reads what it measured:
 *
 *   eval_results.json        {"<problem id>": [{sample_id, compiled, correctness, metadata,
 *                            runtime, runtime_stats}]}, one level a file
 *   pass_at_k_results.json   {averages, metadata, problems}
 *   baseline_time_*.json     {"level1": {"<file>.py": {mean, std, min, max, num_trials, hardware,
 *                            device}}}
 *
 * Times are milliseconds on a GPU, of a kernel at its task's own sizes: those of a verdict on a
 * GPU, or taken over from elsewhere. Where there is none runtime stays -1, as KernelBench leaves
 * what it did not measure, and no speedup is made from it. */
#ifndef HONE_EVAL_H
#define HONE_EVAL_H
#include "base/base.h"
#include "task/task.h"
#include "verify/verdict.h"
#include "verify/verify.h"

/* Unbiased pass@k of n samples, at least k, with c successes (Chen et al. 2021, eq. 1). */
double pass_at_k(int n, int c, int k);

/* ---- results ---- */

/* Adds an entry to results (an object, in ascending order of problem ids). correctness is hone's:
 * genuine alone. metadata says what was found. */
void kernelbench_add(json_t *results, int64_t problem_id, int64_t sample_id, const struct verdict *v);
/* Adds the eager reference's time where a genuine verdict has one at the task's own sizes. rows: as
 * one level's object of baseline times. */
void kernelbench_add_reference(json_t *rows, const struct task *t, const struct verdict *v);
/* Takes runtime and runtime_stats of the same problem and sample over from measured, another
 * eval_results.json, where they were not timed here. Returns how many. */
int kernelbench_take_times(json_t *results, const json_t *measured);
/* Reads such a file and checks its shape. */
int kernelbench_results_load(const char *path, json_t **out, struct err *err);
/* out: that level's object, file name to times. */
int kernelbench_baseline_load(const char *path, int level, json_t **out, struct err *err);
/* The numbers of KernelBench's analysis (sample 0, its formulas) over the problems of one level in
 * tasks; baseline may be NULL. fast_p is a share of the problems that the baseline has; it and
 * geo_mean_speedup are null unless every correct kernel among those has a time. is_own: the
 * baseline's rows are from kernelbench_add_reference, which has none for what is not right; every
 * problem with a record counts then. */
json_t *kernelbench_analysis(
	const json_t *results, const struct task_set *tasks, int level, const json_t *baseline, bool is_own);
/* The one level of the tasks, which all need a problem id; several levels or a task without an id
 * are refused. */
int kernelbench_level(const struct task *const *tasks, size_t count, int *level, struct err *err);
/* Refuses a folder whose eval_results.json hone did not write: it may hold measured times. */
int kernelbench_folder_check(const char *dir, struct err *err);
#define KERNELBENCH_BASELINE "baseline_time.json"

/* What files of times name, read before a long part. */
struct kernelbench_times {
	json_t *measured;      /* another eval_results.json, or NULL */
	json_t *baseline;      /* one level's object, or NULL */
	json_t *own;           /* of references that were timed here, in baseline's place where there is none; or NULL */
	bool is_baseline_here; /* the baseline is the file that would be written, and stays as it is */
};
/* Refuses a results folder that is not hone's; timings and baseline are paths or NULL; level is the
 * tasks'. */
int kernelbench_times_load(const char *dir, const char *timings, const char *baseline, int level,
	struct kernelbench_times *out, struct err *err);
void kernelbench_times_release(struct kernelbench_times *t);
/* Puts measured times into results, writes the folder, returns the analysis. */
int kernelbench_write(const char *dir, json_t *results, const struct task_set *tasks, int level,
	const struct kernelbench_times *t, json_t **analysis, struct err *err);

/* ---- run folders ---- */

/* Kernels that others generated, in KernelBench's layout of a run:
 * level_L_problem_P_sample_S_kernel.py. */
struct run_file {
	char *path;
	int level;
	int problem_id;
	int sample_id;
	const struct task *task; /* NULL: no task has this number, or the file could not be read */
	bool is_graded;          /* the verdict is one about the kernel, not about this machine */
	struct verdict verdict;
};
struct run_folder {
	struct run_file *files; /* by problem, then sample */
	size_t count;
	int level;      /* the one level of its files */
	int unmatched;  /* files without a task */
	int unreadable; /* files that could not be read */
	int infra;      /* kernels that could not be judged */
};
/* Lists the folder's kernels of one level (0: whichever level it has; several are refused) and
 * finds each one's task, borrowed from tasks; tasks_name is for messages. */
int run_folder_open(const char *dir, int level, const struct task_set *tasks, const char *tasks_name,
	struct run_folder *out, struct err *err);
void run_folder_release(struct run_folder *r);
/* Every kernel gets the verdict that it would get from `hone verify`: plain torch, CUDA extensions
 * and other languages are refused with a reason code. What was judged is added to results. */
int run_folder_grade(struct run_folder *r, struct verifier *v, json_t *results, struct err *err);
/* Times of the references that were timed beside its kernels, as a baseline;
 * NULL: there are none. */
json_t *run_folder_references(const struct run_folder *r);
/* A JSONL line for each kernel that has a task; and how often each class and reason came up. */
void run_folder_rows(const struct run_folder *r, struct str *out);
json_t *run_folder_reasons(const struct run_folder *r); /* new reference */
/* A line for each kernel that has a task: our verdict, KernelBench's check as the record
 * has it, both times on a GPU; and, with the run's own eval_results.json (theirs, or
 * NULL), what that says. */
void run_folder_table(const struct run_folder *r, const json_t *theirs, struct str *out);
#endif
