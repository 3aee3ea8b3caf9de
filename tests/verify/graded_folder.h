/* graded_folder: grades candidates under a folder with one verifier, then lets one test case a
 * candidate look at its verdict.
 *
 * <folder>/<name>/candidate.py (or candidate.json, an answer in IR) is graded
 * against <folder>/<name>/task.py, and so is twin.py, where there is one: the same a
 * line apart, and honest.
 *
 * A share of them is graded, or with CORPORA=all (make test-corpora) each. In the share is
 * - the first name, in the order of bytes, that lists a word of expect.txt which none before it
 *   lists, so that each kind of reason is met;
 * - each name whose SHA-256 falls into the first GRADED_SHARE of all hashes.
 * A folder X_twin, honest, is in the share with X. */
#ifndef HONE_TESTS_GRADED_FOLDER_H
#define HONE_TESTS_GRADED_FOLDER_H
#include "verify/verify.h"
#include <setjmp.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <cmocka.h>

#define GRADED_MAX 4096
#define GRADED_CASES_MORE 2 /* beside one a candidate */
#define GRADED_SOURCE_MAX ((size_t)4 << 20)
#define GRADED_SHARE 0.2
/* What the rule has to come to: a share that is nearly none or nearly all is no share. */
#define GRADED_SHARE_MIN 0.15
#define GRADED_SHARE_MAX 0.5
#define GRADED_WORDS_MAX 256

struct graded {
	char *name;
	bool is_twin;
	struct str expect;
	struct verdict verdict;
};
static struct graded graded[GRADED_MAX];
static int ngraded;
static int ntotal; /* candidates of the folder, graded or not */

/* A word that some expect.txt lists. */
struct graded_word {
	char *text;
	int graded; /* how many of the names that list it are graded */
};
static struct graded_word graded_words[GRADED_WORDS_MAX];
static int ngraded_words;

struct graded_walk {
	const char *folder;
	struct verifier *v;
};

static inline bool graded_all(void)
{
	const char *which = getenv("CORPORA");
	return which && !strcmp(which, "all");
}

/* The length of X where the name is X_twin, otherwise 0. */
static size_t graded_twin_of(const char *name)
{
	size_t len = strlen(name);
	return len > 5 && !strcmp(name + len - 5, "_twin") ? len - 5 : 0;
}

static struct graded_word *graded_word(const char *text)
{
	for (int i = 0; i < ngraded_words; i++)
		if (!strcmp(graded_words[i].text, text)) return &graded_words[i];
	CHECKF(ngraded_words < GRADED_WORDS_MAX, "more than %d words in files expect.txt", GRADED_WORDS_MAX);
	graded_words[ngraded_words] = (struct graded_word){.text = xstrdup(text)};
	return &graded_words[ngraded_words++];
}

/* Whether the name belongs to the share; the words that it lists are counted. Names come in
 * order, X before X_twin. */
static int graded_in_share(struct graded_walk *w, const char *name, bool *out, struct err *err)
{
	size_t len = graded_twin_of(name);
	*out = false;
	for (int i = 0; i < ngraded && len; i++)
		*out |= strlen(graded[i].name) == len && !strncmp(graded[i].name, name, len);
	if (len) return 0;
	/* Of its words one may be the first of its kind. */
	char path[512];
	struct str text = {0};
	struct graded_word *listed[GRADED_WORDS_MAX];
	int n = 0;
	snprintf(path, sizeof path, "%s/%s/expect.txt", w->folder, name);
	if (path_exists(path) && file_read(path, 4096, &text, err)) return -1;
	char *save = NULL, *word = text.data ? strtok_r(text.data, " \n\t", &save) : NULL;
	for (; word && n < GRADED_WORDS_MAX; word = strtok_r(NULL, " \n\t", &save)) listed[n++] = graded_word(word);
	struct sha256_hex hash = hash_bytes(name, strlen(name));
	*out = hash_share(&hash) < GRADED_SHARE;
	for (int i = 0; i < n; i++) *out |= !listed[i]->graded;
	for (int i = 0; i < n; i++) listed[i]->graded += *out;
	str_release(&text);
	return 0;
}

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
	static const char *const files[] = {"candidate.py", "candidate.json", "twin.py"};
	struct graded_walk *w = ctx;
	struct err err = {0};
	char path[512];
	bool in_share = true;
	const char *only = getenv("GRADED_ONLY"); /* for a person: names that contain this */
	for (size_t i = 0; i < ARRAY_LEN(files); i++) {
		snprintf(path, sizeof path, "%s/%s/%s", w->folder, name, files[i]);
		ntotal += path_exists(path);
	}
	/* What is asked for by name is graded wherever its hash falls. */
	if (only && !strstr(name, only)) return 0;
	if (!only && !graded_all() && graded_in_share(w, name, &in_share, &err)) {
		fprintf(stderr, "%s\n", err.text);
		return -1;
	}
	int rc = 0;
	for (size_t i = 0; i < ARRAY_LEN(files) && in_share && !rc; i++)
		rc = graded_file(w, name, files[i], !strcmp(files[i], "twin.py"));
	return rc;
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

/* ---- test cases ---- */

/* How many there are, and that what was graded is a share which meets each kind of reason. */
static void graded_check_share(void **state)
{
	int least = *(const int *)*state;
	if (getenv("GRADED_ONLY")) return;
	if (ntotal < least) fail_msg("%d candidates in all, expected %d", ntotal, least);
	for (int i = 0; i < ngraded_words; i++)
		if (!graded_words[i].graded) fail_msg("%s is met by no candidate of the share", graded_words[i].text);
	if (graded_all() && ngraded != ntotal) fail_msg("%d of %d were graded, expected all", ngraded, ntotal);
	if (!graded_all() && (ngraded < GRADED_SHARE_MIN * ntotal || ngraded > GRADED_SHARE_MAX * ntotal))
		fail_msg(
			"%d of %d are in the share, expected %g to %g of all", ngraded, ntotal, GRADED_SHARE_MIN, GRADED_SHARE_MAX);
}

static void graded_skip_rest(void **state) { skip(); }

/* One case a candidate that was graded, one for the share, which has to be of `least` candidates or
 * more, and a skip for those that are not in it. The number of cases. */
static int graded_cases(CMUnitTestFunction fn, int least, struct CMUnitTest *tests)
{
	static int least_of_all;
	least_of_all = least;
	int n = 0;
	for (; n < ngraded; n++) tests[n] = (struct CMUnitTest){graded[n].name, fn, NULL, NULL, &graded[n]};
	char *title = xasprintf("%d of %d candidates were graded, %d at least are there", ngraded, ntotal, least);
	tests[n++] = (struct CMUnitTest){title, graded_check_share, NULL, NULL, &least_of_all};
	if (ngraded < ntotal) {
		title = xasprintf("the other %d of %d candidates: make test-corpora", ntotal - ngraded, ntotal);
		tests[n++] = (struct CMUnitTest){title, graded_skip_rest, NULL, NULL, NULL};
	}
	return n;
}
#endif
