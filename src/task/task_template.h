/* Families of tasks that are kernels: reductions over any dimension, scans, pooling, convolutions,
 * losses, index operations, norms over channels, gradients. A family is data, a block of text in
 * src/task/templates/: sizes, choices, a PyTorch reference and its Triton answers. task_template.c
 * parses the text, task_family.c draws tasks from a family and prints them. Private to the room.
 *
 * The text. A directive begins with % at the start of a line; what follows it up to the next one is
 * Python.
 *
 *   %family NAME RUNG WORDS        WORDS: what plans call it
 *   %dim NAME LO..HI JUDGED        a size, drawn between LO and HI; JUDGED: at
 *                                  which values are checked
 *   %dim NAME fill JUDGED          drawn last, so that the product of all sizes is 2^22 to 2^24
 *   %pick NAME FIELD | FIELD ...   one of the following rows is taken: $NAME is the row's name,
 *   %- ROW | text | text ...       $NAME.FIELD its text. Row names are part of the structure
 *   %const NAME VALUE VALUE ...    one value is taken; no part of the structure
 *   %chain NAME VAR LO..HI CLASS   LO to HI element-wise operators on VAR, where a line says @NAME;
 *                                  CLASS: signed, positive, wide or exact
 *                                  (task_family.c), what VAR may hold
 *   %rows                          another dimension may stand before ROWS: answers count their
 *                                  rows themselves
 *   %inputs EXPR, EXPR             what get_inputs returns, in terms of sizes
 *   %init NAME, NAME               sizes and constants that the constructor takes; the text: its
 *                                  statements
 *   %forward ARG, ARG              the body of Model.forward
 *   %answer NAME when CONDITION    an answer, best where CONDITION holds (COLS <= 4096 and
 *                                  ROWS*COLS > 2); without "when": best where no other is
 *   %tune NAME VALUE VALUE ...     a constant of the answer, one a style
 *   %plan TEXT                     what the answer does
 *   %because TEXT                  why that is best here
 *   %code                          kernels; the line @model stands for
 *                                  ModelNew with its constructor
 *
 * $NAME also stands for sizes, constants and tuned values. Python identifiers named in
 * task_family.c (offs, ok, BLOCK, out, *_ptr) are spelt anew by style. */
#ifndef HONE_TASK_TEMPLATE_H
#define HONE_TASK_TEMPLATE_H
#include "base/base.h"

#define FAMILY_DIMS_MAX 8
#define FAMILY_PICKS_MAX 4
#define FAMILY_FIELDS_MAX 10
#define FAMILY_ROWS_MAX 24
#define FAMILY_LISTS_MAX 4
#define FAMILY_CHAINS_MAX 2
#define FAMILY_ANSWERS_MAX 4

/* A size. */
struct family_dim {
	struct slice name;
	int low; /* 0: fill */
	int high;
	int judged; /* the value at which answers are checked */
};
/* Alternatives of one kind, each with a text for every field. */
struct family_pick {
	struct slice name;
	struct slice fields[FAMILY_FIELDS_MAX];
	int nfields;
	struct slice rows[FAMILY_ROWS_MAX]; /* "name | text | text" */
	int nrows;
};
/* A name and its values, separated by spaces. */
struct family_list {
	struct slice name;
	struct slice values;
};
struct family_chain {
	struct slice name;
	struct slice variable;
	struct slice class;
	int low; /* operators of the chain */
	int high;
};
struct family_answer {
	struct slice name;
	struct slice when; /* empty: where no other is best */
	struct slice plan;
	struct slice because; /* why it is best there: the plan's last sentence */
	struct slice code;
	struct family_list tunes[FAMILY_LISTS_MAX];
	int ntunes;
};
struct family {
	struct slice name;
	struct slice rung;
	struct slice words; /* with which a plan begins */
	struct family_dim dims[FAMILY_DIMS_MAX];
	struct family_pick picks[FAMILY_PICKS_MAX];
	struct family_list consts[FAMILY_LISTS_MAX];
	struct family_chain chains[FAMILY_CHAINS_MAX];
	struct family_answer answers[FAMILY_ANSWERS_MAX];
	int ndims;
	int npicks;
	int nconsts;
	int nchains;
	int nanswers;
	bool has_rows; /* another dimension may stand before ROWS */
	struct slice inputs;
	struct slice init;    /* arguments of __init__; empty: there is none */
	struct slice params;  /* statements of __init__ */
	struct slice args;    /* of forward */
	struct slice forward; /* its statements */
};

/* All families, in the order of the text. *out has *count of them and is the caller's to free; the
 * slices point into the program. An error in the text names its line: the text is ours, so it ends
 * the program. */
void families_read(struct family **out, size_t *count);

/* The next word of *rest up to one of `ends` (with blanks around it taken
 * off); empty at the end. */
struct slice template_word(struct slice *rest, const char *ends);
#endif
