/* eval_finals: the best kernel of each task once more, as carefully as this machine can: what is
 * published of an evaluation on a GPU comes from here. compute-sanitizer watches it, and its time
 * stands beside the reference's, the two taken turn by turn (struct verify_request, is_final). */
#include "cli/eval_options.h"
#include "base/base.h"
#include "rl/rl.h"
#include "text/text.h"
#include "verify/verdict.h"
#include "verify/verify.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#define COLLECT_MS 3600000

/* Measured beside measured, else predicted beside predicted. */
static bool is_faster(const struct verdict *a, const struct verdict *b)
{
	bool are_timed = isfinite(a->device.time_s) && isfinite(b->device.time_s);
	return are_timed ? a->device.time_s < b->device.time_s : a->cost_s < b->cost_s;
}

/* The best of a task's answers; NULL: none is genuine. */
static const struct rollout *best_of(const struct rollout *r, int n)
{
	const struct rollout *best = NULL;
	for (int k = 0; k < n; k++) {
		if (r[k].is_dropped || r[k].verdict.class != VERDICT_GENUINE) continue;
		if (!best || is_faster(&r[k].verdict, &best->verdict)) best = &r[k];
	}
	return best;
}

struct finals {
	int tasks;                       /* whose best was graded again */
	int genuine;                     /* that are genuine again */
	int sanitized;                   /* that ran under compute-sanitizer too */
	int timed;                       /* that are genuine and have times of their own */
	json_t *lost;                    /* tasks whose best is not genuine any more: name -> class/reason */
	double log_sum[REFERENCE_COUNT]; /* of speedups */
	int paired[REFERENCE_COUNT];
};

/* One verdict into the sums. */
static void final_add(struct finals *f, const char *task, const struct verdict *d)
{
	bool is_genuine = d->class == VERDICT_GENUINE;
	char said[128];
	snprintf(said, sizeof said, "%s/%s", verdict_class_name(d->class), d->reason);
	f->tasks++;
	f->genuine += is_genuine;
	if (!is_genuine) json_object_set_new(f->lost, task, json_string(said));
	f->sanitized += d->device.sanitized[SANITIZER_COUNT - 1] >= 0;
	f->timed += is_genuine && isfinite(d->device.time_s);
	for (int k = 0; k < REFERENCE_COUNT && is_genuine; k++) {
		const struct verdict_reference *r = &d->device.references[k];
		if (!r->is_timed || !r->pairs || !(r->speedup.value > 0)) continue;
		f->log_sum[k] += log(r->speedup.value);
		f->paired[k]++;
	}
}

static json_t *finals_json(const struct finals *f)
{
	json_t *speedups = json_object();
	for (int k = 0; k < REFERENCE_COUNT; k++)
		json_object_set_new(speedups, verdict_reference_name((enum verdict_reference_kind)k),
			json_pack("{s:i, s:f}", "kernels", f->paired[k], "speedup_geomean",
				f->paired[k] ? exp(f->log_sum[k] / f->paired[k]) : 0.0));
	return json_pack("{s:i, s:i, s:i, s:i, s:O, s:o}", "tasks", f->tasks, "genuine", f->genuine, "sanitized",
		f->sanitized, "timed", f->timed, "lost", f->lost, "over", speedups);
}

int eval_finals(const struct eval_options *o, struct verifier *v, const struct prompt_set *prompts,
	const struct rollout *rollouts, struct str *rows, json_t **out, struct err *err)
{
	struct finals f = {.lost = json_object()};
	int n = (int)prompts->count, K = (int)o->num_samples, submitted = 0, rc = 0;
	const struct rollout **best = xcalloc((size_t)n + 1, sizeof *best);
	/* All are handed over at once: windows in which something is timed take
	 * turns by the GPU's lock. */
	for (int i = 0; i < n && !rc; i++) {
		best[i] = best_of(rollouts + (int64_t)i * K, K);
		if (!best[i]) continue;
		const struct answer *a = &best[i]->answer;
		struct verify_request r = {.task = &prompts->rows[i].task,
			.source = best[i]->text + a->code_begin,
			.source_len = a->code_end - a->code_begin,
			.id = i,
			.is_final = true};
		rc = verifier_submit(v, &r, err);
		submitted += !rc;
	}
	/* Each verdict to its task, whatever order they come in. */
	for (int i = 0; i < submitted && !rc; i++) {
		struct verdict d;
		int64_t id = 0;
		rc = verifier_collect(v, COLLECT_MS, &id, &d, err);
		if (rc) break;
		const char *task = prompts->rows[id].task.name;
		final_add(&f, task, &d);
		json_t *row = json_pack("{s:s, s:s, s:i, s:i, s:o}", "task", task, "stage", "final", "sample", best[id]->sample,
			"turn", best[id]->turn, "verdict", verdict_json(&d));
		jsonl_put(rows, row);
		json_decref(row);
	}
	if (!rc) *out = finals_json(&f);
	json_decref(f.lost);
	free(best);
	return rc;
}

void eval_finals_print(const json_t *j)
{
	const char *name;
	json_t *value;
	printf("best kernels   %lld, %lld genuine again, %lld under compute-sanitizer, %lld timed\n",
		(long long)json_integer_value(json_object_get(j, "tasks")),
		(long long)json_integer_value(json_object_get(j, "genuine")),
		(long long)json_integer_value(json_object_get(j, "sanitized")),
		(long long)json_integer_value(json_object_get(j, "timed")));
	json_object_foreach(json_object_get(j, "over"), name, value)
	{
		long long kernels = (long long)json_integer_value(json_object_get(value, "kernels"));
		if (kernels)
			printf("  over %-9s %.4f in the geometric mean of %lld, taken turn by turn\n", name,
				json_number_value(json_object_get(value, "speedup_geomean")), kernels);
	}
	json_object_foreach(json_object_get(j, "lost"), name, value) printf("  %s: %s\n", name, json_string_value(value));
}
