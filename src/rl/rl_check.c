/* Which settings of a run go together: asked before anything is opened. */
#include "rl/rl_internal.h"
#include "agent/agent.h"
#include "base/base.h"
#include "infer/infer.h"
#include "policy/policy.h"
#include "ranks/ranks.h"
#include "train/train.h"

/* Reward, advantage and loss, from their names and constants. */
static int learning_set(struct loop *l, struct err *err)
{
	const struct rl_options *o = l->o;
	int rc = reward_rule_set(&l->rule, o->reward, o->reward_alpha, o->reward_beta, o->reward_clip, err);
	l->advantage = (struct advantage_options){
		.rule = &l->rule,
		.weight = o->policy_weight,
		.negative_weight = o->negative_weight,
		.max_completion_length = (int)o->max_completion_length,
		.overlong_buffer_len = (int)o->overlong_buffer_len,
		.overlong_penalty_factor = o->overlong_penalty_factor,
		.turn_gamma = o->turn_gamma,
	};
	l->rule.is_measured = !strcmp(o->reward_time, "measured");
	if (!rc && l->rule.is_measured && strncmp(o->verify_device, "cuda", 4))
		rc = err_set(err, ERR_USAGE,
			"--reward_time measured: times come from a GPU; name it with --verify_device cuda, found \"%s\"",
			o->verify_device);
	if (!rc) rc = advantage_type_from_name(o->advantage, &l->advantage.type, err);
	if (!rc) rc = loss_type_from_name(o->loss_type, &l->update.loss.type, err);
	return rc ? rc : importance_mode_from_name(o->importance_sampling_mode, &l->update.importance, err);
}

/* Settings of learning that are each valid alone but contradict each other. The types are set. */
static int learning_check(const struct loop *l, struct err *err)
{
	const struct rl_options *o = l->o;
	/* What the reward means to the stage and to the advantage. */
	if (l->rule.is_gain && strcmp(o->stage, "midend"))
		return err_set(err, ERR_USAGE,
			"--reward %s pays for what is gained over a kernel that was given: --stage midend", o->reward);
	if (l->advantage.type == ADVANTAGE_MAXRL && (l->rule.failure < 0 || o->overlong_buffer_len > 0))
		return err_set(err, ERR_USAGE,
			"--advantage maxrl divides by the mean reward, which must not be negative: --reward %s pays %g for "
			"failure%s",
			o->reward, l->rule.failure, o->overlong_buffer_len > 0 ? ", and --overlong_buffer_len takes from it" : "");
	/* Constants of the loss, which mean another thing for each of its types, and guards that
	 * would look at what nobody computes. */
	if (l->update.loss.type == LOSS_CISPO && o->epsilon_high < 1)
		return err_set(err, ERR_USAGE,
			"--epsilon_high %g: of --loss_type cispo it is the cap of the ratio itself; expected 1 or more, 5 as a "
			"rule",
			o->epsilon_high);
	if (o->delta > 0 && o->delta <= 1 + o->epsilon_high)
		return err_set(err, ERR_USAGE, "--delta %g: expected more than 1 + epsilon_high = %g, or 0", o->delta,
			1 + o->epsilon_high);
	if (o->delta > 0 && l->update.loss.type == LOSS_CISPO)
		return err_set(err, ERR_USAGE,
			"--delta %g with --loss_type cispo, whose ratio has one cap, --epsilon_high %g: leave it at 0", o->delta,
			o->epsilon_high);
	if (o->guard_kl > 0 && !(o->beta > 0))
		return err_set(err, ERR_USAGE,
			"--guard_kl %g with --beta 0: no reference is computed, so the guard would never act; set --beta",
			o->guard_kl);
	/* How answers are drawn, as far as training has to know it, and how long they get. */
	if (o->min_p > 0 && (o->top_k > 0 || o->top_p < 1))
		return err_set(err, ERR_USAGE,
			"--min_p %g with --top_k %lld and --top_p %g: training knows what min_p leaves, not what the others do; "
			"use one",
			o->min_p, (long long)o->top_k, o->top_p);
	if (o->temperature_code > 0 && o->temperature_code < SAMPLING_TEMPERATURE_MIN)
		return err_set(err, ERR_USAGE, "--temperature_code %g: expected 0 (as --temperature) or at least %g",
			o->temperature_code, SAMPLING_TEMPERATURE_MIN);
	if (o->overlong_buffer_len > o->max_completion_length)
		return err_set(err, ERR_USAGE, "--overlong_buffer_len %lld: expected at most max_completion_length (%lld)",
			(long long)o->overlong_buffer_len, (long long)o->max_completion_length);
	return 0;
}

/* A policy outside writes answers, which are judged and kept; what would train it, or needs
 * its tokens, is refused. */
static int outside_check(const struct rl_options *o, struct err *err)
{
	const struct {
		bool is_set;
		const char *name;
	} refused[] = {
		{o->dry_run, "dry_run"},
		{o->replay_updates > 0, "replay_updates"},
		{o->eval_steps > 0, "eval_steps"},
		{o->temperature_code > 0, "temperature_code"},
		{o->min_p > 0, "min_p"},
		{o->top_k > 0, "top_k"},
		{o->top_p < 1, "top_p"},
	};
	for (size_t i = 0; i < ARRAY_LEN(refused); i++)
		if (refused[i].is_set)
			return err_set(err, ERR_USAGE,
				"--%s: a policy outside (--policy_command, --policy_answers) is asked for answers and not trained; its "
				"genuine answers go into the store, from which `hone distill` trains a model",
				refused[i].name);
	return 0;
}

int rl_options_check(struct loop *l, struct err *err)
{
	const struct rl_options *o = l->o;
	/* First what the run cannot do without, and what needs no other setting to be read. */
	int rc = policy_is_outside(&o->policy) ? outside_check(o, err) : 0;
	if (rc) return rc;
	if (!o->policy.model && !policy_is_outside(&o->policy))
		return err_set(
			err, ERR_USAGE, "--model is missing: name a model folder (or --policy_command, --policy_answers)");
	if (!o->tasks) return err_set(err, ERR_USAGE, "--tasks is missing: name a task file or folder");
	if (!o->output_dir && !o->dry_run) return err_set(err, ERR_USAGE, "--output_dir is missing: name the run's folder");
	if (o->policy.adapter && !o->policy.use_peft)
		return err_set(err, ERR_USAGE, "--adapter and --no-use_peft exclude each other");
	/* Groups are whole: a step has a whole number of them, and a staged group leaves answers to
	 * draw. */
	if (o->generation_batch_size < o->num_generations || o->generation_batch_size % o->num_generations)
		return err_set(err, ERR_USAGE, "--generation_batch_size %lld: expected a multiple of num_generations (%lld)",
			(long long)o->generation_batch_size, (long long)o->num_generations);
	if (o->max_steps <= 0 && o->max_seconds <= 0)
		return err_set(err, ERR_USAGE, "neither --max_steps nor --max_seconds is set: the run would never end");
	if (o->num_generations_first >= o->num_generations)
		return err_set(err, ERR_USAGE, "--num_generations_first %lld: expected less than num_generations (%lld)",
			(long long)o->num_generations_first, (long long)o->num_generations);
	if (o->steps_per_generation > o->generation_batch_size)
		return err_set(err, ERR_USAGE, "--steps_per_generation %lld: expected at most generation_batch_size (%lld)",
			(long long)o->steps_per_generation, (long long)o->generation_batch_size);
	/* Staged groups and dynamic sampling draw by a group's first answers, of
	 * which an episode has one. */
	if (o->num_turns > 1 && (o->num_generations_first > 0 || o->filter_groups))
		return err_set(err, ERR_USAGE,
			"--num_turns %lld with --%s: groups of episodes are drawn whole; use one of both", (long long)o->num_turns,
			o->filter_groups ? "filter_groups" : "num_generations_first");
	/* Settings that need another one are refused without it, and are not silently ignored. */
	rc = learning_set(l, err);
	if (!rc) rc = learning_check(l, err);
	if (!rc) rc = level_weights_parse(o->level_weights, l->level_weights, err);
	if (!rc && o->policy_weight == 0 && o->replay_updates == 0)
		return err_set(err, ERR_USAGE, "--policy_weight 0 without --replay_updates: nothing would train");
	return rc;
}

int rl_midend_check(const struct rl_options *o, struct err *err)
{
	struct loop l = {.o = o};
	struct str turn = {0};
	int rc = o->eval_steps > 0
		? err_set(err, ERR_USAGE,
			  "--eval_steps %lld: the mid-end is given kernels of training tasks alone; score it with `hone eval "
			  "--pipeline`",
			  (long long)o->eval_steps)
		: rl_options_check(&l, err);
	if (!rc) rc = agent_midend_template_check(o->prompt_template, err);
	if (!rc && o->num_turns > 1) rc = agent_turn_template_read(o->stage, o->turn_template, &turn, err);
	str_release(&turn);
	return rc ? err_prefix(err, "--pipeline %s", o->pipeline) : 0;
}

/* What answers of several ranks carry to one another are those of a model, each alone. */
int rl_ranks_check(const struct loop *l, struct err *err)
{
	const struct rl_options *o = l->o;
	const char *what = o->num_turns > 1 ? "--num_turns above 1"
		: o->pipeline                   ? "--pipeline"
		: policy_is_outside(&o->policy) ? "a policy outside of the program"
										: NULL;
	if (ranks_planned(&o->ranks) < 2 || !what) return 0;
	return err_set(err, ERR_USAGE, "%s: not with several ranks; run one process", what);
}
