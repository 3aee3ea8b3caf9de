/* A store that others use too: what a returned call promised is there after kill -9; processes and
 * threads share one file, and wait for each other at its door. */
#include "store/store_internal.h"
#include "store_folder.h"
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

/* Where a process has closed its standard input, the lock of the door is descriptor 0: it is
 * let go like any other. */
static void test_door_is_descriptor_zero(void **state)
{
	char *path = path_join(folder, "zero.db");
	pid_t pid = fork();
	if (pid == 0) {
		struct store *s = NULL;
		struct err err = {0};
		close(0);
		if (store_open(path, &s, &err)) _exit(1);
		if (fcntl(0, F_GETFD) != -1) _exit(2);
		store_close(s);
		_exit(fcntl(0, F_GETFD) != -1 ? 3 : 0);
	}
	int status = 0;
	assert_true(pid > 0 && waitpid(pid, &status, 0) == pid);
	assert_int_equal(status, 0);
	free(path);
}

/* Who has to wait at the door waits on where a signal comes; a door that
 * cannot be locked is told. */
static volatile sig_atomic_t signals;
static int go[2]; /* the twentieth signal opens the door */
static void count_signal(int signal)
{
	if (++signals == 20 && write(go[1], "x", 1) != 1) abort();
}

static void test_signals_at_the_door(void **state)
{
	char *path = path_join(folder, "door.db"), *lock = xasprintf("%s-lock", path);
	int fds[2];
	store_close(open_or_fail(path));
	assert_int_equal(pipe(fds) | pipe(go), 0);
	pid_t pid = fork();
	if (pid == 0) {
		int door = open(lock, O_RDWR);
		char c;
		_exit(door < 0 || flock(door, LOCK_EX) || write(fds[1], "x", 1) != 1 || read(go[0], &c, 1) != 1);
	}
	char c;
	assert_int_equal(read(fds[0], &c, 1), 1);
	/* Without SA_RESTART a call that waits ends with EINTR. */
	struct sigaction old, act = {.sa_handler = count_signal};
	struct itimerval often = {{0, 5000}, {0, 5000}}, never = {{0, 0}, {0, 0}};
	assert_int_equal(sigaction(SIGALRM, &act, &old), 0);
	signals = 0;
	assert_int_equal(setitimer(ITIMER_REAL, &often, NULL), 0);
	struct store *s = NULL;
	struct err err = {0};
	int rc = store_open(path, &s, &err);
	assert_int_equal(setitimer(ITIMER_REAL, &never, NULL), 0);
	assert_int_equal(sigaction(SIGALRM, &old, NULL), 0);
	if (rc) fail_msg("%s", err.text);
	assert_true(signals >= 20);
	store_close(s);
	int status = 1;
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	for (int i = 0; i < 2; i++) close(fds[i]), close(go[i]);
	free(path);
	free(lock);
	/* No folder: no door. */
	path = path_join(folder, "missing/door.db");
	assert_int_equal(store_open(path, &s, &err), ERR_IO);
	if (!strstr(err.text, "missing/door.db-lock")) fail_msg("%s", err.text);
	free(path);
}

/* A writer reports each finished write over a pipe and is killed at an arbitrary one: everything
 * reported must be there, and the file must open. */
static void test_kill_in_the_middle_of_writes(void **state)
{
	char *path = path_join(folder, "kill.db");
	store_close(open_or_fail(path));
	int64_t done = -1;
	/* Each round begins where the last was killed. */
	for (int round = 0; round < 5; round++) {
		int fds[2];
		assert_int_equal(pipe(fds), 0);
		pid_t pid = fork();
		/* The writer says a number only once its write has returned. */
		if (pid == 0) {
			struct store *s = NULL;
			struct err err = {0};
			if (store_open(path, &s, &err)) _exit(3);
			char key[32], value[3000];
			memset(value, 'x', sizeof value);
			for (int64_t i = done + 1; i < done + 100000; i++) {
				snprintf(key, sizeof key, "%lld", (long long)i);
				if (store_put(s, "verdict", key, value, sizeof value, &err) || write(fds[1], &i, sizeof i) != sizeof i)
					_exit(4);
			}
			_exit(0);
		}
		close(fds[1]);
		int64_t last = done;
		/* Killed after a number of writes that differs by round; what it said until then is read
		 * out. */
		for (int i = 0; i < 7 + 13 * round; i++) assert_int_equal(read(fds[0], &last, sizeof last), sizeof last);
		kill(pid, SIGKILL);
		int status = 0;
		waitpid(pid, &status, 0);
		assert_true(WIFSIGNALED(status));
		while (read(fds[0], &last, sizeof last) == sizeof last) continue;
		close(fds[0]);
		done = last;
	}
	/* Every write that was reported is there and whole. */
	struct store *s = open_or_fail(path);
	struct err err = {0};
	struct str out = {0};
	for (int64_t i = 0; i <= done; i++) {
		char key[32];
		snprintf(key, sizeof key, "%lld", (long long)i);
		if (store_get(s, "verdict", key, &out, &err))
			fail_msg("write %lld of %lld had returned and is lost: %s", (long long)i, (long long)done, err.text);
		assert_int_equal(out.len, 3000);
	}
	store_close(s);
	str_release(&out);
	free(path);
}

/* A transaction that was not committed leaves nothing. */
static void test_kill_inside_a_transaction(void **state)
{
	char *path = path_join(folder, "transaction.db");
	store_close(open_or_fail(path));
	pid_t pid = fork();
	/* The child dies with fifty writes that it has not committed. */
	if (pid == 0) {
		struct store *s = NULL;
		struct err err = {0};
		if (store_open(path, &s, &err) || store_begin(s, &err)) _exit(3);
		for (int i = 0; i < 50; i++) store_put(s, "compile", i % 2 ? "a" : "b", "1", 1, &err);
		kill(getpid(), SIGKILL);
	}
	int status = 0;
	waitpid(pid, &status, 0);
	assert_true(WIFSIGNALED(status));
	/* None of them is there, and the next transaction is not held up. */
	struct store *s = open_or_fail(path);
	struct str out = {0};
	assert_int_equal(store_get(s, "compile", "a", &out, NULL), ERR_NOT_FOUND);
	struct err err = {0};
	assert_int_equal(store_begin(s, &err), 0);
	assert_int_equal(store_put(s, "compile", "a", "1", 1, &err), 0);
	assert_int_equal(store_commit(s, &err), 0);
	assert_int_equal(store_get(s, "compile", "a", &out, &err), 0);
	store_close(s);
	str_release(&out);
	free(path);
}

static int write_rows(const char *path, int process, int rows)
{
	struct store *s = NULL;
	struct err err = {0};
	int rc = store_open(path, &s, &err);
	for (int i = 0; i < rows && !rc; i++) {
		char key[32];
		snprintf(key, sizeof key, "%d-%d", process, i);
		rc = store_put(s, "verdict", key, key, strlen(key), &err);
	}
	if (rc) fprintf(stderr, "%s\n", err.text);
	store_close(s);
	return rc;
}

static void share_a_file(const char *path, int processes, int rows)
{
	pid_t pids[16];
	for (int p = 0; p < processes; p++) {
		pids[p] = fork();
		if (pids[p] == 0) _exit(write_rows(path, p, rows) != 0);
	}
	for (int p = 0; p < processes; p++) {
		int status = 0;
		waitpid(pids[p], &status, 0);
		assert_int_equal(status, 0);
	}
	struct store *s = open_or_fail(path);
	struct str out = {0};
	for (int p = 0; p < processes; p++)
		for (int i = 0; i < rows; i++) {
			char key[32];
			snprintf(key, sizeof key, "%d-%d", p, i);
			assert_int_equal(store_get(s, "verdict", key, &out, NULL), 0);
			assert_string_equal(out.data, key);
		}
	store_close(s);
	str_release(&out);
}

/* Processes create the file at once and write to it; none fails and no row is lost. Many rounds
 * with few rows, because the dangerous moments are the first opening and the last closing. */
static void test_processes_share_a_file(void **state)
{
	for (int round = 0; round < 40; round++) {
		char name[32];
		snprintf(name, sizeof name, "shared-%d.db", round);
		char *path = path_join(folder, name);
		share_a_file(path, round ? 8 : 4, round ? 2 : 40);
		free(path);
	}
}

/* Another thread's try for the store's lock. */
static void *try_lock(void *arg)
{
	struct store *s = arg;
	int rc = pthread_mutex_trylock(&s->lock);
	if (!rc) pthread_mutex_unlock(&s->lock);
	return (void *)(intptr_t)rc;
}

static bool is_free(struct store *s)
{
	pthread_t thread;
	void *rc = NULL;
	assert_int_equal(pthread_create(&thread, NULL, try_lock, s), 0);
	assert_int_equal(pthread_join(thread, &rc), 0);
	return rc == NULL;
}

/* Every call lets the store go, whether it succeeds or not, and only a transaction keeps it. */
static void test_calls_let_go(void **state)
{
	char *path = path_join(folder, "lock.db"), *folderless = path_join(folder, "none/x.db");
	struct store *s = open_or_fail(path);
	struct err err = {0};
	struct str out = {0};
	json_t *runs = NULL, *row = json_object();
	int64_t run = 0;
	/* With tables, and then without them, where every call fails. */
	for (int round = 0; round < 2; round++) {
		bool fails = round == 1;
#define LETS_GO(call) \
	do { \
		assert_int_equal((call) != 0, fails); \
		assert_true(is_free(s)); \
	} while (0)
		LETS_GO(store_put(s, "verdict", "k", "data", 4, &err));
		LETS_GO(store_get(s, "verdict", "k", &out, &err));
		LETS_GO(store_run_open(s, "a", row, &run, &err));
		LETS_GO(store_metrics_put(s, run, 1, row, &err));
		LETS_GO(store_sample_put(s, run, 1, 0, row, &err));
		LETS_GO(store_metrics_each(s, run, stop_at_two, &(int){0}, &err));
		LETS_GO(store_samples_each(s, run, stop_at_two, &(int){0}, &err));
		LETS_GO(store_run_truncate(s, run, 0, &err));
		LETS_GO(store_runs(s, &runs, &err));
		assert_int_equal(store_begin(s, &err), 0);
		assert_false(is_free(s));
		/* A transaction in a transaction is refused, and takes nothing with it. */
		assert_int_equal(store_begin(s, &err), ERR_IO);
		assert_false(is_free(s));
		assert_int_equal(store_commit(s, &err), 0);
		assert_true(is_free(s));
		if (!fails) json_decref(runs);
		if (!fails) sql(path, "DROP TABLE cache; DROP TABLE metrics; DROP TABLE samples; DROP TABLE runs");
#undef LETS_GO
	}
	store_close(s);
	/* A store that cannot be opened leaves standard input alone. */
	assert_int_equal(store_open(folderless, &s, &err), ERR_IO);
	assert_true(fcntl(0, F_GETFD) >= 0);
	json_decref(row);
	str_release(&out);
	free(path);
	free(folderless);
}

int main(void)
{
	cmocka_set_message_output(CM_OUTPUT_TAP);
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_door_is_descriptor_zero),
		cmocka_unit_test(test_signals_at_the_door),
		cmocka_unit_test(test_kill_in_the_middle_of_writes),
		cmocka_unit_test(test_kill_inside_a_transaction),
		cmocka_unit_test(test_processes_share_a_file),
		cmocka_unit_test(test_calls_let_go),
	};
	return cmocka_run_group_tests(tests, folder_make, folder_remove);
}
