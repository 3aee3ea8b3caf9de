/* hone bench verify: how fast this machine grades. Each figure stands beside the bar that it is
 * held to, an H200 with 16 cores meant:
 *
 *   correctness   a small task with a kernel that nobody compiled before: the median of one after
 *                 another, and how many a second with all cores at work
 *   timing        the same with its time on the GPU and the reference's, whose own is known by then
 *   large task    an element-wise task of 6 GiB, its reference known; judged at the
 *                 sizes that the record names
 *   cache hits    verdicts that were given before
 *   alone         with several GPUs and --alone: correctness and timing with each of them on its
 *                 share of the cores, and with the first on all of them, and how many times as fast
 *                 all GPUs are. Only beside the shares is there a bar: where the cores decide how
 *                 many candidates a second are graded, another GPU that brings none adds nothing
 *   apart         with --alone, too: a program for each GPU and share, all at once. They have
 *                 nothing in common but the machine, so it is what the machine allows
 *
 * A figure is printed when it is known, and a series ends with its count or after --seconds, so
 * that a call with a limit of time leaves what it came to. Candidates differ in a constant inside
 * the kernel, so that no verdict and no compilation comes from a cache. */
#include "cli/bench.h"
#include "base/base.h"
#include "task/task.h"
#include "verify/verdict.h"
#include "verify/measure.h"
#include "verify/verify.h"
#include <errno.h>
#include <math.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define COLLECT_MS 100000
#define SERIES_KEPT 4096
#define OUTPUT_MAX 65536   /* of a program that prints its figures */
#define PROGRAM_MS 600000
#define SHARE_OF_EACH 0.95 /* of a GPU's speed that each of several has to add: two give 1.9 times one */

/* Values of the options below, whose help says what each is. */
struct bench_verify_options {
	const char *device;
	const char *sandbox;
	int64_t threads;
	int64_t single;
	int64_t many;
	int64_t large;
	int64_t timed;
	int64_t hits;
	int64_t seconds;
	bool alone;
	bool steps;
	bool allow_unsandboxed;
	bool json;
};

#define O(type, field, help, choices) { #field, type, offsetof(struct bench_verify_options, field), help, choices }
static const struct option_def defs[] = {
	O(OPTION_STR, device, "cuda, cuda:N, cuda:N,M: with those GPUs; cpu: the vm alone, nothing is timed", NULL),
	O(OPTION_STR, sandbox, "level; the strongest that works when empty", NULL),
	O(OPTION_BOOL, allow_unsandboxed, "accept level none", NULL),
	O(OPTION_INT, threads, "processors that grading keeps busy; 0: cores", "0 to 4096"),
	O(OPTION_INT, single, "candidates graded one after another", "1 to 100000"),
	O(OPTION_INT, many, "candidates graded side by side", "1 to 100000"),
	O(OPTION_INT, large, "candidates for the task of 6 GiB, one after another; 0: none", "0 to 100000"),
	O(OPTION_INT, timed, "candidates graded side by side and timed; 0: none", "0 to 100000"),
	O(OPTION_INT, hits, "verdicts asked for again", "1 to 10000000"),
	O(OPTION_INT, seconds, "after which a series begins nothing more; 0: it goes through", "0 to 100000"),
	O(OPTION_BOOL, alone, "with several GPUs: each alone too, with its share of the cores; in programs apart", NULL),
	O(OPTION_BOOL, steps, "behind each rate: where a verdict's time goes, step by step", NULL),
	O(OPTION_BOOL, json, "print one JSON object", NULL),
};

static const char SMALL[] =
	"import torch\nimport torch.nn as nn\nM = 16\nN = 1024\n\n\nclass Model(nn.Module):\n    def forward(self, x):\n"
	"        return torch.relu(x) * 2 + 1\n\n\n"
	"def get_inputs():\n    return [torch.randn(M, N)]\n\n\ndef get_init_inputs():\n    return []\n";
static const char LARGE[] =
	"import torch\nimport torch.nn as nn\nbatch_size = 4096\ndim = 393216\n\n\nclass Model(nn.Module):\n"
	"    def forward(self, x):\n        return torch.relu(x) * 2 + 1\n\n\n"
	"def get_inputs():\n    return [torch.rand(batch_size, dim)]\n\n\ndef get_init_inputs():\n    return []\n";

static char *candidate(int number)
{
	return xasprintf(
		"import torch\nimport torch.nn as nn\nimport triton\nimport triton.language as tl\n\n\n@triton.jit\n"
		"def relu_kernel(x, y, n, BLOCK: tl.constexpr):\n"
		"    i = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)\n    v = tl.load(x + i, mask=i < n)\n"
		"    tl.store(y + i, tl.maximum(v, 0.0) * 2 + 1 + %d * 1e-12, mask=i < n)\n\n\n"
		"class ModelNew(nn.Module):\n    def forward(self, x):\n        y = torch.empty_like(x)\n        n = "
		"x.numel()\n"
		"        relu_kernel[(triton.cdiv(n, 1024),)](x, y, n, BLOCK=1024)\n        return y\n",
		number);
}

enum figure {
	COLD,
	LATENCY,
	RATE,
	HIT_RATE,
	LARGE_LATENCY,
	TIMED_RATE,
	SHARE_RATE,
	SHARE_TIMED_RATE,
	TIMES_SHARE,
	TIMES_SHARE_TIMED,
	APART_RATE,
	TIMES_APART,
	ALONE_RATE,
	ALONE_TIMED_RATE,
	TIMES_ALONE,
	TIMES_ALONE_TIMED,
	FIGURES
};
struct bench {
	const struct bench_verify_options *o;
	int threads;
	int ngpus;       /* that the device names */
	int next;        /* number of the next candidate */
	int first;       /* of the last series */
	double *latency; /* of the last series */
	int nlatency;
	char sizes[256];            /* of the last verdict */
	char large_sizes[256];      /* at which the large task was judged */
	int untimed;                /* of the last series: verdicts without a time of the reference */
	struct verify_times before; /* where verdicts spent their time up to the last series, and with it */
	struct verify_times after;
	double value[FIGURES]; /* NaN: not known */
};

/* Grades `count` candidates, fewer where the time is up, at most `at_once` of them waiting for a
 * verdict; seconds, or an error. */
static int grade_series(struct bench *b, struct verifier *v, const struct task *task, int count, int at_once,
	double *seconds, struct err *err)
{
	int submitted = 0, rc = 0;
	verifier_times(v, &b->before);
	uint64_t start = clock_ns(), until = b->o->seconds ? start + (uint64_t)b->o->seconds * 1000000000u : UINT64_MAX;
	b->first = b->next;
	b->nlatency = b->untimed = 0;
	b->latency = xrealloc(b->latency, size_mul((size_t)count, sizeof *b->latency));
	while (b->nlatency < count && !rc) {
		if (clock_ns() > until) count = MIN(count, MAX(submitted, 1));
		/* Each candidate is a text of its own, so that no verdict is one that was kept. */
		for (; submitted < count && submitted - b->nlatency < at_once && !rc; submitted++) {
			char *source = candidate(b->next++);
			struct verify_request r = {.task = task, .source = source, .source_len = strlen(source), .id = submitted};
			rc = verifier_submit(v, &r, err);
			free(source);
		}
		struct verdict d;
		int64_t id = 0;
		if (!rc) rc = verifier_collect(v, COLLECT_MS, &id, &d, err);
		/* A series with a verdict of another kind measures something else. */
		if (!rc && (d.class != VERDICT_GENUINE || d.cached))
			rc = err_set(err, ERR_INFRA, "a candidate that is right was judged %s/%s: %.600s",
				verdict_class_name(d.class), d.reason, d.detail);
		if (rc) break;
		snprintf(b->sizes, sizeof b->sizes, "%s", d.sizes);
		b->untimed += !d.device.references[REFERENCE_EAGER].is_timed;
		b->latency[b->nlatency++] = d.seconds;
	}
	*seconds = (double)(clock_ns() - start) * 1e-9;
	verifier_times(v, &b->after);
	return rc;
}

/* The series of the last call once more: the same sources, so the same verdicts. */
static int grade_hits(
	struct bench *b, struct verifier *v, const struct task *task, int64_t hits, double *seconds, struct err *err)
{
	int n = b->nlatency, rc = 0;
	char **sources = xcalloc((size_t)n, sizeof *sources);
	for (int i = 0; i < n; i++) sources[i] = candidate(b->first + i);
	uint64_t start = clock_ns();
	for (int64_t i = 0; i < hits && !rc; i++) {
		const char *source = sources[i % n];
		struct verify_request r = {.task = task, .source = source, .source_len = strlen(source), .id = i};
		struct verdict d;
		int64_t id = 0;
		rc = verifier_submit(v, &r, err);
		if (!rc) rc = verifier_collect(v, COLLECT_MS, &id, &d, err);
		if (!rc && !d.cached) rc = err_set(err, ERR_INFRA, "a verdict that was given before was not kept");
	}
	*seconds = (double)(clock_ns() - start) * 1e-9;
	for (int i = 0; i < n; i++) free(sources[i]);
	free(sources);
	return rc;
}

/* ---- figures ---- */

static const struct {
	const char *key;   /* in --json */
	const char *title; /* for people */
	const char *unit;
	double bar;   /* in that unit; 0: none */
	bool is_most; /* the bar is the most that it may be */
} figures[FIGURES] = {
	[COLD] = {"cold_s", "from no process to the first verdict", "s", 0, true},
	[LATENCY] = {"correctness_median_s", "correctness of a small task, median", "s", 0.5, true},
	[RATE] = {"correctness_per_s", "correctness, all cores", "a second", 20, false},
	[HIT_RATE] = {"hits_per_s", "cache hits", "a second", 5000, false},
	[LARGE_LATENCY] = {"large_median_s", "element-wise task of 6 GiB, median", "s", 4, true},
	[TIMED_RATE] = {"timed_per_s", "with timing, all cores", "a second", 4, false},
	/* One GPU beside all; the bar is for each GPU. */
	[SHARE_RATE] = {"share_correctness_per_s", "a GPU on its share of the cores, mean", "a second", 0, false},
	[SHARE_TIMED_RATE] = {"share_timed_per_s", "the same, with timing", "a second", 0, false},
	[TIMES_SHARE] = {"times_share", "all GPUs and cores beside that", "times", SHARE_OF_EACH, false},
	[TIMES_SHARE_TIMED] = {"times_share_timed", "the same, with timing", "times", SHARE_OF_EACH, false},
	[APART_RATE] = {"apart_correctness_per_s", "programs apart, a GPU and its share each", "a second", 0, false},
	[TIMES_APART] = {"times_apart", "all of them beside a share", "times", 0, false},
	[ALONE_RATE] = {"alone_correctness_per_s", "the first GPU on all cores", "a second", 0, false},
	[ALONE_TIMED_RATE] = {"alone_timed_per_s", "the same, with timing", "a second", 0, false},
	[TIMES_ALONE] = {"times_alone", "all GPUs beside that", "times", 0, false},
	[TIMES_ALONE_TIMED] = {"times_alone_timed", "the same, with timing", "times", 0, false},
};

static double bar_of(const struct bench *b, enum figure f)
{
	return f == TIMES_SHARE || f == TIMES_SHARE_TIMED ? b->ngpus * figures[f].bar : figures[f].bar;
}

static bool is_met(const struct bench *b, enum figure f)
{
	return figures[f].is_most ? b->value[f] <= bar_of(b, f) : b->value[f] >= bar_of(b, f);
}

/* A figure is known: for people it is said at once. */
static void tell(struct bench *b, enum figure f, double value)
{
	b->value[f] = value;
	if (b->o->json || !isfinite(value)) return;
	printf("%-38s %10.4g %-9s", figures[f].title, value, figures[f].unit);
	if (figures[f].bar > 0)
		printf("  bar: %s %g: %s", figures[f].is_most ? "at most" : "at least", bar_of(b, f),
			is_met(b, f) ? "met" : "MISSED");
	putchar('\n');
	fflush(stdout);
}

/* Where a verdict of the last series spent its time, the waiting of the thread that graded it
 * included. */
static void tell_steps(const struct bench *b)
{
	if (!b->o->steps || b->o->json) return;
	double count = (double)(b->after.count - b->before.count);
	for (enum verify_step i = 0; i < VERIFY_STEP_COUNT && count > 0; i++)
		printf("  %-36s %10.1f ms\n", verify_step_name(i), 1e3 * (b->after.wall_s[i] - b->before.wall_s[i]) / count);
	fflush(stdout);
}

static void print_end(const struct bench *b)
{
	if (!b->o->json && b->large_sizes[0]) printf("the task of 6 GiB was judged at %s\n", b->large_sizes);
	if (!b->o->json) printf("%d threads; the bars are those of an H200 with 16 cores\n", b->threads);
	if (!b->o->json) return;
	json_t *o = json_object();
	for (int f = 0; f < FIGURES; f++)
		if (isfinite(b->value[f]))
			json_object_set_new(o, figures[f].key,
				figures[f].bar > 0
					? json_pack("{s:f, s:f, s:b}", "value", b->value[f], "bar", bar_of(b, f), "met", is_met(b, f))
					: json_pack("{s:f}", "value", b->value[f]));
	json_object_set_new(o, "threads", json_integer(b->threads));
	json_object_set_new(o, "large_sizes", json_string(b->large_sizes));
	json_dumpf(o, stdout, JSON_COMPACT | JSON_SORT_KEYS);
	putchar('\n');
	json_decref(o);
}

/* ---- series ---- */

static struct verify_options options_of(const struct bench *b, const char *device, bool is_timed)
{
	return (struct verify_options){.device = device,
		.sandbox = b->o->sandbox,
		.allow_unsandboxed = b->o->allow_unsandboxed,
		.threads = b->threads,
		.skip_timing = !is_timed,
		.references = is_timed ? "eager" : NULL,
		.comparison = "cached",
		/* A whole series can be asked for again. */
		.num_kept = (int)MAX(b->o->many, SERIES_KEPT)};
}

static struct task task_of(const char *name, const char *source)
{
	return (struct task){.name = (char *)(uintptr_t)name,
		.source = (char *)(uintptr_t)source,
		.hash = hash_bytes(source, strlen(source))};
}

/* What needs no time of a GPU's: the first verdict, others one after another and side by
 * side, known ones, large ones.
 */
static int measure_plain(struct bench *b, struct err *err)
{
	struct task small = task_of("small", SMALL), large = task_of("large", LARGE);
	struct verify_options o = options_of(b, b->o->device, false);
	struct verifier *v = NULL;
	double seconds = 0;
	uint64_t start = clock_ns();
	int rc = verifier_create(&o, &v, err);
	if (!rc) rc = grade_series(b, v, &small, 1, 1, &seconds, err);
	if (!rc) tell(b, COLD, (double)(clock_ns() - start) * 1e-9);
	/* Each thread has one that pays for its runner, whose context takes its time; then nobody
	 * starts anything, and each candidate is a kernel that has to be compiled. */
	if (!rc) rc = grade_series(b, v, &small, b->threads, b->threads, &seconds, err);
	if (!rc) rc = grade_series(b, v, &small, (int)b->o->single, 1, &seconds, err);
	if (!rc) tell(b, LATENCY, measure_median(b->latency, b->nlatency).value);
	if (!rc) rc = grade_series(b, v, &small, (int)b->o->many, 2 * b->threads, &seconds, err);
	if (!rc) tell(b, RATE, b->nlatency / seconds);
	if (!rc) tell_steps(b);
	if (!rc) rc = grade_hits(b, v, &small, b->o->hits, &seconds, err);
	if (!rc) tell(b, HIT_RATE, (double)b->o->hits / seconds);
	/* The large task, its reference known after the first. */
	bool has_large = b->o->large > 0;
	if (!rc && has_large) rc = grade_series(b, v, &large, 1, 1, &seconds, err);
	if (!rc && has_large) rc = grade_series(b, v, &large, (int)b->o->large, 1, &seconds, err);
	if (!rc && has_large) tell(b, LARGE_LATENCY, measure_median(b->latency, b->nlatency).value);
	if (!rc && has_large) snprintf(b->large_sizes, sizeof b->large_sizes, "%s", b->sizes);
	verifier_free(v);
	return rc;
}

/* How many of `count` a second, with a verifier of its own, when the other is gone: two start their
 * processes side by side otherwise, and each waits for the other's contexts. With times the first
 * candidate's session times the reference, which is kept for the others; then each thread has one
 * that pays for its runner. Without a GPU *rate is NaN. */
static int rate_measure(struct bench *b, const char *device, bool is_timed, int count, double *rate, struct err *err)
{
	struct task small = task_of("small", SMALL);
	struct verify_options o = options_of(b, device, is_timed);
	struct verifier *v = NULL;
	double seconds = 0;
	*rate = NAN;
	int rc = verifier_create(&o, &v, err);
	bool has_gpu = !rc && verifier_has_gpu(v);
	if (!rc && has_gpu) rc = grade_series(b, v, &small, 1, 1, &seconds, err);
	if (!rc && has_gpu) rc = grade_series(b, v, &small, b->threads, b->threads, &seconds, err);
	if (!rc && has_gpu) rc = grade_series(b, v, &small, count, 2 * b->threads, &seconds, err);
	if (!rc && has_gpu && is_timed && b->untimed)
		rc = err_set(
			err, ERR_INFRA, "%d of %d candidates have no time of the reference beside theirs", b->untimed, b->nlatency);
	if (!rc && has_gpu) *rate = b->nlatency / seconds;
	verifier_free(v);
	return rc;
}

/* ---- several GPUs ---- */

/* Figures without times, and with them. */
static const enum figure WHOLE[] = {RATE, TIMED_RATE}, SHARE[] = {SHARE_RATE, SHARE_TIMED_RATE},
						 BESIDE_SHARE[] = {TIMES_SHARE, TIMES_SHARE_TIMED}, ALONE[] = {ALONE_RATE, ALONE_TIMED_RATE},
						 BESIDE_ALONE[] = {TIMES_ALONE, TIMES_ALONE_TIMED};

/* "cuda:1" for the second of "cuda:0,1". */
static char *device_of(const char *list, int number)
{
	const char *p = list + strcspn(list, ":") + 1;
	for (; number && *p; p++) number -= *p == ',';
	return xasprintf("cuda:%.*s", (int)strcspn(p, ","), p);
}

/* Binds this thread, and all that it starts, to one of `count` equal shares of cores. */
static int share_take(const cpu_set_t *all, int number, int count, struct err *err)
{
	cpu_set_t share;
	int each = MAX(CPU_COUNT(all) / count, 1), left = each, skip = number * each;
	CPU_ZERO(&share);
	for (int cpu = 0; cpu < CPU_SETSIZE && left; cpu++) {
		if (!CPU_ISSET(cpu, all) || skip-- > 0) continue;
		CPU_SET(cpu, &share);
		left--;
	}
	return sched_setaffinity(0, sizeof share, &share)
		? err_set(err, ERR_IO, "share %d of %d of the cores: sched_setaffinity: %s", number, count, strerror(errno))
		: 0;
}

/* Each GPU on its share of the cores, one after the other. */
static int measure_shares(struct bench *b, const cpu_set_t *all, bool is_timed, struct err *err)
{
	double sum = 0, rate = NAN;
	int threads = b->threads, rc = 0;
	b->threads = MAX(threads / b->ngpus, 1);
	for (int i = 0; i < b->ngpus && !rc; i++) {
		char *device = device_of(b->o->device, i);
		rc = share_take(all, i, b->ngpus, err);
		if (!rc) rc = rate_measure(b, device, is_timed, (int)(is_timed ? b->o->timed : b->o->many), &rate, err);
		if (!rc && !b->o->json)
			printf("%s on share %d of the cores%s: %.4g a second\n", device, i, is_timed ? ", with timing" : "", rate);
		if (!rc) tell_steps(b);
		sum += rate;
		free(device);
	}
	b->threads = threads;
	if (!rc) rc = share_take(all, 0, 1, err);
	if (!rc) tell(b, SHARE[is_timed], sum / b->ngpus);
	if (!rc) tell(b, BESIDE_SHARE[is_timed], b->value[WHOLE[is_timed]] / b->value[SHARE[is_timed]]);
	return rc;
}

/* This program once more, for one GPU on this thread's cores; what it prints goes to a file. */
static int program_start(const struct bench *b, const char *device, int out, struct child *c, struct err *err)
{
	char program[4096], threads[24], many[24], seconds[24];
	ssize_t n = readlink("/proc/self/exe", program, sizeof program - 1);
	program[MAX(n, 0)] = 0;
	snprintf(threads, sizeof threads, "%d", MAX(b->threads / b->ngpus, 1));
	snprintf(many, sizeof many, "%lld", (long long)b->o->many);
	snprintf(seconds, sizeof seconds, "%lld", (long long)b->o->seconds);
	char *argv[24] = {program, "bench", "verify", "--json", "--device", (char *)(uintptr_t)device, "--threads", threads,
		"--many", many, "--seconds", seconds, "--single", "1", "--large", "0", "--timed", "0", "--hits", "1"};
	int at = 20;
	if (b->o->sandbox) argv[at++] = "--sandbox", argv[at++] = (char *)(uintptr_t)b->o->sandbox;
	if (b->o->allow_unsandboxed) argv[at++] = "--allow_unsandboxed";
	struct child_options o = {
		.argv = argv, .env = environ, .stdout_fd = out, .stderr_fd = STDERR_FILENO, .die_with_parent = true};
	return child_spawn(c, &o, err);
}

/* A program's rate, when it has ended. */
static int program_end(struct child *c, int out, double *rate, struct err *err)
{
	char text[OUTPUT_MAX] = "", status[64];
	int rc = child_wait(c, PROGRAM_MS, err);
	if (rc) child_kill(c);
	if (!rc && c->status) {
		child_status_text(c->status, status, sizeof status);
		rc = err_set(err, ERR_CHILD, "a program for one GPU ended with %s", status);
	}
	ssize_t n = rc ? 0 : pread(out, text, sizeof text - 1, 0);
	json_t *o = NULL;
	if (!rc) rc = json_parse(text, (size_t)MAX(n, 0), "figures of a program for one GPU", &o, err);
	*rate = json_number_value(json_object_get(json_object_get(o, figures[RATE].key), "value"));
	json_decref(o);
	return rc;
}

/* A program for each GPU and share of the cores, all at once. */
static int measure_apart(struct bench *b, const cpu_set_t *all, struct err *err)
{
	struct child *children = xcalloc((size_t)b->ngpus, sizeof *children);
	FILE **files = xcalloc((size_t)b->ngpus, sizeof *files);
	double sum = 0, rate = 0;
	int started = 0, rc = 0;
	for (int i = 0; i < b->ngpus && !rc; i++) {
		char *device = device_of(b->o->device, i);
		files[i] = tmpfile();
		if (!files[i]) rc = err_set(err, ERR_IO, "a file for a program's figures: %s", strerror(errno));
		if (!rc) rc = share_take(all, i, b->ngpus, err);
		if (!rc) rc = program_start(b, device, fileno(files[i]), &children[i], err);
		started += !rc;
		free(device);
	}
	/* All of them are waited for, whatever became of the first. */
	for (int i = 0; i < started; i++) {
		int ended = program_end(&children[i], fileno(files[i]), &rate, rc ? NULL : err);
		rc = rc ? rc : ended;
		sum += rate;
	}
	for (int i = 0; i < b->ngpus; i++)
		if (files[i]) fclose(files[i]);
	free(files);
	free(children);
	if (!rc) rc = share_take(all, 0, 1, err);
	if (!rc) tell(b, APART_RATE, sum);
	if (!rc) tell(b, TIMES_APART, sum / b->value[SHARE_RATE]);
	return rc;
}

/* The first GPU with all cores. */
static int measure_first(struct bench *b, bool is_timed, struct err *err)
{
	double rate = NAN;
	char *device = device_of(b->o->device, 0);
	int rc = rate_measure(b, device, is_timed, (int)(is_timed ? b->o->timed : b->o->many), &rate, err);
	if (!rc) tell(b, ALONE[is_timed], rate);
	if (!rc) tell_steps(b);
	if (!rc) tell(b, BESIDE_ALONE[is_timed], b->value[WHOLE[is_timed]] / rate);
	free(device);
	return rc;
}

static int measure_alone(struct bench *b, struct err *err)
{
	cpu_set_t all;
	bool has_timed = b->o->timed > 0;
	if (sched_getaffinity(0, sizeof all, &all)) return err_set(err, ERR_IO, "sched_getaffinity: %s", strerror(errno));
	int rc = measure_shares(b, &all, false, err);
	if (!rc) rc = measure_apart(b, &all, err);
	if (!rc && has_timed) rc = measure_shares(b, &all, true, err);
	if (!rc) rc = measure_first(b, false, err);
	return rc || !has_timed ? rc : measure_first(b, true, err);
}

int bench_verify(int argc, char **argv)
{
	struct bench_verify_options o = {
		.device = "cuda", .single = 20, .many = 200, .large = 3, .timed = 60, .hits = 20000};
	struct err err = {0};
	int npos = 0,
		rc = options_parse("bench verify", "how many candidates a second this machine grades", defs, ARRAY_LEN(defs),
			&o, argc, argv, &npos, &err);
	if (rc == 1) return 0;
	if (!rc && npos) rc = err_set(&err, ERR_USAGE, "unexpected argument \"%s\"", argv[1]);
	struct bench b = {.o = &o, .next = 1, .ngpus = 1, .threads = o.threads > 0 ? (int)o.threads : cpu_count()};
	for (const char *p = o.device; (p = strchr(p, ',')); p++) b.ngpus++;
	if (!rc && o.alone && b.ngpus < 2)
		rc = err_set(
			&err, ERR_USAGE, "alone: several GPUs are compared with one (--device cuda:0,1), found \"%s\"", o.device);
	if (rc) return cli_fail("bench", &err);
	/* What needs no time of a GPU's, what needs one, what needs several. */
	double timed = NAN;
	for (int f = 0; f < FIGURES; f++) b.value[f] = NAN;
	rc = measure_plain(&b, &err);
	if (!rc && o.timed) rc = rate_measure(&b, o.device, true, (int)o.timed, &timed, &err);
	if (!rc && o.timed) tell(&b, TIMED_RATE, timed);
	if (!rc && isfinite(timed)) tell_steps(&b);
	if (!rc && o.alone) rc = measure_alone(&b, &err);
	print_end(&b);
	free(b.latency);
	return rc ? cli_fail("bench", &err) : 0;
}
