/* What `hone bench gpu` settles before it measures, on a device that is the CPU's table with so
 * much memory left: steps that stay within the model's positions, the copy's bytes, whether the
 * ceilings find room, and what training takes as a whole. */
#include "base/base.h"
#include "cli/bench_gpu.h"
#include "infer/infer.h"
#include "model/model.h"
#include "ops/ops.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <unistd.h>
#include <cmocka.h>

#define MIB ((size_t)1 << 20)

static const struct shape shape = {.name = "small",
	.hidden = 64,
	.intermediate = 96,
	.layers = 2,
	.heads = 4,
	.kv_heads = 2,
	.head_dim = 16,
	.vocab = 300,
	.qk_norm = true,
	.context = 40,
	.parts = "decode,train"};

static size_t free_memory;
static void memory_left(struct ops_context *c, size_t *free_bytes, size_t *total)
{
	*free_bytes = *total = free_memory;
}

/* A bench with a model on such a device. */
static struct gpu_bench bench_open(const struct gpu_options *o)
{
	struct gpu_bench b = {.o = o, .shape = &shape, .c = gpu_config(&shape, o)};
	struct err err = {0};
	if (ops_cpu_create(&(struct ops_options){.threads = 1}, &b.ops, &err)) fail_msg("%s", err.text);
	if (model_create(&b.c, 1, b.ops, &b.m, &err)) fail_msg("%s", err.text);
	b.ops->host_memory = false;
	b.ops->memory = memory_left;
	return b;
}

static void bench_close(struct gpu_bench *b)
{
	b->ops->host_memory = true;
	model_free(b->m);
	ops_free(b->ops);
}

/* The last of the steps that one region makes still has a position, whatever --context is. */
static void test_positions(void **state)
{
	static const int64_t contexts[] = {0, 1, 31, 32, 33, 640, 1048575, 1048576};
	for (size_t i = 0; i < ARRAY_LEN(contexts); i++) {
		struct gpu_options o = {.context = contexts[i], .tokens = 16};
		struct gpu_bench b = bench_open(&o);
		int context = contexts[i] ? (int)contexts[i] : shape.context;
		for (int batch = 1; batch <= 64; batch *= 64) {
			struct step_options s = gpu_decode_step(&b, batch);
			assert_true(s.steps >= 1 && s.steps <= ENGINE_FUSED_MAX && s.rows == batch);
			assert_true(i > 5 || batch > 1 || s.steps == ENGINE_FUSED_MAX);
			assert_true(context - 1 + s.steps <= b.c.max_position_embeddings);
			assert_true(context - 1 + s.steps <= s.pages * OPS_PAGE);
		}
		/* The rollout's prompt comes before its answer. */
		assert_true(b.c.max_position_embeddings >= GPU_PROMPT + 1048576);
		bench_close(&b);
	}
}

/* Half of what is left, at most 4 GiB, in whole pairs of pages. */
static void test_ceilings(void **state)
{
	struct gpu_options o = {.tokens = 16};
	struct gpu_bench b = bench_open(&o);
	struct err err = {0};
	const size_t pair = 2 * 32768 * sizeof(float), product = (size_t)5 * 8192 * 8192 * sizeof(float);
	free_memory = (size_t)100 << 30;
	assert_true(gpu_copy_bytes(&b) == (size_t)4 << 30);
	free_memory = (size_t)3 << 30;
	assert_true(gpu_copy_bytes(&b) == 1536 * MIB);
	free_memory = 1024 * MIB + 2 * pair - 1;
	assert_true(gpu_copy_bytes(&b) == 512 * MIB);
	free_memory = 1;
	assert_true(gpu_copy_bytes(&b) == pair);
	/* fp32 here: the product takes more than the least copy. */
	free_memory = product;
	assert_int_equal(gpu_ceilings_check(&b, &err), 0);
	free_memory = product - 1;
	assert_int_equal(gpu_ceilings_check(&b, &err), ERR_LIMIT);
	assert_non_null(strstr(err.text, "are measured in 1280 MiB, but 1280 MiB are free"));
	/* Of bf16 it takes less than a copy of what is more than L2 holds. */
	b.ops->elem_bytes = 2;
	free_memory = 1024 * MIB;
	assert_int_equal(gpu_ceilings_check(&b, &err), 0);
	assert_true(gpu_copy_bytes(&b) == 512 * MIB);
	free_memory = 1024 * MIB - 1;
	assert_int_equal(gpu_ceilings_check(&b, &err), ERR_LIMIT);
	b.ops->elem_bytes = sizeof(float);
	b.ops->host_memory = true;
	free_memory = (size_t)100 << 30;
	assert_true(gpu_copy_bytes(&b) == 64 * MIB);
	bench_close(&b);
}

/* Activations, batches and scratch; with the rollout the engine's pages and steps too. */
static void test_training(void **state)
{
	struct gpu_options o = {.tokens = 128, .answer = 8, .parts = "train"}, rolls = o;
	struct gpu_bench b = bench_open(&o);
	const struct pass_options po = {.max_tokens = 128, .head_rows = 128, .backward = true};
	struct pass_options less = po;
	less.recompute = true;
	const struct engine_options e = {.max_sequences = 64, .max_context = GPU_PROMPT + 8};
	struct device_plan d = {.pass = po, .passes = 1, .adapter_rank = GPU_RANK};
	size_t pass = pass_bytes(b.ops, &b.c, &po), train = gpu_training_bytes(&b, &po);
	assert_true(train == pass + plan_device_bytes(b.ops, &b.c, &d) && train > pass);
	assert_true(gpu_training_bytes(&b, &less) < train);
	rolls.parts = "rollout";
	b.o = &rolls;
	engine_device_plan(&e, &d);
	assert_true(
		gpu_training_bytes(&b, &po) == pass + plan_device_bytes(b.ops, &b.c, &d) + engine_bytes(b.ops, &b.c, &e));
	/* What decides is the whole: at its last byte nothing is computed again. */
	free_memory = gpu_training_bytes(&b, &po);
	assert_false(gpu_recomputes(&b, &po));
	free_memory--;
	assert_true(free_memory > pass && gpu_recomputes(&b, &po));
	bench_close(&b);
}

/* Parts are named in full, wherever they stand in the list. */
static void test_parts(void **state)
{
	static const char *const words[] = {"decode", "train", "rollout"};
	alarm(10); /* the search ends */
	for (size_t i = 0; i < ARRAY_LEN(words); i++) assert_true(gpu_is_listed("decode,train,rollout", words[i]));
	assert_true(gpu_is_listed("train", "train") && gpu_is_listed(",train,", "train"));
	assert_false(gpu_is_listed("decode,train,rollout", "roll") || gpu_is_listed("decode,train", "in") ||
		gpu_is_listed("decode,trains", "train") || gpu_is_listed("", "train"));
	alarm(0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(test_positions), cmocka_unit_test(test_ceilings),
		cmocka_unit_test(test_training), cmocka_unit_test(test_parts)};
	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
