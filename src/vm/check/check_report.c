/* The life of what checks keep. */
#include "vm/check/check.h"
#include "base/base.h"
#include "vm/core/program.h"
#include "vm/core/state.h"
#include <stdlib.h>

#define FINDINGS_MAX 4096

struct vm_check *vm_check_create(const struct vm_kernel *kernel, const struct vm_program *p,
	const struct vm_launch_options *o, const struct vm_memory *m)
{
	struct vm_check *k = xcalloc(1, sizeof *k);
	k->checks = o->checks;
	k->goes_on = o->findings_max > 0;
	struct vm_findings *f = &k->found;
	f->max = MIN(MAX(o->findings_max, 0), FINDINGS_MAX);
	f->list = xcalloc((size_t)f->max + 1, sizeof *f->list);
	f->keys = xcalloc((size_t)f->max + 1, sizeof *f->keys);
	k->programs = (int64_t)o->grid[0] * o->grid[1] * o->grid[2];
	if (o->checks & VM_CHECK_RACE) vm_race_create(k, kernel, p, o, m);
	if (o->checks & (VM_CHECK_OVERFLOW | VM_CHECK_DIVISION | VM_CHECK_ORDER))
		k->taints = xcalloc((size_t)p->nvalues + 1, sizeof *k->taints);
	if (o->checks & VM_CHECK_NOTES) k->uses = xcalloc((size_t)p->ninstrs + 1, sizeof *k->uses);
	return k;
}

void vm_check_free(struct vm_check *k, const struct vm_program *p, const struct vm_memory *m)
{
	if (!k) return;
	vm_race_free(k, m);
	for (int i = 0; k->taints && i < p->nvalues; i++) free(k->taints[i].lanes);
	free(k->taints);
	free(k->uses);
	free(k->found.list);
	free(k->found.keys);
	free(k);
}

void vm_check_program(struct vm_ctx *c, int64_t number)
{
	struct vm_check *k = c->check;
	if (k->uses && number > 0) k->idle_programs += !k->is_active;
	k->is_active = false;
	k->found.program = number;
	k->first = MAX(k->nrecords, 1u);
	k->epoch = 0;
	if (k->order.is_on) vm_order_program(&k->order);
	if (c->is_tainted) vm_taint_clear(c);
}

void vm_check_program_id(const struct vm_ctx *c, int64_t number, uint32_t id[3])
{
	id[0] = (uint32_t)(number % c->grid[0]);
	id[1] = (uint32_t)(number / c->grid[0] % c->grid[1]);
	id[2] = (uint32_t)(number / c->grid[0] / c->grid[1]);
}

/* ---- the end ---- */

void vm_check_finish(struct vm_ctx *c, struct vm_report *r, bool was_stopped)
{
	struct vm_check *k = c->check;
	if (k->uses && !was_stopped) vm_notes_finish(c);
	if (k->is_incomplete && !k->goes_on && !was_stopped)
		vm_fault(c, c->program->instrs, VM_FAULT_UNSUPPORTED, -1, "races cannot be looked for to the end: %s",
			k->incomplete_why);
	else if (k->is_incomplete)
		vm_note(c, c->program->instrs, VM_NOTE_UNCHECKED, -1, "races were not looked for to the end: %s",
			k->incomplete_why);
	r->nfindings = k->found.count;
	r->findings = k->found.list;
	r->findings_dropped = k->found.dropped;
	k->found.list = NULL;
}
