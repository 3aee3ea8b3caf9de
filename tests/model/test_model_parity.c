/* The whole model against transformers and peft: logits, log-probabilities, entropies, loss and
 * every gradient by name; for Qwen3, Qwen2 and Llama, each tied and not, with old and new spellings
 * of the config. Tolerances: ref_tolerance() in model_ref.h. */
#include <stdarg.h>
#include <stddef.h>
#include "model_ref.h"

static void each_case(void (*fn)(struct ref *r, struct ops *ops))
{
	for (size_t i = 0; i < ARRAY_LEN(ref_cases); i++) {
		struct ref r;
		struct ops *ops = ref_ops(false);
		ref_open(&r, ref_cases[i]);
		fn(&r, ops);
		ref_close(&r);
		ops_free(ops);
	}
}

static void logits_check(struct ref *r, struct pass *p, const struct model_config *c, const char *name)
{
	int32_t *at = xcalloc((size_t)r->T, sizeof *at);
	float *logits = xcalloc((size_t)r->T * (size_t)c->vocab_size, sizeof *logits);
	for (int t = 0; t < r->T; t++) at[t] = t;
	pass_logits(p, at, r->T, logits);
	assert_true(ref_equal(r, name, logits, (int64_t)r->T * c->vocab_size, ref_tolerance(c, r->T, false)));
	free(at);
	free(logits);
}

static void forward_case(struct ref *r, struct ops *ops)
{
	struct model *m = ref_model(r, ops, "hf");
	const struct model_config *c = model_config(m);
	struct pass *p = ref_pass(m, r->T, 17, false); /* 17: the last chunk of rows is ragged */
	float *logprob = xcalloc((size_t)r->n, sizeof *logprob), *entropy = xcalloc((size_t)r->n, sizeof *entropy);
	pass_forward(p, NULL, &r->batch, 0);
	logits_check(r, p, c, "logits");
	pass_logprobs(p, r->rows, r->n, r->temperature, logprob, entropy);
	assert_true(ref_equal(r, "logprob", logprob, r->n, ref_tolerance(c, r->T, false)));
	assert_true(ref_equal(r, "entropy", entropy, r->n, ref_tolerance(c, r->T, false)));
	free(logprob);
	free(entropy);
	pass_free(p);
	model_free(m);
}
static void test_forward(void **state) { each_case(forward_case); }

static void gradient_case(struct ref *r, struct ops *ops)
{
	struct model *m = ref_model(r, ops, "hf");
	struct pass *p = ref_pass(m, r->T + 5, 13, true);
	struct ref_loss loss = {.r = r};
	int n;
	model_enable_grad(m, NULL);
	struct param *params = model_params(m, &n);
	pass_forward(p, NULL, &r->batch, 0);
	pass_backward(p, r->rows, r->n, r->temperature, ref_loss_fn, &loss);
	double tolerance = ref_tolerance(model_config(m), r->T, true);
	assert_true(fabs(loss.loss - json_number_value(json_object_get(r->meta, "loss"))) <= tolerance * loss.loss);
	assert_int_equal(ref_grads_differ(r, params, n, "grad.", tolerance), 0);

	/* Gradients accumulate: the same again doubles them; zeroing clears. */
	float once = host_grads(&params[1])[0];
	pass_backward(p, r->rows, r->n, r->temperature, ref_loss_fn, &loss);
	assert_true(fabs((double)host_grads(&params[1])[0] - 2 * (double)once) <= 4 * ldexp(fabs(once), -23));
	params_zero_grad(ops, params, n);
	for (int i = 0; i < n; i++)
		for (int64_t k = 0; k < params[i].count; k++) assert_true(host_grads(&params[i])[k] == 0);
	pass_free(p);
	model_free(m);
}
static void test_gradients(void **state) { each_case(gradient_case); }

static void lora_case(struct ref *r, struct ops *ops)
{
	struct model *m = ref_model(r, ops, "hf");
	struct adapter *a = ref_adapter(r, m);
	struct pass *p = ref_pass(m, r->T, 0, true);
	struct ref_loss loss = {.r = r};
	int n, nbase;
	model_enable_grad(m, a);
	struct param *params = adapter_params(a, &n), *base = model_params(m, &nbase);
	pass_forward(p, a, &r->batch, 0);
	logits_check(r, p, model_config(m), "lora.logits");
	pass_backward(p, r->rows, r->n, r->temperature, ref_loss_fn, &loss);
	double tolerance = ref_tolerance(model_config(m), r->T, true);
	assert_true(fabs(loss.loss - json_number_value(json_object_get(r->meta, "lora_loss"))) <= tolerance * loss.loss);
	assert_int_equal(ref_grads_differ(r, params, n, "lora.grad.", tolerance), 0);
	for (int i = 0; i < nbase; i++) assert_null(host_grads(&base[i]));

	/* The reference policy is the same walk without the adapter. */
	pass_forward(p, NULL, &r->batch, 0);
	logits_check(r, p, model_config(m), "logits");
	pass_free(p);
	adapter_free(a);
	model_free(m);
}
static void test_lora(void **state) { each_case(lora_case); }

/* r->dir/old is the same model as transformers 4 spelled it; the oracle made sure that transformers
 * reads it so. */
static void spelling_case(struct ref *r, struct ops *ops)
{
	struct err err = {0};
	struct model_config now, old;
	char path[400];
	snprintf(path, sizeof path, "%s/hf", r->dir);
	if (model_config_load(path, &now, &err)) fail_msg("%s", err.text);
	snprintf(path, sizeof path, "%s/old", r->dir);
	if (model_config_load(path, &old, &err)) fail_msg("%s", err.text);
	assert_memory_equal(&now, &old, sizeof now);
	model_free(ref_model(r, ops, "old"));
}
static void test_spellings(void **state) { each_case(spelling_case); }

/* Shapes of the real families: as many parameters as transformers counts. */
static void test_sizes(void **state)
{
	struct err err = {0};
	char *path = xasprintf("%s/ref/model/sizes.json", ref_build()), *dir = xasprintf("%s/ref/model/size", ref_build()),
		 *config = path_join(dir, "config.json");
	const char *name;
	json_t *sizes, *row;
	ref_make();
	if (json_load(path, 1 << 20, &sizes, &err) || dir_make(dir, &err)) fail_msg("%s", err.text);
	assert_int_equal(json_object_size(sizes), 14);
	json_object_foreach(sizes, name, row)
	{
		struct model_config c;
		assert_int_equal(json_save(config, json_object_get(row, "config"), &err), 0);
		if (model_config_load(dir, &c, &err)) fail_msg("%s: %s", name, err.text);
		if (model_config_params(&c) != json_integer_value(json_object_get(row, "params")))
			fail_msg("%s: %lld parameters, expected %lld", name, (long long)model_config_params(&c),
				(long long)json_integer_value(json_object_get(row, "params")));
	}
	json_decref(sizes);
	free(path);
	free(dir);
	free(config);
}

/* ---- generation over pages ---- */

enum { PAGES_MAX = 4, SEQUENCES_MAX = 8 };
struct paged {
	int32_t lists[SEQUENCES_MAX][PAGES_MAX], ids[512], pos[512], sequence[512], at[512], row[512];
	int T, n;
};

static void paged_push(struct paged *g, const struct ref *r, int s, int t)
{
	g->ids[g->T] = r->ids[t];
	g->pos[g->T] = r->pos[t];
	g->sequence[g->T] = s;
	g->at[g->n] = g->T++;
	g->row[g->n++] = t;
}

/* All sequences at once: the first call prefills a third of each, every further call takes each one
 * token further. Stores the logits of every position. */
static void generate_all(const struct ref *r, struct model *m, struct adapter *a, float *logits)
{
	int V = model_config(m)->vocab_size;
	struct kv *kv = kv_create(m, PAGES_MAX * SEQUENCES_MAX);
	struct step *step = step_create(
		m, &(struct step_options){.rows = r->T, .sequences = SEQUENCES_MAX, .pages = PAGES_MAX, .wanted = r->T});
	struct paged g = {0};
	assert_true(r->S <= SEQUENCES_MAX && r->T <= 512);
	/* Page lists in which a sequence's pages do not lie side by side. */
	for (int s = 0; s < r->S; s++)
		for (int p = 0; p < PAGES_MAX; p++)
			g.lists[s][p] = p * SEQUENCES_MAX + (s * 3) % SEQUENCES_MAX; /* pages of a sequence lie apart */
	/* A third of each sequence first, then token by token. */
	for (int round = 0; round == 0 || g.T; round++) {
		g.T = g.n = 0;
		for (int s = 0; s < r->S; s++) {
			int third = (r->start[s + 1] - r->start[s]) / 3, begin = r->start[s] + (round ? third + round - 1 : 0),
				end = round ? begin + 1 : begin + third;
			for (int t = begin; t < MIN(end, r->start[s + 1]); t++) paged_push(&g, r, s, t);
		}
		/* The logits go where the packed pass has them. */
		if (!g.T) continue;
		struct ops_rows rows = {g.T, SEQUENCES_MAX, g.ids, g.pos, g.sequence, &g.lists[0][0], PAGES_MAX, NULL};
		struct ops_want want = {.n = g.n, .at = g.at};
		const float *out = (const float *)step_run(step, kv, a, &rows, &want, NULL, NULL);
		for (int i = 0; i < g.n; i++)
			memcpy(logits + (size_t)g.row[i] * (size_t)V, out + (size_t)i * (size_t)V, (size_t)V * sizeof *logits);
	}
	step_free(step);
	kv_free(kv);
}

/* Keys and values from pages, a token at a time, against transformers' full forward, and with
 * batch_invariant against our own full forward to the bit. */
static void generation_case(struct ref *r, struct ops *unused)
{
	struct ops *ops = ref_ops(true);
	struct model *m = ref_model(r, ops, "hf");
	struct adapter *a = ref_adapter(r, m);
	const struct model_config *c = model_config(m);
	struct pass *p = ref_pass(m, r->T, 0, false);
	size_t count = (size_t)r->T * (size_t)c->vocab_size;
	float *full = xcalloc(count, sizeof *full), *paged = xcalloc(count, sizeof *paged);
	int32_t *at = xcalloc((size_t)r->T, sizeof *at);
	for (int t = 0; t < r->T; t++) at[t] = t;
	/* Without and with the adapter. */
	for (int with = 0; with < 2; with++) {
		pass_forward(p, with ? a : NULL, &r->batch, 0);
		pass_logits(p, at, r->T, full);
		generate_all(r, m, with ? a : NULL, paged);
		assert_true(
			ref_equal(r, with ? "lora.logits" : "logits", paged, (int64_t)count, ref_tolerance(c, r->T, false)));
		assert_memory_equal(paged, full, count * sizeof *full);
	}
	free(full);
	free(paged);
	free(at);
	pass_free(p);
	adapter_free(a);
	model_free(m);
	ops_free(ops);
}
static void test_generation(void **state) { each_case(generation_case); }

/* peft's merge_and_unload wrote r->dir/merged; ours must be equal up to one rounding of W + s B A,
 * whose terms are fp32 sums of r products. */
static void merge_case(struct ref *r, struct ops *ops)
{
	struct err err = {0};
	struct model *m = ref_model(r, ops, "hf"), *theirs = ref_model(r, ops, "merged"), *ours;
	struct adapter *a = ref_adapter(r, m);
	char path[400];
	int n;
	snprintf(path, sizeof path, "%s/merged_hone", r->dir);
	assert_int_equal(model_export(m, a, path, NULL, &err), 0);
	assert_int_equal(model_open(path, ops, &ours, &err), 0);
	struct param *want = model_params(theirs, &n), *got = model_params(ours, &n), *base = model_params(m, &n);
	int changed = 0;
	for (int i = 0; i < n; i++) {
		double e = ref_error(host_values(&got[i]), host_values(&want[i]), want[i].count);
		if (e > 4 * ldexp(1, -23)) fail_msg("%s: relative error %g", got[i].name, e);
		changed += memcmp(host_values(&got[i]), host_values(&base[i]), (size_t)got[i].count * sizeof(float)) != 0;
	}
	assert_int_equal(
		changed, (int)json_array_size(json_object_get(r->meta, "targets")) * model_config(m)->num_hidden_layers);
	adapter_free(a);
	model_free(m);
	model_free(theirs);
	model_free(ours);
}
static void test_merge(void **state) { each_case(merge_case); }

/* ---- adapters as peft writes them ---- */

static char *adapter_path(const struct ref *r, const char *name) { return xasprintf("%s/adapters/%s", r->dir, name); }

/* Spellings of target_modules, rslora, bf16: the logits are peft's; saved by us and opened again,
 * the tensors are the same to the bit. */
static void test_adapter_spellings(void **state)
{
	static const char *const names[] = {"names_rslora", "paths", "pattern", "all_linear", "bf16"};
	struct ref r;
	struct ops *ops = ref_ops(false);
	ref_open(&r, "tied");
	struct model *m = ref_model(&r, ops, "hf");
	struct pass *p = ref_pass(m, r.T, 0, false);
	for (size_t i = 0; i < ARRAY_LEN(names); i++) {
		struct err err = {0};
		struct adapter *a, *again;
		char *dir = adapter_path(&r, names[i]), *back = xasprintf("%s_hone", dir), logits[64];
		int n, n2;
		/* Opened as peft wrote it: peft's logits. */
		if (adapter_open(m, dir, &a, &err)) fail_msg("%s: %s", names[i], err.text);
		pass_forward(p, a, &r.batch, 0);
		snprintf(logits, sizeof logits, "adapter.%s.logits", names[i]);
		logits_check(&r, p, model_config(m), logits);
		/* Saved and opened again: the same bits. */
		if (adapter_save(a, back, NULL, &err) || adapter_open(m, back, &again, &err))
			fail_msg("%s: %s", names[i], err.text);
		struct param *x = adapter_params(a, &n), *y = adapter_params(again, &n2);
		assert_int_equal(n, n2);
		for (int k = 0; k < n; k++)
			assert_memory_equal(host_values(&x[k]), host_values(&y[k]), (size_t)x[k].count * sizeof(float));
		adapter_free(a);
		adapter_free(again);
		free(dir);
		free(back);
	}
	pass_free(p);
	model_free(m);
	ref_close(&r);
	ops_free(ops);
}

static void test_adapters_refused(void **state)
{
	static const struct {
		const char *name, *says;
	} cases[] = {
		{"dora", "use_dora"},
		{"modules_to_save", "modules_to_save"},
		{"rank_pattern", "rank_pattern"},
		{"alpha_pattern", "alpha_pattern"},
		{"layers_to_transform", "layers_to_transform"},
		{"bias", "lora_only"},
		{"lora_bias", "lora_bias"},
		{"pissa", "pissa"},
		{"one_layer", "layers.1.self_attn.q_proj.lora_A"},
		{"head", "lm_head"},
	};
	struct ref r;
	struct ops *ops = ref_ops(false);
	ref_open(&r, "tied");
	struct model *m = ref_model(&r, ops, "hf");
	/* Folders that peft itself wrote; the message names the setting. */
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct err err = {0};
		struct adapter *a;
		char *dir = adapter_path(&r, cases[i].name);
		assert_true(adapter_open(m, dir, &a, &err) < 0);
		assert_null(a);
		if (!strstr(err.text, cases[i].says)) fail_msg("%s: the message does not name it: %s", cases[i].name, err.text);
		free(dir);
	}
	model_free(m);
	ref_close(&r);
	ops_free(ops);
}

/* Saved by us, opened by us: equal bits, whether mapped or converted; adapters too. */
static void reload_case(struct ref *r, struct ops *ops)
{
	struct err err = {0};
	struct model *m = ref_model(r, ops, "hf"), *again;
	struct adapter *a = ref_adapter(r, m), *a2;
	char path[400];
	int n, n2;
	/* The model. */
	snprintf(path, sizeof path, "%s/saved_hone", r->dir);
	assert_int_equal(model_save(m, path, &err), 0);
	assert_int_equal(model_open(path, ops, &again, &err), 0);
	struct param *x = model_params(m, &n), *y = model_params(again, &n2);
	assert_int_equal(n, n2);
	for (int i = 0; i < n; i++)
		assert_memory_equal(host_values(&x[i]), host_values(&y[i]), (size_t)x[i].count * sizeof(float));
	assert_memory_equal(model_config(m), model_config(again), sizeof *model_config(m));
	model_enable_grad(again, NULL); /* mapped weights become our own, with the same values */
	for (int i = 0; i < n; i++)
		assert_memory_equal(host_values(&x[i]), host_values(&y[i]), (size_t)x[i].count * sizeof(float));
	host_values(&y[0])[0] += 1;

	/* The adapter. */
	snprintf(path, sizeof path, "%s/adapter_hone", r->dir);
	assert_int_equal(adapter_save(a, path, NULL, &err), 0);
	assert_int_equal(adapter_open(m, path, &a2, &err), 0);
	x = adapter_params(a, &n);
	y = adapter_params(a2, &n2);
	assert_int_equal(n, n2);
	for (int i = 0; i < n; i++)
		assert_memory_equal(host_values(&x[i]), host_values(&y[i]), (size_t)x[i].count * sizeof(float));
	adapter_free(a);
	adapter_free(a2);
	model_free(m);
	model_free(again);
}
static void test_reload(void **state) { each_case(reload_case); }

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_forward),
		cmocka_unit_test(test_gradients),
		cmocka_unit_test(test_lora),
		cmocka_unit_test(test_spellings),
		cmocka_unit_test(test_sizes),
		cmocka_unit_test(test_generation),
		cmocka_unit_test(test_merge),
		cmocka_unit_test(test_adapter_spellings),
		cmocka_unit_test(test_adapters_refused),
		cmocka_unit_test(test_reload),
	};
	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
