/* attention: causal softmax attention, packed (training, scoring) and paged (generation), online over blocks of OPS_KV_BLOCK keys counted from position 0, so that both forms
 * do the same arithmetic in the same order for a given query. */
#include "ops_cpu.h"
#include "simd.h"
#include <math.h>

struct attention_args {
	float *out, *lse_out, *dq, *dk, *dv;
	const float *q, *k, *v, *dout, *saved_out, *lse;
	const struct ops_packed *packed;
	const struct ops_paged *paged;
	int NH, NKV, HD;
	float scale;
};

/* One query over one block of n keys: the state (top, sum, acc) of the online softmax advances. Key and value rows have stride `stride`. */
static void attend_block(const float *q, const float *k, const float *v, int64_t stride, int n, int HD, float scale, float *top, float *sum, float *acc)
{
	float s[OPS_KV_BLOCK], m = *top;
	for (int j = 0; j < n; j++) {
		vf d = vf_zero();
		for (int i = 0; i < HD; i += VL) d = vf_fma(vf_load_n(q + i, MIN(VL, HD - i)), vf_load_n(k + j * stride + i, MIN(VL, HD - i)), d);
		s[j] = vf_sum(d) * scale;
		m = MAX(m, s[j]);
	}
	float keep = expf(*top - m);
	*sum *= keep;
	for (int i = 0; i < HD; i++) acc[i] *= keep;
	for (int j = 0; j < n; j++) {
		float p = expf(s[j] - m);
		*sum += p;
		for (int i = 0; i < HD; i++) acc[i] += p * v[j * stride + i];
	}
	*top = m;
}

static void attend_finish(float *out, float *lse, const float *acc, float top, float sum, int HD)
{
	for (int i = 0; i < HD; i++) out[i] = acc[i] / sum;
	if (lse) *lse = top + logf(sum);
}

static void packed_sequences(void *arg, int64_t begin, int64_t end, int thread)
{
	const struct attention_args *a = arg;
	int64_t stride = (int64_t)a->NKV * a->HD;
	for (int64_t task = begin; task < end; task++) {
		int s = (int)(task / a->NH), h = (int)(task % a->NH), first = a->packed->start[s], count = a->packed->start[s + 1] - first;
		const float *k = a->k + first * stride + h / (a->NH / a->NKV) * a->HD, *v = a->v + first * stride + h / (a->NH / a->NKV) * a->HD;
		for (int t = 0; t < count; t++) {
			float acc[HEAD_DIM_MAX] = {0}, top = -INFINITY, sum = 0;
			int64_t row = (int64_t)(first + t) * a->NH + h;
			for (int j = 0; j <= t; j += OPS_KV_BLOCK)
				attend_block(a->q + row * a->HD, k + j * stride, v + j * stride, stride, MIN(OPS_KV_BLOCK, t + 1 - j), a->HD, a->scale, &top, &sum, acc);
			attend_finish(a->out + row * a->HD, a->lse_out ? a->lse_out + row : NULL, acc, top, sum, a->HD);
		}
	}
}

static void attention(struct ops_context *c, float *out, float *lse, const float *q, const float *k, const float *v, const struct ops_packed *b, int NH, int NKV, int HD)
{
	CHECK(HD > 0 && HD <= HEAD_DIM_MAX && NKV > 0 && NH % NKV == 0);
	struct attention_args a = {.out = out, .lse_out = lse, .q = q, .k = k, .v = v, .packed = b, .NH = NH, .NKV = NKV, .HD = HD, .scale = 1.0f / sqrtf((float)HD)};
	pool_run(c->pool, (int64_t)b->S * NH, 1, packed_sequences, &a);
}

/* One (sequence, kv head) is one task: dk and dv sum over the group's query heads and all later queries, in order. */
static void backward_sequences(void *arg, int64_t begin, int64_t end, int thread)
{
	const struct attention_args *a = arg;
	int group = a->NH / a->NKV, HD = a->HD;
	int64_t stride = (int64_t)a->NKV * HD;
	for (int64_t task = begin; task < end; task++) {
		int s = (int)(task / a->NKV), g = (int)(task % a->NKV), first = a->packed->start[s], count = a->packed->start[s + 1] - first;
		int64_t base = first * stride + (int64_t)g * HD;
		for (int t = 0; t < count; t++) memset(a->dk + base + t * stride, 0, HD * sizeof(float)), memset(a->dv + base + t * stride, 0, HD * sizeof(float));
		for (int t = 0; t < count; t++)
			for (int h = g * group; h < (g + 1) * group; h++) {
				int64_t row = (int64_t)(first + t) * a->NH + h;
				const float *q = a->q + row * HD, *dout = a->dout + row * HD, *out = a->saved_out + row * HD;
				float *dq = a->dq + row * HD, delta = 0;
				for (int i = 0; i < HD; i++) delta += dout[i] * out[i], dq[i] = 0;
				for (int j = 0; j <= t; j++) {
					const float *k = a->k + base + j * stride, *v = a->v + base + j * stride;
					float *dk = a->dk + base + j * stride, *dv = a->dv + base + j * stride, score = 0, dp = 0;
					for (int i = 0; i < HD; i++) score += q[i] * k[i], dp += dout[i] * v[i];
					float p = expf(score * a->scale - a->lse[row]), ds = p * (dp - delta) * a->scale;
					for (int i = 0; i < HD; i++) dv[i] += p * dout[i], dk[i] += ds * q[i], dq[i] += ds * k[i];
				}
			}
	}
}

static void attention_backward(struct ops_context *c, float *dq, float *dk, float *dv, const float *dout, const float *out, const float *lse, const float *q, const float *k,
	const float *v, const struct ops_packed *b, int NH, int NKV, int HD)
{
	CHECK(HD > 0 && HD <= HEAD_DIM_MAX && NKV > 0 && NH % NKV == 0);
	struct attention_args a = {.dq = dq, .dk = dk, .dv = dv, .q = q, .k = k, .v = v, .dout = dout, .saved_out = out, .lse = lse, .packed = b,
		.NH = NH, .NKV = NKV, .HD = HD, .scale = 1.0f / sqrtf((float)HD)};
	pool_run(c->pool, (int64_t)b->S * NKV, 1, backward_sequences, &a);
}

/* ---- pages ---- */

struct kv_write_args { float *kpages, *vpages; const float *k, *v; const int32_t *slot; int64_t row; };

static void kv_write_rows(void *arg, int64_t begin, int64_t end, int thread)
{
	const struct kv_write_args *w = arg;
	for (int64_t t = begin; t < end; t++) {
		memcpy(w->kpages + w->slot[t] * w->row, w->k + t * w->row, (size_t)w->row * sizeof(float));
		memcpy(w->vpages + w->slot[t] * w->row, w->v + t * w->row, (size_t)w->row * sizeof(float));
	}
}

static void kv_write(struct ops_context *c, float *kpages, float *vpages, const float *k, const float *v, const struct ops_paged *b, int NKV, int HD)
{
	struct kv_write_args w = {kpages, vpages, k, v, b->slot, (int64_t)NKV * HD};
	pool_run(c->pool, b->T, rows_grain(w.row), kv_write_rows, &w);
}

static void paged_rows(void *arg, int64_t begin, int64_t end, int thread)
{
	const struct attention_args *a = arg;
	int64_t stride = (int64_t)a->NKV * a->HD;
	for (int64_t task = begin; task < end; task++) {
		int t = (int)(task / a->NH), h = (int)(task % a->NH), pos = a->paged->pos[t];
		float acc[HEAD_DIM_MAX] = {0}, top = -INFINITY, sum = 0;
		for (int j = 0; j <= pos; j += OPS_KV_BLOCK) {
			int64_t at = (int64_t)a->paged->table[t][j / OPS_KV_BLOCK] * OPS_KV_BLOCK * stride + h / (a->NH / a->NKV) * a->HD;
			attend_block(a->q + task * a->HD, a->k + at, a->v + at, stride, MIN(OPS_KV_BLOCK, pos + 1 - j), a->HD, a->scale, &top, &sum, acc);
		}
		attend_finish(a->out + task * a->HD, NULL, acc, top, sum, a->HD);
	}
}

static void attention_paged(struct ops_context *c, float *out, const float *q, const float *kpages, const float *vpages, const struct ops_paged *b, int NH, int NKV, int HD)
{
	CHECK(HD > 0 && HD <= HEAD_DIM_MAX && NKV > 0 && NH % NKV == 0);
	struct attention_args a = {.out = out, .q = q, .k = kpages, .v = vpages, .paged = b, .NH = NH, .NKV = NKV, .HD = HD, .scale = 1.0f / sqrtf((float)HD)};
	pool_run(c->pool, (int64_t)b->T * NH, 1, paged_rows, &a);
}

void ISA(attention_entries)(struct ops *t)
{
	t->attention = attention;
	t->attention_backward = attention_backward;
	t->kv_write = kv_write;
	t->attention_paged = attention_paged;
}
