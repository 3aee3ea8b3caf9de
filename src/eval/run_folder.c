/* eval --from_runs: grades kernels that others generated, in KernelBench's layout of a run:
 * level_L_problem_P_sample_S_kernel.py. Every candidate gets the verdict that it would get from
 * `hone verify`: plain torch, CUDA extensions and other languages are refused with a reason code. */
#include "cli/eval.h"
#include "cli/kernelbench.h"

#include <math.h>
#include <stdlib.h>
#include <sys/stat.h>

#define SOURCE_BYTES_MAX ((size_t)64 << 20)   /* what is read; what is judged is bounded by the verifier */

struct run_file {
	char *path;
	int level, problem_id, sample_id;
	const struct task *task;
	bool is_graded;
	struct verdict verdict;
};
struct runs {
	const struct eval_options *o;
	struct task_set tasks;
	struct run_file *files;
	size_t count;
	int unmatched, unreadable, infra, level;
	const char *dir; /* where results go */
	struct eval_times times;
	struct store *store;
	struct verifier *verifier;
	json_t *results;
};

/* ---- the files ---- */

static bool number_read(const char **p, const char *before, int *out)
{
	size_t len = strlen(before), digits;
	if (strncmp(*p, before, len)) return false;
	digits = strspn(*p + len, "0123456789");
	if (digits == 0 || digits > 9) return false;
	*out = (int)strtol(*p + len, NULL, 10);
	*p += len + digits;
	return true;
}

static int file_add(const char *name, void *ctx)
{
	struct runs *r = ctx;
	struct run_file f = {0};
	const char *p = name;
	bool is_named = number_read(&p, "level_", &f.level) && number_read(&p, "_problem_", &f.problem_id) &&
		number_read(&p, "_sample_", &f.sample_id);
	if (!is_named || strcmp(p, "_kernel.py")) return 0;
	if (r->o->level && f.level != r->o->level) return 0;
	f.path = path_join(r->o->from_runs, name);
	struct stat st;
	if (stat(f.path, &st) || !S_ISREG(st.st_mode)) {
		log_warn("%s: not a file: left out", f.path);
		free(f.path);
		return 0;
	}
	if ((r->count & (r->count - 1)) == 0)
		r->files = xrealloc(r->files, size_mul(r->count ? 2 * r->count : 1, sizeof *r->files));
	r->files[r->count++] = f;
	return 0;
}

static int by_number(const void *a, const void *b)
{
	const struct run_file *x = a, *y = b;
	if (x->problem_id != y->problem_id) return x->problem_id < y->problem_id ? -1 : 1;
	return (x->sample_id > y->sample_id) - (x->sample_id < y->sample_id);
}

static int task_find(struct runs *r, struct run_file *f, struct err *err)
{
	for (size_t i = 0; i < r->tasks.count; i++) {
		const struct task *t = &r->tasks.tasks[i];
		if (t->level != f->level || t->problem_id != f->problem_id) continue;
		if (f->task)
			return err_set(err, ERR_USAGE, "%s: %s and %s are both problem %d of level %d", r->o->tasks, f->task->name,
				t->name, f->problem_id, f->level);
		f->task = t;
	}
	if (!f->task && r->unmatched++ < 10)
		log_warn("%s: %s has no problem %d of level %d: left out", f->path, r->o->tasks, f->problem_id, f->level);
	return 0;
}

static int files_check(struct runs *r, struct err *err)
{
	const struct eval_options *o = r->o;
	if (!r->count)
		return err_set(err, ERR_NOT_FOUND,
			"%s: no file level_L_problem_P_sample_S_kernel.py%s; expected a run folder as KernelBench's "
			"generate_samples.py fills it",
			o->from_runs, o->level ? " of that --level" : "");
	qsort(r->files, r->count, sizeof *r->files, by_number);
	r->level = r->files[0].level;
	for (size_t i = 0; i < r->count; i++) {
		struct run_file *f = &r->files[i];
		if (f->level != r->level)
			return err_set(err, ERR_USAGE,
				"%s: kernels of levels %d and %d; choose one with --level: eval_results.json keeps one", o->from_runs,
				r->level, f->level);
		if (i && !by_number(&r->files[i - 1], f))
			return err_set(err, ERR_FORMAT, "%s and %s are the same problem and sample", r->files[i - 1].path, f->path);
		int rc = task_find(r, f, err);
		if (rc) return rc;
	}
	return (size_t)r->unmatched < r->count
		? 0
		: err_set(err, ERR_MISMATCH,
			  "%s: no kernel belongs to a task of %s (its `problem_id` and `level`; see `hone tasks list --json`)",
			  o->from_runs, o->tasks);
}

/* ---- grading ---- */

/* A file that cannot be read is named and left out: it must not cost the others their verdicts. */
static int submit(struct runs *r, size_t i, int64_t *count, struct err *err)
{
	struct run_file *f = &r->files[i];
	struct str source = {0};
	struct err why = {0};
	int rc = 0;
	if (file_read(f->path, SOURCE_BYTES_MAX, &source, &why)) {
		log_warn("%s: left out", why.text);
		f->task = NULL;
		r->unreadable++;
	} else {
		struct verify_request request = {
			.task = f->task, .source = source.data ? source.data : "", .source_len = source.len, .id = (int64_t)i};
		rc = verifier_submit(r->verifier, &request, err);
		++*count;
	}
	str_release(&source);
	return rc;
}

static int grade_all(struct runs *r, struct err *err)
{
	int64_t count = 0;
	struct progress p;
	int rc = 0;
	for (size_t i = 0; i < r->count && !rc; i++)
		if (r->files[i].task) rc = submit(r, i, &count, err);
	progress_begin(&p, "eval", "kernels", count);
	for (int64_t done = 0; done < count && !rc; done++) {
		int64_t id = 0;
		struct verdict v;
		rc = verifier_collect(r->verifier, -1, &id, &v, err);
		if (rc) break;
		r->files[id].verdict = v;
		r->files[id].is_graded = v.class != VERDICT_INFRA;
		r->infra += v.class == VERDICT_INFRA;
		progress_update(&p, done + 1, r->files[id].task->name);
	}
	progress_end(&p);
	for (size_t i = 0; i < r->count && !rc; i++)
		if (r->files[i].is_graded)
			kernelbench_add(r->results, r->files[i].problem_id, r->files[i].sample_id, &r->files[i].verdict);
	return rc;
}

/* ---- what comes out ---- */

static int rows_write(const struct runs *r, struct err *err)
{
	if (!r->o->out) return 0;
	struct str text = {0};
	for (size_t i = 0; i < r->count; i++) {
		const struct run_file *f = &r->files[i];
		if (!f->task) continue;
		json_t *row = json_pack("{s:s, s:i, s:i, s:i, s:s, s:o}", "task", f->task->name, "level", f->level,
			"problem_id", f->problem_id, "sample", f->sample_id, "file", f->path, "verdict", verdict_json(&f->verdict));
		jsonl_put(&text, row);
		json_decref(row);
	}
	int rc = jsonl_write(r->o->out, &text, err);
	str_release(&text);
	return rc;
}

static json_t *reasons_json(const struct runs *r)
{
	json_t *reasons = json_object();
	for (size_t i = 0; i < r->count; i++) {
		const struct verdict *v = &r->files[i].verdict;
		char key[96];
		if (!r->files[i].task) continue;
		snprintf(key, sizeof key, "%s/%s", verdict_class_name(v->class), v->reason);
		json_object_set_new(reasons, key, json_integer(json_integer_value(json_object_get(reasons, key)) + 1));
	}
	return reasons;
}

int eval_times_load(const struct eval_options *o, const char *dir, int level, struct eval_times *out, struct err *err)
{
	*out = (struct eval_times){0};
	int rc = kernelbench_folder_check(dir, err);
	if (!rc && o->timings) rc = kernelbench_results_load(o->timings, &out->measured, err);
	if (rc || !o->baseline) return rc;
	char *path = path_join(dir, KERNELBENCH_BASELINE);
	out->is_baseline_here = path_is_same(o->baseline, path);
	free(path);
	return kernelbench_baseline_load(o->baseline, level, &out->baseline, err);
}

void eval_times_release(struct eval_times *t)
{
	json_decref(t->measured);
	json_decref(t->baseline);
}

int eval_results_write(const char *dir, json_t *results, const struct task_set *tasks, int level,
	const struct eval_times *t, json_t **analysis, struct err *err)
{
	if (t->measured) log_info("times of %d kernels taken over", kernelbench_take_times(results, t->measured));
	int rc = kernelbench_save(dir, results, tasks, level, t->is_baseline_here ? NULL : t->baseline, err);
	if (!rc) *analysis = kernelbench_analysis(results, tasks, level, t->baseline);
	return rc;
}

void eval_analysis_print(const json_t *a)
{
	static const char *const keys[] = {"level", "total_count", "total_eval", "compiled_count", "correct_count"};
	long long n[ARRAY_LEN(keys)];
	const char *p;
	json_t *share, *fast_p = json_object_get(a, "fast_p");
	for (size_t i = 0; i < ARRAY_LEN(keys); i++) n[i] = json_integer_value(json_object_get(a, keys[i]));
	printf("level %lld: %lld problems, %lld with results; of their samples 0: compiled %lld, correct %lld\n", n[0],
		n[1], n[2], n[3], n[4]);
	json_object_foreach(fast_p, p, share) printf("fast_%-9s %.4f\n", p, json_real_value(share));
	if (!json_object_size(fast_p))
		printf("fast_p: not measured: it needs times from a GPU (--timings) and of the references (--baseline); "
			   "runtime stays -1\n");
}

static int report(struct runs *r, struct err *err)
{
	const char *key;
	json_t *analysis = NULL, *reasons = reasons_json(r), *n;
	int rc = eval_results_write(r->dir, r->results, &r->tasks, r->level, &r->times, &analysis, err);
	if (!rc) rc = rows_write(r, err);
	if (!rc && r->o->json) {
		json_object_update_new(analysis,
			json_pack("{s:s, s:I, s:i, s:i, s:i, s:O}", "results", r->dir, "kernels", (json_int_t)r->count, "unmatched",
				r->unmatched, "unreadable", r->unreadable, "infra", r->infra, "reasons", reasons));
		json_dumpf(analysis, stdout, JSON_COMPACT | JSON_SORT_KEYS);
		printf("\n");
	} else if (!rc) {
		printf("%s: %zu kernels; left out: %d without a task, %d that could not be read, %d that could not be judged "
			   "(infra)\n",
			r->dir, r->count, r->unmatched, r->unreadable, r->infra);
		eval_analysis_print(analysis);
		json_object_foreach(reasons, key, n) printf("  %-32s %lld\n", key, (long long)json_integer_value(n));
	}
	json_decref(analysis);
	json_decref(reasons);
	return rc;
}

static int options_check(const struct eval_options *o, struct err *err)
{
	if (o->model || o->adapter)
		return err_set(err, ERR_USAGE,
			"--from_runs grades kernels that are there; --model and --adapter make new ones: choose one");
	if (o->compare)
		return err_set(err, ERR_USAGE,
			"--compare belongs to --model; the rows that --from_runs writes with --out can be compared against");
	if (!o->tasks)
		return err_set(err, ERR_USAGE, "--tasks is missing: what `hone tasks import` made of a KernelBench checkout");
	return 0;
}

int eval_runs(const struct eval_options *o, struct err *err)
{
	struct runs r = {.o = o, .results = json_object(), .dir = o->results ? o->results : o->from_runs};
	int rc = options_check(o, err);
	if (!rc) rc = task_set_load(o->tasks, &r.tasks, err);
	if (!rc) rc = dir_each(o->from_runs, file_add, &r, err);
	if (!rc) rc = files_check(&r, err);
	if (!rc) rc = eval_times_load(o, r.dir, r.level, &r.times, err);
	if (!rc && o->store) rc = store_open(o->store, &r.store, err);
	struct verify_options v = eval_verify_options(o, r.store);
	if (!rc) rc = verifier_create(&v, &r.verifier, err);
	if (!rc) rc = grade_all(&r, err);
	if (!rc) rc = report(&r, err);
	verifier_free(r.verifier);
	store_close(r.store);
	for (size_t i = 0; i < r.count; i++) free(r.files[i].path);
	free(r.files);
	task_set_release(&r.tasks);
	eval_times_release(&r.times);
	json_decref(r.results);
	return rc;
}
