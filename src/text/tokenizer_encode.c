/* Encoding and decoding: the walk text -> added tokens -> NFC -> words -> ids, and back.
 *
 * Most words of a text are in the vocabulary. Whether merging a word's bytes really ends in its own entry was found out once, when the file was opened
 * (TOKEN_WHOLE), so such a word costs one lookup; it is a cache that is always warm and never written to. */
#include "text/tokenizer_internal.h"
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
	if (s && (t->tokens[s->id].flags & TOKEN_WHOLE))
		ids_push(b->out, s->id);
	else
		bpe_merge_word(b, word, len);
}

/* One call's state on the way down. */
struct encoder { struct bpe bpe; struct str normal; bool parse_added; };
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

/* Cuts the added tokens of a set out and gives fn what lies between. lstrip and rstrip make a token take the white space beside it. */
static void cut_added(struct encoder *e, const struct added_set *set, const char *text, size_t len, piece_fn *fn)
{
	size_t done = 0, from = 0, begin, end;
	for (int i; (i = added_find(set, text, len, from, &begin, &end)) >= 0;) {
		const struct added *a = &set->items[i];
		from = end;
		if (a->single_word && ((begin > 0 && has_class(text, utf8_last(text, begin), UNICODE_WORD)) || (end < len && has_class(text, end, UNICODE_WORD))))
			continue;
		while (a->lstrip && begin > done && has_class(text, utf8_last(text, begin), UNICODE_SPACE))
			begin = utf8_last(text, begin);
		for (uint32_t c; a->rstrip && end < len && has_class(text, end, UNICODE_SPACE);)
			end += utf8_next((const uint8_t *)text + end, &c);
		if (begin > done)
			fn(e, text + done, begin - done);
		ids_push(e->bpe.out, a->id);
		done = end;
	}
	if (done < len)
		fn(e, text + done, len - done);
}

static void encode_piece(struct encoder *e, const char *text, size_t len)
{
	const struct tokenizer *t = e->bpe.t;
	if (t->nfc && !nfc_is_plain(text, len)) {
		str_clear(&e->normal);
		nfc_append(&e->normal, text, len);
		text = e->normal.data;
		len = e->normal.len;
	}
	if (e->parse_added && t->added_normalized.count)
		cut_added(e, &t->added_normalized, text, len, encode_words);
	else
		encode_words(e, text, len);
}

int tokenizer_encode(const struct tokenizer *t, const char *text, size_t len, bool parse_special, struct ids *out, struct err *err)
{
	size_t valid = utf8_valid_prefix(text, len);
	if (valid < len)
		return err_set(err, ERR_FORMAT, "text is not UTF-8: byte %zu is 0x%02x, which cannot stand there; convert the text to UTF-8", valid, (uint8_t)text[valid]);
	if (len > TOKENIZER_TEXT_BYTES_MAX)
		return err_set(err, ERR_LIMIT, "a text of %zu bytes is too long for one call; pass it in parts of at most %d", len, TOKENIZER_TEXT_BYTES_MAX);
	struct encoder e = {.bpe = {.t = t, .out = out}, .parse_added = parse_special};
	if (parse_special)
		cut_added(&e, &t->added_raw, text, len, encode_piece);
	else if (len)
		encode_piece(&e, text, len);
	str_release(&e.normal);
	bpe_release(&e.bpe);
	return 0;
}

void tokenizer_decode(const struct tokenizer *t, const int32_t *ids, size_t count, bool skip_special, struct str *out)
{
	for (size_t i = 0; i < count; i++) {
		if (ids[i] < 0 || ids[i] >= t->ntokens)
			continue;
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
		if (item >= 0 && begin == 0 && end == len)
			return sets[i]->items[item].id;
	}
	const struct word_slot *s = word_map_find(&t->words, t->pool.data, token, len);
	return s ? s->id : -1;
}

void tokenizer_free(struct tokenizer *t)
{
	if (!t)
		return;
	str_release(&t->pool);
	free(t->tokens);
	free(t->words.slots);
	free(t->merges.slots);
	added_release(&t->added_raw);
	added_release(&t->added_normalized);
	free(t);
}
