/* Equal tokens, equal answers: another way of working (refinement in turns, a pipeline
 * of stages) is worth what it does beside independent answers that cost as much. A
 * chain draws those answers. */
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
	if (r->verdict.fused_cost_s > 0) c->reference_s = r->verdict.fused_cost_s;
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

/* ---- in numbers ---- */

json_t *chains_json(const struct chain *c, int n)
{
	double solved = 0, answers = 0, tokens = 0, read = 0, log_speedup = 0, count = MAX(n, 1);
	int costed = 0;
	for (int i = 0; i < n; i++) {
		solved += c[i].is_solved;
		answers += c[i].answers;
		tokens += (double)c[i].tokens;
		read += (double)c[i].tokens_read;
		if (!(c[i].cost_s > 0) || !(c[i].reference_s > 0)) continue;
		log_speedup += log(c[i].reference_s / c[i].cost_s);
		costed++;
	}
	return json_pack("{s:f, s:f, s:f, s:f, s:f}", "solved", solved / count, "answers", answers / count, "tokens",
		tokens / count, "tokens_read", read / count, "speedup_geomean", costed ? exp(log_speedup / costed) : 0.0);
}

json_t *chains_paired(
	const struct chain *a, const struct chain *b, int n, const struct prompt_set *prompts, uint64_t seed)
{
	double *x = xcalloc((size_t)n + 1, sizeof *x), *y = xcalloc((size_t)n + 1, sizeof *y), low = 0, mean = 0, high = 0;
	const struct task **tasks = xcalloc((size_t)n + 1, sizeof *tasks);
	int *cluster = xcalloc((size_t)n + 1, sizeof *cluster), both = 0;
	/* What was solved: all pairs. Those of one task have one name, and so one cluster. */
	for (int i = 0; i < n; i++) {
		tasks[i] = &prompts->rows[a[i].prompt].task;
		x[i] = a[i].is_solved;
		y[i] = b[i].is_solved;
	}
	int structures = tasks_clusters(tasks, n, cluster);
	if (n) bootstrap_paired(x, y, cluster, n, seed, &low, &mean, &high);
	json_t *j = json_pack("{s:f, s:f, s:f, s:i}", "solved", mean, "low", low, "high", high, "structures", structures);
	/* How fast: where both sides have a time. */
	for (int i = 0; i < n; i++) {
		if (!(a[i].cost_s > 0) || !(b[i].cost_s > 0)) continue;
		tasks[both] = &prompts->rows[a[i].prompt].task;
		x[both] = -log(a[i].cost_s);
		y[both++] = -log(b[i].cost_s);
	}
	if (both) {
		tasks_clusters(tasks, both, cluster);
		bootstrap_paired(x, y, cluster, both, seed, &low, &mean, &high);
		json_object_set_new(j, "speedup_ratio",
			json_pack("{s:f, s:f, s:f, s:i}", "value", exp(mean), "low", exp(low), "high", exp(high), "pairs", both));
	}
	free(cluster);
	free(tasks);
	free(x);
	free(y);
	return j;
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
	int n = tasks * K;
	struct chain *refined = xcalloc((size_t)n + 1, sizeof *refined);
	for (int i = 0; i < n; i++) {
		const struct rollout *e = &episodes[(int64_t)i * T];
		refined[i].prompt = e->prompt;
		for (int t = 0; t < T && !e[t].is_absent; t++) chain_add(&refined[i], &e[t], prompts);
	}
	json_t *s = json_pack(
		"{s:i, s:o, s:o}", "most", T, "by_turn", by_turn(episodes, n, T), "refined", chains_json(refined, n));
	if (chains) {
		json_object_set_new(s, "best_of", chains_json(chains, n));
		json_object_set_new(s, "difference", chains_paired(refined, chains, n, prompts, seed));
	}
	free(refined);
	return s;
}
