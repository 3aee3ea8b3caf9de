/* The scheduler over a model that is a hash: logits are a function of all tokens of the sequence,
 * read back through the page lists the engine built, so a wrong page, position or copy changes the
 * answer. Every sequence is compared with one generated alone. This file defines the model's
 * functions itself; the real ones stay out of the link. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <cmocka.h>
#include "../leaks.h"
#include "infer/infer_internal.h"
#include "ops/cpu/ops_cpu.h"
#include "../ops/sample_token.h"

enum { V = 97 };

/* ---- the model ---- */

struct model {
	struct model_config c;
};
struct kv {
	int32_t *tokens;
	int pages;
};
struct step {
	float logits[64 * V];
	struct step_options o;
};
struct adapter {
	uint64_t salt;
};

static struct model the_model = {
	.c =
		{
			.vocab_size = V,
			.hidden_size = 8,
			.num_attention_heads = 1,
			.num_key_value_heads = 1,
			.head_dim = 8,
			.intermediate_size = 8,
			.max_position_embeddings = 1000,
			.eos_token_id = 5,
			.neos_extra = 1,
			.eos_extra = {7},
		},
};
static int steps_run, rows_run, wanted_run, copies_made, calls_made, goes_run;

const struct model_config *model_config(const struct model *m) { return &m->c; }
int64_t model_config_params(const struct model_config *c) { return 1000; }
void model_prepare(struct model *m) {}
/* A device that the model lies on, as far as sizes go; NULL: the CPU. */
static struct ops *device;
static size_t device_free = (size_t)1 << 36;
struct ops *model_ops(const struct model *m) { return device; }
size_t model_memory(const struct model *m) { return device_free; }
size_t plan_device_bytes(const struct ops *ops, const struct model_config *c, const struct device_plan *d)
{
	return ops ? (size_t)d->step.rows * 1000 : 0;
}
size_t kv_bytes(const struct ops *ops, const struct model_config *c, int pages) { return (size_t)pages * OPS_PAGE * 4; }
size_t step_bytes(const struct ops *ops, const struct model_config *c, const struct step_options *o)
{
	return (size_t)o->rows * 100;
}
struct kv *kv_create(struct model *m, int pages)
{
	struct kv *kv = xcalloc(1, sizeof *kv);
	kv->tokens = xcalloc((size_t)pages * OPS_PAGE, 4);
	kv->pages = pages;
	return kv;
}
void kv_free(struct kv *kv)
{
	if (kv) free(kv->tokens);
	free(kv);
}
void kv_copy_pages(struct kv *kv, const int32_t *dst, const int32_t *src, int n)
{
	for (int i = 0; i < n; i++) {
		assert_true(dst[i] >= 0 && dst[i] < kv->pages && src[i] >= 0 && src[i] < kv->pages);
		for (int k = 0; k < n; k++) assert_true(dst[i] != src[k] && (i == k || dst[i] != dst[k]));
		memcpy(kv->tokens + dst[i] * OPS_PAGE, kv->tokens + src[i] * OPS_PAGE, OPS_PAGE * 4);
	}
	copies_made += n;
	calls_made += n > 0;
}
struct step *step_create(struct model *m, const struct step_options *o)
{
	struct step *s = xcalloc(1, sizeof *s);
	s->o = *o;
	return s;
}
void step_free(struct step *s) { free(s); }
void step_wait(struct step *s) {}

static uint64_t mix(uint64_t h, uint64_t x)
{
	h = (h ^ x) * 0x9E3779B97F4A7C15u;
	return h ^ h >> 29;
}
static void hash_logits(uint64_t h, float *logits)
{
	for (int i = 0; i < V; i++) logits[i] = 3 * rng_normal(h, 0, (uint64_t)i);
}

static struct arena scratch;

static int32_t draw(const float *logits, const struct ops_draw *d, float *logprob)
{
	return sample_token(logits, V, d, rng_uniform(d->seed, d->stream, d->index), logprob, &scratch);
}

const struct f32 *step_run(struct step *s, struct kv *kv, struct adapter *a, const struct ops_rows *r,
	const struct ops_want *want, int32_t *drawn, float *logprob)
{
	assert_true(r->T >= 1 && r->T <= s->o.rows && r->S >= 1 && r->S <= s->o.sequences && r->pages == s->o.pages);
	assert_true(want->n <= s->o.wanted);
	/* Tokens are written where the page lists say, as keys and values would be. */
	for (int t = 0; t < r->T; t++) {
		assert_true(r->sequence[t] < r->S && r->sequence[t] >= (t ? r->sequence[t - 1] : 0));
		const int32_t *pages = r->table + r->sequence[t] * r->pages;
		kv->tokens[pages[r->pos[t] / OPS_PAGE] * OPS_PAGE + r->pos[t] % OPS_PAGE] = r->ids[t];
	}
	/* Logits are a hash of what lies there, read back position by position. */
	for (int i = 0; i < want->n; i++) {
		int t = want->at[i];
		const int32_t *pages = r->table + r->sequence[t] * r->pages;
		uint64_t h = a ? a->salt : 0;
		for (int p = 0; p <= r->pos[t]; p++)
			h = mix(h, (uint64_t)kv->tokens[pages[p / OPS_PAGE] * OPS_PAGE + p % OPS_PAGE]);
		hash_logits(h, s->logits + i * V);
	}
	/* Draws come from their rows in order. */
	assert_true(want->draws <= s->o.draws);
	for (int i = 0; i < want->draws; i++) {
		assert_true(want->from[i] >= (i ? want->from[i - 1] : 0) && want->from[i] < want->n);
		drawn[i] = draw(s->logits + want->from[i] * V, &want->draw[i], &logprob[i]);
	}
	steps_run++;
	wanted_run += want->n;
	rows_run += r->T;
	return (const struct f32 *)s->logits;
}

/* k steps by ops.h's rules: a row that has drawn its last token stays where it is and draws -1. */
void step_run_many(struct step *s, struct kv *kv, struct adapter *a, const struct ops_rows *r,
	const struct ops_want *want, int k, int32_t *drawn, float *logprob)
{
	int32_t ids[64], pos[64], left[64], from[64];
	struct ops_draw draws[64];
	struct ops_rows rows = *r;
	struct ops_want single = {.n = want->n, .at = want->at, .draw = draws, .from = from, .draws = want->n};
	assert_true(k >= 2 && k <= s->o.steps && want->n == r->T && !want->from && want->nstop <= OPS_STOPS_MAX);
	/* Copies of what moves on from step to step; every row draws from its own logits. */
	memcpy(ids, r->ids, (size_t)r->T * sizeof *ids);
	memcpy(pos, r->pos, (size_t)r->T * sizeof *pos);
	memcpy(left, want->left, (size_t)r->T * sizeof *left);
	memcpy(draws, want->draw, (size_t)r->T * sizeof *draws);
	for (int t = 0; t < r->T; t++) from[t] = t;
	rows.ids = ids, rows.pos = pos;
	for (int i = 0; i < k; i++) {
		int32_t *out = drawn + i * r->T;
		step_run(s, kv, a, &rows, &single, out, logprob + i * r->T);
		for (int t = 0; t < r->T; t++) {
			bool was_over = left[t] == 0;
			left[t] -= !was_over;
			for (int j = 0; j < want->nstop; j++) left[t] = out[t] == want->stop[j] ? 0 : left[t];
			if (was_over) out[t] = -1;
			else if (left[t]) ids[t] = out[t], pos[t]++, draws[t].index++;
		}
	}
	goes_run++;
}

/* ---- one sequence alone ---- */

static bool stops_on_11_twice(void *ctx, int64_t id, int sample, const int32_t *tokens, int count)
{
	int seen = 0;
	for (int i = 0; i < count; i++) seen += tokens[i] == 11;
	return seen == 2;
}

static void check_alone(const struct request *r, const struct completion *c)
{
	int32_t tokens[512];
	uint64_t h = r->adapter ? r->adapter->salt : 0;
	float logits[V], recorded;
	for (int i = 0; i < r->nprompt; i++) h = mix(h, (uint64_t)r->prompt[i]);
	int count = 0;
	enum finish_reason finish = FINISH_LENGTH;
	/* Generated here without engine, pages or batch: token by token from the hash of all before. */
	while (count < r->max_new_tokens) {
		hash_logits(h, logits);
		const struct sampling *g = &r->sampling;
		struct ops_draw d = {
			g->temperature, g->top_k, g->top_p, g->min_p, g->seed, (uint64_t)c->sample, (uint64_t)(r->nprompt + count)};
		int32_t id = draw(logits, &d, &recorded);
		assert_true(count < c->count);
		assert_int_equal(c->tokens[count], id);
		assert_true(fabsf(c->logprobs[count] - recorded) < 1e-5f);
		tokens[count++] = id;
		h = mix(h, (uint64_t)id);
		/* Ends as a request ends: an eos id, a stop id, the caller's own
		 * condition, or its length. */
		bool stop = false;
		for (int i = 0; i < r->nstop; i++) stop = stop || id == r->stop_ids[i];
		if (id == 5 || id == 7) {
			finish = FINISH_EOS;
			break;
		}
		if (stop || (r->should_stop && r->should_stop(NULL, 0, 0, tokens, count))) {
			finish = FINISH_STOP;
			break;
		}
	}
	assert_int_equal(c->count, count);
	assert_int_equal(c->finish, finish);
}

/* Requests of all kinds from a seed. */
static struct adapter adapters[2] = {{1}, {2}};
static int32_t prompt_tokens[400];
static const int32_t stop_ids[2] = {20, 30};

static struct request make_request(uint64_t seed, int i, int max_context)
{
	struct rng g = {seed, 3, (uint64_t)i << 20};
	/* Prompts around the edges of pages, all kinds of sampling, stops and adapters: a function of
	 * (seed, i). */
	static const int lengths[] = {1, 2, 31, 32, 33, 34, 64, 65, 90};
	int nprompt = lengths[rng_below(&g, ARRAY_LEN(lengths))], wanted = 1 + (int)rng_below(&g, 70);
	struct request r = {
		.id = i,
		.prompt = prompt_tokens + rng_below(&g, 200),
		.nprompt = nprompt,
		.num_samples = 1 + (int)rng_below(&g, 6),
		.first_sample = (int)rng_below(&g, 3),
		.sampling =
			{
				.temperature = rng_below(&g, 4) ? 1.0f : 0.0f,
				.top_k = rng_below(&g, 3) ? 0 : 10,
				.top_p = rng_below(&g, 3) ? 1 : 0.9f,
				.min_p = i % 4 ? 0 : 0.1f,
				.seed = rng_next(&g),
			},
		.max_new_tokens = MIN(wanted, max_context - nprompt),
	};
	if (rng_below(&g, 3) == 0) r.stop_ids = stop_ids, r.nstop = 2;
	if (rng_below(&g, 3) == 0) r.should_stop = stops_on_11_twice;
	uint32_t which = rng_below(&g, 3);
	r.adapter = which ? &adapters[which - 1] : NULL;
	return r;
}

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
	while (active) engine_step(e, &active);
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
 * for each, and by a token, a position and a sequence. */
static void test_bytes_of_rows(void **state)
{
	struct engine_options o = {
		.max_sequences = 4, .max_context = 128, .kv_pages = 16, .prefill_rows = 24, .fused_steps = 1};
	size_t before = engine_bytes(NULL, &the_model.c, &o);
	o.prefill_rows += 1000;
	assert_int_equal(engine_bytes(NULL, &the_model.c, &o) - before, 1000 * (100 + 3 * sizeof(int32_t)));
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

static int setup(void **state)
{
	for (int i = 0; i < 400; i++) prompt_tokens[i] = (int32_t)(rng_u32(8, 0, (uint64_t)i) % V);
	return 0;
}
static int teardown(void **state)
{
	arena_release(&scratch);
	return 0;
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
		cmocka_unit_test(test_mix),
		cmocka_unit_test(test_reason_names),
		cmocka_unit_test(test_fused),
		cmocka_unit_test(test_few_pages),
		cmocka_unit_test(test_sharing_saves_prefill),
		cmocka_unit_test(test_equal_prefixes_once),
		cmocka_unit_test(test_samples_of_one_row_differ),
		cmocka_unit_test(test_cancel),
		cmocka_unit_test(test_refusals),
		cmocka_unit_test(test_latecomers_run_at_once),
		cmocka_unit_test(test_completion_check),
		cmocka_unit_test(test_fused_steps),
		cmocka_unit_test(test_sizes),
		cmocka_unit_test(test_bytes_of_rows),
		cmocka_unit_test(test_device_memory),
		cmocka_unit_test(test_leaves_nothing),
	};
	return cmocka_run_group_tests(tests, setup, teardown);
}
