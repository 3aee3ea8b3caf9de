/* grade_list: grades many candidates, each against a task of its own, with one verifier.
 *
 *   build/release/bench/verify/grade_list THREADS SEED [COST_SIZE [WORK_MS [EMIT]]] <list >verdicts
 *
 * A line of the list is {"id": text, "task": path, "candidate": path}; a line of what is printed is
 * that object with "verdict", the object that `hone verify --json` prints. Lines come in the order
 * in which verdicts are ready, and each is flushed, so that a run that was interrupted keeps what
 * it has. A line whose task or candidate cannot be read has "error" in place of "verdict", and the
 * exit status is 1. COST_SIZE is --cost_size of `hone verify`. WORK_MS: nominal milliseconds of the
 * reference, which decide at which sizes values are judged (docs/tasks.md, Sizes). EMIT: a file, as
 * that of `hone verify --emit`; the next genuine candidate's module takes its place, and each
 * verdict's detail says whether one was written. */
#include "task/task.h"
#include "verify/verify.h"
#include <stdlib.h>

#define LINES_MAX 65536
#define SOURCE_BYTES_MAX ((size_t)4 << 20)
#define WINDOW 64 /* candidates handed over at a time */

struct list {
	json_t *lines[LINES_MAX];
	int count;
};

static int list_read(struct list *l, struct err *err)
{
	char *text = NULL;
	size_t room = 0;
	ssize_t len;
	int rc = 0;
	while (!rc && (len = getline(&text, &room, stdin)) > 0) {
		if (l->count == LINES_MAX) rc = err_set(err, ERR_LIMIT, "more than %d lines", LINES_MAX);
		else rc = json_parse(text, (size_t)len, "line", &l->lines[l->count], err);
		if (!rc) l->count++;
	}
	free(text);
	return rc;
}

static int submit(struct verifier *v, const json_t *line, int id, const char *emit, struct err *err)
{
	const char *task = NULL, *candidate = NULL;
	struct task_set tasks = {0};
	struct str source = {0};
	int rc = json_get_str(line, "line", "task", &task, err);
	if (!rc) rc = json_get_str(line, "line", "candidate", &candidate, err);
	if (!rc) rc = task_set_load(task, &tasks, err);
	if (!rc) rc = file_read(candidate, SOURCE_BYTES_MAX, &source, err);
	struct verify_request r = {.task = tasks.tasks,
		.source = source.data ? source.data : "",
		.source_len = source.len,
		.id = id,
		.emit = emit};
	if (!rc) rc = verifier_submit(v, &r, err);
	task_set_release(&tasks);
	str_release(&source);
	return rc;
}

static int collect(struct verifier *v, struct list *l, struct err *err)
{
	struct verdict d;
	int64_t id = 0;
	int rc = verifier_collect(v, -1, &id, &d, err);
	if (rc) return rc;
	json_object_set_new(l->lines[id], "verdict", verdict_json(&d));
	char *text = json_dumps(l->lines[id], JSON_COMPACT);
	puts(text);
	fflush(stdout);
	free(text);
	json_decref(l->lines[id]);
	l->lines[id] = NULL;
	return 0;
}

/* The line as it is printed where its task or its candidate cannot be read. */
static void line_refuse(struct list *l, int i, struct err *err)
{
	json_t *line = l->lines[i];
	char *said = xstrdup(err->text);
	text_make_printable(said);
	if (!json_is_object(line)) line = json_pack("{s:O}", "line", line);
	else json_incref(line);
	json_object_set_new(line, "error", json_string(said));
	char *text = json_dumps(line, JSON_COMPACT);
	puts(text);
	fflush(stdout);
	free(text);
	free(said);
	json_decref(line);
	json_decref(l->lines[i]);
	l->lines[i] = NULL;
	*err = (struct err){0};
}

int main(int argc, char **argv)
{
	static struct list list;
	struct err err = {0};
	struct verifier *v = NULL;
	if (argc < 3 || argc > 6) {
		fprintf(stderr, "usage: grade_list THREADS SEED [COST_SIZE [WORK_MS [EMIT]]] < list > verdicts\n");
		return 2;
	}
	struct verify_options o = {.threads = atoi(argv[1]),
		.seed = strtoull(argv[2], NULL, 10),
		.cost_size = argc > 3 ? argv[3] : NULL,
		.oracle_work_ms = argc > 4 ? atoi(argv[4]) : 0};
	int rc = list_read(&list, &err), handed = 0, done = 0, failed = 0;
	if (!rc) rc = verifier_create(&o, &v, &err);
	/* A window is outstanding at any time: the sources of a long list are not all held at once. */
	while (!rc && done < list.count) {
		while (!rc && handed < list.count && handed - done < WINDOW) {
			int line_rc = submit(v, list.lines[handed], handed, argc > 5 ? argv[5] : NULL, &err);
			/* A line whose task or candidate cannot be read has no verdict;
			 * the others have theirs. */
			if (line_rc && line_rc != ERR_INFRA) {
				line_refuse(&list, handed, &err);
				done++;
				failed++;
			} else {
				rc = line_rc;
			}
			handed++;
		}
		if (!rc && done < handed) {
			rc = collect(v, &list, &err);
			done++;
		}
	}
	if (rc) fprintf(stderr, "grade_list: %s\n", err.text);
	verifier_free(v);
	for (int i = 0; i < list.count; i++) json_decref(list.lines[i]);
	return rc || failed;
}
