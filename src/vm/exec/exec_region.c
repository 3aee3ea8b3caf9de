/* Reductions and scans along one axis of a block seen as (outer, length, inner), and maps with a
 * region.
 *
 * A known operation reduces by halves: the upper half of the axis is combined into the lower until
 * one element is left, contiguous memory all the way, and the rounding error of a sum grows with
 * log2(length). A general region combines neighbours, which keeps their order. Scans double the
 * distance (Hillis and Steele 1986), in order too. A region with control flow runs element by
 * element.
 *
 * A GPU does not keep the order of a reduction: each thread folds the elements it holds, then
 * threads combine theirs with those of threads far away, each on its own side of the function. So
 * there is a second order, crosswise, in which quarters of the axis are folded, neither forwards
 * nor backwards, and then halves meet, the upper one on the left. A function that commutes and
 * associates gives the same up to rounding.
 *
 * A scan keeps the order, but not the brackets: a thread scans the elements that it holds one by
 * one, the threads' last ones are scanned, and what came before a thread is combined with each of
 * its own. Crosswise a scan goes that way, with four elements a thread. */
#include "vm/check/check.h"
#include "base/base.h"
#include "cost/cost.h"
#include "ttir/ttir.h"
#include "vm/core/program.h"
#include "vm/core/state.h"
#include "vm/exec/exec.h"
#include "vm/meter/meter.h"

int exec_region_begin(struct vm_ctx *c, const struct vm_instr *in) { return 0; }
int exec_region_end(struct vm_ctx *c, const struct vm_instr *in) { return 0; }

#define OPERANDS_MAX 64
struct combine {
	struct vm_ctx *c;
	const struct vm_instr *in;    /* the reduction or scan */
	const struct vm_instr *begin; /* first instruction of its region; NULL: none is run */
	const struct vm_instr *end;   /* the last one, which names the results */
	struct region_shape shape;
	int n; /* operands */
	size_t size[OPERANDS_MAX];
};

static int combine_init(struct combine *k, struct vm_ctx *c, const struct vm_instr *in)
{
	*k = (struct combine){.c = c, .in = in, .n = in->nsrc};
	if (in->op != OP_MAP_REGION) k->shape = *(const struct region_shape *)in->extra;
	if (in->nsrc > OPERANDS_MAX || in->ndst > OPERANDS_MAX)
		return vm_fault(c, in, VM_FAULT_UNSUPPORTED, -1, "a region of more than %d operands", OPERANDS_MAX);
	for (int i = 0; i < k->n; i++) k->size[i] = elem_bytes(c->program->values[vm_src(c, in, i)].elem);
	if (in->target >= 0) {
		k->begin = in + 1;
		k->end = c->program->instrs + in->target - 1;
	}
	return 0;
}

static void count_pairs(struct vm_ctx *c, const struct vm_instr *in, int64_t pairs)
{
	if (!c->want_cost) return;
	struct vm_cost *cost = vm_cost_row(c, in);
	cost->flops += in->flops * pairs;
	cost->special += in->special * pairs;
}

static void set_splat(struct vm_ctx *c, int id, const void *bits, size_t size)
{
	struct vm_value *v = &c->values[id];
	vm_value_clear(c, v);
	v->form = FORM_SPLAT;
	v->splat_int = 0;
	memcpy(v->splat, bits, size);
}

/* Runs the region once over `lanes`; cost was counted by the caller. */
static int run_region(struct combine *k, int64_t lanes)
{
	struct vm_ctx *c = k->c;
	bool want = c->want_cost;
	int64_t outer = c->lanes;
	c->want_cost = false;
	c->counts_region = want && vm_cost_plan(c, k->in)->is_metered;
	c->lanes = lanes;
	c->fuel -= lanes;
	int rc = vm_run(c, k->begin, k->end + 1);
	c->counts_region = false;
	c->want_cost = want;
	c->lanes = outer;
	return rc;
}

/* Copies result i of the region, lanes elements, whatever its form. */
static void take_result(struct combine *k, int i, uint8_t *d, int64_t lanes, size_t size)
{
	struct vm_value *v = &k->c->values[vm_src(k->c, k->end, i)];
	if (v->form == FORM_SPLAT) vm_fill(d, v->splat, size, lanes);
	else memcpy(d, v->buf->data, (size_t)lanes * size);
}

/* The finished buffer of result i: a scalar when the block had one dimension. */
static void finish_result(struct vm_ctx *c, const struct vm_instr *in, int i, struct vm_buf *b)
{
	if (c->program->values[vm_dst(c, in, i)].ndim == 0) {
		vm_result_splat(c, in, i, b->data);
		vm_buf_put(c, b);
	} else {
		vm_value_dense(c, vm_dst(c, in, i), b);
	}
}

/* ---- a known operation ---- */

static void apply(const struct vm_instr *in, void *d, const void *a, const void *b, int64_t n)
{
	if (in->imm[0]) vm_map_narrow(in, d, a, b, n);
	else in->kernel(d, a, b, NULL, n, 0);
}

static int reduce_known(struct combine *k)
{
	struct vm_ctx *c = k->c;
	const struct vm_instr *in = k->in;
	int64_t len = k->shape.len, inner = k->shape.inner, row = len * inner;
	size_t size = k->size[0];
	/* The operand as plain memory, room for the result and for the half-way sums. */
	const uint8_t *s = vm_dense(c, in, vm_src(c, in, 0), k->shape.outer * row);
	struct vm_buf *d = s ? vm_buf_get(c, in, (size_t)(k->shape.outer * inner) * size) : NULL,
				  *t = d ? vm_buf_get(c, in, (size_t)MAX(row / 2, 1) * size) : NULL;
	if (!t) {
		vm_buf_put(c, d);
		return 1;
	}
	/* Halves of a row meet, then halves of what came out, until `inner` results are left:
	 * lengths are powers of two. */
	for (int64_t o = 0; o < k->shape.outer; o++) {
		const uint8_t *from = s + (size_t)(o * row) * size;
		uint8_t *to = d->data + (size_t)(o * inner) * size;
		if (len == 1) {
			memcpy(to, from, (size_t)inner * size);
			continue;
		}
		for (int64_t half = row / 2;; half /= 2, from = t->data) {
			bool is_last = half == inner;
			apply(in, is_last ? to : t->data, from, from + (size_t)half * size, half);
			if (is_last) break;
		}
	}
	vm_buf_put(c, t);
	finish_result(c, in, 0, d);
	return 0;
}

static int scan_known_row(struct combine *k, uint8_t *x, uint8_t *t, int64_t row)
{
	size_t size = k->size[0];
	for (int64_t d = k->shape.inner; d < row; d *= 2) {
		apply(k->in, t, x, x + (size_t)d * size, row - d);
		memcpy(x + (size_t)d * size, t, (size_t)(row - d) * size);
	}
	return 0;
}

/* ---- order of the axis ---- */

static void flip(uint8_t *d, const uint8_t *s, const struct region_shape *shape, size_t size)
{
	size_t chunk = (size_t)shape->inner * size;
	for (int64_t o = 0; o < shape->outer; o++)
		for (int64_t i = 0; i < shape->len; i++)
			memcpy(d + (size_t)(o * shape->len + i) * chunk, s + (size_t)(o * shape->len + shape->len - 1 - i) * chunk,
				chunk);
}

/* Elements [from, from + count * step) of every row's axis at a step, made contiguous. */
static void pick(
	uint8_t *d, const uint8_t *s, int64_t outer, int64_t len, int64_t chunk, int64_t from, int64_t step, int64_t count)
{
	for (int64_t o = 0; o < outer; o++, d += count * chunk) {
		const uint8_t *row = s + (o * len + from) * chunk;
		if (step == 1) {
			memcpy(d, row, (size_t)(count * chunk));
			continue;
		}
		switch (chunk) {
		case 4:
			for (int64_t i = 0; i < count; i++) memcpy(d + i * 4, row + i * step * 4, 4);
			break;
		case 8:
			for (int64_t i = 0; i < count; i++) memcpy(d + i * 8, row + i * step * 8, 8);
			break;
		default:
			for (int64_t i = 0; i < count; i++) memcpy(d + i * chunk, row + i * step * chunk, (size_t)chunk);
			break;
		}
	}
}

/* Sets the region's two argument lists from rows of cur: first from index
 * a, second from index b. */
static int set_pairs(
	struct combine *k, struct vm_buf **cur, int64_t len, int64_t a, int64_t b, int64_t step, int64_t count)
{
	struct vm_ctx *c = k->c;
	for (int i = 0; i < 2 * k->n; i++) {
		int64_t chunk = k->shape.inner * (int64_t)k->size[i % k->n];
		struct vm_buf *x = vm_buf_get(c, k->in, (size_t)(k->shape.outer * count * chunk));
		if (!x) return 1;
		pick(x->data, cur[i % k->n]->data, k->shape.outer, len, chunk, i < k->n ? a : b, step, count);
		vm_value_dense(c, vm_dst(c, k->begin, i), x);
	}
	return run_region(k, k->shape.outer * count * k->shape.inner);
}

static void put_all(struct vm_ctx *c, struct vm_buf **b, int n)
{
	for (int i = 0; i < n; i++) vm_buf_put(c, b[i]);
}

/* A private copy of every operand, flipped when asked. */
static int copy_operands(struct combine *k, struct vm_buf **cur, bool reverse)
{
	struct vm_ctx *c = k->c;
	int64_t count = k->shape.outer * k->shape.len * k->shape.inner;
	for (int i = 0; i < k->n; i++) {
		const uint8_t *s = vm_dense(c, k->in, vm_src(c, k->in, i), count);
		cur[i] = s ? vm_buf_get(c, k->in, (size_t)count * k->size[i]) : NULL;
		if (!cur[i]) {
			put_all(c, cur, i);
			return 1;
		}
		if (reverse) flip(cur[i]->data, s, &k->shape, k->size[i]);
		else memcpy(cur[i]->data, s, (size_t)count * k->size[i]);
	}
	return 0;
}

/* ---- general regions ---- */

/* The region's results, count to a row, become elements [at, at + count) of rows of len. */
static void put_rows(struct combine *k, struct vm_buf **cur, int64_t len, int64_t at, int64_t count)
{
	int64_t inner = k->shape.inner;
	for (int i = 0; i < k->n; i++) {
		size_t chunk = (size_t)(count * inner) * k->size[i];
		struct vm_value *v = &k->c->values[vm_src(k->c, k->end, i)];
		for (int64_t o = 0; o < k->shape.outer; o++) {
			uint8_t *to = cur[i]->data + (size_t)((o * len + at) * inner) * k->size[i];
			if (v->form == FORM_SPLAT) vm_fill(to, v->splat, k->size[i], count * inner);
			else memcpy(to, v->buf->data + (size_t)o * chunk, chunk);
		}
	}
}

/* The reductions leave their results at the start of cur's buffers. */
static void take_results(struct combine *k, struct vm_buf **cur, int64_t count)
{
	for (int i = 0; i < k->n; i++) take_result(k, i, cur[i]->data, k->shape.outer * count * k->shape.inner, k->size[i]);
}

static int reduce_neighbours(struct combine *k, struct vm_buf **cur)
{
	for (int64_t len = k->shape.len; len > 1; len /= 2) {
		if (set_pairs(k, cur, len, 0, 1, 2, len / 2)) return 1;
		take_results(k, cur, len / 2);
	}
	return 0;
}

/* Not in order, nor the other way round, which a function that treats both ends alike (the longest
 * run, say) would not notice. */
static const int64_t quarters[4] = {1, 3, 0, 2};

/* A reduction in another order than the usual one: first the quarters of each row in the order
 * above, then the upper and the lower half of what is left, again and again. Rows of fewer than
 * four elements have the halves alone. */
static int reduce_crosswise(struct combine *k, struct vm_buf **cur)
{
	int64_t len = k->shape.len, quarter = len / 4;
	for (int i = 1; i < 4 && quarter; i++) {
		if (set_pairs(k, cur, len, quarters[i - 1] * quarter, quarters[i] * quarter, 1, quarter)) return 1;
		/* A result stands where its second operand was, and is the first one of the next call; the
		 * last is the new row. */
		if (i < 3) put_rows(k, cur, len, quarters[i] * quarter, quarter);
		else take_results(k, cur, quarter);
	}
	for (len = quarter ? quarter : len; len > 1; len /= 2) {
		if (set_pairs(k, cur, len, len / 2, 0, 1, len / 2)) return 1;
		take_results(k, cur, len / 2);
	}
	return 0;
}

/* The region's results, count to a row, become every step-th element from `at` on. */
static void put_steps(struct combine *k, struct vm_buf **cur, int64_t at, int64_t step, int64_t count)
{
	int64_t inner = k->shape.inner, len = k->shape.len;
	for (int i = 0; i < k->n; i++) {
		size_t chunk = (size_t)inner * k->size[i];
		struct vm_value *v = &k->c->values[vm_src(k->c, k->end, i)];
		for (int64_t e = 0; e < k->shape.outer * count; e++) {
			uint8_t *to = cur[i]->data + (size_t)(e / count * len + at + e % count * step) * chunk;
			if (v->form == FORM_SPLAT) vm_fill(to, v->splat, k->size[i], inner);
			else memcpy(to, v->buf->data + (size_t)e * chunk, chunk);
		}
	}
}

#define HELD ((int64_t)4) /* elements of a scan that a thread has, crosswise */

/* A scan with a GPU's brackets. */
static int scan_crosswise(struct combine *k, struct vm_buf **cur)
{
	int64_t len = k->shape.len, threads = len / HELD;
	/* Each thread's own, one after another. */
	for (int64_t j = 1; j < HELD; j++) {
		if (set_pairs(k, cur, len, j - 1, j, HELD, threads)) return 1;
		put_steps(k, cur, j, HELD, threads);
	}
	/* The last ones of all threads, then what comes before each thread. */
	for (int64_t d = 1; d < threads; d *= 2) {
		if (set_pairs(k, cur, len, HELD - 1, HELD - 1 + d * HELD, HELD, threads - d)) return 1;
		put_steps(k, cur, HELD - 1 + d * HELD, HELD, threads - d);
	}
	for (int64_t j = 0; j < HELD - 1 && threads > 1; j++) {
		if (set_pairs(k, cur, len, HELD - 1, HELD + j, HELD, threads - 1)) return 1;
		put_steps(k, cur, HELD + j, HELD, threads - 1);
	}
	return 0;
}

static int scan_lanes(struct combine *k, struct vm_buf **cur)
{
	if (k->c->crosswise && k->shape.len > HELD) return scan_crosswise(k, cur);

	int64_t len = k->shape.len;
	for (int64_t d = 1; d < len; d *= 2) {
		if (set_pairs(k, cur, len, 0, d, 1, len - d)) return 1;
		put_rows(k, cur, len, d, len - d);
	}
	return 0;
}

/* One pair at a time: element x of the axis into the running values at acc. */
static int step_pair(struct combine *k, uint8_t *const *acc, uint8_t *const *x)
{
	struct vm_ctx *c = k->c;
	for (int i = 0; i < k->n; i++) {
		set_splat(c, vm_dst(c, k->begin, i), acc[i], k->size[i]);
		set_splat(c, vm_dst(c, k->begin, k->n + i), x[i], k->size[i]);
	}
	return run_region(k, 1);
}

/* Element l of row o's axis becomes (the element `back` before it) combined with it. */
static int fold_element(struct combine *k, struct vm_buf **cur, int64_t o, int64_t l, int64_t back)
{
	uint8_t *acc[OPERANDS_MAX], *x[OPERANDS_MAX];
	int64_t inner = k->shape.inner;
	for (int64_t j = 0; j < inner; j++) {
		for (int i = 0; i < k->n; i++) {
			x[i] = cur[i]->data + (size_t)((o * k->shape.len + l) * inner + j) * k->size[i];
			acc[i] = x[i] - (size_t)(back * inner) * k->size[i];
		}
		if (step_pair(k, acc, x)) return 1;
		vm_cost_lane(k->c);
		for (int i = 0; i < k->n; i++) take_result(k, i, x[i], 1, k->size[i]);
	}
	return 0;
}

/* Running combination along the axis, in place: element l becomes (element l - 1) combined with
 * (element l). */
static int fold_axis(struct combine *k, struct vm_buf **cur)
{
	for (int64_t o = 0; o < k->shape.outer; o++)
		for (int64_t l = 1; l < k->shape.len; l++)
			if (fold_element(k, cur, o, l, 1)) return 1;
	return 0;
}

/* A scan one element after another; crosswise each thread's own first, then what comes before the
 * thread, of which the last element is finished by then. */
static int scan_one_by_one(struct combine *k, struct vm_buf **cur)
{
	int64_t len = k->shape.len;
	vm_cost_lanes_begin(k->c, k->begin, k->end);
	if (!k->c->crosswise || len <= HELD) {
		if (fold_axis(k, cur)) return 1;
		vm_cost_lanes_end(k->c);
		return 0;
	}
	for (int64_t o = 0; o < k->shape.outer; o++) {
		for (int64_t l = 1; l < len; l++)
			if (l % HELD && fold_element(k, cur, o, l, 1)) return 1;
		for (int64_t l = HELD; l < len; l++)
			if (fold_element(k, cur, o, l, l % HELD + 1)) return 1;
	}
	vm_cost_lanes_end(k->c);
	return 0;
}

/* A copy of b with the axis shuffled: the quarters take turns, each from its end. */
static struct vm_buf *shuffled(struct combine *k, const struct vm_buf *b, size_t size)
{
	int64_t len = k->shape.len, quarter = len / 4;
	size_t chunk = (size_t)k->shape.inner * size;
	struct vm_buf *d = vm_buf_get(k->c, k->in, (size_t)(k->shape.outer * len) * chunk);
	for (int64_t o = 0; d && o < k->shape.outer; o++)
		for (int64_t j = 0; j < len; j++) {
			int64_t from = quarter ? quarters[j & 3] * quarter + quarter - 1 - (j >> 2) : len - 1 - j;
			memcpy(d->data + (size_t)(o * len + j) * chunk, b->data + (size_t)(o * len + from) * chunk, chunk);
		}
	return d;
}

static int reduce_one_by_one(struct combine *k, struct vm_buf **cur, bool is_crosswise)
{
	int64_t len = k->shape.len;
	for (int i = 0; i < k->n && is_crosswise; i++) {
		struct vm_buf *d = shuffled(k, cur[i], k->size[i]);
		if (!d) return 1;
		vm_buf_put(k->c, cur[i]);
		cur[i] = d;
	}
	vm_cost_lanes_begin(k->c, k->begin, k->end);
	if (fold_axis(k, cur)) return 1;
	vm_cost_lanes_end(k->c);
	/* The last element of each row; rows only move down. */
	for (int i = 0; i < k->n; i++) {
		size_t chunk = (size_t)k->shape.inner * k->size[i];
		for (int64_t o = 0; o < k->shape.outer; o++)
			memmove(cur[i]->data + (size_t)o * chunk, cur[i]->data + (size_t)(o * len + len - 1) * chunk, chunk);
	}
	return 0;
}

static int reduce_by(struct combine *k, struct vm_buf **cur, bool is_crosswise)
{
	if (copy_operands(k, cur, false)) return 1;
	int rc = k->in->imm[2] ? reduce_one_by_one(k, cur, is_crosswise)
		: is_crosswise     ? reduce_crosswise(k, cur)
						   : reduce_neighbours(k, cur);
	if (rc) put_all(k->c, cur, k->n);
	return rc;
}

static int reduce_region(struct combine *k)
{
	struct vm_buf *result[OPERANDS_MAX], *other[OPERANDS_MAX];
	struct vm_ctx *c = k->c;
	bool has_other = c->check && (c->check->checks & VM_CHECK_ORDER) && k->shape.len > 1;
	if (reduce_by(k, result, c->crosswise)) return 1;
	int rc = has_other && reduce_by(k, other, !c->crosswise);
	if (has_other && !rc) {
		vm_reduce_compare(c, k->in, result, other);
		put_all(c, other, k->n);
	}
	if (rc) {
		put_all(c, result, k->n);
		return 1;
	}
	for (int i = 0; i < k->n; i++) finish_result(c, k->in, i, result[i]);
	return 0;
}

int exec_reduce(struct vm_ctx *c, const struct vm_instr *in)
{
	vm_plan_exchange(c, in);
	struct combine k;
	if (combine_init(&k, c, in)) return 1;
	count_pairs(c, in, k.shape.outer * k.shape.inner * (k.shape.len - 1));
	if (in->kernel ? reduce_known(&k) : reduce_region(&k)) return 1;
	vm_kill(c, in);
	if (in->target >= 0) c->next = c->program->instrs + in->target;
	return 0;
}

int exec_scan(struct vm_ctx *c, const struct vm_instr *in)
{
	vm_plan_exchange(c, in);
	struct combine k;
	struct vm_buf *cur[OPERANDS_MAX];
	if (combine_init(&k, c, in)) return 1;
	int64_t row = k.shape.len * k.shape.inner;
	count_pairs(c, in, k.shape.outer * k.shape.inner * (k.shape.len - 1));
	/* In place, on copies; a reverse scan runs over flipped ones. */
	if (copy_operands(&k, cur, in->imm[3])) return 1;
	int rc = 0;
	/* By one kernel, by the region pair by pair, or by the region over many lanes. */
	if (in->kernel) {
		struct vm_buf *t = vm_buf_get(c, in, (size_t)row * k.size[0]);
		if (!t) rc = 1;
		for (int64_t o = 0; o < k.shape.outer && !rc; o++)
			rc = scan_known_row(&k, cur[0]->data + (size_t)(o * row) * k.size[0], t->data, row);
		vm_buf_put(c, t);
	} else {
		rc = in->imm[2] ? scan_one_by_one(&k, cur) : scan_lanes(&k, cur);
	}
	/* Flipped back. */
	for (int i = 0; i < k.n && !rc && in->imm[3]; i++) {
		struct vm_buf *t = vm_buf_get(c, in, (size_t)(k.shape.outer * row) * k.size[i]);
		if (!t) {
			rc = 1;
			break;
		}
		flip(t->data, cur[i]->data, &k.shape, k.size[i]);
		vm_buf_put(c, cur[i]);
		cur[i] = t;
	}
	if (rc) {
		put_all(c, cur, k.n);
		return 1;
	}
	for (int i = 0; i < k.n; i++) finish_result(c, in, i, cur[i]);
	vm_kill(c, in);
	if (in->target >= 0) c->next = c->program->instrs + in->target;
	return 0;
}

/* ---- tt.map_elementwise ----
 *
 * imm[0]: how many neighbours of the row-major block the region gets at a time. Its arguments are
 * those of the first operand, then those of the second, ... */

static void gather(uint8_t *d, const uint8_t *s, int per, int64_t n, size_t size)
{
	for (int64_t e = 0; e < n; e++) memcpy(d + (size_t)e * size, s + (size_t)(e * per) * size, size);
}

static void scatter(uint8_t *d, const uint8_t *s, int per, int64_t n, size_t size)
{
	for (int64_t e = 0; e < n; e++) memcpy(d + (size_t)(e * per) * size, s + (size_t)e * size, size);
}

static size_t result_size(const struct combine *k, int i)
{
	return elem_bytes(k->c->program->values[vm_dst(k->c, k->in, i)].elem);
}

static int map_lanes(struct combine *k, struct vm_buf **out, int64_t n)
{
	struct vm_ctx *c = k->c;
	int per = k->in->imm[0];
	int64_t lanes = n / per;
	/* Each argument of the region gets every per-th element of its operand; where that is all,
	 * the operand's own buffer. */
	for (int i = 0; i < k->n * per; i++) {
		const uint8_t *s = vm_dense(c, k->in, vm_src(c, k->in, i / per), n);
		struct vm_buf *b = !s ? NULL
			: per == 1        ? c->values[vm_src(c, k->in, i)].buf
							  : vm_buf_get(c, k->in, (size_t)lanes * k->size[i / per]);
		if (!b) return 1;
		if (per == 1) b->refs++;
		else gather(b->data, s + (size_t)(i % per) * k->size[i / per], per, lanes, k->size[i / per]);
		vm_value_dense(c, vm_dst(c, k->begin, i), b);
	}
	/* And each result goes back to every per-th place. */
	if (run_region(k, lanes)) return 1;
	struct vm_buf *t = per == 1 ? NULL : vm_buf_get(c, k->in, (size_t)lanes * sizeof(uint64_t));
	if (per > 1 && !t) return 1;
	for (int i = 0; i < k->in->ndst * per; i++) {
		size_t size = result_size(k, i / per);
		take_result(k, i, t ? t->data : out[i]->data, lanes, size);
		if (t) scatter(out[i / per]->data + (size_t)(i % per) * size, t->data, per, lanes, size);
	}
	vm_buf_put(c, t);
	return 0;
}

static int map_one_by_one(struct combine *k, struct vm_buf **out, int64_t n)
{
	struct vm_ctx *c = k->c;
	const uint8_t *s[OPERANDS_MAX];
	int per = k->in->imm[0];
	for (int i = 0; i < k->n; i++) {
		s[i] = vm_dense(c, k->in, vm_src(c, k->in, i), n);
		if (!s[i]) return 1;
	}
	vm_cost_lanes_begin(c, k->begin, k->end);
	for (int64_t e = 0; e < n; e += per) {
		for (int i = 0; i < k->n * per; i++) {
			size_t size = k->size[i / per];
			set_splat(c, vm_dst(c, k->begin, i), s[i / per] + (size_t)(e + i % per) * size, size);
		}
		if (run_region(k, 1)) return 1;
		vm_cost_lane(c);
		for (int i = 0; i < k->in->ndst * per; i++)
			take_result(
				k, i, out[i / per]->data + (size_t)(e + i % per) * result_size(k, i / per), 1, result_size(k, i / per));
	}
	vm_cost_lanes_end(c);
	return 0;
}

int exec_map_region(struct vm_ctx *c, const struct vm_instr *in)
{
	struct combine k;
	struct vm_buf *out[OPERANDS_MAX];
	if (combine_init(&k, c, in)) return 1;
	count_pairs(c, in, in->n / in->imm[0]);
	for (int i = 0; i < in->ndst; i++) {
		out[i] = vm_buf_get(c, in, (size_t)in->n * result_size(&k, i));
		if (!out[i]) {
			put_all(c, out, i);
			return 1;
		}
	}
	if (in->imm[2] ? map_one_by_one(&k, out, in->n) : map_lanes(&k, out, in->n)) {
		put_all(c, out, in->ndst);
		return 1;
	}
	for (int i = 0; i < in->ndst; i++) vm_value_dense(c, vm_dst(c, in, i), out[i]);
	vm_kill(c, in);
	c->next = c->program->instrs + in->target;
	return 0;
}
