/* aim_hunt: how lanes of one aim look for values of their elements, all in the same replays: first
 * a stock of magnitudes of both signs and what the site compares with, then, where bits may help,
 * single bits, and last between the neighbours of the best by golden section. */
#include "runner/aim_internal.h"
#include "base/base.h"
#include "tape/tape.h"
#include "ttir/ttir.h"
#include "vm/vm.h"
#include <math.h>
#include <stdlib.h>

#define GOLDEN 0.38196601125
#define GOLDEN_STEPS 64  /* bring 2^32 numbers down to NEAR_MAX */
#define NEAR_MAX 5
#define POLE_ROOM 0x1p16
#define FOUND_MAX 2 /* values of other elements that are tried in an element's place */

/* ---- replays ---- */

bool aim_is_met(const struct search *s)
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

void aim_replay(struct search *s)
{
	struct runner_fault fault;
	struct runner_result nothing = {0};
	const struct tape *t = s->at->tape;
	s->is_broken |= s->replays-- <= 0;
	for (int i = 0; i < t->nrows && !s->is_broken; i++)
		if (!s->at->is_skipped[i])
			s->is_broken = s->at->launcher->row_run(s->at->launcher, i, &s->how, &nothing, &fault) != 0;
	/* A whole number that was divided by zero has met its pole. */
	if (s->is_pole && s->replays >= 0 && aim_is_met(s)) s->is_broken = false;
}

/* Each hunter's element becomes what it wants to try; whether some lane reached the side. */
static bool try_all(struct search *s)
{
	int n;
	bool is_hit = false;
	for (int i = 0; i < s->nhunters; i++) {
		struct hunter *h = &s->hunters[i];
		aim_write(s, &s->touched[h->touched], aim_bits(h->elem, h->now));
	}
	vm_aim_begin(s->aim, 0, 0);
	aim_replay(s);
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
			aim_write(s, &s->touched[h->touched], aim_bits(h->elem, h->start));
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

uint32_t aim_lot(struct search *s) { return rng_u32(0x61696d, 0, s->lots++); }

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
	bool is_float = elem_is_float(h->elem);
	h->npoints = 0;
	point_add(h, h->start);
	if (isfinite(s->constant)) {
		uint64_t c = aim_order_near(h->elem, s->constant);
		point_add(h, c);
		point_add(h, c + 1);
		point_add(h, c - 1);
	}
	if (is_float) point_add(h, aim_order_near(h->elem, 0));
	/* What another side was reached with: a count of elements that are so rises one by one. */
	for (int i = s->ntouched - 1, found = 0; i >= 0 && found < FOUND_MAX; i--) {
		const struct touched *t = &s->touched[i], *own = &s->touched[h->touched];
		if (t->buffer != own->buffer || t->elem != h->elem || t->kept == t->original) continue;
		point_add(h, aim_order(h->elem, t->kept));
		found++;
	}
	for (int e = s->pass->exponent_low; e <= s->pass->exponent_high; e += s->pass->exponent_step) {
		double x = ldexp(1 + (double)aim_lot(s) * 0x1p-32, e + (int)(aim_lot(s) & 1));
		if (is_float) point_add(h, aim_order_near(h->elem, x));
		if (is_float) point_add(h, aim_order_near(h->elem, -x));
		/* The lowest bits of wide formats are drawn too. */
		if (!is_float) point_add(h, h->low + (((uint64_t)aim_lot(s) << 32 | aim_lot(s)) % (h->high - h->low + 1)));
	}
}

bool aim_hunter_make(struct search *s, int lane, const struct vm_aim_lane *at)
{
	struct hunter *h = &s->hunters[s->nhunters];
	bool is_ordered = at->address && aim_is_ordered(at->elem);
	int touched = is_ordered ? aim_touch(s, at->address, elem_bytes(at->elem)) : -1;
	if (touched < 0 || at->far == 0 || isinf(at->far)) return false;
	/* What an earlier aim has found stays: that side would be lost again. */
	if (s->touched[touched].kept != s->touched[touched].original) return false;
	for (int i = 0; i < s->nhunters; i++)
		if (s->hunters[i].touched == touched) return false;
	*h = (struct hunter){.lane = lane, .elem = at->elem, .touched = touched};
	s->touched[touched].elem = at->elem;
	h->start = h->best = h->now = aim_order(h->elem, aim_read(s, &s->touched[touched]));
	h->start_far = h->best_far = at->far;
	double bound = s->pass->bound;
	if (isfinite(s->constant)) bound = MAX(bound, MIN(4 * fabs(s->constant), 0x1p24));
	/* A pole that lies beyond all that is met where what is computed of an element is. */
	if (s->is_pole && fabs(s->constant) > bound) bound = POLE_ROOM * fabs(s->constant);
	h->low = aim_order_near(h->elem, -bound);
	h->high = aim_order_near(h->elem, bound);
	if (!elem_is_float(h->elem)) aim_range(s, &s->touched[touched], h->elem, &h->low, &h->high);
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
		if (!is_least || is_avoided(s, h, h->points[k]) || aim_lot(s) % (uint32_t)++found) continue;
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
	uint64_t next = aim_order(h->elem, aim_bits(h->elem, h->start) ^ flips);
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
	for (int i = 0; i < s->nhunters; i++) width = MAX(width, aim_width(s->hunters[i].elem));
	for (int bit = -1; bit <= width && !is_hit && !s->is_broken; bit++) {
		for (int i = 0; i < s->nhunters; i++) {
			struct hunter *h = &s->hunters[i];
			bool is_own = bit >= 0 && bit < aim_width(h->elem);
			/* Single bits may leave what the input may have: only the vm sees them. */
			h->now = is_own ? aim_order(h->elem, aim_bits(h->elem, h->start) ^ (uint64_t)1 << bit) : h->start;
			if (bit == width) flip_try(h, system_solve(&q[i], aim_width(h->elem)));
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
			uint64_t flip = bit < 0 || bit >= aim_width(h->elem) ? 0 : (uint64_t)1 << bit;
			any |= flip != 0;
			h->now = aim_order(h->elem, aim_bits(h->elem, h->start) ^ flips[i] ^ flip);
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
			if (bit >= 0 && bit < aim_width(s->hunters[i].elem)) flips[i] ^= (uint64_t)1 << bit;
		}
	}
	return false;
}

bool aim_hunt(struct search *s)
{
	bool has_bits = false;
	for (int i = 0; i < s->nhunters; i++) has_bits |= differs(s, &s->hunters[i]) != 0;
	if (hunt_points(s) || s->is_broken) return !s->is_broken;
	if (has_bits && (hunt_bits(s) || s->is_broken)) return !s->is_broken;
	if (has_bits && (hunt_carries(s) || s->is_broken)) return !s->is_broken;
	return hunt_golden(s) && !s->is_broken;
}

bool aim_keep_best(struct search *s)
{
	bool is_better = false;
	for (int i = 0; i < s->nhunters; i++) {
		struct hunter *h = &s->hunters[i];
		is_better |= h->best_far < h->start_far;
		aim_write(s, &s->touched[h->touched], aim_bits(h->elem, h->best));
	}
	return is_better;
}
