/* NFC, as Hugging Face's tokenizers computes it.
 *
 * utf8proc does the work, on the few places that need it: a base character and the marks after it
 * that are no plain starters. Everything else is copied. tokenizers' own data stops at Unicode 9,
 * and a model has seen text through that data: characters that got a combining class or a
 * composition later (UNICODE_NFC_BREAK) are plain starters here too, so a run ends before such a
 * character and starts behind it. */
#include "text/tokenizer_internal.h"
#include "base/base.h"
#include "text/unicode.h"
#include <stdlib.h>
#include <utf8proc.h>

static bool needs_check(const uint8_t *p, size_t *len)
{
	if (*p < 0xcc) { /* U+0300, the first mark, is cc 80 */
		*len = *p < 0x80 ? 1 : 2;
		return false;
	}
	uint32_t c;
	*len = utf8_next(p, &c);
	return (unicode_class(c) & (UNICODE_NFC_CHECK | UNICODE_NFC_BREAK)) == UNICODE_NFC_CHECK;
}

bool nfc_is_plain(const char *text, size_t len)
{
	const uint8_t *p = (const uint8_t *)text;
	for (size_t i = 0, n; i < len; i += n) {
		uint64_t word;
		if (len - i >= 8 && (memcpy(&word, p + i, 8), !(word & 0x8080808080808080u))) n = 8;
		else if (needs_check(p + i, &n)) return false;
	}
	return true;
}

static void compose(struct str *out, const char *text, size_t len)
{
	utf8proc_uint8_t *composed = NULL;
	utf8proc_ssize_t n = utf8proc_map(
		(const utf8proc_uint8_t *)text, (utf8proc_ssize_t)len, &composed, UTF8PROC_STABLE | UTF8PROC_COMPOSE);
	CHECKF(n >= 0, "utf8proc on %zu bytes of valid text: %s", len, utf8proc_errmsg(n));
	str_append(out, composed, (size_t)n);
	free(composed);
}

static bool is_break(const char *p)
{
	uint32_t c;
	utf8_next((const uint8_t *)p, &c);
	return unicode_class(c) & UNICODE_NFC_BREAK;
}

void nfc_append(struct str *out, const char *text, size_t len)
{
	const uint8_t *p = (const uint8_t *)text;
	size_t done = 0, base = 0; /* copied up to done; base: the last character that needs no check */
	for (size_t i = 0, n; i < len; i += n) {
		if (!needs_check(p + i, &n)) {
			base = i;
			continue;
		}
		size_t end = i + n, begin = base;
		while (end < len && needs_check(p + end, &n)) end += n;
		if (begin < i && is_break(text + begin)) begin = i;
		str_append(out, text + done, begin - done);
		compose(out, text + begin, end - begin);
		done = end;
		base = end;
		n = end - i;
	}
	str_append(out, text + done, len - done);
}
