/* hone generate: continue a prompt. One sample is written as it grows, byte by byte of its tokens;
 * several are written one after the other when all are done. Without --chat the prompt is what the
 * file says, behind the BOS that the tokenizer may put there; with it, it is the user's turn under
 * the template, and the template's end of turn ends the answer. Control tokens that a user's turn
 * spells are text; those of a prompt without --chat count. */
#include "cli/cli.h"
#include "base/base.h"
#include "infer/infer.h"
#include "model/model.h"
#include "ops/ops.h"
#include "policy/policy.h"
#include "text/text.h"
#include "text/unicode.h"

#include <stdlib.h>

/* Values of the options below, whose help says what each is. */
struct generate_options {
	struct policy_options policy;
	struct option_list stop_strings;
	const char *prompt;
	const char *prompt_file;
	int64_t max_new_tokens;
	int64_t top_k;
	int64_t seed;
	int64_t num_samples;
	double temperature;
	double top_p;
	double min_p;
	bool chat;
	bool json;
};

#define O(type, field, help, choices) { #field, type, offsetof(struct generate_options, field), help, choices }
static const struct option_def defs[] = {
	POLICY_MODEL_OPTION(generate_options),
	{"adapter", OPTION_LIST, offsetof(struct generate_options, policy.adapters),
		"PEFT adapter folder; given several times, each continues the prompt, all in one batch and with one seed",
		NULL},
	O(OPTION_STR, prompt, "the prompt", NULL),
	O(OPTION_STR, prompt_file, "file whose whole text is the prompt", NULL),
	O(OPTION_BOOL, chat, "the prompt is a user's turn of a chat", NULL),
	POLICY_CHAT_OPTIONS(generate_options),
	O(OPTION_INT, max_new_tokens, "tokens to generate, at most", "1 to 16777216"),
	O(OPTION_LIST, stop_strings, "a text behind which an answer ends, and which it keeps; may be given several times",
		NULL),
	O(OPTION_FLOAT, temperature, "0: greedy", "0 to 1000"),
	O(OPTION_INT, top_k, "0: off", "0 to 2147483647"),
	O(OPTION_FLOAT, top_p, "1: off", "1e-6 to 1"),
	O(OPTION_FLOAT, min_p,
		"tokens less likely than min_p times the likeliest are left out; log-probabilities are then of the rest; 0: "
		"off",
		"0 to 1"),
	O(OPTION_INT, seed, "of sampling", NULL),
	O(OPTION_INT, num_samples, "continuations of the one prompt", "1 to 4096"),
	POLICY_DEVICE_OPTIONS(generate_options),
	POLICY_INVARIANT_OPTION(generate_options),
	O(OPTION_BOOL, json, "print one JSON object: completions with text, tokens, logprobs, finish", NULL),
	OPTIONS_NEED("chat_template chat_date", "chat"),
	OPTIONS_NEED("top_k top_p min_p", "temperature>0"),
};

struct generate {
	const struct generate_options *o;
	struct policy policy;
	int npolicies; /* adapters, or 1: the base */
	struct engine *engine;
	struct ids prompt;
	struct completion *done; /* (npolicies, num_samples) */
	bool streams;            /* tokens are printed as they come */
	struct str chunk;        /* bytes of the last tokens */
};

static int options_check(const struct generate_options *o, struct err *err)
{
	if (!o->policy.model) return err_set(err, ERR_USAGE, "--model is missing");
	if (!o->prompt == !o->prompt_file) return err_set(err, ERR_USAGE, "expected one of --prompt and --prompt_file");
	for (int i = 0; i < o->stop_strings.count; i++)
		if (!*o->stop_strings.items[i])
			return err_set(err, ERR_USAGE, "--stop_strings \"\": an answer would end before it begins; name a text");
	return 0;
}

static int prompt_text(const struct generate_options *o, struct str *out, struct err *err)
{
	if (o->prompt_file) return file_read(o->prompt_file, 64 << 20, out, err);
	str_puts(out, o->prompt);
	return 0;
}

static int context_check(const struct generate *g, struct err *err)
{
	int64_t positions = g->policy.config.max_position_embeddings,
			wanted = (int64_t)g->prompt.count + g->o->max_new_tokens;
	if (wanted <= positions) return 0;
	return err_set(err, ERR_LIMIT,
		"%zu tokens of the prompt and --max_new_tokens %lld are more than the model's %lld positions; lower "
		"--max_new_tokens%s",
		g->prompt.count, (long long)g->o->max_new_tokens, (long long)positions,
		(int64_t)g->prompt.count < positions ? "" : " and shorten the prompt");
}

static int chat_prompt(struct generate *g, const struct str *text, struct err *err)
{
	struct chat_text chat = {0};
	struct chat_message user = {"user", text->data};
	if (strlen(text->data) < text->len)
		return err_set(
			err, ERR_FORMAT, "%s: byte %zu is 0, which no turn of a chat has", g->o->prompt_file, strlen(text->data));
	int rc = chat_render(g->policy.chat, g->policy.chat_date, &user, 1, true, &chat, err);
	if (!rc) rc = chat_encode(g->policy.tokenizer, &chat, &g->prompt, err);
	chat_text_release(&chat);
	return rc;
}

static int prompt_encode(struct generate *g, struct err *err)
{
	struct str text = {0};
	int rc = prompt_text(g->o, &text, err);
	if (!rc && g->o->chat) {
		rc = chat_prompt(g, &text, err);
	} else if (!rc) {
		tokenizer_push_prefix(g->policy.tokenizer, &g->prompt);
		rc = policy_encode(
			&g->policy, g->o->prompt_file ? g->o->prompt_file : "--prompt", text.data, text.len, &g->prompt, err);
	}
	str_release(&text);
	if (rc) return rc;
	if (!g->prompt.count)
		return err_set(err, ERR_RANGE, "the prompt has no tokens; expected at least one to continue from");
	return 0;
}

static int open_all(struct generate *g, struct err *err)
{
	const struct generate_options *o = g->o;
	struct policy_options p = o->policy;
	if (!o->chat) p.chat_template = NULL;
	int rc = policy_open(&p, &g->policy, err);
	if (!rc) rc = prompt_encode(g, err);
	if (!rc) rc = context_check(g, err);
	if (rc) return rc;
	struct engine_options eo = {.max_sequences = (int)MIN(o->num_samples * g->npolicies, 32),
		.max_context = (int)g->prompt.count + (int)o->max_new_tokens};
	rc = engine_create(g->policy.model, &eo, &g->engine, err);
	const struct ops *ops = g->policy.ops;
	const struct model_config *c = &g->policy.config;
	if (!rc)
		log_info("%.1f MiB for %d %s of up to %d tokens",
			(double)(engine_bytes(ops, c, &eo) + engine_device_bytes(ops, c, &eo)) / (1 << 20), eo.max_sequences,
			plural(eo.max_sequences, "sequence", "sequences"), eo.max_context);
	return rc;
}

/* Whether `text` stands in the answer and ends inside its last token: what ended before it has been
 * looked for then. */
static bool has_stop(struct generate *g, const char *text, const int32_t *tokens, int count)
{
	size_t len = strlen(text), last = 0;
	str_clear(&g->chunk);
	tokenizer_decode(g->policy.tokenizer, tokens + count - 1, 1, true, &g->chunk);
	last = g->chunk.len;
	if (!last) return false;
	/* As many tokens from the end as hold the text however it lies across them. */
	for (int n = 2; n <= count && g->chunk.len < last + len - 1; n++) {
		str_clear(&g->chunk);
		tokenizer_decode(g->policy.tokenizer, tokens + count - n, (size_t)n, true, &g->chunk);
	}
	size_t begin = g->chunk.len - MIN(g->chunk.len, last + len - 1);
	return memmem(g->chunk.data + begin, g->chunk.len - begin, text, len) != NULL;
}

/* Called after each token; true ends the answer. */
static bool after_token(void *ctx, int64_t id, int sample, const int32_t *tokens, int count)
{
	struct generate *g = ctx;
	if (g->streams) {
		str_clear(&g->chunk);
		tokenizer_decode(g->policy.tokenizer, tokens + count - 1, 1, true, &g->chunk);
		if (g->chunk.len) fwrite(g->chunk.data, 1, g->chunk.len, stdout);
		fflush(stdout);
	}
	for (int i = 0; i < g->o->stop_strings.count; i++)
		if (has_stop(g, g->o->stop_strings.items[i], tokens, count)) return true;
	return false;
}

static int run(struct generate *g, struct err *err)
{
	const struct generate_options *o = g->o;
	int64_t count = o->num_samples * g->npolicies;
	/* Only a single text is streamed: several would run into each other, and JSON comes as a
	 * whole. */
	g->streams = count == 1 && !o->json;
	struct request r = {
		.prompt = g->prompt.data,
		.nprompt = (int)g->prompt.count,
		.num_samples = (int)o->num_samples,
		.max_new_tokens = (int)o->max_new_tokens,
		.sampling = {.temperature = (float)o->temperature,
			.top_k = (int)o->top_k,
			.top_p = (float)o->top_p,
			.min_p = (float)o->min_p,
			.seed = (uint64_t)o->seed},
		.stop_ids = &g->policy.stop_id,
		.nstop = g->policy.stop_id >= 0,
		.should_stop = g->streams || o->stop_strings.count ? after_token : NULL,
		.stop_ctx = g,
	};
	int rc = 0, active = 1;
	/* A request for each adapter, with its index as id; without adapters the one entry is the
	 * base. */
	for (; r.id < g->npolicies && !rc; r.id++) {
		r.adapter = g->policy.adapters[r.id];
		rc = engine_submit(g->engine, &r, err);
	}
	if (rc) return rc;
	g->done = xcalloc((size_t)count, sizeof *g->done);
	uint64_t start = clock_ns();
	while (active) engine_step(g->engine, &active);
	double seconds = (double)(clock_ns() - start) * 1e-9;
	/* Completions come in no fixed order, so each goes to the place that its id and sample name.
	 * All are taken even after an error, so that all are released. */
	for (struct completion c; engine_take(g->engine, &c);) {
		g->done[c.id * o->num_samples + c.sample] = c;
		if (!rc) rc = completion_check(&c, err);
	}
	if (rc) return rc;
	log_info("%zu prompt tokens, %lld new tokens, %.1f new tokens/s", g->prompt.count,
		(long long)engine_tokens_generated(g->engine), (double)engine_tokens_generated(g->engine) / seconds);
	return 0;
}

/* ---- results ---- */

/* Tokens are bytes and may be cut inside a character, which no JSON text is. */
static json_t *text_json(const struct str *text)
{
	struct str whole = {0};
	utf8_repair(text->data, text->len, &whole);
	json_t *string = json_stringn(whole.data ? whole.data : "", whole.len);
	CHECK(string);
	str_release(&whole);
	return string;
}

static json_t *completion_json(const struct generate *g, const struct completion *c, const struct str *text)
{
	json_t *tokens = json_array(), *logprobs = json_array();
	for (int i = 0; i < c->count; i++) {
		json_array_append_new(tokens, json_integer(c->tokens[i]));
		json_array_append_new(logprobs, json_real(c->logprobs[i]));
	}
	json_t *o = json_pack("{s:i, s:s, s:o, s:o, s:o}", "sample", c->sample, "finish", finish_reason_name(c->finish),
		"text", text_json(text), "tokens", tokens, "logprobs", logprobs);
	if (g->o->policy.adapters.count) json_object_set_new(o, "adapter", json_string(g->o->policy.adapters.items[c->id]));
	return o;
}

static void print(const struct generate *g)
{
	json_t *list = json_array();
	int64_t count = g->o->num_samples * g->npolicies;
	for (int64_t i = 0; i < count; i++) {
		const struct completion *c = &g->done[i];
		struct str text = {0};
		tokenizer_decode(g->policy.tokenizer, c->tokens, (size_t)c->count, true, &text);
		if (g->o->json) json_array_append_new(list, completion_json(g, c, &text));
		else if (count > 1) {
			bool is_named = g->npolicies > 1;
			printf("--- %s%ssample %d, %d %s, %s\n", is_named ? g->o->policy.adapters.items[c->id] : "",
				is_named ? ", " : "", c->sample, c->count, plural(c->count, "token", "tokens"),
				finish_reason_name(c->finish));
			if (text.len) fwrite(text.data, 1, text.len, stdout);
			printf("\n");
		}
		str_release(&text);
	}
	json_t *all = json_pack("{s:I, s:o}", "prompt_tokens", (json_int_t)g->prompt.count, "completions", list);
	if (g->o->json) json_dumpf(all, stdout, JSON_SORT_KEYS);
	if (g->o->json || count == 1) printf("\n");
	json_decref(all);
}

static void close_all(struct generate *g)
{
	for (int64_t i = 0; g->done && i < g->o->num_samples * g->npolicies; i++) completion_release(&g->done[i]);
	free(g->done);
	str_release(&g->chunk);
	ids_release(&g->prompt);
	engine_free(g->engine);
	policy_close(&g->policy);
}

int cmd_generate(int argc, char **argv)
{
	struct generate_options o = {.policy = {.chat_template = "auto", .device = "cpu"},
		.max_new_tokens = 256,
		.temperature = 1,
		.top_p = 1,
		.num_samples = 1};
	struct generate g = {.o = &o};
	struct err err = {0};
	int npos, rc = options_parse("generate", "continue a prompt", defs, ARRAY_LEN(defs), &o, argc, argv, &npos, &err);
	if (rc == 1) return 0;
	if (!rc && npos > 0) rc = err_set(&err, ERR_USAGE, "unexpected argument \"%s\"", argv[1]);
	if (!rc) rc = options_check(&o, &err);
	g.npolicies = MAX(o.policy.adapters.count, 1);
	if (!rc) rc = open_all(&g, &err);
	if (!rc) rc = run(&g, &err);
	if (!rc) print(&g);
	close_all(&g);
	return rc ? cli_fail("generate", &err) : 0;
}
