/* Evaluation: rates over rollouts. The estimator of pass@k is the unbiased one; intervals come
 * from a paired bootstrap over structures, because answers to one task are not independent, and
 * neither are tasks that differ in sizes and names alone. */
#include "rl/rl.h"
#include "agent/agent.h"
#include "base/base.h"
#include "eval/eval.h"
#include "infer/infer.h"
#include "task/task.h"
#include "verify/verdict.h"

#include <math.h>
#include <stdlib.h>

struct tally {
	int answers; /* that have a verdict; of them: */
	int well_formed;
	int valid;
	int compiled;
	int correct;
	int genuine;
	int timed;          /* genuine, with a speedup over the reference, or over the kernel that was given */
	int dropped;        /* answers beside these that have none */
	int length;         /* cut at the most tokens */
	double tokens;      /* of the answers */
	double log_speedup; /* sum over the timed; as the next */
	double speedup;
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
	double s = p->kernel ? midend_speedup(&p->profile, v) : v->speedup_fused;
	t->genuine++;
	if (!isfinite(s) || !(s > 0)) return;
	t->timed++;
	t->speedup += s;
	t->log_speedup += log(s);
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
	json_t *reasons = json_object(), *pass = json_object(), *pass_tasks = json_object();
	double *sum = xcalloc((size_t)MAX(nks, 1), sizeof *sum);
	int *counted = xcalloc((size_t)MAX(nks, 1), sizeof *counted);
	for (int p = 0; p < tasks; p++) {
		/* One task: its answers into the sums, and how many of those that
		 * were judged are genuine. */
		int n = 0, c = 0;
		for (int k = 0; k < K; k++) {
			const struct rollout *x = &r[p * K + k];
			tally_add(&t, x, prompts);
			reasons_count(reasons, x);
			n += !x->is_dropped;
			c += !x->is_dropped && x->verdict.class == VERDICT_GENUINE;
		}
		/* A task with fewer answers than k (the others had no verdict) says nothing about k tries:
		 * it would enter as a lower pass@n. */
		for (int i = 0; i < nks; i++) {
			if (n < ks[i]) continue;
			sum[i] += pass_at_k(n, c, ks[i]);
			counted[i]++;
		}
	}
	for (int i = 0; i < nks; i++) {
		char key[32];
		snprintf(key, sizeof key, "pass@%d", ks[i]);
		json_object_set_new(pass, key, json_real(ratio(sum[i], counted[i])));
		json_object_set_new(pass_tasks, key, json_integer(counted[i]));
	}
	free(sum);
	free(counted);
	/* Shares are of the answers with a verdict; speedups are of the genuine ones that have one. */
	return json_pack("{s:i, s:i, s:i, s:i, s:o, s:o, s:f, s:f, s:f, s:f, s:f, s:f, s:f, s:f, s:f, s:o}", "tasks", tasks,
		"samples", K, "answers", t.answers, "dropped", t.dropped, "pass", pass, "pass_tasks", pass_tasks, "well_formed",
		ratio(t.well_formed, t.answers), "valid", ratio(t.valid, t.answers), "compiled", ratio(t.compiled, t.answers),
		"correct", ratio(t.correct, t.answers), "genuine", ratio(t.genuine, t.answers), "speedup_mean",
		ratio(t.speedup, t.timed), "speedup_geomean", t.timed ? exp(t.log_speedup / t.timed) : 0.0, "mean_length",
		ratio(t.tokens, t.answers), "clipped_ratio", ratio(t.length, t.answers), "reasons", reasons);
}

/* Sums and sizes by cluster; returns how many there are. cluster NULL: each task alone. */
static int clusters_sum(const double *a, const double *b, const int *cluster, int n, double *sum, int *size)
{
	int count = 0;
	for (int i = 0; i < n; i++) {
		int c = cluster ? cluster[i] : i;
		CHECKF(c >= 0 && c < n, "cluster %d of %d tasks", c, n);
		sum[c] += a[i] - b[i];
		size[c]++;
		count = MAX(count, c + 1);
	}
	return count;
}

void bootstrap_paired(
	const double *a, const double *b, const int *cluster, int n, uint64_t seed, double *low, double *mean, double *high)
{
	enum { DRAWS = 10000 };
	double *draws = xmalloc(DRAWS * sizeof *draws), *sum = xcalloc((size_t)n, sizeof *sum), total = 0;
	int *size = xcalloc((size_t)n, sizeof *size), clusters = clusters_sum(a, b, cluster, n, sum, size);
	struct rng rng = {.seed = seed, .stream = 0x626f6f7473747261};
	for (int c = 0; c < clusters; c++) total += sum[c];
	/* Whole clusters are drawn; the mean is over the tasks that they bring along. */
	for (int d = 0; d < DRAWS; d++) {
		double s = 0;
		int64_t tasks = 0;
		for (int k = 0; k < clusters; k++) {
			uint32_t c = rng_below(&rng, (uint32_t)clusters);
			s += sum[c];
			tasks += size[c];
		}
		draws[d] = s / (double)MAX(tasks, 1);
	}
	/* The middle 95 % of the draws. */
	doubles_sort(draws, DRAWS);
	*mean = total / n;
	*low = draws[(int)(0.025 * DRAWS)];
	*high = draws[(int)(0.975 * DRAWS) - 1];
	free(draws);
	free(sum);
	free(size);
}

/* ---- structures ---- */

static int by_structure(const void *a, const void *b)
{
	const struct task *const *x = a, *const *y = b;
	return strcmp(task_cluster(*x), task_cluster(*y));
}

int tasks_clusters(const struct task *const *tasks, int n, int *cluster)
{
	struct place {
		const struct task *task;
		int index;
	} *order = xmalloc((size_t)MAX(n, 1) * sizeof *order);
	int count = 0;
	for (int i = 0; i < n; i++) order[i] = (struct place){tasks[i], i};
	qsort(order, (size_t)n, sizeof *order, by_structure);
	for (int i = 0; i < n; i++) {
		count += i > 0 && strcmp(task_cluster(order[i - 1].task), task_cluster(order[i].task)) != 0;
		cluster[order[i].index] = count;
	}
	free(order);
	return n ? count + 1 : 0;
}
