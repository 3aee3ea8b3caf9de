/* hone pairs: supervised data. `synth` writes reference answers (plan and code) for composed tasks
 * in several styles and admits those that the verifier calls genuine; `check` grades a random share
 * of such a file again. Rows (JSONL, gzip when the name ends in .gz): the task's fields, prompt,
 * completion, style, and for the midend kernel and profile. */
#include "cli/cli.h"
#include "agent/agent.h"
#include "base/base.h"
#include "rl/rl.h"
#include "store/store.h"
#include "task/task.h"
#include "text/text.h"
#include "verify/verdict.h"
#include "verify/verify.h"

#include <math.h>
#include <stdlib.h>

/* Values of the options below, whose help says what each is. */
struct pairs_options {
	const char *tasks;
	const char *out;
	const char *pairs;
	const char *stage;
	const char *form;
	const char *prompt_template;
	const char *chat_template;
	const char *chat_date;
	const char *precision;
	const char *store;
	const char *verify_device;
	bool verify_profile;
	const char *gpu;
	const char *cost_size;
	int64_t styles;
	int64_t style;
	int64_t choices;
	int64_t seed;
	int64_t verify_threads;
	int64_t num_correct_trials;
	double fraction;
};

#define O(type, field, help, choices) { #field, type, offsetof(struct pairs_options, field), help, choices }
static const struct option_def defs[] = {
	O(OPTION_STR, tasks, "synth: composed tasks (`hone tasks synth`)", NULL),
	O(OPTION_STR, out, "synth: file to write (.jsonl or .jsonl.gz)", NULL),
	O(OPTION_STR, pairs, "check: file to check", NULL),
	O(OPTION_FLOAT, fraction, "check: share of rows graded again", "1e-9 to 1"),
	O(OPTION_STR, stage, "agent", "frontend|midend"),
	O(OPTION_STR, form,
		"synth: kernels as Python modules, or as answers in IR: what the compiler made of these modules, judged again "
		"as it is",
		"python|ir"),
	O(OPTION_STR, prompt_template, "template file", NULL),
	O(OPTION_STR, chat_template, "synth: chat form of the prompts, that of the model to train", CHAT_TEMPLATE_NAMES),
	O(OPTION_STR, chat_date,
		"synth: of chat templates that write the date into the prompt, as \"26 Jul 2024\", which is the default", NULL),
	O(OPTION_STR, precision, "fp32 rule", "strict|tf32"),
	O(OPTION_INT, styles, "synth: answers per task, of different styles; above 1 rows are named TASK-sSTYLE",
		"1 to 1024"),
	O(OPTION_INT, style, "synth: first style of every task; -1: one drawn for each", NULL),
	O(OPTION_INT, choices,
		"synth: answers of so many of the choices that a task's sizes decide between, the best first; above 1 rows are "
		"named TASK-cCHOICE",
		"1 to 16"),
	O(OPTION_INT, seed, "of style and row choice, and of hidden inputs", NULL),
	O(OPTION_INT, verify_threads, "processors that grading keeps busy; 0: cores", "0 to 4096"),
	O(OPTION_STR, verify_device, "cpu: the vm alone; cuda, cuda:N, cuda:N,M: with those GPUs", NULL),
	O(OPTION_BOOL, verify_profile,
		"on --verify_device cuda, right kernels run under Nsight Compute too: the mid-end's prompt shows what its "
		"counters say",
		NULL),
	O(OPTION_STR, gpu, "card that kernels are compiled for; empty: the device's own, else H200", NULL),
	O(OPTION_INT, num_correct_trials, "trials per verdict; 0: default", "0 to 32"),
	O(OPTION_STR, cost_size,
		"sizes of the predicted time: judged, stock, or elements that the largest input has at least", NULL),
	O(OPTION_STR, store, "SQLite file for caches", NULL),
	OPTIONS_NEED("tasks out form prompt_template chat_template chat_date styles style choices", "@synth"),
	OPTIONS_NEED("pairs fraction", "@check"),
	OPTIONS_NEED("verify_profile", "verify_device=cuda*"),
};

struct pair {
	const struct task *task;
	int style;  /* of the answer */
	int choice; /* which of the launch parameters that the task's sizes choose among; 0: the best */
	struct str plan;
	struct str code;
	struct str slow;        /* mid-end: the kernel that is to be made faster */
	struct verdict verdict; /* of code */
	struct verdict profile; /* of slow */
	struct str code_ir;     /* with --form ir: what the compiler makes of code and slow */
	struct str slow_ir;
};

struct pairs {
	const struct pairs_options *o;
	const struct chat_template *chat;
	enum agent_stage stage;
	struct task_set tasks;
	struct pair *rows;
	size_t count;
	size_t rows_read; /* check: rows of the file so far, drawn or not */
	struct store *store;
	struct verifier *verifier;
	json_t *rejected; /* reason -> count */
};

static int open_verifier(struct pairs *p, struct err *err)
{
	int rc = p->o->store ? store_open(p->o->store, &p->store, err) : 0;
	struct verify_options v = {
		.device = p->o->verify_device,
		.profile = p->o->verify_profile,
		.gpu = p->o->gpu,
		.cost_size = p->o->cost_size,
		.precision = p->o->precision,
		.threads = (int)p->o->verify_threads,
		.num_correct_trials = (int)p->o->num_correct_trials,
		.seed = (uint64_t)p->o->seed,
		.store = p->store,
	};
	return rc ? rc : verifier_create(&v, &p->verifier, err);
}

static void pairs_release(struct pairs *p)
{
	verifier_free(p->verifier);
	store_close(p->store);
	for (size_t i = 0; i < p->count; i++) {
		str_release(&p->rows[i].plan);
		str_release(&p->rows[i].code);
		str_release(&p->rows[i].slow);
		str_release(&p->rows[i].code_ir);
		str_release(&p->rows[i].slow_ir);
	}
	free(p->rows);
	task_set_release(&p->tasks);
	json_decref(p->rejected);
}

/* ---- synth ---- */

/* Unless --style says where, styles of a task start at a different one each, so that few styles per
 * task still cover all of them over the set. */
static int row_make(struct pairs *p, struct pair *row, const struct task *t, int k, int choice, struct err *err)
{
	int styles = task_answer_styles();
	uint32_t first = p->o->style >= 0 ? (uint32_t)p->o->style : rng_u32((uint64_t)p->o->seed, 0x7374796c65, t->seed);
	struct str ignored = {0};
	*row = (struct pair){.task = t, .style = (int)((first + (uint32_t)k) % (uint32_t)styles), .choice = choice};
	int rc = task_answer_choice(t, row->style, choice, &row->plan, &row->code, err);
	if (!rc && p->stage == AGENT_MIDEND) rc = task_answer_slow(t, row->style, &ignored, &row->slow, err);
	str_release(&ignored);
	return rc;
}

static int rows_make(struct pairs *p, struct err *err)
{
	size_t styles = (size_t)MIN(p->o->styles, task_answer_styles());
	int rc = 0;
	size_t per_task = size_mul(styles, (size_t)p->o->choices);
	p->rows = xcalloc(size_mul(p->tasks.count, per_task), sizeof *p->rows);
	for (size_t i = 0; !rc && i < p->tasks.count; i++)
		for (size_t k = 0; !rc && k < per_task; k++) {
			int choice = (int)(k / styles);
			rc = row_make(p, &p->rows[p->count], &p->tasks.tasks[i], (int)(k % styles), choice, err);
			/* Tasks have one choice and more; a row whose choice there is not is not made. */
			if (rc == ERR_RANGE && choice > 0) {
				rc = 0;
				continue;
			}
			p->count++;
			if (rc) err_prefix(err, "task %s", p->tasks.tasks[i].name);
		}
	return rc;
}

/* Ids: 2 i for the answer of row i, 2 i + 1 for its slow kernel. wants_ir: of what is genuine
 * the answer in IR too. */
static int rows_grade(struct pairs *p, bool wants_ir, struct err *err)
{
	int rc = 0;
	size_t waiting = 0, next = 0, finished = 0, ahead = 64;
	struct progress bar;
	progress_begin(&bar, "pairs", "rows", (int64_t)p->count);
	while (!rc && (next < p->count || waiting)) {
		/* Submitting never blocks: the limit on waiting ones keeps the verifier's queue short. */
		for (; !rc && next < p->count && waiting < ahead; next++) {
			struct pair *row = &p->rows[next];
			struct verify_request r = {.task = row->task,
				.source = row->code.data,
				.source_len = row->code.len,
				.ir_form = wants_ir ? &row->code_ir : NULL,
				.id = 2 * (int64_t)next};
			rc = verifier_submit(p->verifier, &r, err);
			waiting++;
			/* The midend's prompt shows a slow kernel with its profile, so that one is graded as
			 * well. */
			if (rc || p->stage != AGENT_MIDEND) continue;
			r = (struct verify_request){.task = row->task,
				.source = row->slow.data,
				.source_len = row->slow.len,
				.ir_form = wants_ir ? &row->slow_ir : NULL,
				.id = 2 * (int64_t)next + 1};
			rc = verifier_submit(p->verifier, &r, err);
			waiting++;
		}
		int64_t id;
		struct verdict v;
		if (!rc) rc = verifier_collect(p->verifier, -1, &id, &v, err);
		if (rc) break;
		waiting--;
		/* Verdicts come as they finish, and the id says whose it is. A row is counted by its
		 * answer alone. */
		*(id & 1 ? &p->rows[id / 2].profile : &p->rows[id / 2].verdict) = v;
		if (!(id & 1)) progress_update(&bar, (int64_t)++finished, NULL);
	}
	progress_end(&bar);
	return rc;
}

static void reject(struct pairs *p, const char *what, const struct pair *row, const struct verdict *v)
{
	char key[128];
	snprintf(key, sizeof key, "%s %s/%s", what, verdict_class_name(v->class), v->reason);
	if (!json_object_get(p->rejected, key))
		log_warn("%s style %d: %s: %s", row->task->name, row->style, key, v->detail);
	json_object_set_new(p->rejected, key, json_integer(json_integer_value(json_object_get(p->rejected, key)) + 1));
}

static bool is_admitted(struct pairs *p, const struct pair *row)
{
	if (row->verdict.class != VERDICT_GENUINE) {
		reject(p, "answer", row, &row->verdict);
		return false;
	}
	if (p->stage != AGENT_MIDEND) return true;
	if (row->profile.class != VERDICT_GENUINE) {
		reject(p, "slow kernel", row, &row->profile);
		return false;
	}
	if (row->verdict.cost_s < row->profile.cost_s) return true;
	reject(p, "not cheaper", row, &row->verdict);
	return false;
}

/* Each admitted row's kernels become answers in IR, and these are judged again: what the compiler
 * made of a right module is an answer only where it is right by itself. Rows that have none are
 * left out and counted. */
static int rows_to_ir(struct pairs *p, struct err *err)
{
	size_t kept = 0;
	for (size_t i = 0; i < p->count; i++) {
		struct pair *row = &p->rows[i], out = *row;
		bool is_midend = p->stage == AGENT_MIDEND;
		bool has_ir = row->code_ir.len && (!is_midend || row->slow_ir.len);
		bool is_kept = is_admitted(p, row);
		if (is_kept && !has_ir) reject(p, "no answer in IR", row, &row->verdict);
		/* The texts in IR take the modules' places. */
		str_release(&row->code);
		str_release(&row->slow);
		out.code = row->code_ir;
		out.slow = row->slow_ir;
		out.code_ir = out.slow_ir = (struct str){0};
		if (!is_kept || !has_ir) {
			str_release(&out.code);
			str_release(&out.slow);
			str_release(&out.plan);
			continue;
		}
		p->rows[kept++] = out;
	}
	p->count = kept;
	return kept ? rows_grade(p, false, err) : 0;
}

static json_t *row_json(const struct pairs *p, const struct pair *row, const char *template_text, struct err *err)
{
	const struct task *t = row->task;
	/* The prompt as the model will see it, and the answer behind it: plan, then code. */
	struct prompt_input in = {.task = t,
		.kernel = row->slow.data,
		.profile = row->slow.data ? &row->profile : NULL,
		.precision = p->o->precision};
	struct str body = {0}, completion = {0};
	struct chat_text prompt = {0};
	int rc = prompt_render(template_text, p->o->prompt_template, &in, &body, err);
	struct chat_message m = {"user", body.data};
	if (!rc) rc = chat_render(p->chat, p->o->chat_date, &m, 1, true, &prompt, err);
	/* A file of pairs is a task set too, and names are unique in one. */
	struct str name = {0};
	str_puts(&name, t->name);
	if (p->o->styles > 1) str_printf(&name, "-s%d", row->style);
	if (p->o->choices > 1) str_printf(&name, "-c%d", row->choice);
	str_printf(&completion, "%s\n```%s\n%s```\n", row->plan.data, strcmp(p->o->form, "ir") ? "python" : "ttir",
		row->code.data);
	/* One row: the task, so that it can be graded again, the pair, and which variant it is. */
	json_t *o = rc
		? NULL
		: json_pack("{s:s, s:s, s:s, s:s, s:i, s:I, s:s, s:s, s:i, s:i}", "name", name.data, "source", t->source,
			  "structure", t->structure, "split", t->split, "level", t->level, "seed", (json_int_t)t->seed, "prompt",
			  prompt.text.data, "completion", completion.data, "style", row->style, "choice", row->choice);
	if (o && !isnan(row->verdict.cost_s)) json_object_set_new(o, "cost_s", json_real(row->verdict.cost_s));
	if (o && *t->rung) json_object_set_new(o, "rung", json_string(t->rung));
	/* Of the stages that begin with a kernel: the kernel, and what it costs. */
	if (o && row->slow.data) {
		json_object_set_new(o, "kernel", json_string(row->slow.data));
		json_object_set_new(o, "profile", verdict_json(&row->profile));
	}
	str_release(&name);
	str_release(&body);
	chat_text_release(&prompt);
	str_release(&completion);
	return o;
}

static int rows_text(struct pairs *p, const char *template_text, struct str *text, int *admitted, struct err *err)
{
	int rc = 0;
	*admitted = 0;
	for (size_t i = 0; !rc && i < p->count; i++) {
		if (!is_admitted(p, &p->rows[i])) continue;
		json_t *o = row_json(p, &p->rows[i], template_text, err);
		if (!o) {
			rc = err->code;
			break;
		}
		jsonl_put(text, o);
		json_decref(o);
		++*admitted;
	}
	return rc;
}

/* Where several choices of a task were admitted and all have a price: how often the best by the
 * family's rule is the cheapest. Rows of one task follow one another. */
static void print_prices(const struct pairs *p)
{
	int tasks = 0, best = 0;
	double lost = 0.0;
	for (size_t i = 0, end; i < p->count; i = end) {
		/* The rows of one task in the first row's style: what its first choice costs, and what the
		 * cheapest does. One without a price leaves nothing to compare. */
		double first = NAN, least = INFINITY;
		int priced = 0;
		bool whole = true;
		for (end = i; end < p->count && p->rows[end].task == p->rows[i].task; end++) {
			const struct pair *row = &p->rows[end];
			if (row->style != p->rows[i].style) continue;
			double cost = row->verdict.class == VERDICT_GENUINE ? row->verdict.cost_s : NAN;
			whole &= !isnan(cost);
			priced++;
			if (row->choice == 0) first = cost;
			least = fmin(least, cost);
		}
		/* A task with one choice says nothing about the rule. */
		if (!whole || priced < 2) continue;
		tasks++;
		best += first <= least;
		lost += log(first / least);
	}
	/* Ratios multiply, so their mean is the geometric one. */
	if (tasks)
		printf("choices   the first is the cheapest of %d of %d tasks; it costs %.2f times the cheapest (geometric "
			   "mean)\n",
			best, tasks, exp(lost / tasks));
}

static void print_rejected(const struct pairs *p)
{
	const char *key;
	json_t *value;
	json_object_foreach(p->rejected, key, value)
		printf("rejected  %-40s %lld\n", key, (long long)json_integer_value(value));
}

/* Where the time went: of all that was graded, not of what a store knew. */
static void print_times(struct pairs *p)
{
	struct verify_times t;
	verifier_times(p->verifier, &t);
	if (!t.count) return;
	printf("verdicts  %lld made; processor time of each, ms:\n", (long long)t.count);
	for (int i = 0; i < VERIFY_STEP_COUNT; i++)
		printf("  %-24s %8.1f\n", verify_step_name((enum verify_step)i), 1e3 * t.cpu_s[i] / (double)t.count);
}

static int pairs_synth(struct pairs *p, struct err *err)
{
	struct str text = {0}, template_text = {0};
	int admitted = 0;
	bool is_ir = !strcmp(p->o->form, "ir");
	if (!p->o->tasks || !p->o->out) return err_set(err, ERR_USAGE, "synth needs --tasks and --out");
	/* What can be wrong with the request is found out before a verifier is started. */
	int rc = chat_template_find(p->o->chat_template, NULL, &p->chat, err);
	if (!rc) rc = chat_date_check(p->chat, p->o->chat_date, err);
	if (!rc) rc = cli_out_check(p->o->out, CLI_OUT_FILE, err);
	if (!rc) rc = agent_template_read(p->o->stage, p->o->prompt_template, &template_text, err);
	if (!rc) rc = task_set_load(p->o->tasks, &p->tasks, err);
	if (!rc) rc = rows_make(p, err);
	if (!rc) rc = open_verifier(p, err);
	/* An answer in IR is made of a Python answer that was admitted, and admitted again itself. */
	if (!rc) rc = rows_grade(p, is_ir, err);
	if (!rc && is_ir) rc = rows_to_ir(p, err);
	if (!rc) rc = rows_text(p, template_text.data, &text, &admitted, err);
	if (!rc && admitted) rc = jsonl_write(p->o->out, &text, err);
	str_release(&text);
	str_release(&template_text);
	if (rc) return rc;
	/* What was left out is told also where nothing was written. */
	printf("%s: %d of %zu answers admitted\n", p->o->out, admitted, p->count);
	print_prices(p);
	print_rejected(p);
	print_times(p);
	return admitted
		? 0
		: err_set(err, ERR_MISMATCH, "%s: not written, the verifier admitted none of %zu answers", p->o->out, p->count);
}

/* ---- check ---- */

/* The code of a drawn row's completion, by the extractor that answers of models go through. Rows
 * and tasks of one file are in step. */
static int check_row(void *ctx, const json_t *o, const char *where, struct err *err)
{
	struct pairs *p = ctx;
	const char *completion;
	if (p->rows_read == p->tasks.count) return err_set(err, ERR_FORMAT, "%s: the file grew while it was read", where);
	const struct task *task = &p->tasks.tasks[p->rows_read++];
	if (rng_uniform((uint64_t)p->o->seed, 0x636865636b, p->rows_read) >= p->o->fraction) return 0;
	int rc = json_get_str(o, where, "completion", &completion, err);
	if (!rc) {
		struct answer a = answer_parse(completion, strlen(completion));
		struct pair *row = &p->rows[p->count];
		if (!a.well_formed) rc = err_set(err, ERR_FORMAT, "%s: completion: %s", where, a.problem);
		else {
			*row = (struct pair){.task = task};
			str_append(&row->code, completion + a.code_begin, a.code_end - a.code_begin);
			p->count++;
		}
	}
	return rc;
}

static int check_rows(struct pairs *p, struct err *err)
{
	p->rows = xcalloc(p->tasks.count, sizeof *p->rows);
	int rc = jsonl_each(p->o->pairs, JSONL_LINE_MAX, check_row, p, err);
	if (!rc && p->count == 0)
		rc = err_set(err, ERR_RANGE, "%s: --fraction %g drew none of %zu rows; raise it", p->o->pairs, p->o->fraction,
			p->tasks.count);
	return rc;
}

static int pairs_check(struct pairs *p, struct err *err)
{
	if (!p->o->pairs) return err_set(err, ERR_USAGE, "check needs --pairs");
	int rc = task_set_load(p->o->pairs, &p->tasks, err), genuine = 0;
	if (!rc) rc = check_rows(p, err);
	p->stage = AGENT_FRONTEND; /* one answer a row is graded */
	if (!rc) rc = open_verifier(p, err);
	if (!rc) rc = rows_grade(p, false, err);
	if (rc) return rc;
	for (size_t i = 0; i < p->count; i++) genuine += is_admitted(p, &p->rows[i]);
	printf(
		"%s: %d of %zu answers checked again are genuine (%zu rows)\n", p->o->pairs, genuine, p->count, p->tasks.count);
	print_rejected(p);
	return (size_t)genuine == p->count
		? 0
		: err_set(err, ERR_MISMATCH, "%s: %zu answers are not genuine; write the file anew with `hone pairs synth`",
			  p->o->pairs, p->count - (size_t)genuine);
}

static const struct {
	const char *name;
	int (*run)(struct pairs *, struct err *);
} verbs[] = {{"synth", pairs_synth}, {"check", pairs_check}};

int cmd_pairs(int argc, char **argv)
{
	struct pairs_options o = {
		.cost_size = "judged",
		.stage = "frontend",
		.form = "python",
		.prompt_template = "recipes/prompts/frontend.txt",
		.chat_template = "qwen3",
		.verify_device = "cpu",
		.precision = "strict",
		.styles = 1,
		.choices = 1,
		.style = -1,
		.seed = 42,
		.fraction = 0.05,
	};
	struct err err = {0};
	int npos,
		rc = options_parse(
			"pairs synth|check", "write or check supervised pairs", defs, ARRAY_LEN(defs), &o, argc, argv, &npos, &err);
	if (rc == 1) return 0;
	struct pairs p = {.o = &o, .rejected = json_object()};
	if (!rc && npos != 1) rc = err_set(&err, ERR_USAGE, "expected one of synth, check");
	/* The number of styles is the composer's, so the options' table cannot state this range. */
	if (!rc && (o.style < -1 || o.style >= task_answer_styles()))
		rc = err_set(&err, ERR_USAGE, "--style %lld: expected -1 to %d", (long long)o.style, task_answer_styles() - 1);
	if (!rc) rc = agent_stage_from_name(o.stage, &p.stage, &err);
	/* The verb decides which of the two commands runs; each checks the options that it needs. */
	size_t i = 0;
	while (!rc && i < ARRAY_LEN(verbs) && strcmp(verbs[i].name, argv[1])) i++;
	if (!rc && i == ARRAY_LEN(verbs)) rc = err_set(&err, ERR_USAGE, "\"%s\": expected synth or check", argv[1]);
	if (!rc) rc = verbs[i].run(&p, &err);
	pairs_release(&p);
	return rc ? cli_fail("pairs", &err) : 0;
}
