/* timeout: 600. Verdicts of a GPU that are kept, and tapes that a GPU's runner is given one after
 * another: over a GPU that is none (pretend_gpu.c). And how many verdicts are kept in memory. */
#include "base/base.h"
#include "store/store.h"
#include "task/task.h"
#include "verify/verify.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <unistd.h>
#include <cmocka.h>
#include "pretend_beside.h"

#define COLLECT_MS 300000

static const char TASK[] =
	"import torch\nimport torch.nn as nn\nM = 8\nN = 48\n\n\nclass Model(nn.Module):\n    def forward(self, x):\n"
	"        return x * 1.7 + 0.3\n\n\n"
	"def get_inputs():\n    return [torch.rand(M, N)]\n\n\ndef get_init_inputs():\n    return []\n";
/* Its host code names sizes, so that it is judged at several, each with a tape of its own. */
static const char CANDIDATE[] =
	"import torch\nimport torch.nn as nn\nimport triton\nimport triton.language as tl\n\n\n"
	"@triton.jit\ndef %s_kernel(p, y, n, B: tl.constexpr):\n    i = tl.program_id(0) * B + tl.arange(0, B)\n"
	"    tl.store(y + i, tl.load(p + i, mask=i < n, other=0.0) * 1.7 + 0.3, mask=i < n)\n\n\n"
	"class ModelNew(nn.Module):\n    def forward(self, x):\n        y = torch.empty_like(x)\n%s"
	"        %s_kernel[(triton.cdiv(x.numel(), 64),)](x, y, x.numel(), B=64)\n        return y\n";
#define NAMES_SIZES \
	"        if x.shape[0] > 70 or x.shape[0] > 90 or x.shape[1] > 100 or x.shape[1] > 120:\n" \
	"            y = torch.empty_like(y)\n"

static const char *final_references; /* of the verifiers that are made next */

static struct verifier *verifier_make(const char *device, const char *gpu, struct store *store)
{
	struct verify_options o = {.device = device,
		.gpu = gpu,
		.final_references = final_references,
		.threads = 1,
		.seed = 7,
		.skip_timing = true,
		.store = store,
		.trace_timeout_ms = 60000,
		.replay_timeout_ms = 60000};
	struct verifier *v = NULL;
	struct err err = {0};
	if (verifier_create(&o, &v, &err)) fail_msg("%s", err.text);
	return v;
}

static void grade_as(struct verifier *v, const char *kind, const char *sizes, bool is_final, struct verdict *out)
{
	char *source = xasprintf(CANDIDATE, kind, sizes, kind);
	struct task task = {
		.name = (char *)(uintptr_t)"kept", .source = (char *)(uintptr_t)TASK, .hash = hash_bytes(TASK, strlen(TASK))};
	struct verify_request r = {.task = &task, .source = source, .source_len = strlen(source), .is_final = is_final};
	struct err err = {0};
	int64_t id;
	if (verifier_submit(v, &r, &err) || verifier_collect(v, COLLECT_MS, &id, out, &err)) fail_msg("%s", err.text);
	free(source);
}

static void grade(struct verifier *v, const char *kind, const char *sizes, struct verdict *out)
{
	grade_as(v, kind, sizes, false, out);
}

/* Tapes of sizes that a candidate names come and go, so that one lies where another lay that is
 * gone: the runner is given each of them, and not asked for the values of the one before. */
static void tapes_come_and_go(struct verifier *v)
{
	struct verdict d;
	grade(v, "plain", NAMES_SIZES, &d);
	if (d.class != VERDICT_GENUINE || d.sized < 3 || d.device.disagreements || d.device.trials < d.trials)
		fail_msg(
			"%s: %s; %d sizes, %d of %d trials on the GPU", d.reason, d.detail, d.sized, d.device.trials, d.trials);
}

/* A verdict serves another process with the same GPU, right and wrong ones alike, and says that it
 * was kept. It does not serve for another card, for the same GPU as another card, or for the vm
 * alone, and a final best's not where other references stand beside it. */
static void test_kept(void **state)
{
	static const struct {
		const char *device, *gpu;
		bool is_kept;
	} later[] = {{"cuda", NULL, true}, {"cuda", "a100", false}, {"cpu", NULL, false}};
	char path[] = "/tmp/hone-gpu-kept-XXXXXX", lock[sizeof path + 8];
	struct store *store = NULL;
	struct err err = {0};
	struct verdict right, wrong, d;
	assert_true(close(mkstemp(path)) == 0 && unlink(path) == 0);
	if (store_open(path, &store, &err)) fail_msg("%s", err.text);
	struct verifier *v = verifier_make("cuda", NULL, store);
	/* A right and a wrong one are graded, and kept. */
	grade(v, "plain", "", &right);
	grade(v, "off", "", &wrong);
	if (right.class != VERDICT_GENUINE || wrong.class != VERDICT_WRONG) fail_msg("%s; %s", right.detail, wrong.detail);
	assert_false(right.cached || wrong.cached);
	tapes_come_and_go(v);
	/* A final best is graded anew. */
	grade_as(v, "plain", "", true, &d);
	if (d.cached || d.class != VERDICT_GENUINE) fail_msg("final: kept %d: %s", d.cached, d.detail);
	verifier_free(v);

	/* Later verifiers over the same store: only the same GPU as itself has them. */
	for (size_t i = 0; i < ARRAY_LEN(later); i++) {
		v = verifier_make(later[i].device, later[i].gpu, store);
		grade(v, "plain", "", &d);
		if (d.cached != later[i].is_kept || d.class != VERDICT_GENUINE)
			fail_msg(
				"%s as %s: kept %d: %s", later[i].device, later[i].gpu ? later[i].gpu : "itself", d.cached, d.detail);
		grade(v, "off", "", &d);
		if (d.cached != later[i].is_kept) fail_msg("a wrong one, %zu: kept %d", i, d.cached);
		if (later[i].is_kept) grade_as(v, "plain", "", true, &d);
		if (d.cached != later[i].is_kept) fail_msg("a final best, %zu: kept %d", i, d.cached);
		verifier_free(v);
	}
	/* Where other references stand beside it a final best is graded anew. */
	final_references = "eager";
	v = verifier_make("cuda", NULL, store);
	grade_as(v, "plain", "", true, &d);
	if (d.cached || d.class != VERDICT_GENUINE) fail_msg("other references: kept %d: %s", d.cached, d.detail);
	verifier_free(v);
	final_references = NULL;
	store_close(store);
	snprintf(lock, sizeof lock, "%s-lock", path);
	unlink(path);
	unlink(lock);
}

/* Whether the verdict of a candidate that is no Python, and needs no process, was kept. */
static bool is_kept(struct verifier *v, int number)
{
	char source[32];
	struct task task = {
		.name = (char *)(uintptr_t)"kept", .source = (char *)(uintptr_t)TASK, .hash = hash_bytes(TASK, strlen(TASK))};
	struct verify_request r = {.task = &task, .source = source};
	struct verdict d;
	struct err err = {0};
	int64_t id;
	r.source_len = (size_t)snprintf(source, sizeof source, "def f%d(:\n", number);
	if (verifier_submit(v, &r, &err) || verifier_collect(v, COLLECT_MS, &id, &d, &err)) fail_msg("%s", err.text);
	if (d.class != VERDICT_INVALID) fail_msg("%d: %s: %s", number, d.reason, d.detail);
	return d.cached;
}

/* As many as were asked for are kept in memory, whatever their keys: the last ones. */
static void test_last_ones(void **state)
{
	enum { KEPT = 64 };
	struct verify_options o = {.device = "cpu", .threads = 1, .num_kept = KEPT};
	struct verifier *v = NULL;
	struct err err = {0};
	if (verifier_create(&o, &v, &err)) fail_msg("%s", err.text);
	for (int i = 0; i < 2 * KEPT; i++)
		if (is_kept(v, i)) fail_msg("%d was kept before it was graded", i);
	for (int i = KEPT; i < 2 * KEPT; i++)
		if (!is_kept(v, i)) fail_msg("%d of %d was not kept", i, 2 * KEPT);
	/* The oldest made room, and does so again. */
	assert_false(is_kept(v, KEPT - 1));
	assert_false(is_kept(v, KEPT));
	assert_true(is_kept(v, 2 * KEPT - 1) && is_kept(v, KEPT - 1));
	verifier_free(v);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(test_kept), cmocka_unit_test(test_last_ones)};
	move_beside(argv);
	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests_name("gpu kept", tests, NULL, NULL);
}
