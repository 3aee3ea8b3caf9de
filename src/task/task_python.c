/* Just enough of Python's lexical rules to hash a source without its comments and layout, and to
 * see which names it defines at the top. Strings (with prefixes, triple quotes, escapes) are one
 * token, so a # inside one is text. The scanner never fails: an unterminated string ends at the end
 * of its line (or file, when triple), which any caller may treat as it likes (PY_BAD). */
#include "task/task_graph.h"
#include "base/base.h"
#include <ctype.h>

void py_scanner_init(struct py_scanner *s, const char *src, size_t len)
{
	*s = (struct py_scanner){.src = src, .len = len, .line = 1, .at_line_start = true};
}

static int peek(const struct py_scanner *s, size_t ahead)
{
	return s->pos + ahead < s->len ? (unsigned char)s->src[s->pos + ahead] : -1;
}
static bool is_name_byte(int c) { return c >= 0 && (isalnum(c) || c == '_' || c >= 0x80); }

/* Moves over blanks, comments, joined lines and blank lines. Returns true when a logical line ended
 * on the way. */
static bool skip_blank(struct py_scanner *s)
{
	bool ended = false;
	/* After a PY_NEWLINE the blanks of the new line are behind us already, and counted; inside of a
	 * line nobody asks. */
	int width = s->indent;
	for (;;) {
		int c = peek(s, 0);
		/* Blanks make the width of an indentation, tabs to the next multiple of 8. */
		if (c == ' ') {
			width++;
			s->pos++;
		} else if (c == '\t') {
			width = (width / 8 + 1) * 8;
			s->pos++;
		} else if (c == '\f' || c == '\r') {
			s->pos++;
		} else if (c == '#')
			while (peek(s, 0) >= 0 && peek(s, 0) != '\n') s->pos++;
		else if (c == '\\' && (peek(s, 1) == '\n' || (peek(s, 1) == '\r' && peek(s, 2) == '\n'))) {
			s->pos += peek(s, 1) == '\n' ? 2 : 3;
			s->line++;
		} else if (c == '\n') {
			s->pos++;
			s->line++;
			width = 0;
			/* Inside brackets a line end is a blank. */
			if (s->brackets > 0) continue;
			ended |= !s->at_line_start;
			s->at_line_start = true;
		} else break;
	}
	if (s->at_line_start) s->indent = width;
	return ended;
}

/* At a quote: moves behind the string. */
static enum py_token scan_string(struct py_scanner *s)
{
	int quote = peek(s, 0);
	bool triple = peek(s, 1) == quote && peek(s, 2) == quote;
	s->pos += triple ? 3 : 1;
	for (;;) {
		int c = peek(s, 0);
		if (c < 0 || (c == '\n' && !triple)) return PY_BAD;
		if (c == '\n') s->line++;
		if (c == '\\' && peek(s, 1) >= 0) {
			s->line += peek(s, 1) == '\n';
			s->pos += 2;
			continue;
		}
		if (c == quote && (!triple || (peek(s, 1) == quote && peek(s, 2) == quote))) {
			s->pos += triple ? 3 : 1;
			return PY_STRING;
		}
		s->pos++;
	}
}

static bool is_string_prefix(const char *p, size_t len)
{
	if (len > 2) return false;
	for (size_t i = 0; i < len; i++)
		if (!strchr("rRbBuUfF", p[i])) return false;
	return true;
}

static enum py_token scan_word(struct py_scanner *s, size_t start)
{
	bool is_number = isdigit(peek(s, 0)) || peek(s, 0) == '.';
	int last = 0;
	for (;; s->pos++) {
		int c = peek(s, 0);
		bool sign = is_number && (c == '+' || c == '-') && (last == 'e' || last == 'E') &&
			!(s->src[start] == '0' && strchr("xX", s->src[start + 1]));
		if (!is_name_byte(c) && !(is_number && c == '.') && !sign) break;
		last = c;
	}
	if (!is_number && (peek(s, 0) == '"' || peek(s, 0) == '\'') && is_string_prefix(s->src + start, s->pos - start))
		return scan_string(s);
	return is_number ? PY_NUMBER : PY_NAME;
}

enum py_token py_scanner_next(struct py_scanner *s, struct slice *text)
{
	if (skip_blank(s)) {
		*text = (struct slice){"\n", 1};
		return PY_NEWLINE;
	}
	size_t start = s->pos;
	int c = peek(s, 0);
	enum py_token kind = PY_OP;
	s->at_line_start = false;
	if (c < 0) kind = PY_END;
	else if (c == '"' || c == '\'') kind = scan_string(s);
	else if (is_name_byte(c) || (c == '.' && isdigit(peek(s, 1)))) kind = scan_word(s, start);
	else {
		s->pos++;
		if (c == '(' || c == '[' || c == '{') s->brackets++;
		if ((c == ')' || c == ']' || c == '}') && s->brackets > 0) s->brackets--;
	}
	*text = (struct slice){s->src + start, s->pos - start};
	return kind;
}

/* Tokens separated by a byte that no source holds between tokens; each logical line starts with its
 * depth of indentation, not with its width, so that re-indenting does not change the hash but
 * moving a line into another block does. */
struct sha256_hex task_source_hash(const char *src, size_t len)
{
	struct py_scanner s;
	struct slice text;
	struct str flat = {0};
	int widths[100] = {0}, depth = 0;
	bool fresh = true;
	/* Only tokens enter the hash, so that white space between them does not count. */
	py_scanner_init(&s, src, len);
	for (;;) {
		enum py_token t = py_scanner_next(&s, &text);
		if (t == PY_END) break;
		if (t == PY_NEWLINE) {
			fresh = true;
			continue;
		}
		if (fresh) {
			/* The widths of the open blocks form a stack, whose height is the depth of this
			 * line. */
			while (depth > 0 && s.indent < widths[depth]) depth--;
			if (s.indent > widths[depth] && depth + 1 < (int)ARRAY_LEN(widths)) widths[++depth] = s.indent;
			str_printf(&flat, "\n%d", depth);
			fresh = false;
		}
		str_putc(&flat, '\x1f');
		str_append(&flat, text.data, text.len);
	}
	struct sha256_hex h = hash_bytes(flat.data ? flat.data : "", flat.len);
	str_release(&flat);
	return h;
}
