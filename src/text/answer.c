/* The shape of an answer: reasoning, plan, code.
 *
 * Model output is hostile and often cut short, so the rules are few and need no guess:
 *   1. Reasoning ends behind the last </think>. A <think> that no </think> follows makes the answer
 *      malformed.
 *   2. Behind it, a line of three or more backticks (spaces may lead it) opens a block; its first
 *      word is the language. A line of at least as many backticks and nothing else, indented by
 *      three spaces or as deep as the opening line, closes it.
 *   3. The code is the last block marked python, python3, py or ttir (an answer in IR), else the
 *      last without a mark. Blocks in other languages are stepped over.
 *   4. A text that ends inside a block that could be the code is malformed, even if an earlier
 *      block was whole: the model was not done. */
#include "text/text.h"
#include "base/base.h"
#include "text/tokenizer_internal.h"

struct fence {
	size_t indent;     /* blanks in front of it */
	size_t ticks;      /* backticks, three at least */
	struct slice info; /* what stands behind it: the language */
};

/* Is the line (without its newline) a row of three or more backticks, and what follows it? */
static bool parse_fence(const char *line, size_t len, struct fence *f)
{
	size_t i = 0, start;
	while (i < len && (line[i] == ' ' || line[i] == '\t')) i++;
	start = i;
	while (i < len && line[i] == '`') i++;
	if (i - start < 3) return false;
	*f = (struct fence){.indent = start, .ticks = i - start};
	while (i < len && (line[i] == ' ' || line[i] == '\t')) i++;
	while (len > i && (line[len - 1] == ' ' || line[len - 1] == '\t' || line[len - 1] == '\r')) len--;
	f->info = (struct slice){line + i, len - i};
	return !memchr(f->info.data, '`', f->info.len); /* ```inline``` is no fence */
}

enum language { LANGUAGE_OTHER, LANGUAGE_NONE, LANGUAGE_CODE }; /* in rising order of preference */

static enum language language_of(struct slice info)
{
	static const char *const names[] = {"python", "python3", "py", "ttir"};
	size_t len = 0;
	while (len < info.len && info.data[len] != ' ' && info.data[len] != '\t' && info.data[len] != '{') len++;
	if (!info.len) return LANGUAGE_NONE;
	for (size_t i = 0; i < ARRAY_LEN(names); i++)
		if (strlen(names[i]) == len && !strncasecmp(names[i], info.data, len)) return LANGUAGE_CODE;
	return LANGUAGE_OTHER;
}

static bool find_last(const char *text, size_t len, const char *needle, size_t *at)
{
	size_t n = strlen(needle);
	for (size_t i = len; i >= n; i--) {
		if (!memcmp(text + i - n, needle, n)) {
			*at = i - n;
			return true;
		}
	}
	return false;
}

static struct answer malformed(const char *problem, size_t len)
{
	return (struct answer){.problem = problem, .plan_end = len};
}

static bool is_blank(const char *text, size_t begin, size_t end)
{
	for (size_t i = begin; i < end; i++)
		if (!strchr(" \t\r\n\f\v", text[i]) || !text[i]) return false;
	return true;
}

struct answer answer_parse(const char *text, size_t len)
{
	size_t think = 0, think_end = 0, from = 0;
	/* Reasoning ends behind the last closing tag; one that was opened after it was cut off. */
	bool opened = find_last(text, len, "<think>", &think), closed = find_last(text, len, "</think>", &think_end);
	if (opened && (!closed || think > think_end)) return malformed("unclosed-think", len);
	if (closed) from = think_end + strlen("</think>");

	/* Then line by line: a fence opens a block, and only a bare one that is long enough closes
	 * it. */
	struct answer a = malformed("no-code-block", len);
	enum language best = LANGUAGE_OTHER, inside = LANGUAGE_OTHER;
	struct fence open = {0}, f;
	size_t open_line = 0, code_begin = 0;
	for (size_t line = from, next; line < len; line = next) {
		const char *newline = memchr(text + line, '\n', len - line);
		size_t end = newline ? (size_t)(newline - text) : len;
		next = MIN(end + 1, len);
		if (!parse_fence(text + line, end - line, &f)) continue;
		if (!open.ticks) {
			open = f;
			inside = language_of(f.info);
			open_line = line;
			code_begin = next;
		} else if (!f.info.len && f.ticks >= open.ticks && f.indent <= MAX(3, open.indent)) {
			/* Of equally good languages the later block wins; a block in another language is never
			 * taken. */
			if (inside >= MAX(best, LANGUAGE_NONE)) {
				best = inside;
				a = (struct answer){true, NULL, 0, open_line, code_begin, line};
			}
			open.ticks = 0;
		}
	}
	/* A block that is still open may be the code, so that a whole one before it does not count. */
	if (open.ticks && inside > LANGUAGE_OTHER) return malformed("unclosed-code-block", len);
	if (a.well_formed && is_blank(text, a.code_begin, a.code_end)) return malformed("empty-code", len);
	return a;
}

void answer_token_kinds(
	const struct tokenizer *t, const int32_t *ids, size_t count, const struct answer *a, uint8_t *kinds)
{
	size_t at = 0;
	for (size_t i = 0; i < count; i++) {
		kinds[i] = !a->well_formed || at >= a->plan_end;
		if (ids[i] < 0 || ids[i] >= t->ntokens) continue;
		const struct token *k = &t->tokens[ids[i]];
		if (k->flags & TOKEN_PRESENT && !(k->flags & TOKEN_SPECIAL)) at += k->len;
	}
}
