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
#include "vm/vm.h"
#include <math.h>
#include <stdlib.h>

/* What data went through. */
enum { MIX_SUM = 1, MIX_PRODUCT = 2, MIX_XOR = 4, MIX_RIGHT = 8, MIX_WAVE = 16, MIX_FLOOR = 32 };

static int mix_of(const struct vm_instr *in)
{
	if (in->op != OP_MAP) return 0;
	switch (in->map_op) {
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
	const int strong[] = {MIX_PRODUCT | MIX_XOR, MIX_SUM | MIX_XOR | MIX_RIGHT, MIX_WAVE | MIX_FLOOR};
	bool any = is_equality && (mix & (MIX_PRODUCT | MIX_RIGHT)) == (MIX_PRODUCT | MIX_RIGHT);
	for (size_t i = 0; i < ARRAY_LEN(strong); i++) any |= (mix & strong[i]) == strong[i];
	return any;
}

static int src_id(const struct vm_program *p, const struct vm_instr *in, int i) { return p->ids[in->src + i]; }
static int dst_id(const struct vm_program *p, const struct vm_instr *in, int i) { return p->ids[in->dst + i]; }

static bool mix_into(uint8_t *mix, int value, int more)
{
	bool is_new = more & ~mix[value];
	mix[value] |= (uint8_t)more;
	return is_new;
}

/* One step of the flow; what memory gives begins anew. */
static bool mix_step(const struct vm_program *p, int i, const bool *is_data, uint8_t *mix)
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
	if (any) more |= mix_of(in);
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

/* Numbers that switch: a product of two that was 0 in all lanes, though each of them was not, and a
 * minimum or maximum that was its constant. Both hide a comparison. */
static void numbers_watch(struct vm_coverage *c, const struct vm_program *p, int i, const bool *is_data)
{
	const struct vm_instr *in = &p->instrs[i];
	if (in->op != OP_MAP || in->result_elem != ELEM_F32) return;
	if (in->map_op == MAP_MULF && c->at[i] < 0 && is_data[src_id(p, in, 0)] && is_data[src_id(p, in, 1)])
		vm_site_add(c, p, i, SITE_GATE, 0)->is_number = true;
	if (c->at[i] >= 0 && c->sites[c->at[i]].kind == SITE_EXTREME && isfinite(c->sites[c->at[i]].constant))
		c->sites[c->at[i]].is_number = true;
	if (c->at[i] >= 0) c->sites[c->at[i]].is_gate = c->sites[c->at[i]].is_number;
}

/* Products that a loop takes again and again, as hashes of many elements are made: what one turn
 * gives is a factor of the next. */
static void hashes_find(const struct vm_program *p, const bool *is_data, uint8_t *mix)
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

void vm_gates_find(struct vm_coverage *c, const struct vm_program *p, const int32_t *maker, const bool *is_data)
{
	uint8_t *mix = xcalloc((size_t)p->nvalues + 1, sizeof *mix);
	bool *still = xmalloc((size_t)p->nvalues + 1);
	vm_still_find(p, still);
	hashes_find(p, is_data, mix);
	for (bool changed = true; changed;) {
		changed = false;
		for (int i = 0; i < p->ninstrs; i++) changed |= mix_step(p, i, is_data, mix);
	}
	for (int i = 0; i < p->ninstrs; i++) numbers_watch(c, p, i, is_data);
	for (int i = 0; i < p->ninstrs; i++) {
		const struct vm_instr *in = &p->instrs[i];
		bool is_compare = c->at[i] >= 0 && c->sites[c->at[i]].kind == SITE_COMPARE;
		bool is_equality = is_compare && c->sites[c->at[i]].is_equality, any = false;
		bool is_number = in->op == OP_MAP || in->op == OP_DIVIDE;
		if (!is_number || in->ndst != 1 || !elem_is_int((enum elem)in->result_elem)) continue;
		for (int s = 0; s < in->nsrc; s++) any |= is_mixed(mix[src_id(p, in, s)], is_equality);
		if (!any) continue;
		struct vm_site *s = c->at[i] >= 0 ? &c->sites[c->at[i]] : vm_site_add(c, p, i, SITE_GATE, 0);
		s->is_gate = true;
		s->is_bounded = is_compare && !is_equality && is_bounded(p, maker, in);
		s->nfrom = 0;
		/* Of what else is watched, whether it changed is known. */
		for (int k = 0; k < in->nsrc; k++) {
			int value = src_id(p, in, k);
			const struct vm_instr *from = vm_maker_of(p, maker, &value);
			if (!is_mixed(mix[value], is_equality) || s->nfrom == (int)ARRAY_LEN(s->from)) continue;
			s->from[s->nfrom++] = from ? c->at[from - p->instrs] : -1;
		}
	}
	/* What the kernel alone decides is no gate. */
	for (int i = 0; i < p->ninstrs; i++)
		if (c->at[i] >= 0 && p->instrs[i].ndst == 1 && still[dst_id(p, &p->instrs[i], 0)])
			c->sites[c->at[i]].is_gate = false;
	free(still);
	free(mix);
}

/* The same in all lanes of all launches, and made of what was not. */
static bool is_still(const struct vm_coverage *c, const struct vm_site *s)
{
	bool is_moved = false;
	if (!s->is_gate || s->is_bounded || s->results != 1) return false;
	if (s->is_number) return s->moved == 3 && (s->kind != SITE_GATE || !(s->result << 33)); /* 0 of either sign */
	for (int i = 0; i < s->nfrom; i++) {
		const struct vm_site *from = s->from[i] < 0 ? NULL : &c->sites[s->from[i]];
		is_moved |= !from || !from->is_gate || from->results == 2;
	}
	return is_moved;
}

int vm_coverage_gates(const struct vm_coverage *c, int *line)
{
	int n = 0;
	for (int i = 0; i < c->nsites; i++) {
		if (!is_still(c, &c->sites[i])) continue;
		if (!n) *line = c->sites[i].line;
		n++;
	}
	return n;
}

void vm_coverage_turn(struct vm_coverage *c, enum vm_turn turn)
{
	c->is_turned = turn != TURN_NONE;
	for (int i = 0; i < c->nsites; i++) c->sites[i].turn = is_still(c, &c->sites[i]) ? turn : TURN_NONE;
}

static uint64_t turned(const struct vm_site *s, enum elem e)
{
	if (s->is_number) {
		float x;
		uint64_t bits = 0;
		memcpy(&x, &s->result, sizeof x);
		x += s->turn == TURN_LEAST ? 1 : -1;
		memcpy(&bits, &x, sizeof x);
		return bits;
	}
	if (e == ELEM_I1 || (s->turn == TURN_LEAST && s->result <= 1)) return s->result ^ 1;
	return s->turn == TURN_LEAST ? 0 : ~s->result;
}

void vm_gate_operands(struct vm_site *s, const double *a, const double *b, int64_t n)
{
	for (int64_t i = 0; i < n && s->moved != 3; i++) {
		/* Factors that are not 0; operands of an extreme that lie apart by two distances. */
		double d = a[i] - b[i];
		if (s->kind == SITE_GATE) {
			s->moved |= (uint8_t)((a[i] != 0) | (b[i] != 0) << 1);
		} else if (s->moved) {
			s->moved = d != s->distance ? 3 : 1;
		} else {
			s->moved = 1;
			s->distance = d;
		}
	}
}

void vm_gate_step(struct vm_ctx *c, const struct vm_instr *in, struct vm_site *s)
{
	int id = vm_dst(c, in, 0);
	const struct vm_value *v = &c->values[id];
	enum elem e = c->program->values[id].elem;
	if (s->turn) {
		uint64_t bits = turned(s, e);
		vm_result_splat(c, in, 0, &bits);
		return;
	}
	if (c->coverage->is_turned || s->results == 2) return;
	bool is_splat = v->form == FORM_SPLAT;
	int64_t n = is_splat ? 1 : in->n ? in->n : c->lanes;
	const uint8_t *data = is_splat ? v->splat : vm_dense(c, in, id, n);
	for (int64_t i = 0; data && i < n && s->results < 2; i++) {
		uint64_t bits = 0;
		memcpy(&bits, data + (size_t)i * elem_bytes(e), elem_bytes(e));
		if (!s->results) s->result = bits;
		if (!s->results || bits != s->result) s->results++;
	}
	/* Nothing more to learn: one that is a comparison too is closed as such. */
	if (s->results == 2 && s->kind == SITE_GATE) c->coverage->at[in - c->coverage->first] = -1;
}
