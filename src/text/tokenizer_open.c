/* Reading tokenizer.json: vocabulary, merges and added tokens into the tables that encoding uses.
 *
 * The file is a stranger's: every id, index and length is bounded before it is used, and an error
 * names the file and the field. Two points follow Hugging Face's reader: of two equal merges the
 * later counts, and an added token's id is the vocabulary's where its text is in the vocabulary. */
#include "text/tokenizer_internal.h"
#include "base/base.h"
#include "text/unicode.h"
#include <stdlib.h>
#include <sys/stat.h>

#define VOCAB_ROW_BYTES 32   /* a row of model.vocab as Hugging Face indents it: the maps grow where rows are shorter */
#define NAMES(...) (const char *const[]){__VA_ARGS__, NULL}

/* What reading needs and the finished tokenizer does not. */
struct opener {
	struct tokenizer *t;
	const char *path;
	const json_t *root;
	const json_t *model;     /* root's "model" */
	struct scan_lists lists; /* of the file's text: model.vocab and model.merges, which are empty in root */
	bool is_broken;          /* the text is not JSON */
	struct word_map spelled; /* vocabulary as the file spells it, over `spellings`: what merges refer to */
	struct str spellings;
	struct str bytes; /* of the token or the pair that is being read */
	struct err *err;
};

static int store_token(struct opener *o, int64_t id, const char *bytes, size_t len, unsigned flags)
{
	struct tokenizer *t = o->t;
	if (len > TOKENIZER_TOKEN_BYTES_MAX)
		return err_set(o->err, ERR_LIMIT, "%s: the token of id %lld has %zu bytes, at most %d are read", o->path,
			(long long)id, len, TOKENIZER_TOKEN_BYTES_MAX);
	if (id >= t->tokens_cap) {
		int cap = MAX((int)id + 1, MIN(t->tokens_cap * 2, TOKENIZER_IDS_MAX));
		t->tokens = xrealloc(t->tokens, size_mul((size_t)cap, sizeof(*t->tokens)));
		memset(t->tokens + t->tokens_cap, 0, (size_t)(cap - t->tokens_cap) * sizeof(*t->tokens));
		t->tokens_cap = cap;
	}
	t->ntokens = MAX(t->ntokens, (int)id + 1);
	t->tokens[id] = (struct token){
		.offset = (uint32_t)t->pool.len, .len = (uint32_t)len, .flags = (uint8_t)(TOKEN_PRESENT | flags)};
	str_append(&t->pool, bytes, len);
	return 0;
}

static const struct word_slot *find_spelled(struct opener *o, const char *spelling, size_t len)
{
	return word_map_find(&o->spelled, o->spellings.data, spelling, len);
}

/* A text that is not JSON: what is wrong in it says jansson. */
static int not_json(struct opener *o)
{
	o->is_broken = true;
	return err_set(o->err, ERR_FORMAT, "%s: not JSON", o->path);
}

/* The value at s, for a message about it; NULL when it is not JSON. */
static json_t *value_here(struct scan s, struct slice *text)
{
	struct err ignored = {0};
	json_t *v = NULL;
	if (scan_value(&s, text)) json_parse(text->data, text->len, "", &v, &ignored);
	return v;
}

static int wrong_id(struct opener *o, const struct str *key, struct scan s)
{
	struct slice text;
	json_t *v = value_here(s, &text);
	int rc;
	if (!v) return not_json(o);
	if (!json_is_integer(v))
		rc = err_set(o->err, ERR_FORMAT, "%s: model.vocab[\"%.60s\"]: expected an integer id, found %s", o->path,
			key->data, pipeline_json_kind(v));
	else
		rc = err_set(o->err, ERR_RANGE, "%s: model.vocab[\"%.60s\"]: expected an id from 0 to %d, found %.*s", o->path,
			key->data, TOKENIZER_IDS_MAX - 1, (int)MIN(text.len, 24), text.data);
	json_decref(v);
	return rc;
}

static int install_word(struct opener *o, const struct str *key, int32_t id)
{
	struct tokenizer *t = o->t;
	if (find_spelled(o, key->data, key->len)) return not_json(o); /* a key that is there twice */
	if (id < t->ntokens && t->tokens[id].flags & TOKEN_PRESENT)
		return err_set(o->err, ERR_FORMAT, "%s: model.vocab[\"%.60s\"]: id %d belongs to another token already",
			o->path, key->data, id);
	str_clear(&o->bytes);
	bool from_text = key->len > 0 && alphabet_decode(key->data, key->len, &o->bytes);
	const struct str *bytes = from_text ? &o->bytes : key;
	if (store_token(o, id, bytes->data, bytes->len, 0)) return o->err->code;
	uint32_t at = (uint32_t)o->spellings.len;
	str_append(&o->spellings, key->data, key->len);
	word_map_insert(&o->spelled, o->spellings.data, at, (uint32_t)key->len, id);
	if (from_text) word_map_insert(&t->words, t->pool.data, t->tokens[id].offset, t->tokens[id].len, id);
	return 0;
}

static int load_words(struct opener *o, struct scan *s)
{
	struct str key = {0};
	int rc = 0;
	do {
		int32_t id;
		str_clear(&key);
		str_append(&key, "", 0);
		if (!scan_string(s, &key) || !scan_char(s, ':')) rc = not_json(o);
		else rc = scan_id(s, &id) ? install_word(o, &key, id) : wrong_id(o, &key, *s);
	} while (!rc && scan_char(s, ','));
	str_release(&key);
	return rc || (scan_char(s, '}') && s->p == s->end) ? rc : not_json(o);
}

static int load_vocab(struct opener *o)
{
	struct tokenizer *t = o->t;
	const json_t *vocab = json_object_get(o->model, "vocab");
	struct scan s = {o->lists.vocab.data, o->lists.vocab.data + o->lists.vocab.len}, empty = s;
	if (!s.p || (scan_char(&empty, '{') && scan_char(&empty, '}')))
		return err_set(o->err, ERR_FORMAT, "%s: model.vocab: expected an object of tokens and ids, found %s", o->path,
			s.p ? "an empty one" : pipeline_json_kind(vocab));
	word_map_reserve(&t->words, o->lists.vocab.len / VOCAB_ROW_BYTES);
	word_map_reserve(&o->spelled, o->lists.vocab.len / VOCAB_ROW_BYTES);
	scan_char(&s, '{');
	if (load_words(o, &s)) return o->err->code;
	for (int b = 0; b < 256; b++) {
		char byte = (char)b;
		const struct word_slot *w = word_map_find(&t->words, t->pool.data, &byte, 1);
		t->byte_id[b] = w ? w->id : -1;
	}
	return 0;
}

static int wrong_merge(struct opener *o, size_t i, struct scan s)
{
	struct slice text;
	json_t *v = value_here(s, &text);
	if (!v) return not_json(o);
	int rc = err_set(o->err, ERR_FORMAT,
		"%s: model.merges[%zu]: expected \"left right\" or [\"left\", \"right\"], found %s", o->path, i,
		json_is_string(v) ? "a string without exactly one space" : pipeline_json_kind(v));
	json_decref(v);
	return rc;
}

/* Both spellings: "a b" and ["a", "b"]. The parts are left in o->bytes, one behind the other;
 * returns where the second begins, or SIZE_MAX. */
static size_t read_merge(struct opener *o, struct scan *s)
{
	struct str *b = &o->bytes;
	str_clear(b);
	if (scan_char(s, '[')) {
		if (!scan_string(s, b)) return SIZE_MAX;
		size_t cut = b->len;
		return scan_char(s, ',') && scan_string(s, b) && scan_char(s, ']') ? cut : SIZE_MAX;
	}
	if (!scan_string(s, b) || !b->len) return SIZE_MAX;
	char *space = memchr(b->data, ' ', b->len), *end = b->data + b->len;
	if (!space || memchr(space + 1, ' ', (size_t)(end - space - 1))) return SIZE_MAX;
	memmove(space, space + 1, (size_t)(end - space - 1));
	b->len--;
	return (size_t)(space - b->data);
}

static int install_merge(struct opener *o, size_t i, size_t cut)
{
	const char *b = o->bytes.data;
	struct slice part[3] = {{b, cut}, {b + cut, o->bytes.len - cut}, {b, o->bytes.len}};
	int32_t id[3];
	for (int k = 0; k < 3; k++) {
		const struct word_slot *s = find_spelled(o, part[k].data, part[k].len);
		if (!s)
			return err_set(o->err, ERR_FORMAT, "%s: model.merges[%zu]: \"%.*s\" is not in model.vocab", o->path, i,
				(int)MIN(part[k].len, 60), part[k].data);
		id[k] = s->id;
	}
	merge_map_put(&o->t->merges, id[0], id[1], (uint32_t)i, id[2]);
	return 0;
}

static int load_merges(struct opener *o)
{
	const json_t *merges = json_object_get(o->model, "merges");
	struct scan s = {o->lists.merges.data, o->lists.merges.data + o->lists.merges.len}, empty = s;
	if (!s.p)
		return err_set(
			o->err, ERR_FORMAT, "%s: model.merges: expected a list, found %s", o->path, pipeline_json_kind(merges));
	merge_map_reserve(&o->t->merges, o->t->words.count);
	if (scan_char(&empty, '[') && scan_char(&empty, ']')) return 0;
	scan_char(&s, '[');
	int rc = 0;
	for (size_t i = 0; !rc && (i == 0 || scan_char(&s, ',')); i++) {
		struct scan at = s;
		size_t cut = read_merge(o, &s);
		rc = cut == SIZE_MAX ? wrong_merge(o, i, at) : install_merge(o, i, cut);
	}
	return rc || (scan_char(&s, ']') && s.p == s.end) ? rc : not_json(o);
}

/* The model's switches: what changes nothing is accepted, what this room cannot do is refused. */
static int load_switches(struct opener *o, const char *what, const char **unk)
{
	static const char *const affixes[] = {"continuing_subword_prefix", "end_of_word_suffix"};
	const json_t *m = o->model, *dropout = json_object_get(m, "dropout");
	const char *type = "BPE";
	bool byte_fallback = false;
	/* A field that is not known could change what text becomes, so it is refused and not
	 * ignored. */
	if (pipeline_check_keys(m, what,
			NAMES("type", "dropout", "unk_token", "continuing_subword_prefix", "end_of_word_suffix", "fuse_unk",
				"byte_fallback", "ignore_merges", "vocab", "merges"),
			o->err))
		return o->err->code;
	if (json_opt_str(m, what, "type", &type, o->err) || json_opt_str(m, what, "unk_token", unk, o->err) ||
		json_opt_bool(m, what, "byte_fallback", &byte_fallback, o->err) ||
		json_opt_bool(m, what, "fuse_unk", &o->t->fuse_unk, o->err) ||
		json_opt_bool(m, what, "ignore_merges", &o->t->ignore_merges, o->err))
		return o->err->code;
	/* These would give other tokens, or not the same ones each time. */
	if (strcmp(type, "BPE"))
		return err_set(o->err, ERR_UNSUPPORTED, "%s: type \"%.60s\": only byte-level BPE is read", what, type);
	if (byte_fallback)
		return err_set(o->err, ERR_UNSUPPORTED,
			"%s: field \"byte_fallback\": expected false, found true; only byte-level BPE is read", what);
	if (dropout && !json_is_null(dropout) && !(json_is_number(dropout) && json_number_value(dropout) == 0))
		return err_set(o->err, ERR_UNSUPPORTED,
			"%s: field \"dropout\": expected null or 0, found %s; encoding here is deterministic", what,
			json_is_number(dropout) ? "another number" : pipeline_json_kind(dropout));
	/* Affixes are accepted only when they are empty. */
	for (size_t i = 0; i < ARRAY_LEN(affixes); i++) {
		const char *text = "";
		if (json_opt_str(m, what, affixes[i], &text, o->err)) return o->err->code;
		if (*text)
			return err_set(o->err, ERR_UNSUPPORTED,
				"%s: field \"%s\": expected none, found \"%.60s\"; only byte-level BPE is read", what, affixes[i],
				text);
	}
	return 0;
}

static int load_model(struct opener *o)
{
	const char *unk = NULL;
	char *what = xasprintf("%s: model", o->path);
	int rc = load_switches(o, what, &unk);
	free(what);
	if (!rc) rc = load_vocab(o);
	if (!rc) rc = load_merges(o);
	const struct word_slot *s = !rc && unk ? find_spelled(o, unk, strlen(unk)) : NULL;
	o->t->unk_id = s ? s->id : -1;
	return rc;
}

struct added_row {
	struct added a;
	const char *content;
	bool special;
	bool normalized; /* it is looked for in the normalised text */
};

static int read_added(struct opener *o, const json_t *v, const char *what, struct added_row *r)
{
	if (!json_is_object(v))
		return err_set(o->err, ERR_FORMAT, "%s: expected an object, found %s", what, pipeline_json_kind(v));
	if (pipeline_check_keys(
			v, what, NAMES("id", "content", "single_word", "lstrip", "rstrip", "normalized", "special"), o->err))
		return o->err->code;
	int64_t id = 0;
	if (json_get_int(v, what, "id", 0, TOKENIZER_IDS_MAX - 1, &id, o->err) ||
		json_get_str(v, what, "content", &r->content, o->err) || json_opt_bool(v, what, "special", &r->special, o->err))
		return o->err->code;
	r->a.id = (int32_t)id;
	r->normalized = !r->special;
	if (json_opt_bool(v, what, "single_word", &r->a.single_word, o->err) ||
		json_opt_bool(v, what, "lstrip", &r->a.lstrip, o->err) ||
		json_opt_bool(v, what, "rstrip", &r->a.rstrip, o->err) ||
		json_opt_bool(v, what, "normalized", &r->normalized, o->err))
		return o->err->code;
	return 0;
}

static int install_added(struct opener *o, const struct added_row *r, const char *what)
{
	struct tokenizer *t = o->t;
	size_t len = strlen(r->content);
	if (!len) return 0; /* tokenizers skips these too */
	const struct word_slot *s = find_spelled(o, r->content, len);
	bool taken = r->a.id < t->ntokens && t->tokens[r->a.id].flags & (s ? TOKEN_ADDED : TOKEN_PRESENT);
	if (s && s->id != r->a.id)
		return err_set(
			o->err, ERR_FORMAT, "%s: \"%.60s\" has id %d, but %d in model.vocab", what, r->content, r->a.id, s->id);
	if (taken)
		return err_set(o->err, ERR_FORMAT, "%s: \"%.60s\" has id %d, which belongs to another token already", what,
			r->content, r->a.id);
	str_clear(&o->bytes);
	if (r->normalized && t->nfc) nfc_append(&o->bytes, r->content, len);
	else str_append(&o->bytes, r->content, len);
	/* tokenizers looks a token's normal form up among the special contents as they were written:
	 * one that NFC changes is never skipped in decoding. */
	bool skipped = r->special && o->bytes.len == len && !memcmp(o->bytes.data, r->content, len);
	if (store_token(o, r->a.id, o->bytes.data, o->bytes.len, TOKEN_ADDED | (skipped ? TOKEN_SPECIAL : 0)))
		return o->err->code;
	added_insert(r->normalized ? &t->added_normalized : &t->added_raw, &r->a, o->bytes.data, o->bytes.len);
	return 0;
}

static int load_added(struct opener *o)
{
	const json_t *list = json_object_get(o->root, "added_tokens");
	if (list && !json_is_null(list) && !json_is_array(list))
		return err_set(
			o->err, ERR_FORMAT, "%s: added_tokens: expected a list, found %s", o->path, pipeline_json_kind(list));
	int rc = 0;
	for (size_t i = 0; i < json_array_size(list) && !rc; i++) {
		struct added_row row = {0};
		char *what = xasprintf("%s: added_tokens[%zu]", o->path, i);
		rc = read_added(o, json_array_get(list, i), what, &row);
		if (!rc) rc = install_added(o, &row, what);
		free(what);
	}
	return rc;
}

static int check_affixes(struct opener *o)
{
	const struct tokenizer *t = o->t;
	for (int i = 0; i < t->nprefix + t->nsuffix; i++) {
		int32_t id = i < t->nprefix ? t->prefix[i] : t->suffix[i - t->nprefix];
		if (id >= t->ntokens || !(t->tokens[id].flags & TOKEN_PRESENT))
			return err_set(o->err, ERR_FORMAT, "%s: post_processor: adds id %d, which no token has", o->path, id);
	}
	return 0;
}

static int load(struct opener *o)
{
	if (!json_is_object(o->root))
		return err_set(o->err, ERR_FORMAT, "%s: expected an object, found %s", o->path, pipeline_json_kind(o->root));
	/* truncation and padding are settings of a caller that happened to be saved; transformers
	 * resets them on every call. */
	if (pipeline_check_keys(o->root, o->path,
			NAMES("version", "truncation", "padding", "added_tokens", "normalizer", "pre_tokenizer", "post_processor",
				"decoder", "model"),
			o->err))
		return o->err->code;
	o->model = json_object_get(o->root, "model");
	if (!json_is_object(o->model))
		return err_set(
			o->err, ERR_FORMAT, "%s: model: expected an object, found %s", o->path, pipeline_json_kind(o->model));
	int rc = pipeline_load(o->t, o->root, o->path, o->err);
	if (!rc) rc = load_model(o);
	if (!rc) rc = load_added(o);
	if (!rc) rc = check_affixes(o);
	return rc;
}

/* Reads the file, all of which stays in text; the two long lists are cut out of *root. */
static int read_file(struct opener *o, struct str *text, json_t **root)
{
	struct str rest = {0};
	int rc = file_read(o->path, TOKENIZER_FILE_BYTES_MAX, text, o->err);
	if (rc) return rc;
	scan_lists_cut((struct slice){text->data, text->len}, &o->lists, &rest);
	rc = json_parse(rest.data ? rest.data : "", rest.len, o->path, root, o->err);
	o->is_broken = rc;
	str_release(&rest);
	return rc;
}

int tokenizer_open(const char *path, struct tokenizer **out, struct err *err)
{
	struct stat st;
	struct err own = {0};
	bool is_dir = !stat(path, &st) && S_ISDIR(st.st_mode);
	char *file = is_dir ? path_join(path, "tokenizer.json") : xstrdup(path);
	struct opener o = {.path = file, .err = &own};
	struct str text = {0};
	json_t *root = NULL, *whole = NULL;
	*out = NULL;
	/* Errors go to own first, because the whole file may have a better one to tell. */
	int rc = read_file(&o, &text, &root);
	if (!rc) {
		o.t = xcalloc(1, sizeof(*o.t));
		o.root = root;
		rc = load(&o);
	}
	/* The long lists were cut out before the parse: of broken JSON the whole text tells the right
	 * place. */
	if (o.is_broken && json_parse(text.data, text.len, file, &whole, err)) rc = err->code;
	else if (rc) err_set(err, rc, "%s", own.text);
	else *out = o.t;
	if (rc) tokenizer_free(o.t);
	json_decref(root);
	json_decref(whole);
	free(o.spelled.slots);
	str_release(&o.spellings);
	str_release(&o.bytes);
	str_release(&text);
	free(file);
	return rc;
}
