/* The walk, the engine and the trainer over the device "check" (src/ops/ops_check.c), which has a
 * GPU's habits: recorded regions, rows rounded up with NaN behind them, bf16 elements, fp32
 * masters, no host memory. Whatever a device may not be given ends the program there. Values are
 * compared with the CPU's.
 *
 * Tolerances. A rounding to bf16 errs by 2^-9 of a value, uniformly up to that: in the mean square
 * by 2^-9 / sqrt(3). An error of a logit gathers those of about 10 stages a layer, independent and
 * of the size of their values, and those of the weights: relative to the spread of the logits
 * sqrt(2 * (10 layers + 2)) 2^-9 / sqrt(3) = 0.9 % for 3 layers in the mean square. Gradients pass
 * about three times as many stages. A wrong row, mask or weight is an error of the size of the
 * values themselves. The bounds are 4 % and 10 % in the mean square. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>
#include "infer/infer.h"
#include "model/model_internal.h"
#include "train/train.h"
#include "../model/host_values.h"

enum { V = 211, T = 93, S = 3, ROWS = 61, HEAD_ROWS = 24, STEPS = 3 };

struct side { /* one device */
	struct ops *ops;
	struct model *m;
	struct adapter *a;
	struct pass *p;
	struct optimizer *optimizer;
	struct param *params;
	int nparams;
};

static const int32_t starts[S + 1] = {0, 1, 40, T};
static int32_t ids[T], pos[T];
static struct head_row rows[ROWS];

static struct model_config config_of(bool qk_norm)
{
	return (struct model_config){
		.vocab_size = V,
		.hidden_size = 48,
		.num_hidden_layers = 3,
		.num_attention_heads = 4,
		.num_key_value_heads = 2,
		.head_dim = 16,
		.intermediate_size = 96,
		.max_position_embeddings = 128,
		.rms_norm_eps = 1e-6,
		.rope_theta = 10000,
		.tie_word_embeddings = !qk_norm,
		.attention_bias = !qk_norm,
		.qk_norm = qk_norm,
		.bos_token_id = -1,
		.eos_token_id = 7,
		.pad_token_id = -1,
	};
}

/* Larger weights than fresh ones, through the table: nobody touches a device's memory. */
static void stir(struct ops *ops, struct param *params, int n, float factor, float noise)
{
	for (int i = 0; i < n; i++) {
		float *x = xcalloc((size_t)params[i].count, sizeof *x);
		param_get(ops, &params[i], x);
		for (int64_t k = 0; k < params[i].count; k++)
			x[k] = x[k] * (params[i].ndim == 2 ? factor : 1) + noise * rng_normal(9, (uint64_t)i, (uint64_t)k);
		param_put(ops, &params[i], x, DTYPE_F32);
		free(x);
	}
}

static void side_open(struct side *s, const char *device, bool qk_norm, bool with_adapter)
{
	struct err err = {0};
	struct model_config c = config_of(qk_norm);
	*s = (struct side){0};
	if (ops_open(device, &(struct ops_options){.threads = 1}, &s->ops, &err)) fail_msg("%s", err.text);
	assert_int_equal(model_create(&c, 5, s->ops, &s->m, &err), 0);
	/* With an adapter that alone is trained; else all weights. */
	if (with_adapter) {
		struct adapter_options ao = {.r = 4, .lora_alpha = 8, .lora_dropout = 0.2, .seed = 3};
		assert_int_equal(adapter_create(s->m, &ao, &s->a, &err), 0);
	}
	model_enable_grad(s->m, s->a);
	s->params = model_params(s->m, &s->nparams);
	stir(s->ops, s->params, s->nparams, 5, 0);
	if (s->a) {
		s->params = adapter_params(s->a, &s->nparams);
		stir(s->ops, s->params, s->nparams, 1, 0.1f);
	}
	assert_int_equal(pass_create(s->m, &(struct pass_options){T + 20, HEAD_ROWS, true, false}, &s->p, &err), 0);
	struct optimizer_options oo = {
		.learning_rate = 1e-3,
		.adam_beta1 = 0.9,
		.adam_beta2 = 0.95,
		.adam_epsilon = 1e-8,
		.weight_decay = 0.1,
		.max_grad_norm = 1,
		.lr_scheduler_type = "constant",
	};
	s->optimizer = optimizer_create(s->ops, s->params, s->nparams, &oo);
}

static void side_close(struct side *s)
{
	optimizer_free(s->optimizer);
	pass_free(s->p);
	adapter_free(s->a);
	model_free(s->m);
	ops_free(s->ops);
}

static double relative(const float *got, const float *want, int64_t n)
{
	double difference = 0, size = 0;
	for (int64_t i = 0; i < n; i++) {
		assert_true(isfinite(got[i]));
		difference += pow((double)got[i] - want[i], 2);
		size += pow(want[i], 2);
	}
	return sqrt(difference / fmax(size, 1e-30));
}

/* ---- values ---- */

static void forward(struct side *s, int sequences, uint64_t seed)
{
	pass_forward(s->p, s->a, &(struct batch){ids, {starts[sequences], sequences, starts, pos, NULL}}, s->a ? seed : 0);
}

static void logits_of(struct side *s, float *out)
{
	int32_t at[T];
	for (int t = 0; t < T; t++) at[t] = t;
	forward(s, S, 0);
	pass_logits(s->p, at, T, out);
}

static void loss(void *ctx, int begin, int n, const float *logprob, const float *entropy, float *g)
{
	for (int i = 0; i < n; i++) {
		assert_true(isfinite(logprob[i]) && isfinite(entropy[i]));
		g[i] = -1.0f / ROWS;
	}
}

static int rows_within(int sequences, struct head_row *out)
{
	int n = 0;
	for (int i = 0; i < ROWS; i++)
		if (rows[i].at < starts[sequences]) out[n++] = rows[i];
	return n;
}

/* All gradients of one pass, one after the other. */
static float *grads_of(struct side *s, int64_t *count)
{
	struct head_row some[ROWS];
	*count = 0;
	forward(s, S, 77);
	pass_backward(s->p, rows, ROWS, 0.9f, loss, NULL);
	forward(s, 2, 78); /* fewer rows than before: what the last pass left behind them is not read */
	pass_backward(s->p, some, rows_within(2, some), 0.9f, loss, NULL);
	for (int i = 0; i < s->nparams; i++) *count += s->params[i].count;
	float *g = xcalloc((size_t)*count, sizeof *g), *at = g;
	for (int i = 0; i < s->nparams; at += s->params[i++].count) grads_get(s->ops, &s->params[i], at);
	return g;
}

static float *values_of(struct side *s, int64_t count)
{
	float *x = xcalloc((size_t)count, sizeof *x), *at = x;
	for (int i = 0; i < s->nparams; at += s->params[i++].count) param_get(s->ops, &s->params[i], at);
	return x;
}

static void steps(struct side *s)
{
	for (int k = 0; k < STEPS; k++) {
		assert_true(isfinite(optimizer_step(s->optimizer)));
		forward(s, S, 100 + (uint64_t)k);
		pass_backward(s->p, rows, ROWS, 0.9f, loss, NULL);
	}
	assert_true(isfinite(optimizer_step(s->optimizer)));
}

static void test_values(void **state)
{
	static float want[T * V], got[T * V];
	for (int kind = 0; kind < 4; kind++) {
		struct side cpu, check;
		int64_t count;
		side_open(&cpu, "cpu", kind & 1, kind & 2);
		side_open(&check, "check", kind & 1, kind & 2);
		logits_of(&cpu, want);
		logits_of(&check, got);
		double e = relative(got, want, T * V);
		if (!(e > 1e-5 && e < 0.04)) fail_msg("kind %d: logits are off by %g in the mean square", kind, e);
		float *grads = grads_of(&cpu, &count), *rough = grads_of(&check, &count);
		double d = relative(rough, grads, count);
		if (!(d > 1e-5 && d < 0.1)) fail_msg("kind %d: gradients are off by %g in the mean square", kind, d);
		/* Masters begin equal, to the bit, and every step moves each by at most the
		 * learning rate and its decay. */
		float *before = values_of(&cpu, count), *rough_before = values_of(&check, count);
		assert_memory_equal(before, rough_before, (size_t)count * sizeof *before);
		steps(&cpu);
		steps(&check);
		float *after = values_of(&cpu, count), *rough_after = values_of(&check, count);
		int64_t moved = 0;
		for (int64_t i = 0; i < count; i++) {
			assert_true(fabsf(rough_after[i] - after[i]) <= (STEPS + 1) * 2.5e-3f);
			moved += rough_after[i] != before[i];
		}
		assert_true(moved > count / 2); /* in bf16 alone most would stay where they were */
		print_message("# %s, %s: logits off by %.2g, gradients by %.2g\n", kind & 1 ? "qk_norm" : "bias, tied",
			kind & 2 ? "adapter" : "all weights", e, d);
		free(grads), free(rough), free(before), free(rough_before), free(after), free(rough_after);
		side_close(&cpu);
		side_close(&check);
	}
}

/* ---- generation: decoding steps repeat as regions, sequences come and go between them ---- */

static void test_engine(void **state)
{
	struct side s;
	struct engine *e;
	struct err err = {0};
	int active = 1, done = 0;
	side_open(&s, "check", true, true);
	forward(&s, S, 5); /* dropout's seed must not stay in the sampler's adapter */
	if (engine_create(
			s.m, &(struct engine_options){.max_sequences = 24, .max_context = 110, .prefill_rows = 21}, &e, &err))
		fail_msg("%s", err.text);
	/* Requests of all kinds over the backend that finds wrong calls. */
	for (int i = 0; i < 5; i++) {
		struct request r = {.id = i,
			.prompt = ids,
			.nprompt = 1 + 17 * i,
			.num_samples = 2 + 2 * i,
			.sampling = {.temperature = i ? 1 : 0, .top_k = i == 2 ? 9 : 0, .top_p = 1, .min_p = i == 3 ? 0.05f : 0},
			.max_new_tokens = 10 + 6 * i,
			.adapter = i % 2 ? s.a : NULL};
		if (engine_submit(e, &r, &err)) fail_msg("%s", err.text);
	}
	/* Whatever is NaN behind the rows must not reach an answer. */
	while (active) {
		engine_step(e, &active);
		for (struct completion c; engine_take(e, &c); done++) {
			assert_true(c.finish != FINISH_NAN);
			for (int k = 0; k < c.count; k++) assert_true(c.tokens[k] >= 0 && c.logprobs[k] <= 0);
			completion_release(&c);
		}
	}
	assert_int_equal(done, 30);
	engine_free(e);
	side_close(&s);
}

/* ---- what it finds: each of these ends a child with a message that names it ---- */

static const struct ops_weight *embed_of(struct side *s)
{
	int n;
	return &model_params(s->m, &n)[0].w;
}
static void wrong_pointer(struct side *s)
{
	struct ops *o = s->ops;
	struct elem *x = o->alloc(o->ctx, 4096), *y = o->alloc(o->ctx, 4096);
	struct ops_batch *b = o->batch_create(o->ctx, 8, 8, 0, 0, 0);
	const int32_t zeros[4] = {0};
	o->batch_put(o->ctx, b, &(struct ops_rows){.T = 4, .S = 1, .ids = zeros, .pos = zeros, .sequence = zeros});
	for (int k = 0; k < 2; k++) {
		if (o->begin(o->ctx, 1)) o->embed(o->ctx, k ? y : x, embed_of(s), b, 8);
		o->end(o->ctx);
	}
}
static void fewer_calls(struct side *s)
{
	struct ops *o = s->ops;
	void *x = o->alloc(o->ctx, 64);
	for (int k = 0; k < 2; k++) {
		if (o->begin(o->ctx, 1) && !k) o->zero(o->ctx, x, 64);
		o->end(o->ctx);
	}
}
static void transfer_inside(struct side *s)
{
	float value;
	struct f32 *x = s->ops->alloc(s->ops->ctx, 64);
	if (s->ops->begin(s->ops->ctx, 1)) s->ops->get_f32(s->ops->ctx, &value, x, 1);
}
static void unpadded_rows(struct side *s)
{
	struct ops *o = s->ops;
	struct ops_batch *b = o->batch_create(o->ctx, 8, 8, 0, 0, 0);
	const int32_t zeros[4] = {0};
	o->batch_put(o->ctx, b, &(struct ops_rows){.T = 4, .S = 1, .ids = zeros, .pos = zeros, .sequence = zeros});
	o->embed(o->ctx, o->alloc(o->ctx, 4096), embed_of(s), b, 4);
}
static void too_small(struct side *s)
{
	struct ops *o = s->ops;
	struct ops_batch *b = o->batch_create(o->ctx, 8, 8, 0, 0, 0);
	const int32_t zeros[4] = {0};
	int n = o->batch_put(o->ctx, b, &(struct ops_rows){.T = 4, .S = 1, .ids = zeros, .pos = zeros, .sequence = zeros});
	o->embed(o->ctx, o->alloc(o->ctx, 4 * 48 * sizeof(float)), embed_of(s), b, n);
}

static void unbound(struct side *s)
{
	float *x = xcalloc((size_t)s->params[1].count, sizeof *x);
	struct ops_weight *b = &s->params[1].w; /* B of the first layer's q_proj */
	forward(s, S, 0);
	x[0] = 1;
	s->ops->put(s->ops->ctx, b, x, DTYPE_F32); /* and nobody is told */
	forward(s, S, 0);
}
/* An input that a stage wrote for one linear, read by another. */
static void wrong_reader(struct side *s)
{
	struct ops *o = s->ops;
	struct ops_batch *b = o->batch_create(o->ctx, 8, 8, 0, 0, 0);
	const int32_t zeros[8] = {0};
	struct elem *x = o->alloc(o->ctx, 1 << 14), *n = o->alloc(o->ctx, 1 << 14), *y = o->alloc(o->ctx, 1 << 14);
	struct ops_weight w = {.rows = 48, .cols = 48, .ld = 48, .w = o->alloc(o->ctx, 1 << 14)};
	struct ops_linear mine = {.in = 48, .out = 48, .parts = 1, .w = {w}}, other = mine;
	other.w[0].w = o->alloc(o->ctx, 1 << 14);
	o->batch_put(o->ctx, b, &(struct ops_rows){.T = 8, .S = 1, .ids = zeros, .pos = zeros, .sequence = zeros});
	o->embed(o->ctx, x, &w, b, 8);
	o->norm(o->ctx, n, NULL, x, &(struct ops_weight){.rows = 1, .cols = 48, .ld = 48, .w = w.w}, 1e-6f, 8,
		&(struct ops_next){&mine, NULL});
	o->linear(o->ctx, y, n, &mine, NULL, NULL, 8);
	o->linear(o->ctx, y, n, &other, NULL, NULL, 8);
}

/* A product that a region repeats, into other memory. */
static void wrong_output(struct side *s)
{
	struct ops *o = s->ops;
	struct ops_batch *b = o->batch_create(o->ctx, 8, 8, 0, 0, 0);
	const int32_t zeros[8] = {0};
	struct elem *x = o->alloc(o->ctx, 1 << 14), *n = o->alloc(o->ctx, 1 << 14);
	struct elem *y[2] = {o->alloc(o->ctx, 1 << 14), o->alloc(o->ctx, 1 << 14)};
	struct ops_weight w = {.rows = 48, .cols = 48, .ld = 48, .w = o->alloc(o->ctx, 1 << 14)};
	struct ops_linear l = {.in = 48, .out = 48, .parts = 1, .w = {w}};
	o->batch_put(o->ctx, b, &(struct ops_rows){.T = 8, .S = 1, .ids = zeros, .pos = zeros, .sequence = zeros});
	o->embed(o->ctx, x, &w, b, 8);
	o->norm(o->ctx, n, NULL, x, &(struct ops_weight){.rows = 1, .cols = 48, .ld = 48, .w = w.w}, 1e-6f, 8,
		&(struct ops_next){&l, NULL});
	for (int k = 0; k < 2; k++) {
		if (o->begin(o->ctx, 1)) o->linear(o->ctx, y[k], n, &l, NULL, NULL, 8);
		o->end(o->ctx);
	}
}

static void test_findings(void **state)
{
	static const struct {
		void (*wrong)(struct side *s);
		const char *says;
	} cases[] = {
		{wrong_pointer, "its pointers or sizes differ"},
		{fewer_calls, "0 calls, the first time there were 1"},
		{transfer_inside, "get_f32 stands inside a region"},
		{unpadded_rows, "called with 4 rows, batch_put gave 8"},
		{too_small, "do not lie in memory of alloc"},
		{unbound, "was not bound to it"},
		{wrong_reader, "was written for another linear or adapter"},
		{wrong_output, "call 0 is linear, the first time it was linear; or its pointers or sizes differ"},
	};
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		int pipes[2], status;
		char text[4096];
		assert_int_equal(pipe(pipes), 0);
		/* A finding ends the process, so each case has one of its own. */
		pid_t child = fork();
		if (!child) {
			struct side s;
			dup2(pipes[1], 2);
			side_open(&s, "check", true, true);
			cases[i].wrong(&s);
			_exit(0);
		}
		close(pipes[1]);
		/* It said what was wrong. */
		size_t len = 0;
		for (ssize_t n; len < sizeof text - 1 && (n = read(pipes[0], text + len, sizeof text - 1 - len)) > 0;)
			len += (size_t)n;
		text[len] = 0;
		close(pipes[0]);
		waitpid(child, &status, 0);
		if (!strstr(text, cases[i].says)) fail_msg("case %zu: \"%s\" lacks \"%s\"", i, text, cases[i].says);
		assert_true(status != 0);
	}
}

/* ---- devices by name ---- */

static void test_names(void **state)
{
	static const char *const names[] = {"", "gpu", "cpu:1", "cuda:", "cuda:-1", "cuda:x", "cuda:1x", "cuda:99999"};
	struct ops *ops;
	struct err err = {0};
	for (size_t i = 0; i < ARRAY_LEN(names); i++) {
		assert_int_equal(ops_open(names[i], &(struct ops_options){.threads = 1}, &ops, &err), ERR_USAGE);
		assert_non_null(strstr(err.text, "expected cpu, cuda or cuda:N"));
		assert_null(ops);
	}
}

static int setup(void **state)
{
	for (int s = 0; s < S; s++)
		for (int t = starts[s]; t < starts[s + 1]; t++) pos[t] = t - starts[s];
	for (int t = 0; t < T; t++) ids[t] = (int32_t)(rng_u32(1, 0, (uint64_t)t) % V);
	for (int i = 0; i < ROWS; i++)
		rows[i] = (struct head_row){.at = (i * 7) % T, .target = (int32_t)(rng_u32(1, 1, (uint64_t)i) % V)};
	return 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_values),
		cmocka_unit_test(test_engine),
		cmocka_unit_test(test_findings),
		cmocka_unit_test(test_names),
	};
	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, setup, NULL);
}
