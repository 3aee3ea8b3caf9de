/* From verdicts to what an answer teaches: its reward, with turns the value of what came behind it,
 * and its advantage among the answers to the same prompt. */
#include "rl/rl_internal.h"
#include "agent/agent.h"
#include "base/base.h"
#include "train/train.h"

#include <math.h>
#include <stdlib.h>

/* What the overlong punishment takes from an answer of so many tokens: 0 to penalty factor. */
static double overlong_penalty(const struct advantage_options *o, int tokens)
{
	if (o->overlong_buffer_len <= 0) return 0;
	int free_tokens = o->max_completion_length - o->overlong_buffer_len;
	double over = (double)(tokens - free_tokens) / o->overlong_buffer_len;
	return o->overlong_penalty_factor * fmin(fmax(over, 0), 1);
}

double reward_total(const struct reward_rule *rule, const struct reward *r)
{
	return rule->is_split ? r->code + rule->alpha * r->plan : r->code;
}

static void group_rewards(struct rollout *g, int K, const struct advantage_options *o, const struct prompt_set *prompts)
{
	for (int k = 0; k < K; k++) {
		const struct prompt_row *p = &prompts->rows[g[k].prompt];
		struct reward_input in = {.verdict = &g[k].verdict, .baseline = p->kernel ? &p->profile : NULL};
		g[k].is_dropped = !reward_compute(o->rule, &in, &g[k].reward);
		double penalty = overlong_penalty(o, g[k].completion.count);
		g[k].reward.plan -= penalty;
		g[k].reward.code -= penalty;
	}
}

/* The turn behind this one, if its episode came to it: it stands in one of
 * the groups that follow. */
static const struct rollout *turn_behind(const struct rollout *r, int n, int i)
{
	for (int k = i + 1; k < n && r[k].turn >= r[i].turn && r[k].turn <= r[i].turn + 1; k++)
		if (r[k].turn == r[i].turn + 1 && r[k].sample == r[i].sample && r[k].prompt == r[i].prompt) return &r[k];
	return NULL;
}

/* From the last turns to the first: a reward and the discounted value of what came behind. A turn
 * whose next one had no verdict has no value: NaN, and it teaches nothing. */
static void values_sum(struct rollout *r, int n, double gamma)
{
	for (int i = n; i-- > 0;) {
		const struct rollout *next = turn_behind(r, n, i);
		r[i].value = r[i].is_dropped ? (struct reward){NAN, NAN} : r[i].reward;
		if (!next) continue;
		r[i].value.plan += gamma * next->value.plan;
		r[i].value.code += gamma * next->value.code;
	}
}

static double weighted(const struct advantage_options *o, double advantage)
{
	return o->weight * (advantage < 0 ? advantage * o->negative_weight : advantage);
}

int rollouts_advantages(struct rollout *r, const int *sizes, int groups, const struct advantage_options *o,
	const struct prompt_set *prompts, bool *has_variance)
{
	int n = 0, dropped = 0, begin = 0;
	for (int g = 0; g < groups; n += sizes[g++]) group_rewards(r + n, sizes[g], o, prompts);
	values_sum(r, n, o->turn_gamma);
	double *v = xcalloc((size_t)MAX(n, 1) * 4, sizeof *v), *plan = v, *code = v + n, *a_plan = v + 2 * n,
		   *a_code = v + 3 * n;
	for (int i = 0; i < n; i++) {
		plan[i] = r[i].value.plan;
		code[i] = r[i].value.code;
	}
	for (int g = 0; g < groups; begin += sizes[g++]) {
		bool has_plan = group_advantages(o->type, plan + begin, sizes[g], a_plan + begin),
			 has_code = group_advantages(o->type, code + begin, sizes[g], a_code + begin);
		/* without any variance there is nothing to learn from the group */
		dropped += !has_plan && !has_code;
		if (has_variance) has_variance[g] = has_plan || has_code;
	}
	/* Scales of the whole batch, for each part's rewards. */
	bool is_batch = o->type == ADVANTAGE_BATCH;
	double plan_scale = is_batch ? advantages_batch_scale(plan, n) : 1,
		   code_scale = is_batch ? advantages_batch_scale(code, n) : 1;
	for (int i = 0; i < n; i++) {
		r[i].advantage_code = weighted(o, code_scale * a_code[i]);
		r[i].advantage_plan = o->rule->is_split ? weighted(o, o->rule->alpha * plan_scale * a_plan[i])
												: r[i].advantage_code;
	}
	free(v);
	return dropped;
}
