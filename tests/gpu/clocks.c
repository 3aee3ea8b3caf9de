/* clocks: how well a GPU's runner tells time. Each fixture of a folder (make_fixtures.py, timed)
 * is a tape of one kernel.
 *
 *   clocks RUNNER LEVEL DEVICE FOLDER times OUT
 *   clocks RUNNER LEVEL DEVICE FOLDER same [REPEATS [NAME...]]
 *
 * `times` writes one JSON object a fixture: its span's middle and interval, of 31 spans.
 *
 * `same` measures each fixture against itself: two series of 30 spans, turn by turn, and the
 * quotient of their middles, 50 times. 95 of 100 quotients must lie within 0.5 % of one where a
 * span takes 50 us and more, and within 2 % below that. TAP, and the figures in comments.
 *
 * The GPU's lock is held alone while something is timed, as the verifier does: an engine of hone's
 * that lives on the same GPU is parked then. */
#include "fixture.h"
#include "verify/gpu_lock.h"
#include "verify/measure.h"
#include <math.h>
#include <sys/mman.h>

#define DEADLINE_MS 20000
#define SPANS 30
#define LONE_SPANS 31
#define LONG_S 50e-6
#define LONG_SHARE 0.005
#define SHORT_SHARE 0.02

#define LOCK_MS 60000

static struct runner_pool *pool;
static struct runner_device device;
static struct fixtures all;
static int input_fd; /* as large as the largest input */
static int64_t input_bytes;

struct answers {
	int wanted, n;
	double *span;
	double empty;
};

static int next(void *ctx, int64_t ns, enum runner_clock *question, struct err *err)
{
	struct answers *a = ctx;
	if (a->n == 0) a->empty = 1e-9 * (double)ns; /* of the first question; 0 before it */
	if (a->n > 0 && a->n <= a->wanted) a->span[a->n - 1] = 1e-9 * (double)ns;
	*question = a->empty <= 0 ? RUNNER_EMPTY : a->n < a->wanted ? RUNNER_SPAN : RUNNER_END;
	a->n += *question != RUNNER_EMPTY;
	return 0;
}

/* Numbers that a compression of zeros does not help. */
static void input_make(int64_t bytes)
{
	struct err err = {0};
	input_fd = memfd_make("input", (size_t)bytes, &err);
	CHECKF(input_fd >= 0, "%s", err.text);
	float *x = mmap(NULL, (size_t)bytes, PROT_READ | PROT_WRITE, MAP_SHARED, input_fd, 0);
	CHECK(x != MAP_FAILED);
	uint32_t state = 12345;
	for (int64_t i = 0; i < bytes / 4; i++) {
		state = state * 1664525u + 1013904223u;
		x[i] = (float)(state >> 8) * 0x1p-24f;
	}
	munmap(x, (size_t)bytes);
	input_bytes = bytes;
}

/* Spans of one fixture. */
static void measure(const char *name, struct answers *a)
{
	struct fixture f;
	struct runner_fault fault = {0};
	struct runner_loaded loaded;
	struct runner_result result = {0};
	struct runner r = {0};
	struct err err = {0};
	json_t *t = NULL;
	struct str tape = {0};
	fixture_read(&all, name, "tape.json", &tape);
	CHECK(!json_parse(tape.data, tape.len, "tape", &t, &err));
	const json_t *buffers = json_object_get(t, "buffers");
	int64_t in = json_integer_value(json_object_get(json_array_get(buffers, 0), "bytes")),
			out = json_integer_value(json_object_get(json_array_get(buffers, 1), "bytes"));
	CHECKF(in <= input_bytes, "%s has a larger input than was made", name);
	fixture_open(&all, name, out + OUTPUT_OFFSET, &f);

	/* One timed trial. */
	uint64_t end = clock_ns() + (uint64_t)DEADLINE_MS * 1000000u;
	CHECKF(!runner_pool_take(pool, &r, &err), "%s", err.text);
	CHECKF(!runner_load(&r, &f.load, end, &loaded, &fault, &err), "%s: %s %s", name, fault.text, err.text);
	struct runner_given x = {.bytes = in};
	struct runner_trial trial = {
		.ninputs = 1, .inputs = &x, .output_offset = {OUTPUT_OFFSET}, .deadline_ms = DEADLINE_MS, .is_timed = true};
	struct runner_asker asker = {next, a};
	int lock = -1;
	a->n = 0;
	a->empty = 0;
	a->span = xcalloc((size_t)a->wanted + 1, sizeof *a->span);
	CHECKF(!gpu_lock_take(NULL, device.uuid, true, LOCK_MS, &lock, &err), "%s", err.text);
	end = clock_ns() + (uint64_t)DEADLINE_MS * 1000000u;
	CHECKF(!runner_try(&r, &trial, 1, &(struct runner_data){input_fd, f.outputs, NULL, &asker}, end, &result, &err),
		"%s: %s", name, err.text);
	gpu_lock_release(lock);
	CHECKF(!result.has_fault && !result.untimed[0], "%s: %s %s", name, result.fault.text, result.untimed);
	runner_give_back(pool, &r);
	runner_result_release(&result);
	json_decref(t);
	str_release(&tape);
	fixture_close(&f);
}

static int times(const char *path)
{
	FILE *f = fopen(path, "w");
	CHECKF(f, "cannot write %s", path);
	for (int i = 0; i < all.count; i++) {
		struct answers a = {.wanted = LONE_SPANS};
		measure(all.names[i], &a);
		struct verdict_measure m = measure_middle(a.span, LONE_SPANS);
		json_t *spans = json_array();
		for (int k = 0; k < LONE_SPANS; k++) json_array_append_new(spans, json_real(a.span[k]));
		json_t *o = json_pack("{s:s, s:f, s:f, s:f, s:f, s:o}", "name", all.names[i], "span_s", m.value, "low_s", m.low,
			"high_s", m.high, "empty_s", a.empty, "spans", spans);
		json_dumpf(o, f, JSON_COMPACT | JSON_SORT_KEYS);
		fputc('\n', f);
		json_decref(o);
		free(a.span);
	}
	return fclose(f) != 0;
}

/* Even spans against odd ones, so many times. */
static bool same(int index, const char *name, int repeats)
{
	struct answers a = {.wanted = 2 * SPANS * repeats};
	measure(name, &a);
	int within = 0;
	double worst = 0, sum = 0;
	double *off = xcalloc((size_t)repeats, sizeof *off);
	for (int k = 0; k < repeats; k++) sum += measure_median((double[]){a.span[2 * SPANS * k]}, 1).value / repeats;
	double bound = sum >= LONG_S ? LONG_SHARE : SHORT_SHARE;
	for (int k = 0; k < repeats; k++) {
		/* A B B A: both series have the same distance in time from what came before. */
		double x[2][SPANS];
		for (int i = 0; i < 2 * SPANS; i++) x[(i + 1) / 2 % 2][i / 2] = a.span[2 * SPANS * k + i];
		off[k] = fabs(measure_middle(x[0], SPANS).value / measure_middle(x[1], SPANS).value - 1);
		within += off[k] <= bound;
		worst = fmax(worst, off[k]);
	}
	struct verdict_measure m = measure_median(off, repeats);
	double ninth = off[repeats * 19 / 20];
	bool ok = within >= (int)ceil(0.95 * repeats);
	printf("%s %d - %s agrees with itself\n# about %.2f us (empty %.2f us): %d of %d within %.1f %%; median %.3f %%, "
		   "95th of 100 %.3f "
		   "%%, worst %.3f %%\n",
		ok ? "ok" : "not ok", index + 1, name, sum * 1e6, a.empty * 1e6, within, repeats, bound * 100, m.value * 100,
		ninth * 100, worst * 100);
	fflush(stdout);
	free(off);
	free(a.span);
	return ok;
}

int main(int argc, char **argv)
{
	if (argc < 6) {
		fprintf(stderr, "usage: clocks RUNNER LEVEL DEVICE FOLDER times OUT | same [REPEATS [NAME...]]\n");
		return 2;
	}
	fixtures_open(argv, (int64_t)8 << 30, 1, &all, &pool, &device);
	for (int i = 7; i < argc && !strcmp(argv[5], "same"); i++) all.names[i - 7] = argv[i];
	if (argc > 7 && !strcmp(argv[5], "same")) all.count = argc - 7;
	input_make((int64_t)256 << 20);
	int failed = 0, repeats = argc > 6 ? atoi(argv[6]) : 50;
	if (!strcmp(argv[5], "times")) failed = argc < 7 || times(argv[6]);
	else
		for (int i = 0; i < all.count; i++) failed += !same(i, all.names[i], repeats);
	if (strcmp(argv[5], "times")) printf("1..%d\n", all.count);
	runner_pool_free(pool);
	return failed != 0;
}
