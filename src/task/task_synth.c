/* Composing sets: seeds are drawn from the options' seed, graphs composed, and each task goes to
 * the split that its structure's hash names. The hash knows no seed, so two sets composed with
 * different seeds agree about what is held out. */
#include "task/task_graph.h"
#include "base/base.h"

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
	int done[4][TASK_SPLIT_COUNT], want[4][TASK_SPLIT_COUNT]; /* [level][split] */
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

static bool is_wanted(const struct task_graph *g, const struct task_synth_options *o)
{
	int operators = 0;
	for (int i = 0; i < g->count; i++) {
		if (g->nodes[i].role != NODE_OP) continue;
		operators++;
		if (o->operators && *o->operators && !is_listed(o->operators, g->nodes[i].op)) return false;
	}
	return operators >= o->operators_min;
}

/* Slot of a hash: where it is, or where it belongs. */
static const char **seen_slot(struct synth *s, const char *hash)
{
	char head[9];
	memcpy(head, hash, 8);
	head[8] = 0;
	size_t i = strtoul(head, NULL, 16) % s->seen_size;
	while (s->seen[i] && strcmp(s->seen[i], hash) != 0) i = (i + 1) % s->seen_size;
	return &s->seen[i];
}

/* Whether the seed gave a task. */
static bool try_seed(struct synth *s, int level, uint64_t seed)
{
	bool is_new = false;
	struct task_graph *g = xmalloc(sizeof *g);
	struct str source = {0}, structure = {0};
	/* The split follows from the structure alone, so that no two splits share a structure. */
	graph_compose(g, level, seed);
	graph_structure(g, &structure);
	enum task_split split = task_split_of(structure.data);
	if (s->done[level][split] < s->want[level][split] && is_wanted(g, s->o)) {
		/* The source is printed only for a graph that is wanted; its hash tells whether it was
		 * there before. */
		graph_source(g, &source);
		struct sha256_hex hash = task_source_hash(source.data, source.len);
		if (!*seen_slot(s, hash.text)) {
			struct task *t = &s->set->tasks[s->set->count];
			*t = (struct task){.name = xasprintf("synth-%d-%06d", level, (int)s->set->count),
				.source = xstrdup(source.data),
				.structure = xstrdup(structure.data),
				.split = xstrdup(task_split_name(split)),
				.level = level,
				.seed = seed,
				.hash = hash};
			/* The table points into the task: the set has its full size and does not move. */
			*seen_slot(s, hash.text) = t->hash.text;
			s->set->count++;
			s->done[level][split]++;
			is_new = true;
		}
	}
	str_release(&source);
	str_release(&structure);
	free(g);
	return is_new;
}

static int options_check(const struct task_synth_options *o, struct err *err)
{
	if (o->level_min < 1 || o->level_max > 3 || o->level_min > o->level_max)
		return err_set(
			err, ERR_RANGE, "levels %d to %d: expected 1 <= level_min <= level_max <= 3", o->level_min, o->level_max);
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

/* Each level gets an equal share of every split, the first levels what does not divide. */
static void shares(struct synth *s)
{
	int levels = s->o->level_max - s->o->level_min + 1;
	for (int l = 0; l < levels; l++)
		for (int k = 0; k < TASK_SPLIT_COUNT; k++)
			s->want[s->o->level_min + l][k] = s->o->count[k] / levels + (l < s->o->count[k] % levels);
}

static bool is_level_done(const struct synth *s, int level)
{
	return !memcmp(s->done[level], s->want[level], sizeof s->done[level]);
}

static int level_fail(const struct synth *s, int level, int64_t draws, int64_t dry, struct err *err)
{
	struct str why = {0};
	const int *done = s->done[level], *want = s->want[level];
	if (dry >= SYNTH_DRY_DRAWS_MAX)
		str_printf(&why, "the last %d of %lld draws gave no new one", SYNTH_DRY_DRAWS_MAX, (long long)draws);
	else str_printf(&why, "%lld draws did not give more", (long long)draws);
	int rc = err_set(err, ERR_LIMIT,
		"level %d: found %d of %d training, %d of %d dev and %d of %d test tasks, and %s; ask for fewer, or allow more "
		"operators or fewer of them",
		level, done[TASK_TRAIN], want[TASK_TRAIN], done[TASK_DEV], want[TASK_DEV], done[TASK_TEST], want[TASK_TEST],
		why.data);
	str_release(&why);
	return rc;
}

static int level_compose(struct synth *s, int level, struct progress *p, struct err *err)
{
	int64_t wanted = 0, draws = 0, dry = 0;
	for (int k = 0; k < TASK_SPLIT_COUNT; k++) wanted += s->want[level][k];
	int64_t draws_max = 1000 + wanted * SYNTH_ATTEMPTS_PER_TASK;
	for (; !is_level_done(s, level) && draws < draws_max && dry < SYNTH_DRY_DRAWS_MAX; draws++) {
		struct rng_block b = rng_philox(s->o->seed, (uint64_t)level, (uint64_t)draws);
		uint64_t seed = ((uint64_t)b.v[0] << 32 | b.v[1]) >> (64 - SEED_BITS);
		dry = seed && try_seed(s, level, seed) ? 0 : dry + 1;
		if (s->o->progress) progress_update(p, (int64_t)s->set->count, NULL);
	}
	return is_level_done(s, level) ? ERR_OK : level_fail(s, level, draws, dry, err);
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
	out->tasks = xcalloc(total + 1, sizeof *out->tasks);
	s.seen = xcalloc(s.seen_size, sizeof *s.seen);
	shares(&s);
	if (o->progress) progress_begin(&p, o->progress, "tasks", (int64_t)total);
	for (int level = o->level_min; level <= o->level_max && !rc; level++) rc = level_compose(&s, level, &p, err);
	if (o->progress) progress_end(&p);
	free(s.seen);
	if (rc) task_set_release(out);
	return rc;
}
