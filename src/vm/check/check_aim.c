/* Aim: for one site and one of its sides, how far each lane is from it, and one loaded element that
 * the lane was computed from.
 *
 * Beside the values that lead to the site run shadows of two kinds. An *origin* is the address of
 * one element that a lane was made of: a load is its own, and where an operation has several
 * operands, or a reduction many lanes, a lot says which is kept; another lot keeps another. *Far*
 * belongs to bits: how much the operands of a comparison would have to change for the bit to be the
 * other (Korel 1990); it is above 0 where the bit is false. `and` adds what its false sides lack,
 * `or` takes the nearest, a cast to a number keeps it, and a sum or maximum of such numbers has
 * that of the lane which is easiest to turn. So a mask made of several comparisons has a slope that
 * a search can descend, where its value has two steps.
 *
 * Origins go through memory as well: what a launch stored has the origin of what was stored, so a
 * kernel may look at what an earlier one made. What leads through branches is not followed: a
 * branch is a site of its own. */
#include "vm/check/check.h"
#include "base/base.h"
#include "tape/tape.h"
#include "ttir/ttir.h"
#include "vm/core/program.h"
#include "vm/core/state.h"
#include "vm/map/map.h"
#include "vm/vm.h"
#include <math.h>
#include <stdlib.h>

#define LITTLE 1e-300     /* of a strict order, where the operands are equal */
#define ELEM_SHIFT 56     /* an origin has its element's type above the address */
#define AIM_KERNELS_MAX 16
#define NAMED_MAX 16
#define WEIGHT 16.0
#define MEMORY_MAX ((int64_t)1 << 22)
#define LOTS 4            /* lanes of a row that are asked for an origin by lot, before all are */

struct shadow {
	int64_t n;        /* lanes; 1: one for all */
	uint64_t *origin; /* (n); NULL: none has one */
	double *far;      /* (n); NULL: not known */
};
/* One kernel's part: the aim's own, or one whose stores are followed. */
struct followed {
	const struct vm_program *p;
	bool *is_needed;          // (nvalues): the site's operands come of it
	bool *is_drawn;           // (nvalues): or what is stored does
	struct shadow *shadows;   // (nvalues)
	int nnamed;
	int64_t named[NAMED_MAX]; /* whole numbers of the text that may be places */
};
/* Open hash from an address of the tape to the origin of what was stored there. */
struct memory {
	int64_t n;
	int64_t cap; /* a power of two */
	uint64_t *address;
	uint64_t *origin;
};
struct vm_aim {
	const struct vm_program *p; /* of the running launch; likewise the next two */
	bool *is_needed;
	struct shadow *shadows;
	int running; /* which of these kernels */
	int nkernels;
	struct followed kernels[AIM_KERNELS_MAX]; /* the first is the site's */
	struct memory memory;
	int nbuffers;             /* of the running launch */
	const uint64_t *launched; /* (nbuffers): their addresses there, and on the tape */
	const uint64_t *on_tape;
	int instr; /* the site's */
	enum vm_site_kind kind;
	int operand; /* of a truth: its bits */
	enum vm_side side;
	uint64_t lot;
	uint64_t weights; /* the last lot, until the next; 0: all sides of a mask count alike */
	int choose;
	int64_t met; /* lanes that could be chosen so far */
	int row;
	int64_t program;
	int64_t turn;
	int nlanes;
	int cursor; /* the next lane that is looked for */
	struct vm_aim_lane *lanes;
};

static int src_of(const struct vm_aim *a, const struct vm_instr *in, int i) { return a->p->ids[in->src + i]; }
static int dst_of(const struct vm_aim *a, const struct vm_instr *in, int i) { return a->p->ids[in->dst + i]; }

/* ---- making ---- */

static bool needed_step(const struct vm_program *p, const struct vm_instr *in, bool *is_needed)
{
	bool any = false, changed = false;
	for (int d = 0; d < in->ndst; d++) any |= is_needed[p->ids[in->dst + d]];
	for (int s = 0; any && s < in->nsrc; s++) {
		/* A loop's values move each to its own place; elsewhere every operand is
		 * part of every result. */
		if (in->op == OP_MOVE && !is_needed[p->ids[in->dst + s]]) continue;
		changed |= !is_needed[p->ids[in->src + s]];
		is_needed[p->ids[in->src + s]] = true;
	}
	return changed;
}

/* All that what is marked comes of. */
static void needed_close(const struct vm_program *p, bool *is_needed)
{
	for (bool changed = true; changed;) {
		changed = false;
		for (int i = p->ninstrs - 1; i >= 0; i--) changed |= needed_step(p, &p->instrs[i], is_needed);
	}
}

static bool is_store(const struct vm_instr *in) { return in->op == OP_STORE || in->op == OP_ATOMIC_RMW; }

static void named_find(struct followed *f)
{
	for (int i = 0; i < f->p->nconsts && f->nnamed < NAMED_MAX; i++) {
		const struct vm_const *k = &f->p->consts[i];
		enum elem e = f->p->values[k->value].elem;
		if (k->data || (e != ELEM_I32 && e != ELEM_I64)) continue;
		int64_t v = vm_int_at(e, k->bits, 0);
		if (v > 1) f->named[f->nnamed++] = v;
	}
}

/* A kernel's part, made when it is first launched; NULL: there is no room. */
static struct followed *followed_of(struct vm_aim *a, const struct vm_program *p)
{
	for (int i = 0; i < a->nkernels; i++)
		if (a->kernels[i].p == p) return &a->kernels[i];
	if (a->nkernels == AIM_KERNELS_MAX) return NULL;
	struct followed *f = &a->kernels[a->nkernels++];
	*f = (struct followed){.p = p};
	f->is_needed = xcalloc((size_t)p->nvalues + 1, sizeof *f->is_needed);
	f->is_drawn = xcalloc((size_t)p->nvalues + 1, sizeof *f->is_drawn);
	f->shadows = xcalloc((size_t)p->nvalues + 1, sizeof *f->shadows);
	/* The first one has the site, whose operands come after its values are marked. */
	const struct vm_instr *in = &p->instrs[a->instr];
	bool is_truth = a->kind == SITE_SELECT || a->kind == SITE_MASK || a->kind == SITE_BRANCH;
	for (int i = is_truth ? a->operand : 0; a->nkernels == 1 && i < (is_truth ? a->operand + 1 : in->nsrc); i++)
		f->is_needed[p->ids[in->src + i]] = f->is_drawn[p->ids[in->src + i]] = true;
	for (int i = 0; i < p->ninstrs; i++)
		if (is_store(&p->instrs[i])) f->is_drawn[p->ids[p->instrs[i].src + 1]] = true;
	named_find(f);
	needed_close(p, f->is_needed);
	needed_close(p, f->is_drawn);
	return f;
}

struct vm_aim *vm_aim_create(const struct vm_kernel *k, const struct vm_coverage *c, int site, enum vm_side side)
{
	const struct vm_program *p = &k->program;
	const struct vm_site *s = site >= 0 && site < c->nsites ? &c->sites[site] : NULL;
	int instr = -1;
	for (int i = 0; s && i < p->ninstrs; i++)
		if (c->at[i] == site) instr = i;
	bool is_known = s && instr >= 0 && s->kind != SITE_END && s->kind != SITE_SIGN && s->kind != SITE_DIGITS;
	if (!is_known || (s->kind != SITE_COMPARE && side == SIDE_EQUAL)) return NULL;
	struct vm_aim *a = xcalloc(1, sizeof *a);
	bool is_truth = s->kind == SITE_SELECT || s->kind == SITE_MASK || s->kind == SITE_BRANCH;
	*a = (struct vm_aim){.instr = instr, .kind = s->kind, .operand = is_truth ? (int)s->constant : 0, .side = side};
	followed_of(a, p);
	return a;
}

static void shadow_drop(struct shadow *s)
{
	free(s->origin);
	free(s->far);
	*s = (struct shadow){.n = 0};
}

static void shadows_clear(struct followed *f)
{
	for (int i = 0; i < f->p->nvalues; i++) shadow_drop(&f->shadows[i]);
}

static void memory_clear(struct memory *m)
{
	free(m->address);
	free(m->origin);
	*m = (struct memory){.n = 0};
}

void vm_aim_free(struct vm_aim *a)
{
	if (!a) return;
	for (int i = 0; i < a->nkernels; i++) {
		shadows_clear(&a->kernels[i]);
		free(a->kernels[i].is_needed);
		free(a->kernels[i].is_drawn);
		free(a->kernels[i].shadows);
	}
	memory_clear(&a->memory);
	free(a->lanes);
	free(a);
}

void vm_aim_begin(struct vm_aim *a, uint64_t lot, int choose)
{
	a->lot = lot;
	if (lot) a->weights = (lot & 0xff) > 1 ? lot : 0;
	a->choose = choose;
	a->met = 0;
	a->cursor = 0;
	memory_clear(&a->memory);
	if (choose) {
		a->lanes = xrealloc(a->lanes, size_mul((size_t)choose, sizeof *a->lanes));
		a->nlanes = 0;
	}
	for (int i = 0; i < a->nlanes; i++) {
		a->lanes[i].far = INFINITY;
		if (lot) a->lanes[i].address = 0;
	}
}

bool vm_aim_row(struct vm_aim *a, const struct vm_kernel *k, int row, const uint64_t *launched, const uint64_t *on_tape,
	int nbuffers)
{
	/* Others than the site's matter for what they store. */
	struct followed *f = a->lot || a->kernels[0].p == &k->program ? followed_of(a, &k->program) : NULL;
	if (!f) return false;
	a->row = row;
	a->p = f->p;
	a->running = (int)(f - a->kernels);
	a->is_needed = a->lot ? f->is_drawn : f->is_needed;
	a->shadows = f->shadows;
	a->launched = launched;
	a->on_tape = on_tape;
	a->nbuffers = nbuffers;
	shadows_clear(f);
	return true;
}

void vm_aim_program(struct vm_aim *a, int64_t number)
{
	a->program = number;
	a->turn = 0;
}

static int by_place(const void *x, const void *y)
{
	const struct vm_aim_lane *a = x, *b = y;
	if (a->row != b->row) return a->row < b->row ? -1 : 1;
	if (a->program != b->program) return a->program < b->program ? -1 : 1;
	if (a->turn != b->turn) return a->turn < b->turn ? -1 : 1;
	return a->lane < b->lane ? -1 : a->lane > b->lane;
}

struct vm_aim_lane *vm_aim_lanes(struct vm_aim *a, int *n)
{
	if (a->choose) qsort(a->lanes, (size_t)a->nlanes, sizeof *a->lanes, by_place);
	*n = a->nlanes;
	return a->lanes;
}

/* ---- origins ---- */

static uint64_t mix(uint64_t x)
{
	x = (x ^ (x >> 31)) * 0x9e3779b97f4a7c15u;
	x = (x ^ (x >> 29)) * 0xbf58476d1ce4e5b9u;
	return x ^ (x >> 32);
}
static uint64_t draw(const struct vm_aim *a, const struct vm_instr *in, int64_t lane, int number)
{
	uint64_t place = mix((uint64_t)(in - a->p->instrs) * 8 + (uint64_t)number) + mix((uint64_t)a->program);
	return mix(a->lot + place + (uint64_t)lane * 0x632be59bd9b4e019u);
}

static uint64_t origin_at(const struct shadow *s, int64_t i) { return !s->origin ? 0 : s->origin[s->n == 1 ? 0 : i]; }
static double far_at(const struct shadow *s, int64_t i) { return s->far[s->n == 1 ? 0 : i]; }

/* One of several operands' origins for each lane. */
static uint64_t origin_of(const struct vm_aim *a, const struct vm_instr *in, int first, int count, int64_t lane)
{
	uint64_t out = 0;
	for (int i = 0, found = 0; i < count; i++) {
		uint64_t o = origin_at(&a->shadows[src_of(a, in, first + i)], lane);
		if (o && draw(a, in, lane, i) % (uint64_t)++found == 0) out = o;
	}
	return out;
}

static void origins_map(const struct vm_aim *a, const struct vm_instr *in, struct shadow *to)
{
	bool any = false;
	for (int i = 0; i < in->nsrc; i++) any |= a->shadows[src_of(a, in, i)].origin != NULL;
	if (!any) return;
	to->origin = xcalloc((size_t)to->n, sizeof *to->origin);
	for (int64_t i = 0; i < to->n; i++) to->origin[i] = origin_of(a, in, 0, in->nsrc, i);
}

static int64_t memory_slot(const struct memory *m, uint64_t address)
{
	int64_t at = (int64_t)(mix(address) & (uint64_t)(m->cap - 1));
	while (m->address[at] && m->address[at] != address) at = (at + 1) & (m->cap - 1);
	return at;
}

static void memory_put(struct memory *m, uint64_t address, uint64_t origin)
{
	if (m->n == MEMORY_MAX) return;
	if (2 * m->n >= m->cap) {
		struct memory more = {.cap = MAX(2 * m->cap, 1024)};
		more.address = xcalloc((size_t)more.cap, sizeof *more.address);
		more.origin = xcalloc((size_t)more.cap, sizeof *more.origin);
		for (int64_t i = 0; i < m->cap; i++)
			if (m->address[i]) memory_put(&more, m->address[i], m->origin[i]);
		memory_clear(m);
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
	const struct vm_value *v = &c->values[src_of(c->aim, in, 0)];
	*out = (struct lanes){.step = v->form != FORM_SPLAT};
	out->address = out->step ? vm_dense(c, in, src_of(c->aim, in, 0), n) : &v->splat_int;
	if (!out->address || in->nsrc <= mask) return out->address != NULL;
	const struct vm_value *m = &c->values[src_of(c->aim, in, mask)];
	out->mask_step = m->form != FORM_SPLAT;
	out->mask = out->mask_step ? vm_dense(c, in, src_of(c->aim, in, mask), n) : m->splat;
	return out->mask != NULL;
}

/* What is stored keeps where it came from. */
static void origins_store(struct vm_ctx *c, const struct vm_instr *in)
{
	struct vm_aim *a = c->aim;
	const struct shadow *s = &a->shadows[src_of(a, in, 1)];
	int64_t n = a->p->values[src_of(a, in, 0)].count;
	struct lanes x;
	if (!s->origin || !lanes_get(c, in, 2, n, &x)) return;
	for (int64_t i = 0; i < n; i++) {
		if (x.mask && !x.mask[i * x.mask_step]) continue;
		uint64_t to = tape_address(a, (uint64_t)x.address[i * x.step]), origin = origin_at(s, i);
		if (to && origin) memory_put(&a->memory, to, origin);
	}
}

static void origins_load(struct vm_ctx *c, const struct vm_instr *in, struct shadow *to)
{
	const struct vm_aim *a = c->aim;
	const struct memory *m = &a->memory;
	struct lanes x;
	if (!lanes_get(c, in, 1, to->n, &x)) return;
	uint64_t elem = (uint64_t)(in->result_elem + 1) << ELEM_SHIFT;
	to->origin = xcalloc((size_t)to->n, sizeof *to->origin);
	for (int64_t i = 0; i < to->n; i++) {
		if (x.mask && !x.mask[i * x.mask_step]) continue;
		uint64_t from = tape_address(a, (uint64_t)x.address[i * x.step]);
		int64_t at = m->cap ? memory_slot(m, from) : 0;
		bool is_stored = from && m->cap && m->address[at] == from;
		to->origin[i] = is_stored ? m->origin[at] : from ? from | elem : 0;
	}
}

/* A lane of a row, by lot, that has an origin. */
static uint64_t origin_of_row(
	const struct vm_aim *a, const struct vm_instr *in, const uint64_t *row, int64_t len, int64_t step, int64_t lane)
{
	uint64_t out = 0;
	for (int i = 0; i < LOTS && !out; i++) out = row[(int64_t)(draw(a, in, lane, i) % (uint64_t)len) * step];
	for (int64_t i = 0; i < len && !out; i++) out = row[i * step];
	return out;
}

/* Lane i of the result is lane first + i * step of one operand. */
static void shadow_copy(struct shadow *to, const struct shadow *from, int64_t first, int64_t step)
{
	if (from->origin) {
		to->origin = xmalloc((size_t)to->n * sizeof *to->origin);
		for (int64_t i = 0; i < to->n; i++) to->origin[i] = origin_at(from, first + i * step);
	}
	if (!from->far) return;
	to->far = xmalloc((size_t)to->n * sizeof *to->far);
	for (int64_t i = 0; i < to->n; i++) to->far[i] = far_at(from, first + i * step);
}

/* One element of a row that is reduced. Its smallest and its largest, of which a minimum, a maximum
 * and the place of it hang on; one at a place that the text names; or any: the lot's last byte goes
 * through them. */
static uint64_t origin_reduced(const struct vm_aim *a, const struct vm_instr *in, const uint64_t *row,
	const double *values, int64_t len, int64_t step, int64_t lane)
{
	uint64_t way = (a->lot & 0xff) + mix((uint64_t)(a->program + lane));
	double sign = way % 4 == 0 ? 1 : -1;
	int64_t best = -1;
	for (int64_t j = 0; j < len && values && way % 4 < 2; j++)
		if (row[j * step] && (best < 0 || sign * values[j * step] > sign * values[best * step])) best = j;
	const struct followed *f = &a->kernels[a->running];
	if (way % 4 == 2 && f->nnamed) best = f->named[draw(a, in, lane, 6) % (uint64_t)f->nnamed];
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

static void shadow_reduce(struct vm_ctx *c, const struct vm_instr *in, int operand, struct shadow *to)
{
	const struct vm_aim *a = c->aim;
	const struct region_shape *r = in->extra;
	const struct shadow *from = &a->shadows[src_of(a, in, operand)];
	/* Places come of the values that stand there. */
	for (int i = 0; i < in->nsrc && !from->origin; i++) from = &a->shadows[src_of(a, in, i)];
	int64_t n = r->outer * r->len * r->inner;
	/* One lane for all is its own result. */
	if (from->n != n) {
		shadow_copy(to, from, 0, 0);
		return;
	}
	double *values = from->origin ? numbers_of(c, in, 0, n) : NULL;
	if (from->far) to->far = xcalloc((size_t)to->n, sizeof *to->far);
	if (from->origin) to->origin = xcalloc((size_t)to->n, sizeof *to->origin);
	for (int64_t o = 0; o < to->n; o++) {
		int64_t first = o / r->inner * r->len * r->inner + o % r->inner, best = -1;
		/* Of bits the one that is easiest to turn: it is what is followed, too. */
		for (int64_t j = 0; from->far && j < r->len; j++) {
			double far = from->far[first + j * r->inner];
			if (far > 0 && (best < 0 || far < from->far[first + best * r->inner])) best = j;
		}
		if (from->far) to->far[o] = best < 0 ? -INFINITY : from->far[first + best * r->inner];
		bool is_bit = from->origin && best >= 0 && from->origin[first + best * r->inner];
		if (is_bit) to->origin[o] = from->origin[first + best * r->inner];
		else if (from->origin)
			to->origin[o] = origin_reduced(
				a, in, from->origin + first, values ? values + first : NULL, r->len, r->inner, o);
	}
	free(values);
}

/* Of a product: an element of the row or of the column, by lot. */
static void origins_dot(const struct vm_aim *a, const struct vm_instr *in, struct shadow *to)
{
	int64_t batch = in->imm[0], m = in->imm[1], n = in->imm[2], k = in->imm[3];
	const struct shadow *x = &a->shadows[src_of(a, in, 0)], *y = &a->shadows[src_of(a, in, 1)];
	bool has_x = x->origin && x->n == batch * m * k, has_y = y->origin && y->n == batch * k * n;
	if ((!has_x && !has_y) || to->n != batch * m * n) return;
	to->origin = xcalloc((size_t)to->n, sizeof *to->origin);
	for (int64_t i = 0; i < to->n; i++) {
		int64_t b = i / (m * n), row = i / n % m, column = i % n;
		bool is_x = has_x && (!has_y || draw(a, in, i, 7) & 1);
		to->origin[i] = is_x ? origin_of_row(a, in, x->origin + (b * m + row) * k, k, 1, i)
							 : origin_of_row(a, in, y->origin + b * k * n + column, k, n, i);
	}
}

/* ---- how far bits are from turning ---- */

/* Of the orders `less`, `equal` and `greater` the nearest one that holds what is asked for. */
static double far_of_orders(double d, int orders)
{
	double in = INFINITY, out = INFINITY;
	const double to[3] = {d < 0 ? 0 : d + LITTLE, fabs(d), d > 0 ? 0 : LITTLE - d};
	if (isnan(d)) return INFINITY;
	for (int i = 0; i < 3; i++) {
		double *side = orders >> i & 1 ? &in : &out;
		*side = MIN(*side, to[i]);
	}
	return in == 0 ? -out : in;
}

/* A number that counts bits: one more of them is as near as the nearest of them is. */
static double far_of_count(double far, double d, int orders, double turn)
{
	bool needs_more = far > 0 && turn > 0 && ((d < 0 && orders & 6) || (d == 0 && orders == MAP_GREATER));
	return needs_more ? MAX(far, 1) - 1 + (isinf(turn) ? 1 : turn / (1 + turn)) : far;
}

static double far_and(double x, double y) { return x <= 0 && y <= 0 ? MAX(x, y) : MAX(x, 0) + MAX(y, 0); }
static double far_or(double x, double y) { return -far_and(-x, -y); }

/* The two operands of a comparison: their difference, an order's distance, and how bits differ. */
static bool compare_far(struct vm_ctx *c, const struct vm_instr *in, int orders, int64_t n, double *far, uint64_t *bits)
{
	struct vm_reader x, y;
	const struct shadow *count = &c->aim->shadows[src_of(c->aim, in, 0)];
	if (!vm_reader_make(c, in, 0, n, &x) || !vm_reader_make(c, in, 1, n, &y)) return false;
	bool is_int = elem_is_int((enum elem)in->elem);
	for (int64_t at = 0; at < n; at += VM_STRIP) {
		int64_t m = MIN(n - at, VM_STRIP);
		const double *p = vm_reader_strip(&x, at, m), *q = vm_reader_strip(&y, at, m);
		for (int64_t i = 0; i < m; i++) {
			far[at + i] = far_of_orders(p[i] - q[i], orders);
			if (count->far) far[at + i] = far_of_count(far[at + i], p[i] - q[i], orders, far_at(count, at + i));
			if (bits) bits[at + i] = is_int ? (uint64_t)(int64_t)p[i] ^ (uint64_t)(int64_t)q[i] : 0;
		}
	}
	return true;
}

/* Bits of an operand, by its shadow, or as they are where it has none. */
static bool bits_far(struct vm_ctx *c, const struct vm_instr *in, int operand, int64_t n, double *far)
{
	const struct shadow *s = &c->aim->shadows[src_of(c->aim, in, operand)];
	struct vm_reader r;
	for (int64_t i = 0; s->far && i < n; i++) far[i] = far_at(s, i);
	if (s->far) return true;
	if (!vm_reader_make(c, in, operand, n, &r)) return false;
	for (int64_t at = 0; at < n; at += VM_STRIP) {
		int64_t m = MIN(n - at, VM_STRIP);
		const double *x = vm_reader_strip(&r, at, m);
		for (int64_t i = 0; i < m; i++) far[at + i] = x[i] != 0 ? -INFINITY : INFINITY;
	}
	return true;
}

static bool is_compare(const struct vm_instr *in)
{
	return in->op == OP_MAP && in->map_op < 0 && in->nsrc == 2 && in->ndst == 1 && in->result_elem == ELEM_I1 &&
		in->elem != ELEM_I1;
}
static bool is_logic(const struct vm_instr *in)
{
	return in->op == OP_MAP && in->elem == ELEM_I1 &&
		(in->map_op == MAP_ANDI || in->map_op == MAP_ORI || in->map_op == MAP_XORI);
}

/* `and`, `or` and `xor` of bits, and a choice between two. Who is false is who is followed. */
static void logic_make(struct vm_ctx *c, const struct vm_instr *in, struct shadow *to)
{
	const struct vm_aim *a = c->aim;
	int first = in->op == OP_SELECT ? 1 : 0;
	double *x = xmalloc((size_t)to->n * sizeof *x), *y = xmalloc((size_t)to->n * sizeof *y),
		   *m = xcalloc((size_t)to->n, sizeof *m);
	bool is_made = bits_far(c, in, first, to->n, x) && bits_far(c, in, first + 1, to->n, y) &&
		(!first || bits_far(c, in, 0, to->n, m));
	if (is_made && a->lot) to->origin = xcalloc((size_t)to->n, sizeof *to->origin);
	for (int64_t i = 0; is_made && i < to->n; i++) {
		/* What one side gains by an element another may lose: by lot one of
		 * them counts for more. */
		uint64_t way = a->weights ? mix(a->weights + (uint64_t)(in - a->p->instrs) + mix((uint64_t)(a->program + i)))
								  : 0;
		if (way % 3 == 1) x[i] *= WEIGHT;
		if (way % 3 == 2) y[i] *= WEIGHT;
		double far = first           ? far_or(far_and(m[i], x[i]), far_and(-m[i], y[i]))
			: in->map_op == MAP_ANDI ? far_and(x[i], y[i])
			: in->map_op == MAP_ORI  ? far_or(x[i], y[i])
									 : far_or(far_and(x[i], -y[i]), far_and(-x[i], y[i]));
		bool is_one = !first && in->map_op == MAP_ANDI && (x[i] > 0) != (y[i] > 0);
		if (to->origin)
			to->origin[i] = is_one ? origin_of(a, in, x[i] > 0 ? 0 : 1, 1, i) : origin_of(a, in, 0, in->nsrc, i);
		x[i] = far;
	}
	if (is_made) to->far = x;
	else free(x);
	free(y);
	free(m);
}

/* A choice between a number and 0 counts its mask. */
static void far_of_choice(struct vm_ctx *c, const struct vm_instr *in, struct shadow *to)
{
	const struct vm_value *x = &c->values[src_of(c->aim, in, 1)], *y = &c->values[src_of(c->aim, in, 2)];
	const struct shadow *mask = &c->aim->shadows[src_of(c->aim, in, 0)];
	bool is_flat = x->form == FORM_SPLAT && y->form == FORM_SPLAT;
	if (!mask->far || !is_flat || (x->splat_int != 0) == (y->splat_int != 0)) return;
	to->far = xmalloc((size_t)to->n * sizeof *to->far);
	for (int64_t i = 0; i < to->n; i++) to->far[i] = x->splat_int ? far_at(mask, i) : -far_at(mask, i);
}

/* ---- along operations ---- */

/* The shadow's lanes in another order; step: of the result's dimension in the source, 0 repeats. */
static void shadow_strided(const struct vm_aim *a, const struct vm_instr *in, struct shadow *to,
	const struct shadow *from, const int32_t *order)
{
	const struct vm_value_info *s = &a->p->values[src_of(a, in, 0)], *d = &a->p->values[dst_of(a, in, 0)];
	int64_t stride[TTIR_DIMS_MAX] = {0}, own[TTIR_DIMS_MAX] = {0}, step = 1;
	for (int k = s->ndim - 1; k >= 0; k--) {
		own[k] = s->shape[k] == 1 || from->n == 1 ? 0 : step;
		step *= s->shape[k];
	}
	for (int k = 0; k < d->ndim; k++) stride[k] = own[order ? order[k] : k];
	if (from->origin) {
		to->origin = xmalloc((size_t)to->n * sizeof *to->origin);
		vm_copy_strided((uint8_t *)to->origin, d->shape, d->ndim, (const uint8_t *)from->origin, stride, 8);
	}
	if (!from->far) return;
	to->far = xmalloc((size_t)to->n * sizeof *to->far);
	vm_copy_strided((uint8_t *)to->far, d->shape, d->ndim, (const uint8_t *)from->far, stride, 8);
}

/* What is not known lane by lane: any element of the first operand that has one. */
static void origins_any(const struct vm_aim *a, const struct vm_instr *in, struct shadow *to)
{
	for (int s = 0; s < in->nsrc && !to->origin; s++) {
		const struct shadow *from = &a->shadows[src_of(a, in, s)];
		if (!from->origin) continue;
		to->origin = xcalloc((size_t)to->n, sizeof *to->origin);
		for (int64_t i = 0; i < to->n; i++) to->origin[i] = origin_of_row(a, in, from->origin, from->n, 1, i);
	}
}

static void origins_pair(const struct vm_aim *a, const struct vm_instr *in, struct shadow *to)
{
	const struct shadow *x = &a->shadows[src_of(a, in, 0)], *y = &a->shadows[src_of(a, in, 1)];
	to->origin = xcalloc((size_t)to->n, sizeof *to->origin);
	for (int64_t i = 0; i < to->n; i++)
		to->origin[i] = in->op == OP_JOIN ? origin_at(i % 2 ? y : x, i / 2)
			: i < to->n / 2               ? origin_at(x, i)
										  : origin_at(y, i - to->n / 2);
}

static struct shadow shadow_make(struct vm_ctx *c, const struct vm_instr *in, int d)
{
	const struct vm_aim *a = c->aim;
	struct shadow to = {.n = a->p->values[dst_of(a, in, d)].count};
	const struct shadow *from = in->nsrc ? &a->shadows[src_of(a, in, 0)] : NULL;
	bool is_cast = in->op == OP_MAP && in->nsrc == 1 && in->elem == ELEM_I1 && in->result_elem != ELEM_I1;
	/* Bits first: they have a distance as well as an origin. */
	if (is_logic(in) || (in->op == OP_SELECT && in->result_elem == ELEM_I1)) {
		logic_make(c, in, &to);
	} else if (is_compare(in)) {
		if (a->lot) origins_map(a, in, &to);
		to.far = xmalloc((size_t)to.n * sizeof *to.far);
		if (!compare_far(c, in, in->imm[3], to.n, to.far, NULL)) shadow_drop(&to);
	} else if (is_cast || in->op == OP_RESHAPE) {
		shadow_copy(&to, from, 0, 1);
	} else if (in->op == OP_SPLAT || in->op == OP_UNSPLAT) {
		shadow_copy(&to, from, 0, 0);
	} else if (in->op == OP_REDUCE) {
		shadow_reduce(c, in, MIN(d, in->nsrc - 1), &to);
	} else if (in->op == OP_BROADCAST || in->op == OP_TRANS) {
		shadow_strided(a, in, &to, from, in->op == OP_TRANS ? in->extra : NULL);
	} else if (in->op == OP_SPLIT) {
		shadow_copy(&to, from, d, 2);
	} else if (in->op == OP_SELECT) {
		if (a->lot) origins_map(a, in, &to);
		far_of_choice(c, in, &to);
	} else if (!a->lot) {
		return to;
	} else if (in->op == OP_LOAD) {
		origins_load(c, in, &to);
	} else if (in->op == OP_MAP || in->op == OP_DIVIDE || in->op == OP_BITCAST) {
		origins_map(a, in, &to);
	} else if (in->op == OP_SCAN) {
		shadow_copy(&to, &a->shadows[src_of(a, in, MIN(d, in->nsrc - 1))], 0, 1);
	} else if (in->op == OP_DOT) {
		origins_dot(a, in, &to);
	} else if (in->op == OP_JOIN || in->op == OP_CAT) {
		origins_pair(a, in, &to);
	} else if (in->op != OP_ATOMIC_RMW && in->op != OP_ATOMIC_CAS) {
		origins_any(a, in, &to);
	}
	return to;
}

static struct shadow shadow_twin(const struct shadow *s)
{
	struct shadow to = {.n = s->n};
	shadow_copy(&to, s, 0, 1);
	return to;
}

/* A result may be an operand too, so the new shadows are made beside the old ones. */
static void follow(struct vm_ctx *c, const struct vm_instr *in)
{
	struct vm_aim *a = c->aim;
	bool is_move = in->op == OP_MOVE;
	struct shadow some[8], *new = in->ndst > (int)ARRAY_LEN(some) ? xcalloc((size_t)in->ndst, sizeof *new) : some;
	for (int d = 0; d < in->ndst; d++) {
		new[d] = (struct shadow){.n = 0};
		if (!a->is_needed[dst_of(a, in, d)]) continue;
		new[d] = is_move ? shadow_twin(&a->shadows[src_of(a, in, d)]) : shadow_make(c, in, d);
	}
	for (int d = 0; d < in->ndst; d++) {
		if (!a->is_needed[dst_of(a, in, d)]) continue;
		shadow_drop(&a->shadows[dst_of(a, in, d)]);
		a->shadows[dst_of(a, in, d)] = new[d];
	}
	if (new != some) free(new);
}

/* ---- at the site ---- */

/* far and bits of each of n lanes. */
static bool site_far(struct vm_ctx *c, const struct vm_instr *in, int64_t n, double *far, uint64_t *bits)
{
	const struct vm_aim *a = c->aim;
	if (a->kind == SITE_COMPARE || a->kind == SITE_EXTREME) return compare_far(c, in, a->side, n, far, bits);
	if (a->kind == SITE_CLAMP) {
		struct vm_reader x, bound;
		bool is_made = vm_reader_make(c, in, 0, n, &x) &&
			vm_reader_make(c, in, a->side == SIDE_BELOW ? 1 : 2, n, &bound);
		for (int64_t at = 0; is_made && at < n; at += VM_STRIP) {
			int64_t m = MIN(n - at, VM_STRIP);
			const double *p = vm_reader_strip(&x, at, m), *q = vm_reader_strip(&bound, at, m);
			for (int64_t i = 0; i < m; i++) far[at + i] = far_of_orders(p[i] - q[i], a->side);
		}
		return is_made;
	}
	if (!bits_far(c, in, a->operand, n, far)) return false;
	for (int64_t i = 0; i < n && a->side == SIDE_BELOW; i++) far[i] = -far[i];
	return true;
}

/* One of all lanes that can be chosen, each with the same chance (Vitter 1985). */
static void lane_choose(struct vm_aim *a, const struct vm_instr *in, const struct vm_aim_lane *lane)
{
	int64_t at = a->nlanes;
	if (a->nlanes < a->choose) a->nlanes++;
	else at = (int64_t)(draw(a, in, a->met, 5) % (uint64_t)(a->met + 1));
	a->met++;
	if (at < a->choose) a->lanes[at] = *lane;
}

static void look(struct vm_ctx *c, const struct vm_instr *in)
{
	struct vm_aim *a = c->aim;
	bool is_truth = a->kind == SITE_SELECT || a->kind == SITE_MASK || a->kind == SITE_BRANCH;
	int first = is_truth ? a->operand : 0, count = is_truth ? 1 : in->nsrc;
	/* One lane where all operands are the same everywhere. */
	int64_t n = 1;
	for (int i = 0; i < count; i++)
		if (c->values[src_of(a, in, first + i)].form != FORM_SPLAT) n = a->p->values[src_of(a, in, first + i)].count;
	double *far = xmalloc((size_t)n * sizeof *far);
	uint64_t *bits = xcalloc((size_t)n, sizeof *bits);
	bool is_made = site_far(c, in, n, far, bits);
	struct vm_aim_lane now = {.row = a->row, .program = a->program, .turn = a->turn++};
	/* Either the lanes that were chosen before, which come in order, or any. */
	for (int64_t i = 0; is_made && i < n; i++) {
		uint64_t origin = a->lot ? origin_of(a, in, first, count, i) : 0;
		now.lane = i;
		now.far = MAX(far[i], 0);
		now.bits = bits[i];
		now.address = origin & (((uint64_t)1 << ELEM_SHIFT) - 1);
		now.elem = (enum elem)((origin >> ELEM_SHIFT) - (origin != 0));
		if (a->choose && origin && now.far > 0 && !isnan(now.far)) lane_choose(a, in, &now);
		while (!a->choose && a->cursor < a->nlanes && by_place(&a->lanes[a->cursor], &now) < 0) a->cursor++;
		if (a->choose || a->cursor == a->nlanes || by_place(&a->lanes[a->cursor], &now)) continue;
		a->lanes[a->cursor].far = isnan(now.far) ? INFINITY : now.far;
		a->lanes[a->cursor].bits = now.bits;
		if (a->lot) a->lanes[a->cursor].address = now.address;
		if (a->lot) a->lanes[a->cursor].elem = now.elem;
	}
	free(far);
	free(bits);
}

void vm_aim_step(struct vm_ctx *c, const struct vm_instr *in)
{
	struct vm_aim *a = c->aim;
	if (a->p == a->kernels[0].p && in - a->p->instrs == a->instr && in->n) look(c, in);
	if (a->lot && is_store(in)) origins_store(c, in);
	bool any = false;
	for (int d = 0; d < in->ndst; d++) any |= a->is_needed[dst_of(a, in, d)];
	/* What runs inside a region has no lanes of its own. */
	if (any && (in->n || in->op == OP_REDUCE || in->op == OP_SCAN || in->op == OP_MOVE)) follow(c, in);
}
