/* config.json in and out. One table row per architecture says which switches of the one block it
 * sets; whatever a file asks for beyond those switches is refused by name, because a model computed
 * almost right looks fine and is wrong.
 *
 * Two generations of transformers spell the same things differently (rope_theta and rope_scaling
 * against rope_parameters, torch_dtype against dtype): both are read and both are written. */
#include "model/model_internal.h"
#include "base/base.h"
#include "base/dtype.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <unistd.h>

/* Defaults are transformers': what an absent field means. A null one means hidden / heads and as
 * many key/value heads as heads. */
struct arch {
	const char *name;       /* in config.json's architectures */
	const char *model_type; /* in its model_type */
	bool attention_bias;    /* q, k and v have one */
	bool qk_norm;           /* q and k are normalised head by head */
	int head_dim_default;   /* 0: hidden / heads */
	int kv_heads_default;   /* 0: heads */
	int positions_default;
};
static const struct arch archs[] = {
	{"Qwen3ForCausalLM", "qwen3", false, true, 128, 32, 32768},
	{"Qwen2ForCausalLM", "qwen2", true, false, 0, 32, 32768},
	{"LlamaForCausalLM", "llama", false, false, 0, 0, 2048},
};

static const struct arch *arch_find(const char *name)
{
	for (size_t i = 0; i < ARRAY_LEN(archs); i++)
		if (!strcmp(archs[i].name, name)) return &archs[i];
	return NULL;
}

static int arch_get(const json_t *o, const char *what, const struct arch **out, struct err *err)
{
	const json_t *list = json_object_get(o, "architectures");
	const char *name = json_string_value(json_array_size(list) == 1 ? json_array_get(list, 0) : NULL);
	if (!name) return err_set(err, ERR_FORMAT, "%s: \"architectures\" must be a list of one name", what);
	*out = arch_find(name);
	if (!*out)
		return err_set(err, ERR_UNSUPPORTED,
			"%s: architecture %.80s is not supported; supported are Qwen3ForCausalLM, Qwen2ForCausalLM and "
			"LlamaForCausalLM",
			what, name);
	const char *type = (*out)->model_type;
	int rc = json_opt_str(o, what, "model_type", &type, err);
	if (rc || !strcmp(type, (*out)->model_type)) return rc;
	return err_set(err, ERR_UNSUPPORTED,
		"%s: model_type \"%.40s\" does not belong to %s, whose own is \"%s\"; transformers goes by the model_type",
		what, type, name, (*out)->model_type);
}

/* ---- what must be absent or off ---- */

bool json_is_off(const json_t *v)
{
	if (!v || json_is_null(v) || json_is_false(v)) return true;
	if (json_is_number(v)) return json_number_value(v) == 0;
	if (json_is_string(v)) return !*json_string_value(v);
	return (json_is_array(v) && !json_array_size(v)) || (json_is_object(v) && !json_object_size(v));
}

static int refuse_switches(const json_t *o, const char *what, struct err *err)
{
	static const char *const off[] = {"attention_bias", "mlp_bias", "use_sliding_window", "quantization_config",
		"compression_config", "attention_dropout", "use_mrope", "rope_interleaved"};
	for (size_t i = 0; i < ARRAY_LEN(off); i++)
		if (!json_is_off(json_object_get(o, off[i])))
			return err_set(err, ERR_UNSUPPORTED, "%s: \"%s\" is set, which is not supported", what, off[i]);
	const char *act = "silu";
	int rc = json_opt_str(o, what, "hidden_act", &act, err);
	if (!rc && strcmp(act, "silu"))
		return err_set(err, ERR_UNSUPPORTED, "%s: hidden_act \"%.40s\" is not supported, only silu", what, act);
	const json_t *types = json_object_get(o, "layer_types"), *v;
	size_t i;
	json_array_foreach(
		types, i, v) if (!json_is_string(v) || strcmp(json_string_value(v), "full_attention")) return err_set(err,
		ERR_UNSUPPORTED, "%s: layer_types[%zu] is not \"full_attention\", the only kind supported", what, i);
	return rc;
}

/* ---- rope ---- */

/* Constants of both rope types; what else stands in the object belongs to a type that is not
 * supported, or to layers of several types. */
static int rope_keys_check(const json_t *rope, const char *what, struct err *err)
{
	static const char *const known[] = {"type", "rope_type", "rope_theta", "factor", "low_freq_factor",
		"high_freq_factor", "original_max_position_embeddings", "partial_rotary_factor"};
	const char *key;
	json_t *v;
	json_object_foreach((json_t *)rope, key, v)
	{
		bool is_known = json_is_off(v);
		for (size_t i = 0; i < ARRAY_LEN(known); i++) is_known = is_known || !strcmp(key, known[i]);
		if (!is_known)
			return err_set(err, ERR_UNSUPPORTED, "%s: \"%.60s\" among the rope parameters is not supported", what, key);
	}
	return 0;
}

static int rope_llama3_read(
	const json_t *o, const json_t *rope, const char *what, struct model_config *c, struct err *err)
{
	int64_t original = c->max_position_embeddings;
	int rc = json_opt_num(rope, what, "factor", &c->rope_factor, err);
	if (!rc) rc = json_opt_num(rope, what, "low_freq_factor", &c->rope_low_freq_factor, err);
	if (!rc) rc = json_opt_num(rope, what, "high_freq_factor", &c->rope_high_freq_factor, err);
	if (!rc) rc = json_opt_int(rope, what, "original_max_position_embeddings", 1, 1 << 24, &original, err);
	if (!rc) /* Beside the object it wins. */
		rc = json_opt_int(o, what, "original_max_position_embeddings", 1, 1 << 24, &original, err);
	c->rope_original_positions = (int)original;
	if (!rc &&
		!(c->rope_factor >= 1 && c->rope_factor < 1e6 && c->rope_low_freq_factor > 0 &&
			c->rope_high_freq_factor > c->rope_low_freq_factor))
		rc = err_set(
			err, ERR_RANGE, "%s: llama3 rope needs factor >= 1 and 0 < low_freq_factor < high_freq_factor", what);
	return rc;
}

/* rope: rope_parameters or rope_scaling; either may carry the type, its constants and theta. *type
 * is NULL when it is absent. */
static int rope_read(
	const json_t *o, const char *field, const char *what, struct model_config *c, const char **type, struct err *err)
{
	const json_t *rope = json_object_get(o, field), *rotary = json_object_get(rope, "partial_rotary_factor");
	*type = NULL;
	if (json_is_off(rope)) return 0;
	if (!json_is_object(rope)) return err_set(err, ERR_FORMAT, "%s: rope parameters must be an object", what);
	*type = "default";
	int rc = json_opt_str(rope, what, "type", type, err);
	if (!rc) rc = json_opt_str(rope, what, "rope_type", type, err);
	if (!rc) rc = json_opt_num(rope, what, "rope_theta", &c->rope_theta, err);
	if (!rc && !json_is_off(rotary) && json_number_value(rotary) != 1)
		rc = err_set(err, ERR_UNSUPPORTED, "%s: partial_rotary_factor is not supported", what);
	bool is_llama3 = !rc && !strcmp(*type, "llama3");
	if (!rc && !is_llama3 && strcmp(*type, "default"))
		rc = err_set(err, ERR_UNSUPPORTED, "%s: rope type \"%.40s\" is not supported; supported are default and llama3",
			what, *type);
	if (!rc) rc = rope_keys_check(rope, what, err);
	return !rc && is_llama3 ? rope_llama3_read(o, rope, what, c, err) : rc;
}

/* Old files have rope_theta and perhaps rope_scaling, new ones rope_parameters; some have all of
 * them, which then have to agree. */
static int ropes_read(const json_t *o, const char *what, struct model_config *c, struct err *err)
{
	const json_t *rotary = json_object_get(o, "partial_rotary_factor");
	const char *scaling_type, *parameters_type;
	struct model_config scaled;
	if (!json_is_off(rotary) && json_number_value(rotary) != 1)
		return err_set(err, ERR_UNSUPPORTED, "%s: partial_rotary_factor is not supported", what);
	int rc = json_opt_num(o, what, "rope_theta", &c->rope_theta, err);
	if (!rc) rc = rope_read(o, "rope_scaling", what, c, &scaling_type, err);
	if (rc) return rc;
	scaled = *c;
	rc = rope_read(o, "rope_parameters", what, c, &parameters_type, err);
	if (!rc && !json_is_off(json_object_get(o, "rope_theta")) && scaled.rope_theta != c->rope_theta)
		rc = err_set(
			err, ERR_FORMAT, "%s: rope_theta is %g and %g; keep one of them", what, scaled.rope_theta, c->rope_theta);
	if (rc || !scaling_type || !parameters_type) return rc;
	bool agree = !strcmp(scaling_type, parameters_type) && scaled.rope_factor == c->rope_factor &&
		scaled.rope_low_freq_factor == c->rope_low_freq_factor &&
		scaled.rope_high_freq_factor == c->rope_high_freq_factor &&
		scaled.rope_original_positions == c->rope_original_positions;
	return agree ? 0
				 : err_set(err, ERR_FORMAT,
					   "%s: rope_scaling and rope_parameters contradict each other; keep one of them", what);
}

/* ---- special tokens ---- */

static bool eos_known(const struct model_config *c, int id)
{
	if (id == c->eos_token_id) return true;
	for (int i = 0; i < c->neos_extra; i++)
		if (c->eos_extra[i] == id) return true;
	return false;
}

static int eos_add(const json_t *v, const char *what, struct model_config *c, struct err *err)
{
	if (!json_is_integer(v) || json_integer_value(v) < 0 || json_integer_value(v) >= c->vocab_size)
		return err_set(err, ERR_RANGE, "%s: eos_token_id must be ids from 0 to %d", what, c->vocab_size - 1);
	int id = (int)json_integer_value(v);
	if (eos_known(c, id)) return 0;
	if (c->eos_token_id < 0) c->eos_token_id = id;
	else if (c->neos_extra < (int)ARRAY_LEN(c->eos_extra)) c->eos_extra[c->neos_extra++] = id;
	else return err_set(err, ERR_LIMIT, "%s: more than %zu eos ids", what, ARRAY_LEN(c->eos_extra) + 1);
	return 0;
}

static int eos_read(const json_t *o, const char *what, struct model_config *c, struct err *err)
{
	const json_t *v = json_object_get(o, "eos_token_id"), *e;
	if (!v || json_is_null(v)) return 0;
	if (!json_is_array(v)) return eos_add(v, what, c, err);
	size_t i;
	json_array_foreach(v, i, e)
	{
		int rc = eos_add(e, what, c, err);
		if (rc) return rc;
	}
	return 0;
}

static int token_read(
	const json_t *o, const char *what, const char *field, struct model_config *c, int *out, struct err *err)
{
	int64_t id = -1;
	if (json_is_null(json_object_get(o, field))) return 0;
	int rc = json_opt_int(o, what, field, -1, c->vocab_size - 1, &id, err);
	*out = (int)id;
	return rc;
}

/* generation_config.json lists the ids that really end a turn; instruct models have more of them
 * there than in config.json. */
static int generation_read(const char *dir, struct model_config *c, struct err *err)
{
	char *path = path_join(dir, "generation_config.json");
	json_t *o = NULL;
	int rc = path_exists(path) ? json_load(path, 1 << 20, &o, err) : 0;
	if (!rc && o) rc = eos_read(o, path, c, err);
	json_decref(o);
	free(path);
	return rc;
}

/* ---- load ---- */

struct int_field {
	const char *name;
	size_t offset;
	int min;
	int max;
	bool must; /* be there */
};
#define INT_FIELD(f, min, max, must) { #f, offsetof(struct model_config, f), min, max, must }
static const struct int_field int_fields[] = {
	INT_FIELD(vocab_size, 1, 1 << 24, true),
	INT_FIELD(hidden_size, 1, 1 << 17, true),
	INT_FIELD(num_hidden_layers, 1, 1024, true),
	INT_FIELD(num_attention_heads, 1, 4096, true),
	INT_FIELD(intermediate_size, 1, 1 << 20, true),
	INT_FIELD(num_key_value_heads, 1, 4096, false),
	INT_FIELD(head_dim, 2, 4096, false),
	INT_FIELD(max_position_embeddings, 1, 1 << 24, false),
};

static int sizes_read(
	const json_t *o, const char *what, const struct arch *arch, struct model_config *c, struct err *err)
{
	c->max_position_embeddings = arch->positions_default;
	for (size_t i = 0; i < ARRAY_LEN(int_fields); i++) {
		const struct int_field *f = &int_fields[i];
		int64_t v = 0;
		if (!f->must && !json_is_integer(json_object_get(o, f->name)) && json_is_off(json_object_get(o, f->name)))
			continue;
		int rc = json_get_int(o, what, f->name, f->min, f->max, &v, err);
		if (rc) return rc;
		*(int *)((char *)c + f->offset) = (int)v;
	}
	if (!c->num_key_value_heads && !json_object_get(o, "num_key_value_heads"))
		c->num_key_value_heads = arch->kv_heads_default;
	if (!c->num_key_value_heads) c->num_key_value_heads = c->num_attention_heads;
	if (!c->head_dim)
		c->head_dim = arch->head_dim_default ? arch->head_dim_default : c->hidden_size / c->num_attention_heads;
	return 0;
}

int model_config_check(const struct model_config *c, const char *what, struct err *err)
{
	if (c->num_attention_heads % c->num_key_value_heads)
		return err_set(err, ERR_RANGE, "%s: num_attention_heads %d is no multiple of num_key_value_heads %d", what,
			c->num_attention_heads, c->num_key_value_heads);
	if (c->head_dim < 2 || c->head_dim % 2)
		return err_set(err, ERR_RANGE, "%s: head_dim %d must be even", what, c->head_dim);
	if (!(c->rms_norm_eps > 0 && c->rms_norm_eps < 1))
		return err_set(err, ERR_RANGE, "%s: rms_norm_eps %g must lie between 0 and 1", what, c->rms_norm_eps);
	if (!(c->rope_theta >= 1 && c->rope_theta < 1e12))
		return err_set(err, ERR_RANGE, "%s: rope_theta %g must be at least 1", what, c->rope_theta);
	return 0;
}

static int config_read(const json_t *o, const char *what, struct model_config *c, struct err *err)
{
	const struct arch *arch = NULL;
	*c = (struct model_config){
		.rms_norm_eps = 1e-6, .rope_theta = 10000, .bos_token_id = -1, .eos_token_id = -1, .pad_token_id = -1};
	int rc = arch_get(o, what, &arch, err);
	if (!rc) rc = refuse_switches(o, what, err);
	if (!rc) rc = sizes_read(o, what, arch, c, err);
	if (!rc) rc = json_opt_num(o, what, "rms_norm_eps", &c->rms_norm_eps, err);
	if (!rc) rc = ropes_read(o, what, c, err);
	if (!rc) rc = json_opt_bool(o, what, "tie_word_embeddings", &c->tie_word_embeddings, err);
	if (!rc) rc = token_read(o, what, "bos_token_id", c, &c->bos_token_id, err);
	if (!rc) rc = token_read(o, what, "pad_token_id", c, &c->pad_token_id, err);
	if (!rc) rc = eos_read(o, what, c, err);
	if (rc) return rc;
	c->attention_bias = arch->attention_bias;
	c->qk_norm = arch->qk_norm;
	return model_config_check(c, what, err);
}

int model_config_load(const char *dir, struct model_config *out, struct err *err)
{
	char *path = path_join(dir, "config.json");
	json_t *o = NULL;
	int rc = json_load(path, 1 << 24, &o, err);
	if (rc == ERR_NOT_FOUND)
		err_set(err, rc,
			"%s: no such file; expected a Hugging Face model folder, as `hone init` and `hone import` make one too",
			path);
	if (!rc && !json_is_object(o)) rc = err_set(err, ERR_FORMAT, "%s: expected a JSON object", path);
	if (!rc) rc = config_read(o, path, out, err);
	if (!rc) rc = generation_read(dir, out, err);
	json_decref(o);
	free(path);
	return rc;
}

/* ---- save ---- */

static json_t *rope_json(const struct model_config *c, bool with_theta)
{
	json_t *o = json_pack("{s:s}", "rope_type", c->rope_factor ? "llama3" : "default");
	if (with_theta) json_object_set_new(o, "rope_theta", json_real(c->rope_theta));
	if (!c->rope_factor) return o;
	json_object_set_new(o, "factor", json_real(c->rope_factor));
	json_object_set_new(o, "low_freq_factor", json_real(c->rope_low_freq_factor));
	json_object_set_new(o, "high_freq_factor", json_real(c->rope_high_freq_factor));
	json_object_set_new(o, "original_max_position_embeddings", json_integer(c->rope_original_positions));
	return o;
}

static json_t *token_json(int id) { return id < 0 ? json_null() : json_integer(id); }

/* Several ids that end a sequence are a list. */
json_t *model_config_ends(const struct model_config *c)
{
	json_t *eos = token_json(c->eos_token_id);
	if (c->neos_extra) eos = json_pack("[o]", eos);
	for (int i = 0; i < c->neos_extra; i++) json_array_append_new(eos, json_integer(c->eos_extra[i]));
	return json_pack("{s:o, s:o, s:o}", "bos_token_id", token_json(c->bos_token_id), "eos_token_id", eos,
		"pad_token_id", token_json(c->pad_token_id));
}

static const struct arch *arch_of(const struct model_config *c)
{
	for (size_t i = 0; i < ARRAY_LEN(archs); i++)
		if (archs[i].attention_bias == c->attention_bias && archs[i].qk_norm == c->qk_norm) return &archs[i];
	return NULL;
}

int model_folder_begin(const char *dir, struct err *err)
{
	char *path = path_join(dir, "config.json");
	int rc = dir_make(dir, err);
	if (!rc && unlink(path) && errno != ENOENT)
		rc = err_set(err, ERR_IO, "%s: cannot replace: %s", path, strerror(errno));
	free(path);
	return rc;
}

int model_config_save_as(const char *dir, const struct model_config *c, enum dtype dtype, struct err *err)
{
	const struct arch *arch = arch_of(c);
	char *path = path_join(dir, "config.json");
	json_t *o = NULL;
	/* Only what could be loaded again is written: there has to be an architecture of this name, and
	 * the sizes have to fit. */
	int rc = arch
		? model_config_check(c, path, err)
		: err_set(err, ERR_UNSUPPORTED, "%s: no known architecture has both attention_bias and qk_norm", path);
	if (!rc) {
		/* The type stands under its old and its new name, so that readers of either find it. */
		o = json_pack("{s:[s], s:s, s:s, s:s, s:s, s:f, s:f, s:b, s:b, s:f}", "architectures", arch->name, "model_type",
			arch->model_type, "dtype", dtype_name(dtype), "torch_dtype", dtype_name(dtype), "hidden_act", "silu",
			"rms_norm_eps", c->rms_norm_eps, "rope_theta", c->rope_theta, "tie_word_embeddings", c->tie_word_embeddings,
			"use_cache", 1, "initializer_range", 0.02);
		/* Sizes are named and located by the table that loading uses too. */
		for (size_t i = 0; i < ARRAY_LEN(int_fields); i++)
			json_object_set_new(
				o, int_fields[i].name, json_integer(*(const int *)((const char *)c + int_fields[i].offset)));
		/* Rotary settings are written in the new spelling, which holds theta, and in the old one,
		 * where theta stands outside. */
		json_object_set_new(o, "rope_parameters", rope_json(c, true));
		json_object_set_new(o, "rope_scaling", c->rope_factor ? rope_json(c, false) : json_null());
		json_object_update_new(o, model_config_ends(c));
		rc = json_save(path, o, err);
	}
	json_decref(o);
	free(path);
	return rc;
}
