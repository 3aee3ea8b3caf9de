/* stage_optim: the optimiser over a list of weights. Neighbours in memory that are treated alike
 * are one span: an adapter is one, a model has as many as its vectors cut it into. The sum of
 * squares adds fp64 sums of spans from first to last, so spans are part of its bits. */
#include "ops_cpu.h"

/* A run of elements of one parameter; arrays are (n). */
struct span {
	float *p;
	float *grad;
	float *m; /* mean of gradients */
	float *v; /* mean of their squares */
	int64_t n;
	bool decays; /* weight decay is for it */
};

static bool follows(const struct span *s, const struct ops_weight *w)
{
	return s->p + s->n == FLOATS(w->master) && s->grad + s->n == FLOATS(w->grad) && s->decays == (w->rows > 1);
}

/* The span that begins at weight *i; *i becomes the first behind it. */
static struct span span_next(struct ops_weight *const *weights, int n, int *i)
{
	const struct ops_weight *w = weights[*i];
	struct span s = {FLOATS(w->master), FLOATS(w->grad), FLOATS(w->m), FLOATS(w->v), 0, w->rows > 1};
	while (*i < n && (s.n == 0 || follows(&s, weights[*i]))) {
		CHECK(weights[*i]->grad && weights[*i]->master);
		s.n += (int64_t)weights[*i]->rows * weights[*i]->cols;
		++*i;
	}
	return s;
}

static double sum_squares(struct ops_context *c, struct ops_weight *const *weights, int n)
{
	double squares = 0;
	for (int i = 0; i < n;) {
		struct span s = span_next(weights, n, &i);
		squares += c->f.sum_squares(c, s.grad, s.n);
	}
	return squares;
}

static void adamw(struct ops_context *c, struct ops_weight *const *weights, int n, const struct ops_adamw *o)
{
	for (int i = 0; i < n;) {
		struct span s = span_next(weights, n, &i);
		struct ops_adamw a = *o;
		if (!s.decays) a.weight_decay = 0;
		if (o->grad_scale != 1) c->f.scale(c, s.grad, o->grad_scale, s.n);
		c->f.adamw(c, s.p, s.grad, s.m, s.v, s.n, &a);
		memset(s.grad, 0, (size_t)s.n * sizeof *s.grad);
	}
}

void stage_optim_entries(struct ops *t)
{
	t->sum_squares = sum_squares;
	t->adamw = adamw;
}
