/* The pipeline: what the frontend found is what the mid-end is given. Between the two runs stands a
 * file of tasks with kernels and verdicts, made from the first run's samples alone, so that it has
 * the same bytes whenever it is made again. */
#include "rl/rl_internal.h"
#include "base/base.h"
#include "policy/policy.h"
#include "store/store.h"
#include "task/task.h"
#include "text/text.h"
#include "train/train.h"
#include "verify/verdict.h"

#include <stdlib.h>

/* ---- from samples to the mid-end's tasks ---- */

struct gather {
	const struct prompt_set *tasks;
	int per_task;
	json_t *places;      /* task name -> index */
	json_t *seen;        /* hash of a kernel -> true */
	struct str *of_task; /* (tasks) rows */
	int *kept;           /* (tasks) how many */
	struct err err;
};

static json_t *row_make(const struct task *t, const char *code, size_t len, const char *hash, const json_t *verdict)
{
	char *name = xasprintf("%s+%.8s", t->name, hash);
	json_t *row = json_pack("{s:s, s:s, s:s, s:s, s:i, s:s%, s:O}", "name", name, "source", t->source, "structure",
		t->structure, "split", t->split, "level", t->level, "kernel", code, len, "profile", verdict);
	CHECKF(row, "a kernel of task %s that is no JSON", t->name);
	free(name);
	return row;
}

static int gather_sample(int64_t step, int64_t index, const json_t *row, void *ctx)
{
	struct gather *g = ctx;
	const json_t *verdict = json_object_get(row, "verdict");
	const char *task, *answer, *class;
	int rc = json_get_str(row, "sample", "task", &task, &g->err);
	if (!rc) rc = json_get_str(row, "sample", "answer", &answer, &g->err);
	if (!rc) rc = json_get_str(verdict, "sample", "verdict", &class, &g->err);
	if (rc) return err_prefix(&g->err, "step %lld, answer %lld", (long long)step, (long long)index);
	const json_t *place = json_object_get(g->places, task);
	if (!place || strcmp(class, verdict_class_name(VERDICT_GENUINE))) return 0;
	int i = (int)json_integer_value(place);
	if (g->kept[i] == g->per_task) return 0;
	/* Against a kernel without a predicted time no gain could be paid. */
	if (!(json_number_value(json_object_get(verdict, "cost_s")) > 0)) return 0;
	/* One kernel of a task once, whatever was said around it. A text with marks for broken bytes
	 * is not what was judged. */
	struct answer a = answer_parse(answer, strlen(answer));
	if (!a.well_formed || strstr(answer, "\xef\xbf\xbd")) return 0;
	size_t len = a.code_end - a.code_begin;
	const struct slice parts[2] = {{task, strlen(task)}, {answer + a.code_begin, len}};
	struct sha256_hex hash = hash_parts(parts, 2);
	if (json_object_get(g->seen, hash.text)) return 0;
	json_object_set_new(g->seen, hash.text, json_true());
	json_t *out = row_make(&g->tasks->rows[i].task, answer + a.code_begin, len, hash.text, verdict);
	jsonl_put(&g->of_task[i], out);
	json_decref(out);
	g->kept[i]++;
	return 0;
}

int pipeline_rows(struct store *s, int64_t run, const struct prompt_set *tasks, int per_task, struct str *out,
	int *count, struct err *err)
{
	struct gather g = {.tasks = tasks, .per_task = per_task, .places = json_object(), .seen = json_object()};
	g.of_task = xcalloc(tasks->count + 1, sizeof *g.of_task);
	g.kept = xcalloc(tasks->count + 1, sizeof *g.kept);
	for (size_t i = 0; i < tasks->count; i++)
		json_object_set_new(g.places, tasks->rows[i].task.name, json_integer((json_int_t)i));
	int rc = store_samples_each(s, run, gather_sample, &g, err);
	if (rc && g.err.code) *err = g.err;
	for (size_t i = 0; i < tasks->count; i++) {
		if (!rc && g.kept[i]) str_append(out, g.of_task[i].data, g.of_task[i].len);
		*count += rc ? 0 : g.kept[i];
		str_release(&g.of_task[i]);
	}
	json_decref(g.places);
	json_decref(g.seen);
	free(g.of_task);
	free(g.kept);
	return rc;
}

/* ---- the two runs ---- */

/* Kernels that a step of the mid-end asks about. */
static int64_t groups_of(const struct rl_options *mid) { return mid->generation_batch_size / mid->num_generations; }

/* Before the frontend trains: whether its tasks can give the mid-end as many kernels as a step
 * needs, if it solves them all. */
static int tasks_check(const struct rl_options *front, const struct rl_options *mid, struct err *err)
{
	struct task_set set = {0};
	int64_t tasks = 0;
	int rc = task_set_load(front->tasks, &set, err);
	for (size_t i = 0; i < set.count; i++)
		tasks += (!front->split || !*front->split || !strcmp(set.tasks[i].split, front->split)) &&
			(!front->level || set.tasks[i].level == front->level);
	if (front->limit > 0) tasks = MIN(tasks, front->limit);
	task_set_release(&set);
	if (rc || tasks * front->pipeline_kernels >= groups_of(mid)) return rc;
	return err_set(err, ERR_RANGE,
		"--pipeline %s: %lld tasks with at most %lld kernels each are %lld for the mid-end, and its steps ask about "
		"%lld; give more tasks, raise --pipeline_kernels, or lower generation_batch_size in the recipe",
		front->pipeline, (long long)tasks, (long long)front->pipeline_kernels,
		(long long)(tasks * front->pipeline_kernels), (long long)groups_of(mid));
}

/* Behind it: whether it found them. */
static int found_check(const struct rl_options *o, int count, int64_t groups, struct err *err)
{
	if (!count)
		return err_set(err, ERR_NOT_FOUND,
			"%s: the frontend found no genuine kernel, so there is nothing for the mid-end; train it for longer, or "
			"start from a better model",
			o->output_dir);
	if (count >= groups) return 0;
	return err_set(err, ERR_RANGE,
		"%s: the frontend found %d genuine kernels, and a step of the mid-end asks about %lld; the same command with "
		"a larger --max_steps (or --max_seconds) trains it on, a larger --pipeline_kernels takes more of each task, "
		"and in the recipe of the mid-end a smaller generation_batch_size asks about fewer",
		o->output_dir, count, (long long)groups);
}

/* The tasks that the frontend was asked, for their sources and splits: no template, no tokens. */
static int tasks_file_make(const struct rl_options *o, int64_t groups, const char *path, struct err *err)
{
	struct task_set set = {0};
	struct store *s = NULL;
	struct str rows = {0};
	json_t *runs = NULL, *run;
	size_t i;
	int count = 0;
	char *name = path_real(o->output_dir);
	int rc = task_set_load(o->tasks, &set, err);
	if (!rc) rc = store_open(o->store, &s, err);
	if (!rc) rc = store_runs(s, &runs, err);
	/* A shared store has other runs too: this one's is known by its folder. */
	struct prompt_set tasks = {.rows = xcalloc(set.count + 1, sizeof *tasks.rows), .count = set.count};
	for (size_t k = 0; k < set.count; k++) tasks.rows[k].task = set.tasks[k]; /* borrowed */
	json_array_foreach(runs, i, run)
	{
		if (rc || strcmp(json_string_value(json_object_get(run, "name")), name)) continue;
		rc = pipeline_rows(
			s, json_integer_value(json_object_get(run, "id")), &tasks, (int)o->pipeline_kernels, &rows, &count, err);
	}
	if (!rc) rc = found_check(o, count, groups, err);
	if (!rc) rc = jsonl_write(path, &rows, err);
	if (!rc) log_info("%s: %d %s of the frontend for the mid-end", path, count, plural(count, "kernel", "kernels"));
	free(tasks.rows);
	str_release(&rows);
	json_decref(runs);
	store_close(s);
	task_set_release(&set);
	free(name);
	return rc;
}

static int pipeline_check(const struct rl_options *front, const struct rl_options *mid, struct err *err)
{
	if (strcmp(front->stage, "frontend"))
		return err_set(err, ERR_USAGE, "--pipeline begins with --stage frontend, found %s", front->stage);
	if (front->policy.policy_answers || mid->policy.policy_answers)
		return err_set(err, ERR_USAGE,
			"--pipeline gives its mid-end what the frontend found, and --policy_answers has no answers to prompts that "
			"are not known yet; use --policy_command");
	if (!front->output_dir) return err_set(err, ERR_USAGE, "--output_dir is missing: name the folder of both runs");
	if (front->dry_run)
		return err_set(err, ERR_USAGE,
			"--dry_run: the mid-end's prompts are what the frontend will have found; plan the frontend alone");
	if (!policy_is_outside(&front->policy) && (!front->policy.use_peft || !mid->policy.use_peft))
		return err_set(err, ERR_USAGE,
			"--pipeline trains an adapter for each stage on one base; --no-use_peft would train the base itself");
	return 0;
}

int rl_pipeline(const struct rl_options *o, metrics_fn *metrics, void *ctx, struct err *err)
{
	struct rl_options front = *o, mid = *o;
	char *tasks = NULL, *front_dir = NULL, *mid_dir = NULL, *store = NULL;
	/* The mid-end's own settings over those of both; where it works is not for a recipe
	 * to say. Pairs, variants and an adapter to begin at are the frontend's, and its
	 * kernels have no dev tasks. */
	mid.prompt_template = "recipes/prompts/midend.txt";
	mid.reward = "midend";
	mid.policy.adapter = NULL;
	mid.replay_pairs = NULL;
	mid.variants = 0;
	mid.variants_from = (struct option_list){0};
	mid.eval_steps = 0;
	int rc = options_recipe("rl", "pipeline", rl_option_defs, rl_option_count, &mid, o->pipeline, err);
	mid.stage = "midend";
	if (!rc) rc = pipeline_check(&front, &mid, err);
	if (rc) return rc;
	front_dir = path_join(o->output_dir, "frontend");
	mid_dir = path_join(o->output_dir, "midend");
	tasks = path_join(o->output_dir, "midend.jsonl");
	store = o->store ? xstrdup(o->store) : path_join(o->output_dir, "hone.db");
	front.output_dir = front_dir;
	mid.output_dir = mid_dir;
	front.store = mid.store = store;
	mid.tasks = tasks;
	/* What is wrong with the second run is said before the first one begins. */
	rc = rl_midend_check(&mid, err);
	if (!rc) rc = tasks_check(&front, &mid, err);
	if (!rc) rc = dir_make(o->output_dir, err);
	if (!rc) rc = rl_run(&front, metrics, ctx, err);
	if (!rc) rc = tasks_file_make(&front, groups_of(&mid), tasks, err);
	if (!rc && (rc = rl_run(&mid, metrics, ctx, err)))
		err_prefix(
			err, "the mid-end's run, whose settings are those of --pipeline %s over the frontend's", o->pipeline);
	free(store);
	free(tasks);
	free(mid_dir);
	free(front_dir);
	return rc;
}
