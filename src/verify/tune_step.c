/* tune_step: the configurations of a candidate's autotuners, each timed on the GPU,
 * where Triton would time them.
 *
 * Triton's autotuner runs inside the candidate's process and shows it times. Here the tracer says
 * how many configurations survived an autotuner's pruning, and launches the one that it is told;
 * the tapes are timed by the runner, and the candidate is judged from the start with the fastest.
 * All that its host code learns is which configuration it launches. What was chosen among the same
 * programs on the same kind of card before is chosen again (choice_cache.h), so times are taken
 * once, and values are compared every time.
 *
 * Another card, or a busier one, would choose otherwise, so a configuration that gives other values
 * than it should is wrong whether or not it was chosen here: each is compared on the trials of the
 * judged sizes. What does not compile, or does not fit the card, is no choice, as in Triton. An
 * autotuner is chosen for one key at a time, the first launched first; at other sizes than the
 * judged ones the choice for its first key holds. */
#include "verify/gpu_steps.h"
#include "base/base.h"
#include "runner/runner.h"
#include "tape/tape.h"
#include "verify/measure.h"
#include <math.h>
#include <stdlib.h>

#define SPANS 9              /* of a configuration; their middle decides */
#define CONFIGS_MAX 32       /* of one autotuner that are tried */
#define TUNE_MS 20000        /* after which nothing more is tried */
#define BUDGET_SHARE 3 / 4   /* of the candidate's compilations, so that its choice can still be judged */
#define LEAST_GAIN 0.99      /* a choice takes less than so much of the time of the one before it */

struct spans {
	double seconds[SPANS];
	int n;
};

static int next(void *ctx, int64_t ns, enum runner_clock *question, struct err *err)
{
	struct spans *s = ctx;
	if (ns > 0 && s->n < SPANS) s->seconds[s->n++] = 1e-9 * (double)ns;
	*question = s->n < SPANS ? RUNNER_SPAN : RUNNER_END;
	return 0;
}

/* The tape's time, NaN where it has none, with its outputs compared. is_alone: nobody else is known
 * to have computed on the GPU meanwhile. */
static int tape_time(struct grading *g, const struct trace *tr, const struct oracle_trial *t, double *seconds,
	bool *is_alone, struct err *err)
{
	struct spans s = {.n = 0};
	struct runner_asker asker = {next, &s};
	struct attempt_result r;
	char text[512] = "", trial[400];
	double worst = NAN;
	*seconds = NAN;
	int rc = gpu_start(g, tr, err);
	if (!rc) rc = gpu_replay(g, &(struct attempt){.trace = tr, .trial = t, .asker = &asker}, &r, err);
	if (rc) return rc;
	*is_alone = r.seen.activity <= 0;
	if (gpu_outputs_differ(t, &r, &worst, text, sizeof text)) {
		attempt_text(g, t, trial, sizeof trial);
		rc = grade_end(
			g, VERDICT_WRONG, STAGE_CORRECTNESS, attempt_reason(t, "gpu-mismatch"), 0, "%s: %s", trial, text);
	} else {
		*seconds = measure_median(s.seconds, s.n).value;
	}
	attempt_release(&r);
	return rc;
}

/* The trials of the judged sizes, values alone; what a GPU is excused for holds
 * here too (gpu_cause.c). */
static int config_compare(struct grading *g, const struct trace *tr, uint64_t until, struct err *err)
{
	int rc = GRADE_ON;
	for (int i = 0; i < g->oracle->ntrials && rc == GRADE_ON && clock_ns() < until; i++) {
		const struct oracle_trial *t = &g->oracle->trials[i];
		if (t->counts && t->variant == 0) rc = gpu_guided(g, tr, t, err);
	}
	return rc;
}

/* The choices with one more, for its key and, where it is the kernel's first, for all keys
 * that nothing is said of. */
static json_t *choices_with(json_t *choices, const char *label, int config)
{
	json_t *out = json_deep_copy(choices);
	char kernel[VERDICT_TUNED_LABEL];
	snprintf(kernel, sizeof kernel, "%.*s", (int)strcspn(label, "("), label);
	if (!json_object_get(out, kernel)) json_object_set_new(out, kernel, json_integer(config));
	json_object_set_new(out, label, json_integer(config));
	return out;
}

/* The candidate's tape with these choices, on which autotuner i has this configuration: GRADE_ON
 * and a tape, or GRADE_END where there is none. */
static int tape_with(struct grading *g, json_t *choices, int i, int config, struct trace *out, struct err *err)
{
	json_t *job = json_pack("{s:O}", "choices", choices);
	int rc = trace_sized_step(g, job, out, err);
	json_decref(job);
	int row;
	/* With this one torch computes: nothing that a runner can run. */
	if (!rc && tape_lineage_static(out->tape, &row) != TAPE_LINEAGE_OK) rc = GRADE_END;
	if (!rc && (i >= out->ntuned || out->tuned[i].chosen != config)) rc = GRADE_END;
	return rc;
}

/* What a configuration that ends a verdict is: wrong values and faults stand, named;
 * the rest is no choice. */
static int config_judge(struct grading *g, const struct tuned *t, int config, const struct verdict *was)
{
	static const char VM[] = "right on the vm, but not on the GPU, for "; /* the vm ran another configuration */
	char detail[sizeof g->v->detail], reason[sizeof g->v->reason];
	if (g->v->class != VERDICT_WRONG) {
		*g->v = *was;
		return GRADE_ON;
	}
	bool is_gpus = !strncmp(g->v->detail, VM, sizeof VM - 1);
	snprintf(detail, sizeof detail, "%s", g->v->detail + (is_gpus ? sizeof VM - 1 : 0));
	snprintf(reason, sizeof reason, "%s", g->v->reason);
	return grade_end(g, VERDICT_WRONG, STAGE_CORRECTNESS, reason, g->v->line,
		"in configuration %d of %d of the autotuner of %s, which a GPU may choose: %.700s", config + 1, t->configs,
		t->label, detail);
}

/* One autotuner while it is tuned. */
struct tuning {
	const struct trace *stock;
	int at;                                  /* of the stock tape's autotuners */
	uint64_t until;                          /* after which nothing more is tried */
	bool is_late;                            /* something was not tried */
	bool is_alone;                           /* what was timed was timed without others on the GPU */
	struct sha256_hex programs[CONFIGS_MAX]; /* what each configuration makes; "": it is no choice */
};

static bool is_time_up(const struct grading *g, const struct tuning *t)
{
	return clock_ns() > t->until || g->compile_ms > g->s->limits.compile_timeout_ms * BUDGET_SHARE || !g->has_tracer;
}

/* Configuration c is traced, and compared on all trials, with the choices of the autotuners before
 * it in force. What is right may be chosen; a tape that is the stock one again says nothing new. */
static int config_try(struct grading *g, struct tuning *t, int c, struct verdict *was, struct err *err)
{
	const struct tuned *tuned = &t->stock->tuned[t->at];
	struct trace tr = {0};
	json_t *choices = choices_with(g->choices, tuned->label, c);
	*was = *g->v;
	int rc = tape_with(g, choices, t->at, c, &tr, err);
	bool is_stock = !rc && !strcmp(tr.tape->hash.text, t->stock->tape->hash.text);
	if (!rc && !is_stock) rc = config_compare(g, &tr, t->until, err);
	if (!rc && (c == tuned->chosen || !is_stock)) t->programs[c] = tape_program_hash(tr.tape);
	if (rc == GRADE_END) rc = config_judge(g, tuned, c, was);
	else if (!rc) *g->v = *was; /* its trials are none of the judged configuration's */
	json_decref(choices);
	trace_release(&tr);
	return rc;
}

/* Its time; NaN where there is none. */
static int config_time(
	struct grading *g, struct tuning *t, int c, struct verdict *was, double *seconds, struct err *err)
{
	const struct tuned *tuned = &t->stock->tuned[t->at];
	struct trace tr = {0};
	bool is_alone = true;
	json_t *choices = choices_with(g->choices, tuned->label, c);
	*seconds = NAN;
	*was = *g->v;
	int rc = tape_with(g, choices, t->at, c, &tr, err);
	if (!rc) rc = tape_time(g, &tr, oracle_first_trial(g->oracle), seconds, &is_alone, err);
	t->is_alone &= is_alone;
	if (rc == GRADE_END) rc = config_judge(g, tuned, c, was);
	else if (!rc) *g->v = *was;
	json_decref(choices);
	trace_release(&tr);
	return rc;
}

/* The fastest, by their times in one session. */
static int choose(struct grading *g, struct tuning *t, struct verdict *was, struct choice *out, struct err *err)
{
	const struct tuned *tuned = &t->stock->tuned[t->at];
	double seconds = NAN;
	*out = (struct choice){tuned->chosen, NAN, NAN};
	int rc = config_time(g, t, tuned->chosen, was, &out->first_s, err);
	out->chosen_s = out->first_s;
	for (int c = 0; c < MIN(tuned->configs, CONFIGS_MAX) && rc == GRADE_ON; c++) {
		if (c == tuned->chosen || !t->programs[c].text[0]) continue;
		t->is_late |= is_time_up(g, t);
		if (t->is_late) break;
		rc = config_time(g, t, c, was, &seconds, err);
		if (rc || !(seconds < out->chosen_s * LEAST_GAIN)) continue;
		out->config = c;
		out->chosen_s = seconds;
	}
	return rc;
}

/* One autotuner: every configuration is compared, and the fastest is chosen, by an earlier verdict
 * where it was among the same programs. */
static int tune(struct grading *g, const struct trace *stock, int i, uint64_t until, struct err *err)
{
	struct tuning t = {.stock = stock, .at = i, .until = until, .is_alone = true};
	const struct tuned *tuned = &stock->tuned[i];
	struct verdict_tuned *said = &g->v->device.tuned[i];
	struct verdict *was = xmalloc(sizeof *was);
	int rc = GRADE_ON, n = MIN(tuned->configs, CONFIGS_MAX);
	*said = (struct verdict_tuned){.configs = tuned->configs, .chosen = tuned->chosen, .first_s = NAN, .chosen_s = NAN};
	snprintf(said->label, sizeof said->label, "%s", tuned->label);
	text_make_printable(said->label);
	for (int c = 0; c < n && rc == GRADE_ON; c++) {
		t.is_late |= is_time_up(g, &t);
		if (!t.is_late) rc = config_try(g, &t, c, was, err);
	}

	/* What was not tried in time, or beside others, is no choice for later verdicts. */
	struct choice choice = {tuned->chosen, NAN, NAN};
	struct sha256_hex key = choice_key(tuned->label, t.programs, n, &g->on->device, g->s->versions);
	said->is_kept = !rc && choice_cache_get(g->s->choices, &key, &choice) && choice.config < n &&
		t.programs[choice.config].text[0];
	if (!rc && !said->is_kept) rc = choose(g, &t, was, &choice, err);
	bool is_worth_keeping = !t.is_late && t.is_alone && choice.first_s > 0;
	if (!rc && !said->is_kept && is_worth_keeping) choice_cache_keep(g->s->choices, &key, &choice);
	if (!rc) {
		said->chosen = choice.config;
		said->first_s = choice.first_s;
		said->chosen_s = choice.chosen_s;
	}
	/* The next autotuner is timed with this one as it is chosen. */
	if (!rc && said->chosen != tuned->chosen) {
		json_t *choices = choices_with(g->choices, tuned->label, said->chosen);
		json_decref(g->choices);
		g->choices = choices;
	}
	free(was);
	return rc;
}

int tune_step(struct grading *g, const struct trace *stock, struct err *err)
{
	struct verdict_device *d = &g->v->device;
	uint64_t until = deadline_in_ms(TUNE_MS);
	int rc = GRADE_ON;
	if (!stock->ntuned || !oracle_first_trial(g->oracle)) return GRADE_ON;
	g->choices = json_object();
	for (int i = 0; i < stock->ntuned && !rc; i++) {
		rc = tune(g, stock, i, until, err);
		d->ntuned = i + 1;
	}
	if (!rc && json_object_size(g->choices)) return GRADE_TUNED;
	json_decref(g->choices);
	g->choices = NULL;
	return rc;
}
