/* The reference: a graph of steps over exact values.
 *
 * Each step has elements in row-major order, of floats or of integers, and reads steps in front of
 * it. Reading and checking the list, the memory of the elements and the order of computing are
 * prove_graph.c; what each kind of step computes is prove_steps.c, whose table at the end has all
 * of them. A take is not written out: its readers look through its table of places, so that a
 * convolution's windows cost no memory. */
#ifndef HONE_PROVE_GRAPH_H
#define HONE_PROVE_GRAPH_H
#include "base/base.h"
#include "field/field.h"
#include "prove/prove.h"
#include "prove/prove_internal.h"

#define PROVE_ELEMENTS_MAX ((int64_t)1 << 31) /* of a step */

struct graph;
struct node;
/* Computes a step's elements from its sources': 0, 1 with the graph's stop
 * set, or a negative code. */
typedef int step_fn(struct graph *g, struct node *n);
struct node {
	const json_t *json;
	step_fn *run;
	bool is_take;
	bool is_float;
	int64_t count;
	int nsources;
	int *sources;          /* nodes in front of this one */
	struct field_value *f; /* (count) */
	int64_t *i;            /* (count) */
	const uint8_t *table;  /* take: (count) places */
	int width;             /* take: bytes of a place */
	int fill;              /* take: the node for negative places, or -1 */
	int last;              /* the last node that reads it */
};
struct graph {
	const struct prove_draw *d;
	struct field *field;
	const struct prove_leaves *leaves;
	uint64_t deadline_ns;
	int nnodes;
	int at; /* the step that is read or computed now */
	struct node *nodes;
	int64_t bytes; /* of all elements that are kept now */
	int64_t fuel;  /* work until the clock is looked at again */
	struct prove_stop *stop;
	struct err *err;
};

/* The function of a kind of step, or NULL. */
step_fn *step_find(const char *kind);
step_fn step_take;

/* ERR_FORMAT: the list of steps is not what it should be. */
int graph_bad(struct graph *g, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* 1, with the stop: the real values do not decide what the step has to decide. */
int graph_undecided(struct graph *g, const char *what);
/* 0, or 1 with the stop when the time is over. */
int graph_spend(struct graph *g, int64_t work);
/* A number among the step's own words. */
int node_number(struct graph *g, const struct node *n, const char *name, int64_t min, int64_t max, int64_t *out);
/* Source i is there and of this kind, with count elements or one; count < 0: with any number. */
int node_wants(struct graph *g, const struct node *n, int i, bool is_float, int64_t count);
/* Memory for the step's elements, or the stop when the reference would need too much. */
int node_room(struct graph *g, struct node *n, bool is_float);

/* ---- elements: read for every one of them, so inline ---- */

static inline int64_t take_place(const struct node *n, int64_t at)
{
	int32_t narrow;
	int64_t wide;
	if (n->width == 4) {
		memcpy(&narrow, n->table + at * 4, 4);
		return narrow;
	}
	memcpy(&wide, n->table + at * 8, 8);
	return wide;
}

/* The step and place that a take's element stands for: each place was looked at
 * when the take was made. */
static inline void take_look(
	const struct graph *g, const struct node *n, int64_t at, const struct node **from, int64_t *place)
{
	*place = take_place(n, at);
	if (*place < 0) {
		*from = &g->nodes[n->fill];
		*place = 0;
		return;
	}
	for (int s = 0; s < n->nsources; s++) {
		*from = &g->nodes[n->sources[s]];
		if (*place < (*from)->count) return;
		*place -= (*from)->count;
	}
}

static inline const struct field_value *node_float(const struct graph *g, const struct node *n, int64_t at)
{
	const struct node *from = n;
	int64_t place = n->count == 1 ? 0 : at;
	if (n->is_take) take_look(g, n, place, &from, &place);
	return &from->f[place];
}

static inline int64_t node_int(const struct graph *g, const struct node *n, int64_t at)
{
	const struct node *from = n;
	int64_t place = n->count == 1 ? 0 : at;
	if (n->is_take) take_look(g, n, place, &from, &place);
	return from->i[place];
}

static inline const struct node *node_source(const struct graph *g, const struct node *n, int i)
{
	return &g->nodes[n->sources[i]];
}
#endif
