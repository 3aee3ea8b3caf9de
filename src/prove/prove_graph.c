/* The reference's graph as a whole: read and checked, computed step by step,
 * its outputs taken over. */
#include "base/base.h"
#include "field/field.h"
#include "prove/prove.h"
#include "prove/prove_graph.h"
#include "prove/prove_internal.h"
#include "tape/tape.h"
#include <stdlib.h>

#define NODES_MAX 65536
#define SOURCES_MAX 4096
#define CLOCK_STEPS 65536

int graph_bad(struct graph *g, const char *fmt, ...)
{
	char text[200];
	va_list ap;
	va_start(ap, fmt);
	vsnprintf(text, sizeof text, fmt, ap);
	va_end(ap);
	return err_set(g->err, ERR_FORMAT, "step %d of the reference: %s", g->at, text);
}

int graph_undecided(struct graph *g, const char *what)
{
	return prove_stop_at(g->stop, PROVE_UNDECIDED, 0, "the reference: %s is not decided by the real values", what);
}

/* ---- elements ---- */

int node_room(struct graph *g, struct node *n, bool is_float)
{
	int64_t bytes = n->count * (int64_t)(is_float ? sizeof *n->f : sizeof *n->i);
	if (g->bytes + bytes > PROVE_BYTES_MAX)
		return prove_stop_at(g->stop, PROVE_LEFT, 0, "the reference needs more than %lld MiB of exact values",
			(long long)(PROVE_BYTES_MAX >> 20));
	g->bytes += bytes;
	n->is_float = is_float;
	if (is_float) n->f = xmalloc((size_t)bytes + 1);
	else n->i = xmalloc((size_t)bytes + 1);
	return 0;
}

static void node_drop(struct graph *g, struct node *n)
{
	if (n->f) g->bytes -= n->count * (int64_t)sizeof *n->f;
	if (n->i) g->bytes -= n->count * (int64_t)sizeof *n->i;
	free(n->f);
	free(n->i);
	n->f = NULL;
	n->i = NULL;
}

int graph_spend(struct graph *g, int64_t work)
{
	g->fuel -= work;
	if (g->fuel > 0) return 0;
	g->fuel = CLOCK_STEPS;
	if (g->deadline_ns && clock_ns() > g->deadline_ns)
		return prove_stop_at(g->stop, PROVE_LEFT, 0, "the reference took longer than its time");
	return 0;
}

int node_wants(struct graph *g, const struct node *n, int i, bool is_float, int64_t count)
{
	if (i >= n->nsources) return graph_bad(g, "%d sources, expected more", n->nsources);
	const struct node *s = node_source(g, n, i);
	if (s->is_float != is_float) return graph_bad(g, "source %d is %s", i, is_float ? "of integers" : "of floats");
	if (count >= 0 && s->count != count && s->count != 1)
		return graph_bad(g, "source %d has %lld elements, expected %lld", i, (long long)s->count, (long long)count);
	return 0;
}

int node_number(struct graph *g, const struct node *n, const char *name, int64_t min, int64_t max, int64_t *out)
{
	return json_get_int(n->json, "step", name, min, max, out, g->err);
}

/* ---- a whole graph ---- */

static int node_read(struct graph *g, const json_t *o, struct node *n)
{
	const char *kind = NULL;
	const json_t *sources = json_object_get(o, "sources");
	*n = (struct node){.json = o, .fill = -1, .last = g->at};
	int rc = json_get_str(o, "step", "kind", &kind, g->err);
	if (!rc) rc = node_number(g, n, "count", 0, PROVE_ELEMENTS_MAX, &n->count);
	if (rc) return rc;
	n->run = step_find(kind);
	if (!n->run) return graph_bad(g, "a kind '%.40s' that is not known", kind);
	size_t count = json_array_size(sources);
	if (count > SOURCES_MAX) return graph_bad(g, "%zu sources", count);
	n->nsources = (int)count;
	n->sources = xcalloc(count + 1, sizeof *n->sources);
	for (size_t s = 0; s < count; s++) {
		json_int_t at = json_integer_value(json_array_get(sources, s));
		if (!json_is_integer(json_array_get(sources, s)) || at < 0 || at >= g->at)
			return graph_bad(g, "a source that is not in front of it");
		n->sources[s] = (int)at;
	}
	return 0;
}

/* Who is read last by whom, from the back: a take's sources live as long as the take. */
static void set_lasts(struct graph *g, const int *outputs, int noutputs)
{
	for (int i = 0; i < noutputs; i++) g->nodes[outputs[i]].last = g->nnodes;
	for (int k = g->nnodes - 1; k >= 0; k--) {
		struct node *n = &g->nodes[k];
		int reach = n->run == step_take ? n->last : k;
		for (int s = 0; s < n->nsources; s++) {
			struct node *from = &g->nodes[n->sources[s]];
			from->last = MAX(from->last, reach);
		}
		int64_t fill = n->run == step_take ? json_integer_value(json_object_get(n->json, "fill")) : -1;
		if (fill >= 0 && fill < k) g->nodes[fill].last = MAX(g->nodes[fill].last, reach);
	}
}

static int output_read(struct graph *g, const json_t *o, int *node, struct prove_output *out)
{
	int64_t at, count = 1;
	const char *dtype = NULL;
	const json_t *shape = json_object_get(o, "shape");
	int rc = json_get_int(o, "output", "node", 0, g->nnodes - 1, &at, g->err);
	if (!rc) rc = json_get_str(o, "output", "dtype", &dtype, g->err);
	if (rc) return rc;
	if (json_array_size(shape) > TAPE_DIMS_MAX)
		return graph_bad(g, "an output of %zu dimensions", json_array_size(shape));
	*node = (int)at;
	snprintf(out->dtype, sizeof out->dtype, "%.20s", dtype);
	out->ndim = (int)json_array_size(shape);
	for (int d = 0; d < out->ndim; d++) {
		int64_t size = json_integer_value(json_array_get(shape, (size_t)d));
		if (size < 0 || (size && count > PROVE_ELEMENTS_MAX / size)) return graph_bad(g, "an output's shape");
		count *= out->shape[d] = size;
	}
	if (count != g->nodes[at].count)
		return graph_bad(
			g, "an output of %lld elements from a step of %lld", (long long)count, (long long)g->nodes[at].count);
	out->count = count;
	return 0;
}

static void output_take(const struct graph *g, const struct node *n, struct prove_output *out)
{
	out->is_float = n->is_float;
	if (n->is_float) out->values = xmalloc(size_mul((size_t)out->count + 1, sizeof *out->values));
	else out->ints = xmalloc(size_mul((size_t)out->count + 1, sizeof *out->ints));
	for (int64_t k = 0; k < out->count; k++) {
		if (n->is_float) out->values[k] = *node_float(g, n, k);
		else out->ints[k] = node_int(g, n, k);
	}
}

/* Nodes and outputs as they are written, checked; nothing is computed yet. */
static int graph_read(
	struct graph *g, const json_t *nodes, const json_t *outputs, int *nodes_of_outputs, struct prove_outputs *out)
{
	if (!json_is_array(nodes) || json_array_size(nodes) > NODES_MAX || json_array_size(outputs) > TAPE_OUTPUTS_MAX)
		return err_set(g->err, ERR_FORMAT, "the reference's graph has %zu steps and %zu outputs",
			json_array_size(nodes), json_array_size(outputs));
	g->nodes = xcalloc(json_array_size(nodes) + 1, sizeof *g->nodes);
	int rc = 0;
	for (g->at = 0; g->at < (int)json_array_size(nodes) && !rc; g->at++) {
		rc = node_read(g, json_array_get(nodes, (size_t)g->at), &g->nodes[g->at]);
		g->nnodes = g->at + 1;
	}
	for (; out->n < (int)json_array_size(outputs) && !rc; out->n++)
		rc = output_read(g, json_array_get(outputs, (size_t)out->n), &nodes_of_outputs[out->n], &out->outputs[out->n]);
	return rc;
}

int graph_run(const struct prove_draw *d, struct field *f, const struct prove_leaves *leaves, uint64_t deadline_ns,
	struct prove_outputs *out, struct prove_stop *stop, struct err *err)
{
	/* The whole list is read and checked before anything runs. */
	struct graph g = {.d = d,
		.field = f,
		.leaves = leaves,
		.deadline_ns = deadline_ns,
		.fuel = CLOCK_STEPS,
		.stop = stop,
		.err = err};
	int of[TAPE_OUTPUTS_MAX];
	*out = (struct prove_outputs){.n = 0};
	int rc = graph_read(&g, json_object_get(d->graph, "nodes"), json_object_get(d->graph, "outputs"), of, out);
	if (!rc) set_lasts(&g, of, out->n);
	/* Step by step; what nobody reads any more goes. */
	for (g.at = 0; g.at < g.nnodes && !rc; g.at++) {
		struct node *n = &g.nodes[g.at];
		rc = n->run(&g, n);
		for (int s = 0; s < n->nsources; s++)
			if (g.nodes[n->sources[s]].last <= g.at) node_drop(&g, &g.nodes[n->sources[s]]);
	}
	/* The outputs are taken over before the rest is freed. */
	for (int i = 0; i < out->n && !rc; i++) output_take(&g, &g.nodes[of[i]], &out->outputs[i]);
	for (int k = 0; k < g.nnodes; k++) {
		node_drop(&g, &g.nodes[k]);
		free(g.nodes[k].sources);
	}
	/* A sum that forgets what was let go would refuse a long reference for its memory. */
	CHECKF(g.bytes == 0, "steps without values hold %lld bytes", (long long)g.bytes);
	free(g.nodes);
	return rc;
}
