/* choice_cache: a small table in memory over the store's rows of kind "choice" (choice_cache.h). */
#include "verify/choice_cache.h"
#include "base/base.h"
#include "runner/runner.h"
#include "store/store.h"
#include <math.h>
#include <pthread.h>
#include <stdlib.h>

#define KNOWN_MAX 1024    /* a slot for each hash: a newer one takes an older one's place */
#define TUNING_VERSION "1" /* raised when the way of choosing changes */
#define KIND "choice"
#define CONFIG_MAX 1024

struct known {
	struct sha256_hex key;
	struct choice choice;
};
struct choice_cache {
	struct store *store;
	pthread_mutex_t lock;
	struct known *known; /* (KNOWN_MAX), key "" where empty */
};

struct choice_cache *choice_cache_create(struct store *store)
{
	struct choice_cache *c = xcalloc(1, sizeof *c);
	c->store = store;
	c->known = xcalloc(KNOWN_MAX, sizeof *c->known);
	pthread_mutex_init(&c->lock, NULL);
	return c;
}

void choice_cache_free(struct choice_cache *c)
{
	if (!c) return;
	pthread_mutex_destroy(&c->lock);
	free(c->known);
	free(c);
}

struct sha256_hex choice_key(const char *label, const struct sha256_hex *programs, int nprograms,
	const struct runner_device *d, const char *versions)
{
	/* A card of the same kind, not this very one: which of two kernels is faster is the kind's. */
	char *machine = xasprintf("%s|%s|%d|%d|%d|%d|%lld|%s", TUNING_VERSION, d->name, d->driver, d->clock_khz,
		d->memory_clock_khz, d->sms, (long long)d->memory_bytes, versions ? versions : "");
	struct str all = {0};
	for (int i = 0; i < nprograms; i++) {
		str_append(&all, programs[i].text, strlen(programs[i].text));
		str_append(&all, ",", 1);
	}
	struct slice parts[] = {{label, strlen(label)}, {all.data ? all.data : "", all.len}, {machine, strlen(machine)}};
	struct sha256_hex key = hash_parts(parts, ARRAY_LEN(parts));
	str_release(&all);
	free(machine);
	return key;
}

static struct known *slot(struct choice_cache *c, const struct sha256_hex *key)
{
	return &c->known[hash_place(key, KNOWN_MAX)];
}

static bool store_find(struct choice_cache *c, const struct sha256_hex *key, struct choice *out)
{
	struct str text = {0};
	json_t *o = NULL;
	int64_t config = 0;
	bool found = c->store && store_get(c->store, KIND, key->text, &text, NULL) == 0 &&
		json_parse(text.data, text.len, "stored choice", &o, NULL) == 0 &&
		json_get_int(o, "choice", "config", 0, CONFIG_MAX - 1, &config, NULL) == 0;
	*out = (struct choice){(int)config, json_number_value(json_object_get(o, "first_s")),
		json_number_value(json_object_get(o, "chosen_s"))};
	json_decref(o);
	str_release(&text);
	return found && out->first_s > 0 && out->chosen_s > 0;
}

/* With the lock. */
static bool find(struct choice_cache *c, const struct sha256_hex *key, struct choice *out)
{
	struct known *k = slot(c, key);
	if (!strcmp(k->key.text, key->text)) {
		*out = k->choice;
		return true;
	}
	if (!store_find(c, key, out)) return false;
	*k = (struct known){*key, *out};
	return true;
}

bool choice_cache_get(struct choice_cache *c, const struct sha256_hex *key, struct choice *out)
{
	pthread_mutex_lock(&c->lock);
	bool found = find(c, key, out);
	pthread_mutex_unlock(&c->lock);
	return found;
}

static int store_keep(
	struct choice_cache *c, const struct sha256_hex *key, const struct choice *choice, struct err *err)
{
	json_t *o = json_pack(
		"{s:i, s:f, s:f}", "config", choice->config, "first_s", choice->first_s, "chosen_s", choice->chosen_s);
	char *text = json_dumps(o, JSON_COMPACT | JSON_SORT_KEYS);
	json_decref(o);
	int rc = store_put(c->store, KIND, key->text, text, strlen(text), err);
	free(text);
	return rc;
}

void choice_cache_keep(struct choice_cache *c, const struct sha256_hex *key, struct choice *choice)
{
	struct err err = {0};
	struct choice first;
	pthread_mutex_lock(&c->lock);
	/* Between looking and writing no other process writes. */
	int rc = c->store ? store_begin(c->store, &err) : 0;
	bool has_begun = c->store && !rc;
	if (find(c, key, &first)) *choice = first;
	else if (has_begun) rc = store_keep(c, key, choice, &err);
	if (has_begun && store_commit(c->store, rc ? NULL : &err)) rc = ERR_IO;
	if (rc) log_warn("verify: an autotuner's choice is not kept: %s", err.text);
	*slot(c, key) = (struct known){*key, *choice};
	pthread_mutex_unlock(&c->lock);
}
