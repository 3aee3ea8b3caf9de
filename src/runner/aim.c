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
#include "runner/aim_internal.h"
#include "base/base.h"
#include "tape/tape.h"
#include "ttir/ttir.h"
#include "vm/vm.h"
#include <math.h>
#include <stdlib.h>

#define TURNS 8 /* elements of the same lanes, one after another */
#define AVOIDED 0x1p-40 /* smaller is no other number than 0 */
#define POLE_TURNS 4 /* of what no condition stands in front of */
#define LAST 64 /* replays that stay for the last pass, of as many again for the others */
#define NEEDED 64 /* replays that look what of all that was found is needed, and how far off it has to be */
#define NEAR_STEPS 12
#define COUNT_MAX 512 /* elements that a count may lack */
#define IDLE_MAX 4 /* steps along a row that counts that bring nothing */
#define KINDS 4 /* of lots: turns without success after which no other kind is left */
/* First many lanes, each with an element of its own, then few, whose elements meet no others:
 * values beyond a bound drown what a reference computes of the rest, so that those are tried with
 * one alone. The bound is further where a constant is. */
static const struct aim_pass PASSES[] = {
	{HUNTERS_MAX, -12, 8, 2, 0x1p16}, {3, -12, 8, 2, 0x1p16}, {1, 10, 40, 4, 0x1p40}};

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
						   : aim_touch(s, (uint64_t)(own.buffer + 1) << TAPE_ADDRESS_SHIFT | (uint64_t)at, own.size);
			if (k < 0) return false;
			/* What an earlier aim has found stays. */
			if (s->touched[k].kept != s->touched[k].original) continue;
			s->touched[k].elem = h->elem;
			aim_write(s, &s->touched[k], aim_bits(h->elem, h->best));
		}
		int n;
		vm_aim_begin(s->aim, 0, 0);
		aim_replay(s);
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

/* ---- one side ---- */

/* Elements of the same lanes, one after another, by lot. */
static bool lanes_search(struct search *s, int count)
{
	for (int turn = 0, idle = 0; turn < (s->is_pole ? POLE_TURNS : TURNS) && idle < KINDS; turn++) {
		int n;
		vm_aim_begin(s->aim, (uint64_t)aim_lot(s) << 8 | (uint64_t)(turn + 1), turn ? 0 : count);
		aim_replay(s);
		if (s->is_broken) return false;
		const struct vm_aim_lane *lanes = vm_aim_lanes(s->aim, &n);
		s->nhunters = 0;
		for (int i = 0; i < n; i++) {
			/* All elements at once reached it: a hit like any other. */
			if (turn && lanes[i].far == 0) return true;
			aim_hunter_make(s, i, &lanes[i]);
		}
		if (!s->nhunters && !turn) return false;
		if (s->nhunters && aim_hunt(s)) return true;
		if (s->is_broken) return false;
		idle = aim_keep_best(s) ? 0 : idle + 1;
		if (!idle && count_search(s)) return true;
	}
	return false;
}

static bool is_reached(struct search *s)
{
	vm_aim_begin(s->aim, 0, 0);
	aim_replay(s);
	return aim_is_met(s) && !s->is_broken;
}

/* One that is needed comes as near to what it was as the side allows, more or less: what is far off
 * may be none that a probability or a variance can be. */
static void come_near(struct search *s, struct touched *t)
{
	uint64_t out = aim_order(t->elem, t->kept), in = aim_order(t->elem, aim_read(s, t));
	for (int step = 0; step < NEAR_STEPS && !s->is_broken; step++) {
		uint64_t middle = in / 2 + out / 2;
		aim_write(s, t, aim_bits(t->elem, middle));
		if (is_reached(s)) in = middle;
		else out = middle;
	}
	aim_write(s, t, aim_bits(t->elem, in));
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
				found[t] = aim_read(s, &s->touched[t]);
				any |= found[t] != s->touched[t].kept;
				aim_write(s, &s->touched[t], s->touched[t].kept);
			}
			if (!any || is_reached(s)) continue;
			for (int t = from; t < to; t++) aim_write(s, &s->touched[t], found[t]);
		}
	for (int t = 0; t < s->ntouched && !s->is_broken; t++)
		if (aim_read(s, &s->touched[t]) != s->touched[t].kept) come_near(s, &s->touched[t]);
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
		s->pass = &PASSES[i];
		s->replays -= is_last ? 0 : last;
		is_found = lanes_search(s, s->pass->lanes);
		s->replays = MAX(s->replays, 0) + (is_last ? 0 : last);
		if (is_found) keep_needed(s);
		for (int t = 0; t < s->ntouched; t++) {
			struct touched *e = &s->touched[t];
			uint64_t found = aim_read(s, e);
			if (is_found && e->kept != found) e->aim = number;
			if (is_found) e->kept = found;
			else aim_write(s, e, e->kept);
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
	uint64_t zero = aim_order(e->elem, 0), at = aim_order(e->elem, e->kept),
			 wide = aim_order_near(e->elem, AVOIDED) - zero;
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
