/* Programs on a clock. A launch that counts costs runs its programs one after another, so no lock
 * is ever taken and no flag is ever missing, and the first program of a queue takes all of it. On a
 * GPU what lies between taking and giving back is one program's at a time, and a queue is shared
 * out. So here as many programs are resident as a GPU has room for. Each has its own time, in the
 * meter's cycles; whoever is earliest goes on, up to its next atomic (or volatile load), which
 * looks at memory as it is at that time. A program that ends makes room for the next of the grid.
 *
 * Who waits looks again and again. Where a turn of such a loop leaves everything as it was, and it
 * looks at one place, the program sleeps until that place holds something else, and goes on at the
 * time of the look that would have found it so.
 *
 * What comes of it is one number; memory is the caller's to restore. */
#include "vm/vm_clock.h"
#include "base/base.h"
#include "tape/tape.h"
#include "ttir/ttir.h"
#include "vm/check/check.h"
#include "vm/exec/exec.h"
#include "vm/meter/meter.h"
#include <math.h>
#include <stdlib.h>

#define LOOKS_MAX ((int64_t)1 << 21)        /* atomics and volatile loads of a launch */
#define WORK_MAX ((int64_t)1 << 32)         /* element operations */
#define BYTES_MAX ((size_t)1 << 29)         /* of all residents' blocks */
#define CLOCK_EVERY 1024                    /* looks between two looks at the real clock */

struct resident {
	int64_t number;            /* of its program, -1: none */
	const struct vm_instr *at; /* where it stands */
	double time;               /* when it got there */
	double period;             /* between its last two looks, where it waits */
	uint64_t version;          /* changes that it made, there */
	uint64_t hash;             /* of its values, one turn before */
	int turns;                 /* that it came to the same place without a change of its own */
	bool sleeps;
	const uint8_t *watched; /* NULL: more than one place, or nobody knows which */
	size_t size;
	uint8_t seen[8];
};
struct clock {
	struct vm_clock *out;
	const struct vm_program *p;
	struct vm_ctx *const *ctx; /* (n) */
	int n;
	struct resident *all; /* (n) */
	int *heap;            /* (nheap) residents that can go on, the earliest first */
	int nheap;
	int nsleeping;
	int64_t admitted; /* programs that were begun */
	int64_t looks;
	int64_t work;
	size_t bytes; /* of blocks */
};

/* ---- who is next ---- */

static bool is_before(const struct clock *k, int a, int b)
{
	const struct resident *x = &k->all[a], *y = &k->all[b];
	return x->time != y->time ? x->time < y->time : x->number < y->number;
}

static void heap_push(struct clock *k, int slot)
{
	int at = k->nheap++;
	for (; at > 0 && is_before(k, slot, k->heap[(at - 1) / 2]); at = (at - 1) / 2) k->heap[at] = k->heap[(at - 1) / 2];
	k->heap[at] = slot;
}

static int heap_pop(struct clock *k)
{
	int first = k->heap[0], last = k->heap[--k->nheap], at = 0;
	for (int child; (child = 2 * at + 1) < k->nheap; at = child) {
		child += child + 1 < k->nheap && is_before(k, k->heap[child + 1], k->heap[child]);
		if (!is_before(k, k->heap[child], last)) break;
		k->heap[at] = k->heap[child];
	}
	k->heap[at] = last;
	return first;
}

static void admit(struct clock *k, int slot, double time)
{
	struct resident *r = &k->all[slot];
	struct vm_ctx *c = k->ctx[slot];
	*r = (struct resident){.number = -1};
	if (k->admitted >= k->out->programs) return;
	int64_t i = r->number = k->admitted++;
	c->id[0] = (uint32_t)(i % c->grid[0]);
	c->id[1] = (uint32_t)(i / c->grid[0] % c->grid[1]);
	c->id[2] = (uint32_t)(i / c->grid[0] / c->grid[1]);
	memset(c->spins, 0, sizeof c->spins);
	r->at = k->p->instrs;
	r->time = time;
	vm_cost_program_begin(c);
	vm_cost_program_at(c, time);
	heap_push(k, slot);
}

/* ---- sleep ---- */

static bool is_meeting(const struct vm_instr *in)
{
	return in->op == OP_ATOMIC_RMW || in->op == OP_ATOMIC_CAS || (in->op == OP_LOAD && (in->imm[3] & ORDER_VOLATILE));
}

/* The one element that an instruction is about to look at. */
static void watch(struct vm_ctx *c, const struct vm_instr *in, struct resident *r)
{
	const struct vm_value *v = &c->values[vm_src(c, in, 0)];
	r->size = elem_bytes((enum elem)in->result_elem);
	if (in->n != 1 || v->form != FORM_SPLAT) return;
	int64_t address = vm_address(c, v->splat_int);
	const struct vm_buffer *b = vm_buffer_at(c->memory, (uint64_t)address >> TAPE_ADDRESS_SHIFT);
	int64_t offset = b ? address - (int64_t)b->address : 0;
	if (!b || offset < 0 || offset + (int64_t)r->size > b->bytes) return;
	r->watched = vm_buffer_data(b, offset, false);
	memcpy(r->seen, r->watched, r->size);
}

/* A resident comes to its next look; whether it sleeps there. */
static bool stand(struct vm_ctx *c, const struct vm_instr *in, struct resident *r)
{
	double time = vm_cost_next_at(c, in);
	bool is_again = r->at == in && r->version == c->version;
	r->turns = is_again ? r->turns + 1 : 0;
	r->period = time - r->time;
	r->time = time;
	r->at = in;
	r->version = c->version;
	if (!r->turns) return false;
	/* All that it knows is what it was one turn before, so the next look can only give the same as
	 * long as memory does. */
	uint64_t hash = vm_values_hash(c);
	bool is_same = r->turns > 1 && hash == r->hash;
	r->hash = hash;
	if (is_same && r->period > 0) watch(c, in, r);
	return r->watched;
}

/* Memory changed at a time: who waits for that goes on with its first look behind it. */
static void wake(struct clock *k, double time)
{
	for (int i = 0; i < k->n && k->nsleeping; i++) {
		struct resident *r = &k->all[i];
		if (!r->sleeps || !memcmp(r->watched, r->seen, r->size)) continue;
		double later = r->time < time ? ceil((time - r->time) / r->period) * r->period : 0;
		r->time += later;
		vm_cost_program_at(k->ctx[i], r->time);
		r->sleeps = false;
		k->nsleeping--;
		heap_push(k, i);
	}
}

/* ---- the run ---- */

static bool is_spent(struct clock *k)
{
	if (k->looks % CLOCK_EVERY == 0 && k->out->deadline_ns && clock_ns() > k->out->deadline_ns) return true;
	return k->looks > LOOKS_MAX || k->work > WORK_MAX || k->bytes > BYTES_MAX;
}

/* One resident up to its next look, or to its end. False after a fault. */
static bool go_on(struct clock *k, int slot)
{
	struct vm_ctx *c = k->ctx[slot];
	struct resident *r = &k->all[slot];
	const struct vm_instr *end = k->p->instrs + k->p->ninstrs, *in = r->at;
	uint64_t version = c->version;
	size_t before = c->arena_bytes;
	for (bool is_first = true; in != end; in = c->next, is_first = false) {
		if (!is_first && is_meeting(in)) break;
		k->work += in->weight;
		if (vm_step(c, in)) return false;
		vm_cost_step(c, in);
		/* An atomic's change is there at its own time, a store's at the next look's. */
		if (is_first && c->version != version) wake(k, r->time);
		if (is_first) version = c->version;
	}
	k->looks++;
	k->bytes += c->arena_bytes - before;
	if (in == end) {
		double time = vm_cost_program_now(c);
		k->out->cycles = MAX(k->out->cycles, llround(fmin(time, 1e15)));
		if (c->version != version) wake(k, time);
		admit(k, slot, time);
		return true;
	}
	r->sleeps = stand(c, in, r);
	k->nsleeping += r->sleeps;
	if (c->version != version) wake(k, r->time);
	if (!r->sleeps) heap_push(k, slot);
	return true;
}

bool vm_clock_run(struct vm_clock *out, const struct vm_program *p, struct vm_ctx *const *ctx, int n)
{
	struct clock k = {.out = out, .p = p, .ctx = ctx, .n = n};
	bool is_known = true;
	k.all = xcalloc((size_t)n, sizeof *k.all);
	k.heap = xcalloc((size_t)n, sizeof *k.heap);
	out->cycles = 0;
	for (int i = 0; i < n; i++) {
		ctx[i]->yields = true;
		admit(&k, i, 0);
	}
	while (k.nheap && is_known) {
		int slot = heap_pop(&k);
		struct resident *r = &k.all[slot];
		/* Somebody came before it, and the place holds again what it slept for. */
		if (r->watched && !memcmp(r->watched, r->seen, r->size)) {
			r->sleeps = true;
			k.nsleeping++;
			continue;
		}
		r->watched = NULL;
		is_known = go_on(&k, slot) && !is_spent(&k);
	}
	is_known &= !k.nsleeping;
	free(k.heap);
	free(k.all);
	return is_known;
}
