/* An NCCL without a GPU, for the test of the group of ranks: one process that stands for all ranks,
 * over the host's memory. Every call but that for an id is under way when it comes back, and done
 * after so many looks at the state; values are there then, not before. */
#include "fake_nccl.h"
#include "ops/cuda/nccl.h"

#include <string.h>
#include <unistd.h>

enum { SUCCESS = 0, INVALID = 4, IN_PROGRESS = 7 };

struct nccl_communicator {
	int ranks;
	int looks; /* that are left; 0: nothing is under way */
	const void *send;
	void *receive; /* NULL: nothing is gathered */
	size_t bytes;
};
static struct nccl_communicator the_comm;
static struct fake_nccl told;

fake_nccl_fn fake_nccl;
struct fake_nccl *fake_nccl(void) { return &told; }

static int begun(const char *call)
{
	if (told.fails && !strcmp(told.fails, call)) return told.status;
	told.before += the_comm.looks != 0;
	the_comm.looks = told.looks;
	return IN_PROGRESS;
}

int ncclGetVersion(int *version);
int ncclGetVersion(int *version)
{
	*version = told.version;
	return SUCCESS;
}
int ncclGetUniqueId(struct nccl_id *id);
int ncclGetUniqueId(struct nccl_id *id)
{
	memset(id, 'i', sizeof *id);
	return told.fails && !strcmp(told.fails, "GetUniqueId") ? told.status : SUCCESS;
}
int ncclCommInitRankConfig(nccl_comm *comm, int ranks, struct nccl_id id, int rank, struct nccl_config *config);
int ncclCommInitRankConfig(nccl_comm *comm, int ranks, struct nccl_id id, int rank, struct nccl_config *config)
{
	*comm = NULL;
	if (config->magic != 0xcafebeef || config->size != sizeof *config || id.bytes[OPS_RANKS_ID - 1] != 'i' ||
		rank >= ranks)
		return INVALID;
	told.blocking = config->blocking;
	the_comm = (struct nccl_communicator){.ranks = ranks};
	int status = begun("CommInitRankConfig");
	if (status == IN_PROGRESS) *comm = &the_comm;
	return status;
}
int ncclCommGetAsyncError(nccl_comm comm, int *state);
int ncclCommGetAsyncError(nccl_comm comm, int *state)
{
	if (told.fails && !strcmp(told.fails, "CommGetAsyncError")) return told.status;
	if (comm->looks > 0) comm->looks--;
	*state = comm->looks ? IN_PROGRESS : told.state;
	if (comm->looks || told.state || !comm->receive) return SUCCESS;
	for (int k = 0; k < comm->ranks; k++)
		memcpy((char *)comm->receive + (size_t)k * comm->bytes, comm->send, comm->bytes);
	comm->receive = NULL;
	return SUCCESS;
}
int ncclCommAbort(nccl_comm comm);
int ncclCommAbort(nccl_comm comm)
{
	told.aborts++;
	while (told.abort_hangs) pause();
	return SUCCESS;
}
int ncclAllGather(const void *send, void *receive, size_t count, int type, nccl_comm comm, void *stream);
int ncclAllGather(const void *send, void *receive, size_t count, int type, nccl_comm comm, void *stream)
{
	if (type != 7) return INVALID;
	comm->send = send, comm->receive = receive, comm->bytes = count * sizeof(float);
	return begun("AllGather");
}
const char *ncclGetErrorString(int status);
const char *ncclGetErrorString(int status) { return status == INVALID ? "invalid argument" : "remote process exited"; }
