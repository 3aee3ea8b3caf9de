/* What the files of the CUDA launcher share. */
#ifndef HONE_GPU_INTERNAL_H
#define HONE_GPU_INTERNAL_H
#include "base/base.h"
#include "runner/cuda/driver.h"
#include "runner/cuda/kernels.h"
#include "runner/launcher_cuda.h"
#include "tape/tape.h"

#define CUDA_CANARY_BYTES 4096 /* a block of 32 x 32 floats */

struct cuda_kernel {
	struct sha256_hex hash; /* of the tape's kernel and of the binary */
	cu_module module;
	cu_function function;
	struct runner_binary binary; /* without name and bytes; args are copies */
	char *arg_texts;             /* what binary.args point into */
};
struct cuda_buffer {
	cu_address block; /* canary, data, canary */
	int64_t bytes;
	bool is_read_only;
	const uint8_t *given; /* what it starts with, and a read-only one must still hold at the end; NULL: unwritten */
	cu_address shared;    /* the same in another process's memory on the GPU, in place of `given`; 0: none */
	uint8_t *host;        /* the same on the host, where a launch is given a value of it and `given` is not there */
	cu_address master;    /* the same on the GPU while the tape is timed; 0: none */
};
/* Another process's memory on the GPU, mapped here. */
struct cuda_mapped {
	cu_allocation handle;
	cu_address at; /* 0: nothing is */
	size_t bytes;
};
struct cuda {
	struct launcher base;
	struct cu cu;
	cu_device device;
	struct runner_device facts;
	int64_t memory_bytes;
	size_t canary_bytes; /* in front of and behind each buffer; 0: allocations are exact, and unwritten memory is left
							so */
	bool is_spent;
	uint64_t deadline_ns; /* of the trial that runs */
	const struct tape *tape;
	int ncached;
	struct cuda_kernel *cached;
	const struct cuda_kernel **kernels; /* (tape->nkernels): into cached */
	int nbuffers;
	struct cuda_buffer *buffers;
	int nstreams;
	int nevents;
	cu_stream streams[TAPE_STREAMS_MAX]; /* made as tapes need them, kept */
	cu_event *events;                    /* (tape->nevents) */
	bool has_own;                        /* own module: loaded; else it is not to be had on this machine */
	cu_function read;                    /* of the own module (kernels.h), as the next four */
	cu_function move;
	cu_function cast;
	cu_function spin;
	cu_function differ;
	int64_t l2_bytes;
	struct cuda_mapped given;   /* of a trial in shared memory: what buffers start with */
	struct cuda_mapped outputs; /* of a trial in shared memory: where outputs go */
	cu_address scratch;         /* global and profile scratch of the launches, one after another */
	size_t scratch_bytes;
};

static inline cu_address cuda_data(const struct cuda *c, int buffer)
{
	return c->buffers[buffer].block + c->canary_bytes;
}

/* What a driver's result means: 0, or a fault with the row's place in it. Marks the launcher as
 * spent where the context is lost. */
int cuda_check(struct cuda *c, cu_result r, const char *what, int row, struct runner_fault *fault);
/* Memory of a size that a GPU without other users has: that it has not is nobody's
 * fault here ("no-room"). */
int cuda_allocate(struct cuda *c, cu_address *p, size_t bytes, const char *what, int row, struct runner_fault *fault);
/* Waits for a stream (NULL: the driver's own, which the host's copies use) until the deadline (0:
 * none). A copy from the host's memory may still be under way when the call
 * that made it returns. */
int cuda_wait(struct cuda *c, cu_stream s, uint64_t deadline_ns, int row, struct runner_fault *fault);
/* launch.c */
int cuda_kernel_load(struct cuda *c, int kernel, const struct runner_binaries *b, struct runner_fault *fault);
void cuda_kernel_release(struct cuda *c, struct cuda_kernel *k);
int cuda_launch(struct cuda *c, int row, cu_stream s, struct runner_fault *fault);
/* move.c. can_queue: the row needs nothing of the host once it is queued. */
bool cuda_move_can_queue(struct cuda *c, const struct tape_row *row);
/* One of the launcher's own kernels over `count` units of work. */
int cuda_own_launch(
	struct cuda *c, cu_function f, uint64_t count, void **params, cu_stream s, int row, struct runner_fault *fault);
/* Elements that go from one view to another of the same shape, as bits or cast; steps in bytes. */
struct cuda_strided {
	cu_address dst;
	cu_address src; /* 0: all become `value` */
	uint64_t value;
	uint64_t size; /* of an element of dst: 1, 2, 4 or 8 */
	uint8_t from;  /* cuda_cast_codes of a cast; 0: as bits */
	uint8_t to;
	int ndim;
	uint64_t shape[TAPE_DIMS_MAX];
	uint64_t dst_step[TAPE_DIMS_MAX];
	uint64_t src_step[TAPE_DIMS_MAX];
};
int cuda_strided_run(struct cuda *c, const struct cuda_strided *m, cu_stream s, int row, struct runner_fault *fault);
/* Loads them, once; CU_OK too where this driver cannot compile them, and then
 * c->has_own stays false. */
cu_result cuda_own_load(struct cuda *c);
/* launcher_cuda.c */
int cuda_buffer_fill(struct cuda *c, int b, struct runner_fault *fault);
int cuda_row_queue(struct cuda *c, int row, struct runner_fault *fault);
/* share.c */
int cuda_share(struct launcher *l, const struct launcher_shared *s, struct runner_fault *fault);
void cuda_unshare(struct launcher *l);
int cuda_buffer_set_shared(struct launcher *l, int b, int64_t offset, bool is_read_only, struct runner_fault *fault);
int cuda_output_share(struct launcher *l, int i, int64_t offset, struct runner_fault *fault);
/* Whether a buffer that was set from shared memory still holds what it was given. */
int cuda_shared_check(struct cuda *c, int b, bool *is_same, struct runner_fault *fault);
/* timing.c */
int cuda_time(struct launcher *l, const bool *is_skipped, const struct launcher_clock *clock, struct runner_result *out,
	struct runner_fault *fault);
int cuda_move(struct cuda *c, int row, cu_stream s, struct runner_fault *fault);
#endif
