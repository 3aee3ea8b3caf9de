/* verify_internal: what the steps of a verdict share. One struct grading lives on a worker thread's
 * stack from request to verdict. */
#ifndef HONE_VERIFY_INTERNAL_H
#define HONE_VERIFY_INTERNAL_H
#include "base/base.h"
#include "cost/cost.h"
#include "prove/prove.h"
#include "runner/runner.h"
#include "store/store.h"
#include "tape/tape.h"
#include "task/task.h"
#include "verify/calibrate.h"
#include "verify/choice_cache.h"
#include "verify/cost_model.h"
#include "verify/gpu_watch.h"
#include "verify/oracle.h"
#include "verify/reference_cache.h"
#include "verify/runner_pool.h"
#include "verify/seats.h"
#include "verify/verify.h"
#include <pthread.h>
#include <stdatomic.h>

#define VERIFY_SOURCE_BYTES_MAX ((size_t)256 << 10)
#define KERNELBENCH_TRIALS 5 /* of its check, as its scripts call it */

/* Deadlines and bounds in force, defaults filled in. */
struct verify_limits {
	int trace_timeout_ms;
	int compile_timeout_ms;
	int replay_timeout_ms;
	int oracle_timeout_ms;
	int oracle_work_ms;
	int64_t trace_memory_bytes;
	int64_t replay_memory_bytes;
	int64_t compile_memory_bytes;
	int64_t oracle_memory_bytes;
	int64_t gpu_memory_bytes; /* of one replay on the GPU */
};

#define VERIFY_GPUS_MAX 16
/* "cpu": none; "cuda", "cuda:N", "cuda:N,M" */
struct device_list {
	int count;
	int numbers[VERIFY_GPUS_MAX];
};

struct gpu_identity gpu_identity_of(const struct runner_device *d); /* calibrate.c */

/* One GPU that kernels run on. */
struct verify_gpu {
	struct runner_pool *runners;
	struct runner_device device; /* of them; its replays hold its lock shared, timed ones alone (gpu_lock.h) */
	struct gpu_watch *watch;     /* NULL: nothing is known of others */
	struct gpu_peaks peaks;      /* where they were measured */
	/* A task's process with its reference on the GPU, for its next candidate (stock_step.c). */
	struct stock_job *waiting;
	atomic_int njobs; /* processes of tasks' on it: references that are timed, those of stock sizes, live files */
};

struct compile_cache;
struct endings;
struct rebuild_cache;
/* What worker threads use; everything here is thread-safe or constant after create. */
struct verify_shared {
	/* Where processes come from. */
	struct zygote *tracer;
	struct zygote *compiler;
	struct zygote *oracle;
	struct zygote *timer; /* references on the GPU; NULL: none are timed */
	struct runner_pool *runners;
	struct endings *endings;                 /* who waits for processes that are done */
	int ngpus;                               /* 0: the vm alone */
	struct verify_gpu gpus[VERIFY_GPUS_MAX]; /* all of one kind; each thread has its own, in turn */

	/* What is remembered. */
	struct store *store; /* may be NULL */
	struct oracle_cache *oracles;
	struct compile_cache *compiles;
	struct rebuild_cache *rebuilds;
	struct reference_cache *references;
	struct choice_cache *choices; /* of autotuners, by what they choose among */

	/* What was asked for. */
	struct verify_limits limits;
	int level; /* of the sandbox */
	int num_trials;
	bool tf32;
	bool screens; /* the first trial before machine code */
	bool skip_compile;
	bool skip_replay;
	struct vm_gpu gpu;       /* the card that kernels are made for */
	int run_capability;      /* of the device, where it stands for that card; 0: it is one */
	bool wants_price;        /* costs at other sizes than the judged ones */
	uint64_t cost_seed;      /* of samples */
	bool is_live;            /* candidates' files are run for real too */
	int time_repeats;        /* timed replays on the GPU; 0: none */
	bool is_paired;          /* references are timed turn by turn with each candidate */
	unsigned reference_mask; /* of enum verdict_reference_kind: 1 << kind */
	unsigned final_mask;     /* of those, what is timed beside a final best */
	char *sanitizer;         /* compute-sanitizer's place; NULL: it is not there, or no GPU is */
	double sanitize_share;   /* of right candidates, chosen by their text */
	char *profiler;          /* Nsight Compute's place; NULL: not asked for */

	char *versions;     /* text for cache keys */
	struct seats seats; /* of candidates at work */
	struct verify_times times;
	pthread_mutex_t times_lock;
};

/* The step that a thread is at, and since when; what its verdict took so far. */
struct lap {
	enum verify_step step;
	uint64_t wall_ns; /* 0: not begun */
	uint64_t cpu_ns;  /* 0: not begun */
	struct verify_times spent;
};

/* What the tracer says of an autotuner that forward launched: how many configurations survived its
 * pruning, and which of them is on the tape. A candidate's process said so: numbers to ask for,
 * and a label for people. */
#define TUNED_CONFIGS_MAX 1024
struct tuned {
	char label[VERDICT_TUNED_LABEL];
	int configs;
	int chosen;
};
/* A launch of a grid without programs, which is no row of the tape. */
struct empty_launch {
	char kernel[96]; /* "": there was none */
	int line;
	int64_t grid[3];
};
struct trace {
	struct str text;
	struct tape *tape;
	int ntuned; /* with a choice, in the order of their first launch */
	struct tuned tuned[VERDICT_TUNED_MAX];
	struct empty_launch empty; /* the first */
	json_t *modes; /* [name, tape, ...] of modes in which forward does other work, NULL: none (mode_step.c) */
	bool is_probe; /* asked for: no tape but the text that trace_probe_step wants */
};
void trace_release(struct trace *t);

/* What an answer is that is no module of Python: a tape as JSON; a head with modules, which is a
 * tape at each of the sizes that it is for (ir_step.c). */
enum ir_kind { IR_NONE, IR_TAPE, IR_TEXT };

struct library;
struct powers;
/* One verdict on its way. A second attempt, and a second pass with an autotuner's choices, begin
 * with a new one (grade.c). */
struct grading {
	struct verify_shared *s;
	struct verdict *v;

	/* What was asked (struct verify_request). */
	const struct task *task;
	const char *source;
	size_t source_len;
	enum ir_kind ir;            /* what the answer is when it is IR: its own source */
	bool is_final;              /* of a best that will be published: nothing is sampled, and no time is a cached one */
	struct str *ir_form;        /* where a genuine candidate's answer in IR goes; NULL: nobody wants it */
	const char *emit;           /* file for the module of a genuine candidate; NULL: nobody wants it */
	struct prove_result *proof; /* filled by prove_step; NULL: no proof is asked for */
	int attempt;                /* 0, or 1 behind a fault of our own */
	json_t *choices; /* label or kernel of an autotuner -> its configuration (tune_step.c); NULL: the first */
	const struct oracle_data *oracle;
	struct powers *powers; /* whose data `oracle` is where other sizes had to be found; NULL: nothing was asked */

	/* The candidate's processes. */
	struct job tracer;
	bool has_tracer;
	bool is_traced_again; /* the tracer is the second trace's */
	int next_other;       /* of the tracer's other sizes: the next that it makes, from 1 */
	struct job builder;   /* makes kernels' IR from the text (rebuild_step.c) */
	bool has_builder;
	int asked; /* recipes that the tracer asked the builder for */
	/* For one of them Triton refused a block there because a dimension is no power of two. */
	bool has_refused_block;
	int64_t compile_ms;   /* CPU time that the candidate's compilations took so far, in this attempt */
	struct runner runner; /* of the vm */
	bool has_runner;
	struct library *library;        /* who computes the loaded tape's library rows; NULL: it has none */
	struct runner_library computes; /* of library */

	/* What is known so far. */
	bool is_partial; /* torch's own work stands between inputs and outputs: line and name of the first such */
	int library_line;
	char library_op[104];
	json_t *compiled; /* (the stock tape's kernels) what their costs are counted with (compile_step.c); NULL */
	bool cost_varies; /* what the stock tape costs depends on data, so every trial is metered */
	bool is_coarse;   /* a mode is judged in which products may be in tf32 (mode_step.c) */
	struct runner_result judged; /* the stock trial's replay: costs and touched, for price_step; zeros: none yet */
	struct guided *guided;       /* sides of comparisons that trials took (guided.h); NULL before the first */
	bool is_left_out[ORACLE_VARIANTS_MAX];    /* sizes that the candidate is not for */
	struct trace others[ORACLE_VARIANTS_MAX]; /* by variant: what was judged beside the stock tape, for delivery */

	/* On a GPU. */
	struct verify_gpu *on; /* where its kernels run beside the vm; NULL: nowhere */
	struct runner gpu_runner;
	bool has_gpu_runner;
	struct sha256_hex gpu_loaded; /* text of the tape that gpu_runner has; "": none */
	bool is_gpu_full;             /* the last tape had no room there, for others' use of it */
	bool has_gpu_lock;    /* shared, for longer than a replay (stock_step.c): asking again would be a deadlock */
	int64_t vm_ns;        /* the vm's longest trial so far: a GPU is allowed a time beside it */
	bool is_uncontracted; /* kernels are compiled without contraction of products and sums */
	/* By variant, on large inputs (gpu_cause.c): 1 it is right, -1 it is not, 0 not asked. */
	int8_t is_right_scaled[ORACLE_VARIANTS_MAX];

	struct lap lap;
};

/* Steps return GRADE_ON to go on, GRADE_END when the verdict is settled, or a negative code: an
 * infrastructure fault, to be tried again. GRADE_TUNED, of tune_step alone: choices were made, and
 * the candidate is to be judged from the start with them. The steps below stand in the order in
 * which a verdict takes them; those on a GPU are in gpu_steps.h. */
enum { GRADE_ON = 0, GRADE_END = 1, GRADE_TUNED = 2 };

/* ---- grade.c: the sequence ---- */

/* What the text alone settles (stages format and static): true when it did. Needs no worker. */
bool grade_text(struct verify_shared *s, const char *source, size_t source_len, struct verdict *out);
/* The rest of the sequence, with one repetition after an infrastructure fault. Never fails: what
 * cannot be judged is VERDICT_INFRA. proof: asked for beside it, where the tape is one that can be
 * replayed; or NULL. */
void grade(struct verify_shared *s, struct verify_gpu *on, const struct verify_request *r, struct verdict *out,
	struct prove_result *proof);
/* KernelBench's verdict for a cheat that the text alone settled. Never fails. */
void grade_kernelbench(
	struct verify_shared *s, const struct task *task, const char *source, size_t source_len, struct verdict *out);
/* Settles the verdict. reason may come from elsewhere (a fault's code): it is cut to its field. */
int grade_end(struct grading *g, enum verdict_class class, enum verdict_stage stage, const char *reason, int line,
	const char *fmt, ...) __attribute__((format(printf, 6, 7)));
/* What the tape alone shows: no launch, outputs that no launch made, torch's own work. */
int lineage_step(struct grading *g, const struct trace *t);

/* ---- times.c ---- */

/* What passed since the last call belongs to the step that was named then. */
void times_lap(struct grading *g, enum verify_step next);
void times_child(struct grading *g, enum verify_step step, double cpu_s);
/* At a verdict's end: into the verifier's sums. */
void times_add(struct grading *g);
/* Into them, of a process that ended later. */
void times_late(struct verify_shared *s, enum verify_step step, double cpu_s);

/* ---- endings.c: processes of verdicts that are out ---- */

int endings_create(struct verify_shared *s, struct endings **out, struct err *err);
void endings_free(struct endings *e); /* waits for all; nothing is handed over any more */
void endings_wait(struct endings *e); /* for all that were handed over */
/* Takes a process over: kills the job, or ends the runner's stream, and has its end waited
 * for. Its processor time counts for `step`, behind the verdict. */
void ending_job(struct grading *g, struct job *j, enum verify_step step);
void ending_runner(struct grading *g, struct runner *r, enum verify_step step);

/* ---- trace_step.c: the candidate's tapes ---- */

/* The stock sizes, in a new tracer, which stays; then the other sizes, in the same. */
int trace_step(struct grading *g, struct trace *out, struct err *err);
int trace_other_step(struct grading *g, struct trace *out, struct err *err);
/* In the same tracer at sizes that the job has not: keys of the tracer's job. */
int trace_sized_step(struct grading *g, const json_t *job, struct trace *out, struct err *err);
/* The same in place of another variant's trace, at whose sizes the candidate was refused: behind a
 * call at the task's own sizes, as that was. returns: and these behind calls at the job's. */
int trace_instead_step(struct grading *g, const json_t *job, bool returns, struct trace *out, struct err *err);
/* In the same tracer, which compiles nothing for it: out->text is what tracer_probe.py found
 * for `probe` (docs/worker-protocol.md), which is taken over. */
int trace_probe_step(struct grading *g, json_t *probe, struct trace *out, struct err *err);
/* The stock sizes once more, in a new tracer on plain tensors: the tape must be the same. Ends the
 * tracer that stayed. */
int trace_again_step(struct grading *g, const struct trace *stock, struct err *err);

/* ---- ir_step.c: in place of a trace, for an answer in IR ---- */

enum ir_kind ir_kind_of(const char *source, size_t len);
/* Its tape at the judged sizes; at those of a variant, or behind the last one at those of the cost.
 * Sizes that it is not for are invalid/other-sizes. */
int ir_step(struct grading *g, struct trace *out);
int ir_other_step(struct grading *g, int variant, struct trace *out);
/* Appends the answer in IR that the tapes of a genuine candidate come from. ERR_MISMATCH:
 * the form cannot say it. */
int ir_form(struct grading *g, const struct trace *stock, struct str *out, struct err *err);

/* ---- rebuild_step.c: each kernel's IR against what a clean process makes from the text ---- */

int rebuild_step(struct grading *g, const struct tape *t, struct err *err);
/* For a tracer: the IR that a clean process makes by a recipe, heap; NULL where that says
 * nothing. */
int rebuild_answer(struct grading *g, const char *recipe, char **ttir, struct err *err);

/* ---- rebuild_cache.c: what that found before ---- */

struct rebuild_cache *rebuild_cache_create(void);
void rebuild_cache_free(struct rebuild_cache *c);
/* Whether this claim is known for this text; one more, which depends on the text's first `until`
 * lines (0: on all). */
bool rebuild_is_known(const struct grading *g, const struct tape_kernel *k);
void rebuild_known_add(const struct grading *g, const struct tape_kernel *k, int until);
/* An IR that was made before by this recipe from lines that the text begins with, heap; NULL. */
char *rebuild_made_take(const struct grading *g, const char *recipe);
void rebuild_made_add(const struct grading *g, const char *recipe, const char *ttir, int until);

/* ---- compile_step.c: machine code ---- */

struct compile_cache *compile_cache_create(int entries);
void compile_cache_free(struct compile_cache *c);
int compile_step(struct grading *g, const struct tape *t, struct err *err);
/* One job of the compile worker, out of the candidate's budget; takes over `task`. 0 with its
 * answer in *text (and descriptors in fds, nfds: room before, count after; may be NULL).
 * ERR_TIMEOUT: the budget is spent; ERR_CHILD: the process ended or did not make sense, inside its
 * sandbox: the candidate's doing. */
int compile_job(
	struct grading *g, json_t *task, size_t bytes_max, struct str *text, int *fds, int *nfds, struct err *err);
/* The same of the job that stays until the candidate is judged: the first task starts it,
 * later ones are sent to it. */
int builder_ask(struct grading *g, json_t *task, size_t bytes_max, struct str *text, struct err *err);
/* Of the candidate, where it launches that kernel first; 0: nowhere. */
int line_of_kernel(const struct tape *t, int kernel);

/* ---- launch_limits.c ---- */

/* The launches of one kernel against what a driver accepts; result: what its compilation said. */
int launch_limits_check(struct grading *g, const struct tape *t, int kernel, const json_t *result);

/* ---- replay_step.c: values, by the vm ---- */

/* The first trial alone, without costs: settles the verdict of a candidate that is wrong there. */
int screen_step(struct grading *g, const struct trace *stock, struct err *err);
int replay_step(struct grading *g, const struct trace *stock, struct err *err);
/* Gives a tape to the vm's runner, and its library rows to somebody who computes them. GRADE_END
 * where it is refused. */
int replay_load(struct grading *g, const struct trace *t, struct runner_loaded *loaded, struct err *err);
/* One guided trial on the vm, with the variant's tape loaded; guided_trial has what passes there
 * replayed on the GPU too. */
int guided_trial_on_vm(struct grading *g, const struct trace *tr, const struct oracle_trial *t,
	const struct runner_trial *aims, struct err *err);
int guided_trial(struct grading *g, const struct trace *tr, const struct oracle_trial *t,
	const struct runner_trial *aims, struct err *err);
/* One trial at sizes that the candidate names, with the tape that it leaves there. */
int sized_trial(struct grading *g, const struct trace *tr, const struct oracle_trial *t, struct err *err);

/* ---- powers_step.c: sizes in place of those at which Triton refuses a block ---- */

/* Whether the verdict so far is a refusal of the sizes: Triton's, of a block, or that of a line of
 * the candidate's text that asserts or raises. */
bool powers_refused(const struct grading *g);
/* Behind such a refusal, which is the verdict so far. GRADE_ON with a tape at other sizes; trials
 * there stand for the variant's in g->oracle, and nothing is said in the verdict. GRADE_END with
 * what ended the search, at the sizes `tried`, a text of g's or the variant's: the first refusal
 * where there was nothing but refusals. */
int powers_step(struct grading *g, int variant, struct trace *tr, const char **tried, struct err *err);
/* Ends its process. */
void powers_rest(struct grading *g);
/* Releases what it made; the oracle's data that the task's other candidates have. */
const struct oracle_data *powers_end(struct grading *g);

/* ---- library_step.c: torch's rows of a partial tape ---- */

/* Starts the process that computes the library rows of a tape, in place of an earlier tape's. */
int library_start(struct grading *g, const struct tape *t, struct err *err);
void library_end(struct grading *g);

/* ---- steps with a file of their own name, of a candidate that is right so far ---- */

/* Trials of other configurations that an autotuner may choose. */
int config_step(struct grading *g, const struct trace *stock, struct err *err);
/* Trials at sizes on the sides of the candidate's comparisons with a size that no trial took; what
 * none can take is listed in the record. After replay_step, in its runner and tracer. */
int sized_step(struct grading *g, struct err *err);
/* The candidate at the task's own sizes, where values were judged at smaller ones, or at those that
 * costs are asked for; after replay_step and in its runner and tracer. What fails at the task's own
 * sizes, or was not judged, settles the verdict; what cannot be predicted is said in the record. */
int price_step(struct grading *g, const struct trace *stock, struct err *err);
/* Trials of the tapes that forward leaves in other modes: with gradients, under autocast, in
 * train() for eval(). */
int mode_step(struct grading *g, const json_t *modes, struct err *err);
/* Asks the oracle for the reference as a graph and proves the tape against it, into g->proof.
 * Never settles the verdict. */
int prove_step(struct grading *g, const struct trace *stock, struct err *err);
/* KernelBench's own verdict beside ours, once that is settled. stock may be without a tape. */
void kernelbench_step(struct grading *g, struct trace *stock);
/* The part of it that a reason alone decides. */
bool kernelbench_refused(struct verdict *v);
/* Writes the module of a genuine candidate; what went wrong is said in the verdict's detail. */
int emit_step(struct grading *g, const struct trace *stock, struct err *err);

/* ---- audit.c ---- */

int audit_run(struct verify_shared *s, const struct task *task, json_t **out, struct err *err);

/* ---- setup.c: options checked and filled in, and where things lie ---- */

int setup_shared(const struct verify_options *o, struct verify_shared *s, struct err *err);
int setup_devices(const char *text, struct device_list *out, struct err *err);
/* The card of the table that an option names, or that a device is ("NVIDIA H200 NVL": "H200"); with
 * a device its own figures where they are smaller. A device may stand for an older card that is
 * named: kernels are compiled for the card, and what comes of that is translated for the device. */
int setup_gpu(const char *name, const struct runner_device *device, struct vm_gpu *out, struct err *err);
struct verify_places {
	char *root;
	char *runner;
	char *library;
};
/* The caller releases the places, also on failure. */
int setup_places(const struct verify_options *o, struct verify_places *out, struct err *err);
void setup_places_release(struct verify_places *p);
#endif
