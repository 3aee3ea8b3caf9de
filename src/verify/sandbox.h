/* sandbox: makes the calling process unable to hurt anything. Part of the verify room; also built alone as libhone_sandbox.so, which the
 * Python workers load with ctypes, so the same C code guards them and hone-runner.
 *
 * Levels (docs/verifier.md): `full` user, pid, net, mount and ipc namespaces plus all of `lsm`; `lsm` Landlock and seccomp: no sockets, no exec,
 * no file but the read-only paths given, no signal to another process, no new process; `none` resource limits only.
 * The uid map of a user namespace never names outer uid 0. */
#ifndef HONE_SANDBOX_H
#define HONE_SANDBOX_H
#include <stddef.h>
#include <stdint.h>

enum sandbox_level { SANDBOX_NONE, SANDBOX_LSM, SANDBOX_FULL };
const char *sandbox_level_name(int level);
/* The strongest level that works here, found by trying it in a child; text says what is missing for the next one. */
int sandbox_level_probe(char *text, size_t len);

struct sandbox_options {
	int level;
	const char *const *read_paths;   /* NULL-terminated; readable (and mappable) below these, everything else is closed */
	const char *const *exec_paths;   /* NULL-terminated or NULL; these files may be executed (compile worker only) */
	const char *scratch;             /* NULL or one folder with write access (compile worker only) */
	int64_t memory_bytes;            /* RLIMIT_DATA; 0: unlimited */
	int cpu_s;                       /* RLIMIT_CPU */
	int allow_threads;               /* clone(CLONE_THREAD) */
	int allow_fork;                  /* compile worker only */
};
/* Step 1, before the fork that makes the job's process, in the keeper: namespaces (level full). Step 2, in the job's process: limits, Landlock,
 * seccomp, no_new_privs, non-dumpable. Both return 0, or -errno with a reason in text. */
int sandbox_unshare(const struct sandbox_options *o, char *text, size_t len);
int sandbox_enter(const struct sandbox_options *o, char *text, size_t len);
#endif
