/* hone tune: the backend. A genuine kernel whose text declares a space of launch parameters
 * (agent.h), a card, a number of verdicts; out comes the fastest genuine point that was found,
 * by the cost model of that card, or by that card itself (--verify_device). Points are drawn by
 * chance without repetition (--search plain), or named by a policy that is told what was tried
 * (--search policy); both begin at the kernel's own point and have as many verdicts. What a search
 * found is kept in the store, for the same kernel, card and settings. */
#include "cli/cli.h"
#include "agent/agent.h"
#include "base/base.h"
#include "cost/cost.h"
#include "infer/infer.h"
#include "policy/policy.h"
#include "store/store.h"
#include "task/task.h"
#include "text/text.h"
#include "verify/verdict.h"
#include "verify/verify.h"

#include <stdlib.h>

struct tune_options {
	struct policy_options policy;
	const char *task;
	const char *candidate;
	const char *search;
	const char *prompt_template;
	const char *precision;
	const char *verify_device;
	const char *gpu;
	const char *cost_size;
	const char *out;
	const char *store;
	int64_t verdicts;
	int64_t seed;
	int64_t num_correct_trials;
	int64_t max_completion_length;
	double temperature;
	bool json;
};

#define O(type, field, help, choices) { #field, type, offsetof(struct tune_options, field), help, choices }
static const struct option_def defs[] = {
	O(OPTION_STR, task, "file of one task", NULL),
	O(OPTION_STR, candidate, "genuine kernel whose text declares its space: lines \"# tune: NAME = 64 | 128\"", NULL),
	O(OPTION_STR, search, "points by chance, or named by --model, --policy_command or --policy_answers",
		"plain|policy"),
	POLICY_MODEL_OPTION(tune_options),
	POLICY_ADAPTER_OPTION(tune_options, "PEFT adapter folder"),
	POLICY_CHAT_OPTIONS(tune_options),
	POLICY_DEVICE_OPTIONS(tune_options),
	O(OPTION_INT, max_completion_length, "tokens of an answer, at most; a policy outside is told it", "1 to 16777216"),
	O(OPTION_FLOAT, temperature, "of answers; 0: greedy; a policy outside is told it", "0 to 1000"),
	POLICY_OUTSIDE_OPTIONS(tune_options),
	O(OPTION_STR, prompt_template, "template file of --search policy", NULL),
	O(OPTION_INT, verdicts, "points that are judged, the kernel's own among them", "1 to 100000"),
	O(OPTION_STR, precision, "fp32 rule", "strict|tf32"),
	O(OPTION_STR, verify_device,
		"cpu: times are the cost model's; cuda, cuda:N: points are judged on that GPU too, and its times count", NULL),
	O(OPTION_STR, gpu,
		"card that kernels are compiled for and timed on by the cost model; empty: the device's own, else H200", NULL),
	O(OPTION_STR, cost_size,
		"sizes of the predicted time: judged, stock, or elements that the largest input has at least", NULL),
	O(OPTION_INT, num_correct_trials, "trials per verdict; 0: default", "0 to 32"),
	O(OPTION_INT, seed, "of the points that are drawn and of hidden inputs", NULL),
	O(OPTION_STR, out, "write the fastest kernel here", NULL),
	O(OPTION_STR, store, "SQLite file for caches: verdicts, and what a search found", NULL),
	O(OPTION_BOOL, json, "print one JSON object", NULL),
	OPTIONS_NEED("adapter chat_template chat_date device cuda_libs memory cuda_card threads max_completion_length "
				 "temperature policy_roles policy_timeout policy_requests prompt_template",
		"search=policy"),
	OPTIONS_NEED("temperature max_completion_length", "!policy_answers"),
};

struct tune {
	const struct tune_options *o;
	struct task_set tasks;
	struct str source;
	struct str template_text;
	struct tune_space space;
	const struct vm_gpu *gpu; /* the verifier's */
	struct outside *outside;  /* who names points; NULL: the model, or nobody */
	struct policy policy;     /* --model's */
	struct store *store;
	struct verifier *verifier;
	bool *seen;       /* (points) */
	json_t *tried;    /* rows: point, verdict, cost_s, by */
	struct str lines; /* the same for a prompt */
	struct verdict given;
	double given_s;
	int64_t best; /* -1: none */
	double best_s;
	int64_t asked; /* answers of the policy; of them without a new point: */
	int64_t without;
};

/* ---- points ---- */

/* Of a genuine point: on a GPU what was measured, else what the cost model predicts. 0 or
 * NaN: it has no such time. */
static double point_time(const struct tune *t, const struct verdict *v)
{
	return verifier_has_gpu(t->verifier) ? v->device.time_s : v->cost_s;
}

static int point_judge(struct tune *t, int64_t point, const char *by, struct err *err)
{
	struct str text = {0}, name = {0};
	struct verdict v;
	int64_t id;
	tune_render(t->source.data, &t->space, point, &text);
	tune_point_put(&t->space, point, &name);
	struct verify_request r = {.task = &t->tasks.tasks[0], .source = text.data, .source_len = text.len, .id = point};
	int rc = verifier_submit(t->verifier, &r, err);
	if (!rc) rc = verifier_collect(t->verifier, -1, &id, &v, err);
	if (!rc && v.class == VERDICT_INFRA) rc = err_set(err, ERR_INFRA, "%s: no verdict: %s", name.data, v.detail);
	if (!rc) {
		/* What it costs; a point that is not genuine has its reason in place of a time. */
		double time_s = point_time(t, &v);
		bool is_timed = v.class == VERDICT_GENUINE && time_s > 0;
		const char *why = v.class == VERDICT_GENUINE ? "no time" : v.reason;
		t->seen[point] = true;
		if (point == t->space.given) {
			t->given = v;
			t->given_s = time_s;
		}
		if (is_timed && (t->best < 0 || time_s < t->best_s)) {
			t->best = point;
			t->best_s = time_s;
		}
		if (is_timed) str_printf(&t->lines, "%s: %.3f us\n", name.data, time_s * 1e6);
		else str_printf(&t->lines, "%s: %s (%s)\n", name.data, verdict_class_name(v.class), why);
		json_array_append_new(t->tried,
			json_pack("{s:s, s:s, s:s, s:o, s:s}", "point", name.data, "verdict", verdict_class_name(v.class), "reason",
				is_timed ? v.reason : why, "cost_s", is_timed ? json_real(time_s) : json_null(), "by", by));
	}
	str_release(&text);
	str_release(&name);
	return rc;
}

/* The next of a permutation of all points that is new; -1 when all were judged. */
static int64_t point_draw(const struct tune *t, int64_t *at, const int64_t *order)
{
	while (*at < t->space.points && t->seen[order[*at]]) ++*at;
	return *at < t->space.points ? order[*at] : -1;
}

static int64_t *points_shuffle(const struct tune *t)
{
	int64_t *order = xmalloc(size_mul((size_t)t->space.points, sizeof *order));
	struct rng rng = {.seed = (uint64_t)t->o->seed, .stream = 0x74756e65};
	for (int64_t i = 0; i < t->space.points; i++) order[i] = i;
	rng_shuffle(&rng, order, (size_t)t->space.points, sizeof *order);
	return order;
}

/* ---- the policy ---- */

static void space_put(const struct tune *t, struct str *out)
{
	for (int i = 0; i < t->space.count; i++) {
		const struct tune_knob *k = &t->space.knobs[i];
		str_printf(out, "%s:", k->name);
		for (int v = 0; v < k->count; v++) str_printf(out, " %lld", (long long)k->values[v]);
		str_putc(out, '\n');
	}
}

static void card_put(const struct vm_gpu *g, struct str *out)
{
	str_printf(out,
		"%s: %d SMs of %d registers, %d threads and %lld KiB of shared memory, %.1f GHz, %.2f TB/s to memory, %lld MiB "
		"of L2.",
		g->name, g->sms, g->registers, g->threads, (long long)(g->shared_bytes >> 10), g->clock_hz * 1e-9,
		g->dram_bytes_s * 1e-12, (long long)(g->l2_bytes >> 20));
}

/* One question at a time: each answer is judged before the next is asked for. *text is
 * NULL where there is none. */
static int outside_ask(struct tune *t, int64_t number, const struct chat_message *m, char **text, struct err *err)
{
	struct outside_answer a = {0};
	bool is_there = false;
	struct outside_request q = {.id = number,
		.task = t->tasks.tasks[0].name,
		.stage = AGENT_BACKEND,
		.sample = (int)number,
		.messages = m,
		.count = 1,
		.temperature = t->o->temperature,
		.max_tokens = t->o->max_completion_length,
		.seed = (uint64_t)t->o->seed + (uint64_t)number};
	int rc = outside_submit(t->outside, &q, err);
	if (!rc) rc = outside_take(t->outside, -1, &is_there, &a, err);
	if (a.is_broken) {
		free(a.text);
		a.text = NULL;
	}
	*text = a.text;
	return rc;
}

/* The model's answer. Each question is longer than the one before, so each has
 * an engine of its size. */
static int model_ask(struct tune *t, int64_t number, const struct chat_message *m, char **text, struct err *err)
{
	struct policy *p = &t->policy;
	struct chat_text chat = {0};
	struct ids prompt = {0};
	struct engine *engine = NULL;
	/* The question as tokens; it and the longest answer have to fit the model's positions. */
	int rc = chat_render(p->chat, p->chat_date, m, 1, true, &chat, err), active = 1;
	if (!rc) rc = chat_encode(p->tokenizer, &chat, &prompt, err);
	int64_t wanted = (int64_t)prompt.count + t->o->max_completion_length;
	if (!rc && wanted > p->config.max_position_embeddings)
		rc = err_set(err, ERR_LIMIT,
			"%zu tokens of the prompt and --max_completion_length %lld are more than the model's %d positions; lower "
			"it or --verdicts",
			prompt.count, (long long)t->o->max_completion_length, p->config.max_position_embeddings);
	/* One sequence. Each question has a seed of its own, so that equal questions
	 * may get other answers. */
	struct engine_options eo = {.max_sequences = 1, .max_context = (int)wanted};
	if (!rc) rc = engine_create(p->model, &eo, &engine, err);
	struct request r = {.prompt = prompt.data,
		.nprompt = (int)prompt.count,
		.num_samples = 1,
		.max_new_tokens = (int)t->o->max_completion_length,
		.sampling = {.temperature = (float)t->o->temperature,
			.top_p = 1,
			.seed = (uint64_t)t->o->seed + (uint64_t)number},
		.stop_ids = &p->stop_id,
		.nstop = p->stop_id >= 0,
		.adapter = p->adapter};
	if (!rc) rc = engine_submit(engine, &r, err);
	while (!rc && active) engine_step(engine, &active);
	/* One answer comes: one request for one sample was made. */
	for (struct completion c; !rc && engine_take(engine, &c);) {
		struct str answer = {0};
		rc = completion_check(&c, err);
		tokenizer_decode(p->tokenizer, c.tokens, (size_t)c.count, true, &answer);
		*text = answer.data;
		completion_release(&c);
	}
	engine_free(engine);
	ids_release(&prompt);
	chat_text_release(&chat);
	return rc;
}

/* Asks for a point; *point is -1 where the answer names none that is new. */
static int policy_ask(struct tune *t, int64_t number, int64_t *point, struct err *err)
{
	struct str prompt = {0}, space = {0}, card = {0};
	char *text = NULL;
	/* What the policy is shown: the kernel with its cost, the card's facts, the
	 * space, and what was tried. */
	space_put(t, &space);
	card_put(t->gpu, &card);
	struct prompt_input in = {.task = &t->tasks.tasks[0],
		.kernel = t->source.data,
		.profile = &t->given,
		.precision = t->o->precision,
		.card = card.data,
		.space = space.data,
		.tried = t->lines.data};
	int rc = prompt_render(t->template_text.data, t->o->prompt_template, &in, &prompt, err);
	struct chat_message m = {"user", prompt.data};
	if (!rc) rc = t->outside ? outside_ask(t, number, &m, &text, err) : model_ask(t, number, &m, &text, err);
	/* An answer that names no point, or one that was tried, costs a question and no verdict. */
	*point = !rc && text ? tune_point_parse(&t->space, text) : -1;
	if (*point >= 0 && t->seen[*point]) *point = -1;
	t->asked += !rc;
	t->without += !rc && *point < 0;
	free(text);
	str_release(&prompt);
	str_release(&space);
	str_release(&card);
	return rc;
}

/* ---- the search ---- */

static int search_run(struct tune *t, struct err *err)
{
	int64_t at = 0, most = MIN(t->o->verdicts, t->space.points), *order = points_shuffle(t);
	t->best = -1;
	int rc = point_judge(t, t->space.given, "given", err);
	if (!rc && t->best < 0)
		rc = err_set(err, ERR_MISMATCH, "%s is %s (%s%s%s): the backend begins with a genuine kernel that has a time",
			t->o->candidate, verdict_class_name(t->given.class), t->given.reason,
			*t->given.device.untimed ? "; not timed: " : "", t->given.device.untimed);
	for (int64_t k = 1; !rc && k < most; k++) {
		int64_t point = -1;
		/* An answer without a new point costs no verdict: one is drawn by chance in its place. */
		if (t->outside || t->policy.model) rc = policy_ask(t, k - 1, &point, err);
		const char *by = point >= 0 ? "policy" : "chance";
		if (point < 0) point = point_draw(t, &at, order);
		if (!rc) rc = point_judge(t, point, by, err);
	}
	free(order);
	return rc;
}

static json_t *result_json(const struct tune *t)
{
	struct str given = {0}, best = {0};
	tune_point_put(&t->space, t->space.given, &given);
	tune_point_put(&t->space, t->best, &best);
	json_t *j = json_pack("{s:s, s:s, s:s, s:s, s:s, s:f, s:f, s:f, s:I, s:I, s:I, s:O}", "gpu", t->gpu->name, "search",
		t->o->search, "times", verifier_has_gpu(t->verifier) ? "measured" : "predicted", "given", given.data, "best",
		best.data, "given_s", t->given_s, "best_s", t->best_s, "speedup", t->given_s / t->best_s, "points",
		(json_int_t)t->space.points, "asked", (json_int_t)t->asked, "without_point", (json_int_t)t->without, "tried",
		t->tried);
	str_release(&given);
	str_release(&best);
	return j;
}

/* Everything that a search's result depends on. */
static struct sha256_hex result_key(const struct tune *t, const char *versions)
{
	const struct tune_options *o = t->o;
	const struct {
		const char *text;
	} texts[] = {{versions}, {t->tasks.tasks[0].source}, {t->source.data}, {t->gpu->name}, {o->verify_device},
		{o->search}, {o->precision}, {o->cost_size}, {o->policy.policy_command ? o->policy.policy_command : ""},
		{o->policy.policy_answers ? o->policy.policy_answers : ""}, {o->policy.model ? o->policy.model : ""},
		{o->policy.adapter ? o->policy.adapter : ""}, {o->policy.policy_roles ? o->policy.policy_roles : ""},
		{o->policy.chat_template}, {o->policy.chat_date ? o->policy.chat_date : ""},
		{t->template_text.data ? t->template_text.data : ""}};
	struct slice parts[ARRAY_LEN(texts) + 1];
	const int64_t numbers[] = {
		o->verdicts, o->seed, o->num_correct_trials, o->max_completion_length, (int64_t)(o->temperature * 1e6)};
	for (size_t i = 0; i < ARRAY_LEN(texts); i++) parts[i] = (struct slice){texts[i].text, strlen(texts[i].text)};
	parts[ARRAY_LEN(texts)] = (struct slice){(const char *)numbers, sizeof numbers};
	return hash_parts(parts, ARRAY_LEN(parts));
}

/* What the store has of this search; else the search. */
static int result_get(struct tune *t, json_t **out, struct err *err)
{
	const char *versions = "";
	int rc = t->store ? verifier_versions(t->verifier, &versions, err) : 0;
	if (rc) return rc;
	struct sha256_hex key = result_key(t, versions);
	struct str kept = {0};
	struct err absent;
	rc = t->store ? store_get(t->store, "tune", key.text, &kept, &absent) : ERR_NOT_FOUND;
	if (!rc) {
		rc = json_parse(kept.data, kept.len, "a search in the store", out, err);
		if (!rc) json_object_set_new(*out, "cached", json_true());
	} else if (!(rc = search_run(t, err))) {
		*out = result_json(t);
		char *text = json_dumps(*out, JSON_COMPACT | JSON_SORT_KEYS);
		if (t->store) rc = store_put(t->store, "tune", key.text, text, strlen(text), err);
		json_object_set_new(*out, "cached", json_false());
		free(text);
	}
	str_release(&kept);
	return rc;
}

/* ---- the command ---- */

static int tune_open(struct tune *t, struct err *err)
{
	const struct tune_options *o = t->o;
	bool is_policy = !strcmp(o->search, "policy");
	if (!o->task || !o->candidate) return err_set(err, ERR_USAGE, "--%s is missing", o->task ? "candidate" : "task");
	if (is_policy != (policy_is_outside(&o->policy) || o->policy.model))
		return err_set(err, ERR_USAGE,
			"--search policy goes with --model, --policy_command or --policy_answers, and they with it");
	/* Everything that may be refused is read before the verifier starts its workers. */
	if (o->gpu && !vm_gpu_find(o->gpu))
		return err_set(err, ERR_USAGE, "--gpu %s: not in the cost model's table (docs/cost-model.md)", o->gpu);
	int rc = o->out ? cli_out_check(o->out, CLI_OUT_FILE, err) : 0;
	if (!rc) rc = task_set_load(o->task, &t->tasks, err);
	if (!rc && t->tasks.count != 1)
		rc = err_set(err, ERR_USAGE, "--task %s: expected one task, found %zu", o->task, t->tasks.count);
	if (!rc) rc = file_read(o->candidate, (size_t)1 << 20, &t->source, err);
	if (!rc && (rc = tune_space_parse(t->source.data, &t->space, err))) err_prefix(err, "%s", o->candidate);
	if (!rc && is_policy) rc = agent_template_read(AGENT_BACKEND, o->prompt_template, &t->template_text, err);
	if (!rc && policy_is_outside(&o->policy)) rc = outside_open(&o->policy, &t->outside, err);
	else if (!rc && is_policy) rc = policy_open(&o->policy, &t->policy, err);
	if (!rc && o->store) rc = store_open(o->store, &t->store, err);
	/* One verdict at a time: the search chooses the next point by the last. */
	struct verify_options v = {.device = o->verify_device,
		.gpu = o->gpu,
		.cost_size = o->cost_size,
		.precision = o->precision,
		.threads = 1,
		.num_correct_trials = (int)o->num_correct_trials,
		.seed = (uint64_t)o->seed + 1,
		.store = t->store};
	if (!rc) rc = verifier_create(&v, &t->verifier, err);
	if (!rc) t->gpu = verifier_card(t->verifier);
	t->seen = xcalloc((size_t)MAX(t->space.points, 1), sizeof *t->seen);
	t->tried = json_array();
	return rc;
}

static void result_print(const json_t *j)
{
	size_t i;
	json_t *row;
	json_array_foreach(json_object_get(j, "tried"), i, row)
	{
		const json_t *cost = json_object_get(row, "cost_s");
		printf("%-40s %-8s", json_string_value(json_object_get(row, "point")),
			json_string_value(json_object_get(row, "by")));
		if (json_is_number(cost)) printf(" %.3f us\n", json_number_value(cost) * 1e6);
		else
			printf(" %s (%s)\n", json_string_value(json_object_get(row, "verdict")),
				json_string_value(json_object_get(row, "reason")));
	}
	printf("best on %s by %s times: %s, x%.3f of %s%s\n", json_string_value(json_object_get(j, "gpu")),
		json_string_value(json_object_get(j, "times")), json_string_value(json_object_get(j, "best")),
		json_number_value(json_object_get(j, "speedup")), json_string_value(json_object_get(j, "given")),
		json_is_true(json_object_get(j, "cached")) ? " (from the store)" : "");
}

/* --out: the kernel with the best point, which a result from the store names in words. */
static int best_write(const struct tune *t, const json_t *j, struct err *err)
{
	if (!t->o->out) return 0;
	struct str text = {0};
	int64_t point = tune_point_parse(&t->space, json_string_value(json_object_get(j, "best")));
	tune_render(t->source.data, &t->space, point, &text);
	int rc = file_write_atomic(t->o->out, text.data, text.len, err);
	str_release(&text);
	return rc;
}

int cmd_tune(int argc, char **argv)
{
	struct tune_options o = {
		.policy = {.device = "cpu", .chat_template = "auto", POLICY_OUTSIDE_DEFAULTS},
		.search = "plain",
		.prompt_template = "recipes/prompts/backend.txt",
		.precision = "strict",
		.verify_device = "cpu",
		.cost_size = "judged",
		.verdicts = 16,
		.max_completion_length = 256,
		.temperature = 1,
		.seed = 42,
	};
	struct err err = {0};
	json_t *result = NULL;
	int npos,
		rc = options_parse("tune", "choose a kernel's launch parameters for a card", defs, ARRAY_LEN(defs), &o, argc,
			argv, &npos, &err);
	if (rc == 1) return 0;
	/* Everything that can be refused, the search or what is kept of it, then what it found. */
	struct tune t = {.o = &o, .best = -1};
	if (!rc && npos > 0) rc = err_set(&err, ERR_USAGE, "unexpected argument \"%s\"", argv[1]);
	if (!rc) rc = tune_open(&t, &err);
	if (!rc) rc = result_get(&t, &result, &err);
	if (!rc) rc = best_write(&t, result, &err);
	if (!rc && o.json) {
		json_dumpf(result, stdout, JSON_COMPACT | JSON_SORT_KEYS | JSON_AS_WRITTEN);
		printf("\n");
	} else if (!rc) {
		result_print(result);
	}
	json_decref(result);
	json_decref(t.tried);
	free(t.seen);
	verifier_free(t.verifier);
	store_close(t.store);
	outside_close(t.outside);
	policy_close(&t.policy);
	str_release(&t.lines);
	str_release(&t.source);
	str_release(&t.template_text);
	task_set_release(&t.tasks);
	return rc ? cli_fail("tune", &err) : 0;
}
