/* verify: the verifier's queue and threads.
 *
 * A request becomes a work item; requests with the same key join one item, so a group's duplicates
 * are graded once. Worker threads take items, look them up in the store, grade what is not there,
 * and put the verdict behind every id that waits for it.
 *
 * Closing: workers may be waiting for a child. verifier_free stops the zygotes and kills the
 * runners in use, which wakes every wait; what was being graded ends as an infrastructure fault
 * that nobody collects. */
#include "verify/gpu_steps.h"
#include "verify/verdict_cache.h"
#include "base/base.h"
#include "cost/cost.h"
#include "prove/prove.h"
#include "runner/runner.h"
#include "sandbox/sandbox.h"
#include "task/task.h"
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <sys/random.h>
#include <unistd.h>

#define VERIFIER_VERSION "31"       /* part of cache keys: raised when verdicts may change */
#define READY_TIMEOUT_MS 180000
#define SILENT_SHARE 4               /* of a reference's time: a task has four trials at least */
#define SILENT_LEAST_MS 5000
#define KNOWN 4096                   /* verdicts kept in memory */
#define ORACLE_TASKS_MAX 48
#define ORACLE_BYTES_MAX ((int64_t)2 << 30)

struct waiter {
	int64_t id;
	bool is_duplicate;
	struct waiter *next;
};
struct work {
	struct sha256_hex key;
	struct task task;
	char *source;
	size_t source_len;
	bool is_final;
	struct str *ir_form; /* the caller's, NULL: not asked for */
	char *emit;          /* a file, NULL: not asked for */
	struct waiter *waiters;
	struct work *next;
};
struct finished {
	int64_t id;
	struct verdict verdict;
	struct finished *next;
};

struct verifier {
	struct verify_shared s;
	struct verify_places places;
	char *options_text;
	int nthreads;
	atomic_int nstarted; /* of them */
	pthread_t *threads;
	pthread_mutex_t lock;
	pthread_cond_t has_work;
	struct work *queue; /* waiting, the oldest first */
	struct work *queue_last;
	struct work *running;
	struct finished *finished; /* to be collected, the oldest first */
	struct finished *finished_last;
	int finished_fd; /* eventfd that counts the list: readable while there is something to collect; -1: none */
	int outstanding; /* ids submitted and not collected */
	bool is_closing;
	bool is_ready;
	pthread_mutex_t ready_lock;
	struct verdict_cache *verdicts;
};

/* ---- readiness: the zygotes import while the first request is on its way ---- */

static int versions_set(struct verifier *v, struct err *err)
{
	const json_t *versions = NULL;
	int rc = zygote_ready(v->s.tracer, READY_TIMEOUT_MS, &versions, err);
	if (!rc) rc = zygote_ready(v->s.oracle, READY_TIMEOUT_MS, NULL, err);
	if (!rc && v->s.compiler) rc = zygote_ready(v->s.compiler, READY_TIMEOUT_MS, NULL, err);
	if (rc) return rc;
	char *text = versions ? json_dumps(versions, JSON_COMPACT | JSON_SORT_KEYS) : NULL;
	free(v->s.versions);
	v->s.versions = xasprintf("verifier %s %s", VERIFIER_VERSION, text ? text : "{}");
	free(text);
	return 0;
}

static int ready(struct verifier *v, struct err *err)
{
	pthread_mutex_lock(&v->ready_lock);
	int rc = v->is_ready ? 0 : versions_set(v, err);
	v->is_ready = rc == 0;
	pthread_mutex_unlock(&v->ready_lock);
	return rc;
}

int verifier_versions(struct verifier *v, const char **out, struct err *err)
{
	int rc = ready(v, err);
	*out = rc ? NULL : v->s.versions;
	return rc;
}

/* ---- the threads ---- */

/* Of a verdict that outlives the process: with the versions of what judged it. */
static struct sha256_hex final_key(struct verifier *v, const struct sha256_hex *key)
{
	struct slice parts[] = {{key->text, strlen(key->text)}, {v->s.versions, strlen(v->s.versions)}};
	return hash_parts(parts, ARRAY_LEN(parts));
}

static void judge(struct verifier *v, struct verify_gpu *on, const struct work *w, struct verdict *out)
{
	struct err err = {0};
	uint64_t start = clock_ns();
	bool is_settled = grade_text(&v->s, w->source, w->source_len, out);
	if (is_settled) kernelbench_refused(out);
	/* A cheat by its text has KernelBench's verdict all the same, and that takes workers. */
	if (is_settled && (out->class != VERDICT_CHEAT || ready(v, &err))) {
		out->key = w->key;
		return;
	}
	if (ready(v, &err)) {
		out->class = VERDICT_INFRA;
		snprintf(out->reason, sizeof out->reason, "infra");
		snprintf(out->detail, sizeof out->detail, "%.1000s", err.text);
		return;
	}
	/* A verdict that is stored under the same key is the verdict. */
	struct sha256_hex key = final_key(v, &w->key);
	if (!w->ir_form && !w->emit && verdict_cache_load(v->verdicts, &key, out)) {
		out->cached = true;
		out->seconds = (double)(clock_ns() - start) * 1e-9;
		return;
	}
	if (is_settled) {
		grade_kernelbench(&v->s, &w->task, w->source, w->source_len, out);
	} else {
		struct verify_request r = {.task = &w->task,
			.source = w->source,
			.source_len = w->source_len,
			.ir_form = w->ir_form,
			.emit = w->emit,
			.is_final = w->is_final};
		grade(&v->s, on, &r, out, NULL);
	}
	out->key = key;
	verdict_cache_save(v->verdicts, out);
}

static void work_free(struct work *w)
{
	while (w->waiters) {
		struct waiter *next = w->waiters->next;
		free(w->waiters);
		w->waiters = next;
	}
	free(w->task.name);
	free(w->task.source);
	free(w->source);
	free(w->emit);
	free(w);
}

/* With the lock: puts a verdict behind the finished ones and counts it. */
static void finished_push(struct verifier *v, int64_t id, const struct verdict *d, bool is_cached)
{
	struct finished *f = xcalloc(1, sizeof *f);
	*f = (struct finished){.id = id, .verdict = *d};
	f->verdict.cached |= is_cached;
	*(v->finished_last ? &v->finished_last->next : &v->finished) = f;
	v->finished_last = f;
	CHECK(eventfd_write(v->finished_fd, 1) == 0);
}

/* With the lock: hands the verdict to everyone who waits for it. */
static void publish(struct verifier *v, struct work *w, const struct verdict *d)
{
	for (struct work **p = &v->running; *p; p = &(*p)->next)
		if (*p == w) {
			*p = w->next;
			break;
		}
	for (struct waiter *x = w->waiters; x; x = x->next) finished_push(v, x->id, d, x->is_duplicate);
	if (d->class != VERDICT_INFRA) verdict_cache_keep(v->verdicts, &w->key, d);
}

/* The oldest item, which moves to the running ones, where a duplicate still finds
 * it. NULL: it is over. */
static struct work *work_next(struct verifier *v)
{
	pthread_mutex_lock(&v->lock);
	while (!v->queue && !v->is_closing) pthread_cond_wait(&v->has_work, &v->lock);
	struct work *w = v->is_closing ? NULL : v->queue;
	if (w) {
		v->queue = w->next;
		if (!v->queue) v->queue_last = NULL;
		w->next = v->running;
		v->running = w;
	}
	pthread_mutex_unlock(&v->lock);
	return w;
}

static void work_do(struct verifier *v, struct verify_gpu *on, struct work *w)
{
	/* Judging takes long, so it runs without the lock. */
	struct verdict d = {0};
	judge(v, on, w, &d);
	pthread_mutex_lock(&v->lock);
	publish(v, w, &d);
	pthread_mutex_unlock(&v->lock);
	work_free(w);
	/* Used runners are replaced after the verdict is out, so as not to delay it. */
	runner_pool_refill(v->s.runners);
	if (on) gpu_runners_refill(on);
}

static void *worker_main(void *arg)
{
	struct verifier *v = arg;
	/* GPUs are given to threads in turn. */
	struct verify_gpu *on = v->s.ngpus ? &v->s.gpus[atomic_fetch_add(&v->nstarted, 1) % v->s.ngpus] : NULL;
	for (bool is_over = false; !is_over;) {
		/* Who waits for work has a seat already, so that no more of it is begun than there are. */
		seats_take(&v->s.seats);
		struct work *w = work_next(v);
		if (w) work_do(v, on, w);
		is_over = !w;
		seats_leave(&v->s.seats);
	}
	return NULL;
}

/* ---- create and free ---- */

/* Everything that a verdict depends on beside source, task and versions: where it was found (the
 * device as it calls itself), the card for which kernels are made, and what is asked. */
static void options_text_set(struct verifier *v, const struct verify_options *o)
{
	const struct vm_gpu *gpu = &v->s.gpu;
	const struct runner_device *d = &v->s.gpus[0].device;
	/* The seed chooses hidden inputs, which must not change what a verdict is; a given one is part
	 * of the key, so that tests are repeatable. */
	v->options_text = xasprintf("%s|%d|%d|%d|%s|%d|%d|%lld| %s %s %d %d %u %u %d %d %d %d %llu %s %d %g %d",
		v->s.ngpus ? d->name : "vm", d->driver, d->clock_khz, d->memory_clock_khz, gpu->name, gpu->capability, gpu->sms,
		(long long)gpu->shared_bytes, v->s.tf32 ? "tf32" : "strict", sandbox_level_name(v->s.level), v->s.num_trials,
		v->s.ngpus ? v->s.time_repeats : 0,
		v->s.ngpus ? v->s.reference_mask | (unsigned)v->s.is_live << REFERENCE_COUNT : 0,
		v->s.ngpus ? v->s.final_mask : 0, v->s.sanitizer != NULL, v->s.is_paired, v->s.skip_compile, v->s.screens,
		(unsigned long long)o->seed, o->cost_size ? o->cost_size : "judged", v->s.limits.oracle_work_ms,
		v->s.sanitize_share, v->s.profiler != NULL);
}

/* What times on a GPU need beside its runners: others' presence, the machine's peaks. None
 * of it has to be there. */
static void timing_start(struct verifier *v, struct verify_gpu *on)
{
	char why[256] = "";
	if (!v->s.time_repeats && !v->s.is_live) return;
	on->watch = gpu_watch_open(NULL, on->device.uuid, why, sizeof why);
	if (!on->watch) log_info("verify: nothing is known of other processes on the GPU: %s", why);
	struct gpu_identity gpu = gpu_identity_of(&on->device);
	gpu_peaks_load(&gpu, &on->peaks, NULL);
}

/* One pool of runners for one GPU, which names itself when the first starts. */
static int gpu_start_one(struct verifier *v, const struct verify_options *o, int number, int spare, struct err *err)
{
	char name[16];
	struct verify_gpu *on = &v->s.gpus[v->s.ngpus];
	snprintf(name, sizeof name, "cuda:%d", number);
	struct runner_pool_options pool = {.path = v->places.runner,
		.device = name,
		.level = v->s.level,
		.memory_bytes = v->s.limits.gpu_memory_bytes,
		.spare = spare};
	int rc = runner_pool_create(&pool, &on->runners, &on->device, err);
	/* Containers may forbid what the strongest level needs for a GPU's driver. */
	if (rc && v->s.level == SANDBOX_FULL && !(o->sandbox && o->sandbox[0])) {
		char why[sizeof err->text];
		snprintf(why, sizeof why, "%s", err->text);
		pool.level = SANDBOX_LSM;
		rc = runner_pool_create(&pool, &on->runners, &on->device, err);
		if (!rc) {
			log_warn("verify: the GPU's runner does not start at sandbox level full (%s); level lsm is used", why);
			v->s.level = SANDBOX_LSM;
		}
	}
	if (rc) return rc;
	v->s.ngpus++;
	timing_start(v, on);
	/* Verdicts, times and binaries are the same whichever GPU a thread has. */
	const struct runner_device *first = &v->s.gpus[0].device;
	if (strcmp(first->name, on->device.name) || first->driver != on->device.driver)
		return err_set(
			err, ERR_USAGE, "device: expected GPUs of one kind, found a %s beside a %s", on->device.name, first->name);
	return 0;
}

/* The GPUs, and the card that kernels are made for: the devices', or the one that was named. */
static int device_start(struct verifier *v, const struct verify_options *o, int spare, struct err *err)
{
	struct device_list list;
	int rc = setup_devices(o->device, &list, err);
	if (rc || !list.count) return rc ? rc : setup_gpu(o->gpu, NULL, &v->s.gpu, err);
	for (int i = 0; i < list.count && !rc; i++)
		rc = gpu_start_one(v, o, list.numbers[i], (spare + list.count - 1) / list.count, err);
	if (!rc) rc = setup_gpu(o->gpu, &v->s.gpus[0].device, &v->s.gpu, err);
	if (!rc && v->s.gpu.capability != v->s.gpus[0].device.capability) {
		v->s.run_capability = v->s.gpus[0].device.capability;
		if (v->s.time_repeats || v->s.is_live)
			return err_set(err, ERR_USAGE,
				"gpu: a %s can show whether kernels for a %s are right, but its times are none of that card's; give "
				"--skip_timing, without --live",
				v->s.gpus[0].device.name, v->s.gpu.name);
	}
	/* References' processes: one zygote, whose jobs are told their GPU. */
	return rc ? rc : zygote_create(v->places.root, v->places.library, "timer", false, &v->s.timer, err);
}

/* How many candidates are under way at once, and how many of them at work. Each has one process at
 * work at a time, and between two of these nobody runs for a moment, a fifth of its time: so
 * without a GPU one more is at work for each four processors. One processor has one, in the order
 * of submission. Beside a GPU no more are at work than there are processors, and one more is under
 * way for each four where they are timed: it has the seat of one that waits for the GPU. Each
 * thread more is also a context more in the GPU's memory. */
static void crew_size(const struct verify_options *o, const struct verify_shared *s, int *judges, int *seats)
{
	struct device_list gpus;
	int processors = o->threads > 0 ? o->threads : cpu_count();
	bool has_gpu = !setup_devices(o->device, &gpus, NULL) && gpus.count;
	bool is_alone = processors == 1 || (has_gpu && !s->time_repeats);
	*judges = is_alone ? processors : processors + (processors + 3) / 4;
	*seats = has_gpu ? processors : *judges;
}

static int children_start(struct verifier *v, const struct verify_options *o, int spare, struct err *err)
{
	/* Zygotes first: they import what every job needs while the rest is set up. */
	bool has_many = spare > 1; /* who grades one candidate has one thread; a task has one oracle, whoever grades */
	int rc = zygote_create(v->places.root, v->places.library, "oracle", false, &v->s.oracle, err);
	if (!rc) rc = zygote_create(v->places.root, v->places.library, "tracer", has_many, &v->s.tracer, err);
	if (!rc) rc = zygote_create(v->places.root, v->places.library, "compile", has_many, &v->s.compiler, err);
	struct runner_pool_options pool = {
		.path = v->places.runner, .level = v->s.level, .memory_bytes = v->s.limits.replay_memory_bytes, .spare = spare};
	if (!rc) rc = runner_pool_create(&pool, &v->s.runners, NULL, err);
	if (!rc) rc = device_start(v, o, spare, err);
	if (rc) return rc;
	/* Inputs that no candidate can know: without a seed of the user's, the system's. */
	uint64_t seed = o->seed;
	if (!seed && getrandom(&seed, sizeof seed, 0) != sizeof seed)
		return err_set(err, ERR_INFRA, "no random seed from the system: %s", strerror(errno));
	struct oracle_options oracle = {.limits = {v->s.level, v->s.limits.oracle_memory_bytes, 0},
		.timeout_ms = v->s.limits.oracle_timeout_ms,
		.silent_ms = MAX(v->s.limits.oracle_timeout_ms / SILENT_SHARE, SILENT_LEAST_MS),
		.is_spare = v->s.ngpus > 0,
		.work_ms = v->s.limits.oracle_work_ms,
		.seed = seed,
		.num_trials = v->s.num_trials,
		.num_checks = KERNELBENCH_TRIALS - 1,
		.tf32 = v->s.tf32,
		.cost_size = o->cost_size && strcmp(o->cost_size, "judged") ? o->cost_size : NULL};
	v->s.wants_price = oracle.cost_size != NULL;
	v->s.cost_seed = seed >> 1; /* a number of JSON has 63 bits */
	v->s.oracles = oracle_cache_create(v->s.oracle, &oracle, ORACLE_BYTES_MAX, ORACLE_TASKS_MAX);
	return 0;
}

int verifier_create(const struct verify_options *o, struct verifier **out, struct err *err)
{
	struct verify_shared shared = {0};
	/* Options are checked before anything is made: a wrong one leaves nothing to release. */
	int rc = setup_shared(o, &shared, err);
	if (rc) return rc;
	struct verifier *v = xcalloc(1, sizeof *v);
	v->s = shared;
	int kept = o->num_kept > 0 ? o->num_kept : KNOWN;
	v->verdicts = verdict_cache_create((size_t)kept, v->s.store);
	v->s.compiles = compile_cache_create(kept);
	v->s.rebuilds = rebuild_cache_create();
	v->s.references = reference_cache_create(v->s.store);
	v->s.choices = choice_cache_create(v->s.store);
	pthread_mutex_init(&v->lock, NULL);
	pthread_mutex_init(&v->ready_lock, NULL);
	pthread_mutex_init(&v->s.times_lock, NULL);
	pthread_cond_init(&v->has_work, NULL);
	/* As a semaphore each read takes one verdict off the count, so that the descriptor stays
	 * readable for the rest. */
	v->finished_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK | EFD_SEMAPHORE);
	if (v->finished_fd < 0) rc = err_set(err, ERR_INFRA, "no eventfd for the verdicts: %s", strerror(errno));
	int threads, seats;
	crew_size(o, &v->s, &threads, &seats);
	seats_create(&v->s.seats, seats);
	v->threads = xcalloc((size_t)threads, sizeof *v->threads);
	if (!rc) rc = setup_places(o, &v->places, err);
	if (!rc) rc = children_start(v, o, threads, err);
	if (!rc) options_text_set(v, o);
	if (!rc) rc = endings_create(&v->s, &v->s.endings, err);
	/* Threads start last, since they use all of the above, and are counted one by one: after a
	 * failure those that run are joined. */
	while (!rc && v->nthreads < threads) {
		if (pthread_create(&v->threads[v->nthreads], NULL, worker_main, v))
			rc = err_set(err, ERR_INFRA, "cannot start worker thread %d: %s", v->nthreads, strerror(errno));
		else v->nthreads++;
	}
	if (rc) verifier_free(v);
	else *out = v;
	return rc;
}

static void lists_free(struct verifier *v)
{
	while (v->queue) {
		struct work *next = v->queue->next;
		work_free(v->queue);
		v->queue = next;
	}
	while (v->finished) {
		struct finished *next = v->finished->next;
		free(v->finished);
		v->finished = next;
	}
}

void verifier_free(struct verifier *v)
{
	if (!v) return;
	/* Threads without work are woken and find that it is over. */
	pthread_mutex_lock(&v->lock);
	v->is_closing = true;
	pthread_cond_broadcast(&v->has_work);
	pthread_mutex_unlock(&v->lock);
	endings_wait(v->s.endings);
	/* Threads at work wait for a child: its end wakes them, and no new one starts. */
	struct zygote *zygotes[] = {v->s.tracer, v->s.oracle, v->s.compiler, v->s.timer};
	for (size_t i = 0; i < ARRAY_LEN(zygotes); i++)
		if (zygotes[i]) zygote_stop(zygotes[i]);
	if (v->s.runners) runner_pool_stop(v->s.runners);
	for (int i = 0; i < v->s.ngpus; i++) runner_pool_stop(v->s.gpus[i].runners);
	for (int i = 0; i < v->nthreads; i++) pthread_join(v->threads[i], NULL);
	/* What the threads share is freed when none of them is left, and none of their processes. */
	endings_free(v->s.endings);
	runner_pool_free(v->s.runners);
	for (int i = 0; i < v->s.ngpus; i++) runner_pool_free(v->s.gpus[i].runners);
	free(v->s.sanitizer);
	free(v->s.profiler);
	oracle_cache_free(v->s.oracles);
	compile_cache_free(v->s.compiles);
	rebuild_cache_free(v->s.rebuilds);
	reference_cache_free(v->s.references);
	choice_cache_free(v->s.choices);
	verdict_cache_free(v->verdicts);
	for (int i = 0; i < v->s.ngpus; i++) {
		gpu_watch_close(v->s.gpus[i].watch);
		stock_forget(&v->s.gpus[i]);
	}
	for (size_t i = 0; i < ARRAY_LEN(zygotes); i++) zygote_free(zygotes[i]);
	lists_free(v);
	pthread_mutex_destroy(&v->lock);
	pthread_mutex_destroy(&v->ready_lock);
	pthread_mutex_destroy(&v->s.times_lock);
	pthread_cond_destroy(&v->has_work);
	seats_destroy(&v->s.seats);
	if (v->finished_fd >= 0) close(v->finished_fd);
	free(v->s.versions);
	free(v->threads);
	setup_places_release(&v->places);
	free(v->options_text);
	free(v);
}

/* ---- requests ---- */

static struct work *list_find(struct work *list, const struct sha256_hex *key)
{
	for (; list; list = list->next)
		if (!strcmp(list->key.text, key->text)) return list;
	return NULL;
}

static void waiter_add(struct work *w, int64_t id, bool is_duplicate)
{
	struct waiter *x = xcalloc(1, sizeof *x), **p = &w->waiters;
	*x = (struct waiter){.id = id, .is_duplicate = is_duplicate};
	while (*p) p = &(*p)->next;
	*p = x;
}

static struct work *work_create(const struct verify_request *r, const struct sha256_hex *key)
{
	struct work *w = xcalloc(1, sizeof *w);
	w->key = *key;
	w->task = (struct task){
		.name = xstrdup(r->task->name ? r->task->name : ""), .source = xstrdup(r->task->source), .hash = r->task->hash};
	w->source = xstrndup(r->source, r->source_len);
	w->source_len = r->source_len;
	w->is_final = r->is_final;
	w->ir_form = r->ir_form;
	w->emit = r->emit ? xstrdup(r->emit) : NULL;
	return w;
}

int verifier_submit(struct verifier *v, const struct verify_request *r, struct err *err)
{
	if (!r->task || !r->task->source || !r->source)
		return err_set(err, ERR_USAGE, "a request needs a task with a source and a candidate");
	/* A source over the bound is judged by its size alone; its head is enough to hash. */
	size_t len = MIN(r->source_len, VERIFY_SOURCE_BYTES_MAX + 1);
	struct verify_request cut = *r;
	cut.source_len = len;
	struct slice parts[] = {{r->source, len}, {r->task->source, strlen(r->task->source)},
		{v->options_text, strlen(v->options_text)}, {" final", r->is_final && v->s.ngpus ? 6 : 0},
		{r->emit, r->emit ? strlen(r->emit) : 0}};
	struct sha256_hex key = hash_parts(parts, ARRAY_LEN(parts));
	/* A verdict that is known answers at once; a candidate that is under way gets one more waiter;
	 * else it is queued. */
	pthread_mutex_lock(&v->lock);
	v->outstanding++;
	const struct verdict *known = verdict_cache_find(v->verdicts, &key);
	struct work *same = list_find(v->queue, &key);
	if (!same) same = list_find(v->running, &key);
	/* Whoever wants it in another form has that made from the tapes. */
	if (r->ir_form || r->emit) known = NULL, same = NULL;
	if (known) {
		struct verdict again = *known;
		again.seconds = 0;
		finished_push(v, r->id, &again, true);
	} else if (same) {
		waiter_add(same, r->id, true);
	} else {
		struct work *w = work_create(&cut, &key);
		waiter_add(w, r->id, false);
		*(v->queue_last ? &v->queue_last->next : &v->queue) = w;
		v->queue_last = w;
		pthread_cond_signal(&v->has_work);
	}
	pthread_mutex_unlock(&v->lock);
	return 0;
}

int verifier_fd(const struct verifier *v) { return v->finished_fd; }
bool verifier_has_gpu(const struct verifier *v) { return v->s.ngpus > 0; }
const struct vm_gpu *verifier_card(const struct verifier *v) { return &v->s.gpu; }

const char *verifier_card_name(const struct verifier *v) { return v->s.gpu.name; }

/* Waits until the descriptor is readable: 0, or ERR_TIMEOUT. */
static int finished_wait(struct verifier *v, int timeout_ms, struct err *err)
{
	struct pollfd p = {.fd = v->finished_fd, .events = POLLIN};
	uint64_t now = clock_ns(), end = now + (uint64_t)MAX(timeout_ms, 0) * 1000000u;
	int n;
	/* A signal ends poll early: what is left of the time is waited again, rounded up. */
	while ((n = poll(&p, 1, timeout_ms < 0 ? -1 : (int)((end - now + 999999u) / 1000000u))) < 0) {
		CHECKF(errno == EINTR, "poll: %s", strerror(errno));
		now = MIN(clock_ns(), end);
	}
	return n ? 0 : err_set(err, ERR_TIMEOUT, "no verdict within %d ms", timeout_ms);
}

int verifier_collect(struct verifier *v, int timeout_ms, int64_t *id, struct verdict *out, struct err *err)
{
	pthread_mutex_lock(&v->lock);
	bool is_idle = !v->outstanding;
	pthread_mutex_unlock(&v->lock);
	if (is_idle) return err_set(err, ERR_NOT_FOUND, "no verdict is outstanding");
	int rc = finished_wait(v, timeout_ms, err);
	if (rc) return rc;
	/* One thread collects, so what made the descriptor readable is still there. */
	eventfd_t one;
	pthread_mutex_lock(&v->lock);
	CHECK(eventfd_read(v->finished_fd, &one) == 0);
	struct finished *f = v->finished;
	v->finished = f->next;
	if (!v->finished) v->finished_last = NULL;
	v->outstanding--;
	pthread_mutex_unlock(&v->lock);
	*id = f->id;
	*out = f->verdict;
	free(f);
	return 0;
}

void verifier_times(struct verifier *v, struct verify_times *out)
{
	endings_wait(v->s.endings);
	pthread_mutex_lock(&v->s.times_lock);
	*out = v->s.times;
	pthread_mutex_unlock(&v->s.times_lock);
}

/* Nothing was found wrong, and not everything was looked at, as the options say. */
static bool is_skipped(const struct verdict *d)
{
	return !strcmp(d->reason, "compile-skipped") || !strcmp(d->reason, "replay-skipped");
}

/* The verdict's word, where it has one; else the proof's. */
static void proof_settle(const struct verdict *d, struct verify_proof *p)
{
	struct prove_result *r = &p->result;
	p->alone = r->answer;
	if (d->class == VERDICT_GENUINE || is_skipped(d)) return;
	r->answer = d->class == VERDICT_WRONG ? PROVE_REFUTED : PROVE_OUTSIDE;
	r->line = d->line;
	snprintf(r->text, sizeof r->text, "%s/%s: %.900s", verdict_class_name(d->class), d->reason, d->detail);
}

int verifier_prove(struct verifier *v, const struct task *task, const char *source, size_t len, struct verdict *verdict,
	struct verify_proof *out, struct err *err)
{
	*out = (struct verify_proof){.result = {.answer = PROVE_OUTSIDE}};
	int rc = ready(v, err);
	if (rc) return rc;
	if (!grade_text(&v->s, source, len, verdict))
		grade(&v->s, v->s.ngpus ? &v->s.gpus[0] : NULL,
			&(struct verify_request){.task = task, .source = source, .source_len = len}, verdict, &out->result);
	proof_settle(verdict, out);
	if (verdict->class != VERDICT_INFRA || is_skipped(verdict)) return 0;
	return err_set(err, ERR_INFRA, "%.900s", verdict->detail);
}

int verifier_audit(struct verifier *v, const struct task *task, json_t **out, struct err *err)
{
	int rc = ready(v, err);
	return rc ? rc : audit_run(&v->s, task, out, err);
}
