/* Joints: two masks that decide together what is stored, though no `and` puts them together: a
 * select within a select, numbers of 0 and 1 that are added, subtracted or multiplied, a branch
 * that uses or makes what a select chooses.
 *
 * Either mask may be true in one trial and false in another, and both never true at once: between
 * them lies a window. For single elements inputs next to what a mask compares with meet it; what a
 * reduction gives is met only where somebody looks for both. So such a pair is a truth site of its
 * own: below, the first mask is what the joint asks for and the second is false; above, the second
 * is true. Kernels without such a pair pay nothing. */
#include "vm/check/check.h"
#include "base/base.h"
#include "ttir/ttir.h"
#include "vm/core/program.h"
#include "vm/core/state.h"
#include "vm/map/map.h"
#include "vm/vm.h"
#include <stdlib.h>

#define JOINTS_MAX 16 /* of a kernel */
#define MASKS_MAX 8   /* that one operand is looked through for */
#define STEPS_MAX 32  /* instructions that one operand is looked through */

struct finder {
	struct vm_coverage *c;
	const struct vm_program *p;
	const int32_t *maker;   // (nvalues)
	bool *is_derived;       // (nvalues): comes of what lanes of data were put together to
	int32_t *branch;        // (ninstrs): the innermost branch on such that it stands in; -1: none
};
/* Masks that one operand hangs on. */
struct masks {
	int n;
	int values[MASKS_MAX];
	int steps; /* left */
};

/* ---- which masks go together ---- */

static bool *derived_find(const struct vm_program *p, const bool *is_data)
{
	bool *is_derived = xcalloc((size_t)p->nvalues + 1, sizeof *is_derived);
	bool any = false;
	for (int i = 0; i < p->ninstrs; i++) {
		const struct vm_instr *in = &p->instrs[i];
		bool is_source = in->op == OP_REDUCE || in->op == OP_SCAN || in->op == OP_DOT;
		for (int d = 0; is_source && d < in->ndst; d++)
			any |= is_derived[p->ids[in->dst + d]] = is_data[p->ids[in->dst + d]];
	}
	if (any) vm_flow_forward(p, is_derived);
	return is_derived;
}

/* The comparison, or the combination of bits, that made a mask; NULL: something else did. */
static const struct vm_instr *mask_maker(const struct finder *f, int value)
{
	const struct vm_instr *in = vm_maker_of(f->p, f->maker, &value);
	bool is_bit = in && in->op == OP_MAP && in->nsrc == 2 && in->ndst == 1 && in->result_elem == ELEM_I1 && in->n;
	return is_bit && f->is_derived[value] ? in : NULL;
}

static void mask_add(const struct finder *f, struct masks *m, int value)
{
	bool is_new = m->n < MASKS_MAX && mask_maker(f, value);
	for (int i = 0; i < m->n; i++) is_new &= m->values[i] != value;
	if (is_new) m->values[m->n++] = value;
}

/* Marks where instructions stand, and as derived what such a branch chooses. */
static void branches_find(struct finder *f)
{
	const struct vm_program *p = f->p;
	f->branch = xmalloc(((size_t)p->ninstrs + 1) * sizeof *f->branch);
	memset(f->branch, 0xff, ((size_t)p->ninstrs + 1) * sizeof *f->branch);
	bool any = false;
	for (int i = 0; i < p->ninstrs; i++) {
		const struct vm_instr *in = &p->instrs[i];
		if (in->op != OP_JUMP_UNLESS || in->target <= i || !mask_maker(f, src_id(p, in, 0))) continue;
		any = true;
		/* Both of its parts; what stands deeper comes later and overwrites. */
		const struct vm_instr *last = &p->instrs[in->target - 1];
		int end = last->op == OP_JUMP && last->target > in->target ? last->target : in->target;
		for (int k = i + 1; k < end; k++) {
			const struct vm_instr *inside = &p->instrs[k];
			f->branch[k] = i;
			for (int d = 0; inside->op == OP_MOVE && d < inside->ndst; d++)
				f->is_derived[p->ids[inside->dst + d]] = true;
		}
	}
	if (any) vm_flow_forward(p, f->is_derived);
}

/* Back from a number through what is done lane by lane, and to the branch that chose it. */
static void masks_find(const struct finder *f, struct masks *m, int value)
{
	const struct vm_instr *in = f->maker[value] < 0 ? NULL : &f->p->instrs[f->maker[value]];
	if (!in || m->steps-- <= 0 || !f->is_derived[value]) return;
	int first = 0;
	int branch = f->branch[in - f->p->instrs];
	if (in->op == OP_MOVE) {
		if (branch >= 0) mask_add(f, m, src_id(f->p, &f->p->instrs[branch], 0));
		for (int d = 0; d < in->ndst; d++)
			if (f->p->ids[in->dst + d] == value) masks_find(f, m, src_id(f->p, in, d));
		return;
	}
	if (in->op == OP_SELECT) {
		mask_add(f, m, src_id(f->p, in, 0));
		first = 1;
	} else if (in->op == OP_MAP && in->elem == ELEM_I1 && in->result_elem != ELEM_I1) {
		mask_add(f, m, src_id(f->p, in, 0)); /* a number of 0 or 1 */
		return;
	} else if ((in->op != OP_MAP || in->result_elem == ELEM_I1) && in->op != OP_SPLAT && in->op != OP_BROADCAST) {
		return;
	}
	for (int s = first; s < in->nsrc; s++) masks_find(f, m, src_id(f->p, in, s));
}

static bool is_same_number(const struct finder *f, int a, int b)
{
	vm_maker_of(f->p, f->maker, &a);
	vm_maker_of(f->p, f->maker, &b);
	return a == b || vm_constant_of(f->p, a) == vm_constant_of(f->p, b);
}

/* Two orders of the same two numbers, of which one may be the other's opposite:
 * no window lies between. */
static bool is_same_pair(const struct finder *f, int a, int b)
{
	const struct vm_instr *x = mask_maker(f, a), *y = mask_maker(f, b);
	if (a == b || x == y) return true;
	for (int i = 0; i < 2; i++)
		if (!is_same_number(f, src_id(f->p, x, i), src_id(f->p, y, i))) return false;
	return true;
}

static void joint_add(const struct finder *f, int instr, int first, int second, bool wanted)
{
	struct vm_coverage *c = f->c;
	int64_t n[2] = {f->p->values[first].count, f->p->values[second].count};
	bool has_room = c->njoints < JOINTS_MAX && (n[0] == n[1] || n[0] == 1 || n[1] == 1);
	if (!has_room || is_same_pair(f, first, second)) return;
	for (int i = 0; i < c->njoints; i++) {
		const struct vm_joint *j = &c->joints[i];
		if (j->masks[0] == first && j->masks[1] == second && j->wanted == wanted) return;
	}
	/* The instruction may have a site already, which stays its own. */
	int32_t own = c->at[instr];
	vm_site_add(c, f->p, instr, SITE_SELECT, SIDE_BELOW | SIDE_ABOVE)->constant = 0;
	c->joints = xrealloc(c->joints, size_mul((size_t)c->njoints + 1, sizeof *c->joints));
	c->joints[c->njoints++] = (struct vm_joint){
		.site = c->at[instr], .instr = instr, .masks = {first, second}, .wanted = wanted, .is_open = true};
	c->at[instr] = own;
}

/* A select's own mask with each of the masks that the chosen number hangs on. */
static void select_look(const struct finder *f, int instr)
{
	const struct vm_instr *in = &f->p->instrs[instr];
	int own = src_id(f->p, in, 0);
	for (int s = 1; mask_maker(f, own) && s < 3; s++) {
		struct masks m = {.steps = STEPS_MAX};
		masks_find(f, &m, src_id(f->p, in, s));
		for (int i = 0; i < m.n; i++) joint_add(f, instr, own, m.values[i], s == 1);
	}
}

/* The masks of one operand with those of another. */
static void map_look(const struct finder *f, int instr)
{
	const struct vm_instr *in = &f->p->instrs[instr];
	struct masks m[3];
	for (int s = 0; s < in->nsrc; s++) {
		m[s] = (struct masks){.steps = STEPS_MAX};
		masks_find(f, &m[s], src_id(f->p, in, s));
	}
	for (int s = 1; s < in->nsrc; s++)
		for (int i = 0; i < m[0].n; i++)
			for (int k = 0; k < m[s].n; k++)
				for (int wanted = 0; wanted < 2; wanted++) joint_add(f, instr, m[0].values[i], m[s].values[k], wanted);
}

/* What a branch uses and does not make itself: its condition with the masks which that hangs on. */
static void branch_look(const struct finder *f, int instr)
{
	const struct vm_instr *in = &f->p->instrs[instr];
	int branch = f->branch[instr];
	if (branch < 0 || in->op == OP_MOVE) return;
	const struct vm_instr *at = &f->p->instrs[branch];
	for (int s = 0; s < in->nsrc; s++) {
		struct masks m = {.steps = STEPS_MAX};
		if (f->maker[src_id(f->p, in, s)] < branch) masks_find(f, &m, src_id(f->p, in, s));
		for (int i = 0; i < m.n; i++) joint_add(f, branch, src_id(f->p, at, 0), m.values[i], instr < at->target);
	}
}

void vm_joints_find(struct vm_coverage *c, const struct vm_program *p, const int32_t *maker, const bool *is_data)
{
	bool *is_derived = derived_find(p, is_data);
	struct finder f = {.c = c, .p = p, .maker = maker, .is_derived = is_derived};
	branches_find(&f);
	for (int i = 0; i < p->ninstrs; i++) {
		const struct vm_instr *in = &p->instrs[i];
		branch_look(&f, i);
		if (!in->n || !in->ndst || !is_derived[p->ids[in->dst]]) continue;
		if (in->op == OP_SELECT && in->result_elem != ELEM_I1) select_look(&f, i);
		else if (in->op == OP_MAP && in->nsrc > 1 && in->nsrc <= 3 && in->result_elem != ELEM_I1) map_look(&f, i);
	}
	free(is_derived);
	free(f.branch);
	/* Where masks are made and where they are looked at. */
	c->nopen = c->njoints;
	if (!c->njoints) return;
	c->joint_marks = xcalloc((size_t)p->ninstrs + 1, sizeof *c->joint_marks);
	for (int i = 0; i < c->njoints; i++) {
		c->joint_marks[c->joints[i].instr] |= JOINT_LOOKS;
		for (int k = 0; k < 2; k++) c->joint_marks[maker[c->joints[i].masks[k]]] |= JOINT_KEEPS;
	}
}

void vm_joints_free(struct vm_coverage *c)
{
	for (int i = 0; i < c->njoints; i++)
		for (int k = 0; k < 2; k++) free(c->joints[i].kept[k].bits);
	free(c->joints);
	free(c->joint_marks);
}

/* ---- recording ---- */

void vm_joint_keep(struct vm_ctx *c, const struct vm_instr *in)
{
	struct vm_coverage *k = c->coverage;
	int id = vm_dst(c, in, 0);
	const struct vm_value *v = &c->values[id];
	int64_t n = v->form == FORM_SPLAT ? 1 : c->program->values[id].count;
	const uint8_t *bits = v->form == FORM_SPLAT ? v->splat : vm_dense(c, in, id, n);
	for (int i = 0; bits && i < 2 * k->njoints; i++) {
		struct vm_joint *j = &k->joints[i / 2];
		struct vm_joint_bits *to = &j->kept[i % 2];
		if (!j->is_open || j->masks[i % 2] != id) continue;
		if (to->n != n) to->bits = xrealloc(to->bits, (size_t)n);
		to->n = n;
		memcpy(to->bits, bits, (size_t)n);
	}
}

/* Lanes whose first mask is what the joint asks for, by what their second one is. */
static void joint_take(const struct vm_joint *j, struct vm_site *s)
{
	const struct vm_joint_bits *x = &j->kept[0], *y = &j->kept[1];
	for (int64_t i = 0; x->n && y->n && i < MAX(x->n, y->n); i++) {
		if ((x->bits[x->n == 1 ? 0 : i] != 0) != j->wanted) continue;
		bool is_true = y->bits[y->n == 1 ? 0 : i] != 0;
		if (is_true) s->most = 1;
		else s->least = -1;
		s->shown[is_true ? 2 : 0]++;
	}
}

void vm_joint_look(struct vm_ctx *c, const struct vm_instr *in)
{
	struct vm_coverage *k = c->coverage;
	int instr = (int)(in - k->first);
	for (int i = 0; i < k->njoints && !k->is_turned; i++) {
		struct vm_joint *j = &k->joints[i];
		if (!j->is_open || j->instr != instr) continue;
		struct vm_site *s = &k->sites[j->site];
		joint_take(j, s);
		vm_site_close(s, k->is_search);
		j->is_open = (s->taken & s->wanted) != s->wanted;
		k->nopen -= !j->is_open;
	}
}
