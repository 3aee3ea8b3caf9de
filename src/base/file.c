/* Files and folders.
 *
 * file_write_atomic is the only way this program replaces a file: a temporary beside the target,
 * fsync, rename, fsync of the folder. dir_remove meets folders that sandboxed code filled: it
 * follows no link and needs two descriptors and no recursion whatever the depth, because it moves
 * subfolders of subfolders up to the top and removes them from there. */
#include "base/base.h"
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

static int fail(struct err *err, const char *what, const char *path)
{
	int e = errno;
	return err_set(err, e == ENOENT ? ERR_NOT_FOUND : ERR_IO, "%s: cannot %s: %s", path, what, strerror(e));
}

int file_read(const char *path, size_t bytes_max, struct str *out, struct err *err)
{
	str_clear(out);
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0) return fail(err, "open", path);
	char *chunk = xmalloc(1 << 16);
	int rc = 0;
	for (;;) {
		ssize_t n = read(fd, chunk, 1 << 16);
		if (n < 0 && errno == EINTR) continue;
		if (n < 0) rc = fail(err, "read", path);
		else if ((size_t)n > bytes_max - out->len)
			rc = err_set(err, ERR_LIMIT, "%s: larger than the %zu bytes allowed here", path, bytes_max);
		if (n <= 0 || rc) break;
		str_append(out, chunk, (size_t)n);
	}
	if (rc) str_clear(out);
	else str_append(out, "", 0); /* an empty file is "" and not NULL */
	free(chunk);
	close(fd);
	return rc;
}

int fd_write(int fd, const void *data, size_t len)
{
	for (const char *p = data; len;) {
		ssize_t n = write(fd, p, MIN(len, (size_t)1 << 30)); /* a call takes no more than 2 GiB */
		if (n < 0 && errno == EINTR) continue;
		if (n < 0) return -1;
		p += n;
		len -= (size_t)n;
	}
	return 0;
}

char *path_folder(const char *path)
{
	const char *slash = strrchr(path, '/');
	return slash ? xstrndup(path, slash == path ? 1 : (size_t)(slash - path)) : xstrdup(".");
}

int file_check_writable(const char *path, struct err *err)
{
	char *folder = path_folder(path);
	struct stat st;
	int rc = 0;
	if (stat(path, &st) == 0 && !S_ISREG(st.st_mode))
		rc = err_set(err, ERR_IO, "%s: expected a file to write, found a %s", path,
			S_ISDIR(st.st_mode) ? "folder" : "device or the like");
	else if (stat(folder, &st)) rc = fail(err, "write: its folder cannot be opened", path);
	else if (!S_ISDIR(st.st_mode)) rc = err_set(err, ERR_IO, "%s: cannot write: %s is no folder", path, folder);
	else if (access(folder, W_OK | X_OK)) rc = fail(err, "write into its folder", path);
	free(folder);
	return rc;
}

/* What is missing is made: asked is the nearest folder that is there. */
int dir_check_writable(const char *path, struct err *err)
{
	char *at = xstrdup(path);
	struct stat st;
	int rc = 0;
	while (stat(at, &st) && (errno == ENOENT || errno == ENOTDIR) && strcmp(at, ".") != 0) {
		char *above = path_folder(at);
		free(at);
		at = above;
	}
	if (stat(at, &st)) rc = fail(err, "open", at);
	else if (!S_ISDIR(st.st_mode))
		rc = err_set(err, ERR_IO, "%s: expected a folder to write, found a file%s%s", path,
			strcmp(at, path) ? ": " : "", strcmp(at, path) ? at : "");
	else if (access(at, W_OK | X_OK)) rc = fail(err, "write into this folder", at);
	free(at);
	return rc;
}

int file_write_atomic_by(const char *path, int (*put)(int fd, const void *ctx), const void *ctx, struct err *err)
{
	static atomic_uint serial; /* two threads may write the same path */
	const char *slash = strrchr(path, '/');
	char *folder = path_folder(path);
	char *beside = xasprintf("%s.%d.%u.tmp", path, (int)getpid(), atomic_fetch_add(&serial, 1));
	int fd = -1, dir = -1, rc = 0;
	bool made = false;
	struct stat st;

	if (slash && !slash[1]) {
		rc = err_set(err, ERR_USAGE, "%s: names a folder, not a file", path);
		goto cleanup;
	}
	/* The rename at the end would put a file in the place of a device, for every other process. */
	if (stat(path, &st) == 0 && !S_ISREG(st.st_mode) && !S_ISDIR(st.st_mode)) {
		rc = err_set(err, ERR_IO, "%s: expected a file to write, found a device or the like", path);
		goto cleanup;
	}
	/* The folder is held open so that the rename itself can be synced at the end. */
	dir = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (dir < 0) {
		rc = fail(err, "open its folder", path);
		goto cleanup;
	}
	/* The bytes go to a file beside the target: whoever reads the target sees the old or the new
	 * whole. */
	fd = open(beside, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
	if (fd < 0) {
		rc = fail(err, "create a file beside it", path);
		goto cleanup;
	}
	made = true;
	if (put(fd, ctx) || fsync(fd)) {
		rc = fail(err, "write", path);
		goto cleanup;
	}
	if (rename(beside, path)) {
		rc = fail(err, "replace", path);
		goto cleanup;
	}
	/* From here on the new file is the target, which must not be removed even if the sync fails. */
	made = false;
	if (fsync(dir)) rc = fail(err, "sync its folder", path);
cleanup:
	if (made) unlink(beside);
	if (fd >= 0) close(fd);
	if (dir >= 0) close(dir);
	free(beside);
	free(folder);
	return rc;
}

static int slice_put(int fd, const void *ctx)
{
	const struct slice *s = ctx;
	return fd_write(fd, s->data, s->len);
}

int file_write_atomic(const char *path, const void *data, size_t len, struct err *err)
{
	return file_write_atomic_by(path, slice_put, &(struct slice){data, len}, err);
}

int file_map_open(const char *path, struct file_map *out, struct err *err)
{
	*out = (struct file_map){0};
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0) return fail(err, "open", path);
	struct stat st;
	int rc = 0;
	if (fstat(fd, &st)) rc = fail(err, "stat", path);
	else if (!S_ISREG(st.st_mode)) rc = err_set(err, ERR_IO, "%s: expected a regular file", path);
	else if (st.st_size == 0) out->data = (const uint8_t *)"";
	else {
		void *p = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
		if (p == MAP_FAILED) rc = fail(err, "map", path);
		else *out = (struct file_map){p, (size_t)st.st_size};
	}
	close(fd);
	return rc;
}

void file_map_close(struct file_map *m)
{
	if (m->len) munmap((void *)(uintptr_t)m->data, m->len);
	*m = (struct file_map){0};
}

bool path_exists(const char *path) { return access(path, F_OK) == 0; }

bool path_is_same(const char *a, const char *b)
{
	struct stat x, y;
	return !stat(a, &x) && !stat(b, &y) && x.st_dev == y.st_dev && x.st_ino == y.st_ino;
}

char *path_join(const char *a, const char *b)
{
	size_t len = strlen(a);
	if (!len || b[0] == '/') return xstrdup(b);
	return xasprintf("%s%s%s", a, a[len - 1] == '/' ? "" : "/", b);
}

char *path_installed(const char *relative)
{
	enum { LEVELS_MAX = 5 }; /* build/<config>/tests/<room>/test_x is the deepest program */
	char exe[4096];
	ssize_t n = readlink("/proc/self/exe", exe, sizeof(exe) - 1);
	exe[MAX(n, 0)] = 0;
	char *slash;
	for (int level = 0; level < LEVELS_MAX && (slash = strrchr(exe, '/')); level++) {
		*slash = 0;
		char *path = xasprintf("%s/%s", exe, relative);
		if (path_exists(path)) return path;
		free(path);
	}
	return NULL;
}

char *path_python(void)
{
	const char *named = getenv("HONE_PYTHON");
	if (!named || !*named) return path_installed("build/venv/bin/python");
	/* It is started from other folders than this one. Links stay: by its own name a Python finds
	 * the packages of its environment. */
	char *here = named[0] != '/' && path_exists(named) ? getcwd(NULL, 0) : NULL;
	char *path = here ? path_join(here, named) : xstrdup(named);
	free(here);
	return path;
}

char *path_real(const char *path)
{
	char *real = realpath(path, NULL);
	return real ? real : xstrdup(path);
}

char *path_or_installed(const char *path)
{
	char *shipped = !path[0] || path[0] == '/' || path_exists(path) ? NULL : path_installed(path);
	return shipped ? shipped : xstrdup(path);
}

/* ---- folders ---- */

int dir_make(const char *path, struct err *err)
{
	char *part = xstrdup(path);
	int rc = 0;
	for (char *p = part; !rc;) {
		p += strspn(p, "/");
		p += strcspn(p, "/");
		char end = *p;
		*p = 0;
		struct stat st;
		if (part[0] && mkdir(part, 0777) && errno != EEXIST) rc = fail(err, "create", part);
		else if (!end && (stat(part, &st) || !S_ISDIR(st.st_mode)))
			rc = err_set(err, ERR_IO, "%s: expected a folder", path);
		*p = end;
		if (!end) break;
	}
	free(part);
	return rc;
}

static int by_bytes(const void *a, const void *b) { return strcmp(*(char *const *)a, *(char *const *)b); }

struct names {
	char **list;
	size_t count; /* names in list */
	size_t cap;   /* names that list has room for */
};

static void names_release(struct names *n)
{
	for (size_t i = 0; i < n->count; i++) free(n->list[i]);
	free(n->list);
	*n = (struct names){0};
}

/* Takes fd over. All entries but "." and "..", sorted. */
static int names_read(int fd, struct names *out)
{
	DIR *dir = fdopendir(fd);
	if (!dir) {
		close(fd);
		return -1;
	}
	struct dirent *e;
	while (errno = 0, (e = readdir(dir))) {
		if (!strcmp(e->d_name, ".") || !strcmp(e->d_name, "..")) continue;
		if (out->count == out->cap) {
			out->cap = out->cap ? out->cap * 2 : 32;
			out->list = xrealloc(out->list, size_mul(out->cap, sizeof(char *)));
		}
		out->list[out->count++] = xstrdup(e->d_name);
	}
	int failed = errno;
	closedir(dir);
	if (out->count) qsort(out->list, out->count, sizeof(char *), by_bytes);
	errno = failed;
	return failed ? -1 : 0;
}

int dir_each(const char *path, int (*fn)(const char *name, void *ctx), void *ctx, struct err *err)
{
	int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0) return fail(err, "open folder", path);
	struct names names = {0};
	int rc = names_read(fd, &names) ? fail(err, "read folder", path) : 0;
	for (size_t i = 0; i < names.count && !rc; i++) rc = fn(names.list[i], ctx);
	names_release(&names);
	return rc;
}

/* Empties folder `name` of top: files are unlinked, folders that are not empty move to top under a
 * fresh name. */
static int flatten(int top, const char *name, uint64_t *serial)
{
	/* Without this the owner cannot list it, or move it out of its parent; where it fails,
	 * what follows may not. */
	(void)!fchmodat(top, name, 0700, 0);
	int fd = openat(top, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0) return -1;
	struct names names = {0};
	int rc = names_read(dup(fd), &names);
	for (size_t i = 0; i < names.count && !rc; i++) {
		const char *child = names.list[i];
		if (!unlinkat(fd, child, 0) || !unlinkat(fd, child, AT_REMOVEDIR)) continue;
		char fresh[64];
		do {
			snprintf(fresh, sizeof(fresh), ".removing-%llu", (unsigned long long)(*serial)++);
		} while (!faccessat(top, fresh, F_OK, AT_SYMLINK_NOFOLLOW));
		if (fchmodat(fd, child, 0700, 0) || renameat(fd, child, top, fresh)) rc = -1;
	}
	names_release(&names);
	close(fd);
	return rc;
}

int dir_remove(const char *path, struct err *err)
{
	int top = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (top < 0) return errno == ENOENT ? 0 : fail(err, "open folder", path);
	uint64_t serial = 0;
	int rc = 0;
	for (bool empty = false; !empty && !rc;) {
		struct names names = {0};
		int again = openat(top, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
		rc = again < 0 ? -1 : names_read(again, &names);
		empty = names.count == 0;
		for (size_t i = 0; i < names.count && !rc; i++) {
			const char *name = names.list[i];
			if (!unlinkat(top, name, 0) || !unlinkat(top, name, AT_REMOVEDIR) || errno == ENOENT) continue;
			if (errno != ENOTEMPTY && errno != EEXIST) rc = -1;
			else if (flatten(top, name, &serial) || unlinkat(top, name, AT_REMOVEDIR)) rc = -1;
		}
		names_release(&names);
	}
	if (rc || rmdir(path)) rc = fail(err, "remove", path);
	close(top);
	return rc;
}

static bool ends_in_tmp(const char *name) { return text_ends_in(name, ".tmp"); }

/* NAME.PID.tmp or NAME.PID.N.tmp: a number stands before the ending. */
static bool is_written_beside(const char *name)
{
	size_t n = strlen(name);
	if (!ends_in_tmp(name)) return false;
	size_t digits = 0;
	for (n -= 4; n > 0 && name[n - 1] >= '0' && name[n - 1] <= '9'; n--) digits++;
	return digits > 0 && n > 1 && name[n - 1] == '.';
}

struct leftovers {
	const char *dir;
	bool (*is_leftover)(const char *name);
	struct err *err;
};

static int remove_leftover(const char *name, void *ctx)
{
	struct leftovers *l = ctx;
	if (!l->is_leftover(name)) return 0;
	char *path = path_join(l->dir, name);
	int rc = !unlink(path) || errno == ENOENT ? 0 : dir_remove(path, l->err);
	free(path);
	return rc;
}

int dir_clean(const char *path, struct err *err)
{
	struct leftovers l = {path, ends_in_tmp, err};
	return dir_each(path, remove_leftover, &l, err);
}

/* ---- claims ---- */

/* Folders that this process has locked. A lock belongs to the open descriptor, so a second open of
 * the same folder would meet the first one's lock: they are known by device and inode. */
static struct {
	pthread_mutex_t mutex;
	struct claim {
		dev_t device;
		ino_t inode;
	} *list;
	size_t count;
} claims = {.mutex = PTHREAD_MUTEX_INITIALIZER};

static bool is_claimed(const struct stat *st)
{
	for (size_t i = 0; i < claims.count; i++)
		if (claims.list[i].device == st->st_dev && claims.list[i].inode == st->st_ino) return true;
	return false;
}

static int lock_folder(const char *path, struct err *err)
{
	struct stat st;
	int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0 || fstat(fd, &st)) {
		int rc = fail(err, "open folder", path);
		if (fd >= 0) close(fd);
		return rc;
	}
	if (is_claimed(&st)) {
		close(fd);
		return 0;
	}
	if (flock(fd, LOCK_EX | LOCK_NB) && errno == EWOULDBLOCK) {
		close(fd);
		return err_set(err, ERR_BUSY,
			"%s: another hone is writing into this folder; wait until it ends, or choose another folder", path);
	}
	/* fd stays open: the lock goes with the process. */
	claims.list = xrealloc(claims.list, (claims.count + 1) * sizeof *claims.list);
	claims.list[claims.count++] = (struct claim){.device = st.st_dev, .inode = st.st_ino};
	return 0;
}

int dir_claim(const char *path, struct err *err)
{
	int rc = dir_make(path, err);
	pthread_mutex_lock(&claims.mutex);
	if (!rc) rc = lock_folder(path, err);
	pthread_mutex_unlock(&claims.mutex);
	struct leftovers l = {path, is_written_beside, err};
	return rc ? rc : dir_each(path, remove_leftover, &l, err);
}
