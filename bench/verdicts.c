/* verdicts: how many candidates a second this machine grades, on a small element-wise task, with
 * kernels whose compilation is cached and with new ones.
 *
 *   make bench-verdicts            all threads, 60 and 30 candidates
 *   build/release/bench/verdicts THREADS CACHED NEW [SANDBOX]
 *
 * Each candidate of the first kind differs in host code alone, each of the second in a constant
 * inside the kernel, so no verdict comes from a cache of verdicts. The zygotes' start is reported
 * apart. */
#include "verify/verify.h"
#include <stdlib.h>

static const char TASK[] =
	"import torch\nimport torch.nn as nn\nM = 16\nN = 1024\n\n\nclass Model(nn.Module):\n    def forward(self, x):\n"
	"        return torch.relu(x) * 2 + 1\n\n\n"
	"def get_inputs():\n    return [torch.randn(M, N)]\n\n\ndef get_init_inputs():\n    return []\n";

static char *candidate(int number, int constant)
{
	return xasprintf(
		"import torch\nimport torch.nn as nn\nimport triton\nimport triton.language as tl\n\n\n@triton.jit\n"
		"def relu_kernel(x, y, n, BLOCK: tl.constexpr):\n"
		"    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)\n    v = tl.load(x + i, mask=i < n)\n"
		"    tl.store(y + i, tl.maximum(v, 0.0) * 2 + 1 + %d * 1e-12, mask=i < n)\n\n\n"
		"class ModelNew(nn.Module):\n    def forward(self, x):\n        number = %d\n        y = torch.empty_like(x)\n "
		"       n = x.numel()\n"
		"        relu_kernel[(triton.cdiv(n, 1024),)](x, y, n, BLOCK=1024)\n        return y\n",
		constant, number);
}

static double seconds_since(uint64_t start) { return (double)(clock_ns() - start) * 1e-9; }

/* Grades `count` candidates; new_kernels: each with a kernel of its own. Returns seconds, negative
 * when one was not genuine. */
static double grade_many(
	struct verifier *v, const struct task *task, int first, int count, bool new_kernels, double *latency)
{
	struct err err = {0};
	uint64_t start = clock_ns();
	for (int i = 0; i < count; i++) {
		char *source = candidate(first + i, new_kernels ? first + i : 0);
		struct verify_request r = {.task = task, .source = source, .source_len = strlen(source), .id = i};
		if (verifier_submit(v, &r, &err)) return -1;
		free(source);
	}
	*latency = 0;
	for (int i = 0; i < count; i++) {
		struct verdict d;
		int64_t id = 0;
		if (verifier_collect(v, 120000, &id, &d, &err) || d.class != VERDICT_GENUINE || d.cached) {
			fprintf(stderr, "candidate %d: %s: %s %s\n", i, verdict_class_name(d.class), d.detail, err.text);
			return -1;
		}
		*latency += d.seconds / count;
	}
	return seconds_since(start);
}

int main(int argc, char **argv)
{
	int threads = argc > 1 ? atoi(argv[1]) : cpu_count(), cached = argc > 2 ? atoi(argv[2]) : 60,
		fresh = argc > 3 ? atoi(argv[3]) : 30;
	struct verify_options o = {.threads = threads, .sandbox = argc > 4 ? argv[4] : NULL, .allow_unsandboxed = argc > 4};
	struct task task = {
		.name = (char *)(uintptr_t)"relu", .source = (char *)(uintptr_t)TASK, .hash = hash_bytes(TASK, strlen(TASK))};
	struct verifier *v = NULL;
	struct err err = {0};
	double latency = 0;
	uint64_t start = clock_ns();
	if (verifier_create(&o, &v, &err)) {
		fprintf(stderr, "verdicts: %s\n", err.text);
		return 1;
	}
	double first = grade_many(v, &task, 0, 1, false, &latency);
	printf("start and first verdict  %7.2f s\n", seconds_since(start));
	double t = first < 0 ? -1 : grade_many(v, &task, 1, cached, false, &latency);
	printf("compiled kernels         %7.1f verdicts/s (%d candidates, %d threads, mean latency %.0f ms)\n", cached / t,
		cached, threads, latency * 1e3);
	double u = t < 0 ? -1 : grade_many(v, &task, 1000000, fresh, true, &latency);
	printf("new kernels              %7.1f verdicts/s (%d candidates, %d threads, mean latency %.0f ms)\n", fresh / u,
		fresh, threads, latency * 1e3);
	verifier_free(v);
	return u < 0;
}
