/* oracle: what is known about a task from its reference alone: argument descriptions, trials with
 * inputs and expected outputs, costs. Asked of the oracle worker once for each task and seed, then
 * kept in memory for the candidates of a group. The worker runs a stranger's source, so every
 * number that it sends is checked here. */
#ifndef HONE_ORACLE_H
#define HONE_ORACLE_H
#include "base/base.h"
#include "base/dtype.h"
#include "runner/runner.h"
#include "task/task.h"
#include "verify/compare.h"
#include "verify/worker.h"

#define ORACLE_TRIALS_MAX 40
#define ORACLE_VARIANTS_MAX 5  /* the sizes at which the task is judged, smaller ones, larger ones, other strides, other
								  sizes for the constructor */
#define ORACLE_FAULT_OURS "ours" /* code of a fault of our own code around the reference (worker/oracle_faults.py) */
#define ORACLE_INIT_SEED 42    /* KernelBench's; the candidate may know it */

struct oracle_variant {
	/* Keys of the tracer's job: init_args, init_kwargs, state, inputs,
	 * input_kwargs, draws, training. */
	const json_t *job;
	const json_t *state; /* of job: the reference's parameters and buffers */
	bool training;
	const char *kind;   /* "stock", "smaller", "larger", "strided" or "built" */
	const char *source; /* of the reference at these sizes */
	char changed[256];  /* "dim 1024 -> 769"; of the first variant "batch 2, stock 10"; "" for the task's own sizes */
};
/* A buffer of the model as the reference's forward leaves it. */
struct oracle_after {
	int param; /* into the trial's params */
	struct compare_output want;
	struct compare_bound bound;
};
struct oracle_trial {
	bool counts;     /* false: skipped or not usable; why says it */
	bool is_check;   /* for KernelBench's verdict alone: stock inputs, the seed's own parameters, no fp64 twin */
	bool is_edge;    /* NaN, infinities, denormals: replayed and reported, never judged */
	json_t *message; /* keeps names alive, where oracle_data.messages does not */
	bool is_guided;  /* made for one candidate: inputs on which its comparisons take other sides */
	char why[320];
	char distribution[96];
	int variant;
	const struct oracle_variant *sized; /* in place of `variant`: sizes that were made for one candidate */
	bool is_stock;                      /* stock inputs and sizes (parameters may be random) */
	bool is_random_params;
	bool is_wide; /* parameters as far from their beginning as training may take them, inputs near one */
	int given_fd;
	int64_t given_bytes;
	uint8_t *given; /* descriptor for the runner, mapping for the audit */
	int ninputs;
	struct runner_given *inputs;
	int nparams;
	struct runner_given *params;
	int noutputs;
	struct compare_output *outputs;
	struct compare_bound *bounds;
	int nafter;
	struct oracle_after *after; /* those that it changes; floats alone */
	uint8_t *expected;
	int64_t expected_bytes; /* mapping; outputs point into it */
};
struct oracle_data {
	json_t *task;
	json_t *cost;
	/* At other sizes than the judged ones, where such costs are asked for
	 * (oracle_options.cost_size); else NULL: {"same"}; {"why": text}; or {"job": keys
	 * of the tracer's job, "changed": as a variant's, "outputs": [[dtype, shape]],
	 * "eager", "fused": as cost's}. */
	json_t *priced;
	char priced_at[256]; /* "batch 4096, stock 16"; "" where the task's own sizes are meant */
	json_t *messages;    /* keeps strings alive */
	int nvariants;
	struct oracle_variant variants[ORACLE_VARIANTS_MAX];
	int ntrials;
	struct oracle_trial trials[ORACLE_TRIALS_MAX];
	bool has_dot;
	bool narrows;            /* the reference itself uses fp16, bf16 or fp8 somewhere */
	bool rounds;             /* it rounds to whole numbers, or makes such of floats */
	const char *null_kernel; /* an output made without computing that passes every counted trial ("zeros"); NULL: none,
								as it should be */
	enum dtype dtype;        /* of the first floating output: the task's precision */
	int64_t bytes;           /* memory held, for the cache's bound */
};

struct oracle_options {
	struct job_limits limits;
	int timeout_ms; /* processor time of the reference over all trials; ten times as long by the clock */
	int silent_ms;  /* processor time, or time asleep, without a word of it; 0: no such limit */
	bool is_spare;  /* a task that is judged at smaller sizes than its own is judged at its own too, on a GPU: few rows
					   do */
	int work_ms;    /* nominal time of the reference over all trials: sizes are chosen by it */
	uint64_t seed;
	int num_trials;
	int num_checks; /* further trials for KernelBench's verdict alone, behind the others */
	bool tf32;
	const char *cost_size; /* NULL: as judged; "stock"; or elements that the largest input has at least */
};
struct oracle_fault {
	char code[48];
	char text[1024];
	int line;
};
/* The limits and the deadline of a process that holds a reference. */
struct job_limits oracle_limits(const struct oracle_options *o, uint64_t *deadline);
/* The next message of such a process, as job_next; ERR_TIMEOUT, and err says which
 * limit, at the deadline and where it hangs: where it computes, or sleeps, for longer
 * than one message should take. */
int oracle_next(struct job *j, const struct oracle_options *o, size_t bytes_max, struct str *out, int *fds, int *nfds,
	uint64_t deadline, struct err *err);
/* Runs the oracle for a task. 0, ERR_MISMATCH with *fault set when the task itself is at fault,
 * ERR_INFRA otherwise. */
int oracle_run(struct zygote *z, const struct task *task, const struct oracle_options *o, struct oracle_data **out,
	struct oracle_fault *fault, struct err *err);
void oracle_data_free(struct oracle_data *d);
/* The job that oracle_run asks for: for other questions about the same task at the same sizes. */
json_t *oracle_job(const struct task *task, const struct oracle_options *o);

/* Tries outputs that no kernel computed (null_kernel.c); the name of the first that passes all
 * counted trials, or NULL. */
const char *oracle_null_kernel(const struct oracle_data *d);

/* Inputs or parameters of a trial, each of which lies in the `bytes` that are given.
 * Names stay the list's. */
int oracle_given_read(
	const json_t *list, int64_t bytes, bool is_named, struct runner_given **out, int *count, struct err *err);
void oracle_trial_release(struct oracle_trial *t);
/* Of trial `index`: nobody who lacks the secret can know an input. */
uint64_t oracle_trial_seed(uint64_t secret, const struct task *task, int index);
/* A variant's message; strings stay the message's. */
int oracle_variant_read(const json_t *o, struct oracle_variant *out, struct err *err);
/* One message about a trial with its two descriptors, which stay the caller's. */
int oracle_trial_read(const json_t *o, int given_fd, int expected_fd, struct oracle_trial *t, struct err *err);
/* Sets the bounds; a hidden trial on which the reference is not exact
 * enough does not count then. */
void oracle_trial_calibrate(const struct oracle_data *d, struct oracle_trial *t, bool tf32);

/* Cache over oracle_run: one run at a time for each task, bounded memory, least recently used goes
 * first. Thread-safe. */
struct oracle_cache;
struct oracle_cache *oracle_cache_create(
	struct zygote *z, const struct oracle_options *o, int64_t bytes_max, int entries_max);
void oracle_cache_free(struct oracle_cache *c);
const struct oracle_options *oracle_cache_options(const struct oracle_cache *c, struct zygote **z);
/* The data stays valid until oracle_cache_put. */
int oracle_cache_get(struct oracle_cache *c, const struct task *task, const struct oracle_data **out,
	struct oracle_fault *fault, struct err *err);
void oracle_cache_put(struct oracle_cache *c, const struct oracle_data *d);

/* Guided trials: the reference of one variant in a process of its own, which makes inputs by
 * recipe and computes what is expected of them (oracle_guided.c). All recipes of a session
 * are for one candidate. */
struct oracle_session;
int oracle_session_start(struct oracle_cache *c, const struct task *task, const struct oracle_data *d, int variant,
	struct oracle_session **out, struct err *err);
/* edits: a list (docs/worker-protocol.md), taken over. 0 with a trial that counts, or does
 * not and says why; the caller releases it. Any other code: the process is of no more use,
 * which is nobody's fault. */
int oracle_session_trial(
	struct oracle_session *s, int number, json_t *edits, struct oracle_trial *out, struct err *err);
/* ERR_INFRA where the process ended by a fault of our own code: what it left out was not the
 * reference's doing. Asked before the end. */
int oracle_session_fault(const struct oracle_session *s, struct err *err);
void oracle_session_end(struct oracle_session *s);

/* Sizes that one candidate names (sized_step.c asks for them), or that take the place of
 * those that it refuses (powers_step.c): sides of comparisons with a size, in the words of
 * the worker's protocol. */
struct oracle_side {
	const char *side; /* "above", "below", "equal", "rest", "no rest", "bits", "pair" or "at" */
	int64_t number;
	int64_t modulus; /* of "rest" and "no rest" */
	int way;         /* to begin with: 0, or what an earlier answer ended with */
	json_t *sets;    /* of "at": lists of all sizes, of which the first that works is wanted; else NULL */
	/* Of "at" with one set: what comes is to stand for an ordinary trial of this
	 * distribution, and may be as large as one. "": a trial that does not count, for its
	 * variant alone; NULL: no such thing. */
	const char *like;
};
/* One trial at other sizes; trial.sized is &variant, so it must not be moved. */
struct oracle_sized {
	int way; /* behind the last trial: the next way to take the side */
	struct oracle_variant variant;
	struct oracle_trial trial;
};
int oracle_sized_start(struct oracle_cache *c, const struct task *task, const struct oracle_data *d,
	struct oracle_session **out, struct err *err);
int oracle_sized_ask(struct oracle_session *s, int number, const struct oracle_side *side, struct err *err);
/* The next trial of what was asked; 1 behind the last, with the reason in why where some sizes did
 * not work. Any negative code: the process is of no more use. The caller releases the trial. */
int oracle_sized_next(struct oracle_session *s, struct oracle_sized *out, char *why, size_t len, struct err *err);
/* Of the trials at the judged sizes that count: the first, of the task's own inputs with the seed's
 * parameters; and one with hidden values and parameters, or the first. NULL: none counts. */
const struct oracle_trial *oracle_first_trial(const struct oracle_data *d);
const struct oracle_trial *oracle_hidden_trial(const struct oracle_data *d);
/* The sizes and layouts that a trial has. */
const struct oracle_variant *oracle_variant_of(const struct oracle_data *d, const struct oracle_trial *t);
#endif
