/* Composing graphs by level. Each level draws one of a few families; within a family, operators,
 * operands, constants and sizes are drawn until graph_is_sound accepts. All draws come from one
 * counter-based stream, so (level, seed) names a graph for good.
 *
 *   1  chain: one to three element-wise operators on one tensor
 *   2  ew: three to six element-wise operators on two or three tensors, broadcast parameters; row:
 *   reductions, softmax and norms over the last
 *      dimension between element-wise operators
 *   3  mm: linear layers and matrix products with epilogues, perceptrons, norm before linear, row
 *   operators after it, attention */
#include "task/task_graph.h"
#include "base/base.h"
#include <math.h>

#define COMPOSE_ATTEMPTS_MAX 1000

struct composer {
	struct task_graph *g;
	struct rng r;
	int current;  /* node that the chain continues from */
	int saved;    /* earlier result that a binary operator may come back to, or -1 */
	int spare[2]; /* (nspare) inputs not used yet */
	int nspare;
	int scales; /* parameters made so far, of each kind */
	int biases;
};

static bool draw(struct composer *c, int percent) { return rng_below(&c->r, 100) < (uint32_t)percent; }
static int draw_range(struct composer *c, int lo, int hi)
{
	return lo + (int)rng_below(&c->r, (uint32_t)(hi - lo + 1));
}

/* Sizes spread evenly over magnitudes; a third are multiples of 16, the rest whatever comes, mostly
 * odd. */
int size_draw(struct rng *r, int lo, int hi)
{
	double x = lo * pow((double)hi / lo, (double)rng_next_uniform(r));
	int v = MAX(lo, MIN(hi, (int)x));
	if (rng_below(r, 100) < 33) v = MAX(16, v / 16 * 16);
	else if (v % 2 == 0 && v < hi && rng_below(r, 100) < 70) v++;
	return v;
}
static int draw_size(struct composer *c, int lo, int hi) { return size_draw(&c->r, lo, hi); }

/* ---- constants ---- */

/* Constants of an operator: a whole number between the ends, times the unit; and a second one. */
struct const_range {
	int lo;
	int hi;
	double unit;
	int lo2; /* in tenths */
	int hi2; /* 0: there is no second one */
};
static const struct const_range CONST_RANGES[CONST_COUNT] = {
	[CONST_ADD] = {1, 20, 0.1, 0, 0},
	[CONST_MUL] = {2, 30, 0.1, 0, 0},
	[CONST_SLOPE] = {1, 6, 0.05, 0, 0},
	[CONST_EPS] = {1, 10, 0.1, 0, 0},
	[CONST_BOUND] = {-10, 10, 0.1, 0, 0},
	[CONST_RANGE] = {-20, -1, 0.1, 1, 20},
	[CONST_ALPHA] = {5, 20, 0.1, 0, 0},
	[CONST_MIX] = {1, 9, 0.1, 0, 0},
	[CONST_SHRINK] = {1, 8, 0.1, 0, 0},
};

static int between(struct rng *r, int lo, int hi) { return lo + (int)rng_below(r, (uint32_t)(hi - lo + 1)); }

static void draw_constants(struct rng *rng, struct node *n)
{
	if (n->op->consts == CONST_NONE) return;
	const struct const_range *r = &CONST_RANGES[n->op->consts];
	int v = between(rng, r->lo, r->hi);
	if (n->op->consts == CONST_MUL && v == 10) v = 15;
	/* the shortest decimal, as it is printed: 3 * 0.1 is not 0.3 */
	n->k[0] = r->unit == 0.1 ? v / 10.0 : v / 20.0;
	if (r->hi2) n->k[1] = between(rng, r->lo2, r->hi2) / 10.0;
}

/* ---- single operators ---- */

static int op_add(struct composer *c, const struct op_def *op, int a, int b, int d)
{
	int i = graph_op(c->g, op, a, b, d);
	struct node *n = &c->g->nodes[i];
	draw_constants(&c->r, n);
	n->spelling = op->torch[1] && draw(c, 40);
	return i;
}

int graph_op_draw(struct task_graph *g, struct rng *r, const struct op_def *op, int a)
{
	int i = graph_op(g, op, a, -1, -1);
	draw_constants(r, &g->nodes[i]);
	g->nodes[i].spelling = op->torch[1] && rng_below(r, 100) < 40;
	return i;
}

static const struct op_def *draw_op(struct composer *c, enum op_kind kind)
{
	size_t count;
	const struct op_def *ops = op_list(kind, &count);
	return &ops[rng_below(&c->r, (uint32_t)count)];
}

/* The affine constants (add_c to div_c) undo or repeat each other, so two of a kind never stand
 * side by side. */
static bool is_shift(const char *name)
{
	return !strcmp(name, "add_c") || !strcmp(name, "sub_c") || !strcmp(name, "rsub_c");
}
static bool is_scale(const char *name) { return !strcmp(name, "mul_c") || !strcmp(name, "div_c"); }
static bool repeats(const struct node *previous, const struct op_def *op)
{
	if (previous->role != NODE_OP) return false;
	const char *p = previous->op->name;
	return previous->op == op || (is_shift(p) && is_shift(op->name)) || (is_scale(p) && is_scale(op->name));
}

static void add_unary(struct composer *c)
{
	const struct op_def *op;
	do op = draw_op(c, OP_UNARY);
	while (repeats(&c->g->nodes[c->current], op));
	c->current = op_add(c, op, c->current, -1, -1);
}

static void add_unary_branch(struct composer *c)
{
	/* keeps the value before the operator for a binary operator later: x *
	 * sigmoid(x) and its like */
	c->saved = c->current;
	add_unary(c);
}

static void add_binary_with(struct composer *c, int other)
{
	const struct op_def *op = draw_op(c, OP_BINARY);
	c->current = op_add(c, op, c->current, other, -1);
}

static void add_binary_input(struct composer *c)
{
	CHECK(c->nspare > 0);
	int y = c->spare[--c->nspare];
	if (c->nspare > 0 && draw(c, 35)) {
		c->current = op_add(c, op_get("where"), y, c->current, c->spare[--c->nspare]);
		return;
	}
	add_binary_with(c, y);
}

static void add_binary_saved(struct composer *c)
{
	int other = c->saved;
	c->saved = -1;
	add_binary_with(c, other);
}

/* A broadcast parameter over the last dimension: scale or bias. */
static void add_param(struct composer *c)
{
	const struct shape *s = &c->g->nodes[c->current].shape;
	if (s->ndim < 2 || s->dim[s->ndim - 1] == DIM_ONE) return;
	bool is_scale_param = draw(c, 50);
	int *made = is_scale_param ? &c->scales : &c->biases;
	char name[GRAPH_NAME_BYTES];
	snprintf(name, sizeof name, *made ? "%s%d" : "%s", is_scale_param ? "scale" : "bias", *made + 1);
	(*made)++;
	int p = graph_param(c->g, name, NULL, shape_of(1, &s->dim[s->ndim - 1]));
	c->current = op_add(c, op_get(is_scale_param ? "mul" : "add"), c->current, p, -1);
}

static void add_elementwise(struct composer *c)
{
	int pick = draw_range(c, 0, 99);
	if (c->nspare > 0 && pick < 25) add_binary_input(c);
	else if (c->saved >= 0 && c->saved != c->current && pick < 45) add_binary_saved(c);
	else if (pick < 55) add_param(c);
	else if (pick < 70 && c->saved < 0) add_unary_branch(c);
	else add_unary(c);
}

/* ---- families ---- */

static struct shape tensor_shape(struct composer *c, int ndim, int elements_max)
{
	int d[3];
	struct task_graph *g = c->g;
	if (ndim == 1) d[0] = graph_dim(g, "N", draw_size(c, 500, elements_max), 256);
	if (ndim == 3) d[0] = graph_dim(g, "BATCH", draw_range(c, 2, 6), 2);
	if (ndim >= 2) {
		int rows = draw_size(c, ndim == 3 ? 3 : 5, ndim == 3 ? 24 : 90);
		int cols = draw_size(c, 17, MAX(32, MIN(900, elements_max / (rows * (ndim == 3 ? 6 : 1)))));
		d[ndim - 2] = graph_dim(g, "ROWS", rows, ndim == 3 ? 2 : 4);
		d[ndim - 1] = graph_dim(g, "COLS", cols, cols);
	}
	return shape_of(ndim, d);
}

static void start(struct composer *c, struct shape shape, int inputs)
{
	static const char *const NAMES[] = {"x", "y", "z"};
	c->current = graph_input(c->g, NAMES[0], shape);
	c->nspare = inputs - 1;
	for (int i = 1; i < inputs; i++)
		c->spare[c->nspare - i] = graph_input(c->g, NAMES[i], shape); /* y is taken first */
}

static void family_chain(struct composer *c)
{
	int pick = draw_range(c, 0, 99);
	c->g->family = "chain";
	start(c, tensor_shape(c, pick < 55 ? 1 : pick < 85 ? 2 : 3, 65536), 1);
	int ops = draw(c, 22) ? 1 : draw_range(c, 2, 3);
	for (int i = 0; i < ops; i++) add_unary(c);
}

static void family_elementwise(struct composer *c)
{
	int pick = draw_range(c, 0, 99);
	c->g->family = "ew";
	start(c, tensor_shape(c, pick < 40 ? 1 : pick < 85 ? 2 : 3, 32768), draw_range(c, 2, 3));
	int ops = draw_range(c, 3, 6);
	for (int i = 0; i < ops; i++) add_elementwise(c);
	if (c->saved >= 0 && c->saved != c->current) add_binary_saved(c);
	while (c->nspare > 0) add_binary_input(c);
}

/* A row operator; a reduction either ends the row (its result then has one value a row) or comes
 * back into it by broadcasting. */
static void add_row_op(struct composer *c, bool may_reduce)
{
	int before = c->current;
	if (!may_reduce || draw(c, 55)) {
		const struct op_def *op = draw_op(c, OP_ROW);
		c->current = op_add(c, op, c->current, -1, -1);
		return;
	}
	c->current = op_add(c, draw_op(c, OP_REDUCE), before, -1, -1);
	if (!draw(c, 50)) return;
	graph_keep(c->g, c->current);
	if (draw(c, 40)) add_unary(c);
	int kept = c->current;
	c->current = before;
	add_binary_with(c, kept);
}

static void add_layer_norm_params(struct composer *c)
{
	const struct shape *s = &c->g->nodes[c->current].shape;
	struct shape last = shape_of(1, &s->dim[s->ndim - 1]);
	int w = graph_param(c->g, "weight", "norm", last), b = graph_param(c->g, "bias", "norm", last);
	c->current = op_add(c, op_get("layer_norm_p"), c->current, w, b);
}

static bool is_reduced(const struct composer *c)
{
	for (int i = 0; i < c->g->count; i++)
		if (c->g->nodes[i].role == NODE_OP && c->g->nodes[i].op->kind == OP_REDUCE && !c->g->nodes[i].keep) return true;
	return false;
}

static void family_row(struct composer *c)
{
	c->g->family = "row";
	start(c, tensor_shape(c, draw(c, 80) ? 2 : 3, 24576), draw(c, 45) ? 2 : 1);
	int before = draw_range(c, 0, 2), after = draw_range(c, before == 0, 3);
	for (int i = 0; i < before; i++) add_elementwise(c);
	if (draw(c, 8)) add_layer_norm_params(c);
	else add_row_op(c, true);
	if (is_reduced(c)) {
		for (int i = 0; i < MIN(after, 2); i++) add_unary(c);
		return;
	}
	for (int i = 0; i < after; i++) add_elementwise(c);
	if (c->nspare > 0) add_binary_input(c);
	if (draw(c, 12)) add_row_op(c, true);
}

/* ---- matrix products ---- */

static int size_dim(struct composer *c, const char *name, int lo, int hi)
{
	int v = draw_size(c, lo, hi);
	return graph_dim(c->g, name, v, v);
}

static int add_linear(struct composer *c, int out_dim, const char *module)
{
	const struct shape *s = &c->g->nodes[c->current].shape;
	int wd[2] = {out_dim, s->dim[s->ndim - 1]};
	int w = graph_param(c->g, "weight", module, shape_of(2, wd)),
		b = graph_param(c->g, "bias", module, shape_of(1, wd));
	int i = op_add(c, op_get("linear"), c->current, w, b);
	snprintf(c->g->nodes[i].module, sizeof c->g->nodes[i].module, "%s", module);
	c->current = i;
	c->saved = -1;
	return i;
}

static void add_epilogue(struct composer *c, int lo, int hi)
{
	int n = draw_range(c, lo, hi);
	for (int i = 0; i < n; i++) add_unary(c);
}

static void rows_input(struct composer *c)
{
	int d[2] = {graph_dim(c->g, "ROWS", draw_size(c, 9, 128), 4), size_dim(c, "DIN", 17, 128)};
	c->current = graph_input(c->g, "x", shape_of(2, d));
}

static void family_linear(struct composer *c)
{
	rows_input(c);
	int out = size_dim(c, "DOUT", 17, 128), residual = -1;
	if (draw(c, 25)) {
		int d[2] = {c->g->nodes[c->current].shape.dim[0], out};
		residual = graph_input(c->g, "y", shape_of(2, d));
	}
	if (draw(c, 20)) add_unary(c);
	else if (draw(c, 20)) add_row_op(c, false);
	add_linear(c, out, "linear");
	add_epilogue(c, residual < 0, 2);
	if (residual >= 0) add_binary_with(c, residual);
	if (draw(c, 30)) add_row_op(c, residual < 0);
}

static void family_matmul(struct composer *c)
{
	struct task_graph *g = c->g;
	int m = graph_dim(g, "M", draw_size(c, 9, 128), 4), k = size_dim(c, "K", 17, 128), n = size_dim(c, "N", 17, 128);
	bool transposed = draw(c, 40), is_weight = !transposed && draw(c, 40);
	c->current = graph_input(g, "x", shape_of(2, (int[]){m, k}));
	struct shape right = shape_of(2, transposed ? (int[]){n, k} : (int[]){k, n});
	int b = is_weight ? graph_param(g, "weight", NULL, right) : graph_input(g, "y", right);
	c->current = op_add(c, op_get(transposed ? "matmul_t" : "matmul"), c->current, b, -1);
	if (draw(c, 60)) {
		int node = op_add(c, op_get("mul_c"), c->current, -1, -1);
		g->nodes[node].k[0] = draw_range(c, 1, 5) / 20.0;
		c->current = node;
	}
	if (draw(c, 35)) add_param(c);
	add_epilogue(c, 0, 2);
	if (draw(c, 30)) add_row_op(c, true);
}

static void family_perceptron(struct composer *c)
{
	rows_input(c);
	int hidden = size_dim(c, "HIDDEN", 17, 128), out = size_dim(c, "DOUT", 17, 96);
	add_linear(c, hidden, "linear1");
	add_epilogue(c, 1, 2);
	add_linear(c, out, "linear2");
	add_epilogue(c, 0, 1);
	if (draw(c, 25)) add_row_op(c, false);
}

static void family_norm_linear(struct composer *c)
{
	rows_input(c);
	int out = size_dim(c, "DOUT", 17, 128);
	if (draw(c, 50)) add_layer_norm_params(c);
	else add_row_op(c, false);
	add_linear(c, out, "linear");
	add_epilogue(c, 0, 2);
}

/* softmax(x y^T * s), and with a third input the attention output. */
static void family_attention(struct composer *c)
{
	struct task_graph *g = c->g;
	int m = graph_dim(g, "M", draw_size(c, 9, 96), 4), n = size_dim(c, "N", 17, 96), d = size_dim(c, "D", 16, 64);
	c->current = graph_input(g, "x", shape_of(2, (int[]){m, d}));
	int y = graph_input(g, "y", shape_of(2, (int[]){n, d})),
		z = draw(c, 60) ? graph_input(g, "z", shape_of(2, (int[]){n, d})) : -1;
	c->current = op_add(c, op_get("matmul_t"), c->current, y, -1);
	c->current = op_add(c, op_get("mul_c"), c->current, -1, -1);
	g->nodes[c->current].k[0] = draw_range(c, 1, 6) / 20.0;
	if (draw(c, 25)) add_unary(c);
	c->current = op_add(c, op_get(draw(c, 85) ? "softmax" : "log_softmax"), c->current, -1, -1);
	if (z >= 0) c->current = op_add(c, op_get("matmul"), c->current, z, -1);
	else add_epilogue(c, 0, 1);
}

typedef void family_fn(struct composer *c);
struct graph_family {
	int level;
	int rung;
	int percent; /* of its level's tasks */
	family_fn *fn;
};
static const struct graph_family FAMILIES[] = {
	{1, 0, 100, family_chain},
	{2, 1, 35, family_elementwise},
	{2, 2, 65, family_row},
	{3, 3, 35, family_linear},
	{3, 3, 25, family_matmul},
	{3, 4, 15, family_perceptron},
	{3, 4, 12, family_norm_linear},
	{3, 4, 13, family_attention},
};

/* Draws among the families of a level, or of a rung where that is not -1. */
static void compose_once(struct task_graph *g, int level, int rung, struct rng r)
{
	struct composer c = {.g = g, .r = r, .current = -1, .saved = -1};
	memset(g, 0, sizeof *g);
	g->family = "mm";
	int total = 0;
	for (size_t i = 0; i < ARRAY_LEN(FAMILIES); i++)
		if (rung < 0 ? FAMILIES[i].level == level : FAMILIES[i].rung == rung) total += FAMILIES[i].percent;
	int pick = draw_range(&c, 0, total - 1);
	for (size_t i = 0; i < ARRAY_LEN(FAMILIES); i++) {
		if (rung < 0 ? FAMILIES[i].level != level : FAMILIES[i].rung != rung) continue;
		if (pick < FAMILIES[i].percent) {
			g->level = FAMILIES[i].level;
			g->rung = FAMILIES[i].rung;
			FAMILIES[i].fn(&c);
			break;
		}
		pick -= FAMILIES[i].percent;
	}
	graph_name_values(g);
}

#define TILE_MAX 64   /* of a product's tiles, in every style of answer */

/* Where values are checked every comparison with a size has to have both outcomes, as it has at the
 * task's own sizes, or nothing is known of these: blocks have a rest, and a product has more than
 * one tile in each direction. */
static int judged_size(int drawn, bool is_tiled)
{
	int odd = drawn | 1;
	return is_tiled && odd <= TILE_MAX ? odd + TILE_MAX : odd;
}

/* The sizes of a rung's graphs: small ones near the drawn, where values are checked; the task's
 * own, which are large enough for a plan to have a price. */
static void graph_enlarge(struct task_graph *g, struct rng *r)
{
	static const struct {
		const char *name;
		int low; /* 0: what is left of the elements */
		int high;
	} LARGE[] = {{"N", 1 << 22, 1 << 24}, {"BATCH", 8, 64}, {"COLS", 512, 4096}, {"ROWS", 0, 0}};
	bool is_product = !strcmp(g->family, "mm");
	double product = 1.0, wanted = pow(2.0, 22.0 + 2.0 * (double)rng_next_uniform(r));
	for (int fill = 0; fill < 2; fill++)
		for (int i = 0; i < g->ndims; i++) {
			struct dim *d = &g->dims[i];
			size_t k = 0;
			while (k < ARRAY_LEN(LARGE) && strcmp(LARGE[k].name, d->name)) k++;
			bool fills = !is_product && k < ARRAY_LEN(LARGE) && LARGE[k].low == 0;
			if (fills != fill) continue;
			d->judged = judged_size(d->value, is_product && strcmp(d->name, "D"));
			/* Products: a head's width stays what heads have, everything else is a layer's. */
			if (is_product) d->value = strcmp(d->name, "D") ? size_draw(r, 1024, 4096) : size_draw(r, 32, 128);
			else if (fills) d->value = MAX(2, (int)(wanted / product));
			else d->value = size_draw(r, LARGE[k].low, LARGE[k].high);
			product *= d->value;
		}
}

/* The result must be the last node, everything must lead to it, and the text must stay short. */
static bool is_fit(const struct task_graph *g, int level)
{
	static const int OPS_MAX[] = {0, 3, 6, 7};
	int ops = 0;
	for (int i = 0; i < g->count; i++) {
		ops += g->nodes[i].role == NODE_OP;
		if (i < g->count - 1 && graph_last_use(g, i) == i) return false;
	}
	return ops > 0 && ops <= OPS_MAX[level] && g->nodes[g->count - 1].role == NODE_OP;
}

#define RUNG_STREAM 16   /* rungs draw from other streams than levels */

void graph_compose_rung(struct task_graph *g, int rung, uint64_t seed)
{
	for (uint64_t attempt = 0; attempt < COMPOSE_ATTEMPTS_MAX; attempt++) {
		struct rng r = {.seed = seed, .stream = (uint64_t)(RUNG_STREAM + rung) << 32 | attempt};
		compose_once(g, 0, rung, r);
		if (!is_fit(g, g->level) || !graph_is_sound(g, seed)) continue;
		r.stream ^= (uint64_t)1 << 63;
		graph_enlarge(g, &r);
		return;
	}
	CHECKF(false, "no sound graph of rung T%d for seed %llu", rung, (unsigned long long)seed);
}

void graph_compose(struct task_graph *g, int level, uint64_t seed)
{
	CHECK(level >= 1 && level <= 3);
	for (uint64_t attempt = 0; attempt < COMPOSE_ATTEMPTS_MAX; attempt++) {
		compose_once(g, level, -1, (struct rng){.seed = seed, .stream = (uint64_t)level << 32 | attempt});
		if (is_fit(g, level) && graph_is_sound(g, seed)) return;
	}
	CHECKF(false, "no sound graph of level %d for seed %llu", level, (unsigned long long)seed);
}
