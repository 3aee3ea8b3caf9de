/* infer_step: one step of the engine: start what fits, gather rows, run the model, sample, finish.
 * Nothing here allocates (finished groups are freed). Sequences are visited in slot order and
 * adapters in the order of their first slot, so a step is a function of the requests submitted
 * before it. */
#include "infer_internal.h"
#include <math.h>

/* ---- pages ---- */

static int32_t page_take(struct engine *e, struct slot *s)
{
	CHECKF(e->nfree > 0 && s->promised > 0, "%d free KV pages, %d promised to this sequence", e->nfree, s->promised);
	s->promised--;
	e->promised--;
	int32_t p = e->free_pages[--e->nfree];
	e->page_refs[p] = 1;
	return p;
}

static void page_drop(struct engine *e, int32_t p)
{
	CHECK(e->page_refs[p] > 0);
	if (--e->page_refs[p] == 0) e->free_pages[e->nfree++] = p;
}

/* ---- starting ---- */

static void first_sample_starts(struct engine *e, struct slot *s, struct group *g)
{
	s->state = g->prefilled ? SLOT_RUN : SLOT_PREFILL;
	for (int i = 0; i < g->nprompt_pages; i++) {
		s->pages[s->npages++] = g->prompt_pages[i] = page_take(e, s);
		e->page_refs[g->prompt_pages[i]]++; /* the group's own reference */
	}
}

static void group_forked_one(struct engine *e, struct group *g)
{
	if (++g->forked < g->r.num_samples) return;
	for (int i = 0; i < g->nprompt_pages; i++) page_drop(e, g->prompt_pages[i]);
	g->nprompt_pages = 0;
}

/* A later sample takes the prompt's pages: whole ones shared, the partly filled one copied. The
 * first sample goes on writing into its own behind position nprompt - 2, which the copy brings
 * along and overwrites before it reads it. */
static void fork_prompt(struct engine *e, struct slot *s)
{
	struct group *g = s->group;
	int cached = g->r.nprompt - 1, whole = cached / OPS_KV_BLOCK;
	for (int i = 0; i < whole; i++) {
		s->pages[s->npages++] = g->prompt_pages[i];
		e->page_refs[g->prompt_pages[i]]++;
	}
	if (cached % OPS_KV_BLOCK) {
		int32_t p = page_take(e, s);
		kv_copy_page(e->kv, p, g->prompt_pages[whole]);
		s->pages[s->npages++] = p;
	}
	s->cached = cached;
	s->state = SLOT_RUN;
	group_forked_one(e, g);
}

static bool start_sample(struct engine *e, struct slot *s, struct group *g)
{
	bool first = g->started == 0;
	int pages = pages_for(group_positions(g)) - (first ? 0 : (g->r.nprompt - 1) / OPS_KV_BLOCK);
	if (e->nfree - e->promised < pages) return false;
	*s = (struct slot){
		.state = SLOT_WAIT, .group = g, .c = &g->results[g->started++], .pages = s->pages, .promised = pages};
	e->promised += pages;
	if (first) {
		first_sample_starts(e, s, g);
		group_forked_one(e, g);
	}
	return true;
}

static void start_what_fits(struct engine *e)
{
	for (int i = 0; i < e->o.max_sequences && e->queue; i++) {
		if (e->slots[i].state != SLOT_FREE) continue;
		struct group *g = e->queue;
		if (!start_sample(e, &e->slots[i], g)) return;
		if (g->started < g->r.num_samples) continue;
		e->queue = g->next;
		if (!e->queue) e->queue_end = &e->queue;
	}
}

/* ---- rows ---- */

static void row_push(struct engine *e, struct slot *s, int32_t id)
{
	struct rows *r = &e->rows;
	int pos = s->cached++, page = pos / OPS_KV_BLOCK;
	if (page == s->npages) s->pages[s->npages++] = page_take(e, s);
	r->ids[r->T] = id;
	r->pos[r->T] = pos;
	r->slot[r->T] = s->pages[page] * OPS_KV_BLOCK + pos % OPS_KV_BLOCK;
	r->table[r->T++] = s->pages;
}

/* Rows of every sequence under this adapter; *prefill_left is shared by all adapters of a step. */
static void gather_rows(struct engine *e, const struct adapter *a, int *prefill_left)
{
	struct rows *r = &e->rows;
	r->T = r->n = 0;
	for (int i = 0; i < e->o.max_sequences; i++) {
		struct slot *s = &e->slots[i];
		if (s->state == SLOT_FREE || s->state == SLOT_WAIT || s->group->r.adapter != a || e->slot_done[i]) continue;
		e->slot_done[i] = true;
		const struct request *q = &s->group->r;
		if (s->state == SLOT_PREFILL) {
			for (; *prefill_left > 0 && s->cached < q->nprompt - 1; --*prefill_left)
				row_push(e, s, q->prompt[s->cached]);
			if (s->cached < q->nprompt - 1) continue;
			s->state = SLOT_RUN;
			s->group->prefilled = true;
		}
		r->at[r->n] = r->T;
		r->owner[r->n++] = i;
		row_push(e, s, s->c->count ? s->c->tokens[s->c->count - 1] : q->prompt[q->nprompt - 1]);
	}
}

/* ---- tokens ---- */

static bool is_eos(const struct model_config *c, int32_t id)
{
	if (id == c->eos_token_id) return true;
	for (int i = 0; i < c->neos_extra; i++)
		if (id == c->eos_extra[i]) return true;
	return false;
}

static bool is_finished(const struct engine *e, const struct slot *s, enum finish_reason *reason)
{
	const struct group *g = s->group;
	const struct completion *c = s->c;
	int32_t id = c->tokens[c->count - 1];
	bool stop = false;
	for (int i = 0; i < g->r.nstop; i++) stop = stop || id == g->stop[i];
	if (isnan(c->logprobs[c->count - 1])) *reason = FINISH_NAN;
	else if (is_eos(e->config, id)) *reason = FINISH_EOS;
	else if (stop || (g->r.should_stop && g->r.should_stop(g->r.stop_ctx, g->r.id, c->sample, c->tokens, c->count)))
		*reason = FINISH_STOP;
	else if (c->count == g->r.max_new_tokens) *reason = FINISH_LENGTH;
	else return false;
	return true;
}

static void finish(struct engine *e, struct slot *s, enum finish_reason reason)
{
	struct group *g = s->group;
	for (int i = 0; i < s->npages; i++) page_drop(e, s->pages[i]);
	e->promised -= s->promised;
	s->c->finish = reason;
	CHECK(e->ready_end < e->ready_cap);
	e->ready[e->ready_end++] = *s->c;
	*s->c = (struct completion){0};
	*s = (struct slot){.pages = s->pages};
	e->live--;
	if (--g->live == 0) group_free(g);
}

static const struct sampling *sampling_of(const struct engine *e, int row)
{
	return &e->slots[e->rows.owner[row]].group->r.sampling;
}
static float temperature_of(const struct engine *e, int row)
{
	return sampling_of(e, row)->temperature > 0 ? sampling_of(e, row)->temperature : 1;
}

/* Log-probabilities of the drawn tokens by the operation that the trainer uses: equal
 * logits give it equal bits. One call for each run of rows at one temperature. */
static void record_logprobs(struct engine *e, const float *logits)
{
	struct ops *ops = e->ops;
	int V = e->config->vocab_size, n = e->rows.n;
	if (!n) return;
	ops->upload(ops->ctx, e->targets, e->drawn, (size_t)n * sizeof *e->drawn);
	for (int begin = 0, end; begin < n; begin = end) {
		for (end = begin + 1; end < n && temperature_of(e, end) == temperature_of(e, begin);) end++;
		ops->logprob(ops->ctx, e->target_logprobs + begin, NULL, e->lse + begin, logits + (int64_t)begin * V,
			e->targets + begin, temperature_of(e, begin), end - begin, V);
	}
	ops->download(ops->ctx, e->logprobs, e->target_logprobs, (size_t)n * sizeof *e->logprobs);
}

static void sample_rows(struct engine *e, const float *logits)
{
	int V = e->config->vocab_size;
	for (int i = 0; i < e->rows.n; i++) {
		const struct slot *s = &e->slots[e->rows.owner[i]];
		float u = rng_uniform(
			sampling_of(e, i)->seed, (uint64_t)s->c->sample, (uint64_t)(s->group->r.nprompt + s->c->count));
		e->ops->download(e->ops->ctx, e->logits, logits + (int64_t)i * V, (size_t)V * sizeof(float));
		e->drawn[i] = sample_token(e->logits, V, sampling_of(e, i), u, NULL, &e->scratch);
	}
	record_logprobs(e, logits);
	for (int i = 0; i < e->rows.n; i++) {
		struct slot *s = &e->slots[e->rows.owner[i]];
		s->c->tokens[s->c->count] = e->drawn[i];
		s->c->logprobs[s->c->count++] = e->logprobs[i];
		e->generated++;
		enum finish_reason reason;
		if (is_finished(e, s, &reason)) finish(e, s, reason);
	}
}

void engine_step(struct engine *e, int *active)
{
	start_what_fits(e);
	for (int i = 0; i < e->o.max_sequences; i++) {
		struct slot *s = &e->slots[i];
		e->slot_done[i] = false;
		if (s->state == SLOT_WAIT && s->group->prefilled) fork_prompt(e, s);
	}
	int prefill_left = e->o.prefill_rows;
	for (int i = 0; i < e->o.max_sequences; i++) {
		if (e->slot_done[i] || e->slots[i].state == SLOT_FREE || e->slots[i].state == SLOT_WAIT) continue;
		struct adapter *a = e->slots[i].group->r.adapter;
		gather_rows(e, a, &prefill_left);
		if (!e->rows.T) continue;
		struct ops_paged paged = {e->rows.T, e->rows.pos, e->rows.slot, e->rows.table};
		sample_rows(e, step_run(e->step, e->kv, a, e->rows.ids, &paged, e->rows.at, e->rows.n));
	}
	*active = e->live;
}
