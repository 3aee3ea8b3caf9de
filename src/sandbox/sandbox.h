/* sandbox: makes the calling process unable to hurt anything. Linked into hone-runner and the
 * verifier, and built alone as libhone_sandbox.so, which the Python workers load with ctypes, so
 * the same C code guards all of them.
 *
 * Levels (docs/verifier.md): `full` user, pid, net, mount and ipc namespaces plus all of `lsm`;
 * `lsm` Landlock and seccomp: no sockets, no exec, no file but the read-only paths given, no signal
 * to another process, no new process; `none` resource limits only. The uid map of a user namespace
 * never names outer uid 0. */
#ifndef HONE_SANDBOX_H
#define HONE_SANDBOX_H
#include <stddef.h>
#include <stdint.h>

enum sandbox_level { SANDBOX_NONE, SANDBOX_LSM, SANDBOX_FULL };
const char *sandbox_level_name(int level);
/* The strongest level that works here, found by trying it in a child; text says what is missing for
 * the next one. */
int sandbox_level_probe(char *text, size_t len);

struct sandbox_options {
	int level;
	const char *const *read_paths; /* NULL-terminated; readable (and mappable) below these, everything else is closed */
	const char *const *exec_paths; /* NULL-terminated or NULL; these files may be executed (compile worker only) */
	const char *scratch;           /* NULL or one folder with write access (compile worker only) */
	int64_t memory_bytes; /* memory beyond what the process has when it enters (RLIMIT_DATA, RLIMIT_AS); 0: unlimited */
	int cpu_s;            /* RLIMIT_CPU; 0: unlimited */
	int allow_threads;    /* clone(CLONE_THREAD) */
	int allow_fork;       /* compile worker only */
	int allow_memfd;      /* oracle only: memory files, each of at most memory_bytes */
	/* NULL-terminated or NULL; device files to read, write and command (GPU's runner only). The
	 * process may then also name its threads in /proc/self/task, for which it stays dumpable, and
	 * listen on a local socket: the driver does not start without. */
	const char *const *device_paths;
};
/* What a process that will hold a GPU's context must be allowed beyond what o says: the driver
 * starts threads, reserves address space by the terabyte and speaks to its device files; the
 * system's libraries and its own settings under /proc and /sys are read while it starts. Sets
 * read_paths: what else is to be read is added by the caller. */
void sandbox_allow_gpu(struct sandbox_options *o);
/* Step 1, before the fork that makes the job's process: namespaces (level full), and uid 65534
 * instead of root. Step 2, in the job's process, which must have one thread: limits, Landlock,
 * seccomp, no_new_privs, no capabilities, non-dumpable. Both return 0, or -errno with a reason in
 * text. */
int sandbox_unshare(const struct sandbox_options *o, char *text, size_t len);
int sandbox_enter(const struct sandbox_options *o, char *text, size_t len);
/* Step 2 of a process that becomes a developer's tool (compute-sanitizer, Nsight Compute), which
 * starts the process that it watches, writes scratch files and speaks with it over local sockets:
 * namespaces (level full), with a loopback, /proc and a /dev/shm of their own, and no capabilities.
 * No Landlock and no seccomp. */
int sandbox_enter_tool(const struct sandbox_options *o, char *text, size_t len);
/* A root process becomes uid and gid 65534 for good, with no groups and no capabilities; nothing
 * for others. */
int sandbox_drop_root(char *text, size_t len);
/* fork() whose child is born in new namespaces (level full; the caller must not be root), so that
 * no process stands between the two: what a zygote with many children uses instead of
 * sandbox_unshare. Returns the child's pid, 0 in the child, or -errno; text is not empty in a child
 * whose namespaces could not be settled (it must end at once). The child dies with its parent. */
int sandbox_fork(const struct sandbox_options *o, char *text, size_t len);

/* A template: a fork of a zygote that only forks, so that the huge pages of its memory stay whole.
 * sandbox_template_fork returns its pid, 0 in it, or -errno. A program that was started to be one
 * does without, and whoever started it has the zygote's place. In it, sandbox_template_serve takes
 * orders from a SOCK_SEQPACKET socket: an int, the level of the next job's process, with
 * SANDBOX_ORDER_FDS descriptors for it; the answer is an int, that process's pid (a child of the
 * zygote's) or -errno. It ends when the other side of the socket does, dies with the zygote, and
 * returns in each job's process alone, with the descriptors in fds and what sandbox_fork leaves in
 * text. Of `o` all but the level is the same for all jobs, and at level full they have one network
 * together, of the template's own and without a way out; all other namespaces are each job's.
 * Before the first order all holes of malloc's memory are filled, `settle` (or NULL) does the same
 * for what else hands out memory, and the memory at `pieces` (addresses, then NULL; or NULL) is
 * moved into huge pages. */
#define SANDBOX_ORDER_FDS 3
int sandbox_template_fork(char *text, size_t len);
/* The other side: one order, and its answer within ms. -EIO: the template is gone, or silent. */
int sandbox_template_order(int orders, int level, const int fds[SANDBOX_ORDER_FDS], int ms);
void sandbox_template_serve(int orders, struct sandbox_options *o, int fds[SANDBOX_ORDER_FDS], void (*settle)(void),
	void *const *pieces, char *text, size_t len);
#endif
