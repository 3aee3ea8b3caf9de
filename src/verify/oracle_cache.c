/* oracle_cache: the oracle's results of the tasks in use. A group's candidates share one task, so
 * most lookups hit; the first one runs the oracle while the others wait for it. Faults of a task
 * are remembered too, infrastructure faults are not. */
#include "verify/oracle.h"
#include "base/base.h"
#include "task/task.h"
#include <pthread.h>
#include <stdlib.h>

struct entry {
	struct sha256_hex hash;
	enum { ENTRY_EMPTY, ENTRY_RUNNING, ENTRY_READY, ENTRY_FAULTY } state;
	struct oracle_data *data;
	struct oracle_fault fault;
	int users;
	uint64_t last_used;
};

struct oracle_cache {
	struct zygote *z;
	struct oracle_options options;
	int64_t bytes_max;
	int entries_max;
	struct entry *entries; /* (entries_max) */
	uint64_t clock;
	pthread_mutex_t lock;
	pthread_cond_t changed;
};

struct oracle_cache *oracle_cache_create(
	struct zygote *z, const struct oracle_options *o, int64_t bytes_max, int entries_max)
{
	struct oracle_cache *c = xcalloc(1, sizeof *c);
	*c = (struct oracle_cache){.z = z, .options = *o, .bytes_max = bytes_max, .entries_max = entries_max};
	c->entries = xcalloc((size_t)entries_max, sizeof *c->entries);
	pthread_mutex_init(&c->lock, NULL);
	pthread_cond_init(&c->changed, NULL);
	return c;
}

void oracle_cache_free(struct oracle_cache *c)
{
	if (!c) return;
	for (int i = 0; i < c->entries_max; i++) {
		CHECKF(c->entries[i].users == 0, "oracle data of task %s is still in use", c->entries[i].hash.text);
		oracle_data_free(c->entries[i].data);
	}
	free(c->entries);
	pthread_cond_destroy(&c->changed);
	pthread_mutex_destroy(&c->lock);
	free(c);
}

const struct oracle_options *oracle_cache_options(const struct oracle_cache *c, struct zygote **z)
{
	if (z) *z = c->z;
	return &c->options;
}

/* What names a task here: its exact text, since line numbers in messages come from it. */
static struct sha256_hex task_key(const struct task *t) { return hash_bytes(t->source, strlen(t->source)); }

static struct entry *find(struct oracle_cache *c, const struct sha256_hex *hash)
{
	for (int i = 0; i < c->entries_max; i++)
		if (c->entries[i].state != ENTRY_EMPTY && !strcmp(c->entries[i].hash.text, hash->text)) return &c->entries[i];
	return NULL;
}

static void clear(struct entry *e)
{
	oracle_data_free(e->data);
	*e = (struct entry){0};
}

/* An unused entry, the oldest first; NULL when all are in use. */
static struct entry *oldest(struct oracle_cache *c)
{
	struct entry *best = NULL;
	for (int i = 0; i < c->entries_max; i++) {
		struct entry *e = &c->entries[i];
		if (e->state == ENTRY_RUNNING || e->users) continue;
		if (!best || e->last_used < best->last_used) best = e;
	}
	return best;
}

static void shrink(struct oracle_cache *c)
{
	for (;;) {
		int64_t bytes = 0;
		for (int i = 0; i < c->entries_max; i++) bytes += c->entries[i].data ? c->entries[i].data->bytes : 0;
		struct entry *victim = NULL;
		for (int i = 0; i < c->entries_max; i++) {
			struct entry *e = &c->entries[i];
			if (e->state == ENTRY_READY && !e->users && (!victim || e->last_used < victim->last_used)) victim = e;
		}
		if (bytes <= c->bytes_max || !victim) return;
		clear(victim);
	}
}

/* Runs the oracle without the lock; the entry is RUNNING meanwhile, so nobody else touches it. */
static int fill(
	struct oracle_cache *c, struct entry *e, const struct sha256_hex *hash, const struct task *task, struct err *err)
{
	struct oracle_data *data = NULL;
	struct oracle_fault fault = {0};
	clear(e);
	e->hash = *hash;
	e->state = ENTRY_RUNNING;
	pthread_mutex_unlock(&c->lock);
	int rc = oracle_run(c->z, task, &c->options, &data, &fault, err);
	pthread_mutex_lock(&c->lock);
	e->data = data;
	e->fault = fault;
	e->state = rc == 0 ? ENTRY_READY : rc == ERR_MISMATCH ? ENTRY_FAULTY : ENTRY_EMPTY;
	pthread_cond_broadcast(&c->changed);
	return rc == ERR_MISMATCH ? 0 : rc;
}

int oracle_cache_get(struct oracle_cache *c, const struct task *task, const struct oracle_data **out,
	struct oracle_fault *fault, struct err *err)
{
	struct sha256_hex hash = task_key(task);
	int rc = 0;
	pthread_mutex_lock(&c->lock);
	struct entry *e = NULL;
	/* Both a fill and a wait give up the lock, so every turn looks the task up anew. A task without
	 * an entry needs one that nobody uses, or waits until one comes free. */
	while (!rc) {
		e = find(c, &hash);
		if (e && e->state != ENTRY_RUNNING) break;
		if (!e && (e = oldest(c))) rc = fill(c, e, &hash, task, err);
		else pthread_cond_wait(&c->changed, &c->lock);
	}
	if (!rc) {
		e->last_used = ++c->clock;
		if (e->state == ENTRY_FAULTY) {
			*fault = e->fault;
			rc = ERR_MISMATCH;
		} else {
			/* The user is counted before the cache shrinks, so that this entry stays. */
			e->users++;
			*out = e->data;
			shrink(c);
		}
	}
	pthread_mutex_unlock(&c->lock);
	return rc;
}

void oracle_cache_put(struct oracle_cache *c, const struct oracle_data *d)
{
	pthread_mutex_lock(&c->lock);
	for (int i = 0; i < c->entries_max; i++)
		if (c->entries[i].data == d && d) c->entries[i].users--;
	pthread_cond_broadcast(&c->changed);
	pthread_mutex_unlock(&c->lock);
}
