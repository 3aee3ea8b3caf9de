/* The oracle: what it makes of references, and what it says about broken ones. Runs the real worker
 * in its sandbox. */
#include "sandbox/sandbox.h"
#include "verify/oracle.h"
#include "verify/verify_internal.h"
#include <fcntl.h>
#include <math.h>
#include <setjmp.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>
#include <cmocka.h>

static struct zygote *z;
static int level;

static char *build_path(const char *name)
{
	const char *build = getenv("BUILD"); /* tests get it from their runner */
	char cwd[4096];
	assert_non_null(getcwd(cwd, sizeof cwd));
	char *folder = build && build[0] == '/' ? xstrdup(build) : path_join(cwd, build ? build : "build/release");
	char *path = path_join(folder, name);
	free(folder);
	return path;
}

static int start(void **state)
{
	char text[512], cwd[4096];
	struct err err = {0};
	char *library = build_path("libhone_sandbox.so");
	level = sandbox_level_probe(text, sizeof text);
	assert_non_null(getcwd(cwd, sizeof cwd));
	int rc = zygote_create(cwd, library, "oracle", false, &z, &err);
	if (!rc) rc = zygote_ready(z, 180000, NULL, &err);
	if (rc) fprintf(stderr, "%s\n", err.text);
	free(library);
	return rc;
}

static int end(void **state)
{
	zygote_free(z);
	return 0;
}

static int run(const char *source, int trials, struct oracle_data **out, struct oracle_fault *fault)
{
	struct err err = {0};
	struct task task = {.name = (char *)(uintptr_t)"t",
		.source = (char *)(uintptr_t)source,
		.hash = hash_bytes(source, strlen(source))};
	struct oracle_options o = {
		.limits = {level, (int64_t)4 << 30, 0}, .timeout_ms = 15000, .work_ms = 625, .seed = 5, .num_trials = trials};
	int rc = oracle_run(z, &task, &o, out, fault, &err);
	if (rc && rc != ERR_MISMATCH) fail_msg("%s", err.text);
	return rc;
}

#define HEAD "import torch\nimport torch.nn as nn\n"
#define TAIL "def get_inputs(): return [torch.rand(B, N)]\ndef get_init_inputs(): return []\n"
#define MODEL(body) HEAD "B = 4\nN = 64\nclass Model(nn.Module):\n    def forward(self, x):\n        " body "\n" TAIL

static void test_trials_of_a_plain_task(void **state)
{
	struct oracle_data *d = NULL;
	struct oracle_fault fault = {0};
	assert_int_equal(run(MODEL("return torch.relu(x) + 1"), 9, &d, &fault), 0);
	assert_int_equal(d->ntrials, 9);
	/* the task's own sizes, secret smaller and secret larger ones */
	assert_int_equal(d->nvariants, 3);
	assert_string_equal(d->variants[0].changed, "");
	int sizes[3][2] = {{64, 4}}, scanned[2];
	for (int v = 1; v < 3; v++) {
		assert_int_equal(sscanf(d->variants[v].changed, "N 64 -> %d, B 4 -> %d", &scanned[0], &scanned[1]), 2);
		memcpy(sizes[v], scanned, sizeof scanned);
		assert_true(v == 1 ? scanned[0] < 64 && scanned[0] % 2 && scanned[1] < 4 : scanned[0] > 64 && scanned[1] > 4);
	}
	assert_null(d->null_kernel);
	for (int i = 0; i < 9; i++) {
		const struct oracle_trial *t = &d->trials[i];
		if (!t->counts) fail_msg("trial %d (%s): %s", i, t->distribution, t->why);
		assert_int_equal(t->ninputs, 1);
		const float *x = (const float *)(const void *)(t->given + t->inputs[0].offset),
					*y = (const float *)(const void *)t->outputs[0].plain;
		int64_t n = compare_elements(&t->outputs[0]);
		assert_int_equal(n, sizes[t->variant][0] * sizes[t->variant][1]);
		assert_int_equal(t->inputs[0].bytes, n * 4);
		int negative = 0;
		for (int64_t k = 0; k < n; k++) {
			assert_true(y[k] == (x[k] > 0 ? x[k] : 0) + 1);
			negative += x[k] < 0;
		}
		assert_int_equal(!strcmp(t->distribution, "negative"), negative == n);
		if (!strcmp(t->distribution, "stock")) assert_int_equal(negative, 0);
		if (!strcmp(t->distribution, "sign-mixed")) assert_true(negative > n / 4 && negative < n);
	}
	/* Another secret, other inputs. */
	assert_memory_not_equal(d->trials[0].given, d->trials[1].given, 1024);
	oracle_data_free(d);
}

/* A reference that is undefined below zero gets magnitudes. */
static void test_positive_domains(void **state)
{
	struct oracle_data *d = NULL;
	struct oracle_fault fault = {0};
	assert_int_equal(run(MODEL("return torch.log(x + 1e-6)"), 9, &d, &fault), 0);
	int hidden = 0;
	for (int i = 0; i < d->ntrials; i++) hidden += d->trials[i].counts && !d->trials[i].is_stock;
	assert_true(hidden >= 3);
	oracle_data_free(d);
}

static void test_parameters_are_randomised(void **state)
{
	static const char source[] = HEAD "class Model(nn.Module):\n    def __init__(self, n):\n        "
									  "super().__init__()\n        self.norm = nn.BatchNorm1d(n)\n"
									  "        self.lin = nn.Linear(n, n)\n"
									  "    def forward(self, x):\n        return self.lin(self.norm(x))\ndef "
									  "get_inputs(): return [torch.randn(8, 16)]\ndef get_init_inputs(): return [16]\n";
	struct oracle_data *d = NULL;
	struct oracle_fault fault = {0};
	assert_int_equal(run(source, 3, &d, &fault), 0);
	assert_true(d->has_dot);
	int seen = 0;
	/* Two trials have other values in every parameter and buffer; batches are counted from 0. */
	for (int p = 0; p < d->trials[0].nparams; p++) {
		const struct runner_given *a = &d->trials[0].params[p], *b = &d->trials[1].params[p];
		bool same = !memcmp(d->trials[0].given + a->offset, d->trials[1].given + b->offset, (size_t)a->bytes);
		assert_false(same);
		seen++;
		if (!strcmp(a->name, "norm.num_batches_tracked"))
			assert_in_range(*(const int64_t *)(const void *)(d->trials[1].given + b->offset), 0, (1 << 24) - 1);
		if (!strcmp(a->name, "norm.running_mean"))
			assert_true(a->may_change); /* the reference updates it in training mode */
		if (!strcmp(a->name, "norm.weight")) assert_false(a->may_change);
		if (!strcmp(a->name, "norm.running_var"))
			for (int k = 0; k < 16; k++)
				assert_true(((const float *)(const void *)(d->trials[1].given + b->offset))[k] > 0);
	}
	assert_int_equal(seen, 7);
	oracle_data_free(d);
}

/* Integers keep their range, probabilities their sum, masks their values. */
static void test_domains_are_kept(void **state)
{
	static const char source[] = HEAD
		"class Model(nn.Module):\n    def forward(self, x, i, p, m):\n        return (x[i] * p * m)\n"
		"def get_inputs(): return [torch.randn(10, 8), torch.randint(0, 10, (5,)), torch.softmax(torch.randn(5, 8), "
		"-1), (torch.rand(5, 8) > 0.5).float()]\n"
		"def get_init_inputs(): return []\n";
	struct oracle_data *d = NULL;
	struct oracle_fault fault = {0};
	assert_int_equal(run(source, 9, &d, &fault), 0);
	for (int i = 0; i < d->ntrials; i++) {
		const struct oracle_trial *t = &d->trials[i];
		if (!t->counts) continue;
		const int64_t *index = (const int64_t *)(const void *)(t->given + t->inputs[1].offset);
		const float *p = (const float *)(const void *)(t->given + t->inputs[2].offset),
					*m = (const float *)(const void *)(t->given + t->inputs[3].offset);
		float sum = 0;
		for (int k = 0; k < 8; k++) sum += p[k];
		assert_true(fabsf(sum - 1) < 1e-5f);
		for (int k = 0; k < 5; k++) assert_true(index[k] >= 0 && index[k] < 10);
		for (int k = 0; k < 40; k++) assert_true(m[k] == 0 || m[k] == 1);
	}
	oracle_data_free(d);
}

/* Tasks that tell nothing are said so. */
static void test_null_kernels_are_found(void **state)
{
	struct oracle_data *d = NULL;
	struct oracle_fault fault = {0};
	assert_int_equal(run(MODEL("return x * 1.0"), 4, &d, &fault), 0);
	assert_string_equal(d->null_kernel, "the first input");
	oracle_data_free(d);
	assert_int_equal(run(MODEL("return torch.relu(-x.abs())"), 4, &d, &fault), 0);
	assert_string_equal(d->null_kernel, "zeros");
	oracle_data_free(d);
	/* ELU is the identity on its own positive inputs; the hidden ones tell the difference. */
	assert_int_equal(run(MODEL("return torch.nn.functional.elu(x)"), 4, &d, &fault), 0);
	assert_null(d->null_kernel);
	oracle_data_free(d);
}

static void test_broken_tasks_have_codes(void **state)
{
	static const struct {
		const char *source, *code, *text;
	} cases[] = {
		{"x = (", "task-broken", "SyntaxError"},
		{HEAD "def get_inputs(): return []\n", "task-broken", "does not define Model"},
		{MODEL("return nn.functional.dropout(x)"), "task-random", "differ"},
		{MODEL("import os; os._exit(0)"), "task-broken", "exit 0"},
		{MODEL("import ctypes; return ctypes.string_at(0)"), "task-broken", "signal 11"},
		{MODEL("return 'text'"), "task-unsupported", "no tensor"},
		{MODEL("return x + 1, set()"), "task-unsupported", "set"},
		{MODEL("return x + 1, x.sum().item()"), "task-unsupported", "depends on its inputs"},
		{MODEL("return open('/etc/passwd').read()"), "task-broken", "Error"},
		{MODEL("return torch.ones(1 << 40)"), "task-too-large", "outputs"}, /* known from shapes alone */
		{MODEL("return x + torch.ones(1 << 40)[:1]"), "task-too-large",
			"reference needs"}, /* so is what only forward needs */
		{MODEL("import sys; sys.exit()"), "task-broken", "SystemExit"},
		/* What an exception says is a stranger's: no text, or nothing at all. */
		{MODEL("raise ValueError('half \\ud800 of \\0 it')"), "task-broken", "ValueError: half ? of \xef\xbf\xbd it"},
		{MODEL("raise type('E', (Exception,), {'__str__': lambda e: 1 / 0})"), "task-broken", "E: (what it says"},
	};
	/* Code and words of the fault; in none of them is the task's fault taken for ours. */
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct oracle_data *d = NULL;
		struct oracle_fault fault = {0};
		assert_int_equal(run(cases[i].source, 3, &d, &fault), ERR_MISMATCH);
		if (strcmp(fault.code, cases[i].code)) fail_msg("case %zu: %s: %s", i, fault.code, fault.text);
		if (!strstr(fault.text, cases[i].text))
			fail_msg("case %zu: \"%s\" does not hold \"%s\"", i, fault.text, cases[i].text);
	}
}

/* Tasks are written in several ways; all of them have one oracle. */
static void test_forms_of_tasks(void **state)
{
	static const struct {
		const char *model, *tail;
		int ninputs;
	} cases[] = {
		{"    def __init__(self, n, k=1):\n        super().__init__()\n        self.w = nn.Parameter(torch.full((n,), "
		 "float(k)))\n"
		 "    def forward(self, x):\n        return x + self.w\n",
			"def get_inputs(): return [torch.rand(4, 8)]\ndef get_init_inputs(): return [[], {'n': 8, 'k': 3}]\n", 1},
		{"    def __init__(self, sizes, options):\n        super().__init__()\n        self.n = sizes[0] * "
		 "options['a']\n"
		 "    def forward(self, x):\n        return x + self.n\n",
			"def get_inputs(): return [torch.rand(4, 8)]\ndef get_init_inputs(): return [[2, 3], {'a': 1}]\n", 1},
		{"    def forward(self, x):\n        return x + 1\n",
			"def get_inputs(): return torch.rand(4, 8)\ndef get_init_inputs(): return ()\n", 1},
		{"    def forward(self, x, y):\n        return x + y\n",
			"def get_inputs(): return (torch.rand(4, 8) for _ in range(2))\n"
			"def get_init_inputs():\n    yield from ()\n",
			2},
		{"    def forward(self, x, *, y):\n        return {'a': x + y, 'b': [x - y, 3, None, 'words']}\n",
			"def get_inputs(): return {'x': torch.rand(4, 8), 'y': torch.rand(4, 8)}\ndef get_init_inputs(): return "
			"{}\n",
			2},
		{"    def forward(self, x):\n        assert x.is_cuda and x.device.type == 'cuda'\n"
		 "        return x + torch.ones(8, device=x.device) + torch.arange(8, device='cuda')\n",
			"def get_inputs(): return [torch.rand(4, 8).cuda()]\ndef get_init_inputs(): return []\n", 1},
		{"    def forward(self, x):\n        return x + torch.randn(8, device=x.device) * torch.rand_like(x)\n",
			"def get_inputs(): return [torch.rand(4, 8)]\ndef get_init_inputs(): return []\n", 3},
	};
	/* The class and what follows it, in the case's way of writing. */
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct oracle_data *d = NULL;
		struct oracle_fault fault = {0};
		char *source = xasprintf(HEAD "class Model(nn.Module):\n%s%s", cases[i].model, cases[i].tail);
		if (run(source, 3, &d, &fault)) fail_msg("case %zu: %s: %s", i, fault.code, fault.text);
		assert_int_equal(d->trials[0].ninputs, cases[i].ninputs);
		assert_true(d->trials[0].counts && d->trials[2].counts);
		assert_null(d->null_kernel);
		oracle_data_free(d);
		free(source);
	}
}

/* A task that is too large is judged at smaller sizes, the batch first, and the record says so. */
static void test_sizes_are_fitted(void **state)
{
	static const char source[] = HEAD
		"batch_size = 1 << 4\nbatch = 4096\nchannels, height, width = 16, 512, 512\n"
		"class Model(nn.Module):\n    def forward(self, x):\n        return torch.relu(x) + 1\n"
		"def get_inputs(): return [torch.rand(batch, channels, height, width)]\n"
		"def get_init_inputs(): return []\n";
	struct oracle_data *d = NULL;
	struct oracle_fault fault = {0};
	int batch = 0;
	if (run(source, 3, &d, &fault)) fail_msg("%s: %s", fault.code, fault.text);
	assert_int_equal(sscanf(d->variants[0].changed, "batch %d, stock 4096", &batch), 1);
	assert_true(batch >= 2 && batch < 64);
	assert_null(strstr(d->variants[0].changed, "channels"));
	assert_true(d->trials[0].counts);
	oracle_data_free(d);
}

/* A task may state the sizes at which its values are checked; what it says must be sizes it has. */
static void test_sizes_are_stated(void **state)
{
	static const char source[] = HEAD
		"ROWS = 4096\nCOLS = 3000\nDEPTH = 7\n"
		"class Model(nn.Module):\n    def forward(self, x):\n        return torch.relu(x) + DEPTH\n"
		"def get_inputs(): return [torch.rand(ROWS, COLS)]\n"
		"def get_init_inputs(): return []\n";
	static const struct {
		const char *line, *changed, *fault, *said;
	} CASES[] = {
		{"# Judged at ROWS=5, COLS=70\n", "ROWS 5, stock 4096; COLS 70, stock 3000", NULL, NULL},
		{"# Judged at ROWS=5, WIDTH=70\n", NULL, "task-broken", "judged at WIDTH=70"},
		{"# Judged at ROWS=many\n", NULL, "task-broken", "judged at ROWS=many"},
		{"# Judged at ROWS=4000000\n", NULL, "task-too-large", "state smaller ones"},
	};
	/* The line after the same task: a fault with its words, or the sizes that the first variant
	 * has. */
	for (size_t i = 0; i < ARRAY_LEN(CASES); i++) {
		struct oracle_data *d = NULL;
		struct oracle_fault fault = {0};
		char *text = xasprintf("%s%s", source, CASES[i].line);
		int rc = run(text, 3, &d, &fault);
		free(text);
		if (CASES[i].fault) {
			assert_int_not_equal(rc, 0);
			assert_string_equal(fault.code, CASES[i].fault);
			assert_non_null(strstr(fault.text, CASES[i].said));
			continue;
		}
		if (rc) fail_msg("%s: %s", fault.code, fault.text);
		assert_string_equal(d->variants[0].changed, CASES[i].changed);
		assert_true(d->trials[0].counts);
		oracle_data_free(d);
	}
}

/* An input that is the same under every seed is varied by one kind of trial, and so are
 * rows, magnitudes and strides.
 */
static void test_kinds_of_inputs(void **state)
{
	static const char source[] = HEAD
		"M = 24\nN = 16\nclass Model(nn.Module):\n    def forward(self, x, mask, h, at, w):\n"
		"        return ((x * mask + h) @ w)[at]\n"
		"def get_inputs(): return [torch.rand(M, N), torch.ones(M, N), torch.zeros(M, N), torch.arange(M), "
		"torch.rand(8, N).t()]\n"
		"def get_init_inputs(): return []\n";
	struct oracle_data *d = NULL;
	struct oracle_fault fault = {0};
	bool varied = false, strided = false, large = false, zero_row = false;
	if (run(source, 15, &d, &fault)) fail_msg("%s: %s", fault.code, fault.text);
	/* Each trial by its inputs: a block, a mask of ones, a vector of zeros, and positions. */
	for (int i = 0; i < d->ntrials; i++) {
		const struct oracle_trial *t = &d->trials[i];
		if (t->is_edge) assert_false(t->counts);
		if (!t->counts) continue;
		const float *x = (const float *)(const void *)(t->given + t->inputs[0].offset),
					*mask = (const float *)(const void *)(t->given + t->inputs[1].offset),
					*h = (const float *)(const void *)(t->given + t->inputs[2].offset);
		const int64_t *at = (const int64_t *)(const void *)(t->given + t->inputs[3].offset);
		int ones = 0, zeros = 0, moved = 0;
		for (int k = 0; k < 64; k++) ones += mask[k] == 1, zeros += h[k] == 0;
		for (int k = 0; k < 8; k++) moved += at[k] != k;
		/* Only this kind of trial touches what the task itself fixes. */
		if (!strcmp(t->distribution, "defaults")) {
			assert_true(ones < 64 && zeros < 64 && moved > 0);
			varied = true;
		} else {
			assert_true(ones == 64 && zeros == 64 && moved == 0);
		}
		/* Large magnitudes, rows of zeros and strided inputs occur somewhere. */
		large |= !strncmp(t->distribution, "large", 5) && fabsf(x[0]) + fabsf(x[1]) > 1e4f;
		if (!strcmp(t->distribution, "rows"))
			for (int r = 0; r < 24; r++) {
				int empty = 0;
				for (int k = 0; k < 16; k++) empty += x[r * 16 + k] == 0;
				zero_row |= empty == 16;
			}
		strided |= !strcmp(d->variants[t->variant].kind, "strided") && t->counts;
	}
	assert_true(varied && large && zero_row && strided);
	oracle_data_free(d);
}

/* A reference that never returns costs its deadline and nothing else. */
static void test_a_hanging_task_is_killed(void **state)
{
	const char *source = MODEL("\n        while True: pass");
	struct err err = {0};
	struct oracle_data *d = NULL;
	struct oracle_fault fault = {0};
	struct task task = {.source = (char *)(uintptr_t)source, .hash = hash_bytes(source, strlen(source))};
	struct oracle_options o = {
		.limits = {level, (int64_t)4 << 30, 0}, .timeout_ms = 1000, .work_ms = 41, .seed = 5, .num_trials = 3};
	assert_int_equal(oracle_run(z, &task, &o, &d, &fault, &err), ERR_MISMATCH);
	assert_string_equal(fault.code, "task-timeout");
	assert_int_equal(run(MODEL("return x + 1"), 2, &d, &fault), 0);
	oracle_data_free(d);
}

/* One that hangs, by computing or by waiting, is ended long before its time is spent,
 * whatever the clock says. */
static void test_a_silent_reference_hangs(void **state)
{
	static const char *const cases[][2] = {{"\n        while True: pass", "it computed for 700 ms without a result"},
		{"\n        time.sleep(1000)\n        return x", "it slept for 700 ms"},
		{"\n        import threading\n        threading.Lock().acquire() and threading.Event().wait()\n        return "
		 "x",
			"it slept for 700 ms"}};
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		char *source = xasprintf("import time\n" MODEL("%s"), cases[i][0]);
		struct err err = {0};
		struct oracle_data *d = NULL;
		struct oracle_fault fault = {0};
		struct task task = {.source = source, .hash = hash_bytes(source, strlen(source))};
		struct oracle_options o = {.limits = {level, (int64_t)4 << 30, 0},
			.timeout_ms = 300000,
			.silent_ms = 700,
			.work_ms = 12500,
			.seed = 5,
			.num_trials = 3};
		assert_int_equal(oracle_run(z, &task, &o, &d, &fault, &err), ERR_MISMATCH);
		assert_string_equal(fault.code, "task-timeout");
		if (!strstr(fault.text, cases[i][1])) fail_msg("%s: expected %s", fault.text, cases[i][1]);
		free(source);
	}
}

/* What a reference may take is processor time: one that waits longer than that, as each does on a
 * loaded machine, has its oracle all the same. */
static void test_waiting_is_no_work(void **state)
{
	const char *source = "import time\n" MODEL("\n        time.sleep(0.4)\n        return x + 1");
	struct err err = {0};
	struct oracle_data *d = NULL;
	struct oracle_fault fault = {0};
	struct task task = {.source = (char *)(uintptr_t)source, .hash = hash_bytes(source, strlen(source))};
	struct oracle_options o = {.limits = {level, (int64_t)4 << 30, 0},
		.timeout_ms = 2000,
		.silent_ms = 20000,
		.work_ms = 83,
		.seed = 5,
		.num_trials = 2};
	uint64_t start = clock_ns();
	assert_int_equal(oracle_run(z, &task, &o, &d, &fault, &err), 0);
	assert_true(clock_ns() - start > (uint64_t)o.timeout_ms * 1000000u);
	oracle_data_free(d);
}

/* ---- what is kept of tasks ---- */

#define MARK 1 /* a character that no reason begins with */

/* The data of a task, which gets a mark: what is kept still has it, what is made anew has not. */
static const struct oracle_data *taken(struct oracle_cache *c, const char *source, bool is_kept)
{
	struct err err = {0};
	struct oracle_fault fault = {0};
	const struct oracle_data *d = NULL;
	struct task task = {.name = (char *)(uintptr_t)"t", .source = (char *)(uintptr_t)source};
	if (oracle_cache_get(c, &task, &d, &fault, &err)) fail_msg("%s", fault.text[0] ? fault.text : err.text);
	struct oracle_data *marked = (struct oracle_data *)(uintptr_t)d;
	if ((marked->trials[0].why[0] == MARK) != is_kept) fail_msg("%s: made %s", source, is_kept ? "anew" : "before");
	marked->trials[0].why[0] = MARK;
	return d;
}

/* Two places: what is in use stays, of the others the one that nobody asked for longest goes, and
 * with a bound on bytes every one that nobody uses. Faults of tasks are kept too. */
static void test_cache(void **state)
{
	static const char A[] = MODEL("return x + 1"), B[] = MODEL("return x + 2"), C[] = MODEL("return x + 3"),
					  BROKEN[] = MODEL("return y");
	struct oracle_options o = {
		.limits = {level, (int64_t)4 << 30, 0}, .timeout_ms = 15000, .work_ms = 625, .seed = 5, .num_trials = 3};
	struct oracle_cache *c = oracle_cache_create(z, &o, (int64_t)1 << 40, 2);
	const struct oracle_data *a = taken(c, A, false), *again = taken(c, A, true), *b;
	assert_ptr_equal(a, again);
	oracle_cache_put(c, again);
	/* A is in use by one, so B's place is C's. */
	oracle_cache_put(c, taken(c, B, false));
	oracle_cache_put(c, taken(c, C, false));
	assert_ptr_equal(taken(c, A, true), a);
	oracle_cache_put(c, a);
	oracle_cache_put(c, a);
	/* Nobody uses either; C was asked for before A. */
	b = taken(c, B, false);
	oracle_cache_put(c, taken(c, A, true));
	oracle_cache_put(c, b);
	oracle_cache_free(c);

	/* Room for no byte: what is put back goes as soon as another comes. */
	c = oracle_cache_create(z, &o, 0, 2);
	a = taken(c, A, false);
	oracle_cache_put(c, taken(c, A, true));
	oracle_cache_put(c, taken(c, B, false));
	assert_ptr_equal(taken(c, A, true), a);
	oracle_cache_put(c, a);
	oracle_cache_put(c, a);
	oracle_cache_put(c, taken(c, B, false));
	oracle_cache_put(c, taken(c, A, false));
	for (int i = 0; i < 2; i++) {
		struct err err = {0};
		struct oracle_fault fault = {0};
		const struct oracle_data *d = NULL;
		struct task task = {.name = (char *)(uintptr_t)"t", .source = (char *)(uintptr_t)BROKEN};
		assert_int_equal(oracle_cache_get(c, &task, &d, &fault, &err), ERR_MISMATCH);
		assert_string_equal(fault.code, "task-broken");
	}
	oracle_cache_free(c);
}

/* A guided trial's inputs are odd: what the outputs and the buffers that forward changes are held
 * to is the tolerance for that, all of them; those of a trial by default have their own. */
static void test_tolerances_of_guided_trials(void **state)
{
	static const char source[] = HEAD "B = 4\nN = 64\nclass Model(nn.Module):\n    def __init__(self):\n        "
									  "super().__init__()\n        self.register_buffer('a', torch.ones(N))\n"
									  "        self.register_buffer('b', torch.ones(N))\n"
									  "    def forward(self, x):\n        self.a.copy_((x + 3000.0).mean(0) - 3000.0)\n"
									  "        self.b.copy_((x + 5000.0).mean(0) - 5000.0)\n"
									  "        return (x + 4000.0).mean(0) - 4000.0\n" TAIL;
	struct oracle_options o = {
		.limits = {level, (int64_t)4 << 30, 0}, .timeout_ms = 15000, .work_ms = 625, .seed = 5, .num_trials = 3};
	struct oracle_cache *c = oracle_cache_create(z, &o, (int64_t)1 << 40, 2);
	const struct oracle_data *d = taken(c, source, false);
	struct task task = {.name = (char *)(uintptr_t)"t", .source = (char *)(uintptr_t)source};
	struct oracle_session *s = NULL;
	struct oracle_trial t;
	struct err err = {0};
	if (oracle_session_start(c, &task, d, 0, &s, &err)) fail_msg("%s", err.text);
	if (oracle_session_trial(s, 0, json_pack("[{s:s, s:f}]", "op", "scale", "by", 2.0), &t, &err))
		fail_msg("%s", err.text);
	assert_true(t.counts && t.is_guided && t.noutputs == 1 && t.nafter == 2);
	assert_int_equal(d->trials[0].nafter, 2);
	/* The output, then each buffer. */
	for (int i = -1; i < t.nafter; i++) {
		const struct compare_bound *odd = i < 0 ? &t.bounds[0] : &t.after[i].bound,
								   *plain = i < 0 ? &d->trials[0].bounds[0] : &d->trials[0].after[i].bound;
		assert_true(odd->tolerance == odd->odd_tolerance);
		assert_true(odd->tolerance > 2 * plain->tolerance);
	}
	oracle_trial_release(&t);
	oracle_session_end(s);
	oracle_cache_put(c, d);
	oracle_cache_free(c);
}

/* A process that does not hear is of no use: who asks it is told so, and not by the next answer. */
static void test_sizes_asked_of_nobody(void **state)
{
	struct oracle_options o = {
		.limits = {level, (int64_t)4 << 30, 0}, .timeout_ms = 15000, .work_ms = 625, .seed = 5, .num_trials = 3};
	struct oracle_cache *c = oracle_cache_create(z, &o, (int64_t)1 << 40, 2);
	const char *source = MODEL("return x + 4");
	const struct oracle_data *d = taken(c, source, false);
	struct task task = {.name = (char *)(uintptr_t)"t", .source = (char *)(uintptr_t)source};
	struct oracle_session *s = NULL;
	struct oracle_side side = {.side = "above", .number = 100};
	struct err err = {0};
	bool was_there[64];
	for (int fd = 0; fd < 64; fd++) was_there[fd] = fcntl(fd, F_GETFD) >= 0;
	assert_int_equal(oracle_sized_start(c, &task, d, &s, &err), 0);
	for (int fd = 0; fd < 64; fd++)
		if (!was_there[fd]) shutdown(fd, SHUT_RDWR);
	assert_true(oracle_sized_ask(s, 0, &side, &err) < 0);
	oracle_session_end(s);
	oracle_cache_put(c, d);
	oracle_cache_free(c);
}

/* Why torch did not compute a row goes into a record: no byte of it is beyond ASCII, the first such
 * one among them. */
static void test_library_row(void **state)
{
	struct verify_shared shared = {
		.oracle = z, .level = level, .limits = {.replay_memory_bytes = (int64_t)4 << 30, .replay_timeout_ms = 60000}};
	struct verdict v = {.line = 0};
	struct grading g = {.s = &shared, .v = &v};
	struct tape_row row = {.kind = TAPE_LIBRARY, .op = (char *)(uintptr_t)"one\xc2\x80two\xe2\x80\x93three"};
	struct tape t = {.rows = &row, .nrows = 1};
	struct err err = {0};
	char why[400] = "";
	json_t *args = json_object();
	row.op_args = args;
	if (library_start(&g, &t, &err)) fail_msg("%s", err.text);
	int rc = g.computes.compute(g.computes.ctx, 0, deadline_in_ms(120000), why, sizeof why, &err);
	assert_int_equal(rc, ERR_MISMATCH);
	assert_string_equal(why, "one??two???three is no operator of torch's own");
	library_end(&g);
	json_decref(args);
}

int main(void)
{
	cmocka_set_message_output(CM_OUTPUT_TAP);
	signal(SIGPIPE, SIG_IGN);
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_trials_of_a_plain_task),
		cmocka_unit_test(test_positive_domains),
		cmocka_unit_test(test_parameters_are_randomised),
		cmocka_unit_test(test_domains_are_kept),
		cmocka_unit_test(test_null_kernels_are_found),
		cmocka_unit_test(test_broken_tasks_have_codes),
		cmocka_unit_test(test_forms_of_tasks),
		cmocka_unit_test(test_sizes_are_fitted),
		cmocka_unit_test(test_sizes_are_stated),
		cmocka_unit_test(test_kinds_of_inputs),
		cmocka_unit_test(test_a_hanging_task_is_killed),
		cmocka_unit_test(test_a_silent_reference_hangs),
		cmocka_unit_test(test_waiting_is_no_work),
		cmocka_unit_test(test_cache),
		cmocka_unit_test(test_tolerances_of_guided_trials),
		cmocka_unit_test(test_sizes_asked_of_nobody),
		cmocka_unit_test(test_library_row),
	};
	return cmocka_run_group_tests(tests, start, end);
}
