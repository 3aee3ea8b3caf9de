/* Supervised fine-tuning: cross-entropy on completions, averaged over the completion tokens of an
 * optimiser step.
 *
 * Everything is a function of (options, examples, step): order and packing (sft_plan.c), dropout
 * masks, schedule. A run that was killed loads its newest checkpoint and goes on with the next
 * step; what it writes from there has the bytes of a run that was never stopped. A checkpoint
 * remembers the settings it was made with and refuses others.
 *
 * With ranks the micro-batches of a step are shared out, each rank's gradients are of its share,
 * and their sum in rank order is the step's. All else, plan and schedule and held-out minimum,
 * every rank knows by itself; the clock is rank 0's. */
#include "train/train_internal.h"
#include "base/base.h"
#include "model/model.h"
#include "ranks/ranks.h"

#include <math.h>
#include <stdlib.h>

struct sft {
	struct model *model;
	struct adapter *adapter;
	const struct sft_example *train;   /* (ntrain) */
	const struct sft_example *heldout; /* (nheldout) */
	size_t ntrain;
	size_t nheldout;
	const struct sft_options *o;
	metrics_fn *metrics;
	void *metrics_ctx;
	struct optimizer *optimizer;
	struct pass *pass;
	struct sft_batch batch;
	uint8_t *hits; /* (max_tokens) whether the largest logit was the target's */
	struct epoch_plan plan;
	int64_t plan_epoch; /* its number */
	int64_t plan_step;  /* its first step */
	int64_t total_steps;
	struct sha256_hex weights; /* of the start: before a checkpoint is loaded */
	uint64_t begin_ns;
	double loss_scale; /* 1 / completion tokens of this step */
	double step_loss;  /* summed over the step's rows, times loss_scale */
	int64_t step_rows; /* completion tokens of this step */
	int64_t step_hits;
	/* what a checkpoint keeps */
	int64_t step;
	int64_t num_tokens; /* trained on so far */
	int64_t best_step;  /* of the lowest held-out loss */
	int64_t bad_evals;  /* evaluations since then */
	double best_loss;
	double seconds_before; /* spent by the parts of the run before this one */
	double seconds;        /* spent so far, by rank 0's clock: as of the last step's end */
	bool stopped_early;    /* at the held-out minimum */
	bool ends;             /* after this step: the last one, out of time, or the caller said so */
};

/* ---- the plan of a whole run ---- */

static int64_t steps_of(const struct sft *s)
{
	size_t accumulation = (size_t)s->o->gradient_accumulation_steps;
	return (int64_t)((s->plan.nmicro + accumulation - 1) / accumulation);
}

static void plan_set(struct sft *s, int64_t epoch)
{
	if (s->plan_epoch == epoch && s->plan.order) return;
	epoch_plan_make(&s->plan, s->train, s->ntrain, s->o->max_tokens, true, s->o->seed, epoch);
	s->plan_epoch = epoch;
}

/* Steps until epochs or max_steps end; epochs differ in length because they are packed anew. */
static int64_t count_steps(struct sft *s)
{
	int64_t total = 0;
	double left = s->o->num_train_epochs;
	for (int64_t e = 0; left > 0 && (!s->o->max_steps || total < s->o->max_steps); e++, left -= 1) {
		plan_set(s, e);
		total += left >= 1 ? steps_of(s) : (int64_t)ceil(left * (double)steps_of(s));
	}
	if (s->o->num_train_epochs <= 0) return s->o->max_steps ? s->o->max_steps : INT64_MAX;
	return s->o->max_steps ? MIN(total, s->o->max_steps) : total;
}

int64_t sft_total_steps(const struct sft_example *train, size_t ntrain, const struct sft_options *o)
{
	struct sft s = {.train = train, .ntrain = ntrain, .o = o};
	int64_t total = count_steps(&s);
	epoch_plan_release(&s.plan);
	return total;
}

/* Makes the plan of the epoch that holds the current step; returns the step's number inside it.
 * Steps only go forward. */
static int64_t locate(struct sft *s)
{
	while (s->step >= s->plan_step + steps_of(s)) {
		s->plan_step += steps_of(s);
		plan_set(s, s->plan_epoch + 1);
	}
	return s->step - s->plan_step;
}

/* ---- one step ---- */

static void step_loss(void *ctx, int begin, int n, const float *logprob, const float *entropy, float *g)
{
	struct sft *s = ctx;
	const struct loss_options o = {.type = LOSS_SFT};
	const struct loss_row row = {.normaliser = (float)s->loss_scale, .weight = 1};
	for (int i = 0; i < n; i++) {
		loss_row_value(&o, &row, logprob[i], &g[i]);
		s->step_loss -= logprob[i] * s->loss_scale;
	}
}

static uint64_t dropout_seed(const struct sft *s, size_t micro)
{
	struct rng_block b = rng_philox(s->o->seed, (uint64_t)s->step, (1ull << 32) | micro);
	return ((uint64_t)b.v[0] << 32 | b.v[1]) | 1; /* never 0, which means none */
}

static void micro_run(struct sft *s, size_t i, bool wants_hits)
{
	const struct epoch_plan *p = &s->plan;
	struct sft_batch *b = &s->batch;
	sft_batch_pack(b, s->train, p->order + p->micro[i], p->micro[i + 1] - p->micro[i]);
	struct batch batch = {b->ids, {b->T, b->S, b->start, b->pos, NULL}};
	pass_forward(s->pass, s->adapter, &batch, s->adapter ? dropout_seed(s, i) : 0);
	if (wants_hits) pass_want_hits(s->pass, s->hits);
	pass_backward(s->pass, b->rows, b->n, 1, step_loss, s);
	for (int k = 0; wants_hits && k < b->n; k++) s->step_hits += s->hits[k];
}

/* The gradients of all ranks' micro-batches [begin, end), and what they say of the step. */
static int step_gradients(struct sft *s, size_t begin, size_t end, bool wants_hits, struct err *err)
{
	int64_t from, to;
	ranks_share(s->o->ranks, (int64_t)(end - begin), &from, &to);
	for (int64_t i = from; i < to; i++) micro_run(s, begin + (size_t)i, wants_hits);
	double seen[2] = {s->step_loss, (double)s->step_hits};
	int rc = optimizer_gather(s->optimizer, s->o->ranks, err);
	if (!rc) rc = ranks_add(s->o->ranks, seen, ARRAY_LEN(seen), err);
	s->step_loss = seen[0];
	s->step_hits = (int64_t)seen[1];
	return rc;
}

static int train_step(struct sft *s, double *epoch, bool wants_hits, double *norm, struct err *err)
{
	int64_t within = locate(s);
	size_t accumulation = (size_t)s->o->gradient_accumulation_steps, begin = (size_t)within * accumulation,
		   end = MIN(begin + accumulation, s->plan.nmicro);
	s->step_rows = s->step_hits = 0;
	s->step_loss = 0;
	for (size_t k = s->plan.micro[begin]; k < s->plan.micro[end]; k++) {
		s->step_rows += sft_example_rows(&s->train[s->plan.order[k]]);
		s->num_tokens += s->train[s->plan.order[k]].count;
	}
	s->loss_scale = 1.0 / (double)s->step_rows;
	int rc = step_gradients(s, begin, end, wants_hits, err);
	*epoch = (double)s->plan_epoch + (double)(within + 1) / (double)steps_of(s);
	if (!rc) *norm = optimizer_step(s->optimizer);
	return rc;
}

/* ---- evaluation ---- */

int sft_evaluate(struct pass *p, struct adapter *a, struct ranks *ranks, const struct sft_example *examples, size_t n,
	int max_tokens, double *loss, double *accuracy, struct err *err)
{
	struct epoch_plan plan = {0};
	struct sft_batch b;
	float *logprob = xcalloc((size_t)max_tokens, sizeof *logprob);
	uint8_t *hits = xcalloc((size_t)max_tokens, 1);
	double seen[3] = {0}; /* log-loss, rows, rows whose target was the likeliest token */
	int64_t from, to;
	/* Examples are packed in the given order, as a mean does not depend on it. */
	sft_batch_init(&b, max_tokens);
	epoch_plan_make(&plan, examples, n, max_tokens, false, 0, 0);
	ranks_share(ranks, (int64_t)plan.nmicro, &from, &to);
	for (size_t i = (size_t)from; i < (size_t)to; i++) {
		/* The passes see each example as in training, but without dropout and without gradients. */
		sft_batch_pack(&b, examples, plan.order + plan.micro[i], plan.micro[i + 1] - plan.micro[i]);
		pass_forward(p, a, &(struct batch){b.ids, {b.T, b.S, b.start, b.pos, NULL}}, 0);
		pass_want_hits(p, hits);
		pass_logprobs(p, b.rows, b.n, 1, logprob, NULL);
		for (int k = 0; k < b.n; k++, seen[1]++) {
			seen[0] -= logprob[k];
			seen[2] += hits[k];
		}
	}
	int rc = ranks_add(ranks, seen, ARRAY_LEN(seen), err);
	/* Both figures are means over all target rows, so long answers count by their length. */
	*loss = seen[1] > 0 ? seen[0] / seen[1] : 0;
	*accuracy = seen[1] > 0 ? seen[2] / seen[1] : 0;
	epoch_plan_release(&plan);
	sft_batch_release(&b);
	free(logprob);
	free(hits);
	return rc;
}

/* Whether this process writes into the run's folder. */
static bool is_writer(const struct sft *s) { return ranks_rank(s->o->ranks) == 0; }

static int best_save(struct sft *s, struct err *err)
{
	char *final = path_join(s->o->output_dir, "best"), *tmp = path_join(s->o->output_dir, "best.tmp");
	int rc = path_exists(tmp) ? dir_remove(tmp, err) : 0;
	if (!rc) rc = s->adapter ? adapter_save(s->adapter, tmp, NULL, err) : model_save(s->model, tmp, err);
	if (!rc) rc = folder_publish(tmp, final, err);
	free(final);
	free(tmp);
	return rc;
}

static int best_load(struct sft *s, struct err *err)
{
	int n;
	struct param *params = s->adapter ? adapter_params(s->adapter, &n) : model_params(s->model, &n);
	char *path = path_join(s->o->output_dir, "best");
	int rc = params_load(model_ops(s->model), params, n, path, err);
	free(path);
	return rc;
}

/* JSON has no NaN. */

static int evaluate(struct sft *s, json_t *metrics, struct err *err)
{
	double loss, accuracy;
	int rc = sft_evaluate(
		s->pass, s->adapter, s->o->ranks, s->heldout, s->nheldout, s->o->max_tokens, &loss, &accuracy, err);
	if (rc) return rc;
	json_object_set_new(metrics, "eval_loss", json_finite(loss));
	json_object_set_new(metrics, "eval_mean_token_accuracy", json_real(accuracy));
	if (!s->o->stop_at_eval_minimum) return 0;
	if (!isfinite(loss) || (s->best_step && loss >= s->best_loss)) {
		s->stopped_early |= ++s->bad_evals >= MAX(1, s->o->patience);
		return 0;
	}
	s->best_loss = loss;
	s->best_step = s->step;
	s->bad_evals = 0;
	return is_writer(s) ? best_save(s, err) : 0;
}

/* ---- checkpoints ---- */

/* Nothing but the clock ends the run. */
static bool is_paced(const struct sft *s) { return s->total_steps == INT64_MAX; }

static double seconds_spent(const struct sft *s)
{
	return s->seconds_before + (double)(clock_ns() - s->begin_ns) / 1e9;
}

static struct sha256_hex examples_hash(const struct sft_example *e, size_t n)
{
	struct str bytes = {0};
	for (size_t i = 0; i < n; i++) {
		str_append(&bytes, &e[i].completion_begin, sizeof(int));
		str_append(&bytes, e[i].ids, (size_t)e[i].count * sizeof(int32_t));
	}
	struct sha256_hex hash = hash_bytes(bytes.data ? bytes.data : "", bytes.len);
	str_release(&bytes);
	return hash;
}

/* By what the best weights are chosen and the end is found; null where neither is asked for. */
static json_t *minimum_json(const struct sft *s)
{
	if (!s->o->stop_at_eval_minimum) return json_null();
	return json_sprintf("patience %d, eval_steps %lld, held-out examples %s", s->o->patience,
		(long long)s->o->eval_steps, examples_hash(s->heldout, s->nheldout).text);
}

/* What must not change between the parts of a run. */
static json_t *settings_json(const struct sft *s)
{
	const struct sft_options *o = s->o;
	const struct optimizer_options *p = &o->optimizer;
	bool is_constant = !strncmp(p->lr_scheduler_type, "constant", 8);
	struct sha256_hex hash = examples_hash(s->train, s->ntrain);
	json_t *j = json_pack("{s:f, s:f, s:f, s:f, s:f, s:f, s:s, s:I, s:i, s:i, s:I, s:s}", "learning_rate",
		p->learning_rate, "adam_beta1", p->adam_beta1, "adam_beta2", p->adam_beta2, "adam_epsilon", p->adam_epsilon,
		"weight_decay", p->weight_decay, "max_grad_norm", p->max_grad_norm, "lr_scheduler_type", p->lr_scheduler_type,
		"warmup_steps", (json_int_t)p->warmup_steps, "max_tokens", o->max_tokens, "gradient_accumulation_steps",
		o->gradient_accumulation_steps, "seed", (json_int_t)o->seed, "examples", hash.text);
	if (s->o->fixed) json_object_update(j, s->o->fixed);
	json_object_set_new(j, "ranks", json_integer(ranks_count(s->o->ranks)));
	json_object_set_new(j, "weights", json_string(s->weights.text));
	json_object_set_new(j, "stop_at_eval_minimum", minimum_json(s));
	json_object_set_new(j, "schedule_steps", json_integer(is_constant || is_paced(s) ? 0 : s->total_steps));
	return j;
}

static int settings_check(const json_t *old, json_t *now, struct err *err)
{
	const char *key;
	json_t *v;
	json_object_foreach(now, key, v)
	{
		const json_t *w = json_object_get(old, key);
		/* A checkpoint that is older than a setting was made without it. */
		if (json_equal(w, v) || (!w && json_is_null(v))) continue;
		if (!strcmp(key, "weights")) key = "weights (hash of the model and adapter at the start)";
		const size_t form = JSON_ENCODE_ANY | JSON_AS_WRITTEN;
		char *was = w ? json_dumps(w, form) : NULL, *is = json_dumps(v, form);
		err_set(err, ERR_MISMATCH,
			"the checkpoint was made with %s %s, now it is %s; continue with the same settings or choose another "
			"output_dir",
			key, was ? was : "absent", is);
		free(was);
		free(is);
		return ERR_MISMATCH;
	}
	return 0;
}

static int save(struct sft *s, struct err *err)
{
	if (!is_writer(s)) return 0;
	struct checkpoint_state state = {.step = s->step,
		.extra = json_pack("{s:I, s:I, s:I, s:f, s:b, s:o}", "num_tokens", (json_int_t)s->num_tokens, "best_step",
			(json_int_t)s->best_step, "bad_evals", (json_int_t)s->bad_evals, "best_loss", s->best_loss, "stopped_early",
			s->stopped_early, "settings", settings_json(s))};
	/* Seconds enter only when they decide something: otherwise equal runs must have equal bytes. */
	if (s->o->max_seconds > 0) json_object_set_new(state.extra, "seconds", json_real(s->seconds));
	int rc = checkpoint_save(s->o->output_dir, s->model, s->adapter, s->optimizer, &state, s->o->save_total_limit, err);
	json_decref(state.extra);
	return rc;
}

static int resume(struct sft *s, struct err *err)
{
	struct checkpoint_state state = {0};
	struct err quiet = {0};
	json_t *now = settings_json(s);
	char *text = json_dumps(now, JSON_SORT_KEYS);
	int rc = ranks_agree(s->o->ranks, "settings", text, err);
	free(text);
	/* No checkpoint is no error: the run begins. */
	if (!rc) {
		rc = checkpoint_load(s->o->output_dir, s->model, s->adapter, s->optimizer, s->o->ranks, &state, &quiet);
		if (rc && rc != ERR_NOT_FOUND) err_set(err, rc, "%s", quiet.text);
	}
	if (rc) {
		json_decref(now);
		return rc == ERR_NOT_FOUND ? 0 : rc;
	}
	/* The same settings, or the bytes of an uninterrupted run could not follow. */
	int64_t best_step = 0, bad = 0, tokens = 0;
	rc = settings_check(json_object_get(state.extra, "settings"), now, err);
	if (!rc) rc = json_get_int(state.extra, "trainer_state.json", "num_tokens", 0, INT64_MAX, &tokens, err);
	if (!rc) rc = json_opt_int(state.extra, "trainer_state.json", "best_step", 0, INT64_MAX, &best_step, err);
	if (!rc) rc = json_opt_int(state.extra, "trainer_state.json", "bad_evals", 0, INT64_MAX, &bad, err);
	if (!rc) rc = json_opt_num(state.extra, "trainer_state.json", "best_loss", &s->best_loss, err);
	if (!rc) rc = json_opt_num(state.extra, "trainer_state.json", "seconds", &s->seconds_before, err);
	if (!rc) rc = json_opt_bool(state.extra, "trainer_state.json", "stopped_early", &s->stopped_early, err);
	s->step = state.step;
	s->num_tokens = tokens;
	s->best_step = best_step;
	s->bad_evals = bad;
	s->seconds = s->seconds_before;
	if (!rc && is_writer(s)) log_info("continuing %s from step %lld", s->o->output_dir, (long long)s->step);
	json_decref(now);
	json_decref(state.extra);
	return rc;
}

/* ---- the loop ---- */

static bool is_due(int64_t every, int64_t step) { return every > 0 && step % every == 0; }

static bool is_out_of_time(const struct sft *s) { return s->o->max_seconds > 0 && s->seconds >= s->o->max_seconds; }

/* Where time decides something all ranks go by the first one's clock. */
static int clock_read(struct sft *s, struct err *err)
{
	if (s->o->max_seconds <= 0) return 0;
	double seconds = is_writer(s) ? seconds_spent(s) : 0; /* of the others nothing is added */
	int rc = ranks_add(s->o->ranks, &seconds, 1, err);
	s->seconds = seconds;
	return rc;
}

static json_t *step_metrics(const struct sft *s, double epoch, double norm, bool has_hits)
{
	json_t *j = json_pack("{s:o, s:o, s:f, s:I, s:f}", "loss", json_finite(s->step_loss), "grad_norm",
		json_finite(norm), "learning_rate", optimizer_lr(s->optimizer, s->step - 1), "num_tokens",
		(json_int_t)s->num_tokens, "epoch", epoch);
	if (has_hits) json_object_set_new(j, "mean_token_accuracy", json_real((double)s->step_hits / (double)s->step_rows));
	return j;
}

static int one_step(struct sft *s, struct err *err)
{
	/* The rate follows the clock where the run's end is a time, and the steps otherwise. */
	double epoch, norm = 0;
	bool logs = is_due(MAX(1, s->o->logging_steps), s->step + 1) || s->step + 1 >= s->total_steps;
	if (is_paced(s)) optimizer_pace(s->optimizer, s->seconds / s->o->max_seconds);
	int rc = train_step(s, &epoch, logs, &norm, err);
	if (!rc) rc = clock_read(s, err);
	if (rc) return rc;
	if (!isfinite(norm) && is_writer(s))
		log_warn("step %lld: the gradient is not finite; the update was skipped", (long long)s->step + 1);

	/* Held-out rows are looked at first: an early stop is theirs to call. */
	s->step++;
	s->ends = s->step >= s->total_steps || is_out_of_time(s);
	bool evaluates = s->nheldout && (is_due(s->o->eval_steps, s->step) || s->ends);
	json_t *metrics = step_metrics(s, epoch, norm, logs);
	rc = evaluates ? evaluate(s, metrics, err) : 0;
	s->ends |= s->stopped_early;
	if (!rc && s->metrics && is_writer(s) && (logs || evaluates || s->ends))
		s->ends |= s->metrics(s->metrics_ctx, s->step, metrics) != 0;
	json_decref(metrics);

	/* Who writes metrics may want to stop; the ranks stop together or not at all. */
	double ends = is_writer(s) && s->ends;
	if (!rc) rc = ranks_add(s->o->ranks, &ends, 1, err);
	s->ends = ends > 0;
	if (!rc && (is_due(s->o->save_steps, s->step) || s->ends)) rc = save(s, err);
	return rc;
}

int sft_check(const struct sft_example *train, size_t ntrain, const struct sft_example *heldout, size_t nheldout,
	const struct sft_options *o, int ranks, struct err *err)
{
	if (!ntrain) return err_set(err, ERR_USAGE, "no training examples");
	if (o->max_tokens < 2 || o->gradient_accumulation_steps < 1)
		return err_set(err, ERR_USAGE, "max_tokens %d and gradient_accumulation_steps %d; expected at least 2 and 1",
			o->max_tokens, o->gradient_accumulation_steps);
	if (o->gradient_accumulation_steps % ranks)
		return err_set(err, ERR_USAGE,
			"gradient_accumulation_steps %d with %d ranks; expected a multiple: the micro-batches of a step are shared "
			"out",
			o->gradient_accumulation_steps, ranks);
	if (o->max_steps <= 0 && o->num_train_epochs <= 0 && o->max_seconds <= 0)
		return err_set(
			err, ERR_USAGE, "none of num_train_epochs, max_steps and max_seconds is set: the run would never end");
	if (o->stop_at_eval_minimum && !nheldout)
		return err_set(err, ERR_USAGE, "stop_at_eval_minimum needs held-out examples");
	/* An example that fits no batch is named now, not in the step that meets it. */
	for (int which = 0; which < 2; which++) {
		const struct sft_example *e = which ? heldout : train;
		for (size_t i = 0; i < (which ? nheldout : ntrain); i++)
			if (e[i].count > o->max_tokens || sft_example_rows(&e[i]) < 1)
				return err_set(err, ERR_LIMIT,
					"%s example %zu has %d tokens, completion from %d; expected at most max_tokens %d and one token to "
					"learn",
					which ? "held-out" : "training", i, e[i].count, e[i].completion_begin, o->max_tokens);
	}
	return 0;
}

static int sft_init(struct sft *s, struct err *err)
{
	struct pass_options po = {.max_tokens = s->o->max_tokens, .backward = true, .recompute = s->o->recompute};
	int rc = pass_create(s->model, &po, &s->pass, err), n;
	if (rc) return rc;
	model_enable_grad(s->model, s->adapter);
	struct param *params = s->adapter ? adapter_params(s->adapter, &n) : model_params(s->model, &n);
	struct optimizer_options oo = s->o->optimizer;
	s->total_steps = count_steps(s);
	plan_set(s, 0);
	oo.max_steps = s->total_steps;
	s->optimizer = optimizer_create(model_ops(s->model), params, n, &oo);
	sft_batch_init(&s->batch, s->o->max_tokens);
	s->hits = xcalloc((size_t)s->o->max_tokens, 1);
	s->weights = weights_fingerprint(s->model, s->adapter);
	rc = is_writer(s) ? dir_make(s->o->output_dir, err) : 0;
	return rc ? rc : resume(s, err);
}

int sft_run(struct model *m, struct adapter *a, const struct sft_example *train, size_t ntrain,
	const struct sft_example *heldout, size_t nheldout, const struct sft_options *o, metrics_fn *metrics, void *ctx,
	struct err *err)
{
	struct sft s = {.model = m,
		.adapter = a,
		.train = train,
		.ntrain = ntrain,
		.heldout = heldout,
		.nheldout = nheldout,
		.o = o,
		.metrics = metrics,
		.metrics_ctx = ctx,
		.begin_ns = clock_ns()};
	int rc = sft_check(train, ntrain, heldout, nheldout, o, ranks_count(o->ranks), err);
	if (!rc) rc = sft_init(&s, err);
	if (!rc) rc = clock_read(&s, err);
	s.ends = s.stopped_early || s.step >= s.total_steps || is_out_of_time(&s);
	while (!rc && !s.ends) rc = one_step(&s, err);
	if (!rc && o->stop_at_eval_minimum && s.best_step && is_writer(&s)) rc = best_load(&s, err);
	optimizer_free(s.optimizer);
	pass_free(s.pass);
	sft_batch_release(&s.batch);
	epoch_plan_release(&s.plan);
	free(s.hits);
	return rc;
}
