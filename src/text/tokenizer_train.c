/* Training byte-level BPE: count the words of the texts once, then merge the most frequent adjacent
 * pair again and again.
 *
 * Counts of pairs are kept up to date by the words that a merge changes, so a merge costs what it
 * touches. The queue is lazy: a pair whose count fell since it was queued is queued again with its
 * present count when it comes up. Of equally frequent pairs the lower pair of ids goes first, which
 * with bytes numbered in the order of their alphabet characters is also what Hugging Face's trainer
 * does: the two give the same merges. */
#include "text/tokenizer_internal.h"
#include "base/base.h"
#include "text/unicode.h"
#include <stdlib.h>

struct train_word {
	uint32_t start; /* of its symbols in trainer.symbols */
	uint32_t len;   /* symbols */
	int64_t count;  /* times that it stands in the documents */
};
struct train_pair {
	int32_t left;
	int32_t right;
	int64_t count;   /* over all words */
	uint32_t *words; /* (nwords) words that may hold it */
	uint32_t nwords;
	uint32_t words_cap;
	bool rose;   /* during this merge: it stands in trainer.changed */
	bool merged; /* it is a token */
};
struct train_entry {
	int64_t count;
	uint32_t pair;
}; /* of the queue */

struct trainer {
	struct str bytes;      /* of the distinct words, then of the tokens */
	struct word_map index; /* word bytes -> number */
	struct train_word *words;
	size_t nwords;
	size_t words_cap;
	int32_t *symbols;
	struct train_pair *pairs;
	uint32_t npairs;
	uint32_t pairs_cap;
	uint32_t *pair_slots; /* (pair_mask + 1) hash table of pair numbers + 1 */
	uint32_t pair_mask;
	struct train_entry *queue;
	size_t nqueue;
	size_t queue_cap;
	uint32_t *changed; /* pairs whose count rose during one merge */
	size_t nchanged;
	size_t changed_cap;
	struct slice *tokens;        /* (ntokens): bytes of each id, owned */
	struct word_map token_index; /* over token_bytes */
	struct str token_bytes;
	int32_t (*merges)[2];
	int ntokens;
	int nmerges;
	int merges_cap;
};

#define GROW(array, count, cap) \
	do { \
		if ((count) == (cap)) { \
			(cap) = (cap) ? (cap) * 2 : 64; \
			(array) = xrealloc((array), size_mul((cap), sizeof(*(array)))); \
		} \
	} while (0)

/* ---- words ---- */

static void count_word(void *ctx, const char *word, size_t len)
{
	struct trainer *r = ctx;
	const struct word_slot *s = word_map_find(&r->index, r->bytes.data, word, len);
	if (s) {
		r->words[s->id].count++;
		return;
	}
	CHECKF(r->bytes.len + len < UINT32_MAX, "more than 4 GiB of distinct words");
	GROW(r->words, r->nwords, r->words_cap);
	uint32_t start = (uint32_t)r->bytes.len;
	r->words[r->nwords] = (struct train_word){start, (uint32_t)len, 1};
	str_append(&r->bytes, word, len);
	word_map_insert(&r->index, r->bytes.data, start, (uint32_t)len, (int32_t)r->nwords++);
}

static int count_words(struct trainer *r, const struct slice *texts, size_t count, bool nfc, struct err *err)
{
	const struct stage stage = {.kind = STAGE_SPLIT, .rules = split_rules_qwen()};
	struct str normal = {0};
	int rc = 0;
	for (size_t i = 0; i < count && !rc; i++) {
		struct slice t = texts[i];
		size_t valid = utf8_valid_prefix(t.data, t.len);
		if (valid < t.len) {
			rc = err_set(err, ERR_FORMAT, "text %zu of %zu is not UTF-8: byte %zu is 0x%02x; convert it to UTF-8", i,
				count, valid, (uint8_t)t.data[valid]);
			break;
		}
		if (nfc && !nfc_is_plain(t.data, t.len)) {
			str_clear(&normal);
			nfc_append(&normal, t.data, t.len);
			t = (struct slice){normal.data, normal.len};
		}
		if (t.len) stages_run(&stage, 1, t.data, t.len, count_word, r);
	}
	str_release(&normal);
	return rc;
}

/* ---- pairs ---- */

static uint32_t pair_slot(const struct trainer *r, int32_t left, int32_t right)
{
	uint64_t key = (uint64_t)(uint32_t)left << 32 | (uint32_t)right;
	uint32_t i = (uint32_t)(key * 0x9e3779b97f4a7c15u >> 32) & r->pair_mask;
	while (r->pair_slots[i] &&
		(r->pairs[r->pair_slots[i] - 1].left != left || r->pairs[r->pair_slots[i] - 1].right != right))
		i = (i + 1) & r->pair_mask;
	return i;
}

static uint32_t pair_of(struct trainer *r, int32_t left, int32_t right)
{
	if (!r->pair_slots || (size_t)r->npairs * 2 > r->pair_mask) {
		r->pair_mask = r->pair_slots ? r->pair_mask * 2 + 1 : 1023;
		free(r->pair_slots);
		r->pair_slots = xcalloc((size_t)r->pair_mask + 1, sizeof(*r->pair_slots));
		for (uint32_t i = 0; i < r->npairs; i++)
			r->pair_slots[pair_slot(r, r->pairs[i].left, r->pairs[i].right)] = i + 1;
	}
	uint32_t slot = pair_slot(r, left, right);
	if (!r->pair_slots[slot]) {
		GROW(r->pairs, r->npairs, r->pairs_cap);
		r->pairs[r->npairs] = (struct train_pair){.left = left, .right = right};
		r->pair_slots[slot] = ++r->npairs;
	}
	return r->pair_slots[slot] - 1;
}

/* Counts a pair of word w up or down. */
static void pair_add(struct trainer *r, int32_t left, int32_t right, uint32_t w, int64_t delta)
{
	uint32_t i = pair_of(r, left, right);
	struct train_pair *p = &r->pairs[i];
	p->count += delta;
	if (delta <= 0) return;
	if (!p->nwords || p->words[p->nwords - 1] != w) {
		GROW(p->words, p->nwords, p->words_cap);
		p->words[p->nwords++] = w;
	}
	if (!p->rose && !p->merged) {
		p->rose = true;
		GROW(r->changed, r->nchanged, r->changed_cap);
		r->changed[r->nchanged++] = i;
	}
}

/* ---- the queue ---- */

static bool goes_first(const struct trainer *r, struct train_entry a, struct train_entry b)
{
	const struct train_pair *p = &r->pairs[a.pair], *q = &r->pairs[b.pair];
	if (a.count != b.count) return a.count > b.count;
	return p->left != q->left ? p->left < q->left : p->right < q->right;
}

static void queue_push(struct trainer *r, struct train_entry e)
{
	GROW(r->queue, r->nqueue, r->queue_cap);
	size_t i = r->nqueue++;
	for (; i > 0 && goes_first(r, e, r->queue[(i - 1) / 2]); i = (i - 1) / 2) r->queue[i] = r->queue[(i - 1) / 2];
	r->queue[i] = e;
}

static struct train_entry queue_pop(struct trainer *r)
{
	struct train_entry top = r->queue[0], last = r->queue[--r->nqueue];
	size_t i = 0;
	for (size_t child; (child = 2 * i + 1) < r->nqueue; i = child) {
		if (child + 1 < r->nqueue && goes_first(r, r->queue[child + 1], r->queue[child])) child++;
		if (!goes_first(r, r->queue[child], last)) break;
		r->queue[i] = r->queue[child];
	}
	r->queue[i] = last;
	return top;
}

static void queue_changed(struct trainer *r)
{
	for (size_t i = 0; i < r->nchanged; i++) {
		struct train_pair *p = &r->pairs[r->changed[i]];
		p->rose = false;
		if (p->count > 0) queue_push(r, (struct train_entry){p->count, r->changed[i]});
	}
	r->nchanged = 0;
}

/* ---- merging ---- */

/* The id of the token of these bytes; made when there is none (two ways of merging may end in the
 * same bytes). */
static int32_t token_of(struct trainer *r, const char *bytes, size_t len)
{
	const struct word_slot *s = word_map_find(&r->token_index, r->token_bytes.data, bytes, len);
	if (s) return s->id;
	uint32_t at = (uint32_t)r->token_bytes.len;
	str_append(&r->token_bytes, bytes, len);
	word_map_insert(&r->token_index, r->token_bytes.data, at, (uint32_t)len, r->ntokens);
	char *copy = xmalloc(len);
	memcpy(copy, bytes, len);
	r->tokens[r->ntokens] = (struct slice){copy, len};
	return r->ntokens++;
}

static void merge_in_word(struct trainer *r, uint32_t w, int32_t left, int32_t right, int32_t id)
{
	struct train_word *word = &r->words[w];
	int32_t *s = r->symbols + word->start;
	uint32_t n = word->len, out = 0;
	for (uint32_t i = 0; i < n; i++) {
		if (i + 1 == n || s[i] != left || s[i + 1] != right) {
			s[out++] = s[i];
			continue;
		}
		if (out > 0) {
			pair_add(r, s[out - 1], left, w, -word->count);
			pair_add(r, s[out - 1], id, w, word->count);
		}
		if (i + 2 < n) {
			pair_add(r, right, s[i + 2], w, -word->count);
			pair_add(r, id, s[i + 2], w, word->count);
		}
		s[out++] = id;
		i++;
	}
	word->len = out;
}

static void start_symbols(struct trainer *r)
{
	int32_t id_of_byte[256];
	for (uint32_t c = 0; c < ALPHABET_END; c++)
		for (int b = 0; b < 256; b++)
			if (alphabet_char((uint8_t)b) == c) id_of_byte[b] = token_of(r, (const char[]){(char)b}, 1);
	r->symbols = xmalloc(size_mul(r->bytes.len, sizeof(*r->symbols)));
	for (size_t i = 0; i < r->bytes.len; i++) r->symbols[i] = id_of_byte[(uint8_t)r->bytes.data[i]];
	for (uint32_t w = 0; w < r->nwords; w++) {
		const int32_t *s = r->symbols + r->words[w].start;
		for (uint32_t i = 0; i + 1 < r->words[w].len; i++) pair_add(r, s[i], s[i + 1], w, r->words[w].count);
	}
	queue_changed(r);
}

static void merge_all(struct trainer *r, int ntokens_max)
{
	struct str bytes = {0};
	while (r->ntokens < ntokens_max && r->nqueue) {
		struct train_entry top = queue_pop(r);
		struct train_pair *p = &r->pairs[top.pair];
		/* Entries grow stale while others merge: dead pairs are dropped, and counts that fell are
		 * queued anew. */
		if (p->merged || p->count <= 0) continue;
		if (p->count != top.count) {
			queue_push(r, (struct train_entry){p->count, top.pair});
			continue;
		}
		/* The merge is recorded under the ids of its halves; its bytes may belong to a token
		 * already. */
		int32_t left = p->left, right = p->right;
		str_clear(&bytes);
		str_append(&bytes, r->tokens[left].data, r->tokens[left].len);
		str_append(&bytes, r->tokens[right].data, r->tokens[right].len);
		int32_t id = token_of(r, bytes.data, bytes.len);
		GROW(r->merges, r->nmerges, r->merges_cap);
		r->merges[r->nmerges][0] = left;
		r->merges[r->nmerges++][1] = right;
		/* The list of words is taken off the pair first, since merging moves the pairs about. */
		uint32_t *words = p->words, nwords = p->nwords;
		p->words = NULL;
		p->nwords = p->words_cap = 0;
		p->merged = true;
		for (uint32_t i = 0; i < nwords; i++)
			merge_in_word(r, words[i], left, right, id); /* moves r->pairs: p is stale from here on */
		free(words);
		queue_changed(r);
	}
	str_release(&bytes);
}

/* ---- the file ---- */

static json_t *spelled(const struct slice *token)
{
	struct str s = {0};
	alphabet_encode(token->data, token->len, &s);
	json_t *v = json_stringn(s.data, s.len);
	str_release(&s);
	return v;
}

static json_t *model_json(const struct trainer *r)
{
	json_t *vocab = json_object(), *merges = json_array();
	for (int i = 0; i < r->ntokens; i++) {
		json_t *key = spelled(&r->tokens[i]);
		json_object_set_new(vocab, json_string_value(key), json_integer(i));
		json_decref(key);
	}
	for (int i = 0; i < r->nmerges; i++)
		json_array_append_new(
			merges, json_pack("[o, o]", spelled(&r->tokens[r->merges[i][0]]), spelled(&r->tokens[r->merges[i][1]])));
	return json_pack("{s:s, s:n, s:n, s:n, s:n, s:b, s:b, s:b, s:o, s:o}", "type", "BPE", "dropout", "unk_token",
		"continuing_subword_prefix", "end_of_word_suffix", "fuse_unk", 0, "byte_fallback", 0, "ignore_merges", 0,
		"vocab", vocab, "merges", merges);
}

static json_t *byte_level_json(void)
{
	return json_pack(
		"{s:s, s:b, s:b, s:b}", "type", "ByteLevel", "add_prefix_space", 0, "trim_offsets", 0, "use_regex", 0);
}

static const char *added_content(const struct bpe_train_options *o, int i)
{
	return i < o->nspecial ? o->special_tokens[i] : o->plain_tokens[i - o->nspecial];
}

/* An added token whose text the merges made too would have two ids. */
static int check_added(const struct trainer *r, const struct bpe_train_options *o, struct err *err)
{
	struct str bytes = {0};
	int rc = 0;
	for (int i = 0; i < o->nspecial + o->nplain && !rc; i++) {
		const char *content = added_content(o, i);
		str_clear(&bytes);
		if (alphabet_decode(content, strlen(content), &bytes) &&
			word_map_find(&r->token_index, r->token_bytes.data, bytes.data, bytes.len))
			rc = err_set(err, ERR_USAGE,
				"added token %d: \"%.60s\" is a word of the texts and became a token by training; choose one that no "
				"text has",
				i, content);
	}
	str_release(&bytes);
	return rc;
}

static int write_file(const struct trainer *r, const struct bpe_train_options *o, const char *path, struct err *err)
{
	json_t *added = json_array();
	for (int i = 0; i < o->nspecial + o->nplain; i++) {
		const char *content = added_content(o, i);
		json_array_append_new(added,
			json_pack("{s:i, s:s, s:b, s:b, s:b, s:b, s:b}", "id", r->ntokens + i, "content", content, "single_word", 0,
				"lstrip", 0, "rstrip", 0, "normalized", 0, "special", i < o->nspecial));
	}
	json_t *split = json_pack("{s:s, s:{s:s}, s:s, s:b}", "type", "Split", "pattern", "Regex",
		split_rules_qwen()->pattern, "behavior", "Isolated", "invert", 0);
	json_t *root = json_pack("{s:s, s:n, s:n, s:o, s:o, s:{s:s, s:[o, o]}, s:o, s:o, s:o}", "version", "1.0",
		"truncation", "padding", "added_tokens", added, "normalizer",
		o->nfc ? json_pack("{s:s}", "type", "NFC") : json_null(), "pre_tokenizer", "type", "Sequence", "pretokenizers",
		split, byte_level_json(), "post_processor", byte_level_json(), "decoder", byte_level_json(), "model",
		model_json(r));
	char *text = json_dumps(root, JSON_INDENT(1));
	json_decref(root);
	if (!text) return err_set(err, ERR_FORMAT, "%s: a special token cannot be written as JSON", path);
	int rc = file_write_atomic(path, text, strlen(text), err);
	free(text);
	return rc;
}

static int check_options(const struct bpe_train_options *o, struct err *err)
{
	int nadded = o->nspecial + o->nplain;
	if (o->vocab_size < 256 + nadded || o->vocab_size > TOKENIZER_IDS_MAX)
		return err_set(err, ERR_RANGE, "vocab_size: expected %d (256 bytes and %d added tokens) to %d, found %d",
			256 + nadded, nadded, TOKENIZER_IDS_MAX, o->vocab_size);
	for (int i = 0; i < nadded; i++) {
		const char *a = added_content(o, i);
		if (strlen(a) < 2 || utf8_valid_prefix(a, strlen(a)) < strlen(a))
			return err_set(
				err, ERR_USAGE, "added token %d: expected at least two characters of UTF-8, found \"%.60s\"", i, a);
		for (int k = 0; k < i; k++)
			if (!strcmp(a, added_content(o, k)))
				return err_set(err, ERR_USAGE, "added token %d: \"%.60s\" is there already; name each once", i, a);
	}
	return 0;
}

static void trainer_release(struct trainer *r)
{
	for (uint32_t i = 0; i < r->npairs; i++) free(r->pairs[i].words);
	for (int i = 0; i < r->ntokens; i++) free((char *)r->tokens[i].data);
	free(r->pairs);
	free(r->pair_slots);
	free(r->queue);
	free(r->changed);
	free(r->words);
	free(r->symbols);
	free(r->tokens);
	free(r->merges);
	free(r->index.slots);
	free(r->token_index.slots);
	str_release(&r->bytes);
	str_release(&r->token_bytes);
}

int tokenizer_train(
	const struct slice *texts, size_t count, const struct bpe_train_options *o, const char *path, struct err *err)
{
	struct trainer r = {0};
	int rc = check_options(o, err);
	if (!rc) rc = count_words(&r, texts, count, o->nfc, err);
	if (!rc) {
		int ntokens_max = o->vocab_size - o->nspecial - o->nplain;
		r.tokens = xcalloc((size_t)ntokens_max, sizeof(*r.tokens));
		start_symbols(&r);
		merge_all(&r, ntokens_max);
		rc = check_added(&r, o, err);
		if (!rc) rc = write_file(&r, o, path, err);
	}
	trainer_release(&r);
	return rc;
}
