/* rebuild_cache: kernels whose IR a clean process found to be their source's (rebuild_step.c).
 *
 * An IR depends on its recipe and on the text up to the statement behind the kernel's last
 * function, which the clean process names as a line; so a text that begins with the same lines,
 * and claims the same IR for the same recipe, need not be asked about again: the same source at
 * other sizes, or the same kernel under other host code. For such a text the IR itself is kept too:
 * a tracer asks for it by its recipe, as long as it finds the front end as it was
 * (worker/tracer_seal.py). */
#include "verify/verify_internal.h"
#include "base/base.h"
#include "tape/tape.h"
#include <pthread.h>
#include <stdlib.h>

#define KNOWN 8192             /* claims; power of two */
#define MADE 1024              /* IR that is kept; power of two */
#define MADE_BYTES_MAX ((size_t)64 << 10)

/* A kernel that was found right: what is claimed, and the lines of text that it
 * was found right with. */
struct known {
	struct sha256_hex claim;
	struct sha256_hex text;
	int until; /* lines; 0: all */
};
/* An IR that a clean process made, by who made it and by which recipe, and the lines of
 * text that it was made of. */
struct made {
	struct sha256_hex recipe;
	struct sha256_hex text;
	int until;  /* lines; 0: all */
	char *ttir; /* heap */
};
struct rebuild_cache {
	struct known known[KNOWN];
	struct made made[MADE];
	pthread_mutex_t lock;
};

struct rebuild_cache *rebuild_cache_create(void)
{
	struct rebuild_cache *c = xcalloc(1, sizeof *c);
	pthread_mutex_init(&c->lock, NULL);
	return c;
}

void rebuild_cache_free(struct rebuild_cache *c)
{
	if (!c) return;
	for (int i = 0; i < MADE; i++) free(c->made[i].ttir);
	pthread_mutex_destroy(&c->lock);
	free(c);
}

/* What an IR depends on beside the text: its recipe, and who makes it. */
static struct sha256_hex recipe_hash(const struct grading *g, const char *recipe)
{
	char arch[16];
	snprintf(arch, sizeof arch, "%d", g->s->gpu.capability);
	struct slice parts[] = {{arch, strlen(arch)}, {recipe, strlen(recipe)}, {g->s->versions, strlen(g->s->versions)}};
	return hash_parts(parts, ARRAY_LEN(parts));
}

/* What a kernel's rightness depends on beside the text: also what the tape claims. */
static struct sha256_hex claim_of(const struct grading *g, const struct tape_kernel *k)
{
	struct sha256_hex recipe = recipe_hash(g, k->source);
	struct slice parts[] = {
		{recipe.text, strlen(recipe.text)}, {k->hash.text, strlen(k->hash.text)}, {k->name, strlen(k->name)}};
	return hash_parts(parts, ARRAY_LEN(parts));
}

/* The bytes of the candidate's first `until` lines, their ends included; 0: of all. */
static size_t head_len(const struct grading *g, int until)
{
	size_t len = until ? 0 : g->source_len;
	for (int line = 0; line < until && len < g->source_len; line++) {
		const char *end = memchr(g->source + len, '\n', g->source_len - len);
		len = end ? (size_t)(end - g->source) + 1 : g->source_len;
	}
	return len;
}

/* Direct-mapped: a collision only evicts. */
static struct known *slot(struct rebuild_cache *c, const struct sha256_hex *key)
{
	return &c->known[hash_place(key, KNOWN)];
}

bool rebuild_is_known(const struct grading *g, const struct tape_kernel *k)
{
	struct rebuild_cache *c = g->s->rebuilds;
	struct sha256_hex claim = claim_of(g, k);
	pthread_mutex_lock(&c->lock);
	struct known e = *slot(c, &claim);
	pthread_mutex_unlock(&c->lock);
	if (strcmp(e.claim.text, claim.text)) return false;
	struct sha256_hex text = hash_bytes(g->source, head_len(g, e.until));
	return !strcmp(e.text.text, text.text);
}

void rebuild_known_add(const struct grading *g, const struct tape_kernel *k, int until)
{
	struct rebuild_cache *c = g->s->rebuilds;
	struct known e = {.claim = claim_of(g, k), .text = hash_bytes(g->source, head_len(g, until)), .until = until};
	pthread_mutex_lock(&c->lock);
	*slot(c, &e.claim) = e;
	pthread_mutex_unlock(&c->lock);
}

char *rebuild_made_take(const struct grading *g, const char *recipe)
{
	struct rebuild_cache *c = g->s->rebuilds;
	struct sha256_hex key = recipe_hash(g, recipe);
	char *ttir = NULL;
	pthread_mutex_lock(&c->lock);
	const struct made *e = &c->made[hash_place(&key, MADE)];
	if (!strcmp(e->recipe.text, key.text)) {
		struct sha256_hex text = hash_bytes(g->source, head_len(g, e->until));
		if (!strcmp(e->text.text, text.text)) ttir = xstrdup(e->ttir);
	}
	pthread_mutex_unlock(&c->lock);
	return ttir;
}

void rebuild_made_add(const struct grading *g, const char *recipe, const char *ttir, int until)
{
	struct rebuild_cache *c = g->s->rebuilds;
	if (strlen(ttir) > MADE_BYTES_MAX) return;
	struct made e = {
		.recipe = recipe_hash(g, recipe), .text = hash_bytes(g->source, head_len(g, until)), .until = until};
	e.ttir = xstrdup(ttir);
	pthread_mutex_lock(&c->lock);
	struct made *place = &c->made[hash_place(&e.recipe, MADE)];
	free(place->ttir);
	*place = e;
	pthread_mutex_unlock(&c->lock);
}
