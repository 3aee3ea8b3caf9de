/* What a run stands on, before its first step: policy, prompts, trainer, run folder, store and
 * verifier. */
#include "rl/rl_internal.h"
#include "agent/agent.h"
#include "base/base.h"
#include "infer/infer.h"
#include "model/model.h"
#include "ops/ops.h"
#include "policy/policy.h"
#include "ranks/ranks.h"
#include "store/store.h"
#include "task/task.h"
#include "text/text.h"
#include "train/train.h"
#include "verify/verdict.h"
#include "verify/verify.h"

#include <stdlib.h>

static int open_policy(struct loop *l, bool text_only, struct err *err)
{
	struct policy_options p = l->o->policy;
	l->author = (struct author){.policy = &l->policy, .stage = l->o->stage};
	if (policy_is_outside(&p)) return outside_open(&p, &l->author.outside, err);
	char *device = ranks_device(l->ranks, p.device);
	p.lora_seed = (uint64_t)l->o->seed;
	p.text_only = text_only;
	p.device = device;
	int rc = policy_open(&p, &l->policy, err);
	free(device);
	if (!rc && !text_only) rc = ranks_join(l->ranks, l->policy.ops, err);
	if (!rc && l->ranks && loop_is_first(l))
		log_info("%d ranks; gradients travel by %s", ranks_count(l->ranks), ranks_way(l->ranks));
	return rc;
}

static struct prompt_options prompt_options_of(const struct loop *l)
{
	const struct rl_options *o = l->o;
	return (struct prompt_options){
		.tasks = o->tasks,
		.split = o->split,
		.stage = o->stage,
		.prompt_template = o->prompt_template,
		.chat_template = l->policy.chat,
		.chat_date = l->policy.chat_date,
		.precision = o->precision,
		.level = (int)o->level,
		.limit = o->limit,
		.seed = (uint64_t)o->seed,
		.max_prompt_length = o->max_prompt_length,
		.truncate_prompts = o->truncate_prompts,
		.variants = (int)o->variants,
		.variants_from = &o->variants_from,
	};
}

static int longest_prompt(const struct prompt_set *s)
{
	size_t n = 0;
	for (size_t i = 0; i < s->count; i++) n = MAX(n, s->rows[i].ids.count);
	return (int)n;
}

/* What is chosen by or reported is never trained on, whatever --split says. */
static int prompts_check_split(const struct prompt_set *s, struct err *err)
{
	for (size_t i = 0; i < s->count; i++) {
		const struct task *t = &s->rows[i].task;
		if (!strcmp(t->split, task_split_name(TASK_DEV)) || !strcmp(t->split, task_split_name(TASK_TEST)))
			return err_set(err, ERR_USAGE,
				"task %s is of split %s: dev tasks are for choosing and test tasks for reporting, neither is trained "
				"on; "
				"use --split train",
				t->name, t->split);
	}
	return 0;
}

/* Dev tasks of the same file: what the run is watched by. */
static int open_dev(struct loop *l, int longest, struct err *err)
{
	struct prompt_options p = prompt_options_of(l);
	p.split = task_split_name(TASK_DEV);
	p.limit = l->o->eval_limit;
	p.level = 0;
	int rc = prompt_set_load(&p, l->policy.tokenizer, &l->dev, err);
	if (rc) return err_prefix(err, "--eval_steps");
	/* The engine's room is that of the training prompts. */
	size_t kept = 0;
	for (size_t i = 0; i < l->dev.count; i++)
		if (l->dev.rows[i].ids.count <= (size_t)longest) kept++;
	if (kept == l->dev.count) return 0;
	return err_set(err, ERR_LIMIT,
		"--eval_steps: %zu of %zu dev prompts are longer than every training prompt (%d tokens); set "
		"--max_prompt_length",
		l->dev.count - kept, l->dev.count, longest);
}

static int open_prompts(struct loop *l, struct err *err)
{
	struct prompt_options p = prompt_options_of(l);
	int rc = prompt_set_load(&p, l->policy.tokenizer, &l->prompts, err);
	if (rc) return rc;
	if ((rc = prompts_check_split(&l->prompts, err))) return rc;
	if ((rc = level_weights_check(l->o->level_weights, l->level_weights, &l->prompts, err))) return rc;
	int64_t groups = l->o->generation_batch_size / l->o->num_generations;
	if (groups < ranks_planned(&l->o->ranks))
		return err_set(err, ERR_USAGE,
			"%lld groups a step for %d ranks: some would have nothing to do; raise "
			"--generation_batch_size",
			(long long)groups, ranks_planned(&l->o->ranks));
	if (l->prompts.count < (size_t)groups)
		return err_set(err, ERR_RANGE, "%s: %zu prompts, a step needs %lld; lower --generation_batch_size", l->o->tasks,
			l->prompts.count, (long long)groups);
	/* The longest conversation has to fit a micro-batch. */
	int longest = longest_prompt(&l->prompts);
	int64_t behind = rl_episode_tokens(l->o);
	if (!l->author.outside && longest + behind > l->o->max_tokens)
		return err_set(err, ERR_LIMIT,
			"the longest prompt has %d tokens and %s up to %lld, but --max_tokens is %lld; raise it or lower "
			"--max_completion_length%s or --max_prompt_length",
			longest, l->o->num_turns > 1 ? "the turns behind it" : "an answer", (long long)behind,
			(long long)l->o->max_tokens, l->o->num_turns > 1 ? ", --max_feedback_length, --num_turns" : "");
	if (!l->author.outside)
		rc = rl_positions_check(longest, behind, l->o->num_turns, l->policy.config.max_position_embeddings, err);
	if (!rc && l->o->num_turns > 1)
		rc = agent_turn_template_read(l->o->stage, l->o->turn_template, &l->turn_template, err);
	/* A turn that cannot fit would end the run at the first answer that fails. */
	struct turn_options turns = loop_turn_options(l);
	if (!rc && l->o->num_turns > 1) rc = turns_check(&turns, l->author.outside ? NULL : &l->policy, &l->prompts, err);
	if (rc) return rc;
	if (l->prompts.alone && loop_is_first(l))
		log_info("%d %s left out", l->prompts.alone,
			plural(l->prompts.alone, "task without two variants was", "tasks without two variants were"));
	if (l->prompts.refused && loop_is_first(l))
		log_warn("%d %s left out", l->prompts.refused,
			plural(l->prompts.refused, "prompt longer than max_prompt_length was",
				"prompts longer than max_prompt_length were"));
	return l->o->eval_steps > 0 ? open_dev(l, longest, err) : 0;
}

static int open_pairs(struct loop *l, struct err *err)
{
	const char *path = l->o->replay_pairs;
	if (!path) return 0;
	int rc = sft_data_load(path, &l->policy, (int)l->o->max_tokens, &l->pairs, err);
	if (rc) return err_prefix(err, "--replay_pairs");
	if (l->pairs.too_long && loop_is_first(l))
		log_warn("%s: %lld %s longer than the model or --max_tokens allows and %s left out", path,
			(long long)l->pairs.too_long, plural(l->pairs.too_long, "pair is", "pairs are"),
			plural(l->pairs.too_long, "was", "were"));
	return 0;
}

/* Optimiser steps of one step, those of the schedule alone included. */
static int step_updates(const struct loop *l) { return updater_steps(&l->update) + (int)l->o->replay_updates; }

/* Estimates, buffer and guards: empty until the store's rows are folded in. */
static void open_history(struct loop *l)
{
	const struct rl_options *o = l->o;
	/* Estimates of the prompts, and the buffer of own answers. */
	struct history_options h = {
		.seed = (uint64_t)o->seed,
		.decay = o->promise_decay,
		.floor = o->promise_floor,
		.num_generations = (int)o->num_generations,
		.level_admission = o->level_admission,
		.max_tokens = (int)o->max_tokens,
		.stop_id = l->policy.stop_id,
		.vocab_size = l->policy.config.vocab_size,
		.pairs = l->pairs.train.v,
		.npairs = (int)l->pairs.train.count,
		.is_stock = l->rule.is_stock,
	};
	memcpy(h.level_weights, l->level_weights, sizeof h.level_weights);
	l->history = history_create(&h, &l->prompts, l->policy.tokenizer);
	/* The guard's limits come from the options; any other action than stop and warn switches it
	 * off. */
	struct guard_options g = {
		.action = !strcmp(o->guard, "stop") ? GUARD_STOP
			: !strcmp(o->guard, "warn")     ? GUARD_WARN
											: GUARD_OFF,
		.patience = (int)o->guard_patience,
		.eval_patience = (int)o->eval_patience,
		.gap = o->guard_gap,
		.kl = o->guard_kl,
		.degenerate = o->guard_degenerate,
		.hack = o->guard_hack,
		.clipped = o->guard_truncation,
		.malformed = o->guard_format,
		.collapse = o->guard_collapse,
	};
	guard_init(&l->guard, &g);
}

/* The plan comes before what it plans: a run that does not fit ends here, with the sum. */
static int open_memory(struct loop *l, struct err *err)
{
	const struct rl_options *o = l->o;
	struct rl_memory m;
	rl_memory_settle(o, &l->policy.config, l->policy.ops, longest_prompt(&l->prompts), l->policy.room, &m);
	if (loop_is_first(l)) rl_memory_print(o, l->policy.ops, &m, stderr);
	l->update.recompute = m.recompute;
	return plan_check(&m.plan, policy_room_name(&o->policy, l->policy.ops, m.room), m.room, m.advice, err);
}

static int open_trainer(struct loop *l, struct err *err)
{
	const struct rl_options *o = l->o;
	/* What is trained: the adapter, or all weights. */
	model_enable_grad(l->policy.model, l->policy.adapter);
	int count;
	struct param *params = l->policy.adapter ? adapter_params(l->policy.adapter, &count)
											 : model_params(l->policy.model, &count);
	struct optimizer_options oo = o->optimizer;
	struct updater_options u = {
		.loss = {.type = l->update.loss.type,
			.epsilon = (float)o->epsilon,
			.epsilon_high = (float)o->epsilon_high,
			.beta = (float)o->beta,
			.delta = (float)o->delta},
		.importance = l->update.importance,
		.importance_cap = o->importance_sampling_clip_max,
		.max_grad_ratio = o->max_grad_ratio,
		.mask_truncated_completions = o->mask_truncated_completions,
		.seed = (uint64_t)o->seed,
		.num_iterations = (int)o->num_iterations,
		.steps_per_generation = (int)o->steps_per_generation,
		.max_tokens = (int)o->max_tokens,
		.max_completion_length = (int)o->max_completion_length,
		.temperature = (float)o->temperature,
		.min_p = (float)o->min_p,
		.dropout_seed = o->policy.lora_dropout > 0 ? (uint64_t)o->seed + 1 : 0,
		.full_reference = o->beta > 0 && !o->policy.use_peft,
		.reference_model = o->policy.model,
		.recompute = l->update.recompute,
		.ranks = l->ranks,
		.apart = o->apart,
	};
	if (!l->policy.ops->follows && loop_is_first(l))
		log_info("device %s: its attention knows no shared beginnings, so every answer trains whole, with its prompt",
			l->policy.ops->name);
	l->update = u;
	/* Schedules are set in steps; the optimiser counts its own, of which a step has several. */
	oo.warmup_steps *= step_updates(l);
	oo.max_steps = o->max_steps * step_updates(l);
	l->optimizer = optimizer_create(l->policy.ops, params, count, &oo);
	int rc = updater_create(l->policy.model, l->policy.adapter, l->optimizer, &u, &l->updater, err);
	if (rc) return rc;
	/* The sampler, which shares the model with the trainer. */
	struct engine_options e = rl_engine_options(o, longest_prompt(&l->prompts));
	rc = engine_create(l->policy.model, &e, &l->engine, err);
	l->author.engine = l->engine;
	return rc;
}

/* The folder belongs to one run with these settings, or is refused; all ranks have the same. */
static int open_folder(struct loop *l, struct err *err)
{
	const struct rl_options *o = l->o;
	json_t *settings = rl_settings_json(l);
	char *text = json_dumps(settings, JSON_SORT_KEYS);
	int rc = ranks_agree(l->ranks, "settings", text, err);
	if (!rc) rc = dir_make(o->output_dir, err);
	if (!rc && loop_is_first(l)) rc = run_folder_claim(o->output_dir, err);
	if (!rc && loop_is_first(l) && !l->author.outside) rc = rl_settings_settle(o->output_dir, -1, settings, err);
	free(text);
	json_decref(settings);
	return rc;
}

static int count_step(int64_t step, int64_t index, const json_t *row, void *ctx)
{
	(void)step;
	(void)index;
	(void)row;
	++*(int64_t *)ctx;
	return 0;
}

/* A policy outside has no checkpoints: its run is what the store has of it. One that was refused
 * before its first step binds nobody to its settings. */
static int settle_outside(struct loop *l, struct err *err)
{
	int64_t steps = 0;
	if (!l->author.outside) return 0;
	json_t *settings = rl_settings_json(l);
	int rc = store_metrics_each(l->store, l->run, count_step, &steps, err);
	if (!rc) rc = rl_settings_settle(l->o->output_dir, steps, settings, err);
	json_decref(settings);
	return rc;
}

/* Rank 0's store has the run. Another's stands beside it and has the
 * verdicts that it gave alone. */
static int open_run(struct loop *l, struct err *err)
{
	const struct rl_options *o = l->o;
	char own[32];
	snprintf(own, sizeof own, "rank-%d.db", ranks_rank(l->ranks));
	char *path = loop_is_first(l) && o->store ? xstrdup(o->store)
											  : path_join(o->output_dir, loop_is_first(l) ? "hone.db" : own);
	int rc = store_open(path, &l->store, err);
	free(path);
	if (rc || !loop_is_first(l)) return rc;
	json_t *config = options_json(rl_option_defs, rl_option_count, o);
	/* A store that several runs share knows each by its folder, wherever hone was started. */
	char *name = path_real(o->output_dir);
	rc = store_run_open(l->store, name, config, &l->run, err);
	json_decref(config);
	free(name);
	return rc;
}

int kernels_check_times(const struct prompt_set *prompts, const char *card, const char *sizes, struct err *err)
{
	bool is_judged = !strcmp(sizes, "judged");
	for (size_t i = 0; i < prompts->count; i++) {
		const struct prompt_row *r = &prompts->rows[i];
		if (!r->kernel) continue;
		if (is_judged != !*r->profile.cost_size)
			return err_set(err, ERR_MISMATCH,
				"task %s: its kernel's time is predicted at %s sizes and this run's at %s: no gain would be seen; set "
				"--cost_size, or make the kernels' verdicts anew",
				r->task.name, is_judged ? "other than the judged" : "the judged", sizes);
		if (!*r->profile.gpu || !strcmp(r->profile.gpu, card)) continue;
		return err_set(err, ERR_MISMATCH,
			"task %s: its kernel's time is predicted for %s and this run's are for %s: no gain would be seen; set "
			"--gpu, "
			"or make the kernels' verdicts anew",
			r->task.name, r->profile.gpu, card);
	}
	return 0;
}

static int open_store(struct loop *l, struct err *err)
{
	const struct rl_options *o = l->o;
	int rc = open_folder(l, err);
	if (!rc) rc = open_run(l, err);
	if (!rc) rc = settle_outside(l, err);
	/* Verdicts are cached in the same store. */
	char *device = ranks_device(l->ranks, o->verify_device);
	struct verify_options v = {
		.device = device,
		.gpu = o->gpu,
		.cost_size = o->cost_size,
		.precision = o->precision,
		.threads = (int)o->verify_threads,
		.num_correct_trials = (int)o->num_correct_trials,
		.screens = true, /* rewards do not ask whether a wrong kernel compiles */
		.seed = (uint64_t)o->seed + 0x766572696679,
		.sanitize_share = o->sanitize_share,
		.profile = o->verify_profile,
		.references = l->rule.is_measured ? "eager" : NULL,
		.store = l->store,
	};
	if (!rc && l->author.outside) {
		char *kept = path_join(o->output_dir, "answers.partial");
		rc = outside_keep(l->author.outside, kept, err);
		free(kept);
	}
	if (!rc) rc = verifier_create(&v, &l->verifier, err);
	if (!rc && !l->rule.is_measured)
		rc = kernels_check_times(&l->prompts, verifier_card_name(l->verifier), o->cost_size, err);
	free(device);
	return rc;
}

void loop_release(struct loop *l)
{
	if (l->metrics_file) fclose(l->metrics_file);
	verifier_free(l->verifier);
	store_close(l->store);
	engine_free(l->engine);
	updater_free(l->updater);
	optimizer_free(l->optimizer);
	history_free(l->history);
	prompt_set_release(&l->prompts);
	prompt_set_release(&l->dev);
	sft_data_release(&l->pairs);
	str_release(&l->turn_template);
	outside_close(l->author.outside);
	policy_close(&l->policy);
}

int loop_open(struct loop *l, struct err *err)
{
	/* The others first: who is missing is said before anything long begins. */
	int rc = rl_options_check(l, err);
	if (!rc) rc = ranks_open(&l->o->ranks, &l->ranks, err);
	if (!rc) rc = rl_ranks_check(l, err);
	if (!rc) rc = open_policy(l, false, err);
	if (!rc) rc = open_prompts(l, err);
	bool trains = !l->author.outside;
	if (!rc && trains) rc = open_memory(l, err);
	if (!rc && trains) rc = open_pairs(l, err);
	if (!rc && trains) rc = open_trainer(l, err);
	if (!rc) open_history(l);
	if (!rc) rc = open_store(l, err);
	return rc;
}
int rl_dry_run(const struct rl_options *o, FILE *out, struct err *err)
{
	struct loop l = {.o = o};
	struct ops sizes;
	size_t room = 0;
	int rc = rl_options_check(&l, err);
	if (!rc) rc = rl_ranks_check(&l, err);
	if (!rc) rc = policy_describe(&o->policy, &sizes, &room, err);
	if (!rc) rc = open_policy(&l, true, err);
	if (!rc) rc = policy_check(&o->policy, &l.policy.config, &sizes, err);
	if (!rc) rc = open_prompts(&l, err);
	FILE *to = ranks_is_first(&o->ranks) ? out : NULL;
	if (!rc) rc = rl_plan_print(o, &l.policy.config, &sizes, room, &l.prompts, &l.rule, to, err);
	if (!rc) rc = open_pairs(&l, err);
	sft_data_release(&l.pairs);
	prompt_set_release(&l.prompts);
	prompt_set_release(&l.dev);
	str_release(&l.turn_template);
	policy_close(&l.policy);
	return rc;
}
