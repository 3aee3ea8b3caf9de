/* Tasks drawn from a family of templates, and tasks of a rung, which are drawn from a family or are
 * expression graphs. Private to the room. */
#ifndef HONE_TASK_FAMILY_H
#define HONE_TASK_FAMILY_H
#include "base/base.h"
#include "task/task_graph.h"
#include "task/task_template.h"

/* One task of a family: what was drawn. */
struct family_task {
	const struct family *family;
	int sizes[FAMILY_DIMS_MAX];                  /* of the family's dims */
	int rows[FAMILY_PICKS_MAX];                  /* which row of each pick */
	struct slice consts[FAMILY_LISTS_MAX];       /* the value of each constant */
	struct task_graph chains[FAMILY_CHAINS_MAX]; /* one input, the variable, and operators on it */
};
/* Deterministic in (family, seed). */
void family_compose(const struct family *f, uint64_t seed, struct family_task *out);
void family_source(const struct family_task *t, struct str *out);
bool family_is_name_byte(char c); /* a letter, digit or underscore: of a name in Python */
/* What it computes, in words, as a plan begins. */
void family_says(const struct family_task *t, struct str *out);
void family_structure(const struct family_task *t, struct str *out);
/* The answer with that number, in order of choice: 0 is the one whose condition holds for the
 * task's sizes. NULL behind the last. */
const struct family_answer *family_choice(const struct family_task *t, int choice);
void family_plan(const struct family_task *t, int number, int choice, struct str *out);
/* The candidate without its imports. number: of the style, which takes the tuned values in turn. */
void family_code(
	const struct family_task *t, const struct answer_style *style, int number, int choice, struct str *out);

/* ---- rungs (task_rung.c) ---- */

#define RUNG_COUNT 5   /* "T0" to "T4" */

/* A composed task: a graph, or a draw from a family. */
struct composed {
	bool is_graph;
	int level;
	int rung;
	uint64_t seed; /* of a rung's task, whose manner it draws; else 0 */
	struct task_graph graph;
	struct family_task family;
};
struct composer_room; /* the families, read once */
struct composer_room *composer_open(void);
void composer_close(struct composer_room *r);
int rung_find(struct slice name); /* -1 when there is none */
const char *rung_name(int rung);
/* Deterministic in (rung, seed): a graph of large sizes, or a task of one
 * of the rung's families. */
void rung_compose(const struct composer_room *r, int rung, uint64_t seed, struct composed *out);
void composed_source(const struct composed *c, struct str *out);
/* Writes a reference in another manner that means the same (task_manner.c). says: what the module
 * computes, in words; NULL: nothing. has_rows: another dimension may stand before ROWS. */
void manner_draw(struct str *source, const char *says, bool has_rows, uint64_t seed);
void composed_structure(const struct composed *c, struct str *out);
#endif
