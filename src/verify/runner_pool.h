/* runner_pool: hone-runner processes, started ahead of need. One candidate a process: a runner is
 * ended when its candidate is done. */
#ifndef HONE_RUNNER_POOL_H
#define HONE_RUNNER_POOL_H
#include "base/base.h"
#include "runner/runner.h"

struct runner_pool;
struct runner {
	struct child child;
	int fd;
	bool is_settled; /* its hello was read */
};
struct runner_pool_options {
	const char *path;   /* of hone-runner */
	const char *device; /* NULL: the vm; "cuda:N" */
	int level;          /* of the sandbox */
	int64_t memory_bytes;
	int spare; /* kept warm */
};
/* Call it from a thread that lives as long as the pool (runners die with it). *device is what the
 * first runner says of itself. */
int runner_pool_create(
	const struct runner_pool_options *o, struct runner_pool **out, struct runner_device *device, struct err *err);
void runner_pool_free(struct runner_pool *p);
/* A fresh runner, sandboxed and waiting. ERR_INFRA. */
int runner_pool_take(struct runner_pool *p, struct runner *out, struct err *err);
/* Tops the pool up again; cheap when it is full. */
void runner_pool_refill(struct runner_pool *p);
/* Ends the process and closes the socket; status_text (may be NULL) tells how it ended. */
void runner_end(struct runner_pool *p, struct runner *r, char *status_text, size_t len, int *status);
/* Kills the runners that are in use, so that whoever waits for one is woken, and refuses to start
 * more. */
void runner_pool_stop(struct runner_pool *p);

/* What a load says about the kernels on the data path: lines of a tf32 dot, of the first operation
 * whose order is open (vm_kernel_may_depend_on_order), of the first that rounds fp32 to less (vm_kernel_narrows); -1:
 * none. */
struct runner_loaded {
	int tf32_line, order_line, narrow_line;
};
/* What a runner is given to replay. */
struct runner_load {
	const char *tape;
	size_t len;
	int count; /* binaries for a GPU's runner, and the memfd that they lie in */
	const struct runner_binary *binaries;
	int binaries_fd;
};
/* 0 with *loaded set; ERR_MISMATCH with *fault; ERR_TIMEOUT; ERR_CHILD when the process died;
 * ERR_FORMAT when it does not speak. */
int runner_load(struct runner *r, const struct runner_load *l, uint64_t deadline_ns, struct runner_loaded *loaded,
	struct runner_fault *fault, struct err *err);
/* One trial; result is valid on 0. */
int runner_try(struct runner *r, const struct runner_trial *t, int noutputs, int given_fd, int outputs_fd,
	uint64_t deadline_ns, struct runner_result *result, struct err *err);
#endif
