/* The answer's shape: what counts as code, what is malformed, and which tokens are plan. */
#include "text/text.h"
#include "text/tokenizer_internal.h"
#include <setjmp.h>
#include <stdlib.h>

#include <cmocka.h>
#include "../leaks.h"

/* expected: the code, or with `bad` the problem. plan: everything before the fence. */
struct answer_case {
	const char *text;
	bool bad;
	const char *plan, *expected;
};

static const struct answer_case cases[] = {
	{"plan\n```python\nx = 1\n```\n", false, "plan\n", "x = 1\n"},
	{"```python\nx = 1\n```", false, "", "x = 1\n"},
	{"```py\nx\n```", false, "", "x\n"},
	{"```\nx\n```", false, "", "x\n"},
	{"``` Python title=a\nx\n```", false, "", "x\n"},
	{"```python3\r\nx\r\n```\r\n", false, "", "x\r\n"},
	{"```{python}\nx\n```\n```python\ny\n```", false, "```{python}\nx\n```\n", "y\n"},
	{"plan\n```ttir\n// input x f32[M]\n```\n", false, "plan\n", "// input x f32[M]\n"},
	/* The last one counts; a marked one before an unmarked one; other
	 * languages are stepped over. */
	{"```python\na\n```\n```python\nb\n```\n", false, "```python\na\n```\n", "b\n"},
	{"```python\na\n```\noutput:\n```\n1\n```\n", false, "", "a\n"},
	{"```cpp\n```python\n```\n```python\nb\n```\n", false, "```cpp\n```python\n```\n", "b\n"},
	{"```python\na\n```\n```text\nx\n", false, "", "a\n"},
	/* Longer fences hold shorter ones; text behind backticks does not close. */
	{"````python\ns = '''\n```\n'''\n````\n", false, "", "s = '''\n```\n'''\n"},
	{"```python\na\n``` # no\n```\n", false, "", "a\n``` # no\n"},
	{"```python\ns = '''\n        ```\n'''\n```\n", false, "", "s = '''\n        ```\n'''\n"},
	{"1. so\n    ```python\n    x\n    ```\n", false, "1. so\n", "    x\n"},
	{"```inline``` code\n```python\nx\n```", false, "```inline``` code\n", "x\n"},
	/* Reasoning. */
	{"<think>\n```python\nfake\n```\n</think>\nplan\n```python\nx\n```", false,
		"<think>\n```python\nfake\n```\n</think>\nplan\n", "x\n"},
	{"fake ```python\nfake\n```\n</think>```\nx\n```", false, "fake ```python\nfake\n```\n</think>", "x\n"},
	{"<think>a</think>b<think>c</think>\n```\nx\n```", false, "<think>a</think>b<think>c</think>\n", "x\n"},
	{"<think>a</think>b<think>c\n```\nx\n```", true, NULL, "unclosed-think"},
	{"<think>a ```python\nx\n```", true, NULL, "unclosed-think"},
	{"<think>\n```python\nx\n```\n</think>", true, NULL, "no-code-block"},
	/* Nothing there, cut short, empty. */
	{"", true, NULL, "no-code-block"},
	{"x = 1", true, NULL, "no-code-block"},
	{"`` \nx\n``", true, NULL, "no-code-block"},
	{"```cpp\nx\n```", true, NULL, "no-code-block"},
	{"```python\nx", true, NULL, "unclosed-code-block"},
	{"```python", true, NULL, "unclosed-code-block"},
	{"```python\na\n```\n```python\nb\n", true, NULL, "unclosed-code-block"},
	{"```python\na\n```\n```\nb\n", true, NULL, "unclosed-code-block"},
	{"```python\n```", true, NULL, "empty-code"},
	{"```python\n \n\t\n```", true, NULL, "empty-code"},
};

static void test_parse(void **state)
{
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		const struct answer_case *c = &cases[i];
		struct answer a = answer_parse(c->text, strlen(c->text));
		if (a.well_formed == c->bad) print_message("case %zu: %s\n", i, a.well_formed ? "well formed" : a.problem);
		assert_int_equal(a.well_formed, !c->bad);
		if (c->bad) {
			assert_string_equal(a.problem, c->expected);
			assert_int_equal(a.plan_begin, 0);
			assert_int_equal(a.plan_end, strlen(c->text));
			continue;
		}
		assert_null(a.problem);
		assert_int_equal(a.plan_begin, 0);
		assert_int_equal(a.plan_end, strlen(c->plan));
		assert_memory_equal(c->text, c->plan, a.plan_end);
		assert_int_equal(a.code_end - a.code_begin, strlen(c->expected));
		assert_memory_equal(c->text + a.code_begin, c->expected, a.code_end - a.code_begin);
	}
}

/* Every prefix of every case, in memory that ends with it: no read behind the end (asan), and
 * bounds that hold. */
static void test_prefixes(void **state)
{
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		for (size_t len = 0; len <= strlen(cases[i].text); len++) {
			char *copy = xmalloc(len);
			memcpy(copy, cases[i].text, len);
			struct answer a = answer_parse(copy, len);
			assert_true(a.plan_begin <= a.plan_end && a.plan_end <= len);
			if (a.well_formed) assert_true(a.plan_end < a.code_begin && a.code_begin < a.code_end && a.code_end < len);
			else assert_non_null(a.problem);
			free(copy);
		}
	}
}

static void test_token_kinds(void **state)
{
	static const char *const special[] = {"<|im_end|>"}, *const plain[] = {"<think>", "</think>"};
	const char *build = getenv("BUILD");
	char *path = path_join(build ? build : "build/release", "ref/text-answer.json");
	const char text[] = "<think>\nwhy\n</think>\n\nUse tiles.\n```python\nx = 1\n```\nDone.<|im_end|>";
	/* A tokenizer trained on the line where the code begins: its tokens are longer than bytes. */
	struct slice training = {"Use tiles.\n```python\n", 21};
	struct bpe_train_options o = {
		.vocab_size = 270, .special_tokens = special, .nspecial = 1, .plain_tokens = plain, .nplain = 2};
	struct err err = {0};
	struct tokenizer *t;
	struct ids ids = {0};
	struct str back = {0};
	char *dir = path_join(build ? build : "build/release", "ref");
	assert_int_equal(dir_make(dir, &err), 0);
	assert_int_equal(tokenizer_train(&training, 1, &o, path, &err), 0);
	assert_int_equal(tokenizer_open(path, &t, &err), 0);
	assert_int_equal(tokenizer_encode(t, text, sizeof(text) - 1, true, &ids, &err), 0);
	/* The answer as tokens, with two ids that no tokenizer has. */
	ids_push(&ids, 100000); /* a padding row of the head: no bytes, no crash */
	ids_push(&ids, -1);
	tokenizer_decode(t, ids.data, ids.count, true, &back);
	struct answer a = answer_parse(back.data, back.len);
	assert_true(a.well_formed);
	uint8_t *kinds = xmalloc(ids.count);
	answer_token_kinds(t, ids.data, ids.count, &a, kinds);
	/* A token is code if its first byte is behind the plan's end. */
	size_t at = 0, plan = 0;
	for (size_t i = 0; i < ids.count; i++) {
		struct str one = {0};
		assert_int_equal(kinds[i], at >= a.plan_end);
		tokenizer_decode(t, &ids.data[i], 1, true, &one);
		at += one.len;
		plan += !kinds[i];
		str_release(&one);
	}
	assert_int_equal(at, back.len);
	assert_true(plan > 2 && plan < ids.count - 4);
	/* In an answer that is not well formed all tokens count as code. */
	struct answer bad = answer_parse("no", 2);
	answer_token_kinds(t, ids.data, ids.count, &bad, kinds);
	for (size_t i = 0; i < ids.count; i++) assert_int_equal(kinds[i], 1);
	free(kinds);
	ids_release(&ids);
	str_release(&back);
	tokenizer_free(t);
	free(path);
	free(dir);
}

/* Bytes are counted from the tokens alone: of the first id as of any other, of control tokens and
 * of what is no token none. */
static void test_token_kinds_by_hand(void **state)
{
	struct token tokens[] = {{.len = 3, .flags = TOKEN_PRESENT}, {.len = 2, .flags = TOKEN_PRESENT},
		{.len = 5, .flags = TOKEN_PRESENT | TOKEN_SPECIAL}, {.len = 4}};
	struct tokenizer t = {.tokens = tokens, .ntokens = 4};
	const struct answer a = {.well_formed = true, .plan_end = 5};
	const int32_t ids[] = {0, 2, 3, 4, -1, 1, 0, 0};
	const uint8_t expected[] = {0, 0, 0, 0, 0, 0, 1, 1};
	uint8_t kinds[8];
	answer_token_kinds(&t, ids, 8, &a, kinds);
	assert_memory_equal(kinds, expected, 8);
}

/* None of the above leaves memory or descriptors behind, errors included. */
static void everything(void *ctx)
{
	test_parse(NULL);
	test_prefixes(NULL);
	test_token_kinds(NULL);
	test_token_kinds_by_hand(NULL);
}

static void test_leaves_nothing(void **state) { leaves_nothing(everything, NULL); }

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(test_parse), cmocka_unit_test(test_prefixes),
		cmocka_unit_test(test_token_kinds), cmocka_unit_test(test_token_kinds_by_hand),
		cmocka_unit_test(test_leaves_nothing)};
	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
