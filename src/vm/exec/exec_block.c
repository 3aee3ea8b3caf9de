/* Records of block pointers and descriptors (lower_block.c): [0] base, [1] flags, then shape,
 * stride and offset of each dimension. */
#include "vm/exec/exec.h"
#include "ttir/ttir.h"
#include "vm/core/program.h"
#include "vm/core/state.h"

enum { RECORD_BASE, RECORD_NAN_PADDING, RECORD_DIMS };
#define RECORD_WORDS (RECORD_DIMS + 3 * VM_LAZY_DIMS)
#define TMA_ALIGNMENT 16   /* bytes: base and outer strides of a descriptor, as the hardware demands */

static const struct ttir_type *tensor_of(const struct vm_ctx *c, int value)
{
	const struct ttir_type *types = c->kernel->module.types;
	return &types[types[c->program->values[value].type].inner];
}

static int64_t scalar_of(const struct vm_ctx *c, int value)
{
	int64_t x = c->values[value].splat_int;
	return c->program->values[value].elem == ELEM_I32 ? (int32_t)x : x;
}

static int64_t *new_record(struct vm_ctx *c, const struct vm_instr *in)
{
	struct vm_value *v = &c->values[vm_dst(c, in, 0)];
	vm_value_clear(c, v);
	v->form = FORM_DENSE;
	v->buf = vm_buf_get(c, in, RECORD_WORDS * sizeof(int64_t));
	if (!v->buf) {
		v->form = FORM_SPLAT;
		return NULL;
	}
	memset(v->buf->data, 0, RECORD_WORDS * sizeof(int64_t));
	return (int64_t *)v->buf->data;
}

static int check_descriptor(struct vm_ctx *c, const struct vm_instr *in, const int64_t *r, int n, int64_t size)
{
	if (r[RECORD_BASE] % TMA_ALIGNMENT)
		return vm_fault(
			c, in, VM_FAULT_ARGUMENT, -1, "a tensor descriptor's base is not aligned to %d bytes", TMA_ALIGNMENT);
	for (int d = 0; d < n; d++) {
		int64_t stride = r[RECORD_DIMS + 3 * d + 1], bytes;
		bool is_legal = d == n - 1
			? stride == 1
			: !__builtin_mul_overflow(stride, size, &bytes) && stride >= 0 && bytes % TMA_ALIGNMENT == 0;
		if (!is_legal)
			return vm_fault(c, in, VM_FAULT_ARGUMENT, -1,
				"a tensor descriptor's stride %d is %lld elements: the last is 1, others are multiples of %d bytes", d,
				(long long)stride, TMA_ALIGNMENT);
	}
	return 0;
}

/* imm[0]: a descriptor (no offsets); imm[1]: NaN padding; imm[2]: 1 + the argument whose padding it
 * has, or 0. */
int exec_block_ptr(struct vm_ctx *c, const struct vm_instr *in)
{
	const struct ttir_type *t = tensor_of(c, vm_dst(c, in, 0));
	int n = t->ndim;
	int64_t *r = new_record(c, in);
	if (!r) return 1;
	r[RECORD_BASE] = scalar_of(c, vm_src(c, in, 0));
	r[RECORD_NAN_PADDING] = in->imm[2] ? c->args[in->imm[2] - 1].nan_padding : in->imm[1];
	for (int d = 0; d < n; d++) {
		r[RECORD_DIMS + 3 * d] = scalar_of(c, vm_src(c, in, 1 + d));
		r[RECORD_DIMS + 3 * d + 1] = scalar_of(c, vm_src(c, in, 1 + n + d));
		if (!in->imm[0]) r[RECORD_DIMS + 3 * d + 2] = scalar_of(c, vm_src(c, in, 1 + 2 * n + d));
	}
	return in->imm[0] ? check_descriptor(c, in, r, n, (int64_t)elem_bytes(t->elem)) : 0;
}

/* Offsets are 32-bit numbers and wrap as such. */
int exec_advance(struct vm_ctx *c, const struct vm_instr *in)
{
	int64_t old[RECORD_WORDS];
	memcpy(old, c->values[vm_src(c, in, 0)].buf->data, sizeof old);
	int64_t *r = new_record(c, in);
	if (!r) return 1;
	memcpy(r, old, sizeof old);
	for (int i = 1; i < in->nsrc; i++) {
		int64_t *offset = &r[RECORD_DIMS + 3 * (i - 1) + 2];
		*offset = (int32_t)((uint32_t)*offset + (uint32_t)scalar_of(c, vm_src(c, in, i)));
	}
	vm_kill(c, in);
	return 0;
}

static int32_t clamp(int64_t x, int32_t max) { return (int32_t)(x < 0 ? 0 : x > max ? max : x); }

/* imm[0]: dimensions bounded by the shape. A stride that overflows the address leads nowhere and
 * faults at the access. */
int exec_block_address(struct vm_ctx *c, const struct vm_instr *in)
{
	int record = vm_src(c, in, 0);
	const struct ttir_type *t = tensor_of(c, record);
	const int64_t *r = (const int64_t *)c->values[record].buf->data;
	int64_t size = (int64_t)elem_bytes(t->elem);
	struct affine a = {.base = r[RECORD_BASE]};
	struct box b = {.lo = {0}};
	bool overflow = false, is_full = true, is_empty = false;
	/* Along each dimension: the address of the first element, the step, and the part of the
	 * block that lies inside of the tensor. */
	for (int d = 0; d < t->ndim; d++) {
		int64_t shape = r[RECORD_DIMS + 3 * d], stride = r[RECORD_DIMS + 3 * d + 1], step;
		int64_t offset = in->nsrc > 1 ? scalar_of(c, vm_src(c, in, 1 + d)) : r[RECORD_DIMS + 3 * d + 2];
		overflow |= __builtin_mul_overflow(stride, size, &a.stride[d]) ||
			__builtin_mul_overflow(a.stride[d], offset, &step) || __builtin_add_overflow(a.base, step, &a.base);
		bool is_checked = (uint32_t)in->imm[0] >> d & 1;
		b.lo[d] = is_checked ? clamp(-offset, t->shape[d]) : 0;
		b.hi[d] = is_checked ? shape <= offset ? 0
				: shape > offset + t->shape[d] ? t->shape[d]
											   : (int32_t)(shape - offset)
							 : t->shape[d];
		is_full &= b.lo[d] == 0 && b.hi[d] == t->shape[d];
		is_empty |= b.lo[d] >= b.hi[d];
	}
	/* Result 0: the pointers. */
	if (overflow || !vm_result_affine(c, in, &a)) {
		int64_t nowhere = -1;
		vm_result_splat(c, in, 0, &nowhere);
	}
	/* Result 1: the mask, a box unless it is the same everywhere. */
	struct vm_value *mask = &c->values[vm_dst(c, in, 1)];
	vm_value_clear(c, mask);
	mask->form = is_full || is_empty ? FORM_SPLAT : FORM_BOX;
	if (mask->form == FORM_SPLAT) mask->splat_int = !is_empty;
	else mask->box = b;
	if (in->ndst == 3) { /* padding: 0 or NaN */
		uint8_t bits[8] = {0};
		if (r[RECORD_NAN_PADDING]) vm_pattern(t->elem, bits);
		vm_result_splat(c, in, 2, bits);
	}
	vm_kill(c, in);
	return 0;
}

/* Pointers and mask of the rows of a two-dimensional descriptor that a list of row numbers names,
 * from one column on. */
int exec_row_address(struct vm_ctx *c, const struct vm_instr *in)
{
	int record = vm_src(c, in, 0), list = vm_src(c, in, 1);
	const struct ttir_type *t = tensor_of(c, record);
	const int64_t *r = (const int64_t *)c->values[record].buf->data;
	int64_t rows = c->program->values[list].count, columns = t->shape[1], size = (int64_t)elem_bytes(t->elem),
			column = scalar_of(c, vm_src(c, in, 2));
	const int32_t *row = vm_dense(c, in, list, rows);
	int64_t *address = row ? vm_result(c, in, 0, rows * columns) : NULL;
	uint8_t *mask = address ? vm_result(c, in, 1, rows * columns) : NULL;
	if (!mask) return 1;
	/* Addresses wrap where they overflow; the mask keeps such elements from being touched. */
	for (int64_t i = 0; i < rows; i++) {
		for (int64_t j = 0; j < columns; j++, address++, mask++) {
			*mask = row[i] >= 0 && row[i] < r[RECORD_DIMS] && column + j >= 0 && column + j < r[RECORD_DIMS + 3];
			uint64_t elements = (uint64_t)row[i] * (uint64_t)r[RECORD_DIMS + 1] +
				(uint64_t)(column + j) * (uint64_t)r[RECORD_DIMS + 4];
			*address = (int64_t)((uint64_t)r[RECORD_BASE] + elements * (uint64_t)size);
		}
	}
	/* What stands in rows and columns outside: 0 or NaN. */
	if (in->ndst == 3) {
		uint8_t bits[8] = {0};
		if (r[RECORD_NAN_PADDING]) vm_pattern(t->elem, bits);
		vm_result_splat(c, in, 2, bits);
	}
	vm_kill(c, in);
	return 0;
}
