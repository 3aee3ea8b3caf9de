/* rope: rotary position embedding, half-split pairs (i, i + HD/2), in place. The inverse rotation
 * is the transpose, which is what the backward pass needs. */
#include "ops_cpu.h"
#include "simd.h"

struct rope_args {
	float *x;
	const float *table;
	const int32_t *pos;
	int NH, HD;
	bool inverse;
};

static void rope_tokens(void *arg, int64_t begin, int64_t end, int thread)
{
	const struct rope_args *a = arg;
	int half = a->HD / 2;
	for (int64_t t = begin; t < end; t++) {
		const float *cosines = a->table + (int64_t)a->pos[t] * a->HD, *sines = cosines + half;
		for (int h = 0; h < a->NH; h++) {
			float *lo = a->x + (t * a->NH + h) * a->HD, *hi = lo + half;
			for (int i = 0; i < half; i += VL) {
				int n = MIN(VL, half - i);
				vf c = vf_load_n(cosines + i, n), s = vf_load_n(sines + i, n), u = vf_load_n(lo + i, n),
				   v = vf_load_n(hi + i, n);
				if (a->inverse) s = vf_sub(vf_zero(), s);
				vf_store_n(lo + i, vf_fnma(v, s, vf_mul(u, c)), n);
				vf_store_n(hi + i, vf_fma(u, s, vf_mul(v, c)), n);
			}
		}
	}
}

static void rope(
	struct ops_context *c, float *x, const float *table, const int32_t *pos, int T, int NH, int HD, bool inverse)
{
	CHECK(HD > 0 && HD % 2 == 0);
	struct rope_args a = {x, table, pos, NH, HD, inverse};
	pool_run(c->pool, T, rows_grain((int64_t)NH * HD * 2), rope_tokens, &a);
}

void ISA(rope_entries)(struct ops *t) { t->rope = rope; }
