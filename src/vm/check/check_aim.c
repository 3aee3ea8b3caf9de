/* check_aim: the life of an aim, what follows the values through operations, and the look at the
 * site's lanes. */
#include "vm/check/check_aim.h"
#include "base/base.h"
#include "ttir/ttir.h"
#include "vm/core/program.h"
#include "vm/core/state.h"
#include "vm/map/map.h"
#include "vm/ptx/ptx.h"
#include "vm/vm.h"
#include <math.h>
#include <stdlib.h>

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

static void named_find(struct aim_kernel *f)
{
	for (int i = 0; i < f->p->nconsts && f->nnamed < NAMED_MAX; i++) {
		const struct vm_const *k = &f->p->consts[i];
		enum elem e = f->p->values[k->value].elem;
		if (k->data || (e != ELEM_I32 && e != ELEM_I64)) continue;
		int64_t v = vm_int_at(e, k->bits, 0);
		if (v > 1) f->named[f->nnamed++] = v;
	}
}

/* How many operands the site looks at, from a->operand on. */
static int operands_of(const struct vm_aim *a, const struct vm_instr *in)
{
	bool is_one = a->kind == SITE_SELECT || a->kind == SITE_MASK || a->kind == SITE_BRANCH ||
		(a->kind == SITE_POLE && a->pole.operand != VM_POLE_PRODUCT);
	return is_one ? 1 : in->nsrc;
}

static void value_mark(struct aim_kernel *f, int value) { f->is_needed[value] = f->is_drawn[value] = true; }

/* What the site looks at: its operands or its two masks, and the conditions of the
 * branches in front of it. */
static void site_mark(const struct vm_aim *a, struct aim_kernel *f)
{
	const struct vm_program *p = f->p;
	const struct vm_instr *in = &p->instrs[a->instr];
	int first = a->operand, end = a->joint ? first : first + operands_of(a, in);
	for (int i = first; i < end; i++) value_mark(f, p->ids[in->src + i]);
	for (int k = 0; a->joint && k < 2; k++) value_mark(f, a->joint->masks[k]);
	for (int i = 0; a->owner >= 0 && i < p->instrs[a->owner].nsrc; i++)
		value_mark(f, p->ids[p->instrs[a->owner].src + i]);
	for (int k = 0; k < a->nguards; k++) value_mark(f, p->ids[p->instrs[a->guards[k].instr].src]);
}

/* A kernel's part, made when it is first launched; NULL: there is no room. */
static struct aim_kernel *followed_of(struct vm_aim *a, const struct vm_program *p)
{
	for (int i = 0; i < a->nkernels; i++)
		if (a->kernels[i].p == p) return &a->kernels[i];
	if (a->nkernels == AIM_KERNELS_MAX) return NULL;
	struct aim_kernel *f = &a->kernels[a->nkernels++];
	*f = (struct aim_kernel){.p = p};
	f->is_needed = xcalloc((size_t)p->nvalues + 1, sizeof *f->is_needed);
	f->is_drawn = xcalloc((size_t)p->nvalues + 1, sizeof *f->is_drawn);
	f->shadows = xcalloc((size_t)p->nvalues + 1, sizeof *f->shadows);
	/* The first one has the site. */
	if (a->nkernels == 1) site_mark(a, f);
	for (int i = 0; i < p->ninstrs; i++)
		if (aim_is_store(&p->instrs[i])) f->is_drawn[p->ids[p->instrs[i].src + 1]] = true;
	named_find(f);
	needed_close(p, f->is_needed);
	needed_close(p, f->is_drawn);
	return f;
}

/* Branches on data in front of the site, the innermost first: those whose first part it stands in,
 * and those whose other part. */
static void guards_find(struct vm_aim *a, const struct vm_program *p)
{
	bool *is_data = vm_data_find(p);
	for (int i = a->instr - 1; i >= 0 && a->nguards < GUARDS_MAX; i--) {
		const struct vm_instr *in = &p->instrs[i];
		if (in->op != OP_JUMP_UNLESS || !is_data[p->ids[in->src]] || in->target <= i) continue;
		const struct vm_instr *last = &p->instrs[in->target - 1];
		bool is_first = in->target > a->instr;
		bool is_other = !is_first && last->op == OP_JUMP && last > in && last->target > a->instr;
		if (is_first || is_other) a->guards[a->nguards++] = (struct aim_guard){i, is_first};
	}
	free(is_data);
}

/* The tt.map_elementwise in whose region an instruction stands, if that runs over all lanes at
 * once, one for each element; -1: none. */
static int owner_of(const struct vm_program *p, int instr)
{
	for (int i = 0; i < instr; i++) {
		const struct vm_instr *in = &p->instrs[i];
		if (in->op == OP_MAP_REGION && in->target > instr) return in->imm[0] == 1 && !in->imm[2] ? i : -1;
	}
	return -1;
}

struct vm_aim *vm_aim_create(const struct vm_kernel *k, const struct vm_coverage *c, int site, enum vm_side side)
{
	const struct vm_program *p = &k->program;
	const struct vm_site *s = site >= 0 && site < c->nsites ? &c->sites[site] : NULL;
	/* Where it stands; a joint's instruction may have a site of its own. */
	int instr = -1;
	const struct vm_joint *joint = NULL;
	for (int i = 0; s && i < p->ninstrs; i++)
		if (c->at[i] == site) instr = i;
	for (int i = 0; s && i < c->njoints; i++)
		if (c->joints[i].site == site && c->joints[i].is_open) joint = &c->joints[i];
	if (joint) instr = joint->instr;
	const struct vm_sum *sum = NULL;
	for (int i = 0; s && i < c->nsums; i++)
		if (c->sums[i].site == site) sum = &c->sums[i];
	if (sum) instr = sum->instr;
	bool is_pole = s && s->kind == SITE_POLE;
	if (is_pole) instr = s->instr;
	bool is_known = s && instr >= 0 && s->kind != SITE_END && s->kind != SITE_SIGN && s->kind != SITE_DIGITS;
	if (!is_known || (s->kind != SITE_COMPARE && !is_pole && side == SIDE_EQUAL) ||
		(s->kind == SITE_STEP && !s->has_first))
		return NULL;
	struct vm_aim *a = xcalloc(1, sizeof *a);
	bool is_truth = s->kind == SITE_SELECT || s->kind == SITE_MASK || s->kind == SITE_BRANCH;
	*a = (struct vm_aim){.first_is_known = s->first_is_known,
		.second_is_known = s->second_is_known,
		.usual = s->usual,
		.from = s->distance,
		.joint = joint,
		.owner = owner_of(p, instr),
		.instr = instr,
		.kind = s->kind,
		.operand = is_truth                            ? (int)s->constant
			: is_pole && s->operand != VM_POLE_PRODUCT ? s->operand
													   : 0,
		.pole = *s,
		.side = side};
	if (sum) a->sum = vm_sum_copy(sum);
	a->sum.has_usual = true;
	guards_find(a, p);
	followed_of(a, p);
	return a;
}

static void shadow_drop(struct aim_shadow *s)
{
	free(s->origin);
	free(s->far);
	*s = (struct aim_shadow){.n = 0};
}

static void shadows_clear(struct aim_kernel *f)
{
	for (int i = 0; i < f->p->nvalues; i++) shadow_drop(&f->shadows[i]);
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
	aim_memory_clear(&a->memory);
	vm_sum_release(&a->sum);
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
	aim_memory_clear(&a->memory);
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
	struct aim_kernel *f = a->lot || a->kernels[0].p == &k->program ? followed_of(a, &k->program) : NULL;
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

/* ---- along operations ---- */

/* Lane i of the result is lane first + i * step of one operand. */
void aim_shadow_copy(struct aim_shadow *to, const struct aim_shadow *from, int64_t first, int64_t step)
{
	if (from->origin) {
		to->origin = xmalloc((size_t)to->n * sizeof *to->origin);
		for (int64_t i = 0; i < to->n; i++) to->origin[i] = aim_origin_at(from, first + i * step);
	}
	if (!from->far) return;
	to->far = xmalloc((size_t)to->n * sizeof *to->far);
	for (int64_t i = 0; i < to->n; i++) to->far[i] = aim_far_at(from, first + i * step);
}

/* The shadow's lanes in another order; step: of the result's dimension in the source, 0 repeats. */
static void shadow_strided(const struct vm_aim *a, const struct vm_instr *in, struct aim_shadow *to,
	const struct aim_shadow *from, const int32_t *order)
{
	const struct vm_value_info *s = &a->p->values[aim_src(a, in, 0)], *d = &a->p->values[aim_dst(a, in, 0)];
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

/* Assembly that takes one element of each operand at a time. */
static bool is_lane_by_lane(const struct vm_instr *in)
{
	return in->op == OP_INLINE_ASM && ((const struct asm_block *)in->extra)->pack == 1;
}

static struct aim_shadow shadow_make(struct vm_ctx *c, const struct vm_instr *in, int d)
{
	const struct vm_aim *a = c->aim;
	struct aim_shadow to = {.n = a->p->values[aim_dst(a, in, d)].count};
	const struct aim_shadow *from = in->nsrc ? &a->shadows[aim_src(a, in, 0)] : NULL;
	bool is_cast = in->op == OP_MAP && in->nsrc == 1 && in->elem == ELEM_I1 && in->result_elem != ELEM_I1;
	/* Bits first: they have a distance as well as an origin. */
	if (aim_is_logic(in) || (in->op == OP_SELECT && in->result_elem == ELEM_I1)) {
		aim_logic_make(c, in, &to);
	} else if (aim_is_compare(in)) {
		if (a->lot) aim_origins_map(a, in, &to);
		to.far = xmalloc((size_t)to.n * sizeof *to.far);
		if (!aim_compare_far(c, in, in->imm[3], to.n, to.far, NULL)) shadow_drop(&to);
	} else if (is_cast || in->op == OP_RESHAPE) {
		aim_shadow_copy(&to, from, 0, 1);
	} else if (in->op == OP_SPLAT || in->op == OP_UNSPLAT) {
		aim_shadow_copy(&to, from, 0, 0);
	} else if (in->op == OP_REDUCE) {
		aim_shadow_reduce(c, in, MIN(d, in->nsrc - 1), &to);
	} else if (in->op == OP_BROADCAST || in->op == OP_TRANS) {
		shadow_strided(a, in, &to, from, in->op == OP_TRANS ? in->extra : NULL);
	} else if (in->op == OP_SPLIT) {
		aim_shadow_copy(&to, from, d, 2);
	} else if (in->op == OP_SELECT) {
		if (a->lot) aim_origins_map(a, in, &to);
		aim_far_of_choice(c, in, &to);
	} else if (!a->lot) {
		return to;
	} else if (in->op == OP_LOAD) {
		aim_origins_load(c, in, &to);
	} else if (in->op == OP_MAP || in->op == OP_DIVIDE || in->op == OP_BITCAST || is_lane_by_lane(in)) {
		aim_origins_map(a, in, &to);
	} else if (in->op == OP_SCAN) {
		aim_shadow_copy(&to, &a->shadows[aim_src(a, in, MIN(d, in->nsrc - 1))], 0, 1);
	} else if (in->op == OP_DOT) {
		aim_origins_dot(a, in, &to);
	} else if (in->op == OP_JOIN || in->op == OP_CAT) {
		aim_origins_pair(a, in, &to);
	} else if (in->op != OP_ATOMIC_RMW && in->op != OP_ATOMIC_CAS) {
		aim_origins_any(a, in, &to);
	}
	return to;
}

static struct aim_shadow shadow_twin(const struct aim_shadow *s)
{
	struct aim_shadow to = {.n = s->n};
	aim_shadow_copy(&to, s, 0, 1);
	return to;
}

/* A result may be an operand too, so the new shadows are made beside the old ones. */
static void follow(struct vm_ctx *c, const struct vm_instr *in)
{
	struct vm_aim *a = c->aim;
	bool is_move = in->op == OP_MOVE;
	struct aim_shadow some[8], *new = in->ndst > (int)ARRAY_LEN(some) ? xcalloc((size_t)in->ndst, sizeof *new) : some;
	for (int d = 0; d < in->ndst; d++) {
		new[d] = (struct aim_shadow){.n = 0};
		if (!a->is_needed[aim_dst(a, in, d)]) continue;
		new[d] = is_move ? shadow_twin(&a->shadows[aim_src(a, in, d)]) : shadow_make(c, in, d);
	}
	for (int d = 0; d < in->ndst; d++) {
		if (!a->is_needed[aim_dst(a, in, d)]) continue;
		shadow_drop(&a->shadows[aim_dst(a, in, d)]);
		a->shadows[aim_dst(a, in, d)] = new[d];
	}
	if (new != some) free(new);
}

/* ---- at the site ---- */

/* far and bits of each of n lanes. */
static bool site_far(struct vm_ctx *c, const struct vm_instr *in, int64_t n, double *far, uint64_t *bits)
{
	const struct vm_aim *a = c->aim;
	if (a->joint) {
		for (int i = 0; i < 2; i++)
			if (!a->shadows[a->joint->masks[i]].far) return false;
		for (int64_t i = 0; i < n; i++) far[i] = aim_joint_far(a, a->side == SIDE_ABOVE, i);
		return true;
	}
	if (a->kind == SITE_COMPARE || a->kind == SITE_EXTREME) return aim_compare_far(c, in, a->side, n, far, bits);
	if (a->kind == SITE_TERM) {
		struct vm_reader x, y, z;
		bool is_made = vm_reader_make(c, in, 0, n, &x) && vm_reader_make(c, in, 1, n, &y) &&
			(in->nsrc < 3 || vm_reader_make(c, in, 2, n, &z));
		for (int64_t at = 0; is_made && at < n; at += VM_STRIP) {
			int64_t m = MIN(n - at, VM_STRIP);
			const double *p = vm_reader_strip(&x, at, m), *q = vm_reader_strip(&y, at, m),
						 *sum = in->nsrc < 3 ? NULL : vm_reader_strip(&z, at, m);
			/* In powers of two, so that a share of a millionth is on its way. */
			for (int64_t i = 0; i < m; i++) {
				double share = vm_term_share(
					sum ? p[i] * q[i] : p[i], sum ? sum[i] : q[i], a->first_is_known, a->second_is_known, a->usual);
				far[at + i] = share > 0 ? log2(VM_TERM / share) : VM_FAR;
			}
		}
		return is_made;
	}
	if (a->kind == SITE_STEP) {
		struct vm_reader x, y;
		bool is_made = vm_reader_make(c, in, 0, n, &x) && (in->nsrc < 2 || vm_reader_make(c, in, 1, n, &y));
		for (int64_t at = 0; is_made && at < n; at += VM_STRIP) {
			int64_t m = MIN(n - at, VM_STRIP);
			const double *p = vm_reader_strip(&x, at, m), *q = in->nsrc < 2 ? NULL : vm_reader_strip(&y, at, m);
			for (int64_t i = 0; i < m; i++) {
				double cut = 0, whole = vm_step_whole(in, p[i], q ? q[i] : 0, &cut);
				far[at + i] = vm_step_far(whole, cut, a->from);
			}
		}
		return is_made;
	}
	if (a->kind == SITE_POLE) {
		struct vm_reader x, y;
		bool is_product = a->pole.operand == VM_POLE_PRODUCT;
		bool is_made = vm_reader_make(c, in, a->operand, n, &x) && (!is_product || vm_reader_make(c, in, 1, n, &y));
		for (int64_t at = 0; is_made && at < n; at += VM_STRIP) {
			int64_t m = MIN(n - at, VM_STRIP);
			const double *p = vm_reader_strip(&x, at, m), *q = is_product ? vm_reader_strip(&y, at, m) : NULL;
			for (int64_t i = 0; i < m; i++) far[at + i] = vm_pole_far(&a->pole, p[i], q ? q[i] : 1);
		}
		return is_made;
	}
	if (a->kind == SITE_CLAMP) {
		struct vm_reader x, bound;
		bool is_made = vm_reader_make(c, in, 0, n, &x) &&
			vm_reader_make(c, in, a->side == SIDE_BELOW ? 1 : 2, n, &bound);
		for (int64_t at = 0; is_made && at < n; at += VM_STRIP) {
			int64_t m = MIN(n - at, VM_STRIP);
			const double *p = vm_reader_strip(&x, at, m), *q = vm_reader_strip(&bound, at, m);
			for (int64_t i = 0; i < m; i++) far[at + i] = aim_far_of_orders(p[i] - q[i], a->side);
		}
		return is_made;
	}
	if (!aim_bits_far(c, in, a->operand, n, far)) return false;
	for (int64_t i = 0; i < n && a->side == SIDE_BELOW; i++) far[i] = -far[i];
	return true;
}

/* One of all lanes that can be chosen, each with the same chance (Vitter 1985). */
static void lane_choose(struct vm_aim *a, const struct vm_instr *in, const struct vm_aim_lane *lane)
{
	int64_t at = a->nlanes;
	if (a->nlanes < a->choose) a->nlanes++;
	else at = (int64_t)(aim_draw(a, in, a->met, 5) % (uint64_t)(a->met + 1));
	a->met++;
	/* The nearest to a pole is always among them: others may lie where a clamp leaves no slope. */
	bool has_first = a->kind == SITE_POLE && a->met > 1;
	if (has_first && lane->far < a->lanes[0].far) {
		struct vm_aim_lane was = a->lanes[0];
		a->lanes[0] = *lane;
		if (at > 0 && at < a->choose) a->lanes[at] = was;
		return;
	}
	if (at < a->choose && !(has_first && at == 0)) a->lanes[at] = *lane;
}

/* Either the lanes that were chosen before, which come in order, or any. */
static void lane_look(struct vm_aim *a, const struct vm_instr *in, struct vm_aim_lane *now, uint64_t origin)
{
	now->address = origin & (((uint64_t)1 << ELEM_SHIFT) - 1);
	now->elem = (enum elem)((origin >> ELEM_SHIFT) - (origin != 0));
	if (a->choose && origin && now->far > 0 && !isnan(now->far)) lane_choose(a, in, now);
	while (!a->choose && a->cursor < a->nlanes && by_place(&a->lanes[a->cursor], now) < 0) a->cursor++;
	if (a->choose || a->cursor == a->nlanes || by_place(&a->lanes[a->cursor], now)) return;
	a->lanes[a->cursor].far = isnan(now->far) ? INFINITY : now->far;
	a->lanes[a->cursor].bits = now->bits;
	if (a->lot) a->lanes[a->cursor].address = now->address;
	if (a->lot) a->lanes[a->cursor].elem = now->elem;
}

static void look(struct vm_ctx *c, const struct vm_instr *in)
{
	struct vm_aim *a = c->aim;
	int first = a->operand, count = a->joint ? 0 : operands_of(a, in);
	/* One lane where all operands are the same everywhere. */
	int64_t n = 1;
	for (int i = 0; i < count; i++)
		if (c->values[aim_src(a, in, first + i)].form != FORM_SPLAT) n = a->p->values[aim_src(a, in, first + i)].count;
	for (int i = 0; a->joint && i < 2; i++) n = MAX(n, a->p->values[a->joint->masks[i]].count);
	if (a->owner >= 0 && n > 0) n = MAX(c->lanes, 1);
	double *far = xmalloc((size_t)n * sizeof *far);
	uint64_t *bits = xcalloc((size_t)n, sizeof *bits);
	bool is_made = site_far(c, in, n, far, bits);
	struct vm_aim_lane now = {.row = a->row, .program = a->program, .turn = a->turn++};
	for (int64_t i = 0; is_made && i < n; i++) {
		const struct vm_instr *owner = a->owner < 0 ? NULL : &a->p->instrs[a->owner];
		uint64_t origin = !a->lot ? 0
			: a->joint            ? aim_joint_origin(a, in, a->side == SIDE_ABOVE, i)
			: owner               ? aim_origin_of(a, owner, 0, owner->nsrc, i)
								  : aim_origin_of(a, in, first, count, i);
		now.lane = i;
		now.far = MAX(far[i], 0);
		now.bits = bits[i];
		lane_look(a, in, &now, origin);
	}
	free(far);
	free(bits);
}

/* A program that goes another way than to the site stands for one lane of it. */
static void guard_look(struct vm_ctx *c, const struct vm_instr *in, int guard)
{
	struct vm_aim *a = c->aim;
	double far;
	if (!aim_bits_far(c, in, 0, 1, &far)) return;
	if (!a->guards[guard].wanted) far = -far;
	if (!(far > 0) || isinf(far)) return;
	struct vm_aim_lane now = {
		.row = a->row, .program = a->program, .turn = a->turn++, .far = GUARD_FAR * (guard + 1) + far};
	lane_look(a, in, &now, a->lot ? aim_origin_of(a, in, 0, 1, 0) : 0);
}

struct vm_sum *vm_aim_sum(const struct vm_ctx *c, const struct vm_instr *in)
{
	struct vm_aim *a = c->aim;
	bool is_at = a && a->sum.nterms && a->p == a->kernels[0].p && in - a->p->instrs == a->instr;
	return is_at ? &a->sum : NULL;
}

void vm_aim_term(struct vm_ctx *c, const struct vm_instr *in, int64_t lane, double far, int source, int64_t element,
	uint64_t address)
{
	struct vm_aim *a = c->aim;
	const struct vm_instr *from = a->owner < 0 ? in : &a->p->instrs[a->owner];
	uint64_t origin = !a->lot  ? 0
		: source == SUM_MEMORY ? aim_origin_stored(a, address, (enum elem)in->result_elem)
		: source == SUM_ANY    ? aim_origin_of(a, from, 0, from->nsrc, element)
							   : aim_origin_at(&a->shadows[aim_src(a, in, source)], element);
	struct vm_aim_lane now = {
		.row = a->row, .program = a->program, .turn = a->turn, .lane = lane, .far = far > 0 || isnan(far) ? far : 0};
	lane_look(a, in, &now, origin);
}

void vm_aim_turn(struct vm_aim *a) { a->turn++; }

void vm_aim_step(struct vm_ctx *c, const struct vm_instr *in)
{
	struct vm_aim *a = c->aim;
	bool is_site = a->p == a->kernels[0].p && in - a->p->instrs == a->instr && (in->n || a->owner >= 0);
	if (is_site && a->sum.nterms) vm_sum_aim(c, in, &a->sum);
	else if (is_site) look(c, in);
	for (int i = 0; i < a->nguards; i++)
		if (a->p == a->kernels[0].p && in - a->p->instrs == a->guards[i].instr) guard_look(c, in, i);
	if (a->lot && aim_is_store(in)) aim_origins_store(c, in);
	bool any = false;
	for (int d = 0; d < in->ndst; d++) any |= a->is_needed[aim_dst(a, in, d)];
	/* What runs inside a region has no lanes of its own. */
	if (any && (in->n || in->op == OP_REDUCE || in->op == OP_SCAN || in->op == OP_MOVE)) follow(c, in);
}
