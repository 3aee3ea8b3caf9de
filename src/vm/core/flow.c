/* What comes of what: values of a program that follow from marked ones, whatever the data. */
#include "vm/core/program.h"

/* One step of the flow: whether something was added. A region's operands come from the instruction
 * before it, and its last instruction has the results of the whole. */
static bool flow_step(const struct vm_program *p, int i, bool *is_data)
{
	const struct vm_instr *in = &p->instrs[i];
	bool any = false, changed = false;
	/* A loop's or branch's values move in parallel, each to its own place. */
	if (in->op == OP_MOVE) {
		for (int s = 0; s < in->nsrc; s++) {
			if (!is_data[src_id(p, in, s)] || is_data[dst_id(p, in, s)]) continue;
			changed = is_data[dst_id(p, in, s)] = true;
		}
		return changed;
	}
	/* Elsewhere every result depends on every operand. */
	for (int s = 0; s < in->nsrc; s++) any |= is_data[src_id(p, in, s)];
	/* A region's own operands are what it is called with, and its results those of the whole
	 * instruction. */
	if ((in->op == OP_REDUCE || in->op == OP_SCAN || in->op == OP_MAP_REGION) && in->target > i) {
		const struct vm_instr *begin = in + 1, *end = &p->instrs[in->target - 1];
		/* What is data now and was not before makes another round necessary. */
		for (int d = 0; any && d < begin->ndst; d++) {
			changed |= !is_data[dst_id(p, begin, d)];
			is_data[dst_id(p, begin, d)] = true;
		}
		for (int s = 0; s < end->nsrc; s++) any |= is_data[src_id(p, end, s)];
	}
	for (int d = 0; any && d < in->ndst; d++) {
		changed |= !is_data[dst_id(p, in, d)];
		is_data[dst_id(p, in, d)] = true;
	}
	return changed;
}

void vm_flow_forward(const struct vm_program *p, bool *marked)
{
	for (bool changed = true; changed;) {
		changed = false;
		for (int i = 0; i < p->ninstrs; i++) changed |= flow_step(p, i, marked);
	}
}

const struct vm_instr *vm_first_maker_of(const struct vm_program *p, int value)
{
	for (int i = 0; i < p->ninstrs; i++)
		for (int d = 0; d < p->instrs[i].ndst; d++)
			if (dst_id(p, &p->instrs[i], d) == value) return &p->instrs[i];
	return NULL;
}
