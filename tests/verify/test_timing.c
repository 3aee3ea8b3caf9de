/* What times on a GPU rest on, without one: intervals, the lock between processes, who else
 * is there, references that were timed before, the file of a GPU's peaks. What a real GPU
 * adds is make test-gpu's. */
#include "verify/calibrate.h"
#include "verify/choice_cache.h"
#include "verify/gpu_lock.h"
#include "verify/gpu_watch.h"
#include "verify/measure.h"
#include "verify/reference_cache.h"
#include "base/base.h"
#include "base/gpu_uuid.h"
#include <dlfcn.h>
#include <fcntl.h>
#include <math.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

/* ---- intervals ---- */

static double uniform(uint64_t i) { return ((double)rng_u32(7, 1, i) + 0.5) / 4294967296.0; }

/* A skewed distribution with a known median: what the interval promises, it holds,
 * for series as they are. */
static void test_intervals_hold(void **state)
{
	static const int sizes[] = {6, 9, 30, 60};
	for (size_t s = 0; s < ARRAY_LEN(sizes); s++) {
		int held = 0, n = sizes[s];
		const int series = 4000;
		double x[60], median = log(2); /* of -log(u) */
		for (int k = 0; k < series; k++) {
			for (int i = 0; i < n; i++) x[i] = -log(uniform((uint64_t)(k * 64 + i) + s * 1000000));
			struct verdict_measure m = measure_median(x, n);
			assert_true(m.low <= m.value && m.value <= m.high);
			held += m.low <= median && median <= m.high;
		}
		/* 95 % promised; four standard errors of 4,000 draws below it. */
		if (held < series * (0.95 - 4 * sqrt(0.95 * 0.05 / series)))
			fail_msg("n %d: %d of %d intervals hold the median", n, held, series);
	}
	double odd[] = {5, 1, 3}, even[] = {4, 1, 3, 2}, one[] = {7};
	assert_true(measure_median(odd, 3).value == 3 && measure_median(even, 4).value == 2.5);
	struct verdict_measure m = measure_median(one, 1);
	assert_true(m.low == 7 && m.value == 7 && m.high == 7);
	assert_true(isnan(measure_median(NULL, 0).value));
	struct verdict_measure q = measure_quotient((struct verdict_measure){6, 4, 8}, (struct verdict_measure){2, 1, 4});
	assert_true(q.value == 3 && q.low == 1 && q.high == 8);
	assert_true(isnan(measure_quotient((struct verdict_measure){1, 1, 1}, (struct verdict_measure){0, 0, 0}).value));
}

/* Of the middle: its true value is that of a series of a million; for a skewed distribution,
 * and for times that are one of two ticks. Tukey and McLaughlin's interval is not exact: 92
 * of 100 are asked for. */
static double draw(int kind, uint64_t i)
{
	double u = uniform(i);
	return kind == 0 ? 1 - 0.2 * log(u) : u < 0.5 ? 4.32 : 4.48;
}

static void test_middle_holds(void **state)
{
	const int many = 1000000, series = 3000;
	double *large = xcalloc((size_t)many, sizeof *large), x[60];
	static const int sizes[] = {30, 60};
	for (int kind = 0; kind < 2; kind++) {
		for (int i = 0; i < many; i++) large[i] = draw(kind, (uint64_t)i);
		double middle = measure_middle(large, many).value;
		for (size_t s = 0; s < ARRAY_LEN(sizes); s++) {
			int held = 0, n = sizes[s];
			for (int k = 0; k < series; k++) {
				for (int i = 0; i < n; i++) x[i] = draw(kind, (uint64_t)(k * 64 + i) + (s + 2) * 10000000);
				struct verdict_measure m = measure_middle(x, n);
				held += m.low <= middle && middle <= m.high;
			}
			if (held < series * 0.92) fail_msg("kind %d, n %d: %d of %d hold %g", kind, n, held, series, middle);
		}
	}
	free(large);
	/* One late value of thirty moves nothing. */
	for (int i = 0; i < 30; i++) x[i] = i == 7 ? 1000 : 5;
	assert_true(measure_middle(x, 30).value == 5 && measure_middle(x, 30).high == 5);
	double two[] = {1, 3};
	struct verdict_measure m = measure_middle(two, 2);
	assert_true(m.value == 2 && m.low == 1 && m.high == 3 && isnan(measure_middle(NULL, 0).value));
}

/* ---- the lock ---- */

static char folder[] = "/tmp/hone-locks-XXXXXX";

static int take(bool alone, int timeout_ms, int *fd)
{
	struct err err = {0};
	*fd = -1;
	return gpu_lock_take(folder, "GPU-here", alone, timeout_ms, fd, &err);
}

static void test_lock(void **state)
{
	int a, b, c;
	assert_int_equal(take(false, 0, &a), 0);
	assert_int_equal(take(false, 0, &b), 0);
	assert_int_equal(take(true, 5, &c), ERR_TIMEOUT);
	gpu_lock_release(a);
	assert_int_equal(take(true, 5, &c), ERR_TIMEOUT);
	gpu_lock_release(b);
	assert_int_equal(take(true, 5, &c), 0);
	assert_int_equal(take(false, 5, &a), ERR_TIMEOUT);
	assert_int_equal(take(true, 5, &a), ERR_TIMEOUT);
	gpu_lock_release(c);

	/* Another process waits to be alone: those who come later wait behind it; its end lets go. */
	assert_int_equal(take(false, 0, &a), 0);
	int ready[2];
	assert_int_equal(pipe(ready), 0);
	pid_t pid = fork();
	if (pid == 0) {
		gpu_lock_release(a);
		int rc = take(true, 20000, &b);
		_exit(rc || write(ready[1], "x", 1) != 1 || pause());
	}
	while (take(false, 0, &b) == 0) { /* until the other one is in the turnstile */
		gpu_lock_release(b);
		usleep(1000);
	}
	gpu_lock_release(a);
	char byte;
	assert_int_equal(read(ready[0], &byte, 1), 1);
	assert_int_equal(take(false, 20, &b), ERR_TIMEOUT);
	kill(pid, SIGKILL);
	assert_int_equal(waitpid(pid, NULL, 0), pid);
	assert_int_equal(take(true, 1000, &b), 0);
	gpu_lock_release(b);

	/* A link of the lock's name is nobody's lock. */
	struct err err = {0};
	char path[128];
	snprintf(path, sizeof path, "%s/hone-GPU-link.lock", folder);
	assert_int_equal(symlink("/dev/null", path), 0);
	assert_int_equal(gpu_lock_take(folder, "GPU-link", false, 0, &a, &err), ERR_IO);
	assert_non_null(strstr(err.text, path));
	/* Nor is a pipe of that name. */
	snprintf(path, sizeof path, "%s/hone-GPU-pipe.lock", folder);
	assert_int_equal(mkfifo(path, 0600), 0);
	assert_int_equal(gpu_lock_take(folder, "GPU-pipe", false, 0, &a, &err), ERR_IO);
	assert_non_null(strstr(err.text, path));
}

/* Where a process has closed its standard input, a lock is descriptor 0: it is
 * let go like any other. */
static void test_lock_is_descriptor_zero(void **state)
{
	int status = 0;
	pid_t pid = fork();
	if (pid == 0) {
		int fd;
		close(0);
		if (take(true, 0, &fd) || fd != 0) _exit(1);
		gpu_lock_release(fd);
		_exit(fcntl(0, F_GETFD) != -1 ? 2 : 0);
	}
	assert_true(pid > 0 && waitpid(pid, &status, 0) == pid);
	assert_int_equal(status, 0);
}

/* ---- others ---- */

static void *nvml;
static void say(const char *name) { ((void (*)(void))dlsym(nvml, name))(); }
static void late(unsigned n) { ((void (*)(unsigned))dlsym(nvml, "fake_late"))(n); }
static void process(unsigned pid) { ((void (*)(unsigned))dlsym(nvml, "fake_process"))(pid); }
static void sample(unsigned pid, unsigned long long at, unsigned sm)
{
	((void (*)(unsigned, unsigned long long, unsigned))dlsym(nvml, "fake_sample"))(pid, at, sm);
}

static void test_others(void **state)
{
	char path[4096], text[256];
	const char *build = getenv("BUILD");
	snprintf(path, sizeof path, "%s/tests/verify/libnvidia-ml.so.1", build ? build : "build/release");
	nvml = dlopen(path, RTLD_NOW);
	if (!nvml) fail_msg("%s", dlerror());
	assert_null(gpu_watch_open(path, "GPU-elsewhere", text, sizeof text));
	assert_non_null(strstr(text, "6"));
	assert_null(gpu_watch_open("/nowhere/libnvidia-ml.so.1", "GPU-here", text, sizeof text));
	struct gpu_watch *w = gpu_watch_open(path, "GPU-here", text, sizeof text);
	assert_non_null(w);
	struct gpu_seen seen;
	struct gpu_window window, later;
	unsigned self = (unsigned)getpid(), parent = (unsigned)getppid(), gone = 4000000;
	int told[2];
	assert_int_equal(pipe(told), 0);
	pid_t child = fork();
	if (child == 0) _exit(pause());

	/* Our own and our children's; then somebody else's, who only holds memory;
	 * then one who computes. */
	process(self);
	process((unsigned)child);
	sample(self, 10, 50);
	gpu_watch_begin(w, &window);
	sample((unsigned)child, 20, 90);
	gpu_watch_end(w, &window, 2, &seen);
	assert_true(seen.others == 0 && seen.activity == 0);
	process(parent);
	gpu_watch_end(w, &window, 2, &seen);
	assert_true(seen.others == 1 && seen.activity == 0);
	sample(parent, 5, 90); /* before the window */
	gpu_watch_end(w, &window, 2, &seen);
	assert_true(seen.activity == 0);
	sample(parent, 30, 90);
	gpu_watch_end(w, &window, 2, &seen);
	assert_true(seen.others == 1 && seen.activity == 1 && strstr(seen.text, "90"));
	gpu_watch_begin(w, &window);
	gpu_watch_end(w, &window, 2, &seen);
	assert_true(seen.activity == 0);
	/* Another thread's window begins before this one's end is looked at: what was seen in
	 * this one is this one's. */
	sample(parent, 35, 90);
	gpu_watch_begin(w, &later);
	gpu_watch_end(w, &window, 2, &seen);
	assert_true(seen.activity == 1);
	gpu_watch_end(w, &later, 2, &seen);
	assert_true(seen.activity == 0);

	/* The driver looks less often than a timing is long: what it sees first
	 * after the end counts. */
	gpu_watch_begin(w, &window);
	sample(parent, (unsigned long long)time(NULL) * 1000000 + 5000000, 90);
	late(3);
	gpu_watch_end(w, &window, 2, &seen);
	assert_true(seen.activity == 1);
	/* Where nobody else is there, nothing is waited for. */
	say("fake_clear");
	process(self);
	gpu_watch_begin(w, &window);
	sample(self, (unsigned long long)time(NULL) * 1000000 + 9000000, 90);
	late(3);
	gpu_watch_end(w, &window, 1, &seen);
	assert_true(seen.others == 0 && seen.activity == 0);
	assert_int_equal(((unsigned (*)(void))dlsym(nvml, "fake_late_left"))(), 2);

	/* A process of another hone, which is none of our children, keeps to the
	 * lock whatever it does. */
	pid_t between = fork(), named = 0;
	if (between == 0) {
		if (fork()) _exit(0);
		prctl(PR_SET_NAME, "hone-runner");
		named = getpid();
		_exit(write(told[1], &named, sizeof named) != sizeof named || pause());
	}
	waitpid(between, NULL, 0);
	assert_int_equal(read(told[0], &named, sizeof named), sizeof named);
	say("fake_clear");
	process((unsigned)named);
	gpu_watch_end(w, &window, 0, &seen);
	assert_true(seen.others == 0);
	kill(named, SIGKILL);

	/* Processes that cannot be found here: ours, as long as ours are not on the list. */
	say("fake_clear");
	process(gone);
	process(gone + 1);
	sample(gone, 40, 90);
	gpu_watch_end(w, &window, 2, &seen);
	assert_true(seen.others == 0 && seen.activity == 0);
	gpu_watch_end(w, &window, 1, &seen);
	assert_true(seen.others == 1);
	process(self);
	gpu_watch_end(w, &window, 1, &seen);
	assert_true(seen.others == 2 && seen.activity == 1);
	gpu_watch_end(NULL, &window, 1, &seen);
	assert_true(seen.others == -1 && seen.activity == -1);
	kill(child, SIGKILL);
	waitpid(child, NULL, 0);
	gpu_watch_close(w);
}

/* ---- references that were timed before ---- */

static void test_references(void **state)
{
	char path[64];
	struct err err = {0};
	struct store *store = NULL;
	struct runner_device d = {.name = "NVIDIA H200", .uuid = "GPU-1", .driver = 13000, .clock_khz = 1980000}, other = d;
	struct verdict_reference r = {.is_timed = true,
								 .agrees = true,
								 .is_gated = true,
								 .memory_bytes = 77,
								 .error_max = NAN,
								 .time_s = {3e-6, 2e-6, 4e-6},
								 .speedup = {NAN, NAN, NAN},
								 .wall_s = 1e-5,
								 .paper_s = 5e-6,
								 .speedup_wall = NAN,
								 .speedup_paper = NAN},
							 found;
	snprintf(path, sizeof path, "%s/store", folder);
	assert_int_equal(store_open(path, &store, &err), 0);
	struct reference_cache *c = reference_cache_create(store);
	json_t *shapes = json_pack("[{s:[i, i]}]", "shape", 4, 16), *drawn = json_pack("[{s:[i, i]}]", "shape", 4, 17);
	struct sha256_hex key = reference_key("task", shapes, REFERENCE_EAGER, &d, "torch 2");
	assert_false(reference_cache_get(c, &key, NAN, &found));
	reference_cache_put(c, &key, &r, 1e-4);
	/* From memory, then from the store alone. */
	for (int i = 0; i < 2; i++) {
		assert_true(reference_cache_get(c, &key, NAN, &found));
		assert_true(found.is_timed && found.is_gated && found.memory_bytes == 77 && found.time_s.low == 2e-6 &&
			isnan(found.error_max) && found.wall_s == 1e-5);
		assert_true(reference_cache_get(c, &key, 1.009e-4, &found) && !reference_cache_get(c, &key, 1.011e-4, &found));
		reference_cache_free(c);
		c = reference_cache_create(store);
	}

	/* Whatever a time depends on is another key. */
	struct runner_device slower = d, newer = d;
	snprintf(other.uuid, sizeof other.uuid, "GPU-2");
	slower.clock_khz = 1200000;
	newer.driver = 13010;
	const struct sha256_hex keys[] = {reference_key("task ", shapes, REFERENCE_EAGER, &d, "torch 2"),
		reference_key("task", drawn, REFERENCE_EAGER, &d, "torch 2"),
		reference_key("task", NULL, REFERENCE_EAGER, &d, "torch 2"),
		reference_key("task", shapes, REFERENCE_TF32, &d, "torch 2"),
		reference_key("task", shapes, REFERENCE_EAGER, &other, "torch 2"),
		reference_key("task", shapes, REFERENCE_EAGER, &slower, "torch 2"),
		reference_key("task", shapes, REFERENCE_EAGER, &newer, "torch 2"),
		reference_key("task", shapes, REFERENCE_EAGER, &d, "torch 3")};
	json_decref(shapes);
	json_decref(drawn);
	for (size_t i = 0; i < ARRAY_LEN(keys); i++) assert_false(reference_cache_get(c, &keys[i], NAN, &found));
	assert_true(reference_agrees(1.009e-4, 1e-4) && reference_agrees(0.991e-4, 1e-4));
	assert_false(reference_agrees(1.011e-4, 1e-4) || reference_agrees(0.989e-4, 1e-4) || reference_agrees(NAN, 1e-4));

	/* Another process times it again: what is in memory here is of another state of the GPU,
	 * and the store is asked. */
	assert_true(reference_cache_get(c, &key, NAN, &found));
	struct reference_cache *there = reference_cache_create(store);
	r.wall_s = 2e-5;
	reference_cache_put(there, &key, &r, 2e-4);
	reference_cache_free(there);
	assert_true(reference_cache_get(c, &key, 1e-4, &found) && found.wall_s == 1e-5);
	assert_true(reference_cache_get(c, &key, 2e-4, &found) && found.wall_s == 2e-5);
	reference_cache_free(c);
	store_close(store);
}

/* Threads that find nothing time a reference one at a time, and all but the first find what it put.
 * Where the first could not, nobody is held up any longer. */
struct crowd {
	struct reference_cache *cache;
	struct sha256_hex key;
	bool fails;
	atomic_int come;   /* threads that are about to claim */
	atomic_int timing; /* at this moment */
	atomic_int most;   /* at once, behind a claim */
	atomic_int timed;
	atomic_int free; /* told to go ahead without a claim */
};

static void *crowd_main(void *arg)
{
	struct crowd *c = arg;
	struct verdict_reference r = {.is_timed = true}, found;
	if (reference_cache_get(c->cache, &c->key, NAN, &found)) return NULL;
	atomic_fetch_add(&c->come, 1);
	bool is_claimed = reference_cache_claim(c->cache, &c->key);
	if (!is_claimed) atomic_fetch_add(&c->free, 1);
	if (is_claimed && !reference_cache_get(c->cache, &c->key, NAN, &found)) {
		int now = atomic_fetch_add(&c->timing, 1) + 1;
		if (now > atomic_load(&c->most)) atomic_store(&c->most, now);
		usleep(20000);
		atomic_fetch_add(&c->timed, 1);
		if (!c->fails) reference_cache_put(c->cache, &c->key, &r, 1e-4);
		atomic_fetch_sub(&c->timing, 1);
	}
	if (is_claimed) reference_cache_release(c->cache, &c->key);
	return NULL;
}

static void test_references_one_at_a_time(void **state)
{
	enum { THREADS = 8 };
	for (int fails = 0; fails < 2; fails++) {
		pthread_t threads[THREADS];
		struct crowd c = {.cache = reference_cache_create(NULL), .key = hash_bytes("task", 4), .fails = fails};
		/* The first has it before the others come. */
		assert_true(reference_cache_claim(c.cache, &c.key));
		for (int i = 0; i < THREADS; i++) assert_int_equal(pthread_create(&threads[i], NULL, crowd_main, &c), 0);
		while (atomic_load(&c.come) < THREADS) usleep(1000);
		usleep(100000);
		struct verdict_reference r = {.is_timed = true};
		if (!fails) reference_cache_put(c.cache, &c.key, &r, 1e-4);
		reference_cache_release(c.cache, &c.key);
		for (int i = 0; i < THREADS; i++) pthread_join(threads[i], NULL);
		/* Whoever comes later than the release claims it himself. */
		assert_true(atomic_load(&c.most) <= 1);
		assert_true(fails ? atomic_load(&c.free) > 0 : atomic_load(&c.timed) == 0 && atomic_load(&c.free) == 0);
		reference_cache_free(c.cache);
	}
}

/* ---- choices ---- */

static void test_choices(void **state)
{
	char path[64];
	struct err err = {0};
	struct store *store = NULL;
	struct runner_device d = {.name = "NVIDIA H200", .uuid = "GPU-1", .driver = 13000, .clock_khz = 1980000};
	struct sha256_hex programs[3] = {hash_bytes("a", 1), {""}, hash_bytes("b", 1)}, others[3], swapped[3];
	struct choice first = {2, 3e-6, 2e-6}, second = {0, 3e-6, 3e-6}, found;
	snprintf(path, sizeof path, "%s/choices", folder);
	assert_int_equal(store_open(path, &store, &err), 0);
	struct choice_cache *here = choice_cache_create(store), *there = choice_cache_create(store),
						*nowhere = choice_cache_create(NULL);
	struct sha256_hex key = choice_key("k(64)", programs, 3, &d, "triton 3");
	assert_false(choice_cache_get(here, &key, &found));

	/* The first that is kept stays, for another process too, which answers with it. */
	choice_cache_keep(here, &key, &first);
	choice_cache_keep(there, &key, &second);
	assert_true(second.config == 2 && second.chosen_s == 2e-6);
	assert_true(choice_cache_get(there, &key, &found) && found.config == 2 && found.first_s == 3e-6);
	assert_false(choice_cache_get(nowhere, &key, &found));
	second = (struct choice){0, 3e-6, 3e-6};
	choice_cache_keep(nowhere, &key, &second);
	assert_true(choice_cache_get(nowhere, &key, &found) && found.config == 0);

	/* Whatever a choice depends on is another key; which card of a kind it is, is not. */
	struct runner_device same = d, slower = d, memory = d, newer = d, less = d;
	snprintf(same.uuid, sizeof same.uuid, "GPU-2");
	slower.clock_khz = 1200000;
	memory.memory_clock_khz = 1;
	newer.driver = 13010;
	less.sms = 1;
	memcpy(others, programs, sizeof programs);
	others[1] = hash_bytes("c", 1);
	memcpy(swapped, programs, sizeof programs);
	swapped[0] = programs[2];
	swapped[2] = programs[0];
	const struct sha256_hex keys[] = {choice_key("k(65)", programs, 3, &d, "triton 3"),
		choice_key("k(64)", programs, 2, &d, "triton 3"), choice_key("k(64)", others, 3, &d, "triton 3"),
		choice_key("k(64)", swapped, 3, &d, "triton 3"), choice_key("k(64)", programs, 3, &slower, "triton 3"),
		choice_key("k(64)", programs, 3, &memory, "triton 3"), choice_key("k(64)", programs, 3, &newer, "triton 3"),
		choice_key("k(64)", programs, 3, &less, "triton 3"), choice_key("k(64)", programs, 3, &d, "triton 4")};
	for (size_t i = 0; i < ARRAY_LEN(keys); i++) assert_false(choice_cache_get(here, &keys[i], &found));
	struct sha256_hex again = choice_key("k(64)", programs, 3, &same, "triton 3");
	assert_string_equal(again.text, key.text);
	choice_cache_free(here);
	choice_cache_free(there);
	choice_cache_free(nowhere);
	store_close(store);
}

/* Processes that choose at once all end with one choice. */
static void test_choices_among_processes(void **state)
{
	enum { PROCESSES = 6 };
	char path[64];
	int told[2], chosen[PROCESSES], status;
	struct sha256_hex program = hash_bytes("program", 7);
	struct runner_device d = {.name = "NVIDIA H200"};
	struct sha256_hex key = choice_key("k", &program, 1, &d, "");
	snprintf(path, sizeof path, "%s/crowd", folder);
	assert_int_equal(pipe(told), 0);
	/* Each process has another choice and the same key; what it is left with it tells through the
	 * pipe. */
	for (int i = 0; i < PROCESSES; i++) {
		if (fork()) continue;
		struct err err = {0};
		struct store *store = NULL;
		struct choice own = {i, 3e-6, 2e-6};
		if (store_open(path, &store, &err)) _exit(2);
		choice_cache_keep(choice_cache_create(store), &key, &own);
		_exit(write(told[1], &own.config, sizeof own.config) != sizeof own.config);
	}
	for (int i = 0; i < PROCESSES; i++) {
		assert_true(wait(&status) > 0 && status == 0);
		assert_int_equal(read(told[0], &chosen[i], sizeof chosen[i]), sizeof chosen[i]);
		assert_int_equal(chosen[i], chosen[0]);
	}
	close(told[0]);
	close(told[1]);
}

/* ---- peaks ---- */

static void test_peaks(void **state)
{
	struct gpu_identity gpu = {.name = "NVIDIA H200", .uuid = "GPU-3", .driver = 13000, .clock_khz = 1}, other = gpu;
	struct gpu_peaks p = {4e12, 5e13, 4e14, 8e14}, q;
	struct err err = {0};
	setenv("XDG_CACHE_HOME", folder, 1);
	assert_int_equal(gpu_peaks_load(&gpu, &q, &err), ERR_NOT_FOUND);
	assert_non_null(strstr(err.text, "--calibrate"));
	assert_int_equal(gpu_peaks_save(&gpu, &p, &err), 0);
	assert_int_equal(gpu_peaks_load(&gpu, &q, &err), 0);
	assert_true(q.copy_bytes == 4e12 && q.fp32_flops == 5e13 && q.tf32_flops == 4e14 && q.bf16_flops == 8e14);
	other.driver = 12080;
	assert_int_equal(gpu_peaks_load(&other, &q, &err), ERR_MISMATCH);
	assert_true(q.copy_bytes == 0);
	char *path = gpu_peaks_path(gpu.uuid);
	assert_int_equal(file_write_atomic(path, "{\"machine\": {}}", 15, &err), 0);
	assert_int_not_equal(gpu_peaks_load(&gpu, &q, &err), 0);
	free(path);
	/* A folder that cannot be made is said. */
	setenv("XDG_CACHE_HOME", "/dev/null", 1);
	assert_int_not_equal(gpu_peaks_save(&gpu, &p, &err), 0);
	assert_non_null(strstr(err.text, "/dev/null"));
	char text[48];
	const unsigned char id[16] = {0, 1, 2, 3, 0x44, 0x55, 0x66, 0x77, 0x88, 0x99, 0xaa, 0xbb, 0xcc, 0xdd, 0xee, 0xff};
	gpu_uuid_text(id, "NVIDIA H200", text, sizeof text);
	assert_string_equal(text, "GPU-00010203-4455-6677-8899-aabbccddeeff");
	gpu_uuid_text(id, "NVIDIA A100-SXM4-40GB MIG 1g.5gb", text, sizeof text);
	assert_string_equal(text, "MIG-00010203-4455-6677-8899-aabbccddeeff");
}

static int set_up(void **state) { return mkdtemp(folder) ? 0 : -1; }
static int tear_down(void **state)
{
	char *argv[] = {(char *)(uintptr_t)"/bin/rm", (char *)(uintptr_t)"-rf", folder, NULL};
	struct child_options o = {.argv = argv, .stdout_fd = -1, .stderr_fd = -1};
	struct child child;
	return child_spawn(&child, &o, NULL) || child_wait(&child, 10000, NULL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_intervals_hold),
		cmocka_unit_test(test_middle_holds),
		cmocka_unit_test(test_lock),
		cmocka_unit_test(test_lock_is_descriptor_zero),
		cmocka_unit_test(test_others),
		cmocka_unit_test(test_references),
		cmocka_unit_test(test_references_one_at_a_time),
		cmocka_unit_test(test_choices),
		cmocka_unit_test(test_choices_among_processes),
		cmocka_unit_test(test_peaks),
	};
	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests_name("timing", tests, set_up, tear_down);
}
