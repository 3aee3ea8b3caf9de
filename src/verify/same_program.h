/* same_program: whether the tape of a forward at larger sizes is the judged program at another
 * size.
 *
 * It is where the same rows run over the same buffers: kernels whose IR differs in numbers alone,
 * fills and copies between the same buffers. Numbers are sizes, so arguments, grids, places in
 * buffers and bytes are free.
 *
 * A loop of host code over a size (chunks of a batch, steps of a sequence) makes more turns there.
 * Where at least two turns were judged and were alike, more of them are the same program: whatever
 * a turn makes anew stands for what the judged turns made at its place. What ends such a loop is a
 * condition on sizes, which is looked at elsewhere (sized_step.c). */
#ifndef HONE_VERIFY_SAME_PROGRAM_H
#define HONE_VERIFY_SAME_PROGRAM_H
#include "tape/tape.h"

struct same_program {
	int *row;       /* (large->nrows): the judged row that each stands for */
	int *buffer;    /* (large->nbuffers): the judged buffer that each stands for; -1: no row has it */
	bool has_turns; /* some loop makes more turns than were judged */
	int line;       /* where it is another program: of the row, or 0 */
	char why[200];
};
/* False where it is another program, and why says how. Either way *out is to be released. */
bool same_program(const struct tape *judged, const struct tape *large, struct same_program *out);
void same_program_release(struct same_program *s);
#endif
