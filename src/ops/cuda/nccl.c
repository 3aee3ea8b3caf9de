/* nccl: opening the library, and waiting for it without being lost in it. */
#include "ops/cuda/nccl.h"
#include "base/base.h"
#include "ops/cuda/libraries.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { NCCL_SUCCESS = 0, NCCL_IN_PROGRESS = 7, NCCL_FLOAT32 = 7 };
#define CONFIG_MAGIC 0xcafebeefu
#define CONFIG_VERSION 21400 /* of struct nccl_config, and the least version there may be */
#define NAP_US 20            /* between two looks: little beside what is waited for */
#define NAMED_MS 2000
#define ABORT_MS 60000

/* ---- opening ---- */

int nccl_open(const char *cuda_libs, void (*enter)(int device), int device, struct nccl **out, struct err *err)
{
	struct str tried = {0};
	*out = NULL;
	/* Values are gathered and added here in rank order: multicast over NVLink would add nothing. */
	setenv("NCCL_NVLS_ENABLE", "0", 1);
	static const char *const names[] = {"libnccl.so.2", NULL};
	/* Beside nvidia/cu13/lib of a Python's packages lies nvidia/nccl/lib. */
	const struct library_places places = {
		.names = names, .named = cuda_libs, .beside = "../../nccl/lib", .packages = "nvidia/nccl/lib"};
	void *library = library_open(&places, &tried);
	int rc = library
		? 0
		: err_set(err, ERR_NOT_FOUND,
			  "several GPUs: NCCL was not found (%.600s); name the folder of libnccl.so.2 with --cuda_libs, "
			  "HONE_PYTHON as a Python with torch, or take --ranks_transport tcp",
			  tried.data);
	str_release(&tried);
	if (rc) return rc;
	/* All functions, and a version whose calls look as they are declared here. */
	struct nccl *n = xcalloc(1, sizeof *n);
	n->enter = enter, n->device = device, n->named_ms = NAMED_MS, n->abort_ms = ABORT_MS;
	const char *lacks = NULL;
#define X(type, name, parameters) \
	if (!(n->name = (type(*) parameters)dlsym(library, "nccl" #name))) lacks = "nccl" #name;
	NCCL_FUNCTIONS(X)
#undef X
	int version = 0;
	if (n->GetVersion) n->GetVersion(&version);
	if (!lacks && version >= CONFIG_VERSION && version < 30000) {
		*out = n;
		return 0;
	}
	free(n);
	return err_set(err, ERR_MISMATCH,
		"several GPUs: the NCCL that was found has version %d%s%s; expected 2.14 or later of version 2, as torch "
		"brings "
		"it: name another with --cuda_libs, or take --ranks_transport tcp",
		version, lacks ? " and no " : "", lacks ? lacks : "");
}

/* ---- failures ---- */

static int nccl_error(const struct nccl *n, const char *what, int status, struct err *err)
{
	return err_set(err, ERR_INFRA,
		"several GPUs: NCCL's %s gives \"%s\"; NCCL_DEBUG=WARN says more, --ranks_transport tcp does without NCCL",
		what, n->GetErrorString(status));
}

struct abort { /* of a communicator, in a thread that may stay there */
	struct nccl n;
	int is_done; /* written by the thread alone */
};
static void *abort_run(void *ctx)
{
	struct abort *a = ctx;
	a->n.enter(a->n.device);
	a->n.CommAbort(a->n.comm);
	__atomic_store_n(&a->is_done, 1, __ATOMIC_RELEASE);
	return NULL;
}

/* Ends what the communicator has begun, and it too. NCCL may wait here for threads of its own that
 * wait for the rank that is gone: false then, and the thread is left to itself. */
static bool group_abort(struct nccl *n)
{
	struct abort *a = xcalloc(1, sizeof *a);
	uint64_t deadline = deadline_in_ms(n->abort_ms);
	pthread_t thread;
	a->n = *n;
	n->comm = NULL;
	CHECKF(!pthread_create(&thread, NULL, abort_run, a), "no thread to abort NCCL's communicator in");
	while (!__atomic_load_n(&a->is_done, __ATOMIC_ACQUIRE))
		if (clock_ns() < deadline) usleep(NAP_US);
		else return false;
	pthread_join(thread, NULL);
	free(a);
	return true;
}

/* A group without one of its ranks is none. err says why already. */
static int group_end(struct nccl *n, struct err *err)
{
	CHECKF(!n->comm || group_abort(n),
		"%s (NCCL did not let go of the device within %d s, so that this process ends here)", err->text,
		n->abort_ms / 1000);
	return err->code;
}

/* A rank that ends is noticed by NCCL and by its connection at about the same time, and the
 * connection knows its name: the watch is asked for a while before NCCL's word is taken. */
static int group_failed(struct nccl *n, const char *what, int status, struct nccl_watch w, struct err *err)
{
	uint64_t deadline = deadline_in_ms(n->named_ms);
	bool is_named = w.is_lost(w.ctx, err);
	for (; !is_named && clock_ns() < deadline; is_named = w.is_lost(w.ctx, err)) usleep(NAP_US);
	if (!is_named) nccl_error(n, what, status, err);
	return group_end(n, err);
}

/* After a call that gave `status`: until NCCL has done what it was asked for. Nothing else may be
 * asked of the communicator before, nor waited for in the stream. */
static int group_settle(struct nccl *n, const char *what, int status, struct nccl_watch w, struct err *err)
{
	bool is_taken = status == NCCL_SUCCESS || status == NCCL_IN_PROGRESS;
	while (is_taken) {
		int state = NCCL_SUCCESS;
		status = n->CommGetAsyncError(n->comm, &state);
		if (status == NCCL_SUCCESS) status = state;
		if (status == NCCL_SUCCESS) return 0;
		if (status != NCCL_IN_PROGRESS) break;
		if (w.is_lost(w.ctx, err)) return group_end(n, err);
		usleep(NAP_US);
	}
	return group_failed(n, what, status, w, err);
}

/* ---- what is asked of NCCL ---- */

int nccl_id_make(struct nccl *n, void *id, struct err *err)
{
	struct nccl_id made;
	int status = n->GetUniqueId(&made);
	if (status != NCCL_SUCCESS) return nccl_error(n, "GetUniqueId", status, err);
	memcpy(id, &made, sizeof made);
	return 0;
}

int nccl_join(struct nccl *n, const void *id, int rank, int count, struct nccl_watch w, struct err *err)
{
	struct nccl_id group;
	struct nccl_config config = {sizeof config, CONFIG_MAGIC, CONFIG_VERSION, 0};
	memcpy(&group, id, sizeof group);
	CHECKF(!n->comm, "a group that has been joined is joined again");
	n->enter(n->device); /* NCCL takes the device that is this thread's */
	return group_settle(n, "CommInitRankConfig", n->CommInitRankConfig(&n->comm, count, group, rank, &config), w, err);
}

int nccl_gather(
	struct nccl *n, const void *send, void *receive, size_t count, void *stream, struct nccl_watch w, struct err *err)
{
	CHECKF(n->comm, "values are gathered by a group that was not joined");
	return group_settle(n, "AllGather", n->AllGather(send, receive, count, NCCL_FLOAT32, n->comm, stream), w, err);
}

int nccl_look(struct nccl *n, struct nccl_watch w, struct err *err)
{
	int state = NCCL_SUCCESS, status = n->CommGetAsyncError(n->comm, &state);
	if (status == NCCL_SUCCESS && state != NCCL_IN_PROGRESS) status = state;
	if (status != NCCL_SUCCESS) return group_failed(n, "AllGather", status, w, err);
	return w.is_lost(w.ctx, err) ? group_end(n, err) : 0;
}

void nccl_close(struct nccl *n)
{
	if (!n) return;
	/* Destroying waits for the others, who may be gone: aborting does not. All
	 * work of ours is done. */
	if (n->comm && !group_abort(n)) fputs("NCCL did not let go of the device; the end of the process will\n", stderr);
	free(n);
}
