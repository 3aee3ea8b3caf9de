/* Chat templates against transformers: the text and the ids of every conversation that
 * tests/ref/chat_oracle.py writes, and which of its Jinja texts are recognised. Equality is exact:
 * there is no tolerance. */
#include "text_fixture.h"
#include "text/chat_internal.h"
#include <setjmp.h>

#include <cmocka.h>

static char *folder;
static struct tokenizer *tokenizer;

static int set_up(void **state)
{
	struct err err = {0};
	const char *build = getenv("BUILD");
	folder = path_join(build ? build : "build/release", "ref/chat");
	char *command = xasprintf(
		"TOKENIZERS_PARALLELISM=false build/venv/bin/python tests/ref/chat_oracle.py '%s' >&2", folder);
	int rc = system(command);
	free(command);
	return rc ? rc : tokenizer_open(folder, &tokenizer, &err);
}

static int tear_down(void **state)
{
	tokenizer_free(tokenizer);
	free(folder);
	return 0;
}

static struct {
	int conversations, ids, recognised, refused, failed;
} seen;

static void check_recognised(const json_t *row, const char *jinja)
{
	struct err err = {0};
	const struct chat_template *c = NULL;
	const char *expected = json_string_value(json_object_get(row, "recognised"));
	char *path = path_join(folder, "chat_template.jinja");
	assert_int_equal(file_write_atomic(path, jinja, strlen(jinja), &err), 0);
	free(path);
	int rc = chat_template_find("auto", folder, &c, &err);
	if (expected ? rc || strcmp(c->name, expected) : rc != ERR_UNSUPPORTED) {
		print_message(
			"expected %s, found %s: %.300s\n", expected ? expected : "a refusal", rc ? err.text : c->name, jinja);
		seen.failed++;
	}
	seen.recognised += expected != NULL;
	seen.refused += !expected;
}

static bool same_ids(const json_t *expected, const struct ids *found)
{
	bool same = json_array_size(expected) == found->count;
	for (size_t i = 0; same && i < found->count; i++)
		same = json_integer_value(json_array_get(expected, i)) == found->data[i];
	return same;
}

static void check_conversation(const json_t *row, const char *where)
{
	struct chat_message messages[16];
	const json_t *list = json_object_get(row, "messages"), *expected = json_object_get(row, "ids"),
				 *text = json_object_get(row, "text");
	size_t count = json_array_size(list);
	const struct chat_template *c;
	struct chat_text out = {0};
	struct ids ids = {0};
	struct err err = {0};
	assert_in_range(count, 1, ARRAY_LEN(messages));
	/* The conversation, rendered and encoded as the row asks. */
	for (size_t i = 0; i < count; i++) {
		const json_t *m = json_array_get(list, i);
		messages[i] = (struct chat_message){
			json_string_value(json_array_get(m, 0)), json_string_value(json_array_get(m, 1))};
	}
	assert_int_equal(chat_template_find(json_string_value(json_object_get(row, "template")), NULL, &c, &err), 0);
	const char *date = json_string_value(json_object_get(row, "date"));
	assert_int_equal(
		chat_render(c, date, messages, count, json_is_true(json_object_get(row, "generate")), &out, &err), 0);
	assert_int_equal(chat_encode(tokenizer, &out, &ids, &err), 0);
	/* The text always; the ids where the reference gave them. A difference is printed and counted,
	 * so that one run shows all. */
	bool same_text = json_string_length(text) == out.text.len &&
		!strcmp(json_string_value(text), out.text.data ? out.text.data : "");
	bool same = !expected || same_ids(expected, &ids);
	if (!same_text || !same) {
		print_message("%s, template %s: the %s differ\nexpected %s\nfound    %s\n", where, c->name,
			same_text ? "ids" : "texts", json_string_value(text), out.text.data);
		seen.failed++;
	}
	seen.conversations++;
	seen.ids += expected != NULL;
	ids_release(&ids);
	chat_text_release(&out);
}

static int check_row(void *ctx, const json_t *row, const char *where, struct err *err)
{
	const char *jinja = json_string_value(json_object_get(row, "jinja"));
	if (jinja) check_recognised(row, jinja);
	else check_conversation(row, where);
	return 0;
}

static void test_rows(void **state)
{
	struct err err = {0};
	char *path = path_join(folder, "cases.jsonl");
	assert_int_equal(jsonl_each(path, 1 << 20, check_row, NULL, &err), 0);
	print_message("# %d conversations, %d of them with ids; %d texts recognised, %d refused\n", seen.conversations,
		seen.ids, seen.recognised, seen.refused);
	assert_int_equal(seen.failed, 0);
	assert_true(seen.conversations > 500 && seen.ids > 400 && seen.recognised > 0);
	free(path);
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(test_rows)};
	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests_name("chat against transformers", tests, set_up, tear_down);
}
