/* reference: a task's reference on a GPU, in a process of its own (worker/timer.py), timed by the
 * same questions as a candidate's tape. The process runs the task's code and nothing of any
 * candidate's; what it says of its own time is the task's word. */
#ifndef HONE_REFERENCE_H
#define HONE_REFERENCE_H
#include "base/base.h"
#include "runner/runner.h"
#include "verify/oracle.h"
#include "verify/verdict.h"
#include "verify/worker.h"
#include <stdatomic.h>

struct reference;
struct reference_options {
	struct zygote *zygote; /* "timer" */
	struct job_limits limits;
	const char *device; /* UUID */
	int timeout_ms;     /* until it is ready: imports, constructor, torch.compile, forwards to warm up */
	int question_ms;
	atomic_int *njobs; /* one more while the process lives; NULL: nobody counts */
};
struct reference_facts {
	bool is_gated;  /* false: forward waits for the GPU or queues more than fits, so gaps of the host's count */
	bool has_draws; /* forward draws at random, on a GPU other numbers: its outputs are nobody's to check */
	int64_t memory_bytes;
};
/* Starts the process, with the data of one trial of the variant's sizes; ERR_INFRA. Several
 * get ready side by side. */
int reference_start(const struct reference_options *o, enum verdict_reference_kind kind,
	const struct oracle_variant *variant, const struct oracle_trial *trial, struct reference **out, struct err *err);
/* The same for a candidate's file, run as it is: nothing of it is timed, and what it
 * returned is asked for once. */
int reference_live(const struct reference_options *o, const char *source, size_t source_len,
	const struct oracle_variant *variant, const struct oracle_trial *trial, struct reference **out, struct err *err);
/* Waits until it is warm. 0; ERR_MISMATCH with why it cannot be timed; ERR_INFRA. */
int reference_ready(struct reference *r, struct reference_facts *facts, char *why, size_t len, struct err *err);
/* One question: span, wall or paper. ERR_MISMATCH: the process is of no more use, why says it. */
int reference_time(
	struct reference *r, enum runner_clock question, int64_t *ns, char *why, size_t len, struct err *err);
/* What the last forward returned beside what is expected: the worst scaled error, and whether all
 * outputs lie within `slack` times the trial's bounds, and not less than `floor`. */
int reference_check(struct reference *r, double slack, double floor, bool *agrees, double *error_max, char *why,
	size_t len, struct err *err);
void reference_end(struct reference *r);
#endif
