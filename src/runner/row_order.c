/* Vector clocks: for each stream, up to which row every stream is known to have come. An access is
 * ordered after an earlier one when the clock of its stream includes that one. */
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

struct clocks {
	int nstreams;
	int32_t *stream;       // (nstreams, nstreams): rows done, as their index + 1
	int32_t *event;        // (nevents, nstreams)
	int32_t *last_write;   // (nbuffers, nstreams): index + 1
	int32_t *last_read;    // (nbuffers, nstreams)
	struct front *front;   // (nstreams)
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
	size_t at = (size_t)buffer * (size_t)c->nstreams;
	const int32_t *known = clock_of(c, stream);
	for (int s = 0; s < c->nstreams && c->race.row < 0; s++) {
		int32_t done = s == stream ? when.before : known[s], also = s == stream ? when.also : 0;
		int32_t last[2] = {c->last_write[at + (size_t)s], is_write ? c->last_read[at + (size_t)s] : 0};
		for (int i = 0; i < 2 && c->race.row < 0; i++)
			if (last[i] > done && last[i] != also && last[i] - 1 != row)
				c->race = (struct row_race){row, last[i] - 1, buffer};
	}
	int32_t *last = is_write ? c->last_write : c->last_read;
	last[at + (size_t)stream] = row + 1;
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

struct row_race row_race_find(const struct tape *t, const struct row_kernel *kernels, const bool *is_skipped)
{
	size_t streams = (size_t)MAX(t->nstreams, 1), buffers = (size_t)t->nbuffers + 1;
	struct clocks c = {.nstreams = (int)streams, .tape = t, .kernels = kernels, .race = {-1, -1, -1}};
	c.stream = xcalloc(streams * streams, sizeof *c.stream);
	c.event = xcalloc(((size_t)t->nevents + 1) * streams, sizeof *c.event);
	c.last_write = xcalloc(buffers * streams, sizeof *c.last_write);
	c.last_read = xcalloc(buffers * streams, sizeof *c.last_read);
	c.front = xcalloc(streams, sizeof *c.front);
	for (int i = 0; i < t->nrows && c.race.row < 0; i++)
		if (!is_skipped[i]) step(&c, i);
	/* Whoever called forward goes on with the outputs on the default stream. */
	for (int i = 0; i < t->noutputs && c.race.row < 0; i++)
		for (int s = 1; s < c.nstreams && c.race.row < 0; s++) {
			int32_t last = c.last_write[(size_t)t->outputs[i].buffer * streams + (size_t)s];
			if (last > clock_of(&c, 0)[s]) c.race = (struct row_race){last - 1, -1, t->outputs[i].buffer};
		}
	free(c.stream);
	free(c.event);
	free(c.last_write);
	free(c.last_read);
	free(c.front);
	return c.race;
}
