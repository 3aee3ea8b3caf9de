/* Cuts a graph into launches. The fused form grows a launch as far as its index space allows:
 * element-wise operators join whatever runs, a reduction turns a flat launch into one program a
 * row, a matrix product starts a launch and takes what follows as its epilogue until a row operator
 * needs whole rows again. The slow form gives every operator a launch of its own. */
#include "task/task_graph.h"
#include "base/base.h"

enum access access_of(const struct task_graph *g, const struct shape *space, int node)
{
	const struct shape *s = &g->nodes[node].shape;
	if (shape_equal(s, space)) return ACCESS_FULL;
	if (s->ndim == 1 && space->ndim > 1 && s->dim[0] == space->dim[space->ndim - 1]) return ACCESS_COLS;
	return ACCESS_ROWS;
}

static enum segment_kind kind_needed(const struct node *n)
{
	if (n->op->kind == OP_MATMUL) return SEGMENT_MATMUL;
	return n->op->kind == OP_REDUCE || n->op->kind == OP_ROW ? SEGMENT_ROW : SEGMENT_FLAT;
}

static bool joins(enum segment_kind running, enum segment_kind needed)
{
	if (needed == SEGMENT_FLAT) return true;
	return needed == SEGMENT_ROW && running != SEGMENT_MATMUL;
}

/* Values made elsewhere (leaves, results of earlier launches), in the order of first use; the space
 * that the launch covers. */
static void segment_finish(const struct task_graph *g, struct segment *s)
{
	bool seen[GRAPH_NODES_MAX] = {false};
	s->nreads = 0;
	s->space = g->nodes[s->last].shape;
	for (int i = s->first; i <= s->last; i++) {
		const struct node *n = &g->nodes[i];
		if (n->role != NODE_OP) continue;
		if (n->op->kind == OP_REDUCE || n->op->kind == OP_ROW) s->space = g->nodes[n->args[0]].shape;
		for (int j = 0; j < n->nargs; j++) {
			int a = n->args[j];
			if (seen[a] || (a >= s->first && g->nodes[a].role == NODE_OP)) continue;
			seen[a] = true;
			s->reads[s->nreads++] = a;
		}
	}
	s->reads_cols = s->kind == SEGMENT_ROW;
	for (int i = 0; i < s->nreads && s->kind == SEGMENT_FLAT; i++)
		s->reads_cols |= access_of(g, &s->space, s->reads[i]) != ACCESS_FULL;
}

int graph_segments(const struct task_graph *g, bool is_slow, struct segment *out)
{
	int count = 0;
	/* A launch goes on while its kind can take the next operator in; a slow
	 * answer has one a launch. */
	for (int i = 0; i < g->count; i++) {
		const struct node *n = &g->nodes[i];
		if (n->role != NODE_OP) continue;
		enum segment_kind needed = kind_needed(n);
		struct segment *s = count ? &out[count - 1] : NULL;
		if (s && !is_slow && joins(s->kind, needed)) {
			if (needed == SEGMENT_ROW) s->kind = SEGMENT_ROW;
			s->last = i;
			continue;
		}
		out[count++] = (struct segment){.kind = needed, .first = i, .last = i};
	}
	for (int i = 0; i < count; i++) {
		segment_finish(g, &out[i]);
		/* A launch has one result, so what later launches read has to be its last value. */
		for (int n = out[i].first; n < out[i].last; n++)
			CHECKF(g->nodes[n].role != NODE_OP || graph_last_use(g, n) <= out[i].last, "a launch with two results");
	}
	return count;
}
