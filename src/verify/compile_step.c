/* compile_step: every launched kernel is really compiled for the target. The result of a kernel
 * (resources or error text) depends on its IR, its options and the compiler's version alone, so it
 * is kept by hash: in memory for this process, in the store for all. */
#include "verify/verify_internal.h"
#include "base/base.h"
#include "store/store.h"
#include "tape/tape.h"
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>

#define MESSAGE_BYTES_MAX ((size_t)1 << 20)
#define ENTRIES 4096      /* power of two */
#define WALL_FACTOR 3     /* wall clock a compilation may take per CPU time left */

struct entry {
	struct sha256_hex key;
	json_t *result;
	bool is_running;
};
struct compile_cache {
	struct entry entries[ENTRIES];
	pthread_mutex_t lock;
	pthread_cond_t changed;
};

struct compile_cache *compile_cache_create(void)
{
	struct compile_cache *c = xcalloc(1, sizeof *c);
	pthread_mutex_init(&c->lock, NULL);
	pthread_cond_init(&c->changed, NULL);
	return c;
}

void compile_cache_free(struct compile_cache *c)
{
	if (!c) return;
	for (int i = 0; i < ENTRIES; i++) json_decref(c->entries[i].result);
	pthread_cond_destroy(&c->changed);
	pthread_mutex_destroy(&c->lock);
	free(c);
}

static struct sha256_hex key_of(const struct grading *g, const struct tape_kernel *k)
{
	char arch[16];
	snprintf(arch, sizeof arch, "%d", VERIFY_ARCH);
	struct slice parts[] = {
		{k->hash.text, strlen(k->hash.text)}, {g->s->versions, strlen(g->s->versions)}, {arch, strlen(arch)}};
	return hash_parts(parts, ARRAY_LEN(parts));
}

/* Direct-mapped: a collision only evicts. */
static struct entry *slot(struct compile_cache *c, const struct sha256_hex *key)
{
	unsigned at = 0;
	for (int i = 0; i < 8; i++)
		at = at * 16 + (unsigned)(key->text[i] <= '9' ? key->text[i] - '0' : key->text[i] - 'a' + 10);
	return &c->entries[at % ENTRIES];
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

static json_t *job_json(const struct tape_kernel *k)
{
	return json_pack("{s:s%, s:i, s:i, s:i, s:i}", "ttir", k->ttir, k->ttir_len, "num_warps", k->num_warps,
		"num_stages", k->num_stages, "num_ctas", k->num_ctas, "arch", VERIFY_ARCH);
}

static json_t *fault_json(const char *code, const char *text)
{
	return json_pack("{s:{s:s, s:s}}", "fault", "code", code, "text", text);
}

/* Triton's compiler dies on some IR (assertions, stack overflow): the kernel's fault, not ours,
 * unless the process never got as far. The same holds for an answer that is none. */
static int compiler_died(struct job *job, const char *what, struct err *err)
{
	char status[64] = "still running";
	job_wait(job, 1000);
	if (job_check_entered(job, err)) return ERR_INFRA;
	if (job->ended) child_status_text(job->status, status, sizeof status);
	if (job->ended && WIFSIGNALED(job->status) && WTERMSIG(job->status) == SIGXCPU)
		return err_set(err, ERR_TIMEOUT, "the compiler used up the candidate's time");
	return err_set(err, ERR_CHILD, "the compiler ended on this kernel: %s (%.200s)", status, what);
}

/* All compilations of one candidate share one budget of CPU time: a hundred kernels have no more of
 * it than one. The clock on the wall may run WALL_FACTOR as fast, for a loaded machine. */
int compile_job(struct grading *g, json_t *task, size_t bytes_max, struct str *text, struct err *err)
{
	int64_t left_ms = g->s->limits.compile_timeout_ms - g->compile_ms;
	if (left_ms <= 0) {
		json_decref(task);
		return err_set(err, ERR_TIMEOUT, "compiling all kernels took more than %d ms", g->s->limits.compile_timeout_ms);
	}
	struct job_limits limits = {g->s->level, g->s->limits.compile_memory_bytes, (int)(left_ms / 1000 + 1)};
	struct job job;
	struct err said = {0};
	int rc = job_start(g->s->compiler, &limits, task, &job, err);
	if (rc) return rc;
	rc = job_next(&job, bytes_max, text, NULL, NULL, clock_ns() + (uint64_t)left_ms * WALL_FACTOR * 1000000u, &said);
	if (rc == ERR_TIMEOUT)
		rc = err_set(err, ERR_TIMEOUT, "the compiler did not finish in time (%d ms for all kernels together)",
			g->s->limits.compile_timeout_ms);
	else if (rc) rc = compiler_died(&job, said.text, err);
	else job_wait(&job, 1000); /* for its CPU time */
	job_end(&job);
	g->compile_ms += job.cpu_ms;
	return rc;
}

/* Asks the compile worker. 0 with *result; a fault of the compiler on this input is a result too. */
static int ask(struct grading *g, const struct tape_kernel *k, json_t **result, struct err *err)
{
	struct str text = {0};
	int64_t before_ms = g->compile_ms;
	struct err parse = {0};
	int rc = compile_job(g, job_json(k), MESSAGE_BYTES_MAX, &text, err);
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
	while (e->is_running) pthread_cond_wait(&c->changed, &c->lock);
	if (e->result && !strcmp(e->key.text, key.text)) {
		*result = json_incref(e->result);
		pthread_mutex_unlock(&c->lock);
		return 0;
	}
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
	pthread_mutex_lock(&c->lock);
	*e = (struct entry){.key = key, .result = rc ? NULL : json_incref(found)};
	pthread_cond_broadcast(&c->changed);
	pthread_mutex_unlock(&c->lock);
	*result = found;
	return rc;
}

static int line_of_kernel(const struct tape *t, int kernel)
{
	for (int i = 0; i < t->nrows; i++)
		if (t->rows[i].kind == TAPE_LAUNCH && t->rows[i].kernel == kernel) return t->rows[i].line;
	return 0;
}

int compile_step(struct grading *g, const struct tape *t, struct err *err)
{
	g->v->stage = STAGE_COMPILE;
	free(g->binaries);
	g->binaries = xcalloc((size_t)t->nkernels + 1, sizeof *g->binaries);
	g->nbinaries = t->nkernels;
	for (int k = 0; k < t->nkernels; k++) {
		json_t *result = NULL;
		bool is_new;
		int rc = compile_one(g, &t->kernels[k], &result, &is_new, err);
		if (rc) return err_set(err, ERR_INFRA, "compiling: %.800s", err->text);
		/* A kernel from the cache costs the candidate what it cost first: its verdict is the same. */
		if (!is_new) g->compile_ms += json_integer_value(json_object_get(result, "cpu_ms"));
		const json_t *fault = json_object_get(result, "fault");
		if (fault) {
			const char *text = json_string_value(json_object_get(fault, "text"));
			int line = line_of_kernel(t, k);
			rc = grade_end(g, VERDICT_INVALID, STAGE_COMPILE, fault_code(fault), line,
				"kernel %.100s (launched at candidate.py:%d): %.700s", t->kernels[k].name, line, text ? text : "");
		}
		g->binaries[k] = cost_binary(result);
		json_decref(result);
		if (rc) return rc;
	}
	g->v->compiled = true;
	return GRADE_ON;
}
