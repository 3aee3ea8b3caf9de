/* What counts depend on. Two marks go forward through the program, from operands to results until
 * nothing changes: DATA from what loads and atomics read, PROGRAM from the program's number, which
 * inline assembly knows too. An address, a mask or a branch with the mark DATA makes the counts a
 * matter of values; a branch with PROGRAM makes them differ between programs. Then the instructions
 * that branches need are found backwards: run alone they tell how long each program's way is.
 *
 * A region's values are made by the instruction that owns it: what goes in marks its first
 * instruction's results, and what comes out of its last marks the owner's. */
#include "vm/meter/depend.h"
#include "base/base.h"
#include "vm/core/program.h"
#include "vm/ptx/ptx.h"
#include <stdlib.h>

enum { MARK_DATA = 1, MARK_PROGRAM = 2 };

static bool reads_memory(const struct vm_instr *in)
{
	return in->op == OP_LOAD || in->op == OP_ATOMIC_RMW || in->op == OP_ATOMIC_CAS;
}
/* Inline assembly that reads which program it is in tells as much as the program's number does.
 * Which multiprocessor it runs on is as little known beforehand as what stands in memory. */
static uint8_t asm_marks(const struct asm_block *block)
{
	uint8_t all = 0;
	for (int i = 0; i < block->code.npresets; i++) {
		int special = block->code.presets[i].special;
		if (special >= PTX_CTAID && special < PTX_NCTAID) all |= MARK_PROGRAM;
		if (special == PTX_SMID) all |= MARK_DATA;
	}
	return all;
}
/* What an instruction's results depend on by themselves, whatever its operands are. */
static uint8_t marks_made(const struct vm_instr *in)
{
	if (in->op == OP_INLINE_ASM) return asm_marks(in->extra);
	return reads_memory(in) ? MARK_DATA : in->op == OP_PROGRAM_ID ? MARK_PROGRAM : 0;
}
static bool steers(const struct vm_instr *in) { return in->op == OP_JUMP_UNLESS || in->op == OP_LOOP_TEST; }
static bool has_region(const struct vm_program *p, int i)
{
	const struct vm_instr *in = &p->instrs[i];
	return (in->op == OP_REDUCE || in->op == OP_SCAN || in->op == OP_MAP_REGION) && in->target > i + 1;
}

static bool mark(uint8_t *marks, int value, uint8_t with)
{
	uint8_t before = marks[value];
	marks[value] |= with;
	return marks[value] != before;
}

static bool marks_step(const struct vm_program *p, int i, uint8_t *marks)
{
	const struct vm_instr *in = &p->instrs[i];
	bool changed = false;
	uint8_t all = marks_made(in);
	/* A move copies each operand to the result at its own place. */
	for (int s = 0; in->op == OP_MOVE && s < in->nsrc; s++)
		changed |= mark(marks, dst_id(p, in, s), marks[src_id(p, in, s)]);
	if (in->op == OP_MOVE) return changed;
	for (int s = 0; s < in->nsrc; s++) all |= marks[src_id(p, in, s)];
	if (has_region(p, i)) {
		const struct vm_instr *begin = in + 1, *end = &p->instrs[in->target - 1];
		for (int d = 0; d < begin->ndst; d++) changed |= mark(marks, dst_id(p, begin, d), all);
		for (int s = 0; s < end->nsrc; s++) all |= marks[src_id(p, end, s)];
	}
	for (int d = 0; d < in->ndst; d++) changed |= mark(marks, dst_id(p, in, d), all);
	return changed;
}

/* The operands that decide what an instruction costs, and what to call them. */
static const struct {
	enum vm_op op;
	int operand;
	const char *what;
} DECIDERS[] = {
	{OP_LOAD, 0, "the address of a load"},
	{OP_LOAD, 1, "the mask of a load"},
	{OP_STORE, 0, "the address of a store"},
	{OP_STORE, 2, "the mask of a store"},
	{OP_ATOMIC_RMW, 0, "the address of an atomic"},
	{OP_ATOMIC_RMW, 2, "the mask of an atomic"},
	{OP_ATOMIC_CAS, 0, "the address of an atomic"},
	{OP_GATHER, 1, "the index of a gather"},
	{OP_JUMP_UNLESS, 0, "a branch"},
	{OP_LOOP_TEST, 0, "the trip count of a loop"},
	{OP_LOOP_TEST, 1, "the trip count of a loop"},
};

static void data_find(const struct vm_program *p, const uint8_t *marks, struct vm_dependence *out)
{
	out->data_instr = -1;
	for (int i = 0; i < p->ninstrs && out->data_instr < 0; i++) {
		const struct vm_instr *in = &p->instrs[i];
		for (size_t d = 0; d < ARRAY_LEN(DECIDERS) && out->data_instr < 0; d++) {
			if (in->op != DECIDERS[d].op || DECIDERS[d].operand >= in->nsrc) continue;
			if (!(marks[src_id(p, in, DECIDERS[d].operand)] & MARK_DATA)) continue;
			out->data_instr = i;
			out->what = DECIDERS[d].what;
		}
	}
}

/* Everything that makes a needed value is needed, with all that it uses itself. */
static void control_find(const struct vm_program *p, const uint8_t *marks, struct vm_dependence *out)
{
	bool *is_needed = xcalloc((size_t)p->nvalues + 1, sizeof *is_needed);
	out->is_control = xcalloc((size_t)p->ninstrs + 1, sizeof *out->is_control);
	/* What steers begins; whether any of it depends on the program's number. */
	for (int i = 0; i < p->ninstrs; i++) {
		const struct vm_instr *in = &p->instrs[i];
		out->is_control[i] = steers(in) || in->op == OP_JUMP || in->op == OP_RETURN;
		for (int s = 0; steers(in) && s < in->nsrc; s++) out->steered |= marks[src_id(p, in, s)] & MARK_PROGRAM;
	}
	/* Backwards until nothing is added, since loops carry values round. */
	for (bool changed = true; changed;) {
		changed = false;
		for (int i = p->ninstrs - 1; i >= 0; i--) {
			const struct vm_instr *in = &p->instrs[i];
			bool is_wanted = out->is_control[i];
			for (int d = 0; d < in->ndst; d++) is_wanted |= is_needed[dst_id(p, in, d)];
			for (int s = 0; is_wanted && s < in->nsrc; s++) {
				if (in->op == OP_MOVE && !is_needed[dst_id(p, in, s)]) continue; /* goes elsewhere */
				changed |= !is_needed[src_id(p, in, s)];
				is_needed[src_id(p, in, s)] = true;
			}
			out->is_control[i] = is_wanted;
			/* What a region computes belongs to its owner, which runs it. */
			for (int k = i + 1; is_wanted && has_region(p, i) && k < in->target; k++)
				for (int s = 0; s < p->instrs[k].nsrc; s++) {
					changed |= !is_needed[src_id(p, &p->instrs[k], s)];
					is_needed[src_id(p, &p->instrs[k], s)] = true;
				}
		}
	}
	free(is_needed);
}

void vm_dependence_make(const struct vm_program *p, struct vm_dependence *out)
{
	*out = (struct vm_dependence){.data_instr = -1, .what = ""};
	uint8_t *marks = xcalloc((size_t)p->nvalues + 1, 1);
	for (bool changed = true; changed;) {
		changed = false;
		for (int i = 0; i < p->ninstrs; i++) changed |= marks_step(p, i, marks);
	}
	data_find(p, marks, out);
	out->is_of_data = xcalloc((size_t)p->ninstrs + 1, sizeof *out->is_of_data);
	for (int i = 0; i < p->ninstrs; i++)
		for (int s = 0; s < p->instrs[i].nsrc; s++)
			out->is_of_data[i] |= marks[src_id(p, &p->instrs[i], s)] & MARK_DATA;
	control_find(p, marks, out);
	free(marks);
}

/* Atomics and volatile loads between two instructions decide a branch between them; perhaps by way
 * of memory, so that with one of these every load there counts. */
static bool decides(const struct vm_program *p, int from, int to)
{
	bool any = false, *marked = xcalloc((size_t)p->nvalues + 1, sizeof *marked);
	for (int i = from; i <= to; i++) {
		const struct vm_instr *in = &p->instrs[i];
		bool looks = in->op == OP_ATOMIC_RMW || in->op == OP_ATOMIC_CAS ||
			(in->op == OP_LOAD && (in->imm[3] & ORDER_VOLATILE));
		any |= looks;
		if (looks || in->op == OP_LOAD) marked[dst_id(p, in, 0)] = true;
	}
	if (any) vm_flow_forward(p, marked);
	bool is_steered = false;
	for (int i = from; i <= to && any; i++)
		for (int s = 0; steers(&p->instrs[i]) && s < p->instrs[i].nsrc; s++)
			is_steered |= marked[src_id(p, &p->instrs[i], s)];
	free(marked);
	return is_steered;
}

bool vm_may_wait(const struct vm_program *p)
{
	if (!p->has_atomics) return false;
	/* A cycle comes back down by jumps backwards, so the stretches that these jump over cover it
	 * together; stretches that overlap are taken for one. From the last instruction up, the
	 * lowest place that a jump from here or behind leads to is where the stretch begins. */
	for (int i = p->ninstrs - 1; i >= 0; i--) {
		int from = i;
		bool is_loop = false;
		for (int k = i; k >= from; k--) {
			const struct vm_instr *in = &p->instrs[k];
			bool is_back = (in->op == OP_JUMP || steers(in)) && in->target <= k;
			is_loop |= is_back;
			if (is_back) from = MIN(from, in->target);
		}
		if (is_loop && decides(p, from, i)) return true;
		i = from;
	}
	return false;
}

void vm_dependence_release(struct vm_dependence *d)
{
	free(d->is_control);
	free(d->is_of_data);
	d->is_control = d->is_of_data = NULL;
}
