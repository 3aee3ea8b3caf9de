/* The BPE trainer: refusals, determinism, small cases by hand, and equality with Hugging Face's
 * trainer on this repository's files (the comparison is tests/ref/text_train_check.py, which also
 * checks that tokenizers loads the file and encodes to the same ids). */
#include "text_fixture.h"
#include <setjmp.h>

#include <cmocka.h>

/* ---- against Hugging Face ---- */

struct corpus {
	struct str *texts;
	char **paths;
	size_t count;
	const char *dir;
};

static int add_file(const char *name, void *ctx)
{
	struct corpus *c = ctx;
	struct err err = {0};
	char *path = path_join(c->dir, name);
	struct str text = {0};
	if (!strchr(name, '.') || file_read(path, 1 << 20, &text, &err)) {
		free(path);
		return 0;
	}
	c->texts = xrealloc(c->texts, (c->count + 1) * sizeof(*c->texts));
	c->paths = xrealloc(c->paths, (c->count + 1) * sizeof(*c->paths));
	c->texts[c->count] = text;
	c->paths[c->count++] = path;
	return 0;
}

static void compare(int vocab_size, bool nfc)
{
	static const char *const dirs[] = {"src/text", "src/base", "tests/text"};
	struct corpus c = {0};
	struct err err = {0};
	/* The corpus is this repository's own sources. */
	for (size_t i = 0; i < ARRAY_LEN(dirs); i++) {
		c.dir = dirs[i];
		assert_int_equal(dir_each(c.dir, add_file, &c, &err), 0);
	}
	/* The same files for our trainer and, as a list, for the other. */
	struct slice *texts = xcalloc(c.count, sizeof(*texts));
	struct str files = {0}, data = {0};
	for (size_t i = 0; i < c.count; i++) {
		texts[i] = (struct slice){c.texts[i].data, c.texts[i].len};
		str_printf(&files, "%s\n", c.paths[i]);
	}
	char *dir = fixture_path(nfc ? "text-trained-nfc" : "text-trained");
	char *path = path_join(dir, "tokenizer.json"), *list = path_join(dir, "files.txt"),
		 *bin = path_join(dir, "ids.bin");
	assert_int_equal(dir_make(dir, &err), 0);
	assert_int_equal(file_write_atomic(list, files.data, files.len, &err), 0);
	/* Trained here, opened, and the corpus encoded. */
	struct bpe_train_options o = {.vocab_size = vocab_size, .nfc = nfc};
	assert_int_equal(tokenizer_train(texts, c.count, &o, path, &err), 0);
	struct tokenizer *t;
	assert_int_equal(tokenizer_open(dir, &t, &err), 0);
	assert_int_equal(tokenizer_vocab_size(t), vocab_size);
	for (size_t i = 0; i < c.count; i++) {
		struct ids ids = {0};
		assert_int_equal(tokenizer_encode(t, texts[i].data, texts[i].len, true, &ids, &err), 0);
		uint32_t count = (uint32_t)ids.count;
		str_append(&data, &count, 4);
		str_append(&data, ids.data, ids.count * 4);
		ids_release(&ids);
	}
	assert_int_equal(file_write_atomic(bin, data.data, data.len, &err), 0);
	/* The tokenizers package loads the file, encodes to the same ids, and
	 * trains to the same merges. */
	char *command = xasprintf(
		"TOKENIZERS_PARALLELISM=false build/venv/bin/python tests/ref/text_train_check.py '%s' %d >&2", dir, nfc);
	assert_int_equal(system(command), 0);
	for (size_t i = 0; i < c.count; i++) {
		free(c.paths[i]);
		str_release(&c.texts[i]);
	}
	free(c.texts);
	free(c.paths);
	free(texts);
	free(dir);
	free(path);
	free(list);
	free(bin);
	free(command);
	str_release(&files);
	str_release(&data);
	tokenizer_free(t);
}

static void test_same_merges(void **state) { compare(2000, false); }
static void test_same_merges_nfc(void **state) { compare(600, true); }

/* ---- by hand ---- */

static int train_text(const char *text, const struct bpe_train_options *o, struct tokenizer **t, struct err *err)
{
	struct slice s = {text, strlen(text)};
	char *path = fixture_path("text-train.json");
	int rc = tokenizer_train(&s, 1, o, path, err);
	if (!rc) rc = tokenizer_open(path, t, err);
	free(path);
	return rc;
}

static void test_small(void **state)
{
	struct err err = {0};
	struct tokenizer *t;
	struct bpe_train_options o = {.vocab_size = 258};
	/* ab and bc twice each: the tie goes to the lower pair of ids. Then all pairs that are left
	 * come once, and (b, c) is the lowest. */
	assert_int_equal(train_text("abc xab bc", &o, &t, &err), 0);
	assert_int_equal(tokenizer_id(t, "ab"), 256);
	assert_int_equal(tokenizer_id(t, "bc"), 257);
	assert_int_equal(tokenizer_vocab_size(t), 258);
	tokenizer_free(t);
	/* Fewer pairs than asked for. */
	o.vocab_size = 1000;
	assert_int_equal(train_text("ab", &o, &t, &err), 0);
	assert_int_equal(tokenizer_vocab_size(t), 257);
	tokenizer_free(t);
	assert_int_equal(train_text("", &o, &t, &err), 0);
	assert_int_equal(tokenizer_vocab_size(t), 256);
	tokenizer_free(t);
	assert_int_equal(train_text("aaaaaaaaaaaaaaaaaaaaaaa bbbb aaaaaaa", &o, &t, &err), 0);
	tokenizer_free(t);
}

static void test_bytes_with_nul(void **state)
{
	struct err err = {0};
	struct tokenizer *t;
	struct slice s = {"\0\0\0\0 \0\0\0", 8};
	struct bpe_train_options o = {.vocab_size = 260};
	struct ids ids = {0};
	struct str back = {0};
	char *path = fixture_path("text-train.json");
	assert_int_equal(tokenizer_train(&s, 1, &o, path, &err), 0);
	assert_int_equal(tokenizer_open(path, &t, &err), 0);
	assert_int_equal(tokenizer_encode(t, s.data, s.len, true, &ids, &err), 0);
	tokenizer_decode(t, ids.data, ids.count, true, &back);
	assert_int_equal(back.len, s.len);
	assert_memory_equal(back.data, s.data, s.len);
	assert_true(ids.count < s.len);
	ids_release(&ids);
	str_release(&back);
	tokenizer_free(t);
	free(path);
}

static void test_refusals(void **state)
{
	static const char *const twice[] = {"<|a|>", "<|a|>"}, *const one[] = {"x"}, *const word[] = {"abab"},
							 *const bad[] = {"\xff\xfe"};
	struct tokenizer *t;
	const struct {
		struct bpe_train_options o;
		const char *text;
		int code;
	} cases[] = {
		{{.vocab_size = 255}, "ab", ERR_RANGE},
		{{.vocab_size = 257, .special_tokens = twice, .nspecial = 2}, "ab", ERR_RANGE},
		{{.vocab_size = 1 << 30}, "ab", ERR_RANGE},
		{{.vocab_size = 300, .special_tokens = twice, .nspecial = 2}, "ab", ERR_USAGE},
		{{.vocab_size = 300, .special_tokens = one, .nspecial = 1}, "ab", ERR_USAGE},
		{{.vocab_size = 300, .plain_tokens = bad, .nplain = 1}, "ab", ERR_USAGE},
		{{.vocab_size = 300, .special_tokens = word, .nspecial = 1}, "abab abab", ERR_USAGE},
		{{.vocab_size = 300}, "ab\xff", ERR_FORMAT},
	};
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct err err = {0};
		assert_int_equal(train_text(cases[i].text, &cases[i].o, &t, &err), cases[i].code);
		assert_true(err.text[0]);
	}
}

static void test_deterministic(void **state)
{
	struct err err = {0};
	struct str a = {0}, b = {0};
	char *p = fixture_train("text-once.json", 320, false), *q = fixture_train("text-again.json", 320, false);
	assert_int_equal(file_read(p, 1 << 24, &a, &err), 0);
	assert_int_equal(file_read(q, 1 << 24, &b, &err), 0);
	assert_int_equal(a.len, b.len);
	assert_memory_equal(a.data, b.data, a.len);
	str_release(&a);
	str_release(&b);
	free(p);
	free(q);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_same_merges),
		cmocka_unit_test(test_same_merges_nfc),
		cmocka_unit_test(test_small),
		cmocka_unit_test(test_bytes_with_nul),
		cmocka_unit_test(test_refusals),
		cmocka_unit_test(test_deterministic),
	};
	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
