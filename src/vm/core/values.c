/* Values of a running program: their buffers, their forms, and copies of elements.
 *
 * Buffers come from lists by power-of-two size, last in first out, so that a chain of operations
 * keeps working in the same cache lines. An AddressSanitizer build allocates each at its exact size
 * instead, so that a write past a block is seen. */
#include "vm/core/state.h"
#include "base/base.h"
#include "base/dtype.h"
#include "ttir/ttir.h"
#include <stdlib.h>

#if defined(__SANITIZE_ADDRESS__)
#define EXACT_BUFFERS 1
#else
#define EXACT_BUFFERS 0
#endif

void vm_row_major(const struct vm_value_info *info, int64_t *stride)
{
	int64_t s = 1;
	for (int d = info->ndim - 1; d >= 0; d--) {
		stride[d] = s;
		s *= info->shape[d];
	}
}

/* ---- buffers ---- */

static int size_class_of(size_t bytes)
{
	int k = 0;
	while (((size_t)64 << k) < bytes) k++;
	return k;
}

struct vm_buf *vm_buf_get(struct vm_ctx *c, const struct vm_instr *in, size_t bytes)
{
	int k = size_class_of(bytes);
	struct vm_buf *b = c->free_bufs[k];
	if (b && !EXACT_BUFFERS) {
		c->free_bufs[k] = b->next;
		b->refs = 1;
		return b;
	}
	size_t size = EXACT_BUFFERS ? MAX(bytes, 1) : (size_t)64 << k;
	if (c->arena_bytes + ((size_t)64 << k) > VM_ARENA_BYTES_MAX) {
		vm_fault(
			c, in, VM_FAULT_UNSUPPORTED, -1, "blocks alive at once need more than %zu MiB", VM_ARENA_BYTES_MAX >> 20);
		return NULL;
	}
	b = aligned_alloc(64, (sizeof *b + size + 63) / 64 * 64);
	CHECKF(b, "%zu bytes", size);
	*b = (struct vm_buf){.refs = 1, .size_class = k};
#ifdef HONE_POISON
	memset(b->data, 0xa5, size);
#endif
	c->arena_bytes += (size_t)64 << k;
	return b;
}

void vm_buf_put(struct vm_ctx *c, struct vm_buf *b)
{
	if (!b || --b->refs) return;
	if (EXACT_BUFFERS) {
		c->arena_bytes -= (size_t)64 << b->size_class;
		free(b);
		return;
	}
	b->next = c->free_bufs[b->size_class];
	c->free_bufs[b->size_class] = b;
}

void vm_value_clear(struct vm_ctx *c, struct vm_value *v)
{
	if (v->buf) vm_buf_put(c, v->buf);
	v->buf = NULL;
}

void vm_value_dense(struct vm_ctx *c, int id, struct vm_buf *b)
{
	struct vm_value *v = &c->values[id];
	vm_value_clear(c, v);
	v->form = FORM_DENSE;
	v->buf = b;
}

void vm_value_share(struct vm_ctx *c, struct vm_value *to, const struct vm_value *from)
{
	if (from->buf) from->buf->refs++;
	struct vm_value copy = *from;
	vm_value_clear(c, to);
	*to = copy;
}

void vm_kill(struct vm_ctx *c, const struct vm_instr *in)
{
	for (uint64_t k = in->kill; k; k &= k - 1) {
		struct vm_value *v = &c->values[vm_src(c, in, __builtin_ctzll(k))];
		if (v->buf) vm_value_clear(c, v);
	}
}

/* ---- elements ---- */

#define FILL(T) do { T x; memcpy(&x, bits, sizeof x); T *p = d; for (int64_t i = 0; i < n; i++) p[i] = x; } while (0)
void vm_fill(void *d, const void *bits, size_t elem_size, int64_t n)
{
	switch (elem_size) {
	case 1: memset(d, *(const uint8_t *)bits, (size_t)n); return;
	case 2: FILL(uint16_t); return;
	case 4: FILL(uint32_t); return;
	default: FILL(uint64_t); return;
	}
}
#undef FILL

#define ROW(T) \
	do { T *p = d; T x = (T)base, s = (T)step; for (int64_t i = 0; i < n; i++) p[i] = (T)(x + (T)i * s); } while (0)
static void fill_row(void *d, size_t elem_size, int64_t base, int64_t step, int64_t n)
{
	switch (elem_size) {
	case 1: ROW(uint8_t); return;
	case 2: ROW(uint16_t); return;
	case 4: ROW(uint32_t); return;
	default: ROW(uint64_t); return;
	}
}
#undef ROW

static void expand_affine(const struct vm_value_info *info, const struct affine *a, uint8_t *d)
{
	size_t size = elem_bytes(info->elem);
	int last = info->ndim - 1;
	int64_t row = info->shape[last], index[VM_LAZY_DIMS] = {0};
	for (int64_t at = 0; at < info->count; at += row) {
		int64_t base = a->base;
		for (int k = 0; k < last; k++) base += index[k] * a->stride[k];
		fill_row(d + (size_t)at * size, size, base, a->stride[last], row);
		for (int k = last - 1; k >= 0 && ++index[k] == info->shape[k]; k--) index[k] = 0;
	}
}

static void expand_box(const struct vm_value_info *info, const struct box *b, uint8_t *d)
{
	int last = info->ndim - 1;
	int64_t row = info->shape[last], index[VM_LAZY_DIMS] = {0};
	for (int64_t at = 0; at < info->count; at += row) {
		bool inside = true;
		for (int k = 0; k < last; k++) inside &= index[k] >= b->lo[k] && index[k] < b->hi[k];
		memset(d + at, 0, (size_t)row);
		if (inside && b->hi[last] > b->lo[last]) memset(d + at + b->lo[last], 1, (size_t)(b->hi[last] - b->lo[last]));
		for (int k = last - 1; k >= 0 && ++index[k] == info->shape[k]; k--) index[k] = 0;
	}
}

const void *vm_dense(struct vm_ctx *c, const struct vm_instr *in, int value, int64_t n)
{
	struct vm_value *v = &c->values[value];
	if (v->buf) return v->buf->data;
	const struct vm_value_info *info = &c->program->values[value];
	struct vm_buf *b = vm_buf_get(c, in, (size_t)n * elem_bytes(info->elem));
	if (!b) return NULL;
	if (v->form == FORM_SPLAT) {
		CHECK(n == info->count); /* never over lanes, whose number changes */
		vm_fill(b->data, v->splat, elem_bytes(info->elem), n);
	} else if (v->form == FORM_AFFINE) {
		expand_affine(info, &v->affine, b->data);
	} else {
		expand_box(info, &v->box, b->data);
	}
	v->buf = b;
	return b->data;
}

void *vm_result(struct vm_ctx *c, const struct vm_instr *in, int i, int64_t n)
{
	int id = vm_dst(c, in, i);
	struct vm_value *v = &c->values[id];
	vm_value_clear(c, v);
	v->form = FORM_DENSE;
	v->buf = vm_buf_get(c, in, (size_t)n * elem_bytes(c->program->values[id].elem));
	if (v->buf) return v->buf->data;
	v->form = FORM_SPLAT;
	return NULL;
}

void vm_result_splat(struct vm_ctx *c, const struct vm_instr *in, int i, const void *bits)
{
	int id = vm_dst(c, in, i);
	struct vm_value *v = &c->values[id];
	vm_value_clear(c, v);
	v->form = FORM_SPLAT;
	v->splat_int = 0;
	memcpy(v->splat, bits, elem_bytes(c->program->values[id].elem));
}

/* ---- affine values ---- */

static void int_range(enum elem e, int64_t *min, int64_t *max)
{
	int bits = 8 * (int)elem_bytes(e);
	*max = (int64_t)(UINT64_MAX >> (65 - bits));
	*min = -*max - 1;
}

bool vm_affine_range(const struct vm_value_info *info, const struct affine *a, int64_t *min, int64_t *max)
{
	*min = *max = a->base;
	for (int d = 0; d < info->ndim; d++) {
		int64_t span;
		if (!a->stride[d]) continue;
		if (__builtin_mul_overflow(a->stride[d], (int64_t)info->shape[d] - 1, &span)) return false;
		if (span < 0 ? __builtin_add_overflow(*min, span, min) : __builtin_add_overflow(*max, span, max)) return false;
	}
	return true;
}

bool vm_affine_of(const struct vm_ctx *c, int value, struct affine *a)
{
	const struct vm_value *v = &c->values[value];
	const struct vm_value_info *info = &c->program->values[value];
	if (v->form == FORM_AFFINE) {
		*a = v->affine;
		return true;
	}
	if (v->form != FORM_SPLAT || info->ndim > VM_LAZY_DIMS || elem_is_float(info->elem)) return false;
	int shift = 64 - 8 * (int)elem_bytes(info->elem);
	*a = (struct affine){.base = (int64_t)((uint64_t)v->splat_int << shift) >> shift};
	return true;
}

bool vm_result_affine(struct vm_ctx *c, const struct vm_instr *in, const struct affine *given)
{
	int id = vm_dst(c, in, 0);
	const struct vm_value_info *info = &c->program->values[id];
	int64_t min, max, type_min, type_max;
	int_range(info->elem, &type_min, &type_max);
	if (info->ndim > VM_LAZY_DIMS || !vm_affine_range(info, given, &min, &max) || min < type_min || max > type_max)
		return false;
	struct affine a = {.base = given->base};
	bool is_flat = true;
	for (int d = 0; d < info->ndim; d++) {
		a.stride[d] = info->shape[d] > 1 ? given->stride[d] : 0;
		is_flat &= a.stride[d] == 0;
	}
	if (is_flat) {
		vm_result_splat(c, in, 0, &a.base);
		return true;
	}
	struct vm_value *v = &c->values[id];
	vm_value_clear(c, v);
	v->form = FORM_AFFINE;
	v->affine = a;
	return true;
}

/* ---- copies ---- */

#define STRIDED(T) \
	do { T *to = (T *)d; const T *from = (const T *)s; for (int64_t i = 0; i < n; i++) to[i] = from[i * step]; } \
	while (0)
void vm_copy_row(uint8_t *d, const uint8_t *s, int64_t step, int64_t n, size_t size)
{
	if (step == 1) {
		memcpy(d, s, (size_t)n * size);
		return;
	}
	if (step == 0) {
		vm_fill(d, s, size, n);
		return;
	}
	switch (size) {
	case 1: STRIDED(uint8_t); return;
	case 2: STRIDED(uint16_t); return;
	case 4: STRIDED(uint32_t); return;
	default: STRIDED(uint64_t); return;
	}
}

void vm_copy_strided(
	uint8_t *d, const int32_t *shape, int ndim, const uint8_t *s, const int64_t *stride, size_t elem_size)
{
	int32_t index[TTIR_DIMS_MAX] = {0};
	int last = ndim - 1;
	int64_t row = shape[last], rows = 1, at = 0;
	for (int k = 0; k < last; k++) rows *= shape[k];
	for (int64_t r = 0; r < rows; r++) {
		vm_copy_row(d + (size_t)(r * row) * elem_size, s + at * (int64_t)elem_size, stride[last], row, elem_size);
		for (int k = last - 1; k >= 0; k--) {
			at += stride[k];
			if (++index[k] < shape[k]) break;
			at -= stride[k] * shape[k];
			index[k] = 0;
		}
	}
}

/* Poison is a value that nothing may depend on: NaN, or the pattern that masked-off loads give. */
void vm_pattern(enum elem e, uint8_t bits[8])
{
	static const uint64_t patterns[ELEM_COUNT] = {
		[ELEM_I1] = 1,
		[ELEM_I8] = 0x5a,
		[ELEM_I16] = 0x5a5a,
		[ELEM_I32] = 0x5a5a5a5a,
		[ELEM_I64] = 0x5a5a5a5a5a5a5a5a,
		[ELEM_F8E4M3] = 0x7f,
		[ELEM_F8E5M2] = 0x7f,
		[ELEM_F16] = 0x7e00,
		[ELEM_BF16] = 0x7fc0,
		[ELEM_F32] = 0x7fc00000,
		[ELEM_F64] = 0x7ff8000000000000,
		[ELEM_PTR] = 0,
	};
	memcpy(bits, &patterns[e], 8);
}

/* ---- one running program's state ---- */

void vm_ctx_init(struct vm_ctx *c, const struct vm_kernel *k, const struct vm_program *p)
{
	*c = (struct vm_ctx){.kernel = k, .program = p, .fuel = VM_FUEL};
	c->values = xcalloc((size_t)p->nvalues + 1, sizeof *c->values);
	for (int i = 0; i < p->nvalues; i++) c->values[i].form = FORM_SPLAT;
	for (int i = 0; i < p->nconsts; i++) {
		const struct vm_const *k0 = &p->consts[i];
		struct vm_value *v = &c->values[k0->value];
		memcpy(v->splat, k0->bits, sizeof v->splat);
		if (!k0->data) continue;
		size_t bytes = (size_t)p->values[k0->value].count * elem_bytes(p->values[k0->value].elem);
		v->buf = aligned_alloc(64, (sizeof *v->buf + bytes + 63) / 64 * 64);
		CHECKF(v->buf, "%zu bytes", bytes);
		*v->buf = (struct vm_buf){.refs = 1, .size_class = size_class_of(bytes)};
		memcpy(v->buf->data, k0->data, bytes);
		v->form = FORM_DENSE;
	}
}

void vm_ctx_release(struct vm_ctx *c)
{
	for (int i = 0; i < c->program->nvalues; i++) vm_value_clear(c, &c->values[i]);
	for (size_t k = 0; k < ARRAY_LEN(c->free_bufs); k++)
		for (struct vm_buf *b = c->free_bufs[k], *next; b; b = next) {
			next = b->next;
			free(b);
		}
	free(c->values);
}

double vm_float_of(enum elem e, const void *bits)
{
	union {
		uint16_t half;
		float f;
		double d;
	} v = {.d = 0};
	memcpy(&v, bits, elem_bytes(e));
	switch (e) {
	case ELEM_F8E4M3: return f8e4m3_to_f32(*(const uint8_t *)bits);
	case ELEM_F8E5M2: return f8e5m2_to_f32(*(const uint8_t *)bits);
	case ELEM_F16: return f16_to_f32(v.half);
	case ELEM_BF16: return bf16_to_f32(v.half);
	case ELEM_F32: return v.f;
	default: return v.d;
	}
}
