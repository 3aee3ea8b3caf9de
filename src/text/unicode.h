/* unicode: UTF-8 and character classes, as far as tokenizers need them. The tables are generated
 * (tools/unicode_tables.py). */
#ifndef HONE_TEXT_UNICODE_H
#define HONE_TEXT_UNICODE_H
#include "base/base.h"
#include <stddef.h>
#include <stdint.h>

/* Classes of a character; the same bits as in tools/unicode_tables.py. */
enum {
	UNICODE_LETTER = 1,     /* \p{L} */
	UNICODE_NUMBER = 2,     /* \p{N} */
	UNICODE_SPACE = 4,      /* \s */
	UNICODE_MARK = 8,       /* \p{M} */
	UNICODE_WORD = 16,      /* \w */
	UNICODE_NFC_CHECK = 32, /* text with such a character may not be NFC */
	UNICODE_NFC_BREAK = 64, /* a plain starter to tokenizers' NFC although it is none today */
};
#define UNICODE_BLOCK 128
extern const uint16_t unicode_block[0x110000 / UNICODE_BLOCK];
extern const uint8_t unicode_flags[][UNICODE_BLOCK];

static inline unsigned unicode_class(uint32_t c)
{
	return unicode_flags[unicode_block[c / UNICODE_BLOCK]][c % UNICODE_BLOCK];
}

/* Decodes the character at p of text that is known to be valid; returns its bytes. */
static inline size_t utf8_next(const uint8_t *p, uint32_t *c)
{
	if (p[0] < 0x80) {
		*c = p[0];
		return 1;
	}
	if (p[0] < 0xe0) {
		*c = (uint32_t)(p[0] & 0x1f) << 6 | (p[1] & 0x3f);
		return 2;
	}
	if (p[0] < 0xf0) {
		*c = (uint32_t)(p[0] & 0x0f) << 12 | (uint32_t)(p[1] & 0x3f) << 6 | (p[2] & 0x3f);
		return 3;
	}
	*c = (uint32_t)(p[0] & 0x07) << 18 | (uint32_t)(p[1] & 0x3f) << 12 | (uint32_t)(p[2] & 0x3f) << 6 | (p[3] & 0x3f);
	return 4;
}

/* Offset of the first byte that does not belong to valid UTF-8 (no surrogates, no overlong forms);
 * len when all is valid. */
size_t utf8_valid_prefix(const char *text, size_t len);
/* Appends a text that may be cut or no UTF-8 at all as one that is valid: what the bytes begin and
 * do not finish becomes one U+FFFD, as do bytes that begin nothing. This is Unicode's practice
 * ("maximal subparts"), and so what transformers and Python's "replace" write. */
void utf8_repair(const char *text, size_t len, struct str *out);
/* A JSON text whose strings hold what no text of ours does: bytes that are no UTF-8, control bytes,
 * an escaped NUL, half of an escaped surrogate pair. Each becomes U+FFFD. */
void json_repair(const char *text, size_t len, struct str *out);
/* Offset of the character that ends at `end` (> 0) of valid text. */
size_t utf8_last(const char *text, size_t end);
/* Writes c (a valid code point) into out; returns its bytes. */
size_t utf8_put(uint32_t c, char out[4]);
#endif
