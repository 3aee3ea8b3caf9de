/* What the sandbox's files share. They stand alone (no base.h): libhone_sandbox.so is loaded into
 * Python. */
#ifndef HONE_SANDBOX_INTERNAL_H
#define HONE_SANDBOX_INTERNAL_H
#include "sandbox/sandbox.h"

/* text = "what: reason of err"; returns -err. */
int sandbox_fail(char *text, size_t len, int err, const char *what);
/* 0, or -errno. */
int sandbox_landlock(const struct sandbox_options *o, char *text, size_t len);
int sandbox_landlock_abi(void); /* 0: the kernel has none */
int sandbox_seccomp(const struct sandbox_options *o, char *text, size_t len);
#endif
