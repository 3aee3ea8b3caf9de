/* Child processes: spawned with vfork, because this process may have mapped tens of gigabytes of
 * weights, and the page tables alone would take long to copy. Between vfork and exec the child
 * touches only what it was given and calls only async-signal-safe functions.
 *
 * A child leads a session and a process group of its own. When it has ended, the rest of its group
 * is killed *before* it is reaped: until then its number cannot belong to anyone else. Failures
 * between vfork and exec come back through a close-on-exec pipe, as in libuv. */
#include "base/base.h"
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

struct report {
	int error;
	char step[28];
};

/* What the child needs, gathered before vfork. */
struct plan {
	const struct child_options *o;
	char *const *env;
	const char *cwd;
	pid_t parent;
	int report_fd;
};

static char *const minimal_env[] = {"PATH=/usr/local/bin:/usr/bin:/bin", "LANG=C.UTF-8", NULL};

static void __attribute__((noreturn)) child_fail(int fd, const char *step)
{
	struct report r = {.error = errno};
	for (size_t i = 0; step[i] && i < sizeof(r.step) - 1; i++) r.step[i] = step[i];
	ssize_t n = write(fd, &r, sizeof(r));
	(void)n;
	_exit(127);
}

/* Descriptors 0, 1, 2, then 3 .. 3 + nfds - 1 as asked, then the report pipe; nothing above.
 * Sources may lie among the targets, so all of them are first copied out of the way. Returns the
 * report pipe's new number. */
static int child_descriptors(const struct plan *p)
{
	const struct child_options *o = p->o;
	int count = 3 + o->nfds + 1, report = p->report_fd;
	int sources[3 + CHILD_FDS_MAX + 1] = {-1, o->stdout_fd, o->stderr_fd};
	for (int i = 0; i < o->nfds; i++) sources[3 + i] = o->fds[i];
	sources[count - 1] = report;
	for (int i = 0; i < count; i++) {
		if (sources[i] < 0) sources[i] = open("/dev/null", O_RDWR | O_CLOEXEC);
		if (sources[i] < 0) child_fail(report, "open /dev/null");
		sources[i] = fcntl(sources[i], F_DUPFD_CLOEXEC, count);
		if (sources[i] < 0) child_fail(report, "copy a descriptor");
	}
	report = sources[count - 1];
	for (int i = 0; i < count - 1; i++)
		if (dup2(sources[i], i) < 0) child_fail(report, "place a descriptor");
	if (dup3(report, count - 1, O_CLOEXEC) < 0) child_fail(report, "place a descriptor");
	if (syscall(SYS_close_range, (unsigned)count, UINT_MAX, 0)) child_fail(count - 1, "close_range (Linux 5.9)");
	return count - 1;
}

static void __attribute__((noreturn, noinline)) child_main(const struct plan *p)
{
	const struct child_options *o = p->o;
	if (setsid() < 0) child_fail(p->report_fd, "setsid");
	int report = child_descriptors(p);
	if (o->die_with_parent && prctl(PR_SET_PDEATHSIG, SIGKILL)) child_fail(report, "prctl");
	if (o->die_with_parent && getppid() != p->parent) _exit(127); /* it died before prctl */
	/* By system call: the C library's sigaction refuses its own two signals (32, 33), which a
	 * parent may have left ignored. All zero is SIG_DFL. */
	static const struct {
		void (*handler)(int);
		unsigned long flags;
		void (*restorer)(void);
		uint64_t mask;
	} plain;
	for (int s = 1; s < NSIG; s++)
		syscall(SYS_rt_sigaction, s, &plain, NULL, sizeof plain.mask); /* SIGKILL and SIGSTOP refuse */
	sigset_t none;
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
	if (chdir(p->cwd)) child_fail(report, "chdir");
	execve(o->argv[0], o->argv, p->env);
	child_fail(report, "exec");
}

/* Reads what the child reported: 0 when exec closed the pipe. */
static int read_report(int fd, struct report *r)
{
	ssize_t n;
	do {
		n = read(fd, r, sizeof(*r));
	} while (n < 0 && errno == EINTR);
	return n == (ssize_t)sizeof(*r);
}

int child_spawn(struct child *c, const struct child_options *o, struct err *err)
{
	*c = (struct child){.pid = -1, .reaped = true};
	CHECKF(o->nfds >= 0 && o->nfds <= CHILD_FDS_MAX, "%d descriptors, at most %d", o->nfds, CHILD_FDS_MAX);
	for (int i = 0; i < o->nfds; i++) CHECKF(o->fds[i] >= 0, "descriptor %d is %d", i, o->fds[i]);
	/* Through this pipe the child says which step failed; exec closes it, so that nothing read
	 * means success. */
	int pipe_fds[2];
	if (pipe2(pipe_fds, O_CLOEXEC))
		return err_set(err, ERR_INFRA, "%s: cannot make a pipe: %s", o->argv[0], strerror(errno));
	struct plan plan = {.o = o,
		.env = o->env ? o->env : minimal_env,
		.cwd = o->cwd ? o->cwd : "/",
		.parent = getpid(),
		.report_fd = pipe_fds[1]};

	/* The child shares our memory until exec: no handler of ours may run in it. */
	sigset_t all, old;
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &old);
	pid_t pid = vfork();
	if (pid == 0) child_main(&plan);
	int fork_error = errno;
	pthread_sigmask(SIG_SETMASK, &old, NULL);

	/* The parent's own end goes first, else reading would never end. */
	close(pipe_fds[1]);
	struct report report;
	int failed = pid > 0 && read_report(pipe_fds[0], &report);
	close(pipe_fds[0]);
	if (pid < 0) return err_set(err, ERR_INFRA, "%s: cannot fork: %s", o->argv[0], strerror(fork_error));
	if (!failed) {
		*c = (struct child){.pid = pid};
		return 0;
	}
	/* A child that could not become the program has ended; nobody else waits for it. */
	while (waitpid(pid, NULL, 0) < 0 && errno == EINTR) {}
	report.step[sizeof(report.step) - 1] = 0;
	return err_set(err, report.error == ENOENT ? ERR_NOT_FOUND : ERR_CHILD, "%s: %s: %s", o->argv[0], report.step,
		strerror(report.error));
}

/* Blocks until the child has ended or ms passed; -1 is for ever. */
static void wait_for_end(pid_t pid, int ms)
{
	int fd = (int)syscall(SYS_pidfd_open, pid, 0);
	if (fd < 0) { /* Linux 5.2 and some sandboxes: look every few milliseconds */
		sleep_ms(ms < 0 ? 5 : MIN(ms, 5));
		return;
	}
	struct pollfd p = {.fd = fd, .events = POLLIN};
	poll(&p, 1, ms);
	close(fd);
}

int child_wait(struct child *c, int timeout_ms, struct err *err)
{
	if (c->reaped) return c->pid > 0 ? 0 : err_set(err, ERR_CHILD, "no child process was started");
	uint64_t start = clock_ns();
	for (;;) {
		siginfo_t info = {0};
		int rc = waitid(P_PID, (id_t)c->pid, &info, WEXITED | WNOHANG | WNOWAIT);
		if (rc && errno != EINTR) {
			c->reaped = true;
			return err_set(err, ERR_INFRA, "process %d: cannot be waited for: %s", (int)c->pid, strerror(errno));
		}
		if (!rc && info.si_pid == c->pid) break;
		uint64_t passed_ms = (clock_ns() - start) / 1000000u;
		if (timeout_ms >= 0 && passed_ms >= (uint64_t)timeout_ms)
			return err_set(err, ERR_TIMEOUT, "process %d: still running after %d ms", (int)c->pid, timeout_ms);
		wait_for_end(c->pid, timeout_ms < 0 ? -1 : timeout_ms - (int)passed_ms);
	}
	kill(-c->pid, SIGKILL);
	struct rusage used = {0};
	while (wait4(c->pid, &c->status, 0, &used) < 0 && errno == EINTR) {}
	c->reaped = true;
	c->cpu_us = (int64_t)(used.ru_utime.tv_sec + used.ru_stime.tv_sec) * 1000000 + used.ru_utime.tv_usec +
		used.ru_stime.tv_usec;
	return 0;
}

void child_kill(struct child *c)
{
	if (c->reaped || c->pid <= 0) return;
	kill(-c->pid, SIGKILL);
	kill(c->pid, SIGKILL); /* one that was forked for us may be on its way to a group of its own */
	child_wait(c, -1, NULL);
}

void child_status_text(int status, char *text, size_t len)
{
	if (WIFEXITED(status)) snprintf(text, len, "exit %d", WEXITSTATUS(status));
	else if (WIFSIGNALED(status)) {
		const char *name = sigabbrev_np(WTERMSIG(status));
		snprintf(text, len, name ? "signal %d (SIG%s)" : "signal %d", WTERMSIG(status), name);
	} else snprintf(text, len, "wait status 0x%x", (unsigned)status);
}
