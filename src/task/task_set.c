/* Task sets on disk. Three forms: one .py file, a folder of .py files, a .jsonl file (gzip when it
 * ends in .gz) with one object a line. In .py files the facts that are not Python (seed, split,
 * structure) stand in one comment line at the top, which belongs to the file, not to the task's
 * source. */
#include "task/task_graph.h"
#include "base/base.h"
#include "task/task_family.h"
#include "task/task_set.h"
#include <stdlib.h>
#include <sys/stat.h>

#define LINE_BYTES_MAX (8 * TASK_SOURCE_BYTES_MAX)
#define NAME_BYTES_MAX 256
#define FOLDER_DEPTH_MAX 16
#define HEADER "# hone-task "

/* ---- the set in memory ---- */

static void task_release(struct task *t)
{
	free(t->name);
	free(t->source);
	free(t->structure);
	free(t->split);
	free(t->rung);
}

void task_set_release(struct task_set *s)
{
	for (size_t i = 0; i < s->count; i++) task_release(&s->tasks[i]);
	free(s->tasks);
	*s = (struct task_set){0};
}

static void set_add(struct task_set *s, struct task t)
{
	if ((s->count & (s->count - 1)) == 0)
		s->tasks = xrealloc(s->tasks, size_mul(s->count ? 2 * s->count : 1, sizeof *s->tasks));
	s->tasks[s->count++] = t;
}

static int by_name(const void *a, const void *b)
{
	return strcmp((*(const struct task *const *)a)->name, (*(const struct task *const *)b)->name);
}

int task_names_check(const struct task_set *s, const char *path, struct err *err)
{
	int rc = ERR_OK;
	const struct task **order = xmalloc(size_mul(s->count + 1, sizeof *order));
	for (size_t i = 0; i < s->count; i++) order[i] = &s->tasks[i];
	qsort(order, s->count, sizeof *order, by_name);
	for (size_t i = 1; i < s->count && !rc; i++)
		if (!strcmp(order[i - 1]->name, order[i]->name))
			rc = err_set(err, ERR_FORMAT, "%s: two tasks are named %s: names must be unique", path, order[i]->name);
	free(order);
	return rc;
}

/* ---- one task ---- */

static bool is_utf8(const unsigned char *p, size_t len)
{
	for (size_t i = 0; i < len;) {
		unsigned char c = p[i];
		size_t more = c < 0x80      ? 0
			: c >= 0xc2 && c < 0xe0 ? 1
			: c >= 0xe0 && c < 0xf0 ? 2
			: c >= 0xf0 && c < 0xf5 ? 3
									: 9;
		if (more > len - i - 1) return false;
		for (size_t j = 1; j <= more; j++)
			if ((p[i + j] & 0xc0) != 0x80) return false;
		if (more >= 2 &&
			((c == 0xe0 && p[i + 1] < 0xa0) || (c == 0xed && p[i + 1] > 0x9f) || (c == 0xf0 && p[i + 1] < 0x90) ||
				(c == 0xf4 && p[i + 1] > 0x8f)))
			return false;
		i += more + 1;
	}
	return true;
}

int task_check(const struct task *t, struct err *err)
{
	static const struct {
		const char *keyword;
		const char *name;
	} NEEDED[] = {{"class", "Model"}, {"def", "get_inputs"}, {"def", "get_init_inputs"}};
	bool found[ARRAY_LEN(NEEDED)] = {false};
	size_t len = strlen(t->source);
	/* Size and encoding first, so that the scanner below reads bounded text. */
	if (len > TASK_SOURCE_BYTES_MAX)
		return err_set(
			err, ERR_LIMIT, "task %s: %zu bytes of source, at most %zu are read", t->name, len, TASK_SOURCE_BYTES_MAX);
	if (!is_utf8((const unsigned char *)t->source, len))
		return err_set(err, ERR_FORMAT, "task %s: the source is not UTF-8", t->name);
	struct py_scanner s;
	struct slice word = {0}, previous = {0};
	/* Tokens are compared, not bytes, and only those that are not indented: nested names do not
	 * count. */
	py_scanner_init(&s, t->source, len);
	for (enum py_token k = py_scanner_next(&s, &word); k != PY_END; previous = word, k = py_scanner_next(&s, &word)) {
		/* A class of another name may be called so afterwards. */
		if (previous.data && s.indent == 0 && slice_is(previous, "Model") && slice_is(word, "=")) found[0] = true;
		for (size_t i = 0; i < ARRAY_LEN(NEEDED) && k == PY_NAME && s.indent == 0; i++)
			if (previous.data && slice_is(previous, NEEDED[i].keyword) && slice_is(word, NEEDED[i].name))
				found[i] = true;
	}
	for (size_t i = 0; i < ARRAY_LEN(NEEDED); i++)
		if (!found[i])
			return err_set(err, ERR_FORMAT,
				"task %s: no top-level `%s %s`; a task defines class Model, get_inputs() and get_init_inputs()",
				t->name, NEEDED[i].keyword, NEEDED[i].name);
	return ERR_OK;
}

/* Names become file names: letters, digits and _ . - + / without empty or dot-led parts. */
static bool is_safe_byte(char c, bool part_start)
{
	if ((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9')) return true;
	return c && (part_start ? strchr("_-+", c) : strchr("_.-+/", c));
}

static bool is_safe_name(const char *name)
{
	size_t len = strlen(name);
	for (size_t i = 0; i < len; i++)
		if (!is_safe_byte(name[i], i == 0 || name[i - 1] == '/')) return false;
	return len > 0 && len <= NAME_BYTES_MAX && name[len - 1] != '/';
}

/* People's files may be called anything; "my task (2)" is named my_task__2_. */
static char *safe_name(const char *file)
{
	char *name = xstrndup(file, strlen(file) > NAME_BYTES_MAX ? NAME_BYTES_MAX : strlen(file));
	for (size_t i = 0; name[i]; i++)
		if (!is_safe_byte(name[i], i == 0 || name[i - 1] == '/') || (name[i] == '/' && !name[i + 1])) name[i] = '_';
	return name;
}

/* ---- JSON rows: the same object in .jsonl files and in the header comment of .py files ---- */

/* Fields of a line, before they are checked. */
struct row {
	const char *name;
	const char *source;
	const char *structure;
	const char *split;
	const char *rung;
	int64_t level;
	int64_t seed;
	int64_t problem_id;
};

/* The number before the first _ of the last part of a name, as KernelBench numbers its files. */
static int64_t problem_id_of_name(const char *name)
{
	const char *slash = strrchr(name, '/'), *p = slash ? slash + 1 : name;
	size_t digits = strspn(p, "0123456789");
	return digits > 0 && digits <= 9 && p[digits] == '_' ? strtoll(p, NULL, 10) : 0;
}

static int row_fields(const json_t *o, const char *what, struct row *r, struct err *err)
{
	int rc = json_opt_str(o, what, "structure", &r->structure, err);
	if (!rc) rc = json_opt_str(o, what, "split", &r->split, err);
	if (!rc) rc = json_opt_str(o, what, "rung", &r->rung, err);
	if (!rc) rc = json_opt_int(o, what, "level", 0, 9, &r->level, err);
	if (!rc) rc = json_opt_int(o, what, "seed", 0, INT64_MAX, &r->seed, err);
	return rc ? rc : json_opt_int(o, what, "problem_id", 0, INT32_MAX, &r->problem_id, err);
}

static int row_finish(struct row *r, const char *what, struct task *t, struct err *err)
{
	/* Names become paths of run folders, and a file of tasks may come from a stranger. */
	if (!is_safe_name(r->name))
		return err_set(err, ERR_FORMAT,
			"%s: task name \"%.64s\": expected letters, digits and _ . - + /, no part that starts with a dot, at most "
			"%d bytes",
			what, r->name, NAME_BYTES_MAX);
	/* A split is a property of the structure: a label that differs is an error, a missing one is
	 * filled in. */
	if (task_split_settle(r->structure, r->split, what, &r->split, err)) return err->code;
	if (*r->rung && rung_find((struct slice){r->rung, strlen(r->rung)}) < 0)
		return err_set(
			err, ERR_FORMAT, "%s: rung \"%.16s\": expected T0 to T%d or nothing", what, r->rung, RUNG_COUNT - 1);
	/* KernelBench numbers its files; others have the number in their rows, or none. */
	int64_t problem_id = r->problem_id ? r->problem_id : problem_id_of_name(r->name);
	*t = (struct task){.name = xstrdup(r->name),
		.source = xstrdup(r->source),
		.structure = xstrdup(r->structure),
		.split = xstrdup(r->split),
		.rung = xstrdup(r->rung),
		.level = (int)r->level,
		.seed = (uint64_t)r->seed,
		.problem_id = problem_id,
		.hash = task_source_hash(r->source, strlen(r->source))};
	/* The source itself is looked at last, since only a whole task can be checked. */
	int rc = task_check(t, err);
	if (rc) {
		err_prefix(err, "%s", what);
		task_release(t);
	}
	return rc;
}

/* A row of KernelBench's dataset, where names are unique inside a level: it gets the name that its
 * file has in a checkout, "level1/19_ReLU". */
static int dataset_row(const json_t *o, const char *what, struct row *r, struct task *t, struct err *err)
{
	int rc = json_get_str(o, what, "code", &r->source, err);
	if (!rc) rc = json_get_int(o, what, "level", 1, 9, &r->level, err);
	if (rc) return rc;
	char *safe = safe_name(r->name), *name = xasprintf("level%d/%s", (int)r->level, safe);
	r->name = name;
	rc = row_finish(r, what, t, err);
	free(safe);
	free(name);
	return rc;
}

int task_row_add(struct task_set *set, const json_t *o, const char *what, struct err *err)
{
	struct row r = {.structure = "", .split = "", .rung = ""};
	struct task t;
	if (set->count >= SET_TASKS_MAX) return err_set(err, ERR_LIMIT, "%s: more than %zu tasks", what, SET_TASKS_MAX);
	bool is_dataset = json_object_get(o, "code") && !json_object_get(o, "source");
	int rc = json_get_str(o, what, "name", &r.name, err);
	if (!rc) rc = row_fields(o, what, &r, err);
	if (!rc && !is_dataset) rc = json_get_str(o, what, "source", &r.source, err);
	if (!rc) rc = is_dataset ? dataset_row(o, what, &r, &t, err) : row_finish(&r, what, &t, err);
	if (!rc) set_add(set, t);
	return rc;
}

static json_t *row_json(const struct task *t, bool with_source)
{
	json_t *o = json_object();
	if (with_source) {
		json_object_set_new(o, "name", json_string(t->name));
		json_object_set_new(o, "source", json_string(t->source));
	}
	json_object_set_new(o, "structure", json_string(t->structure));
	json_object_set_new(o, "split", json_string(t->split));
	if (t->rung && *t->rung) json_object_set_new(o, "rung", json_string(t->rung));
	json_object_set_new(o, "level", json_integer(t->level));
	json_object_set_new(o, "seed", json_integer((json_int_t)t->seed));
	if (t->problem_id) json_object_set_new(o, "problem_id", json_integer(t->problem_id));
	return o;
}

/* ---- .py files and folders ---- */

struct folder_walk {
	struct task_set *set;
	const char *root;
	const char *prefix; /* of names: the folders below root */
	int depth;
	struct err *err;
};

static int level_of_path(const char *path)
{
	const char *p = path, *found = NULL;
	while ((p = strstr(p, "level"))) {
		if (p[5] >= '1' && p[5] <= '9' && !(p[6] >= '0' && p[6] <= '9')) found = p;
		p += 5;
	}
	return found ? found[5] - '0' : 0;
}

static int file_load(const char *path, const char *name, struct task_set *set, struct err *err)
{
	struct str text = {0};
	struct task t;
	json_t *header = NULL;
	char *safe = safe_name(name);
	int rc = file_read(path, TASK_SOURCE_BYTES_MAX, &text, err);
	const char *source = text.data ? text.data : "";
	/* What follows reads the source as a C string, which a zero byte would cut short. */
	if (!rc && strlen(source) != text.len)
		rc = err_set(err, ERR_FORMAT, "%s: a zero byte after %zu bytes: expected Python text", path, strlen(source));
	/* A first line may hold the task's fields as JSON; a plain file has none of them. */
	if (!rc && !strncmp(source, HEADER, strlen(HEADER))) {
		const char *line = source + strlen(HEADER);
		size_t len = strcspn(line, "\n");
		rc = json_parse(line, len, path, &header, err);
		source = line + len + (line[len] == '\n');
	} else if (!rc) header = json_object();
	if (!rc && !json_is_object(header))
		rc = err_set(err, ERR_FORMAT, "%s:1: expected an object after \"%s\"", path, HEADER);
	/* The file's name stands for the name, and its path for the level, unless the header says
	 * otherwise. */
	struct row r = {.name = safe, .source = source, .structure = "", .split = "", .rung = ""};
	if (!rc) rc = row_fields(header, path, &r, err);
	if (!rc && !r.level) r.level = level_of_path(path);
	if (!rc) rc = row_finish(&r, path, &t, err);
	if (!rc) set_add(set, t);
	json_decref(header);
	str_release(&text);
	free(safe);
	return rc;
}

static int folder_entry(const char *entry, void *ctx)
{
	const struct folder_walk *w = ctx;
	struct stat st;
	if (entry[0] == '.' || !strcmp(entry, "__pycache__") || !strcmp(entry, "__init__.py")) return ERR_OK;
	char *path = path_join(w->root, entry), *name = *w->prefix ? path_join(w->prefix, entry) : xstrdup(entry);
	int rc = ERR_OK;
	if (lstat(path, &st) == 0 && S_ISDIR(st.st_mode)) {
		struct folder_walk below = {.set = w->set, .root = path, .prefix = name, .depth = w->depth + 1, .err = w->err};
		if (below.depth > FOLDER_DEPTH_MAX)
			rc = err_set(w->err, ERR_LIMIT, "%s: more than %d folders deep", path, FOLDER_DEPTH_MAX);
		else rc = dir_each(path, folder_entry, &below, w->err);
	} else if (text_ends_in(entry, ".py")) {
		name[strlen(name) - 3] = 0;
		if (w->set->count >= SET_TASKS_MAX)
			rc = err_set(w->err, ERR_LIMIT, "%s: more than %zu tasks", w->root, SET_TASKS_MAX);
		else rc = file_load(path, name, w->set, w->err);
	}
	free(path);
	free(name);
	return rc;
}

/* ---- .jsonl ---- */

static int jsonl_row(void *ctx, const json_t *row, const char *where, struct err *err)
{
	return task_row_add(ctx, row, where, err);
}

int task_set_load(const char *path, struct task_set *out, struct err *err)
{
	struct stat st;
	*out = (struct task_set){0};
	if (stat(path, &st) != 0)
		return err_set(err, ERR_NOT_FOUND,
			"%s: no such file or folder; a task set is a .py file, a folder of them or a .jsonl[.gz] file", path);
	int rc;
	if (S_ISDIR(st.st_mode)) {
		struct folder_walk w = {.set = out, .root = path, .prefix = "", .err = err};
		rc = dir_each(path, folder_entry, &w, err);
		if (!rc && !out->count) rc = err_set(err, ERR_NOT_FOUND, "%s: no .py file in this folder", path);
	} else if (text_ends_in(path, ".py")) {
		const char *slash = strrchr(path, '/');
		char *name = xstrdup(slash ? slash + 1 : path);
		name[strlen(name) - 3] = 0;
		rc = file_load(path, name, out, err);
		free(name);
	} else rc = jsonl_each(path, LINE_BYTES_MAX, jsonl_row, out, err);
	if (!rc) rc = task_names_check(out, path, err);
	if (rc) task_set_release(out);
	return rc;
}

/* ---- saving ---- */

static int jsonl_save(const char *path, const struct task_set *set, struct err *err)
{
	struct str text = {0};
	for (size_t i = 0; i < set->count; i++) {
		json_t *o = row_json(&set->tasks[i], true);
		jsonl_put(&text, o);
		json_decref(o);
	}
	int rc = jsonl_write(path, &text, err);
	str_release(&text);
	return rc;
}

static int file_save(const char *path, const struct task *t, struct err *err)
{
	struct str text = {0};
	if (t->seed || *t->structure || *t->split || t->level) {
		json_t *o = row_json(t, false);
		char *row = json_dumps(o, JSON_COMPACT);
		str_printf(&text, HEADER "%s\n", row);
		free(row);
		json_decref(o);
	}
	str_puts(&text, t->source);
	int rc = file_write_atomic(path, text.data, text.len, err);
	str_release(&text);
	return rc;
}

static int folder_save(const char *path, const struct task_set *set, struct err *err)
{
	int rc = dir_make(path, err);
	for (size_t i = 0; i < set->count && !rc; i++) {
		const struct task *t = &set->tasks[i];
		char *stem = path_join(path, t->name), *file = xasprintf("%s.py", stem),
			 *slash = strchr(t->name, '/') ? strrchr(stem, '/') : NULL;
		if (!is_safe_name(t->name)) rc = err_set(err, ERR_FORMAT, "task name \"%.64s\" cannot be a file name", t->name);
		if (!rc && slash) {
			*slash = 0;
			rc = dir_make(stem, err);
		}
		if (!rc) rc = file_save(file, t, err);
		free(stem);
		free(file);
	}
	return rc;
}

bool task_set_is_file(const char *path)
{
	return text_ends_in(path, ".jsonl") || text_ends_in(path, ".jsonl.gz") || text_ends_in(path, ".py");
}

int task_set_save(const char *path, const struct task_set *set, struct err *err)
{
	for (size_t i = 0; i < set->count; i++) {
		int rc = task_check(&set->tasks[i], err);
		if (rc) return rc;
	}
	if (!task_set_is_file(path)) return folder_save(path, set, err);
	if (!text_ends_in(path, ".py")) return jsonl_save(path, set, err);
	if (set->count != 1)
		return err_set(err, ERR_USAGE, "%s: a .py file holds one task, the set has %zu; give a folder or a .jsonl file",
			path, set->count);
	return file_save(path, &set->tasks[0], err);
}
