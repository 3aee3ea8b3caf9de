/* The plan of a run, from config.json and the prompts: memory by what it holds, tokens, and what a
 * step does. The sums are those of the create functions, so what is printed is what would be
 * allocated; nothing is. */
#include "rl/rl_internal.h"
#include "agent/agent.h"
#include "base/base.h"
#include "infer/infer.h"
#include "model/model.h"
#include "ops/ops.h"
#include "policy/policy.h"
#include "ranks/ranks.h"

#include <stdlib.h>

static int by_size(const void *a, const void *b)
{
	size_t x = *(const size_t *)a, y = *(const size_t *)b;
	return (x > y) - (x < y);
}

/* Of the prompts, in tokens. */
struct lengths {
	size_t sum;
	size_t median;
	size_t longest;
};

static struct lengths lengths_of(const struct prompt_set *s)
{
	struct lengths l = {0};
	size_t *n = xcalloc(s->count + 1, sizeof *n);
	for (size_t i = 0; i < s->count; i++) l.sum += n[i] = s->rows[i].ids.count;
	qsort(n, s->count, sizeof *n, by_size);
	if (s->count) {
		l.median = n[s->count / 2];
		l.longest = n[s->count - 1];
	}
	free(n);
	return l;
}

int64_t rl_episode_tokens(const struct rl_options *o)
{
	return o->num_turns * o->max_completion_length + (o->num_turns - 1) * o->max_feedback_length;
}

int rl_positions_check(int64_t prompt, int64_t behind, int64_t turns, int64_t positions, struct err *err)
{
	if (prompt + behind <= positions) return 0;
	return err_set(err, ERR_LIMIT,
		"the longest prompt has %lld tokens and %s up to %lld, but the model knows %lld positions; lower "
		"--max_completion_length%s or --max_prompt_length",
		(long long)prompt, turns > 1 ? "the turns behind it" : "an answer", (long long)behind, (long long)positions,
		turns > 1 ? ", --max_feedback_length, --num_turns" : "");
}

struct engine_options rl_engine_options(const struct rl_options *o, int longest)
{
	return (struct engine_options){.max_sequences = (int)MIN(o->generation_batch_size, o->max_sequences),
		.max_context = longest + (int)rl_episode_tokens(o),
		.rows_apart = o->apart};
}

static struct training_plan training_of(const struct rl_options *o, bool recompute)
{
	return (struct training_plan){.adapter_rank = policy_rank(&o->policy),
		.target_modules = o->policy.lora_target_modules,
		.has_reference = o->beta > 0,
		.generates = true,
		.pass = {.max_tokens = (int)o->max_tokens,
			.head_rows = MIN((int)o->max_tokens, UPDATE_HEAD_ROWS),
			.backward = true,
			.recompute = recompute}};
}

static struct device_plan device_of(
	const struct rl_options *o, const struct training_plan *t, const struct engine_options *e)
{
	struct device_plan d = {.pass = t->pass,
		.passes = t->has_reference && !t->adapter_rank ? 2 : 1,
		.adapter_rank = t->adapter_rank,
		.ranks = ranks_planned(&o->ranks)};
	engine_device_plan(e, &d);
	return d;
}

void rl_memory_plan(const struct rl_options *o, const struct model_config *c, const struct ops *ops, int longest,
	bool recompute, struct memory_plan *out)
{
	/* The same sizes that the run asks for, so that the plan and the run agree. */
	struct engine_options e = rl_engine_options(o, longest);
	struct training_plan t = training_of(o, recompute);
	struct device_plan d = device_of(o, &t, &e);
	size_t kv = kv_bytes(ops, c, d.kv_pages);
	*out = (struct memory_plan){0};
	plan_training(out, ops, c, &t);
	plan_add(
		out, "KV cache", kv, "%d sequences of %d tokens, in pages of %d", e.max_sequences, e.max_context, OPS_PAGE);
	plan_add(out, "generation", engine_bytes(ops, c, &e) - kv, "activations of a step%s",
		ops->host_memory ? ", bookkeeping" : "");
	plan_device(out, ops, c, &d);
}

static int rows_check(
	const struct rl_options *o, const struct model_config *c, const struct ops *ops, int longest, struct err *err)
{
	struct engine_options e = rl_engine_options(o, longest);
	struct training_plan t = training_of(o, false);
	struct device_plan d = device_of(o, &t, &e);
	return plan_rows_check(ops, c, &d, err);
}

/* Settings that are tried until the plan fits. */
struct trial {
	struct rl_options o;
	const struct model_config *c;
	const struct ops *ops;
	int longest;    /* tokens of the longest prompt */
	size_t room;    /* bytes */
	int64_t *field; /* of o: what is tried */
};

static bool fits(void *ctx, int64_t number)
{
	struct trial *t = ctx;
	struct memory_plan p;
	struct err quiet;
	*t->field = number;
	rl_memory_plan(&t->o, t->c, t->ops, t->longest, true, &p);
	return plan_total(&p) <= t->room && !rows_check(&t->o, t->c, t->ops, t->longest, &quiet);
}

static int64_t largest_fitting(struct trial *t, int64_t *field, int64_t least)
{
	t->field = field;
	return plan_largest(least, *field, fits, t);
}

static int64_t sample_tokens(const struct trial *t) { return t->longest + rl_episode_tokens(&t->o); }

/* One sample, one at a time, with an answer of one token. */
static bool fits_least(struct trial t)
{
	t.o.max_completion_length = t.o.max_sequences = 1;
	t.field = &t.o.max_tokens;
	return fits(&t, sample_tokens(&t));
}

/* Whether an adapter would find the room that all weights do not. */
static bool fits_adapter(struct trial t)
{
	t.o.policy.use_peft = true;
	return fits_least(t);
}

/* What makes room where not even one sample of the trial's finds it. */
static const char *advice_beyond(const struct trial *t)
{
	struct trial alone = *t;
	alone.o.beta = 0;
	if (fits_least(*t)) return "take a shorter --max_completion_length, a smaller model or more memory";
	if (policy_rank(&t->o.policy) || !fits_adapter(*t))
		return "shorter answers do not help: take a smaller model or more memory";
	/* All weights learn: gradients, moments and masters are several times what the model takes. */
	if (t->o.beta > 0 && fits_least(alone))
		return "shorter answers do not help, for all weights are trained: set --beta 0, which needs no second copy "
			   "of them, or train an adapter (--use_peft)";
	return "shorter answers do not help, for all weights are trained: train an adapter (--use_peft), take a smaller "
		   "model or more memory";
}

/* What to change, in the order in which it costs least: shorter micro-batches, then fewer sequences
 * at once too, then what the sum says beyond that. */
static void advice_make(const struct rl_options *o, const struct model_config *c, const struct ops *ops, int longest,
	size_t room, char *text, size_t len)
{
	struct trial t = {.o = *o, .c = c, .ops = ops, .longest = longest, .room = room};
	int64_t sample = sample_tokens(&t), tokens = largest_fitting(&t, &t.o.max_tokens, sample);
	if (tokens >= sample) {
		snprintf(text, len, "with --max_tokens %lld it fits", (long long)tokens);
		return;
	}
	t.o.max_tokens = sample;
	t.o.max_sequences = MIN(t.o.max_sequences, t.o.generation_batch_size);
	int64_t sequences = largest_fitting(&t, &t.o.max_sequences, 1);
	if (sequences >= 1)
		snprintf(text, len, "with --max_tokens %lld and --max_sequences %lld it fits", (long long)sample,
			(long long)sequences);
	else
		snprintf(text, len, "one sample of %lld tokens does not fit beside the weights; %s", (long long)sample,
			advice_beyond(&t));
}

void rl_memory_settle(const struct rl_options *o, const struct model_config *c, const struct ops *ops, int longest,
	size_t room, struct rl_memory *out)
{
	*out = (struct rl_memory){.room = room};
	rl_memory_plan(o, c, ops, longest, false, &out->plan);
	if (!room || plan_total(&out->plan) <= room) return;
	/* Outputs of norms and gates are cheap to compute again: the first thing
	 * that goes, and bits stay. */
	out->recompute = true;
	rl_memory_plan(o, c, ops, longest, true, &out->plan);
	if (plan_total(&out->plan) > room) advice_make(o, c, ops, longest, room, out->advice, sizeof out->advice);
}

void rl_memory_print(const struct rl_options *o, const struct ops *ops, const struct rl_memory *m, FILE *out)
{
	plan_print(&m->plan, policy_room_name(&o->policy, ops, m->room), m->room, out);
	if (*m->advice) fprintf(out, "             %s\n", m->advice);
}

static void run_print(const struct rl_options *o, const struct prompt_set *prompts, const struct lengths *l,
	const struct reward_rule *rule, FILE *out)
{
	/* Answers are counted at their full length, so the figures are upper bounds. */
	int64_t groups = o->generation_batch_size / o->num_generations,
			answers = o->generation_batch_size * o->max_completion_length;
	double mean = (double)l->sum / (double)prompts->count,
		   step = (double)o->generation_batch_size * (mean + (double)o->max_completion_length);
	fprintf(out, "prompts      %zu (%zu tokens; mean %.0f, median %zu, longest %zu; %d refused, %d cut)\n",
		prompts->count, l->sum, mean, l->median, l->longest, prompts->refused, prompts->truncated);
	fprintf(out, "steps        %lld of %lld prompts x %lld answers, at most %lld new tokens each\n",
		(long long)o->max_steps, (long long)groups, (long long)o->num_generations, (long long)o->max_completion_length);
	fprintf(out,
		"tokens       a step: at most %lld written, %.0f trained on, %lld %s; the run: at most %.3g written, %.2f "
		"passes over the prompts\n",
		(long long)answers, step, (long long)o->num_iterations, plural(o->num_iterations, "time", "times"),
		(double)answers * (double)o->max_steps, (double)o->max_steps * (double)groups / (double)prompts->count);
	/* How a step learns: the update, the reward and the way in which prompts are drawn. */
	fprintf(out, "update       %s, %s advantages, clip %g/%g, beta %g; AdamW at %g, %s%s\n", o->loss_type, o->advantage,
		o->epsilon, o->epsilon_high, o->beta, o->optimizer.learning_rate, o->optimizer.lr_scheduler_type,
		o->policy.use_peft && o->policy.lora_dropout > 0 ? ", adapter dropout in the gradient pass" : "");
	fprintf(out, "             %lld %s over %lld %s a step; norms within %g times their mean\n",
		(long long)o->num_iterations, plural(o->num_iterations, "pass", "passes"), (long long)o->steps_per_generation,
		plural(o->steps_per_generation, "mini-batch", "mini-batches"), o->max_grad_ratio);
	fprintf(out, "reward       %s: %s (alpha %g, beta %g, clip %g)\n", rule->name, rule->formula, rule->alpha,
		rule->beta, rule->speedup_clip);
	fprintf(out, "draws        prompts by %s%s; groups %s%s\n", o->prompt_selection,
		o->level_weights ? ", levels by share" : "", o->num_generations_first > 0 ? "staged" : "whole",
		o->filter_groups ? ", replaced when they do not vary" : "");
	if (o->replay_updates > 0)
		fprintf(out, "replay       %lld supervised updates a step of %lld own genuine answers, at %g times the rate\n",
			(long long)o->replay_updates, (long long)o->replay_batch_size, o->replay_rate);
}

int rl_plan_print(const struct rl_options *o, const struct model_config *c, const struct ops *ops, size_t room,
	const struct prompt_set *prompts, const struct reward_rule *rule, FILE *out, struct err *err)
{
	struct lengths l = lengths_of(prompts);
	struct rl_memory m;
	rl_memory_settle(o, c, ops, (int)l.longest, room, &m);
	if (out) {
		rl_memory_print(o, ops, &m, out);
		run_print(o, prompts, &l, rule, out);
	}
	int rc = plan_check(&m.plan, policy_room_name(&o->policy, ops, room), room, m.advice, err);
	return rc ? rc : rows_check(o, c, ops, (int)l.longest, err);
}
