/* faults: runners on a GPU that is treated badly. Replays each tape of a folder (make_fixtures.py):
 * those that are right give input + 1 and leave their runner for the next, the others end in the
 * fault that the folder names, within their time, and cost the runner; right after each fault
 * another runner's replay is right again. Hundreds of right ones are then served by one runner.
 *
 *   faults RUNNER LEVEL DEVICE FOLDER
 */
#include "fixture.h"
#include <sys/mman.h>

#define N 1024
#define DEADLINE_MS 2000
#define GRACE_MS 5000
#define WARM_COUNT 900

static struct runner_pool *pool;
/* Of the last replay, in seconds: a runner from the pool, the load, the trial, giving it back. */
static double took[4];
static pid_t last_pid;
static struct fixtures all;
static int count, failed;

static void tell(bool ok, const char *what, const char *why)
{
	printf("%s %d - %s\n", ok ? "ok" : "not ok", ++count, what);
	if (why[0]) printf("# %s\n", why);
	failed += !ok;
	fflush(stdout);
}

/* The fault's code, "ok", "wrong" or how the runner was lost; *seconds from load to answer. */
static void replay(const char *name, char *said, size_t len, double *seconds)
{
	struct fixture f;
	struct runner_fault fault = {0};
	struct runner_loaded loaded;
	struct runner_result result = {0};
	struct runner r = {0};
	struct err err = {0};
	float input[N], *output;
	for (int i = 0; i < N; i++) input[i] = (float)i;
	fixture_open(&all, name, sizeof input, &f);
	int given = memory_of(input, sizeof input);

	/* A runner from the pool, the load, one trial. */
	uint64_t asked = clock_ns();
	int rc = runner_pool_take(pool, &r, &err);
	CHECKF(!rc, "%s", err.text);
	last_pid = r.child.pid;
	uint64_t start = clock_ns(), end = start + (uint64_t)(DEADLINE_MS + GRACE_MS) * 1000000u;
	rc = runner_load(&r, &f.load, end, &loaded, &fault, &err);
	uint64_t is_loaded = clock_ns();
	struct runner_given x = {.bytes = sizeof input};
	struct runner_trial trial = {
		.ninputs = 1, .inputs = &x, .output_offset = {OUTPUT_OFFSET}, .deadline_ms = DEADLINE_MS};
	if (!rc) rc = runner_try(&r, &trial, 1, &(struct runner_data){given, f.outputs, NULL, NULL}, end, &result, &err);
	uint64_t has_run = clock_ns();
	*seconds = (double)(has_run - start) * 1e-9;
	if (!rc && result.has_fault) fault = result.fault;

	/* What came of it. */
	output = mmap(NULL, OUTPUT_OFFSET + sizeof input, PROT_READ, MAP_SHARED, f.outputs, 0);
	bool is_right = output != MAP_FAILED;
	for (int i = 0; i < N && is_right; i++)
		is_right = output[OUTPUT_OFFSET / sizeof *output + (size_t)i] == input[i] + 1;
	if (rc && rc != ERR_MISMATCH) snprintf(said, len, "the runner was lost: %.200s", err.text);
	else snprintf(said, len, "%s", fault.code[0] ? fault.code : is_right ? "ok" : "wrong");
	if (fault.code[0]) printf("# %s\n", fault.text);
	munmap(output, OUTPUT_OFFSET + sizeof input);
	r.is_tainted = rc || fault.code[0];
	uint64_t is_done = clock_ns();
	runner_give_back(pool, &r);
	const uint64_t spans[] = {start - asked, is_loaded - start, has_run - is_loaded, clock_ns() - is_done};
	for (int i = 0; i < 4; i++) took[i] = (double)spans[i] * 1e-9;
	runner_result_release(&result);
	fixture_close(&f);
	close(given);
}

/* One candidate after another in one process, all right. */
static void warm_tell(void)
{
	char said[256], why[400];
	double seconds = 0, sum[4] = {0};
	int right = 0, runners = 0;
	pid_t pid = 0;
	for (int i = 0; i < WARM_COUNT; i++) {
		replay(all.names[0], said, sizeof said, &seconds);
		right += !strcmp(said, "ok");
		runners += last_pid != pid;
		pid = last_pid;
		for (int k = 0; k < 4; k++) sum[k] += took[k] / WARM_COUNT * 1e3;
	}
	snprintf(why, sizeof why,
		"%d of %d right, %d runners; in the mean taken %.3f, loaded %.3f, run %.3f, given back %.3f ms", right,
		WARM_COUNT, runners, sum[0], sum[1], sum[2], sum[3]);
	tell(right == WARM_COUNT && runners <= 2, "one runner serves many candidates", why);
}

int main(int argc, char **argv)
{
	if (argc != 5) {
		fprintf(stderr, "usage: faults RUNNER LEVEL DEVICE FOLDER\n");
		return 2;
	}
	struct runner_device device;
	uint64_t start = clock_ns();
	fixtures_open(argv, (int64_t)1 << 30, 2, &all, &pool, &device);
	printf("# %s, capability %d, %d SMs, driver %d; first runner after %.3f s\n", device.name, device.capability,
		device.sms, device.driver, (double)(clock_ns() - start) * 1e-9);
	/* Each fixture has to end as its file says; behind a fault an honest one has to run at once. */
	for (int i = 0; i < all.count; i++) {
		struct str expect = {0};
		char said[256], why[400];
		double seconds = 0;
		fixture_read(&all, all.names[i], "expect", &expect);
		replay(all.names[i], said, sizeof said, &seconds);
		snprintf(why, sizeof why,
			"expected %s, found %s, after %.3f s (taken %.4f, loaded %.4f, run %.4f, given back %.4f)", expect.data,
			said, seconds, took[0], took[1], took[2], took[3]);
		tell(!strcmp(said, expect.data), all.names[i], why);
		if (strcmp(expect.data, "ok")) {
			runner_pool_refill(pool);
			uint64_t again = clock_ns();
			replay(all.names[0], said, sizeof said, &seconds);
			snprintf(why, sizeof why, "found %s, %.3f s after the fault", said, (double)(clock_ns() - again) * 1e-9);
			tell(!strcmp(said, "ok"), "the GPU is usable at once", why);
		}
		str_release(&expect);
	}
	warm_tell();
	printf("1..%d\n", count);
	runner_pool_free(pool);
	return failed != 0;
}
