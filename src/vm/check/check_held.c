/* check_held: what launches leave in memory. Where launches of a tape alone write a buffer, their
 * programs say which numbers it has (the intervals of check_range.c), and a gate that these decide
 * is none: no input could decide it otherwise. What was held is joined over all launches, so an
 * interval only grows. */
#include "vm/check/check.h"
#include "base/base.h"
#include "ttir/ttir.h"
#include "vm/core/program.h"
#include <math.h>
#include <stdlib.h>

#define HELD_TURNS 4 /* of a launch that reads what it stores, after which it may be anything */

static bool held_join(struct vm_held *to, struct vm_held by)
{
	if (to->state == HELD_ANYTHING || by.state == HELD_NOTHING) return false;
	if (to->state == HELD_NOTHING) {
		*to = by;
		return true;
	}
	if (by.state == HELD_ANYTHING || by.elem != to->elem) {
		to->state = HELD_ANYTHING;
		return true;
	}
	bool is_more = by.lo < to->lo || by.hi > to->hi || (by.may_be_nan && !to->may_be_nan);
	to->lo = fmin(to->lo, by.lo);
	to->hi = fmax(to->hi, by.hi);
	to->may_be_nan |= by.may_be_nan;
	return is_more;
}

bool vm_stored_join(const struct vm_roots *r, struct vm_held *const *held, int nargs, struct vm_held by)
{
	bool is_any = r->from_memory || !(r->args[0] | r->args[1]), changed = false;
	for (int i = 0; i < nargs; i++) {
		bool is_root = i < 8 * (int)sizeof r->args && (r->args[i / 64] >> (i % 64) & 1);
		/* A number that became an address. */
		is_any |= is_root && !held[i];
		if (is_root && held[i]) changed |= held_join(held[i], by);
	}
	for (int i = 0; is_any && i < nargs; i++)
		if (held[i]) changed |= held_join(held[i], (struct vm_held){.state = HELD_ANYTHING});
	return changed;
}

bool vm_coverage_held(struct vm_coverage *c, struct vm_held *const *held, int nargs)
{
	const struct vm_kernel *k = c->kernel;
	if (nargs != k->nargs) return false; /* it will not be launched */
	struct vm_roots *roots = vm_roots_find(k, c->program);
	bool changed = false;
	/* What a launch stores another of its programs may read: until that adds nothing. */
	for (int turn = 0; vm_stored_find(c->program, roots, held, nargs); turn++) {
		changed = true;
		for (int i = 0; i < nargs && turn == HELD_TURNS; i++)
			if (held[i]) held[i]->state = HELD_ANYTHING;
	}
	changed |= vm_gates_held(c, roots, held, nargs);
	if (!c->held) c->held = xcalloc((size_t)k->nargs + 1, sizeof *c->held);
	for (int i = 0; i < nargs; i++) c->is_held_new |= held[i] && held_join(&c->held[i], *held[i]);
	free(roots);
	return changed;
}

void vm_gates_decide(struct vm_coverage *c)
{
	if (!c->is_held_new) return;
	const struct vm_program *p = c->program;
	struct vm_roots *roots = vm_roots_find(c->kernel, p);
	bool *still = xmalloc((size_t)p->nvalues + 1);
	vm_still_find(p, roots, c->held, still);
	for (int i = 0; i < p->ninstrs; i++)
		if (c->at[i] >= 0 && p->instrs[i].ndst == 1) c->sites[c->at[i]].is_decided = still[dst_id(p, &p->instrs[i], 0)];
	free(still);
	free(roots);
	c->is_held_new = false;
}
