/* Gates: results of mixed data that never changed although what they are made of did.
 *
 * Data that went through products and bits (x ^ x >> 13, times an odd number) has no order in which
 * a search comes nearer to a value, so a condition on it that no trial met is no bound of the
 * task's: nobody knows what the kernel does where it holds. It need not be a comparison: -d | d
 * shifted to the right says as much, and so do products of clamped numbers that are 0 but in a
 * window which nothing falls into. So each such result is watched, and where it was the same in all
 * lanes of all trials, it can be turned: the launch runs as if it were another one, and what that
 * changes no trial has judged. */
#include "vm/check/check.h"
#include "base/base.h"
#include "ttir/ttir.h"
#include "vm/core/program.h"
#include "vm/core/state.h"
#include "vm/map/map.h"
#include "vm/ptx/ptx.h"
#include "vm/vm.h"
#include <math.h>
#include <stdlib.h>

/* What data went through. MIX_JOIN: bits of two values; MIX_COUNT: a count or a place of bits;
 * MIX_FLOAT: a float that became bits, a whole number, or a truth. */
enum {
	MIX_SUM = 1,
	MIX_PRODUCT = 2,
	MIX_XOR = 4,
	MIX_RIGHT = 8,
	MIX_WAVE = 16,
	MIX_FLOOR = 32,
	MIX_JOIN = 64,
	MIX_COUNT = 128,
	MIX_FLOAT = 256
};

/* Whether an operation has two different operands that are both data. */
static bool is_of_two(const struct vm_program *p, const struct vm_instr *in, const bool *is_data)
{
	if (in->nsrc < 2) return false;
	int a = src_id(p, in, 0), b = src_id(p, in, 1);
	return a != b && is_data[a] && is_data[b];
}

static int mix_of(const struct vm_program *p, const struct vm_instr *in, const bool *is_data)
{
	bool leaves_floats = elem_is_float((enum elem)in->elem) && elem_is_int((enum elem)in->result_elem);
	if (in->op == OP_BITCAST || (in->op == OP_MAP && in->map_op < 0)) return leaves_floats ? MIX_FLOAT : 0;
	if (in->op != OP_MAP) return 0;
	/* Everything else by its operation. */
	switch (in->map_op) {
	case MAP_ANDI:
	case MAP_ORI: return in->result_elem != ELEM_I1 && is_of_two(p, in, is_data) ? MIX_JOIN : 0;
	case MAP_CTPOP:
	case MAP_CTLZ:
	case MAP_CTTZ:
	case MAP_FFS:
	case MAP_BREV: return MIX_COUNT;
	case MAP_ADDI:
	case MAP_SUBI: return MIX_SUM;
	case MAP_MULI:
	case MAP_MULHIUI:
	case MAP_MULHISI: return MIX_PRODUCT;
	case MAP_XORI: return MIX_XOR;
	case MAP_SHRSI:
	case MAP_SHRUI: return MIX_RIGHT;
	case MAP_SIN:
	case MAP_COS: return MIX_WAVE;
	case MAP_FLOOR: return MIX_FLOOR;
	default: return 0;
	}
}

/* What an honest kernel compares is in order still: sums and products for places in memory, shifts
 * for packed numbers. */
static bool is_mixed(int mix, bool is_equality)
{
	const int strong[] = {
		MIX_PRODUCT | MIX_XOR, MIX_SUM | MIX_XOR | MIX_RIGHT, MIX_WAVE | MIX_FLOOR, MIX_JOIN | MIX_FLOAT, MIX_COUNT};
	bool any = is_equality && (mix & (MIX_PRODUCT | MIX_RIGHT)) == (MIX_PRODUCT | MIX_RIGHT);
	for (size_t i = 0; i < ARRAY_LEN(strong); i++) any |= (mix & strong[i]) == strong[i];
	return any;
}

static bool mix_into(uint16_t *mix, int value, int more)
{
	bool is_new = more & ~mix[value];
	mix[value] |= (uint16_t)more;
	return is_new;
}

/* One step of the flow; of what memory gives vm_gates_held knows. */
static bool mix_step(const struct vm_program *p, int i, const bool *is_data, uint16_t *mix)
{
	const struct vm_instr *in = &p->instrs[i];
	bool changed = false, any = false;
	if (in->op == OP_LOAD || in->op == OP_ATOMIC_RMW || in->op == OP_ATOMIC_CAS) return false;
	if (in->op == OP_MOVE) {
		for (int s = 0; s < in->nsrc; s++) changed |= mix_into(mix, dst_id(p, in, s), mix[src_id(p, in, s)]);
		return changed;
	}
	int more = 0;
	for (int s = 0; s < in->nsrc; s++) {
		any |= is_data[src_id(p, in, s)];
		more |= mix[src_id(p, in, s)];
	}
	if (any) more |= mix_of(p, in, is_data);
	/* A region is called with what its instruction has, and gives that instruction's results. */
	if ((in->op == OP_REDUCE || in->op == OP_SCAN || in->op == OP_MAP_REGION) && in->target > i) {
		const struct vm_instr *begin = in + 1, *end = &p->instrs[in->target - 1];
		for (int d = 0; d < begin->ndst; d++) changed |= mix_into(mix, dst_id(p, begin, d), more);
		for (int s = 0; s < end->nsrc; s++) more |= mix[src_id(p, end, s)];
	}
	for (int d = 0; d < in->ndst; d++) changed |= mix_into(mix, dst_id(p, in, d), more);
	return changed;
}

/* The value behind changes of shape and of the width of whole numbers, and what made it. */
static const struct vm_instr *root_of(const struct vm_program *p, const int32_t *maker, int *value)
{
	const struct vm_instr *in = vm_maker_of(p, maker, value);
	while (in && in->op == OP_MAP && in->nsrc == 1 && elem_is_int((enum elem)in->elem) &&
		elem_is_int((enum elem)in->result_elem)) {
		*value = src_id(p, in, 0);
		in = vm_maker_of(p, maker, value);
	}
	return in;
}

/* Whether an order is that of a remainder, or of masked or shifted bits, with an end of what these
 * can be: a guard that holds whatever the data are. */
static bool is_bounded(const struct vm_program *p, const int32_t *maker, const struct vm_instr *in)
{
	for (int k = 0; k < 2; k++) {
		int value = src_id(p, in, k), end = src_id(p, in, 1 - k);
		const struct vm_instr *from = root_of(p, maker, &value);
		root_of(p, maker, &end);
		if (!from || (from->op != OP_MAP && from->op != OP_DIVIDE)) continue;
		bool is_rest = from->map_op == MAP_REMSI || from->map_op == MAP_REMUI;
		if (!is_rest && from->map_op != MAP_ANDI && from->map_op != MAP_SHRUI) continue;
		int by = src_id(p, from, 1);
		root_of(p, maker, &by);
		double most = vm_constant_of(p, by), other = vm_constant_of(p, end);
		/* With 0 only where it makes no difference whether they are equal. */
		int equal = in->imm[3] & MAP_EQUAL, above = in->imm[3] & (k == 0 ? MAP_GREATER : MAP_LESS);
		if ((other == 0 && !equal == !above) || (is_rest && (by == end || other >= most))) return true;
		if (from->map_op == MAP_ANDI && other > most) return true;
	}
	return false;
}

/* What of an instruction is watched as a number. A product of two that was 0 although neither was,
 * the same with a quotient's dividend and with whole numbers' bits; a minimum or maximum that was
 * its constant, or one number though both operands changed; likewise a sum or difference of two,
 * what whole numbers made of floats give, what a block gives at places that change, and a reduction
 * of so few that it stands for one of these, or of which nothing was left. Likewise an exponential
 * that vanished everywhere but in a few lanes, from which no aim starts.
 * Each hides a comparison. */
#define FEW_ELEMENTS 8
#define FEW_LANES 32
#define FEW_OF 512 /* lanes for each of them: a softmax that goes over a row in parts has few of either */
static enum vm_gate_number number_of(const struct vm_program *p, const struct vm_instr *in, const struct vm_site *s,
	const bool *is_data, const uint16_t *mix)
{
	bool is_two = is_of_two(p, in, is_data), is_int = elem_is_int((enum elem)in->result_elem);
	if (in->op == OP_GATHER) return is_data[src_id(p, in, 1)] ? GATE_PLACE : GATE_BITS;
	/* What an index alone chooses. */
	if (in->op == OP_SELECT)
		return !is_int && !is_data[src_id(p, in, 0)] && is_data[src_id(p, in, 1)] && !is_data[src_id(p, in, 2)]
			? GATE_NONE_LEFT
			: GATE_BITS;
	if (in->op == OP_DOT) return is_two ? GATE_ZERO : GATE_BITS;
	if (in->op == OP_ATOMIC_CAS) {
		/* One that would store what it asks for reads, and no more. */
		int asked = src_id(p, in, 1), stored = src_id(p, in, 2);
		return asked != stored && !(vm_constant_of(p, asked) == vm_constant_of(p, stored)) ? GATE_SWAP : GATE_BITS;
	}
	if (in->op == OP_LOOP_TEST) return is_data[src_id(p, in, 0)] || is_data[src_id(p, in, 1)] ? GATE_LOOP : GATE_BITS;
	if (in->op == OP_REDUCE) {
		const struct region_shape *shape = in->extra;
		if (in->nsrc != 1 || !is_data[src_id(p, in, 0)] || shape->len < 2 || in->result_elem == ELEM_I1)
			return GATE_BITS;
		return shape->len <= FEW_ELEMENTS ? GATE_WHOLE : is_int ? GATE_BITS : GATE_NONE_LEFT;
	}
	if ((in->op != OP_MAP && in->op != OP_DIVIDE) || in->ndst != 1 || in->result_elem == ELEM_I1) return GATE_BITS;
	bool is_of_floats = is_int && in->nsrc == 2 && ((mix[src_id(p, in, 0)] | mix[src_id(p, in, 1)]) & MIX_FLOAT);
	switch (in->map_op) {
	case MAP_MULF:
	case MAP_MULI:
	case MAP_ANDI:
	case MAP_DIVF:
	case MAP_PRECISE_DIVF: return is_two ? GATE_ZERO : GATE_BITS;
	case MAP_EXP:
	case MAP_EXP2:
	case MAP_EXP10:
	case MAP_ERFC: return is_data[src_id(p, in, 0)] ? GATE_NONE_LEFT : GATE_BITS;
	case MAP_FMA:
	case MAP_FMS:
	case MAP_FNMA: return is_two ? GATE_JOINED : GATE_BITS;
	case MAP_ADDF:
	case MAP_SUBF: return is_two ? GATE_SAME : GATE_BITS;
	case MAP_MAXIMUMF:
	case MAP_MINIMUMF:
	case MAP_MAXNUMF:
	case MAP_MINNUMF:
		if (is_two) return GATE_SAME;
		return s && s->kind == SITE_EXTREME && isfinite(s->constant) ? GATE_EXTREME : GATE_BITS;
	case MAP_MAXSI:
	case MAP_MINSI:
	case MAP_MAXUI:
	case MAP_MINUI:
		if (is_two) return GATE_SAME;
		return is_of_floats ? GATE_EXTREME : GATE_BITS;
	default: return is_of_floats && is_two && in->map_op >= 0 ? GATE_SAME : GATE_BITS;
	}
}

/* Whether two conditions choose what is added: what they decide together is a joint's business
 * (check_joint.c), and two that exclude each other honestly give one sum. */
static bool is_of_choices(const struct vm_program *p, const int32_t *maker, const struct vm_instr *in)
{
	for (int k = 0; k < 2; k++) {
		int value = src_id(p, in, k);
		const struct vm_instr *from = vm_maker_of(p, maker, &value);
		bool is_choice = from && (from->op == OP_SELECT || (from->op == OP_MAP && from->elem == ELEM_I1));
		if (!is_choice) return false;
	}
	return true;
}

/* Whether an extreme of masked bits has a constant that these cannot pass. */
static bool is_of_masked(const struct vm_program *p, const int32_t *maker, const struct vm_instr *in)
{
	for (int k = 0; k < 2; k++) {
		int value = src_id(p, in, k), end = src_id(p, in, 1 - k);
		const struct vm_instr *from = root_of(p, maker, &value);
		root_of(p, maker, &end);
		if (!from || from->op != OP_MAP || from->map_op != MAP_ANDI) continue;
		int by = src_id(p, from, 1);
		root_of(p, maker, &by);
		bool is_minimum = in->map_op == MAP_MINSI || in->map_op == MAP_MINUI;
		double most = vm_constant_of(p, by), other = vm_constant_of(p, end);
		if (most >= 0 && (is_minimum ? other <= 0 : other >= most)) return true;
	}
	return false;
}

/* Numbers that switch, on sites of their own or on those that are there; what is watched as mixed
 * bits already is left. */
static void numbers_watch(struct vm_coverage *c, const struct vm_program *p, int i, const int32_t *maker,
	const bool *is_data, const uint16_t *mix)
{
	const struct vm_instr *in = &p->instrs[i];
	struct vm_site *s = c->at[i] >= 0 ? &c->sites[c->at[i]] : NULL;
	enum vm_gate_number number = number_of(p, in, s, is_data, mix);
	if (number == GATE_BITS || (s && s->is_gate) || (number == GATE_SAME && is_of_choices(p, maker, in))) return;
	if (number == GATE_EXTREME && elem_is_int((enum elem)in->result_elem) && is_of_masked(p, maker, in)) return;
	if (!s) s = vm_site_add(c, p, i, SITE_GATE, 0);
	s->is_gate = true;
	s->number = number;
	s->is_minimum = in->op == OP_MAP && (in->map_op == MAP_MINSI || in->map_op == MAP_MINUI);
}

/* Products that a loop takes again and again, as hashes of many elements are made: what one turn
 * gives is a factor of the next. */
static void hashes_find(const struct vm_program *p, const bool *is_data, uint16_t *mix)
{
	bool *marked = xmalloc((size_t)p->nvalues + 1);
	for (int i = 0; i < p->ninstrs; i++) {
		const struct vm_instr *in = &p->instrs[i];
		if (in->op != OP_MAP || in->map_op != MAP_MULI || !is_data[dst_id(p, in, 0)]) continue;
		memset(marked, 0, (size_t)p->nvalues + 1);
		marked[dst_id(p, in, 0)] = true;
		vm_flow_forward(p, marked);
		for (int s = 0; s < in->nsrc; s++)
			if (marked[src_id(p, in, s)]) mix[dst_id(p, in, 0)] |= MIX_PRODUCT | MIX_XOR;
	}
	free(marked);
}

static const struct ptx_program *text_of(const struct vm_instr *in)
{
	return &((const struct asm_block *)in->extra)->code;
}

static void texts_find(struct vm_coverage *c, const struct vm_program *p, const bool *is_data)
{
	c->texts = xcalloc((size_t)p->ninstrs + 1, sizeof *c->texts);
	for (int i = 0; i < p->ninstrs; i++) {
		const struct vm_instr *in = &p->instrs[i];
		bool any = false;
		for (int s = 0; s < in->nsrc; s++) any |= is_data[src_id(p, in, s)];
		if (in->op == OP_INLINE_ASM && any) c->texts[i] = ptx_still_make(text_of(in));
	}
}

void vm_gates_free(struct vm_coverage *c)
{
	for (int i = 0; c->texts && i < c->ninstrs; i++) free(c->texts[i]);
	free(c->texts);
	free(c->mix);
	free(c->is_data);
	free(c->maker);
}

static void mixes_flow(const struct vm_program *p, const bool *is_data, uint16_t *mix)
{
	for (bool changed = true; changed;) {
		changed = false;
		for (int i = 0; i < p->ninstrs; i++) changed |= mix_step(p, i, is_data, mix);
	}
}

/* Sites of whole numbers and truths that are made of mixed data. */
static void mixed_watch(struct vm_coverage *c, const struct vm_program *p)
{
	for (int i = 0; i < p->ninstrs; i++) {
		const struct vm_instr *in = &p->instrs[i];
		struct vm_site *s = c->at[i] >= 0 ? &c->sites[c->at[i]] : NULL;
		bool is_compare = s && s->kind == SITE_COMPARE;
		bool is_equality = is_compare && s->is_equality, any = false;
		bool is_number = in->op == OP_MAP || in->op == OP_DIVIDE;
		if (!is_number || in->ndst != 1 || !elem_is_int((enum elem)in->result_elem) || (s && s->is_gate)) continue;
		for (int k = 0; k < in->nsrc; k++) any |= is_mixed(c->mix[src_id(p, in, k)], is_equality);
		if (!any) continue;
		if (!s) s = vm_site_add(c, p, i, SITE_GATE, 0);
		s->is_gate = true;
		s->is_bounded = is_compare && !is_equality && is_bounded(p, c->maker, in);
		s->nfrom = 0;
		/* Of what else is watched, whether it changed is known. */
		for (int k = 0; k < in->nsrc; k++) {
			int value = src_id(p, in, k);
			const struct vm_instr *from = vm_maker_of(p, c->maker, &value);
			if (!is_mixed(c->mix[value], is_equality) || s->nfrom == (int)ARRAY_LEN(s->from)) continue;
			s->from[s->nfrom++] = from ? c->at[from - p->instrs] : -1;
		}
	}
}

/* What the kernel alone decides is no gate. */
static void still_drop(struct vm_coverage *c, const struct vm_program *p)
{
	bool *still = xmalloc((size_t)p->nvalues + 1);
	vm_still_find(p, NULL, NULL, still);
	for (int i = 0; i < p->ninstrs; i++)
		if (c->at[i] >= 0 && p->instrs[i].ndst == 1 && still[dst_id(p, &p->instrs[i], 0)])
			c->sites[c->at[i]].is_gate = false;
	free(still);
}

void vm_gates_find(struct vm_coverage *c, const struct vm_program *p, const int32_t *maker, const bool *is_data)
{
	c->mix = xcalloc((size_t)p->nvalues + 1, sizeof *c->mix);
	c->maker = xcalloc((size_t)p->nvalues + 1, sizeof *c->maker);
	memcpy(c->maker, maker, (size_t)p->nvalues * sizeof *maker);
	c->is_data = xcalloc((size_t)p->nvalues + 1, sizeof *c->is_data);
	memcpy(c->is_data, is_data, (size_t)p->nvalues * sizeof *is_data);
	hashes_find(p, is_data, c->mix);
	mixes_flow(p, is_data, c->mix);
	mixed_watch(c, p);
	for (int i = 0; i < p->ninstrs; i++) numbers_watch(c, p, i, maker, is_data, c->mix);
	texts_find(c, p, is_data);
	still_drop(c, p);
}

/* Whether a pointer may lead behind an argument. */
static bool leads_to(const struct vm_roots *r, int arg)
{
	bool is_any = r->from_memory || !(r->args[0] | r->args[1]);
	return is_any || (arg < 8 * (int)sizeof r->args && (r->args[arg / 64] >> (arg % 64) & 1));
}

bool vm_gates_held(struct vm_coverage *c, const struct vm_roots *roots, struct vm_held *const *held, int nargs)
{
	const struct vm_program *p = c->program;
	bool is_new = false, changed = false;
	/* What is read went through what was stored there. */
	for (int i = 0; i < p->ninstrs; i++) {
		const struct vm_instr *in = &p->instrs[i];
		if (in->op != OP_LOAD && in->op != OP_ATOMIC_RMW && in->op != OP_ATOMIC_CAS) continue;
		for (int k = 0; k < nargs && in->ndst; k++)
			if (held[k] && leads_to(&roots[src_id(p, in, 0)], k))
				is_new |= mix_into(c->mix, dst_id(p, in, 0), held[k]->mix);
	}
	/* Conditions on it are gates then, as they would be in one kernel. */
	if (is_new) {
		mixes_flow(p, c->is_data, c->mix);
		mixed_watch(c, p);
		still_drop(c, p);
		c->is_held_new = true;
	}
	for (int i = 0; i < p->ninstrs; i++) {
		const struct vm_instr *in = &p->instrs[i];
		if ((in->op != OP_STORE && in->op != OP_ATOMIC_RMW && in->op != OP_ATOMIC_CAS) || in->nsrc < 2) continue;
		uint16_t mix = c->mix[src_id(p, in, in->op == OP_ATOMIC_CAS ? 2 : 1)];
		for (int k = 0; k < nargs; k++)
			if (held[k] && leads_to(&roots[src_id(p, in, 0)], k)) changed |= mix_into(&held[k]->mix, 0, mix);
	}
	return changed;
}

static bool is_zero(uint64_t bits, enum elem e)
{
	return !(elem_is_int(e) ? bits : bits << (65 - 8 * elem_bytes(e))); /* of either sign */
}

#define SEEN_LEAST 8
static bool is_of_many(const struct vm_site *s)
{
	return s->number == GATE_PLACE || s->number == GATE_WHOLE || s->number == GATE_NONE_LEFT;
}

/* The same in all lanes of all launches, and made of what was not. */
static bool is_still(const struct vm_coverage *c, const struct vm_site *s)
{
	bool is_moved = false;
	if (!s->is_gate || s->is_bounded || s->is_decided || s->results != 1) return false;
	if (s->number == GATE_LOOP) return s->moved != 0;
	if ((int64_t)s->few * FEW_OF > s->vanished) return false;
	bool is_of_zeros = s->number == GATE_ZERO || s->number == GATE_NONE_LEFT;
	/* Of many operands at once, one result or a few say nothing. */
	if (is_of_many(s) && s->seen < SEEN_LEAST) return false;
	if (s->number) return s->moved == 3 && (!is_of_zeros || is_zero(s->result, s->result_elem));
	for (int i = 0; i < s->nfrom; i++) {
		const struct vm_site *from = s->from[i] < 0 ? NULL : &c->sites[s->from[i]];
		is_moved |= !from || !from->is_gate || from->results == 2;
	}
	return is_moved;
}

/* Instructions of inline assembly that are still; turn: what they are given to do. */
static int texts_still(const struct vm_coverage *c, int *line, const enum vm_turn *turn)
{
	int n = 0;
	for (int i = 0; i < c->ninstrs; i++) {
		const struct ptx_program *p = c->texts[i] ? text_of(&c->first[i]) : NULL;
		for (int k = 0; p && k < p->ninstrs; k++) {
			bool is = ptx_still_is(p, c->texts[i], k);
			if (turn) c->texts[i][k].turn = is ? (uint8_t)*turn : TURN_NONE;
			if (is && !n && line && !*line) *line = c->program->locs[c->first[i].loc].line;
			n += is;
		}
	}
	return n;
}

int vm_coverage_gates(struct vm_coverage *c, int *line)
{
	int n = 0;
	vm_gates_decide(c);
	for (int i = 0; i < c->nsites; i++) {
		if (!is_still(c, &c->sites[i])) continue;
		if (!n) *line = c->sites[i].line;
		n++;
	}
	return n + texts_still(c, line, NULL);
}

void vm_coverage_turn(struct vm_coverage *c, enum vm_turn turn)
{
	vm_gates_decide(c);
	c->is_turned = turn != TURN_NONE;
	for (int i = 0; i < c->nsites; i++) {
		c->sites[i].turn = is_still(c, &c->sites[i]) ? turn : TURN_NONE;
		c->sites[i].was_entered = false;
	}
	texts_still(c, NULL, &turn);
}

static uint64_t turned(const struct vm_site *s, enum elem e)
{
	int by = s->turn == TURN_LEAST ? 1 : -1;
	if (s->number && elem_is_float(e)) {
		uint64_t bits = 0;
		double x;
		float narrow;
		if (e == ELEM_F64) {
			memcpy(&x, &s->result, sizeof x);
			x += by;
			memcpy(&bits, &x, sizeof x);
			return bits;
		}
		map_widen(e, &narrow, &s->result, 1);
		narrow += (float)by;
		map_narrow(e, &bits, &narrow, 1);
		return bits;
	}
	/* What an extreme could give lies on one side of its constant, near or far. */
	if (s->number == GATE_EXTREME) {
		int64_t k = 0, far;
		memcpy(&k, &s->result, elem_bytes(e));
		if (elem_bytes(e) == 4) k = (int32_t)k;
		far = k > 0 ? k : 0x10000;
		return (uint64_t)(k + (s->is_minimum ? -1 : 1) * (s->turn == TURN_LEAST ? 1 : far));
	}
	if (s->number) return s->result + (uint64_t)by;
	if (e == ELEM_I1 || (s->turn == TURN_LEAST && s->result <= 1)) return s->result ^ 1;
	return s->turn == TURN_LEAST ? 0 : ~s->result;
}

static void operands_look(struct vm_site *s, const double *a, const double *b, int64_t n)
{
	for (int64_t i = 0; i < n && s->moved != 3; i++) {
		double d = a[i] - b[i];
		switch (s->number) {
		case GATE_ZERO: /* factors that are not 0 */
		case GATE_JOINED: s->moved |= (uint8_t)((a[i] != 0) | (b[i] != 0) << 1); break;
		case GATE_EXTREME: /* operands that lie apart by two distances */
			if (s->moved) s->moved = d != s->first[0] ? 3 : 1;
			else s->moved = 1;
			s->first[0] = d;
			break;
		default: /* two numbers of each */
			if (!s->has_operands) s->first[0] = a[i];
			if (!s->has_operands) s->first[1] = b[i];
			s->has_operands = true;
			s->moved |= (uint8_t)((a[i] != s->first[0]) | (b[i] != s->first[1]) << 1);
			break;
		}
	}
}

/* A product that was 0 in front of a sum. */
static void joined_look(struct vm_site *s, const double *a, const double *b, int64_t n)
{
	for (int64_t i = 0; i < n && s->results < 2; i++) s->results = a[i] * b[i] == 0 ? 1 : 2;
}

static uint64_t hash_numbers(uint64_t h, const double *a, int64_t n)
{
	for (int64_t i = 0; i < n; i++) {
		uint64_t bits;
		memcpy(&bits, &a[i], sizeof bits);
		h = vm_hash_step(h, bits);
	}
	return h;
}

static bool is_exponential(const struct vm_site *s, const struct vm_instr *in)
{
	return s->number == GATE_NONE_LEFT && in->op == OP_MAP;
}

void vm_gate_look(struct vm_ctx *c, const struct vm_instr *in, struct vm_site *s)
{
	struct vm_reader r[2];
	bool is_one = is_of_many(s), is_splat = true, is_counted = is_one && s->seen < SEEN_LEAST;
	int from = s->number == GATE_PLACE || in->op == OP_SELECT ? 1 : 0;
	s->is_new = false;
	if (c->coverage->is_turned || s->results == 2) return;
	if (s->moved == 3 && s->number != GATE_JOINED && !is_counted) return;
	int64_t n = in->n ? in->n : c->lanes;
	for (int i = 0; i < (is_one ? 1 : 2); i++) {
		/* A product of matrices and a reduction have operands of sizes of their own. */
		const struct vm_value_info *info = &c->program->values[vm_src(c, in, from + i)];
		if (in->op != OP_MAP && in->op != OP_DIVIDE && in->op != OP_SELECT)
			n = i ? MIN(n, MAX(info->count, 1)) : MAX(info->count, 1);
	}
	for (int i = 0; i < (is_one ? 1 : 2); i++) {
		if (!vm_reader_make(c, in, from + i, n, &r[i])) return;
		is_splat &= r[i].is_splat;
	}
	if (is_splat) n = 1;
	uint64_t looked = (uint64_t)n;
	for (int64_t at = 0; at < n; at += VM_STRIP) {
		int64_t m = MIN(n - at, VM_STRIP);
		const double *a = vm_reader_strip(&r[0], at, m), *b = is_one ? a : vm_reader_strip(&r[1], at, m);
		operands_look(s, a, b, m);
		if (is_counted) looked = hash_numbers(looked, a, m);
		else if (s->number == GATE_JOINED) joined_look(s, a, b, m);
		else if (s->moved == 3) break;
	}
	/* What every program of a launch makes alike is one look and no more. */
	s->is_new = is_counted && (!s->seen || looked != s->looked);
	s->looked = looked;
	if (s->number == GATE_LOOP) s->results = MAX(s->results, r[0].strip[0] < r[1].strip[0] ? 2 : 1);
}

/* A sum with a product that was 0, as if that had been another number. */
static void joined_turn(struct vm_ctx *c, const struct vm_instr *in, const struct vm_site *s)
{
	int id = vm_dst(c, in, 0);
	enum elem e = c->program->values[id].elem;
	struct vm_value *v = &c->values[id];
	bool is_splat = v->form == FORM_SPLAT;
	int64_t n = is_splat ? 1 : in->n ? in->n : c->lanes;
	uint8_t *data = is_splat ? v->splat : (uint8_t *)vm_dense(c, in, id, n);
	int by = s->turn == TURN_LEAST ? 1 : -1;
	for (int64_t i = 0; data && i < n; i++) {
		float x;
		double wide;
		if (e == ELEM_F64) {
			memcpy(&wide, data + 8 * i, sizeof wide);
			wide += by;
			memcpy(data + 8 * i, &wide, sizeof wide);
		} else {
			map_widen(e, &x, data + (int64_t)elem_bytes(e) * i, 1);
			x += (float)by;
			map_narrow(e, data + (int64_t)elem_bytes(e) * i, &x, 1);
		}
	}
}

/* A loop that no launch entered is gone through once. */
static void loop_turn(struct vm_ctx *c, const struct vm_instr *in, struct vm_site *s)
{
	s->was_entered = !s->was_entered;
	c->next = s->was_entered ? in + 1 : c->program->instrs + in->target;
}

bool vm_gate_swap(struct vm_coverage *c, int instr, bool is_equal)
{
	struct vm_site *s = c->at[instr] < 0 ? NULL : &c->sites[c->at[instr]];
	if (!s || s->number != GATE_SWAP) return is_equal;
	if (c->is_turned) return is_equal || s->turn;
	s->results = MAX(s->results, is_equal ? 2 : 1);
	s->moved = 3;
	return is_equal;
}

void vm_gate_step(struct vm_ctx *c, const struct vm_instr *in, struct vm_site *s)
{
	if (s->number == GATE_SWAP) return;
	if (s->turn && s->number == GATE_JOINED) joined_turn(c, in, s);
	if (s->turn && s->number == GATE_LOOP) loop_turn(c, in, s);
	bool is_done = s->number == GATE_JOINED || s->number == GATE_LOOP;
	if (!is_done) {
		int id = vm_dst(c, in, 0);
		const struct vm_value *v = &c->values[id];
		enum elem e = s->result_elem = c->program->values[id].elem;
		if (s->turn) {
			uint64_t bits = turned(s, e);
			vm_result_splat(c, in, 0, &bits);
			return;
		}
		if (c->coverage->is_turned || s->results == 2) return;
		bool is_splat = v->form == FORM_SPLAT, is_map = in->op == OP_MAP || in->op == OP_DIVIDE || in->op == OP_SELECT;
		int64_t n = is_splat ? 1 : !is_map ? MAX(c->program->values[id].count, 1) : in->n ? in->n : c->lanes;
		const uint8_t *data = is_splat ? v->splat : vm_dense(c, in, id, n);
		for (int64_t i = 0; data && i < n && s->results < 2; i++) {
			uint64_t bits = 0;
			memcpy(&bits, data + (size_t)i * elem_bytes(e), elem_bytes(e));
			/* what a few lanes came near is as good as unseen */
			bool is_gone = is_exponential(s, in) && is_zero(bits, e);
			s->vanished += is_gone;
			if (is_exponential(s, in) && !is_gone && ++s->few < FEW_LANES) continue;
			if (!s->results) s->result = bits;
			if (!s->results || bits != s->result) s->results++;
			s->seen += s->is_new;
		}
	}
	/* Nothing more to learn: one that is a comparison too is closed as such. */
	if (s->results == 2 && s->kind == SITE_GATE && !c->coverage->is_turned)
		c->coverage->at[in - c->coverage->first] = -1;
}
