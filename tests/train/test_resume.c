/* kill -9 at any moment, run again: the same bytes. A child process trains; the parent kills it
 * after a random time, starts it again, and so on until it has finished; the last checkpoint and
 * the best weights must be those of a run that nobody touched. The parent never starts a thread, so
 * that forking is safe. */
#include "sft_run_ref.h"

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

enum { KILLS_MAX = 40 };

static int train(const char *device, const char *dir, bool with_adapter)
{
	struct sft_setup s;
	struct err err = {0};
	struct sft_options o = sft_options_make(dir);
	o.num_train_epochs = 16;
	o.save_steps = 2;
	o.stop_at_eval_minimum = true;
	o.patience = 100;
	sft_setup_on(&s, device, with_adapter);
	int rc = sft_setup_run(&s, &o, NULL, NULL, &err);
	if (rc) fprintf(stderr, "%s\n", err.text);
	return rc ? 1 : 0;
}

static pid_t start(const char *device, const char *dir, bool with_adapter)
{
	fflush(NULL);
	pid_t pid = fork();
	assert_true(pid >= 0);
	if (!pid) _exit(train(device, dir, with_adapter));
	return pid;
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

/* True when it ended by itself within that time, else it was killed. With `dir` the time counts
 * from when a checkpoint newer than `last` lies there. */
static bool ended(pid_t pid, int limit_ms, const char *dir, int last)
{
	int status;
	for (int ms = 0, waited = 0; ms < limit_ms && waited < 60000; waited += 2, sleep_ms(2)) {
		if (waitpid(pid, &status, WNOHANG) == pid) {
			assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
			return true;
		}
		if (dir && newest_checkpoint(dir) > last) dir = NULL;
		if (!dir) ms += 2;
	}
	kill(pid, SIGKILL);
	assert_true(waitpid(pid, &status, 0) == pid);
	if (WIFEXITED(status)) {
		assert_int_equal(WEXITSTATUS(status), 0);
		return true;
	}
	return false;
}

static void kill_case(const char *device, bool with_adapter)
{
	char *whole = sft_folder("unkilled"), *parts = sft_folder("killed");
	uint64_t begin = clock_ns();
	bool is_cpu = !strcmp(device, "cpu");
	/* The run that is not killed, which also says how long one takes. */
	assert_true(ended(start(device, whole, with_adapter), 60000, NULL, 0));
	int whole_ms = (int)((clock_ns() - begin) / 1000000), kills = 0, moved = 0, last = -1;
	struct rng rng = {.seed = begin}; /* moments differ from run to run: every one must do */
	/* The other is killed at random moments until it ends by itself; `moved` counts the starts that
	 * came further. */
	for (bool done = false; !done;) {
		/* After so many, or so long, it is left to finish. Most of a GPU's run is its start, which
		 * takes longer the first time than later: there a part is killed soon after it has made a
		 * checkpoint. */
		bool is_final = kills >= (is_cpu ? KILLS_MAX : 4) || (is_cpu && clock_ns() - begin > 12ull * 1000000000);
		int least = is_cpu ? 10 : 2, range = is_cpu ? MAX(whole_ms / 6, 50) : 100;
		pid_t pid = start(device, parts, with_adapter);
		if (is_final) done = ended(pid, 60000, NULL, 0);
		else done = ended(pid, least + (int)rng_below(&rng, (uint32_t)range), is_cpu ? NULL : parts, last);
		kills += !done;
		moved += newest_checkpoint(parts) > last;
		last = newest_checkpoint(parts);
	}
	print_message("# %s, adapter %d: %d kills, %d of the parts made a checkpoint, last is %d\n", device, with_adapter,
		kills, moved, last);
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
static void test_killed_weights(void **state) { kill_case("cpu", false); }
static void test_killed_adapter(void **state) { kill_case("cpu", true); }

/* The driver does not survive a fork: the GPU is looked for in a child, and used in others. */
static void test_killed_on_gpu(void **state)
{
	int status;
	fflush(NULL);
	pid_t pid = fork();
	if (!pid) {
		struct ops *ops;
		struct err err = {0};
		int rc = ops_open("cuda", &(struct ops_options){.cuda_libs = getenv("HONE_CUDA_LIBS")}, &ops, &err);
		if (rc) fprintf(stderr, "# device cuda is skipped: %s\n", err.text);
		_exit(rc != 0);
	}
	assert_true(pid > 0 && waitpid(pid, &status, 0) == pid);
	if (status && getenv("HONE_REQUIRE_GPU")) fail_msg("there is no GPU");
	if (status) skip();
	kill_case("cuda", true);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_killed_weights),
		cmocka_unit_test(test_killed_adapter),
		cmocka_unit_test(test_killed_on_gpu),
	};
	cmocka_set_message_output(CM_OUTPUT_TAP);
	if (argc > 1) cmocka_set_test_filter(argv[1]); /* one test by its name */
	return cmocka_run_group_tests(tests, NULL, NULL);
}
