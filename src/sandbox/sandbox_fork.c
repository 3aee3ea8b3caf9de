/* sandbox_fork: processes of jobs, from a zygote with many of them; and the template that forks in
 * its place.
 *
 * A zygote's memory lies in huge pages, for a fork copies an entry for each page. But a zygote that
 * reads requests and waits for its jobs writes to its memory between two forks, a little in many
 * places, and where it writes a huge page comes apart into 512 small ones. A template is a process
 * that does nothing but wait in this file and fork: its pages stay what they are. */
#include "sandbox/sandbox_internal.h"
#include <errno.h>
#include <fcntl.h>
#include <malloc.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#define PR_GET_TID_ADDRESS_OPTION 40
#define FILES_MAX 1024 /* descriptors that a zygote may have */
#define MXFAST_OF_GLIBC 128
#define MALLOC_STEP ((size_t)16)        /* between two sizes of pieces */
#define SMALL_REQUEST ((size_t)1 << 11) /* larger than pieces of which each size has a list of its own */
#define LARGE_REQUEST ((size_t)1 << 16) /* below what malloc maps apart */
#define HUGE_PAGE ((size_t)2 << 20)
#ifndef MADV_COLLAPSE
#define MADV_COLLAPSE 25
#endif

/* The C library keeps the thread's id in a place that only its own fork() updates; the kernel knows
 * where. */
static void refresh_thread_id(void)
{
	int *place = NULL;
	if (prctl(PR_GET_TID_ADDRESS_OPTION, &place, 0, 0, 0) == 0 && place) *place = (int)syscall(SYS_gettid);
}

/* A pipe that nobody writes to: its reading end hangs up when the parent, the only holder of the
 * writing end, is dead. PR_SET_PDEATHSIG alone misses a parent that died before the call, and
 * inside a pid namespace the parent's pid does not show. */
static int life[2] = {-1, -1};

static int life_make(void) { return life[0] < 0 ? pipe2(life, O_CLOEXEC) : 0; }

static void die_with_parent(void)
{
	close(life[1]);
	prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
	struct pollfd p = {.fd = life[0], .events = POLLIN};
	if (poll(&p, 1, 0) > 0) _exit(1);
	close(life[0]);
	life[0] = life[1] = -1;
}

/* CLONE_PARENT in a template: its children are the zygote's, which waits for them. */
static long siblings;

/* Namespaces of each child at level full. */
static long namespaces = NAMESPACES;

int sandbox_fork(const struct sandbox_options *o, char *text, size_t len)
{
	unsigned uid = geteuid(), gid = getegid();
	if (len) *text = 0;
	if (o->level == SANDBOX_FULL && uid == 0) return sandbox_fail(text, len, EPERM, "sandbox_fork as root");
	if (life_make()) return sandbox_fail(text, len, errno, "pipe2");
	/* The first process of a namespace is number 1 there. */
	if (o->level == SANDBOX_FULL) sandbox_seccomp_prepare(o, 1);
	long flags = o->level == SANDBOX_FULL ? namespaces : 0;
	long pid = syscall(SYS_clone, flags | siblings | SIGCHLD, NULL, NULL, NULL, 0);
	if (pid < 0) return sandbox_fail(text, len, errno, "clone");
	if (pid > 0) return (int)pid;
	siblings = 0;
	refresh_thread_id();
	if (o->level == SANDBOX_FULL) sandbox_settle(uid, gid, text, len);
	die_with_parent();
	return 0;
}

/* ---- the template ---- */

/* Takes the holes of about this size below `top` for good. */
static void fill_holes(size_t size, const char *top, size_t *left)
{
	char *volatile piece;
	while ((piece = malloc(size)) && piece < top && *left > size) *left -= size;
	free(piece);
}

/* Leaves malloc nothing but what lies behind all that is in use. A job's process would take its
 * memory from what was freed here and there, and copy a page for each piece; and at its first large
 * request malloc would join and sort all of these, hundreds of pages. */
static void settle_malloc(void)
{
	/* What is free is joined by the setting, whatever it was, and sorted by the large request. */
	mallopt(M_MXFAST, MXFAST_OF_GLIBC);
	void *volatile large = malloc(LARGE_REQUEST);
	free(large);
	/* From the large holes to the small ones, of which malloc has a list for each size. */
	struct mallinfo2 now = mallinfo2();
	const char *top = (const char *)sbrk(0) - now.keepcost;
	size_t left = now.fordblks;
	for (size_t size = LARGE_REQUEST; size > SMALL_REQUEST; size -= size / 8) fill_holes(size, top, &left);
	for (size_t size = SMALL_REQUEST; size; size -= MALLOC_STEP) fill_holes(size, top, &left);
}

/* Moves the template into a network of its own, which has no device but a loopback that is down,
 * and which its jobs inherit. To make one and to take it apart the kernel holds locks of the whole
 * machine: 16 processors that fork side by side would wait 6 ms for a job's, and 1 ms for all of
 * its other namespaces. What jobs could do to each other there takes a socket, which seccomp
 * refuses. Where user namespaces are not to be had nothing changes; false: the template is in one
 * that has no users, and can make no job. */
static bool share_network(char *text, size_t len)
{
	unsigned uid = geteuid(), gid = getegid();
	if (uid == 0 || unshare(CLONE_NEWUSER | CLONE_NEWNET)) return true;
	namespaces &= ~CLONE_NEWNET;
	return sandbox_map_user(uid, gid, text, len) == 0;
}

int sandbox_template_fork(char *text, size_t len)
{
	if (life_make()) return sandbox_fail(text, len, errno, "pipe2");
	long pid = syscall(SYS_clone, SIGCHLD, NULL, NULL, NULL, 0);
	if (pid < 0) return sandbox_fail(text, len, errno, "clone");
	if (pid > 0) return (int)pid;
	refresh_thread_id();
	/* Its children hear of the zygote's end by the pipe that it made, of which they have the
	 * reading end from here. */
	close(life[1]);
	life[1] = -1;
	prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
	return 0;
}

/* Room for an order's descriptors. */
union order_control {
	char bytes[CMSG_SPACE(SANDBOX_ORDER_FDS * sizeof(int))];
	struct cmsghdr head;
};

int sandbox_template_order(int orders, int level, const int fds[SANDBOX_ORDER_FDS], int ms)
{
	union order_control control = {{0}};
	struct iovec piece = {&level, sizeof level};
	struct msghdr m = {.msg_iov = &piece, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof control};
	struct cmsghdr *c = CMSG_FIRSTHDR(&m);
	int pid = 0;
	c->cmsg_level = SOL_SOCKET;
	c->cmsg_type = SCM_RIGHTS;
	c->cmsg_len = CMSG_LEN(SANDBOX_ORDER_FDS * sizeof(int));
	memcpy(CMSG_DATA(c), fds, SANDBOX_ORDER_FDS * sizeof(int));
	if (sendmsg(orders, &m, MSG_NOSIGNAL) != sizeof level) return -EIO;
	struct pollfd answer = {.fd = orders, .events = POLLIN};
	bool has_answer = poll(&answer, 1, ms) == 1 && recv(orders, &pid, sizeof pid, 0) == sizeof pid;
	return has_answer ? pid : -EIO;
}

/* One order: a level, with descriptors that are put into fds. False: the zygote is gone, or sent
 * something else. */
static bool order_take(int orders, int *level, int fds[SANDBOX_ORDER_FDS])
{
	union order_control control;
	struct iovec piece = {level, sizeof *level};
	struct msghdr m = {.msg_iov = &piece, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof control};
	ssize_t n;
	do n = recvmsg(orders, &m, MSG_CMSG_CLOEXEC);
	while (n < 0 && errno == EINTR);
	struct cmsghdr *c = CMSG_FIRSTHDR(&m);
	if (n != sizeof *level || !c || c->cmsg_len != CMSG_LEN(SANDBOX_ORDER_FDS * sizeof(int))) return false;
	memcpy(fds, CMSG_DATA(c), SANDBOX_ORDER_FDS * sizeof(int));
	return true;
}

void sandbox_template_serve(int orders, struct sandbox_options *o, int fds[SANDBOX_ORDER_FDS], void (*settle)(void),
	void *const *pieces, char *text, size_t len)
{
	/* Nothing else of the zygote's stays open here: who waits for its end would wait for ours. */
	for (int fd = 3; fd < FILES_MAX; fd++)
		if (fd != orders && fd != life[0]) close(fd);
	if (!share_network(text, len)) _exit(1);
	siblings = CLONE_PARENT;
	/* What it would write to later it writes to now. Huge pages came apart wherever it has been on
	 * its way here, and are made whole before the first fork. */
	sandbox_seccomp_prepare(o, 1);
	if (settle) settle();
	settle_malloc();
	for (; pieces && *pieces; pieces++) madvise(*pieces, HUGE_PAGE, MADV_COLLAPSE);
	for (;;) {
		if (!order_take(orders, &o->level, fds)) _exit(0);
		int pid = sandbox_fork(o, text, len);
		if (pid == 0) break;
		for (int i = 0; i < SANDBOX_ORDER_FDS; i++) close(fds[i]);
		if (send(orders, &pid, sizeof pid, MSG_NOSIGNAL) != sizeof pid) _exit(0);
	}
	/* From here on this is a job's process. */
	close(orders);
}
