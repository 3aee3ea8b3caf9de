/* Adapters as PEFT's folders: adapter_config.json and adapter_model.safetensors. PEFT has many
 * variants of LoRA; each key of its config is listed here with what may stand there. A key that
 * would change the computation in a way that this room does not implement is refused by name. */
#include "model/model_internal.h"
#include "base/base.h"
#include "tensor/tensor.h"

#include <stdlib.h>

/* Keys that change what is computed: absent, null, false, 0 or empty only. */
static const char *const refused_keys[] = {
	"use_dora",
	"use_qalora",
	"use_bdlora",
	"lora_bias",
	"fan_in_fan_out",
	"modules_to_save",
	"rank_pattern",
	"alpha_pattern",
	"layers_to_transform",
	"layer_replication",
	"exclude_modules",
	"target_parameters",
	"trainable_token_indices",
	"loftq_config",
	"eva_config",
	"corda_config",
	"lora_ga_config",
	"arrow_config",
	"alora_invocation_tokens",
	"megatron_config",
	"velora_config",
	"monteclora_config",
	"kasa_config",
};
/* Keys without effect on a plain LoRA, whatever they say. */
static const char *const free_keys[] = {
	"auto_mapping",
	"base_model_name_or_path",
	"inference_mode",
	"layers_pattern",
	"megatron_core",
	"peft_version",
	"qalora_group_size",
	"revision",
	"runtime_config",
	"ensure_weight_tying",
	"peft_type",
	"task_type",
	"r",
	"lora_alpha",
	"lora_dropout",
	"target_modules",
	"use_rslora",
	"bias",
	"init_lora_weights",
};

static bool is_listed(const char *key, const char *const *list, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (!strcmp(key, list[i])) return true;
	return false;
}

static int keys_check(json_t *o, const char *what, struct err *err)
{
	const char *key;
	json_t *v;
	json_object_foreach(o, key, v)
	{
		if (is_listed(key, free_keys, ARRAY_LEN(free_keys)) || json_is_off(v)) continue;
		if (is_listed(key, refused_keys, ARRAY_LEN(refused_keys)))
			return err_set(err, ERR_UNSUPPORTED, "%s: \"%.60s\" is set, which is not supported", what, key);
		return err_set(
			err, ERR_UNSUPPORTED, "%s: \"%.60s\" is set and unknown here; it may change the result", what, key);
	}
	return 0;
}

static int text_check(const json_t *o, const char *what, const char *key, const char *expected, struct err *err)
{
	const char *v = expected;
	int rc = json_is_null(json_object_get(o, key)) ? 0 : json_opt_str(o, what, key, &v, err);
	return rc || !strcmp(v, expected)
		? rc
		: err_set(err, ERR_UNSUPPORTED, "%s: %s is \"%.40s\"; only \"%s\" is supported", what, key, v, expected);
}

/* Some ways to start an adapter take what they put into it out of the base weights: such an adapter
 * belongs to other weights than the base's files hold. */
static int init_check(const json_t *o, const char *what, struct err *err)
{
	static const char *const harmless[] = {"gaussian", "orthogonal", "eva"};
	const char *init = json_string_value(json_object_get(o, "init_lora_weights"));
	if (!init || is_listed(init, harmless, ARRAY_LEN(harmless))) return 0;
	return err_set(err, ERR_UNSUPPORTED,
		"%s: init_lora_weights \"%.40s\" changes the base weights, which is not supported; convert the adapter to a "
		"plain LoRA"
		" with peft",
		what, init);
}

/* The projection that a module's path ends in ("model.layers.0.self_attn.q_proj", "q_proj"),
 * PROJ_COUNT when none. */
static enum proj proj_of(const char *module, size_t len)
{
	enum proj p = 0;
	for (; p < PROJ_COUNT; p++) {
		size_t n = strlen(proj_defs[p].name);
		if (len >= n && !memcmp(module + len - n, proj_defs[p].name, n) && (len == n || module[len - n - 1] == '.'))
			break;
	}
	return p;
}

/* A pattern is PEFT's to match; what it matched has tensors. */
static void targets_of_tensors(const struct safetensors *s, bool targets[PROJ_COUNT])
{
	static const char tail[] = ".lora_A.weight";
	for (size_t i = 0; i < safetensors_count(s); i++) {
		const char *name = safetensors_at(s, i)->name;
		size_t len = strlen(name), n = sizeof tail - 1;
		if (!text_ends_in(name, tail)) continue;
		enum proj p = proj_of(name, len - n);
		if (p < PROJ_COUNT) targets[p] = true;
	}
}

/* Names, paths that end in a name, or a pattern. That each of them is adapted in every layer is
 * seen when the tensors are loaded. */
static int targets_read(
	const json_t *o, const char *what, const struct safetensors *s, bool targets[PROJ_COUNT], struct err *err)
{
	const json_t *list = json_object_get(o, "target_modules"), *v;
	size_t i;
	bool any = false;
	if (json_is_string(list)) targets_of_tensors(s, targets);
	else if (!json_array_size(list))
		return err_set(
			err, ERR_UNSUPPORTED, "%s: target_modules must be a list of projection names or a pattern", what);
	json_array_foreach(list, i, v)
	{
		const char *name = json_is_string(v) ? json_string_value(v) : "?";
		enum proj p = proj_of(name, strlen(name));
		if (p == PROJ_COUNT)
			return err_set(
				err, ERR_UNSUPPORTED, "%s: target module \"%.60s\" is not one of the seven projections", what, name);
		targets[p] = true;
	}
	for (enum proj p = 0; p < PROJ_COUNT; p++) any = any || targets[p];
	return any ? 0
			   : err_set(err, ERR_UNSUPPORTED, "%s: target_modules \"%.60s\" adapts none of the seven projections",
					 what, json_string_value(list));
}

static int config_read(
	json_t *o, const char *what, const struct safetensors *s, struct model *m, struct adapter **out, struct err *err)
{
	int64_t r = 0;
	double alpha = 8, dropout = 0;
	bool rslora = false, targets[PROJ_COUNT] = {false};
	int rc = text_check(o, what, "peft_type", "LORA", err);
	if (!rc) rc = text_check(o, what, "bias", "none", err);
	if (!rc) rc = text_check(o, what, "task_type", "CAUSAL_LM", err);
	if (!rc) rc = json_get_int(o, what, "r", 1, ADAPTER_RANK_MAX, &r, err);
	if (!rc) rc = json_opt_num(o, what, "lora_alpha", &alpha, err);
	if (!rc) rc = json_opt_num(o, what, "lora_dropout", &dropout, err);
	if (!rc) rc = json_opt_bool(o, what, "use_rslora", &rslora, err);
	if (!rc) rc = init_check(o, what, err);
	if (!rc) rc = targets_read(o, what, s, targets, err);
	if (!rc && !(alpha > 0 && alpha < 1e6 && dropout >= 0 && dropout < 1))
		rc = err_set(
			err, ERR_RANGE, "%s: lora_alpha %g must be positive and lora_dropout %g in [0, 1)", what, alpha, dropout);
	if (!rc) rc = adapter_alloc(m, (int)r, alpha, dropout, rslora, targets, out, err);
	return rc;
}

static int weights_open(const char *dir, const char *path, struct safetensors **out, struct err *err)
{
	char *pickle = path_join(dir, "adapter_model.bin");
	bool is_pickle = !path_exists(path) && path_exists(pickle);
	free(pickle);
	if (is_pickle)
		return err_set(err, ERR_UNSUPPORTED,
			"%s: adapter_model.bin is not supported; save the adapter with peft as safetensors", dir);
	return safetensors_open(path, out, err);
}

static int config_load(const char *config, json_t **o, struct err *err)
{
	int rc = json_load(config, 1 << 20, o, err);
	if (rc == ERR_NOT_FOUND)
		err_set(err, rc,
			"%s: no such file; expected a PEFT adapter folder, as `hone sft` and `hone rl` write one (final/)", config);
	if (!rc && !json_is_object(*o)) rc = err_set(err, ERR_FORMAT, "%s: expected a JSON object", config);
	return rc;
}

int adapter_open(struct model *m, const char *dir, struct adapter **out, struct err *err)
{
	char *config = path_join(dir, "adapter_config.json"), *weights = path_join(dir, "adapter_model.safetensors");
	struct safetensors *s = NULL;
	json_t *o = NULL;
	*out = NULL;
	int rc = config_load(config, &o, err);
	if (!rc) rc = keys_check(o, config, err);
	if (!rc) rc = weights_open(dir, weights, &s, err);
	if (!rc) rc = config_read(o, config, s, m, out, err);
	if (!rc) rc = params_read(m->ops, (*out)->params, (*out)->nparams, s, weights, err);
	if (rc) {
		adapter_free(*out);
		*out = NULL;
	}
	safetensors_close(s);
	json_decref(o);
	free(config);
	free(weights);
	return rc;
}

int adapter_rank(const char *dir, int *r, struct err *err)
{
	char *config = path_join(dir, "adapter_config.json");
	json_t *o = NULL;
	int64_t rank = 0;
	int rc = config_load(config, &o, err);
	if (!rc) rc = json_get_int(o, config, "r", 1, ADAPTER_RANK_MAX, &rank, err);
	*r = (int)rank;
	json_decref(o);
	free(config);
	return rc;
}

/* ---- save ---- */

static json_t *config_json(const struct adapter *a, const char *base_model)
{
	json_t *targets = json_array();
	for (enum proj p = 0; p < PROJ_COUNT; p++)
		if (a->targets[p]) json_array_append_new(targets, json_string(proj_defs[p].name));
	json_t *o = json_pack("{s:s, s:s, s:s, s:i, s:f, s:f, s:b, s:o, s:b, s:b, s:b}", "peft_type", "LORA", "task_type",
		"CAUSAL_LM", "bias", "none", "r", a->r, "lora_alpha", a->alpha, "lora_dropout", a->dropout, "use_rslora",
		a->is_rslora, "target_modules", targets, "fan_in_fan_out", 0, "inference_mode", 1, "init_lora_weights", 1);
	json_object_set_new(o, "base_model_name_or_path", base_model ? json_string(base_model) : json_null());
	return o;
}

int adapter_save(const struct adapter *a, const char *dir, const char *base_model, struct err *err)
{
	char *config = path_join(dir, "adapter_config.json"), *weights = path_join(dir, "adapter_model.safetensors");
	json_t *o = config_json(a, base_model ? base_model : a->model->dir);
	int rc = dir_make(dir, err);
	if (!rc) rc = json_save(config, o, err);
	if (!rc) rc = params_save(a->model->ops, a->params, a->nparams, weights, err);
	json_decref(o);
	free(config);
	free(weights);
	return rc;
}
