/* ranks: the sum of values over the GPUs of several processes, by NCCL, which is opened at
 * run time. Its functions are declared here as its documentation gives them, so that nothing
 * of it is needed to build.
 *
 * A sum of NCCL's own has an order that depends on the way it chose. So every rank gets all parts
 * (all-gather, a chunk at a time), and adds them in rank order: the same bits on all of them, and
 * those of the sum on the host. NVLink multicast stays off: it gives nothing to an all-gather, and
 * some hosts do not allow it.
 *
 * A rank that ends leaves the others inside a kernel of NCCL's that never returns. So nothing here
 * waits for the stream without asking, time and again, whether all are there; if not, the
 * communicator is aborted, which ends the kernel. */
#include "ops_cuda_internal.h"
#include <dlfcn.h>
#include <unistd.h>

/* ---- NCCL's interface, of version 2 ---- */

struct nccl_id {
	char bytes[OPS_RANKS_ID];
};
enum { NCCL_SUCCESS = 0, NCCL_IN_PROGRESS = 7, NCCL_FLOAT32 = 7 };
typedef struct nccl_group *nccl_comm;
#define NCCL_FUNCTIONS(X) \
	X(GetVersion, (int *)) \
	X(GetUniqueId, (struct nccl_id *)) \
	X(CommInitRank, (nccl_comm *, int ranks, struct nccl_id, int rank)) \
	X(CommGetAsyncError, (nccl_comm, int *)) \
	X(CommAbort, (nccl_comm)) \
	X(CommDestroy, (nccl_comm)) \
	X(AllGather, (const void *send, void *receive, size_t count, int type, nccl_comm, cudaStream_t))

struct ranks_link {
	void *library;
#define X(name, parameters) int(*name) parameters;
	NCCL_FUNCTIONS(X)
#undef X
	const char *(*GetErrorString)(int);
	nccl_comm comm;   /* NULL until all have joined */
	int rank;         /* this process's */
	int count;        /* of ranks */
	float *parts;     /* (count, chunk) what an all-gather brings */
	int64_t chunk;    /* values of a rank that are gathered at a time */
	cudaEvent_t done; /* the last sum is made */
};

/* ---- opening ---- */

static void *library_try(const char *folder, const char *below, struct str *tried)
{
	char path[4200];
	snprintf(path, sizeof path, "%s%s%slibnccl.so.2", folder ? folder : "", folder ? "/" : "", below);
	void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
	if (!library) str_printf(tried, "%s%s", tried->len ? ", " : "", path);
	return library;
}

/* In --cuda_libs and where a Python's packages lie from there (nvidia/cu13/lib beside
 * nvidia/nccl/lib), in those of HONE_PYTHON, on the loader's path. */
static void *library_open(const char *cuda_libs, struct str *tried)
{
	void *library = NULL;
	const char *python = getenv("HONE_PYTHON"), *slash = python ? strrchr(python, '/') : NULL;
	if (cuda_libs) library = library_try(cuda_libs, "", tried);
	if (!library && cuda_libs) library = library_try(cuda_libs, "../../nccl/lib/", tried);
	for (int minor = 9; !library && slash && minor < 20; minor++) {
		char folder[4096];
		snprintf(folder, sizeof folder, "%.*s/../lib/python3.%d/site-packages/nvidia/nccl/lib", (int)(slash - python),
			python, minor);
		if (access(folder, X_OK) == 0) library = library_try(folder, "", tried);
	}
	return library ? library : library_try(NULL, "", tried);
}

static int link_open(struct ops_context *c, struct err *err)
{
	if (c->ranks) return 0;
	struct str tried = {};
	/* Values are gathered and added here in rank order: multicast over NVLink would add nothing. */
	setenv("NCCL_NVLS_ENABLE", "0", 1);
	void *library = library_open(c->cuda_libs, &tried);
	int rc = library
		? 0
		: err_set(err, ERR_NOT_FOUND,
			  "several GPUs: NCCL was not found (%.600s); name the folder of libnccl.so.2 with --cuda_libs, "
			  "HONE_PYTHON as a Python with torch, or take --ranks_transport tcp",
			  tried.data);
	str_release(&tried);
	if (rc) return rc;
	/* All functions, and a version whose calls look as they are declared here. */
	struct ranks_link *l = (struct ranks_link *)xcalloc(1, sizeof *l);
	l->library = library;
	bool has_all = (l->GetErrorString = (const char *(*)(int))dlsym(library, "ncclGetErrorString")) != NULL;
#define X(name, parameters) has_all = (l->name = (int(*) parameters)dlsym(library, "nccl" #name)) && has_all;
	NCCL_FUNCTIONS(X)
#undef X
	int version = 0;
	if (has_all) l->GetVersion(&version);
	if (has_all && version >= 20000 && version < 30000) {
		c->ranks = l;
		return 0;
	}
	free(l);
	return err_set(err, ERR_MISMATCH,
		"several GPUs: the NCCL that was found has version %d; expected 2, as torch brings it", version);
}

static int nccl_error(const struct ranks_link *l, const char *what, int rc, struct err *err)
{
	return err_set(
		err, ERR_INFRA, "several GPUs: NCCL's %s gives \"%s\"; NCCL_DEBUG=WARN says more", what, l->GetErrorString(rc));
}

/* ---- joining ---- */

static int ranks_id(struct ops_context *c, void *id, struct err *err)
{
	struct nccl_id made;
	int rc = link_open(c, err), status = 0;
	if (rc || !id) return rc;
	status = c->ranks->GetUniqueId(&made);
	if (status != NCCL_SUCCESS) return nccl_error(c->ranks, "GetUniqueId", status, err);
	memcpy(id, &made, sizeof made);
	return 0;
}

static int ranks_join(struct ops_context *c, const void *id, int rank, int count, struct err *err)
{
	struct nccl_id group;
	int rc = link_open(c, err);
	if (rc) return rc;
	struct ranks_link *l = c->ranks;
	memcpy(&group, id, sizeof group);
	/* The library takes the device that is this thread's. */
	CUDA_CHECK(cudaSetDevice(c->device));
	int status = l->CommInitRank(&l->comm, count, group, rank);
	if (status != NCCL_SUCCESS) return nccl_error(l, "CommInitRank", status, err);
	l->rank = rank;
	l->count = count;
	c->taken_bytes += CUDA_RANKS_LIBRARY_BYTES;
	l->chunk = (int64_t)(CUDA_RANKS_BYTES / sizeof(float)) / count / 64 * 64;
	l->parts = (float *)device_block(c, (size_t)l->chunk * (size_t)count * sizeof(float));
	CUDA_CHECK(cudaEventCreateWithFlags(&l->done, cudaEventDisableTiming));
	/* The first all-gather of a size makes connections, for which the call itself waits, without a
	 * look at who is still there. So one of a whole chunk is made here,
	 * where all have just come. */
	status = l->AllGather(l->parts + rank * l->chunk, l->parts, (size_t)l->chunk, NCCL_FLOAT32, l->comm, c->stream);
	return status == NCCL_SUCCESS ? 0 : nccl_error(l, "AllGather", status, err);
}

void ranks_link_close(struct ops_context *c)
{
	struct ranks_link *l = c->ranks;
	if (!l) return;
	/* Destroying waits for the others, who may be gone: aborting does not. All
	 * work of ours is done. */
	if (l->comm) l->CommAbort(l->comm);
	if (l->done) CUDA_CHECK(cudaEventDestroy(l->done));
	block_release(c, l->parts);
	free(l); /* the library stays, as cuBLASLt does */
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
static int ranks_await(struct ops_context *c, bool (*is_lost)(void *, struct err *), void *ctx, struct err *err)
{
	struct ranks_link *l = c->ranks;
	for (int64_t tries = 0;; tries++) {
		cudaError_t rc = cudaEventQuery(l->done);
		if (rc == cudaSuccess) return 0;
		CHECKF(rc == cudaErrorNotReady, "%s: %s", cudaGetErrorName(rc), cudaGetErrorString(rc));
		if (tries % 64 != 63) continue;
		/* Looks at the others cost little beside the time that a chunk takes. */
		int status = NCCL_SUCCESS;
		l->CommGetAsyncError(l->comm, &status);
		bool is_failed = status != NCCL_SUCCESS && status != NCCL_IN_PROGRESS, is_alone = is_lost(ctx, err);
		if (is_failed && !is_alone) nccl_error(l, "AllGather", status, err);
		if (is_failed || is_alone) {
			l->CommAbort(l->comm);
			l->comm = NULL;
			return err->code;
		}
		usleep(20);
	}
}

static int ranks_sum(struct ops_context *c, struct f32 *values, int64_t n, bool (*is_lost)(void *, struct err *),
	void *ctx, struct err *err)
{
	struct ranks_link *l = c->ranks;
	CHECKF(l && l->comm, "a sum over ranks that did not join");
	settle(c);
	/* The same chunks on every rank, as they depend on n and the number of ranks alone. */
	for (int64_t at = 0; at < n; at += l->chunk) {
		int64_t count = MIN(l->chunk, n - at);
		int status = l->AllGather(floats(values) + at, l->parts, (size_t)count, NCCL_FLOAT32, l->comm, c->stream);
		if (status != NCCL_SUCCESS) return nccl_error(l, "AllGather", status, err);
		c->weights_written = true; /* what is added comes from no kernel of ours: no start ahead of it */
		cuda_launch(c, {dim3((unsigned)MIN((count + 255) / 256, (int64_t)c->sms * 16)), dim3(256), 0, 0},
			sum_parts_kernel, floats(values) + at, (const float *)l->parts, count, count, l->count);
		/* The next all-gather writes where this kernel reads; it is behind it in the stream. */
	}
	CUDA_CHECK(cudaEventRecord(l->done, c->stream));
	return ranks_await(c, is_lost, ctx, err);
}

void cuda_ranks_entries(struct ops *t)
{
	t->ranks_id = ranks_id;
	t->ranks_join = ranks_join;
	t->ranks_sum = ranks_sum;
}
