/* eval --from_runs: grades kernels that others generated (eval/run_folder.c) and prints what came
 * out. */
#include "cli/eval_options.h"
#include "base/base.h"
#include "eval/eval.h"
#include "policy/policy.h"
#include "store/store.h"
#include "task/task.h"
#include "verify/verify.h"

#include <stdio.h>
#include <stdlib.h>

struct runs {
	const struct eval_options *o;
	struct task_set tasks;
	struct run_folder folder;
	const char *dir; /* where results go */
	struct kernelbench_times times;
	struct store *store;
	struct verifier *verifier;
	json_t *results;
};

static int rows_write(const struct runs *r, struct err *err)
{
	if (!r->o->out) return 0;
	struct str text = {0};
	run_folder_rows(&r->folder, &text);
	int rc = jsonl_write(r->o->out, &text, err);
	str_release(&text);
	return rc;
}

void eval_analysis_print(const json_t *a)
{
	static const char *const keys[] = {"level", "total_count", "total_eval", "compiled_count", "correct_count"};
	long long n[ARRAY_LEN(keys)];
	const char *p;
	json_t *share, *fast_p = json_object_get(a, "fast_p");
	for (size_t i = 0; i < ARRAY_LEN(keys); i++) n[i] = json_integer_value(json_object_get(a, keys[i]));
	printf("level %lld: %lld %s, %lld with results; of their samples 0: compiled %lld, correct %lld\n", n[0], n[1],
		plural(n[1], "problem", "problems"), n[2], n[3], n[4]);
	json_object_foreach(fast_p, p, share) printf("fast_%-9s %.4f\n", p, json_real_value(share));
	if (!json_object_size(fast_p))
		printf("fast_p: not measured: it needs times of every correct kernel and of its reference, from a GPU "
			   "(--verify_device cuda, or --timings and --baseline)\n");
}

static int report(struct runs *r, struct err *err)
{
	const char *key;
	const struct run_folder *f = &r->folder;
	json_t *analysis = NULL, *reasons = run_folder_reasons(f), *n;
	/* Files first, so that what is printed below can be read again from them. */
	r->times.own = run_folder_references(f);
	int rc = kernelbench_write(r->dir, r->results, &r->tasks, f->level, &r->times, &analysis, err);
	if (!rc) rc = rows_write(r, err);
	/* The analysis with what was left out of it: one object, or lines for people. */
	if (!rc && r->o->json) {
		json_object_update_new(analysis,
			json_pack("{s:s, s:I, s:i, s:i, s:i, s:O}", "results", r->dir, "kernels", (json_int_t)f->count, "unmatched",
				f->unmatched, "unreadable", f->unreadable, "infra", f->infra, "reasons", reasons));
		json_dumpf(analysis, stdout, JSON_COMPACT | JSON_SORT_KEYS | JSON_AS_WRITTEN);
		printf("\n");
	} else if (!rc) {
		printf("%s: %zu %s; left out: %d without a task, %d that could not be read, %d that could not be judged "
			   "(infra)\n",
			r->dir, f->count, plural((int64_t)f->count, "kernel", "kernels"), f->unmatched, f->unreadable, f->infra);
		struct str lines = {0};
		run_folder_table(f, r->times.measured, &lines);
		fputs(lines.data, stdout);
		str_release(&lines);
		eval_analysis_print(analysis);
		json_object_foreach(reasons, key, n) printf("  %-32s %lld\n", key, (long long)json_integer_value(n));
	}
	json_decref(analysis);
	json_decref(reasons);
	return rc;
}

static int options_check(const struct eval_options *o, struct err *err)
{
	if (o->policy.model || o->policy.adapter || policy_is_outside(&o->policy))
		return err_set(err, ERR_USAGE,
			"--from_runs grades kernels that are there; --model, --adapter, --policy_command and --policy_answers make "
			"new ones: choose one");
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
	/* What can be refused is read before the long part: tasks, files, times. */
	if (!rc) rc = task_set_load(o->tasks, &r.tasks, err);
	if (!rc) rc = run_folder_open(o->from_runs, (int)o->level, &r.tasks, o->tasks, &r.folder, err);
	if (!rc) rc = kernelbench_times_load(r.dir, o->timings, o->baseline, r.folder.level, &r.times, err);
	if (!rc && o->store) rc = store_open(o->store, &r.store, err);
	struct verify_options v = eval_verify_options(o, r.store);
	if (!rc) rc = verifier_create(&v, &r.verifier, err);
	if (!rc) rc = run_folder_grade(&r.folder, r.verifier, r.results, err);
	if (!rc) rc = report(&r, err);
	verifier_free(r.verifier);
	store_close(r.store);
	run_folder_release(&r.folder);
	task_set_release(&r.tasks);
	kernelbench_times_release(&r.times);
	json_decref(r.results);
	return rc;
}
