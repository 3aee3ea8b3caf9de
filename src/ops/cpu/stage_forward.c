/* stage_forward: the stages of a block, forward. Inside qkv lie the planes q (T, Q), k (T, KV) and
 * v (T, KV) one after the other, inside gu gate (T, I) and up (T, I): parts of a linear are planes
 * of its output. There is no tail, so a linear makes its thin products itself:
 *   y = x W^T + bias + scaling * (drop(x) A^T) B^T */
#include "ops_cpu.h"

static void embed(
	struct ops_context *c, struct elem *x, const struct ops_weight *table, const struct ops_batch *b, int T)
{
	CHECK(T == b->T);
	c->f.embed(c, FLOATS(x), CONST_FLOATS(table->w), b->ids, T, table->cols);
}

static void norm(struct ops_context *c, struct elem *y, struct f32 *rstd, const struct elem *x,
	const struct ops_weight *w, float eps, int T, const struct ops_next *next)
{
	c->f.rmsnorm(c, FLOATS(y), FLOATS(rstd), CONST_FLOATS(x), CONST_FLOATS(w->w), eps, T, w->cols);
}

/* ---- linear ---- */

const float *thin_input(struct ops_context *c, const struct ops_lora *l, int part, const float *x, int T, int in)
{
	if (!l->seed || l->dropout <= 0) return x;
	c->f.dropout(c, c->thin.x, x, l->dropout, l->seed, l->stream + (uint64_t)part, (int64_t)T * in);
	return c->thin.x;
}

static void thin_products(struct ops_context *c, float *y, const float *x, const struct ops_linear *l,
	const struct ops_lora *lora, int part, int T)
{
	const struct ops_weight *a = &lora->a[part], *b = &lora->b[part];
	thin_reserve(c, T, lora->seed && lora->dropout > 0 ? l->in : 0, lora->r);
	const float *xd = thin_input(c, lora, part, x, T, l->in);
	c->f.matmul(c, c->thin.h, xd, CONST_FLOATS(a->w), T, lora->r, l->in, false, true, 1, OPS_SET);
	c->f.matmul(c, y, c->thin.h, CONST_FLOATS(b->w), T, l->w[part].rows, lora->r, false, true, lora->scaling, OPS_ADD);
}

static void linear(struct ops_context *c, struct elem *out, const struct elem *in, const struct ops_linear *l,
	const struct ops_lora *lora, const struct elem *add, int T)
{
	float *y = FLOATS(out);
	const float *x = CONST_FLOATS(in);
	if (add && add != out) memcpy(y, add, size_mul((size_t)T, (size_t)l->out) * sizeof *y);
	for (int i = 0; i < l->parts; i++) {
		const struct ops_weight *w = &l->w[i];
		c->f.matmul(c, y, x, CONST_FLOATS(w->w), T, w->rows, l->in, false, true, 1, add ? OPS_ADD : OPS_SET);
		if (l->bias[i].w) c->f.bias_add(c, y, CONST_FLOATS(l->bias[i].w), T, w->rows);
		if (lora && lora->a[i].w) thin_products(c, y, x, l, lora, i, T);
		y += (int64_t)T * w->rows;
	}
}

/* ---- attention ---- */

static void heads(struct ops_context *c, struct elem *q_out, struct elem *k_out, struct f32 *rstd, struct elem *qkv,
	struct elem *kpages, struct elem *vpages, const struct ops_heads *h, const struct ops_batch *b, int T)
{
	int64_t Q = (int64_t)h->NH * h->HD, KV = (int64_t)h->NKV * h->HD;
	float *q_raw = FLOATS(qkv), *k_raw = q_raw + T * Q, *v = k_raw + T * KV;
	float *q = q_raw, *k = k_raw, *r = FLOATS(rstd);
	CHECK(T == b->T && (h->q_norm ? q_out != qkv : q_out == qkv && k_out == qkv));
	if (h->q_norm) {
		q = FLOATS(q_out);
		k = FLOATS(k_out);
		c->f.rmsnorm(c, q, r, q_raw, CONST_FLOATS(h->q_norm->w), h->eps, T * h->NH, h->HD);
		c->f.rmsnorm(
			c, k, r ? r + (int64_t)T * h->NH : NULL, k_raw, CONST_FLOATS(h->k_norm->w), h->eps, T * h->NKV, h->HD);
	}
	c->f.rope(c, q, q, CONST_FLOATS(h->rope), b->pos, T, h->NH, h->HD, false);
	c->f.rope(c, k, k, CONST_FLOATS(h->rope), b->pos, T, h->NKV, h->HD, false);
	if (!kpages) return;
	struct ops_paged paged = batch_paged(b);
	for (int t = 0; t < T; t++) CHECKF(b->slot[t] >= 0, "row %d has position %d, behind its pages", t, b->pos[t]);
	c->f.kv_write(c, FLOATS(kpages), FLOATS(vpages), k, v, &paged, h->NKV, h->HD);
}

static void attend(struct ops_context *c, struct elem *att, struct f32 *lse, const struct elem *q, const struct elem *k,
	const struct elem *qkv, const struct ops_heads *h, const struct ops_batch *b, int T, const struct ops_next *next)
{
	int64_t Q = (int64_t)h->NH * h->HD, KV = (int64_t)h->NKV * h->HD;
	const float *k_raw = CONST_FLOATS(qkv) + T * Q;
	struct ops_packed packed = batch_packed(b);
	CHECK(T == b->T && b->pages == 0);
	c->f.attention(c, FLOATS(att), FLOATS(lse), CONST_FLOATS(q), k == qkv ? k_raw : CONST_FLOATS(k), k_raw + T * KV,
		&packed, h->NH, h->NKV, h->HD);
}

static void attend_paged(struct ops_context *c, struct elem *att, const struct elem *q, const struct elem *kpages,
	const struct elem *vpages, const struct ops_heads *h, const struct ops_batch *b, int T, const struct ops_next *next)
{
	struct ops_paged paged = batch_paged(b);
	CHECK(T == b->T && b->pages > 0);
	c->f.attention_paged(
		c, FLOATS(att), CONST_FLOATS(q), CONST_FLOATS(kpages), CONST_FLOATS(vpages), &paged, h->NH, h->NKV, h->HD);
}

static void gate(
	struct ops_context *c, struct elem *act, const struct elem *gu, int I, int T, const struct ops_next *next)
{
	int64_t n = (int64_t)T * I;
	c->f.silu_mul(c, FLOATS(act), CONST_FLOATS(gu), CONST_FLOATS(gu) + n, n);
}

void stage_forward_entries(struct ops *t)
{
	t->embed = embed;
	t->norm = norm;
	t->linear = linear;
	t->heads = heads;
	t->attend = attend;
	t->attend_paged = attend_paged;
	t->gate = gate;
}
