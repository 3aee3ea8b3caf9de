/* graded_folder: grades every candidate under a folder with one verifier, then lets one test case a
 * candidate look at its verdict.
 *
 * <folder>/<name>/candidate.py (or candidate.json, an answer in IR) is graded
 * against <folder>/<name>/task.py, and so is twin.py, where there is one: the same a
 * line apart, and honest. */
#ifndef HONE_TESTS_GRADED_FOLDER_H
#define HONE_TESTS_GRADED_FOLDER_H
#include "verify/verify.h"
#include <setjmp.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <cmocka.h>

#define GRADED_MAX 4096
#define GRADED_SOURCE_MAX ((size_t)4 << 20)

struct graded {
	char *name;
	bool is_twin;
	struct str expect;
	struct verdict verdict;
};
static struct graded graded[GRADED_MAX];
static int ngraded;

struct graded_walk {
	const char *folder;
	struct verifier *v;
};

/* One file of a folder, if it is there. */
static int graded_file(struct graded_walk *w, const char *name, const char *file, bool is_twin)
{
	char task_path[512], candidate_path[512], expect_path[512], title[256];
	snprintf(task_path, sizeof task_path, "%s/%s/task.py", w->folder, name);
	snprintf(candidate_path, sizeof candidate_path, "%s/%s/%s", w->folder, name, file);
	snprintf(expect_path, sizeof expect_path, "%s/%s/expect.txt", w->folder, name);
	snprintf(title, sizeof title, "%s%s", name, is_twin ? " (honest twin)" : "");
	/* No folder has each of the files. */
	if (!path_exists(candidate_path)) return 0;
	struct task_set tasks = {0};
	struct str source = {0};
	struct err err = {0};
	CHECKF(ngraded < GRADED_MAX, "more than %d candidates in %s", GRADED_MAX, w->folder);
	struct graded *g = &graded[ngraded];
	int rc = task_set_load(task_path, &tasks, &err);
	if (!rc) rc = file_read(candidate_path, GRADED_SOURCE_MAX, &source, &err);
	if (!rc && path_exists(expect_path)) rc = file_read(expect_path, 4096, &g->expect, &err);
	/* All are handed over before the first verdict is asked for; expectations wait in `graded`. */
	struct verify_request r = {
		.task = tasks.tasks, .source = source.data ? source.data : "", .source_len = source.len, .id = ngraded};
	if (!rc) rc = verifier_submit(w->v, &r, &err);
	if (rc) fprintf(stderr, "%s: %s\n", title, err.text);
	g->name = xstrdup(title);
	g->is_twin = is_twin;
	ngraded++;
	task_set_release(&tasks);
	str_release(&source);
	return rc;
}

static int graded_submit(const char *name, void *ctx)
{
	const char *only = getenv("GRADED_ONLY"); /* for a person: names that contain this */
	if (only && !strstr(name, only)) return 0;
	int rc = graded_file(ctx, name, "candidate.py", false);
	if (!rc) rc = graded_file(ctx, name, "candidate.json", false);
	return rc ? rc : graded_file(ctx, name, "twin.py", true);
}

/* Grades all. A few seconds for each second of work are allowed before the whole is given up. */
static int graded_run(const char *folder)
{
	struct err err = {0};
	const char *secret = getenv("GRADED_SEED"); /* for a person: what is right by luck of the seed shows */
	struct verify_options o = {.threads = 2,
		.seed = secret ? strtoull(secret, NULL, 10) : 20240917,
		.trace_timeout_ms = 60000,
		.replay_timeout_ms = 60000};
	struct verifier *v = NULL;
	int rc = verifier_create(&o, &v, &err);
	struct graded_walk w = {folder, v};
	if (!rc) rc = dir_each(folder, graded_submit, &w, &err);
	for (int i = 0; i < ngraded && !rc; i++) {
		struct verdict d;
		int64_t id = 0;
		rc = verifier_collect(v, 600000, &id, &d, &err);
		if (!rc) graded[id].verdict = d;
	}
	verifier_free(v);
	if (rc) fprintf(stderr, "%s\n", err.text);
	return rc;
}

static int graded_cases(CMUnitTestFunction fn, struct CMUnitTest *tests)
{
	for (int i = 0; i < ngraded; i++) tests[i] = (struct CMUnitTest){graded[i].name, fn, NULL, NULL, &graded[i]};
	return ngraded;
}
#endif
