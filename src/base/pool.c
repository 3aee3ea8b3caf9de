/* A fixed thread pool for many small parallel sections.
 *
 * All that workers race for is one 64-bit word, the ticket: (section number, chunks not yet
 * claimed). A claim is a compare-and-swap that takes one off. The section's description is written
 * only while the ticket says 0 chunks, so a worker that read the description and then wins the swap
 * has read the right one; a worker that wakes late loses the swap, or finds 0 and touches nothing.
 * pool_run therefore never waits for a thread to wake up: it waits for chunks to finish, and the
 * caller takes chunks itself.
 *
 * A decode step launches hundreds of sections a few microseconds apart: idle threads spin that long
 * before they sleep in futex(2). They do not spin when there are more threads than cores, where
 * spinning steals the time of whoever has work. */
#include "base/base.h"
#include <errno.h>
#include <linux/futex.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

#define SPIN_NS 10000
#define THREADS_MAX 1024

struct worker {
	struct pool *pool;
	pthread_t thread;
	int index;
};

struct pool {
	_Alignas(64) _Atomic uint64_t ticket;   /* section << 32 | chunks left */
	_Alignas(64) _Atomic uint32_t finished; /* chunks of this section that ran; the caller sleeps on it */
	_Atomic uint32_t caller_sleeps;
	_Alignas(64) _Atomic uint32_t wake; /* changes with each section; workers sleep on it */
	_Atomic uint32_t sleepers;
	_Atomic bool stop;
	/* The section. Atomic because a late worker may read them while they change; it throws away
	 * what it read. */
	_Alignas(64) _Atomic(pool_fn *) fn;
	_Atomic(void *) ctx;
	_Atomic int64_t count; /* items */
	_Atomic int64_t grain; /* items in a chunk */
	_Atomic uint32_t chunks;
	int threads;            /* the caller is one of them */
	bool spin;              /* before sleeping: every thread has a core of its own */
	struct worker *workers; /* threads - 1 of them; thread 0 is the caller */
};

int cpu_count(void)
{
	cpu_set_t set;
	if (!sched_getaffinity(0, sizeof(set), &set)) return MAX(CPU_COUNT(&set), 1);
	long n = sysconf(_SC_NPROCESSORS_ONLN); /* more than 1024 cores */
	return n > 0 ? (int)n : 1;
}

static void futex_wait(_Atomic uint32_t *word, uint32_t seen)
{
	syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, seen, NULL, NULL, 0);
}
static void futex_wake(_Atomic uint32_t *word, int count)
{
	syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, count, NULL, NULL, 0);
}

/* Spins until *word is no longer `seen`; false when the time is over. */
static bool spin_while(const struct pool *p, _Atomic uint32_t *word, uint32_t seen)
{
	if (!p->spin) return atomic_load(word) != seen;
	uint64_t end = clock_ns() + SPIN_NS;
	do {
		for (int i = 0; i < 16; i++) {
			if (atomic_load_explicit(word, memory_order_acquire) != seen) return true;
			__builtin_ia32_pause();
		}
	} while (clock_ns() < end);
	return false;
}

static void run_chunks(struct pool *p, int thread)
{
	uint64_t ticket = atomic_load_explicit(&p->ticket, memory_order_acquire);
	while ((uint32_t)ticket) {
		pool_fn *fn = atomic_load_explicit(&p->fn, memory_order_relaxed);
		void *ctx = atomic_load_explicit(&p->ctx, memory_order_relaxed);
		int64_t count = atomic_load_explicit(&p->count, memory_order_relaxed),
				grain = atomic_load_explicit(&p->grain, memory_order_relaxed);
		uint32_t chunks = atomic_load_explicit(&p->chunks, memory_order_relaxed);
		/* The reads above must come before the swap; its release half keeps them there. */
		if (!atomic_compare_exchange_weak_explicit(
				&p->ticket, &ticket, ticket - 1, memory_order_acq_rel, memory_order_acquire))
			continue;
		int64_t begin = (int64_t)(chunks - (uint32_t)ticket) * grain;
		fn(ctx, begin, MIN(count - begin, grain) + begin, thread);
		/* Only the caller starts the next section, and only after this count: `chunks` is still
		 * this section's. */
		if (atomic_fetch_add(&p->finished, 1) + 1 == chunks && atomic_load(&p->caller_sleeps))
			futex_wake(&p->finished, 1);
		ticket = atomic_load_explicit(&p->ticket, memory_order_acquire);
	}
}

static void *worker_main(void *arg)
{
	struct worker *w = arg;
	struct pool *p = w->pool;
	for (;;) {
		uint32_t seen = atomic_load(&p->wake);
		if (atomic_load(&p->stop)) return NULL;
		run_chunks(p, w->index);
		if (spin_while(p, &p->wake, seen)) continue;
		atomic_fetch_add(&p->sleepers, 1);
		futex_wait(&p->wake, seen);
		atomic_fetch_sub(&p->sleepers, 1);
	}
}

struct pool *pool_create(int threads)
{
	int cores = cpu_count();
	if (threads <= 0) threads = cores;
	threads = MIN(threads, THREADS_MAX);
	struct pool *p = aligned_alloc(64, sizeof(struct pool));
	CHECKF(p, "out of memory: %zu bytes for a thread pool", sizeof(struct pool));
	memset(p, 0, sizeof(*p));
	p->threads = threads;
	p->spin = threads <= cores;
	p->workers = xcalloc((size_t)threads, sizeof(struct worker));
	/* Signals go to the threads that the program made itself. */
	sigset_t all, old;
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &old);
	for (int i = 1; i < threads; i++) {
		p->workers[i] = (struct worker){.pool = p, .index = i};
		int rc = pthread_create(&p->workers[i].thread, NULL, worker_main, &p->workers[i]);
		CHECKF(!rc, "thread %d of %d: %s; use fewer threads", i, threads, strerror(rc));
	}
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	return p;
}

void pool_free(struct pool *p)
{
	if (!p) return;
	atomic_store(&p->stop, true);
	atomic_fetch_add(&p->wake, 1);
	futex_wake(&p->wake, THREADS_MAX);
	for (int i = 1; i < p->threads; i++) pthread_join(p->workers[i].thread, NULL);
	free(p->workers);
	free(p);
}

int pool_threads(const struct pool *p) { return p->threads; }

void pool_run(struct pool *p, int64_t count, int64_t grain, pool_fn *fn, void *ctx)
{
	CHECKF(count >= 0 && grain > 0, "count %lld, grain %lld", (long long)count, (long long)grain);
	if (!count) return;
	int64_t chunks = (count - 1) / grain + 1;
	/* With one chunk or one thread no worker is needed, and the caller runs the chunks in order. */
	if (chunks == 1 || p->threads == 1) {
		for (int64_t i = 0; i < chunks; i++) fn(ctx, i * grain, MIN(count - i * grain, grain) + i * grain, 0);
		return;
	}
	CHECKF(chunks <= UINT32_MAX, "%lld chunks: use a larger grain", (long long)chunks);
	uint64_t section = (atomic_load_explicit(&p->ticket, memory_order_relaxed) >> 32) + 1;
	/* No chunk is left to claim, so the section may be rewritten; the ticket, stored last,
	 * publishes it. */
	atomic_store_explicit(&p->fn, fn, memory_order_relaxed);
	atomic_store_explicit(&p->ctx, ctx, memory_order_relaxed);
	atomic_store_explicit(&p->count, count, memory_order_relaxed);
	atomic_store_explicit(&p->grain, grain, memory_order_relaxed);
	atomic_store_explicit(&p->chunks, (uint32_t)chunks, memory_order_relaxed);
	atomic_store_explicit(&p->finished, 0, memory_order_relaxed);
	atomic_store(&p->ticket, section << 32 | (uint64_t)chunks);
	atomic_fetch_add(&p->wake, 1);
	if (atomic_load(&p->sleepers)) futex_wake(&p->wake, (int)MIN(chunks - 1, p->threads - 1));

	/* The caller takes chunks too, and then waits for those that workers still run. */
	run_chunks(p, 0);
	for (uint32_t done; (done = atomic_load(&p->finished)) != (uint32_t)chunks;) {
		if (spin_while(p, &p->finished, done)) continue;
		atomic_store(&p->caller_sleeps, 1);
		/* The count is looked at again after the announcement: the last worker may have missed
		 * it. */
		if (atomic_load(&p->finished) == done) futex_wait(&p->finished, done);
		atomic_store(&p->caller_sleeps, 0);
	}
}
