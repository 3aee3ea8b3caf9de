/* ops_check: the CPU's table, wrapped for tests, with a GPU's habits. What the walk must keep to on
 * a device is checked here without one:
 *   regions   under one key every repetition makes the same calls with the same pointers and sizes
 *             (nothing is skipped: calls are compared), and none that a recording cannot hold;
 *             releasing memory forgets what was recorded
 *   rows      batch_put and batch_want round up to a multiple of ROWS_STEP; the surplus
 *             rows of every output become NaN, so a reader of them is found, and every
 *             array must have room for them
 *   gu        of a batch of pages becomes NaN behind the gate
 *   tails     a linear's input was written for this linear and this adapter (next), and the
 *             adapter's B, as it is now, was bound to the linear
 *   elements  are rounded to bf16 after each stage, weights when they are put or learn; masters are
 *             fp32 of their own, and host_memory is false
 * It computes with the CPU's arithmetic on these values, so it also tells how much bf16 costs. */
#include "ops/ops_check.h"
#include "base/base.h"
#include "ops/ops_check_internal.h"
#include <math.h>
#include <stdlib.h>

#define ROWS_STEP 8

struct check_batch {
	struct ops_batch *inner;
	int T_max; /* what batch_create was promised: rows, wanted rows, draws */
	int n_max;
	int draws_max;
	int T; /* rows: real ones, and with the padding; likewise the next two pairs */
	int T_padded;
	int n;
	int n_padded;
	int draws;
	int draws_padded;
	int pages;         /* in a row of table */
	int32_t *pos;      /* (T) the host's rows, moved on as sample does; likewise the next two */
	int32_t *sequence; /* (T) */
	int32_t *table;    /* (S, pages) */
	int32_t *at;       /* (draws) the row that each draw moves on */
	int32_t *left;     /* (draws) tokens that it may still draw */
	int32_t stop[OPS_STOPS_MAX];
	int nstop;
	int moving; /* draws that move a row on: all or none */
};

static const struct check_batch *batch_of(const struct ops_batch *b)
{
	return (const struct check_batch *)(const void *)b;
}

/* ---- regions ---- */

static bool begin(struct ops_context *ctx, uint64_t key)
{
	struct check *c = check_of(ctx);
	record_begin(&c->record, key);
	return c->inner->begin(c->ctx, key);
}

static void end(struct ops_context *ctx)
{
	struct check *c = check_of(ctx);
	record_end(&c->record);
	c->inner->end(c->ctx);
}

/* ---- a batch ---- */

static int padded(int n, int max) { return MIN(max, (n + ROWS_STEP - 1) / ROWS_STEP * ROWS_STEP); }

static struct ops_batch *batch_create(struct ops_context *ctx, int T, int S, int pages, int n, int draws)
{
	struct check *c = check_of(ctx);
	check_outside(c, "batch_create");
	struct check_batch *b = xcalloc(1, sizeof *b);
	b->inner = c->inner->batch_create(c->ctx, T, S, pages, n, draws);
	b->T_max = T;
	b->n_max = n;
	b->draws_max = draws;
	b->pos = xcalloc((size_t)T, sizeof *b->pos);
	b->sequence = xcalloc((size_t)T, sizeof *b->sequence);
	b->table = xcalloc(size_mul((size_t)S, (size_t)MAX(pages, 1)), sizeof *b->table);
	b->at = xcalloc((size_t)MAX(draws, 1), sizeof *b->at);
	b->left = xcalloc((size_t)MAX(draws, 1), sizeof *b->left);
	return (struct ops_batch *)(void *)b;
}

static void batch_free(struct ops_context *ctx, struct ops_batch *batch)
{
	struct check *c = check_of(ctx);
	struct check_batch *b = (struct check_batch *)(void *)batch;
	if (!b) return;
	if (c->last == b) c->last = NULL;
	c->inner->batch_free(c->ctx, b->inner);
	free(b->pos);
	free(b->sequence);
	free(b->table);
	free(b->at);
	free(b->left);
	free(b);
}

static int batch_put(struct ops_context *ctx, struct ops_batch *batch, const struct ops_rows *r)
{
	struct check *c = check_of(ctx);
	struct check_batch *b = (struct check_batch *)(void *)batch;
	check_outside(c, "batch_put");
	c->last = b;
	b->T = c->inner->batch_put(c->ctx, b->inner, r);
	b->T_padded = padded(b->T, b->T_max);
	b->n = b->n_padded = 0;
	b->pages = r->table ? r->pages : 0;
	memcpy(b->pos, r->pos, (size_t)r->T * sizeof *b->pos);
	memcpy(b->sequence, r->sequence, (size_t)r->T * sizeof *b->sequence);
	if (r->table) memcpy(b->table, r->table, (size_t)r->S * (size_t)r->pages * sizeof *b->table);
	return b->T_padded;
}

static int batch_want(struct ops_context *ctx, struct ops_batch *batch, const struct ops_want *w)
{
	struct check *c = check_of(ctx);
	struct check_batch *b = (struct check_batch *)(void *)batch;
	check_outside(c, "batch_want");
	b->n = c->inner->batch_want(c->ctx, b->inner, w);
	b->n_padded = padded(b->n, b->n_max);
	b->draws = !w->draw ? 0 : w->from ? w->draws : w->n;
	b->draws_padded = padded(b->draws, b->draws_max);
	b->moving = w->from ? 0 : b->draws;
	for (int i = 0; i < b->moving; i++) {
		b->at[i] = w->at[i];
		b->left[i] = w->left ? w->left[i] : INT32_MAX;
	}
	b->nstop = w->nstop;
	for (int i = 0; i < w->nstop; i++) b->stop[i] = w->stop[i];
	return b->n_padded;
}

/* Of rows first..first + n of the padded ones, how many are real. */
static int wanted(const struct check_batch *b, int first, int n)
{
	CHECKF(first >= 0 && first + n <= b->n_padded, "rows %d to %d of %d wanted ones", first, first + n, b->n_padded);
	return MAX(0, MIN(n, b->n - first));
}

/* The rows that a stage called with T means. batch NULL: of the one last named. */
static int rows_of(struct check *c, const struct ops_batch *batch, const char *name, int T)
{
	const struct check_batch *b = batch ? batch_of(batch) : c->last;
	CHECKF(b, "%s: no batch was put", name);
	c->last = b;
	CHECKF(T == b->T_padded, "%s: called with %d rows, batch_put gave %d", name, T, b->T_padded);
	return b->T;
}

/* ---- outputs ---- */

/* An output of `width` values a row: rounded; the surplus rows are nobody's. */
static void output(const struct check *c, const char *name, const void *p, int rows, int padded_rows, int64_t width)
{
	float *x = (float *)(uintptr_t)p;
	check_room(c, name, p, padded_rows * width);
	check_rounded(x, rows * width);
	for (int64_t i = rows * width; i < padded_rows * width; i++) x[i] = NAN;
}

/* The same of fp32: nothing is rounded. */
static void output_f32(const struct check *c, const char *name, const void *p, int rows, int padded_rows, int64_t width)
{
	float *x = (float *)(uintptr_t)p;
	if (!p) return;
	check_room(c, name, p, padded_rows * width);
	for (int64_t i = rows * width; i < padded_rows * width; i++) x[i] = NAN;
}

/* ---- forward ---- */

static void embed(
	struct ops_context *ctx, struct elem *x, const struct ops_weight *table, const struct ops_batch *b, int T)
{
	struct check *c = check_of(ctx);
	int rows = rows_of(c, b, "embed", T);
	CALL(c, "embed", P(x), P(table->w), P(b), N(T));
	c->inner->embed(c->ctx, x, table, batch_of(b)->inner, rows);
	output(c, "embed", x, rows, T, table->cols);
}

static void norm(struct ops_context *ctx, struct elem *y, struct f32 *rstd, const struct elem *x,
	const struct ops_weight *w, float eps, int T, const struct ops_next *next)
{
	struct check *c = check_of(ctx);
	int rows = rows_of(c, NULL, "norm", T);
	CALL(c, "norm", P(y), P(rstd), P(x), P(w->w), N(T), hash_next(next));
	c->inner->norm(c->ctx, y, rstd, x, w, eps, rows, next);
	output(c, "norm", y, rows, T, w->cols);
	tail_write(&c->record, y, next);
	output_f32(c, "norm's rstd", rstd, rows, T, 1);
}

static void linear(struct ops_context *ctx, struct elem *y, const struct elem *x, const struct ops_linear *l,
	const struct ops_lora *lora, const struct elem *add, int T)
{
	struct check *c = check_of(ctx);
	int rows = rows_of(c, NULL, "linear", T);
	tail_read(&c->record, x, l, lora);
	CALL(c, "linear", P(y), P(x), P(add), N(T), hash_linear(l), hash_lora(lora));
	c->inner->linear(c->ctx, y, x, l, lora, add, rows);
	output(c, "linear", y, rows, T, l->out);
}

/* Whole pages: how a row lies in one is the inner backend's business. */
static void pages_round(const struct check_batch *b, struct elem *pages, int64_t page)
{
	for (int t = 0; t < b->T; t++) {
		int32_t id = b->table[(int64_t)b->sequence[t] * b->pages + b->pos[t] / OPS_PAGE];
		check_rounded((float *)pages + id * page, page);
	}
}

static void heads(struct ops_context *ctx, struct elem *q, struct elem *k, struct f32 *rstd, struct elem *qkv,
	struct elem *kpages, struct elem *vpages, const struct ops_heads *h, const struct ops_batch *batch, int T)
{
	struct check *c = check_of(ctx);
	const struct check_batch *b = batch_of(batch);
	int rows = rows_of(c, batch, "heads", T);
	int64_t Q = (int64_t)h->NH * h->HD, KV = (int64_t)h->NKV * h->HD;
	CALL(c, "heads", P(q), P(k), P(rstd), P(qkv), P(kpages), P(vpages), P(b), N(T), hash_heads(h));
	c->inner->heads(c->ctx, q, k, rstd, qkv, kpages, vpages, h, b->inner, rows);
	output(c, "heads' qkv", qkv, rows, T, Q + 2 * KV);
	if (q != qkv) output(c, "heads' q", q, rows, T, Q);
	if (k != qkv) output(c, "heads' k", k, rows, T, KV);
	output_f32(c, "heads' rstd", rstd, rows, T, h->NH + h->NKV);
	if (kpages) pages_round(b, kpages, OPS_PAGE * KV);
	if (vpages) pages_round(b, vpages, OPS_PAGE * KV);
}

static void attend(struct ops_context *ctx, struct elem *att, struct f32 *lse, const struct elem *q,
	const struct elem *k, const struct elem *qkv, const struct ops_heads *h, const struct ops_batch *b, int T,
	const struct ops_next *next)
{
	struct check *c = check_of(ctx);
	int rows = rows_of(c, b, "attend", T);
	CALL(c, "attend", P(att), P(lse), P(q), P(k), P(qkv), P(b), N(T), hash_heads(h), hash_next(next));
	c->inner->attend(c->ctx, att, lse, q, k, qkv, h, batch_of(b)->inner, rows, next);
	output(c, "attend", att, rows, T, (int64_t)h->NH * h->HD);
	tail_write(&c->record, att, next);
	output_f32(c, "attend's lse", lse, rows, T, h->NH);
}

static void attend_paged(struct ops_context *ctx, struct elem *att, const struct elem *q, const struct elem *kpages,
	const struct elem *vpages, const struct ops_heads *h, const struct ops_batch *b, int T, const struct ops_next *next)
{
	struct check *c = check_of(ctx);
	int rows = rows_of(c, b, "attend_paged", T);
	CALL(c, "attend_paged", P(att), P(q), P(kpages), P(vpages), P(b), N(T), hash_heads(h), hash_next(next));
	c->inner->attend_paged(c->ctx, att, q, kpages, vpages, h, batch_of(b)->inner, rows, next);
	output(c, "attend_paged", att, rows, T, (int64_t)h->NH * h->HD);
	tail_write(&c->record, att, next);
}

static void gate(
	struct ops_context *ctx, struct elem *act, const struct elem *gu, int I, int T, const struct ops_next *next)
{
	struct check *c = check_of(ctx);
	int rows = rows_of(c, NULL, "gate", T);
	CALL(c, "gate", P(act), P(gu), N(I), N(T), hash_next(next));
	c->inner->gate(c->ctx, act, gu, I, rows, next);
	output(c, "gate", act, rows, T, I);
	/* gu is spent where nothing is computed backward: who reads it then is found. */
	float *spent = (float *)(uintptr_t)gu;
	for (int64_t i = 0; c->last->pages && i < (int64_t)T * 2 * I; i++) spent[i] = NAN;
	tail_write(&c->record, act, next);
}

/* ---- the head ---- */

static void gather(struct ops_context *ctx, struct elem *out, const struct elem *x, int C, int x_tail,
	const struct ops_batch *batch, int first, int n)
{
	struct check *c = check_of(ctx);
	const struct check_batch *b = batch_of(batch);
	c->last = b;
	c->chunk = n;
	c->chunk_real = wanted(b, first, n);
	CALL(c, "gather", P(out), P(x), N(C), P(b), N(first), N(n));
	c->inner->gather(c->ctx, out, x, C, x_tail, b->inner, first, c->chunk_real);
	output(c, "gather", out, c->chunk_real, n, C);
}

static void logits(struct ops_context *ctx, struct f32 *out, const struct elem *x, const struct ops_linear *head, int n)
{
	struct check *c = check_of(ctx);
	CHECKF(n == c->chunk, "logits of %d rows, gathered were %d", n, c->chunk);
	CALL(c, "logits", P(out), P(x), N(n), hash_linear(head));
	c->inner->logits(c->ctx, out, x, head, c->chunk_real);
	output_f32(c, "logits", out, c->chunk_real, n, head->out);
}

static void logprob(
	struct ops_context *ctx, struct f32 *out, const struct f32 *in, const struct ops_batch *b, int first, int n, int V)
{
	struct check *c = check_of(ctx);
	int rows = wanted(batch_of(b), first, n);
	CALL(c, "logprob", P(out), P(in), P(b), N(first), N(n), N(V));
	c->inner->logprob(c->ctx, out, in, batch_of(b)->inner, first, rows, V);
	output_f32(c, "logprob", out, rows, n, OPS_FIGURES);
}

/* Where the rows stand behind a draw, by ops.h's rule: counted here too, since
 * pages are rounded by it. */
static void rows_move(struct check_batch *b, const int32_t *drawn)
{
	for (int i = 0; i < b->moving; i++) {
		bool was_over = b->left[i] == 0;
		CHECKF(was_over == (drawn[i] < 0), "row %d draws %d with %d tokens left", i, drawn[i], b->left[i]);
		if (!was_over) b->left[i]--;
		for (int k = 0; k < b->nstop; k++)
			if (drawn[i] == b->stop[k]) b->left[i] = 0;
		if (b->left[i]) b->pos[b->at[i]]++;
	}
}

static void sample(struct ops_context *ctx, struct i32 *drawn, struct f32 *out, const struct f32 *in,
	struct ops_batch *batch, int n, int V)
{
	struct check *c = check_of(ctx);
	struct check_batch *b = (struct check_batch *)(void *)batch;
	int rows = wanted(b, 0, n);
	CALL(c, "sample", P(drawn), P(out), P(in), P(b), N(n), N(V));
	CHECKF(n == b->n_padded, "sample called with %d rows, batch_want gave %d", n, b->n_padded);
	c->inner->sample(c->ctx, drawn, out, in, b->inner, rows, V);
	check_room(c, "sample", drawn, b->draws_padded);
	rows_move(b, (const int32_t *)drawn);
	for (int i = b->draws; i < b->draws_padded; i++) ((int32_t *)drawn)[i] = -1;
	output_f32(c, "sample's log-probabilities", out, b->draws, b->draws_padded, 1);
}

static void head_backward(struct ops_context *ctx, struct elem *dx, struct f32 *in, const struct f32 *out,
	const float *g, const struct elem *x, struct ops_linear *head, const struct ops_batch *b, int first, int n, int V)
{
	struct check *c = check_of(ctx);
	int rows = wanted(batch_of(b), first, n);
	check_outside(c, "head_backward"); /* g is the host's */
	for (int i = rows; i < n; i++) CHECKF(g[i] == 0, "surplus row %d has a gradient of %g", i, (double)g[i]);
	c->inner->head_backward(c->ctx, dx, in, out, g, x, head, batch_of(b)->inner, first, rows, V);
	output(c, "head_backward", dx, rows, n, head->in);
}

static void scatter(struct ops_context *ctx, struct elem *dx, const struct elem *d, int C, int dx_tail,
	const struct ops_batch *batch, int first, int n)
{
	struct check *c = check_of(ctx);
	const struct check_batch *b = batch_of(batch);
	c->last = b;
	CALL(c, "scatter", P(dx), P(d), N(C), P(b), N(first), N(n));
	c->inner->scatter(c->ctx, dx, d, C, dx_tail, b->inner, first, wanted(b, first, n));
	output(c, "scatter", dx, b->T, b->T_padded, C);
}

/* ---- backward ---- */

static void linear_backward(struct ops_context *ctx, struct elem *dx, const struct elem *dy, const struct elem *x,
	struct ops_linear *l, struct ops_lora *lora, int T, enum ops_accumulate acc)
{
	struct check *c = check_of(ctx);
	int rows = rows_of(c, NULL, "linear_backward", T);
	CALL(c, "linear_backward", P(dx), P(dy), P(x), N(T), hash_linear(l), hash_lora(lora), N(acc));
	c->inner->linear_backward(c->ctx, dx, dy, x, l, lora, rows, acc);
	if (dx) output(c, "linear_backward", dx, rows, T, l->in);
}

static void gate_backward(
	struct ops_context *ctx, struct elem *dgu, const struct elem *dact, const struct elem *gu, int I, int T)
{
	struct check *c = check_of(ctx);
	int rows = rows_of(c, NULL, "gate_backward", T);
	CALL(c, "gate_backward", P(dgu), P(dact), P(gu), N(I), N(T));
	c->inner->gate_backward(c->ctx, dgu, dact, gu, I, rows);
	output(c, "gate_backward", dgu, rows, T, 2 * (int64_t)I);
}

static void attend_backward(struct ops_context *ctx, struct elem *dq, struct elem *dk, struct elem *dqkv,
	const struct elem *datt, const struct elem *att, const struct f32 *lse, const struct elem *q, const struct elem *k,
	const struct elem *qkv, const struct ops_heads *h, const struct ops_batch *b, int T)
{
	struct check *c = check_of(ctx);
	int rows = rows_of(c, b, "attend_backward", T);
	int64_t Q = (int64_t)h->NH * h->HD, KV = (int64_t)h->NKV * h->HD;
	CALL(c, "attend_backward", P(dq), P(dk), P(dqkv), P(datt), P(att), P(lse), P(q), P(k), P(qkv), P(b), N(T));
	c->inner->attend_backward(c->ctx, dq, dk, dqkv, datt, att, lse, q, k, qkv, h, batch_of(b)->inner, rows);
	output(c, "attend_backward's dqkv", dqkv, rows, T, Q + 2 * KV);
	if (dq != dqkv) output(c, "attend_backward's dq", dq, rows, T, Q);
	if (dk != dqkv) output(c, "attend_backward's dk", dk, rows, T, KV);
}

static void heads_backward(struct ops_context *ctx, struct elem *dqkv, const struct elem *dq, const struct elem *dk,
	const struct elem *qkv, const struct f32 *rstd, struct ops_heads *h, const struct ops_batch *b, int T)
{
	struct check *c = check_of(ctx);
	int rows = rows_of(c, b, "heads_backward", T);
	CALL(c, "heads_backward", P(dqkv), P(dq), P(dk), P(qkv), P(rstd), P(b), N(T), hash_heads(h));
	c->inner->heads_backward(c->ctx, dqkv, dq, dk, qkv, rstd, h, batch_of(b)->inner, rows);
	output(c, "heads_backward", dqkv, rows, T, (int64_t)(h->NH + 2 * h->NKV) * h->HD);
}

static void norm_backward(struct ops_context *ctx, struct elem *dx, const struct elem *dy, const struct elem *x,
	struct ops_weight *w, const struct f32 *rstd, int T, enum ops_accumulate acc)
{
	struct check *c = check_of(ctx);
	int rows = rows_of(c, NULL, "norm_backward", T);
	CALL(c, "norm_backward", P(dx), P(dy), P(x), P(w->w), P(rstd), N(T), N(acc));
	c->inner->norm_backward(c->ctx, dx, dy, x, w, rstd, rows, acc);
	output(c, "norm_backward", dx, rows, T, w->cols);
}

static void embed_backward(
	struct ops_context *ctx, struct ops_weight *table, const struct elem *dx, const struct ops_batch *b, int T)
{
	struct check *c = check_of(ctx);
	int rows = rows_of(c, b, "embed_backward", T);
	CALL(c, "embed_backward", P(table->grad), P(dx), P(b), N(T));
	c->inner->embed_backward(c->ctx, table, dx, batch_of(b)->inner, rows);
}

/* ---- optimiser ---- */

static double sum_squares(struct ops_context *ctx, struct ops_weight *const *weights, int n)
{
	struct check *c = check_of(ctx);
	check_outside(c, "sum_squares");
	return c->inner->sum_squares(c->ctx, weights, n);
}

/* On the masters; the weights follow. */
static void adamw(struct ops_context *ctx, struct ops_weight *const *weights, int n, const struct ops_adamw *o)
{
	struct check *c = check_of(ctx);
	check_outside(c, "adamw");
	c->inner->adamw(c->ctx, weights, n, o);
	for (int i = 0; i < n; i++) {
		int64_t count = (int64_t)weights[i]->rows * weights[i]->cols;
		c->inner->get_f32(c->ctx, (float *)weights[i]->w, weights[i]->master, count);
		check_rounded((float *)weights[i]->w, count);
	}
}

/* ---- the table ---- */

static void check_close(struct ops *ops)
{
	struct check *c = check_of(ops->ctx);
	record_release(&c->record);
	CHECKF(c->nblocks == 0, "%d arrays were not released", c->nblocks);
	ops_free(c->inner);
	free(c->blocks);
	free(c);
	free(ops);
}

int ops_check_create(const struct ops_options *o, struct ops **out, struct err *err)
{
	/* The CPU does the work. */
	struct check *c = xcalloc(1, sizeof *c);
	int rc = ops_cpu_create(o, &c->inner, err);
	if (rc) {
		free(c);
		return rc;
	}
	/* Every entry goes through a wrapper of its own; what is told of the memory is a GPU's. */
	c->ctx = c->inner->ctx;
	record_init(&c->record);
	*out = xcalloc(1, sizeof **out);
	**out = (struct ops){.name = "check",
		.ctx = (struct ops_context *)(void *)c,
		.elem_bytes = sizeof(float),
		.follows = true,
		.batch_invariant = true,
		.limits = c->inner->limits,
		.batch_create = batch_create,
		.batch_free = batch_free,
		.batch_put = batch_put,
		.batch_want = batch_want,
		.begin = begin,
		.end = end,
		.embed = embed,
		.norm = norm,
		.linear = linear,
		.heads = heads,
		.attend = attend,
		.attend_paged = attend_paged,
		.gate = gate,
		.gather = gather,
		.logits = logits,
		.logprob = logprob,
		.sample = sample,
		.head_backward = head_backward,
		.scatter = scatter,
		.linear_backward = linear_backward,
		.gate_backward = gate_backward,
		.attend_backward = attend_backward,
		.heads_backward = heads_backward,
		.norm_backward = norm_backward,
		.embed_backward = embed_backward,
		.sum_squares = sum_squares,
		.adamw = adamw,
		.close = check_close};
	check_memory_entries(*out);
	return 0;
}
