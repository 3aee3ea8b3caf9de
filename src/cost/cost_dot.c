/* How the fp32 pipes get the operands of a tl.dot (Triton 3.6, read in the PTX of sm_90): both lie
 * in shared memory, unswizzled, in the order in which they were loaded, and each thread reads the
 * rows and columns of the elements that it computes, all of their depth, up to 16 bytes at a time.
 * Sixteen bytes a lane are read by eight lanes at a time. Where neighbours in memory lie along the
 * depth, lanes of different rows meet in the same banks. */
#include "base/base.h"
#include "cost/cost_layout.h"

#define LINE_BYTES 128
#define LANES 32
#define VECTOR_BYTES 16

/* Turns of shared memory for one read of `bytes` a lane, lane l's from at[l] (a multiple of
 * them): lanes go in groups of 128 bytes together; in a group those count that want different
 * bytes of the same banks. */
static int turns(const int64_t at[LANES], int bytes)
{
	int group = MIN(LINE_BYTES / bytes, LANES), sum = 0;
	for (int first = 0; first < LANES; first += group) {
		int most = 1;
		for (int l = first; l < first + group; l++) {
			int same = 0; /* different addresses up to this one in its banks */
			for (int k = first; k <= l; k++) {
				bool is_new = at[k] % LINE_BYTES == at[l] % LINE_BYTES;
				for (int i = first; i < k && is_new; i++) is_new = at[i] != at[k];
				same += is_new;
			}
			most = MAX(most, same);
		}
		sum += most;
	}
	return sum;
}

/* One operand: at[l], the row (or column) that lane l computes; each: how many a thread has; run:
 * how many of them are neighbours. */
static int64_t operand_turns(
	const int64_t at[LANES], int64_t each, int64_t run, int64_t depth, bool is_depth_first, int bytes)
{
	int64_t address[LANES], wide = MAX(MIN(VECTOR_BYTES / bytes, is_depth_first ? depth : run), 1);
	for (int l = 0; l < LANES; l++) address[l] = (is_depth_first ? at[l] * depth : at[l] / wide * wide) * bytes;
	return MAX(each * depth / wide, 1) * turns(address, (int)wide * bytes);
}

int64_t cost_dot_turns(const struct cost_site *site, const struct cost_layout *layout, int ndim, const int32_t *shape,
	int64_t depth, int elem_bytes, int warps)
{
	struct cost_lanes lanes;
	if (ndim < 2 || !cost_lanes_of(layout, ndim, shape, elem_bytes, warps, &lanes)) return 0;
	int64_t columns = shape[ndim - 1], rows = shape[ndim - 2], at[2][LANES], each[2] = {1, 1}, run[2] = {1, 1};
	/* A block's flat index is its row and column; so is that of each base. */
	for (int l = 0; l < LANES; l++) {
		at[0][l] = lanes.lane[l] / columns % rows;
		at[1][l] = lanes.lane[l] % columns;
	}
	for (int b = 0; b < lanes.nreg; b++) {
		int64_t row = lanes.reg[b] / columns % rows, column = lanes.reg[b] % columns;
		each[0] *= row ? 2 : 1;
		each[1] *= column ? 2 : 1;
		run[0] *= row == run[0] ? 2 : 1;
		run[1] *= column == run[1] ? 2 : 1;
	}
	int64_t sum = 0;
	for (int k = 0; k < 2; k++)
		sum += operand_turns(at[k], each[k], run[k], depth, site ? site->is_depth_first[k] : k == 0, elem_bytes);
	return sum * warps;
}
