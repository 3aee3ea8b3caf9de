/* Rollouts: the engine writes answers while the verifier grades the ones that are finished.
 * Which answer finishes first changes nothing: every result lands in its own slot. */
#include "rl/rl_internal.h"
#include "agent/agent.h"
#include "base/base.h"
#include "infer/infer.h"
#include "text/text.h"
#include "text/unicode.h"
#include "train/train.h"
#include "verify/verdict.h"
#include "verify/verify.h"

#include <math.h>
#include <limits.h>
#include <stdlib.h>

#define WATCH_MS 1000 /* between looks at the other ranks while verdicts are waited for */

struct collect {
	struct engine *engine;
	struct verifier *verifier;
	const struct tokenizer *tokenizer;
	const struct prompt_set *prompts;
	const int *index;
	const struct rollout_options *o;
	struct rollout *out;
	int total, finished, outstanding; /* rollouts in all, with a verdict, at the verifier */
	int *sizes, *judged;              /* (n) of each group: answers that were asked for, that have a verdict */
	bool active;                      /* there is something to generate */
	struct span_state *spans;         /* (total) where code has a temperature of its own */
	struct progress progress;
};

static void verdict_format_failure(struct verdict *v, const struct answer *a, enum finish_reason finish)
{
	*v = (struct verdict){.class = VERDICT_INVALID, .stage = STAGE_FORMAT, .speedup_eager = NAN, .speedup_fused = NAN};
	snprintf(v->reason, sizeof v->reason, "%s", finish == FINISH_LENGTH ? "length" : a->problem);
	snprintf(v->detail, sizeof v->detail, "the answer is not a plan followed by one closed ```python block (%s)",
		a->problem);
}

static void rollout_decode(struct collect *c, struct rollout *r)
{
	struct str text = {0};
	int n = r->completion.count;
	if (n && r->completion.finish != FINISH_LENGTH) n--; /* the end token is no part of the text */
	tokenizer_decode(c->tokenizer, r->completion.tokens, (size_t)n, false, &text);
	if (!text.data) str_puts(&text, "");
	r->text = text.data;
	r->text_len = text.len;
	r->answer = answer_parse(r->text, r->text_len);
}

/* The engine's draws depend on (seed, sample, position) alone: a seed of its own for
 * every request, or all prompts and all steps would share their random numbers. */
static uint64_t request_seed(uint64_t seed, int64_t id)
{
	struct rng_block b = rng_philox(seed, 0x72657175657374, (uint64_t)id);
	return (uint64_t)b.v[0] << 32 | b.v[1];
}

static float temperature_at(void *ctx, int64_t id, int sample, const int32_t *tokens, int count)
{
	struct collect *c = ctx;
	int slot = (int)(id - c->o->id_base) * c->o->num_samples + sample;
	bool is_code = span_is_code(&c->spans[slot], c->tokenizer, tokens, count);
	return is_code ? c->o->temperature_code : c->o->sampling.temperature;
}

/* Answers `from` to `to` of a group. */
static int submit_answers(struct collect *c, int place, int from, int to, struct err *err)
{
	const struct prompt_row *p = &c->prompts->rows[c->index[place]];
	struct request q = {
		.id = c->o->id_base + place,
		.prompt = p->ids.data,
		.nprompt = (int)p->ids.count,
		.num_samples = to - from,
		.first_sample = from,
		.sampling = c->o->sampling,
		.max_new_tokens = c->o->max_new_tokens,
		.stop_ids = c->o->stop_ids,
		.nstop = c->o->nstop,
		.adapter = c->o->adapter,
		.temperature_at = c->o->temperature_code > 0 ? temperature_at : NULL,
		.temperature_ctx = c,
	};
	q.sampling.seed = request_seed(c->o->sampling.seed, q.id);
	c->sizes[place] = to;
	c->active = true;
	int rc = engine_submit(c->engine, &q, err);
	return rc ? err_prefix(err, "task %s", p->task.name) : 0;
}

/* An answer has its verdict. Behind the last of a staged group's first ones the others may follow. */
static int count_finished(struct collect *c, int64_t slot, struct err *err)
{
	int K = c->o->num_samples, place = (int)(slot / K), first = c->o->first;
	c->finished++;
	if (c->o->progress) progress_update(&c->progress, c->finished, NULL);
	if (++c->judged[place] != first || first == 0) return 0;
	if (!c->o->pays(c->o->pays_ctx, &c->out[(int64_t)place * K], first, K - first)) return 0;
	return submit_answers(c, place, first, K, err);
}

static int rollout_grade(struct collect *c, int64_t slot, struct err *err)
{
	struct rollout *r = &c->out[slot];
	if (!r->answer.well_formed) {
		verdict_format_failure(&r->verdict, &r->answer, r->completion.finish);
		return count_finished(c, slot, err);
	}
	struct verify_request req = {
		.task = &c->prompts->rows[r->prompt].task,
		.source = r->text + r->answer.code_begin,
		.source_len = r->answer.code_end - r->answer.code_begin,
		.id = slot,
	};
	c->outstanding++;
	return verifier_submit(c->verifier, &req, err);
}

/* ---- plan and code while they are written ---- */

bool span_is_code(struct span_state *s, const struct tokenizer *t, const int32_t *tokens, int count)
{
	for (; s->seen < count && !s->is_code; s->seen++) {
		struct str text = {0};
		tokenizer_decode(t, &tokens[s->seen], 1, true, &text);
		for (size_t i = 0; i < text.len && !s->is_code; i++) {
			char c = text.data[i];
			if (c == '\n') s->backticks = 0;
			else if (c == '`' && s->backticks >= 0) s->is_code = ++s->backticks == 3;
			else if ((c != ' ' && c != '\t') || s->backticks > 0) s->backticks = -1;
		}
		str_release(&text);
	}
	return s->is_code;
}

static int take_completions(struct collect *c, struct err *err)
{
	struct completion done;
	while (engine_take(c->engine, &done)) {
		int place = (int)(done.id - c->o->id_base);
		int64_t slot = (int64_t)place * c->o->num_samples + done.sample;
		CHECK(slot >= 0 && slot < c->total);
		struct rollout *r = &c->out[slot];
		*r = (struct rollout){.prompt = c->index[place], .sample = done.sample, .completion = done};
		int rc = completion_check(&done, err);
		if (rc) return err_prefix(err, "task %s", c->prompts->rows[r->prompt].task.name);
		rollout_decode(c, r);
		rc = rollout_grade(c, slot, err);
		if (rc) return rc;
	}
	return 0;
}

/* The verdicts that are there; with nothing to generate, all that are outstanding, or until one of
 * them asks for more answers. */
static int take_verdicts(struct collect *c, struct err *err)
{
	bool waits = !c->active;
	while (c->outstanding && !(waits && c->active)) {
		int64_t slot;
		struct verdict v;
		int rc = verifier_collect(c->verifier, !waits ? 0 : c->o->watch ? WATCH_MS : -1, &slot, &v, err);
		if (rc == ERR_TIMEOUT) return 0;
		if (rc) return rc;
		c->out[slot].verdict = v;
		c->out[slot].is_dropped = v.class == VERDICT_INFRA;
		c->outstanding--;
		if (c->o->times && !v.cached) c->o->times->verify_s += v.seconds;
		if ((rc = count_finished(c, slot, err))) return rc;
	}
	return 0;
}

static double seconds(const struct rollout_times *t) { return t && t->clock ? t->clock() : 1e-9 * (double)clock_ns(); }

static int collect_run(struct collect *c, int n, struct err *err)
{
	int rc = 0, first = c->o->first ? c->o->first : c->o->num_samples;
	double t0 = seconds(c->o->times);
	for (int i = 0; i < n && !rc; i++) rc = submit_answers(c, i, 0, first, err);
	while (!rc && (c->active || c->outstanding)) {
		if (c->o->watch && (rc = c->o->watch(c->o->watch_ctx, err))) break;
		bool generates = c->active;
		if (generates) {
			int active = 0;
			rc = engine_turn(c->engine, c->o->gpu, &active, err);
			c->active = active > 0;
			if (!rc) rc = take_completions(c, err);
		}
		if (!rc) rc = take_verdicts(c, err);
		double now = seconds(c->o->times);
		if (c->o->times) *(generates ? &c->o->times->generate_s : &c->o->times->idle_s) += now - t0;
		t0 = now;
	}
	return rc;
}

int rollouts_collect(struct engine *e, struct verifier *v, const struct tokenizer *t, const struct prompt_set *prompts,
	const int *index, int n, const struct rollout_options *o, struct rollout *out, int *sizes, struct err *err)
{
	struct collect c = {
		.engine = e, .verifier = v, .tokenizer = t, .prompts = prompts, .index = index, .o = o, .out = out};
	/* Verdicts come back under the number of their answer, which has to fit an int. */
	if (__builtin_mul_overflow(n, o->num_samples, &c.total))
		return err_set(err, ERR_LIMIT, "%d prompts with %d answers each are more than %d answers; ask for fewer", n,
			o->num_samples, INT_MAX);
	memset(out, 0, (size_t)c.total * sizeof *out);
	c.spans = xcalloc((size_t)MAX(c.total, 1), sizeof *c.spans);
	c.judged = xcalloc((size_t)MAX(n, 1) * 2, sizeof *c.judged);
	c.sizes = sizes ? sizes : c.judged + n;
	if (o->progress) progress_begin(&c.progress, o->progress, "answers", c.total);
	int rc = collect_run(&c, n, err);
	if (o->progress) progress_end(&c.progress);
	free(c.spans);
	free(c.judged);
	return rc;
}

void rollouts_release(struct rollout *r, int n)
{
	for (int i = 0; i < n; i++) {
		completion_release(&r[i].completion);
		free(r[i].text);
		r[i] = (struct rollout){0};
	}
}

/* How long a verdict took and whether it came from a cache is not about the answer, and would make
 * equal runs unequal. */
static json_t *verdict_record(const struct verdict *v)
{
	json_t *j = verdict_json(v);
	json_object_del(j, "seconds");
	json_object_del(j, "cached");
	return j;
}

/* What a model writes may end in the middle of a character, be no UTF-8 at all or hold NUL, which
 * our JSON cannot: each becomes U+FFFD. */
static json_t *answer_json(const char *text, size_t len)
{
	struct str clean = {0};
	for (size_t i = 0; i < len; i++) {
		size_t n = strnlen(text + i, len - i);
		utf8_repair(text + i, n, &clean);
		i += n;
		if (i < len) str_puts(&clean, "\xef\xbf\xbd");
	}
	json_t *j = json_stringn(clean.data ? clean.data : "", clean.len);
	str_release(&clean);
	return j;
}

json_t *rollout_json(const struct rollout *r, const struct prompt_set *prompts)
{
	const struct prompt_row *p = &prompts->rows[r->prompt];
	json_t *j = json_pack("{s:s, s:i, s:s, s:s, s:i, s:o, s:i, s:s, s:o, s:f, s:f, s:f, s:f}", "task", p->task.name,
		"level", p->task.level, "structure", p->task.structure, "split", p->task.split, "sample", r->sample, "answer",
		answer_json(r->text, r->text_len), "tokens", r->completion.count, "finish",
		finish_reason_name(r->completion.finish), "verdict", verdict_record(&r->verdict), "reward_plan", r->reward.plan,
		"reward_code", r->reward.code, "advantage_plan", r->advantage_plan, "advantage_code", r->advantage_code);
	CHECKF(j, "a rollout that is not JSON");
	return j;
}

/* ---- rewards and advantages ---- */

double overlong_penalty(const struct advantage_options *o, int tokens)
{
	if (o->overlong_buffer_len <= 0) return 0;
	int free_tokens = o->max_completion_length - o->overlong_buffer_len;
	double over = (double)(tokens - free_tokens) / o->overlong_buffer_len;
	return o->overlong_penalty_factor * fmin(fmax(over, 0), 1);
}

double reward_total(const struct reward_rule *rule, const struct reward *r)
{
	return rule->is_split ? r->code + rule->alpha * r->plan : r->code;
}

static void group_rewards(struct rollout *g, int K, const struct advantage_options *o, const struct prompt_set *prompts,
	double *plan, double *code)
{
	for (int k = 0; k < K; k++) {
		const struct prompt_row *p = &prompts->rows[g[k].prompt];
		struct reward_input in = {.verdict = &g[k].verdict, .baseline = p->kernel ? &p->profile : NULL};
		g[k].is_dropped = !reward_compute(o->rule, &in, &g[k].reward);
		double penalty = overlong_penalty(o, g[k].completion.count);
		g[k].reward.plan -= penalty;
		g[k].reward.code -= penalty;
		plan[k] = g[k].is_dropped ? NAN : g[k].reward.plan;
		code[k] = g[k].is_dropped ? NAN : g[k].reward.code;
	}
}

static double weighted(const struct advantage_options *o, double advantage)
{
	return o->weight * (advantage < 0 ? advantage * o->negative_weight : advantage);
}

int rollouts_advantages(struct rollout *r, const int *sizes, int groups, const struct advantage_options *o,
	const struct prompt_set *prompts, bool *has_variance)
{
	int n = 0, dropped = 0, begin = 0;
	for (int g = 0; g < groups; g++) n += sizes[g];
	double *v = xcalloc((size_t)MAX(n, 1) * 4, sizeof *v), *plan = v, *code = v + n, *a_plan = v + 2 * n,
		   *a_code = v + 3 * n;
	for (int g = 0; g < groups; begin += sizes[g++]) {
		group_rewards(r + begin, sizes[g], o, prompts, plan + begin, code + begin);
		bool has_plan = group_advantages(o->type, plan + begin, sizes[g], a_plan + begin),
			 has_code = group_advantages(o->type, code + begin, sizes[g], a_code + begin);
		/* without any variance there is nothing to learn from the group */
		dropped += !has_plan && !has_code;
		if (has_variance) has_variance[g] = has_plan || has_code;
	}
	/* Scales of the whole batch, for each part's rewards. */
	bool is_batch = o->type == ADVANTAGE_BATCH;
	double plan_scale = is_batch ? advantages_batch_scale(plan, n) : 1,
		   code_scale = is_batch ? advantages_batch_scale(code, n) : 1;
	for (int i = 0; i < n; i++) {
		r[i].advantage_code = weighted(o, code_scale * a_code[i]);
		r[i].advantage_plan = o->rule->is_split ? weighted(o, o->rule->alpha * plan_scale * a_plan[i])
												: r[i].advantage_code;
	}
	free(v);
	return dropped;
}
