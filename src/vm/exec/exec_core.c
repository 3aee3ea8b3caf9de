/* The engine's loop, and the instructions that steer it. */
#include "vm/check/check.h"
#include "base/base.h"
#include "ttir/ttir.h"
#include "vm/core/program.h"
#include "vm/core/state.h"
#include "vm/exec/exec.h"
#include "vm/meter/meter.h"
#include <stdlib.h>

/* ---- the loop ---- */

static int check_clock(struct vm_ctx *c, const struct vm_instr *in)
{
	c->fuel = VM_FUEL;
	if (c->deadline_ns && clock_ns() > c->deadline_ns)
		return vm_fault(c, in, VM_FAULT_TIMEOUT, -1, "the deadline passed");
	return 0;
}

int vm_step(struct vm_ctx *c, const struct vm_instr *in)
{
	c->next = in + 1;
	c->fuel -= in->weight;
	return (c->fuel < 0 && check_clock(c, in)) || in->exec(c, in);
}

int vm_run(struct vm_ctx *c, const struct vm_instr *from, const struct vm_instr *to)
{
	const struct vm_instr *outer = c->next;
	for (const struct vm_instr *in = from; in != to; in = c->next) {
		c->next = in + 1;
		c->fuel -= in->weight;
		if (c->fuel < 0 && check_clock(c, in)) return 1;
		if (c->watch && (c->is_tainted || c->watch[in - c->program->instrs]))
			vm_taint_step(c, in, c->watch[in - c->program->instrs]);
		/* Who watches looks at the operands first, and at some results afterwards. */
		int32_t site = c->coverage ? c->coverage->at[in - c->program->instrs] : -1;
		if (site >= 0) vm_cover_step(c, in, site);
		uint8_t joint = c->coverage && c->coverage->nopen ? c->coverage->joint_marks[in - c->program->instrs] : 0;
		if (joint & JOINT_LOOKS) vm_joint_look(c, in);
		bool is_sum = c->coverage && c->coverage->sum_at && c->coverage->sum_at[in - c->program->instrs] >= 0;
		if (is_sum) vm_sum_cover(c, in);
		if (c->aim) vm_aim_step(c, in);
		if (c->missed) vm_missed_step(c, in);
		if (in->exec(c, in)) return 1;
		if (site >= 0) vm_cover_result(c, in, site);
		if (joint & JOINT_KEEPS) vm_joint_keep(c, in);
		if (c->want_cost) vm_cost_step(c, in);
		else if (c->counts_region) vm_cost_region(c, in);
	}
	c->next = outer;
	return 0;
}

int exec_nothing(struct vm_ctx *c, const struct vm_instr *in) { return 0; }

/* ---- control ---- */

/* All moves at once. A source that dies here gives its reference away; otherwise the buffer is
 * shared. */
int exec_move(struct vm_ctx *c, const struct vm_instr *in)
{
	struct vm_value some[16], *tmp = in->nsrc > (int)ARRAY_LEN(some) ? xmalloc((size_t)in->nsrc * sizeof *tmp) : some;
	for (int i = 0; i < in->nsrc; i++) {
		struct vm_value *v = &c->values[vm_src(c, in, i)];
		tmp[i] = *v;
		if (i < 64 && in->kill >> i & 1) v->buf = NULL;
		else if (v->buf) v->buf->refs++;
	}
	for (int i = 0; i < in->ndst; i++) {
		struct vm_value *v = &c->values[vm_dst(c, in, i)];
		vm_value_clear(c, v);
		*v = tmp[i];
	}
	if (tmp != some) free(tmp);
	return 0;
}

int exec_jump(struct vm_ctx *c, const struct vm_instr *in)
{
	c->next = c->program->instrs + in->target;
	if (c->next > in) return 0;
	/* Behind another loop's jump this loop was entered anew. */
	if (c->jumped != in) {
		c->jumped = in;
		c->entered = c->turns;
	}
	c->turns++;
	return c->program->has_atomics ? vm_spin_check(c, in) : 0;
}

int exec_jump_unless(struct vm_ctx *c, const struct vm_instr *in)
{
	if (!c->values[vm_src(c, in, 0)].splat[0]) c->next = c->program->instrs + in->target;
	return 0;
}

static int64_t scalar_int(const struct vm_ctx *c, int value)
{
	int64_t x = c->values[value].splat_int;
	int shift = 64 - 8 * (int)elem_bytes(c->program->values[value].elem);
	return (int64_t)((uint64_t)x << shift) >> shift;
}

/* for (i; i < upper; ...): leaves the loop when i >= upper */
int exec_loop_test(struct vm_ctx *c, const struct vm_instr *in)
{
	if (scalar_int(c, vm_src(c, in, 0)) >= scalar_int(c, vm_src(c, in, 1))) c->next = c->program->instrs + in->target;
	return 0;
}

int exec_return(struct vm_ctx *c, const struct vm_instr *in)
{
	c->next = c->program->instrs + c->program->ninstrs;
	return 0;
}

int exec_program_id(struct vm_ctx *c, const struct vm_instr *in)
{
	vm_result_splat(c, in, 0, &c->id[in->imm[0]]);
	return 0;
}

int exec_num_programs(struct vm_ctx *c, const struct vm_instr *in)
{
	vm_result_splat(c, in, 0, &c->grid[in->imm[0]]);
	return 0;
}

/* All threads of a block meet: what their lanes did before is ordered before what they do
 * afterwards. Which lanes the blocks of a cluster have is the compiler's choice, so among several
 * blocks it orders nothing. */
int exec_barrier(struct vm_ctx *c, const struct vm_instr *in)
{
	if (c->check && !c->check->is_cluster) c->check->epoch++;
	return 0;
}

int exec_poison(struct vm_ctx *c, const struct vm_instr *in)
{
	vm_kill(c, in);
	vm_result_splat(c, in, 0, in->extra);
	return 0;
}

int exec_assert(struct vm_ctx *c, const struct vm_instr *in)
{
	int id = vm_src(c, in, 0);
	if (c->ignores_asserts) {
		vm_kill(c, in);
		return 0;
	}
	bool is_splat = c->values[id].form == FORM_SPLAT;
	int64_t n = is_splat ? 1 : in->n ? in->n : c->lanes; /* in a region: of as many pairs as are combined at once */
	const uint8_t *ok = is_splat ? c->values[id].splat : vm_dense(c, in, id, n);
	if (!ok) return 1;
	for (int64_t i = 0; i < n; i++)
		if (!ok[i])
			return vm_fault(
				c, in, VM_FAULT_ASSERT, i, "element %lld: \"%.160s\"", (long long)i, (const char *)in->extra);
	vm_kill(c, in);
	return 0;
}
