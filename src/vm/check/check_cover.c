/* Coverage: which sides of its comparisons, selects, clamps, masks and function ends a kernel took
 * on data.
 *
 * Data is what a load or an atomic gave, and all that comes of it. An index that is compared with a
 * bound decides nothing that another input could change, so it is no site. A site records how far
 * its operands were from each side; once all its sides were taken it is closed, and costs nothing
 * any more. NaN is on no side: what a kernel does with it is reported
 * elsewhere and never judged. */
#include "vm/check/check.h"
#include "base/base.h"
#include "ttir/ttir.h"
#include "vm/core/program.h"
#include "vm/core/state.h"
#include "vm/map/map.h"
#include "vm/vm.h"
#include <math.h>
#include <stdlib.h>

/* Where a function leaves the range in which it is worth something: beyond it overflows, vanishes,
 * saturates or meets a pole. */
static const struct {
	int16_t op;
	uint8_t operand; /* which source is looked at */
	bool by_size;    /* its magnitude is */
	double low;      /* -infinity: no such end; likewise high */
	double high;
} ENDS[] = {
	{MAP_EXP, 0, false, -87, 88},
	{MAP_EXP2, 0, false, -126, 127},
	{MAP_EXP10, 0, false, -37, 38},
	{MAP_EXPM1, 0, false, -17, 88},
	{MAP_LOG, 0, false, 0x1p-12, INFINITY},
	{MAP_LOG2, 0, false, 0x1p-12, INFINITY},
	{MAP_LOG10, 0, false, 0x1p-12, INFINITY},
	{MAP_LOG1P, 0, false, 0x1p-12, INFINITY},
	{MAP_TANH, 0, false, -9, 9},
	{MAP_ERF, 0, false, -4, 4},
	{MAP_ERFC, 0, false, -4, 10},
	{MAP_SINH, 0, false, -88, 88},
	{MAP_COSH, 0, false, -88, 88},
	{MAP_SIN, 0, false, -100, 100},
	{MAP_COS, 0, false, -100, 100},
	{MAP_SQRT, 0, false, 0x1p-12, INFINITY},
	{MAP_PRECISE_SQRT, 0, false, 0x1p-12, INFINITY},
	{MAP_RSQRT, 0, false, 0x1p-12, INFINITY},
	{MAP_RCP, 0, true, 0x1p-12, INFINITY},
	{MAP_DIVF, 1, true, 0x1p-12, INFINITY},
	{MAP_PRECISE_DIVF, 1, true, 0x1p-12, INFINITY},
};

#define X(e, t) t,
static const char *const KIND_NAMES[] = {VM_SITE_TABLE(X)};
#undef X
const char *vm_site_kind_name(enum vm_site_kind kind) { return KIND_NAMES[kind]; }

/* ---- what is data ---- */

bool *vm_data_find(const struct vm_program *p)
{
	bool *is_data = xcalloc((size_t)p->nvalues + 1, sizeof *is_data);
	for (int i = 0; i < p->ninstrs; i++) {
		const struct vm_instr *in = &p->instrs[i];
		bool is_source = in->op == OP_LOAD || in->op == OP_ATOMIC_RMW || in->op == OP_ATOMIC_CAS;
		for (int d = 0; is_source && d < in->ndst; d++) is_data[dst_id(p, in, d)] = true;
	}
	vm_flow_forward(p, is_data);
	return is_data;
}

/* ---- sites ---- */

static bool is_compare(const struct vm_instr *in)
{
	return in->op == OP_MAP && in->map_op < 0 && in->nsrc == 2 && in->ndst == 1 && in->result_elem == ELEM_I1;
}
static bool is_equality(const struct vm_instr *in)
{
	static const char *const FLOATS[] = {"oeq", "ueq", "one", "une"}, *const INTS[] = {"eq", "ne"};
	for (size_t i = 0; i < ARRAY_LEN(FLOATS); i++)
		if (in->kernel == map_cmpf_kernel((struct slice){FLOATS[i], 3}, (enum elem)in->elem)) return true;
	for (size_t i = 0; i < ARRAY_LEN(INTS); i++)
		if (in->kernel == map_cmpi_kernel((struct slice){INTS[i], 2}, (enum elem)in->elem)) return true;
	return false;
}
static bool is_extreme(const struct vm_instr *in)
{
	switch (in->map_op) {
	case MAP_MAXIMUMF:
	case MAP_MINIMUMF:
	case MAP_MAXNUMF:
	case MAP_MINNUMF:
	case MAP_MAXSI:
	case MAP_MINSI: return in->op == OP_MAP;
	default: return false;
	}
}

/* A number that the program text fixes; NaN for any other value. */
double vm_constant_of(const struct vm_program *p, int value)
{
	enum elem e = p->values[value].elem;
	for (int i = 0; i < p->nconsts; i++) {
		const struct vm_const *k = &p->consts[i];
		/* A tensor of many numbers has `data`; a splat's or scalar's one number lies in `bits`. */
		if (k->value != value || k->data) continue;
		/* By its element type: floats as they are, narrow ones widened. */
		if (e == ELEM_F32) {
			float x;
			memcpy(&x, k->bits, sizeof x);
			return (double)x;
		}
		if (e == ELEM_F64) {
			double x;
			memcpy(&x, k->bits, sizeof x);
			return x;
		}
		if (elem_is_narrow(e)) {
			float x;
			map_widen(e, &x, k->bits, 1);
			return (double)x;
		}
		/* Integers by their sign bit, from as many bytes as the type has. */
		int64_t bits = 0;
		memcpy(&bits, k->bits, elem_bytes(e));
		int shift = 64 - 8 * (int)elem_bytes(e);
		return (double)((int64_t)((uint64_t)bits << shift) >> shift);
	}
	return NAN;
}

/* The value that stands behind changes of shape, and the instruction that made it. */
const struct vm_instr *vm_maker_of(const struct vm_program *p, const int32_t *maker, int *value)
{
	for (;;) {
		const struct vm_instr *in = maker[*value] < 0 ? NULL : &p->instrs[maker[*value]];
		bool is_shape = in &&
			(in->op == OP_SPLAT || in->op == OP_UNSPLAT || in->op == OP_BROADCAST || in->op == OP_RESHAPE ||
				in->op == OP_TRANS);
		if (!is_shape) return in;
		*value = src_id(p, in, 0);
	}
}

struct vm_site *vm_site_add(
	struct vm_coverage *c, const struct vm_program *p, int i, enum vm_site_kind kind, uint8_t wanted)
{
	const struct vm_instr *in = &p->instrs[i];
	c->sites = xrealloc(c->sites, size_mul((size_t)c->nsites + 1, sizeof *c->sites));
	struct vm_site *s = &c->sites[c->nsites];
	*s = (struct vm_site){.kind = kind,
		.what = in->op == OP_MAP && in->map_op >= 0 ? map_rows[in->map_op].name : KIND_NAMES[kind],
		.line = p->locs[in->loc].line,
		.column = p->locs[in->loc].column,
		.wanted = wanted,
		.constant = NAN,
		.pole = -1};
	c->at[i] = c->nsites++;
	return s;
}

/* Two numbers, of which at least one is data. Against an infinity nothing lies beyond. */
static void pair_add(struct vm_coverage *c, const struct vm_program *p, int i, const int32_t *maker, bool is_plain)
{
	const struct vm_instr *in = &p->instrs[i];
	int a = src_id(p, in, 0), b = src_id(p, in, 1);
	if (a == b) return;
	struct vm_site *s = vm_site_add(c, p, i, is_plain ? SITE_COMPARE : SITE_EXTREME,
		is_plain ? SIDE_BELOW | SIDE_EQUAL | SIDE_ABOVE : SIDE_BELOW | SIDE_ABOVE);
	vm_maker_of(p, maker, &a);
	vm_maker_of(p, maker, &b);
	double first = vm_constant_of(p, a), second = vm_constant_of(p, b);
	s->constant = isnan(second) ? first : second;
	if (isinf(s->constant)) s->wanted = 0;
	s->is_equality = is_plain && is_equality(in);
}

/* A block of bits whose comparisons are sites of their own says nothing new. */
static void truth_add(struct vm_coverage *c, const struct vm_program *p, int i, int operand, enum vm_site_kind kind,
	const int32_t *maker, const bool *is_data)
{
	int value = src_id(p, &p->instrs[i], operand);
	if (!is_data[value]) return;
	const struct vm_instr *in = vm_maker_of(p, maker, &value);
	if (in && is_compare(in)) return;
	struct vm_site *s = vm_site_add(c, p, i, kind, SIDE_BELOW | SIDE_ABOVE);
	s->constant = operand; /* which source is looked at: kept apart from numbers by the kind */
}

static void map_add(struct vm_coverage *c, const struct vm_program *p, int i, const int32_t *maker, const bool *is_data)
{
	const struct vm_instr *in = &p->instrs[i];
	bool any = false;
	for (int s = 0; s < in->nsrc; s++) any |= is_data[src_id(p, in, s)];
	if (!any) return;
	if (in->nsrc == 1 && in->elem == ELEM_I1 && in->result_elem != ELEM_I1) {
		truth_add(c, p, i, 0, SITE_SELECT, maker, is_data); /* a factor of 0 or 1 is a select */
	} else if (is_compare(in) || is_extreme(in)) {
		pair_add(c, p, i, maker, is_compare(in));
	} else if (in->map_op == MAP_CLAMPF || in->map_op == MAP_CLAMPF_NAN) {
		vm_site_add(c, p, i, SITE_CLAMP, SIDE_BELOW | SIDE_ABOVE);
	} else if (in->map_op == MAP_ABSF || in->map_op == MAP_ABSI) {
		vm_site_add(c, p, i, SITE_SIGN, SIDE_BELOW | SIDE_ABOVE);
	} else if (in->map_op == MAP_SATURATE) {
		vm_site_add(c, p, i, SITE_SIGN, SIDE_BELOW | SIDE_ABOVE)->high = 1;
	}
	for (size_t e = 0; e < ARRAY_LEN(ENDS) && c->at[i] < 0; e++) {
		if (ENDS[e].op != in->map_op || !is_data[src_id(p, in, ENDS[e].operand)]) continue;
		struct vm_site *s = vm_site_add(c, p, i, SITE_END, SIDE_BELOW | (isinf(ENDS[e].high) ? 0 : SIDE_ABOVE));
		s->by_size = ENDS[e].by_size;
		s->low = ENDS[e].low;
		s->high = ENDS[e].high;
	}
}

/* A sum one operand of which was next to nothing in all lanes of all trials: what it is where it
 * counts, nobody knows. It needs no comparison (1 / (1 + (x - c) ** 2 * 1e9)). A constant that is
 * next to nothing (an epsilon) is known. */
static void term_add(
	struct vm_coverage *c, const struct vm_program *p, int i, const int32_t *maker, const bool *is_data)
{
	const struct vm_instr *in = &p->instrs[i];
	bool is_joined = in->map_op == MAP_FMA; /* a product and a sum */
	bool is_sum = in->op == OP_MAP && (in->result_elem == ELEM_F32 || in->result_elem == ELEM_F64) &&
		(in->map_op == MAP_ADDF || in->map_op == MAP_SUBF || is_joined);
	if (!is_sum || c->at[i] >= 0) return;
	int a = src_id(p, in, 0), b = src_id(p, in, is_joined ? 2 : 1);
	bool is_any = is_data[a] || is_data[b] || (is_joined && is_data[src_id(p, in, 1)]);
	if (!is_any || (a == b && !is_joined)) return;
	vm_maker_of(p, maker, &a);
	vm_maker_of(p, maker, &b);
	struct vm_site *s = vm_site_add(c, p, i, SITE_TERM, SIDE_ABOVE);
	s->first_is_known = !is_joined && !isnan(vm_constant_of(p, a));
	s->second_is_known = !isnan(vm_constant_of(p, b));
}

/* A constant from which on a sum is a step: what is at most one never is a
 * share of it that counts. */
#define STEP_BESIDE (1 / VM_TERM)

static bool is_sum_of_two(const struct vm_instr *in)
{
	return in->op == OP_MAP && (in->map_op == MAP_ADDF || in->map_op == MAP_SUBF) &&
		(in->result_elem == ELEM_F32 || in->result_elem == ELEM_F64);
}

/* A whole number that was the same in all lanes of all trials though what it is cut from was not
 * (1 / (1 + d) with d the distance from a point, as a whole number). It needs
 * no comparison either. Nor does a sum with a constant that is so large that it swallows the other
 * operand ((v + 2^23) - 2^23), which cuts it to whole last places of the constant. */
static void step_add(
	struct vm_coverage *c, const struct vm_program *p, int i, const int32_t *maker, const bool *is_data)
{
	const struct vm_instr *in = &p->instrs[i];
	double cut;
	bool any = false;
	if ((in->op != OP_MAP && in->op != OP_DIVIDE) || c->at[i] >= 0) return;
	for (int s = 0; s < in->nsrc; s++) any |= is_data[src_id(p, in, s)];
	if (!any || isnan(vm_step_whole(in, 1, 1, &cut))) return;
	/* Beside a small constant, or data, a term says whether it counts. */
	if (is_sum_of_two(in)) {
		int a = src_id(p, in, 0), b = src_id(p, in, 1);
		vm_maker_of(p, maker, &a);
		vm_maker_of(p, maker, &b);
		double first = fabs(vm_constant_of(p, a)), second = fabs(vm_constant_of(p, b));
		bool is_large = first >= STEP_BESIDE || second >= STEP_BESIDE;
		if (!is_large || isinf(first) || isinf(second)) return;
	}
	vm_site_add(c, p, i, SITE_STEP, SIDE_ABOVE);
}

struct vm_coverage *vm_coverage_create(const struct vm_kernel *k)
{
	const struct vm_program *p = &k->program;
	struct vm_coverage *c = xcalloc(1, sizeof *c);
	/* What is data, and which instruction makes each value. */
	bool *is_data = vm_data_find(p);
	int32_t *maker = xmalloc(size_mul((size_t)p->nvalues + 1, sizeof *maker));
	c->at = xmalloc(size_mul((size_t)p->ninstrs + 1, sizeof *c->at));
	c->first = p->instrs;
	c->ninstrs = p->ninstrs;
	c->program = p;
	c->kernel = k;
	memset(maker, 0xff, ((size_t)p->nvalues + 1) * sizeof *maker);
	memset(c->at, 0xff, ((size_t)p->ninstrs + 1) * sizeof *c->at);
	for (int i = 0; i < p->ninstrs; i++)
		for (int d = 0; d < p->instrs[i].ndst; d++) maker[dst_id(p, &p->instrs[i], d)] = i;
	/* Selects have the bits first, loads second, stores and atomics third; a
	 * branch has them alone. */
	for (int i = 0; i < p->ninstrs; i++) {
		const struct vm_instr *in = &p->instrs[i];
		if (in->op == OP_MAP) map_add(c, p, i, maker, is_data);
		else if (in->op == OP_SELECT) truth_add(c, p, i, 0, SITE_SELECT, maker, is_data);
		else if (in->op == OP_LOAD && in->nsrc > 1) truth_add(c, p, i, 1, SITE_MASK, maker, is_data);
		else if ((in->op == OP_STORE || in->op == OP_ATOMIC_RMW) && in->nsrc > 2)
			truth_add(c, p, i, 2, SITE_MASK, maker, is_data);
		else if (in->op == OP_JUMP_UNLESS) truth_add(c, p, i, 0, SITE_BRANCH, maker, is_data);
	}
	for (int i = 0; i < p->ninstrs; i++)
		if (c->at[i] >= 0 && !c->sites[c->at[i]].wanted) c->at[i] = -1;
	for (int i = 0; i < p->ninstrs; i++) step_add(c, p, i, maker, is_data);
	int32_t *watched = xmalloc(size_mul((size_t)p->ninstrs + 1, sizeof *watched));
	int nwatched = vm_digits_find(p, is_data, watched);
	for (int i = 0; i < nwatched; i++) {
		if (c->at[watched[i]] >= 0) {
			struct vm_site *step = &c->sites[c->at[watched[i]]];
			step->has_digits = true;
			step->is_beside_data = vm_digits_sum_of_data(p, &p->instrs[watched[i]], is_data);
			continue;
		}
		struct vm_site *s = vm_site_add(c, p, watched[i], SITE_DIGITS, SIDE_ABOVE);
		s->is_beside_data = vm_digits_sum_of_data(p, &p->instrs[watched[i]], is_data);
	}
	for (int i = 0; i < p->ninstrs; i++) {
		/* What a fold does inside is seen by its operands (check_sum.c). */
		bool is_fold = p->instrs[i].op == OP_REDUCE || p->instrs[i].op == OP_SCAN;
		if (is_fold && p->instrs[i].target > i) i = p->instrs[i].target - 1;
		else term_add(c, p, i, maker, is_data);
	}
	vm_sums_find(c, p, is_data);
	vm_gates_find(c, p, maker, is_data);
	vm_joints_find(c, p, maker, is_data);
	vm_poles_find(c, p, is_data);
	free(watched);
	free(is_data);
	free(maker);
	vm_coverage_begin(c);
	return c;
}

void vm_coverage_free(struct vm_coverage *c)
{
	if (!c) return;
	vm_joints_free(c);
	vm_sums_free(c);
	vm_gates_free(c);
	free(c->spans);
	free(c->held);
	free(c->sites);
	free(c->at);
	free(c);
}

void vm_coverage_begin(struct vm_coverage *c)
{
	vm_coverage_row(c, false);
	vm_sums_close(c);
	for (int i = 0; i < c->nsites; i++) {
		c->sites[i].is_told |= isfinite(c->sites[i].most) && !(c->sites[i].taken & c->sites[i].wanted);
		c->sites[i].has_usual |= c->sites[i].usual > 0;
		c->sites[i].least = c->sites[i].nearest = INFINITY;
		c->sites[i].most = -INFINITY;
		c->sites[i].lanes_now = 0;
		c->sites[i].fixed.nnow = 0;
	}
	vm_sums_begin(c);
}

int vm_coverage_sites(struct vm_coverage *c, const struct vm_site **out)
{
	if (!c->is_settled) vm_poles_settle(c);
	vm_sums_close(c);
	*out = c->sites;
	return c->nsites;
}

/* ---- recording ---- */

/* Lanes that take the sides of a comparison where it shows: whose operands are ordinary numbers, or
 * no further from each other than what is compared with is from zero. What a kernel adds beyond 30
 * drowns where the only value beyond 30 is 2^24. Beside an infinity nothing is nearer. */
#define ORDINARY 64
static void take_near(struct vm_site *s, const double *a, const double *b, int64_t n)
{
	for (int64_t i = 0; i < n; i++) {
		double d = a[i] - b[i], with = isnan(s->constant) ? fmin(fabs(a[i]), fabs(b[i])) : fabs(s->constant);
		bool shows = fabs(d) <= fmax(ORDINARY, with) || isinf(d);
		s->shown[0] += d < 0 && shows;
		s->shown[1] += d == 0;
		s->shown[2] += d > 0 && shows;
	}
}

/* So few lanes of all trials, among a million, may have been where nothing shows. */
#define FEW 4
/* Which sides were taken so that it shows; where inputs were searched for
 * them any lane is enough. */
static uint8_t shown_sides(const struct vm_site *s, bool is_search)
{
	bool is_truth = s->kind == SITE_SELECT || s->kind == SITE_MASK || s->kind == SITE_BRANCH;
	if (is_search || (s->kind != SITE_COMPARE && !is_truth)) return SIDE_BELOW | SIDE_EQUAL | SIDE_ABOVE;
	int64_t order = is_truth ? FEW : 1, equal = s->is_equality ? FEW : 1;
	return (s->shown[0] >= order ? SIDE_BELOW : 0) | (s->shown[1] >= equal ? SIDE_EQUAL : 0) |
		(s->shown[2] >= order ? SIDE_ABOVE : 0);
}

/* The comparisons leave NaN out. */
static void take(struct vm_site *s, const double *a, const double *b, int64_t n)
{
	double least = s->least, most = s->most, nearest = s->nearest;
	for (int64_t i = 0; i < n; i++) {
		double d = b ? a[i] - b[i] : a[i];
		double size = fabs(d);
		least = d < least ? d : least;
		most = d > most ? d : most;
		nearest = size < nearest ? size : nearest;
	}
	s->least = least;
	s->most = most;
	s->nearest = nearest;
}

static void take_sizes(struct vm_site *s, const double *a, int64_t n)
{
	for (int64_t i = 0; i < n; i++) {
		double size = fabs(a[i]);
		s->least = size < s->least ? size : s->least;
		s->most = size > s->most ? size : s->most;
	}
}

double vm_term_share(double a, double b, bool first_is_known, bool second_is_known, double usual)
{
	double x = fabs(a), y = fabs(b);
	if ((first_is_known && x <= y) || (second_is_known && y <= x)) return 1;
	double whole = MAX(MAX(x, y), usual / 16);
	return isfinite(x) && isfinite(y) && whole > 0 ? MIN(x, y) / whole : 0;
}

/* sum: of a product and a sum, what is added to the product of the other two; else NULL. */
static void take_terms(struct vm_site *s, const double *a, const double *b, const double *sum, int64_t n)
{
	double whole = 0;
	for (int64_t i = 0; !s->has_usual && i < n; i++) {
		double larger = MAX(fabs(sum ? a[i] * b[i] : a[i]), fabs(sum ? sum[i] : b[i]));
		whole += isfinite(larger) ? larger : 0;
	}
	s->usual = MAX(s->usual, whole / (double)n);
	double most = 0;
	for (int64_t i = 0; i < n; i++) {
		double x = sum ? a[i] * b[i] : a[i], y = sum ? sum[i] : b[i];
		most = MAX(most, vm_term_share(x, y, s->first_is_known, s->second_is_known, s->usual));
	}
	/* In powers of two: two that are next to nothing are not the same. */
	s->most = MAX(s->most, most > 0 ? log2(most / VM_TERM) : -VM_FAR);
}

double vm_step_whole(const struct vm_instr *in, double a, double b, double *cut)
{
	bool is_cast = in->map_op < 0 && in->nsrc == 1 && elem_is_float((enum elem)in->elem) &&
		elem_is_int((enum elem)in->result_elem) && in->result_elem != ELEM_I1;
	double x = a;
	switch (in->map_op) {
	case MAP_FLOOR: *cut = floor(a); return x;
	case MAP_CEIL: *cut = ceil(a); return x;
	case MAP_ROUND: *cut = round(a); return x;
	case MAP_ROUNDEVEN: *cut = rint(a); return x;
	case MAP_TRUNC: break;
	/* In last places of the constant, to which a sum is rounded. */
	case MAP_ADDF:
	case MAP_SUBF: {
		double larger = fmax(fabs(a), fabs(b)), smaller = fmin(fabs(a), fabs(b));
		if (!is_sum_of_two(in) || !isfinite(larger) || larger == 0) return NAN;
		x = ldexp(smaller, (in->result_elem == ELEM_F32 ? 23 : 52) - ilogb(larger));
		*cut = rint(x);
		return x;
	}
	case MAP_DIVSI:
	case MAP_DIVUI: x = b != 0 ? a / b : 0; break;
	case MAP_SHRSI:
	case MAP_SHRUI: x = ldexp(a, -(int)fmin(fmax(b, 0), 64)); break;
	default: x = is_cast ? a : NAN; break;
	}
	*cut = trunc(x);
	return x;
}

double vm_step_far(double x, double cut, double from)
{
	if (cut != from) return -1;
	/* Below one in powers of two, so that a millionth is on its way; elsewhere to
	 * the next whole number. */
	if (from == 0) return x == 0 ? VM_FAR : MAX(-log2(fabs(x)), 0);
	return 0.5 - fabs(fabs(x - floor(x)) - 0.5);
}

static void take_steps(struct vm_site *s, const struct vm_instr *in, const double *a, const double *b, int64_t n)
{
	for (int64_t i = 0; i < n; i++) {
		double cut = 0, x = vm_step_whole(in, a[i], b ? b[i] : 0, &cut);
		if (!isfinite(x)) continue;
		if (!s->has_first) s->distance = cut;
		s->has_first = true;
		s->most = MAX(s->most, -vm_step_far(x, cut, s->distance));
	}
}

static void take_truths(struct vm_site *s, const double *a, int64_t n)
{
	for (int64_t i = 0; i < n; i++) {
		if (a[i] != 0) s->most = 1;
		else s->least = -1;
		s->shown[a[i] != 0 ? 2 : 0]++;
	}
}

/* x below the lower bound, or above the upper one, of which each has a strip. */
static void take_clamp(struct vm_site *s, const double *x, const double *low, const double *high, int64_t n)
{
	for (int64_t i = 0; i < n; i++) {
		s->least = x[i] - low[i] < s->least ? x[i] - low[i] : s->least;
		s->most = x[i] - high[i] > s->most ? x[i] - high[i] : s->most;
	}
}

void vm_site_close(struct vm_site *s, bool is_search)
{
	/* A comparison's own d is 0 at the side between; an end is reached at its very number. */
	uint8_t sides = shown_sides(s, is_search);
	if (s->kind == SITE_END ? s->least <= s->low : s->least < s->low) s->taken |= SIDE_BELOW & sides;
	if (s->kind == SITE_END ? s->most >= s->high : s->most > s->high) s->taken |= SIDE_ABOVE & sides;
	if (s->nearest == 0) s->taken |= SIDE_EQUAL & sides;
}

void vm_cover_step(struct vm_ctx *c, const struct vm_instr *in, int site)
{
	struct vm_site *s = &c->coverage->sites[site];
	if (s->kind == SITE_DIGITS && s->is_beside_data && !c->coverage->is_turned) vm_digits_operands(c, in, s);
	/* What the instruction makes is looked at behind it. */
	if (s->number) vm_gate_look(c, in, s);
	if (s->kind == SITE_DIGITS || s->kind == SITE_GATE || c->coverage->is_turned) return;
	bool is_truth = s->kind == SITE_SELECT || s->kind == SITE_MASK || s->kind == SITE_BRANCH;
	int first = is_truth ? (int)s->constant : s->by_size && in->nsrc > 1 ? 1 : 0;
	int count = s->kind == SITE_TERM || s->kind == SITE_STEP ? in->nsrc
		: s->kind == SITE_COMPARE || s->kind == SITE_EXTREME ? 2
		: s->kind == SITE_CLAMP                              ? 3
															 : 1;
	struct vm_reader r[3];
	bool all_splat = true;
	int64_t n = in->n ? in->n : c->lanes;
	for (int i = 0; i < count; i++) {
		/* A value that cannot be made (the arena is full) is the next instruction's fault, not
		 * ours. */
		if (!vm_reader_make(c, in, first + i, n, &r[i])) return;
		all_splat &= r[i].is_splat;
	}
	if (all_splat) n = 1;
	for (int64_t at = 0; at < n; at += VM_STRIP) {
		int64_t m = MIN(n - at, VM_STRIP);
		const double *x = vm_reader_strip(&r[0], at, m), *y = count > 1 ? vm_reader_strip(&r[1], at, m) : NULL;
		if (is_truth) take_truths(s, x, m);
		else if (s->by_size) take_sizes(s, x, m);
		else if (s->kind == SITE_STEP) take_steps(s, in, x, y, m);
		else if (s->kind == SITE_TERM) take_terms(s, x, y, count == 3 ? vm_reader_strip(&r[2], at, m) : NULL, m);
		else if (count == 3) take_clamp(s, x, y, vm_reader_strip(&r[2], at, m), m);
		else take(s, x, y, m);
		if (s->kind == SITE_COMPARE) take_near(s, x, y, m);
		/* Only an order stays open for long: its operands are seldom equal. */
		if (s->kind == SITE_COMPARE && isnan(s->constant) && !at) vm_fixed_look(s, x, y, m);
	}
	vm_site_close(s, c->coverage->is_search);
	if (s->pole >= 0) vm_pole_look(c->coverage, s);
	/* One that is watched as a number stays until it was another one, and an end
	 * until its pole was met. */
	if ((s->taken & s->wanted) != s->wanted || (s->number && s->results < 2)) return;
	if (s->pole >= 0 && !c->coverage->sites[s->pole].taken) return;
	c->coverage->at[in - c->coverage->first] = -1;
	/* A step that gives several results may still lose the digits of each. */
	if (s->kind != SITE_STEP || !s->has_digits) return;
	s->kind = SITE_DIGITS;
	s->taken = 0;
	c->coverage->at[in - c->coverage->first] = site;
}

void vm_cover_result(struct vm_ctx *c, const struct vm_instr *in, int site)
{
	struct vm_site *s = &c->coverage->sites[site];
	if (s->kind == SITE_DIGITS && !c->coverage->is_turned) vm_digits_step(c, in, s);
	if (s->is_gate) vm_gate_step(c, in, s);
}
