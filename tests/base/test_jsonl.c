/* JSONL: rows of plain and gzip files, what is refused and where, and files that equal rows make
 * equal. */
#include "base_test.h"
#include <zlib.h>

struct seen {
	int rows, stop_at;
	char last[64];
};

static int see(void *ctx, const json_t *row, const char *where, struct err *err)
{
	struct seen *s = ctx;
	const char *colon = strrchr(where, ':');
	assert_non_null(colon);
	snprintf(s->last, sizeof s->last, "%s %lld", colon + 1, (long long)json_integer_value(json_object_get(row, "n")));
	return ++s->rows == s->stop_at ? err_set(err, ERR_RANGE, "%s: enough", where) : 0;
}

static int read_text(const char *path, const void *data, size_t len, struct seen *s, struct err *err)
{
	assert_int_equal(file_write_atomic(path, data, len, NULL), 0);
	s->rows = 0;
	return jsonl_each(path, 1 << 20, see, s, err);
}
#define READ(text) read_text(path, text, sizeof(text) - 1, &s, &err)

static void rows_and_lines_are_counted(void **state)
{
	char *dir = scratch_make(), *path = path_join(dir, "f.jsonl");
	struct seen s = {0};
	struct err err = {0};
	assert_int_equal(READ("{\"n\":1}\n\n  \t\r\n{\"n\":2}\r\n{\"n\":3}"),
		0); /* blank lines count as lines; the last needs no line feed */
	assert_int_equal(s.rows, 3);
	assert_string_equal(s.last, "5 3");
	assert_int_equal(READ(""), 0);
	assert_int_equal(s.rows, 0);
	s.stop_at = 2;
	assert_int_equal(READ("{\"n\":1}\n{\"n\":2}\n{\"n\":3}\n"), ERR_RANGE);
	assert_non_null(strstr(err.text, "f.jsonl:2: enough"));
	free(path);
	scratch_remove(dir);
}

static void bad_rows_are_named(void **state)
{
	char *dir = scratch_make(), *path = path_join(dir, "f.jsonl");
	struct seen s = {0};
	struct err err = {0};
	assert_int_equal(READ("{\"n\":1}\n[2]\n"), ERR_FORMAT);
	assert_non_null(strstr(err.text, "f.jsonl:2: expected an object"));
	assert_int_equal(READ("{\"n\":1}\n{\"n\":\n"), ERR_FORMAT);
	assert_non_null(strstr(err.text, "f.jsonl:2: column 5: ")); /* the row is the line: no other is named */
	assert_int_equal(READ("{\"n\":1}\0{}\n"), ERR_FORMAT);      /* a NUL byte does not end the row */
	assert_int_equal(s.rows, 0);
	assert_int_equal(jsonl_each("/nonexistent/f.jsonl", 1 << 20, see, &s, &err), ERR_IO);
	assert_non_null(strstr(err.text, "/nonexistent/f.jsonl"));
	char *huge = xmalloc((1u << 20) + 1);
	memset(huge, ' ', 1u << 20);
	memcpy(huge + (1u << 20) - 2, "{}}", 3);
	assert_int_equal(read_text(path, huge, 1u << 20, &s, &err), 0);
	assert_int_equal(read_text(path, huge, (1u << 20) + 1, &s, &err), ERR_LIMIT);
	assert_non_null(strstr(err.text, "f.jsonl:1: at most 1 MiB a line"));
	free(huge);
	free(path);
	scratch_remove(dir);
}

/* A gzip file that was cut at any byte, or has a byte changed, is an error or gives the same rows:
 * never other ones. */
static void packed_files_are_checked(void **state)
{
	char *dir = scratch_make(), *path = path_join(dir, "f.jsonl.gz"), *again = path_join(dir, "g.jsonl.gz"),
		 *cut = path_join(dir, "cut.jsonl.gz");
	struct str text = {0}, bytes = {0}, other = {0};
	struct seen s = {0};
	struct err err = {0};
	for (int i = 0; i < 40; i++) {
		json_t *row = json_pack("{s:i, s:s}", "n", i, "text", "some words that repeat");
		jsonl_put(&text, row);
		json_decref(row);
	}
	assert_int_equal(jsonl_write(path, &text, &err), 0);
	assert_int_equal(jsonl_write(again, &text, &err), 0);
	assert_int_equal(file_read(path, 1 << 20, &bytes, &err), 0);
	assert_int_equal(file_read(again, 1 << 20, &other, &err), 0);
	assert_int_equal(bytes.len, other.len);
	assert_memory_equal(bytes.data, other.data, bytes.len);
	assert_true(bytes.len < text.len / 4 && (uint8_t)bytes.data[0] == 0x1f);
	assert_int_equal(jsonl_each(path, 1 << 20, see, &s, &err), 0);
	assert_int_equal(s.rows, 40);
	assert_string_equal(s.last, "40 39");
	for (size_t n = 2; n < bytes.len; n++) {
		assert_int_equal(read_text(cut, bytes.data, n, &s, &err), ERR_FORMAT);
		/* what is left of the header alone reads as a plain file */
		if (n > 10) assert_non_null(strstr(err.text, "the file is damaged or cut short"));
	}
	for (size_t i = 10; i < bytes.len; i++) { /* behind the header, whose time and system bytes mean nothing */
		bytes.data[i] ^= 0x10;
		bool is_read = read_text(cut, bytes.data, bytes.len, &s, &err) ==
			0; /* the last byte of the packed data may have bits to spare */
		if (is_read && (s.rows != 40 || strcmp(s.last, "40 39")))
			fail_msg("byte %zu of %zu: %d rows, last %s", i, bytes.len, s.rows, s.last);
		bytes.data[i] ^= 0x10;
	}
	str_release(&text);
	str_release(&bytes);
	str_release(&other);
	free(path);
	free(again);
	free(cut);
	scratch_remove(dir);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(rows_and_lines_are_counted),
		cmocka_unit_test(bad_rows_are_named),
		cmocka_unit_test(packed_files_are_checked),
	};
	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
