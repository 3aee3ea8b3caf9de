/* Prompts: tasks rendered through a template and a chat form, then tokenised. What is
 * too long is refused and counted; the paper's recipes alone may cut on the left. */
#include "rl/rl.h"
#include "agent/agent.h"
#include "base/base.h"
#include "task/task.h"
#include "text/text.h"
#include "verify/verdict.h"

#include <stdlib.h>

static void row_release(struct prompt_row *r)
{
	free(r->task.name);
	free(r->task.source);
	free(r->task.structure);
	free(r->task.split);
	free(r->kernel);
	variants_release(r);
	free(r->body);
	free(r->text);
	ids_release(&r->ids);
}

void prompt_set_release(struct prompt_set *s)
{
	for (size_t i = 0; i < s->count; i++) row_release(&s->rows[i]);
	free(s->rows);
	*s = (struct prompt_set){0};
}

static struct prompt_row *set_push(struct prompt_set *s)
{
	if ((s->count & (s->count - 1)) == 0)
		s->rows = xrealloc(s->rows, size_mul(s->count ? 2 * s->count : 1, sizeof *s->rows));
	s->rows[s->count] = (struct prompt_row){0};
	return &s->rows[s->count++];
}

static void task_copy(struct task *dst, const struct task *src)
{
	*dst = *src;
	dst->name = xstrdup(src->name);
	dst->source = xstrdup(src->source);
	dst->structure = xstrdup(src->structure ? src->structure : "");
	dst->split = xstrdup(src->split ? src->split : "");
}

/* Kernel and profile of a midend row; the other keys were read by task_set_load, whose rows these
 * are in step with. */
struct kernel_reader {
	struct prompt_set *set;
	size_t next;
};

static int row_read_kernel(void *ctx, const json_t *o, const char *where, struct err *err)
{
	struct kernel_reader *k = ctx;
	if (k->next == k->set->count) return err_set(err, ERR_FORMAT, "%s: more rows than tasks", where);
	struct prompt_row *r = &k->set->rows[k->next++];
	const char *kernel;
	const json_t *profile = json_object_get(o, "profile");
	if (!profile || !json_object_get(o, "kernel"))
		return err_set(err, ERR_FORMAT,
			"%s: no field \"%s\": the midend starts from a kernel and its verdict; `hone pairs synth --stage midend` "
			"writes such rows",
			where, profile ? "kernel" : "profile");
	if (json_get_str(o, where, "kernel", &kernel, err)) return err->code;
	if (verdict_from_json(profile, &r->profile, err)) return err_prefix(err, "%s: field profile", where);
	if (r->profile.class != VERDICT_GENUINE)
		return err_set(err, ERR_FORMAT, "%s: profile is %s: the midend starts from genuine kernels", where,
			verdict_class_name(r->profile.class));
	r->kernel = xstrdup(kernel);
	return 0;
}

static int kernels_read(struct prompt_set *s, const char *path, struct err *err)
{
	struct kernel_reader k = {.set = s};
	int rc = jsonl_each(path, JSONL_LINE_MAX, row_read_kernel, &k, err);
	if (!rc && k.next < s->count)
		rc = err_set(err, ERR_FORMAT, "%s: %zu rows with a kernel, expected %zu", path, k.next, s->count);
	return rc;
}

static int row_render(struct prompt_row *r, const struct prompt_options *o, const char *template_text,
	const struct tokenizer *t, struct err *err)
{
	struct prompt_input in = {.task = &r->task,
		.kernel = r->kernel,
		.profile = r->kernel ? &r->profile : NULL,
		.variants = r->variants,
		.nvariants = r->nvariants,
		.precision = o->precision};
	struct str body = {0};
	struct chat_text chat = {0};
	int rc = prompt_render(template_text, o->prompt_template, &in, &body, err);
	struct chat_message m = {"user", body.data ? body.data : ""};
	r->body = xstrdup(m.content);
	/* A policy outside has its own form of a chat, and its own tokens. */
	if (!rc && t) rc = chat_render(o->chat_template, o->chat_date, &m, 1, true, &chat, err);
	if (!rc && t) rc = chat_encode(t, &chat, &r->ids, err);
	if (!rc) r->text = xstrdup(t ? chat.text.data : r->body);
	str_release(&body);
	chat_text_release(&chat);
	if (rc) err_prefix(err, "task %s", r->task.name);
	return rc;
}

static bool row_fits(struct prompt_set *s, struct prompt_row *r, const struct prompt_options *o)
{
	if (o->max_prompt_length <= 0 || r->ids.count <= (size_t)o->max_prompt_length) return true;
	if (!o->truncate_prompts) {
		s->refused++;
		return false;
	}
	size_t cut = r->ids.count - (size_t)o->max_prompt_length;
	memmove(r->ids.data, r->ids.data + cut, (r->ids.count - cut) * sizeof *r->ids.data);
	r->ids.count -= cut;
	s->truncated++;
	return true;
}

static void set_shuffle(struct prompt_set *s, uint64_t seed)
{
	struct rng rng = {.seed = seed, .stream = 0x70726f6d70747331};
	rng_shuffle(&rng, s->rows, s->count, sizeof *s->rows);
}

/* Drops rows of other splits and levels, and where variants are wanted those that have nothing to
 * be compared, then everything past the limit, before the dear part (tokenising) begins. */
static int set_select(struct prompt_set *s, const struct prompt_options *o, struct err *err)
{
	size_t kept = 0;
	int rc = o->variants ? variants_attach(s, o->variants_from, o->variants, err) : 0;
	for (size_t i = 0; i < s->count; i++) {
		bool keep = !o->split || !*o->split || !strcmp(s->rows[i].task.split, o->split);
		keep = keep && (!o->level || s->rows[i].task.level == o->level);
		s->others += !keep;
		bool is_alone = o->variants && s->rows[i].nvariants < 2;
		s->alone += keep && is_alone;
		keep = keep && !is_alone;
		if (keep) s->rows[kept++] = s->rows[i];
		else row_release(&s->rows[i]);
	}
	s->count = kept;
	if (o->limit <= 0) return rc;
	set_shuffle(s, o->seed);
	while (s->count > (size_t)o->limit) row_release(&s->rows[--s->count]);
	return rc;
}

static int set_render(struct prompt_set *s, const struct prompt_options *o, const struct tokenizer *t, struct err *err)
{
	struct str text = {0};
	int rc = agent_template_read(o->stage, o->prompt_template, &text, err);
	size_t kept = 0, i = 0;
	for (; !rc && i < s->count; i++) {
		struct prompt_row *r = &s->rows[i];
		rc = row_render(r, o, text.data, t, err);
		if (rc) break;
		if (row_fits(s, r, o)) s->rows[kept++] = *r;
		else row_release(r);
	}
	for (; i < s->count; i++) row_release(&s->rows[i]);
	s->count = kept;
	str_release(&text);
	return rc;
}

int prompt_set_kernels(const struct prompt_options *o, const struct prompt_kernel *k, size_t n,
	const struct tokenizer *t, struct prompt_set *out, struct err *err)
{
	struct prompt_set s = {0};
	for (size_t i = 0; i < n; i++) {
		struct prompt_row *r = set_push(&s);
		task_copy(&r->task, k[i].task);
		r->kernel = xmalloc(k[i].len + 1);
		memcpy(r->kernel, k[i].source, k[i].len);
		r->kernel[k[i].len] = 0;
		r->profile = *k[i].profile;
	}
	int rc = set_render(&s, o, t, err);
	if (rc) prompt_set_release(&s);
	else *out = s;
	return rc;
}

/* Says what took each of the tasks away. */
static int nothing_left(const struct prompt_set *s, const struct prompt_options *o, size_t ntasks, struct err *err)
{
	struct str why = {0};
	if (s->others) str_printf(&why, ", %d of another split than --split \"%s\"", s->others, o->split ? o->split : "");
	if (s->others && o->level) str_printf(&why, " or level than --level %lld", (long long)o->level);
	if (s->refused)
		str_printf(&why, ", %d longer than --max_prompt_length %lld", s->refused, (long long)o->max_prompt_length);
	if (s->alone) str_printf(&why, ", %d without two variants in --variants_from", s->alone);
	err_set(err, ERR_NOT_FOUND, "%s: no prompt left of %zu tasks%s", o->tasks, ntasks, why.data ? why.data : "");
	str_release(&why);
	return ERR_NOT_FOUND;
}

int prompt_set_load(const struct prompt_options *o, const struct tokenizer *t, struct prompt_set *out, struct err *err)
{
	enum agent_stage stage;
	struct task_set tasks = {0};
	struct prompt_set s = {0};
	int rc = agent_stage_from_name(o->stage, &stage, err);
	if (!rc) rc = task_set_load(o->tasks, &tasks, err);
	if (rc) return rc;
	for (size_t i = 0; i < tasks.count; i++) task_copy(&set_push(&s)->task, &tasks.tasks[i]);
	size_t ntasks = tasks.count;
	task_set_release(&tasks);
	if (stage == AGENT_MIDEND) rc = kernels_read(&s, o->tasks, err);
	if (!rc) rc = set_select(&s, o, err);
	if (!rc) rc = set_render(&s, o, t, err);
	if (!rc && s.count == 0) rc = nothing_left(&s, o, ntasks, err);
	if (rc) prompt_set_release(&s);
	else *out = s;
	return rc;
}
