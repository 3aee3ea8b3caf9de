/* Equal tokens, equal answers: another way of working (refinement in turns, a pipeline of stages) is
 * worth what it does beside independent answers that cost as much. A chain draws those answers. */
#include "rl/rl.h"
#include "base/base.h"
#include "task/task.h"
#include "text/text.h"
#include "verify/verdict.h"
#include "verify/verify.h"

#include <math.h>
#include <stdlib.h>

void chain_add(struct chain *c, const struct rollout *r, const struct prompt_set *prompts)
{
	const struct ids *read = r->context.count ? &r->context : &prompts->rows[r->prompt].ids;
	c->answers++;
	c->tokens += r->completion.count;
	c->tokens_read += (int64_t)read->count;
	if (r->is_dropped || r->verdict.class != VERDICT_GENUINE) return;
	c->is_solved = true;
	if (r->verdict.cost_s > 0 && (c->cost_s == 0 || r->verdict.cost_s < c->cost_s)) c->cost_s = r->verdict.cost_s;
}

static bool chain_goes_on(const struct chain *c)
{
	if (c->is_solved && c->stops_solved) return false;
	return c->tokens < c->tokens_budget && (!c->answers_max || c->answers < c->answers_max);
}

int chains_draw(const struct author *a, struct verifier *v, const struct prompt_set *prompts,
	const struct rollout_options *o, struct chain *chains, int n, struct err *err)
{
	/* An answer of no tokens brings no chain nearer to its budget. */
	enum { ROUNDS_MAX = 4096 };
	int *index = xcalloc((size_t)n + 1, sizeof *index), *samples = xcalloc((size_t)n + 1, sizeof *samples),
		*which = xcalloc((size_t)n + 1, sizeof *which), rc = 0;
	struct rollout *r = xcalloc((size_t)n + 1, sizeof *r);
	struct rollout_options ro = *o;
	ro.samples = samples;
	for (int round = 0; !rc; round++) {
		int count = 0;
		for (int i = 0; i < n; i++) {
			if (!chain_goes_on(&chains[i])) continue;
			which[count] = i;
			index[count] = chains[i].prompt;
			samples[count++] = chains[i].sample;
			chains[i].sample += chains[i].stride;
		}
		if (!count) break;
		if (round == ROUNDS_MAX) {
			rc = err_set(err, ERR_LIMIT, "%d answers in a row without reaching %lld tokens: the policy writes nothing",
				round, (long long)chains[which[0]].tokens_budget);
			break;
		}
		/* One answer of each chain that goes on; request ids are not used twice. */
		ro.id_base += n;
		rc = rollouts_collect(a, v, prompts, index, count, &ro, r, NULL, err);
		for (int i = 0; !rc && i < count; i++) chain_add(&chains[which[i]], &r[i], prompts);
		rollouts_release(r, count);
	}
	free(r);
	free(which);
	free(samples);
	free(index);
	return rc;
}

/* ---- refinement beside best of n ---- */

void episode_chains(const struct rollout *episodes, const struct prompt_set *prompts, int tasks, int K, int T,
	bool is_refining, struct chain *chains)
{
	for (int i = 0; i < tasks * K; i++) {
		const struct rollout *e = &episodes[(int64_t)i * T];
		chains[i] = (struct chain){
			.prompt = e->prompt, .sample = e->sample + K, .stride = K, .stops_solved = !is_refining};
		chain_add(&chains[i], e, prompts); /* the first answer is both sides' */
		for (int t = 0; t < T && !e[t].is_absent; t++) chains[i].tokens_budget += e[t].completion.count;
	}
}

/* One side in numbers: episodes or chains of all tasks. */
struct side {
	double solved, tokens, tokens_read, answers, log_speedup;
	int count, costed;
};

static void side_add(struct side *s, const struct chain *c, double reference_s)
{
	s->count++;
	s->solved += c->is_solved;
	s->tokens += (double)c->tokens;
	s->tokens_read += (double)c->tokens_read;
	s->answers += c->answers;
	if (!(c->cost_s > 0) || !(reference_s > 0)) return;
	s->log_speedup += log(reference_s / c->cost_s);
	s->costed++;
}

static json_t *side_json(const struct side *s)
{
	double n = MAX(s->count, 1);
	return json_pack("{s:f, s:f, s:f, s:f, s:f}", "solved", s->solved / n, "answers", s->answers / n, "tokens",
		s->tokens / n, "tokens_read", s->tokens_read / n, "speedup_geomean",
		s->costed ? exp(s->log_speedup / s->costed) : 0.0);
}

/* The reference's time that the verdicts of a task speak of; 0: none of them was genuine. */
static double reference_of(const struct rollout *e, int T)
{
	for (int t = 0; t < T && !e[t].is_absent; t++)
		if (e[t].verdict.class == VERDICT_GENUINE && e[t].verdict.fused_cost_s > 0) return e[t].verdict.fused_cost_s;
	return 0;
}

static json_t *by_turn(const struct rollout *episodes, int count, int T)
{
	json_t *list = json_array();
	for (int last = 0; last < T; last++) {
		int solved = 0, answers = 0;
		for (int i = 0; i < count; i++) {
			const struct rollout *e = &episodes[(int64_t)i * T];
			bool is_solved = false;
			for (int t = 0; t <= last; t++) is_solved |= !e[t].is_absent && e[t].verdict.class == VERDICT_GENUINE;
			solved += is_solved;
			answers += !e[last].is_absent;
		}
		json_array_append_new(list,
			json_pack(
				"{s:i, s:i, s:f}", "turn", last + 1, "answers", answers, "solved", (double)solved / MAX(count, 1)));
	}
	return list;
}

json_t *turns_summary(const struct rollout *episodes, const struct chain *chains, const struct prompt_set *prompts,
	int tasks, int K, int T, uint64_t seed)
{
	struct side refined = {0}, sampled = {0};
	double *a = xcalloc((size_t)tasks + 1, sizeof *a), *b = xcalloc((size_t)tasks + 1, sizeof *b), low, mean, high;
	const struct task **names = xcalloc((size_t)tasks + 1, sizeof *names);
	int *cluster = xcalloc((size_t)tasks + 1, sizeof *cluster);
	for (int i = 0; i < tasks * K; i++) {
		const struct rollout *e = &episodes[(int64_t)i * T];
		struct chain c = {.prompt = e->prompt};
		for (int t = 0; t < T && !e[t].is_absent; t++) chain_add(&c, &e[t], prompts);
		side_add(&refined, &c, reference_of(e, T));
		a[i / K] += (double)c.is_solved / K;
		names[i / K] = &prompts->rows[e->prompt].task;
		if (!chains) continue;
		side_add(&sampled, &chains[i], reference_of(e, T));
		b[i / K] += (double)chains[i].is_solved / K;
	}
	json_t *s = json_pack(
		"{s:i, s:o, s:o}", "most", T, "by_turn", by_turn(episodes, tasks * K, T), "refined", side_json(&refined));
	if (chains && tasks) {
		int structures = tasks_clusters(names, tasks, cluster);
		bootstrap_paired(a, b, cluster, tasks, seed, &low, &mean, &high);
		json_object_set_new(s, "best_of", side_json(&sampled));
		json_object_set_new(s, "difference",
			json_pack("{s:f, s:f, s:f, s:i}", "solved", mean, "low", low, "high", high, "structures", structures));
	}
	free(cluster);
	free(names);
	free(a);
	free(b);
	return s;
}
