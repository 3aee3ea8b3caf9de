/* Tokens of MLIR text. The lexer never reads past `end` and always makes progress, so any bytes at
 * all lex to a finite token list. */
#include "ttir/ttir_internal.h"
#include "base/base.h"

static bool is_digit(char c) { return c >= '0' && c <= '9'; }
static bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }
static bool is_name(char c) { return is_letter(c) || is_digit(c) || c == '$' || c == '.' || c == '-'; }
static bool is_word(char c) { return is_letter(c) || is_digit(c) || c == '$' || c == '.'; }

static const char *skip_space(const char *p, const char *end)
{
	while (p < end) {
		if (*p == ' ' || *p == '\t' || *p == '\n' || *p == '\r') {
			p++;
		} else if (*p == '/' && end - p > 1 && p[1] == '/') {
			const char *eol = memchr(p, '\n', (size_t)(end - p));
			p = eol ? eol + 1 : end;
		} else {
			break;
		}
	}
	return p;
}

static const char *scan_string(const char *p, const char *end)
{
	while (p < end && *p != '"' && *p != '\n') p += *p == '\\' && end - p > 1 ? 2 : 1;
	return p < end && *p == '"' ? p : NULL;
}

static const char *scan_number(const char *p, const char *end)
{
	if (p < end && *p == '-') p++;
	if (end - p > 2 && p[0] == '0' && p[1] == 'x') {
		const char *q = p + 2;
		while (q < end && (is_digit(*q) || (*q >= 'a' && *q <= 'f') || (*q >= 'A' && *q <= 'F'))) q++;
		if (q > p + 2) return q;
	}
	while (p < end && is_digit(*p)) p++;
	if (end - p > 1 && *p == '.' && is_digit(p[1])) {
		p++;
		while (p < end && is_digit(*p)) p++;
		const char *q = p;
		if (q < end && (*q == 'e' || *q == 'E')) {
			q++;
			if (q < end && (*q == '+' || *q == '-')) q++;
			if (q < end && is_digit(*q)) {
				while (q < end && is_digit(*q)) q++;
				p = q;
			}
		}
	}
	return p;
}

static void finish(struct lexer *lx, enum token kind, const char *from, const char *to, const char *at)
{
	lx->kind = kind;
	lx->tok = (struct slice){from, (size_t)(to - from)};
	lx->at = at;
}

/* %name, ^name, @name, @"name", #name, !name. A value may carry #index, which names one of several
 * results. */
static void lex_sigil(struct lexer *lx, const char *p, enum token kind)
{
	if (kind == TOKEN_SYMBOL && p < lx->end && *p == '"') {
		const char *q = scan_string(p + 1, lx->end);
		if (!q) {
			finish(lx, TOKEN_BAD, p, p, lx->end);
			return;
		}
		finish(lx, kind, p + 1, q, q + 1);
		return;
	}
	const char *q = p;
	while (q < lx->end && is_name(*q) && !(*q == '-' && q + 1 < lx->end && q[1] == '>')) q++;
	if (q == p) {
		finish(lx, TOKEN_BAD, p, p, p);
		return;
	}
	finish(lx, kind, p, q, q);
	if (kind != TOKEN_VALUE || lx->end - q < 2 || *q != '#' || !is_digit(q[1])) return;
	int index = 0;
	for (q++; q < lx->end && is_digit(*q); q++) index = MIN(index * 10 + (*q - '0'), TTIR_LIST_MAX);
	lx->value_index = index;
	lx->at = q;
}

void lexer_next(struct lexer *lx)
{
	/* Blanks and comments lie between tokens. */
	const char *p = skip_space(lx->at, lx->end);
	lx->tok_start = p;
	lx->value_index = -1;
	lx->punct = 0;
	if (p >= lx->end) {
		finish(lx, TOKEN_END, p, p, p);
		return;
	}
	static const struct {
		char c;
		enum token kind;
	} sigils[] = {
		{'%', TOKEN_VALUE},
		{'^', TOKEN_LABEL},
		{'@', TOKEN_SYMBOL},
		{'#', TOKEN_HASH},
		{'!', TOKEN_BANG},
	};
	/* A sign in front of a name says what the name is of. */
	for (size_t i = 0; i < ARRAY_LEN(sigils); i++)
		if (*p == sigils[i].c) {
			lex_sigil(lx, p + 1, sigils[i].kind);
			return;
		}
	/* Else the first character says what it is; whatever fits nothing is a bad token, which
	 * every parser refuses. */
	if (is_letter(*p)) {
		const char *q = p;
		while (q < lx->end && is_word(*q)) q++;
		finish(lx, TOKEN_WORD, p, q, q);
	} else if (is_digit(*p) || (*p == '-' && lx->end - p > 1 && is_digit(p[1]))) {
		const char *q = scan_number(p, lx->end);
		finish(lx, TOKEN_NUMBER, p, q, q);
	} else if (*p == '"') {
		const char *q = scan_string(p + 1, lx->end);
		if (q) finish(lx, TOKEN_STRING, p + 1, q, q + 1);
		else finish(lx, TOKEN_BAD, p, p + 1, lx->end);
	} else if (*p == '-' && lx->end - p > 1 && p[1] == '>') {
		finish(lx, TOKEN_ARROW, p, p + 2, p + 2);
	} else if (strchr("(){}[]<>,:=*+-?|", *p) && *p) {
		finish(lx, TOKEN_PUNCT, p, p + 1, p + 1);
		lx->punct = *p;
	} else {
		finish(lx, TOKEN_BAD, p, p + 1, p + 1);
	}
}

/* Positions are asked for in rising order, so counting goes on from the last answer. */
void lexer_position(struct lexer *lx, const char *p, int *line, int *column)
{
	if (!lx->counted_to || p < lx->counted_to) {
		lx->counted_to = lx->line_start = lx->text;
		lx->line = 1;
	}
	for (; lx->counted_to < p; lx->counted_to++)
		if (*lx->counted_to == '\n') {
			lx->line++;
			lx->line_start = lx->counted_to + 1;
		}
	*line = lx->line;
	*column = (int)MIN(p - lx->line_start, 1 << 24) + 1;
}

bool lexer_starts_line(const struct lexer *lx)
{
	const char *p = lx->tok_start;
	while (p > lx->text && (p[-1] == ' ' || p[-1] == '\t')) p--;
	return p == lx->text || p[-1] == '\n';
}

uint32_t slice_hash(struct slice s, uint32_t seed)
{
	uint32_t h = seed;
	for (size_t i = 0; i < s.len; i++) {
		h = (h ^ (uint8_t)s.data[i]) * 0x9e3779b1u;
		h ^= h >> 15;
	}
	return h ^ h >> 13;
}
