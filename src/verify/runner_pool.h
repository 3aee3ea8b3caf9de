/* runner_pool: hone-runner processes, started ahead of need. On the vm one candidate a process: a
 * runner is ended when its candidate is done. A GPU's runner has a context, which takes a quarter
 * of a second to make and no two at once: it is given back and serves on, as long as no candidate
 * did it harm (runner_give_back). */
#ifndef HONE_RUNNER_POOL_H
#define HONE_RUNNER_POOL_H
#include "base/base.h"
#include "prove/prove.h"
#include "runner/runner.h"

struct runner_pool;
struct runner {
	struct child child;
	int fd;
	bool is_settled; /* its hello was read */
	bool has_begun;  /* the last trial's rows: all that it was given lies where they read it */
	bool is_tainted; /* a fault, a deadline or a touched canary: not for another candidate */
	int served;      /* candidates before this one */
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
int runner_pool_count(struct runner_pool *p); /* processes there are, those in use included */
/* A runner with nothing of any candidate in it, sandboxed and waiting. ERR_INFRA. */
int runner_pool_take(struct runner_pool *p, struct runner *out, struct err *err);
/* One of its own under a developer's tool (argv, NULL-terminated), which writes to
 * out_fd. ERR_INFRA. It is ended by runner_end_under: the tool has `ms` to say what it
 * saw after the runner is done. */
int runner_start_under(
	struct runner_pool *p, const char *const *tool, int out_fd, int ready_ms, struct runner *out, struct err *err);
void runner_end_under(struct runner_pool *p, struct runner *r, int ms);
/* Tops the pool up again; cheap when it is full. */
bool runner_pool_is_short(struct runner_pool *p);
void runner_pool_refill(struct runner_pool *p);
/* Waits until all that wait have said their hello: a GPU's have their contexts then. */
void runner_pool_settle(struct runner_pool *p);
/* When its candidate is done: a GPU's runner that is not tainted drops what it was given, proves
 * that the GPU still answers and waits for the next one; every other is ended. */
void runner_give_back(struct runner_pool *p, struct runner *r);
/* Closes the socket: the process ends by itself; runner_end is still due. */
void runner_stop(struct runner *r);
/* Ends the process and closes the socket; status_text (may be NULL) tells how it ended. */
void runner_end(struct runner_pool *p, struct runner *r, char *status_text, size_t len, int *status);
/* Kills the runners that are in use, so that whoever waits for one is woken, and refuses to start
 * more. */
void runner_pool_stop(struct runner_pool *p);

/* What a load says about the kernels on the data path: lines of a tf32 dot, of the first operation
 * whose order is open (vm_kernel_may_depend_on_order), of the first that rounds fp32 to less
 * (vm_kernel_narrows), of the first that makes costs depend on data
 * (vm_kernel_cost_depends_on_data), of the first sum of fp8 products in the tensor core
 * (vm_kernel_sums_fp8); -1: none. */
struct runner_loaded {
	int tf32_line;
	int order_line;
	int narrow_line;
	int data_line;
	int fp8_line;
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
/* Who computes library rows for a runner. */
struct runner_library {
	int fd; /* memfd for the operands of one row at a time, as tape_library_layout says */
	/* Computes a row of the tape, in place. 0; ERR_MISMATCH with why it cannot be computed;
	 * another code ends the trial. */
	int (*compute)(void *ctx, int row, uint64_t deadline_ns, char *why, size_t len, struct err *err);
	void *ctx;
};
/* Who asks a runner for times. */
struct runner_asker {
	/* Gets the answer to the last question (0 before the first) and names the next, or
	 * RUNNER_END. Takes the time that it takes: the runner waits. A negative code ends the trial,
	 * and the runner with it. */
	int (*next)(void *ctx, int64_t ns, enum runner_clock *question, struct err *err);
	void *ctx;
};
/* What a trial hands over beside its message. */
struct runner_data {
	int given_fd;
	int outputs_fd;
	const struct runner_library *library; /* NULL: a library row on the data path is a fault */
	const struct runner_asker *asker;     /* of a trial that is timed */
};
/* One trial; result is valid on 0. The time until the deadline is given anew when the rows begin,
 * and for each question of time. */
int runner_try(struct runner *r, const struct runner_trial *t, int noutputs, const struct runner_data *data,
	uint64_t deadline_ns, struct runner_result *result, struct err *err);
/* What a tape costs, by samples: of t its compiled, gpu, deadline_ms and seed.
 * result is valid on 0. */
int runner_price(struct runner *r, const char *tape, size_t len, const struct runner_trial *t, uint64_t deadline_ns,
	struct runner_result *result, struct err *err);
/* A proof of a tape (prove.h). words: memfd with {"graphs", "names"}; fds: for each graph, what it
 * is given and its tables. ERR_MISMATCH with what was wrong with the graphs. */
struct runner_proof {
	uint64_t seed;
	int ms; /* for the proof alone */
	int words_fd;
	int nfds;
	const int *fds;
};
int runner_prove(struct runner *r, const char *tape, size_t len, const struct runner_proof *p, uint64_t deadline_ns,
	struct prove_result *out, struct err *err);
/* A sealed memfd with a text; a negative code. */
int runner_text_fd(const char *text, size_t len, struct err *err);
#endif
