/* attention_backward: gradients of causal attention, from the saved log-sum-exp (Dao et al. 2022,
 * arXiv 2205.14135, algorithm 4), blockwise:
 *
 *   P = exp(q k - lse)     dV += P' dO     dP = dO V'     dS = P (dP - delta), delta = sum_d dO O
 *   dQ += dS K     dK += dS' Q
 *
 * One (family of sequences, key/value head) is one task: dk and dv are sums over the group's heads
 * and all later queries, those of sequences that follow included, taken in order. Keys are walked
 * in runs of at most KEYS rows that lie side by side. */
#include <math.h>
#include "attention_block.h"

/* One thread's working memory, named as the formulas above. */
struct backward_scratch {
	float *q;        /* (ROWS_MAX, A_ROW) queries, scaled */
	float *dout;     /* (ROWS_MAX, A_ROW) dO */
	float *p;        /* (ROWS_MAX, A_ROW) scores of a block of keys, then P */
	float *ds;       /* (ROWS_MAX, A_ROW) dP, then dS */
	float *dq;       /* (ROWS_MAX, HD) summed over the blocks */
	float *panels;   /* (KEYS, HD) keys, packed for the product */
	float *v_panels; /* (KEYS, HD) values, likewise */
	float *lse;      /* (ROWS_MAX) */
	float *delta;    /* (ROWS_MAX) */
};

static struct backward_scratch backward_carve(float *p)
{
	_Static_assert(4 * ROWS_MAX * A_ROW + ROWS_MAX * (HEAD_DIM_MAX + 2) + 2 * KEYS * HEAD_DIM_MAX <= SCRATCH_FLOATS,
		"attention_backward's scratch");
	struct backward_scratch s = {.q = p};
	s.dout = s.q + ROWS_MAX * A_ROW;
	s.p = s.dout + ROWS_MAX * A_ROW;
	s.ds = s.p + ROWS_MAX * A_ROW;
	s.dq = s.ds + ROWS_MAX * A_ROW;
	s.panels = s.dq + ROWS_MAX * HEAD_DIM_MAX;
	s.v_panels = s.panels + KEYS * HEAD_DIM_MAX;
	s.lse = s.v_panels + KEYS * HEAD_DIM_MAX;
	s.delta = s.lse + ROWS_MAX;
	return s;
}

/* Scores become P, and dP (in ds) becomes dS; masked entries are 0 in both. */
static inline void weights_backward(float *p, float *ds, float lse, float delta, int nvisible)
{
	for (int i = 0; i < KEY_VECTORS; i++) {
		vf w = vf_exp(visible(vf_sub(vf_load(p + i * VL), vf_set1(lse)), i, nvisible, -INFINITY));
		vf d = vf_mul(w, visible(vf_sub(vf_load(ds + i * VL), vf_set1(delta)), i, nvisible, 0));
		vf_store(p + i * VL, w);
		vf_store(ds + i * VL, d);
	}
}

/* Queries t.. (batch rows of one sequence) against all keys they see. */
static void queries_backward(
	const struct attention_args *a, struct backward_scratch *s, int sequence, int t, int tokens, int g)
{
	int HD = a->HD, group = a->group, rows = tokens * group, p0 = a->packed->pos[t];
	int64_t q_at = ((int64_t)t * a->NH + (int64_t)g * group) * HD, row = (int64_t)a->NKV * HD;
	/* Queries and output gradients as rows; delta of each row. */
	rows_gather(s->q, a->q + q_at, a, tokens, a->scale);
	rows_gather(s->dout, a->dout + q_at, a, tokens, 1);
	for (int r = 0; r < rows; r++) {
		int64_t at = (int64_t)(t + r / group) * a->NH + g * group + r % group;
		s->lse[r] = a->lse[at];
		vf delta = vf_zero();
		for (int d = 0; d < HD; d += VL) {
			int n = MIN(VL, HD - d);
			delta = vf_fma(vf_load_n(s->dout + r * A_ROW + d, n), vf_load_n(a->saved_out + at * HD + d, n), delta);
		}
		s->delta[r] = vf_sum(delta);
	}
	/* Block by block of keys: P and dS again, then what they add to dv, dk and dq. */
	memset(s->dq, 0, (size_t)rows * (size_t)HD * sizeof(float));
	for (int j = 0, n; j < p0 + tokens; j += n) {
		struct past_run run = past_run(a->packed, sequence, j);
		n = MIN(MIN(KEYS, run.count), p0 + tokens - j);
		int r0 = MAX(0, j - p0) * group, left = rows - r0;
		int64_t at = run.row * row + (int64_t)g * HD;
		float *q = s->q + r0 * A_ROW, *dout = s->dout + r0 * A_ROW, *p = s->p + r0 * A_ROW, *ds = s->ds + r0 * A_ROW;
		keys_pack(s->panels, a->k + at, row, n, HD);
		keys_pack(s->v_panels, a->v + at, row, n, HD);
		scores_run(p, q, s->panels, left, HD);
		scores_run(ds, dout, s->v_panels, left, HD);
		for (int r = 0; r < left; r++)
			weights_backward(
				p + r * A_ROW, ds + r * A_ROW, s->lse[r0 + r], s->delta[r0 + r], MIN(n, p0 + (r0 + r) / group + 1 - j));
		struct tile tile = {.a_col = A_ROW,
			.by_column = true,
			.b_row = A_ROW,
			.c_row = row,
			.K = left,
			.alpha = 1,
			.add = true,
			.padded = true};
		tile.a = p, tile.b = dout, tile.c = a->dv + at;
		tiles_run(tile, n, HD);
		tile.a = ds, tile.b = q, tile.c = a->dk + at;
		tiles_run(tile, n, HD);
		tiles_run((struct tile){.a = ds,
					  .b = a->k + at,
					  .b_row = row,
					  .c = s->dq + r0 * HD,
					  .c_row = HD,
					  .K = n,
					  .alpha = 1,
					  .add = true},
			left, HD);
	}
	for (int r = 0; r < rows; r++) {
		float *dq = a->dq + q_at + ((int64_t)(r / group) * a->NH + r % group) * HD;
		for (int d = 0; d < HD; d++) dq[d] = s->dq[r * HD + d] * a->scale;
	}
}

static void backward_families(void *arg, int64_t begin, int64_t end, int thread)
{
	const struct attention_args *a = arg;
	struct backward_scratch s = backward_carve(scratch_of(a->c, thread));
	int64_t row = (int64_t)a->NKV * a->HD;
	for (int64_t task = begin; task < end; task++) {
		const struct ops_packed *b = a->packed;
		const int32_t *family = b->family + task / a->NKV;
		int g = (int)(task % a->NKV);
		for (int t = b->start[family[0]]; t < b->start[family[1]]; t++) {
			memset(a->dk + t * row + (int64_t)g * a->HD, 0, (size_t)a->HD * sizeof(float));
			memset(a->dv + t * row + (int64_t)g * a->HD, 0, (size_t)a->HD * sizeof(float));
		}
		for (int sequence = family[0]; sequence < family[1]; sequence++)
			for (int t = b->start[sequence], stop = b->start[sequence + 1]; t < stop; t += a->tokens_max)
				queries_backward(a, &s, sequence, t, MIN(a->tokens_max, stop - t), g);
	}
}

static void attention_backward(struct ops_context *c, float *dq, float *dk, float *dv, const float *dout,
	const float *out, const float *lse, const float *q, const float *k, const float *v, const struct ops_packed *b,
	int NH, int NKV, int HD)
{
	struct attention_args a = attention_args(c, NH, NKV, HD);
	a.dq = dq, a.dk = dk, a.dv = dv, a.q = q, a.k = k, a.v = v, a.dout = dout, a.saved_out = out, a.lse = lse,
	a.packed = b;
	pool_run(c->pool, (int64_t)b->F * NKV, 1, backward_families, &a);
}

void ISA(attention_backward_entries)(struct cpu_ops *t) { t->attention_backward = attention_backward; }
