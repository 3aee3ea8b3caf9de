/* rebuild_cache: kernels whose IR a clean process found to be their source's (rebuild_step.c).
 *
 * An IR depends on its recipe and on the text up to the statement behind the kernel's last
 * function, which the clean process names as a line; so a text that begins with the same lines,
 * and claims the same IR for the same recipe, need not be asked about again: the same source at
 * other sizes, or the same kernel under other host code. A tracer makes its IR itself all the
 * same: host code behind those lines may have changed the front end, and what that makes is what a
 * real run would launch. */
#include "verify/verify_internal.h"
#include "base/base.h"
#include "tape/tape.h"
#include <pthread.h>
#include <stdlib.h>

#define KNOWN 8192             /* claims; power of two */

/* A kernel that was found right: what is claimed, and the lines of text that it
 * was found right with. */
struct known {
	struct sha256_hex claim;
	struct sha256_hex text;
	int until; /* lines; 0: all */
};
struct rebuild_cache {
	struct known known[KNOWN];
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
	pthread_mutex_destroy(&c->lock);
	free(c);
}

/* What a kernel's rightness depends on beside the text: what the tape claims, and who checks it. */
static struct sha256_hex claim_of(const struct grading *g, const struct tape_kernel *k)
{
	char arch[16];
	snprintf(arch, sizeof arch, "%d", g->s->gpu.capability);
	struct slice parts[] = {{arch, strlen(arch)}, {k->hash.text, strlen(k->hash.text)}, {k->name, strlen(k->name)},
		{k->source, strlen(k->source)}, {g->s->versions, strlen(g->s->versions)}};
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
