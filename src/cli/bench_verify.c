/* hone bench verify: how fast this machine grades. Each figure stands beside the bar that it is
 * held to, an H200 with 16 cores meant:
 *
 *   correctness   a small task with a kernel that nobody compiled before: the median of one after
 *                 another, and how many a second with all cores at work
 *   timing        the same with its time on the GPU and the reference's, whose own is known by then
 *   large task    an element-wise task of 6 GiB, its reference known; judged at the
 *                 sizes that the record names
 *   cache hits    verdicts that were given before
 *
 * Candidates differ in a constant inside the kernel, so that no verdict and no
 * compilation comes from a cache. */
#include "cli/bench.h"
#include "base/base.h"
#include "task/task.h"
#include "verify/verdict.h"
#include "verify/measure.h"
#include "verify/verify.h"
#include <math.h>
#include <stdlib.h>

#define COLLECT_MS 300000

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
	bool allow_unsandboxed;
	bool json;
};

#define O(type, field, help, choices) { #field, type, offsetof(struct bench_verify_options, field), help, choices }
static const struct option_def defs[] = {
	O(OPTION_STR, device, "cuda, cuda:N, cuda:N,M: with those GPUs; cpu: the vm alone, nothing is timed", NULL),
	O(OPTION_STR, sandbox, "level; the strongest that works when empty", NULL),
	O(OPTION_BOOL, allow_unsandboxed, "accept level none", NULL),
	O(OPTION_INT, threads, "candidates graded at once; 0: cores", "0 to 4096"),
	O(OPTION_INT, single, "candidates graded one after another", "1 to 100000"),
	O(OPTION_INT, many, "candidates graded side by side", "1 to 100000"),
	O(OPTION_INT, large, "candidates for the task of 6 GiB, one after another; 0: none", "0 to 100000"),
	O(OPTION_INT, timed, "candidates graded side by side and timed; 0: none", "0 to 100000"),
	O(OPTION_INT, hits, "verdicts asked for again", "1 to 10000000"),
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

struct bench {
	const struct bench_verify_options *o;
	int next;        /* number of the next candidate */
	int first;       /* of the last series */
	double *latency; /* of the last series */
	int nlatency;
	char sizes[256]; /* of the last verdict */
	int untimed;     /* of the last series: verdicts without a time of the reference */
};

/* Grades `count` candidates, at most `at_once` of them waiting for a verdict;
 * seconds, or an error. */
static int grade_series(struct bench *b, struct verifier *v, const struct task *task, int count, int at_once,
	double *seconds, struct err *err)
{
	int submitted = 0, rc = 0;
	uint64_t start = clock_ns();
	b->first = b->next;
	b->nlatency = b->untimed = 0;
	b->latency = xrealloc(b->latency, size_mul((size_t)count, sizeof *b->latency));
	while (b->nlatency < count && !rc) {
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

enum figure { COLD, LATENCY, RATE, TIMED_RATE, LARGE_LATENCY, HIT_RATE, FIGURES };
static const struct {
	const char *key;   /* in --json */
	const char *title; /* for people */
	const char *unit;
	double bar;   /* in that unit; 0: none */
	bool is_most; /* the bar is the most that it may be */
} figures[FIGURES] = {
	{"cold_s", "from no process to the first verdict", "s", 0, true},
	{"correctness_median_s", "correctness of a small task, median", "s", 0.5, true},
	{"correctness_per_s", "correctness, all cores", "a second", 20, false},
	{"timed_per_s", "with timing, all cores", "a second", 4, false},
	{"large_median_s", "element-wise task of 6 GiB, median", "s", 4, true},
	{"hits_per_s", "cache hits", "a second", 5000, false},
};

static void print_figures(const struct bench *b, const double *value, const char *large_sizes, int threads)
{
	json_t *o = json_object();
	for (int f = 0; f < FIGURES; f++) {
		if (!isfinite(value[f])) continue;
		bool is_met = figures[f].is_most ? value[f] <= figures[f].bar : value[f] >= figures[f].bar;
		json_object_set_new(o, figures[f].key,
			figures[f].bar > 0 ? json_pack("{s:f, s:f, s:b}", "value", value[f], "bar", figures[f].bar, "met", is_met)
							   : json_pack("{s:f}", "value", value[f]));
		if (!b->o->json && !(figures[f].bar > 0))
			printf("%-38s %10.4g %s\n", figures[f].title, value[f], figures[f].unit);
		else if (!b->o->json)
			printf("%-38s %10.4g %-9s  bar: %s %g: %s\n", figures[f].title, value[f], figures[f].unit,
				figures[f].is_most ? "at most" : "at least", figures[f].bar, is_met ? "met" : "MISSED");
	}
	if (!b->o->json && large_sizes[0]) printf("the task of 6 GiB was judged at %s\n", large_sizes);
	if (!b->o->json) printf("%d threads; the bars are those of an H200 with 16 cores\n", threads);
	json_object_set_new(o, "threads", json_integer(threads));
	json_object_set_new(o, "large_sizes", json_string(large_sizes));
	if (b->o->json) {
		json_dumpf(o, stdout, JSON_COMPACT | JSON_SORT_KEYS);
		putchar('\n');
	}
	json_decref(o);
}

static struct verify_options options_of(const struct bench_verify_options *o, int threads, bool is_timed)
{
	return (struct verify_options){.device = o->device,
		.sandbox = o->sandbox,
		.allow_unsandboxed = o->allow_unsandboxed,
		.threads = threads,
		.skip_timing = !is_timed,
		.references = is_timed ? "eager" : NULL,
		.comparison = "cached"};
}

/* What needs no time of a GPU's: the first verdict, others one after another and side by
 * side, known ones, large ones.
 */
static int measure_plain(struct bench *b, int threads, double *value, char *large_sizes, size_t len, struct err *err)
{
	struct task small = {.name = (char *)(uintptr_t)"small",
					.source = (char *)(uintptr_t)SMALL,
					.hash = hash_bytes(SMALL, strlen(SMALL))},
				large = {.name = (char *)(uintptr_t)"large",
					.source = (char *)(uintptr_t)LARGE,
					.hash = hash_bytes(LARGE, strlen(LARGE))};
	struct verify_options o = options_of(b->o, threads, false);
	struct verifier *v = NULL;
	double seconds = 0;
	uint64_t start = clock_ns();
	int rc = verifier_create(&o, &v, err);
	if (!rc) rc = grade_series(b, v, &small, 1, 1, &seconds, err);
	if (!rc) value[COLD] = (double)(clock_ns() - start) * 1e-9;
	/* Each thread has one that pays for its runner, whose context takes its time; then nobody
	 * starts anything, and each candidate is a kernel that has to be compiled. */
	if (!rc) rc = grade_series(b, v, &small, threads, threads, &seconds, err);
	if (!rc) rc = grade_series(b, v, &small, (int)b->o->single, 1, &seconds, err);
	if (!rc) value[LATENCY] = measure_median(b->latency, b->nlatency).value;
	if (!rc) rc = grade_series(b, v, &small, (int)b->o->many, 2 * threads, &seconds, err);
	if (!rc) value[RATE] = (double)b->o->many / seconds;
	if (!rc) rc = grade_hits(b, v, &small, b->o->hits, &seconds, err);
	if (!rc) value[HIT_RATE] = (double)b->o->hits / seconds;
	/* The large task, its reference known after the first. */
	bool has_large = b->o->large > 0;
	if (!rc && has_large) rc = grade_series(b, v, &large, 1, 1, &seconds, err);
	if (!rc && has_large) rc = grade_series(b, v, &large, (int)b->o->large, 1, &seconds, err);
	if (!rc && has_large) value[LARGE_LATENCY] = measure_median(b->latency, b->nlatency).value;
	if (!rc && has_large) snprintf(large_sizes, len, "%s", b->sizes);
	verifier_free(v);
	return rc;
}

/* With times: the first candidate's session times the reference, which is kept for the others; then
 * each thread has one that pays for its runner. A verifier of its own, when the other is gone: two
 * start their processes side by side otherwise, and each waits for the other's contexts. */
static int measure_timed(struct bench *b, int threads, double *value, struct err *err)
{
	struct task small = {.name = (char *)(uintptr_t)"small",
		.source = (char *)(uintptr_t)SMALL,
		.hash = hash_bytes(SMALL, strlen(SMALL))};
	struct verify_options o = options_of(b->o, threads, true);
	struct verifier *v = NULL;
	double seconds = 0;
	int rc = verifier_create(&o, &v, err);
	bool has_gpu = !rc && verifier_has_gpu(v);
	if (!rc && has_gpu) rc = grade_series(b, v, &small, 1, 1, &seconds, err);
	if (!rc && has_gpu) rc = grade_series(b, v, &small, threads, threads, &seconds, err);
	if (!rc && has_gpu) rc = grade_series(b, v, &small, (int)b->o->timed, 2 * threads, &seconds, err);
	if (!rc && has_gpu && b->untimed)
		rc = err_set(err, ERR_INFRA, "%d of %d candidates have no time of the reference beside theirs", b->untimed,
			(int)b->o->timed);
	if (!rc && has_gpu) value[TIMED_RATE] = (double)b->o->timed / seconds;
	verifier_free(v);
	return rc;
}

int bench_verify(int argc, char **argv)
{
	struct bench_verify_options o = {
		.device = "cuda", .single = 20, .many = 200, .large = 3, .timed = 60, .hits = 20000};
	struct err err = {0};
	char large_sizes[256] = "";
	double value[FIGURES];
	int npos = 0,
		rc = options_parse("bench verify", "how many candidates a second this machine grades", defs, ARRAY_LEN(defs),
			&o, argc, argv, &npos, &err);
	if (rc == 1) return 0;
	if (!rc && npos) rc = err_set(&err, ERR_USAGE, "unexpected argument \"%s\"", argv[1]);
	if (rc) return cli_fail("bench", &err);
	struct bench b = {.o = &o, .next = 1};
	int threads = o.threads > 0 ? (int)o.threads : cpu_count();
	for (int f = 0; f < FIGURES; f++) value[f] = NAN;
	rc = measure_plain(&b, threads, value, large_sizes, sizeof large_sizes, &err);
	if (!rc && o.timed) rc = measure_timed(&b, threads, value, &err);
	print_figures(&b, value, large_sizes, threads);
	free(b.latency);
	return rc ? cli_fail("bench", &err) : 0;
}
