/* The thread pool: every index once, chunk boundaries that depend on count and grain alone, tens of
 * thousands of tiny sections, two pools at once. */
#include "base_test.h"
#include <pthread.h>
#include <stdatomic.h>

struct chunks {
	_Atomic int64_t end[512];
	_Atomic int seen[512];
	int64_t grain;
	_Atomic int threads_seen;
};

static void record(void *ctx, int64_t begin, int64_t end, int thread)
{
	struct chunks *c = ctx;
	int64_t i = begin / c->grain;
	if (begin % c->grain || i >= 512) abort();
	atomic_store(&c->end[i], end);
	atomic_fetch_add(&c->seen[i], 1);
	atomic_fetch_or(&c->threads_seen, 1 << thread);
}

static void boundaries_depend_on_count_and_grain_alone(void **state)
{
	static const int64_t counts[] = {1, 2, 7, 8, 9, 31, 64, 100, 511}, grains[] = {1, 3, 8, 1000};
	for (int threads = 1; threads <= 4; threads++) {
		struct pool *p = pool_create(threads);
		assert_int_equal(pool_threads(p), threads);
		for (size_t n = 0; n < ARRAY_LEN(counts); n++) {
			for (size_t g = 0; g < ARRAY_LEN(grains); g++) {
				struct chunks *c = xcalloc(1, sizeof(*c));
				c->grain = grains[g];
				pool_run(p, counts[n], grains[g], record, c);
				int64_t chunks = (counts[n] + grains[g] - 1) / grains[g];
				for (int64_t i = 0; i < 512; i++) {
					assert_int_equal(c->seen[i], i < chunks);
					if (i < chunks) assert_int_equal(c->end[i], MIN((i + 1) * grains[g], counts[n]));
				}
				assert_true(c->threads_seen < 1 << threads);
				free(c);
			}
		}
		pool_free(p);
	}
}

/* Plain, not atomic: pool_run must order the writes of one section before the reads of the next
 * (the thread sanitizer watches). */
static void add_neighbour(void *ctx, int64_t begin, int64_t end, int thread)
{
	int64_t **rows = ctx;
	for (int64_t i = begin; i < end; i++) rows[1][i] = rows[0][(i + 1) % 16] + 1;
}

static void many_tiny_sections(void **state)
{
	for (int threads = 1; threads <= 3; threads++) {
		struct pool *p = pool_create(threads);
		int64_t a[16] = {0}, b[16] = {0}, *rows[2];
		for (int i = 0; i < 10000; i++) {
			rows[0] = i % 2 ? b : a;
			rows[1] = i % 2 ? a : b;
			pool_run(p, 16, 1 + i % 5, add_neighbour, rows);
			if (i % 1000 == 999) sleep_ms(1); /* lets the workers fall asleep */
		}
		for (int i = 0; i < 16; i++) assert_int_equal(a[i], 10000);
		pool_free(p);
	}
}

struct meeting {
	_Atomic int here, met;
};

static void rendezvous(void *ctx, int64_t begin, int64_t end, int thread)
{
	struct meeting *m = ctx;
	atomic_fetch_add(&m->here, 1);
	for (int i = 0; i < 5000 && atomic_load(&m->here) < 2; i++) sleep_ms(1);
	if (atomic_load(&m->here) == 2) atomic_fetch_add(&m->met, 1);
}

/* Two chunks that wait for each other: both see the other only if two threads run them, also when
 * the worker had gone to sleep. */
static void sections_run_in_parallel(void **state)
{
	struct pool *p = pool_create(2);
	for (int i = 0; i < 5; i++) {
		struct meeting m = {0};
		sleep_ms(i * 2);
		pool_run(p, 2, 1, rendezvous, &m);
		assert_int_equal(atomic_load(&m.met), 2);
	}
	pool_free(p);
}

static void add_range(void *ctx, int64_t begin, int64_t end, int thread)
{
	atomic_fetch_add((_Atomic int64_t *)ctx, end - begin);
}

static void *drive(void *arg)
{
	struct pool *p = pool_create(2);
	for (int i = 0; i < 2000; i++) pool_run(p, 10, 1, add_range, arg);
	pool_free(p);
	return NULL;
}

static void two_pools_do_not_meet(void **state)
{
	pthread_t t[2];
	_Atomic int64_t sum[2] = {0};
	for (int i = 0; i < 2; i++) assert_int_equal(pthread_create(&t[i], NULL, drive, &sum[i]), 0);
	for (int i = 0; i < 2; i++) pthread_join(t[i], NULL);
	assert_int_equal(sum[0], 20000);
	assert_int_equal(sum[1], 20000);
}

static void edges(void **state)
{
	struct pool *p = pool_create(0);
	assert_int_equal(pool_threads(p), cpu_count());
	_Atomic int64_t sum = 0;
	pool_run(p, 0, 5, add_range, &sum);
	assert_int_equal(sum, 0);
	pool_run(p, INT64_MAX, INT64_MAX / 3, add_range, &sum); /* no overflow in the last chunk's end */
	assert_true(sum == INT64_MAX);
	pool_free(p);
	pool_free(NULL);
	for (int i = 0; i < 50; i++) pool_free(pool_create(4)); /* freed while workers start */
}

static void do_bad_grain(void)
{
	struct pool *p = pool_create(1);
	pool_run(p, 10, 0, add_range, NULL);
}

static void zero_grain_aborts(void **state) { assert_true(aborts(do_bad_grain)); }

static const struct CMUnitTest tests[] = {
	cmocka_unit_test(boundaries_depend_on_count_and_grain_alone),
	cmocka_unit_test(many_tiny_sections),
	cmocka_unit_test(sections_run_in_parallel),
	cmocka_unit_test(two_pools_do_not_meet),
	cmocka_unit_test(edges),
	cmocka_unit_test(zero_grain_aborts),
};
TAP_MAIN(tests)
