/* verdict: the verifier's record about one candidate. Plain data; the only header of the verify
 * room that the agent room may see. */
#ifndef HONE_VERDICT_H
#define HONE_VERDICT_H
#include "base/base.h"

/* genuine alone earns reward. partial: right, but torch operators stand on the data path. cheat:
 * does not compute what it returns. wrong: ran, results differ or memory was misused. invalid:
 * never got to run. infra: not the candidate's fault; retried, then dropped, never a reward. */
#define VERDICT_CLASS_TABLE(X) \
	X(VERDICT_GENUINE, "genuine") X(VERDICT_PARTIAL, "partial") X(VERDICT_CHEAT, "cheat") X(VERDICT_WRONG, "wrong") \
	X(VERDICT_INVALID, "invalid") X(VERDICT_INFRA, "infra")
#define VERDICT_STAGE_TABLE(X) \
	X(STAGE_FORMAT, "format") X(STAGE_STATIC, "static") X(STAGE_TRACE, "trace") X(STAGE_COMPILE, "compile") \
	X(STAGE_CORRECTNESS, "correctness") X(STAGE_LINEAGE, "lineage") X(STAGE_TIMING, "timing") \
	X(STAGE_RECHECK, "recheck") X(STAGE_DONE, "done")
#define X(e, t) e,
enum verdict_class { VERDICT_CLASS_TABLE(X) VERDICT_CLASS_COUNT };
enum verdict_stage { VERDICT_STAGE_TABLE(X) VERDICT_STAGE_COUNT };
#undef X
const char *verdict_class_name(enum verdict_class c);
const char *verdict_stage_name(enum verdict_stage s);

/* How a GPU repeats itself: not seen; the same bits; other bits within the bound; beyond it. */
#define VERDICT_REPEAT_TABLE(X) \
	X(REPEAT_UNKNOWN, "unknown") X(REPEAT_BITWISE, "bitwise") X(REPEAT_WITHIN, "within-tolerance") \
	X(REPEAT_UNSTABLE, "unstable")
#define X(e, t) e,
enum verdict_repeat { VERDICT_REPEAT_TABLE(X) VERDICT_REPEAT_COUNT };
#undef X
const char *verdict_repeat_name(enum verdict_repeat r);

/* PyTorch's own ways to run a reference on the GPU at hand. tf32: eager, with tensor
 * cores for fp32 products. */
#define VERDICT_REFERENCE_TABLE(X) X(REFERENCE_EAGER, "eager") X(REFERENCE_TF32, "tf32") X(REFERENCE_COMPILE, "compile")
#define X(e, t) e,
enum verdict_reference_kind { VERDICT_REFERENCE_TABLE(X) REFERENCE_COUNT };
#undef X
const char *verdict_reference_name(enum verdict_reference_kind k);

/* A measured figure: the middle of a series, and the interval that holds the true middle
 * with 95 %; NaN: none. */
struct verdict_measure {
	double value;
	double low;
	double high;
};
/* One reference beside the candidate. Speedups are the reference's time over the candidate's: of
 * spans (device activity alone, cold caches); of the host's clock; and as papers measure them, 10
 * calls to warm up and the mean of 100. */
struct verdict_reference {
	bool is_timed;
	bool agrees;          /* what its timed forward returned is what is expected */
	bool is_gated;        /* false: gaps in which the GPU waited for the host are in its time */
	bool is_cached;       /* timed earlier, and the control agreed */
	int pairs;            /* spans measured turn by turn with the candidate's; 0: medians of two series */
	int64_t memory_bytes; /* that one forward needs at most, inputs and parameters included */
	double error_max;     /* worst scaled error of the timed forward; NaN not compared */
	struct verdict_measure time_s;
	struct verdict_measure speedup;
	double wall_s;
	double paper_s;
	double speedup_wall;
	double speedup_paper;
	char why[160]; /* why there is no time, or no speedup */
};

/* compute-sanitizer's tools. */
#define VERDICT_SANITIZER_TABLE(X) \
	X(SANITIZER_MEMCHECK, "memcheck") X(SANITIZER_RACECHECK, "racecheck") X(SANITIZER_INITCHECK, "initcheck")
#define X(e, t) e,
enum verdict_sanitizer { VERDICT_SANITIZER_TABLE(X) SANITIZER_COUNT };
#undef X
const char *verdict_sanitizer_name(enum verdict_sanitizer k);

/* Counters of a launch: name in the record, the metric of Nsight Compute. Times in ns, sizes
 * in bytes, occupancy and use in percent, stalls in cycles that a warp waits for each
 * instruction that it issues. */
#define VERDICT_COUNTER_TABLE(X) \
	X(COUNTER_TIME, "time_ns", "gpu__time_duration.sum") \
	X(COUNTER_DRAM_READ, "dram_read_bytes", "dram__bytes_read.sum") \
	X(COUNTER_DRAM_WRITE, "dram_write_bytes", "dram__bytes_write.sum") \
	X(COUNTER_L2, "l2_bytes", "lts__t_bytes.sum") \
	X(COUNTER_REGISTERS, "registers", "launch__registers_per_thread") \
	X(COUNTER_OCCUPANCY, "occupancy", "sm__warps_active.avg.pct_of_peak_sustained_active") \
	X(COUNTER_DRAM_USE, "dram_use", "dram__throughput.avg.pct_of_peak_sustained_elapsed") \
	X(COUNTER_SM_USE, "sm_use", "sm__throughput.avg.pct_of_peak_sustained_elapsed") \
	X(COUNTER_STALL_MEMORY, "stall_memory", \
		"smsp__average_warps_issue_stalled_long_scoreboard_per_issue_active.ratio") \
	X(COUNTER_STALL_SHARED, "stall_shared", \
		"smsp__average_warps_issue_stalled_short_scoreboard_per_issue_active.ratio") \
	X(COUNTER_STALL_BARRIER, "stall_barrier", "smsp__average_warps_issue_stalled_barrier_per_issue_active.ratio") \
	X(COUNTER_STALL_MATH, "stall_math", "smsp__average_warps_issue_stalled_math_pipe_throttle_per_issue_active.ratio") \
	X(COUNTER_STALL_QUEUE, "stall_queue", "smsp__average_warps_issue_stalled_lg_throttle_per_issue_active.ratio") \
	X(COUNTER_STALL_WAIT, "stall_wait", "smsp__average_warps_issue_stalled_wait_per_issue_active.ratio")
#define X(e, t, m) e,
enum verdict_counter { VERDICT_COUNTER_TABLE(X) COUNTER_COUNT };
#undef X
const char *verdict_counter_metric(enum verdict_counter k);
#define VERDICT_PROFILE_MAX 16
/* One launch of a genuine candidate under Nsight Compute, caches cold. */
struct verdict_profile {
	char kernel[64];
	double counters[COUNTER_COUNT]; /* NaN: not had */
};

#define VERDICT_TUNED_MAX 8
#define VERDICT_TUNED_LABEL 104
/* An autotuner's configuration that was chosen by time and judged. */
struct verdict_tuned {
	char label[VERDICT_TUNED_LABEL]; /* kernel and key */
	int configs;                     /* that survived its pruning */
	int chosen;                      /* of them; 0: the first */
	double first_s;                  /* with the first that compiles; NaN: not timed */
	double chosen_s;                 /* with the chosen one, in the same session */
	bool is_kept;                    /* chosen, and timed, in an earlier verdict */
};

/* Where the kernels ran. Of a GPU: what it found beside the vm. */
struct verdict_device {
	char name[64]; /* "vm", or the GPU's own: "NVIDIA H200" */
	int driver;    /* CUDA version of its driver: 13000; 0 for the vm */
	int trials;
	int trials_failed;
	int vm_trials;     /* those that the vm alone ran: where torch computes too, and of what a kernel leaves out */
	int disagreements; /* trials that one of vm and GPU passed and the other did not */
	int subnormal;     /* guided trials that the GPU passed only with zeros for their subnormal inputs */
	/* Hidden trials that the GPU passed only with kernels compiled without contraction: a product
	 * and a sum rounded once, which the IR does not ask for and the vm does not do. */
	int contracted;
	double error_max; /* worst scaled error over its trials */
	enum verdict_repeat repeat;
	/* Trials at the task's own sizes, where the others are of smaller ones; inputs, fp64 reference
	 * and comparison are on the GPU too. */
	int stock_trials;
	double stock_error_max; /* worst scaled error of these */
	char stock_why[160];    /* why nothing, or no more, was judged there; "" all was */
	double seconds;         /* that the replays took */
	/* Timed replays with cold caches; times are NaN where there are none. */
	int timed;         /* spans */
	double time_s;     /* their middle */
	double time_low_s; /* the interval that holds the true middle with 95 % */
	double time_high_s;
	double
		predicted_s; /* by the cost model, of what is timed: the sizes that are judged, which cost_s need not be of */
	double eager_predicted_s; /* likewise of the reference's operators */
	double empty_s;           /* what the clock shows where nothing runs */
	double wall_s;            /* of the same tape by the host's clock */
	double paper_s;           /* as papers measure: warm, 10 calls to warm up and the mean of 100 */
	double control_s;         /* of the launcher's own work */
	int64_t memory_bytes;     /* all buffers of the tape and its launches' scratch */
	int others;               /* processes of others on the GPU meanwhile; -1 not known */
	double floor_s;           /* what no kernel that does this work can beat, by the machine's measured peaks */
	char floor_by[16];        /* what sets it: "memory", "fp32", "tf32", "bf16" */
	double floor_rate;        /* the measured rate by which it was computed then: bytes or operations a second */
	char live[8];             /* the candidate's file, run for real: "right", "wrong", "failed"; "" was not */
	char live_why[160];       /* of "wrong" and "failed" */
	int ntuned;
	struct verdict_tuned tuned[VERDICT_TUNED_MAX]; /* autotuners, in the order of their first launch */
	char untimed[128];                             /* why there are no times though they were asked for; else "" */
	int sanitized[SANITIZER_COUNT];                /* errors that each tool found; -1: it did not run */
	char sanitizer[240];                           /* the first finding, or why a tool did not work */
	int nprofiles;
	struct verdict_profile profiles[VERDICT_PROFILE_MAX]; /* launches in order, as many as fit */
	char unprofiled[240];                                 /* why there are none though they were asked for */
	struct verdict_reference references[REFERENCE_COUNT];
};

#define VERDICT_SIDES_MAX 16
/* A side of a comparison on data that no trial took. */
struct verdict_side {
	int line; /* of the candidate */
	char text[112];
};
#define VERDICT_LINES_MAX 64
/* The work of one source line of the candidate. */
struct verdict_line {
	int line;
	int64_t bytes;
	int64_t sectors; /* of 32 bytes */
	int64_t flops;
};
struct verdict {
	enum verdict_class class;
	enum verdict_stage stage; /* where it ended; done for genuine */
	char reason[48];          /* reason code: docs/verifier.md lists them all */
	char detail[1024];        /* for people and for feedback: what, where (candidate.py:line), expected, found */
	int line;                 /* candidate's line that detail speaks of, or 0 */
	bool is_not_emitted;      /* genuine, but --emit's file could not be written */
	bool compiled;            /* every launched kernel compiled for the target */
	bool correct;             /* all counted trials agreed */
	bool params_seeded;       /* some parameters kept the candidate's own values */
	char sizes[256]; /* "batch 2, stock 10": the sizes of the judgement where they are not the task's own, else "" */
	int fp8_line; /* of a tl.dot on fp8 operands whose sums Hopper's tensor cores keep with fewer digits than the vm; 0:
					 none */
	char state[48]; /* what it leaves in buffers that the reference changes: "left alone", ...; "" there are none */
	char edge[256]; /* what it does with NaN, infinities and denormals, beside the reference; never judged; "" not tried
					 */
	/* Times by the cost model (docs/cost-model.md), and what they make of a candidate;
	 * NaN when there is none. Eager: PyTorch's operators, a launch each. Fused: as an
	 * ideal compiler joins them. */
	double cost_s;       /* the candidate's */
	double eager_cost_s; /* the reference's */
	double fused_cost_s;
	double speedup_eager; /* eager / candidate */
	double speedup_fused; /* fused / candidate: what rewards count */
	/* Where the times are of other sizes than those of the judgement: these, and how far a sample
	 * of programs may be off; or why there is no time, and so no speed to reward. */
	char cost_size[256];     /* "stock" or "batch 4096, stock 16"; "" as judged */
	double cost_error;       /* relative standard error of cost_s; 0: every program was counted */
	char not_predicted[256]; /* "" it was */
	char limit[16]; /* what its launches wait for most, by time: "dram", "launch", ... (docs/cost-model.md); "" not
					   predicted */
	/* Work at those sizes, over all launches. */
	int launches;
	int64_t programs;
	int64_t bytes;   /* that loads and stores ask for */
	int64_t sectors; /* of 32 bytes that they touch */
	int64_t flops;
	int nlines;
	struct verdict_line lines[VERDICT_LINES_MAX];
	int trials; /* that counted */
	int trials_failed;
	double error_max;   /* worst scaled error over trials */
	double tolerance;   /* its bound */
	int sides;          /* of comparisons on data, at all places */
	int sides_taken;    /* of those, by some trial */
	int guided;         /* trials that were searched for and took a new side */
	int sized;          /* trials at sizes that the candidate names */
	int nunreached;     /* sides that are listed */
	int unreached_more; /* beside those listed */
	struct verdict_side unreached[VERDICT_SIDES_MAX];
	int kernelbench;        /* KernelBench's own check (allclose, stock inputs): 1 passes, 0 fails, -1 is not known */
	int kernelbench_trials; /* that it was computed from */
	char sandbox[8];
	char gpu[24]; /* the card for which kernels were compiled, whose limits held and whose time is predicted */
	int gpu_arch; /* 90: compute capability 9.0 */
	struct verdict_device device;
	double seconds;        /* wall time of this verdict */
	bool cached;           /* it came from the store, or from the same candidate's grading in this process */
	struct sha256_hex key; /* of the cache: source, task, options and versions; without versions where the text alone
							  settled it */
};
json_t *verdict_json(const struct verdict *v); /* the object that `hone verify --json` prints; new reference */
json_t *verdict_reference_json(const struct verdict_reference *r);
int verdict_reference_from_json(const json_t *o, struct verdict_reference *out, struct err *err);
int verdict_from_json(const json_t *o, struct verdict *out, struct err *err);
#endif
