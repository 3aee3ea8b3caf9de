/* What checks have to watch in a lowered program, found once when the kernel is made.
 *
 * Memory: which arguments a stored-through pointer can come from. A buffer that no store can reach
 * has no races, so reads of it cost nothing; most inputs are such. A pointer that was itself read
 * from memory can be any.
 *
 * Overflow: the arithmetic whose result is part of an offset, found backwards from the offsets of
 * addptr through additions, multiplications, shifts, conversions and changes of shape. It ends at
 * remainders, masks (and), right shifts, divisions and loads: hashes and random numbers wrap on
 * purpose and are cut to size by one of these. Integers have no sign in the IR; a value that is
 * zero-extended on its way is unsigned, any other is signed. */
#include "vm/check/check.h"
#include "base/base.h"
#include "tape/tape.h"
#include "ttir/ttir.h"
#include "vm/core/program.h"
#include "vm/map/map.h"
#include <stdlib.h>

/* ---- where pointers come from ---- */

static bool roots_add(struct vm_roots *to, const struct vm_roots *from)
{
	struct vm_roots old = *to;
	to->args[0] |= from->args[0];
	to->args[1] |= from->args[1];
	to->from_memory |= from->from_memory;
	return old.args[0] != to->args[0] || old.args[1] != to->args[1] || old.from_memory != to->from_memory;
}

static bool roots_step(const struct vm_program *p, const struct vm_instr *in, struct vm_roots *roots)
{
	static const struct vm_roots memory = {.from_memory = true};
	bool changed = false;
	for (int d = 0; d < in->ndst; d++) {
		struct vm_roots *to = &roots[dst_id(p, in, d)];
		if (in->op == OP_LOAD || in->op == OP_ATOMIC_RMW || in->op == OP_ATOMIC_CAS) {
			changed |= roots_add(to, &memory);
			continue;
		}
		if (in->op == OP_MOVE) {
			changed |= roots_add(to, &roots[src_id(p, in, d)]);
			continue;
		}
		bool is_first_only = in->op == OP_ADDPTR || in->op == OP_BLOCK_PTR || in->op == OP_ADVANCE ||
			in->op == OP_BLOCK_ADDRESS;
		for (int s = 0; s < (is_first_only ? MIN(in->nsrc, 1) : in->nsrc); s++)
			changed |= roots_add(to, &roots[src_id(p, in, s)]);
	}
	return changed;
}

struct vm_roots *vm_roots_find(const struct vm_kernel *k, const struct vm_program *p)
{
	struct vm_roots *roots = xcalloc((size_t)p->nvalues + 1, sizeof *roots);
	for (int i = 0; i < MIN(k->nargs, TAPE_ARGS_MAX); i++) roots[k->arg_values[i]].args[i / 64] |= 1ull << (i % 64);
	for (bool changed = true; changed;) {
		changed = false;
		for (int i = 0; i < p->ninstrs; i++) changed |= roots_step(p, &p->instrs[i], roots);
	}
	return roots;
}

static void find_written(struct vm_program *p, const struct vm_roots *roots)
{
	for (int i = 0; i < p->ninstrs; i++) {
		const struct vm_instr *in = &p->instrs[i];
		if (in->op != OP_STORE && in->op != OP_ATOMIC_RMW && in->op != OP_ATOMIC_CAS) continue;
		const struct vm_roots *r = &roots[src_id(p, in, 0)];
		p->plan.written[0] |= r->args[0];
		p->plan.written[1] |= r->args[1];
		p->plan.writes_anywhere |= r->from_memory;
	}
}

/* ---- atomics ---- */

static void find_acquires(struct vm_program *p)
{
	bool *is_used = xcalloc((size_t)p->nvalues + 1, sizeof *is_used);
	int kind = -1;
	p->plan.order_instr = -1;
	for (int i = 0; i < p->ninstrs; i++)
		for (int s = 0; s < p->instrs[i].nsrc; s++) is_used[src_id(p, &p->instrs[i], s)] = true;
	for (int i = 0; i < p->ninstrs; i++) {
		struct vm_instr *in = &p->instrs[i];
		bool is_atomic = in->op == OP_ATOMIC_RMW || in->op == OP_ATOMIC_CAS;
		if (!is_atomic && !(in->op == OP_LOAD && in->imm[3])) continue;
		/* Additions of whole numbers commute, and so does each other kind with itself; what was
		 * there before, or who exchanged last, is for the order to say. Sums of floats are rounded,
		 * so that what goes in and out again takes with it what comes in between. */
		bool is_exchange = in->op == OP_ATOMIC_CAS || (in->op == OP_ATOMIC_RMW && in->imm[0] == RMW_EXCHANGE);
		bool is_mixed = in->op == OP_ATOMIC_RMW && ((kind >= 0 && kind != in->imm[0]) || in->imm[0] == RMW_ADD_FLOAT);
		if (in->op == OP_ATOMIC_RMW) kind = in->imm[0];
		if (p->plan.order_instr < 0 && (is_used[dst_id(p, in, 0)] || is_exchange || is_mixed)) p->plan.order_instr = i;
		/* What nobody looks at orders nothing: the compiler makes it a reduction, which has no
		 * acquire. */
		if (!is_used[dst_id(p, in, 0)]) in->imm[3] = (in->imm[3] & ~ORDER_ACQUIRE) | (is_atomic ? ORDER_UNSEEN : 0);
		else if (is_atomic && p->values[dst_id(p, in, 0)].ndim == 0) in->imm[3] |= ORDER_MEETS;
		p->plan.has_acquire |= (in->imm[3] & ORDER_ACQUIRE) && !(in->imm[3] & ORDER_LOCAL);
	}
	free(is_used);
}

/* ---- what becomes an address ---- */

static bool is_cast(const struct vm_instr *in)
{
	return in->op == OP_MAP && in->map_op < 0 && in->nsrc == 1 && in->result_elem != ELEM_I1;
}

/* Bits that source s needs when the result needs `bits`. */
static uint8_t need_of_source(const struct vm_instr *in, int s, uint8_t bits)
{
	if (in->op == OP_SELECT) return s > 0 ? bits : 0;
	if (in->op == OP_SPLAT || in->op == OP_UNSPLAT || in->op == OP_BROADCAST || in->op == OP_RESHAPE ||
		in->op == OP_TRANS || in->op == OP_JOIN || in->op == OP_SPLIT || in->op == OP_CAT)
		return bits;
	if (is_cast(in)) {
		if (!elem_is_int((enum elem)in->elem) || in->elem == ELEM_I1) return 0;
		return in->imm[1] ? WATCH_UNSIGNED : bits;
	}
	if (in->op != OP_MAP) return 0;
	switch (in->map_op) {
	case MAP_ADDI:
	case MAP_SUBI:
	case MAP_MULI:
	case MAP_SHLI:
	case MAP_MAXSI:
	case MAP_MAXUI:
	case MAP_MINSI:
	case MAP_MINUI: return bits;
	default: return in->kernel == map_kernel(MAP_ADDI, (enum elem)in->elem) ? bits : 0; /* the step of scf.for */
	}
}

static bool need_step(const struct vm_program *p, const struct vm_instr *in, uint8_t *need)
{
	bool changed = false;
	for (int s = 0; s < in->nsrc; s++) {
		uint8_t bits = 0, *to = &need[src_id(p, in, s)];
		if (in->op == OP_ADDPTR) bits = s == 1 ? WATCH_SIGNED : 0;
		else if (in->op == OP_MOVE) bits = need[dst_id(p, in, s)];
		else
			for (int d = 0; d < in->ndst; d++) bits |= need_of_source(in, s, need[dst_id(p, in, d)]);
		changed |= (bits & ~*to) != 0;
		*to |= bits;
	}
	return changed;
}

static bool can_wrap(const struct vm_instr *in)
{
	if (is_cast(in))
		return elem_is_int((enum elem)in->elem) &&
			elem_bytes((enum elem)in->result_elem) < elem_bytes((enum elem)in->elem);
	return in->op == OP_MAP &&
		(in->map_op == MAP_ADDI || in->map_op == MAP_SUBI || in->map_op == MAP_MULI || in->map_op == MAP_SHLI);
}

static void find_watched(struct vm_program *p)
{
	uint8_t *need = xcalloc((size_t)p->nvalues + 1, 1);
	p->plan.watch = xcalloc((size_t)p->ninstrs + 1, 1);
	for (bool changed = true; changed;) {
		changed = false;
		for (int i = p->ninstrs - 1; i >= 0; i--) changed |= need_step(p, &p->instrs[i], need);
	}
	for (int i = 0; i < p->ninstrs; i++) {
		const struct vm_instr *in = &p->instrs[i];
		if (in->ndst && in->n && can_wrap(in)) p->plan.watch[i] = need[dst_id(p, in, 0)];
		if (in->op == OP_DIVIDE && in->n) p->plan.watch[i] = WATCH_DIVISION;
	}
	free(need);
}

void vm_plan_make(const struct vm_kernel *k, struct vm_program *p)
{
	struct vm_roots *roots = vm_roots_find(k, p);
	find_written(p, roots);
	vm_early_find(p, roots);
	free(roots);
	find_acquires(p);
	find_watched(p);
	p->plan.narrow_instr = vm_narrow_find(p);
}

void vm_plan_release(struct vm_program *p) { free(p->plan.watch); }
