/* timeout: 600. What the verifier makes of a GPU that disagrees with the vm, of a final best, and
 * of tools: over a runner whose GPU is the vm under another name (pretend_gpu.c), which goes wrong
 * in the way that a kernel's name says. Each rule of gpu_cause.c has a case that it excuses and
 * one, a line apart, that it must not. */
#include "base/base.h"
#include "store/store.h"
#include "task/task.h"
#include "verify/gpu_lock.h"
#include "verify/verify.h"
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>
#include <cmocka.h>
#include "pretend_beside.h"

#define COLLECT_MS 300000

static const char TASK[] =
	"import torch\nimport torch.nn as nn\nM = 8\nN = 48\n\n\nclass Model(nn.Module):\n    def forward(self, x):\n"
	"        return x * 1.7 + 0.3 + torch.%s\n\n\n"
	"def get_inputs():\n    return [torch.rand(M, N)]\n\n\ndef get_init_inputs():\n    return []\n";
/* The same with a weight, of one. */
static const char WEIGHED[] =
	"import torch\nimport torch.nn as nn\nM = 8\nN = 48\n\n\nclass Model(nn.Module):\n"
	"    def __init__(self):\n        super().__init__()\n        self.w = nn.Parameter(torch.ones(1))\n\n"
	"    def forward(self, x):\n        return x * 1.7 * self.w + 0.3 + torch.%s\n\n\n"
	"def get_inputs():\n    return [torch.rand(M, N)]\n\n\ndef get_init_inputs():\n    return []\n";
static const char CANDIDATE[] =
	"import torch\nimport torch.nn as nn\nimport triton\nimport triton.language as tl\n\n\n"
	"@triton.jit\ndef %s_kernel(p, w, y, n, B: tl.constexpr):\n    i = tl.program_id(0) * B + tl.arange(0, B)\n"
	"    x = tl.load(p + i, mask=i < n, other=0.0)\n"
	"    if n < 0:\n        x = tl.where(x == %s, 0.0, x)\n"
	"    tl.store(y + i, x * 1.7 * tl.load(w) + 0.3 + tl.%s, mask=i < n)\n\n\n"
	"class ModelNew(nn.Module):\n"
	"    def __init__(self):\n        super().__init__()\n        self.w = nn.Parameter(torch.ones(1))\n\n"
	"    def forward(self, x):\n        y = torch.empty_like(x)\n"
	"        %s_kernel[(triton.cdiv(x.numel(), 64),)](x, self.w, y, x.numel(), B=128 if x.shape[0] < 40 else 64)\n     "
	"   "
	"return y\n";

/* Its sides have 1234.5 tried, and in the same trial the numbers next to zero. */
#define CHOICE "where((x > 0.0) & (x == 1234.5), x, x * 0.5) + (x > 0.0) * 1.0"
/* One operation that the vm has no reason to try 1234.5 for. */
#define HIDDEN "where(x > 0.375, x * 3.0, x * 0.5)"
#define STEP "where(x > 0.25, x * 3.0, x * 0.5)"

static char folder[64] = "/tmp/hone-gpu-verdicts-XXXXXX";
static char *path_was;
/* Each starts processes that import torch, seconds of them: tests with the same options share. */
static struct verifier *plain;    /* judges one at a time, without times and without tools, which it did not find */
static struct verifier *profiled; /* PROFILED at once, with counters and tools */
static struct store *choices;     /* of autotuners, that processes share */
enum { PROFILED = 4 };

/* A compute-sanitizer that starts the runner and says `summary`. */
static void sanitizer_write(const char *summary)
{
	char path[128];
	snprintf(path, sizeof path, "%s/compute-sanitizer", folder);
	FILE *f = fopen(path, "w");
	assert_non_null(f);
	/* Its own words are six; what follows is the runner with its own. */
	fprintf(f, "#!/bin/sh\necho '%s'\nshift 6\nexec \"$@\"\n", summary);
	assert_int_equal(fclose(f), 0);
	assert_int_equal(chmod(path, 0755), 0);
}

/* An ncu that starts the runner and says `said` on standard output, or, without a word of its own,
 * what ncu says of one launch: every counter is 1,024, but for the time, which is when it began,
 * and L2's bytes, when it ended (in ms). */
static void profiler_write(const char *said)
{
	static const char SCRIPT[] =
		"#!/bin/sh\nsaid='%s' metrics=$9 begin=$(date +%%s%%3N)\nshift 9\n"
		"[ -n \"$said\" ] && echo \"$said\"\n\"$@\"\n[ -n \"$said\" ] && exit 9\nend=$(date +%%s%%3N)\n"
		"echo '\"ID\",\"Kernel Name\",\"Metric Name\",\"Metric Value\"'\n"
		"for m in $(echo \"$metrics\" | tr , ' '); do\n"
		"case $m in gpu__time*) v=$begin;; lts__t*) v=$end;; *) v=1,024;; esac\n"
		"echo \"\\\"0\\\",\\\"plain_kernel\\\",\\\"$m\\\",\\\"$v\\\"\"\ndone\n";
	char path[128];
	snprintf(path, sizeof path, "%s/ncu", folder);
	FILE *f = fopen(path, "w");
	assert_non_null(f);
	fprintf(f, SCRIPT, said);
	assert_int_equal(fclose(f), 0);
	assert_int_equal(chmod(path, 0755), 0);
}

static struct verifier *verifier_make(int threads, bool profile)
{
	struct verify_options o = {.device = "cuda",
		.threads = threads,
		.seed = 7,
		.skip_timing = true,
		.profile = profile,
		.trace_timeout_ms = 60000,
		.replay_timeout_ms = 60000};
	struct verifier *v = NULL;
	struct err err = {0};
	if (verifier_create(&o, &v, &err)) fail_msg("%s", err.text);
	return v;
}

static int set_up(void **state)
{
	if (!mkdtemp(folder)) return -1;
	chmod(folder, 0755);
	path_was = xstrdup(getenv("PATH"));
	char *path = xasprintf("%s:%s", folder, path_was);
	sanitizer_write("========= ERROR SUMMARY: 0 errors");
	profiler_write("");
	setenv("PATH", "/nonexistent", 1);
	plain = verifier_make(1, false);
	setenv("PATH", path, 1);
	free(path);
	profiled = verifier_make(PROFILED, true);
	char *kept = path_join(folder, "choices.db");
	int rc = store_open(kept, &choices, NULL);
	free(kept);
	return rc;
}

static int tear_down(void **state)
{
	verifier_free(plain);
	verifier_free(profiled);
	store_close(choices);
	setenv("PATH", path_was, 1);
	free(path_was);
	return dir_remove(folder, NULL);
}

/* The candidate whose kernel is named so, with one operation of its own, which torch
 * and Triton write alike. */
static void kind_submit(struct verifier *v, const char *kind, const char *test, bool is_final)
{
	/* In a branch that the vm never takes. */
	const char *hidden = strcmp(test, HIDDEN) ? "77.125" : "1234.5";
	char *text = xasprintf(WEIGHED, test), *source = xasprintf(CANDIDATE, kind, hidden, test, kind);
	struct task task = {.name = (char *)(uintptr_t)"pretended", .source = text, .hash = hash_bytes(text, strlen(text))};
	struct verify_request r = {.task = &task, .source = source, .source_len = strlen(source), .is_final = is_final};
	struct err err = {0};
	if (verifier_submit(v, &r, &err)) fail_msg("%s", err.text);
	free(source);
	free(text);
}

static void grade_kind(struct verifier *v, const char *kind, const char *test, bool is_final, struct verdict *out)
{
	struct err err = {0};
	int64_t id;
	kind_submit(v, kind, test, is_final);
	if (verifier_collect(v, COLLECT_MS, &id, out, &err)) fail_msg("%s", err.text);
}

static void test_causes(void **state)
{
	static const struct {
		const char *kind, *test, *verdict, *word;
		bool subnormal, contracted; /* some trial is excused by it */
	} cases[] = {
		{"plain", STEP, "genuine/ok", "", false, false},
		/* Subnormal inputs: what is above zero on the vm is zero on the GPU. */
		{"flush", CHOICE, "genuine/ok", "", true, false},
		/* Off wherever one value is, a guided one: without subnormal inputs it is off too. */
		{"value", "where(x == 1234.5, x * 2.0, x * 0.5)", "wrong/", "guided (", false, false},
		/* That value is compared with in a branch which the vm never takes and the GPU might. */
		{"value", HIDDEN, "wrong/", "guided (", false, false},
		/* The same where subnormal inputs stand beside it: they are no reason for it. */
		{"value", CHOICE, "wrong/", "guided (", false, false},
		/* Contraction: off among magnitudes of 2^20 and more, right as it is written. */
		{"fused", STEP, "genuine/ok", "", false, true},
		/* The same from 64 on: whoever runs it meets such numbers. */
		{"coarse", STEP, "wrong/", "contraction does not excuse it: wrong on ordinary numbers times", false, false},
		/* A little off where weights are large and inputs near one, right as it is
		 * written; and by much. */
		{"near", STEP, "genuine/ok", "", false, true},
		{"apart", STEP, "wrong/fragile", "contraction does not excuse it: off by more than", false, false},
		/* Off among large numbers, and as it is written too. */
		{"large", STEP, "wrong/", "contraction does not excuse it: wrong without it too", false, false},
		{"off", STEP, "wrong/gpu-mismatch", "right on the vm, but not on the GPU", false, false},
		{"late", STEP, "wrong/gpu-unstable", "wrong in the next", false, false},
		{"wild", STEP, "wrong/gpu-out-of-bounds", "illegal address", false, false},
		{"hang", STEP, "wrong/timeout-gpu", "their runner did not answer", false, false},
		/* What is the machine's doing is charged to nobody. */
		{"stuck", STEP, "infra/infra", "did not answer before any kernel ran", false, false},
		{"clear", STEP, "infra/infra", "did not load in time: its memory was not cleared", false, false},
		{"full", STEP, "infra/infra", "others use its memory", false, false},
		{"lost", STEP, "infra/infra", "fell off the bus", false, false},
	};
	int failed = 0;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct verdict d;
		char said[128];
		grade_kind(plain, cases[i].kind, cases[i].test, false, &d);
		snprintf(said, sizeof said, "%s/%s", verdict_class_name(d.class), d.reason);
		bool is_wrong = d.class == VERDICT_WRONG, is_unstable = d.device.repeat == REPEAT_UNSTABLE,
			 is_right = !strncmp(said, cases[i].verdict, strlen(cases[i].verdict)) && strstr(d.detail, cases[i].word) &&
			(d.device.subnormal > 0) == cases[i].subnormal && (d.device.contracted > 0) == cases[i].contracted &&
			(d.device.disagreements == is_wrong || is_unstable) && d.device.trials_failed == is_wrong;
		/* The GPU is the vm: it tries what the vm tries, and is as far off. */
		if (d.class == VERDICT_GENUINE)
			is_right = is_right && d.device.trials == d.trials && d.error_max > 0 && d.device.error_max == d.error_max;
		if (!is_right)
			print_error(
				"%s: %s: %s; %d subnormal, %d contracted, %d disagreements; %d of %d trials, errors %g and %g\n",
				cases[i].kind, said, d.detail, d.device.subnormal, d.device.contracted, d.device.disagreements,
				d.device.trials, d.trials, d.device.error_max, d.error_max);
		failed += !is_right;
	}
	assert_int_equal(failed, 0);
}

/* Sizes in place of those at which Triton refuses a block have their trials on the GPU as well: as
 * many, with the same errors. */
static void test_blocks(void **state)
{
	static const char *const names[] = {"softmax_row_as_one_block", "rmsnorm_width_as_one_block"};
	for (size_t i = 0; i < ARRAY_LEN(names); i++) {
		char *task_path = xasprintf("tests/known_good/%s/task.py", names[i]),
			 *path = xasprintf("tests/known_good/%s/candidate.py", names[i]);
		struct task_set tasks = {0};
		struct str source = {0};
		struct verdict d;
		struct err err = {0};
		int64_t id;
		if (task_set_load(task_path, &tasks, &err) || file_read(path, 1 << 16, &source, &err)) fail_msg("%s", err.text);
		struct verify_request r = {.task = &tasks.tasks[0], .source = source.data, .source_len = source.len};
		if (verifier_submit(plain, &r, &err) || verifier_collect(plain, COLLECT_MS, &id, &d, &err))
			fail_msg("%s", err.text);
		if (d.class != VERDICT_GENUINE || d.device.trials != d.trials || d.device.disagreements ||
			d.device.error_max != d.error_max)
			fail_msg("%s: %s: %s; %d of %d trials, errors %g and %g", names[i], d.reason, d.detail, d.device.trials,
				d.trials, d.device.error_max, d.error_max);
		task_set_release(&tasks);
		str_release(&source);
		free(task_path);
		free(path);
	}
}

/* An ordinary answer runs under no tool, a final best under all three, and each has its own
 * place among known ones. */
static void test_final(void **state)
{
	struct verifier *v = profiled;
	struct verdict d;
	grade_kind(v, "plain", STEP, false, &d);
	assert_int_equal(d.class, VERDICT_GENUINE);
	for (int k = 0; k < SANITIZER_COUNT; k++) assert_int_equal(d.device.sanitized[k], -1);
	grade_kind(v, "plain", STEP, true, &d);
	assert_false(d.cached);
	if (d.class != VERDICT_GENUINE || d.device.sanitizer[0]) fail_msg("%s %s", d.detail, d.device.sanitizer);
	for (int k = 0; k < SANITIZER_COUNT; k++) assert_int_equal(d.device.sanitized[k], 0);
	grade_kind(v, "plain", STEP, true, &d);
	assert_true(d.cached);
	/* A finding costs the verdict; the ordinary one stands as it was. */
	sanitizer_write("========= ERROR SUMMARY: 3 errors");
	grade_kind(v, "plain", "floor(x * 9.0)", true, &d);
	assert_int_equal(d.class, VERDICT_WRONG);
	assert_string_equal(d.reason, "gpu-sanitizer");
	assert_int_equal(d.device.sanitized[SANITIZER_MEMCHECK], 3);
	assert_int_equal(d.device.sanitized[SANITIZER_RACECHECK], -1);
	grade_kind(v, "plain", "floor(x * 9.0)", false, &d);
	assert_false(d.cached);
	assert_int_equal(d.class, VERDICT_GENUINE);
}

/* Without the tool a final best is judged all the same, and the record says what is missing. */
static void test_final_without_the_tool(void **state)
{
	struct verdict d;
	grade_kind(plain, "plain", STEP, true, &d);
	assert_int_equal(d.class, VERDICT_GENUINE);
	assert_non_null(strstr(d.device.sanitizer, "not found"));
}

/* Counters of a right kernel stand in the record; where the driver keeps them, or ncu does not
 * work, that stands there and the verdict and the vm's costs by line are what they were. */
static void test_profile(void **state)
{
	static const struct {
		const char *said, *unprofiled;
		int launches;
		const char *test; /* another each, which nobody has judged */
	} cases[] = {
		{"", "", 1, "floor(x * 3.0)"},
		{"==ERROR== ERR_NVGPUCTRPERM - The user does not have permission to access NVIDIA GPU Performance Counters",
			"the driver allows counters to its administrator alone (ERR_NVGPUCTRPERM)", 0, "floor(x * 5.0)"},
		{"==ERROR== something else", "Nsight Compute saw no kernel", 0, "floor(x * 7.0)"},
	};
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		/* A profiler that prints this. Nothing is timed: counters are asked for all the same. */
		profiler_write(cases[i].said);
		struct verdict d;
		grade_kind(profiled, "plain", cases[i].test, false, &d);
		assert_int_equal(d.class, VERDICT_GENUINE);
		assert_true(d.nlines > 0 && isfinite(d.cost_s));
		assert_string_equal(d.device.unprofiled, cases[i].unprofiled);
		assert_int_equal(d.device.nprofiles, cases[i].launches);
		/* The pretended profiler's counters are 1024; in two of them it tells its own begin and
		 * end. */
		if (d.device.nprofiles) {
			const struct verdict_profile *p = &d.device.profiles[0];
			assert_string_equal(p->kernel, "plain_kernel");
			for (int k = 0; k < COUNTER_COUNT; k++)
				assert_true(p->counters[k] == 1024 || k == COUNTER_TIME || k == COUNTER_L2);
		}
	}
}

/* Counters are one reader's at a time, however many candidates are right at once. */
static void test_profiles_take_turns(void **state)
{
	static const char *const tests[PROFILED] = {STEP, HIDDEN, "floor(x * 2.0)", "abs(x - 0.5)"};
	struct err err = {0};
	double begin[PROFILED], end[PROFILED];
	profiler_write("");
	/* All at once. Begin and end of each profile stand in two of its counters: no two meet. */
	for (int i = 0; i < PROFILED; i++) kind_submit(profiled, "plain", tests[i], false);
	for (int i = 0; i < PROFILED; i++) {
		struct verdict d;
		int64_t id;
		if (verifier_collect(profiled, COLLECT_MS, &id, &d, &err)) fail_msg("%s", err.text);
		if (d.device.nprofiles != 1) fail_msg("%s: %s", d.detail, d.device.unprofiled);
		begin[i] = d.device.profiles[0].counters[COUNTER_TIME];
		end[i] = d.device.profiles[0].counters[COUNTER_L2];
		assert_true(begin[i] > 1e12 && end[i] >= begin[i]);
		for (int k = 0; k < i; k++) assert_true(end[k] <= begin[i] || end[i] <= begin[k]);
	}
}

/* ---- autotuners ---- */

static const char TUNED[] =
	"import time\nimport torch\nimport torch.nn as nn\nimport triton\nimport triton.language as tl\n\n\n"
	"def prune(configs, named, **kwargs):\n    return %s\n\n\n"
	"@triton.autotune(configs=[%s], key=['n'], prune_configs_by={'early_config_prune': prune})\n"
	"@triton.jit\ndef timed_kernel(p, y, n, B: tl.constexpr, LEAST: tl.constexpr):\n"
	"    i = tl.program_id(0) * B + tl.arange(0, B)\n    x = tl.load(p + i, mask=i < n, other=0.0)\n"
	"    if LEAST >= 0:\n        x = tl.maximum(x, LEAST)\n"
	"    if LEAST == -5:\n        x = tl.where(tl.abs(x) > 1000.0, 0.0, x)\n"
	"    tl.store(y + i, x * 1.7 + 0.3 + tl.where(x > 0.25, x * 3.0, x * 0.5), mask=(i < n) | (LEAST == -7))\n\n\n"
	"class ModelNew(nn.Module):\n    def forward(self, x):\n        y = torch.empty_like(x)\n"
	"        seen = []\n"
	"        timed_kernel[lambda m: (seen.append(m['LEAST']) or triton.cdiv(x.numel(), m['B']),)](x, y, x.numel())\n"
	"        return y * 1.0 if seen[-1] == -9 else y\n%s";
/* Inputs are in [0, 1): -1 is no bound, -5 one of large inputs, -7 none and no mask; 0.5
 * is one of half of them. */
#define CONFIG(block, least, warps) "triton.Config({'B': " #block ", 'LEAST': " #least "}, num_warps=" #warps ")"
#define SLOW CONFIG(128, -1, 8)
#define FAST CONFIG(64, -1, 2)
#define MORE CONFIG(32, -1, 4) "," CONFIG(64, -1, 8) "," CONFIG(128, -1, 4)

/* behind: what the text has behind its last line; emit: the file for the module, or NULL. */
static void grade_tuned(struct verifier *v, const char *prune, const char *configs, const char *behind,
	const char *emit, struct verdict *out)
{
	char *text = xasprintf(TASK, STEP), *source = xasprintf(TUNED, prune, configs, behind);
	struct task task = {.name = (char *)(uintptr_t)"tuned", .source = text, .hash = hash_bytes(text, strlen(text))};
	struct verify_request r = {.task = &task, .source = source, .source_len = strlen(source), .emit = emit};
	struct err err = {0};
	int64_t id;
	if (verifier_submit(v, &r, &err) || verifier_collect(v, COLLECT_MS, &id, out, &err)) fail_msg("%s", err.text);
	free(source);
	free(text);
}

/* With times, and with the choices that are kept. */
static struct verifier *verifier_that_chooses(void)
{
	struct verify_options o = {.device = "cuda",
		.threads = 1,
		.seed = 7,
		.references = "",
		.store = choices,
		.trace_timeout_ms = 60000,
		.replay_timeout_ms = 60000};
	struct verifier *v = NULL;
	struct err err = {0};
	if (verifier_create(&o, &v, &err)) fail_msg("%s", err.text);
	return v;
}

/* What was chosen is the fastest, and its time the verdict's. */
static bool is_fastest(const struct verdict *d)
{
	const struct verdict_tuned *t = &d->device.tuned[0];
	return d->class == VERDICT_GENUINE && d->device.ntuned == 1 && t->chosen_s > 0 && t->chosen_s <= t->first_s &&
		(t->is_kept || fabs(t->chosen_s - d->device.time_s) < 1e-9);
}

/* Every configuration is timed and compared, the fastest is the one that is judged. */
static void autotuned(struct verifier *v)
{
	static const struct {
		const char *prune, *configs, *verdict, *word;
		int chosen, of;
	} cases[] = {
		/* One that does not compile is no choice, though it would be the fastest. */
		{"configs", SLOW "," CONFIG(96, -1, 1) "," FAST, "genuine/ok", "", 2, 3},
		/* Numbers are those of what survives the pruning. */
		{"configs[1:]", CONFIG(32, 0.5, 1) "," SLOW "," FAST, "genuine/ok", "", 1, 2},
		/* Wrong and slow: another card may choose it. The vm finds what half of the inputs show. */
		{"configs", SLOW "," FAST "," CONFIG(32, 0.5, 4), "wrong/fragile", "another of the autotuner's", -1, 0},
		/* Large inputs alone show it, on the GPU: the vm has a sample of three
		 * of the six, without it. */
		{"configs", SLOW "," FAST "," CONFIG(32, -5, 4) "," MORE, "wrong/fragile",
			"in configuration 3 of 6 of the autotuner of timed_kernel(384,float32,float32), which a GPU may choose: "
			"large",
			0, 6},
		/* Fast, and wrong at other sizes than the first trials': it is judged on all of them. */
		{"configs", SLOW "," CONFIG(32, -7, 1), "wrong/fragile",
			"in configuration 2 of 2 of the autotuner of timed_kernel(384,float32,float32), the fastest here", 1, 2},
		/* With the fastest torch computes what is returned: the candidate's doing, and no
		 * fault of the machine. */
		{"configs", SLOW "," CONFIG(32, -9, 1), "!infra", "", -1, 0},
		/* Pruned by a clock: a call behind one at other sizes has another one, or the second trace
		 * has. */
		{"[configs[int(time.perf_counter() * 1e6) % 2]]", SLOW "," FAST, "!genuine", "", -1, 0},
	};
	int failed = 0;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct verdict d;
		char said[128];
		grade_tuned(v, cases[i].prune, cases[i].configs, "", NULL, &d);
		const struct verdict_tuned *t = &d.device.tuned[0];
		snprintf(said, sizeof said, "%s/%s", verdict_class_name(d.class), d.reason);
		bool is_not = cases[i].verdict[0] == '!' && d.class != VERDICT_INFRA;
		bool is_right = cases[i].verdict[0] == '!' ? is_not && strcmp(verdict_class_name(d.class), cases[i].verdict + 1)
												   : !strncmp(said, cases[i].verdict, strlen(cases[i].verdict));
		is_right = is_right && strstr(d.detail, cases[i].word);
		if (cases[i].chosen >= 0)
			is_right = is_right && d.device.ntuned == 1 && t->chosen == cases[i].chosen && t->configs == cases[i].of;
		if (d.class == VERDICT_GENUINE) is_right = is_right && is_fastest(&d);
		if (!is_right)
			print_error("%zu: %s: %s; %d autotuners, %s chosen %d of %d, %g from %g\n", i, said, d.detail,
				d.device.ntuned, t->label, t->chosen, t->configs, t->chosen_s, t->first_s);
		failed += !is_right;
	}
	assert_int_equal(failed, 0);
}

/* The module that was asked for is of the configuration that was chosen. */
static void chosen_is_emitted(const char *path, const struct verdict *d)
{
	struct str module = {0};
	struct err err = {0};
	if (!strstr(d->detail, "emitted to ")) fail_msg("%s: %s", d->reason, d->detail);
	if (file_read(path, 1 << 20, &module, &err)) fail_msg("%s", err.text);
	/* FAST has two warps, SLOW eight. */
	assert_non_null(strstr(module.data, "num_warps=2"));
	assert_null(strstr(module.data, "num_warps=8"));
	str_release(&module);
}

/* A choice is made once for what it is made among: another candidate with the same configurations
 * of the same kernel, and another process with the same store, have it without a new measurement.
 * One with another configuration chooses anew, and so does whoever has no store of it
 * (test_timed_alone). */
static void test_choices(void **state)
{
	static const struct {
		const char *configs, *behind;
		int process; /* a verifier of its own for each number */
		int chosen, of;
		bool is_kept;
	} cases[] = {
		{SLOW "," FAST, "", 0, 1, 2, false},
		{SLOW "," FAST, "# the same kernels in another text\n", 0, 1, 2, true},
		{SLOW "," FAST "," CONFIG(32, -1, 4), "", 0, 1, 3, false},
		{CONFIG(32, -1, 4) "," FAST, "", 0, 1, 2, false},
		{SLOW "," FAST, "# in another process\n", 1, 1, 2, true},
		/* Where the first is the fastest nothing is chosen. */
		{FAST "," SLOW, "", 1, 0, 2, false},
		{FAST "," SLOW, "# and again\n", 1, 0, 2, true},
	};
	char path[128];
	struct verifier *v = NULL;
	int failed = 0;
	snprintf(path, sizeof path, "%s/tuned.py", folder);
	/* A new number of process is a new verifier, with the store that is there. */
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct verdict d;
		if (!i || cases[i].process != cases[i - 1].process) {
			verifier_free(v);
			v = verifier_that_chooses();
		}
		grade_tuned(v, "configs", cases[i].configs, cases[i].behind, i ? NULL : path, &d);
		const struct verdict_tuned *t = &d.device.tuned[0];
		bool is_right = is_fastest(&d) && !d.cached && t->chosen == cases[i].chosen && t->configs == cases[i].of &&
			t->is_kept == cases[i].is_kept;
		if (!is_right)
			print_error("%zu: %s: %s; chosen %d, kept %d, cached %d, %g from %g\n", i, d.reason, d.detail, t->chosen,
				t->is_kept, d.cached, t->chosen_s, t->first_s);
		if (!i) chosen_is_emitted(path, &d);
		failed += !is_right;
	}
	assert_int_equal(failed, 0);
	autotuned(v);
	verifier_free(v);
}

/* While one candidate is timed nothing else of this verifier's uses the GPU: no other's load,
 * trial, reset or context. Without a sandbox, in which a runner cannot leave a mark. */
static void test_timed_alone(void **state)
{
	enum { COUNT = 8, THREADS = 4 };
	struct verify_options o = {.device = "cuda",
		.threads = THREADS,
		.seed = 7,
		.sandbox = "none",
		.allow_unsandboxed = true,
		.trace_timeout_ms = 60000,
		.replay_timeout_ms = 60000};
	struct verifier *v = NULL;
	struct err err = {0};
	char path[128], met[160];
	/* The pretended GPU writes `met` when a second user comes while one times. */
	snprintf(path, sizeof path, "%s/gpu", folder);
	snprintf(met, sizeof met, "%s.met", path);
	setenv("CUDA_DEVICE_ORDER", path, 1);
	if (verifier_create(&o, &v, &err)) fail_msg("%s", err.text);
	/* What another process chose is in its store, and this one has none. */
	struct verdict chosen;
	grade_tuned(v, "configs", SLOW "," FAST, "", NULL, &chosen);
	if (!is_fastest(&chosen) || chosen.device.tuned[0].chosen != 1 || chosen.device.tuned[0].is_kept)
		fail_msg("without a store: chosen %d, kept %d: %s", chosen.device.tuned[0].chosen,
			chosen.device.tuned[0].is_kept, chosen.detail);
	for (int i = 0; i < COUNT; i++) {
		char *test = xasprintf("where(x > 0.25, x * 3.0, x * %d.5)", i);
		kind_submit(v, "timed", test, false);
		free(test);
	}
	for (int i = 0; i < COUNT; i++) {
		struct verdict d;
		int64_t id;
		if (verifier_collect(v, COLLECT_MS, &id, &d, &err)) fail_msg("%s", err.text);
		if (d.class != VERDICT_GENUINE || d.device.timed < 30) fail_msg("%d timed: %s", d.device.timed, d.detail);
	}
	/* It was used, and nobody met anybody. */
	verifier_free(v);
	unsetenv("CUDA_DEVICE_ORDER");
	assert_true(path_exists(path));
	assert_false(path_exists(met));
}

/* Two processors, and a GPU that somebody else keeps: the two candidates that wait for it let a
 * third be judged, whose text is no program. */
static void test_waits_leave_their_seats(void **state)
{
	enum { THREADS = 2 };
	struct verify_options o = {
		.device = "cuda", .threads = THREADS, .seed = 7, .trace_timeout_ms = 60000, .replay_timeout_ms = 60000};
	struct verifier *v = NULL;
	struct verdict d;
	struct err err = {0};
	int lock;
	/* Others have a GPU of that name too. */
	setenv("HONE_LOCKS", folder, 1);
	if (verifier_create(&o, &v, &err)) fail_msg("%s", err.text);
	if (gpu_lock_take(NULL, "GPU-pretended-0", true, COLLECT_MS, &lock, &err)) fail_msg("%s", err.text);
	kind_submit(v, "timed", "where(x > 0.25, x * 3.0, x * 0.5)", false);
	kind_submit(v, "timed", "where(x > 0.25, x * 3.0, x * 1.5)", false);
	kind_submit(v, "no name", "where(x > 0.25, x * 3.0, x * 2.5)", false);
	int64_t id;
	if (verifier_collect(v, COLLECT_MS, &id, &d, &err)) fail_msg("while the GPU is kept: %s", err.text);
	gpu_lock_release(lock);
	if (d.class != VERDICT_INVALID) fail_msg("%s: %s", d.reason, d.detail);
	for (int i = 0; i < THREADS; i++) {
		if (verifier_collect(v, COLLECT_MS, &id, &d, &err)) fail_msg("%s", err.text);
		if (d.class != VERDICT_GENUINE || !d.device.timed) fail_msg("%s: %s", d.reason, d.detail);
	}
	verifier_free(v);
	unsetenv("HONE_LOCKS");
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_causes),
		cmocka_unit_test(test_blocks),
		cmocka_unit_test(test_profile),
		cmocka_unit_test(test_profiles_take_turns),
		cmocka_unit_test(test_choices),
		cmocka_unit_test(test_timed_alone),
		cmocka_unit_test(test_waits_leave_their_seats),
		cmocka_unit_test(test_final),
		cmocka_unit_test(test_final_without_the_tool),
	};
	move_beside(argv);
	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests_name("gpu verdicts", tests, set_up, tear_down);
}
