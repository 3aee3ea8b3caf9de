/* compile_step: every launched kernel is really compiled for the target. The result of a kernel
 * (resources or error text) depends on its IR, its options and the compiler's version alone, so it
 * is kept by hash: in memory for this process, in the store for all. */
#include "verify/gpu_steps.h"
#include "base/base.h"
#include "cost/cost.h"
#include "runner/runner.h"
#include "store/store.h"
#include "tape/tape.h"
#include <errno.h>
#include <nettle/base64.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <sys/stat.h>
#include <unistd.h>

#define MESSAGE_BYTES_MAX ((size_t)8 << 20)
#define CUBIN_BYTES_MAX ((int64_t)16 << 20)
#define WALL_FACTOR 3     /* wall clock a compilation may take per CPU time left */

struct entry {
	struct sha256_hex key;
	json_t *result;
	bool is_running;
};
struct compile_cache {
	unsigned count;
	struct entry *entries; /* (count) */
	pthread_mutex_t lock;
	pthread_cond_t changed;
};

struct compile_cache *compile_cache_create(int entries)
{
	struct compile_cache *c = xcalloc(1, sizeof *c);
	c->count = (unsigned)entries;
	c->entries = xcalloc(c->count, sizeof *c->entries);
	pthread_mutex_init(&c->lock, NULL);
	pthread_cond_init(&c->changed, NULL);
	return c;
}

void compile_cache_free(struct compile_cache *c)
{
	if (!c) return;
	for (unsigned i = 0; i < c->count; i++) json_decref(c->entries[i].result);
	free(c->entries);
	pthread_cond_destroy(&c->changed);
	pthread_mutex_destroy(&c->lock);
	free(c);
}

static struct sha256_hex key_of(const struct grading *g, const struct tape_kernel *k)
{
	char arch[64];
	const struct vm_gpu *gpu = &g->s->gpu;
	snprintf(arch, sizeof arch, "%d,%lld,%s%s,%d", gpu->capability, (long long)gpu->shared_bytes,
		g->s->ngpus ? "cubin" : "", g->is_uncontracted ? ",uncontracted" : "", g->s->run_capability);
	struct slice parts[] = {
		{k->hash.text, strlen(k->hash.text)}, {g->s->versions, strlen(g->s->versions)}, {arch, strlen(arch)}};
	return hash_parts(parts, ARRAY_LEN(parts));
}

/* Direct-mapped: a collision only evicts. */
static struct entry *slot(struct compile_cache *c, const struct sha256_hex *key)
{
	return &c->entries[hash_place(key, (uint32_t)c->count)];
}

static json_t *store_find(struct grading *g, const struct sha256_hex *key)
{
	struct str text = {0};
	json_t *o = NULL;
	if (g->s->store && store_get(g->s->store, "compile", key->text, &text, NULL) == 0)
		json_parse(text.data, text.len, "stored compile result", &o, NULL);
	str_release(&text);
	return o;
}

static void store_keep(struct grading *g, const struct sha256_hex *key, const json_t *result)
{
	if (!g->s->store) return;
	struct err err = {0};
	char *text = json_dumps(result, JSON_COMPACT | JSON_SORT_KEYS);
	if (text && store_put(g->s->store, "compile", key->text, text, strlen(text), &err))
		log_warn("verify: %s", err.text);
	free(text);
}

static json_t *job_json(const struct grading *g, const struct tape_kernel *k)
{
	json_t *o = json_pack("{s:s%, s:i, s:i, s:i, s:i, s:I, s:b, s:b, s:b, s:b, s:b, s:b}", "ttir", k->ttir, k->ttir_len,
		"num_warps", k->num_warps, "num_stages", k->num_stages, "num_ctas", k->num_ctas, "arch", g->s->gpu.capability,
		"shared_bytes", (json_int_t)g->s->gpu.shared_bytes, "enable_fp_fusion", !k->no_fp_fusion && !g->is_uncontracted,
		"enable_reflect_ftz", !k->no_reflect_ftz, "launch_cooperative_grid", k->is_cooperative, "launch_pdl", k->is_pdl,
		"want_ttgir", 1, "want_cubin", g->s->ngpus > 0);
	if (g->s->run_capability) json_object_set_new(o, "run_arch", json_integer(g->s->run_capability));
	if (k->maxnreg) json_object_set_new(o, "maxnreg", json_integer(k->maxnreg));
	if (k->ptx_options) json_object_set_new(o, "ptx_options", json_string(k->ptx_options));
	return o;
}

static json_t *fault_json(const char *code, const char *text)
{
	return json_pack("{s:{s:s, s:s}}", "fault", "code", code, "text", text);
}

/* The binary that came with an answer, as text in it: an entry of the cache is one
 * JSON object. Whether there is one, and its size, are the doing of the IR (a name may
 * have a million letters). */
static int cubin_take(json_t **result, int fd, struct err *err)
{
	struct stat st;
	if (fd < 0 || fstat(fd, &st) || st.st_size < 1 || st.st_size > CUBIN_BYTES_MAX) {
		json_decref(*result);
		*result = fault_json("compile-error", "the kernel's binary has more bytes than any that is taken, or none");
		return 0;
	}
	size_t n = (size_t)st.st_size, done = 0;
	uint8_t *data = xmalloc(n);
	while (done < n) {
		ssize_t got = pread(fd, data + done, n - done, (off_t)done);
		if (got <= 0) break;
		done += (size_t)got;
	}
	char *text = xmalloc(BASE64_ENCODE_RAW_LENGTH(n) + 1);
	base64_encode_raw(text, n, data);
	if (done == n) json_object_set_new(*result, "cubin", json_stringn(text, BASE64_ENCODE_RAW_LENGTH(n)));
	free(text);
	free(data);
	return done == n ? 0 : err_set(err, ERR_INFRA, "reading the compile worker's binary: %s", strerror(errno));
}

/* Triton's compiler dies on some IR (assertions, stack overflow): the kernel's fault, not ours,
 * unless the process never got as far. The same holds for an answer that is none. */
static int compiler_died(const struct grading *g, struct job *job, const char *what, struct err *err)
{
	char status[64] = "still running";
	job_wait(job, 1000);
	if (job_check_entered(job, err)) return ERR_INFRA;
	if (job->ended) child_status_text(job->status, status, sizeof status);
	if (job_is_out_of_time(job))
		return err_set(err, ERR_TIMEOUT, "the compiler used up the processor time of all kernels together, %d ms",
			g->s->limits.compile_timeout_ms);
	return err_set(err, ERR_CHILD, "the compiler ended on this kernel: %s (%.200s)", status, what);
}

/* All compilations of one candidate share one budget of CPU time: a hundred kernels have no more of
 * it than one. What is left of it; ERR_TIMEOUT when nothing is, and then `task` is dropped. */
static int budget_left(const struct grading *g, json_t *task, int64_t *left_ms, struct err *err)
{
	*left_ms = g->s->limits.compile_timeout_ms - g->compile_ms - (g->has_builder ? job_cpu_ms(&g->builder) : 0);
	if (*left_ms > 0) return 0;
	json_decref(task);
	return err_set(err, ERR_TIMEOUT, "compiling all kernels took more than %d ms", g->s->limits.compile_timeout_ms);
}

/* A job's next answer. The clock on the wall may run WALL_FACTOR as fast as the processor's,
 * for a loaded machine. */
static int answer_take(struct grading *g, struct job *job, int64_t left_ms, size_t bytes_max, struct str *text,
	int *fds, int *nfds, struct err *err)
{
	struct err said = {0};
	int rc = job_next(job, bytes_max, text, fds, nfds, deadline_in_ms(left_ms * WALL_FACTOR), &said);
	if (rc == ERR_TIMEOUT)
		return err_set(err, ERR_TIMEOUT, "the compiler did not finish in time (%d ms for all kernels together)",
			g->s->limits.compile_timeout_ms);
	return rc ? compiler_died(g, job, said.text, err) : 0;
}

static struct job_limits compile_limits(const struct grading *g, int64_t left_ms)
{
	return (struct job_limits){g->s->level, g->s->limits.compile_memory_bytes, (int)(left_ms / 1000 + 1)};
}

int compile_job(
	struct grading *g, json_t *task, size_t bytes_max, struct str *text, int *fds, int *nfds, struct err *err)
{
	int64_t left_ms;
	int rc = budget_left(g, task, &left_ms, err);
	if (rc) return rc;
	struct job_limits limits = compile_limits(g, left_ms);
	struct job job;
	rc = job_start(g->s->compiler, &limits, task, &job, err);
	if (rc) return rc;
	rc = answer_take(g, &job, left_ms, bytes_max, text, fds, nfds, err);
	if (!rc) job_wait(&job, 1000); /* for its CPU time */
	job_end(&job);
	g->compile_ms += job.cpu_ms;
	times_child(g, g->lap.step, (double)job.cpu_ms * 1e-3);
	return rc;
}

/* One that answers no more; what it took stays off the budget. */
static void builder_end(struct grading *g)
{
	if (!g->has_builder) return;
	job_end(&g->builder);
	g->has_builder = false;
	g->compile_ms += g->builder.cpu_ms;
	times_child(g, STEP_REBUILD, (double)g->builder.cpu_ms * 1e-3);
}

int builder_ask(struct grading *g, json_t *task, size_t bytes_max, struct str *text, struct err *err)
{
	int64_t left_ms;
	struct err said = {0};
	int rc = budget_left(g, task, &left_ms, err);
	if (rc) return rc;
	if (!g->has_builder) {
		struct job_limits limits = compile_limits(g, left_ms);
		rc = job_start(g->s->compiler, &limits, task, &g->builder, err);
		if (rc) return rc;
		g->has_builder = true;
	} else {
		char *ask = json_dumps(task, JSON_COMPACT);
		CHECKF(ask, "a request that is not JSON");
		json_decref(task);
		rc = msg_send(g->builder.data_fd, ask, strlen(ask), NULL, 0, deadline_in_ms(left_ms * WALL_FACTOR), &said);
		free(ask);
		if (rc) rc = compiler_died(g, &g->builder, said.text, err);
	}
	if (!rc) rc = answer_take(g, &g->builder, left_ms, bytes_max, text, NULL, NULL, err);
	if (rc) builder_end(g);
	return rc;
}

/* Asks the compile worker. 0 with *result; a fault of the compiler on this
 * input is a result too. */
static int ask(struct grading *g, const struct tape_kernel *k, json_t **result, struct err *err)
{
	struct str text = {0};
	int64_t before_ms = g->compile_ms;
	struct err parse = {0};
	int fds[1] = {-1}, nfds = 1;
	int rc = compile_job(g, job_json(g, k), MESSAGE_BYTES_MAX, &text, fds, &nfds, err);
	if (rc == ERR_TIMEOUT) {
		*result = fault_json("timeout-compile", err->text);
		rc = 0;
	} else if (rc == ERR_CHILD) {
		*result = fault_json("compiler-crash", err->text);
		rc = 0;
	} else if (!rc &&
		(json_parse(text.data, text.len, "compile worker's answer", result, &parse) || !json_is_object(*result))) {
		json_decref(*result);
		*result = fault_json("compiler-crash", "the compiler's answer on this kernel is no JSON object");
	}
	if (!rc && g->s->ngpus && !json_object_get(*result, "fault")) rc = cubin_take(result, nfds > 0 ? fds[0] : -1, err);
	if (nfds > 0 && fds[0] >= 0) close(fds[0]);
	if (!rc) json_object_set_new(*result, "cpu_ms", json_integer(g->compile_ms - before_ms));
	str_release(&text);
	return rc;
}

/* The fault of an answer, one of the known codes; the answer's process had the candidate's IR. */
static const char *fault_code(const json_t *fault)
{
	static const char *const codes[] = {
		"compile-error", "out-of-resources", "ptxas-error", "compiler-crash", "timeout-compile"};
	const char *code = json_string_value(json_object_get(fault, "code"));
	for (size_t i = 0; code && i < ARRAY_LEN(codes); i++)
		if (!strcmp(code, codes[i])) return codes[i];
	return codes[0];
}

static bool is_lasting(const json_t *result)
{
	const char *code = json_string_value(json_object_get(json_object_get(result, "fault"), "code"));
	return !code || (strcmp(code, "timeout-compile") && strcmp(code, "compiler-crash"));
}

/* A new reference in *result: from memory, from the store, or compiled now (once, however many
 * threads ask). */
static int compile_one(struct grading *g, const struct tape_kernel *k, json_t **result, bool *is_new, struct err *err)
{
	struct compile_cache *c = g->s->compiles;
	struct sha256_hex key = key_of(g, k);
	struct entry *e = slot(c, &key);
	*is_new = false;
	pthread_mutex_lock(&c->lock);
	/* Whoever asks for a kernel in the making waits for it. The slot is shared by many keys, so the
	 * key is compared after the wait. */
	while (e->is_running) pthread_cond_wait(&c->changed, &c->lock);
	if (e->result && !strcmp(e->key.text, key.text)) {
		*result = json_incref(e->result);
		pthread_mutex_unlock(&c->lock);
		return 0;
	}
	/* A compilation takes long, so it runs without the lock: the mark keeps others off the slot. */
	json_decref(e->result);
	*e = (struct entry){.key = key, .is_running = true};
	pthread_mutex_unlock(&c->lock);

	json_t *found = store_find(g, &key);
	int rc = 0;
	*is_new = !found;
	if (!found) {
		rc = ask(g, k, &found, err);
		if (!rc && is_lasting(found)) store_keep(g, &key, found);
	}
	/* An infrastructure fault leaves the slot empty, so that the next one who asks tries again. */
	pthread_mutex_lock(&c->lock);
	*e = (struct entry){.key = key, .result = rc ? NULL : json_incref(found)};
	pthread_cond_broadcast(&c->changed);
	pthread_mutex_unlock(&c->lock);
	*result = found;
	return rc;
}

/* What costs are counted with; a new reference. Texts beyond the runner's bound stay behind: those
 * kernels' blocks count as row-major ones. */
static json_t *cost_result(const json_t *result, size_t *ttgir_bytes)
{
	static const char *const names[] = {"num_warps", "registers", "stack_bytes", "spills", "shared_bytes", "joined"};
	json_t *o = json_object(), *ttgir = json_object_get(result, "ttgir");
	for (size_t i = 0; i < ARRAY_LEN(names); i++)
		if (json_object_get(result, names[i])) json_object_set(o, names[i], json_object_get(result, names[i]));
	*ttgir_bytes += json_string_length(ttgir);
	if (json_is_string(ttgir) && *ttgir_bytes <= RUNNER_TTGIR_BYTES_MAX) json_object_set(o, "ttgir", ttgir);
	return o;
}

int line_of_kernel(const struct tape *t, int kernel)
{
	for (int i = 0; i < t->nrows; i++)
		if (t->rows[i].kind == TAPE_LAUNCH && t->rows[i].kernel == kernel) return t->rows[i].line;
	return 0;
}

/* compile_one with its faults as a verdict. */
static int compile_kernel(struct grading *g, const struct tape *t, int k, json_t **result, struct err *err)
{
	bool is_new;
	int rc = compile_one(g, &t->kernels[k], result, &is_new, err);
	if (rc) return err_set(err, ERR_INFRA, "compiling: %.800s", err->text);
	/* A kernel from the cache costs the candidate what it cost first: its verdict is the same. */
	if (!is_new) g->compile_ms += json_integer_value(json_object_get(*result, "cpu_ms"));
	const json_t *fault = json_object_get(*result, "fault");
	if (!fault) return GRADE_ON;
	const char *text = json_string_value(json_object_get(fault, "text"));
	const char *code = fault_code(fault);
	/* Another card may have what this one lacks. */
	bool is_cards = !strcmp(code, "out-of-resources");
	int launch = line_of_kernel(t, k), line = launch;
	/* The lines of an answer in IR are those of its kernels' texts, and the compiler names one. */
	static const char file[] = "\"kernel.ttir\":";
	const char *place = g->ir == IR_TEXT && text ? strstr(text, file) : NULL;
	if (place) line = (int)strtol(place + strlen(file), NULL, 10);
	return grade_end(g, VERDICT_INVALID, STAGE_COMPILE, code, line,
		"kernel %.100s (launched at candidate.py:%d)%s%s: %.700s", t->kernels[k].name, launch,
		is_cards ? " does not fit on the " : "", is_cards ? g->s->gpu.name : "", text ? text : "");
}

/* ---- binaries for a GPU's runner ---- */

void compiled_release(struct compiled *c)
{
	if (c->fd >= 0) close(c->fd);
	free(c->binaries);
	json_decref(c->results);
	*c = (struct compiled){.fd = -1};
}

/* The results' binaries in one memory file; where each lies goes into its result, which then is
 * what runner_binaries_parse reads. */
static int binaries_write(struct compiled *c, struct err *err)
{
	struct str all = {0};
	for (size_t k = 0; k < json_array_size(c->results); k++) {
		/* The result may come from the store, so its text is decoded with checks. */
		json_t *result = json_array_get(c->results, k);
		const char *text = json_string_value(json_object_get(result, "cubin"));
		size_t len = json_string_length(json_object_get(result, "cubin")), n = BASE64_DECODE_LENGTH(len);
		uint8_t *data = xmalloc(n + 1);
		struct base64_decode_ctx ctx;
		base64_decode_init(&ctx);
		bool is_good = text && base64_decode_update(&ctx, &n, data, len, text) && base64_decode_final(&ctx);
		json_object_set_new(result, "offset", json_integer((json_int_t)all.len));
		json_object_set_new(result, "bytes", json_integer((json_int_t)n));
		if (is_good) str_append(&all, (const char *)data, n);
		free(data);
		if (!is_good) {
			str_release(&all);
			return err_set(err, ERR_INFRA, "a stored compile result has no binary");
		}
	}
	c->fd = memfd_make("binaries", MAX(all.len, (size_t)1), err);
	bool is_written = c->fd >= 0 && (!all.len || pwrite(c->fd, all.data, all.len, 0) == (ssize_t)all.len);
	struct runner_binaries parsed = {0};
	int rc = c->fd < 0 ? c->fd : is_written ? 0 : err_set(err, ERR_INFRA, "writing binaries: %s", strerror(errno));
	/* The runner's own reader makes the list, so that both sides understand the same. */
	if (!rc) rc = runner_binaries_parse(c->results, (int64_t)all.len, &parsed, err);
	c->binaries = parsed.binaries;
	c->count = parsed.count;
	str_release(&all);
	return rc;
}

int compile_binaries(struct grading *g, const struct tape *t, struct compiled *out, struct err *err)
{
	*out = (struct compiled){.fd = -1, .results = json_array()};
	int rc = GRADE_ON;
	for (int k = 0; k < t->nkernels && !rc; k++) {
		json_t *result = NULL;
		rc = compile_kernel(g, t, k, &result, err);
		/* The cache's own object is shared between threads: what is written here goes to a copy. */
		if (!rc) json_array_append_new(out->results, json_copy(result));
		json_decref(result);
	}
	return rc ? rc : binaries_write(out, err);
}

/* ---- the stage ---- */

int compile_step(struct grading *g, const struct tape *t, struct err *err)
{
	g->v->stage = STAGE_COMPILE;
	json_decref(g->compiled);
	g->compiled = json_array();
	size_t ttgir_bytes = 0;
	for (int k = 0; k < t->nkernels; k++) {
		json_t *result = NULL;
		int rc = compile_kernel(g, t, k, &result, err);
		if (rc < 0) return rc;
		json_array_append_new(g->compiled, cost_result(result, &ttgir_bytes));
		if (!rc) rc = launch_limits_check(g, t, k, result);
		json_decref(result);
		if (rc) return rc;
	}
	g->v->compiled = true;
	return GRADE_ON;
}
