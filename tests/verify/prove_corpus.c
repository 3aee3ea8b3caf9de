/* prove_corpus: proves every candidate of some folders and prints a table (`make prove-corpus`).
 *
 * usage: prove_corpus [--alone] [--only TEXT] [--part I/N] FOLDER...
 * --alone: without the replay, so that nothing is refuted. --part: of each N names the I-th,
 * counted from 0.
 * <folder>/<name>/candidate.py is proved against <folder>/<name>/task.py, and twin.py where there
 * is one. A line each: answer, the proof's own answer without the replay, seconds, name, text. Then
 * the counts, of those whose reference returns floats. */
#include "base/base.h"
#include "prove/prove.h"
#include "task/task.h"
#include "verify/verdict.h"
#include "verify/verify.h"
#include <stdlib.h>

#define SOURCE_BYTES_MAX ((size_t)4 << 20)

struct corpus {
	struct verifier *v;
	const char *folder, *only;
	int answers[PROVE_ANSWER_COUNT], alone[PROVE_ANSWER_COUNT], floating, all;
	double seconds, longest;
	int part, parts, seen; /* of the folder's names, the part-th of each `parts` */
};

static void prove_file(struct corpus *c, const char *name, const char *file)
{
	char task_path[512], path[512];
	struct task_set tasks = {0};
	struct str source = {0};
	struct err err = {0};
	struct verdict verdict = {0};
	struct verify_proof p = {0};
	snprintf(task_path, sizeof task_path, "%s/%s/task.py", c->folder, name);
	snprintf(path, sizeof path, "%s/%s/%s", c->folder, name, file);
	/* A case need not have each file; an argument picks cases by name. */
	if (!path_exists(path) || (c->only && !strstr(path, c->only))) return;
	/* The proof of that file for that case's task, as one row of the table. */
	int rc = task_set_load(task_path, &tasks, &err);
	if (!rc) rc = file_read(path, SOURCE_BYTES_MAX, &source, &err);
	if (!rc) rc = verifier_prove(c->v, tasks.tasks, source.data, source.len, &verdict, &p, &err);
	const struct prove_result *r = &p.result;
	if (rc)
		printf("%-10s %-10s %7s %s%s: %.300s\n", "error", "", "", name, strcmp(file, "twin.py") ? "" : " (twin)",
			err.text);
	else
		printf("%-10s %-10s %7.2f %s%s%s: %.300s\n", prove_answer_name(r->answer), prove_answer_name(p.alone),
			r->seconds, name, strcmp(file, "twin.py") ? "" : " (twin)", r->is_floating ? "" : " (integers)", r->text);
	fflush(stdout);
	/* The table's last lines count what has a floating result. */
	c->all++;
	if (!rc && r->is_floating) {
		c->floating++;
		c->answers[r->answer]++;
		c->alone[p.alone]++;
		c->seconds += r->seconds;
		c->longest = r->seconds > c->longest ? r->seconds : c->longest;
	}
	task_set_release(&tasks);
	str_release(&source);
}

static int prove_name(const char *name, void *ctx)
{
	struct corpus *c = ctx;
	if (c->seen++ % c->parts != c->part) return 0;
	prove_file(c, name, "candidate.py");
	prove_file(c, name, "twin.py");
	return 0;
}

static void print_counts(const struct corpus *c)
{
	printf("%s: %d candidates, %d with floats:", c->folder, c->all, c->floating);
	for (int a = 0; a < PROVE_ANSWER_COUNT; a++)
		printf(" %d %s (alone %d)%s", c->answers[a], prove_answer_name((enum prove_answer)a), c->alone[a],
			a + 1 < PROVE_ANSWER_COUNT ? "," : ";");
	printf(" %.1f %% proved; %.2f s each, at most %.2f s\n",
		c->floating ? 100.0 * c->answers[PROVE_PROVED] / c->floating : 0, c->floating ? c->seconds / c->floating : 0,
		c->longest);
}

int main(int argc, char **argv)
{
	struct err err = {0};
	/* Several trials, since one of a task with few outputs can be met by a constant, and
	 * then nothing is judged. */
	struct verify_options o = {.threads = 1, .num_correct_trials = 5, .seed = 20251122, .skip_compile = true};
	struct corpus c = {.only = NULL, .parts = 1};
	for (; argc > 1 && !strcmp(argv[1], "--alone"); argc--, argv++) o.skip_replay = true;
	int rc = verifier_create(&o, &c.v, &err);
	for (int i = 1; i < argc && !rc; i++) {
		if (!strcmp(argv[i], "--only") && i + 1 < argc) {
			c.only = argv[++i];
			continue;
		}
		if (!strcmp(argv[i], "--part") && i + 1 < argc) {
			if (sscanf(argv[++i], "%d/%d", &c.part, &c.parts) != 2 || c.parts < 1) c.parts = 1;
			continue;
		}
		struct corpus one = {.v = c.v, .only = c.only, .folder = argv[i], .part = c.part, .parts = c.parts};
		rc = dir_each(argv[i], prove_name, &one, &err);
		print_counts(&one);
	}
	if (rc) fprintf(stderr, "prove_corpus: %s\n", err.text);
	verifier_free(c.v);
	return rc ? 1 : 0;
}
