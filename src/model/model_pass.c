/* A training pass: its memory, and the walk over all blocks. One block of memory holds every
 * activation; tables say which exist and how wide they are, so that the plan printed before a run
 * and the pointers used in it come from the same rows. With backward each layer keeps its own;
 * without, all layers share one set and the residual stream stays in place. */
#include "model/model_internal.h"
#include "base/base.h"
#include "ops/ops.h"

#include <stdlib.h>

#define ALIGNMENT 256   /* of each activation: what products on a GPU like best */

/* The first rows are computed again in backward from the others when a pass recomputes; the last
 * ones are left out without qk_norm. */
#define ACT(field, w, kind) { offsetof(struct acts, field), w, kind }
const struct act_def act_defs[] = {
	ACT(n1, WIDTH_C, ACT_TAIL),
	ACT(n2, WIDTH_C, ACT_TAIL),
	ACT(act, WIDTH_I, ACT_TAIL),
	ACT(x_in, WIDTH_C, ACT_ELEM),
	ACT(rstd1, WIDTH_1, ACT_F32),
	ACT(qkv, WIDTH_QKV, ACT_ELEM),
	ACT(att, WIDTH_Q, ACT_TAIL),
	ACT(lse, WIDTH_NH, ACT_F32),
	ACT(x_mid, WIDTH_C, ACT_ELEM),
	ACT(rstd2, WIDTH_1, ACT_F32),
	ACT(gu, WIDTH_2I, ACT_ELEM),
	ACT(q, WIDTH_Q, ACT_ELEM),
	ACT(k, WIDTH_KV, ACT_ELEM),
	ACT(rstd_qk, WIDTH_HEADS, ACT_F32),
};
#define RECOMPUTED_ACTS 3
#define QK_NORM_ACTS 3
int act_def_count(const struct model_config *c) { return (int)ARRAY_LEN(act_defs) - (c->qk_norm ? 0 : QK_NORM_ACTS); }

#define PASS(field, w, kind) { offsetof(struct pass, field), w, kind }
static const struct act_def pass_defs[] = {
	PASS(x_last, WIDTH_C, ACT_ELEM),
	PASS(rstd_last, WIDTH_1, ACT_F32),
	PASS(hidden, WIDTH_C, ACT_TAIL),
};
static const struct act_def grad_defs[] = {
	PASS(dhidden, WIDTH_C, ACT_TAIL), PASS(grads.dx, WIDTH_C, ACT_ELEM), PASS(grads.dn, WIDTH_C, ACT_TAIL),
	PASS(grads.dqkv, WIDTH_QKV, ACT_ELEM), PASS(grads.datt, WIDTH_Q, ACT_TAIL), PASS(grads.dgu, WIDTH_2I, ACT_ELEM),
	PASS(grads.dact, WIDTH_I, ACT_TAIL), PASS(grads.dq, WIDTH_Q, ACT_ELEM),
	PASS(grads.dk, WIDTH_KV, ACT_ELEM), /* these two are left out without qk_norm */
};
#define QK_NORM_GRADS 2

void widths_fill(const struct model_config *c, int64_t width[WIDTH_COUNT])
{
	int64_t Q = (int64_t)c->num_attention_heads * c->head_dim, KV = (int64_t)c->num_key_value_heads * c->head_dim;
	width[WIDTH_1] = 1;
	width[WIDTH_C] = c->hidden_size;
	width[WIDTH_Q] = Q;
	width[WIDTH_KV] = KV;
	width[WIDTH_QKV] = Q + 2 * KV;
	width[WIDTH_NH] = c->num_attention_heads;
	width[WIDTH_HEADS] = c->num_attention_heads + c->num_key_value_heads;
	width[WIDTH_I] = c->intermediate_size;
	width[WIDTH_2I] = 2 * (int64_t)c->intermediate_size;
}

size_t acts_carve(const struct ops *ops, const struct act_def *defs, int ndefs, const int64_t *width, int64_t T,
	void *out, char *base)
{
	size_t used = 0;
	for (int i = 0; i < ndefs; i++) {
		size_t columns = (size_t)(width[defs[i].width] + (defs[i].kind == ACT_TAIL ? tail_of(ops) : 0));
		size_t size = defs[i].kind == ACT_F32 ? sizeof(float) : elem_bytes_of(ops);
		if (base) *(void **)((char *)out + defs[i].offset) = base + used;
		used += (size_mul(size_mul((size_t)T, columns), size) + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
	}
	return used;
}

void acts_alias(const struct model_config *c, struct acts *a)
{
	if (!c->qk_norm) a->q = a->k = a->qkv;
}

/* Carves everything when p is given; returns the bytes of the activations. */
static size_t carve(
	const struct ops *ops, const struct model_config *c, const struct pass_options *o, struct pass *p, char *base)
{
	int64_t width[WIDTH_COUNT];
	int layers = o->backward ? c->num_hidden_layers : 1, acts = act_def_count(c), T = o->max_tokens,
		grads = (int)ARRAY_LEN(grad_defs) - (c->qk_norm ? 0 : QK_NORM_GRADS);
	size_t used = 0;
	int shared = o->recompute ? RECOMPUTED_ACTS : 0;
	widths_fill(c, width);
	/* What all layers share comes first: each layer's pointers lead to the same place. */
	for (int l = 0; l < layers && shared && p; l++) acts_carve(ops, act_defs, shared, width, T, &p->layers[l], base);
	used += acts_carve(ops, act_defs, shared, width, T, NULL, NULL);
	for (int l = 0; l < layers; l++)
		used += acts_carve(
			ops, act_defs + shared, acts - shared, width, T, p ? &p->layers[l] : NULL, base ? base + used : NULL);
	used += acts_carve(ops, pass_defs, ARRAY_LEN(pass_defs), width, T, p, base ? base + used : NULL);
	if (o->backward) used += acts_carve(ops, grad_defs, grads, width, T, p, base ? base + used : NULL);
	return used;
}

/* What the CPU keeps for an adapter's thin products: a dropped-out input, and two (T, R). */
static size_t thin_bytes(const struct ops *ops, const struct model_config *c, const struct pass_options *o)
{
	int64_t width[WIDTH_COUNT];
	if (ops && !ops->host_memory) return 0;
	widths_fill(c, width);
	int64_t columns = MAX(MAX(width[WIDTH_Q], width[WIDTH_C]), width[WIDTH_I]) + 2 * ADAPTER_RANK_MAX;
	return size_mul(size_mul((size_t)o->max_tokens, (size_t)columns), sizeof(float));
}

int pass_head_rows(const struct model_config *c, const struct pass_options *o)
{
	int64_t rows = o->head_rows > 0 ? o->head_rows : MAX((16 << 20) / c->vocab_size, 32);
	return (int)MIN(MIN(rows, o->max_tokens), OPS_FETCH_MAX / OPS_FIGURES);
}

/* On a device two chunks' logits: it makes one's while the host looks at the other's. */
static int head_buffers(const struct ops *ops, const struct pass_options *o)
{
	return o->backward && ops && !ops->host_memory ? HEAD_BUFFERS : 1;
}

static size_t head_bytes(const struct ops *ops, const struct model_config *c, const struct pass_options *o)
{
	size_t x = (size_t)c->hidden_size * elem_bytes_of(ops),
		   buffer = x + ((size_t)c->vocab_size + OPS_FIGURES) * sizeof(float);
	return size_mul((size_t)pass_head_rows(c, o), x + (size_t)head_buffers(ops, o) * buffer);
}

size_t pass_bytes(const struct ops *ops, const struct model_config *c, const struct pass_options *o)
{
	return carve(ops, c, o, NULL, NULL) + head_bytes(ops, c, o) + thin_bytes(ops, c, o);
}

static void head_init(struct head *h, const struct model *m, const struct pass_options *o)
{
	struct ops *ops = m->ops;
	int rows = pass_head_rows(&m->config, o);
	size_t n = (size_t)rows, C = (size_t)m->config.hidden_size, V = (size_t)m->config.vocab_size;
	size_t x_bytes = size_mul(n * C, (size_t)ops->elem_bytes);
	h->rows_max = rows;
	h->group_max = o->max_tokens / rows * rows;
	h->buffers = head_buffers(ops, o);
	for (int i = 0; i < h->buffers; i++)
		h->buffer[i] = (struct head_buffer){.x = ops->alloc(ops->ctx, x_bytes),
			.logits = ops->alloc(ops->ctx, size_mul(n * V, sizeof(float))),
			.out = ops->alloc(ops->ctx, n * OPS_FIGURES * sizeof(float))};
	h->dx = ops->alloc(ops->ctx, x_bytes);
	h->figures = xcalloc(n * OPS_FIGURES, sizeof *h->figures);
	h->logprob = xcalloc(n, sizeof *h->logprob);
	h->entropy = xcalloc(n, sizeof *h->entropy);
	h->g = xcalloc(n, sizeof *h->g);
	h->at = xcalloc((size_t)h->group_max, sizeof *h->at);
	h->target = xcalloc((size_t)h->group_max, sizeof *h->target);
	h->temperature = xcalloc((size_t)h->group_max, sizeof *h->temperature);
}

static void head_release(struct head *h, struct ops *ops)
{
	void *host[] = {h->figures, h->logprob, h->entropy, h->g, h->at, h->target, h->temperature, h->host_logits};
	for (int i = 0; i < h->buffers; i++) {
		ops->release(ops->ctx, h->buffer[i].x);
		ops->release(ops->ctx, h->buffer[i].logits);
		ops->release(ops->ctx, h->buffer[i].out);
	}
	ops->release(ops->ctx, h->dx);
	for (size_t i = 0; i < ARRAY_LEN(host); i++) free(host[i]);
}

size_t model_memory(const struct model *m)
{
	size_t free_bytes, total;
	m->ops->memory(m->ops->ctx, &free_bytes, &total);
	return m->ops->host_memory ? total : free_bytes;
}

static int options_check(const struct model *m, const struct pass_options *o, struct err *err)
{
	if (o->max_tokens < 1 || o->max_tokens > PASS_TOKENS_MAX)
		return err_set(err, ERR_RANGE, "max_tokens %d; expected 1 to %d", o->max_tokens, PASS_TOKENS_MAX);
	/* What stages need of a pass of this size depends on what learns too: that
	 * of the least adapter. */
	struct device_plan d = {.pass = *o, .passes = 1, .adapter_rank = 1};
	int rc = plan_rows_check(m->ops, &m->config, &d, err);
	if (rc) return rc;
	size_t beside = plan_device_bytes(m->ops, &m->config, &d), needed = pass_bytes(m->ops, &m->config, o) + beside;
	double mib = 1.0 / (1 << 20), memory = (double)model_memory(m) * mib;
	if ((double)needed * mib > memory)
		return err_set(err, ERR_LIMIT,
			"activations of %d tokens need %.0f MiB%s%s, device %s gives at most %.0f MiB; lower max_tokens",
			o->max_tokens, (double)needed * mib, o->backward ? " with backward" : "",
			beside ? ", batches and scratch among them" : "", m->ops->name, memory);
	return 0;
}

int pass_create(struct model *m, const struct pass_options *o, struct pass **out, struct err *err)
{
	struct ops *ops = m->ops;
	int rc = options_check(m, o, err);
	if (rc) return rc;
	struct pass *p = xcalloc(1, sizeof *p);
	p->model = m;
	p->options = *o;
	p->nlayers_held = o->backward ? m->config.num_hidden_layers : 1;
	p->layers = xcalloc((size_t)p->nlayers_held, sizeof *p->layers);
	/* One block holds every activation: carve first counts, then gives each its place. */
	p->block = ops->alloc(ops->ctx, carve(ops, &m->config, o, NULL, NULL));
	carve(ops, &m->config, o, p, p->block);
	/* What nobody needs twice shares memory: without backward all layers are one, and the
	 * stream runs in place. */
	for (int l = 0; l < p->nlayers_held; l++) {
		acts_alias(&m->config, &p->layers[l]);
		if (!o->backward) p->layers[l].x_mid = p->layers[l].x_in;
	}
	if (!m->config.qk_norm) p->grads.dq = p->grads.dk = p->grads.dqkv;
	p->sequence = xcalloc((size_t)o->max_tokens, sizeof *p->sequence);
	head_init(&p->head, m, o);
	p->walk.model = m;
	p->walk.recomputes = o->recompute;
	p->walk.batch = ops->batch_create(ops->ctx, o->max_tokens, o->max_tokens, 0, p->head.group_max, 0);
	model_ensure_rope(m, o->max_tokens);
	*out = p;
	return 0;
}

void pass_free(struct pass *p)
{
	if (!p) return;
	struct ops *ops = p->model->ops;
	ops->batch_free(ops->ctx, p->walk.batch);
	ops->release(ops->ctx, p->block);
	head_release(&p->head, ops);
	free(p->layers);
	free(p->sequence);
	free(p);
}

/* The backend keeps the batch: backward needs it again after the caller has packed the next one. */
static void batch_take(struct pass *p, const struct batch *b)
{
	int T = b->packed.T, S = b->packed.S;
	struct ops *ops = p->model->ops;
	CHECKF(T > 0 && T <= p->options.max_tokens, "%d tokens in a pass for %d", T, p->options.max_tokens);
	CHECKF(S > 0 && S <= MIN(T, PASS_SEQUENCES_MAX) && b->packed.start[0] == 0 && b->packed.start[S] == T,
		"%d sequences over %d tokens", S, T);
	for (int t = 0; t < T; t++) {
		int id = b->ids[t], pos = b->packed.pos[t];
		CHECKF(id >= 0 && id < p->model->config.vocab_size, "token %d is %d of %d", t, id, p->model->config.vocab_size);
		CHECKF(pos >= 0 && pos < p->model->rope_positions, "token %d has position %d of %d", t, pos,
			p->model->rope_positions);
	}
	CHECKF(!b->packed.follows || ops->follows, "sequences that follow another, on %s", ops->name);
	for (int s = 0; s < S; s++)
		for (int t = b->packed.start[s]; t < b->packed.start[s + 1]; t++) p->sequence[t] = s;
	struct ops_rows rows = {
		.T = T, .S = S, .ids = b->ids, .pos = b->packed.pos, .sequence = p->sequence, .follows = b->packed.follows};
	p->T = T;
	p->walk.T = ops->batch_put(ops->ctx, p->walk.batch, &rows);
	CHECK(p->walk.T >= T && p->walk.T <= p->options.max_tokens);
}

void pass_forward(struct pass *p, struct adapter *a, const struct batch *b, uint64_t dropout_seed)
{
	struct model *m = p->model;
	struct ops *ops = m->ops;
	int L = m->config.num_hidden_layers;
	model_bind(m, a);
	batch_take(p, b);
	p->walk.adapter = a;
	p->dropout_seed = dropout_seed;
	adapter_dropout(a, dropout_seed);

	ops->embed(ops->ctx, p->layers[0].x_in, &m->embed->w, p->walk.batch, p->walk.T);
	for (int l = 0; l < L; l++) {
		const struct acts *acts = &p->layers[p->options.backward ? l : 0];
		struct elem *x_out = l == L - 1 ? p->x_last : p->options.backward ? p->layers[l + 1].x_in : acts->x_in;
		walk_block(&p->walk, l, acts, x_out);
	}
	ops->norm(
		ops->ctx, p->hidden, p->rstd_last, p->x_last, &m->norm->w, (float)m->config.rms_norm_eps, p->walk.T, NULL);
}
