/* hone redteam: kernels that are wrong by construction against a verifier: ours, or any command.
 * What it accepts is printed by name at once, and by family at the end. Exit status 1 when
 * something was accepted. */
#include "cli/cli.h"
#include "base/base.h"
#include "task/task.h"
#include "task/task_redteam.h"
#include "verify/verdict.h"
#include "verify/verify.h"
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

/* Values of the options below, whose help says what each is. */
struct redteam_options {
	int64_t count;
	int64_t seed;
	int64_t verify_threads;
	int64_t num_correct_trials;
	int64_t verify_seed;
	int64_t timeout_s;
	const char *out;
	const char *against;
	const char *family;
	const char *payload;
	const char *precision;
};

#define O(type, field, help, choices) { #field, type, offsetof(struct redteam_options, field), help, choices }
static const struct option_def defs[] = {
	O(OPTION_INT, count, "candidates, all different", "1 to 100000"),
	O(OPTION_INT, seed, "of which ones", NULL),
	O(OPTION_STR, family, "only triggers of this family",
		"always|data|rows|size|place|host|cache|stream|memory|block|order|terms|draws"),
	O(OPTION_STR, payload, "only this payload", NULL),
	O(OPTION_STR, out, "folder to write tasks and candidates to; without --against nothing is judged then", NULL),
	O(OPTION_STR, against,
		"a command in place of hone's verifier, run as COMMAND TASK.py CANDIDATE.py on the files in --out; status 0: "
		"accepted",
		NULL),
	O(OPTION_INT, timeout_s, "seconds that --against may take for one candidate", "1 to 86400"),
	O(OPTION_STR, precision, "fp32 rule", "strict|tf32"),
	O(OPTION_INT, num_correct_trials, "trials per verdict; 0: default", "0 to 32"),
	O(OPTION_INT, verify_seed, "of the hidden inputs; 0: random", NULL),
	O(OPTION_INT, verify_threads, "processors that grading keeps busy; 0: cores", "0 to 4096"),
	OPTIONS_NEED("timeout_s", "against"),
	OPTIONS_NEED("precision num_correct_trials verify_seed verify_threads", "!out"),
};

/* What was said about one candidate. */
struct outcome {
	int accepted;    /* 1: it got through; 0: it was refused; -1: no answer */
	int kernelbench; /* likewise, of KernelBench's own check */
	char how[96];    /* the verdict's status and reason */
};
struct redteam {
	const struct redteam_options *o;
	struct task_set tasks;
	struct redteam_candidate *list;
	struct outcome *outcomes;
	int count;
};

static char *task_path(const struct redteam *r, int task)
{
	return xasprintf("%s/%s.py", r->o->out, r->tasks.tasks[task].name);
}
static char *candidate_path(const struct redteam *r, int i) { return xasprintf("%s/%06d.py", r->o->out, i); }

/* Tasks, candidates, and a list that says what each is. */
static int folder_write(const struct redteam *r, struct err *err)
{
	struct str list = {0};
	int rc = dir_make(r->o->out, err);
	for (size_t t = 0; t < r->tasks.count && !rc; t++) {
		char *path = task_path(r, (int)t);
		rc = file_write_atomic(path, r->tasks.tasks[t].source, strlen(r->tasks.tasks[t].source), err);
		free(path);
	}
	for (int i = 0; i < r->count && !rc; i++) {
		const struct redteam_candidate *c = &r->list[i];
		char *path = candidate_path(r, i);
		rc = file_write_atomic(path, c->source.data, c->source.len, err);
		str_printf(&list,
			"{\"candidate\": \"%06d.py\", \"task\": \"%s.py\", \"name\": \"%s\", \"family\": \"%s\", \"payload\": "
			"\"%s\"}\n",
			i, r->tasks.tasks[c->task].name, c->name, c->family, c->payload);
		free(path);
	}
	char *path = path_join(r->o->out, "redteam.jsonl");
	if (!rc) rc = file_write_atomic(path, list.data, list.len, err);
	free(path);
	str_release(&list);
	return rc;
}

/* Its exit status says what somebody else's verifier thinks of one candidate. One that crashed, or
 * did not end in time, has said nothing: that is no refusal. */
static int ask_once(const struct redteam *r, int i, struct err *err)
{
	/* A shell, because --against is a command line: the files follow it as "$1" and "$2". */
	char *task = task_path(r, r->list[i].task), *candidate = candidate_path(r, i),
		 *line = xasprintf("exec %s \"$1\" \"$2\"", r->o->against);
	char shell[] = "/bin/sh", flag[] = "-c", name[] = "redteam";
	char *argv[] = {shell, flag, line, name, task, candidate, NULL};
	/* It has our own streams, so that a user sees what it says, and ends with us. */
	struct child_options o = {
		.argv = argv, .env = environ, .cwd = ".", .stdout_fd = -1, .stderr_fd = -1, .die_with_parent = true};
	struct child c = {0};
	int rc = child_spawn(&c, &o, err);
	int waited = rc ? rc : child_wait(&c, (int)(r->o->timeout_s * 1000), err);
	if (waited == ERR_TIMEOUT) child_kill(&c);
	else if (!rc) rc = waited;

	struct outcome *to = &r->outcomes[i];
	bool has_exited = !waited && WIFEXITED(c.status);
	to->accepted = has_exited ? WEXITSTATUS(c.status) == 0 : -1;
	if (waited == ERR_TIMEOUT) snprintf(to->how, sizeof to->how, "longer than %lld s", (long long)r->o->timeout_s);
	else if (!rc) child_status_text(c.status, to->how, sizeof to->how);
	if (has_exited && WEXITSTATUS(c.status) == 127)
		rc = err_set(err, ERR_CHILD, "--against %s: cannot be run (the shell says 127)", r->o->against);
	free(line);
	free(task);
	free(candidate);
	return rc;
}

/* Said at once: a run takes long, and may be ended before its table. */
static void hole_print(const struct redteam *r, int i)
{
	const struct outcome *o = &r->outcomes[i];
	if (!o->accepted) return;
	printf("%s %s (%s)\n", o->accepted < 0 ? "not judged" : "accepted", r->list[i].name, o->how);
	fflush(stdout);
}

static int ask_command(struct redteam *r, struct err *err)
{
	struct progress p;
	int rc = 0;
	progress_begin(&p, "redteam", "candidates", r->count);
	for (int i = 0; i < r->count && !rc; i++) {
		rc = ask_once(r, i, err);
		hole_print(r, i);
		progress_update(&p, i + 1, r->list[i].name);
	}
	progress_end(&p);
	return rc;
}

/* All are submitted at once: the verifier has its own threads, and answers come in any order. */
static int ask_verifier(struct redteam *r, struct err *err)
{
	/* No store: a verdict that was known before would be no answer. */
	struct verify_options o = {.precision = r->o->precision,
		.threads = (int)r->o->verify_threads,
		.num_correct_trials = (int)r->o->num_correct_trials,
		.seed = (uint64_t)r->o->verify_seed};
	struct verifier *v = NULL;
	struct progress p;
	int rc = verifier_create(&o, &v, err);
	if (rc) return rc;
	progress_begin(&p, "redteam", "candidates", r->count);
	for (int i = 0; i < r->count && !rc; i++) {
		struct verify_request q = {.task = &r->tasks.tasks[r->list[i].task],
			.source = r->list[i].source.data,
			.source_len = r->list[i].source.len,
			.id = i};
		rc = verifier_submit(v, &q, err);
	}
	/* What is infra says nothing about the verifier's judgement: it is counted apart. */
	for (int i = 0; i < r->count && !rc; i++) {
		struct verdict d;
		int64_t id = 0;
		rc = verifier_collect(v, -1, &id, &d, err);
		if (rc) break;
		struct outcome *to = &r->outcomes[id];
		to->accepted = d.class == VERDICT_INFRA ? -1 : d.class == VERDICT_GENUINE;
		to->kernelbench = d.kernelbench;
		snprintf(to->how, sizeof to->how, "%s/%s", verdict_class_name(d.class), d.reason);
		hole_print(r, (int)id);
		progress_update(&p, i + 1, r->list[id].name);
	}
	progress_end(&p);
	verifier_free(v);
	return rc;
}

struct sums { /* over all candidates */
	int accepted;
	int unjudged;
};

/* A row for each family and one for all. KernelBench's check: allclose on stock inputs, from the
 * same records; a dash where it was not reached. */
static struct sums table_print(const struct redteam *r)
{
	static const char *const families[] = {"always", "data", "rows", "size", "place", "host", "cache", "stream",
		"memory", "block", "order", "terms", "draws", NULL};
	struct sums all = {0};
	printf("%-10s %10s %10s %10s %22s\n", "family", "candidates", "accepted", "not judged", "KernelBench's accepts");
	/* The last name is NULL: the row over all families. */
	for (size_t f = 0; f < ARRAY_LEN(families); f++) {
		/* A candidate counts in its family's row and in the last. */
		int n = 0, accepted = 0, unjudged = 0, asked = 0, passed = 0;
		for (int i = 0; i < r->count; i++) {
			if (families[f] && strcmp(families[f], r->list[i].family)) continue;
			n++;
			accepted += r->outcomes[i].accepted == 1;
			unjudged += r->outcomes[i].accepted < 0;
			asked += r->outcomes[i].kernelbench >= 0;
			passed += r->outcomes[i].kernelbench == 1;
		}
		if (!families[f]) all = (struct sums){.accepted = accepted, .unjudged = unjudged};
		if (n || !families[f])
			printf("%-10s %10d %10d %10d %15d of %3d\n", families[f] ? families[f] : "all", n, accepted, unjudged,
				passed, asked);
	}
	return all;
}

static int run(const struct redteam_options *o, struct err *err)
{
	/* Candidates are drawn; then written down, and handed to whoever is to be tried. */
	struct redteam r = {.o = o, .count = (int)o->count};
	if (o->against && !o->out)
		return err_set(err, ERR_USAGE, "--against reads files: name a folder for them with --out");
	int rc = redteam_tasks(&r.tasks, err);
	if (!rc) rc = redteam_draw((uint64_t)o->seed, r.count, o->family, o->payload, &r.list, err);
	r.outcomes = xcalloc((size_t)r.count + 1, sizeof *r.outcomes);
	for (int i = 0; i < r.count; i++) r.outcomes[i] = (struct outcome){-1, -1, ""};
	/* With --out and nobody to ask, the folder is the result. */
	if (!rc && o->out) rc = folder_write(&r, err);
	if (!rc && o->against) rc = ask_command(&r, err);
	else if (!rc && !o->out) rc = ask_verifier(&r, err);
	bool is_judged = !o->out || o->against;
	if (!rc && !is_judged)
		printf("%d %s for %zu %s in %s\n", r.count, plural(r.count, "candidate", "candidates"), r.tasks.count,
			plural((int64_t)r.tasks.count, "task", "tasks"), o->out);
	/* One that was accepted makes the command fail: all are wrong by construction. So does one that
	 * nobody judged, since "none accepted" is then not what was asked. */
	if (!rc && is_judged) {
		struct sums all = table_print(&r);
		if (all.accepted)
			rc = err_set(err, ERR_MISMATCH, "%d of %d candidates that are wrong by construction were accepted",
				all.accepted, r.count);
		else if (all.unjudged)
			rc = err_set(err, ERR_CHILD, "%d of %d candidates were not judged; %s", all.unjudged, r.count,
				o->against ? "--against names a command that ends with 0 (accepted) or another status (refused)"
						   : "`hone doctor` says what the verifier lacks here");
	}
	for (int i = 0; i < r.count && r.list; i++) redteam_candidate_release(&r.list[i]);
	free(r.list);
	free(r.outcomes);
	task_set_release(&r.tasks);
	return rc;
}

int cmd_redteam(int argc, char **argv)
{
	struct redteam_options o = {.count = 300, .seed = 42, .precision = "strict", .timeout_s = 300};
	struct err err = {0};
	int npos = 0,
		rc = options_parse("redteam", "send a verifier kernels that are wrong by construction", defs, ARRAY_LEN(defs),
			&o, argc, argv, &npos, &err);
	if (rc == 1) return 0;
	if (!rc && npos) rc = err_set(&err, ERR_USAGE, "unexpected argument \"%s\"", argv[1]);
	if (!rc) rc = run(&o, &err);
	return rc ? cli_fail("redteam", &err) : 0;
}
