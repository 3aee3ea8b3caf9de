/* Prints a graph as a PyTorch module in KernelBench's file format. Short and regular on purpose:
 * small language models learn from these texts. */
#include "task/task_graph.h"
#include "base/base.h"

/* As Python prints a float. */
static void number_print(struct str *out, double v)
{
	char text[32];
	snprintf(text, sizeof text, "%.12g", v);
	str_puts(out, text);
	if (!strpbrk(text, ".en")) str_puts(out, ".0");
}

void template_expand(struct str *out, const char *template, const struct task_graph *g, int node, const char *mask)
{
	const struct node *n = &g->nodes[node];
	for (const char *t = template; *t; t++) {
		if (*t != '$') {
			str_putc(out, *t);
			continue;
		}
		char c = *++t;
		if (c >= 'a' && c <= 'c') {
			CHECK(c - 'a' < n->nargs);
			const struct node *arg = &g->nodes[n->args[c - 'a']];
			/* forward reads parameters from self; kernels have loaded them under their own names */
			str_puts(out, arg->role == NODE_PARAM && !mask ? arg->host : arg->name);
		} else if (c == 'k' || c == 'l') number_print(out, n->k[c == 'l']);
		else if (c == 'K') str_puts(out, n->keep ? ", keepdim=True" : "");
		else if (c == 'M') str_puts(out, n->module);
		else if (c == 'm') str_puts(out, mask);
		else {
			CHECK(c == 'o');
			str_puts(out, n->name);
		}
	}
}

/* The nn.Module that owns parameter i was declared with an earlier parameter. */
static bool is_declared(const struct task_graph *g, int i)
{
	for (int j = 0; j < i; j++)
		if (g->nodes[j].has_module && !strcmp(g->nodes[j].module, g->nodes[i].module)) return true;
	return false;
}

static void parameter_print(const struct task_graph *g, int i, struct str *out)
{
	const struct node *n = &g->nodes[i];
	const char *last = g->dims[n->shape.dim[n->shape.ndim - 1]].arg;
	if (!n->has_module) {
		str_printf(out, "        self.%s = nn.Parameter(torch.randn(", n->name);
		for (int d = 0; d < n->shape.ndim; d++) str_printf(out, "%s%s", d ? ", " : "", g->dims[n->shape.dim[d]].arg);
		str_puts(out, "))\n");
	} else if (is_declared(g, i)) return;
	else if (n->shape.ndim == 2)
		str_printf(out, "        self.%s = nn.Linear(%s, %s)\n", n->module, last, g->dims[n->shape.dim[0]].arg);
	else str_printf(out, "        self.%s = nn.LayerNorm(%s)\n", n->module, last);
}

static void init_args_print(const struct task_graph *g, bool is_call, struct str *out)
{
	for (int i = 0, n = 0; i < g->ndims; i++)
		if (g->dims[i].is_init_arg)
			str_printf(out, "%s%s", n++ ? ", " : "", is_call ? g->dims[i].name : g->dims[i].arg);
}

void graph_init_method(const struct task_graph *g, struct str *out)
{
	bool has_params = false;
	for (int i = 0; i < g->count; i++) has_params |= g->nodes[i].role == NODE_PARAM;
	if (!has_params) return;
	str_puts(out, "    def __init__(self, ");
	init_args_print(g, false, out);
	str_puts(out, "):\n        super().__init__()\n");
	for (int i = 0; i < g->count; i++)
		if (g->nodes[i].role == NODE_PARAM) parameter_print(g, i, out);
	str_putc(out, '\n');
}

void graph_forward_args(const struct task_graph *g, struct str *out)
{
	for (int i = 0, n = 0; i < g->count; i++)
		if (g->nodes[i].role == NODE_INPUT) str_printf(out, "%s%s", n++ ? ", " : "", g->nodes[i].name);
}

static void forward_print(const struct task_graph *g, struct str *out)
{
	str_puts(out, "    def forward(self, ");
	graph_forward_args(g, out);
	str_puts(out, "):\n");
	for (int i = 0; i < g->count; i++) {
		const struct node *n = &g->nodes[i];
		if (n->role != NODE_OP) continue;
		if (i == g->count - 1) str_puts(out, "        return ");
		else str_printf(out, "        %s = ", n->name);
		template_expand(out, n->op->torch[n->spelling], g, i, NULL);
		str_putc(out, '\n');
	}
}

static void inputs_print(const struct task_graph *g, struct str *out)
{
	str_puts(out, "\ndef get_inputs():\n    return [");
	for (int i = 0, n = 0; i < g->count; i++) {
		if (g->nodes[i].role != NODE_INPUT) continue;
		str_puts(out, n++ ? ", torch.randn(" : "torch.randn(");
		const struct shape *s = &g->nodes[i].shape;
		for (int d = 0; d < s->ndim; d++) str_printf(out, "%s%s", d ? ", " : "", g->dims[s->dim[d]].name);
		str_putc(out, ')');
	}
	str_puts(out, "]\n\ndef get_init_inputs():\n    return [");
	init_args_print(g, true, out);
	str_puts(out, "]\n");
}

void graph_source(const struct task_graph *g, struct str *out)
{
	str_puts(out, "import torch\nimport torch.nn as nn\nimport torch.nn.functional as F\n\n");
	for (int i = 0; i < g->ndims; i++) str_printf(out, "%s = %d\n", g->dims[i].name, g->dims[i].value);
	str_puts(out, "\nclass Model(nn.Module):\n");
	graph_init_method(g, out);
	forward_print(g, out);
	inputs_print(g, out);
	for (int i = 0, n = 0; i < g->ndims; i++)
		if (g->dims[i].judged)
			str_printf(out, "%s%s=%d", n++ ? ", " : TASK_JUDGED_AT, g->dims[i].name, g->dims[i].judged);
	if (g->ndims && g->dims[0].judged) str_putc(out, '\n');
}
