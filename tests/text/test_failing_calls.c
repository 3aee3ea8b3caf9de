/* Tokenizers, trained, written and opened: whichever call of the machine fails, it is said. */
#include "../failing_calls.h"
#include "text_fixture.h"

static int train(void *path, struct err *err)
{
	struct bpe_train_options o = {.vocab_size = 280};
	struct slice text = {fixture_text, sizeof fixture_text - 1};
	return tokenizer_train(&text, 1, &o, path, err);
}

static int open_again(void *path, struct err *err)
{
	struct tokenizer *t = NULL;
	int rc = tokenizer_open(path, &t, err);
	if (!rc) assert_int_equal(tokenizer_vocab_size(t), 280);
	tokenizer_free(t);
	return rc;
}

/* From its parts: letters, and one merge of two. */
static int write_parts(void *path, struct err *err)
{
	static const struct slice tokens[] = {{"a", 1}, {"b", 1}, {"ab", 2}}, merges[] = {{"a b", 3}};
	static const enum token_kind kinds[] = {TOKEN_KIND_TEXT, TOKEN_KIND_TEXT, TOKEN_KIND_TEXT};
	struct tokenizer_parts p = {.kind = "gpt-2",
		.tokens = tokens,
		.kinds = kinds,
		.ntokens = ARRAY_LEN(tokens),
		.merges = merges,
		.nmerges = ARRAY_LEN(merges),
		.bos_id = -1};
	int rc = tokenizer_write(&p, path, err);
	/* What could not be read back is not left. */
	if (rc && !strcmp(call_failed, "read")) assert_false(path_exists(path));
	return rc;
}

static void test_calls(void **state)
{
	char *path = path_join(failing_folder, "tokenizer.json");
	each_call_fails("training", train, path, 6);
	each_call_fails("opening", open_again, path, 2);
	each_call_fails("opening the folder", open_again, failing_folder, 2);
	each_call_fails("parts", write_parts, path, 8);
	free(path);
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(test_calls)};
	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, failing_set_up, failing_tear_down);
}
