/* Stages that are more than a row of the small operations: drawing moves the batch one token on, so
 * that several steps may stand in one region; a batch keeps its own copy; temperatures differ from
 * row to row; pages are copied in all planes. The other stages are held by tests/rl/test_bits.c. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <cmocka.h>
#include "ops/cpu/ops_cpu.h"
#include "sample_token.h"
#include "../leaks.h"

enum { V = 300, ROWS = 4, PAGES = 3, STEPS = 5 };

static struct ops *make_ops(void)
{
	struct ops *o;
	struct err err = {0};
	assert_int_equal(ops_cpu_create(&(struct ops_options){.threads = 2}, &o, &err), 0);
	return o;
}

static const struct ops_draw draws[ROWS] = {
	{.temperature = 0.8f, .top_p = 1, .seed = 1, .stream = 2, .index = 3},
	{.temperature = 0, .top_p = 1, .seed = 1, .stream = 3, .index = 9},
	{.temperature = 1.3f, .top_k = 7, .top_p = 0.9f, .seed = 4, .stream = 0, .index = 0},
	{.temperature = 1, .top_p = 1, .min_p = 0.2f, .seed = 5, .stream = 1, .index = 70},
};

/* Drawn five times in a row: the tokens are those of the next five indices, and the
 * batch's rows are then the last of them, at positions five further, also over a page's
 * end and behind the last. */
static void test_sample_moves_on(void **state)
{
	struct ops *o = make_ops();
	struct ops_batch *b = o->batch_create(o->ctx, ROWS + 1, ROWS, PAGES, ROWS, ROWS);
	int32_t ids[ROWS + 1] = {1, 2, 3, 4, 5}, pos[ROWS + 1] = {0, 29, 30, 5, 94}, sequence[ROWS + 1] = {0, 1, 2, 3, 3};
	int32_t table[ROWS * PAGES], at[ROWS] = {0, 1, 2, 4}, drawn[ROWS];
	float *x = xcalloc(ROWS * V, sizeof *x), logprob[ROWS];
	struct arena scratch = {0};
	for (int i = 0; i < ROWS * PAGES; i++) table[i] = 100 - i;
	for (int i = 0; i < ROWS * V; i++) x[i] = 2 * rng_normal(3, 1, (uint64_t)i);
	struct f32 *logits = o->alloc(o->ctx, ROWS * V * sizeof(float)), *out = o->alloc(o->ctx, sizeof logprob);
	struct i32 *tokens = o->alloc(o->ctx, sizeof drawn);
	/* One region's worth of data: rows, wanted rows, draws. */
	o->put_f32(o->ctx, logits, x, ROWS * V);
	o->batch_put(o->ctx, b, &(struct ops_rows){ROWS + 1, ROWS, ids, pos, sequence, table, PAGES, NULL});
	o->batch_want(o->ctx, b, &(struct ops_want){.n = ROWS, .at = at, .draw = draws});
	memset(at, -1, sizeof at); /* the caller's arrays are his again */
	/* Every draw against the reference at its own index. */
	for (int k = 0; k < STEPS; k++) {
		o->sample(o->ctx, tokens, out, logits, b, ROWS, V);
		o->get_i32(o->ctx, drawn, tokens, ROWS);
		o->get_f32(o->ctx, logprob, out, ROWS);
		for (int i = 0; i < ROWS; i++) {
			const struct ops_draw *d = &draws[i];
			float want, u = rng_uniform(d->seed, d->stream, d->index + (uint64_t)k);
			assert_int_equal(drawn[i], sample_token(x + i * V, V, d, u, &want, &scratch));
			assert_true(fabsf(logprob[i] - want) < 1e-5f);
		}
	}
	/* The batch stands where the last draw left it. */
	static const int rows[ROWS] = {0, 1, 2, 4};
	for (int i = 0; i < ROWS; i++) {
		int t = rows[i], now = pos[t] + STEPS, page = now / OPS_PAGE;
		assert_int_equal(b->ids[t], drawn[i]);
		assert_int_equal(b->pos[t], now);
		assert_int_equal(b->slot[t], page < PAGES ? table[sequence[t] * PAGES + page] * OPS_PAGE + now % OPS_PAGE : -1);
	}
	assert_int_equal(b->ids[3], 4); /* a row that nobody drew for stays */
	assert_int_equal(b->pos[3], 5);
	arena_release(&scratch);
	o->release(o->ctx, logits);
	o->release(o->ctx, out);
	o->release(o->ctx, tokens);
	o->batch_free(o->ctx, b);
	free(x);
	ops_free(o);
}

/* A row that may draw no more, by number or because it drew a token that ends it, draws -1
 * and stays where it is. */
static void test_rows_that_are_done(void **state)
{
	struct ops *o = make_ops();
	struct ops_batch *b = o->batch_create(o->ctx, ROWS, ROWS, 0, ROWS, ROWS);
	static const int32_t zeros[ROWS] = {0}, sequence[ROWS] = {0, 1, 2, 3}, left[ROWS] = {1, 4, 3, STEPS}, stop = 17;
	struct ops_draw greedy[ROWS];
	int32_t drawn[ROWS];
	float *x = xcalloc(ROWS * V, sizeof *x), logprob[ROWS];
	/* Row 1 draws the token that ends it, the others their own number, again and again. */
	for (int i = 0; i < ROWS; i++) {
		greedy[i] = (struct ops_draw){.temperature = 0, .top_p = 1};
		x[i * V + (i == 1 ? stop : i)] = 3;
	}
	struct f32 *logits = o->alloc(o->ctx, ROWS * V * sizeof(float)), *out = o->alloc(o->ctx, sizeof logprob);
	struct i32 *tokens = o->alloc(o->ctx, sizeof drawn);
	o->put_f32(o->ctx, logits, x, ROWS * V);
	o->batch_put(o->ctx, b, &(struct ops_rows){.T = ROWS, .S = ROWS, .ids = zeros, .pos = zeros, .sequence = sequence});
	o->batch_want(o->ctx, b,
		&(struct ops_want){.n = ROWS, .at = sequence, .draw = greedy, .left = left, .stop = &stop, .nstop = 1});
	for (int k = 0; k < STEPS; k++) {
		o->sample(o->ctx, tokens, out, logits, b, ROWS, V);
		o->get_i32(o->ctx, drawn, tokens, ROWS);
		o->get_f32(o->ctx, logprob, out, ROWS);
		for (int i = 0; i < ROWS; i++) {
			bool goes_on = k < (i == 1 ? 1 : left[i]);
			assert_int_equal(drawn[i], !goes_on ? -1 : i == 1 ? stop : i);
			assert_true(goes_on ? logprob[i] < 0 : logprob[i] == 0);
		}
	}
	/* The last token that is drawn is nobody's input. */
	for (int i = 0; i < ROWS; i++) assert_int_equal(b->pos[i], i == 1 ? 0 : left[i] - 1);
	o->release(o->ctx, logits);
	o->release(o->ctx, out);
	o->release(o->ctx, tokens);
	o->batch_free(o->ctx, b);
	free(x);
	ops_free(o);
}

/* Several draws from one row, none from another: each token and log-probability has the bits of a
 * draw that is the only one of its row, and the batch stays where it is. */
static void test_draws_share_rows(void **state)
{
	enum { DRAWS = 11, ROUNDS = 12 };
	struct ops *o = make_ops();
	struct ops_batch *b = o->batch_create(o->ctx, ROWS, ROWS, 0, ROWS, DRAWS),
					 *alone = o->batch_create(o->ctx, ROWS, ROWS, 0, ROWS, ROWS);
	static const int32_t ids[ROWS] = {1, 2, 3, 4}, zeros[ROWS] = {0}, sequence[ROWS] = {0, 1, 2, 3},
						 at[ROWS] = {0, 1, 2, 3};
	static const int32_t from[DRAWS] = {0, 0, 0, 0, 1, 3, 3, 3, 3, 3, 3};
	struct ops_draw several[DRAWS];
	int32_t drawn[DRAWS], one[ROWS];
	float *x = xcalloc(ROWS * V, sizeof *x), logprob[DRAWS], one_logprob[ROWS];
	bool differ = false;
	for (int i = 0; i < ROWS * V; i++) x[i] = 2 * rng_normal(3, 2, (uint64_t)i);
	/* Draws with streams of their own, alike in pairs; of the last row each is the one before but
	 * for one thing, the first two for none. */
	for (int i = 0; i < DRAWS; i++) {
		several[i] = i < 6 ? draws[i / 2 * 3 % ROWS] : several[i - 1];
		several[i].stream += (uint64_t)i;
	}
	several[7].top_k = 6;
	several[8].temperature = several[9].temperature = several[10].temperature = 3;
	several[8].top_k = several[9].top_k = several[10].top_k = 6;
	several[9].top_p = several[10].top_p = 0.5f;
	several[10].min_p = 0.7f;
	struct f32 *logits = o->alloc(o->ctx, ROWS * V * sizeof(float)), *out = o->alloc(o->ctx, sizeof logprob);
	struct i32 *tokens = o->alloc(o->ctx, sizeof drawn);
	const struct ops_rows rows = {.T = ROWS, .S = ROWS, .ids = ids, .pos = zeros, .sequence = sequence};
	o->put_f32(o->ctx, logits, x, ROWS * V);
	o->batch_put(o->ctx, b, &rows);
	for (int round = 0; round < ROUNDS; round++) {
		for (int i = 0; i < DRAWS; i++) several[i].index++;
		/* All at once, several from a row. */
		o->batch_want(
			o->ctx, b, &(struct ops_want){.n = ROWS, .at = at, .draw = several, .from = from, .draws = DRAWS});
		o->sample(o->ctx, tokens, out, logits, b, ROWS, V);
		o->get_i32(o->ctx, drawn, tokens, DRAWS);
		o->get_f32(o->ctx, logprob, out, DRAWS);
		for (int i = 0; i < ROWS; i++) assert_true(b->ids[i] == ids[i] && b->pos[i] == 0);
		for (int i = 0; i < DRAWS; i++) {
			struct ops_draw only[ROWS];
			/* The same draw as the only one of its row. */
			for (int k = 0; k < ROWS; k++) only[k] = several[i];
			o->batch_put(o->ctx, alone, &rows);
			o->batch_want(o->ctx, alone, &(struct ops_want){.n = ROWS, .at = at, .draw = only});
			o->sample(o->ctx, tokens, out, logits, alone, ROWS, V);
			o->get_i32(o->ctx, one, tokens, ROWS);
			o->get_f32(o->ctx, one_logprob, out, ROWS);
			assert_int_equal(drawn[i], one[from[i]]);
			assert_memory_equal(&logprob[i], &one_logprob[from[i]], sizeof *logprob);
			differ |= i && from[i] == from[i - 1] && drawn[i] != drawn[i - 1];
		}
	}
	assert_true(differ);
	o->release(o->ctx, logits);
	o->release(o->ctx, out);
	o->release(o->ctx, tokens);
	o->batch_free(o->ctx, b);
	o->batch_free(o->ctx, alone);
	free(x);
	ops_free(o);
}

/* Rows of several temperatures in one call have the bits that each has alone; the fourth figure
 * says whether the target is the largest. */
static void test_temperatures(void **state)
{
	struct ops *o = make_ops();
	const int32_t zeros[ROWS] = {0}, at[ROWS] = {0, 0, 0, 0};
	const float temperature[ROWS] = {0.5f, 0.5f, 1, 2};
	int32_t target[ROWS];
	float *x = xcalloc(ROWS * V, sizeof *x), all[ROWS][OPS_FIGURES], one[OPS_FIGURES];
	struct ops_batch *b = o->batch_create(o->ctx, 1, 1, 0, ROWS, ROWS);
	struct f32 *logits = o->alloc(o->ctx, ROWS * V * sizeof(float)), *out = o->alloc(o->ctx, sizeof all);
	for (int i = 0; i < ROWS * V; i++) x[i] = 2 * rng_normal(3, 2, (uint64_t)i);
	for (int i = 0; i < ROWS; i++) {
		target[i] = 11 * i;
		if (i % 2) x[i * V + target[i]] = 50;
	}
	/* All rows in one call, each divided by its temperature. */
	o->put_f32(o->ctx, logits, x, ROWS * V);
	o->batch_put(o->ctx, b, &(struct ops_rows){.T = 1, .S = 1, .ids = zeros, .pos = zeros, .sequence = zeros});
	o->batch_want(o->ctx, b, &(struct ops_want){.n = ROWS, .at = at, .target = target, .temperature = temperature});
	o->logprob(o->ctx, out, logits, b, 0, ROWS, V);
	o->get_f32(o->ctx, &all[0][0], out, ROWS * OPS_FIGURES);
	for (int i = 0; i < ROWS; i++) {
		/* Each alone, and against the formula. */
		double sum = 0;
		o->put_f32(o->ctx, logits, x + i * V, V);
		o->logprob(o->ctx, out, logits, b, i, 1, V); /* its figures lie first in out */
		o->get_f32(o->ctx, one, out, OPS_FIGURES);
		assert_memory_equal(one, all[i], sizeof one);
		for (int k = 0; k < V; k++) sum += exp((double)x[i * V + k] / temperature[i]);
		assert_true(fabs(all[i][0] - ((double)x[i * V + target[i]] / temperature[i] - log(sum))) < 1e-4);
		assert_true(all[i][3] == (i % 2));
	}
	o->release(o->ctx, logits);
	o->release(o->ctx, out);
	o->batch_free(o->ctx, b);
	free(x);
	ops_free(o);
}

static void test_pages_copy(void **state)
{
	enum { PLANES = 4, COUNT = 6, PAGE = 10, PLANE = COUNT * PAGE + 3 };
	struct ops *o = make_ops();
	float got[PLANES * PLANE], want[PLANES * PLANE];
	const int32_t dst[2] = {5, 0}, src[2] = {2, 3};
	struct f32 *kv = o->alloc(o->ctx, sizeof got);
	for (int i = 0; i < PLANES * PLANE; i++) want[i] = (float)i;
	o->put_f32(o->ctx, kv, want, PLANES * PLANE);
	o->pages_copy(o->ctx, (struct elem *)kv, PLANES, PLANE, PAGE, dst, src, 2);
	for (int p = 0; p < PLANES; p++)
		for (int i = 0; i < 2; i++)
			for (int k = 0; k < PAGE; k++) want[p * PLANE + dst[i] * PAGE + k] = want[p * PLANE + src[i] * PAGE + k];
	o->get_elem(o->ctx, got, (struct elem *)kv, PLANES * PLANE);
	assert_memory_equal(got, want, sizeof got);
	o->release(o->ctx, kv);
	ops_free(o);
}

/* None of the above leaves memory behind, what the device held included. */
static void everything(void *ctx)
{
	test_sample_moves_on(NULL);
	test_rows_that_are_done(NULL);
	test_draws_share_rows(NULL);
	test_temperatures(NULL);
	test_pages_copy(NULL);
}

static void test_leaves_nothing(void **state) { leaves_nothing(everything, NULL); }

int main(void)
{
	cmocka_set_message_output(CM_OUTPUT_TAP);
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_sample_moves_on),
		cmocka_unit_test(test_rows_that_are_done),
		cmocka_unit_test(test_draws_share_rows),
		cmocka_unit_test(test_temperatures),
		cmocka_unit_test(test_pages_copy),
		cmocka_unit_test(test_leaves_nothing),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
