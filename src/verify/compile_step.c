/* compile_step: every launched kernel is really compiled for the target. The result of a kernel
 * (resources or error text) depends on its IR, its options and the compiler's version alone, so it
 * is kept by hash: in memory for this process, in the store for all. */
#include "verify/verify_internal.h"
#include "base/base.h"
#include "store/store.h"
#include "tape/tape.h"
#include <pthread.h>
#include <stdlib.h>

#define MESSAGE_BYTES_MAX ((size_t)1 << 20)
#define ENTRIES 4096      /* power of two */
#define CPU_S 300

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
 * unless the process never got as far. */
static int compiler_died(struct job *job, json_t **result, struct err *err)
{
	char status[64] = "closed its socket", sentence[160];
	job_wait(job, 1000);
	if (job_check_entered(job, err)) return ERR_INFRA;
	if (job->ended) child_status_text(job->status, status, sizeof status);
	snprintf(sentence, sizeof sentence, "the compiler ended on this kernel: %s", status);
	*result = fault_json("compiler-crash", sentence);
	return 0;
}

/* Asks the compile worker. 0 with *result; a fault of the compiler on this input is a result too. */
static int ask(struct grading *g, const struct tape_kernel *k, json_t **result, struct err *err)
{
	struct job_limits limits = {g->s->level, g->s->limits.compile_memory_bytes, CPU_S};
	struct job job;
	struct str text = {0};
	int rc = job_start(g->s->compiler, &limits, job_json(k), &job, err);
	if (rc) return rc;
	rc = job_next(&job, MESSAGE_BYTES_MAX, &text, NULL, NULL,
		clock_ns() + (uint64_t)g->s->limits.compile_timeout_ms * 1000000u, err);
	if (rc == ERR_TIMEOUT) {
		*result = fault_json("timeout-compile", "the compiler did not finish in time");
		rc = 0;
	} else if (rc == ERR_CHILD) {
		rc = compiler_died(&job, result, err);
	} else if (!rc && json_parse(text.data, text.len, "compile worker's answer", result, err)) {
		rc = err_set(err, ERR_INFRA, "the compile worker's answer is no JSON");
	}
	job_end(&job);
	str_release(&text);
	return rc;
}

static bool is_lasting(const json_t *result)
{
	const char *code = json_string_value(json_object_get(json_object_get(result, "fault"), "code"));
	return !code || (strcmp(code, "timeout-compile") && strcmp(code, "compiler-crash"));
}

/* A new reference in *result: from memory, from the store, or compiled now (once, however many
 * threads ask). */
static int compile_one(struct grading *g, const struct tape_kernel *k, json_t **result, struct err *err)
{
	struct compile_cache *c = g->s->compiles;
	struct sha256_hex key = key_of(g, k);
	struct entry *e = slot(c, &key);
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
		int rc = compile_one(g, &t->kernels[k], &result, err);
		if (rc) return err_set(err, ERR_INFRA, "compiling: %.800s", err->text);
		const json_t *fault = json_object_get(result, "fault");
		if (fault) {
			const char *code = json_string_value(json_object_get(fault, "code")),
					   *text = json_string_value(json_object_get(fault, "text"));
			int line = line_of_kernel(t, k);
			rc = grade_end(g, VERDICT_INVALID, STAGE_COMPILE, code ? code : "compile-error", line,
				"kernel %.100s (launched at candidate.py:%d): %.700s", t->kernels[k].name, line, text ? text : "");
		}
		g->binaries[k] = cost_binary(result);
		json_decref(result);
		if (rc) return rc;
	}
	g->v->compiled = true;
	return GRADE_ON;
}
