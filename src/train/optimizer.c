/* AdamW with global-norm clipping and the learning-rate schedules of transformers (get_scheduler),
 * stepped together: step k uses the rate of 0-based step k.
 *
 * Moments live in one block in the parameters' order. Runs of parameters that lie next to each
 * other and are treated alike are updated by one call: an adapter is one run. */
#include "train/train_internal.h"

#include <math.h>
#include <stdlib.h>

/* ---- schedules ---- */

typedef double schedule_fn(int64_t step, int64_t warmup, int64_t total);

static double ramp(int64_t step, int64_t warmup) { return (double)step / (double)MAX(1, warmup); }
static double schedule_constant(int64_t step, int64_t warmup, int64_t total) { return 1; }
static double schedule_constant_warmup(int64_t step, int64_t warmup, int64_t total)
{
	return step < warmup ? ramp(step, warmup) : 1;
}
static double schedule_linear(int64_t step, int64_t warmup, int64_t total)
{
	return step < warmup ? ramp(step, warmup) : fmax(0, (double)(total - step) / (double)MAX(1, total - warmup));
}
static double schedule_cosine(int64_t step, int64_t warmup, int64_t total)
{
	if (step < warmup) return ramp(step, warmup);
	double progress = (double)(step - warmup) / (double)MAX(1, total - warmup);
	return 0.5 * (1 + cos(M_PI * fmin(progress, 1))); /* past its end a cosine would rise again */
}

static const struct {
	const char *name;
	schedule_fn *fn;
} schedules[] = {
	{"constant", schedule_constant},
	{"constant_with_warmup", schedule_constant_warmup},
	{"linear", schedule_linear},
	{"cosine", schedule_cosine},
};

static schedule_fn *schedule_get(const char *name)
{
	for (size_t i = 0; i < ARRAY_LEN(schedules); i++)
		if (!strcmp(schedules[i].name, name)) return schedules[i].fn;
	CHECKF(false, "lr_scheduler_type \"%s\" is not in the options' choices", name);
	return NULL;
}

double optimizer_lr(const struct optimizer *o, int64_t step)
{
	return o->options.learning_rate *
		schedule_get(o->options.lr_scheduler_type)(step, o->options.warmup_steps, o->options.max_steps);
}

void optimizer_pace(struct optimizer *o, double spent)
{
	o->options.max_steps = o->steps && spent > 0 ? (int64_t)ceil((double)o->steps / fmin(spent, 1)) : INT64_MAX;
}

/* ---- create ---- */

/* Norms and biases do not decay, as in transformers' Trainer. */
static bool decays(const struct param *p) { return p->ndim > 1; }

static void moments_make(struct optimizer *o, int64_t values)
{
	float *at = o->block;
	static const char *const suffix[2] = {"exp_avg", "exp_avg_sq"};
	for (int which = 0; which < 2; which++)
		for (int i = 0; i < o->count; i++) {
			struct param *p = &o->moments[which * o->count + i];
			*p = o->params[i];
			int len = snprintf(
				p->name, sizeof p->name, "%.*s.%s", (int)(sizeof p->name - 12), o->params[i].name, suffix[which]);
			CHECK(len < (int)sizeof p->name && strlen(o->params[i].name) <= sizeof p->name - 12);
			p->data = at;
			p->grad = NULL;
			at += p->count;
		}
	CHECK(at == o->block + 2 * values);
}

static void spans_make(struct optimizer *o)
{
	o->spans = xcalloc((size_t)MAX(o->count, 1), sizeof *o->spans);
	for (int i = 0; i < o->count; i++) {
		const struct param *p = &o->params[i];
		struct span *last = o->nspans ? &o->spans[o->nspans - 1] : NULL;
		CHECKF(p->grad, "%s has no gradient: model_enable_grad comes before optimizer_create", p->name);
		if (last && last->decays == decays(p) && last->data + last->n == p->data && last->grad + last->n == p->grad)
			last->n += p->count;
		else
			o->spans[o->nspans++] = (struct span){
				p->data, p->grad, o->moments[i].data, o->moments[o->count + i].data, p->count, decays(p)};
	}
}

struct optimizer *optimizer_create(
	struct ops *ops, struct param *params, int count, const struct optimizer_options *options)
{
	struct optimizer *o = xcalloc(1, sizeof *o);
	int64_t values = 0;
	*o = (struct optimizer){.ops = ops, .params = params, .count = count, .options = *options, .next_rate_scale = 1};
	schedule_get(options->lr_scheduler_type);
	for (int i = 0; i < count; i++) values += params[i].count;
	o->block = ops->alloc(ops->ctx, size_mul((size_t)MAX(values, 1), 2 * sizeof(float)));
	o->moments = xcalloc(2 * (size_t)MAX(count, 1), sizeof *o->moments);
	moments_make(o, values);
	spans_make(o);
	return o;
}

void optimizer_free(struct optimizer *o)
{
	if (!o) return;
	o->ops->release(o->ops->ctx, o->block);
	free(o->moments);
	free(o->spans);
	free(o);
}

int64_t optimizer_steps(const struct optimizer *o) { return o->steps; }

void optimizer_skip(struct optimizer *o) { o->steps++; }

void optimizer_next(struct optimizer *o, double rate_scale, double max_norm)
{
	o->next_rate_scale = rate_scale;
	o->next_max_norm = max_norm;
}

/* ---- step ---- */

/* As torch.nn.utils.clip_grad_norm_: scaled by max / (norm + 1e-6) when that is below 1. */
static void clip(struct optimizer *o, double norm)
{
	double fixed = o->options.max_grad_norm > 0 ? o->options.max_grad_norm : INFINITY,
		   next = o->next_max_norm > 0 ? o->next_max_norm : INFINITY, factor = fmin(fixed, next) / (norm + 1e-6);
	if (!(factor < 1)) return;
	for (int i = 0; i < o->nspans; i++) o->ops->scale(o->ops->ctx, o->spans[i].grad, (float)factor, o->spans[i].n);
}

double optimizer_step(struct optimizer *o)
{
	struct ops *ops = o->ops;
	double squares = 0, lr = optimizer_lr(o, o->steps++) * o->next_rate_scale;
	for (int i = 0; i < o->nspans; i++) squares += ops->sum_squares(ops->ctx, o->spans[i].grad, o->spans[i].n);
	double norm = sqrt(squares);
	if (isfinite(norm)) {
		const struct optimizer_options *p = &o->options;
		struct ops_adamw a = {
			.lr = (float)lr,
			.beta1 = (float)p->adam_beta1,
			.beta2 = (float)p->adam_beta2,
			.eps = (float)p->adam_epsilon,
			.step = ++o->updates,
		};
		clip(o, norm);
		for (int i = 0; i < o->nspans; i++) {
			const struct span *s = &o->spans[i];
			a.weight_decay = s->decays ? (float)p->weight_decay : 0;
			ops->adamw(ops->ctx, s->data, s->grad, s->m, s->v, s->n, &a);
		}
	}
	optimizer_next(o, 1, 0);
	for (int i = 0; i < o->nspans; i++) ops->zero(ops->ctx, o->spans[i].grad, (size_t)o->spans[i].n * sizeof(float));
	return norm;
}
