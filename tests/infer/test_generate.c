/* The engine over the real model: greedy continuations are transformers' own
 * (tests/ref/infer_oracle.py); samples that share a prompt are what they would be alone, to the
 * bit; an adapter belongs to its request, many of them in one batch; a running engine allocates
 * nothing. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <cmocka.h>
#include "infer/infer.h"
#include "../model/host_values.h"

/* ---- counting allocations (the sanitizers bring their own allocator; there the count stays 0)
 * ----
 * Counted are those that the program's own code asks for, in any thread, and all that a
 * thread asks for while `counts_all` (what libc allocates for our code). A GPU's driver, once
 * a test has opened it, allocates when it likes, in threads of its own and within its calls:
 * that is not the engine's. */

static _Atomic int64_t allocations;
static _Thread_local bool counts_all;
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
#define COUNTS_ALLOCATIONS 1
extern const char __executable_start[], etext[];
static void count(const void *caller)
{
	uintptr_t at = (uintptr_t)caller;
	bool is_ours = at >= (uintptr_t)__executable_start && at < (uintptr_t)etext;
	if (is_ours || counts_all) atomic_fetch_add(&allocations, 1);
}
void *__libc_malloc(size_t n);
void *__libc_calloc(size_t n, size_t size);
void *__libc_realloc(void *p, size_t n);
void *__libc_memalign(size_t align, size_t n);
void *malloc(size_t n)
{
	count(__builtin_return_address(0));
	return __libc_malloc(n);
}
void *calloc(size_t n, size_t size)
{
	count(__builtin_return_address(0));
	return __libc_calloc(n, size);
}
void *realloc(void *p, size_t n)
{
	count(__builtin_return_address(0));
	return __libc_realloc(p, n);
}
void *aligned_alloc(size_t align, size_t n)
{
	count(__builtin_return_address(0));
	return __libc_memalign(align, n);
}
#endif

static char *folder; /* $BUILD/ref/infer */

struct setting {
	struct ops *ops;
	struct model *m;
	struct engine *e;
};

static void setting_open(struct setting *s, bool batch_invariant, const struct engine_options *o)
{
	struct err err = {0};
	char *path = path_join(folder, "model");
	assert_int_equal(
		ops_cpu_create(&(struct ops_options){.threads = 2, .batch_invariant = batch_invariant}, &s->ops, &err), 0);
	if (model_open(path, s->ops, &s->m, &err)) fail_msg("%s", err.text);
	if (engine_create(s->m, o, &s->e, &err)) fail_msg("%s", err.text);
	free(path);
}

static void setting_close(struct setting *s)
{
	engine_free(s->e);
	model_free(s->m);
	ops_free(s->ops);
}

static void submit(struct engine *e, const struct request *r)
{
	struct err err = {0};
	if (engine_submit(e, r, &err)) fail_msg("%s", err.text);
}

/* Runs until nothing is left; completions by (id, sample). */
static void run(struct engine *e, struct completion *out, int stride)
{
	int active = 1;
	while (active) {
		engine_step(e, &active);
		for (struct completion c; engine_take(e, &c);) out[c.id * stride + c.sample] = c;
	}
}

static int32_t *ints(const json_t *list, int *n)
{
	*n = (int)json_array_size(list);
	int32_t *v = xcalloc((size_t)*n, sizeof *v);
	for (int i = 0; i < *n; i++) v[i] = (int32_t)json_integer_value(json_array_get(list, (size_t)i));
	return v;
}

static void test_greedy_as_transformers(void **state)
{
	struct setting s;
	struct err err = {0};
	struct completion done[16] = {{0}};
	json_t *rows;
	char *path = path_join(folder, "greedy.json");
	if (json_load(path, 1 << 20, &rows, &err)) fail_msg("%s", err.text);
	setting_open(&s, false, &(struct engine_options){.max_sequences = 3, .max_context = 200, .prefill_rows = 20});
	int total = 0, ended = 0;
	/* All prompts at once, more than run side by side. */
	for (size_t i = 0; i < json_array_size(rows); i++) {
		int n;
		int32_t *prompt = ints(json_object_get(json_array_get(rows, i), "prompt"), &n);
		submit(s.e,
			&(struct request){.id = (int64_t)i,
				.prompt = prompt,
				.nprompt = n,
				.num_samples = 1,
				.sampling = {.top_p = 1},
				.max_new_tokens = 64});
		free(prompt);
	}
	/* Token for token what transformers generates. */
	run(s.e, done, 1);
	for (size_t i = 0; i < json_array_size(rows); i++) {
		int n;
		int32_t *tokens = ints(json_object_get(json_array_get(rows, i), "tokens"), &n);
		assert_int_equal(done[i].count, n);
		assert_memory_equal(done[i].tokens, tokens, (size_t)n * 4);
		assert_int_equal(done[i].finish, n == 64 && tokens[63] != 5 ? FINISH_LENGTH : FINISH_EOS);
		ended += done[i].finish == FINISH_EOS;
		total += n;
		completion_release(&done[i]);
		free(tokens);
	}
	assert_true(total > 200 && ended < (int)json_array_size(rows));
	assert_int_equal(engine_tokens_generated(s.e), total);
	json_decref(rows);
	free(path);
	setting_close(&s);
}

static int32_t prompts[3][120];
static const int nprompts[3] = {45, 96, 1};

static struct request prompt_request(int i, int first, int count, struct adapter *a)
{
	return (struct request){.id = i,
		.prompt = prompts[i],
		.nprompt = nprompts[i],
		.num_samples = count,
		.first_sample = first,
		.sampling = {.temperature = 0.9f,
			.top_k = i == 1 ? 20 : 0,
			.top_p = i == 2 ? 0.9f : 1,
			.seed = 77 + (uint64_t)i},
		.max_new_tokens = 40,
		.adapter = a};
}

/* K samples that share pages, in mixed batches, against K requests of one sample each that run
 * alone. */
static void test_sharing_changes_nothing(void **state)
{
	enum { K = 5 };
	for (int invariant = 0; invariant < 2; invariant++) {
		struct setting s;
		struct completion shared[3 * K] = {{0}}, alone[3 * K] = {{0}};
		setting_open(
			&s, invariant, &(struct engine_options){.max_sequences = 6, .max_context = 160, .prefill_rows = 50});
		for (int i = 0; i < 3; i++)
			submit(s.e,
				&(struct request){
					.id = i,
					.prompt = prompts[i],
					.nprompt = nprompts[i],
					.num_samples = K,
					.sampling = prompt_request(i, 0, K, NULL).sampling,
					.max_new_tokens = 40,
				});
		/* K samples a request, together; then each by itself. */
		run(s.e, shared, K);
		for (int i = 0; i < 3; i++)
			for (int k = 0; k < K; k++) {
				struct request r = prompt_request(i, k, 1, NULL);
				submit(s.e, &r);
				run(s.e, alone, K);
			}
		/* Equal to the bit. */
		bool any_differ = false;
		for (int c = 0; c < 3 * K; c++) {
			assert_int_equal(shared[c].count, alone[c].count);
			assert_memory_equal(shared[c].tokens, alone[c].tokens, (size_t)shared[c].count * 4);
			assert_memory_equal(shared[c].logprobs, alone[c].logprobs, (size_t)shared[c].count * 4);
			any_differ = any_differ || shared[c].count != shared[0].count ||
				memcmp(shared[c].tokens, shared[0].tokens, (size_t)shared[c].count * 4);
		}
		assert_true(any_differ); /* samples are not copies of each other */
		for (int c = 0; c < 3 * K; c++) {
			completion_release(&shared[c]);
			completion_release(&alone[c]);
		}
		setting_close(&s);
	}
}

/* Adapters of several ranks and projections; the last one comes from a file in bf16. */
enum { ADAPTERS = 4, SAMPLES = 2, REQUESTS = 3 * (ADAPTERS + 1) };

static struct adapter *adapter_from_bf16(struct model *m, struct adapter *a)
{
	struct err err = {0};
	struct tensor_info t[64];
	struct arena memory = {0};
	char *dir = path_join(folder, "bf16_adapter"), *path = path_join(dir, "adapter_model.safetensors");
	struct adapter *read;
	int n;
	struct param *params = adapter_params(a, &n);
	assert_true(n <= (int)ARRAY_LEN(t));
	/* Its values rounded to bf16, in a file of its own. */
	for (int i = 0; i < n; i++) {
		uint16_t *bits = arena_alloc(&memory, (size_t)params[i].count * 2);
		for (int64_t k = 0; k < params[i].count; k++) bits[k] = f32_to_bf16(host_values(&params[i])[k]);
		t[i] = (struct tensor_info){.name = params[i].name,
			.dtype = DTYPE_BF16,
			.ndim = 2,
			.shape = {params[i].shape[0], params[i].shape[1]},
			.data = bits,
			.bytes = (size_t)params[i].count * 2};
	}
	/* Saved for its configuration, then opened with those weights. */
	if (adapter_save(a, dir, NULL, &err) || safetensors_write(path, t, (size_t)n, NULL, &err) ||
		adapter_open(m, dir, &read, &err))
		fail_msg("%s", err.text);
	adapter_free(a);
	arena_release(&memory);
	free(dir);
	free(path);
	return read;
}

static void adapters_make(struct model *m, struct adapter *adapters[ADAPTERS])
{
	static const struct adapter_options options[ADAPTERS] = {
		{.r = 4, .lora_alpha = 8, .seed = 3},
		{.r = 1, .lora_alpha = 3, .target_modules = "v_proj,up_proj"},
		{.r = 9, .lora_alpha = 2, .target_modules = "down_proj,o_proj,q_proj"},
		{.r = 2, .lora_alpha = 4, .target_modules = "gate_proj,k_proj"},
	};
	for (int i = 0; i < ADAPTERS; i++) {
		struct err err = {0};
		int n;
		assert_int_equal(adapter_create(m, &options[i], &adapters[i], &err), 0);
		struct param *params = adapter_params(adapters[i], &n);
		for (int p = 0; p < n; p++)
			for (int64_t k = 0; k < params[p].count; k++)
				host_values(&params[p])[k] += 0.3f * rng_normal(4 + (uint64_t)i, (uint64_t)p, (uint64_t)k);
	}
	adapters[ADAPTERS - 1] = adapter_from_bf16(m, adapters[ADAPTERS - 1]);
}

/* Id i: prompt i % 3 under the base (i < 3) or adapter i / 3 - 1. */
static void submit_adapted(struct engine *e, struct adapter *const adapters[ADAPTERS], int i)
{
	struct request r = prompt_request(i % 3, 0, SAMPLES, i < 3 ? NULL : adapters[i / 3 - 1]);
	r.id = i;
	submit(e, &r);
}

static bool same_completion(const struct completion *a, const struct completion *b)
{
	return a->count == b->count && !memcmp(a->tokens, b->tokens, (size_t)a->count * 4) &&
		!memcmp(a->logprobs, b->logprobs, (size_t)a->count * 4);
}

/* Sequences of the base and of four adapters side by side, more than run at once, against each
 * request alone: equal to the bit. */
static void test_adapter_of_each_request(void **state)
{
	for (int invariant = 0; invariant < 2; invariant++) {
		struct setting s;
		struct adapter *adapters[ADAPTERS];
		struct completion mixed[REQUESTS * SAMPLES] = {{0}}, alone[REQUESTS * SAMPLES] = {{0}};
		setting_open(
			&s, invariant, &(struct engine_options){.max_sequences = 11, .max_context = 160, .prefill_rows = 60});
		adapters_make(s.m, adapters);
		for (int i = 0; i < REQUESTS; i++) submit_adapted(s.e, adapters, i);
		/* All side by side; then each request alone. */
		run(s.e, mixed, SAMPLES);
		for (int i = 0; i < REQUESTS; i++) {
			submit_adapted(s.e, adapters, i);
			run(s.e, alone, SAMPLES);
		}
		for (int i = 0; i < REQUESTS * SAMPLES; i++) assert_true(same_completion(&mixed[i], &alone[i]));
		for (int i = 0; i < REQUESTS; i++) /* every policy is another one */
			for (int k = i % 3; k < i; k += 3) assert_false(same_completion(&mixed[i * SAMPLES], &mixed[k * SAMPLES]));
		for (int i = 0; i < REQUESTS * SAMPLES; i++) {
			completion_release(&mixed[i]);
			completion_release(&alone[i]);
		}
		for (int i = 0; i < ADAPTERS; i++) adapter_free(adapters[i]);
		setting_close(&s);
	}
}

/* All prompts' answers on a device, so many steps in one go; *steps: how often
 * the engine was asked. */
static void answer_all(const char *device, int fused, struct completion *out, int K, int *steps)
{
	struct ops *ops;
	struct model *m;
	struct engine *e;
	struct err err = {0};
	char *path = path_join(folder, "model");
	const int32_t stops[] = {40, 41, 42, 43, 44, 45, 46, 47, 48, 49, 50, 51};
	struct engine_options o = {.max_sequences = 12, .max_context = 160, .prefill_rows = 50, .fused_steps = fused};
	if (ops_open(device, &(struct ops_options){.threads = 2, .batch_invariant = true}, &ops, &err))
		fail_msg("%s", err.text);
	if (model_open(path, ops, &m, &err) || engine_create(m, &o, &e, &err)) fail_msg("%s", err.text);
	/* Requests of unlike lengths with many stops: rows end at other steps, some in the middle of a
	 * go. */
	for (int i = 0; i < 3; i++) {
		struct request r = prompt_request(i, 0, K, NULL);
		r.max_new_tokens = 30 + 7 * i;
		r.stop_ids = stops, r.nstop = ARRAY_LEN(stops);
		submit(e, &r);
	}
	int active = 1;
	for (*steps = 0; active; ++*steps) engine_step(e, &active);
	for (struct completion c; engine_take(e, &c);) out[c.id * K + c.sample] = c;
	engine_free(e);
	model_free(m);
	ops_free(ops);
	free(path);
}

/* Several steps in one region of the backend against one at a time: equal tokens, and
 * log-probabilities to the bit. */
static void test_fused_steps(void **state)
{
	enum { K = 4 };
	static const char *const devices[] = {"cpu", "check", "cuda"};
	for (size_t d = 0; d < ARRAY_LEN(devices); d++) {
		struct ops *ops = NULL;
		struct err err = {0};
		struct completion one[3 * K] = {{0}}, many[3 * K] = {{0}};
		int steps, goes;
		/* A device that is not here is skipped, unless the caller says that there has to be one. */
		if (!strcmp(devices[d], "cuda") && ops_open("cuda", &(struct ops_options){0}, &ops, &err)) {
			if (getenv("HONE_REQUIRE_GPU")) fail_msg("%s", err.text);
			print_message("# device cuda is skipped: %s\n", err.text);
			continue;
		}
		ops_free(ops);
		/* The goes are fewer than the steps, and some row ends by a stop: without both nothing was
		 * tried. */
		answer_all(devices[d], 1, one, K, &steps);
		answer_all(devices[d], 8, many, K, &goes);
		assert_true(goes < steps / 2);
		bool any_stops = false;
		for (int i = 0; i < 3 * K; i++) {
			any_stops = any_stops || one[i].finish != FINISH_LENGTH;
			assert_int_equal(one[i].count, many[i].count);
			assert_int_equal(one[i].finish, many[i].finish);
			assert_memory_equal(one[i].tokens, many[i].tokens, (size_t)one[i].count * sizeof(int32_t));
			assert_memory_equal(one[i].logprobs, many[i].logprobs, (size_t)one[i].count * sizeof(float));
			completion_release(&one[i]);
			completion_release(&many[i]);
		}
		assert_true(any_stops);
	}
}

/* Answers to three prompts, five each; the steps of it, and what they allocated behind the first
 * draw: the sampler's scratch is as large as the vocabulary, which that tells it. */
static int64_t answers_allocate(struct engine *e, bool is_cpu, int *steps)
{
	struct completion done[15] = {{0}};
	int active = 1;
	for (int i = 0; i < 3; i++)
		submit(e,
			&(struct request){
				.id = i,
				.prompt = prompts[i],
				.nprompt = nprompts[i],
				.num_samples = 5,
				.sampling = prompt_request(i, 0, 5, NULL).sampling,
				.max_new_tokens = 40,
			});
	/* Only the steps themselves are counted. */
	int64_t drawn = engine_tokens_generated(e);
	while (engine_tokens_generated(e) == drawn) engine_step(e, &active);
	int64_t before = allocations;
	counts_all = is_cpu;
	for (*steps = 0; active; ++*steps) engine_step(e, &active);
	counts_all = false;
	int64_t after = allocations;
	/* Every answer is there. */
	for (struct completion c; engine_take(e, &c);) done[c.id * 5 + c.sample] = c;
	for (int i = 0; i < 15; i++) {
		assert_true(done[i].count > 0);
		completion_release(&done[i]);
	}
	return after - before;
}

static void test_steps_allocate_nothing(void **state)
{
	static const char *const devices[] = {"cpu", "cuda"};
	for (size_t d = 0; d < ARRAY_LEN(devices); d++) {
		struct ops *ops;
		struct model *m;
		struct engine *e;
		struct err err = {0};
		bool is_cpu = d == 0;
		int steps;
		struct engine_options o = {.max_sequences = 4, .max_context = 160, .prefill_rows = 32};
		int64_t before = allocations;
		if (ops_open(devices[d], &(struct ops_options){.threads = 2}, &ops, &err)) {
			if (is_cpu || getenv("HONE_REQUIRE_GPU")) fail_msg("%s", err.text);
			print_message("# device cuda is skipped: %s\n", err.text);
			continue;
		}
		char *path = path_join(folder, "model");
		if (model_open(path, ops, &m, &err) || engine_create(m, &o, &e, &err)) fail_msg("%s", err.text);
		/* A GPU's regions are recorded when a batch of a size first comes: the second time
		 * all of them are there. */
		if (!is_cpu) answers_allocate(e, is_cpu, &steps);
		assert_int_equal(answers_allocate(e, is_cpu, &steps), 0);
		assert_true(steps > 40);
		engine_free(e);
		model_free(m);
		ops_free(ops);
		free(path);
#ifdef COUNTS_ALLOCATIONS
		assert_true(allocations - before > 100); /* the counter counts */
#endif
	}
}

static int setup(void **state)
{
	const char *build = getenv("BUILD");
	folder = path_join(build ? build : "build/release", "ref/infer");
	for (int i = 0; i < 3; i++)
		for (int k = 0; k < 120; k++) prompts[i][k] = 6 + (int32_t)(rng_u32(8, (uint64_t)i, (uint64_t)k) % 300);
	char command[1024];
	snprintf(command, sizeof command,
		"test -s %s/greedy.json || env LD_PRELOAD= build/venv/bin/python tests/ref/infer_oracle.py %s", folder, folder);
	return system(command);
}
static int teardown(void **state)
{
	free(folder);
	return 0;
}

int main(void)
{
	cmocka_set_message_output(CM_OUTPUT_TAP);
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_greedy_as_transformers),
		cmocka_unit_test(test_sharing_changes_nothing),
		cmocka_unit_test(test_adapter_of_each_request),
		cmocka_unit_test(test_fused_steps),
		cmocka_unit_test(test_steps_allocate_nothing),
	};
	return cmocka_run_group_tests(tests, setup, teardown);
}
