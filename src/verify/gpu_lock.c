/* gpu_lock: locks of the kernel's on two bytes of one file, held by an open file description. Byte
 * 0 is the turnstile: everybody passes through it, and who wants to be alone stays in it while
 * waiting for byte 1, the lock itself. */
#include "verify/gpu_lock.h"
#include "base/base.h"
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define NAP_MIN_NS 20000
#define NAP_MAX_NS 200000

enum { TURNSTILE, LOCK };

/* Open to all users, whoever came first. A link or a folder of that name is refused. */
static int file_open(const char *path, struct err *err)
{
	int fd = open(path, O_RDWR | O_CLOEXEC | O_NOFOLLOW);
	if (fd < 0 && errno == ENOENT) {
		fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0666);
		if (fd >= 0) fchmod(fd, 0666);
		else if (errno == EEXIST) fd = open(path, O_RDWR | O_CLOEXEC | O_NOFOLLOW);
	}
	struct stat st;
	if (fd >= 0 && (fstat(fd, &st) || !S_ISREG(st.st_mode))) {
		close(fd);
		fd = -1;
		errno = EINVAL;
	}
	if (fd < 0)
		return err_set(err, ERR_IO, "the GPU's lock %s: %s; every user of the GPU must be able to write to it", path,
			strerror(errno));
	return fd;
}

/* 0, ERR_TIMEOUT or ERR_IO. */
static int take(int fd, int byte, short type, uint64_t deadline_ns, struct err *err)
{
	struct flock l = {.l_type = type, .l_whence = SEEK_SET, .l_start = byte, .l_len = 1};
	long nap = NAP_MIN_NS;
	while (fcntl(fd, F_OFD_SETLK, &l)) {
		if (errno != EAGAIN && errno != EACCES && errno != EINTR)
			return err_set(err, ERR_IO, "the GPU's lock: %s", strerror(errno));
		if (clock_ns() >= deadline_ns) return err_set(err, ERR_TIMEOUT, "the GPU's lock was held all the time");
		nanosleep(&(struct timespec){.tv_nsec = nap}, NULL);
		nap = MIN(2 * nap, NAP_MAX_NS);
	}
	return 0;
}

int gpu_lock_take(const char *folder, const char *uuid, bool alone, int timeout_ms, int *out, struct err *err)
{
	const char *named = getenv("HONE_LOCKS");
	char *path = xasprintf("%s/hone-%s.lock", folder ? folder : named ? named : "/tmp", uuid);
	uint64_t deadline = deadline_in_ms(timeout_ms);
	int fd = file_open(path, err);
	free(path);
	if (fd < 0) return fd;
	int rc = take(fd, TURNSTILE, alone ? F_WRLCK : F_RDLCK, deadline, err);
	if (!rc) rc = take(fd, LOCK, alone ? F_WRLCK : F_RDLCK, deadline, err);
	/* Those behind may come to wait for the lock itself. */
	struct flock open_turnstile = {.l_type = F_UNLCK, .l_whence = SEEK_SET, .l_start = TURNSTILE, .l_len = 1};
	if (!rc && fcntl(fd, F_OFD_SETLK, &open_turnstile))
		rc = err_set(err, ERR_IO, "the GPU's lock: %s", strerror(errno));
	if (rc) close(fd);
	else *out = fd;
	return rc;
}

void gpu_lock_release(int fd)
{
	if (fd >= 0) close(fd);
}
