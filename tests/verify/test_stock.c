/* timeout: 600. Values at the task's own sizes, where the vm has judged smaller ones: the whole
 * way of such a trial over a GPU that is none (pretend_gpu.c), with the task's process on the
 * CPU and memfds in the place of memory on the GPU. What goes wrong there alone is found, what
 * cannot be tried is said. */
#include "base/base.h"
#include "task/task.h"
#include "verify/verify.h"
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <unistd.h>
#include <cmocka.h>
#include "pretend_beside.h"

#define COLLECT_MS 120000

/* A parameter that the candidate calls otherwise, so that its values at the task's own
 * sizes have to be found. */
static const char TASK[] =
	"import torch\nimport torch.nn as nn\n# Judged at M=8\nM = %d\nN = 48\nCALLS = []\n\n\nclass Model(nn.Module):\n"
	"    def __init__(self, n):\n        super().__init__()\n        self.gain = nn.Parameter(torch.linspace(0.5, 2, "
	"n))\n\n"
	"    def forward(self, x):\n        return x * self.gain%s + 0.3\n\n\n"
	"def get_inputs():\n    return [torch.rand(M, N)]\n\n\ndef get_init_inputs():\n    return [N]\n";
static const char CANDIDATE[] =
	"import torch\nimport torch.nn as nn\nimport triton\nimport triton.language as tl\n\n\n"
	"@triton.jit\ndef %s_kernel(p, w, y, n, more, N: tl.constexpr, B: tl.constexpr):\n"
	"    i = tl.program_id(0) * B + tl.arange(0, B)\n    x = tl.load(p + i, mask=i < n, other=0.0)\n"
	"    tl.store(y + i, x * tl.load(w + i %% N) + more, mask=i < n)\n\n\n"
	"class ModelNew(nn.Module):\n    def __init__(self, n):\n        super().__init__()\n"
	"        self.w = nn.Parameter(%s)\n\n    def forward(self, x):\n        y = torch.empty_like(x)\n"
	"        n = x.numel()\n        more = %s\n"
	"        %s_kernel[(triton.cdiv(n, 64),)](x, self.w, y, n, more, N=x.shape[1], B=64)\n        return y\n";

#define SAME "torch.linspace(0.5, 2, n)"

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

static void grade(struct verifier *v, int rows, const char *reference, const char *kind, const char *parameter,
	const char *more, struct verdict *out)
{
	char *text = xasprintf(TASK, rows, reference), *source = xasprintf(CANDIDATE, kind, parameter, more, kind);
	struct task task = {.name = (char *)(uintptr_t)"stock", .source = text, .hash = hash_bytes(text, strlen(text))};
	struct verify_request r = {.task = &task, .source = source, .source_len = strlen(source)};
	struct err err = {0};
	int64_t id;
	if (verifier_submit(v, &r, &err) || verifier_collect(v, COLLECT_MS, &id, out, &err)) fail_msg("%s", err.text);
	free(source);
	free(text);
}

static void test_verdicts(void **state)
{
	static const struct {
		const char *what, *reference, *kind, *parameter, *more, *verdict, *word;
		int rows, trials;
		const char *why;
	} cases[] = {
		{"right", "", "plain", SAME, "0.3", "genuine/ok", "", 96, 3, ""},
		{"judged at its own size: nothing is left", "", "plain", SAME, "0.3", "genuine/ok", "", 8, 0, ""},
		/* The last element is off where no trial of the vm was. */
		{"off at the end", "", "tail", SAME, "0.3", "wrong/gpu-mismatch", "first at [95, 47]", 96, 1, ""},
		/* A number that host code makes of the size and the kernel computes with. */
		{"off by the size", "", "plain", SAME, "0.3 + x.shape[0] ** 2 * 1e-7", "wrong/gpu-mismatch",
			"4608 of 4608 elements differ", 96, 1, ""},
		/* Right with what the task makes, wrong with other values. */
		{"off below -2", "", "below", SAME, "0.3", "wrong/fragile", "sign-mixed", 96, 2, ""},
		{"no way to share", "", "closed", SAME, "0.3", "", "", 96, 0, "it cannot be mapped"},
		/* The reference computes with what it has drawn, which no other process can draw again. */
		{"a reference that cannot be computed there", " * (1.0 if x.shape[0] < 50 else 1 / (x.shape[0] - 96))", "plain",
			SAME, "0.3", "", "", 96, 0, "ZeroDivisionError"},
	};
	struct verifier *v = verifier_make();
	int failed = 0;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct verdict d;
		char said[128];
		grade(v, cases[i].rows, cases[i].reference, cases[i].kind, cases[i].parameter, cases[i].more, &d);
		snprintf(said, sizeof said, "%s/%s", verdict_class_name(d.class), d.reason);
		const char *want = cases[i].verdict;
		bool is_right = (!want[0] || !strcmp(said, want)) && strstr(d.detail, cases[i].word) &&
			d.device.stock_trials == cases[i].trials && (cases[i].why[0] != 0) == (d.device.stock_why[0] != 0) &&
			strstr(d.device.stock_why, cases[i].why);
		if (!is_right)
			print_error("%s: %s: %s; %d trials there, %s\n", cases[i].what, said, d.detail, d.device.stock_trials,
				d.device.stock_why);
		failed += !is_right;
	}
	assert_int_equal(failed, 0);
	verifier_free(v);
}

/* The task's process waits for the next candidate, also behind a wrong one: a reference that
 * counts its calls at the task's own size, two in each trial, gives up at the seventh. Another
 * task has a process of its own. */
static void test_waits(void **state)
{
#define COUNTED(most) \
	" * (1.0 if x.shape[0] < 50 or CALLS.append(1) is None and len(CALLS) <= " #most " else 1 / (x.shape[0] - 96))"
	/* "6 + 0" is another text than "6", so another task. */
	static const struct {
		const char *reference, *kind, *verdict;
		int trials;
		bool gives_up;
	} rounds[] = {{COUNTED(6), "plain", "genuine/ok", 3, false}, {COUNTED(6), "plain_too", "", 0, true},
		{COUNTED(6 + 0), "plain", "genuine/ok", 3, false}, {COUNTED(7 + 0), "tail", "wrong/gpu-mismatch", 1, false},
		{COUNTED(7 + 0), "plain", "", 2, true}};
	struct verifier *v = verifier_make();
	int failed = 0;
	for (size_t i = 0; i < ARRAY_LEN(rounds); i++) {
		struct verdict d;
		char said[128];
		grade(v, 96, rounds[i].reference, rounds[i].kind, SAME, "0.3", &d);
		snprintf(said, sizeof said, "%s/%s", verdict_class_name(d.class), d.reason);
		bool gives_up = strstr(d.device.stock_why, "ZeroDivision") != NULL,
			 is_right = (!rounds[i].verdict[0] || !strcmp(said, rounds[i].verdict)) &&
			d.device.stock_trials == rounds[i].trials && gives_up == rounds[i].gives_up;
		if (!is_right)
			print_error("round %zu: %s: %s; %d trials there, %s\n", i, said, d.detail, d.device.stock_trials,
				d.device.stock_why);
		failed += !is_right;
	}
	assert_int_equal(failed, 0);
	verifier_free(v);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(test_verdicts), cmocka_unit_test(test_waits)};
	setenv("CUDA_VISIBLE_DEVICES", "cpu", 1);
	move_beside(argv);
	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests_name("stock", tests, NULL, NULL);
}
