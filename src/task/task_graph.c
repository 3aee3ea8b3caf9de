/* Building expression graphs: sizes, leaves, operators with the shape that follows from their
 * operands, names of values, structure strings. */
#include "task/task_graph.h"
#include "base/base.h"

int graph_dim(struct task_graph *g, const char *name, int value, int sim)
{
	CHECK(g->ndims < GRAPH_DIMS_MAX);
	struct dim *d = &g->dims[g->ndims];
	snprintf(d->name, sizeof d->name, "%s", name);
	snprintf(d->arg, sizeof d->arg, "%s", name);
	for (char *c = d->arg; *c; c++)
		if (*c >= 'A' && *c <= 'Z') *c = (char)(*c - 'A' + 'a');
	d->value = value;
	d->sim = sim;
	return g->ndims++;
}

struct shape shape_of(int ndim, const int *dims)
{
	CHECK(ndim >= 0 && ndim <= SHAPE_DIMS_MAX);
	struct shape s = {.ndim = ndim};
	memcpy(s.dim, dims, (size_t)ndim * sizeof *dims);
	return s;
}

bool shape_equal(const struct shape *a, const struct shape *b)
{
	return a->ndim == b->ndim && !memcmp(a->dim, b->dim, (size_t)a->ndim * sizeof a->dim[0]);
}

static struct node *node_add(struct task_graph *g, enum node_role role)
{
	CHECK(g->count < GRAPH_NODES_MAX);
	struct node *n = &g->nodes[g->count++];
	memset(n, 0, sizeof *n);
	n->role = role;
	return n;
}

int graph_input(struct task_graph *g, const char *name, struct shape shape)
{
	struct node *n = node_add(g, NODE_INPUT);
	n->shape = shape;
	snprintf(n->name, sizeof n->name, "%s", name);
	return g->count - 1;
}

int graph_param(struct task_graph *g, const char *name, const char *module, struct shape shape)
{
	struct node *n = node_add(g, NODE_PARAM);
	n->shape = shape;
	n->has_module = module != NULL;
	for (int i = 0; i < shape.ndim; i++) g->dims[shape.dim[i]].is_init_arg = true;
	if (!module) {
		snprintf(n->name, sizeof n->name, "%s", name);
		snprintf(n->host, sizeof n->host, "self.%s", name);
		return g->count - 1;
	}
	/* self.linear2.weight is loaded as weight2, self.norm.weight as norm_weight: short, and unique
	 * in the answer */
	bool is_linear = !strncmp(module, "linear", 6);
	snprintf(
		n->name, sizeof n->name, "%s%.12s%.8s", is_linear ? "" : "norm_", name, module + strcspn(module, "0123456789"));
	snprintf(n->module, sizeof n->module, "%s", module);
	snprintf(n->host, sizeof n->host, "self.%.18s.%.18s", module, name);
	return g->count - 1;
}

static struct shape shape_broadcast(const struct shape *a, const struct shape *b)
{
	const struct shape *wide = a->ndim >= b->ndim ? a : b, *narrow = wide == a ? b : a;
	struct shape s = *wide;
	for (int i = 0; i < narrow->ndim; i++) {
		int *d = &s.dim[s.ndim - 1 - i], e = narrow->dim[narrow->ndim - 1 - i];
		if (*d == DIM_ONE) *d = e;
		CHECKF(e == DIM_ONE || e == *d, "operands of different sizes");
	}
	return s;
}

static struct shape matmul_shape(const struct task_graph *g, const struct node *n)
{
	const struct shape *a = &g->nodes[n->args[0]].shape, *b = &g->nodes[n->args[1]].shape;
	CHECK(a->ndim >= 1 && b->ndim == 2);
	struct shape s = *a;
	CHECKF(a->dim[a->ndim - 1] == b->dim[n->transposed ? 1 : 0], "inner sizes differ");
	s.dim[s.ndim - 1] = b->dim[n->transposed ? 0 : 1];
	return s;
}

int graph_op(struct task_graph *g, const struct op_def *op, int a, int b, int c)
{
	struct node *n = node_add(g, NODE_OP);
	n->op = op;
	n->args[0] = a;
	n->args[1] = b;
	n->args[2] = c;
	n->nargs = c >= 0 ? 3 : b >= 0 ? 2 : 1;
	n->transposed = op->kind == OP_MATMUL && strcmp(op->name, "matmul") != 0;
	n->shape = g->nodes[a].shape;
	switch (op->kind) {
	case OP_UNARY:
	case OP_ROW: break;
	case OP_REDUCE: n->shape.ndim--; break; /* graph_keep makes it 1 instead */
	case OP_MATMUL: n->shape = matmul_shape(g, n); break;
	case OP_BINARY:
	case OP_WHERE:
		for (int i = 1; i < n->nargs; i++) n->shape = shape_broadcast(&n->shape, &g->nodes[n->args[i]].shape);
		break;
	}
	return g->count - 1;
}

int graph_last_use(const struct task_graph *g, int node)
{
	int last = node;
	for (int i = node + 1; i < g->count; i++)
		for (int j = 0; j < g->nodes[i].nargs; j++)
			if (g->nodes[i].args[j] == node) last = i;
	return last;
}

/* An operator's result takes over the variable of its first operand that dies here (never a
 * parameter's: it is not a local variable), else a fresh name: chains then read x = f(x). A
 * condition is the last choice: x = torch.where(y > 0, x, z). */
void graph_name_values(struct task_graph *g)
{
	static const char *const FRESH[] = {"h", "g", "u", "v", "s", "r", "p", "e", "d", "c"};
	size_t fresh = 0;
	for (int i = 0; i < g->count; i++) {
		struct node *n = &g->nodes[i];
		if (n->role != NODE_OP) continue;
		int from = -1;
		for (int j = 0; j < n->nargs && from < 0; j++) {
			int a = n->args[n->op->kind == OP_WHERE ? (j + 1) % n->nargs : j];
			if (g->nodes[a].role != NODE_PARAM && graph_last_use(g, a) == i) from = a;
		}
		CHECK(from >= 0 || fresh < ARRAY_LEN(FRESH));
		memcpy(n->name, from >= 0 ? g->nodes[from].name : FRESH[fresh++], from >= 0 ? sizeof n->name : 2);
	}
}

/* "row:mul_c,mean_k,sub(#1)": operators in order; an operand that is not the previous result is
 * spelt out (in, p for a parameter, #n for the n-th operator). Constants and sizes are left out. */
void graph_structure(const struct task_graph *g, struct str *out)
{
	int ordinal[GRAPH_NODES_MAX], ops = 0, previous = -1;
	str_puts(out, g->family);
	for (int i = 0; i < g->count; i++) {
		const struct node *n = &g->nodes[i];
		if (n->role != NODE_OP) continue;
		str_printf(out, "%c%s%s", ops ? ',' : ':', n->op->name, n->keep ? "_k" : "");
		bool open = false;
		for (int j = 0; j < n->nargs; j++) {
			int a = n->args[j];
			const struct node *arg = &g->nodes[a];
			if (arg->has_module || (j == 0 && (a == previous || (previous < 0 && arg->role == NODE_INPUT)))) continue;
			str_puts(out, open ? " " : "(");
			open = true;
			if (arg->role == NODE_OP) str_printf(out, "#%d", ordinal[a]);
			else str_puts(out, arg->role == NODE_PARAM ? "p" : "in");
		}
		if (open) str_putc(out, ')');
		ordinal[i] = ops++;
		previous = i;
	}
}

void graph_keep(struct task_graph *g, int node)
{
	struct node *n = &g->nodes[node];
	CHECK(n->op->kind == OP_REDUCE && !n->keep);
	n->keep = true;
	n->shape.dim[n->shape.ndim++] = DIM_ONE;
}
