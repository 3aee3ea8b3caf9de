/* Rewards: one table, a row a rule. C is 1 for a genuine verdict and 0 for any other, s the speedup
 * after clipping and noise band. Formulas and their sources: docs/rewards.md. Wrong and cheating
 * answers earn the same: a larger penalty flattens the differences among the rest of the group
 * under mean/std advantages (the paper's rows keep their -10 to be compared with). A
 * mid-end's answer that is slower than the kernel it was given earns what a failure
 * does, whatever the row. */
#include "agent/agent.h"
#include "base/base.h"
#include "verify/verdict.h"

#include <math.h>

/* The cost model's own granularity: padding and masking differences move s by 1-2 % without being a
 * better kernel. */
#define NOISE_BAND 0.02

static double only_genuine(const struct reward_rule *r, bool genuine, double s) { return genuine ? 1.0 : r->failure; }
static double genuine_speedup(const struct reward_rule *r, bool genuine, double s) { return genuine ? s : r->failure; }
static double genuine_plus_speedup(const struct reward_rule *r, bool genuine, double s)
{
	return genuine ? r->beta + r->alpha * s : r->failure;
}

/* s is a gain here: -1 for a kernel that is slower than the one that was given. */
static double genuine_gain(const struct reward_rule *r, bool genuine, double s)
{
	return genuine && s >= 0 ? r->beta + r->alpha * s : r->failure;
}

static const struct reward_rule rules[] = {
	{"frontend", only_genuine, only_genuine, .speedup_clip = 3.0, .formula = "C"},
	{"hrd", genuine_speedup, only_genuine, .is_split = true, .alpha = 0.1, .speedup_clip = 3.0,
		.formula = "plan: C clip(s, 0, clip), weighted by alpha; code: C"},
	{"uniform", genuine_plus_speedup, genuine_plus_speedup, .alpha = 1, .beta = 0.3, .speedup_clip = 3.0,
		.formula = "C (beta + alpha clip(s, 0, clip))"},
	{"paper-frontend", only_genuine, only_genuine, .failure = -10, .formula = "1 if C, else -10"},
	{"paper-midend", genuine_plus_speedup, genuine_plus_speedup, .alpha = 1, .beta = 1, .failure = -10,
		.is_against_reference = true, .pays_slower = true,
		.formula = "beta + alpha reference / kernel (raw) if C, else -10"},
	{"tritonrl", genuine_speedup, only_genuine, .is_split = true, .alpha = 0.1, .speedup_clip = 2.0,
		.formula = "plan: C clip(s, 0, clip), weighted by alpha; code: C (TritonRL v2)"},
	{"kevin", genuine_plus_speedup, genuine_plus_speedup, .alpha = 1, .beta = 0.3,
		.formula = "C (beta + alpha s) (Kevin)"},
	{"midend", genuine_gain, genuine_gain, .alpha = 1, .beta = 0.1, .speedup_clip = 10, .is_gain = true,
		.formula = "C (beta + alpha gain), 0 for a kernel slower than the one given; gain: the mean of clip(given / "
				   "kernel) - 1 and clip(reference / kernel) - clip(reference / given)"},
	{"stock", only_genuine, only_genuine, .is_stock = true,
		.formula = "1 if KernelBench's own check passes, else 0: to see what is learnt to pass it"},
};

const struct reward_rule *reward_rule_find(const char *name)
{
	for (size_t i = 0; i < ARRAY_LEN(rules); i++)
		if (!strcmp(rules[i].name, name)) return &rules[i];
	return NULL;
}

int reward_rule_set(struct reward_rule *rule, const char *name, double alpha, double beta, double clip, struct err *err)
{
	const struct reward_rule *row = reward_rule_find(name);
	if (!row) {
		struct str known = {0};
		for (size_t i = 0; i < ARRAY_LEN(rules); i++) str_printf(&known, "%s%s", i ? ", " : "", rules[i].name);
		err_set(err, ERR_USAGE, "--reward %.60s is unknown; known are %s", name, known.data);
		str_release(&known);
		return err->code;
	}
	*rule = *row;
	const struct {
		const char *name;
		double given;  /* the option's value; negative: the row's own stays */
		double *field; /* of the rule that is made */
		bool is_known;
	} constants[] = {
		{"alpha", alpha, &rule->alpha, row->alpha != 0},
		{"beta", beta, &rule->beta, row->beta != 0},
		/* a row without speed has nothing to clip */
		{"clip", clip, &rule->speedup_clip, row->plan != only_genuine},
	};
	for (size_t i = 0; i < ARRAY_LEN(constants); i++) {
		if (constants[i].given < 0) continue;
		if (!constants[i].is_known)
			return err_set(
				err, ERR_USAGE, "--reward_%s: row %s (%s) has no such constant", constants[i].name, name, row->formula);
		*constants[i].field = constants[i].given;
	}
	return 0;
}

/* By times on a GPU. Against the kernel that was given: both by the same reference, because they
 * were timed in different sessions, and the reference beside each of them. 1 where the interval
 * holds it: a difference that was not seen earns nothing. */
static double measured_speedup(const struct reward_rule *rule, const struct verdict *v, const struct verdict *baseline)
{
	const struct verdict_reference *r = &v->device.references[REFERENCE_EAGER];
	if (!r->is_timed || !r->agrees) return NAN;
	if (rule->is_against_reference) return r->speedup_paper;
	struct verdict_measure s = r->speedup;
	if (baseline) {
		const struct verdict_measure *b = &baseline->device.references[REFERENCE_EAGER].speedup;
		if (!(b->low > 0) || strcmp(baseline->device.name, v->device.name)) return NAN;
		s = (struct verdict_measure){s.value / b->value, s.low / b->high, s.high / b->low};
	}
	return s.low <= 1 && 1 <= s.high ? 1 : s.value;
}

/* At the same sizes, on the same card; a record of before cards were named has none. */
static bool is_timed_alike(const struct verdict *a, const struct verdict *b)
{
	return !strcmp(a->cost_size, b->cost_size) && (!*a->gpu || !*b->gpu || !strcmp(a->gpu, b->gpu));
}

/* By the cost model. */
static double predicted_speedup(const struct reward_rule *rule, const struct verdict *v, const struct verdict *baseline)
{
	const struct verdict *b = rule->is_against_reference ? NULL : baseline;
	/* Against a kernel without a time, or with one of other sizes or another card, nothing is
	 * known; the reference is no stand-in for it. */
	if (b && (!(b->cost_s > 0) || !is_timed_alike(b, v))) return NAN;
	double s = b ? b->cost_s / v->cost_s : v->speedup_fused;
	return fabs(s - 1) <= NOISE_BAND && !rule->is_against_reference ? 1 : s;
}

double reward_speedup(const struct reward_rule *rule, const struct reward_input *in)
{
	const struct verdict *v = in->verdict;
	if (!v || v->class != VERDICT_GENUINE) return 0;
	double s = rule->is_measured ? measured_speedup(rule, v, in->baseline) : predicted_speedup(rule, v, in->baseline);
	if (!isfinite(s) || s < 0) return 0;
	return rule->speedup_clip > 0 ? fmin(s, rule->speedup_clip) : s;
}

/* How many times as fast as the kernel that was given, without a bound; 0: not known. */
static double speedup_over_given(const struct reward_rule *rule, const struct reward_input *in)
{
	struct reward_rule raw = *rule;
	raw.speedup_clip = 0;
	raw.is_against_reference = false;
	return reward_speedup(&raw, in);
}

/* A right kernel that is slower than the one that stood in the prompt, or not known to be as fast,
 * is worth less than nothing done: who is paid for it learns to write frontends' answers. */
static bool is_regression(const struct reward_rule *rule, const struct reward_input *in)
{
	return in->baseline && !rule->pays_slower && in->verdict->class == VERDICT_GENUINE &&
		speedup_over_given(rule, in) < 1;
}

/* Against the kernel that was given, and what that is worth against the reference: two times
 * nothing is little, a step from half of the reference's time to a quarter is much. */
static double reward_gain(const struct reward_rule *rule, const struct reward_input *in)
{
	const struct reward_input now = {.verdict = in->verdict}, before = {.verdict = in->baseline};
	struct reward_rule raw = *rule;
	raw.speedup_clip = 0;
	double over_given = speedup_over_given(rule, in), clip = rule->speedup_clip > 0 ? rule->speedup_clip : INFINITY;
	if (!in->baseline || over_given < 1) return -1;
	if (over_given == 1) return 0;
	double over_reference = fmin(reward_speedup(&raw, &now), clip) - fmin(reward_speedup(&raw, &before), clip);
	return 0.5 * (fmin(over_given, clip) - 1 + fmax(over_reference, 0));
}

enum midend_change midend_change(const struct verdict *given, const struct verdict *found)
{
	if (found->launches < given->launches) return CHANGE_FUSED;
	if ((double)found->bytes < (1 - NOISE_BAND) * (double)given->bytes) return CHANGE_PASSES;
	if (found->programs != given->programs) return CHANGE_BLOCKS;
	return midend_speedup(given, found) == 1 ? CHANGE_NONE : CHANGE_OTHER;
}

const char *midend_change_name(enum midend_change c)
{
#define X(e, t) [e] = t,
	static const char *const names[MIDEND_CHANGE_COUNT] = {MIDEND_CHANGE_TABLE(X)};
#undef X
	return names[c];
}

double midend_speedup(const struct verdict *given, const struct verdict *found)
{
	static const struct reward_rule raw; /* no clip, the cost model's times */
	return predicted_speedup(&raw, found, given);
}

bool reward_compute(const struct reward_rule *rule, const struct reward_input *in, struct reward *out)
{
	if (in->verdict && in->verdict->class == VERDICT_INFRA) return false;
	bool genuine = in->verdict &&
		(rule->is_stock ? in->verdict->kernelbench == 1 : in->verdict->class == VERDICT_GENUINE) &&
		!is_regression(rule, in);
	double s = rule->is_gain ? reward_gain(rule, in) : reward_speedup(rule, in);
	*out = (struct reward){rule->plan(rule, genuine, s), rule->code(rule, genuine, s)};
	return true;
}
