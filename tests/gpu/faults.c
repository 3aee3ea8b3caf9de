/* faults: runners on a GPU that is treated badly. Replays each tape of a folder (make_fixtures.py):
 * those that are right give input + 1 and leave their runner for the next, the others end in the
 * fault that the folder names, within their time, and cost the runner; right after each fault
 * another runner's replay is right again. Hundreds of right ones are then served by one runner.
 *
 *   faults RUNNER LEVEL DEVICE FOLDER
 */
#include "base/base.h"
#include "sandbox/sandbox.h"
#include "verify/runner_pool.h"
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#define N 1024
#define DEADLINE_MS 2000
#define GRACE_MS 5000
#define FILE_MAX ((size_t)64 << 20)

#define WARM_COUNT 900

static struct runner_pool *pool;
/* Of the last replay, in seconds: a runner from the pool, the load, the trial, giving it back. */
static double took[4];
static pid_t last_pid;
static const char *folder;
static int count, failed;

static void tell(bool ok, const char *what, const char *why)
{
	printf("%s %d - %s\n", ok ? "ok" : "not ok", ++count, what);
	if (why[0]) printf("# %s\n", why);
	failed += !ok;
	fflush(stdout);
}

static void read_or_die(const char *name, const char *file, struct str *out)
{
	struct err err = {0};
	char *path = xasprintf("%s/%s/%s", folder, name, file);
	if (file_read(path, FILE_MAX, out, &err)) {
		printf("Bail out! %s\n", err.text);
		exit(1);
	}
	free(path);
}

static int memory_of(const void *data, size_t bytes)
{
	struct err err = {0};
	int fd = memfd_make("data", bytes, &err);
	CHECKF(fd >= 0 && pwrite(fd, data, bytes, 0) == (ssize_t)bytes, "a memory file of %zu bytes", bytes);
	return fd;
}

/* The fault's code, "ok", "wrong" or how the runner was lost; *seconds from load to answer. */
static void replay(const char *name, char *said, size_t len, double *seconds)
{
	struct str tape = {0}, list = {0}, data = {0};
	struct runner_binaries binaries = {0};
	struct runner_fault fault = {0};
	struct runner_loaded loaded;
	struct runner_result result = {0};
	struct runner r = {0};
	struct err err = {0};
	json_t *o = NULL;
	float input[N], *output;
	for (int i = 0; i < N; i++) input[i] = (float)i;
	read_or_die(name, "tape.json", &tape);
	read_or_die(name, "binaries.json", &list);
	read_or_die(name, "binaries.bin", &data);
	CHECK(!json_parse(list.data, list.len, "binaries", &o, &err));
	CHECK(!runner_binaries_parse(o, (int64_t)data.len, &binaries, &err));
	int given = memory_of(input, sizeof input), outputs = memfd_make("outputs", 64 + sizeof input, &err),
		image = memory_of(data.data, data.len);

	/* A runner from the pool, the load, one trial. */
	uint64_t asked = clock_ns();
	int rc = runner_pool_take(pool, &r, &err);
	CHECKF(!rc, "%s", err.text);
	last_pid = r.child.pid;
	uint64_t start = clock_ns(), end = start + (uint64_t)(DEADLINE_MS + GRACE_MS) * 1000000u;
	struct runner_load load = {
		.tape = tape.data, .len = tape.len, .count = 1, .binaries = binaries.binaries, .binaries_fd = image};
	rc = runner_load(&r, &load, end, &loaded, &fault, &err);
	uint64_t is_loaded = clock_ns();
	struct runner_given x = {.bytes = sizeof input};
	struct runner_trial trial = {.ninputs = 1, .inputs = &x, .output_offset = {64}, .deadline_ms = DEADLINE_MS};
	if (!rc) rc = runner_try(&r, &trial, 1, &(struct runner_data){given, outputs, NULL, NULL}, end, &result, &err);
	uint64_t has_run = clock_ns();
	*seconds = (double)(has_run - start) * 1e-9;
	if (!rc && result.has_fault) fault = result.fault;

	/* What came of it. */
	output = mmap(NULL, 64 + sizeof input, PROT_READ, MAP_SHARED, outputs, 0);
	bool is_right = output != MAP_FAILED;
	for (int i = 0; i < N && is_right; i++) is_right = output[16 + i] == input[i] + 1;
	if (rc && rc != ERR_MISMATCH) snprintf(said, len, "the runner was lost: %.200s", err.text);
	else snprintf(said, len, "%s", fault.code[0] ? fault.code : is_right ? "ok" : "wrong");
	if (fault.code[0]) printf("# %s\n", fault.text);
	munmap(output, 64 + sizeof input);
	r.is_tainted = rc || fault.code[0];
	uint64_t is_done = clock_ns();
	runner_give_back(pool, &r);
	const uint64_t spans[] = {start - asked, is_loaded - start, has_run - is_loaded, clock_ns() - is_done};
	for (int i = 0; i < 4; i++) took[i] = (double)spans[i] * 1e-9;
	runner_result_release(&result);
	free(binaries.binaries);
	json_decref(o);
	str_release(&tape);
	str_release(&list);
	str_release(&data);
	close(given);
	close(outputs);
	close(image);
}

static char *names[64];
static int nnames;

static int name_add(const char *name, void *ctx)
{
	if (nnames < 64) names[nnames++] = xstrdup(name);
	return 0;
}

static int name_compare(const void *a, const void *b) { return strcmp(*(char *const *)a, *(char *const *)b); }

/* One candidate after another in one process, all right. */
static void warm_tell(void)
{
	char said[256], why[400];
	double seconds = 0, sum[4] = {0};
	int right = 0, runners = 0;
	pid_t pid = 0;
	for (int i = 0; i < WARM_COUNT; i++) {
		replay(names[0], said, sizeof said, &seconds);
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
	struct err err = {0};
	struct runner_device device;
	/* One pool, as the verifier has it. */
	struct runner_pool_options o = {
		.path = argv[1], .device = argv[3], .memory_bytes = (int64_t)1 << 30, .spare = 2, .level = SANDBOX_NONE};
	while (o.level < SANDBOX_FULL && strcmp(sandbox_level_name(o.level), argv[2])) o.level++;
	folder = argv[4];
	uint64_t start = clock_ns();
	if (runner_pool_create(&o, &pool, &device, &err) || dir_each(folder, name_add, NULL, &err)) {
		printf("Bail out! %s\n", err.text);
		return 1;
	}
	printf("# %s, capability %d, %d SMs, driver %d; first runner after %.3f s\n", device.name, device.capability,
		device.sms, device.driver, (double)(clock_ns() - start) * 1e-9);
	qsort(names, (size_t)nnames, sizeof *names, name_compare);
	CHECKF(nnames > 0, "no fixture in %s", folder);
	/* Each fixture has to end as its file says; behind a fault an honest one has to run at once. */
	for (int i = 0; i < nnames; i++) {
		struct str expect = {0};
		char said[256], why[400];
		double seconds = 0;
		read_or_die(names[i], "expect", &expect);
		replay(names[i], said, sizeof said, &seconds);
		snprintf(why, sizeof why,
			"expected %s, found %s, after %.3f s (taken %.4f, loaded %.4f, run %.4f, given back %.4f)", expect.data,
			said, seconds, took[0], took[1], took[2], took[3]);
		tell(!strcmp(said, expect.data), names[i], why);
		if (strcmp(expect.data, "ok")) {
			runner_pool_refill(pool);
			uint64_t again = clock_ns();
			replay(names[0], said, sizeof said, &seconds);
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
