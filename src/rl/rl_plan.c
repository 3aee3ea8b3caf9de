/* The plan of a run, from config.json and the prompts: memory by what it holds, tokens, and what a
 * step does. The sums are those of the create functions, so what is printed is what would be
 * allocated; nothing is. */
#include "ops/cpu_figures.h"
#include "rl/rl_internal.h"
#include "agent/agent.h"
#include "base/base.h"
#include "infer/infer.h"
#include "model/model.h"
#include "ops/ops.h"

#include <math.h>
#include <stdlib.h>
#include <unistd.h>

#define MIB (1.0 / (1 << 20))
#define HEAD_ROWS 512   /* as the updater's pass */

static int by_size(const void *a, const void *b)
{
	size_t x = *(const size_t *)a, y = *(const size_t *)b;
	return (x > y) - (x < y);
}

struct lengths {
	size_t sum, median, longest;
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

/* Of the comma list, NULL for all. Names are checked where the adapter is made. */
static bool is_target(const char *list, const char *name)
{
	size_t len = strlen(name);
	for (const char *s = list; s && *s; s += strcspn(s, ",") + (s[strcspn(s, ",")] == ','))
		if (strcspn(s, ",") == len && !memcmp(s, name, len)) return true;
	return !list;
}

static double adapter_weights(const struct rl_options *o, const struct model_config *c)
{
	double C = c->hidden_size, M = c->intermediate_size, sides = 0;
	double Q = (double)c->num_attention_heads * c->head_dim, K = (double)c->num_key_value_heads * c->head_dim;
	const struct {
		const char *name;
		double in, out;
	} projections[] = {{"q_proj", C, Q}, {"k_proj", C, K}, {"v_proj", C, K}, {"o_proj", Q, C}, {"gate_proj", C, M},
		{"up_proj", C, M}, {"down_proj", M, C}};
	for (size_t i = 0; i < ARRAY_LEN(projections); i++)
		if (is_target(o->policy.lora_target_modules, projections[i].name))
			sides += projections[i].in + projections[i].out;
	return sides * (double)o->policy.lora_r * c->num_hidden_layers;
}

/* Bytes of the projections and the head once more, in the order in which generation reads them
 * (model_prepare); only frozen weights are. As fp32: at most. */
static double packed_bytes(const struct rl_options *o, const struct model_config *c)
{
	double embeddings = (double)c->vocab_size * c->hidden_size;
	double weights = o->policy.use_peft ? (double)model_config_params(c) - (c->tie_word_embeddings ? 0 : embeddings)
										: 0;
	return fmin(4 * weights, (double)OPS_PREPARED_BYTES_MAX);
}

struct line {
	const char *name;
	double bytes;
	char what[160];
};

static void memory_print(const struct rl_options *o, const struct model_config *c, size_t longest, FILE *out)
{
	/* The same sizes that the run asks for, so that the plan and the run agree. */
	struct pass_options p = {.max_tokens = (int)o->max_tokens, .head_rows = HEAD_ROWS, .backward = true};
	struct engine_options e = {.max_sequences = (int)MIN(o->generation_batch_size, 64),
		.max_context = (int)longest + (int)o->max_completion_length};
	/* With an adapter the base weights are frozen: gradients and moments are the adapter's
	 * alone. */
	double params = (double)model_config_params(c), adapter = o->policy.use_peft ? adapter_weights(o, c) : 0,
		   trained = o->policy.use_peft ? adapter : params;
	double kv = 2.0 * c->num_hidden_layers * c->num_key_value_heads * c->head_dim * 4 * e.max_sequences * e.max_context;
	bool has_reference = o->beta > 0 && !o->policy.use_peft;
	struct line lines[] = {
		{"weights", 4 * params, ""},
		{"packed copy", packed_bytes(o, c), "at most: projections and head again, as generation reads them"},
		{"reference", has_reference ? 4 * params : 0, ""},
		{"adapter", 4 * adapter, ""},
		{"gradients", 4 * trained, ""},
		{"optimiser", 8 * trained, "AdamW, two moments"},
		{"activations", (double)pass_bytes(NULL, c, &p), ""},
		{"KV cache", kv, ""},
		{"generation", (double)engine_bytes(NULL, c, &e) - kv, "activations of a step, bookkeeping, rounding to pages"},
	};
	/* Lines whose words depend on the options are filled in here. */
	snprintf(lines[0].what, sizeof lines[0].what, "fp32, %.3f billion parameters in %d layers", params * 1e-9,
		c->num_hidden_layers);
	const char *reference = has_reference ? "a second copy for the KL term"
		: o->beta > 0                     ? "the weights without the adapter"
										  : "beta is 0";
	snprintf(lines[2].what, sizeof lines[2].what, "%s", reference);
	snprintf(lines[3].what, sizeof lines[3].what,
		o->policy.use_peft ? "rank %lld, %.1f million parameters" : "none: all weights are trained",
		(long long)o->policy.lora_r, adapter * 1e-6);
	snprintf(lines[6].what, sizeof lines[6].what, "%lld packed tokens, forward and backward", (long long)o->max_tokens);
	snprintf(lines[7].what, sizeof lines[7].what, "%d sequences of %d tokens", e.max_sequences, e.max_context);
	/* The sum is compared with the memory of this machine, which is the question that the plan
	 * answers. */
	double total = 0, machine = (double)sysconf(_SC_PHYS_PAGES) * (double)sysconf(_SC_PAGESIZE);
	for (size_t i = 0; i < ARRAY_LEN(lines); i++) {
		fprintf(out, "%-12s %10.1f MiB%s%s\n", lines[i].name, lines[i].bytes * MIB, *lines[i].what ? "   " : "",
			lines[i].what);
		total += lines[i].bytes;
	}
	fprintf(out, "%-12s %10.1f MiB   this machine has %.1f MiB: %s\n", "total", total * MIB, machine * MIB,
		total <= machine ? "it fits" : "it does not fit");
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
		"tokens       a step: at most %lld written, %.0f trained on, %lld times; the run: at most %.3g written, %.2f "
		"passes over the prompts\n",
		(long long)answers, step, (long long)o->num_iterations, (double)answers * (double)o->max_steps,
		(double)o->max_steps * (double)groups / (double)prompts->count);
	/* How a step learns: the update, the reward and the way in which prompts are drawn. */
	fprintf(out, "update       %s, %s advantages, clip %g/%g, beta %g; AdamW at %g, %s%s\n", o->loss_type, o->advantage,
		o->epsilon, o->epsilon_high, o->beta, o->optimizer.learning_rate, o->optimizer.lr_scheduler_type,
		o->policy.use_peft && o->policy.lora_dropout > 0 ? ", adapter dropout in the gradient pass" : "");
	fprintf(out, "             %lld passes over %lld mini-batches a step; norms within %g times their mean\n",
		(long long)o->num_iterations, (long long)o->steps_per_generation, o->max_grad_ratio);
	fprintf(out, "reward       %s: %s (alpha %g, beta %g, clip %g)\n", rule->name, rule->formula, rule->alpha,
		rule->beta, rule->speedup_clip);
	fprintf(out, "draws        prompts by %s%s; groups %s%s\n", o->prompt_selection,
		o->level_weights ? ", levels by share" : "", o->num_generations_first > 0 ? "staged" : "whole",
		o->filter_groups ? ", replaced when they do not vary" : "");
	if (o->replay_updates > 0)
		fprintf(out, "replay       %lld supervised updates a step of %lld own genuine answers, at %g times the rate\n",
			(long long)o->replay_updates, (long long)o->replay_batch_size, o->replay_rate);
}

void rl_plan_print(const struct rl_options *o, const struct model_config *c, const struct prompt_set *prompts,
	const struct reward_rule *rule, FILE *out)
{
	struct lengths l = lengths_of(prompts);
	memory_print(o, c, l.longest, out);
	run_print(o, prompts, &l, rule, out);
}
