/* The loop: where an earlier start left off, steps, checkpoints, metrics. A step is pure in
 * (options, weights, step number): what it draws and in which order does not depend on timing, so
 * kill -9 and a second start give the bytes of the uninterrupted run (with max_seconds = 0). */
#include "rl/rl_internal.h"
#include "base/base.h"
#include "policy/policy.h"
#include "ranks/ranks.h"
#include "store/store.h"
#include "train/train.h"
#include "verify/verify.h"

#include <stdlib.h>

#define EXTRA_SECONDS "seconds"

/* What the store holds of the steps that are behind the checkpoint, into history and guards. */
struct fold {
	struct loop *loop;
	struct err *err;
};

static int fold_sample(int64_t step, int64_t index, const json_t *row, void *ctx)
{
	struct fold *f = ctx;
	int rc = history_add(f->loop->history, step, row, f->err);
	return rc ? err_prefix(f->err, "step %lld, answer %lld", (long long)step, (long long)index) : 0;
}

static int fold_metrics(int64_t step, int64_t index, const json_t *row, void *ctx)
{
	struct fold *f = ctx;
	(void)index;
	guard_add(&f->loop->guard, step, row, NULL, NULL, 0);
	return 0;
}

static int last_step(int64_t step, int64_t index, const json_t *row, void *ctx)
{
	int64_t *last = ctx;
	(void)index;
	(void)row;
	*last = step;
	return 0;
}

/* Where nothing trains the store is all that there is to continue from: a step stands there
 * whole, or not at all. */
static int checkpoint_take(struct loop *l, struct err *err)
{
	struct checkpoint_state s = {0};
	int rc = l->author.outside
		? store_metrics_each(l->store, l->run, last_step, &l->step, err)
		: checkpoint_load(l->o->output_dir, l->policy.model, l->policy.adapter, l->optimizer, l->ranks, &s, err);
	if (rc && (rc != ERR_NOT_FOUND || l->author.outside)) return rc;
	if (!rc && !l->author.outside) {
		l->step = s.step;
		l->seconds_before = json_number_value(json_object_get(s.extra, EXTRA_SECONDS));
		l->tokens = json_integer_value(json_object_get(s.extra, "num_tokens"));
		updater_state_set(l->updater, json_object_get(s.extra, "updater"));
	}
	if (l->step > 0 && loop_is_first(l))
		log_info("%s: continuing after step %lld", l->o->output_dir, (long long)l->step);
	json_decref(s.extra);
	return 0;
}

static int resume(struct loop *l, struct err *err)
{
	struct fold fold = {l, err};
	int rc = checkpoint_take(l, err);
	if (rc) return rc;
	/* What was learned about the prompts every rank knows; metrics and guards are rank 0's. */
	rc = loop_is_first(l) ? store_run_truncate(l->store, l->run, l->step, err) : 0;
	if (!rc) rc = samples_relay(l->ranks, l->store, l->run, fold_sample, &fold, err);
	if (rc || !loop_is_first(l)) return rc;
	rc = store_metrics_each(l->store, l->run, fold_metrics, &fold, err);
	return rc ? rc : rl_metrics_open(l->o->output_dir, l->store, l->run, l->step, &l->metrics_file, err);
}

static double loop_seconds(const struct loop *l)
{
	return l->seconds_before + (double)(clock_ns() - l->start_ns) * 1e-9;
}

static int save(struct loop *l, struct err *err)
{
	if (!loop_is_first(l)) return 0;
	struct checkpoint_state s = {.step = l->step, .extra = json_object()};
	/* Seconds enter a checkpoint only when they decide something: otherwise equal runs must have
	 * equal bytes. */
	if (l->o->max_seconds > 0) json_object_set_new(s.extra, EXTRA_SECONDS, json_real(loop_seconds(l)));
	json_object_set_new(s.extra, "num_tokens", json_integer(l->tokens));
	json_object_set_new(s.extra, "updater", updater_state(l->updater));
	int rc = checkpoint_save(
		l->o->output_dir, l->policy.model, l->policy.adapter, l->optimizer, &s, (int)l->o->save_total_limit, err);
	json_decref(s.extra);
	return rc;
}

/* The rows of a step's answers as the store keeps them; the history learns from the very same. */
static json_t *step_rows(struct loop *l, const struct step_batch *b, struct err *err)
{
	json_t *rows = json_array();
	for (int i = 0; i < b->n; i++) {
		json_t *row = rollout_json(&b->r[i], &l->prompts);
		json_array_append_new(rows, row);
		if (!history_add(l->history, l->step, row, err)) continue;
		json_decref(rows);
		return NULL;
	}
	return rows;
}

static int record(struct loop *l, const json_t *rows, const json_t *metrics, struct err *err)
{
	int rc = store_begin(l->store, err);
	for (size_t i = 0; !rc && i < json_array_size(rows); i++)
		rc = store_sample_put(l->store, l->run, l->step, (int64_t)i, json_array_get(rows, i), err);
	if (!rc) rc = store_metrics_put(l->store, l->run, l->step, metrics, err);
	if (!rc) rc = store_commit(l->store, err);
	if (!rc) rl_metrics_put(l->metrics_file, metrics);
	/* A step that the store has is not asked for again. */
	if (!rc && l->author.outside) rc = outside_forget(l->author.outside, err);
	return rc;
}

/* Supervised updates on the buffer, behind those of the answers themselves. */
static int step_replay(struct loop *l, struct update_stats *u, struct err *err)
{
	int rc = 0;
	const struct rl_options *o = l->o;
	const struct sft_example **e = xcalloc((size_t)o->replay_batch_size, sizeof *e);
	for (int k = 0; !rc && k < o->replay_updates; k++) {
		bool is_ready = history_unique(l->history) + (int64_t)l->pairs.train.count >= o->replay_min;
		int n = is_ready ? history_replay(l->history, l->step, k, (int)o->replay_batch_size, e) : 0;
		rc = updater_fit(l->updater, e, n, o->replay_rate, o->replay_weight, u, err);
	}
	free(e);
	return rc;
}

static int weights_save(struct loop *l, const char *name, struct err *err)
{
	char *path = path_join(l->o->output_dir, name);
	int rc = policy_save(&l->policy, l->o->policy.model, path, err);
	free(path);
	return rc;
}

/* Dev and guards: what the step's row says about the run. The best weights on dev are kept. */
static int step_watch(struct loop *l, json_t *m, struct err *err)
{
	const struct rl_options *o = l->o;
	char begins[512] = "";
	json_t *alarms = json_array();
	bool is_due = o->eval_steps > 0 && l->step % o->eval_steps == 0;
	int rc = is_due ? step_evaluate(l, m, err) : 0;
	if (!loop_is_first(l)) {
		json_decref(alarms);
		return rc;
	}
	guard_add(&l->guard, l->step, m, alarms, begins, sizeof begins);
	if (json_array_size(alarms)) json_object_set(m, "alarms", alarms);
	if (l->guard.stops) json_object_set_new(m, "stopped", json_string(l->guard.why));
	if (*begins) log_warn("%s", begins);
	json_decref(alarms);
	if (!rc && is_due && guard_is_best(&l->guard, l->step)) rc = weights_save(l, "best", err);
	return rc;
}

/* Of a step's parts. */
static double step_clock(const struct loop *l) { return l->o->clock ? l->o->clock() : 1e-9 * (double)clock_ns(); }

/* The updates of a step; nobody times anything on their GPU meanwhile. */
static int step_update(
	struct loop *l, const struct step_batch *b, struct update_stats *u, json_t **rows, struct err *err)
{
	bool trains = !l->author.outside;
	int lock, rc = gpu_hold(trains ? l->policy.ops->uuid : NULL, "update", &lock, err);
	if (!rc && trains)
		rc = updater_run(l->updater, b->r, b->kept, &l->prompts, l->policy.tokenizer, l->rule.is_split, u, err);
	/* The rows that it was made from, as the store keeps them; what is kept of them
	 * is learned from next. */
	*rows = rc ? NULL : step_rows(l, b, err);
	if (!rc && !*rows) rc = err->code;
	if (!rc) rc = step_replay(l, u, err);
	gpu_let_go(lock);
	return rc ? rc : update_stats_join(l->ranks, u, err);
}

/* What the verdicts since the last step spent where, by the clocks of the threads that grade. */
static void put_verdict_steps(struct loop *l, json_t *m)
{
	struct verify_times now;
	verifier_times(l->verifier, &now);
	for (enum verify_step i = 0; i < VERIFY_STEP_COUNT; i++) {
		char key[96];
		snprintf(key, sizeof key, RL_VERDICT_STEP "%s", verify_step_name(i));
		put_number(m, key, now.wall_s[i] - l->verified.wall_s[i]);
	}
	put_number(m, RL_VERDICT_STEP "made", (double)(now.count - l->verified.count));
	l->verified = now;
}

/* Everything behind generation: updates, rows, metrics. l->step is this step's number. */
static int step_learn(
	struct loop *l, struct step_batch *b, double generate_s, metrics_fn *metrics, void *ctx, struct err *err)
{
	struct update_stats u = {0};
	json_t *rows = NULL;
	bool trains = !l->author.outside;
	double t0 = step_clock(l);
	int rc = step_update(l, b, &u, &rows, err);
	if (rc) {
		json_decref(rows);
		return rc;
	}
	double update_s = step_clock(l) - t0;
	/* The step's metrics: of its samples, of the optimiser and of the prompts' history. The guards
	 * look at them before the times are added, and may end the run. */
	l->tokens += u.tokens;
	json_t *m = step_metrics(l->o, &l->rule, &l->prompts, b, trains ? &u : NULL);
	json_object_set_new(m, "step", json_integer(l->step));
	json_object_set_new(m, "num_tokens", json_integer(l->tokens));
	if (trains) put_number(m, "learning_rate", optimizer_lr(l->optimizer, MAX(0, optimizer_steps(l->optimizer) - 1)));
	history_metrics(l->history, l->step, m);
	rc = step_watch(l, m, err);
	/* Where the step's seconds went; verdicts are waited for inside generation. */
	put_number(m, "timing_s/generate_and_verify", generate_s);
	put_number(m, "timing_s/generate", l->times.generate_s);
	put_number(m, "timing_s/idle", l->times.idle_s);
	put_number(m, "timing_s/verdicts", l->times.verify_s);
	put_verdict_steps(l, m);
	put_number(m, "timing_s/update", update_s);
	put_number(m, "step_time", generate_s + step_clock(l) - t0);
	/* Rows and metrics go to the store in one transaction before anybody hears of them. */
	if (!rc && loop_is_first(l)) rc = record(l, rows, m, err);
	if (!rc && metrics && loop_is_first(l)) rc = metrics(ctx, l->step, m);
	json_decref(m);
	json_decref(rows);
	return rc;
}

static int step(struct loop *l, metrics_fn *metrics, void *ctx, struct err *err)
{
	struct step_batch b;
	double t0 = step_clock(l);
	l->times = (struct rollout_times){.clock = l->o->clock};
	if (l->o->max_steps <= 0 && l->optimizer) optimizer_pace(l->optimizer, l->seconds / l->o->max_seconds);
	int rc = step_collect(l, &b, err);
	if (rc) return rc;
	l->step++;
	rc = step_learn(l, &b, step_clock(l) - t0, metrics, ctx, err);
	step_batch_release(&b);
	return rc;
}

/* The first rank's clock and guards are all ranks'. */
static int step_settle(struct loop *l, bool *is_finished, struct err *err)
{
	const struct rl_options *o = l->o;
	double own[2] = {loop_is_first(l) ? loop_seconds(l) : 0, loop_is_first(l) && l->guard.stops};
	int rc = ranks_add(l->ranks, own, ARRAY_LEN(own), err);
	l->seconds = own[0];
	*is_finished = own[1] > 0 || (o->max_steps > 0 && l->step >= o->max_steps) ||
		(o->max_seconds > 0 && l->seconds >= o->max_seconds);
	return rc;
}
int rl_run(const struct rl_options *o, metrics_fn *metrics, void *ctx, struct err *err)
{
	struct loop l = {.o = o, .start_ns = clock_ns()};
	bool is_finished = false;
	int rc = loop_open(&l, err);
	if (!rc) rc = resume(&l, err);
	bool trains = !l.author.outside;
	if (!rc) rc = step_settle(&l, &is_finished, err);
	while (!rc && !is_finished) {
		rc = step(&l, metrics, ctx, err);
		if (!rc && trains && o->save_steps > 0 && l.step % o->save_steps == 0) rc = save(&l, err);
		if (!rc) rc = step_settle(&l, &is_finished, err);
	}
	if (!rc && trains) rc = save(&l, err);
	if (!rc && trains && loop_is_first(&l)) rc = weights_save(&l, "final", err);
	if (!rc) rc = ranks_meet(l.ranks, err);
	ranks_close(l.ranks, rc ? err : NULL);
	if (l.guard.stops) log_warn("%s", l.guard.why);
	loop_release(&l);
	return rc;
}
