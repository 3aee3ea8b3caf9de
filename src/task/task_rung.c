/* Rungs of the ladder, from chains to several launches. A rung's tasks come from expression graphs
 * and from families of templates; which, is drawn first, so that every family has its share. */
#include "task/task_family.h"
#include "base/base.h"

#define DRAW_STREAM 0x72756e67

static const struct {
	const char *name;
	int graphs; /* percent of its tasks; the families of the rung share the rest evenly */
	int level;  /* what `hone rl` mixes by */
} RUNGS[RUNG_COUNT] = {
	{"T0", 100, 1},
	{"T1", 30, 2},
	{"T2", 15, 2},
	{"T3", 25, 3},
	{"T4", 25, 3},
};

struct composer_room {
	struct family *families;
	size_t count;
};

struct composer_room *composer_open(void)
{
	struct composer_room *r = xcalloc(1, sizeof *r);
	families_read(&r->families, &r->count);
	return r;
}

void composer_close(struct composer_room *r)
{
	if (r) free(r->families);
	free(r);
}

const char *rung_name(int rung) { return RUNGS[rung].name; }

int rung_find(struct slice name)
{
	for (int i = 0; i < RUNG_COUNT; i++)
		if (slice_is(name, RUNGS[i].name)) return i;
	return -1;
}

/* The n-th family of a rung; NULL behind the last. */
static const struct family *family_of(const struct composer_room *r, int rung, size_t n)
{
	for (size_t i = 0; i < r->count; i++)
		if (slice_is(r->families[i].rung, RUNGS[rung].name) && n-- == 0) return &r->families[i];
	return NULL;
}

void rung_compose(const struct composer_room *r, int rung, uint64_t seed, struct composed *out)
{
	struct rng draw = {.seed = seed, .stream = DRAW_STREAM};
	size_t families = 0;
	while (family_of(r, rung, families)) families++;
	*out = (struct composed){.rung = rung, .level = RUNGS[rung].level, .seed = seed};
	out->is_graph = !families || (int)rng_below(&draw, 100) < RUNGS[rung].graphs;
	if (out->is_graph) graph_compose_rung(&out->graph, rung, seed);
	else family_compose(family_of(r, rung, rng_below(&draw, (uint32_t)families)), seed, &out->family);
}

void composed_source(const struct composed *c, struct str *out)
{
	struct str says = {0};
	if (c->is_graph) graph_source(&c->graph, out);
	else {
		family_source(&c->family, out);
		family_says(&c->family, &says);
	}
	bool has_rows = c->is_graph ? !strcmp(c->graph.family, "row") : c->family.family->has_rows;
	if (c->seed) manner_draw(out, says.data, has_rows, c->seed);
	str_release(&says);
}

void composed_structure(const struct composed *c, struct str *out)
{
	if (c->is_graph) graph_structure(&c->graph, out);
	else family_structure(&c->family, out);
}
