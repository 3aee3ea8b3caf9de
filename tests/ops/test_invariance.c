/* A row's bits do not depend on the rows beside it: every forward operation on many rows, then on
 * some of them alone. Sampler and trainer rest on it. Then the two functions that have no PyTorch
 * counterpart: dropout's mask, and exp through the softmax gradient. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <cmocka.h>
#include "packed_rows.h"
#include "ops/cpu/ops_cpu.h"
#include "ops/cpu_figures.h"

static float *normals(uint64_t stream, size_t n)
{
	float *x = xcalloc(n, sizeof *x);
	for (size_t i = 0; i < n; i++) x[i] = rng_normal(3, stream, i);
	return x;
}

static struct ops *make_ops(bool avx2_only, int threads)
{
	struct ops *o;
	struct err err;
	assert_int_equal(ops_cpu_create(&(struct ops_options){.threads = threads, .avx2_only = avx2_only}, &o, &err), 0);
	return o;
}

static const struct ops *prepared_of; /* whose operations are being checked */

static void for_each_isa(void (*check)(struct cpu_ops *))
{
	for (int avx2_only = 0; avx2_only < 2; avx2_only++) {
		struct ops *o = make_ops(avx2_only, 2);
		prepared_of = o;
		check(&o->ctx->f);
		ops_free(o);
	}
}

static void same_bits(const char *what, const float *got, const float *want, size_t n, int row, int rows)
{
	for (size_t i = 0; i < n; i++)
		if (memcmp(&got[i], &want[i], 4))
			fail_msg("%s: row %d in a batch of %d: element %zu is %.9g, was %.9g among all", what, row, rows, i, got[i],
				want[i]);
}

/* ---- products ---- */

static float fp32_weight(uint64_t i) { return rng_normal(3, 2, i); }
static float bf16_weight(uint64_t i)
{
	float x = fp32_weight(i);
	uint32_t bits;
	memcpy(&bits, &x, sizeof bits);
	bits &= 0xffff0000;
	memcpy(&x, &bits, sizeof x);
	return x;
}
static float fp16_weight(uint64_t i) { return (float)(_Float16)fp32_weight(i); }

/* Weights of GGUF's kinds, i / 32 the group: a factor with fp16's 11 bits, its sign the kind's,
 * times an integer; both ends of the range occur in each group. */
static float factor_of(uint64_t i) { return (float)(_Float16)(fp32_weight(i / 32 + 1000000) / 64); }
static int integer_of(uint64_t i, int low, int high)
{
	return i % 32 == 3 ? low : i % 32 == 17 ? high : low + (int)(rng_u32(3, 4, i) % (uint32_t)(high - low + 1));
}
static float q8_0_weight(uint64_t i) { return fabsf(factor_of(i)) * (float)integer_of(i, -127, 127); }
static float q5_0_weight(uint64_t i) { return factor_of(i) * (float)integer_of(i, -16, 15); }
static float q4_0_weight(uint64_t i) { return factor_of(i) * (float)integer_of(i, -8, 7); }
static float q4_1_weight(uint64_t i)
{
	return fmaf(fabsf(factor_of(i)), (float)integer_of(i, 0, 15), fp16_weight(i / 32));
}
/* All as Q4_1's but for one weight of the last group, which is a bit off. */
static float almost_q4_1_weight(uint64_t i)
{
	return i == 64 * 320 - 5 ? nextafterf(q4_1_weight(i), 9) : q4_1_weight(i);
}
static float zero_weight(uint64_t i) { return i % 5 ? 0.0f : -0.0f; }

struct weights {
	const char *kind;
	float (*at)(uint64_t i);
	int N, K;
	bool bt;
	double bytes; /* at most so many for a prepared weight; 0: not prepared */
};

/* Every product of some rows alone has the bits that it had among all rows, and has them still when
 * B was prepared, whatever form was found for it. */
static void check_weights(struct cpu_ops *o, const struct weights *w)
{
	enum { M = 1000 };
	static const int batches[] = {1, 2, 3, 4, 5, 7, 12, 13, 16, 24, 25, 31, 33, 100, 479, 481};
	int N = w->N, K = w->K;
	size_t out = (size_t)M * (size_t)N;
	float *a = normals(1, (size_t)M * (size_t)K), *start = normals(3, out), *b = xcalloc((size_t)N * (size_t)K, 4);
	float *all = xcalloc(out, 4), *part = xcalloc(out, 4);
	for (uint64_t i = 0; i < (uint64_t)N * (uint64_t)K; i++) b[i] = w->at(i);
	for (int acc = 0; acc < 2; acc++) {
		/* All rows at once, before anything is prepared. */
		memcpy(all, start, out * 4);
		o->matmul(o->ctx, all, a, b, M, N, K, false, w->bt, 0.75f, acc ? OPS_ADD : OPS_SET);
		/* Prepared in the form that the weights allow, and no larger. */
		if (w->bytes > 0) o->prepare(o->ctx, b, N, K);
		double columns = (N + 31) / 32 * 32; /* whole panels */
		if ((double)ops_prepared_bytes(prepared_of) > w->bytes * columns * K)
			fail_msg(
				"%s: prepared in %zu bytes, more than %g a weight", w->kind, ops_prepared_bytes(prepared_of), w->bytes);
		/* Some rows alone. */
		for (size_t i = 0; i < ARRAY_LEN(batches); i++) {
			int rows = batches[i], first = (int)(i * 37) % (M - rows);
			size_t at = (size_t)first * (size_t)N;
			memcpy(part, start + at, (size_t)rows * (size_t)N * 4);
			o->matmul(o->ctx, part, a + (size_t)first * (size_t)K, b, rows, N, K, false, w->bt, 0.75f,
				acc ? OPS_ADD : OPS_SET);
			same_bits(w->kind, part, all + at, (size_t)rows * (size_t)N, first, rows);
		}
		o->forget(o->ctx, b);
	}
	free(a);
	free(start);
	free(b);
	free(all);
	free(part);
}

static void check_matmul(struct cpu_ops *o)
{
	static const struct weights table[] = {
		{"fp32", fp32_weight, 33, 31, true, 0},
		{"fp32", fp32_weight, 130, 257, true, 0},
		{"fp32", fp32_weight, 16, 700, true, 0},
		{"fp32", fp32_weight, 300, 64, false, 0},
		{"fp32", fp32_weight, 47, 530, false, 0},
		{"fp32", fp32_weight, 33, 31, true, 4},
		{"fp32", fp32_weight, 130, 257, true, 4},
		{"fp32", fp32_weight, 16, 700, true, 4},
		{"bf16", bf16_weight, 130, 257, true, 2},
		{"bf16", bf16_weight, 33, 320, true, 2},
		{"fp16", fp16_weight, 47, 530, true, 2},
		{"fp16", fp16_weight, 64, 32, true, 2},
		{"Q8_0", q8_0_weight, 70, 544, true, 1.13},
		{"Q5_0", q5_0_weight, 33, 320, true, 1.13},
		{"Q4_0", q4_0_weight, 33, 320, true, 1.13},
		{"Q4_1", q4_1_weight, 70, 544, true, 0.76},
		{"Q4_1", q4_1_weight, 16, 32, true, 0.76},
		{"nearly Q4_1", almost_q4_1_weight, 64, 320, true, 4},
		{"zeros of both signs", zero_weight, 40, 64, true, 4},
	};
	for (size_t i = 0; i < ARRAY_LEN(table); i++) check_weights(o, &table[i]);
}

/* ---- rows of a norm, of activations, of the head ---- */

static void check_rows(struct cpu_ops *o)
{
	enum { M = 50, N = 77 };
	float *x = normals(4, M * N), *w = normals(5, N), *all = xcalloc(M * N, 4), *one = xcalloc(N, 4), lse[M],
		  logprob[M], entropy[M], lse1, logprob1, entropy1;
	int32_t targets[M];
	for (int i = 0; i < M; i++) targets[i] = (i * 13) % N;
	/* Each operation over all rows, then row by row. */
	o->rmsnorm(o->ctx, all, NULL, x, w, 1e-6f, M, N);
	for (int m = 0; m < M; m++) {
		o->rmsnorm(o->ctx, one, NULL, x + m * N, w, 1e-6f, 1, N);
		same_bits("rmsnorm", one, all + m * N, N, m, 1);
	}
	o->silu_mul(o->ctx, all, x, x, M * N);
	for (int m = 0; m < M; m++) {
		o->silu_mul(o->ctx, one, x + m * N, x + m * N, N);
		same_bits("silu_mul", one, all + m * N, N, m, 1);
	}
	o->logprob(o->ctx, logprob, entropy, lse, x, NULL, targets, 0.7f, M, N);
	for (int m = 0; m < M; m++) {
		o->logprob(o->ctx, &logprob1, &entropy1, &lse1, x + m * N, NULL, targets + m, 0.7f, 1, N);
		same_bits("logprob", &logprob1, &logprob[m], 1, m, 1);
		same_bits("entropy", &entropy1, &entropy[m], 1, m, 1);
		o->logprob(o->ctx, &logprob1, NULL, &lse1, x + m * N, NULL, targets + m, 0.7f, 1, N);
		same_bits("logprob without entropy", &logprob1, &logprob[m], 1, m, 1);
		/* Targets that share a row, between others. */
		const int32_t last = M - 1, from[4] = {last, m, m, last},
					  shared[4] = {targets[last], (targets[m] + 1) % N, targets[m], targets[last]};
		float logprob4[4], entropy4[4], lse4[4];
		o->logprob(o->ctx, logprob4, entropy4, lse4, x, from, shared, 0.7f, 4, N);
		same_bits("logprob from a shared row", &logprob4[2], &logprob[m], 1, m, 1);
		same_bits("entropy from a shared row", &entropy4[2], &entropy[m], 1, m, 1);
		same_bits("logprob behind a shared row", &logprob4[3], &logprob[last], 1, m, 1);
	}
	free(x);
	free(w);
	free(all);
	free(one);
}

/* ---- a sequence among others and alone; packed against paged is in test_ops ---- */

static void check_attention(struct cpu_ops *o)
{
	enum { S = 4, NH = 6, NKV = 2, HD = 20, T = 33 + 1 + 150 + 64 };
	static const int32_t start[S + 1] = {0, 33, 34, 184, 248};
	int32_t pos[T];
	for (int s = 0; s < S; s++)
		for (int t = start[s]; t < start[s + 1]; t++) pos[t] = t - start[s];
	float *q = normals(6, T * NH * HD), *k = normals(7, T * NKV * HD), *v = normals(8, T * NKV * HD),
		  *all = xcalloc(T * NH * HD, 4), *one = xcalloc(T * NH * HD, 4), *lse = xcalloc(T * NH, 4),
		  *lse1 = xcalloc(T * NH, 4);
	struct packed_rows rows;
	struct ops_packed b = packed_apart(&rows, T, S, start, pos);
	/* All sequences packed, then each alone. */
	o->attention(o->ctx, all, lse, q, k, v, &b, NH, NKV, HD);
	for (int s = 0; s < S; s++) {
		int n = start[s + 1] - start[s], first = start[s];
		int32_t ends[2] = {0, n};
		struct packed_rows one_row;
		struct ops_packed alone = packed_apart(&one_row, n, 1, ends, pos + first);
		o->attention(
			o->ctx, one, lse1, q + first * NH * HD, k + first * NKV * HD, v + first * NKV * HD, &alone, NH, NKV, HD);
		same_bits("attention", one, all + first * NH * HD, (size_t)(n * NH * HD), first, 1);
		same_bits("attention lse", lse1, lse + first * NH, (size_t)(n * NH), first, 1);
	}
	free(q);
	free(k);
	free(v);
	free(all);
	free(one);
	free(lse);
	free(lse1);
}

/* ---- dropout ---- */

static void check_dropout(struct cpu_ops *o)
{
	enum { N = 100003 };
	float *x = normals(9, N), *once = xcalloc(N, 4), *again = xcalloc(N, 4);
	const float p = 0.3f;
	o->dropout(o->ctx, once, x, p, 5, 6, N);
	/* What stays is scaled, and is a share that chance allows. */
	int kept = 0;
	for (int i = 0; i < N; i++) {
		if (once[i] != 0) {
			kept++;
			assert_true(fabsf(once[i] - x[i] / (1 - p)) <= 2e-7f * fabsf(once[i]));
		}
	}
	assert_true(fabs(kept - N * 0.7) < 5 * sqrt(N * 0.3 * 0.7)); /* 5 sigma of the binomial */
	/* The mask is the element's own, and another stream has another one. */
	memcpy(again, x, N * sizeof(float));
	o->dropout(
		o->ctx, again, again, p, 5, 6, 777); /* in place, and a prefix: the mask belongs to the element's index */
	same_bits("dropout", again, once, 777, 0, 1);
	o->dropout(o->ctx, again, x, p, 5, 7, N);
	int both = 0;
	for (int i = 0; i < N; i++) both += (once[i] != 0) == (again[i] != 0);
	assert_true(fabs(both - N * 0.58) < 5 * sqrt(N * 0.58 * 0.42)); /* another stream: independent, 0.7^2 + 0.3^2 */
	o->dropout(o->ctx, again, x, 0, 5, 6, N);
	same_bits("dropout of nothing", again, x, N, 0, 1);
	free(x);
	free(once);
	free(again);
}

/* ---- exp: with lse 0, temperature 1 and g = -1, logprob_backward leaves exp(x) in every place but
 * the target's ---- */

static void check_exp(struct cpu_ops *o)
{
	enum { N = 1 << 16 };
	float *x = xcalloc(N + 1, 4), *y = xcalloc(N + 1, 4), lse = 0, g = -1, worst = 0;
	int32_t target = N;
	/* Over the whole range of fp32, through the one operation that shows it: e^x - [target] times
	 * g. */
	for (int round = 0; round < 8; round++) {
		for (int i = 0; i < N; i++) x[i] = -87.3f + 176.0f * rng_uniform(1, (uint64_t)round, (uint64_t)i);
		memcpy(y, x, N * sizeof(float));
		o->logprob_backward(o->ctx, y, &lse, &target, &g, 1, 1, N + 1);
		for (int i = 0; i < N; i++) {
			double want = exp((double)x[i]);
			float near = (float)want, ulp = nextafterf(near, INFINITY) - near;
			float error = (float)(fabs(y[i] - want) / ulp);
			if (error > worst) worst = error;
		}
	}
	if (worst > 1.5f) fail_msg("exp is off by %.2f ulp", worst);
	/* The edges of the range, and what is no number. */
	static const float edge[8] = {0, -INFINITY, INFINITY, -88, -1e30f, 89, 1e-30f, -87.3365402f};
	memcpy(y, edge, sizeof edge);
	y[8] = NAN;
	target = 9;
	y[9] = 0;
	o->logprob_backward(o->ctx, y, &lse, &target, &g, 1, 1, 10);
	assert_true(y[0] == 1 && y[1] == 0 && y[2] == INFINITY && y[3] == 0 && y[4] == 0 && y[5] == INFINITY && y[6] == 1 &&
		y[7] > 1.17e-38f && isnan(y[8]));
	free(x);
	free(y);
}

static void test_matmul(void **state) { for_each_isa(check_matmul); }
static void test_rows(void **state) { for_each_isa(check_rows); }
static void test_attention(void **state) { for_each_isa(check_attention); }
static void test_dropout(void **state) { for_each_isa(check_dropout); }
static void test_exp(void **state) { for_each_isa(check_exp); }

int main(void)
{
	cmocka_set_message_output(CM_OUTPUT_TAP);
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_matmul),
		cmocka_unit_test(test_rows),
		cmocka_unit_test(test_attention),
		cmocka_unit_test(test_dropout),
		cmocka_unit_test(test_exp),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
