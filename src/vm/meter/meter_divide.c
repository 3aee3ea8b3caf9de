/* What an integer division costs hangs on what the compiler knows of the divisor. By a constant it
 * is a product and shifts; by a value that is the same for all elements the reciprocal is made once
 * and each element has products and corrections; else each element makes its own reciprocal. A
 * quotient and a remainder of the same operands share the division. Read in SASS of sm_90
 * (ptxas of CUDA 12.8): instructions that 12 more elements a thread add, divided by 12; a 32-bit
 * product takes the fma pipe twice as long. */
#include "base/base.h"
#include "ttir/ttir.h"
#include "vm/core/program.h"
#include "vm/map/map.h"
#include "vm/meter/meter.h"
#include <stdlib.h>
#include <string.h>

enum divisor { DIVISOR_ANY, DIVISOR_UNIFORM, DIVISOR_CONSTANT, DIVISOR_POWER, DIVISOR_COUNT };
struct pipes {
	uint8_t fma;
	uint8_t alu;
	uint8_t special;
};
/* [is a remainder]; DIVISOR_ANY has the table of all operations (meter_plan.c). */
static const struct pipes costs[DIVISOR_COUNT][2] = {
	[DIVISOR_UNIFORM] = {{6, 10, 0}, {8, 7, 0}},
	[DIVISOR_CONSTANT] = {{2, 3, 0}, {4, 3, 0}},
	[DIVISOR_POWER] = {{0, 3, 0}, {2, 3, 0}},
};
static const struct pipes second = {2, 1, 0}; /* a remainder where the quotient is known, or the other way */

static bool is_remainder(int map_op) { return map_op == MAP_REMSI || map_op == MAP_REMUI; }
static bool is_unsigned(int map_op) { return map_op == MAP_DIVUI || map_op == MAP_REMUI || map_op == MAP_CEILDIVUI; }

/* Of a block of one value: what it is known to be. */
static enum divisor constant_kind(const struct vm_program *p, const struct vm_const *k)
{
	uint64_t bits = 0;
	if (k->data || !elem_is_int(p->values[k->value].elem)) return DIVISOR_ANY;
	memcpy(&bits, k->bits, elem_bytes(p->values[k->value].elem));
	return bits && !(bits & (bits - 1)) ? DIVISOR_POWER : DIVISOR_CONSTANT;
}

/* kinds (nvalues): a constant, a value that is one for all elements, or any. */
static void divisors_find(const struct vm_program *p, uint8_t *kinds)
{
	for (int i = 0; i < p->nvalues; i++) kinds[i] = p->values[i].ndim == 0 ? DIVISOR_UNIFORM : DIVISOR_ANY;
	for (int i = 0; i < p->nconsts; i++) kinds[p->consts[i].value] = (uint8_t)constant_kind(p, &p->consts[i]);
	/* A block that is made of one value is what that value is. */
	for (int i = 0; i < p->ninstrs; i++) {
		const struct vm_instr *in = &p->instrs[i];
		bool copies = in->op == OP_SPLAT || in->op == OP_BROADCAST || in->op == OP_RESHAPE || in->op == OP_TRANS;
		if (copies && in->nsrc == 1 && in->ndst == 1) kinds[p->ids[in->dst]] = kinds[p->ids[in->src]];
	}
}

/* A division of the same operands not far before, with no jump between. */
#define FAR 200
static bool is_second(const struct vm_program *p, int at)
{
	const struct vm_instr *in = &p->instrs[at];
	for (int i = at - 1; i >= MAX(at - FAR, 0) && p->instrs[i].op != OP_JUMP && p->instrs[i].op != OP_JUMP_UNLESS;
		i--) {
		const struct vm_instr *other = &p->instrs[i];
		if (other->op != OP_DIVIDE || other->nsrc != 2) continue;
		if (memcmp(&p->ids[other->src], &p->ids[in->src], 2 * sizeof *p->ids) != 0) continue;
		if (is_unsigned(other->map_op) == is_unsigned(in->map_op)) return true;
	}
	return false;
}

void vm_cost_divisions(struct vm_cost_plans *plans)
{
	const struct vm_program *p = plans->program;
	uint8_t *kinds = xcalloc((size_t)p->nvalues + 1, sizeof *kinds);
	divisors_find(p, kinds);
	for (int i = 0; i < p->ninstrs; i++) {
		const struct vm_instr *in = &p->instrs[i];
		if (in->op != OP_DIVIDE || in->nsrc != 2) continue;
		enum divisor kind = (enum divisor)kinds[p->ids[in->src + 1]];
		/* In a function over elements a value without a shape is another one for each of them. */
		if (kind == DIVISOR_UNIFORM && in->n == 0) kind = DIVISOR_ANY;
		bool twice = is_second(p, i);
		if (kind == DIVISOR_ANY && !twice) continue;
		const struct pipes *cost = twice ? &second : &costs[kind][is_remainder(in->map_op)];
		int words = elem_bytes((enum elem)in->elem) == 8 ? 2 : 1; /* products of 64 bits are three of 32 */
		plans->plans[i].fma = (uint16_t)(cost->fma * (words == 2 ? 3 : 1));
		plans->plans[i].alu = (uint16_t)(cost->alu * words);
		plans->plans[i].special = cost->special;
	}
	free(kinds);
}
