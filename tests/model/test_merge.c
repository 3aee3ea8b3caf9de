/* Merged weights, one by one: each is the base's plus scaling B A in its own row and column, and
 * nothing else is touched. Its oracle is the sum in fp64; what is written is off by one rounding of
 * each product and sum. */
#include "model_ref.h"
#include "host_values.h"
#include <math.h>
#include <unistd.h>

/* Every matrix has another shape, so that no row can be taken for another's. */
static const struct model_config CONFIG = {.vocab_size = 53,
	.hidden_size = 24,
	.num_hidden_layers = 2,
	.num_attention_heads = 4,
	.num_key_value_heads = 2,
	.head_dim = 10,
	.intermediate_size = 36,
	.max_position_embeddings = 128,
	.rms_norm_eps = 1e-5,
	.rope_theta = 750,
	.tie_word_embeddings = true,
	.bos_token_id = 1,
	.eos_token_id = 2,
	.pad_token_id = 0};
enum { RANK = 3 };
static char folder[] = "/tmp/hone-merge-XXXXXX";

/* The adapter's pair of this weight: PEFT's names end in the weight's own without ".weight". */
static bool pair_find(struct adapter *a, const char *name, const struct param **A, const struct param **B)
{
	int n;
	const struct param *p = adapter_params(a, &n);
	char *stem = xstrndup(name, strlen(name) - strlen(".weight"));
	*A = *B = NULL;
	for (int i = 0; i < n; i++) {
		if (!strstr(p[i].name, stem)) continue;
		if (strstr(p[i].name, "lora_A")) *A = &p[i];
		else *B = &p[i];
	}
	free(stem);
	return *A && *B;
}

static int weights_check(struct model *base, struct adapter *a, double scaling, struct model *merged)
{
	int n, m, pairs = 0;
	const struct param *w = model_params(base, &n), *found = model_params(merged, &m), *A, *B;
	assert_int_equal(n, m);
	for (int i = 0; i < n; i++) {
		assert_string_equal(w[i].name, found[i].name);
		bool is_paired = w[i].ndim == 2 && pair_find(a, w[i].name, &A, &B);
		pairs += is_paired;
		for (int64_t k = 0; k < w[i].count; k++) {
			double was = host_values(&w[i])[k], sum = 0, size = 0;
			int64_t in = is_paired ? A->shape[1] : 1;
			for (int r = 0; is_paired && r < RANK; r++) {
				double term = (double)host_values(B)[k / in * RANK + r] * host_values(A)[r * in + k % in];
				sum += term;
				size += fabs(term);
			}
			double off = fabs(host_values(&found[i])[k] - (was + scaling * sum));
			if (off > (RANK + 1) * ldexp(fabs(was) + scaling * size, -23))
				fail_msg(
					"%s[%lld]: %g, not %g", w[i].name, (long long)k, host_values(&found[i])[k], was + scaling * sum);
		}
	}
	return pairs;
}

/* targets: of the adapter; a weight that it leaves out is as it was, to the bit. */
static void merge_case(const char *targets, int pairs_expected)
{
	struct ops *ops = ref_ops(false);
	struct model *base, *merged;
	struct adapter *a;
	struct err err = {0};
	int n;
	if (model_create(&CONFIG, 3, ops, &base, &err)) fail_msg("%s", err.text);
	struct adapter_options o = {.r = RANK, .lora_alpha = 4.5, .target_modules = targets, .seed = 5};
	if (adapter_create(base, &o, &a, &err)) fail_msg("%s", err.text);
	/* B of a new adapter is zero, and changes nothing. */
	struct param *p = adapter_params(a, &n);
	for (int i = 0; i < n; i++)
		for (int64_t k = 0; k < p[i].count; k++) host_values(&p[i])[k] = rng_normal(7, (uint64_t)i, (uint64_t)k);
	if (model_export(base, a, folder, NULL, &err)) fail_msg("%s", err.text);
	if (model_open(folder, ops, &merged, &err)) fail_msg("%s", err.text);
	assert_int_equal(weights_check(base, a, 4.5 / RANK, merged), pairs_expected);
	model_free(merged);
	adapter_free(a);
	model_free(base);
	ops_free(ops);
}

static void test_merged(void **state)
{
	assert_non_null(mkdtemp(folder));
	merge_case(NULL, 2 * 7);
	merge_case("down_proj,k_proj", 2 * 2);
	assert_int_equal(dir_remove(folder, NULL), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(test_merged)};
	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
