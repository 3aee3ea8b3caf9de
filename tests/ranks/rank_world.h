/* A job of several ranks for tests: processes that are forked here, with the
 * variables that torchrun sets. */
#ifndef HONE_TESTS_RANK_WORLD_H
#define HONE_TESTS_RANK_WORLD_H
#include <netinet/in.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>
#include "base/base.h"
#include "ranks/ranks.h"

/* A port at which nobody listens now. */
static inline int free_port(void)
{
	struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	socklen_t len = sizeof a;
	int fd = socket(AF_INET, SOCK_STREAM, 0);
	assert_int_equal(bind(fd, (struct sockaddr *)&a, sizeof a), 0);
	assert_int_equal(getsockname(fd, (struct sockaddr *)&a, &len), 0);
	close(fd);
	return ntohs(a.sin_port);
}

static inline void set_number(const char *name, int value)
{
	char text[16];
	snprintf(text, sizeof text, "%d", value);
	setenv(name, text, 1);
}

/* Variables as torchrun sets them. */
static inline void rank_variables(int rank, int world, int port)
{
	set_number("RANK", rank);
	set_number("LOCAL_RANK", rank);
	set_number("WORLD_SIZE", world);
	set_number("MASTER_PORT", port - 1);
	setenv("MASTER_ADDR", "127.0.0.1", 1);
}

/* What a rank does; its result is its exit status, 0 to 127. */
typedef int rank_fn(int rank, void *ctx);
static inline pid_t rank_start(int rank, int world, int port, rank_fn *fn, void *ctx)
{
	fflush(NULL);
	pid_t pid = fork();
	if (pid) return pid;
	alarm(120);
	rank_variables(rank, world, port);
	int status = fn(rank, ctx);
	fflush(NULL);
	_exit(status);
}

/* Exit status, or 128 and the signal. */
static inline int rank_end(pid_t pid)
{
	int status = 0;
	waitpid(pid, &status, 0);
	return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

/* All ranks to their ends; status (world). */
static inline void ranks_run(int world, rank_fn *fn, void *ctx, int *status)
{
	pid_t pids[16];
	int port = free_port();
	for (int k = 0; k < world; k++) pids[k] = rank_start(k, world, port, fn, ctx);
	for (int k = 0; k < world; k++) status[k] = rank_end(pids[k]);
}

/* In a rank: ends it with a line where the condition does not hold. */
#define NEED(condition, ...) \
	do { \
		if (!(condition)) { \
			fprintf(stderr, "# rank %s: %s: ", getenv("RANK"), #condition); \
			fprintf(stderr, __VA_ARGS__); \
			fprintf(stderr, "\n"); \
			return 1; \
		} \
	} while (0)
#endif
