/* The sandbox's fences, each tried from inside, in forked children, at every level that works here.
 * A probe returns what happened: 0 when the forbidden thing succeeded, or an errno. A fence that is
 * missing shows as "allowed". */
#include "sandbox/sandbox.h"
#include <dlfcn.h>
#include <errno.h>
#include <linux/sockios.h>
#include <arpa/inet.h>
#include <netinet/in.h>
#include <asm/ioctls.h>
#include <sys/ioctl.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

#define ALLOWED 0
#define MEMORY_BYTES ((int64_t)256 << 20)
#define EXIT_NOT_ENTERED 200

static pid_t outside; /* the test's own pid as the outer namespace knows it */
static char scratch[64], readable[64];

static int result_of(long rc) { return rc < 0 ? errno : ALLOWED; }

static int open_with(const char *path, int flags)
{
	int fd = open(path, flags, 0600);
	return result_of(fd);
}

/* ---- probes: each runs inside the sandbox and tries one thing ---- */

static int try_passwd(void) { return open_with("/etc/passwd", O_RDONLY); }
static int try_write(void) { return open_with("/tmp/hone-sandbox-escape", O_WRONLY | O_CREAT); }
static int try_truncate_readable(void) { return open_with(readable, O_WRONLY | O_TRUNC); }
static int try_scratch(void)
{
	char path[96];
	snprintf(path, sizeof(path), "%s/file", scratch);
	return open_with(path, O_WRONLY | O_CREAT);
}
/* Compilers write into one folder of theirs and rename into another; nothing comes in from outside,
 * and nothing goes out. */
static int try_move(void)
{
	char from[96], inner[96], to[112], away[112];
	snprintf(from, sizeof(from), "%s/file", scratch);
	snprintf(inner, sizeof(inner), "%s/inner", scratch);
	snprintf(to, sizeof(to), "%s/file", inner);
	snprintf(away, sizeof(away), "%s.away", scratch);
	int rc = open_with(from, O_WRONLY | O_CREAT);
	if (!rc) rc = result_of(mkdir(inner, 0700));
	if (!rc) rc = result_of(rename(from, to));
	if (!rc && (rename(to, away) == 0 || rename(readable, from) == 0)) rc = EXIT_NOT_ENTERED - 1;
	unlink(to);
	rmdir(inner);
	return rc;
}
static int try_null(void) { return open_with("/dev/null", O_RDWR); }
static int try_readable(void) { return open_with(readable, O_RDONLY); }
static int try_inet(void) { return result_of(socket(AF_INET, SOCK_STREAM, 0)); }
static int try_unix(void) { return result_of(socket(AF_UNIX, SOCK_STREAM, 0)); }
static int try_netlink(void) { return result_of(socket(AF_NETLINK, SOCK_RAW, 0)); }
static int try_exec(void)
{
	char *argv[] = {(char *)(uintptr_t)"/bin/true", NULL};
	return result_of(execv(argv[0], argv)); /* success exits 0, which is ALLOWED */
}
static int try_kill_parent(void) { return result_of(kill(getppid() ? getppid() : outside, 0)); }
static int try_kill_outside(void) { return result_of(kill(outside, 0)); }
static int try_kill_all(void) { return result_of(kill(-1, 0)); }
static int try_kill_self(void) { return result_of(kill(getpid(), 0)); }
static int try_pin_parent(void)
{
	cpu_set_t one;
	CPU_ZERO(&one);
	CPU_SET(0, &one);
	return result_of(sched_setaffinity(getppid() ? getppid() : outside, sizeof one, &one));
}
static int try_pin_outside_wide(void)
{
	unsigned long mask = 1; /* the kernel reads 32 bits of a pid */
	return result_of(syscall(SYS_sched_setaffinity, (1ul << 32) | (unsigned long)outside, sizeof mask, &mask));
}
static int try_pin_self(void)
{
	cpu_set_t mine;
	return sched_getaffinity(0, sizeof mine, &mine) ? errno
													: result_of(sched_setaffinity(getpid(), sizeof mine, &mine));
}
static int try_affinity_outside(void)
{
	cpu_set_t theirs;
	return result_of(sched_getaffinity(outside, sizeof theirs, &theirs));
}
static int try_group_outside(void) { return result_of(getpgid(outside)); }
static int try_priority_outside(void) { return result_of(getpriority(PRIO_PROCESS, (id_t)outside)); }
static int try_signal_owner(void)
{
	int fds[2];
	return pipe(fds) ? errno : result_of(fcntl(fds[0], F_SETOWN, outside));
}
static int try_signal_owner_ioctl(void)
{
	int fds[2];
	return socketpair(AF_UNIX, SOCK_STREAM, 0, fds) == 0 || pipe(fds) == 0
		? result_of(ioctl(fds[0], FIOSETOWN, &outside))
		: errno;
}
static int try_ptrace(void) { return result_of(ptrace(PTRACE_TRACEME, 0, NULL, NULL)); }
static int try_parent_memory(void)
{
	char path[64];
	snprintf(path, sizeof(path), "/proc/%d/mem", (int)outside);
	return open_with(path, O_RDONLY);
}
static int try_vm_read(void) { return result_of(syscall(SYS_process_vm_readv, outside, NULL, 0, NULL, 0, 0)); }
static int try_fork(void)
{
	pid_t pid = fork();
	if (pid == 0) _exit(0);
	return result_of(pid);
}
static int try_clone3(void) { return result_of(syscall(SYS_clone3, NULL, 0)); }
static int try_thread(void)
{
	return result_of(syscall(SYS_clone, CLONE_THREAD | CLONE_SIGHAND | CLONE_VM | CLONE_NEWUSER, NULL, NULL, NULL, 0));
}
static int try_unshare(void) { return result_of(unshare(CLONE_NEWUSER)); }
static int try_memory(void)
{
	void *p = mmap(NULL, (size_t)100 << 30, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	return p == MAP_FAILED ? errno : ALLOWED;
}
static int try_shared_memory(void)
{
	void *p = mmap(NULL, (size_t)100 << 30, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	return p == MAP_FAILED ? errno : ALLOWED;
}
static int try_memfd(void) { return result_of(memfd_create("x", 0)); }
static int try_setuid(void) { return geteuid() == 0 ? ALLOWED : result_of(setuid(0)); }
static int try_pdeathsig(void) { return result_of(prctl(PR_SET_PDEATHSIG, 0)); }
static int try_dumpable(void) { return prctl(PR_GET_DUMPABLE) ? ALLOWED : EPERM; }
static int try_bpf(void) { return result_of(syscall(SYS_bpf, 0, NULL, 0)); }
static int try_io_uring(void) { return result_of(syscall(SYS_io_uring_setup, 1, NULL)); }
static int try_keyctl(void) { return result_of(syscall(SYS_keyctl, 0, 0, 0, 0, 0)); }
static int try_perf(void) { return result_of(syscall(SYS_perf_event_open, NULL, 0, -1, -1, 0)); }
static int try_userfaultfd(void) { return result_of(syscall(SYS_userfaultfd, 1)); }
static int try_mount(void) { return result_of(syscall(SYS_mount, "none", "/nonexistent", "nonsense", 0, NULL)); }
static int try_core(void)
{
	struct rlimit r;
	return getrlimit(RLIMIT_CORE, &r) == 0 && r.rlim_max == 0 ? EPERM : ALLOWED;
}
static int try_rlimit_up(void)
{
	struct rlimit r = {512, 512};
	return result_of(setrlimit(RLIMIT_NOFILE, &r));
}
static int try_connect(void) { return result_of(syscall(SYS_connect, 0, NULL, 0)); }
/* What a job needs must work. */
static int try_work(void)
{
	int fds[2];
	void *p = mmap(NULL, 1 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (p == MAP_FAILED || pipe(fds) || write(fds[1], "x", 1) != 1 || getpid() <= 0) return errno ? errno : EIO;
	struct pollfd q = {.fd = fds[0], .events = POLLIN};
	memset(p, 1, 1 << 20);
	return poll(&q, 1, 0) == 1 ? ALLOWED : EIO;
}

/* Where the call's own arguments make no sense, only one errno says that it was the fence which
 * stopped it: nothing here does harm when a fence is missing. */
struct probe {
	const char *name;
	int (*run)(void);
	int expected;
};
#define WORKS ALLOWED
#define FAILS (-1)   /* with any errno */
static const struct probe PROBES[] = {
	{"open /etc/passwd", try_passwd, FAILS},
	{"create a file", try_write, FAILS},
	{"truncate a readable file", try_truncate_readable, FAILS},
	{"write to a scratch folder not granted", try_scratch, FAILS},
	{"read a granted file", try_readable, WORKS},
	{"inet socket", try_inet, FAILS},
	{"unix socket", try_unix, FAILS},
	{"netlink socket", try_netlink, FAILS},
	{"connect", try_connect, EPERM},
	{"exec", try_exec, FAILS},
	{"signal the parent", try_kill_parent, FAILS},
	{"signal a process outside", try_kill_outside, FAILS},
	{"signal everybody", try_kill_all, FAILS},
	{"signal itself", try_kill_self, WORKS},
	{"pin the parent to a processor", try_pin_parent, EPERM},
	{"pin a process by a wide pid", try_pin_outside_wide, EPERM},
	{"pin itself", try_pin_self, WORKS},
	{"a process's processors", try_affinity_outside, EPERM},
	{"a process's group", try_group_outside, EPERM},
	{"a process's priority", try_priority_outside, EPERM},
	{"signals of a descriptor to a process", try_signal_owner, EPERM},
	{"the same by ioctl", try_signal_owner_ioctl, FAILS},
	{"ptrace", try_ptrace, FAILS},
	{"read the parent's memory", try_parent_memory, FAILS},
	{"process_vm_readv", try_vm_read, EPERM},
	{"fork", try_fork, FAILS},
	{"clone3", try_clone3, ENOSYS},
	{"clone with a namespace", try_thread, EPERM},
	{"unshare", try_unshare, FAILS},
	{"allocate 100 GiB", try_memory, FAILS},
	{"allocate 100 GiB shared", try_shared_memory, FAILS},
	{"memfd", try_memfd, FAILS},
	{"become root", try_setuid, FAILS},
	{"outlive the parent", try_pdeathsig, EPERM},
	{"be dumpable", try_dumpable, FAILS},
	{"bpf", try_bpf, EPERM},
	{"io_uring", try_io_uring, EPERM},
	{"keyctl", try_keyctl, EPERM},
	{"perf_event_open", try_perf, EPERM},
	{"userfaultfd", try_userfaultfd, EPERM},
	{"mount", try_mount, EPERM},
	{"core file", try_core, FAILS},
	{"raise a limit", try_rlimit_up, FAILS},
	{"memory, pipes and poll", try_work, WORKS},
};

/* How a probe's process comes into its namespaces: returns as fork does. hone-runner's way. */
static int born_unshared(const struct sandbox_options *o, char *why, size_t len)
{
	return sandbox_unshare(o, why, len) ? -1 : fork();
}

/* A zygote's way: it keeps the filter of its children. What it had before was for others. */
static int born_of_zygote(const struct sandbox_options *o, char *why, size_t len)
{
	struct sandbox_options others = *o;
	others.allow_threads = !o->allow_threads;
	if (sandbox_drop_root(why, len)) return -1;
	int first = sandbox_fork(&others, why, len);
	if (first == 0) _exit(0);
	while (first > 0 && waitpid(first, NULL, 0) < 0) continue;
	int pid = first < 0 ? -1 : sandbox_fork(o, why, len);
	if (pid == 0 && *why) _exit(EXIT_NOT_ENTERED);
	return pid;
}

/* Where a probe's process says why it could not begin. */
static int words_fd;

/* From a template, as the jobs of a zygote with many: in a network that jobs have together. */
static int born_of_template(const struct sandbox_options *o, char *why, size_t len)
{
	int pair[2], fds[SANDBOX_ORDER_FDS];
	struct sandbox_options own = *o;
	if (sandbox_drop_root(why, len) || socketpair(AF_UNIX, SOCK_SEQPACKET, 0, pair)) return -1;
	int template = sandbox_template_fork(why, len);
	if (template <0) return -1;
	if (template == 0) {
		own.level = SANDBOX_NONE;
		sandbox_template_serve(pair[1], &own, fds, NULL, NULL, why, len);
		/* A job's process: it has no descriptor but those of the order. */
		dup2(fds[0], words_fd);
		for (int i = 0; i < SANDBOX_ORDER_FDS; i++)
			if (fds[i] != words_fd) close(fds[i]);
		if (*why) _exit(EXIT_NOT_ENTERED);
		return 0;
	}
	close(pair[1]);
	return sandbox_template_order(pair[0], o->level, (int[]){words_fd, words_fd, words_fd}, 10000);
}

static int (*birth)(const struct sandbox_options *o, char *why, size_t len) = born_unshared;

/* Runs a probe in the sandbox: born, then entered. Returns the probe's result. */
typedef int enter_fn(const struct sandbox_options *o, char *text, size_t len);
static int run_probe_in(enter_fn *enter, const struct sandbox_options *o, int (*probe)(void), char *text, size_t len)
{
	int fds[2], status = 0, result = -1;
	assert_return_code(pipe(fds), errno);
	words_fd = fds[1];
	pid_t pid = fork();
	/* The outer child stays outside of the new pid namespace; its own child is the first inside. */
	if (pid == 0) {
		char why[256] = "";
		pid_t inner = birth(o, why, sizeof(why));
		if (inner == 0) {
			int rc = enter(o, why, sizeof(why));
			if (rc) dprintf(fds[1], "%s", why);
			_exit(rc ? EXIT_NOT_ENTERED : probe());
		}
		if (inner < 0) dprintf(fds[1], "%s", why);
		/* The outer child passes the inner one's status on. */
		while (inner > 0 && waitpid(inner, &status, 0) < 0) continue;
		_exit(inner < 0 ? EXIT_NOT_ENTERED : WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status));
	}
	/* What the child said, then how it ended. */
	close(fds[1]);
	ssize_t n = read(fds[0], text, len - 1);
	text[n > 0 ? n : 0] = 0;
	close(fds[0]);
	while (waitpid(pid, &status, 0) < 0) continue;
	if (WIFEXITED(status)) result = WEXITSTATUS(status);
	return result;
}

static int run_probe(const struct sandbox_options *o, int (*probe)(void), char *text, size_t len)
{
	return run_probe_in(sandbox_enter, o, probe, text, len);
}

static struct sandbox_options options_for(int level)
{
	static const char *read_paths[2];
	read_paths[0] = readable;
	return (struct sandbox_options){
		.level = level, .read_paths = read_paths, .memory_bytes = MEMORY_BYTES, .cpu_s = 60};
}

/* How many probes came out otherwise than the table says. */
static int probes_run(const struct sandbox_options *o, const struct probe *probes, size_t count)
{
	char text[256];
	int bad = 0;
	for (size_t i = 0; i < count; i++) {
		int expected = probes[i].expected;
		if (o->device_paths && probes[i].run == try_connect) expected = ENOENT;
		if (o->device_paths && probes[i].run == try_dumpable) expected = WORKS;
		int result = run_probe(o, probes[i].run, text, sizeof(text));
		int ok = expected == FAILS ? result > 0 && result < EXIT_NOT_ENTERED : result == expected;
		if (!ok)
			print_message("# level %s: %s: %s %s\n", sandbox_level_name(o->level), probes[i].name,
				result == ALLOWED ? "allowed" : strerror(result), text);
		bad += !ok;
	}
	return bad;
}

static void test_level(int level)
{
	char text[256];
	struct sandbox_options o = options_for(level);
	if (sandbox_level_probe(text, sizeof(text)) < level) skip();
	assert_int_equal(probes_run(&o, PROBES, sizeof(PROBES) / sizeof(PROBES[0])), 0);
}

/* EINVAL is the kernel's word, since a thread shares memory: the filter let it pass. */
static int try_bare_thread(void) { return result_of(syscall(SYS_clone, CLONE_THREAD, NULL, NULL, NULL, 0)); }

static void test_template(void **state)
{
	birth = born_of_template;
	test_level(SANDBOX_FULL);
	test_level(SANDBOX_LSM);
	birth = born_unshared;
}

/* The filter that a zygote keeps is that of its child's options, and of its number there. */
static void test_kept_filter(void **state)
{
	char text[256];
	struct sandbox_options o = options_for(SANDBOX_FULL);
	if (sandbox_level_probe(text, sizeof(text)) < SANDBOX_FULL) skip();
	birth = born_of_zygote;
	int bad = probes_run(&o, PROBES, sizeof(PROBES) / sizeof(PROBES[0]));
	int without = run_probe(&o, try_bare_thread, text, sizeof(text));
	o.allow_threads = 1;
	int with = run_probe(&o, try_bare_thread, text, sizeof(text));
	birth = born_unshared;
	assert_int_equal(bad, 0);
	assert_int_equal(without, EPERM);
	assert_int_equal(with, EINVAL);
}

/* ---- the form of a GPU's runner: device files, a socket to listen on, threads' names ---- */

static int try_device(void)
{
	int fd = open("/dev/null", O_RDWR);
	return fd < 0 || write(fd, "x", 1) != 1 ? errno : ALLOWED;
}
static int try_other_device(void) { return open_with("/dev/zero", O_RDWR); }
static int try_listen(void)
{
	struct sockaddr_un a = {.sun_family = AF_UNIX};
	int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	snprintf(a.sun_path + 1, sizeof(a.sun_path) - 1, "hone-test-%d", (int)getpid());
	return fd < 0 || bind(fd, (struct sockaddr *)&a, sizeof(a)) ? errno : result_of(listen(fd, 1));
}
static int try_bind_path(void)
{
	struct sockaddr_un a = {.sun_family = AF_UNIX, .sun_path = "/tmp/hone-sandbox-socket"};
	int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	return fd < 0 ? errno : result_of(bind(fd, (struct sockaddr *)&a, sizeof(a)));
}
/* There is never a file to remove, which the driver does before it binds. */
static int try_unlink(void) { return unlink(readable) && errno == ENOENT ? ALLOWED : EPERM; }
static int try_datagram(void) { return result_of(socket(AF_UNIX, SOCK_DGRAM, 0)); }
static int try_thread_name(void)
{
	char path[64];
	snprintf(path, sizeof(path), "/proc/self/task/%d/comm", (int)syscall(SYS_gettid));
	int fd = open(path, O_WRONLY | O_TRUNC);
	return fd < 0 || write(fd, "name", 4) != 4 ? errno : ALLOWED;
}
static const struct probe DEVICE_PROBES[] = {
	{"use a device that is granted", try_device, WORKS},
	{"use another device", try_other_device, FAILS},
	{"listen on a local socket", try_listen, WORKS},
	{"bind a socket to a path", try_bind_path, FAILS},
	{"find nothing to remove", try_unlink, WORKS},
	{"datagram socket", try_datagram, FAILS},
	{"name a thread", try_thread_name, WORKS},
};

static void test_device_form(void **state)
{
	static const char *const device_paths[] = {"/dev/null", NULL};
	char text[256];
	int best = sandbox_level_probe(text, sizeof(text)), bad = 0;
	if (best == SANDBOX_NONE) skip();
	for (int level = SANDBOX_LSM; level <= best; level++) {
		struct sandbox_options o = options_for(level);
		o.device_paths = device_paths;
		bad += probes_run(&o, PROBES, sizeof(PROBES) / sizeof(PROBES[0]));
		bad += probes_run(&o, DEVICE_PROBES, sizeof(DEVICE_PROBES) / sizeof(DEVICE_PROBES[0]));
	}
	assert_int_equal(bad, 0);
}

static void test_lsm(void **state) { test_level(SANDBOX_LSM); }
static void test_full(void **state) { test_level(SANDBOX_FULL); }

/* At level none only the limits hold. */
static void test_none(void **state)
{
	char text[256];
	struct sandbox_options o = options_for(SANDBOX_NONE);
	assert_int_equal(run_probe(&o, try_memory, text, sizeof(text)), ENOMEM);
	assert_int_equal(run_probe(&o, try_core, text, sizeof(text)), EPERM);
	assert_int_equal(run_probe(&o, try_work, text, sizeof(text)), ALLOWED);
}

/* What the options grant is granted, and nothing more. */
static void test_grants(void **state)
{
	char text[256];
	int level = sandbox_level_probe(text, sizeof(text));
	if (level == SANDBOX_NONE) skip();
	struct sandbox_options o = options_for(level);
	o.allow_fork = 1;
	assert_int_equal(run_probe(&o, try_fork, text, sizeof(text)), ALLOWED);
	assert_int_not_equal(run_probe(&o, try_exec, text, sizeof(text)), ALLOWED);
	o = options_for(level);
	o.allow_memfd = 1;
	assert_int_equal(run_probe(&o, try_memfd, text, sizeof(text)), ALLOWED);
	o = options_for(level);
	o.scratch = scratch;
	assert_int_equal(run_probe(&o, try_scratch, text, sizeof(text)), ALLOWED);
	assert_int_not_equal(run_probe(&o, try_write, text, sizeof(text)), ALLOWED);
	assert_int_equal(run_probe(&o, try_move, text, sizeof(text)), ALLOWED);
	/* A GPU's form: its device files and the one that swallows everything. */
	o = options_for(level);
	assert_int_not_equal(run_probe(&o, try_null, text, sizeof(text)), ALLOWED);
	sandbox_allow_gpu(&o);
	assert_int_equal(run_probe(&o, try_null, text, sizeof(text)), ALLOWED);
	assert_int_not_equal(run_probe(&o, try_write, text, sizeof(text)), ALLOWED);
	static const char *const exec_paths[] = {"/bin/sh", NULL};
	o = options_for(level);
	o.exec_paths = exec_paths;
	assert_int_not_equal(
		run_probe(&o, try_exec, text, sizeof(text)), ALLOWED); /* another program than the granted one */
}

/* A path that is not there opens nothing, and the paths behind it are open all the same; one that
 * is no path at all is an error. */
static void test_paths_that_are_not_there(void **state)
{
	char text[256], too_long[5000];
	if (sandbox_level_probe(text, sizeof(text)) < SANDBOX_LSM) skip();
	const char *const paths[] = {"/nonexistent/folder", "/etc/passwd/below", readable, NULL};
	struct sandbox_options o = options_for(SANDBOX_LSM);
	o.read_paths = paths;
	assert_int_equal(run_probe(&o, try_readable, text, sizeof(text)), ALLOWED);
	memset(too_long, 'a', sizeof(too_long));
	too_long[sizeof(too_long) - 1] = 0;
	const char *const none[] = {too_long, readable, NULL};
	o.read_paths = none;
	assert_int_equal(run_probe(&o, try_readable, text, sizeof(text)), EXIT_NOT_ENTERED);
	assert_non_null(strstr(text, "Landlock rules"));
}

/* As many GPUs as the verifier takes, by the numbers that their device files have on the host: what
 * a container is given may be the last of them. */
static void test_gpu_files(void **state)
{
	struct sandbox_options o = options_for(SANDBOX_LSM);
	sandbox_allow_gpu(&o);
	for (int gpu = 0; gpu < 16; gpu++) {
		char path[32];
		int i = 0;
		snprintf(path, sizeof path, "/dev/nvidia%d", gpu);
		while (o.device_paths[i] && strcmp(o.device_paths[i], path)) i++;
		if (!o.device_paths[i]) fail_msg("%s is closed", path);
	}
}

/* In place of the C library's: as often as `interruptions` says a signal comes first. */
static int interruptions;
pid_t waitpid(pid_t pid, int *status, int options)
{
	if (interruptions <= 0) return wait4(pid, status, options, NULL);
	interruptions--;
	errno = EINTR;
	return -1;
}

/* A signal that arrives while the level is looked for changes nothing, and
 * leaves no child behind. */
static void test_interrupted_probe(void **state)
{
	char text[256], again[256];
	int level = sandbox_level_probe(text, sizeof(text));
	interruptions = 2;
	assert_int_equal(sandbox_level_probe(again, sizeof(again)), level);
	assert_string_equal(again, text);
	assert_int_equal(interruptions, 0);
	assert_int_equal(waitpid(-1, NULL, WNOHANG), -1);
	assert_int_equal(errno, ECHILD);
}

/* In place of the C library's: a process other than the one that sets it
 * has no further children. */
static pid_t only_parent;
pid_t fork(void)
{
	if (!only_parent || getpid() == only_parent) return ((pid_t(*)(void))dlsym(RTLD_NEXT, "fork"))();
	errno = EAGAIN;
	return -1;
}

/* Where the process inside cannot be made, nobody has reached the level. */
static void test_probe_without_a_child_inside(void **state)
{
	char text[256];
	only_parent = getpid();
	int level = sandbox_level_probe(text, sizeof text);
	only_parent = 0;
	assert_int_equal(level, SANDBOX_NONE);
	assert_non_null(strstr(text, "full: "));
	assert_non_null(strstr(text, "lsm: fork in a new pid namespace"));
}

/* In its namespaces a job is process 1 of nobody, and its user is not root outside. */
static int probe_full_identity(void) { return getpid() == 1 && getppid() == 0 && geteuid() != 0 ? ALLOWED : EPERM; }

static void test_full_identity(void **state)
{
	char text[256];
	if (sandbox_level_probe(text, sizeof(text)) < SANDBOX_FULL) skip();
	struct sandbox_options o = options_for(SANDBOX_FULL);
	assert_int_equal(run_probe(&o, probe_full_identity, text, sizeof(text)), ALLOWED);
}

/* A developer's tool: it may start programs and speak over its own loopback, and sees nothing of
 * the machine: no process, no shared memory, no network; nothing of what it writes there stays. */
static int probe_tool(void)
{
	struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons(9), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	struct stat shm, left;
	int fd = socket(AF_INET, SOCK_DGRAM, 0);
	if (fd < 0 || connect(fd, (struct sockaddr *)&to, sizeof(to)) || send(fd, "x", 1, 0) != 1) return 101;
	to.sin_addr.s_addr = htonl(0x08080808);
	if (connect(fd, (struct sockaddr *)&to, sizeof(to)) == 0 || errno != ENETUNREACH) return 102;
	if (stat("/dev/shm", &shm) || stat("/dev/shm/hone-test-tool", &left) == 0) return 103;
	if (open_with("/dev/shm/hone-test-inside", O_WRONLY | O_CREAT) != ALLOWED) return 104;
	if (geteuid() == 0 || kill(outside, 0) == 0 || mount("tmpfs", "/dev/shm", "tmpfs", 0, NULL) == 0) return 105;
	pid_t pid = fork();
	char *argv[] = {(char *)(uintptr_t)"/bin/true", NULL};
	if (pid == 0) _exit(execv(argv[0], argv) ? 1 : 0);
	int status = -1;
	return waitpid(pid, &status, 0) == pid && status == 0 ? ALLOWED : 106;
}

static void test_tool(void **state)
{
	static const char *const devices[] = {"/dev/null", NULL};
	char text[256];
	if (sandbox_level_probe(text, sizeof(text)) < SANDBOX_FULL) skip();
	struct sandbox_options o = options_for(SANDBOX_FULL);
	o.device_paths = devices;
	close(open("/dev/shm/hone-test-tool", O_WRONLY | O_CREAT, 0600));
	int result = run_probe_in(sandbox_enter_tool, &o, probe_tool, text, sizeof(text));
	unlink("/dev/shm/hone-test-tool");
	if (result != ALLOWED) fail_msg("%d %s", result, text);
	assert_int_equal(access("/dev/shm/hone-test-inside", F_OK), -1);
	/* Without namespaces of its own there is no such sandbox. */
	o.level = SANDBOX_LSM;
	assert_int_equal(sandbox_enter_tool(&o, text, sizeof(text)), -EPERM);
}

static void test_names(void **state)
{
	assert_string_equal(sandbox_level_name(SANDBOX_FULL), "full");
	assert_string_equal(sandbox_level_name(SANDBOX_LSM), "lsm");
	assert_string_equal(sandbox_level_name(SANDBOX_NONE), "none");
	assert_string_equal(sandbox_level_name(7), "unknown");
}

static int setup(void **state)
{
	outside = getpid();
	snprintf(scratch, sizeof(scratch), "/tmp/hone-test-XXXXXX");
	if (!mkdtemp(scratch) || chmod(scratch, 0777)) return -1;
	snprintf(readable, sizeof(readable), "%s.readable", scratch);
	int fd = open(readable, O_CREAT | O_WRONLY, 0666);
	return fd < 0 || fchmod(fd, 0666) || close(fd);
}

static int teardown(void **state)
{
	char path[96];
	snprintf(path, sizeof(path), "%s/file", scratch);
	unlink(path);
	unlink(readable);
	return rmdir(scratch);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_names),
		cmocka_unit_test(test_none),
		cmocka_unit_test(test_lsm),
		cmocka_unit_test(test_full),
		cmocka_unit_test(test_template),
		cmocka_unit_test(test_kept_filter),
		cmocka_unit_test(test_device_form),
		cmocka_unit_test(test_grants),
		cmocka_unit_test(test_gpu_files),
		cmocka_unit_test(test_paths_that_are_not_there),
		cmocka_unit_test(test_interrupted_probe),
		cmocka_unit_test(test_probe_without_a_child_inside),
		cmocka_unit_test(test_full_identity),
		cmocka_unit_test(test_tool),
	};
	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, setup, teardown);
}
