/* Values that lost digits on their way to memory: where a kernel rounds fp32 (or fp64) to fp16,
 * bf16 or fp8, and what comes of it is stored. Found in the lowered program once, whatever the
 * values are, since a sum may average the error away.
 *
 * A value that only feeds comparisons is none: they end the search, as addresses and masks do. Nor
 * is a product that is split on purpose: x is rounded to hi, and x - hi, rounded again, takes part
 * too (3xBF16 and the like), so nothing is lost that the second part does not bring back. */
#include "base/base.h"
#include "ttir/ttir.h"
#include "vm/check/check.h"
#include "vm/core/program.h"
#include "vm/map/map.h"
#include <stdlib.h>

static bool is_cast(const struct vm_instr *in)
{
	return in->op == OP_MAP && in->map_op < 0 && in->nsrc == 1 && in->ndst == 1;
}
static bool is_narrowing(const struct vm_instr *in)
{
	return is_cast(in) && elem_is_wide(in->elem) && elem_is_narrow(in->result_elem);
}

/* A mask that cuts ten bits and more from the end of an fp32 pattern: tf32 and bf16 by hand. */
static bool is_cut(const struct vm_program *p, const struct vm_instr *in, const bool *is_pattern)
{
	if (in->op != OP_MAP || in->map_op != MAP_ANDI || in->elem != ELEM_I32) return false;
	for (int s = 0; s < 2; s++) {
		if (!is_pattern[src_id(p, in, s)]) continue;
		for (int c = 0; c < p->nconsts; c++) {
			uint32_t bits;
			if (p->consts[c].value != src_id(p, in, 1 - s) || p->consts[c].data) continue;
			memcpy(&bits, p->consts[c].bits, sizeof bits);
			if (bits && !(bits & 0x3ff) && (bits & 0x7f800000u) == 0x7f800000u) return true;
		}
	}
	return false;
}

/* Which operands of an instruction reach its result as a value. */
static bool carries(const struct vm_instr *in, int s)
{
	switch (in->op) {
	case OP_LOAD: /* memory is another matter: what was stored there was looked at */
	case OP_ADDPTR:
	case OP_STORE: return false;
	case OP_SELECT: return s > 0;
	case OP_ATOMIC_RMW:
	case OP_ATOMIC_CAS: return false;
	default: return in->result_elem != ELEM_I1;
	}
}

/* One step of the flow: whether something was added. Regions hand their operands to their first
 * instruction, which is behind them, and take their results from the last. */
static bool flow_step(const struct vm_program *p, int i, bool *marked)
{
	const struct vm_instr *in = &p->instrs[i];
	bool any = false, changed = false;
	bool has_region = (in->op == OP_REDUCE || in->op == OP_SCAN || in->op == OP_MAP_REGION) && in->target > i;
	/* A move copies each operand to the result at its own place, so the marks go pairwise. */
	if (in->op == OP_MOVE) {
		for (int s = 0; s < in->nsrc; s++) {
			if (!marked[src_id(p, in, s)] || marked[dst_id(p, in, s)]) continue;
			changed = marked[dst_id(p, in, s)] = true;
		}
		return changed;
	}
	/* Anywhere else one marked operand that reaches the result as a value marks all results. */
	for (int s = 0; s < in->nsrc; s++) any |= marked[src_id(p, in, s)] && carries(in, s);
	if (has_region) {
		const struct vm_instr *begin = in + 1, *end = &p->instrs[in->target - 1];
		for (int d = 0; any && d < begin->ndst; d++) {
			changed |= !marked[dst_id(p, begin, d)];
			marked[dst_id(p, begin, d)] = true;
		}
		/* The region's last operands are the results of the whole instruction. */
		for (int s = 0; s < end->nsrc; s++) any |= marked[src_id(p, end, s)];
	}
	for (int d = 0; any && d < in->ndst; d++) {
		changed |= !marked[dst_id(p, in, d)];
		marked[dst_id(p, in, d)] = true;
	}
	return changed;
}

bool vm_reaches_memory(const struct vm_program *p, int v, bool *marked)
{
	memset(marked, 0, (size_t)p->nvalues * sizeof *marked);
	marked[v] = true;
	for (bool changed = true; changed;) {
		changed = false;
		for (int i = 0; i < p->ninstrs; i++) changed |= flow_step(p, i, marked);
	}
	for (int i = 0; i < p->ninstrs; i++) {
		const struct vm_instr *in = &p->instrs[i];
		bool stores = in->op == OP_STORE || in->op == OP_ATOMIC_RMW;
		if (stores && in->nsrc > 1 && marked[src_id(p, in, 1)]) return true;
	}
	return false;
}

/* x - wide(narrow(x)), for the narrowing given or, with NULL, for any. */
static bool is_residual(const struct vm_program *p, const struct vm_instr *sub, const struct vm_instr *narrowing)
{
	if (sub->op != OP_MAP || sub->map_op != MAP_SUBF) return false;
	const struct vm_instr *back = vm_first_maker_of(p, src_id(p, sub, 1)), *down = back;
	if (!back) return false;
	if (is_cast(back) && elem_is_narrow(back->elem) && elem_is_wide(back->result_elem))
		down = vm_first_maker_of(p, src_id(p, back, 0));
	if (!down || !down->nsrc || (narrowing && down != narrowing) || !(is_narrowing(down) || narrowing)) return false;
	return src_id(p, down, 0) == src_id(p, sub, 0);
}

/* The narrowing is one part of a split product: its residual is stored too, or it rounds such a
 * residual itself. */
static bool is_split(const struct vm_program *p, const struct vm_instr *narrowing, bool *marked)
{
	const struct vm_instr *from = vm_first_maker_of(p, src_id(p, narrowing, 0));
	if (from && is_residual(p, from, NULL)) return true;
	for (int i = 0; i < p->ninstrs; i++)
		if (is_residual(p, &p->instrs[i], narrowing) && vm_reaches_memory(p, dst_id(p, &p->instrs[i], 0), marked))
			return true;
	return false;
}

int vm_narrow_find(const struct vm_program *p)
{
	bool *marked = xcalloc((size_t)p->nvalues + 1, sizeof *marked);
	bool *is_pattern = xcalloc((size_t)p->nvalues + 1, sizeof *is_pattern), *is_data = NULL;
	int found = -1;
	for (int i = 0; i < p->ninstrs && found < 0; i++) {
		const struct vm_instr *in = &p->instrs[i];
		if (in->op == OP_BITCAST && in->elem == ELEM_F32 && in->result_elem == ELEM_I32)
			is_pattern[dst_id(p, in, 0)] = true;
		if (!is_narrowing(in) && !is_cut(p, in, is_pattern)) continue;
		if (!vm_reaches_memory(p, dst_id(p, in, 0), marked)) continue;
		if (!is_data) is_data = vm_data_find(p);
		if (is_narrowing(in) ? !is_split(p, in, marked) : !vm_has_rest(p, dst_id(p, in, 0), is_data)) found = i;
	}
	free(marked);
	free(is_pattern);
	free(is_data);
	return found;
}
