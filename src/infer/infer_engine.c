/* infer_engine: the engine's lifetime and its queue. One step is infer_step.c. */
#include <math.h>
#include <stdlib.h>
#include "infer_internal.h"

#define PREFILL_ROWS_DEFAULT 256
#define SEQUENCES_MAX 65536
#define CONTEXT_MAX (1 << 22)

static struct engine_options with_defaults(const struct engine_options *o)
{
	struct engine_options d = *o;
	if (d.prefill_rows == 0) d.prefill_rows = PREFILL_ROWS_DEFAULT;
	d.fused_steps = MIN(MAX(d.fused_steps, 1), ENGINE_FUSED_MAX);
	/* One page over: while the head of the queue still starts samples, its partly filled page is
	 * kept beside the copies. */
	if (d.kv_pages == 0 && d.max_sequences > 0 && d.max_context > 0)
		d.kv_pages = (int)MIN((int64_t)d.max_sequences * pages_for(d.max_context) + 1, INT32_MAX);
	return d;
}

/* Samples that run at once: rows are shared, so there may be more than max_sequences of them. */
static int slots_of(const struct engine_options *o) { return SAMPLES_PER_ROW * o->max_sequences; }

static struct step_options step_options_of(const struct engine_options *o)
{
	return (struct step_options){.rows = o->max_sequences + o->prefill_rows,
		.sequences = o->max_sequences,
		.pages = pages_for(o->max_context),
		.wanted = o->max_sequences,
		.draws = slots_of(o),
		.steps = o->fused_steps};
}

/* A step reads the weights and, at most, all keys and values; each layer's launches take their time
 * too. Rates are an H200's, a little on the low side. */
#define READ_BYTES_PER_S 1.5e12
#define LAYER_S 12e-6
#define GO_S 5e-3

int engine_fused_steps(const struct ops *ops, const struct model_config *c, int max_sequences, int max_context)
{
	if (!ops || ops->host_memory) return 1;
	double kv = 2.0 * c->num_hidden_layers * c->num_key_value_heads * c->head_dim * max_context * max_sequences,
		   seconds = ((double)model_config_params(c) + kv) * ops->elem_bytes / READ_BYTES_PER_S +
		LAYER_S * c->num_hidden_layers;
	int k = ENGINE_FUSED_MAX;
	while (k > 1 && k * seconds > GO_S) k /= 2;
	return k;
}

/* The options with what depends on the model. */
static struct engine_options settled(
	const struct ops *ops, const struct model_config *c, const struct engine_options *options)
{
	struct engine_options o = *options;
	if (!o.fused_steps) o.fused_steps = engine_fused_steps(ops, c, o.max_sequences, o.max_context);
	return with_defaults(&o);
}

static size_t activations_bytes(const struct ops *ops, const struct model_config *c, const struct engine_options *o)
{
	struct step_options s = step_options_of(o);
	return step_bytes(ops, c, &s);
}

static size_t bookkeeping_bytes(const struct engine_options *o)
{
	size_t rows = (size_t)o->max_sequences + (size_t)o->prefill_rows;
	size_t list = 4 * (size_t)pages_for(o->max_context),
		   slot = sizeof(struct slot) + sizeof(struct ops_draw) + list + 32;
	return (size_t)o->kv_pages * 8 + (size_t)slots_of(o) * slot + (size_t)o->max_sequences * (list + 8) + rows * 12;
}

/* Lists and queues lie on the host, whose memory is the device's on the CPU alone. */
static size_t rest_bytes(const struct ops *ops, const struct model_config *c, const struct engine_options *o)
{
	return activations_bytes(ops, c, o) + (!ops || ops->host_memory ? bookkeeping_bytes(o) : 0);
}

size_t engine_bytes(const struct ops *ops, const struct model_config *c, const struct engine_options *options)
{
	struct engine_options o = settled(ops, c, options);
	return kv_bytes(ops, c, o.kv_pages) + rest_bytes(ops, c, &o);
}

void engine_device_plan(const struct engine_options *options, struct device_plan *d)
{
	struct engine_options o = with_defaults(options);
	d->step = step_options_of(&o);
	d->kv_pages = o.kv_pages;
}

size_t engine_device_bytes(const struct ops *ops, const struct model_config *c, const struct engine_options *options)
{
	struct device_plan d = {0};
	engine_device_plan(options, &d);
	return plan_device_bytes(ops, c, &d);
}

static int check_options(const struct model *m, const struct engine_options *o, struct err *err)
{
	const struct model_config *c = model_config(m);
	const struct ops *ops = model_ops(m);
	if (o->max_sequences < 1 || o->max_sequences > SEQUENCES_MAX)
		return err_set(err, ERR_RANGE, "engine: max_sequences is %d, expected 1..%d", o->max_sequences, SEQUENCES_MAX);
	if (o->max_context < 2 || o->max_context > CONTEXT_MAX)
		return err_set(err, ERR_RANGE, "engine: max_context is %d, expected 2..%d", o->max_context, CONTEXT_MAX);
	if (o->max_context > c->max_position_embeddings)
		return err_set(err, ERR_LIMIT, "engine: max_context is %d, but the model knows %d positions; lower max_context",
			o->max_context, c->max_position_embeddings);
	if (o->prefill_rows < 1 || o->prefill_rows > CONTEXT_MAX)
		return err_set(err, ERR_RANGE, "engine: prefill_rows is %d, expected 1..%d", o->prefill_rows, CONTEXT_MAX);
	if (o->kv_pages < 1) return err_set(err, ERR_RANGE, "engine: kv_pages is %d, expected at least 1", o->kv_pages);
	struct device_plan d = {0};
	engine_device_plan(o, &d);
	int rc = plan_rows_check(ops, c, &d, err);
	if (rc) return err_prefix(err, "engine"), rc;
	/* All that it will take of what is free now, beside the weights that stand already. */
	double mib = 1024.0 * 1024.0, kv = (double)kv_bytes(ops, c, o->kv_pages) / mib,
		   rest = (double)rest_bytes(ops, c, o) / mib, memory = (double)model_memory(m) / mib,
		   stages = (double)engine_device_bytes(ops, c, o) / mib;
	char beside[64] = "";
	if (stages > 0) snprintf(beside, sizeof beside, " + %.0f MiB of batches and scratch", stages);
	if (kv + rest + stages > memory)
		return err_set(err, ERR_LIMIT,
			"engine: %.0f MiB of KV pages + %.0f MiB of activations%s = %.0f MiB, but device %s gives at most %.0f "
			"MiB; lower max_sequences, max_context or kv_pages",
			kv, rest, beside, kv + rest + stages, ops ? ops->name : "cpu", memory);
	if (o->kv_pages > KV_PAGES_MAX)
		return err_set(err, ERR_LIMIT,
			"engine: %d KV pages for max_sequences %d of max_context %d, at most %d; lower one of the three",
			o->kv_pages, o->max_sequences, o->max_context, KV_PAGES_MAX);
	return 0;
}

int engine_create(struct model *m, const struct engine_options *options, struct engine **out, struct err *err)
{
	const struct model_config *config = model_config(m);
	struct engine_options o = settled(model_ops(m), config, options);
	int rc = check_options(m, &o, err);
	if (rc) return rc;
	/* What steps work with is allocated here, at its largest size, so that no step has to. */
	struct engine *e = xcalloc(1, sizeof *e);
	*e = (struct engine){
		.m = m, .o = o, .config = config, .pages_per_sequence = pages_for(o.max_context), .queue_end = &e->queue};
	size_t sequences = (size_t)o.max_sequences, rows = sequences + (size_t)o.prefill_rows, slots = (size_t)slots_of(&o);
	model_prepare(m);
	e->kv = kv_create(m, o.kv_pages);
	struct step_options step = step_options_of(&o);
	e->step = step_create(m, &step);
	e->page_refs = xcalloc((size_t)o.kv_pages, sizeof *e->page_refs);
	e->free_pages = xcalloc((size_t)o.kv_pages, sizeof *e->free_pages);
	/* Pages are handed out from the top of this stack, so they go in backwards. */
	for (int p = o.kv_pages; p-- > 0;) e->free_pages[e->nfree++] = p; /* page 0 on top */
	e->nslots = (int)slots;
	e->slots = xcalloc(slots, sizeof *e->slots);
	e->running = xcalloc(slots, sizeof *e->running);
	e->parts = xcalloc(slots, sizeof *e->parts);
	e->slot_done = xcalloc(slots, sizeof *e->slot_done);
	e->page_lists = xcalloc(size_mul(slots, (size_t)e->pages_per_sequence), sizeof *e->page_lists);
	/* Each slot owns a fixed run of the page list, long enough for a sequence of max_context. */
	for (int s = 0; s < e->nslots; s++) {
		e->running[s] = s;
		e->slots[s].pages = e->page_lists + (size_t)s * (size_t)e->pages_per_sequence;
	}
	/* A step runs at most one row for each sequence and prefill_rows more of prompts. */
	e->rows = (struct rows){
		.ids = xcalloc(rows, sizeof(int32_t)),
		.pos = xcalloc(rows, sizeof(int32_t)),
		.sequence = xcalloc(rows, sizeof(int32_t)),
		.table = xcalloc(size_mul(sequences, (size_t)e->pages_per_sequence), sizeof(int32_t)),
		.at = xcalloc(sequences, sizeof(int32_t)),
		.owner = xcalloc(sequences, sizeof(int)),
		.left = xcalloc(sequences, sizeof(int32_t)),
		.draw = xcalloc(slots, sizeof(struct ops_draw)),
		.from = xcalloc(slots, sizeof(int32_t)),
	};
	e->copies = (struct copies){.dst = xcalloc(slots, sizeof(int32_t)), .src = xcalloc(slots, sizeof(int32_t))};
	size_t tokens = MAX(slots, sequences * (size_t)o.fused_steps);
	e->drawn = xcalloc(tokens, sizeof *e->drawn);
	e->logprobs = xcalloc(tokens, sizeof *e->logprobs);
	*out = e;
	return 0;
}

int completion_check(const struct completion *c, struct err *err)
{
	if (c->finish != FINISH_NAN) return 0;
	return err_set(err, ERR_RANGE,
		"token %d: the model's values are not finite; its weights, or the adapter's, hold infinite values or NaN, or "
		"training diverged: "
		"take an earlier checkpoint",
		c->count - 1);
}

void completion_release(struct completion *c)
{
	free(c->tokens);
	free(c->logprobs);
	free(c->temperatures);
	*c = (struct completion){0};
}

void group_free(struct group *g)
{
	if (!g) return;
	for (int i = 0; i < g->r.num_samples; i++) completion_release(&g->results[i]);
	free(g->results);
	free(g->next);
	free(g->prompt_pages);
	free((int32_t *)g->r.prompt);
	free(g);
}

void engine_free(struct engine *e)
{
	if (!e) return;
	for (struct group *g = e->queue, *next; g; g = next) {
		next = g->next_queued;
		for (int s = 0; s < e->nslots; s++)
			if (e->slots[s].group == g) e->slots[s].group = NULL;
		group_free(g);
	}
	for (int s = 0; s < e->nslots; s++) {
		struct group *g = e->slots[s].group;
		for (int i = s + 1; g && i < e->nslots; i++)
			if (e->slots[i].group == g) e->slots[i].group = NULL;
		group_free(g);
	}
	for (int i = e->ready_begin; i < e->ready_end; i++) completion_release(&e->ready[i]);
	free(e->ready);
	kv_free(e->kv);
	step_free(e->step);
	void *arrays[] = {e->page_refs, e->free_pages, e->slots, e->slot_done, e->page_lists, e->rows.ids, e->rows.pos,
		e->rows.sequence, e->rows.table, e->rows.at, e->rows.draw, e->rows.from, e->rows.owner, e->rows.left,
		e->copies.dst, e->copies.src, e->running, e->parts, e->drawn, e->logprobs};
	for (size_t i = 0; i < ARRAY_LEN(arrays); i++) free(arrays[i]);
	free(e);
}

/* ---- queue ---- */

static int check_request(const struct engine *e, const struct request *r, struct err *err)
{
	/* Sizes: each alone, then together against a sequence's context. */
	if (r->nprompt < 1)
		return err_set(
			err, ERR_RANGE, "request %lld: the prompt is empty; expected at least one token", (long long)r->id);
	if (r->num_samples < 1)
		return err_set(
			err, ERR_RANGE, "request %lld: num_samples is %d, expected at least 1", (long long)r->id, r->num_samples);
	if (r->max_new_tokens < 1)
		return err_set(err, ERR_RANGE, "request %lld: max_new_tokens is %d, expected at least 1", (long long)r->id,
			r->max_new_tokens);
	if (r->nstop < 0 || r->nstop > STOP_IDS_MAX)
		return err_set(
			err, ERR_LIMIT, "request %lld: %d stop ids, at most %d", (long long)r->id, r->nstop, STOP_IDS_MAX);
	if ((int64_t)r->nprompt + r->max_new_tokens > e->o.max_context)
		return err_set(err, ERR_LIMIT,
			"request %lld: %d prompt tokens + %d new tokens = %lld, but max_context is %d; shorten the prompt, lower "
			"max_new_tokens "
			"or raise max_context",
			(long long)r->id, r->nprompt, r->max_new_tokens, (long long)r->nprompt + r->max_new_tokens,
			e->o.max_context);
	/* What it draws with and from. */
	const struct sampling *s = &r->sampling;
	if (!(s->temperature == 0 || s->temperature >= SAMPLING_TEMPERATURE_MIN) || isinf(s->temperature) || s->top_k < 0 ||
		!(s->top_p > 0 && s->top_p <= 1) || !(s->min_p >= 0 && s->min_p <= 1))
		return err_set(err, ERR_RANGE,
			"request %lld: temperature %g, top_k %d, top_p %g, min_p %g; expected temperature 0 (greedy) or at least "
			"%g, "
			"top_k >= 0, 0 < top_p <= 1, 0 <= min_p <= 1",
			(long long)r->id, s->temperature, s->top_k, s->top_p, s->min_p, SAMPLING_TEMPERATURE_MIN);
	for (int i = 0; i < r->nprompt; i++)
		if (r->prompt[i] < 0 || r->prompt[i] >= e->config->vocab_size)
			return err_set(err, ERR_RANGE, "request %lld: prompt token %d is %d, the vocabulary has %d",
				(long long)r->id, i, r->prompt[i], e->config->vocab_size);
	/* Pages: one more for samples that copy the partly filled page of their prompt. */
	int needed = pages_for(r->nprompt + r->max_new_tokens - 1) +
		(r->num_samples > 1 && (r->nprompt - 1) % OPS_PAGE != 0);
	if (needed > e->o.kv_pages)
		return err_set(err, ERR_LIMIT, "request %lld needs %d KV pages, the engine has %d; raise kv_pages",
			(long long)r->id, needed, e->o.kv_pages);
	return 0;
}

/* Room for every live sequence to finish, so that a step never allocates. */
static void ready_reserve(struct engine *e, int more)
{
	memmove(e->ready, e->ready + e->ready_begin, (size_t)(e->ready_end - e->ready_begin) * sizeof *e->ready);
	e->ready_end -= e->ready_begin;
	e->ready_begin = 0;
	int need = e->ready_end + e->live + more;
	if (need <= e->ready_cap) return;
	e->ready_cap = MAX(need, 2 * e->ready_cap);
	e->ready = xrealloc(e->ready, size_mul((size_t)e->ready_cap, sizeof *e->ready));
}

int engine_submit(struct engine *e, const struct request *r, struct err *err)
{
	int rc = check_request(e, r, err);
	if (rc) return rc;
	/* The engine keeps its own copies of the prompt and the stop ids: the caller may free its
	 * request now. */
	struct group *g = xcalloc(1, sizeof *g);
	g->r = *r;
	g->r.prompt = memcpy(
		xmalloc(size_mul((size_t)r->nprompt, sizeof(int32_t))), r->prompt, (size_t)r->nprompt * sizeof(int32_t));
	if (r->nstop) memcpy(g->stop, r->stop_ids, (size_t)r->nstop * sizeof(int32_t));
	g->r.stop_ids = NULL;
	/* The prompt's last token is left out, as every sample runs it itself; a prompt of one token
	 * thus has nothing to prefill. */
	g->nprompt_pages = pages_for(r->nprompt - 1);
	g->prompt_pages = xcalloc((size_t)MAX(g->nprompt_pages, 1), sizeof(int32_t));
	g->prefilled = r->nprompt == 1;
	g->live = r->num_samples;
	g->next = xcalloc((size_t)r->num_samples, sizeof *g->next);
	/* The buffers have their full size from the start, because a step does not allocate. */
	g->results = xcalloc((size_t)r->num_samples, sizeof *g->results);
	for (int i = 0; i < r->num_samples; i++)
		g->results[i] = (struct completion){.id = r->id,
			.sample = r->first_sample + i,
			.tokens = xcalloc((size_t)r->max_new_tokens, sizeof(int32_t)),
			.logprobs = xcalloc((size_t)r->max_new_tokens, sizeof(float)),
			.temperatures = r->temperature_at ? xcalloc((size_t)r->max_new_tokens, sizeof(float)) : NULL};
	/* Finished samples must find room in the list of results, so it grows here, before they count
	 * as live. */
	if (!e->ready) e->ready = xcalloc(e->ready_cap = 64, sizeof *e->ready);
	ready_reserve(e, r->num_samples);
	e->live += r->num_samples;
	*e->queue_end = g;
	e->queue_end = &g->next_queued;
	return 0;
}

/* ---- cancelling ---- */

/* The first group with this id in the queue leaves it; its samples without a slot are over. */
static struct group *queue_remove(struct engine *e, int64_t id, int *ended)
{
	struct group **at = &e->queue;
	while (*at && (*at)->r.id != id) at = &(*at)->next_queued;
	struct group *g = *at;
	if (!g) return NULL;
	*at = g->next_queued;
	if (!*at) e->queue_end = at;
	int left = g->r.num_samples - g->started;
	e->live -= left;
	*ended += left;
	return g;
}

/* All of the group's sequences, then its own references to its prompt's pages, then itself. */
static void group_cancel(struct engine *e, struct group *g, int *ended)
{
	for (int i = 0; i < e->nslots; i++) {
		if (e->slots[i].group != g) continue;
		*ended += e->slots[i].members;
		slot_clear(e, &e->slots[i]);
	}
	for (int i = 0; g->started && i < g->nprompt_pages; i++) page_drop(e, g->prompt_pages[i]);
	group_free(g);
}

int engine_cancel(struct engine *e, int64_t id)
{
	int ended = 0;
	for (struct group *g; (g = queue_remove(e, id, &ended));) group_cancel(e, g, &ended);
	for (int i = 0; i < e->nslots; i++)
		if (e->slots[i].group && e->slots[i].group->r.id == id) group_cancel(e, e->slots[i].group, &ended);
	return ended;
}

void engine_wait(struct engine *e) { step_wait(e->step); }

bool engine_take(struct engine *e, struct completion *out)
{
	if (e->ready_begin == e->ready_end) return false;
	*out = e->ready[e->ready_begin++];
	return true;
}

int64_t engine_tokens_generated(const struct engine *e) { return e->generated; }

const char *finish_reason_name(enum finish_reason r)
{
	static const char *const names[] = {
		[FINISH_EOS] = "eos", [FINISH_STOP] = "stop", [FINISH_LENGTH] = "length", [FINISH_NAN] = "nan"};
	return names[r];
}
