/* Encoding and decoding: the walk text -> added tokens -> NFC -> words -> ids, and back.
 *
 * Most words of a text are in the vocabulary. Whether merging a word's bytes really ends in its own
 * entry is found out when the word is first met (struct token's whole), so from then on it costs
 * one lookup. Asking for all entries when a file is opened took as long as reading it. */
#include "text/tokenizer_internal.h"
#include "base/base.h"
#include "text/unicode.h"
#include <stdlib.h>

void ids_push(struct ids *v, int32_t id)
{
	if (v->count == v->cap) {
		v->cap = v->cap ? v->cap * 2 : 256;
		v->data = xrealloc(v->data, size_mul(v->cap, sizeof(*v->data)));
	}
	v->data[v->count++] = id;
}

void ids_release(struct ids *v)
{
	free(v->data);
	*v = (struct ids){0};
}

static void encode_word(void *ctx, const char *word, size_t len)
{
	struct bpe *b = ctx;
	const struct tokenizer *t = b->t;
	if (len == 1 && t->byte_id[(uint8_t)word[0]] >= 0) {
		ids_push(b->out, t->byte_id[(uint8_t)word[0]]);
		return;
	}
	const struct word_slot *s = word_map_find(&t->words, t->pool.data, word, len);
	struct token *k = s ? &t->tokens[s->id] : NULL;
	int whole = k ? atomic_load_explicit(&k->whole, memory_order_relaxed) : WHOLE_NO;
	if (whole == WHOLE_YES || (k && t->ignore_merges)) {
		ids_push(b->out, s->id);
		return;
	}
	size_t before = b->out->count;
	bpe_merge_word(b, word, len);
	if (whole == WHOLE_UNKNOWN) {
		bool is_whole = b->out->count == before + 1 && b->out->data[before] == s->id;
		atomic_store_explicit(&k->whole, is_whole ? WHOLE_YES : WHOLE_NO, memory_order_relaxed);
	}
}

/* Where no added token may be. */
struct ranges {
	const struct text_range *v;
	size_t count;
};

/* One call's state on the way down. */
struct encoder {
	struct bpe bpe;
	const char *text;         /* the whole, as given */
	struct ranges plain;      /* in it */
	struct str normal;        /* NFC of the piece at hand */
	struct text_range *inner; /* plain's part of that piece, in its normal form */
	size_t inner_cap;
	bool parse_added;
};
typedef void piece_fn(struct encoder *e, const char *text, size_t len);

static void encode_words(struct encoder *e, const char *text, size_t len)
{
	stages_run(e->bpe.t->stages, e->bpe.t->nstages, text, len, encode_word, &e->bpe);
}

static bool has_class(const char *text, size_t at, unsigned class)
{
	uint32_t c;
	utf8_next((const uint8_t *)text + at, &c);
	return unicode_class(c) & class;
}

/* added_find in the gaps between ranges; *next is the first range that may end behind `from`, which
 * only grows. */
static int find_outside(const struct added_set *set, const char *text, size_t len, struct ranges plain, size_t *next,
	size_t from, size_t *begin, size_t *end)
{
	for (;; from = MAX(from, plain.v[*next].end)) {
		while (*next < plain.count && plain.v[*next].end <= from) (*next)++;
		size_t stop = *next < plain.count ? MIN(plain.v[*next].begin, len) : len;
		int item = from < stop ? added_find(set, text, stop, from, begin, end) : -1;
		if (item >= 0 || stop == len) return item;
	}
}

/* Cuts the added tokens of a set out and gives fn what lies between. lstrip and rstrip make a token
 * take the white space beside it. */
static void cut_added(
	struct encoder *e, const struct added_set *set, struct ranges plain, const char *text, size_t len, piece_fn *fn)
{
	size_t done = 0, from = 0, next = 0, begin, end;
	for (int i; (i = find_outside(set, text, len, plain, &next, from, &begin, &end)) >= 0;) {
		const struct added *a = &set->items[i];
		/* A token that has to be a word of its own is none between letters. */
		from = end;
		if (a->single_word &&
			((begin > 0 && has_class(text, utf8_last(text, begin), UNICODE_WORD)) ||
				(end < len && has_class(text, end, UNICODE_WORD))))
			continue;
		/* White space on the left goes to it only as far as no earlier token ended there. */
		while (a->lstrip && begin > done && has_class(text, utf8_last(text, begin), UNICODE_SPACE))
			begin = utf8_last(text, begin);
		for (uint32_t c; a->rstrip && end < len && has_class(text, end, UNICODE_SPACE);)
			end += utf8_next((const uint8_t *)text + end, &c);
		if (begin > done) fn(e, text + done, begin - done);
		ids_push(e->bpe.out, a->id);
		done = end;
	}
	if (done < len) fn(e, text + done, len - done);
}

static void push_inner(struct encoder *e, struct ranges *r, size_t begin, size_t end)
{
	if (r->count == e->inner_cap) {
		e->inner_cap = e->inner_cap ? e->inner_cap * 2 : 16;
		e->inner = xrealloc(e->inner, size_mul(e->inner_cap, sizeof(*e->inner)));
	}
	e->inner[r->count++] = (struct text_range){begin, end};
	r->v = e->inner;
}

/* The ranges' part of a piece of the given text. With normalize the piece goes to e->normal segment
 * by segment, so that a range's bounds are known in it too. That is the NFC of the whole wherever
 * no character composes across a border: templates put a newline before a content, and ASCII behind
 * it. */
static struct ranges clip_ranges(struct encoder *e, const char *text, size_t len, bool normalize)
{
	struct ranges clipped = {0};
	size_t base = (size_t)(text - e->text), done = 0;
	for (size_t i = 0; i < e->plain.count; i++) {
		struct text_range r = e->plain.v[i];
		if (r.end <= base || r.begin >= base + len) continue;
		size_t begin = MAX(r.begin, base) - base, end = MIN(r.end, base + len) - base;
		if (normalize) {
			nfc_append(&e->normal, text + done, begin - done);
			size_t normal_begin = e->normal.len;
			nfc_append(&e->normal, text + begin, end - begin);
			push_inner(e, &clipped, normal_begin, e->normal.len);
		} else {
			push_inner(e, &clipped, begin, end);
		}
		done = end;
	}
	if (normalize) nfc_append(&e->normal, text + done, len - done);
	return clipped;
}

static void encode_piece(struct encoder *e, const char *text, size_t len)
{
	const struct tokenizer *t = e->bpe.t;
	bool normalize = t->nfc && !nfc_is_plain(text, len), cut = e->parse_added && t->added_normalized.count;
	struct ranges plain = {0};
	str_clear(&e->normal);
	if (cut && e->plain.count) plain = clip_ranges(e, text, len, normalize);
	else if (normalize) nfc_append(&e->normal, text, len);
	if (normalize) {
		text = e->normal.data;
		len = e->normal.len;
	}
	if (cut) cut_added(e, &t->added_normalized, plain, text, len, encode_words);
	else encode_words(e, text, len);
}

static int encode(const struct tokenizer *t, const char *text, size_t len, bool parse_added, struct ranges plain,
	struct ids *out, struct err *err)
{
	size_t valid = utf8_valid_prefix(text, len);
	if (valid < len)
		return err_set(err, ERR_FORMAT,
			"text is not UTF-8: byte %zu is 0x%02x, which cannot stand there; convert the text to UTF-8", valid,
			(uint8_t)text[valid]);
	if (len > TOKENIZER_TEXT_BYTES_MAX)
		return err_set(err, ERR_LIMIT, "a text of %zu bytes is too long for one call; pass it in parts of at most %d",
			len, TOKENIZER_TEXT_BYTES_MAX);
	struct encoder e = {.bpe = {.t = t, .out = out}, .text = text, .plain = plain, .parse_added = parse_added};
	if (parse_added) cut_added(&e, &t->added_raw, plain, text, len, encode_piece);
	else if (len) encode_piece(&e, text, len);
	free(e.inner);
	str_release(&e.normal);
	bpe_release(&e.bpe);
	return 0;
}

int tokenizer_encode(
	const struct tokenizer *t, const char *text, size_t len, bool parse_special, struct ids *out, struct err *err)
{
	return encode(t, text, len, parse_special, (struct ranges){0}, out, err);
}

int tokenizer_encode_except(const struct tokenizer *t, const char *text, size_t len, const struct text_range *plain,
	size_t nplain, struct ids *out, struct err *err)
{
	for (size_t i = 0, last = 0; i < nplain; last = plain[i++].end)
		CHECKF(last <= plain[i].begin && plain[i].begin <= plain[i].end && plain[i].end <= len,
			"range %zu is [%zu, %zu) of %zu bytes", i, plain[i].begin, plain[i].end, len);
	return encode(t, text, len, true, (struct ranges){plain, nplain}, out, err);
}

void tokenizer_push_prefix(const struct tokenizer *t, struct ids *out)
{
	for (int i = 0; i < t->nprefix; i++) ids_push(out, t->prefix[i]);
}

void tokenizer_decode(const struct tokenizer *t, const int32_t *ids, size_t count, bool skip_special, struct str *out)
{
	for (size_t i = 0; i < count; i++) {
		if (ids[i] < 0 || ids[i] >= t->ntokens) continue;
		const struct token *k = &t->tokens[ids[i]];
		if (k->flags & TOKEN_PRESENT && !(skip_special && k->flags & TOKEN_SPECIAL))
			str_append(out, t->pool.data + k->offset, k->len);
	}
}

int tokenizer_vocab_size(const struct tokenizer *t) { return t->ntokens; }

int32_t tokenizer_id(const struct tokenizer *t, const char *token)
{
	size_t len = strlen(token), begin, end;
	const struct added_set *sets[] = {&t->added_raw, &t->added_normalized};
	for (size_t i = 0; i < ARRAY_LEN(sets); i++) {
		int item = added_find(sets[i], token, len, 0, &begin, &end);
		if (item >= 0 && begin == 0 && end == len) return sets[i]->items[item].id;
	}
	const struct word_slot *s = word_map_find(&t->words, t->pool.data, token, len);
	return s ? s->id : -1;
}

void tokenizer_free(struct tokenizer *t)
{
	if (!t) return;
	str_release(&t->pool);
	free(t->tokens);
	free(t->words.slots);
	free(t->merges.slots);
	added_release(&t->added_raw);
	added_release(&t->added_normalized);
	free(t);
}
