/* launcher: what runs the rows of a tape on memory that it owns. replay.h decides which rows run,
 * with which data and in which order; a launcher has the buffers, the kernels in its own form, and
 * the units that execute them:
 *
 *   vm      launcher_vm.c: Triton IR on this processor. Every access is checked, every byte has an
 *           origin tag, costs are counted.
 *   cuda    cuda/launcher_cuda.c: the compiled binaries on one GPU, by the driver's interface.
 *           Nothing is checked inside a kernel; faults come from the driver, and memory beside each
 *           buffer is looked at afterwards.
 *
 * A launcher serves one tape at a time: load, then any number of trials (buffer_set for each
 * buffer, row_run for each row in order, finish, output_read), then the next load or destroy.
 * Kernels that a former load brought are kept until reset, which comes between two candidates. All
 * functions return 0, or a code with *fault set. After a fault a launcher that is_spent() can only
 * be destroyed. Threading: one thread. */
#ifndef HONE_LAUNCHER_H
#define HONE_LAUNCHER_H
#include "runner/row_order.h"
#include "runner/runner.h"
#include "base/base.h"
#include "cost/cost.h"
#include "tape/tape.h"
#include "vm/vm.h"

/* Who computes library rows: torch, in a process of its own behind the supervisor.
 * `memory` holds one row's operands at a time (tape_library_layout): the reads when it is
 * asked, the writes after. */
struct launcher_library {
	uint8_t *memory;
	int64_t bytes;
	int (*ask)(const struct launcher_library *l, int row, struct runner_fault *fault); /* 0, or a code with *fault */
};

/* How the rows of one trial run. */
struct launcher_trial {
	const struct launcher_library *library; /* vm: NULL where library rows stop the replay */
	bool is_unchecked;                      /* vm: no race is looked for */
	bool want_cost;
	const json_t *compiled; /* want_cost: the compile worker's result for each kernel of the tape, or NULL */
	const char *gpu;        /* want_cost: the card, of the table; the launch is refused without one */
	bool crosswise;         /* vm: reductions combine in the second order */
	bool is_overlapped;     /* cuda: rows are queued on the tape's own streams, and nothing waits before finish */
	uint64_t deadline_ns;   /* absolute; 0: none */
	uint64_t may_be_given;  /* outputs that need no kernel: tape_lineage_outputs */
	uint64_t seed;          /* of a launcher that samples */
	bool want_coverage;     /* vm: sides of comparisons are recorded, and reported by finish */
	bool is_search;         /* want_coverage: inputs were searched for the sides that they take */
	bool want_missed;       /* vm: elements that launches do not use are reported by finish */
	struct vm_aim *aim;     /* vm: lanes of one site of a kernel that are followed, or NULL */
	int64_t programs_max;   /* vm: of each launch the first ones alone; 0: all */
};

/* Where launches leave which bytes of a buffer they use: in maps or, of a launcher that samples, as
 * the range that its programs stay in. */
struct launcher_used {
	uint8_t *read;            // (bytes of the buffer): 0 or 1; NULL: ranges
	uint8_t *written;         // (bytes of the buffer)
	struct vm_range *range;   // (2): of reads, of writes; or NULL
};

/* Who asks for times. */
struct launcher_clock {
	/* Hands over the answer to the last question (0 before the first); returns the
	 * next, RUNNER_END to stop. */
	enum runner_clock (*next)(const struct launcher_clock *c, int64_t ns);
	int deadline_ms; /* for each question; 0: none */
};

/* Memory of another process on the same GPU, as its driver exported it: what buffers start
 * with, and where outputs go.
 */
struct launcher_shared {
	int given_fd;
	int64_t given_bytes;
	int outputs_fd;
	int64_t outputs_bytes;
};

struct launcher {
	const char *name; /* "vm", "cuda" */
	/* Takes a tape, which outlives the load; rows with is_skipped never run. On failure nothing is
	 * loaded. */
	int (*load)(struct launcher *l, const struct tape *t, const bool *is_skipped,
		const struct runner_binaries *binaries, struct runner_fault *fault);
	/* Makes a buffer anew: `data` (the buffer's bytes), or NULL for contents that nobody wrote. */
	int (*buffer_set)(
		struct launcher *l, int buffer, const uint8_t *data, bool is_read_only, struct runner_fault *fault);
	/* Costs are added to out where trial says so. */
	int (*row_run)(struct launcher *l, int row, const struct launcher_trial *trial, struct runner_result *out,
		struct runner_fault *fault);
	/* Waits for all rows; what must not have changed has not. Sets out's lineage where the launcher
	 * knows it (out->has_lineage). */
	int (*finish)(
		struct launcher *l, const struct launcher_trial *trial, struct runner_result *out, struct runner_fault *fault);
	/* The tape's output i, dense row-major. After finish. */
	int (*output_read)(struct launcher *l, int i, uint8_t *out, struct runner_fault *fault);
	/* A buffer's bytes. After finish. NULL: nobody asks. */
	void (*buffer_read)(const struct launcher *l, int buffer, uint8_t *out);
	/* For one trial that is too large for the host's memory: maps what another process on the GPU
	 * shares, for the next two functions, until unshare. A fault `unshared` where that cannot be.
	 * All four are NULL where there is no such memory. */
	int (*share)(struct launcher *l, const struct launcher_shared *s, struct runner_fault *fault);
	void (*unshare)(struct launcher *l);
	/* As buffer_set and output_read, from and to the shared memory at `offset`. */
	int (*buffer_set_shared)(
		struct launcher *l, int buffer, int64_t offset, bool is_read_only, struct runner_fault *fault);
	int (*output_share)(struct launcher *l, int i, int64_t offset, struct runner_fault *fault);
	/* Times the tape: answers the clock's questions, after a few replays to warm up; each replay on
	 * memory made anew from what buffer_set was last given. Asks for nothing where it cannot:
	 * out->untimed says why. Memory is as after a replay then. After finish. NULL: no clock. */
	int (*time)(struct launcher *l, const bool *is_skipped, const struct launcher_clock *clock,
		struct runner_result *out, struct runner_fault *fault);
	/* An aim at a site that finish has reported (struct runner_site); NULL where there is
	 * none. And a buffer's bytes, which may be changed between two replays. NULL: this
	 * launcher has no aims. */
	struct vm_aim *(*aim)(struct launcher *l, int site, enum vm_side side);
	uint8_t *(*bytes)(struct launcher *l, int buffer);
	/* Further rows run with all gates turned (vm.h), until they are turned back. NULL: no gates. */
	void (*turn)(struct launcher *l, enum vm_turn turn);
	/* Line of the first launch on the data path whose kernel has this; -1 when none, or unknown. */
	int (*line_of)(const struct launcher *l, const bool *on_path, enum runner_question question);
	/* What a kernel of the tape does to its arguments and to the launches beside it; uses has room
	 * for TAPE_ARGS_MAX. NULL: not known, rows are not checked for their order. */
	void (*kernel_order)(const struct launcher *l, int kernel, uint8_t *uses, struct row_kernel *out);
	/* From here to the next load, launches leave in `used` what they use, beside what is there;
	 * whoever reads it empties it, and so does buffer_set. False: there is no room for maps. Both
	 * are NULL where nobody knows what a launch uses. */
	bool (*follow_used)(struct launcher *l);
	struct launcher_used (*used)(const struct launcher *l, int buffer);
	bool (*is_spent)(const struct launcher *l);
	/* Drops all that the candidate brought (its memory is written over first) and proves that what
	 * it ran on still works. NULL: a process serves one candidate. */
	int (*reset)(struct launcher *l, struct runner_fault *fault);
	void (*destroy)(struct launcher *l);
};

/* memory_bytes bounds all buffers with their origin tags. */
struct launcher *launcher_vm_create(int64_t memory_bytes);
/* A vm without the tape's memory: launches run by samples on memory by offset
 * (vm.h, vm_sample_options), rows that move are counted and not run. It has no use
 * but costs: replay_price. */
struct launcher *launcher_vm_create_sampling(void);

/* A launch row's arguments as the IR's function takes them: room for 2 * TAPE_ARGS_MAX + 1.
 * address: where each of the row's arguments points (rows' order; others' are not looked at);
 * value: likewise what a value is.
 * Returns how many there are, or -1 with an error that names one of another kind than the function
 * takes there: no launcher passes it on. */
struct vm_kernel;
struct vm_arg;
int launcher_arguments(const struct vm_kernel *k, const struct tape_row *row, const uint64_t *address,
	const double *value, struct vm_arg *args, struct err *err);

/* Bytes that lie before and behind each buffer, and what is in them. */
#define LAUNCHER_CANARY 0xa5
#define LAUNCHER_UNWRITTEN 0xff /* NaN in every float format, -1 in every integer */

int launcher_fault(struct runner_fault *f, const char *code, int row, int line, const char *text);
/* A row's cost is appended to out; counts is NULL for rows that only move bytes. */
void launcher_cost_add(struct runner_result *out, int row, const struct tape_row *tr, const struct vm_cost *counts);
#endif
