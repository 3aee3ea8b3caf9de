/* What `hone bench gpu` settles before it measures: the model, the sizes of its parts, and what
 * they take of the device's memory. */
#include "base/base.h"
#include "cli/bench_gpu.h"
#include "infer/infer.h"
#include "model/model.h"
#include "ops/ops.h"

struct model_config gpu_config(const struct shape *s, const struct gpu_options *o)
{
	return (struct model_config){
		.vocab_size = s->vocab,
		.hidden_size = s->hidden,
		.num_hidden_layers = o->layers ? (int)o->layers : s->layers,
		.num_attention_heads = s->heads,
		.num_key_value_heads = s->kv_heads,
		.head_dim = s->head_dim,
		.intermediate_size = s->intermediate,
		.max_position_embeddings = GPU_CONTEXT_MAX + MAX(GPU_PROMPT, ENGINE_FUSED_MAX),
		.rms_norm_eps = 1e-6,
		.rope_theta = 1e6,
		.tie_word_embeddings = s->is_tied,
		.qk_norm = s->qk_norm,
		.bos_token_id = -1,
		.eos_token_id = -1,
		.pad_token_id = -1,
	};
}

bool gpu_is_listed(const char *list, const char *name)
{
	size_t len = strlen(name);
	for (const char *s = list; *s; s += strcspn(s, ",") + (s[strcspn(s, ",")] == ','))
		if (strcspn(s, ",") == len && !memcmp(s, name, len)) return true;
	return false;
}

bool gpu_is_wanted(const struct gpu_bench *b, const char *part)
{
	return gpu_is_listed(b->o->parts ? b->o->parts : b->shape->parts, part);
}

/* ---- ceilings ---- */

#define COPY_BYTES ((size_t)4 << 30)     /* both halves: much more than any L2 holds */
#define COPY_HOST_BYTES ((size_t)64 << 20)
#define COPY_LEAST ((size_t)512 << 20)   /* on a device: less would be measured in its L2 */

size_t gpu_copy_bytes(const struct gpu_bench *b)
{
	const struct ops *o = b->ops;
	size_t pair = (size_t)2 * GPU_COPY_PAGE * (size_t)o->elem_bytes,
		   most = MIN(o->host_memory ? COPY_HOST_BYTES : COPY_BYTES, model_memory(b->m) / 2);
	return MAX(most / pair, 1) * pair;
}

int gpu_product_side(const struct ops *o) { return o->host_memory ? 256 : 8192; }

size_t gpu_product_bytes(const struct ops *o)
{
	size_t side = (size_t)gpu_product_side(o);
	return side * (side + (size_t)o->tail) * (size_t)o->elem_bytes;
}

int gpu_ceilings_check(const struct gpu_bench *b, struct err *err)
{
	const struct ops *o = b->ops;
	size_t copy = o->host_memory ? 0 : 2 * COPY_LEAST, needed = MAX(copy, 5 * gpu_product_bytes(o)),
		   has = model_memory(b->m);
	double mib = 1.0 / (1 << 20);
	if (needed <= has) return 0;
	return err_set(err, ERR_LIMIT,
		"the ceilings, a copy and a product, are measured in %.0f MiB, but %.0f MiB are free beside the weights; a "
		"larger --memory, or fewer --layers",
		mib * (double)needed, mib * (double)has);
}

/* ---- decode, training ---- */

int gpu_context(const struct gpu_bench *b) { return b->o->context ? (int)b->o->context : b->shape->context; }

struct step_options gpu_decode_step(const struct gpu_bench *b, int batch)
{
	int context = gpu_context(b), k = engine_fused_steps(b->ops, &b->c, batch, context);
	return (struct step_options){.rows = batch,
		.sequences = batch,
		.pages = (context + k - 1 + OPS_PAGE - 1) / OPS_PAGE,
		.wanted = batch,
		.steps = k};
}

struct engine_options gpu_rollout_engine(const struct gpu_bench *b)
{
	return (struct engine_options){
		.max_sequences = GPU_PROMPTS * GPU_ANSWERS, .max_context = GPU_PROMPT + (int)b->o->answer};
}

size_t gpu_training_bytes(const struct gpu_bench *b, const struct pass_options *po)
{
	struct device_plan d = {.pass = *po, .passes = 1, .adapter_rank = GPU_RANK};
	struct engine_options e = gpu_rollout_engine(b);
	size_t bytes = pass_bytes(b->ops, &b->c, po);
	if (gpu_is_wanted(b, "rollout")) {
		bytes += engine_bytes(b->ops, &b->c, &e);
		engine_device_plan(&e, &d);
	}
	return bytes + plan_device_bytes(b->ops, &b->c, &d);
}

bool gpu_recomputes(const struct gpu_bench *b, const struct pass_options *po)
{
	return gpu_training_bytes(b, po) > model_memory(b->m);
}
