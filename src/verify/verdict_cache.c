/* verdict_cache: a ring of verdicts with lists by key, and the store's rows of kind "verdict"
 * (verdict_cache.h). */
#include "verify/verdict_cache.h"
#include "base/base.h"
#include "store/store.h"
#include "verify/verdict.h"
#include <stdlib.h>

#define KIND "verdict"

struct known {
	struct sha256_hex key;
	struct verdict *verdict; /* NULL: free */
	struct known *next;      /* of those with the same place */
};
struct verdict_cache {
	struct store *store;  /* NULL: none */
	struct known *known;  /* (count) used in turn, so that the oldest makes room */
	struct known **heads; /* (count) lists by key */
	size_t count;
	size_t turn; /* verdicts kept so far */
};

struct verdict_cache *verdict_cache_create(size_t count, struct store *store)
{
	struct verdict_cache *c = xcalloc(1, sizeof *c);
	c->store = store;
	c->count = count;
	c->known = xcalloc(count, sizeof *c->known);
	c->heads = xcalloc(count, sizeof *c->heads);
	return c;
}

void verdict_cache_free(struct verdict_cache *c)
{
	if (!c) return;
	for (size_t i = 0; i < c->count; i++) free(c->known[i].verdict);
	free(c->known);
	free(c->heads);
	free(c);
}

/* ---- in memory ---- */

static struct known **head_of(const struct verdict_cache *c, const struct sha256_hex *key)
{
	return &c->heads[hash_place(key, (uint32_t)c->count)];
}

static struct known *known_find(const struct verdict_cache *c, const struct sha256_hex *key)
{
	struct known *e = *head_of(c, key);
	while (e && strcmp(e->key.text, key->text)) e = e->next;
	return e;
}

const struct verdict *verdict_cache_find(const struct verdict_cache *c, const struct sha256_hex *key)
{
	const struct known *e = known_find(c, key);
	return e ? e->verdict : NULL;
}

void verdict_cache_keep(struct verdict_cache *c, const struct sha256_hex *key, const struct verdict *d)
{
	struct known *e = known_find(c, key);
	if (!e) {
		/* The oldest leaves its list, and its place gets the new key. */
		e = &c->known[c->turn++ % c->count];
		if (e->verdict) {
			struct known **p = head_of(c, &e->key);
			while (*p != e) p = &(*p)->next;
			*p = e->next;
		} else {
			e->verdict = xmalloc(sizeof *e->verdict);
		}
		struct known **head = head_of(c, key);
		e->key = *key;
		e->next = *head;
		*head = e;
	}
	*e->verdict = *d;
}

/* ---- in the store ---- */

static bool is_lasting(const struct verdict *d)
{
	return d->class != VERDICT_INFRA && strncmp(d->reason, "timeout", 7);
}

bool verdict_cache_load(const struct verdict_cache *c, const struct sha256_hex *key, struct verdict *out)
{
	struct str text = {0};
	json_t *o = NULL;
	bool found = c->store && store_get(c->store, KIND, key->text, &text, NULL) == 0 &&
		json_parse(text.data, text.len, "stored verdict", &o, NULL) == 0 && verdict_from_json(o, out, NULL) == 0;
	json_decref(o);
	str_release(&text);
	return found;
}

void verdict_cache_save(const struct verdict_cache *c, const struct verdict *d)
{
	if (!c->store || !is_lasting(d)) return;
	struct err err = {0};
	json_t *o = verdict_json(d);
	char *text = json_dumps(o, JSON_COMPACT | JSON_SORT_KEYS);
	json_decref(o);
	if (text && store_put(c->store, KIND, d->key.text, text, strlen(text), &err)) log_warn("verify: %s", err.text);
	free(text);
}
