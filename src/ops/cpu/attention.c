/* attention: causal softmax attention, packed (training, scoring) and paged (generation), in one
 * routine: attend().
 *
 * Online softmax (Milakov & Gimelshein 2018, arXiv 1805.02867) over blocks of KEYS keys counted
 * from position 0. For a query the arithmetic is the same in both forms, alone or among others:
 * products are chains over head size or over keys in order (gemm_kernel.h), masked keys have weight
 * exactly 0, and everything else is per row. (A masked key contributes 0 * v: a value that is not
 * finite spreads to earlier tokens of its block of queries. Nothing that trains comes near this.)
 *
 * A packed sequence that follows another reads the same blocks as if its past stood before it: a
 * row's bits do not tell whether the beginning of its sequence is shared.
 *
 * Pages. A page holds KEYS tokens of all key/value heads. Keys are stored as the panels that
 * scores_run reads, (NKV, KEYS / NR, HD, NR), so that a decode step packs nothing; values as they
 * come, (KEYS, NKV, HD). */
#include <math.h>
#include "attention_block.h"

/* One thread's working memory; v_row and HD: struct attention_args. */
struct scratch {
	float *q;      /* (ROWS_MAX, A_ROW) queries, scaled */
	float *scores; /* (ROWS_MAX, A_ROW) of a block of keys; then their weights */
	float *acc;    /* (ROWS_MAX, HD) weighted values so far */
	float *top;    /* (ROWS_MAX) largest score so far */
	float *sums;   /* (ROWS_MAX, VL) sums of weights so far, in lanes */
	float *panels; /* (KEYS, HD) keys of a block, packed for the product */
	float *k;      /* (KEYS, HD) keys of a block that do not lie side by side */
	float *v;      /* (KEYS, HD) their values */
};

static struct scratch scratch_carve(float *p)
{
	_Static_assert(
		2 * ROWS_MAX * A_ROW + ROWS_MAX * (HEAD_DIM_MAX + 1 + VL) + 3 * KEYS * HEAD_DIM_MAX <= SCRATCH_FLOATS,
		"attention's scratch");
	struct scratch s = {.q = p};
	s.scores = s.q + ROWS_MAX * A_ROW;
	s.acc = s.scores + ROWS_MAX * A_ROW;
	s.top = s.acc + ROWS_MAX * HEAD_DIM_MAX;
	s.sums = s.top + ROWS_MAX;
	s.panels = s.sums + ROWS_MAX * VL;
	s.k = s.panels + KEYS * HEAD_DIM_MAX;
	s.v = s.k + KEYS * HEAD_DIM_MAX;
	return s;
}

/* One row, one block: scores become weights relative to the running maximum; what was summed before
 * is scaled when the maximum grew. */
static inline void softmax_advance(float *scores, float *top, float *sums, float *acc, int nvisible, int HD)
{
	/* Keys behind the last visible one get -inf: they do not raise the maximum, and their weights
	 * become 0. */
	vf x[KEY_VECTORS], m = vf_set1(-INFINITY);
	for (int i = 0; i < KEY_VECTORS; i++) {
		x[i] = visible(vf_load(scores + i * VL), i, nvisible, -INFINITY);
		m = vf_max(m, x[i]);
	}
	float block_top = vf_hmax(m);
	/* A larger maximum than before changes the unit of what was summed, so sums and values are
	 * scaled to it. */
	vf sum = vf_load(sums);
	if (block_top > *top) {
		vf keep = vf_exp(vf_set1(*top - block_top)); /* 0 at the first block */
		sum = vf_mul(sum, keep);
		for (int d = 0; d < HD; d += VL) {
			int n = MIN(VL, HD - d);
			vf_store_n(acc + d, vf_mul(vf_load_n(acc + d, n), keep), n);
		}
		*top = block_top;
	}
	/* The scores are replaced by their weights, which the product with the values reads next. The
	 * sum stays in lanes until the last block. */
	vf shift = vf_set1(*top);
	for (int i = 0; i < KEY_VECTORS; i++) {
		vf p = vf_exp(vf_sub(x[i], shift));
		sum = vf_add(sum, p);
		vf_store(scores + i * VL, p);
	}
	vf_store(sums, sum);
}

struct keys {            /* one block */
	const float *panels; /* (KEYS, HD) keys, packed */
	const float *v;      /* (KEYS, HD) values, v_row apart */
	int64_t v_row;       /* elements */
};
typedef struct keys keys_fn(
	const struct attention_args *a, const void *where, int block, int n, int head, const struct scratch *s);

/* Queries of `tokens` consecutive positions from p0 on, batch rows from t on, all heads of
 * key/value head g. */
static void attend(const struct attention_args *a, int t, int tokens, int p0, int g, keys_fn *keys_of,
	const void *where, float *scratch)
{
	struct scratch s = scratch_carve(scratch);
	int HD = a->HD, rows = tokens * a->group;
	/* The heads of a group share their keys and values, so their queries become rows of one
	 * product. */
	int64_t first = ((int64_t)t * a->NH + (int64_t)g * a->group) * HD;
	rows_gather(s.q, a->q + first, a, tokens, a->scale);
	memset(s.acc, 0, (size_t)rows * (size_t)HD * sizeof(float));
	memset(s.sums, 0, (size_t)rows * VL * sizeof(float));
	for (int r = 0; r < rows; r++) s.top[r] = -INFINITY;
	/* Blocks of keys up to the last query's own position: scores, then weights, then the weighted
	 * values. */
	for (int j = 0; j < p0 + tokens; j += KEYS) {
		int n = MIN(KEYS, p0 + tokens - j), r0 = MAX(0, j - p0) * a->group; /* rows before r0 see none of these keys */
		struct keys k = keys_of(a, where, j / KEYS, n, g, &s);
		scores_run(s.scores + r0 * A_ROW, s.q + r0 * A_ROW, k.panels, rows - r0, HD);
		for (int r = r0; r < rows; r++)
			softmax_advance(
				s.scores + r * A_ROW, &s.top[r], s.sums + r * VL, s.acc + r * HD, p0 + r / a->group + 1 - j, HD);
		/* The weights of keys that a row does not see are 0 by now, so all rows take part in one
		 * product. */
		struct tile values = {.a = s.scores + r0 * A_ROW,
			.b = k.v,
			.b_row = k.v_row,
			.c = s.acc + r0 * HD,
			.c_row = HD,
			.K = n,
			.alpha = 1,
			.add = true};
		tiles_run(values, rows - r0, HD);
	}
	/* Dividing by the sum at the end saves normalising at every block. */
	for (int r = 0; r < rows; r++) {
		float *out = a->out + first + ((int64_t)(r / a->group) * a->NH + r % a->group) * HD,
			  sum = vf_sum(vf_load(s.sums + r * VL)), inverse = 1.0f / sum;
		for (int d = 0; d < HD; d++) out[d] = s.acc[r * HD + d] * inverse;
		if (a->lse_out)
			a->lse_out[(int64_t)(t + r / a->group) * a->NH + g * a->group + r % a->group] = s.top[r] + logf(sum);
	}
}

/* ---- packed: tasks are (span of tokens_max batch rows, key/value head); a span may hold parts of
 * several sequences ---- */

/* A block of the sequence's own past: rows side by side, or rows of several sequences, copied side
 * by side first. */
static struct keys packed_keys(
	const struct attention_args *a, const void *where, int block, int n, int head, const struct scratch *s)
{
	int64_t stride = (int64_t)a->NKV * a->HD, own = (int64_t)head * a->HD;
	struct past_run run = past_run(a->packed, *(const int *)where, block * KEYS);
	if (run.count >= n) {
		keys_pack(s->panels, a->k + run.row * stride + own, stride, n, a->HD);
		return (struct keys){s->panels, a->v + run.row * stride + own, stride};
	}
	for (int i = 0; i < n; run = past_run(a->packed, *(const int *)where, block * KEYS + i))
		for (int end = MIN(n, i + run.count); i < end; i++, run.row++) {
			memcpy(s->k + i * a->HD, a->k + run.row * stride + own, (size_t)a->HD * sizeof(float));
			memcpy(s->v + i * a->HD, a->v + run.row * stride + own, (size_t)a->HD * sizeof(float));
		}
	keys_pack(s->panels, s->k, a->HD, n, a->HD);
	return (struct keys){s->panels, s->v, a->HD};
}

/* Tokens from t on, before end, that are consecutive positions of one sequence; of says whose each
 * is. */
static int run_length(const int32_t *pos, const int32_t *of, const int32_t *const *table, int t, int end)
{
	int n = 1;
	while (
		t + n < end && pos[t + n] == pos[t] + n && (!of || of[t + n] == of[t]) && (!table || table[t + n] == table[t]))
		n++;
	return n;
}

static void packed_spans(void *arg, int64_t begin, int64_t end, int thread)
{
	const struct attention_args *a = arg;
	for (int64_t task = begin; task < end; task++) {
		int t = (int)(task / a->NKV) * a->tokens_max, stop = MIN(a->packed->T, t + a->tokens_max);
		while (t < stop) {
			const struct ops_packed *b = a->packed;
			int n = run_length(b->pos, b->sequence, NULL, t, stop);
			attend(a, t, n, b->pos[t], (int)(task % a->NKV), packed_keys, &b->sequence[t], scratch_of(a->c, thread));
			t += n;
		}
	}
}

static void attention(struct ops_context *c, float *out, float *lse, const float *q, const float *k, const float *v,
	const struct ops_packed *b, int NH, int NKV, int HD)
{
	struct attention_args a = attention_args(c, NH, NKV, HD);
	a.out = out, a.lse_out = lse, a.q = q, a.k = k, a.v = v, a.packed = b;
	pool_run(c->pool, (int64_t)((b->T + a.tokens_max - 1) / a.tokens_max) * NKV, 1, packed_spans, &a);
}

/* ---- pages ---- */

struct kv_write_args {
	float *kpages;  /* (pages, NKV, KEYS / NR, HD, NR): packed for the product; a page holds KEYS positions */
	float *vpages;  /* (pages, KEYS, NKV, HD) */
	const float *k; /* (T, NKV, HD), as the next */
	const float *v;
	const int32_t *slot; /* (T) place of each row among all rows of all pages */
	int NKV;
	int HD;
};

static void kv_write_rows(void *arg, int64_t begin, int64_t end, int thread)
{
	const struct kv_write_args *w = arg;
	int64_t row = (int64_t)w->NKV * w->HD;
	for (int64_t t = begin; t < end; t++) {
		int64_t page = w->slot[t] / KEYS * KEYS * row;
		int at = w->slot[t] % KEYS;
		memcpy(w->vpages + page + at * row, w->v + t * row, (size_t)row * sizeof(float));
		for (int g = 0; g < w->NKV; g++) {
			float *panel = w->kpages + page + (int64_t)(g * KEYS + at / NR * NR) * w->HD + at % NR;
			for (int d = 0; d < w->HD; d++) panel[d * NR] = w->k[t * row + g * w->HD + d];
		}
	}
}

static void kv_write(struct ops_context *c, float *kpages, float *vpages, const float *k, const float *v,
	const struct ops_paged *b, int NKV, int HD)
{
	struct kv_write_args w = {kpages, vpages, k, v, b->slot, NKV, HD};
	pool_run(c->pool, b->T, rows_grain((int64_t)NKV * HD * 2), kv_write_rows, &w);
}

static struct keys paged_keys(
	const struct attention_args *a, const void *where, int block, int n, int head, const struct scratch *s)
{
	int64_t row = (int64_t)a->NKV * a->HD, page = ((const int32_t *)where)[block] * KEYS * row;
	return (struct keys){a->k + page + (int64_t)head * KEYS * a->HD, a->v + page + (int64_t)head * a->HD, row};
}

#define DECODE_ROWS 64   /* up to here every row is a task, to feed all threads */

static void paged_spans(void *arg, int64_t begin, int64_t end, int thread)
{
	const struct attention_args *a = arg;
	const struct ops_paged *b = a->paged;
	for (int64_t task = begin; task < end; task++) {
		int t = (int)(task / a->NKV) * a->tokens_max, stop = MIN(b->T, t + a->tokens_max);
		while (t < stop) {
			int n = run_length(b->pos, NULL, b->table, t, stop);
			attend(a, t, n, b->pos[t], (int)(task % a->NKV), paged_keys, b->table[t], scratch_of(a->c, thread));
			t += n;
		}
	}
}

static void attention_paged(struct ops_context *c, float *out, const float *q, const float *kpages, const float *vpages,
	const struct ops_paged *b, int NH, int NKV, int HD)
{
	struct attention_args a = attention_args(c, NH, NKV, HD);
	a.out = out, a.q = q, a.k = kpages, a.v = vpages, a.paged = b;
	a.tokens_max = b->T <= DECODE_ROWS ? 1 : MIN(a.tokens_max, 16);
	pool_run(c->pool, (int64_t)((b->T + a.tokens_max - 1) / a.tokens_max) * NKV, 1, paged_spans, &a);
}

void ISA(attention_entries)(struct cpu_ops *t)
{
	t->attention = attention;
	t->kv_write = kv_write;
	t->attention_paged = attention_paged;
}
