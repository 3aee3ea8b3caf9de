/* prove_step: the oracle's process tells the reference as a graph of exact steps at a few real
 * points; the tape is proved against it (prove.h). What comes from the oracle is a stranger's word,
 * like all of its messages: prove_run checks it. */
#include "verify/attempt.h"
#include "base/base.h"
#include "base/dtype.h"
#include "prove/prove.h"
#include "runner/runner.h"
#include "tape/tape.h"
#include "task/task.h"
#include "verify/oracle.h"
#include <stdlib.h>
#include <unistd.h>

#define DRAWS 3                              /* real points: each may decide other branches */
#define GRAPH_BYTES_MAX ((size_t)256 << 20)
#define PROOF_S 120
#define GRACE_S 10

/* What the oracle has told so far. */
struct oracle_proofs {
	char why[320]; /* what the graph cannot say; "": there is one */
	int ndraws;
	struct {
		const json_t *graph;
		int given_fd;  /* sealed memfd: inputs and parameters */
		int tables_fd; /* sealed memfd: the graph's tables */
	} draws[PROVE_DRAWS_MAX];
	json_t *messages; /* list: the graphs lie in them */
};

static void oracle_proofs_release(struct oracle_proofs *p)
{
	for (int i = 0; i < p->ndraws; i++) {
		close(p->draws[i].given_fd);
		close(p->draws[i].tables_fd);
	}
	json_decref(p->messages);
	*p = (struct oracle_proofs){.ndraws = 0};
}

/* Takes the descriptors over; those that came with nothing to take are closed. */
static int draw_take(const json_t *graph, const int *fds, int nfds, struct oracle_proofs *p, struct err *err)
{
	if (graph && nfds == 2 && p->ndraws < DRAWS) {
		p->draws[p->ndraws].graph = graph;
		p->draws[p->ndraws].given_fd = fds[0];
		p->draws[p->ndraws++].tables_fd = fds[1];
		return 0;
	}
	for (int i = 0; i < nfds; i++) close(fds[i]);
	return graph ? err_set(err, ERR_FORMAT, "the oracle's graph came with %d descriptors", nfds) : 0;
}

/* One message: 1 when it was the last. */
static int message_take(const struct str *text, const int *fds, int nfds, struct oracle_proofs *p,
	struct oracle_fault *fault, struct err *err)
{
	json_t *m = NULL;
	int parsed = json_parse(text->data, text->len, "oracle's message", &m, err);
	if (!parsed) json_array_append_new(p->messages, m);
	int rc = draw_take(parsed ? NULL : json_object_get(m, "proof"), fds, nfds, p, err);
	if (parsed || rc) return parsed ? parsed : rc;
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
	return json_is_true(json_object_get(m, "done"));
}

/* As oracle_run. */
static int oracle_proofs_run(struct zygote *z, const struct task *task, const struct oracle_options *o,
	struct oracle_proofs *out, struct oracle_fault *fault, struct err *err)
{
	/* The reference's process is asked for its graph and for points to evaluate it at. */
	json_t *job_text = oracle_job(task, o), *seeds = json_array();
	*out = (struct oracle_proofs){.messages = json_array()};
	for (int i = 0; i < DRAWS; i++)
		json_array_append_new(seeds, json_integer((json_int_t)(rng_u32(o->seed, 0x70726f6f, (uint64_t)i) >> 2)));
	json_object_set_new(job_text, "proofs", seeds);
	struct job job;
	uint64_t deadline;
	struct job_limits limits = oracle_limits(o, &deadline);
	int rc = job_start(z, &limits, job_text, &job, err);
	if (rc) return rc;
	struct str text = {0};
	/* Messages until it says that it is done. */
	while (rc == 0) {
		int fds[WORKER_FDS_MAX], nfds = WORKER_FDS_MAX;
		rc = oracle_next(&job, o, GRAPH_BYTES_MAX, &text, fds, &nfds, deadline, err);
		if (rc) break;
		rc = message_take(&text, fds, nfds, out, fault, err);
	}
	/* The process ran the reference's code: its end is the reference's doing,
	 * unless it never began. */
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

/* The reference's parameter that each constant of the tape stands for, or null. */
static json_t *constants_named(const struct grading *g, const struct tape *t, const json_t *graph)
{
	const json_t *list = json_object_get(graph, "params");
	int n = (int)json_array_size(list), *of = xcalloc((size_t)t->nbuffers + 1, sizeof *of);
	struct runner_given *params = xcalloc((size_t)n + 1, sizeof *params);
	json_t *names = json_array();
	for (int p = 0; p < n; p++) {
		const json_t *o = json_array_get(list, (size_t)p);
		const char *name = json_string_value(json_object_get(o, "name"));
		params[p] = (struct runner_given){
			.name = name ? name : "", .bytes = json_integer_value(json_object_get(o, "bytes"))};
	}
	params_stand_in(t, g->oracle->variants[0].state, params, n, of);
	for (int b = 0; b < t->nbuffers; b++)
		json_array_append_new(
			names, t->buffers[b].kind == TAPE_CONST && of[b] >= 0 ? json_string(params[of[b]].name) : json_null());
	free(of);
	free(params);
	return names;
}

/* The graphs and names as one text, in memory that a runner can be given. */
static int words_fd(const struct oracle_proofs *p, json_t *names, struct err *err)
{
	json_t *graphs = json_array();
	for (int i = 0; i < p->ndraws; i++) json_array_append(graphs, (json_t *)(uintptr_t)p->draws[i].graph);
	json_t *o = json_pack("{s:o, s:o}", "graphs", graphs, "names", names);
	char *text = json_dumps(o, JSON_COMPACT);
	CHECKF(text, "a graph that is not JSON");
	int fd = runner_text_fd(text, strlen(text), err);
	free(text);
	json_decref(o);
	return fd;
}

/* Tape and graphs are strangers' words: they are evaluated in a runner of their own, which is ended
 * afterwards. What ends that process by itself is outside. */
static int prove_in_runner(
	struct grading *g, const struct trace *stock, const struct oracle_proofs *p, uint64_t seed, struct err *err)
{
	int fds[2 * DRAWS];
	for (int i = 0; i < p->ndraws; i++) {
		fds[2 * i] = p->draws[i].given_fd;
		fds[2 * i + 1] = p->draws[i].tables_fd;
	}
	struct runner_proof proof = {.seed = seed, .ms = PROOF_S * 1000, .nfds = 2 * p->ndraws, .fds = fds};
	struct runner r;
	int rc = runner_pool_take(g->s->runners, &r, err);
	if (rc) return rc;
	proof.words_fd = words_fd(p, constants_named(g, stock->tape, p->draws[0].graph), err);
	uint64_t deadline = clock_ns() + (PROOF_S + GRACE_S) * (uint64_t)1000000000;
	rc = proof.words_fd < 0 ? proof.words_fd
							: runner_prove(&r, stock->text.data, stock->text.len, &proof, deadline, g->proof, err);
	if (proof.words_fd >= 0) close(proof.words_fd);
	char status[64] = "";
	runner_end(g->s->runners, &r, status, sizeof status, NULL);
	if (!rc || rc == ERR_INFRA) return rc;
	*g->proof = (struct prove_result){.answer = PROVE_OUTSIDE};
	/* A graph that makes no sense is the task's fault. */
	if (rc == ERR_MISMATCH) snprintf(g->proof->text, sizeof g->proof->text, "the reference's graph: %.900s", err->text);
	else if (rc == ERR_TIMEOUT)
		snprintf(g->proof->text, sizeof g->proof->text, "the proof took longer than %d s", PROOF_S);
	else snprintf(g->proof->text, sizeof g->proof->text, "the process of the proof ended: %s", status);
	return 0;
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
	} else if (!rc && (p.why[0] || !p.ndraws)) {
		snprintf(out->text, sizeof out->text, "the reference: %s", p.why[0] ? p.why : "no graph came of it");
	} else if (!rc) {
		rc = prove_in_runner(g, stock, &p, o->seed, err);
	}
	/* Text of the reference's process is a stranger's. */
	text_make_printable(out->text);
	for (int i = 0; i < g->oracle->trials[0].noutputs; i++)
		out->is_floating |= dtype_is_float(g->oracle->trials[0].outputs[i].dtype);
	oracle_proofs_release(&p);
	out->seconds = (double)(clock_ns() - start) * 1e-9;
	return rc;
}
