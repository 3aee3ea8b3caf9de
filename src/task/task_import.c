/* Other people's task sets: the root of a KernelBench checkout, Parquet files of its dataset's
 * rows, TritonBench-T's rows. What is not Python or JSON lines is turned into rows by
 * worker/rows.py, a sandboxed program that executes no task; its rows come through a pipe and are
 * parsed like any stranger's. */
#include "task/task_set.h"
#include "base/base.h"
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#define READER_TIMEOUT_MS 300000
#define ROWS_BYTES_MAX ((size_t)1 << 30)
#define WORDS_BYTES_MAX ((size_t)1 << 20)
#define STATUS_REFUSED 3   /* of worker/rows.py: its last line says why */

static bool is_folder(const char *path)
{
	struct stat st;
	return stat(path, &st) == 0 && S_ISDIR(st.st_mode);
}

/* The first byte that is no white space, or 0. */
static int first_byte(const char *path)
{
	FILE *f = fopen(path, "rb");
	int c = f ? fgetc(f) : EOF;
	while (f && (c == ' ' || c == '\t' || c == '\r' || c == '\n')) c = fgetc(f);
	if (f) fclose(f);
	return c == EOF ? 0 : c;
}

/* ---- the reader's process ---- */

struct reader {
	struct child child;
	struct pollfd pipes[2];
	struct str said[2];
}; /* 0: rows, 1: words for people */

/* Reads what one pipe has; closes it at its end. */
static int pipe_read(struct reader *r, int i, struct err *err)
{
	static const size_t LIMITS[] = {ROWS_BYTES_MAX, WORDS_BYTES_MAX};
	char bytes[1 << 16];
	ssize_t n = read(r->pipes[i].fd, bytes, sizeof bytes);
	if (n < 0 && errno == EINTR) return ERR_OK;
	if (n > 0) str_append(&r->said[i], bytes, (size_t)n);
	if (n <= 0) {
		close(r->pipes[i].fd);
		r->pipes[i].fd = -1;
	}
	return r->said[i].len <= LIMITS[i] ? ERR_OK
									   : err_set(err, ERR_LIMIT, "the reader wrote more than %zu MiB", LIMITS[i] >> 20);
}

/* Reads both pipes until they are closed, so that neither fills up while
 * the other is waited for. */
static int reader_wait(struct reader *r, struct err *err)
{
	uint64_t deadline = deadline_in_ms(READER_TIMEOUT_MS);
	int rc = ERR_OK;
	while (!rc && (r->pipes[0].fd >= 0 || r->pipes[1].fd >= 0)) {
		uint64_t now = clock_ns();
		int ready = now < deadline ? poll(r->pipes, 2, (int)((deadline - now) / 1000000) + 1) : 0;
		if (ready == 0) rc = err_set(err, ERR_TIMEOUT, "the reader took longer than %d s", READER_TIMEOUT_MS / 1000);
		if (ready < 0 && errno != EINTR) rc = err_set(err, ERR_INFRA, "poll: %s", strerror(errno));
		for (int i = 0; i < 2 && !rc && ready > 0; i++)
			if (r->pipes[i].fd >= 0 && r->pipes[i].revents) rc = pipe_read(r, i, err);
	}
	return rc ? rc : child_wait(&r->child, READER_TIMEOUT_MS, err);
}

static int reader_start(struct reader *r, char *const *argv, struct err *err)
{
	int out[2] = {-1, -1}, words[2] = {-1, -1};
	int rc = pipe2(out, O_CLOEXEC) || pipe2(words, O_CLOEXEC)
		? err_set(err, ERR_INFRA, "cannot make a pipe: %s", strerror(errno))
		: ERR_OK;
	struct child_options o = {.argv = argv, .stdout_fd = out[1], .stderr_fd = words[1], .die_with_parent = true};
	if (!rc) rc = child_spawn(&r->child, &o, err);
	if (out[1] >= 0) close(out[1]);
	if (words[1] >= 0) close(words[1]);
	r->pipes[0] = (struct pollfd){.fd = out[0], .events = POLLIN};
	r->pipes[1] = (struct pollfd){.fd = words[0], .events = POLLIN};
	return rc;
}

static void reader_release(struct reader *r)
{
	child_kill(&r->child);
	for (int i = 0; i < 2; i++) {
		if (r->pipes[i].fd >= 0) close(r->pipes[i].fd);
		str_release(&r->said[i]);
	}
}

/* The reader's last line, which says why it gave up. */
static const char *last_line(struct str *words)
{
	while (words->len && words->data[words->len - 1] == '\n') words->data[--words->len] = 0;
	const char *nl = words->len ? strrchr(words->data, '\n') : NULL;
	return words->len ? nl ? nl + 1 : words->data : "it said nothing";
}

static int reader_verdict(struct reader *r, const char *path, struct err *err)
{
	char status[64];
	if (r->child.status == 0) return ERR_OK;
	child_status_text(r->child.status, status, sizeof status);
	bool is_refused = WIFEXITED(r->child.status) && WEXITSTATUS(r->child.status) == STATUS_REFUSED;
	return is_refused
		? err_set(err, ERR_FORMAT, "%s: %.700s", path, last_line(&r->said[1]))
		: err_set(err, ERR_CHILD, "%s: worker/rows.py ended with %s: %.500s", path, status, last_line(&r->said[1]));
}

/* ---- its rows ---- */

static int rows_add(const struct str *rows, const char *path, struct task_set *out, struct err *err)
{
	int rc = ERR_OK, number = 1;
	for (const char *p = rows->data, *end = p + rows->len; p && p < end && !rc; number++) {
		const char *nl = memchr(p, '\n', (size_t)(end - p));
		size_t len = (size_t)((nl ? nl : end) - p);
		char where[1024];
		json_t *row = NULL;
		snprintf(where, sizeof where, "%.900s: row %d", path, number);
		rc = json_parse(p, len, where, &row, err);
		if (!rc)
			rc = json_is_object(row) ? task_row_add(out, row, where, err)
									 : err_set(err, ERR_FORMAT, "%s: expected an object", where);
		json_decref(row);
		p += len + 1;
	}
	return rc;
}

static int reader_run(const char *kind, const char *path, struct task_set *out, struct err *err)
{
	struct reader r = {.child = {.pid = -1, .reaped = true}, .pipes = {{.fd = -1}, {.fd = -1}}};
	char *python = path_python(), *script = path_installed("worker/rows.py"),
		 *library = path_installed("libhone_sandbox.so");
	char *whole = realpath(path, NULL);
	/* What is missing is named before anything is started. */
	int rc = whole ? ERR_OK : err_set(err, ERR_NOT_FOUND, "%s: cannot open: %s", path, strerror(errno));
	if (!rc && !(python && script && library))
		rc = err_set(err, ERR_NOT_FOUND, "%s: reading it needs %s, which is not there; run `make`, or tools/setup.sh",
			path,
			!python       ? "build/venv/bin/python"
				: !script ? "worker/rows.py"
						  : "libhone_sandbox.so");
	/* The reader runs to its end, and its verdict is heard before any of its rows is believed. */
	if (!rc)
		rc = reader_start(&r, (char *[]){python, "-I", script, (char *)(uintptr_t)kind, whole, library, NULL}, err);
	if (!rc) rc = reader_wait(&r, err);
	if (!rc) rc = reader_verdict(&r, path, err);
	/* Its words for people are passed on even when all went well. */
	if (!rc && r.said[1].len) fwrite(r.said[1].data, 1, r.said[1].len, stderr);
	if (!rc) rc = rows_add(&r.said[0], path, out, err);
	if (!rc && !out->count) rc = err_set(err, ERR_NOT_FOUND, "%s: no row became a task", path);
	if (!rc) rc = task_names_check(out, path, err);
	if (rc) task_set_release(out);
	reader_release(&r);
	free(python);
	free(script);
	free(library);
	free(whole);
	return rc;
}

int task_set_import(const char *path, struct task_set *out, struct err *err)
{
	*out = (struct task_set){0};
	char *inner = path_join(path, "KernelBench"), *level = path_join(inner, "level1");
	bool is_checkout = is_folder(level);
	int rc;
	if (is_checkout) rc = task_set_load(inner, out, err);
	else if (text_ends_in(path, ".parquet")) rc = reader_run("parquet", path, out, err);
	else if (!is_folder(path) && !text_ends_in(path, ".py") && first_byte(path) == '[')
		rc = reader_run("tritonbench", path, out, err);
	else rc = task_set_load(path, out, err);
	free(inner);
	free(level);
	return rc;
}
