/* row_order: whether a tape's rows are ordered where they have to be. A GPU runs the rows of one
 * stream in order, and those of several as events order them; a launch with programmatic dependent
 * launch may start before the one in front of it ended. Two rows that nothing orders, that share
 * memory and of which one writes to it, race, and so does an output that was written on a stream
 * which the default one never waits for. What was given is ready from the start.
 *
 * Forward may be called again at once, on what it returned, as blocks of a model are: then a
 * dependent launch may also overtake the last launches of the call before. Two calls in a
 * row must not race either.
 *
 * The tape alone says which buffers a row is handed, not which bytes of them it uses. So rows are
 * looked at by whole buffers first; where some race so, by the bytes that they used in a replay
 * (row_used.h). One replay says nothing of another's bytes: each is looked at. */
#ifndef HONE_ROW_ORDER_H
#define HONE_ROW_ORDER_H
#include "runner/row_used.h"
#include "tape/tape.h"

enum row_use {
	ROW_WRITES = 1,      /* stores through the argument; else it reads */
	ROW_READS_EARLY = 2, /* before it waits for the launches in front of it */
	ROW_WRITES_EARLY = 4
};
/* What a kernel does that the tape does not say. */
struct row_kernel {
	bool may_skip_wait;    /* ends, on some way, without griddepcontrol.wait */
	bool triggers;         /* lets dependent launches start early */
	bool triggers_early;   /* before it has waited itself */
	const uint8_t *uses;   // (arguments of the IR's function): enum row_use, or'ed
	int nargs;
};
struct row_race {
	int row;   /* -1: no race */
	int other; /* -1: the end of forward */
	int buffer;
	int64_t at;        /* the first byte of it that both use; -1: judged by the whole buffer */
	bool is_next_call; /* `row` is of the call of forward behind that of `other` */
};
/* kernels: one for each of the tape; is_skipped: rows that never run. used: what each row used in
 * the replay that is looked at; NULL, or where it is full: whole buffers. */
struct row_race row_race_find(
	const struct tape *t, const struct row_kernel *kernels, const bool *is_skipped, const struct row_used *used);
#endif
