/* hone init: a random Qwen3-style model folder with a tokenizer trained on the given texts. What
 * comes out is a Hugging Face folder like any other (transformers loads it), so small models that
 * are trained from nothing take the same road as downloaded ones.
 *
 * Texts are files taken whole, or JSONL rows (gzip or not) of which the fields in text_fields
 * count: tasks, pairs and plain corpora need no conversion. */
#include "cli/cli.h"
#include "base/base.h"
#include "model/model.h"
#include "ops/ops.h"
#include "text/text.h"
#include "text/unicode.h"

#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#define TEXT_BYTES_MAX ((size_t)2 << 30)

/* Values of the options below, whose help says what each is. */
struct init_options {
	const char *out;
	const char *text;
	int64_t hidden_size;
	int64_t num_hidden_layers;
	int64_t num_attention_heads;
	int64_t num_key_value_heads;
	int64_t head_dim;
	int64_t intermediate_size;
	int64_t max_position_embeddings;
	int64_t vocab_size;
	int64_t seed;
	double rope_theta;
	bool tie_word_embeddings;
	bool nfc;
	bool json;
};

#define O(type, field, help, choices) { #field, type, offsetof(struct init_options, field), help, choices }
static const struct option_def defs[] = {
	O(OPTION_STR, out, "folder to write", NULL),
	O(OPTION_STR, text,
		"file the tokenizer is trained on (text, or .jsonl[.gz] rows); more may follow as further words", NULL),
	O(OPTION_INT, vocab_size, "rows of the embedding; the tokenizer has at most as many tokens", "1 to 1048576"),
	O(OPTION_INT, hidden_size, "width of the residual stream", "1 to 65536"),
	O(OPTION_INT, num_hidden_layers, "blocks", "1 to 1024"),
	O(OPTION_INT, num_attention_heads, "query heads", "1 to 1024"),
	O(OPTION_INT, num_key_value_heads, "key and value heads; divides the query heads", "1 to 1024"),
	O(OPTION_INT, head_dim, "width of a head, even", "2 to 1024"),
	O(OPTION_INT, intermediate_size, "width of the MLP", "1 to 262144"),
	O(OPTION_INT, max_position_embeddings, "longest context, tokens", "1 to 16777216"),
	O(OPTION_FLOAT, rope_theta, "base of the rotary frequencies", "1 to 1e11"),
	O(OPTION_BOOL, tie_word_embeddings, "one matrix for embedding and head", NULL),
	O(OPTION_BOOL, nfc, "the tokenizer brings text to NFC first", NULL),
	O(OPTION_INT, seed, "of the weights", NULL),
	O(OPTION_BOOL, json, "print one JSON object", NULL),
};

/* <think> and </think> stay in decoded text, which the answer's extractor reads; the others never
 * do. */
static const char *const special_tokens[] = {"<|endoftext|>", "<|im_start|>", "<|im_end|>"};
static const char *const plain_tokens[] = {"<think>", "</think>"};
static const char *const text_fields[] = {"source", "prompt", "plan", "code", "completion", "text"};

/* ---- texts ---- */

/* All texts one behind the other. */
struct texts {
	struct str bytes;
	size_t *ends; /* (count) where each text ends, in bytes */
	size_t count;
	size_t cap; /* of ends */
};

static int texts_add(struct texts *t, const char *data, size_t len, struct err *err)
{
	if (t->bytes.len + len > TEXT_BYTES_MAX)
		return err_set(err, ERR_LIMIT,
			"the texts have more than %zu GiB; a part of them is enough to train a tokenizer", TEXT_BYTES_MAX >> 30);
	if (t->count == t->cap) {
		t->cap = t->cap ? t->cap * 2 : 256;
		t->ends = xrealloc(t->ends, size_mul(t->cap, sizeof *t->ends));
	}
	str_append(&t->bytes, data, len);
	t->ends[t->count++] = t->bytes.len;
	return 0;
}

static int add_row(void *ctx, const json_t *row, const char *where, struct err *err)
{
	int rc = 0;
	for (size_t i = 0; i < ARRAY_LEN(text_fields) && !rc; i++) {
		const json_t *v = json_object_get(row, text_fields[i]);
		if (json_is_string(v)) rc = texts_add(ctx, json_string_value(v), json_string_length(v), err);
	}
	return rc;
}

static int add_rows(struct texts *t, const char *path, struct err *err)
{
	size_t before = t->count;
	int rc = jsonl_each(path, JSONL_LINE_MAX, add_row, t, err);
	if (!rc && t->count == before)
		rc = err_set(
			err, ERR_FORMAT, "%s: no row has a string named source, prompt, plan, code, completion or text", path);
	return rc;
}

static int add_file(struct texts *t, const char *path, struct err *err)
{
	if (text_ends_in(path, ".jsonl") || text_ends_in(path, ".jsonl.gz")) return add_rows(t, path, err);
	struct str text = {0};
	int rc = file_read(path, TEXT_BYTES_MAX, &text, err);
	size_t valid = rc ? 0 : utf8_valid_prefix(text.data, text.len);
	if (!rc && valid < text.len)
		rc = err_set(err, ERR_FORMAT, "%s: not UTF-8: byte %zu is 0x%02x; convert the file to UTF-8", path, valid,
			(uint8_t)text.data[valid]);
	if (!rc && !text.len) rc = err_set(err, ERR_FORMAT, "%s: the file is empty; a tokenizer is trained on text", path);
	if (!rc) rc = texts_add(t, text.data, text.len, err);
	str_release(&text);
	return rc;
}

static int train_tokenizer(const struct init_options *o, const struct texts *t, const char *path, struct err *err)
{
	struct slice *slices = xcalloc(t->count, sizeof *slices);
	for (size_t i = 0, at = 0; i < t->count; at = t->ends[i++])
		slices[i] = (struct slice){t->bytes.data + at, t->ends[i] - at};
	struct bpe_train_options b = {.vocab_size = (int)o->vocab_size,
		.special_tokens = special_tokens,
		.nspecial = ARRAY_LEN(special_tokens),
		.plain_tokens = plain_tokens,
		.nplain = ARRAY_LEN(plain_tokens),
		.nfc = o->nfc};
	int rc = tokenizer_train(slices, t->count, &b, path, err);
	free(slices);
	return rc;
}

/* ---- the folder ---- */

/* The chat template is the one that text.h calls "plain". */
static int save_tokenizer_config(const struct init_options *o, struct err *err)
{
	return cli_save_json(o->out, "tokenizer_config.json",
		json_pack("{s:s, s:b, s:b, s:s, s:s, s:I, s:b, s:s}", "tokenizer_class", "PreTrainedTokenizerFast",
			"add_bos_token", 0, "add_prefix_space", 0, "eos_token", "<|endoftext|>", "pad_token", "<|endoftext|>",
			"model_max_length", (json_int_t)o->max_position_embeddings, "clean_up_tokenization_spaces", 0,
			"chat_template", chat_plain_jinja),
		err);
}

/* What generate() of transformers would take from here; hone samples at temperature 1 unless told
 * otherwise. */
static int save_generation_config(const struct init_options *o, const struct model_config *c, struct err *err)
{
	return cli_save_json(o->out, "generation_config.json",
		json_pack("{s:b, s:[i, i], s:i, s:f, s:f, s:i}", "do_sample", 1, "eos_token_id", c->eos_token_id,
			c->eos_extra[0], "pad_token_id", c->pad_token_id, "temperature", 1.0, "top_p", 1.0, "top_k", 0),
		err);
}

/* Without the tokens that the tokenizer will have. */
static struct model_config config_of(const struct init_options *o)
{
	return (struct model_config){
		.vocab_size = (int)o->vocab_size,
		.hidden_size = (int)o->hidden_size,
		.num_hidden_layers = (int)o->num_hidden_layers,
		.num_attention_heads = (int)o->num_attention_heads,
		.num_key_value_heads = (int)o->num_key_value_heads,
		.head_dim = (int)o->head_dim,
		.intermediate_size = (int)o->intermediate_size,
		.max_position_embeddings = (int)o->max_position_embeddings,
		.rms_norm_eps = 1e-6,
		.rope_theta = o->rope_theta,
		.tie_word_embeddings = o->tie_word_embeddings,
		.qk_norm = true,
		.bos_token_id = -1,
		.eos_token_id = -1,
		.pad_token_id = -1,
	};
}

/* Whether some device can run it, and this machine has room for its largest tensor, which is drawn
 * as a whole. */
static int shape_check(const struct model_config *c, struct err *err)
{
	struct device_options device = {.device = "cpu"};
	struct ops cpu;
	size_t unused, has = (size_t)sysconf(_SC_PHYS_PAGES) * (size_t)sysconf(_SC_PAGESIZE);
	int64_t heads = (int64_t)c->num_attention_heads * c->head_dim,
			rows = MAX(MAX((int64_t)c->vocab_size, heads), (int64_t)c->intermediate_size);
	double mib = 1.0 / (1 << 20), needed = mib * sizeof(float) * (double)rows * c->hidden_size;
	int rc = device_describe(&device, &cpu, &unused, err);
	if (!rc) rc = model_limits_check(c, &cpu, "the model", err);
	if (rc || needed <= mib * (double)has) return rc;
	return err_set(err, ERR_LIMIT,
		"the largest tensor, of %lld rows of --hidden_size %d, needs %.0f MiB, but this machine has %.0f MiB; take a "
		"smaller model",
		(long long)rows, c->hidden_size, needed, mib * (double)has);
}

static void print_result(const struct init_options *o, const struct model_config *c, int tokens, size_t texts)
{
	int64_t params = model_config_params(c);
	if (!o->json) {
		printf("%s: %lld parameters, %d tokens (of %d rows), trained on %zu %s\n", o->out, (long long)params, tokens,
			c->vocab_size, texts, plural((int64_t)texts, "text", "texts"));
		return;
	}
	json_t *result = json_pack("{s:s, s:I, s:i, s:i, s:I}", "out", o->out, "parameters", (json_int_t)params, "tokens",
		tokens, "vocab_size", c->vocab_size, "texts", (json_int_t)texts);
	char *text = json_dumps(result, JSON_COMPACT);
	puts(text);
	free(text);
	json_decref(result);
}

static int init_run(const struct init_options *o, const struct texts *texts, struct err *err)
{
	char *path = path_join(o->out, "tokenizer.json");
	struct tokenizer *t = NULL;
	struct model_config c = config_of(o);
	int rc = dir_claim(o->out, err);
	if (!rc) rc = model_folder_begin(o->out, err);
	if (!rc) rc = train_tokenizer(o, texts, path, err);
	if (!rc) rc = tokenizer_open(path, &t, err);
	if (!rc) {
		c.eos_token_id = c.pad_token_id = tokenizer_id(t, "<|endoftext|>");
		c.eos_extra[c.neos_extra++] = tokenizer_id(t, "<|im_end|>");
		rc = model_create_saved(&c, (uint64_t)o->seed, o->out, err);
	}
	if (!rc) rc = save_tokenizer_config(o, err);
	if (!rc) rc = save_generation_config(o, &c, err);
	if (!rc) print_result(o, &c, tokenizer_vocab_size(t), texts->count);
	tokenizer_free(t);
	free(path);
	return rc;
}

static int check_options(const struct init_options *o, struct err *err)
{
	if (!o->out || !o->text)
		return err_set(
			err, ERR_USAGE, "--%s is missing: `hone init --out DIR --text FILE...`", o->out ? "text" : "out");
	if (o->num_attention_heads % o->num_key_value_heads)
		return err_set(err, ERR_USAGE, "--num_attention_heads %lld is no multiple of --num_key_value_heads %lld",
			(long long)o->num_attention_heads, (long long)o->num_key_value_heads);
	if (o->head_dim % 2)
		return err_set(err, ERR_USAGE, "--head_dim %lld: expected an even number", (long long)o->head_dim);
	return 0;
}

int cmd_init(int argc, char **argv)
{
	struct init_options o = {
		.vocab_size = 4096,
		.hidden_size = 256,
		.num_hidden_layers = 5,
		.num_attention_heads = 4,
		.num_key_value_heads = 2,
		.head_dim = 64,
		.intermediate_size = 768,
		.max_position_embeddings = 4096,
		.rope_theta = 1e6,
		.tie_word_embeddings = true,
	};
	struct err err = {0};
	struct texts texts = {0};
	int npos,
		rc = options_parse("init", "make a random model folder and train its tokenizer on texts", defs, ARRAY_LEN(defs),
			&o, argc, argv, &npos, &err);
	if (rc > 0) return 0;
	/* The options and the place of the result are checked before the long part: the tokenizer. */
	struct model_config shape = config_of(&o);
	if (!rc) rc = check_options(&o, &err);
	if (!rc) rc = shape_check(&shape, &err);
	if (!rc) rc = cli_out_check(o.out, CLI_OUT_FOLDER, &err);
	/* --text takes the first file; further ones follow as positional arguments. */
	if (!rc) rc = add_file(&texts, o.text, &err);
	for (int i = 1; i <= npos && !rc; i++) rc = add_file(&texts, argv[i], &err);
	if (!rc) rc = init_run(&o, &texts, &err);
	str_release(&texts.bytes);
	free(texts.ends);
	return rc ? cli_fail("init", &err) : 0;
}
