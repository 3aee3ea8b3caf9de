/* stage_backward: what the tests of the backward stages share: packed batches whose
 * arrays have room for more rows than are used, and the comparison of a reference with
 * its own finite differences. */
#ifndef HONE_STAGE_BACKWARD_H
#define HONE_STAGE_BACKWARD_H
#include "stage_harness.h"

#define SUM_U 0x1p-23 /* a step of a sum in fp32 */
#define SLACK 1.1     /* products of two errors */

/* ---- batches ---- */

struct lengths {
	int S;
	int n[8];
};

static inline int rows_of(const struct lengths *l)
{
	int T = 0;
	for (int s = 0; s < l->S; s++) T += l->n[s];
	return T;
}

/* A packed batch with room for more rows than it has, so that a backend may round
 * up. ids (T) may be NULL. */
static inline struct ops_batch *batch_of(struct harness *h, const struct lengths *l, const int32_t *ids, int *T)
{
	struct ops *o = h->o;
	int rows = rows_of(l), t = 0;
	int32_t *all = xcalloc((size_t)rows * 3, sizeof *all), *pos = all + rows, *sequence = pos + rows;
	for (int s = 0; s < l->S; s++)
		for (int i = 0; i < l->n[s]; i++, t++) all[t] = ids ? ids[t] : t % 7, pos[t] = i, sequence[t] = s;
	struct ops_batch *b = o->batch_create(o->ctx, rows + 128, l->S + 1, 0, rows + 128, rows + 128);
	*T = o->batch_put(
		o->ctx, b, &(struct ops_rows){.T = rows, .S = l->S, .ids = all, .pos = pos, .sequence = sequence});
	free(all);
	return b;
}

/* (rows, width) values as an array of T rows with `row` elements each; the rest is `fill`. */
static inline struct array rows_make(struct harness *h, const float *x, int rows, int width, int T, int row, float fill)
{
	float *all = host_floats((int64_t)T * row);
	for (int t = 0; t < T; t++)
		for (int i = 0; i < row; i++)
			all[(int64_t)t * row + i] = t < rows && i < width ? x[(int64_t)t * width + i] : fill;
	struct array a = array_make(h, all, (int64_t)T * row);
	free(all);
	return a;
}

/* The way back, in place: the first `width` of each of `rows` rows, without gaps.
 * Surplus rows must be finite. */
static inline float *rows_take(
	struct harness *h, const char *name, struct array *a, int rows, int width, int T, int row)
{
	float *x = array_take(h, name, a);
	for (int t = 0; t < T; t++)
		for (int i = 0; i < width; i++) {
			float v = x[(int64_t)t * row + i];
			if (t < rows) x[(int64_t)t * width + i] = v;
			else if (!isfinite(v)) {
				print_error("%s: surplus row %d holds %g\n", name, t, (double)v);
				h->failures++;
				return x;
			}
		}
	return x;
}

/* A part of an array such as qkv, without gaps; rows of the batch alone. */
static inline float *part_take(
	struct harness *h, const float *all, int T, const int *widths, int parts, int part, int rows)
{
	float *x = host_floats((int64_t)rows * widths[part]);
	for (int t = 0; t < rows; t++)
		for (int i = 0; i < widths[part]; i++)
			x[(int64_t)t * widths[part] + i] = all[part_at(h, T, widths, parts, part, t, i)];
	return x;
}

/* ---- the references against finite differences ---- */

static inline void difference_check(const char *what, double got, double want)
{
	if (!(fabs(got - want) <= 2e-4 * (1 + fabs(want))))
		fail_msg("%s: gradient %.9g, finite difference %.9g", what, got, want);
}

/* Inputs are floats, so the step is one that a float holds. */
#define DIFFERENCE 0x1p-9f

/* Each case on the CPU and on a GPU: CASES names them, name##_body is what one does. */
#define CASE_BOTH(name) \
	static void name##_cpu(void **state) { run_case("cpu", name##_body); } \
	static void name##_cuda(void **state) { run_case("cuda", name##_body); }
#define CASE_LIST(name) cmocka_unit_test(name##_cpu), cmocka_unit_test(name##_cuda),
#endif
