/* Messages over a socket pair: whole, truncated at every byte, too long, late, with descriptors
 * that were and were not asked for. */
#include "base_test.h"
#include <pthread.h>
#include <errno.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#define NOBODY 65534

struct pair {
	int a, b;
};

static struct pair pair_make(void)
{
	int fds[2];
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds), 0);
	return (struct pair){fds[0], fds[1]};
}

static void pair_close(struct pair p)
{
	if (p.a >= 0) close(p.a);
	if (p.b >= 0) close(p.b);
}

static uint64_t soon(void) { return clock_ns() + 50000000u; }     /* for waits that must run out */
static uint64_t later(void) { return clock_ns() + 20000000000u; } /* for waits that must not */

static void round_trip(void **state)
{
	struct pair p = pair_make();
	struct str s = {0};
	struct err err = {0};
	assert_int_equal(msg_send(p.a, "hello", 5, NULL, 0, 0, &err), 0);
	assert_int_equal(msg_send(p.a, NULL, 0, NULL, 0, later(), &err), 0);
	assert_int_equal(msg_send(p.a, "a\0b", 3, NULL, 0, later(), &err), 0);
	assert_int_equal(msg_recv(p.b, 5, &s, NULL, NULL, 0, &err), 0);
	assert_string_equal(s.data, "hello");
	assert_int_equal(msg_recv(p.b, 0, &s, NULL, NULL, later(), &err), 0);
	assert_int_equal(s.len, 0);
	assert_string_equal(s.data, "");
	assert_int_equal(msg_recv(p.b, 100, &s, NULL, NULL, later(), &err), 0);
	assert_memory_equal(s.data, "a\0b", 4);
	str_release(&s);
	pair_close(p);
}

enum { BIG = 5 * 1000 * 1000 + 3 };
struct sender {
	int fd, rc;
	char *data;
};

static void *send_big(void *arg)
{
	struct sender *s = arg;
	s->rc = msg_send(s->fd, s->data, BIG, NULL, 0, later(), NULL);
	return NULL;
}

static void larger_than_any_socket_buffer(void **state)
{
	struct pair p = pair_make();
	struct sender sender = {.fd = p.a, .data = xmalloc(BIG)};
	for (int i = 0; i < BIG; i++) sender.data[i] = (char)(i * 7);
	pthread_t t;
	assert_int_equal(pthread_create(&t, NULL, send_big, &sender), 0);
	struct str s = {0};
	struct err err = {0};
	assert_int_equal(msg_recv(p.b, BIG, &s, NULL, NULL, later(), &err), 0);
	pthread_join(t, NULL);
	assert_int_equal(sender.rc, 0);
	assert_int_equal(s.len, BIG);
	assert_memory_equal(s.data, sender.data, BIG);
	free(sender.data);
	str_release(&s);
	pair_close(p);
}

/* A peer that dies after n bytes, for every n. */
static void truncated_at_every_byte(void **state)
{
	static const uint8_t bytes[] = {6, 0, 0, 0, 'a', 'b', 'c', 'd', 'e', 'f'};
	for (size_t n = 0; n < sizeof(bytes); n++) {
		struct pair p = pair_make();
		struct str s = {0};
		struct err err = {0};
		if (n) assert_int_equal(write(p.a, bytes, n), n);
		assert_int_equal(msg_recv(p.b, 100, &s, NULL, NULL, soon(), &err), ERR_TIMEOUT);
		close(p.a);
		p.a = -1;
		pair_close(p);
		str_release(&s);

		p = pair_make();
		if (n) assert_int_equal(write(p.a, bytes, n), n);
		close(p.a);
		assert_int_equal(msg_recv(p.b, 100, &s, NULL, NULL, later(), &err), ERR_CHILD);
		assert_int_equal(s.len, 0);
		close(p.b);
		str_release(&s);
	}
}

/* A length of which each byte counts, and comes alone. */
static void *send_slowly(void *arg)
{
	struct sender *s = arg;
	const uint32_t len = 0x00010203;
	for (size_t i = 0; i < sizeof len; i++) {
		if (write(s->fd, (const char *)&len + i, 1) != 1) s->rc = 1;
		usleep(2000);
	}
	if (write(s->fd, s->data, len) != (ssize_t)len) s->rc = 1;
	return NULL;
}

static void length_in_four_parts(void **state)
{
	struct pair p = pair_make();
	struct sender sender = {.fd = p.a, .data = xcalloc(1, 0x00010203)};
	struct str s = {0};
	struct err err = {0};
	pthread_t t;
	assert_int_equal(pthread_create(&t, NULL, send_slowly, &sender), 0);
	assert_int_equal(msg_recv(p.b, BIG, &s, NULL, NULL, later(), &err), 0);
	pthread_join(t, NULL);
	assert_int_equal(sender.rc, 0);
	assert_int_equal(s.len, 0x00010203);
	free(sender.data);
	str_release(&s);
	pair_close(p);
}

static void a_length_over_the_limit_takes_no_memory(void **state)
{
	struct pair p = pair_make();
	struct str s = {0};
	struct err err = {0};
	assert_int_equal(write(p.a, "\xff\xff\xff\xff", 4), 4);
	assert_int_equal(msg_recv(p.b, 1000, &s, NULL, NULL, later(), &err), ERR_LIMIT);
	assert_non_null(strstr(err.text, "4294967295"));
	assert_true(s.cap < 1000);
	/* Allowed but not sent: memory grows with what arrives. */
	assert_int_equal(write(p.a, "\0\0\0\x40", 4), 4);
	assert_int_equal(msg_recv(p.b, UINT32_MAX, &s, NULL, NULL, soon(), &err), ERR_TIMEOUT);
	assert_true(s.cap < 8 << 20);
	str_release(&s);
	pair_close(p);
}

static void sending_to_a_full_or_closed_peer(void **state)
{
	struct pair p = pair_make();
	struct err err = {0};
	char *big = xcalloc(BIG, 1);
	assert_int_equal(msg_send(p.a, big, BIG, NULL, 0, soon(), &err), ERR_TIMEOUT);
	pair_close(p);
	p = pair_make();
	close(p.b);
	assert_int_equal(msg_send(p.a, "x", 1, NULL, 0, later(), &err), ERR_CHILD); /* and no SIGPIPE */
	close(p.a);
	assert_int_equal(msg_send(-1, "x", 1, NULL, 0, later(), &err), ERR_IO);
#if SIZE_MAX > UINT32_MAX
	assert_int_equal(msg_send(-1, big, (size_t)UINT32_MAX + 1, NULL, 0, 0, &err), ERR_LIMIT);
#endif
	free(big);
}

static void descriptors_pass_and_are_close_on_exec(void **state)
{
	struct pair p = pair_make();
	struct str s = {0};
	struct err err = {0};
	int before = open_descriptors(), sent[CHILD_FDS_MAX], got[CHILD_FDS_MAX], count = CHILD_FDS_MAX;
	for (int i = 0; i < CHILD_FDS_MAX; i++) {
		sent[i] = memfd_make("test", 16, &err);
		assert_true(sent[i] >= 0);
		assert_int_equal(pwrite(sent[i], &i, sizeof(i), 0), sizeof(i));
	}
	assert_int_equal(msg_send(p.a, "take", 4, sent, CHILD_FDS_MAX, later(), &err), 0);
	for (int i = 0; i < CHILD_FDS_MAX; i++) close(sent[i]);
	assert_int_equal(msg_recv(p.b, 100, &s, got, &count, later(), &err), 0);
	assert_int_equal(count, CHILD_FDS_MAX);
	assert_string_equal(s.data, "take");
	for (int i = 0, value = -1; i < CHILD_FDS_MAX; i++) {
		assert_int_equal(pread(got[i], &value, sizeof(value), 0), sizeof(value));
		assert_int_equal(value, i);
		assert_int_equal(fcntl(got[i], F_GETFD), FD_CLOEXEC);
		close(got[i]);
	}
	/* The next message has none. */
	count = CHILD_FDS_MAX;
	assert_int_equal(msg_send(p.a, "x", 1, NULL, 0, later(), &err), 0);
	assert_int_equal(msg_recv(p.b, 100, &s, got, &count, later(), &err), 0);
	assert_int_equal(count, 0);
	assert_int_equal(open_descriptors(), before);
	str_release(&s);
	pair_close(p);
}

/* Sends raw bytes with descriptors attached to them. */
static void send_raw(int fd, const void *data, size_t len, const int *fds, int nfds)
{
	union {
		char bytes[CMSG_SPACE(32 * sizeof(int))];
		struct cmsghdr align;
	} control = {0};
	struct iovec part = {(void *)(uintptr_t)data, len};
	struct msghdr m = {.msg_iov = &part,
		.msg_iovlen = 1,
		.msg_control = control.bytes,
		.msg_controllen = CMSG_SPACE((size_t)nfds * sizeof(int))};
	struct cmsghdr *c = CMSG_FIRSTHDR(&m);
	c->cmsg_level = SOL_SOCKET;
	c->cmsg_type = SCM_RIGHTS;
	c->cmsg_len = CMSG_LEN((size_t)nfds * sizeof(int));
	memcpy(CMSG_DATA(c), fds, (size_t)nfds * sizeof(int));
	assert_int_equal(sendmsg(fd, &m, 0), (ssize_t)len);
}

/* More descriptors than asked for: refused, and all of them closed here. */
/* The kernel counts descriptors under way by user, and refuses more than the sender may have open:
 * a process without privileges, with a full socket of its own beside the one that it sends on. */
enum { OPEN_MAX_HERE = 64, UNDER_WAY_US = 200000 };
struct crowd {
	struct pair full;
	int received;
};

static void *drain(void *arg)
{
	struct crowd *c = arg;
	struct str s = {0};
	usleep(UNDER_WAY_US);
	for (int fd, n = 1; n == 1 && !msg_recv(c->full.b, 1, &s, &fd, &n, soon(), NULL); n = 1, c->received++) close(fd);
	str_release(&s);
	return NULL;
}

static int crowded_child(void)
{
	struct crowd c = {.full = pair_make()};
	struct pair p = pair_make();
	struct rlimit limit = {OPEN_MAX_HERE, OPEN_MAX_HERE};
	struct str s = {0};
	struct err err = {0};
	pthread_t thread;
	int fd = 0, got, n = 1, sent = 0;
	if (getuid() == 0 && setresuid(NOBODY, NOBODY, NOBODY)) return 1;
	if (setrlimit(RLIMIT_NOFILE, &limit)) return 2;
	while (sent <= 4 * OPEN_MAX_HERE && !msg_send(c.full.a, "x", 1, &fd, 1, soon(), &err)) sent++;
	if (sent < OPEN_MAX_HERE / 2 || err.code != ERR_IO || !strstr(err.text, strerror(ETOOMANYREFS))) return 3;
	pthread_create(&thread, NULL, drain, &c);
	int rc = msg_send(p.a, "hello", 5, &fd, 1, later(), &err);
	pthread_join(thread, NULL);
	if (rc || msg_recv(p.b, 5, &s, &got, &n, later(), &err) || n != 1) return 4;
	return strcmp(s.data, "hello") || c.received != sent ? 5 : 0;
}

static void too_many_descriptors_under_way_are_waited_for(void **state)
{
	int status;
	pid_t pid = fork();
	if (pid == 0) _exit(crowded_child());
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
}

static void unwanted_descriptors_do_not_leak(void **state)
{
	struct str s = {0};
	struct err err = {0};
	int zeros[20] = {0}, got[CHILD_FDS_MAX], before = open_descriptors();
	for (int room = 0; room <= CHILD_FDS_MAX; room++) {
		for (int sent = room + 1; sent <= 20; sent += 1 + sent / 4) {
			struct pair p = pair_make();
			int count = room;
			send_raw(p.a, "\1\0\0\0x", 5, zeros, sent);
			assert_int_equal(msg_recv(p.b, 100, &s, got, &count, later(), &err), ERR_LIMIT);
			assert_int_equal(count, 0);
			pair_close(p);
			assert_int_equal(open_descriptors(), before);
		}
	}
	str_release(&s);
}

/* Descriptors slipped in with the payload's bytes are dropped; those of a message that then fails
 * are closed. */
static void late_and_orphaned_descriptors_do_not_leak(void **state)
{
	struct str s = {0};
	struct err err = {0};
	int zeros[4] = {0}, got[CHILD_FDS_MAX], count = CHILD_FDS_MAX, before = open_descriptors();
	struct pair p = pair_make();
	assert_int_equal(write(p.a, "\2\0\0\0x", 5), 5);
	send_raw(p.a, "y", 1, zeros, 4);
	assert_int_equal(msg_recv(p.b, 100, &s, got, &count, later(), &err), 0);
	assert_string_equal(s.data, "xy");
	assert_int_equal(count, 0);
	count = CHILD_FDS_MAX;
	send_raw(p.a, "\x50\0\0\0x", 5, zeros, 4);
	close(p.a);
	assert_int_equal(msg_recv(p.b, 100, &s, got, &count, later(), &err), ERR_CHILD);
	assert_int_equal(count, 0);
	close(p.b);
	assert_int_equal(open_descriptors(), before);
	str_release(&s);
}

static void memfd_cannot_be_resized(void **state)
{
	struct err err = {0};
	int fd = memfd_make("buffer", 8192, &err);
	assert_true(fd >= 0);
	assert_int_equal(lseek(fd, 0, SEEK_END), 8192);
	assert_int_equal(ftruncate(fd, 10), -1);
	assert_int_equal(ftruncate(fd, 100000), -1);
	assert_int_equal(fcntl(fd, F_GETFD), FD_CLOEXEC);
	char *p = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	assert_ptr_not_equal(p, MAP_FAILED);
	p[8191] = 1;
	munmap(p, 8192);
	close(fd);
	fd = memfd_make("empty", 0, &err);
	assert_true(fd >= 0);
	close(fd);
	assert_int_equal(memfd_make("huge", SIZE_MAX, &err), ERR_INFRA);
}

static const struct CMUnitTest tests[] = {
	cmocka_unit_test(round_trip),
	cmocka_unit_test(larger_than_any_socket_buffer),
	cmocka_unit_test(truncated_at_every_byte),
	cmocka_unit_test(length_in_four_parts),
	cmocka_unit_test(a_length_over_the_limit_takes_no_memory),
	cmocka_unit_test(sending_to_a_full_or_closed_peer),
	cmocka_unit_test(descriptors_pass_and_are_close_on_exec),
	cmocka_unit_test(too_many_descriptors_under_way_are_waited_for),
	cmocka_unit_test(unwanted_descriptors_do_not_leak),
	cmocka_unit_test(late_and_orphaned_descriptors_do_not_leak),
	cmocka_unit_test(memfd_cannot_be_resized),
};
TAP_MAIN(tests)
