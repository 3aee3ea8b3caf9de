/* tt.dot: d = a b + c.
 *
 * Floats are widened to f32 (products of f16, bf16, tf32 and f8 operands are exact there) and
 * accumulated with fma in f32, in rising k, starting from c: one fixed order. f32 operands are used
 * whole (ieee), truncated to tf32's 10 bits (tf32), or split into a sum of tf32 or bf16 parts whose
 * products are added smallest first (tf32x3, bf16x3, bf16x6), as the hardware sequences do. A sum
 * in f16 is rounded as often as a tensor core does. f64 and i8 have plain loops. */
#include "vm/exec/exec.h"
#include "base/base.h"
#include "base/dtype.h"
#include "ttir/ttir.h"
#include "vm/core/program.h"
#include "vm/core/state.h"
#include "vm/map/map.h"
#include "vm/meter/meter.h"
#include <immintrin.h>
#include <math.h>

/* d (m, n) += a (m, k) b (k, n) in tiles of ROWS by 2 vectors, whose sums stay in registers. m is a
 * multiple of ROWS, n of 2 vectors. The order of additions of one element does not depend on the
 * width. */
#define GEMM_TILE(name, attributes, V, WIDTH, ROWS, FMA, SPLAT) \
	typedef float V __attribute__((vector_size(4 * WIDTH), aligned(4))); \
	attributes static void name(float *d, const float *a, const float *b, int m, int n, int k) \
	{ \
		for (int j = 0; j < n; j += 2 * WIDTH) \
			for (int i = 0; i < m; i += ROWS) { \
				V s[ROWS][2]; \
				for (int r = 0; r < ROWS; r++) \
					for (int h = 0; h < 2; h++) s[r][h] = *(const V *)(d + (size_t)(i + r) * n + j + WIDTH * h); \
				for (int p = 0; p < k; p++) { \
					V b0 = *(const V *)(b + (size_t)p * n + j), b1 = *(const V *)(b + (size_t)p * n + j + WIDTH); \
					_Pragma("GCC unroll 8") for (int r = 0; r < ROWS; r++) { \
						V x = SPLAT(a[(size_t)(i + r) * k + p]); \
						s[r][0] = FMA(x, b0, s[r][0]); \
						s[r][1] = FMA(x, b1, s[r][1]); \
					} \
				} \
				for (int r = 0; r < ROWS; r++) \
					for (int h = 0; h < 2; h++) *(V *)(d + (size_t)(i + r) * n + j + WIDTH * h) = s[r][h]; \
			} \
	}
GEMM_TILE(gemm_tile_avx2, , v8, 8, 4, _mm256_fmadd_ps, _mm256_set1_ps)
GEMM_TILE(gemm_tile_avx512, __attribute__((target("arch=x86-64-v4"))), v16, 16, 8, _mm512_fmadd_ps, _mm512_set1_ps)

static void gemm_f32(float *d, const float *a, const float *b, int m, int n, int k)
{
	if (m % 8 == 0 && n % 32 == 0 && __builtin_cpu_supports("avx512f")) {
		gemm_tile_avx512(d, a, b, m, n, k);
		return;
	}
	if (m % 4 == 0 && n % 16 == 0) {
		gemm_tile_avx2(d, a, b, m, n, k);
		return;
	}
	for (int i = 0; i < m; i++)
		for (int p = 0; p < k; p++) {
			float x = a[(size_t)i * k + p];
			for (int j = 0; j < n; j++)
				d[(size_t)i * n + j] = __builtin_fmaf(x, b[(size_t)p * n + j], d[(size_t)i * n + j]);
		}
}

/* ---- operand parts ---- */

static float truncate_bits(float x, uint32_t mask)
{
	uint32_t u;
	memcpy(&u, &x, 4);
	if ((u & 0x7f800000) != 0x7f800000) u &= mask;
	memcpy(&x, &u, 4);
	return x;
}

static float round_bf16(float x)
{
	uint16_t b;
	map_narrow(ELEM_BF16, &b, &x, 1);
	map_widen(ELEM_BF16, &x, &b, 1);
	return x;
}

/* Part `which` of x: what is left of it after the parts before. */
static void take_part(float *d, const float *x, int64_t n, bool is_bf16, int which)
{
	for (int64_t i = 0; i < n; i++) {
		float rest = x[i], part = 0;
		for (int p = 0; p <= which; p++) {
			part = is_bf16 ? round_bf16(rest) : truncate_bits(rest, 0xffffe000);
			rest = isfinite(part) ? rest - part : 0;
		}
		d[i] = part;
	}
}

struct scheme {
	bool is_bf16;
	int nproducts;
	uint8_t product[6][2];
}; /* parts of a and b, smallest product first */
static const struct scheme schemes[] = {
	[1] = {false, 1, {{0, 0}}},
	[2] = {false, 3, {{1, 0}, {0, 1}, {0, 0}}},
	[3] = {true, 3, {{1, 0}, {0, 1}, {0, 0}}},
	[4] = {true, 6, {{1, 1}, {2, 0}, {0, 2}, {1, 0}, {0, 1}, {0, 0}}},
};

static void gemm_split(
	float *d, const float *a, const float *b, int m, int n, int k, float *ta, float *tb, const struct scheme *s)
{
	for (int p = 0; p < s->nproducts; p++) {
		take_part(ta, a, (int64_t)m * k, s->is_bf16, s->product[p][0]);
		take_part(tb, b, (int64_t)k * n, s->is_bf16, s->product[p][1]);
		gemm_f32(d, ta, tb, m, n, k);
	}
}

/* Sums in fp16: a tensor core adds the products of DEPTH columns at once and rounds what it has
 * then. */
#define DEPTH 16
static void gemm_f16(float *d, const float *a, const float *b, int m, int n, int k, float *ta, uint16_t *rounded)
{
	for (int p = 0; p < k; p += DEPTH) {
		int depth = MIN(DEPTH, k - p);
		for (int i = 0; i < m; i++)
			memcpy(ta + (size_t)i * (size_t)depth, a + (size_t)i * (size_t)k + p, (size_t)depth * sizeof *ta);
		gemm_f32(d, ta, b + (size_t)p * (size_t)n, m, n, depth);
		map_narrow(ELEM_F16, rounded, d, (int64_t)m * n);
		map_widen(ELEM_F16, d, rounded, (int64_t)m * n);
	}
}

/* ---- other element types ---- */

static void gemm_f64(double *d, const double *a, const double *b, int m, int n, int k)
{
	for (int i = 0; i < m; i++)
		for (int p = 0; p < k; p++) {
			double x = a[(size_t)i * k + p];
			for (int j = 0; j < n; j++)
				d[(size_t)i * n + j] = __builtin_fma(x, b[(size_t)p * n + j], d[(size_t)i * n + j]);
		}
}

static void gemm_i8(int32_t *d, const int8_t *a, const int8_t *b, int m, int n, int k)
{
	for (int i = 0; i < m; i++)
		for (int p = 0; p < k; p++) {
			int32_t x = a[(size_t)i * k + p];
			for (int j = 0; j < n; j++)
				d[(size_t)i * n + j] = (int32_t)((uint32_t)d[(size_t)i * n + j] + (uint32_t)(x * b[(size_t)p * n + j]));
		}
}

/* ---- the instruction ---- */

enum { TEMP_A, TEMP_B, TEMP_D, TEMP_PART_A, TEMP_PART_B, TEMP_COUNT };

/* f32 elements of source i: the block itself, or a widened copy in temp. */
static const float *as_f32(struct vm_ctx *c, const struct vm_instr *in, int i, int64_t n, struct vm_buf **temp)
{
	enum elem e = c->program->values[vm_src(c, in, i)].elem;
	const void *s = vm_dense(c, in, vm_src(c, in, i), n);
	if (!s || e == ELEM_F32) return s;
	*temp = vm_buf_get(c, in, (size_t)n * sizeof(float));
	if (!*temp) return NULL;
	map_widen(e, (float *)(*temp)->data, s, n);
	return (const float *)(*temp)->data;
}

/* The result's buffer holding c: c's own when it dies here. */
static struct vm_buf *accumulator(struct vm_ctx *c, const struct vm_instr *in, int64_t n)
{
	size_t size = elem_bytes((enum elem)in->result_elem);
	struct vm_value *v = &c->values[vm_src(c, in, 2)];
	if (v->form == FORM_DENSE && (in->kill >> 2 & 1) && v->buf->refs == 1) {
		struct vm_buf *b = v->buf;
		v->buf = NULL;
		v->form = FORM_SPLAT;
		return b;
	}
	struct vm_buf *b = vm_buf_get(c, in, (size_t)n * size);
	if (!b) return NULL;
	if (v->form == FORM_SPLAT) {
		vm_fill(b->data, v->splat, size, n);
	} else {
		const void *s = vm_dense(c, in, vm_src(c, in, 2), n);
		if (!s) {
			vm_buf_put(c, b);
			return NULL;
		}
		memcpy(b->data, s, (size_t)n * size);
	}
	return b;
}

static int dot_f32(struct vm_ctx *c, const struct vm_instr *in, struct vm_buf *d, int batch, int m, int n, int k)
{
	struct vm_buf *temp[TEMP_COUNT] = {NULL};
	enum elem e = (enum elem)in->result_elem;
	int64_t total = (int64_t)batch * m * n;
	const float *a = as_f32(c, in, 0, (int64_t)batch * m * k, &temp[TEMP_A]),
				*b = a ? as_f32(c, in, 1, (int64_t)batch * k * n, &temp[TEMP_B]) : NULL;
	float *sum = (float *)d->data;
	int rc = !b;
	/* A narrow sum is widened once. */
	if (!rc && e != ELEM_F32) {
		temp[TEMP_D] = vm_buf_get(c, in, (size_t)total * sizeof(float));
		rc = !temp[TEMP_D];
		if (!rc) map_widen(e, sum = (float *)temp[TEMP_D]->data, d->data, total);
	}
	/* tf32 and its like split operands into parts, and a sum in f16 is rounded on the way: both
	 * need room. */
	if (!rc && (in->special || e == ELEM_F16)) {
		temp[TEMP_PART_A] = vm_buf_get(c, in, (size_t)m * (size_t)k * sizeof(float));
		temp[TEMP_PART_B] = vm_buf_get(c, in, (size_t)MAX(k, m) * (size_t)n * sizeof(float));
		rc = !temp[TEMP_PART_A] || !temp[TEMP_PART_B];
	}
	for (int i = 0; i < batch && !rc; i++) {
		const float *pa = a + (size_t)i * m * k, *pb = b + (size_t)i * k * n;
		if (in->special)
			gemm_split(sum + (size_t)i * m * n, pa, pb, m, n, k, (float *)temp[TEMP_PART_A]->data,
				(float *)temp[TEMP_PART_B]->data, &schemes[in->special]);
		else if (e == ELEM_F16)
			gemm_f16(sum + (size_t)i * m * n, pa, pb, m, n, k, (float *)temp[TEMP_PART_A]->data,
				(uint16_t *)temp[TEMP_PART_B]->data);
		else gemm_f32(sum + (size_t)i * m * n, pa, pb, m, n, k);
	}
	if (!rc && e != ELEM_F32) map_narrow(e, d->data, sum, total);
	for (int i = 0; i < TEMP_COUNT; i++) vm_buf_put(c, temp[i]);
	return rc;
}

int exec_dot(struct vm_ctx *c, const struct vm_instr *in)
{
	c->collectives++;
	int batch = in->imm[0], m = in->imm[1], n = in->imm[2], k = in->imm[3];
	if (c->want_cost) vm_cost_row(c, in)->dot_flops += 2 * (int64_t)batch * m * n * k;
	struct vm_buf *d = accumulator(c, in, (int64_t)batch * m * n);
	if (!d) return 1;
	int rc = 0;
	/* f64 and int8 have loops of their own; all other types meet in f32. */
	if (in->result_elem == ELEM_F64 || in->result_elem == ELEM_I32) {
		const void *a = vm_dense(c, in, vm_src(c, in, 0), (int64_t)batch * m * k),
				   *b = a ? vm_dense(c, in, vm_src(c, in, 1), (int64_t)batch * k * n) : NULL;
		rc = !b;
		for (int i = 0; i < batch && !rc; i++) {
			size_t od = (size_t)i * m * n, oa = (size_t)i * m * k, ob = (size_t)i * k * n;
			if (in->result_elem == ELEM_F64)
				gemm_f64((double *)d->data + od, (const double *)a + oa, (const double *)b + ob, m, n, k);
			else gemm_i8((int32_t *)d->data + od, (const int8_t *)a + oa, (const int8_t *)b + ob, m, n, k);
		}
	} else {
		rc = dot_f32(c, in, d, batch, m, n, k);
	}
	/* The accumulator is the result. */
	if (rc) {
		vm_buf_put(c, d);
		return 1;
	}
	vm_value_dense(c, vm_dst(c, in, 0), d);
	vm_kill(c, in);
	return 0;
}

/* ---- operands of tt.dot_scaled ---- */

static float e2m1_value(unsigned nibble)
{
	static const float magnitudes[8] = {0, 0.5f, 1, 1.5f, 2, 3, 4, 6};
	return nibble & 8 ? -magnitudes[nibble & 7] : magnitudes[nibble & 7];
}

/* A power of two with 127 for 1 and 255 for NaN, or a number of its own. */
static float scale_value(enum elem e, uint8_t bits)
{
	return e == ELEM_F8E4M3 ? f8e4m3_to_f32(bits) : bits == 255 ? NAN : ldexpf(1.0f, bits - 127);
}

/* imm[0]: the right operand, whose k is its first dimension; its scale has one row a column.
 * imm[1]: two numbers a byte. */
int exec_scale(struct vm_ctx *c, const struct vm_instr *in)
{
	const struct vm_value_info *wide = &c->program->values[vm_dst(c, in, 0)];
	int64_t rows = wide->shape[0], columns = wide->shape[1], packed = in->imm[1] ? 2 : 1;
	const uint8_t *data = vm_dense(c, in, vm_src(c, in, 0), rows * columns / packed), *scale = NULL;
	const struct vm_value_info *info = in->nsrc == 2 ? &c->program->values[vm_src(c, in, 1)] : NULL;
	if (data && info) scale = vm_dense(c, in, vm_src(c, in, 1), info->count);
	float *d = data && (scale || !info) ? vm_result(c, in, 0, rows * columns) : NULL;
	if (!d) return 1;
	if (!in->imm[1]) map_widen((enum elem)in->elem, d, data, rows * columns);
	for (int64_t i = 0; i < rows; i++) {
		for (int64_t j = 0; j < columns; j++) {
			int64_t k = in->imm[0] ? i : j, line = in->imm[0] ? j : i, at = i * columns + j;
			uint8_t pair = !in->imm[1] ? 0 : in->imm[0] ? data[i / 2 * columns + j] : data[at / 2];
			if (in->imm[1]) d[at] = e2m1_value(k & 1 ? pair >> 4 : pair & 15);
			if (scale)
				d[at] *= scale_value(
					info->elem, scale[line * info->shape[1] + k / ((in->imm[0] ? rows : columns) / info->shape[1])]);
		}
	}
	vm_kill(c, in);
	return 0;
}
