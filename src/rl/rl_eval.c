/* Evaluation: rates over rollouts. Intervals come from a paired bootstrap over tasks, because answers to one task are
 * not independent. */
#include "rl/rl.h"
#include "base/base.h"
#include "eval/eval.h"
#include "infer/infer.h"
#include "verify/verdict.h"

#include <math.h>
#include <stdlib.h>

struct tally {
	int answers, well_formed, valid, compiled, correct, genuine, dropped, length;
	double tokens, log_speedup, speedup;
};

static void tally_add(struct tally *t, const struct rollout *r, const struct prompt_set *prompts)
{
	const struct verdict *v = &r->verdict;
	if (r->is_dropped) {
		t->dropped++;
		return;
	}
	t->answers++;
	t->well_formed += r->answer.well_formed;
	t->valid += v->class != VERDICT_INVALID;
	t->compiled += v->compiled;
	t->correct += v->correct;
	t->tokens += r->completion.count;
	t->length += r->completion.finish == FINISH_LENGTH;
	if (v->class != VERDICT_GENUINE) return;
	const struct prompt_row *p = &prompts->rows[r->prompt];
	double s = p->kernel ? p->profile.cost_s / v->cost_s : v->speedup;
	t->genuine++;
	if (isfinite(s) && s > 0) {
		t->speedup += s;
		t->log_speedup += log(s);
	}
}

static void reasons_count(json_t *reasons, const struct rollout *r)
{
	char key[96];
	snprintf(
		key, sizeof key, "%s/%s", verdict_class_name(r->verdict.class), r->verdict.reason[0] ? r->verdict.reason : "-");
	json_int_t n = json_integer_value(json_object_get(reasons, key));
	json_object_set_new(reasons, key, json_integer(n + 1));
}

static double ratio(double a, double b) { return b > 0 ? a / b : 0; }

json_t *rollouts_summary(
	const struct rollout *r, const struct prompt_set *prompts, int tasks, int K, const int *ks, int nks)
{
	struct tally t = {0};
	json_t *reasons = json_object(), *pass = json_object();
	double *sum = xcalloc((size_t)MAX(nks, 1), sizeof *sum);
	int counted = 0;
	for (int p = 0; p < tasks; p++) {
		int n = 0, c = 0;
		for (int k = 0; k < K; k++) {
			const struct rollout *x = &r[p * K + k];
			tally_add(&t, x, prompts);
			reasons_count(reasons, x);
			n += !x->is_dropped;
			c += !x->is_dropped && x->verdict.class == VERDICT_GENUINE;
		}
		if (n == 0) continue;
		counted++;
		for (int i = 0; i < nks; i++) sum[i] += pass_at_k(n, c, MIN(ks[i], n));
	}
	for (int i = 0; i < nks; i++) {
		char key[32];
		snprintf(key, sizeof key, "pass@%d", ks[i]);
		json_object_set_new(pass, key, json_real(ratio(sum[i], counted)));
	}
	free(sum);
	return json_pack("{s:i, s:i, s:i, s:i, s:o, s:f, s:f, s:f, s:f, s:f, s:f, s:f, s:f, s:f, s:o}", "tasks", tasks,
		"samples", K, "answers", t.answers, "dropped", t.dropped, "pass", pass, "well_formed",
		ratio(t.well_formed, t.answers), "valid", ratio(t.valid, t.answers), "compiled", ratio(t.compiled, t.answers),
		"correct", ratio(t.correct, t.answers), "genuine", ratio(t.genuine, t.answers), "speedup_mean",
		ratio(t.speedup, t.genuine), "speedup_geomean", t.genuine ? exp(t.log_speedup / t.genuine) : 0.0, "mean_length",
		ratio(t.tokens, t.answers), "clipped_ratio", ratio(t.length, t.answers), "reasons", reasons);
}

static int compare_double(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;
	return (x > y) - (x < y);
}

void bootstrap_paired(const double *a, const double *b, int n, uint64_t seed, double *low, double *mean, double *high)
{
	enum { DRAWS = 10000 };
	double *draws = xmalloc(DRAWS * sizeof *draws), total = 0;
	struct rng rng = {.seed = seed, .stream = 0x626f6f7473747261};
	for (int i = 0; i < n; i++) total += a[i] - b[i];
	for (int d = 0; d < DRAWS; d++) {
		double s = 0;
		for (int i = 0; i < n; i++) {
			uint32_t j = rng_below(&rng, (uint32_t)n);
			s += a[j] - b[j];
		}
		draws[d] = s / n;
	}
	qsort(draws, DRAWS, sizeof *draws, compare_double);
	*mean = total / n;
	*low = draws[(int)(0.025 * DRAWS)];
	*high = draws[(int)(0.975 * DRAWS) - 1];
	free(draws);
}
