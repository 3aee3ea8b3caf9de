/* JSON and YAML: field readers, strictness, every truncation, and the corners of YAML's scalars. */
#include "base_test.h"
#include "../leaks.h"
#include <math.h>

static void truncated_json_is_refused_at_every_byte(void **state)
{
	static const char text[] = "{\"a\": [1, -2.5e3, true, null, \"x\\u00e9\\n\\ud83d\\ude00\"], \"b\": {\"c\": {}}}";
	json_t *v = NULL;
	struct err err = {0};
	for (size_t n = 0; n < sizeof(text) - 1; n++) {
		char *copy = xmalloc(n); /* exact size: the address sanitizer sees a read past the end */
		memcpy(copy, text, n);
		assert_int_equal(json_parse(copy, n, "test", &v, &err), ERR_FORMAT);
		assert_null(v);
		free(copy);
	}
	assert_int_equal(json_parse(text, sizeof(text) - 1, "test", &v, &err), 0);
	json_decref(v);
}

static void json_refuses(void **state)
{
	static const char *const bad[] = {"{\"a\": 1, \"a\": 2}", "[1] x", "\"\\u0000\"", "\"\xff\"", "[01]", "[1,]", "nan",
		"{\"a\" 1}", "[99999999999999999999]", "'a'"};
	json_t *v = NULL;
	struct err err = {0};
	for (size_t i = 0; i < ARRAY_LEN(bad); i++)
		assert_int_equal(json_parse(bad[i], strlen(bad[i]), "f.json", &v, &err), ERR_FORMAT);
	assert_int_equal(json_parse("{\n  \"a\": ?", 10, "f.json", &v, &err), ERR_FORMAT);
	assert_memory_equal(err.text, "f.json: line 2, column ", 23);
	struct str deep = {0};
	for (int i = 0; i < 100000; i++) str_putc(&deep, '[');
	assert_int_equal(json_parse(deep.data, deep.len, "deep", &v, &err), ERR_FORMAT);
	str_release(&deep);
	assert_int_equal(json_parse("7", 1, "scalar", &v, &err), 0);
	json_decref(v);
}

static void json_fields(void **state)
{
	static const char text[] = "{\"i\": 5, \"s\": \"x\", \"r\": 1.5, \"b\": true, \"n\": null}";
	json_t *o = NULL;
	struct err err = {0};
	int64_t i = -1;
	const char *s = "unset";
	double r = -1;
	bool b = false;
	assert_int_equal(json_parse(text, strlen(text), "t", &o, &err), 0);
	/* `get` insists on the field, its kind and its range, and says what it found. */
	assert_int_equal(json_get_int(o, "t", "i", 5, 5, &i, &err), 0);
	assert_int_equal(i, 5);
	assert_int_equal(json_get_int(o, "t", "i", 6, 9, &i, &err), ERR_RANGE);
	assert_string_equal(err.text, "t: field \"i\": expected 6 .. 9, found 5");
	assert_int_equal(json_get_int(o, "t", "r", 0, 9, &i, &err), ERR_FORMAT);
	assert_string_equal(err.text, "t: field \"r\": expected an integer, found a real number");
	assert_int_equal(json_get_int(o, "t", "none", 0, 9, &i, &err), ERR_FORMAT);
	assert_string_equal(err.text, "t: field \"none\": expected an integer, found nothing");
	assert_int_equal(json_get_str(o, "t", "i", &s, &err), ERR_FORMAT);
	assert_string_equal(s, "unset");
	assert_int_equal(json_get_str(o, "t", "s", &s, &err), 0);
	assert_string_equal(s, "x");
	/* `opt` leaves the value alone where the field is absent or null, and
	 * is as strict otherwise. */
	i = 77;
	assert_int_equal(json_opt_int(o, "t", "none", 0, 9, &i, &err), 0);
	assert_int_equal(json_opt_int(o, "t", "n", 0, 9, &i, &err), 0);
	assert_int_equal(i, 77);
	assert_int_equal(json_opt_int(o, "t", "s", 0, 9, &i, &err), ERR_FORMAT);
	assert_int_equal(json_opt_num(o, "t", "i", &r, &err), 0);
	assert_true(r == 5);
	assert_int_equal(json_opt_num(o, "t", "r", &r, &err), 0);
	assert_true(r == 1.5);
	assert_int_equal(json_opt_num(o, "t", "b", &r, &err), ERR_FORMAT);
	assert_true(json_real_or(json_object_get(o, "i"), 7) == 5 && json_real_or(json_object_get(o, "r"), 7) == 1.5);
	assert_true(json_real_or(json_object_get(o, "s"), 7) == 7 && json_real_or(NULL, 7) == 7);
	json_t *x = json_finite(-2.5), *none = json_finite(NAN), *far = json_finite(-INFINITY);
	assert_true(json_is_real(x) && json_real_value(x) == -2.5 && json_is_null(none) && json_is_null(far));
	json_decref(x);
	json_decref(none);
	json_decref(far);
	assert_int_equal(json_opt_bool(o, "t", "b", &b, &err), 0);
	assert_true(b);
	assert_int_equal(json_opt_bool(o, "t", "i", &b, &err), ERR_FORMAT);
	/* What is not there is no error, and leaves what was there before. */
	assert_int_equal(json_opt_bool(o, "t", "none", &b, &err), 0);
	assert_true(b);
	assert_int_equal(json_opt_str(o, "t", "none", &s, &err), 0);
	assert_int_equal(json_opt_str(o, "t", "b", &s, &err), ERR_FORMAT);
	assert_int_equal(json_get_int(NULL, "t", "i", 0, 9, &i, &err), ERR_FORMAT);
	json_decref(o);
}

static void json_files(void **state)
{
	char *dir = scratch_make(), *path = path_join(dir, "f.json");
	json_t *o = json_pack("{s:i, s:f, s:[s]}", "b", 2, "a", 0.1, "c", "x"), *back = NULL;
	struct err err = {0};
	struct str text = {0};
	assert_int_equal(json_save(path, o, &err), 0);
	assert_int_equal(file_read(path, 1000, &text, &err), 0);
	assert_string_equal(text.data, "{\n  \"a\": 0.10000000000000001,\n  \"b\": 2,\n  \"c\": [\n    \"x\"\n  ]\n}\n");
	assert_int_equal(json_load(path, 1000, &back, &err), 0);
	assert_true(json_equal(o, back));
	json_decref(back);
	assert_int_equal(json_load(path, 5, &back, &err), ERR_LIMIT);
	assert_int_equal(json_load("/nonexistent", 5, &back, &err), ERR_NOT_FOUND);
	json_decref(o);
	str_release(&text);
	free(path);
	scratch_remove(dir);
}

/* ---- YAML ---- */

static char *yaml_dir, *yaml_path;

static int yaml_setup(void **state)
{
	yaml_dir = scratch_make();
	yaml_path = path_join(yaml_dir, "f.yaml");
	return 0;
}

static int yaml_teardown(void **state)
{
	free(yaml_path);
	scratch_remove(yaml_dir);
	return 0;
}

static void yaml_is(const char *yaml, const char *json)
{
	json_t *v = NULL, *expected = NULL;
	struct err err = {0};
	write_text(yaml_path, yaml);
	if (yaml_load(yaml_path, &v, &err)) fail_msg("%s: %s", yaml, err.text);
	assert_int_equal(json_parse(json, strlen(json), "expected", &expected, &err), 0);
	if (!json_equal(v, expected)) fail_msg("%s: got %s, expected %s", yaml, json_dumps(v, JSON_COMPACT), json);
	json_decref(v);
	json_decref(expected);
}

static void yaml_fails(const char *yaml, int code, const char *words)
{
	json_t *v = NULL;
	struct err err = {0};
	write_text(yaml_path, yaml);
	assert_int_equal(yaml_load(yaml_path, &v, &err), code);
	assert_null(v);
	if (!strstr(err.text, words)) fail_msg("%s: error is \"%s\", expected \"%s\" in it", yaml, err.text, words);
}

static void yaml_scalars(void **state)
{
	yaml_is("a: 1\nb: -2\nc: 0x1F\nd: 0o17\ne: +3\nf: 007\n", "{\"a\":1,\"b\":-2,\"c\":31,\"d\":15,\"e\":3,\"f\":7}");
	yaml_is("a: 1.5\nb: 1e-6\nc: .5\nd: -2.\ne: 1E+3\n", "{\"a\":1.5,\"b\":1e-6,\"c\":0.5,\"d\":-2.0,\"e\":1000.0}");
	yaml_is("a: true\nb: FALSE\nc: null\nd: ~\ne:\nf: Null\n",
		"{\"a\":true,\"b\":false,\"c\":null,\"d\":null,\"e\":null,\"f\":null}");
	/* What YAML 1.1 would have taken for booleans and numbers. */
	yaml_is("a: no\nb: on\nc: 1_000\nd: 12:30\ne: 1e\nf: 0x\ng: '1'\nh: \"true\"\ni: 1.2.3\nj:\n-\n",
		"{\"a\":\"no\",\"b\":\"on\",\"c\":\"1_000\",\"d\":\"12:30\",\"e\":\"1e\",\"f\":\"0x\",\"g\":\"1\",\"h\":"
		"\"true\",\"i\":\"1.2.3\",\"j\":[null]}");
	yaml_is("a: ''\nb: |\n  line\n  two\nc: >\n  one\n  word\n",
		"{\"a\":\"\",\"b\":\"line\\ntwo\\n\",\"c\":\"one word\\n\"}");
	yaml_is(
		"a: 9223372036854775807\nb: -9223372036854775808\n", "{\"a\":9223372036854775807,\"b\":-9223372036854775808}");
}

static void yaml_structures(void **state)
{
	yaml_is("", "{}");
	yaml_is("# only a comment\n", "{}");
	yaml_is("---\na: {b: [1, {c: d}], e: []}\n", "{\"a\":{\"b\":[1,{\"c\":\"d\"}],\"e\":[]}}");
	yaml_is("a:\n- 1\n-\n  - 2\n  - x: y\n", "{\"a\":[1,[2,{\"x\":\"y\"}]]}");
	yaml_is("1: a\ntrue: b\n", "{\"1\":\"a\",\"true\":\"b\"}");
}

static void yaml_refuses(void **state)
{
	yaml_fails("- 1\n", ERR_FORMAT, "mapping");
	yaml_fails("just text\n", ERR_FORMAT, "mapping");
	/* Keys twice, anchors, tags, several documents: what would make a text mean two things. */
	yaml_fails("a: 1\nb: 2\na: 3\n", ERR_FORMAT, "line 3, column 1: key \"a\"");
	yaml_fails("a: &x 1\nb: *x\n", ERR_UNSUPPORTED, "anchors");
	yaml_fails("a: &x 1\n", ERR_UNSUPPORTED, "anchors");
	yaml_fails("a: &x [1]\n", ERR_UNSUPPORTED, "anchors");
	yaml_fails("&x a: 1\n", ERR_UNSUPPORTED, "anchors");
	yaml_fails("b: *x\n", ERR_UNSUPPORTED, "anchors");
	yaml_fails("a: !!str 1\n", ERR_UNSUPPORTED, "tags");
	yaml_fails("a: 1\n---\nb: 2\n", ERR_UNSUPPORTED, "document");
	yaml_fails("? [a, b]\n: c\n", ERR_UNSUPPORTED, "keys");
	/* Values that JSON has not, and broken text. */
	yaml_fails("a: .inf\n", ERR_UNSUPPORTED, "infinities");
	yaml_fails("a: 1e999\n", ERR_RANGE, "double");
	yaml_fails("a: 9223372036854775808\n", ERR_RANGE, "64 bits");
	yaml_fails("a: \"x\\0y\"\n", ERR_UNSUPPORTED, "NUL");
	yaml_fails("a: [1\nb: 2\n", ERR_FORMAT, "line");
	yaml_fails("a:\n\tb: 1\n", ERR_FORMAT, "line 2");
	yaml_fails("a: \"\xff\"\n", ERR_FORMAT, "line");
	/* Nesting that would exhaust a stack. */
	struct str deep = {0};
	str_puts(&deep, "a: ");
	for (int i = 0; i < 5000; i++) str_putc(&deep, '[');
	yaml_fails(deep.data, ERR_LIMIT, "nested");
	str_release(&deep);
	json_t *v = NULL;
	assert_int_equal(yaml_load("/nonexistent.yaml", &v, NULL), ERR_NOT_FOUND);
}

/* Any prefix either parses or fails; nothing leaks or reads outside (under
 * the address sanitizer). */
static void yaml_every_prefix(void **state)
{
	static const char text[] =
		"a: {b: [1, {c: 'd'}], e: []}\nf: |\n  text\n\"g\\u00e9\": >-\n  x\n  y\nh:\n- -1\n- ~\n";
	for (size_t n = 0; n < sizeof(text); n++) {
		struct err err = {0};
		json_t *v = NULL;
		assert_int_equal(file_write_atomic(yaml_path, text, n, NULL), 0);
		int rc = yaml_load(yaml_path, &v, &err);
		assert_int_equal(rc == 0, v != NULL);
		assert_int_equal(rc != 0, err.text[0] != 0);
		json_decref(v);
	}
}

static void yaml_refused_each(void *ctx)
{
	static const char *const texts[] = {"- 1\n", "[1, [a]]\n", "just text\n", "a: {b: 1, b: 2}\n", "a: [x, &y [1]]\n",
		"a: 1\n---\nb: 2\n", "? [a, b]\n: c\n", "a: [b, .inf]\n", "a: {b: \"x\\0y\"}\n", "a: [1\nb: 2\n", "b: *x\n",
		"a: {b: [1, {c"};
	for (size_t i = 0; i < ARRAY_LEN(texts); i++) {
		json_t *v = NULL;
		write_text(yaml_path, texts[i]);
		assert_int_not_equal(yaml_load(yaml_path, &v, NULL), 0);
	}
}

/* A text that is refused leaves nothing of what stood before the fault. */
static void yaml_refused_leaves_nothing(void **state) { leaves_nothing(yaml_refused_each, NULL); }

#define YAML_TEST(f) cmocka_unit_test_setup_teardown(f, yaml_setup, yaml_teardown)
static const struct CMUnitTest tests[] = {
	cmocka_unit_test(truncated_json_is_refused_at_every_byte),
	cmocka_unit_test(json_refuses),
	cmocka_unit_test(json_fields),
	cmocka_unit_test(json_files),
	YAML_TEST(yaml_scalars),
	YAML_TEST(yaml_structures),
	YAML_TEST(yaml_refuses),
	YAML_TEST(yaml_every_prefix),
	YAML_TEST(yaml_refused_leaves_nothing),
};
TAP_MAIN(tests)
