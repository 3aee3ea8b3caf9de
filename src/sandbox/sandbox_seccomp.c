/* seccomp: which system calls exist for a job. An allow list: what a process needs that computes
 * with memory and descriptors it already has. Everything else answers EPERM (clone3 ENOSYS, so that
 * the C library falls back to clone, whose flags a filter can see). Nothing here opens a socket,
 * starts a program, touches another process, another user's rights or the kernel's settings. */
#include "sandbox/sandbox_internal.h"
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <seccomp.h>
#include <stdio.h>
#include <stdlib.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <linux/sockios.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#define COUNT(a) (sizeof(a) / sizeof((a)[0]))
#define CLONE_NEW_ANYTHING \
	(CLONE_NEWNS | CLONE_NEWCGROUP | CLONE_NEWUTS | CLONE_NEWIPC | CLONE_NEWUSER | CLONE_NEWPID | CLONE_NEWNET)
#define PR_SET_VMA_OPTION 0x53564d41

static const int ALWAYS[] = {
	/* descriptors that are open, and files as far as Landlock lets open() */
	SCMP_SYS(read),
	SCMP_SYS(write),
	SCMP_SYS(readv),
	SCMP_SYS(writev),
	SCMP_SYS(pread64),
	SCMP_SYS(pwrite64),
	SCMP_SYS(preadv),
	SCMP_SYS(pwritev),
	SCMP_SYS(lseek),
	SCMP_SYS(close),
	SCMP_SYS(close_range),
	SCMP_SYS(fstat),
	SCMP_SYS(newfstatat),
	SCMP_SYS(stat),
	SCMP_SYS(lstat),
	SCMP_SYS(statx),
	SCMP_SYS(access),
	SCMP_SYS(faccessat),
	SCMP_SYS(faccessat2),
	SCMP_SYS(readlink),
	SCMP_SYS(readlinkat),
	SCMP_SYS(getcwd),
	SCMP_SYS(open),
	SCMP_SYS(openat),
	SCMP_SYS(getdents64),
	SCMP_SYS(dup),
	SCMP_SYS(dup2),
	SCMP_SYS(dup3),
	SCMP_SYS(fadvise64),
	SCMP_SYS(statfs),
	SCMP_SYS(fstatfs),
	SCMP_SYS(flock),
	SCMP_SYS(fsync),
	SCMP_SYS(fdatasync),
	SCMP_SYS(umask),
	SCMP_SYS(pipe),
	SCMP_SYS(pipe2),
	SCMP_SYS(eventfd2),
	SCMP_SYS(poll),
	SCMP_SYS(ppoll),
	SCMP_SYS(select),
	SCMP_SYS(pselect6),
	SCMP_SYS(epoll_create1),
	SCMP_SYS(epoll_ctl),
	SCMP_SYS(epoll_wait),
	SCMP_SYS(epoll_pwait),
	SCMP_SYS(sendmsg),
	SCMP_SYS(recvmsg),
	SCMP_SYS(sendto),
	SCMP_SYS(recvfrom),
	SCMP_SYS(shutdown),
	SCMP_SYS(getsockopt),
	SCMP_SYS(getsockname),
	SCMP_SYS(getpeername),
	/* memory */
	SCMP_SYS(mmap),
	SCMP_SYS(munmap),
	SCMP_SYS(mremap),
	SCMP_SYS(mprotect),
	SCMP_SYS(madvise),
	SCMP_SYS(brk),
	SCMP_SYS(mlock),
	SCMP_SYS(munlock),
	SCMP_SYS(msync),
	SCMP_SYS(mincore),
	SCMP_SYS(membarrier),
	SCMP_SYS(get_mempolicy),
	/* threads, signals within the process, time */
	SCMP_SYS(futex),
	SCMP_SYS(set_robust_list),
	SCMP_SYS(rseq),
	SCMP_SYS(set_tid_address),
	SCMP_SYS(sched_yield),
	SCMP_SYS(sched_get_priority_max),
	SCMP_SYS(sched_get_priority_min),
	SCMP_SYS(getcpu),
	SCMP_SYS(arch_prctl),
	SCMP_SYS(rt_sigaction),
	SCMP_SYS(rt_sigprocmask),
	SCMP_SYS(rt_sigreturn),
	SCMP_SYS(rt_sigpending),
	SCMP_SYS(rt_sigtimedwait),
	SCMP_SYS(rt_sigsuspend),
	SCMP_SYS(sigaltstack),
	SCMP_SYS(pause),
	SCMP_SYS(restart_syscall),
	SCMP_SYS(clock_gettime),
	SCMP_SYS(clock_getres),
	SCMP_SYS(clock_nanosleep),
	SCMP_SYS(nanosleep),
	SCMP_SYS(gettimeofday),
	SCMP_SYS(time),
	SCMP_SYS(times),
	SCMP_SYS(setitimer),
	SCMP_SYS(getitimer),
	SCMP_SYS(alarm),
	/* who am I */
	SCMP_SYS(getpid),
	SCMP_SYS(gettid),
	SCMP_SYS(getppid),
	SCMP_SYS(getuid),
	SCMP_SYS(geteuid),
	SCMP_SYS(getgid),
	SCMP_SYS(getegid),
	SCMP_SYS(getgroups),
	SCMP_SYS(getresuid),
	SCMP_SYS(getresgid),
	SCMP_SYS(getpgrp),
	SCMP_SYS(uname),
	SCMP_SYS(sysinfo),
	SCMP_SYS(getrlimit),
	SCMP_SYS(setrlimit),
	SCMP_SYS(getrusage),
	SCMP_SYS(getrandom),
	SCMP_SYS(capget),
	SCMP_SYS(exit),
	SCMP_SYS(exit_group),
	SCMP_SYS(wait4),
	SCMP_SYS(waitid),
};
static const int WITH_SCRATCH[] = {
	SCMP_SYS(unlink),
	SCMP_SYS(unlinkat),
	SCMP_SYS(mkdir),
	SCMP_SYS(mkdirat),
	SCMP_SYS(rmdir),
	SCMP_SYS(rename),
	SCMP_SYS(renameat),
	SCMP_SYS(renameat2),
	SCMP_SYS(ftruncate),
	SCMP_SYS(fallocate),
	SCMP_SYS(fchmod),
	SCMP_SYS(chmod),
	SCMP_SYS(fchmodat),
	SCMP_SYS(utimensat),
	SCMP_SYS(chdir),
	SCMP_SYS(fchdir),
};
static const int WITH_MEMFD[] = {SCMP_SYS(memfd_create), SCMP_SYS(ftruncate), SCMP_SYS(fallocate)};
static const int WITH_FORK[] = {SCMP_SYS(vfork), SCMP_SYS(setsid), SCMP_SYS(setpgid)};
static const int WITH_EXEC[] = {SCMP_SYS(execve)};
/* The options of prctl that only change what the caller sees of itself. Not among them: PDEATHSIG
 * and DUMPABLE. */
static const int PRCTL_OPTIONS[] = {PR_SET_NAME, PR_GET_NAME, PR_SET_VMA_OPTION, PR_SET_THP_DISABLE, PR_GET_THP_DISABLE,
	PR_GET_DUMPABLE, PR_SET_NO_NEW_PRIVS, PR_GET_NO_NEW_PRIVS, PR_CAPBSET_READ, PR_GET_TIMERSLACK};
/* Pushing input into a terminal, and taking one; naming who gets a descriptor's signals. */
static const unsigned long IOCTLS_DENIED[] = {TIOCSTI, TIOCLINUX, TIOCSCTTY, TIOCSETD, TIOCCONS, FIOSETOWN, SIOCSPGRP};

static int allow_all(scmp_filter_ctx c, const int *calls, size_t count)
{
	int rc = 0;
	for (size_t i = 0; i < count && !rc; i++) rc = seccomp_rule_add(c, SCMP_ACT_ALLOW, calls[i], 0);
	return rc;
}

/* Calls that name a process by their first argument: 0 or its own pid, as it sees it. */
static const int OF_A_PROCESS[] = {
	SCMP_SYS(sched_getaffinity),
	SCMP_SYS(sched_setaffinity),
	SCMP_SYS(sched_getparam),
	SCMP_SYS(sched_getscheduler),
	SCMP_SYS(getpgid),
	SCMP_SYS(getsid),
	SCMP_SYS(get_robust_list),
};
/* Of fcntl: not what names who gets a descriptor's signals (F_SETOWN and its like). */
static const int FCNTL_COMMANDS[] = {F_DUPFD, F_DUPFD_CLOEXEC, F_GETFD, F_SETFD, F_GETFL, F_SETFL, F_GETLK, F_SETLK,
	F_SETLKW, F_OFD_GETLK, F_OFD_SETLK, F_OFD_SETLKW, F_GETPIPE_SZ, F_SETPIPE_SZ, F_ADD_SEALS, F_GET_SEALS};

/* Signals to this process alone: by its pid as it sees it. */
static int add_signal_rules(scmp_filter_ctx c, int pid)
{
	static const int calls[] = {SCMP_SYS(kill), SCMP_SYS(tgkill)};
	int rc = 0;
	for (size_t i = 0; i < COUNT(calls) && !rc; i++)
		rc = seccomp_rule_add(c, SCMP_ACT_ALLOW, calls[i], 1, SCMP_A0(SCMP_CMP_EQ, (scmp_datum_t)pid));
	return rc;
}

/* The kernel takes a pid as 32 bits, whatever stands above them; so does the filter. */
static int add_process_rules(scmp_filter_ctx c, int pid)
{
	const scmp_datum_t own[] = {0, (scmp_datum_t)pid};
	int rc = 0;
	for (size_t i = 0; i < COUNT(OF_A_PROCESS) && !rc; i++)
		for (size_t j = 0; j < COUNT(own) && !rc; j++)
			rc = seccomp_rule_add(
				c, SCMP_ACT_ALLOW, OF_A_PROCESS[i], 1, SCMP_A0(SCMP_CMP_MASKED_EQ, 0xffffffffull, own[j]));
	for (size_t j = 0; j < COUNT(own) && !rc; j++)
		rc = seccomp_rule_add(c, SCMP_ACT_ALLOW, SCMP_SYS(getpriority), 2,
			SCMP_A0(SCMP_CMP_MASKED_EQ, 0xffffffffull, PRIO_PROCESS),
			SCMP_A1(SCMP_CMP_MASKED_EQ, 0xffffffffull, own[j]));
	return rc;
}

static int add_clone_rules(scmp_filter_ctx c, const struct sandbox_options *o)
{
	int rc = seccomp_rule_add(c, SCMP_ACT_ERRNO(ENOSYS), SCMP_SYS(clone3), 0);
	if (!rc && o->allow_threads)
		rc = seccomp_rule_add(c, SCMP_ACT_ALLOW, SCMP_SYS(clone), 1,
			SCMP_A0(SCMP_CMP_MASKED_EQ, CLONE_THREAD | CLONE_NEW_ANYTHING, CLONE_THREAD));
	if (!rc && o->allow_fork)
		rc = seccomp_rule_add(
			c, SCMP_ACT_ALLOW, SCMP_SYS(clone), 1, SCMP_A0(SCMP_CMP_MASKED_EQ, CLONE_THREAD | CLONE_NEW_ANYTHING, 0));
	return rc;
}

/* A GPU's driver listens on a local socket of its own from the first moment, and does not start
 * without; before it binds it removes what may lie under the socket's name, and gives up where it
 * may not, but takes it well that there is nothing. It also looks for a daemon that shares the GPU,
 * and takes it well when there is none. So sockets of that one kind exist, which can only be
 * connected to, connecting finds nobody, and there is never a file to remove. */
static int add_driver_rules(scmp_filter_ctx c)
{
	static const int calls[] = {SCMP_SYS(bind), SCMP_SYS(listen)};
	int rc = allow_all(c, calls, COUNT(calls));
	if (!rc)
		rc = seccomp_rule_add(c, SCMP_ACT_ALLOW, SCMP_SYS(socket), 2, SCMP_A0(SCMP_CMP_EQ, AF_UNIX),
			SCMP_A1(SCMP_CMP_MASKED_EQ, ~(scmp_datum_t)(SOCK_CLOEXEC | SOCK_NONBLOCK), SOCK_SEQPACKET));
	if (!rc) rc = seccomp_rule_add(c, SCMP_ACT_ALLOW, SCMP_SYS(setsockopt), 1, SCMP_A1(SCMP_CMP_EQ, SOL_SOCKET));
	if (!rc) rc = seccomp_rule_add(c, SCMP_ACT_ERRNO(ENOENT), SCMP_SYS(connect), 0);
	if (!rc) rc = seccomp_rule_add(c, SCMP_ACT_ERRNO(ENOENT), SCMP_SYS(unlink), 0);
	return rc;
}

static int add_argument_rules(scmp_filter_ctx c)
{
	int rc = 0;
	for (size_t i = 0; i < COUNT(PRCTL_OPTIONS) && !rc; i++)
		rc = seccomp_rule_add(
			c, SCMP_ACT_ALLOW, SCMP_SYS(prctl), 1, SCMP_A0(SCMP_CMP_EQ, (scmp_datum_t)PRCTL_OPTIONS[i]));
	if (!rc) rc = seccomp_rule_add(c, SCMP_ACT_ALLOW, SCMP_SYS(prlimit64), 1, SCMP_A0(SCMP_CMP_EQ, 0));
	/* The kernel looks at the low 32 bits of an ioctl's command alone, so the filter must too. */
	struct scmp_arg_cmp denied[COUNT(IOCTLS_DENIED)];
	for (size_t i = 0; i < COUNT(IOCTLS_DENIED) && !rc; i++) {
		denied[i] = SCMP_A1(SCMP_CMP_MASKED_EQ, 0xffffffffull, IOCTLS_DENIED[i]);
		rc = seccomp_rule_add(c, SCMP_ACT_ERRNO(EACCES), SCMP_SYS(ioctl), 1, denied[i]);
	}
	for (size_t i = 0; i < COUNT(FCNTL_COMMANDS) && !rc; i++)
		rc = seccomp_rule_add(c, SCMP_ACT_ALLOW, SCMP_SYS(fcntl), 1,
			SCMP_A1(SCMP_CMP_MASKED_EQ, 0xffffffffull, (scmp_datum_t)FCNTL_COMMANDS[i]));
	return rc ? rc : seccomp_rule_add(c, SCMP_ACT_ALLOW, SCMP_SYS(ioctl), 0);
}

/* The rules for a process that sees itself as `pid`. */
static int add_rules(scmp_filter_ctx c, const struct sandbox_options *o, int pid)
{
	int rc = allow_all(c, ALWAYS, COUNT(ALWAYS));
	if (!rc && o->scratch) rc = allow_all(c, WITH_SCRATCH, COUNT(WITH_SCRATCH));
	if (!rc && o->allow_memfd) rc = allow_all(c, WITH_MEMFD, COUNT(WITH_MEMFD));
	if (!rc && o->allow_fork) rc = allow_all(c, WITH_FORK, COUNT(WITH_FORK));
	if (!rc && o->exec_paths) rc = allow_all(c, WITH_EXEC, COUNT(WITH_EXEC));
	if (!rc && o->device_paths) rc = add_driver_rules(c);
	if (!rc) rc = add_signal_rules(c, pid);
	if (!rc) rc = add_process_rules(c, pid);
	if (!rc) rc = add_clone_rules(c, o);
	return rc ? rc : add_argument_rules(c);
}

/* A filter as the kernel takes it. libseccomp needs a millisecond for it and more, which a process
 * that starts many jobs pays once: its children find it here. */
static struct {
	unsigned rules; /* rules_of the options that it was made for */
	int pid;        /* and for a process that sees itself as this; 0: there is none */
	struct sock_fprog program;
} kept;

/* Which rules options ask for, a bit each. */
static unsigned rules_of(const struct sandbox_options *o)
{
	const int asked[] = {o->scratch != NULL, o->allow_memfd != 0, o->allow_fork != 0, o->exec_paths != NULL,
		o->device_paths != NULL, o->allow_threads != 0};
	unsigned rules = 0;
	for (size_t i = 0; i < COUNT(asked); i++) rules |= (unsigned)asked[i] << i;
	return rules;
}

/* The filter's instructions: libseccomp writes them to a file. heap; NULL: it could not. */
static struct sock_filter *exported(scmp_filter_ctx c, size_t *bytes)
{
	struct sock_filter *code = NULL;
	int fd = memfd_create("filter", MFD_CLOEXEC);
	if (fd < 0) return NULL;
	off_t size = seccomp_export_bpf(c, fd) ? -1 : lseek(fd, 0, SEEK_END);
	if (size > 0 && (code = malloc((size_t)size)) && pread(fd, code, (size_t)size, 0) != size) {
		free(code);
		code = NULL;
	}
	close(fd);
	*bytes = code ? (size_t)size : 0;
	return code;
}

void sandbox_seccomp_prepare(const struct sandbox_options *o, int pid)
{
	if (kept.pid == pid && kept.rules == rules_of(o)) return;
	scmp_filter_ctx c = seccomp_init(SCMP_ACT_ERRNO(EPERM));
	size_t bytes = 0;
	struct sock_filter *code = c && !add_rules(c, o, pid) ? exported(c, &bytes) : NULL;
	if (c) seccomp_release(c);
	/* Without one the child makes its own, and says what is wrong. */
	free(kept.program.filter);
	kept.program = (struct sock_fprog){.len = (unsigned short)(bytes / sizeof *code), .filter = code};
	kept.rules = rules_of(o);
	kept.pid = code ? pid : 0;
}

int sandbox_seccomp(const struct sandbox_options *o, char *text, size_t len)
{
	if (kept.pid == getpid() && kept.rules == rules_of(o)) {
		int failed = prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &kept.program);
		return failed ? sandbox_fail(text, len, errno, "seccomp") : 0;
	}
	scmp_filter_ctx c = seccomp_init(SCMP_ACT_ERRNO(EPERM));
	if (!c) return sandbox_fail(text, len, ENOMEM, "seccomp_init");
	int rc = add_rules(c, o, getpid());
	if (!rc) rc = seccomp_load(c);
	seccomp_release(c);
	return rc ? sandbox_fail(text, len, -rc, "seccomp") : 0;
}
