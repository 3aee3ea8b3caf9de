/* A folder of kernels that others generated: see eval.h. */
#include "eval/eval.h"
#include "base/base.h"
#include "task/task.h"
#include "verify/verdict.h"
#include "verify/verify.h"

#include <math.h>
#include <stdlib.h>
#include <sys/stat.h>

#define SOURCE_BYTES_MAX ((size_t)64 << 20)   /* what is read; what is judged is bounded by the verifier */

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

struct listing {
	const char *dir;
	int level; /* 0: any */
	struct run_folder *out;
};

static int file_add(const char *name, void *ctx)
{
	const struct listing *l = ctx;
	struct run_folder *r = l->out;
	struct run_file f = {0};
	const char *p = name;
	bool is_named = number_read(&p, "level_", &f.level) && number_read(&p, "_problem_", &f.problem_id) &&
		number_read(&p, "_sample_", &f.sample_id);
	if (!is_named || strcmp(p, "_kernel.py")) return 0;
	if (l->level && f.level != l->level) return 0;
	f.path = path_join(l->dir, name);
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

/* The file's task: the one with its level and problem number. */
static int task_find(
	struct run_folder *r, struct run_file *f, const struct task_set *tasks, const char *tasks_name, struct err *err)
{
	for (size_t i = 0; i < tasks->count; i++) {
		const struct task *t = &tasks->tasks[i];
		if (t->level != f->level || t->problem_id != f->problem_id) continue;
		if (f->task)
			return err_set(err, ERR_USAGE, "%s: %s and %s are both problem %d of level %d", tasks_name, f->task->name,
				t->name, f->problem_id, f->level);
		f->task = t;
	}
	if (!f->task && r->unmatched++ < 10)
		log_warn("%s: %s has no problem %d of level %d: left out", f->path, tasks_name, f->problem_id, f->level);
	return 0;
}

int run_folder_open(const char *dir, int level, const struct task_set *tasks, const char *tasks_name,
	struct run_folder *out, struct err *err)
{
	*out = (struct run_folder){0};
	/* All files of the folder whose names are KernelBench's. */
	struct listing l = {dir, level, out};
	int rc = dir_each(dir, file_add, &l, err);
	if (rc) return rc;
	if (!out->count)
		return err_set(err, ERR_NOT_FOUND,
			"%s: no file level_L_problem_P_sample_S_kernel.py%s; expected a run folder as KernelBench's "
			"generate_samples.py fills it",
			dir, level ? " of that --level" : "");
	/* By number, so that two files of one problem and sample are neighbours. */
	qsort(out->files, out->count, sizeof *out->files, by_number);
	out->level = out->files[0].level;
	/* Each is of the same level and of a task that is there; two of one sample contradict one
	 * another. */
	for (size_t i = 0; i < out->count; i++) {
		struct run_file *f = &out->files[i];
		if (f->level != out->level)
			return err_set(err, ERR_USAGE,
				"%s: kernels of levels %d and %d; choose one with --level: eval_results.json keeps one", dir,
				out->level, f->level);
		if (i && !by_number(&out->files[i - 1], f))
			return err_set(
				err, ERR_FORMAT, "%s and %s are the same problem and sample", out->files[i - 1].path, f->path);
		rc = task_find(out, f, tasks, tasks_name, err);
		if (rc) return rc;
	}
	return (size_t)out->unmatched < out->count
		? 0
		: err_set(err, ERR_MISMATCH,
			  "%s: no kernel belongs to a task of %s (its `problem_id` and `level`; see `hone tasks list --json`)", dir,
			  tasks_name);
}

void run_folder_release(struct run_folder *r)
{
	for (size_t i = 0; i < r->count; i++) free(r->files[i].path);
	free(r->files);
	*r = (struct run_folder){0};
}

/* ---- grading ---- */

/* A file that cannot be read is named and left out: it must not cost the others their verdicts. */
static int submit(struct run_folder *r, struct verifier *v, size_t i, int64_t *count, struct err *err)
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
		rc = verifier_submit(v, &request, err);
		++*count;
	}
	str_release(&source);
	return rc;
}

int run_folder_grade(struct run_folder *r, struct verifier *verifier, json_t *results, struct err *err)
{
	int64_t count = 0;
	struct progress p;
	int rc = 0;
	for (size_t i = 0; i < r->count && !rc; i++)
		if (r->files[i].task) rc = submit(r, verifier, i, &count, err);
	/* Verdicts come back in any order; results are added in the order of the files. */
	progress_begin(&p, "eval", "kernels", count);
	for (int64_t done = 0; done < count && !rc; done++) {
		int64_t id = 0;
		struct verdict v;
		rc = verifier_collect(verifier, -1, &id, &v, err);
		if (rc) break;
		r->files[id].verdict = v;
		r->files[id].is_graded = v.class != VERDICT_INFRA;
		r->infra += v.class == VERDICT_INFRA;
		progress_update(&p, done + 1, r->files[id].task->name);
	}
	progress_end(&p);
	for (size_t i = 0; i < r->count && !rc; i++)
		if (r->files[i].is_graded)
			kernelbench_add(results, r->files[i].problem_id, r->files[i].sample_id, &r->files[i].verdict);
	return rc;
}

/* ---- what comes out ---- */

void run_folder_rows(const struct run_folder *r, struct str *out)
{
	for (size_t i = 0; i < r->count; i++) {
		const struct run_file *f = &r->files[i];
		if (!f->task) continue;
		json_t *row = json_pack("{s:s, s:i, s:i, s:i, s:s, s:o}", "task", f->task->name, "level", f->level,
			"problem_id", f->problem_id, "sample", f->sample_id, "file", f->path, "verdict", verdict_json(&f->verdict));
		jsonl_put(out, row);
		json_decref(row);
	}
}

json_t *run_folder_references(const struct run_folder *r)
{
	json_t *rows = json_object();
	for (size_t i = 0; i < r->count; i++)
		if (r->files[i].is_graded) kernelbench_add_reference(rows, r->files[i].task, &r->files[i].verdict);
	if (json_object_size(rows)) return rows;
	json_decref(rows);
	return NULL;
}

/* ---- a table ---- */

static void time_put(struct str *out, double seconds)
{
	if (seconds > 0) str_printf(out, "  %8.2f us", seconds * 1e6);
	else str_printf(out, "  %11s", "-");
}

/* What the run's own file says of the kernel. */
static void theirs_put(struct str *out, const json_t *theirs, const struct run_file *f)
{
	char key[32];
	size_t i;
	json_t *entry;
	snprintf(key, sizeof key, "%d", f->problem_id);
	json_array_foreach(json_object_get(theirs, key), i, entry)
	{
		if (json_integer_value(json_object_get(entry, "sample_id")) != f->sample_id) continue;
		str_printf(out, "  %-7s", json_is_true(json_object_get(entry, "correctness")) ? "correct" : "wrong");
		time_put(out, json_number_value(json_object_get(entry, "runtime")) * 1e-3);
		return;
	}
	str_printf(out, "  %-7s", "-");
	time_put(out, NAN);
}

void run_folder_table(const struct run_folder *r, const json_t *theirs, struct str *out)
{
	static const char *const CHECKS[] = {"not known", "fails", "passes"};
	bool is_timed = false;
	for (size_t i = 0; i < r->count; i++) is_timed |= r->files[i].verdict.device.timed > 0;
	str_printf(out, "%7s %6s  %-28s  %-9s", "problem", "sample", "hone", "its check");
	if (is_timed) str_printf(out, "  %11s  %11s  %7s", "kernel", "eager", "speedup");
	if (theirs) str_printf(out, "  %-7s  %11s", "its run", "its time");
	str_puts(out, "\n");
	for (size_t i = 0; i < r->count; i++) {
		const struct run_file *f = &r->files[i];
		const struct verdict *v = &f->verdict;
		const struct verdict_reference *eager = &v->device.references[REFERENCE_EAGER];
		char said[96];
		if (!f->task) continue;
		snprintf(said, sizeof said, "%s/%s", verdict_class_name(v->class), v->reason);
		str_printf(out, "%7d %6d  %-28s  %-9s", f->problem_id, f->sample_id, said, CHECKS[v->kernelbench + 1]);
		/* Both times are of the sizes that were judged. */
		if (is_timed) {
			double speedup = eager->speedup.value;
			time_put(out, v->device.timed ? v->device.time_s : NAN);
			time_put(out, eager->is_timed ? eager->time_s.value : NAN);
			if (eager->is_timed && speedup > 0) str_printf(out, "  %6.2fx", speedup);
			else str_printf(out, "  %7s", "-");
		}
		if (theirs) theirs_put(out, theirs, f);
		if (v->sizes[0]) str_printf(out, "  at %s", v->sizes);
		str_puts(out, "\n");
	}
}

json_t *run_folder_reasons(const struct run_folder *r)
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
