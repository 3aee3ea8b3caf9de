/* nccl: the group of a job's GPUs, by NCCL, which is opened at run time. Its functions are declared
 * here as its documentation gives them, so that nothing of it is needed to build. Plain C that
 * knows nothing of CUDA: part of the CUDA library, and of tests, which bring an NCCL of their own.
 *
 * A rank that ends leaves the others waiting inside NCCL for ever: while they join, while
 * connections are made, in a kernel. So the communicator is a non-blocking one (NCCL 2.14 and
 * later): every call comes back at once, and who waits here asks, time and again, whether all are
 * there. If not, the communicator is aborted, which ends what was begun, and the error says who is
 * gone. An abort that does not come back itself ends the program, by message: there is nothing
 * left that could be waited for.
 *
 * One thread. Functions that fail leave a group that knows no communicator: nccl_close is all that
 * it is good for then. */
#ifndef HONE_NCCL_H
#define HONE_NCCL_H
#include "base/base.h"
#include "ops/ops.h"

struct nccl_id { /* as ncclUniqueId: handed over by value */
	char bytes[OPS_RANKS_ID];
};
struct nccl_config { /* as ncclConfig_t of 2.14, which later versions take: all else is theirs to choose */
	size_t size;
	unsigned magic;
	unsigned version;
	int blocking;
};
typedef struct nccl_communicator *nccl_comm;
#define NCCL_FUNCTIONS(X) \
	X(int, GetVersion, (int *)) \
	X(int, GetUniqueId, (struct nccl_id *)) \
	X(int, CommInitRankConfig, (nccl_comm *, int ranks, struct nccl_id, int rank, struct nccl_config *)) \
	X(int, CommGetAsyncError, (nccl_comm, int *)) \
	X(int, CommAbort, (nccl_comm)) \
	X(int, AllGather, (const void *send, void *receive, size_t count, int type, nccl_comm, void *stream)) \
	X(const char *, GetErrorString, (int))

struct nccl {
#define X(type, name, parameters) type(*name) parameters;
	NCCL_FUNCTIONS(X)
#undef X
	nccl_comm comm;            /* NULL: not joined, or aborted */
	void (*enter)(int device); /* makes the device the calling thread's */
	int device;                /* the driver's number */
	int named_ms;              /* how long a failure of NCCL's waits for the name of who is gone */
	int abort_ms;              /* how long an abort may take */
};

/* Whether a rank is gone, which err says then: asked by all that wait. */
struct nccl_watch {
	bool (*is_lost)(void *ctx, struct err *err);
	void *ctx;
};

/* In cuda_libs (NULL: none) and where a Python's packages lie from there, among those of the Python
 * that runs candidates, on the loader's path. */
int nccl_open(const char *cuda_libs, void (*enter)(int device), int device, struct nccl **out, struct err *err);
/* id (OPS_RANKS_ID bytes) becomes that of a group to come: one rank's part, for all. */
int nccl_id_make(struct nccl *n, void *id, struct err *err);
/* Comes back when all have joined. */
int nccl_join(struct nccl *n, const void *id, int rank, int count, struct nccl_watch w, struct err *err);
/* receive (ranks, count) becomes what all ranks send (count), fp32, on the stream: it stands there
 * at return, and whatever comes behind it in the stream finds the values. */
int nccl_gather(
	struct nccl *n, const void *send, void *receive, size_t count, void *stream, struct nccl_watch w, struct err *err);
/* For who waits for the stream: whether all are still there. */
int nccl_look(struct nccl *n, struct nccl_watch w, struct err *err);
void nccl_close(struct nccl *n); /* NULL is fine; the library stays open */
#endif
