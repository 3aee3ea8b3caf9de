/* A training pass: its memory, and the walk over all blocks. One block of memory holds every
 * activation; tables say which exist and how wide they are, so that the plan printed before a run
 * and the pointers used in it come from the same rows. With backward each layer keeps its own;
 * without, all layers share one set and the residual stream stays in place. */
#include "model/model_internal.h"

#include <stdlib.h>
#include <unistd.h>

#define ACT(field, w) { offsetof(struct acts, field), w }
const struct act_def act_defs[] = {
	ACT(x_in, WIDTH_C), ACT(n1, WIDTH_C), ACT(rstd1, WIDTH_1), ACT(q, WIDTH_Q), ACT(k, WIDTH_KV), ACT(v, WIDTH_KV),
	ACT(att, WIDTH_Q), ACT(lse, WIDTH_NH), ACT(x_mid, WIDTH_C), ACT(n2, WIDTH_C), ACT(rstd2, WIDTH_1),
	ACT(gate, WIDTH_I), ACT(up, WIDTH_I), ACT(act, WIDTH_I), ACT(q_raw, WIDTH_Q), ACT(k_raw, WIDTH_KV),
	ACT(rstd_q, WIDTH_NH), ACT(rstd_k, WIDTH_NKV), /* last: left out without qk_norm */
};
const int act_def_count = ARRAY_LEN(act_defs);
#define QK_NORM_ACTS 4

#define PASS(field, w) { offsetof(struct pass, field), w }
static const struct act_def pass_defs[] = {
	PASS(x_last, WIDTH_C),
	PASS(rstd_last, WIDTH_1),
	PASS(hidden, WIDTH_C),
	PASS(walk.lora_x, WIDTH_IN_MAX),
	PASS(walk.lora_h, WIDTH_R),
	PASS(walk.lora_dh, WIDTH_R),
};
static const struct act_def grad_defs[] = {
	PASS(dhidden, WIDTH_C),
	PASS(grads.dx, WIDTH_C),
	PASS(grads.dn, WIDTH_C),
	PASS(grads.dq, WIDTH_Q),
	PASS(grads.dk, WIDTH_KV),
	PASS(grads.dv, WIDTH_KV),
	PASS(grads.datt, WIDTH_Q),
	PASS(grads.dk_raw, WIDTH_KV),
	PASS(grads.dgate, WIDTH_I),
	PASS(grads.dup, WIDTH_I),
	PASS(grads.dact, WIDTH_I),
};

void widths_fill(const struct model_config *c, int64_t width[WIDTH_COUNT])
{
	int64_t Q = (int64_t)c->num_attention_heads * c->head_dim, KV = (int64_t)c->num_key_value_heads * c->head_dim;
	width[WIDTH_1] = 1;
	width[WIDTH_C] = c->hidden_size;
	width[WIDTH_Q] = Q;
	width[WIDTH_KV] = KV;
	width[WIDTH_NH] = c->num_attention_heads;
	width[WIDTH_NKV] = c->num_key_value_heads;
	width[WIDTH_I] = c->intermediate_size;
	width[WIDTH_R] = ADAPTER_RANK_MAX;
	width[WIDTH_IN_MAX] = MAX(MAX(Q, c->hidden_size), c->intermediate_size);
}

size_t acts_carve(const struct act_def *defs, int ndefs, const int64_t *width, int64_t T, void *out, char *base)
{
	size_t used = 0;
	for (int i = 0; i < ndefs; i++) {
		size_t bytes = size_mul(size_mul((size_t)T, (size_t)width[defs[i].width]), sizeof(float));
		if (base) *(float **)((char *)out + defs[i].offset) = (float *)(base + used);
		used += (bytes + 63) / 64 * 64;
	}
	return used;
}

void acts_alias(const struct model_config *c, struct acts *a)
{
	if (c->qk_norm) return;
	a->q_raw = a->q;
	a->k_raw = a->k;
}

static int layer_acts(const struct model_config *c) { return act_def_count - (c->qk_norm ? 0 : QK_NORM_ACTS); }

/* Carves everything when p is given; returns the bytes of the activations. */
static size_t carve(const struct model_config *c, const struct pass_options *o, struct pass *p, char *base)
{
	int64_t width[WIDTH_COUNT];
	int layers = o->backward ? c->num_hidden_layers : 1;
	size_t used = 0;
	widths_fill(c, width);
	for (int l = 0; l < layers; l++)
		used += acts_carve(
			act_defs, layer_acts(c), width, o->max_tokens, p ? &p->layers[l] : NULL, base ? base + used : NULL);
	used += acts_carve(pass_defs, ARRAY_LEN(pass_defs), width, o->max_tokens, p, base ? base + used : NULL);
	if (o->backward)
		used += acts_carve(grad_defs, ARRAY_LEN(grad_defs), width, o->max_tokens, p, base ? base + used : NULL);
	return used;
}

static int head_rows(const struct model_config *c, const struct pass_options *o)
{
	int64_t rows = o->head_rows > 0 ? o->head_rows : MAX((16 << 20) / c->vocab_size, 32);
	return (int)MIN(rows, o->max_tokens);
}

static size_t head_bytes(const struct model_config *c, const struct pass_options *o)
{
	return size_mul((size_t)head_rows(c, o), (size_t)(2 * c->hidden_size + c->vocab_size) * sizeof(float));
}

size_t pass_bytes(const struct model_config *c, const struct pass_options *o)
{
	return carve(c, o, NULL, NULL) + head_bytes(c, o);
}

static void head_init(struct head *h, const struct model *m, int rows)
{
	struct ops *ops = m->ops;
	size_t n = (size_t)rows, C = (size_t)m->config.hidden_size, V = (size_t)m->config.vocab_size;
	h->rows_max = rows;
	h->x = ops->alloc(ops->ctx, n * C * sizeof(float));
	h->dx = ops->alloc(ops->ctx, n * C * sizeof(float));
	h->logits = ops->alloc(ops->ctx, size_mul(n * V, sizeof(float)));
	h->logprob = ops->alloc(ops->ctx, n * sizeof(float));
	h->entropy = ops->alloc(ops->ctx, n * sizeof(float));
	h->lse = ops->alloc(ops->ctx, n * sizeof(float));
	h->g = ops->alloc(ops->ctx, n * sizeof(float));
	h->at = xcalloc(n, sizeof *h->at);
	h->target = xcalloc(n, sizeof *h->target);
	h->host = xcalloc(3 * n, sizeof(float));
	h->host_logits = xcalloc(V, sizeof(float));
}

static void head_release(struct head *h, struct ops *ops)
{
	float *memory[] = {h->x, h->dx, h->logits, h->logprob, h->entropy, h->lse, h->g};
	for (size_t i = 0; i < ARRAY_LEN(memory); i++)
		if (memory[i]) ops->release(ops->ctx, memory[i]);
	free(h->at);
	free(h->target);
	free(h->host);
	free(h->host_logits);
}

static void attend_packed(struct walk *w, int layer, const struct acts *a)
{
	const struct model_config *c = &w->model->config;
	const struct pass *p = w->ctx;
	struct ops *ops = w->model->ops;
	ops->attention(ops->ctx, a->att, a->lse, a->q, a->k, a->v, &p->packed, c->num_attention_heads,
		c->num_key_value_heads, c->head_dim);
}

static int options_check(const struct model_config *c, const struct pass_options *o, struct err *err)
{
	if (o->max_tokens < 1 || o->max_tokens > 1 << 22)
		return err_set(err, ERR_RANGE, "max_tokens %d; expected 1 to %d", o->max_tokens, 1 << 22);
	double mib = 1.0 / (1 << 20), needed = (double)pass_bytes(c, o) * mib,
		   memory = (double)sysconf(_SC_PHYS_PAGES) * (double)sysconf(_SC_PAGESIZE) * mib;
	if (needed > memory)
		return err_set(err, ERR_LIMIT,
			"activations of %d tokens need %.0f MiB%s, this machine has %.0f MiB; lower max_tokens", o->max_tokens,
			needed, o->backward ? " with backward" : "", memory);
	return 0;
}

int pass_create(struct model *m, const struct pass_options *o, struct pass **out, struct err *err)
{
	struct ops *ops = m->ops;
	int rc = options_check(&m->config, o, err);
	if (rc) return rc;
	struct pass *p = xcalloc(1, sizeof *p);
	size_t n = (size_t)o->max_tokens;
	p->model = m;
	p->options = *o;
	p->nlayers_held = o->backward ? m->config.num_hidden_layers : 1;
	p->layers = xcalloc((size_t)p->nlayers_held, sizeof *p->layers);
	p->block = ops->alloc(ops->ctx, carve(&m->config, o, NULL, NULL));
	carve(&m->config, o, p, p->block);
	for (int l = 0; l < p->nlayers_held; l++) {
		acts_alias(&m->config, &p->layers[l]);
		if (!o->backward) p->layers[l].x_mid = p->layers[l].x_in;
	}
	p->ids = xcalloc(n, sizeof *p->ids);
	p->pos = xcalloc(n, sizeof *p->pos);
	p->start = xcalloc(n + 1, sizeof *p->start);
	p->walk.model = m;
	p->walk.attend = attend_packed;
	p->walk.ctx = p;
	head_init(&p->head, m, head_rows(&m->config, o));
	model_ensure_rope(m, o->max_tokens);
	*out = p;
	return 0;
}

void pass_free(struct pass *p)
{
	if (!p) return;
	struct ops *ops = p->model->ops;
	ops->release(ops->ctx, p->block);
	head_release(&p->head, ops);
	free(p->layers);
	free(p->ids);
	free(p->pos);
	free(p->start);
	free(p);
}

/* The batch is copied: backward needs it again after the caller has packed the next one. */
static void batch_take(struct pass *p, const struct batch *b)
{
	int T = b->packed.T, S = b->packed.S;
	CHECKF(T > 0 && T <= p->options.max_tokens, "%d tokens in a pass for %d", T, p->options.max_tokens);
	CHECKF(S > 0 && S <= T && b->packed.start[0] == 0 && b->packed.start[S] == T, "%d sequences over %d tokens", S, T);
	for (int t = 0; t < T; t++) {
		int id = b->ids[t], pos = b->packed.pos[t];
		CHECKF(id >= 0 && id < p->model->config.vocab_size, "token %d is %d of %d", t, id, p->model->config.vocab_size);
		CHECKF(pos >= 0 && pos < p->model->rope_positions, "token %d has position %d of %d", t, pos,
			p->model->rope_positions);
	}
	memcpy(p->ids, b->ids, (size_t)T * sizeof *p->ids);
	memcpy(p->pos, b->packed.pos, (size_t)T * sizeof *p->pos);
	memcpy(p->start, b->packed.start, (size_t)(S + 1) * sizeof *p->start);
	p->packed = (struct ops_packed){.T = T, .S = S, .start = p->start, .pos = p->pos};
}

void pass_forward(struct pass *p, struct adapter *a, const struct batch *b, uint64_t dropout_seed)
{
	struct model *m = p->model;
	struct ops *ops = m->ops;
	int C = m->config.hidden_size, L = m->config.num_hidden_layers;
	batch_take(p, b);
	p->walk.adapter = a;
	p->walk.T = p->packed.T;
	p->walk.pos = p->pos;
	p->walk.dropout = a ? (float)a->dropout : 0;
	p->walk.dropout_seed = dropout_seed;

	ops->embed(ops->ctx, p->layers[0].x_in, m->embed->data, p->ids, p->packed.T, C);
	for (int l = 0; l < L; l++) {
		const struct acts *acts = &p->layers[p->options.backward ? l : 0];
		float *x_out = l == L - 1 ? p->x_last : p->options.backward ? p->layers[l + 1].x_in : acts->x_in;
		walk_block(&p->walk, l, acts, x_out);
	}
	ops->rmsnorm(
		ops->ctx, p->hidden, p->rstd_last, p->x_last, m->norm->data, (float)m->config.rms_norm_eps, p->packed.T, C);
}
