/* Digits that values lose on their way to memory, by whatever means.
 *
 * check_narrow.c finds roundings in the program's text. The same is done by shifts of a pattern, by
 * a large number that is added and taken off again, by whole numbers, or inside assembly, and every
 * such form is another text. What they have in common shows in the values: behind the instruction
 * the last bits are the same in nearly all lanes, though the digits before them differ. So the
 * instructions that could do it are watched while trials run, a few hundred lanes in each; on
 * values with all their digits no harm is seen in any of them.
 *
 * What is split on purpose has its rest: x - hi, or x - n * ln 2, is computed and stored too.
 * Such are not watched. */
#include "base/base.h"
#include "ttir/ttir.h"
#include "vm/check/check.h"
#include "vm/core/program.h"
#include "vm/core/state.h"
#include "vm/map/map.h"
#include "vm/vm.h"
#include <math.h>
#include <stdlib.h>

#define LANES_MAX 512   /* that are looked at in one trial */
#define LANES_MIN 256   /* fewer say nothing */
#define KEPT_ENOUGH 2048 /* lanes with all digits after which nobody looks any more */
#define DIFFERENT_MIN 40 /* of 64 classes of leading digits: fewer are masks, counts and powers of two */
#define LOST_SHARE 4    /* lost: fewer than one lane in so many has all digits */
#define STEPS_MAX 64    /* rounds of a flow */
#define TAKEN_BACK 0x1p-8 /* of an operand is left where the last eight bits were taken back */

static bool is_cast(const struct vm_instr *in)
{
	return in->op == OP_MAP && in->map_op < 0 && in->nsrc == 1 && in->ndst == 1;
}

/* Everything that a value is made of, as far as instructions say: loads end it. */
static void ancestors_find(const struct vm_program *p, int value, bool *is_ancestor)
{
	bool changed = true;
	is_ancestor[value] = true;
	for (int round = 0; changed && round < STEPS_MAX; round++) {
		changed = false;
		for (int i = p->ninstrs - 1; i >= 0; i--) {
			const struct vm_instr *in = &p->instrs[i];
			bool makes = false;
			for (int d = 0; d < in->ndst; d++) makes |= is_ancestor[dst_id(p, in, d)];
			if (!makes || in->op == OP_LOAD || in->op == OP_MOVE) continue;
			for (int s = 0; s < in->nsrc; s++) {
				changed |= !is_ancestor[src_id(p, in, s)];
				is_ancestor[src_id(p, in, s)] = true;
			}
		}
	}
}

bool vm_has_rest(const struct vm_program *p, int value, const bool *is_data)
{
	bool *later = xcalloc((size_t)p->nvalues + 1, sizeof *later),
		 *other = xcalloc((size_t)p->nvalues + 1, sizeof *other);
	bool *is_ancestor = xcalloc((size_t)p->nvalues + 1, sizeof *is_ancestor), found = false;
	ancestors_find(p, value, is_ancestor);
	vm_reaches_memory(p, value, later);
	/* A sum of something made of the value and something that the value was made of. */
	for (int i = 0; i < p->ninstrs && !found; i++) {
		const struct vm_instr *in = &p->instrs[i];
		if (in->op != OP_MAP || !elem_is_wide(in->elem)) continue;
		if (in->map_op != MAP_SUBF && in->map_op != MAP_ADDF && in->map_op != MAP_FMA) continue;
		bool has_later = false, has_origin = false;
		for (int s = 0; s < in->nsrc; s++) {
			int id = src_id(p, in, s);
			has_later |= later[id];
			has_origin |= !later[id] && is_ancestor[id] && is_data[id];
		}
		found = has_later && has_origin && vm_reaches_memory(p, dst_id(p, in, 0), other);
	}
	free(later);
	free(other);
	free(is_ancestor);
	return found;
}

/* ---- what is watched ---- */

static bool is_map(const struct vm_instr *in, int op) { return in && in->op == OP_MAP && in->map_op == op; }

/* (b + a) - a, (b + constant) + constant and c - (c - b), which all stand for b. */
static bool is_there_and_back(const struct vm_program *p, const struct vm_instr *in, const bool *is_data)
{
	if (!is_map(in, MAP_SUBF) && !is_map(in, MAP_ADDF)) return false;
	int a = src_id(p, in, 0), b = src_id(p, in, 1);
	const struct vm_instr *left = vm_first_maker_of(p, a), *right = vm_first_maker_of(p, b);
	bool is_sum = is_map(left, MAP_ADDF) || is_map(left, MAP_SUBF) || is_map(left, MAP_FMA);
	if (is_sum && !is_data[b]) return true;
	if (is_map(in, MAP_ADDF)) return (is_map(right, MAP_ADDF) || is_map(right, MAP_SUBF)) && !is_data[a];
	if (is_map(left, MAP_ADDF) && (src_id(p, left, 0) == b || src_id(p, left, 1) == b)) return true;
	return is_map(right, MAP_SUBF) && src_id(p, right, 0) == a;
}

bool vm_digits_sum_of_data(const struct vm_program *p, const struct vm_instr *in, const bool *is_data)
{
	if (!is_map(in, MAP_SUBF) && !is_map(in, MAP_ADDF)) return false;
	for (int i = 0; i < 2; i++) {
		const struct vm_instr *sum = vm_first_maker_of(p, src_id(p, in, i));
		if (is_data[src_id(p, in, 1 - i)] || (!is_map(sum, MAP_ADDF) && !is_map(sum, MAP_SUBF))) continue;
		if (is_data[src_id(p, sum, 0)] && is_data[src_id(p, sum, 1)]) return true;
	}
	return false;
}

static bool is_rounding(const struct vm_instr *in)
{
	switch (in->op == OP_MAP ? in->map_op : -1) {
	case MAP_FLOOR:
	case MAP_CEIL:
	case MAP_TRUNC:
	case MAP_ROUND:
	case MAP_ROUNDEVEN: return true;
	default: return false;
	}
}

/* Whether an instruction may take digits from data. from_float: what was a float's
 * value or pattern before. */
static bool may_lose(const struct vm_program *p, const struct vm_instr *in, const bool *is_data, const bool *from_float)
{
	if (in->ndst < 1 || !elem_is_wide(p->values[dst_id(p, in, 0)].elem)) return false;
	bool any = false;
	for (int s = 0; s < in->nsrc; s++) any |= is_data[src_id(p, in, s)];
	if (!any) return false;
	if (in->op == OP_BITCAST || in->op == OP_INLINE_ASM) return true;
	if (is_cast(in) && elem_is_int((enum elem)in->elem)) return in->elem != ELEM_I1 && from_float[src_id(p, in, 0)];
	if (is_cast(in)) return in->elem == ELEM_F64 && in->result_elem == ELEM_F32;
	return is_rounding(in) || is_there_and_back(p, in, is_data);
}

int vm_digits_find(const struct vm_program *p, const bool *is_data, int32_t *out)
{
	bool *from_float = xcalloc((size_t)p->nvalues + 1, sizeof *from_float);
	bool *marked = xcalloc((size_t)p->nvalues + 1, sizeof *marked);
	int n = 0;
	for (int i = 0; i < p->ninstrs; i++) {
		const struct vm_instr *in = &p->instrs[i];
		bool to_int = (is_cast(in) || in->op == OP_BITCAST) && elem_is_wide(in->elem) &&
			elem_is_int((enum elem)in->result_elem) && in->result_elem != ELEM_I1;
		if (to_int && is_data[src_id(p, in, 0)]) from_float[dst_id(p, in, 0)] = true;
	}
	vm_flow_forward(p, from_float);
	for (int i = 0; i < p->ninstrs; i++) {
		const struct vm_instr *in = &p->instrs[i];
		if (!may_lose(p, in, is_data, from_float) || !vm_reaches_memory(p, dst_id(p, in, 0), marked)) continue;
		if (!vm_has_rest(p, dst_id(p, in, 0), is_data)) out[n++] = i;
	}
	free(from_float);
	free(marked);
	return n;
}

/* ---- while a trial runs ---- */

/* A number's last digits and its leading ones; false where it has none: zero, infinity, NaN. */
static bool digits_of(enum elem e, const uint8_t *at, uint64_t *last, uint32_t *leading)
{
	if (e == ELEM_F32) {
		uint32_t bits;
		memcpy(&bits, at, sizeof bits);
		*last = bits & 0xff;
		*leading = bits >> 8 & 0x7fff;
		return (bits & 0x7fffffff) && (bits & 0x7f800000) != 0x7f800000;
	}
	uint64_t bits;
	memcpy(&bits, at, sizeof bits);
	*last = bits & 0xfffffffffull; /* an fp32 number has 29 zeros there: half of its digits are missed */
	*leading = (uint32_t)(bits >> 37) & 0x7fff;
	return (bits & INT64_MAX) && (bits >> 52 & 0x7ff) != 0x7ff;
}

void vm_digits_operands(struct vm_ctx *c, const struct vm_instr *in, struct vm_site *s)
{
	struct vm_reader r[2];
	int64_t n = in->n ? in->n : c->lanes;
	if (!vm_reader_make(c, in, 0, n, &r[0]) || !vm_reader_make(c, in, 1, n, &r[1])) return;
	if (r[0].is_splat && r[1].is_splat) n = 1;
	n = MIN(n, LANES_MAX - s->lanes_now);
	for (int64_t at = 0; at < n; at += VM_STRIP) {
		int64_t m = MIN(n - at, VM_STRIP);
		const double *x = vm_reader_strip(&r[0], at, m), *y = vm_reader_strip(&r[1], at, m);
		for (int64_t i = 0; i < m; i++) {
			double left = in->map_op == MAP_SUBF ? x[i] - y[i] : x[i] + y[i];
			s->taken_back += left != 0 && fabs(left) <= TAKEN_BACK * fabs(x[i]);
		}
	}
}

void vm_digits_step(struct vm_ctx *c, const struct vm_instr *in, struct vm_site *s)
{
	if (s->lanes_now >= LANES_MAX || s->kept >= KEPT_ENOUGH) return;
	int id = vm_dst(c, in, 0);
	const struct vm_value *v = &c->values[id];
	enum elem e = c->program->values[id].elem;
	bool is_splat = v->form == FORM_SPLAT;
	int64_t n = is_splat ? 1 : in->n ? in->n : c->lanes;
	const uint8_t *data = is_splat ? v->splat : vm_dense(c, in, id, n);
	if (!data) return;
	for (int64_t i = 0; i < n && s->lanes_now < LANES_MAX; i++) {
		uint64_t last;
		uint32_t leading;
		if (!digits_of(e, data + (size_t)i * elem_bytes(e), &last, &leading)) continue;
		/* The first that comes twice in a row is what zeros give: padding
		 * says nothing of digits. */
		uint64_t value = 0;
		memcpy(&value, data + (size_t)i * elem_bytes(e), elem_bytes(e));
		if (value == s->former && !s->repeated) s->repeated = value;
		s->former = value;
		if (value == s->repeated) continue;
		if (!s->lanes) s->last = last;
		s->lanes++;
		s->lanes_now++;
		s->same += last == s->last;
		s->kept += last != s->last && last;
		s->leading |= 1ull << (leading * 0x9e3779b1u >> 26);
	}
	bool is_lost = s->lanes >= LANES_MIN && __builtin_popcountll(s->leading) >= DIFFERENT_MIN &&
		s->kept * LOST_SHARE < s->lanes;
	/* A difference of data, x - y, has few digits where the two are near each other, and none were
	 * rounded away: it is exact. A constant beside it takes digits only
	 * where it is near it, too. */
	if (s->is_beside_data) is_lost &= s->taken_back * LOST_SHARE >= s->lanes;
	s->taken = is_lost ? SIDE_ABOVE : 0;
}
