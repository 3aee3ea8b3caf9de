/* hone import: a GGUF file as a Hugging Face model folder. The tokenizer comes first, because it is
 * what files are refused for; config.json comes last, because a folder without it is no model to
 * anyone. */
#include "cli/cli.h"
#include "base/base.h"
#include "base/dtype.h"
#include "model/model.h"
#include "tensor/tensor.h"
#include "text/text.h"

#include <stdlib.h>

/* Values of the options below, whose help says what each is. */
struct import_options {
	const char *out;
	const char *dtype;
	const char *tokenizer;
};

#define O(type, field, help, choices) { #field, type, offsetof(struct import_options, field), help, choices }
static const struct option_def defs[] = {
	O(OPTION_STR, out,
		"folder to write: config.json, model.safetensors, tokenizer.json, tokenizer_config.json, "
		"generation_config.json",
		NULL),
	O(OPTION_STR, dtype, "of the weights; float32 is exact, bfloat16 rounds", "float32|bfloat16"),
	O(OPTION_STR, tokenizer, "model folder whose tokenizer files are copied in place of those made from the file",
		NULL),
};

struct import {
	const struct import_options *o;
	struct gguf *g;
	struct model_config config;
	struct tokenizer_parts parts;
};

/* ---- tokenizer ---- */

static int strings_get(struct import *im, const char *key, const struct slice **out, size_t *count, struct err *err)
{
	const struct gguf_value *v = gguf_find(im->g, key);
	if (!v || v->type != GGUF_ARRAY || v->element != GGUF_STRING)
		return err_set(err, ERR_FORMAT, "%s: metadata '%s': expected a list of strings, found %s", gguf_path(im->g),
			key, v ? "another kind" : "none");
	*out = v->strings;
	*count = (size_t)v->count;
	return 0;
}

/* llama.cpp's numbers 1 to 6; the last, a byte for text without tokens, has no place in byte-level
 * BPE. */
static int kinds_get(struct import *im, struct err *err)
{
	static const enum token_kind kinds[] = {[1] = TOKEN_KIND_TEXT,
		[2] = TOKEN_KIND_CONTROL,
		[3] = TOKEN_KIND_CONTROL,
		[4] = TOKEN_KIND_ADDED,
		[5] = TOKEN_KIND_UNUSED};
	static const char key[] = "tokenizer.ggml.token_type";
	const struct gguf_value *v = gguf_find(im->g, key);
	if (!v || v->type != GGUF_ARRAY || v->element != GGUF_I32 || v->count != im->parts.ntokens)
		return err_set(err, ERR_FORMAT, "%s: metadata '%s': expected a list of %zu int32", gguf_path(im->g), key,
			im->parts.ntokens);
	enum token_kind *out = xcalloc(MAX(im->parts.ntokens, 1), sizeof *out);
	im->parts.kinds = out;
	for (size_t i = 0; i < im->parts.ntokens; i++) {
		int64_t type = gguf_int_at(v, i);
		if (type < 1 || type >= (int64_t)ARRAY_LEN(kinds))
			return err_set(err, ERR_UNSUPPORTED, "%s: metadata '%s': token %zu has type %lld; expected 1 to %zu",
				gguf_path(im->g), key, i, (long long)type, ARRAY_LEN(kinds) - 1);
		out[i] = kinds[type];
	}
	return 0;
}

/* Llama 3's tokenizer begins texts with BOS unless the file says otherwise; the other families do
 * not. */
static int bos_get(struct import *im, struct err *err)
{
	bool add_bos = !strcmp(im->parts.kind, "llama-bpe"), add_eos = false;
	int rc = gguf_opt_bool(im->g, "tokenizer.ggml.add_bos_token", &add_bos, err);
	if (!rc) rc = gguf_opt_bool(im->g, "tokenizer.ggml.add_eos_token", &add_eos, err);
	if (!rc && add_eos)
		rc = err_set(err, ERR_UNSUPPORTED,
			"%s: metadata 'tokenizer.ggml.add_eos_token' is true; a token after every text is not supported",
			gguf_path(im->g));
	im->parts.bos_id = add_bos ? im->config.bos_token_id : -1;
	return rc;
}

static int parts_get(struct import *im, struct err *err)
{
	const char *model = NULL, *path = gguf_path(im->g);
	int rc = gguf_get_str(im->g, "tokenizer.ggml.model", &model, err);
	if (!rc && strcmp(model, "gpt2"))
		rc = err_set(err, ERR_UNSUPPORTED,
			"%s: tokenizer.ggml.model \"%.40s\" is not supported: only byte-level BPE (gpt2) is", path, model);
	if (!rc && !gguf_find(im->g, "tokenizer.ggml.pre"))
		rc = err_set(err, ERR_NOT_FOUND,
			"%s: metadata 'tokenizer.ggml.pre' is missing, so nothing says how text is split; give the original "
			"model's folder with --tokenizer",
			path);
	if (!rc) rc = gguf_get_str(im->g, "tokenizer.ggml.pre", &im->parts.kind, err);
	if (!rc) rc = strings_get(im, "tokenizer.ggml.tokens", &im->parts.tokens, &im->parts.ntokens, err);
	if (!rc) rc = strings_get(im, "tokenizer.ggml.merges", &im->parts.merges, &im->parts.nmerges, err);
	if (!rc) rc = kinds_get(im, err);
	if (!rc) rc = bos_get(im, err);
	if (!rc && im->parts.ntokens > (size_t)im->config.vocab_size)
		rc = err_set(err, ERR_MISMATCH, "%s: %zu tokens, but the embedding has %d rows", path, im->parts.ntokens,
			im->config.vocab_size);
	return rc;
}

static int set_token(const struct import *im, json_t *config, const char *name, int id, struct err *err)
{
	if (id < 0 || (size_t)id >= im->parts.ntokens) return 0;
	const struct slice *token = &im->parts.tokens[id];
	json_t *text = json_stringn(token->data, token->len);
	if (!text) return err_set(err, ERR_FORMAT, "%s: token %d is not valid UTF-8", gguf_path(im->g), id);
	json_object_set_new(config, name, text);
	return 0;
}

/* The chat template is a program in Jinja. It is kept for those who run it; hone never does. */
static int save_tokenizer_config(const struct import *im, struct err *err)
{
	const struct model_config *c = &im->config;
	const char *template = NULL;
	json_t *config = json_pack("{s:s, s:b, s:b, s:b, s:i}", "tokenizer_class", "PreTrainedTokenizerFast",
		"add_bos_token", im->parts.bos_id >= 0, "add_prefix_space", 0, "clean_up_tokenization_spaces", 0,
		"model_max_length", c->max_position_embeddings);
	int rc = set_token(im, config, "bos_token", c->bos_token_id, err);
	if (!rc) rc = set_token(im, config, "eos_token", c->eos_token_id, err);
	if (!rc) rc = set_token(im, config, "pad_token", c->pad_token_id, err);
	if (!rc) rc = gguf_opt_str(im->g, "tokenizer.chat_template", &template, err);
	if (!rc && template && json_object_set_new(config, "chat_template", json_string(template)))
		rc = err_set(err, ERR_FORMAT, "%s: metadata 'tokenizer.chat_template' is not valid UTF-8", gguf_path(im->g));
	if (!rc) return cli_save_json(im->o->out, "tokenizer_config.json", config, err);
	json_decref(config);
	return rc;
}

static int save_generation_config(const struct import *im, struct err *err)
{
	return cli_save_json(im->o->out, "generation_config.json", model_config_ends(&im->config), err);
}

static int make_tokenizer(struct import *im, struct err *err)
{
	char *path = path_join(im->o->out, "tokenizer.json");
	int rc = parts_get(im, err);
	if (!rc && (rc = tokenizer_write(&im->parts, path, err))) err_prefix(err, "%s", gguf_path(im->g));
	if (!rc) rc = save_tokenizer_config(im, err);
	if (!rc) rc = save_generation_config(im, err);
	free(path);
	return rc;
}

static int copy_tokenizer(const struct import *im, struct err *err)
{
	struct tokenizer *t = NULL;
	int rc = tokenizer_open(im->o->tokenizer, &t, err);
	if (!rc && tokenizer_vocab_size(t) > im->config.vocab_size)
		rc = err_set(err, ERR_MISMATCH, "%s: its ids reach %d, but the embedding of %s has %d rows", im->o->tokenizer,
			tokenizer_vocab_size(t) - 1, gguf_path(im->g), im->config.vocab_size);
	tokenizer_free(t);
	return rc ? rc : model_copy_tokenizer(im->o->tokenizer, im->o->out, err);
}

/* ---- the command ---- */

static int import_run(struct import *im, const char *file, struct err *err)
{
	enum dtype dtype;
	int rc = dtype_from_name(im->o->dtype, &dtype);
	CHECK(!rc);
	rc = gguf_open(file, &im->g, err);
	if (!rc) rc = model_config_from_gguf(im->g, &im->config, err);
	if (!rc) rc = dir_claim(im->o->out, err);
	if (!rc) rc = model_folder_begin(im->o->out, err);
	if (!rc) rc = im->o->tokenizer ? copy_tokenizer(im, err) : make_tokenizer(im, err);
	if (!rc) rc = model_save_from_gguf(im->g, &im->config, dtype, im->o->out, err);
	if (!rc)
		printf("%s: %lld parameters in %s, %d tokens\n", im->o->out, (long long)model_config_params(&im->config),
			im->o->dtype, im->config.vocab_size);
	free((void *)(uintptr_t)im->parts.kinds);
	gguf_close(im->g);
	return rc;
}

int cmd_import(int argc, char **argv)
{
	struct import_options o = {.dtype = "float32"};
	struct import im = {.o = &o};
	struct err err = {0};
	int npos,
		rc = options_parse("import", "FILE.gguf: make a Hugging Face model folder of a GGUF file (llama, qwen2, qwen3)",
			defs, ARRAY_LEN(defs), &o, argc, argv, &npos, &err);
	if (rc == 1) return 0;
	if (!rc && (npos != 1 || !o.out)) rc = err_set(&err, ERR_USAGE, "expected `hone import FILE.gguf --out DIR`");
	if (!rc) rc = cli_out_check(o.out, CLI_OUT_FOLDER, &err);
	if (!rc) rc = import_run(&im, argv[1], &err);
	return rc ? cli_fail("import", &err) : 0;
}
