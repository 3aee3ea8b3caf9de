/* What a mid-end did to the kernels that it was given: of its answers how many are genuine, faster
 * and slower; by which change the best ones are faster, and by how much. A kernel that nothing is
 * faster than stays as it was. */
#include "rl/rl.h"
#include "agent/agent.h"
#include "base/base.h"
#include "task/task.h"
#include "verify/verdict.h"

#include <math.h>
#include <stdlib.h>

struct midend_tally {
	int answers; /* with a verdict; of them: */
	int genuine;
	int faster;
	int slower;
	int untimed;                        /* genuine, and one of both has no predicted time, or one of other sizes */
	int by[MIDEND_CHANGE_COUNT];        /* kernels whose best answer differs so */
	double log_by[MIDEND_CHANGE_COUNT]; /* the logarithms of their speedups */
};

/* All answers to a kernel are counted, and the fastest says by which change. Returns its
 * speedup, 1 where the kernel stays. */
static double kernel_add(struct midend_tally *t, const struct verdict *given, const struct rollout *r, int count)
{
	enum midend_change change = CHANGE_NONE;
	double best = 1;
	for (int k = 0; k < count; k++) {
		t->answers += !r[k].is_dropped;
		if (r[k].is_dropped || r[k].verdict.class != VERDICT_GENUINE) continue;
		double s = midend_speedup(given, &r[k].verdict);
		t->genuine++;
		t->faster += s > 1;
		t->slower += s < 1;
		t->untimed += !(s > 0);
		if (!(s > best)) continue;
		best = s;
		change = midend_change(given, &r[k].verdict);
	}
	t->by[change]++;
	t->log_by[change] += log(best);
	return best;
}

json_t *midend_summary(const struct rollout *r, const struct prompt_set *prompts, int K, uint64_t seed)
{
	int n = (int)prompts->count;
	struct midend_tally t = {0};
	double *gain = xcalloc((size_t)n + 1, sizeof *gain), *none = xcalloc((size_t)n + 1, sizeof *none), low = 0,
		   mean = 0, high = 0;
	const struct task **tasks = xcalloc((size_t)n + 1, sizeof *tasks);
	int *cluster = xcalloc((size_t)n + 1, sizeof *cluster);
	/* Speedups multiply, so what is averaged over structures is their logarithm, against
	 * that of a kernel that stays. */
	for (int i = 0; i < n; i++) {
		tasks[i] = &prompts->rows[i].task;
		gain[i] = log(kernel_add(&t, &prompts->rows[i].profile, r + (int64_t)i * K, K));
	}
	int structures = tasks_clusters(tasks, n, cluster);
	if (n) bootstrap_paired(gain, none, cluster, n, seed, &low, &mean, &high);
	json_t *changes = json_object();
	for (int c = 0; c < MIDEND_CHANGE_COUNT; c++)
		json_object_set_new(changes, midend_change_name((enum midend_change)c),
			json_pack("{s:i, s:f}", "kernels", t.by[c], "speedup_geomean", t.by[c] ? exp(t.log_by[c] / t.by[c]) : 0.0));
	free(gain);
	free(none);
	free(tasks);
	free(cluster);
	double answers = MAX(t.answers, 1);
	return json_pack("{s:i, s:i, s:i, s:i, s:f, s:f, s:f, s:i, s:f, s:f, s:f, s:o}", "kernels", n, "structures",
		structures, "refused_prompts", prompts->refused, "answers", t.answers, "genuine", t.genuine / answers, "faster",
		t.faster / answers, "slower", t.slower / answers, "untimed", t.untimed, "speedup_geomean", n ? exp(mean) : 0.0,
		"low", n ? exp(low) : 0.0, "high", n ? exp(high) : 0.0, "changes", changes);
}
