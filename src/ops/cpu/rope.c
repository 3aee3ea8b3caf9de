/* rope: rotary position embedding, half-split pairs (i, i + HD/2), from x to out, which may be the
 * same. The inverse rotation is the transpose, which is what the backward pass needs. */
#include "ops_cpu.h"
#include "simd.h"

struct rope_args {
	float *out;         /* (T, NH, HD); may be x */
	const float *x;     /* (T, NH, HD) */
	const float *table; /* (positions, HD) cosines and sines */
	const int32_t *pos; /* (T) */
	int NH;
	int HD;
	bool inverse;
};

static void rope_tokens(void *arg, int64_t begin, int64_t end, int thread)
{
	const struct rope_args *a = arg;
	int half = a->HD / 2;
	for (int64_t t = begin; t < end; t++) {
		const float *cosines = a->table + (int64_t)a->pos[t] * a->HD, *sines = cosines + half;
		for (int h = 0; h < a->NH; h++) {
			int64_t at = (t * a->NH + h) * a->HD;
			const float *lo = a->x + at, *hi = lo + half;
			float *out_lo = a->out + at, *out_hi = out_lo + half;
			for (int i = 0; i < half; i += VL) {
				int n = MIN(VL, half - i);
				vf c = vf_load_n(cosines + i, n), s = vf_load_n(sines + i, n), u = vf_load_n(lo + i, n),
				   v = vf_load_n(hi + i, n);
				if (a->inverse) s = vf_sub(vf_zero(), s);
				vf_store_n(out_lo + i, vf_fnma(v, s, vf_mul(u, c)), n);
				vf_store_n(out_hi + i, vf_fma(u, s, vf_mul(v, c)), n);
			}
		}
	}
}

static void rope(struct ops_context *c, float *out, const float *x, const float *table, const int32_t *pos, int T,
	int NH, int HD, bool inverse)
{
	CHECK(HD > 0 && HD % 2 == 0);
	struct rope_args a = {out, x, table, pos, NH, HD, inverse};
	pool_run(c->pool, T, rows_grain((int64_t)NH * HD * 2), rope_tokens, &a);
}

void ISA(rope_entries)(struct cpu_ops *t) { t->rope = rope; }
