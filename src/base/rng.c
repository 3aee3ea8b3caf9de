/* Philox4x32-10: J. Salmon, M. Moraes, R. Dror, D. Shaw, "Parallel random numbers: as easy as 1, 2,
 * 3", SC 2011. The counter is (index, stream), the key is the seed; ten rounds of two 32x32 -> 64
 * multiplications. Chosen because a value needs no state: what is drawn for (seed, step, sample,
 * position) does not depend on who draws it or when. The GPU draws the same numbers with the same
 * ten lines. tests/base/test_rng.c holds the paper's known answers. */
#include "base/base.h"
#include <math.h>
#include <stdlib.h>

#define PHILOX_M0 0xd2511f53u
#define PHILOX_M1 0xcd9e8d57u
#define PHILOX_W0 0x9e3779b9u
#define PHILOX_W1 0xbb67ae85u

struct rng_block rng_philox(uint64_t seed, uint64_t stream, uint64_t index)
{
	uint32_t c0 = (uint32_t)index, c1 = (uint32_t)(index >> 32), c2 = (uint32_t)stream, c3 = (uint32_t)(stream >> 32);
	uint32_t k0 = (uint32_t)seed, k1 = (uint32_t)(seed >> 32);
	for (int round = 0; round < 10; round++) {
		uint64_t p0 = (uint64_t)PHILOX_M0 * c0, p1 = (uint64_t)PHILOX_M1 * c2;
		c0 = (uint32_t)(p1 >> 32) ^ c1 ^ k0;
		c1 = (uint32_t)p1;
		c2 = (uint32_t)(p0 >> 32) ^ c3 ^ k1;
		c3 = (uint32_t)p0;
		k0 += PHILOX_W0;
		k1 += PHILOX_W1;
	}
	return (struct rng_block){{c0, c1, c2, c3}};
}

static float uniform_of(uint32_t bits) { return (float)(bits >> 8) * 0x1p-24f; }

uint32_t rng_u32(uint64_t seed, uint64_t stream, uint64_t index) { return rng_philox(seed, stream, index).v[0]; }
float rng_uniform(uint64_t seed, uint64_t stream, uint64_t index) { return uniform_of(rng_u32(seed, stream, index)); }

/* In double, so that one rounding is left: u1 is in (0, 1], its logarithm is finite, |result| <=
 * sqrt(2 * 32 * ln 2) = 6.7. */
float rng_normal(uint64_t seed, uint64_t stream, uint64_t index)
{
	struct rng_block b = rng_philox(seed, stream, index);
	double u1 = ((double)b.v[0] + 1) * 0x1p-32, u2 = (double)b.v[1] * 0x1p-32;
	return (float)(sqrt(-2 * log(u1)) * cos(2 * M_PI * u2));
}

uint32_t rng_next(struct rng *r) { return rng_u32(r->seed, r->stream, r->index++); }
float rng_next_uniform(struct rng *r) { return uniform_of(rng_next(r)); }

/* D. Lemire, "Fast random integer generation in an interval", 2019: rejects the few low products
 * that would favour some results. */
uint32_t rng_below(struct rng *r, uint32_t n)
{
	CHECK(n > 0);
	uint64_t m = (uint64_t)rng_next(r) * n;
	uint32_t reject_below = (uint32_t)-n % n;
	while ((uint32_t)m < reject_below) m = (uint64_t)rng_next(r) * n;
	return (uint32_t)(m >> 32);
}

/* Fisher and Yates, from the end: the last place gets any of the items, the one before it any of
 * those that are left. */
void rng_shuffle(struct rng *r, void *items, size_t count, size_t size)
{
	uint8_t *at = items, *kept = xmalloc(size);
	CHECK(count <= UINT32_MAX);
	for (size_t i = count; i > 1; i--) {
		uint8_t *last = at + (i - 1) * size, *other = at + rng_below(r, (uint32_t)i) * size;
		memcpy(kept, last, size);
		memmove(last, other, size);
		memcpy(other, kept, size);
	}
	free(kept);
}
