/* verdicts: how many candidates a second this machine grades, on a small element-wise task, with
 * kernels whose compilation is cached and with new ones.
 *
 *   make bench-verdicts            all threads, 60 and 30 candidates
 *   build/release/bench/verify/verdicts THREADS CACHED NEW [SANDBOX]
 *   build/release/bench/verify/verdicts THREADS turns       what is asked for on stdin, a line
 *                                                           at a time: "compiled 10", "new 5"
 *                                                           (bench/verify/in_turns.py)
 *
 * Each candidate of the first kind differs in host code alone, each of the second in a constant
 * inside the kernel, so no verdict comes from a cache of verdicts. The zygotes' start is reported
 * apart.
 *
 * Beside verdicts a second it prints processor time a verdict, of this process and all below it,
 * which says more on a machine that is busy with other work; and how both divide into steps. What
 * is not in a step is the zygotes' own: their forks. */
#include "verify/verify.h"
#include <dirent.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <unistd.h>

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

static double rusage_s(int who)
{
	struct rusage u = {0};
	getrusage(who, &u);
	return (double)(u.ru_utime.tv_sec + u.ru_stime.tv_sec) + (double)(u.ru_utime.tv_usec + u.ru_stime.tv_usec) * 1e-6;
}

/* A process as /proc shows it. */
struct process {
	long pid;
	long parent;
	long ticks; /* processor time of it and of what it waited for */
};

static bool process_read(const char *pid, struct process *p)
{
	char path[280], text[1024] = "";
	long t[4] = {0};
	snprintf(path, sizeof path, "/proc/%s/stat", pid);
	FILE *f = fopen(path, "r");
	if (!f) return false;
	size_t n = fread(text, 1, sizeof text - 1, f);
	fclose(f);
	text[n] = 0;
	/* The name may hold anything, and ends at the last parenthesis. */
	const char *after = strrchr(text, ')');
	p->pid = atol(pid);
	int found = after ? sscanf(after + 1, " %*c %ld %*d %*d %*d %*d %*u %*u %*u %*u %*u %ld %ld %ld %ld", &p->parent,
							&t[0], &t[1], &t[2], &t[3])
					  : 0;
	p->ticks = t[0] + t[1] + t[2] + t[3];
	return found == 5;
}

/* Whether `pid` is below this process, however far: a zygote's template is its child, forks all its
 * jobs, and is waited for by nobody. */
static bool is_below(const struct process *all, size_t n, long pid)
{
	size_t i = 0;
	for (size_t up = 0; up < n && pid > 1 && pid != (long)getpid(); up++) {
		for (i = 0; i < n && all[i].pid != pid;) i++;
		pid = i < n ? all[i].parent : 0;
	}
	return pid == (long)getpid();
}

/* Processor time of this process and of all below it so far. */
static double tree_cpu_s(void)
{
	static struct process all[4096];
	size_t n = 0;
	double sum = rusage_s(RUSAGE_SELF) + rusage_s(RUSAGE_CHILDREN);
	DIR *d = opendir("/proc");
	for (struct dirent *e; d && (e = readdir(d)) && n < sizeof all / sizeof *all;)
		n += e->d_name[0] >= '1' && e->d_name[0] <= '9' && process_read(e->d_name, &all[n]);
	if (d) closedir(d);
	for (size_t i = 0; i < n; i++)
		if (all[i].pid != (long)getpid() && is_below(all, n, all[i].pid))
			sum += (double)all[i].ticks / (double)sysconf(_SC_CLK_TCK);
	return sum;
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

/* One kind of candidates, graded and printed. */
static bool measure(
	struct verifier *v, const struct task *task, const char *name, int first, int count, int threads, bool new_kernels)
{
	struct verify_times before, after;
	verifier_times(v, &before); /* behind which nothing of earlier candidates runs */
	double latency = 0, cpu = tree_cpu_s();
	double wall = grade_many(v, task, first, count, new_kernels, &latency);
	if (wall < 0) return false;
	verifier_times(v, &after);
	cpu = tree_cpu_s() - cpu;
	printf("%-24s %7.1f verdicts/s (%d candidates, %d threads, mean latency %.0f ms), %.1f ms of processor time each\n",
		name, count / wall, count, threads, latency * 1e3, cpu / count * 1e3);
	double rest = cpu;
	for (int i = 0; i < VERIFY_STEP_COUNT; i++) {
		double wall_s = after.wall_s[i] - before.wall_s[i], cpu_s = after.cpu_s[i] - before.cpu_s[i];
		printf("  %-22s %7.1f ms, %7.1f ms of processor time, %.2f processes\n", verify_step_name((enum verify_step)i),
			wall_s / count * 1e3, cpu_s / count * 1e3, (double)(after.processes[i] - before.processes[i]) / count);
		rest -= cpu_s;
	}
	printf("  %-22s             %7.1f ms of processor time\n", "forks and the rest", rest / count * 1e3);
	return true;
}

/* Kinds and counts from stdin, until it ends: two programs that are asked in turn share
 * the machine's minutes. */
static bool measure_asked(struct verifier *v, const struct task *task, int threads)
{
	char kind[16];
	int count, next[2] = {1, 1000000};
	bool is_good = true;
	while (is_good && scanf("%15s %d", kind, &count) == 2) {
		bool is_new = !strcmp(kind, "new");
		is_good = measure(v, task, is_new ? "new kernels" : "compiled kernels", next[is_new], count, threads, is_new);
		next[is_new] += count;
		fflush(stdout);
	}
	return is_good;
}

int main(int argc, char **argv)
{
	bool is_asked = argc == 3 && !strcmp(argv[2], "turns");
	int threads = argc > 1 ? atoi(argv[1]) : cpu_count(), cached = argc > 2 ? atoi(argv[2]) : 60,
		fresh = argc > 3 ? atoi(argv[3]) : 30;
	struct verify_options o = {.threads = threads, .sandbox = argc > 4 ? argv[4] : NULL, .allow_unsandboxed = argc > 4};
	struct task task = {
		.name = (char *)(uintptr_t)"relu", .source = (char *)(uintptr_t)TASK, .hash = hash_bytes(TASK, strlen(TASK))};
	struct verifier *v = NULL;
	struct err err = {0};
	double latency = 0;
	/* The start, with the first verdict, which waits for the zygotes. */
	uint64_t start = clock_ns();
	if (verifier_create(&o, &v, &err)) {
		fprintf(stderr, "verdicts: %s\n", err.text);
		return 1;
	}
	bool is_good = grade_many(v, &task, 0, 1, false, &latency) >= 0;
	printf("start and first verdict  %7.2f s\n", seconds_since(start));
	fflush(stdout);
	/* Then what is asked for on stdin, or both kinds once. */
	if (is_asked) is_good = is_good && measure_asked(v, &task, threads);
	else
		is_good = is_good && measure(v, &task, "compiled kernels", 1, cached, threads, false) &&
			measure(v, &task, "new kernels", 1000000, fresh, threads, true);
	verifier_free(v);
	return !is_good;
}
