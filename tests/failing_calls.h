/* Each system call of a use made to fail once, by its number: what is asked of the machine and not
 * done ends the use with a message, whichever of its steps asked for it. An error that a step
 * passes over shows as success. For one source of a program: it takes the place of the C library's
 * calls there, under every room that is linked with it. */
#ifndef HONE_TESTS_FAILING_CALLS_H
#define HONE_TESTS_FAILING_CALLS_H
#include "base/base.h"
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#include <cmocka.h>
#include "leaks.h"

/* Calls until the one that fails, 1: the next; 0 or less: none does. What
 * failed, for the message. */
static int calls_left;
static const char *call_failed;

static bool call_fails(const char *name)
{
	if (calls_left <= 0 || --calls_left) return false;
	call_failed = name;
	errno = EIO;
	return true;
}

/* A folder of this program's own, made by set_up and removed by tear_down. */
static char failing_folder[] = "/tmp/hone-failing-XXXXXX";
static inline int failing_set_up(void **state) { return mkdtemp(failing_folder) ? 0 : -1; }
static inline int failing_tear_down(void **state) { return dir_remove(failing_folder, NULL); }

#define REAL(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))
int open(const char *path, int flags, ...)
{
	va_list ap;
	va_start(ap, flags);
	mode_t mode = flags & O_CREAT ? va_arg(ap, mode_t) : 0;
	va_end(ap);
	return call_fails("open") ? -1 : REAL(open)(path, flags, mode);
}
ssize_t read(int fd, void *data, size_t n) { return call_fails("read") ? -1 : REAL(read)(fd, data, n); }
ssize_t write(int fd, const void *data, size_t n) { return call_fails("write") ? -1 : REAL(write)(fd, data, n); }
int fsync(int fd) { return call_fails("fsync") ? -1 : 0; } /* nobody pulls the plug: the disk is not waited for */
int rename(const char *from, const char *to) { return call_fails("rename") ? -1 : REAL(rename)(from, to); }
int mkdir(const char *path, mode_t mode) { return call_fails("mkdir") ? -1 : REAL(mkdir)(path, mode); }
DIR *opendir(const char *path) { return call_fails("opendir") ? NULL : REAL(opendir)(path); }
FILE *fopen(const char *path, const char *mode) { return call_fails("fopen") ? NULL : REAL(fopen)(path, mode); }
void *mmap(void *at, size_t len, int prot, int flags, int fd, off_t offset)
{
	/* Memory that has no file is the heap's: without it the program ends. */
	bool is_file = !(flags & MAP_ANONYMOUS);
	return is_file && call_fails("mmap") ? MAP_FAILED : REAL(mmap)(at, len, prot, flags, fd, offset);
}

struct failing_use {
	const char *name;
	int (*use)(void *ctx, struct err *err);
	void *ctx;
	int least;
};

static inline void calls_fail_in_turn(void *failing_use)
{
	const struct failing_use *u = failing_use;
	for (int n = 0;; n++) {
		struct err err = {0};
		calls_left = n;
		call_failed = NULL;
		int rc = u->use(u->ctx, &err);
		calls_left = 0;
		if (!call_failed && rc) fail_msg("%s, nothing failing: %s", u->name, err.text);
		if (!call_failed && n) {
			if (n <= u->least) fail_msg("%s makes %d calls, expected %d at least", u->name, n - 1, u->least);
			return;
		}
		if (!call_failed) continue;
		if (!rc) fail_msg("%s: call %d, %s, failed and was passed over", u->name, n, call_failed);
		if (!err.text[0]) fail_msg("%s: call %d, %s, failed without a message", u->name, n, call_failed);
	}
}

/* Runs `use` as often as it makes calls, another failing each time; it succeeds where none does, at
 * first, when libraries fill tables of their own, and at last. Nothing of all that is left behind.
 * least: calls that it makes at least, so that a use which asks for nothing is no test. */
static inline void each_call_fails(const char *name, int (*use)(void *ctx, struct err *err), void *ctx, int least)
{
	leaves_nothing(calls_fail_in_turn, &(struct failing_use){name, use, ctx, least});
}
#endif
