/* movement: fill, copy and gather over strided views.
 *
 * One walker serves all three: it turns a pair of views into runs along the innermost dimension and
 * hands each run to a function that knows element types. Dimensions that are dense in both views
 * are merged first, so that a contiguous copy is a single run.
 *
 * Casts follow torch on a GPU: float to float rounds to nearest even, integers wrap, float to
 * integer truncates toward zero and saturates at the ends of int64 before it wraps to narrower
 * types, anything to bool is `!= 0`. NaN becomes what a card's conversions write, all bits but the
 * sign, so that vm and GPU agree in every byte. */
#include "runner/movement.h"
#include "base/base.h"
#include "base/dtype.h"
#include "tape/tape.h"
#include <math.h>
#include <stdlib.h>

/* A pair of strided walks over the same shape; strides in bytes. */
struct walk {
	int ndim;
	int64_t shape[TAPE_DIMS_MAX];
	int64_t a[TAPE_DIMS_MAX]; /* strides of the first walk */
	int64_t b[TAPE_DIMS_MAX]; /* of the second */
};
typedef void run_fn(void *ctx, int64_t a_bytes, int64_t a_step, int64_t b_bytes, int64_t b_step, int64_t count);

/* Drops dimensions of size 1 and merges neighbours that are dense in both. */
static void walk_init(struct walk *w, const struct tape_view *a, const int64_t *b_stride, size_t b_size)
{
	int64_t a_size = (int64_t)dtype_bytes(a->dtype);
	w->ndim = 0;
	for (int i = 0; i < a->ndim; i++) {
		if (a->shape[i] == 1) continue;
		int64_t as = a->stride[i] * a_size, bs = b_stride[i] * (int64_t)b_size;
		int last = w->ndim - 1;
		if (last >= 0 && w->a[last] == as * a->shape[i] && w->b[last] == bs * a->shape[i]) {
			w->shape[last] *= a->shape[i];
			w->a[last] = as;
			w->b[last] = bs;
		} else {
			w->shape[w->ndim] = a->shape[i];
			w->a[w->ndim] = as;
			w->b[w->ndim++] = bs;
		}
	}
}

static void walk_each(const struct walk *w, int64_t a_bytes, int64_t b_bytes, run_fn *fn, void *ctx)
{
	for (int i = 0; i < w->ndim; i++)
		if (w->shape[i] == 0) return;
	if (w->ndim == 0) {
		fn(ctx, a_bytes, 0, b_bytes, 0, 1);
		return;
	}
	int64_t index[TAPE_DIMS_MAX] = {0};
	int inner = w->ndim - 1;
	for (;;) {
		fn(ctx, a_bytes, w->a[inner], b_bytes, w->b[inner], w->shape[inner]);
		int d = inner - 1;
		for (; d >= 0; d--) {
			a_bytes += w->a[d];
			b_bytes += w->b[d];
			if (++index[d] < w->shape[d]) break;
			a_bytes -= w->a[d] * w->shape[d];
			b_bytes -= w->b[d] * w->shape[d];
			index[d] = 0;
		}
		if (d < 0) return;
	}
}

static int64_t load_int(enum dtype t, const void *p)
{
	/* Little-endian: the value is in the low bytes; a signed one is moved up and back, which
	 * brings its sign along. */
	bool is_signed = t == DTYPE_I8 || t == DTYPE_I16 || t == DTYPE_I32;
	uint64_t v = 0;
	size_t bytes = dtype_bytes(t), unused = 64 - 8 * bytes;
	memcpy(&v, p, bytes);
	if (t == DTYPE_BOOL) return v != 0;
	return is_signed ? (int64_t)(v << unused) >> unused : (int64_t)v;
}

static void store_int(enum dtype t, void *p, int64_t v)
{
	uint8_t truth = v != 0;
	/* Little-endian: the low bytes are the wrapped value. */
	memcpy(p, t == DTYPE_BOOL ? (const void *)&truth : (const void *)&v, dtype_bytes(t));
}

static int64_t float_to_int(double v)
{
	if (isnan(v)) return 0;
	if (v >= 9223372036854775808.0) return INT64_MAX;
	return v <= -9223372036854775808.0 ? INT64_MIN : (int64_t)v;
}

static void store_nan(enum dtype t, uint8_t *p)
{
	size_t bytes = dtype_bytes(t);
	memset(p, 0xff, bytes);
	p[bytes - 1] = 0x7f;
}

static void cast_element(enum dtype to, void *dst, enum dtype from, const void *src)
{
	if (dtype_is_float(from)) {
		double v = dtype_load(from, src, 0);
		if (dtype_is_float(to) && isnan(v)) store_nan(to, dst);
		else if (dtype_is_float(to) || to == DTYPE_BOOL) dtype_store(to, dst, 0, v);
		else store_int(to, dst, float_to_int(v));
		return;
	}
	int64_t v = load_int(from, src);
	if (!dtype_is_float(to)) {
		store_int(to, dst, v);
	} else if (to == DTYPE_F64) {
		dtype_store(to, dst, 0, from == DTYPE_U64 ? (double)(uint64_t)v : (double)v);
	} else {
		/* torch goes through float for every narrower type: one rounding to
		 * float, one from there. */
		dtype_store(to, dst, 0, from == DTYPE_U64 ? (float)(uint64_t)v : (float)v);
	}
}

/* The tag of an element whose bytes have different tags: the least trusted one. */
static uint8_t origin_of_element(const uint8_t *tags, size_t bytes)
{
	static const uint8_t TRUST[] = {
		[TAPE_ORIGIN_NONE] = 0, [TAPE_ORIGIN_LIBRARY] = 1, [TAPE_ORIGIN_GIVEN] = 2, [TAPE_ORIGIN_KERNEL] = 3};
	uint8_t tag = tags[0];
	for (size_t i = 1; i < bytes; i++)
		if (TRUST[tags[i]] < TRUST[tag]) tag = tags[i];
	return tag;
}

/* A cast is movement as long as it only changes the format. Truncation to an integer and comparison
 * with zero compute: torch has made such a value, not a kernel. So has it where no kernel saw the
 * value before. */
static uint8_t origin_after_cast(enum dtype to, enum dtype from, uint8_t origin)
{
	bool computes = dtype_is_float(from) && !dtype_is_float(to);
	return origin == TAPE_ORIGIN_GIVEN || (computes && origin == TAPE_ORIGIN_KERNEL) ? TAPE_ORIGIN_LIBRARY : origin;
}

struct fill_run {
	struct memory_view to;
	uint8_t value[8];
	size_t size;
};

static void fill_run(void *ctx, int64_t a, int64_t a_step, int64_t b, int64_t b_step, int64_t count)
{
	const struct fill_run *f = ctx;
	if (f->size == 1 && a_step == 1) {
		memset(f->to.data + a, f->value[0], (size_t)count);
		memset(f->to.origin + a, TAPE_ORIGIN_GIVEN, (size_t)count);
		return;
	}
	for (int64_t i = 0; i < count; i++, a += a_step) {
		memcpy(f->to.data + a, f->value, f->size);
		memset(f->to.origin + a, TAPE_ORIGIN_GIVEN, f->size);
	}
}

void movement_fill(const struct tape_view *dst, struct memory_view to, double value, int64_t value_int)
{
	struct fill_run f = {.to = to, .size = dtype_bytes(dst->dtype)};
	if (dtype_is_float(dst->dtype)) dtype_store(dst->dtype, f.value, 0, value);
	else store_int(dst->dtype, f.value, value_int);
	struct walk w;
	walk_init(&w, dst, dst->stride, f.size);
	walk_each(&w, dst->offset_bytes, dst->offset_bytes, fill_run, &f);
}

struct copy_run {
	struct memory_view to;
	struct memory_view from;
	enum dtype dst; /* of `to` */
	enum dtype src;
	size_t dst_size; /* bytes of an element */
	size_t src_size;
};

static void copy_run(void *ctx, int64_t a, int64_t a_step, int64_t b, int64_t b_step, int64_t count)
{
	const struct copy_run *c = ctx;
	if (c->dst == c->src && a_step == (int64_t)c->dst_size && b_step == (int64_t)c->src_size) {
		memcpy(c->to.data + a, c->from.data + b, (size_t)count * c->dst_size);
		memcpy(c->to.origin + a, c->from.origin + b, (size_t)count * c->dst_size);
		return;
	}
	for (int64_t i = 0; i < count; i++, a += a_step, b += b_step) {
		if (c->dst == c->src) {
			memcpy(c->to.data + a, c->from.data + b, c->dst_size);
			memcpy(c->to.origin + a, c->from.origin + b, c->dst_size);
		} else {
			cast_element(c->dst, c->to.data + a, c->src, c->from.data + b);
			memset(c->to.origin + a,
				origin_after_cast(c->dst, c->src, origin_of_element(c->from.origin + b, c->src_size)), c->dst_size);
		}
	}
}

static void copy_views(
	const struct tape_view *dst, struct memory_view to, const struct tape_view *src, struct memory_view from)
{
	struct copy_run c = {to, from, dst->dtype, src->dtype, dtype_bytes(dst->dtype), dtype_bytes(src->dtype)};
	struct walk w;
	walk_init(&w, dst, src->stride, c.src_size);
	walk_each(&w, dst->offset_bytes, src->offset_bytes, copy_run, &c);
}

/* The dense view of v's shape at offset 0. */
static struct tape_view dense_view(const struct tape_view *v)
{
	struct tape_view d = *v;
	d.offset_bytes = 0;
	int64_t stride = 1;
	for (int i = v->ndim - 1; i >= 0; i--) {
		d.stride[i] = stride;
		stride *= v->shape[i];
	}
	return d;
}

void movement_copy(
	const struct tape_view *dst, struct memory_view to, const struct tape_view *src, struct memory_view from)
{
	if (to.data != from.data) {
		copy_views(dst, to, src, from);
		return;
	}
	struct tape_view dense = dense_view(src);
	size_t bytes = size_mul((size_t)tape_view_elements(src), dtype_bytes(src->dtype));
	struct memory_view held = {xmalloc(bytes ? bytes : 1), xmalloc(bytes ? bytes : 1)};
	copy_views(&dense, held, src, from);
	copy_views(dst, to, &dense, held);
	free(held.data);
	free(held.origin);
}

struct gather_run {
	const uint8_t *from;
	uint8_t *out;
	size_t size;
};

static void gather_run(void *ctx, int64_t a, int64_t a_step, int64_t b, int64_t b_step, int64_t count)
{
	const struct gather_run *g = ctx;
	if (b_step == (int64_t)g->size) {
		memcpy(g->out + a, g->from + b, (size_t)count * g->size);
		return;
	}
	for (int64_t i = 0; i < count; i++, a += a_step, b += b_step) memcpy(g->out + a, g->from + b, g->size);
}

void movement_gather(const struct tape_view *src, const uint8_t *from, uint8_t *out)
{
	struct tape_view dense = dense_view(src);
	struct gather_run g = {from, out, dtype_bytes(src->dtype)};
	struct walk w;
	walk_init(&w, &dense, src->stride, g.size);
	walk_each(&w, 0, src->offset_bytes, gather_run, &g);
}

struct scatter_run {
	struct memory_view to;
	const uint8_t *from;
	size_t size;
};

static void scatter_run(void *ctx, int64_t a, int64_t a_step, int64_t b, int64_t b_step, int64_t count)
{
	const struct scatter_run *s = ctx;
	for (int64_t i = 0; i < count; i++, a += a_step, b += b_step) {
		memcpy(s->to.data + b, s->from + a, s->size);
		memset(s->to.origin + b, TAPE_ORIGIN_LIBRARY, s->size);
	}
}

void movement_scatter(const struct tape_view *dst, struct memory_view to, const uint8_t *from)
{
	struct tape_view dense = dense_view(dst);
	struct scatter_run s = {to, from, dtype_bytes(dst->dtype)};
	struct walk w;
	walk_init(&w, &dense, dst->stride, s.size);
	walk_each(&w, 0, dst->offset_bytes, scatter_run, &s);
}
