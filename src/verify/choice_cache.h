/* choice_cache: which configuration of an autotuner is the fastest, as it was measured once. A
 * choice belongs to what was measured, not to a candidate: the key is made of the programs
 * that all of the autotuner's configurations make, of its kernel and key, and of the card with
 * its clocks' limits. Whoever has the same programs on the same kind of card gets the same
 * choice, in every verdict and process, so that a reward does not hang on which of two near
 * times was the lower one today.
 *
 * In memory, and in the store where there is one. The first that is kept stays: choice_cache_keep
 * answers with it. Thread-safe, and safe among processes with one store. */
#ifndef HONE_CHOICE_CACHE_H
#define HONE_CHOICE_CACHE_H
#include "base/base.h"
#include "runner/runner.h"
#include "store/store.h"

struct choice_cache;
struct choice {
	int config;      /* from 0, of those that survive the autotuner's pruning */
	double first_s;  /* seconds of the first configuration that compiles */
	double chosen_s; /* seconds of this one, in the same session */
};
struct choice_cache *choice_cache_create(struct store *store); /* store may be NULL */
void choice_cache_free(struct choice_cache *c);
/* programs: for each configuration the hash of what it makes (tape_program_hash), or "" of one
 * that is no choice; label: kernel and key, as the tracer names an autotuner; versions: of the
 * compiler and of what times. */
struct sha256_hex choice_key(const char *label, const struct sha256_hex *programs, int nprograms,
	const struct runner_device *device, const char *versions);
bool choice_cache_get(struct choice_cache *c, const struct sha256_hex *key, struct choice *out);
/* Before it is used. *choice becomes what somebody else kept first, where there is such. */
void choice_cache_keep(struct choice_cache *c, const struct sha256_hex *key, struct choice *choice);
#endif
