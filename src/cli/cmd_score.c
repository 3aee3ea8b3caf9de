/* hone score: log-probabilities of a completion's tokens after a prompt, under a model with or
 * without an adapter. Prompt and completion are tokenised apart and put side by side; no template,
 * no BOS: what is scored is exactly what the two files say. */
#include "cli/cli.h"
#include "base/base.h"
#include "model/model.h"
#include "ops/ops.h"
#include "text/text.h"

#include <math.h>
#include <stdlib.h>

struct score_options {
	const char *model, *adapter, *prompt_file, *completion_file, *device, *cuda_libs;
	double temperature;
	int64_t threads;
	bool batch_invariant, json;
};

#define O(type, field, help, choices) { #field, type, offsetof(struct score_options, field), help, choices }
static const struct option_def defs[] = {
	O(OPTION_STR, model, "model folder (with tokenizer.json)", NULL),
	O(OPTION_STR, adapter, "PEFT adapter folder", NULL),
	O(OPTION_STR, prompt_file, "file whose whole text is the prompt", NULL),
	O(OPTION_STR, completion_file, "file whose whole text is scored", NULL),
	O(OPTION_FLOAT, temperature, "logits are divided by it", "0.001 to 1000"),
	O(OPTION_STR, device, "where the model computes: cpu, cuda or cuda:N", NULL),
	O(OPTION_STR, cuda_libs, "folder with CUDA's libraries; default: where Python's or the system's lie", NULL),
	O(OPTION_INT, threads, "threads of the CPU; 0: cores", "0 to 4096"),
	O(OPTION_BOOL, batch_invariant, "values that do not depend on what else is computed with them", NULL),
	O(OPTION_BOOL, json, "print one JSON object: tokens, logprobs", NULL),
};

struct score {
	struct ops *ops;
	struct model *model;
	struct adapter *adapter;
	struct tokenizer *tokenizer;
	struct pass *pass;
	struct ids ids;
	int nprompt;     /* prompt, then completion */
	float *logprobs; /* (completion tokens) */
};

static int options_check(const struct score_options *o, struct err *err)
{
	if (!o->model || !o->prompt_file || !o->completion_file)
		return err_set(err, ERR_USAGE, "--model, --prompt_file and --completion_file are needed");
	return 0;
}

static int encode_file(struct score *s, const char *path, struct err *err)
{
	struct str text = {0};
	int rc = file_read(path, 64 << 20, &text, err);
	if (!rc && text.len && (rc = tokenizer_encode(s->tokenizer, text.data, text.len, true, &s->ids, err)))
		err_prefix(err, "%s", path);
	str_release(&text);
	return rc;
}

static int encode(struct score *s, const struct score_options *o, struct err *err)
{
	int rc = encode_file(s, o->prompt_file, err);
	s->nprompt = (int)s->ids.count;
	if (!rc) rc = encode_file(s, o->completion_file, err);
	if (rc) return rc;
	const struct model_config *c = model_config(s->model);
	if (s->nprompt == 0)
		return err_set(err, ERR_RANGE,
			"%s: the prompt has no tokens; the first token of a completion needs one before it", o->prompt_file);
	if (s->ids.count > (size_t)c->max_position_embeddings)
		return err_set(err, ERR_LIMIT, "%zu tokens of prompt and completion; the model knows %d positions",
			s->ids.count, c->max_position_embeddings);
	for (size_t i = 0; i < s->ids.count; i++)
		if (s->ids.data[i] >= c->vocab_size)
			return err_set(err, ERR_MISMATCH,
				"the tokenizer gives id %d, the model has %d; they do not belong together", s->ids.data[i],
				c->vocab_size);
	return 0;
}

static int open_all(struct score *s, const struct score_options *o, struct err *err)
{
	struct device_options d = {.device = o->device,
		.cuda_libs = o->cuda_libs,
		.threads = (int)o->threads,
		.batch_invariant = o->batch_invariant,
		.adapters = &o->adapter,
		.nadapters = 1};
	int rc = device_open(&d, &s->ops, err);
	if (!rc) rc = model_open(o->model, s->ops, &s->model, err);
	if (!rc && o->adapter) rc = adapter_open(s->model, o->adapter, &s->adapter, err);
	if (!rc) rc = tokenizer_open(o->model, &s->tokenizer, err);
	return rc;
}

static int compute(struct score *s, const struct score_options *o, struct err *err)
{
	int T = (int)s->ids.count, n = T - s->nprompt, start[2] = {0, T};
	int rc = pass_create(s->model, &(struct pass_options){.max_tokens = T}, &s->pass, err);
	if (rc) return rc;
	int32_t *pos = xcalloc((size_t)T, sizeof *pos);
	struct head_row *rows = xcalloc((size_t)MAX(n, 1), sizeof *rows);
	s->logprobs = xcalloc((size_t)MAX(n, 1), sizeof *s->logprobs);
	for (int t = 0; t < T; t++) pos[t] = t;
	for (int i = 0; i < n; i++)
		rows[i] = (struct head_row){.at = s->nprompt + i - 1, .target = s->ids.data[s->nprompt + i]};
	pass_forward(s->pass, s->adapter, &(struct batch){s->ids.data, {T, 1, start, pos, NULL}}, 0);
	pass_logprobs(s->pass, rows, n, (float)o->temperature, s->logprobs, NULL);
	free(pos);
	free(rows);
	for (int i = 0; i < n; i++)
		if (isnan(s->logprobs[i]))
			return err_set(err, ERR_RANGE,
				"token %d of the completion: the model's values are not finite; its weights, or the adapter's, hold "
				"infinite values or NaN",
				i);
	return 0;
}

static void print(const struct score *s, bool as_json)
{
	int n = (int)s->ids.count - s->nprompt;
	double sum = 0;
	json_t *tokens = json_array(), *logprobs = json_array();
	for (int i = 0; i < n; i++) {
		sum += s->logprobs[i];
		json_array_append_new(tokens, json_integer(s->ids.data[s->nprompt + i]));
		json_array_append_new(logprobs, json_real(s->logprobs[i]));
	}
	json_t *o = json_pack("{s:o, s:o}", "tokens", tokens, "logprobs", logprobs);
	if (as_json) json_dumpf(o, stdout, JSON_PRESERVE_ORDER);
	else printf("tokens %d  prompt %d  sum %.6f  mean %.6f", n, s->nprompt, sum, n ? sum / n : 0);
	printf("\n");
	json_decref(o);
}

int cmd_score(int argc, char **argv)
{
	struct score_options o = {.temperature = 1, .device = "cpu"};
	struct score s = {0};
	struct err err = {0};
	int npos;
	int rc = options_parse(
		"score", "log-probabilities of a completion under a model", defs, ARRAY_LEN(defs), &o, argc, argv, &npos, &err);
	if (rc == 1) return 0;
	if (!rc && npos > 0) rc = err_set(&err, ERR_USAGE, "unexpected argument \"%s\"", argv[1]);
	if (!rc) rc = options_check(&o, &err);
	if (!rc) rc = open_all(&s, &o, &err);
	if (!rc) rc = encode(&s, &o, &err);
	if (!rc) rc = compute(&s, &o, &err);
	if (!rc) print(&s, o.json);
	pass_free(s.pass);
	tokenizer_free(s.tokenizer);
	adapter_free(s.adapter);
	model_free(s.model);
	ops_free(s.ops);
	ids_release(&s.ids);
	free(s.logprobs);
	return rc ? cli_fail("score", &err) : 0;
}
