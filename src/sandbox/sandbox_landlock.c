/* Landlock: which files exist for a job. Everything is closed but what the options name; an
 * inherited descriptor keeps working. By system call: the C library has no wrappers, and Debian's
 * header is older than the kernels this runs on, so the later constants are here with the ABI
 * version that brought them. */
#include "sandbox/sandbox_internal.h"
#include <errno.h>
#include <fcntl.h>
#include <linux/landlock.h>
#include <stddef.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#define ACCESS_FS_TRUNCATE  (1ull << 14)   /* ABI 3 */
#define ACCESS_FS_IOCTL_DEV (1ull << 15)   /* ABI 5 */
#define ACCESS_NET_ALL      3ull           /* ABI 4: bind and connect of TCP */
#define SCOPE_ALL           3ull           /* ABI 6: abstract sockets, signals */

#define READ  (LANDLOCK_ACCESS_FS_READ_FILE | LANDLOCK_ACCESS_FS_READ_DIR)
#define EXEC  (LANDLOCK_ACCESS_FS_READ_FILE | LANDLOCK_ACCESS_FS_EXECUTE)
#define WRITE \
	(READ | LANDLOCK_ACCESS_FS_WRITE_FILE | LANDLOCK_ACCESS_FS_MAKE_REG | LANDLOCK_ACCESS_FS_MAKE_DIR | \
		LANDLOCK_ACCESS_FS_REMOVE_FILE | LANDLOCK_ACCESS_FS_REMOVE_DIR | ACCESS_FS_TRUNCATE | \
		LANDLOCK_ACCESS_FS_REFER) /* from one folder to another: compilers write beside and rename */
#define DEVICE (LANDLOCK_ACCESS_FS_READ_FILE | LANDLOCK_ACCESS_FS_WRITE_FILE | ACCESS_FS_IOCTL_DEV)
/* The names of its threads. */
#define OWN_THREADS (READ | LANDLOCK_ACCESS_FS_WRITE_FILE | ACCESS_FS_TRUNCATE)
#define FILE_ONLY \
	(LANDLOCK_ACCESS_FS_READ_FILE | LANDLOCK_ACCESS_FS_WRITE_FILE | LANDLOCK_ACCESS_FS_EXECUTE | \
		ACCESS_FS_TRUNCATE | ACCESS_FS_IOCTL_DEV)

int sandbox_landlock_abi(void)
{
	long abi = syscall(SYS_landlock_create_ruleset, NULL, 0, LANDLOCK_CREATE_RULESET_VERSION);
	return abi < 0 ? 0 : (int)abi;
}

size_t sandbox_landlock_handled(int abi, struct landlock_handled *out)
{
	*out = (struct landlock_handled){.fs = (1ull << 13) - 1};
	if (abi >= 2) out->fs |= LANDLOCK_ACCESS_FS_REFER;
	if (abi >= 3) out->fs |= ACCESS_FS_TRUNCATE;
	if (abi >= 4) out->net = ACCESS_NET_ALL;
	if (abi >= 5) out->fs |= ACCESS_FS_IOCTL_DEV;
	if (abi >= 6) out->scoped = SCOPE_ALL;
	return abi >= 6 ? sizeof *out
		: abi >= 4  ? offsetof(struct landlock_handled, scoped)
					: offsetof(struct landlock_handled, net);
}

/* A path that does not exist, or that this user cannot reach, opens nothing; so there is nothing to
 * allow either. */
static int allow(int ruleset, const char *path, uint64_t access)
{
	int fd = open(path, O_PATH | O_CLOEXEC);
	if (fd < 0) return errno == ENOENT || errno == EACCES || errno == ENOTDIR ? 0 : -errno;
	struct stat st;
	if (fstat(fd, &st) == 0 && !S_ISDIR(st.st_mode)) access &= FILE_ONLY;
	struct landlock_path_beneath_attr rule = {.allowed_access = access, .parent_fd = fd};
	int rc = syscall(SYS_landlock_add_rule, ruleset, LANDLOCK_RULE_PATH_BENEATH, &rule, 0) ? -errno : 0;
	close(fd);
	return rc;
}

static int allow_list(int ruleset, const char *const *paths, uint64_t access)
{
	int rc = 0;
	for (; paths && *paths && !rc; paths++) rc = allow(ruleset, *paths, access);
	return rc;
}

int sandbox_landlock(const struct sandbox_options *o, char *text, size_t len)
{
	int abi = sandbox_landlock_abi();
	if (abi == 0) return sandbox_fail(text, len, ENOSYS, "Landlock");
	struct landlock_handled attr;
	size_t size = sandbox_landlock_handled(abi, &attr);
	int ruleset = (int)syscall(SYS_landlock_create_ruleset, &attr, size, 0);
	if (ruleset < 0) return sandbox_fail(text, len, errno, "landlock_create_ruleset");
	int rc = allow_list(ruleset, o->read_paths, READ & attr.fs);
	if (!rc) rc = allow_list(ruleset, o->exec_paths, EXEC & attr.fs);
	if (!rc) rc = allow_list(ruleset, o->device_paths, DEVICE & attr.fs);
	if (!rc && o->device_paths) rc = allow(ruleset, "/proc/self/task", OWN_THREADS & attr.fs);
	if (!rc && o->scratch) rc = allow(ruleset, o->scratch, WRITE & attr.fs);
	if (!rc && syscall(SYS_landlock_restrict_self, ruleset, 0)) rc = -errno;
	close(ruleset);
	return rc ? sandbox_fail(text, len, -rc, "Landlock rules") : 0;
}
