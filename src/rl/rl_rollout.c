/* Rollouts: an author writes answers (a model in the engine, or a policy outside) while the
 * verifier grades the ones that are finished. Which answer finishes first changes nothing: every
 * result lands in its own slot. */
#include "rl/rl_internal.h"
#include "agent/agent.h"
#include "base/base.h"
#include "infer/infer.h"
#include "policy/policy.h"
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
	const struct author *author;
	struct verifier *verifier;
	const struct prompt_set *prompts;
	const int *index;
	const struct rollout_options *o;
	struct rollout *out;
	int total;                /* rollouts */
	int finished;             /* of them: with a verdict */
	int outstanding;          /* at the verifier */
	int *sizes;               /* (n) answers that were asked for, of each group */
	int *judged;              /* (n) of them: with a verdict */
	bool active;              /* there is something to generate */
	struct span_state *spans; /* (total) where code has a temperature of its own */
	struct progress progress;
};

static void verdict_format_failure(struct verdict *v, const struct answer *a, enum finish_reason finish)
{
	*v = (struct verdict){.class = VERDICT_INVALID, .stage = STAGE_FORMAT, .speedup_eager = NAN, .speedup_fused = NAN};
	snprintf(v->reason, sizeof v->reason, "%s", finish == FINISH_LENGTH ? "length" : a->problem);
	snprintf(
		v->detail, sizeof v->detail, "the answer is not a plan followed by one closed block of code (%s)", a->problem);
}

static void rollout_decode(struct collect *c, struct rollout *r)
{
	struct str text = {0};
	int n = r->completion.count;
	if (n && r->completion.finish != FINISH_LENGTH) n--; /* the end token is no part of the text */
	tokenizer_decode(c->author->policy->tokenizer, r->completion.tokens, (size_t)n, false, &text);
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

/* ---- slots and requests ---- */

/* A request's id says which prompt and which turn; the answers to a first turn share their
 * prompt and are one request.
 */
#define TURN_SHIFT 44

static int turns_of(const struct collect *c) { return MAX(1, c->o->turns.most); }

/* Which of the batch's prompts the answer in a slot is to. */
static int place_of(const struct collect *c, int64_t slot) { return (int)(slot / turns_of(c) / c->o->num_samples); }

static int64_t slot_of(const struct collect *c, int64_t id, int sample)
{
	int64_t place = (id & (((int64_t)1 << TURN_SHIFT) - 1)) - c->o->id_base, turn = id >> TURN_SHIFT;
	int64_t number = sample - (c->o->samples ? c->o->samples[place] : 0);
	return (place * c->o->num_samples + number) * turns_of(c) + turn;
}

static float temperature_at(void *ctx, int64_t id, int sample, const int32_t *tokens, int count)
{
	struct collect *c = ctx;
	struct span_state *span = &c->spans[slot_of(c, id, sample)];
	bool is_code = span_is_code(span, c->author->policy->tokenizer, tokens, count);
	return is_code ? c->o->temperature_code : c->o->sampling.temperature;
}

/* The engine writes the answers `first` to `first + count` of a prompt behind these tokens. */
static int submit_engine(
	struct collect *c, int place, int turn, const struct ids *prompt, int first, int count, struct err *err)
{
	struct request q = {
		.id = (c->o->id_base + place) | (int64_t)turn << TURN_SHIFT,
		.prompt = prompt->data,
		.nprompt = (int)prompt->count,
		.num_samples = count,
		.first_sample = first,
		.sampling = c->o->sampling,
		.max_new_tokens = c->o->max_new_tokens,
		.stop_ids = c->o->stop_ids,
		.nstop = c->o->nstop,
		.adapter = c->o->adapter,
		.temperature_at = c->o->temperature_code > 0 ? temperature_at : NULL,
		.temperature_ctx = c,
	};
	q.sampling.seed = request_seed(c->o->sampling.seed, q.id);
	int rc = engine_submit(c->author->engine, &q, err);
	return rc ? err_prefix(err, "task %s", c->prompts->rows[c->index[place]].task.name) : 0;
}

/* A policy outside is asked for one answer at a time, and told the whole conversation; the
 * request's id is the answer's slot. */
static int submit_outside(struct collect *c, int64_t slot, struct err *err)
{
	int T = turns_of(c), turn = (int)(slot % T), place = place_of(c, slot);
	const struct rollout *episode = &c->out[slot - turn];
	const struct prompt_row *p = &c->prompts->rows[c->index[place]];
	struct chat_message *m = xcalloc((size_t)(2 * turn + 1), sizeof *m);
	/* The prompt, then each answer with what was said to it. */
	m[0] = (struct chat_message){"user", p->body};
	for (int t = 0; t < turn; t++) {
		m[2 * t + 1] = (struct chat_message){"assistant", episode[t].text};
		m[2 * t + 2] = (struct chat_message){"user", episode[t + 1].feedback};
	}
	int sample = (c->o->samples ? c->o->samples[place] : 0) + (int)(slot / T % c->o->num_samples);
	int64_t id = (c->o->id_base + place) | (int64_t)turn << TURN_SHIFT;
	struct outside_request q = {
		.id = slot,
		.task = p->task.name,
		.stage = c->author->stage,
		.sample = sample,
		.turn = turn,
		.messages = m,
		.count = (size_t)(2 * turn + 1),
		.temperature = c->o->sampling.temperature,
		.max_tokens = c->o->max_new_tokens,
		.seed = request_seed(request_seed(c->o->sampling.seed, id), sample),
	};
	int rc = outside_submit(c->author->outside, &q, err);
	free(m);
	return rc;
}

/* First turns of the answers `from` to `to` of a group. */
static int submit_answers(struct collect *c, int place, int from, int to, struct err *err)
{
	const struct prompt_row *p = &c->prompts->rows[c->index[place]];
	int rc = 0, T = turns_of(c), number = c->o->samples ? c->o->samples[place] : 0;
	c->sizes[place] = to;
	c->active = true;
	if (!c->author->outside) return submit_engine(c, place, 0, &p->ids, number + from, to - from, err);
	for (int s = from; s < to && !rc; s++) rc = submit_outside(c, ((int64_t)place * c->o->num_samples + s) * T, err);
	return rc;
}

/* ---- turns ---- */

static bool episode_goes_on(const struct collect *c, const struct rollout *r)
{
	if (r->turn + 1 >= turns_of(c) || r->is_dropped) return false;
	return r->verdict.class != VERDICT_GENUINE || c->o->turns.is_refining;
}

/* The next turn of an episode, or its end: the turns that are left are absent then. */
static int next_turn(struct collect *c, int64_t slot, struct err *err)
{
	struct rollout *r = &c->out[slot], *next = r + 1;
	int left = turns_of(c) - 1 - r->turn, rc;
	bool is_outside = c->author->outside;
	if (!episode_goes_on(c, r)) {
		for (int t = 0; t < left; t++)
			next[t] = (struct rollout){
				.prompt = r->prompt, .sample = r->sample, .turn = r->turn + 1 + t, .is_absent = true};
		c->finished += left;
		return 0;
	}
	rc = turn_begin(&c->o->turns, is_outside ? NULL : c->author->policy, &c->prompts->rows[r->prompt], r, next, err);
	if (rc) return rc;
	c->active = true;
	return is_outside ? submit_outside(c, slot + 1, err)
					  : submit_engine(c, place_of(c, slot), next->turn, &next->context, r->sample, 1, err);
}

/* An answer has its verdict. Its episode goes on or ends; behind the last of a staged group's first
 * ones the others may follow. */
static int count_finished(struct collect *c, int64_t slot, struct err *err)
{
	int K = c->o->num_samples, place = place_of(c, slot), first = c->o->first;
	c->finished++;
	int rc = next_turn(c, slot, err);
	if (c->o->progress) progress_update(&c->progress, c->finished, NULL);
	if (rc || ++c->judged[place] != first || first == 0) return rc;
	if (!c->o->pays(c->o->pays_ctx, &c->out[(int64_t)place * K], first, K - first)) return 0;
	return submit_answers(c, place, first, K, err);
}

/* Nothing is said of the answer. */
static void leave_out(struct rollout *r, const char *reason)
{
	r->is_dropped = true;
	r->verdict = (struct verdict){
		.class = VERDICT_INFRA, .stage = STAGE_FORMAT, .speedup_eager = NAN, .speedup_fused = NAN};
	snprintf(r->verdict.reason, sizeof r->verdict.reason, "%s", reason);
}

static int rollout_grade(struct collect *c, int64_t slot, struct err *err)
{
	struct rollout *r = &c->out[slot];
	if (!r->answer.well_formed) {
		verdict_format_failure(&r->verdict, &r->answer, r->completion.finish);
		return count_finished(c, slot, err);
	}
	if (!c->verifier) {
		leave_out(r, "not-judged");
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
	while (engine_take(c->author->engine, &done)) {
		int64_t slot = slot_of(c, done.id, done.sample);
		CHECK(slot >= 0 && slot < c->total);
		struct rollout *r = &c->out[slot]; /* of a later turn it has its context and feedback already */
		r->prompt = c->index[place_of(c, slot)];
		r->sample = done.sample;
		r->completion = done;
		int rc = completion_check(&done, err);
		if (rc) return err_prefix(err, "task %s", c->prompts->rows[r->prompt].task.name);
		rollout_decode(c, r);
		rc = rollout_grade(c, slot, err);
		if (rc) return rc;
	}
	return 0;
}

/* An answer that the policy says it does not have is dropped: that is no fault of a candidate. */
static void outside_problem(struct rollout *r, const struct outside_answer *a)
{
	r->text = xstrdup("");
	leave_out(r, "policy-error");
	snprintf(r->verdict.detail, sizeof r->verdict.detail, "the policy has no answer: %s", a->problem);
}

/* The next answer from outside, or a verdict that is there first. */
static int take_outside(struct collect *c, struct err *err)
{
	struct outside_answer a;
	bool is_there;
	int rc = outside_take(c->author->outside, c->outstanding ? verifier_fd(c->verifier) : -1, &is_there, &a, err);
	if (rc || !is_there) return rc;
	CHECK(a.id >= 0 && a.id < c->total);
	struct rollout *r = &c->out[a.id];
	int place = place_of(c, a.id);
	r->prompt = c->index[place];
	r->sample = (c->o->samples ? c->o->samples[place] : 0) + (int)(a.id / turns_of(c) % c->o->num_samples);
	r->completion = (struct completion){.count = a.tokens, .finish = a.is_cut ? FINISH_LENGTH : FINISH_STOP};
	c->active = outside_waiting(c->author->outside) > 0;
	if (!a.text) {
		outside_problem(r, &a);
		return count_finished(c, a.id, err);
	}
	r->text = a.text;
	r->text_len = a.len;
	r->answer = answer_parse(r->text, r->text_len);
	/* Its text is not what the policy wrote, so no code of it is judged. */
	if (a.is_broken) r->answer = (struct answer){.problem = "not-text", .plan_end = r->text_len};
	return rollout_grade(c, a.id, err);
}

/* The verdicts that are there; who waits takes all that are outstanding, or until one of them
 * asks for more answers. */
static int take_verdicts(struct collect *c, bool waits, struct err *err)
{
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
		if (generates && c->author->outside) {
			rc = take_outside(c, err);
		} else if (generates) {
			int active = 0;
			rc = engine_step_held(c->author->engine, c->o->gpu, &active, err);
			c->active = active > 0;
			if (!rc) rc = take_completions(c, err);
		}
		/* Behind the last token the next round waits, so that its seconds count as idle. */
		if (!rc) rc = take_verdicts(c, !generates, err);
		double now = seconds(c->o->times);
		if (c->o->times) *(generates ? &c->o->times->generate_s : &c->o->times->idle_s) += now - t0;
		t0 = now;
	}
	return rc;
}

int rollouts_collect(const struct author *a, struct verifier *v, const struct prompt_set *prompts, const int *index,
	int n, const struct rollout_options *o, struct rollout *out, int *sizes, struct err *err)
{
	struct collect c = {.author = a, .verifier = v, .prompts = prompts, .index = index, .o = o, .out = out};
	/* Verdicts come back under the number of their answer, which has to fit an int. */
	int per_prompt = o->num_samples * turns_of(&c);
	if (__builtin_mul_overflow(n, per_prompt, &c.total))
		return err_set(err, ERR_LIMIT, "%d prompts with %d answers each are more than %d answers; ask for fewer", n,
			per_prompt, INT_MAX);
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
		ids_release(&r[i].context);
		free(r[i].feedback);
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
	json_t *j = json_pack("{s:s, s:i, s:s, s:s, s:i, s:i, s:o, s:i, s:s, s:o, s:f, s:f, s:f, s:f}", "task",
		p->task.name, "level", p->task.level, "structure", p->task.structure, "split", p->task.split, "sample",
		r->sample, "turn", r->turn, "answer", answer_json(r->text, r->text_len), "tokens", r->completion.count,
		"finish", finish_reason_name(r->completion.finish), "verdict", verdict_record(&r->verdict), "reward_plan",
		r->reward.plan, "reward_code", r->reward.code, "advantage_plan", r->advantage_plan, "advantage_code",
		r->advantage_code);
	CHECKF(j, "a rollout that is not JSON");
	if (r->feedback) json_object_set_new(j, "feedback", json_string(r->feedback));
	return j;
}
