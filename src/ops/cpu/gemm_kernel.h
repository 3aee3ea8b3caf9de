/* gemm_kernel: the inner tile of every product in this backend (matrices, attention), and the
 * packing that feeds it.
 *
 * A tile is up to MR rows by NR = 2 vectors of columns of the result, held in registers (12 x 32
 * with AVX-512, 6 x 16 with AVX2); per k it loads a row of B and broadcasts one element of A per
 * row. Each element of the result is one chain of fused multiply-adds over k = 0, 1, ... : its
 * value depends on its row of A, its column of B and K alone, whatever tile, block or batch it
 * falls into. That is what row-independent results stand on, and why nothing here may reassociate a
 * sum. */
#ifndef HONE_GEMM_KERNEL_H
#define HONE_GEMM_KERNEL_H
#include "simd_transpose.h"

#define NR (2 * VL)
#if VL == 16
#define MR 12
#else
#define MR 6
#endif
#define KC 256             /* k of one pass: a packed panel of B is at most KC x NR */
/* Floats from row to row of packed A: not a power of two, which would put all rows into one set of
 * the cache. */
#define A_ROW (KC + 16)
#define A_PANEL (MR * A_ROW)

struct tile {
	const float *a; /* element (m, k): a[m * A_ROW + k], or a[k * a_col + m] when by_column */
	int64_t a_col;
	const float *b; /* element (k, n): b[k * b_row + n] */
	int64_t b_row;
	const uint8_t *packed; /* instead of b: K rows of a panel in a small form (panels.h) */
	float *c;
	int64_t c_row;
	int K;
	int columns; /* at most NR */
	float alpha;
	bool add;       /* to what c holds */
	bool by_column; /* how a lies */
	bool padded;    /* b may be read up to whole vectors */
};

enum tile_width { WIDTH_TWO, WIDTH_ONE, WIDTH_MASKED };

static inline __attribute__((always_inline)) void tile_store(const struct tile *t, int m, vf v0, vf v1)
{
	float *c = t->c + m * t->c_row;
	int n0 = MIN(t->columns, VL), n1 = t->columns - n0;
	vf alpha = vf_set1(t->alpha);
	if (t->columns == NR) {
		vf_store(c, t->add ? vf_fma(v0, alpha, vf_load(c)) : vf_mul(v0, alpha));
		vf_store(c + VL, t->add ? vf_fma(v1, alpha, vf_load(c + VL)) : vf_mul(v1, alpha));
		return;
	}
	vf_store_n(c, t->add ? vf_fma(v0, alpha, vf_load_n(c, n0)) : vf_mul(v0, alpha), n0);
	if (n1 > 0) vf_store_n(c + VL, t->add ? vf_fma(v1, alpha, vf_load_n(c + VL, n1)) : vf_mul(v1, alpha), n1);
}

/* One k of all sums. */
static inline __attribute__((always_inline)) void tile_step(
	vf *s0, vf *s1, const float *a, const int row, vf b0, vf b1, const int rows, const bool two)
{
#pragma GCC unroll 12
	for (int m = 0; m < rows; m++) {
		vf x = vf_set1(a[m * row]);
		s0[m] = vf_fma(x, b0, s0[m]);
		if (two) s1[m] = vf_fma(x, b1, s1[m]);
	}
}

/* All but t is constant in each copy: the loops unroll and the sums stay in registers. */
static inline __attribute__((always_inline)) void tile_rows(
	const struct tile *t, const int rows, const enum tile_width width, const bool by_column)
{
	vf s0[MR], s1[MR];
#pragma GCC unroll 12
	for (int m = 0; m < rows; m++) s0[m] = s1[m] = vf_zero();
	const float *a = t->a, *b = t->b;
	const int row = by_column ? 1 : A_ROW;
	const int64_t col = by_column ? t->a_col : 1, b_row = t->b_row;
	const int n0 = MIN(t->columns, VL), n1 = t->columns - n0;
	for (int k = 0; k < t->K; k++, a += col, b += b_row) {
		vf b0 = width == WIDTH_MASKED ? vf_load_n(b, n0) : vf_load(b),
		   b1 = width == WIDTH_MASKED ? vf_load_n(b + VL, n1)
			: width == WIDTH_TWO      ? vf_load(b + VL)
									  : b0;
		tile_step(s0, s1, a, row, b0, b1, rows, width != WIDTH_ONE);
	}
#pragma GCC unroll 12
	for (int m = 0; m < rows; m++) tile_store(t, m, s0[m], s1[m]);
}

#define ROWS_UP_TO_6(X, ...) \
	X(1, __VA_ARGS__) X(2, __VA_ARGS__) X(3, __VA_ARGS__) X(4, __VA_ARGS__) X(5, __VA_ARGS__) X(6, __VA_ARGS__)
#if MR == 12
#define EACH_ROWS(X, ...) ROWS_UP_TO_6(X, __VA_ARGS__) \
	X(7, __VA_ARGS__) X(8, __VA_ARGS__) X(9, __VA_ARGS__) X(10, __VA_ARGS__) X(11, __VA_ARGS__) X(12, __VA_ARGS__)
#else
#define EACH_ROWS(X, ...) ROWS_UP_TO_6(X, __VA_ARGS__)
#endif
#define TILE_CASE(n, width, by_column) case n: tile_rows(t, n, width, by_column); break;
#define TILE_VARIANT(name, width, by_column) \
	static __attribute__((noinline)) void name(const struct tile *t, int rows) \
	{ switch (rows) { EACH_ROWS(TILE_CASE, width, by_column) } }
TILE_VARIANT(tile_two, WIDTH_TWO, false)
TILE_VARIANT(tile_one, WIDTH_ONE, false)
TILE_VARIANT(tile_masked, WIDTH_MASKED, false)
TILE_VARIANT(tile_column_two, WIDTH_TWO, true)
TILE_VARIANT(tile_column_one, WIDTH_ONE, true)
TILE_VARIANT(tile_column_masked, WIDTH_MASKED, true)

/* rows <= MR */
static inline void tile_run(const struct tile *t, int rows)
{
	static void (*const variants[2][3])(const struct tile *, int) = {
		{tile_two, tile_one, tile_masked}, {tile_column_two, tile_column_one, tile_column_masked}};
	enum tile_width width = t->columns == NR ? WIDTH_TWO
		: t->columns == VL                   ? WIDTH_ONE
		: !t->padded                         ? WIDTH_MASKED
		: t->columns > VL                    ? WIDTH_TWO
											 : WIDTH_ONE;
	variants[t->by_column][width](t, rows);
}

/* A product of any number of rows and columns whose operands lie ready; K <= KC. t gives its first
 * tile. Rows are shared out evenly: 16 are 8 + 8 and not 12 + 4. */
static inline void tiles_run(struct tile t, int rows, int columns)
{
	const float *a = t.a, *b = t.b;
	float *c = t.c;
	int ntiles = (rows + MR - 1) / MR, each = ntiles ? (rows + ntiles - 1) / ntiles : 0;
	for (int m = 0; m < rows; m += each)
		for (int n = 0; n < columns; n += NR) {
			t.a = a + (int64_t)m * (t.by_column ? 1 : A_ROW);
			t.b = b + n;
			t.c = c + m * t.c_row + n;
			t.columns = MIN(NR, columns - n);
			tile_run(&t, MIN(each, rows - m));
		}
}

/* ---- packing ---- */

static inline void pack_a_rows(float *panel, const float *a, int64_t lda, int rows, int K)
{
	for (int m = 0; m < rows; m++) memcpy(panel + m * A_ROW, a + m * lda, (size_t)K * sizeof *a);
}

/* Several tiles of `each` columns side by side, A_PANEL apart, each (K, MR). */
static inline void pack_a_columns(float *panel, const float *a, int64_t lda, int columns, int each, int K)
{
	_Static_assert(MR <= VL, "a row of a tile of transposed A is one vector");
	for (int k = 0; k < K; k++, panel += MR, a += lda)
		for (int m = 0, tile = 0; m < columns; m += each, tile++) {
			int n = MIN(each, columns - m);
			_mm_prefetch((const char *)(a + m) + 8 * lda * (int64_t)sizeof *a, _MM_HINT_T0);
			vf_store_n(panel + tile * A_PANEL, vf_load_n(a + m, n), n);
		}
}

/* Up to NR columns of K rows of B, as (K, NR), zeros behind the last column. */
static inline void pack_rows(float *panel, const float *b, int64_t ldb, int K, int columns)
{
	int n0 = MIN(columns, VL), n1 = columns - n0;
	for (int k = 0; k < K; k++, panel += NR, b += ldb) {
		vf_store(panel, n0 == VL ? vf_load(b) : vf_load_n(b, n0));
		vf_store(panel + VL, n1 == VL ? vf_load(b + VL) : n1 > 0 ? vf_load_n(b + VL, n1) : vf_zero());
	}
}

/* pack_rows from B transposed: b is (columns, K). */
static inline void pack_columns(float *panel, const float *b, int64_t ldb, int K, int columns)
{
	for (int half = 0; half < 2; half++, columns -= VL)
		for (int k = 0; k < K; k += VL) {
			int depth = MIN(VL, K - k);
			vf r[VL];
			if (depth == VL && columns >= VL) vf_load_columns(r, b + half * VL * ldb + k, ldb);
			else vf_load_columns_part(r, b + half * VL * ldb + k, ldb, depth, MIN(columns, VL));
			float *out = panel + k * NR + half * VL;
			if (depth == VL) {
#pragma GCC unroll 16
				for (int i = 0; i < VL; i++) vf_store(out + i * NR, r[i]);
			} else {
				for (int i = 0; i < depth; i++) vf_store(out + i * NR, r[i]);
			}
		}
}

/* ---- few rows of A against up to NR columns of transposed B, without packing: each square is
 * turned and used in registers; the same chains of sums as a tile's ---- */

#define DIRECT_ROWS 4
struct direct {
	const float *a;
	int64_t lda;
	const float *b;
	int64_t ldb;
	float *c;
	int64_t ldc;
	int K;
	int columns; /* at most NR */
	float alpha;
	bool add;
};

/* Two squares side by side a step: their chains are independent, and a chain alone waits for
 * itself. */
static inline __attribute__((always_inline)) void direct_rows(const struct direct *d, const int rows)
{
	vf s[2][DIRECT_ROWS], r[VL];
	for (int m = 0; m < rows; m++) s[0][m] = s[1][m] = vf_zero();
	for (int k = 0; k < d->K; k += VL) {
		int depth = MIN(VL, d->K - k);
		const float *a = d->a + k, *b = d->b + k;
#pragma GCC unroll 2
		for (int half = 0; half < 2; half++, b += VL * d->ldb) {
			int columns = d->columns - half * VL;
			if (depth == VL && columns >= VL) {
				vf_load_columns(r, b, d->ldb);
#pragma GCC unroll 16
				for (int i = 0; i < VL; i++)
					for (int m = 0; m < rows; m++) s[half][m] = vf_fma(vf_set1(a[m * d->lda + i]), r[i], s[half][m]);
			} else if (columns > 0) {
				vf_load_columns_part(r, b, d->ldb, depth, MIN(columns, VL));
				for (int i = 0; i < depth; i++)
					for (int m = 0; m < rows; m++) s[half][m] = vf_fma(vf_set1(a[m * d->lda + i]), r[i], s[half][m]);
			}
		}
	}
	struct tile t = {.c = d->c, .c_row = d->ldc, .columns = d->columns, .alpha = d->alpha, .add = d->add};
	for (int m = 0; m < rows; m++) tile_store(&t, m, s[0][m], s[1][m]);
}

static inline void direct_run(const struct direct *d, int rows)
{
	switch (rows) {
	case 1: direct_rows(d, 1); break;
	case 2: direct_rows(d, 2); break;
	case 3: direct_rows(d, 3); break;
	case 4: direct_rows(d, 4); break;
	}
}
#endif
