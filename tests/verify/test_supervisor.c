/* timeout: 600. The verifier from outside: duplicates, caches, the audit, wrong options, and
 * workers that die under it. */
#include "verify/verify.h"
#include <dirent.h>
#include <poll.h>
#include <setjmp.h>
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>
#include <cmocka.h>
#include "../leaks.h"
#include "grade_one.h"

static const char TASK[] =
	"import torch\nimport torch.nn as nn\nM = 16\nN = 256\n\n\nclass Model(nn.Module):\n    def forward(self, x):\n"
	"        return torch.relu(x) * 2 + 1\n\n\n"
	"def get_inputs():\n    return [torch.randn(M, N)]\n\n\ndef get_init_inputs():\n    return []\n";
#define CANDIDATE(factor) CANDIDATE_TIMES(factor, "1")
#define CANDIDATE_TIMES(factor, times) \
	"import torch\nimport torch.nn as nn\nimport triton\nimport triton.language as tl\n\n\n" \
	"@triton.jit\ndef relu_kernel(x, y, n, BLOCK: tl.constexpr):\n" \
	"    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)\n" \
	"    v = tl.load(x + i, mask=i < n)\n" \
	"    tl.store(y + i, tl.maximum(v, 0.0) * " factor " + 1, mask=i < n)\n\n\n" \
	"class ModelNew(nn.Module):\n    def forward(self, x):\n        n = x.numel()\n" \
	"        for _ in range(" times "):\n            y = torch.empty_like(x)\n" \
	"            relu_kernel[(triton.cdiv(n, 256),)](x, y, n, BLOCK=256)\n        return y\n"
static const char GOOD[] = CANDIDATE("2"), BAD[] = CANDIDATE("3");

static struct task task;
/* Of two threads, without a store: what needs no other options is judged by it. */
static struct verifier *shared;
static char folder[64];
static char *store_path;

static struct verifier *open_verifier(struct store *store)
{
	struct verifier *v = NULL;
	struct err err = {0};
	struct verify_options o = {.threads = 2, .store = store};
	if (verifier_create(&o, &v, &err)) fail_msg("%s", err.text);
	return v;
}

static int start(void **state)
{
	snprintf(folder, sizeof folder, "/tmp/hone-supervisor-XXXXXX");
	task = (struct task){
		.name = (char *)(uintptr_t)"t", .source = (char *)(uintptr_t)TASK, .hash = hash_bytes(TASK, strlen(TASK))};
	if (!mkdtemp(folder)) return -1;
	store_path = path_join(folder, "store.db");
	shared = open_verifier(NULL);
	return 0;
}

static int end(void **state)
{
	verifier_free(shared);
	free(store_path);
	return dir_remove(folder, NULL);
}

static struct verdict run(struct verifier *v, const char *source)
{
	struct verdict d;
	struct err err = {0};
	if (verifier_run(v, &task, source, strlen(source), &d, &err)) fail_msg("%s", err.text);
	return d;
}

/* Of a process; 0: it is gone. */
static int parent_of(int pid)
{
	char path[300], stat[512] = "";
	int parent = 0;
	/* The parent is the second field after the name, which may itself hold brackets. */
	snprintf(path, sizeof path, "/proc/%d/stat", pid);
	FILE *f = fopen(path, "r");
	size_t n = f ? fread(stat, 1, sizeof stat - 1, f) : 0;
	if (f) fclose(f);
	stat[n] = 0;
	char *after = strrchr(stat, ')');
	return after && sscanf(after + 2, "%*c %d", &parent) == 1 ? parent : 0;
}

/* Whether it is a child of this process whose command line holds `word`. */
static bool is_child(int pid, const char *word)
{
	char path[300], line[2048] = "";
	if (pid <= 0 || parent_of(pid) != getpid()) return false;
	/* The command line's arguments are separated by NUL. */
	snprintf(path, sizeof path, "/proc/%d/cmdline", pid);
	FILE *f = fopen(path, "r");
	size_t n = f ? fread(line, 1, sizeof line - 1, f) : 0;
	if (f) fclose(f);
	for (size_t i = 0; i < n; i++)
		if (!line[i]) line[i] = ' ';
	return strstr(line, word);
}

/* Processes that a zygote forked and that are not gone: jobs, and its template. */
static int forked(const char *zygote)
{
	DIR *d = opendir("/proc");
	int count = 0;
	for (struct dirent *e; (e = readdir(d));) count += is_child(parent_of(atoi(e->d_name)), zygote);
	closedir(d);
	return count;
}

static void forked_kill(const char *zygote)
{
	DIR *d = opendir("/proc");
	for (struct dirent *e; (e = readdir(d));)
		if (is_child(parent_of(atoi(e->d_name)), zygote)) kill(atoi(e->d_name), SIGKILL);
	closedir(d);
}

/* Kills every child of this process whose command line holds `word`. */
static int kill_children(const char *word)
{
	DIR *d = opendir("/proc");
	int killed = 0;
	for (struct dirent *e; (e = readdir(d));) {
		if (!is_child(atoi(e->d_name), word)) continue;
		kill(atoi(e->d_name), SIGKILL);
		killed++;
	}
	closedir(d);
	return killed;
}

static void test_duplicates_are_graded_once(void **state)
{
	struct verifier *v = shared;
	struct err err = {0};
	bool seen[8] = {false};
	int fresh = 0, genuine = 0;
	/* Four of each of two sources, in flight together. */
	for (int i = 0; i < 8; i++) {
		struct verify_request r = {
			.task = &task, .source = i % 2 ? BAD : GOOD, .source_len = strlen(i % 2 ? BAD : GOOD), .id = i};
		assert_int_equal(verifier_submit(v, &r, &err), 0);
	}
	for (int i = 0; i < 8; i++) {
		struct verdict d;
		int64_t id = -1;
		assert_int_equal(verifier_collect(v, -1, &id, &d, &err), 0);
		assert_false(seen[id]);
		seen[id] = true;
		fresh += !d.cached;
		genuine += d.class == VERDICT_GENUINE;
		assert_int_equal(d.class, id % 2 ? VERDICT_WRONG : VERDICT_GENUINE);
	}
	/* Two were graded; the others have their verdicts, as has a later one. */
	assert_int_equal(fresh, 2);
	assert_int_equal(genuine, 4);
	struct verdict d;
	int64_t id;
	assert_int_equal(verifier_collect(v, -1, &id, &d, &err), ERR_NOT_FOUND);
	d = run(v, GOOD);
	assert_true(d.cached && d.class == VERDICT_GENUINE);
}

/* As a server waits: one poll over the verifier and over what else may happen. */
static void test_verdicts_wake_a_poll(void **state)
{
	struct verifier *v = shared;
	struct err err = {0};
	const char *const sources[] = {CANDIDATE("3.0"), "no code at all", CANDIDATE("3.0"), CANDIDATE("4.0")};
	int other[2], collected = 0;
	assert_int_equal(pipe(other), 0);
	struct pollfd p[] = {{.fd = verifier_fd(v), .events = POLLIN}, {.fd = other[0], .events = POLLIN}};
	assert_int_equal(poll(p, 2, 0), 0);
	/* What else may happen wakes it without a verdict, and stays apart from one. */
	assert_int_equal(write(other[1], "x", 1), 1);
	assert_int_equal(poll(p, 2, -1), 1);
	assert_int_equal(p[0].revents, 0);
	assert_int_equal(close(other[1]) || close(other[0]), 0);
	for (int i = 0; i < 4; i++) {
		struct verify_request r = {.task = &task, .source = sources[i], .source_len = strlen(sources[i]), .id = i};
		assert_int_equal(verifier_submit(v, &r, &err), 0);
	}
	/* Readable for as long as there is one more: each collects without waiting. */
	for (int64_t id; collected < 4; collected++) {
		struct verdict d;
		assert_int_equal(poll(p, 1, -1), 1);
		assert_int_equal(p[0].revents, POLLIN);
		assert_int_equal(verifier_collect(v, 0, &id, &d, &err), 0);
	}
	assert_int_equal(poll(p, 1, 0), 0);
	/* A verdict that is known is there as soon as it is asked for. */
	struct verify_request again = {.task = &task, .source = GOOD, .source_len = strlen(GOOD), .id = 9};
	struct verdict d;
	int64_t id = 0;
	assert_int_equal(verifier_submit(v, &again, &err), 0);
	assert_int_equal(poll(p, 1, 0), 1);
	assert_int_equal(verifier_collect(v, 0, &id, &d, &err), 0);
	assert_true(id == 9 && d.cached && d.class == VERDICT_GENUINE);
}

static void test_store_outlives_the_verifier(void **state)
{
	struct store *s = NULL;
	struct err err = {0};
	assert_int_equal(store_open(store_path, &s, &err), 0);
	struct verifier *v = open_verifier(s);
	struct verdict a = run(v, GOOD), b = run(v, BAD);
	assert_false(a.cached || b.cached);
	verifier_free(v);
	v = open_verifier(s);
	uint64_t begin = clock_ns();
	struct verdict c = run(v, GOOD), d = run(v, BAD);
	double seconds = (double)(clock_ns() - begin) * 1e-9;
	assert_true(c.cached && d.cached);
	/* Each says how long it took now, and not when it was graded. */
	assert_true(c.seconds > 0 && d.seconds > 0 && c.seconds + d.seconds <= seconds);
	assert_true(c.class == a.class && d.class == b.class && c.speedup_eager == a.speedup_eager && c.nlines == a.nlines);
	assert_string_equal(d.detail, b.detail);
	assert_string_equal(c.key.text, a.key.text);
	verifier_free(v);
	/* Another option, another verdict. */
	struct verify_options o = {.threads = 1, .store = s, .precision = "tf32"};
	assert_int_equal(verifier_create(&o, &v, &err), 0);
	assert_false(run(v, GOOD).cached);
	verifier_free(v);
	store_close(s);
}

/* Workers die for reasons that are nobody's fault: the next request starts them again. */
static void test_dead_workers_are_replaced(void **state)
{
	struct verifier *v = shared;
	struct verdict d = run(v, GOOD);
	assert_int_equal(d.class, VERDICT_GENUINE);
	assert_int_equal(kill_children("zygote.py"), 3);
	/* The pool is filled again behind a verdict's back: all of its runners, however long that
	 * takes. */
	for (int killed = 0, waits = 0; killed < 2 && waits < 100; waits++) {
		killed += kill_children("hone-runner");
		sleep_ms(50);
	}
	d = run(v, CANDIDATE("2.0"));
	if (d.class != VERDICT_GENUINE) fail_msg("%s/%s: %s", verdict_class_name(d.class), d.reason, d.detail);
	assert_false(d.cached);
}

/* A candidate that launches its kernel once more where it sees the tensors of one of the two
 * traces: the rows of one are the beginning of the other's, and what differs is their number. */
static void test_traces_of_other_lengths(void **state)
{
	static const char again[] = CANDIDATE_TIMES("2", "1 + (type(x) is torch.Tensor)");
	struct verifier *v = shared;
	struct verdict d = run(v, again);
	if (strcmp(d.reason, "trace-differs") || !strstr(d.detail, " rows, were ")) fail_msg("%s: %s", d.reason, d.detail);
}

/* A kernel that leans on a function behind the class, and host code that
 * edits the IR it launches. */
#define TWO_PLACES(kernel, helper, number, edit) \
	"import torch\nimport torch.nn as nn\nimport triton\nimport triton.language as tl\n\n\n" \
	"@triton.jit\ndef relu_kernel(x, y, n, BLOCK: tl.constexpr):\n" \
	"    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)\n" \
	"    v = tl.load(x + i, mask=i < n)\n" \
	"    tl.store(y + i, plus(tl.maximum(v, 0.0) * " kernel "), mask=i < n)\n\n\n" \
	"class Other:\n    number = " number "\n\n\n" \
	"@triton.jit\ndef plus(v):\n    return v + " helper "\n\n\n" \
	"class ModelNew(nn.Module):\n    number = " number "\n\n    def forward(self, x):\n" \
	"        y = torch.empty_like(x)\n" \
	"        n = x.numel()\n        k = relu_kernel[(triton.cdiv(n, 256),)](x, y, n, BLOCK=256)\n" edit \
	"        return y\n"
#define EDIT(found, other) \
	"        k.asm[\"ttir\"] = k.asm[\"ttir\"].replace(\"" found "000000e+00\", \"" other "000000e+00\")\n"

static int64_t rebuilds(struct verifier *v)
{
	struct verify_times t;
	verifier_times(v, &t);
	return t.processes[STEP_REBUILD];
}

/* A kernel that was found to be its source's is known by the lines that it depends on: other host
 * code behind them costs no further process, another line among them does, whatever is claimed. */
static void test_known_kernels_are_known_by_their_lines(void **state)
{
	struct verifier *v = shared;
	int64_t before = rebuilds(v);
	struct verdict d = run(v, TWO_PLACES("2", "1", "4", ""));
	if (d.class != VERDICT_GENUINE) fail_msg("%s: %s", d.reason, d.detail);
	int64_t asked = rebuilds(v);
	assert_int_equal(asked, before + 1);
	/* Other host code behind the last function. */
	d = run(v, TWO_PLACES("2", "1", "4", "        number = 7\n"));
	assert_int_equal(d.class, VERDICT_GENUINE);
	assert_false(d.cached);
	assert_int_equal(rebuilds(v), asked);
	/* Another text before it. */
	d = run(v, TWO_PLACES("2", "1", "5", ""));
	assert_int_equal(d.class, VERDICT_GENUINE);
	assert_int_equal(rebuilds(v), asked + 1);
	/* A front end that host code behind the kernel has changed: a real run would
	 * launch what that makes. */
	d = run(v, TWO_PLACES("2", "1", "4", "") "\n\ntl.maximum = tl.minimum\n");
	if (strcmp(d.reason, "ir-not-from-source")) fail_msg("another maximum: %s (%s)", d.reason, d.detail);
	d = run(v,
		TWO_PLACES("2", "1", "4", "") "\n\n"
									  "triton.compiler.code_generator.CodeGenerator.visit_BinOp = lambda self, node: "
									  "self.visit(node.left)\n");
	if (strcmp(d.reason, "ir-not-from-source")) fail_msg("another visitor: %s (%s)", d.reason, d.detail);
	/* The IR that is known, claimed for another kernel, and for another function that it calls. */
	static const char *const forged[] = {
		TWO_PLACES("3", "1", "4", EDIT("3.", "2.")), TWO_PLACES("2", "3", "4", EDIT("3.", "1."))};
	for (size_t i = 0; i < ARRAY_LEN(forged); i++) {
		d = run(v, forged[i]);
		if (strcmp(d.reason, "ir-not-from-source")) fail_msg("forged text %zu: %s (%s)", i, d.reason, d.detail);
	}
}

static void test_audit(void **state)
{
	struct verifier *v = shared;
	struct err err = {0};
	json_t *o = NULL;
	assert_int_equal(verifier_audit(v, &task, &o, &err), 0);
	assert_true(json_is_true(json_object_get(o, "runs")) && json_is_true(json_object_get(o, "discriminates")));
	assert_true(json_number_value(json_object_get(o, "fused_s")) > 0);
	assert_true(json_array_size(json_object_get(o, "trials")) >= 5);
	json_decref(o);
	struct task weak = {.name = (char *)(uintptr_t)"w",
		.source =
			(char *)(uintptr_t)"import torch\nimport torch.nn as nn\nclass Model(nn.Module):\n"
							   "    def forward(self, x):\n        return x + 0\n"
							   "def get_inputs(): return [torch.randn(8, 8)]\ndef get_init_inputs(): return []\n"};
	assert_int_equal(verifier_audit(v, &weak, &o, &err), 0);
	assert_false(json_is_true(json_object_get(o, "discriminates")));
	assert_string_equal(json_string_value(json_object_get(o, "null_kernel")), "the first input");
	json_decref(o);
	/* What the reference returns is its own roundings: no trial tells anything. */
	struct task noise = {.name = (char *)(uintptr_t)"n",
		.source = (char *)(uintptr_t)"import torch\nimport torch.nn as nn\nclass Model(nn.Module):\n"
									 "    def forward(self, x):\n"
									 "        return torch.nn.functional.layer_norm(x, (400,)).mean(dim=1)\n"
									 "def get_inputs(): return [torch.randn(8, 400)]\n"
									 "def get_init_inputs(): return []\n"};
	assert_int_equal(verifier_audit(v, &noise, &o, &err), 0);
	assert_string_equal(json_string_value(json_object_get(o, "null_kernel")), "anything");
	json_decref(o);
	/* Of two outputs the first one's bounds are told, which are fp32's, and
	 * not the other's of bf16. */
	struct task two = {.name = (char *)(uintptr_t)"o",
		.source = (char *)(uintptr_t)"import torch\nimport torch.nn as nn\nclass Model(nn.Module):\n"
									 "    def forward(self, x):\n"
									 "        return x * 3, (x * 5).to(torch.bfloat16)\n"
									 "def get_inputs(): return [torch.randn(8, 40)]\n"
									 "def get_init_inputs(): return []\n"};
	assert_int_equal(verifier_audit(v, &two, &o, &err), 0);
	const json_t *trial;
	size_t i;
	json_array_foreach(json_object_get(o, "trials"), i, trial)
	{
		double tolerance = json_number_value(json_object_get(trial, "tolerance"));
		if (json_is_true(json_object_get(trial, "counts"))) assert_true(tolerance > 1e-8 && tolerance < 1e-3);
		else assert_null(json_object_get(trial, "tolerance"));
	}
	json_decref(o);
	struct task broken = {.name = (char *)(uintptr_t)"b", .source = (char *)(uintptr_t)"def get_inputs(:"};
	assert_int_equal(verifier_audit(v, &broken, &o, &err), 0);
	assert_false(json_is_true(json_object_get(o, "runs")));
	assert_string_equal(json_string_value(json_object_get(o, "code")), "task-broken");
	json_decref(o);
	/* Nothing can be concluded from such tasks, whatever the candidate. */
	struct verdict d;
	assert_int_equal(verifier_run(v, &weak, GOOD, strlen(GOOD), &d, &err), 0);
	assert_int_equal(d.class, VERDICT_INFRA);
	assert_string_equal(d.reason, "task-not-discriminating");
	assert_int_equal(verifier_run(v, &broken, GOOD, strlen(GOOD), &d, &err), 0);
	assert_string_equal(d.reason, "task-broken");
}

/* However a verdict ends, nothing of its processes stays open. */
static void test_nothing_stays_open(void **state)
{
	static const char *const sources[] = {CANDIDATE("5.0"), CANDIDATE_TIMES("2", "2"), TWO_PLACES("2", "2", "9", ""),
		TWO_PLACES("4", "1", "9", EDIT("4.", "2.")), "import torch\n\n\nclass ModelNew(torch.nn.Module):\n    pass\n"};
	int before = 0, after = 0;
	for (int turn = 0; turn < 2; turn++) {
		for (size_t i = 0; i < ARRAY_LEN(sources); i++) {
			char *source = xasprintf("%s# turn %d\n", sources[i], turn);
			assert_false(run(shared, source).cached);
			free(source);
		}
		/* The pool starts runners behind a verdict's back: when all are there it rests. */
		int *held = turn ? &after : &before;
		*held = descriptors_held();
		for (int still = 0, waits = 0; still < 10 && waits < 200; waits++) {
			int now = descriptors_held();
			still = now == *held ? still + 1 : 0;
			*held = now;
			sleep_ms(50);
		}
	}
	if (after > before) fail_msg("%d descriptors are open, %d verdicts ago %d", after, (int)ARRAY_LEN(sources), before);
}

/* Processes end behind the verdict that they worked for, and all of them: whoever asks where the
 * time went waits for that, and finds each counted. */
static void test_processes_end_behind_their_verdict(void **state)
{
	struct verify_times before, after;
	verifier_times(shared, &before);
	for (int i = 0; i < 6; i++) {
		char *source = xasprintf("%s# %s, number %d\n", i % 2 ? GOOD : BAD, __func__, i);
		assert_int_equal(run(shared, source).class, i % 2 ? VERDICT_GENUINE : VERDICT_WRONG);
		free(source);
	}
	verifier_times(shared, &after);
	/* What is left are templates: these two zygotes expect many jobs. */
	assert_int_equal(forked("zygote.py tracer"), 1);
	assert_int_equal(forked("zygote.py compile"), 1);
	/* A wrong one is traced once, a right one twice; each has a runner. */
	assert_int_equal(after.processes[STEP_TRACE] - before.processes[STEP_TRACE], 6);
	assert_int_equal(after.processes[STEP_AGAIN] - before.processes[STEP_AGAIN], 3);
	assert_int_equal(after.processes[STEP_REPLAY] - before.processes[STEP_REPLAY], 6);
	assert_true(after.cpu_s[STEP_AGAIN] > before.cpu_s[STEP_AGAIN]);
	/* Time goes forward, on both clocks, and no step has more of a thread's than there was. */
	double wall = 0, cpu = 0;
	for (int k = 0; k < VERIFY_STEP_COUNT; k++) {
		assert_true(after.wall_s[k] >= before.wall_s[k] && after.cpu_s[k] >= before.cpu_s[k]);
		wall += after.wall_s[k] - before.wall_s[k];
		cpu += after.cpu_s[k] - before.cpu_s[k];
	}
	assert_true(wall > 0 && cpu > 0 && cpu < 3600);
}

/* For two processors three candidates are under way, and the fourth is not. All wait for ever; then
 * the zygote's children are killed, the template among them, which nobody misses. */
static void test_one_more_is_under_way(void **state)
{
	struct err err = {0};
	enum { COUNT = 4 };
	int least = 1 + COUNT, most = 0;
	for (int i = 0; i < COUNT; i++) {
		char *source = xasprintf("%swhile True:\n    pass\n# %d\n", GOOD, i);
		struct verify_request r = {.task = &task, .source = source, .source_len = strlen(source), .id = i};
		assert_int_equal(verifier_submit(shared, &r, &err), 0);
		free(source);
	}
	for (int waits = 0; waits < 200 && forked("zygote.py tracer") != 1 + COUNT - 1; waits++) sleep_ms(50);
	for (int i = 0; i < 10; i++, sleep_ms(20)) {
		least = MIN(least, forked("zygote.py tracer"));
		most = MAX(most, forked("zygote.py tracer"));
	}
	assert_int_equal(least, COUNT);
	assert_int_equal(most, COUNT);
	for (int left = COUNT; left;) {
		struct verdict d;
		int64_t id;
		forked_kill("zygote.py tracer");
		left -= verifier_collect(shared, 100, &id, &d, &err) == 0;
	}
}

static void test_options_are_checked(void **state)
{
	const struct verify_options bad[] = {
		{.device = "tpu"},
		{.precision = "loose"},
		{.sandbox = "none"},
		{.sandbox = "strong"},
		{.num_correct_trials = 1000},
		{.root = "/nonexistent"},
	};
	for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
		struct verifier *v = NULL;
		struct err err = {0};
		if (verifier_create(&bad[i], &v, &err) == 0) fail_msg("options %zu were accepted", i);
		assert_int_not_equal(err.text[0], 0);
	}
}

int main(void)
{
	cmocka_set_message_output(CM_OUTPUT_TAP);
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_duplicates_are_graded_once),
		cmocka_unit_test(test_verdicts_wake_a_poll),
		cmocka_unit_test(test_store_outlives_the_verifier),
		cmocka_unit_test(test_dead_workers_are_replaced),
		cmocka_unit_test(test_traces_of_other_lengths),
		cmocka_unit_test(test_known_kernels_are_known_by_their_lines),
		cmocka_unit_test(test_audit),
		cmocka_unit_test(test_nothing_stays_open),
		cmocka_unit_test(test_processes_end_behind_their_verdict),
		cmocka_unit_test(test_one_more_is_under_way),
		cmocka_unit_test(test_options_are_checked),
	};
	return cmocka_run_group_tests(tests, start, end);
}
