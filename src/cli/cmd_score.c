/* hone score: log-probabilities of a completion's tokens after a prompt, under a model with or
 * without an adapter. Prompt and completion are tokenised apart and put side by side; no template,
 * no BOS: what is scored is exactly what the two files say. */
#include "cli/cli.h"
#include "base/base.h"
#include "model/model.h"
#include "policy/policy.h"
#include "text/text.h"

#include <math.h>
#include <stdlib.h>

/* Values of the options below, whose help says what each is. */
struct score_options {
	struct policy_options policy;
	const char *prompt_file;
	const char *completion_file;
	double temperature;
	bool json;
};

#define O(type, field, help, choices) { #field, type, offsetof(struct score_options, field), help, choices }
static const struct option_def defs[] = {
	POLICY_MODEL_OPTION(score_options),
	POLICY_ADAPTER_OPTION(score_options, "PEFT adapter folder"),
	O(OPTION_STR, prompt_file, "file whose whole text is the prompt", NULL),
	O(OPTION_STR, completion_file, "file whose whole text is scored", NULL),
	O(OPTION_FLOAT, temperature, "logits are divided by it", "0.001 to 1000"),
	POLICY_DEVICE_OPTIONS(score_options),
	POLICY_INVARIANT_OPTION(score_options),
	O(OPTION_BOOL, json, "print one JSON object: tokens, logprobs", NULL),
};

struct score {
	struct policy policy;
	struct pass *pass;
	struct ids ids; /* prompt, then completion */
	int nprompt;
	float *logprobs; /* (completion tokens) */
};

static int options_check(const struct score_options *o, struct err *err)
{
	if (!o->policy.model || !o->prompt_file || !o->completion_file)
		return err_set(err, ERR_USAGE, "--model, --prompt_file and --completion_file are needed");
	return 0;
}

static int encode_file(struct score *s, const char *path, struct err *err)
{
	struct str text = {0};
	int rc = file_read(path, 64 << 20, &text, err);
	if (!rc) rc = policy_encode(&s->policy, path, text.data, text.len, &s->ids, err);
	str_release(&text);
	return rc;
}

static int encode(struct score *s, const struct score_options *o, struct err *err)
{
	int rc = encode_file(s, o->prompt_file, err);
	s->nprompt = (int)s->ids.count;
	if (!rc) rc = encode_file(s, o->completion_file, err);
	if (rc) return rc;
	if (s->nprompt == 0)
		return err_set(err, ERR_RANGE,
			"%s: the prompt has no tokens; the first token of a completion needs one before it", o->prompt_file);
	if (s->ids.count > (size_t)s->policy.config.max_position_embeddings)
		return err_set(err, ERR_LIMIT, "%zu tokens of prompt and completion; the model knows %d positions",
			s->ids.count, s->policy.config.max_position_embeddings);
	return 0;
}

static int compute(struct score *s, const struct score_options *o, struct err *err)
{
	int T = (int)s->ids.count, n = T - s->nprompt, start[2] = {0, T};
	int rc = pass_create(s->policy.model, &(struct pass_options){.max_tokens = T}, &s->pass, err);
	if (rc) return rc;
	int32_t *pos = xcalloc((size_t)T, sizeof *pos);
	struct head_row *rows = xcalloc((size_t)MAX(n, 1), sizeof *rows);
	s->logprobs = xcalloc((size_t)MAX(n, 1), sizeof *s->logprobs);
	for (int t = 0; t < T; t++) pos[t] = t;
	for (int i = 0; i < n; i++)
		rows[i] = (struct head_row){.at = s->nprompt + i - 1, .target = s->ids.data[s->nprompt + i]};
	pass_forward(s->pass, s->policy.adapter, &(struct batch){s->ids.data, {T, 1, start, pos, NULL}}, 0);
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
	struct score_options o = {.policy = {.device = "cpu"}, .temperature = 1};
	struct score s = {0};
	struct err err = {0};
	int npos;
	int rc = options_parse(
		"score", "log-probabilities of a completion under a model", defs, ARRAY_LEN(defs), &o, argc, argv, &npos, &err);
	if (rc == 1) return 0;
	if (!rc && npos > 0) rc = err_set(&err, ERR_USAGE, "unexpected argument \"%s\"", argv[1]);
	if (!rc) rc = options_check(&o, &err);
	if (!rc) rc = policy_open(&o.policy, &s.policy, &err);
	if (!rc) rc = encode(&s, &o, &err);
	if (!rc) rc = compute(&s, &o, &err);
	if (!rc) print(&s, o.json);
	pass_free(s.pass);
	policy_close(&s.policy);
	ids_release(&s.ids);
	free(s.logprobs);
	return rc ? cli_fail("score", &err) : 0;
}
