/* Guards: rules over the metrics of steps that say when a run goes wrong. A fold over the rows of
 * the store, as rl_history: a continued run has the same streaks, alarms and stops.
 *
 *   alarm   said once when it begins, and named in the step's metrics for as long as it lasts
 *   stop    the run ends after this step as if it were its last: checkpoint, final/, a message */
#ifndef HONE_RL_GUARD_H
#define HONE_RL_GUARD_H
#include "rl/rl.h"

enum guard_action { GUARD_OFF, GUARD_WARN, GUARD_STOP };
struct guard_options {
	enum guard_action action; /* warn: what would stop is an alarm */
	int patience;             /* steps in a row until an alarm begins or a stop is due */
	int eval_patience;        /* evaluations in a row on dev below the best one until a stop is due */
	double gap;               /* thresholds of alarms, as the next five; 0: off */
	double kl;
	double degenerate;
	double hack;
	double clipped;
	double malformed;
	double collapse; /* least share of the best mean of what is paid; 0: off */
};
enum { GUARD_RULES = 9 };
struct guard {
	struct guard_options o;
	int streak[GUARD_RULES]; /* steps in a row in which the rule was broken */
	double reward;           /* decaying mean over steps */
	int64_t steps;
	double paid;        /* decaying mean over steps of the share of answers that are paid */
	double best_paid;   /* the most that it was */
	int64_t paid_steps; /* that had such a share */
	double best_dev;
	double reward_at_best;
	int64_t best_step; /* 0: no evaluation yet */
	int bad_evals;
	bool stops;
	char why[256]; /* of the stop */
};
void guard_init(struct guard *g, const struct guard_options *o);
/* Folds one step's metrics; fills `alarms` (an array, may be NULL) with the names of rules that are
 * in alarm now. *begins (may be NULL) is the text of all that began with this step, or "". */
void guard_add(struct guard *g, int64_t step, const json_t *metrics, json_t *alarms, char *begins, size_t begins_size);
/* Whether this step's evaluation is the best one so far. */
bool guard_is_best(const struct guard *g, int64_t step);
/* Share of an answer's windows of 8 tokens that occurred in it before: text that goes in circles is
 * near 1. */
double degenerate_share(const int32_t *tokens, int count);
#define DEGENERATE_FROM 0.5   /* an answer with at least this share counts as degenerate */
#endif
