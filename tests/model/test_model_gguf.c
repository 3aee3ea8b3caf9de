/* Models out of GGUF files that are written here, tensor by tensor: the configuration field by
 * field, each refusal, and every weight in its place. */
#include "model/model.h"
#include "base/base.h"
#include "base/dtype.h"
#include "tensor/tensor.h"
#include <math.h>
#include <setjmp.h>
#include <stdlib.h>
#include <unistd.h>
#include <cmocka.h>
#include "../leaks.h"

static char folder[] = "/tmp/hone-gguf-XXXXXX";

/* ---- a file ---- */

enum kind { WHOLE = 10, REAL = 6, TEXT = 8, ABSENT = -1 }; /* of GGUF: uint64, float32, string */
struct value {
	const char *key;
	enum kind kind;
	double number;
	const char *text;
};
/* A change of the file that is right: a value in place of its key's, or beside the others. */
struct change {
	const char *arch; /* NULL: llama */
	struct value value;
	const char *drops; /* a tensor; NULL: none */
	const char *adds;  /* (4); NULL: none */
};
struct parts {
	struct str values;
	struct str tensors;
	struct str data;
	int nvalues;
	int ntensors;
};

static void put(struct str *s, uint64_t v, size_t bytes) { str_append(s, (const char *)&v, bytes); }
static void put_text(struct str *s, const char *text)
{
	put(s, strlen(text), 8);
	str_puts(s, text);
}

static void value_put(struct parts *p, const struct value *v, const struct change *c)
{
	if (c->value.key && !strcmp(c->value.key, v->key)) v = &c->value;
	if (v->kind == ABSENT) return;
	float f = (float)v->number;
	put_text(&p->values, v->key);
	put(&p->values, (uint64_t)v->kind, 4);
	if (v->kind == TEXT) put_text(&p->values, v->text);
	else if (v->kind == REAL) str_append(&p->values, (const char *)&f, sizeof f);
	else put(&p->values, (uint64_t)v->number, 8);
	p->nvalues++;
}

/* Value i of a tensor: small whole numbers, which bf16 has too. Another tensor begins elsewhere. */
static float element(const char *name, int64_t i) { return (float)((i * 7 + (int64_t)strlen(name) * 11) % 251); }

static void tensor_put(struct parts *p, const char *name, int rows, int columns, const struct change *c)
{
	if (c->drops && !strcmp(c->drops, name)) return;
	while (p->data.len % 32) str_putc(&p->data, 0);
	put_text(&p->tensors, name);
	put(&p->tensors, columns ? 2 : 1, 4);
	if (columns) put(&p->tensors, (uint64_t)columns, 8); /* the innermost comes first */
	put(&p->tensors, (uint64_t)rows, 8);
	put(&p->tensors, 0, 4);
	put(&p->tensors, p->data.len, 8);
	for (int64_t i = 0; i < (int64_t)rows * MAX(columns, 1); i++) {
		float f = element(name, i);
		str_append(&p->data, (const char *)&f, sizeof f);
	}
	p->ntensors++;
}

/* By what the two frequencies of a head are divided; 0: the file does not say. */
static float divisors[2];

/* Two heads of four over one of keys, eight columns, twelve of the gate, five tokens. */
static struct gguf *file_make(const struct change *c)
{
	static const struct value values[] = {{"embedding_length", WHOLE, 8, NULL}, {"block_count", WHOLE, 1, NULL},
		{"attention.head_count", WHOLE, 2, NULL}, {"attention.head_count_kv", WHOLE, 1, NULL},
		{"feed_forward_length", WHOLE, 12, NULL}, {"context_length", WHOLE, 64, NULL},
		{"attention.layer_norm_rms_epsilon", REAL, 1e-5, NULL}, {"rope.freq_base", REAL, 500000, NULL}};
	static const struct {
		const char *name;
		int rows;
		int columns;
	} tensors[] = {{"token_embd.weight", 5, 8}, {"output.weight", 5, 8}, {"output_norm.weight", 8, 0},
		{"blk.0.attn_norm.weight", 8, 0}, {"blk.0.ffn_norm.weight", 8, 0}, {"blk.0.attn_q.weight", 8, 8},
		{"blk.0.attn_k.weight", 4, 8}, {"blk.0.attn_v.weight", 4, 8}, {"blk.0.attn_output.weight", 8, 8},
		{"blk.0.ffn_gate.weight", 12, 8}, {"blk.0.ffn_up.weight", 12, 8}, {"blk.0.ffn_down.weight", 8, 12}};
	const char *arch = c->arch ? c->arch : "llama";
	struct parts p = {.nvalues = 0};
	struct str whole = {0};
	struct value v = {"general.architecture", TEXT, 0, arch};
	bool is_known = false;
	/* Values, with the change in its place, or behind them where it is another's. */
	value_put(&p, &v, c);
	for (size_t i = 0; i < ARRAY_LEN(values); i++) {
		char *key = xasprintf("%s.%s", arch, values[i].key);
		v = values[i];
		v.key = key;
		is_known |= c->value.key && !strcmp(c->value.key, key);
		value_put(&p, &v, c);
		free(key);
	}
	if (c->value.key && !is_known && strcmp(c->value.key, "general.architecture")) value_put(&p, &c->value, c);
	/* Tensors; those that one architecture has beside the others. */
	for (size_t i = 0; i < ARRAY_LEN(tensors); i++)
		tensor_put(&p, tensors[i].name, tensors[i].rows, tensors[i].columns, c);
	if (!strcmp(arch, "qwen2")) {
		tensor_put(&p, "blk.0.attn_q.bias", 8, 0, c);
		tensor_put(&p, "blk.0.attn_k.bias", 4, 0, c);
		tensor_put(&p, "blk.0.attn_v.bias", 4, 0, c);
	}
	if (!strcmp(arch, "qwen3")) {
		tensor_put(&p, "blk.0.attn_q_norm.weight", 4, 0, c);
		tensor_put(&p, "blk.0.attn_k_norm.weight", 4, 0, c);
	}
	if (c->adds) tensor_put(&p, c->adds, 4, 0, c);
	if (divisors[0] != 0) {
		tensor_put(&p, "rope_freqs.weight", 2, 0, c);
		memcpy(p.data.data + p.data.len - sizeof divisors, divisors, sizeof divisors);
	}
	str_puts(&whole, "GGUF");
	put(&whole, 3, 4);
	put(&whole, (uint64_t)p.ntensors, 8);
	put(&whole, (uint64_t)p.nvalues, 8);
	str_append(&whole, p.values.data, p.values.len);
	str_append(&whole, p.tensors.data, p.tensors.len);
	while (whole.len % 32) str_putc(&whole, 0);
	str_append(&whole, p.data.data, p.data.len);
	/* Written without waiting for the disk, and opened. */
	char *path = path_join(folder, "model.gguf");
	struct gguf *g = NULL;
	struct err err = {0};
	FILE *f = fopen(path, "w");
	assert_non_null(f);
	assert_int_equal(fwrite(whole.data, 1, whole.len, f), whole.len);
	assert_int_equal(fclose(f), 0);
	if (gguf_open(path, &g, &err)) fail_msg("%s", err.text);
	free(path);
	str_release(&whole);
	str_release(&p.values);
	str_release(&p.tensors);
	str_release(&p.data);
	return g;
}

/* ---- configuration ---- */

static void test_config(void **state)
{
	static const char *const archs[] = {"llama", "qwen2", "qwen3"};
	for (size_t i = 0; i < ARRAY_LEN(archs); i++) {
		struct model_config c;
		struct err err = {0};
		struct gguf *g = file_make(&(struct change){.arch = archs[i]});
		if (model_config_from_gguf(g, &c, &err)) fail_msg("%s", err.text);
		assert_int_equal(c.vocab_size, 5);
		assert_int_equal(c.hidden_size, 8);
		assert_int_equal(c.num_hidden_layers, 1);
		assert_int_equal(c.num_attention_heads, 2);
		assert_int_equal(c.num_key_value_heads, 1);
		assert_int_equal(c.head_dim, 4);
		assert_int_equal(c.intermediate_size, 12);
		assert_int_equal(c.max_position_embeddings, 64);
		/* The decimals that the file's fp32 stood for. */
		assert_true(c.rms_norm_eps == 1e-5 && c.rope_theta == 500000 && c.rope_factor == 0);
		assert_int_equal(c.attention_bias, i == 1);
		assert_int_equal(c.qk_norm, i == 2);
		assert_false(c.tie_word_embeddings);
		assert_true(c.bos_token_id == -1 && c.eos_token_id == -1 && c.pad_token_id == -1 && c.neos_extra == 0);
		gguf_close(g);
	}
}

#define OF(field) offsetof(struct model_config, field)
/* What one change makes of the configuration. */
static void test_fields(void **state)
{
	static const struct {
		struct change change;
		size_t field; /* an int */
		int expected;
	} rows[] = {
		{{.value = {"llama.context_length", WHOLE, 1, NULL}}, OF(max_position_embeddings), 1},
		{{.value = {"llama.attention.key_length", WHOLE, 4, NULL}}, OF(head_dim), 4},
		{{.value = {"tokenizer.ggml.bos_token_id", WHOLE, 0, NULL}}, OF(bos_token_id), 0},
		{{.value = {"tokenizer.ggml.bos_token_id", WHOLE, 4, NULL}}, OF(bos_token_id), 4},
		{{.value = {"tokenizer.ggml.bos_token_id", WHOLE, 4294967295.0, NULL}}, OF(bos_token_id), -1},
		{{.value = {"tokenizer.ggml.padding_token_id", WHOLE, 3, NULL}}, OF(pad_token_id), 3},
		{{.value = {"tokenizer.ggml.eos_token_id", WHOLE, 2, NULL}}, OF(eos_token_id), 2},
		/* Where there is no end of sequence, that of a turn is one. */
		{{.value = {"tokenizer.ggml.eot_token_id", WHOLE, 2, NULL}}, OF(eos_token_id), 2},
		{{.value = {"tokenizer.ggml.eom_token_id", WHOLE, 1, NULL}}, OF(eos_token_id), 1},
		/* Said again as it is already, and of no weight. */
		{{.value = {"llama.attention.value_length", WHOLE, 4, NULL}}, OF(head_dim), 4},
		{{.value = {"llama.rope.dimension_count", WHOLE, 4, NULL}}, OF(head_dim), 4},
		{{.value = {"llama.expert_count", WHOLE, 0, NULL}}, OF(hidden_size), 8},
		{{.value = {"llama.rope.scaling.type", TEXT, 0, "none"}}, OF(hidden_size), 8},
		{{.value = {"llama.vocab_size", WHOLE, 7, NULL}}, OF(vocab_size), 5},
		{{.value = {"llamas.other", WHOLE, 7, NULL}}, OF(vocab_size), 5},
		{{.value = {"split.count", WHOLE, 1, NULL}}, OF(vocab_size), 5},
		/* A default, and a head that is the embedding. */
		{{.value = {"llama.rope.freq_base", ABSENT, 0, NULL}}, OF(vocab_size), 5},
	};
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct model_config c;
		struct err err = {0};
		struct gguf *g = file_make(&rows[i].change);
		if (model_config_from_gguf(g, &c, &err)) fail_msg("row %zu: %s", i, err.text);
		int found;
		memcpy(&found, (const char *)&c + rows[i].field, sizeof found);
		if (found != rows[i].expected) fail_msg("row %zu: %d", i, found);
		assert_true(c.rope_theta == (rows[i].change.value.kind == ABSENT ? 10000 : 500000));
		gguf_close(g);
	}
	struct model_config c;
	struct err err = {0};
	struct gguf *g = file_make(&(struct change){.drops = "output.weight"});
	assert_int_equal(model_config_from_gguf(g, &c, &err), 0);
	assert_true(c.tie_word_embeddings);
	gguf_close(g);
}

static void test_refusals(void **state)
{
	static const struct {
		struct change change;
		const char *says;
	} rows[] = {
		{{.value = {"general.architecture", TEXT, 0, "gemma"}},
			"architecture \"gemma\" is not supported; supported are llama, qwen2 and qwen3"},
		{{.value = {"general.architecture", ABSENT, 0, NULL}}, "general.architecture"},
		{{.value = {"llama.embedding_length", ABSENT, 0, NULL}}, "llama.embedding_length"},
		{{.value = {"llama.embedding_length", WHOLE, 0, NULL}}, "llama.embedding_length"},
		{{.value = {"llama.embedding_length", WHOLE, 131073, NULL}}, "llama.embedding_length"},
		{{.value = {"llama.block_count", WHOLE, 1025, NULL}}, "llama.block_count"},
		{{.value = {"llama.attention.head_count", WHOLE, 4097, NULL}}, "llama.attention.head_count"},
		{{.value = {"llama.attention.head_count_kv", WHOLE, 4097, NULL}}, "llama.attention.head_count_kv"},
		{{.value = {"llama.attention.key_length", WHOLE, 4097, NULL}}, "llama.attention.key_length"},
		{{.value = {"llama.feed_forward_length", WHOLE, 1048577, NULL}}, "llama.feed_forward_length"},
		{{.value = {"llama.context_length", WHOLE, 16777217, NULL}}, "llama.context_length"},
		{{.value = {"llama.attention.value_length", WHOLE, 5, NULL}},
			"metadata 'llama.attention.value_length' is 5, which is not supported; expected 4"},
		{{.value = {"llama.rope.dimension_count", WHOLE, 2, NULL}}, "is 2, which is not supported; expected 4"},
		{{.value = {"llama.expert_count", WHOLE, 1, NULL}}, "is 1, which is not supported; expected 0"},
		{{.value = {"llama.expert_used_count", WHOLE, 1, NULL}}, "is 1, which is not supported; expected 0"},
		{{.value = {"llama.attention.sliding_window", WHOLE, 9, NULL}}, "is 9, which is not supported; expected 0"},
		{{.value = {"llama.attention.layer_norm_rms_epsilon", ABSENT, 0, NULL}},
			"metadata 'llama.attention.layer_norm_rms_epsilon' is missing"},
		{{.value = {"llama.rope.scaling.type", TEXT, 0, "yarn"}},
			"is \"yarn\", which is not supported; only \"none\" is"},
		{{.value = {"llama.attention.scale", REAL, 1, NULL}},
			"metadata 'llama.attention.scale' is not known and could change what the model computes"},
		{{.value = {"tokenizer.ggml.bos_token_id", WHOLE, 5, NULL}}, "is 5, but the embedding has 5 rows"},
		{{.value = {"tokenizer.ggml.padding_token_id", WHOLE, 5, NULL}}, "is 5, but the embedding has 5 rows"},
		{{.value = {"tokenizer.ggml.eos_token_id", WHOLE, 5, NULL}}, "is 5, but the embedding has 5 rows"},
		{{.value = {"tokenizer.ggml.eot_token_id", WHOLE, 5, NULL}}, "is 5, but the embedding has 5 rows"},
		{{.value = {"tokenizer.ggml.eom_token_id", WHOLE, 5, NULL}}, "is 5, but the embedding has 5 rows"},
		{{.value = {"split.count", WHOLE, 2, NULL}}, "one of 2 parts; join them"},
		/* Tensors that are missing, of another shape, or too many. */
		{{.drops = "token_embd.weight"}, "tensor 'token_embd.weight' of two dimensions is missing"},
		{{.drops = "output_norm.weight"}, "tensor 'output_norm.weight' is missing"},
		{{.drops = "blk.0.attn_norm.weight"}, "tensor 'blk.0.attn_norm.weight' is missing"},
		{{.drops = "blk.0.ffn_norm.weight"}, "tensor 'blk.0.ffn_norm.weight' is missing"},
		{{.drops = "blk.0.attn_q.weight"}, "tensor 'blk.0.attn_q.weight' is missing"},
		{{.drops = "blk.0.attn_k.weight"}, "tensor 'blk.0.attn_k.weight' is missing"},
		{{.drops = "blk.0.attn_v.weight"}, "tensor 'blk.0.attn_v.weight' is missing"},
		{{.drops = "blk.0.attn_output.weight"}, "tensor 'blk.0.attn_output.weight' is missing"},
		{{.drops = "blk.0.ffn_gate.weight"}, "tensor 'blk.0.ffn_gate.weight' is missing"},
		{{.drops = "blk.0.ffn_up.weight"}, "tensor 'blk.0.ffn_up.weight' is missing"},
		{{.drops = "blk.0.ffn_down.weight"}, "tensor 'blk.0.ffn_down.weight' is missing"},
		{{.arch = "qwen2", .drops = "blk.0.attn_k.bias"}, "tensor 'blk.0.attn_k.bias' is missing"},
		{{.arch = "qwen3", .drops = "blk.0.attn_q_norm.weight"}, "tensor 'blk.0.attn_q_norm.weight' is missing"},
		{{.adds = "blk.0.attn_q.bias"}, "tensor 'blk.0.attn_q.bias' is not part of this architecture"},
		{{.value = {"llama.block_count", WHOLE, 2, NULL}}, "tensor 'blk.1.attn_norm.weight' is missing"},
		{{.value = {"llama.feed_forward_length", WHOLE, 11, NULL}},
			"tensor 'blk.0.ffn_gate.weight': 2 dimensions, 96 values, the first dimension 12; the metadata ask for 2, "
			"88 and "
			"11"},
		{{.adds = "rope_freqs.weight"}, "tensor 'rope_freqs.weight'"},
	};
	int bad = 0;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct model_config c;
		struct err err = {0};
		struct gguf *g = file_make(&rows[i].change);
		int rc = model_config_from_gguf(g, &c, &err);
		if (!rc || !strstr(err.text, rows[i].says)) print_message("# row %zu: %d %s\n", i, rc, err.text);
		bad += !rc || !strstr(err.text, rows[i].says);
		gguf_close(g);
	}
	assert_int_equal(bad, 0);
}

/* Divisors of frequencies are Llama 3's or none: its constants are not in the file. A head of four
 * has two frequencies; with this base the fast one stays and the slow one is divided by it all. */
static void test_rope_divisors(void **state)
{
	static const struct {
		float divisors[2];
		double factor; /* -1: refused */
	} cases[] = {{{1, 1}, 0}, {{1, 8}, 8}, {{1, 64}, 64}, {{1, 65}, -1}, {{1, 0.5f}, -1}, {{1, 1.5f}, 1.5},
		{{1.0002f, 8}, -1}, {{0.9998f, 8}, -1}, {{1.00005f, 8}, 8}, {{8, 8}, -1}, {{8, 1}, -1}, {{1, NAN}, -1},
		{{NAN, 8}, -1}};
	const struct change slow = {.value = {"llama.rope.freq_base", REAL, 1e8, NULL}};
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct model_config c;
		struct err err = {0};
		memcpy(divisors, cases[i].divisors, sizeof divisors);
		struct gguf *g = file_make(&slow);
		int rc = model_config_from_gguf(g, &c, &err);
		gguf_close(g);
		if (cases[i].factor < 0) {
			assert_int_equal(rc, ERR_UNSUPPORTED);
			assert_non_null(strstr(err.text, "is not that of Llama 3 (factors 1 and 4, 8192 positions)"));
			continue;
		}
		if (rc) fail_msg("row %zu: %s", i, err.text);
		bool is_plain = cases[i].factor == 0;
		assert_true(c.rope_factor == cases[i].factor && c.rope_low_freq_factor == (is_plain ? 0 : 1) &&
			c.rope_high_freq_factor == (is_plain ? 0 : 4) && c.rope_original_positions == (is_plain ? 0 : 8192));
	}
	/* With the usual base the slow one lies between both bounds: its factor stands nowhere. */
	divisors[0] = 1;
	divisors[1] = 8;
	struct model_config c;
	struct err err = {0};
	struct gguf *g = file_make(&(struct change){.arch = NULL});
	assert_int_equal(model_config_from_gguf(g, &c, &err), ERR_UNSUPPORTED);
	gguf_close(g);
	divisors[0] = divisors[1] = 0;
}

/* ---- weights ---- */

/* llama's rows 0 1 2 3 of a head of four are pairs side by side: ours are 0 2 1 3. */
static int64_t row_of(const char *name, bool is_interleaved, int64_t row)
{
	static const int ours[] = {0, 2, 1, 3};
	bool is_rotated = strstr(name, "attn_q.weight") || strstr(name, "attn_k.weight");
	return is_interleaved && is_rotated ? row / 4 * 4 + ours[row % 4] : row;
}

static void weights_check(const char *arch, enum dtype dtype, const char *dir)
{
	static const struct {
		const char *ours;
		const char *theirs;
	} names[] = {{"model.embed_tokens.weight", "token_embd.weight"}, {"lm_head.weight", "output.weight"},
		{"model.norm.weight", "output_norm.weight"},
		{"model.layers.0.input_layernorm.weight", "blk.0.attn_norm.weight"},
		{"model.layers.0.post_attention_layernorm.weight", "blk.0.ffn_norm.weight"},
		{"model.layers.0.self_attn.q_proj.weight", "blk.0.attn_q.weight"},
		{"model.layers.0.self_attn.k_proj.weight", "blk.0.attn_k.weight"},
		{"model.layers.0.self_attn.v_proj.weight", "blk.0.attn_v.weight"},
		{"model.layers.0.self_attn.o_proj.weight", "blk.0.attn_output.weight"},
		{"model.layers.0.mlp.gate_proj.weight", "blk.0.ffn_gate.weight"},
		{"model.layers.0.mlp.up_proj.weight", "blk.0.ffn_up.weight"},
		{"model.layers.0.mlp.down_proj.weight", "blk.0.ffn_down.weight"},
		{"model.layers.0.self_attn.q_proj.bias", "blk.0.attn_q.bias"},
		{"model.layers.0.self_attn.k_proj.bias", "blk.0.attn_k.bias"},
		{"model.layers.0.self_attn.v_proj.bias", "blk.0.attn_v.bias"},
		{"model.layers.0.self_attn.q_norm.weight", "blk.0.attn_q_norm.weight"},
		{"model.layers.0.self_attn.k_norm.weight", "blk.0.attn_k_norm.weight"}};
	char *path = path_join(dir, "model.safetensors");
	struct safetensors *s = NULL;
	struct err err = {0};
	if (safetensors_open(path, &s, &err)) fail_msg("%s", err.text);
	assert_int_equal(safetensors_count(s), !strcmp(arch, "qwen2") ? 15 : !strcmp(arch, "qwen3") ? 14 : 12);
	size_t found = 0;
	for (size_t i = 0; i < ARRAY_LEN(names); i++) {
		const struct tensor_info *t = safetensors_find(s, names[i].ours);
		if (!t) continue;
		found++;
		assert_int_equal(t->dtype, dtype);
		int64_t columns = t->ndim == 2 ? t->shape[1] : 1;
		for (int64_t k = 0; k < t->shape[0] * columns; k++) {
			/* Where their value k goes. */
			int64_t at = row_of(names[i].theirs, !strcmp(arch, "llama"), k / columns) * columns + k % columns;
			double expected = (double)element(names[i].theirs, k), value = dtype_load(dtype, t->data, at);
			if (value != expected)
				fail_msg("%s %s[%lld]: %g, not %g", arch, names[i].ours, (long long)at, value, expected);
		}
	}
	assert_int_equal(found, safetensors_count(s));
	safetensors_close(s);
	free(path);
}

static void test_weights(void **state)
{
	static const char *const archs[] = {"llama", "qwen2", "qwen3"};
	for (size_t i = 0; i < 2 * ARRAY_LEN(archs); i++) {
		enum dtype dtype = i % 2 ? DTYPE_BF16 : DTYPE_F32;
		struct model_config c, back;
		struct err err = {0};
		char *dir = path_join(folder, "out");
		struct gguf *g = file_make(&(struct change){.arch = archs[i / 2]});
		if (model_config_from_gguf(g, &c, &err)) fail_msg("%s", err.text);
		if (model_save_from_gguf(g, &c, dtype, dir, &err)) fail_msg("%s", err.text);
		weights_check(archs[i / 2], dtype, dir);
		/* The configuration beside them is the same. */
		if (model_config_load(dir, &back, &err)) fail_msg("%s", err.text);
		assert_true(back.hidden_size == 8 && back.num_key_value_heads == 1 && back.intermediate_size == 12 &&
			back.rope_theta == 500000 && back.attention_bias == c.attention_bias && back.qk_norm == c.qk_norm);
		gguf_close(g);
		free(dir);
	}
}

/* None of the above leaves memory or descriptors behind, errors included. */
static void everything(void *ctx)
{
	test_config(NULL);
	test_fields(NULL);
	test_refusals(NULL);
	test_weights(NULL);
}

static void test_leaves_nothing(void **state)
{
	leaves_nothing(everything, NULL);
	assert_int_equal(dir_remove(folder, NULL), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(test_config), cmocka_unit_test(test_fields),
		cmocka_unit_test(test_refusals), cmocka_unit_test(test_rope_divisors), cmocka_unit_test(test_weights),
		cmocka_unit_test(test_leaves_nothing)};
	cmocka_set_message_output(CM_OUTPUT_TAP);
	if (!mkdtemp(folder)) return 1;
	return cmocka_run_group_tests(tests, NULL, NULL);
}
