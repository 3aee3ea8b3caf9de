/* stage_backward: the stages of a block, backward: each file-mate's lines of stage_forward.c in
 * reverse order. Parts are walked from the last to the first, and the first of them sets dx: sums
 * keep their order. Gradients of weights are added where there are any. */
#include "ops_cpu.h"

/* dh = s dy B;  dB += s dy^T h;  dA += dh^T drop(x);  dx += drop'(dh A). h is computed again: it
 * costs r / out of the projection and saves a buffer for each one. */
static void thin_backward(struct ops_context *c, float *dx, const float *dy, const float *x, const struct ops_linear *l,
	struct ops_lora *lora, int part, int T)
{
	struct cpu_ops *f = &c->f;
	const float *A = CONST_FLOATS(lora->a[part].w), *B = CONST_FLOATS(lora->b[part].w);
	int r = lora->r, out = l->w[part].rows;
	bool drops = lora->seed && lora->dropout > 0;
	thin_reserve(c, T, drops ? l->in : 0, r);
	float *h = c->thin.h, *dh = c->thin.dh;

	/* Both gradients of the adapter's own, where it is trained. */
	f->matmul(c, dh, dy, B, T, r, out, false, false, lora->scaling, OPS_SET);
	if (lora->a[part].grad) {
		const float *xd = thin_input(c, lora, part, x, T, l->in);
		f->matmul(c, h, xd, A, T, r, l->in, false, true, 1, OPS_SET);
		f->matmul(c, FLOATS(lora->b[part].grad), dy, h, out, r, T, true, false, lora->scaling, OPS_ADD);
		f->matmul(c, FLOATS(lora->a[part].grad), dh, xd, r, l->in, T, true, false, 1, OPS_ADD);
	}
	/* And the input's, unless nothing below it learns. */
	if (!dx) return;
	if (!drops) {
		f->matmul(c, dx, dh, A, T, l->in, r, false, false, 1, OPS_ADD);
		return;
	}
	/* The mask again, on the gradient this time. */
	f->matmul(c, c->thin.x, dh, A, T, l->in, r, false, false, 1, OPS_SET);
	thin_input(c, lora, part, c->thin.x, T, l->in);
	f->axpy(c, dx, c->thin.x, 1, (int64_t)T * l->in);
}

static void linear_backward(struct ops_context *c, struct elem *dx_out, const struct elem *dy_in, const struct elem *in,
	struct ops_linear *l, struct ops_lora *lora, int T, enum ops_accumulate acc)
{
	struct cpu_ops *f = &c->f;
	float *dx = FLOATS(dx_out);
	const float *x = CONST_FLOATS(in), *dy = CONST_FLOATS(dy_in) + (int64_t)T * l->out;
	for (int i = l->parts; i-- > 0;) {
		struct ops_weight *w = &l->w[i], *bias = &l->bias[i];
		dy -= (int64_t)T * w->rows;
		if (w->grad) f->matmul(c, FLOATS(w->grad), dy, x, w->rows, l->in, T, true, false, 1, OPS_ADD);
		if (bias->w && bias->grad) f->bias_backward(c, FLOATS(bias->grad), dy, T, w->rows);
		if (dx) f->matmul(c, dx, dy, CONST_FLOATS(w->w), T, l->in, w->rows, false, false, 1, acc);
		if (lora && lora->a[i].w) thin_backward(c, dx, dy, x, l, lora, i, T);
		acc = OPS_ADD;
	}
}

static void gate_backward(
	struct ops_context *c, struct elem *dgu, const struct elem *dact, const struct elem *gu, int I, int T)
{
	int64_t n = (int64_t)T * I;
	c->f.silu_mul_backward(
		c, FLOATS(dgu), FLOATS(dgu) + n, CONST_FLOATS(dact), CONST_FLOATS(gu), CONST_FLOATS(gu) + n, n);
}

static void attend_backward(struct ops_context *c, struct elem *dq, struct elem *dk, struct elem *dqkv,
	const struct elem *datt, const struct elem *att, const struct f32 *lse, const struct elem *q, const struct elem *k,
	const struct elem *qkv, const struct ops_heads *h, const struct ops_batch *b, int T)
{
	int64_t Q = (int64_t)h->NH * h->HD, KV = (int64_t)h->NKV * h->HD;
	const float *k_raw = CONST_FLOATS(qkv) + T * Q;
	float *dk_raw = FLOATS(dqkv) + T * Q;
	struct ops_packed packed = batch_packed(b);
	CHECK(T == b->T && (k == qkv) == (dk == dqkv));
	c->f.attention_backward(c, FLOATS(dq), dk == dqkv ? dk_raw : FLOATS(dk), dk_raw + T * KV, CONST_FLOATS(datt),
		CONST_FLOATS(att), CONST_FLOATS(lse), CONST_FLOATS(q), k == qkv ? k_raw : CONST_FLOATS(k), k_raw + T * KV,
		&packed, h->NH, h->NKV, h->HD);
}

/* The rotation is undone on the way into dqkv, then the norm there, in place. */
static void heads_backward(struct ops_context *c, struct elem *dqkv, const struct elem *dq_in, const struct elem *dk_in,
	const struct elem *qkv, const struct f32 *rstd, struct ops_heads *h, const struct ops_batch *b, int T)
{
	struct cpu_ops *f = &c->f;
	int64_t Q = (int64_t)h->NH * h->HD;
	float *dq = FLOATS(dqkv), *dk = dq + T * Q;
	const float *q_raw = CONST_FLOATS(qkv), *k_raw = q_raw + T * Q, *r = CONST_FLOATS(rstd);
	const float *k_from = dk_in == dqkv ? dk : CONST_FLOATS(dk_in);
	CHECK(T == b->T);
	f->rope(c, dq, CONST_FLOATS(dq_in), CONST_FLOATS(h->rope), b->pos, T, h->NH, h->HD, true);
	f->rope(c, dk, k_from, CONST_FLOATS(h->rope), b->pos, T, h->NKV, h->HD, true);
	if (!h->q_norm) return;
	f->rmsnorm_backward(
		c, dq, FLOATS(h->q_norm->grad), dq, q_raw, CONST_FLOATS(h->q_norm->w), r, T * h->NH, h->HD, OPS_SET);
	f->rmsnorm_backward(c, dk, FLOATS(h->k_norm->grad), dk, k_raw, CONST_FLOATS(h->k_norm->w), r + (int64_t)T * h->NH,
		T * h->NKV, h->HD, OPS_SET);
}

static void norm_backward(struct ops_context *c, struct elem *dx, const struct elem *dy, const struct elem *x,
	struct ops_weight *w, const struct f32 *rstd, int T, enum ops_accumulate acc)
{
	c->f.rmsnorm_backward(c, FLOATS(dx), FLOATS(w->grad), CONST_FLOATS(dy), CONST_FLOATS(x), CONST_FLOATS(w->w),
		CONST_FLOATS(rstd), T, w->cols, acc);
}

static void embed_backward(
	struct ops_context *c, struct ops_weight *table, const struct elem *dx, const struct ops_batch *b, int T)
{
	CHECK(T == b->T);
	if (!table->grad) return;
	c->f.embed_backward(c, FLOATS(table->grad), CONST_FLOATS(dx), b->ids, T, table->cols, table->rows);
}

void stage_backward_entries(struct ops *t)
{
	t->linear_backward = linear_backward;
	t->gate_backward = gate_backward;
	t->attend_backward = attend_backward;
	t->heads_backward = heads_backward;
	t->norm_backward = norm_backward;
	t->embed_backward = embed_backward;
}
