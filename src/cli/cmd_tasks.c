/* hone tasks: task sets. `list` and `show` read any form (a .py file, a folder, .jsonl[.gz]);
 * `synth` composes a set with structures to train on, to choose by and to report on; `import`
 * copies a set into another form, without the tasks whose source it has seen; `audit` asks the
 * verifier what the references alone say: a task that does not run, or that an output computed by
 * no kernel passes, teaches nothing. */
#include "cli/cli.h"
#include "base/base.h"
#include "task/task.h"
#include "verify/verify.h"

#include <pthread.h>
#include <stdlib.h>

/* Values of the options below, whose help says what each is. */
struct tasks_options {
	int64_t seed;
	int64_t count_train;
	int64_t count_dev;
	int64_t count_test;
	int64_t level_min;
	int64_t level_max;
	int64_t operators_min;
	int64_t level;
	int64_t style;
	int64_t choice;
	int64_t num_correct_trials;
	int64_t oracle_timeout_ms;
	int64_t oracle_work_ms;
	int64_t size_max;
	int64_t verify_threads;
	const char *verify_device;
	const char *gpu;
	const char *operators;
	const char *rungs;
	const char *out;
	const char *split;
	const char *precision;
	const char *sandbox;
	bool answer;
	bool slow;
	bool json;
	bool allow_unsandboxed;
};

#define O(type, field, help, choices) { #field, type, offsetof(struct tasks_options, field), help, choices }
static const struct option_def defs[] = {
	O(OPTION_INT, seed, "synth: names the set; audit: of the inputs (0: fresh)", NULL),
	O(OPTION_INT, count_train, "synth: training tasks", "0 to 1000000"),
	O(OPTION_INT, count_dev, "synth: tasks to choose by, of structures that are never trained on", "0 to 1000000"),
	O(OPTION_INT, count_test, "synth: tasks to report on, of structures of their own", "0 to 1000000"),
	O(OPTION_INT, level_min, "synth: lowest level, 1 to 3", "1 to 3"),
	O(OPTION_INT, level_max, "synth: highest level, 1 to 3", "1 to 3"),
	O(OPTION_STR, rungs, "synth: tasks of these rungs of the ladder in place of levels, as T0,T1,T2,T3,T4", NULL),
	O(OPTION_STR, operators, "synth: only tasks made of these operators, comma-separated (default: all of the level)",
		NULL),
	O(OPTION_INT, operators_min, "synth: only tasks of at least so many operators", "0 to 2147483647"),
	O(OPTION_STR, out, "synth, import: folder, .py, .jsonl or .jsonl.gz file to write", NULL),
	O(OPTION_INT, size_max,
		"import: halve sizes (integers of the module and of get_inputs) above this until they fit a CPU; 0: as they "
		"are",
		"0 to 2147483647"),
	O(OPTION_INT, level, "list, import, audit: only this level (0: all)", "0 to 9"),
	O(OPTION_STR, split, "list, import, audit: only this split", "train|dev|test|hand"),
	O(OPTION_BOOL, answer, "show: also the reference answer of a composed task", NULL),
	O(OPTION_INT, style, "show: style of the answer", NULL),
	O(OPTION_INT, choice, "show: which of the answers that the task's sizes choose among; 0: the best", "0 to 15"),
	O(OPTION_BOOL, slow, "show: the answer with one launch per operator", NULL),
	O(OPTION_STR, precision, "audit: fp32 rule", "strict|tf32"),
	O(OPTION_STR, verify_device, "audit: cpu: the vm alone; cuda, cuda:N, cuda:N,M: with those GPUs", NULL),
	O(OPTION_STR, gpu, "audit: card whose time is predicted; empty: the device's own, else H200", NULL),
	O(OPTION_STR, sandbox, "audit: level (default: the strongest that works)", "full|lsm|none"),
	O(OPTION_BOOL, allow_unsandboxed, "audit: permit --sandbox none", NULL),
	O(OPTION_INT, num_correct_trials, "audit: trials per task (0: default)", "0 to 32"),
	O(OPTION_INT, oracle_timeout_ms, "audit: processor time of one reference, over all trials; 0: 120000",
		"0 to 2147483647"),
	O(OPTION_INT, oracle_work_ms,
		"audit: nominal time of one reference, by which its sizes are chosen; 0: a 24th of the former",
		"0 to 2147483647"),
	O(OPTION_INT, verify_threads, "audit: references that run at once; 0: cores", "0 to 4096"),
	O(OPTION_BOOL, json, "one JSON object on stdout", NULL),
	OPTIONS_NEED("count_train count_dev count_test level_min level_max rungs operators operators_min", "@synth"),
	OPTIONS_NEED("level_min level_max", "!rungs"),
	OPTIONS_NEED("seed", "@synth | @audit"),
	OPTIONS_NEED("out", "@synth | @import"),
	OPTIONS_NEED("size_max", "@import"),
	OPTIONS_NEED("level split", "@list | @import | @audit"),
	OPTIONS_NEED("answer style choice slow", "@show"),
	OPTIONS_NEED("style choice slow", "answer"),
	OPTIONS_NEED("choice", "!slow"),
	OPTIONS_NEED("precision verify_device gpu sandbox allow_unsandboxed num_correct_trials oracle_timeout_ms "
				 "oracle_work_ms verify_threads",
		"@audit"),
};

struct verb {
	const char *name;
	int npos;
	const char *usage;
	int (*run)(const struct tasks_options *o, char **pos, struct err *err);
};

static bool is_chosen(const struct tasks_options *o, const struct task *t)
{
	return (!o->level || o->level == t->level) && (!o->split || !strcmp(o->split, t->split));
}

typedef int task_reader(const char *path, struct task_set *out, struct err *err);

/* Loads and keeps what --level and --split choose. */
static int load_by(
	task_reader *read, const struct tasks_options *o, const char *path, struct task_set *set, struct err *err)
{
	int rc = read(path, set, err);
	if (rc) return rc;
	struct task_set rest = {.tasks = xcalloc(set->count + 1, sizeof *rest.tasks)};
	size_t kept = 0;
	for (size_t i = 0; i < set->count; i++) {
		if (is_chosen(o, &set->tasks[i])) set->tasks[kept++] = set->tasks[i];
		else rest.tasks[rest.count++] = set->tasks[i];
	}
	set->count = kept;
	task_set_release(&rest);
	if (kept) return ERR_OK;
	task_set_release(set);
	return err_set(err, ERR_NOT_FOUND, "%s: no task of that level and split", path);
}

static int load(const struct tasks_options *o, const char *path, struct task_set *set, struct err *err)
{
	return load_by(task_set_load, o, path, set, err);
}

static json_t *task_json(const struct task *t)
{
	return json_pack("{s:s, s:i, s:I, s:s, s:s, s:I, s:s}", "name", t->name, "level", t->level, "problem_id",
		(json_int_t)t->problem_id, "structure", t->structure, "split", t->split, "seed", (json_int_t)t->seed, "hash",
		t->hash.text);
}

static void json_print(json_t *o)
{
	json_dumpf(o, stdout, JSON_INDENT(2));
	putchar('\n');
	json_decref(o);
}

static const char *or_dash(const char *s) { return *s ? s : "-"; }

static int tasks_list(const struct tasks_options *o, char **pos, struct err *err)
{
	struct task_set set;
	int rc = load(o, pos[0], &set, err);
	if (rc) return rc;
	json_t *list = json_array();
	for (size_t i = 0; i < set.count; i++) {
		const struct task *t = &set.tasks[i];
		if (o->json) json_array_append_new(list, task_json(t));
		else printf("%-32s  level %d  %-8s %s\n", t->name, t->level, or_dash(t->split), or_dash(t->structure));
	}
	if (o->json) json_print(json_pack("{s:I, s:O}", "count", (json_int_t)set.count, "tasks", list));
	else fprintf(stderr, "%zu %s\n", set.count, plural((int64_t)set.count, "task", "tasks"));
	json_decref(list);
	task_set_release(&set);
	return ERR_OK;
}

static const struct task *task_named(const struct task_set *set, const char *name)
{
	for (size_t i = 0; i < set->count; i++)
		if (!strcmp(set->tasks[i].name, name)) return &set->tasks[i];
	return NULL;
}

static int show_task(const struct tasks_options *o, const struct task *t, struct err *err)
{
	struct str plan = {0}, code = {0};
	int rc = ERR_OK;
	if (o->answer && o->slow) rc = task_answer_slow(t, (int)o->style, &plan, &code, err);
	else if (o->answer) rc = task_answer_choice(t, (int)o->style, (int)o->choice, &plan, &code, err);
	if (!rc && o->json) {
		json_t *row = task_json(t);
		json_object_set_new(row, "source", json_string(t->source));
		if (o->answer) json_object_update_new(row, json_pack("{s:s, s:s}", "plan", plan.data, "code", code.data));
		json_print(row);
	} else if (!rc) {
		fprintf(stderr, "%s: level %d, split %s, structure %s\n", t->name, t->level, or_dash(t->split),
			or_dash(t->structure));
		fputs(t->source, stdout);
		if (o->answer) printf("\n# %s\n\n%s", plan.data, code.data);
	}
	str_release(&plan);
	str_release(&code);
	return rc;
}

static int tasks_show(const struct tasks_options *o, char **pos, struct err *err)
{
	struct task_set set;
	if (o->style < 0 || o->style >= task_answer_styles())
		return err_set(err, ERR_USAGE, "style %lld: expected 0 to %d", (long long)o->style, task_answer_styles() - 1);
	int rc = task_set_load(pos[0], &set, err);
	if (rc) return rc;
	const struct task *t = task_named(&set, pos[1]);
	rc = t ? show_task(o, t, err)
		   : err_set(err, ERR_NOT_FOUND, "%s has no task named %s; `hone tasks list %s` names them", pos[0], pos[1],
				 pos[0]);
	task_set_release(&set);
	return rc;
}

static int counts_print(const struct tasks_options *o, const struct task_set *set, size_t duplicates)
{
	int levels[10] = {0}, splits[TASK_SPLIT_COUNT] = {0};
	struct str text = {0};
	json_t *row = json_pack(
		"{s:s, s:I, s:I}", "out", o->out, "count", (json_int_t)set->count, "duplicates", (json_int_t)duplicates);
	/* Levels that the table has no place for are counted at its ends. */
	for (size_t i = 0; i < set->count; i++) {
		levels[MIN(MAX(set->tasks[i].level, 0), 9)]++;
		for (int k = 0; k < TASK_SPLIT_COUNT; k++)
			splits[k] += !strcmp(set->tasks[i].split, task_split_name((enum task_split)k));
	}
	for (int k = 0; k < TASK_SPLIT_COUNT; k++)
		json_object_set_new(row, task_split_name((enum task_split)k), json_integer(splits[k]));
	/* Levels 1 to 3 are always named, even when empty; higher ones only where they have tasks. */
	for (int l = 1; l < 10; l++) {
		char key[16];
		if (l > 3 && !levels[l]) continue;
		snprintf(key, sizeof key, "level%d", l);
		json_object_set_new(row, key, json_integer(levels[l]));
		str_printf(&text, "%s%d: %d", l > 1 ? ", " : "level ", l, levels[l]);
	}
	/* json_print releases what it is given; the row itself is released below. */
	if (o->json) json_print(json_incref(row));
	else
		printf("%s: %zu %s (%d train, %d dev, %d test; %s), %zu %s left out\n", o->out, set->count,
			plural((int64_t)set->count, "task", "tasks"), splits[TASK_TRAIN], splits[TASK_DEV], splits[TASK_TEST],
			text.data, duplicates, plural((int64_t)duplicates, "duplicate", "duplicates"));
	json_decref(row);
	str_release(&text);
	return ERR_OK;
}

static int out_check(const struct tasks_options *o, struct err *err)
{
	if (!o->out) return err_set(err, ERR_USAGE, "--out is missing: a folder, or a .jsonl[.gz] file");
	return cli_out_check(o->out, task_set_is_file(o->out) ? CLI_OUT_FILE : CLI_OUT_FOLDER, err);
}

static int tasks_synth(const struct tasks_options *o, char **pos, struct err *err)
{
	struct task_set set;
	int rc = out_check(o, err);
	if (rc) return rc;
	struct task_synth_options s = {.seed = (uint64_t)o->seed,
		.count = {[TASK_TRAIN] = (int)o->count_train, [TASK_DEV] = (int)o->count_dev, [TASK_TEST] = (int)o->count_test},
		.level_min = (int)o->level_min,
		.level_max = (int)o->level_max,
		.operators = o->operators,
		.operators_min = (int)o->operators_min,
		.rungs = o->rungs,
		.progress = "synth"};
	rc = task_synth(&s, &set, err);
	if (rc) {
		if (rc == ERR_RANGE) err->code = ERR_USAGE;
		return rc;
	}
	rc = task_set_save(o->out, &set, err);
	if (!rc) rc = counts_print(o, &set, 0);
	task_set_release(&set);
	return rc;
}

static int by_hash(const void *a, const void *b)
{
	const struct task *const *x = a, *const *y = b;
	int c = strcmp((*x)->hash.text, (*y)->hash.text);
	return c ? c : *x < *y ? -1 : *x > *y;
}

/* A benchmark's problems keep their numbers even where two have one source: results are counted by
 * number. */
static bool is_same_problem(const struct task *a, const struct task *b)
{
	return !a->problem_id || !b->problem_id || (a->level == b->level && a->problem_id == b->problem_id);
}

/* Of tasks with one source the first stays. Returns how many went. */
static size_t drop_duplicates(struct task_set *set)
{
	const struct task **order = xmalloc(size_mul(set->count + 1, sizeof *order));
	bool *is_double = xcalloc(set->count + 1, sizeof *is_double);
	struct task_set doubles = {.tasks = xcalloc(set->count + 1, sizeof *doubles.tasks)};
	size_t kept = 0;
	for (size_t i = 0; i < set->count; i++) order[i] = &set->tasks[i];
	qsort(order, set->count, sizeof *order, by_hash);
	for (size_t i = 1; i < set->count; i++)
		if (!strcmp(order[i - 1]->hash.text, order[i]->hash.text) && is_same_problem(order[i - 1], order[i]))
			is_double[order[i] - set->tasks] = true;
	for (size_t i = 0; i < set->count; i++) {
		if (is_double[i]) {
			fprintf(stderr, "left out: %s has the source of an earlier task\n", set->tasks[i].name);
			doubles.tasks[doubles.count++] = set->tasks[i];
		} else set->tasks[kept++] = set->tasks[i];
	}
	set->count = kept;
	size_t dropped = doubles.count;
	task_set_release(&doubles);
	free(order);
	free(is_double);
	return dropped;
}

static int tasks_import(const struct tasks_options *o, char **pos, struct err *err)
{
	struct task_set set;
	int rc = out_check(o, err);
	if (!rc) rc = load_by(task_set_import, o, pos[0], &set, err);
	if (rc) return rc;
	size_t shrunk = 0;
	for (size_t i = 0; i < set.count && o->size_max; i++) shrunk += task_shrink(&set.tasks[i], o->size_max);
	if (o->size_max)
		fprintf(stderr, "%zu %s smaller sizes now; `hone tasks audit` says which of them still run\n", shrunk,
			plural((int64_t)shrunk, "task has", "tasks have"));
	size_t dropped = drop_duplicates(&set);
	rc = task_set_save(o->out, &set, err);
	if (!rc) rc = counts_print(o, &set, dropped);
	task_set_release(&set);
	return rc;
}

/* ---- audit ---- */

/* Tasks are asked about side by side: each is one process that computes, and threads that wait for
 * it. */
struct audit {
	const struct tasks_options *o;
	const struct task_set *set;
	struct verifier *verifier;
	pthread_mutex_t lock; /* of what follows, and of stdout */
	json_t **records;     /* (set->count) */
	size_t done;
	int bad;
	struct err err; /* the first that no task is to blame for */
	struct progress progress;
};

/* One row of the table: the task, at which sizes it is judged, what came of
 * it, the time it took. */
static void audit_row(const struct task *t, const json_t *record, double seconds)
{
	const char *text = "", *code = "", *null_kernel = "", *sizes = "";
	bool runs = json_is_true(json_object_get(record, "runs")),
		 tells = json_is_true(json_object_get(record, "discriminates"));
	json_opt_str(record, t->name, "text", &text, NULL);
	json_opt_str(record, t->name, "code", &code, NULL);
	json_opt_str(record, t->name, "null_kernel", &null_kernel, NULL);
	json_opt_str(record, t->name, "judged_at", &sizes, NULL);
	printf("%-58s %7.1f s  ", t->name, seconds);
	if (runs && tells) printf("ok       %s\n", sizes[0] ? sizes : "stock");
	else if (runs) printf("refused  tells nothing, is passed by: %s (%s)\n", null_kernel, sizes[0] ? sizes : "stock");
	else printf("refused  %s: %.200s\n", code, text);
	fflush(stdout);
}

static void audit_tasks(void *arg, int64_t begin, int64_t end, int thread)
{
	struct audit *a = arg;
	for (int64_t i = begin; i < end; i++) {
		const struct task *t = &a->set->tasks[i];
		json_t *record = NULL;
		struct err err = {0};
		/* The audit itself runs beside those of the other threads; what follows is everybody's. */
		uint64_t start = clock_ns();
		int rc = verifier_audit(a->verifier, t, &record, &err);
		double seconds = (double)(clock_ns() - start) * 1e-9;
		pthread_mutex_lock(&a->lock);
		/* The first error is the command's; the other threads finish what they have. */
		if (rc && !a->err.code) {
			a->err = err;
			err_prefix(&a->err, "%s", t->name);
		}
		/* A task that does not run, or that wrong kernels pass, is counted and shown. */
		if (!rc) {
			a->bad += !json_is_true(json_object_get(record, "runs")) ||
				!json_is_true(json_object_get(record, "discriminates"));
			json_object_set_new(record, "name", json_string(t->name));
			json_object_set_new(record, "seconds", json_real(seconds));
			if (!a->o->json) audit_row(t, record, seconds);
			a->records[i] = record;
		}
		progress_update(&a->progress, (int64_t)++a->done, t->name);
		pthread_mutex_unlock(&a->lock);
	}
}

/* The rows of all tasks, in their order. */
static void audit_print(const struct audit *a)
{
	json_t *list = json_array();
	for (size_t i = 0; i < a->set->count; i++) json_array_append(list, a->records[i]);
	if (a->o->json)
		json_print(json_pack("{s:I, s:i, s:O}", "count", (json_int_t)a->set->count, "bad", a->bad, "tasks", list));
	else printf("%zu of %zu tasks have a working oracle\n", a->set->count - (size_t)a->bad, a->set->count);
	json_decref(list);
}

static int tasks_audit(const struct tasks_options *o, char **pos, struct err *err)
{
	struct task_set set;
	struct audit a = {.o = o, .set = &set, .lock = PTHREAD_MUTEX_INITIALIZER};
	struct verify_options v = {.device = o->verify_device,
		.gpu = o->gpu,
		.precision = o->precision,
		.sandbox = o->sandbox,
		.allow_unsandboxed = o->allow_unsandboxed,
		.seed = (uint64_t)o->seed,
		.num_correct_trials = (int)o->num_correct_trials,
		.oracle_timeout_ms = (int)o->oracle_timeout_ms,
		.oracle_work_ms = (int)o->oracle_work_ms};
	/* The set is loaded first: a wrong path is told before the verifier starts its processes. */
	int rc = load(o, pos[0], &set, err);
	if (rc) return rc;
	a.records = xcalloc(set.count + 1, sizeof *a.records);
	rc = verifier_create(&v, &a.verifier, err);
	if (!rc) {
		struct pool *pool = pool_create(o->verify_threads ? (int)o->verify_threads : cpu_count());
		progress_begin(&a.progress, "audit", "tasks", (int64_t)set.count);
		pool_run(pool, (int64_t)set.count, 1, audit_tasks, &a);
		progress_end(&a.progress);
		pool_free(pool);
		if (a.err.code) rc = err_set(err, a.err.code, "%s", a.err.text);
	}
	/* The table is complete before bad tasks make the command fail, so that it names them all. */
	if (!rc) audit_print(&a);
	if (!rc && a.bad)
		rc = err_set(err, ERR_MISMATCH, "%d of %zu tasks do not run or tell nothing about a candidate: leave them out",
			a.bad, set.count);
	verifier_free(a.verifier);
	for (size_t i = 0; i < set.count; i++) json_decref(a.records[i]);
	free(a.records);
	task_set_release(&set);
	return rc;
}

static const struct verb VERBS[] = {
	{"list", 1, "list PATH", tasks_list},
	{"show", 2, "show PATH NAME", tasks_show},
	{"synth", 0, "synth --out PATH", tasks_synth},
	{"import", 1, "import PATH --out PATH", tasks_import},
	{"audit", 1, "audit PATH", tasks_audit},
};

int cmd_tasks(int argc, char **argv)
{
	struct tasks_options o = {.seed = 42,
		.count_train = 1000,
		.count_dev = 50,
		.count_test = 100,
		.level_min = 1,
		.level_max = 2,
		.verify_device = "cpu",
		.precision = "strict"};
	struct err err = {0};
	int npos,
		rc = options_parse("tasks list|show|synth|import|audit", "read, compose, convert and audit task sets", defs,
			ARRAY_LEN(defs), &o, argc, argv, &npos, &err);
	if (rc == 1) return 0;
	size_t i = 0;
	while (!rc && npos > 0 && i < ARRAY_LEN(VERBS) && strcmp(VERBS[i].name, argv[1])) i++;
	if (!rc && (npos == 0 || i == ARRAY_LEN(VERBS)))
		rc = err_set(&err, ERR_USAGE, "%s: expected list, show, synth, import or audit", npos ? argv[1] : "no verb");
	else if (!rc && npos - 1 != VERBS[i].npos)
		rc = err_set(&err, ERR_USAGE, "expected `hone tasks %s`, found %d arguments", VERBS[i].usage, npos - 1);
	if (!rc) rc = VERBS[i].run(&o, argv + 2, &err);
	return rc ? cli_fail("tasks", &err) : 0;
}
