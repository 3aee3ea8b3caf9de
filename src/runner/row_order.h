/* row_order: whether a tape's rows are ordered where they have to be. A GPU runs the rows of one stream in order, and
 * those of several as events order them; a launch with programmatic dependent launch may start before the one in front
 * of it ended. Two rows that nothing orders, that share a buffer and of which one writes to it, race, and so does an
 * output that was written on a stream which the default one never waits for. What was given is ready from the start. */
#ifndef HONE_ROW_ORDER_H
#define HONE_ROW_ORDER_H
#include "tape/tape.h"

/* What a kernel does that the tape does not say. */
struct row_kernel {
	bool waits;              /* for the launches in front of it, by griddepcontrol.wait */
	bool triggers;           /* lets dependent launches start early */
	const bool *may_write;   // (arguments of the IR's function)
	int nargs;
};
struct row_race {
	int row, other; /* -1: none; other -1: the end of forward */
	int buffer;
};
/* kernels: one for each of the tape; is_skipped: rows that never run. */
struct row_race row_race_find(const struct tape *t, const struct row_kernel *kernels, const bool *is_skipped);
#endif
