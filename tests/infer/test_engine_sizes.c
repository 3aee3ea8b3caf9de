/* What an engine is made of and what it refuses: sizes on both sides of their bounds, memory, steps
 * in one go, requests (over hash_model.h). */
#include "hash_model.h"

static void refuse(struct engine *e, struct request r, int code, const char *text)
{
	struct err err = {0};
	assert_int_equal(engine_submit(e, &r, &err), code);
	if (!strstr(err.text, text)) fail_msg("\"%s\" lacks \"%s\"", err.text, text);
}

static void test_refusals(void **state)
{
	struct engine *e;
	struct err err = {0};
	struct engine_options o = {.max_sequences = 2, .max_context = 64, .kv_pages = 2};
	assert_int_equal(engine_create(&the_model, &o, &e, &err), 0);
	struct request good =
					   {
						   .prompt = prompt_tokens,
						   .nprompt = 40,
						   .num_samples = 1,
						   .sampling = {.temperature = 1, .top_p = 1},
						   .max_new_tokens = 24,
					   },
				   r = good;
	/* One thing wrong at a time; each message names it with its numbers. */
	r.max_new_tokens = 25;
	refuse(e, r, ERR_LIMIT, "40 prompt tokens + 25 new tokens = 65, but max_context is 64");
	r = good, r.max_new_tokens = INT32_MAX;
	refuse(e, r, ERR_LIMIT, "max_context");
	r = good, r.nprompt = 0;
	refuse(e, r, ERR_RANGE, "empty");
	r = good, r.num_samples = 0;
	refuse(e, r, ERR_RANGE, "num_samples");
	r = good, r.max_new_tokens = 0;
	refuse(e, r, ERR_RANGE, "request 0: max_new_tokens is 0, expected at least 1");
	r = good, r.num_samples = 2;
	refuse(e, r, ERR_LIMIT, "needs 3 KV pages, the engine has 2");
	r = good, r.stop_ids = prompt_tokens, r.nstop = 65;
	refuse(e, r, ERR_LIMIT, "65 stop ids, at most 64");
	r = good, r.nstop = -1;
	refuse(e, r, ERR_LIMIT, "-1 stop ids");
	r = good, r.sampling.temperature = NAN;
	refuse(e, r, ERR_RANGE, "temperature");
	r = good, r.sampling.top_p = 0;
	refuse(e, r, ERR_RANGE, "top_p");
	r = good, r.sampling.min_p = 1.5f;
	refuse(e, r, ERR_RANGE, "min_p");
	static const int32_t bad[2] = {1, V};
	r = good, r.prompt = bad, r.nprompt = 2;
	refuse(e, r, ERR_RANGE, "prompt token 1 is 97");
	/* The good one passes; then engines that cannot be made. */
	assert_int_equal(engine_submit(e, &good, &err), 0);
	engine_free(e); /* with a request that never ran */
	o = (struct engine_options){.max_sequences = 1, .max_context = 1001};
	assert_int_equal(engine_create(&the_model, &o, &e, &err), ERR_LIMIT);
	o = (struct engine_options){.max_sequences = 60000, .max_context = 1000, .kv_pages = INT32_MAX};
	the_model.c.max_position_embeddings = 1000;
	assert_int_equal(engine_create(&the_model, &o, &e, &err), ERR_LIMIT);
	assert_non_null(strstr(err.text, "MiB of KV pages"));
}

static void test_completion_check(void **state)
{
	struct err err = {0};
	for (int f = 0; f <= FINISH_NAN; f++) {
		struct completion c = {.finish = (enum finish_reason)f, .count = 5};
		assert_int_equal(completion_check(&c, &err), f == FINISH_NAN ? ERR_RANGE : 0);
	}
	assert_non_null(strstr(err.text, "token 4: the model's values are not finite"));
}

/* Steps in one go: sixteen, halved until they take 5 ms together at 12 us a layer and 1.5 TB/s for
 * weights and KV; one on the CPU. */
static void test_fused_steps(void **state)
{
	static const struct {
		int layers, kv_heads, head_dim, context, sequences, elem_bytes, steps;
	} rows[] = {
		{26, 1, 1, 1, 1, 2, 16},
		{27, 1, 1, 1, 1, 2, 8},
		{52, 1, 1, 1, 1, 2, 8},
		{53, 1, 1, 1, 1, 2, 4},
		{104, 1, 1, 1, 1, 2, 4},
		{105, 1, 1, 1, 1, 2, 2},
		{208, 1, 1, 1, 1, 2, 2},
		{209, 1, 1, 1, 1, 2, 1},
		{9999, 1, 1, 1, 1, 2, 1},
		/* 2 x 5 x 7 x 1000 elements a sequence: 225,375,000 of two bytes
		 * fit, half as many of four */
		{1, 5, 7, 1000, 3219, 2, 16},
		{1, 5, 7, 1000, 3220, 2, 8},
		{1, 5, 7, 1000, 1609, 4, 16},
		{1, 5, 7, 1000, 1610, 4, 8},
		{1, 5, 7, 1610, 1000, 4, 8},
		{2, 5, 7, 1000, 1545, 2, 16},
		{2, 5, 7, 1000, 1548, 2, 8},
	};
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct model_config c = {
			.num_hidden_layers = rows[i].layers, .num_key_value_heads = rows[i].kv_heads, .head_dim = rows[i].head_dim};
		struct ops ops = {.name = "cuda", .elem_bytes = (size_t)rows[i].elem_bytes}, cpu = {.host_memory = true};
		int k = engine_fused_steps(&ops, &c, rows[i].sequences, rows[i].context);
		if (k != rows[i].steps) fail_msg("row %zu: %d steps", i, k);
		cpu.elem_bytes = ops.elem_bytes;
		assert_int_equal(engine_fused_steps(&cpu, &c, 1, 1), 1);
		assert_int_equal(engine_fused_steps(NULL, &c, 1, 1), 1);
	}
}

/* What memory would hold and the device, or a count, does not. */
static void test_rows_and_pages(void **state)
{
	struct engine *e = NULL;
	struct err err = {0};
	struct engine_options o = {.max_sequences = 3, .max_context = 64, .prefill_rows = 20};
	rows_most = 23;
	assert_int_equal(engine_create(&the_model, &o, &e, &err), 0);
	engine_free(e);
	rows_most = 22;
	assert_int_equal(engine_create(&the_model, &o, &e, &err), ERR_LIMIT);
	if (strcmp(err.text, "engine: 23 rows of 3 sequences") != 0) fail_msg("%s", err.text);
	rows_most = INT32_MAX;
	device_free = (size_t)1 << 40;
	o = (struct engine_options){.max_sequences = 1, .max_context = 64, .kv_pages = KV_PAGES_MAX + 1};
	assert_int_equal(engine_create(&the_model, &o, &e, &err), ERR_LIMIT);
	assert_non_null(
		strstr(err.text, "engine: 67108864 KV pages for max_sequences 1 of max_context 64, at most 67108863"));
	device_free = (size_t)1 << 36;
}

/* Each size of an engine on both sides of its bounds. */
static void test_sizes(void **state)
{
	static const struct {
		struct engine_options o;
		int code;
		const char *says;
	} rows[] = {
		/* Rows, positions (which the model has fewer of than an engine), rows of prompts, pages. */
		{{.max_sequences = 0, .max_context = 2}, ERR_RANGE, "engine: max_sequences is 0, expected 1..65536"},
		{{.max_sequences = 65537, .max_context = 2}, ERR_RANGE, "engine: max_sequences is 65537, expected 1..65536"},
		{{.max_sequences = 1, .max_context = 1}, ERR_RANGE, "engine: max_context is 1, expected 2..4194304"},
		{{.max_sequences = 1, .max_context = 4194305}, ERR_RANGE,
			"engine: max_context is 4194305, expected 2..4194304"},
		{{.max_sequences = 1, .max_context = 4194304}, ERR_LIMIT,
			"engine: max_context is 4194304, but the model knows 1000 positions; lower max_context"},
		{{.max_sequences = 1, .max_context = 1001}, ERR_LIMIT, "the model knows 1000 positions"},
		{{.max_sequences = 1, .max_context = 1000}, 0, ""},
		{{.max_sequences = 1, .max_context = 2}, 0, ""},
		{{.max_sequences = 1, .max_context = 2, .prefill_rows = -1}, ERR_RANGE,
			"engine: prefill_rows is -1, expected 1..4194304"},
		{{.max_sequences = 1, .max_context = 2, .prefill_rows = 4194305}, ERR_RANGE,
			"engine: prefill_rows is 4194305, expected 1..4194304"},
		{{.max_sequences = 1, .max_context = 2, .prefill_rows = 1}, 0, ""},
		{{.max_sequences = 1, .max_context = 2, .kv_pages = -1}, ERR_RANGE,
			"engine: kv_pages is -1, expected at least 1"},
		{{.max_sequences = 1, .max_context = 2, .kv_pages = 1}, 0, ""},
	};
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct engine *e = NULL;
		struct err err = {0};
		int rc = engine_create(&the_model, &rows[i].o, &e, &err);
		if (rc != rows[i].code || !strstr(err.text, rows[i].says)) fail_msg("row %zu: code %d, %s", i, rc, err.text);
		if (!rc) engine_free(e);
	}
}

/* What an engine says it takes grows with the rows of prompts in a step: by the step's own memory
 * for each, and by a token, a position and a sequence. With the context by the lists of pages of
 * slots and of a step's sequences, and with the pages by what lies in each and its two counts. */
static void test_bytes(void **state)
{
	struct engine_options o = {
		.max_sequences = 4, .max_context = 128, .kv_pages = 16, .prefill_rows = 24, .fused_steps = 1};
	size_t before = engine_bytes(NULL, &the_model.c, &o);
	o.prefill_rows += 1000;
	assert_int_equal(engine_bytes(NULL, &the_model.c, &o) - before, 1000 * (100 + 3 * sizeof(int32_t)));
	before = engine_bytes(NULL, &the_model.c, &o);
	o.max_context += 10 * OPS_PAGE;
	assert_int_equal(engine_bytes(NULL, &the_model.c, &o) - before, 10 * sizeof(int32_t) * (SAMPLES_PER_ROW + 1) * 4);
	before = engine_bytes(NULL, &the_model.c, &o);
	o.kv_pages += 10;
	assert_int_equal(engine_bytes(NULL, &the_model.c, &o) - before, 10 * (OPS_PAGE * 4 + 2 * sizeof(int32_t)));
}

/* On a device the stages' own memory is planned too: an engine for which it is short by a byte is
 * refused with the sum. */
static void test_device_memory(void **state)
{
	struct ops ops = {.name = "cuda", .elem_bytes = 2};
	struct engine_options o = {
		.max_sequences = 4, .max_context = 128, .kv_pages = 16, .prefill_rows = 2044, .fused_steps = 1};
	struct engine *e = NULL;
	struct err err = {0};
	size_t needed = 16 * OPS_PAGE * 4 + 2048 * (100 + 1000), was = device_free;
	device = &ops;
	assert_int_equal(engine_device_bytes(&ops, &the_model.c, &o), 2048 * 1000);
	device_free = needed - 1;
	assert_int_equal(engine_create(&the_model, &o, &e, &err), ERR_LIMIT);
	assert_non_null(strstr(err.text, "+ 2 MiB of batches and scratch = 2 MiB, but device cuda gives at most 2 MiB"));
	device_free = needed;
	assert_int_equal(engine_create(&the_model, &o, &e, &err), 0);
	engine_free(e);
	device = NULL;
	device_free = was;
}

/* How a sample ended, as records have it. */
static void test_reason_names(void **state)
{
	assert_string_equal(finish_reason_name(FINISH_EOS), "eos");
	assert_string_equal(finish_reason_name(FINISH_STOP), "stop");
	assert_string_equal(finish_reason_name(FINISH_LENGTH), "length");
	assert_string_equal(finish_reason_name(FINISH_NAN), "nan");
}

int main(void)
{
	cmocka_set_message_output(CM_OUTPUT_TAP);
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_reason_names),
		cmocka_unit_test(test_refusals),
		cmocka_unit_test(test_completion_check),
		cmocka_unit_test(test_fused_steps),
		cmocka_unit_test(test_rows_and_pages),
		cmocka_unit_test(test_sizes),
		cmocka_unit_test(test_bytes),
		cmocka_unit_test(test_device_memory),
	};
	return cmocka_run_group_tests(tests, tokens_make, scratch_release);
}
