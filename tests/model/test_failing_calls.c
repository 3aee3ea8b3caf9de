/* Folders of models and adapters, written and opened: whichever call of the machine fails, it is
 * said. */
#include "../failing_calls.h"
#include "model/model.h"
#include "ops/ops.h"

static const struct model_config SMALL = {.vocab_size = 53,
	.hidden_size = 16,
	.num_hidden_layers = 1,
	.num_attention_heads = 2,
	.num_key_value_heads = 1,
	.head_dim = 8,
	.intermediate_size = 24,
	.max_position_embeddings = 64,
	.rms_norm_eps = 1e-5,
	.rope_theta = 750,
	.tie_word_embeddings = true,
	.bos_token_id = 1,
	.eos_token_id = 2,
	.pad_token_id = 0};
static struct ops *ops;
static struct model *model;
static struct adapter *adapter;
static char *to, *lora, *file;

static int save_model(void *ctx, struct err *err) { return model_save(model, to, err); }
static int merge(void *ctx, struct err *err)
{
	struct export_options o = {.dtype = DTYPE_BF16, .shard_bytes = 2000};
	return model_export(model, adapter, to, &o, err);
}
static int save_adapter(void *ctx, struct err *err) { return adapter_save(adapter, lora, "base", err); }
static int copy_tokenizer(void *ctx, struct err *err) { return model_copy_tokenizer(failing_folder, to, err); }

static int open_model(void *ctx, struct err *err)
{
	struct model *m = NULL;
	int rc = model_open(to, ops, &m, err);
	model_free(m);
	return rc;
}

static int open_adapter(void *ctx, struct err *err)
{
	struct adapter *a = NULL;
	int r = 0, rc = adapter_rank(lora, &r, err);
	if (!rc) rc = adapter_open(model, lora, &a, err);
	adapter_free(a);
	return rc;
}

static int save_values(void *ctx, struct err *err)
{
	int n;
	struct param *p = model_params(model, &n);
	return params_save(ops, p, n, file, err);
}

static int load_values(void *ctx, struct err *err)
{
	int n;
	struct param *p = model_params(model, &n);
	return params_load(ops, p, n, file, err);
}

static void test_calls(void **state)
{
	struct err err = {0};
	char *tokenizer = path_join(failing_folder, "tokenizer.json");
	to = path_join(failing_folder, "model");
	lora = path_join(failing_folder, "lora");
	file = path_join(failing_folder, "values.safetensors");
	if (ops_open("cpu", &(struct ops_options){.threads = 1}, &ops, &err)) fail_msg("%s", err.text);
	assert_int_equal(file_write_atomic(tokenizer, "{}", 2, &err), 0);
	if (model_create(&SMALL, 1, ops, &model, &err)) fail_msg("%s", err.text);
	assert_int_equal(adapter_create(model, &(struct adapter_options){.r = 2, .lora_alpha = 4}, &adapter, &err), 0);
	/* Written and read, in every form; into a folder that is not there yet, and over what is. */
	each_call_fails("a model", save_model, NULL, 12);
	each_call_fails("opening a model", open_model, NULL, 4);
	each_call_fails("a merged model in shards", merge, NULL, 18);
	each_call_fails("opening shards", open_model, NULL, 6);
	each_call_fails("an adapter", save_adapter, NULL, 12);
	each_call_fails("opening an adapter", open_adapter, NULL, 4);
	each_call_fails("values", save_values, NULL, 6);
	each_call_fails("reading values", load_values, NULL, 2);
	each_call_fails("a tokenizer beside it", copy_tokenizer, NULL, 8);
	adapter_free(adapter);
	model_free(model);
	ops_free(ops);
	free(tokenizer);
	free(to);
	free(lora);
	free(file);
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(test_calls)};
	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, failing_set_up, failing_tear_down);
}
