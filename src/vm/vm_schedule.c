/* Programs of one launch in turns. A GPU admits programs in the order of the grid and runs many at
 * once; here a few are resident, and one of them runs until it stands before an atomic (or a
 * volatile load), or before a store behind one, where another may go on. Only there can it matter
 * who comes first: all else that two programs share is a race. The store counts for locks that are
 * not waited for to the end. Which one goes on is drawn from a seed, so a launch gives the same
 * result again. Who stands before such a store sleeps, as if it had lost its turn inside what it
 * has locked: as long as another can go on, and for a bounded number of switches, since a wait that
 * counts its turns is not known for one. Later the residents end in order.
 *
 * What a relaxed atomic leaves is on its way for a while, if its program does not look at the
 * result: half of them, drawn too, are put off behind the program's next
 * atomics (exec_atomic.c). */
#include "vm/vm_schedule.h"
#include "base/base.h"
#include "vm/core/program.h"

#define SLEEP_MAX 4096                 /* switches while one sleeps */
#define SLEEPS_MAX (4 * SLEEP_MAX)     /* while any does */

struct turns {
	struct vm_ctx *const *ctx; /* (n) */
	int n;
	const struct vm_launch_options *o;
	const struct vm_program *p;
	int64_t programs;                           /* of the launch */
	int64_t admitted;                           /* of them: those that were begun */
	int64_t number[VM_RESIDENT_MAX];            /* program of each resident, -1: none */
	const struct vm_instr *at[VM_RESIDENT_MAX]; /* where it goes on */
	bool has_met[VM_RESIDENT_MAX];              /* an atomic lies behind it */
	bool is_fresh[VM_RESIDENT_MAX]; /* nothing of it ran yet: what it stands at is no atomic that it was stopped at */
	uint64_t waits_since[VM_RESIDENT_MAX]; /* changes of memory when it was found waiting */
	bool is_waiting[VM_RESIDENT_MAX];
	bool is_leaving[VM_RESIDENT_MAX]; /* it ran to its end, and some of its atomics are on their way */
	struct vm_late late[VM_RESIDENT_MAX];
	uint64_t meetings; /* so far, of all */
	uint64_t draws;
	int sleeper;   /* -1: nobody sleeps */
	int slept;     /* switches that passed the sleeper over */
	int slept_all; /* likewise, of all sleepers so far */
};

static bool is_meeting(const struct vm_instr *in)
{
	return in->op == OP_ATOMIC_RMW || in->op == OP_ATOMIC_CAS || (in->op == OP_LOAD && (in->imm[3] & ORDER_VOLATILE));
}

static bool is_stop(const struct turns *t, int slot, const struct vm_instr *in)
{
	return is_meeting(in) || (t->has_met[slot] && in->op == OP_STORE);
}

static uint64_t changes(const struct turns *t)
{
	uint64_t sum = 0;
	for (int i = 0; i < t->n; i++) sum += t->ctx[i]->version;
	return sum;
}

static void admit(struct turns *t, int slot)
{
	t->number[slot] = -1;
	if (t->admitted >= t->programs) return;
	int64_t i = t->number[slot] = t->admitted++;
	struct vm_ctx *c = t->ctx[slot];
	c->id[0] = (uint32_t)(i % t->o->grid[0]);
	c->id[1] = (uint32_t)(i / t->o->grid[0] % t->o->grid[1]);
	c->id[2] = (uint32_t)(i / t->o->grid[0] / t->o->grid[1]);
	memset(c->spins, 0, sizeof c->spins);
	t->at[slot] = t->p->instrs;
	t->is_fresh[slot] = true;
	t->is_waiting[slot] = t->has_met[slot] = t->is_leaving[slot] = false;
}

/* Some resident that can go on; the first one where `draws` is over; -1:
 * all wait for each other. */
static int choose(struct turns *t, bool is_drawn)
{
	int can[VM_RESIDENT_MAX], n = 0;
	uint64_t now = changes(t);
	for (int i = 0; i < t->n; i++) {
		if (t->number[i] < 0) continue;
		if (t->is_waiting[i] && t->waits_since[i] == now) continue;
		/* rising program numbers, so that the first is the oldest */
		int at = n++;
		for (; at > 0 && t->number[can[at - 1]] > t->number[i]; at--) can[at] = can[at - 1];
		can[at] = i;
	}
	if (n == 0) return -1;
	struct rng_block b = rng_philox(t->o->schedule, 0x7475726e73u, t->draws++);
	if (t->sleeper >= 0 && n > 1 && t->slept++ < SLEEP_MAX && t->slept_all++ < SLEEPS_MAX)
		return can[can[0] == t->sleeper]; /* the oldest of the others: whoever waits long enough goes on */
	t->sleeper = -1;
	return can[is_drawn ? b.v[0] % (uint32_t)n : 0];
}

/* What is on its way arrives: whoever waits, waits for that. */
static bool arrive(struct turns *t)
{
	uint64_t before = changes(t);
	for (int i = 0; i < t->n; i++) vm_late_arrive(t->ctx[i]);
	return changes(t) != before;
}

/* Runs a resident up to its next meeting. 1: it faulted. */
static int run(struct turns *t, int slot)
{
	struct vm_ctx *c = t->ctx[slot];
	const struct vm_instr *end = t->p->instrs + t->p->ninstrs, *in = t->at[slot];
	bool may_stop = t->is_fresh[slot];
	t->is_fresh[slot] = t->is_waiting[slot] = c->is_waiting = false;
	for (; in != end; in = c->next, may_stop = true) {
		if (may_stop && is_stop(t, slot, in)) {
			t->at[slot] = in;
			t->is_waiting[slot] = c->is_waiting;
			t->waits_since[slot] = changes(t);
			if (in->op == OP_STORE && t->sleeper < 0) {
				t->sleeper = slot;
				t->slept = 0;
			}
			return 0;
		}
		vm_late_before(c, in);
		if (is_meeting(in)) c->late->takes = rng_philox(t->o->schedule, 0x6c617465u, t->meetings++).v[0] & 1;
		if (vm_step(c, in)) return 1;
		t->has_met[slot] |= is_meeting(in);
	}
	/* Others may run once more before what it left behind arrives. */
	t->at[slot] = end;
	if (c->late->n && !t->is_leaving[slot]) {
		t->is_leaving[slot] = true;
		return 0;
	}
	vm_late_arrive(c);
	admit(t, slot);
	return 0;
}

int vm_schedule(const struct vm_launch_options *o, const struct vm_program *p, struct vm_ctx *const *ctx, int n,
	int64_t programs, int64_t *faulted)
{
	struct turns t = {.ctx = ctx, .n = n, .o = o, .p = p, .programs = programs, .sleeper = -1};
	for (int i = 0; i < n; i++) {
		ctx[i]->yields = true;
		ctx[i]->late = &t.late[i];
		admit(&t, i);
	}
	/* Until all have ended, one goes on at a time. */
	for (;;) {
		bool is_empty = true;
		for (int i = 0; i < n; i++) is_empty &= t.number[i] < 0;
		if (is_empty) return 0;
		int slot = choose(&t, t.draws < VM_SWITCHES_MAX);
		if (slot < 0 && arrive(&t)) continue;
		if (slot < 0) {
			for (slot = 0; t.number[slot] < 0;) slot++;
			*faulted = t.number[slot];
			return vm_fault(ctx[slot], t.at[slot], VM_FAULT_CO_RESIDENCY, -1,
				"all %d programs that run at once wait for each other, or for one that comes later in the grid", n);
		}
		if (run(&t, slot)) {
			*faulted = t.number[slot];
			return 1;
		}
	}
}
