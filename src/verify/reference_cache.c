/* reference_cache: a small table in memory over the store's rows of kind
 * "reference" (reference_cache.h). */
#include "verify/reference_cache.h"
#include "base/base.h"
#include "runner/runner.h"
#include "store/store.h"
#include <math.h>
#include <pthread.h>
#include <stdlib.h>

#define KNOWN_MAX 1024       /* a slot for each hash: a newer one takes an older one's place */
#define TIMING_VERSION "1"   /* raised when the way of timing changes */
#define KIND "reference"

struct known {
	struct sha256_hex key;
	struct verdict_reference reference;
	double control_s;
};
struct reference_cache {
	struct store *store;
	pthread_mutex_t lock;
	struct known *known; /* (KNOWN_MAX), key "" where empty */
	pthread_cond_t changed;
	int nclaimed;
	struct sha256_hex *claimed; /* (nclaimed) keys that some thread is timing */
};

struct reference_cache *reference_cache_create(struct store *store)
{
	struct reference_cache *c = xcalloc(1, sizeof *c);
	c->store = store;
	c->known = xcalloc(KNOWN_MAX, sizeof *c->known);
	pthread_mutex_init(&c->lock, NULL);
	pthread_cond_init(&c->changed, NULL);
	return c;
}

void reference_cache_free(struct reference_cache *c)
{
	if (!c) return;
	pthread_cond_destroy(&c->changed);
	pthread_mutex_destroy(&c->lock);
	free(c->claimed);
	free(c->known);
	free(c);
}

struct sha256_hex reference_key(const char *source, const json_t *inputs, enum verdict_reference_kind kind,
	const struct runner_device *d, const char *versions)
{
	char *machine = xasprintf("%s|%s|%s|%d|%d|%d|%d|%lld|%s", TIMING_VERSION, d->name, d->uuid, d->driver, d->clock_khz,
		d->memory_clock_khz, d->sms, (long long)d->memory_bytes, versions ? versions : "");
	const char *name = verdict_reference_name(kind);
	char *shapes = inputs ? json_dumps(inputs, JSON_COMPACT | JSON_SORT_KEYS) : NULL;
	const char *drawn = shapes ? shapes : "";
	struct slice parts[] = {
		{source, strlen(source)}, {drawn, strlen(drawn)}, {name, strlen(name)}, {machine, strlen(machine)}};
	struct sha256_hex key = hash_parts(parts, ARRAY_LEN(parts));
	free(shapes);
	free(machine);
	return key;
}

static struct known *slot(struct reference_cache *c, const struct sha256_hex *key)
{
	return &c->known[hash_place(key, KNOWN_MAX)];
}

static bool store_find(struct reference_cache *c, const struct sha256_hex *key, struct known *out)
{
	struct str text = {0};
	json_t *o = NULL;
	*out = (struct known){.key = *key};
	bool found = c->store && store_get(c->store, KIND, key->text, &text, NULL) == 0 &&
		json_parse(text.data, text.len, "stored reference", &o, NULL) == 0 &&
		verdict_reference_from_json(json_object_get(o, "reference"), &out->reference, NULL) == 0;
	if (found) out->control_s = json_number_value(json_object_get(o, "control_s"));
	json_decref(o);
	str_release(&text);
	return found && out->control_s > 0;
}

/* Whether what is known is this key's, and of a session like the present one. */
static bool serves(const struct known *k, const struct sha256_hex *key, double now_s)
{
	return !strcmp(k->key.text, key->text) && (isnan(now_s) || reference_agrees(now_s, k->control_s));
}

bool reference_cache_get(
	struct reference_cache *c, const struct sha256_hex *key, double now_s, struct verdict_reference *out)
{
	pthread_mutex_lock(&c->lock);
	struct known *k = slot(c, key), read;
	bool found = serves(k, key, now_s);
	/* Another process may have timed it again meanwhile. */
	if (!found && store_find(c, key, &read) && serves(&read, key, now_s)) {
		*k = read;
		found = true;
	}
	if (found) *out = k->reference;
	pthread_mutex_unlock(&c->lock);
	return found;
}

static int claim_find(const struct reference_cache *c, const struct sha256_hex *key)
{
	for (int i = 0; i < c->nclaimed; i++)
		if (!strcmp(c->claimed[i].text, key->text)) return i;
	return -1;
}

bool reference_cache_claim(struct reference_cache *c, const struct sha256_hex *key)
{
	bool has_waited = false;
	pthread_mutex_lock(&c->lock);
	for (; claim_find(c, key) >= 0; has_waited = true) pthread_cond_wait(&c->changed, &c->lock);
	/* Who was waited for could not time it: those who waited try side by side, as
	 * it may fail for long. */
	bool is_claimed = !has_waited || serves(slot(c, key), key, NAN);
	if (is_claimed) {
		c->claimed = xrealloc(c->claimed, size_mul((size_t)c->nclaimed + 1, sizeof *c->claimed));
		c->claimed[c->nclaimed++] = *key;
	}
	pthread_mutex_unlock(&c->lock);
	return is_claimed;
}

void reference_cache_release(struct reference_cache *c, const struct sha256_hex *key)
{
	pthread_mutex_lock(&c->lock);
	int at = claim_find(c, key);
	CHECKF(at >= 0, "a reference's key is released that nobody claimed");
	c->claimed[at] = c->claimed[--c->nclaimed];
	pthread_cond_broadcast(&c->changed);
	pthread_mutex_unlock(&c->lock);
}

void reference_cache_put(
	struct reference_cache *c, const struct sha256_hex *key, const struct verdict_reference *r, double control_s)
{
	struct err err = {0};
	pthread_mutex_lock(&c->lock);
	*slot(c, key) = (struct known){*key, *r, control_s};
	pthread_mutex_unlock(&c->lock);
	if (!c->store) return;
	json_t *o = json_pack("{s:o, s:f}", "reference", verdict_reference_json(r), "control_s", control_s);
	char *text = json_dumps(o, JSON_COMPACT | JSON_SORT_KEYS);
	json_decref(o);
	if (text && store_put(c->store, KIND, key->text, text, strlen(text), &err)) log_warn("verify: %s", err.text);
	free(text);
}
