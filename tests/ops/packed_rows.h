/* Packed sequences of which none follows another, as the small operations want them. */
#ifndef HONE_TESTS_PACKED_ROWS_H
#define HONE_TESTS_PACKED_ROWS_H
#include "ops/cpu/ops_cpu.h"

enum { PACKED_ROWS_MAX = 1024 };
struct packed_rows {
	int32_t sequence[PACKED_ROWS_MAX];
	int32_t follows[PACKED_ROWS_MAX];
	int32_t family[PACKED_ROWS_MAX + 1];
};

static struct ops_packed packed_apart(struct packed_rows *r, int T, int S, const int32_t *start, const int32_t *pos)
{
	CHECK(T <= PACKED_ROWS_MAX && S <= PACKED_ROWS_MAX);
	for (int s = 0; s < S; s++) {
		r->follows[s] = -1;
		r->family[s] = s;
		for (int t = start[s]; t < start[s + 1]; t++) r->sequence[t] = s;
	}
	r->family[S] = S;
	return (struct ops_packed){T, S, S, start, pos, r->sequence, r->follows, r->family};
}
#endif
