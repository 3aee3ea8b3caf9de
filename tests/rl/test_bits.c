/* The bits of what the engine and the trainer compute, recorded: logits, gradients, parameters and
 * moments after ten optimiser steps, and 200 and more sampled tokens with their log-probabilities,
 * for three architectures, both instruction sets, all weights and an adapter with dropout. One and
 * two threads must give the same. A change of the operations' order shows here, and is then either
 * a mistake or recorded anew (the test prints the rows that it found).
 *
 * The numbers also depend on the C library's log, exp, sin, cos and pow, so the table belongs to
 * one: where a hash of these functions differs, the test is skipped and says so. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <cmocka.h>
#include "infer/infer.h"
#include "model/model_internal.h"
#include "train/train.h"
#include "../model/host_values.h"

enum { V = 1237, T = 150, S = 4, ROWS = 97, HEAD_ROWS = 40, STEPS = 10, PROMPTS = 5, ENGINE_TOKENS_MIN = 200 };

/* ---- what is compared ---- */

struct hashes {
	uint64_t logits, grads, trained, sampled;
};
enum arch { ARCH_QWEN3, ARCH_QWEN2, ARCH_LLAMA, ARCH_COUNT };
static const char *const arch_names[ARCH_COUNT] = {"ARCH_QWEN3", "ARCH_QWEN2", "ARCH_LLAMA"};

static const struct {
	enum arch arch;
	bool avx2_only, with_adapter;
	struct hashes want;
} recorded[] = {
	{ARCH_QWEN3, 0, 0, {0xd2a67604b80ed59fu, 0xce4864a342eb6c6bu, 0xec8d46f9fe10d992u, 0xfa28235ca0eff751u}},
	{ARCH_QWEN3, 0, 1, {0x42719da3c312d3a3u, 0x5c7b4b82039576d1u, 0xc46321e10694fab8u, 0xb0baf083b63b87d2u}},
	{ARCH_QWEN3, 1, 0, {0x666ce931909fbc95u, 0x03a5997cc300af6bu, 0x659e8bb6989bb91cu, 0x17ae44eedad75492u}},
	{ARCH_QWEN3, 1, 1, {0x31527460c96ed049u, 0x47d114548a69be6bu, 0x319c4c07803c9bb3u, 0x7392b11ea43cb7a5u}},
	{ARCH_QWEN2, 0, 0, {0x74110802b40bdc25u, 0x61f9025b749b3121u, 0x7147d77346b71c94u, 0x6c5f39dbafd32832u}},
	{ARCH_QWEN2, 0, 1, {0x4751be74a59777a9u, 0x5a39ee309133b5f7u, 0x0a978e707ebabeeau, 0xda6d64b61a673280u}},
	{ARCH_QWEN2, 1, 0, {0xca6e39ba3a54a853u, 0x9e79c7cf404fd11bu, 0x1cddd752ee9f39c5u, 0xe96cffcf8cf11b8eu}},
	{ARCH_QWEN2, 1, 1, {0xd74b19df241b6ea1u, 0x70abc17aed7759f0u, 0x40cbbab3f0737b17u, 0x048e6bd094ba0657u}},
	{ARCH_LLAMA, 0, 0, {0xbfc5801498991cf9u, 0x0169c0dc964922bcu, 0x4f9f6ad40156cf42u, 0x7f37b5d1e680b372u}},
	{ARCH_LLAMA, 0, 1, {0xb7dcd4a9e65fd493u, 0xd6f61fcbecf74b54u, 0x4c9c83a61d7b081fu, 0x7495d744e8f6a95fu}},
	{ARCH_LLAMA, 1, 0, {0x3a6708d0af0b7d17u, 0x4a884a220e4f64beu, 0x87ad7369335b1286u, 0x31848167b6e07201u}},
	{ARCH_LLAMA, 1, 1, {0xf55b88848981c422u, 0xeab6250a05405785u, 0xb1bfcf7dacaabb24u, 0x5ec622ca796db3c8u}},
};
static const uint64_t recorded_libm = 0x3e16cf9e3dafb0a1u;

/* FNV-1a, 64 bits. */
static void hash_add(uint64_t *h, const void *data, size_t bytes)
{
	const unsigned char *p = data;
	if (!*h) *h = 0xcbf29ce484222325u;
	for (size_t i = 0; i < bytes; i++) *h = (*h ^ p[i]) * 0x100000001b3u;
}

static uint64_t libm_hash(void)
{
	uint64_t h = 0;
	for (int i = 0; i < 20000; i++) {
		float x = -40 + 80 * rng_uniform(1, 2, (uint64_t)i), positive = fabsf(x) + 1e-3f;
		double d[] = {exp((double)x), log((double)positive)};
		float f[] = {expf(x), logf(positive), sinf(x), cosf(x), sqrtf(positive), rng_normal(3, 4, (uint64_t)i),
			powf(10000, (float)(i % 64) / 64)};
		hash_add(&h, d, sizeof d);
		hash_add(&h, f, sizeof f);
	}
	return h;
}

/* ---- one setting ---- */

struct bits {
	struct ops *ops;
	struct model *m;
	struct adapter *a, *other; /* other: a second policy in the sampler's batch */
	struct pass *p;
	struct optimizer *optimizer;
	struct param *params; /* those that learn */
	int nparams;
	int32_t ids[T], pos[T], start[S + 1];
	struct head_row rows[ROWS];
	struct hashes got;
};

static struct model_config config_of(enum arch arch)
{
	struct model_config c = {
		.vocab_size = V,
		.hidden_size = 72,
		.num_hidden_layers = 3,
		.num_attention_heads = 6,
		.num_key_value_heads = 2,
		.head_dim = 20,
		.intermediate_size = 300, /* more than one pass of the products' k */
		.max_position_embeddings = 256,
		.rms_norm_eps = 1e-6,
		.rope_theta = 10000,
		.tie_word_embeddings = arch == ARCH_LLAMA,
		.attention_bias = arch == ARCH_QWEN2,
		.qk_norm = arch == ARCH_QWEN3,
		.bos_token_id = -1,
		.eos_token_id = 7,
		.pad_token_id = -1,
	};
	return c;
}

/* Fresh weights are too small to be sensitive, biases zero and norms one. */
static void stir_base(struct param *params, int n)
{
	for (int i = 0; i < n; i++) {
		float *x = host_values(&params[i]);
		for (int64_t k = 0; k < params[i].count; k++)
			x[k] = params[i].ndim == 1 ? x[k] + 0.2f * rng_normal(9, (uint64_t)i, (uint64_t)k) : x[k] * 5;
	}
}
static void stir_adapter(struct adapter *a, uint64_t seed)
{
	int n;
	struct param *params = adapter_params(a, &n);
	for (int i = 0; i < n; i++)
		for (int64_t k = 0; k < params[i].count; k++)
			host_values(&params[i])[k] += 0.1f * rng_normal(seed, (uint64_t)i, (uint64_t)k);
}
static void hash_values(uint64_t *h, const struct bits *b)
{
	for (int i = 0; i < b->nparams; i++)
		hash_add(h, host_values(&b->params[i]), (size_t)b->params[i].count * sizeof(float));
}
static void hash_grads(uint64_t *h, const struct bits *b)
{
	for (int i = 0; i < b->nparams; i++)
		hash_add(h, host_grads(&b->params[i]), (size_t)b->params[i].count * sizeof(float));
}

static void batch_make(struct bits *b)
{
	static const int32_t starts[S + 1] = {0, 1, 34, 110, T};
	memcpy(b->start, starts, sizeof starts);
	for (int s = 0; s < S; s++)
		for (int t = starts[s]; t < starts[s + 1]; t++) b->pos[t] = t - starts[s];
	for (int t = 0; t < T; t++) b->ids[t] = (int32_t)(rng_u32(1, 0, (uint64_t)t) % V);
	for (int i = 0; i < ROWS; i++)
		b->rows[i] = (struct head_row){.at = (i * 7) % T, .target = (int32_t)(rng_u32(1, 1, (uint64_t)i) % V)};
}

static void bits_open(struct bits *b, enum arch arch, bool avx2_only, bool with_adapter, int threads)
{
	struct err err = {0};
	struct model_config c = config_of(arch);
	*b = (struct bits){0};
	assert_int_equal(
		ops_cpu_create(&(struct ops_options){.threads = threads, .avx2_only = avx2_only}, &b->ops, &err), 0);
	assert_int_equal(model_create(&c, 5, b->ops, &b->m, &err), 0);
	/* Base, two adapters, a pass and an optimiser, all functions of fixed seeds. */
	b->params = model_params(b->m, &b->nparams);
	stir_base(b->params, b->nparams);
	struct adapter_options ao = {.r = 5, .lora_alpha = 7, .lora_dropout = 0.2, .seed = 3};
	struct adapter_options bo = {.r = 3, .lora_alpha = 3, .target_modules = "k_proj,o_proj,up_proj", .seed = 4};
	assert_int_equal(adapter_create(b->m, &bo, &b->other, &err), 0);
	stir_adapter(b->other, 12);
	if (with_adapter) {
		assert_int_equal(adapter_create(b->m, &ao, &b->a, &err), 0);
		stir_adapter(b->a, 11);
		b->params = adapter_params(b->a, &b->nparams);
	}
	assert_int_equal(pass_create(b->m, &(struct pass_options){T, HEAD_ROWS, true, false}, &b->p, &err), 0);
	model_enable_grad(b->m, b->a);
	struct optimizer_options oo = {
		.learning_rate = 2e-3,
		.adam_beta1 = 0.9,
		.adam_beta2 = 0.95,
		.adam_epsilon = 1e-8,
		.weight_decay = 0.1,
		.max_grad_norm = 1,
		.lr_scheduler_type = "cosine",
		.warmup_steps = 2,
		.max_steps = 12,
	};
	b->optimizer = optimizer_create(b->ops, b->params, b->nparams, &oo);
	batch_make(b);
}

static void bits_close(struct bits *b)
{
	optimizer_free(b->optimizer);
	pass_free(b->p);
	adapter_free(b->a);
	adapter_free(b->other);
	model_free(b->m);
	ops_free(b->ops);
}

/* ---- training ---- */

static void loss(void *ctx, int begin, int n, const float *logprob, const float *entropy, float *g)
{
	struct bits *b = ctx;
	for (int i = 0; i < n; i++) {
		hash_add(&b->got.grads, &logprob[i], sizeof(float));
		hash_add(&b->got.grads, &entropy[i], sizeof(float));
		g[i] = (begin + i) % 11 == 3 ? 0 : ((begin + i) % 5 == 1 ? 1.0f : -1.5f) / ROWS; /* some rows teach nothing */
	}
}

/* count tokens of the batch: later passes are shorter than the first, as micro-batches are. */
static void forward(struct bits *b, int sequences, uint64_t seed)
{
	pass_forward(
		b->p, b->a, &(struct batch){b->ids, {b->start[sequences], sequences, b->start, b->pos, NULL}}, b->a ? seed : 0);
}

static int rows_within(struct bits *b, int sequences, struct head_row *rows)
{
	int n = 0;
	for (int i = 0; i < ROWS; i++)
		if (b->rows[i].at < b->start[sequences]) rows[n++] = b->rows[i];
	return n;
}

static void hash_logits(struct bits *b)
{
	int32_t at[T];
	float *logits = xcalloc((size_t)T * V, sizeof *logits), logprob[ROWS], entropy[ROWS];
	uint8_t hits[ROWS];
	for (int t = 0; t < T; t++) at[t] = t;
	for (int with = 0; with < 2; with++) { /* the reference policy is the same walk without the adapter */
		pass_forward(b->p, with ? b->a : NULL, &(struct batch){b->ids, {T, S, b->start, b->pos, NULL}}, 0);
		pass_logits(b->p, at, T, logits);
		hash_add(&b->got.logits, logits, (size_t)T * V * sizeof *logits);
		pass_want_hits(b->p, hits);
		pass_logprobs(b->p, b->rows, ROWS, 0.8f, logprob, entropy);
		hash_add(&b->got.logits, logprob, sizeof logprob);
		hash_add(&b->got.logits, entropy, sizeof entropy);
		hash_add(&b->got.logits, hits, sizeof hits);
	}
	free(logits);
}

static void train(struct bits *b)
{
	struct head_row rows[ROWS];
	/* Two micro-batches of different lengths add up. */
	forward(b, S, 77);
	pass_backward(b->p, b->rows, ROWS, 0.8f, loss, b);
	forward(b, 3, 78);
	pass_backward(b->p, rows, rows_within(b, 3, rows), 1, loss, b);
	hash_grads(&b->got.grads, b);
	for (int k = 0; k < STEPS; k++) {
		int sequences = k % 3 == 1 ? 2 : S;
		forward(b, sequences, 100 + (uint64_t)k);
		pass_backward(b->p, rows, rows_within(b, sequences, rows), 0.9f, loss, b);
		double norm = optimizer_step(b->optimizer);
		hash_add(&b->got.trained, &norm, sizeof norm);
	}
	hash_values(&b->got.trained, b);
}

/* ---- sampling ---- */

static int by_id(const void *a, const void *b)
{
	const struct completion *x = a, *y = b;
	return x->id != y->id ? (x->id < y->id ? -1 : 1) : x->sample - y->sample;
}

/* Prompts of many lengths, longer than a step's prefill; samples that share pages; three policies;
 * every way of drawing. */
static void sample(struct bits *b)
{
	static const int lengths[PROMPTS] = {1, 33, 64, 70, 45}, samples[PROMPTS] = {3, 4, 1, 2, 5};
	static const struct sampling kinds[PROMPTS] = {
		{.temperature = 0.9f, .top_p = 1},
		{.temperature = 1.2f, .top_k = 20, .top_p = 1},
		{.temperature = 0, .top_p = 1},
		{.temperature = 0.7f, .top_p = 0.8f},
		{.temperature = 1, .top_k = 50, .top_p = 0.9f},
	};
	struct err err = {0};
	struct engine *e;
	struct completion done[32];
	int32_t prompts[PROMPTS][80];
	int active = 1, count = 0;
	int64_t tokens = 0;
	struct engine_options o = {.max_sequences = 6, .max_context = 110, .prefill_rows = 23};
	if (engine_create(b->m, &o, &e, &err)) fail_msg("%s", err.text);
	/* One request of each kind. */
	for (int i = 0; i < PROMPTS; i++) {
		for (int k = 0; k < lengths[i]; k++) prompts[i][k] = (int32_t)(rng_u32(8, (uint64_t)i, (uint64_t)k) % V);
		struct request r = {.id = i,
			.prompt = prompts[i],
			.nprompt = lengths[i],
			.num_samples = samples[i],
			.sampling = kinds[i],
			.max_new_tokens = 30,
			.adapter = i % 3 == 0 ? b->a
				: i % 3 == 1      ? b->other
								  : NULL};
		r.sampling.seed = 40 + (uint64_t)i;
		if (engine_submit(e, &r, &err)) fail_msg("%s", err.text);
	}
	while (active) {
		engine_step(e, &active);
		while (count < (int)ARRAY_LEN(done) && engine_take(e, &done[count])) count++;
	}
	/* Hashed in a fixed order: completions come in any. */
	qsort(done, (size_t)count, sizeof *done, by_id);
	for (int i = 0; i < count; i++) {
		hash_add(&b->got.sampled, done[i].tokens, (size_t)done[i].count * sizeof *done[i].tokens);
		hash_add(&b->got.sampled, done[i].logprobs, (size_t)done[i].count * sizeof *done[i].logprobs);
		tokens += done[i].count;
		completion_release(&done[i]);
	}
	assert_int_equal(count, 15);
	assert_true(tokens >= ENGINE_TOKENS_MIN);
	engine_free(e);
}

static struct hashes run(enum arch arch, bool avx2_only, bool with_adapter, int threads)
{
	struct bits *b = xcalloc(1, sizeof *b);
	bits_open(b, arch, avx2_only, with_adapter, threads);
	hash_logits(b);
	train(b);
	sample(b);
	struct hashes got = b->got;
	bits_close(b);
	free(b);
	return got;
}

static void test_bits(void **state)
{
	int differ = 0, skipped = 0;
	uint64_t libm = libm_hash();
	/* The recorded bits hold with one C library's functions. */
	if (libm != recorded_libm) {
		print_message("# another C library's log, exp, sin, cos, pow (0x%016llxu): its bits are not recorded\n",
			(unsigned long long)libm);
		skip();
	}
	bool avx512 = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
		__builtin_cpu_supports("avx512cd") && __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
	/* Each row with one thread and two; what differs is printed as a row to record. */
	for (size_t i = 0; i < ARRAY_LEN(recorded); i++) {
		if (!recorded[i].avx2_only && !avx512) {
			skipped++;
			continue;
		}
		struct hashes got = run(recorded[i].arch, recorded[i].avx2_only, recorded[i].with_adapter, 1),
					  two = run(recorded[i].arch, recorded[i].avx2_only, recorded[i].with_adapter, 2);
		assert_memory_equal(&got, &two, sizeof got); /* one thread and two */
		if (!memcmp(&got, &recorded[i].want, sizeof got)) continue;
		differ++;
		print_message("\t{%s, %d, %d, {0x%016llxu, 0x%016llxu, 0x%016llxu, 0x%016llxu}},\n",
			arch_names[recorded[i].arch], recorded[i].avx2_only, recorded[i].with_adapter,
			(unsigned long long)got.logits, (unsigned long long)got.grads, (unsigned long long)got.trained,
			(unsigned long long)got.sampled);
	}
	if (skipped) print_message("# %d rows of AVX-512 skipped: this processor has none\n", skipped);
	assert_int_equal(differ, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(test_bits)};
	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
