/* Loads and stores.
 *
 * Fast path: an affine pointer under a box mask. The lowest and highest address of the box decide
 * bounds for all of it, base and strides decide alignment, and rows are copied whole. Whatever the
 * fast path cannot vouch for (another buffer, a byte never written, a scattered pointer) goes
 * element by element (vm_access), which finds the first faulty element in row-major order and names
 * it. */
#include "vm/check/check.h"
#include "base/base.h"
#include "tape/tape.h"
#include "ttir/ttir.h"
#include "vm/core/program.h"
#include "vm/core/state.h"
#include "vm/exec/exec.h"
#include "vm/meter/meter.h"

/* ---- boxes ---- */

struct span { /* of a box: at its first element; of addresses: the buffer whose address is start */
	uint8_t *data;
	uint8_t *origin;
	uint8_t *used; /* where it is left that the access was made; NULL: nobody asks */
	int64_t start;
};

static uint8_t *used_of(const struct vm_buffer *b, bool is_write) { return is_write ? b->written : b->read; }

/* The buffer that holds all of min to max, where an access of `size` bytes begins, if it allows
 * that: aligned by low_bits, what any of the addresses may have set; writable if it is written.
 * *start is its first address. */
static inline const struct vm_buffer *buffer_of_range(
	const struct vm_ctx *c, int64_t min, int64_t max, uint64_t low_bits, size_t size, bool is_write, int64_t *start)
{
	uint64_t index = (uint64_t)min >> TAPE_ADDRESS_SHIFT;
	if (index != (uint64_t)max >> TAPE_ADDRESS_SHIFT || low_bits % size) return NULL;
	const struct vm_buffer *b = vm_buffer_at(c->memory, index);
	*start = (int64_t)(index << TAPE_ADDRESS_SHIFT);
	if (!b || max - *start + (int64_t)size > b->bytes || (is_write && b->is_read_only)) return NULL;
	/* A buffer whose contents repeat gives contiguous bytes within one period alone. */
	return b->period && max - min + (int64_t)size > b->period ? NULL : b;
}

static bool box_span(const struct vm_ctx *c, const struct affine *a, const int32_t *extent, int ndim, size_t size,
	bool is_write, struct span *out)
{
	/* The lowest and the highest address of the box, and in low_bits whatever could misalign one of
	 * its elements. */
	int64_t min = a->base, max = a->base;
	uint64_t low_bits = (uint64_t)a->base;
	for (int d = 0; d < ndim; d++) {
		if (extent[d] == 1) continue;
		int64_t span = a->stride[d] *
			(extent[d] - 1); /* cannot overflow: the affine value's range was checked when it was made */
		if (span < 0) min += span;
		else max += span;
		low_bits |= (uint64_t)a->stride[d];
	}
	/* An address of the host stands for a place in a buffer: both ends move there by as much. */
	int64_t shift = vm_address(c, min) - min; /* a multiple of the element's size, or low_bits tell */
	min += shift;
	max += shift;
	low_bits |= (uint64_t)shift;
	int64_t start;
	const struct vm_buffer *b = buffer_of_range(c, min, max, low_bits, size, is_write, &start);
	if (!b) return false;
	out->data = vm_buffer_data(b, min - start, is_write) + (a->base + shift - min);
	out->origin = b->origin ? b->origin + (a->base + shift - start) : NULL;
	out->used = used_of(b, is_write);
	if (out->used) out->used += a->base + shift - start;
	return true;
}

static bool row_is_written(const uint8_t *origin, int64_t step, int64_t n, size_t size)
{
	if (step == (int64_t)size) return !memchr(origin, TAPE_ORIGIN_NONE, (size_t)n * size);
	for (int64_t i = 0; i < n; i++)
		if (memchr(origin + i * step, TAPE_ORIGIN_NONE, size)) return false;
	return true;
}

static void mark_row(uint8_t *to, uint8_t mark, int64_t step, int64_t n, size_t size)
{
	if (step == (int64_t)size) memset(to, mark, (size_t)n * size);
	else
		for (int64_t i = 0; i < n; i++) memset(to + i * step, mark, size);
}

static void mark_each(
	const struct span *mem, uint8_t *to, uint8_t mark, const int64_t *address, const uint8_t *m, int64_t n, size_t size)
{
	for (int64_t i = 0; i < n; i++)
		if (!m || m[i]) memset(to + (address[i] - mem->start), mark, size);
}

#define ROW(T) do { for (int64_t i = 0; i < n; i++) *(T *)(d + i * dstep) = *(const T *)(s + i * sstep); } while (0)
#define CASES \
	case 1: ROW(uint8_t); return; case 2: ROW(uint16_t); return; case 4: ROW(uint32_t); return; \
	default: ROW(uint64_t); return
/* Elements at byte steps on both sides. */
static void copy_row(uint8_t *d, int64_t dstep, const uint8_t *s, int64_t sstep, int64_t n, size_t size)
{
	if (dstep == (int64_t)size && sstep == dstep) {
		memcpy(d, s, (size_t)n * size);
		return;
	}
	if (dstep == (int64_t)size && sstep == 0) {
		vm_fill(d, s, size, n);
		return;
	}
	switch (size) {
		CASES;
	}
}

/* Walks the rows of a box; origins are checked (load) or set (store) on the way. dense is the
 * block's own memory, row-major of the given shape. */
struct box_walk {
	int ndim;
	int32_t extent[VM_LAZY_DIMS];
	int64_t mem_stride[VM_LAZY_DIMS];   /* bytes */
	int64_t dense_stride[VM_LAZY_DIMS]; /* bytes */
	size_t size;                        /* of an element, in bytes */
};

struct row_at {
	int32_t index[VM_LAZY_DIMS]; /* of the row's first element */
	int64_t mem;                 /* its offset in the box's memory, in bytes */
	int64_t dense;               /* and in the block's */
};

/* From one row (the last dimension) to the next; false after the last. */
static bool next_row(const struct box_walk *w, struct row_at *at)
{
	for (int d = w->ndim - 2; d >= 0; d--) {
		at->mem += w->mem_stride[d];
		at->dense += w->dense_stride[d];
		if (++at->index[d] < w->extent[d]) return true;
		at->mem -= w->mem_stride[d] * w->extent[d];
		at->dense -= w->dense_stride[d] * w->extent[d];
		at->index[d] = 0;
	}
	return false;
}

static bool walk_box(const struct box_walk *w, struct span mem, uint8_t *dense, bool is_store, int64_t dense_step)
{
	int last = w->ndim - 1;
	int64_t n = w->extent[last], step = w->mem_stride[last];
	struct row_at row = {0};
	do {
		int64_t at = row.mem, dense_at = row.dense;
		if (is_store) {
			copy_row(mem.data + at, step, dense + dense_at, dense_step, n, w->size);
			if (mem.origin) mark_row(mem.origin + at, TAPE_ORIGIN_KERNEL, step, n, w->size);
		} else {
			if (mem.origin && !row_is_written(mem.origin + at, step, n, w->size)) return false;
			copy_row(dense + dense_at, dense_step, mem.data + at, step, n, w->size);
		}
		if (mem.used) mark_row(mem.used + at, 1, step, n, w->size);
	} while (next_row(w, &row));
	return true;
}

/* The box that a mask selects; false: the mask has no such form. A missing mask (value < 0) is the
 * whole block. */
static bool mask_box(const struct vm_ctx *c, int mask, const struct vm_value_info *block, struct box *b)
{
	*b = (struct box){.lo = {0}};
	for (int d = 0; d < block->ndim; d++) b->hi[d] = block->shape[d];
	if (mask < 0) return true;
	const struct vm_value *v = &c->values[mask];
	if (v->form == FORM_BOX) {
		*b = v->box;
		return true;
	}
	if (v->form != FORM_SPLAT) return false;
	if (!v->splat[0]) memset(b->hi, 0, sizeof b->hi);
	return true;
}

/* Prepares the walk of a box at an affine pointer: strides in bytes, first element in *start. False
 * when the box is empty or not vouched for. */
static bool prepare(const struct vm_ctx *c, const struct vm_value_info *block, const struct affine *a,
	const struct box *b, size_t size, bool is_write, struct box_walk *w, struct span *mem, int64_t *dense_start)
{
	struct affine first = *a;
	int64_t dense_stride = (int64_t)size;
	*w = (struct box_walk){
		.ndim = MAX(block->ndim, 1), .size = size, .extent = {1, 1, 1, 1}, .mem_stride = {(int64_t)size}};
	*dense_start = 0;
	for (int d = block->ndim - 1; d >= 0; d--) {
		w->extent[d] = b->hi[d] - b->lo[d];
		w->mem_stride[d] = a->stride[d];
		w->dense_stride[d] = dense_stride;
		first.base += a->stride[d] * b->lo[d];
		*dense_start += dense_stride * b->lo[d];
		dense_stride *= block->shape[d];
	}
	return box_span(c, &first, w->extent, block->ndim, size, is_write, mem);
}

static bool is_empty(const struct box *b, int ndim)
{
	for (int d = 0; d < ndim; d++)
		if (b->lo[d] >= b->hi[d]) return true;
	return false;
}

/* ---- load ---- */

/* Fills d with what masked-off elements hold. */
static int fill_other(struct vm_ctx *c, const struct vm_instr *in, int other, enum elem e, uint8_t *d, int64_t n)
{
	size_t size = elem_bytes(e);
	if (other < 0 && c->undefined_is_zero) {
		memset(d, 0, (size_t)n * size);
		return 0;
	}
	if (other < 0) {
		vm_fill(d, in->extra, size, n);
		return 0;
	}
	const struct vm_value *v = &c->values[other];
	if (v->form == FORM_SPLAT) {
		vm_fill(d, v->splat, size, n);
		return 0;
	}
	const void *s = vm_dense(c, in, other, n);
	if (!s) return 1;
	memcpy(d, s, (size_t)n * size);
	return 0;
}

static void normalise_bools(enum elem e, uint8_t *d, int64_t n)
{
	if (e != ELEM_I1) return;
	for (int64_t i = 0; i < n; i++) d[i] = d[i] != 0;
}

static int set_result(struct vm_ctx *c, const struct vm_instr *in, struct vm_buf *b)
{
	struct vm_value *r = &c->values[vm_dst(c, in, 0)];
	const struct vm_value_info *info = &c->program->values[vm_dst(c, in, 0)];
	normalise_bools(info->elem, b->data, info->count);
	if (info->ndim == 0) {
		vm_result_splat(c, in, 0, b->data);
		vm_buf_put(c, b);
	} else {
		vm_value_clear(c, r);
		r->form = FORM_DENSE;
		r->buf = b;
	}
	vm_kill(c, in);
	return 0;
}

/* -1: not this way. */
static int load_box(struct vm_ctx *c, const struct vm_instr *in, int mask, int other, struct vm_buf *buf)
{
	const struct vm_value_info *info = &c->program->values[vm_dst(c, in, 0)];
	struct affine a;
	struct box b;
	struct box_walk w;
	struct span mem;
	int64_t start;
	if (!vm_affine_of(c, vm_src(c, in, 0), &a) || !mask_box(c, mask, info, &b)) return -1;
	if (is_empty(&b, info->ndim) || (info->ndim == 0 && mask >= 0 && !c->values[mask].splat[0]))
		return fill_other(c, in, other, info->elem, buf->data, info->count);
	if (!prepare(c, info, &a, &b, elem_bytes(info->elem), false, &w, &mem, &start)) return -1;
	if (!vm_box_is_full(&b, info) && fill_other(c, in, other, info->elem, buf->data, info->count)) return 1;
	return walk_box(&w, mem, buf->data + start, false, (int64_t)w.size) ? 0 : -1;
}

#define EACH(T) do { T *to = (T *)d; for (int64_t i = 0; i < n; i++) { \
	if (m && !m[i]) continue; \
	const uint8_t *p = vm_access(c, in, address[i], sizeof(T), i, true, false); \
	if (!p) return 1; \
	to[i] = *(const T *)p; } } while (0)
static int load_each(struct vm_ctx *c, const struct vm_instr *in, const int64_t *address, const uint8_t *m, uint8_t *d,
	int64_t n, size_t size)
{
	switch (size) {
	case 1: EACH(uint8_t); return 0;
	case 2: EACH(uint16_t); return 0;
	case 4: EACH(uint32_t); return 0;
	default: EACH(uint64_t); return 0;
	}
}
#undef EACH

/* All active addresses in one buffer, in range and aligned: then no element needs a check of its
 * own. */
static bool all_in_one(const struct vm_ctx *c, const int64_t *address, const uint8_t *m, int64_t n, size_t size,
	bool is_write, struct span *out)
{
	/* Lowest and highest active address, and all their bits: one pass without a branch. */
	int64_t min = INT64_MAX, max = INT64_MIN;
	uint64_t bits = 0;
	if (m) {
		for (int64_t i = 0; i < n; i++) {
			int64_t on = -(int64_t)m[i], lo = (address[i] & on) | (INT64_MAX & ~on),
					hi = (address[i] & on) | (INT64_MIN & ~on);
			min = lo < min ? lo : min;
			max = hi > max ? hi : max;
			bits |= (uint64_t)(address[i] & on);
		}
	} else {
		for (int64_t i = 0; i < n; i++) {
			min = address[i] < min ? address[i] : min;
			max = address[i] > max ? address[i] : max;
			bits |= (uint64_t)address[i];
		}
	}
	/* A mask that leaves nothing has no ends. */
	int64_t start;
	const struct vm_buffer *b = min > max ? NULL : buffer_of_range(c, min, max, bits, size, is_write, &start);
	if (!b) return false;
	*out = b->period ? (struct span){vm_buffer_data(b, min - start, is_write), NULL, NULL, min}
					 : (struct span){b->data, b->origin, used_of(b, is_write), start};
	return true;
}

#define GATHER(T) do { T *to = (T *)d; \
	if (m) for (int64_t i = 0; i < n; i++) { if (m[i]) to[i] = *(const T *)(mem.data + (address[i] - mem.start)); } \
	else for (int64_t i = 0; i < n; i++) to[i] = *(const T *)(mem.data + (address[i] - mem.start)); } while (0)
static bool load_gather(struct vm_ctx *c, const int64_t *address, const uint8_t *m, uint8_t *d, int64_t n, size_t size)
{
	struct span mem;
	if (!all_in_one(c, address, m, n, size, false, &mem)) return false;
	if (mem.origin)
		for (int64_t i = 0; i < n; i++)
			if ((!m || m[i]) && memchr(mem.origin + (address[i] - mem.start), TAPE_ORIGIN_NONE, size)) return false;
	if (mem.used) mark_each(&mem, mem.used, 1, address, m, n, size);
	switch (size) {
	case 1: GATHER(uint8_t); break;
	case 2: GATHER(uint16_t); break;
	case 4: GATHER(uint32_t); break;
	default: GATHER(uint64_t); break;
	}
	return true;
}
#undef GATHER

static const uint8_t *mask_bytes(struct vm_ctx *c, const struct vm_instr *in, int mask, int64_t n, bool *failed)
{
	if (mask < 0) return NULL;
	const uint8_t *m = vm_dense(c, in, mask, n);
	if (!m) *failed = true;
	return m;
}

static int load_scattered(struct vm_ctx *c, const struct vm_instr *in, int mask, int other, struct vm_buf *buf)
{
	const struct vm_value_info *info = &c->program->values[vm_dst(c, in, 0)];
	int64_t n = info->count;
	bool failed = false;
	const int64_t *address = vm_dense(c, in, vm_src(c, in, 0), n);
	const uint8_t *m = address ? mask_bytes(c, in, mask, n, &failed) : NULL;
	if (!address || failed) return 1;
	if (m && fill_other(c, in, other, info->elem, buf->data, n)) return 1;
	if (load_gather(c, address, m, buf->data, n, elem_bytes(info->elem))) return 0;
	return load_each(c, in, address, m, buf->data, n, elem_bytes(info->elem));
}

static int count_access(struct vm_ctx *c, const struct vm_instr *in, int mask, int64_t n, size_t size, bool is_store)
{
	bool failed = false;
	const int64_t *address = vm_dense(c, in, vm_src(c, in, 0), n);
	const uint8_t *m = mask_bytes(c, in, mask, n, &failed);
	if (!address || failed) return 1;
	return vm_cost_access(c, in, address, m, n, size, is_store);
}

/* ---- what a launch with checks looks at before an access ---- */

/* Rows of a box that lies inside its buffer. value: the block that is stored, or NULL; a splat has
 * step 0. */
static int check_box(struct vm_ctx *c, const struct vm_instr *in, const struct box_walk *w, int64_t address,
	const uint8_t *value, int64_t value_step, int64_t start, enum check_kind kind)
{
	int last = w->ndim - 1;
	int64_t size = (int64_t)w->size;
	struct row_at at = {.mem = address, .dense = start};
	do {
		struct check_row row = {at.mem, w->mem_stride[last], w->extent[last],
			value ? value + (value_step ? at.dense : 0) : NULL, value_step, at.dense / size, 1};
		if (vm_race_row(c, in, &row, w->size, kind)) return 1;
	} while (next_row(w, &at));
	return 0;
}

/* Address by address; neighbours make one row. What lies outside its buffer is the access's own
 * fault. */
static int check_each(struct vm_ctx *c, const struct vm_instr *in, int mask, const uint8_t *value, int64_t value_step,
	const struct vm_value_info *info, enum check_kind kind)
{
	int64_t n = info->count;
	size_t size = elem_bytes(info->elem);
	bool failed = false;
	const int64_t *address = vm_dense(c, in, vm_src(c, in, 0), n);
	const uint8_t *m = address ? mask_bytes(c, in, mask, n, &failed) : NULL;
	if (!address || failed) return 1;
	vm_race_block(c->check, address, info);
	/* Lanes of one store can only race when their values may differ: with step 0 all have the
	 * same. */
	if (kind == CHECK_WRITE && value_step && vm_race_lanes(c, in, address, m, value, n, size)) return 1;
	for (int64_t i = 0; i < n;) {
		int64_t at = vm_address(c, address[i]);
		const struct vm_buffer *b = vm_buffer_at(c->memory, (uint64_t)at >> TAPE_ADDRESS_SHIFT);
		int64_t room = b ? (int64_t)b->address + b->bytes - at : 0; /* from here on */
		if ((m && !m[i]) || room < (int64_t)size || (uint64_t)at % size) {
			i++;
			continue;
		}
		/* The row goes on while the next lane is active, adjoins the last one and lies in the
		 * buffer. */
		int64_t j = i + 1;
		while (j < n && (!m || m[j]) && address[j] == address[j - 1] + (int64_t)size &&
			(j - i + 1) * (int64_t)size <= room)
			j++;
		struct check_row row = {at, (int64_t)size, j - i, value ? value + i * value_step : NULL, value_step, i, 1};
		if (vm_race_row(c, in, &row, size, kind)) return 1;
		i = j;
	}
	return 0;
}

static int check_races(struct vm_ctx *c, const struct vm_instr *in, int mask, int stored,
	const struct vm_value_info *info, enum check_kind kind)
{
	struct affine a;
	struct box b;
	struct box_walk w;
	struct span mem;
	int64_t start, size = (int64_t)elem_bytes(info->elem), value_step = 0;
	const uint8_t *value = NULL;
	/* A splat is one value for all lanes: it is read with step 0 and not spelt out. */
	if (stored >= 0) {
		const struct vm_value *v = &c->values[stored];
		value_step = v->form == FORM_SPLAT ? 0 : size;
		value = v->form == FORM_SPLAT ? v->splat : vm_dense(c, in, stored, info->count);
		if (!value) return 1;
	}
	/* The walk by rows needs an affine pointer and a mask that is a box. */
	if (!vm_affine_of(c, vm_src(c, in, 0), &a) || !mask_box(c, mask, info, &b))
		return check_each(c, in, mask, value, value_step, info, kind);
	vm_race_block_affine(c->check, &a, info);
	/* When lanes may meet at one address, their values are compared, which is done address by
	 * address. */
	if (c->check->block.may_overlap && kind == CHECK_WRITE)
		return check_each(c, in, mask, value, value_step, info, kind);
	if (is_empty(&b, info->ndim) || (info->ndim == 0 && mask >= 0 && !c->values[mask].splat[0])) return 0;
	if (!prepare(c, info, &a, &b, (size_t)size, kind == CHECK_WRITE, &w, &mem, &start))
		return check_each(c, in, mask, value, value_step, info, kind);
	/* The walk begins at the first element that the mask lets through. */
	int64_t address = a.base;
	for (int d = 0; d < info->ndim; d++) address += a.stride[d] * b.lo[d];
	return check_box(c, in, &w, vm_address(c, address), value, value_step, start, kind);
}

static int check_access(struct vm_ctx *c, const struct vm_instr *in, int mask, int stored,
	const struct vm_value_info *info, enum check_kind kind)
{
	unsigned checks = c->check->checks;
	if (checks & VM_CHECK_NOTES) vm_notes_access(c, in, mask, info->count, elem_bytes(info->elem));
	if (c->is_tainted && vm_taint_use(c, in, vm_src(c, in, 0), mask, info->count, true)) return 1;
	if (c->is_tainted && stored >= 0 && vm_taint_use(c, in, stored, mask, info->count, false)) return 1;
	if (!(checks & VM_CHECK_RACE)) return 0;
	c->check->code = vm_plan_code(c, in);
	struct affine a;
	if ((in->imm[3] & ORDER_ACQUIRE) && info->ndim == 0 && vm_affine_of(c, vm_src(c, in, 0), &a))
		vm_order_atomic(c, in, (uint64_t)vm_address(c, a.base), true, false, false, 1);
	return check_races(c, in, mask, stored, info, kind);
}

int exec_load(struct vm_ctx *c, const struct vm_instr *in)
{
	int mask = in->nsrc > 1 ? vm_src(c, in, 1) : -1, other = in->nsrc > 2 ? vm_src(c, in, 2) : -1;
	const struct vm_value_info *info = &c->program->values[vm_dst(c, in, 0)];
	struct vm_buf *buf = vm_buf_get(c, in, (size_t)info->count * elem_bytes(info->elem));
	if (!buf) return 1;
	if (in->imm[3] & ORDER_VOLATILE) {
		c->polls++;
		c->polled = in;
	}
	int rc = c->check ? check_access(c, in, mask, -1, info, CHECK_READ) : 0;
	if (!rc) rc = load_box(c, in, mask, other, buf);
	if (rc < 0) rc = load_scattered(c, in, mask, other, buf);
	if (!rc && c->missed) vm_missed_load(c, in, mask, info->count, elem_bytes(info->elem));
	if (!rc && c->want_cost && c->report->fault == VM_FAULT_NONE)
		rc = count_access(c, in, mask, info->count, elem_bytes(info->elem), false);
	if (!rc) return set_result(c, in, buf);
	vm_buf_put(c, buf);
	return 1;
}

/* ---- store ---- */

static int store_box(struct vm_ctx *c, const struct vm_instr *in, int mask)
{
	const struct vm_value_info *info = &c->program->values[vm_src(c, in, 1)];
	const struct vm_value *v = &c->values[vm_src(c, in, 1)];
	struct affine a;
	struct box b;
	struct box_walk w;
	struct span mem;
	int64_t start;
	if (!vm_affine_of(c, vm_src(c, in, 0), &a) || !mask_box(c, mask, info, &b)) return -1;
	if (is_empty(&b, info->ndim) || (info->ndim == 0 && mask >= 0 && !c->values[mask].splat[0])) return 0;
	if (!prepare(c, info, &a, &b, elem_bytes(info->elem), true, &w, &mem, &start)) return -1;
	/* One element everywhere, or rows of a dense block. */
	if (v->form == FORM_SPLAT) {
		uint8_t bits[8];
		memcpy(bits, v->splat, sizeof bits);
		memset(w.dense_stride, 0, sizeof w.dense_stride);
		walk_box(&w, mem, bits, true, 0);
		return 0;
	}
	/* A dense block is walked beside memory. */
	const uint8_t *s = vm_dense(c, in, vm_src(c, in, 1), info->count);
	if (!s) return 1;
	union {
		const uint8_t *in;
		uint8_t *out;
	} p = {.in = s + start}; /* the walk writes only to memory here */
	walk_box(&w, mem, p.out, true, (int64_t)w.size);
	return 0;
}

#define EACH(T) do { for (int64_t i = 0; i < n; i++) { \
	if (m && !m[i]) continue; \
	uint8_t *p = vm_access(c, in, address[i], sizeof(T), i, false, true); \
	if (!p) return 1; \
	*(T *)p = ((const T *)s)[i * step]; } } while (0)
static int store_each(struct vm_ctx *c, const struct vm_instr *in, const int64_t *address, const uint8_t *m,
	const uint8_t *s, int64_t step, int64_t n, size_t size)
{
	switch (size) {
	case 1: EACH(uint8_t); return 0;
	case 2: EACH(uint16_t); return 0;
	case 4: EACH(uint32_t); return 0;
	default: EACH(uint64_t); return 0;
	}
}

#define SCATTER(T) \
	do { \
		for (int64_t i = 0; i < n; i++) \
			if (!m || m[i]) *(T *)(mem.data + (address[i] - mem.start)) = ((const T *)s)[i * step]; \
	} while (0)
static int scatter(struct vm_ctx *c, const struct vm_instr *in, const int64_t *address, const uint8_t *m,
	const uint8_t *s, int64_t step, int64_t n, size_t size)
{
	struct span mem;
	if (!all_in_one(c, address, m, n, size, true, &mem)) return store_each(c, in, address, m, s, step, n, size);
	if (mem.origin) mark_each(&mem, mem.origin, TAPE_ORIGIN_KERNEL, address, m, n, size);
	if (mem.used) mark_each(&mem, mem.used, 1, address, m, n, size);
	switch (size) {
	case 1: SCATTER(uint8_t); return 0;
	case 2: SCATTER(uint16_t); return 0;
	case 4: SCATTER(uint32_t); return 0;
	default: SCATTER(uint64_t); return 0;
	}
}

static int store_scattered(struct vm_ctx *c, const struct vm_instr *in, int mask)
{
	const struct vm_value_info *info = &c->program->values[vm_src(c, in, 1)];
	int64_t n = info->count;
	bool failed = false;
	const int64_t *address = vm_dense(c, in, vm_src(c, in, 0), n);
	const uint8_t *m = address ? mask_bytes(c, in, mask, n, &failed) : NULL;
	if (!address || failed) return 1;
	const struct vm_value *v = &c->values[vm_src(c, in, 1)];
	if (v->form == FORM_SPLAT) return scatter(c, in, address, m, v->splat, 0, n, elem_bytes(info->elem));
	const uint8_t *s = vm_dense(c, in, vm_src(c, in, 1), n);
	return s ? scatter(c, in, address, m, s, 1, n, elem_bytes(info->elem)) : 1;
}

int exec_store(struct vm_ctx *c, const struct vm_instr *in)
{
	int mask = in->nsrc > 2 ? vm_src(c, in, 2) : -1;
	const struct vm_value_info *info = &c->program->values[vm_src(c, in, 1)];
	int rc = c->check ? check_access(c, in, mask, vm_src(c, in, 1), info, CHECK_WRITE) : 0;
	c->version++;
	if (!rc && c->missed) vm_missed_store(c, in, mask, info->count);
	if (!rc) rc = store_box(c, in, mask);
	if (rc < 0) rc = store_scattered(c, in, mask);
	if (!rc && c->want_cost && c->report->fault == VM_FAULT_NONE)
		rc = count_access(c, in, mask, info->count, elem_bytes(info->elem), true);
	if (rc) return 1;
	vm_kill(c, in);
	return 0;
}

/* ---- addptr over elements ---- */

#define ADD(T) do { const T *o = offset; \
	for (int64_t i = 0; i < n; i++) \
		d[i] = (int64_t)((uint64_t)p[i * pstep] + (uint64_t)(int64_t)o[i * ostep] * size); } while (0)
static void add_offsets(int64_t *d, const int64_t *p, int64_t pstep, const void *offset, int64_t ostep, enum elem e,
	uint64_t size, int64_t n)
{
	switch (e) {
	case ELEM_I1: {
		const uint8_t *o = offset;
		for (int64_t i = 0; i < n; i++) d[i] = (int64_t)((uint64_t)p[i * pstep] - (uint64_t)o[i * ostep] * size);
		return;
	}
	case ELEM_I8: ADD(int8_t); return;
	case ELEM_I16: ADD(int16_t); return;
	case ELEM_I32: ADD(int32_t); return;
	default: ADD(int64_t); return;
	}
}

int exec_addptr(struct vm_ctx *c, const struct vm_instr *in)
{
	int64_t n = in->n;
	/* Affine pointer and offsets: the result is affine too. */
	if (in->rule(c, in)) {
		vm_kill(c, in);
		return 0;
	}
	/* Else pointers and offsets element by element; a splat is read with step 0. */
	int ids[2] = {vm_src(c, in, 0), vm_src(c, in, 1)};
	const void *p[2];
	for (int i = 0; i < 2; i++) {
		struct vm_value *v = &c->values[ids[i]];
		p[i] = v->form == FORM_SPLAT ? v->splat : vm_dense(c, in, ids[i], n);
		if (!p[i]) return 1;
	}
	int64_t pstep = c->values[ids[0]].form != FORM_SPLAT, ostep = c->values[ids[1]].form != FORM_SPLAT;
	if (!pstep && !ostep) { /* overflow of the address: out of every buffer, and found so when it is used */
		int64_t address;
		add_offsets(&address, p[0], 0, p[1], 0, c->program->values[ids[1]].elem, (uint64_t)in->imm[1], 1);
		vm_result_splat(c, in, 0, &address);
		vm_kill(c, in);
		return 0;
	}
	int64_t *d = vm_result(c, in, 0, n);
	if (!d) return 1;
	add_offsets(d, p[0], pstep, p[1], ostep, c->program->values[ids[1]].elem, (uint64_t)in->imm[1], n);
	vm_kill(c, in);
	return 0;
}
