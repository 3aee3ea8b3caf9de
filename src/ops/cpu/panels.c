/* panels: the forms (panels.h) and the list of what is prepared. */
#include <math.h>
#include <stdatomic.h>
#include <stdlib.h>
#include "ops/cpu_figures.h"
#include "base/base.h"
#include "panels.h"

#define GROUP 32   /* weights of a column that share a factor, as in GGUF */

_Static_assert(KC % GROUP == 0, "a pass of a product begins at a group");

/* ---- floats ---- */

static size_t floats_bytes(int K) { return size_mul(size_mul((size_t)K, NR), sizeof(float)); }

static bool floats_pack(uint8_t *panel, const float *b, int K, int columns)
{
	for (int k = 0; k < K; k += KC) pack_columns((float *)panel + (int64_t)k * NR, b + k, K, MIN(KC, K - k), columns);
	return true;
}

/* ---- halves: (K, NR) of 16 bits ---- */

static size_t halves_bytes(int K) { return size_mul(size_mul((size_t)K, NR), sizeof(uint16_t)); }

static bool bf16_pack(uint8_t *panel, const float *b, int K, int columns)
{
	uint16_t *out = (uint16_t *)panel;
	for (int n = 0; n < columns; n++)
		for (int k = 0; k < K; k++) {
			uint32_t bits;
			memcpy(&bits, &b[(int64_t)n * K + k], sizeof bits);
			if (bits & 0xffff) return false;
			out[(int64_t)k * NR + n] = (uint16_t)(bits >> 16);
		}
	return true;
}

static bool f16_pack(uint8_t *panel, const float *b, int K, int columns)
{
	uint16_t *out = (uint16_t *)panel, halves[VL];
	for (int n = 0; n < columns; n++)
		for (int k = 0; k < K; k += VL) {
			int depth = MIN(VL, K - k);
			vf x = vf_load_n(b + (int64_t)n * K + k, depth);
			vf_store_f16(halves, x);
			if (!vf_same_bits(vf_load_f16(halves), x)) return false;
			for (int i = 0; i < depth; i++) out[(int64_t)(k + i) * NR + n] = halves[i];
		}
	return true;
}

/* ---- integers: for each GROUP of k the factors of the columns, then the integers ---- */

static float nearest_f16(float x) { return _cvtsh_ss(_cvtss_sh(x, _MM_FROUND_TO_NEAREST_INT)); }

/* q whose weights, as weights_at reads them (factor * q, or factor * q + *offset), are x to the
 * bit, each within [low, high]; false when there is none. */
static bool integers_of(float *q, const float *x, float factor, const float *offset, float low, float high)
{
	vf scale = vf_set1(factor), shift = vf_set1(offset ? *offset : 0.0f),
	   inverse = vf_set1(factor == 0.0f ? 0.0f : 1.0f / factor);
	for (int i = 0; i < GROUP; i += VL) {
		vf w = vf_load(x + i), n = vf_round(vf_mul(vf_sub(w, shift), inverse));
		n = vf_min(vf_max(n, vf_set1(low)), vf_set1(high));
		if (!vf_same_bits(offset ? vf_fma(scale, n, shift) : vf_mul(scale, n), w)) return false;
		vf_store(q + i, n);
	}
	return true;
}

/* GGUF's rules: Q8_0's factor makes the largest magnitude 127, Q5_0's and Q4_0's make the weight of
 * the largest magnitude -16 and -8. */
static bool bytes_of(float *q, const float *x, float *factor)
{
	static const struct {
		float limit;
		bool is_signed;
	} rules[] = {{127, false}, {-16, true}, {-8, true}};
	float top = x[0];
	for (int i = 1; i < GROUP; i++) top = fabsf(x[i]) > fabsf(top) ? x[i] : top;
	for (size_t i = 0; i < ARRAY_LEN(rules); i++) {
		*factor = nearest_f16((rules[i].is_signed ? top : fabsf(top)) / rules[i].limit);
		if (integers_of(q, x, *factor, NULL, -128, 127)) return true;
	}
	return false;
}

#define Q8_GROUP_BYTES (NR * sizeof(float) + GROUP * NR)

static size_t q8_bytes(int K) { return size_mul((size_t)K / GROUP, Q8_GROUP_BYTES); }

static bool q8_pack(uint8_t *panel, const float *b, int K, int columns)
{
	if (K % GROUP) return false;
	for (int k = 0; k < K; k += GROUP, panel += Q8_GROUP_BYTES)
		for (int n = 0; n < columns; n++) {
			float q[GROUP];
			if (!bytes_of(q, b + (int64_t)n * K + k, (float *)panel + n)) return false;
			for (int i = 0; i < GROUP; i++) panel[NR * sizeof(float) + i * NR + n] = (uint8_t)(int8_t)q[i];
		}
	return true;
}

/* Q4_1: the smallest weight is the offset, the factor makes the largest 15. A byte holds columns n
 * (low) and n + VL. */
static bool nibbles_of(float *q, const float *x, float *factor, float *offset)
{
	float top = x[0];
	*offset = x[0];
	for (int i = 1; i < GROUP; i++) {
		top = x[i] > top ? x[i] : top;
		*offset = x[i] < *offset ? x[i] : *offset;
	}
	*factor = nearest_f16((top - *offset) / 15);
	return integers_of(q, x, *factor, offset, 0, 15);
}

#define Q4_GROUP_BYTES (2 * NR * sizeof(float) + GROUP * VL)

static size_t q4_bytes(int K) { return size_mul((size_t)K / GROUP, Q4_GROUP_BYTES); }

static bool q4_pack(uint8_t *panel, const float *b, int K, int columns)
{
	if (K % GROUP) return false;
	for (int k = 0; k < K; k += GROUP, panel += Q4_GROUP_BYTES)
		for (int n = 0; n < columns; n++) {
			float q[GROUP];
			if (!nibbles_of(q, b + (int64_t)n * K + k, (float *)panel + n, (float *)panel + NR + n)) return false;
			for (int i = 0; i < GROUP; i++)
				panel[2 * NR * sizeof(float) + i * VL + n % VL] |= (uint8_t)((int)q[i] << n / VL * 4);
		}
	return true;
}

/* ---- reading ---- */

enum form { FORM_Q4, FORM_Q8, FORM_BF16, FORM_F16 };
/* Of a group of a panel's NR columns: the first VL of them, and the rest. */
struct factors {
	vf scale0;
	vf scale1;
	vf shift0; /* FORM_Q4 alone */
	vf shift1;
};

/* At the start of a group; p moves to its integers. */
static inline __attribute__((always_inline)) struct factors factors_at(const uint8_t **p, const enum form form)
{
	const float *f = (const float *)*p;
	struct factors x = {0};
	if (form != FORM_Q4 && form != FORM_Q8) return x;
	x.scale0 = vf_load(f);
	x.scale1 = vf_load(f + VL);
	*p += NR * sizeof *f;
	if (form == FORM_Q8) return x;
	x.shift0 = vf_load(f + NR);
	x.shift1 = vf_load(f + NR + VL);
	*p += NR * sizeof *f;
	return x;
}

/* The weights of one k; p moves to the next. */
static inline __attribute__((always_inline)) void weights_at(
	vf *w0, vf *w1, const uint8_t **p, const struct factors *f, const enum form form)
{
	switch (form) {
	case FORM_Q4: {
		/* A byte holds a column of each half, so one load serves both vectors; scale and offset
		 * undo the rounding to 0..15. */
		vi pair = vi_load_u8(*p);
		*w0 = vf_fma(f->scale0, vf_from_ints(vi_low_nibble(pair)), f->shift0);
		*w1 = vf_fma(f->scale1, vf_from_ints(vi_high_nibble(pair)), f->shift1);
		*p += VL;
		return;
	}
	case FORM_Q8:
		/* Integers with a sign need a scale alone. */
		*w0 = vf_mul(f->scale0, vf_from_ints(vi_load_i8(*p)));
		*w1 = vf_mul(f->scale1, vf_from_ints(vi_load_i8(*p + VL)));
		*p += NR;
		return;
	case FORM_BF16:
		/* The 16-bit types are widened to fp32 as they stand. */
		*w0 = vf_load_bf16((const uint16_t *)*p);
		*w1 = vf_load_bf16((const uint16_t *)*p + VL);
		*p += NR * sizeof(uint16_t);
		return;
	case FORM_F16:
		*w0 = vf_load_f16((const uint16_t *)*p);
		*w1 = vf_load_f16((const uint16_t *)*p + VL);
		*p += NR * sizeof(uint16_t);
		return;
	}
}

static inline __attribute__((always_inline)) void unpack_rows(float *out, const uint8_t *p, int K, const enum form form)
{
	for (int k = 0; k < K; k += GROUP) {
		struct factors f = factors_at(&p, form);
		for (int i = 0; i < MIN(GROUP, K - k); i++, out += NR) {
			vf w0, w1;
			weights_at(&w0, &w1, &p, &f, form);
			vf_store(out, w0);
			vf_store(out + VL, w1);
		}
	}
}

/* As tile_rows: the same chains of sums. */
static inline __attribute__((always_inline)) void packed_rows(
	const struct tile *t, const int rows, const enum form form)
{
	vf s0[MR], s1[MR];
#pragma GCC unroll 12
	for (int m = 0; m < rows; m++) s0[m] = s1[m] = vf_zero();
	const float *a = t->a;
	const uint8_t *p = t->packed;
	for (int k = 0; k < t->K; k += GROUP) {
		struct factors f = factors_at(&p, form);
		for (int i = 0; i < MIN(GROUP, t->K - k); i++, a++) {
			vf w0, w1;
			weights_at(&w0, &w1, &p, &f, form);
			tile_step(s0, s1, a, A_ROW, w0, w1, rows, true);
		}
	}
#pragma GCC unroll 12
	for (int m = 0; m < rows; m++) tile_store(t, m, s0[m], s1[m]);
}

#define PACKED_CASE(n, form) case n: packed_rows(t, n, form); break;
#define READERS(name, form) \
	static void name##_unpack(float *out, const uint8_t *rows, int K) { unpack_rows(out, rows, K, form); } \
	static void name##_tile(const struct tile *t, int rows) { switch (rows) { EACH_ROWS(PACKED_CASE, form) } }
READERS(q4, FORM_Q4)
READERS(q8, FORM_Q8)
READERS(bf16, FORM_BF16)
READERS(f16, FORM_F16)

/* Smallest first: the first that fits is taken, and the last one fits all. */
static const struct panel_form forms[] = {
	{"4 bits", q4_bytes, q4_pack, q4_unpack, q4_tile},
	{"8 bits", q8_bytes, q8_pack, q8_unpack, q8_tile},
	{"bf16", halves_bytes, bf16_pack, bf16_unpack, bf16_tile},
	{"fp16", halves_bytes, f16_pack, f16_unpack, f16_tile},
	{"fp32", floats_bytes, floats_pack, NULL, NULL},
};

/* ---- what is prepared ---- */

const struct prepared *ISA(prepared_find)(const struct ops_context *c, const float *b)
{
	for (int i = 0; i < c->nprepared; i++)
		if (c->prepared[i].b == b) return &c->prepared[i];
	return NULL;
}

static size_t prepared_bytes(const struct prepared *p)
{
	return size_mul((size_t)(p->N + NR - 1) / NR, p->panel_bytes);
}

struct pack_args {
	struct prepared p;
	atomic_bool inexact;
};

static void pack_panels(void *arg, int64_t begin, int64_t end, int thread)
{
	struct pack_args *g = arg;
	for (int64_t i = begin; i < end && !atomic_load_explicit(&g->inexact, memory_order_relaxed); i++) {
		uint8_t *panel = g->p.panels + (size_t)i * g->p.panel_bytes;
		int n = (int)i * NR;
		memset(panel, 0, g->p.panel_bytes);
		if (!g->p.form->pack(panel, g->p.b + (int64_t)n * g->p.K, g->p.K, MIN(NR, g->p.N - n)))
			atomic_store(&g->inexact, true);
	}
}

/* Columns behind the last are zeros in every form. */
static bool prepare_as(struct ops_context *c, struct prepared *p, const struct panel_form *form)
{
	p->form = form;
	p->panel_bytes = form->bytes(p->K);
	size_t bytes = prepared_bytes(p);
	if (!bytes || c->prepared_bytes + bytes > OPS_PREPARED_BYTES_MAX) return false;
	p->panels = aligned_alloc(64, (bytes + 63) / 64 * 64);
	if (!p->panels) return false;
	struct pack_args g = {.p = *p};
	pool_run(c->pool, (p->N + NR - 1) / NR, 8, pack_panels, &g);
	if (!g.inexact) return true;
	free(p->panels);
	return false;
}

static void prepare(struct ops_context *c, const float *b, int N, int K)
{
	struct prepared p = {.b = b, .N = N, .K = K};
	size_t form = 0;
	if (ISA(prepared_find)(c, b)) return;
	while (form < ARRAY_LEN(forms) && !prepare_as(c, &p, &forms[form])) form++;
	if (form == ARRAY_LEN(forms)) return; /* no memory: a faster order is all that is lost */
	c->prepared = xrealloc(c->prepared, size_mul((size_t)c->nprepared + 1, sizeof *c->prepared));
	c->prepared[c->nprepared++] = p;
	c->prepared_bytes += prepared_bytes(&p);
}

static void forget(struct ops_context *c, const float *b)
{
	const struct prepared *found = ISA(prepared_find)(c, b);
	if (!found) return;
	struct prepared *p = &c->prepared[found - c->prepared];
	c->prepared_bytes -= prepared_bytes(p);
	free(p->panels);
	*p = c->prepared[--c->nprepared];
}

void ISA(panels_entries)(struct cpu_ops *t)
{
	t->prepare = prepare;
	t->forget = forget;
}
