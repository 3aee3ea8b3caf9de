/* stage_harness: arrays in a backend's memory between sentinels and filled with NaN, and
 * comparison of results with references in double, element by element against a bound
 * that the reference derives.
 *
 * Every case runs twice; what comes out must have the same bits. */
#ifndef HONE_STAGE_HARNESS_H
#define HONE_STAGE_HARNESS_H
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <cmocka.h>
#include "ops/ops.h"

#define GUARD 128            /* elements before and behind each array */
#define GUARD_VALUE 12352.0f /* exact in bf16 */

struct harness {
	struct ops *o;
	double u;        /* largest relative error of rounding to elem; on the CPU with room for its sums in fp32 */
	uint64_t bits;   /* hash of all that came out, in this run */
	uint64_t first;  /* and in the first */
	uint64_t stream; /* of the next random array */
	int failures;
};

static inline double *doubles(int64_t n) { return xcalloc((size_t)MAX(n, 1), sizeof(double)); }
static inline float *host_floats(int64_t n) { return xcalloc((size_t)MAX(n, 1), sizeof(float)); }

/* Normal values that elem holds exactly. */
static inline float rounded(const struct harness *h, float x)
{
	return h->o->host_memory ? x : bf16_to_f32(f32_to_bf16(x));
}
static inline float *randoms(struct harness *h, int64_t n, float scale)
{
	float *x = host_floats(n);
	uint64_t stream = h->stream++;
	for (int64_t i = 0; i < n; i++) x[i] = rounded(h, scale * rng_normal(11, stream, (uint64_t)i));
	return x;
}

/* ---- arrays ---- */

struct array {
	struct elem *base; /* with guards */
	struct elem *p;
	int64_t n;
};

static inline void elem_put(struct harness *h, struct elem *to, const float *from, int64_t n)
{
	struct ops_weight w = {.rows = 1, .cols = (int)n, .ld = n, .w = to};
	h->o->put(h->o->ctx, &w, from, DTYPE_F32);
}

/* from NULL: NaN. */
static inline struct array array_make(struct harness *h, const float *from, int64_t n)
{
	struct ops *o = h->o;
	struct array a = {.n = n};
	a.base = o->alloc(o->ctx, (size_t)(n + 2 * GUARD) * (size_t)o->elem_bytes);
	a.p = ops_elem_at(o, a.base, GUARD);
	float *all = host_floats(n + 2 * GUARD);
	for (int64_t i = 0; i < n + 2 * GUARD; i++)
		all[i] = i < GUARD || i >= GUARD + n ? GUARD_VALUE : from ? from[i - GUARD] : NAN;
	elem_put(h, a.base, all, n + 2 * GUARD);
	free(all);
	return a;
}

static inline void bits_add(struct harness *h, const void *p, size_t bytes)
{
	for (size_t i = 0; i < bytes; i++) h->bits = (h->bits ^ ((const unsigned char *)p)[i]) * 0x100000001b3u;
}

static inline void guards_check(struct harness *h, const char *name, const float *all, int64_t n)
{
	int64_t spoilt = 0;
	for (int64_t i = 0; i < GUARD; i++) spoilt += all[i] != GUARD_VALUE || all[GUARD + n + i] != GUARD_VALUE;
	if (spoilt)
		print_error("%s: %lld sentinels beside the array were written\n", name, (long long)spoilt), h->failures++;
}

/* The array as floats (to be freed); it is released. */
static inline float *array_take(struct harness *h, const char *name, struct array *a)
{
	struct ops *o = h->o;
	float *all = host_floats(a->n + 2 * GUARD);
	o->get_elem(o->ctx, all, a->base, a->n + 2 * GUARD);
	guards_check(h, name, all, a->n);
	memmove(all, all + GUARD, (size_t)a->n * sizeof *all);
	o->release(o->ctx, a->base);
	return all;
}

struct f32_array {
	struct f32 *base;
	struct f32 *p;
	int64_t n;
};

static inline struct f32_array f32_make(struct harness *h, const float *from, int64_t n)
{
	struct ops *o = h->o;
	struct f32_array a = {.n = n};
	a.base = o->alloc(o->ctx, (size_t)(n + 2 * GUARD) * sizeof(float));
	a.p = (struct f32 *)((uintptr_t)a.base + GUARD * sizeof(float));
	float *all = host_floats(n + 2 * GUARD);
	for (int64_t i = 0; i < n + 2 * GUARD; i++)
		all[i] = i < GUARD || i >= GUARD + n ? GUARD_VALUE : from ? from[i - GUARD] : NAN;
	o->put_f32(o->ctx, a.base, all, n + 2 * GUARD);
	free(all);
	return a;
}

static inline float *f32_take(struct harness *h, const char *name, struct f32_array *a)
{
	struct ops *o = h->o;
	float *all = host_floats(a->n + 2 * GUARD);
	o->get_f32(o->ctx, all, a->base, a->n + 2 * GUARD);
	guards_check(h, name, all, a->n);
	memmove(all, all + GUARD, (size_t)a->n * sizeof *all);
	o->release(o->ctx, a->base);
	return all;
}

static inline void array_drop(struct harness *h, struct array *a) { h->o->release(h->o->ctx, a->base); }
static inline void f32_drop(struct harness *h, struct f32_array *a) { h->o->release(h->o->ctx, a->base); }

/* ---- where values lie ---- */

/* Element (t, column) of part `part` of an array of T rows whose parts have these widths: rows of
 * all parts on a GPU, planes on the CPU. */
static inline int64_t part_at(const struct harness *h, int T, const int *widths, int parts, int part, int t, int column)
{
	int before = 0, all = 0;
	for (int i = 0; i < parts; i++) before += i < part ? widths[i] : 0, all += widths[i];
	return h->o->host_memory ? (int64_t)T * before + (int64_t)t * widths[part] + column
							 : (int64_t)t * all + before + column;
}

/* ---- comparison ---- */

/* got against want: every |difference| <= bound, which is for the worst case; and the norm of all
 * differences within 1.5 u of want's (roundings of random values are 0.4 u each): a term that is
 * missing shows there. Both are printed. */
static inline void compare(
	struct harness *h, const char *what, const float *got, const double *want, const double *bound, int64_t n)
{
	double worst = 0, errors = 0, values = 0;
	int64_t at = 0, wrong = 0;
	for (int64_t i = 0; i < n; i++) {
		double error = fabs((double)got[i] - want[i]), quotient = error == 0 ? 0 : error / bound[i];
		errors += error * error, values += want[i] * want[i];
		if (!(quotient <= 1)) wrong++;
		if (!(quotient <= worst)) worst = quotient, at = i;
	}
	bits_add(h, got, (size_t)n * sizeof *got);
	double norm = values > 0 ? sqrt(errors / values) / h->u : 0;
	print_message("# %s %s: %.2f u in norm, largest error %.3f of its bound (element %lld of %lld: %.9g, expected "
				  "%.9g, bound %.3g)\n",
		h->o->name, what, norm, worst, (long long)at, (long long)n, n ? (double)got[at] : 0, n ? want[at] : 0,
		n ? bound[at] : 0);
	if (!(norm <= 1.5))
		print_error("%s: the differences are %.2f u in norm, expected at most 1.5\n", what, norm), h->failures++;
	if (wrong)
		print_error("%s: %lld of %lld elements are beyond their bounds\n", what, (long long)wrong, (long long)n),
			h->failures++;
}

/* ---- running ---- */

static inline struct ops *backend_open(const char *device)
{
	struct ops *o = NULL;
	struct err err = {0};
	bool must = getenv("HONE_REQUIRE_GPU") != NULL;
	struct ops_options options = {.threads = 2,
		.adapter_columns = 128,
		.cuda_libs = getenv("HONE_CUDA_LIBS"),
		.poison_scratch = getenv("HONE_STAGES_POISON") != NULL};
	if (!ops_card_find(getenv("HONE_CUDA_CARD"), &options.card, &err) && !ops_open(device, &options, &o, &err))
		return o;
	if (must || !strcmp(device, "cpu")) fail_msg("%s", err.text);
	print_message("# %s\n", err.text);
	return NULL;
}

/* HONE_STAGES_SMALL=1: fewer repeats and rows, for tools under which a launch takes seconds. Every
 * kernel is launched all the same. */
static inline bool stages_are_small(void)
{
	const char *small = getenv("HONE_STAGES_SMALL");
	return small && *small == '1';
}

/* A case on a backend, twice. */
static inline void run_case(const char *device, void (*body)(struct harness *))
{
	struct ops *o = backend_open(device);
	if (!o) skip();
	struct harness h = {.o = o, .u = o->host_memory ? 0x1p-18 : 0x1p-8};
	for (int run = 0; run < (stages_are_small() ? 1 : 2); run++) {
		h.bits = 0xcbf29ce484222325u;
		h.stream = 1;
		body(&h);
		if (!run) h.first = h.bits;
	}
	ops_free(o);
	if (!stages_are_small() && h.first != h.bits) fail_msg("two runs of the same case differ in their bits");
	if (h.failures) fail_msg("%d comparisons failed", h.failures);
}

/* The cases that the program's argument means, a pattern of names, or all;
 * --list names them alone. */
#define cases_run(argc, argv, cases) cases_main(argc, argv, cases, ARRAY_LEN(cases))
static inline int cases_main(int argc, char **argv, const struct CMUnitTest *cases, size_t n)
{
	const char *wanted = argc > 1 ? argv[1] : NULL;
	if (wanted && !strcmp(wanted, "--list")) {
		for (size_t i = 0; i < n; i++) puts(cases[i].name);
		return 0;
	}
	cmocka_set_message_output(CM_OUTPUT_TAP);
	if (wanted) cmocka_set_test_filter(wanted);
	return _cmocka_run_group_tests("cases", cases, n, NULL, NULL);
}
#endif
