/* A damaged tokenizer.json: every prefix of a small file, every value replaced by one of another
 * kind, random bytes changed. Each either opens and works or is refused with a message that names
 * the file; nothing crashes (the sanitizer build is what makes this a strong statement). */
#include "text_fixture.h"
#include <setjmp.h>

#include <cmocka.h>

static char *changed_path;
static struct str file;

static int set_up(void **state)
{
	struct err err = {0};
	char *path = fixture_train("text-whole.json", 280, true);
	changed_path = fixture_path("text-corrupt.json");
	int rc = file_read(path, 1 << 24, &file, &err);
	free(path);
	return rc;
}

static int tear_down(void **state)
{
	free(changed_path);
	str_release(&file);
	return 0;
}

/* Plain writing: file_write_atomic would sync thousands of times. */
static void write_changed(const char *data, size_t len)
{
	FILE *f = fopen(changed_path, "wb");
	assert_non_null(f);
	assert_int_equal(fwrite(data, 1, len, f), len);
	assert_int_equal(fclose(f), 0);
}

/* Opens what write_changed wrote; returns whether it did. */
static bool try_open(void)
{
	static const char text[] = "def kernel(x_ptr):\n\t1.5 <|im_end|> e\xcc\x81 \xf0\x9f\x9a\x80'll <think>";
	struct err err = {0};
	struct tokenizer *t = NULL;
	int rc = tokenizer_open(changed_path, &t, &err);
	if (rc) {
		assert_true(rc < 0 && rc == err.code);
		if (!strstr(err.text, changed_path)) fail_msg("the message does not name the file: %s", err.text);
		assert_null(t);
		return false;
	}
	struct ids ids = {0};
	struct str back = {0};
	assert_int_equal(tokenizer_encode(t, text, sizeof(text) - 1, true, &ids, &err), 0);
	for (size_t i = 0; i < ids.count; i++) assert_true(ids.data[i] >= 0 && ids.data[i] < tokenizer_vocab_size(t));
	tokenizer_decode(t, ids.data, ids.count, true, &back);
	ids_release(&ids);
	str_release(&back);
	tokenizer_free(t);
	return true;
}

static void test_prefixes(void **state)
{
	for (size_t len = 0; len < file.len; len++) {
		write_changed(file.data, len);
		assert_false(try_open());
	}
	write_changed(file.data, file.len);
	assert_true(try_open());
}

static void test_bytes(void **state)
{
	struct rng rng = {.seed = 11};
	char *copy = xmalloc(file.len);
	for (int round = 0; round < 4000; round++) {
		memcpy(copy, file.data, file.len);
		for (uint32_t n = 1 + rng_below(&rng, 3); n > 0; n--) {
			static const char likely[] = "\"{}[],:0-9eE.x\\ \x80\xff";
			uint32_t at = rng_below(&rng, (uint32_t)file.len);
			copy[at] = rng_below(&rng, 2) ? (char)rng_next(&rng) : likely[rng_below(&rng, sizeof(likely) - 1)];
		}
		write_changed(copy, file.len);
		try_open();
	}
	free(copy);
}

static void try_json(const json_t *root)
{
	char *text = json_dumps(root, JSON_COMPACT | JSON_ENCODE_ANY);
	assert_non_null(text);
	write_changed(text, strlen(text));
	free(text);
	try_open();
}

/* Replaces each child of o (at most 12 of a long one) in turn by values of every kind, the same
 * child of a sibling included. */
static void replace_children(json_t *root, json_t *o)
{
	static const char *const values[] = {"null", "true", "-1", "7", "2097151", "1e300", "\"\"", "\"a\"", "\"\\u0120\"",
		"\"<|im_end|>\"", "[]", "{}", "[[]]"};
	bool list = json_is_array(o);
	size_t count = list ? json_array_size(o) : json_object_size(o), i = 0;
	void *iter = list ? NULL : json_object_iter(o);
	for (; i < MIN(count, 12); i++) {
		const char *key = list ? NULL : json_object_iter_key(iter);
		json_t *old = json_incref(list ? json_array_get(o, i) : json_object_iter_value(iter));
		for (size_t k = 0; k < ARRAY_LEN(values); k++) {
			struct err err = {0};
			json_t *v;
			assert_int_equal(json_parse(values[k], strlen(values[k]), "value", &v, &err), 0);
			list ? json_array_set_new(o, i, v) : json_object_set_new(o, key, v);
			try_json(root);
		}
		list ? json_array_set(o, i, old) : json_object_set(o, key, old);
		if (json_is_array(old) || json_is_object(old)) replace_children(root, old);
		json_decref(old);
		if (!list) iter = json_object_iter_next(o, iter);
	}
}

static void test_values(void **state)
{
	struct err err = {0};
	json_t *root;
	assert_int_equal(json_parse(file.data, file.len, "file", &root, &err), 0);
	replace_children(root, root);
	try_json(root);
	assert_true(try_open());
	json_decref(root);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_prefixes), cmocka_unit_test(test_bytes), cmocka_unit_test(test_values)};
	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, set_up, tear_down);
}
