/* verdict_cache: verdicts that need no grading again. The last ones of this process lie in memory,
 * by the key of their request; those that outlive it lie in the store, by a key that has the
 * versions of everything in it too.
 *
 * What lies in memory is for one thread at a time (the verifier's lock); the store is
 * thread-safe. */
#ifndef HONE_VERDICT_CACHE_H
#define HONE_VERDICT_CACHE_H
#include "base/base.h"
#include "store/store.h"
#include "verify/verdict.h"

struct verdict_cache;
/* Of count verdicts in memory, 1 at least; store may be NULL. */
struct verdict_cache *verdict_cache_create(size_t count, struct store *store);
void verdict_cache_free(struct verdict_cache *c);
/* In memory; valid until the next one is kept. NULL: not there. */
const struct verdict *verdict_cache_find(const struct verdict_cache *c, const struct sha256_hex *key);
/* In the place of the oldest where all are taken, so that the last count verdicts are there. */
void verdict_cache_keep(struct verdict_cache *c, const struct sha256_hex *key, const struct verdict *d);
/* In the store. */
bool verdict_cache_load(const struct verdict_cache *c, const struct sha256_hex *key, struct verdict *out);
/* Under d->key, unless it is of this process alone: time limits depend on how busy the machine is,
 * and infra is nobody's verdict. */
void verdict_cache_save(const struct verdict_cache *c, const struct verdict *d);
#endif
