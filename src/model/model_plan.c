/* Memory plans. The sums are those of the create functions, over the same tables, so that what is
 * printed before a run is what it allocates. */
#include "model/model_internal.h"
#include "base/base.h"
#include "ops/cpu_figures.h"
#include "ops/cuda_figures.h"
#include "ops/ops.h"

#include <stdlib.h>

#define MIB (1.0 / (1 << 20))

void plan_add(struct memory_plan *p, const char *name, size_t bytes, const char *fmt, ...)
{
	CHECKF(p->count < PLAN_LINES_MAX, "a memory plan of more than %d lines", PLAN_LINES_MAX);
	struct plan_line *l = &p->lines[p->count++];
	*l = (struct plan_line){.name = name, .bytes = bytes};
	va_list ap;
	va_start(ap, fmt);
	vsnprintf(l->what, sizeof l->what, fmt, ap);
	va_end(ap);
}

size_t plan_total(const struct memory_plan *p)
{
	size_t total = 0;
	for (int i = 0; i < p->count; i++) total += p->lines[i].bytes;
	return total;
}

void plan_print(const struct memory_plan *p, const char *room_of, size_t room, FILE *out)
{
	size_t total = plan_total(p);
	for (int i = 0; i < p->count; i++) {
		const struct plan_line *l = &p->lines[i];
		fprintf(out, "%-12s %10.1f MiB%s%s\n", l->name, (double)l->bytes * MIB, *l->what ? "   " : "", l->what);
	}
	fprintf(out, "%-12s %10.1f MiB", "total", (double)total * MIB);
	if (room)
		fprintf(
			out, "   %s %.1f MiB: %s\n", room_of, (double)room * MIB, total <= room ? "it fits" : "it does not fit");
	else fprintf(out, "   no such device here to compare with; --memory says what it would have\n");
}

int plan_check(const struct memory_plan *p, const char *room_of, size_t room, const char *advice, struct err *err)
{
	size_t total = plan_total(p);
	struct str sum = {0};
	if (!room || total <= room) return 0;
	for (int i = 0; i < p->count; i++)
		if (p->lines[i].bytes >= 1 << 20)
			str_printf(&sum, "%s%s %.0f", sum.len ? " + " : "", p->lines[i].name, (double)p->lines[i].bytes * MIB);
	err_set(err, ERR_LIMIT, "memory: %s = %.0f MiB, but %s %.0f MiB; %s", sum.data, (double)total * MIB, room_of,
		(double)room * MIB, advice);
	str_release(&sum);
	return ERR_LIMIT;
}

int64_t plan_largest(int64_t least, int64_t most, plan_fits_fn *fits, void *ctx)
{
	int64_t low = least - 1;
	while (low < most) {
		int64_t middle = (low + most + 1) / 2;
		if (fits(ctx, middle)) low = middle;
		else most = middle - 1;
	}
	return low;
}

/* ---- what the parts of a run take ---- */

/* Of the working weights. */
static size_t model_config_bytes(const struct ops *ops, const struct model_config *c)
{
	struct model *m = model_alloc(c, (struct ops *)(uintptr_t)ops);
	size_t bytes = params_bytes(ops, m->params, m->nparams);
	m->ops = NULL; /* a description has no functions to free with, and nothing was allocated */
	model_free(m);
	return bytes;
}

/* Values of an adapter, and the bytes of its working copies. */
static int64_t adapter_values(
	const struct ops *ops, const struct model_config *c, int r, const char *targets, size_t *bytes)
{
	bool is_target[PROJ_COUNT];
	struct err unknown; /* said where the adapter is made */
	int64_t values = 0;
	*bytes = 0;
	if (targets_parse(targets, is_target, &unknown)) return 0;
	for (enum proj p = 0; p < PROJ_COUNT; p++) {
		struct proj_shape s = proj_shape(c, p);
		struct param sides[2] = {
			{.w = {.rows = r, .cols = s.in, .ld = s.in}}, {.w = {.rows = s.out, .cols = r, .ld = r}}};
		if (!is_target[p]) continue;
		values += (int64_t)c->num_hidden_layers * r * (s.in + s.out);
		*bytes += (size_t)c->num_hidden_layers * params_bytes(ops, sides, 2);
	}
	return values;
}

/* Projections and the head once more, in the order in which generation reads them (model_prepare):
 * the CPU alone keeps such copies, and of weights that are trained only for an engine. As fp32: at
 * most. */
static size_t packed_bytes(const struct ops *ops, const struct model_config *c, bool is_kept)
{
	int64_t embeddings = c->tie_word_embeddings ? 0 : (int64_t)c->vocab_size * c->hidden_size;
	size_t bytes = size_mul((size_t)(model_config_params(c) - embeddings), sizeof(float));
	return is_kept && ops->host_memory ? MIN(bytes, OPS_PREPARED_BYTES_MAX) : 0;
}

int64_t plan_trained(const struct ops *ops, const struct model_config *c, const struct training_plan *t)
{
	size_t unused;
	return t->adapter_rank ? adapter_values(ops, c, t->adapter_rank, t->target_modules, &unused)
						   : model_config_params(c);
}

void plan_training(
	struct memory_plan *p, const struct ops *ops, const struct model_config *c, const struct training_plan *t)
{
	size_t weights = model_config_bytes(ops, c), adapter_bytes = 0, reference = 0;
	bool is_full = t->adapter_rank == 0;
	int64_t params = model_config_params(c),
			adapter = is_full ? 0 : adapter_values(ops, c, t->adapter_rank, t->target_modules, &adapter_bytes),
			trained = is_full ? params : adapter;
	struct pass_options forward = t->pass;
	forward.backward = forward.recompute = false;
	/* A second model is there for the KL term of full training alone, with a pass of its own. */
	if (t->has_reference && is_full) reference = weights;
	plan_add(p, "weights", weights, "%s%s, %.3f billion parameters in %d %s", ops->elem_bytes == 2 ? "bf16" : "fp32",
		ops->tail ? " with room for an adapter beside them" : "", (double)params * 1e-9, c->num_hidden_layers,
		plural(c->num_hidden_layers, "layer", "layers"));
	if (ops->host_memory)
		plan_add(p, "packed copy", packed_bytes(ops, c, !is_full || t->generates),
			"at most: projections and head again, as generation reads them");
	plan_add(p, "reference", reference, "%s",
		!t->has_reference ? "beta is 0"
			: is_full     ? "a second copy for the KL term"
						  : "the weights without the adapter");
	/* Masters of fp32 stand beside shorter weights that learn; on the CPU the
	 * weights are fp32 themselves. */
	size_t masters = ops->host_memory ? 0 : (size_t)trained * sizeof(float);
	if (is_full) plan_add(p, "adapter", 0, "none: all weights are trained");
	else
		plan_add(
			p, "adapter", adapter_bytes, "rank %d, %.1f million parameters", t->adapter_rank, (double)adapter * 1e-6);
	if (!ops->host_memory) plan_add(p, "masters", masters, "what learns, in fp32");
	plan_add(p, "gradients", (size_t)trained * sizeof(float), "%s", "");
	plan_add(p, "optimiser", 2 * (size_t)trained * sizeof(float), "AdamW, two moments");
	if (reference) plan_add(p, "its pass", pass_bytes(ops, c, &forward), "activations of the second copy");
	plan_add(p, "activations", pass_bytes(ops, c, &t->pass), "%d packed tokens, forward and backward%s",
		t->pass.max_tokens, t->pass.recompute ? "; norms and gates are computed again in backward" : "");
}

/* Batches and rotary angles, which lie beside the activations on a device. */
static size_t tables_bytes(const struct model_config *c, const struct device_plan *d)
{
	int T = d->pass.max_tokens, rows = T ? pass_head_rows(c, &d->pass) : 1;
	int positions = MAX(T, (int)MIN((int64_t)d->kv_pages * OPS_PAGE, c->max_position_embeddings));
	size_t bytes = (size_t)positions * (size_t)c->head_dim * sizeof(float);
	if (d->passes > 1) bytes += (size_t)T * (size_t)c->head_dim * sizeof(float); /* the second model's angles */
	if (T) bytes += (size_t)d->passes * cuda_batch_bytes(T, T, 0, T / rows * rows, 0);
	if (d->step.rows)
		bytes += cuda_batch_bytes(d->step.rows, d->step.sequences, d->step.pages, d->step.wanted,
			d->step.draws ? d->step.draws : d->step.wanted);
	return bytes;
}

/* ---- what a device's stages take ---- */

/* What rows are multiplied with: a layer's matrices, and the head. */
struct matrix {
	int64_t K;     /* terms of a sum, an adapter's among them */
	int64_t N;     /* columns of the result */
	bool is_added; /* the product, to the residual stream or a bias */
	int ranges;    /* into which K is cut with batch_invariant */
};
enum { MATRICES = 5 };

static void matrices_fill(const struct ops *ops, const struct model_config *c, struct matrix m[MATRICES])
{
	int64_t C = c->hidden_size, I = c->intermediate_size, Q = (int64_t)c->num_attention_heads * c->head_dim,
			KV = (int64_t)c->num_key_value_heads * c->head_dim, tail = ops->tail;
	const struct matrix all[MATRICES] = {{C + tail, Q + 2 * KV, c->attention_bias, 0}, {Q + tail, C, true, 0},
		{C + tail, 2 * I, false, 0}, {I + tail, C, true, 0}, {C, c->vocab_size, false, 1}};
	memcpy(m, all, sizeof all);
	for (int i = 0; i < MATRICES; i++)
		if (!m[i].ranges) m[i].ranges = cuda_invariant_ranges(m[i].K);
}

/* Columns of sums over ranges of K that a row has in scratch, at most. */
static int64_t sums_columns(const struct ops *ops, const struct model_config *c)
{
	struct matrix m[MATRICES];
	int64_t most = 0;
	if (!ops->batch_invariant) return (int64_t)CUDA_RANGES * c->hidden_size;
	matrices_fill(ops, c, m);
	for (int i = 0; i < MATRICES; i++)
		if (m[i].ranges > 1 || m[i].is_added) most = MAX(most, m[i].ranges * m[i].N);
	return most;
}

/* What products take with batch_invariant: rows in blocks, and what algorithms are compared on
 * beside them. */
static void invariant_bytes(
	const struct ops *ops, const struct model_config *c, bool goes_back, size_t *block, size_t *trial)
{
	struct matrix m[MATRICES];
	*block = *trial = 0;
	if (!ops->batch_invariant) return;
	matrices_fill(ops, c, m);
	for (int i = 0; i < MATRICES; i++) {
		*block = MAX(*block, cuda_block_bytes(m[i].K, m[i].N, m[i].ranges));
		*trial = MAX(*trial, cuda_trial_bytes(m[i].K, m[i].N, m[i].ranges));
		if (!goes_back) continue;
		*block = MAX(*block, cuda_block_bytes(m[i].N, m[i].K, 1));
		*trial = MAX(*trial, cuda_trial_bytes(m[i].N, m[i].K, 1));
	}
}

/* The largest that any stage asks for. */
static size_t scratch_bytes(const struct ops *ops, const struct model_config *c, const struct device_plan *d)
{
	size_t unused, most = 0;
	int T = d->pass.max_tokens, r = d->adapter_rank, chunks = cuda_batch_chunks(d->step.pages);
	int64_t widest = MAX(MAX((int64_t)OPS_PARTS * c->hidden_size, (int64_t)c->num_attention_heads * c->head_dim),
		(int64_t)c->intermediate_size);
	int64_t trained = !T ? 0 : r ? adapter_values(ops, c, r, NULL, &unused) : model_config_params(c);
	/* Every tensor begins a chunk of its own: 14 of an adapter in a layer, or at
	 * most 14 of the model's. */
	int64_t chunks_squared = (int64_t)cuda_blocks(trained, CUDA_SQUARES_ELEMENTS) + 14 * c->num_hidden_layers + 3;
	const size_t all[] = {
		cuda_paged_scratch(d->step.sequences, chunks, c->num_attention_heads, c->head_dim),
		cuda_ranges_scratch(MAX(T, d->step.rows), sums_columns(ops, c)),
		r ? cuda_thin_scratch(T, r, widest) + cuda_thin_input(T, ops->tail) : 0,
		cuda_delta_scratch(T, c->num_attention_heads),
		r ? 0 : cuda_norm_scratch(T, MAX(c->hidden_size, 2 * c->head_dim)),
		cuda_squares_scratch(chunks_squared),
	};
	for (size_t i = 0; i < ARRAY_LEN(all); i++) most = MAX(most, all[i]);
	return most;
}

/* Beside what stages hold already. */
static size_t stages_bytes(
	const struct ops *ops, const struct model_config *c, const struct device_plan *d, const struct ops_held *held)
{
	size_t block, trial, scratch = scratch_bytes(ops, c, d);
	invariant_bytes(ops, c, d->pass.backward, &block, &trial);
	return scratch - MIN(scratch, held->scratch) + block - MIN(block, held->rows) + trial;
}

size_t plan_device_bytes(const struct ops *ops, const struct model_config *c, const struct device_plan *d)
{
	struct ops_held held = {0};
	if (!ops || ops->host_memory) return 0;
	if (ops->held) ops->held(ops->ctx, &held);
	return tables_bytes(c, d) + stages_bytes(ops, c, d, &held);
}

void plan_device(
	struct memory_plan *p, const struct ops *ops, const struct model_config *c, const struct device_plan *d)
{
	if (ops->host_memory) return;
	const struct ops_held nothing = {0};
	size_t fixed = CUDA_WORKSPACE_BYTES + CUDA_STAGING_COUNT * CUDA_STAGING_BYTES;
	plan_add(p, "tables", tables_bytes(c, d), "batches, rotary angles");
	plan_add(p, "workspace", fixed + stages_bytes(ops, c, d, &nothing), "of products, transfers and stages");
	if (d->ranks > 1)
		plan_add(p, "ranks", CUDA_RANKS_BYTES + CUDA_RANKS_LIBRARY_BYTES,
			"gradients of all %d, a part at a time; NCCL's own, estimated", d->ranks);
	plan_add(p, "driver", CUDA_DRIVER_BYTES, "at most: its context, kernels, recorded steps");
}

/* ---- rows at once ---- */

/* Rows of a pass have tiles of twice as many where heads are so small that every card has room for
 * them. */
static int pass_tile_rows(const struct ops_limits *l, const struct model_config *c)
{
	return c->head_dim <= CUDA_HEAD_MAX / 2 ? 2 * l->tile_rows : l->tile_rows;
}

int plan_rows_check(const struct ops *ops, const struct model_config *c, const struct device_plan *d, struct err *err)
{
	const struct ops_limits *l = ops ? ops->limits : NULL;
	if (!l) return 0;
	int64_t tokens = d->pass.max_tokens, sequences = MIN(tokens, PASS_SEQUENCES_MAX), rows = d->step.rows,
			tile = pass_tile_rows(l, c), tiles = l->tiles_max - sequences;
	if (tokens / tile > tiles)
		return err_set(err, ERR_LIMIT,
			"max_tokens %lld: device %s takes passes of at most %lld packed tokens, %lld tiles of %lld rows beside "
			"%lld "
			"sequences; lower max_tokens",
			(long long)tokens, ops->name, (long long)(tiles * tile + tile - 1), (long long)tiles, (long long)tile,
			(long long)sequences);
	if (rows / l->tile_rows + d->step.sequences > l->tiles_max)
		return err_set(err, ERR_LIMIT,
			"max_sequences %d with %lld rows of a step: device %s takes at most %d tiles of %d rows, of which each "
			"sequence begins one; lower max_sequences or prefill_rows",
			d->step.sequences, (long long)rows, ops->name, l->tiles_max, l->tile_rows);
	return 0;
}
