/* Messages between this program and its workers, who may be hostile: lengths are bounded before
 * memory is taken, memory grows with what has really arrived, descriptors are accepted with the
 * first byte only and never leak, and every wait has a deadline. After an error the stream is out
 * of step: the caller drops the peer. */
#include "base/base.h"
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

enum { HEADER_BYTES = 4, FDS_MAX = CHILD_FDS_MAX, GROW_BYTES = 1 << 20, CROWDED_MS = 2 };
union control {
	char bytes[CMSG_SPACE(FDS_MAX * sizeof(int))];
	struct cmsghdr align;
};

/* Waits until fd is ready. */
static int wait_ready(int fd, short events, uint64_t deadline_ns, const char *what, struct err *err)
{
	for (;;) {
		int ms = -1;
		if (deadline_ns) {
			uint64_t now = clock_ns();
			if (now >= deadline_ns) return err_set(err, ERR_TIMEOUT, "%s a message: deadline passed", what);
			ms = (int)MIN((deadline_ns - now + 999999u) / 1000000u, 60000u);
		}
		struct pollfd p = {.fd = fd, .events = events};
		int n = poll(&p, 1, ms);
		if (n > 0) return 0;
		if (n < 0 && errno != EINTR) return err_set(err, ERR_IO, "%s a message: %s", what, strerror(errno));
	}
}

/* After a failed call: 0 when it should be tried again. */
static int retry(int fd, short events, uint64_t deadline_ns, const char *what, struct err *err)
{
	if (errno == EINTR) return 0;
	if (errno == EAGAIN || errno == EWOULDBLOCK) return wait_ready(fd, events, deadline_ns, what, err);
	/* Descriptors under way are counted by user, and refused where they are more than this process
	 * may have open, whoever sent them: many workers, or one that means it. */
	if (errno == ETOOMANYREFS && (!deadline_ns || clock_ns() < deadline_ns)) {
		sleep_ms(CROWDED_MS);
		return 0;
	}
	bool closed = errno == EPIPE || errno == ECONNRESET;
	return err_set(err, closed ? ERR_CHILD : ERR_IO, "%s a message: %s", what,
		closed ? "the peer closed the connection" : strerror(errno));
}

int msg_send(int fd, const void *data, size_t len, const int *fds, int nfds, uint64_t deadline_ns, struct err *err)
{
	CHECKF(nfds >= 0 && nfds <= FDS_MAX, "%d descriptors, at most %d", nfds, FDS_MAX);
	if (len > UINT32_MAX)
		return err_set(err, ERR_LIMIT, "sending a message: %zu bytes do not fit a length of 32 bits", len);
	uint8_t header[HEADER_BYTES];
	for (int i = 0; i < HEADER_BYTES; i++) header[i] = (uint8_t)(len >> (8 * i));
	union control control = {0};
	/* The socket may take any part of the bytes, so each round sends what is left of header and
	 * body. */
	for (size_t sent = 0; sent < HEADER_BYTES + len;) {
		size_t head_left = sent < HEADER_BYTES ? HEADER_BYTES - sent : 0, body_at = sent - (HEADER_BYTES - head_left);
		struct iovec parts[2] = {
			{header + HEADER_BYTES - head_left, head_left}, {(char *)(uintptr_t)data + body_at, len - body_at}};
		struct msghdr m = {.msg_iov = parts, .msg_iovlen = 2};
		/* Descriptors go with the first byte only, which is where the receiver accepts them. */
		if (sent == 0 && nfds) {
			m.msg_control = control.bytes;
			m.msg_controllen = CMSG_SPACE((size_t)nfds * sizeof(int));
			struct cmsghdr *c = CMSG_FIRSTHDR(&m);
			c->cmsg_level = SOL_SOCKET;
			c->cmsg_type = SCM_RIGHTS;
			c->cmsg_len = CMSG_LEN((size_t)nfds * sizeof(int));
			memcpy(CMSG_DATA(c), fds, (size_t)nfds * sizeof(int));
		}
		ssize_t n = sendmsg(fd, &m, MSG_NOSIGNAL | MSG_DONTWAIT);
		if (n >= 0) {
			sent += (size_t)n;
			continue;
		}
		int rc = retry(fd, POLLOUT, deadline_ns, "sending", err);
		if (rc) return rc;
	}
	return 0;
}

/* Collects the descriptors of one recvmsg; closes all of them when there are more than room. */
static int take_fds(struct msghdr *m, int *fds, int room, int *count, struct err *err)
{
	int seen = 0, last = -1;
	for (struct cmsghdr *c = CMSG_FIRSTHDR(m); c; c = CMSG_NXTHDR(m, c)) {
		if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS) continue;
		size_t n = (c->cmsg_len - CMSG_LEN(0)) / sizeof(int);
		for (size_t i = 0; i < n; i++) {
			memcpy(&last, CMSG_DATA(c) + i * sizeof(int), sizeof(int));
			if (*count + seen < room) fds[*count + seen++] = last;
			else {
				close(last);
				seen++;
			}
		}
	}
	*count += seen;
	if (*count <= room && !(m->msg_flags & MSG_CTRUNC)) return 0;
	for (int i = 0; i < MIN(*count, room); i++) close(fds[i]);
	*count = 0;
	return err_set(err, ERR_LIMIT, "receiving a message: more than the %d descriptors expected", room);
}

/* The header and the descriptors that come with it. */
static int recv_header(int fd, uint8_t *header, int *fds, int room, int *count, uint64_t deadline_ns, struct err *err)
{
	for (size_t got = 0; got < HEADER_BYTES;) {
		union control control;
		struct iovec part = {header + got, HEADER_BYTES - got};
		struct msghdr m = {
			.msg_iov = &part, .msg_iovlen = 1, .msg_control = control.bytes, .msg_controllen = sizeof(control.bytes)};
		ssize_t n = recvmsg(fd, &m, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
		int rc = 0;
		if (n < 0) rc = retry(fd, POLLIN, deadline_ns, "receiving", err);
		else rc = take_fds(&m, fds, room, count, err);
		if (!rc && n == 0 && got)
			rc = err_set(err, ERR_CHILD,
				"receiving a message: the peer closed the connection after %zu bytes of its length", got);
		if (!rc && n == 0) rc = err_set(err, ERR_CHILD, "receiving a message: the peer closed the connection");
		if (rc) return rc;
		if (n > 0) got += (size_t)n;
	}
	return 0;
}

/* recv has no control buffer: descriptors that a peer slips in here are closed by the kernel. */
static int recv_body(int fd, size_t len, struct str *out, uint64_t deadline_ns, struct err *err)
{
	static const char zeros[4096];
	while (out->len < len) {
		size_t at = out->len, want = MIN(len - at, (size_t)GROW_BYTES);
		if (out->cap < at + want + 1)
			for (size_t more = want; more; more -= MIN(more, sizeof(zeros)))
				str_append(out, zeros, MIN(more, sizeof(zeros)));
		out->len = at;
		ssize_t n = recv(fd, out->data + at, want, MSG_DONTWAIT);
		if (n < 0) {
			int rc = retry(fd, POLLIN, deadline_ns, "receiving", err);
			if (rc) return rc;
			continue;
		}
		if (n == 0)
			return err_set(
				err, ERR_CHILD, "receiving a message: the peer closed the connection after %zu of %zu bytes", at, len);
		out->len = at + (size_t)n;
		out->data[out->len] = 0;
	}
	return 0;
}

int msg_recv(int fd, size_t bytes_max, struct str *out, int *fds, int *nfds, uint64_t deadline_ns, struct err *err)
{
	str_clear(out);
	str_append(out, "", 0);
	int room = nfds ? *nfds : 0, count = 0;
	uint8_t header[HEADER_BYTES];
	int rc = recv_header(fd, header, fds, room, &count, deadline_ns, err);
	if (!rc) {
		size_t len = 0;
		for (int i = 0; i < HEADER_BYTES; i++) len |= (size_t)header[i] << (8 * i);
		if (len > bytes_max)
			rc = err_set(err, ERR_LIMIT, "receiving a message: its length is %zu bytes, at most %zu are allowed", len,
				bytes_max);
		else rc = recv_body(fd, len, out, deadline_ns, err);
	}
	if (rc) {
		for (int i = 0; i < count; i++) close(fds[i]);
		count = 0;
		str_clear(out);
	}
	if (nfds) *nfds = count;
	return rc;
}

/* Sealed against shrinking: a peer that holds the descriptor cannot cut the file under our mapping
 * (SIGBUS). */
int memfd_make(const char *name, size_t bytes, struct err *err)
{
	int fd = memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING);
	if (fd < 0) return err_set(err, ERR_INFRA, "memfd %s: %s", name, strerror(errno));
	if (bytes > INT64_MAX || ftruncate(fd, (off_t)bytes) ||
		fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL)) {
		int e = bytes > INT64_MAX ? EFBIG : errno;
		close(fd);
		return err_set(err, ERR_INFRA, "memfd %s of %zu bytes: %s", name, bytes, strerror(e));
	}
	return fd;
}
