/* words: looks at many words of this process's memory at once, for worker/tracer_words.py.
 *
 * numpy would gather them into an array of its own first: that is fresh memory at each look, and a
 * forked process pays a fault for every page of it. Part of libhone_sandbox.so, for the workers
 * only. */
#include <stdint.h>

#define AHEAD 24 /* words that are asked for before they are looked at */

int64_t words_other(const uint64_t *memory, const int64_t *at, const uint64_t *then, int64_t from, int64_t n);

/* The first i >= from, below n, for which memory[at[i]] is not then[i]; -1: there is none. */
int64_t words_other(const uint64_t *memory, const int64_t *at, const uint64_t *then, int64_t from, int64_t n)
{
	for (int64_t i = from; i < n; i++) {
		/* Hardly two of these words share a page, and the processor does not guess the next one. */
		if (i + AHEAD < n) __builtin_prefetch(memory + at[i + AHEAD]);
		if (memory[at[i]] != then[i]) return i;
	}
	return -1;
}
