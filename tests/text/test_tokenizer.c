/* The tokenizer's contract: what it refuses and how it says so, hostile text and ids, long words.
 * Equality with Hugging Face's is test_tokenizer_hf. */
#include "text_fixture.h"
#include "text/tokenizer_internal.h"
#include <setjmp.h>

#include <cmocka.h>
#include "../leaks.h"

static char *small_path;
static json_t *small;

static int set_up(void **state)
{
	struct err err = {0};
	small_path = fixture_train("text-small.json", 300, true);
	return json_load(small_path, 1 << 24, &small, &err);
}

static int tear_down(void **state)
{
	json_decref(small);
	free(small_path);
	return 0;
}

/* ---- files ---- */

struct refusal {
	const char *field, *value, *found;
	int code;
}; /* field: dotted path, numbers index lists; found: what the message has to say */

#define SEQ(parts) "{\"type\": \"Sequence\", \"pretokenizers\": [" parts "]}"
#define BYTES "{\"type\": \"ByteLevel\", \"add_prefix_space\": false, \"use_regex\": false}"
#define TEMPLATE(single, special) "{\"type\": \"TemplateProcessing\", \"single\": " single \
	", \"special_tokens\": " special "}"
#define TEXT_A "{\"Sequence\": {\"id\": \"A\", \"type_id\": 0}}"
#define BOS "{\"SpecialToken\": {\"id\": \"<s>\", \"type_id\": 0}}"
static const struct refusal refusals[] = {
	{"model", "[]", "model: expected an object, found a list", ERR_FORMAT},
	{"model.type", "\"WordPiece\"", "\"WordPiece\"", ERR_UNSUPPORTED},
	{"model.type", "3", "model: field \"type\"", ERR_FORMAT},
	{"model.dropout", "0.1", "dropout", ERR_UNSUPPORTED},
	{"model.byte_fallback", "true", "byte_fallback", ERR_UNSUPPORTED},
	{"model.end_of_word_suffix", "\"</w>\"", "\"</w>\"", ERR_UNSUPPORTED},
	{"model.continuing_subword_prefix", "\"##\"", "\"##\"", ERR_UNSUPPORTED},
	{"model.shiny", "1", "\"shiny\"", ERR_UNSUPPORTED},
	{"shiny", "1", "\"shiny\"", ERR_UNSUPPORTED},
	{"model.vocab", "{}", "model.vocab", ERR_FORMAT},
	{"model.vocab.a", "\"x\"", "model.vocab[\"a\"]: expected an integer id, found a string", ERR_FORMAT},
	{"model.vocab.a", "-1", "model.vocab[\"a\"]", ERR_RANGE},
	{"model.vocab.a", "1e3", "model.vocab[\"a\"]", ERR_FORMAT},
	{"model.vocab.a", "4294967296", "4294967296", ERR_RANGE},
	{"model.vocab.a", "3", "id 3 belongs to another token", ERR_FORMAT},
	{"model.merges", "{}", "model.merges: expected a list", ERR_FORMAT},
	{"model.merges.0", "3", "model.merges[0]: expected", ERR_FORMAT},
	{"model.merges.0", "\"ab\"", "model.merges[0]: expected", ERR_FORMAT},
	{"model.merges.0", "\"a b c\"", "model.merges[0]: expected", ERR_FORMAT},
	{"model.merges.0", "[\"a\"]", "model.merges[0]: expected", ERR_FORMAT},
	{"model.merges.1", "[\"a\", \"qzq\"]", "model.merges[1]: \"qzq\" is not in model.vocab", ERR_FORMAT},
	{"model.merges.1", "\"! #\"", "model.merges[1]: \"!#\" is not in model.vocab", ERR_FORMAT},
	{"added_tokens", "{}", "added_tokens: expected a list", ERR_FORMAT},
	{"added_tokens.1", "7", "added_tokens[1]: expected an object", ERR_FORMAT},
	{"added_tokens.1.id", "null", "added_tokens[1]: field \"id\"", ERR_FORMAT},
	{"added_tokens.1.id", "999999999", "added_tokens[1]: field \"id\"", ERR_RANGE},
	{"added_tokens.1.id", "5", "added_tokens[1]", ERR_FORMAT},
	{"added_tokens.1.content", "\"a\"", "added_tokens[1]", ERR_FORMAT},
	{"added_tokens.1.lstrip", "1", "added_tokens[1]: field \"lstrip\"", ERR_FORMAT},
	{"added_tokens.1.color", "1", "\"color\"", ERR_UNSUPPORTED},
	{"normalizer", "{\"type\": \"Lowercase\"}", "normalizer: type \"Lowercase\"", ERR_UNSUPPORTED},
	{"normalizer", "{\"type\": \"Sequence\", \"normalizers\": [{\"type\": \"NFC\"}, {\"type\": \"NFKC\"}]}",
		"normalizer.normalizers[1]: type \"NFKC\"", ERR_UNSUPPORTED},
	{"normalizer", "\"NFC\"", "normalizer: expected an object", ERR_FORMAT},
	{"pre_tokenizer", "null", "pre_tokenizer: expected one that ends in ByteLevel", ERR_UNSUPPORTED},
	{"pre_tokenizer", "{\"type\": \"Whitespace\"}", "pre_tokenizer: type \"Whitespace\"", ERR_UNSUPPORTED},
	{"pre_tokenizer", SEQ(BYTES ", {\"type\": \"Digits\"}"), "ByteLevel has to be the last", ERR_UNSUPPORTED},
	{"pre_tokenizer", SEQ("{\"type\": \"Digits\"}"), "ends in ByteLevel, found Digits", ERR_UNSUPPORTED},
	{"pre_tokenizer", "{\"type\": \"Sequence\", \"pretokenizers\": 3}", "field \"pretokenizers\": expected a list",
		ERR_FORMAT},
	{"pre_tokenizer",
		SEQ("{\"type\": \"Split\", \"pattern\": {\"Regex\": \"a+\"}, \"behavior\": \"Isolated\"}, " BYTES),
		"not one of the known ones", ERR_UNSUPPORTED},
	{"pre_tokenizer",
		SEQ("{\"type\": \"Split\", \"pattern\": {\"String\": \"a\"}, \"behavior\": \"Isolated\"}, " BYTES),
		"field \"pattern\"", ERR_UNSUPPORTED},
	{"pre_tokenizer.pretokenizers.0.behavior", "\"Removed\"", "found Removed", ERR_UNSUPPORTED},
	{"pre_tokenizer.pretokenizers.0.invert", "true", "inverted", ERR_UNSUPPORTED},
	{"pre_tokenizer.pretokenizers.1.use_regex", "0", "pretokenizers[1]: field \"use_regex\"", ERR_FORMAT},
	{"pre_tokenizer", SEQ(SEQ(SEQ(SEQ(SEQ(SEQ(BYTES)))))), "nested more than", ERR_LIMIT},
	{"pre_tokenizer",
		SEQ("{\"type\":\"Digits\"},{\"type\":\"Digits\"},{\"type\":\"Digits\"},{\"type\":\"Digits\"},{\"type\":"
			"\"Digits\"},{\"type\":\"Digits\"},"
			"{\"type\":\"Digits\"},"
			"{\"type\":\"Digits\"},{\"type\":\"Digits\"}," BYTES),
		"more than 8", ERR_LIMIT},
	{"post_processor", "{\"type\": \"RobertaProcessing\"}", "RobertaProcessing", ERR_UNSUPPORTED},
	{"post_processor", TEMPLATE("3", "{}"), "field \"single\": expected a list, found an integer", ERR_FORMAT},
	{"post_processor", TEMPLATE("[]", "{}"), "expected the Sequence A once, found it 0 times", ERR_UNSUPPORTED},
	{"post_processor", TEMPLATE("[" TEXT_A ", " TEXT_A "]", "{}"), "found it 2 times", ERR_UNSUPPORTED},
	{"post_processor", TEMPLATE("[{\"Sequence\": {\"id\": \"B\"}}]", "{}"), "\"single\"[0]: expected", ERR_UNSUPPORTED},
	{"post_processor", TEMPLATE("[3, " TEXT_A "]", "{}"), "\"single\"[0]: expected", ERR_UNSUPPORTED},
	{"post_processor", TEMPLATE("[" BOS ", " TEXT_A "]", "{}"), "special_tokens has no ids for \"<s>\"", ERR_FORMAT},
	{"post_processor", TEMPLATE("[" BOS ", " TEXT_A "]", "{\"<s>\": {\"ids\": [-1]}}"),
		"special_tokens[\"<s>\"]: expected ids of 0 to", ERR_FORMAT},
	{"post_processor", TEMPLATE("[" BOS ", " TEXT_A "]", "{\"<s>\": {\"ids\": [2097152]}}"),
		"expected ids of 0 to 2097151, found one outside", ERR_FORMAT},
	{"post_processor", TEMPLATE("[" BOS ", " TEXT_A "]", "{\"<s>\": {\"ids\": [2097151]}}"),
		"adds id 2097151, which no token has", ERR_FORMAT},
	{"post_processor", TEMPLATE("[" BOS ", " TEXT_A "]", "{\"<s>\": {\"ids\": [\"1\"]}}"), "found a string",
		ERR_FORMAT},
	{"post_processor", TEMPLATE("[" BOS ", " TEXT_A "]", "{\"<s>\": {\"ids\": [299, 300]}}"),
		"adds id 300, which no token has", ERR_FORMAT},
	{"post_processor", TEMPLATE("[" BOS ", " TEXT_A "]", "{\"<s>\": {\"ids\": [1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1]}}"),
		"more than 16 ids", ERR_LIMIT},
	{"post_processor",
		"{\"type\": \"Sequence\", \"processors\": [" TEMPLATE("[" BOS ", " TEXT_A "]",
			"{\"<s>\": {\"ids\": [1]}}") ", " TEMPLATE("[" BOS ", " TEXT_A "]", "{\"<s>\": {\"ids\": [1]}}") "]}",
		"a second TemplateProcessing", ERR_UNSUPPORTED},
	{"decoder", "null", "decoder", ERR_UNSUPPORTED},
	{"decoder", "{\"type\": \"Metaspace\"}", "Metaspace", ERR_UNSUPPORTED},
};

static void set_field(json_t *root, const char *field, const char *value)
{
	struct err err = {0};
	json_t *o = root, *v;
	char name[64];
	size_t n;
	assert_int_equal(json_parse(value, strlen(value), value, &v, &err), 0);
	for (; n = strcspn(field, "."), field[n]; field += n + 1) {
		snprintf(name, sizeof(name), "%.*s", (int)n, field);
		o = json_is_array(o) ? json_array_get(o, (size_t)atoi(name)) : json_object_get(o, name);
		assert_non_null(o);
	}
	assert_int_equal(
		json_is_array(o) ? json_array_set_new(o, (size_t)atoi(field), v) : json_object_set_new(o, field, v), 0);
}

static int open_json(const json_t *root, struct tokenizer **t, struct err *err)
{
	char *path = fixture_path("text-changed.json");
	assert_int_equal(json_save(path, root, err), 0);
	int rc = tokenizer_open(path, t, err);
	if (rc && !strstr(err->text, path)) {
		print_message("the message does not name the file: %s\n", err->text);
		rc = 1;
	}
	free(path);
	return rc;
}

static void test_refusals(void **state)
{
	for (size_t i = 0; i < ARRAY_LEN(refusals); i++) {
		struct err err = {0};
		struct tokenizer *t = NULL;
		json_t *root = json_deep_copy(small);
		set_field(root, refusals[i].field, refusals[i].value);
		int rc = open_json(root, &t, &err);
		if (rc != refusals[i].code || !strstr(err.text, refusals[i].found))
			print_message("%s = %s: rc %d, %s\n", refusals[i].field, refusals[i].value, rc, err.text);
		assert_int_equal(rc, refusals[i].code);
		assert_non_null(strstr(err.text, refusals[i].found));
		assert_null(t);
		json_decref(root);
	}
}

static void test_accepted(void **state)
{
	static const char *const changes[][2] = {
		{"truncation", "{\"max_length\": 4}"},
		{"padding", "{\"strategy\": \"BatchLongest\"}"},
		{"model.unk_token", "\"a\""},
		{"model.type", "null"},
		{"post_processor", "null"},
		{"normalizer", "null"},
		{"added_tokens", "null"},
		{"model.continuing_subword_prefix", "\"\""},
		{"model.dropout", "0.0"},
		{"post_processor",
			"{\"type\": \"Sequence\", \"processors\": [{\"type\": \"ByteLevel\"}, {\"type\": \"TemplateProcessing\", "
			"\"single\": [{\"Sequence\": {\"id\": \"A\", \"type_id\": 0}}]}]}"},
	};
	/* One field of a good file at a time gets another value that means the same to us. */
	for (size_t i = 0; i < ARRAY_LEN(changes); i++) {
		struct err err = {0};
		struct tokenizer *t = NULL;
		json_t *root = json_deep_copy(small);
		set_field(root, changes[i][0], changes[i][1]);
		if (open_json(root, &t, &err)) fail_msg("%s = %s: %s", changes[i][0], changes[i][1], err.text);
		tokenizer_free(t);
		json_decref(root);
	}
}

/* The file with text put in front of what stands in model's list. */
static int open_with(const char *list, const char *text, struct tokenizer **t, struct str *file, struct err *err)
{
	char *whole = json_dumps(small, JSON_COMPACT), *path = fixture_path("text-changed.json");
	const char *at = strstr(whole, list);
	assert_non_null(at);
	at += strlen(list);
	str_clear(file);
	str_append(file, whole, (size_t)(at - whole));
	str_puts(file, text);
	str_puts(file, at);
	assert_int_equal(file_write_atomic(path, file->data, file->len, err), 0);
	int rc = tokenizer_open(path, t, err);
	free(path);
	free(whole);
	return rc;
}

/* The two lists are not read by jansson, but are as strict: a text that is not JSON is refused, in
 * jansson's words. */
static void test_not_json(void **state)
{
	static const char vocab[] = "\"vocab\":{", merges[] = "\"merges\":[";
	static const struct {
		const char *list, *text;
	} broken[] = {
		{vocab, "\"q\\ud800\":900,"},
		{vocab, "\"q\\udc00\":900,"},
		{vocab, "\"q\\ud800\\u0041\":900,"},
		{vocab, "\"q\\u0000\":900,"},
		{vocab, "\"q\\u00g0\":900,"},
		{vocab, "\"q\\x41\":900,"},
		{vocab, "\"q\n\":900,"},
		{vocab, "\"q\xff\":900,"},
		{vocab, "\"q\xed\xa0\x80\":900,"},
		{vocab, "\"q\":0900,"},
		{vocab, "\"q\":+9,"},
		{vocab, "\"q\":9x,"},
		{vocab, "\"q\":9 9,"},
		{vocab, "\"q\":,"},
		{vocab, "\"q\" 900,"},
		{vocab, "\"q\":900,,"},
		{vocab, ","},
		{vocab, "q:900,"},
		{vocab, "900:900,"},
		{vocab, "\"q\":900]"},
		{vocab, "\"q\":99999999999999999999,"},
		{vocab, "\"q\":900,\"q\":901,"},
		{vocab, "\"q\":nul,"},
		{merges, "\"a b,"},
		{merges, ","},
		{merges, "\"f f\",,"},
		{merges, "\"f f\" \"f f\","},
		{merges, "[\"a\" \"b\"],"},
		{merges, "[\"a\",\"b\",],"},
		{merges, "[\"a\",\"b\"},"},
		{merges, "\"a \\ud800\","},
		{merges, "\"f f\"}"},
		{merges, "nothing,"},
	};
	struct str file = {0};
	/* Each text stands first in its list. jansson reads the same file for its words. */
	for (size_t i = 0; i < ARRAY_LEN(broken); i++) {
		struct err err = {0}, expected = {0};
		struct tokenizer *t = NULL;
		json_t *v;
		int rc = open_with(broken[i].list, broken[i].text, &t, &file, &err);
		assert_int_equal(json_parse(file.data, file.len, "", &v, &expected), ERR_FORMAT);
		if (rc != ERR_FORMAT || !strstr(err.text, expected.text))
			fail_msg("%s: rc %d, %s; expected %s", broken[i].text, rc, err.text, expected.text);
		assert_null(t);
	}
	str_release(&file);
}

static void expect_ids(struct tokenizer *t, const struct ids *expected)
{
	struct ids ids = {0};
	struct err err = {0};
	assert_int_equal(tokenizer_encode(t, fixture_text, sizeof(fixture_text) - 1, true, &ids, &err), 0);
	assert_int_equal(ids.count, expected->count);
	assert_memory_equal(ids.data, expected->data, ids.count * sizeof(*ids.data));
	ids_release(&ids);
}

/* Everything that means the same gives the same: escapes, white space, the order of members. */
static void test_spellings(void **state)
{
	static const size_t flags[] = {JSON_COMPACT, JSON_ENSURE_ASCII | JSON_INDENT(3), JSON_SORT_KEYS | JSON_INDENT(1)};
	struct err err = {0};
	struct tokenizer *t = NULL;
	struct ids expected = {0};
	struct str file = {0};
	char *path = fixture_path("text-changed.json");
	/* What the file gives as it is. */
	assert_int_equal(tokenizer_open(small_path, &t, &err), 0);
	/* One more word, with every escape and every white space that JSON has. */
	assert_int_equal(tokenizer_encode(t, fixture_text, sizeof(fixture_text) - 1, true, &expected, &err), 0);
	expect_ids(t, &expected); /* the second time words are known */
	tokenizer_free(t);
	for (size_t i = 0; i < ARRAY_LEN(flags); i++) { /* sorted, the merges come first */
		char *text = json_dumps(small, flags[i]);
		assert_int_equal(file_write_atomic(path, text, strlen(text), &err), 0);
		assert_int_equal(tokenizer_open(path, &t, &err), 0);
		expect_ids(t, &expected);
		tokenizer_free(t);
		free(text);
	}
	assert_int_equal(
		open_with("\"vocab\":{", "\r\n\t \"q\\/\\\\\\\"\\u0120\\uD83D\\udE80\" \t: \r 900 \n,", &t, &file, &err), 0);
	assert_int_equal(tokenizer_vocab_size(t), 901);
	struct str back = {0};
	tokenizer_decode(t, &(int32_t){900}, 1, false, &back);
	assert_string_equal(back.data, "q/\\\"\u0120\U0001f680"); /* not of the byte alphabet: kept as it is spelled */
	expect_ids(t, &expected);
	tokenizer_free(t);
	str_release(&back);
	str_release(&file);
	ids_release(&expected);
	free(path);
}

/* Many more merges than words: all substrings of a text, and all ways to make each. */
static void test_many_merges(void **state)
{
	static const char text[] = "abcdefghijklmnopqrstuvwx";
	enum { LETTERS = sizeof(text) - 1 };
	json_t *root = json_deep_copy(small), *model = json_object_get(root, "model"), *vocab = json_object(),
		   *merges = json_array();
	struct err err = {0};
	struct tokenizer *t = NULL;
	struct ids ids = {0};
	/* Every substring is a word, and every cut of it a merge, the short ones first. */
	for (int len = 1; len <= LETTERS; len++)
		for (int from = 0; from + len <= LETTERS; from++) {
			char word[LETTERS + 1], pair[LETTERS + 2];
			snprintf(word, sizeof(word), "%.*s", len, text + from);
			json_object_set_new(vocab, word, json_integer((json_int_t)json_object_size(vocab)));
			for (int cut = 1; cut < len; cut++) {
				snprintf(pair, sizeof(pair), "%.*s %.*s", cut, word, len - cut, word + cut);
				json_array_append_new(merges, json_string(pair));
			}
		}
	/* The whole text becomes its last word. */
	assert_true(json_array_size(merges) > 5 * json_object_size(vocab));
	json_object_set_new(model, "vocab", vocab);
	json_object_set_new(model, "merges", merges);
	json_object_set_new(root, "added_tokens", json_null());
	if (open_json(root, &t, &err)) fail_msg("%s", err.text);
	assert_int_equal(tokenizer_encode(t, text, LETTERS, false, &ids, &err), 0);
	assert_int_equal(ids.count, 1);
	assert_int_equal(ids.data[0], tokenizer_vocab_size(t) - 1);
	tokenizer_free(t);
	ids_release(&ids);
	json_decref(root);
}

/* Every pair of a few ids is found, whatever stands in its place, and no other is. */
static void test_merges_are_found(void **state)
{
	struct merge_map m = {0};
	merge_map_reserve(&m, 1);
	for (int side = 1; side <= 40; side++) {
		for (int left = 0; left < side; left++)
			for (int right = 0; right < side; right++)
				merge_map_put(&m, left, right, (uint32_t)(left * 100 + right), left + right);
		assert_int_equal(m.count, side * side);
		for (int left = 0; left <= side; left++)
			for (int right = 0; right <= side; right++) {
				const struct merge_slot *s = merge_map_find(&m, left, right);
				assert_int_equal(s != NULL, left < side && right < side);
				if (s) assert_true(s->rank == (uint32_t)(left * 100 + right) && s->id == left + right);
			}
	}
	free(m.slots);
}

/* Pairs that overlap: ab, then bc, whose b is gone by then, then de, and what stands in front of
 * that is c. In words of any length it is ab cde ab cde. */
static void test_pairs_that_are_gone(void **state)
{
	static const char *const words[] = {"a", "b", "c", "d", "e", "ab", "bc", "de", "cde"};
	enum { AB = 5, CDE = 8, UNITS = 100 };
	json_t *root = json_deep_copy(small), *model = json_object_get(root, "model"), *vocab = json_object();
	struct err err = {0};
	struct tokenizer *t = NULL;
	for (size_t i = 0; i < ARRAY_LEN(words); i++) json_object_set_new(vocab, words[i], json_integer((json_int_t)i));
	json_object_set_new(model, "vocab", vocab);
	json_object_set_new(model, "merges", json_pack("[s, s, s, s]", "a b", "b c", "d e", "c de"));
	json_object_set_new(root, "added_tokens", json_null());
	if (open_json(root, &t, &err)) fail_msg("%s", err.text);
	char text[5 * UNITS];
	for (int i = 0; i < UNITS; i++) memcpy(text + 5 * i, "abcde", 5);
	for (int units = 1; units <= UNITS; units++) {
		struct ids ids = {0};
		assert_int_equal(tokenizer_encode(t, text, (size_t)units * 5, false, &ids, &err), 0);
		assert_int_equal(ids.count, 2 * units);
		for (size_t i = 0; i < ids.count; i++) assert_int_equal(ids.data[i], i % 2 ? CDE : AB);
		ids_release(&ids);
	}
	tokenizer_free(t);
	json_decref(root);
}

/* Ids before and behind the text, in their order; tokenizer_encode itself adds none. */
static void test_affixes(void **state)
{
	struct err err = {0};
	struct tokenizer *t = NULL;
	struct ids ids = {0};
	json_t *root = json_deep_copy(small);
	set_field(root, "post_processor", TEMPLATE("[" BOS ", " TEXT_A ", " BOS "]", "{\"<s>\": {\"ids\": [297, 0]}}"));
	assert_int_equal(open_json(root, &t, &err), 0);
	tokenizer_push_prefix(t, &ids);
	assert_int_equal(tokenizer_encode(t, "!", 1, true, &ids, &err), 0);
	for (int i = 0; i < t->nsuffix; i++) ids_push(&ids, t->suffix[i]);
	static const int32_t expected[] = {297, 0, 0, 297, 0};
	assert_int_equal(ids.count, ARRAY_LEN(expected));
	assert_memory_equal(ids.data, expected, sizeof(expected));
	ids_release(&ids);
	tokenizer_free(t);
	json_decref(root);
}

/* Added tokens are found around the ranges, never in them or across their border; words still reach
 * across. */
static void test_ranges(void **state)
{
	static const char text[] = "<|im_end|><|im_end|>xx<|im_end|>";
	static const struct {
		struct text_range plain[2];
		size_t count;
		int found;
	} cases[] = {
		{{{0, 0}}, 0, 3},
		{{{0, 32}}, 1, 0},
		{{{10, 20}}, 1, 2},
		{{{9, 11}}, 1, 1},
		{{{0, 1}, {31, 32}}, 2, 1},
		{{{20, 22}}, 1, 3},
		{{{5, 6}, {15, 16}}, 2, 1},
		{{{10, 20}, {20, 22}}, 2, 2},
		{{{22, 32}}, 1, 2},
	};
	struct err err = {0};
	struct tokenizer *t;
	assert_int_equal(tokenizer_open(small_path, &t, &err), 0);
	/* The number of added tokens that are found; nothing of the text is lost either way. */
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct ids ids = {0};
		struct str back = {0};
		int found = 0;
		assert_int_equal(
			tokenizer_encode_except(t, text, sizeof(text) - 1, cases[i].plain, cases[i].count, &ids, &err), 0);
		for (size_t k = 0; k < ids.count; k++) found += ids.data[k] == tokenizer_id(t, "<|im_end|>");
		assert_int_equal(found, cases[i].found);
		tokenizer_decode(t, ids.data, ids.count, false, &back);
		assert_string_equal(back.data, text);
		ids_release(&ids);
		str_release(&back);
	}
	/* A range in the middle of ordinary words changes no id. */
	struct ids whole = {0}, cut = {0};
	assert_int_equal(tokenizer_encode(t, "x_ptr + offs", 12, true, &whole, &err), 0);
	assert_int_equal(tokenizer_encode_except(t, "x_ptr + offs", 12, &(struct text_range){3, 9}, 1, &cut, &err), 0);
	assert_int_equal(whole.count, cut.count);
	assert_memory_equal(whole.data, cut.data, whole.count * sizeof(int32_t));
	ids_release(&whole);
	ids_release(&cut);
	tokenizer_free(t);
}

static void test_no_file(void **state)
{
	struct err err = {0};
	struct tokenizer *t = NULL;
	assert_true(tokenizer_open("no/such/folder/tokenizer.json", &t, &err) < 0);
	assert_non_null(strstr(err.text, "no/such/folder"));
	assert_null(t);
	tokenizer_free(NULL);
}

/* ---- text ---- */

static void test_invalid_utf8(void **state)
{
	static const struct {
		const char *text;
		size_t len, byte;
	} cases[] = {
		{"\x80", 1, 0},
		{"abc\xff", 4, 3},
		{"12345678abcdefgh\xc0\x80", 18, 16},
		{"\xc3", 1, 0},
		{"a\xe2\x82", 3, 1},
		{"\xed\xa0\x80", 3, 0},
		{"\xe0\x9f\xbf", 3, 0},
		{"\xf0\x8f\xbf\xbf", 4, 0},
		{"\xf4\x90\x80\x80", 4, 0},
		{"\xf5\x80\x80\x80", 4, 0},
		{"\xc3\xa9\xe9", 3, 2},
		{"ok\xf0\x9f\x9a ", 6, 2},
	};
	struct err err = {0};
	struct tokenizer *t;
	assert_int_equal(tokenizer_open(small_path, &t, &err), 0);
	/* The message names the first bad byte and its place; no id is given out. */
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct ids ids = {0};
		char byte[32];
		snprintf(byte, sizeof(byte), "byte %zu is 0x%02x", cases[i].byte, (uint8_t)cases[i].text[cases[i].byte]);
		assert_int_equal(tokenizer_encode(t, cases[i].text, cases[i].len, true, &ids, &err), ERR_FORMAT);
		assert_non_null(strstr(err.text, byte));
		assert_int_equal(ids.count, 0);
	}
	tokenizer_free(t);
}

static void test_decode(void **state)
{
	static const char text[] = "<|im_start|>x = 1<think>é🚀</think><|im_end|>";
	static const int32_t hostile[] = {-1, INT32_MIN, INT32_MAX, 1 << 21, 300};
	struct err err = {0};
	struct tokenizer *t;
	struct ids ids = {0};
	struct str out = {0};
	assert_int_equal(tokenizer_open(small_path, &t, &err), 0);
	assert_int_equal(tokenizer_vocab_size(t), 300);
	assert_int_equal(tokenizer_encode(t, text, sizeof(text) - 1, true, &ids, &err), 0);
	assert_int_equal(ids.data[0], tokenizer_id(t, "<|im_start|>"));
	assert_int_equal(ids.data[ids.count - 1], tokenizer_id(t, "<|im_end|>"));
	tokenizer_decode(t, ids.data, ids.count, false, &out);
	assert_string_equal(out.data, text);
	str_clear(&out);
	tokenizer_decode(t, ids.data, ids.count, true, &out);
	assert_string_equal(out.data, "x = 1<think>é🚀</think>");
	str_clear(&out);
	tokenizer_decode(t, hostile, ARRAY_LEN(hostile), false, &out);
	assert_int_equal(out.len, 0);
	/* With parse_special off no text becomes a control token, and everything still comes back. */
	ids.count = 0;
	assert_int_equal(tokenizer_encode(t, text, sizeof(text) - 1, false, &ids, &err), 0);
	for (size_t i = 0; i < ids.count; i++) assert_true(ids.data[i] < tokenizer_id(t, "<|endoftext|>"));
	tokenizer_decode(t, ids.data, ids.count, true, &out);
	assert_string_equal(out.data, text);
	/* Appending: ids that are there stay. */
	size_t before = ids.count;
	assert_int_equal(tokenizer_encode(t, "", 0, true, &ids, &err), 0);
	assert_int_equal(ids.count, before);
	assert_int_equal(tokenizer_encode(t, "a\0b", 3, true, &ids, &err), 0);
	assert_true(ids.count > before);
	ids_release(&ids);
	str_release(&out);
	tokenizer_free(t);
}

static void test_ids(void **state)
{
	struct err err = {0};
	struct tokenizer *t;
	assert_int_equal(tokenizer_open(small_path, &t, &err), 0);
	assert_int_equal(tokenizer_id(t, "!"), 0);
	assert_int_equal(tokenizer_id(t, "</think>"), 299);
	assert_int_equal(tokenizer_id(t, "<|im_end|>"), 297);
	assert_int_equal(tokenizer_id(t, "<|im_end|> "), -1);
	assert_int_equal(tokenizer_id(t, "no such token"), -1);
	assert_int_equal(tokenizer_id(t, ""), -1);
	assert_true(tokenizer_id(t, " x") > 255);
	tokenizer_free(t);
}

/* A word that is long enough for a heap of its pairs. */
static void encode_long(void *t)
{
	char word[1000];
	struct err err = {0};
	struct ids ids = {0};
	for (size_t i = 0; i < sizeof word; i++) word[i] = "offsptr"[i % 7];
	assert_int_equal(tokenizer_encode(t, word, sizeof word, true, &ids, &err), 0);
	ids_release(&ids);
}

/* A megabyte without a place to split: quadratic work would not end, and the long way must give
 * what the short way gives. */
static void test_long_words(void **state)
{
	const size_t len = 1 << 20;
	struct err err = {0};
	struct tokenizer *t;
	struct ids ids = {0}, unit = {0};
	struct str back = {0};
	char *text = xmalloc(len);
	for (size_t i = 0; i < len; i++) text[i] = "offsptr"[i % 7];
	assert_int_equal(tokenizer_open(small_path, &t, &err), 0);
	assert_int_equal(tokenizer_encode(t, text, len, true, &ids, &err), 0);
	tokenizer_decode(t, ids.data, ids.count, false, &back);
	assert_int_equal(back.len, len);
	assert_memory_equal(back.data, text, len);
	assert_int_equal(tokenizer_encode(t, text, 77, true, &unit, &err), 0); /* short: 11 periods */
	assert_true(unit.count >= 11 && unit.count % 11 == 0);
	assert_memory_equal(ids.data, unit.data, (unit.count - unit.count / 11) * sizeof(int32_t));
	leaves_nothing(encode_long, t);
	free(text);
	ids_release(&ids);
	ids_release(&unit);
	str_release(&back);
	tokenizer_free(t);
}

/* Text that is surely composed is left alone, at every place of a word of eight bytes; a mark
 * behind its base, or what composes with what stands before it, is looked at. */
static void test_plain(void **state)
{
	static const struct {
		const char *text;
		bool is_plain;
	} rows[] = {{"", true}, {"a", true}, {"abcdefgh", true}, {"abcdefghi\x7f", true}, {"\xc3\xa9", true},
		{"\xcb\xbf", true} /* U+02FF, before the first mark */, {"\xcc\x80", false}, {"e\xcc\x81", false},
		{"\xe4\xb8\xad", true}, {"\xf0\x9f\x98\x80", true}, {"\xe1\x85\xa1", false} /* a vowel of Hangul */,
		{"\xe2\x84\xab", false} /* the unit that is a letter */};
	for (size_t i = 0; i < ARRAY_LEN(rows); i++)
		for (int before = 0; before < 18; before++) {
			char *text = xasprintf("%.*s%s.", before, "xxxxxxxxxxxxxxxxxx", rows[i].text);
			if (nfc_is_plain(text, strlen(text)) != rows[i].is_plain) fail_msg("row %zu behind %d bytes", i, before);
			free(text);
		}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_refusals),
		cmocka_unit_test(test_accepted),
		cmocka_unit_test(test_not_json),
		cmocka_unit_test(test_spellings),
		cmocka_unit_test(test_many_merges),
		cmocka_unit_test(test_merges_are_found),
		cmocka_unit_test(test_pairs_that_are_gone),
		cmocka_unit_test(test_no_file),
		cmocka_unit_test(test_invalid_utf8),
		cmocka_unit_test(test_decode),
		cmocka_unit_test(test_ids),
		cmocka_unit_test(test_long_words),
		cmocka_unit_test(test_affixes),
		cmocka_unit_test(test_ranges),
		cmocka_unit_test(test_plain),
	};
	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, set_up, tear_down);
}
