/* Vector clocks: for each stream, up to which row every stream is known to have come. An access is
 * ordered after an earlier one when the clock of its stream includes that one. Earlier
 * accesses of a buffer are kept for each stream, the last one first, so those that it does
 * not include come first.
 *
 * Dependent launches break the order of their own stream. What one may overtake is kept as the rows
 * that are open: those in front of it that need not be done. And they look beyond forward: the
 * launch in front of the first may be the last of the call before, whose outputs are this one's
 * inputs. So a tape that has any is walked twice, as two calls in a row. */
#include "runner/row_order.h"
#include "base/base.h"
#include "tape/tape.h"
#include <stdlib.h>

#define CALLS 2
#define OPEN_WORDS ((CALLS * TAPE_ROWS_MAX + 63) / 64)

/* Rows that need not be done: a bit for each, by its place in the walk. */
struct open_rows {
	uint64_t bits[OPEN_WORDS];
	bool any;
};
/* The launch that a dependent one of its stream may overtake. */
struct front {
	bool is_one;            /* false: nothing that is open is in front */
	bool triggers;          /* a launch that depends on it may begin before it ends */
	struct open_rows begun; /* then these are open, itself included */
	struct open_rows ended; /* and these when it has ended */
};

/* A row's access to a buffer. */
struct access {
	int32_t row;    /* as its place in the walk + 1 */
	int32_t before; /* the one in front of it, of this buffer, stream and kind: its index; -1: none */
};

struct clocks {
	int nstreams;
	int32_t *stream;   // (nstreams, nstreams): rows done, as their place + 1
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

static void open_add(struct open_rows *o, int row)
{
	o->bits[row / 64] |= (uint64_t)1 << row % 64;
	o->any = true;
}

static bool open_has(const struct open_rows *o, int row) { return o->bits[row / 64] >> row % 64 & 1; }

/* The race of a row with an access to `other`, which is its buffer, or an output of the call before
 * that its buffer is given as an input. */
static void race(struct clocks *c, int row, int buffer, const struct access *a, int other)
{
	int nrows = c->tape->nrows, earlier = a->row - 1;
	/* Both are handed the buffer; whether they use the same of it is known of a replay. */
	bool known = c->used && buffer == other;
	int64_t met = known ? row_used_meet(c->used, row % nrows, earlier % nrows, buffer) : -1;
	if (!known || met >= 0)
		c->race = (struct row_race){row % nrows, earlier % nrows, buffer, met, row / nrows > earlier / nrows};
}

static bool is_output(const struct tape *t, int buffer)
{
	for (int i = 0; i < t->noutputs; i++)
		if (t->outputs[i].buffer == buffer) return true;
	return false;
}

/* Row `row` on `stream` reads or writes a buffer, of which an earlier row may have used `other`. */
static void meet(
	struct clocks *c, int row, int stream, int buffer, int other, bool is_write, const struct open_rows *open)
{
	const int32_t *last = c->last + 2 * (size_t)other * (size_t)c->nstreams, *known = clock_of(c, stream);
	for (int k = 0; k < 2 * c->nstreams; k++) {
		int s = k / 2;
		if (!is_write && k % 2 == 0) continue; /* two reads */
		if (s == stream && !open->any) continue;
		for (int32_t i = last[k]; i >= 0 && c->race.row < 0; i = c->accesses[i].before) {
			const struct access *a = &c->accesses[i];
			bool is_same_call = (a->row - 1) / c->tape->nrows == row / c->tape->nrows;
			/* What the call before did on other streams is ordered by how the caller waits. */
			if (s != stream && (a->row <= known[s] || !is_same_call)) break;
			/* What the call before returned is still held, so this call returns other memory. */
			if (other == buffer ? !is_same_call && is_output(c->tape, buffer) : is_same_call) continue;
			if (a->row - 1 == row || (s == stream && !open_has(open, a->row - 1))) continue;
			race(c, row, buffer, a, other);
		}
	}
}

/* Whether an input may be what the call before returned in this buffer. */
static bool may_be_output(const struct tape *t, int buffer, int output)
{
	return t->buffers && t->buffers[buffer].kind == TAPE_INPUT && buffer != output &&
		t->buffers[buffer].bytes == t->buffers[output].bytes;
}

static void use(struct clocks *c, int row, int stream, int buffer, bool is_write, const struct open_rows *open)
{
	const struct tape *t = c->tape;
	meet(c, row, stream, buffer, buffer, is_write, open);
	for (int i = 0; row >= t->nrows && i < t->noutputs; i++)
		if (may_be_output(t, buffer, t->outputs[i].buffer))
			meet(c, row, stream, buffer, t->outputs[i].buffer, is_write, open);
	if (c->naccesses == c->room) {
		c->room = MAX(2 * c->room, 64);
		c->accesses = xrealloc(c->accesses, size_mul((size_t)c->room, sizeof *c->accesses));
	}
	int32_t *own = &c->last[2 * ((size_t)buffer * (size_t)c->nstreams + (size_t)stream) + is_write];
	c->accesses[c->naccesses] = (struct access){row + 1, *own};
	*own = c->naccesses++;
}

/* early, late: what is open before and after the kernel waits for the launches in front of it. */
static void launch(
	struct clocks *c, int row, const struct tape_row *r, const struct open_rows *early, const struct open_rows *late)
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
	static const struct open_rows none;
	const struct row_kernel *k = &c->kernels[r->kernel];
	struct front *front = &c->front[r->stream];
	bool overtakes = c->tape->kernels[r->kernel].is_pdl && front->is_one;
	struct open_rows early = none, late = none;
	/* Its wait is for the launch in front, and says no more of earlier ones than that one's end. */
	if (overtakes) {
		late = front->ended;
		early = front->triggers ? front->begun : front->ended;
	}
	launch(c, row, r, &early, &late);
	*front = (struct front){.is_one = true, .triggers = k->triggers};
	front->ended = k->may_skip_wait ? early : late;
	front->begun = k->triggers_early || k->may_skip_wait ? early : late;
	open_add(&front->begun, row);
}

static void step(struct clocks *c, int row)
{
	static const struct open_rows none;
	const struct tape_row *r = &c->tape->rows[row % c->tape->nrows];
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
	if (r->kind == TAPE_LAUNCH) {
		launch_in_turn(c, row, r);
	} else {
		if (r->kind == TAPE_COPY) use(c, row, r->stream, r->src.buffer, false, &none);
		for (int i = 0; i < r->nreads; i++) use(c, row, r->stream, r->reads[i].buffer, false, &none);
		for (int i = 0; i < r->nwrites; i++) use(c, row, r->stream, r->writes[i].buffer, true, &none);
		if (r->kind == TAPE_COPY || r->kind == TAPE_FILL) use(c, row, r->stream, r->dst.buffer, true, &none);
		c->front[r->stream].is_one = false;
	}
	known[r->stream] = row + 1;
}

/* Whoever called forward goes on with the outputs on the default stream, and when they are let go
 * with all of their memory: whole buffers. */
static void outputs_check(struct clocks *c)
{
	const struct tape *t = c->tape;
	for (int i = 0; i < t->noutputs && c->race.row < 0; i++)
		for (int s = 1; s < c->nstreams && c->race.row < 0; s++) {
			int32_t last = c->last[2 * (t->outputs[i].buffer * c->nstreams + s) + 1];
			if (last >= 0 && c->accesses[last].row > clock_of(c, 0)[s])
				c->race = (struct row_race){c->accesses[last].row - 1, -1, t->outputs[i].buffer, -1, false};
		}
}

struct row_race row_race_find(
	const struct tape *t, const struct row_kernel *kernels, const bool *is_skipped, const struct row_used *used)
{
	size_t streams = (size_t)MAX(t->nstreams, 1), buffers = (size_t)t->nbuffers + 1;
	struct clocks c = {.nstreams = (int)streams, .tape = t, .kernels = kernels, .race = {-1, -1, -1, -1, false}};
	/* Where too many pieces of buffers were used, none is known. */
	c.used = used && !used->is_full ? used : NULL;
	c.stream = xcalloc(streams * streams, sizeof *c.stream);
	c.event = xcalloc(((size_t)t->nevents + 1) * streams, sizeof *c.event);
	c.last = xcalloc(2 * buffers * streams, sizeof *c.last);
	memset(c.last, 0xff, 2 * buffers * streams * sizeof *c.last); /* -1: none */
	c.front = xcalloc(streams, sizeof *c.front);
	for (int i = 0; i < t->nrows && c.race.row < 0; i++)
		if (!is_skipped[i]) step(&c, i);
	outputs_check(&c);
	bool is_pdl = false;
	for (int k = 0; k < t->nkernels; k++) is_pdl |= t->kernels[k].is_pdl;
	for (int i = 0; is_pdl && i < t->nrows && c.race.row < 0; i++)
		if (!is_skipped[i]) step(&c, t->nrows + i);
	free(c.stream);
	free(c.event);
	free(c.last);
	free(c.accesses);
	free(c.front);
	return c.race;
}
