/* guided_internal: what the search for guided inputs knows (guided.h), and
 * what its files ask of it:
 *
 *   guided_sites.c    what trials showed of a candidate's comparisons, and which sides are searched
 *   guided_step.c     the search: recipes, steps, single numbers and single elements
 *   guided_poles.c    where operations give no finite number
 *   guided_missed.c   inputs for what launches left out
 *   guided_report.c   what no trial reached, for the record */
#ifndef HONE_VERIFY_GUIDED_INTERNAL_H
#define HONE_VERIFY_GUIDED_INTERNAL_H
#include "verify/guided.h"
#include "base/base.h"
#include "runner/runner.h"
#include "tape/tape.h"
#include "vm/vm.h"
#include <jansson.h>

#define SAME 1e-6   /* relative distance of two trials that stopped at one bound */
#define NEARER 0.95 /* a step that leaves this part of a distance is worth another */

/* Of what is put into inputs: sums of such numbers are finite in any order. -1e30, which many
 * kernels begin a maximum with, lies beyond. */
#define VALUE_MAX 0x1p99

/* Of the ladder: up to lone values; before rows far out; before the inputs one by one. */
enum { STEPS_FIRST = 5, STEPS_GROWN = 8, STEPS_ALL = 10 };
enum { SIDES = 3 };
static const uint8_t SIDE_OF[SIDES] = {SIDE_BELOW, SIDE_EQUAL, SIDE_ABOVE};

struct side_state {
	double best;     /* nearest value of d so far */
	double at_first; /* its distance when the search began */
	int times;       /* trials that stopped there */
	bool is_seen;
};
struct site_state {
	struct runner_site site;
	struct side_state sides[SIDES];
	uint8_t aimed[SIDES]; /* searches of single elements that each had */
	bool is_known_before; /* an earlier variant has a site at this place */
	bool is_tried;        /* a pole: it was searched for */
	bool is_met;          /* and found */
};
struct guided {
	int searches;                  /* recipes so far: numbers of their seeds */
	bool has_gpu;                  /* which replays what the vm has passed */
	int lost[ORACLE_VARIANTS_MAX]; /* line at which digits were lost in the trials so far; 0: none */
	struct {
		int n;
		struct site_state *sites;
		int gate_line; /* of a gate that no trial has opened (vm.h); 0: none */
		bool gate_matters;
	} variants[ORACLE_VARIANTS_MAX];
	int nplaced; /* elements that the last trial's aims found */
	struct runner_placed *placed;
	int nmissed; /* elements that the launches of some variant's first trial did not use */
	int missed_variant;
	struct runner_missed *missed;
	int nsmall; /* numbers next to nothing that they add to data */
	double small[VM_SMALL_MAX];
};

/* ---- sites ---- */

/* Whether nothing took this side of a site yet. */
bool site_is_open(const struct runner_site *s, int side);
/* How far d is from a side: 0 when it is reached. */
double site_distance(const struct runner_site *s, int side, double d);
/* Whether it is a condition of several comparisons, which has no distance. */
bool site_is_truth(const struct runner_site *s);
/* Whether no trial came to it, and a GPU may. */
bool site_is_unreached(const struct guided *s, const struct site_state *st);
/* Several comparisons that were never true (or false) together. */
bool truth_is_open(const struct site_state *st);
/* Whether a side is open, was approached, and no bound showed before it. */
bool side_is_searched(const struct site_state *st, int side);
/* Whether single elements are searched that take it. */
bool side_is_aimed(const struct site_state *st, int side);
/* Whether single elements are searched at which an operation is at its pole. */
bool pole_is_aimed(const struct site_state *st);
/* Of a variant: whether any side is searched for at step k of the ladder;
 * whether any is aimed at. */
bool guided_has_searched(const struct guided *s, int variant, int k);
bool guided_has_aimed(const struct grading *g, int variant);
/* The line of a variant's shut gate; 0: none. */
int guided_gate_line(const struct guided *s, int variant);

/* ---- single elements ---- */

/* How many programs and replays a search of single elements has, for aims that were put in. None
 * is left where too few replays would be. */
void guided_aims_allow(const struct grading *g, const struct tape *t, struct runner_trial *out);
/* An edit's list of places with what a search found: inputs by number, parameters by the
 * reference's name. aim: of this one alone; -1: of all. */
json_t *guided_places(const json_t *before, const struct guided *s, int aim, const struct oracle_trial *t);

/* What a trial's inputs are, but for the recipe: the number that they are drawn by, and places. */
struct guided_inputs {
	int number;
	json_t *at;
};

/* ---- poles ---- */

/* from: what aims found; it is changed to other inputs where the reference is not finite there.
 * GRADE_ON, or GRADE_END when the candidate is wrong at one. */
int guided_poles_search(struct grading *g, struct oracle_session *session, const struct trace *tr, int variant,
	struct guided_inputs *from, struct err *err);

/* ---- what launches left out ---- */

/* Which input, by number, or which parameter, by the reference's name; NULL: none that it knows. */
json_t *guided_whose(int input, int64_t param_offset, const struct runner_given *params, int nparams);
/* Trials with what launches did not use above and below all else, and trials with data next to
 * nothing. GRADE_ON, or GRADE_END when the candidate is wrong on one. */
int guided_missed_search(struct grading *g, struct oracle_session *session, const struct trace *tr, struct err *err);
int guided_small_search(struct grading *g, struct oracle_session *session, const struct trace *tr, struct err *err);
#endif
