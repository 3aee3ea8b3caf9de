/* infer_step: one step of the engine: start what fits, gather rows, run the model, sample, split,
 * finish. Nothing here allocates (finished groups are freed). Slots are visited by age of their
 * groups and adapters in the order of their first slot, so a step is a function of the requests
 * submitted before it. Where more rows could run than a step has, the oldest do: their samples
 * finish first. */
#include "infer_internal.h"
#include <math.h>

/* ---- pages and slots ---- */

int32_t page_take(struct engine *e)
{
	CHECKF(e->nfree > 0, "no free KV page, %d are promised", e->promised);
	int32_t p = e->free_pages[--e->nfree];
	e->page_refs[p] = 1;
	return p;
}

void page_drop(struct engine *e, int32_t p)
{
	CHECK(e->page_refs[p] > 0);
	if (--e->page_refs[p] == 0) e->free_pages[e->nfree++] = p;
}

/* Pages that every sequence of the group has in the end; whole pages of its prompt. */
static int group_pages(const struct group *g) { return pages_for(group_positions(g)); }
static int prompt_whole(const struct group *g) { return (g->r.nprompt - 1) / OPS_PAGE; }

/* What the slot is promised from now on: its own pages to the end, and for each further member
 * those behind the whole pages, which all share. */
void slot_settle(struct engine *e, struct slot *s)
{
	int all = group_pages(s->group), shared = MAX(s->cached / OPS_PAGE, prompt_whole(s->group));
	int held = s->state == SLOT_WAIT ? shared : s->npages;
	int promised = all - held + (s->members - 1) * (all - shared);
	e->promised += promised - s->promised;
	s->promised = promised;
	CHECKF(e->promised <= e->nfree, "%d KV pages are promised, %d are free", e->promised, e->nfree);
}

struct ops_rows rows_of(const struct engine *e)
{
	const struct rows *r = &e->rows;
	return (struct ops_rows){.T = r->T,
		.S = r->S,
		.ids = r->ids,
		.pos = r->pos,
		.sequence = r->sequence,
		.table = r->table,
		.pages = e->pages_per_sequence};
}

/* A free slot takes place `at` among those that run. */
static struct slot *slot_take(struct engine *e, int at, enum slot_state state, struct group *g)
{
	CHECK(e->nrunning < e->nslots);
	int index = e->running[e->nrunning];
	memmove(e->running + at + 1, e->running + at, (size_t)(e->nrunning++ - at) * sizeof *e->running);
	e->running[at] = index;
	struct slot *s = &e->slots[index];
	*s = (struct slot){.state = state, .group = g, .pages = s->pages};
	return s;
}

static int slot_place(const struct engine *e, const struct slot *s)
{
	int at = 0;
	while (e->running[at] != s - e->slots) at++;
	return at;
}

void slot_clear(struct engine *e, struct slot *s)
{
	int at = slot_place(e, s);
	for (int i = 0; i < s->npages; i++) page_drop(e, s->pages[i]);
	e->promised -= s->promised;
	e->members -= s->members;
	e->live -= s->members;
	*s = (struct slot){.pages = s->pages};
	memmove(e->running + at, e->running + at + 1, (size_t)(--e->nrunning - at) * sizeof *e->running);
	e->running[e->nrunning] = (int)(s - e->slots);
}

/* The sample becomes the last member of the slot. */
static void slot_join(struct slot *s, int sample)
{
	int32_t *next = s->group->next;
	if (s->members++) next[s->last] = sample;
	else s->first = sample;
	s->last = sample;
	next[sample] = -1;
}

/* The whole pages before position `cached` are the new slot's too; a partly filled one is copied,
 * since both go on writing into it. The copy happens in copies_run. */
static void pages_share(struct engine *e, struct slot *s, const int32_t *pages, int cached)
{
	struct copies *c = &e->copies;
	int whole = cached / OPS_PAGE;
	for (int i = 0; i < whole; i++) {
		s->pages[s->npages++] = pages[i];
		e->page_refs[pages[i]]++;
	}
	if (cached % OPS_PAGE) {
		c->dst[c->n] = s->pages[s->npages++] = page_take(e);
		c->src[c->n++] = pages[whole];
	}
	s->cached = cached;
}

static void copies_run(struct engine *e)
{
	kv_copy_pages(e->kv, e->copies.dst, e->copies.src, e->copies.n);
	e->copies.n = 0;
}

/* ---- starting ---- */

/* So many more samples have their prompt's pages; behind the last the group needs its own
 * references no longer. */
static void group_forked(struct engine *e, struct group *g, int members)
{
	g->forked += members;
	if (g->forked < g->r.num_samples) return;
	for (int i = 0; i < g->nprompt_pages; i++) page_drop(e, g->prompt_pages[i]);
	g->nprompt_pages = 0;
}

/* Slots whose prompt is there now take it over. The first slot goes on writing into its own partly
 * filled page behind position nprompt - 2, which a copy brings along and overwrites before it reads
 * it. Groups give up their references behind the copies: a page that is a source must not become a
 * destination. */
static void fork_waiting(struct engine *e)
{
	for (int i = 0; i < e->nrunning; i++) {
		struct slot *s = &e->slots[e->running[i]];
		if (s->state != SLOT_WAIT || !s->group->prefilled) continue;
		pages_share(e, s, s->group->prompt_pages, s->group->r.nprompt - 1);
		s->state = SLOT_RUN;
		slot_settle(e, s);
		e->slot_done[e->running[i]] = true;
	}
	copies_run(e);
	for (int i = 0; i < e->nrunning; i++) {
		struct slot *s = &e->slots[e->running[i]];
		if (!e->slot_done[e->running[i]]) continue;
		e->slot_done[e->running[i]] = false;
		group_forked(e, s->group, s->members);
	}
}

/* How many of the group's samples start now: all that are left, or as many as fit while few run. */
static int start_count(const struct engine *e, const struct group *g)
{
	int left = g->r.num_samples - g->started, each = group_pages(g) - prompt_whole(g);
	int room = e->nfree - e->promised - (g->started ? 0 : prompt_whole(g));
	int fit = MIN(MIN(left, room / each), e->nslots - e->members);
	bool runs_few = 2 * e->members < e->o.max_sequences;
	return fit == left || runs_few ? MAX(fit, 0) : 0;
}

static void start_samples(struct engine *e, struct group *g, int n)
{
	bool first = g->started == 0;
	struct slot *s = slot_take(e, e->nrunning, SLOT_WAIT, g);
	if (first) s->state = g->prefilled ? SLOT_RUN : SLOT_PREFILL;
	for (int i = 0; i < n; i++) slot_join(s, g->started++);
	e->members += n;
	slot_settle(e, s);
	if (!first) return;
	for (int i = 0; i < g->nprompt_pages; i++) {
		s->pages[s->npages++] = g->prompt_pages[i] = page_take(e);
		e->page_refs[g->prompt_pages[i]]++; /* the group's own reference */
	}
	slot_settle(e, s);
	group_forked(e, g, n);
}

static void start_what_fits(struct engine *e)
{
	for (struct group *g; (g = e->queue);) {
		int n = start_count(e, g);
		if (n == 0) return;
		start_samples(e, g, n);
		if (g->started < g->r.num_samples) return;
		e->queue = g->next_queued;
		if (!e->queue) e->queue_end = &e->queue;
	}
}

/* ---- rows ---- */

void row_push(struct engine *e, struct slot *s, int32_t id)
{
	struct rows *r = &e->rows;
	int pos = s->cached++, page = pos / OPS_PAGE;
	if (page == s->npages) s->pages[s->npages++] = page_take(e);
	r->ids[r->T] = id;
	r->pos[r->T] = pos;
	r->sequence[r->T++] = r->S;
}

/* The slot's rows are complete: its pages become a row of the table. */
void sequence_close(struct engine *e, struct slot *s, int first_row)
{
	struct rows *r = &e->rows;
	if (r->T == first_row) return;
	memcpy(r->table + (int64_t)r->S++ * e->pages_per_sequence, s->pages, (size_t)s->npages * sizeof *s->pages);
	slot_settle(e, s);
}

/* Of the next token; recorded where it may change from token to token. */
static float temperature_of(const struct group *g, struct completion *c)
{
	const struct request *q = &g->r;
	if (!q->temperature_at) return q->sampling.temperature;
	return c->temperatures[c->count] = q->temperature_at(q->temperature_ctx, q->id, c->sample, c->tokens, c->count);
}

/* What a sample draws with depends on itself and its position, not on the row that it shares. */
struct ops_draw draw_of(const struct group *g, struct completion *c)
{
	const struct sampling *q = &g->r.sampling;
	return (struct ops_draw){.temperature = temperature_of(g, c),
		.top_k = q->top_k,
		.top_p = q->top_p,
		.min_p = q->min_p,
		.seed = q->seed,
		.stream = (uint64_t)c->sample,
		.index = (uint64_t)(g->r.nprompt + c->count)};
}

/* Prefill first, then the row whose logits are wanted, once the prompt is stored, and a draw from
 * it for each member. */
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
	for (int i = s->first; i >= 0; i = s->group->next[i]) {
		r->draw[r->draws] = draw_of(s->group, member(s, i));
		r->from[r->draws++] = r->n;
	}
	const struct completion *c = member(s, s->first);
	r->at[r->n] = r->T;
	r->owner[r->n++] = (int)(s - e->slots);
	row_push(e, s, c->count ? c->tokens[c->count - 1] : q->prompt[q->nprompt - 1]);
}

/* Rows of every slot under this adapter, as many as a step has; *prefill_left is shared by all
 * adapters of a step. */
static void gather_rows(struct engine *e, const struct adapter *a, int *prefill_left)
{
	struct rows *r = &e->rows;
	r->T = r->S = r->n = r->draws = 0;
	for (int i = 0; i < e->nrunning; i++) {
		struct slot *s = &e->slots[e->running[i]];
		if (s->group->r.adapter != a || e->slot_done[e->running[i]]) continue;
		e->slot_done[e->running[i]] = true;
		if (s->state == SLOT_WAIT || r->S == e->o.max_sequences) continue;
		int first_row = r->T;
		slot_rows(e, s, prefill_left);
		sequence_close(e, s, first_row);
	}
}

/* ---- tokens ---- */

bool is_finished(const struct engine *e, const struct group *g, struct completion *c)
{
	int32_t id = c->tokens[c->count - 1];
	bool stop = false;
	for (int i = 0; i < g->r.nstop; i++) stop = stop || id == g->stop[i];
	if (isnan(c->logprobs[c->count - 1])) c->finish = FINISH_NAN;
	else if (model_config_is_eos(e->config, id)) c->finish = FINISH_EOS;
	else if (stop || (g->r.should_stop && g->r.should_stop(g->r.stop_ctx, g->r.id, c->sample, c->tokens, c->count)))
		c->finish = FINISH_STOP;
	else if (c->count == g->r.max_new_tokens) c->finish = FINISH_LENGTH;
	else return false;
	return true;
}

void finish(struct engine *e, struct group *g, struct completion *c)
{
	CHECK(e->ready_end < e->ready_cap);
	e->ready[e->ready_end++] = *c;
	*c = (struct completion){0};
	g->live--;
	e->live--;
	e->members--;
}

/* The slot among s and the first nparts of e->parts whose members drew the sample's token; a new
 * one where there is none. */
static struct slot *part_of(struct engine *e, struct slot *s, int sample, int *nparts)
{
	const struct completion *c = member(s, sample);
	for (int i = -1; i < *nparts && !e->o.rows_apart; i++) {
		struct slot *p = i < 0 ? s : &e->slots[e->parts[i]];
		if (member(p, p->first)->tokens[c->count - 1] == c->tokens[c->count - 1]) return p;
	}
	struct slot *p = slot_take(e, slot_place(e, s) + 1, SLOT_RUN, s->group);
	pages_share(e, p, s->pages, s->cached);
	e->slot_done[p - e->slots] = true;
	return &e->slots[e->parts[(*nparts)++] = (int)(p - e->slots)];
}

/* Each member gets its token. Those that are over leave; of the others the first keeps the slot,
 * and those that drew another token go on in slots of their own. Returns the draw behind the
 * members'. */
static int row_take(struct engine *e, struct slot *s, int draw)
{
	struct group *g = s->group;
	int nparts = 0, next;
	s->members = 0;
	for (int sample = s->first; sample >= 0; sample = next, draw++) {
		struct completion *c = member(s, sample);
		next = g->next[sample];
		c->tokens[c->count] = e->drawn[draw];
		c->logprobs[c->count++] = e->logprobs[draw];
		e->generated++;
		if (is_finished(e, g, c)) finish(e, g, c);
		else slot_join(s->members ? part_of(e, s, sample, &nparts) : s, sample);
	}
	/* Promises: the slot's own falls first, by as much as the new ones are. */
	if (s->members) slot_settle(e, s);
	else slot_clear(e, s);
	for (int i = 0; i < nparts; i++) slot_settle(e, &e->slots[e->parts[i]]);
	if (g->live == 0) group_free(g);
	return draw;
}

/* The step's tokens, as the backend drew them, into their completions. */
static void take_tokens(struct engine *e)
{
	for (int i = 0, draw = 0; i < e->rows.n; i++) draw = row_take(e, &e->slots[e->rows.owner[i]], draw);
	e->run += e->rows.n;
	copies_run(e);
}

/* The oldest slot that this step has not handled. */
static struct slot *slot_next(struct engine *e)
{
	for (int i = 0; i < e->nrunning; i++)
		if (!e->slot_done[e->running[i]]) return &e->slots[e->running[i]];
	return NULL;
}

void engine_step(struct engine *e, int *active)
{
	const struct rows *r = &e->rows;
	start_what_fits(e);
	memset(e->slot_done, 0, (size_t)e->nslots * sizeof *e->slot_done);
	fork_waiting(e);
	/* Several steps in one go of the backend, where all rows only decode. */
	if (fused_run(e)) {
		*active = e->live;
		return;
	}
	/* Else one step: a batch for each adapter, with at most prefill_rows rows of prompts in all. */
	int prefill_left = e->o.prefill_rows;
	for (struct slot *s; (s = slot_next(e));) {
		struct adapter *a = s->group->r.adapter;
		gather_rows(e, a, &prefill_left);
		if (!r->T) continue;
		struct ops_rows rows = rows_of(e);
		struct ops_want want = {.n = r->n, .at = r->at, .draw = r->draw, .from = r->from, .draws = r->draws};
		step_run(e->step, e->kv, a, &rows, &want, e->drawn, e->logprobs);
		take_tokens(e);
	}
	*active = e->live;
}
