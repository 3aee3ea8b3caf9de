/* move: fill and copy rows on the GPU. What the driver does exactly by itself (dense fills and
 * copies) it does; strided rows and casts are done by the same code as the vm's (movement.h), on a
 * copy of the buffers in the host's memory. */
#include "runner/cuda/cuda_internal.h"
#include "tape/tape.h"
#include "base/dtype.h"
#include "base/base.h"
#include "runner/movement.h"
#include <stdlib.h>

/* The bit pattern of the row's value, repeated where that makes it one that the driver can set. */
static int fill_dense(struct cuda *c, const struct tape_row *row, int index, cu_stream s, struct runner_fault *fault)
{
	size_t size = dtype_bytes(row->dst.dtype), count = (size_t)tape_view_elements(&row->dst);
	uint64_t bits = (uint64_t)row->fill_int;
	if (row->dst.dtype == DTYPE_BOOL) bits = bits != 0;
	if (dtype_is_float(row->dst.dtype)) {
		bits = 0;
		dtype_store(row->dst.dtype, &bits, 0, row->fill);
	}
	cu_address to = cuda_data(c, row->dst.buffer) + (uint64_t)row->dst.offset_bytes;
	cu_result r = size == 1 ? c->cu.MemsetD8Async(to, (unsigned char)bits, count, s)
		: size == 2         ? c->cu.MemsetD16Async(to, (unsigned short)bits, count, s)
		: size == 4         ? c->cu.MemsetD32Async(to, (unsigned)bits, count, s)
							: c->cu.MemsetD32Async(to, (unsigned)bits, 2 * count, s);
	return cuda_check(c, r, "a fill", index, fault);
}

static bool is_dense_fill(const struct tape_row *row)
{
	uint64_t bits = (uint64_t)row->fill_int;
	if (!tape_view_is_contiguous(&row->dst)) return false;
	if (dtype_bytes(row->dst.dtype) < 8) return true;
	if (row->dst.dtype == DTYPE_F64) memcpy(&bits, &row->fill, 8);
	return (uint32_t)bits == bits >> 32; /* a value of 8 bytes with equal halves: zero, above all */
}

static bool is_dense_copy(const struct tape_row *row)
{
	return row->kind == TAPE_COPY && row->dst.dtype == row->src.dtype && row->dst.buffer != row->src.buffer &&
		tape_view_is_contiguous(&row->dst) && tape_view_is_contiguous(&row->src);
}

/* A buffer's bytes in the host's memory, once all that was queued before is done. */
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

int cuda_move(struct cuda *c, int index, cu_stream s, struct runner_fault *fault)
{
	const struct tape_row *row = &c->tape->rows[index];
	if (!tape_view_elements(&row->dst)) return 0;
	if (row->kind == TAPE_FILL && is_dense_fill(row)) return fill_dense(c, row, index, s, fault);
	if (is_dense_copy(row)) {
		cu_address to = cuda_data(c, row->dst.buffer) + (uint64_t)row->dst.offset_bytes,
				   from = cuda_data(c, row->src.buffer) + (uint64_t)row->src.offset_bytes;
		size_t bytes = (size_t)tape_view_elements(&row->dst) * dtype_bytes(row->dst.dtype);
		return cuda_check(c, c->cu.MemcpyDtoDAsync(to, from, bytes, s), "a copy", index, fault);
	}
	/* The host may only look when this stream's rows, and through its waits those of others, are
	 * done. */
	int rc = cuda_wait(c, s, c->deadline_ns, index, fault);
	return rc ? rc : move_on_host(c, row, index, fault);
}
