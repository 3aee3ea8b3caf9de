/* Rewards: one table, a row a rule. C is 1 for a genuine verdict and 0 for any other, s the speedup
 * after clipping and noise band. Formulas and their sources: docs/rewards.md. Wrong and cheating
 * answers earn the same: a larger penalty flattens the differences among the rest of the group
 * under mean/std advantages (the paper's rows keep their -10 to be compared with). */
#include "agent/agent.h"
#include "base/base.h"
#include "verify/verdict.h"

#include <math.h>

#define NOISE_BAND 0.02   /* the cost model's own granularity: padding and masking differences move s by 1-2 % without being a better kernel */

static double only_genuine(bool genuine, double s)
{
	(void)s;
	return genuine ? 1.0 : 0.0;
}
static double genuine_speedup(bool genuine, double s) { return genuine ? s : 0.0; }
static double genuine_plus_speedup(bool genuine, double s) { return genuine ? 0.3 + s : 0.0; }
static double minus_ten_or_one(bool genuine, double s)
{
	(void)s;
	return genuine ? 1.0 : -10.0;
}
static double minus_ten_or_one_plus(bool genuine, double s) { return genuine ? 1.0 + s : -10.0; }

static const struct reward_rule rules[] = {
	{"frontend", only_genuine, only_genuine, false, 1.0, 3.0, false, "C"},
	{"hrd", genuine_speedup, only_genuine, true, 0.1, 3.0, false, "plan: C clip(s, 0, 3); code: C; alpha 0.1"},
	{"uniform", genuine_plus_speedup, genuine_plus_speedup, false, 1.0, 3.0, false, "C (0.3 + clip(s, 0, 3))"},
	{"paper-frontend", minus_ten_or_one, minus_ten_or_one, false, 1.0, 0.0, false, "1 if C, else -10"},
	{"paper-midend", minus_ten_or_one_plus, minus_ten_or_one_plus, false, 1.0, 0.0, true,
		"1 + reference / kernel (raw) if C, else -10"},
	{"tritonrl", genuine_speedup, only_genuine, true, 0.1, 2.0, false,
		"plan: C clip(s, 0, 2); code: C; alpha 0.1 (TritonRL v2)"},
	{"kevin", genuine_plus_speedup, genuine_plus_speedup, false, 1.0, 0.0, false, "C (0.3 + s) (Kevin)"},
};

const struct reward_rule *reward_rule_at(int i) { return i >= 0 && (size_t)i < ARRAY_LEN(rules) ? &rules[i] : NULL; }

const struct reward_rule *reward_rule_find(const char *name)
{
	for (size_t i = 0; i < ARRAY_LEN(rules); i++)
		if (!strcmp(rules[i].name, name)) return &rules[i];
	return NULL;
}

double reward_speedup(const struct reward_rule *rule, const struct reward_input *in)
{
	const struct verdict *v = in->verdict;
	if (!v || v->class != VERDICT_GENUINE) return 0;
	double s = in->baseline_cost_s > 0 && !rule->is_against_reference ? in->baseline_cost_s / v->cost_s : v->speedup;
	if (!isfinite(s) || s < 0) return 0;
	if (fabs(s - 1) <= NOISE_BAND && !rule->is_against_reference) s = 1;
	return rule->speedup_clip > 0 ? fmin(s, rule->speedup_clip) : s;
}

bool reward_compute(const struct reward_rule *rule, const struct reward_input *in, struct reward *out)
{
	if (in->verdict && in->verdict->class == VERDICT_INFRA) return false;
	bool genuine = in->verdict && in->verdict->class == VERDICT_GENUINE;
	double s = reward_speedup(rule, in);
	*out = (struct reward){rule->plan(genuine, s), rule->code(genuine, s)};
	return true;
}
