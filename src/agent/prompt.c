/* Prompts are template files with {{holes}}; what a hole becomes is a row of a table. A template
 * that names an unknown hole is refused rather than sent to a model with the braces still in it. */
#include "agent/agent.h"
#include "base/base.h"
#include "tape/tape_ir.h"
#include "task/task.h"
#include "verify/verdict.h"

static const char *const stage_names[AGENT_STAGE_COUNT] = {"frontend", "midend"};

int agent_stage_from_name(const char *name, enum agent_stage *out, struct err *err)
{
	for (int i = 0; i < AGENT_STAGE_COUNT; i++)
		if (!strcmp(stage_names[i], name)) {
			*out = (enum agent_stage)i;
			return 0;
		}
	return err_set(err, ERR_USAGE, "stage \"%s\": expected frontend or midend", name);
}

static void put_trimmed(struct str *out, const char *text)
{
	size_t n = strlen(text);
	while (n && strchr(" \t\r\n", text[n - 1])) n--;
	str_append(out, text, n);
}

static int hole_task(const struct prompt_input *in, struct str *out, struct err *err)
{
	put_trimmed(out, in->task->source);
	/* At which sizes values are checked is for the verifier to know: a last line that says so is
	 * left out. */
	const char *line = strrchr(out->data, '\n');
	if (line && !strncmp(line + 1, TASK_JUDGED_AT, strlen(TASK_JUDGED_AT))) {
		out->len = (size_t)(line - out->data);
		while (out->len && out->data[out->len - 1] == '\n') out->len--;
		out->data[out->len] = 0;
	}
	return 0;
}

static int hole_kernel(const struct prompt_input *in, struct str *out, struct err *err)
{
	if (!in->kernel) return err_set(err, ERR_USAGE, "{{kernel}} needs a kernel: this template is for --stage midend");
	put_trimmed(out, in->kernel);
	return 0;
}

static int hole_cost(const struct prompt_input *in, struct str *out, struct err *err)
{
	if (!in->profile)
		return err_set(err, ERR_USAGE, "{{cost}} needs a profiled kernel: this template is for --stage midend");
	prompt_cost_table(in->profile, out);
	return 0;
}

/* Which resource a kernel waits for, by the cost model's names. */
static const struct {
	const char *name; /* the cost model's */
	const char *text; /* what the prompt says of it */
} limits[] = {
	{"launch", "the cost of launching: there is too little work in a launch"},
	{"dram", "memory: bytes to and from DRAM"},
	{"l2", "the L2 cache: sectors that miss L1"},
	{"l1", "the L1 cache: sectors that loads and stores touch"},
	{"issue", "issuing instructions"},
	{"special", "the special function units: exp, log, division and the like"},
	{"tensor", "the units that compute tl.dot"},
	{"shared", "shared memory: changes of layout, operands, reductions"},
	{"atomic", "atomics on the same addresses"},
	{"latency", "latency: too few programs at once, or a long chain of dependent steps"},
};

static const char *limit_text(const char *name)
{
	for (size_t i = 0; i < ARRAY_LEN(limits); i++)
		if (!strcmp(limits[i].name, name)) return limits[i].text;
	return "not known";
}

static int hole_limit(const struct prompt_input *in, struct str *out, struct err *err)
{
	if (!in->profile)
		return err_set(err, ERR_USAGE, "{{limit}} needs a profiled kernel: this template is for --stage midend");
	/* Counters of a GPU go before what the model predicts. */
	if (!prompt_measured_limit(in->profile, out)) str_puts(out, limit_text(in->profile->limit));
	return 0;
}

static int hole_variants(const struct prompt_input *in, struct str *out, struct err *err)
{
	if (!in->nvariants)
		return err_set(err, ERR_USAGE, "{{variants}} needs kernels to show: --variants and --variants_from");
	for (int i = 0; i < in->nvariants; i++) {
		const struct prompt_variant *v = &in->variants[i];
		str_printf(out, "%sVariant %d: %.2f us, %d %s, %lld %s; waits for %s.\n\n```%s\n", i ? "\n\n" : "", i + 1,
			v->cost_s * 1e6, v->launches, plural(v->launches, "launch", "launches"), (long long)v->bytes,
			plural(v->bytes, "byte", "bytes"), limit_text(v->limit),
			tape_ir_is(v->source, strlen(v->source)) ? "ttir" : "python");
		put_trimmed(out, v->source);
		str_puts(out, "\n```");
	}
	return 0;
}

/* A composed task's structure says it; of any other the expression that Model's forward returns,
 * which is the last return before the helpers of the file. */
static int hole_reference(const struct prompt_input *in, struct str *out, struct err *err)
{
	const char *colon = in->task->structure ? strchr(in->task->structure, ':') : NULL;
	if (colon && colon[1]) {
		str_puts(out, colon + 1);
		return 0;
	}
	const char *forward = strstr(in->task->source, "def forward("), *end = NULL, *found = NULL;
	if (forward) end = strstr(forward, "\ndef ");
	for (const char *r = forward; r && (r = strstr(r, "return ")) && (!end || r < end); r += 7) found = r + 7;
	if (!found)
		return err_set(err, ERR_FORMAT, "{{reference}}: task %s has no forward that returns something", in->task->name);
	str_append(out, found, strcspn(found, "\n"));
	return 0;
}

static int hole_precision(const struct prompt_input *in, struct str *out, struct err *err)
{
	bool is_tf32 = in->precision && !strcmp(in->precision, "tf32");
	str_puts(out,
		is_tf32 ? "TF32 is allowed in tl.dot on fp32 tensors."
				: "Full fp32 precision is required: use input_precision=\"ieee\" in tl.dot on fp32 tensors.");
	return 0;
}

static int hole_text(const char *text, const char *name, struct str *out, struct err *err)
{
	if (!text) return err_set(err, ERR_USAGE, "{{%s}} belongs to the backend's template (`hone tune`)", name);
	put_trimmed(out, text);
	return 0;
}

static int hole_card(const struct prompt_input *in, struct str *out, struct err *err)
{
	return hole_text(in->card, "card", out, err);
}

static int hole_space(const struct prompt_input *in, struct str *out, struct err *err)
{
	return hole_text(in->space, "space", out, err);
}

static int hole_tried(const struct prompt_input *in, struct str *out, struct err *err)
{
	return hole_text(in->tried, "tried", out, err);
}

static int hole_feedback(const struct prompt_input *in, struct str *out, struct err *err)
{
	if (!in->feedback)
		return err_set(err, ERR_USAGE, "{{feedback}} belongs into a --turn_template: there is no answer yet");
	put_trimmed(out, in->feedback);
	return 0;
}

static const struct {
	const char *name;
	int (*put)(const struct prompt_input *, struct str *, struct err *);
} holes[] = {
	{"task", hole_task},
	{"kernel", hole_kernel},
	{"cost", hole_cost},
	{"limit", hole_limit},
	{"reference", hole_reference},
	{"variants", hole_variants},
	{"precision", hole_precision},
	{"card", hole_card},
	{"space", hole_space},
	{"tried", hole_tried},
	{"feedback", hole_feedback},
};

static int put_hole(const char *name, size_t len, const struct prompt_input *in, struct str *out, struct err *err)
{
	for (size_t i = 0; i < ARRAY_LEN(holes); i++)
		if (strlen(holes[i].name) == len && !memcmp(holes[i].name, name, len)) return holes[i].put(in, out, err);
	return err_set(err, ERR_FORMAT,
		"unknown hole {{%.*s}}: expected task, kernel, cost, limit, reference, variants, precision, card, space, "
		"tried or feedback",
		(int)MIN(len, 40), name);
}

#define TEMPLATE_BYTES_MAX ((size_t)1 << 20)

/* What a stage's template has to show, and what it must not. */
static const struct {
	const char *stage;
	const char *needed;    /* the hole that the stage is about */
	const char *forbidden; /* NULL: any other may stand beside it */
} stage_templates[] = {
	{"frontend", "{{task}}", NULL},
	{"midend", "{{kernel}}", "{{task}}"},
	{AGENT_BACKEND, "{{kernel}}", NULL},
	{AGENT_TURN, "{{feedback}}", NULL},
	{AGENT_MIDEND_TURN, "{{feedback}}", "{{task}}"},
};

static int template_check(const char *stage, const char *template_text, const char *template_name, struct err *err)
{
	size_t i = 0;
	while (i < ARRAY_LEN(stage_templates) && strcmp(stage_templates[i].stage, stage)) i++;
	CHECKF(i < ARRAY_LEN(stage_templates), "a template of stage %s", stage);
	const char *needed = stage_templates[i].needed, *forbidden = stage_templates[i].forbidden;
	bool is_whole = strstr(template_text, needed), is_turn = !strcmp(needed, "{{feedback}}");
	const char *what = is_turn ? "--turn_template" : "prompt template";
	/* A mid-end that sees the module can answer as a frontend does, whatever kernel it is given. */
	if (is_whole && forbidden && strstr(template_text, forbidden))
		return err_set(err, ERR_MISMATCH,
			"%s %s: has %s: --stage midend is shown a kernel, and what could be solved from the module alone is a "
			"frontend's prompt; {{reference}} says on one line what the module computes",
			what, template_name, forbidden);
	if (is_whole) return 0;
	if (is_turn)
		return err_set(err, ERR_MISMATCH,
			"%s %s: has no %s: a further turn would not say what was wrong; one that ships with hone is "
			"recipes/prompts/turn.txt",
			what, template_name, needed);
	return err_set(err, ERR_MISMATCH,
		"%s %s: has no %s, which --stage %s is about; templates that ship with hone are in recipes/prompts/", what,
		template_name, needed, stage);
}

int agent_template_read(const char *stage, const char *path, struct str *out, struct err *err)
{
	char *found = path_or_installed(path);
	int rc = file_read(found, TEMPLATE_BYTES_MAX, out, err);
	free(found);
	return rc ? rc : template_check(stage, out->data, path, err);
}

int agent_turn_template_read(const char *stage, const char *path, struct str *out, struct err *err)
{
	return agent_template_read(strcmp(stage, "midend") ? AGENT_TURN : AGENT_MIDEND_TURN, path, out, err);
}

int agent_midend_template_check(const char *path, struct err *err)
{
	/* Any task and any kernel: what could be wrong with these is not the template's fault. */
	const struct task task = {.name = "any", .source = "def forward(self, x):\n    return x\n"};
	const struct verdict profile = {0};
	const struct prompt_input in = {.task = &task, .kernel = "", .profile = &profile};
	struct str text = {0}, prompt = {0};
	int rc = agent_template_read("midend", path, &text, err);
	if (!rc) rc = prompt_render(text.data, path, &in, &prompt, err);
	str_release(&text);
	str_release(&prompt);
	return rc;
}

int prompt_render(const char *template_text, const char *template_name, const struct prompt_input *in, struct str *out,
	struct err *err)
{
	const char *p = template_text;
	for (const char *open; (open = strstr(p, "{{")) != NULL;) {
		const char *close = strstr(open, "}}");
		if (!close)
			return err_set(err, ERR_FORMAT, "prompt template %s: \"{{\" at byte %zu is never closed", template_name,
				(size_t)(open - template_text));
		str_append(out, p, (size_t)(open - p));
		int rc = put_hole(open + 2, (size_t)(close - open - 2), in, out, err);
		if (rc) {
			err_prefix(err, "prompt template %s", template_name);
			return rc;
		}
		p = close + 2;
	}
	str_puts(out, p);
	return 0;
}

static void put_counts(int64_t bytes, int64_t sectors, struct str *out)
{
	str_printf(out, "%lld %s, %lld %s", (long long)bytes, plural(bytes, "byte", "bytes"), (long long)sectors,
		plural(sectors, "sector", "sectors"));
}

void prompt_cost_table(const struct verdict *v, struct str *out)
{
	for (int i = 0; i < MIN(v->nlines, 8); i++) {
		str_printf(out, "line %d: ", v->lines[i].line);
		put_counts(v->lines[i].bytes, v->lines[i].sectors, out);
		str_printf(out, ", %lld %s\n", (long long)v->lines[i].flops, plural(v->lines[i].flops, "flop", "flops"));
	}
	str_printf(out, "total: %d %s, %lld %s, ", v->launches, plural(v->launches, "launch", "launches"),
		(long long)v->programs, plural(v->programs, "program", "programs"));
	put_counts(v->bytes, v->sectors, out);
	str_printf(out, ", %.2f us\n", v->cost_s * 1e6);
	/* A verdict that no GPU gave has no times: NaN, or 0 where it was read from a
	 * record without a device. */
	if (v->device.time_s > 0) str_printf(out, "measured on %s: %.2f us\n", v->device.name, v->device.time_s * 1e6);
	prompt_measured_counters(v, out);
}

static void put_source_line(const char *source, size_t len, int line, struct str *out)
{
	const char *p = source, *end = source + len;
	for (int i = 1; i < line && p < end; i++) {
		const char *nl = memchr(p, '\n', (size_t)(end - p));
		if (!nl) return;
		p = nl + 1;
	}
	if (p == end) return;
	const char *nl = memchr(p, '\n', (size_t)(end - p));
	size_t n = (size_t)((nl ? nl : end) - p);
	str_printf(out, "  %d | %.*s\n", line, (int)MIN(n, 200), p);
}

void feedback_render(const struct verdict *v, const char *source, size_t source_len, struct str *out)
{
	str_printf(out, "Verdict: %s (stage %s", verdict_class_name(v->class), verdict_stage_name(v->stage));
	if (v->reason[0]) str_printf(out, ", %s", v->reason);
	str_puts(out, ").\n");
	if (v->detail[0]) str_printf(out, "%s\n", v->detail);
	if (v->line > 0) put_source_line(source, source_len, v->line, out);
	if (v->class == VERDICT_GENUINE) prompt_cost_table(v, out);
}
