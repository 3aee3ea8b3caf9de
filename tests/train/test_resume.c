/* kill -9 at any moment, run again: the same bytes. A child process trains; the parent kills it
 * after a random time, starts it again, and so on until it has finished; the last checkpoint and
 * the best weights must be those of a run that nobody touched. The parent never starts a thread, so
 * that forking is safe. */
#include "sft_run_ref.h"

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

enum { KILLS_MAX = 40 };

static int train(const char *dir, bool with_adapter)
{
	struct sft_setup s;
	struct err err = {0};
	struct sft_options o = sft_options_make(dir);
	o.num_train_epochs = 16;
	o.save_steps = 2;
	o.stop_at_eval_minimum = true;
	o.patience = 100;
	sft_setup_make(&s, with_adapter);
	int rc = sft_setup_run(&s, &o, NULL, NULL, &err);
	if (rc) fprintf(stderr, "%s\n", err.text);
	return rc ? 1 : 0;
}

static pid_t start(const char *dir, bool with_adapter)
{
	fflush(NULL);
	pid_t pid = fork();
	assert_true(pid >= 0);
	if (!pid) _exit(train(dir, with_adapter));
	return pid;
}

/* True when it ended by itself within that time, else it was killed. */
static bool ended(pid_t pid, int limit_ms)
{
	int status;
	for (int ms = 0; ms < limit_ms; ms += 2, sleep_ms(2)) {
		if (waitpid(pid, &status, WNOHANG) != pid) continue;
		assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
		return true;
	}
	kill(pid, SIGKILL);
	assert_true(waitpid(pid, &status, 0) == pid);
	if (WIFEXITED(status)) {
		assert_int_equal(WEXITSTATUS(status), 0);
		return true;
	}
	return false;
}

static int newest_checkpoint(const char *dir)
{
	struct listing l = {0};
	struct err err = {0};
	int newest = -1, step, end;
	if (!path_exists(dir)) return -1;
	assert_int_equal(dir_each(dir, listing_add, &l, &err), 0);
	for (int i = 0; i < l.n; i++)
		if (sscanf(l.names[i], "checkpoint-%d%n", &step, &end) == 1 && !l.names[i][end]) newest = MAX(newest, step);
	return newest;
}

static void kill_case(bool with_adapter)
{
	char *whole = sft_folder("unkilled"), *parts = sft_folder("killed");
	uint64_t begin = clock_ns();
	/* The run that is not killed, which also says how long one takes. */
	assert_true(ended(start(whole, with_adapter), 60000));
	int whole_ms = (int)((clock_ns() - begin) / 1000000), kills = 0, moved = 0, last = -1;
	struct rng rng = {.seed = begin}; /* moments differ from run to run: every one must do */
	/* The other is killed at random moments until it ends by itself; `moved` counts the starts that
	 * came further. */
	for (bool done = false; !done;) {
		bool is_final = kills >= KILLS_MAX || clock_ns() - begin > 12ull * 1000000000; /* enough: now let it finish */
		done = ended(
			start(parts, with_adapter), is_final ? 60000 : 10 + (int)rng_below(&rng, (uint32_t)MAX(whole_ms / 6, 50)));
		kills += !done;
		moved += newest_checkpoint(parts) > last;
		last = newest_checkpoint(parts);
	}
	print_message(
		"# adapter %d: %d kills, %d of the parts made a checkpoint, last is %d\n", with_adapter, kills, moved, last);
	/* Both ended at the same step, with the same bytes. */
	assert_true(kills > 0 && last > 0 && last == newest_checkpoint(whole));
	char *x = xasprintf("%s/checkpoint-%d", whole, last), *y = xasprintf("%s/checkpoint-%d", parts, last),
		 *p = path_join(whole, "best"), *q = path_join(parts, "best");
	assert_true(folders_equal(x, y));
	assert_true(folders_equal(p, q));
	free(x);
	free(y);
	free(p);
	free(q);
	free(whole);
	free(parts);
}
static void test_killed_weights(void **state) { kill_case(false); }
static void test_killed_adapter(void **state) { kill_case(true); }

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(test_killed_weights), cmocka_unit_test(test_killed_adapter)};
	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
