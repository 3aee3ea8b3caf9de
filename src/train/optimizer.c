/* AdamW with global-norm clipping and the learning-rate schedules of transformers (get_scheduler),
 * stepped together: step k uses the rate of 0-based step k.
 *
 * Moments live in one block in the parameters' order. The backend updates the whole list of weights
 * in one call. */
#include "train/train_internal.h"
#include "base/base.h"
#include "model/model.h"
#include "ops/ops.h"
#include "ranks/ranks.h"

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
	double end = spent > 0 ? ceil((double)o->steps / fmin(spent, 1)) : 0;
	/* At the first step nothing is known; nor is an end that lies behind what can be counted. */
	o->options.max_steps = o->steps && end > 0 && end < 0x1p62 ? (int64_t)end : INT64_MAX;
}

/* ---- create ---- */

static void moments_make(struct optimizer *o, int64_t values)
{
	static const char *const suffix[2] = {"exp_avg", "exp_avg_sq"};
	int64_t at = 0;
	for (int which = 0; which < 2; which++)
		for (int i = 0; i < o->count; i++) {
			struct param *p = &o->moments[which * o->count + i];
			*p = o->params[i];
			int len = snprintf(
				p->name, sizeof p->name, "%.*s.%s", (int)(sizeof p->name - 12), o->params[i].name, suffix[which]);
			CHECK(len < (int)sizeof p->name && strlen(o->params[i].name) <= sizeof p->name - 12);
			struct f32 *moment = (struct f32 *)((uintptr_t)o->block + (uintptr_t)at * sizeof(float));
			p->w = (struct ops_weight){.rows = p->w.rows, .cols = p->w.cols, .ld = p->w.cols, .master = moment};
			p->changes = &o->moment_changes;
			at += p->count;
		}
	CHECK(at == 2 * values);
}

/* Norms and biases do not decay, as in transformers' Trainer: the backend knows them by their one
 * row. A matrix of one row (A of an adapter of rank 1) is given to it as a column. */
static void weights_make(struct optimizer *o)
{
	for (int i = 0; i < o->count; i++) {
		const struct param *p = &o->params[i];
		struct ops_weight *w = &o->weights[i];
		CHECKF(
			p->w.grad && p->w.master, "%s has no gradient: model_enable_grad comes before optimizer_create", p->name);
		*w = p->w;
		w->m = o->moments[i].w.master;
		w->v = o->moments[o->count + i].w.master;
		if (p->ndim > 1 && w->rows == 1) {
			w->rows = w->cols;
			w->cols = 1;
			w->ld = 1;
		}
		o->list[i] = w;
	}
}

struct optimizer *optimizer_create(
	struct ops *ops, struct param *params, int count, const struct optimizer_options *options)
{
	struct optimizer *o = xcalloc(1, sizeof *o);
	size_t n = (size_t)MAX(count, 1);
	int64_t values = 0;
	*o = (struct optimizer){.ops = ops, .params = params, .count = count, .options = *options, .next_rate_scale = 1};
	schedule_get(options->lr_scheduler_type);
	for (int i = 0; i < count; i++) values += params[i].count;
	o->block = ops->alloc(ops->ctx, size_mul((size_t)MAX(values, 1), 2 * sizeof(float)));
	o->moments = xcalloc(2 * n, sizeof *o->moments);
	o->weights = xcalloc(n, sizeof *o->weights);
	o->list = xcalloc(n, sizeof(struct ops_weight *));
	moments_make(o, values);
	weights_make(o);
	return o;
}

void optimizer_free(struct optimizer *o)
{
	if (!o) return;
	o->ops->release(o->ops->ctx, o->block);
	free(o->moments);
	free(o->weights);
	free(o->list);
	free(o);
}

int64_t optimizer_steps(const struct optimizer *o) { return o->steps; }

void optimizer_skip(struct optimizer *o) { o->steps++; }

void optimizer_next(struct optimizer *o, double rate_scale, double max_norm)
{
	o->next_rate_scale = rate_scale;
	o->next_max_norm = max_norm;
}

int optimizer_gather(struct optimizer *o, struct ranks *ranks, struct err *err)
{
	int rc = 0;
	/* Gradients that lie one behind the other, as a model's or an adapter's do, go together. */
	for (int i = 0, end; ranks && !rc && i < o->count; i = end) {
		int64_t n = o->params[i].count;
		for (end = i + 1; end < o->count; n += o->params[end++].count)
			if ((uintptr_t)o->params[end].w.grad != (uintptr_t)o->params[i].w.grad + (uintptr_t)n * sizeof(float))
				break;
		rc = ranks_sum(ranks, o->ops, o->params[i].w.grad, n, err);
	}
	return rc;
}

/* ---- step ---- */

/* As torch.nn.utils.clip_grad_norm_: scaled by max / (norm + 1e-6) when that is below 1. */
static float clip_scale(const struct optimizer *o, double norm)
{
	double fixed = o->options.max_grad_norm > 0 ? o->options.max_grad_norm : INFINITY,
		   next = o->next_max_norm > 0 ? o->next_max_norm : INFINITY, factor = fmin(fixed, next) / (norm + 1e-6);
	return factor < 1 ? (float)factor : 1;
}

double optimizer_step(struct optimizer *o)
{
	struct ops *ops = o->ops;
	double lr = optimizer_lr(o, o->steps++) * o->next_rate_scale,
		   norm = sqrt(ops->sum_squares(ops->ctx, o->list, o->count)), scale = clip_scale(o, norm);
	optimizer_next(o, 1, 0);
	if (!isfinite(norm)) {
		params_zero_grad(ops, o->params, o->count);
		return norm;
	}
	const struct optimizer_options *p = &o->options;
	struct ops_adamw a = {
		.lr = (float)lr,
		.beta1 = (float)p->adam_beta1,
		.beta2 = (float)p->adam_beta2,
		.eps = (float)p->adam_epsilon,
		.weight_decay = (float)p->weight_decay,
		.grad_scale = (float)scale,
		.step = ++o->updates,
	};
	ops->adamw(ops->ctx, o->list, o->count, &a);
	for (int i = 0; i < o->count; i++) ++*o->params[i].changes;
	return norm;
}
