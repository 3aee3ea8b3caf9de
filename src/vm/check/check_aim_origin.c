/* check_aim_origin: the element of an input that a lane was made of, through operations and through
 * what launches stored. */
#include "vm/check/check_aim.h"
#include "base/base.h"
#include "tape/tape.h"
#include "ttir/ttir.h"
#include "vm/core/program.h"
#include "vm/core/state.h"
#include <math.h>
#include <stdlib.h>

#define LOTS 4            /* lanes of a row that are asked for an origin by lot, before all are */

void aim_memory_clear(struct aim_memory *m)
{
	free(m->address);
	free(m->origin);
	*m = (struct aim_memory){.n = 0};
}

/* One of several operands' origins for each lane. */
uint64_t aim_origin_of(const struct vm_aim *a, const struct vm_instr *in, int first, int count, int64_t lane)
{
	uint64_t out = 0;
	for (int i = 0, found = 0; i < count; i++) {
		uint64_t o = aim_origin_at(&a->shadows[aim_src(a, in, first + i)], lane);
		if (o && aim_draw(a, in, lane, i) % (uint64_t)++found == 0) out = o;
	}
	return out;
}

void aim_origins_map(const struct vm_aim *a, const struct vm_instr *in, struct aim_shadow *to)
{
	bool any = false;
	for (int i = 0; i < in->nsrc; i++) any |= a->shadows[aim_src(a, in, i)].origin != NULL;
	if (!any) return;
	to->origin = xcalloc((size_t)to->n, sizeof *to->origin);
	for (int64_t i = 0; i < to->n; i++) to->origin[i] = aim_origin_of(a, in, 0, in->nsrc, i);
}

static int64_t memory_slot(const struct aim_memory *m, uint64_t address)
{
	int64_t at = (int64_t)(aim_mix(address) & (uint64_t)(m->cap - 1));
	while (m->address[at] && m->address[at] != address) at = (at + 1) & (m->cap - 1);
	return at;
}

static void memory_put(struct aim_memory *m, uint64_t address, uint64_t origin)
{
	if (m->n == MEMORY_MAX) return;
	if (2 * m->n >= m->cap) {
		struct aim_memory more = {.cap = MAX(2 * m->cap, 1024)};
		more.address = xcalloc((size_t)more.cap, sizeof *more.address);
		more.origin = xcalloc((size_t)more.cap, sizeof *more.origin);
		for (int64_t i = 0; i < m->cap; i++)
			if (m->address[i]) memory_put(&more, m->address[i], m->origin[i]);
		aim_memory_clear(m);
		*m = more;
	}
	int64_t at = memory_slot(m, address);
	m->n += m->address[at] == 0;
	m->address[at] = address;
	m->origin[at] = origin;
}

/* An address of the running launch as the tape's; 0: in no buffer of it. */
static uint64_t tape_address(const struct vm_aim *a, uint64_t address)
{
	for (int b = 0; b < a->nbuffers; b++)
		if (a->launched[b] >> TAPE_ADDRESS_SHIFT == address >> TAPE_ADDRESS_SHIFT)
			return a->on_tape[b] + (address - a->launched[b]);
	return 0;
}

/* Lanes of an access: their addresses and which of them happen. */
struct lanes {
	const int64_t *address;
	const uint8_t *mask; /* NULL: all */
	int64_t step;
	int64_t mask_step;
};

static bool lanes_get(struct vm_ctx *c, const struct vm_instr *in, int mask, int64_t n, struct lanes *out)
{
	const struct vm_value *v = &c->values[aim_src(c->aim, in, 0)];
	*out = (struct lanes){.step = v->form != FORM_SPLAT};
	out->address = out->step ? vm_dense(c, in, aim_src(c->aim, in, 0), n) : &v->splat_int;
	if (!out->address || in->nsrc <= mask) return out->address != NULL;
	const struct vm_value *m = &c->values[aim_src(c->aim, in, mask)];
	out->mask_step = m->form != FORM_SPLAT;
	out->mask = out->mask_step ? vm_dense(c, in, aim_src(c->aim, in, mask), n) : m->splat;
	return out->mask != NULL;
}

/* What is stored keeps where it came from. */
void aim_origins_store(struct vm_ctx *c, const struct vm_instr *in)
{
	struct vm_aim *a = c->aim;
	const struct aim_shadow *s = &a->shadows[aim_src(a, in, 1)];
	int64_t n = a->p->values[aim_src(a, in, 0)].count;
	struct lanes x;
	if (!s->origin || !lanes_get(c, in, 2, n, &x)) return;
	for (int64_t i = 0; i < n; i++) {
		if (x.mask && !x.mask[i * x.mask_step]) continue;
		uint64_t to = tape_address(a, (uint64_t)x.address[i * x.step]), origin = aim_origin_at(s, i);
		/* A sum in memory is made of what was there as well. */
		bool keeps = in->op == OP_ATOMIC_RMW && a->memory.cap && (aim_draw(a, in, i, 4) & 1) &&
			a->memory.address[memory_slot(&a->memory, to)] == to;
		if (to && origin && !keeps) memory_put(&a->memory, to, origin);
	}
}

uint64_t aim_origin_stored(const struct vm_aim *a, uint64_t address, enum elem e)
{
	const struct aim_memory *m = &a->memory;
	uint64_t from = tape_address(a, address);
	int64_t at = m->cap ? memory_slot(m, from) : 0;
	if (from && m->cap && m->address[at] == from) return m->origin[at];
	return from ? from | (uint64_t)(e + 1) << ELEM_SHIFT : 0;
}

void aim_origins_load(struct vm_ctx *c, const struct vm_instr *in, struct aim_shadow *to)
{
	const struct vm_aim *a = c->aim;
	struct lanes x;
	if (!lanes_get(c, in, 1, to->n, &x)) return;
	to->origin = xcalloc((size_t)to->n, sizeof *to->origin);
	for (int64_t i = 0; i < to->n; i++) {
		if (x.mask && !x.mask[i * x.mask_step]) continue;
		to->origin[i] = aim_origin_stored(a, (uint64_t)x.address[i * x.step], (enum elem)in->result_elem);
	}
}

/* A lane of a row, by lot, that has an origin. */
static uint64_t origin_of_row(
	const struct vm_aim *a, const struct vm_instr *in, const uint64_t *row, int64_t len, int64_t step, int64_t lane)
{
	uint64_t out = 0;
	for (int i = 0; i < LOTS && !out; i++) out = row[(int64_t)(aim_draw(a, in, lane, i) % (uint64_t)len) * step];
	for (int64_t i = 0; i < len && !out; i++) out = row[i * step];
	return out;
}

/* Which of the kinds of a lot a lane has: the lot's last byte goes through them. */
static uint64_t kind_of_lot(const struct vm_aim *a, int64_t lane)
{
	return (a->lot & 0xff) + aim_mix((uint64_t)(a->program + lane));
}

/* Of a row of bits the one that is easiest to turn, to true or to false; -1: none. */
static int64_t bit_nearest(const double *far, int64_t len, int64_t step, bool to_true)
{
	int64_t best = -1;
	for (int64_t j = 0; j < len; j++) {
		double own = to_true ? far[j * step] : -far[j * step];
		bool is_open = to_true ? own > 0 : own >= 0;
		if (is_open && (best < 0 || own < fabs(far[best * step]))) best = j;
	}
	return best;
}

/* One element of a row that is reduced. Its smallest and its largest, of which a minimum, a maximum
 * and the place of it hang on; one at a place that the text names; or any: the lot's last byte goes
 * through them. */
static uint64_t origin_reduced(const struct vm_aim *a, const struct vm_instr *in, const uint64_t *row,
	const double *values, int64_t len, int64_t step, int64_t lane)
{
	uint64_t way = kind_of_lot(a, lane);
	double sign = way % 4 == 0 ? 1 : -1;
	int64_t best = -1;
	for (int64_t j = 0; j < len && values && way % 4 < 2; j++)
		if (row[j * step] && (best < 0 || sign * values[j * step] > sign * values[best * step])) best = j;
	const struct aim_kernel *f = &a->kernels[a->running];
	if (way % 4 == 2 && f->nnamed) best = f->named[aim_draw(a, in, lane, 6) % (uint64_t)f->nnamed];
	bool is_found = best >= 0 && best < len && row[best * step];
	return is_found ? row[best * step] : origin_of_row(a, in, row, len, step, lane);
}

/* A block as doubles, heap; NULL after a fault. */
static double *numbers_of(struct vm_ctx *c, const struct vm_instr *in, int operand, int64_t n)
{
	struct vm_reader r;
	if (!vm_reader_make(c, in, operand, n, &r)) return NULL;
	double *out = xmalloc((size_t)n * sizeof *out);
	for (int64_t at = 0; at < n; at += VM_STRIP) {
		int64_t m = MIN(n - at, VM_STRIP);
		memcpy(out + at, vm_reader_strip(&r, at, m), (size_t)m * sizeof *out);
	}
	return out;
}

void aim_shadow_reduce(struct vm_ctx *c, const struct vm_instr *in, int operand, struct aim_shadow *to)
{
	const struct vm_aim *a = c->aim;
	const struct region_shape *r = in->extra;
	const struct aim_shadow *from = &a->shadows[aim_src(a, in, operand)];
	/* Places come of the values that stand there. */
	for (int i = 0; i < in->nsrc && !from->origin; i++) from = &a->shadows[aim_src(a, in, i)];
	int64_t n = r->outer * r->len * r->inner;
	/* One lane for all is its own result. */
	if (from->n != n) {
		aim_shadow_copy(to, from, 0, 0);
		return;
	}
	double *values = from->origin ? numbers_of(c, in, 0, n) : NULL;
	if (from->far) to->far = xcalloc((size_t)to->n, sizeof *to->far);
	if (from->origin) to->origin = xcalloc((size_t)to->n, sizeof *to->origin);
	for (int64_t o = 0; o < to->n; o++) {
		int64_t first = o / r->inner * r->len * r->inner + o % r->inner;
		/* Of bits the one that is easiest to turn: it is what is followed, too. A count may have
		 * to fall as well. */
		int64_t best = from->far ? bit_nearest(from->far + first, r->len, r->inner, true) : -1;
		if (from->far) to->far[o] = best < 0 ? -INFINITY : from->far[first + best * r->inner];
		bool falls = from->far && from->origin && kind_of_lot(a, o) % 4 == 3;
		if (falls) best = bit_nearest(from->far + first, r->len, r->inner, false);
		bool is_bit = from->origin && best >= 0 && from->origin[first + best * r->inner];
		if (is_bit) to->origin[o] = from->origin[first + best * r->inner];
		else if (from->origin)
			to->origin[o] = origin_reduced(
				a, in, from->origin + first, values ? values + first : NULL, r->len, r->inner, o);
	}
	free(values);
}

/* Of a product: an element of the row or of the column, by lot. */
void aim_origins_dot(const struct vm_aim *a, const struct vm_instr *in, struct aim_shadow *to)
{
	int64_t batch = in->imm[0], m = in->imm[1], n = in->imm[2], k = in->imm[3];
	const struct aim_shadow *x = &a->shadows[aim_src(a, in, 0)], *y = &a->shadows[aim_src(a, in, 1)];
	bool has_x = x->origin && x->n == batch * m * k, has_y = y->origin && y->n == batch * k * n;
	if ((!has_x && !has_y) || to->n != batch * m * n) return;
	to->origin = xcalloc((size_t)to->n, sizeof *to->origin);
	for (int64_t i = 0; i < to->n; i++) {
		int64_t b = i / (m * n), row = i / n % m, column = i % n;
		bool is_x = has_x && (!has_y || aim_draw(a, in, i, 7) & 1);
		to->origin[i] = is_x ? origin_of_row(a, in, x->origin + (b * m + row) * k, k, 1, i)
							 : origin_of_row(a, in, y->origin + b * k * n + column, k, n, i);
	}
}

/* What is not known lane by lane: any element of the first operand that has one. */
void aim_origins_any(const struct vm_aim *a, const struct vm_instr *in, struct aim_shadow *to)
{
	for (int s = 0; s < in->nsrc && !to->origin; s++) {
		const struct aim_shadow *from = &a->shadows[aim_src(a, in, s)];
		if (!from->origin) continue;
		to->origin = xcalloc((size_t)to->n, sizeof *to->origin);
		for (int64_t i = 0; i < to->n; i++) to->origin[i] = origin_of_row(a, in, from->origin, from->n, 1, i);
	}
}

void aim_origins_pair(const struct vm_aim *a, const struct vm_instr *in, struct aim_shadow *to)
{
	const struct aim_shadow *x = &a->shadows[aim_src(a, in, 0)], *y = &a->shadows[aim_src(a, in, 1)];
	to->origin = xcalloc((size_t)to->n, sizeof *to->origin);
	for (int64_t i = 0; i < to->n; i++)
		to->origin[i] = in->op == OP_JOIN ? aim_origin_at(i % 2 ? y : x, i / 2)
			: i < to->n / 2               ? aim_origin_at(x, i)
										  : aim_origin_at(y, i - to->n / 2);
}
