/* Weights in the backend's own order: no bit of a result changes, and a model that is trained
 * afterwards is read as it is now, not as it was. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <cmocka.h>
#include "model/model.h"
#include "model/model_internal.h"
#include "host_values.h"
#include "ops/cpu_figures.h"
#include "../base/base_test.h"
#include "../leaks.h"

enum { T = 40, V = 37 };

static const struct model_config config = {
	.vocab_size = V,
	.hidden_size = 24,
	.num_hidden_layers = 2,
	.num_attention_heads = 4,
	.num_key_value_heads = 2,
	.head_dim = 6,
	.intermediate_size = 300, /* more than one pass of the products' k */
	.max_position_embeddings = 64,
	.rms_norm_eps = 1e-6,
	.rope_theta = 100,
	.tie_word_embeddings = true,
	.qk_norm = true,
	.bos_token_id = -1,
	.eos_token_id = -1,
	.pad_token_id = -1,
};

static struct model *make(struct ops *ops)
{
	struct model *m;
	assert_int_equal(model_create(&config, 5, ops, &m, NULL), 0);
	return m;
}

static void logits(struct model *m, float *out)
{
	struct pass *p;
	int32_t ids[T], pos[T], at[T];
	const int32_t start[2] = {0, T};
	for (int t = 0; t < T; t++) {
		ids[t] = t * 7 % V;
		pos[t] = at[t] = t;
	}
	assert_int_equal(pass_create(m, &(struct pass_options){.max_tokens = T}, &p, NULL), 0);
	pass_forward(p, NULL, &(struct batch){ids, {T, 1, start, pos, NULL}}, 0);
	pass_logits(p, at, T, out);
	pass_free(p);
}

/* What a run remembers of its weights: of each its name, its size and some of its values. */
static void test_fingerprint(void **state)
{
	struct ops *ops;
	assert_int_equal(ops_cpu_create(&(struct ops_options){.threads = 1}, &ops, NULL), 0);
	struct model *m = make(ops);
	int n;
	struct param *p = model_params(m, &n);
	struct str bytes = {0};
	for (int i = 0; i < n; i++) {
		str_append(&bytes, p[i].name, strlen(p[i].name) + 1);
		str_append(&bytes, &p[i].count, sizeof p[i].count);
		for (int64_t k = 0; k < p[i].count; k += MAX(1, p[i].count / 16))
			str_append(&bytes, &host_values(&p[i])[k], sizeof(float));
	}
	assert_true(n > 20 && bytes.len > 1000);
	assert_string_equal(weights_fingerprint(m, NULL).text, hash_bytes(bytes.data, bytes.len).text);
	/* One value of the last tensor makes it another. */
	struct sha256_hex before = weights_fingerprint(m, NULL);
	host_values(&p[n - 1])[0] += 1;
	assert_string_not_equal(weights_fingerprint(m, NULL).text, before.text);
	/* An adapter counts with its values, its scaling and its dropout. */
	struct adapter *a;
	const struct adapter_options kinds[] = {{.r = 2, .lora_alpha = 4}, {.r = 2, .lora_alpha = 4, .seed = 1},
		{.r = 2, .lora_alpha = 8}, {.r = 2, .lora_alpha = 4, .lora_dropout = 0.1}};
	struct sha256_hex seen[1 + ARRAY_LEN(kinds)] = {weights_fingerprint(m, NULL)};
	for (size_t i = 0; i < ARRAY_LEN(kinds); i++) {
		assert_int_equal(adapter_create(m, &kinds[i], &a, NULL), 0);
		seen[i + 1] = weights_fingerprint(m, a);
		for (size_t k = 0; k <= i; k++) assert_string_not_equal(seen[i + 1].text, seen[k].text);
		adapter_free(a);
	}
	str_release(&bytes);
	model_free(m);
	ops_free(ops);
}

static void change(struct model *m)
{
	int n;
	struct param *params = model_params(m, &n);
	for (int i = 0; i < n; i++, ++*params[0].changes)
		for (int64_t k = 0; k < params[i].count; k++)
			host_values(&params[i])[k] += 0.05f * rng_normal(9, (uint64_t)i, (uint64_t)k);
}

static void test_prepare(void **state)
{
	struct ops *ops;
	float plain[T * V], prepared[T * V], trained[T * V], want[T * V];
	assert_int_equal(ops_cpu_create(&(struct ops_options){.threads = 2}, &ops, NULL), 0);
	struct model *m = make(ops), *never = make(ops);
	/* Prepared weights give the bits of plain ones. */
	logits(m, plain);
	model_prepare(m);
	model_prepare(m); /* an engine after an engine */
	logits(m, prepared);
	assert_memory_equal(prepared, plain, sizeof plain);
	/* Trained ones drop what was prepared: the same as a model that never was. */
	model_enable_grad(m, NULL);
	change(m);
	change(never);
	logits(m, trained);
	logits(never, want);
	assert_memory_equal(trained, want, sizeof want);
	assert_memory_not_equal(trained, plain, sizeof plain);
	/* Of weights that learn a copy is kept too, and made anew behind each change. */
	size_t bytes = ops_prepared_bytes(ops);
	assert_int_equal(bytes, 0);
	model_prepare(m);
	bytes = ops_prepared_bytes(ops);
	assert_true(bytes > 0);
	for (int i = 0; i < 2; i++) {
		logits(m, trained);
		assert_memory_equal(trained, want, sizeof want);
		change(m);
		change(never);
		logits(m, trained);
		logits(never, want);
		assert_memory_equal(trained, want, sizeof want);
	}
	change(m);
	change(never);
	model_prepare(m); /* an engine behind a change */
	logits(m, trained);
	logits(never, want);
	assert_memory_equal(trained, want, sizeof want);
	assert_int_equal(ops_prepared_bytes(ops), bytes);
	model_free(m);
	model_free(never);
	ops_free(ops);
}

static int binds;
static const struct ops_lora *loras_bound[64];
static void count_bind(struct ops_context *c, struct ops_linear *l, const struct ops_lora *lora)
{
	loras_bound[binds++ % ARRAY_LEN(loras_bound)] = lora;
}

/* An adapter's B goes to the backend when it is another's, or has changed, and no oftener: to each
 * linear of each layer. */
static void test_bind(void **state)
{
	enum { ALL = 2 * LINEAR_COUNT }; /* of two layers */
	struct ops *ops;
	struct adapter *a, *b;
	assert_int_equal(ops_cpu_create(&(struct ops_options){.threads = 1}, &ops, NULL), 0);
	struct model *m = make(ops);
	assert_int_equal(adapter_create(m, &(struct adapter_options){.r = 2, .lora_alpha = 4}, &a, NULL), 0);
	assert_int_equal(adapter_create(m, &(struct adapter_options){.r = 2, .lora_alpha = 4}, &b, NULL), 0);
	ops->bind = count_bind;
	/* Who is bound in turn, and how many of its parameters have changed before. */
	const struct {
		struct adapter *a;
		int changes;
		int binds;
	} turns[] = {{NULL, 0, 0}, {a, 0, ALL}, {a, 0, 0}, {a, 1, ALL}, {a, 0, 0}, {b, 0, ALL}, {a, 0, ALL}, {b, 1, ALL},
		{NULL, 0, ALL}, {NULL, 0, 0}, {b, 0, ALL}, {b, 2, ALL}, {b, 0, 0}};
	for (size_t i = 0; i < ARRAY_LEN(turns); i++) {
		int n;
		binds = 0;
		if (turns[i].changes) *adapter_params(turns[i].a, &n)[0].changes += (uint64_t)turns[i].changes;
		model_bind(m, turns[i].a);
		if (binds != turns[i].binds) fail_msg("turn %zu: %d linears were bound, not %d", i, binds, turns[i].binds);
		for (int k = 0; k < binds; k++)
			assert_ptr_equal(
				loras_bound[k], adapter_lora(turns[i].a, k / LINEAR_COUNT, (enum linear)(k % LINEAR_COUNT)));
	}
	adapter_free(b);
	adapter_free(a);
	model_free(m);
	ops_free(ops);
}

/* Each projection of each layer drops elements of its input by a mask of its own. */
static void test_masks_are_apart(void **state)
{
	struct ops *ops;
	struct adapter *a;
	uint64_t seen = 0;
	assert_int_equal(ops_cpu_create(&(struct ops_options){.threads = 1}, &ops, NULL), 0);
	struct model *m = make(ops);
	assert_int_equal(
		adapter_create(m, &(struct adapter_options){.r = 2, .lora_alpha = 4, .lora_dropout = 0.5}, &a, NULL), 0);
	for (int layer = 0; layer < 2; layer++)
		for (enum linear k = 0; k < LINEAR_COUNT; k++)
			for (int part = 0; part < linear_defs[k].parts; part++) {
				uint64_t stream = adapter_lora(a, layer, k)->stream + (uint64_t)part;
				assert_true(stream < 64 && !(seen >> stream & 1));
				seen |= (uint64_t)1 << stream;
			}
	assert_int_equal(__builtin_popcountll(seen), 2 * PROJ_COUNT);
	adapter_free(a);
	model_free(m);
	ops_free(ops);
}

/* One row of a step is not what the model has room for. */
static int bad_row;
static void (*bad_edit)(int32_t *ids, int32_t *pos, int32_t *table, int row);
static void edit_token(int32_t *ids, int32_t *pos, int32_t *table, int row) { ids[row] = V; }
static void edit_position(int32_t *ids, int32_t *pos, int32_t *table, int row) { pos[row] = -1; }
static void edit_page(int32_t *ids, int32_t *pos, int32_t *table, int row) { table[row] = 3; }
static void edit_nothing(int32_t *ids, int32_t *pos, int32_t *table, int row) {}

/* A step of three sequences of one token, in three pages. */
static void step_badly(void)
{
	enum { ROWS = 3 };
	struct ops *ops;
	if (ops_cpu_create(&(struct ops_options){.threads = 1}, &ops, NULL)) _exit(1);
	struct model *m = make(ops);
	struct kv *kv = kv_create(m, ROWS);
	struct step *s = step_create(
		m, &(struct step_options){.rows = ROWS, .sequences = ROWS, .pages = 1, .wanted = ROWS});
	int32_t ids[] = {1, 2, 3}, pos[] = {0, 0, 0}, sequence[] = {0, 1, 2}, table[] = {0, 1, 2};
	bad_edit(ids, pos, table, bad_row);
	struct ops_rows rows = {
		.T = ROWS, .S = ROWS, .ids = ids, .pos = pos, .sequence = sequence, .table = table, .pages = 1};
	step_run(s, kv, NULL, &rows, &(struct ops_want){.n = ROWS, .at = sequence}, NULL, NULL);
}

/* Whichever row it is, the program ends before it reads what is not there. */
static void test_rows_are_checked(void **state)
{
	bad_edit = edit_nothing;
	assert_false(aborts(step_badly));
	for (bad_row = 0; bad_row < 3; bad_row++) {
		bad_edit = edit_token;
		assert_true(aborts(step_badly));
		bad_edit = edit_position;
		assert_true(aborts(step_badly));
		bad_edit = edit_page;
		assert_true(aborts(step_badly));
	}
}

/* A model whose shape the backend's kernels are not made for is refused by
 * message, one limit at a time. */
static void test_limits(void **state)
{
	struct ops *ops;
	assert_int_equal(ops_cpu_create(&(struct ops_options){.threads = 1}, &ops, NULL), 0);
	const struct ops_limits *own = ops->limits;
	const struct {
		struct ops_limits limits;
		const char *says;
	} cases[] = {
		/* What a backend takes: heads (multiple, most, query heads of a key head),
		 * vocabulary, columns (multiple, most), rows. The first row is what the model needs,
		 * each of the others lacks one. */
		{{2, 6, 2, V, 12, 24, 1, 1}, NULL},
		{{2, 6, 1, V, 12, 24, 1, 1}, "4 query heads on 2 key heads; device cpu takes at most 1 on each"},
		{{4, 8, 2, V, 12, 24, 1, 1}, "heads of 6 elements; device cpu takes multiples of 4 up to 8"},
		{{2, 4, 2, V, 12, 24, 1, 1}, "heads of 6 elements; device cpu takes multiples of 2 up to 4"},
		{{2, 6, 2, V - 1, 12, 24, 1, 1}, "a vocabulary of 37 tokens; device cpu takes at most 36"},
		{{2, 6, 2, V, 16, 24, 1, 1}, "a hidden size of 24; device cpu takes multiples of 16 up to 24"},
		{{2, 6, 2, V, 12, 16, 1, 1}, "a hidden size of 24; device cpu takes multiples of 12 up to 16"},
		{{2, 6, 2, V, 8, 24, 1, 1}, "an MLP of 300 columns; device cpu takes multiples of 8"},
	};
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct model *m = NULL;
		struct err err = {0};
		ops->limits = &cases[i].limits;
		int rc = model_create(&config, 5, ops, &m, &err);
		assert_int_equal(rc, cases[i].says ? ERR_UNSUPPORTED : 0);
		if (cases[i].says) assert_non_null(strstr(err.text, cases[i].says));
		else model_free(m);
	}
	/* A backend without limits takes any shape. */
	struct model *any = NULL;
	ops->limits = NULL;
	assert_int_equal(model_create(&config, 5, ops, &any, NULL), 0);
	model_free(any);
	ops->limits = own;
	/* The CPU's own: what its attention has room for is taken and runs, what is more is refused. */
	static const struct {
		int heads, kv_heads, head_dim;
		const char *says;
	} shapes[] = {{2, 1, 256, NULL}, {2, 1, 258, "heads of 258 elements; device cpu takes multiples of 2 up to 256"},
		{128, 1, 2, NULL}, {129, 1, 2, "129 query heads on 1 key heads; device cpu takes at most 128 on each"}};
	for (size_t i = 0; i < ARRAY_LEN(shapes); i++) {
		struct model_config c = config;
		struct model *m = NULL;
		struct pass *p = NULL;
		struct err err = {0};
		c.num_attention_heads = shapes[i].heads, c.num_key_value_heads = shapes[i].kv_heads;
		c.head_dim = shapes[i].head_dim;
		int rc = model_create(&c, 5, ops, &m, &err);
		assert_int_equal(rc, shapes[i].says ? ERR_UNSUPPORTED : 0);
		if (rc) {
			if (!strstr(err.text, shapes[i].says) || strstr(err.text, "--device")) fail_msg("%s", err.text);
			continue;
		}
		const int32_t ids[] = {1, 2}, pos[] = {0, 1}, start[] = {0, 2};
		assert_int_equal(pass_create(m, &(struct pass_options){.max_tokens = 2, .backward = true}, &p, &err), 0);
		pass_forward(p, NULL, &(struct batch){ids, {2, 1, start, pos, NULL}}, 0);
		pass_free(p);
		model_free(m);
	}
	ops_free(ops);
}

static size_t free_memory;
static void memory_left(struct ops_context *c, size_t *free_bytes, size_t *total)
{
	*free_bytes = *total = free_memory;
}

/* A device that cannot hold a new model or an adapter is not asked to. */
static void test_room(void **state)
{
	struct ops *ops;
	struct err err = {0};
	struct adapter *a = NULL;
	struct model *other = NULL;
	const struct adapter_options o = {.r = 4, .lora_alpha = 8};
	assert_int_equal(ops_cpu_create(&(struct ops_options){.threads = 1}, &ops, NULL), 0);
	struct model *m = make(ops);
	assert_int_equal(adapter_create(m, &o, &a, &err), 0);
	int n;
	struct param *params = adapter_params(a, &n);
	size_t needed = 0; /* copies and masters, both fp32 here */
	for (int i = 0; i < n; i++) needed += 2 * sizeof(float) * (size_t)params[i].count;
	adapter_free(a);
	/* The CPU's table, as if its memory were a device's with so much left. */
	ops->host_memory = false;
	ops->memory = memory_left;
	free_memory = needed - 1;
	assert_int_equal(adapter_create(m, &o, &a, &err), ERR_LIMIT);
	assert_non_null(strstr(err.text, "an adapter of rank 4 needs"));
	assert_int_equal(model_create(&config, 5, ops, &other, &err), ERR_LIMIT);
	assert_non_null(strstr(err.text, "the weights need"));
	ops->host_memory = true;
	model_free(m);
	ops_free(ops);
	/* A cap holds on the CPU too. */
	struct pass *p = NULL;
	assert_int_equal(ops_cpu_create(&(struct ops_options){.threads = 1, .memory_cap = 1000}, &ops, NULL), 0);
	assert_int_equal(model_create(&config, 5, ops, &other, &err), ERR_LIMIT);
	assert_non_null(strstr(err.text, "on device cpu, which has 0 MiB; take a smaller model, or more memory"));
	ops_free(ops);
	assert_int_equal(ops_cpu_create(&(struct ops_options){.threads = 1, .memory_cap = 1 << 20}, &ops, NULL), 0);
	m = make(ops);
	assert_int_equal(pass_create(m, &(struct pass_options){.max_tokens = 10000}, &p, &err), ERR_LIMIT);
	assert_non_null(strstr(err.text, "device cpu gives at most 1 MiB"));
	model_free(m);
	ops_free(ops);
}

/* A new adapter's A is uniform within +-1/sqrt(in), another in each matrix and for each seed; its B
 * is zero. Of a new model norms are 1, and every matrix is another. */
static void test_first_values(void **state)
{
	struct ops *ops;
	assert_int_equal(ops_cpu_create(&(struct ops_options){.threads = 1}, &ops, NULL), 0);
	struct model *m = make(ops);
	struct adapter *a, *again, *other;
	struct adapter_options o = {.r = 8, .lora_alpha = 16, .seed = 3};
	assert_int_equal(adapter_create(m, &o, &a, NULL), 0);
	assert_int_equal(adapter_create(m, &o, &again, NULL), 0);
	o.seed = 4;
	assert_int_equal(adapter_create(m, &o, &other, NULL), 0);
	int n, count;
	const struct param *x = adapter_params(a, &n), *y = adapter_params(again, &count),
					   *z = adapter_params(other, &count);
	for (int i = 0; i < n; i++) {
		const float *v = host_values(&x[i]), *w = host_values(&z[i]);
		double bound = 1 / sqrt((double)x[i].shape[1]), sum = 0, squares = 0, largest = 0;
		assert_memory_equal(v, host_values(&y[i]), (size_t)x[i].count * sizeof *v);
		for (int64_t k = 0; k < x[i].count; k++) {
			sum += v[k] / bound;
			squares += v[k] / bound * v[k] / bound;
			largest = fmax(largest, fabs(v[k] / bound));
		}
		if (i % 2) {
			assert_true(largest == 0);
			continue;
		}
		/* Variance 1/3 of a uniform value, 4/45 of its square; five deviations of their means. */
		double values = (double)x[i].count;
		assert_true(largest <= 1 + 1e-6 && largest > 0.9);
		assert_true(fabs(sum / values) < 5 * sqrt(1.0 / 3 / values));
		assert_true(fabs(squares / values - 1.0 / 3) < 5 * sqrt(4.0 / 45 / values));
		assert_memory_not_equal(v, w, (size_t)x[i].count * sizeof *v);
		for (int k = 0; k < i; k += 2) assert_memory_not_equal(v, host_values(&x[k]), 8 * sizeof *v);
	}
	x = model_params(m, &n);
	for (int i = 0; i < n; i++) {
		const float *v = host_values(&x[i]);
		bool is_norm = strstr(x[i].name, "norm") != NULL, is_bias = strstr(x[i].name, ".bias") != NULL;
		for (int64_t k = 0; k < x[i].count && (is_norm || is_bias); k++) assert_true(v[k] == (is_norm ? 1 : 0));
		for (int k = 0; k < i && !is_norm && !is_bias; k++)
			assert_memory_not_equal(v, host_values(&x[k]), 8 * sizeof *v);
	}
	adapter_free(a);
	adapter_free(again);
	adapter_free(other);
	model_free(m);
	ops_free(ops);
}

/* What a device may give, in each unit; what is no such size is refused. A card gives at most its
 * own memory. */
static void test_memory_sizes(void **state)
{
	static const struct {
		const char *memory, *card;
		double bytes; /* 0: refused */
	} rows[] = {{"512MiB", NULL, 512.0 * (1 << 20)}, {"24GiB", NULL, 24.0 * (1 << 30)}, {"1.5TiB", NULL, 1.5 * 0x1p40},
		{"700MB", NULL, 7e8}, {"80GB", NULL, 8e10}, {"2TB", NULL, 2e12}, {"24GiB", "a100", 24.0 * (1 << 30)},
		{"90GB", "a100", 85095874560.0}, {NULL, "rtx4090", 25386352640.0}, {"", NULL, 0}, {"24", NULL, 0},
		{"GiB", NULL, 0}, {"24 GiB", NULL, 0}, {"24GiBs", NULL, 0}, {"24gib", NULL, 0}, {"0GiB", NULL, 0},
		{"-1GiB", NULL, 0}, {"nanGiB", NULL, 0}, {"infGiB", NULL, 0}, {"1000000TiB", NULL, 0}};
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct device_options o = {.device = "cuda", .threads = 1, .memory = rows[i].memory, .card = rows[i].card};
		struct ops ops;
		struct err err = {0};
		size_t cap = 1;
		int rc = device_describe(&o, &ops, &cap, &err);
		if (rc != (rows[i].bytes > 0 ? 0 : ERR_USAGE)) fail_msg("%s: %d %s", rows[i].memory, rc, err.text);
		if (!rc && (double)cap != rows[i].bytes) fail_msg("%s: %zu bytes", rows[i].memory, cap);
		if (rc && !strstr(err.text, rows[i].memory)) fail_msg("%s: %s", rows[i].memory, err.text);
	}
	/* Without a size there is no cap. */
	struct ops ops;
	struct err err = {0};
	size_t cap = 1;
	assert_int_equal(device_describe(&(struct device_options){.device = "cuda"}, &ops, &cap, &err), 0);
	assert_int_equal(cap, 0);
}

/* The spare columns behind a projection's input hold three adapters' ranks beside each other, in
 * steps of 64: of the largest that will be there. */
static void test_tails(void **state)
{
	static const struct {
		int new_rank;
		int saved_rank; /* of a folder; 0: there is none, -1: it says no rank */
		int tail;
	} rows[] = {{0, 0, 0}, {1, 0, 64}, {21, 0, 64}, {22, 0, 128}, {42, 0, 128}, {43, 0, 192}, {64, 0, 192},
		{256, 0, 768}, {0, 21, 64}, {0, 22, 128}, {21, 22, 128}, {22, 21, 128}, {0, -1, 0}, {22, -1, 128}};
	char dir[] = "/tmp/hone-tails-XXXXXX";
	assert_non_null(mkdtemp(dir));
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct ops ops;
		struct err err = {0};
		size_t cap;
		char *path = path_join(dir, "adapter_config.json"),
			 *text = rows[i].saved_rank > 0 ? xasprintf("{\"r\": %d}", rows[i].saved_rank) : xstrdup("{}");
		assert_int_equal(file_write_atomic(path, text, strlen(text), &err), 0);
		const char *const folders[] = {NULL, dir, NULL};
		struct device_options o = {.device = "cuda",
			.new_rank = rows[i].new_rank,
			.adapters = folders,
			.nadapters = rows[i].saved_rank ? 3 : 1};
		assert_int_equal(device_describe(&o, &ops, &cap, &err), 0);
		if (ops.tail != rows[i].tail) fail_msg("row %zu: a tail of %d", i, ops.tail);
		/* The CPU has none. */
		o.device = "cpu";
		assert_int_equal(device_describe(&o, &ops, &cap, &err), 0);
		assert_int_equal(ops.tail, 0);
		free(text);
		free(path);
	}
	assert_int_equal(dir_remove(dir, NULL), 0);
}

/* None of the above leaves memory or descriptors behind, errors included. */
static void everything(void *ctx)
{
	test_fingerprint(NULL);
	test_prepare(NULL);
	test_bind(NULL);
	test_masks_are_apart(NULL);
	test_rows_are_checked(NULL);
	test_limits(NULL);
	test_room(NULL);
	test_first_values(NULL);
	test_memory_sizes(NULL);
	test_tails(NULL);
}

static void test_leaves_nothing(void **state) { leaves_nothing(everything, NULL); }

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(test_fingerprint), cmocka_unit_test(test_prepare),
		cmocka_unit_test(test_bind), cmocka_unit_test(test_masks_are_apart), cmocka_unit_test(test_rows_are_checked),
		cmocka_unit_test(test_limits), cmocka_unit_test(test_room), cmocka_unit_test(test_first_values),
		cmocka_unit_test(test_memory_sizes), cmocka_unit_test(test_tails), cmocka_unit_test(test_leaves_nothing)};
	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
