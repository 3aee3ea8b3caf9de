/* prove_step: the oracle's process tells the reference as a graph of exact steps at a few real
 * points; the tape is proved against it (prove.h). What comes from the oracle is a stranger's word,
 * like all of its messages: prove_run checks it. */
#include "verify/verify_internal.h"
#include "base/base.h"
#include "base/dtype.h"
#include "prove/prove.h"
#include "runner/runner.h"
#include "tape/tape.h"
#include "task/task.h"
#include "verify/oracle.h"
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#define DRAWS 3                              /* real points: each may decide other branches */
#define GRAPH_BYTES_MAX ((size_t)256 << 20)
#define PROOF_S 120

void oracle_proofs_release(struct oracle_proofs *p)
{
	for (int i = 0; i < p->ndraws; i++) {
		if (p->draws[i].given) munmap((void *)(uintptr_t)p->draws[i].given, (size_t)p->draws[i].given_bytes);
		if (p->draws[i].tables) munmap((void *)(uintptr_t)p->draws[i].tables, (size_t)p->draws[i].table_bytes);
	}
	json_decref(p->messages);
	*p = (struct oracle_proofs){.ndraws = 0};
}

static int draw_take(const json_t *graph, const int *fds, int nfds, struct oracle_proofs *p, struct err *err)
{
	if (nfds != 2 || p->ndraws == PROVE_DRAWS_MAX)
		return err_set(err, ERR_FORMAT, "the oracle's graph came with %d descriptors", nfds);
	struct prove_draw *d = &p->draws[p->ndraws++];
	uint8_t *given = NULL, *tables = NULL;
	*d = (struct prove_draw){.graph = graph};
	int rc = oracle_map(fds[0], &given, &d->given_bytes, err);
	d->given = given;
	if (!rc) rc = oracle_map(fds[1], &tables, &d->table_bytes, err);
	d->tables = tables;
	return rc;
}

/* One message: 1 when it was the last. */
static int message_take(const struct str *text, const int *fds, int nfds, struct oracle_proofs *p,
	struct oracle_fault *fault, struct err *err)
{
	json_t *m = NULL;
	int rc = json_parse(text->data, text->len, "oracle's message", &m, err);
	if (rc) return rc;
	json_array_append_new(p->messages, m);
	const json_t *f = json_object_get(m, "fault");
	const char *outside = json_string_value(json_object_get(m, "outside"));
	if (f) {
		snprintf(fault->code, sizeof fault->code, "task-broken");
		snprintf(fault->text, sizeof fault->text, "%.1000s",
			json_string_value(json_object_get(f, "text")) ? json_string_value(json_object_get(f, "text")) : "");
		return ERR_MISMATCH;
	}
	if (outside) {
		snprintf(p->why, sizeof p->why, "%.300s", outside);
		text_make_printable(p->why);
		return 1;
	}
	if (json_object_get(m, "proof")) return draw_take(json_object_get(m, "proof"), fds, nfds, p, err);
	return json_is_true(json_object_get(m, "done"));
}

int oracle_proofs_run(struct zygote *z, const struct task *task, const struct oracle_options *o,
	struct oracle_proofs *out, struct oracle_fault *fault, struct err *err)
{
	/* The reference's process is asked for its graph and for points to evaluate it at. */
	json_t *job_text = oracle_job(task, o), *seeds = json_array();
	*out = (struct oracle_proofs){.messages = json_array()};
	for (int i = 0; i < DRAWS; i++)
		json_array_append_new(seeds, json_integer((json_int_t)(rng_u32(o->seed, 0x70726f6f, (uint64_t)i) >> 2)));
	json_object_set_new(job_text, "proofs", seeds);
	struct job job;
	int rc = job_start(z, &o->limits, job_text, &job, err);
	if (rc) return rc;
	struct str text = {0};
	uint64_t deadline = clock_ns() + (uint64_t)o->timeout_ms * 1000000u;
	/* Messages until it says that it is done. */
	while (rc == 0) {
		int fds[WORKER_FDS_MAX], nfds = WORKER_FDS_MAX;
		rc = job_next(&job, GRAPH_BYTES_MAX, &text, fds, &nfds, deadline, err);
		if (rc) break;
		rc = message_take(&text, fds, nfds, out, fault, err);
		for (int i = 0; i < nfds; i++) close(fds[i]);
	}
	/* The process ran the reference's code: its end is the reference's doing, unless it never began. */
	if (rc < 0 && rc != ERR_MISMATCH) {
		job_wait(&job, 1000);
		if (rc == ERR_INFRA || job_check_entered(&job, err)) rc = ERR_INFRA;
		else {
			snprintf(fault->text, sizeof fault->text, "%.900s", err->text);
			rc = ERR_MISMATCH;
		}
	}
	job_end(&job);
	str_release(&text);
	return rc == 1 ? 0 : rc;
}

/* The reference's parameter that each constant of the tape stands for, or NULL. */
static const char **constants_named(const struct grading *g, const struct tape *t, const struct prove_draw *d)
{
	const json_t *list = json_object_get(d->graph, "params");
	int n = (int)json_array_size(list), *of = xcalloc((size_t)t->nbuffers + 1, sizeof *of);
	struct runner_given *params = xcalloc((size_t)n + 1, sizeof *params);
	const char **names = xcalloc((size_t)t->nbuffers + 1, sizeof *names);
	for (int p = 0; p < n; p++) {
		const json_t *o = json_array_get(list, (size_t)p);
		const char *name = json_string_value(json_object_get(o, "name"));
		params[p] = (struct runner_given){
			.name = name ? name : "", .bytes = json_integer_value(json_object_get(o, "bytes"))};
	}
	params_stand_in(t, g->oracle->variants[0].state, params, n, of);
	for (int b = 0; b < t->nbuffers; b++)
		if (t->buffers[b].kind == TAPE_CONST && of[b] >= 0) names[b] = params[of[b]].name;
	free(of);
	free(params);
	return names;
}

int prove_step(struct grading *g, const struct trace *stock, struct err *err)
{
	struct oracle_proofs p;
	struct oracle_fault fault = {0};
	struct prove_result *out = g->proof;
	uint64_t start = clock_ns();
	struct zygote *z = NULL;
	/* The reference's graph; without one nothing can be proved, and that is an answer. */
	const struct oracle_options *o = oracle_cache_options(g->s->oracles, &z);
	int rc = oracle_proofs_run(z, g->task, o, &p, &fault, err);
	*out = (struct prove_result){.answer = PROVE_OUTSIDE};
	if (rc == ERR_MISMATCH) {
		snprintf(out->text, sizeof out->text, "the reference has no graph: %.900s", fault.text);
		rc = 0;
	} else if (!rc && p.why[0]) {
		snprintf(out->text, sizeof out->text, "the reference: %s", p.why);
	} else if (!rc) {
		const char **names = constants_named(g, stock->tape, &p.draws[0]);
		struct prove_options po = {
			.seed = o->seed, .deadline_ns = clock_ns() + PROOF_S * (uint64_t)1000000000, .const_names = names};
		rc = p.ndraws ? prove_run(stock->tape, p.draws, p.ndraws, &po, out, err) : err_set(err, ERR_FORMAT, "no graph");
		free(names);
		/* A graph that makes no sense is the task's fault. */
		if (rc && rc != ERR_INFRA) {
			*out = (struct prove_result){.answer = PROVE_OUTSIDE};
			snprintf(out->text, sizeof out->text, "the reference's graph: %.900s", err->text);
			rc = 0;
		}
	}
	/* Text of the reference's process is a stranger's. */
	for (int i = 0; i < g->oracle->trials[0].noutputs; i++)
		out->is_floating |= dtype_is_float(g->oracle->trials[0].outputs[i].dtype);
	text_make_printable(out->text);
	oracle_proofs_release(&p);
	out->seconds = (double)(clock_ns() - start) * 1e-9;
	return rc;
}
