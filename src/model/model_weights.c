/* The parameter table: one row per tensor, with Hugging Face's names. It drives load, save,
 * gradients, the optimiser, comparison and printing.
 *
 * Where the backend computes from host memory, files of fp32 are mapped and used in place, whatever
 * the order of their tensors and in however many shards: each parameter points into the file.
 * Anything else goes through the backend's put into one block. Training all weights copies mapped
 * ones into such a block first; where the backend's elements are shorter than fp32 it fills the
 * masters from the file again, which therefore stays open. */
#include "model/model_internal.h"
#include "base/base.h"
#include "base/dtype.h"
#include "ops/ops.h"
#include "tensor/tensor.h"

#include <math.h>
#include <stdlib.h>

const struct proj_def proj_defs[PROJ_COUNT] = {
	[PROJ_Q] = {"q_proj", "self_attn"},
	[PROJ_K] = {"k_proj", "self_attn"},
	[PROJ_V] = {"v_proj", "self_attn"},
	[PROJ_O] = {"o_proj", "self_attn"},
	[PROJ_GATE] = {"gate_proj", "mlp"},
	[PROJ_UP] = {"up_proj", "mlp"},
	[PROJ_DOWN] = {"down_proj", "mlp"},
};

struct proj_shape proj_shape(const struct model_config *c, enum proj p)
{
	int C = c->hidden_size, Q = c->num_attention_heads * c->head_dim, KV = c->num_key_value_heads * c->head_dim,
		I = c->intermediate_size;
	const struct proj_shape shapes[PROJ_COUNT] = {{Q, C}, {KV, C}, {KV, C}, {C, Q}, {I, C}, {I, C}, {C, I}};
	return shapes[p];
}

const struct linear_def linear_defs[LINEAR_COUNT] = {
	[LINEAR_QKV] = {PROJ_Q, 3},
	[LINEAR_O] = {PROJ_O, 1},
	[LINEAR_GU] = {PROJ_GATE, 2},
	[LINEAR_DOWN] = {PROJ_DOWN, 1},
};

/* ---- the table ---- */

static struct param *add(struct model *m, int rows, int cols /* 0: a vector */, const char *fmt, ...)
	__attribute__((format(printf, 4, 5)));
static struct param *add(struct model *m, int rows, int cols, const char *fmt, ...)
{
	struct param *p = &m->params[m->nparams++];
	*p = (struct param){.ndim = cols ? 2 : 1,
		.shape = {rows, cols},
		.count = (int64_t)rows * (cols ? cols : 1),
		.w = {.rows = cols ? rows : 1, .cols = cols ? cols : rows, .ld = cols ? cols : rows},
		.changes = &m->changes};
	va_list ap;
	va_start(ap, fmt);
	vsnprintf(p->name, sizeof p->name, fmt, ap);
	va_end(ap);
	m->count += p->count;
	return p;
}

static void layer_table(struct model *m, int l)
{
	const struct model_config *c = &m->config;
	struct layer *y = &m->layers[l];
	y->norm1 = add(m, c->hidden_size, 0, "model.layers.%d.input_layernorm.weight", l);
	for (enum proj p = 0; p < PROJ_COUNT; p++) {
		struct proj_shape s = proj_shape(c, p);
		if (p == PROJ_GATE) y->norm2 = add(m, c->hidden_size, 0, "model.layers.%d.post_attention_layernorm.weight", l);
		y->weight[p] = add(m, s.out, s.in, "model.layers.%d.%s.%s.weight", l, proj_defs[p].parent, proj_defs[p].name);
		y->weight[p]->w.ld += tail_of(m->ops); /* B of an adapter lies behind each row */
		if (c->attention_bias && p <= PROJ_V)
			y->bias[p] = add(m, s.out, 0, "model.layers.%d.%s.%s.bias", l, proj_defs[p].parent, proj_defs[p].name);
		if (p != PROJ_V || !c->qk_norm) continue;
		y->q_norm = add(m, c->head_dim, 0, "model.layers.%d.self_attn.q_norm.weight", l);
		y->k_norm = add(m, c->head_dim, 0, "model.layers.%d.self_attn.k_norm.weight", l);
	}
}

struct model *model_alloc(const struct model_config *c, struct ops *ops)
{
	struct model *m = xcalloc(1, sizeof *m);
	m->config = *c;
	m->ops = ops;
	m->params = xcalloc((size_t)(3 + 14 * c->num_hidden_layers), sizeof *m->params);
	m->layers = xcalloc((size_t)c->num_hidden_layers, sizeof *m->layers);
	m->embed = add(m, c->vocab_size, c->hidden_size, "model.embed_tokens.weight");
	for (int l = 0; l < c->num_hidden_layers; l++) layer_table(m, l);
	m->norm = add(m, c->hidden_size, 0, "model.norm.weight");
	m->head = c->tie_word_embeddings ? m->embed : add(m, c->vocab_size, c->hidden_size, "lm_head.weight");
	return m;
}

static void linear_link(struct model *m, struct layer *y, enum linear l)
{
	const struct linear_def *d = &linear_defs[l];
	struct ops_linear *linear = &y->linear[l];
	linear->in = proj_shape(&m->config, d->first).in;
	linear->parts = d->parts;
	linear->out = 0;
	for (int i = 0; i < d->parts; i++) {
		const struct param *bias = y->bias[(int)d->first + i];
		linear->w[i] = y->weight[(int)d->first + i]->w;
		linear->out += linear->w[i].rows;
		if (bias) linear->bias[i] = bias->w;
	}
}

/* The stages' view of the parameters, after any of them moved. */
static void model_link(struct model *m)
{
	const struct model_config *c = &m->config;
	for (int l = 0; l < c->num_hidden_layers; l++) {
		struct layer *y = &m->layers[l];
		for (enum linear k = 0; k < LINEAR_COUNT; k++) linear_link(m, y, k);
		y->heads = (struct ops_heads){.NH = c->num_attention_heads,
			.NKV = c->num_key_value_heads,
			.HD = c->head_dim,
			.eps = (float)c->rms_norm_eps,
			.q_norm = y->q_norm ? &y->q_norm->w : NULL,
			.k_norm = y->k_norm ? &y->k_norm->w : NULL,
			.rope = m->rope};
	}
	m->head_linear.in = c->hidden_size;
	m->head_linear.out = c->vocab_size;
	m->head_linear.parts = 1;
	m->head_linear.w[0] = m->head->w;
}

/* ---- memory of parameters ---- */

#define ALIGNMENT 256

/* On the host fp32 parameters lie without gaps, so that the optimiser sees neighbours as one. */
static size_t param_bytes(const struct ops *ops, const struct param *p)
{
	size_t bytes = size_mul(size_mul((size_t)p->w.rows, (size_t)p->w.ld), (size_t)ops->elem_bytes);
	return ops->host_memory ? bytes : (bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
}

size_t params_bytes(const struct ops *ops, const struct param *params, int n)
{
	size_t bytes = 0;
	for (int i = 0; i < n; i++) bytes += param_bytes(ops, &params[i]);
	return bytes;
}

void params_carve(const struct ops *ops, struct param *params, int n, void *block)
{
	char *at = block;
	for (int i = 0; i < n; at += param_bytes(ops, &params[i++])) params[i].w.w = (struct elem *)at;
}

void params_carve_masters(const struct ops *ops, struct param *params, int n, struct f32 *masters)
{
	for (int i = 0; i < n; i++) {
		params[i].w.master = ops->host_memory ? (struct f32 *)params[i].w.w : masters;
		if (masters) masters = f32_at(masters, params[i].count);
	}
}

/* Gradients, without gaps in table order; NULL: frozen. */
static void params_carve_grads(struct param *params, int n, struct f32 *grads)
{
	for (int i = 0; i < n; i++) {
		params[i].w.grad = grads;
		if (grads) grads = f32_at(grads, params[i].count);
	}
}

int64_t model_config_params(const struct model_config *c)
{
	struct model *m = model_alloc(c, NULL);
	int64_t count = m->count;
	model_free(m);
	return count;
}

/* ---- open ---- */

static bool is_ignored(const struct model *m, const char *name)
{
	if (text_ends_in(name, ".rotary_emb.inv_freq")) return true; /* a constant that old Llama files carry */
	return m->config.tie_word_embeddings &&
		!strcmp(name, "lm_head.weight"); /* some tied models are stored with a copy */
}

/* Every tensor of the table is there with its shape and a float type, and nothing else that would
 * change the result. */
static int tensors_check(
	const struct model *m, const struct safetensors *s, const struct tensor_info **found, struct err *err)
{
	size_t used = 0;
	/* Each parameter has to be there, in a type that can be converted to floats. */
	for (int i = 0; i < m->nparams; i++) {
		const struct param *p = &m->params[i];
		int rc = safetensors_get(s, p->name, p->ndim, p->shape, &found[i], err);
		if (rc) return rc;
		if (!dtype_is_float(found[i]->dtype))
			return err_set(err, ERR_UNSUPPORTED, "%s: type %s; expected a floating point type", p->name,
				dtype_name(found[i]->dtype));
	}
	/* All parameters were found, so as many tensors as parameters mean that there is no other. */
	for (size_t i = 0; i < safetensors_count(s); i++) used += !is_ignored(m, safetensors_at(s, i)->name);
	if (used == (size_t)m->nparams) return 0;
	for (size_t i = 0; i < safetensors_count(s); i++) {
		const char *name = safetensors_at(s, i)->name;
		bool known = is_ignored(m, name);
		for (int k = 0; k < m->nparams && !known; k++) known = !strcmp(m->params[k].name, name);
		/* The first tensor that we do not know is named, as the config and the weights then
		 * disagree. */
		if (known) continue;
		/* Scales come from a quantised export, and for these there is a remedy to tell. */
		if (strstr(name, "_scale") || strstr(name, ".scales") || strstr(name, "qzeros"))
			return err_set(err, ERR_UNSUPPORTED,
				"tensor %s scales quantised weights, which is not supported; export the model in bfloat16 or float32",
				name);
		return err_set(err, ERR_UNSUPPORTED,
			"tensor %s is not part of this architecture; the config and the weights do not belong together", name);
	}
	return 0;
}

/* A mapping can be used in place when the backend computes from host memory
 * and all of it is fp32. */
static bool is_usable(const struct model *m, const struct tensor_info *const *found)
{
	if (!m->ops->host_memory) return false;
	for (int i = 0; i < m->nparams; i++)
		if (found[i]->dtype != DTYPE_F32) return false;
	return true;
}

static void block_alloc(struct model *m)
{
	m->block = m->ops->alloc(m->ops->ctx, params_bytes(m->ops, m->params, m->nparams));
	params_carve(m->ops, m->params, m->nparams, m->block);
}

/* A device that cannot hold the weights says so before it is asked to; so does the host, of weights
 * that it does not map. */
static int room_check(const struct model *m, const char *what, struct err *err)
{
	double mib = 1.0 / (1 << 20), needed = (double)params_bytes(m->ops, m->params, m->nparams) * mib,
		   has = (double)model_memory(m) * mib;
	if (needed <= has) return 0;
	return err_set(err, ERR_LIMIT, "%s: the weights need %.0f MiB on device %s, which has %.0f MiB%s", what, needed,
		m->ops->name, has,
		m->ops->host_memory ? "; take a smaller model, or more memory"
							: " free; take a smaller model, or --device cpu");
}

int model_limits_check(const struct model_config *c, const struct ops *ops, const char *what, struct err *err)
{
	const struct ops_limits *l = ops->limits;
	const char *advice = ops->host_memory ? "take another model" : "take another model, or --device cpu";
	if (!l) return 0;
	if (c->head_dim % l->head_step || c->head_dim > l->head_max)
		return err_set(err, ERR_UNSUPPORTED, "%s: heads of %d elements; device %s takes multiples of %d up to %d; %s",
			what, c->head_dim, ops->name, l->head_step, l->head_max, advice);
	if (c->num_attention_heads / c->num_key_value_heads > l->group_max)
		return err_set(err, ERR_UNSUPPORTED,
			"%s: %d query heads on %d key heads; device %s takes at most %d on each; %s", what, c->num_attention_heads,
			c->num_key_value_heads, ops->name, l->group_max, advice);
	if (c->vocab_size > l->vocab_max)
		return err_set(err, ERR_UNSUPPORTED, "%s: a vocabulary of %d tokens; device %s takes at most %d; %s", what,
			c->vocab_size, ops->name, l->vocab_max, advice);
	if (c->hidden_size % l->hidden_step || c->hidden_size > l->hidden_max)
		return err_set(err, ERR_UNSUPPORTED, "%s: a hidden size of %d; device %s takes multiples of %d up to %d; %s",
			what, c->hidden_size, ops->name, l->hidden_step, l->hidden_max, advice);
	if (c->intermediate_size % l->hidden_step)
		return err_set(err, ERR_UNSUPPORTED, "%s: an MLP of %d columns; device %s takes multiples of %d; %s", what,
			c->intermediate_size, ops->name, l->hidden_step, advice);
	return 0;
}

static void source_close(struct model *m)
{
	safetensors_close(m->source);
	m->source = NULL;
}

/* Values from the source, into weights and masters. */
static void fill_from_file(struct model *m)
{
	for (int i = 0; i < m->nparams; i++) {
		const struct tensor_info *t = safetensors_find(m->source, m->params[i].name);
		param_put(m->ops, &m->params[i], t->data, t->dtype);
	}
}

int model_open(const char *dir, struct ops *ops, struct model **out, struct err *err)
{
	struct model_config c;
	struct safetensors *s = NULL;
	struct model *m = NULL;
	const struct tensor_info **found = NULL;
	/* The shape from config.json, and the file's tensors against it. */
	int rc = model_config_load(dir, &c, err);
	if (!rc) rc = model_limits_check(&c, ops, dir, err);
	if (!rc) rc = safetensors_open(dir, &s, err);
	if (rc) return rc;
	m = model_alloc(&c, ops);
	m->dir = xstrdup(dir);
	found = xcalloc((size_t)m->nparams, sizeof *found);
	rc = tensors_check(m, s, found, err);
	if (rc) err_prefix(err, "%s", dir);
	bool is_mapped = !rc && is_usable(m, found);
	if (!rc && !is_mapped) rc = room_check(m, dir, err);
	if (rc) {
		model_free(m);
		m = NULL;
	} else if (is_mapped) {
		/* Read only; model_enable_grad copies before anything writes. */
		for (int i = 0; i < m->nparams; i++) m->params[i].w.w = (struct elem *)(uintptr_t)found[i]->data;
		m->source = s;
	} else {
		/* Other types, another order, or a device's memory: a copy, after which the file may go. */
		m->source = s;
		block_alloc(m);
		fill_from_file(m);
		if (ops->host_memory) source_close(m);
	}
	if (m) model_link(m);
	else safetensors_close(s);
	free(found);
	*out = m;
	return rc;
}

/* ---- create ---- */

/* Residual branches end in o_proj and down_proj: their scale keeps the stream's variance
 * independent of depth (GPT-2). */
static float init_std(const struct model *m, const struct param *p)
{
	for (int l = 0; l < m->config.num_hidden_layers; l++)
		if (p == m->layers[l].weight[PROJ_O] || p == m->layers[l].weight[PROJ_DOWN])
			return 0.02f / sqrtf(2.0f * (float)m->config.num_hidden_layers);
	return 0.02f;
}

static bool is_norm(const struct param *p) { return strstr(p->name, "norm.weight") != NULL; }

#define DRAW_GRAIN 16384 /* values that a thread draws at a time */

/* One array's values by their places alone, so that any number of threads makes the same ones. */
struct drawn {
	float *host;     /* [count] */
	float std;       /* of the normal distribution */
	uint64_t seed;   /* the model's */
	uint64_t stream; /* the array's number */
};

static void draw_chunk(void *arg, int64_t begin, int64_t end, int thread)
{
	const struct drawn *d = arg;
	for (int64_t k = begin; k < end; k++) d->host[k] = d->std * rng_normal(d->seed, d->stream, (uint64_t)k);
}

void param_draw(void *ctx, size_t i, void *out)
{
	const struct draw *d = ctx;
	const struct param *p = &d->m->params[i];
	struct drawn array = {out, init_std(d->m, p), d->m->seed, (uint64_t)i};
	/* Norms begin at 1, biases at 0; matrices are drawn. */
	if (p->ndim > 1) pool_run(d->pool, p->count, DRAW_GRAIN, draw_chunk, &array);
	else
		for (int64_t k = 0; k < p->count; k++) array.host[k] = is_norm(p) ? 1.0f : 0.0f;
}

static void fill_from_seed(struct model *m)
{
	struct draw draw = {.m = m, .pool = pool_create(0)};
	float *host = NULL;
	for (int i = 0; i < m->nparams; i++) {
		host = xrealloc(host, size_mul((size_t)m->params[i].count, sizeof(float)));
		param_draw(&draw, (size_t)i, host);
		param_put(m->ops, &m->params[i], host, DTYPE_F32);
	}
	free(host);
	pool_free(draw.pool);
}

int model_shape_check(const struct model_config *c, struct err *err)
{
	if (c->attention_bias && c->qk_norm)
		return err_set(err, ERR_UNSUPPORTED, "no known architecture has both attention_bias and qk_norm");
	if (c->num_key_value_heads < 1 || c->num_attention_heads % c->num_key_value_heads || c->head_dim < 2 ||
		c->head_dim % 2)
		return err_set(err, ERR_RANGE,
			"model: heads %d, key/value heads %d, head_dim %d; the first must be a multiple of the second, the third "
			"even",
			c->num_attention_heads, c->num_key_value_heads, c->head_dim);
	return 0;
}

/* A model of a shape that the backend takes and has room for, without weights yet. */
static int model_shaped(const struct model_config *c, struct ops *ops, struct model **out, struct err *err)
{
	int rc = model_shape_check(c, err);
	if (!rc) rc = model_limits_check(c, ops, "model", err);
	if (rc) return rc;
	struct model *m = model_alloc(c, ops);
	rc = room_check(m, "a model of such a shape", err);
	if (rc) model_free(m);
	else *out = m;
	return rc;
}

int model_create(const struct model_config *c, uint64_t seed, struct ops *ops, struct model **out, struct err *err)
{
	struct model *m;
	int rc = model_shaped(c, ops, &m, err);
	if (rc) return rc;
	m->seed = seed;
	block_alloc(m);
	fill_from_seed(m);
	model_link(m);
	*out = m;
	return 0;
}

int model_create_from(
	const struct model_config *c, model_fill_fn *fill, void *ctx, struct ops *ops, struct model **out, struct err *err)
{
	struct model *m;
	int rc = model_shaped(c, ops, &m, err);
	if (rc) return rc;
	m->is_frozen = true;
	block_alloc(m);
	for (int i = 0; i < m->nparams; i++) {
		enum dtype dtype;
		const void *values = fill(ctx, &m->params[i], &dtype);
		param_put(ops, &m->params[i], values, dtype);
	}
	model_link(m);
	*out = m;
	return 0;
}

/* ---- copies in the backend's order ---- */

static void each_linear(struct model *m, void visit(struct ops *ops, struct ops_linear *l))
{
	for (int l = 0; l < m->config.num_hidden_layers; l++)
		for (enum linear k = 0; k < LINEAR_COUNT; k++) visit(m->ops, &m->layers[l].linear[k]);
	visit(m->ops, &m->head_linear);
}

static void prepare(struct ops *ops, struct ops_linear *l)
{
	if (!l->w[0].grad || ops->host_memory) ops->prepare(ops->ctx, l);
}
static void forget(struct ops *ops, struct ops_linear *l) { ops->forget(ops->ctx, l); }

void model_prepare(struct model *m)
{
	if (m->is_prepared && m->prepared_changes != m->changes) each_linear(m, forget);
	each_linear(m, prepare);
	m->is_prepared = true;
	m->prepared_changes = m->changes;
}

void model_free(struct model *m)
{
	if (!m) return;
	if (m->ops) { /* none: only its shapes were asked for */
		each_linear(m, forget);
		m->ops->release(m->ops->ctx, m->block);
		m->ops->release(m->ops->ctx, m->masters);
		m->ops->release(m->ops->ctx, m->grads);
		m->ops->release(m->ops->ctx, m->rope);
	}
	safetensors_close(m->source);
	free(m->dir);
	free(m->params);
	free(m->layers);
	free(m);
}

const struct model_config *model_config(const struct model *m) { return &m->config; }
struct ops *model_ops(const struct model *m) { return m->ops; }
struct param *model_params(struct model *m, int *count)
{
	*count = m->nparams;
	return m->params;
}

/* ---- gradients ---- */

/* A block of our own for mapped weights: they are about to be written. */
static void model_own(struct model *m)
{
	if (m->block) return;
	block_alloc(m);
	fill_from_file(m);
	source_close(m);
}

/* fp32 masters beside shorter weights, with the values that the weights were rounded from. */
static void masters_make(struct model *m)
{
	if (!m->ops->host_memory && !m->masters) {
		m->masters = m->ops->alloc(m->ops->ctx, size_mul((size_t)m->count, sizeof(float)));
		params_carve_masters(m->ops, m->params, m->nparams, m->masters);
		if (m->source) fill_from_file(m);
		else fill_from_seed(m);
	}
	params_carve_masters(m->ops, m->params, m->nparams, m->masters);
}

static struct f32 *grads_alloc(struct ops *ops, struct f32 *grads, int64_t count)
{
	size_t bytes = size_mul((size_t)count, sizeof(float));
	if (!grads) return ops->alloc(ops->ctx, bytes);
	ops->zero(ops->ctx, grads, bytes);
	return grads;
}

void model_enable_grad(struct model *m, struct adapter *a)
{
	if (a) {
		params_carve_grads(m->params, m->nparams, NULL);
		a->grads = grads_alloc(m->ops, a->grads, a->count);
		params_carve_grads(a->params, a->nparams, a->grads);
		adapter_link(a);
		model_link(m);
		return;
	}
	CHECKF(!m->is_frozen, "all weights of a model that cannot be filled again are to be trained");
	each_linear(m, forget);
	m->is_prepared = false;
	model_own(m);
	masters_make(m);
	m->grads = grads_alloc(m->ops, m->grads, m->count);
	params_carve_grads(m->params, m->nparams, m->grads);
	model_link(m);
}

void params_zero_grad(struct ops *ops, struct param *params, int count)
{
	for (int i = 0; i < count; i++)
		if (params[i].w.grad) ops->zero(ops->ctx, params[i].w.grad, (size_t)params[i].count * sizeof(float));
}
