/* Notes: what is no error, but worth a look. Counted for each memory instruction over the whole
 * launch. */
#include "vm/check/check.h"
#include "base/base.h"
#include "vm/core/program.h"
#include "vm/core/state.h"

#define SECTOR_BYTES 32
#define WARP 32
#define WASTE_MIN 4        /* sectors touched, as a multiple of the fewest that could hold the elements */

static bool mask_is_box(const struct vm_value *v) { return v->form == FORM_SPLAT || v->form == FORM_BOX; }

static int64_t count_active(struct vm_ctx *c, const struct vm_instr *in, int mask, int64_t n)
{
	if (mask < 0) return n;
	const struct vm_value *v = &c->values[mask];
	if (v->form == FORM_SPLAT) return v->splat[0] ? n : 0;
	if (mask_is_box(v)) {
		int64_t active = 1;
		for (int d = 0; d < c->program->values[mask].ndim; d++) active *= MAX(v->box.hi[d] - v->box.lo[d], 0);
		return active;
	}
	const uint8_t *m = vm_dense(c, in, mask, n);
	int64_t active = 0;
	for (int64_t i = 0; m && i < n; i++) active += m[i];
	return active;
}

/* Triton lays a block out along the dimension in which its addresses are contiguous. Uncoalesced is
 * what has none. */
static bool affine_is_scattered(const struct vm_value_info *info, const struct affine *a, size_t size, int64_t *stride)
{
	*stride = 0;
	for (int d = 0; d < info->ndim; d++) {
		int64_t step = a->stride[d] < 0 ? -a->stride[d] : a->stride[d];
		if (step == (int64_t)size && info->shape[d] > 1) return false;
		if (step && (!*stride || step < *stride)) *stride = step;
	}
	return *stride >= WASTE_MIN * (int64_t)size;
}

static bool elements_are_scattered(const int64_t *address, int64_t n, size_t size)
{
	int64_t sectors = 0, least = 0;
	for (int64_t at = 0; at < n; at += WARP) {
		int count = (int)MIN(n - at, WARP);
		int64_t seen[WARP];
		int nseen = 0;
		for (int i = 0; i < count; i++) {
			int64_t s = address[at + i] / SECTOR_BYTES;
			bool is_new = true;
			for (int k = nseen - 1; k >= 0 && is_new; k--) is_new = seen[k] != s;
			if (is_new) seen[nseen++] = s;
		}
		sectors += nseen;
		least += ((int64_t)count * (int64_t)size + SECTOR_BYTES - 1) / SECTOR_BYTES;
	}
	return sectors >= WASTE_MIN * least;
}

static void look_at_addresses(
	struct vm_ctx *c, const struct vm_instr *in, struct check_use *use, int64_t n, size_t size)
{
	struct affine a;
	int pointer = vm_src(c, in, 0);
	if (n < WARP) return;
	if (vm_affine_of(c, pointer, &a)) {
		use->is_uncoalesced = affine_is_scattered(&c->program->values[pointer], &a, size, &use->stride);
		return;
	}
	const int64_t *address = vm_dense(c, in, pointer, n);
	use->is_uncoalesced = address && elements_are_scattered(address, n, size);
}

void vm_notes_access(struct vm_ctx *c, const struct vm_instr *in, int mask, int64_t n, size_t size)
{
	struct vm_check *k = c->check;
	struct check_use *use = &k->uses[in - c->program->instrs];
	int64_t active = count_active(c, in, mask, n);
	/* The first whole block decides on coalescing: its layout is the same in every program. */
	if (active == n && !use->programs) {
		look_at_addresses(c, in, use, n, size);
		use->programs = 1;
	}
	use->executed++;
	use->lanes += n;
	use->active += active;
	use->is_masked |= mask >= 0;
	k->is_active |= active > 0;
}

/* Whether the author wrote the mask. Triton's front end gives every atomic one, a constant, and
 * makes two of a float's maximum or minimum: one for each sign, at one place. */
static bool mask_is_written(const struct vm_program *p, const struct vm_instr *in)
{
	if (in->op != OP_ATOMIC_RMW) return true;
	for (int i = 0; i < p->nconsts; i++)
		if (p->consts[i].value == p->ids[in->src + 2]) return false;
	for (int i = 0; i < p->ninstrs; i++) {
		const struct vm_instr *other = &p->instrs[i];
		if (other != in && other->op == OP_ATOMIC_RMW && other->loc == in->loc) return false;
	}
	return true;
}

void vm_notes_finish(struct vm_ctx *c)
{
	struct vm_check *k = c->check;
	/* The last program has no successor that would count it. */
	k->idle_programs += !k->is_active && k->programs;
	for (int i = 0; i < c->program->ninstrs; i++) {
		const struct vm_instr *in = &c->program->instrs[i];
		const struct check_use *use = &k->uses[i];
		const char *what = in->op == OP_LOAD ? "load" : in->op == OP_STORE ? "store" : "atomic access";
		bool is_masked = use->is_masked && mask_is_written(c->program, in);
		/* Masks that never changed anything, or never let anything through. */
		if (is_masked && use->active == use->lanes)
			vm_note(c, in, VM_NOTE_MASK_ALWAYS, -1, "the mask of this %s held for all %lld elements", what,
				(long long)use->lanes);
		if (is_masked && !use->active)
			vm_note(c, in, VM_NOTE_MASK_NEVER, -1, "the mask of this %s held for none of %lld elements", what,
				(long long)use->lanes);
		/* Neighbouring lanes that share no sector. */
		if (use->is_uncoalesced && use->stride)
			vm_note(c, in, VM_NOTE_UNCOALESCED, -1,
				"neighbours of this %s are %lld bytes apart: each takes a 32-byte sector of its own", what,
				(long long)use->stride);
		else if (use->is_uncoalesced)
			vm_note(c, in, VM_NOTE_UNCOALESCED, -1,
				"neighbours of this %s are scattered: it touches at least %d times the sectors that its elements fill",
				what, WASTE_MIN);
	}
	if (k->idle_programs)
		vm_note(c, c->program->instrs, VM_NOTE_IDLE_PROGRAMS, -1, "%lld of %lld programs touch no memory",
			(long long)k->idle_programs, (long long)k->programs);
}
