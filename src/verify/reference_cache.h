/* reference_cache: times of references that were measured before, on this very GPU with these
 * clocks' limits and versions. Each has the control's time of its session beside it: whoever uses
 * it times the control again, and the two must agree (reference_agrees). In memory, and in the
 * store where there is one. Thread-safe.
 *
 * Whoever is about to time a reference claims its key first and looks once more: others who claim
 * it wait until it is released, and then find what was put. */
#ifndef HONE_REFERENCE_CACHE_H
#define HONE_REFERENCE_CACHE_H
#include "base/base.h"
#include "runner/runner.h"
#include "store/store.h"
#include "verify/verdict.h"

#define REFERENCE_CONTROL_SHARE 0.01 /* by which the control may differ */

struct reference_cache;
struct reference_cache *reference_cache_create(struct store *store); /* store may be NULL */
void reference_cache_free(struct reference_cache *c);
/* source: of the reference at the sizes in question; inputs: what they are there (a variant's job),
 * since a task may draw sizes that its text does not say, NULL: none; versions: of torch and what
 * runs it. */
struct sha256_hex reference_key(const char *source, const json_t *inputs, enum verdict_reference_kind kind,
	const struct runner_device *device, const char *versions);
/* What is kept, of a session whose control agrees with now_s (NaN: of any session). */
bool reference_cache_get(
	struct reference_cache *c, const struct sha256_hex *key, double now_s, struct verdict_reference *out);
void reference_cache_put(
	struct reference_cache *c, const struct sha256_hex *key, const struct verdict_reference *r, double control_s);
/* Waits while another thread has the key. A thread that claims several does so in one
 * order everywhere. False: the other one could not time it, so nobody need wait, and there
 * is nothing to release. */
bool reference_cache_claim(struct reference_cache *c, const struct sha256_hex *key);
void reference_cache_release(struct reference_cache *c, const struct sha256_hex *key);
static inline bool reference_agrees(double control_s, double stored_s)
{
	double share = control_s / stored_s - 1;
	return share <= REFERENCE_CONTROL_SHARE && share >= -REFERENCE_CONTROL_SHARE; /* NaN does not */
}
#endif
