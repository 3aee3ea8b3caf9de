/* How the compiled code of a reduction moves values (Triton 3.6, read in the PTX of sm_90): each
 * thread combines what it holds along the axis, lanes of a warp combine theirs by shuffles, and
 * where several warps lie along the axis each writes its results to shared memory, warps innermost,
 * threads combine those one after another, and every thread reads back the results that it holds.
 * Lanes whose results are 2^k apart then meet in few banks. */
#include "cost/cost_layout.h"
#include "base/base.h"

#define BANKS 32

static bool is_along(const int32_t *base, int axis) { return base[axis] != 0; }

/* Bases that tell results apart, those that lie along the axis, and nothing for those beyond the
 * block, which repeat. */
static int count_bases(const struct cost_bases *b, int ndim, const int32_t *shape, int axis, bool along)
{
	int n = 0;
	for (int i = 0; i < b->n; i++) {
		bool is_in = false;
		for (int d = 0; d < ndim; d++) is_in |= (d == axis) == along && b->at[i][d] > 0 && b->at[i][d] < shape[d];
		n += is_in && is_along(b->at[i], axis) == along;
	}
	return n;
}

/* The result's number, row-major over the other dimensions. */
static int64_t result_of(const int32_t *base, int ndim, const int32_t *shape, int axis)
{
	int64_t at = 0;
	for (int d = 0; d < ndim; d++)
		if (d != axis) at = at * shape[d] + (base[d] < shape[d] ? base[d] : 0);
	return at;
}

/* Turns that shared memory takes when lane l reads or writes the word at[l]: the most words of one
 * bank; lanes that want the same word share it. */
static int turns(const int64_t at[32])
{
	int most = 0;
	for (int bank = 0; bank < BANKS; bank++) {
		int64_t words[32];
		int n = 0;
		for (int l = 0; l < 32; l++) {
			bool is_new = at[l] % BANKS == bank;
			for (int i = 0; i < n && is_new; i++) is_new = words[i] != at[l];
			if (is_new) words[n++] = at[l];
		}
		most = MAX(most, n);
	}
	return most;
}

bool cost_reduce_of(
	const struct cost_layout *layout, int ndim, const int32_t *shape, int axis, int warps, struct cost_reduce *out)
{
	int64_t results = 1, at[32] = {0};
	if (layout->ndim != ndim) return false;
	for (int d = 0; d < ndim; d++) results *= d == axis ? 1 : shape[d];
	int warps_along = 1 << count_bases(&layout->warp, ndim, shape, axis, true);
	int others = count_bases(&layout->lane, ndim, shape, axis, false) +
		count_bases(&layout->warp, ndim, shape, axis, false);
	*out = (struct cost_reduce){.results = MAX(results >> others, 1),
		.steps = count_bases(&layout->lane, ndim, shape, axis, true),
		.warps_along = warps_along};
	if (warps_along == 1) return true;
	for (int l = 0; l < 32; l++)
		for (int b = 0; b < layout->lane.n && b < LAYOUT_LANE_BITS; b++)
			if (l >> b & 1) at[l] ^= warps_along * result_of(layout->lane.at[b], ndim, shape, axis);
	out->rounds = (results * warps_along + 32 * warps - 1) / (32 * warps);
	out->wavefronts = warps * (2 * out->results * turns(at) + 2 * out->rounds);
	return true;
}
