/* Blocks made, moved and reinterpreted. Splats stay splats, affine and box values keep their form
 * where the shapes allow it, and a reshape of a dense block shares its buffer. */
#include "vm/exec/exec.h"
#include "base/base.h"
#include "ttir/ttir.h"
#include "vm/core/program.h"
#include "vm/core/state.h"
#include "vm/meter/meter.h"

static const struct vm_value_info *info_src(const struct vm_ctx *c, const struct vm_instr *in, int i)
{
	return &c->program->values[vm_src(c, in, i)];
}
static const struct vm_value_info *info_dst(const struct vm_ctx *c, const struct vm_instr *in, int i)
{
	return &c->program->values[vm_dst(c, in, i)];
}

static void share(struct vm_ctx *c, const struct vm_instr *in)
{
	vm_value_share(c, &c->values[vm_dst(c, in, 0)], &c->values[vm_src(c, in, 0)]);
	vm_kill(c, in);
}

int exec_splat(struct vm_ctx *c, const struct vm_instr *in)
{
	struct vm_value *v = &c->values[vm_src(c, in, 0)];
	const void *bits = v->form == FORM_SPLAT ? v->splat : vm_dense(c, in, vm_src(c, in, 0), 1);
	if (!bits) return 1;
	vm_result_splat(c, in, 0, bits);
	vm_kill(c, in);
	return 0;
}

int exec_unsplat(struct vm_ctx *c, const struct vm_instr *in) { return exec_splat(c, in); }

int exec_range(struct vm_ctx *c, const struct vm_instr *in)
{
	struct affine a = {.base = in->imm[0], .stride = {1}};
	if (!vm_result_affine(c, in, &a)) return vm_fault(c, in, VM_FAULT_UNSUPPORTED, -1, "a range beyond 32 bits");
	return 0;
}

/* Numbers under another type of the same size; what is lazy about integers means nothing to floats.
 */
int exec_bitcast(struct vm_ctx *c, const struct vm_instr *in)
{
	struct vm_value *v = &c->values[vm_src(c, in, 0)];
	if (v->form == FORM_AFFINE) {
		if (!vm_dense(c, in, vm_src(c, in, 0), in->n)) return 1;
		struct vm_value dense = {.form = FORM_DENSE, .buf = v->buf};
		vm_value_share(c, &c->values[vm_dst(c, in, 0)], &dense);
		vm_kill(c, in);
		return 0;
	}
	share(c, in);
	return 0;
}

/* Dimensions of the result that are not 1, in order, must be those of the source: then strides and
 * bounds can be carried over. */
static bool same_but_ones(const struct vm_value_info *from, const struct vm_value_info *to, int of[VM_LAZY_DIMS])
{
	int s = 0;
	if (to->ndim > VM_LAZY_DIMS) return false;
	for (int d = 0; d < to->ndim; d++) {
		of[d] = -1;
		if (to->shape[d] == 1) continue;
		while (s < from->ndim && from->shape[s] == 1) s++;
		if (s == from->ndim || from->shape[s] != to->shape[d]) return false;
		of[d] = s++;
	}
	return true;
}

/* One that may reorder, crosswise: halves swapped. */
static int reshape_swapped(struct vm_ctx *c, const struct vm_instr *in)
{
	size_t half = (size_t)in->n / 2 * elem_bytes((enum elem)in->elem);
	const uint8_t *s = vm_dense(c, in, vm_src(c, in, 0), in->n);
	uint8_t *d = s ? vm_result(c, in, 0, in->n) : NULL;
	if (!d) return 1;
	memcpy(d, s + half, half);
	memcpy(d + half, s, half);
	vm_kill(c, in);
	return 0;
}

int exec_reshape(struct vm_ctx *c, const struct vm_instr *in)
{
	if (c->crosswise && in->imm[0] && in->n > 1) return reshape_swapped(c, in);
	struct vm_value *v = &c->values[vm_src(c, in, 0)], *r = &c->values[vm_dst(c, in, 0)];
	const struct vm_value_info *from = info_src(c, in, 0), *to = info_dst(c, in, 0);
	/* Row-major elements do not move: buffers and splats are shared. */
	if (v->form == FORM_SPLAT || v->form == FORM_DENSE) {
		share(c, in);
		return 0;
	}
	int of[VM_LAZY_DIMS];
	/* A lazy value stays lazy where only dimensions of 1 come or go; else it is written out. */
	if (!same_but_ones(from, to, of)) {
		if (!vm_dense(c, in, vm_src(c, in, 0), in->n)) return 1;
		struct vm_value dense = {.form = FORM_DENSE, .buf = v->buf};
		vm_value_share(c, r, &dense);
		vm_kill(c, in);
		return 0;
	}
	/* Its strides or bounds move with their dimensions; a new one of 1 has stride 0. */
	struct vm_value lazy = {.form = v->form};
	if (v->form == FORM_AFFINE) lazy.affine.base = v->affine.base;
	for (int d = 0; d < to->ndim; d++) {
		if (v->form == FORM_AFFINE) lazy.affine.stride[d] = of[d] >= 0 ? v->affine.stride[of[d]] : 0;
		else lazy.box.lo[d] = of[d] >= 0 ? v->box.lo[of[d]] : 0, lazy.box.hi[d] = of[d] >= 0 ? v->box.hi[of[d]] : 1;
	}
	vm_kill(c, in);
	vm_value_clear(c, r);
	*r = lazy;
	return 0;
}

/* ---- strided copies ---- */

static int copy_result(struct vm_ctx *c, const struct vm_instr *in, const int64_t *stride)
{
	const struct vm_value_info *to = info_dst(c, in, 0);
	const uint8_t *s = vm_dense(c, in, vm_src(c, in, 0), info_src(c, in, 0)->count);
	struct vm_buf *b = s ? vm_buf_get(c, in, (size_t)to->count * elem_bytes(to->elem)) : NULL;
	if (!b) return 1;
	vm_copy_strided(b->data, to->shape, to->ndim, s, stride, elem_bytes(to->elem));
	vm_value_dense(c, vm_dst(c, in, 0), b);
	vm_kill(c, in);
	return 0;
}

int exec_broadcast(struct vm_ctx *c, const struct vm_instr *in)
{
	struct vm_value *v = &c->values[vm_src(c, in, 0)], *r = &c->values[vm_dst(c, in, 0)];
	const struct vm_value_info *from = info_src(c, in, 0), *to = info_dst(c, in, 0);
	/* Nothing is repeated: shared. */
	if (from->count == to->count) {
		share(c, in);
		return 0;
	}
	if (v->form == FORM_SPLAT) { /* a buffer that it was written out to has the smaller block's size */
		vm_result_splat(c, in, 0, v->splat);
		vm_kill(c, in);
		return 0;
	}
	/* A lazy value: a repeated dimension has stride 0, or the whole range. */
	if (v->form != FORM_DENSE) {
		struct vm_value lazy = {.form = v->form};
		if (v->form == FORM_AFFINE) lazy.affine = v->affine;
		else lazy.box = v->box;
		for (int d = 0; d < to->ndim; d++) {
			if (from->shape[d] == to->shape[d]) continue;
			if (v->form == FORM_AFFINE) lazy.affine.stride[d] = 0;
			else lazy.box.lo[d] = 0, lazy.box.hi[d] = to->shape[d];
		}
		vm_kill(c, in);
		vm_value_clear(c, r);
		*r = lazy;
		return 0;
	}
	/* A dense one is copied, with stride 0 where it repeats. */
	int64_t stride[TTIR_DIMS_MAX];
	vm_row_major(from, stride);
	for (int d = 0; d < to->ndim; d++)
		if (from->shape[d] != to->shape[d]) stride[d] = 0;
	return copy_result(c, in, stride);
}

int exec_trans(struct vm_ctx *c, const struct vm_instr *in)
{
	struct vm_value *v = &c->values[vm_src(c, in, 0)], *r = &c->values[vm_dst(c, in, 0)];
	const struct vm_value_info *from = info_src(c, in, 0);
	const int32_t *perm = in->extra;
	if (v->form == FORM_SPLAT) {
		share(c, in);
		return 0;
	}
	/* Lazy values swap their strides or bounds. */
	if (v->form != FORM_DENSE) {
		struct vm_value lazy = {.form = v->form};
		if (v->form == FORM_AFFINE) lazy.affine.base = v->affine.base;
		for (int d = 0; d < from->ndim; d++) {
			if (v->form == FORM_AFFINE) lazy.affine.stride[d] = v->affine.stride[perm[d]];
			else lazy.box.lo[d] = v->box.lo[perm[d]], lazy.box.hi[d] = v->box.hi[perm[d]];
		}
		vm_kill(c, in);
		vm_value_clear(c, r);
		*r = lazy;
		return 0;
	}
	/* A dense one is copied along the permuted strides. */
	int64_t natural[TTIR_DIMS_MAX], stride[TTIR_DIMS_MAX];
	vm_row_major(from, natural);
	for (int d = 0; d < from->ndim; d++) stride[d] = natural[perm[d]];
	return copy_result(c, in, stride);
}

/* ---- joining and splitting ---- */

static const uint8_t *source(struct vm_ctx *c, const struct vm_instr *in, int i)
{
	return vm_dense(c, in, vm_src(c, in, i), info_src(c, in, i)->count);
}

/* Which element of the result is which is open; crosswise, the second operand comes first. */
int exec_cat(struct vm_ctx *c, const struct vm_instr *in)
{
	size_t bytes = (size_t)info_src(c, in, 0)->count * elem_bytes((enum elem)in->elem);
	const uint8_t *a = source(c, in, 0), *b = source(c, in, 1);
	uint8_t *d = a && b ? vm_result(c, in, 0, in->n) : NULL;
	if (!d) return 1;
	memcpy(d, c->crosswise ? b : a, bytes);
	memcpy(d + bytes, c->crosswise ? a : b, bytes);
	vm_kill(c, in);
	return 0;
}

#define INTERLEAVE(T) do { T *to = (T *)d; const T *x = (const T *)a, *y = (const T *)b; \
	for (int64_t i = 0; i < n; i++) { to[2 * i] = x[i]; to[2 * i + 1] = y[i]; } } while (0)
int exec_join(struct vm_ctx *c, const struct vm_instr *in)
{
	int64_t n = info_src(c, in, 0)->count;
	const uint8_t *a = source(c, in, 0), *b = source(c, in, 1);
	uint8_t *d = a && b ? vm_result(c, in, 0, in->n) : NULL;
	if (!d) return 1;
	switch (elem_bytes((enum elem)in->elem)) {
	case 1: INTERLEAVE(uint8_t); break;
	case 2: INTERLEAVE(uint16_t); break;
	case 4: INTERLEAVE(uint32_t); break;
	default: INTERLEAVE(uint64_t); break;
	}
	vm_kill(c, in);
	return 0;
}

/* The last axis, of two elements, goes away: the first of each pair to one result, the second to
 * the other. */
int exec_split(struct vm_ctx *c, const struct vm_instr *in)
{
	const uint8_t *s = source(c, in, 0);
	size_t size = elem_bytes((enum elem)in->elem);
	for (int i = 0; i < 2; i++) {
		uint8_t *d = s ? vm_result(c, in, i, in->n) : NULL;
		if (!d) return 1;
		vm_copy_row(d, s + (size_t)i * size, 2, in->n, size);
	}
	vm_kill(c, in);
	return 0;
}

#define WARP_LANES 32

int exec_gather(struct vm_ctx *c, const struct vm_instr *in)
{
	vm_plan_exchange(c, in);
	const struct vm_value_info *from = info_src(c, in, 0), *index = info_src(c, in, 1);
	const uint8_t *s = source(c, in, 0), *x = source(c, in, 1);
	uint8_t *d = s && x ? vm_result(c, in, 0, in->n) : NULL;
	if (!d) return 1;
	int axis = in->imm[0];
	int64_t stride[TTIR_DIMS_MAX], at[TTIR_DIMS_MAX] = {0};
	size_t size = elem_bytes(from->elem);
	vm_row_major(from, stride);
	/* Each element comes from its own place but for the axis; a warp's places are counted. */
	int64_t read[WARP_LANES]; /* where a warp's lanes read, in bytes */
	for (int64_t i = 0; i < index->count; i++) {
		int64_t k = vm_int_at(index->elem, x, i), offset = 0;
		if (k < 0 || k >= from->shape[axis])
			return vm_fault(c, in, VM_FAULT_OUT_OF_BOUNDS, i, "gather of index %lld along an axis of %d", (long long)k,
				from->shape[axis]);
		for (int n = 0; n < index->ndim; n++) offset += (n == axis ? k : at[n]) * stride[n];
		memcpy(d + (size_t)i * size, s + (size_t)offset * size, size);
		read[i % WARP_LANES] = offset * (int64_t)size;
		if (c->want_cost && ((i + 1) % WARP_LANES == 0 || i + 1 == index->count))
			vm_cost_banks(c, read, (int)(i % WARP_LANES) + 1, size);
		for (int n = index->ndim - 1; n >= 0 && ++at[n] == index->shape[n]; n--) at[n] = 0;
	}
	vm_kill(c, in);
	return 0;
}

/* As Triton compiles it: a warp looks at as many bits of a value as name all bins, of
 * which there are at least as many as its lanes. So a value outside of the bins may be
 * counted in one of them. */
int exec_histogram(struct vm_ctx *c, const struct vm_instr *in)
{
	c->collectives++;
	const struct vm_value_info *from = info_src(c, in, 0);
	const uint8_t *s = source(c, in, 0), *mask = in->nsrc > 1 ? source(c, in, 1) : NULL;
	int32_t *d = s && (mask || in->nsrc == 1) ? vm_result(c, in, 0, in->n) : NULL;
	if (!d) return 1;
	memset(d, 0, (size_t)in->n * sizeof *d);
	int64_t names = MAX(in->n, WARP_LANES) - 1;
	for (int64_t i = 0; i < from->count; i++) {
		int64_t v = vm_int_at(from->elem, s, i) & names;
		if (v < in->n && (!mask || mask[i])) d[v]++;
	}
	vm_kill(c, in);
	return 0;
}

/* ---- tt.print ---- */

static void put_number(struct str *out, const struct print_shape *p, enum elem e, const uint8_t *bits)
{
	if (elem_is_float(e)) {
		str_printf(out, "%f", vm_float_of(e, bits));
		return;
	}
	int64_t v = e == ELEM_I1 ? bits[0] : vm_int_at(e, bits, 0);
	int width = e == ELEM_I1 ? 1 : 8 * (int)elem_bytes(e);
	uint64_t u = width == 64 ? (uint64_t)v : (uint64_t)v & (((uint64_t)1 << width) - 1);
	if (p->is_hex || e == ELEM_PTR) str_printf(out, "0x%0*llx", MAX(width / 4, 1), (unsigned long long)u);
	else if (p->is_signed && e != ELEM_I1) str_printf(out, "%lld", (long long)v);
	else str_printf(out, "%llu", (unsigned long long)u);
}

/* A line for each element, as device_print has it on a GPU. */
int exec_print(struct vm_ctx *c, const struct vm_instr *in)
{
	const struct print_shape *p = in->extra;
	const struct vm_value_info *info = info_src(c, in, 0);
	const uint8_t *s = c->print ? source(c, in, 0) : NULL;
	if (c->print && !s) return 1;
	struct str text = {0};
	int32_t at[TTIR_DIMS_MAX] = {0};
	for (int64_t i = 0; s && i < info->count; i++) {
		str_printf(&text, "pid (%u, %u, %u) idx (", c->id[0], c->id[1], c->id[2]);
		for (int d = 0; d < info->ndim; d++) str_printf(&text, "%s%d", d ? ", " : "", at[d]);
		str_printf(&text, ")%s", p->prefix);
		if (p->count > 1) str_printf(&text, "(operand %d) ", p->operand);
		put_number(&text, p, info->elem, s + (size_t)i * elem_bytes(info->elem));
		str_putc(&text, '\n');
		for (int d = info->ndim - 1; d >= 0 && ++at[d] == info->shape[d]; d--) at[d] = 0;
	}
	if (text.len) fwrite(text.data, 1, text.len, c->print);
	str_release(&text);
	vm_kill(c, in);
	return 0;
}
