/* emit_step: delivers what was verified. A genuine candidate's tape and the syntax trees of its
 * kernels become a module of their own (worker/emit.py), without the candidate's host code. It is
 * traced like any candidate, and written only where its tape is the same program. */
#include "verify/verify_internal.h"
#include "base/base.h"
#include "tape/tape.h"
#include <stdlib.h>

#define MODULE_BYTES_MAX ((size_t)64 << 20)

static json_t *job_json(const struct grading *g, const struct trace *stock)
{
	json_t *job = json_pack("{s:b, s:s, s:s%, s:s%, s:s}", "emit", 1, "name",
		g->task->name && g->task->name[0] ? g->task->name : "task", "source", g->source, g->source_len, "tape",
		stock->text.data, stock->text.len, "task", g->task->source);
	json_object_update(job, (json_t *)(uintptr_t)g->oracle->variants[0].job); /* what the tracer was told */
	return job;
}

/* The module's own trace, compared with the one that was judged. */
static int same_program(struct grading *g, const struct trace *stock, const char *module, struct err *err)
{
	struct verdict said = {0};
	struct trace again = {0};
	struct grading own = {
		.s = g->s, .task = g->task, .source = module, .source_len = strlen(module), .oracle = g->oracle, .v = &said};
	int rc = trace_step(&own, &again, err);
	if (rc == GRADE_END)
		rc = err_set(err, ERR_MISMATCH, "the module that was made does not run: %s: %.600s", said.reason, said.detail);
	if (!rc) {
		struct sha256_hex a = tape_program_hash(stock->tape), b = tape_program_hash(again.tape);
		if (strcmp(a.text, b.text))
			rc = err_set(err, ERR_MISMATCH, "the module that was made has another tape: %s, was %s", b.text, a.text);
	}
	trace_release(&again);
	if (own.has_tracer) job_end(&own.tracer);
	return rc;
}

int emit_step(struct grading *g, const struct trace *stock, struct err *err)
{
	struct str text = {0};
	json_t *answer = NULL;
	g->compile_ms = 0; /* nothing of the candidate's is compiled here */
	int rc = compile_job(g, job_json(g, stock), MODULE_BYTES_MAX, &text, NULL, NULL, err);
	if (!rc) rc = json_parse(text.data, text.len, "the emitter's answer", &answer, err);
	const char *module = json_string_value(json_object_get(answer, "module")),
			   *fault = json_string_value(json_object_get(answer, "fault"));
	if (!rc && !module) rc = err_set(err, ERR_MISMATCH, "%.600s", fault ? fault : "no answer");
	if (!rc) rc = same_program(g, stock, module, err);
	if (!rc) rc = file_write_atomic(g->s->emit, module, strlen(module), err);
	json_decref(answer);
	str_release(&text);
	/* The verdict stands; what could not be written is said with it. */
	size_t used = strlen(g->v->detail);
	if (rc) snprintf(g->v->detail + used, sizeof g->v->detail - used, "; not emitted: %.500s", err->text);
	else snprintf(g->v->detail + used, sizeof g->v->detail - used, "; emitted to %.300s", g->s->emit);
	text_make_printable(g->v->detail);
	return 0;
}
