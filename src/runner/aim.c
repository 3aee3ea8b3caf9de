/* aim: the alternating variable method (Korel 1990) over a tape, many lanes at a time.
 *
 * For one open side the vm says of each lane how far it is from it, and one element of an input
 * that it hangs on, drawn by lot. Some lanes are chosen, far apart mostly, so that what one does
 * to its element rarely moves another. Each searches its element's values for itself, all of
 * them in the same replays: first a stock of magnitudes of both signs and what the site compares
 * with, then between the neighbours of the best by golden section. Floats are searched as whole
 * numbers in their order, so the last step is one unit of the last place. What helped stays,
 * another lot draws another element of the same lanes, and so on: conditions on several elements
 * are met one element after another.
 *
 * Where whole numbers are compared for equality no order helps, but bits may: one that only
 * operations like `and`, `xor` and shifts move is a sum of input bits (33 replays and elimination
 * solve it), and one that sums and products of odd numbers move hangs on no higher bit (solved from
 * the lowest on).
 *
 * A side that some lane reached is kept with all elements as they were in that replay, and no later
 * search changes those that it needs. */
#include "runner/aim.h"
#include "base/base.h"
#include "tape/tape.h"
#include "ttir/ttir.h"
#include "vm/vm.h"
#include <math.h>
#include <stdlib.h>

#define POINTS_MAX 32
#define GOLDEN 0.38196601125
#define GOLDEN_STEPS 64  /* bring 2^32 numbers down to NEAR_MAX */
#define NEAR_MAX 5
#define TURNS 8 /* elements of the same lanes, one after another */
#define AVOIDED 0x1p-40 /* smaller is no other number than 0 */
#define POLE_TURNS 4 /* of what no condition stands in front of */
#define LAST 64 /* replays that stay for the last pass, of as many again for the others */
#define NEEDED 64 /* replays that look what of all that was found is needed, and how far off it has to be */
#define NEAR_STEPS 12
#define FOUND_MAX 2 /* values of other elements that are tried in an element's place */
#define COUNT_MAX 512 /* elements that a count may lack */
#define IDLE_MAX 4 /* steps along a row that counts that bring nothing */
#define KINDS 4 /* of lots: turns without success after which no other kind is left */
/* First many lanes, each with an element of its own, then few, whose elements meet no others:
 * values beyond a bound drown what a reference computes of the rest, so that those are tried with
 * one alone. The bound is further where a constant is. */
static const struct {
	int lanes;         /* that search at once */
	int exponent_low;  /* magnitudes that are tried: 2 to this, */
	int exponent_high; /* up to 2 to this, */
	int exponent_step; /* each so many exponents beyond the last */
	double bound;      /* no element is set beyond it, but where a constant is larger */
} PASSES[] = {{64, -12, 8, 2, 0x1p16}, {3, -12, 8, 2, 0x1p16}, {1, 10, 40, 4, 0x1p40}};

struct touched {
	int buffer;
	int64_t offset;
	size_t size;
	enum elem elem;
	uint64_t original;
	uint64_t kept; /* what it is when a search fails */
	int aim;       /* whose search found that */
};
struct hunter {
	int lane; /* of the aim's */
	enum elem elem;
	int touched;
	uint64_t low; /* allowed, in order; likewise the next five */
	uint64_t high;
	uint64_t start;
	uint64_t now;
	uint64_t best;
	double start_far;
	double best_far;
	int npoints;
	uint64_t points[POINTS_MAX]; /* rising */
	double fars[POINTS_MAX];
	uint64_t from; /* bracket of the golden section, and the best inside */
	uint64_t middle;
	uint64_t to;
};
struct search {
	const struct aim_place *at;
	struct launcher_trial how;
	struct vm_aim *aim;
	double constant; /* that the site compares with; NaN: none */
	bool is_pole;
	bool has_avoided; /* a pole was met by this number, and is searched for elsewhere */
	enum elem avoided_elem;
	uint64_t avoided_from; /* in order, with what lies next to it; likewise the next */
	uint64_t avoided_to;
	uint64_t lots; /* drawn so far */
	int pass;
	int replays;    /* left */
	bool is_broken; /* a replay ended with a fault: the search ends */
	int ntouched;
	struct touched touched[RUNNER_PLACED_MAX];
	int nhunters;
	struct hunter hunters[64];
};

/* ---- numbers in order ---- */

static const struct {
	enum elem elem;
	int exponent; /* bits; 0: a whole number */
	int fraction;
} FORMATS[] = {{ELEM_F16, 5, 10}, {ELEM_BF16, 8, 7}, {ELEM_F32, 8, 23}, {ELEM_F64, 11, 52}, {ELEM_I8, 0, 0},
	{ELEM_I16, 0, 0}, {ELEM_I32, 0, 0}, {ELEM_I64, 0, 0}};

static int format_of(enum elem e)
{
	for (size_t i = 0; i < ARRAY_LEN(FORMATS); i++)
		if (FORMATS[i].elem == e) return (int)i;
	return -1;
}
static int width_of(enum elem e) { return 8 * (int)elem_bytes(e); }
static uint64_t mask_of(enum elem e) { return width_of(e) == 64 ? UINT64_MAX : ((uint64_t)1 << width_of(e)) - 1; }

/* Bits as a whole number that rises with the value, and back. */
static uint64_t order_of(enum elem e, uint64_t bits)
{
	uint64_t sign = (uint64_t)1 << (width_of(e) - 1);
	return (bits & sign && elem_is_float(e) ? ~bits : bits ^ sign) & mask_of(e);
}
static uint64_t bits_of(enum elem e, uint64_t order)
{
	uint64_t sign = (uint64_t)1 << (width_of(e) - 1);
	return (!(order & sign) && elem_is_float(e) ? ~order : order ^ sign) & mask_of(e);
}

/* The number next to x towards zero that the format has; within its normal range. */
static uint64_t order_near(enum elem e, double x)
{
	int f = format_of(e), exponent;
	if (!FORMATS[f].exponent) return order_of(e, (uint64_t)(int64_t)x & mask_of(e));
	double part = frexp(fabs(x), &exponent) * 2 - 1; /* [0, 1) */
	int bias = (1 << (FORMATS[f].exponent - 1)) - 1, field = exponent - 1 + bias;
	uint64_t bits = 0;
	if (x != 0 && field > 0)
		bits = (uint64_t)MIN(field, 2 * bias) << FORMATS[f].fraction | (uint64_t)ldexp(part, FORMATS[f].fraction);
	if (x < 0) bits |= (uint64_t)1 << (width_of(e) - 1);
	return order_of(e, bits);
}

/* ---- elements ---- */

static uint64_t element_read(const struct search *s, const struct touched *t)
{
	uint64_t bits = 0;
	memcpy(&bits, s->at->launcher->bytes(s->at->launcher, t->buffer) + t->offset, t->size);
	return bits;
}
static void element_write(const struct search *s, const struct touched *t, uint64_t bits)
{
	memcpy(s->at->launcher->bytes(s->at->launcher, t->buffer) + t->offset, &bits, t->size);
}

/* The element at an address of the tape; -1: none that may be another. */
static int touched_of(struct search *s, uint64_t address, size_t size)
{
	int buffer = (int)(address >> TAPE_ADDRESS_SHIFT) - 1;
	int64_t offset = (int64_t)(address & (((uint64_t)1 << TAPE_ADDRESS_SHIFT) - 1));
	const struct tape *t = s->at->tape;
	if (buffer < 0 || buffer >= t->nbuffers || s->at->given[buffer] < 0 || !s->at->is_read_only[buffer] ||
		offset + (int64_t)size > t->buffers[buffer].bytes)
		return -1;
	for (int i = 0; i < s->ntouched; i++)
		if (s->touched[i].buffer == buffer && s->touched[i].offset == offset)
			return s->touched[i].size == size ? i : -1;
	if (s->ntouched == RUNNER_PLACED_MAX) return -1;
	struct touched *new = &s->touched[s->ntouched];
	*new = (struct touched){.buffer = buffer, .offset = offset, .size = size};
	new->original = new->kept = element_read(s, new);
	return s->ntouched++;
}

/* What whole numbers of a buffer are seen to lie between. */
static void range_read(const struct search *s, const struct touched *t, enum elem e, uint64_t *low, uint64_t *high)
{
	const uint8_t *data = s->at->launcher->bytes(s->at->launcher, t->buffer);
	*low = UINT64_MAX;
	*high = 0;
	for (int64_t at = 0; at + (int64_t)t->size <= s->at->tape->buffers[t->buffer].bytes; at += (int64_t)t->size) {
		uint64_t bits = 0;
		memcpy(&bits, data + at, t->size);
		*low = MIN(*low, order_of(e, bits));
		*high = MAX(*high, order_of(e, bits));
	}
}

/* ---- replays ---- */

static bool is_met(const struct search *s)
{
	int n;
	bool any = false;
	const struct vm_aim_lane *lanes = vm_aim_lanes(s->aim, &n);
	for (int i = 0; i < n; i++) any |= lanes[i].far == 0;
	return any;
}

static bool is_avoided(const struct search *s, const struct hunter *h, uint64_t order)
{
	return s->has_avoided && s->avoided_elem == h->elem && order >= s->avoided_from && order <= s->avoided_to;
}

static void replay_rows(struct search *s)
{
	struct runner_fault fault;
	struct runner_result nothing = {0};
	const struct tape *t = s->at->tape;
	s->is_broken |= s->replays-- <= 0;
	for (int i = 0; i < t->nrows && !s->is_broken; i++)
		if (!s->at->is_skipped[i])
			s->is_broken = s->at->launcher->row_run(s->at->launcher, i, &s->how, &nothing, &fault) != 0;
	/* A whole number that was divided by zero has met its pole. */
	if (s->is_pole && s->replays >= 0 && is_met(s)) s->is_broken = false;
}

/* Each hunter's element becomes what it wants to try; whether some lane reached the side. */
static bool try_all(struct search *s)
{
	int n;
	bool is_hit = false;
	for (int i = 0; i < s->nhunters; i++) {
		struct hunter *h = &s->hunters[i];
		element_write(s, &s->touched[h->touched], bits_of(h->elem, h->now));
	}
	vm_aim_begin(s->aim, 0, 0);
	replay_rows(s);
	const struct vm_aim_lane *lanes = vm_aim_lanes(s->aim, &n);
	for (int i = 0; i < s->nhunters && !s->is_broken; i++) {
		struct hunter *h = &s->hunters[i];
		double far = lanes[h->lane].far;
		if (h->now < h->low || h->now > h->high || far >= h->best_far || is_avoided(s, h, h->now)) continue;
		is_hit |= far == 0;
		h->best_far = far;
		h->best = h->now;
	}
	/* What reached it stands beside what an input may have, and not beside
	 * what reached it before. */
	for (int i = 0; i < s->nhunters && is_hit; i++) {
		const struct hunter *h = &s->hunters[i];
		if (h->now < h->low || h->now > h->high || is_avoided(s, h, h->now))
			element_write(s, &s->touched[h->touched], bits_of(h->elem, h->start));
	}
	return is_hit;
}

static double far_of(struct search *s, const struct hunter *h)
{
	int n;
	return vm_aim_lanes(s->aim, &n)[h->lane].far;
}
static uint64_t differs(struct search *s, const struct hunter *h)
{
	int n;
	return vm_aim_lanes(s->aim, &n)[h->lane].bits;
}

/* ---- who hunts ---- */

static uint32_t lot(struct search *s) { return rng_u32(0x61696d, 0, s->lots++); }

static void point_add(struct hunter *h, uint64_t order)
{
	int at = h->npoints;
	if (at == POINTS_MAX || order < h->low || order > h->high) return;
	for (int i = 0; i < h->npoints; i++)
		if (h->points[i] == order) return;
	for (; at > 0 && h->points[at - 1] > order; at--) h->points[at] = h->points[at - 1];
	h->points[at] = order;
	h->npoints++;
}

/* Magnitudes of both signs with fractions by lot, zero, and the site's constant with its
 * neighbours; of whole numbers any that the input has room for. */
static void points_make(struct search *s, struct hunter *h)
{
	int f = format_of(h->elem);
	bool is_float = FORMATS[f].exponent != 0;
	h->npoints = 0;
	point_add(h, h->start);
	if (isfinite(s->constant)) {
		uint64_t c = order_near(h->elem, s->constant);
		point_add(h, c);
		point_add(h, c + 1);
		point_add(h, c - 1);
	}
	if (is_float) point_add(h, order_near(h->elem, 0));
	/* What another side was reached with: a count of elements that are so rises one by one. */
	for (int i = s->ntouched - 1, found = 0; i >= 0 && found < FOUND_MAX; i--) {
		const struct touched *t = &s->touched[i], *own = &s->touched[h->touched];
		if (t->buffer != own->buffer || t->elem != h->elem || t->kept == t->original) continue;
		point_add(h, order_of(h->elem, t->kept));
		found++;
	}
	for (int e = PASSES[s->pass].exponent_low; e <= PASSES[s->pass].exponent_high; e += PASSES[s->pass].exponent_step) {
		double x = ldexp(1 + (double)lot(s) * 0x1p-32, e + (int)(lot(s) & 1));
		if (is_float) point_add(h, order_near(h->elem, x));
		if (is_float) point_add(h, order_near(h->elem, -x));
		/* The lowest bits of wide formats are drawn too. */
		if (!is_float) point_add(h, h->low + (((uint64_t)lot(s) << 32 | lot(s)) % (h->high - h->low + 1)));
	}
}

static bool hunter_make(struct search *s, int lane, const struct vm_aim_lane *at)
{
	struct hunter *h = &s->hunters[s->nhunters];
	int f = at->address ? format_of(at->elem) : -1;
	int touched = f < 0 ? -1 : touched_of(s, at->address, elem_bytes(at->elem));
	if (touched < 0 || at->far == 0 || isinf(at->far)) return false;
	/* What an earlier aim has found stays: that side would be lost again. */
	if (s->touched[touched].kept != s->touched[touched].original) return false;
	for (int i = 0; i < s->nhunters; i++)
		if (s->hunters[i].touched == touched) return false;
	*h = (struct hunter){.lane = lane, .elem = at->elem, .touched = touched};
	s->touched[touched].elem = at->elem;
	h->start = h->best = h->now = order_of(h->elem, element_read(s, &s->touched[touched]));
	h->start_far = h->best_far = at->far;
	double bound = PASSES[s->pass].bound;
	if (isfinite(s->constant)) bound = MAX(bound, MIN(4 * fabs(s->constant), 0x1p24));
	h->low = order_near(h->elem, -bound);
	h->high = order_near(h->elem, bound);
	if (!FORMATS[f].exponent) range_read(s, &s->touched[touched], h->elem, &h->low, &h->high);
	if (h->low == 0 && h->high == UINT64_MAX) return false;
	points_make(s, h);
	s->nhunters++;
	return true;
}

/* ---- how they hunt ---- */

static bool hunt_points(struct search *s)
{
	for (int k = 0; k < POINTS_MAX; k++) {
		bool any = false;
		for (int i = 0; i < s->nhunters; i++) {
			struct hunter *h = &s->hunters[i];
			h->now = k < h->npoints ? h->points[k] : h->best;
			any |= k < h->npoints;
		}
		if (!any) break;
		if (try_all(s)) return true;
		if (s->is_broken) return false;
		for (int i = 0; i < s->nhunters; i++)
			if (k < s->hunters[i].npoints) s->hunters[i].fars[k] = far_of(s, &s->hunters[i]);
	}
	return false;
}

/* Between the neighbours of the best point, which stays inside. At a pole every second lane takes
 * any point that is nearer than its neighbours, by lot, and so do all where it was met already:
 * what is done at one number may be guarded. */
static void bracket_make(struct search *s, struct hunter *h)
{
	int best = 0;
	for (int k = 1; k < h->npoints; k++)
		if (h->fars[k] < h->fars[best]) best = k;
	bool is_any = s->has_avoided || (s->is_pole && h->lane % 2);
	for (int k = 0, found = 0; k < h->npoints && is_any; k++) {
		bool is_least = (k == 0 || h->fars[k] < h->fars[k - 1]) && (k + 1 == h->npoints || h->fars[k] < h->fars[k + 1]);
		if (!is_least || is_avoided(s, h, h->points[k]) || lot(s) % (uint32_t)++found) continue;
		best = k;
		h->best = h->points[k];
		h->best_far = h->fars[k];
	}
	h->from = best > 0 ? h->points[best - 1] : h->low;
	h->to = best + 1 < h->npoints ? h->points[best + 1] : h->high;
	h->middle = h->npoints ? h->points[best] : h->best;
	if (h->best_far < (h->npoints ? h->fars[best] : INFINITY)) h->middle = h->from = h->to = h->best;
}

static bool hunt_golden(struct search *s)
{
	for (int i = 0; i < s->nhunters; i++) bracket_make(s, &s->hunters[i]);
	for (int step = 0; step < GOLDEN_STEPS; step++) {
		bool any = false;
		/* A point in the longer part, or none where the bracket is short. */
		for (int i = 0; i < s->nhunters; i++) {
			struct hunter *h = &s->hunters[i];
			uint64_t below = h->middle - h->from, above = h->to - h->middle;
			h->now = above > below ? h->middle + (uint64_t)((double)above * GOLDEN)
								   : h->middle - (uint64_t)((double)below * GOLDEN);
			any |= above + below > NEAR_MAX;
		}
		if (!any) break;
		if (try_all(s)) return true;
		if (s->is_broken) return false;
		/* What is nearer becomes the middle, what is not an end. */
		for (int i = 0; i < s->nhunters; i++) {
			struct hunter *h = &s->hunters[i];
			bool is_nearer = h->best == h->now;
			if (h->now == h->middle) continue;
			if ((h->now > h->middle) == is_nearer) h->from = is_nearer ? h->middle : h->now;
			else h->to = is_nearer ? h->middle : h->now;
			if (is_nearer) h->middle = h->now;
		}
	}
	/* Roundings make the last few numbers go up and down. */
	for (int k = -NEAR_MAX; k <= NEAR_MAX; k++) {
		for (int i = 0; i < s->nhunters; i++) {
			struct hunter *h = &s->hunters[i];
			uint64_t next = h->middle + (uint64_t)k;
			h->now = next < h->low || next > h->high ? h->best : next;
		}
		if (try_all(s)) return true;
		if (s->is_broken) return false;
	}
	return false;
}

/* Whether flipped bits give a number that the input may have. */
static void flip_try(struct hunter *h, uint64_t flips)
{
	uint64_t next = order_of(h->elem, bits_of(h->elem, h->start) ^ flips);
	h->now = next < h->low || next > h->high ? h->start : next;
}

/* Bits that flip others, whatever these are: columns of a system over two numbers. */
struct system {
	uint64_t start;      /* in which bits the operands differ at the start */
	uint64_t column[64]; /* what input bit i flips */
};

/* The input bits to flip so that nothing differs; low ones first, which move a float least. */
static uint64_t system_solve(const struct system *q, int width)
{
	uint64_t row[64] = {0}, by[64] = {0}, left = q->start, flips = 0;
	/* Each pivot bit has one row, a sum of columns, and by which input bits. */
	for (int i = 0; i < width; i++) {
		uint64_t v = q->column[i], b = (uint64_t)1 << i;
		for (int k = 63; k >= 0; k--) {
			if (!(v >> k & 1)) continue;
			if (!row[k]) {
				row[k] = v;
				by[k] = b;
				break;
			}
			v ^= row[k];
			b ^= by[k];
		}
	}
	for (int k = 63; k >= 0; k--) {
		if (!(left >> k & 1)) continue;
		left ^= row[k];
		flips ^= by[k];
	}
	return left ? 0 : flips;
}

static bool hunt_bits(struct search *s)
{
	struct system *q = xcalloc((size_t)s->nhunters + 1, sizeof *q);
	bool is_hit = false;
	int width = 0;
	for (int i = 0; i < s->nhunters; i++) width = MAX(width, width_of(s->hunters[i].elem));
	for (int bit = -1; bit <= width && !is_hit && !s->is_broken; bit++) {
		for (int i = 0; i < s->nhunters; i++) {
			struct hunter *h = &s->hunters[i];
			bool is_own = bit >= 0 && bit < width_of(h->elem);
			/* Single bits may leave what the input may have: only the vm sees them. */
			h->now = is_own ? order_of(h->elem, bits_of(h->elem, h->start) ^ (uint64_t)1 << bit) : h->start;
			if (bit == width) flip_try(h, system_solve(&q[i], width_of(h->elem)));
		}
		is_hit = try_all(s);
		for (int i = 0; i < s->nhunters; i++) {
			if (bit < 0) q[i].start = differs(s, &s->hunters[i]);
			else if (bit < 64) q[i].column[bit] = differs(s, &s->hunters[i]) ^ q[i].start;
		}
	}
	free(q);
	return is_hit;
}

/* From the lowest bit on: a flip that makes more low bits agree stays. */
static bool hunt_carries(struct search *s)
{
	uint64_t flips[64] = {0}, left[64];
	for (int i = 0; i < s->nhunters; i++) left[i] = UINT64_MAX;
	for (int bit = -1; bit < 64; bit++) {
		bool any = bit < 0;
		for (int i = 0; i < s->nhunters; i++) {
			struct hunter *h = &s->hunters[i];
			uint64_t flip = bit < 0 || bit >= width_of(h->elem) ? 0 : (uint64_t)1 << bit;
			any |= flip != 0;
			h->now = order_of(h->elem, bits_of(h->elem, h->start) ^ flips[i] ^ flip);
		}
		if (!any) break;
		if (try_all(s)) return true;
		if (s->is_broken) return false;
		for (int i = 0; i < s->nhunters; i++) {
			uint64_t now = differs(s, &s->hunters[i]);
			/* lowest bits that differ */
			bool is_better = bit < 0 || (now & -now) - 1 > (left[i] & -left[i]) - 1;
			if (!is_better) continue;
			left[i] = now;
			if (bit >= 0 && bit < width_of(s->hunters[i].elem)) flips[i] ^= (uint64_t)1 << bit;
		}
	}
	return false;
}

/* ---- one side ---- */

static bool hunt(struct search *s)
{
	bool has_bits = false;
	for (int i = 0; i < s->nhunters; i++) has_bits |= differs(s, &s->hunters[i]) != 0;
	if (hunt_points(s) || s->is_broken) return !s->is_broken;
	if (has_bits && (hunt_bits(s) || s->is_broken)) return !s->is_broken;
	if (has_bits && (hunt_carries(s) || s->is_broken)) return !s->is_broken;
	return hunt_golden(s) && !s->is_broken;
}

/* What each hunter found best stays; whether anything is better than before. */
static bool keep_best(struct search *s)
{
	bool is_better = false;
	for (int i = 0; i < s->nhunters; i++) {
		struct hunter *h = &s->hunters[i];
		is_better |= h->best_far < h->start_far;
		element_write(s, &s->touched[h->touched], bits_of(h->elem, h->best));
	}
	return is_better;
}

/* ---- counts ---- */

/* The hunter whose lane counts elements: its own brought the lane nearer by one, and more are
 * lacking. Of several the one that lacks least; NULL: none. */
static const struct hunter *counting(const struct search *s)
{
	const struct hunter *nearest = NULL;
	for (int i = 0; i < s->nhunters; i++) {
		const struct hunter *h = &s->hunters[i];
		double gain = h->start_far - h->best_far;
		bool is_count = h->best_far >= 1 && h->best_far <= COUNT_MAX && gain > 0 && gain <= 1;
		if (is_count && (!nearest || h->best_far < nearest->best_far)) nearest = h;
	}
	return nearest;
}

/* The elements beside one of a count, to one side, become what it became: each time as many as are
 * lacking at least, so that no step passes the number. Some of them are counted already, or lie in
 * another row, so a few steps may bring nothing. Whether the side was reached. */
static bool row_fill(struct search *s, const struct hunter *h, int step)
{
	struct touched own = s->touched[h->touched];
	int64_t size = (int64_t)own.size, at = own.offset;
	double far = h->best_far;
	for (int idle = 0; idle < IDLE_MAX && !s->is_broken;) {
		for (double left = MAX(floor(far), 1); left > 0; left--) {
			at += step * size;
			int k = at < 0 ? -1
						   : touched_of(s, (uint64_t)(own.buffer + 1) << TAPE_ADDRESS_SHIFT | (uint64_t)at, own.size);
			if (k < 0) return false;
			/* What an earlier aim has found stays. */
			if (s->touched[k].kept != s->touched[k].original) continue;
			s->touched[k].elem = h->elem;
			element_write(s, &s->touched[k], bits_of(h->elem, h->best));
		}
		int n;
		vm_aim_begin(s->aim, 0, 0);
		replay_rows(s);
		double now = vm_aim_lanes(s->aim, &n)[h->lane].far;
		if (now == 0) return !s->is_broken;
		idle = now < far ? 0 : idle + 1;
		far = MIN(far, now);
	}
	return false;
}

static bool count_search(struct search *s)
{
	const struct hunter *h = counting(s);
	return h && (row_fill(s, h, 1) || (!s->is_broken && row_fill(s, h, -1)));
}

/* Elements of the same lanes, one after another, by lot. */
static bool lanes_search(struct search *s, int count)
{
	for (int turn = 0, idle = 0; turn < (s->is_pole ? POLE_TURNS : TURNS) && idle < KINDS; turn++) {
		int n;
		vm_aim_begin(s->aim, (uint64_t)lot(s) << 8 | (uint64_t)(turn + 1), turn ? 0 : count);
		replay_rows(s);
		if (s->is_broken) return false;
		const struct vm_aim_lane *lanes = vm_aim_lanes(s->aim, &n);
		s->nhunters = 0;
		for (int i = 0; i < n; i++) {
			/* All elements at once reached it: a hit like any other. */
			if (turn && lanes[i].far == 0) return true;
			hunter_make(s, i, &lanes[i]);
		}
		if (!s->nhunters && !turn) return false;
		if (s->nhunters && hunt(s)) return true;
		if (s->is_broken) return false;
		idle = keep_best(s) ? 0 : idle + 1;
		if (!idle && count_search(s)) return true;
	}
	return false;
}

static bool is_reached(struct search *s)
{
	vm_aim_begin(s->aim, 0, 0);
	replay_rows(s);
	return is_met(s) && !s->is_broken;
}

/* One that is needed comes as near to what it was as the side allows, more or less: what is far off
 * may be none that a probability or a variance can be. */
static void come_near(struct search *s, struct touched *t)
{
	uint64_t out = order_of(t->elem, t->kept), in = order_of(t->elem, element_read(s, t));
	for (int step = 0; step < NEAR_STEPS && !s->is_broken; step++) {
		uint64_t middle = in / 2 + out / 2;
		element_write(s, t, bits_of(t->elem, middle));
		if (is_reached(s)) in = middle;
		else out = middle;
	}
	element_write(s, t, bits_of(t->elem, in));
}

/* What the side was reached without becomes what it was, by halves, quarters and so on: other
 * lanes' tries drown what a reference computes, and a row of probabilities has no room for them. */
static void keep_needed(struct search *s)
{
	uint64_t found[RUNNER_PLACED_MAX];
	int spared = s->replays;
	s->replays = MIN(spared, NEEDED);
	spared -= s->replays;
	for (int part = (s->ntouched + 1) / 2; part && !s->is_broken; part /= 2)
		for (int from = 0; from < s->ntouched && !s->is_broken; from += part) {
			/* The part as it was; where all of it is so already there is nothing to ask. */
			bool any = false;
			int to = MIN(from + part, s->ntouched);
			for (int t = from; t < to; t++) {
				found[t] = element_read(s, &s->touched[t]);
				any |= found[t] != s->touched[t].kept;
				element_write(s, &s->touched[t], s->touched[t].kept);
			}
			if (!any || is_reached(s)) continue;
			for (int t = from; t < to; t++) element_write(s, &s->touched[t], found[t]);
		}
	for (int t = 0; t < s->ntouched && !s->is_broken; t++)
		if (element_read(s, &s->touched[t]) != s->touched[t].kept) come_near(s, &s->touched[t]);
	s->is_broken = false;
	s->replays = spared + MAX(s->replays, 0);
}

/* number: of this search, among those of all sides. */
static bool side_search(struct search *s, const struct runner_aim *target, int number)
{
	s->aim = s->at->launcher->aim(s->at->launcher, target->site, target->side);
	s->how.aim = s->aim;
	s->constant = target->constant;
	s->is_pole = target->is_pole;
	bool is_found = false;
	/* The last pass has replays of its own, however many the others spend. */
	int last = MIN(LAST, s->replays / 2);
	for (size_t i = 0; s->aim && i < (s->is_pole ? 1 : ARRAY_LEN(PASSES)); i++) {
		bool is_last = i + 1 == ARRAY_LEN(PASSES);
		if (is_last) s->is_broken = false;
		s->pass = (int)i;
		s->replays -= is_last ? 0 : last;
		is_found = lanes_search(s, PASSES[i].lanes);
		s->replays = MAX(s->replays, 0) + (is_last ? 0 : last);
		if (is_found) keep_needed(s);
		for (int t = 0; t < s->ntouched; t++) {
			struct touched *e = &s->touched[t];
			uint64_t found = element_read(s, e);
			if (is_found && e->kept != found) e->aim = number;
			if (is_found) e->kept = found;
			else element_write(s, e, e->kept);
		}
		if (is_found) break;
	}
	vm_aim_free(s->aim);
	s->aim = s->how.aim = NULL;
	return is_found;
}

/* A pole where another number meets it than the first one did: what is done
 * there may be guarded. */
static void pole_search_again(struct search *s, const struct runner_aim *target, int number)
{
	int first = 0;
	while (first < s->ntouched &&
		!(s->touched[first].aim == number && s->touched[first].kept != s->touched[first].original))
		first++;
	if (first == s->ntouched) return;
	s->has_avoided = true;
	s->avoided_elem = s->touched[first].elem;
	/* Zeros of both signs, and what is next to nothing beside them. */
	const struct touched *e = &s->touched[first];
	uint64_t zero = order_of(e->elem, 0), at = order_of(e->elem, e->kept), wide = order_near(e->elem, AVOIDED) - zero;
	bool is_zero = elem_is_float(e->elem) && at >= zero - wide - 1 && at <= zero + wide;
	s->avoided_from = is_zero ? zero - wide - 1 : at;
	s->avoided_to = is_zero ? zero + wide : at;
	s->is_broken = false;
	side_search(s, target, number + RUNNER_AIMS_MAX);
	s->has_avoided = false;
}

void aim_search(const struct aim_place *at, const struct runner_trial *t, struct runner_coverage *out)
{
	struct search *s = xcalloc(1, sizeof *s);
	int launches = 0;
	*s = (struct search){.at = at, .replays = t->aim_replays};
	for (int i = 0; i < at->tape->nrows; i++) launches += at->tape->rows[i].kind == TAPE_LAUNCH && !at->is_skipped[i];
	s->how = (struct launcher_trial){.is_unchecked = true,
		/* Behind another launch all of its programs may matter. */
		.programs_max = launches == 1 ? t->aim_programs : 0,
		.deadline_ns = at->deadline_ns};
	/* Each side has its part of the replays that are left; a fault ends its search alone. */
	for (int i = 0; i < t->naims; i++) {
		int all = s->replays, own = all / (t->naims - i);
		s->replays = own;
		s->is_broken = false;
		bool is_found = side_search(s, &t->aims[i], i);
		if (is_found && t->aims[i].is_pole) pole_search_again(s, &t->aims[i], i);
		s->replays = all - own + MAX(s->replays, 0);
	}
	out->placed = xcalloc((size_t)s->ntouched + 1, sizeof *out->placed);
	for (int i = 0; i < s->ntouched; i++) {
		const struct touched *e = &s->touched[i];
		if (e->kept == e->original) continue;
		bool is_input = at->tape->buffers[e->buffer].kind == TAPE_INPUT;
		out->placed[out->nplaced++] = (struct runner_placed){.input = is_input ? at->given[e->buffer] : -1,
			.param_offset = is_input ? 0 : t->params[at->given[e->buffer]].offset,
			.element = e->offset / (int64_t)e->size,
			.size = (int)e->size,
			.bits = e->kept,
			.aim = e->aim};
	}
	free(s);
}
