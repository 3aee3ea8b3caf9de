/* Pre-tokenisation: the regular expressions of the known tokenizer families, written out by hand.
 *
 * All of them are a list of alternatives tried in order at one place, and together they match any
 * text, so splitting is "how long is the first word?" again and again. No engine is needed, and
 * none that is at hand knows the right Unicode version (docs/tokenizers.md). What a pattern
 * means in each function stands beside its branch. A pattern that is not in the table is refused
 * when the file is read. */
#include "text/tokenizer_internal.h"
#include "base/base.h"
#include "text/unicode.h"

#define GPT2_PATTERN "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+"
#define WIDE_PATTERN(letters, marks, digits) \
	"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?" letters "+|\\p{N}" digits "| ?[^\\s\\p{L}" marks \
	"\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"

static const struct split_rules rules_table[] = {
	{GPT2_PATTERN, false, UNICODE_LETTER, 0},
	{WIDE_PATTERN("\\p{L}", "", ""), true, UNICODE_LETTER, 1},                              /* Qwen2, Qwen3 */
	{WIDE_PATTERN("\\p{L}", "", "{1,3}"), true, UNICODE_LETTER, 3},                         /* Llama 3 */
	{WIDE_PATTERN("[\\p{L}\\p{M}]", "\\p{M}", ""), true, UNICODE_LETTER | UNICODE_MARK, 1}, /* Qwen3.5 */
};

const struct split_rules *split_rules_gpt2(void) { return &rules_table[0]; }
const struct split_rules *split_rules_qwen(void) { return &rules_table[1]; }

const struct split_rules *split_rules_find(const char *pattern)
{
	for (size_t i = 0; i < ARRAY_LEN(rules_table); i++)
		if (!strcmp(rules_table[i].pattern, pattern)) return &rules_table[i];
	return NULL;
}

static inline unsigned class_at(const uint8_t *p, size_t *len)
{
	if (*p < 0x80) {
		*len = 1;
		return unicode_flags[0][*p]; /* the first block of 128 is ASCII */
	}
	uint32_t c;
	*len = utf8_next(p, &c);
	return unicode_class(c);
}

/* Goes on from i while characters have (want != 0) or lack (want == 0) a class of mask. */
static inline size_t run(const uint8_t *p, size_t len, size_t i, unsigned mask, bool want)
{
	size_t n;
	while (i < len && ((class_at(p + i, &n) & mask) != 0) == want) i += n;
	return i;
}

static inline bool is_newline(uint8_t c) { return c == '\n' || c == '\r'; }

/* 's 't 're 've 'm 'll 'd at p (which is an apostrophe); fold: in either case, and LONG S, which
 * folds to s. */
static size_t contraction(const uint8_t *p, size_t len, bool fold)
{
	if (len < 2) return 0;
	if (fold && len >= 3 && p[1] == 0xc5 && p[2] == 0xbf) return 3;
	uint8_t a = p[1], b = len > 2 ? p[2] : 0;
	if (fold) {
		a = a >= 'A' && a <= 'Z' ? a + 32 : a;
		b = b >= 'A' && b <= 'Z' ? b + 32 : b;
	}
	if (a == 's' || a == 't' || a == 'm' || a == 'd') return 2;
	return ((a == 'r' || a == 'v') && b == 'e') || (a == 'l' && b == 'l') ? 3 : 0;
}

/* \s*[\r\n]+ (newlines only), \s+(?!\S), \s+ : white space gives its last character to a word that
 * follows. */
static size_t white(const uint8_t *p, size_t len, bool newlines)
{
	size_t end = 0, last = 0, after_newline = 0, n;
	while (end < len && class_at(p + end, &n) & UNICODE_SPACE) {
		last = end;
		end += n;
		if (is_newline(p[last])) after_newline = end;
	}
	if (newlines && after_newline) return after_newline;
	return end == len || last == 0 ? end : last;
}

static size_t digits(const uint8_t *p, size_t len, int count_max)
{
	size_t i = 0, n;
	for (int count = 0; count < count_max && i < len && class_at(p + i, &n) & UNICODE_NUMBER; count++) i += n;
	return i;
}

static size_t word_wide(const struct split_rules *r, const uint8_t *p, size_t len)
{
	size_t n, next_n;
	if (p[0] == '\'' && (n = contraction(p, len, true))) return n;
	unsigned letters = r->letters, solid = letters | UNICODE_NUMBER | UNICODE_SPACE, class = class_at(p, &n);
	if (class & letters) /* letters */
		return run(p, len, n, letters, true);
	if (class & UNICODE_NUMBER) /* \p{N}{1,max} */
		return digits(p, len, r->digits_max);
	unsigned next = n < len ? class_at(p + n, &next_n) : 0;
	if (n < len && next & letters && !is_newline(p[0])) /* [^\r\n\p{L}\p{N}] letters */
		return run(p, len, n + next_n, letters, true);
	if (!(class & solid) || (p[0] == ' ' && n < len && !(next & solid))) { /* ' '? others [\r\n]* */
		size_t i = run(p, len, n, solid, false);
		while (i < len && is_newline(p[i])) i++;
		return i;
	}
	return white(p, len, true);
}

static size_t word_gpt2(const uint8_t *p, size_t len)
{
	size_t n;
	if (p[0] == '\'' && (n = contraction(p, len, false))) return n;
	size_t start = p[0] == ' ' && len > 1;
	unsigned class = class_at(p + start, &n);
	if (class & UNICODE_LETTER) /* ' '? \p{L}+ */
		return run(p, len, start + n, UNICODE_LETTER, true);
	if (class & UNICODE_NUMBER) /* ' '? \p{N}+ */
		return run(p, len, start + n, UNICODE_NUMBER, true);
	if (!(class & UNICODE_SPACE)) /* ' '? others */
		return run(p, len, start + n, UNICODE_LETTER | UNICODE_NUMBER | UNICODE_SPACE, false);
	return white(p, len, false);
}

/* Bytes of the first word of text (len > 0). The words of a text depend on
 * what follows them only. */
static size_t split_word(const struct split_rules *r, const char *text, size_t len)
{
	return r->wide ? word_wide(r, (const uint8_t *)text, len) : word_gpt2((const uint8_t *)text, len);
}

/* Each digit alone, or runs of them, apart from what lies between. */
static void digits_run(const struct stage *s, int count, const char *text, size_t len, word_fn *fn, void *ctx)
{
	const uint8_t *p = (const uint8_t *)text;
	for (size_t i = 0, n; i < len;) {
		bool number = class_at(p + i, &n) & UNICODE_NUMBER;
		size_t end = number && s->individual_digits ? i + n : run(p, len, i + n, UNICODE_NUMBER, number);
		stages_run(s + 1, count - 1, text + i, end - i, fn, ctx);
		i = end;
	}
}

void stages_run(const struct stage *s, int count, const char *text, size_t len, word_fn *fn, void *ctx)
{
	/* What has passed all stages is a word. */
	if (!count) {
		fn(ctx, text, len);
		return;
	}
	switch (s->kind) {
	case STAGE_SPLIT:
		for (size_t i = 0, n; i < len; i += n) {
			n = split_word(s->rules, text + i, len - i);
			/* The last stage hands its words over at once, which saves a call for each of them. */
			if (count == 1) fn(ctx, text + i, n);
			else stages_run(s + 1, count - 1, text + i, n, fn, ctx);
		}
		break;
	case STAGE_DIGITS: digits_run(s, count, text, len, fn, ctx); break;
	case STAGE_PREFIX_SPACE: {
		/* A text that is empty or begins with a space needs none, and is passed on without a
		 * copy. */
		if (!len || text[0] == ' ') {
			stages_run(s + 1, count - 1, text, len, fn, ctx);
			break;
		}
		struct str copy = {0};
		str_putc(&copy, ' ');
		str_append(&copy, text, len);
		stages_run(s + 1, count - 1, copy.data, copy.len, fn, ctx);
		str_release(&copy);
		break;
	}
	}
}
