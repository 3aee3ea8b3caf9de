/* The first look at a tape's text, at the last number of each bound and the first beyond; and the
 * bytes of constants, which one text alone stands for. */
#include "tape/tape_internal.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <cmocka.h>

enum { DEPTH = 64, VALUES = 1 << 20 };

/* count times `unit` between head and tail. */
static int check(const char *head, const char *unit, int count, const char *tail, struct err *err)
{
	struct str s = {0};
	str_puts(&s, head);
	for (int i = 0; i < count; i++) str_puts(&s, unit);
	str_puts(&s, tail);
	int rc = tape_text_check(s.data, s.len, err);
	str_release(&s);
	return rc;
}

static void test_bounds(void **state)
{
	static const struct {
		const char *head, *unit, *tail;
		int most;
		const char *says;
	} rows[] = {
		{"", "[", "", DEPTH, "tape: nested deeper than 64"},
		{"", "{", "", DEPTH, "tape: nested deeper than 64"},
		{"{}[]", "[", "", DEPTH, "tape: nested deeper than 64"},
		{"[\"[[[{{{\", \"\\\"[[[\"", "[", "", DEPTH - 1, "tape: nested deeper than 64"},
		/* The text itself is a value, and each bracket, comma and colon begins one. */
		{"", "[]", "", VALUES - 1, "tape: more than 1048576 values"},
		{"", "{}", "", VALUES - 1, "tape: more than 1048576 values"},
		{"", ",", "", VALUES - 1, "tape: more than 1048576 values"},
		{"", ":", "", VALUES - 1, "tape: more than 1048576 values"},
		{"[\",,,:::\", \"\\\\\"", ",", "]", VALUES - 3, "tape: more than 1048576 values"},
	};
	for (size_t i = 0; i < ARRAY_LEN(rows); i++)
		for (int over = 0; over < 2; over++) {
			struct err err = {0};
			int rc = check(rows[i].head, rows[i].unit, rows[i].most + over, rows[i].tail, &err);
			if (rc != (over ? ERR_LIMIT : 0) || strcmp(err.text, over ? rows[i].says : ""))
				fail_msg("row %zu, %d more: code %d, %s", i, over, rc, err.text);
		}
	/* Nothing, and strings that do not end. */
	static const char *const open_ended[] = {"", "\"", "\"\\", "\"[[[", "[\"\\\""};
	for (size_t i = 0; i < ARRAY_LEN(open_ended); i++)
		assert_int_equal(tape_text_check(open_ended[i], strlen(open_ended[i]), NULL), 0);
}

static const char DIGITS[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

static void encode(const uint8_t *bytes, size_t n, char *out)
{
	for (size_t i = 0; i < n; i += 3) {
		uint32_t word = 0;
		for (size_t j = 0; j < 3; j++) word = word << 8 | (i + j < n ? bytes[i + j] : 0);
		for (size_t j = 0; j < 4; j++) *out++ = i + j > n ? '=' : DIGITS[word >> (18 - 6 * j) & 63];
	}
	*out = 0;
}

static void test_base64(void **state)
{
	uint8_t bytes[64 * 3], found[64 * 3 + 1];
	char text[64 * 4 + 1];
	/* Every digit in every place of a group. */
	for (size_t i = 0; i < sizeof bytes; i++) bytes[i] = (uint8_t)(i * 167 + (i >> 3) * 89);
	for (size_t n = 0; n <= sizeof bytes; n++) {
		encode(bytes, n, text);
		memset(found, 0xee, sizeof found);
		assert_true(tape_base64_decode(text, strlen(text), found, n));
		assert_memory_equal(found, bytes, n);
		assert_int_equal(found[n], 0xee);
		/* Of another length it is no such text. */
		if (n % 3 != 1) assert_false(tape_base64_decode(text, strlen(text), found, n + 1));
		if (n % 3 == 1) assert_false(tape_base64_decode(text, strlen(text), found, n - 1));
		if (n) assert_false(tape_base64_decode(text, strlen(text) - 1, found, n));
	}
	for (int d = 0; d < 64; d++) {
		snprintf(text, sizeof text, "A%cA%c", DIGITS[d], DIGITS[d]);
		assert_true(tape_base64_decode(text, 4, found, 3));
		assert_true(found[0] == d >> 4 && found[1] == (d & 15) << 4 && found[2] == d);
	}
	/* Every byte that is no digit, in each place. */
	for (int c = 0; c < 256; c++)
		for (int at = 0; at < 4; at++) {
			memcpy(text, "AAAA", 4);
			text[at] = (char)c;
			bool is_digit = c && strchr(DIGITS, c);
			assert_int_equal(tape_base64_decode(text, 4, found, 3), is_digit);
			/* Of one byte two places are padding, of two bytes one. */
			memcpy(text, "AA==", 4);
			text[at] = (char)c;
			bool fits = at == 0 ? is_digit : at == 1 ? c == 'A' || c == 'Q' || c == 'g' || c == 'w' : c == '=';
			assert_int_equal(tape_base64_decode(text, 4, found, 1), fits);
			memcpy(text, "AAA=", 4);
			text[at] = (char)c;
			fits = at < 2 ? is_digit : at == 2 ? is_digit && (strchr(DIGITS, c) - DIGITS) % 4 == 0 : c == '=';
			assert_int_equal(tape_base64_decode(text, 4, found, 2), fits);
		}
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(test_bounds), cmocka_unit_test(test_base64)};
	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
