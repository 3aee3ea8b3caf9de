/* Errors, allocation, arenas and strings. */
#include "base_test.h"
#include "base/gpu_uuid.h"
#include <math.h>

static void err_set_returns_its_code_and_accepts_null(void **state)
{
	struct err e = {0};
	assert_int_equal(err_set(&e, ERR_IO, "file %s: %d", "x", 3), ERR_IO);
	assert_int_equal(e.code, ERR_IO);
	assert_string_equal(e.text, "file x: 3");
	assert_int_equal(err_set(NULL, ERR_RANGE, "x"), ERR_RANGE);
}

static void err_prefix_keeps_the_code_and_text(void **state)
{
	struct err e = {0};
	err_set(&e, ERR_FORMAT, "bad byte");
	assert_int_equal(err_prefix(&e, "line %d", 7), ERR_FORMAT);
	assert_string_equal(e.text, "line 7: bad byte");
	err_set(&e, e.code, "outer: %s", e.text); /* its own text as argument */
	assert_string_equal(e.text, "outer: line 7: bad byte");
}

static void err_text_is_cut_and_terminated(void **state)
{
	struct err e;
	char big[4000];
	memset(big, 'a', sizeof(big) - 1);
	big[sizeof(big) - 1] = 0;
	err_set(&e, ERR_IO, "%s", big);
	assert_int_equal(strlen(e.text), sizeof(e.text) - 1);
	err_prefix(&e, "%s", big);
	assert_int_equal(strlen(e.text), sizeof(e.text) - 1);
}

static void err_names_are_distinct(void **state)
{
	for (int a = 0; a >= -11; a--)
		for (int b = a - 1; b >= -11; b--) assert_string_not_equal(err_name(a), err_name(b));
	assert_string_equal(err_name(-999), "unknown error");
}

static void do_check_fails(void) { CHECKF(1 == 2, "values %d %d", 1, 2); }
/* A condition longer than what is kept of it: its head, the words behind it
 * and no byte beyond them. */
static void do_long_check_fails(void)
{
	char condition[3000];
	memset(condition, 'c', sizeof condition);
	condition[sizeof condition - 1] = 0;
	check_failed("file.c", 7, condition, "words %d", 2);
}

static void check_says(void **state)
{
	int fds[2];
	char text[8192];
	size_t n = 0;
	assert_int_equal(pipe(fds), 0);
	pid_t pid = fork();
	if (pid == 0) {
		signal(SIGABRT, SIG_DFL);
		dup2(fds[1], 2);
		do_long_check_fails();
	}
	close(fds[1]);
	for (ssize_t got; (got = read(fds[0], text + n, sizeof text - n)) > 0;) n += (size_t)got;
	close(fds[0]);
	int status = 0;
	waitpid(pid, &status, 0);
	assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT);
	assert_memory_equal(text, "file.c:7: CHECK(ccc", 19);
	assert_int_equal(n, 1023 + 8); /* half of the text, of which one is the end, and the words with their newline */
	assert_memory_equal(text + n - 10, "ccwords 2\n", 10);
}

static void do_mul_overflow(void) { size_mul(SIZE_MAX / 2, 3); }
static void do_calloc_overflow(void) { free(xcalloc(SIZE_MAX / 4, 8)); }

#if !defined(__SANITIZE_ADDRESS__) && \
	!defined(__SANITIZE_THREAD__) /* they end the process on such sizes before we see them */
#define CAN_RUN_OUT_OF_MEMORY
static void do_too_big(void) { free(xmalloc(PTRDIFF_MAX - 4096)); }
#endif

static void bugs_and_lack_of_memory_abort(void **state)
{
	assert_true(aborts(do_check_fails));
	assert_true(aborts(do_mul_overflow));
	assert_true(aborts(do_calloc_overflow));
	assert_int_equal(size_mul(SIZE_MAX / 2, 2), SIZE_MAX - 1);
#ifdef CAN_RUN_OUT_OF_MEMORY
	assert_true(aborts(do_too_big));
#endif
}

static void numbers_are_sorted_and_nan_is_last(void **state)
{
	double x[] = {2, NAN, -INFINITY, 0.5, -3, NAN, INFINITY, 0.5, 1e-300};
	const double rising[] = {-INFINITY, -3, 1e-300, 0.5, 0.5, 2, INFINITY};
	doubles_sort(x, ARRAY_LEN(x));
	for (size_t i = 0; i < ARRAY_LEN(rising); i++) assert_true(x[i] == rising[i]);
	assert_true(isnan(x[7]) && isnan(x[8]));
	doubles_sort(x + 1, 0);
	assert_true(x[0] == -INFINITY && x[1] == -3);
}

static void zero_bytes_are_a_pointer(void **state)
{
	void *p = xmalloc(0), *q = xcalloc(0, 8);
	assert_non_null(p);
	assert_non_null(q);
	p = xrealloc(p, 0);
	assert_non_null(p);
	free(p);
	free(q);
	char *s = xstrndup("abc", 2), *t = xstrndup("abc", 10), *u = xasprintf("%s-%d", "x", 5);
	assert_string_equal(s, "ab");
	assert_string_equal(t, "abc");
	assert_string_equal(u, "x-5");
	free(s);
	free(t);
	free(u);
}

static void arena_memory_is_aligned_zeroed_and_disjoint(void **state)
{
	struct arena a = {0};
	enum { COUNT = 400 };
	uint8_t *p[COUNT];
	for (int round = 0; round < 3; round++) {
		size_t all = 0;
		for (size_t i = 0; i < COUNT; i++) {
			size_t bytes = i * 37 % 5000 + (i == 100 ? 1000000 : 0);
			all += MAX(bytes + 63, 64) / 64 * 64;
			p[i] = arena_alloc(&a, bytes);
			assert_int_equal((uintptr_t)p[i] % 64, 0);
			for (size_t b = 0; b < bytes; b++) assert_int_equal(p[i][b], 0);
			memset(p[i], (int)(i & 255) | 1, bytes);
		}
		for (size_t i = 0; i < COUNT; i++)
			for (size_t b = 0; b < i * 37 % 5000; b++) assert_int_equal(p[i][b], (int)((i & 255) | 1));
		assert_int_equal(a.used_bytes, all);
		arena_reset(&a);
		assert_int_equal(a.used_bytes, 0);
	}
	arena_release(&a);
	arena_release(&a);
	assert_null(a.blocks);
}

/* After a reset the largest block serves again: the same address comes back. */
static void arena_reset_keeps_the_largest_block(void **state)
{
	struct arena a = {0};
	arena_reset(&a);
	arena_alloc(&a, 10);
	void *big = arena_alloc(&a, 3000000);
	arena_reset(&a);
	assert_ptr_equal(arena_alloc(&a, 3000000), big);
	arena_release(&a);
}

static void arena_text(void **state)
{
	struct arena a = {0};
	assert_string_equal(arena_strndup(&a, "hello", 4), "hell");
	assert_string_equal(arena_strndup(&a, "hi", 100), "hi");
	arena_release(&a);
}

static void str_grows_and_stays_terminated(void **state)
{
	struct str s = {0};
	for (int i = 0; i < 10000; i++) {
		str_putc(&s, (char)('a' + i % 26));
		assert_int_equal(s.data[s.len], 0);
	}
	assert_int_equal(s.len, 10000);
	for (int i = 0; i < 10000; i++) assert_int_equal(s.data[i], 'a' + i % 26);
	char *before = s.data;
	str_clear(&s);
	assert_int_equal(s.len, 0);
	assert_ptr_equal(s.data, before);
	assert_string_equal(s.data, "");
	str_release(&s);
	str_release(&s);
	assert_null(s.data);
}

static void str_appends_binary_empty_and_itself(void **state)
{
	struct str s = {0};
	str_append(&s, NULL, 0);
	assert_string_equal(s.data, "");
	str_append(&s, "a\0b", 3);
	assert_int_equal(s.len, 3);
	assert_memory_equal(s.data, "a\0b", 4);
	/* What lies behind the block has it move each time, and its old place is written. */
	void *behind[8];
	for (int i = 0; i < 8; i++) {
		behind[i] = xmalloc(64);
		str_append(&s, s.data, s.len);
	}
	for (int i = 0; i < 8; i++) free(behind[i]);
	assert_int_equal(s.len, 3 * 256);
	for (size_t i = 0; i < s.len; i += 3) assert_memory_equal(s.data + i, "a\0b", 3);
	str_release(&s);
}

static void str_printf_of_every_length_around_the_capacity(void **state)
{
	for (int len = 0; len < 300; len++) {
		struct str s = {0};
		str_puts(&s, "head");
		str_printf(&s, "%*s", len, "");
		assert_int_equal(s.len, 4 + len);
		assert_int_equal(strlen(s.data), 4 + len);
		str_release(&s);
	}
}

/* What a terminal would act upon, or nobody would see, becomes one question mark; the ends of each
 * range, and what lies beside them. */
static void text_for_terminals(void **state)
{
	static const struct {
		const char *text, *shown;
	} rows[] = {{"", ""}, {"plain", "plain"}, {"a\tb\nc", "a\tb\nc"}, {"\x01\x08\x0b\x1f ~\x7f", "???? ~?"},
		/* U+0080, U+009F and U+00A0; U+061B to U+061D; U+200A to U+2010 */
		{"\xc2\x80\xc2\x9f\xc2\xa0", "??\xc2\xa0"}, {"\xd8\x9b\xd8\x9c\xd8\x9d", "\xd8\x9b?\xd8\x9d"},
		{"\xe2\x80\x8a\xe2\x80\x8b\xe2\x80\x8f\xe2\x80\x90", "\xe2\x80\x8a??\xe2\x80\x90"},
		/* U+2027 to U+202F; U+205F to U+2070 */
		{"\xe2\x80\xa7\xe2\x80\xa8\xe2\x80\xae\xe2\x80\xaf", "\xe2\x80\xa7??\xe2\x80\xaf"},
		{"\xe2\x81\x9f\xe2\x81\xa0\xe2\x81\xaf\xe2\x81\xb0", "\xe2\x81\x9f??\xe2\x81\xb0"},
		/* surrogates: U+D7FF, U+D800, U+DFFF, U+E000 */
		{"\xed\x9f\xbf\xed\xa0\x80\xed\xbf\xbf\xee\x80\x80", "\xed\x9f\xbf??\xee\x80\x80"},
		/* U+FEFE to U+FF00; U+FFF8 to U+FFFC */
		{"\xef\xbb\xbe\xef\xbb\xbf\xef\xbc\x80", "\xef\xbb\xbe?\xef\xbc\x80"},
		{"\xef\xbf\xb8\xef\xbf\xb9\xef\xbf\xbb\xef\xbf\xbc", "\xef\xbf\xb8??\xef\xbf\xbc"},
		/* U+DFFFF, U+E0000, U+E0FFF, U+E1000 */
		{"\xf3\x9f\xbf\xbf\xf3\xa0\x80\x80\xf3\xa0\xbf\xbf\xf3\xa1\x80\x80", "\xf3\x9f\xbf\xbf??\xf3\xa1\x80\x80"},
		{"\xc2\xa9\xe2\x82\xac\xf0\x9f\x98\x80", "\xc2\xa9\xe2\x82\xac\xf0\x9f\x98\x80"},
		/* Broken: a byte each, and what follows is read anew. */
		{"\xc1\xa9x", "??x"}, {"\xdfx", "?x"}, {"\xe2\x82x", "??x"}, {"\xf4\x8f\xbf\xbfx", "\xf4\x8f\xbf\xbfx"},
		{"\xf5\x80\x80\x80x", "????x"}, {"\xf0\x9f\x98", "???"}, {"\x80", "?"},
		/* Longer than need be, or beyond U+10FFFF. */
		{"\xe0\x81\xa1x", "???x"}, {"\xe0\x9f\xbf\xe0\xa0\x80", "???\xe0\xa0\x80"},
		{"\xf0\x8f\xbf\xbf\xf0\x90\x80\x80", "????\xf0\x90\x80\x80"}, {"\xf4\x90\x80\x80x", "????x"}};
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		char *text = xstrdup(rows[i].text);
		text_make_printable(text);
		if (strcmp(text, rows[i].shown)) fail_msg("row %zu: '%s', expected '%s'", i, text, rows[i].shown);
		free(text);
	}
}

static void slices_are_compared(void **state)
{
	struct slice ab = {"abc", 2}, other = {"abd", 2}, c = {"abc", 3}, none = {"", 0};
	assert_true(slice_is(ab, "ab") && slice_is(none, ""));
	assert_false(slice_is(ab, "abc") || slice_is(ab, "a") || slice_is(ab, "ax") || slice_is(ab, ""));
	assert_true(slice_same(ab, other) && slice_same(none, none));
	assert_false(slice_same(ab, c) || slice_same(ab, none) || slice_same(c, (struct slice){"abd", 3}));
	assert_true(text_ends_in("name.gz", ".gz") && text_ends_in(".gz", ".gz") && text_ends_in("x", ""));
	assert_false(text_ends_in("gz", ".gz") || text_ends_in("name.gzz", ".gz") || text_ends_in("", "x"));
	assert_true(jsonl_is_name("a/b.jsonl") && jsonl_is_name("b.jsonl.gz"));
	assert_false(
		jsonl_is_name("b.gz") || jsonl_is_name("b.json") || jsonl_is_name("jsonl") || jsonl_is_name("b.jsonl/c"));
}

/* A GPU's number as nvidia-smi writes it, and what fits of it. */
static void names_of_gpus(void **state)
{
	unsigned char bytes[16];
	char text[64], cut[12];
	for (int i = 0; i < 16; i++) bytes[i] = (unsigned char)(i * 17);
	gpu_uuid_text(bytes, "NVIDIA H200", text, sizeof text);
	assert_string_equal(text, "GPU-00112233-4455-6677-8899-aabbccddeeff");
	gpu_uuid_text(bytes, "NVIDIA A100-SXM4-40GB MIG 1g.5gb", text, sizeof text);
	assert_string_equal(text, "MIG-00112233-4455-6677-8899-aabbccddeeff");
	gpu_uuid_text(bytes, "NVIDIA MIGHTY", cut, sizeof cut);
	assert_string_equal(cut, "GPU-0011223");
}

static const struct CMUnitTest tests[] = {
	cmocka_unit_test(err_set_returns_its_code_and_accepts_null),
	cmocka_unit_test(err_prefix_keeps_the_code_and_text),
	cmocka_unit_test(err_text_is_cut_and_terminated),
	cmocka_unit_test(err_names_are_distinct),
	cmocka_unit_test(bugs_and_lack_of_memory_abort),
	cmocka_unit_test(check_says),
	cmocka_unit_test(numbers_are_sorted_and_nan_is_last),
	cmocka_unit_test(zero_bytes_are_a_pointer),
	cmocka_unit_test(arena_memory_is_aligned_zeroed_and_disjoint),
	cmocka_unit_test(arena_reset_keeps_the_largest_block),
	cmocka_unit_test(arena_text),
	cmocka_unit_test(str_grows_and_stays_terminated),
	cmocka_unit_test(str_appends_binary_empty_and_itself),
	cmocka_unit_test(str_printf_of_every_length_around_the_capacity),
	cmocka_unit_test(text_for_terminals),
	cmocka_unit_test(slices_are_compared),
	cmocka_unit_test(names_of_gpus),
};
TAP_MAIN(tests)
