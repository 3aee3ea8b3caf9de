/* outside: answers from a program of the user's, or from files.
 *
 * The command gets one JSON object a line on its standard input and writes one a line on its
 * standard output; docs/agents.md has the fields. Both directions are moved by the same poll, since
 * a program that waits to be read while we wait to be read would stand still for ever. What the
 * program writes is a stranger's text as far as its form goes: lines have a greatest length, and an
 * id that nobody asked for ends the run. */
#include "policy/policy.h"
#include "base/base.h"
#include "policy/roles.h"
#include "text/text.h"
#include "text/unicode.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define ANSWER_BYTES_MAX ((size_t)16 << 20)
#define ANSWER_BROKEN "\xef\xbf\xbd" /* key of rows that were repaired */
enum { READ_BYTES = 1 << 16, CLOSE_MS = 5000 };

struct ticket { /* of a request that has no answer yet */
	int64_t id;
	struct sha256_hex key; /* of the request; set where answers are kept */
	char *line;            /* what is sent; NULL once it was handed over */
	uint64_t deadline_ns;  /* 0: not sent yet */
	char name[160];        /* "task T, sample 3, turn 1" */
	/* With roles: whose turn it is, the request that they all share, and what came so far. */
	int role;
	json_t *request; /* NULL: without roles */
	char *said[ROLE_COUNT];
	int tokens;
};

struct outside {
	char *command; /* NULL: a set of answers */
	struct child child;
	int in;  /* our end of its standard input */
	int out; /* our end of its standard output */
	struct str sending;
	size_t sent;
	struct str received;
	size_t parsed; /* of received: bytes that were read as lines */
	struct ticket *tickets;
	int count;      /* of tickets */
	int cap;        /* of tickets */
	int sent_count; /* requests that are with the command */
	int requests_max;
	uint64_t timeout_ns;
	char *folder;    /* of answers */
	json_t *answers; /* of a .jsonl file: "task\nsample\nturn\nstage" -> row; most rows have no stage: "" */
	struct outside_answer *ready;
	int nready;
	int ready_cap;
	struct roles *roles; /* NULL: each request is one question */
	int unit;            /* 0: no answer yet, 1: tokens, -1: bytes */
	int kept_fd;         /* outside_keep's file; -1: none */
	json_t *kept;        /* key of a request -> row */
	char *named;         /* command and roles: whose answers the kept ones are */
};

bool policy_is_outside(const struct policy_options *o) { return o->policy_command || o->policy_answers; }

int outside_waiting(const struct outside *x) { return x->count + x->nready; }

bool outside_counts_tokens(const struct outside *x) { return x->unit > 0; }

/* ---- answers ---- */

static void ready_push(struct outside *x, struct outside_answer a)
{
	if (x->nready == x->ready_cap) {
		x->ready_cap = MAX(16, 2 * x->ready_cap);
		x->ready = xrealloc(x->ready, size_mul((size_t)x->ready_cap, sizeof *x->ready));
	}
	x->ready[x->nready++] = a;
}

/* Lengths in two units cannot be compared: all answers have a count, or none does. */
static int unit_settle(struct outside *x, bool has_tokens, const char *what, struct err *err)
{
	int unit = has_tokens ? 1 : -1;
	if (!x->unit) x->unit = unit;
	if (x->unit == unit) return 0;
	return err_set(err, ERR_FORMAT, "%s: %s \"tokens\", answers before it %s; count those of all answers or of none",
		what, has_tokens ? "has" : "has no", has_tokens ? "had none" : "had them");
}

/* A line of a policy's. One whose text holds what no text does is a row with a mark in place of it:
 * a model may write anything, and one answer is no reason to end a run. */
static int row_parse(const char *line, size_t len, const char *what, json_t **row, struct err *err)
{
	struct str clean = {0};
	struct err later = {0};
	int rc = json_parse(line, len, what, row, err);
	if (!rc) return 0;
	json_repair(line, len, &clean);
	bool is_broken = clean.len && !json_parse(clean.data, clean.len, what, row, &later) && json_is_object(*row);
	if (is_broken) {
		json_object_set_new(*row, ANSWER_BROKEN, json_true());
		rc = 0;
	}
	str_release(&clean);
	return rc;
}

/* From a row with "answer" (and "tokens", "finish"), or with "error". */
static int answer_read(
	struct outside *x, const json_t *row, const char *what, int64_t id, struct outside_answer *out, struct err *err)
{
	const char *text = NULL, *problem = NULL, *finish = NULL;
	int64_t tokens = -1;
	int rc = json_opt_str(row, what, "error", &problem, err);
	if (!rc && !problem) rc = json_get_str(row, what, "answer", &text, err);
	if (!rc) rc = json_opt_str(row, what, "finish", &finish, err);
	if (!rc) rc = json_opt_int(row, what, "tokens", 0, INT32_MAX, &tokens, err);
	if (!rc && !problem) rc = unit_settle(x, tokens >= 0, what, err);
	if (rc) return rc;
	*out = (struct outside_answer){.id = id,
		.is_cut = finish && !strcmp(finish, "length"),
		.is_broken = json_object_get(row, ANSWER_BROKEN) != NULL};
	if (problem) {
		snprintf(out->problem, sizeof out->problem, "%s", problem);
		return 0;
	}
	out->len = strlen(text);
	out->text = xstrdup(text);
	out->tokens = tokens >= 0 ? (int)tokens : (int)MIN(out->len, INT32_MAX);
	return 0;
}

/* ---- a set of answers ---- */

static char *set_key(const char *task, int64_t sample, int64_t turn, const char *stage)
{
	return xasprintf("%s\n%lld\n%lld\n%s", task, (long long)sample, (long long)turn, stage);
}

static int set_add(struct outside *x, const json_t *row, const char *where, struct err *err)
{
	const char *task, *answer, *stage = "";
	int64_t sample = 0, turn = 0;
	int rc = json_opt_str(row, where, "stage", &stage, err);
	if (!rc && !strcmp(stage, "final")) return 0; /* of `hone eval --out`: a verdict once more, without an answer */
	if (!rc) rc = json_get_str(row, where, "task", &task, err);
	if (!rc) rc = json_get_str(row, where, "answer", &answer, err);
	if (!rc) rc = json_opt_int(row, where, "sample", 0, INT32_MAX, &sample, err);
	if (!rc) rc = json_opt_int(row, where, "turn", 0, INT32_MAX, &turn, err);
	if (rc) return rc;
	char *key = set_key(task, sample, turn, stage);
	bool is_new = !json_object_get(x->answers, key);
	if (is_new) json_object_set(x->answers, key, (json_t *)(uintptr_t)row);
	free(key);
	return is_new ? 0
				  : err_set(err, ERR_FORMAT, "%s: a second answer to task %s, sample %lld, turn %lld", where, task,
						(long long)sample, (long long)turn);
}

static int set_line(void *ctx, const char *line, size_t len, const char *where, struct err *err)
{
	json_t *row = NULL;
	if (!len || !line[strspn(line, " \t\r\n")]) return 0;
	int rc = row_parse(line, len, where, &row, err);
	if (!rc && !json_is_object(row)) rc = err_set(err, ERR_FORMAT, "%s: expected an object", where);
	if (!rc) rc = set_add(ctx, row, where, err);
	json_decref(row);
	return rc;
}

static int set_open(struct outside *x, const char *path, struct err *err)
{
	if (!path_exists(path))
		return err_set(err, ERR_NOT_FOUND, "--policy_answers %s: there is no such file or folder", path);
	x->answers = json_object();
	if (jsonl_is_name(path)) return jsonl_lines(path, JSONL_LINE_MAX, set_line, x, err);
	x->folder = xstrdup(path);
	return 0;
}

/* TASK.SAMPLE.txt, of a later turn TASK.SAMPLE.TURN.txt; a task's name may have folders in it. */
static int folder_answer(
	struct outside *x, const struct outside_request *r, struct outside_answer *out, struct err *err)
{
	struct str text = {0};
	char *name = r->turn ? xasprintf("%s.%d.%d.txt", r->task, r->sample, r->turn)
						 : xasprintf("%s.%d.txt", r->task, r->sample);
	char *path = path_join(x->folder, name);
	struct stat st;
	int rc = 0;
	if (r->task[0] == '/' || strstr(name, ".."))
		rc = err_set(err, ERR_USAGE, "task %s: its name leads out of the folder %s", r->task, x->folder);
	else if (!stat(path, &st) && !S_ISREG(st.st_mode)) /* a pipe would be waited for without end */
		rc = err_set(err, ERR_FORMAT, "--policy_answers: %s is not a file", path);
	if (!rc) rc = file_read(path, ANSWER_BYTES_MAX, &text, err);
	if (!rc) rc = unit_settle(x, false, path, err);
	if (rc == ERR_NOT_FOUND)
		err_set(err, ERR_NOT_FOUND,
			"--policy_answers %s: has no %s; lower --num_samples or choose tasks with --limit, "
			"--split or --level",
			x->folder, name);
	*out = (struct outside_answer){.id = r->id, .text = text.data, .len = text.len, .tokens = (int)text.len};
	if (!rc && !text.data) out->text = xstrdup("");
	free(path);
	free(name);
	return rc;
}

static int set_answer(struct outside *x, const struct outside_request *r, struct err *err)
{
	struct outside_answer a = {0};
	int rc;
	if (x->folder) {
		rc = folder_answer(x, r, &a, err);
	} else {
		/* Rows of another stage are answers to other questions: a pipeline's mid-end's stand
		 * behind its frontend's, which have no stage. */
		char *key = set_key(r->task, r->sample, r->turn, ""), *staged = set_key(r->task, r->sample, r->turn, r->stage);
		const json_t *row = json_object_get(x->answers, staged);
		if (!row) row = json_object_get(x->answers, key);
		free(staged);
		rc = row ? answer_read(x, row, r->task, r->id, &a, err)
				 : err_set(err, ERR_NOT_FOUND,
					   "--policy_answers has no answer to task %s, sample %d, turn %d; lower --num_samples or choose "
					   "tasks with --limit, --split or --level",
					   r->task, r->sample, r->turn);
		free(key);
	}
	if (rc) free(a.text);
	else ready_push(x, a);
	return rc;
}

/* ---- the command ---- */

static int pipe_ends(int ends[2], struct err *err)
{
	if (!pipe2(ends, O_CLOEXEC)) return 0;
	return err_set(err, ERR_INFRA, "cannot make a pipe: %s", strerror(errno));
}

/* The shell gets its standard input as descriptor 3, which is how child_spawn passes one on. */
static int command_open(struct outside *x, const struct policy_options *o, struct err *err)
{
	int to[2] = {-1, -1}, from[2] = {-1, -1};
	char *script = xasprintf("exec 0<&3 3<&-\n%s", o->policy_command), *cwd = getcwd(NULL, 0);
	char *argv[] = {"/bin/sh", "-c", script, NULL};
	int rc = pipe_ends(to, err);
	if (!rc) rc = pipe_ends(from, err);
	struct child_options c = {.argv = argv,
		.env = environ,
		.cwd = cwd,
		.fds = {to[0]},
		.nfds = 1,
		.stdout_fd = from[1],
		.stderr_fd = STDERR_FILENO,
		.die_with_parent = true};
	if (!rc) rc = child_spawn(&x->child, &c, err);
	if (rc) err_prefix(err, "--policy_command");
	/* The child has its own copies of these; ours would keep its input open and
	 * its output from ending. */
	if (to[0] >= 0) close(to[0]);
	if (from[1] >= 0) close(from[1]);
	x->command = xstrdup(o->policy_command);
	x->in = to[1];
	x->out = from[0];
	if (x->in >= 0) fcntl(x->in, F_SETFL, O_NONBLOCK);
	if (x->out >= 0) fcntl(x->out, F_SETFL, O_NONBLOCK);
	free(script);
	free(cwd);
	return rc;
}

/* What became of a command whose input or output closed. */
static int command_gone(struct outside *x, struct err *err)
{
	char status[64] = "it closed its input or output and still runs";
	struct err later;
	if (!child_wait(&x->child, CLOSE_MS, &later)) child_status_text(x->child.status, status, sizeof status);
	return err_set(err, ERR_CHILD,
		"--policy_command \"%.200s\" ended (%s) with %d %s unanswered, the first of them %s; what it said stands "
		"above on standard error",
		x->command, status, x->count, plural(x->count, "request", "requests"), x->count ? x->tickets[0].name : "none");
}

/* Hands requests over, as many at once as the command may have. */
static void requests_send(struct outside *x)
{
	for (int i = 0; i < x->count && x->sent_count < x->requests_max; i++) {
		struct ticket *t = &x->tickets[i];
		if (!t->line) continue;
		str_puts(&x->sending, t->line);
		free(t->line);
		t->line = NULL;
		t->deadline_ns = clock_ns() + x->timeout_ns;
		x->sent_count++;
	}
}

/* A command that has ended must not end us: the signal that comes with EPIPE is held and taken. */
static ssize_t write_quietly(int fd, const char *data, size_t len)
{
	sigset_t pipe_signal, before;
	sigemptyset(&pipe_signal);
	sigaddset(&pipe_signal, SIGPIPE);
	pthread_sigmask(SIG_BLOCK, &pipe_signal, &before);
	ssize_t n = write(fd, data, len);
	int error = errno;
	if (n < 0 && error == EPIPE) sigtimedwait(&pipe_signal, NULL, &(struct timespec){0});
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	errno = error;
	return n;
}

static int bytes_write(struct outside *x, struct err *err)
{
	while (x->sent < x->sending.len) {
		ssize_t n = write_quietly(x->in, x->sending.data + x->sent, x->sending.len - x->sent);
		if (n < 0 && errno == EINTR) continue;
		if (n < 0 && errno == EAGAIN) return 0;
		if (n < 0) return command_gone(x, err);
		x->sent += (size_t)n;
	}
	str_clear(&x->sending);
	x->sent = 0;
	return 0;
}

static int ticket_of(const struct outside *x, int64_t id)
{
	for (int i = 0; i < x->count; i++)
		if (x->tickets[i].id == id && !x->tickets[i].line) return i;
	return -1;
}

static void ticket_release(struct ticket *t)
{
	free(t->line);
	json_decref(t->request);
	for (int i = 0; i < ROLE_COUNT; i++) free(t->said[i]);
}

/* The line that asks a request's present role: the conversation with its message in
 * place of the last one. */
static char *role_line(const struct outside *x, const struct ticket *t)
{
	json_t *row = json_deep_copy(t->request), *messages = json_object_get(row, "messages");
	json_t *last = json_array_get(messages, json_array_size(messages) - 1);
	struct str text = {0}, line = {0};
	roles_render(x->roles, t->role, json_string_value(json_object_get(last, "content")), t->said, &text);
	json_object_set_new(last, "content", json_string(text.data));
	json_object_set_new(row, "role", json_string(role_name(t->role)));
	jsonl_put(&line, row);
	json_decref(row);
	str_release(&text);
	return line.data;
}

/* What a role said is kept for those behind it, and the next one is asked. False: it was the
 * last, or said nothing. */
static bool role_next(struct outside *x, struct ticket *t, struct outside_answer *a)
{
	t->tokens += a->tokens;
	a->tokens = t->tokens;
	if (!t->request || !a->text || t->role == ROLE_CODE) return false;
	t->said[t->role] = a->text;
	t->role = roles_next(x->roles, t->role);
	t->line = role_line(x, t);
	t->deadline_ns = 0;
	return true;
}

static int answer_keep(struct outside *x, const struct ticket *t, const struct outside_answer *a, struct err *err);

static int line_read(struct outside *x, const char *line, size_t len, struct err *err)
{
	json_t *row = NULL;
	struct outside_answer a = {0};
	int64_t id = 0;
	int at = -1, rc = row_parse(line, len, "a line of --policy_command", &row, err);
	if (!rc) rc = json_get_int(row, "a line of --policy_command", "id", INT64_MIN, INT64_MAX, &id, err);
	if (!rc && (at = ticket_of(x, id)) < 0)
		rc = err_set(err, ERR_FORMAT,
			"a line of --policy_command answers id %lld, which is not among its open requests", (long long)id);
	if (!rc) rc = answer_read(x, row, x->tickets[at].name, id, &a, err);
	if (rc) err_prefix(err, "--policy_command \"%.200s\"", x->command);
	json_decref(row);
	if (rc) return rc;
	x->sent_count--;
	if (role_next(x, &x->tickets[at], &a)) return 0;
	rc = answer_keep(x, &x->tickets[at], &a, err);
	ticket_release(&x->tickets[at]);
	memmove(x->tickets + at, x->tickets + at + 1, (size_t)(--x->count - at) * sizeof *x->tickets);
	ready_push(x, a);
	return rc;
}

/* All whole lines that have arrived; what they leave moves to the front. */
static int lines_read(struct outside *x, struct err *err)
{
	struct str *r = &x->received;
	size_t begin = 0;
	int rc = 0;
	for (char *end; !rc && r->len > x->parsed && (end = memchr(r->data + x->parsed, '\n', r->len - x->parsed));) {
		size_t len = (size_t)(end - (r->data + begin));
		if (len && strspn(r->data + begin, " \t\r") < len) rc = line_read(x, r->data + begin, len, err);
		begin += len + 1;
		x->parsed = begin;
	}
	if (begin) memmove(r->data, r->data + begin, r->len - begin);
	r->len -= begin;
	x->parsed = r->len;
	if (!rc && r->len > ANSWER_BYTES_MAX)
		rc = err_set(
			err, ERR_LIMIT, "--policy_command \"%.200s\": a line of more than %zu bytes", x->command, ANSWER_BYTES_MAX);
	return rc;
}

/* One buffer and no more, so that deadlines are looked at between two however
 * much the command writes. */
static int bytes_read(struct outside *x, struct err *err)
{
	char buffer[READ_BYTES];
	ssize_t n = read(x->out, buffer, sizeof buffer);
	if (n < 0 && (errno == EINTR || errno == EAGAIN)) return 0;
	if (n < 0) return err_set(err, ERR_IO, "--policy_command: reading: %s", strerror(errno));
	if (n == 0) return x->count ? command_gone(x, err) : 0;
	str_append(&x->received, buffer, (size_t)n);
	return lines_read(x, err);
}

/* The nearest deadline in ms from now, -1 where nothing was sent. */
static int deadline_check(const struct outside *x, int *left_ms, struct err *err)
{
	uint64_t now = clock_ns(), nearest = UINT64_MAX;
	for (int i = 0; i < x->count; i++) {
		const struct ticket *t = &x->tickets[i];
		if (!t->deadline_ns) continue;
		if (now >= t->deadline_ns)
			return err_set(err, ERR_TIMEOUT,
				"--policy_command \"%.200s\": no answer to %s within %llu s; raise --policy_timeout, or lower "
				"--policy_requests where it answers one after another",
				x->command, t->name, (unsigned long long)(x->timeout_ns / 1000000000u));
		nearest = MIN(nearest, t->deadline_ns);
	}
	*left_ms = nearest == UINT64_MAX ? -1 : (int)MIN((nearest - now) / 1000000u + 1, (uint64_t)INT32_MAX);
	return 0;
}

/* One wait: for the command's reading and writing, for wake_fd, for the time. */
static int command_wait(struct outside *x, int wake_fd, bool *is_woken, struct err *err)
{
	int left_ms = -1;
	requests_send(x);
	int rc = deadline_check(x, &left_ms, err);
	if (rc) return rc;
	struct pollfd p[3] = {{.fd = x->out, .events = POLLIN},
		{.fd = x->sent < x->sending.len ? x->in : -1, .events = POLLOUT}, {.fd = wake_fd, .events = POLLIN}};
	int n = poll(p, ARRAY_LEN(p), left_ms);
	if (n < 0 && errno != EINTR) return err_set(err, ERR_IO, "--policy_command: waiting: %s", strerror(errno));
	*is_woken = n > 0 && p[2].revents;
	if (n > 0 && p[1].revents) rc = bytes_write(x, err);
	if (!rc && n > 0 && p[0].revents) rc = bytes_read(x, err);
	return rc;
}

int outside_take(struct outside *x, int wake_fd, bool *is_there, struct outside_answer *out, struct err *err)
{
	*is_there = false;
	for (bool is_woken = false; !x->nready && !is_woken;) {
		if (!x->count) return err_set(err, ERR_NOT_FOUND, "no request waits for an answer");
		int rc = command_wait(x, wake_fd, &is_woken, err);
		if (rc) return rc;
	}
	if (!x->nready) return 0;
	*is_there = true;
	*out = x->ready[0];
	memmove(x->ready, x->ready + 1, (size_t)--x->nready * sizeof *x->ready);
	return 0;
}

/* ---- answers that outlive a run ---- */

static struct sha256_hex request_key(const struct outside *x, const json_t *row)
{
	/* The id is a place in a batch, and not the question's. */
	json_t *question = json_copy((json_t *)(uintptr_t)row);
	json_object_del(question, "id");
	char *text = json_dumps(question, JSON_COMPACT | JSON_SORT_KEYS);
	const struct slice parts[2] = {{x->named, strlen(x->named)}, {text, strlen(text)}};
	struct sha256_hex key = hash_parts(parts, 2);
	free(text);
	json_decref(question);
	return key;
}

/* The row of an answer as a command writes it, with the count of all roles. */
static int answer_keep(struct outside *x, const struct ticket *t, const struct outside_answer *a, struct err *err)
{
	if (x->kept_fd < 0) return 0;
	struct str line = {0};
	json_t *row = json_pack("{s:s, s:i}", "key", t->key.text, "count", a->tokens);
	if (a->text) json_object_set_new(row, "answer", json_string(a->text));
	else json_object_set_new(row, "error", json_string(a->problem));
	if (a->text && x->unit > 0) json_object_set_new(row, "tokens", json_integer(a->tokens));
	if (a->is_cut) json_object_set_new(row, "finish", json_string("length"));
	if (a->is_broken) json_object_set_new(row, ANSWER_BROKEN, json_true());
	jsonl_put(&line, row);
	int rc = fd_write(x->kept_fd, line.data, line.len) || fdatasync(x->kept_fd)
		? err_set(err, ERR_IO, "an answer of --policy_command cannot be kept: %s", strerror(errno))
		: 0;
	json_decref(row);
	str_release(&line);
	return rc;
}

/* Whether an earlier run has the answer; then it is ready. */
static bool answer_known(struct outside *x, const struct sha256_hex *key, int64_t id, int *rc, struct err *err)
{
	const json_t *row = json_object_get(x->kept, key->text);
	struct outside_answer a;
	if (!row) return false;
	*rc = answer_read(x, row, "an answer that was kept", id, &a, err);
	if (*rc) return true;
	a.tokens = (int)json_integer_value(json_object_get(row, "count"));
	ready_push(x, a);
	return true;
}

int outside_keep(struct outside *x, const char *path, struct err *err)
{
	struct str text = {0};
	if (!x->command) return 0;
	int rc = path_exists(path) ? file_read(path, SIZE_MAX >> 1, &text, err) : 0;
	if (rc) return rc;
	/* A kill may have left half a line at the end: the answer is asked for again. */
	size_t whole = text.len;
	while (whole && text.data[whole - 1] != '\n') whole--;
	x->kept = json_object();
	for (size_t at = 0, end; at < whole; at = end + 1) {
		struct err later;
		json_t *row = NULL;
		end = (size_t)((char *)memchr(text.data + at, '\n', whole - at) - text.data);
		if (!json_parse(text.data + at, end - at, path, &row, &later) && json_is_object(row))
			json_object_set(x->kept, json_string_value(json_object_get(row, "key")), row);
		json_decref(row);
	}
	str_release(&text);
	x->kept_fd = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
	if (x->kept_fd < 0 || ftruncate(x->kept_fd, (off_t)whole))
		return err_set(err, ERR_IO, "%s: cannot be written, and answers of --policy_command are kept there: %s", path,
			strerror(errno));
	if (json_object_size(x->kept))
		log_info("%s: %zu %s there and not asked for again", path, json_object_size(x->kept),
			plural((int64_t)json_object_size(x->kept), "answer of an earlier run is", "answers of an earlier run are"));
	return 0;
}

int outside_forget(struct outside *x, struct err *err)
{
	if (x->kept_fd < 0) return 0;
	json_object_clear(x->kept);
	return ftruncate(x->kept_fd, 0) ? err_set(err, ERR_IO, "answers that were kept: %s", strerror(errno)) : 0;
}

/* ---- requests ---- */

/* NULL: a text in it is no UTF-8. A number of JSON has 63 bits, so the seed loses its last. */
static json_t *request_row(const struct outside_request *r)
{
	json_t *messages = json_array();
	for (size_t i = 0; i < r->count; i++) {
		json_t *message = json_pack("{s:s, s:s}", "role", r->messages[i].role, "content", r->messages[i].content);
		if (!json_array_append_new(messages, message)) continue;
		json_decref(messages);
		return NULL;
	}
	return json_pack("{s:I, s:s, s:s, s:i, s:i, s:o, s:f, s:I, s:I}", "id", (json_int_t)r->id, "task", r->task, "stage",
		r->stage, "sample", r->sample, "turn", r->turn, "messages", messages, "temperature", r->temperature,
		"max_tokens", (json_int_t)r->max_tokens, "seed", (json_int_t)(r->seed >> 1));
}

int outside_submit(struct outside *x, const struct outside_request *r, struct err *err)
{
	if (!x->command) return set_answer(x, r, err);
	json_t *row = request_row(r);
	if (!row) return err_set(err, ERR_FORMAT, "task %s: a text of its conversation is not UTF-8", r->task);
	/* What an earlier run was answered is there at once; else a ticket waits for its turn. */
	int rc = 0;
	struct sha256_hex key = x->kept_fd >= 0 ? request_key(x, row) : (struct sha256_hex){0};
	if (x->kept_fd >= 0 && answer_known(x, &key, r->id, &rc, err)) {
		json_decref(row);
		return rc;
	}
	if (x->count == x->cap) {
		x->cap = MAX(16, 2 * x->cap);
		x->tickets = xrealloc(x->tickets, size_mul((size_t)x->cap, sizeof *x->tickets));
	}
	struct ticket *t = &x->tickets[x->count++];
	*t = (struct ticket){.id = r->id, .key = key};
	if (x->roles) {
		t->request = row;
		t->role = roles_next(x->roles, -1);
		t->line = role_line(x, t);
	} else {
		struct str line = {0};
		jsonl_put(&line, row);
		json_decref(row);
		t->line = line.data;
	}
	snprintf(t->name, sizeof t->name, "task %.100s, sample %d, turn %d", r->task, r->sample, r->turn);
	return 0;
}

int outside_open(const struct policy_options *o, struct outside **out, struct err *err)
{
	if (o->policy_command && o->policy_answers)
		return err_set(err, ERR_USAGE, "--policy_command and --policy_answers exclude each other");
	if (o->model || o->adapter || o->adapters.count)
		return err_set(err, ERR_USAGE, "--model and adapters: with %s the answers come from there; choose one",
			o->policy_command ? "--policy_command" : "--policy_answers");
	struct outside *x = xcalloc(1, sizeof *x);
	*x = (struct outside){.in = -1, .out = -1, .kept_fd = -1, .child = {.pid = -1, .reaped = true}};
	x->named = xasprintf("%s\n%s", o->policy_command ? o->policy_command : "", o->policy_roles ? o->policy_roles : "");
	x->requests_max = (int)o->policy_requests;
	x->timeout_ns = (uint64_t)o->policy_timeout * 1000000000u;
	int rc = o->policy_roles ? roles_open(o->policy_roles, &x->roles, err) : 0;
	if (!rc) rc = o->policy_command ? command_open(x, o, err) : set_open(x, o->policy_answers, err);
	if (rc) outside_close(x);
	else *out = x;
	return rc;
}

/* A command ends by itself when its input does; one that does not is killed with its group. */
void outside_close(struct outside *x)
{
	if (!x) return;
	struct err later;
	if (x->in >= 0) close(x->in);
	if (x->out >= 0) close(x->out);
	if (x->kept_fd >= 0) close(x->kept_fd);
	json_decref(x->kept);
	free(x->named);
	if (x->command && child_wait(&x->child, CLOSE_MS, &later)) child_kill(&x->child);
	for (int i = 0; i < x->count; i++) ticket_release(&x->tickets[i]);
	roles_free(x->roles);
	for (int i = 0; i < x->nready; i++) free(x->ready[i].text);
	free(x->tickets);
	free(x->ready);
	str_release(&x->sending);
	str_release(&x->received);
	json_decref(x->answers);
	free(x->command);
	free(x->folder);
	free(x);
}
