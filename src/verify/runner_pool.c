/* runner_pool: starting a runner as a program costs a few milliseconds (exec, the loader,
 * namespaces, seccomp), so where many come a template forks them; and a GPU's context a quarter
 * of a second. So a few wait ready; the refill happens between two candidates' work. All
 * waiting is on sockets. */
#include "verify/runner_pool.h"
#include "base/base.h"
#include "prove/prove.h"
#include "runner/runner.h"
#include "sandbox/sandbox.h"
#include "tape/tape.h"
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#define SPARE_MIN 16 /* room for so many at least that come back, whatever is kept ahead */
#define SPARE_BYTES ((int64_t)2 << 30) /* of a GPU's memory for each runner that is kept */
#define READY_MS 20000
#define ENDS_MS 200
#define ORDER_MS 5000
#define RESET_MS 5000
#define SERVED_MAX 1000 /* candidates; what a driver leaks for each of them ends with the process */

struct runner_pool {
	char *path;             /* of the program */
	char *device;           /* NULL for the vm */
	char memory[24];        /* bytes that it may use, as its argument */
	int level;              /* enum sandbox_level */
	int spare;              /* runners to keep waiting */
	int room;               /* of waiting: what comes back beyond it is ended */
	int count;              /* of waiting */
	struct runner *waiting; /* (room) */
	int ntaken;
	pid_t *taken;          /* (ntaken) not reaped while listed here, so the numbers are ours */
	struct child template; /* forks the vm's runners; not started where one alone is kept */
	int orders;            /* socket to it; -1: there is none, each runner is a program started anew */
	bool is_stopped;
	pthread_mutex_t lock;
};

#define TOOL_WORDS_MAX 32

/* What a runner's environment has: nothing of ours but the words that say which GPU a number means.
 * A cluster's scheduler hands its cards out that way, and the driver reads them. */
struct runner_env {
	char *visible; /* CUDA_VISIBLE_DEVICES=..., and the next one's as it stands in ours, of whatever length; NULL: not
					  set */
	char *order;   /* CUDA_DEVICE_ORDER=... */
	char *list[5]; /* NULL behind the last */
};

static void env_fill(struct runner_env *e)
{
	int n = 0;
	const char *visible = getenv("CUDA_VISIBLE_DEVICES"), *order = getenv("CUDA_DEVICE_ORDER");
	e->visible = visible ? xasprintf("CUDA_VISIBLE_DEVICES=%s", visible) : NULL;
	e->order = order ? xasprintf("CUDA_DEVICE_ORDER=%s", order) : NULL;
	e->list[n++] = (char *)(uintptr_t)"PATH=/usr/local/bin:/usr/bin:/bin";
	e->list[n++] = (char *)(uintptr_t)"LANG=C.UTF-8";
	if (visible) e->list[n++] = e->visible;
	if (order) e->list[n++] = e->order;
	e->list[n] = NULL;
}

/* ---- the template ---- */

/* Where it cannot be started nothing is said: a runner of its own will say why. */
static void template_start(struct runner_pool *p)
{
	int pair[2];
	char *argv[] = {
		p->path, (char *)(uintptr_t)sandbox_level_name(p->level), p->memory, (char *)(uintptr_t)"template", NULL};
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair)) return;
	struct child_options o = {
		.argv = argv, .fds = {pair[1]}, .nfds = 1, .stdout_fd = -1, .stderr_fd = -1, .die_with_parent = true};
	int rc = child_spawn(&p->template, &o, NULL);
	close(pair[1]);
	if (rc) close(pair[0]);
	else p->orders = pair[0];
}

static void template_end(struct runner_pool *p)
{
	if (p->orders >= 0) close(p->orders);
	p->orders = -1;
	child_kill(&p->template);
}

/* tool: words in front of the runner's, or NULL. */
static int start(struct runner_pool *p, const char *const *tool, int stdout_fd, struct runner *out, struct err *err)
{
	if (p->is_stopped) return err_set(err, ERR_INFRA, "the verifier is being closed");
	int pair[2];
	*out = (struct runner){.fd = -1}; /* the caller's may have been another's */
	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair))
		return err_set(err, ERR_INFRA, "runner: no socket pair: %s", strerror(errno));
	/* An order has so many descriptors, whatever they are for. */
	const int ends[SANDBOX_ORDER_FDS] = {pair[1], pair[1], pair[1]};
	pid_t forked = p->orders >= 0 ? sandbox_template_order(p->orders, p->level, ends, ORDER_MS) : -1;
	if (forked > 0) {
		close(pair[1]);
		*out = (struct runner){.fd = pair[0], .child = {.pid = forked}};
		return 0;
	}
	/* One that died is missed by nobody: the program is started instead, now and later. */
	if (p->orders >= 0) template_end(p);
	/* A tool of the CUDA toolkit starts the runner itself, so its words follow the runner's own. */
	char *argv[TOOL_WORDS_MAX + 6] = {
		p->path, (char *)(uintptr_t)sandbox_level_name(p->level), (char *)(uintptr_t)p->memory, p->device, "under"};
	if (!tool) argv[4] = NULL;
	for (int i = 0; tool && tool[i]; i++) {
		CHECKF(i < TOOL_WORDS_MAX, "a tool with more than %d words", TOOL_WORDS_MAX);
		argv[5 + i] = (char *)(uintptr_t)tool[i];
	}
	struct runner_env env;
	env_fill(&env);
	struct child_options o = {.argv = argv,
		.env = p->device ? env.list : NULL,
		.fds = {pair[1]},
		.nfds = 1,
		.stdout_fd = stdout_fd,
		.stderr_fd = stdout_fd,
		.die_with_parent = true};
	int rc = child_spawn(&out->child, &o, err);
	free(env.visible);
	free(env.order);
	close(pair[1]);
	/* Our end alone stays open here: the runner's end tells when it is gone. */
	if (rc) {
		close(pair[0]);
		return err_set(err, ERR_INFRA, "runner %s: %s", p->path, err ? err->text : "");
	}
	out->fd = pair[0];
	return 0;
}

/* Waits for {"ready"}: from then on the process is in its sandbox. */
static int settle(struct runner_pool *p, struct runner *r, int ready_ms, struct runner_device *device, struct err *err)
{
	struct str text = {0};
	json_t *o = NULL;
	int rc = msg_recv(r->fd, RUNNER_MESSAGE_BYTES_MAX, &text, NULL, NULL, deadline_in_ms(ready_ms), err);
	if (!rc) rc = json_parse(text.data, text.len, "runner's hello", &o, err);
	if (!rc && !json_is_true(json_object_get(o, "ready")))
		rc = err_set(err, ERR_INFRA, "could not start: %.400s",
			json_is_string(json_object_get(o, "failed")) ? json_string_value(json_object_get(o, "failed")) : text.data);
	if (!rc && device) rc = runner_device_parse(json_object_get(o, "device"), device, err);
	if (rc) {
		char status[64] = "";
		runner_end(p, r, status, sizeof status, NULL);
		rc = err_set(err, ERR_INFRA, "runner: %.600s (%s)", err ? err->text : "", status);
	}
	json_decref(o);
	str_release(&text);
	return rc;
}

int runner_pool_create(
	const struct runner_pool_options *o, struct runner_pool **out, struct runner_device *device, struct err *err)
{
	struct runner_pool *p = xcalloc(1, sizeof *p);
	*p = (struct runner_pool){.path = xstrdup(o->path),
		.device = o->device ? xstrdup(o->device) : NULL,
		.level = o->level,
		.spare = o->spare,
		.room = MAX(o->spare, SPARE_MIN),
		.template = {.pid = -1, .reaped = true},
		.orders = -1};
	p->waiting = xcalloc((size_t)p->room, sizeof *p->waiting);
	snprintf(p->memory, sizeof p->memory, "%lld", (long long)o->memory_bytes);
	pthread_mutex_init(&p->lock, NULL);
	/* A GPU's runners serve on, and a driver's threads do not survive a fork. */
	if (!p->device && p->spare > 1) template_start(p);
	/* The first is started and waited for here, so that a sandbox that does not work is known at
	 * once. */
	int rc = start(p, NULL, -1, &p->waiting[0], err);
	if (!rc) {
		rc = settle(p, &p->waiting[0], READY_MS, device, err);
		/* Each context takes some hundred MiB of the card, which candidates need too. */
		if (!rc && p->device && device->memory_bytes)
			p->spare = (int)MIN(p->spare, MAX(1, device->memory_bytes / SPARE_BYTES));
		p->waiting[0].is_settled = true;
		p->count = rc == 0;
	}
	if (rc) runner_pool_free(p);
	else *out = p;
	return rc;
}

void runner_pool_free(struct runner_pool *p)
{
	if (!p) return;
	for (int i = 0; i < p->count; i++) runner_end(p, &p->waiting[i], NULL, 0, NULL);
	template_end(p);
	pthread_mutex_destroy(&p->lock);
	free(p->waiting);
	free(p->taken);
	free(p->path);
	free(p->device);
	free(p);
}

int runner_pool_count(struct runner_pool *p)
{
	pthread_mutex_lock(&p->lock);
	int count = p->count + p->ntaken;
	pthread_mutex_unlock(&p->lock);
	return count;
}

static void taken_add(struct runner_pool *p, pid_t pid)
{
	p->taken = xrealloc(p->taken, size_mul((size_t)p->ntaken + 1, sizeof *p->taken));
	p->taken[p->ntaken++] = pid;
}

static void taken_remove(struct runner_pool *p, pid_t pid)
{
	for (int i = 0; i < p->ntaken; i++)
		if (p->taken[i] == pid) {
			p->taken[i] = p->taken[--p->ntaken];
			return;
		}
}

/* One from the pool, or a new one. */
static int take_one(struct runner_pool *p, struct runner *out, bool *was_waiting, struct err *err)
{
	pthread_mutex_lock(&p->lock);
	int rc = 0;
	*was_waiting = p->count > 0;
	if (*was_waiting) *out = p->waiting[--p->count];
	else rc = start(p, NULL, -1, out, err);
	if (!rc) taken_add(p, out->child.pid);
	pthread_mutex_unlock(&p->lock);
	return rc;
}

int runner_pool_take(struct runner_pool *p, struct runner *out, struct err *err)
{
	for (;;) {
		bool was_waiting = false;
		int rc = take_one(p, out, &was_waiting, err);
		/* One that died while it waited is no reason to fail: the next, or a new one, will do. */
		if (!rc && was_waiting && child_wait(&out->child, 0, NULL) == 0) {
			runner_end(p, out, NULL, 0, NULL);
			continue;
		}
		/* A spare's hello is read when it is taken: refill does not wait. */
		if (!rc && !out->is_settled) rc = settle(p, out, READY_MS, NULL, err);
		if (rc && was_waiting) continue;
		out->is_settled = true;
		return rc;
	}
}

/* With the lock. Those in use come back where they are a GPU's. */
static bool is_short(const struct runner_pool *p) { return p->count + (p->device ? p->ntaken : 0) < p->spare; }

bool runner_pool_is_short(struct runner_pool *p)
{
	pthread_mutex_lock(&p->lock);
	bool yes = is_short(p) && !p->is_stopped;
	pthread_mutex_unlock(&p->lock);
	return yes;
}

void runner_pool_refill(struct runner_pool *p)
{
	pthread_mutex_lock(&p->lock);
	while (is_short(p)) {
		struct runner r = {0};
		if (start(p, NULL, -1, &r, NULL)) break;
		p->waiting[p->count++] = r;
	}
	pthread_mutex_unlock(&p->lock);
}

/* One that waits and whose hello was not read, out of the pool. */
static bool unsettled_take(struct runner_pool *p, struct runner *out)
{
	bool is_found = false;
	pthread_mutex_lock(&p->lock);
	for (int i = 0; i < p->count && !is_found && !p->is_stopped; i++) {
		if (p->waiting[i].is_settled) continue;
		*out = p->waiting[i];
		p->waiting[i] = p->waiting[--p->count];
		taken_add(p, out->child.pid);
		is_found = true;
	}
	pthread_mutex_unlock(&p->lock);
	return is_found;
}

/* Back among those that wait; false where there is no room. */
static bool keep(struct runner_pool *p, const struct runner *r)
{
	pthread_mutex_lock(&p->lock);
	bool is_kept = p->count < p->room && !p->is_stopped;
	if (is_kept) {
		taken_remove(p, r->child.pid);
		p->waiting[p->count++] = *r;
	}
	pthread_mutex_unlock(&p->lock);
	return is_kept;
}

void runner_pool_settle(struct runner_pool *p)
{
	struct runner r;
	while (unsettled_take(p, &r)) {
		/* One that does not start is ended there, and whoever needs a runner hears why. */
		if (settle(p, &r, READY_MS, NULL, NULL)) continue;
		r.is_settled = true;
		if (!keep(p, &r)) runner_end(p, &r, NULL, 0, NULL);
	}
}

void runner_pool_stop(struct runner_pool *p)
{
	pthread_mutex_lock(&p->lock);
	p->is_stopped = true;
	for (int i = 0; i < p->ntaken; i++) kill(-p->taken[i], SIGKILL);
	pthread_mutex_unlock(&p->lock);
}

void runner_stop(struct runner *r)
{
	if (r->fd >= 0) close(r->fd);
	r->fd = -1;
}

static void end(struct runner_pool *p, struct runner *r, int ms)
{
	runner_stop(r);
	pthread_mutex_lock(&p->lock);
	taken_remove(p, r->child.pid);
	pthread_mutex_unlock(&p->lock);
	/* A runner that died shows its own status within milliseconds; one that lives ends at the end
	 * of its stream or is killed. */
	if (child_wait(&r->child, ms, NULL)) child_kill(&r->child);
}

void runner_end(struct runner_pool *p, struct runner *r, char *status_text, size_t len, int *status)
{
	end(p, r, ENDS_MS);
	if (status_text) child_status_text(r->child.status, status_text, len);
	if (status) *status = r->child.status;
}

int runner_start_under(
	struct runner_pool *p, const char *const *tool, int out_fd, int ready_ms, struct runner *out, struct err *err)
{
	pthread_mutex_lock(&p->lock);
	int rc = start(p, tool, out_fd, out, err);
	if (!rc) taken_add(p, out->child.pid);
	pthread_mutex_unlock(&p->lock);
	return rc ? rc : settle(p, out, ready_ms, NULL, err);
}

void runner_end_under(struct runner_pool *p, struct runner *r, int ms) { end(p, r, ms); }

static int send_json(struct runner *r, json_t *o, const int *fds, int nfds, uint64_t deadline_ns, struct err *err)
{
	char *text = json_dumps(o, JSON_COMPACT);
	CHECKF(text, "a request that is not JSON");
	json_decref(o);
	int rc = msg_send(r->fd, text, strlen(text), fds, nfds, deadline_ns, err);
	free(text);
	return rc;
}

static int recv_json(struct runner *r, uint64_t deadline_ns, json_t **out, struct err *err)
{
	struct str text = {0};
	int rc = msg_recv(r->fd, RUNNER_MESSAGE_BYTES_MAX, &text, NULL, NULL, deadline_ns, err);
	if (!rc) rc = json_parse(text.data, text.len, "runner's answer", out, err);
	str_release(&text);
	return rc;
}

int runner_text_fd(const char *text, size_t len, struct err *err)
{
	int fd = memfd_make("text", len, err);
	for (size_t done = 0; fd >= 0 && done < len;) {
		ssize_t n = pwrite(fd, text + done, len - done, (off_t)done);
		if (n <= 0) {
			close(fd);
			return err_set(err, ERR_INFRA, "writing a text of %zu bytes: %s", len, strerror(errno));
		}
		done += (size_t)n;
	}
	return fd;
}

int runner_load(struct runner *r, const struct runner_load *l, uint64_t deadline_ns, struct runner_loaded *out,
	struct runner_fault *fault, struct err *err)
{
	int fds[2] = {runner_text_fd(l->tape, l->len, err), l->binaries_fd};
	r->has_begun = false;
	if (fds[0] < 0) return fds[0];
	json_t *answer = NULL,
		   *load = json_pack(
			   "{s:I, s:o}", "bytes", (json_int_t)l->len, "binaries", runner_binaries_json(l->binaries, l->count));
	int rc = send_json(r, json_pack("{s:o}", "load", load), fds, l->count ? 2 : 1, deadline_ns, err);
	close(fds[0]);
	if (!rc) rc = recv_json(r, deadline_ns, &answer, err);
	const json_t *loaded = json_object_get(answer, "loaded"), *said = json_object_get(answer, "fault");
	int64_t tf32 = -1, order = -1, narrow = -1, data = -1, fp8 = -1;
	if (!rc && json_is_object(loaded)) {
		rc = json_get_int(loaded, "loaded", "tf32_line", -1, INT32_MAX, &tf32, err);
		if (!rc) rc = json_get_int(loaded, "loaded", "order_line", -1, INT32_MAX, &order, err);
		if (!rc) rc = json_get_int(loaded, "loaded", "narrow_line", -1, INT32_MAX, &narrow, err);
		if (!rc) rc = json_get_int(loaded, "loaded", "data_line", -1, INT32_MAX, &data, err);
		if (!rc) rc = json_get_int(loaded, "loaded", "fp8_line", -1, INT32_MAX, &fp8, err);
		*out = (struct runner_loaded){(int)tf32, (int)order, (int)narrow, (int)data, (int)fp8};
	} else if (!rc) {
		/* Refused: the fault names what does not load, as the candidate's mistake. Anything
		 * else is a broken runner. */
		rc = json_is_object(said) ? runner_fault_parse(said, fault, err)
								  : err_set(err, ERR_FORMAT, "the runner answered neither loaded nor fault");
		if (!rc) rc = ERR_MISMATCH;
	}
	json_decref(answer);
	return rc;
}

/* The runner's question about one library row, and the answer to it. */
static int library_answer(
	struct runner *r, const struct runner_library *library, const json_t *row, uint64_t deadline_ns, struct err *err)
{
	char why[400] = "";
	json_int_t index = json_integer_value(row);
	if (!library || index < 0 || index >= TAPE_ROWS_MAX)
		return err_set(err, ERR_FORMAT, "the runner asks for a library row that nobody computes");
	int rc = library->compute(library->ctx, (int)index, deadline_ns, why, sizeof why, err);
	if (rc && rc != ERR_MISMATCH) return rc;
	json_t *answer = rc ? json_pack("{s:s}", "failed", why) : json_pack("{s:b}", "library", 1);
	return send_json(r, answer, NULL, 0, deadline_ns, err);
}

/* The answer to the last question of time, and the next one. */
static int clock_answer(struct runner *r, const struct runner_asker *asker, const json_t *clock, uint64_t patience_ns,
	bool *is_over, struct err *err)
{
	enum runner_clock next = RUNNER_END;
	int64_t ns = 0;
	/* One that asks on and on would have the GPU alone for ever, since each
	 * question has its own time. */
	if (!asker || *is_over) return err_set(err, ERR_FORMAT, "the runner asks for a question of time that nobody has");
	int rc = json_get_int(clock, "clock", "ns", 0, INT64_MAX / 2, &ns, err);
	if (!rc) rc = asker->next(asker->ctx, ns, &next, err);
	if (rc) return rc;
	*is_over = next == RUNNER_END;
	return send_json(r, json_pack("{s:s}", "clock", runner_clock_name(next)), NULL, 0, clock_ns() + patience_ns, err);
}

int runner_try(struct runner *r, const struct runner_trial *t, int noutputs, const struct runner_data *data,
	uint64_t deadline_ns, struct runner_result *result, struct err *err)
{
	int fds[3] = {data->given_fd, data->outputs_fd, data->library ? data->library->fd : -1},
		nfds = data->library ? 3 : 2;
	json_t *answer = NULL;
	bool is_asked_all = false;
	r->has_begun = false;
	uint64_t start = clock_ns(), patience_ns = deadline_ns > start ? deadline_ns - start : 0;
	int rc = send_json(r, json_pack("{s:o}", "trial", runner_trial_json(t, noutputs)), fds, nfds, deadline_ns, err);
	/* That the rows begin, once; questions about library rows, then those of
	 * time, then the result. */
	for (;;) {
		if (!rc) rc = recv_json(r, deadline_ns, &answer, err);
		const json_t *row = json_object_get(answer, "library"), *clock = json_object_get(answer, "clock");
		bool begins = json_object_get(answer, "begun") && !r->has_begun;
		if (rc || (!row && !clock && !begins)) break;
		if (begins) r->has_begun = true;
		else if (row) rc = library_answer(r, data->library, row, deadline_ns, err);
		else rc = clock_answer(r, data->asker, clock, patience_ns, &is_asked_all, err);
		if (!row) deadline_ns = clock_ns() + patience_ns;
		json_decref(answer);
		answer = NULL;
	}
	if (!rc) rc = runner_result_parse(json_object_get(answer, "trial"), result, err);
	json_decref(answer);
	return rc;
}

int runner_price(struct runner *r, const char *tape, size_t len, const struct runner_trial *t, uint64_t deadline_ns,
	struct runner_result *result, struct err *err)
{
	int fd = runner_text_fd(tape, len, err);
	if (fd < 0) return fd;
	json_t *answer = NULL;
	int rc = send_json(r, json_pack("{s:o}", "price", runner_trial_json(t, 0)), &fd, 1, deadline_ns, err);
	close(fd);
	if (!rc) rc = recv_json(r, deadline_ns, &answer, err);
	if (!rc) rc = runner_result_parse(json_object_get(answer, "trial"), result, err);
	json_decref(answer);
	return rc;
}

int runner_prove(struct runner *r, const char *tape, size_t len, const struct runner_proof *p, uint64_t deadline_ns,
	struct prove_result *out, struct err *err)
{
	int fds[CHILD_FDS_MAX] = {runner_text_fd(tape, len, err), p->words_fd};
	CHECKF(p->nfds <= CHILD_FDS_MAX - 2, "%d descriptors of a proof", p->nfds);
	if (fds[0] < 0) return fds[0];
	memcpy(fds + 2, p->fds, (size_t)p->nfds * sizeof *fds);
	json_t *answer = NULL,
		   *request = json_pack("{s:{s:I, s:i}}", "proof", "seed", (json_int_t)(p->seed >> 1), "ms", p->ms);
	int rc = send_json(r, request, fds, p->nfds + 2, deadline_ns, err);
	close(fds[0]);
	if (!rc) rc = recv_json(r, deadline_ns, &answer, err);
	const json_t *proof = json_object_get(answer, "proof");
	const char *failed = json_string_value(json_object_get(proof, "failed"));
	if (!rc && failed) rc = err_set(err, ERR_MISMATCH, "%.900s", failed);
	if (!rc) rc = prove_result_parse(proof, out, err);
	json_decref(answer);
	return rc;
}

/* {"reset"}, and the answer that it is as good as new. */
static int reset(struct runner *r)
{
	uint64_t deadline = clock_ns() + RESET_MS * UINT64_C(1000000);
	struct err err = {0};
	json_t *answer = NULL;
	int rc = send_json(r, json_pack("{s:{}}", "reset"), NULL, 0, deadline, &err);
	if (!rc) rc = recv_json(r, deadline, &answer, &err);
	if (!rc && !json_is_true(json_object_get(answer, "ready"))) rc = ERR_CHILD;
	json_decref(answer);
	return rc;
}

void runner_give_back(struct runner_pool *p, struct runner *r)
{
	bool is_kept = p->device && !r->is_tainted && ++r->served < SERVED_MAX && !reset(r);
	is_kept = is_kept && keep(p, r);
	if (!is_kept) runner_end(p, r, NULL, 0, NULL);
}
