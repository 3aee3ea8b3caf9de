/* What the tests of base share: cmocka, a scratch folder, and a check that a call aborts. */
#ifndef HONE_BASE_TEST_H
#define HONE_BASE_TEST_H
#include "base/base.h"
#include <setjmp.h>
#include <cmocka.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

/* Fresh folder under the build's; the caller removes it with scratch_remove. */
static inline char *scratch_make(void)
{
	const char *build = getenv("BUILD");
	char *path = xasprintf("%s/test-tmp.XXXXXX", build ? build : "build/release");
	assert_non_null(mkdtemp(path));
	return path;
}

static inline void scratch_remove(char *path)
{
	struct err err = {0};
	assert_int_equal(dir_remove(path, &err), 0);
	assert_false(path_exists(path));
	free(path);
}

static inline void write_text(const char *path, const char *text)
{
	struct err err = {0};
	assert_int_equal(file_write_atomic(path, text, strlen(text), &err), 0);
}

/* Runs fn in a child with stderr closed; true when it aborted. */
static inline bool aborts(void (*fn)(void))
{
	fflush(NULL);
	pid_t pid = fork();
	if (pid == 0) {
		signal(SIGABRT, SIG_DFL);
		int null = open("/dev/null", O_WRONLY);
		dup2(null, 2);
		fn();
		_exit(0);
	}
	int status = 0;
	waitpid(pid, &status, 0);
	return WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT;
}

/* Number of descriptors this process has open. */
static inline int open_descriptors(void)
{
	int count = 0;
	for (int fd = 0; fd < 1024; fd++) count += fcntl(fd, F_GETFD) >= 0;
	return count;
}

#define TAP_MAIN(tests) \
	int main(void) { \
		cmocka_set_message_output(CM_OUTPUT_TAP); \
		return cmocka_run_group_tests(tests, NULL, NULL); \
	}
#endif
