/* How processes come into a sandbox and end: the map of users, a child that dies with its parent,
 * and a template whose jobs are the zygote's. */
#include "sandbox/sandbox.h"
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

#define HUGE_PAGE (2 << 20)
#ifndef MADV_COLLAPSE
#define MADV_COLLAPSE 25
#endif
#define HOLES 1000 /* pieces that the template's memory has, every second one free */
#define HOLE_BYTES 40
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define HAS_OTHER_MALLOC true
#else
#define HAS_OTHER_MALLOC false
#endif

static struct sandbox_options options_for(int level)
{
	return (struct sandbox_options){.level = level, .memory_bytes = (int64_t)256 << 20, .cpu_s = 60};
}

/* The uid map, read by the parent from outside: one line, which does not name outer uid 0. */
static void test_uid_map(void **state)
{
	char text[256] = "", path[64], map[128] = "";
	if (sandbox_level_probe(text, sizeof(text)) < SANDBOX_FULL) skip();
	int fds[2], go[2], status;
	assert_return_code(pipe(fds), errno);
	assert_return_code(pipe(go), errno);
	struct sandbox_options o = options_for(SANDBOX_FULL);
	pid_t pid = fork();
	/* The child enters the namespaces and waits until the map was read. */
	if (pid == 0) {
		char c;
		int rc = sandbox_unshare(&o, text, sizeof(text));
		_exit(write(fds[1], "x", 1) != 1 || read(go[0], &c, 1) != 1 || rc);
	}
	char c;
	/* The map as the parent's namespace sees it. */
	assert_int_equal(read(fds[0], &c, 1), 1);
	snprintf(path, sizeof(path), "/proc/%d/uid_map", (int)pid);
	int fd = open(path, O_RDONLY);
	ssize_t n = read(fd, map, sizeof(map) - 1);
	close(fd);
	assert_true(n > 0);
	unsigned inner, outer, count;
	assert_int_equal(sscanf(map, "%u %u %u", &inner, &outer, &count), 3);
	assert_int_not_equal(outer, 0);
	assert_int_equal(count, 1);
	assert_ptr_equal(strchr(map, '\n'), map + n - 1);
	/* The child lived through it and ends well. */
	assert_int_equal(write(go[1], "x", 1), 1);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
}

/* Reads n bytes within ten seconds; how many came. */
static size_t read_soon(int fd, void *data, size_t n)
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

/* The process between the test and sandbox_fork's child; never returns. The child says on fd
 * whether it is inside. */
static void keeper_main(int fd)
{
	char text[256] = "";
	struct sandbox_options o = options_for(SANDBOX_FULL);
	if (sandbox_drop_root(text, sizeof(text))) _exit(1);
	int pid = sandbox_fork(&o, text, sizeof(text));
	if (pid < 0) _exit(1);
	if (pid == 0) {
		char inside = !*text && getpid() == 1 && sandbox_enter(&o, text, sizeof(text)) == 0;
		if (write(fd, &inside, 1) != 1) _exit(1);
		poll(NULL, 0, 30000); /* not for ever: a child that outlives its parent is what this test looks for */
		_exit(0);
	}
	close(fd);
	for (;;) pause();
}

/* sandbox_fork: the child is inside, and dies with its parent. */
static void test_fork(void **state)
{
	char text[256] = "", inside = 0, more;
	int fds[2], status;
	if (sandbox_level_probe(text, sizeof(text)) < SANDBOX_FULL) skip();
	assert_return_code(pipe(fds), errno);
	pid_t keeper = fork();
	if (keeper == 0) keeper_main(fds[1]);
	close(fds[1]);
	size_t have = read_soon(fds[0], &inside, 1);
	kill(keeper, SIGKILL);
	waitpid(keeper, &status, 0);
	struct pollfd p = {.fd = fds[0], .events = POLLIN};
	int ended = poll(&p, 1, 10000) == 1 && read(fds[0], &more, 1) == 0; /* the child, the last writer, is dead */
	close(fds[0]);
	assert_int_equal(have, 1);
	assert_true(inside);
	assert_true(ended);
}

/* ---- a template ---- */

/* What a job's process says on the first descriptor of its order. */
struct said {
	bool is_child;   /* of the zygote, as far as the namespace lets it see */
	bool is_settled; /* without a word about its namespaces */
	bool is_alone;   /* no descriptor is open but those of its order */
	bool is_whole;   /* a huge page that came apart in the template */
	bool is_behind;  /* what malloc gives lies behind the holes of the template's memory */
	int level;
	ino_t network; /* the number of its namespace */
};

static ino_t own_network(void)
{
	struct stat s = {0};
	return stat("/proc/self/ns/net", &s) ? 0 : s.st_ino;
}

/* Kilobytes of huge pages in the mapping that begins here. */
static long huge_kb(const char *at)
{
	char begin[32], line[512];
	bool is_there = false;
	long kb = -1;
	snprintf(begin, sizeof begin, "%lx-", (unsigned long)(uintptr_t)at);
	FILE *f = fopen("/proc/self/smaps", "r");
	while (f && kb < 0 && fgets(line, sizeof line, f)) {
		is_there |= !strncmp(line, begin, strlen(begin));
		if (is_there && !strncmp(line, "AnonHugePages:", 14)) kb = atol(line + 14);
	}
	if (f) fclose(f);
	return kb;
}

/* A huge page of which a part was made anew, so that it is one no longer; NULL where the kernel has
 * none. */
static char *apart(void)
{
	char *room = mmap(NULL, 3 * HUGE_PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (room == MAP_FAILED) _exit(1);
	char *at = room + (HUGE_PAGE - (uintptr_t)room % HUGE_PAGE);
	if (mprotect(at, HUGE_PAGE, PROT_READ | PROT_WRITE)) _exit(1);
	memset(at, 1, HUGE_PAGE);
	if (madvise(at, HUGE_PAGE, MADV_COLLAPSE) || huge_kb(at) != HUGE_PAGE >> 10) return NULL;
	madvise(at, 4096, MADV_DONTNEED);
	*at = 2;
	if (huge_kb(at)) _exit(1);
	return at;
}

/* Whether no descriptor is open behind the first three but those of an order. */
static bool has_only(const int fds[SANDBOX_ORDER_FDS])
{
	bool is_alone = true;
	for (int fd = 3; fd < 1024; fd++) {
		bool is_given = false;
		for (int i = 0; i < SANDBOX_ORDER_FDS; i++) is_given |= fd == fds[i];
		is_alone &= is_given == (fcntl(fd, F_GETFD) >= 0);
	}
	return is_alone;
}

/* The template; in each job's process it says something, and then waits to be killed. */
static void template_main(int orders, pid_t zygote)
{
	char text[256] = "", *huge = apart(), *made[HOLES], *given = NULL;
	int fds[SANDBOX_ORDER_FDS];
	struct sandbox_options o = options_for(SANDBOX_NONE);
	/* Every second piece is given back. */
	for (int i = 0; i < HOLES; i++) made[i] = malloc(HOLE_BYTES);
	for (int i = 0; i < HOLES; i += 2) free(made[i]);
	const char *last = made[HOLES - 1];
	sandbox_template_serve(orders, &o, fds, NULL, (void *[]){huge, NULL}, text, sizeof text);
	for (int i = 0; i < HOLES / 4 && (!i || given > last); i++) given = malloc(HOLE_BYTES);
	struct said said = {.is_child = getppid() == (o.level == SANDBOX_FULL ? 0 : zygote),
		.is_settled = !*text,
		.is_alone = has_only(fds),
		.is_whole = !huge || huge_kb(huge) == HUGE_PAGE >> 10,
		.is_behind = given > last || HAS_OTHER_MALLOC,
		.level = o.level,
		.network = own_network()};
	if (write(fds[0], &said, sizeof said) != sizeof said) _exit(1);
	poll(NULL, 0, 30000);
	_exit(0);
}

/* How often a template was interrupted, in memory that it shares with its zygote. */
static atomic_int *interrupts;
static void on_signal(int signal) { ++*interrupts; }

/* A signal while the template waits for an order: its handler ran, and it waits on. */
static void interrupt(pid_t template)
{
	char path[64], line[256] = "";
	int before = *interrupts;
	snprintf(path, sizeof path, "/proc/%d/stat", (int)template);
	/* The only place where it sleeps is where it waits. */
	for (const char *state = NULL; !state || strncmp(state, ") S", 3); state = strrchr(line, ')')) {
		FILE *f = fopen(path, "r");
		if (!f || !fgets(line, sizeof line, f)) _exit(1);
		fclose(f);
	}
	kill(template, SIGUSR1);
	while (*interrupts == before) poll(NULL, 0, 1);
}

/* A template whose zygote closes the way of orders ends, after a signal as well. */
static bool ends_with_its_orders(void)
{
	char text[256] = "";
	int pair[2], fds[SANDBOX_ORDER_FDS], status = 0;
	struct sandbox_options o = options_for(SANDBOX_NONE);
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair)) _exit(1);
	int template = sandbox_template_fork(text, sizeof text);
	if (template == 0) sandbox_template_serve(pair[1], &o, fds, NULL, NULL, text, sizeof text);
	close(pair[1]);
	interrupt(template);
	close(pair[0]);
	return waitpid(template, &status, 0) == template && status == 0;
}

/* The zygote: has its template start a job at each level, waits for the first one's end, tells the
 * test what became of them, and stays until it is killed. */
static void zygote_main(int fd)
{
	char text[256] = "";
	int pair[2], status = 0, good = 0;
	ino_t network = 0; /* of the first job */
	pid_t zygote = getpid();
	struct sigaction action = {.sa_handler = on_signal};
	interrupts = mmap(NULL, sizeof *interrupts, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (interrupts == MAP_FAILED || sigaction(SIGUSR1, &action, NULL)) _exit(1);
	if (sandbox_drop_root(text, sizeof text) || socketpair(AF_UNIX, SOCK_SEQPACKET, 0, pair)) _exit(1);
	int template = sandbox_template_fork(text, sizeof text);
	if (template == 0) template_main(pair[1], zygote);
	close(pair[1]);
	interrupt(template);
	int highest = sandbox_level_probe(text, sizeof text);
	for (int level = SANDBOX_NONE; level <= highest; level += SANDBOX_FULL) {
		int words[2];
		struct said said = {0};
		if (pipe(words)) _exit(1);
		/* Every job has the test's pipe: it hangs up when the last of them is dead. */
		int pid = sandbox_template_order(pair[0], level, (int[]){words[1], fd, fd}, 10000);
		good += pid > 0 && read_soon(words[0], &said, sizeof said) == sizeof said && said.is_child && said.is_settled &&
			said.is_alone && said.is_whole && said.is_behind && said.level == level;
		/* One network for all jobs, which is not the zygote's where there are namespaces. */
		if (level == SANDBOX_NONE) network = said.network;
		good += said.network == network && (network != own_network()) == (highest == SANDBOX_FULL);
		if (level == SANDBOX_NONE && pid > 0) {
			kill(pid, SIGKILL);
			good += waitpid(pid, &status, 0) == pid && WIFSIGNALED(status); /* it is this process's to wait for */
		}
	}
	good += ends_with_its_orders();
	char result = (char)(good == 4 + 2 * (highest == SANDBOX_FULL));
	if (write(fd, &result, 1) != 1) _exit(1);
	close(fd);
	for (;;) pause();
}

/* Jobs are the zygote's children, not the template's; they and the template die with it. */
static void test_template(void **state)
{
	char result = 0, more;
	int fds[2], status;
	assert_return_code(pipe(fds), errno);
	pid_t zygote = fork();
	if (zygote == 0) zygote_main(fds[1]);
	close(fds[1]);
	size_t have = read_soon(fds[0], &result, 1);
	kill(zygote, SIGKILL);
	waitpid(zygote, &status, 0);
	struct pollfd p = {.fd = fds[0], .events = POLLIN};
	int ended = poll(&p, 1, 10000) == 1 && read(fds[0], &more, 1) == 0;
	close(fds[0]);
	assert_int_equal(have, 1);
	assert_true(result);
	assert_true(ended);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_uid_map), cmocka_unit_test(test_fork), cmocka_unit_test(test_template)};
	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
