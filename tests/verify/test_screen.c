/* The screen: with it a verdict is what it is without it, and only what the first trial
 * finds right is compiled. */
#include "base/base.h"
#include "task/task.h"
#include "verify/verify.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <cmocka.h>
#include "grade_one.h"
#include "warm.h"

static const char TASK[] = "import torch\nimport torch.nn as nn\nN = 1000\n\n\nclass Model(nn.Module):\n"
						   "    def forward(self, x):\n        return torch.relu(x) * 2.0\n\n\n"
						   "def get_inputs():\n    return [torch.randn(N)]\n\n\n"
						   "def get_init_inputs():\n    return []\n";
/* %s: what is stored, the mask of the store, what forward returns */
#define CANDIDATE \
	"import torch\nimport torch.nn as nn\nimport triton\nimport triton.language as tl\n\n\n@triton.jit\n" \
	"def kernel(x, y, n, BLOCK: tl.constexpr):\n    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)\n" \
	"    v = tl.load(x + i, mask=i < n)\n    tl.store(y + i, %s, mask=%s)\n\n\n" \
	"class ModelNew(nn.Module):\n    def forward(self, x):\n        y = torch.empty_like(x)\n" \
	"        kernel[(triton.cdiv(x.numel(), 256),)](x, y, x.numel(), BLOCK=256)\n        return %s\n"

static const struct {
	const char *value, *mask, *result, *reason;
	bool is_compiled; /* with the screen */
} CASES[] = {
	{"tl.maximum(v, 0.0) * 2.0", "i < n", "y", "ok", true},
	{"tl.maximum(v, 0.0) * 2.5", "i < n", "y", "mismatch", false},
	{"tl.maximum(v, 0.1) * 2.0", "i < n", "y", "mismatch", false},
	{"tl.maximum(v, 0.0) * 2.0", "i < n + 64", "y", "out-of-bounds", false},
	{"tl.maximum(v * 2.0, 0.0)", "i < n", "y[:10]", "output-shape", false},
	/* right on the task's own inputs alone, which are below 8 */
	{"tl.where(v > 8.0, 0.0, tl.maximum(v, 0.0) * 2.0)", "i < n", "y", "fragile", true},
	/* torch has a part in it: it is judged as partial, without a screen */
	{"tl.maximum(v, 0.0)", "i < n", "y * 2.0", "right", true},
};

static struct verifier *verifier_for(bool screens)
{
	struct err err = {0};
	struct verifier *v = NULL;
	struct verify_options o = {.threads = 1, .seed = 11, .num_correct_trials = 5, .screens = screens};
	if (verifier_create(&o, &v, &err)) fail_msg("%s", err.text);
	return v;
}

/* One verdict, and how many compilations it took. */
static int64_t grade(struct verifier *v, size_t i, struct verdict *out)
{
	struct err err = {0};
	struct verify_times before, after;
	struct task task = {.name = (char *)"t", .source = (char *)(uintptr_t)TASK, .hash = hash_bytes(TASK, strlen(TASK))};
	char *source = xasprintf(CANDIDATE, CASES[i].value, CASES[i].mask, CASES[i].result);
	verifier_times(v, &before);
	if (verifier_run(v, &task, source, strlen(source), out, &err)) fail_msg("%s", err.text);
	verifier_times(v, &after);
	free(source);
	return after.processes[STEP_COMPILE] - before.processes[STEP_COMPILE];
}

static void test_same(void **state)
{
	struct verifier *with = verifier_for(true), *without = verifier_for(false);
	for (size_t i = 0; i < ARRAY_LEN(CASES); i++) {
		struct verdict a, b;
		int64_t compiled = grade(with, i, &a);
		assert_int_equal(grade(without, i, &b), 1);
		if (strcmp(b.reason, CASES[i].reason)) fail_msg("case %zu: %s: %s", i, b.reason, b.detail);
		/* All that a verdict says is the same, but for whether a wrong kernel compiles. */
		if (a.class != b.class || a.stage != b.stage || strcmp(a.reason, b.reason) || strcmp(a.detail, b.detail))
			fail_msg("case %zu: %s: %s; without a screen %s: %s", i, a.reason, a.detail, b.reason, b.detail);
		assert_true(a.trials == b.trials && a.trials_failed == b.trials_failed && a.line == b.line);
		assert_true(a.kernelbench == b.kernelbench && a.correct == b.correct);
		assert_memory_equal(&a.cost_s, &b.cost_s, sizeof a.cost_s); /* NaN is the same, too */
		assert_memory_equal(&a.error_max, &b.error_max, sizeof a.error_max);
		assert_int_equal(compiled, CASES[i].is_compiled);
		assert_int_equal(a.compiled, CASES[i].is_compiled);
	}
	verifier_free(with);
	verifier_free(without);
}

int main(int argc, char **argv)
{
	run_warm(argv[0], NULL);
	cmocka_set_message_output(CM_OUTPUT_TAP);
	const struct CMUnitTest tests[] = {cmocka_unit_test(test_same)};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
