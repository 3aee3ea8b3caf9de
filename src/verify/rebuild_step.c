/* rebuild_step: is the IR on the tape the IR of the candidate's source? The tape was written by the
 * process in which the candidate ran, so its IR is a claim. A clean process makes each kernel's IR
 * again from the candidate's text and the kernel's recipe (worker/rebuild.py). An IR with another
 * hash, or other options, is a cheat; a recipe that the clean process does not understand is
 * unsupported.
 *
 * Kernels that were found right are remembered by hash, so that the same source at other sizes, or
 * judged again, costs nothing for kernels that did not change. */
#include "verify/verify_internal.h"
#include "base/base.h"
#include "tape/tape.h"
#include <pthread.h>
#include <stdlib.h>

#define KNOWN 8192             /* power of two */
#define ANSWER_BYTES_MAX ((size_t)1 << 20)

struct rebuild_cache {
	struct sha256_hex known[KNOWN];
	pthread_mutex_t lock;
};

struct rebuild_cache *rebuild_cache_create(void)
{
	struct rebuild_cache *c = xcalloc(1, sizeof *c);
	pthread_mutex_init(&c->lock, NULL);
	return c;
}

void rebuild_cache_free(struct rebuild_cache *c)
{
	if (!c) return;
	pthread_mutex_destroy(&c->lock);
	free(c);
}

/* What a kernel's rightness depends on: the text, what the tape claims, and who checks it. */
static struct sha256_hex key_of(const struct grading *g, const struct tape_kernel *k)
{
	char arch[16];
	snprintf(arch, sizeof arch, "%d", g->s->gpu.capability);
	struct slice parts[] = {{arch, strlen(arch)}, {g->source, g->source_len}, {k->hash.text, strlen(k->hash.text)},
		{k->name, strlen(k->name)}, {k->source, strlen(k->source)}, {g->s->versions, strlen(g->s->versions)}};
	return hash_parts(parts, ARRAY_LEN(parts));
}

/* Direct-mapped: a collision only evicts. */
static struct sha256_hex *slot(struct rebuild_cache *c, const struct sha256_hex *key)
{
	unsigned at = 0;
	for (int i = 0; i < 8; i++)
		at = at * 16 + (unsigned)(key->text[i] <= '9' ? key->text[i] - '0' : key->text[i] - 'a' + 10);
	return &c->known[at % KNOWN];
}

static bool is_known(struct rebuild_cache *c, const struct sha256_hex *key)
{
	pthread_mutex_lock(&c->lock);
	bool found = !strcmp(slot(c, key)->text, key->text);
	pthread_mutex_unlock(&c->lock);
	return found;
}

static void known_add(struct rebuild_cache *c, const struct sha256_hex *key)
{
	pthread_mutex_lock(&c->lock);
	*slot(c, key) = *key;
	pthread_mutex_unlock(&c->lock);
}

static int line_of_kernel(const struct tape *t, int kernel)
{
	for (int i = 0; i < t->nrows; i++)
		if (t->rows[i].kind == TAPE_LAUNCH && t->rows[i].kernel == kernel) return t->rows[i].line;
	return 0;
}

static int not_from_source(struct grading *g, const struct tape *t, int kernel, const char *what)
{
	int line = line_of_kernel(t, kernel);
	return grade_end(g, VERDICT_CHEAT, STAGE_LINEAGE, "ir-not-from-source", line,
		"kernel %.100s (launched at candidate.py:%d): %s is not what its source gives: compiled again in a clean "
		"process, "
		"the kernel differs from the one that was launched",
		t->kernels[kernel].name, line, what);
}

/* One kernel's answer against the tape's claim. */
static int answer_judge(struct grading *g, const struct tape *t, int kernel, const json_t *answer)
{
	const struct tape_kernel *k = &t->kernels[kernel];
	const char *fault = json_string_value(json_object_get(answer, "fault"));
	const char *hash = json_string_value(json_object_get(answer, "sha256"));
	int line = line_of_kernel(t, kernel);
	/* A recipe that the clean process does not understand proves no cheat: it is unsupported. */
	if (fault || !hash)
		return grade_end(g, VERDICT_INVALID, STAGE_LINEAGE, "unsupported", line,
			"kernel %.100s (launched at candidate.py:%d) cannot be compiled from its source alone: %.600s", k->name,
			line, fault ? fault : "no answer");
	/* The IR itself is hashed here, so that what is compared is what would be launched. */
	struct sha256_hex found = hash_bytes(k->ttir, k->ttir_len);
	if (strcmp(found.text, hash)) return not_from_source(g, t, kernel, "its IR");
	const char *name = json_string_value(json_object_get(answer, "name"));
	if (!name || strcmp(name, k->name)) return not_from_source(g, t, kernel, "its name");
	/* The same IR with other options becomes other code, so each option must agree as well. */
	if (json_integer_value(json_object_get(answer, "maxnreg")) != k->maxnreg ||
		json_is_true(json_object_get(answer, "enable_fp_fusion")) == k->no_fp_fusion ||
		json_is_true(json_object_get(answer, "enable_reflect_ftz")) == k->no_reflect_ftz ||
		json_is_true(json_object_get(answer, "launch_cooperative_grid")) != k->is_cooperative ||
		json_is_true(json_object_get(answer, "launch_pdl")) != k->is_pdl)
		return not_from_source(g, t, kernel, "an option");
	if (json_integer_value(json_object_get(answer, "num_warps")) != k->num_warps ||
		json_integer_value(json_object_get(answer, "num_stages")) != k->num_stages ||
		json_integer_value(json_object_get(answer, "num_ctas")) != k->num_ctas)
		return not_from_source(g, t, kernel, "its num_warps, num_stages or num_ctas");
	return GRADE_ON;
}

/* Asks a compile worker about the kernels in `which`. */
static int ask(struct grading *g, const struct tape *t, const int *which, int count, struct err *err)
{
	json_t *recipes = json_array(), *answer = NULL;
	for (int i = 0; i < count; i++) json_array_append_new(recipes, json_string(t->kernels[which[i]].source));
	json_t *job = json_pack(
		"{s:s%, s:o, s:i}", "source", g->source, g->source_len, "recipes", recipes, "arch", g->s->gpu.capability);
	struct str text = {0};
	int rc = compile_job(g, job, ANSWER_BYTES_MAX, &text, NULL, NULL, err);
	if (rc == ERR_TIMEOUT)
		rc = grade_end(g, VERDICT_INVALID, STAGE_LINEAGE, "timeout-compile", 0,
			"compiling the kernels from their source: %.300s", err->text);
	else if (rc == ERR_CHILD || (!rc && json_parse(text.data, text.len, "compile worker's answer", &answer, err)))
		rc = grade_end(g, VERDICT_INVALID, STAGE_LINEAGE, "compiler-crash", 0,
			"compiling the kernels from their source: %.300s", err->text);
	const json_t *list = json_object_get(answer, "kernels");
	for (int i = 0; i < count && !rc; i++) {
		rc = answer_judge(g, t, which[i], json_array_get(list, (size_t)i));
		struct sha256_hex key = key_of(g, &t->kernels[which[i]]);
		if (!rc) known_add(g->s->rebuilds, &key);
	}
	json_decref(answer);
	str_release(&text);
	return rc;
}

int rebuild_step(struct grading *g, const struct tape *t, struct err *err)
{
	int which[TAPE_KERNELS_MAX], count = 0;
	for (int k = 0; k < t->nkernels; k++) {
		if (!t->kernels[k].source) return not_from_source(g, t, k, "IR without a recipe");
		struct sha256_hex key = key_of(g, &t->kernels[k]);
		if (!is_known(g->s->rebuilds, &key)) which[count++] = k;
	}
	return count ? ask(g, t, which, count, err) : GRADE_ON;
}
