/* Rows of pairs as examples: each against the tokenizer's own answer, whichever split, length and
 * end it has; and nothing of them is left when they are released. */
#include "../failing_calls.h"
#include "train/train.h"
#include "policy/policy.h"
#include "text/text.h"

#define END "<|end|>"
#define LEAF "chain:a39" /* its split is dev (tests/task/test_task_set.c) */
enum { TOKENS_MAX = 24, ROWS = 400 };
enum where { TRAIN, HELDOUT, ELSEWHERE, TOO_LONG };
static const struct {
	const char *prompt, *completion, *structure, *split;
	enum where where;
} KINDS[] = {
	{"def f(", "x):", "", "", TRAIN},
	{"def f(", "x): return" END, "", "train", TRAIN},
	{"", "alone", "", "", TRAIN},
	{"a held out one", " is", "", "dev", HELDOUT},
	{"held", " by structure", LEAF, "", HELDOUT},
	{"a test", " is left", "", "test", ELSEWHERE},
	{"another", " split", "", "hand", ELSEWHERE},
	{"a prompt of which no part is left out", " or cut", "", "", TOO_LONG},
	/* With its end it has as many tokens as there may be, and one more. */
	{"0123456789", "0123456789012", "", "", TRAIN},
	{"0123456789", "01234567890123", "", "", TOO_LONG},
	{"0123456789", "0123456789012" END, "", "", TRAIN},
};
enum { KIND_COUNT = ARRAY_LEN(KINDS) };
static struct policy policy;
static char *file;

static int set_up(void **state)
{
	static const char *const special[] = {END};
	/* Bytes alone: as many tokens as letters. */
	struct bpe_train_options o = {.vocab_size = 257, .special_tokens = special, .nspecial = 1};
	struct slice text = {"x", 1};
	struct str rows = {0};
	struct err err = {0};
	if (failing_set_up(state)) return -1;
	char *tokenizer = path_join(failing_folder, "tokenizer.json");
	file = path_join(failing_folder, "rows.jsonl.gz");
	policy.config = (struct model_config){
		.vocab_size = 257, .eos_token_id = 256, .max_position_embeddings = TOKENS_MAX};
	int rc = tokenizer_train(&text, 1, &o, tokenizer, &err);
	if (!rc) rc = tokenizer_open(tokenizer, &policy.tokenizer, &err);
	/* More rows than a list has room for at first. */
	for (int i = 0; i < ROWS; i++) {
		const char *structure = KINDS[i % KIND_COUNT].structure, *split = KINDS[i % KIND_COUNT].split;
		json_t *row = json_pack(
			"{s:s, s:s}", "prompt", KINDS[i % KIND_COUNT].prompt, "completion", KINDS[i % KIND_COUNT].completion);
		if (*structure) json_object_set_new(row, "structure", json_string(structure));
		if (*split) json_object_set_new(row, "split", json_string(split));
		jsonl_put(&rows, row);
		json_decref(row);
	}
	if (!rc) rc = jsonl_write(file, &rows, &err);
	if (rc) fprintf(stderr, "%s\n", err.text);
	str_release(&rows);
	free(tokenizer);
	return rc;
}

static int tear_down(void **state)
{
	tokenizer_free(policy.tokenizer);
	free(file);
	return failing_tear_down(state);
}

static void example_check(const struct sft_example *e, int kind)
{
	struct ids ids = {0};
	struct err err = {0};
	const char *prompt = KINDS[kind].prompt, *completion = KINDS[kind].completion;
	if (*prompt) assert_int_equal(tokenizer_encode(policy.tokenizer, prompt, strlen(prompt), true, &ids, &err), 0);
	assert_int_equal(e->completion_begin, ids.count);
	assert_int_equal(tokenizer_encode(policy.tokenizer, completion, strlen(completion), true, &ids, &err), 0);
	/* One end, and no second one. */
	if (ids.data[ids.count - 1] != 256) ids_push(&ids, 256);
	assert_int_equal(e->count, ids.count);
	assert_memory_equal(e->ids, ids.data, ids.count * sizeof *ids.data);
	ids_release(&ids);
}

static void test_rows(void **state)
{
	struct sft_data d;
	struct err err = {0};
	size_t at[4] = {0};
	int64_t tokens = 0, loss = 0;
	if (sft_data_load(file, &policy, 100, &d, &err)) fail_msg("%s", err.text);
	/* In the file's order, each in its list. */
	for (int i = 0; i < ROWS; i++) {
		enum where where = KINDS[i % KIND_COUNT].where;
		const struct sft_examples *list = where == TRAIN ? &d.train : &d.heldout;
		if (where <= HELDOUT) {
			assert_true(at[where] < list->count);
			example_check(&list->v[at[where]], i % KIND_COUNT);
		}
		if (where == TRAIN) {
			tokens += list->v[at[where]].count;
			loss += list->v[at[where]].count - list->v[at[where]].completion_begin;
		}
		at[where]++;
	}
	assert_true(at[TRAIN] == d.train.count && at[TRAIN] > 150 && at[HELDOUT] == d.heldout.count);
	assert_true((int64_t)at[ELSEWHERE] == d.other_splits && (int64_t)at[TOO_LONG] == d.too_long);
	assert_true(d.train.tokens == tokens && d.train.completion_tokens == loss);
	sft_data_release(&d);
	/* A shorter limit than the model's refuses more, and without an example there is no run. */
	assert_int_equal(sft_data_load(file, &policy, 3, &d, &err), ERR_RANGE);
	policy.config.eos_token_id = -1;
	assert_int_equal(sft_data_load(file, &policy, 100, &d, &err), ERR_FORMAT);
	policy.config.eos_token_id = 256;
}

static int load(void *ctx, struct err *err)
{
	struct sft_data d;
	int rc = sft_data_load(file, &policy, 100, &d, err);
	if (!rc) sft_data_release(&d);
	return rc;
}

static void test_calls(void **state) { each_call_fails("pairs", load, NULL, 2); }

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(test_rows), cmocka_unit_test(test_calls)};
	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, set_up, tear_down);
}
