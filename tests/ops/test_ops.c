/* Every operation of the CPU backend against PyTorch in float64 (tests/ref/ops_oracle.py), with one
 * thread and with two, which must agree to the bit; with AVX-512 where the processor has it and
 * with AVX2.
 *
 * Every buffer stands between sentinels, and buffers that an operation sets are filled with NaN
 * before.
 *
 * Tolerance. A sum of K products of unit-normal numbers has size sqrt(K); each of its K additions
 * rounds a partial sum of at most that size by eps/2 relatively, and the errors are independent:
 * the deviation is about eps sqrt(K) |result| / 2. With 4 eps sqrt(K) max|expected| the extreme of
 * a million elements (5 sigma) still fits, and a wrong index or a missing term, which is of order
 * 1, does not. Elementwise operations are chains of a few roundings: K stands for their number
 * squared. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <cmocka.h>
#include "packed_rows.h"
#include "ops/cpu/ops_cpu.h"
#include "tensor/tensor.h"

#define GUARD 64
#define BUFFERS_MAX 64
static const float sentinel = 1.2345e30f;

struct fixture {
	struct cpu_ops *ops;
	struct safetensors *file;
	int index;
	const double *args;
	float *buffers[BUFFERS_MAX];
	size_t lengths[BUFFERS_MAX];
	int nbuffers;
	uint32_t digest; /* of all outputs, for the comparison between thread counts */
};

static const char *build_dir(void)
{
	const char *b = getenv("BUILD");
	return b ? b : "build/release";
}

static const struct tensor_info *find(struct fixture *f, const char *name)
{
	char key[64];
	snprintf(key, sizeof key, "%d.%s", f->index, name);
	return safetensors_find(f->file, key);
}

static bool next_case(struct fixture *f)
{
	f->index++;
	const struct tensor_info *t = find(f, "args");
	f->args = t ? t->data : NULL;
	return t != NULL;
}

/* n floats between sentinels; NaN inside. */
static float *buffer(struct fixture *f, size_t n)
{
	assert_true(f->nbuffers < BUFFERS_MAX);
	float *p = malloc((n + 2 * GUARD) * sizeof *p);
	for (size_t i = 0; i < n + 2 * GUARD; i++) p[i] = i >= GUARD && i < n + GUARD ? NAN : sentinel;
	f->buffers[f->nbuffers] = p;
	f->lengths[f->nbuffers++] = n;
	return p + GUARD;
}

static float *input(struct fixture *f, const char *name)
{
	const struct tensor_info *t = find(f, name);
	if (!t) fail_msg("case %d has no tensor %s", f->index, name);
	float *p = buffer(f, t->bytes / 4);
	memcpy(p, t->data, t->bytes);
	return p;
}

static const int32_t *ints(struct fixture *f, const char *name) { return find(f, name)->data; }

/* term: size of the summed terms where they may cancel to a smaller result. */
static void compare_terms(struct fixture *f, const char *op, const char *name, const float *got, double K, double term)
{
	const struct tensor_info *t = find(f, name);
	if (!t) fail_msg("case %d has no tensor %s", f->index, name);
	const float *want = t->data;
	size_t n = t->bytes / 4;
	double top = term;
	for (size_t i = 0; i < n; i++)
		if (isfinite(want[i])) top = fmax(top, fabs(want[i]));
	double tolerance = 4 * 1.1920929e-7 * sqrt(fmax(K, 1)) * top + 1e-37;
	for (size_t i = 0; i < n; i++) {
		if (isinf(want[i]) ? got[i] == want[i] : fabs((double)got[i] - want[i]) <= tolerance) continue;
		fail_msg("%s case %d: %s[%zu] is %.9g, expected %.9g, tolerance %.3g", op, f->index, name, i, got[i], want[i],
			tolerance);
	}
	for (size_t i = 0; i < n; i++) {
		uint32_t bits;
		memcpy(&bits, &got[i], 4);
		f->digest = f->digest * 1000003u ^ bits;
	}
}

static void compare(struct fixture *f, const char *op, const char *name, const float *got, double K)
{
	compare_terms(f, op, name, got, K, 0);
}

static void end_case(struct fixture *f, const char *op)
{
	for (int b = 0; b < f->nbuffers; b++) {
		for (int i = 0; i < GUARD; i++)
			if (f->buffers[b][i] != sentinel || f->buffers[b][f->lengths[b] + GUARD + i] != sentinel)
				fail_msg("%s case %d wrote outside buffer %d", op, f->index, b);
		free(f->buffers[b]);
	}
	f->nbuffers = 0;
}

/* ---- one function a family: walks its cases ---- */

static void walk_matmul(struct fixture *f)
{
	while (next_case(f)) {
		int M = (int)f->args[0], N = (int)f->args[1], K = (int)f->args[2];
		bool acc = f->args[6] != 0;
		float *a = input(f, "a"), *b = input(f, "b"), *out = acc ? input(f, "out") : buffer(f, (size_t)M * N);
		f->ops->matmul(f->ops->ctx, out, a, b, M, N, K, f->args[3] != 0, f->args[4] != 0, (float)f->args[5],
			acc ? OPS_ADD : OPS_SET);
		compare(f, "matmul", "want", out, K);
		end_case(f, "matmul");
	}
}

static void walk_norm(struct fixture *f)
{
	while (next_case(f)) {
		int M = (int)f->args[0], N = (int)f->args[1];
		bool acc = f->args[3] != 0;
		float *x = input(f, "x"), *w = input(f, "w"), *dy = input(f, "dy"), *y = buffer(f, (size_t)M * N),
			  *rstd = buffer(f, (size_t)M), *dw = input(f, "dw0");
		float *dx = acc ? input(f, "dx0") : buffer(f, (size_t)M * N), *y2 = buffer(f, (size_t)M * N);
		struct cpu_ops *o = f->ops;
		o->rmsnorm(o->ctx, y, rstd, x, w, (float)f->args[2], M, N);
		o->rmsnorm(o->ctx, y2, NULL, x, w, (float)f->args[2], M, N);
		assert_memory_equal(y, y2, (size_t)M * N * 4);
		o->rmsnorm_backward(o->ctx, dx, dw, dy, x, w, rstd, M, N, acc ? OPS_ADD : OPS_SET);
		compare(f, "rmsnorm", "y", y, N + 16);
		compare(f, "rmsnorm", "rstd", rstd, N + 16);
		compare(f, "rmsnorm_backward", "dx", dx, 4 * N + 64);
		compare(f, "rmsnorm_backward", "dw", dw, M + 16);
		/* Only dx wanted, in place of dy: the model does that. */
		float *inplace = input(f, "dy");
		o->rmsnorm_backward(o->ctx, inplace, NULL, inplace, x, w, rstd, M, N, OPS_SET);
		if (!acc) compare(f, "rmsnorm_backward in place", "dx", inplace, 4 * N + 64);
		end_case(f, "rmsnorm");
	}
}

static void walk_rows(struct fixture *f)
{
	while (next_case(f)) {
		int M = (int)f->args[0], N = (int)f->args[1], V = (int)f->args[2];
		float *x = input(f, "x"), *bias = input(f, "bias"), *dbias = input(f, "dbias0"), *table = input(f, "table"),
			  *out = buffer(f, (size_t)M * N), *dtable = input(f, "dtable0");
		struct cpu_ops *o = f->ops;
		o->bias_backward(o->ctx, dbias, x, M, N);
		o->embed(o->ctx, out, table, ints(f, "ids"), M, N);
		o->embed_backward(o->ctx, dtable, x, ints(f, "ids"), M, N, V);
		o->bias_add(o->ctx, x, bias, M, N);
		compare(f, "bias_add", "biased", x, 1);
		compare(f, "bias_backward", "dbias", dbias, M);
		compare(f, "embed", "embedded", out, 0);
		compare(f, "embed_backward", "dtable", dtable, M);
		end_case(f, "rows");
	}
}

static void walk_rope(struct fixture *f)
{
	while (next_case(f)) {
		float *x = input(f, "x"), *table = input(f, "table");
		f->ops->rope(f->ops->ctx, x, x, table, ints(f, "pos"), (int)f->args[0], (int)f->args[1], (int)f->args[2],
			f->args[3] != 0);
		compare(f, "rope", "want", x, 4);
		end_case(f, "rope");
	}
}

/* The same sequences through pages, page lists shuffled; row by row (decode) or all at once
 * (prefill). */
static void paged_like_packed(struct fixture *f, const struct ops_packed *b, int NH, int NKV, int HD, const float *q,
	const float *k, const float *v, float *out, bool by_row)
{
	int T = b->T, per_seq = T / OPS_PAGE + 1, pages = per_seq * b->S;
	struct cpu_ops *o = f->ops;
	size_t page = (size_t)OPS_PAGE * NKV * HD;
	float *kp = buffer(f, page * pages), *vp = buffer(f, page * pages);
	int32_t *lists = malloc(sizeof *lists * pages), *slot = malloc(sizeof *slot * T);
	const int32_t **table = malloc(sizeof *table * T);
	for (int i = 0; i < pages; i++) lists[i] = (i * 7 + 3) % pages;
	if (pages % 7 == 0)
		for (int i = 0; i < pages; i++) lists[i] = pages - 1 - i;
	for (int s = 0; s < b->S; s++)
		for (int t = b->start[s]; t < b->start[s + 1]; t++) {
			table[t] = lists + s * per_seq;
			slot[t] = table[t][b->pos[t] / OPS_PAGE] * OPS_PAGE + b->pos[t] % OPS_PAGE;
		}
	for (int t = 0; t < T; t += by_row ? 1 : T) {
		struct ops_paged p = {by_row ? 1 : T, b->pos + t, slot + t, table + t};
		o->kv_write(o->ctx, kp, vp, k + (size_t)t * NKV * HD, v + (size_t)t * NKV * HD, &p, NKV, HD);
		o->attention_paged(o->ctx, out + (size_t)t * NH * HD, q + (size_t)t * NH * HD, kp, vp, &p, NH, NKV, HD);
	}
	free(lists);
	free(slot);
	free(table);
}

static void walk_attention(struct fixture *f)
{
	while (next_case(f)) {
		int T = (int)f->args[0], S = (int)f->args[1], NH = (int)f->args[2], NKV = (int)f->args[3], HD = (int)f->args[4];
		struct packed_rows rows;
		struct ops_packed b = packed_apart(&rows, T, S, ints(f, "start"), ints(f, "pos"));
		struct cpu_ops *o = f->ops;
		size_t nq = (size_t)T * NH * HD, nk = (size_t)T * NKV * HD;
		float *q = input(f, "q"), *k = input(f, "k"), *v = input(f, "v"), *dout = input(f, "dout"),
			  *out = buffer(f, nq), *out2 = buffer(f, nq), *lse = buffer(f, (size_t)T * NH);
		float *dq = buffer(f, nq), *dk = buffer(f, nk), *dv = buffer(f, nk);
		/* Forward, with and without the sums that backward needs; then backward. */
		o->attention(o->ctx, out, lse, q, k, v, &b, NH, NKV, HD);
		o->attention(o->ctx, out2, NULL, q, k, v, &b, NH, NKV, HD);
		assert_memory_equal(out, out2, nq * 4);
		o->attention_backward(o->ctx, dq, dk, dv, dout, out, lse, q, k, v, &b, NH, NKV, HD);
		/* Against the oracle's fp64. */
		compare(f, "attention", "out", out, HD + T);
		compare(f, "attention", "lse", lse, HD + T);
		compare_terms(f, "attention_backward", "dq", dq, 4 * (HD + T), 1);
		compare_terms(f, "attention_backward", "dk", dk, 4 * (HD + T), 1);
		compare(f, "attention_backward", "dv", dv, 4 * (HD + T));
		/* Paged attention has the packed one's bits. */
		for (int by_row = 0; by_row < 2; by_row++) {
			paged_like_packed(f, &b, NH, NKV, HD, q, k, v, out2, by_row);
			if (memcmp(out, out2, nq * 4))
				fail_msg("attention case %d: paged (%s) and packed differ", f->index, by_row ? "decode" : "prefill");
		}
		end_case(f, "attention");
	}
}

static void walk_mlp(struct fixture *f)
{
	while (next_case(f)) {
		int64_t n = (int64_t)f->args[0];
		float *gate = input(f, "gate"), *up = input(f, "up"), *dout = input(f, "dout"), *y = input(f, "y"),
			  *out = buffer(f, n), *dgate = buffer(f, n), *dup = buffer(f, n);
		struct cpu_ops *o = f->ops;
		o->silu_mul(o->ctx, out, gate, up, n);
		o->silu_mul_backward(o->ctx, dgate, dup, dout, gate, up, n);
		compare(f, "silu_mul", "out", out, 16);
		compare(f, "silu_mul_backward", "dgate", dgate, 36);
		compare(f, "silu_mul_backward", "dup", dup, 16);
		float squares = (float)o->sum_squares(o->ctx, y, n);
		compare(f, "sum_squares", "sum_squares", &squares, 1);
		float *x = input(f, "y");
		o->axpy(o->ctx, x, up, -0.75f, n);
		compare(f, "axpy", "axpyed", x, 4);
		o->scale(o->ctx, y, 1.5f, n);
		compare(f, "scale", "scaled", y, 1);
		/* In place, as the model's backward pass does it. */
		o->silu_mul_backward(o->ctx, gate, up, dout, gate, up, n);
		compare(f, "silu_mul_backward in place", "dgate", gate, 36);
		compare(f, "silu_mul_backward in place", "dup", up, 16);
		end_case(f, "mlp");
	}
}

static void walk_head(struct fixture *f)
{
	while (next_case(f)) {
		int N = (int)f->args[0], V = (int)f->args[1];
		float t = (float)f->args[2], *logits = input(f, "logits"), *g = input(f, "g"), *logprob = buffer(f, N),
			  *entropy = buffer(f, N), *lse = buffer(f, N);
		struct cpu_ops *o = f->ops;
		o->logprob(o->ctx, logprob, entropy, lse, logits, NULL, ints(f, "targets"), t, N, V);
		compare(f, "logprob", "logprob", logprob, 16);
		compare(f, "logprob", "lse", lse, 16);
		compare(f, "logprob", "entropy", entropy, 64);
		o->logprob(o->ctx, logprob, NULL, lse, logits, NULL, ints(f, "targets"), t, N, V);
		compare(f, "logprob", "logprob", logprob, 16);
		/* exp(x - lse) carries lse's rounding, eps * |lse|, into p: about 32 here. */
		o->logprob_backward(o->ctx, logits, lse, ints(f, "targets"), g, t, N, V);
		compare(f, "logprob_backward", "dlogits", logits, 64);
		end_case(f, "head");
	}
}

static void walk_optim(struct fixture *f)
{
	while (next_case(f)) {
		int64_t n = (int64_t)f->args[0];
		float *p = input(f, "p0"), *grads = input(f, "grads"), *m = buffer(f, n), *v = buffer(f, n);
		memset(m, 0, n * 4);
		memset(v, 0, n * 4);
		for (int step = 0; step < (int)f->args[6]; step++) {
			struct ops_adamw o = {(float)f->args[1], (float)f->args[2], (float)f->args[3], (float)f->args[4],
				(float)f->args[5], 1, step + 1};
			f->ops->adamw(f->ops->ctx, p, grads + step * n, m, v, n, &o);
		}
		compare(f, "adamw", "p", p, 16);
		compare(f, "adamw", "m", m, 16);
		compare(f, "adamw", "v", v, 16);
		end_case(f, "adamw");
	}
}

static void run_family(const char *family, void (*walk)(struct fixture *))
{
	char path[512];
	snprintf(path, sizeof path, "%s/ref/ops/%s.safetensors", build_dir(), family);
	for (int avx2_only = 0; avx2_only < 2; avx2_only++) {
		uint32_t digests[2];
		for (int threads = 1; threads <= 2; threads++) {
			struct fixture f = {.index = -1};
			struct err err = {0};
			if (safetensors_open(path, &f.file, &err)) fail_msg("%s", err.text);
			struct ops_options o = {.threads = threads, .avx2_only = avx2_only};
			struct ops *ops;
			assert_int_equal(ops_cpu_create(&o, &ops, &err), 0);
			f.ops = &ops->ctx->f;
			walk(&f);
			assert_true(f.index > 0);
			digests[threads - 1] = f.digest;
			ops_free(ops);
			safetensors_close(f.file);
		}
		assert_int_equal(digests[0], digests[1]);
	}
}

#define FAMILY(name) static void test_##name(void **state) { run_family(#name, walk_##name); }
/* clang-format off */
FAMILY(matmul) FAMILY(norm) FAMILY(rows) FAMILY(rope) FAMILY(attention) FAMILY(mlp) FAMILY(head) FAMILY(optim)
	/* clang-format on */

	static int make_fixtures(void **state)
{
	char command[1024];
	snprintf(command, sizeof command,
		"test -s %s/ref/ops/optim.safetensors || env LD_PRELOAD= build/venv/bin/python tests/ref/ops_oracle.py "
		"%s/ref/ops",
		build_dir(), build_dir());
	return system(command);
}

static double squares_of(struct ops *o, struct ops_weight *a, struct ops_weight *b)
{
	return o->sum_squares(o->ctx, (struct ops_weight *const[]){a, b}, b ? 2 : 1);
}

/* Weights that lie one behind the other and decay alike are one span, whose sum is one sum: to the
 * bit that of a single weight in their place. Others are added up. Values are drawn until the two
 * ways differ in a bit. */
static void test_spans(void **state)
{
	enum { COLS = 500 };
	static float master[3 * COLS], grad[3 * COLS];
	struct ops *o;
	struct err err = {0};
	if (ops_cpu_create(&(struct ops_options){.threads = 1}, &o, &err)) fail_msg("%s", err.text);
#define WEIGHT(rows_, cols_, at) \
	{.rows = rows_, .cols = cols_, .ld = cols_, .master = (struct f32 *)(master + (at)), \
		.grad = (struct f32 *)(grad + (at))}
	struct ops_weight whole = WEIGHT(4, COLS / 2, 0), first = WEIGHT(2, COLS / 2, 0),
					  second = WEIGHT(2, COLS / 2, COLS), vector = WEIGHT(1, COLS, COLS),
					  beyond = WEIGHT(2, COLS / 2, 2 * COLS);
	int told = 0;
	for (uint64_t trial = 0; trial < 50; trial++) {
		for (int i = 0; i < 3 * COLS; i++) grad[i] = rng_normal(trial, 4, (uint64_t)i);
		double one = squares_of(o, &whole, NULL), apart = squares_of(o, &first, NULL) + squares_of(o, &second, NULL);
		assert_true(squares_of(o, &first, &second) == one);
		assert_true(squares_of(o, &first, &vector) == apart);
		assert_true(squares_of(o, &first, &beyond) == squares_of(o, &first, NULL) + squares_of(o, &beyond, NULL));
		told += one != apart;
	}
	assert_true(told > 0);
	ops_free(o);
}

static void fill(float *x, size_t n, uint64_t stream)
{
	for (size_t i = 0; i < n; i++) x[i] = rng_normal(5, stream, i);
}

/* Many sequences in one step, each a token further than the one before it: consecutive positions of
 * one sequence are taken together, those of several are not. Alone each row has the same bits. */
static void test_steps_of_a_staircase(void **state)
{
	enum { ROWS = 96, HEADS = 2, SIZE = 8, PAGES = ROWS / OPS_PAGE + 1 };
	static float kp[ROWS * PAGES * OPS_PAGE * SIZE], vp[ROWS * PAGES * OPS_PAGE * SIZE], k[SIZE], v[SIZE];
	static float q[ROWS * HEADS * SIZE], all[ROWS * HEADS * SIZE], alone[ROWS * HEADS * SIZE];
	static int32_t pages[ROWS * PAGES];
	const int32_t *table[ROWS];
	int32_t pos[ROWS], slot[ROWS];
	struct ops *ops;
	struct err err = {0};
	if (ops_cpu_create(&(struct ops_options){.threads = 1}, &ops, &err)) fail_msg("%s", err.text);
	struct cpu_ops *o = &ops->ctx->f;
	for (int i = 0; i < ROWS * PAGES; i++) pages[i] = ROWS * PAGES - 1 - i;
	/* Row t is the token at position t of sequence t; all that stands in front of it is written. */
	for (int t = 0; t < ROWS; t++) {
		table[t] = pages + t * PAGES;
		for (pos[t] = 0;; pos[t]++) {
			slot[t] = table[t][pos[t] / OPS_PAGE] * OPS_PAGE + pos[t] % OPS_PAGE;
			fill(k, SIZE, (uint64_t)(2 * (t * ROWS + pos[t])));
			fill(v, SIZE, (uint64_t)(2 * (t * ROWS + pos[t]) + 1));
			o->kv_write(o->ctx, kp, vp, k, v, &(struct ops_paged){1, &pos[t], &slot[t], &table[t]}, 1, SIZE);
			if (pos[t] == t) break;
		}
	}
	fill(q, ROWS * HEADS * SIZE, UINT64_MAX);
	o->attention_paged(o->ctx, all, q, kp, vp, &(struct ops_paged){ROWS, pos, slot, table}, HEADS, 1, SIZE);
	for (int t = 0; t < ROWS; t++)
		o->attention_paged(o->ctx, alone + t * HEADS * SIZE, q + t * HEADS * SIZE, kp, vp,
			&(struct ops_paged){1, &pos[t], &slot[t], &table[t]}, HEADS, 1, SIZE);
	assert_memory_equal(all, alone, sizeof all);
	ops_free(ops);
}

int main(void)
{
	cmocka_set_message_output(CM_OUTPUT_TAP);
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_matmul),
		cmocka_unit_test(test_norm),
		cmocka_unit_test(test_rows),
		cmocka_unit_test(test_rope),
		cmocka_unit_test(test_attention),
		cmocka_unit_test(test_mlp),
		cmocka_unit_test(test_head),
		cmocka_unit_test(test_optim),
		cmocka_unit_test(test_spans),
		cmocka_unit_test(test_steps_of_a_staircase),
	};
	return cmocka_run_group_tests(tests, make_fixtures, NULL);
}
