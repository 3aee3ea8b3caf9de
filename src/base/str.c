/* Growable byte strings. Capacity doubles; one byte is always kept for the terminator, so that data
 * can be printed and parsed as C text. Appending a part of the string to itself is legal: the
 * source is found again after the block moved. */
#include "base/base.h"
#include <stdlib.h>

static void str_reserve(struct str *s, size_t more)
{
	CHECKF(more < SIZE_MAX / 4 && s->len < SIZE_MAX / 4, "string of %zu + %zu bytes", s->len, more);
	size_t need = s->len + more + 1;
	if (need <= s->cap) return;
	size_t cap = MAX(MAX(s->cap * 2, need), 64);
	s->data = xrealloc(s->data, cap);
	s->cap = cap;
}

void str_append(struct str *s, const void *data, size_t len)
{
	uintptr_t at = (uintptr_t)data, base = (uintptr_t)s->data;
	bool own = s->data && at >= base && at < base + s->cap;
	str_reserve(s, len);
	if (own) data = s->data + (at - base);
	if (len) memmove(s->data + s->len, data, len);
	s->len += len;
	s->data[s->len] = 0;
}

void str_puts(struct str *s, const char *text) { str_append(s, text, strlen(text)); }
void str_putc(struct str *s, char c) { str_append(s, &c, 1); }

void str_printf(struct str *s, const char *fmt, ...)
{
	va_list ap;
	va_start(ap, fmt);
	str_vprintf(s, fmt, ap);
	va_end(ap);
}

void str_vprintf(struct str *s, const char *fmt, va_list ap)
{
	va_list copy;
	va_copy(copy, ap);
	int len = vsnprintf(NULL, 0, fmt, copy);
	va_end(copy);
	CHECKF(len >= 0, "format \"%s\" failed", fmt);
	str_reserve(s, (size_t)len);
	vsnprintf(s->data + s->len, (size_t)len + 1, fmt, ap);
	s->len += (size_t)len;
}

void str_clear(struct str *s)
{
	s->len = 0;
	if (s->data) s->data[0] = 0;
}

void str_release(struct str *s)
{
	free(s->data);
	*s = (struct str){0};
}

/* Decodes one character of UTF-8 at s: its length, or 0 where it is broken, longer than it need be
 * or of no character; *code is its number. */
static int utf8_next(const unsigned char *s, uint32_t *code)
{
	int len = s[0] < 0x80             ? 1
		: s[0] >= 0xc2 && s[0] < 0xe0 ? 2
		: (s[0] & 0xf0) == 0xe0       ? 3
		: s[0] >= 0xf0 && s[0] < 0xf5 ? 4
									  : 0;
	*code = len == 1 ? s[0] : len ? s[0] & (0x7fu >> len) : 0;
	for (int i = 1; i < len; i++) {
		if ((s[i] & 0xc0) != 0x80) return 0;
		*code = *code << 6 | (s[i] & 0x3f);
	}
	if ((len == 3 && *code < 0x800) || (len == 4 && (*code < 0x10000 || *code > 0x10ffff))) return 0;
	return len;
}

/* Invisible, or with a meaning for the terminal: ranges of characters. */
static bool is_unprintable(uint32_t c)
{
	static const uint32_t ranges[][2] = {{0, 8}, {0xb, 0x1f}, {0x7f, 0x9f}, {0x61c, 0x61c}, {0x200b, 0x200f},
		{0x2028, 0x202e}, {0x2060, 0x206f}, {0xd800, 0xdfff}, {0xfeff, 0xfeff}, {0xfff9, 0xfffb}, {0xe0000, 0xe0fff}};
	for (size_t i = 0; i < ARRAY_LEN(ranges); i++)
		if (c >= ranges[i][0] && c <= ranges[i][1]) return true;
	return false;
}

void text_make_printable(char *s)
{
	char *to = s;
	while (*s) {
		uint32_t code;
		int len = utf8_next((const unsigned char *)s, &code);
		if (!len || is_unprintable(code)) {
			*to++ = '?';
			s += len ? len : 1;
			continue;
		}
		memmove(to, s, (size_t)len);
		to += len;
		s += len;
	}
	*to = 0;
}

/* ---- slices ---- */

bool slice_is(struct slice s, const char *text) { return s.len == strlen(text) && !memcmp(s.data, text, s.len); }

bool text_ends_in(const char *text, const char *end)
{
	size_t len = strlen(text), n = strlen(end);
	return len >= n && !strcmp(text + len - n, end);
}

bool slice_same(struct slice a, struct slice b) { return a.len == b.len && !memcmp(a.data, b.data, a.len); }
