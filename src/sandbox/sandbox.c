/* sandbox: the order of the steps, resource limits, namespaces, and which level works here
 * (sandbox.h).
 *
 * Each fence stands alone: Landlock closes the files, seccomp the system calls, namespaces hide the
 * rest of the machine, limits bound what is left. */
#include "sandbox/sandbox_internal.h"
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <linux/capability.h>
#include <net/if.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define NOBODY 65534
#define OPEN_FILES_MAX 256

const char *sandbox_level_name(int level)
{
	static const char *const names[] = {"none", "lsm", "full"};
	return level >= SANDBOX_NONE && level <= SANDBOX_FULL ? names[level] : "unknown";
}

int sandbox_fail(char *text, size_t len, int err, const char *what)
{
	snprintf(text, len, "%s: %s", what, strerror(err));
	return -err;
}

/* ---- users and namespaces ---- */

/* Needs CAP_SETPCAP. */
static void drop_bounding_set(void)
{
	for (int cap = 0; cap < 64; cap++) prctl(PR_CAPBSET_DROP, cap, 0, 0, 0);
}

static int drop_capabilities(void)
{
	struct __user_cap_header_struct head = {.version = _LINUX_CAPABILITY_VERSION_3};
	struct __user_cap_data_struct none[2] = {{0}};
	drop_bounding_set();
	/* The kernel takes from the ambient set what is no longer permitted: all of it. */
	return syscall(SYS_capset, &head, none) ? -errno : 0;
}

int sandbox_drop_root(char *text, size_t len)
{
	if (geteuid() != 0 && getuid() != 0) return 0;
	if (setgroups(0, NULL)) return sandbox_fail(text, len, errno, "setgroups");
	if (setresgid(NOBODY, NOBODY, NOBODY)) return sandbox_fail(text, len, errno, "setresgid");
	/* First the bounding set: who is root no more cannot narrow it. */
	drop_bounding_set();
	if (setresuid(NOBODY, NOBODY, NOBODY)) return sandbox_fail(text, len, errno, "setresuid");
	int rc = drop_capabilities();
	return rc ? sandbox_fail(text, len, -rc, "capset") : 0;
}

static int write_file(const char *path, const char *content)
{
	int fd = open(path, O_WRONLY | O_CLOEXEC);
	if (fd < 0) return -errno;
	size_t n = strlen(content);
	int rc = write(fd, content, n) == (ssize_t)n ? 0 : errno ? -errno : -EIO;
	close(fd);
	return rc;
}

int sandbox_map_user(unsigned uid, unsigned gid, char *text, size_t len)
{
	char uid_map[64], gid_map[64];
	snprintf(uid_map, sizeof(uid_map), "%u %u 1\n", uid, uid);
	snprintf(gid_map, sizeof(gid_map), "%u %u 1\n", gid, gid);
	prctl(PR_SET_DUMPABLE, 1, 0, 0, 0); /* a process that dropped root may not write its own maps otherwise */
	int rc = write_file("/proc/self/setgroups", "deny");
	if (!rc) rc = write_file("/proc/self/uid_map", uid_map);
	if (!rc) rc = write_file("/proc/self/gid_map", gid_map);
	return rc ? sandbox_fail(text, len, -rc, "uid and gid maps") : 0;
}

int sandbox_settle(unsigned uid, unsigned gid, char *text, size_t len)
{
	int rc = sandbox_map_user(uid, gid, text, len);
	if (rc) return rc;
	if (mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL)) return sandbox_fail(text, len, errno, "private mounts");
	return 0;
}

int sandbox_unshare(const struct sandbox_options *o, char *text, size_t len)
{
	if (o->level != SANDBOX_FULL) return 0;
	int rc = sandbox_drop_root(text, len);
	if (rc) return rc;
	unsigned uid = geteuid(), gid = getegid();
	if (unshare(NAMESPACES)) return sandbox_fail(text, len, errno, "unshare(user, pid, net, mount, ipc)");
	return sandbox_settle(uid, gid, text, len);
}

void sandbox_allow_gpu(struct sandbox_options *o)
{
	static const char *const read_paths[] = {"/proc", "/sys", "/dev", "/lib", "/lib64", "/usr", "/etc", NULL};
	static const char *const device_paths[] = {"/dev/nvidiactl", "/dev/nvidia-uvm", "/dev/nvidia-uvm-tools",
		"/dev/nvidia0", "/dev/nvidia1", "/dev/nvidia2", "/dev/nvidia3", "/dev/nvidia4", "/dev/nvidia5", "/dev/nvidia6",
		"/dev/nvidia7", "/dev/nvidia8", "/dev/nvidia9", "/dev/nvidia10", "/dev/nvidia11", "/dev/nvidia12",
		"/dev/nvidia13", "/dev/nvidia14", "/dev/nvidia15", "/dev/nvidia-caps", "/dev/null", NULL};
	o->read_paths = read_paths;
	o->device_paths = device_paths;
	o->memory_bytes = 0;
	o->allow_threads = 1;
	o->allow_memfd = 1;
}

/* ---- limits ---- */

static int limit_set(int resource, rlim_t value)
{
	struct rlimit now, want = {value, value};
	if (getrlimit(resource, &now)) return -errno;
	if (now.rlim_max < value) want.rlim_cur = want.rlim_max = now.rlim_max; /* never up */
	return setrlimit(resource, &want) ? -errno : 0;
}

/* Pages of address space and of data that the process has now. */
static int memory_now(rlim_t *space, rlim_t *data)
{
	char line[256];
	unsigned long long v[6] = {0};
	int fd = open("/proc/self/statm", O_RDONLY | O_CLOEXEC);
	if (fd < 0) return -errno;
	ssize_t n = read(fd, line, sizeof(line) - 1);
	close(fd);
	if (n <= 0) return -EIO;
	line[n] = 0;
	if (sscanf(line, "%llu %llu %llu %llu %llu %llu", &v[0], &v[1], &v[2], &v[3], &v[4], &v[5]) != 6) return -EIO;
	rlim_t page = (rlim_t)sysconf(_SC_PAGESIZE);
	*space = (rlim_t)v[0] * page;
	*data = (rlim_t)v[5] * page;
	return 0;
}

static int set_limits(const struct sandbox_options *o)
{
	rlim_t space, data, bytes = (rlim_t)o->memory_bytes;
	int rc = 0;
	if (o->memory_bytes > 0) {
		rc = memory_now(&space, &data);
		if (!rc) rc = limit_set(RLIMIT_DATA, data + bytes);
		if (!rc) rc = limit_set(RLIMIT_AS, space + bytes); /* shared mappings count here only */
	}
	if (!rc && o->cpu_s > 0) rc = limit_set(RLIMIT_CPU, (rlim_t)o->cpu_s);
	if (!rc) rc = limit_set(RLIMIT_CORE, 0);
	if (!rc) rc = limit_set(RLIMIT_NOFILE, OPEN_FILES_MAX);
	if (!rc && !o->scratch)
		rc = limit_set(RLIMIT_FSIZE, o->allow_memfd ? o->memory_bytes > 0 ? bytes : RLIM_INFINITY : 0);
	if (!rc && !o->allow_threads && !o->allow_fork) rc = limit_set(RLIMIT_NPROC, 0);
	if (!rc) rc = limit_set(RLIMIT_MSGQUEUE, 0);
	return rc;
}

/* Landlock and seccomp bind the thread that asks, and its children: another thread would stay free.
 */
static int count_threads(void)
{
	DIR *d = opendir("/proc/self/task");
	if (!d) return -errno;
	int count = 0;
	for (struct dirent *e; (e = readdir(d));) count += e->d_name[0] != '.';
	closedir(d);
	return count;
}

/* A GPU's driver names its threads through /proc/self, which must be this process's own: mounted
 * anew in a pid namespace of its own, and writable for who runs it. */
static int own_proc(const struct sandbox_options *o, char *text, size_t len)
{
	if (!o->device_paths || o->level != SANDBOX_FULL) return 0;
	if (mount("proc", "/proc", "proc", MS_NOSUID | MS_NODEV | MS_NOEXEC, NULL))
		return sandbox_fail(text, len, errno, "mounting /proc for a GPU's driver");
	return 0;
}

int sandbox_enter(const struct sandbox_options *o, char *text, size_t len)
{
	int threads = count_threads();
	if (threads != 1 && o->level != SANDBOX_NONE)
		return sandbox_fail(
			text, len, threads < 0 ? -threads : EBUSY, "sandbox_enter in a process with several threads");
	int rc = set_limits(o);
	if (rc) return sandbox_fail(text, len, -rc, "resource limits");
	if (o->level == SANDBOX_NONE) return 0;
	rc = own_proc(o, text, len);
	if (!rc) rc = sandbox_drop_root(text, len);
	if (rc) return rc;
	rc = drop_capabilities();
	if (rc) return sandbox_fail(text, len, -rc, "capset");
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)) return sandbox_fail(text, len, errno, "no_new_privs");
	if (prctl(PR_SET_DUMPABLE, o->device_paths ? 1 : 0, 0, 0, 0)) return sandbox_fail(text, len, errno, "non-dumpable");
	rc = sandbox_landlock(o, text, len);
	return rc ? rc : sandbox_seccomp(o, text, len);
}

/* Up inside a network namespace of its own, where nobody else is. */
static int loopback_up(char *text, size_t len)
{
	struct ifreq r = {.ifr_name = "lo"};
	int s = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0), rc = s < 0 ? -errno : 0;
	if (!rc && ioctl(s, SIOCGIFFLAGS, &r)) rc = -errno;
	r.ifr_flags |= IFF_UP;
	if (!rc && ioctl(s, SIOCSIFFLAGS, &r)) rc = -errno;
	if (s >= 0) close(s);
	return rc ? sandbox_fail(text, len, -rc, "the loopback of a network namespace") : 0;
}

int sandbox_enter_tool(const struct sandbox_options *o, char *text, size_t len)
{
	if (o->level != SANDBOX_FULL) return sandbox_fail(text, len, EPERM, "a tool needs sandbox level full");
	int rc = own_proc(o, text, len);
	if (!rc) rc = loopback_up(text, len);
	/* What a tool writes goes with the namespace. */
	if (!rc && mount("tmpfs", "/dev/shm", "tmpfs", MS_NOSUID | MS_NODEV, "size=1g"))
		rc = sandbox_fail(text, len, errno, "a /dev/shm of its own");
	if (rc) return rc;
	rc = limit_set(RLIMIT_CORE, 0);
	if (!rc) rc = drop_capabilities();
	if (rc) return sandbox_fail(text, len, -rc, "capset");
	return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) ? sandbox_fail(text, len, errno, "no_new_privs") : 0;
}

/* ---- probe ---- */

/* Whether a process can reach `level`: tried in a child of a child, whose text comes back through a
 * pipe. */
static int try_level(int level, char *text, size_t len)
{
	static const char *const none[] = {NULL};
	struct sandbox_options o = {.level = level, .read_paths = none};
	int fds[2], status = 0;
	if (pipe2(fds, O_CLOEXEC)) return sandbox_fail(text, len, errno, "pipe2");
	/* The child may spoil its own process; what it cannot reach it writes to the pipe. */
	pid_t pid = fork();
	if (pid < 0) {
		close(fds[0]);
		close(fds[1]);
		return sandbox_fail(text, len, errno, "fork");
	}
	if (pid == 0) {
		char why[256] = "";
		int rc = sandbox_unshare(&o, why, sizeof(why));
		/* A new pid namespace begins with the next child: only that one is inside. */
		pid_t inner = rc ? -1 : fork();
		if (inner == 0) {
			rc = sandbox_enter(&o, why, sizeof(why));
			_exit(write(fds[1], why, strlen(why)) < 0 || rc ? 1 : 0);
		}
		if (inner < 0 && !rc) rc = sandbox_fail(why, sizeof(why), errno, "fork in a new pid namespace");
		if (inner < 0) _exit(write(fds[1], why, strlen(why)) < 0 || rc ? 1 : 0);
		while (waitpid(inner, &status, 0) < 0 && errno == EINTR) continue;
		_exit(WIFEXITED(status) && WEXITSTATUS(status) == 0 ? 0 : 1);
	}
	close(fds[1]);
	ssize_t n = read(fds[0], text, len - 1);
	text[n > 0 ? n : 0] = 0;
	close(fds[0]);
	while (waitpid(pid, &status, 0) < 0 && errno == EINTR) continue;
	return WIFEXITED(status) && WEXITSTATUS(status) == 0 ? 0 : -1;
}

int sandbox_level_probe(char *text, size_t len)
{
	*text = 0;
	for (int level = SANDBOX_FULL; level > SANDBOX_NONE; level--) {
		char why[200] = "";
		if (try_level(level, why, sizeof(why)) == 0) return level;
		size_t used = strlen(text);
		snprintf(text + used, len - used, "%s%s: %s", used ? "; " : "", sandbox_level_name(level),
			*why ? why : "the process ended");
	}
	return SANDBOX_NONE;
}
