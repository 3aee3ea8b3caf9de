/* eval --pipeline: the cheapest genuine kernel that the frontend wrote for a task is given to the
 * mid-end, and the cheapest of all counts. Beside it, for each task, two chains of the frontend
 * alone: one with as many answers, one with as many tokens. They begin with the frontend's own
 * answers, which all three share. */
#include "cli/eval_options.h"
#include "agent/agent.h"
#include "base/base.h"
#include "infer/infer.h"
#include "policy/policy.h"
#include "rl/rl.h"
#include "task/task.h"
#include "verify/verdict.h"

#include <stdio.h>
#include <stdlib.h>

struct pipeline {
	struct eval_chain *c;
	int n;                   /* tasks */
	int K;                   /* answers of the frontend to each */
	int M;                   /* answers of the mid-end to each kernel */
	struct prompt_set mids;  /* of the tasks with a kernel, in their order */
	int *task_of;            /* (mids) */
	struct rollout *answers; /* (mids * M) of the mid-end */
	struct chain *chain;     /* (3 n) pipeline, single at equal answers, single at equal tokens */
};

/* The frontend's cheapest genuine answer of each task, as the mid-end's prompts. One
 * without a predicted time is not handed on: nothing could be told of its costs, and nobody
 * could say what was gained. */
static int kernels_take(struct pipeline *p, struct err *err)
{
	const struct eval_chain *c = p->c;
	/* A prompt that leaves no room for an answer is refused and counted: by now it would
	 * be late to fail on it. */
	int64_t room = c->author->outside ? 0 : c->policy->config.max_position_embeddings - c->o->max_completion_length,
			most = c->o->max_prompt_length;
	if (room > 0 && (most == 0 || room < most)) most = room;
	struct prompt_kernel *k = xcalloc((size_t)p->n + 1, sizeof *k);
	struct prompt_options o = {.stage = "midend",
		.prompt_template = c->o->midend_template,
		.precision = c->o->precision,
		.chat_template = c->policy->chat,
		.chat_date = c->policy->chat_date,
		.max_prompt_length = most};
	size_t count = 0;
	for (int i = 0; i < p->n; i++) {
		const struct rollout *best = NULL;
		for (int s = 0; s < p->K; s++) {
			const struct rollout *r = &c->rollouts[(int64_t)i * p->K + s];
			if (r->is_dropped || r->verdict.class != VERDICT_GENUINE || !(r->verdict.cost_s > 0)) continue;
			if (!best || r->verdict.cost_s < best->verdict.cost_s) best = r;
		}
		if (!best) continue;
		k[count++] = (struct prompt_kernel){.task = &c->prompts->rows[i].task,
			.source = best->text + best->answer.code_begin,
			.len = best->answer.code_end - best->answer.code_begin,
			.profile = &best->verdict};
	}
	int rc = prompt_set_kernels(&o, k, count, c->policy->tokenizer, &p->mids, err);
	/* Prompts that were too long are gone from the set, and their kernels stay as they are. */
	for (size_t m = 0, i = 0; !rc && m < p->mids.count; m++, i++) {
		while (strcmp(p->mids.rows[m].task.name, c->prompts->rows[i].task.name)) i++;
		p->task_of[m] = (int)i;
	}
	free(k);
	return rc;
}

/* The mid-end's prompts hold kernels, so the engine of the frontend may be too small for them. */
static int engine_fit(struct pipeline *p, struct err *err)
{
	struct eval_chain *c = p->c;
	size_t longest = 0;
	if (c->author->outside) return 0;
	for (size_t i = 0; i < c->prompts->count; i++) longest = MAX(longest, c->prompts->rows[i].ids.count);
	for (size_t i = 0; i < p->mids.count; i++) longest = MAX(longest, p->mids.rows[i].ids.count);
	struct engine_options eo = {.max_sequences = 64, .max_context = (int)longest + (int)c->o->max_completion_length};
	engine_free(c->author->engine);
	c->author->engine = NULL;
	return engine_create(c->policy->model, &eo, &c->author->engine, err);
}

static int midend_ask(struct pipeline *p, struct err *err)
{
	struct eval_chain *c = p->c;
	int count = (int)p->mids.count, *index = xcalloc((size_t)count + 1, sizeof *index);
	struct author mid = *c->author;
	struct rollout_options ro = c->front;
	mid.stage = "midend";
	ro.num_samples = p->M;
	ro.id_base = p->n; /* other random numbers than the frontend's */
	ro.adapter = c->o->midend_adapter ? c->policy->adapters[0] : c->policy->adapter;
	for (int i = 0; i < count; i++) index[i] = i;
	p->answers = xcalloc(size_mul((size_t)count, (size_t)p->M) + 1, sizeof *p->answers);
	int rc = rollouts_collect(&mid, c->verifier, &p->mids, index, count, &ro, p->answers, NULL, err);
	free(index);
	return rc;
}

/* What the pipeline used for each task, and the two chains of the frontend
 * alone that use as much. */
static int single_ask(struct pipeline *p, struct err *err)
{
	struct eval_chain *c = p->c;
	struct chain *whole = p->chain, *answers = p->chain + p->n, *tokens = p->chain + 2 * p->n;
	for (int i = 0; i < p->n; i++) {
		whole[i] = (struct chain){.prompt = i, .sample = p->K, .stride = 1};
		for (int s = 0; s < p->K; s++) chain_add(&whole[i], &c->rollouts[(int64_t)i * p->K + s], c->prompts);
		answers[i] = tokens[i] = whole[i];
	}
	for (int64_t m = 0; m < (int64_t)p->mids.count * p->M; m++)
		chain_add(&whole[p->task_of[m / p->M]], &p->answers[m], &p->mids);
	for (int i = 0; i < p->n; i++) {
		answers[i].answers_max = whole[i].answers;
		answers[i].tokens_budget = INT64_MAX;
		tokens[i].tokens_budget = whole[i].tokens;
	}
	struct rollout_options ro = c->front;
	ro.num_samples = 1;
	ro.id_base = p->n + (int)p->mids.count;
	ro.progress = NULL;
	return chains_draw(c->author, c->verifier, c->prompts, &ro, answers, 2 * p->n, err);
}

static void rows_put(const struct pipeline *p, struct str *rows)
{
	for (int64_t m = 0; m < (int64_t)p->mids.count * p->M; m++) {
		json_t *row = rollout_json(&p->answers[m], &p->mids);
		json_object_set_new(row, "stage", json_string("midend"));
		jsonl_put(rows, row);
		json_decref(row);
	}
}

int eval_pipeline(struct eval_chain *c, struct str *rows, json_t **out, struct err *err)
{
	int n = (int)c->prompts->count;
	struct pipeline p = {.c = c,
		.n = n,
		.K = (int)c->o->num_samples,
		.M = (int)(c->o->midend_samples ? c->o->midend_samples : c->o->num_samples)};
	/* The chain, then what it is compared with. */
	p.task_of = xcalloc((size_t)n + 1, sizeof *p.task_of);
	p.chain = xcalloc(3 * (size_t)n + 1, sizeof *p.chain);
	int rc = kernels_take(&p, err);
	if (!rc) rc = engine_fit(&p, err);
	if (!rc) rc = midend_ask(&p, err);
	if (!rc) rc = single_ask(&p, err);
	if (!rc) {
		struct chain *answers = p.chain + n, *tokens = p.chain + 2 * (int64_t)n;
		uint64_t seed = (uint64_t)c->o->seed;
		*out = json_pack("{s:o, s:o, s:o, s:o, s:o, s:o}", "midend", midend_summary(p.answers, &p.mids, p.M, seed),
			"pipeline", chains_json(p.chain, n), "single_equal_answers", chains_json(answers, n), "single_equal_tokens",
			chains_json(tokens, n), "over_equal_answers", chains_paired(p.chain, answers, n, c->prompts, seed),
			"over_equal_tokens", chains_paired(p.chain, tokens, n, c->prompts, seed));
		rows_put(&p, rows);
	}
	if (p.answers) rollouts_release(p.answers, (int)p.mids.count * p.M);
	prompt_set_release(&p.mids);
	free(p.answers);
	free(p.chain);
	free(p.task_of);
	return rc;
}

/* ---- for people ---- */

static void print_over(const char *name, const json_t *d)
{
	const json_t *ratio = json_object_get(d, "speedup_ratio");
	printf("%s: solved %+.4f [%+.4f, %+.4f]", name, real_at(d, "solved"), real_at(d, "low"), real_at(d, "high"));
	if (ratio)
		printf(", speedup x%.3f [%.3f, %.3f] on %lld %s", real_at(ratio, "value"), real_at(ratio, "low"),
			real_at(ratio, "high"), count_at(ratio, "pairs"),
			plural(count_at(ratio, "pairs"), "task that both solve", "tasks that both solve"));
	printf("\n");
}

void eval_midend_print(const json_t *m)
{
	const char *name;
	json_t *change;
	printf("mid-end: %lld %s given, %lld too long for it; of %lld %s %.4f genuine, %.4f faster, %.4f slower\n",
		count_at(m, "kernels"), plural(count_at(m, "kernels"), "kernel", "kernels"), count_at(m, "refused_prompts"),
		count_at(m, "answers"), plural(count_at(m, "answers"), "answer", "answers"), real_at(m, "genuine"),
		real_at(m, "faster"), real_at(m, "slower"));
	printf("speedup over the kernels given x%.3f, 95 %% interval over %lld %s [%.3f, %.3f]\n",
		real_at(m, "speedup_geomean"), count_at(m, "structures"),
		plural(count_at(m, "structures"), "structure", "structures"), real_at(m, "low"), real_at(m, "high"));
	json_object_foreach(json_object_get(m, "changes"), name, change) if (count_at(change, "kernels"))
		printf("  %-14s %lld %s, x%.3f\n", name, count_at(change, "kernels"),
			plural(count_at(change, "kernels"), "kernel", "kernels"), real_at(change, "speedup_geomean"));
	if (count_at(m, "untimed"))
		printf(
			"%lld genuine answers have no predicted time that could be compared with the given kernel's: its profile "
			"has none, or one of other sizes (--cost_size) or of another card (--gpu)\n",
			count_at(m, "untimed"));
}

void eval_pipeline_print(const json_t *j)
{
	static const char *const sides[] = {"pipeline", "single_equal_answers", "single_equal_tokens"};
	eval_midend_print(json_object_get(j, "midend"));
	for (size_t i = 0; i < ARRAY_LEN(sides); i++) {
		const json_t *s = json_object_get(j, sides[i]);
		printf("%-22s %.4f solved, speedup %.4f; a task: %.2f answers, %.0f tokens\n", sides[i], real_at(s, "solved"),
			real_at(s, "speedup_geomean"), real_at(s, "answers"), real_at(s, "tokens"));
	}
	print_over("pipeline - single at equal answers", json_object_get(j, "over_equal_answers"));
	print_over("pipeline - single at equal tokens", json_object_get(j, "over_equal_tokens"));
}
