/* The parts of tokenizer.json around the model: normalizer, pre_tokenizer, post_processor, decoder.
 *
 * Each is a component {"type": ..., fields}, or a Sequence of components. What may stand there is a
 * table of types with the fields that each may have; anything else is refused by name, because a
 * tokenizer that is nearly right gives a model slightly wrong ids without a sign. */
#include "text/tokenizer_internal.h"
#include "base/base.h"
#include <stdlib.h>

#define NAMES(...) (const char *const[]){__VA_ARGS__, NULL}
#define NESTING_MAX 4

struct component {
	const char *type;
	const char *const *fields;                                                            /* beside "type" */
	const char *parts;                                                                    /* a Sequence's list */
	int (*load)(struct tokenizer *t, const json_t *o, const char *what, struct err *err); /* NULL: nothing to keep */
};

const char *pipeline_json_kind(const json_t *v)
{
	static const char *const kinds[] = {[JSON_OBJECT] = "an object",
		[JSON_ARRAY] = "a list",
		[JSON_STRING] = "a string",
		[JSON_INTEGER] = "an integer",
		[JSON_REAL] = "a real number",
		[JSON_TRUE] = "true",
		[JSON_FALSE] = "false",
		[JSON_NULL] = "null"};
	return v ? kinds[json_typeof(v)] : "nothing";
}

int pipeline_check_keys(const json_t *o, const char *what, const char *const *names, struct err *err)
{
	const char *key;
	json_t *value;
	json_object_foreach((json_t *)o, key, value)
	{
		const char *const *n = names;
		while (*n && strcmp(*n, key)) n++;
		if (!*n)
			return err_set(err, ERR_UNSUPPORTED,
				"%s: field \"%.60s\" is not one that is known here; only byte-level BPE tokenizers are read", what,
				key);
	}
	return 0;
}

static int add_stage(struct tokenizer *t, struct stage stage, const char *what, struct err *err)
{
	if (t->nstages == TOKENIZER_STAGES_MAX)
		return err_set(err, ERR_LIMIT, "%s: more than %d pre-tokenizer steps", what, TOKENIZER_STAGES_MAX);
	t->stages[t->nstages++] = stage;
	return 0;
}

static int load_nfc(struct tokenizer *t, const json_t *o, const char *what, struct err *err)
{
	t->nfc = true;
	return 0;
}

static int load_split(struct tokenizer *t, const json_t *o, const char *what, struct err *err)
{
	const json_t *pattern = json_object_get(o, "pattern");
	const char *regex = json_string_value(json_object_get(pattern, "Regex")), *behavior = NULL;
	bool invert = false;
	if (!regex)
		return err_set(err, ERR_UNSUPPORTED, "%s: field \"pattern\": expected {\"Regex\": \"...\"}, found %s", what,
			json_is_object(pattern) ? "another kind of pattern" : pipeline_json_kind(pattern));
	const struct split_rules *rules = split_rules_find(regex);
	if (!rules)
		return err_set(err, ERR_UNSUPPORTED,
			"%s: field \"pattern\": the regular expression is not one of the known ones (GPT-2, Qwen2/3, Llama 3, "
			"Qwen3.5): %.300s",
			what, regex);
	if (json_get_str(o, what, "behavior", &behavior, err) || json_opt_bool(o, what, "invert", &invert, err))
		return err->code;
	if (strcmp(behavior, "Isolated") || invert)
		return err_set(err, ERR_UNSUPPORTED,
			"%s: field \"behavior\": expected Isolated and not inverted, found %.40s%s", what, behavior,
			invert ? ", inverted" : "");
	return add_stage(t, (struct stage){.kind = STAGE_SPLIT, .rules = rules}, what, err);
}

static int load_digits(struct tokenizer *t, const json_t *o, const char *what, struct err *err)
{
	bool individual = false;
	if (json_opt_bool(o, what, "individual_digits", &individual, err)) return err->code;
	return add_stage(t, (struct stage){.kind = STAGE_DIGITS, .individual_digits = individual}, what, err);
}

static int load_byte_level(struct tokenizer *t, const json_t *o, const char *what, struct err *err)
{
	bool prefix = true, regex = true;
	if (json_opt_bool(o, what, "add_prefix_space", &prefix, err) || json_opt_bool(o, what, "use_regex", &regex, err))
		return err->code;
	if (prefix && add_stage(t, (struct stage){.kind = STAGE_PREFIX_SPACE}, what, err)) return err->code;
	return regex ? add_stage(t, (struct stage){.kind = STAGE_SPLIT, .rules = split_rules_gpt2()}, what, err) : 0;
}

static const struct component normalizers[] = {
	{"NFC", NAMES("type"), NULL, load_nfc},
	{"Sequence", NAMES("type", "normalizers"), "normalizers", NULL},
	{0},
};
static const struct component pre_tokenizers[] = {
	{"Split", NAMES("type", "pattern", "behavior", "invert"), NULL, load_split},
	{"Digits", NAMES("type", "individual_digits"), NULL, load_digits},
	{"ByteLevel", NAMES("type", "add_prefix_space", "trim_offsets", "use_regex"), NULL, load_byte_level},
	{"Sequence", NAMES("type", "pretokenizers"), "pretokenizers", NULL},
	{0},
};
/* Ids that special_tokens of a TemplateProcessing gives to a name, behind those that are there. */
static int push_affix(const json_t *o, const char *name, const char *what, int32_t *ids, int *count, struct err *err)
{
	const json_t *list = json_object_get(json_object_get(json_object_get(o, "special_tokens"), name), "ids");
	if (!json_is_array(list))
		return err_set(err, ERR_FORMAT, "%s: field \"single\": special_tokens has no ids for \"%.60s\"", what, name);
	for (size_t i = 0; i < json_array_size(list); i++) {
		const json_t *v = json_array_get(list, i);
		if (*count == TOKENIZER_AFFIX_MAX)
			return err_set(err, ERR_LIMIT, "%s: field \"single\": more than %d ids on one side of the text", what,
				TOKENIZER_AFFIX_MAX);
		if (!json_is_integer(v) || json_integer_value(v) < 0 || json_integer_value(v) >= TOKENIZER_IDS_MAX)
			return err_set(err, ERR_FORMAT, "%s: special_tokens[\"%.60s\"]: expected ids of 0 to %d, found %s", what,
				name, TOKENIZER_IDS_MAX - 1, json_is_integer(v) ? "one outside" : pipeline_json_kind(v));
		ids[(*count)++] = (int32_t)json_integer_value(v);
	}
	return 0;
}

/* {"single": [{"SpecialToken": {"id": "<bos>"}}, {"Sequence": {"id": "A"}}], ...}: what stands
 * around one text. Pairs of texts are not encoded here. */
static int load_template(struct tokenizer *t, const json_t *o, const char *what, struct err *err)
{
	const json_t *single = json_object_get(o, "single");
	int texts = 0, rc = 0;
	if (!json_is_array(single))
		return err_set(
			err, ERR_FORMAT, "%s: field \"single\": expected a list, found %s", what, pipeline_json_kind(single));
	if (t->nprefix || t->nsuffix)
		return err_set(err, ERR_UNSUPPORTED, "%s: a second TemplateProcessing that adds tokens; expected one", what);
	for (size_t i = 0; i < json_array_size(single) && !rc; i++) {
		const json_t *piece = json_array_get(single, i), *special = json_object_get(piece, "SpecialToken");
		const char *name = json_string_value(json_object_get(special, "id"));
		const char *text = json_string_value(json_object_get(json_object_get(piece, "Sequence"), "id"));
		if (name) rc = push_affix(o, name, what, texts ? t->suffix : t->prefix, texts ? &t->nsuffix : &t->nprefix, err);
		else if (text && !strcmp(text, "A")) texts++;
		else
			rc = err_set(err, ERR_UNSUPPORTED,
				"%s: field \"single\"[%zu]: expected a SpecialToken or the Sequence A with their id", what, i);
	}
	if (!rc && texts != 1)
		rc = err_set(
			err, ERR_UNSUPPORTED, "%s: field \"single\": expected the Sequence A once, found it %d times", what, texts);
	return rc;
}

static const struct component post_processors[] = {
	{"ByteLevel", NAMES("type", "add_prefix_space", "trim_offsets", "use_regex"), NULL, NULL},
	{"TemplateProcessing", NAMES("type", "single", "pair", "special_tokens"), NULL, load_template},
	{"Sequence", NAMES("type", "processors"), "processors", NULL},
	{0},
};
static const struct component decoders[] = {
	{"ByteLevel", NAMES("type", "add_prefix_space", "trim_offsets", "use_regex"), NULL, NULL},
	{0},
};

/* Walks a component and, in a Sequence, its parts; last gets the type that came last. */
static int load_component(struct tokenizer *t, const json_t *o, const struct component *table, const char *what,
	int depth, const char **last, struct err *err)
{
	const char *type = json_string_value(json_object_get(o, "type"));
	if (!type)
		return err_set(err, ERR_FORMAT, "%s: expected an object with a string \"type\", found %s", what,
			json_is_object(o) ? "an object without" : pipeline_json_kind(o));
	/* The type decides which fields may stand here; what is not in the table is refused. */
	const struct component *c = table;
	while (c->type && strcmp(c->type, type)) c++;
	if (!c->type)
		return err_set(err, ERR_UNSUPPORTED,
			"%s: type \"%.60s\" is not known here; only byte-level BPE tokenizers (GPT-2, Qwen, Llama 3, SmolLM kinds) "
			"are read",
			what, type);
	if (depth > NESTING_MAX) return err_set(err, ERR_LIMIT, "%s: nested more than %d deep", what, NESTING_MAX);
	if (pipeline_check_keys(o, what, c->fields, err)) return err->code;
	/* A single step: nothing may come behind ByteLevel when text is split. */
	if (!c->parts) {
		if (*last && !strcmp(*last, "ByteLevel") && table == pre_tokenizers)
			return err_set(err, ERR_UNSUPPORTED,
				"%s: type \"%.60s\" after ByteLevel; ByteLevel has to be the last step", what, type);
		*last = c->type;
		return c->load ? c->load(t, o, what, err) : 0;
	}
	/* A Sequence: each part is read under a name of its own, so that an error says where it
	 * stands. */
	const json_t *parts = json_object_get(o, c->parts);
	if (!json_is_array(parts))
		return err_set(
			err, ERR_FORMAT, "%s: field \"%s\": expected a list, found %s", what, c->parts, pipeline_json_kind(parts));
	for (size_t i = 0; i < json_array_size(parts); i++) {
		char *part = xasprintf("%s.%s[%zu]", what, c->parts, i);
		int rc = load_component(t, json_array_get(parts, i), table, part, depth + 1, last, err);
		free(part);
		if (rc) return rc;
	}
	return 0;
}

int pipeline_load(struct tokenizer *t, const json_t *root, const char *path, struct err *err)
{
	static const struct {
		const char *field;
		const struct component *table;
		const char *ends_in;
	} parts[] = {
		{"normalizer", normalizers, NULL},
		{"pre_tokenizer", pre_tokenizers, "ByteLevel"},
		{"post_processor", post_processors, NULL},
		{"decoder", decoders, "ByteLevel"},
	};
	/* An absent part does nothing, but the two that make it byte-level have to be there. */
	for (size_t i = 0; i < ARRAY_LEN(parts); i++) {
		const json_t *o = json_object_get(root, parts[i].field);
		const char *last = NULL;
		char *what = xasprintf("%s: %s", path, parts[i].field);
		int rc = !o || json_is_null(o) ? 0 : load_component(t, o, parts[i].table, what, 0, &last, err);
		if (!rc && parts[i].ends_in && (!last || strcmp(last, parts[i].ends_in)))
			rc = err_set(err, ERR_UNSUPPORTED,
				"%s: expected one that ends in %s, found %s; only byte-level BPE tokenizers are read", what,
				parts[i].ends_in, last ? last : "none");
		free(what);
		if (rc) return rc;
	}
	return 0;
}
