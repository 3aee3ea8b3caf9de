/* The first look at a tape's text, before a JSON library sees it. jansson takes some 100 bytes for
 * a value that costs two bytes of text ("[]"), so 64 MiB of hostile text would become gigabytes;
 * and it descends recursively. Counting brackets and commas outside of strings bounds both. */
#include "tape/tape_internal.h"
#include "base/base.h"

#define TAPE_VALUES_MAX (1 << 20)
#define TAPE_DEPTH_MAX 64

int tape_text_check(const char *text, size_t len, struct err *err)
{
	size_t values = 1;
	int depth = 0;
	for (size_t i = 0; i < len; i++) {
		switch (text[i]) {
		case '"': /* to the closing quote; the JSON parser complains about what is wrong inside */
			for (i++; i < len && text[i] != '"'; i++)
				if (text[i] == '\\') i++;
			break;
		case '[':
		case '{':
			values++;
			if (++depth > TAPE_DEPTH_MAX) return err_set(err, ERR_LIMIT, "tape: nested deeper than %d", TAPE_DEPTH_MAX);
			break;
		case ']':
		case '}': depth--; break;
		case ',':
		case ':': values++; break;
		}
		if (values > TAPE_VALUES_MAX) return err_set(err, ERR_LIMIT, "tape: more than %d values", TAPE_VALUES_MAX);
	}
	return 0;
}

static int base64_digit(unsigned char c)
{
	if (c >= 'A' && c <= 'Z') return c - 'A';
	if (c >= 'a' && c <= 'z') return c - 'a' + 26;
	if (c >= '0' && c <= '9') return c - '0' + 52;
	return c == '+' ? 62 : c == '/' ? 63 : -1;
}

bool tape_base64_decode(const char *text, size_t len, uint8_t *out, size_t bytes)
{
	if (len % 4 != 0 || len / 4 != (bytes + 2) / 3) return false;
	size_t at = 0;
	for (size_t i = 0; i < len; i += 4) {
		size_t take = MIN((size_t)3, bytes - at);
		uint32_t word = 0;
		for (size_t j = 0; j < 4; j++) {
			int digit = j <= take ? base64_digit((unsigned char)text[i + j]) : text[i + j] == '=' ? 0 : -1;
			if (digit < 0) return false;
			word = word << 6 | (uint32_t)digit;
		}
		uint8_t triple[3] = {(uint8_t)(word >> 16), (uint8_t)(word >> 8), (uint8_t)word};
		for (size_t j = take; j < 3; j++)
			if (triple[j]) return false; /* stray bits: two texts for the same bytes */
		memcpy(out + at, triple, take);
		at += take;
	}
	return true;
}
