/* What the compiler takes out of loops. A value that no turn changes is made once, before the loop;
 * where that loop lies in another one which does change it, once in each turn of that. An index
 * that is such a value plus one that is the same for all elements is an address that the loop steps
 * along: what adds the two together turn by turn becomes one step of the address or an offset in
 * the load itself, and costs a warp what uniform arithmetic does. That holds where nothing but
 * addresses is made of it: a comparison or a conversion needs the value itself. */
#include "base/base.h"
#include "ttir/ttir.h"
#include "vm/core/program.h"
#include "vm/map/map.h"
#include "vm/meter/meter.h"
#include <stdlib.h>

#define STEPS_MAX 8 /* changes of shape between a value and its use */
enum part { PART_ANY, PART_FIXED, PART_UNIFORM, PART_SUM };
struct folding {
	const struct vm_program *p;
	int *made;       /* (nvalues): the instruction that makes it; -1: arguments and constants */
	int *moved;      /* (nvalues): the last move into it; -1: none */
	int *loop;       /* (ninstrs): where the innermost loop around it begins; -1: none */
	int *around;     /* (ninstrs): of where a loop begins, where the next one around it does; -1: none */
	bool *is_same;   /* (nvalues): a constant that is the same for all elements */
	int *fixed;      /* (ninstrs): where the outermost loop begins of which no turn changes what it makes; -1: none */
	bool *is_folded; /* (ninstrs) */
};

/* A jump backwards is the end of a loop: from the last instruction on, the loops that are open. */
static void loops_find(struct folding *f)
{
	int *open = xcalloc((size_t)f->p->ninstrs + 1, sizeof *open), n = 0;
	for (int i = f->p->ninstrs - 1; i >= 0; i--) {
		const struct vm_instr *in = &f->p->instrs[i];
		bool is_turn = in->op == OP_JUMP && in->target >= 0 && in->target <= i;
		/* Two ways back to one place are one loop. */
		if (is_turn && (!n || open[n - 1] != in->target)) {
			f->around[in->target] = n ? open[n - 1] : -1;
			open[n++] = in->target;
		}
		f->loop[i] = n ? open[n - 1] : -1;
		while (n && open[n - 1] >= i) n--;
	}
	free(open);
}

static void makers_find(struct folding *f)
{
	for (int v = 0; v < f->p->nvalues; v++) f->made[v] = f->moved[v] = -1;
	for (int i = 0; i < f->p->ninstrs; i++) {
		const struct vm_instr *in = &f->p->instrs[i];
		for (int d = 0; d < in->ndst; d++) (in->op == OP_MOVE ? f->moved : f->made)[f->p->ids[in->dst + d]] = i;
	}
}

/* Whether no turn of the loop that begins at `loop` changes it. */
static bool is_fixed(const struct folding *f, int value, int loop)
{
	int made = f->made[value];
	if (f->moved[value] >= loop) return false;
	return made < loop || (f->fixed[made] >= 0 && f->fixed[made] <= loop);
}

/* What a value is for that loop. */
static enum part part_of(const struct folding *f, int value, int loop)
{
	const struct vm_instr *by = NULL;
	for (int step = 0; step < STEPS_MAX; step++) { /* what only repeats a block is what the block is */
		by = f->made[value] >= loop ? &f->p->instrs[f->made[value]] : NULL;
		if (!by || (by->op != OP_BROADCAST && by->op != OP_RESHAPE)) break;
		value = src_id(f->p, by, 0);
	}
	if (f->p->values[value].ndim == 0 || f->is_same[value] || (by && by->op == OP_SPLAT)) return PART_UNIFORM;
	if (is_fixed(f, value, loop)) return PART_FIXED;
	return by && f->is_folded[f->made[value]] && f->loop[f->made[value]] == loop ? PART_SUM : PART_ANY;
}

/* The outermost loop of whose turns none changes what it makes, by an operation that asks nobody
 * else; -1: none. */
static int stays(const struct folding *f, int i)
{
	const struct vm_instr *in = &f->p->instrs[i];
	bool is_pure = in->op == OP_MAP || in->op == OP_SELECT || in->op == OP_DIVIDE || in->op == OP_SPLAT ||
		in->op == OP_BROADCAST || in->op == OP_RESHAPE || in->op == OP_TRANS || in->op == OP_BITCAST ||
		in->op == OP_RANGE;
	int fixed = -1;
	if (!is_pure || in->ndst != 1) return -1;
	/* From the innermost loop outwards, as long as no operand changes. */
	for (int loop = f->loop[i]; loop >= 0; loop = f->around[loop]) {
		for (int s = 0; s < in->nsrc; s++)
			if (!is_fixed(f, src_id(f->p, in, s), loop)) return fixed;
		fixed = loop;
	}
	return fixed;
}

static bool widens(const struct vm_instr *in)
{
	return in->op == OP_MAP && in->map_op < 0 && in->nsrc == 1 && elem_is_int((enum elem)in->elem) &&
		elem_is_int((enum elem)in->result_elem) && in->elem != ELEM_I1;
}

static bool folds(const struct folding *f, int i)
{
	const struct vm_instr *in = &f->p->instrs[i];
	int loop = f->loop[i];
	if (in->op != OP_MAP || loop < 0 || in->ndst != 1 || in->nsrc < 1 || !elem_is_int((enum elem)in->elem))
		return false;
	enum part a = part_of(f, src_id(f->p, in, 0), loop), b = in->nsrc > 1 ? part_of(f, src_id(f->p, in, 1), loop) : a;
	if (widens(in)) return a == PART_SUM;
	if (in->nsrc != 2 || a == PART_ANY || b == PART_ANY) return false;
	bool has_step = a >= PART_UNIFORM || b >= PART_UNIFORM;
	if (in->map_op == MAP_ADDI || in->map_op == MAP_SUBI) return has_step && (a != PART_UNIFORM || b != PART_UNIFORM);
	/* A sum times what no turn changes is a sum again. */
	if (in->map_op != MAP_MULI || (a != PART_SUM && b != PART_SUM)) return false;
	int factor = a == PART_SUM ? 1 : 0;
	return (factor ? b : a) == PART_UNIFORM && is_fixed(f, src_id(f->p, in, factor), loop);
}

/* is_needed (nvalues): something other than an address is made of it. */
static void needs_find(const struct folding *f, bool *is_needed)
{
	for (int i = 0; i < f->p->ninstrs; i++) {
		const struct vm_instr *in = &f->p->instrs[i];
		for (int s = 0; s < in->nsrc && !f->is_folded[i] && in->op != OP_ADDPTR; s++)
			is_needed[src_id(f->p, in, s)] = true;
	}
}

/* Ends of loops behind whose turns something within is made anew. */
static void made_anew_find(struct vm_cost_plans *plans)
{
	const struct vm_program *p = plans->program;
	for (int i = 0; i < p->ninstrs; i++)
		for (int k = p->instrs[i].op == OP_JUMP ? MAX(p->instrs[i].target, 0) : i; k < i; k++)
			plans->plans[i].makes_anew |= plans->plans[k].is_hoisted &&
				plans->plans[k].made_anew >= p->instrs[i].target;
}

void vm_cost_folds(struct vm_cost_plans *plans)
{
	const struct vm_program *p = plans->program;
	size_t values = (size_t)p->nvalues + 1, instrs = (size_t)p->ninstrs + 1;
	struct folding f = {.p = p,
		.made = xcalloc(values, sizeof *f.made),
		.moved = xcalloc(values, sizeof *f.moved),
		.loop = xcalloc(instrs, sizeof *f.loop),
		.around = xcalloc(instrs, sizeof *f.around),
		.is_same = xcalloc(values, sizeof *f.is_same),
		.fixed = xcalloc(instrs, sizeof *f.fixed),
		.is_folded = xcalloc(instrs, sizeof *f.is_folded)};
	bool *is_needed = xcalloc(values, sizeof *is_needed);
	loops_find(&f);
	makers_find(&f);
	for (int i = 0; i < p->nconsts; i++) f.is_same[p->consts[i].value] = !p->consts[i].data;
	/* Forwards what could be folded; a value that is needed is made, from what
	 * was folded before it. */
	for (int i = 0; i < p->ninstrs; i++) {
		f.fixed[i] = stays(&f, i);
		f.is_folded[i] = f.fixed[i] < 0 && folds(&f, i);
		plans->plans[i].is_hoisted = f.fixed[i] >= 0;
		plans->plans[i].made_anew = f.fixed[i] >= 0 ? f.around[f.fixed[i]] : -1;
	}
	made_anew_find(plans);
	needs_find(&f, is_needed);
	for (int i = 0; i < p->ninstrs; i++)
		if (f.is_folded[i]) plans->plans[i].is_folded = !is_needed[p->ids[p->instrs[i].dst]];
	free(is_needed);
	free(f.made);
	free(f.moved);
	free(f.loop);
	free(f.is_same);
	free(f.around);
	free(f.fixed);
	free(f.is_folded);
}
