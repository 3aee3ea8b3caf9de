/* A generation step: rows of many sequences, each one token further (or a whole prompt at once),
 * over keys and values kept in pages. The blocks are walk_block's; attention writes this step's
 * keys and values into their slots and then reads pages. */
#include "model/model_internal.h"

#include <stdlib.h>

/* ---- pages: (layers, 2, pages, OPS_KV_BLOCK * NKV * HD); how a page is arranged inside is the
 * backend's business ---- */

struct kv {
	struct model *model;
	int pages;
	float *block;
};

static size_t page_count(const struct model_config *c)
{
	return size_mul(OPS_KV_BLOCK, (size_t)c->num_key_value_heads * (size_t)c->head_dim);
}

size_t kv_bytes(const struct model_config *c, int pages)
{
	return size_mul(size_mul((size_t)c->num_hidden_layers * 2, (size_t)pages), page_count(c) * sizeof(float));
}

struct kv *kv_create(struct model *m, int pages)
{
	CHECK(pages > 0 && pages <= INT32_MAX / OPS_KV_BLOCK);
	struct kv *kv = xcalloc(1, sizeof *kv);
	*kv = (struct kv){.model = m, .pages = pages, .block = m->ops->alloc(m->ops->ctx, kv_bytes(&m->config, pages))};
	model_ensure_rope(m, MIN(pages * OPS_KV_BLOCK, m->config.max_position_embeddings));
	return kv;
}

void kv_free(struct kv *kv)
{
	if (!kv) return;
	kv->model->ops->release(kv->model->ops->ctx, kv->block);
	free(kv);
}

int kv_pages(const struct kv *kv) { return kv->pages; }

/* which: 0 keys, 1 values */
static float *kv_layer(const struct kv *kv, int layer, int which)
{
	return kv->block + ((size_t)layer * 2 + (size_t)which) * (size_t)kv->pages * page_count(&kv->model->config);
}

void kv_copy_page(struct kv *kv, int dst, int src)
{
	struct ops *ops = kv->model->ops;
	size_t n = page_count(&kv->model->config);
	CHECK(dst >= 0 && dst < kv->pages && src >= 0 && src < kv->pages);
	for (int l = 0; l < kv->model->config.num_hidden_layers; l++)
		for (int which = 0; which < 2; which++) {
			float *base = kv_layer(kv, l, which);
			ops->copy(ops->ctx, base + (size_t)dst * n, base + (size_t)src * n, n * sizeof(float));
		}
}

/* ---- the step ---- */

struct step {
	struct model *model;
	int max_rows, max_logit_rows;
	char *block;
	struct acts acts; /* shared by all layers; the residual stream stays in x_in */
	struct walk walk;
	float *x_last, *hidden; /* (max_logit_rows, C): the asked rows before and after the final norm */
	float *logits;          /* (max_logit_rows, V) */
	const struct kv *kv;
	const struct ops_paged *paged;
};

#define STEP(field, w) { offsetof(struct step, field), w }
static const struct act_def step_defs[] = {STEP(walk.lora_x, WIDTH_IN_MAX), STEP(walk.lora_h, WIDTH_R)};
static const struct act_def logit_defs[] = {STEP(x_last, WIDTH_C), STEP(hidden, WIDTH_C)};

static size_t carve(const struct model_config *c, int rows, int logit_rows, struct step *s, char *base)
{
	int64_t width[WIDTH_COUNT];
	widths_fill(c, width);
	size_t used = acts_carve(act_defs, act_def_count, width, rows, s ? &s->acts : NULL, base);
	used += acts_carve(step_defs, ARRAY_LEN(step_defs), width, rows, s, base ? base + used : NULL);
	return used + acts_carve(logit_defs, ARRAY_LEN(logit_defs), width, logit_rows, s, base ? base + used : NULL);
}

static size_t logits_bytes(const struct model_config *c, int logit_rows)
{
	return size_mul(size_mul((size_t)logit_rows, (size_t)c->vocab_size), sizeof(float));
}

size_t step_bytes(const struct model_config *c, int max_rows, int max_logit_rows)
{
	return carve(c, max_rows, max_logit_rows, NULL, NULL) + logits_bytes(c, max_logit_rows);
}

static void attend_paged(struct walk *w, int layer, const struct acts *a)
{
	const struct model_config *c = &w->model->config;
	const struct step *s = w->ctx;
	struct ops *ops = w->model->ops;
	float *k = kv_layer(s->kv, layer, 0), *v = kv_layer(s->kv, layer, 1);
	ops->kv_write(ops->ctx, k, v, a->k, a->v, s->paged, c->num_key_value_heads, c->head_dim);
	ops->attention_paged(
		ops->ctx, a->att, a->q, k, v, s->paged, c->num_attention_heads, c->num_key_value_heads, c->head_dim);
}

struct step *step_create(struct model *m, int max_rows, int max_logit_rows)
{
	CHECK(max_rows > 0 && max_logit_rows > 0);
	struct ops *ops = m->ops;
	struct step *s = xcalloc(1, sizeof *s);
	s->model = m;
	s->max_rows = max_rows;
	s->max_logit_rows = max_logit_rows;
	s->block = ops->alloc(ops->ctx, carve(&m->config, max_rows, max_logit_rows, NULL, NULL));
	carve(&m->config, max_rows, max_logit_rows, s, s->block);
	acts_alias(&m->config, &s->acts);
	s->acts.x_mid = s->acts.x_in;
	s->walk.model = m;
	s->walk.attend = attend_paged;
	s->walk.ctx = s;
	s->logits = ops->alloc(ops->ctx, logits_bytes(&m->config, max_logit_rows));
	return s;
}

void step_free(struct step *s)
{
	if (!s) return;
	s->model->ops->release(s->model->ops->ctx, s->block);
	s->model->ops->release(s->model->ops->ctx, s->logits);
	free(s);
}

static void rows_check(
	const struct step *s, const struct kv *kv, const int32_t *ids, const struct ops_paged *b, const int32_t *at, int n)
{
	const struct model *m = s->model;
	CHECKF(b->T > 0 && b->T <= s->max_rows && n >= 0 && n <= s->max_logit_rows, "%d rows of %d, %d logit rows of %d",
		b->T, s->max_rows, n, s->max_logit_rows);
	CHECK(kv->model == m);
	for (int t = 0; t < b->T; t++) {
		CHECKF(
			ids[t] >= 0 && ids[t] < m->config.vocab_size, "row %d is token %d of %d", t, ids[t], m->config.vocab_size);
		CHECKF(b->pos[t] >= 0 && b->pos[t] < m->rope_positions, "row %d has position %d of %d", t, b->pos[t],
			m->rope_positions);
		CHECKF(b->slot[t] >= 0 && b->slot[t] < kv->pages * OPS_KV_BLOCK, "row %d has slot %d of %d", t, b->slot[t],
			kv->pages * OPS_KV_BLOCK);
	}
	for (int i = 0; i < n; i++) CHECKF(at[i] >= 0 && at[i] < b->T, "logits of row %d of %d", at[i], b->T);
}

const float *step_run(struct step *s, struct kv *kv, struct adapter *a, const int32_t *ids, const struct ops_paged *b,
	const int32_t *at, int n)
{
	struct model *m = s->model;
	struct ops *ops = m->ops;
	int C = m->config.hidden_size;
	rows_check(s, kv, ids, b, at, n);
	s->kv = kv;
	s->paged = b;
	s->walk.adapter = a;
	s->walk.T = b->T;
	s->walk.pos = b->pos;
	ops->embed(ops->ctx, s->acts.x_in, m->embed->data, ids, b->T, C);
	for (int l = 0; l < m->config.num_hidden_layers; l++) walk_block(&s->walk, l, &s->acts, s->acts.x_in);
	if (!n) return s->logits;
	ops->embed(ops->ctx, s->x_last, s->acts.x_in, at, n, C); /* a gather of rows */
	ops->rmsnorm(ops->ctx, s->hidden, NULL, s->x_last, m->norm->data, (float)m->config.rms_norm_eps, n, C);
	head_logits(m, s->logits, s->hidden, n);
	return s->logits;
}
