/* Numbers that a source compares with: what a person reads off each line, and any bytes. */
#include "lint/lint_sizes.h"
#include "base/base.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <cmocka.h>

static const char KINDS[] = {[LINT_SIZE_ORDER] = 'o',
	[LINT_SIZE_EQUAL] = 'e',
	[LINT_SIZE_BEYOND] = 'b',
	[LINT_SIZE_REST] = 'r',
	[LINT_SIZE_BITS] = 'm',
	[LINT_SIZE_PAIR] = 'p',
	[LINT_SIZE_HIDDEN] = 'h'};

/* "o26 e97 r6/7" */
static void sizes_text(const struct lint_sizes *s, char *text, size_t len)
{
	size_t used = 0;
	text[0] = 0;
	for (int i = 0; i < s->count && used < len; i++) {
		const struct lint_size *z = &s->list[i];
		used += (size_t)snprintf(
			text + used, len - used, "%s%c%lld", used ? " " : "", KINDS[z->kind], (long long)z->number);
		if (z->modulus && used < len) used += (size_t)snprintf(text + used, len - used, "/%lld", (long long)z->modulus);
	}
}

static void test_numbers_are_read(void **state)
{
	static const struct {
		const char *source, *want;
	} CASES[] = {
		{"t = rows > 26", "o26"},
		{"t = 26 < rows", "o26"},
		{"t = 3 < rows < 90", "o3 o90"},
		{"t = cols == 97", "e97"},
		{"t = cols != 97", "e97"},
		{"t = cols in (96, 98)", "e96 e98"},
		{"t = cols in range(100, 200)", "e100 e200"},
		{"t = cols % 7 == 6", "r6/7"},
		{"t = cols % 2 == 1", "r1/2"},
		{"t = cols > 0b1100", "o12"},
		{"t = cols > 0o17", "o15"},
		{"t = cols > 0x1f", "o31"},
		/* the same number is told once at a place, and at each place */
		{"t = cols in (5, 5)", "e5"},
		{"t = cols == 5\nu = cols == 5", "e5 e5"},
		{"t = (cols & 256) != 0", "m256"},
		{"t = cols ^ 101 == 0", "e101"},
		{"t = -cols < -100", "o100"},
		{"t = (cols + 7) * 2 - 10 >= 200", "o98"},
		{"t = cols // 50 > 3", "o150 o200 b50"},
		{"t = cols >> 4 > 3", "o48 o64 b16"},
		{"t = cols / 1.5 > 100.0", "o150"},
		{"t = triton.cdiv(n, 128) > 1", "o128"},
		{"t = 100 - cols < 0", "o100"},
		{"t = int(cols.item()) > 5", "o5"},
		{"LIMIT = 26\nt = rows > LIMIT", "o26"},
		{"t = cols > int('128')", "o128"},
		{"t = cols < int('7d0', 16)", "o2000"},
		{"t = rows <= len('abc')", "o3"},
		{"t = rows < ord('a')", "o97"},
		{"t = rows < int('5')", "o5"},
		{"t = n % 7 == ord('ab')", ""},
		{"t = len(str(cols)) > 2", "o10 o100"},
		{"t = cols.bit_length() > 7", "o64 o128"},
		{"t = math.log2(cols) < 3", "o4 o8"},
		{"rows, cols = x.shape\nt = rows > cols", "p1"},
		{"m = a.shape[0]\nt = m == b.size(1)", "p1"},
		{"rows, cols = x.shape\nt = sorted((rows, cols))[0]", "p1"},
		{"rows, cols = x.shape\nt = (rows, cols) < (cols, rows)", "p1"},
		{"rows, cols = x.shape\nt = cols - rows > 0", "p1"},
		{"@triton.jit\ndef k(x, m, n):\n    return m < n\nk[(1,)](x, x.shape[0], x.shape[1])", "p1"},
		{"@triton.jit\ndef k(x, n):\n    return tl.arange(0, 8) < n\nk[(1,)](x, x.shape[0])", ""},
		{"n = x.numel()\nt = n > limit()", "h1"},
		{"A, B = 26, tl.constexpr(31)\nt = rows > B", "o31"},
		{"class C:\n    top = 5 * 5 + 1\nt = rows > C.top", "o26"},
		/* of a method's parameters the first is none of its call's; what a call
		 * has too many is nobody's */
		{"class M:\n    def f(self, n, limit):\n        return n > limit\n    def g(self, n):\n        "
		 "return self.f(n, 40)",
			"o40"},
		{"class M:\n    def f(self, n, limit):\n        return n > limit\n    def g(self, n):\n        "
		 "return self.f(n, 40, 7, 8)",
			"o40"},
		{"def f(n, limit):\n    return n > limit\nf(n, 40, 7, 8)", "o40"},
		{"def f(n, limit=40):\n    return n > limit", "o40"},
		{"@triton.jit\ndef k(x, n, limit):\n    return n > limit\nk[(1,)](x, n, 9 * 11)", "o99"},
		{"k[(1,)](x, n, LIMIT=64)\nt = n >= LIMIT", "o64"},
		{"t = {31: 1}.get(n, 0)", "e31"},
		{"match n:\n    case 31:\n        pass", "e31"},
		{"for k in range(rows - 30):\n    pass", "o30"},
		{"for k in tl.range(100, cols):\n    pass", "o100"},
		{"t = tl.maximum(cols - 100, 0)", "o100"},
		{"t = min(cols, 100)", "o100"},
		{"if n % 16:\n    pass", "r0/16"},
		{"t = 1 if n & 4 else 2", "m4"},
		{"t = y * (n // 100)", "b100"},
		{"t = ([0] * 120)[n]", "b120"},
		/* an index in a narrower type, through names, arguments and arithmetic */
		{"i = tl.program_id(0)\nj = i.to(tl.int16)", "b32767"},
		{"r = tl.program_id(0)\na = (r % T).to(tl.bfloat16)", "b256"},
		{"h, i = tl.program_id(1), tl.program_id(0)\na = tl.abs(i - tl.arange(0, 64)).to(tl.uint8)", "b255"},
		{"def f(o):\n    return o.to(tl.float16)\nf(tl.arange(0, 64) // W)", "b2048"},
		{"a = tl.cast(tl.argmax(v, 0), tl.int8)", "b127"},
		{"v = tl.load(x + tl.arange(0, 64)).to(tl.float16)", ""},
		{"i = tl.program_id(0).to(tl.int64)", ""},
		/* nothing that is a size: a rank, a mask against a size, a whole
		 * block, a count of strides */
		{"t = x.dim() == 2", ""},
		{"t = len(x.shape) == 4", ""},
		{"m = i < cols", ""},
		{"g = (n + 127) // 128", "b1"},
		{"t = x.stride(0) > 5", ""},
		{"i = tl.arange(0, 128)\ny = i * 4 + 3", ""},
		{"t = rows > 0", ""},
	};
	for (size_t i = 0; i < ARRAY_LEN(CASES); i++) {
		struct lint_sizes s;
		char text[256];
		assert_int_equal(lint_sizes(CASES[i].source, strlen(CASES[i].source), &s), 0);
		sizes_text(&s, text, sizeof text);
		if (strcmp(text, CASES[i].want)) fail_msg("%s: \"%s\", expected \"%s\"", CASES[i].source, text, CASES[i].want);
	}
}

static void test_places(void **state)
{
	static const char source[] = "def f(n):\n    return 1 if n > 26 else 2\n";
	struct lint_sizes s;
	assert_int_equal(lint_sizes(source, strlen(source), &s), 0);
	assert_int_equal(s.count, 1);
	assert_int_equal(s.list[0].line, 2);
	assert_int_equal(s.list[0].column, 16);
}

/* Sums of a size and numbers are sizes, however they nest; behind the depth that is looked into
 * nothing is taken for one. */
static void test_depth_of_pairs(void **state)
{
	static const struct {
		const char *inner;
		int depth;
		bool is_pair;
	} cases[] = {
		{"cols", 10, true}, {"cols", 24, true}, {"cols", 25, false}, {"other", 10, false}, {"other", 40, false}};
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct lint_sizes s;
		struct str text = {0};
		bool is_pair = false;
		str_puts(&text, "rows, cols = x.shape\nt = rows > ");
		for (int k = 0; k < cases[i].depth; k++) str_puts(&text, "(1 + ");
		str_puts(&text, cases[i].inner);
		for (int k = 0; k < cases[i].depth; k++) str_puts(&text, ")");
		assert_int_equal(lint_sizes(text.data, text.len, &s), 0);
		for (int k = 0; k < s.count; k++) is_pair |= s.list[k].kind == LINT_SIZE_PAIR;
		if (is_pair != cases[i].is_pair) fail_msg("case %zu: %d", i, is_pair);
		str_release(&text);
	}
}

/* What stands 24 deep is read, each time anew, and what stands deeper is not: a number, the size
 * that one is compared with, a position. */
static void test_depth_of_the_rest(void **state)
{
	static const struct {
		const char *begin, *open, *inner, *close, *end;
		int depth;
		const char *want;
	} cases[] = {
		{"t = rows > ", "int(", "26", ")", "", 24, "o26 o26 o26"},
		{"t = rows > ", "int(", "26", ")", "", 25, ""},
		{"t = ", "+", "rows", "", " > 26", 24, "o26 o26 o26"},
		{"t = ", "+", "rows", "", " > 26", 25, ""},
		{"j = (", "", "tl.arange(0, 8)", " + 1", ").to(tl.int8)", 23, "b104 b104 b104"},
		{"j = (", "", "tl.arange(0, 8)", " + 1", ").to(tl.int8)", 24, ""},
	};
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct lint_sizes s;
		struct str text = {0};
		char found[256];
		/* The same line three times. */
		for (int line = 0; line < 3; line++) {
			str_puts(&text, cases[i].begin);
			for (int k = 0; k < cases[i].depth; k++) str_puts(&text, cases[i].open);
			str_puts(&text, cases[i].inner);
			for (int k = 0; k < cases[i].depth; k++) str_puts(&text, cases[i].close);
			str_printf(&text, "%s\n", cases[i].end);
		}
		assert_int_equal(lint_sizes(text.data, text.len, &s), 0);
		sizes_text(&s, found, sizeof found);
		if (strcmp(found, cases[i].want)) fail_msg("case %zu: \"%s\", expected \"%s\"", i, found, cases[i].want);
		str_release(&text);
	}
}

/* More numbers than there is room for are counted; nesting has an end. */
static void test_hostile_texts(void **state)
{
	struct lint_sizes s;
	struct str text = {0};
	for (int i = 0; i < 500; i++) str_printf(&text, "t = n > %d\n", i + 5);
	assert_int_equal(lint_sizes(text.data, text.len, &s), 0);
	assert_int_equal(s.count, LINT_SIZES_MAX);
	assert_int_equal(s.more, 500 - LINT_SIZES_MAX);
	str_release(&text);
	for (int i = 0; i < 20000; i++) str_printf(&text, "(n + ");
	for (int i = 0; i < 20000; i++) str_printf(&text, "1)");
	str_printf(&text, " > 5\n");
	assert_int_equal(lint_sizes(text.data, text.len, &s), 0);
	str_release(&text);
	/* Damage anywhere. */
	static const char source[] = "A, B = 26, tl.constexpr(31)\ndef k(x, n, m=3):\n    return {3: n % 7 == (m << 70)}[n "
								 ">> 3 > -B]\nk[(1,)](1, 2)\n";
	for (int i = 0; i < 4000; i++) {
		char copy[sizeof source];
		memcpy(copy, source, sizeof source);
		struct rng_block r = rng_philox(3, 5, (uint64_t)i);
		for (int k = 0; k < 3; k++) copy[r.v[k] % (sizeof source - 1)] = (char)(r.v[3] >> (8 * k));
		assert_int_equal(lint_sizes(copy, r.v[0] % sizeof source, &s), 0);
	}
}

int main(void)
{
	cmocka_set_message_output(CM_OUTPUT_TAP);
	const struct CMUnitTest tests[] = {cmocka_unit_test(test_numbers_are_read), cmocka_unit_test(test_places),
		cmocka_unit_test(test_depth_of_pairs), cmocka_unit_test(test_depth_of_the_rest),
		cmocka_unit_test(test_hostile_texts)};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
