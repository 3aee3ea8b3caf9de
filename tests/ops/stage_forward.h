/* stage_forward: what the tests of inference's stages share: the table under test, TAP, arrays,
 * a batch's rows, and main.
 *
 * Tolerances. u is half a unit in the last place of an element (2^-8 for bf16, 2^-24 for fp32).
 * References start from the values as the backend holds them. A result e that is one rounding of an
 * fp32 sum of n products may differ by u |e| + 2^-24 (8 + 2 sqrt(n)) sum |products|: the sums' own
 * roundings, as a random walk. Attention also rounds its probabilities to elements: u sum p |v|
 * more. What else adds an error says so at its place.
 *
 * Without a GPU all is skipped; HONE_REQUIRE_GPU=1 makes that a failure. With HONE_STAGES_POISON a
 * stage's scratch memory is NaN before the stage: a value that nobody wrote shows in a result
 * (tests/gpu/sanitize.py). */
#ifndef HONE_STAGE_FORWARD_H
#define HONE_STAGE_FORWARD_H
#include <fnmatch.h>
#include "stage_world.h"

static struct ops *ops;
static struct ops_context *ctx;
static double unit;
static int tests, failed, breaches, seen;
static double worst;

/* ---- TAP ---- */

static inline void test_end(const char *name)
{
	bool ok = !breaches && seen > 0;
	printf("%s %d - %s (%d values, worst %.2f of the tolerance)\n", ok ? "ok" : "not ok", ++tests, name, seen, worst);
	fflush(stdout);
	failed += !ok;
	breaches = seen = 0;
	worst = 0;
}

static inline void breach(const char *what, int64_t i, double got, double want, double tolerance)
{
	if (breaches++ < 5)
		printf("# %s: element %lld is %.9g, expected %.9g within %.3g\n", what, (long long)i, got, want, tolerance);
}

static inline void close_to(const char *what, int64_t i, double got, double want, double tolerance)
{
	seen++;
	double share = fabs(got - want) / tolerance;
	if (!(share <= 1)) breach(what, i, got, want, tolerance);
	else worst = fmax(worst, share);
}
static inline void equal_to(const char *what, int64_t i, double got, double want)
{
	seen++;
	if (!(got == want)) breach(what, i, got, want, 0);
}
static inline void guards_hold(const char *what, const struct array *a)
{
	int n = array_breaches(ops, a);
	if (n) breach(what, -1, n, 0, 0);
}

static inline double sum_tolerance(double value, double absolute, double n)
{
	return unit * fabs(value) + 0x1p-24 * (8 + 2 * sqrt(n)) * absolute + 1e-30;
}

/* ---- arrays and batches ---- */

static inline struct array elem_array(int64_t n) { return array_make(ops, KIND_ELEM, n); }
static inline struct array f32_array(int64_t n) { return array_make(ops, KIND_F32, n); }

/* n normal numbers of this scale on the backend; *host gets them back as they are held. */
static inline struct array filled(uint64_t stream, int64_t n, float scale, float **host)
{
	struct array a = elem_array(n);
	float *x = normals(stream, n, scale);
	array_put(ops, &a, x);
	free(x);
	*host = array_get(ops, &a);
	return a;
}

static inline float *weight_get(const struct ops_weight *w)
{
	if (!w->w) return NULL;
	float *host = xmalloc((size_t)w->rows * (size_t)w->cols * 4);
	ops->get(ctx, host, w);
	return host;
}

struct rows { /* a batch's host side: S sequences of given rows, each beginning at some position */
	struct ops_rows r;
	int32_t *ids;
	int32_t *pos;
	int32_t *sequence;
	int32_t *table;
	struct ops_batch *b;
	int T; /* what batch_put returned */
};

/* lengths, first positions (NULL: packed) of S sequences. Pages are shuffled over kv_pages. */
static inline struct rows rows_make(int S, const int *length, const int *first, int pages, int kv_pages, int V)
{
	struct rows x = {0};
	int T = 0;
	for (int s = 0; s < S; s++) T += length[s];
	x.ids = xcalloc((size_t)T, 4), x.pos = xcalloc((size_t)T, 4), x.sequence = xcalloc((size_t)T, 4);
	/* Random ids; positions from the sequence's first on. */
	for (int s = 0, t = 0; s < S; s++)
		for (int i = 0; i < length[s]; i++, t++) {
			x.ids[t] = (int32_t)(rng_u32(11, 0, (uint64_t)t) % (uint32_t)V);
			x.pos[t] = (first ? first[s] : 0) + i;
			x.sequence[t] = s;
		}
	if (first) {
		/* A page table from a shuffle: neighbours in a sequence are none in memory. */
		x.table = xcalloc((size_t)(S * pages), 4);
		CHECK(S * pages <= kv_pages);
		int32_t *all = xcalloc((size_t)kv_pages, 4);
		for (int p = 0; p < kv_pages; p++) all[p] = p;
		for (int p = 0; p < kv_pages; p++) {
			int q = (int)(rng_u32(12, 0, (uint64_t)p) % (uint32_t)kv_pages), t = all[p];
			all[p] = all[q], all[q] = t;
		}
		memcpy(x.table, all, (size_t)(S * pages) * 4);
		free(all);
	}
	x.r = (struct ops_rows){.T = T,
		.S = S,
		.ids = x.ids,
		.pos = x.pos,
		.sequence = x.sequence,
		.table = x.table,
		.pages = first ? pages : 0};
	int most = (T + 127) / 128 * 128 + 16; /* room for what the backend rounds up to */
	x.b = ops->batch_create(ctx, most, most, pages + 3, most, most);
	x.T = ops->batch_put(ctx, x.b, &x.r);
	if (x.T < T || x.T > most) breach("batch_put's rows", 0, x.T, T, 0);
	return x;
}
static inline void rows_free(struct rows *x)
{
	ops->batch_free(ctx, x->b);
	free(x->ids), free(x->pos), free(x->sequence), free(x->table);
}

/* What stands behind row t of y must be scaling * drop(y) A^T, part by part, then zeros. */
static inline void tail_check(
	const char *what, const float *y, int in, int t, const struct linear *l, const float *const *a)
{
	int ld = in + ops->tail, r = l->lora.r;
	const float *row = y + (int64_t)t * ld;
	for (int j = 0; j < ops->tail; j++) {
		double want = 0, absolute = 0;
		int part = r ? j / r : 0;
		bool exists = r && part < l->l.parts && l->lora.a[part].w;
		double keep = l->lora.seed ? 1 / (1 - (double)l->lora.dropout) : 1;
		for (int i = 0; exists && i < in; i++) {
			double x = row[i];
			if (l->lora.seed) {
				uint64_t element = (uint64_t)t * (uint64_t)in + (uint64_t)i;
				if ((double)rng_philox(l->lora.seed, l->lora.stream + (uint64_t)part, element / 4).v[element % 4] <
					(double)l->lora.dropout * 0x1p32)
					x = 0;
			}
			double product = x * a[part][(j % r) * in + i] * l->lora.scaling * keep;
			want += product, absolute += fabs(product);
		}
		close_to(what, (int64_t)t * ld + in + j, row[in + j], want, sum_tolerance(want, absolute, in));
	}
}

/* ---- main ---- */

static inline bool open_table(bool is_invariant, struct err *err)
{
	const char *device = getenv("HONE_DEVICE");
	struct ops_options o = {.batch_invariant = is_invariant,
		.adapter_columns = 64,
		.cuda_libs = getenv("HONE_CUDA_LIBS"),
		.poison_scratch = getenv("HONE_STAGES_POISON") != NULL};
	if (ops_card_find(getenv("HONE_CUDA_CARD"), &o.card, err)) return false;
	if (ops_open(device ? device : "cuda", &o, &ops, err)) return false;
	ctx = ops->ctx;
	unit = ops->elem_bytes == 2 ? 0x1p-8 : 0x1p-24;
	return true;
}

/* One test of a program's list, by its call's text: run where the program's argument, a pattern, is
 * none or means it; with --list named alone. */
static const char *wanted;
static bool is_listing;
#define STAGE(call)                                                     \
	do {                                                                \
		if (is_listing) puts(#call);                                    \
		else if (!wanted || !fnmatch(wanted, #call, 0)) call;           \
	} while (0)

/* Runs the tests on a table; then those that must hold with batch_invariant
 * too on one that has it. */
static inline int stages_main(int argc, char **argv, void (*run)(void), void (*run_invariant)(void))
{
	struct err err;
	wanted = argc > 1 ? argv[1] : NULL;
	is_listing = wanted && !strcmp(wanted, "--list");
	if (is_listing) return run(), run_invariant ? run_invariant() : (void)0, 0;
	if (!open_table(false, &err)) {
		const char *required = getenv("HONE_REQUIRE_GPU");
		if (required && *required == '1') return printf("1..1\nnot ok 1 - %s\n", err.text), 1;
		return printf("1..0 # SKIP no GPU: %s\n", err.text), 0;
	}
	run();
	ops_free(ops);
	if (run_invariant) {
		if (!open_table(true, &err)) return printf("not ok %d - %s\n", tests + 1, err.text), 1;
		run_invariant();
		ops_free(ops);
	}
	printf("1..%d\n", tests);
	if (!tests) printf("# no test is named %s\n", wanted);
	return failed > 0 || !tests;
}
#endif
