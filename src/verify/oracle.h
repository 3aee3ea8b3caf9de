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

#define ORACLE_TRIALS_MAX 32
#define ORACLE_VARIANTS_MAX 4  /* the sizes at which the task is judged, smaller ones, larger ones, other strides */
#define ORACLE_INIT_SEED 42    /* KernelBench's; the candidate may know it */

struct oracle_variant {
	const json_t
		*job; /* keys of the tracer's job: init_args, init_kwargs, state, inputs, input_kwargs, draws, training */
	const json_t *state; /* of job: the reference's parameters and buffers */
	bool training;
	const char *kind;  /* "stock", "smaller", "larger" or "strided" */
	char changed[256]; /* "dim 1024 -> 769"; of the first variant "batch 2, stock 10"; "" for the task's own sizes */
};
struct oracle_trial {
	bool counts;  /* false: skipped or not usable; why says it */
	bool is_edge; /* NaN, infinities, denormals: replayed and reported, never judged */
	char why[320], distribution[48];
	int variant;
	bool is_stock; /* stock inputs and sizes (parameters may be random) */
	bool is_random_params;
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
	uint8_t *expected;
	int64_t expected_bytes; /* mapping; outputs point into it */
};
struct oracle_data {
	json_t *task, *cost;
	/* At other sizes than the judged ones, where such costs are asked for (oracle_options.cost_size); else NULL:
	 * {"same"}; {"why": text}; or {"job": keys of the tracer's job, "changed": as a variant's, "outputs": [[dtype,
	 * shape]], "eager", "fused": as cost's}. */
	json_t *priced;
	char priced_at[256]; /* "batch 4096, stock 16"; "" where the task's own sizes are meant */
	json_t *messages;    /* keeps strings alive */
	int nvariants;
	struct oracle_variant variants[ORACLE_VARIANTS_MAX];
	int ntrials;
	struct oracle_trial trials[ORACLE_TRIALS_MAX];
	bool has_dot;
	bool narrows;            /* the reference itself uses fp16, bf16 or fp8 somewhere */
	const char *null_kernel; /* an output made without computing that passes every counted trial ("zeros"); NULL: none,
								as it should be */
	enum dtype dtype;        /* of the first floating output: the task's precision */
	int64_t bytes;           /* memory held, for the cache's bound */
};

struct oracle_options {
	struct job_limits limits;
	int timeout_ms;
	uint64_t seed;
	int num_trials;
	bool tf32;
	const char *cost_size; /* NULL: as judged; "stock"; or elements that the largest input has at least */
};
struct oracle_fault {
	char code[48], text[1024];
	int line;
};
/* Runs the oracle for a task. 0, ERR_MISMATCH with *fault set when the task itself is at fault,
 * ERR_INFRA otherwise. */
int oracle_run(struct zygote *z, const struct task *task, const struct oracle_options *o, struct oracle_data **out,
	struct oracle_fault *fault, struct err *err);
void oracle_data_free(struct oracle_data *d);
/* Tries outputs that no kernel computed (null_kernel.c); the name of the first that passes all
 * counted trials, or NULL. */
const char *oracle_null_kernel(const struct oracle_data *d);

/* Cache over oracle_run: one run at a time for each task, bounded memory, least recently used goes
 * first. Thread-safe. */
struct oracle_cache;
struct oracle_cache *oracle_cache_create(
	struct zygote *z, const struct oracle_options *o, int64_t bytes_max, int entries_max);
void oracle_cache_free(struct oracle_cache *c);
/* The data stays valid until oracle_cache_put. */
int oracle_cache_get(struct oracle_cache *c, const struct task *task, const struct oracle_data **out,
	struct oracle_fault *fault, struct err *err);
void oracle_cache_put(struct oracle_cache *c, const struct oracle_data *d);
#endif
