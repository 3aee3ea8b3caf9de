/* infer_fused: several steps of decoding in one go of the backend. Between two steps a device would
 * wait for the host, which for a small model takes longer than the step. So where every row that
 * runs has one sample, and nothing has to be asked of the caller between tokens, the backend makes
 * k steps by itself: each draws, looks for tokens that end a row, and moves on. The host takes all
 * of them afterwards, by the rules of one step at a time; tokens and log-probabilities are those of
 * single steps with the same rows. */
#include "infer_internal.h"
#include <math.h>

/* Tokens that end a sample of the group: the model's own and the request's. */
struct stops {
	int32_t ids[OPS_STOPS_MAX];
	int count;
};

static bool stops_fill(const struct engine *e, const struct group *g, struct stops *out)
{
	const struct model_config *c = e->config;
	int n = 0, total = 1 + c->neos_extra + g->r.nstop;
	if (total > OPS_STOPS_MAX) return false;
	out->ids[n++] = c->eos_token_id;
	for (int i = 0; i < c->neos_extra; i++) out->ids[n++] = c->eos_extra[i];
	for (int i = 0; i < g->r.nstop; i++) out->ids[n++] = g->stop[i];
	out->count = n;
	return true;
}

static bool stops_same(const struct stops *a, const struct stops *b)
{
	return a->count == b->count && !memcmp(a->ids, b->ids, (size_t)a->count * sizeof *a->ids);
}

/* Whether all that runs can take part: one adapter, one sample a row, the same last tokens, and no
 * questions between tokens. */
static bool all_can(const struct engine *e, struct stops *stops)
{
	const struct group *first = e->nrunning ? e->slots[e->running[0]].group : NULL;
	if (!first || e->nrunning > e->o.max_sequences || !stops_fill(e, first, stops)) return false;
	for (int i = 0; i < e->nrunning; i++) {
		const struct slot *s = &e->slots[e->running[i]];
		const struct group *g = s->group;
		struct stops own;
		if (s->state != SLOT_RUN || s->members != 1 || g->r.adapter != first->r.adapter || g->r.temperature_at ||
			g->r.should_stop || !member(s, s->first)->count)
			return false;
		if (g != first && (!stops_fill(e, g, &own) || !stops_same(stops, &own))) return false;
	}
	return true;
}

static int left_of(const struct slot *s) { return s->group->r.max_new_tokens - member(s, s->first)->count; }

/* A power of two, so that few regions are recorded; none longer than the longest row. */
static int steps_count(const struct engine *e)
{
	int most = 0, k = e->o.fused_steps;
	for (int i = 0; i < e->nrunning; i++) most = MAX(most, left_of(&e->slots[e->running[i]]));
	while (k > most) k /= 2;
	return k;
}

/* A row of each slot, with pages for all positions that its steps may store. */
static void rows_fill(struct engine *e, int k)
{
	struct rows *r = &e->rows;
	r->T = r->S = r->n = r->draws = 0;
	for (int i = 0; i < e->nrunning; i++) {
		struct slot *s = &e->slots[e->running[i]];
		struct completion *c = member(s, s->first);
		int first_row = r->T, left = left_of(s), last = s->cached + MIN(k, left) - 1;
		r->draw[r->draws++] = draw_of(s->group, c);
		r->left[r->n] = left;
		r->at[r->n] = r->T;
		r->owner[r->n++] = e->running[i];
		row_push(e, s, c->tokens[c->count - 1]);
		while (s->npages <= last / OPS_PAGE) s->pages[s->npages++] = page_take(e);
		sequence_close(e, s, first_row);
	}
}

/* The tokens of a row, up to its last one. */
static void row_take_many(struct engine *e, int row, int k)
{
	struct slot *s = &e->slots[e->rows.owner[row]];
	struct group *g = s->group;
	struct completion *c = member(s, s->first);
	for (int i = 0; i < k; i++) {
		int64_t at = (int64_t)i * e->rows.n + row;
		CHECKF(e->drawn[at] >= 0, "row %d ended behind %d of %d steps, the engine knows of no reason", row, i, k);
		s->cached += i > 0; /* the first one was counted when its row was made */
		c->tokens[c->count] = e->drawn[at];
		c->logprobs[c->count++] = e->logprobs[at];
		e->generated++;
		e->run++;
		if (!is_finished(e, g, c)) continue;
		finish(e, g, c);
		s->members = 0;
		slot_clear(e, s);
		if (g->live == 0) group_free(g);
		return;
	}
	slot_settle(e, s);
}

bool fused_run(struct engine *e)
{
	struct stops stops;
	if (e->o.fused_steps < 2 || !all_can(e, &stops)) return false;
	int k = steps_count(e);
	if (k < 2) return false;
	/* All rows, their pages ahead, then as many steps as the backend makes alone. */
	rows_fill(e, k);
	const struct rows *r = &e->rows;
	struct ops_rows rows = rows_of(e);
	struct ops_want want = {
		.n = r->n, .at = r->at, .draw = r->draw, .left = r->left, .stop = stops.ids, .nstop = stops.count};
	struct adapter *a = e->slots[e->running[0]].group->r.adapter;
	step_run_many(e->step, e->kv, a, &rows, &want, k, e->drawn, e->logprobs);
	for (int i = 0; i < r->n; i++) row_take_many(e, i, k);
	return true;
}
