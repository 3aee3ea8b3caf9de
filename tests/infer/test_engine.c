/* The scheduler over a model that is a hash (hash_model.h): every sequence is compared with one
 * generated alone. */
#include "hash_model.h"
#include "../leaks.h"

/* plain: nothing is asked of the caller between tokens, and there is one adapter. */
static void run_kinds(struct engine_options o, uint64_t seed, int count, bool is_plain)
{
	struct engine *e;
	struct err err = {0};
	if (engine_create(&the_model, &o, &e, &err)) fail_msg("%s", err.text);
	struct request requests[64];
	int expected = 0, taken = 0, active = 1, next = 0;
	bool seen[64][16] = {{false}};
	while (active || next < count) {
		for (int burst = 0; burst < 3 && next < count; burst++, next++) { /* they keep coming while others run */
			requests[next] = make_request(seed, next, o.max_context);
			if (is_plain) {
				requests[next].should_stop = NULL;
				requests[next].adapter = &adapters[0];
				requests[next].stop_ids = stop_ids, requests[next].nstop = 2;
			}
			if (engine_submit(e, &requests[next], &err)) fail_msg("%s", err.text);
			expected += requests[next].num_samples;
		}
		engine_step(e, &active);
		/* Each sample comes once and is what it would be alone. */
		for (struct completion c; engine_take(e, &c);) {
			const struct request *r = &requests[c.id];
			assert_true(
				c.sample >= r->first_sample && c.sample < r->first_sample + r->num_samples && !seen[c.id][c.sample]);
			seen[c.id][c.sample] = true;
			check_alone(r, &c);
			completion_release(&c);
			taken++;
		}
	}
	assert_int_equal(taken, expected);
	engine_free(e);
}

static void run_mix(struct engine_options o, uint64_t seed, int count) { run_kinds(o, seed, count, false); }

/* Several steps in one go, and requests of all kinds between: every sample is
 * what it would be alone. */
static void test_fused(void **state)
{
	struct engine_options o = {.max_sequences = 4, .max_context = 128, .prefill_rows = 16, .fused_steps = 8};
	goes_run = steps_run = 0;
	run_kinds(o, 11, 40, true);
	assert_true(goes_run > 20 && steps_run > 2 * goes_run);
	o.fused_steps = 16;
	o.kv_pages = 9; /* pages are promised, and taken ahead of the steps that need them */
	run_kinds(o, 12, 40, true);
	goes_run = 0;
	run_mix(o, 13, 40);
	o.fused_steps = 1;
	goes_run = 0;
	run_kinds(o, 11, 10, true);
	assert_int_equal(goes_run, 0);
}

/* Steps go together for as many ends as a backend knows, the model's two included; with one more
 * each goes by itself, and the tokens are the same. */
static void test_many_stops(void **state)
{
	enum { MOST = OPS_STOPS_MAX - 2 };
	int32_t stops[MOST + 1];
	for (int i = 0; i <= MOST; i++) stops[i] = 40 + i;
	for (int n = MOST - 1; n <= MOST + 1; n++) {
		struct engine *e;
		struct err err = {0};
		struct engine_options o = {.max_sequences = 4, .max_context = 128, .fused_steps = 8};
		assert_int_equal(engine_create(&the_model, &o, &e, &err), 0);
		struct request r = {.prompt = prompt_tokens,
			.nprompt = 20,
			.num_samples = 4,
			.sampling = {.temperature = 1, .top_p = 1, .seed = 12},
			.max_new_tokens = 100,
			.stop_ids = stops,
			.nstop = n};
		int active = 1, taken = 0;
		goes_run = 0;
		assert_int_equal(engine_submit(e, &r, &err), 0);
		while (active) engine_step(e, &active);
		/* The tokens, and whether any steps went together. */
		for (struct completion c; engine_take(e, &c); taken++) {
			check_alone(&r, &c);
			completion_release(&c);
		}
		assert_int_equal(taken, 4);
		assert_true(n <= MOST ? goes_run > 0 : goes_run == 0);
		engine_free(e);
	}
}

static void test_mix(void **state)
{
	copies_made = 0;
	run_mix((struct engine_options){.max_sequences = 4, .max_context = 128, .prefill_rows = 16}, 1, 40);
	run_mix((struct engine_options){.max_sequences = 7, .max_context = 160}, 2, 40);
	run_mix((struct engine_options){.max_sequences = 1, .max_context = 128, .prefill_rows = 1}, 3, 8);
	assert_true(copies_made > 20 && calls_made < copies_made); /* the forks of a step are one call */
}

/* Five pages hold one long sequence and its prompt's partial page: almost everything has to wait
 * its turn. */
static void test_few_pages(void **state)
{
	run_mix((struct engine_options){.max_sequences = 6, .max_context = 128, .kv_pages = 5, .prefill_rows = 40}, 4, 30);
}

static void test_sharing_saves_prefill(void **state)
{
	struct engine *e;
	struct err err = {0};
	struct engine_options o = {.max_sequences = 8, .max_context = 400};
	assert_int_equal(engine_create(&the_model, &o, &e, &err), 0);
	struct request r = {.prompt = prompt_tokens,
		.nprompt = 300,
		.num_samples = 8,
		.sampling = {.temperature = 1, .top_p = 1, .seed = 3},
		.max_new_tokens = 1};
	rows_run = 0;
	assert_int_equal(engine_submit(e, &r, &err), 0);
	int active = 1;
	while (active) engine_step(e, &active);
	assert_int_equal(rows_run, 299 + 1);
	engine_free(e); /* with completions that nobody took */
}

/* Prefixes that differ, counted from the texts: what one row each comes to. Prefix lengths 0 to
 * count - 1 of every completion were run; two that are equal, once. */
static int distinct_prefixes(const struct completion *c, int n)
{
	int distinct = 0;
	for (int i = 0; i < n; i++)
		for (int len = 0; len < c[i].count; len++) {
			bool seen = false;
			for (int k = 0; k < i && !seen; k++)
				seen = c[k].count > len && !memcmp(c[k].tokens, c[i].tokens, (size_t)len * sizeof *c[i].tokens);
			distinct += !seen;
		}
	return distinct;
}

/* Rows of decode are the distinct prefixes, from all equal (greedy) to hardly any; every sample is
 * what it is alone; a prompt of whole pages, of one token, and one that ends inside a page. With
 * rows apart there is one for every token but the first. */
static void test_equal_prefixes_once(void **state)
{
	enum { SAMPLES = 24 };
	static const int lengths[] = {1, 33, 64, 90};
	static const float temperatures[] = {0, 0.05f, 0.15f, 0.3f, 1};
	for (size_t kind = 0; kind < ARRAY_LEN(lengths) * ARRAY_LEN(temperatures) * 2; kind++) {
		struct engine *e;
		struct err err = {0};
		/* Every second kind keeps rows apart. */
		struct engine_options o = {.max_sequences = 8, .max_context = 256, .kv_pages = 200, .rows_apart = kind & 1};
		assert_int_equal(engine_create(&the_model, &o, &e, &err), 0);
		struct request r = {.prompt = prompt_tokens,
			.nprompt = lengths[kind / 2 % ARRAY_LEN(lengths)],
			.num_samples = SAMPLES,
			.first_sample = 3,
			.sampling = {.temperature = temperatures[kind / 2 / ARRAY_LEN(lengths)], .top_p = 1, .seed = 5 + kind / 2},
			.max_new_tokens = 70};
		struct completion done[SAMPLES] = {{0}};
		int tokens = 0, active = 1;
		wanted_run = 0;
		if (engine_submit(e, &r, &err)) fail_msg("%s", err.text);
		/* Every sample is checked alone, and kept to count prefixes. */
		while (active) engine_step(e, &active);
		for (struct completion c; engine_take(e, &c); tokens += c.count) {
			check_alone(&r, &c);
			done[c.sample - 3] = c;
		}
		/* As many rows ran as there are distinct prefixes, and nothing is held in the end. */
		int distinct = distinct_prefixes(done, SAMPLES);
		if (temperatures[kind / 2 / ARRAY_LEN(lengths)] == 0) assert_int_equal(distinct, done[0].count);
		assert_int_equal(wanted_run, kind & 1 ? tokens - SAMPLES + 1 : distinct);
		assert_int_equal(engine_tokens_generated(e), tokens);
		assert_int_equal(e->run, wanted_run);
		assert_int_equal(e->nfree, 200);
		assert_int_equal(e->promised + e->members + e->nrunning, 0);
		for (int i = 0; i < SAMPLES; i++) completion_release(&done[i]);
		engine_free(e);
	}
}

/* A callback that treats samples differently: equal tokens so far, another
 * temperature, another end. */
static float temperature_by_sample(void *ctx, int64_t id, int sample, const int32_t *tokens, int count)
{
	return count < 6 ? 0 : 0.2f * (float)(sample + 1);
}
static bool stops_by_sample(void *ctx, int64_t id, int sample, const int32_t *tokens, int count)
{
	return count == 4 + 2 * sample;
}
static void test_samples_of_one_row_differ(void **state)
{
	struct engine *e;
	struct err err = {0};
	struct engine_options o = {.max_sequences = 3, .max_context = 128};
	assert_int_equal(engine_create(&the_model, &o, &e, &err), 0);
	/* Six samples of one prompt, each with a temperature and an end of its own. */
	struct request r = {.prompt = prompt_tokens,
		.nprompt = 40,
		.num_samples = 6,
		.sampling = {.top_p = 1, .seed = 2},
		.max_new_tokens = 60,
		.should_stop = stops_by_sample,
		.temperature_at = temperature_by_sample};
	assert_int_equal(engine_submit(e, &r, &err), 0);
	int active = 1, taken = 0;
	/* One batch a step: rows that part have had their token. */
	for (int before = steps_run; active; before = steps_run) {
		engine_step(e, &active);
		assert_true(steps_run <= before + 1);
	}
	for (struct completion c; engine_take(e, &c); taken++) {
		assert_true(c.finish == FINISH_EOS || c.count == 4 + 2 * c.sample);
		for (int k = 0; k < c.count; k++)
			assert_true(c.temperatures[k] == temperature_by_sample(NULL, 0, c.sample, NULL, k));
		/* The same tokens as if each had run by itself. */
		uint64_t h = 0;
		for (int i = 0; i < r.nprompt; i++) h = mix(h, (uint64_t)r.prompt[i]);
		for (int k = 0; k < c.count; k++) { /* drawn as it would be alone */
			float logits[V], ignored;
			hash_logits(h, logits);
			struct ops_draw d = {.temperature = c.temperatures[k],
				.top_p = 1,
				.seed = 2,
				.stream = (uint64_t)c.sample,
				.index = (uint64_t)(r.nprompt + k)};
			assert_int_equal(c.tokens[k], draw(logits, &d, &ignored));
			h = mix(h, (uint64_t)c.tokens[k]);
		}
		completion_release(&c);
	}
	assert_int_equal(taken, 6);
	engine_free(e);
}

/* Requests are cancelled at any time: while they wait, prefill or run, with and without shared
 * pages. The others are what they are alone, and in the end every page is free again. */
static void test_cancel(void **state)
{
	struct engine *e;
	struct err err = {0};
	struct request requests[60];
	bool cancelled[60] = {false};
	struct engine_options o = {.max_sequences = 5, .max_context = 128, .kv_pages = 14, .prefill_rows = 16};
	assert_int_equal(engine_create(&the_model, &o, &e, &err), 0);
	int active = 1, next = 0, expected = 0, ended = 0, taken = 0;
	/* Requests keep coming while some of them are ended. */
	for (int step = 0; active || next < 60; step++) {
		for (int burst = 0; burst < 2 && next < 60; burst++, next++) {
			requests[next] = make_request(6, next, o.max_context);
			if (engine_submit(e, &requests[next], &err)) fail_msg("%s", err.text);
			expected += requests[next].num_samples;
		}
		if (step % 3 == 1) {
			int id = (int)(rng_u32(7, 0, (uint64_t)step) % (uint32_t)next), n = engine_cancel(e, id);
			cancelled[id] |= n > 0;
			ended += n;
			assert_int_equal(engine_cancel(e, id), 0); /* there is nothing left of it */
		}
		engine_step(e, &active);
		for (struct completion c; engine_take(e, &c); taken++) {
			check_alone(&requests[c.id], &c);
			completion_release(&c);
		}
	}
	/* Enough were cancelled, the others all came, and nothing is held. */
	int many = 0;
	for (int i = 0; i < 60; i++) many += cancelled[i];
	assert_true(many > 10);
	assert_int_equal(taken + ended, expected);
	assert_int_equal(engine_cancel(e, 1000), 0);
	assert_int_equal(e->nfree, 14);
	assert_int_equal(e->promised, 0);
	assert_null(e->queue);
	engine_free(e);
}

/* A group of which some samples run and some wait holds its prompt's pages: they are free when it
 * is cancelled, before it began, while the prompt is computed and behind it. */
static void test_cancel_of_samples_that_wait(void **state)
{
	for (int steps = 0; steps < 6; steps++) {
		struct engine *e;
		struct err err = {0};
		struct engine_options o = {.max_sequences = 3, .max_context = 128, .kv_pages = 20, .prefill_rows = 32};
		if (engine_create(&the_model, &o, &e, &err)) fail_msg("%s", err.text);
		struct request r = {.id = 7,
			.prompt = prompt_tokens,
			.nprompt = 80,
			.num_samples = 4 * e->nslots,
			.sampling = {.temperature = 1, .top_p = 1, .seed = 3},
			.max_new_tokens = 40};
		if (engine_submit(e, &r, &err)) fail_msg("%s", err.text);
		int active = 1, over = 0;
		for (int i = 0; i < steps; i++) engine_step(e, &active);
		assert_non_null(e->queue);
		assert_true(!steps == !e->queue->started);
		for (struct completion c; engine_take(e, &c); over++) completion_release(&c);
		/* All that is not over ends, and nothing is held. */
		assert_int_equal(engine_cancel(e, 7), r.num_samples - over);
		assert_int_equal(e->nfree, 20);
		assert_int_equal(e->promised, 0);
		assert_null(e->queue);
		engine_free(e);
	}
}

/* Samples that had no room at first run in the very step in which they get it: the prompt
 * is there. Six slots for twice as many samples of one token each take two steps, and no
 * row of the prompt again. */
static void test_latecomers_run_at_once(void **state)
{
	struct engine *e;
	struct err err = {0};
	struct engine_options o = {.max_sequences = 6, .max_context = 128};
	if (engine_create(&the_model, &o, &e, &err)) fail_msg("%s", err.text);
	struct request r = {.prompt = prompt_tokens,
		.nprompt = 20,
		.num_samples = 2 * e->nslots,
		.sampling = {.temperature = 1, .top_p = 1, .seed = 3},
		.max_new_tokens = 1};
	rows_run = 0;
	if (engine_submit(e, &r, &err)) fail_msg("%s", err.text);
	int active = 1, steps = 0;
	for (; active; steps++) engine_step(e, &active);
	assert_int_equal(steps, 2);
	assert_int_equal(rows_run, 20 + 1);
	engine_free(e);
}

/* An engine that is freed at any moment: with requests that wait, that run and that nobody took. */
static void use_engine(void *steps)
{
	struct engine *e;
	struct err err = {0};
	int active = 1;
	if (engine_create(&the_model, &(struct engine_options){.max_sequences = 3, .max_context = 128}, &e, &err))
		fail_msg("%s", err.text);
	for (int i = 0; i < 6; i++) {
		struct request r = make_request(9, i, 128);
		if (engine_submit(e, &r, &err)) fail_msg("%s", err.text);
	}
	for (int i = 0; i < *(int *)steps && active; i++) engine_step(e, &active);
	engine_free(e);
}

static void test_leaves_nothing(void **state)
{
	for (int steps = 0; steps < 300; steps = 3 * steps + 1) leaves_nothing(use_engine, &steps);
}

int main(void)
{
	cmocka_set_message_output(CM_OUTPUT_TAP);
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_mix),
		cmocka_unit_test(test_fused),
		cmocka_unit_test(test_many_stops),
		cmocka_unit_test(test_few_pages),
		cmocka_unit_test(test_sharing_saves_prefill),
		cmocka_unit_test(test_equal_prefixes_once),
		cmocka_unit_test(test_samples_of_one_row_differ),
		cmocka_unit_test(test_cancel),
		cmocka_unit_test(test_cancel_of_samples_that_wait),
		cmocka_unit_test(test_latecomers_run_at_once),
		cmocka_unit_test(test_leaves_nothing),
	};
	return cmocka_run_group_tests(tests, tokens_make, scratch_release);
}
