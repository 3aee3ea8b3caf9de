/* Which accesses of other programs a program may rely on.
 *
 * An access happened before the running program's when its program released (an atomic with release
 * after the access) and the running program acquired that release, directly or through others.
 * Vector clocks would need a number for each pair of programs; here the atomics themselves are a
 * graph, searched only when two accesses meet in one cell. A node knows, in its program's view, all
 * that its program did so far and, if it acquires, what the place's view of the node before it at
 * the same address knows; the place's view of a node is that of the node before it and, if it
 * releases, its program's view. (An atomic that only reads or only adds continues the sequence that
 * a release began, as in PTX's memory model.)
 *
 * Nodes are numbered as they happen, so knowledge always points downwards: a scan from the running
 * program's last node to the access's stamp visits each node at most once for each program. */
#include "vm/check/check.h"
#include "base/base.h"
#include "vm/core/program.h"
#include "vm/core/state.h"
#include <stdlib.h>

enum { VIEW_PROGRAM = 1, VIEW_PLACE = 2 };

void vm_order_program(struct check_order *o)
{
	o->asker++;
	o->own = o->from = 0;
	o->cursor = 0;
}

static void grow_places(struct check_order *o)
{
	struct check_place *old = o->places;
	uint32_t cap = o->places_cap;
	o->places_cap = MAX(cap * 2, 256u);
	o->places = xcalloc(o->places_cap, sizeof *o->places);
	for (uint32_t i = 0; i < cap; i++) {
		if (!old[i].node) continue;
		uint32_t at = (uint32_t)(old[i].address * 0x9e3779b97f4a7c15u >> 40) & (o->places_cap - 1);
		while (o->places[at].node) at = (at + 1) & (o->places_cap - 1);
		o->places[at] = old[i];
	}
	free(old);
}

static struct check_place *place_of(struct check_order *o, uint64_t address)
{
	if (o->nplaces * 2 >= o->places_cap) grow_places(o);
	uint32_t at = (uint32_t)(address * 0x9e3779b97f4a7c15u >> 40) & (o->places_cap - 1);
	while (o->places[at].node && o->places[at].address != address) at = (at + 1) & (o->places_cap - 1);
	o->places[at].address = address;
	return &o->places[at];
}

void vm_order_atomic(struct vm_ctx *c, const struct vm_instr *in, uint64_t address, bool acquires, bool releases,
	bool is_write, int64_t lanes)
{
	struct vm_check *k = c->check;
	struct check_order *o = &k->order;
	if (!o->is_on) return;
	struct check_place *place = place_of(o, address);
	if (!is_write && !place->node) return; /* nothing was released here */
	if (o->nnodes + 1 >= CHECK_NODES_MAX) {
		o->is_on = false;
		k->is_incomplete = true;
		k->incomplete_why = "too many atomics";
		return;
	}
	if (o->nnodes + 1 >= o->nodes_cap) {
		uint32_t cap = MAX(o->nodes_cap * 2, 1024u);
		o->nodes = xrealloc(o->nodes, (size_t)cap * sizeof *o->nodes);
		o->mark = xrealloc(o->mark, (size_t)cap * sizeof *o->mark);
		o->nodes_cap = cap;
	}
	/* It stands behind the last atomic here and behind its program's own last. */
	uint32_t id = ++o->nnodes;
	o->mark[id] = 0;
	o->nodes[id] = (struct check_node){.program = (uint32_t)k->found.program,
		.previous_here = place->node,
		.previous_own = o->own,
		.epoch = k->epoch,
		.lanes = lanes,
		.threads = k->code.threads,
		.turn = c->turns,
		.instr = (uint32_t)(in - c->program->instrs),
		.acquires = acquires,
		.releases = releases};
	if (is_write && !place->node) o->nplaces++;
	if (is_write) place->node = id; /* a read leaves the sequence as it is */
	o->own = id;
}

static void mark(struct check_order *o, uint32_t node, uint32_t view)
{
	if (!node) return;
	if (o->mark[node] >> 2 != o->asker) o->mark[node] = o->asker << 2;
	o->mark[node] |= view;
	if (node > o->cursor) o->cursor = node;
}

static void visit(struct vm_check *k, uint32_t id)
{
	struct check_order *o = &k->order;
	const struct check_node *n = &o->nodes[id];
	uint32_t views = o->mark[id] >> 2 == o->asker ? o->mark[id] & 3 : 0;
	if ((views & VIEW_PLACE) && n->releases) views |= VIEW_PROGRAM;
	if (views & VIEW_PLACE) mark(o, n->previous_here, VIEW_PLACE);
	if (!(views & VIEW_PROGRAM)) return;
	mark(o, n->previous_own, VIEW_PROGRAM);
	if (n->acquires) mark(o, n->previous_here, VIEW_PLACE);
	struct check_known *known = &o->known[n->program];
	if (known->asker != o->asker) *known = (struct check_known){o->asker, id};
	else known->node = MAX(known->node, id);
}

/* Whether what the running program knows of another one holds an access of that. One thread does a
 * program's scalar atomics, so these release what other threads did only where a barrier lies
 * between. An atomic of a block is done by the threads that have its lanes: without a barrier it
 * releases what a block of as many lanes, which they have likewise, did. */
static bool holds(const struct check_order *o, const struct check_known *known, const struct check_record *r)
{
	if (known->asker != o->asker || known->node <= r->stamp) return false;
	const struct check_node *n = &o->nodes[known->node];
	bool is_alike = n->lanes > 1 && n->lanes == r->lanes && (!n->threads || !r->threads || n->threads == r->threads);
	return r->is_single || n->epoch > r->epoch || is_alike;
}

bool vm_order_knew(struct vm_check *k, const struct check_record *r, uint32_t own)
{
	struct check_order *o = &k->order;
	if (!o->is_on) return k->is_incomplete; /* what cannot be known is not reported */
	if (!own) return false;
	/* What was marked for a later atomic may be more than this one knows: all over again. */
	if (own < o->from) {
		o->asker++;
		o->cursor = 0;
	}
	o->from = own;
	mark(o, own, VIEW_PROGRAM); /* raises the cursor again when there are new atomics */
	const struct check_known *known = &o->known[r->program];
	while (o->cursor > r->stamp && !holds(o, known, r)) {
		uint32_t id = o->cursor--; /* before the visit: marks only go down */
		visit(k, id);
	}
	return holds(o, known, r);
}

bool vm_order_knows(struct vm_check *k, const struct check_record *r) { return vm_order_knew(k, r, k->order.own); }
