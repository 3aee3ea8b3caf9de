/* Memory plans, figure by figure and word by word. Every number here was worked out apart from
 * hone, from the shapes that model.h and cuda_figures.h tell of: parameters are rows times columns,
 * in pieces of 256 bytes on a device; activations are columns times rows of a pass; what stages
 * take is the largest of six. So a term that is missing, or counted twice, is another number. */
#include "model/model_internal.h"
#include "base/base.h"
#include "ops/ops.h"
#include <setjmp.h>
#include <stdlib.h>
#include <cmocka.h>

#define MIB ((size_t)1 << 20)

/* Every matrix has another shape. Parameters: 43,168 a layer, 64,000 of the embedding and of the
 * head, 64 of the last norm: 214,400. */
static const struct model_config CONFIG = {.vocab_size = 1000,
	.hidden_size = 64,
	.num_hidden_layers = 2,
	.num_attention_heads = 4,
	.num_key_value_heads = 2,
	.head_dim = 16,
	.intermediate_size = 160,
	.max_position_embeddings = 512,
	.qk_norm = true};

static char *printed(const struct memory_plan *p, size_t room)
{
	char *text = NULL;
	size_t len;
	FILE *f = open_memstream(&text, &len);
	plan_print(p, "this one has", room, f);
	assert_int_equal(fclose(f), 0);
	return text;
}

/* ---- lines ---- */

static void test_print(void **state)
{
	struct memory_plan p = {0};
	assert_int_equal(plan_total(&p), 0);
	plan_add(&p, "first", 3 * MIB / 2, "%d of %s", 3, "them");
	plan_add(&p, "second", MIB, "%s", "");
	plan_add(&p, "third", MIB - 1, "last");
	assert_int_equal(p.count, 3);
	assert_int_equal(plan_total(&p), 7 * MIB / 2 - 1);
	/* The room is enough to the byte, too small by one, and not known. */
	static const struct {
		size_t room;
		const char *says;
	} ends[] = {{7 * MIB / 2 - 1, "   this one has 3.5 MiB: it fits\n"},
		{7 * MIB / 2 - 2, "   this one has 3.5 MiB: it does not fit\n"},
		{0, "   no such device here to compare with; --memory says what it would have\n"}};
	for (size_t i = 0; i < ARRAY_LEN(ends); i++) {
		char *text = printed(&p, ends[i].room),
			 *expected = xasprintf("first               1.5 MiB   3 of them\n"
								   "second              1.0 MiB\n"
								   "third               1.0 MiB   last\n"
								   "total               3.5 MiB%s",
				 ends[i].says);
		assert_string_equal(text, expected);
		free(expected);
		free(text);
	}
}

static void test_check(void **state)
{
	struct memory_plan p = {0};
	struct err err = {0};
	plan_add(&p, "weights", 20 * MIB, "of a model");
	plan_add(&p, "little", MIB - 1, "not named");
	plan_add(&p, "tables", MIB, "just named");
	assert_int_equal(plan_check(&p, "this one has", 22 * MIB - 1, "buy more", &err), 0);
	assert_string_equal(err.text, "");
	assert_int_equal(plan_check(&p, "this one has", 22 * MIB - 2, "buy more", &err), ERR_LIMIT);
	assert_int_equal(err.code, ERR_LIMIT);
	assert_string_equal(err.text, "memory: weights 20 + tables 1 = 22 MiB, but this one has 22 MiB; buy more");
	/* Room that nobody knows is not too little. */
	assert_int_equal(plan_check(&p, "this one has", 0, "buy more", &err), 0);
}

static bool is_at_most(void *ctx, int64_t number)
{
	int64_t *bounds = ctx; /* the largest that fits, the least and the most that may be asked for */
	assert_true(number >= bounds[1] && number <= bounds[2]);
	return number <= bounds[0];
}

/* Every answer between the bounds is found, the bounds and none of them too. */
static void test_largest(void **state)
{
	for (int64_t least = 1; least < 4; least++)
		for (int64_t most = least; most < 40; most++)
			for (int64_t fits = 0; fits < 42; fits++) {
				int64_t bounds[] = {fits, least, most}, expected = fits < least ? least - 1 : MIN(fits, most);
				assert_int_equal(plan_largest(least, most, is_at_most, bounds), expected);
			}
}

/* ---- training ---- */

struct line {
	const char *name;
	size_t bytes;
	const char *what;
};
struct training_row {
	const char *device;
	int tail;
	bool is_tied;
	struct training_plan plan;
	struct line lines[10];
};
#define BACK {.max_tokens = 100, .head_rows = 10, .backward = true}
#define AGAIN {.max_tokens = 100, .head_rows = 10, .backward = true, .recompute = true}
static const struct training_row TRAINING[] = {
	/* All weights on the CPU: fp32 as they are, nothing packed for generation, no masters. */
	{"cpu", 0, false, {.pass = BACK},
		{{"weights", 857600, "fp32, 0.000 billion parameters in 2 layers"},
			{"packed copy", 0, "at most: projections and head again, as generation reads them"},
			{"reference", 0, "beta is 0"}, {"adapter", 0, "none: all weights are trained"}, {"gradients", 857600, ""},
			{"optimiser", 1715200, "AdamW, two moments"},
			{"activations", 1579744, "100 packed tokens, forward and backward"}}},
	/* An engine beside it packs all but the embedding; the reference is a second copy with a pass
	 * that does not go back. */
	{"cpu", 0, false, {.has_reference = true, .generates = true, .pass = AGAIN},
		{{"weights", 857600, "fp32, 0.000 billion parameters in 2 layers"},
			{"packed copy", 601600, "at most: projections and head again, as generation reads them"},
			{"reference", 857600, "a second copy for the KL term"}, {"adapter", 0, "none: all weights are trained"},
			{"gradients", 857600, ""}, {"optimiser", 1715200, "AdamW, two moments"},
			{"its pass", 780768, "activations of the second copy"},
			{"activations", 1464544,
				"100 packed tokens, forward and backward; norms and gates are computed again in backward"}}},
	/* Tied, the embedding is the head and is packed. */
	{"cpu", 0, true, {.adapter_rank = 3, .has_reference = true, .pass = BACK},
		{{"weights", 601600, "fp32, 0.000 billion parameters in 2 layers"},
			{"packed copy", 601600, "at most: projections and head again, as generation reads them"},
			{"reference", 0, "the weights without the adapter"}, {"adapter", 26880, "rank 3, 0.0 million parameters"},
			{"gradients", 26880, ""}, {"optimiser", 53760, "AdamW, two moments"},
			{"activations", 1579744, "100 packed tokens, forward and backward"}}},
	/* On a device: bf16, masters of what learns, the adapter's own copies. */
	{"cuda", 0, false, {.has_reference = true, .generates = true, .pass = BACK},
		{{"weights", 430336, "bf16, 0.000 billion parameters in 2 layers"},
			{"reference", 430336, "a second copy for the KL term"}, {"adapter", 0, "none: all weights are trained"},
			{"masters", 857600, "what learns, in fp32"}, {"gradients", 857600, ""},
			{"optimiser", 1715200, "AdamW, two moments"}, {"its pass", 279008, "activations of the second copy"},
			{"activations", 722624, "100 packed tokens, forward and backward"}}},
	{"cuda", 64, false, {.adapter_rank = 3, .generates = true, .pass = BACK},
		{{"weights", 577792, "bf16 with room for an adapter beside them, 0.000 billion parameters in 2 layers"},
			{"reference", 0, "beta is 0"}, {"adapter", 16384, "rank 3, 0.0 million parameters"},
			{"masters", 26880, "what learns, in fp32"}, {"gradients", 26880, ""},
			{"optimiser", 53760, "AdamW, two moments"},
			{"activations", 889024, "100 packed tokens, forward and backward"}}},
	{"cuda", 64, false, {.adapter_rank = 3, .target_modules = "q_proj,down_proj", .pass = AGAIN},
		{{"weights", 577792, "bf16 with room for an adapter beside them, 0.000 billion parameters in 2 layers"},
			{"reference", 0, "beta is 0"}, {"adapter", 5120, "rank 3, 0.0 million parameters"},
			{"masters", 8448, "what learns, in fp32"}, {"gradients", 8448, ""},
			{"optimiser", 16896, "AdamW, two moments"},
			{"activations", 793024,
				"100 packed tokens, forward and backward; norms and gates are computed again in backward"}}},
};

static void lines_equal(const struct memory_plan *p, const struct line *lines, int max, size_t row)
{
	for (int k = 0; k < max && (lines[k].name || k < p->count); k++) {
		if (!lines[k].name || k >= p->count) fail_msg("row %zu: %d lines", row, p->count);
		const struct plan_line *l = &p->lines[k];
		if (strcmp(l->name, lines[k].name) || strcmp(l->what, lines[k].what) || l->bytes != lines[k].bytes)
			fail_msg("row %zu: %s %zu \"%s\", not %s %zu \"%s\"", row, l->name, l->bytes, l->what, lines[k].name,
				lines[k].bytes, lines[k].what);
	}
}

static struct ops described(const char *device, int tail, bool is_invariant)
{
	struct ops ops;
	struct err err = {0};
	struct ops_options o = {.adapter_columns = tail, .batch_invariant = is_invariant};
	if (ops_describe(device, &o, &ops, &err)) fail_msg("%s", err.text);
	return ops;
}

static void test_training(void **state)
{
	for (size_t i = 0; i < ARRAY_LEN(TRAINING); i++) {
		const struct training_row *r = &TRAINING[i];
		struct memory_plan p = {0};
		struct model_config c = CONFIG;
		struct ops ops = described(r->device, r->tail, false);
		c.tie_word_embeddings = r->is_tied;
		plan_training(&p, &ops, &c, &r->plan);
		lines_equal(&p, r->lines, ARRAY_LEN(r->lines), i);
		/* As many values learn as have a gradient. */
		for (int k = 0; k < p.count; k++)
			if (!strcmp(p.lines[k].name, "gradients"))
				assert_int_equal(plan_trained(&ops, &c, &r->plan) * 4, p.lines[k].bytes);
	}
}

/* Numbers that people read: billions and millions of parameters. What is packed has a bound. */
static void test_large(void **state)
{
	struct memory_plan p = {0};
	struct model_config c = CONFIG;
	struct ops ops = described("cpu", 0, false);
	c.vocab_size = 20000000;
	plan_training(&p, &ops, &c, &(struct training_plan){.adapter_rank = 256, .pass = BACK});
	assert_string_equal(p.lines[0].what, "fp32, 2.560 billion parameters in 2 layers");
	assert_int_equal(p.lines[1].bytes, 2048 * MIB);
	assert_string_equal(p.lines[3].what, "rank 256, 0.6 million parameters");
}

/* ---- what a device takes ---- */

struct device_row {
	const char *what; /* takes the most, or is looked at */
	struct {
		int V;
		int C;
		int layers;
		int NH;
		int NKV;
		int HD;
		int I;
		bool has_bias;
	} model;
	int tail;
	bool is_invariant;
	bool goes_back;
	int T; /* of the pass; 0: none */
	int head_rows;
	int passes;
	int rank;
	struct step_options step;
	int kv_pages;
	/* Expected, in bytes: batches and angles, stages' scratch, blocks of
	 * rows and a trial beside. */
	size_t tables;
	size_t scratch;
	size_t block;
	size_t trial;
};
static const struct device_row DEVICE[] = {
	{"partial results of decoding", {1000, 64, 2, 4, 2, 16, 160, false}, 0, false, false, 0, 0, 0, 0,
		{8, 8, 64, 8, 0, 0}, 3, 11776, 18432, 0, 0},
	{"sums of ranges: rows of a step", {1000, 64, 2, 4, 2, 16, 160, false}, 0, false, true, 100, 10, 2, 0,
		{200, 3, 1, 150, 40, 0}, 100, 56832, 409600, 0, 0},
	{"sums of ranges: a part of the rows", {1000, 64, 2, 4, 2, 16, 160, false}, 0, false, true, 2000, 0, 1, 0,
		{0, 0, 0, 0, 0, 0}, 0, 186112, 2097152, 0, 0},
	{"an adapter, q k v", {1000, 64, 2, 4, 2, 16, 160, false}, 192, false, true, 2, 0, 1, 64, {1, 1, 1, 1, 2, 0}, 1,
		8192, 49920, 0, 0},
	{"an adapter, the gate", {1000, 64, 2, 4, 2, 16, 400, false}, 192, false, true, 2, 0, 1, 64, {0, 0, 0, 0, 0, 0}, 0,
		2688, 103168, 0, 0},
	{"an adapter, heads", {1000, 64, 2, 40, 2, 16, 160, false}, 192, false, true, 2, 0, 1, 64, {0, 0, 0, 0, 0, 0}, 0,
		2688, 164608, 0, 0},
	{"an adapter, two slices", {1000, 64, 2, 4, 2, 16, 20000, false}, 192, false, true, 1025, 1, 1, 64,
		{0, 0, 0, 0, 0, 0}, 0, 96832, 10633728, 0, 0},
	{"rows and heads of attention", {1000, 64, 2, 128, 2, 2, 160, false}, 0, false, true, 8192, 10, 1, 0,
		{0, 0, 0, 0, 0, 0}, 0, 295936, 4194304, 0, 0},
	{"a norm's gradient", {1000, 64, 2, 1, 1, 16, 160, false}, 0, false, true, 262144, 10, 1, 0, {0, 0, 0, 0, 0, 0}, 0,
		24118272, 4194304, 0, 0},
	{"a norm's gradient, of heads", {1000, 64, 2, 1, 1, 64, 160, false}, 0, false, true, 262144, 10, 1, 0,
		{0, 0, 0, 0, 0, 0}, 0, 74449920, 8388608, 0, 0},
	{"sums of squares", {1000, 64, 1000, 4, 2, 16, 160, false}, 0, false, true, 1, 1, 1, 0, {0, 0, 0, 0, 0, 0}, 0, 2624,
		133176, 0, 0},
	{"sums of squares, an adapter's", {1000, 64, 1000, 4, 2, 16, 160, false}, 0, false, true, 1, 1, 1, 1,
		{0, 0, 0, 0, 0, 0}, 0, 2624, 112584, 0, 0},
	{"invariant: o and down alone are added", {1000, 64, 2, 4, 2, 16, 160, false}, 0, true, false, 64, 8, 1, 0,
		{1, 1, 1, 1, 1, 0}, 1, 10496, 16384, 264192, 4289792},
	{"invariant: q k v to a bias", {1000, 64, 2, 4, 2, 16, 160, true}, 0, true, false, 64, 8, 1, 0, {1, 1, 1, 1, 1, 0},
		1, 10496, 32768, 264192, 4289792},
	{"invariant: back", {1000, 64, 2, 4, 2, 16, 160, false}, 0, true, true, 64, 8, 1, 0, {1, 1, 1, 1, 1, 0}, 1, 10496,
		16384, 264192, 4289792},
	{"invariant: down in ranges", {1000, 64, 2, 4, 2, 16, 8192, false}, 0, true, false, 64, 8, 1, 0, {0, 0, 0, 0, 0, 0},
		0, 6912, 65536, 4202496, 17367296},
	{"invariant: down in no ranges", {1000, 64, 2, 4, 2, 16, 8191, false}, 0, true, false, 64, 8, 1, 0,
		{0, 0, 0, 0, 0, 0}, 0, 6912, 16384, 4201984, 17367296},
	{"invariant: down in ranges by its tail", {1000, 64, 2, 4, 2, 16, 8000, false}, 192, true, true, 64, 8, 1, 64,
		{0, 0, 0, 0, 0, 0}, 0, 6912, 2072576, 4128768, 25624832},
	{"invariant: the head in no ranges", {50000, 8192, 2, 4, 2, 16, 160, false}, 0, true, false, 64, 8, 1, 0,
		{0, 0, 0, 0, 0, 0}, 0, 6912, 2097152, 13848576, 92274944},
	{"invariant: fewer columns on trial", {1000, 5000, 2, 4, 2, 16, 40001, false}, 0, true, false, 64, 8, 1, 0,
		{0, 0, 0, 0, 0, 0}, 0, 6912, 5120000, 21120512, 361787648},
	{"invariant: columns of the least", {1000, 100, 2, 4, 2, 16, 3000000, false}, 0, true, false, 64, 8, 1, 0,
		{0, 0, 0, 0, 0, 0}, 0, 6912, 879280, 1536013312, 3457048832},
};

/* Rows of the head at once: what is asked for, else 64 MiB of logits or 32 rows; as many as a pass
 * has at most, and as one fetch holds figures of. */
static void test_head_rows(void **state)
{
	static const struct {
		int head_rows, vocab, tokens, rows;
	} rows[] = {{10, 1000, 100, 10}, {10, 1000, 9, 9}, {0, 1 << 20, 100, 32}, {0, 1 << 18, 100, 64},
		{0, 1 << 19, 100, 32}, {0, 1000, 1 << 20, 16777}, {1 << 18, 1000, 1 << 20, 1 << 18},
		{(1 << 18) + 1, 1000, 1 << 20, 1 << 18}, {0, 1, 1 << 20, 1 << 18}};
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct model_config c = CONFIG;
		c.vocab_size = rows[i].vocab;
		struct pass_options o = {.max_tokens = rows[i].tokens, .head_rows = rows[i].head_rows};
		if (pass_head_rows(&c, &o) != rows[i].rows) fail_msg("row %zu: %d", i, pass_head_rows(&c, &o));
	}
}

static void held(struct ops_context *ctx, struct ops_held *out) { *out = *(struct ops_held *)(void *)ctx; }

/* One row: the plan's lines, and what an open device that holds this or
 * that already still takes. */
static int device_check(const struct device_row *r)
{
	struct model_config c = CONFIG;
	struct ops ops = described("cuda", r->tail, r->is_invariant);
	c.vocab_size = r->model.V, c.hidden_size = r->model.C, c.num_hidden_layers = r->model.layers;
	c.num_attention_heads = r->model.NH, c.num_key_value_heads = r->model.NKV, c.head_dim = r->model.HD;
	c.intermediate_size = r->model.I, c.attention_bias = r->model.has_bias;
	struct device_plan d = {.pass = {.max_tokens = r->T, .head_rows = r->head_rows, .backward = r->goes_back},
		.passes = r->passes,
		.adapter_rank = r->rank,
		.step = r->step,
		.kv_pages = r->kv_pages};
	/* 128 MiB are fixed: a workspace of 64 and four buffers of 16. */
	struct memory_plan p = {0};
	plan_device(&p, &ops, &c, &d);
	size_t stages = r->scratch + r->block + r->trial;
	const struct line lines[] = {{"tables", r->tables, "batches, rotary angles"},
		{"workspace", 128 * MIB + stages, "of products, transfers and stages"},
		{"driver", 1024 * MIB, "at most: its context, kernels, recorded steps"}};
	lines_equal(&p, lines, ARRAY_LEN(lines), (size_t)(r - DEVICE));
	assert_int_equal(p.count, ARRAY_LEN(lines));
	/* What is held is not taken again, and more than is needed pays for nothing else. */
	int bad = plan_device_bytes(&ops, &c, &d) != r->tables + stages;
	const struct ops_held some[] = {{0, 0}, {1, 0}, {r->scratch + 1, 0}, {0, r->block / 2}, {3, r->block + 7}};
	for (size_t k = 0; k < ARRAY_LEN(some); k++) {
		struct ops_held now = some[k];
		ops.held = held;
		ops.ctx = (struct ops_context *)(void *)&now;
		size_t left = r->tables + stages - MIN(now.scratch, r->scratch) - MIN(now.rows, r->block),
			   found = plan_device_bytes(&ops, &c, &d);
		if (found != left) print_message("# %s, held %zu: %zu, not %zu\n", r->what, k, found, left);
		bad |= found != left;
	}
	return bad;
}

static void test_device(void **state)
{
	int bad = 0;
	for (size_t i = 0; i < ARRAY_LEN(DEVICE); i++) bad += device_check(&DEVICE[i]);
	assert_int_equal(bad, 0);
}

/* Gradients of several devices travel through 256 MiB, and NCCL takes about 1
 * GiB: of two and more. */
static void test_ranks(void **state)
{
	struct ops ops = described("cuda", 0, false);
	for (int ranks = 0; ranks < 4; ranks++) {
		struct memory_plan p = {0};
		plan_device(&p, &ops, &CONFIG, &(struct device_plan){.ranks = ranks});
		assert_int_equal(p.count, ranks > 1 ? 4 : 3);
		if (ranks < 2) continue;
		char *what = xasprintf("gradients of all %d, a part at a time; NCCL's own, estimated", ranks);
		assert_string_equal(p.lines[2].name, "ranks");
		assert_string_equal(p.lines[2].what, what);
		assert_int_equal(p.lines[2].bytes, 1280 * MIB);
		free(what);
	}
}

/* The host has no such lines. */
static void test_host(void **state)
{
	struct ops ops = described("cpu", 0, false);
	struct memory_plan p = {0};
	struct device_plan d = {.pass = BACK, .passes = 1, .step = {.rows = 4, .sequences = 4, .pages = 4, .wanted = 4}};
	plan_device(&p, &ops, &CONFIG, &d);
	assert_int_equal(p.count, 0);
	assert_int_equal(plan_device_bytes(&ops, &CONFIG, &d), 0);
	assert_int_equal(plan_device_bytes(NULL, &CONFIG, &d), 0);
}

/* Pages that no number of bytes counts are told as more than any memory has. */
static void test_pages(void **state)
{
	struct ops ops = described("cuda", 0, false);
	struct model_config c = CONFIG;
	struct device_plan d = {.kv_pages = INT32_MAX};
	/* All positions have rotary angles, no more. */
	size_t tables = plan_device_bytes(&ops, &c, &d);
	d.kv_pages = c.max_position_embeddings / OPS_PAGE + 1;
	assert_true(plan_device_bytes(&ops, &c, &d) == tables);
	c.num_hidden_layers = 1;
	assert_true(kv_bytes(&ops, &c, 1) == (size_t)2 * OPS_PAGE * (size_t)c.num_key_value_heads * (size_t)c.head_dim * 2);
	c.num_hidden_layers = 1024, c.num_key_value_heads = 4096, c.head_dim = 256;
	assert_true(kv_bytes(&ops, &c, INT32_MAX) == SIZE_MAX / 4);
}

/* Rows of a pass and of a step on both sides of what a GPU's grid has: tiles of 16 rows, in a
 * pass of 32 unless heads are large, and a further one for each sequence, of which a
 * pass has 16,384 at most. */
static void test_rows(void **state)
{
	static const struct {
		const char *device;
		int head_dim, tokens, rows, sequences;
		const char *says;
	} rows[] = {
		/* passes, then steps, then devices without a grid */
		{"cuda", 8, 0, 0, 0, NULL},
		{"cuda", 8, 1, 1, 1, NULL},
		{"cuda", 128, 1572863, 0, 0, NULL},
		{"cuda", 128, 1572864, 0, 0,
			"max_tokens 1572864: device cuda takes passes of at most 1572863 packed tokens, 49151 tiles of 32 rows "
			"beside "
			"16384 sequences; lower max_tokens"},
		{"cuda", 136, 786431, 0, 0, NULL},
		{"cuda", 136, 786432, 0, 0,
			"max_tokens 786432: device cuda takes passes of at most 786431 packed tokens, 49151 tiles of 16 rows "
			"beside"},
		{"cuda", 64, PASS_TOKENS_MAX, 0, 0, "max_tokens 4194304: device cuda takes passes of at most 1572863"},
		{"cuda", 64, 0, 16 * 65534 + 15, 1, NULL},
		{"cuda", 64, 0, 16 * 65535, 1,
			"max_sequences 1 with 1048560 rows of a step: device cuda takes at most 65535 tiles"},
		{"cuda", 64, 0, 61680 + 15, 61680, NULL},
		{"cuda", 64, 0, 65792, 65536, "max_sequences 65536 with 65792 rows of a step: device cuda"},
		{"cpu", 256, PASS_TOKENS_MAX, 65536 + (1 << 22), 65536, NULL},
		{"check", 256, PASS_TOKENS_MAX, 65536 + (1 << 22), 65536, NULL},
	};
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct ops ops = described(rows[i].device, 0, false);
		struct model_config c = {.head_dim = rows[i].head_dim};
		struct err err = {0};
		struct device_plan d = {
			.pass.max_tokens = rows[i].tokens, .step = {.rows = rows[i].rows, .sequences = rows[i].sequences}};
		int rc = plan_rows_check(&ops, &c, &d, &err);
		if (rc != (rows[i].says ? ERR_LIMIT : 0) || (rc && !strstr(err.text, rows[i].says)))
			fail_msg("row %zu: code %d, %s", i, rc, err.text);
		assert_int_equal(plan_rows_check(NULL, &c, &d, &err), 0);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(test_print), cmocka_unit_test(test_check),
		cmocka_unit_test(test_largest), cmocka_unit_test(test_training), cmocka_unit_test(test_large),
		cmocka_unit_test(test_head_rows), cmocka_unit_test(test_device), cmocka_unit_test(test_ranks),
		cmocka_unit_test(test_host), cmocka_unit_test(test_pages), cmocka_unit_test(test_rows)};
	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
