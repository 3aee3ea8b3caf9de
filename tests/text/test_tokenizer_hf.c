/* The tokenizer against Hugging Face's: same ids and same decoded bytes for every case that
 * tests/ref/text_oracle.py writes, for each kind of tokenizer; and decode(encode(text)) == text
 * where the alphabet is whole. Equality is exact: there is no tolerance. timeout: 1200 for make
 * fuzz-text, which asks for 50,000 fuzz strings and every code point (HONE_FUZZ_TEXTS). */
#include "text/text.h"
#include "text/tokenizer_internal.h"
#include "text/unicode.h"
#include <setjmp.h>
#include <stdlib.h>

#include <cmocka.h>

static const char *const kinds[] = {"qwen", "qwen-gaps", "gpt2", "gpt2-prefix", "llama3", "smollm", "qwen35",
	"digit-runs", "no-unk", "qwen-flags", "llama3-flags"};
static char *folder;

static int run_oracle(void **state)
{
	const char *build = getenv("BUILD");
	folder = path_join(build ? build : "build/release",
		getenv("HONE_FUZZ_TEXTS") ? "ref/text-fuzz" : "ref/text"); /* both may run at once */
	char *command = xasprintf(
		"TOKENIZERS_PARALLELISM=false build/venv/bin/python tests/ref/text_oracle.py '%s' >&2", folder);
	int rc = system(command);
	free(command);
	return rc;
}

static int free_folder(void **state)
{
	free(folder);
	return 0;
}

struct cursor {
	const uint8_t *p, *end;
};

static uint32_t take_u32(struct cursor *c)
{
	uint32_t v;
	assert_true(c->end - c->p >= 4);
	memcpy(&v, c->p, 4);
	c->p += 4;
	return v;
}

static const void *take(struct cursor *c, size_t bytes)
{
	const void *p = c->p;
	assert_true((size_t)(c->end - c->p) >= bytes);
	c->p += bytes;
	return p;
}

static void show(const char *label, const struct tokenizer *t, const int32_t *ids, size_t count)
{
	print_message("  %s:", label);
	for (size_t i = 0; i < count && i < 60; i++) {
		struct str s = {0};
		tokenizer_decode(t, &ids[i], 1, false, &s);
		print_message(" %d[%.*s]", ids[i], (int)s.len, s.data ? s.data : "");
		str_release(&s);
	}
	print_message("\n");
}

#define LEFT_OUT UINT32_MAX

/* added: with added tokens and what the post-processor adds. */
static bool same_ids(const struct tokenizer *t, const char *text, size_t len, bool added, struct cursor *c)
{
	struct ids ids = {0};
	struct err err = {0};
	uint32_t count = take_u32(c);
	if (count == LEFT_OUT) return true;
	const uint8_t *bytes = take(c, (size_t)count * 4);
	int32_t *expected = xmalloc((size_t)count * 4);
	memcpy(expected, bytes, (size_t)count * 4);
	if (added) tokenizer_push_prefix(t, &ids);
	assert_int_equal(tokenizer_encode(t, text, len, added, &ids, &err), 0);
	for (int i = 0; added && i < t->nsuffix; i++) ids_push(&ids, t->suffix[i]);
	bool same = ids.count == count && (!count || !memcmp(ids.data, expected, (size_t)count * 4));
	if (!same) {
		size_t at = 0;
		while (at < ids.count && at < count && ids.data[at] == expected[at]) at++;
		print_message("added tokens %s, first difference at token %zu, text: %.*s\n", added ? "on" : "off", at,
			(int)MIN(len, 300), text);
		show("expected", t, expected + at, count - at);
		show("found   ", t, ids.data + at, ids.count - at);
	}
	free(expected);
	ids_release(&ids);
	return same;
}

static void push_len(void *ctx, const char *word, size_t len) { ids_push(ctx, (int32_t)len); }

static bool same_words(const struct tokenizer *t, const char *text, size_t len, struct cursor *c)
{
	struct ids lens = {0};
	struct str normal = {0};
	uint32_t count = take_u32(c);
	if (count == LEFT_OUT) return true;
	const void *expected = take(c, (size_t)count * 4);
	if (t->nfc) nfc_append(&normal, text, len);
	else str_append(&normal, text, len);
	if (normal.len) stages_run(t->stages, t->nstages, normal.data, normal.len, push_len, &lens);
	bool same = lens.count == count && (!count || !memcmp(lens.data, expected, (size_t)count * 4));
	if (!same) {
		size_t at = 0, from = 0;
		for (int32_t n;
			at < lens.count && at < count && (memcpy(&n, (const char *)expected + at * 4, 4), n == lens.data[at]); at++)
			from += (size_t)n;
		print_message("word %zu is wrong: %d bytes of %.*s\n", at, at < lens.count ? lens.data[at] : -1,
			(int)MIN(normal.len - from, 60), normal.data + from);
	}
	str_release(&normal);
	ids_release(&lens);
	return same;
}

/* Where bytes have no token, characters lose some of theirs; tokenizers then puts replacement
 * characters, hone leaves the bytes. */
static bool same_text(const struct tokenizer *t, const struct ids *ids, bool skip_special, struct cursor *c)
{
	struct str back = {0};
	uint32_t count = take_u32(c);
	const char *expected = take(c, count);
	tokenizer_decode(t, ids->data, ids->count, skip_special, &back);
	bool partial = utf8_valid_prefix(back.data, back.len) < back.len;
	bool same = partial || (back.len == count && (!count || !memcmp(back.data, expected, count)));
	if (!same)
		print_message("decoded, special tokens %s: expected %.*s\n  found %.*s\n", skip_special ? "skipped" : "kept",
			(int)count, expected, (int)back.len, back.data ? back.data : "");
	str_release(&back);
	return same;
}

/* Without added tokens, which may take white space along, decoding gives the text back: as NFC
 * where the tokenizer normalises. */
static bool comes_back(const struct tokenizer *t, const char *text, size_t len)
{
	struct ids ids = {0};
	struct err err = {0};
	struct str back = {0}, normal = {0};
	assert_int_equal(tokenizer_encode(t, text, len, false, &ids, &err), 0);
	tokenizer_decode(t, ids.data, ids.count, true, &back);
	if (t->nfc) nfc_append(&normal, text, len);
	else str_append(&normal, text, len);
	bool same = back.len == normal.len && (!normal.len || !memcmp(back.data, normal.data, normal.len));
	if (!same)
		print_message(
			"does not come back: %.*s\n  found %.*s\n", (int)len, text, (int)back.len, back.data ? back.data : "");
	ids_release(&ids);
	str_release(&back);
	str_release(&normal);
	return same;
}

static bool same_decoded(const struct tokenizer *t, const char *text, size_t len, const char *kind, struct cursor *c)
{
	struct ids ids = {0};
	struct err err = {0};
	tokenizer_push_prefix(t, &ids);
	assert_int_equal(tokenizer_encode(t, text, len, true, &ids, &err), 0);
	for (int i = 0; i < t->nsuffix; i++) ids_push(&ids, t->suffix[i]);
	bool same = same_text(t, &ids, true, c);
	same = same_text(t, &ids, false, c) && same;
	if (strcmp(kind, "gpt2-prefix") && strcmp(kind, "digit-runs") &&
		strcmp(kind, "no-unk")) /* these change the text, or lack bytes */
		same = comes_back(t, text, len) && same;
	ids_release(&ids);
	return same;
}

static void test_kind(void **state)
{
	const char *kind = *state;
	struct err err = {0};
	struct tokenizer *t;
	struct file_map map;
	char *dir = path_join(folder, kind), *cases = path_join(dir, "cases.bin");
	int rc = tokenizer_open(dir, &t, &err);
	if (rc) print_message("%s\n", err.text);
	assert_int_equal(rc, 0);
	assert_int_equal(file_map_open(cases, &map, &err), 0);
	/* Each case is a text with what the tokenizers package makes of it, in four ways. Ten failures
	 * are printed, then it ends. */
	struct cursor c = {map.data, map.data + map.len};
	int failed = 0, count = 0;
	for (; c.p < c.end && failed < 10; count++) {
		uint32_t len = take_u32(&c);
		const char *text = take(&c, len);
		bool ok = same_ids(t, text, len, true, &c);
		ok = same_ids(t, text, len, false, &c) && ok;
		ok = same_words(t, text, len, &c) && ok;
		ok = same_decoded(t, text, len, kind, &c) && ok;
		failed += !ok;
	}
	print_message("# %s: %d cases\n", kind, count);
	assert_int_equal(failed, 0);
	assert_true(count > 2000);
	file_map_close(&map);
	tokenizer_free(t);
	free(dir);
	free(cases);
}

int main(void)
{
	struct CMUnitTest tests[ARRAY_LEN(kinds)];
	for (size_t i = 0; i < ARRAY_LEN(kinds); i++)
		tests[i] = (struct CMUnitTest){
			.name = kinds[i], .test_func = test_kind, .initial_state = (void *)(uintptr_t)kinds[i]};
	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests_name("tokenizer against tokenizers", tests, run_oracle, free_folder);
}
