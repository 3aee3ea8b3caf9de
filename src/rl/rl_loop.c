/* The loop: resume, steps, checkpoints, metrics. A step is pure in (options, weights, step number):
 * what it draws and in which order does not depend on timing, so kill -9 and a second start give
 * the bytes of the uninterrupted run (with max_seconds = 0). */
#include "rl/rl_internal.h"
#include "agent/agent.h"
#include "base/base.h"
#include "infer/infer.h"
#include "model/model.h"
#include "ops/ops.h"
#include "store/store.h"
#include "text/text.h"
#include "train/train.h"
#include "verify/verdict.h"
#include "verify/verify.h"

#include <math.h>
#include <stdlib.h>

#define EXTRA_SECONDS "seconds"

struct loop {
	const struct rl_options *o;
	struct ops *ops;
	struct model *model;
	struct adapter *adapter;
	struct optimizer *optimizer;
	struct tokenizer *tokenizer;
	struct engine *engine;
	struct verifier *verifier;
	struct updater *updater;
	struct store *store;
	struct prompt_set prompts;
	const struct chat_template *chat;
	const struct reward_rule *rule;
	enum advantage_type advantage;
	enum loss_type loss;
	int32_t stop_id;
	int64_t run, step;
	double seconds_before; /* of earlier starts of this run */
	uint64_t start_ns;
	int64_t tokens;
	FILE *metrics_file;
};

static int options_check(const struct rl_options *o, struct loop *l, struct err *err)
{
	if (!o->model) return err_set(err, ERR_USAGE, "--model is missing: name a model folder");
	if (!o->tasks) return err_set(err, ERR_USAGE, "--tasks is missing: name a task file or folder");
	if (!o->output_dir && !o->dry_run) return err_set(err, ERR_USAGE, "--output_dir is missing: name the run's folder");
	if (o->adapter && !o->use_peft) return err_set(err, ERR_USAGE, "--adapter and --no-use_peft exclude each other");
	if (o->generation_batch_size < o->num_generations || o->generation_batch_size % o->num_generations)
		return err_set(err, ERR_USAGE, "--generation_batch_size %lld: expected a multiple of num_generations (%lld)",
			(long long)o->generation_batch_size, (long long)o->num_generations);
	if (o->max_steps <= 0 && o->max_seconds <= 0)
		return err_set(err, ERR_USAGE, "neither --max_steps nor --max_seconds is set: the run would never end");
	l->rule = reward_rule_find(o->reward);
	if (!l->rule) return err_set(err, ERR_USAGE, "--reward %s: no such row in the reward table", o->reward);
	int rc = advantage_type_from_name(o->advantage, &l->advantage, err);
	return rc ? rc : loss_type_from_name(o->loss_type, &l->loss, err);
}

static int open_model(struct loop *l, struct err *err)
{
	const struct rl_options *o = l->o;
	struct device_options d = {.device = o->device,
		.cuda_libs = o->cuda_libs,
		.threads = (int)o->threads,
		.adapters = &o->adapter,
		.nadapters = 1,
		.new_rank = o->use_peft ? (int)o->lora_r : 0};
	int rc = device_open(&d, &l->ops, err);
	if (!rc) rc = model_open(o->model, l->ops, &l->model, err);
	if (!rc) rc = tokenizer_open(o->model, &l->tokenizer, err);
	if (rc || !o->use_peft) return rc;
	struct adapter_options a = {
		.r = (int)o->lora_r,
		.lora_alpha = o->lora_alpha,
		.lora_dropout = o->lora_dropout,
		.target_modules = o->lora_target_modules,
		.seed = (uint64_t)o->seed,
	};
	return o->adapter ? adapter_open(l->model, o->adapter, &l->adapter, err)
					  : adapter_create(l->model, &a, &l->adapter, err);
}

static struct prompt_options prompt_options_of(const struct loop *l)
{
	const struct rl_options *o = l->o;
	return (struct prompt_options){
		.tasks = o->tasks,
		.split = o->split,
		.stage = o->stage,
		.prompt_template = o->prompt_template,
		.chat_template = l->chat,
		.chat_date = o->chat_date,
		.precision = o->precision,
		.level = (int)o->level,
		.limit = o->limit,
		.seed = (uint64_t)o->seed,
		.max_prompt_length = o->max_prompt_length,
		.truncate_prompts = o->truncate_prompts,
	};
}

static int longest_prompt(const struct prompt_set *s)
{
	size_t n = 0;
	for (size_t i = 0; i < s->count; i++) n = MAX(n, s->rows[i].ids.count);
	return (int)n;
}

static int open_prompts(struct loop *l, struct err *err)
{
	int rc = chat_template_find(l->o->chat_template, l->o->model, &l->chat, err);
	if (!rc) rc = chat_date_check(l->chat, l->o->chat_date, err);
	if (!rc && chat_end_id(l->chat, l->tokenizer, &l->stop_id, err)) rc = err_prefix(err, "%s", l->o->model);
	if (rc) return rc;
	struct prompt_options p = prompt_options_of(l);
	rc = prompt_set_load(&p, l->tokenizer, &l->prompts, err);
	if (rc) return rc;
	int64_t groups = l->o->generation_batch_size / l->o->num_generations;
	if (l->prompts.count < (size_t)groups)
		return err_set(err, ERR_RANGE, "%s: %zu prompts, a step needs %lld; lower --generation_batch_size", l->o->tasks,
			l->prompts.count, (long long)groups);
	int longest = longest_prompt(&l->prompts);
	if (longest + l->o->max_completion_length > l->o->max_tokens)
		return err_set(err, ERR_LIMIT,
			"the longest prompt has %d tokens and an answer up to %lld, but --max_tokens is %lld; raise it or lower "
			"--max_completion_length or --max_prompt_length",
			longest, (long long)l->o->max_completion_length, (long long)l->o->max_tokens);
	if (l->prompts.refused) log_warn("%d prompts longer than max_prompt_length were left out", l->prompts.refused);
	return 0;
}

static int open_trainer(struct loop *l, struct err *err)
{
	const struct rl_options *o = l->o;
	model_enable_grad(l->model, l->adapter);
	int count;
	struct param *params = l->adapter ? adapter_params(l->adapter, &count) : model_params(l->model, &count);
	struct optimizer_options oo = {
		.learning_rate = o->learning_rate,
		.adam_beta1 = o->adam_beta1,
		.adam_beta2 = o->adam_beta2,
		.adam_epsilon = o->adam_epsilon,
		.weight_decay = o->weight_decay,
		.max_grad_norm = o->max_grad_norm,
		.lr_scheduler_type = o->lr_scheduler_type,
		.warmup_steps = o->warmup_steps,
		.max_steps = o->max_steps,
	};
	l->optimizer = optimizer_create(l->ops, params, count, &oo);
	struct updater_options u = {
		.loss = {.type = l->loss,
			.epsilon = (float)o->epsilon,
			.epsilon_high = (float)o->epsilon_high,
			.beta = (float)o->beta},
		.num_iterations = (int)o->num_iterations,
		.max_tokens = (int)o->max_tokens,
		.max_completion_length = (int)o->max_completion_length,
		.temperature = (float)o->temperature,
		.dropout_seed = o->lora_dropout > 0 ? (uint64_t)o->seed + 1 : 0,
		.full_reference = o->beta > 0 && !o->use_peft,
		.reference_model = o->model,
	};
	int rc = updater_create(l->model, l->adapter, l->optimizer, &u, &l->updater, err);
	if (rc) return rc;
	struct engine_options e = {.max_sequences = (int)MIN(o->generation_batch_size, 64),
		.max_context = longest_prompt(&l->prompts) + (int)o->max_completion_length};
	return engine_create(l->model, &e, &l->engine, err);
}

static int open_store(struct loop *l, struct err *err)
{
	const struct rl_options *o = l->o;
	json_t *settings = rl_settings_json(o, l->model, l->adapter, &l->prompts);
	int rc = dir_make(o->output_dir, err);
	if (!rc) rc = rl_settings_settle(o->output_dir, settings, err);
	if (!rc) rc = run_folder_claim(o->output_dir, err);
	json_decref(settings);
	if (rc) return rc;
	char *path = o->store ? xstrdup(o->store) : path_join(o->output_dir, "hone.db");
	rc = store_open(path, &l->store, err);
	free(path);
	json_t *config = options_json(rl_option_defs, rl_option_count, o);
	if (!rc) rc = store_run_open(l->store, o->output_dir, config, &l->run, err);
	json_decref(config);
	struct verify_options v = {
		.device = o->verify_device,
		.gpu = o->gpu,
		.precision = o->precision,
		.threads = (int)o->verify_threads,
		.num_correct_trials = (int)o->num_correct_trials,
		.seed = (uint64_t)o->seed + 0x766572696679,
		.store = l->store,
	};
	return rc ? rc : verifier_create(&v, &l->verifier, err);
}

static int resume(struct loop *l, struct err *err)
{
	struct checkpoint_state s = {0};
	int rc = checkpoint_load(l->o->output_dir, l->model, l->adapter, l->optimizer, &s, err);
	if (rc && rc != ERR_NOT_FOUND) return rc;
	if (!rc) {
		l->step = s.step;
		l->seconds_before = json_number_value(json_object_get(s.extra, EXTRA_SECONDS));
		l->tokens = json_integer_value(json_object_get(s.extra, "num_tokens"));
		log_info("%s: continuing after step %lld", l->o->output_dir, (long long)s.step);
	}
	json_decref(s.extra);
	rc = store_run_truncate(l->store, l->run, l->step, err);
	return rc ? rc : rl_metrics_open(l->o->output_dir, l->store, l->run, l->step, &l->metrics_file, err);
}

static double loop_seconds(const struct loop *l)
{
	return l->seconds_before + (double)(clock_ns() - l->start_ns) * 1e-9;
}

static int save(struct loop *l, struct err *err)
{
	struct checkpoint_state s = {.step = l->step, .extra = json_object()};
	/* Seconds enter a checkpoint only when they decide something: otherwise equal runs must have
	 * equal bytes. */
	if (l->o->max_seconds > 0) json_object_set_new(s.extra, EXTRA_SECONDS, json_real(loop_seconds(l)));
	json_object_set_new(s.extra, "num_tokens", json_integer(l->tokens));
	int rc = checkpoint_save(
		l->o->output_dir, l->model, l->adapter, l->optimizer, &s, (int)l->o->save_total_limit, err);
	json_decref(s.extra);
	return rc;
}

/* Prompts of a step: the next ones of the epoch's permutation, whole chunks only, as TRL's sampler.
 */
static void step_prompts(const struct loop *l, int groups, int *index)
{
	int64_t per_epoch = (int64_t)l->prompts.count / groups, epoch = l->step / per_epoch, chunk = l->step % per_epoch;
	int n = (int)l->prompts.count, *order = xmalloc((size_t)n * sizeof *order);
	struct rng rng = {.seed = (uint64_t)l->o->seed, .stream = 0x65706f6368000000 + (uint64_t)epoch};
	for (int i = 0; i < n; i++) order[i] = i;
	for (int i = n; i > 1; i--) {
		int j = (int)rng_below(&rng, (uint32_t)i), tmp = order[i - 1];
		order[i - 1] = order[j];
		order[j] = tmp;
	}
	memcpy(index, order + chunk * groups, (size_t)groups * sizeof *index);
	free(order);
}

struct rollout_stats {
	double reward, reward_sq, genuine, length, terminated_length, speedup, plan, code;
	int n, terminated, dropped, clipped, min_length, max_length;
};

static struct rollout_stats rollout_stats_of(const struct loop *l, const struct rollout *r, int n)
{
	struct rollout_stats s = {.min_length = INT32_MAX};
	for (int i = 0; i < n; i++) {
		if (r[i].is_dropped) {
			s.dropped++;
			continue;
		}
		int len = r[i].completion.count;
		double reward = l->rule->is_split ? r[i].reward.code + l->rule->alpha * r[i].reward.plan : r[i].reward.code;
		struct reward_input in = {.verdict = &r[i].verdict,
			.baseline_cost_s = l->prompts.rows[r[i].prompt].kernel ? l->prompts.rows[r[i].prompt].profile.cost_s : 0};
		s.n++;
		s.reward += reward;
		s.reward_sq += reward * reward;
		s.plan += r[i].reward.plan;
		s.code += r[i].reward.code;
		s.genuine += r[i].verdict.class == VERDICT_GENUINE;
		s.speedup += reward_speedup(l->rule, &in);
		s.length += len;
		s.min_length = MIN(s.min_length, len);
		s.max_length = MAX(s.max_length, len);
		if (r[i].completion.finish == FINISH_LENGTH) {
			s.clipped++;
			continue;
		}
		s.terminated++;
		s.terminated_length += len;
	}
	return s;
}

static double per(double sum, double n) { return n > 0 ? sum / n : 0; }

/* A number that is not finite (a run that diverged) is null: JSON has no other way to say so. */
static void put_number(json_t *m, const char *key, double x)
{
	json_object_set_new(m, key, isfinite(x) ? json_real(x) : json_null());
}

static json_t *step_metrics(struct loop *l, const struct rollout *r, int n, int groups, int dropped_groups,
	const struct update_stats *u, double generate_s, double update_s)
{
	struct rollout_stats s = rollout_stats_of(l, r, n);
	double mean = per(s.reward, s.n), var = s.n > 1 ? fmax(0, (s.reward_sq - s.n * mean * mean) / (s.n - 1)) : 0,
		   rows = (double)u->loss.rows;
	json_t *m = json_pack("{s:I, s:I, s:i, s:i, s:i}", "step", (json_int_t)l->step, "num_tokens", (json_int_t)l->tokens,
		"completions/min_length", s.n ? s.min_length : 0, "completions/max_length", s.max_length, "dropped", s.dropped);
	put_number(m, "loss", u->loss.loss);
	put_number(m, "grad_norm", u->grad_norm);
	put_number(m, "learning_rate", optimizer_lr(l->optimizer, MAX(0, optimizer_steps(l->optimizer) - 1)));
	put_number(m, "reward", mean);
	put_number(m, "reward_std", sqrt(var));
	put_number(m, "completions/mean_length", per(s.length, s.n));
	put_number(m, "completions/mean_terminated_length", per(s.terminated_length, s.terminated));
	put_number(m, "completions/clipped_ratio", per(s.clipped, s.n));
	put_number(m, "frac_reward_zero_std", (double)dropped_groups / groups);
	put_number(m, "genuine", per(s.genuine, s.n));
	char key[96];
	snprintf(key, sizeof key, "rewards/%s/mean", l->rule->name);
	put_number(m, key, mean);
	snprintf(key, sizeof key, "rewards/%s/std", l->rule->name);
	put_number(m, key, sqrt(var));
	if (l->rule->is_split) {
		put_number(m, "rewards/plan/mean", per(s.plan, s.n));
		put_number(m, "rewards/code/mean", per(s.code, s.n));
	}
	put_number(m, "speedup", per(s.speedup, s.genuine));
	put_number(m, "entropy", per(u->loss.entropy, rows));
	if (l->o->beta > 0) put_number(m, "kl", per(u->loss.kl, rows));
	put_number(m, "clip_ratio/low_mean", per(u->loss.clip_low, rows));
	put_number(m, "clip_ratio/high_mean", per(u->loss.clip_high, rows));
	put_number(m, "sampling/sampling_logp_difference/mean", per(u->loss.logprob_diff_sum, rows));
	put_number(m, "sampling/sampling_logp_difference/max", u->loss.logprob_diff_max);
	put_number(m, "timing_s/generate_and_verify", generate_s);
	put_number(m, "timing_s/update", update_s);
	put_number(m, "step_time", generate_s + update_s);
	return m;
}

static int record(struct loop *l, const struct rollout *r, int n, const json_t *metrics, struct err *err)
{
	int rc = store_begin(l->store, err);
	for (int i = 0; !rc && i < n; i++) {
		json_t *row = rollout_json(&r[i], &l->prompts);
		rc = store_sample_put(l->store, l->run, l->step, i, row, err);
		json_decref(row);
	}
	if (!rc) rc = store_metrics_put(l->store, l->run, l->step, metrics, err);
	if (!rc) rc = store_commit(l->store, err);
	if (!rc) rl_metrics_put(l->metrics_file, metrics);
	return rc;
}

static int step(struct loop *l, metrics_fn *metrics, void *ctx, struct err *err)
{
	const struct rl_options *o = l->o;
	int K = (int)o->num_generations, n = (int)o->generation_batch_size, groups = n / K, dropped_groups;
	int *index = xmalloc((size_t)groups * sizeof *index);
	struct rollout *r = xcalloc((size_t)n, sizeof *r);
	struct rollout_options ro = {
		.num_samples = K,
		.id_base = (l->step + 1) << 20,
		.sampling = {.temperature = (float)o->temperature,
			.top_k = (int)o->top_k,
			.top_p = (float)o->top_p,
			.seed = (uint64_t)o->seed},
		.max_new_tokens = (int)o->max_completion_length,
		.stop_ids = &l->stop_id,
		.nstop = 1,
		.adapter = l->adapter,
	};
	struct update_stats u = {0};
	uint64_t t0 = clock_ns(), t1 = t0;
	if (o->max_steps <= 0) optimizer_pace(l->optimizer, loop_seconds(l) / o->max_seconds);
	step_prompts(l, groups, index);
	int rc = rollouts_collect(l->engine, l->verifier, l->tokenizer, &l->prompts, index, groups, &ro, r, err);
	if (!rc) {
		rollouts_advantages(r, groups, K, l->rule, l->advantage, &l->prompts, &dropped_groups);
		t1 = clock_ns();
		rc = updater_run(l->updater, r, n, &l->prompts, l->tokenizer, l->rule->is_split, &u, err);
	}
	if (!rc) {
		l->step++;
		l->tokens += u.tokens;
		json_t *m = step_metrics(
			l, r, n, groups, dropped_groups, &u, (double)(t1 - t0) * 1e-9, (double)(clock_ns() - t1) * 1e-9);
		rc = record(l, r, n, m, err);
		if (!rc && metrics) rc = metrics(ctx, l->step, m);
		json_decref(m);
	}
	rollouts_release(r, n);
	free(r);
	free(index);
	return rc;
}

static bool is_finished(const struct loop *l)
{
	return (l->o->max_steps > 0 && l->step >= l->o->max_steps) ||
		(l->o->max_seconds > 0 && loop_seconds(l) >= l->o->max_seconds);
}

static int save_final(struct loop *l, struct err *err)
{
	char *path = path_join(l->o->output_dir, "final");
	int rc = l->adapter ? adapter_save(l->adapter, path, l->o->model, err) : model_save(l->model, path, err);
	if (!rc) rc = model_copy_tokenizer(l->o->model, path, err);
	free(path);
	return rc;
}

static void loop_release(struct loop *l)
{
	if (l->metrics_file) fclose(l->metrics_file);
	verifier_free(l->verifier);
	store_close(l->store);
	engine_free(l->engine);
	updater_free(l->updater);
	optimizer_free(l->optimizer);
	prompt_set_release(&l->prompts);
	tokenizer_free(l->tokenizer);
	adapter_free(l->adapter);
	model_free(l->model);
	ops_free(l->ops);
}

int rl_run(const struct rl_options *o, metrics_fn *metrics, void *ctx, struct err *err)
{
	struct loop l = {.o = o, .start_ns = clock_ns()};
	int rc = options_check(o, &l, err);
	if (!rc) rc = open_model(&l, err);
	if (!rc) rc = open_prompts(&l, err);
	if (!rc) rc = open_trainer(&l, err);
	if (!rc) rc = open_store(&l, err);
	if (!rc) rc = resume(&l, err);
	while (!rc && !is_finished(&l)) {
		rc = step(&l, metrics, ctx, err);
		if (!rc && o->save_steps > 0 && l.step % o->save_steps == 0) rc = save(&l, err);
	}
	if (!rc) rc = save(&l, err);
	if (!rc) rc = save_final(&l, err);
	loop_release(&l);
	return rc;
}

int rl_dry_run(const struct rl_options *o, FILE *out, struct err *err)
{
	struct loop l = {.o = o};
	struct model_config c;
	int rc = options_check(o, &l, err);
	if (!rc) rc = model_config_load(o->model, &c, err);
	if (!rc) rc = tokenizer_open(o->model, &l.tokenizer, err);
	if (!rc) rc = open_prompts(&l, err);
	if (!rc) rl_plan_print(o, &c, &l.prompts, l.rule, out);
	prompt_set_release(&l.prompts);
	tokenizer_free(l.tokenizer);
	return rc;
}
