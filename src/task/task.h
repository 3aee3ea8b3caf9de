/* task: what a kernel is asked to do. A task is the source text of a PyTorch module in
 * KernelBench's file format (class Model, get_inputs(), get_init_inputs()); this room reads sets of
 * them, composes new ones (synth), and writes reference answers for composed ones (a plan and a
 * Triton candidate built from parts). It never runs a task's Python: whether a task or an answer is
 * any good is for the verifier to say.
 *
 * A composed task is first a small expression graph (struct task_graph, private); PyTorch source,
 * structure string and reference answers are all printed from that graph, so they cannot drift
 * apart. */
#ifndef HONE_TASK_H
#define HONE_TASK_H
#include "base/base.h"

#define TASK_SOURCE_BYTES_MAX ((size_t)1 << 20)
/* Last line of a source whose values are checked at other sizes than its own: "# Judged at ROWS=5,
 * COLS=700". The oracle reads it (worker/oracle_size.py); prompts leave it out. */
#define TASK_JUDGED_AT "# Judged at "

struct task {
	char *name;      /* unique in its set: "synth-1-000017", "level1/19_ReLU" */
	char *source;    /* Python text */
	char *structure; /* composed tasks: operator combination without constants and sizes, "chain:relu,mul_c,tanh"; else
						"" */
	char *split;     /* "train", "dev", "test", "hand" or "" */
	char *rung;      /* of the ladder, composed tasks: "T0" to "T4"; else "" */
	int level;       /* 1 single operator or short chain, 2 fused sequence, 3 small network; 0 unknown */
	int64_t problem_id;     /* the number that a benchmark gives the task inside its level (the file name's prefix,
							   "19_ReLU"); 0: none */
	uint64_t seed;          /* composed tasks: regenerates the graph; else 0 */
	struct sha256_hex hash; /* of the source without comments and white-space differences */
};
struct task_set {
	struct task *tasks;
	size_t count;
};

/* What tasks are alike in: the structure, or of a task without one its name. */
const char *task_cluster(const struct task *t);
/* Which split a structure belongs to, for ever: "test" (what is reported), "dev" (what settings and
 * stopping points are chosen by), "train"; "" for "". A function of the structure's hash alone, so
 * sets composed anywhere agree, and a label that says otherwise is refused
 * wherever rows are read. */
#define TASK_TEST_SHARE 0.07
#define TASK_DEV_SHARE 0.03
enum task_split { TASK_TRAIN, TASK_DEV, TASK_TEST, TASK_SPLIT_COUNT };
enum task_split task_split_of(const char *structure);
const char *task_split_name(enum task_split s);
/* The split of a row: its label, which must be that of its structure; without a label the
 * structure's. what names the row in errors. */
int task_split_settle(const char *structure, const char *label, const char *what, const char **out, struct err *err);

/* path: one .py file, a folder (searched for *.py, in name order; "levelN" in the path gives the
 * level), or a .jsonl file (gzip when it ends in .gz) with keys name, source, structure,
 * split, rung, level, seed, problem_id, or rows of KernelBench's dataset (code, level,
 * name, problem_id), which are named as the files of its checkout are. A bad row is an
 * error that names file and line. */
int task_set_load(const char *path, struct task_set *out, struct err *err);
/* As task_set_load, and also: the root of a KernelBench checkout (its KernelBench/ is read), a
 * Parquet file of dataset rows, and TritonBench-T's file of rows (with the folder of its operators
 * beside it). The last two are read by a sandboxed Python program; what it leaves out is said on
 * stderr. */
int task_set_import(const char *path, struct task_set *out, struct err *err);
bool task_set_is_file(const char *path); /* by its suffix; anything else is saved as a folder */
int task_set_save(const char *path, const struct task_set *set, struct err *err);
/* Halves integer literals above size_max (at least 1) where sizes stand, until they fit; a comment
 * at the top of the source says so. Returns whether there were any. */
bool task_shrink(struct task *t, int64_t size_max);
void task_set_release(struct task_set *s);
/* Cheap checks without Python: size, UTF-8, the three names exist. */
int task_check(const struct task *t, struct err *err);

struct task_synth_options {
	uint64_t seed;
	int count[TASK_SPLIT_COUNT]; /* tasks of each split; a structure's split is task_split_of */
	int level_min;               /* 1..3 */
	int level_max;               /* 1..3 */
	/* Names of task_ops.c's table, comma-separated: only tasks made of these
	 * alone; NULL or "": all. */
	const char *operators;
	int operators_min;    /* only tasks of at least so many */
	const char *rungs;    /* comma-separated, "T1,T2": tasks of these rungs in place of levels; NULL or "": levels */
	const char *progress; /* label of a progress line; NULL: none */
};
/* Composes tasks; deduplicated by source hash; splits share no structure. Same options, same bytes.
 * ERR_LIMIT when no more are to be found. */
int task_synth(const struct task_synth_options *o, struct task_set *out, struct err *err);

/* A reference answer for a composed task: plan (1-3 short sentences that name the operators, block
 * shape and fusion) and code (a candidate file). style 0..task_answer_styles()-1 varies block size,
 * naming, masking, grid form, one or several kernels. Of a task that a family of templates gave
 * there may be several answers, whose best depends on the sizes: choice 0 is the best by the
 * family's rule. ERR_NOT_FOUND when the task was not composed, ERR_RANGE for a style or choice that
 * there is not. */
int task_answer_styles(void);
int task_answer_choice(
	const struct task *t, int style, int choice, struct str *plan, struct str *code, struct err *err);
/* The same task solved correctly but slowly (one launch per operator, small blocks; of a family the
 * last choice): the mid-end's starting point. */
int task_answer_slow(const struct task *t, int style, struct str *plan, struct str *code, struct err *err);

#endif
