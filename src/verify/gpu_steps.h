/* gpu_steps: the parts of a verdict that run on a GPU, after the vm found the candidate right. */
#ifndef HONE_GPU_STEPS_H
#define HONE_GPU_STEPS_H
#include "base/base.h"
#include "base/dtype.h"
#include "runner/runner.h"
#include "tape/tape.h"
#include "verify/attempt.h"
#include "verify/compare.h"
#include "verify/oracle.h"
#include "verify/verify_internal.h"

/* ---- compile_step.c ---- */

/* A tape's kernels as binaries, ready for a GPU's runner. */
struct compiled {
	int count;
	int fd;                         /* memfd with all binaries, -1 */
	struct runner_binary *binaries; /* strings point into results */
	json_t *results;                /* what the compile worker said about each */
};
void compiled_release(struct compiled *c);
/* Compiles what is not in the cache. GRADE_END when a kernel does not compile. */
int compile_binaries(struct grading *g, const struct tape *t, struct compiled *out, struct err *err);

/* ---- gpu_step.c: trials on the GPU ---- */

/* All counted trials of one variant on the GPU, after they passed on the vm. */
int gpu_step(struct grading *g, const struct trace *t, int variant, struct err *err);
/* A trial that was made for this candidate and passed on the vm, on the GPU. */
int gpu_guided(struct grading *g, const struct trace *t, const struct oracle_trial *trial, struct err *err);
/* The GPU's lock for a candidate: shared, or alone for a timing. The wait is a step of its own.
 * ERR_INFRA. */
int gpu_lock_for(struct grading *g, bool alone, int *lock, struct err *err);
/* The GPU's runner with a tape in it; and one replay by it, with the GPU's lock held shared, or
 * alone where it is timed. GRADE_END for faults; *r is to be released on 0. */
int gpu_start(struct grading *g, const struct trace *t, struct err *err);
int gpu_replay(struct grading *g, const struct attempt *a, struct attempt_result *r, struct err *err);
/* By what an output is compared: a guided trial was right on the vm by a narrower bound. */
struct compare_bound gpu_bound(const struct oracle_trial *t, int output);
/* The worst error and the first text of a difference; 0 when all outputs agree. */
int gpu_outputs_differ(
	const struct oracle_trial *t, const struct attempt_result *r, double *worst, char *text, size_t len);
/* What a fault of its runner means for the verdict (trial may be NULL); and
 * what an end of it means. */
int gpu_fault_end(struct grading *g, const struct runner_fault *f, const struct oracle_trial *trial, struct err *err);
int gpu_runner_lost(struct grading *g, int rc, struct err *err);
/* The candidate is done with it. And more of them ahead of need. Both compute on the GPU,
 * so they hold its lock. */
void gpu_runner_done(struct grading *g);
void gpu_runners_refill(struct verify_gpu *on);
/* The vm found `t` to differ: whether the GPU finds so too goes into the record. Never fails. */
void gpu_second_opinion(struct grading *g, const struct trace *tr, const struct oracle_trial *t);

/* ---- stock_step.c: the task's own sizes ---- */

/* Values at the task's own sizes on the GPU, where they are judged at smaller ones.
 * Due: somebody has to ask. begin: starts the process that makes them; it computes while the
 * candidate is traced at these sizes. step: the candidate's tape of these sizes beside them;
 * GRADE_END with the verdict in g->v; GRADE_ON with out->why where nothing more could be judged,
 * skipped: a trial that the reference is of no use for. */
struct stock_job;
struct stock_result {
	char why[320];
	char skipped[200];
};
bool stock_is_due(const struct grading *g);
int stock_begin(struct grading *g, struct stock_job **out, struct err *err);
int stock_step(struct grading *g, struct stock_job *s, const struct trace *judged, const struct trace *large,
	struct stock_result *out, struct err *err);
void stock_end(struct grading *g, struct stock_job *s);
void stock_forget(struct verify_gpu *on);

/* ---- gpu_cause.c: why values differ on the GPU ---- */

/* A trial that the vm passed and the GPU did not by its values, found: GRADE_ON where a known cause
 * explains it, which is counted, and the GPU's runner has the tape's kernels in it; GRADE_END where
 * none does, why: what spoke against one. worst: the error that counts then. */
int gpu_cause_judge(struct grading *g, const struct attempt *a, const struct attempt_result *found, double *worst,
	char *why, size_t len, struct err *err);
/* Zeros for what is subnormal in fp32; whether there was any. */
bool gpu_cause_flush(enum dtype dtype, uint8_t *data, int64_t bytes);
double gpu_cause_largest(const struct oracle_trial *t); /* finite magnitude among its floating inputs */

/* ---- tune_step.c, timing_step.c, live_step.c, tool_step.c: of right candidates ---- */

/* A right candidate's autotuners on the GPU: every configuration is timed, and
 * compared; the fastest are chosen, into g->choices (tune_step.c). After price_step, in
 * the tracer that stayed. */
int tune_step(struct grading *g, const struct trace *stock, struct err *err);
/* The stock tape's time on the GPU beside the references', and its outputs once
 * more (timing_step.c). */
int timing_step(struct grading *g, const struct trace *stock, struct err *err);
/* The candidate's file, run for real on the GPU, where that was asked for: after
 * the verdict is settled. */
int live_step(struct grading *g, struct err *err);
/* A right candidate's stock tape under compute-sanitizer, whose findings settle the verdict, and
 * under Nsight Compute (tool_step.c). */
int sanitize_step(struct grading *g, const struct trace *stock, struct err *err);
int profile_step(struct grading *g, const struct trace *stock, struct err *err);
char *tool_find(const char *name);      /* in PATH and where the toolkit lies; heap, NULL: nowhere */
int sanitizer_errors(const char *said); /* -1: it did not come to a summary */
void sanitizer_text(const char *said, char *text, size_t len);
int profile_read(char *said, struct verdict_profile *out, int max); /* spoils `said`; how many launches */
#endif
