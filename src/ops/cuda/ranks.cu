/* ranks: the sum of values over the GPUs of several processes, which NCCL brings together (nccl.h).
 *
 * A sum of NCCL's own has an order that depends on the way it chose. So every rank gets all parts
 * (all-gather, a chunk at a time), and adds them in rank order: the same bits on all of them, and
 * those of the sum on the host. NVLink multicast stays off: it gives nothing to an all-gather, and
 * some hosts do not allow it.
 *
 * A rank that ends leaves the others inside a kernel of NCCL's that never returns. So nothing here
 * waits for the stream without asking, time and again, whether all are there. */
#include "ops_cuda_internal.h"
#include <unistd.h>
extern "C" {
#include "base/base.h"
#include "ops/cuda/nccl.h"
}

struct ranks_link {
	struct nccl *group;
	int rank;         /* this process's */
	int count;        /* of ranks */
	float *parts;     /* (count, chunk) what an all-gather brings */
	int64_t chunk;    /* values of a rank that are gathered at a time */
	cudaEvent_t done; /* the last sum is made */
};

/* ---- joining ---- */

static void device_enter(int device) { CUDA_CHECK(cudaSetDevice(device)); }

static int link_open(struct ops_context *c, struct err *err)
{
	struct nccl *group;
	if (c->ranks) return 0;
	int rc = nccl_open(c->cuda_libs, device_enter, c->device, &group, err);
	if (rc) return rc;
	c->ranks = (struct ranks_link *)xcalloc(1, sizeof *c->ranks);
	c->ranks->group = group;
	return 0;
}

static int ranks_id(struct ops_context *c, void *id, struct err *err)
{
	int rc = link_open(c, err);
	return rc || !id ? rc : nccl_id_make(c->ranks->group, id, err);
}

static int ranks_join(struct ops_context *c, const void *id, int rank, int count, bool (*is_lost)(void *, struct err *),
	void *ctx, struct err *err)
{
	struct nccl_watch watch = {is_lost, ctx};
	size_t free_bytes, total;
	int rc = link_open(c, err);
	/* As memory plans count it: what is refused here would end the program below, where the library
	 * has taken its part. */
	c->table.memory(c, &free_bytes, &total);
	if (!rc && free_bytes < CUDA_RANKS_BYTES + CUDA_RANKS_LIBRARY_BYTES)
		rc = err_set(err, ERR_LIMIT,
			"several GPUs: gradients travel through %zu MiB, NCCL takes some %zu MiB, and rank %d's GPU has %zu of %zu "
			"MiB free; take another GPU, or --ranks_transport tcp",
			CUDA_RANKS_BYTES >> 20, CUDA_RANKS_LIBRARY_BYTES >> 20, rank, free_bytes >> 20, total >> 20);
	if (!rc) rc = nccl_join(c->ranks->group, id, rank, count, watch, err);
	if (rc) return rc;
	struct ranks_link *l = c->ranks;
	l->rank = rank;
	l->count = count;
	c->taken_bytes += CUDA_RANKS_LIBRARY_BYTES;
	l->chunk = (int64_t)(CUDA_RANKS_BYTES / sizeof(float)) / count / 64 * 64;
	l->parts = (float *)device_block(c, (size_t)l->chunk * (size_t)count * sizeof(float));
	CUDA_CHECK(cudaEventCreateWithFlags(&l->done, cudaEventDisableTiming));
	/* The first all-gather of a size makes connections: here, where all have just come, and not in
	 * the first step. */
	return nccl_gather(l->group, l->parts + rank * l->chunk, l->parts, (size_t)l->chunk, c->stream, watch, err);
}

void ranks_link_close(struct ops_context *c)
{
	struct ranks_link *l = c->ranks;
	if (!l) return;
	nccl_close(l->group);
	if (l->done) CUDA_CHECK(cudaEventDestroy(l->done));
	block_release(c, l->parts);
	free(l);
	c->ranks = NULL;
}

/* ---- the sum ---- */

static __global__ void sum_parts_kernel(float *sum, const float *parts, int64_t n, int64_t stride, int count)
{
	grid_begin();
	for (int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x; i < n; i += (int64_t)gridDim.x * blockDim.x) {
		float x = parts[i];
		for (int k = 1; k < count; k++) x += parts[k * stride + i];
		sum[i] = x;
	}
}

/* Until the stream has come to the event, or a rank is gone. */
static int ranks_await(struct ops_context *c, struct nccl_watch watch, struct err *err)
{
	for (int64_t tries = 0;; tries++) {
		cudaError_t rc = cudaEventQuery(c->ranks->done);
		if (rc == cudaSuccess) return 0;
		if (rc != cudaErrorNotReady) cuda_failed(__FILE__, __LINE__, "cudaEventQuery(done)", rc);
		if (tries % 64 != 63) continue;
		/* Looks at the others cost little beside the time that a chunk takes. */
		int gone = nccl_look(c->ranks->group, watch, err);
		if (gone) return gone;
		usleep(20);
	}
}

static int ranks_sum(struct ops_context *c, struct f32 *values, int64_t n, bool (*is_lost)(void *, struct err *),
	void *ctx, struct err *err)
{
	struct ranks_link *l = c->ranks;
	struct nccl_watch watch = {is_lost, ctx};
	CHECKF(l && l->group->comm, "a sum over ranks that did not join");
	settle(c);
	/* The same chunks on every rank, as they depend on n and the number of ranks alone. */
	for (int64_t at = 0; at < n; at += l->chunk) {
		int64_t count = MIN(l->chunk, n - at);
		int rc = nccl_gather(l->group, floats(values) + at, l->parts, (size_t)count, c->stream, watch, err);
		if (rc) return rc;
		c->weights_written = true; /* what is added comes from no kernel of ours: no start ahead of it */
		cuda_launch(c, {dim3((unsigned)MIN((count + 255) / 256, (int64_t)c->sms * 16)), dim3(256), 0, 0},
			sum_parts_kernel, floats(values) + at, (const float *)l->parts, count, count, l->count);
		/* The next all-gather writes where this kernel reads; it is behind it in the stream. */
	}
	CUDA_CHECK(cudaEventRecord(l->done, c->stream));
	return ranks_await(c, watch, err);
}

void cuda_ranks_entries(struct ops *t)
{
	t->ranks_id = ranks_id;
	t->ranks_join = ranks_join;
	t->ranks_sum = ranks_sum;
}
