/* stage_world: what the test of the stages and the benchmark of decode share: arrays in a backend's
 * memory between sentinels, weights of random numbers, and the walk of a decode step over a small
 * model. Everything goes through the table alone, so it runs on any backend. */
#ifndef HONE_STAGE_WORLD_H
#define HONE_STAGE_WORLD_H
#include <math.h>
#include <stdlib.h>
#include "ops/ops.h"

/* HONE_STAGES_SMALL=1: fewer repeats and rows, for tools under which a launch takes seconds. Every
 * kernel is launched all the same. */
static inline bool stages_are_small(void)
{
	const char *small = getenv("HONE_STAGES_SMALL");
	return small && *small == '1';
}

/* ---- arrays ---- */

#define GUARD 64   /* elements on each side */

enum kind { KIND_ELEM, KIND_F32, KIND_I32 };
struct array { /* n elements that nobody may write around; NaN (-1 of integers) until written */
	enum kind kind;
	int64_t n;
	char *base;
	char *at;
};

static inline size_t kind_bytes(const struct ops *o, enum kind kind)
{
	return kind == KIND_ELEM ? (size_t)o->elem_bytes : 4;
}

static inline void bytes_put(struct ops *o, void *to, const void *from, size_t bytes)
{
	CHECK(bytes % 4 == 0);
	o->put_f32(o->ctx, to, from, (int64_t)(bytes / 4));
}

static inline void array_poison(struct ops *o, struct array *a)
{
	size_t bytes = ((size_t)a->n + 2 * GUARD + 1) / 2 * 2 * kind_bytes(o, a->kind);
	char *host = xmalloc(bytes);
	memset(host, 0xff, bytes); /* NaN in every float format */
	bytes_put(o, a->base, host, bytes);
	free(host);
}

static inline struct array array_make(struct ops *o, enum kind kind, int64_t n)
{
	size_t bytes = kind_bytes(o, kind);
	struct array a = {.kind = kind, .n = n, .base = o->alloc(o->ctx, ((size_t)n + 2 * GUARD + 2) * bytes)};
	a.at = a.base + GUARD * bytes;
	array_poison(o, &a);
	return a;
}
static inline struct elem *array_elem(const struct array *a) { return (struct elem *)a->at; }
static inline struct f32 *array_f32(const struct array *a) { return (struct f32 *)a->at; }

/* Values as the backend holds them: rounded to its elements. */
static inline void array_put(struct ops *o, struct array *a, const float *host)
{
	if (a->kind == KIND_ELEM && o->elem_bytes == 2) {
		uint16_t *half = xcalloc((size_t)a->n + 1, 2);
		CHECK(a->n % 2 == 0);
		for (int64_t i = 0; i < a->n; i++) half[i] = f32_to_bf16(host[i]);
		bytes_put(o, a->at, half, (size_t)a->n * 2);
		free(half);
		return;
	}
	bytes_put(o, a->at, host, (size_t)a->n * 4);
}

static inline float *array_get(struct ops *o, const struct array *a) /* caller frees */
{
	float *host = xmalloc((size_t)MAX(a->n, 1) * 4);
	if (a->kind == KIND_ELEM) o->get_elem(o->ctx, host, array_elem(a), a->n);
	else o->get_f32(o->ctx, host, array_f32(a), a->n);
	return host;
}

/* Elements of the guards that are no longer what they were. */
static inline int array_breaches(struct ops *o, const struct array *a)
{
	float host[GUARD];
	int breaches = 0;
	for (int side = 0; side < 2; side++) {
		char *at = side ? a->at + (size_t)a->n * kind_bytes(o, a->kind) : a->base;
		if (a->kind == KIND_ELEM) o->get_elem(o->ctx, host, (struct elem *)at, GUARD);
		else o->get_f32(o->ctx, host, (struct f32 *)at, GUARD);
		for (int i = 0; i < GUARD; i++) breaches += !isnan(host[i]);
	}
	return breaches;
}

static inline void array_free(struct ops *o, struct array *a)
{
	o->release(o->ctx, a->base);
	*a = (struct array){0};
}

/* ---- random values and weights ---- */

static inline float *normals(uint64_t stream, int64_t n, float scale) /* caller frees */
{
	float *x = xmalloc((size_t)MAX(n, 1) * 4);
	for (int64_t i = 0; i < n; i++) x[i] = scale * rng_normal(7, stream, (uint64_t)i);
	return x;
}

struct linear { /* parts in one block, as the model carves them, or apart */
	struct ops_linear l;
	struct ops_lora lora;
	char *block[2 * OPS_PARTS + 2];
	int nblocks;
};

static inline struct elem *elems_alloc(struct ops *o, struct linear *l, int64_t n)
{
	l->block[l->nblocks] = o->alloc(o->ctx, (size_t)n * (size_t)o->elem_bytes);
	return (struct elem *)l->block[l->nblocks++];
}

static inline void weight_random(struct ops *o, struct ops_weight *w, uint64_t stream, float scale)
{
	float *host = normals(stream, (int64_t)w->rows * w->cols, scale);
	o->put(o->ctx, w, host, DTYPE_F32);
	free(host);
}

/* out: rows of each part. r: of the adapter; 0: none. skip: bit i: part i is not adapted. */
static inline void linear_make(struct ops *o, struct linear *l, int in, const int *out, int parts, bool has_bias,
	bool is_apart, int r, int skip, uint64_t stream)
{
	int total = 0;
	*l = (struct linear){.l = {.in = in, .parts = parts}};
	for (int i = 0; i < parts; i++) total += out[i];
	l->l.out = total;
	int64_t ld = in + o->tail;
	/* Parts lie in one matrix one behind the other, or apart: a backend may join the products of
	 * the former. */
	struct elem *w = is_apart ? NULL : elems_alloc(o, l, total * ld), *b = has_bias ? elems_alloc(o, l, total) : NULL;
	for (int i = 0, at = 0; i < parts; at += out[i++]) {
		struct elem *own = is_apart ? elems_alloc(o, l, out[i] * ld) : ops_elem_at(o, w, at * ld);
		l->l.w[i] = (struct ops_weight){.rows = out[i], .cols = in, .ld = ld, .w = own};
		weight_random(o, &l->l.w[i], stream + (uint64_t)i, 1.0f / sqrtf((float)in));
		if (!has_bias) continue;
		l->l.bias[i] = (struct ops_weight){.rows = 1, .cols = out[i], .ld = out[i], .w = ops_elem_at(o, b, at)};
		weight_random(o, &l->l.bias[i], stream + 10 + (uint64_t)i, 1);
	}
	if (!r) return;
	/* An adapter whose second factor is not zero, as it would be in a fresh one. */
	l->lora = (struct ops_lora){.r = r, .scaling = 2.0f};
	for (int i = 0; i < parts; i++) {
		if (skip >> i & 1) continue;
		l->lora.a[i] = (struct ops_weight){.rows = r, .cols = in, .ld = in, .w = elems_alloc(o, l, (int64_t)r * in)};
		l->lora.b[i] = (struct ops_weight){
			.rows = out[i], .cols = r, .ld = r, .w = elems_alloc(o, l, (int64_t)out[i] * r)};
		weight_random(o, &l->lora.a[i], stream + 20 + (uint64_t)i, 1.0f / sqrtf((float)in));
		weight_random(o, &l->lora.b[i], stream + 30 + (uint64_t)i, 0.3f);
	}
	o->bind(o->ctx, &l->l, &l->lora);
}

static inline void linear_free(struct ops *o, struct linear *l)
{
	for (int i = 0; i < l->nblocks; i++) o->release(o->ctx, l->block[i]);
	*l = (struct linear){0};
}

/* ---- a model and the walk of a step over pages ---- */

struct shape {
	int layers;
	int C;
	int I;
	int NH;
	int NKV;
	int HD;
	int V;
	int r;         /* of the adapter; 0: base policy */
	int positions; /* of the rotation table */
};
struct layer {
	struct linear qkv;
	struct linear o;
	struct linear gu;
	struct linear down;
	struct ops_weight norm1;
	struct ops_weight norm2;
	struct ops_weight q_norm;
	struct ops_weight k_norm;
	struct ops_heads heads;
};
struct decoder {
	struct ops *ops;
	struct shape s;
	struct layer *layers;
	struct linear embed; /* (V, C): table and head */
	struct ops_weight norm;
	struct ops_weight vectors[4];
	struct elem *vector_block;
	struct f32 *rope;
	int T;
	int n;
	int kv_pages;
	char *acts; /* one block */
	struct elem *x;
	struct elem *n1;
	struct elem *qkv;
	struct elem *q;
	struct elem *k;
	struct elem *att;
	struct elem *gu;
	struct elem *act;
	struct elem *last;
	struct elem *hidden;
	struct elem *kv;
	struct f32 *logits;
	struct f32 *logprob;
	struct i32 *drawn;
	struct ops_batch *batch;
};

static inline int64_t page_elems(const struct decoder *d) { return (int64_t)OPS_PAGE * d->s.NKV * d->s.HD; }
static inline struct elem *kv_plane(const struct decoder *d, int layer, int which)
{
	return ops_elem_at(d->ops, d->kv, (2 * layer + which) * (int64_t)d->kv_pages * page_elems(d));
}

/* random: fills one part of a weight; the test takes numbers of its own, the
 * benchmark one buffer for all. */
typedef void linear_fn(struct ops *, struct linear *, int in, const int *out, int parts, int r, uint64_t stream);

static inline void decoder_make(
	struct decoder *d, struct ops *o, const struct shape *s, int T, int S, int pages, int kv_pages, linear_fn *make)
{
	int Q = s->NH * s->HD, KV = s->NKV * s->HD, widest = MAX(s->C, s->HD);
	*d = (struct decoder){.ops = o, .s = *s, .T = T, .n = T, .kv_pages = kv_pages};
	d->layers = xcalloc((size_t)s->layers, sizeof *d->layers);

	/* vectors: ones with some noise */
	float *ones = normals(900, widest, 0.1f);
	for (int i = 0; i < widest; i++) ones[i] += 1;
	d->vector_block = o->alloc(o->ctx, (size_t)widest * (size_t)o->elem_bytes);
	struct ops_weight wide = {.rows = 1, .cols = s->C, .ld = s->C, .w = d->vector_block},
					  head = {.rows = 1, .cols = s->HD, .ld = s->HD, .w = d->vector_block};
	o->put(o->ctx, s->C >= s->HD ? &wide : &head, ones, DTYPE_F32);
	free(ones);
	d->norm = wide;

	/* rotation */
	float *rope = xmalloc((size_t)s->positions * (size_t)s->HD * 4);
	for (int p = 0; p < s->positions; p++)
		for (int i = 0; i < s->HD / 2; i++) {
			double angle = p * pow(10000.0, -2.0 * i / s->HD);
			rope[p * s->HD + i] = (float)cos(angle);
			rope[p * s->HD + s->HD / 2 + i] = (float)sin(angle);
		}
	d->rope = o->alloc(o->ctx, (size_t)s->positions * (size_t)s->HD * 4);
	o->put_f32(o->ctx, d->rope, rope, (int64_t)s->positions * s->HD);
	free(rope);

	for (int l = 0; l < s->layers; l++) {
		struct layer *y = &d->layers[l];
		uint64_t stream = 1000 + 100 * (uint64_t)l;
		make(o, &y->qkv, s->C, (int[]){Q, KV, KV}, 3, s->r, stream);
		make(o, &y->o, Q, (int[]){s->C}, 1, s->r, stream + 40);
		make(o, &y->gu, s->C, (int[]){s->I, s->I}, 2, s->r, stream + 50);
		make(o, &y->down, s->I, (int[]){s->C}, 1, s->r, stream + 80);
		y->norm1 = y->norm2 = wide;
		y->q_norm = y->k_norm = head;
		y->heads = (struct ops_heads){s->NH, s->NKV, s->HD, 1e-6f, &y->q_norm, &y->k_norm, d->rope};
	}
	make(o, &d->embed, s->C, (int[]){s->V}, 1, 0, 10);

	/* activations, pages, results */
	const struct {
		struct elem **field;
		int64_t n;
	} acts[] = {{&d->x, (int64_t)T * s->C}, {&d->n1, (int64_t)T * (s->C + o->tail)},
		{&d->qkv, (int64_t)T * (Q + 2 * KV)}, {&d->q, (int64_t)T * Q}, {&d->k, (int64_t)T * KV},
		{&d->att, (int64_t)T * (Q + o->tail)}, {&d->gu, (int64_t)T * 2 * s->I},
		{&d->act, (int64_t)T * (s->I + o->tail)}, {&d->last, (int64_t)T * (s->C + o->tail)},
		{&d->hidden, (int64_t)T * s->C}};
	size_t used = 0;
	for (size_t i = 0; i < ARRAY_LEN(acts); i++) used += ((size_t)acts[i].n * (size_t)o->elem_bytes + 255) / 256 * 256;
	d->acts = o->alloc(o->ctx, used);
	used = 0;
	for (size_t i = 0; i < ARRAY_LEN(acts); i++) {
		*acts[i].field = (struct elem *)(d->acts + used);
		used += ((size_t)acts[i].n * (size_t)o->elem_bytes + 255) / 256 * 256;
	}
	d->kv = o->alloc(o->ctx, 2 * (size_t)s->layers * (size_t)kv_pages * (size_t)page_elems(d) * (size_t)o->elem_bytes);
	d->logits = o->alloc(o->ctx, (size_t)T * (size_t)s->V * 4);
	d->logprob = o->alloc(o->ctx, (size_t)T * 8 * 4);
	d->drawn = o->alloc(o->ctx, (size_t)T * 8 * 4);
	d->batch = o->batch_create(o->ctx, T, S, pages, T, T);
}

static inline void decoder_free(struct decoder *d)
{
	struct ops *o = d->ops;
	for (int l = 0; l < d->s.layers; l++) {
		linear_free(o, &d->layers[l].qkv);
		linear_free(o, &d->layers[l].o);
		linear_free(o, &d->layers[l].gu);
		linear_free(o, &d->layers[l].down);
	}
	linear_free(o, &d->embed);
	void *blocks[] = {d->vector_block, d->rope, d->acts, d->kv, d->logits, d->logprob, d->drawn};
	for (size_t i = 0; i < ARRAY_LEN(blocks); i++) o->release(o->ctx, blocks[i]);
	o->batch_free(o->ctx, d->batch);
	free(d->layers);
}

static inline const struct ops_lora *lora_of(const struct decoder *d, const struct linear *l)
{
	return d->s.r ? &l->lora : NULL;
}

/* Stages of a block, one at a time, for the benchmark; the walk is all of them in order. */
enum block_stage {
	STAGE_NORM1,
	STAGE_QKV,
	STAGE_HEADS,
	STAGE_ATTEND,
	STAGE_O,
	STAGE_NORM2,
	STAGE_GU,
	STAGE_GATE,
	STAGE_DOWN,
	STAGE_COUNT
};
static const char *const stage_names[STAGE_COUNT]
	__attribute__((unused)) = {"norm1", "qkv", "heads", "attend", "o", "norm2", "gu", "gate", "down"};

static inline void block_stage(const struct decoder *d, int layer, enum block_stage stage, int T)
{
	struct ops *o = d->ops;
	struct ops_context *c = o->ctx;
	const struct layer *y = &d->layers[layer];
	struct ops_next qkv = {&y->qkv.l, lora_of(d, &y->qkv)}, out = {&y->o.l, lora_of(d, &y->o)},
					gu = {&y->gu.l, lora_of(d, &y->gu)}, down = {&y->down.l, lora_of(d, &y->down)};
	switch (stage) {
	case STAGE_NORM1: o->norm(c, d->n1, NULL, d->x, &y->norm1, 1e-6f, T, &qkv); break;
	case STAGE_QKV: o->linear(c, d->qkv, d->n1, qkv.linear, qkv.lora, NULL, T); break;
	case STAGE_HEADS:
		o->heads(c, d->q, d->k, NULL, d->qkv, kv_plane(d, layer, 0), kv_plane(d, layer, 1), &y->heads, d->batch, T);
		break;
	case STAGE_ATTEND:
		o->attend_paged(c, d->att, d->q, kv_plane(d, layer, 0), kv_plane(d, layer, 1), &y->heads, d->batch, T, &out);
		break;
	case STAGE_O: o->linear(c, d->x, d->att, out.linear, out.lora, d->x, T); break;
	case STAGE_NORM2: o->norm(c, d->n1, NULL, d->x, &y->norm2, 1e-6f, T, &gu); break;
	case STAGE_GU: o->linear(c, d->gu, d->n1, gu.linear, gu.lora, NULL, T); break;
	case STAGE_GATE: o->gate(c, d->act, d->gu, d->s.I, T, &down); break;
	case STAGE_DOWN: o->linear(c, d->x, d->act, down.linear, down.lora, d->x, T); break;
	case STAGE_COUNT: break;
	}
}

/* One token of every row; its drawn tokens and their log-probabilities at column `at`. */
static inline void decoder_walk(const struct decoder *d, int T, int n, int at)
{
	struct ops *o = d->ops;
	struct ops_context *c = o->ctx;
	o->embed(c, d->x, &d->embed.l.w[0], d->batch, T);
	for (int l = 0; l < d->s.layers; l++)
		for (int stage = 0; stage < STAGE_COUNT; stage++) block_stage(d, l, (enum block_stage)stage, T);
	o->norm(c, d->last, NULL, d->x, &d->norm, 1e-6f, T, NULL);
	o->gather(c, d->hidden, d->last, d->s.C, o->tail, d->batch, 0, n);
	o->logits(c, d->logits, d->hidden, &d->embed.l, n);
	o->sample(c, (struct i32 *)((int32_t *)(void *)d->drawn + (size_t)at * (size_t)d->n),
		(struct f32 *)((float *)(void *)d->logprob + (size_t)at * (size_t)d->n), d->logits, d->batch, n, d->s.V);
}
#endif
