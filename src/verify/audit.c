/* audit: what the reference alone says about a task, as JSON: whether it runs, tells right from
 * wrong, what its trials are and what it costs. */
#include "verify/verify_internal.h"
#include "base/base.h"
#include "cost/cost.h"
#include "task/task.h"

static json_t *audit_trials(const struct oracle_data *d)
{
	json_t *list = json_array();
	for (int i = 0; i < d->ntrials; i++) {
		const struct oracle_trial *t = &d->trials[i];
		json_t *o = json_pack("{s:s, s:b, s:i, s:s}", "distribution", t->distribution, "counts", t->counts, "variant",
			t->variant, "why", t->why);
		if (t->counts && t->noutputs) {
			json_object_set_new(o, "tolerance", json_real(t->bounds[0].tolerance));
			json_object_set_new(o, "reference_error", json_real(t->bounds[0].reference_error));
		}
		json_array_append_new(list, o);
	}
	return list;
}

static json_t *audit_json(const struct verify_shared *s, const struct oracle_data *d)
{
	double eager = 0, fused = 0;
	enum cost_dot dot = cost_dot_of(d->dtype, s->tf32);
	cost_reference_s(d->cost, dot, &s->gpu, &eager, &fused);
	return json_pack("{s:b, s:s, s:b, s:s, s:b, s:s, s:o, s:o, s:o}", "runs", 1, "judged_at", d->variants[0].changed,
		"discriminates", d->null_kernel == NULL, "null_kernel", d->null_kernel ? d->null_kernel : "", "training",
		d->variants[0].training, "other_sizes", d->nvariants > 1 ? d->variants[1].changed : "", "trials",
		audit_trials(d), "eager_s", json_finite(eager), "fused_s", json_finite(fused));
}

int audit_run(struct verify_shared *s, const struct task *task, json_t **out, struct err *err)
{
	const struct oracle_data *d = NULL;
	struct oracle_fault fault = {0};
	int rc = oracle_cache_get(s->oracles, task, &d, &fault, err);
	if (rc == ERR_MISMATCH) {
		*out = json_pack("{s:b, s:s, s:s, s:i}", "runs", 0, "code", fault.code, "text", fault.text, "line", fault.line);
		return 0;
	}
	if (rc) return rc;
	*out = audit_json(s, d);
	oracle_cache_put(s->oracles, d);
	return 0;
}
