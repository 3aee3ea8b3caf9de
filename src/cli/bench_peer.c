/* Running a benchmark's peer, the clock of both sides, and the folder that they share. */
#include "cli/bench.h"
#include "base/base.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

double bench_seconds(bool cpu_time)
{
	struct timespec t;
	clock_gettime(cpu_time ? CLOCK_PROCESS_CPUTIME_ID : CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static int read_all(int fd, struct str *out, struct err *err)
{
	char chunk[4096];
	for (;;) {
		ssize_t n = read(fd, chunk, sizeof chunk);
		if (n < 0 && errno == EINTR) continue;
		if (n < 0) return err_set(err, ERR_IO, "reading from the peer: %s", strerror(errno));
		if (n == 0) return 0;
		str_append(out, chunk, (size_t)n);
	}
}

static int run(char *const *argv, struct str *out, struct err *err)
{
	int pipes[2];
	char cwd[4096];
	if (!getcwd(cwd, sizeof cwd) || pipe(pipes)) return err_set(err, ERR_IO, "starting the peer: %s", strerror(errno));
	struct child child;
	struct child_options co = {
		.argv = argv, .cwd = cwd, .stdout_fd = pipes[1], .stderr_fd = STDERR_FILENO, .die_with_parent = true};
	int rc = child_spawn(&child, &co, err);
	close(pipes[1]);
	if (!rc) {
		rc = read_all(pipes[0], out, err);
		if (rc) child_kill(&child);
		else rc = child_wait(&child, -1, err);
		char status[64];
		child_status_text(child.status, status, sizeof status);
		if (!rc && child.status) rc = err_set(err, ERR_CHILD, "%s %s: %s", argv[0], argv[1], status);
	}
	close(pipes[0]);
	return rc;
}

int bench_peer_run(char *const *argv, json_t **out, struct err *err)
{
	struct str text = {0};
	size_t count = 0;
	while (argv[count]) count++;
	char **found = memcpy(xcalloc(count + 1, sizeof *found), argv, count * sizeof *found);
	for (int i = 0; i < 2; i++) found[i] = path_or_installed(argv[i]); /* the Python and its script */
	*out = NULL;
	int rc = run(found, &text, err);
	for (int i = 0; i < 2; i++) free(found[i]);
	free(found);
	if (!rc) rc = json_parse(text.data ? text.data : "", text.len, "the peer's answer", out, err);
	str_release(&text);
	return rc;
}

/* ---- temporary folders ---- */

#define FOLDER_PREFIX "hone-bench-"

static int remove_stale(const char *name, void *ctx)
{
	size_t n = strlen(FOLDER_PREFIX);
	long pid = strncmp(name, FOLDER_PREFIX, n) ? 0 : strtol(name + n, NULL, 10);
	if (pid <= 0 || !kill((pid_t)pid, 0) || errno != ESRCH) return 0;
	char *path = path_join("/tmp", name);
	dir_remove(path, NULL);
	free(path);
	return 0;
}

int bench_folder_make(char *path, size_t len, struct err *err)
{
	int rc = dir_each("/tmp", remove_stale, NULL, err);
	if (rc) return rc;
	snprintf(path, len, "/tmp/" FOLDER_PREFIX "%d-XXXXXX", (int)getpid());
	if (mkdtemp(path)) return 0;
	rc = err_set(err, ERR_IO, "%s: cannot be made: %s", path, strerror(errno));
	*path = 0;
	return rc;
}
