/* UTF-8 checks and the generated class tables. Validation stands apart from decoding, so that
 * everything behind it can decode without looking at bounds: text is checked once, at the door. */
#include "text/unicode.h"
#include "base/base.h"
#include "unicode_tables.h"
#include <string.h>

/* Bytes of a character that begins with `first` and the range of its second byte, which keeps out
 * overlong forms, surrogates and what lies above U+10FFFF (Unicode's table 3-7); 0: none does. */
static size_t char_shape(uint8_t first, uint8_t *low, uint8_t *high)
{
	*low = first == 0xe0 ? 0xa0 : first == 0xf0 ? 0x90 : 0x80;
	*high = first == 0xed ? 0x9f : first == 0xf4 ? 0x8f : 0xbf;
	return first < 0x80 ? 1 : first < 0xc2 ? 0 : first < 0xe0 ? 2 : first < 0xf0 ? 3 : first < 0xf5 ? 4 : 0;
}

/* How many of the `left` bytes at p belong to one character; *is_whole: they are one. */
static size_t char_begin(const uint8_t *p, size_t left, bool *is_whole)
{
	uint8_t low, high;
	size_t len = char_shape(p[0], &low, &high), i = 1;
	for (; i < len && i < left && p[i] >= low && p[i] <= high; i++) {
		low = 0x80;
		high = 0xbf;
	}
	*is_whole = i == len;
	return i;
}

size_t utf8_valid_prefix(const char *text, size_t len)
{
	const uint8_t *p = (const uint8_t *)text;
	size_t i = 0;
	while (i < len) {
		uint64_t word;
		if (len - i >= 8 && (memcpy(&word, p + i, 8), !(word & 0x8080808080808080u))) {
			i += 8;
			continue;
		}
		bool is_whole;
		size_t n = char_begin(p + i, len - i, &is_whole);
		if (!is_whole) break;
		i += n;
	}
	return i;
}

void utf8_repair(const char *text, size_t len, struct str *out)
{
	for (size_t i = 0; i < len;) {
		size_t valid = utf8_valid_prefix(text + i, len - i);
		str_append(out, text + i, valid);
		i += valid;
		/* What could still have become a character counts as one, and so does a byte that could
		 * not. */
		bool is_whole;
		if (i == len) return;
		i += char_begin((const uint8_t *)text + i, len - i, &is_whole);
		str_puts(out, "\xef\xbf\xbd");
	}
}

/* The number behind \u at p, -1 where there is none. */
static int escape_code(const char *p, size_t left)
{
	int code = 0;
	if (left < 6 || p[0] != '\\' || p[1] != 'u') return -1;
	for (int i = 2; i < 6; i++) {
		const char *digits = "0123456789abcdefABCDEF", *at = p[i] ? strchr(digits, p[i]) : NULL;
		if (!at) return -1;
		code = 16 * code + (int)(at - digits < 16 ? at - digits : at - digits - 6);
	}
	return code;
}

static bool is_low_half(int code) { return code >= 0xdc00 && code < 0xe000; }

void json_repair(const char *text, size_t len, struct str *out)
{
	struct str clean = {0};
	utf8_repair(text, len, &clean);
	for (size_t i = 0; i < clean.len;) {
		const char *p = clean.data + i;
		size_t left = clean.len - i, step = *p == '\\' && left > 1 ? 2 : 1;
		int code = escape_code(p, left);
		bool is_half = code >= 0xd800 && code < 0xe000, is_broken = code == 0 || is_half;
		/* An escape counts as a whole, a pair of halves as one character. */
		if (code >= 0) step = 6;
		if (is_half && !is_low_half(code) && is_low_half(escape_code(p + 6, left - 6))) {
			is_broken = false;
			step = 12;
		}
		is_broken |= (unsigned char)*p < 0x20 && !strchr("\t\r\n", *p);
		if (is_broken || !*p) str_puts(out, "\xef\xbf\xbd");
		else str_append(out, p, step);
		i += step;
	}
	str_release(&clean);
}

size_t utf8_last(const char *text, size_t end)
{
	size_t i = end - 1;
	while (i > 0 && ((uint8_t)text[i] & 0xc0) == 0x80) i--;
	return i;
}

size_t utf8_put(uint32_t c, char out[4])
{
	if (c < 0x80) {
		out[0] = (char)c;
		return 1;
	}
	if (c < 0x800) {
		out[0] = (char)(0xc0 | c >> 6);
		out[1] = (char)(0x80 | (c & 0x3f));
		return 2;
	}
	if (c < 0x10000) {
		out[0] = (char)(0xe0 | c >> 12);
		out[1] = (char)(0x80 | (c >> 6 & 0x3f));
		out[2] = (char)(0x80 | (c & 0x3f));
		return 3;
	}
	out[0] = (char)(0xf0 | c >> 18);
	out[1] = (char)(0x80 | (c >> 12 & 0x3f));
	out[2] = (char)(0x80 | (c >> 6 & 0x3f));
	out[3] = (char)(0x80 | (c & 0x3f));
	return 4;
}
