/* Loops that wait for another program. Programs of a kernel with atomics run one after another,
 * each to its end, so nobody changes memory while one loops. A loop that read memory through an
 * atomic (or a volatile load), changed nothing in it, and stands at its start with the same values
 * as one turn before, does the same for ever: it waits for a program that comes later in the grid.
 * On a GPU that ends only if both run at the same time, which nothing but the size of the grid and
 * of the GPU decides. Bounded waits change a counter and never stand still. */
#include "vm/check/check.h"
#include "ttir/ttir.h"
#include "vm/core/program.h"
#include "vm/core/state.h"

#define TURNS_MIN 256   /* before the first look; then at every power of two */

static uint64_t mix(uint64_t h, const void *data, size_t len)
{
	const uint8_t *p = data;
	for (size_t i = 0; i < len; i++) h = (h ^ p[i]) * 0x100000001b3u;
	return h ^ h >> 29;
}

/* Block pointers are told apart by their buffers alone: they may differ where they are the same,
 * never the other way round. */
uint64_t vm_values_hash(const struct vm_ctx *c)
{
	uint64_t h = 0xcbf29ce484222325u;
	for (int i = 0; i < c->program->nvalues; i++) {
		const struct vm_value *v = &c->values[i];
		const struct vm_value_info *info = &c->program->values[i];
		enum type_kind kind = c->kernel->module.types[info->type].kind;
		h = mix(h, &v->form, sizeof v->form);
		if (v->form == FORM_SPLAT) h = mix(h, v->splat, elem_bytes(info->elem));
		else if (v->form == FORM_AFFINE) h = mix(h, &v->affine, sizeof v->affine);
		else if (v->form == FORM_BOX) h = mix(h, &v->box, sizeof v->box);
		else if (v->buf && (kind == TYPE_SCALAR || kind == TYPE_TENSOR))
			h = mix(h, v->buf->data, (size_t)info->count * elem_bytes(info->elem));
		else if (v->buf) h = mix(h, &v->buf, sizeof v->buf);
	}
	return h;
}

int vm_spin_check(struct vm_ctx *c, const struct vm_instr *jump)
{
	struct vm_spin *s = &c->spins[(size_t)(jump - c->program->instrs) % VM_SPINS];
	if (s->jump != jump || s->version != c->version) {
		*s = (struct vm_spin){.jump = jump, .version = c->version, .polls = c->polls};
		return 0;
	}
	int64_t turns = ++s->turns;
	if (turns < TURNS_MIN || c->polls == s->polls) return 0;
	if ((turns & (turns - 1)) == 0) s->hash = vm_values_hash(c);
	bool is_next = ((turns - 1) & (turns - 2)) == 0;
	if (!is_next || s->hash != vm_values_hash(c)) return 0;
	if (c->yields) {
		c->is_waiting = true;
		return 0;
	}
	return vm_fault(c, c->polled, VM_FAULT_CO_RESIDENCY, -1,
		"the loop waits for a value that only a later program of the grid can write: it ends only if both "
		"run at the same time");
}
