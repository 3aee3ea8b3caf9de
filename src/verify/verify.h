/* verify: the verifier that cannot be fooled. Record hostile, replay clean
 * (docs/verifier.md):
 *
 *   static       lint of the source: rejects the hopeless early
 *   trace        the candidate runs in a sandboxed tracer without data; out comes a tape
 *   lineage      the tape alone: kernels have a part in what is returned; and by a clean process:
 *                their IR is what the candidate's text gives
 *   compile      every launched kernel is really compiled for the card
 *   correctness  hone-runner (C, sandboxed) replays the tape on fresh inputs; outputs are compared
 *                here with the oracle's fp64, and origin tags say who wrote them
 *   trace again  in another process, which has to leave the same tape
 *   timing       by the cost model; on a GPU by the clock, beside the reference
 *
 * With a CUDA device each trial that the vm passed is replayed on that GPU too, from the compiled
 * kernels, and compared in the same way: the GPU adds to the vm and never replaces it.
 *
 * struct verifier owns zygotes, runners, an oracle cache and worker threads. submit never blocks on
 * work; results come in completion order with the caller's id. Duplicates (same source, task,
 * options) within a verifier are graded once. One thread may submit and collect; the inside is
 * threaded. */
#ifndef HONE_VERIFY_H
#define HONE_VERIFY_H
#include "base/base.h"
#include "prove/prove.h"
#include "store/store.h"
#include "task/task.h"
#include "verify/verdict.h"

struct verify_options {
	const char *root;   /* folder with worker/ and build/venv; NULL: found from the executable's place */
	const char *device; /* NULL or "cpu": the vm alone; "cuda", "cuda:N", "cuda:N,M": with that GPU, or these */
	const char *gpu; /* name of the card for which kernels are compiled, whose limits hold and whose time is predicted;
						NULL: the device's own, an H200 without one */
	const char *precision;  /* "strict" or "tf32" */
	const char *sandbox;    /* NULL: the strongest that works; "full", "lsm", "none" (needs allow_unsandboxed) */
	bool allow_unsandboxed; /* without it "none" is refused */
	int threads;            /* processors that grading keeps busy; 0: cores */
	int num_correct_trials; /* 0: default (docs/verifier.md) */
	int num_perf_trials;    /* timed replays on a GPU; 0: 30 */
	bool skip_timing;       /* no timed replays */
	const char *references; /* on a GPU, what is timed beside the candidate: words of "eager", "tf32" and "compile" with
							   commas between, or NULL: nothing */
	const char *final_references; /* the same for candidates that are final (verify_request), beside those */
	bool live; /* on a GPU: files that cannot be traced, and those of genuine ones, are run for real, with the data in
				  their host code's hands: for research; never more than partial */
	double sanitize_share;  /* on a GPU, this share of right candidates runs under compute-sanitizer; 1: all of them */
	bool profile;           /* on a GPU, right candidates run under Nsight Compute */
	const char *comparison; /* NULL or "cached": references keep their times while the GPU's control agrees; "paired":
							   they are timed turn by turn with each candidate */
	uint64_t seed; /* of hidden inputs; 0: from the system's random source (recorded in the verdict's cache key only) */
	int trace_timeout_ms;   /* of one trace; this and the next three: 0: the default */
	int compile_timeout_ms; /* of a candidate's kernels together, in processor time */
	int replay_timeout_ms;  /* of one trial */
	int oracle_timeout_ms;  /* processor time of all of the reference's trials; ten times as long by the clock */
	/* Nominal time of the reference over all trials, by which sizes are chosen (docs/tasks.md,
	 * Sizes); 0: a 24th of oracle_timeout_ms. */
	int oracle_work_ms;
	/* Sizes at which costs are predicted. NULL or "judged": where values are; "stock": the task's
	 * own; a number: so large that the largest input has at least as many elements. */
	const char *cost_size;
	bool screens;        /* only what the first trial finds right is compiled; not on a GPU */
	bool skip_compile;   /* for tests of later stages only: recorded, and never genuine */
	bool skip_replay;    /* verifier_prove alone: the tape is proved and not replayed, so that nothing is refuted */
	struct store *store; /* caches; may be NULL */
	int num_kept;        /* the last verdicts, and places for compiled kernels, that memory holds; 0: 4096 */
};
struct verifier;
int verifier_create(const struct verify_options *o, struct verifier **out, struct err *err);
void verifier_free(struct verifier *v); /* stops work, kills every child, leaves no process and no file */

/* Task and source are copied. */
struct verify_request {
	const struct task *task;
	const char *source; /* the candidate's text */
	size_t source_len;
	int64_t id; /* the caller's: comes back with the verdict */
	/* The caller's, or NULL: a genuine candidate's answer in IR (docs/tape-format.md) is appended
	 * before its verdict can be collected. Where there is none, the verdict's detail says why. */
	struct str *ir_form;
	const char *emit; /* a file: a genuine candidate is written there as a module of its own; NULL: nothing */
	/* A best that somebody will publish: on a GPU it runs under compute-sanitizer whatever
	 * sanitize_share says, and references are timed turn by turn with it. */
	bool is_final;
};
int verifier_submit(struct verifier *v, const struct verify_request *r, struct err *err);
/* Next finished verdict. ERR_TIMEOUT after timeout_ms (-1: no limit, 0: poll); ERR_NOT_FOUND when
 * nothing is outstanding. */
int verifier_collect(struct verifier *v, int timeout_ms, int64_t *id, struct verdict *out, struct err *err);
/* A file descriptor that is readable while a verdict waits to be collected, for a caller that polls
 * other things too (a server, its connections). The verifier's own: not to be read or closed. */
int verifier_fd(const struct verifier *v);
bool verifier_has_gpu(const struct verifier *v); /* launches are replayed on a GPU too */
struct vm_gpu;
const struct vm_gpu *verifier_card(const struct verifier *v); /* what kernels are compiled for and costed on */
const char *verifier_card_name(const struct verifier *v);     /* as verdicts have it in gpu; owned by v */
/* What verdicts depend on beside what is asked (the verifier's own version, Python's, torch's and
 * triton's), for the keys of what others keep; owned by v. Waits for the workers. */
int verifier_versions(struct verifier *v, const char **out, struct err *err);

/* Where the time of verdicts goes, step by step: seconds added up over all that were graded. wall:
 * of the thread that grades, its waiting included; cpu: processor time of that thread and of the
 * processes that worked for it, without the keepers' own (their forks). */
#define VERIFY_STEP_TABLE(X) \
	X(STEP_ORACLE, "reference's results") X(STEP_TRACE, "traces") X(STEP_REBUILD, "IR from source") \
	X(STEP_COMPILE, "machine code") X(STEP_REPLAY, "trials") X(STEP_AGAIN, "second trace") \
	X(STEP_GPU, "costs, times on a GPU") X(STEP_LOCK, "waiting for a GPU's lock") \
	X(STEP_WATCH, "who else is on the GPU") \
	X(STEP_END, "ending processes")
#define X(e, t) e,
enum verify_step { VERIFY_STEP_TABLE(X) VERIFY_STEP_COUNT };
#undef X
const char *verify_step_name(enum verify_step s);
struct verify_times {
	double wall_s[VERIFY_STEP_COUNT];
	double cpu_s[VERIFY_STEP_COUNT];
	int64_t processes[VERIFY_STEP_COUNT]; /* that were started */
	int64_t count;                        /* verdicts */
};
/* Waits for the ends of processes whose verdicts are out. */
void verifier_times(struct verifier *v, struct verify_times *out);

/* Grades one candidate, on the calling thread and without the caches, and proves the tape
 * (prove.h). What the float replay finds wrong is refuted, whatever the proof says; a candidate
 * whose tape is never replayed (invalid, a cheat by its tape) is outside. */
struct verify_proof {
	struct prove_result result;
	enum prove_answer alone; /* of the proof, without the replay */
};
int verifier_prove(struct verifier *v, const struct task *task, const char *source, size_t len, struct verdict *verdict,
	struct verify_proof *out, struct err *err);

/* What the reference alone says about a task: runs, discriminates (zeros, constants and inputs do
 * not pass), its cost. */
int verifier_audit(struct verifier *v, const struct task *task, json_t **out, struct err *err);
#endif
