/* stage_batch: what the host says of a batch, copied, with what the small operations want to know
 * of it: where each sequence starts, which page list a row reads, where its key and value go. */
#include <stdlib.h>
#include "ops_cpu.h"

static void *array(int n, size_t size) { return xcalloc((size_t)MAX(n, 1), size); }

static struct ops_batch *batch_create(struct ops_context *c, int T, int S, int pages, int n, int draws)
{
	CHECK(T > 0 && S > 0 && pages >= 0 && n >= 0 && draws >= 0);
	struct ops_batch *b = xcalloc(1, sizeof *b);
	*b = (struct ops_batch){.T_max = T, .S_max = S, .pages_max = pages, .n_max = n, .draws_max = draws};
	/* T rows: what each is, and where it stands. */
	b->ids = array(T, sizeof *b->ids);
	b->pos = array(T, sizeof *b->pos);
	b->sequence = array(T, sizeof *b->sequence);
	/* S sequences: where each begins, which it follows, its family and its pages. */
	b->start = array(S + 1, sizeof *b->start);
	b->follows = array(S, sizeof *b->follows);
	b->family = array(S + 1, sizeof *b->family);
	b->table = xcalloc(size_mul((size_t)S, (size_t)MAX(pages, 1)), sizeof *b->table);
	/* Of each row: its sequence's list of pages, and where its key and value go. */
	b->lists = array(T, sizeof *b->lists);
	b->slot = array(T, sizeof *b->slot);
	/* n rows whose log-probabilities are wanted, and what is said about them. */
	b->at = array(n, sizeof *b->at);
	b->target = array(n, sizeof *b->target);
	b->temperature = array(n, sizeof *b->temperature);
	b->logprob = array(n, sizeof *b->logprob);
	b->entropy = array(n, sizeof *b->entropy);
	b->lse = array(n, sizeof *b->lse);
	/* Draws, of which several may come from one row. */
	b->draw = array(draws, sizeof *b->draw);
	b->from = array(draws, sizeof *b->from);
	b->left = array(draws, sizeof *b->left);
	b->drawn_logprob = array(draws, sizeof *b->drawn_logprob);
	b->drawn_lse = array(draws, sizeof *b->drawn_lse);
	b->drawn_temperature = array(draws, sizeof *b->drawn_temperature);
	/* The thin products of adapters, of as many rows as a batch may have. */
	thin_reserve(c, T, 0, 0);
	return b;
}

static void batch_free(struct ops_context *c, struct ops_batch *b)
{
	if (!b) return;
	void *arrays[] = {b->ids, b->pos, b->sequence, b->start, b->follows, b->family, b->table, b->lists, b->slot, b->at,
		b->target, b->temperature, b->logprob, b->entropy, b->lse, b->draw, b->from, b->left, b->drawn_logprob,
		b->drawn_lse, b->drawn_temperature, b};
	for (size_t i = 0; i < ARRAY_LEN(arrays); i++) free(arrays[i]);
}

/* After row t's position changed. */
void batch_slot_set(struct ops_batch *b, int t)
{
	int page = b->pos[t] / OPS_PAGE;
	b->slot[t] = page < b->pages ? b->lists[t][page] * OPS_PAGE + b->pos[t] % OPS_PAGE : -1;
}

/* Families, and that what a sequence follows lies before it in its own. */
static void families_fill(struct ops_batch *b, const struct ops_rows *r)
{
	b->F = 0;
	for (int s = 0; s < r->S; s++) {
		int row = b->follows[s] = r->follows ? r->follows[s] : -1;
		if (row < 0) {
			b->family[b->F++] = s;
			continue;
		}
		/* A sequence that follows is read by position: its rows go on where that row ends. */
		CHECKF(!r->table && b->F && row < b->start[s] && r->sequence[row] >= b->family[b->F - 1],
			"sequence %d follows row %d, which is no earlier row of its family", s, row);
		CHECKF(b->start[s] == b->start[s + 1] || r->pos[b->start[s]] == r->pos[row] + 1,
			"sequence %d follows row %d at position %d, and begins at position %d", s, row, r->pos[row],
			r->pos[b->start[s]]);
	}
	b->family[b->F] = r->S;
}

static int batch_put(struct ops_context *c, struct ops_batch *b, const struct ops_rows *r)
{
	/* It has to fit what was made; then rows are copied. */
	CHECKF(r->T > 0 && r->T <= b->T_max && r->S > 0 && r->S <= b->S_max, "%d rows of %d, %d sequences of %d", r->T,
		b->T_max, r->S, b->S_max);
	CHECKF(!r->table || r->pages <= b->pages_max, "%d pages of %d", r->pages, b->pages_max);
	size_t rows = (size_t)r->T;
	b->T = r->T;
	b->S = r->S;
	b->pages = r->table ? r->pages : 0;
	memcpy(b->ids, r->ids, rows * sizeof *b->ids);
	memcpy(b->pos, r->pos, rows * sizeof *b->pos);
	memcpy(b->sequence, r->sequence, rows * sizeof *b->sequence);
	/* Starts: the first row of each sequence; a sequence without rows begins where the next one
	 * does. */
	int s = 0;
	b->start[0] = 0;
	for (int t = 0; t < r->T; t++) {
		CHECKF(r->sequence[t] >= s && r->sequence[t] < r->S, "row %d is of sequence %d, after %d of %d", t,
			r->sequence[t], s, r->S);
		while (s < r->sequence[t]) b->start[++s] = t;
	}
	while (s < r->S) b->start[++s] = r->T;
	/* Which sequences share a beginning; and, where there are pages, where each row's key and value
	 * go. */
	families_fill(b, r);
	if (!r->table) return r->T;
	memcpy(b->table, r->table, (size_t)r->S * (size_t)r->pages * sizeof *b->table);
	for (int t = 0; t < r->T; t++) {
		b->lists[t] = b->table + (int64_t)r->sequence[t] * r->pages;
		batch_slot_set(b, t);
	}
	return r->T;
}

static int batch_want(struct ops_context *c, struct ops_batch *b, const struct ops_want *w)
{
	CHECKF(w->n >= 0 && w->n <= b->n_max, "%d wanted rows of %d", w->n, b->n_max);
	b->n = w->n;
	for (int i = 0; i < w->n; i++) {
		CHECKF(w->at[i] >= 0 && w->at[i] < b->T, "wanted row %d is at %d of %d", i, w->at[i], b->T);
		b->at[i] = w->at[i];
		b->target[i] = w->target ? w->target[i] : 0;
		b->temperature[i] = w->temperature ? w->temperature[i] : 1;
	}
	/* Draws: each from the row that the host says, or one from each. */
	b->draws = !w->draw ? 0 : w->from ? w->draws : w->n;
	b->moves_on = !w->from;
	CHECKF(b->draws >= 0 && b->draws <= b->draws_max, "%d draws of %d", b->draws, b->draws_max);
	for (int i = 0; i < b->draws; i++) {
		b->draw[i] = w->draw[i];
		b->from[i] = w->from ? w->from[i] : i;
		b->left[i] = w->left ? w->left[i] : INT32_MAX;
		CHECKF(b->from[i] >= 0 && b->from[i] < w->n, "draw %d is from row %d of %d", i, b->from[i], w->n);
	}
	/* Tokens that end a row. */
	CHECKF(w->nstop >= 0 && w->nstop <= OPS_STOPS_MAX, "%d stop tokens, at most %d", w->nstop, OPS_STOPS_MAX);
	b->nstop = w->nstop;
	for (int i = 0; i < w->nstop; i++) b->stop[i] = w->stop[i];
	return w->n;
}

struct ops_packed batch_packed(const struct ops_batch *b)
{
	return (struct ops_packed){.T = b->T,
		.S = b->S,
		.F = b->F,
		.start = b->start,
		.pos = b->pos,
		.sequence = b->sequence,
		.follows = b->follows,
		.family = b->family};
}

struct ops_paged batch_paged(const struct ops_batch *b)
{
	return (struct ops_paged){.T = b->T, .pos = b->pos, .slot = b->slot, .table = b->lists};
}

/* Nothing is recorded: every region runs. */
static bool begin(struct ops_context *c, uint64_t key) { return true; }
static void end(struct ops_context *c) {}

void stage_batch_entries(struct ops *t)
{
	t->batch_create = batch_create;
	t->batch_free = batch_free;
	t->batch_put = batch_put;
	t->batch_want = batch_want;
	t->begin = begin;
	t->end = end;
}
