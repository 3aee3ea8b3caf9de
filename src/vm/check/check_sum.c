/* Sums of more than two operands, and sums that no instruction of two operands makes: reductions,
 * scans, products of matrices, atomics, inline assembly.
 *
 * Each operand of such a sum is a *term* of its own: a place along the axis that is reduced, a
 * column of a product and what is added to the product, what memory held and what is added to it in
 * each lane, the two operands of each addition of a text. A term counts where it is not below
 * VM_TERM of the largest of its sum. What was 0 wherever it was seen is padding, or what an earlier
 * mask or branch decides, each of which has a site of its own; a term that was something and,
 * however often it was looked at, never counted is open, as an operand of a plain sum is
 * (check_cover.c), and aims look for inputs at which it does.
 *
 * Where nothing new was seen for a while, a sum is looked at less often: padded ones stay watched
 * to the end. A term of a fold or of a pair that was always 0 and is not now is looked at in any
 * case: it may be so in one lane of all trials. */
#include "vm/check/check.h"
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

#define TERMS_MAX ((int64_t)1 << 16)
#define ATOMIC_ADD_FLOAT 4 /* imm[0] of an atomic */
#define QUIET_MAX 64       /* looks without anything new, after which */
#define QUIET_STEP 16      /* one of so many is left */

#define LOOKS_LEAST 8      /* a term that was looked at less often says nothing yet */

/* Of a term: how often it was looked at, up to LOOKS_LEAST, and what was seen. */
enum { TERM_LOOKS = 63, TERM_SEEN = 64, TERM_COUNTED = 128 };
static bool is_open(uint8_t state)
{
	return state & TERM_SEEN && !(state & TERM_COUNTED) && (state & TERM_LOOKS) == LOOKS_LEAST;
}

/* ---- which instructions are such sums ---- */

static bool is_wide(enum elem e) { return e == ELEM_F32 || e == ELEM_F64; }

static bool is_addition(const struct vm_instr *in)
{
	return in->op == OP_INLINE_ASM ||
		(in->op == OP_MAP &&
			(in->map_op == MAP_ADDF || in->map_op == MAP_SUBF || in->map_op == MAP_FMA || in->map_op == MAP_FMS ||
				in->map_op == MAP_FNMA));
}

/* By a known operation, or by what its region does. */
static bool region_adds(const struct vm_program *p, const struct vm_instr *in)
{
	if (in->kernel) return in->imm[1] == MAP_ADDF;
	for (const struct vm_instr *r = in + 1; r < p->instrs + in->target; r++)
		if (is_addition(r)) return true;
	return false;
}

static int64_t terms_of(const struct vm_program *p, const struct vm_instr *in)
{
	switch (in->op) {
	case OP_REDUCE:
	case OP_SCAN: return region_adds(p, in) ? in->nsrc * ((const struct region_shape *)in->extra)->len : 0;
	case OP_DOT: return is_wide((enum elem)in->result_elem) ? in->imm[3] + 1 : 0;
	case OP_ATOMIC_RMW: return in->imm[0] == ATOMIC_ADD_FLOAT && is_wide((enum elem)in->result_elem) ? 2 * in->n : 0;
	case OP_INLINE_ASM: return 2 * ptx_sums(&((const struct asm_block *)in->extra)->code, NULL);
	default: return 0;
	}
}

/* What the kernel alone says is known. */
static bool is_looked_at(const struct vm_program *p, const struct vm_instr *in, const bool *is_data, int64_t term)
{
	if (in->op == OP_DOT) return term < in->imm[3] || is_data[src_id(p, in, 2)];
	if (in->op == OP_ATOMIC_RMW) return term % 2 == 0 || is_data[src_id(p, in, 1)];
	if (in->op == OP_INLINE_ASM) return true;
	int source = (int)(term / ((const struct region_shape *)in->extra)->len);
	return source < SUM_USUAL_MAX && is_data[src_id(p, in, source)] && is_wide(p->values[src_id(p, in, source)].elem);
}

static void sum_add(struct vm_coverage *c, const struct vm_program *p, int i, const bool *is_data)
{
	const struct vm_instr *in = &p->instrs[i];
	int64_t n = terms_of(p, in);
	bool any = in->op == OP_ATOMIC_RMW;
	for (int s = 0; s < in->nsrc; s++) any |= is_data[src_id(p, in, s)];
	if (!any || n < 2 || n > TERMS_MAX) return;
	/* The instruction may have a site already, which stays its own. */
	int32_t own = c->at[i];
	struct vm_site *s = vm_site_add(c, p, i, SITE_TERM, SIDE_ABOVE);
	/* Nothing is open that was not seen. */
	s->taken = SIDE_ABOVE;
	c->sums = xrealloc(c->sums, size_mul((size_t)c->nsums + 1, sizeof *c->sums));
	struct vm_sum *sum = &c->sums[c->nsums++];
	*sum = (struct vm_sum){.site = c->at[i], .instr = i, .nterms = n, .first = xcalloc((size_t)n, 1)};
	c->at[i] = own;
	for (int64_t k = 0; k < n; k++)
		if (!is_looked_at(p, in, is_data, k)) sum->first[k] = TERM_SEEN | TERM_COUNTED;
}

void vm_sums_find(struct vm_coverage *c, const struct vm_program *p, const bool *is_data)
{
	c->sum_at = xmalloc(size_mul((size_t)p->ninstrs + 1, sizeof *c->sum_at));
	memset(c->sum_at, 0xff, ((size_t)p->ninstrs + 1) * sizeof *c->sum_at);
	for (int i = 0; i < p->ninstrs; i++) {
		const struct vm_instr *in = &p->instrs[i];
		sum_add(c, p, i, is_data);
		/* What a fold does inside is seen by its operands. */
		if (in->op == OP_REDUCE || in->op == OP_SCAN) i = MAX(i, in->target - 1);
	}
	for (int i = 0; i < c->nsums; i++) c->sum_at[c->sums[i].instr] = i;
	if (!c->nsums) {
		free(c->sum_at);
		c->sum_at = NULL;
	}
}

void vm_sums_free(struct vm_coverage *c)
{
	for (int i = 0; i < c->nsums; i++) vm_sum_release(&c->sums[i]);
	free(c->sums);
	free(c->sum_at);
}

void vm_sums_close(struct vm_coverage *c)
{
	for (int i = 0; i < c->nsums; i++) {
		const struct vm_sum *sum = &c->sums[i];
		bool is_left = false;
		for (int k = 0; k < sum->nsizes; k++) is_left |= sum->at[k].is_met && sum->at[k].nopen;
		c->sites[sum->site].taken = is_left ? 0 : SIDE_ABOVE;
	}
}

void vm_sums_begin(struct vm_coverage *c)
{
	for (int i = 0; i < c->nsums; i++)
		for (int k = 0; k < c->sums[i].nsizes; k++) c->sums[i].at[k].is_met = false;
}

static uint8_t *terms_copy(const struct vm_sum *sum, const uint8_t *terms)
{
	uint8_t *out = xmalloc((size_t)sum->nterms);
	memcpy(out, terms, (size_t)sum->nterms);
	return out;
}

struct vm_sum vm_sum_copy(const struct vm_sum *sum)
{
	struct vm_sum out = *sum;
	out.first = terms_copy(sum, sum->first);
	for (int i = 0; i < sum->nsizes; i++) out.at[i].terms = terms_copy(sum, sum->at[i].terms);
	return out;
}

void vm_sum_release(struct vm_sum *sum)
{
	for (int i = 0; i < sum->nsizes; i++) free(sum->at[i].terms);
	free(sum->first);
}

/* What was seen at the running launch's sizes. */
static struct vm_sum_states *states_of(struct vm_sum *sum, uint64_t sizes)
{
	for (int i = 0; i < sum->nsizes; i++)
		if (sum->at[i].sizes == sizes || i + 1 == SUM_SIZES_MAX) return &sum->at[i];
	struct vm_sum_states *new = &sum->at[sum->nsizes++];
	*new = (struct vm_sum_states){.sizes = sizes, .terms = terms_copy(sum, sum->first)};
	for (int64_t k = 0; k < sum->nterms; k++) new->ncounted += (new->terms[k] & TERM_COUNTED) != 0;
	return new;
}

/* ---- how much of its sum each operand is ---- */

/* One operand of one sum. share: of the largest; NaN where a number is not finite. origin: which
 * element of which source it is; -1: what memory held at `address`. */
struct share {
	double share;
	int32_t term;
	int32_t source;
	int64_t element;
	uint64_t address;
};
struct shares {
	int64_t n;
	int64_t cap;
	struct share *all; /* heap */
};
struct numbers {
	int64_t n; /* 1: one for all */
	double *x; /* heap, magnitudes */
};

static void share_put(struct shares *s, double share, int64_t term, int source, int64_t element)
{
	if (s->n == s->cap) {
		s->cap = MAX(2 * s->cap, 256);
		s->all = xrealloc(s->all, size_mul((size_t)s->cap, sizeof *s->all));
	}
	s->all[s->n++] = (struct share){.share = share, .term = (int32_t)term, .source = source, .element = element};
}

static bool numbers_get(struct vm_ctx *c, const struct vm_instr *in, int source, struct numbers *out)
{
	struct vm_reader r;
	int64_t n = MAX(c->program->values[vm_src(c, in, source)].count, 1);
	*out = (struct numbers){.n = 0};
	if (!vm_reader_make(c, in, source, n, &r)) return false;
	out->n = r.is_splat ? 1 : n;
	out->x = xmalloc(size_mul((size_t)out->n, sizeof *out->x));
	for (int64_t at = 0; at < out->n; at += VM_STRIP) {
		int64_t m = MIN(out->n - at, VM_STRIP);
		const double *strip = vm_reader_strip(&r, at, m);
		for (int64_t i = 0; i < m; i++) out->x[at + i] = fabs(strip[i]);
	}
	return true;
}
static double number_at(const struct numbers *v, int64_t i) { return v->x[v->n == 1 ? 0 : i]; }

/* Beside next to nothing, whatever is left would count: what the largest usually is is known of the
 * first trial. rows: how many sums `whole` is the sum of. */
static void usual_note(struct vm_sum *sum, int k, double whole, int64_t rows)
{
	if (!sum->has_usual && rows && isfinite(whole)) sum->usual[k] = MAX(sum->usual[k], whole / (double)rows);
}
static double share_of(double x, double whole, double usual)
{
	if (!isfinite(x) || !isfinite(whole)) return NAN;
	whole = MAX(whole, usual / 16);
	return whole > 0 ? x / whole : 0;
}

/* NaN where one is. */
static double larger(double a, double b) { return isnan(a) || a >= b ? a : b; }

/* Places along the axis. */
static void fold_shares(struct vm_ctx *c, const struct vm_instr *in, struct vm_sum *sum, struct shares *out)
{
	const struct region_shape *r = in->extra;
	for (int s = 0; s < MIN(in->nsrc, SUM_USUAL_MAX); s++) {
		struct numbers v;
		if (!is_wide(c->program->values[vm_src(c, in, s)].elem) || !numbers_get(c, in, s, &v)) continue;
		int64_t rows = r->outer * r->inner;
		double *whole = xcalloc((size_t)rows, sizeof *whole), all = 0;
		for (int64_t i = 0; i < rows * r->len; i++) {
			int64_t row = i / (r->len * r->inner) * r->inner + i % r->inner;
			whole[row] = larger(whole[row], number_at(&v, i));
		}
		for (int64_t i = 0; i < rows; i++) all += isfinite(whole[i]) ? whole[i] : 0;
		usual_note(sum, s, all, rows);
		for (int64_t i = 0; i < rows * r->len; i++) {
			int64_t row = i / (r->len * r->inner) * r->inner + i % r->inner;
			share_put(
				out, share_of(number_at(&v, i), whole[row], sum->usual[s]), s * r->len + i / r->inner % r->len, s, i);
		}
		free(whole);
		free(v.x);
	}
}

/* Columns of a product, by the largest that the other operand has for them, and what is added. */
static void dot_shares(struct vm_ctx *c, const struct vm_instr *in, struct vm_sum *sum, struct shares *out)
{
	int64_t batch = in->imm[0], m = in->imm[1], n = in->imm[2], k = in->imm[3];
	struct numbers v[3] = {{0}};
	double *row = xcalloc((size_t)(m + n + 2 * k), sizeof *row), *column = row + m, *left = column + n,
		   *right = left + k, all = 0;
	bool is_made = numbers_get(c, in, 0, &v[0]) && numbers_get(c, in, 1, &v[1]) && numbers_get(c, in, 2, &v[2]);
	for (int64_t b = 0; is_made && b < batch; b++) {
		int64_t at[3] = {b * m * k, b * k * n, b * m * n};
		/* The largest of each operand for a column. */
		memset(row, 0, (size_t)(m + n + 2 * k) * sizeof *row);
		for (int64_t i = 0; i < m * k; i++) left[i % k] = larger(left[i % k], number_at(&v[0], at[0] + i));
		for (int64_t i = 0; i < k * n; i++) right[i / n] = larger(right[i / n], number_at(&v[1], at[1] + i));
		for (int64_t i = 0; i < m * k; i++) row[i / k] = larger(row[i / k], number_at(&v[0], at[0] + i) * right[i % k]);
		for (int64_t i = 0; i < k * n; i++)
			column[i % n] = larger(column[i % n], number_at(&v[1], at[1] + i) * left[i / n]);
		for (int64_t i = 0; i < m * n; i++) {
			double x = number_at(&v[2], at[2] + i);
			row[i / n] = larger(row[i / n], x);
			column[i % n] = larger(column[i % n], x);
		}
		all = 0;
		for (int64_t i = 0; i < m; i++) all += row[i];
		usual_note(sum, 0, all, m);
		double usual = sum->usual[0];
		/* Elements of the left operand, of the right one, and what is added. */
		for (int64_t i = 0; i < m * k; i++)
			share_put(
				out, share_of(number_at(&v[0], at[0] + i) * right[i % k], row[i / k], usual), i % k, 0, at[0] + i);
		for (int64_t i = 0; i < k * n; i++)
			share_put(
				out, share_of(number_at(&v[1], at[1] + i) * left[i / n], column[i % n], usual), i / n, 1, at[1] + i);
		for (int64_t i = 0; i < m * n; i++)
			share_put(out, share_of(number_at(&v[2], at[2] + i), row[i / n], usual), k, 2, at[2] + i);
	}
	for (int i = 0; i < 3; i++) free(v[i].x);
	free(row);
}

/* Two operands of one sum. A constant that is the smaller is known, and what is added to 0 is no
 * share of anything. */
static void pair_put(struct shares *out, const struct vm_sum_pair *p, double usual)
{
	double x[2] = {fabs(p->x[0]), fabs(p->x[1])}, whole = larger(x[0], x[1]);
	for (int k = 0; k < 2; k++) {
		double share = p->is_known[k] && isfinite(whole) ? 1 : x[1 - k] == 0 ? NAN : share_of(x[k], whole, usual);
		share_put(out, share, p->term + k, p->source[k], p->element);
		out->all[out->n - 1].address = p->address;
	}
}

static void pairs_shares(struct vm_sum *sum, const struct vm_sum_pair *pairs, int64_t n, struct shares *out)
{
	/* By addition, of which a text may have several. */
	double all[SUM_USUAL_MAX] = {0};
	int64_t count[SUM_USUAL_MAX] = {0};
	for (int64_t i = 0; i < n; i++) {
		double whole = larger(fabs(pairs[i].x[0]), fabs(pairs[i].x[1]));
		int k = pairs[i].number % SUM_USUAL_MAX;
		all[k] += isfinite(whole) ? whole : 0;
		count[k]++;
	}
	for (int k = 0; k < SUM_USUAL_MAX; k++) usual_note(sum, k, all[k], count[k]);
	for (int64_t i = 0; i < n; i++) pair_put(out, &pairs[i], sum->usual[pairs[i].number % SUM_USUAL_MAX]);
}

/* ---- looks ---- */

static void state_note(struct vm_sum_states *to, const struct share *s)
{
	uint8_t was = to->terms[s->term], now = was;
	if (isnan(s->share) || was & TERM_COUNTED) return;
	now += (now & TERM_LOOKS) < LOOKS_LEAST;
	if (s->share > 0) now |= TERM_SEEN;
	if (s->share > VM_TERM) now |= TERM_COUNTED;
	to->terms[s->term] = now;
	to->nopen += is_open(now) - is_open(was);
	to->ncounted += (now & TERM_COUNTED) != 0;
	if ((now ^ was) & (TERM_SEEN | TERM_COUNTED)) to->quiet = -1;
}

static void cover_take(struct vm_ctx *c, struct vm_sum *sum, const struct shares *shares)
{
	struct vm_site *s = &c->coverage->sites[sum->site];
	struct vm_sum_states *to = states_of(sum, c->sizes);
	double most = 0;
	for (int64_t i = 0; i < shares->n; i++) state_note(to, &shares->all[i]);
	for (int64_t i = 0; i < shares->n; i++)
		if (is_open(to->terms[shares->all[i].term])) most = fmax(most, shares->all[i].share);
	if (most > 0) s->most = MAX(s->most, log2(most / VM_TERM));
	s->usual = sum->usual[0];
	to->quiet++;
}

/* A term that counted elsewhere says nothing, and where it is 0 nothing leads to another value. */
static void aim_take(struct vm_ctx *c, const struct vm_instr *in, struct vm_sum *sum, const struct shares *shares)
{
	const struct vm_sum_states *seen = states_of(sum, c->sizes);
	for (int64_t i = 0; i < shares->n; i++) {
		const struct share *s = &shares->all[i];
		bool is_flat = isnan(s->share) || (c->aim->choose && s->share == 0);
		double far = !is_open(seen->terms[s->term]) || is_flat ? NAN : s->share > 0 ? log2(VM_TERM / s->share) : VM_FAR;
		vm_aim_term(c, in, i, far, s->source, s->element, s->address);
	}
	vm_aim_turn(c->aim);
}

/* Some operand of a fold is not 0 whose place was 0 so far. */
static bool fold_is_new(struct vm_ctx *c, const struct vm_instr *in, const struct vm_sum_states *seen)
{
	const struct region_shape *r = in->extra;
	for (int s = 0; s < MIN(in->nsrc, SUM_USUAL_MAX); s++) {
		struct vm_reader v;
		if (!is_wide(c->program->values[vm_src(c, in, s)].elem) ||
			!vm_reader_make(c, in, s, r->outer * r->len * r->inner, &v))
			continue;
		size_t size = elem_bytes(v.elem);
		for (int64_t i = 0; i < r->outer * r->len * r->inner; i++) {
			if (seen->terms[s * r->len + i / r->inner % r->len] & TERM_SEEN) continue;
			uint64_t bits = 0;
			memcpy(&bits, v.data + (v.is_splat ? 0 : (size_t)i * size), size);
			if (bits << (65 - 8 * size)) return true; /* zeros have two signs */
		}
	}
	return false;
}

static bool is_new(struct vm_ctx *c, const struct vm_instr *in, const struct vm_sum_states *seen,
	const struct vm_sum_pair *pairs, int64_t n)
{
	for (int64_t i = 0; i < n; i++)
		for (int k = 0; k < 2; k++)
			if (pairs[i].x[k] != 0 && !(seen->terms[pairs[i].term + k] & TERM_SEEN)) return true;
	return (in->op == OP_REDUCE || in->op == OP_SCAN) && fold_is_new(c, in, seen);
}

/* The sum, where it is to be looked at now. pairs (n): its operands, where they are known. */
static struct vm_sum *covered_of(
	struct vm_ctx *c, const struct vm_instr *in, const struct vm_sum_pair *pairs, int64_t n)
{
	struct vm_coverage *k = c->coverage;
	int at = k && k->sum_at && !k->is_turned ? k->sum_at[in - k->first] : -1;
	struct vm_sum *sum = at < 0 ? NULL : &k->sums[at];
	struct vm_sum_states *seen = sum ? states_of(sum, c->sizes) : NULL;
	if (!sum || seen->ncounted == sum->nterms) return NULL;
	seen->is_met = true;
	if (seen->quiet > QUIET_MAX && seen->looks++ % QUIET_STEP && !is_new(c, in, seen, pairs, n)) return NULL;
	sum->has_usual = k->sites[sum->site].has_usual;
	return sum;
}

static void shares_of(struct vm_ctx *c, const struct vm_instr *in, struct vm_sum *sum, struct shares *out)
{
	*out = (struct shares){.n = 0};
	if (in->op == OP_DOT) dot_shares(c, in, sum, out);
	else if (in->op == OP_REDUCE || in->op == OP_SCAN) fold_shares(c, in, sum, out);
}

void vm_sum_cover(struct vm_ctx *c, const struct vm_instr *in)
{
	struct shares shares;
	bool is_pair = in->op == OP_ATOMIC_RMW || in->op == OP_INLINE_ASM;
	struct vm_sum *sum = is_pair ? NULL : covered_of(c, in, NULL, 0);
	if (!sum) return;
	shares_of(c, in, sum, &shares);
	cover_take(c, sum, &shares);
	free(shares.all);
}

void vm_sum_aim(struct vm_ctx *c, const struct vm_instr *in, struct vm_sum *sum)
{
	struct shares shares;
	if (in->op == OP_ATOMIC_RMW || in->op == OP_INLINE_ASM) return;
	shares_of(c, in, sum, &shares);
	aim_take(c, in, sum, &shares);
	free(shares.all);
}

/* ---- sums that are seen while they are made ---- */

bool vm_sum_wants_pairs(const struct vm_ctx *c, const struct vm_instr *in)
{
	const struct vm_coverage *k = c->coverage;
	int at = k && k->sum_at ? k->sum_at[in - k->first] : -1;
	bool is_covered = at >= 0;
	for (int i = 0; is_covered && i < k->sums[at].nsizes; i++)
		is_covered = k->sums[at].at[i].sizes != c->sizes || k->sums[at].at[i].ncounted < k->sums[at].nterms;
	return is_covered || vm_aim_sum(c, in);
}

void vm_sum_pairs(struct vm_ctx *c, const struct vm_instr *in, const struct vm_sum_pair *pairs, int64_t n)
{
	struct vm_sum *covered = covered_of(c, in, pairs, n), *aimed = vm_aim_sum(c, in);
	struct shares shares = {.n = 0};
	if (covered) {
		pairs_shares(covered, pairs, n, &shares);
		cover_take(c, covered, &shares);
	}
	shares.n = 0;
	if (aimed) {
		pairs_shares(aimed, pairs, n, &shares);
		aim_take(c, in, aimed, &shares);
	}
	free(shares.all);
}
