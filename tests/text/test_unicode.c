/* Text that is cut or no UTF-8 at all, made valid. The oracle is the Unicode Standard's own tables
 * of what is replaced by what (section 3.9, tables 3-8 to 3-11), and that of a character's pieces
 * each becomes one U+FFFD. */
#include "text/unicode.h"
#include <setjmp.h>

#include <cmocka.h>
#include "../leaks.h"

#define X "\xef\xbf\xbd"

static void repaired(const char *bytes, size_t len, const char *expected)
{
	struct str out = {0};
	/* From memory of its own size, so that a checker of addresses sees a read behind the end. */
	char *own = xmalloc(len + !len);
	memcpy(own, bytes, len);
	utf8_repair(own, len, &out);
	assert_string_equal(out.data ? out.data : "", expected);
	assert_int_equal(out.len, strlen(expected));
	assert_int_equal(utf8_valid_prefix(out.data, out.len), out.len);
	str_release(&out);
	free(own);
}

static void test_tables(void **state)
{
	static const struct {
		const char *bytes, *expected;
	} cases[] = {
		{"", ""},
		{"plain, and longer than eight bytes", "plain, and longer than eight bytes"},
		{"\xc0\xaf\xe0\x80\xbf\xf0\x81\x82\x41", X X X X X X X X "A"},
		{"\xed\xa0\x80\xed\xbf\xbf\xed\xaf\x41", X X X X X X X X "A"},
		{"\xf4\x91\x92\x93\xff\x41\x80\xbf\x42", X X X X X "A" X X "B"},
		{"\xe1\x80\xe2\xf0\x91\x92\xf1\xbf\x41", X X X X "A"},
	};
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
		repaired(cases[i].bytes, strlen(cases[i].bytes), cases[i].expected);
	repaired("a\0b", 1, "a");
}

/* One character of each length, cut after each of its bytes: at the end, before a letter, before
 * another character. */
static void test_cuts(void **state)
{
	static const uint32_t chars[] = {0x80, 0x7ff, 0x800, 0xd7ff, 0xe000, 0xffff, 0x10000, 0x10ffff};
	for (size_t i = 0; i < sizeof chars / sizeof *chars; i++) {
		char bytes[4];
		size_t whole = utf8_put(chars[i], bytes);
		for (size_t n = 1; n < whole; n++) {
			char text[64];
			repaired(bytes, n, X);
			int len = snprintf(text, sizeof text, "a%.*sb", (int)n, bytes);
			repaired(text, (size_t)len, "a" X "b");
			len = snprintf(text, sizeof text, "%.*s%.*s", (int)n, bytes, (int)n, bytes);
			repaired(text, (size_t)len, X X);
		}
	}
}

/* None of the above leaves memory or descriptors behind, errors included. */
static void everything(void *ctx)
{
	test_tables(NULL);
	test_cuts(NULL);
}

static void test_leaves_nothing(void **state) { leaves_nothing(everything, NULL); }

/* What a model may write into a JSON line and our texts do not hold; backslashes that escape
 * backslashes, and whole pairs, stay. */
static void test_json_repair(void **state)
{
	static const struct {
		const char *text, *expected;
	} cases[] = {
		{"{\"a\": \"x\\u0000y\"}", "{\"a\": \"x\xef\xbf\xbdy\"}"},
		{"\"\\ud800\"", "\"\xef\xbf\xbd\""},
		{"\"\\uDC00\\ud83d\\uDE00\"", "\"\xef\xbf\xbd\\ud83d\\uDE00\""},
		{"\"\\ud83d\\ud83d\\ude00\"", "\"\xef\xbf\xbd\\ud83d\\ude00\""},
		{"\"\\\\u0000 \\\" \\u00e9\"", "\"\\\\u0000 \\\" \\u00e9\""},
		{"\"a\xff"
		 "b\x01\t\"",
			"\"a\xef\xbf\xbd"
			"b\xef\xbf\xbd\t\""},
		{"\"\\ud800\\u00", "\"\xef\xbf\xbd\\u00"},
		{"\\", "\\"},
	};
	/* Each as a text of its own; a byte of zero needs its length said. */
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct str out = {0};
		json_repair(cases[i].text, strlen(cases[i].text), &out);
		assert_string_equal(out.data, cases[i].expected);
		str_release(&out);
	}
	struct str out = {0};
	json_repair("a\0b", 3, &out);
	assert_string_equal(out.data,
		"a\xef\xbf\xbd"
		"b");
	str_release(&out);
}

int main(void)
{
	cmocka_set_message_output(CM_OUTPUT_TAP);
	const struct CMUnitTest tests[] = {cmocka_unit_test(test_json_repair), cmocka_unit_test(test_tables),
		cmocka_unit_test(test_cuts), cmocka_unit_test(test_leaves_nothing)};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
