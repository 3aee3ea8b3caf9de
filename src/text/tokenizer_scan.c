/* The vocabulary and the merges are nearly all of a tokenizer.json, two lists of the plainest kind:
 * as values of jansson, one allocation or more each, they took half of the time in which a
 * tokenizer was opened. Here their texts are found, to be cut out of what jansson reads, and read
 * in place.
 *
 * Reading is as strict as jansson's. What is wrong with a text is not said here: false sends the
 * caller to jansson with all of the file. */
#include "text/tokenizer_internal.h"
#include "base/base.h"
#include "text/unicode.h"

static void skip_space(struct scan *s)
{
	while (s->p < s->end && (*s->p == ' ' || *s->p == '\n' || *s->p == '\t' || *s->p == '\r')) s->p++;
}

bool scan_char(struct scan *s, char c)
{
	skip_space(s);
	if (s->p == s->end || *s->p != c) return false;
	s->p++;
	return true;
}

static bool hex4(struct scan *s, uint32_t *out)
{
	*out = 0;
	for (int i = 0; i < 4; i++) {
		const char *digits = "0123456789abcdef0123456789ABCDEF",
				   *at = s->p < s->end && *s->p ? strchr(digits, *s->p) : NULL;
		if (!at) return false;
		*out = *out << 4 | (uint32_t)((at - digits) & 15);
		s->p++;
	}
	return true;
}

/* Behind \u. A character beyond 16 bits is spelled as two surrogates; one alone is no character,
 * and 0 is not read. */
static bool unicode_escape(struct scan *s, struct str *out)
{
	uint32_t c, low;
	char text[4];
	if (!hex4(s, &c) || c == 0 || (c >= 0xdc00 && c <= 0xdfff)) return false;
	if (c >= 0xd800 && c <= 0xdbff) {
		if (s->end - s->p < 2 || s->p[0] != '\\' || s->p[1] != 'u') return false;
		s->p += 2;
		if (!hex4(s, &low) || low < 0xdc00 || low > 0xdfff) return false;
		c = 0x10000 + ((c - 0xd800) << 10 | (low - 0xdc00));
	}
	str_append(out, text, utf8_put(c, text));
	return true;
}

static bool escape(struct scan *s, struct str *out)
{
	static const char names[] = "\"\\/bfnrt", values[] = "\"\\/\b\f\n\r\t";
	if (s->p == s->end) return false;
	char c = *s->p++;
	if (c == 'u') return unicode_escape(s, out);
	const char *at = c ? strchr(names, c) : NULL;
	if (at) str_putc(out, values[at - names]);
	return at;
}

bool scan_string(struct scan *s, struct str *out)
{
	size_t start = out->len;
	unsigned seen = 0; /* the highest bit of any byte */
	if (!scan_char(s, '"')) return false;
	for (;;) {
		const char *run = s->p;
		while (s->p < s->end && *s->p != '"' && *s->p != '\\' && (uint8_t)*s->p >= 0x20) seen |= (uint8_t)*s->p++;
		str_append(out, run, (size_t)(s->p - run));
		if (s->p == s->end || (uint8_t)*s->p < 0x20) return false;
		if (*s->p++ == '"') break;
		if (!escape(s, out)) return false;
	}
	return seen < 0x80 || utf8_valid_prefix(out->data + start, out->len - start) == out->len - start;
}

bool scan_id(struct scan *s, int32_t *out)
{
	const char *p;
	int64_t n = 0;
	skip_space(s);
	for (p = s->p; p < s->end && *p >= '0' && *p <= '9' && n < TOKENIZER_IDS_MAX; p++) n = n * 10 + (*p - '0');
	bool is_integer = p > s->p && (*s->p != '0' || p == s->p + 1) && p < s->end && *p != '.' && *p != 'e' && *p != 'E';
	if (!is_integer || n >= TOKENIZER_IDS_MAX) return false;
	s->p = p;
	*out = (int32_t)n;
	return true;
}

/* Past a string whose contents do not matter. */
static bool skip_string(struct scan *s)
{
	for (s->p++; s->p < s->end && *s->p != '"'; s->p++)
		if (*s->p == '\\' && ++s->p == s->end) return false;
	return s->p < s->end && *s->p++ == '"';
}

bool scan_value(struct scan *s, struct slice *out)
{
	int depth = 0;
	skip_space(s);
	const char *begin = s->p;
	while (s->p < s->end) {
		char c = *s->p;
		if (depth == 0 && (c == ',' || c == ']' || c == '}')) break;
		if (c == '"') {
			if (!skip_string(s)) return false;
			continue;
		}
		depth += (c == '[' || c == '{') - (c == ']' || c == '}');
		s->p++;
		if (depth == 0 && (c == ']' || c == '}')) break;
	}
	*out = (struct slice){begin, (size_t)(s->p - begin)};
	return depth == 0 && out->len > 0;
}

static bool is_key(const struct str *key, const char *name)
{
	return key->len == strlen(name) && !memcmp(key->data, name, key->len);
}

/* Reads the members of an object; member takes the value that s stands before. */
typedef bool member_fn(struct scan_lists *l, const struct str *key, struct scan *s);
static bool each_member(struct scan *s, member_fn *member, struct scan_lists *l)
{
	struct str key = {0};
	bool good = scan_char(s, '{');
	while (good) {
		str_clear(&key);
		good = scan_string(s, &key) && scan_char(s, ':') && member(l, &key, s);
		if (!good || !scan_char(s, ',')) break;
	}
	str_release(&key);
	return good && scan_char(s, '}');
}

static bool model_member(struct scan_lists *l, const struct str *key, struct scan *s)
{
	struct slice value;
	if (!scan_value(s, &value)) return false;
	if (is_key(key, "vocab") && value.data[0] == '{') l->vocab = value;
	else if (is_key(key, "merges") && value.data[0] == '[') l->merges = value;
	return true;
}

static bool root_member(struct scan_lists *l, const struct str *key, struct scan *s)
{
	struct slice value;
	skip_space(s);
	bool is_model = is_key(key, "model") && s->p < s->end && *s->p == '{';
	return is_model ? each_member(s, model_member, l) : scan_value(s, &value);
}

static void put_until(struct str *out, const char **from, const char *to)
{
	str_append(out, *from, (size_t)(to - *from));
	*from = to;
}

void scan_lists_cut(struct slice text, struct scan_lists *l, struct str *rest)
{
	const char *from = text.data;
	struct scan s = {text.data, text.data + text.len};
	*l = (struct scan_lists){0};
	each_member(&s, root_member, l);
	bool vocab_first = l->vocab.data < l->merges.data;
	const struct slice *lists[] = {vocab_first ? &l->vocab : &l->merges, vocab_first ? &l->merges : &l->vocab};
	for (size_t i = 0; i < ARRAY_LEN(lists); i++) {
		if (!lists[i]->data) continue;
		put_until(rest, &from, lists[i]->data + 1);
		from = lists[i]->data + lists[i]->len - 1;
	}
	put_until(rest, &from, text.data + text.len);
}
