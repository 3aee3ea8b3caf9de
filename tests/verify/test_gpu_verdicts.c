/* What the verifier makes of a GPU that disagrees with the vm, of a final best, and of tools: over a runner whose GPU
 * is the vm under another name (pretend_gpu.c), which goes wrong in the way that a kernel's name says. Each rule of
 * gpu_cause.c has a case that it excuses and one, a line apart, that it must not. */
#include "base/base.h"
#include "task/task.h"
#include "verify/verify.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>
#include <cmocka.h>

#define COLLECT_MS 120000

static const char TASK[] =
	"import torch\nimport torch.nn as nn\nM = 8\nN = 48\n\n\nclass Model(nn.Module):\n    def forward(self, x):\n"
	"        return x * 1.7 + 0.3 + torch.%s\n\n\n"
	"def get_inputs():\n    return [torch.rand(M, N)]\n\n\ndef get_init_inputs():\n    return []\n";
static const char CANDIDATE[] =
	"import torch\nimport torch.nn as nn\nimport triton\nimport triton.language as tl\n\n\n"
	"@triton.jit\ndef %s_kernel(p, y, n, B: tl.constexpr):\n    i = tl.program_id(0) * B + tl.arange(0, B)\n"
	"    x = tl.load(p + i, mask=i < n, other=0.0)\n"
	"    if n < 0:\n        x = tl.where(x == %s, 0.0, x)\n"
	"    tl.store(y + i, x * 1.7 + 0.3 + tl.%s, mask=i < n)\n\n\n"
	"class ModelNew(nn.Module):\n    def forward(self, x):\n        y = torch.empty_like(x)\n"
	"        %s_kernel[(triton.cdiv(x.numel(), 64),)](x, y, x.numel(), B=128 if x.shape[0] < 40 else 64)\n        "
	"return y\n";

/* Its sides have 1234.5 tried, and in the same trial the numbers next to zero. */
#define CHOICE "where((x > 0.0) & (x == 1234.5), x, x * 0.5) + (x > 0.0) * 1.0"
/* One operation that the vm has no reason to try 1234.5 for. */
#define HIDDEN "where(x > 0.375, x * 3.0, x * 0.5)"
#define STEP "where(x > 0.25, x * 3.0, x * 0.5)"

static char folder[64] = "/tmp/hone-gpu-verdicts-XXXXXX";
static char *path_was;

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

static int set_up(void **state)
{
	if (!mkdtemp(folder)) return -1;
	chmod(folder, 0755);
	path_was = xstrdup(getenv("PATH"));
	char *path = xasprintf("%s:%s", folder, path_was);
	sanitizer_write("========= ERROR SUMMARY: 0 errors");
	setenv("PATH", path, 1);
	free(path);
	return 0;
}

static int tear_down(void **state)
{
	setenv("PATH", path_was, 1);
	free(path_was);
	return dir_remove(folder, NULL);
}

static struct verifier *verifier_make(void)
{
	struct verify_options o = {.device = "cuda",
		.threads = 1,
		.seed = 7,
		.skip_timing = true,
		.trace_timeout_ms = 60000,
		.replay_timeout_ms = 60000};
	struct verifier *v = NULL;
	struct err err = {0};
	if (verifier_create(&o, &v, &err)) fail_msg("%s", err.text);
	return v;
}

/* The candidate whose kernel is named so, with one operation of its own, which torch and Triton write alike. */
static void grade_kind(struct verifier *v, const char *kind, const char *test, bool is_final, struct verdict *out)
{
	/* In a branch that the vm never takes. */
	const char *hidden = strcmp(test, HIDDEN) ? "77.125" : "1234.5";
	char *text = xasprintf(TASK, test), *source = xasprintf(CANDIDATE, kind, hidden, test, kind);
	struct task task = {.name = (char *)(uintptr_t)"pretended", .source = text, .hash = hash_bytes(text, strlen(text))};
	struct verify_request r = {.task = &task, .source = source, .source_len = strlen(source), .is_final = is_final};
	struct err err = {0};
	int64_t id;
	if (verifier_submit(v, &r, &err) || verifier_collect(v, COLLECT_MS, &id, out, &err)) fail_msg("%s", err.text);
	free(source);
	free(text);
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
		/* Off among large numbers, and as it is written too. */
		{"large", STEP, "wrong/", "contraction does not excuse it: wrong without it too", false, false},
		{"off", STEP, "wrong/gpu-mismatch", "right on the vm, but not on the GPU", false, false},
		{"late", STEP, "wrong/gpu-unstable", "wrong in the next", false, false},
		{"wild", STEP, "wrong/gpu-out-of-bounds", "illegal address", false, false},
	};
	struct verifier *v = verifier_make();
	int failed = 0;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct verdict d;
		char said[128];
		grade_kind(v, cases[i].kind, cases[i].test, false, &d);
		snprintf(said, sizeof said, "%s/%s", verdict_class_name(d.class), d.reason);
		bool is_wrong = d.class == VERDICT_WRONG, is_unstable = d.device.repeat == REPEAT_UNSTABLE,
			 is_right = !strncmp(said, cases[i].verdict, strlen(cases[i].verdict)) && strstr(d.detail, cases[i].word) &&
			(d.device.subnormal > 0) == cases[i].subnormal && (d.device.contracted > 0) == cases[i].contracted &&
			(d.device.disagreements == is_wrong || is_unstable);
		if (!is_right)
			print_error("%s: %s: %s; %d subnormal, %d contracted, %d disagreements\n", cases[i].kind, said, d.detail,
				d.device.subnormal, d.device.contracted, d.device.disagreements);
		failed += !is_right;
	}
	assert_int_equal(failed, 0);
	verifier_free(v);
}

/* An ordinary answer runs under no tool, a final best under all three, and each has its own place among known ones. */
static void test_final(void **state)
{
	struct verifier *v = verifier_make();
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
	grade_kind(v, "plain", "floor(x * 2.0)", true, &d);
	assert_int_equal(d.class, VERDICT_WRONG);
	assert_string_equal(d.reason, "gpu-sanitizer");
	assert_int_equal(d.device.sanitized[SANITIZER_MEMCHECK], 3);
	assert_int_equal(d.device.sanitized[SANITIZER_RACECHECK], -1);
	grade_kind(v, "plain", "floor(x * 2.0)", false, &d);
	assert_int_equal(d.class, VERDICT_GENUINE);
	verifier_free(v);
}

/* Without the tool a final best is judged all the same, and the record says what is missing. */
static void test_final_without_the_tool(void **state)
{
	struct verdict d;
	setenv("PATH", "/nonexistent", 1);
	struct verifier *v = verifier_make();
	setenv("PATH", path_was, 1);
	grade_kind(v, "plain", STEP, true, &d);
	assert_int_equal(d.class, VERDICT_GENUINE);
	assert_non_null(strstr(d.device.sanitizer, "not found"));
	verifier_free(v);
}

/* The verifier takes the runner of its program's own folder, so this program runs from beside the pretended one. */
static void move_beside(char **argv)
{
	char self[4096] = "", place[4200];
	assert_true(readlink("/proc/self/exe", self, sizeof self - 1) > 0);
	char *slash = strrchr(self, '/');
	if (slash - self >= 8 && !strncmp(slash - 8, "/pretend", 8)) return;
	snprintf(place, sizeof place, "%.*s/pretend%s", (int)(slash - self), self, slash);
	/* There it is too deep to find Python by itself. */
	char *python = path_python();
	if (python) setenv("HONE_PYTHON", python, 0);
	free(python);
	unlink(place);
	if (link(self, place)) fail_msg("linking %s beside the pretended runner", self);
	execv(place, argv);
	fail_msg("starting %s", place);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_causes),
		cmocka_unit_test(test_final),
		cmocka_unit_test(test_final_without_the_tool),
	};
	move_beside(argv);
	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests_name("gpu verdicts", tests, set_up, tear_down);
}
