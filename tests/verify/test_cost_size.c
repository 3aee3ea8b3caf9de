/* Costs at other sizes than the judged ones: the same numbers as a task of those sizes has by
 * itself, no time for what is another program there, or depends on data. */
#include "base/base.h"
#include "task/task.h"
#include "verify/verify.h"
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <cmocka.h>
#include "grade_one.h"
#include "warm.h"

#define TASK(rows) "import torch\nimport torch.nn as nn\n\nbatch_size = " rows "\ndim = 256\n\n\n" \
	"class Model(nn.Module):\n" \
	"    def forward(self, x):\n        return torch.softmax(x * 2.0, dim=-1)\n\n\ndef get_inputs():\n" \
	"    return [torch.randn(batch_size, dim)]\n\n\ndef get_init_inputs():\n    return []\n"

/* %s: the grid, what comes first in the kernel, the number of columns that it reads. */
#define CANDIDATE \
	"import torch\nimport torch.nn as nn\nimport triton\nimport triton.language as tl\n\n\n@triton.jit\n" \
	"def row(x, y, n, BLOCK: tl.constexpr):\n    r = tl.program_id(0)\n    i = tl.arange(0, BLOCK)\n" \
	"    v = tl.load(x + r * n + i, mask=i < n, other=-float(\"inf\")) * 2.0\n%s" \
	"    e = tl.exp(v - tl.max(v, axis=0))\n    tl.store(y + r * n + i, e / tl.sum(e, axis=0), mask=i < n)\n\n\n" \
	"class ModelNew(nn.Module):\n    def forward(self, x):\n        x = x.contiguous()\n" \
	"        y = torch.empty_like(x)\n" \
	"        rows = x.numel() // x.shape[-1]\n%s        return y\n"
#define LAUNCH "        row[(rows,)](x, y, x.shape[-1], BLOCK=triton.next_power_of_2(x.shape[-1]))\n"

static struct verdict grade_one(struct verifier *v, const char *task_text, const char *body, const char *launch)
{
	struct err err = {0};
	struct verdict d;
	struct task task = {
		.name = (char *)"t", .source = (char *)task_text, .hash = hash_bytes(task_text, strlen(task_text))};
	char *source = xasprintf(CANDIDATE, body, launch);
	if (verifier_run(v, &task, source, strlen(source), &d, &err)) fail_msg("%s", err.text);
	if (d.class != VERDICT_GENUINE) fail_msg("%s: %s", d.reason, d.detail);
	free(source);
	return d;
}

static struct verifier *verifier_for(const char *cost_size)
{
	struct err err = {0};
	struct verifier *v = NULL;
	struct verify_options o = {.threads = 1, .seed = 11, .num_correct_trials = 4, .cost_size = cost_size};
	if (verifier_create(&o, &v, &err)) fail_msg("%s", err.text);
	return v;
}

static struct verifier *judged; /* with times at the judged sizes */

static int set_up(void **state)
{
	judged = verifier_for(NULL);
	return 0;
}

static int tear_down(void **state)
{
	verifier_free(judged);
	return 0;
}

static void test_sizes(void **state)
{
	/* 64 rows of 256, judged as they are */
	struct verdict there = grade_one(judged, TASK("64"), "", LAUNCH);
	assert_true(there.cost_s > 0 && !there.cost_size[0] && there.cost_error == 0);
	/* and 16 rows, with costs at 2^14 elements */
	struct verifier *v = verifier_for("16384");
	struct verdict d = grade_one(v, TASK("16"), "", LAUNCH);
	assert_string_equal(d.cost_size, "batch_size 64, stock 16");
	assert_string_equal(d.not_predicted, "");
	assert_true(
		d.cost_s == there.cost_s && d.eager_cost_s == there.eager_cost_s && d.fused_cost_s == there.fused_cost_s);
	assert_true(d.bytes == there.bytes && d.programs == there.programs && d.sectors == there.sectors);
	/* less work where there are many programs */
	d = grade_one(v, TASK("16"),
		"    if tl.num_programs(0) > n // 8 + 8:\n        v = tl.load(x + i, mask=i < n, other=0.0)\n", LAUNCH);
	if (!strstr(d.not_predicted, "other branches")) fail_msg("%s", d.not_predicted);
	/* a loop whose end is a number in memory */
	d = grade_one(v, TASK("16"),
		"    turns = tl.minimum(tl.maximum(tl.load(x).to(tl.int32), 1), 1)\n    for _ in range(0, turns):\n        v = "
		"v + 0.0\n",
		LAUNCH);
	if (!strstr(d.not_predicted, "depends on data")) fail_msg("%s", d.not_predicted);
	verifier_free(v);
}

#define HIDDEN "2 ** sum(map(int, \"994\"))"

/* What is right as judged and not at the size of the cost has no time there: from 2^22 elements on,
 * more than a trial of other sizes may have. */
static void test_other_work_has_no_cost(void **state)
{
	struct verifier *v = verifier_for("8388608");
	/* a grid that does not grow with its input */
	struct verdict d = grade_one(
		v, TASK("16"), "", "        if x.numel() > " HIDDEN ":\n            rows = 100\n" LAUNCH);
	if (!strstr(d.not_predicted, "bytes of output 0 are written")) fail_msg("%s", d.not_predicted);
	assert_true(isnan(d.cost_s) && isnan(d.speedup_fused));
	/* another kernel there */
	d = grade_one(v, TASK("16"), "", "        if x.numel() > " HIDDEN ":\n            y.zero_()\n" LAUNCH);
	if (!strstr(d.not_predicted, "other work")) fail_msg("%s", d.not_predicted);
	verifier_free(v);
}

/* What forward computes of constants costs what it moves; made once, it is free. */
static void test_constants(void **state)
{
	struct verifier *v = judged;
	double none = grade_one(v, TASK("64"), "", LAUNCH).cost_s;
	double once = grade_one(v, TASK("64"), "",
		"        if not hasattr(self, 'kept'):\n            self.kept = torch.arange(4000, device=x.device) * "
		"2\n" LAUNCH)
					  .cost_s;
	double each = grade_one(v, TASK("64"), "", "        t = torch.arange(4000, device=x.device) * 2\n" LAUNCH).cost_s;
	double product = grade_one(
		v, TASK("64"), "", "        t = torch.ones(900, 900, device=x.device) * 0.5\n        t = t @ t\n" LAUNCH)
						 .cost_s;
	assert_true(once == none);
	/* Two operators are two launches of at least a microsecond; 2 * 900^3 operations take 28 of
	 * them at the card's peak. */
	assert_true(each > none + 2e-6 && each < none + 20e-6);
	assert_true(product > none + 20e-6);
}

/* What is no size is said before anything starts. */
static void test_options(void **state)
{
	static const char *const bad[] = {"", "large", "-1", "0", "12x", "1234567890123"};
	for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
		struct err err = {0};
		struct verifier *v = NULL;
		struct verify_options o = {.cost_size = bad[i]};
		assert_int_equal(verifier_create(&o, &v, &err), ERR_USAGE);
		assert_non_null(strstr(err.text, "cost_size"));
	}
}

int main(int argc, char **argv)
{
	run_warm(argv[0], NULL);
	cmocka_set_message_output(CM_OUTPUT_TAP);
	const struct CMUnitTest tests[] = {cmocka_unit_test(test_options), cmocka_unit_test(test_sizes),
		cmocka_unit_test(test_other_work_has_no_cost), cmocka_unit_test(test_constants)};
	return cmocka_run_group_tests(tests, set_up, tear_down);
}
