/* Each fence of the sandbox alone, so that none hides a hole in another: what Landlock closes
 * without seccomp, and that the levels offered are those for which the kernel has the parts (asked
 * of it by its own calls). */
#include "sandbox/sandbox_internal.h"
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <linux/landlock.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

#define NOT_ENTERED 200

static pid_t outside;
static char scratch[64], closed[96], readable[96], abstract[32];
static struct sockaddr_in tcp = {.sin_family = AF_INET};

static long kernel_abi(void) { return syscall(SYS_landlock_create_ruleset, NULL, 0, LANDLOCK_CREATE_RULESET_VERSION); }

static int result_of(long rc) { return rc < 0 ? errno : 0; }

static int open_as(const char *folder, const char *name, int flags)
{
	char path[160];
	snprintf(path, sizeof path, "%s/%s", folder, name);
	return result_of(open(path, flags, 0600));
}

static int abstract_address(struct sockaddr_un *a)
{
	*a = (struct sockaddr_un){.sun_family = AF_UNIX};
	return (int)offsetof(struct sockaddr_un, sun_path) + 1 + snprintf(a->sun_path + 1, 64, "%s", abstract);
}

/* ---- what is tried; each returns 0 or an errno ---- */

static int open_readable(void) { return result_of(open(readable, O_RDONLY)); }
static int write_readable(void) { return result_of(open(readable, O_WRONLY)); }
static int truncate_readable(void) { return result_of(truncate(readable, 0)); }
static int open_closed(void) { return result_of(open(closed, O_RDONLY)); }
static int truncate_closed(void) { return result_of(truncate(closed, 0)); }
static int list_root(void) { return result_of(open("/", O_RDONLY | O_DIRECTORY)); }
static int make_in_scratch(void) { return open_as(scratch, "new", O_WRONLY | O_CREAT); }
static int truncate_in_scratch(void) { return open_as(scratch, "new", O_WRONLY | O_CREAT | O_TRUNC); }
static int folder_in_scratch(void)
{
	char path[96];
	snprintf(path, sizeof path, "%s/folder", scratch);
	return mkdir(path, 0700) ? errno : result_of(rmdir(path));
}
static int fifo_in_scratch(void)
{
	char path[96];
	snprintf(path, sizeof path, "%s/fifo", scratch);
	return result_of(mkfifo(path, 0600));
}
static int link_in_scratch(void)
{
	char path[96];
	snprintf(path, sizeof path, "%s/link", scratch);
	return result_of(symlink(readable, path));
}
/* A command that no device knows: ENOTTY is the device's answer, EACCES the fence's. */
static int command_device(const char *path, int flags)
{
	int fd = open(path, flags);
	return fd < 0 ? 1000 + errno : result_of(ioctl(fd, 0x5401, NULL));
}
static int command_granted(void) { return command_device("/dev/null", O_RDWR); }
static int command_readable(void) { return command_device("/dev/zero", O_RDONLY); }
static int tcp_bind(void)
{
	struct sockaddr_in any = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	return result_of(bind(socket(AF_INET, SOCK_STREAM, 0), (struct sockaddr *)&any, sizeof any));
}
static int tcp_connect(void)
{
	return result_of(connect(socket(AF_INET, SOCK_STREAM, 0), (struct sockaddr *)&tcp, sizeof tcp));
}
static int abstract_connect(void)
{
	struct sockaddr_un a;
	socklen_t len = (socklen_t)abstract_address(&a);
	return result_of(connect(socket(AF_UNIX, SOCK_STREAM, 0), (struct sockaddr *)&a, len));
}
static int signal_outside(void) { return result_of(kill(outside, 0)); }
static int run_granted(void)
{
	char *argv[] = {(char *)(uintptr_t)"/bin/true", NULL};
	return result_of(execv(argv[0], argv));
}

static const char *const READ_PATHS[] = {readable, "/dev/zero", NULL}, *const DEVICES[] = {"/dev/null", NULL},
						 *const PROGRAMS[] = {"/usr", "/lib", "/lib64", "/bin", NULL};
static const struct sandbox_options PLAIN = {.level = SANDBOX_LSM, .read_paths = READ_PATHS},
									WORKER = {.level = SANDBOX_LSM,
										.read_paths = READ_PATHS,
										.exec_paths = PROGRAMS,
										.scratch = scratch,
										.device_paths = DEVICES};

/* What the kernel of the given ABI or a later one answers; an older one closes less. */
static const struct attempt {
	const char *name;
	const struct sandbox_options *options;
	int (*run)(void);
	int expected, abi;
} ATTEMPTS[] = {
	{"read a granted file", &PLAIN, open_readable, 0, 1},
	{"write a granted file", &PLAIN, write_readable, EACCES, 1},
	{"truncate a granted file", &PLAIN, truncate_readable, EACCES, 3},
	{"read another file", &PLAIN, open_closed, EACCES, 1},
	{"truncate another file", &PLAIN, truncate_closed, EACCES, 3},
	{"list the root", &PLAIN, list_root, EACCES, 1},
	{"make a file where nothing is granted", &PLAIN, make_in_scratch, EACCES, 1},
	{"command a device that may be read", &PLAIN, command_readable, EACCES, 5},
	{"bind a TCP socket", &PLAIN, tcp_bind, EACCES, 4},
	{"connect a TCP socket", &PLAIN, tcp_connect, EACCES, 4},
	{"connect to an abstract socket", &PLAIN, abstract_connect, EPERM, 6},
	{"signal a process", &PLAIN, signal_outside, EPERM, 6},
	{"run a program", &PLAIN, run_granted, EACCES, 1},
	{"run a granted program", &WORKER, run_granted, 0, 1},
	{"make a file in scratch", &WORKER, make_in_scratch, 0, 1},
	{"truncate a file in scratch", &WORKER, truncate_in_scratch, 0, 1},
	{"make and remove a folder in scratch", &WORKER, folder_in_scratch, 0, 1},
	{"make a FIFO in scratch", &WORKER, fifo_in_scratch, EACCES, 1},
	{"make a symbolic link in scratch", &WORKER, link_in_scratch, EACCES, 1},
	{"command a granted device", &WORKER, command_granted, ENOTTY, 1},
	{"read a file beside scratch", &WORKER, open_closed, EACCES, 1},
};

/* Runs one attempt behind Landlock alone, as nobody where the test is root:
 * root passes file modes. */
static int behind_landlock(const struct attempt *a)
{
	int status;
	pid_t pid = fork();
	if (pid == 0) {
		char why[256];
		if (sandbox_drop_root(why, sizeof why) || prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)) _exit(NOT_ENTERED);
		if (a->options && sandbox_landlock(a->options, why, sizeof why)) _exit(NOT_ENTERED);
		int got = a->run();
		_exit(got > 1000 ? NOT_ENTERED + 1 : got);
	}
	while (waitpid(pid, &status, 0) < 0) continue;
	return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static void test_landlock_alone(void **state)
{
	int bad = 0;
	if (kernel_abi() < 1) skip();
	assert_int_equal(sandbox_landlock_abi(), kernel_abi());
	for (size_t i = 0; i < sizeof ATTEMPTS / sizeof *ATTEMPTS; i++) {
		const struct attempt *a = &ATTEMPTS[i];
		if (kernel_abi() < a->abi) continue;
		int got = behind_landlock(a);
		if (got != a->expected)
			print_message("# %s: expected %s, found %d (%s)\n", a->name, strerror(a->expected), got, strerror(got));
		bad += got != a->expected;
	}
	assert_int_equal(bad, 0);
}

/* What each version handles, of which this kernel has one: numbers by the kernel's page on
 * Landlock, which grow and never go. */
static void test_landlock_versions(void **state)
{
	static const struct {
		int abi;
		uint64_t fs, net, scoped;
		size_t size;
	} versions[] = {{1, 0x1fff, 0, 0, 8}, {2, 0x3fff, 0, 0, 8}, {3, 0x7fff, 0, 0, 8}, {4, 0x7fff, 3, 0, 16},
		{5, 0xffff, 3, 0, 16}, {6, 0xffff, 3, 3, 24}, {7, 0xffff, 3, 3, 24}};
	for (size_t i = 0; i < sizeof versions / sizeof *versions; i++) {
		struct landlock_handled h;
		assert_int_equal(sandbox_landlock_handled(versions[i].abi, &h), versions[i].size);
		assert_int_equal(h.fs, versions[i].fs);
		assert_int_equal(h.net, versions[i].net);
		assert_int_equal(h.scoped, versions[i].scoped);
	}
}

/* Without the fence all of them are possible: it is the fence that the table above sees. */
static void test_nothing_else_stops_them(void **state)
{
	int (*const open_to_all[])(void) = {write_readable, truncate_readable, open_closed, truncate_closed, list_root,
		tcp_bind, tcp_connect, abstract_connect, run_granted, make_in_scratch};
	for (size_t i = 0; i < sizeof open_to_all / sizeof *open_to_all; i++)
		assert_int_equal(behind_landlock(&(struct attempt){.run = open_to_all[i]}), 0);
}

static int descriptors(void)
{
	int n = 0;
	for (int fd = 0; fd < 256; fd++) n += fcntl(fd, F_GETFD) >= 0;
	return n;
}

/* Runs check with ctx in a child of its own; true when it says so there. */
static bool in_child(bool (*check)(const void *), const void *ctx)
{
	int status;
	pid_t pid = fork();
	if (pid == 0) _exit(check(ctx) ? 0 : 1);
	while (waitpid(pid, &status, 0) < 0) continue;
	return status == 0;
}

/* The rules' own descriptor is gone when they hold. */
static bool keeps_no_descriptor(const void *ctx)
{
	char why[256];
	int before = descriptors();
	return !prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) && !sandbox_landlock(ctx, why, sizeof why) &&
		descriptors() == before;
}

/* All fences together keep none either, nor does the look for other threads. */
static bool entered_keeps_no_descriptor(const void *ctx)
{
	char why[256];
	int before = descriptors();
	return !sandbox_enter(ctx, why, sizeof why) && descriptors() == before;
}

/* Where the standard input is closed the rules get its number. */
static bool holds_as_descriptor_zero(const void *ctx)
{
	char why[256];
	const char *const paths[] = {readable, NULL};
	close(0);
	return !prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) &&
		!sandbox_landlock(&(struct sandbox_options){.level = SANDBOX_LSM, .read_paths = paths}, why, sizeof why) &&
		open(readable, O_RDONLY) == 0 && close(0) == 0 && open_closed() == EACCES;
}

static void test_landlock_keeps_no_descriptor(void **state)
{
	if (kernel_abi() < 1) skip();
	assert_true(in_child(entered_keeps_no_descriptor, &(struct sandbox_options){.level = SANDBOX_LSM}));
	assert_true(in_child(holds_as_descriptor_zero, NULL));
	assert_true(in_child(keeps_no_descriptor, &PLAIN));
	assert_true(in_child(keeps_no_descriptor, &WORKER));
}

/* A path that cannot even be looked up is no path that does not exist: the fence is
 * not entered without it. */
static bool says_that_a_path_is_too_long(const void *ctx)
{
	static char path[8192];
	char why[256];
	memset(path, 'a', sizeof path - 1);
	path[0] = '/';
	const char *const paths[] = {path, NULL};
	return sandbox_landlock(&(struct sandbox_options){.level = SANDBOX_LSM, .read_paths = paths}, why, sizeof why) != 0;
}

static void test_landlock_fails_with_its_paths(void **state)
{
	if (kernel_abi() < 1) skip();
	assert_true(in_child(says_that_a_path_is_too_long, NULL));
}

/* ---- seccomp alone ---- */

static const struct sandbox_options ONE_THREAD = {.level = SANDBOX_LSM},
									THREADS = {.level = SANDBOX_LSM, .allow_threads = true},
									FORKS = {.level = SANDBOX_LSM, .allow_fork = true};

static bool enter_seccomp(const struct sandbox_options *o)
{
	char why[256];
	return !prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) && !sandbox_seccomp(o, why, sizeof why);
}

static int clone_with(unsigned long flags)
{
	long pid = syscall(SYS_clone, flags, NULL, NULL, NULL, 0);
	if (pid == 0) _exit(0);
	return result_of(pid);
}

/* Without a grant there is no child, no session and no group; a grant of
 * threads is none of these. */
static bool makes_no_process(const void *options)
{
	return enter_seccomp(options) && clone_with(SIGCHLD) == EPERM && result_of(setsid()) == EPERM &&
		result_of(setpgid(0, 0)) == EPERM &&
		clone_with(CLONE_VM | CLONE_SIGHAND | CLONE_THREAD | CLONE_NEWUSER) == EPERM;
}

/* A grant of processes is one of sessions and groups too, and none of namespaces. */
static bool makes_processes_alone(const void *options)
{
	return enter_seccomp(options) && clone_with(SIGCHLD) == 0 && result_of(setpgid(0, 0)) == 0 &&
		clone_with(SIGCHLD | CLONE_NEWUSER) == EPERM && clone_with(CLONE_VM | CLONE_SIGHAND | CLONE_THREAD) == EPERM;
}

static void test_seccomp_alone(void **state)
{
	assert_true(in_child(makes_no_process, &ONE_THREAD));
	assert_true(in_child(makes_no_process, &THREADS));
	assert_true(in_child(makes_processes_alone, &FORKS));
}

/* A GPU's driver may have a local socket and set what every socket has, and
 * no protocol's options. */
static bool sets_what_all_sockets_have(const void *ctx)
{
	const char *const devices[] = {"/dev/null", NULL};
	int one = 1, fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	return fd >= 0 && enter_seccomp(&(struct sandbox_options){.level = SANDBOX_LSM, .device_paths = devices}) &&
		setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &one, sizeof one) == 0 &&
		result_of(setsockopt(fd, IPPROTO_TCP, 1 /* TCP_NODELAY */, &one, sizeof one)) == EPERM;
}

static void test_driver_sockets(void **state) { assert_true(in_child(sets_what_all_sockets_have, NULL)); }

/* ---- the filter that is made before the child is there ---- */

/* What a grant is seen by: a call that fails by its arguments where the filter lets it through. */
static int make_nowhere(void) { return result_of(mkdir("", 0700)); }
static int make_memfd(void) { return result_of(syscall(SYS_memfd_create, "m", 0)); }
static int fork_wrongly(void) { return clone_with(CLONE_SIGHAND); }
static int run_nothing(void) { return result_of(syscall(SYS_execve, "", NULL, NULL)); }
static int connect_nowhere(void) { return result_of(connect(-1, NULL, 0)); }
static int thread_wrongly(void) { return clone_with(CLONE_THREAD); }

static const char *const nowhere[] = {"/nowhere", NULL};
static const struct grant {
	struct sandbox_options options;
	int (*run)(void);
	int granted; /* errno */
} grants[] = {
	{{.level = SANDBOX_LSM, .scratch = scratch}, make_nowhere, ENOENT},
	{{.level = SANDBOX_LSM, .allow_memfd = 1}, make_memfd, 0},
	{{.level = SANDBOX_LSM, .allow_fork = 1}, fork_wrongly, EINVAL},
	{{.level = SANDBOX_LSM, .exec_paths = nowhere}, run_nothing, ENOENT},
	{{.level = SANDBOX_LSM, .device_paths = nowhere}, connect_nowhere, ENOENT},
	{{.level = SANDBOX_LSM, .allow_threads = 1}, thread_wrongly, EINVAL},
};

/* One made of the grant serves the grant, in this process; it keeps no descriptor, and a second
 * one is not made. */
static bool serves_its_grant(const void *ctx)
{
	const struct grant *g = ctx;
	int before = descriptors();
	sandbox_seccomp_prepare(&g->options, getpid());
	sandbox_seccomp_prepare(&g->options, getpid());
	return descriptors() == before && enter_seccomp(&g->options) && g->run() == g->granted;
}

/* One that was made without the grant, or for another process, does not. */
static bool serves_no_other(const void *ctx)
{
	const struct grant *g = ctx;
	sandbox_seccomp_prepare(&ONE_THREAD, getpid());
	return enter_seccomp(&g->options) && g->run() == g->granted;
}

static bool grants_nothing_else(const void *ctx)
{
	const struct grant *g = ctx;
	sandbox_seccomp_prepare(&g->options, getpid());
	return enter_seccomp(&ONE_THREAD) && g->run() == EPERM;
}

/* The own number is among the filter's rules: a signal to oneself. */
static bool may_signal_itself(const void *ctx)
{
	sandbox_seccomp_prepare(&ONE_THREAD, 1);
	return enter_seccomp(&ONE_THREAD) && kill(getpid(), 0) == 0 && result_of(kill(1, 0)) == EPERM;
}

static void test_prepared_filters(void **state)
{
	for (size_t i = 0; i < sizeof grants / sizeof *grants; i++) {
		if (!in_child(serves_its_grant, &grants[i])) fail_msg("grant %zu with its own filter", i);
		if (!in_child(serves_no_other, &grants[i])) fail_msg("grant %zu with another filter", i);
		if (!in_child(grants_nothing_else, &grants[i])) fail_msg("no grant, with the filter of %zu", i);
	}
	assert_true(in_child(may_signal_itself, NULL));
}

/* Of what root had nothing is left: every set of capabilities is empty, the ambient one too. */
static bool has_no_capability(const void *ctx)
{
	static const char *const sets[] = {"CapInh:", "CapPrm:", "CapEff:", "CapBnd:", "CapAmb:"};
	char why[256], text[8192];
	struct __user_cap_header_struct head = {.version = _LINUX_CAPABILITY_VERSION_3};
	struct __user_cap_data_struct data[2];
	/* One capability is made ambient first, which an exec would bring back: only
	 * who has one can lose it. */
	if (syscall(SYS_capget, &head, data)) return false;
	data[0].inheritable |= 1u << CAP_NET_RAW & data[0].permitted;
	if (syscall(SYS_capset, &head, data)) return false;
	prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_RAISE, CAP_NET_RAW, 0, 0);
	if (sandbox_drop_root(why, sizeof why)) return false;
	int fd = open("/proc/self/status", O_RDONLY);
	ssize_t n = read(fd, text, sizeof text - 1);
	text[n > 0 ? n : 0] = 0;
	for (size_t i = 0; i < sizeof sets / sizeof *sets; i++) {
		const char *at = strstr(text, sets[i]);
		if (!at || strtoull(at + 7, NULL, 16) != 0) return false;
	}
	return getuid() == 65534 && geteuid() == 65534 && getgid() == 65534 && getegid() == 65534 &&
		getgroups(0, NULL) == 0;
}

static void test_root_is_gone(void **state)
{
	if (geteuid() != 0) skip();
	assert_true(in_child(has_no_capability, NULL));
}

/* ---- limits ---- */

struct limits {
	struct sandbox_options options;
	rlim_t cpu, file, processes; /* expected; RLIM_INFINITY: as it was */
};

static bool is_limit(int resource, rlim_t expected, const struct rlimit *before)
{
	struct rlimit now;
	if (getrlimit(resource, &now)) return false;
	if (expected == RLIM_INFINITY) return now.rlim_cur == before->rlim_cur && now.rlim_max == before->rlim_max;
	return now.rlim_cur == expected && now.rlim_max == expected;
}

static bool has_limits(const void *ctx)
{
	const struct limits *l = ctx;
	struct rlimit cpu, file, processes, space, data, now;
	char why[256];
	getrlimit(RLIMIT_CPU, &cpu), getrlimit(RLIMIT_FSIZE, &file), getrlimit(RLIMIT_NPROC, &processes);
	getrlimit(RLIMIT_AS, &space), getrlimit(RLIMIT_DATA, &data);
	if (sandbox_enter(&l->options, why, sizeof why)) return false;
	bool ok = is_limit(RLIMIT_CPU, l->cpu, &cpu) && is_limit(RLIMIT_FSIZE, l->file, &file) &&
		is_limit(RLIMIT_NPROC, l->processes, &processes) && is_limit(RLIMIT_CORE, 0, NULL) &&
		is_limit(RLIMIT_NOFILE, 256, NULL) && is_limit(RLIMIT_MSGQUEUE, 0, NULL);
	/* Memory: beyond what the process has, which is more than nothing and less than
	 * half a gigabyte here. */
	rlim_t bytes = (rlim_t)l->options.memory_bytes;
	if (!bytes) return ok && is_limit(RLIMIT_AS, RLIM_INFINITY, &space) && is_limit(RLIMIT_DATA, RLIM_INFINITY, &data);
	ok = ok && !getrlimit(RLIMIT_AS, &now) && now.rlim_max > bytes && now.rlim_max < bytes + (512u << 20);
	return ok && !getrlimit(RLIMIT_DATA, &now) && now.rlim_max > bytes && now.rlim_max < bytes + (512u << 20);
}

static void test_limits(void **state)
{
	static const struct limits rows[] = {
		{{.level = SANDBOX_NONE}, RLIM_INFINITY, 0, 0},
		{{.level = SANDBOX_NONE, .cpu_s = 7, .memory_bytes = 1 << 28, .allow_threads = 1}, 7, 0, RLIM_INFINITY},
		{{.level = SANDBOX_NONE, .scratch = scratch, .allow_fork = 1}, RLIM_INFINITY, RLIM_INFINITY, RLIM_INFINITY},
		{{.level = SANDBOX_NONE, .allow_memfd = 1, .memory_bytes = 1 << 28}, RLIM_INFINITY, 1 << 28, 0},
		{{.level = SANDBOX_NONE, .allow_memfd = 1}, RLIM_INFINITY, RLIM_INFINITY, 0},
	};
	for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
		if (!in_child(has_limits, &rows[i])) fail_msg("limits of row %zu", i);
}

/* ---- levels ---- */

static int put(const char *path, const char *text)
{
	int fd = open(path, O_WRONLY);
	int rc = fd < 0 || write(fd, text, strlen(text)) != (ssize_t)strlen(text);
	if (fd >= 0) close(fd);
	return rc;
}

/* Whether nobody may make the five namespaces and settle in them here: by the
 * kernel's calls alone. */
static bool has_namespaces(void)
{
	int status;
	pid_t pid = fork();
	if (pid == 0) {
		char map[64];
		if (geteuid() == 0 && (setresgid(65534, 65534, 65534) || setresuid(65534, 65534, 65534))) _exit(1);
		unsigned uid = geteuid(), gid = getegid();
		if (unshare(CLONE_NEWUSER | CLONE_NEWPID | CLONE_NEWNET | CLONE_NEWNS | CLONE_NEWIPC)) _exit(1);
		prctl(PR_SET_DUMPABLE, 1, 0, 0, 0);
		int rc = put("/proc/self/setgroups", "deny");
		snprintf(map, sizeof map, "%u %u 1\n", uid, uid);
		rc = rc || put("/proc/self/uid_map", map);
		snprintf(map, sizeof map, "%u %u 1\n", gid, gid);
		_exit(rc || put("/proc/self/gid_map", map) || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) ? 1 : 0);
	}
	while (waitpid(pid, &status, 0) < 0) continue;
	return status == 0;
}

/* The tests of the levels are skipped where a level is not offered; so it
 * must be where it can be. */
static void test_levels_that_can_be_are(void **state)
{
	char text[256];
	int level = sandbox_level_probe(text, sizeof text);
	bool has_filter = prctl(PR_GET_SECCOMP, 0, 0, 0, 0) >= 0, has_landlock = kernel_abi() >= 1;
	int expected = !has_filter || !has_landlock ? SANDBOX_NONE : has_namespaces() ? SANDBOX_FULL : SANDBOX_LSM;
	assert_int_equal(level, expected);
	assert_int_equal(*text == 0, level == SANDBOX_FULL);
}

static int listener;

static int setup(void **state)
{
	struct sockaddr_un a;
	socklen_t len = sizeof tcp;
	outside = getpid();
	snprintf(abstract, sizeof abstract, "hone-fences-%d", (int)outside);
	snprintf(scratch, sizeof scratch, "/tmp/hone-fences-XXXXXX");
	if (!mkdtemp(scratch) || chmod(scratch, 0777)) return -1;
	snprintf(readable, sizeof readable, "%s.readable", scratch);
	snprintf(closed, sizeof closed, "%s.closed", scratch);
	int r = open(readable, O_CREAT | O_WRONLY, 0666), c = open(closed, O_CREAT | O_WRONLY, 0666);
	if (r < 0 || c < 0 || fchmod(r, 0666) || fchmod(c, 0666)) return -1;
	listener = socket(AF_INET, SOCK_STREAM, 0);
	tcp.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	if (bind(listener, (struct sockaddr *)&tcp, len) || listen(listener, 16)) return -1;
	if (getsockname(listener, (struct sockaddr *)&tcp, &len)) return -1;
	int local = socket(AF_UNIX, SOCK_STREAM, 0);
	return bind(local, (struct sockaddr *)&a, (socklen_t)abstract_address(&a)) || listen(local, 16);
}

static int teardown(void **state)
{
	char path[96];
	snprintf(path, sizeof path, "%s/new", scratch);
	unlink(path);
	unlink(readable);
	unlink(closed);
	return rmdir(scratch);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_landlock_alone),
		cmocka_unit_test(test_landlock_versions),
		cmocka_unit_test(test_nothing_else_stops_them),
		cmocka_unit_test(test_landlock_keeps_no_descriptor),
		cmocka_unit_test(test_landlock_fails_with_its_paths),
		cmocka_unit_test(test_seccomp_alone),
		cmocka_unit_test(test_prepared_filters),
		cmocka_unit_test(test_driver_sockets),
		cmocka_unit_test(test_root_is_gone),
		cmocka_unit_test(test_limits),
		cmocka_unit_test(test_levels_that_can_be_are),
	};
	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, setup, teardown);
}
