/* worker: starts zygotes, hands them jobs, listens to the jobs.
 *
 * A zygote is started early and waited for late, since importing torch takes seconds. It is only
 * ever written to (requests); what it says about a job comes on that job's own status socket. When
 * a send fails the zygote is dead: it is started again once, and the send repeated; a second
 * failure is an infrastructure fault.
 *
 * A job's process is known by a pidfd, so that a kill can never hit another process that got its
 * number. */
#include "verify/worker.h"
#include "base/base.h"
#include "sandbox/sandbox.h"
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define STATUS_BYTES_MAX 4096
#define READY_BYTES_MAX 65536
#define SEND_TIMEOUT_MS 20000
#define STATUS_TIMEOUT_MS 5000    /* from a kill to the zygote's report */
#define RESTART_READY_MS 120000
/* Of the limit: the system enforces it by ticks and reports by a finer clock, which
 * part on a loaded machine. */
#define CPU_SPENT_SHARE 0.8
/* In a row; then every request fails at once instead of after another import of torch. */
#define FAILED_STARTS_MAX 2

struct zygote {
	char *root;    /* folder with worker/ */
	char *library; /* the sandbox library's path; NULL: none */
	char *kind;    /* what its jobs are, an argument of the script */
	bool has_many; /* of them, which is another */
	pthread_mutex_t lock;
	struct child child;
	int control;   /* socket to it; -1: it does not run */
	bool is_ready; /* it has said hello */
	bool is_stopped;
	int failed_starts;
	json_t *hello;
	int64_t next_id;
};

static int spawn(struct zygote *z, struct err *err)
{
	int pair[2];
	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair))
		return err_set(err, ERR_INFRA, "%s zygote: no socket pair: %s", z->kind, strerror(errno));
	/* With -I Python takes nothing from the environment or the user's own folders. */
	char *python = path_python(), *script = path_join(z->root, "worker/zygote.py");
	if (!python) {
		free(script);
		close(pair[0]);
		close(pair[1]);
		return err_set(err, ERR_INFRA,
			"%s zygote: no Python: HONE_PYTHON is not set and build/venv is not beside the program; run `make setup`",
			z->kind);
	}
	char *many = z->has_many ? (char *)(uintptr_t)"many" : NULL;
	char *argv[] = {python, (char *)(uintptr_t)"-I", script, z->kind, z->library, many, NULL};
	/* With large pages below malloc a fork has fewer entries to copy (worker/zygote.py). */
	static char *const env[] = {(char *)(uintptr_t)"PATH=/usr/local/bin:/usr/bin:/bin",
		(char *)(uintptr_t)"LANG=C.UTF-8", (char *)(uintptr_t)"GLIBC_TUNABLES=glibc.malloc.hugetlb=1", NULL};
	struct child_options o = {.argv = argv,
		.env = env,
		.cwd = "/",
		.fds = {pair[1]},
		.nfds = 1,
		.stdout_fd = -1,
		.stderr_fd = STDERR_FILENO,
		.die_with_parent = true};
	int rc = child_spawn(&z->child, &o, err);
	/* The child has its own copy of this end; with ours closed, its death ends the stream. */
	close(pair[1]);
	free(python);
	free(script);
	if (rc) {
		close(pair[0]);
		return err_set(err, ERR_INFRA, "%s zygote: %s", z->kind, err ? err->text : "cannot start");
	}
	z->control = pair[0];
	z->is_ready = false;
	return 0;
}

static void stop(struct zygote *z)
{
	if (z->control >= 0) close(z->control);
	z->control = -1;
	child_kill(&z->child);
}

void zygote_stop(struct zygote *z)
{
	pthread_mutex_lock(&z->lock);
	z->is_stopped = true;
	stop(z);
	pthread_mutex_unlock(&z->lock);
}

int zygote_create(
	const char *root, const char *library, const char *kind, bool has_many, struct zygote **out, struct err *err)
{
	struct zygote *z = xcalloc(1, sizeof *z);
	z->root = xstrdup(root);
	z->library = xstrdup(library);
	z->kind = xstrdup(kind);
	z->has_many = has_many;
	z->control = -1;
	z->child = (struct child){.pid = -1, .reaped = true};
	pthread_mutex_init(&z->lock, NULL);
	int rc = spawn(z, err);
	if (rc) zygote_free(z);
	else *out = z;
	return rc;
}

void zygote_free(struct zygote *z)
{
	if (!z) return;
	stop(z);
	pthread_mutex_destroy(&z->lock);
	json_decref(z->hello);
	free(z->root);
	free(z->library);
	free(z->kind);
	free(z);
}

static int ready_locked(struct zygote *z, int timeout_ms, struct err *err)
{
	if (z->is_ready) return 0;
	struct str text = {0};
	json_t *hello = NULL;
	int rc = 0;
	/* A zygote that ended is started again, but not for ever: each start imports torch. */
	if (z->control < 0 && !z->is_stopped && z->failed_starts < FAILED_STARTS_MAX) rc = spawn(z, err);
	if (!rc)
		rc = z->control < 0 ? err_set(err, ERR_INFRA, "it is not running")
							: msg_recv(z->control, READY_BYTES_MAX, &text, NULL, NULL, deadline_in_ms(timeout_ms), err);
	if (!rc) rc = json_parse(text.data, text.len, "ready message", &hello, err);
	if (!rc && !json_is_true(json_object_get(hello, "ready"))) {
		const char *why = json_string_value(json_object_get(hello, "text"));
		rc = err_set(err, ERR_INFRA, "%.300s", why ? why : text.data);
	}
	if (rc) {
		/* How the process ended tells the most, so it has a moment to end by itself. */
		char status[64] = "still running";
		if (child_wait(&z->child, 1000, NULL) == 0) child_status_text(z->child.status, status, sizeof status);
		json_decref(hello);
		stop(z);
		z->failed_starts++;
		rc = err_set(err, ERR_INFRA,
			"%s zygote (%s/worker/zygote.py) did not become ready: %.400s; process: %s; `hone doctor` looks for what "
			"is "
			"missing",
			z->kind, z->root, err ? err->text : "", status);
	} else {
		json_decref(z->hello);
		z->hello = hello;
		z->is_ready = true;
		z->failed_starts = 0;
	}
	str_release(&text);
	return rc;
}

int zygote_ready(struct zygote *z, int timeout_ms, const json_t **versions, struct err *err)
{
	pthread_mutex_lock(&z->lock);
	int rc = ready_locked(z, timeout_ms, err);
	if (!rc && versions) *versions = json_object_get(z->hello, "versions");
	pthread_mutex_unlock(&z->lock);
	return rc;
}

static json_t *request(struct zygote *z, const struct job_limits *l, json_t *task)
{
	return json_pack("{s:I, s:s, s:{s:I, s:i}, s:o}", "id", (json_int_t)z->next_id++, "sandbox",
		sandbox_level_name(l->level), "limits", "memory_bytes", (json_int_t)l->memory_bytes, "cpu_s", l->cpu_s, "job",
		task);
}

/* One attempt over a living zygote; the descriptors are the zygote's ends. */
static int send_request(struct zygote *z, const char *text, const int fds[2], struct err *err)
{
	int rc = ready_locked(z, RESTART_READY_MS, err);
	return rc ? rc : msg_send(z->control, text, strlen(text), fds, 2, deadline_in_ms(SEND_TIMEOUT_MS), err);
}

int job_start(struct zygote *z, const struct job_limits *l, json_t *task, struct job *out, struct err *err)
{
	int data[2] = {-1, -1}, status[2] = {-1, -1};
	*out = (struct job){.data_fd = -1, .status_fd = -1, .pid_fd = -1, .cpu_s = l->cpu_s};
	/* One stream is the job's own, whose words are hostile; the other is its keeper's, believed. */
	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, data) ||
		socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, status)) {
		json_decref(task);
		if (data[0] >= 0) {
			close(data[0]);
			close(data[1]);
		}
		return err_set(err, ERR_INFRA, "no socket pair for a job: %s", strerror(errno));
	}
	/* The lock is held over the request, so that no two threads start or write to a zygote. */
	pthread_mutex_lock(&z->lock);
	json_t *o = request(z, l, task);
	char *text = json_dumps(o, JSON_COMPACT);
	CHECKF(text, "a request that is not JSON");
	json_decref(o);
	int fds[2] = {data[1], status[1]};
	int rc = z->is_stopped ? err_set(err, ERR_INFRA, "the verifier is being closed") : send_request(z, text, fds, err);
	/* A zygote may have died since its last job: it is started again and asked once more. */
	if (rc && !z->is_stopped) {
		log_warn("%s zygote died (%s); starting it again", z->kind, err ? err->text : "");
		stop(z);
		rc = spawn(z, err);
		if (!rc) rc = send_request(z, text, fds, err);
	}
	pthread_mutex_unlock(&z->lock);
	free(text);
	close(data[1]);
	close(status[1]);
	out->data_fd = data[0];
	out->status_fd = status[0];
	if (rc) {
		job_end(out);
		return err_set(err, ERR_INFRA, "%s job: %.600s", z->kind, err ? err->text : "");
	}
	return 0;
}

/* One message of the zygote about the job: {"pid"} or {"status"}. */
static int status_take(struct job *j, uint64_t deadline_ns, struct err *err)
{
	struct str text = {0};
	json_t *o = NULL;
	int rc = msg_recv(j->status_fd, STATUS_BYTES_MAX, &text, NULL, NULL, deadline_ns, err);
	if (!rc) rc = json_parse(text.data, text.len, "status message", &o, err);
	if (!rc && json_object_get(o, "pid")) {
		j->pid = (pid_t)json_integer_value(json_object_get(o, "pid"));
		j->start_ns = clock_ns();
		/* A pidfd still means this process when its number went to another. */
		if (j->pid > 1 && j->pid_fd < 0) j->pid_fd = (int)syscall(SYS_pidfd_open, j->pid, 0);
	} else if (!rc && json_object_get(o, "status")) {
		/* The last message tells how the job ended, by the keeper's word and not by the job's. */
		j->ended = true;
		j->status = (int)json_integer_value(json_object_get(o, "status"));
		j->max_rss_bytes = json_integer_value(json_object_get(o, "max_rss_bytes"));
		j->cpu_ms = json_integer_value(json_object_get(o, "cpu_ms"));
		j->entered = json_is_true(json_object_get(o, "entered"));
		const char *why = json_string_value(json_object_get(o, "text"));
		snprintf(j->text, sizeof j->text, "%s", why ? why : "");
	}
	json_decref(o);
	str_release(&text);
	if (rc) { /* the zygote is gone: nothing more will be learnt */
		close(j->status_fd);
		j->status_fd = -1;
	}
	return rc;
}

int job_poll(struct job *j, uint64_t deadline_ns, struct err *err)
{
	for (;;) {
		struct pollfd p[2] = {{.fd = j->data_fd, .events = POLLIN}, {.fd = j->status_fd, .events = POLLIN}};
		uint64_t now = clock_ns();
		if (deadline_ns && now >= deadline_ns) return err_set(err, ERR_TIMEOUT, "the job's time is spent");
		int ms = deadline_ns ? (int)MIN((deadline_ns - now) / 1000000u + 1, 60000u) : -1;
		int n = poll(p, 2, ms);
		if (n < 0 && errno != EINTR) return err_set(err, ERR_INFRA, "waiting for a job: %s", strerror(errno));
		if (n <= 0) continue;
		if (p[1].revents) status_take(j, deadline_in_ms(STATUS_TIMEOUT_MS), NULL);
		if (p[0].revents) return 0;
	}
}

int job_next(
	struct job *j, size_t bytes_max, struct str *out, int *fds, int *nfds, uint64_t deadline_ns, struct err *err)
{
	int rc = job_poll(j, deadline_ns, err);
	return rc ? rc : msg_recv(j->data_fd, bytes_max, out, fds, nfds, deadline_ns, err);
}

void job_wait(struct job *j, int timeout_ms)
{
	uint64_t deadline = deadline_in_ms(timeout_ms);
	while (j->status_fd >= 0 && !j->ended) {
		struct pollfd p = {.fd = j->status_fd, .events = POLLIN};
		uint64_t now = clock_ns();
		if (now >= deadline) return;
		if (poll(&p, 1, (int)((deadline - now) / 1000000u + 1)) > 0) status_take(j, deadline, NULL);
	}
}

int job_check_entered(const struct job *j, struct err *err)
{
	if (!j->ended && j->status_fd < 0) return err_set(err, ERR_INFRA, "a job's zygote ended");
	return !j->ended || j->entered
		? 0
		: err_set(err, ERR_INFRA, "a job's process could not enter its sandbox: %s", j->text);
}

bool job_is_out_of_time(const struct job *j)
{
	if (!j->ended || !WIFSIGNALED(j->status) || !j->cpu_s) return false;
	/* At its limit a process gets SIGXCPU, or SIGKILL alone: the first process of a namespace
	 * takes no other signal. */
	int sig = WTERMSIG(j->status);
	return sig == SIGXCPU || (sig == SIGKILL && (double)j->cpu_ms >= CPU_SPENT_SHARE * 1000 * j->cpu_s);
}

int64_t job_cpu_ms(const struct job *j)
{
	clockid_t clock;
	struct timespec t;
	if (j->ended || j->pid <= 1 || clock_getcpuclockid(j->pid, &clock) || clock_gettime(clock, &t)) return 0;
	return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

int64_t job_asleep_ms(const struct job *j)
{
	char path[64];
	struct str text = {0};
	unsigned long long ran = 0, queued = 0;
	uint64_t now = clock_ns();
	if (j->ended || j->pid <= 1 || !j->start_ns) return 0;
	/* The system counts how long a process ran and how long it waited for a processor: a
	 * loaded machine is no sleep. */
	snprintf(path, sizeof path, "/proc/%d/schedstat", (int)j->pid);
	bool is_known = file_read(path, 256, &text, NULL) == 0 && text.data &&
		sscanf(text.data, "%llu %llu", &ran, &queued) == 2;
	str_release(&text);
	uint64_t busy = ran + queued;
	return is_known && ran && now - j->start_ns > busy ? (int64_t)((now - j->start_ns - busy) / 1000000u) : 0;
}

void job_stop(struct job *j)
{
	if (j->data_fd >= 0) close(j->data_fd);
	j->data_fd = -1;
	if (j->pid_fd >= 0 && !j->ended) syscall(SYS_pidfd_send_signal, j->pid_fd, SIGKILL, NULL, 0);
}

void job_end(struct job *j)
{
	job_stop(j);
	uint64_t deadline = deadline_in_ms(STATUS_TIMEOUT_MS);
	if (j->status_fd >= 0 && !j->ended) {
		if (j->pid_fd < 0) status_take(j, deadline, NULL);
		if (j->pid_fd >= 0 && !j->ended) syscall(SYS_pidfd_send_signal, j->pid_fd, SIGKILL, NULL, 0);
		if (j->status_fd >= 0) shutdown(j->status_fd, SHUT_WR);
		while (j->status_fd >= 0 && !j->ended && status_take(j, deadline, NULL) == 0) continue;
	}
	if (j->status_fd >= 0) close(j->status_fd);
	if (j->pid_fd >= 0) close(j->pid_fd);
	j->status_fd = j->pid_fd = -1;
}
