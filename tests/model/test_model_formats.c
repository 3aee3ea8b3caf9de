/* Folders: what hone writes opens in transformers and peft with equal logits; hostile and foreign
 * configs, weights and adapters are refused by name. */
#include <stdarg.h>
#include <stddef.h>
#include "model_ref.h"

#include <sys/wait.h>
#include <unistd.h>

static char *scratch(const char *name)
{
	struct err err = {0};
	char *path = xasprintf("%s/ref/formats/%s", ref_build(), name);
	if (path_exists(path)) assert_int_equal(dir_remove(path, &err), 0);
	if (dir_make(path, &err)) fail_msg("%s", err.text);
	return path;
}

static const struct model_config small = {.vocab_size = 53,
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
	.qk_norm = true,
	.bos_token_id = 1,
	.eos_token_id = 2,
	.eos_extra = {4},
	.neos_extra = 1,
	.pad_token_id = 0};

static struct model *create(const struct model_config *c, struct ops *ops)
{
	struct err err = {0};
	struct model *m;
	int n;
	if (model_create(c, 3, ops, &m, &err)) fail_msg("%s", err.text);
	struct param *params = model_params(m, &n);
	for (int i = 0; i < n; i++)
		for (int64_t k = 0; k < params[i].count; k++)
			host_values(&params[i])[k] = params[i].ndim == 2
				? host_values(&params[i])[k] * 10
				: host_values(&params[i])[k] + 0.1f * rng_normal(4, (uint64_t)i, (uint64_t)k);
	return m;
}

/* Runs hone's forward, writes its logits, and notes that transformers and peft are to be asked for
 * theirs. */
static struct str questions;
static void ask(struct model *m, struct adapter *a, const char *dir, const char *adapter_dir)
{
	enum { T = 40 };
	const int32_t start[3] = {0, 7, T};
	struct err err = {0};
	const struct model_config *c = model_config(m);
	int32_t ids[T], pos[T], at[T];
	float *logits = xcalloc((size_t)(T * c->vocab_size), sizeof *logits), fids[T], fstart[3],
		  tolerance = (float)ref_tolerance(c, T, false);
	/* Two packed sequences of random tokens. */
	for (int t = 0; t < T; t++) {
		ids[t] = (int32_t)(rng_u32(6, 0, (uint64_t)t) % (uint32_t)c->vocab_size);
		pos[t] = t < 7 ? t : t - 7;
		at[t] = t;
		fids[t] = (float)ids[t];
	}
	for (int i = 0; i < 3; i++) fstart[i] = (float)start[i];
	/* hone's logits. */
	struct pass *p = ref_pass(m, T, 0, false);
	pass_forward(p, a, &(struct batch){ids, {T, 2, start, pos, NULL}}, 0);
	pass_logits(p, at, T, logits);
	/* Saved with the question and the tolerance; the oracle reads them later, all in one start. */
	struct param table[4] = {{.name = "ids", .ndim = 1, .shape = {T}, .count = T},
		{.name = "start", .ndim = 1, .shape = {3}, .count = 3},
		{.name = "logits", .ndim = 2, .shape = {T, c->vocab_size}, .count = (int64_t)T * c->vocab_size},
		{.name = "tolerance", .ndim = 1, .shape = {1}, .count = 1}};
	float *values[4] = {fids, fstart, logits, &tolerance};
	for (int i = 0; i < 4; i++) table[i].w.w = (struct elem *)values[i];
	char path[400];
	snprintf(path, sizeof path, "%s/logits.st", adapter_dir ? adapter_dir : dir);
	assert_int_equal(params_save(model_ops(m), table, 4, path, &err), 0);
	str_printf(&questions, " %s %s %s", dir, path, adapter_dir ? adapter_dir : "-");
	pass_free(p);
	free(logits);
}

static void save_models(void)
{
	static const struct {
		const char *name;
		bool tied, bias, qk_norm;
	} shapes[] = {{"qwen3_tied", true, false, true}, {"qwen3", false, false, true}, {"qwen2", true, true, false},
		{"llama", false, false, false}};
	struct ops *ops = ref_ops(false);
	for (size_t i = 0; i < ARRAY_LEN(shapes); i++) {
		/* Each architecture: saved, its configuration read back, and handed to transformers. */
		struct err err = {0};
		struct model_config c = small, again;
		char *dir = scratch(shapes[i].name);
		c.tie_word_embeddings = shapes[i].tied;
		c.attention_bias = shapes[i].bias;
		c.qk_norm = shapes[i].qk_norm;
		if (i == 3) {
			c.rope_factor = 4;
			c.rope_low_freq_factor = 1;
			c.rope_high_freq_factor = 4;
			c.rope_original_positions = 32;
		}
		struct model *m = create(&c, ops);
		if (model_save(m, dir, &err)) fail_msg("%s", err.text);
		assert_int_equal(model_config_load(dir, &again, &err), 0);
		assert_memory_equal(&c, &again, sizeof c);
		ask(m, NULL, dir, NULL);
		model_free(m);
		free(dir);
	}
	ops_free(ops);
}

static int shards_count(const char *name, void *ctx) { return *(int *)ctx += !strncmp(name, "model-", 6), 0; }

/* Exported in bf16 and in shards: each value is rounded once, and transformers computes with the
 * same values what we do. */
static void export_bf16(void)
{
	struct ops *ops = ref_ops(false);
	struct err err = {0};
	struct model *m = create(&small, ops), *rounded;
	char *dir = scratch("bf16_shards");
	int n, nshards = 0;
	assert_int_equal(model_export(m, NULL, dir, &(struct export_options){.dtype = DTYPE_F64}, &err), ERR_UNSUPPORTED);
	if (model_export(m, NULL, dir, &(struct export_options){.dtype = DTYPE_BF16, .shard_bytes = 4000}, &err))
		fail_msg("%s", err.text);
	assert_int_equal(dir_each(dir, shards_count, &nshards, &err), 0);
	assert_true(nshards >= 4);
	if (model_open(dir, ops, &rounded, &err)) fail_msg("%s", err.text);
	struct param *x = model_params(m, &n), *y = model_params(rounded, &n);
	for (int i = 0; i < n; i++)
		for (int64_t k = 0; k < x[i].count; k++)
			assert_true(host_values(&y[i])[k] == bf16_to_f32(f32_to_bf16(host_values(&x[i])[k])));
	ask(rounded, NULL, dir, NULL);
	model_free(m);
	model_free(rounded);
	ops_free(ops);
	free(dir);
}

/* A checkpoint's weights in shards: params_load takes the folder. */
static void load_shards(void)
{
	struct ops *ops = ref_ops(false);
	struct err err = {0};
	struct model *m = create(&small, ops), *other = NULL;
	char *dir = scratch("fp32_shards");
	int n, nshards = 0;
	if (model_export(m, NULL, dir, &(struct export_options){.dtype = DTYPE_F32, .shard_bytes = 4000}, &err))
		fail_msg("%s", err.text);
	assert_int_equal(dir_each(dir, shards_count, &nshards, &err), 0);
	assert_true(nshards >= 4);
	assert_int_equal(model_create(&small, 99, ops, &other, &err), 0);
	struct param *x = model_params(m, &n), *y = model_params(other, &n);
	assert_memory_not_equal(host_values(&x[0]), host_values(&y[0]), (size_t)x[0].count * sizeof(float));
	if (params_load(ops, y, n, dir, &err)) fail_msg("%s", err.text);
	for (int i = 0; i < n; i++)
		assert_memory_equal(host_values(&x[i]), host_values(&y[i]), (size_t)x[i].count * sizeof(float));
	model_free(m);
	model_free(other);
	ops_free(ops);
	free(dir);
}

/* Until its config.json is there, a folder is no model: also when there was one before. */
static void begin_folder(void)
{
	struct ops *ops = ref_ops(false);
	struct err err = {0};
	struct model *m = create(&small, ops);
	struct model_config c;
	char *dir = scratch("begun");
	assert_int_equal(model_save(m, dir, &err), 0);
	assert_int_equal(model_config_load(dir, &c, &err), 0);
	assert_int_equal(model_folder_begin(dir, &err), 0);
	assert_int_equal(model_config_load(dir, &c, &err), ERR_NOT_FOUND);
	assert_int_equal(model_folder_begin(dir, &err), 0);
	model_free(m);
	ops_free(ops);
	free(dir);
}

static void save_adapter(void)
{
	struct ops *ops = ref_ops(false);
	struct err err = {0};
	struct model *m = create(&small, ops);
	struct adapter *a;
	char *dir = scratch("peft_base"), *adapter_dir = scratch("peft_adapter");
	int n;
	assert_int_equal(
		adapter_create(
			m, &(struct adapter_options){.r = 4, .lora_alpha = 6, .target_modules = "q_proj,o_proj,up_proj"}, &a, &err),
		0);
	struct param *params = adapter_params(a, &n);
	assert_int_equal(n, 2 * 3 * 2);
	for (int i = 0; i < n; i++)
		for (int64_t k = 0; k < params[i].count; k++)
			host_values(&params[i])[k] += 0.2f * rng_normal(2, (uint64_t)i, (uint64_t)k);
	assert_int_equal(model_save(m, dir, &err), 0);
	assert_int_equal(adapter_save(a, adapter_dir, dir, &err), 0);
	ask(m, a, dir, adapter_dir);
	adapter_free(a);

	/* The same with rslora, which hone only carries on: as peft would have written it, read and
	 * written by us. */
	char *rs_dir = scratch("peft_rslora"), *config = path_join(adapter_dir, "adapter_config.json");
	json_t *o;
	assert_int_equal(json_load(config, 1 << 20, &o, &err), 0);
	json_object_set_new(o, "use_rslora", json_true());
	assert_int_equal(json_save(config, o, &err), 0);
	assert_int_equal(adapter_open(m, adapter_dir, &a, &err), 0);
	assert_int_equal(adapter_save(a, rs_dir, dir, &err), 0);
	json_object_set_new(o, "use_rslora", json_false());
	assert_int_equal(json_save(config, o, &err), 0);
	ask(m, a, dir, rs_dir);
	adapter_free(a);
	json_decref(o);
	free(rs_dir);
	free(config);
	model_free(m);
	ops_free(ops);
	free(dir);
	free(adapter_dir);
}

/* model_check.py had peft load our adapters and write them again: the way back is bit-equal too. */
static void adapters_came_back(void)
{
	static const char *const names[] = {"peft_adapter", "peft_rslora"};
	struct ops *ops = ref_ops(false);
	struct model *m = create(&small, ops);
	for (size_t i = 0; i < ARRAY_LEN(names); i++) {
		struct err err = {0};
		struct adapter *a, *b;
		char *dir = xasprintf("%s/ref/formats/%s", ref_build(), names[i]), *back = xasprintf("%s/back", dir);
		int n, n2;
		if (adapter_open(m, dir, &a, &err) || adapter_open(m, back, &b, &err)) fail_msg("%s", err.text);
		struct param *x = adapter_params(a, &n), *y = adapter_params(b, &n2);
		assert_int_equal(n, n2);
		for (int k = 0; k < n; k++) {
			assert_string_equal(x[k].name, y[k].name);
			assert_memory_equal(host_values(&x[k]), host_values(&y[k]), (size_t)x[k].count * sizeof(float));
		}
		adapter_free(a);
		adapter_free(b);
		free(dir);
		free(back);
	}
	model_free(m);
	ops_free(ops);
}

/* One process for all of them: importing torch takes longer than everything else here. */
static void test_transformers_and_peft_open_ours(void **state)
{
	ref_make();
	save_models();
	save_adapter();
	load_shards();
	begin_folder();
	export_bf16();
	char *command = xasprintf("build/venv/bin/python tests/ref/model_check.py%s 2>&1 | grep -v it/s | sed 's/^/# /'; "
							  "exit ${PIPESTATUS[0]}",
			 questions.data),
		 *argv[] = {"/bin/bash", "-c", command, NULL};
	pid_t pid = fork();
	if (!pid) {
		execv(argv[0], argv);
		_exit(127);
	}
	int status = 0;
	assert_true(pid > 0 && waitpid(pid, &status, 0) == pid);
	assert_int_equal(status, 0);
	adapters_came_back();
	free(command);
	str_release(&questions);
}

/* Equal seeds give equal weights; B is zero, so a new adapter changes no bit. */
static void test_create(void **state)
{
	struct ops *ops = ref_ops(false);
	struct err err = {0};
	struct model *a, *b;
	struct adapter *lora;
	int n;
	assert_int_equal(model_create(&small, 1, ops, &a, &err), 0);
	assert_int_equal(model_create(&small, 1, ops, &b, &err), 0);
	struct param *x = model_params(a, &n), *y = model_params(b, &n);
	int64_t count = 0;
	double squares = 0, o_squares = 0;
	for (int i = 0; i < n; i++) {
		assert_memory_equal(host_values(&x[i]), host_values(&y[i]), (size_t)x[i].count * sizeof(float));
		count += x[i].count;
	}
	assert_true(count == model_config_params(&small));
	for (int64_t k = 0; k < x[0].count; k++) squares += (double)host_values(&x[0])[k] * host_values(&x[0])[k];
	/* std of a sample std: 1 / sqrt(2 n); five of them */
	assert_true(fabs(sqrt(squares / (double)x[0].count) / 0.02 - 1) < 5 / sqrt(2.0 * (double)x[0].count));
	for (int i = 0; i < n; i++) {
		if (!strstr(x[i].name, "layers.1.self_attn.o_proj")) continue;
		for (int64_t k = 0; k < x[i].count; k++) o_squares += (double)host_values(&x[i])[k] * host_values(&x[i])[k];
		assert_true(fabs(sqrt(o_squares / (double)x[i].count) / 0.01 - 1) <
			5 / sqrt(2.0 * (double)x[i].count)); /* 0.02 / sqrt(2 * 2 layers) */
	}
	assert_true(o_squares > 0);
	assert_int_equal(adapter_create(a, &(struct adapter_options){.r = 2, .lora_alpha = 4}, &lora, &err), 0);
	struct pass *p = ref_pass(a, 3, 0, false);
	const int32_t ids[3] = {5, 6, 7}, pos[3] = {0, 1, 2}, start[2] = {0, 3};
	float before[53], after[53];
	pass_forward(p, NULL, &(struct batch){ids, {3, 1, start, pos, NULL}}, 0);
	pass_logits(p, &pos[2], 1, before);
	pass_forward(p, lora, &(struct batch){ids, {3, 1, start, pos, NULL}}, 0);
	pass_logits(p, &pos[2], 1, after);
	assert_memory_equal(before, after, sizeof before);
	pass_free(p);
	adapter_free(lora);
	model_free(a);
	model_free(b);
	ops_free(ops);
}

/* A folder that is made a tensor at a time has the bytes of the model's own, for a tied head and
 * another one; shapes that cannot be are refused before anything is written. */
static void test_create_saved(void **state)
{
	static const char *const files[] = {"model.safetensors", "config.json"};
	struct ops *ops = ref_ops(false);
	struct err err = {0};
	for (int tied = 0; tied < 2; tied++) {
		struct model_config c = small;
		struct model *m;
		char *dir = scratch("created"), *other = scratch("created_saved");
		c.tie_word_embeddings = tied;
		assert_int_equal(model_create(&c, 9, ops, &m, &err), 0);
		assert_int_equal(model_save(m, dir, &err), 0);
		assert_int_equal(model_create_saved(&c, 9, other, &err), 0);
		for (size_t i = 0; i < ARRAY_LEN(files); i++) {
			struct str a = {0}, b = {0};
			char *one = path_join(dir, files[i]), *two = path_join(other, files[i]);
			assert_true(!file_read(one, 1 << 28, &a, &err) && !file_read(two, 1 << 28, &b, &err));
			assert_true(a.len == b.len && !memcmp(a.data, b.data, a.len));
			str_release(&a);
			str_release(&b);
			free(one);
			free(two);
		}
		/* What is there stays: the shape is looked at first. */
		c.head_dim = 3;
		assert_int_equal(model_create_saved(&c, 9, other, &err), ERR_RANGE);
		assert_int_equal(model_config_load(other, &c, &err), 0);
		model_free(m);
		free(dir);
		free(other);
	}
	ops_free(ops);
}

/* ---- 8-bit weights ---- */

/* Plain F8 tensors are exact numbers and are read as such; with scales beside them they are not the
 * weights. */
static void test_f8_weights(void **state)
{
	struct ops *ops = ref_ops(false);
	struct err err = {0};
	struct model *m = create(&small, ops), *read;
	char *dir = scratch("f8"), *path = path_join(dir, "model.safetensors");
	struct tensor_info t[64];
	struct arena memory = {0};
	int n;
	struct param *params = model_params(m, &n);
	assert_int_equal(model_config_save_as(dir, &small, DTYPE_F32, &err), 0);
	/* Every tensor rounded to one of the two F8 types. */
	for (int i = 0; i < n; i++) {
		const struct param *p = &params[i];
		uint8_t *bytes = arena_alloc(&memory, (size_t)p->count);
		t[i] = (struct tensor_info){
			.name = p->name,
			.dtype = i % 2 ? DTYPE_F8E5M2 : DTYPE_F8E4M3,
			.ndim = p->ndim,
			.shape = {p->shape[0], p->shape[1]},
			.data = bytes,
			.bytes = (size_t)p->count,
		};
		for (int64_t k = 0; k < p->count; k++)
			bytes[k] = i % 2 ? f32_to_f8e5m2(host_values(p)[k]) : f32_to_f8e4m3(host_values(p)[k]);
	}
	assert_int_equal(safetensors_write(path, t, (size_t)n, NULL, &err), 0);
	/* They are read as the numbers that they are. */
	if (model_open(dir, ops, &read, &err)) fail_msg("%s", err.text);
	struct param *got = model_params(read, &n);
	for (int i = 0; i < n; i++)
		for (int64_t k = 0; k < params[i].count; k++)
			assert_true(host_values(&got[i])[k] ==
				(i % 2 ? f8e5m2_to_f32(f32_to_f8e5m2(host_values(&params[i])[k]))
					   : f8e4m3_to_f32(f32_to_f8e4m3(host_values(&params[i])[k]))));
	model_free(read);
	/* With a scale beside them they are not the weights. */
	float scale = 2;
	t[n] = (struct tensor_info){
		.name = "model.layers.0.self_attn.q_proj.weight_scale_inv",
		.dtype = DTYPE_F32,
		.ndim = 1,
		.shape = {1},
		.data = &scale,
		.bytes = 4,
	};
	assert_int_equal(safetensors_write(path, t, (size_t)n + 1, NULL, &err), 0);
	assert_int_equal(model_open(dir, ops, &read, &err), ERR_UNSUPPORTED);
	assert_non_null(strstr(err.text, "q_proj.weight_scale_inv scales quantised weights"));
	arena_release(&memory);
	model_free(m);
	ops_free(ops);
	free(dir);
	free(path);
}

/* ---- refusals ---- */

/* 1 << 22 tokens of an MLP 16384 wide: terabytes. */
static void test_pass_too_large(void **state)
{
	struct ops *ops = ref_ops(false);
	struct err err = {0};
	struct model_config c = small;
	struct pass *p;
	c.intermediate_size = 1 << 14;
	struct model *m = create(&c, ops);
	assert_int_equal(
		pass_create(m, &(struct pass_options){.max_tokens = 1 << 22, .backward = true}, &p, &err), ERR_LIMIT);
	assert_non_null(strstr(err.text, "MiB"));
	assert_int_equal(pass_create(m, &(struct pass_options){.max_tokens = 0}, &p, &err), ERR_RANGE);
	model_free(m);
	ops_free(ops);
}

static void write_json(const char *dir, const char *file, const char *base, const char *patch)
{
	struct err err = {0};
	char *path = path_join(dir, file);
	json_t *o = json_loads(base, 0, NULL), *p = json_loads(patch, 0, NULL);
	assert_non_null(o);
	assert_non_null(p);
	json_object_update(o, p);
	assert_int_equal(json_save(path, o, &err), 0);
	json_decref(o);
	json_decref(p);
	free(path);
}

static const char good_config[] =
	"{\"architectures\": [\"Qwen3ForCausalLM\"], \"vocab_size\": 53, \"hidden_size\": 24, \"num_hidden_layers\": 2, "
	"\"num_attention_heads\": 4, \"num_key_value_heads\": 2, \"head_dim\": 10, \"intermediate_size\": 36, "
	"\"rope_theta\": 750, \"torch_dtype\": \"float32\", "
	"\"rms_norm_eps\": 1e-5}";

static void test_config(void **state)
{
	static const struct {
		const char *patch, *says;
	} bad[] = {
		{"{\"architectures\": [\"GPT2LMHeadModel\"]}", "GPT2LMHeadModel"},
		{"{\"architectures\": null}", "architectures"},
		{"{\"vocab_size\": 0}", "vocab_size"},
		{"{\"hidden_size\": \"x\"}", "hidden_size"},
		{"{\"num_hidden_layers\": 100000}", "num_hidden_layers"},
		{"{\"num_key_value_heads\": 3}", "num_key_value_heads"},
		{"{\"head_dim\": 7}", "head_dim"},
		{"{\"hidden_act\": \"gelu\"}", "gelu"},
		{"{\"rope_scaling\": {\"rope_type\": \"yarn\", \"factor\": 4}}", "yarn"},
		{"{\"rope_parameters\": {\"rope_type\": \"llama3\", \"factor\": 0}}", "llama3"},
		{"{\"use_sliding_window\": true}", "use_sliding_window"},
		{"{\"attention_bias\": true}", "attention_bias"},
		{"{\"quantization_config\": {\"bits\": 4}}", "quantization_config"},
		{"{\"layer_types\": [\"full_attention\", \"sliding_attention\"]}", "layer_types[1]"},
		{"{\"rms_norm_eps\": -1}", "rms_norm_eps"},
		{"{\"rope_theta\": 0}", "rope_theta"},
		{"{\"eos_token_id\": 53}", "eos_token_id"},
		{"{\"eos_token_id\": [1, \"a\"]}", "eos_token_id"},
		{"{\"bos_token_id\": -7}", "bos_token_id"},
		{"{\"architectures\": [\"MistralForCausalLM\"]}", "MistralForCausalLM"},
		{"{\"architectures\": [\"Qwen3MoeForCausalLM\"]}", "Qwen3MoeForCausalLM"},
		{"{\"architectures\": [\"Qwen3ForCausalLM\", \"LlamaForCausalLM\"]}", "architectures"},
		{"{\"model_type\": \"llama\"}", "model_type"},
		{"{\"mlp_bias\": true}", "mlp_bias"},
		{"{\"attention_dropout\": 0.1}", "attention_dropout"},
		{"{\"use_mrope\": true}", "use_mrope"},
		{"{\"rope_interleaved\": true}", "rope_interleaved"},
		{"{\"compression_config\": {\"bits\": 4}}", "compression_config"},
		{"{\"partial_rotary_factor\": 0.5}", "partial_rotary_factor"},
		{"{\"rope_parameters\": {\"partial_rotary_factor\": 0.5}}", "partial_rotary_factor"},
		{"{\"rope_scaling\": {\"type\": \"linear\", \"factor\": 2}}", "linear"},
		{"{\"rope_scaling\": {\"type\": \"dynamic\", \"factor\": 2}}", "dynamic"},
		{"{\"rope_parameters\": {\"full_attention\": {\"rope_theta\": 5}}}", "full_attention"},
		{"{\"rope_scaling\": {\"mrope_section\": [2, 3]}}", "mrope_section"},
		{"{\"rope_scaling\": [8]}", "rope parameters"},
		{"{\"rope_scaling\": {\"rope_type\": \"llama3\", \"factor\": 4, \"low_freq_factor\": 1, \"high_freq_factor\": "
		 "4}, "
		 "\"rope_parameters\": {\"rope_type\": \"default\"}}",
			"contradict"},
		{"{\"rope_parameters\": {\"rope_type\": \"default\", \"rope_theta\": 44.0}}", "rope_theta is 750 and 44"},
		{"{\"num_key_value_heads\": 8}", "num_key_value_heads"},
		{"{\"intermediate_size\": null}", "intermediate_size"},
		{"{\"tie_word_embeddings\": 1}", "tie_word_embeddings"},
	};
	struct model_config c;
	struct err err = {0};
	char *dir = scratch("config");
	write_json(dir, "config.json", good_config, "{\"eos_token_id\": [3, 4]}");
	if (model_config_load(dir, &c, &err)) fail_msg("%s", err.text);
	assert_true(c.rope_theta == 750 && c.qk_norm && !c.attention_bias && !c.tie_word_embeddings &&
		c.eos_token_id == 3 && c.neos_extra == 1 && c.bos_token_id == -1 && c.head_dim == 10);
	write_json(dir, "config.json", good_config,
		"{\"rope_theta\": 44, \"rope_parameters\": {\"rope_type\": \"default\", \"rope_theta\": 44.0}, \"dtype\": "
		"\"bfloat16\", \"eos_token_id\": 3}");
	write_json(dir, "generation_config.json", "{}", "{\"eos_token_id\": [5, 3]}");
	if (model_config_load(dir, &c, &err)) fail_msg("%s", err.text);
	assert_true(c.rope_theta == 44 && c.eos_token_id == 3 && c.neos_extra == 1 && c.eos_extra[0] == 5);
	/* Absent and null are two things; constants that stand beside the rope object count; a
	 * partial_rotary_factor of 1 is none. */
	write_json(dir, "config.json", good_config,
		"{\"head_dim\": null, \"num_key_value_heads\": null, \"num_attention_heads\": 4, "
		"\"partial_rotary_factor\": 1.0, \"original_max_position_embeddings\": 64, "
		"\"rope_scaling\": {\"type\": \"llama3\", \"factor\": 4, \"low_freq_factor\": 1, \"high_freq_factor\": 4, "
		"\"original_max_position_embeddings\": 32}}");
	if (model_config_load(dir, &c, &err)) fail_msg("%s", err.text);
	assert_true(c.head_dim == 128 && c.num_key_value_heads == 4 && c.rope_factor == 4 &&
		c.rope_original_positions == 64 && c.rope_theta == 750);
	for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
		write_json(dir, "config.json", good_config, bad[i].patch);
		err.text[0] = 0;
		assert_true(model_config_load(dir, &c, &err) < 0);
		if (!strstr(err.text, bad[i].says)) fail_msg("%s: the message does not name it: %s", bad[i].patch, err.text);
	}
	free(dir);
}

static void test_weights_refused(void **state)
{
	struct ops *ops = ref_ops(false);
	struct err err = {0};
	struct model *m = create(&small, ops), *other = NULL;
	char *dir = scratch("weights"), *path = path_join(dir, "model.safetensors");
	int n;
	struct param *params = model_params(m, &n), table[64];
	assert_int_equal(model_save(m, dir, &err), 0);
	/* One tensor missing. */
	assert_int_equal(params_save(ops, params, n - 1, path, &err), 0);
	assert_true(model_open(dir, ops, &other, &err) < 0);
	assert_non_null(strstr(err.text, params[n - 1].name));
	/* One too many, of which a tied head alone is fine. */
	memcpy(table, params, (size_t)n * sizeof *params);
	table[n] = params[n - 1];
	strcpy(table[n].name, "model.layers.0.self_attn.q_proj.bias");
	assert_int_equal(params_save(ops, table, n + 1, path, &err), 0);
	assert_true(model_open(dir, ops, &other, &err) < 0);
	assert_non_null(strstr(err.text, "q_proj.bias"));
	strcpy(table[n].name, "lm_head.weight"); /* tied models may carry a copy */
	assert_int_equal(params_save(ops, table, n + 1, path, &err), 0);
	assert_int_equal(model_open(dir, ops, &other, &err), 0);
	model_free(other);
	/* One of another shape. */
	table[1].shape[0]++;
	table[1].count++;
	assert_int_equal(params_save(ops, table, n, path, &err), 0);
	assert_true(model_open(dir, ops, &other, &err) < 0);
	assert_non_null(strstr(err.text, params[1].name));
	model_free(m);
	ops_free(ops);
	free(dir);
	free(path);
}

/* A tensor more than the adapter has: it is named, wherever it stands in the file. */
static void adapter_with_one_more(struct model *m, const char *dir)
{
	struct adapter *a;
	struct err err = {0};
	char *path = path_join(dir, "adapter_model.safetensors");
	assert_int_equal(
		adapter_create(m, &(struct adapter_options){.r = 2, .lora_alpha = 4, .target_modules = "q_proj"}, &a, &err), 0);
	assert_int_equal(adapter_save(a, dir, "base", &err), 0);
	adapter_free(a);
	struct safetensors *file;
	assert_int_equal(safetensors_open(path, &file, &err), 0);
	size_t n = safetensors_count(file);
	struct tensor_info *all = xcalloc(n + 1, sizeof *all);
	/* Before all others, and behind them. */
	for (size_t at = 0; at <= n; at += n) {
		for (size_t i = 0; i < n; i++) all[i + (i >= at)] = *safetensors_at(file, i);
		all[at] = *safetensors_at(file, 0);
		all[at].name = at ? "zz.more" : "aa.more";
		char *copy = path_join(dir, "copy.safetensors");
		assert_int_equal(safetensors_write(copy, all, n + 1, NULL, &err), 0);
		assert_int_equal(rename(copy, path), 0);
		assert_int_equal(adapter_open(m, dir, &a, &err), ERR_MISMATCH);
		if (!strstr(err.text, all[at].name) || !strstr(err.text, "does not belong here")) fail_msg("%s", err.text);
		free(copy);
	}
	safetensors_close(file);
	free(all);
	free(path);
}

static void test_adapter_refused(void **state)
{
	static const char good[] =
		"{\"peft_type\": \"LORA\", \"r\": 2, \"lora_alpha\": 4, \"target_modules\": [\"q_proj\"], \"bias\": \"none\", "
		"\"task_type\": \"CAUSAL_LM\", \"megatron_core\": \"megatron.core\"}";
	static const struct {
		const char *patch, *says;
	} bad[] = {
		{"{\"use_dora\": true}", "use_dora"},
		{"{\"modules_to_save\": [\"lm_head\"]}", "modules_to_save"},
		{"{\"rank_pattern\": {\"q_proj\": 8}}", "rank_pattern"},
		{"{\"peft_type\": \"IA3\"}", "IA3"},
		{"{\"bias\": \"all\"}", "all"},
		{"{\"target_modules\": 5}", "target_modules"},
		{"{\"target_modules\": [\"model.layers.0.mlp.q_projx\"]}", "q_projx"},
		{"{\"init_lora_weights\": \"olora\"}", "olora"},
		{"{\"target_modules\": [\"lm_head\"]}", "lm_head"},
		{"{\"r\": 0}", "r"},
		{"{\"r\": 100000}", "r"},
		{"{\"lora_dropout\": 1}", "lora_dropout"},
		{"{\"some_new_switch\": true}", "some_new_switch"},
		{"{\"r\": 3}", "lora_A"},
	};
	struct ops *ops = ref_ops(false);
	struct err err = {0};
	struct model *m = create(&small, ops);
	struct adapter *a;
	char *dir = scratch("adapter");
	assert_int_equal(
		/* A good adapter, with settings that change nothing. */
		adapter_create(m, &(struct adapter_options){.r = 2, .lora_alpha = 4, .target_modules = "q_proj"}, &a, &err), 0);
	assert_int_equal(adapter_save(a, dir, "base", &err), 0);
	adapter_free(a);
	write_json(dir, "adapter_config.json", good,
		"{\"use_rslora\": true, \"loftq_config\": {}, \"layers_to_transform\": null}");
	if (adapter_open(m, dir, &a, &err)) fail_msg("%s", err.text);
	adapter_free(a);
	/* Each setting that would change the result, by name. */
	for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
		write_json(dir, "adapter_config.json", good, bad[i].patch);
		assert_true(adapter_open(m, dir, &a, &err) < 0);
		assert_null(a);
		if (!strstr(err.text, bad[i].says)) fail_msg("%s: the message does not name it: %s", bad[i].patch, err.text);
	}
	assert_int_equal(
		adapter_create(
			m, &(struct adapter_options){.r = 2, .lora_alpha = 4, .target_modules = "q_proj,qproj"}, &a, &err),
		ERR_USAGE);
	assert_non_null(strstr(err.text, "qproj"));
	/* The least rank and one below it, the largest and one above. */
	static const struct {
		int r;
		int code;
	} ranks[] = {{0, ERR_RANGE}, {1, 0}, {256, 0}, {257, ERR_RANGE}};
	for (size_t i = 0; i < ARRAY_LEN(ranks); i++) {
		struct adapter *own = NULL;
		struct err why = {0};
		assert_int_equal(
			adapter_create(m, &(struct adapter_options){.r = ranks[i].r, .lora_alpha = 4}, &own, &why), ranks[i].code);
		adapter_free(own);
	}
	adapter_with_one_more(m, dir);
	model_free(m);
	ops_free(ops);
	free(dir);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_transformers_and_peft_open_ours),
		cmocka_unit_test(test_pass_too_large),
		cmocka_unit_test(test_create),
		cmocka_unit_test(test_create_saved),
		cmocka_unit_test(test_config),
		cmocka_unit_test(test_f8_weights),
		cmocka_unit_test(test_weights_refused),
		cmocka_unit_test(test_adapter_refused),
	};
	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
