/* A GGUF file's model as one of ours.
 *
 * Metadata keys carry the architecture's name in front ("llama.block_count"). A key of that kind
 * which is not in the tables below could change what the model computes, so it is refused by name,
 * as is a tensor that the block has no place for. llama.cpp rotates llama's heads in interleaved
 * pairs and its converter reorders the rows of q and k to match; Hugging Face rotates halves, so
 * the order is undone here. */
#include "model/model_internal.h"
#include "base/base.h"
#include "base/dtype.h"
#include "tensor/tensor.h"

#include <math.h>
#include <stdlib.h>

struct gguf_arch {
	const char *name;
	bool attention_bias; /* q, k and v have one */
	bool qk_norm;        /* q and k are normalised head by head */
	bool is_interleaved; /* rows of q and k stand as (pairs, 2), where ours stand as (2, pairs) */
};
static const struct gguf_arch archs[] = {
	{"llama", false, false, true},
	{"qwen2", true, false, false},
	{"qwen3", false, true, false},
};

/* ---- configuration ---- */

struct reader {
	const struct gguf *g;
	const char *arch;
	struct err *err;
	char key[96];
};

static const char *key(struct reader *r, const char *rest)
{
	snprintf(r->key, sizeof r->key, "%s.%s", r->arch, rest);
	return r->key;
}

static int arch_get(const struct gguf *g, const struct gguf_arch **out, struct err *err)
{
	const char *name = NULL;
	int rc = gguf_get_str(g, "general.architecture", &name, err);
	if (rc) return rc;
	for (size_t i = 0; i < ARRAY_LEN(archs); i++)
		if (!strcmp(archs[i].name, name)) {
			*out = &archs[i];
			return 0;
		}
	return err_set(err, ERR_UNSUPPORTED,
		"%s: architecture \"%.60s\" is not supported; supported are llama, qwen2 and qwen3", gguf_path(g), name);
}

struct size_key {
	const char *key;
	size_t offset;
	int max;
	bool must;
};
#define SIZE(key, field, max, must) { key, offsetof(struct model_config, field), max, must }
static const struct size_key size_keys[] = {
	SIZE("embedding_length", hidden_size, 1 << 17, true),
	SIZE("block_count", num_hidden_layers, 1024, true),
	SIZE("attention.head_count", num_attention_heads, 4096, true),
	SIZE("attention.head_count_kv", num_key_value_heads, 4096, false),
	SIZE("attention.key_length", head_dim, 4096, false),
	SIZE("feed_forward_length", intermediate_size, 1 << 20, true),
	SIZE("context_length", max_position_embeddings, 1 << 24, true),
};

static int sizes_read(struct reader *r, struct model_config *c)
{
	for (size_t i = 0; i < ARRAY_LEN(size_keys); i++) {
		const struct size_key *k = &size_keys[i];
		int64_t n = 0;
		int rc = (k->must ? gguf_get_int : gguf_opt_int)(r->g, key(r, k->key), 1, k->max, &n, r->err);
		if (rc) return rc;
		*(int *)((char *)c + k->offset) = (int)n;
	}
	if (!c->num_key_value_heads) c->num_key_value_heads = c->num_attention_heads;
	if (!c->head_dim) c->head_dim = c->hidden_size / c->num_attention_heads;
	return 0;
}

/* Keys that say what the sizes say already; another value asks for something that the block cannot
 * do. */
static int sizes_agree(struct reader *r, const struct model_config *c)
{
	const struct {
		const char *key;
		int64_t expected;
	} same[] = {{"attention.value_length", c->head_dim}, {"rope.dimension_count", c->head_dim}, {"expert_count", 0},
		{"expert_used_count", 0}, {"attention.sliding_window", 0}};
	for (size_t i = 0; i < ARRAY_LEN(same); i++) {
		int64_t n = same[i].expected;
		int rc = gguf_opt_int(r->g, key(r, same[i].key), 0, INT64_MAX, &n, r->err);
		if (rc) return rc;
		if (n != same[i].expected)
			return err_set(r->err, ERR_UNSUPPORTED, "%s: metadata '%s' is %lld, which is not supported; expected %lld",
				gguf_path(r->g), r->key, (long long)n, (long long)same[i].expected);
	}
	return 0;
}

/* The file has fp32 where config.json had a decimal: the shortest decimal that is this fp32
 * (0.00001 rather than 0.00000999999975). */
static double shortest(double x)
{
	char text[32];
	for (int digits = 1; digits <= 9; digits++) {
		snprintf(text, sizeof text, "%.*g", digits, x);
		double d = strtod(text, NULL);
		if ((float)d == (float)x) return d;
	}
	return x;
}

static int numbers_read(struct reader *r, struct model_config *c)
{
	const char *type = "none";
	c->rope_theta = 10000;
	if (!gguf_find(r->g, key(r, "attention.layer_norm_rms_epsilon")))
		return err_set(r->err, ERR_NOT_FOUND, "%s: metadata '%s' is missing", gguf_path(r->g), r->key);
	int rc = gguf_opt_num(r->g, r->key, &c->rms_norm_eps, r->err);
	c->rms_norm_eps = shortest(c->rms_norm_eps);
	if (!rc) rc = gguf_opt_num(r->g, key(r, "rope.freq_base"), &c->rope_theta, r->err);
	c->rope_theta = shortest(c->rope_theta);
	if (!rc) rc = gguf_opt_str(r->g, key(r, "rope.scaling.type"), &type, r->err);
	if (!rc && strcmp(type, "none"))
		rc = err_set(r->err, ERR_UNSUPPORTED,
			"%s: metadata '%s' is \"%.40s\", which is not supported; only \"none\" is", gguf_path(r->g), r->key, type);
	return rc;
}

/* Each key of the architecture is read above, or says nothing about the computation. */
static int keys_known(struct reader *r)
{
	static const char *const others[] = {"attention.value_length", "rope.dimension_count", "expert_count",
		"expert_used_count", "attention.sliding_window", "attention.layer_norm_rms_epsilon", "rope.freq_base",
		"rope.scaling.type", "vocab_size", "tensor_data_layout", "rope.scaling.original_context_length",
		"rope.scaling.finetuned"};
	size_t prefix = strlen(r->arch);
	for (size_t i = 0; i < gguf_value_count(r->g); i++) {
		const char *name = gguf_value_at(r->g, i)->key;
		if (strncmp(name, r->arch, prefix) || name[prefix] != '.') continue;
		bool known = false;
		for (size_t k = 0; k < ARRAY_LEN(size_keys) && !known; k++)
			known = !strcmp(size_keys[k].key, name + prefix + 1);
		for (size_t k = 0; k < ARRAY_LEN(others) && !known; k++) known = !strcmp(others[k], name + prefix + 1);
		if (!known)
			return err_set(r->err, ERR_UNSUPPORTED,
				"%s: metadata '%.120s' is not known and could change what the model computes", gguf_path(r->g), name);
	}
	return 0;
}

static int vocabulary_read(struct reader *r, struct model_config *c)
{
	const struct gguf_tensor *embed = gguf_tensor_find(r->g, "token_embd.weight");
	if (!embed || embed->ndim != 2)
		return err_set(
			r->err, ERR_NOT_FOUND, "%s: tensor 'token_embd.weight' of two dimensions is missing", gguf_path(r->g));
	if (embed->shape[0] > 1 << 24)
		return err_set(r->err, ERR_LIMIT, "%s: tensor 'token_embd.weight' has %lld rows; at most %d are supported",
			gguf_path(r->g), (long long)embed->shape[0], 1 << 24);
	c->vocab_size = (int)embed->shape[0];
	c->tie_word_embeddings = !gguf_tensor_find(r->g, "output.weight");
	return 0;
}

/* -1 when absent; some files say "none" as 2^32 - 1. */
static int token_read(struct reader *r, const struct model_config *c, const char *name, int *out)
{
	int64_t id = -1;
	int rc = gguf_opt_int(r->g, name, -1, UINT32_MAX, &id, r->err);
	if (!rc && id >= c->vocab_size && id != UINT32_MAX)
		rc = err_set(r->err, ERR_RANGE, "%s: metadata '%s' is %lld, but the embedding has %d rows", gguf_path(r->g),
			name, (long long)id, c->vocab_size);
	*out = id == UINT32_MAX ? -1 : (int)id;
	return rc;
}

/* End of turn and of message end a sequence too. */
static int tokens_read(struct reader *r, struct model_config *c)
{
	static const char *const ends[] = {"tokenizer.ggml.eot_token_id", "tokenizer.ggml.eom_token_id"};
	int rc = token_read(r, c, "tokenizer.ggml.bos_token_id", &c->bos_token_id);
	if (!rc) rc = token_read(r, c, "tokenizer.ggml.padding_token_id", &c->pad_token_id);
	if (!rc) rc = token_read(r, c, "tokenizer.ggml.eos_token_id", &c->eos_token_id);
	for (size_t i = 0; i < ARRAY_LEN(ends) && !rc; i++) {
		int id;
		rc = token_read(r, c, ends[i], &id);
		bool known = id < 0 || id == c->eos_token_id || (c->neos_extra && id == c->eos_extra[0]);
		if (!rc && !known && c->eos_token_id < 0) c->eos_token_id = id;
		else if (!rc && !known) c->eos_extra[c->neos_extra++] = id;
	}
	return rc;
}

/* ---- rope factors ---- */

/* Llama 3.1 and later: by how much each frequency is divided stands in a tensor; the constants that
 * config.json names them by stand nowhere. All of that family have these three. */
#define LLAMA3_LOW 1.0
#define LLAMA3_HIGH 4.0
#define LLAMA3_POSITIONS 8192

static double llama3_divisor(const struct model_config *c, double factor, int i)
{
	double wavelength = 2 * M_PI * pow(c->rope_theta, 2.0 * i / c->head_dim);
	if (wavelength < LLAMA3_POSITIONS / LLAMA3_HIGH) return 1;
	if (wavelength > LLAMA3_POSITIONS / LLAMA3_LOW) return factor;
	double smooth = (LLAMA3_POSITIONS / wavelength - LLAMA3_LOW) / (LLAMA3_HIGH - LLAMA3_LOW);
	return 1 / ((1 - smooth) / factor + smooth);
}

/* The converter computes in fp32: the frequency is off by up to |ln(theta)| 2^-24 = 8e-7, smooth by
 * 4/3 of that, the divisor by this times its factor (at most 64): below 1e-4. */
static bool is_llama3(const struct model_config *c, const float *divisors, int count)
{
	double factor = (double)divisors[count - 1];
	if (!(factor >= 1 && factor <= 64)) return false;
	for (int i = 0; i < count; i++) {
		double expected = llama3_divisor(c, factor, i);
		if (!(fabs((double)divisors[i] - expected) <= 1e-4 * expected)) return false;
	}
	return true;
}

static int rope_factors_read(struct reader *r, struct model_config *c)
{
	/* Files without this tensor use plain rotary angles. */
	const struct gguf_tensor *t = gguf_tensor_find(r->g, "rope_freqs.weight");
	if (!t) return 0;
	int count = c->head_dim / 2;
	if (t->ndim != 1 || t->count != count)
		return err_set(r->err, ERR_MISMATCH,
			"%s: tensor 'rope_freqs.weight': expected %d values in one dimension (half of a head), found %lld in %d",
			gguf_path(r->g), count, (long long)t->count, t->ndim);
	float *divisors = xcalloc((size_t)count, sizeof *divisors);
	/* All ones mean no stretching. Anything else has to be what Llama 3's rule gives, since the
	 * config can say no other. */
	bool is_plain = true;
	gguf_to_f32(t, divisors);
	for (int i = 0; i < count; i++) is_plain &= divisors[i] == 1;
	bool known = is_plain || is_llama3(c, divisors, count);
	if (!is_plain && known) {
		/* The slowest frequency is divided by the whole factor, so the last divisor tells it. */
		c->rope_factor = (double)divisors[count - 1];
		c->rope_low_freq_factor = LLAMA3_LOW;
		c->rope_high_freq_factor = LLAMA3_HIGH;
		c->rope_original_positions = LLAMA3_POSITIONS;
	}
	free(divisors);
	if (known) return 0;
	return err_set(r->err, ERR_UNSUPPORTED,
		"%s: tensor 'rope_freqs.weight' is not that of Llama 3 (factors %g and %g, %d positions), the only stretching "
		"supported",
		gguf_path(r->g), LLAMA3_LOW, LLAMA3_HIGH, LLAMA3_POSITIONS);
}

static int parts_refuse(const struct gguf *g, struct err *err)
{
	int64_t parts = 1;
	int rc = gguf_opt_int(g, "split.count", 0, UINT16_MAX, &parts, err);
	if (rc || parts <= 1) return rc;
	return err_set(err, ERR_UNSUPPORTED, "%s: one of %lld parts; join them with llama.cpp's llama-gguf-split --merge",
		gguf_path(g), (long long)parts);
}

/* ---- weights ---- */

/* "model.layers.3.self_attn.q_proj.weight" is "blk.3.attn_q.weight". */
static const struct {
	const char *ours;
	const char *theirs;
} names[] = {
	{"input_layernorm", "attn_norm"},
	{"post_attention_layernorm", "ffn_norm"},
	{"self_attn.q_proj", "attn_q"},
	{"self_attn.k_proj", "attn_k"},
	{"self_attn.v_proj", "attn_v"},
	{"self_attn.o_proj", "attn_output"},
	{"self_attn.q_norm", "attn_q_norm"},
	{"self_attn.k_norm", "attn_k_norm"},
	{"mlp.gate_proj", "ffn_gate"},
	{"mlp.up_proj", "ffn_up"},
	{"mlp.down_proj", "ffn_down"},
	{"model.embed_tokens", "token_embd"},
	{"model.norm", "output_norm"},
	{"lm_head", "output"},
};

static void their_name(const char *ours, char *out, size_t len)
{
	int layer = -1, skipped = 0;
	if (sscanf(ours, "model.layers.%d.%n", &layer, &skipped) == 1) ours += skipped;
	const char *kind = strrchr(ours, '.'); /* ".weight" or ".bias" */
	for (size_t i = 0; i < ARRAY_LEN(names); i++) {
		size_t n = strlen(names[i].ours);
		if (n != (size_t)(kind - ours) || strncmp(ours, names[i].ours, n)) continue;
		if (layer < 0) snprintf(out, len, "%s%s", names[i].theirs, kind);
		else snprintf(out, len, "blk.%d.%s%s", layer, names[i].theirs, kind);
		return;
	}
	CHECKF(false, "parameter %s has no name in GGUF", ours);
}

struct source {
	const struct gguf_tensor *tensor;
	int heads; /* whose rows are interleaved; 0: none */
};
struct import {
	struct model *table;
	struct source *sources;
	enum dtype dtype;
	float *values; /* (elements of the largest parameter) as fp32 */
	float *rows;   /* likewise, their rows put in our order */
};

static int rotated_heads(const struct model_config *c, const char *name)
{
	if (strstr(name, ".self_attn.q_proj.")) return c->num_attention_heads;
	return strstr(name, ".self_attn.k_proj.") ? c->num_key_value_heads : 0;
}

/* Every parameter is there with its shape, and nothing else is. */
static int sources_find(struct import *im, const struct gguf *g, bool is_interleaved, struct err *err)
{
	const struct model *m = im->table;
	size_t used = gguf_tensor_find(g, "rope_freqs.weight") ? 1 : 0;
	/* The sources stand in the order of our parameters, whatever the order of the file. */
	for (int i = 0; i < m->nparams; i++) {
		const struct param *p = &m->params[i];
		char name[128];
		their_name(p->name, name, sizeof name);
		const struct gguf_tensor *t = gguf_tensor_find(g, name);
		if (!t) return err_set(err, ERR_NOT_FOUND, "%s: tensor '%s' is missing", gguf_path(g), name);
		if (t->ndim != p->ndim || memcmp(t->shape, p->shape, (size_t)p->ndim * sizeof *p->shape))
			return err_set(err, ERR_MISMATCH,
				"%s: tensor '%s': %d dimensions, %lld values, the first dimension %lld; the metadata ask for %d, %lld "
				"and %lld",
				gguf_path(g), name, t->ndim, (long long)t->count, (long long)t->shape[0], p->ndim, (long long)p->count,
				(long long)p->shape[0]);
		im->sources[i] = (struct source){t, is_interleaved ? rotated_heads(&m->config, p->name) : 0};
	}
	/* All parameters were found, so equal counts mean that nothing is left over; otherwise the
	 * stranger is named. */
	if (gguf_count(g) == used + (size_t)m->nparams) return 0;
	for (size_t i = 0; i < gguf_count(g); i++) {
		const struct gguf_tensor *t = gguf_at(g, i);
		bool known = !strcmp(t->name, "rope_freqs.weight");
		for (int k = 0; k < m->nparams && !known; k++) known = im->sources[k].tensor == t;
		if (!known)
			return err_set(
				err, ERR_UNSUPPORTED, "%s: tensor '%s' is not part of this architecture", gguf_path(g), t->name);
	}
	return 0;
}

/* A head's rows come as 0, n, 1, n + 1, ... of its n pairs; they go as 0 .. n - 1, then n .. 2n -
 * 1. */
static void undo_interleaving(const struct gguf_tensor *t, int heads, const float *from, float *to)
{
	int64_t columns = t->shape[1], pairs = t->shape[0] / heads / 2;
	for (int64_t head = 0; head < heads; head++)
		for (int64_t row = 0; row < 2 * pairs; row++)
			memcpy(to + (head * 2 * pairs + row % 2 * pairs + row / 2) * columns,
				from + (head * 2 * pairs + row) * columns, (size_t)columns * sizeof *to);
}

static void fill(void *ctx, size_t i, void *out)
{
	struct import *im = ctx;
	const struct source *s = &im->sources[i];
	float *values = im->dtype == DTYPE_F32 && !s->heads ? out : im->values;
	gguf_to_f32(s->tensor, values);
	if (s->heads) {
		float *rows = im->dtype == DTYPE_F32 ? out : im->rows;
		undo_interleaving(s->tensor, s->heads, values, rows);
		values = rows;
	}
	if (im->dtype == DTYPE_F32) return;
	for (int64_t k = 0; k < s->tensor->count; k++) ((uint16_t *)out)[k] = f32_to_bf16(values[k]);
}

static int weights_write(struct import *im, const char *dir, struct err *err)
{
	int n = im->table->nparams;
	struct tensor_info *tensors = xcalloc((size_t)n, sizeof *tensors);
	int64_t largest = 0;
	for (int i = 0; i < n; i++) {
		const struct param *p = &im->table->params[i];
		tensors[i] = (struct tensor_info){.name = p->name,
			.dtype = im->dtype,
			.ndim = p->ndim,
			.shape = {p->shape[0], p->shape[1]},
			.bytes = size_mul((size_t)p->count, dtype_bytes(im->dtype))};
		largest = MAX(largest, p->count);
	}
	im->values = xmalloc(size_mul((size_t)largest, sizeof(float)));
	im->rows = xmalloc(size_mul((size_t)largest, sizeof(float)));
	char *path = path_join(dir, "model.safetensors");
	int rc = safetensors_write_filled(path, tensors, (size_t)n, NULL, fill, im, err);
	free(path);
	free(im->rows);
	free(im->values);
	free(tensors);
	return rc;
}

/* Finds every tensor before anything is written. */
static int import_begin(struct import *im, const struct gguf *g, const struct model_config *c, struct err *err)
{
	const struct gguf_arch *arch = NULL;
	int rc = arch_get(g, &arch, err);
	if (rc) return rc;
	im->table = model_alloc(c, NULL);
	im->sources = xcalloc((size_t)im->table->nparams, sizeof *im->sources);
	return sources_find(im, g, arch->is_interleaved, err);
}

static void import_end(struct import *im)
{
	free(im->sources);
	model_free(im->table);
}

int model_config_from_gguf(const struct gguf *g, struct model_config *out, struct err *err)
{
	const struct gguf_arch *arch = NULL;
	int rc = arch_get(g, &arch, err);
	if (!rc) rc = parts_refuse(g, err);
	if (rc) return rc;
	struct reader r = {.g = g, .arch = arch->name, .err = err};
	*out = (struct model_config){.attention_bias = arch->attention_bias, .qk_norm = arch->qk_norm};
	rc = sizes_read(&r, out);
	if (!rc) rc = sizes_agree(&r, out);
	if (!rc) rc = numbers_read(&r, out);
	if (!rc) rc = keys_known(&r);
	if (!rc) rc = vocabulary_read(&r, out);
	if (!rc) rc = tokens_read(&r, out);
	if (!rc) rc = model_config_check(out, gguf_path(g), err);
	if (!rc) rc = rope_factors_read(&r, out);
	if (rc) return rc;
	struct import im = {0};
	rc = import_begin(&im, g, out, err);
	import_end(&im);
	return rc;
}

int model_save_from_gguf(
	const struct gguf *g, const struct model_config *c, enum dtype dtype, const char *dir, struct err *err)
{
	struct import im = {.dtype = dtype};
	CHECK(dtype == DTYPE_F32 || dtype == DTYPE_BF16);
	int rc = import_begin(&im, g, c, err);
	if (!rc) rc = model_folder_begin(dir, err);
	if (!rc) rc = weights_write(&im, dir, err);
	if (!rc) rc = model_config_save_as(dir, c, dtype, err);
	import_end(&im);
	return rc;
}
