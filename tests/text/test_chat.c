/* Chat templates against strings written down from the published Qwen3 template's rules. */
#include "text/text.h"
#include <setjmp.h>

#include <cmocka.h>

struct chat_case {
	const char *template_name;
	bool generate;
	struct chat_message messages[5];
	const char *expected;
};
#define USER(text) {"user", text}
#define BOT(text) {"assistant", text}
#define TURN(role, text) "<|im_start|>" role "\n" text "<|im_end|>\n"

static const struct chat_case cases[] = {
	{"qwen3", true, {USER("hi")}, TURN("user", "hi") "<|im_start|>assistant\n"},
	{"qwen3", false, {USER("hi")}, TURN("user", "hi")},
	{"qwen3-nothink", true, {{"system", "be brief"}, USER("hi")}, TURN("system", "be brief") TURN("user", "hi") "<|im_start|>assistant\n<think>\n\n</think>\n\n"},
	/* The last turn always has a think block; contents are cut of leading newlines. */
	{"qwen3", false, {USER("a"), BOT("b")}, TURN("user", "a") TURN("assistant", "<think>\n\n</think>\n\nb")},
	{"qwen3", false, {USER("a"), BOT("<think>\nwhy\n</think>\n\nb\n")}, TURN("user", "a") TURN("assistant", "<think>\nwhy\n</think>\n\nb\n")},
	/* Reasoning before the last user turn is dropped, that of later turns is kept. */
	{"qwen3", true, {USER("a"), BOT("<think>\nwhy\n</think>\n\nb"), USER("c")}, TURN("user", "a") TURN("assistant", "b") TURN("user", "c") "<|im_start|>assistant\n"},
	{"qwen3", false, {USER("a"), BOT("<think>x</think>b"), BOT("c"), BOT("d")},
		TURN("user", "a") TURN("assistant", "<think>\nx\n</think>\n\nb") TURN("assistant", "c") TURN("assistant", "<think>\n\n</think>\n\nd")},
	/* Tool output in a user's turn is no query, so the reasoning before it stays. */
	{"qwen3", false, {USER("a"), BOT("<think>x</think>b"), USER("<tool_response>1</tool_response>"), BOT("c")},
		TURN("user", "a") TURN("assistant", "<think>\nx\n</think>\n\nb") TURN("user", "<tool_response>1</tool_response>") TURN("assistant", "<think>\n\n</think>\n\nc")},
	/* Of several marks: reasoning before the first </think>, content behind the last. */
	{"qwen3", false, {USER("a"), BOT("r1</think>r2</think>\n\nb")}, TURN("user", "a") TURN("assistant", "<think>\nr1\n</think>\n\nb")},
	{"qwen3", false, {USER("a"), BOT("x<think>r<think>s\n</think>")}, TURN("user", "a") TURN("assistant", "<think>\ns\n</think>\n\n")},
	{"qwen3", false, {BOT("<think>x</think>b")}, TURN("assistant", "b")},
	{"plain", true, {{"system", "s"}, USER("u")}, "s\nu\n"},
	{"plain", false, {USER("u"), BOT("a")}, "u\na"},
};

static void test_render(void **state)
{
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		size_t count = 0;
		while (count < ARRAY_LEN(cases[i].messages) && cases[i].messages[count].role)
			count++;
		struct str out = {0};
		struct err err = {0};
		assert_int_equal(chat_render(cases[i].template_name, cases[i].messages, count, cases[i].generate, &out, &err), 0);
		assert_string_equal(out.data, cases[i].expected);
		str_release(&out);
	}
}

static void test_refused(void **state)
{
	struct str out = {0};
	struct err err = {0};
	struct chat_message user = {"user", "x"}, tool = {"tool", "x"};
	assert_int_equal(chat_render("vicuna", &user, 1, true, &out, &err), ERR_NOT_FOUND);
	assert_non_null(strstr(err.text, "vicuna"));
	assert_int_equal(chat_render("qwen3", &tool, 1, true, &out, &err), ERR_UNSUPPORTED);
	assert_non_null(strstr(err.text, "\"tool\""));
	assert_int_equal(chat_render("qwen3", &user, 0, true, &out, &err), ERR_USAGE);
	assert_int_equal(out.len, 0);
}

static void test_end_tokens(void **state)
{
	assert_string_equal(chat_end_token("qwen3"), "<|im_end|>");
	assert_string_equal(chat_end_token("qwen3-nothink"), "<|im_end|>");
	assert_string_equal(chat_end_token("plain"), "<|endoftext|>");
	assert_null(chat_end_token("vicuna"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(test_render), cmocka_unit_test(test_refused), cmocka_unit_test(test_end_tokens)};
	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
