/* Copies from one strided view to another: rows of a tape that only move data, and PyTorch's own.
 * Both have a kernel whose neighbouring threads write neighbouring elements, 1,024 of them a block.
 * What it reads lies as it lies, and where that is apart each element costs a line of L1. */
#include "cost/cost.h"
#include "base/base.h"
#include <math.h>

#define BLOCK 1024          /* elements of a block, as they follow one another where they are written */
#define WARP 32
#define ELEMENTS_OF_A_THREAD 4
#define BLOCKS_WALKED 4     /* spread over all; the others are as these are */
#define LINE 128
#define SECTOR 32
#define PATH_CYCLES 400     /* of a block, as a library's */
#define FP32_COPIED 8.0     /* bytes read and written of an element of fp32 */

/* Dimensions in the order of where they write, the nearest last. */
static struct cost_copy in_order(const struct cost_copy *c)
{
	struct cost_copy o = *c;
	for (int i = 1; i < o.ndim; i++)
		for (int at = i; at > 0 && o.to_step[at - 1] < o.to_step[at]; at--) {
			int64_t shape = o.shape[at], to = o.to_step[at], from = o.from_step[at];
			o.shape[at] = o.shape[at - 1], o.to_step[at] = o.to_step[at - 1], o.from_step[at] = o.from_step[at - 1];
			o.shape[at - 1] = shape, o.to_step[at - 1] = to, o.from_step[at - 1] = from;
		}
	return o;
}

/* Distinct lines or sectors that a warp touches; the newest is the likeliest to come again. */
struct places {
	uint64_t at[WARP];
	int count;
};

static void place_add(struct places *p, uint64_t place)
{
	for (int i = p->count; i-- > 0;)
		if (p->at[i] == place) return;
	p->at[p->count++] = place;
}

/* Sectors that a block has read so far: a table of numbers by what is left of them, 0: free. */
struct sectors {
	uint64_t at[2 * BLOCK];
};

static bool sector_add(struct sectors *s, uint64_t sector)
{
	size_t i = (size_t)(sector * 0x9e3779b97f4a7c15 >> 32) % ARRAY_LEN(s->at);
	for (; s->at[i]; i = (i + 1) % ARRAY_LEN(s->at))
		if (s->at[i] == sector + 1) return false;
	s->at[i] = sector + 1;
	return true;
}

/* What a block, or a part of one, touches. */
struct touched {
	double elements;
	double load_lines;
	double missed_lines; /* of those: with a sector that no earlier warp of the block has read */
	double missed_sectors;
	double store_lines;
	double store_sectors;
};

/* n elements of a block, from element `begin` of all on. */
static void warp_walk(const struct cost_copy *c, int64_t begin, int n, struct sectors *seen, struct touched *t)
{
	struct places loads = {.count = 0}, missed = {.count = 0}, stores = {.count = 0}, stored = {.count = 0};
	for (int i = 0; i < n; i++) {
		uint64_t rest = (uint64_t)(begin + i), to = 0, from = 0;
		for (int d = c->ndim; d-- > 0; rest /= (uint64_t)c->shape[d]) {
			uint64_t index = rest % (uint64_t)c->shape[d];
			to += index * (uint64_t)c->to_step[d];
			from += index * (uint64_t)c->from_step[d];
		}
		place_add(&loads, from / LINE);
		if (sector_add(seen, from / SECTOR)) {
			t->missed_sectors++;
			place_add(&missed, from / LINE);
		}
		place_add(&stores, to / LINE);
		place_add(&stored, to / SECTOR);
	}
	t->elements += n;
	t->load_lines += loads.count;
	t->missed_lines += missed.count;
	t->store_lines += stores.count;
	t->store_sectors += stored.count;
}

static struct vm_cost counts_of(double elements, double read, double written, const struct touched *t)
{
	double scale = elements / t->elements, programs = ceil(elements / BLOCK);
	return (struct vm_cost){
		.programs = (int64_t)programs,
		.footprint_bytes = (int64_t)(read + written),
		.footprint_read = (int64_t)read,
		.l2_sectors = (int64_t)(scale * (t->missed_sectors + t->store_sectors)),
		.load_lines = (int64_t)(scale * t->load_lines),
		.missed_lines = (int64_t)(scale * t->missed_lines),
		.store_lines = (int64_t)(scale * t->store_lines),
		.other_instrs = (int64_t)(2 * ceil(elements / WARP)),
		.path_cycles = (int64_t)(programs * PATH_CYCLES),
		.path_trips = (int64_t)programs,
		.path_cycles_max = PATH_CYCLES,
	};
}

struct vm_cost cost_copy_counts(const struct cost_copy *c)
{
	struct cost_copy o = in_order(c);
	struct touched t = {0};
	double elements = 1;
	for (int d = 0; d < o.ndim; d++) elements *= (double)o.shape[d];
	if (!(elements > 0 && elements < (double)COST_COPY_MAX)) return (struct vm_cost){0};
	int64_t n = (int64_t)elements, blocks = (n + BLOCK - 1) / BLOCK, walked = MIN(blocks, BLOCKS_WALKED);
	for (int64_t k = 0; k < walked; k++) {
		int64_t begin = k * blocks / walked * BLOCK, end = MIN(begin + BLOCK, n);
		struct sectors seen = {0};
		for (int64_t at = begin; at < end; at += WARP) warp_walk(&o, at, (int)MIN(WARP, end - at), &seen, &t);
	}
	return counts_of(elements, elements * o.from_size, elements * o.to_size, &t);
}

/* What as many warps would touch if they read and wrote `read` and `written` bytes side by side. */
static struct vm_cost straight_counts(double warps, double read, double written)
{
	const struct touched t = {.elements = warps * WARP,
		.load_lines = fmax(warps, read / LINE),
		.missed_lines = fmax(warps, read / LINE),
		.missed_sectors = ceil(read / SECTOR),
		.store_lines = fmax(warps, written / LINE),
		.store_sectors = ceil(written / SECTOR)};
	return counts_of(warps * WARP, read, written, &t);
}

/* The copy that was timed: a transposed matrix of fp32, each of whose elements is read
 * from a sector of its own. */
static struct vm_cost transposed_counts(double warps)
{
	double elements = warps * WARP, bytes = elements * sizeof(float);
	const struct touched t = {.elements = elements,
		.load_lines = elements,
		.missed_lines = elements,
		.missed_sectors = elements,
		.store_lines = warps,
		.store_sectors = bytes / SECTOR};
	return counts_of(elements, bytes, bytes, &t);
}

double cost_copy_s(const char *name, const char *form, const struct vm_cost *counts, const struct cost_launch *l,
	const struct vm_gpu *gpu)
{
	double straight = cost_operator_s(name, form, l, COST_DOT_FP32, gpu);
	if (!counts->load_lines) return straight;
	/* Two copies of as many elements were timed, one side by side and a transposed one. This one
	 * lies where its estimate lies between theirs. */
	struct vm_binary binary = vm_binary_default(BLOCK / ELEMENTS_OF_A_THREAD / WARP);
	double warps = (double)counts->other_instrs / 2, read = (double)counts->footprint_read,
		   written = (double)counts->footprint_bytes - read;
	struct vm_cost ends[2] = {straight_counts(warps, read, written), transposed_counts(warps)};
	struct cost_launch timed = {.bytes = FP32_COPIED * warps * WARP, .warm = l->warm, .since = l->since};
	double low = vm_estimate(&ends[0], &binary, gpu).time_s, high = vm_estimate(&ends[1], &binary, gpu).time_s,
		   at = vm_estimate(counts, &binary, gpu).time_s - low,
		   transposed = cost_operator_s("clone", "other", &timed, COST_DOT_FP32, gpu);
	return high > low && at > 0 ? fmax(straight, straight + at / (high - low) * (transposed - straight)) : straight;
}
