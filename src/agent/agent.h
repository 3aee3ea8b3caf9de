/* agent: the stages as policies see them: what a prompt says, what an answer earns, what feedback
 * tells.
 *
 *   frontend   PyTorch module in, plan and correct kernel out
 *   midend     a genuine kernel, its cost per line and what limits it in; a
 *              cheaper genuine kernel out
 *   backend    a genuine kernel's declared launch parameters and what was
 *              tried in; the next point out
 *
 * The mid-end is shown the kernel and not the module that it implements: what could be solved from
 * the module alone would be a frontend's answer with more to read. An answer may be followed by
 * further turns: the verdict is told, and the policy answers again.
 *
 * Prompts are plain template files (recipes/prompts/): text with {{name}} holes; an unknown hole is
 * an error. Rewards are rows of one table (docs/rewards.md). Of the verifier this room sees struct
 * verdict alone. */
#ifndef HONE_AGENT_H
#define HONE_AGENT_H
#include "base/base.h"
#include "task/task.h"
#include "verify/verdict.h"

enum agent_stage { AGENT_FRONTEND, AGENT_MIDEND, AGENT_STAGE_COUNT };
int agent_stage_from_name(const char *name, enum agent_stage *out, struct err *err);

/* ---- prompts ---- */

/* A genuine kernel of the task and what it costs, to be told apart from others of the task. */
struct prompt_variant {
	char *source;
	double cost_s; /* predicted */
	int launches;
	int64_t bytes;
	char limit[16]; /* as the verdict's */
};
struct prompt_input {
	const struct task *task;
	const char *kernel;                    /* midend: the kernel to improve; NULL for the frontend */
	const struct verdict *profile;         /* midend: that kernel's verdict, with costs per line */
	const char *precision;                 /* "strict" or "tf32" */
	const struct prompt_variant *variants; /* (nvariants) in the order in which they are shown */
	int nvariants;
	const char *card;     /* backend: what the GPU is, in a sentence */
	const char *space;    /* backend: the declared values, a line for each parameter */
	const char *tried;    /* backend: points with what they cost, a line each */
	const char *feedback; /* of a further turn: what the verdict on the last answer says; else NULL */
};
/* Holes: {{task}} the task's source without trailing blanks and without the line of judged sizes,
 * {{kernel}} source, {{cost}} table of costs (see prompt_cost_table), {{limit}} one line: which of
 * the GPU's resources the kernel waits for, {{reference}} what the module computes, on one line,
 * {{variants}} other kernels of the task with their costs, {{precision}} one sentence, {{card}},
 * {{space}} and {{tried}} of the backend, {{feedback}} of a further turn (feedback_render). A hole
 * that is not known, or has nothing to stand for, is ERR_FORMAT or ERR_USAGE. */
int prompt_render(const char *template_text, const char *template_name, const struct prompt_input *in, struct str *out,
	struct err *err);
/* Reads a template, or the one of that name that ships with hone; out is replaced. One without what
 * its stage is about ({{task}}; for midend and backend {{kernel}}; for AGENT_TURN {{feedback}})
 * would train on prompts that cannot be answered: refused. So is one for the midend with {{task}},
 * whose prompts could be answered without their kernel. */
#define AGENT_BACKEND "backend"
/* In place of a stage: what is said behind an answer of the frontend, and of the midend. */
#define AGENT_TURN "turn"
#define AGENT_MIDEND_TURN "midend turn"
int agent_template_read(const char *stage, const char *path, struct str *out, struct err *err);
/* The template of a further turn of that stage. */
int agent_turn_template_read(const char *stage, const char *path, struct str *out, struct err *err);
/* Whether a midend's template could be rendered for a kernel that is not there yet. */
int agent_midend_template_check(const char *path, struct err *err);
/* Appends "line 12: 524288 bytes, 16384 sectors, 65536 flops" for the eight first of the dearest
 * lines, then the totals: launches, programs, bytes, sectors, predicted time; and where a GPU timed
 * the kernel, what it measured, and its counters where it was profiled. */
void prompt_cost_table(const struct verdict *profile, struct str *out);
/* Appends what the kernel waits for by a GPU's counters (--profile), as text for {{limit}}; false
 * where no launch has them, and nothing is appended. */
bool prompt_measured_limit(const struct verdict *v, struct str *out);
/* Appends a line of bytes and occupancy by counters, or nothing. */
void prompt_measured_counters(const struct verdict *v, struct str *out);

/* ---- feedback: what a verdict tells the model in a further turn ---- */

/* Appends what a verdict says of the candidate: class, stage, reason, detail, the source line that
 * it speaks of, and of a genuine one its costs. */
void feedback_render(const struct verdict *v, const char *source, size_t source_len, struct str *out);

/* ---- rewards ---- */

struct reward_input {
	const struct verdict *verdict;  /* of a well-formed answer; NULL when the answer had no candidate in it */
	const struct verdict *baseline; /* midend: of the kernel that was given; NULL: the reference counts */
};
struct reward { /* both are equal unless the row is split */
	double plan;
	double code;
};
struct reward_rule {
	const char *name;
	double (*plan)(const struct reward_rule *, bool genuine, double speedup);
	double (*code)(const struct reward_rule *, bool genuine, double speedup);
	bool is_split;             /* plan and code tokens have advantages of their own */
	double alpha;              /* split: weight of the plan part; else the factor of the speedup; 0: the row has none */
	double beta;               /* what being genuine earns beside speed; 0: the row has none */
	double failure;            /* what every other verdict earns, and a mid-end's regression */
	double speedup_clip;       /* 0: raw */
	bool is_against_reference; /* s is reference / kernel always, also where the prompt showed a kernel, and without the
								  noise band: the paper's ratio */
	bool is_stock;             /* KernelBench's own check decides in place of our verdict: the reward that is hacked */
	bool pays_slower;    /* a mid-end's genuine answer is paid where it is slower than the kernel that was given */
	bool is_gain;        /* s is what was gained over the kernel that the prompt showed, -1 for a slower one */
	bool is_measured;    /* s is of times on a GPU in place of the cost model's; no time, no speed */
	const char *formula; /* for --help and the docs */
};
/* The row of that name with a recipe's constants in place of its own; below 0: the row's own. A
 * constant that the row does not have is ERR_USAGE. */
int reward_rule_set(
	struct reward_rule *rule, const char *name, double alpha, double beta, double clip, struct err *err);
const struct reward_rule *reward_rule_find(const char *name); /* NULL when unknown */
/* The speedup a rule sees: 1 inside the noise band (|s - 1| <= 0.02; of a measured one, where its
 * interval holds 1), clipped, 0 unless genuine. */
double reward_speedup(const struct reward_rule *rule, const struct reward_input *in);
/* What a mid-end's kernel did to the one that it was given, by what the vm counted of both:
 * launches were fused, fewer bytes are moved (fewer passes over the data), the same work is cut
 * into other blocks, something else makes the difference, or none is there. */
#define MIDEND_CHANGE_TABLE(X) \
	X(CHANGE_FUSED, "fused") X(CHANGE_PASSES, "fewer_passes") X(CHANGE_BLOCKS, "reblocked") X(CHANGE_OTHER, "other") \
	X(CHANGE_NONE, "none")
#define X(e, t) e,
enum midend_change { MIDEND_CHANGE_TABLE(X) MIDEND_CHANGE_COUNT };
#undef X
const char *midend_change_name(enum midend_change c);
enum midend_change midend_change(const struct verdict *given, const struct verdict *found);
/* How many times as fast, 1 inside the noise band; NaN where the two times do not compare. */
double midend_speedup(const struct verdict *given, const struct verdict *found);
/* infra verdicts have no reward: returns false, and the sample is to be dropped. */
bool reward_compute(const struct reward_rule *rule, const struct reward_input *in, struct reward *out);

/* ---- the backend: launch parameters over a declared space (tune.c) ---- */

/* A kernel's text declares what may vary, a comment line for each parameter, and gives each its
 * value in one line of the module:
 *
 *	# tune: BLOCK = 64 | 128 | 256
 *	BLOCK = 128
 *
 * A point is one value for each; its number counts through the values, the
 * first parameter fastest. */
#define TUNE_KNOBS_MAX 8
#define TUNE_VALUES_MAX 32
#define TUNE_POINTS_MAX 1000000
struct tune_knob {
	char name[40];
	int64_t values[TUNE_VALUES_MAX];
	int count;
	int given;    /* which value the text has */
	size_t begin; /* bytes of that value in the text */
	size_t end;
};
struct tune_space {
	struct tune_knob knobs[TUNE_KNOBS_MAX];
	int count;
	int64_t points;
	int64_t given; /* number of the text's own point */
};
/* Reads and checks a declaration: known form, whole numbers above 0, each once, one assignment of
 * one of them at the beginning of a line. Errors name the line and what was expected. */
int tune_space_parse(const char *source, struct tune_space *out, struct err *err);
/* Appends the text with a point's values in place of its own. */
void tune_render(const char *source, const struct tune_space *s, int64_t point, struct str *out);
/* Appends "BLOCK=128 WARPS=4". */
void tune_point_put(const struct tune_space *s, int64_t point, struct str *out);
/* The point that an answer names last, as NAME=VALUE words (a value may stand behind spaces); what
 * it does not name stays as given. -1 when it names none, or a value that is not in the space. */
int64_t tune_point_parse(const struct tune_space *s, const char *answer);
#endif
