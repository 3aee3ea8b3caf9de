/* How many are at work at once (src/verify/seats.h). */
#include "base/base.h"
#include "verify/seats.h"
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <time.h>
#include <cmocka.h>

enum { SEATS = 3, THREADS = 9, ROUNDS = 2000 };

static struct seats seats;
static atomic_int at_work, most, may_begin;

static void *take_in_turns(void *arg)
{
	for (int i = 0; i < ROUNDS; i++) {
		seats_take(&seats);
		int now = atomic_fetch_add(&at_work, 1) + 1;
		for (int was = atomic_load(&most); now > was && !atomic_compare_exchange_weak(&most, &was, now);) continue;
		sched_yield();
		atomic_fetch_sub(&at_work, 1);
		seats_leave(&seats);
	}
	return NULL;
}

static void test_no_more_than_seats(void **state)
{
	pthread_t threads[THREADS];
	seats_create(&seats, SEATS);
	for (int i = 0; i < THREADS; i++) assert_int_equal(pthread_create(&threads[i], NULL, take_in_turns, NULL), 0);
	for (int i = 0; i < THREADS; i++) assert_int_equal(pthread_join(threads[i], NULL), 0);
	assert_in_range(most, 1, SEATS);
	assert_int_equal(seats.nfree, SEATS);
	seats_destroy(&seats);
}

static void *take_one(void *arg)
{
	seats_take(&seats);
	int *is_late = arg;
	*is_late = atomic_load(&may_begin);
	seats_leave(&seats);
	return NULL;
}

/* Whoever comes back does not wait, and what it overdrew is paid before the next one begins. */
static void test_overdrawn(void **state)
{
	pthread_t next;
	int is_late = -1;
	seats_create(&seats, 1);
	seats_take(&seats);
	seats_leave(&seats); /* waits for a GPU */
	seats_take(&seats);  /* another has its seat */
	seats_return(&seats);
	assert_int_equal(seats.nfree, -1);
	assert_int_equal(pthread_create(&next, NULL, take_one, &is_late), 0);
	seats_leave(&seats);
	/* Time in which one that is let in too early would show it. */
	nanosleep(&(struct timespec){.tv_nsec = 30000000}, NULL);
	atomic_store(&may_begin, 1);
	seats_leave(&seats);
	assert_int_equal(pthread_join(next, NULL), 0);
	assert_int_equal(is_late, 1);
	assert_int_equal(seats.nfree, 1);
	seats_destroy(&seats);
}

int main(void)
{
	cmocka_set_message_output(CM_OUTPUT_TAP);
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_no_more_than_seats),
		cmocka_unit_test(test_overdrawn),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
