/* move: fill and copy rows on the GPU. Dense ones are the driver's, strided ones the launcher's own
 * kernels (kernels.h). A copy to or from an 8-bit float, or whose views overlap in one buffer, is
 * done by the same code as the vm's (movement.h), on a copy of the buffers in the host's memory:
 * rare, exact, slow. */
#include "runner/cuda/gpu_internal.h"
#include "base/base.h"
#include "base/dtype.h"
#include "runner/movement.h"
#include "tape/tape.h"
#include <stdlib.h>

#define GRID_MAX 4096 /* enough programs for any card; each walks on by the grid's size */

/* A driver without a compiler for PTX, or with one that is older than it. */
static bool is_no_compiler(cu_result r)
{
	static const cu_result results[] = {
		CU_NO_BINARY_FOR_GPU, CU_INVALID_PTX, CU_NO_JIT_COMPILER, CU_UNSUPPORTED_PTX, CU_JIT_DISABLED};
	for (size_t i = 0; i < ARRAY_LEN(results); i++)
		if (r == results[i]) return true;
	return false;
}

cu_result cuda_own_load(struct cuda *c)
{
	cu_module module = NULL;
	cu_result r = c->cu.ModuleLoadData(&module, cuda_own_ptx);
	if (!r) r = c->cu.ModuleGetFunction(&c->read, module, "hone_read");
	if (!r) r = c->cu.ModuleGetFunction(&c->move, module, "hone_move");
	if (!r) r = c->cu.ModuleGetFunction(&c->cast, module, "hone_cast");
	if (!r) r = c->cu.ModuleGetFunction(&c->spin, module, "hone_spin");
	if (!r) r = c->cu.ModuleGetFunction(&c->differ, module, "hone_differ");
	if (r && module) c->cu.ModuleUnload(module);
	c->has_own = !r;
	return is_no_compiler(r) ? CU_OK : r;
}

int cuda_own_launch(
	struct cuda *c, cu_function f, uint64_t count, void **params, cu_stream s, int row, struct runner_fault *fault)
{
	uint64_t blocks = (count + CUDA_OWN_THREADS - 1) / CUDA_OWN_THREADS;
	struct cu_launch_config config = {
		.grid = {(unsigned)MIN(blocks, (uint64_t)GRID_MAX), 1, 1}, .block = {CUDA_OWN_THREADS, 1, 1}, .stream = s};
	return cuda_check(c, c->cu.LaunchKernelEx(&config, f, params, NULL), "moving", row, fault);
}

/* The bit pattern of a fill's value. */
static uint64_t fill_bits(const struct tape_row *row)
{
	uint64_t bits = (uint64_t)row->fill_int;
	if (row->dst.dtype == DTYPE_BOOL) return bits != 0;
	if (dtype_is_float(row->dst.dtype)) {
		bits = 0;
		dtype_store(row->dst.dtype, &bits, 0, row->fill);
	}
	return bits;
}

static cu_address view_address(const struct cuda *c, const struct tape_view *v)
{
	return cuda_data(c, v->buffer) + (uint64_t)v->offset_bytes;
}

static bool is_dense_fill(const struct tape_row *row)
{
	uint64_t bits = fill_bits(row);
	if (row->kind != TAPE_FILL || !tape_view_is_contiguous(&row->dst)) return false;
	return dtype_bytes(row->dst.dtype) < 8 || (uint32_t)bits == bits >> 32; /* eight bytes with equal halves */
}

static int fill_dense(struct cuda *c, const struct tape_row *row, int index, cu_stream s, struct runner_fault *fault)
{
	size_t size = dtype_bytes(row->dst.dtype), count = (size_t)tape_view_elements(&row->dst);
	uint64_t bits = fill_bits(row);
	cu_address to = view_address(c, &row->dst);
	cu_result r = size == 1 ? c->cu.MemsetD8Async(to, (unsigned char)bits, count, s)
		: size == 2         ? c->cu.MemsetD16Async(to, (unsigned short)bits, count, s)
		: size == 4         ? c->cu.MemsetD32Async(to, (unsigned)bits, count, s)
							: c->cu.MemsetD32Async(to, (unsigned)bits, 2 * count, s);
	return cuda_check(c, r, "a fill", index, fault);
}

/* Bytes from a view's first to behind its last. */
static void extent(const struct tape_view *v, int64_t *from, int64_t *to)
{
	int64_t last = 0;
	for (int i = 0; i < v->ndim; i++) last += (v->shape[i] - 1) * v->stride[i];
	*from = v->offset_bytes;
	*to = v->offset_bytes + (last + 1) * (int64_t)dtype_bytes(v->dtype);
}

static bool is_cast(const struct tape_row *row) { return row->kind == TAPE_COPY && row->dst.dtype != row->src.dtype; }

/* A copy whose source stays as it is while it is read, between types that a kernel takes. */
static bool is_plain_copy(const struct tape_row *row)
{
	int64_t a, b, x, y;
	if (row->kind != TAPE_COPY) return false;
	if (is_cast(row) && (!cuda_cast_codes[row->dst.dtype] || !cuda_cast_codes[row->src.dtype])) return false;
	if (row->dst.buffer != row->src.buffer || !tape_view_elements(&row->dst)) return true;
	extent(&row->dst, &a, &b);
	extent(&row->src, &x, &y);
	return b <= x || y <= a;
}

/* ---- strided rows ---- */

/* Dimensions in the order of where they write, the nearest last, as torch has them: neighbouring
 * threads write neighbouring elements. Those of one element go, and one that continues the next
 * inner one on both sides joins it. At least one stays. */
static void strided_simplify(struct cuda_strided *m)
{
	int n = 0;
	for (int i = 0; i < m->ndim; i++) {
		uint64_t shape = m->shape[i], dst = m->dst_step[i], src = m->src_step[i];
		if (shape == 1) continue;
		int at = n++;
		for (; at > 0 && m->dst_step[at - 1] < dst; at--)
			m->shape[at] = m->shape[at - 1], m->dst_step[at] = m->dst_step[at - 1],
			m->src_step[at] = m->src_step[at - 1];
		m->shape[at] = shape, m->dst_step[at] = dst, m->src_step[at] = src;
	}
	int last = MIN(n, 1);
	for (int i = 1; i < n; i++) {
		uint64_t inner = m->shape[i];
		bool joins = m->dst_step[last - 1] == inner * m->dst_step[i] && m->src_step[last - 1] == inner * m->src_step[i];
		if (joins) m->shape[last - 1] *= inner;
		else m->shape[last++] = inner;
		m->dst_step[last - 1] = m->dst_step[i], m->src_step[last - 1] = m->src_step[i];
	}
	m->ndim = MAX(last, 1);
	if (!last) m->shape[0] = 1, m->dst_step[0] = m->src_step[0] = 0;
}

/* (magic, shift) of a division by d, 1 to 2^31 - 1. */
static void divide_by(uint32_t d, uint32_t *magic, uint32_t *shift)
{
	for (*shift = 0; (uint64_t)1 << *shift < d;) ++*shift;
	*magic = (uint32_t)((((uint64_t)1 << 32) * (((uint64_t)1 << *shift) - d)) / d + 1);
}

static int strided_launch(
	struct cuda *c, const struct cuda_strided *m, uint64_t count, cu_stream s, int row, struct runner_fault *fault)
{
	uint32_t each = CUDA_OWN_THREADS * CUDA_MOVE_EACH;
	struct cuda_move k = {.dst = m->dst,
		.src = m->src,
		.value = m->value,
		.count = (uint32_t)count,
		.size = (uint32_t)m->size,
		.ndim = (uint32_t)m->ndim,
		.from = m->from,
		.to = m->to};
	for (int i = 0; i < m->ndim; i++) {
		k.shape[i] = (uint32_t)m->shape[i], k.dst_step[i] = m->dst_step[i], k.src_step[i] = m->src_step[i];
		divide_by(k.shape[i], &k.magic[i], &k.shift[i]);
	}
	struct cu_launch_config config = {
		.grid = {(k.count + each - 1) / each, 1, 1}, .block = {CUDA_OWN_THREADS, 1, 1}, .stream = s};
	return cuda_check(
		c, c->cu.LaunchKernelEx(&config, m->from ? c->cast : c->move, (void *[]){&k}, NULL), "moving", row, fault);
}

int cuda_strided_run(struct cuda *c, const struct cuda_strided *all, cu_stream s, int row, struct runner_fault *fault)
{
	struct cuda_strided m = *all;
	uint64_t count = 1;
	strided_simplify(&m);
	for (int i = 0; i < m.ndim; i++) count *= m.shape[i];
	if (count <= INT32_MAX) return strided_launch(c, &m, count, s, row, fault);
	/* The kernel counts in 31 bits: one half after the other. */
	uint64_t half = m.shape[0] / 2, rest = m.shape[0] - half;
	m.shape[0] = half;
	int rc = cuda_strided_run(c, &m, s, row, fault);
	m.shape[0] = rest, m.dst += half * m.dst_step[0];
	if (m.src) m.src += half * m.src_step[0];
	return rc ? rc : cuda_strided_run(c, &m, s, row, fault);
}

static int move_strided(struct cuda *c, const struct tape_row *row, int index, cu_stream s, struct runner_fault *fault)
{
	bool is_copy = row->kind == TAPE_COPY;
	uint64_t size = dtype_bytes(row->dst.dtype), src_size = is_copy ? dtype_bytes(row->src.dtype) : 0;
	struct cuda_strided m = {.dst = view_address(c, &row->dst),
		.src = is_copy ? view_address(c, &row->src) : 0,
		.value = is_copy ? 0 : fill_bits(row),
		.size = size,
		.from = is_cast(row) ? cuda_cast_codes[row->src.dtype] : 0,
		.to = is_cast(row) ? cuda_cast_codes[row->dst.dtype] : 0,
		.ndim = row->dst.ndim};
	for (int i = 0; i < row->dst.ndim; i++) {
		m.shape[i] = (uint64_t)row->dst.shape[i];
		m.dst_step[i] = (uint64_t)row->dst.stride[i] * size;
		m.src_step[i] = is_copy ? (uint64_t)row->src.stride[i] * src_size : 0;
	}
	return cuda_strided_run(c, &m, s, index, fault);
}

/* ---- what the host does ---- */

/* A buffer's bytes in the host's memory. */
static int fetch(struct cuda *c, int buffer, int index, struct memory_view *out, struct runner_fault *fault)
{
	size_t bytes = (size_t)c->buffers[buffer].bytes;
	*out = (struct memory_view){xmalloc(bytes + 1), xcalloc(1, bytes + 1)};
	return cuda_check(c, c->cu.MemcpyDtoH(out->data, cuda_data(c, buffer), bytes), "reading a buffer", index, fault);
}

static void drop(struct memory_view *m)
{
	free(m->data);
	free(m->origin);
}

static int move_on_host(struct cuda *c, const struct tape_row *row, int index, struct runner_fault *fault)
{
	struct memory_view to = {0}, from = {0};
	bool is_copy = row->kind == TAPE_COPY, is_same = is_copy && row->src.buffer == row->dst.buffer;
	int rc = fetch(c, row->dst.buffer, index, &to, fault);
	if (!rc && is_copy && !is_same) rc = fetch(c, row->src.buffer, index, &from, fault);
	if (!rc && is_copy) movement_copy(&row->dst, to, &row->src, is_same ? to : from);
	else if (!rc) movement_fill(&row->dst, to, row->fill, row->fill_int);
	if (!rc)
		rc = cuda_check(c,
			c->cu.MemcpyHtoD(cuda_data(c, row->dst.buffer), to.data, (size_t)c->buffers[row->dst.buffer].bytes),
			"writing a buffer", index, fault);
	if (!rc) rc = cuda_wait(c, NULL, c->deadline_ns, index, fault);
	drop(&to);
	drop(&from);
	return rc;
}

/* A copy that the driver does: of bits, from dense to dense. */
static bool is_dense_copy(const struct tape_row *row)
{
	return is_plain_copy(row) && !is_cast(row) && tape_view_is_contiguous(&row->dst) &&
		tape_view_is_contiguous(&row->src);
}

bool cuda_move_can_queue(struct cuda *c, const struct tape_row *row)
{
	if (!tape_view_elements(&row->dst) || is_dense_fill(row)) return true;
	return is_dense_copy(row) || ((row->kind == TAPE_FILL || is_plain_copy(row)) && c->has_own);
}

int cuda_move(struct cuda *c, int index, cu_stream s, struct runner_fault *fault)
{
	const struct tape_row *row = &c->tape->rows[index];
	if (!tape_view_elements(&row->dst)) return 0;
	if (is_dense_fill(row)) return fill_dense(c, row, index, s, fault);
	if (is_dense_copy(row)) {
		size_t bytes = (size_t)tape_view_elements(&row->dst) * dtype_bytes(row->dst.dtype);
		return cuda_check(c, c->cu.MemcpyDtoDAsync(view_address(c, &row->dst), view_address(c, &row->src), bytes, s),
			"a copy", index, fault);
	}
	if (cuda_move_can_queue(c, row)) return move_strided(c, row, index, s, fault);
	/* The host may only look when this stream's rows, and through its waits those of others, are
	 * done. */
	int rc = cuda_wait(c, s, c->deadline_ns, index, fault);
	return rc ? rc : move_on_host(c, row, index, fault);
}
