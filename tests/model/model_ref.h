/* Fixtures of tests/ref/model_oracle.py for tests of model and train: made on first use, read back
 * here. */
#ifndef HONE_TESTS_MODEL_REF_H
#define HONE_TESTS_MODEL_REF_H
#include "model/model.h"
#include "model/model_internal.h"
#include "host_values.h"

#include <math.h>
#include <setjmp.h>
#include <stdlib.h>
#include <cmocka.h>

static const char *const ref_cases[] = {"tied", "untied", "qwen2", "llama", "qwen2_untied", "llama_tied"};

struct ref {
	char dir[256]; /* .../ref/model/<case> */
	json_t *meta;
	struct safetensors *expected;
	int32_t *ids;   /* (T) */
	int32_t *pos;   /* (T) */
	int32_t *start; /* (S + 1) */
	int T;
	int S;
	int n; /* rows of the head */
	struct head_row *rows;
	float *weights; /* (n): the loss is -sum(weight * logprob) */
	float temperature;
	struct batch batch;
};

static inline const char *ref_build(void) { return getenv("BUILD") ? getenv("BUILD") : "build/release"; }

/* 0, or skips the test when there is no oracle here. */
static inline void ref_make(void)
{
	static int state; /* 0 unknown, 1 made, 2 cannot be made */
	char command[512];
	if (!state) {
		snprintf(command, sizeof command,
			"build/venv/bin/python -c 'import transformers, peft' 2>/dev/null && mkdir -p %s/ref &&"
			" build/venv/bin/python tests/ref/model_oracle.py %s/ref/model 2>%s/ref/model.log",
			ref_build(), ref_build(), ref_build());
		char stamp[300];
		snprintf(stamp, sizeof stamp, "%s/ref/model/stamp", ref_build());
		int rc = system(command);
		if (rc && path_exists("build/venv/bin/python") &&
			!system("build/venv/bin/python -c 'import transformers, peft' 2>/dev/null"))
			fail_msg("tests/ref/model_oracle.py failed: %s/ref/model.log", ref_build());
		state = rc ? 2 : 1;
	}
	if (state == 2) {
		print_message("# transformers and peft are not in build/venv\n");
		skip();
	}
}

static inline int32_t *ref_ints(const json_t *list, int *n)
{
	*n = (int)json_array_size(list);
	int32_t *v = xcalloc((size_t)MAX(*n, 1), sizeof *v);
	for (int i = 0; i < *n; i++) v[i] = (int32_t)json_integer_value(json_array_get(list, (size_t)i));
	return v;
}

static inline void ref_open(struct ref *r, const char *name)
{
	struct err err = {0};
	char path[400];
	ref_make();
	*r = (struct ref){0};
	/* What the reference wrote down: sizes and inputs as JSON, what it computed as tensors. */
	snprintf(r->dir, sizeof r->dir, "%s/ref/model/%s", ref_build(), name);
	snprintf(path, sizeof path, "%s/meta.json", r->dir);
	if (json_load(path, 1 << 26, &r->meta, &err)) fail_msg("%s", err.text);
	snprintf(path, sizeof path, "%s/expected.safetensors", r->dir);
	if (safetensors_open(path, &r->expected, &err)) fail_msg("%s", err.text);
	/* Sequences are packed one behind the other; positions begin anew in each. */
	r->ids = ref_ints(json_object_get(r->meta, "ids"), &r->T);
	r->start = ref_ints(json_object_get(r->meta, "start"), &r->S);
	r->S--;
	r->pos = xcalloc((size_t)r->T, sizeof *r->pos);
	for (int s = 0; s < r->S; s++)
		for (int t = r->start[s]; t < r->start[s + 1]; t++) r->pos[t] = t - r->start[s];
	/* Rows of which a log-probability is asked, each with its weight in the loss. */
	const json_t *rows = json_object_get(r->meta, "rows"), *weights = json_object_get(r->meta, "weights");
	r->n = (int)json_array_size(rows);
	r->rows = xcalloc((size_t)r->n, sizeof *r->rows);
	r->weights = xcalloc((size_t)r->n, sizeof *r->weights);
	for (int i = 0; i < r->n; i++) {
		const json_t *row = json_array_get(rows, (size_t)i);
		r->rows[i] = (struct head_row){.at = (int32_t)json_integer_value(json_array_get(row, 0)),
			.target = (int32_t)json_integer_value(json_array_get(row, 1))};
		r->weights[i] = (float)json_number_value(json_array_get(weights, (size_t)i));
	}
	r->temperature = (float)json_number_value(json_object_get(r->meta, "temperature"));
	r->batch = (struct batch){r->ids, {r->T, r->S, r->start, r->pos, NULL}};
}

static inline void ref_close(struct ref *r)
{
	json_decref(r->meta);
	safetensors_close(r->expected);
	free(r->ids);
	free(r->pos);
	free(r->start);
	free(r->rows);
	free(r->weights);
}

static inline struct ops *ref_ops(bool batch_invariant)
{
	struct err err = {0};
	struct ops *ops;
	if (ops_cpu_create(&(struct ops_options){.threads = 2, .batch_invariant = batch_invariant}, &ops, &err))
		fail_msg("%s", err.text);
	return ops;
}

static inline struct model *ref_model(const struct ref *r, struct ops *ops, const char *sub)
{
	struct err err = {0};
	struct model *m;
	char path[400];
	snprintf(path, sizeof path, "%s/%s", r->dir, sub);
	if (model_open(path, ops, &m, &err)) fail_msg("%s", err.text);
	return m;
}

static inline struct adapter *ref_adapter(const struct ref *r, struct model *m)
{
	struct err err = {0};
	struct adapter *a;
	char path[400];
	snprintf(path, sizeof path, "%s/adapter", r->dir);
	if (adapter_open(m, path, &a, &err)) fail_msg("%s", err.text);
	return a;
}

static inline struct pass *ref_pass(struct model *m, int max_tokens, int head_rows, bool backward)
{
	struct err err = {0};
	struct pass *p;
	if (pass_create(m, &(struct pass_options){max_tokens, head_rows, backward, false}, &p, &err))
		fail_msg("%s", err.text);
	return p;
}

/* Relative error bound of fp32 sums along the longest path: each of `depth` products rounds sums of
 * up to K terms, whose errors add like a random walk: eps sqrt(K); the paths' errors add at worst
 * linearly. Both sides (we and torch) make such errors, hence 2. Relative to the tensor's largest
 * magnitude. */
static inline double ref_tolerance(const struct model_config *c, int T, bool backward)
{
	double K = MAX(MAX(c->intermediate_size, c->vocab_size), MAX(T, c->num_attention_heads * c->head_dim));
	int depth = (7 * c->num_hidden_layers + 2) * (backward ? 3 : 1);
	return 2 * ldexp(1, -24) * sqrt(K) * depth;
}

/* Largest difference relative to the largest magnitude expected. */
static inline double ref_error(const float *got, const float *want, int64_t n)
{
	double diff = 0, scale = 0;
	for (int64_t i = 0; i < n; i++) {
		double d = fabs((double)got[i] - want[i]);
		if (!(d <= 1e300)) return INFINITY;
		diff = fmax(diff, d);
		scale = fmax(scale, fabs(want[i]));
	}
	return scale > 0 ? diff / scale : diff;
}

/* Compares with the fixture's tensor of that name; prints what differs. */
static inline bool ref_equal(const struct ref *r, const char *name, const float *got, int64_t n, double tolerance)
{
	const struct tensor_info *t = safetensors_find(r->expected, name);
	if (!t) {
		print_error("# %s is not in the fixture\n", name);
		return false;
	}
	if ((int64_t)t->bytes != n * (int64_t)sizeof(float)) {
		print_error("# %s: expected %zu bytes, found %lld values\n", name, t->bytes, (long long)n);
		return false;
	}
	float *want = xmalloc(t->bytes);
	tensor_to_f32(t, want);
	double e = ref_error(got, want, n);
	free(want);
	if (e <= tolerance) return true;
	print_error("# %s: relative error %.3g, tolerance %.3g\n", name, e, tolerance);
	return false;
}

/* loss_fn of the plain weighted loss. */
struct ref_loss {
	const struct ref *r;
	double loss;
};
static inline void ref_loss_fn(void *ctx, int begin, int n, const float *logprob, const float *entropy, float *g)
{
	struct ref_loss *l = ctx;
	for (int i = 0; i < n; i++) {
		l->loss -= (double)l->r->weights[begin + i] * logprob[i];
		g[i] = -l->r->weights[begin + i];
	}
}

/* Every parameter that has a gradient against prefix + name; returns how many differ. */
static inline int ref_grads_differ(
	const struct ref *r, const struct param *params, int n, const char *prefix, double tolerance)
{
	int bad = 0;
	char name[256];
	for (int i = 0; i < n; i++) {
		snprintf(name, sizeof name, "%s%s", prefix, params[i].name);
		if (!host_grads(&params[i]) || !ref_equal(r, name, host_grads(&params[i]), params[i].count, tolerance)) bad++;
	}
	return bad;
}
#endif
