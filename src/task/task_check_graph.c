/* Is a composed task worth asking? The graph is evaluated in double precision on a few rows of
 * normal inputs, and refused when it
 *   - overflows or grows beyond what fp32 carries well, also with inputs three times as large,
 *   - amplifies a relative change of 1e-6 in its inputs (a right kernel could then fail on rounding
 *   alone),
 *   - gives a constant, or keeps its result when an operator is left out or an input replaced (a
 *   wrong kernel could then pass).
 * Judging by evaluation needs no rule per operator: abs after square, clamp outside the range and
 * scaling before a norm all show up as "makes no difference". The verdict is a pure function of the
 * graph and the seed. */
#include "task/task_graph.h"
#include "base/base.h"
#include <math.h>

#define SIM_MAGNITUDE_MAX 1e5
#define SIM_PERTURBATION 1e-6

struct sim {
	const struct task_graph *g;
	double *value[GRAPH_NODES_MAX];  /* (rows, cols) */
	double *normal[GRAPH_NODES_MAX]; /* leaves: the normal numbers that value is scaled from */
	int rows[GRAPH_NODES_MAX];       /* of value and normal */
	int cols[GRAPH_NODES_MAX];
	struct arena arena;
	double scale;        /* of the inputs' normal numbers */
	double perturbation; /* relative, of the leaves, up and down in turn; 0: none */
	uint64_t seed;
	int bypass; /* operator replaced by its first operand, or -1 */
	int redraw; /* input drawn anew, or -1 */
};

static int dim_sim(const struct task_graph *g, int dim) { return dim == DIM_ONE ? 1 : g->dims[dim].sim; }

static void sim_shape(struct sim *s, int node)
{
	const struct shape *sh = &s->g->nodes[node].shape;
	const struct op_def *op = s->g->nodes[node].op;
	bool reduced = op && op->kind == OP_REDUCE && !s->g->nodes[node].keep;
	int rows = 1, cols = 1;
	for (int i = 0; i < sh->ndim - 1; i++) rows *= dim_sim(s->g, sh->dim[i]);
	if (sh->ndim > 0) cols = dim_sim(s->g, sh->dim[sh->ndim - 1]);
	if (!reduced && op && s->cols[s->g->nodes[node].args[0]] == 1 && op->kind == OP_UNARY) reduced = true;
	s->rows[node] = reduced ? rows * cols : rows;
	s->cols[node] = reduced ? 1 : cols;
}

/* Linear layers start at uniform +-1/sqrt(K), weight and bias alike: small enough that what follows
 * may see hardly anything. The bias's node stands behind its weight's. */
static double leaf_gain(const struct sim *s, int i)
{
	const struct node *n = &s->g->nodes[i];
	if (n->role == NODE_INPUT) return s->scale;
	bool is_linear = n->has_module && !strncmp(n->module, "linear", 6);
	if (is_linear) return 1.0 / sqrt(3.0 * (n->shape.ndim == 2 ? s->cols[i] : s->cols[i - 1]));
	return n->shape.ndim == 2 ? 1.0 / sqrt((double)s->cols[i]) : 1.0;
}

static void sim_leaf(struct sim *s, int i)
{
	int count = s->rows[i] * s->cols[i];
	double gain = leaf_gain(s, i);
	for (int e = 0; e < count; e++) {
		double z = s->redraw == i ? (double)rng_normal(s->seed + 77, (uint64_t)i, (uint64_t)e) : s->normal[i][e];
		s->value[i][e] = gain * z * (1.0 + s->perturbation * (e & 1 ? 1.0 : -1.0));
	}
}

static void sim_matmul(struct sim *s, int i)
{
	const struct node *n = &s->g->nodes[i];
	const double *a = s->value[n->args[0]], *b = s->value[n->args[1]],
				 *bias = n->nargs > 2 ? s->value[n->args[2]] : NULL;
	int k = s->cols[n->args[0]], cols = s->cols[i];
	for (int r = 0; r < s->rows[i]; r++)
		for (int c = 0; c < cols; c++) {
			double sum = bias ? bias[c] : 0.0;
			for (int j = 0; j < k; j++) sum += a[r * k + j] * (n->transposed ? b[c * k + j] : b[j * cols + c]);
			s->value[i][r * cols + c] = sum;
		}
}

static double sim_at(const struct sim *s, int node, int r, int c)
{
	return s->value[node][(s->rows[node] == 1 ? 0 : r) * s->cols[node] + (s->cols[node] == 1 ? 0 : c)];
}

static void sim_elementwise(struct sim *s, int i)
{
	const struct node *n = &s->g->nodes[i];
	for (int r = 0; r < s->rows[i]; r++)
		for (int c = 0; c < s->cols[i]; c++) {
			double a[3] = {0, 0, 0};
			for (int j = 0; j < n->nargs; j++) a[j] = sim_at(s, n->args[j], r, c);
			s->value[i][r * s->cols[i] + c] = s->bypass == i ? a[0] : n->op->eval(a[0], a[1], a[2], n->k);
		}
}

static void sim_rows(struct sim *s, int i)
{
	const struct node *n = &s->g->nodes[i];
	int a = n->args[0], cols = s->cols[a];
	for (int r = 0; r < s->rows[a]; r++) {
		const double *row = s->value[a] + r * cols;
		double *out = s->value[i] + r * s->cols[i];
		if (s->bypass == i && n->op->kind == OP_ROW) memcpy(out, row, (size_t)cols * sizeof *out);
		else n->op->eval_row(row, cols, out);
		for (int c = 0; n->nargs > 1 && c < cols; c++)
			out[c] = out[c] * s->value[n->args[1]][c] + s->value[n->args[2]][c];
	}
}

static void sim_init(struct sim *s)
{
	for (int i = 0; i < s->g->count; i++) {
		sim_shape(s, i);
		size_t count = (size_t)(s->rows[i] * s->cols[i]);
		s->value[i] = arena_alloc(&s->arena, size_mul(count, sizeof(double)));
		if (s->g->nodes[i].role == NODE_OP) continue;
		s->normal[i] = arena_alloc(&s->arena, size_mul(count, sizeof(double)));
		for (size_t e = 0; e < count; e++) s->normal[i][e] = (double)rng_normal(s->seed, (uint64_t)i, e);
	}
}

static bool within(const struct sim *s, int node, double bound)
{
	for (int e = 0; e < s->rows[node] * s->cols[node]; e++)
		if (!(fabs(s->value[node][e]) <= bound)) return false;
	return true;
}

/* Evaluates the nodes from `first` on. False when a value is not finite or too large, or an operand
 * exceeds its operator's arg_max. */
static bool sim_run(struct sim *s, int first)
{
	for (int i = first; i < s->g->count; i++) {
		const struct node *n = &s->g->nodes[i];
		if (n->role != NODE_OP) sim_leaf(s, i);
		else if (n->op->kind == OP_MATMUL) sim_matmul(s, i);
		else if (n->op->kind == OP_REDUCE || n->op->kind == OP_ROW) sim_rows(s, i);
		else sim_elementwise(s, i);
		if (!within(s, i, SIM_MAGNITUDE_MAX * s->scale * s->scale)) return false;
		if (n->role == NODE_OP && n->op->arg_max > 0 && !within(s, n->args[0], n->op->arg_max)) return false;
	}
	return true;
}

struct result {
	double *v;
	int count;
	double mean;
	double std;
};

static void result_take(struct sim *s, struct result *r)
{
	int last = s->g->count - 1;
	r->count = s->rows[last] * s->cols[last];
	r->v = arena_alloc(&s->arena, size_mul((size_t)r->count, sizeof(double)));
	memcpy(r->v, s->value[last], (size_t)r->count * sizeof(double));
	r->mean = r->std = 0.0;
	for (int i = 0; i < r->count; i++) r->mean += r->v[i] / r->count;
	for (int i = 0; i < r->count; i++) r->std += (r->v[i] - r->mean) * (r->v[i] - r->mean) / r->count;
	r->std = sqrt(r->std);
}

/* Share of elements that differ from the base result by more than bound, in units of its standard
 * deviation. NaN, which is no distance at all, differs. */
static double changed(const struct sim *s, const struct result *base, double bound)
{
	const double *v = s->value[s->g->count - 1];
	int n = 0;
	for (int i = 0; i < base->count; i++) n += !(fabs(v[i] - base->v[i]) <= bound * base->std);
	return (double)n / base->count;
}

/* Every operator that can be left out and every input must show in the result. From the last node
 * to the first: what stands before a changed node still holds its proper value. */
static bool all_matter(struct sim *s, const struct result *base)
{
	for (int i = s->g->count - 1; i >= 0; i--) {
		const struct node *n = &s->g->nodes[i];
		bool skippable = n->role == NODE_OP && n->op->kind != OP_REDUCE && n->op->kind != OP_MATMUL &&
			shape_equal(&n->shape, &s->g->nodes[n->args[0]].shape);
		if (!skippable && n->role == NODE_OP) continue;
		s->bypass = skippable ? i : -1;
		s->redraw = n->role == NODE_OP ? -1 : i;
		if (sim_run(s, i) && changed(s, base, 0.02) < 0.08) return false;
	}
	s->bypass = s->redraw = -1;
	return true;
}

bool graph_is_sound(const struct task_graph *g, uint64_t seed)
{
	struct sim s = {.g = g, .seed = seed, .scale = 3.0, .bypass = -1, .redraw = -1};
	struct result base;
	sim_init(&s);
	bool ok = sim_run(&s, 0);
	s.scale = 1.0;
	ok = ok && sim_run(&s, 0);
	if (ok) {
		result_take(&s, &base);
		ok = base.std > 1e-3 * fabs(base.mean) && base.std > 1e-5;
	}
	ok = ok && all_matter(&s, &base);
	s.perturbation = SIM_PERTURBATION;
	ok = ok && sim_run(&s, 0) && changed(&s, &base, 200 * SIM_PERTURBATION) == 0.0;
	arena_release(&s.arena);
	return ok;
}
