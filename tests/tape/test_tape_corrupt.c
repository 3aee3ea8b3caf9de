/* Damaged tapes: real ones (tests/fuzz/tape/corpus) cut at every byte, with random bytes changed,
 * and with each of their numbers replaced by hostile ones. The parser either refuses with a reason
 * or gives a tape that keeps every promise (tape_invariants.h); it never crashes. */
#include "tape_invariants.h"
#include <setjmp.h>
#include <stdarg.h>
#include <cmocka.h>

#define CORPUS "tests/fuzz/tape/corpus"
#define FLIPS 2500   /* per tape */

static void each_tape(void (*fn)(const struct str *text, const char *name))
{
	static const char *const names[] = {"pad_then_kernel.json", "renamed_parameter.json", "cast_movement.json",
		"library.json", "streams_and_options.json", "host_descriptors.json"};
	for (size_t i = 0; i < ARRAY_LEN(names); i++) {
		char *path = path_join(CORPUS, names[i]);
		struct str text = {0};
		struct err err = {0};
		if (file_read(path, TAPE_BYTES_MAX, &text, &err)) fail_msg("%s", err.text);
		assert_int_equal(invariant_parse(text.data, text.len), 0);
		fn(&text, names[i]);
		str_release(&text);
		free(path);
	}
}

static void truncate_everywhere(const struct str *text, const char *name)
{
	for (size_t len = 0; len < text->len; len++) {
		char *exact = xmalloc(len + 1); /* its own allocation, so that a read past the end is seen */
		memcpy(exact, text->data, len);
		if (invariant_parse(exact, len) == 0) fail_msg("%s cut at byte %zu was accepted", name, len);
		free(exact);
	}
}

static void flip_bytes(const struct str *text, const char *name)
{
	struct rng r = {.seed = 11, .stream = text->len};
	for (int i = 0; i < FLIPS; i++) {
		char *copy = xmalloc(text->len);
		memcpy(copy, text->data, text->len);
		for (uint32_t n = 1 + rng_below(&r, 4); n > 0; n--)
			copy[rng_below(&r, (uint32_t)text->len)] = (char)rng_below(&r, 256);
		invariant_parse(copy, text->len);
		free(copy);
	}
}

static bool is_number_at(const char *s, size_t i)
{
	return s[i] >= '0' && s[i] <= '9' && i > 0 && (s[i - 1] == ':' || s[i - 1] == '[' || s[i - 1] == ',');
}

/* Each integer outside of strings, replaced by each of these. */
static void forge_numbers(const struct str *text, const char *name)
{
	static const char *const forged[] = {"-1", "0", "1", "2147483648", "4294967296", "9223372036854775807",
		"-9223372036854775808", "1099511627776", "18446744073709551616", "1e308", "3.5", "null", "[]", "{}", "\"x\""};
	bool in_string = false;
	for (size_t i = 1; i < text->len; i++) {
		if (text->data[i] == '"' && text->data[i - 1] != '\\') in_string = !in_string;
		if (in_string || !is_number_at(text->data, i)) continue;
		size_t end = i;
		while (end < text->len && strchr("0123456789.eE+-", text->data[end])) end++;
		for (size_t f = 0; f < ARRAY_LEN(forged); f++) {
			struct str s = {0};
			str_append(&s, text->data, i);
			str_puts(&s, forged[f]);
			str_append(&s, text->data + end, text->len - end);
			invariant_parse(s.data, s.len);
			str_release(&s);
		}
	}
}

static void test_truncated(void **state) { each_tape(truncate_everywhere); }
static void test_flipped(void **state) { each_tape(flip_bytes); }
static void test_forged(void **state) { each_tape(forge_numbers); }

/* A million rows, ten megabytes of brackets, one huge string, one huge number. */
static void test_enormous(void **state)
{
	struct str s = {0};
	str_puts(&s, "{\"version\":2,\"buffers\":[],\"kernels\":[],\"tuple\":false,\"outputs\":[],\"rows\":[");
	for (int i = 0; i < 1000000; i++) str_puts(&s, "{},");
	str_puts(&s, "{}]}");
	assert_int_equal(invariant_parse(s.data, s.len), ERR_LIMIT);
	str_clear(&s);
	for (int i = 0; i < 10 << 20; i++) str_putc(&s, i % 2 ? '[' : '{');
	assert_int_equal(invariant_parse(s.data, s.len), ERR_LIMIT);
	str_clear(&s);
	str_puts(&s, "{\"version\":\"");
	for (int i = 0; i < 10 << 20; i++) str_putc(&s, '\\');
	assert_int_equal(invariant_parse(s.data, s.len), ERR_FORMAT);
	str_clear(&s);
	str_puts(&s, "{\"version\":");
	for (int i = 0; i < 1 << 20; i++) str_putc(&s, '9');
	str_puts(&s, "}");
	assert_int_equal(invariant_parse(s.data, s.len), ERR_FORMAT);
	str_release(&s);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_truncated),
		cmocka_unit_test(test_flipped),
		cmocka_unit_test(test_forged),
		cmocka_unit_test(test_enormous),
	};
	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
