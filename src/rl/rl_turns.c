/* Turns: an answer's verdict is told, and the policy answers again. Tokens are appended and never
 * rendered again, so the context of a turn begins with every token of the turns before it, and what
 * trains is what was sampled. */
#include "rl/rl.h"
#include "agent/agent.h"
#include "base/base.h"
#include "infer/infer.h"
#include "policy/policy.h"
#include "task/task.h"
#include "text/text.h"
#include "text/unicode.h"
#include "verify/verdict.h"

#include <math.h>
#include <stdlib.h>

/* ---- what a further turn says ---- */

/* The message, and its tokens behind the answer's: the end token where the answer was cut and has
 * none, then what the chat form has between two turns. */
static int message_make(const struct turn_options *o, const struct policy *p, const struct task *task,
	const struct rollout *r, const char *feedback, struct str *out, struct ids *ids, struct err *err)
{
	struct prompt_input in = {.task = task, .precision = o->precision, .feedback = feedback};
	struct chat_text chat = {0};
	str_clear(out);
	int rc = prompt_render(o->template_text, o->template_name, &in, out, err);
	if (rc || !ids) return rc;
	const struct completion *c = &r->completion;
	if (c->count == 0 || c->tokens[c->count - 1] != p->stop_id) ids_push(ids, p->stop_id);
	rc = chat_render_turn(p->chat, out->data ? out->data : "", &chat, err);
	if (!rc) rc = chat_encode(p->tokenizer, &chat, ids, err);
	chat_text_release(&chat);
	return rc;
}

/* A turn that says nothing and is longer than it may be. */
static int too_long(const struct turn_options *o, size_t len, struct err *err)
{
	return err_set(err, ERR_LIMIT,
		"--turn_template %s: without any feedback a turn has %zu tokens, --max_feedback_length is %d; raise it",
		o->template_name, len, o->max_feedback);
}

int turns_check(const struct turn_options *o, const struct policy *p, const struct prompt_set *prompts, struct err *err)
{
	/* An answer of no tokens brings no end of its own, so its turn is the longest. */
	static const struct rollout no_answer = {0};
	struct str message = {0};
	struct ids ids = {0};
	int rc = 0;
	for (size_t i = 0; i < prompts->count && !rc; i++) {
		const struct task *task = &prompts->rows[i].task;
		ids.count = 0;
		rc = message_make(o, p, task, &no_answer, "", &message, p ? &ids : NULL, err);
		size_t len = p ? ids.count : message.len;
		if (!rc && len > (size_t)o->max_feedback) rc = too_long(o, len, err);
		if (rc) err_prefix(err, "task %s", task->name);
	}
	ids_release(&ids);
	str_release(&message);
	return rc;
}

/* Cuts the last line off; false when there is nothing left. */
static bool line_drop(struct str *s)
{
	while (s->len && s->data[s->len - 1] == '\n') s->len--;
	while (s->len && s->data[s->len - 1] != '\n') s->len--;
	if (s->data) s->data[s->len] = 0;
	return s->len > 0;
}

/* The message, as long as it may be. */
static int message_fit(const struct turn_options *o, const struct policy *p, const struct task *task,
	const struct rollout *r, struct str *out, struct ids *ids, struct err *err)
{
	struct str feedback = {0}, clean = {0};
	size_t before = ids ? ids->count : 0;
	int rc;
	/* Verdicts quote what candidates wrote, which need not be UTF-8. */
	feedback_render(&r->verdict, r->text + r->answer.code_begin, r->answer.code_end - r->answer.code_begin, &feedback);
	utf8_repair(feedback.data, strlen(feedback.data), &clean);
	for (bool is_empty = false;;) {
		rc = message_make(o, p, task, r, clean.data, out, ids, err);
		size_t len = ids ? ids->count - before : out->len;
		if (rc || len <= (size_t)o->max_feedback) break;
		if (is_empty) {
			rc = too_long(o, len, err);
			break;
		}
		if (ids) ids->count = before;
		is_empty = !line_drop(&clean);
	}
	str_release(&feedback);
	str_release(&clean);
	return rc;
}

int turn_begin(const struct turn_options *o, const struct policy *p, const struct prompt_row *prompt,
	const struct rollout *r, struct rollout *next, struct err *err)
{
	const struct ids *before = r->context.count ? &r->context : &prompt->ids;
	struct str message = {0};
	*next = (struct rollout){.prompt = r->prompt, .sample = r->sample, .turn = r->turn + 1};
	/* Everything so far as it was read and written, then what the verdict says. */
	for (size_t i = 0; p && i < before->count; i++) ids_push(&next->context, before->data[i]);
	for (int i = 0; p && i < r->completion.count; i++) ids_push(&next->context, r->completion.tokens[i]);
	int rc = message_fit(o, p, &prompt->task, r, &message, p ? &next->context : NULL, err);
	next->feedback = message.data;
	return rc ? err_prefix(err, "task %s", prompt->task.name) : 0;
}

/* ---- episodes ---- */

/* A kernel whose time is predicted goes before one whose time is not. */
static bool is_cheaper(double cost_s, double than_s) { return cost_s < than_s || (isnan(than_s) && !isnan(cost_s)); }

int episode_best(const struct rollout *e, int T)
{
	int best = 0;
	for (int t = 1; t < T && !e[t].is_absent; t++) {
		bool is_genuine = e[t].verdict.class == VERDICT_GENUINE, was_genuine = e[best].verdict.class == VERDICT_GENUINE;
		if (is_genuine ? !was_genuine || is_cheaper(e[t].verdict.cost_s, e[best].verdict.cost_s)
					   : !was_genuine && !e[t].is_dropped)
			best = t;
	}
	return best;
}

int turns_order(struct rollout *r, int n, int K, int T, int *sizes, int *total)
{
	struct rollout *group = xcalloc(size_mul((size_t)K, (size_t)T), sizeof *group);
	int groups = 0;
	*total = 0;
	for (int i = 0; i < n; i++) {
		memcpy(group, r + (size_t)i * (size_t)(K * T), (size_t)(K * T) * sizeof *group);
		for (int t = 0; t < T; t++) {
			int size = 0;
			for (int s = 0; s < K; s++)
				if (!group[s * T + t].is_absent) r[*total + size++] = group[s * T + t];
			*total += size;
			if (size) sizes[groups++] = size;
		}
	}
	free(group);
	return groups;
}
