/* What a kernel does before it waits for the launches in front of it (griddepcontrol.wait).
 *
 * A dependent launch begins while the one in front of it still runs, so what it reads and writes
 * before its wait meets memory that is not ready. The program text is walked along all its ways at
 * once: an instruction is early where some way from the kernel's beginning leads to it past no
 * wait. A branch that skips the wait, and a loop that may turn zero times, are such ways; the
 * bodies of reductions belong to the instruction that owns them. Only a wait that nothing guards
 * counts, in inline assembly that the compiler may neither drop nor move. */
#include "vm/check/check.h"
#include "base/base.h"
#include "vm/core/program.h"
#include <stdlib.h>

static bool waits(const struct vm_instr *in) { return in->op == OP_INLINE_ASM && (in->imm[0] & ASM_WAITS); }

static bool triggers(const struct vm_instr *in) { return in->op == OP_INLINE_ASM && (in->imm[0] & ASM_TRIGGERS); }

/* The instructions that may follow, up to two. */
static int followers(const struct vm_program *p, int i, int out[2])
{
	const struct vm_instr *in = &p->instrs[i];
	int n = 0;
	bool has_region = in->op == OP_REDUCE || in->op == OP_SCAN || in->op == OP_MAP_REGION;
	if (in->op == OP_RETURN) out[n++] = p->ninstrs;
	else if (in->op == OP_JUMP || (has_region && in->target > i + 1)) out[n++] = in->target;
	else out[n++] = i + 1;
	if (in->op == OP_JUMP_UNLESS || in->op == OP_LOOP_TEST) out[n++] = in->target;
	return n;
}

static void note(struct vm_program *p, const struct vm_instr *in, const struct vm_roots *roots)
{
	bool is_store = in->op == OP_STORE, is_atomic = in->op == OP_ATOMIC_RMW || in->op == OP_ATOMIC_CAS;
	if (!is_store && !is_atomic && in->op != OP_LOAD) return;
	const struct vm_roots *r = &roots[p->ids[in->src]];
	struct vm_roots *to = is_store || is_atomic ? &p->plan.early_writes : &p->plan.early_reads;
	to->args[0] |= r->args[0];
	to->args[1] |= r->args[1];
	to->from_memory |= r->from_memory;
}

void vm_early_find(struct vm_program *p, const struct vm_roots *roots)
{
	bool *is_early = xcalloc((size_t)p->ninstrs + 1, sizeof *is_early);
	int *todo = xcalloc((size_t)p->ninstrs + 1, sizeof *todo), ntodo = 0;
	is_early[0] = true;
	todo[ntodo++] = 0;
	while (ntodo) {
		int i = todo[--ntodo], next[2];
		if (i >= p->ninstrs || waits(&p->instrs[i])) continue;
		/* Each instruction is put on the list once. */
		for (int n = followers(p, i, next); n--;) {
			int to = MIN(next[n], p->ninstrs);
			if (is_early[to]) continue;
			is_early[to] = true;
			todo[ntodo++] = to;
		}
	}
	for (int i = 0; i < p->ninstrs; i++) {
		if (!is_early[i]) continue;
		p->plan.triggers_early |= triggers(&p->instrs[i]);
		note(p, &p->instrs[i], roots);
	}
	p->plan.may_skip_wait = is_early[p->ninstrs];
	free(todo);
	free(is_early);
}
