/* A step in numbers. Rates are over answers with a verdict; what is measured on the tokens that
 * train alone says so in its name, because TRL's names mean all completion tokens. */
#include "rl/rl_internal.h"
#include "agent/agent.h"
#include "base/base.h"
#include "infer/infer.h"
#include "verify/verdict.h"

#include <math.h>
#include <stdlib.h>

/* Sums over the answers that were not dropped; counts of answers. */
struct rollout_stats {
	double reward;
	double reward_sq; /* of the rewards' squares */
	double genuine;
	double paid;              /* more than a failure is */
	double length;            /* tokens */
	double terminated_length; /* tokens of the answers that ended by themselves */
	double speedup;           /* as the reward's row counts it */
	double plan;              /* the reward's part for the plan */
	double code;              /* its part for the code */
	double logprob;           /* of all tokens, as they were sampled */
	int n;
	int terminated; /* ended by themselves */
	int dropped;    /* not among n */
	int clipped;    /* cut at the most tokens */
	int malformed;  /* without a plan and a closed code block */
	int degenerate; /* that go in circles */
	int hacks;      /* verdict: cheat */
	int min_length; /* tokens */
	int max_length;
	json_t *hack_reasons; /* reason -> count */
};

static void verdict_count(struct rollout_stats *s, const struct rollout *r)
{
	s->genuine += r->verdict.class == VERDICT_GENUINE;
	s->malformed += !r->answer.well_formed;
	if (r->verdict.class != VERDICT_CHEAT) return;
	s->hacks++;
	json_int_t n = json_integer_value(json_object_get(s->hack_reasons, r->verdict.reason));
	json_object_set_new(s->hack_reasons, r->verdict.reason, json_integer(n + 1));
}

static void length_count(struct rollout_stats *s, const struct rollout *r)
{
	int len = r->completion.count;
	s->length += len;
	s->min_length = MIN(s->min_length, len);
	s->max_length = MAX(s->max_length, len);
	/* A policy outside tells neither tokens nor log-probabilities. */
	if (r->completion.tokens) s->degenerate += degenerate_share(r->completion.tokens, len) >= DEGENERATE_FROM;
	for (int k = 0; r->completion.logprobs && k < len; k++) s->logprob += r->completion.logprobs[k];
	if (r->completion.finish == FINISH_LENGTH) {
		s->clipped++;
		return;
	}
	s->terminated++;
	s->terminated_length += len;
}

static struct rollout_stats stats_of(
	const struct reward_rule *rule, const struct prompt_set *prompts, const struct rollout *r, int n)
{
	struct rollout_stats s = {.min_length = INT32_MAX, .hack_reasons = json_object()};
	for (int i = 0; i < n; i++) {
		if (r[i].is_dropped) {
			s.dropped++;
			continue;
		}
		const struct prompt_row *p = &prompts->rows[r[i].prompt];
		struct reward_input in = {.verdict = &r[i].verdict, .baseline = p->kernel ? &p->profile : NULL};
		double reward = reward_total(rule, &r[i].reward);
		s.n++;
		s.paid += reward > reward_total(rule, &(struct reward){rule->failure, rule->failure});
		s.reward += reward;
		s.reward_sq += reward * reward;
		s.plan += r[i].reward.plan;
		s.code += r[i].reward.code;
		s.speedup += reward_speedup(rule, &in);
		verdict_count(&s, &r[i]);
		length_count(&s, &r[i]);
	}
	return s;
}

static double per(double sum, double n) { return n > 0 ? sum / n : 0; }

void put_number(json_t *m, const char *key, double x) { json_object_set_new(m, key, json_finite(x)); }

/* Whether the commonest answer of a group fails while another one succeeds: there sampling found
 * what greedy decoding would not write. Groups that merely vary may have
 * broken text for a reason. */
static bool is_discovery(const struct rollout *g, int K)
{
	int commonest = -1, most = 0;
	bool any = false;
	for (int i = 0; i < K; i++) {
		int same = 0;
		if (g[i].is_dropped || !g[i].text) continue;
		any |= g[i].verdict.class == VERDICT_GENUINE;
		for (int k = 0; k < K; k++)
			same += !g[k].is_dropped && g[k].text && g[k].text_len == g[i].text_len &&
				!memcmp(g[k].text, g[i].text, g[i].text_len);
		if (same <= most) continue;
		most = same;
		commonest = i;
	}
	return any && commonest >= 0 && g[commonest].verdict.class != VERDICT_GENUINE;
}

/* Tokens with a past of their own: an answer shares with an earlier one of its group the rows up to
 * the token in which they differ. */
static int64_t distinct_tokens(const struct rollout *g, int K)
{
	int64_t distinct = 0;
	for (int i = 0; i < K; i++) {
		const struct completion *a = &g[i].completion;
		int shared = 0;
		for (int k = 0; k < i; k++) {
			const struct completion *b = &g[k].completion;
			int n = 0, most = MIN(a->count, b->count);
			while (n < most && a->tokens[n] == b->tokens[n]) n++;
			shared = MAX(shared, MIN(n + 1, most));
		}
		distinct += a->count - shared;
	}
	return distinct;
}

static double distinct_share(const struct step_batch *b)
{
	int64_t distinct = 0, tokens = 0;
	for (int g = 0, begin = 0; g < b->groups; begin += b->sizes[g++])
		distinct += distinct_tokens(b->r + begin, b->sizes[g]);
	for (int i = 0; i < b->n; i++) tokens += b->r[i].completion.count;
	return per((double)distinct, (double)tokens);
}

static void put_rewards(json_t *m, const struct reward_rule *rule, const struct rollout_stats *s)
{
	double mean = per(s->reward, s->n), var = s->n > 1 ? fmax(0, (s->reward_sq - s->n * mean * mean) / (s->n - 1)) : 0;
	char key[96];
	put_number(m, "reward", mean);
	put_number(m, "reward_std", sqrt(var));
	snprintf(key, sizeof key, "rewards/%s/mean", rule->name);
	put_number(m, key, mean);
	snprintf(key, sizeof key, "rewards/%s/std", rule->name);
	put_number(m, key, sqrt(var));
	if (rule->is_split) {
		put_number(m, "rewards/plan/mean", per(s->plan, s->n));
		put_number(m, "rewards/code/mean", per(s->code, s->n));
	}
	put_number(m, "speedup", per(s->speedup, s->genuine));
	put_number(m, "genuine", per(s->genuine, s->n));
	put_number(m, "paid", per(s->paid, s->n));
}

static void put_answers(json_t *m, const struct rollout_stats *s)
{
	const char *reason;
	json_t *count;
	json_object_set_new(m, "completions/min_length", json_integer(s->n ? s->min_length : 0));
	json_object_set_new(m, "completions/max_length", json_integer(s->max_length));
	put_number(m, "completions/mean_length", per(s->length, s->n));
	put_number(m, "completions/mean_terminated_length", per(s->terminated_length, s->terminated));
	put_number(m, "completions/clipped_ratio", per(s->clipped, s->n));
	put_number(m, "completions/malformed_ratio", per(s->malformed, s->n));
	put_number(m, "completions/degenerate_ratio", per(s->degenerate, s->n));
	put_number(m, "hack", per(s->hacks, s->n));
	json_object_foreach(s->hack_reasons, reason, count)
	{
		char key[96];
		snprintf(key, sizeof key, "hack/%s", reason);
		put_number(m, key, per((double)json_integer_value(count), s->n));
	}
	json_object_set_new(m, "dropped", json_integer(s->dropped));
}

static void put_update(json_t *m, const struct rl_options *o, const struct update_stats *u)
{
	double rows = (double)u->loss.rows, seen = (double)u->completion_tokens * (double)o->num_iterations;
	put_number(m, "loss", u->loss.loss);
	put_number(m, "grad_norm", u->grad_norm);
	put_number(m, "entropy/trained", per(u->loss.entropy, rows));
	if (o->beta > 0) put_number(m, "kl", per(u->loss.kl, rows));
	put_number(m, "clip_ratio/low_mean", per(u->loss.clip_low, seen));
	put_number(m, "clip_ratio/high_mean", per(u->loss.clip_high, seen));
	put_number(m, "sampling/trained_logp_difference/mean", per(u->loss.logprob_diff_sum, rows));
	put_number(m, "sampling/trained_logp_difference/max", u->loss.logprob_diff_max);
	if (strcmp(o->importance_sampling_mode, "off") && rows > 0) {
		put_number(m, "sampling/importance_sampling_ratio/mean", per(u->weight_sum, rows));
		put_number(m, "sampling/importance_sampling_ratio/min", u->weight_min);
		put_number(m, "sampling/importance_sampling_ratio/max", u->weight_max);
	}
	if (o->replay_updates > 0) {
		put_number(m, "replay/loss", per(u->fit_loss, u->fit_updates));
		put_number(m, "replay/grad_norm", per(u->fit_norm, u->fit_updates));
		json_object_set_new(m, "replay/examples", json_integer(u->fit_examples));
	}
	json_object_set_new(m, "guard/not_finite", json_integer(u->not_finite));
	json_object_set_new(m, "guard/spikes", json_integer(u->spikes));
}

/* What the mid-end did to the kernels that it was given: of its genuine answers the shares that are
 * faster and slower, and of the faster ones by which change. */
static void put_midend(json_t *m, const struct prompt_set *prompts, const struct step_batch *b)
{
	int genuine = 0, faster = 0, slower = 0, by[MIDEND_CHANGE_COUNT] = {0};
	double log_speedup = 0;
	for (int i = 0; i < b->n; i++) {
		const struct rollout *r = &b->r[i];
		const struct verdict *given = &prompts->rows[r->prompt].profile;
		if (r->is_dropped || r->verdict.class != VERDICT_GENUINE) continue;
		/* Against the kernel that was given, not the reference; without a predicted time
		 * there is nothing to compare.
		 */
		double s = midend_speedup(given, &r->verdict);
		if (!(s > 0)) continue;
		genuine++;
		slower += s < 1;
		log_speedup += log(s);
		if (s <= 1) continue;
		faster++;
		by[midend_change(given, &r->verdict)]++;
	}
	/* Shares among genuine answers; kinds of change among those that are faster. */
	put_number(m, "midend/faster", per(faster, genuine));
	put_number(m, "midend/slower", per(slower, genuine));
	put_number(m, "midend/speedup_geomean", genuine ? exp(log_speedup / genuine) : 0);
	for (int c = 0; c < MIDEND_CHANGE_COUNT; c++) {
		char key[48];
		snprintf(key, sizeof key, "midend/%s", midend_change_name((enum midend_change)c));
		if (c != CHANGE_NONE) put_number(m, key, per(by[c], faster));
	}
}

/* Episodes: how many were solved by which turn, and the answers of each turn. */
static void put_turns(json_t *m, const struct rl_options *o, const struct step_batch *b)
{
	int T = (int)o->num_turns, episodes = 0, solved = 0;
	int *answers = xcalloc((size_t)T, sizeof *answers), *genuine = xcalloc((size_t)T, sizeof *genuine);
	for (int i = 0; i < b->n; i++) {
		const struct rollout *r = &b->r[i];
		bool is_genuine = !r->is_dropped && r->verdict.class == VERDICT_GENUINE;
		episodes += r->turn == 0;
		answers[r->turn] += !r->is_dropped;
		genuine[r->turn] += is_genuine;
		/* Refining goes on behind a genuine answer: an episode counts where it is first solved. */
		bool was_solved = false;
		for (int k = i; k-- > 0 && r->turn > 0 && b->r[k].turn <= r->turn;) {
			bool is_same = b->r[k].sample == r->sample && b->r[k].prompt == r->prompt && b->r[k].turn < r->turn;
			was_solved |= is_same && b->r[k].verdict.class == VERDICT_GENUINE;
			if (is_same && b->r[k].turn == 0) break;
		}
		solved += is_genuine && !was_solved;
	}
	put_number(m, "turns/mean", per(b->n, episodes));
	put_number(m, "turns/solved", per(solved, episodes));
	for (int t = 0; t < T; t++) {
		char key[48];
		snprintf(key, sizeof key, "turns/%d/answers", t + 1);
		json_object_set_new(m, key, json_integer(answers[t]));
		snprintf(key, sizeof key, "turns/%d/genuine", t + 1);
		put_number(m, key, per(genuine[t], answers[t]));
	}
	free(answers);
	free(genuine);
}

/* What only a policy in this program has: log-probabilities, tokens, updates. */
static void put_training(json_t *m, const struct rl_options *o, const struct rollout_stats *s,
	const struct step_batch *b, const struct update_stats *u)
{
	/* Minus the mean log-probability of what was sampled: the entropy's unbiased estimate over all
	 * completion tokens, for which no pass is needed (of untruncated sampling). */
	put_number(m, "entropy", -per(s->logprob, s->length));
	put_update(m, o, u);
	/* Of the tokens that answers and updates are made of, the share that is run:
	 * equal beginnings once. */
	put_number(m, "distinct/generation", distinct_share(b));
	put_number(m, "distinct/update", per((double)(u->tokens - u->fit_tokens), (double)u->tokens_apart));
}

json_t *step_metrics(const struct rl_options *o, const struct reward_rule *rule, const struct prompt_set *prompts,
	const struct step_batch *b, const struct update_stats *u)
{
	struct rollout_stats s = stats_of(rule, prompts, b->r, b->n);
	json_t *m = json_object();
	int discoveries = 0, begin = 0;
	for (int g = 0; g < b->groups; begin += b->sizes[g++]) discoveries += is_discovery(b->r + begin, b->sizes[g]);
	put_rewards(m, rule, &s);
	put_answers(m, &s);
	json_object_set_new(m, "answers", json_integer(b->n));
	if (!strcmp(o->stage, "midend")) put_midend(m, prompts, b);
	if (o->num_turns > 1) put_turns(m, o, b);
	if (u) put_training(m, o, &s, b, u);
	put_number(m, "frac_reward_zero_std", per(b->flat, b->groups));
	put_number(m, "discoveries", per(discoveries, b->groups));
	if (o->filter_groups) json_object_set_new(m, "num_gen_batches", json_integer(b->rounds));
	json_decref(s.hack_reasons);
	return m;
}
