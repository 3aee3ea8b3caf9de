/* library_step: who computes a tape's library rows. The runner stops at such a row, its
 * operands lie in memory that both share, and torch computes it there: in a process of the
 * oracle's kind, forked anew for this candidate and sandboxed, in which neither the
 * candidate's code nor a reference ever was. It sees the row's name and arguments and the
 * operands, never what is expected.
 *
 * A row that torch cannot compute here (an operator that exists on a GPU alone, arguments that make
 * no sense) is no fault of ours: the replay ends with `library-row`, and the verdict says that
 * nothing was compared. */
#include "verify/verify_internal.h"
#include "base/base.h"
#include "base/dtype.h"
#include "tape/tape.h"
#include <stdlib.h>
#include <unistd.h>

#define ANSWER_BYTES_MAX ((size_t)64 << 10)
#define CPU_S 120

struct library {
	struct grading *g;
	struct job job;
	bool is_running;
	int fd; /* operands of one row at a time */
};

static json_t *views_json(const struct tape_view *views, int n, const int64_t *offset)
{
	json_t *list = json_array();
	for (int i = 0; i < n; i++) {
		json_t *shape = json_array();
		for (int d = 0; d < views[i].ndim; d++) json_array_append_new(shape, json_integer(views[i].shape[d]));
		json_array_append_new(list,
			json_pack("{s:s, s:o, s:I}", "dtype", dtype_name(views[i].dtype), "shape", shape, "offset",
				(json_int_t)offset[i]));
	}
	return list;
}

/* The job: one entry for each row of the tape, null where it is no library row. */
static json_t *job_json(const struct tape *t, int64_t *bytes)
{
	json_t *rows = json_array();
	*bytes = 64;
	for (int i = 0; i < t->nrows; i++) {
		const struct tape_row *r = &t->rows[i];
		if (r->kind != TAPE_LIBRARY) {
			json_array_append_new(rows, json_null());
			continue;
		}
		int64_t *offset = xcalloc((size_t)(r->nreads + r->nwrites) + 1, sizeof *offset);
		*bytes = MAX(*bytes, tape_library_layout(r, offset));
		json_array_append_new(rows,
			json_pack("{s:s, s:O, s:o, s:o}", "name", r->op, "args", (json_t *)(uintptr_t)r->op_args, "reads",
				views_json(r->reads, r->nreads, offset), "writes",
				views_json(r->writes, r->nwrites, offset + r->nreads)));
		free(offset);
	}
	return json_pack("{s:o}", "library", rows);
}

/* How the process ended, or that it fell silent: the doing of what it was asked to compute. */
static int lost(struct library *l, int rc, char *why, size_t len, struct err *err)
{
	char status[64] = "it fell silent";
	job_wait(&l->job, 1000);
	if (job_check_entered(&l->job, err)) return ERR_INFRA;
	if (l->job.ended) child_status_text(l->job.status, status, sizeof status);
	snprintf(why, len, "the process in which torch computed it ended: %s", rc == ERR_TIMEOUT ? "no time left" : status);
	job_end(&l->job);
	l->is_running = false;
	return ERR_MISMATCH;
}

static int compute(void *ctx, int row, uint64_t deadline_ns, char *why, size_t len, struct err *err)
{
	struct library *l = ctx;
	struct str text = {0};
	json_t *answer = NULL;
	char ask[48];
	if (!l->is_running) {
		snprintf(why, len, "torch did not live through an earlier row");
		return ERR_MISMATCH;
	}
	/* One question, one answer; a process that is lost says why. */
	int n = snprintf(ask, sizeof ask, "{\"row\": %d}", row);
	int rc = msg_send(l->job.data_fd, ask, (size_t)n, NULL, 0, deadline_ns, err);
	if (!rc) rc = job_next(&l->job, ANSWER_BYTES_MAX, &text, NULL, NULL, deadline_ns, err);
	if (!rc) rc = json_parse(text.data, text.len, "library's answer", &answer, err);
	const char *fault = json_string_value(json_object_get(answer, "fault"));
	if (rc) rc = lost(l, rc, why, len, err);
	else if (!json_is_true(json_object_get(answer, "done"))) {
		snprintf(why, len, "%s", fault ? fault : "torch gave no answer");
		rc = ERR_MISMATCH;
	}
	json_decref(answer);
	str_release(&text);
	/* It goes on as JSON, and a cut may have split a character. */
	for (char *p = why; *p; p++)
		if ((unsigned char)*p >= 0x80) *p = '?';
	return rc;
}

int library_start(struct grading *g, const struct tape *t, struct err *err)
{
	library_end(g);
	/* Operands lie in memory of both processes: a candidate may not ask for
	 * more than a replay has. */
	int64_t bytes = 0;
	json_t *job = job_json(t, &bytes);
	if (bytes > g->s->limits.replay_memory_bytes) {
		json_decref(job);
		return grade_end(g, VERDICT_INVALID, STAGE_CORRECTNESS, "memory", 0,
			"the operands of one of torch's operators need %lld MiB, at most %lld are given", (long long)(bytes >> 20),
			(long long)(g->s->limits.replay_memory_bytes >> 20));
	}
	/* The process of the references, since it has torch; the candidate's code is not in it. */
	struct library *l = xcalloc(1, sizeof *l);
	struct job_limits limits = {g->s->level, g->s->limits.replay_memory_bytes, CPU_S};
	uint64_t deadline = deadline_in_ms(g->s->limits.replay_timeout_ms);
	*l = (struct library){.g = g, .fd = memfd_make("operands", (size_t)bytes, err)};
	int rc = l->fd < 0 ? err_set(err, ERR_INFRA, "no memory for %lld bytes of operands", (long long)bytes)
					   : job_start(g->s->oracle, &limits, json_incref(job), &l->job, err);
	json_decref(job);
	l->is_running = rc == 0;
	/* The process learns of the memory before it is asked for a row. */
	if (!rc) rc = msg_send(l->job.data_fd, "{}", 2, &l->fd, 1, deadline, err);
	g->library = l;
	g->computes = (struct runner_library){l->fd, compute, l};
	if (rc) library_end(g);
	return rc ? ERR_INFRA : GRADE_ON;
}

void library_end(struct grading *g)
{
	struct library *l = g->library;
	if (!l) return;
	if (l->is_running) job_end(&l->job);
	if (l->fd >= 0) close(l->fd);
	free(l);
	g->library = NULL;
}
