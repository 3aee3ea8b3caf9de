#include "rl/rl_pack.h"
#include "base/base.h"
#include "model/model.h"

#include <stdlib.h>

struct pack_place {
	struct pack_sequence s;
	size_t rows; /* its positions begin there in pack.rows */
	int loss;    /* and its answer's tokens in pack.head_of */
};

void pack_init(struct pack *p, int max_tokens, bool shares)
{
	size_t n = (size_t)max_tokens;
	*p = (struct pack){.max_tokens = max_tokens, .shares = shares};
	p->ids = xcalloc(n, sizeof *p->ids);
	p->pos = xcalloc(n, sizeof *p->pos);
	p->start = xcalloc(n + 1, sizeof *p->start);
	p->follows = xcalloc(n, sizeof *p->follows);
	p->head = xcalloc(n, sizeof *p->head);
	p->member_begin = xcalloc(n + 1, sizeof *p->member_begin);
}

void pack_release(struct pack *p)
{
	void *arrays[] = {
		p->ids, p->pos, p->start, p->follows, p->head, p->member_begin, p->head_of, p->member, p->places, p->rows};
	for (size_t i = 0; i < ARRAY_LEN(arrays); i++) free(arrays[i]);
	*p = (struct pack){0};
}

void pack_clear(struct pack *p)
{
	p->T = p->S = p->nhead = p->nloss = p->nplaces = 0;
	p->nrows = 0;
}

static void room_make(struct pack *p, int positions, int answer)
{
	if (p->nplaces == p->places_cap) {
		p->places_cap = MAX(64, 2 * p->places_cap);
		p->places = xrealloc(p->places, size_mul((size_t)p->places_cap, sizeof *p->places));
	}
	if (p->nrows + (size_t)positions > p->rows_cap) {
		p->rows_cap = MAX(2 * p->rows_cap, p->nrows + (size_t)positions);
		p->rows = xrealloc(p->rows, size_mul(p->rows_cap, sizeof *p->rows));
	}
	if (p->nloss + answer > p->loss_cap) {
		p->loss_cap = MAX(2 * p->loss_cap, p->nloss + answer);
		p->head_of = xrealloc(p->head_of, size_mul((size_t)p->loss_cap, sizeof *p->head_of));
		p->member = xrealloc(p->member, size_mul((size_t)p->loss_cap, sizeof *p->member));
	}
}

/* Answer tokens that both begin with, at equal temperatures. */
static int common_answer(const struct pack_sequence *a, const struct pack_sequence *b)
{
	int n = 0, most = MIN(a->count, b->count);
	while (n < most && a->answer[n] == b->answer[n] &&
		(a->temperature ? a->temperature[n] : 0) == (b->temperature ? b->temperature[n] : 0))
		n++;
	return n;
}

/* The sequence that has most in common with this one, and how many tokens; NULL: there is none of
 * its prompt. Those of a prompt stand together, so its family is the last one. */
static const struct pack_place *donor_find(const struct pack *p, const struct pack_sequence *s, int *common)
{
	const struct pack_place *best = NULL;
	*common = 0;
	for (int i = p->nplaces; p->shares && i-- > 0 && p->places[i].s.prompt == s->prompt;) {
		int n = s->nprompt + common_answer(&p->places[i].s, s);
		if (n <= *common) continue;
		*common = n;
		best = &p->places[i];
	}
	return best;
}

bool pack_add(struct pack *p, const struct pack_sequence *s)
{
	int n = s->nprompt + s->count, common;
	room_make(p, n, s->count);
	const struct pack_place *donor = donor_find(p, s, &common);
	if (p->T + n - common > p->max_tokens || p->S == PASS_SEQUENCES_MAX) return false;
	struct pack_place place = {*s, p->nrows, p->nloss};
	int32_t *row = p->rows + p->nrows;
	/* What is there already, then its own tokens: a sequence that follows the last common row. */
	if (common) memcpy(row, p->rows + donor->rows, (size_t)common * sizeof *row);
	if (common < n) {
		p->follows[p->S] = common ? row[common - 1] : -1;
		p->start[p->S++] = p->T;
	}
	for (int i = common; i < n; i++) {
		p->ids[p->T] = i < s->nprompt ? s->prompt[i] : s->answer[i - s->nprompt];
		p->pos[p->T] = i;
		row[i] = p->T++;
	}
	/* A token is predicted from the row before it; where that token is common too, by
	 * the donor's head row. */
	for (int k = 0; k < s->count; k++) {
		int at = s->nprompt + k;
		if (at < common) {
			p->head_of[p->nloss++] = p->head_of[donor->loss + k];
			continue;
		}
		p->head[p->nhead] = (struct head_row){row[at - 1], s->answer[k], s->temperature ? s->temperature[k] : 0};
		p->head_of[p->nloss++] = p->nhead++;
	}
	p->places[p->nplaces++] = place;
	p->nrows += (size_t)n;
	return true;
}

void pack_close(struct pack *p)
{
	p->start[p->S] = p->T;
	p->batch = (struct batch){p->ids, {p->T, p->S, p->start, p->pos, p->shares ? p->follows : NULL}};
	/* Loss rows by head row: counted, summed, filled in order. */
	memset(p->member_begin, 0, ((size_t)p->nhead + 1) * sizeof *p->member_begin);
	for (int k = 0; k < p->nloss; k++) p->member_begin[p->head_of[k] + 1]++;
	for (int h = 0; h < p->nhead; h++) p->member_begin[h + 1] += p->member_begin[h];
	for (int k = 0; k < p->nloss; k++) p->member[p->member_begin[p->head_of[k]]++] = k;
	for (int h = p->nhead; h > 0; h--) p->member_begin[h] = p->member_begin[h - 1];
	p->member_begin[0] = 0;
}
