/* Gradients against differences of the forward pass, without any oracle: all weights, an adapter,
 * and an adapter with dropout, whose mask must be the same in both passes; sequences apart, and
 * sequences that follow a row of another.
 *
 * For each tensor one random direction d of unit length: D(h) = (L(w + h d) - L(w - h d)) / 2h,
 * twice, and Richardson's (4 D(h) - D(2h)) / 3 against <grad, d>. What is left is a term in h^4
 * (1e-8 L^(5) for h = 1e-2) and rounding: L is of order 5, its fp32 terms carry relative errors of
 * about eps sqrt(K) depth ~ 1e-6 and are summed in double, so D(h) is off by up to 5e-6 / h = 5e-4
 * and the combination by twice that. The bound is 1e-3 of max(1, |<grad, d>|). A wrong gradient is
 * off by its own size, and the test insists that most are above 0.02. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <cmocka.h>
#include "model/model.h"
#include "host_values.h"

/* More rows of the head than a pass takes at once: some tokens have two. */
enum { T = 21, S = 3, ROWS = 30 };
static const int32_t starts[S + 1] = {0, 1, 9, T};
/* The last two as a family: one that goes on behind the first row of the other but two. */
static const int32_t follows[S] = {-1, -1, 6};

struct fd {
	struct ops *ops;
	struct model *m;
	struct adapter *a;
	struct pass *p;
	int32_t ids[T], pos[T];
	struct head_row rows[ROWS];
	struct batch batch;
	uint64_t dropout_seed;
	double loss;
};

static void loss_fn_sum(void *ctx, int begin, int n, const float *logprob, const float *entropy, float *g)
{
	struct fd *f = ctx;
	for (int i = 0; i < n; i++) {
		double w = (1.0 + (begin + i) % 3) / ROWS;
		f->loss -= w * logprob[i];
		g[i] = (float)-w;
	}
}

static void fd_init(struct fd *f, bool is_qwen2, double dropout, bool shares)
{
	struct err err = {0};
	/* A model of odd sizes, of either kind. */
	struct model_config c = {
		.vocab_size = 37,
		.hidden_size = 12,
		.num_hidden_layers = 2,
		.num_attention_heads = 4,
		.num_key_value_heads = 2,
		.head_dim = 6,
		.intermediate_size = 20,
		.max_position_embeddings = 64,
		.rms_norm_eps = 1e-6,
		.rope_theta = 100,
		.tie_word_embeddings = is_qwen2,
		.attention_bias = is_qwen2,
		.qk_norm = !is_qwen2,
		.bos_token_id = -1,
		.eos_token_id = -1,
		.pad_token_id = -1,
	};
	*f = (struct fd){0};
	assert_int_equal(ops_cpu_create(&(struct ops_options){.threads = 2}, &f->ops, &err), 0);
	assert_int_equal(model_create(&c, 5, f->ops, &f->m, &err), 0);
	int n;
	/* Its weights are stirred, and those of an adapter where there is one. */
	struct param *params = model_params(f->m, &n);
	for (int i = 0; i < n; i++) /* a fresh model is too small to be sensitive */
		for (int64_t k = 0; k < params[i].count; k++)
			host_values(&params[i])[k] = params[i].ndim == 1
				? host_values(&params[i])[k] + 0.2f * rng_normal(9, (uint64_t)i, (uint64_t)k)
				: host_values(&params[i])[k] * 12;
	if (dropout >= 0) {
		assert_int_equal(
			adapter_create(f->m, &(struct adapter_options){.r = 3, .lora_alpha = 5, .lora_dropout = dropout, .seed = 3},
				&f->a, &err),
			0);
		params = adapter_params(f->a, &n);
		for (int i = 0; i < n; i++)
			for (int64_t k = 0; k < params[i].count; k++)
				host_values(&params[i])[k] += 0.2f * rng_normal(11, (uint64_t)i, (uint64_t)k);
		f->dropout_seed = 77;
	}
	assert_int_equal(pass_create(f->m, &(struct pass_options){T, 4, true, false}, &f->p, &err), 0);
	/* Packed sequences, some behind a row of an earlier one where beginnings are shared. */
	for (int s = 0; s < S; s++)
		for (int t = starts[s], past = shares && follows[s] >= 0 ? f->pos[follows[s]] + 1 : 0; t < starts[s + 1]; t++)
			f->pos[t] = past + t - starts[s];
	for (int t = 0; t < T; t++) f->ids[t] = (int32_t)(rng_u32(1, 0, (uint64_t)t) % 37);
	for (int i = 0; i < ROWS; i++)
		f->rows[i] = (struct head_row){.at = (i * 7) % T, .target = (int32_t)(rng_u32(1, 1, (uint64_t)i) % 37)};
	f->batch = (struct batch){f->ids, {T, S, starts, f->pos, shares ? follows : NULL}};
	model_enable_grad(f->m, f->a);
}

static void fd_release(struct fd *f)
{
	pass_free(f->p);
	adapter_free(f->a);
	model_free(f->m);
	ops_free(f->ops);
}

static double fd_loss(struct fd *f)
{
	float logprob[ROWS];
	double loss = 0;
	pass_forward(f->p, f->a, &f->batch, f->dropout_seed);
	pass_logprobs(f->p, f->rows, ROWS, 0.8f, logprob, NULL);
	for (int i = 0; i < ROWS; i++) loss -= (1.0 + i % 3) / ROWS * logprob[i];
	return loss;
}

static void move(float *w, const float *from, const float *d, int64_t n, float h)
{
	for (int64_t k = 0; k < n; k++) w[k] = from[k] + h * d[k];
}

/* (L(w + h d) - L(w - h d)) / 2h; the weights are put back. */
static double difference(struct fd *f, const struct param *p, const float *from, const float *d, float h)
{
	move(host_values(p), from, d, p->count, h);
	double above = fd_loss(f);
	move(host_values(p), from, d, p->count, -h);
	double below = fd_loss(f);
	memcpy(host_values(p), from, (size_t)p->count * sizeof *from);
	return (above - below) / (2 * (double)h);
}

/* Returns the slope along a random direction of unit length. */
static double param_check(struct fd *f, const struct param *p, uint64_t stream)
{
	size_t count = (size_t)p->count;
	float *d = xmalloc(count * sizeof *d),
		  *from = memcpy(xmalloc(count * sizeof *from), host_values(p), count * sizeof *from);
	double norm = 0, slope = 0;
	for (size_t k = 0; k < count; k++) {
		d[k] = rng_normal(21, stream, k);
		norm += (double)d[k] * d[k];
	}
	for (size_t k = 0; k < count; k++) {
		d[k] /= (float)sqrt(norm);
		slope += (double)d[k] * host_grads(p)[k];
	}
	double measured = (4 * difference(f, p, from, d, 1e-2f) - difference(f, p, from, d, 2e-2f)) / 3;
	if (fabs(measured - slope) > 1e-3 * fmax(1, fabs(slope)))
		fail_msg("%s: gradient %.6g, differences %.6g", p->name, slope, measured);
	free(d);
	free(from);
	return slope;
}

static void fd_check(struct fd *f)
{
	int n, large = 0;
	struct param *params = f->a ? adapter_params(f->a, &n) : model_params(f->m, &n);
	pass_forward(f->p, f->a, &f->batch, f->dropout_seed);
	pass_backward(f->p, f->rows, ROWS, 0.8f, loss_fn_sum, f);
	assert_true(f->loss == fd_loss(f));
	for (int i = 0; i < n; i++) large += fabs(param_check(f, &params[i], (uint64_t)i)) > 0.02;
	assert_true(2 * large > n);
}

static void run(bool is_qwen2, double dropout, bool shares)
{
	struct fd f;
	fd_init(&f, is_qwen2, dropout, shares);
	fd_check(&f);
	fd_release(&f);
}
static void test_weights_qwen3(void **state) { run(false, -1, false); }
static void test_weights_qwen2(void **state) { run(true, -1, false); }
static void test_adapter(void **state) { run(false, 0, false); }
static void test_adapter_dropout(void **state) { run(false, 0.4, false); }
static void test_weights_follow(void **state) { run(false, -1, true); }
static void test_adapter_follows(void **state) { run(true, 0.4, true); }

/* The same loss, with each sequence whole: rows 1..6 twice, once with rows 7 and 8 and once with
 * those that follow row 6. Log-probabilities are equal to the bit. Gradients are sums of the same
 * numbers in another order, over at most 27 rows: fp32 rounds them to some 2^-24 sqrt(27) = 3e-7 of
 * their length; the bound is 1e-6. */
static void test_follows_as_whole(void **state)
{
	enum { WHOLE = T + 6 };
	static const int32_t whole_starts[S + 1] = {0, 1, 9, WHOLE};
	for (int kind = 0; kind < 4; kind++) {
		struct fd f;
		int32_t ids[WHOLE], pos[WHOLE];
		struct head_row rows[ROWS];
		struct pass *p;
		struct err err = {0};
		float logprob[ROWS], whole_logprob[ROWS];
		int n;
		fd_init(&f, kind & 1, kind & 2 ? 0 : -1, true);
		f.dropout_seed = 0;
		struct param *params = f.a ? adapter_params(f.a, &n) : model_params(f.m, &n);
		/* Rows from 9 on go behind a copy of rows 1..6. */
		for (int t = 0; t < WHOLE; t++) {
			ids[t] = f.ids[t < 9 ? t : t < 15 ? t - 8 : t - 6];
			pos[t] = t < 9 ? f.pos[t] : t - 9;
		}
		for (int i = 0; i < ROWS; i++) {
			rows[i] = f.rows[i];
			if (rows[i].at >= 9) rows[i].at += 6;
		}
		struct batch batch = {ids, {WHOLE, S, whole_starts, pos, NULL}};
		pass_forward(f.p, f.a, &f.batch, 0);
		pass_logprobs(f.p, f.rows, ROWS, 0.8f, logprob, NULL);
		pass_backward(f.p, f.rows, ROWS, 0.8f, loss_fn_sum, &f);
		int64_t count = 0, at = 0;
		for (int i = 0; i < n; i++) count += params[i].count;
		float *shared = xcalloc((size_t)count, sizeof *shared);
		for (int i = 0; i < n; at += params[i++].count)
			memcpy(shared + at, host_grads(&params[i]), (size_t)params[i].count * sizeof *shared);
		params_zero_grad(f.ops, params, n);
		assert_int_equal(pass_create(f.m, &(struct pass_options){WHOLE, 4, true, false}, &p, &err), 0);
		pass_forward(p, f.a, &batch, 0);
		pass_logprobs(p, rows, ROWS, 0.8f, whole_logprob, NULL);
		pass_backward(p, rows, ROWS, 0.8f, loss_fn_sum, &f);
		assert_memory_equal(logprob, whole_logprob, sizeof logprob);
		double off = 0, size = 0;
		for (int i = at = 0; i < n; at += params[i++].count)
			for (int64_t k = 0; k < params[i].count; k++) {
				off += pow((double)shared[at + k] - host_grads(&params[i])[k], 2);
				size += pow(host_grads(&params[i])[k], 2);
			}
		if (!(sqrt(off) <= 1e-6 * sqrt(size) && size > 0)) fail_msg("kind %d: off by %g", kind, sqrt(off / size));
		free(shared);
		pass_free(p);
		fd_release(&f);
	}
}

/* A pass that does not keep the outputs of norms and gates makes them again: every
 * gradient has the same bits. */
static void test_recomputed(void **state)
{
	for (int kind = 0; kind < 4; kind++) {
		struct fd f;
		struct pass *p;
		struct err err = {0};
		int n;
		int64_t count = 0, at = 0;
		/* Kinds: both families of models, without an adapter and with one that drops out. */
		fd_init(&f, kind & 1, kind & 2 ? 0.4 : -1, false);
		struct param *params = f.a ? adapter_params(f.a, &n) : model_params(f.m, &n);
		for (int i = 0; i < n; i++) count += params[i].count;
		float *kept = xcalloc((size_t)count, sizeof *kept);
		/* Gradients of the fixture's pass, which keeps all outputs, and then of one that does
		 * not. */
		pass_forward(f.p, f.a, &f.batch, f.dropout_seed);
		pass_backward(f.p, f.rows, ROWS, 0.8f, loss_fn_sum, &f);
		for (int i = 0; i < n; at += params[i++].count)
			memcpy(kept + at, host_grads(&params[i]), (size_t)params[i].count * sizeof *kept);
		params_zero_grad(f.ops, params, n);
		assert_int_equal(pass_create(f.m, &(struct pass_options){T, 4, true, true}, &p, &err), 0);
		pass_forward(p, f.a, &f.batch, f.dropout_seed);
		pass_backward(p, f.rows, ROWS, 0.8f, loss_fn_sum, &f);
		for (int i = at = 0; i < n; at += params[i++].count)
			if (memcmp(kept + at, host_grads(&params[i]), (size_t)params[i].count * sizeof *kept))
				fail_msg("kind %d: the gradient of %s", kind, params[i].name);
		free(kept);
		pass_free(p);
		fd_release(&f);
	}
}

/* Dropout changes the gradient pass, and only with a seed; equal seeds give equal bits, others do
 * not. */
static void test_dropout_is_a_function_of_its_seed(void **state)
{
	struct fd f;
	double loss[4];
	const uint64_t seeds[4] = {0, 7, 7, 8};
	fd_init(&f, false, 0.4, false);
	for (int i = 0; i < 4; i++) {
		f.dropout_seed = seeds[i];
		loss[i] = fd_loss(&f);
	}
	assert_true(loss[1] == loss[2] && loss[0] != loss[1] && loss[1] != loss[3]);
	fd_release(&f);
}

/* A hit is told of the target that no other one beats, in both kinds of calls: every token of the
 * vocabulary is the target of every row once. */
static void test_hits_are_the_largest(void **state)
{
	enum { VOCAB = 37 };
	static float logprob[VOCAB][ROWS];
	static uint8_t hits[VOCAB][ROWS], again[VOCAB][ROWS];
	struct fd f;
	int found = 0;
	fd_init(&f, false, -1, false);
	memset(hits, 7, sizeof hits);
	memset(again, 7, sizeof again);
	pass_forward(f.p, NULL, &f.batch, 0);
	for (int v = 0; v < VOCAB; v++) {
		for (int i = 0; i < ROWS; i++) f.rows[i].target = v;
		pass_want_hits(f.p, hits[v]);
		pass_logprobs(f.p, f.rows, ROWS, 0.8f, logprob[v], NULL);
		pass_forward(f.p, NULL, &f.batch, 0);
		pass_want_hits(f.p, again[v]);
		pass_backward(f.p, f.rows, ROWS, 0.8f, loss_fn_sum, &f);
		pass_forward(f.p, NULL, &f.batch, 0);
	}
	/* By the log-probabilities themselves. */
	for (int i = 0; i < ROWS; i++)
		for (int v = 0; v < VOCAB; v++) {
			bool is_largest = true;
			for (int other = 0; other < VOCAB; other++) is_largest &= logprob[other][i] <= logprob[v][i];
			assert_int_equal(hits[v][i], is_largest);
			assert_int_equal(again[v][i], is_largest);
			found += is_largest;
		}
	assert_int_equal(found, ROWS);
	fd_release(&f);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_weights_qwen3),
		cmocka_unit_test(test_weights_qwen2),
		cmocka_unit_test(test_adapter),
		cmocka_unit_test(test_adapter_dropout),
		cmocka_unit_test(test_weights_follow),
		cmocka_unit_test(test_adapter_follows),
		cmocka_unit_test(test_follows_as_whole),
		cmocka_unit_test(test_recomputed),
		cmocka_unit_test(test_hits_are_the_largest),
		cmocka_unit_test(test_dropout_is_a_function_of_its_seed),
	};
	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
