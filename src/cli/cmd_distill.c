/* hone distill: the genuine answers that runs have sampled, fitted. Reads the samples of any
 * stores, keeps every genuine answer to a training task once, writes them as pairs (with those of
 * --pairs beside), and trains on them as `hone sft` does: on top of a model, or of a young
 * checkpoint from which pairs and answers are learned together.
 *
 * What is kept: an answer whose verdict in the store is genuine, to a task of --tasks whose
 * structure is a training structure. Dev and test tasks are left out, however their rows are
 * labelled. */
#include "base/base.h"
#include "cli/cli.h"
#include "cli/sft.h"
#include "policy/policy.h"
#include "rl/rl.h"
#include "store/store.h"
#include "task/task.h"
#include "train/train.h"
#include "verify/verdict.h"

#include <stdlib.h>

/* Values of the options below, whose help says what each is. */
struct distill_cmd {
	struct sft_cmd sft; /* first: its options' offsets hold here too */
	struct option_list from;
	const char *tasks;
	const char *pairs;
	const char *stage;
	const char *prompt_template;
	const char *precision;
	int64_t per_structure;
};

#define O(type, field, help, choices) { #field, type, offsetof(struct distill_cmd, field), help, choices }
static const struct option_def own_defs[] = {
	O(OPTION_LIST, from, "run folder or store file with samples; may be given several times", NULL),
	O(OPTION_STR, tasks, "the tasks that the runs answered", NULL),
	O(OPTION_STR, pairs, "pairs that are learned together with the answers (with their dev rows)", NULL),
	O(OPTION_STR, stage, "agent", "frontend|midend"),
	O(OPTION_STR, prompt_template, "template file", NULL),
	POLICY_CHAT_OPTIONS(sft_cmd),
	O(OPTION_STR, precision, "fp32 rule that the prompt states", "strict|tf32"),
	O(OPTION_INT, per_structure, "answers kept of one structure, the first ones; 0: all", "0 to 1000000"),
};

struct distill {
	const struct distill_cmd *o;
	struct prompt_set prompts;
	const struct prompt_row **order; /* (count) by task name */
	struct str text;                 /* the rows that are written */
	json_t *seen;                    /* hash of task and answer -> true */
	json_t *per_structure;           /* structure -> answers kept */
	int64_t samples;                 /* that were read */
	int64_t genuine;                 /* of them */
	int64_t kept;                    /* of those: new ones, of a structure that was not full */
	int64_t other_tasks;             /* of the genuine: to tasks that --tasks lacks */
	int64_t pairs;                   /* rows of --pairs */
	struct err err;                  /* of the row callback */
};

static int by_task(const void *a, const void *b)
{
	const struct prompt_row *const *x = a, *const *y = b;
	return strcmp((*x)->task.name, (*y)->task.name);
}

static const struct prompt_row *prompt_named(const struct distill *d, const char *name)
{
	const struct prompt_row key = {.task = {.name = (char *)(uintptr_t)name}}, *pkey = &key;
	const struct prompt_row **at = bsearch(&pkey, d->order, d->prompts.count, sizeof *d->order, by_task);
	return at ? *at : NULL;
}

/* ---- answers ---- */

static bool is_new(struct distill *d, const struct prompt_row *p, const char *answer)
{
	const struct slice parts[2] = {{p->task.name, strlen(p->task.name)}, {answer, strlen(answer)}};
	struct sha256_hex key = hash_parts(parts, 2);
	json_int_t n = json_integer_value(json_object_get(d->per_structure, task_cluster(&p->task)));
	if (json_object_get(d->seen, key.text) || (d->o->per_structure && n >= d->o->per_structure)) return false;
	json_object_set_new(d->seen, key.text, json_true());
	json_object_set_new(d->per_structure, task_cluster(&p->task), json_integer(n + 1));
	return true;
}

static void row_put(struct distill *d, const struct prompt_row *p, const char *answer)
{
	json_t *row = json_pack("{s:s, s:s, s:s, s:s, s:s}", "task", p->task.name, "structure", p->task.structure, "split",
		p->task.split, "prompt", p->text, "completion", answer);
	jsonl_put(&d->text, row);
	json_decref(row);
	d->kept++;
}

static int sample_add(int64_t step, int64_t index, const json_t *row, void *ctx)
{
	struct distill *d = ctx;
	const char *task, *answer, *verdict;
	int rc = json_get_str(row, "sample", "task", &task, &d->err);
	if (!rc) rc = json_get_str(row, "sample", "answer", &answer, &d->err);
	if (!rc) rc = json_get_str(json_object_get(row, "verdict"), "sample", "verdict", &verdict, &d->err);
	if (rc) return err_prefix(&d->err, "step %lld, answer %lld", (long long)step, (long long)index);
	d->samples++;
	if (strcmp(verdict, verdict_class_name(VERDICT_GENUINE)) || strstr(answer, "\xef\xbf\xbd")) return 0;
	d->genuine++;
	const struct prompt_row *p = prompt_named(d, task);
	if (!p) d->other_tasks++;
	else if (is_new(d, p, answer)) row_put(d, p, answer);
	return 0;
}

static int store_read(struct distill *d, const char *from, struct err *err)
{
	struct store *s = NULL;
	json_t *runs = NULL, *run;
	size_t i;
	int rc = store_open_existing(from, &s, err);
	if (!rc) rc = store_runs(s, &runs, err);
	json_array_foreach(runs, i, run)
	{
		int64_t id = json_integer_value(json_object_get(run, "id"));
		if (!rc) rc = store_samples_each(s, id, sample_add, d, err);
		if (rc && d->err.code) *err = d->err;
	}
	if (rc) err_prefix(err, "--from");
	json_decref(runs);
	store_close(s);
	return rc;
}

static int pair_add(void *ctx, const json_t *row, const char *where, struct err *err)
{
	struct distill *d = ctx;
	(void)where;
	(void)err;
	jsonl_put(&d->text, row); /* sft looks at it, by line */
	d->pairs++;
	return 0;
}

/* ---- the command ---- */

static int prompts_load(struct distill *d, struct err *err)
{
	const struct distill_cmd *o = d->o;
	struct policy_options text = o->sft.policy;
	struct policy policy;
	/* Prompts are rendered for the model that is to be trained, hence its
	 * tokenizer and chat form. */
	text.text_only = true;
	int rc = policy_open(&text, &policy, err);
	if (rc) return rc;
	/* Only training tasks are loaded: an answer to any other task then finds no prompt and is
	 * left out. */
	struct prompt_options p = {
		.tasks = o->tasks,
		.split = task_split_name(TASK_TRAIN),
		.stage = o->stage,
		.prompt_template = o->prompt_template,
		.chat_template = policy.chat,
		.chat_date = policy.chat_date,
		.precision = o->precision,
	};
	rc = prompt_set_load(&p, policy.tokenizer, &d->prompts, err);
	policy_close(&policy);
	if (rc) return rc;
	/* Samples name their tasks: sorted by name, each prompt is found by a binary search. */
	d->order = xcalloc(d->prompts.count + 1, sizeof *d->order);
	for (size_t i = 0; i < d->prompts.count; i++) d->order[i] = &d->prompts.rows[i];
	qsort(d->order, d->prompts.count, sizeof *d->order, by_task);
	return 0;
}

static int options_check(const struct distill_cmd *o, struct err *err)
{
	if (!o->from.count) return err_set(err, ERR_USAGE, "--from is missing: name a run folder or a store");
	if (!o->tasks || !o->sft.policy.model || !o->sft.output_dir)
		return err_set(err, ERR_USAGE, "--model, --tasks and --output_dir are needed");
	if (o->sft.data)
		return err_set(err, ERR_USAGE, "--data: what is trained on are the answers of --from and the rows of --pairs");
	return 0;
}

/* Collects, writes <output_dir>/distilled.jsonl and hands over to sft. */
static int distill_run(struct distill *d, struct err *err)
{
	const struct distill_cmd *o = d->o;
	char *path = path_join(o->sft.output_dir, "distilled.jsonl");
	int rc = prompts_load(d, err);
	for (int i = 0; !rc && i < o->from.count; i++) rc = store_read(d, o->from.items[i], err);
	if (!rc && !d->kept)
		rc = err_set(err, ERR_NOT_FOUND,
			"no genuine answer to a training task of %s among %lld samples (%lld genuine ones to other tasks)",
			o->tasks, (long long)d->samples, (long long)d->other_tasks);
	if (!rc && o->pairs) rc = jsonl_each(o->pairs, JSONL_LINE_MAX, pair_add, d, err);
	if (!rc) rc = run_folder_claim(o->sft.output_dir, err);
	if (!rc) rc = jsonl_write(path, &d->text, err);
	/* What was collected is told before the training begins, which takes long. */
	if (!rc) {
		log_info("%s: %lld %s of %zu %s, of %lld %s with %lld genuine (%lld to other tasks); %lld %s", path,
			(long long)d->kept, plural(d->kept, "answer", "answers"), json_object_size(d->per_structure),
			plural((int64_t)json_object_size(d->per_structure), "structure", "structures"), (long long)d->samples,
			plural(d->samples, "sample", "samples"), (long long)d->genuine, (long long)d->other_tasks,
			(long long)d->pairs, plural(d->pairs, "pair", "pairs"));
		struct sft_cmd sft = o->sft;
		sft.data = path;
		rc = sft_command(&sft, err);
	}
	free(path);
	return rc;
}

int cmd_distill(int argc, char **argv)
{
	struct distill_cmd o = {
		.sft = sft_defaults,
		.stage = "frontend",
		.prompt_template = "recipes/prompts/frontend.txt",
		.precision = "strict",
	};
	struct err err = {0};
	int npos;
	o.sft.policy.chat_template = "auto";
	/* One table for both kinds of options: the settings of sft come first in ours, so that the
	 * offsets in its table hold here as well. */
	size_t count = sft_option_count + ARRAY_LEN(own_defs);
	struct option_def *defs = xcalloc(count, sizeof *defs);
	memcpy(defs, own_defs, sizeof own_defs);
	memcpy(defs + ARRAY_LEN(own_defs), sft_option_defs, sft_option_count * sizeof *defs);
	int rc = options_parse(
		"distill", "fit the genuine answers that runs have found", defs, count, &o, argc, argv, &npos, &err);
	free(defs);
	if (rc == 1) return 0;
	if (!rc && npos > 0) rc = err_set(&err, ERR_USAGE, "unexpected argument \"%s\"", argv[1]);
	/* From here on every path ends at the releases below, which do no harm to what was never
	 * filled. */
	struct distill d = {.o = &o, .seen = json_object(), .per_structure = json_object()};
	if (!rc) rc = options_check(&o, &err);
	if (!rc) rc = distill_run(&d, &err);
	prompt_set_release(&d.prompts);
	free(d.order);
	str_release(&d.text);
	json_decref(d.seen);
	json_decref(d.per_structure);
	return rc ? cli_fail("distill", &err) : 0;
}
