/* The answers of one step (with turns: episodes, whose answers are grouped by turn). Without more
 * options: the step's prompts, K answers each. Staged: a few answers each first, the rest where
 * they are likely to differ. DAPO's dynamic sampling (filter_groups): groups without variance are
 * replaced by fresh prompts, up to max_num_gen_batches rounds; what was generated for nothing is
 * recorded all the same, and does not train. */
#include "rl/rl_internal.h"
#include "base/base.h"
#include "infer/infer.h"
#include "task/task.h"
#include "verify/verdict.h"

#include <math.h>
#include <stdlib.h>

void epoch_prompts(uint64_t seed, int prompts, int64_t step, int groups, int *index)
{
	int64_t per_epoch = prompts / groups, epoch = step / per_epoch, chunk = step % per_epoch;
	int *order = xmalloc((size_t)prompts * sizeof *order);
	struct rng rng = {.seed = seed, .stream = 0x65706f6368000000 + (uint64_t)epoch};
	for (int i = 0; i < prompts; i++) order[i] = i;
	rng_shuffle(&rng, order, (size_t)prompts, sizeof *order);
	memcpy(index, order + chunk * groups, (size_t)groups * sizeof *index);
	free(order);
}

void step_batch_release(struct step_batch *b)
{
	rollouts_release(b->r, b->n);
	free(b->r);
	free(b->sizes);
	free(b->varies);
	*b = (struct step_batch){0};
}

/* ---- one round ---- */

/* Prompts of a round. The first one without promise is the epoch's next chunk. */
static void round_prompts(const struct loop *l, int round, const int *taken, int ntaken, int n, int *index)
{
	const struct rl_options *o = l->o;
	bool is_by_promise = !strcmp(o->prompt_selection, "promise");
	if (round == 0 && !is_by_promise) epoch_prompts((uint64_t)o->seed, (int)l->prompts.count, l->step, n, index);
	else history_draw(l->history, l->step + 1, round, taken, ntaken, n, index);
}

struct turn_options loop_turn_options(const struct loop *l)
{
	return (struct turn_options){.most = (int)l->o->num_turns,
		.is_refining = l->o->turn_refines,
		.max_feedback = (int)l->o->max_feedback_length,
		.template_text = l->turn_template.data,
		.template_name = l->o->turn_template,
		.precision = l->o->precision};
}

/* How a step's answers are drawn: `samples` to each prompt. */
static struct rollout_options collect_options(const struct loop *l, int samples, int64_t id_base)
{
	const struct rl_options *o = l->o;
	return (struct rollout_options){
		.num_samples = samples,
		.id_base = id_base,
		.sampling = {.temperature = (float)o->temperature,
			.top_k = (int)o->top_k,
			.top_p = (float)o->top_p,
			.min_p = (float)o->min_p,
			.seed = (uint64_t)o->seed},
		.temperature_code = (float)o->temperature_code,
		.max_new_tokens = (int)o->max_completion_length,
		.stop_ids = &l->policy.stop_id,
		.nstop = 1,
		.adapter = l->policy.adapter,
		.gpu = l->policy.ops ? l->policy.ops->uuid : NULL,
	};
}

/* Whether the rest of a group is worth drawing, from its first answers and the run's history. */
static bool group_pays(void *ctx, const struct rollout *g, int first, int rest)
{
	const struct loop *l = ctx;
	return history_group_pays(l->history, l->step + 1, g, first, rest);
}

/* n groups into out, group behind group. Of a staged group a few answers come first, and the rest
 * if they pay; their sample numbers go on, so a group that is completed has the answers of one
 * that was drawn whole. */
static int round_collect(struct loop *l, const int *index, int n, int64_t id_base, struct rollout *out, int *sizes,
	int *groups, int *total, struct err *err)
{
	int K = (int)l->o->num_generations, T = (int)l->o->num_turns;
	struct rollout_options ro = collect_options(l, K, id_base);
	ro.first = (int)l->o->num_generations_first;
	ro.pays = group_pays;
	ro.pays_ctx = l;
	ro.times = &l->times;
	ro.turns = loop_turn_options(l);
	int rc = rollouts_share(l->ranks, &l->author, l->verifier, &l->prompts, index, n, &ro, out, sizes, err);
	if (rc) {
		rollouts_release(out, n * K * T);
		return rc;
	}
	*groups = n;
	*total = 0;
	if (T > 1) {
		*groups = turns_order(out, n, K, T, sizes, total);
		return 0;
	}
	/* Groups that stayed small leave gaps. */
	for (int g = 0; g < n; *total += sizes[g++])
		memmove(out + *total, out + (size_t)g * (size_t)K, (size_t)sizes[g] * sizeof *out);
	return 0;
}

/* ---- the step ---- */

/* Puts the groups that teach something first, in the order in which they came; with filter_groups
 * the first `wanted` of them train, else all groups do. */
static void batch_order(struct step_batch *b, bool filters, int wanted)
{
	struct rollout *r = xcalloc((size_t)MAX(b->n, 1), sizeof *r);
	int *sizes = xcalloc((size_t)MAX(b->groups, 1), sizeof *sizes), n = 0, groups = 0, kept = 0;
	b->kept = b->n;
	if (filters) {
		for (int pass = 0; pass < 2; pass++)
			for (int g = 0, begin = 0; g < b->groups; begin += b->sizes[g++]) {
				if (b->varies[g] == (pass == 1)) continue;
				memcpy(r + n, b->r + begin, (size_t)b->sizes[g] * sizeof *r);
				n += b->sizes[g];
				sizes[groups++] = b->sizes[g];
				if (pass == 0 && groups <= wanted) kept = n;
			}
		memcpy(b->r, r, (size_t)n * sizeof *r);
		memcpy(b->sizes, sizes, (size_t)groups * sizeof *sizes);
		for (int g = 0; g < groups; g++) b->varies[g] = g < groups - b->flat;
		b->kept = kept;
	}
	free(r);
	free(sizes);
}

int step_collect(struct loop *l, struct step_batch *b, struct err *err)
{
	const struct rl_options *o = l->o;
	/* Room for all rounds that may be needed. */
	int K = (int)o->num_generations, wanted = (int)(o->generation_batch_size / K),
		rounds = o->filter_groups ? (int)o->max_num_gen_batches : 1, missing = wanted, rc = 0;
	int most = wanted * rounds, *index = xcalloc((size_t)most, sizeof *index);
	size_t groups_max = (size_t)most * (size_t)o->num_turns;
	*b = (struct step_batch){.r = xcalloc(groups_max * (size_t)K, sizeof *b->r),
		.sizes = xcalloc(groups_max, sizeof *b->sizes),
		.varies = xcalloc(groups_max, sizeof *b->varies)};
	for (; !rc && b->rounds < rounds && missing > 0; b->rounds++) {
		int total = 0, groups = 0;
		/* A round asks for as many groups as are still missing. Whichever step and round draws a
		 * group, its number is its own, and with it what it draws: a step has 2^20 of them. */
		round_prompts(l, b->rounds, index, b->groups, missing, index + b->groups);
		rc = round_collect(l, index + b->groups, missing, ((l->step + 1) << 20) + b->groups, b->r + b->n,
			b->sizes + b->groups, &groups, &total, err);
		if (rc) break;
		b->n += total;
		b->groups += groups;
		/* Advantages of all groups so far: a batch's scale is that of all of its rewards. */
		b->flat = rollouts_advantages(b->r, b->sizes, b->groups, &l->advantage, &l->prompts, b->varies);
		missing = wanted - (b->groups - b->flat);
	}
	free(index);
	/* Those that are used come first. */
	if (rc) step_batch_release(b);
	else batch_order(b, o->filter_groups, wanted);
	return rc;
}

/* ---- dev ---- */

int step_evaluate(struct loop *l, json_t *metrics, struct err *err)
{
	int n = (int)l->dev.count, genuine = 0, counted = 0;
	int *index = xcalloc((size_t)n + 1, sizeof *index), *sizes = xcalloc((size_t)n + 1, sizeof *sizes);
	struct rollout *r = xcalloc((size_t)n + 1, sizeof *r);
	struct rollout_options ro = collect_options(l, 1, 0);
	ro.sampling = (struct sampling){.temperature = 0, .top_p = 1};
	ro.temperature_code = 0;
	for (int i = 0; i < n; i++) index[i] = i;
	int rc = rollouts_share(l->ranks, &l->author, l->verifier, &l->dev, index, n, &ro, r, sizes, err);
	for (int i = 0; !rc && i < n; i++) {
		counted += !r[i].is_dropped;
		genuine += !r[i].is_dropped && r[i].verdict.class == VERDICT_GENUINE;
	}
	if (!rc && counted) put_number(metrics, "eval/genuine", (double)genuine / counted);
	if (!rc) json_object_set_new(metrics, "eval/tasks", json_integer(counted));
	rollouts_release(r, n);
	free(r);
	free(sizes);
	free(index);
	return rc;
}
