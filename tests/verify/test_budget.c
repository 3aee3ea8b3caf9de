/* timeout: 300. All compilations of one candidate share one budget of CPU time: many kernels that
 * would each stay below it do not together; one of them does. A single kernel that the compiler
 * does not finish in that time is told apart from one that the compiler dies of. */
#include "base/base.h"
#include "task/task.h"
#include "verify/verify.h"
#include <setjmp.h>
#include <stdlib.h>
#include <cmocka.h>
#include "grade_one.h"

#define BUDGET_MS 4000    /* one kernel takes well below, KERNELS of them well above, on any machine */
#define KERNELS "120"

#define CANDIDATE(count) \
	"import torch\nimport torch.nn as nn\nimport triton\nimport triton.language as tl\n\n\n" \
	"@triton.jit\ndef relu_kernel(x, y, n, BLOCK: tl.constexpr, K: tl.constexpr):\n" \
	"    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)\n" \
	"    v = tl.load(x + i, mask=i < n)\n" \
	"    tl.store(y + i, tl.maximum(v, 0.0) * 2 + (v + K - v - K) * 0 + 1, mask=i < n)\n\n\n" \
	"class ModelNew(nn.Module):\n    def forward(self, x):\n        y = torch.empty_like(x)\n" \
	"        for k in range(" count "):\n" \
	"            relu_kernel[(triton.cdiv(x.numel(), 256),)](x, y, x.numel(), BLOCK=256, K=k + 2)\n        return y\n"

/* Block sizes that the compiler unrolls for minutes. */
static const char HUGE_BLOCKS[] =
	"import torch\nimport torch.nn as nn\nimport triton\nimport triton.language as tl\n\n\n"
	"@triton.jit\ndef relu_kernel(x, y, n, B: tl.constexpr):\n"
	"    i = tl.arange(0, B)\n"
	"    at = i[:, None] * B + i[None, :]\n"
	"    a = tl.load(x + at, mask=at < n, other=0.0)\n"
	"    d = tl.dot(a, a, input_precision='ieee')\n"
	"    tl.store(y + at, tl.maximum(a, 0.0) * 2 + d * 0 + 1, mask=at < n)\n\n\n"
	"class ModelNew(nn.Module):\n    def forward(self, x):\n        y = torch.empty_like(x)\n"
	"        relu_kernel[(1,)](x, y, x.numel(), B=256)\n        return y\n";

static const char TASK[] =
	"import torch\nimport torch.nn as nn\nM = 16\nN = 256\n\n\nclass Model(nn.Module):\n    def forward(self, x):\n"
	"        return torch.relu(x) * 2 + 1\n\n\n"
	"def get_inputs():\n    return [torch.randn(M, N)]\n\n\ndef get_init_inputs():\n    return []\n";

static struct verifier *verifier;

static int set_up(void **state)
{
	struct err err = {0};
	struct verify_options o = {.threads = 1,
		.seed = 20240917,
		.trace_timeout_ms = 120000,
		.compile_timeout_ms = BUDGET_MS,
		.replay_timeout_ms = 60000};
	int rc = verifier_create(&o, &verifier, &err);
	if (rc) fprintf(stderr, "%s\n", err.text);
	return rc;
}

static int tear_down(void **state)
{
	verifier_free(verifier);
	return 0;
}

static void judge(const char *source, struct verdict *out)
{
	struct err err = {0};
	struct task task = {
		.name = (char *)(uintptr_t)"relu", .source = (char *)(uintptr_t)TASK, .hash = hash_bytes(TASK, strlen(TASK))};
	if (verifier_run(verifier, &task, source, strlen(source), out, &err)) fail_msg("%s", err.text);
}

static void test_one_kernel(void **state)
{
	struct verdict v;
	judge(CANDIDATE("1"), &v);
	if (v.class != VERDICT_GENUINE) fail_msg("%s: %s", v.reason, v.detail);
}

static void test_many_kernels(void **state)
{
	struct verdict v;
	judge(CANDIDATE(KERNELS), &v);
	assert_int_equal(v.class, VERDICT_INVALID);
	if (strcmp(v.reason, "timeout-compile")) fail_msg("%s: %s", v.reason, v.detail);
}

static void test_huge_blocks(void **state)
{
	struct verdict v;
	judge(HUGE_BLOCKS, &v);
	assert_int_equal(v.class, VERDICT_INVALID);
	if (strcmp(v.reason, "timeout-compile")) fail_msg("%s: %s", v.reason, v.detail);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_one_kernel), cmocka_unit_test(test_many_kernels), cmocka_unit_test(test_huge_blocks)};
	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests_name("budget", tests, set_up, tear_down);
}
