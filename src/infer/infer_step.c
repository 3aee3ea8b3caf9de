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

void page_drop(struct engine *e, int32_t p)
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
	struct forks *f = &e->forks;
	int cached = g->r.nprompt - 1, whole = cached / OPS_PAGE;
	for (int i = 0; i < whole; i++) {
		s->pages[s->npages++] = g->prompt_pages[i];
		e->page_refs[g->prompt_pages[i]]++;
	}
	if (cached % OPS_PAGE) {
		int32_t p = page_take(e, s);
		f->dst[f->ncopies] = p;
		f->src[f->ncopies++] = g->prompt_pages[whole];
		s->pages[s->npages++] = p;
	}
	s->cached = cached;
	s->state = SLOT_RUN;
	f->slots[f->nslots++] = (int)(s - e->slots);
}

/* All samples whose prompt is there now; their copies are one call. Groups give up their own
 * references behind it: a page that is a source must not become a destination. */
static void fork_waiting(struct engine *e)
{
	struct forks *f = &e->forks;
	f->ncopies = f->nslots = 0;
	for (int i = 0; i < e->o.max_sequences; i++) {
		struct slot *s = &e->slots[i];
		if (s->state == SLOT_WAIT && s->group->prefilled) fork_prompt(e, s);
	}
	kv_copy_pages(e->kv, f->dst, f->src, f->ncopies);
	for (int i = 0; i < f->nslots; i++) group_forked_one(e, e->slots[f->slots[i]].group);
}

static bool start_sample(struct engine *e, struct slot *s, struct group *g)
{
	bool first = g->started == 0;
	int pages = pages_for(group_positions(g)) - (first ? 0 : (g->r.nprompt - 1) / OPS_PAGE);
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
	int pos = s->cached++, page = pos / OPS_PAGE;
	if (page == s->npages) s->pages[s->npages++] = page_take(e, s);
	r->ids[r->T] = id;
	r->pos[r->T] = pos;
	r->sequence[r->T++] = r->S;
}

/* The slot's rows are complete: its pages become a row of the table. */
static void sequence_close(struct engine *e, const struct slot *s, int first_row)
{
	struct rows *r = &e->rows;
	if (r->T == first_row) return;
	memcpy(r->table + (int64_t)r->S++ * e->pages_per_sequence, s->pages, (size_t)s->npages * sizeof *s->pages);
}

/* Of the next token; recorded where it may change from token to token. */
static float temperature_of(const struct slot *s)
{
	const struct request *q = &s->group->r;
	if (!q->temperature_at) return q->sampling.temperature;
	return s->c->temperatures[s->c->count] = q->temperature_at(
			   q->temperature_ctx, q->id, s->c->sample, s->c->tokens, s->c->count);
}

static struct ops_draw draw_of(const struct slot *s)
{
	const struct sampling *g = &s->group->r.sampling;
	return (struct ops_draw){.temperature = temperature_of(s),
		.top_k = g->top_k,
		.top_p = g->top_p,
		.min_p = g->min_p,
		.seed = g->seed,
		.stream = (uint64_t)s->c->sample,
		.index = (uint64_t)(s->group->r.nprompt + s->c->count)};
}

/* Prefill first, then the row whose logits are wanted, once the prompt is stored. */
static void slot_rows(struct engine *e, struct slot *s, int *prefill_left)
{
	struct rows *r = &e->rows;
	const struct request *q = &s->group->r;
	if (s->state == SLOT_PREFILL) {
		for (; *prefill_left > 0 && s->cached < q->nprompt - 1; --*prefill_left) row_push(e, s, q->prompt[s->cached]);
		if (s->cached < q->nprompt - 1) return;
		s->state = SLOT_RUN;
		s->group->prefilled = true;
	}
	r->at[r->n] = r->T;
	r->draw[r->n] = draw_of(s);
	r->owner[r->n++] = (int)(s - e->slots);
	row_push(e, s, s->c->count ? s->c->tokens[s->c->count - 1] : q->prompt[q->nprompt - 1]);
}

/* Rows of every sequence under this adapter; *prefill_left is shared by all adapters of a step. */
static void gather_rows(struct engine *e, const struct adapter *a, int *prefill_left)
{
	struct rows *r = &e->rows;
	r->T = r->S = r->n = 0;
	for (int i = 0; i < e->o.max_sequences; i++) {
		struct slot *s = &e->slots[i];
		if (s->state == SLOT_FREE || s->state == SLOT_WAIT || s->group->r.adapter != a || e->slot_done[i]) continue;
		e->slot_done[i] = true;
		int first_row = r->T;
		slot_rows(e, s, prefill_left);
		sequence_close(e, s, first_row);
	}
}

/* ---- tokens ---- */

static bool is_finished(const struct engine *e, const struct slot *s, enum finish_reason *reason)
{
	const struct group *g = s->group;
	const struct completion *c = s->c;
	int32_t id = c->tokens[c->count - 1];
	bool stop = false;
	for (int i = 0; i < g->r.nstop; i++) stop = stop || id == g->stop[i];
	if (isnan(c->logprobs[c->count - 1])) *reason = FINISH_NAN;
	else if (model_config_is_eos(e->config, id)) *reason = FINISH_EOS;
	else if (stop || (g->r.should_stop && g->r.should_stop(g->r.stop_ctx, g->r.id, c->sample, c->tokens, c->count)))
		*reason = FINISH_STOP;
	else if (c->count == g->r.max_new_tokens) *reason = FINISH_LENGTH;
	else return false;
	return true;
}

void slot_clear(struct engine *e, struct slot *s)
{
	for (int i = 0; i < s->npages; i++) page_drop(e, s->pages[i]);
	e->promised -= s->promised;
	*s = (struct slot){.pages = s->pages};
	e->live--;
}

static void finish(struct engine *e, struct slot *s, enum finish_reason reason)
{
	struct group *g = s->group;
	s->c->finish = reason;
	CHECK(e->ready_end < e->ready_cap);
	e->ready[e->ready_end++] = *s->c;
	*s->c = (struct completion){0};
	slot_clear(e, s);
	if (--g->live == 0) group_free(g);
}

/* The step's tokens, as the backend drew them, into their completions. */
static void take_tokens(struct engine *e)
{
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
	const struct rows *r = &e->rows;
	start_what_fits(e);
	memset(e->slot_done, 0, (size_t)e->o.max_sequences * sizeof *e->slot_done);
	fork_waiting(e);
	int prefill_left = e->o.prefill_rows;
	for (int i = 0; i < e->o.max_sequences; i++) {
		if (e->slot_done[i] || e->slots[i].state == SLOT_FREE || e->slots[i].state == SLOT_WAIT) continue;
		struct adapter *a = e->slots[i].group->r.adapter;
		gather_rows(e, a, &prefill_left);
		if (!r->T) continue;
		struct ops_rows rows = {.T = r->T,
			.S = r->S,
			.ids = r->ids,
			.pos = r->pos,
			.sequence = r->sequence,
			.table = r->table,
			.pages = e->pages_per_sequence};
		struct ops_want want = {.n = r->n, .at = r->at, .draw = r->draw};
		step_run(e->step, e->kv, a, &rows, &want, e->drawn, e->logprobs);
		take_tokens(e);
	}
	*active = e->live;
}
