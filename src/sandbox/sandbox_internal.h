/* What the sandbox's files share. They stand alone (no base.h): libhone_sandbox.so is loaded into
 * Python. */
#ifndef HONE_SANDBOX_INTERNAL_H
#define HONE_SANDBOX_INTERNAL_H
#include "sandbox/sandbox.h"

/* of sched.h, which the files that use it include */
#define NAMESPACES (CLONE_NEWUSER | CLONE_NEWPID | CLONE_NEWNET | CLONE_NEWNS | CLONE_NEWIPC)

/* text = "what: reason of err"; returns -err. */
int sandbox_fail(char *text, size_t len, int err, const char *what);
/* Inside a new user namespace: maps this user, and no other, to itself. */
int sandbox_map_user(unsigned uid, unsigned gid, char *text, size_t len);
/* The same, and cuts mounts off from the parent's. */
int sandbox_settle(unsigned uid, unsigned gid, char *text, size_t len);
/* 0, or -errno. */
int sandbox_landlock(const struct sandbox_options *o, char *text, size_t len);
int sandbox_landlock_abi(void); /* 0: the kernel has none */
/* What a ruleset handles: refused unless a rule allows it. As the kernel's struct
 * landlock_ruleset_attr. */
struct landlock_handled {
	uint64_t fs;     /* accesses to files */
	uint64_t net;    /* likewise, of the network */
	uint64_t scoped; /* what stays within the sandbox: signals, abstract sockets */
};
/* All that this version of Landlock knows. Returns the bytes of the struct that it knows. */
size_t sandbox_landlock_handled(int abi, struct landlock_handled *out);
int sandbox_seccomp(const struct sandbox_options *o, char *text, size_t len);
/* Makes the filter that a child, which will see itself as process `pid`, is to load, and keeps it
 * for the next ones. Where that fails the child makes its own. */
void sandbox_seccomp_prepare(const struct sandbox_options *o, int pid);
#endif
