/* worker: zygotes and the jobs forked from them (docs/worker-protocol.md). A zygote is one warm
 * Python process; a job is a process of its own, forked and sandboxed, that runs a stranger's code.
 * All that a job says is hostile; only the keeper's status socket is believed. */
#ifndef HONE_WORKER_H
#define HONE_WORKER_H
#include "base/base.h"

#define WORKER_FDS_MAX 2

struct zygote;
/* root: folder with worker/ and build/venv; library: libhone_sandbox.so; kind: "tracer", "oracle",
 * "compile", "timer". has_many: so many jobs will come that it prepares for them when it starts
 * (some tenths of a second), which makes each cheaper. Starts the process and returns at once;
 * zygote_ready waits for it. */
int zygote_create(
	const char *root, const char *library, const char *kind, bool has_many, struct zygote **out, struct err *err);
void zygote_free(struct zygote *z); /* ends it and what it forked */
void zygote_stop(struct zygote *z); /* the same, but z stays: whoever waits for a job is woken, and no new one starts */
/* Waits until it answered (seconds: it imports torch). *versions is owned by the zygote. ERR_INFRA
 * when it failed. */
int zygote_ready(struct zygote *z, int timeout_ms, const json_t **versions, struct err *err);

struct job_limits {
	int level; /* of the sandbox */
	int64_t memory_bytes;
	int cpu_s; /* processor time */
};
struct job {
	int data_fd;   /* messages of the job itself: hostile */
	int status_fd; /* of the keeper, which is believed */
	int pid_fd;
	pid_t pid;
	uint64_t start_ns; /* when its process was known */
	int cpu_s;         /* processor time that it may take */
	/* When ended: waitpid's status of the job's process, and whether it had entered its sandbox; if
	 * not, why. */
	bool ended;
	bool entered;
	int status;
	int64_t max_rss_bytes;
	int64_t cpu_ms;
	char text[200];
};
/* Starts a job; takes over `task` (the "job" object). Restarts a dead zygote once. ERR_INFRA. May
 * be called from several threads. */
int job_start(struct zygote *z, const struct job_limits *l, json_t *task, struct job *out, struct err *err);
/* The next message of the job. ERR_TIMEOUT at the deadline, ERR_CHILD when it ended (job->ended
 * tells how), ERR_LIMIT for a message over bytes_max. */
int job_next(
	struct job *j, size_t bytes_max, struct str *out, int *fds, int *nfds, uint64_t deadline_ns, struct err *err);
/* Waits until the job has something to say, or ended. ERR_TIMEOUT at the deadline. */
int job_poll(struct job *j, uint64_t deadline_ns, struct err *err);
/* Gives a job that closed its data socket a moment to end by itself, so that its own status is
 * learnt and not that of our kill. */
void job_wait(struct job *j, int timeout_ms);
/* After job_wait: ERR_INFRA when the zygote is gone, or the process ended before it was in its
 * sandbox (nothing of the stranger's ran), else 0. */
int job_check_entered(const struct job *j, struct err *err);
/* After job_wait: whether the system ended the job because its processor time was spent. */
bool job_is_out_of_time(const struct job *j);
/* Processor time of a job that still runs, without that of its own children; 0
 * when it is not known. */
int64_t job_cpu_ms(const struct job *j);
/* For how long it has waited for something other than a processor; 0 when it is not known. */
int64_t job_asleep_ms(const struct job *j);
/* Kills the job without waiting for its end, so that several end at once; job_end is still due. */
void job_stop(struct job *j);
/* Kills the job if it still runs, learns how it ended, closes everything. Legal on a job that never
 * started (all zero with fds -1). */
void job_end(struct job *j);
#endif
