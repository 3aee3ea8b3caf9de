/* KernelBench's results and times: see eval.h. */
#include "eval/eval.h"
#include "base/base.h"
#include "task/task.h"
#include "verify/verdict.h"

#include <math.h>
#include <stdlib.h>

#define FILE_BYTES_MAX ((size_t)256 << 20)
#define MARK "hone"          /* key in metadata that only hone's entries have */
#define RESULTS "eval_results.json"

/* ---- entries ---- */

/* KernelBench's times are of the task's own sizes, in milliseconds. */
static bool is_timed_here(const struct verdict *v)
{
	return v->class == VERDICT_GENUINE && !v->sizes[0] && v->device.timed > 0 && v->device.time_s > 0;
}

static json_t *stats_json(struct verdict_measure seconds, int spans, const char *hardware)
{
	return json_pack("{s:f, s:f, s:f, s:i, s:s, s:s}", "mean", seconds.value * 1e3, "low", seconds.low * 1e3, "high",
		seconds.high * 1e3, "num_trials", spans, "hardware", hardware, "device", "cuda");
}

static json_t *entry_json(int64_t sample_id, const struct verdict *v)
{
	char trials[64];
	bool has_gpu = v->device.driver > 0;
	json_t *metadata = json_pack("{s:s, s:s, s:o}", "hardware",
		has_gpu ? v->device.name : "none: replayed by hone's vm on a CPU", "device", has_gpu ? "cuda" : "cpu", MARK,
		verdict_json(v));
	snprintf(trials, sizeof trials, "(%d / %d)", v->trials - v->trials_failed, v->trials);
	if (v->trials) json_object_set_new(metadata, "correctness_trials", json_string(trials));
	const struct verdict_device *d = &v->device;
	struct verdict_measure own = {d->time_s, d->time_low_s, d->time_high_s};
	bool is_timed = is_timed_here(v);
	return json_pack("{s:I, s:b, s:b, s:o, s:f, s:o}", "sample_id", (json_int_t)sample_id, "compiled", v->compiled,
		"correctness", v->class == VERDICT_GENUINE, "metadata", metadata, "runtime", is_timed ? own.value * 1e3 : -1.0,
		"runtime_stats", is_timed ? stats_json(own, d->timed, d->name) : json_object());
}

void kernelbench_add(json_t *results, int64_t problem_id, int64_t sample_id, const struct verdict *v)
{
	char key[32];
	snprintf(key, sizeof key, "%lld", (long long)problem_id);
	json_t *list = json_object_get(results, key);
	if (!list) json_object_set_new(results, key, list = json_array());
	json_array_append_new(list, entry_json(sample_id, v));
}

static const char *last_part(const char *name)
{
	const char *slash = strrchr(name, '/');
	return slash ? slash + 1 : name;
}

void kernelbench_add_reference(json_t *rows, const struct task *t, const struct verdict *v)
{
	const struct verdict_reference *r = &v->device.references[REFERENCE_EAGER];
	if (!is_timed_here(v) || !r->is_timed || !(r->time_s.value > 0)) return;
	char *file = xasprintf("%s.py", last_part(t->name));
	if (!json_object_get(rows, file)) {
		json_t *row = stats_json(r->time_s, v->device.timed, v->device.name);
		json_object_set_new(row, MARK, json_string("its eager reference, timed beside a kernel"));
		json_object_set_new(rows, file, row);
	}
	free(file);
}

static json_t *entry_find(const json_t *list, json_int_t sample_id)
{
	for (size_t i = 0; i < json_array_size(list); i++) {
		json_t *entry = json_array_get(list, i);
		if (json_integer_value(json_object_get(entry, "sample_id")) == sample_id) return entry;
	}
	return NULL;
}

static double runtime_of(const json_t *entry)
{
	double ms = json_number_value(json_object_get(entry, "runtime"));
	return isfinite(ms) && ms > 0 ? ms : -1;
}

int kernelbench_take_times(json_t *results, const json_t *measured)
{
	const char *key;
	json_t *list, *entry;
	size_t i;
	int taken = 0;
	json_object_foreach(results, key, list) json_array_foreach(list, i, entry)
	{
		const json_t *other = entry_find(
			json_object_get(measured, key), json_integer_value(json_object_get(entry, "sample_id")));
		if (!other || runtime_of(other) < 0 || runtime_of(entry) > 0) continue;
		static const char *const fields[] = {"runtime", "runtime_stats"};
		for (size_t f = 0; f < ARRAY_LEN(fields); f++)
			if (json_object_get(other, fields[f])) json_object_set(entry, fields[f], json_object_get(other, fields[f]));
		taken++;
	}
	return taken;
}

/* ---- reading ---- */

static int entry_check(const json_t *entry, const char *what, struct err *err)
{
	int64_t sample = 0;
	bool flag = false;
	double ms = -1;
	if (!json_is_object(entry)) return err_set(err, ERR_FORMAT, "%s: expected a list of objects", what);
	int rc = json_get_int(entry, what, "sample_id", 0, INT32_MAX, &sample, err);
	if (!rc) rc = json_opt_bool(entry, what, "compiled", &flag, err);
	if (!rc) rc = json_opt_bool(entry, what, "correctness", &flag, err);
	return rc ? rc : json_opt_num(entry, what, "runtime", &ms, err);
}

int kernelbench_results_load(const char *path, json_t **out, struct err *err)
{
	const char *key;
	json_t *list, *entry;
	size_t i;
	int rc = json_load(path, FILE_BYTES_MAX, out, err);
	if (rc) return rc;
	if (!json_is_object(*out)) rc = err_set(err, ERR_FORMAT, "%s: expected an object of problem ids", path);
	json_object_foreach(*out, key, list)
	{
		char what[600];
		snprintf(what, sizeof what, "%.500s: problem %.40s", path, key);
		if (!rc && !json_is_array(list)) rc = err_set(err, ERR_FORMAT, "%s: expected a list", what);
		json_array_foreach(list, i, entry) if (!rc) rc = entry_check(entry, what, err);
	}
	if (rc) {
		json_decref(*out);
		*out = NULL;
	}
	return rc;
}

int kernelbench_baseline_load(const char *path, int level, json_t **out, struct err *err)
{
	char key[16];
	json_t *file = NULL;
	int rc = json_load(path, FILE_BYTES_MAX, &file, err);
	if (rc) return rc;
	snprintf(key, sizeof key, "level%d", level);
	json_t *rows = json_object_get(file, key), *row;
	const char *name;
	if (!json_is_object(rows))
		rc = err_set(
			err, ERR_FORMAT, "%s: no object \"%s\"; expected the shape of KernelBench's baseline times", path, key);
	json_object_foreach(rows, name, row)
	{
		double mean = json_number_value(json_object_get(row, "mean"));
		if (!rc && !(isfinite(mean) && mean > 0))
			rc = err_set(err, ERR_FORMAT, "%s: %s: \"mean\" is not a time in milliseconds", path, name);
	}
	*out = rc ? NULL : json_incref(rows);
	json_decref(file);
	return rc;
}

int kernelbench_folder_check(const char *dir, struct err *err)
{
	char *path = path_join(dir, RESULTS);
	json_t *old = NULL, *list, *entry;
	const char *key;
	size_t i;
	bool is_ours = true;
	int rc = path_exists(path) ? kernelbench_results_load(path, &old, err) : 0;
	json_object_foreach(old, key, list) json_array_foreach(list, i, entry)
		is_ours = is_ours && json_object_get(json_object_get(entry, "metadata"), MARK);
	if (!rc && !is_ours)
		rc = err_set(err, ERR_USAGE,
			"%s holds results that hone did not write; name another folder with --results (and this file with "
			"--timings: its times)",
			path);
	json_decref(old);
	free(path);
	return rc;
}

/* ---- analysis ---- */

/* The baseline's mean for a task, or -1. */
static double baseline_of(const json_t *baseline, const struct task *t)
{
	char *file = xasprintf("%s.py", last_part(t->name));
	const json_t *row = json_object_get(baseline, file);
	free(file);
	return row ? json_number_value(json_object_get(row, "mean")) : -1;
}

int kernelbench_level(const struct task *const *tasks, size_t count, int *level, struct err *err)
{
	for (size_t i = 0; i < count; i++) {
		if (!tasks[i]->problem_id || !tasks[i]->level)
			return err_set(err, ERR_USAGE,
				"task %s has no problem id or no level; KernelBench's results are kept by number: see `hone tasks "
				"import`",
				tasks[i]->name);
		if (tasks[i]->level != tasks[0]->level)
			return err_set(err, ERR_USAGE,
				"tasks of levels %d and %d; KernelBench keeps one level in a file: choose one with --level",
				tasks[0]->level, tasks[i]->level);
	}
	*level = count ? tasks[0]->level : 0;
	return 0;
}

struct scores {
	int total;     /* problems */
	int evaluated; /* of them: with a record */
	int compiled;
	int correct;
	int aligned;         /* whose reference has a time */
	int aligned_correct; /* of those: correct */
	int timed;           /* of those: with a time of their own */
	double log_speedup;  /* sum over those */
	int faster[6];       /* [p] of those: more than THRESHOLDS[p] times as fast */
};
static const double THRESHOLDS[] = {0, 0.5, 0.8, 1, 1.5, 2}; /* of KernelBench's analysis */

/* A reference that was timed here was so beside a right kernel alone: what is not right is no
 * faster than it, however long it takes. */
static void score_task(
	struct scores *s, const json_t *results, const struct task *t, const json_t *baseline, bool is_own)
{
	char key[32];
	snprintf(key, sizeof key, "%lld", (long long)t->problem_id);
	const json_t *list = json_object_get(results, key), *entry = entry_find(list, 0);
	bool is_correct = json_is_true(json_object_get(entry, "correctness"));
	double ms = runtime_of(entry), reference_ms = baseline_of(baseline, t);
	bool is_aligned = reference_ms > 0 || (is_own && entry);
	s->total++;
	s->evaluated += list != NULL;
	s->compiled += json_is_true(json_object_get(entry, "compiled"));
	s->correct += is_correct;
	s->aligned += is_aligned;
	s->aligned_correct += is_correct && is_aligned;
	if (!is_correct || ms <= 0 || reference_ms <= 0) return;
	s->timed++;
	s->log_speedup += log(reference_ms / ms);
	for (size_t p = 0; p < ARRAY_LEN(THRESHOLDS); p++) s->faster[p] += reference_ms / ms > THRESHOLDS[p];
}

json_t *kernelbench_analysis(
	const json_t *results, const struct task_set *tasks, int level, const json_t *baseline, bool is_own)
{
	struct scores s = {0};
	for (size_t i = 0; i < tasks->count; i++)
		if (tasks->tasks[i].level == level && tasks->tasks[i].problem_id)
			score_task(&s, results, &tasks->tasks[i], baseline, is_own);
	bool is_timed = s.timed && s.timed == s.aligned_correct;
	double total = MAX(s.total, 1);
	json_t *fast_p = is_timed ? json_object() : json_null();
	for (size_t p = 0; p < ARRAY_LEN(THRESHOLDS) && is_timed; p++) {
		char key[16];
		snprintf(key, sizeof key, "%.1f", THRESHOLDS[p]);
		json_object_set_new(fast_p, key, json_real((double)s.faster[p] / s.aligned));
	}
	json_t *speedup = is_timed ? json_real(exp(s.log_speedup / s.timed)) : json_null();
	return json_pack("{s:i, s:i, s:i, s:i, s:i, s:i, s:i, s:f, s:f, s:o, s:o}", "level", level, "total_count", s.total,
		"total_eval", s.evaluated, "compiled_count", s.compiled, "correct_count", s.correct, "baseline_count",
		s.aligned, "timed_count", s.timed, "compilation_rate", s.compiled / total, "correctness_rate",
		s.correct / total, "geo_mean_speedup", speedup, "fast_p", fast_p);
}

/* ---- pass@k ---- */

static int correct_of(const json_t *list)
{
	int n = 0;
	for (size_t i = 0; i < json_array_size(list); i++) {
		const json_t *entry = json_array_get(list, i);
		n += json_is_true(json_object_get(entry, "correctness")) && json_is_true(json_object_get(entry, "compiled"));
	}
	return n;
}

/* k = 1, 2, 4, ... as far as every problem has samples: an average over
 * problems is of one k then. */
static json_t *pass_at_k_json(json_t *results)
{
	json_t *problems = json_object(), *averages = json_object(), *metadata = json_object(), *list;
	const char *key;
	int64_t samples = 0, correct = 0, fewest = INT32_MAX;
	/* Per problem: samples and how many are right; the fewest samples bound k. */
	json_object_foreach(results, key, list)
	{
		int n = (int)json_array_size(list), c = correct_of(list);
		samples += n;
		correct += c;
		fewest = MIN(fewest, n);
		json_object_set_new(problems, key, json_pack("{s:i, s:i}", "total_samples", n, "correct_samples", c));
	}
	json_int_t count = (json_int_t)json_object_size(results);
	json_object_update_new(metadata,
		json_pack("{s:I, s:I, s:I, s:I}", "total_problems", count, "problems_with_samples", count,
			"total_evaluated_samples", (json_int_t)samples, "total_correct_samples", (json_int_t)correct));
	/* Each k for each problem, and its average. */
	for (int k = 1; count && k <= fewest; k *= 2) {
		char name[32], average[48];
		double sum = 0;
		snprintf(name, sizeof name, "pass@%d", k);
		json_object_foreach(results, key, list)
		{
			double pass = pass_at_k((int)json_array_size(list), correct_of(list), k);
			json_object_set_new(json_object_get(problems, key), name, json_real(pass));
			sum += pass;
		}
		snprintf(average, sizeof average, "avg_%s", name);
		json_object_set_new(averages, average, json_real(sum / (double)count));
		snprintf(average, sizeof average, "%s_count", name);
		json_object_set_new(metadata, average, json_integer(count));
	}
	return json_pack("{s:o, s:o, s:o}", "averages", averages, "metadata", metadata, "problems", problems);
}

/* ---- writing ---- */

/* In the order in which keys were added, which is by number; takes value. */
static int file_put(const char *dir, const char *name, json_t *value, struct err *err)
{
	char *path = path_join(dir, name), *text = json_dumps(value, JSON_INDENT(4));
	int rc = file_write_atomic(path, text, strlen(text), err);
	free(text);
	free(path);
	json_decref(value);
	return rc;
}

static json_t *baseline_rows(const json_t *results, const struct task_set *tasks, int level, const json_t *baseline)
{
	char key[32];
	json_t *rows = json_object();
	for (size_t i = 0; i < tasks->count; i++) {
		const struct task *t = &tasks->tasks[i];
		char *file = xasprintf("%s.py", last_part(t->name));
		snprintf(key, sizeof key, "%lld", (long long)t->problem_id);
		if (t->level == level && json_object_get(results, key) && json_object_get(baseline, file))
			json_object_set(rows, file, json_object_get(baseline, file));
		free(file);
	}
	snprintf(key, sizeof key, "level%d", level);
	return json_pack("{s:o}", key, rows);
}

/* Writes eval_results.json, pass_at_k_results.json and, with a baseline, the rows of it that belong
 * to results' problems as KERNELBENCH_BASELINE. */
static int kernelbench_save(
	const char *dir, json_t *results, const struct task_set *tasks, int level, const json_t *baseline, struct err *err)
{
	int rc = dir_make(dir, err);
	if (!rc) rc = file_put(dir, RESULTS, json_incref(results), err);
	if (!rc) rc = file_put(dir, "pass_at_k_results.json", pass_at_k_json(results), err);
	if (!rc && baseline) rc = file_put(dir, KERNELBENCH_BASELINE, baseline_rows(results, tasks, level, baseline), err);
	return rc;
}

/* ---- times beside results ---- */

int kernelbench_times_load(const char *dir, const char *timings, const char *baseline, int level,
	struct kernelbench_times *out, struct err *err)
{
	*out = (struct kernelbench_times){0};
	int rc = kernelbench_folder_check(dir, err);
	if (!rc && timings) rc = kernelbench_results_load(timings, &out->measured, err);
	if (rc || !baseline) return rc;
	char *path = path_join(dir, KERNELBENCH_BASELINE);
	out->is_baseline_here = path_is_same(baseline, path);
	free(path);
	return kernelbench_baseline_load(baseline, level, &out->baseline, err);
}

void kernelbench_times_release(struct kernelbench_times *t)
{
	json_decref(t->measured);
	json_decref(t->baseline);
	json_decref(t->own);
}

/* A baseline_time.json that lies there is written over only where its rows are ours. */
static bool may_write_baseline(const char *dir)
{
	char *path = path_join(dir, KERNELBENCH_BASELINE);
	const char *level, *name;
	json_t *file = NULL, *rows, *row;
	bool may = true;
	if (path_exists(path)) may = !json_load(path, FILE_BYTES_MAX, &file, &(struct err){0});
	json_object_foreach(file, level, rows) json_object_foreach(rows, name, row)
		may &= json_object_get(row, MARK) != NULL;
	if (!may) log_warn("%s: times that hone did not write: it stays as it is", path);
	json_decref(file);
	free(path);
	return may;
}

int kernelbench_write(const char *dir, json_t *results, const struct task_set *tasks, int level,
	const struct kernelbench_times *t, json_t **analysis, struct err *err)
{
	bool is_own = !t->baseline && json_object_size(t->own);
	const json_t *baseline = is_own ? t->own : t->baseline;
	bool is_kept = t->is_baseline_here || (is_own && !may_write_baseline(dir));
	int taken = t->measured ? kernelbench_take_times(results, t->measured) : 0;
	if (t->measured) log_info("times of %d %s taken over", taken, plural(taken, "kernel", "kernels"));
	int rc = kernelbench_save(dir, results, tasks, level, is_kept ? NULL : baseline, err);
	if (!rc) *analysis = kernelbench_analysis(results, tasks, level, baseline, is_own);
	return rc;
}
