/* What the fuzz programs share. Each defines LLVMFuzzerTestOneInput; a broken promise ends it by
 * CHECK. */
#ifndef HONE_FUZZ_H
#define HONE_FUZZ_H
#include "base/base.h"
#include <stdlib.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);

/* The input as a file, without a disk: readers take paths. Returns the descriptor that keeps it
 * alive. */
static inline int input_file(const void *data, size_t len, char path[64])
{
	struct err err = {0};
	int fd = memfd_make("fuzz", len, &err);
	CHECK(fd >= 0 && pwrite(fd, data, len, 0) == (ssize_t)len);
	snprintf(path, 64, "/proc/self/fd/%d", fd);
	return fd;
}

/* What is refused must say why. */
static inline void refusal_check(int rc, const struct err *err) { CHECK(rc < 0 && err->code == rc && err->text[0]); }
#endif
