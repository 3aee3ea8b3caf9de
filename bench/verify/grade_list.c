/* grade_list: grades many candidates, each against a task of its own, with one verifier.
 *
 *   build/release/bench/verify/grade_list THREADS SEED [COST_SIZE [WORK_MS [EMIT]]] <list >verdicts
 *
 * A line of the list is {"id": text, "task": path, "candidate": path}; a line of what is printed is
 * that object with "verdict", the object that `hone verify --json` prints. Lines come in the order
 * in which verdicts are ready, and each is flushed, so that a run that was interrupted keeps what
 * it has. A line that cannot be judged, since it is no such object or names a task or candidate
 * that cannot be read, is printed with "error", the reason, instead, and the others are judged; the
 * exit status is 1 then. COST_SIZE is --cost_size of `hone verify`. WORK_MS: nominal milliseconds
 * of the reference, which decide at which sizes values are judged (docs/tasks.md, Sizes). EMIT: a
 * file, as that of `hone verify --emit`; the next genuine candidate's module takes its place, and
 * each verdict's detail says whether one was written. */
#include "task/task.h"
#include "verify/verify.h"
#include <stdlib.h>

#define LINES_MAX 65536
#define SOURCE_BYTES_MAX ((size_t)4 << 20)
#define WINDOW 64 /* candidates handed over at a time */

struct list {
	json_t *lines[LINES_MAX];
	int count;
	int failed; /* lines that could not be judged */
};

/* Prints a line's object, which is given away, with what was found about it. */
static void print_line(json_t *line, const char *key, json_t *found)
{
	json_object_set_new(line, key, found);
	char *text = json_dumps(line, JSON_COMPACT);
	puts(text);
	fflush(stdout);
	free(text);
	json_decref(line);
}

/* Reads what is to be judged. A line that is no object is printed at once, as {"line": its number,
 * "error": text}. */
static int list_read(struct list *l, struct err *err)
{
	char *text = NULL;
	size_t room = 0;
	ssize_t len;
	int rc = 0;
	for (int number = 1; !rc && (len = getline(&text, &room, stdin)) > 0; number++) {
		struct err fault = {0};
		json_t *line = NULL;
		if (l->count == LINES_MAX) rc = err_set(err, ERR_LIMIT, "more than %d lines", LINES_MAX);
		else if (json_parse(text, (size_t)len, "line", &line, &fault) || !json_is_object(line)) {
			print_line(json_pack("{s:i}", "line", number), "error", json_string(fault.code ? fault.text : "no object"));
			json_decref(line);
			l->failed++;
		} else l->lines[l->count++] = line;
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
	print_line(l->lines[id], "verdict", verdict_json(&d));
	l->lines[id] = NULL;
	return 0;
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
	int rc = list_read(&list, &err), handed = 0, done = 0;
	if (!rc) rc = verifier_create(&o, &v, &err);
	/* A window is outstanding at any time: the sources of a long list are not all held at once. */
	while (!rc && done < list.count) {
		while (handed < list.count && handed - done < WINDOW) {
			struct err fault = {0};
			int failed = submit(v, list.lines[handed], handed, argc > 5 ? argv[5] : NULL, &fault);
			if (failed) {
				print_line(list.lines[handed], "error", json_string(fault.text));
				list.lines[handed] = NULL;
				list.failed++;
				done++;
			}
			handed++;
		}
		/* Where the last lines all failed nothing is outstanding. */
		if (!rc && done < handed) {
			rc = collect(v, &list, &err);
			done++;
		}
	}
	if (rc) fprintf(stderr, "grade_list: %s\n", err.text);
	verifier_free(v);
	for (int i = 0; i < list.count; i++) json_decref(list.lines[i]);
	if (list.failed) fprintf(stderr, "grade_list: %d lines could not be judged\n", list.failed);
	return rc != 0 || list.failed > 0;
}
