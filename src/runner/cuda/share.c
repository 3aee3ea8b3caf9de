/* share: a trial in memory on the GPU that another process made and exported (worker/stock.py):
 * inputs and parameters come from there and outputs go there, so that no byte of a task of
 * gigabytes passes through the host. Rows run on the launcher's own buffers between their canaries
 * as ever: what is shared is copied, on the device, before the first row and after the last. What
 * is given is mapped for reading alone. */
#include "runner/cuda/gpu_internal.h"
#include "base/base.h"
#include "base/dtype.h"
#include "tape/tape.h"
#include <stdlib.h>

#define COMPARED_AT_ONCE ((size_t)16 << 20) /* on the host, where the launcher's own kernels are missing */

static int unshared(struct cuda *c, struct runner_fault *fault, cu_result r, const char *what)
{
	char text[256];
	snprintf(text, sizeof text, "on the GPU, %s: %s (%d)", what, r ? cu_name(&c->cu, r) : "the driver cannot", r);
	return launcher_fault(fault, "unshared", -1, 0, text);
}

static void unmap(struct cuda *c, struct cuda_mapped *m)
{
	if (m->at && !c->is_spent) {
		c->cu.MemUnmap(m->at, m->bytes);
		c->cu.MemAddressFree(m->at, m->bytes);
	}
	if (m->handle && !c->is_spent) c->cu.MemRelease(m->handle);
	*m = (struct cuda_mapped){0};
}

static int map(struct cuda *c, int fd, int64_t bytes, int access, struct cuda_mapped *out, struct runner_fault *fault)
{
	const struct cu *cu = &c->cu;
	struct cu_access a = {CU_LOCATION_DEVICE, c->device, access};
	*out = (struct cuda_mapped){.bytes = (size_t)bytes};
	cu_result r = cu->MemImportFromShareableHandle(&out->handle, (void *)(uintptr_t)(unsigned)fd, CU_HANDLE_DESCRIPTOR);
	if (r) return unshared(c, fault, r, "importing shared memory");
	r = cu->MemAddressReserve(&out->at, out->bytes, 0, 0, 0);
	if (r) out->at = 0;
	if (!r) r = cu->MemMap(out->at, out->bytes, 0, out->handle, 0);
	if (!r) r = cu->MemSetAccess(out->at, out->bytes, &a, 1);
	return r ? unshared(c, fault, r, "mapping shared memory") : 0;
}

int cuda_share(struct launcher *l, const struct launcher_shared *s, struct runner_fault *fault)
{
	struct cuda *c = (struct cuda *)l;
	const struct cu *cu = &c->cu;
	if (!cu->MemImportFromShareableHandle || !cu->MemAddressReserve || !cu->MemAddressFree || !cu->MemMap ||
		!cu->MemUnmap || !cu->MemSetAccess || !cu->MemRelease)
		return unshared(c, fault, CU_OK, "importing shared memory");
	int rc = map(c, s->given_fd, s->given_bytes, CU_ACCESS_READ, &c->given, fault);
	if (!rc) rc = map(c, s->outputs_fd, s->outputs_bytes, CU_ACCESS_BOTH, &c->outputs, fault);
	return rc;
}

void cuda_unshare(struct launcher *l)
{
	struct cuda *c = (struct cuda *)l;
	unmap(c, &c->given);
	unmap(c, &c->outputs);
	for (int b = 0; b < c->nbuffers; b++) c->buffers[b].shared = 0;
}

int cuda_buffer_set_shared(struct launcher *l, int b, int64_t offset, bool is_read_only, struct runner_fault *fault)
{
	struct cuda *c = (struct cuda *)l;
	struct cuda_buffer *buffer = &c->buffers[b];
	CHECKF(offset >= 0 && buffer->bytes <= (int64_t)c->given.bytes - offset, "buffer %d lies outside of what is shared",
		b);
	buffer->is_read_only = is_read_only;
	buffer->given = NULL;
	buffer->shared = c->given.at + (uint64_t)offset;
	/* Values of it go into launches, which cannot wait for a copy. */
	if (buffer->bytes && tape_has_value_of(c->tape, b)) {
		buffer->host = xrealloc(buffer->host, (size_t)buffer->bytes);
		int rc = cuda_check(
			c, c->cu.MemcpyDtoH(buffer->host, buffer->shared, (size_t)buffer->bytes), "reading a parameter", -1, fault);
		if (rc) return rc;
	}
	return cuda_buffer_fill(c, b, fault);
}

/* By the launcher's own kernel, and what is left of a word of 16 bytes by the host. */
static int differ_on_device(struct cuda *c, int b, size_t words, bool *is_same, struct runner_fault *fault)
{
	cu_address flag = 0, one = cuda_data(c, b), other = c->buffers[b].shared;
	uint32_t found = 0;
	uint64_t count = words;
	int rc = cuda_allocate(c, &flag, sizeof found, "comparing buffers", -1, fault);
	if (rc) return rc;
	rc = cuda_check(c, c->cu.MemsetD32Async(flag, 0, 1, c->streams[0]), "comparing buffers", -1, fault);
	if (!rc && words)
		rc = cuda_own_launch(c, c->differ, words, (void *[]){&one, &other, &count, &flag}, c->streams[0], -1, fault);
	if (!rc) rc = cuda_wait(c, c->streams[0], c->deadline_ns, -1, fault);
	if (!rc) rc = cuda_check(c, c->cu.MemcpyDtoH(&found, flag, sizeof found), "comparing buffers", -1, fault);
	*is_same = !rc && !found;
	if (!c->is_spent) c->cu.MemFree(flag);
	return rc;
}

/* Bytes from `from` on, through the host. */
static int differ_on_host(struct cuda *c, int b, size_t from, bool *is_same, struct runner_fault *fault)
{
	size_t bytes = (size_t)c->buffers[b].bytes, room = MIN(bytes - from, COMPARED_AT_ONCE);
	uint8_t *one = xmalloc(room + 1), *other = xmalloc(room + 1);
	int rc = 0;
	for (size_t at = from; at < bytes && !rc && *is_same; at += room) {
		size_t n = MIN(room, bytes - at);
		cu_result r = c->cu.MemcpyDtoH(one, cuda_data(c, b) + at, n);
		if (!r) r = c->cu.MemcpyDtoH(other, c->buffers[b].shared + at, n);
		rc = cuda_check(c, r, "comparing buffers", -1, fault);
		*is_same = !rc && !memcmp(one, other, n);
	}
	free(one);
	free(other);
	return rc;
}

int cuda_shared_check(struct cuda *c, int b, bool *is_same, struct runner_fault *fault)
{
	size_t words = c->has_own ? (size_t)c->buffers[b].bytes / 16 : 0;
	*is_same = true;
	int rc = words ? differ_on_device(c, b, words, is_same, fault) : 0;
	return rc || !*is_same ? rc : differ_on_host(c, b, 16 * words, is_same, fault);
}

int cuda_output_share(struct launcher *l, int i, int64_t offset, struct runner_fault *fault)
{
	struct cuda *c = (struct cuda *)l;
	const struct tape_view *v = &c->tape->outputs[i];
	size_t size = dtype_bytes(v->dtype), bytes = (size_t)tape_view_elements(v) * size;
	cu_address from = cuda_data(c, v->buffer) + (uint64_t)v->offset_bytes, to = c->outputs.at + (uint64_t)offset;
	CHECKF(offset >= 0 && (int64_t)bytes <= (int64_t)c->outputs.bytes - offset,
		"output %d lies outside of what is shared", i);
	if (!bytes) return 0;
	if (tape_view_is_contiguous(v)) {
		int rc = cuda_check(
			c, c->cu.MemcpyDtoDAsync(to, from, bytes, c->streams[0]), "handing over an output", -1, fault);
		return rc ? rc : cuda_wait(c, c->streams[0], 0, -1, fault);
	}
	if (!c->has_own) return unshared(c, fault, CU_OK, "handing over an output with gaps");

	/* Element by element: dense there, as the view says here. */
	struct cuda_strided m = {.dst = to, .src = from, .size = size, .ndim = v->ndim};
	uint64_t step = size;
	for (int d = v->ndim - 1; d >= 0; d--) {
		m.shape[d] = (uint64_t)v->shape[d];
		m.src_step[d] = (uint64_t)v->stride[d] * size;
		m.dst_step[d] = step;
		step *= (uint64_t)v->shape[d];
	}
	int rc = cuda_strided_run(c, &m, c->streams[0], -1, fault);
	return rc ? rc : cuda_wait(c, c->streams[0], 0, -1, fault);
}
