/* emit_step: delivers what was verified. A genuine candidate's tapes and the syntax trees of its
 * kernels become a module of their own (worker/emit.py), without the candidate's host code. It is
 * traced like any candidate, and written only where each tape of its table is the same program. */
#include "verify/verify_internal.h"
#include "base/base.h"
#include "tape/tape.h"
#include <stdlib.h>

#define MODULE_BYTES_MAX ((size_t)64 << 20)

/* The tapes of the table: the judged sizes, and of the others those that `wanted` has. */
static json_t *job_json(const struct grading *g, const struct trace *stock, const bool *wanted)
{
	json_t *tapes = json_array();
	for (int i = 0; i < g->oracle->nvariants; i++) {
		const struct trace *t = i ? &g->others[i] : stock;
		if (!wanted[i]) continue;
		json_array_append_new(tapes,
			json_pack("{s:s%, s:O}", "tape", t->text.data, t->text.len, "job",
				(json_t *)(uintptr_t)g->oracle->variants[i].job));
	}
	return json_pack("{s:b, s:s, s:s%, s:o, s:s}", "emit", 1, "name",
		g->task->name && g->task->name[0] ? g->task->name : "task", "source", g->source, g->source_len, "tapes", tapes,
		"task", g->task->source);
}

/* The first thing in which two programs part, for people. */
static void difference(const struct tape *judged, const struct tape *own, char *text, size_t len)
{
	static const char *const parts[] = {"buffers", "rows", "outputs", "tuple"};
	snprintf(text, len, "other IR, or other options of a kernel");
	for (size_t p = 0; p < ARRAY_LEN(parts); p++) {
		const json_t *a = json_object_get(judged->json, parts[p]), *b = json_object_get(own->json, parts[p]);
		for (size_t i = 0; i < json_array_size(a) || i < json_array_size(b); i++) {
			json_t *x = json_deep_copy(json_array_get(a, i)), *y = json_deep_copy(json_array_get(b, i));
			json_object_del(x, "line");
			json_object_del(y, "line");
			bool is_same = json_equal(x, y);
			char *is = json_dumps(y, JSON_COMPACT | JSON_ENCODE_ANY),
				 *was = json_dumps(x, JSON_COMPACT | JSON_ENCODE_ANY);
			if (!is_same)
				snprintf(text, len, "%s[%zu] is %.120s, was %.120s", parts[p], i, is ? is : "nothing",
					was ? was : "nothing");
			free(is);
			free(was);
			json_decref(x);
			json_decref(y);
			if (!is_same) return;
		}
	}
}

/* The module's own trace of one entry, compared with the one that was judged. */
static int entry_check(struct grading *own, const struct trace *judged, int variant, struct err *err)
{
	struct trace again = {0};
	int rc = variant ? trace_other_step(own, &again, err) : trace_step(own, &again, err);
	if (rc == GRADE_END)
		rc = err_set(
			err, ERR_MISMATCH, "the module that was made does not run: %s: %.600s", own->v->reason, own->v->detail);
	if (!rc) {
		struct sha256_hex a = tape_program_hash(judged->tape), b = tape_program_hash(again.tape);
		char what[400];
		if (strcmp(a.text, b.text)) {
			difference(judged->tape, again.tape, what, sizeof what);
			rc = err_set(err, ERR_MISMATCH, "the module that was made has another tape: %s", what);
		}
	}
	trace_release(&again);
	return rc;
}

/* The module's traces against the judged ones. An entry of another size that is not the same
 * program is taken out of `wanted`; so is every one behind it that cannot be asked for any more. */
static int same_program(
	struct grading *g, const struct trace *stock, const char *module, bool *wanted, bool *is_whole, struct err *err)
{
	struct verdict said = {0};
	struct err why = {0};
	struct grading own = {
		.s = g->s, .task = g->task, .source = module, .source_len = strlen(module), .oracle = g->oracle, .v = &said};
	int last = 0, rc = entry_check(&own, stock, 0, err);
	for (int i = 1; i < g->oracle->nvariants; i++) last = wanted[i] ? i : last;
	/* The tracer makes the other sizes in order, so that each is asked for up
	 * to the last wanted one. */
	for (int i = 1; i <= last && !rc; i++) {
		struct trace skipped = {0};
		if (!wanted[i]) trace_other_step(&own, &skipped, &why);
		else if (entry_check(&own, &g->others[i], i, &why)) wanted[i] = *is_whole = false;
		trace_release(&skipped);
	}
	if (own.has_tracer) job_end(&own.tracer);
	return rc;
}

/* The module's text for the wanted entries. */
static int module_make(struct grading *g, const struct trace *stock, const bool *wanted, json_t **answer,
	const char **module, struct err *err)
{
	struct str text = {0};
	json_decref(*answer);
	*answer = NULL;
	g->compile_ms = 0; /* nothing of the candidate's is compiled here */
	int rc = compile_job(g, job_json(g, stock, wanted), MODULE_BYTES_MAX, &text, NULL, NULL, err);
	if (!rc) rc = json_parse(text.data, text.len, "the emitter's answer", answer, err);
	const char *fault = json_string_value(json_object_get(*answer, "fault"));
	*module = json_string_value(json_object_get(*answer, "module"));
	if (!rc && !*module) rc = err_set(err, ERR_MISMATCH, "%.600s", fault ? fault : "no answer");
	str_release(&text);
	return rc;
}

/* A file of that name is an answer in IR. */
static bool is_ir_file(const char *path) { return text_ends_in(path, ".ttir"); }

static int emit_ir(struct grading *g, const struct trace *stock, struct err *err)
{
	struct str text = {0};
	int rc = ir_form(g, stock, &text, err);
	if (!rc) rc = file_write_atomic(g->emit, text.data, text.len, err);
	str_release(&text);
	return rc;
}

int emit_step(struct grading *g, const struct trace *stock, struct err *err)
{
	json_t *answer = NULL;
	const char *module = NULL;
	bool wanted[ORACLE_VARIANTS_MAX] = {true}, is_whole = true;
	int entries = 0, rc = 0;
	for (int i = 1; i < g->oracle->nvariants; i++) wanted[i] = g->others[i].tape != NULL;
	bool is_ir = is_ir_file(g->emit);
	if (is_ir) rc = emit_ir(g, stock, err);
	/* Where some entry was not the same program, the table is made again without it. */
	while (!is_ir && !rc) {
		is_whole = true;
		rc = module_make(g, stock, wanted, &answer, &module, err);
		if (!rc) rc = same_program(g, stock, module, wanted, &is_whole, err);
		if (is_whole) break;
	}
	if (!rc && !is_ir) rc = file_write_atomic(g->emit, module, strlen(module), err);
	json_decref(answer);
	/* The verdict stands; what could not be written is said with it. */
	for (int i = 0; i < ORACLE_VARIANTS_MAX; i++) entries += wanted[i];
	size_t used = strlen(g->v->detail);
	g->v->is_not_emitted = rc != 0;
	if (rc) snprintf(g->v->detail + used, sizeof g->v->detail - used, "; not emitted: %.500s", err->text);
	else if (is_ir) snprintf(g->v->detail + used, sizeof g->v->detail - used, "; emitted to %.300s", g->emit);
	else
		snprintf(g->v->detail + used, sizeof g->v->detail - used, "; emitted to %.300s for %d %s of inputs", g->emit,
			entries, plural(entries, "set", "sets"));
	text_make_printable(g->v->detail);
	return 0;
}
