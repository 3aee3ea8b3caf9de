/* Composing sets: seeds are drawn from the options' seed, graphs composed, and each task goes to
 * the split that its structure's hash names. The hash knows no seed, so two sets composed with
 * different seeds agree about what is held out. */
#include "task/task_family.h"
#include "base/base.h"

#define SHARES_MAX 5   /* levels 1 to 3, or the rungs */
#define SYNTH_TASKS_MAX 1000000
#define SYNTH_ATTEMPTS_PER_TASK 200
/* So many draws in a row without a new task end a level. What still comes once in 1,000 draws is
 * missed with probability e^-20, so nothing that one could wait for is given up; what is
 * impossible, or drawn to the end, costs seconds. */
#define SYNTH_DRY_DRAWS_MAX 20000
#define SEED_BITS 52   /* whole in a JSON number read as a double */

struct synth {
	const struct task_synth_options *o;
	struct task_set *set;
	struct composer_room *room;
	bool is_by_rung;
	int places[SHARES_MAX]; /* (nplaces) levels or rungs */
	int nplaces;
	int done[SHARES_MAX][TASK_SPLIT_COUNT]; /* tasks, by [index into places][split] */
	int want[SHARES_MAX][TASK_SPLIT_COUNT];
	const char **seen; /* open-addressed set of source hashes, pointing into the tasks */
	size_t seen_size;
};

/* The next name of a comma-separated list; false at its end. */
static bool next_name(const char **list, struct slice *name)
{
	if (!*list || !**list) return false;
	size_t n = strcspn(*list, ",");
	*name = (struct slice){*list, n};
	*list += n + ((*list)[n] == ',');
	return true;
}

static bool is_listed(const char *operators, const struct op_def *op)
{
	for (struct slice name; next_name(&operators, &name);)
		if (op_find(name) == op) return true;
	return false;
}

static bool is_wanted(const struct composed *c, const struct task_synth_options *o)
{
	const struct task_graph *g = &c->graph;
	int operators = 0;
	if (!c->is_graph) return true;
	for (int i = 0; i < g->count; i++) {
		if (g->nodes[i].role != NODE_OP) continue;
		operators++;
		if (o->operators && *o->operators && !is_listed(o->operators, g->nodes[i].op)) return false;
	}
	return operators >= o->operators_min;
}

/* Slot of a hash: where it is, or where it belongs. */
static const char **seen_slot(struct synth *s, const struct sha256_hex *hash)
{
	size_t i = hash_place(hash, (uint32_t)s->seen_size);
	while (s->seen[i] && strcmp(s->seen[i], hash->text) != 0) i = (i + 1) % s->seen_size;
	return &s->seen[i];
}

static void compose(const struct synth *s, int place, uint64_t seed, struct composed *out)
{
	if (s->is_by_rung) {
		rung_compose(s->room, place, seed, out);
		return;
	}
	*out = (struct composed){.is_graph = true, .level = place};
	graph_compose(&out->graph, place, seed);
	out->rung = out->graph.rung;
}

/* Tasks of rungs are named by the set's seed as well, so that sets of one rung can be joined. */
static char *task_name(const struct synth *s, const struct composed *c)
{
	int number = (int)s->set->count;
	if (!s->is_by_rung) return xasprintf("synth-%d-%06d", c->level, number);
	return xasprintf("synth-%s-%llu-%06d", rung_name(c->rung), (unsigned long long)s->o->seed, number);
}

/* Whether the seed gave a task. at: which level or rung. */
static bool try_seed(struct synth *s, int at, uint64_t seed)
{
	bool is_new = false;
	struct composed *c = xmalloc(sizeof *c);
	struct str source = {0}, structure = {0};
	/* The split follows from the structure alone, so that no two splits share a structure. */
	compose(s, s->places[at], seed, c);
	composed_structure(c, &structure);
	enum task_split split = task_split_of(structure.data);
	if (s->done[at][split] < s->want[at][split] && is_wanted(c, s->o)) {
		/* The source is printed only for a task that is wanted; its hash tells whether it was
		 * there before. */
		composed_source(c, &source);
		struct sha256_hex hash = task_source_hash(source.data, source.len);
		if (!*seen_slot(s, &hash)) {
			struct task *t = &s->set->tasks[s->set->count];
			*t = (struct task){.name = task_name(s, c),
				.source = xstrdup(source.data),
				.structure = xstrdup(structure.data),
				.split = xstrdup(task_split_name(split)),
				.rung = xstrdup(rung_name(c->rung)),
				.level = c->level,
				.seed = seed,
				.hash = hash};
			/* The table points into the task: the set has its full size and does not move. */
			*seen_slot(s, &hash) = t->hash.text;
			s->set->count++;
			s->done[at][split]++;
			is_new = true;
		}
	}
	str_release(&source);
	str_release(&structure);
	free(c);
	return is_new;
}

static int options_check(const struct task_synth_options *o, struct err *err)
{
	bool is_by_level = !o->rungs || !*o->rungs;
	if (is_by_level && (o->level_min < 1 || o->level_max > 3 || o->level_min > o->level_max))
		return err_set(
			err, ERR_RANGE, "levels %d to %d: expected 1 <= level_min <= level_max <= 3", o->level_min, o->level_max);
	if (!is_by_level && ((o->operators && *o->operators) || o->operators_min))
		return err_set(err, ERR_USAGE,
			"operators choose among the graphs of levels, rungs have families beside them: give levels or rungs");
	int64_t total = 0;
	for (int k = 0; k < TASK_SPLIT_COUNT; k++) {
		total += MAX(o->count[k], 0);
		if (o->count[k] < 0 || total > SYNTH_TASKS_MAX)
			return err_set(err, ERR_RANGE, "%d tasks of split %s: expected 0 to %d over all splits", o->count[k],
				task_split_name((enum task_split)k), SYNTH_TASKS_MAX);
	}
	const char *operators = o->operators;
	for (struct slice name; next_name(&operators, &name);)
		if (!op_find(name))
			return err_set(err, ERR_RANGE, "operators: \"%.*s\" is not in the table; docs/tasks.md names the operators",
				(int)name.len, name.data);
	return ERR_OK;
}

/* The levels, or the rungs, that tasks are drawn from. */
static int places_set(struct synth *s, struct err *err)
{
	const char *rungs = s->o->rungs;
	s->is_by_rung = rungs && *rungs;
	for (int l = s->o->level_min; !s->is_by_rung && l <= s->o->level_max; l++) s->places[s->nplaces++] = l;
	for (struct slice name; s->is_by_rung && next_name(&rungs, &name);) {
		int rung = rung_find(name);
		for (int i = 0; i < s->nplaces; i++)
			if (s->places[i] == rung) rung = -1;
		if (rung < 0)
			return err_set(err, ERR_RANGE, "rungs: \"%.*s\": expected T0 to T%d, each once", (int)name.len, name.data,
				RUNG_COUNT - 1);
		s->places[s->nplaces++] = rung;
	}
	return ERR_OK;
}

/* Each of them gets an equal share of every split, the first ones what does not divide. */
static void shares(struct synth *s)
{
	for (int l = 0; l < s->nplaces; l++)
		for (int k = 0; k < TASK_SPLIT_COUNT; k++)
			s->want[l][k] = s->o->count[k] / s->nplaces + (l < s->o->count[k] % s->nplaces);
}

static bool is_place_done(const struct synth *s, int at)
{
	return !memcmp(s->done[at], s->want[at], sizeof s->done[at]);
}

static int place_fail(const struct synth *s, int at, int64_t draws, int64_t dry, struct err *err)
{
	struct str why = {0};
	const int *done = s->done[at], *want = s->want[at];
	if (dry >= SYNTH_DRY_DRAWS_MAX)
		str_printf(&why, "the last %d of %lld draws gave no new one", SYNTH_DRY_DRAWS_MAX, (long long)draws);
	else str_printf(&why, "%lld draws did not give more", (long long)draws);
	int rc = err_set(err, ERR_LIMIT,
		"%s%d: found %d of %d training, %d of %d dev and %d of %d test tasks, and %s; ask for fewer, or allow more "
		"operators or fewer of them",
		s->is_by_rung ? "rung T" : "level ", s->places[at], done[TASK_TRAIN], want[TASK_TRAIN], done[TASK_DEV],
		want[TASK_DEV], done[TASK_TEST], want[TASK_TEST], why.data);
	str_release(&why);
	return rc;
}

static int place_compose(struct synth *s, int at, struct progress *p, struct err *err)
{
	int64_t wanted = 0, draws = 0, dry = 0;
	for (int k = 0; k < TASK_SPLIT_COUNT; k++) wanted += s->want[at][k];
	int64_t draws_max = 1000 + wanted * SYNTH_ATTEMPTS_PER_TASK;
	for (; !is_place_done(s, at) && draws < draws_max && dry < SYNTH_DRY_DRAWS_MAX; draws++) {
		struct rng_block b = rng_philox(
			s->o->seed, (uint64_t)s->places[at] + (s->is_by_rung ? 16 : 0), (uint64_t)draws);
		uint64_t seed = ((uint64_t)b.v[0] << 32 | b.v[1]) >> (64 - SEED_BITS);
		dry = seed && try_seed(s, at, seed) ? 0 : dry + 1;
		if (s->o->progress) progress_update(p, (int64_t)s->set->count, NULL);
	}
	return is_place_done(s, at) ? ERR_OK : place_fail(s, at, draws, dry, err);
}

int task_synth(const struct task_synth_options *o, struct task_set *out, struct err *err)
{
	*out = (struct task_set){0};
	int rc = options_check(o, err);
	if (rc) return rc;
	size_t total = 0;
	for (int k = 0; k < TASK_SPLIT_COUNT; k++) total += (size_t)o->count[k];
	struct synth s = {.o = o, .set = out, .seen_size = 2 * total + 1};
	struct progress p;
	rc = places_set(&s, err);
	if (rc) return rc;
	s.room = composer_open();
	out->tasks = xcalloc(total + 1, sizeof *out->tasks);
	s.seen = xcalloc(s.seen_size, sizeof *s.seen);
	shares(&s);
	if (o->progress) progress_begin(&p, o->progress, "tasks", (int64_t)total);
	for (int at = 0; at < s.nplaces && !rc; at++) rc = place_compose(&s, at, &p, err);
	if (o->progress) progress_end(&p);
	free(s.seen);
	composer_close(s.room);
	if (rc) task_set_release(out);
	return rc;
}
