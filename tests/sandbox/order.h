/* order: what a zygote does with its template (src/sandbox/sandbox.h), for tests. */
#ifndef HONE_TESTS_ORDER_H
#define HONE_TESTS_ORDER_H
#include "sandbox/sandbox.h"
#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

/* Reads n bytes within ten seconds; how many came. */
static inline size_t read_soon(int fd, void *data, size_t n)
{
	size_t have = 0;
	struct pollfd p = {.fd = fd, .events = POLLIN};
	while (have < n && poll(&p, 1, 10000) == 1) {
		ssize_t got = read(fd, (char *)data + have, n - have);
		if (got <= 0) break;
		have += (size_t)got;
	}
	return have;
}

/* One order: the pid of the job's process, or a negative number. */
static inline int order(int orders, int level, const int fds[SANDBOX_ORDER_FDS])
{
	union {
		char bytes[CMSG_SPACE(SANDBOX_ORDER_FDS * sizeof(int))];
		struct cmsghdr head;
	} control = {{0}};
	struct iovec piece = {&level, sizeof level};
	struct msghdr m = {.msg_iov = &piece, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof control};
	struct cmsghdr *c = CMSG_FIRSTHDR(&m);
	int pid = -EIO;
	c->cmsg_level = SOL_SOCKET;
	c->cmsg_type = SCM_RIGHTS;
	c->cmsg_len = CMSG_LEN(SANDBOX_ORDER_FDS * sizeof(int));
	memcpy(CMSG_DATA(c), fds, SANDBOX_ORDER_FDS * sizeof(int));
	if (sendmsg(orders, &m, MSG_NOSIGNAL) < 0) return -errno;
	return read_soon(orders, &pid, sizeof pid) == sizeof pid ? pid : -EIO;
}
#endif
