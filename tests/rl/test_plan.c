/* The memory plan against what is really allocated: every allocation of the create functions goes
 * through the table's alloc, which is counted here. Where a line is wrong by a byte, or something
 * is allocated that no line tells of, the sums differ. Three backends: the CPU's; a GPU's sizes
 * (bf16, tail, masters) over a table that computes nothing, so that it is held to on every machine;
 * and CUDA's where there is one, which also has to stay within the lines that alloc does not see.
 *
 * Beside it: what a plan decides when memory is short, and that computing norms and gates again
 * changes no bit. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <cmocka.h>
#include "ops/cuda_figures.h"
#include "rl/rl_internal.h"

enum { PROMPT = 40, MIB = 1 << 20 };

/* ---- counting ---- */

static struct {
	void *(*alloc)(struct ops_context *, size_t);
	void (*release)(struct ops_context *, void *);
	struct {
		void *p;
		size_t bytes;
	} blocks[256];
	int n;
	size_t bytes;
} counted;

static void *count_alloc(struct ops_context *c, size_t bytes)
{
	void *p = counted.alloc(c, bytes);
	assert_true(counted.n < (int)ARRAY_LEN(counted.blocks));
	counted.blocks[counted.n].p = p;
	counted.blocks[counted.n++].bytes = bytes;
	counted.bytes += bytes;
	return p;
}

static void count_release(struct ops_context *c, void *p)
{
	int i = 0;
	if (!p) return;
	while (i < counted.n && counted.blocks[i].p != p) i++;
	assert_true(i < counted.n);
	counted.bytes -= counted.blocks[i].bytes;
	counted.blocks[i] = counted.blocks[--counted.n];
	counted.release(c, p);
}

static void count_begin(struct ops *o)
{
	counted.alloc = o->alloc;
	counted.release = o->release;
	counted.n = 0;
	counted.bytes = 0;
	o->alloc = count_alloc;
	o->release = count_release;
}

/* ---- a GPU's sizes without a GPU: it allocates and does nothing else ---- */

static void *empty_alloc(struct ops_context *c, size_t bytes) { return malloc(MAX(bytes, 1)); }
static void empty_release(struct ops_context *c, void *p) { free(p); }
static size_t empty_free = (size_t)1 << 46;
static void empty_memory(struct ops_context *c, size_t *free_bytes, size_t *total)
{
	*free_bytes = *total = empty_free;
}
static struct ops_held empty_held;
static void empty_holds(struct ops_context *c, struct ops_held *out) { *out = empty_held; }
static void empty_zero(struct ops_context *c, void *p, size_t bytes) {}
static void empty_put(struct ops_context *c, struct ops_weight *w, const void *host, enum dtype dtype) {}
static void empty_put_f32(struct ops_context *c, struct f32 *to, const float *host, int64_t n) {}
static void empty_linear(struct ops_context *c, struct ops_linear *l) {}
static struct ops empty;
static struct ops_batch *empty_batch(struct ops_context *c, int T, int S, int pages, int n, int draws)
{
	return empty.alloc(c, cuda_batch_bytes(T, S, pages, n, draws));
}
static void empty_batch_free(struct ops_context *c, struct ops_batch *b) { empty.release(c, b); }

static struct ops *empty_open(void)
{
	empty = (struct ops){.name = "empty",
		.elem_bytes = 2,
		.alloc = empty_alloc,
		.release = empty_release,
		.memory = empty_memory,
		.held = empty_holds,
		.zero = empty_zero,
		.put = empty_put,
		.put_f32 = empty_put_f32,
		.prepare = empty_linear,
		.forget = empty_linear,
		.batch_create = empty_batch,
		.batch_free = empty_batch_free};
	return &empty;
}

/* ---- a run's parts ---- */

struct shape {
	bool qk_norm, is_tied;
	int rank; /* 0: all weights */
	double beta;
	bool recompute;
	int64_t max_tokens;
};
static const struct shape shapes[] = {
	{true, false, 16, 0, false, 700},
	{true, false, 16, 0.1, true, 700},
	{false, true, 3, 0, true, 300},
	{true, true, 0, 0, false, 300},
	{false, true, 0, 0.1, true, 300},
};

struct parts {
	struct ops *ops;
	struct model *m, *reference;
	struct adapter *a;
	struct optimizer *optimizer;
	struct updater *u;
	struct pass *reference_pass;
	struct engine *e;
};

static struct model_config config_of(const struct shape *s)
{
	return (struct model_config){
		.vocab_size = 512,
		.hidden_size = 128,
		.num_hidden_layers = 3,
		.num_attention_heads = 4,
		.num_key_value_heads = 2,
		.head_dim = 32,
		.intermediate_size = 384,
		.max_position_embeddings = 2048,
		.rms_norm_eps = 1e-6,
		.rope_theta = 10000,
		.tie_word_embeddings = s->is_tied,
		.attention_bias = !s->qk_norm,
		.qk_norm = s->qk_norm,
		.bos_token_id = -1,
		.eos_token_id = -1,
		.pad_token_id = -1,
	};
}

static struct rl_options options_of(const struct shape *s)
{
	struct rl_options o;
	rl_options_default(&o);
	o.policy.use_peft = s->rank > 0;
	o.policy.lora_r = s->rank;
	o.beta = s->beta;
	o.max_tokens = s->max_tokens;
	o.max_completion_length = 90;
	o.generation_batch_size = 24;
	return o;
}

static void parts_open(struct parts *p, struct ops *ops, const struct shape *s)
{
	struct err err = {0};
	struct model_config c = config_of(s);
	struct rl_options o = options_of(s);
	int count;
	*p = (struct parts){.ops = ops};
	if (model_create(&c, 5, ops, &p->m, &err)) fail_msg("%s", err.text);
	if (s->rank)
		assert_int_equal(
			adapter_create(p->m, &(struct adapter_options){.r = s->rank, .lora_alpha = 32}, &p->a, &err), 0);
	model_enable_grad(p->m, p->a);
	struct param *params = p->a ? adapter_params(p->a, &count) : model_params(p->m, &count);
	struct optimizer_options oo = {.learning_rate = 1e-3,
		.adam_beta1 = 0.9,
		.adam_beta2 = 0.999,
		.adam_epsilon = 1e-8,
		.lr_scheduler_type = "constant"};
	p->optimizer = optimizer_create(ops, params, count, &oo);
	struct updater_options u = {
		.max_tokens = (int)o.max_tokens, .max_completion_length = 90, .temperature = 1, .recompute = s->recompute};
	assert_int_equal(updater_create(p->m, p->a, p->optimizer, &u, &p->u, &err), 0);
	/* The reference of a run is opened from its folder, here it is created. */
	if (s->beta > 0 && !s->rank) {
		assert_int_equal(model_create(&c, 5, ops, &p->reference, &err), 0);
		struct pass_options po = {
			.max_tokens = (int)o.max_tokens, .head_rows = MIN((int)o.max_tokens, UPDATE_HEAD_ROWS)};
		assert_int_equal(pass_create(p->reference, &po, &p->reference_pass, &err), 0);
	}
	struct engine_options e = rl_engine_options(&o, PROMPT);
	if (engine_create(p->m, &e, &p->e, &err)) fail_msg("%s", err.text);
}

static void parts_close(struct parts *p)
{
	engine_free(p->e);
	pass_free(p->reference_pass);
	model_free(p->reference);
	updater_free(p->u);
	optimizer_free(p->optimizer);
	adapter_free(p->a);
	model_free(p->m);
}

/* Steps of everything that takes scratch: generation, and an update. */
static void parts_use(struct parts *p)
{
	struct err err = {0};
	struct update_stats stats = {0};
	int32_t ids[4 * PROMPT];
	int active;
	for (int i = 0; i < 4 * PROMPT; i++) ids[i] = (int32_t)(rng_u32(3, 0, (uint64_t)i) % 512);
	struct request r = {.prompt = ids,
		.nprompt = PROMPT,
		.num_samples = 24,
		.sampling = {.temperature = 1, .top_p = 1, .seed = 1},
		.max_new_tokens = 90,
		.adapter = p->a};
	if (engine_submit(p->e, &r, &err)) fail_msg("%s", err.text);
	do engine_step(p->e, &active);
	while (active);
	for (struct completion c; engine_take(p->e, &c);) completion_release(&c);
	struct sft_example example = {.ids = ids, .count = 4 * PROMPT, .completion_begin = PROMPT};
	const struct sft_example *examples[] = {&example, &example, &example};
	for (int i = 0; i < 3; i++) updater_fit(p->u, examples, 1 + i % 2, 1, 1, &stats, &err);
	assert_true(stats.fit_updates == 3 && stats.fit_loss > 0);
}

static size_t line(const struct memory_plan *p, const char *name)
{
	for (int i = 0; i < p->count; i++)
		if (!strcmp(p->lines[i].name, name)) return p->lines[i].bytes;
	return 0;
}

static struct memory_plan plan_of(const struct shape *s, const struct ops *ops)
{
	struct memory_plan plan;
	struct rl_options o = options_of(s);
	struct model_config c = config_of(s);
	rl_memory_plan(&o, &c, ops, PROMPT, s->recompute, &plan);
	return plan;
}

/* ---- sums ---- */

static void test_gpu_sizes(void **state)
{
	for (size_t i = 0; i < ARRAY_LEN(shapes); i++) {
		struct parts p;
		struct ops *ops = empty_open();
		ops->tail = shapes[i].rank ? (3 * shapes[i].rank + 63) / 64 * 64 : 0;
		count_begin(ops);
		parts_open(&p, ops, &shapes[i]);
		struct memory_plan plan = plan_of(&shapes[i], ops);
		size_t planned = plan_total(&plan) - line(&plan, "workspace") - line(&plan, "driver");
		if (counted.bytes != planned) plan_print(&plan, "", 1, stderr);
		assert_int_equal(counted.bytes, planned);
		assert_true(!shapes[i].rank || line(&plan, "masters") == line(&plan, "gradients"));
		parts_close(&p);
		assert_int_equal(counted.bytes, 0);
	}
}

/* The CPU's adapter products and the engine's lists are planned and not of alloc; the rotary
 * angles are of alloc and too few to be planned. What the first are, a description of a
 * backend without them tells. */
static void test_cpu(void **state)
{
	for (size_t i = 0; i < ARRAY_LEN(shapes); i++) {
		struct parts p;
		struct ops *ops, other;
		struct err err = {0};
		struct model_config c = config_of(&shapes[i]);
		struct rl_options o = options_of(&shapes[i]);
		assert_int_equal(ops_cpu_create(&(struct ops_options){.threads = 1}, &ops, &err), 0);
		assert_int_equal(ops_describe("check", &(struct ops_options){0}, &other, &err), 0);
		/* Counted: what the run's parts allocate. Planned: the sum of the plan's lines. What they
		 * differ by is known, and is worked out here. */
		count_begin(ops);
		parts_open(&p, ops, &shapes[i]);
		struct memory_plan plan = plan_of(&shapes[i], ops);
		struct engine_options e = rl_engine_options(&o, PROMPT);
		e.fused_steps = 1; /* as on the CPU, in both descriptions */
		struct pass_options po = {
			.max_tokens = (int)o.max_tokens, .head_rows = MIN((int)o.max_tokens, UPDATE_HEAD_ROWS)};
		size_t passes = p.reference ? 2 : 1;
		size_t beside = passes * (pass_bytes(ops, &c, &po) - pass_bytes(&other, &c, &po)) + engine_bytes(ops, &c, &e) -
			engine_bytes(&other, &c, &e);
		size_t angles = ((size_t)c.max_position_embeddings + (p.reference ? (size_t)o.max_tokens : 0)) * 32 * 4;
		assert_int_equal(counted.bytes - angles, plan_total(&plan) - line(&plan, "packed copy") - beside);
		parts_use(&p);
		parts_close(&p);
		assert_int_equal(counted.bytes, 0);
		ops_free(ops);
	}
}

static struct ops *cuda_open(int tail, bool is_invariant)
{
	struct ops *ops = NULL;
	struct err err = {0};
	struct ops_options o = {
		.adapter_columns = tail, .batch_invariant = is_invariant, .cuda_libs = getenv("HONE_CUDA_LIBS")};
	if (!ops_open("cuda", &o, &ops, &err)) return ops;
	if (getenv("HONE_REQUIRE_GPU")) fail_msg("%s", err.text);
	print_message("# %s\n", err.text);
	return NULL;
}

static void test_cuda(void **state)
{
	for (size_t k = 0; k < 2 * ARRAY_LEN(shapes); k++) {
		size_t i = k / 2;
		struct parts p;
		size_t free_bytes, total;
		struct ops *ops = cuda_open(shapes[i].rank ? 64 : 0, k % 2);
		if (!ops) skip();
		ops->memory(ops->ctx, &free_bytes, &total);
		bool is_alone = total - free_bytes < CUDA_DRIVER_BYTES + CUDA_WORKSPACE_BYTES;
		size_t room = device_room(ops);
		count_begin(ops);
		parts_open(&p, ops, &shapes[i]);
		struct memory_plan plan = plan_of(&shapes[i], ops);
		size_t rest = line(&plan, "workspace") + line(&plan, "driver");
		assert_int_equal(counted.bytes, plan_total(&plan) - rest);
		/* Used, it has also taken scratch, staging and graphs. */
		parts_use(&p);
		ops->memory(ops->ctx, &free_bytes, &total);
		size_t taken = room - free_bytes;
		print_message("# planned %.1f MiB; taken by this process and the driver's context at most %.1f MiB of them, of "
					  "the device %.1f MiB\n",
			(double)plan_total(&plan) / MIB, (double)taken / MIB, (double)(total - free_bytes) / MIB);
		/* What stages hold of that is said: a later plan does not count it again. */
		struct ops_held held;
		ops->held(ops->ctx, &held);
		assert_true(held.scratch > 0 && held.scratch + held.rows <= line(&plan, "workspace"));
		/* What other programs take meanwhile would be counted as ours. */
		if (is_alone) assert_true(taken <= plan_total(&plan));
		parts_close(&p);
		ops_free(ops);
	}
}

/* A device that has not even what products work in is refused when it is opened. */
static void test_cuda_little(void **state)
{
	struct ops *ops = cuda_open(0, false);
	struct err err = {0};
	struct ops_options o = {
		.memory_cap = CUDA_DRIVER_BYTES + CUDA_WORKSPACE_BYTES - 1, .cuda_libs = getenv("HONE_CUDA_LIBS")};
	if (!ops) skip();
	ops_free(ops);
	assert_int_equal(ops_open("cuda", &o, &ops, &err), ERR_LIMIT);
	assert_true(!ops && strstr(err.text, "63 of 1087 MiB are free under the cap of --memory") &&
		strstr(err.text, "products alone need 64 MiB"));
	o.memory_cap++;
	assert_int_equal(ops_open("cuda", &o, &ops, &err), 0);
	ops_free(ops);
}

/* Sums over 8 ranges of K of shapes[0]'s residual stream, so many rows. */
static size_t sums_of(int rows) { return (size_t)rows * 8 * 128 * 4; }

/* A pass on a device needs its batch and the stages' scratch as well: where they do not fit it is
 * refused when it is made. */
static void test_pass_fits(void **state)
{
	const struct model_config c = config_of(&shapes[0]);
	const struct pass_options po = {.max_tokens = 700, .backward = true};
	struct device_plan d = {.pass = po, .passes = 1, .adapter_rank = 1};
	struct ops *ops = empty_open();
	struct model *m;
	struct pass *p;
	struct err err = {0};
	assert_int_equal(model_create(&c, 5, ops, &m, &err), 0);
	size_t arrays = pass_bytes(ops, &c, &po), beside = plan_device_bytes(ops, &c, &d);
	/* Sums of all rows, and the batch. */
	assert_true(beside > sums_of(700));
	empty_free = arrays + beside - 1;
	assert_int_equal(pass_create(m, &po, &p, &err), ERR_LIMIT);
	assert_non_null(strstr(err.text, "batches and scratch among them"));
	empty_free = arrays + beside;
	assert_int_equal(pass_create(m, &po, &p, &err), 0);
	pass_free(p);
	/* Scratch that stages hold is what a later pass, or an engine, works in too: it is not asked
	 * for again, and what is held beyond that is no use to the rest. */
	const struct engine_options eo = {.max_sequences = 4, .max_context = 128, .kv_pages = 16, .fused_steps = 1};
	struct engine *e;
	size_t pages = engine_bytes(ops, &c, &eo), stages = engine_device_bytes(ops, &c, &eo), scratch = sums_of(260);
	empty_held.scratch = 1000;
	assert_int_equal(plan_device_bytes(ops, &c, &d), beside - 1000);
	empty_held = (struct ops_held){.scratch = (size_t)1 << 30, .rows = (size_t)1 << 30};
	assert_int_equal(engine_device_bytes(ops, &c, &eo), stages - scratch);
	empty_free = pages + stages - scratch - 1;
	assert_int_equal(engine_create(m, &eo, &e, &err), ERR_LIMIT);
	empty_free++;
	assert_int_equal(engine_create(m, &eo, &e, &err), 0);
	engine_free(e);
	model_free(m);
	empty_held = (struct ops_held){0};
	empty_free = (size_t)1 << 46;
}

/* What batch_invariant adds to an engine of a 70B's shape, by hand. Scratch: gate and up, 2 x
 * 28,672 columns in 4 ranges of K for 1,024 rows, instead of 8 ranges of the residual stream's
 * 8,192. Rows in blocks: 64 of gate and up's 8,192 + 64 terms, and of their columns in each range.
 * Algorithms are compared on down's 28,672 + 64 terms, 512 rows of them and 4,096 columns, twice 4
 * ranges of results, and a word. */
static void test_invariant(void **state)
{
	const struct model_config c = {.vocab_size = 128256,
		.hidden_size = 8192,
		.num_hidden_layers = 80,
		.num_attention_heads = 64,
		.num_key_value_heads = 8,
		.head_dim = 128,
		.intermediate_size = 28672,
		.max_position_embeddings = 8192};
	const struct engine_options o = {.max_sequences = 1024, .max_context = 256};
	const size_t sums = (size_t)1024 * 4 * (4 * 57344 - 8 * 8192), block = (size_t)64 * (2 * 8256 + 4 * 4 * 57344),
				 trial = (size_t)2 * 28736 * (512 + 4096) + (size_t)2 * 4 * 4 * 512 * 4096 + 256;
	size_t bytes[2], held[2], workspace[2];
	/* The same engine without the switch and with it: what is printed and what is taken. */
	for (int i = 0; i < 2; i++) {
		struct ops ops;
		struct err err = {0};
		struct memory_plan plan = {0};
		struct device_plan d = {0};
		struct ops_options oo = {.adapter_columns = 64, .batch_invariant = i};
		assert_int_equal(ops_describe("cuda", &oo, &ops, &err), 0);
		engine_device_plan(&o, &d);
		plan_device(&plan, &ops, &c, &d);
		workspace[i] = line(&plan, "workspace");
		bytes[i] = engine_device_bytes(&ops, &c, &o);
		/* Blocks of rows that are held already are not asked for again;
		 * algorithms are compared anew. */
		empty_held.rows = (size_t)1 << 40;
		ops.held = empty_holds;
		held[i] = engine_device_bytes(&ops, &c, &o);
		empty_held.rows = 0;
	}
	assert_true(held[0] == bytes[0] && held[1] == bytes[1] - block);
	assert_int_equal(workspace[1] - workspace[0], sums + block + trial);
	assert_int_equal(bytes[1] - bytes[0], sums + block + trial);
}

/* ---- decisions ---- */

static const struct model_config qwen3_8b = {
	.vocab_size = 151936,
	.hidden_size = 4096,
	.num_hidden_layers = 36,
	.num_attention_heads = 32,
	.num_key_value_heads = 8,
	.head_dim = 128,
	.intermediate_size = 12288,
	.max_position_embeddings = 40960,
	.rms_norm_eps = 1e-6,
	.rope_theta = 1e6,
	.qk_norm = true,
};

static bool fits(const struct rl_options *o, const struct ops *ops, size_t room)
{
	struct memory_plan p;
	rl_memory_plan(o, &qwen3_8b, ops, 64, true, &p);
	return plan_total(&p) <= room;
}

/* 64 samples of 2,048 tokens of an 8B: as they are in 139 GiB; with norms and gates computed
 * again in less; with shorter micro-batches in 80 GiB, of which the advice names the longest;
 * not at all in 24 GiB. */
static void test_decisions(void **state)
{
	struct ops ops;
	struct err err = {0};
	struct rl_options o;
	struct rl_memory m;
	long long tokens = 0, sequences = 0;
	const size_t gib = (size_t)1 << 30;
	rl_options_default(&o);
	o.max_completion_length = 1984;
	assert_int_equal(ops_describe("cuda:3", &(struct ops_options){.adapter_columns = 64}, &ops, &err), 0);
	/* As it is in 139 GiB, with norms computed again in 100: the sums that
	 * docs/training.md tells. */
	rl_memory_settle(&o, &qwen3_8b, &ops, 64, 139 * gib, &m);
	assert_false(m.recompute);
	assert_int_equal(plan_total(&m.plan) / MIB, 116888);
	assert_string_equal(m.advice, "");
	assert_int_equal(plan_check(&m.plan, "the device has", m.room, m.advice, &err), 0);
	rl_memory_settle(&o, &qwen3_8b, &ops, 64, 100 * gib, &m);
	assert_true(m.recompute);
	assert_int_equal(plan_total(&m.plan) / MIB, 94278);
	assert_int_equal(plan_check(&m.plan, "the device has", m.room, m.advice, &err), 0);

	/* In 80 GiB it needs shorter micro-batches: what is advised fits, and one token more does
	 * not. */
	rl_memory_settle(&o, &qwen3_8b, &ops, 64, 80 * gib, &m);
	assert_int_equal(sscanf(m.advice, "with --max_tokens %lld it fits", &tokens), 1);
	assert_int_equal(tokens, 12851); /* as docs/training.md tells */
	assert_int_equal(plan_check(&m.plan, "the device has", m.room, m.advice, &err), ERR_LIMIT);
	assert_non_null(strstr(err.text, "weights 157")); /* the sum by its lines */
	assert_non_null(strstr(err.text, " + KV cache 184"));
	assert_non_null(strstr(err.text, "the device has 81920 MiB; with --max_tokens"));
	o.max_tokens = tokens;
	assert_true(fits(&o, &ops, 80 * gib));
	o.max_tokens = tokens + 1;
	assert_false(fits(&o, &ops, 80 * gib));

	/* In 24 GiB nothing helps; in 30 two settings together do, and neither could be larger. */
	o.max_tokens = 16384;
	rl_memory_settle(&o, &qwen3_8b, &ops, 64, 24 * gib, &m);
	assert_non_null(strstr(m.advice, "one sample of 2048 tokens does not fit beside the weights"));
	rl_memory_settle(&o, &qwen3_8b, &ops, 64, 30 * gib, &m);
	assert_int_equal(
		sscanf(m.advice, "with --max_tokens %lld and --max_sequences %lld it fits", &tokens, &sequences), 2);
	o.max_tokens = tokens, o.max_sequences = sequences;
	assert_true(fits(&o, &ops, 30 * gib));
	o.max_sequences++;
	assert_false(fits(&o, &ops, 30 * gib));
}

/* What is advised where not one sample fits, by what the sum says: shorter answers while they help,
 * and what else there is where the weights and what they learn by are too much. 8.19 billion
 * parameters are 15,623 MiB of bf16, and 124,981 MiB of masters, gradients and moments. */
static void test_advice(void **state)
{
	static const struct {
		bool is_full;
		double beta;
		int64_t answer; /* tokens */
		size_t mib;
		const char *says;
	} rows[] = {
		{false, 0, 20000, 24000, "take a shorter --max_completion_length, a smaller model or more memory"},
		{false, 0, 20000, 16000, "shorter answers do not help: take a smaller model or more memory"},
		{true, 0, 20000, 145000, "take a shorter --max_completion_length, a smaller model or more memory"},
		{true, 0, 1984, 140000,
			"shorter answers do not help, for all weights are trained: train an adapter (--use_peft), take a smaller "
			"model or more memory"},
		{true, 0.1, 1984, 140000,
			"shorter answers do not help, for all weights are trained: train an adapter (--use_peft), take a smaller "
			"model or more memory"},
		{true, 0.1, 1984, 150000,
			"shorter answers do not help, for all weights are trained: set --beta 0, which needs no second copy of "
			"them, or train an adapter (--use_peft)"},
		/* What an adapter is no help against: the weights alone are too much. */
		{true, 0.1, 1984, 16000, "shorter answers do not help: take a smaller model or more memory"},
	};
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct ops ops;
		struct err err = {0};
		struct rl_options o;
		struct rl_memory m;
		int columns = rows[i].is_full ? 0 : 64;
		/* The row's run, as its plan would be asked for. */
		assert_int_equal(ops_describe("cuda", &(struct ops_options){.adapter_columns = columns}, &ops, &err), 0);
		rl_options_default(&o);
		o.policy.use_peft = !rows[i].is_full;
		o.beta = rows[i].beta;
		o.max_completion_length = rows[i].answer;
		rl_memory_settle(&o, &qwen3_8b, &ops, 64, rows[i].mib * MIB, &m);
		char *expected = xasprintf("one sample of %lld tokens does not fit beside the weights; %s",
			(long long)rows[i].answer + 64, rows[i].says);
		assert_string_equal(m.advice, expected);
		free(expected);
	}
}

/* A cap is a number with a unit. */
static void test_caps(void **state)
{
	static const struct {
		const char *text;
		size_t bytes;
	} good[] = {{"24GiB", (size_t)24 << 30}, {"80GB", 80000000000}, {"0.5GiB", 1 << 29}, {"512MiB", 512 << 20},
		{"1MB", 1000000}},
	  bad[] = {{"24", 0}, {"GiB", 0}, {"-1GiB", 0}, {"24 gib", 0}, {"24GiBs", 0}, {"nanGiB", 0}, {"infGiB", 0},
		  {"0.999999MB", 0}, {"0.0000001MB", 0}, {"1e-9GiB", 0}, {"", 0}};
	struct ops ops;
	struct err err = {0};
	size_t cap;
	for (size_t i = 0; i < ARRAY_LEN(good); i++) {
		struct device_options d = {.device = "cuda", .memory = good[i].text};
		assert_int_equal(device_describe(&d, &ops, &cap, &err), 0);
		assert_int_equal(cap, good[i].bytes);
	}
	for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
		struct device_options d = {.device = "cuda", .memory = bad[i].text};
		assert_int_equal(device_describe(&d, &ops, &cap, &err), ERR_USAGE);
		assert_non_null(strstr(err.text, "as 24GiB"));
	}
}

/* ---- norms and gates computed again ---- */

static uint64_t bits_after_training(struct ops *ops, const struct shape *s)
{
	struct parts p;
	uint64_t h = 0;
	int count;
	parts_open(&p, ops, s);
	parts_use(&p);
	struct param *params = p.a ? adapter_params(p.a, &count) : model_params(p.m, &count);
	for (int i = 0; i < count; i++) {
		float *x = xcalloc((size_t)params[i].count, sizeof *x);
		param_get(ops, &params[i], x);
		struct sha256_hex hash = hash_bytes(x, (size_t)params[i].count * sizeof *x);
		for (int k = 0; k < 16; k++) h = h * 31 + (uint64_t)hash.text[k];
		free(x);
	}
	parts_close(&p);
	return h;
}

static void test_recompute(void **state)
{
	static const char *const devices[] = {"cpu", "check", "cuda"};
	for (size_t d = 0; d < ARRAY_LEN(devices); d++)
		for (size_t i = 0; i < ARRAY_LEN(shapes); i++) {
			struct shape keep = shapes[i], again = shapes[i];
			struct ops *ops = NULL;
			struct err err = {0};
			keep.recompute = false, again.recompute = true;
			if (!strcmp(devices[d], "cuda")) ops = cuda_open(shapes[i].rank ? 64 : 0, false);
			else assert_int_equal(ops_open(devices[d], &(struct ops_options){.threads = 1}, &ops, &err), 0);
			if (!ops) break;
			uint64_t want = bits_after_training(ops, &keep), got = bits_after_training(ops, &again);
			if (want != got) fail_msg("%s, shape %zu: other weights after three updates", devices[d], i);
			ops_free(ops);
		}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_gpu_sizes),
		cmocka_unit_test(test_invariant),
		cmocka_unit_test(test_pass_fits),
		cmocka_unit_test(test_cpu),
		cmocka_unit_test(test_cuda),
		cmocka_unit_test(test_cuda_little),
		cmocka_unit_test(test_decisions),
		cmocka_unit_test(test_advice),
		cmocka_unit_test(test_caps),
		cmocka_unit_test(test_recompute),
	};
	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
