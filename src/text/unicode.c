/* UTF-8 checks and the generated class tables. Validation stands apart from decoding, so that
 * everything behind it can decode without looking at bounds: text is checked once, at the door. */
#include "text/unicode.h"
#include "unicode_tables.h"
#include <string.h>

/* Bytes of the character that p (with `left` bytes) starts, 0 when it is malformed. The ranges are
 * Unicode's table 3-7. */
static size_t char_len(const uint8_t *p, size_t left)
{
	uint8_t low = 0x80, high = 0xbf;
	size_t len;
	if (p[0] < 0x80) return 1;
	if (p[0] >= 0xc2 && p[0] <= 0xdf) {
		len = 2;
	} else if (p[0] >= 0xe0 && p[0] <= 0xef) {
		len = 3;
		low = p[0] == 0xe0 ? 0xa0 : 0x80;
		high = p[0] == 0xed ? 0x9f : 0xbf;
	} else if (p[0] >= 0xf0 && p[0] <= 0xf4) {
		len = 4;
		low = p[0] == 0xf0 ? 0x90 : 0x80;
		high = p[0] == 0xf4 ? 0x8f : 0xbf;
	} else {
		return 0;
	}
	if (left < len || p[1] < low || p[1] > high) return 0;
	for (size_t i = 2; i < len; i++)
		if ((p[i] & 0xc0) != 0x80) return 0;
	return len;
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
		size_t n = char_len(p + i, len - i);
		if (!n) break;
		i += n;
	}
	return i;
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
