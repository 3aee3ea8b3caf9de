/* A generation step: rows of many sequences, each one token further (or a whole prompt at once),
 * over keys and values kept in pages. The blocks are walk_block's; the stage of the heads stores
 * this step's keys and values, and attention then reads pages. */
#include "model/model_internal.h"
#include "base/base.h"
#include "ops/ops.h"

#include <stdlib.h>

/* ---- pages: (layers, 2, pages, OPS_PAGE * NKV * HD); how a page is arranged inside is the
 * backend's business ---- */

struct kv {
	struct model *model;
	int pages;
	struct elem *block;
	uint64_t serial;
};

static int64_t page_elements(const struct model_config *c)
{
	return (int64_t)OPS_PAGE * c->num_key_value_heads * c->head_dim;
}

size_t kv_bytes(const struct ops *ops, const struct model_config *c, int pages)
{
	/* Asked about more than any memory has, a plan says so. */
	size_t page = (size_t)page_elements(c) * elem_bytes_of(ops) * 2 * (size_t)c->num_hidden_layers, bytes;
	return __builtin_mul_overflow(page, (size_t)pages, &bytes) ? SIZE_MAX / 4 : MIN(bytes, SIZE_MAX / 4);
}

struct kv *kv_create(struct model *m, int pages)
{
	CHECK(pages > 0 && pages <= KV_PAGES_MAX);
	struct kv *kv = xcalloc(1, sizeof *kv);
	*kv = (struct kv){.model = m,
		.pages = pages,
		.block = m->ops->alloc(m->ops->ctx, kv_bytes(m->ops, &m->config, pages)),
		.serial = ++m->serial_last};
	model_ensure_rope(m, MIN(pages * OPS_PAGE, m->config.max_position_embeddings));
	return kv;
}

void kv_free(struct kv *kv)
{
	if (!kv) return;
	kv->model->ops->release(kv->model->ops->ctx, kv->block);
	free(kv);
}

struct elem *kv_layer(const struct kv *kv, int layer, int which)
{
	int64_t plane = kv->pages * page_elements(&kv->model->config);
	return ops_elem_at(kv->model->ops, kv->block, (2 * (int64_t)layer + which) * plane);
}

void kv_copy_pages(struct kv *kv, const int32_t *dst, const int32_t *src, int n)
{
	struct ops *ops = kv->model->ops;
	const struct model_config *c = &kv->model->config;
	int64_t page = page_elements(c);
	for (int i = 0; i < n; i++)
		CHECKF(dst[i] >= 0 && dst[i] < kv->pages && src[i] >= 0 && src[i] < kv->pages, "page %d to page %d of %d",
			src[i], dst[i], kv->pages);
	if (n) ops->pages_copy(ops->ctx, kv->block, 2 * c->num_hidden_layers, kv->pages * page, page, dst, src, n);
}

/* ---- the step ---- */

struct step {
	struct model *model;
	struct step_options o;
	char *block;
	struct acts acts; /* shared by all layers; the residual stream stays in x_in */
	struct walk walk;
	struct elem *hidden; /* (rows, C + tail): after the final norm */
	struct elem *x;      /* (wanted, C): the wanted ones of them */
	struct f32 *logits;  /* (wanted, V) */
	struct i32 *drawn;   /* (steps, draws) */
	struct f32 *logprob; /* (steps, draws) of the drawn tokens */
	int32_t *host_drawn; /* (steps, draws) where several steps are one region */
	float *host_logprob;
	uint64_t serial;
};

#define STEP(field, w, kind) { offsetof(struct step, field), w, kind }
static const struct act_def row_defs[] = {STEP(hidden, WIDTH_C, ACT_TAIL)};
static const struct act_def wanted_defs[] = {STEP(x, WIDTH_C, ACT_ELEM)};
static const struct act_def draw_defs[] = {
	STEP(drawn, WIDTH_1, ACT_F32 /* as wide */), STEP(logprob, WIDTH_1, ACT_F32)};

static int draws_of(const struct step_options *o) { return o->draws ? o->draws : o->wanted; }
static int steps_of(const struct step_options *o) { return MAX(o->steps, 1); }

static size_t carve(
	const struct ops *ops, const struct model_config *c, const struct step_options *o, struct step *s, char *base)
{
	int64_t width[WIDTH_COUNT];
	widths_fill(c, width);
	size_t used = acts_carve(ops, act_defs, act_def_count(c), width, o->rows, s ? &s->acts : NULL, base);
	used += acts_carve(ops, row_defs, ARRAY_LEN(row_defs), width, o->rows, s, base ? base + used : NULL);
	used += acts_carve(ops, wanted_defs, ARRAY_LEN(wanted_defs), width, o->wanted, s, base ? base + used : NULL);
	return used +
		acts_carve(
			ops, draw_defs, ARRAY_LEN(draw_defs), width, draws_of(o) * steps_of(o), s, base ? base + used : NULL);
}

static size_t logits_bytes(const struct model_config *c, int wanted)
{
	return size_mul(size_mul((size_t)wanted, (size_t)c->vocab_size), sizeof(float));
}

size_t step_bytes(const struct ops *ops, const struct model_config *c, const struct step_options *o)
{
	return carve(ops, c, o, NULL, NULL) + logits_bytes(c, o->wanted);
}

struct step *step_create(struct model *m, const struct step_options *o)
{
	CHECK(o->rows > 0 && o->sequences > 0 && o->pages > 0 && o->wanted > 0);
	struct ops *ops = m->ops;
	struct step *s = xcalloc(1, sizeof *s);
	s->model = m;
	s->o = *o;
	s->serial = ++m->serial_last;
	s->block = ops->alloc(ops->ctx, carve(ops, &m->config, o, NULL, NULL));
	carve(ops, &m->config, o, s, s->block);
	acts_alias(&m->config, &s->acts);
	s->acts.x_mid = s->acts.x_in;
	s->logits = ops->alloc(ops->ctx, logits_bytes(&m->config, o->wanted));
	size_t most = (size_t)steps_of(o) * (size_t)draws_of(o);
	s->host_drawn = xcalloc(most, sizeof *s->host_drawn);
	s->host_logprob = xcalloc(most, sizeof *s->host_logprob);
	s->walk.model = m;
	s->walk.batch = ops->batch_create(ops->ctx, o->rows, o->sequences, o->pages, o->wanted, draws_of(o));
	return s;
}

void step_free(struct step *s)
{
	if (!s) return;
	struct ops *ops = s->model->ops;
	ops->batch_free(ops->ctx, s->walk.batch);
	ops->release(ops->ctx, s->block);
	ops->release(ops->ctx, s->logits);
	free(s->host_drawn);
	free(s->host_logprob);
	free(s);
}

static void rows_check(const struct step *s, const struct kv *kv, const struct ops_rows *r, const struct ops_want *want)
{
	const struct model *m = s->model;
	CHECKF(r->T > 0 && r->T <= s->o.rows && want->n >= 0 && want->n <= s->o.wanted, "%d rows of %d, %d wanted of %d",
		r->T, s->o.rows, want->n, s->o.wanted);
	CHECKF(!want->from || want->draws <= draws_of(&s->o), "%d draws of %d", want->draws, draws_of(&s->o));
	CHECK(kv->model == m && r->table);
	for (int t = 0; t < r->T; t++) {
		int id = r->ids[t], pos = r->pos[t], page = pos / OPS_PAGE;
		CHECKF(id >= 0 && id < m->config.vocab_size, "row %d is token %d of %d", t, id, m->config.vocab_size);
		CHECKF(r->sequence[t] >= 0 && r->sequence[t] < r->S, "row %d is of sequence %d of %d", t, r->sequence[t], r->S);
		CHECKF(pos >= 0 && pos < m->rope_positions && page < r->pages, "row %d has position %d of %d, page %d of %d", t,
			pos, m->rope_positions, page, r->pages);
		int slot = r->table[(int64_t)r->sequence[t] * r->pages + page];
		CHECKF(slot >= 0 && slot < kv->pages, "row %d lies in page %d of %d", t, slot, kv->pages);
	}
}

/* Steps of one key make the same calls with the same arguments. */
static uint64_t region_key(const struct step *s, const struct kv *kv, const struct adapter *a, int n, bool draws, int k)
{
	uint64_t parts[] = {s->serial, kv->serial, a ? a->serial : 0, (uint64_t)s->walk.T, (uint64_t)n, draws, (uint64_t)k},
			 key = 1;
	for (size_t i = 0; i < ARRAY_LEN(parts); i++) {
		struct rng_block b = rng_philox(key, parts[i], i);
		key = (uint64_t)b.v[0] << 32 | b.v[1];
	}
	return key;
}

/* The tokens that are drawn become row `at` of drawn and logprob. */
static void walk_all(struct step *s, int n, bool draws, int at)
{
	struct model *m = s->model;
	struct ops *ops = m->ops;
	struct ops_context *ctx = ops->ctx;
	int C = m->config.hidden_size, V = m->config.vocab_size, T = s->walk.T;
	ops->embed(ctx, s->acts.x_in, &m->embed->w, s->walk.batch, T);
	for (int l = 0; l < m->config.num_hidden_layers; l++) walk_block(&s->walk, l, &s->acts, s->acts.x_in);
	if (!n) return;
	ops->norm(ctx, s->hidden, NULL, s->acts.x_in, &m->norm->w, (float)m->config.rms_norm_eps, T, NULL);
	ops->gather(ctx, s->x, s->hidden, C, ops->tail, s->walk.batch, 0, n);
	ops->logits(ctx, s->logits, s->x, &m->head_linear, n);
	if (!draws) return;
	uintptr_t offset = (uintptr_t)at * (uintptr_t)draws_of(&s->o) * sizeof(float);
	ops->sample(ctx, (struct i32 *)((uintptr_t)s->drawn + offset), (struct f32 *)((uintptr_t)s->logprob + offset),
		s->logits, s->walk.batch, n, V);
}

/* What changes from step to step is sent; n: wanted rows as the backend counts them. */
static int step_send(
	struct step *s, struct kv *kv, struct adapter *a, const struct ops_rows *rows, const struct ops_want *want)
{
	struct model *m = s->model;
	struct ops *ops = m->ops;
	adapter_dropout(a, 0);
	model_bind(m, a);
	s->walk.kv = kv;
	s->walk.adapter = a;
	s->walk.T = ops->batch_put(ops->ctx, s->walk.batch, rows);
	int n = want->n ? ops->batch_want(ops->ctx, s->walk.batch, want) : 0;
	CHECK(s->walk.T <= s->o.rows && n <= s->o.wanted);
	return n;
}

const struct f32 *step_run(struct step *s, struct kv *kv, struct adapter *a, const struct ops_rows *rows,
	const struct ops_want *want, int32_t *drawn, float *logprob)
{
	struct ops *ops = s->model->ops;
	rows_check(s, kv, rows, want);
	int n = step_send(s, kv, a, rows, want);
	/* Decoding repeats itself; a step that prefills is one of a kind. */
	bool draws = want->draw && n, repeats = want->n == rows->T;
	int count = want->from ? want->draws : want->n;
	if (!repeats || ops->begin(ops->ctx, region_key(s, kv, a, n, draws, 1))) {
		walk_all(s, n, draws, 0);
		if (repeats) ops->end(ops->ctx);
	}
	if (!draws) return s->logits;
	ops->get_i32(ops->ctx, drawn, s->drawn, count);
	ops->get_f32(ops->ctx, logprob, s->logprob, count);
	return s->logits;
}

/* Positions that k steps come to have pages. */
static void pages_check(
	const struct step *s, const struct kv *kv, const struct ops_rows *r, const struct ops_want *want, int k)
{
	CHECKF(k >= 1 && k <= steps_of(&s->o), "%d steps of %d", k, steps_of(&s->o));
	CHECK(want->n == r->T && want->draw && !want->from && want->left);
	for (int t = 0; t < r->T; t++) {
		int last = r->pos[t] + MIN(k, want->left[t]) - 1;
		CHECKF(want->at[t] == t && want->left[t] > 0 && last < s->model->rope_positions && last / OPS_PAGE < r->pages,
			"row %d: %d steps from position %d, %d tokens left", t, k, r->pos[t], want->left[t]);
		for (int page = r->pos[t] / OPS_PAGE; page <= last / OPS_PAGE; page++) {
			int slot = r->table[(int64_t)r->sequence[t] * r->pages + page];
			CHECKF(slot >= 0 && slot < kv->pages, "row %d comes to page %d of %d", t, slot, kv->pages);
		}
	}
}

void step_run_many(struct step *s, struct kv *kv, struct adapter *a, const struct ops_rows *rows,
	const struct ops_want *want, int k, int32_t *drawn, float *logprob)
{
	struct ops *ops = s->model->ops;
	rows_check(s, kv, rows, want);
	pages_check(s, kv, rows, want, k);
	int n = step_send(s, kv, a, rows, want), stride = draws_of(&s->o);
	if (ops->begin(ops->ctx, region_key(s, kv, a, n, true, k))) {
		for (int i = 0; i < k; i++) walk_all(s, n, true, i);
		ops->end(ops->ctx);
	}
	/* One look for all steps; rows that are in use lie side by side. */
	int64_t most = (int64_t)(k - 1) * stride + want->n;
	ops->get_i32(ops->ctx, s->host_drawn, s->drawn, most);
	ops->get_f32(ops->ctx, s->host_logprob, s->logprob, most);
	size_t rows_used = (size_t)want->n;
	for (size_t i = 0; i < (size_t)k; i++) {
		memcpy(drawn + i * rows_used, s->host_drawn + i * (size_t)stride, rows_used * sizeof *drawn);
		memcpy(logprob + i * rows_used, s->host_logprob + i * (size_t)stride, rows_used * sizeof *logprob);
	}
}

void step_wait(struct step *s)
{
	float any;
	s->model->ops->get_f32(s->model->ops->ctx, &any, s->logits, 1);
}
