/* The rules are rows of a table: which metric, above what, and whether it ends the run. */
#include "rl/rl_guard.h"
#include "base/base.h"

#include <math.h>
#include <stdarg.h>
#include <stdlib.h>

struct rule {
	const char *name;   /* in the log and among a step's alarms */
	const char *metric; /* of the step */
	size_t threshold;   /* offset of a double in guard_options; SIZE_MAX: above 0 */
	bool is_stop;       /* the run ends; else it is told */
	bool is_fall;       /* broken below so much of the best mean so far; else above the threshold */
	const char *what;   /* for people */
};
#define AT(field) offsetof(struct guard_options, field)
static const struct rule rules[] = {
	{"not-finite", "guard/not_finite", SIZE_MAX, true, false, "gradients are not finite and updates are skipped"},
	{"spikes", "guard/spikes", SIZE_MAX, true, false, "gradient norms keep leaping over max_grad_ratio"},
	{"gap", "sampling/trained_logp_difference/mean", AT(gap), false, false, "sampler and trainer disagree"},
	{"kl", "kl", AT(kl), false, false, "the policy is far from its reference"},
	{"degenerate", "completions/degenerate_ratio", AT(degenerate), false, false, "answers go in circles"},
	{"hack", "hack", AT(hack), false, false, "answers cheat (hack/REASON says how)"},
	{"truncation", "completions/clipped_ratio", AT(clipped), false, false, "answers are cut by length"},
	{"collapse", "paid", AT(collapse), true, true,
		"hardly an answer is paid any more; an earlier checkpoint may be sound"},
	{"format", "completions/malformed_ratio", AT(malformed), false, false,
		"answers have no plan and closed code block"},
};
_Static_assert(ARRAY_LEN(rules) == GUARD_RULES, "a streak for each rule");

void guard_init(struct guard *g, const struct guard_options *o) { *g = (struct guard){.o = *o}; }

static double threshold_of(const struct guard *g, const struct rule *r)
{
	double x = 0;
	if (r->threshold != SIZE_MAX) memcpy(&x, (const char *)&g->o + r->threshold, sizeof x);
	return x;
}

/* A policy that was ruined: next to nothing is paid where at least a handful was to be expected. */
static bool has_fallen(const struct guard *g, double limit, const json_t *value, const json_t *metrics)
{
	enum { EXPECTED_MIN = 8 };
	double answers = json_number_value(json_object_get(metrics, "answers"));
	return json_is_number(value) && g->best_paid * answers >= EXPECTED_MIN &&
		json_number_value(value) < limit * g->best_paid;
}

static bool is_broken(const struct guard *g, const struct rule *r, const json_t *metrics)
{
	const json_t *value = json_object_get(metrics, r->metric);
	double limit = threshold_of(g, r);
	if (r->threshold != SIZE_MAX && limit <= 0) return false; /* switched off */
	if (r->is_fall) return has_fallen(g, limit, value, metrics);
	/* null is a number that was not finite */
	return value && (json_is_null(value) || json_number_value(value) > limit);
}

static void stop(struct guard *g, int64_t step, const char *name, const char *what)
{
	if (g->stops || g->o.action != GUARD_STOP) return;
	g->stops = true;
	snprintf(g->why, sizeof g->why, "step %lld: stopped by guard %s: %s", (long long)step, name, what);
}

/* The dev rate below its best while the reward is above what it was there: the policy learns what
 * the training prompts pay and not what was meant. Returns whether this step was evaluated. */
static bool dev_add(struct guard *g, int64_t step, const json_t *metrics)
{
	const json_t *dev = json_object_get(metrics, "eval/genuine");
	if (!json_is_number(dev)) return false;
	double now = json_number_value(dev);
	if (!g->best_step || now > g->best_dev) {
		g->best_step = step;
		g->best_dev = now;
		g->reward_at_best = g->reward;
		g->bad_evals = 0;
	} else {
		g->bad_evals = now < g->best_dev && g->reward > g->reward_at_best ? g->bad_evals + 1 : 0;
	}
	return true;
}

/* Behind the rules, so that a step is held against those before it. */
static void paid_add(struct guard *g, const json_t *metrics)
{
	const json_t *paid = json_object_get(metrics, "paid");
	if (!json_is_number(paid)) return; /* a run of before there was this metric */
	g->paid_steps++;
	g->paid += (json_number_value(paid) - g->paid) / (double)MIN(g->paid_steps, 10);
	g->best_paid = fmax(g->best_paid, g->paid);
}

/* Several alarms may begin with one step: each is said, behind those before it. */
static void say(char *begins, size_t size, int64_t step, const char *name, const char *fmt, ...)
	__attribute__((format(printf, 5, 6)));
static void say(char *begins, size_t size, int64_t step, const char *name, const char *fmt, ...)
{
	char text[192];
	size_t used = begins ? strlen(begins) : 0;
	va_list ap;
	if (!begins) return;
	va_start(ap, fmt);
	vsnprintf(text, sizeof text, fmt, ap);
	va_end(ap);
	if (!used) snprintf(begins, size, "step %lld: guard %s: %s", (long long)step, name, text);
	else snprintf(begins + used, size - used, "; guard %s: %s", name, text);
}

void guard_add(struct guard *g, int64_t step, const json_t *metrics, json_t *alarms, char *begins, size_t begins_size)
{
	static const char dev_falls[] =
		"the reward rises and the dev rate falls; best/ has the weights of the best evaluation";
	if (begins) *begins = 0;
	/* The best evaluation is known whether or not anybody wants alarms: its weights are kept. */
	double reward = json_number_value(json_object_get(metrics, "reward"));
	g->steps++;
	g->reward += (reward - g->reward) / (double)MIN(g->steps, 10);
	bool is_evaluated = dev_add(g, step, metrics);
	if (g->o.action == GUARD_OFF) return;
	for (size_t i = 0; i < ARRAY_LEN(rules); i++) {
		g->streak[i] = is_broken(g, &rules[i], metrics) ? g->streak[i] + 1 : 0;
		if (g->streak[i] < g->o.patience) continue;
		if (alarms) json_array_append_new(alarms, json_string(rules[i].name));
		if (rules[i].is_stop) stop(g, step, rules[i].name, rules[i].what);
		if (g->streak[i] == g->o.patience)
			say(begins, begins_size, step, rules[i].name, "%s (%s) for %d %s", rules[i].what, rules[i].metric,
				g->o.patience, plural(g->o.patience, "step", "steps"));
	}
	paid_add(g, metrics);
	/* The dev rate, which has no row of its own: between two evaluations its alarm lasts. */
	if (g->o.eval_patience <= 0 || g->bad_evals < g->o.eval_patience) return;
	if (alarms) json_array_append_new(alarms, json_string("dev-falls"));
	stop(g, step, "dev-falls", dev_falls);
	if (is_evaluated && g->bad_evals == g->o.eval_patience)
		say(begins, begins_size, step, "dev-falls", "%s", dev_falls);
}

bool guard_is_best(const struct guard *g, int64_t step) { return g->best_step == step; }

/* ---- text that goes in circles ---- */

enum { WINDOW = 8 };

static uint64_t window_hash(const int32_t *t)
{
	uint64_t h = 0xcbf29ce484222325;
	for (int k = 0; k < WINDOW; k++) h = (h ^ (uint32_t)t[k]) * 0x100000001b3;
	return h;
}

static int by_value(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
	return (x > y) - (x < y);
}

double degenerate_share(const int32_t *tokens, int count)
{
	int n = count - WINDOW + 1, again = 0;
	if (n < 2) return 0;
	uint64_t *h = xmalloc((size_t)n * sizeof *h);
	for (int i = 0; i < n; i++) h[i] = window_hash(tokens + i);
	qsort(h, (size_t)n, sizeof *h, by_value);
	for (int i = 1; i < n; i++) again += h[i] == h[i - 1];
	free(h);
	return (double)again / n;
}
