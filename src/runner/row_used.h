/* row_used: which bytes of its buffers each row of a tape read and wrote in one replay, as pieces:
 * every byte of a piece was used, and no byte between two. Launches leave their bytes with the
 * launcher, views of other rows say theirs. A launcher that samples knows ends alone: one piece,
 * of which not every byte need have been used. Owned by the replay. */
#ifndef HONE_ROW_USED_H
#define HONE_ROW_USED_H
#include "tape/tape.h"

#define ROW_PIECES_MAX ((int64_t)1 << 23) /* of all rows, 128 MiB; a column of every second element has many */

struct row_piece {
	int64_t from; /* bytes */
	int64_t to;   /* behind the last */
};
struct row_bytes {
	int buffer;
	bool is_write;
	int64_t n;
	struct row_piece *pieces;   // (n): rising
};
struct row_used {
	bool is_full; /* there were more pieces than are kept: no byte is known */
	int64_t npieces;
	int nrows;
	int *nbytes;                // (nrows)
	struct row_bytes **bytes;   // (nrows, nbytes)
};

struct launcher;
struct row_used *row_used_create(int nrows);
void row_used_free(struct row_used *u);
/* A new replay begins. */
void row_used_clear(struct row_used *u);
/* The row has just run: its bytes move from the launcher's marks to here. */
void row_used_take(struct row_used *u, const struct tape *t, int row, struct launcher *l);
/* The first byte of the buffer that both rows use and one of them writes; -1: there is none. */
int64_t row_used_meet(const struct row_used *u, int row, int other, int buffer);
#endif
