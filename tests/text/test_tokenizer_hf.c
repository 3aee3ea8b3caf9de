/* The tokenizer against Hugging Face's: same ids and same decoded bytes for every case that tests/ref/text_oracle.py writes, for each kind of
 * tokenizer; and decode(encode(text)) == text where the alphabet is whole. Equality is exact: there is no tolerance. */
#include "text/text.h"
#include "text/tokenizer_internal.h"
#include "text/unicode.h"
#include <setjmp.h>
#include <stdlib.h>

#include <cmocka.h>

static const char *const kinds[] = {"qwen", "qwen-gaps", "gpt2", "gpt2-prefix", "llama3", "smollm", "qwen35", "digit-runs", "no-unk"};
static char *folder;

static int run_oracle(void **state)
{
	const char *build = getenv("BUILD");
	folder = path_join(build ? build : "build/release", "ref/text");
	char *command = xasprintf("TOKENIZERS_PARALLELISM=false build/venv/bin/python tests/ref/text_oracle.py '%s' >&2", folder);
	int rc = system(command);
	free(command);
	return rc;
}

static int free_folder(void **state)
{
	free(folder);
	return 0;
}

struct cursor { const uint8_t *p, *end; };

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

static bool same_ids(const struct tokenizer *t, const char *text, size_t len, bool special, struct cursor *c)
{
	struct ids ids = {0};
	struct err err = {0};
	uint32_t count = take_u32(c);
	const uint8_t *bytes = take(c, (size_t)count * 4);
	int32_t *expected = xmalloc((size_t)count * 4);
	memcpy(expected, bytes, (size_t)count * 4);
	assert_int_equal(tokenizer_encode(t, text, len, special, &ids, &err), 0);
	bool same = ids.count == count && (!count || !memcmp(ids.data, expected, (size_t)count * 4));
	if (!same) {
		size_t at = 0;
		while (at < ids.count && at < count && ids.data[at] == expected[at])
			at++;
		print_message("added tokens %s, first difference at token %zu, text: %.*s\n", special ? "on" : "off", at, (int)MIN(len, 300), text);
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
	const void *expected = take(c, (size_t)count * 4);
	if (t->nfc)
		nfc_append(&normal, text, len);
	else
		str_append(&normal, text, len);
	if (normal.len)
		stages_run(t->stages, t->nstages, normal.data, normal.len, push_len, &lens);
	bool same = lens.count == count && (!count || !memcmp(lens.data, expected, (size_t)count * 4));
	if (!same) {
		size_t at = 0, from = 0;
		for (int32_t n; at < lens.count && at < count && (memcpy(&n, (const char *)expected + at * 4, 4), n == lens.data[at]); at++)
			from += (size_t)n;
		print_message("word %zu is wrong: %d bytes of %.*s\n", at, at < lens.count ? lens.data[at] : -1, (int)MIN(normal.len - from, 60), normal.data + from);
	}
	str_release(&normal);
	ids_release(&lens);
	return same;
}

static bool same_decoded(const struct tokenizer *t, const char *text, size_t len, const char *kind, struct cursor *c)
{
	struct ids ids = {0};
	struct err err = {0};
	struct str back = {0}, whole = {0}, normal = {0};
	uint32_t count = take_u32(c);
	const char *expected = take(c, count);
	assert_int_equal(tokenizer_encode(t, text, len, true, &ids, &err), 0);
	tokenizer_decode(t, ids.data, ids.count, true, &back);
	/* Where bytes have no token, characters lose some of theirs; tokenizers then puts replacement characters, hone leaves the bytes. */
	bool partial = utf8_valid_prefix(back.data, back.len) < back.len;
	bool same = partial || (back.len == count && (!count || !memcmp(back.data, expected, count)));
	if (!same)
		print_message("decoded: expected %.*s\n  found %.*s\n", (int)count, expected, (int)back.len, back.data ? back.data : "");
	/* Tokens that take white space along, or text that is changed first, cannot give the text back; without added tokens the others must. */
	ids.count = 0;
	assert_int_equal(tokenizer_encode(t, text, len, false, &ids, &err), 0);
	tokenizer_decode(t, ids.data, ids.count, true, &whole);
	if (t->nfc)
		nfc_append(&normal, text, len);
	else
		str_append(&normal, text, len);
	if (strcmp(kind, "gpt2-prefix") && strcmp(kind, "digit-runs") && strcmp(kind, "no-unk"))
		same = same && !partial && whole.len == normal.len && (!normal.len || !memcmp(whole.data, normal.data, normal.len));
	str_release(&back);
	str_release(&whole);
	str_release(&normal);
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
	if (rc)
		print_message("%s\n", err.text);
	assert_int_equal(rc, 0);
	assert_int_equal(file_map_open(cases, &map, &err), 0);
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
	assert_true(count > 3000);
	file_map_close(&map);
	tokenizer_free(t);
	free(dir);
	free(cases);
}

int main(void)
{
	struct CMUnitTest tests[ARRAY_LEN(kinds)];
	for (size_t i = 0; i < ARRAY_LEN(kinds); i++)
		tests[i] = (struct CMUnitTest){.name = kinds[i], .test_func = test_kind, .initial_state = (void *)(uintptr_t)kinds[i]};
	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests_name("tokenizer against tokenizers", tests, run_oracle, free_folder);
}
