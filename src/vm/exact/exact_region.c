/* Reductions, scans and maps with a region: one pair of elements after another, in order. Sums and
 * products do not depend on it; a region that does is the verifier's matter (VM_CHECK_ORDER). */
#include "vm/exact/exact.h"
#include "base/base.h"
#include "field/field.h"
#include "ttir/ttir.h"
#include "vm/core/program.h"
#include "vm/core/state.h"
#include "vm/map/map.h"

#define OPERANDS_MAX 64

/* Operands of one instruction, each a block of floats or of integers. */
struct columns {
	int n;
	struct exact_block *floats[OPERANDS_MAX];
	uint8_t *ints[OPERANDS_MAX]; /* heap */
	size_t size[OPERANDS_MAX];
};

static void columns_release(struct exact *e, struct columns *k)
{
	for (int i = 0; i < k->n; i++) {
		exact_block_put(e, k->floats[i]);
		free(k->ints[i]);
	}
	k->n = 0;
}

/* Copies of the operands, written out: `count` elements of each. */
static int columns_of(struct exact *e, const struct vm_instr *in, int64_t count, struct columns *out)
{
	*out = (struct columns){.n = 0};
	if (in->nsrc > OPERANDS_MAX || in->ndst > OPERANDS_MAX)
		return exact_stop(e, in, VM_EXACT_OUTSIDE, "a region of more than %d operands", OPERANDS_MAX);
	for (int i = 0; i < in->nsrc; i++) {
		int value = vm_src(&e->c, in, i);
		struct exact_ints x;
		out->size[i] = elem_bytes(e->c.program->values[value].elem);
		out->n = i + 1;
		if (exact_is_float(e, value)) {
			out->floats[i] = exact_block_new(e, in, count);
			if (!out->floats[i]) return 1;
			for (int64_t at = 0; at < count; at++) out->floats[i]->v[at] = *exact_at(e->blocks[value], at);
			continue;
		}
		if (!exact_ints_of(e, in, value, count, &x)) return 1;
		out->ints[i] = xmalloc(size_mul((size_t)count + 1, out->size[i]));
		for (int64_t at = 0; at < count; at++)
			memcpy(out->ints[i] + (size_t)at * out->size[i], x.data + at * x.step, out->size[i]);
	}
	return 0;
}

static int set_argument(
	struct exact *e, const struct vm_instr *in, int value, const struct columns *k, int column, int64_t at)
{
	struct vm_value *v = &e->c.values[value];
	if (!k->floats[column]) {
		vm_value_clear(&e->c, v);
		v->form = FORM_SPLAT;
		v->splat_int = 0;
		memcpy(v->splat, k->ints[column] + (size_t)at * k->size[column], k->size[column]);
		return 0;
	}
	struct exact_block *b = exact_block_new(e, in, 1);
	if (!b) return 1;
	b->v[0] = k->floats[column]->v[at];
	exact_set(e, value, b);
	return 0;
}

static int take_result(struct exact *e, const struct vm_instr *end, int i, struct columns *k, int column, int64_t at)
{
	int value = vm_src(&e->c, end, i);
	if (k->floats[column]) {
		k->floats[column]->v[at] = e->blocks[value]->v[0];
		return 0;
	}
	struct exact_ints x;
	if (!exact_ints_of(e, end, value, 1, &x)) return 1;
	memcpy(k->ints[column] + (size_t)at * k->size[column], x.data, k->size[column]);
	return 0;
}

/* One lane through the region behind `in`. */
static int run_lane(struct exact *e, const struct vm_instr *begin, const struct vm_instr *end)
{
	int64_t outer = e->c.lanes;
	e->c.lanes = 1;
	int rc = exact_run(e, begin, end);
	e->c.lanes = outer;
	return rc;
}

/* Element `to` becomes the combination of elements a and b, a first. */
static int combine(struct exact *e, const struct vm_instr *in, struct columns *k, int64_t to, int64_t a, int64_t b)
{
	if (in->kernel) {
		const struct field_value *x[3] = {&k->floats[0]->v[a], &k->floats[0]->v[b]};
		struct field_value r;
		if (exact_apply(e, in, in->imm[1], x, &r)) return 1;
		k->floats[0]->v[to] = r;
		return 0;
	}
	const struct vm_instr *begin = in + 1, *end = e->c.program->instrs + in->target - 1;
	for (int i = 0; i < k->n; i++)
		if (set_argument(e, in, vm_dst(&e->c, begin, i), k, i, a) ||
			set_argument(e, in, vm_dst(&e->c, begin, k->n + i), k, i, b))
			return 1;
	if (run_lane(e, begin + 1, end)) return 1;
	for (int i = 0; i < k->n; i++)
		if (take_result(e, end, i, k, i, to)) return 1;
	return 0;
}

/* The first `count` elements of a column become result i. */
static int put_result(struct exact *e, const struct vm_instr *in, int i, struct columns *k, int column, int64_t count)
{
	int value = vm_dst(&e->c, in, i);
	if (k->floats[column]) {
		struct exact_block *b = exact_block_new(e, in, count);
		if (!b) return 1;
		memcpy(b->v, k->floats[column]->v, (size_t)count * sizeof *b->v);
		exact_set(e, value, b);
		return 0;
	}
	if (e->c.program->values[value].ndim == 0) {
		uint8_t bits[8] = {0};
		memcpy(bits, k->ints[column], k->size[column]);
		vm_result_splat(&e->c, in, i, bits);
		return 0;
	}
	uint8_t *d = vm_result(&e->c, in, i, count);
	if (!d) return 1;
	memcpy(d, k->ints[column], (size_t)count * k->size[column]);
	return 0;
}

static int finish(struct exact *e, const struct vm_instr *in, struct columns *k, int64_t count, int rc)
{
	for (int i = 0; i < in->ndst && !rc; i++) rc = put_result(e, in, i, k, i, count);
	columns_release(e, k);
	if (rc) return 1;
	exact_kill(e, in);
	if (in->target >= 0) e->c.next = e->c.program->instrs + in->target;
	return 0;
}

static void move_element(struct columns *k, int64_t to, int64_t from)
{
	for (int i = 0; i < k->n; i++) {
		if (k->floats[i]) k->floats[i]->v[to] = k->floats[i]->v[from];
		else memmove(k->ints[i] + (size_t)to * k->size[i], k->ints[i] + (size_t)from * k->size[i], k->size[i]);
	}
}

int exact_reduce(struct exact *e, const struct vm_instr *in)
{
	const struct region_shape *s = in->extra;
	struct columns k;
	int rc = columns_of(e, in, s->outer * s->len * s->inner, &k);
	for (int64_t o = 0; o < s->outer && !rc; o++)
		for (int64_t j = 0; j < s->inner && !rc; j++) {
			/* into the axis's first element, then down to its place among the results */
			int64_t first = o * s->len * s->inner + j;
			for (int64_t l = 1; l < s->len && !rc; l++) rc = combine(e, in, &k, first, first, first + l * s->inner);
			move_element(&k, o * s->inner + j, first);
		}
	return finish(e, in, &k, s->outer * s->inner, rc);
}

int exact_scan(struct exact *e, const struct vm_instr *in)
{
	const struct region_shape *s = in->extra;
	bool is_reverse = in->imm[3];
	struct columns k;
	int rc = columns_of(e, in, s->outer * s->len * s->inner, &k);
	for (int64_t o = 0; o < s->outer && !rc; o++)
		for (int64_t j = 0; j < s->inner && !rc; j++)
			for (int64_t l = 1; l < s->len && !rc; l++) {
				int64_t here = is_reverse ? s->len - 1 - l : l, before = is_reverse ? here + 1 : here - 1,
						at = (o * s->len + here) * s->inner + j;
				rc = combine(e, in, &k, at, (o * s->len + before) * s->inner + j, at);
			}
	return finish(e, in, &k, s->outer * s->len * s->inner, rc);
}

/* tt.map_elementwise: imm[0] neighbours at a time. */
int exact_map_region(struct exact *e, const struct vm_instr *in)
{
	const struct vm_instr *begin = in + 1, *end = e->c.program->instrs + in->target - 1;
	int64_t n = in->n, per = in->imm[0];
	struct columns from, to = {.n = in->ndst};
	int rc = columns_of(e, in, n, &from);
	for (int i = 0; i < in->ndst && !rc; i++) {
		int value = vm_dst(&e->c, in, i);
		to.size[i] = elem_bytes(e->c.program->values[value].elem);
		if (exact_is_float(e, value)) rc = !(to.floats[i] = exact_block_new(e, in, n));
		else to.ints[i] = xcalloc((size_t)n + 1, to.size[i]);
	}
	for (int64_t at = 0; at < n && !rc; at += per) {
		for (int64_t i = 0; i < from.n * per && !rc; i++)
			rc = set_argument(e, in, vm_dst(&e->c, begin, (int)i), &from, (int)(i / per), at + i % per);
		if (!rc) rc = run_lane(e, begin + 1, end);
		for (int64_t i = 0; i < to.n * per && !rc; i++)
			rc = take_result(e, end, (int)i, &to, (int)(i / per), at + i % per);
	}
	columns_release(e, &from);
	return finish(e, in, &to, n, rc);
}
