/* A fault of our own code in a process that runs a task's reference is `infra` with its words, and
 * is taken neither for the task's nor for something that the reference does not allow. Errors are
 * planted in a copy of the workers' folder. timeout: 600 (each copy has zygotes of its own) */
#include "base/base.h"
#include "task/task.h"
#include "verify/verify.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <unistd.h>
#include <cmocka.h>
#include "grade_one.h"

#define TASK(forward) "import torch\nimport torch.nn as nn\nN = 1000\n\nclass Model(nn.Module):\n" \
	"    def forward(self, x):\n        " forward "\n\ndef get_inputs():\n    return [torch.randn(N)]\n\n" \
	"def get_init_inputs():\n    return []\n"
static const char candidate[] =
	"import torch\nimport torch.nn as nn\nimport triton\nimport triton.language as tl\n\n@triton.jit\n"
	"def kernel(x, y, n, B: tl.constexpr):\n    i = tl.program_id(0) * B + tl.arange(0, B)\n"
	"    v = tl.load(x + i, mask=i < n)\n    tl.store(y + i, tl.where(v > 3.21, v, tl.maximum(v, 0.0)), mask=i < n)\n\n"
	"class ModelNew(nn.Module):\n    def forward(self, x):\n        y, n = torch.empty_like(x), x.numel()\n"
	"        if n > 3000:\n            y = torch.empty_like(x)\n"
	"        kernel[((n + 255) // 256,)](x, y, n, B=256)\n        return y\n";

static struct verifier *started(const char *root)
{
	struct err err = {0};
	struct verifier *v = NULL;
	struct verify_options o = {.root = root, .threads = 1, .seed = 5, .skip_compile = true};
	if (verifier_create(&o, &v, &err)) fail_msg("%s", err.text);
	return v;
}

static void grade(struct verifier *v, const char *source, struct verdict *d)
{
	struct err err = {0};
	struct task task = {
		.source = xstrdup(source), .name = xstrdup("t"), .structure = xstrdup(""), .split = xstrdup("")};
	task.hash = hash_bytes(source, strlen(source));
	if (verifier_run(v, &task, candidate, strlen(candidate), d, &err)) fail_msg("%s", err.text);
	free(task.source);
	free(task.name);
	free(task.structure);
	free(task.split);
}

/* The verdict by workers in which `edit`, a command of sed's for one file, was made. */
static void grade_planted(const char *file, const char *edit, struct verdict *d)
{
	char folder[] = "/tmp/own-faults-XXXXXX", command[1024];
	assert_non_null(mkdtemp(folder));
	/* Workers do not run as root, so the folder is everybody's. */
	snprintf(command, sizeof command,
		"chmod 755 %s && cp -r worker %s/ && sed -i '%s' %s/worker/%s && ! cmp -s worker/%s %s/worker/%s", folder,
		folder, edit, folder, file, file, folder, file);
	if (system(command)) fail_msg("nothing was planted: %s", command);
	struct verifier *v = started(folder);
	grade(v, TASK("return torch.relu(x)"), d);
	verifier_free(v);
	snprintf(command, sizeof command, "rm -rf %s", folder);
	assert_int_equal(system(command), 0);
}

static void test_ours(void **state)
{
	static const struct {
		const char *file, *edit, *words;
	} CASES[] = {
		/* A name that moved, in what all trials pass; inside a search for sizes; where guided
		 * trials are made, and looked at; where sizes are that a candidate names. */
		{"oracle.py", "s/    attempts = oracle_inputs.attempts/    kind != \"heavy-tail\" or oracle_inputs.moved\\n&/",
			"has no attribute"},
		{"oracle.py", "s/^def find_strided(source, job, stock, seed):/&\\n    budget = moved/", "NameError"},
		{"oracle_guided.py", "s/return None if call is None else/return moved if call is None else moved or/",
			"NameError"},
		{"oracle_guided.py", "s/oracle_usable.is_finite(/oracle_usable.moved(/", "has no attribute"},
		{"oracle_sized.py", "s/return oracle.trial_name(distribution, positive, 0), r/return moved, r/", "NameError"},
		/* A call that does not fit, an object that lacks something. */
		{"oracle_guided.py", "s/is_good(variant, r) and turns_plain(variant, trial)/is_good(variant) and True/",
			"is_good() missing 1 required"},
		{"oracle_sized.py", "s/is_finite(r, variant.usual)/is_finite(r, variant.moved)/", "has no attribute"},
	};
	for (size_t i = 0; i < ARRAY_LEN(CASES); i++) {
		struct verdict d;
		grade_planted(CASES[i].file, CASES[i].edit, &d);
		if (d.class != VERDICT_INFRA || strcmp(d.reason, "infra") || !strstr(d.detail, CASES[i].words) ||
			!strstr(d.detail, CASES[i].file))
			fail_msg(
				"%s, %s: %s/%s: %s", CASES[i].file, CASES[i].edit, verdict_class_name(d.class), d.reason, d.detail);
	}
}

/* The same kinds of exceptions from a task's text, or from torch for its sake, are the task's;
 * where only some sizes have them these are left out. */
static void test_theirs(void **state)
{
	static const char *const broken[] = {TASK("return moved(x)"), TASK("return torch.relu(x.moved)"),
		TASK("return torch.moved(x)"), TASK("return torch.relu(x, x, x, x)"),
		TASK("assert x.numel() < 0\n        return x"), TASK("import moved\n        return x"),
		TASK("return (lambda a: a)(x, x)")};
	static const char *const right[] = {
		TASK("return torch.relu(x) if x.numel() % 4 else torch.relu(x) + 0 * len(\"\")"),
		TASK("return torch.relu(x) if x.numel() == 1000 else moved"),
		TASK("return torch.relu(x) if x.max() < 100 else moved")};
	struct verifier *v = started(NULL);
	struct verdict d;
	for (size_t i = 0; i < ARRAY_LEN(broken); i++) {
		grade(v, broken[i], &d);
		if (d.class != VERDICT_INFRA || strcmp(d.reason, "task-broken"))
			fail_msg("%s: %s/%s: %s", broken[i], verdict_class_name(d.class), d.reason, d.detail);
	}
	for (size_t i = 0; i < ARRAY_LEN(right); i++) {
		grade(v, right[i], &d);
		if (strcmp(d.reason, "compile-skipped")) fail_msg("%s: %s: %s", right[i], d.reason, d.detail);
	}
	verifier_free(v);
}

int main(void)
{
	cmocka_set_message_output(CM_OUTPUT_TAP);
	const struct CMUnitTest tests[] = {cmocka_unit_test(test_theirs), cmocka_unit_test(test_ours)};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
