/* tokenizer_write: a tokenizer.json from tokens, merges and the name of a family. What the family's
 * original file says about normaliser, pre-tokenizer and post-processor is one row of a table.
 * Control and added tokens stand in the vocabulary too, so that an id is the token's index whatever
 * its kind. */
#include "text/tokenizer_internal.h"
#include "base/base.h"
#include "text/unicode.h"
#include <stdlib.h>
#include <unistd.h>

struct family {
	const char *name;
	bool nfc;            /* text is brought to NFC first */
	bool single_digits;  /* each is a word of its own */
	bool ignore_merges;  /* a word that is a token stays whole */
	const char *pattern; /* NULL: ByteLevel's own, GPT-2's */
};

#define LLAMA3_PATTERN \
	"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}{1,3}" \
	"| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"
#define QWEN2_PATTERN \
	"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}" \
	"| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"

static const struct family families[] = {
	{"gpt-2", false, false, false, NULL},
	{"qwen2", true, false, false, QWEN2_PATTERN},
	{"llama-bpe", false, false, true, LLAMA3_PATTERN},
	{"smollm", false, true, false, NULL},
};

static const struct family *family_find(const char *name)
{
	for (size_t i = 0; i < ARRAY_LEN(families); i++)
		if (!strcmp(families[i].name, name)) return &families[i];
	return NULL;
}

static json_t *byte_level(bool use_regex)
{
	return json_pack(
		"{s:s, s:b, s:b, s:b}", "type", "ByteLevel", "add_prefix_space", 0, "trim_offsets", 1, "use_regex", use_regex);
}

static json_t *pre_tokenizer(const struct family *f)
{
	json_t *steps = json_array();
	if (f->single_digits)
		json_array_append_new(steps, json_pack("{s:s, s:b}", "type", "Digits", "individual_digits", 1));
	if (f->pattern)
		json_array_append_new(steps,
			json_pack("{s:s, s:{s:s}, s:s, s:b}", "type", "Split", "pattern", "Regex", f->pattern, "behavior",
				"Isolated", "invert", 0));
	json_array_append_new(steps, byte_level(!f->pattern));
	return json_pack("{s:s, s:o}", "type", "Sequence", "pretokenizers", steps);
}

static json_t *piece(const char *kind, const char *id, int type)
{
	return json_pack("{s:{s:s, s:i}}", kind, "id", id, "type_id", type);
}

static json_t *post_processor(const char *bos, int32_t bos_id)
{
	if (!bos) return byte_level(false);
	json_t *single = json_pack("[o, o]", piece("SpecialToken", bos, 0), piece("Sequence", "A", 0));
	json_t *pair = json_pack("[o, o, o, o]", piece("SpecialToken", bos, 0), piece("Sequence", "A", 0),
		piece("SpecialToken", bos, 1), piece("Sequence", "B", 1));
	json_t *special = json_pack("{s:{s:s, s:[i], s:[s]}}", bos, "id", bos, "ids", (int)bos_id, "tokens", bos);
	json_t *template = json_pack("{s:s, s:o, s:o, s:o}", "type", "TemplateProcessing", "single", single, "pair", pair,
		"special_tokens", special);
	return json_pack("{s:s, s:[o, o]}", "type", "Sequence", "processors", byte_level(false), template);
}

/* ---- tokens and merges ---- */

static int check_text(struct slice s, const char *what, size_t i, struct err *err)
{
	if (!s.len || memchr(s.data, 0, s.len))
		return err_set(err, ERR_FORMAT, "%s %zu: %s", what, i, s.len ? "has a NUL byte" : "is empty");
	size_t valid = utf8_valid_prefix(s.data, s.len);
	if (valid < s.len) return err_set(err, ERR_FORMAT, "%s %zu: byte %zu is not valid UTF-8", what, i, valid);
	return 0;
}

static int vocabulary(const struct tokenizer_parts *p, json_t *vocab, json_t *added, struct err *err)
{
	if (!p->ntokens || p->ntokens > TOKENIZER_IDS_MAX)
		return err_set(err, ERR_LIMIT, "%zu tokens; expected 1 to %d", p->ntokens, TOKENIZER_IDS_MAX);
	for (size_t i = 0; i < p->ntokens; i++) {
		struct slice token = p->tokens[i];
		if (p->kinds[i] == TOKEN_KIND_UNUSED) continue;
		int rc = check_text(token, "token", i, err);
		if (rc) return rc;
		if (json_object_getn(vocab, token.data, token.len))
			return err_set(err, ERR_FORMAT, "token %zu: \"%.*s\" is token %lld already", i, (int)MIN(token.len, 60),
				token.data, (long long)json_integer_value(json_object_getn(vocab, token.data, token.len)));
		json_object_setn_new(vocab, token.data, token.len, json_integer((json_int_t)i));
		if (p->kinds[i] == TOKEN_KIND_TEXT) continue;
		json_array_append_new(added,
			json_pack("{s:i, s:o, s:b, s:b, s:b, s:b, s:b}", "id", (int)i, "content",
				json_stringn(token.data, token.len), "single_word", 0, "lstrip", 0, "rstrip", 0, "normalized", 0,
				"special", p->kinds[i] == TOKEN_KIND_CONTROL));
	}
	return 0;
}

static int merge_list(const struct tokenizer_parts *p, json_t *merges, struct err *err)
{
	for (size_t i = 0; i < p->nmerges; i++) {
		int rc = check_text(p->merges[i], "merge", i, err);
		if (rc) return rc;
		json_array_append_new(merges, json_stringn(p->merges[i].data, p->merges[i].len));
	}
	return 0;
}

/* ---- the file ---- */

static json_t *root_json(
	const struct family *f, const char *bos, int32_t bos_id, json_t *vocab, json_t *added, json_t *merges)
{
	json_t *model = json_pack("{s:s, s:n, s:n, s:n, s:n, s:b, s:b, s:b, s:O, s:O}", "type", "BPE", "dropout",
		"unk_token", "continuing_subword_prefix", "end_of_word_suffix", "fuse_unk", 0, "byte_fallback", 0,
		"ignore_merges", f->ignore_merges, "vocab", vocab, "merges", merges);
	return json_pack("{s:s, s:n, s:n, s:O, s:o, s:o, s:o, s:o, s:o}", "version", "1.0", "truncation", "padding",
		"added_tokens", added, "normalizer", f->nfc ? json_pack("{s:s}", "type", "NFC") : json_null(), "pre_tokenizer",
		pre_tokenizer(f), "post_processor", post_processor(bos, bos_id), "decoder", byte_level(true), "model", model);
}

static int write_json(const json_t *root, const char *path, struct err *err)
{
	char *text = json_dumps(root, JSON_INDENT(1));
	CHECK(text);
	int rc = file_write_atomic(path, text, strlen(text), err);
	free(text);
	return rc;
}

/* What this room cannot read back must not stay: it would look like a tokenizer. */
static int check_opens(const char *path, struct err *err)
{
	struct tokenizer *t = NULL;
	int rc = tokenizer_open(path, &t, err);
	if (rc) unlink(path);
	tokenizer_free(t);
	return rc;
}

int tokenizer_write(const struct tokenizer_parts *p, const char *path, struct err *err)
{
	/* What the caller gave is checked before anything is built from it. */
	const struct family *f = family_find(p->kind);
	if (!f)
		return err_set(err, ERR_UNSUPPORTED,
			"pre-tokenizer \"%.60s\" is not known; known are gpt-2, qwen2, llama-bpe and smollm", p->kind);
	if (p->bos_id >= 0 && ((size_t)p->bos_id >= p->ntokens || p->kinds[p->bos_id] != TOKEN_KIND_CONTROL))
		return err_set(err, ERR_RANGE,
			"the token put before every text is %d, which is not a control token of the %zu tokens", p->bos_id,
			p->ntokens);
	json_t *vocab = json_object(), *added = json_array(), *merges = json_array(), *root = NULL;
	char *bos = p->bos_id < 0 ? NULL : xstrndup(p->tokens[p->bos_id].data, p->tokens[p->bos_id].len);
	/* Tokens and merges are complete before the file is written, so that an error leaves none. */
	int rc = vocabulary(p, vocab, added, err);
	if (!rc) rc = merge_list(p, merges, err);
	if (!rc) {
		root = root_json(f, bos, p->bos_id, vocab, added, merges);
		rc = write_json(root, path, err);
	}
	/* The file is opened once as any reader would, so that no file stays that cannot be read. */
	if (!rc) rc = check_opens(path, err);
	free(bos);
	json_decref(vocab);
	json_decref(added);
	json_decref(merges);
	json_decref(root);
	return rc;
}
