/* Vector clocks: for each stream, up to which row every stream is known to have come. An access is
 * ordered after an earlier one when the clock of its stream includes that one. Earlier
 * accesses of a buffer are kept for each stream, the last one first, so those that it does
 * not include come first. */
#include "runner/row_order.h"
#include "base/base.h"
#include "tape/tape.h"
#include <stdlib.h>

/* The launch that a dependent one may overtake. What was issued before it need not be done when it
 * begins or ends, where it has overtaken something itself. */
struct front {
	int32_t row;   /* as its index + 1; 0: none */
	int32_t begun; /* rows in front of it that are done when a launch depends on it begins */
	int32_t ended; /* and when it ends */
};
/* When an access happens: when both of these are done. */
struct moment {
	int32_t before; /* all rows of its own stream up to this index + 1 */
	int32_t also;   /* a row: its index + 1; 0: none */
};

/* A row's access to a buffer. */
struct access {
	int32_t row;    /* as its index + 1 */
	int32_t before; /* the one in front of it, of this buffer, stream and kind: its index; -1: none */
};

struct clocks {
	int nstreams;
	int32_t *stream;   // (nstreams, nstreams): rows done, as their index + 1
	int32_t *event;    // (nevents, nstreams)
	int32_t *last;     // (nbuffers, nstreams, 2): the last read and write; -1: none
	int naccesses;
	int room;
	struct access *accesses;   // (naccesses)
	struct front *front;       // (nstreams)
	const struct row_used *used;
	const struct tape *tape;
	const struct row_kernel *kernels;
	struct row_race race;
};

static int32_t *clock_of(struct clocks *c, int stream) { return c->stream + (size_t)stream * (size_t)c->nstreams; }

static void join(int32_t *to, const int32_t *from, int n)
{
	for (int i = 0; i < n; i++) to[i] = MAX(to[i], from[i]);
}

/* Row `row` on `stream` reads or writes a buffer. */
static void use(struct clocks *c, int row, int stream, int buffer, bool is_write, struct moment when)
{
	int32_t *last = c->last + 2 * (size_t)buffer * (size_t)c->nstreams;
	const int32_t *known = clock_of(c, stream);
	for (int k = 0; k < 2 * c->nstreams; k++) {
		int s = k / 2;
		int32_t done = s == stream ? when.before : known[s], also = s == stream ? when.also : 0;
		if (!is_write && k % 2 == 0) continue; /* two reads */
		for (int32_t i = last[k]; i >= 0 && c->accesses[i].row > done && c->race.row < 0; i = c->accesses[i].before) {
			const struct access *a = &c->accesses[i];
			if (a->row == also || a->row - 1 == row) continue;
			/* Both are handed the buffer; whether they use the same of it is known of a replay. */
			int64_t met = c->used ? row_used_meet(c->used, row, a->row - 1, buffer) : -1;
			if (!c->used || met >= 0) c->race = (struct row_race){row, a->row - 1, buffer, met};
		}
	}
	if (c->naccesses == c->room) {
		c->room = MAX(2 * c->room, 64);
		c->accesses = xrealloc(c->accesses, size_mul((size_t)c->room, sizeof *c->accesses));
	}
	int32_t *own = &last[2 * stream + is_write];
	c->accesses[c->naccesses] = (struct access){row + 1, *own};
	*own = c->naccesses++;
}

/* early, late: before and after the kernel waits for the launches in front of it. */
static void launch(struct clocks *c, int row, const struct tape_row *r, struct moment early, struct moment late)
{
	const struct row_kernel *k = &c->kernels[r->kernel];
	int word = 0;
	for (int a = 0; a < r->nargs; a++) {
		const struct tape_arg *arg = &r->args[a];
		uint8_t uses = word < k->nargs ? k->uses[word] : ROW_WRITES | ROW_READS_EARLY | ROW_WRITES_EARLY;
		/* A descriptor's sizes and strides are words behind it, which no other argument's
		 * place can be told from. */
		word += arg->kind == TAPE_ARG_DESCRIPTOR ? k->nargs : 1;
		if (!tape_arg_has_buffer(arg)) continue;
		if (uses & ROW_WRITES_EARLY) use(c, row, r->stream, arg->buffer, true, early);
		if (uses & ROW_READS_EARLY) use(c, row, r->stream, arg->buffer, false, early);
		use(c, row, r->stream, arg->buffer, uses & ROW_WRITES, late);
	}
}

/* A launch, which may begin before the one in front of it ended; then it is the one in front. */
static void launch_in_turn(struct clocks *c, int row, const struct tape_row *r)
{
	const struct row_kernel *k = &c->kernels[r->kernel];
	struct front *front = &c->front[r->stream], before = *front;
	bool overtakes = c->tape->kernels[r->kernel].is_pdl && before.row;
	struct moment early = {overtakes ? before.begun : row, 0}, late = {row, 0};
	/* Its wait is for the launch in front, and says no more of earlier ones than that one's end. */
	if (overtakes && before.ended < before.row - 1) late = (struct moment){before.ended, before.row};
	launch(c, row, r, early, late);
	*front = (struct front){.begun = row, .ended = row};
	if (overtakes && (k->triggers_early || k->may_skip_wait)) front->begun = early.before;
	if (overtakes && k->may_skip_wait) front->ended = early.before;
	if (k->triggers) front->row = row + 1;
}

static void step(struct clocks *c, int row)
{
	const struct tape_row *r = &c->tape->rows[row];
	int32_t *known = clock_of(c, r->stream), *event = c->event + (size_t)r->event * (size_t)c->nstreams;
	/* An event remembers what its stream knew; who waits for it knows that too. */
	if (r->kind == TAPE_RECORD) {
		memcpy(event, known, (size_t)c->nstreams * sizeof *event);
		return;
	}
	if (r->kind == TAPE_WAIT) {
		join(known, event, c->nstreams);
		return;
	}
	struct moment before = {row, 0};
	if (r->kind == TAPE_LAUNCH) {
		launch_in_turn(c, row, r);
	} else {
		if (r->kind == TAPE_COPY) use(c, row, r->stream, r->src.buffer, false, before);
		for (int i = 0; i < r->nreads; i++) use(c, row, r->stream, r->reads[i].buffer, false, before);
		for (int i = 0; i < r->nwrites; i++) use(c, row, r->stream, r->writes[i].buffer, true, before);
		if (r->kind == TAPE_COPY || r->kind == TAPE_FILL) use(c, row, r->stream, r->dst.buffer, true, before);
		c->front[r->stream] = (struct front){0};
	}
	known[r->stream] = row + 1;
}

struct row_race row_race_find(
	const struct tape *t, const struct row_kernel *kernels, const bool *is_skipped, const struct row_used *used)
{
	size_t streams = (size_t)MAX(t->nstreams, 1), buffers = (size_t)t->nbuffers + 1;
	struct clocks c = {.nstreams = (int)streams, .tape = t, .kernels = kernels, .race = {-1, -1, -1, -1}};
	/* Where too many pieces of buffers were used, none is known. */
	c.used = used && !used->is_full ? used : NULL;
	c.stream = xcalloc(streams * streams, sizeof *c.stream);
	c.event = xcalloc(((size_t)t->nevents + 1) * streams, sizeof *c.event);
	c.last = xcalloc(2 * buffers * streams, sizeof *c.last);
	memset(c.last, 0xff, 2 * buffers * streams * sizeof *c.last); /* -1: none */
	c.front = xcalloc(streams, sizeof *c.front);
	for (int i = 0; i < t->nrows && c.race.row < 0; i++)
		if (!is_skipped[i]) step(&c, i);
	/* Whoever called forward goes on with the outputs on the default stream, and when they are let
	 * go with all of their memory: whole buffers. */
	for (int i = 0; i < t->noutputs && c.race.row < 0; i++)
		for (int s = 1; s < c.nstreams && c.race.row < 0; s++) {
			int32_t last = c.last[2 * ((size_t)t->outputs[i].buffer * streams + (size_t)s) + 1];
			if (last >= 0 && c.accesses[last].row > clock_of(&c, 0)[s])
				c.race = (struct row_race){c.accesses[last].row - 1, -1, t->outputs[i].buffer, -1};
		}
	free(c.stream);
	free(c.event);
	free(c.last);
	free(c.accesses);
	free(c.front);
	return c.race;
}
