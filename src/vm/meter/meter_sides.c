/* Which ways a launch went: the instructions that ran, and what its integer comparisons gave
 * where they follow from arguments, places and program numbers alone. Two launches of one
 * program at two sizes can be compared by that: a way that only the second took is one that the
 * first says nothing of. */
#include "base/base.h"
#include "ttir/ttir.h"
#include "vm/core/program.h"
#include "vm/core/state.h"
#include "vm/meter/depend.h"
#include "vm/meter/meter.h"
#include "vm/vm.h"
#include <stdlib.h>

enum { RAN = 1, GAVE_TRUE = 2, GAVE_FALSE = 4 };
#define REACHED_INSTRS_MAX 65536

void vm_sides_find(struct vm_cost_plans *plans)
{
	const struct vm_program *p = plans->program;
	struct vm_dependence d;
	vm_dependence_make(p, &d);
	for (int i = 0; i < p->ninstrs; i++) {
		const struct vm_instr *in = &p->instrs[i];
		bool compares = in->op == OP_MAP && in->nsrc == 2 && in->ndst == 1 && in->result_elem == ELEM_I1 && in->n > 0;
		plans->plans[i].has_sides = compares && elem_is_int((enum elem)in->elem) && in->elem != ELEM_I1 &&
			!d.is_of_data[i];
	}
	vm_dependence_release(&d);
}

static uint8_t sides_of_box(const struct vm_value_info *info, const struct box *b)
{
	bool is_all = true, is_empty = false;
	for (int d = 0; d < info->ndim; d++) {
		is_empty |= b->lo[d] >= b->hi[d];
		is_all &= b->lo[d] <= 0 && b->hi[d] >= info->shape[d];
	}
	return is_empty ? GAVE_FALSE : is_all ? GAVE_TRUE : GAVE_TRUE | GAVE_FALSE;
}

void vm_sides_note(struct vm_ctx *c, const struct vm_instr *in)
{
	uint8_t *ran = &c->meter->ran[in - c->program->instrs];
	int id = vm_dst(c, in, 0);
	const struct vm_value *v = &c->values[id];
	if (*ran == (RAN | GAVE_TRUE | GAVE_FALSE)) return;
	if (v->form == FORM_SPLAT) *ran |= v->splat[0] ? GAVE_TRUE : GAVE_FALSE;
	else if (v->form == FORM_BOX) *ran |= sides_of_box(&c->program->values[id], &v->box);
	else if (v->form == FORM_DENSE && v->buf) {
		size_t n = (size_t)c->program->values[id].count;
		*ran |= memchr(v->buf->data, 0, n) ? GAVE_FALSE : 0;
		*ran |= memchr(v->buf->data, 1, n) ? GAVE_TRUE : 0;
	}
}

char *vm_sides_text(const struct vm_program *p, struct vm_meter *const *meters, int count)
{
	if (p->ninstrs > REACHED_INSTRS_MAX) return NULL;
	char *text = xcalloc((size_t)p->ninstrs + 1, 1);
	for (int i = 0; i < p->ninstrs; i++) {
		uint8_t ran = 0;
		for (int t = 0; t < count; t++) ran |= meters[t] ? meters[t]->ran[i] : 0;
		text[i] = (char)('0' + ran);
	}
	return text;
}

bool vm_reached_within(const char *a, const char *b)
{
	if (!a || !b || strlen(a) != strlen(b)) return false;
	for (; *a; a++, b++)
		if ((*a - '0') & ~(*b - '0') & (RAN | GAVE_TRUE | GAVE_FALSE)) return false;
	return true;
}
