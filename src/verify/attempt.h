/* attempt: one replay of one trial by one runner, and what its answer says of the candidate. */
#ifndef HONE_ATTEMPT_H
#define HONE_ATTEMPT_H
#include "base/base.h"
#include "runner/runner.h"
#include "tape/tape.h"
#include "verify/gpu_watch.h"
#include "verify/oracle.h"
#include "verify/verify_internal.h"

/* From a runner's own deadline to ours: a vm stops at its next instruction, a GPU is not
 * interrupted between two launches. */
#define ATTEMPT_GRACE_MS 3000
#define ATTEMPT_GPU_GRACE_MS 5000

struct attempt {
	const struct trace *trace;
	const struct oracle_trial *trial;
	int deadline_ms; /* 0: replay_timeout_ms */
	bool want_cost;
	bool is_overlapped;
	const struct runner_asker *asker; /* on a GPU: who asks for times */
	bool want_coverage;               /* on the vm: which sides of its comparisons the candidate takes */
	bool want_missed;                 /* likewise: which elements of its inputs it does not use */
	const struct runner_trial *aims;  /* likewise: of its fields aims and those beside them; NULL: none */
	bool is_crosswise;                /* the second on the vm, after the first was right */
	bool is_unchecked;                /* as a GPU runs it: no race is looked for, and inputs may be written to */
	int order_line;                   /* of what the second is for */
	uint64_t may_be_given;            /* outputs that the reference itself does not compute */
};
struct attempt_result {
	struct runner_result result;
	const uint8_t *outputs; /* mapped */
	int64_t bytes;
	int64_t offset[TAPE_OUTPUTS_MAX];
	int64_t *state; /* where the trial's changed buffers lie (struct oracle_trial's after); heap; NULL: not asked for */
	struct gpu_seen seen; /* of one that was timed: who else was on the GPU in its window */
};

/* ---- attempt.c: the replay ---- */

/* 0, ERR_INFRA, or runner_try's codes (the runner is lost then). */
int attempt_run(
	struct grading *g, struct runner *r, const struct attempt *a, struct attempt_result *out, struct err *err);
void attempt_release(struct attempt_result *r);
/* The outputs that the reference passes through or makes of constants, a bit each: it asks nobody
 * to compute them, and a candidate that does the same is as honest. */
uint64_t attempt_given(const struct oracle_data *d, int noutputs);
/* A parameter that the candidate calls otherwise is a named constant on the tape. Where its
 * contents are those of a reference's parameter that the tape does not have by name, it is that
 * parameter, and gets its values. Equal contents (all ones) are paired in order. of: for each
 * buffer of the tape the index of that parameter, or -1. */
void params_stand_in(
	const struct tape *t, const json_t *state, const struct runner_given *params, int nparams, int *of);
/* Some parameter of the candidate has no counterpart and keeps its own values. */
bool params_are_seeded(const struct tape *t, const struct oracle_data *d);

/* ---- state_compare.c: buffers that the reference changes ---- */

/* Where their last contents go, behind *bytes of outputs; heap, NULL: there are none. */
int64_t *state_ask(const struct oracle_trial *t, struct runner_given *params, int nparams, int64_t *bytes);
int state_compare(struct grading *g, const struct attempt *a, const struct attempt_result *r);

/* ---- attempt_judge.c: what it says ---- */

/* What a failing trial tells, given that all before it passed; and what a trial is, in words. */
const char *attempt_reason(const struct oracle_trial *t, const char *plain);
void attempt_text(const struct grading *g, const struct oracle_trial *t, char *text, size_t len);
/* Number, dtypes and shapes of what forward returned; settles the verdict where they
 * are not the reference's. */
int outputs_check(struct grading *g, const struct tape *t, const struct oracle_trial *trial);
/* The verdict that a fault of the vm's runner is; t may be NULL: the tape was only loaded. */
int attempt_fault_end(struct grading *g, const struct runner_fault *f, const struct oracle_trial *t);
/* Faults, outputs and where these come from; settles the verdict of a candidate that is wrong. */
int attempt_judge(struct grading *g, const struct attempt *a, const struct attempt_result *r);
/* What the counts of a replay or a price make of the record, beside a reference's
 * {"eager", "fused"}. A trial that is cheaper than one before it leaves the record as it
 * is: the dearest counts. Where some launch did what no time can be told of, there is no time. */
void cost_keep(struct grading *g, const json_t *reference, const struct runner_result *r);
/* The record has no times, and says why. */
void cost_none(struct grading *g, const char *why);
#endif
