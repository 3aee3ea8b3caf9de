/* A model for tests that is a hash: logits are a function of all tokens of the sequence, read back
 * through the page lists the engine built, so a wrong page, position or copy changes the answer.
 * This file defines the model's functions itself; the real ones stay out of the link. Requests of
 * all kinds, and what a sequence is that is generated alone. */
#ifndef HONE_TESTS_HASH_MODEL_H
#define HONE_TESTS_HASH_MODEL_H
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <cmocka.h>
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
static int rows_most = INT32_MAX; /* of a step, that the device takes */
int plan_rows_check(const struct ops *ops, const struct model_config *c, const struct device_plan *d, struct err *err)
{
	if (d->step.rows <= rows_most) return 0;
	return err_set(err, ERR_LIMIT, "%d rows of %d sequences", d->step.rows, d->step.sequences);
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

static inline void check_alone(const struct request *r, const struct completion *c)
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

static inline struct request make_request(uint64_t seed, int i, int max_context)
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

static inline int tokens_make(void **state)
{
	for (int i = 0; i < 400; i++) prompt_tokens[i] = (int32_t)(rng_u32(8, 0, (uint64_t)i) % V);
	return 0;
}

static inline int scratch_release(void **state)
{
	arena_release(&scratch);
	return 0;
}
#endif
