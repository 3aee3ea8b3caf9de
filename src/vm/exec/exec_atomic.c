/* Atomics. A launch of a kernel that has any runs its programs one after another, in order
 * (vm_launch.c), so that results do not depend on timing; plain reads and writes are enough. Each
 * element is checked as a read and as a write. */
#include "vm/check/check.h"
#include "base/base.h"
#include "tape/tape.h"
#include "ttir/ttir.h"
#include "vm/core/program.h"
#include "vm/core/state.h"
#include "vm/exec/exec.h"
#include "vm/map/map.h"
#include "vm/meter/meter.h"
#include <stdlib.h>

#define INT_OP(name, U, S) \
	static void name(uint8_t *p, const uint8_t *value, uint8_t *old, int kind) \
	{ \
		U x, y, r; \
		memcpy(&x, p, sizeof x); \
		memcpy(&y, value, sizeof y); \
		switch (kind) { \
		case 0: r = x & y; break; \
		case 1: r = x | y; break; \
		case 2: r = x ^ y; break; \
		case 3: r = (U)(x + y); break; \
		case 5: r = (S)x > (S)y ? x : y; break; \
		case 6: r = (S)x < (S)y ? x : y; break; \
		case 7: r = x > y ? x : y; break; \
		case 8: r = x < y ? x : y; break; \
		default: r = y; break; \
		} \
		memcpy(old, &x, sizeof x); \
		memcpy(p, &r, sizeof r); \
	}
INT_OP(int_op_1, uint8_t, int8_t)
INT_OP(int_op_2, uint16_t, int16_t)
INT_OP(int_op_4, uint32_t, int32_t)
INT_OP(int_op_8, uint64_t, int64_t)

static void add_float(uint8_t *p, const uint8_t *value, uint8_t *old, enum elem e)
{
	size_t size = elem_bytes(e);
	memcpy(old, p, size);
	if (e == ELEM_F64) {
		double x, y;
		memcpy(&x, p, 8);
		memcpy(&y, value, 8);
		x += y;
		memcpy(p, &x, 8);
		return;
	}
	float x, y;
	map_widen(e, &x, p, 1);
	map_widen(e, &y, value, 1);
	x += y;
	map_narrow(e, p, &x, 1);
}

/* Of the two types that are watched. */
static double float_at(enum elem e, const uint8_t *p, int64_t i)
{
	float f;
	double d;
	memcpy(&f, p + i * (int64_t)sizeof f, sizeof f);
	if (e != ELEM_F64) return (double)f;
	memcpy(&d, p + i * (int64_t)sizeof d, sizeof d);
	return d;
}

static void apply(uint8_t *p, const uint8_t *value, uint8_t *old, int kind, enum elem e)
{
	if (kind == RMW_ADD_FLOAT) {
		add_float(p, value, old, e);
		return;
	}
	switch (elem_bytes(e)) {
	case 1: int_op_1(p, value, old, kind); return;
	case 2: int_op_2(p, value, old, kind); return;
	case 4: int_op_4(p, value, old, kind); return;
	default: int_op_8(p, value, old, kind); return;
	}
}

/* Elements of source i, expanded when it is a splat; scalars are read in place. */
static const uint8_t *operand(struct vm_ctx *c, const struct vm_instr *in, int i)
{
	struct vm_value *v = &c->values[vm_src(c, in, i)];
	return in->n == 1 && v->form == FORM_SPLAT ? v->splat : vm_dense(c, in, vm_src(c, in, i), in->n);
}

static uint8_t *result_room(struct vm_ctx *c, const struct vm_instr *in, uint8_t scalar[8])
{
	memset(scalar, 0, 8);
	if (c->program->values[vm_dst(c, in, 0)].ndim == 0) return scalar;
	uint8_t *d = vm_result(c, in, 0, in->n);
	if (d) memset(d, 0, (size_t)in->n * elem_bytes((enum elem)in->result_elem));
	return d;
}

static int finish(struct vm_ctx *c, const struct vm_instr *in, const uint8_t *d, const uint8_t scalar[8],
	const int64_t *address, const uint8_t *mask)
{
	if (c->want_cost && c->report->fault == VM_FAULT_NONE) {
		size_t size = elem_bytes((enum elem)in->result_elem);
		if (vm_cost_access(c, in, address, mask, in->n, size, false)) return 1;
		if (vm_cost_access(c, in, address, mask, in->n, size, true)) return 1;
		vm_cost_atomic(c, in, address, mask, in->n);
	}
	if (d == scalar) vm_result_splat(c, in, 0, scalar);
	vm_kill(c, in);
	return 0;
}

/* What checks look at before the elements change. */
static int check_all(
	struct vm_ctx *c, const struct vm_instr *in, const int64_t *address, const uint8_t *mask, size_t size)
{
	struct vm_check *k = c->check;
	int mask_id = mask ? vm_src(c, in, 2) : -1;
	if (k->checks & VM_CHECK_NOTES) vm_notes_access(c, in, mask_id, in->n, size);
	if (c->is_tainted && vm_taint_use(c, in, vm_src(c, in, 0), mask_id, in->n, true)) return 1;
	if (c->is_tainted && vm_taint_use(c, in, vm_src(c, in, 1), mask_id, in->n, false)) return 1;
	if (!(k->checks & VM_CHECK_RACE)) return 0;
	/* Element by element: each is in order with the others' at its own address. */
	k->code = vm_plan_code(c, in);
	vm_race_block(k, address, &c->program->values[vm_dst(c, in, 0)]);
	for (int64_t i = 0; i < in->n; i++) {
		int64_t at = vm_address(c, address[i]);
		uint64_t index = (uint64_t)at >> TAPE_ADDRESS_SHIFT;
		const struct vm_buffer *b = vm_buffer_at(c->memory, index);
		if ((mask && !mask[i]) || !b || (uint64_t)at % size || at - (int64_t)b->address + (int64_t)size > b->bytes)
			continue;
		bool is_local = in->imm[3] & ORDER_LOCAL;
		if (!is_local)
			vm_order_atomic(c, in, (uint64_t)at, in->imm[3] & ORDER_ACQUIRE, in->imm[3] & ORDER_RELEASE, true, in->n);
		struct check_row row = {at, (int64_t)size, 1, NULL, 0, i, 1};
		if (vm_race_row(c, in, &row, size, CHECK_ATOMIC)) return 1;
	}
	if (in->imm[3] & ORDER_MEETS) k->epoch++;
	return 0;
}

/* ---- on their way ----
 *
 * A relaxed atomic orders nothing, and one whose result nobody uses is waited for by nobody. So
 * later atomics of its program at other places may arrive before it: a flag that says that a value
 * is there, before the value. Where programs take turns, such atomics are put off now and then
 * (vm_schedule.c), until the program releases, comes to the same place again, or ends. */

#define LATE_MEETINGS_MAX 4 /* atomics of its program that one may be late for */

static bool may_be_late(const struct vm_ctx *c, const struct vm_instr *in)
{
	return c->late && c->late->takes && (in->imm[3] & ORDER_UNSEEN) && !(in->imm[3] & ORDER_RELEASE) &&
		in->n <= VM_LATE_MAX - c->late->n;
}

static void put_off(struct vm_ctx *c, const struct vm_instr *in, uint8_t *at, int64_t address, const uint8_t *value)
{
	struct vm_late_item *item = &c->late->items[c->late->n++];
	*item = (struct vm_late_item){.at = at,
		.index = (uint64_t)vm_address(c, address) >> TAPE_ADDRESS_SHIFT,
		.elem = in->result_elem,
		.kind = (uint8_t)in->imm[0]};
	memcpy(item->value, value, elem_bytes((enum elem)in->result_elem));
}

void vm_late_arrive(struct vm_ctx *c)
{
	for (int i = 0; i < c->late->n; i++) {
		const struct vm_late_item *item = &c->late->items[i];
		uint8_t old[8];
		apply(item->at, item->value, old, item->kind, (enum elem)item->elem);
	}
	c->version += c->late->n > 0;
	c->late->n = c->late->meetings = 0;
}

/* Whether an access reaches the buffer of one that is on its way; where its
 * pointers are not known without making them, it does. */
static bool reaches_late(const struct vm_ctx *c, const struct vm_instr *in)
{
	struct affine a;
	if (!vm_affine_of(c, vm_src(c, in, 0), &a)) return true;
	uint64_t index = (uint64_t)vm_address(c, a.base) >> TAPE_ADDRESS_SHIFT;
	for (int i = 0; i < c->late->n; i++)
		if (c->late->items[i].index == index) return true;
	return false;
}

void vm_late_before(struct vm_ctx *c, const struct vm_instr *in)
{
	if (!c->late->n) return;
	bool is_atomic = in->op == OP_ATOMIC_RMW || in->op == OP_ATOMIC_CAS;
	bool is_plain = in->op == OP_LOAD || in->op == OP_STORE;
	c->late->meetings += is_atomic;
	/* An atomic at the same place finds it there itself (below). */
	if ((is_atomic && ((in->imm[3] & ORDER_RELEASE) || c->late->meetings > LATE_MEETINGS_MAX)) ||
		(is_plain && reaches_late(c, in)) || in->op == OP_INLINE_ASM)
		vm_late_arrive(c);
}

/* Atomics of one program at one place stay in order. */
static void arrive_at(struct vm_ctx *c, const uint8_t *at, size_t size)
{
	for (int i = 0; c->late && i < c->late->n; i++) {
		const struct vm_late_item *item = &c->late->items[i];
		if (item->at < at + size && at < item->at + elem_bytes((enum elem)item->elem)) {
			vm_late_arrive(c);
			return;
		}
	}
}

/* What was added to what, for who watches terms. */
static void terms_tell(struct vm_ctx *c, const struct vm_instr *in, const int64_t *address, const uint8_t *value,
	const uint8_t *old, const uint8_t *mask)
{
	struct vm_sum_pair *pairs = xmalloc(size_mul((size_t)in->n, sizeof *pairs));
	enum elem e = (enum elem)in->result_elem;
	int64_t n = 0;
	for (int64_t i = 0; i < in->n; i++) {
		if (mask && !mask[i]) continue;
		pairs[n++] = (struct vm_sum_pair){.x = {float_at(e, old, i), float_at(e, value, i)},
			.term = 2 * i,
			.source = {SUM_MEMORY, 1},
			.element = i,
			.address = (uint64_t)address[i]};
	}
	vm_sum_pairs(c, in, pairs, n);
	free(pairs);
}

/* The old values; masked-off elements give 0. */
int exec_atomic_rmw(struct vm_ctx *c, const struct vm_instr *in)
{
	uint8_t scalar[8];
	size_t size = elem_bytes((enum elem)in->result_elem);
	const uint8_t *address = operand(c, in, 0), *value = operand(c, in, 1),
				  *mask = in->nsrc > 2 ? operand(c, in, 2) : NULL;
	if (!address || !value || (in->nsrc > 2 && !mask)) return 1;
	uint8_t *d = result_room(c, in, scalar);
	if (!d || (c->check && check_all(c, in, (const int64_t *)address, mask, size))) return 1;
	c->polls++;
	c->polled = in;
	/* Either it arrives now, or its elements are on their way and nobody has their old values. */
	bool is_late = may_be_late(c, in);
	/* An exchange of which nobody asks what was there is a store. */
	bool is_read = in->imm[0] != RMW_EXCHANGE || !(in->imm[3] & ORDER_UNSEEN);
	for (int64_t i = 0; i < in->n; i++) {
		if (mask && !mask[i]) continue;
		uint8_t *p = vm_access(c, in, ((const int64_t *)address)[i], size, i, is_read, true);
		if (!p) return 1;
		arrive_at(c, p, size);
		if (is_late) {
			put_off(c, in, p, ((const int64_t *)address)[i], value + (size_t)i * size);
			continue;
		}
		apply(p, value + (size_t)i * size, d + (size_t)i * size, in->imm[0], (enum elem)in->result_elem);
		c->version += memcmp(p, d + (size_t)i * size, size) != 0;
	}
	if (in->imm[0] == RMW_ADD_FLOAT && !c->late && vm_sum_wants_pairs(c, in))
		terms_tell(c, in, (const int64_t *)address, value, d, mask);
	return finish(c, in, d, scalar, (const int64_t *)address, mask);
}

int exec_atomic_cas(struct vm_ctx *c, const struct vm_instr *in)
{
	uint8_t scalar[8];
	size_t size = elem_bytes((enum elem)in->result_elem);
	const uint8_t *address = operand(c, in, 0), *expected = operand(c, in, 1), *desired = operand(c, in, 2);
	if (!address || !expected || !desired) return 1;
	uint8_t *d = result_room(c, in, scalar);
	if (!d || (c->check && check_all(c, in, (const int64_t *)address, NULL, size))) return 1;
	c->polls++;
	c->polled = in;
	for (int64_t i = 0; i < in->n; i++) {
		uint8_t *p = vm_access(c, in, ((const int64_t *)address)[i], size, i, true, true);
		if (!p) return 1;
		arrive_at(c, p, size);
		size_t at = (size_t)i * size;
		memcpy(d + at, p, size);
		bool is_equal = !memcmp(p, expected + at, size);
		if (c->coverage) is_equal = vm_gate_swap(c->coverage, (int)(in - c->program->instrs), is_equal);
		if (!is_equal) continue;
		c->version += memcmp(p, desired + at, size) != 0;
		memcpy(p, desired + at, size);
	}
	return finish(c, in, d, scalar, (const int64_t *)address, NULL);
}
