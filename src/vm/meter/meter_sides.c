/* Which ways a launch went: the instructions that ran, what its integer comparisons gave, and
 * whether places that are computed in floats were beyond what these hold, where all this follows
 * from arguments, places and program numbers alone. Two launches of one
 * program at two sizes can be compared by that: a way that only the second took is one that the
 * first says nothing of. */
#include "base/base.h"
#include "ttir/ttir.h"
#include "vm/core/program.h"
#include "vm/core/state.h"
#include "vm/meter/depend.h"
#include "vm/meter/meter.h"
#include "vm/vm.h"
#include <math.h>
#include <stdlib.h>

enum { RAN = 1, GAVE_TRUE = 2, GAVE_FALSE = 4 };
#define REACHED_INSTRS_MAX 65536

static bool is_cast(const struct vm_instr *in, bool to_float)
{
	enum elem from = (enum elem)in->elem, to = (enum elem)in->result_elem;
	bool is_one = in->op == OP_MAP && in->nsrc == 1 && in->ndst == 1 && from != ELEM_I1 && to != ELEM_I1;
	return is_one && (to_float ? elem_is_int(from) && elem_is_float(to) : elem_is_float(from) && elem_is_int(to));
}

/* Whether a whole number comes back of what this one made of a whole number: a place that is
 * computed in floats. */
static bool comes_back(const struct vm_program *p, const struct vm_instr *in, const bool *is_of_data)
{
	bool any = false, *marked = xcalloc((size_t)p->nvalues + 1, sizeof *marked);
	marked[p->ids[in->dst]] = true;
	vm_flow_forward(p, marked);
	for (int i = 0; i < p->ninstrs; i++)
		any |= is_cast(&p->instrs[i], false) && !is_of_data[i] && marked[p->ids[p->instrs[i].src]];
	free(marked);
	return any;
}

void vm_sides_find(struct vm_cost_plans *plans)
{
	const struct vm_program *p = plans->program;
	struct vm_dependence d;
	vm_dependence_make(p, &d);
	for (int i = 0; i < p->ninstrs; i++) {
		const struct vm_instr *in = &p->instrs[i];
		bool compares = in->op == OP_MAP && in->nsrc == 2 && in->ndst == 1 && in->result_elem == ELEM_I1 && in->n > 0 &&
			elem_is_int((enum elem)in->elem) && in->elem != ELEM_I1;
		bool is_place = !d.is_of_data[i] &&
			(is_cast(in, false) || (is_cast(in, true) && comes_back(p, in, d.is_of_data)));
		plans->plans[i].has_sides = (compares && !d.is_of_data[i]) || is_place;
	}
	vm_dependence_release(&d);
}

/* The first whole number behind which a float has not each of them; the one of fp64 is beyond all
 * places in memory. */
static double whole_limit(enum elem e)
{
	return e == ELEM_BF16 ? 0x1p8 : e == ELEM_F16 ? 0x1p11 : e == ELEM_F32 ? 0x1p24 : INFINITY;
}

/* Of a cast between whole numbers and floats: whether some number is beyond what the float holds
 * exactly. */
static uint8_t sides_of_cast(struct vm_ctx *c, const struct vm_instr *in)
{
	struct vm_reader r = {0};
	const struct vm_value_info *info = &c->program->values[vm_dst(c, in, 0)];
	const struct vm_value *v = &c->values[vm_dst(c, in, 0)];
	bool to_float = elem_is_float((enum elem)in->result_elem);
	double limit = whole_limit((enum elem)(to_float ? in->result_elem : in->elem)), most = 0;
	r.elem = info->elem;
	r.is_splat = v->form == FORM_SPLAT;
	r.data = r.is_splat ? v->splat : v->form == FORM_DENSE && v->buf ? v->buf->data : NULL;
	int64_t n = r.is_splat ? 1 : info->count;
	for (int64_t at = 0; r.data && at < n; at += VM_STRIP) {
		int64_t m = MIN(n - at, VM_STRIP);
		const double *x = vm_reader_strip(&r, at, m);
		for (int64_t i = 0; i < m; i++) most = MAX(most, fabs(x[i]));
	}
	return most >= limit ? GAVE_TRUE : GAVE_FALSE;
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
	if (in->result_elem != ELEM_I1) {
		*ran |= sides_of_cast(c, in);
		return;
	}
	if (v->form == FORM_SPLAT) *ran |= v->splat[0] ? GAVE_TRUE : GAVE_FALSE;
	else if (v->form == FORM_BOX) *ran |= sides_of_box(&c->program->values[id], &v->box);
	else if (v->form == FORM_DENSE && v->buf) {
		size_t n = (size_t)c->program->values[id].count;
		*ran |= memchr(v->buf->data, 0, n) ? GAVE_FALSE : 0;
		*ran |= memchr(v->buf->data, 1, n) ? GAVE_TRUE : 0;
	}
}

/* What is only computed says nothing of the way: of two equal blocks the compiler makes one, so at
 * sizes that are equal a program has fewer of these. What steers, moves or reaches memory stays. */
static bool says_way(const struct vm_instr *in, bool has_sides)
{
	switch ((enum vm_op)in->op) {
	case OP_MAP:
	case OP_SELECT:
	case OP_DIVIDE:
	case OP_BITCAST:
	case OP_ADDPTR:
	case OP_SPLAT:
	case OP_RANGE:
	case OP_BROADCAST:
	case OP_RESHAPE:
	case OP_TRANS:
	case OP_PROGRAM_ID:
	case OP_NUM_PROGRAMS: return has_sides;
	default: return true;
	}
}

char *vm_sides_text(const struct vm_program *p, struct vm_meter *const *meters, int count)
{
	const struct vm_cost_plans *plans = NULL;
	for (int t = 0; t < count; t++) plans = meters[t] ? meters[t]->plans : plans;
	if (!plans || p->ninstrs > REACHED_INSTRS_MAX) return NULL;
	char *text = xcalloc((size_t)p->ninstrs + 1, 1), *at = text;
	for (int i = 0; i < p->ninstrs; i++) {
		uint8_t ran = 0;
		if (!says_way(&p->instrs[i], plans->plans[i].has_sides)) continue;
		for (int t = 0; t < count; t++) ran |= meters[t] ? meters[t]->ran[i] : 0;
		*at++ = (char)('0' + ran);
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
