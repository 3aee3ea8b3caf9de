/* hone eval: how good a model is on a set of tasks (or kernels that are there: eval_runs.c): greedy
 * pass@1 and, with --num_samples above 1, sampled pass@1 and unbiased pass@k. Every answer and
 * verdict can be written to a file; --compare gives a paired bootstrap interval over structures
 * against such a file of another model. */
#include "cli/cli.h"
#include "agent/agent.h"
#include "base/base.h"
#include "cli/eval_options.h"
#include "eval/eval.h"
#include "infer/infer.h"
#include "policy/policy.h"
#include "rl/rl.h"
#include "store/store.h"
#include "task/task.h"
#include "verify/verdict.h"
#include "verify/verify.h"

#include <math.h>
#include <stdlib.h>
#include <unistd.h>

#define MIDEND_TEMPLATE "recipes/prompts/midend.txt"
#define O(type, field, help, choices) { #field, type, offsetof(struct eval_options, field), help, choices }
static const struct option_def defs[] = {
	POLICY_MODEL_OPTION(eval_options),
	POLICY_ADAPTER_OPTION(eval_options, "PEFT adapter folder"),
	POLICY_OUTSIDE_OPTIONS(eval_options),
	O(OPTION_STR, tasks, "task file or folder (midend: rows with kernel and profile)", NULL),
	O(OPTION_STR, split, "keep tasks of this split: dev to choose by, test to report; empty keeps all", NULL),
	O(OPTION_INT, limit, "number of tasks after a seeded shuffle; 0: all", "0 or more"),
	O(OPTION_STR, stage, "agent", "frontend|midend"),
	O(OPTION_STR, prompt_template, "template file", NULL),
	POLICY_CHAT_OPTIONS(eval_options),
	O(OPTION_STR, precision, "fp32 rule", "strict|tf32"),
	O(OPTION_INT, num_samples, "answers per task at --temperature", "1 to 65536"),
	O(OPTION_FLOAT, temperature, "0: greedy", "0 to 1000"),
	O(OPTION_INT, top_k, "0: off", "0 to 2147483647"),
	O(OPTION_FLOAT, top_p, "1: off", "1e-6 to 1"),
	O(OPTION_INT, variants,
		"genuine kernels of the task to show beside it, at most ({{variants}}); tasks with fewer than two go; 0: off",
		"0 to 64"),
	O(OPTION_LIST, variants_from,
		"where they come from: run folder, store, or rows of `hone eval --out`; may be given several times", NULL),
	O(OPTION_BOOL, pipeline,
		"hand each task's cheapest genuine kernel to the mid-end; beside it a single agent at equal answers and tokens",
		NULL),
	O(OPTION_STR, midend_adapter, "PEFT adapter folder of --pipeline's mid-end; default: --adapter's", NULL),
	O(OPTION_STR, midend_template, "template file of --pipeline's mid-end", NULL),
	O(OPTION_INT, midend_samples, "answers of --pipeline's mid-end to a kernel; 0: num_samples", "0 to 65536"),
	O(OPTION_INT, num_turns,
		"turns of an episode, each but the first behind the verdict on the one before; above 1 also best of n at equal "
		"tokens",
		"1 to 64"),
	O(OPTION_BOOL, turn_refines, "go on behind a genuine answer too, towards a faster one", NULL),
	O(OPTION_STR, turn_template, "template file of a further turn, with {{feedback}}", NULL),
	O(OPTION_INT, max_feedback_length,
		"tokens that a further turn adds before its answer; feedback is shortened to fit", "16 to 16777216"),
	O(OPTION_INT, max_prompt_length, "longer prompts are refused and counted; 0: no limit", "0 to 16777216"),
	O(OPTION_INT, max_completion_length, "tokens per answer", "1 to 16777216"),
	O(OPTION_INT, seed, "of sampling and task selection", NULL),
	O(OPTION_INT, verify_seed, "of hidden inputs", NULL),
	POLICY_DEVICE_OPTIONS(eval_options),
	POLICY_INVARIANT_OPTION(eval_options),
	O(OPTION_INT, verify_threads, "processors that grading keeps busy; 0: cores", "0 to 4096"),
	O(OPTION_STR, verify_device, "cpu: the vm alone; cuda, cuda:N, cuda:N,M: with those GPUs", NULL),
	O(OPTION_BOOL, verify_profile,
		"on --verify_device cuda, right answers run under Nsight Compute too: the mid-end's prompt shows what its "
		"counters say",
		NULL),
	O(OPTION_STR, gpu, "card that kernels are compiled for; empty: the device's own, else H200", NULL),
	O(OPTION_INT, num_correct_trials, "trials per verdict; 0: default", "0 to 32"),
	O(OPTION_STR, out, "write every answer and verdict here (JSONL)", NULL),
	O(OPTION_BOOL, judge, "off: write the answers alone (--out), to be judged by --policy_answers", NULL),
	O(OPTION_STR, compare, "file written by --out for another model on the same tasks: prints the paired difference",
		NULL),
	O(OPTION_STR, store, "SQLite file for caches", NULL),
	O(OPTION_STR, from_runs,
		"grade the kernels of this folder (level_L_problem_P_sample_S_kernel.py) instead of asking a model", NULL),
	O(OPTION_INT, level, "keep tasks (or kernels) of this level; 0: all", "0 to 9"),
	O(OPTION_STR, results, "folder for KernelBench's files (docs/eval.md); with --from_runs that folder is the default",
		NULL),
	O(OPTION_STR, timings, "eval_results.json of a GPU whose runtimes are taken over", NULL),
	O(OPTION_STR, baseline, "KernelBench's baseline times, for fast_p", NULL),
	O(OPTION_STR, cost_size,
		"sizes of the predicted time: judged, stock, or elements that the largest input has at least", NULL),
	O(OPTION_INT, oracle_timeout_ms, "processor time of one reference, over all trials; 0: 120000", "0 to 2147483647"),
	O(OPTION_BOOL, json, "print one JSON object", NULL),
	OPTIONS_NEED("top_k top_p", "temperature>0"),
	OPTIONS_NEED("variants_from", "variants>0"),
	OPTIONS_NEED("midend_adapter midend_template midend_samples", "pipeline"),
	OPTIONS_NEED("turn_refines turn_template max_feedback_length", "num_turns>1"),
	OPTIONS_NEED("timings baseline", "results | from_runs"),
	OPTIONS_NEED("verify_profile", "verify_device=cuda*"),
	POLICY_NOT_OUTSIDE("max_prompt_length top_k top_p midend_adapter"),
	OPTIONS_NEED("max_completion_length", "!policy_answers"),
	OPTIONS_NEED("verify_seed verify_threads verify_device verify_profile gpu num_correct_trials cost_size "
				 "oracle_timeout_ms store",
		"judge"),
	OPTIONS_NEED(
		"split limit stage prompt_template chat_template chat_date num_samples temperature top_k top_p variants "
		"variants_from pipeline midend_adapter midend_template midend_samples num_turns turn_refines "
		"turn_template max_feedback_length max_prompt_length max_completion_length seed device cuda_libs memory "
		"cuda_card threads batch_invariant",
		"!from_runs"),
};

struct eval {
	const struct eval_options *o;
	struct policy policy; /* of zeros where the policy is outside */
	struct author author; /* its engine is owned */
	struct verifier *verifier;
	struct store *store;
	struct prompt_set prompts;
	struct str turn_template;
	struct rollout *episodes; /* (tasks * num_samples * num_turns) owned */
	struct rollout *rollouts; /* (tasks * num_samples) borrowed from them: the best answer of each episode */
	json_t *pipeline;         /* of --pipeline */
	json_t *finals;           /* of the best kernels, on a GPU */
	struct str final_rows;    /* for --out */
	struct str midend_rows;   /* for --out */
	struct chain *chains;     /* (tasks * num_samples) best of n beside them; NULL: greedy, or no turns */
	char *kept;               /* where a command's answers are kept until --out is written; NULL: nowhere */
	json_t *rates;            /* of --compare: task -> [answers, genuine, solved samples] */
	int level;                /* of --results */
	struct kernelbench_times times;
};

static int eval_check(const struct eval_options *o, struct err *err)
{
	/* A set of answers is as it is; a command is told the temperature, and may draw as it likes. */
	if (o->num_samples > 1 && o->temperature <= 0 && !policy_is_outside(&o->policy))
		return err_set(err, ERR_USAGE, "--num_samples %lld at --temperature 0 gives equal answers; set a temperature",
			(long long)o->num_samples);
	if (o->pipeline && (o->num_turns > 1 || strcmp(o->stage, "frontend") || o->temperature <= 0))
		return err_set(err, ERR_USAGE,
			"--pipeline begins with --stage frontend, and is compared with independent answers: it takes a "
			"--temperature "
			"above 0 and no --num_turns");
	if (o->pipeline && o->policy.policy_answers)
		return err_set(err, ERR_USAGE,
			"--pipeline asks its mid-end about kernels that the verdicts choose, and --policy_answers has no answers "
			"to these; use --policy_command");
	/* Whatever follows an answer depends on its verdict. */
	if (!o->judge && (!o->out || o->pipeline || o->num_turns > 1 || o->compare || o->results || o->from_runs))
		return err_set(err, ERR_USAGE,
			"--no-judge writes answers to --out, without verdicts: it does not go with --pipeline, --num_turns, "
			"--compare, --results and --from_runs");
	return o->out ? cli_out_check(o->out, CLI_OUT_FILE, err) : 0;
}

/* Counts a row of a file written by --out: task -> [answers, genuine ones, {number of a sample that
 * is genuine: true}]. Dropped answers (infra) do not count, as in the summary. The turns of an
 * episode count as one answer, which is genuine where one of them is: its first turn counts the
 * answer, and the first genuine one counts as that. */
static int rate_add(void *ctx, const json_t *row, const char *where, struct err *err)
{
	json_t *rates = ctx;
	const char *task, *verdict;
	if (json_object_get(row, "stage"))
		return 0; /* a mid-end's, or a best kernel once more: behind the answer that counts */
	int rc = json_get_str(row, where, "task", &task, err);
	if (!rc) rc = json_get_str(json_object_get(row, "verdict"), where, "verdict", &verdict, err);
	if (rc) return rc;
	json_t *t = json_object_get(rates, task);
	if (!t) json_object_set_new(rates, task, t = json_pack("[i,i,{}]", 0, 0));
	bool is_first = json_integer_value(json_object_get(row, "turn")) == 0, is_genuine = !strcmp(verdict, "genuine");
	char sample[32];
	snprintf(sample, sizeof sample, "%lld", (long long)json_integer_value(json_object_get(row, "sample")));
	json_t *solved = json_array_get(t, 2);
	bool is_counted = is_first && strcmp(verdict, "infra") != 0;
	json_integer_set(json_array_get(t, 0), json_integer_value(json_array_get(t, 0)) + is_counted);
	if (is_genuine && (is_first || !json_object_get(solved, sample))) {
		json_integer_set(json_array_get(t, 1), json_integer_value(json_array_get(t, 1)) + 1);
		json_object_set_new(solved, sample, json_true());
	}
	return 0;
}

/* A paired difference is one over the same tasks: all of these, and no others. */
static int compare_check(const struct eval *e, struct err *err)
{
	if (!e->rates) return 0;
	for (size_t i = 0; i < e->prompts.count; i++)
		if (!json_object_get(e->rates, e->prompts.rows[i].task.name))
			return err_set(err, ERR_MISMATCH, "%s: has no answer to task %s; compare runs over the same tasks",
				e->o->compare, e->prompts.rows[i].task.name);
	if (json_object_size(e->rates) != e->prompts.count)
		return err_set(err, ERR_MISMATCH,
			"%s: has answers to %zu tasks, this evaluation is over %zu; compare runs over the same tasks (--tasks, "
			"--split, --limit, --seed)",
			e->o->compare, json_object_size(e->rates), e->prompts.count);
	return 0;
}

struct verify_options eval_verify_options(const struct eval_options *o, struct store *store)
{
	bool is_cuda = !strncmp(o->verify_device, "cuda", 4);
	return (struct verify_options){
		.device = o->verify_device,
		.profile = o->verify_profile,
		.gpu = o->gpu,
		.cost_size = o->cost_size,
		.precision = o->precision,
		.threads = (int)o->verify_threads,
		.num_correct_trials = (int)o->num_correct_trials,
		.seed = (uint64_t)o->verify_seed,
		.oracle_timeout_ms = (int)o->oracle_timeout_ms,
		.references = is_cuda && (o->from_runs || o->results) ? "eager" : NULL, /* KernelBench's files have its time */
		.final_references = is_cuda ? "eager,tf32,compile" : NULL,
		.store = store,
	};
}

/* KernelBench's files keep one level, by problem id: asked before the long part. */
static int results_level(struct eval *e, struct err *err)
{
	const struct task **tasks = xcalloc(e->prompts.count + 1, sizeof *tasks);
	for (size_t i = 0; i < e->prompts.count; i++) tasks[i] = &e->prompts.rows[i].task;
	int rc = kernelbench_level(tasks, e->prompts.count, &e->level, err);
	free(tasks);
	if (!rc) rc = dir_make(e->o->results, err);
	return rc ? rc : kernelbench_times_load(e->o->results, e->o->timings, e->o->baseline, e->level, &e->times, err);
}

/* Answers of a command may be dear, and it may end before the last one: they are kept beside --out
 * as they come, with their verdicts where no store keeps these. */
static int eval_keep(struct eval *e, struct err *err)
{
	const struct eval_options *o = e->o;
	if (!o->policy.policy_command || !o->out) return 0;
	e->kept = xasprintf("%s.partial", o->out);
	int rc = outside_keep(e->author.outside, e->kept, err);
	char *store = xasprintf("%s.db", e->kept);
	if (!rc && o->judge && !o->store) rc = store_open(store, &e->store, err);
	free(store);
	return rc;
}

/* All that is kept stands in --out now. */
static void eval_kept_remove(struct eval *e)
{
	static const char *const ends[] = {"", ".db", ".db-wal", ".db-shm", ".db-lock"};
	if (!e->kept) return;
	verifier_free(e->verifier);
	store_close(e->store);
	e->verifier = NULL;
	e->store = NULL;
	for (size_t i = 0; i < ARRAY_LEN(ends); i++) {
		char *path = xasprintf("%s%s", e->kept, ends[i]);
		unlink(path);
		free(path);
	}
}

static struct turn_options turn_options_of(const struct eval *e, int most)
{
	return (struct turn_options){.most = most,
		.is_refining = e->o->turn_refines,
		.max_feedback = (int)e->o->max_feedback_length,
		.template_text = e->turn_template.data,
		.template_name = e->o->turn_template,
		.precision = e->o->precision};
}

static int eval_open(struct eval *e, struct err *err)
{
	const struct eval_options *o = e->o;
	/* Options that need one another. */
	bool is_outside = policy_is_outside(&o->policy);
	if (!o->tasks) return err_set(err, ERR_USAGE, "--tasks is missing");
	if (!o->policy.model && !is_outside)
		return err_set(err, ERR_USAGE,
			"--model is missing (or --policy_command, --policy_answers: another policy; or --from_runs: kernels that "
			"are there)");
	int rc = 0;
	if (o->compare) /* Before the long part, as all that can fail. */
		rc = jsonl_each(o->compare, JSONL_LINE_MAX, rate_add, e->rates = json_object(), err);
	struct policy_options po = o->policy;
	if (o->midend_adapter) po.adapters = (struct option_list){.items = {o->midend_adapter}, .count = 1};
	e->author = (struct author){.policy = &e->policy, .stage = o->stage};
	if (!rc) rc = is_outside ? outside_open(&po, &e->author.outside, err) : policy_open(&po, &e->policy, err);
	if (rc) return rc;
	/* The prompts, all rendered and tokenized before the engine is made. */
	struct prompt_options p = {
		.tasks = o->tasks,
		.split = o->split,
		.stage = o->stage,
		.prompt_template = o->prompt_template,
		.chat_template = e->policy.chat,
		.chat_date = e->policy.chat_date,
		.precision = o->precision,
		.limit = o->limit,
		.level = (int)o->level,
		.seed = (uint64_t)o->seed,
		.max_prompt_length = o->max_prompt_length,
		.variants = (int)o->variants,
		.variants_from = &o->variants_from,
	};
	rc = prompt_set_load(&p, e->policy.tokenizer, &e->prompts, err);
	if (rc) return rc;
	/* The engine cuts nothing and refuses what is too long: it is made for the longest prompt. */
	size_t longest = 0;
	for (size_t i = 0; i < e->prompts.count; i++) longest = MAX(longest, e->prompts.rows[i].ids.count);
	int64_t behind = o->num_turns * o->max_completion_length + (o->num_turns - 1) * o->max_feedback_length;
	struct engine_options eo = {.max_sequences = 64, .max_context = (int)MIN((int64_t)longest + behind, INT32_MAX)};
	if (o->num_turns > 1) rc = agent_turn_template_read(o->stage, o->turn_template, &e->turn_template, err);
	if (!rc && o->pipeline) rc = agent_midend_template_check(o->midend_template, err);
	if (!rc && !is_outside)
		rc = rl_positions_check((int64_t)longest, behind, o->num_turns, e->policy.config.max_position_embeddings, err);
	struct turn_options turns = turn_options_of(e, (int)o->num_turns);
	if (!rc && o->num_turns > 1) rc = turns_check(&turns, is_outside ? NULL : &e->policy, &e->prompts, err);
	if (rc) return rc;
	if (!is_outside) rc = engine_create(e->policy.model, &eo, &e->author.engine, err);
	if (!rc && o->store) rc = store_open(o->store, &e->store, err);
	if (!rc) rc = eval_keep(e, err);
	/* The verifier's caches lie in the store, where there is one. */
	struct verify_options v = eval_verify_options(o, e->store);
	/* What can still be refused is asked here, before the first answer is generated. */
	if (!rc) rc = compare_check(e, err);
	if (!rc && o->results) rc = results_level(e, err);
	return rc || !o->judge ? rc : verifier_create(&v, &e->verifier, err);
}

/* How answers are drawn: `samples` to a prompt, in episodes of `turns`. */
static struct rollout_options answer_options(const struct eval *e, int samples, int turns)
{
	const struct eval_options *o = e->o;
	return (struct rollout_options){
		.num_samples = samples,
		.sampling = {.temperature = (float)o->temperature,
			.top_k = (int)o->top_k,
			.top_p = (float)o->top_p,
			.seed = (uint64_t)o->seed},
		.turns = turn_options_of(e, turns),
		.max_new_tokens = (int)o->max_completion_length,
		.stop_ids = &e->policy.stop_id,
		.nstop = 1,
		.adapter = e->policy.adapter,
		.progress = "eval",
		.gpu = e->policy.ops ? e->policy.ops->uuid : NULL,
	};
}

/* With turns and with chance: what independent answers reach with as many tokens. */
static int eval_best_of(struct eval *e, struct err *err)
{
	const struct eval_options *o = e->o;
	int n = (int)e->prompts.count, K = (int)o->num_samples, T = (int)o->num_turns;
	if (T == 1 || o->temperature <= 0) return 0;
	struct rollout_options ro = answer_options(e, 1, 1);
	ro.id_base = n;
	ro.progress = NULL;
	e->chains = xcalloc(size_mul((size_t)n, (size_t)K), sizeof *e->chains);
	episode_chains(e->episodes, &e->prompts, n, K, T, o->turn_refines, e->chains);
	return chains_draw(&e->author, e->verifier, &e->prompts, &ro, e->chains, n * K, err);
}

static int eval_answers(struct eval *e, struct err *err)
{
	int n = (int)e->prompts.count, K = (int)e->o->num_samples, T = (int)e->o->num_turns;
	int *index = xmalloc((size_t)n * sizeof *index);
	for (int i = 0; i < n; i++) index[i] = i;
	struct rollout_options ro = answer_options(e, K, T);
	e->episodes = xcalloc(size_mul(size_mul((size_t)n, (size_t)K), (size_t)T), sizeof *e->episodes);
	e->rollouts = xcalloc(size_mul((size_t)n, (size_t)K), sizeof *e->rollouts);
	int rc = rollouts_collect(&e->author, e->verifier, &e->prompts, index, n, &ro, e->episodes, NULL, err);
	for (int i = 0; !rc && i < n * K; i++) {
		const struct rollout *episode = &e->episodes[(int64_t)i * T];
		e->rollouts[i] = episode[episode_best(episode, T)];
	}
	free(index);
	return rc ? rc : eval_best_of(e, err);
}

/* --pipeline, behind the frontend's answers. */
static int eval_midend(struct eval *e, struct err *err)
{
	if (!e->o->pipeline) return 0;
	struct eval_chain c = {.o = e->o,
		.policy = &e->policy,
		.author = &e->author,
		.verifier = e->verifier,
		.prompts = &e->prompts,
		.rollouts = e->rollouts,
		.front = answer_options(e, 1, 1)};
	return eval_pipeline(&c, &e->midend_rows, &e->pipeline, err);
}

/* On a GPU, behind everything else: nothing runs beside the best kernels then. */
static int eval_bests(struct eval *e, struct err *err)
{
	if (!e->o->judge || strncmp(e->o->verify_device, "cuda", 4)) return 0;
	return eval_finals(e->o, e->verifier, &e->prompts, e->rollouts, &e->final_rows, &e->finals, err);
}

static int eval_write(const struct eval *e, struct err *err)
{
	if (!e->o->out) return 0;
	struct str text = {0};
	size_t n = e->prompts.count * (size_t)(e->o->num_samples * e->o->num_turns);
	for (size_t i = 0; i < n; i++) {
		if (e->episodes[i].is_absent) continue;
		json_t *row = rollout_json(&e->episodes[i], &e->prompts);
		jsonl_put(&text, row);
		json_decref(row);
	}
	if (e->midend_rows.len) str_append(&text, e->midend_rows.data, e->midend_rows.len);
	if (e->final_rows.len) str_append(&text, e->final_rows.data, e->final_rows.len);
	int rc = jsonl_write(e->o->out, &text, err);
	str_release(&text);
	return rc;
}

static int by_problem(const void *a, const void *b)
{
	const struct prompt_row *const *x = a, *const *y = b;
	return ((*x)->task.problem_id > (*y)->task.problem_id) - ((*x)->task.problem_id < (*y)->task.problem_id);
}

/* The candidate in a run's layout, so that KernelBench can time it on a GPU. */
static int kernel_write(const struct eval *e, const struct rollout *r, const struct task *t, struct err *err)
{
	if (!r->answer.well_formed) return 0;
	char *name = xasprintf("level_%d_problem_%lld_sample_%d_kernel.py", t->level, (long long)t->problem_id, r->sample),
		 *path = path_join(e->o->results, name);
	int rc = file_write_atomic(path, r->text + r->answer.code_begin, r->answer.code_end - r->answer.code_begin, err);
	free(path);
	free(name);
	return rc;
}

/* --results: what KernelBench's scripts read, problems in order of their numbers. */
static int eval_results(struct eval *e, json_t *summary, struct err *err)
{
	size_t n = e->prompts.count, K = (size_t)e->o->num_samples;
	if (!e->o->results) return 0;
	const struct prompt_row **order = xcalloc(n + 1, sizeof *order);
	struct task_set tasks = {.tasks = xcalloc(n + 1, sizeof *tasks.tasks), .count = n}; /* borrowed */
	json_t *results = json_object(), *analysis = NULL;
	int rc = dir_make(e->o->results, err);
	e->times.own = json_object();
	/* KernelBench's files are in the order of problem ids, whatever order
	 * the tasks were given in. */
	for (size_t i = 0; i < n; i++) order[i] = &e->prompts.rows[i];
	qsort(order, n, sizeof *order, by_problem);
	for (size_t i = 0; i < n; i++) {
		tasks.tasks[i] = order[i]->task;
		for (size_t k = 0; k < K && !rc; k++) {
			const struct rollout *r = &e->rollouts[(size_t)(order[i] - e->prompts.rows) * K + k];
			rc = kernel_write(e, r, &order[i]->task, err);
			if (r->is_dropped) continue;
			kernelbench_add(results, order[i]->task.problem_id, r->sample, &r->verdict);
			kernelbench_add_reference(e->times.own, &order[i]->task, &r->verdict);
		}
	}
	/* The references' times go in last: they are only known once every verdict has been read. */
	if (!rc) rc = kernelbench_write(e->o->results, results, &tasks, e->level, &e->times, &analysis, err);
	if (!rc) json_object_set_new(summary, "kernelbench", analysis);
	json_decref(results);
	free(tasks.tasks);
	free(order);
	return rc;
}

static int eval_compare(const struct eval *e, json_t *summary, struct err *err)
{
	if (!e->rates) return 0;
	int n = 0, K = (int)e->o->num_samples;
	double *a = xcalloc(e->prompts.count, sizeof *a), *b = xcalloc(e->prompts.count, sizeof *b), low, mean, high;
	const struct task **tasks = xcalloc(e->prompts.count, sizeof *tasks);
	int *cluster = xcalloc(e->prompts.count, sizeof *cluster);
	/* A task enters when both sides have a verdict on it; dropped answers count on neither side. */
	for (size_t i = 0; i < e->prompts.count; i++) {
		const json_t *t = json_object_get(e->rates, e->prompts.rows[i].task.name);
		json_int_t others = json_integer_value(json_array_get(t, 0));
		int counted = 0, genuine = 0;
		for (int k = 0; k < K; k++) {
			const struct rollout *r = &e->rollouts[i * (size_t)K + (size_t)k];
			counted += !r->is_dropped;
			genuine += !r->is_dropped && r->verdict.class == VERDICT_GENUINE;
		}
		if (!counted || !others) continue;
		a[n] = (double)genuine / counted;
		tasks[n] = &e->prompts.rows[i].task;
		b[n++] = (double)json_integer_value(json_array_get(t, 1)) / (double)others;
	}
	if (n) {
		/* Tasks of one structure are alike, so the bootstrap draws whole structures. */
		int structures = tasks_clusters(tasks, n, cluster);
		bootstrap_paired(a, b, cluster, n, (uint64_t)e->o->seed, &low, &mean, &high);
		json_object_set_new(summary, "compare",
			json_pack("{s:s, s:f, s:f, s:f, s:i, s:i}", "to", e->o->compare, "difference", mean, "low", low, "high",
				high, "tasks", n, "structures", structures));
	}
	free(a);
	free(b);
	free(tasks);
	free(cluster);
	return n ? 0 : err_set(err, ERR_MISMATCH, "%s: no task has a verdict on both sides", e->o->compare);
}

static void print_side(const char *name, const json_t *side)
{
	printf("%-14s %.4f solved, speedup %.4f; an episode: %.2f answers, %.0f tokens written, %.0f read\n", name,
		real_at(side, "solved"), real_at(side, "speedup_geomean"), real_at(side, "answers"), real_at(side, "tokens"),
		real_at(side, "tokens_read"));
}

/* Refinement by turn, and beside best of n at equal tokens. */
static void print_turns(const json_t *t)
{
	size_t i;
	json_t *row;
	const json_t *best_of = json_object_get(t, "best_of"), *d = json_object_get(t, "difference");
	json_array_foreach(json_object_get(t, "by_turn"), i, row)
		printf("turn %-9lld %.4f solved by it, %lld %s\n", count_at(row, "turn"), real_at(row, "solved"),
			count_at(row, "answers"), plural(count_at(row, "answers"), "answer", "answers"));
	print_side("refinement", json_object_get(t, "refined"));
	if (!best_of) return;
	print_side("best of n", best_of);
	printf("refinement - best of n: %+.4f, 95 %% interval over %lld %s [%+.4f, %+.4f]\n", real_at(d, "solved"),
		count_at(d, "structures"), plural(count_at(d, "structures"), "structure", "structures"), real_at(d, "low"),
		real_at(d, "high"));
}

static void print_summary(const json_t *s)
{
	const char *key;
	json_t *value;
	printf("tasks %lld, samples %lld, dropped %lld\n", count_at(s, "tasks"), count_at(s, "samples"),
		count_at(s, "dropped"));
	/* pass@k needs k verdicts on a task: where dropped answers left fewer on some, the line says
	 * so. */
	json_object_foreach(json_object_get(s, "pass"), key, value)
	{
		long long counted = count_at(json_object_get(s, "pass_tasks"), key);
		printf("%-14s %.4f", key, json_real_value(value));
		if (counted < count_at(s, "tasks"))
			printf("  (%lld %s as many verdicts)", counted, plural(counted, "task has", "tasks have"));
		putchar('\n');
	}
	/* Rates over all answers, then how often each verdict and reason came up. */
	static const char *const rates[] = {"genuine", "correct", "compiled", "valid", "well_formed", "clipped_ratio",
		"mean_length", "speedup_geomean", "speedup_mean"};
	for (size_t i = 0; i < ARRAY_LEN(rates); i++) printf("%-14s %.4f\n", rates[i], real_at(s, rates[i]));
	json_object_foreach(json_object_get(s, "reasons"), key, value)
		printf("  %-32s %lld\n", key, (long long)json_integer_value(value));
	/* These parts are there only when --compare or --results asked for them. */
	const json_t *c = json_object_get(s, "compare");
	if (json_object_get(s, "midend")) eval_midend_print(json_object_get(s, "midend"));
	if (json_object_get(s, "pipeline")) eval_pipeline_print(json_object_get(s, "pipeline"));
	if (json_object_get(s, "turns")) print_turns(json_object_get(s, "turns"));
	if (json_object_get(s, "finals")) eval_finals_print(json_object_get(s, "finals"));
	if (json_object_get(s, "kernelbench")) eval_analysis_print(json_object_get(s, "kernelbench"));
	if (c)
		printf("difference to %s: %+.4f, 95 %% interval over %lld %s [%+.4f, %+.4f]\n",
			json_string_value(json_object_get(c, "to")), real_at(c, "difference"), count_at(c, "structures"),
			plural(count_at(c, "structures"), "structure", "structures"), real_at(c, "low"), real_at(c, "high"));
}

static int eval_report(struct eval *e, struct err *err)
{
	static const int ks[] = {1, 2, 4, 8, 16, 32, 64};
	int nks = 0;
	while (nks < (int)ARRAY_LEN(ks) && ks[nks] <= e->o->num_samples) nks++;
	json_t *s = rollouts_summary(e->rollouts, &e->prompts, (int)e->prompts.count, (int)e->o->num_samples, ks, nks);
	/* What only some kinds of evaluation have. */
	json_object_set_new(s, "refused_prompts", json_integer(e->prompts.refused));
	if (e->o->variants) json_object_set_new(s, "tasks_without_variants", json_integer(e->prompts.alone));
	if (e->author.outside)
		json_object_set_new(
			s, "length_unit", json_string(outside_counts_tokens(e->author.outside) ? "tokens" : "bytes"));
	if (e->o->num_turns > 1)
		json_object_set_new(s, "turns",
			turns_summary(e->episodes, e->chains, &e->prompts, (int)e->prompts.count, (int)e->o->num_samples,
				(int)e->o->num_turns, (uint64_t)e->o->seed));
	if (e->pipeline) json_object_set(s, "pipeline", e->pipeline);
	if (!strcmp(e->o->stage, "midend"))
		json_object_set_new(
			s, "midend", midend_summary(e->rollouts, &e->prompts, (int)e->o->num_samples, (uint64_t)e->o->seed));
	if (e->finals) json_object_set(s, "finals", e->finals);
	/* Comparisons add to the summary, so they come before it is printed. */
	int rc = eval_compare(e, s, err);
	if (!rc) rc = eval_results(e, s, err);
	if (!rc && e->o->json) {
		json_dumpf(s, stdout, JSON_COMPACT | JSON_SORT_KEYS | JSON_AS_WRITTEN);
		printf("\n");
	} else if (!rc) {
		print_summary(s);
	}
	json_decref(s);
	return rc;
}

static void eval_release(struct eval *e)
{
	if (e->episodes)
		rollouts_release(e->episodes, (int)(e->prompts.count * (size_t)(e->o->num_samples * e->o->num_turns)));
	free(e->episodes);
	free(e->rollouts);
	free(e->chains);
	str_release(&e->midend_rows);
	str_release(&e->final_rows);
	json_decref(e->pipeline);
	json_decref(e->finals);
	str_release(&e->turn_template);
	json_decref(e->rates);
	kernelbench_times_release(&e->times);
	verifier_free(e->verifier);
	store_close(e->store);
	engine_free(e->author.engine);
	prompt_set_release(&e->prompts);
	outside_close(e->author.outside);
	policy_close(&e->policy);
}

int cmd_eval(int argc, char **argv)
{
	struct eval_options o = {
		.cost_size = "judged",
		.judge = true,
		.split = "test",
		.stage = "frontend",
		.prompt_template = "recipes/prompts/frontend.txt",
		.verify_device = "cpu",
		.precision = "strict",
		.num_samples = 1,
		.num_turns = 1,
		.turn_template = "recipes/prompts/turn.txt",
		.midend_template = MIDEND_TEMPLATE,
		.max_feedback_length = 1024,
		.policy = {.chat_template = "auto", .device = "cpu", POLICY_OUTSIDE_DEFAULTS},
		.top_p = 1,
		.max_completion_length = 8192,
		.seed = 42,
		.verify_seed = 4242,
	};
	struct err err = {0};
	/* The options, and what contradicts itself among them. */
	int npos,
		rc = options_parse("eval", "score a model, or kernels that are there, on tasks", defs, ARRAY_LEN(defs), &o,
			argc, argv, &npos, &err);
	if (rc == 1) return 0;
	struct eval e = {.o = &o};
	if (!rc && npos > 0) rc = err_set(&err, ERR_USAGE, "unexpected argument \"%s\"", argv[1]);
	if (!rc) rc = eval_check(&o, &err);
	/* Kernels that are there need no model: that path shares only the options. */
	if (!rc && o.from_runs) {
		rc = eval_runs(&o, &err);
		return rc ? cli_fail("eval", &err) : 0;
	}
	/* With a model: open everything, sample and grade, write what was asked for, print. */
	if (!rc) rc = eval_open(&e, &err);
	if (!rc) rc = eval_answers(&e, &err);
	if (!rc) rc = eval_midend(&e, &err);
	if (!rc) rc = eval_bests(&e, &err);
	if (!rc) rc = eval_write(&e, &err);
	if (!rc && !o.judge)
		printf("%s: answers to %zu %s, not judged\n", o.out, e.prompts.count,
			plural((int64_t)e.prompts.count, "task", "tasks"));
	else if (!rc) rc = eval_report(&e, &err);
	/* What a command has answered is not lost with the rest. */
	if (!rc) eval_kept_remove(&e);
	else if (e.kept) log_info("%s: the answers so far; the same command goes on behind them", e.kept);
	else if (o.policy.policy_command && e.episodes) log_info("with --out FILE the answers so far would have been kept");
	free(e.kept);
	eval_release(&e);
	return rc ? cli_fail("eval", &err) : 0;
}
