/* rebuild_step: is the IR on the tape the IR of the candidate's source? The tape was written by the
 * process in which the candidate ran, so its IR is a claim. A clean process makes each kernel's IR
 * again from the candidate's text and the kernel's recipe (worker/rebuild.py). An IR with another
 * hash, or other options, is a cheat; a recipe that the clean process does not understand is
 * unsupported.
 *
 * The tracer itself asks for it too, before it compiles (rebuild_answer): Triton's front end then
 * runs once for both.
 *
 * Kernels that were found right are remembered (rebuild_cache.c). The process stays as long as its
 * candidate is judged, for the kernels that other sizes add. */
#include "verify/verify_internal.h"
#include "base/base.h"
#include "tape/tape.h"

#define ANSWER_BYTES_MAX ((size_t)4 << 20)
#define ASKED_MAX 64           /* recipes that a clean process makes for a tracer; it compiles others itself */

static int not_from_source(struct grading *g, const struct tape *t, int kernel, const char *what)
{
	int line = line_of_kernel(t, kernel);
	return grade_end(g, VERDICT_CHEAT, STAGE_LINEAGE, "ir-not-from-source", line,
		"kernel %.100s (launched at candidate.py:%d): %s is not what its source gives: compiled again in a clean "
		"process, the kernel differs from the one that was launched",
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

/* Up to which line the text counts, as the clean process says; a text that has not so
 * many counts as a whole. */
static int until_of(const json_t *answer)
{
	json_int_t until = json_integer_value(json_object_get(answer, "until"));
	return until > 0 && until <= INT32_MAX ? (int)until : 0;
}

/* Asks a compile worker about some recipes, a list that it takes over; the answers are the
 * caller's. */
static int recipes_ask(struct grading *g, json_t *recipes, bool wants_ttir, json_t **answer, struct err *err)
{
	json_t *job = json_pack("{s:o, s:b}", "recipes", recipes, "want_ttir", wants_ttir);
	if (!g->has_builder) {
		json_object_set_new(job, "source", json_stringn(g->source, g->source_len));
		json_object_set_new(job, "arch", json_integer(g->s->gpu.capability));
	}
	struct str text = {0};
	int rc = builder_ask(g, job, ANSWER_BYTES_MAX, &text, err);
	if (rc == ERR_TIMEOUT)
		rc = grade_end(g, VERDICT_INVALID, STAGE_LINEAGE, "timeout-compile", 0,
			"compiling the kernels from their source: %.300s", err->text);
	else if (rc == ERR_CHILD || (!rc && json_parse(text.data, text.len, "compile worker's answer", answer, err)))
		rc = grade_end(g, VERDICT_INVALID, STAGE_LINEAGE, "compiler-crash", 0,
			"compiling the kernels from their source: %.300s", err->text);
	str_release(&text);
	return rc;
}

int rebuild_answer(struct grading *g, const char *recipe, char **ttir, struct err *err)
{
	json_t *answer = NULL;
	*ttir = rebuild_made_take(g, recipe);
	if (*ttir || ++g->asked > ASKED_MAX) return GRADE_ON;
	int rc = recipes_ask(g, json_pack("[s]", recipe), true, &answer, err);
	const json_t *said = json_array_get(json_object_get(answer, "kernels"), 0);
	const char *text = json_string_value(json_object_get(said, "ttir"));
	g->has_refused_block |= json_is_true(json_object_get(said, "block"));
	if (!rc && text) {
		*ttir = xstrdup(text);
		rebuild_made_add(g, recipe, text, until_of(said));
	}
	json_decref(answer);
	return rc;
}

/* Asks a compile worker about the kernels in `which`. */
static int ask(struct grading *g, const struct tape *t, const int *which, int count, struct err *err)
{
	json_t *recipes = json_array(), *answer = NULL;
	for (int i = 0; i < count; i++) json_array_append_new(recipes, json_string(t->kernels[which[i]].source));
	int rc = recipes_ask(g, recipes, false, &answer, err);
	const json_t *list = json_object_get(answer, "kernels");
	for (int i = 0; i < count && !rc; i++) {
		rc = answer_judge(g, t, which[i], json_array_get(list, (size_t)i));
		if (!rc) rebuild_known_add(g, &t->kernels[which[i]], until_of(json_array_get(list, (size_t)i)));
	}
	json_decref(answer);
	return rc;
}

int rebuild_step(struct grading *g, const struct tape *t, struct err *err)
{
	int which[TAPE_KERNELS_MAX], count = 0;
	if (g->ir) return GRADE_ON; /* it is its own source */
	for (int k = 0; k < t->nkernels; k++) {
		if (!t->kernels[k].source) return not_from_source(g, t, k, "IR without a recipe");
		if (!rebuild_is_known(g, &t->kernels[k])) which[count++] = k;
	}
	return count ? ask(g, t, which, count, err) : GRADE_ON;
}
