/* The pool of a GPU's runners over a driver without a GPU (tests/runner/fake_cuda.c): a runner
 * serves one candidate after another in one process; one that saw a fault, forgets its memory or is
 * dead is never handed out again. What a real GPU adds is make test-gpu's. */
#include "base/base.h"
#include "runner/runner.h"
#include "sandbox/sandbox.h"
#include "verify/runner_pool.h"
#include <dirent.h>
#include <setjmp.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

#define N 16
#define DEADLINE_MS 500
#define TAPE \
	"{\"version\": 2, \"buffers\": [{\"kind\": \"input\", \"bytes\": 64, \"input\": 0}, {\"kind\": \"temp\", " \
	"\"bytes\": 64}], " \
	"\"kernels\": [{\"name\": \"k\", \"ttir\": \"module {}\", \"num_warps\": 4, \"num_stages\": 1, " \
	"\"num_ctas\": 1}], " \
	"\"rows\": [{\"op\": \"launch\", \"line\": 1, \"kernel\": 0, \"grid\": [1, 1, 1], " \
	"\"args\": [{\"buffer\": 0, \"offset\": 0}, " \
	"{\"buffer\": 1, \"offset\": 0}, {\"int\": 16}]}], \"outputs\": [{\"buffer\": 1, \"offset\": 0, " \
	"\"dtype\": \"float32\", " \
	"\"shape\": [16], \"stride\": [1]}], \"tuple\": false}"

static char script[64] = "/tmp/hone-fake-runner-XXXXXX";
static struct runner_pool *pool;

/* A child has none of our environment, so a script says where the driver lies. */
static int set_up(void **state)
{
	const char *build = getenv("BUILD");
	char cwd[4096];
	struct err err = {0};
	int fd = mkstemp(script);
	if (fd < 0 || !getcwd(cwd, sizeof cwd)) return -1;
	build = build ? build : "build/release";
	const char *slash = build[0] == '/' ? "" : "/", *root = build[0] == '/' ? "" : cwd;
	dprintf(fd, "#!/bin/sh\nLD_LIBRARY_PATH='%s%s%s/fake_driver' exec '%s%s%s/hone-runner' \"$@\"\n", root, slash,
		build, root, slash, build);
	if (fchmod(fd, 0700)) return -1;
	close(fd);
	struct runner_device device;
	struct runner_pool_options o = {
		.path = script, .device = "cuda:0", .memory_bytes = 1 << 20, .spare = 1, .level = SANDBOX_NONE};
	if (runner_pool_create(&o, &pool, &device, &err)) fail_msg("%s", err.text);
	assert_string_equal(device.name, "Fake H200");
	return 0;
}

static int tear_down(void **state)
{
	runner_pool_free(pool);
	unlink(script);
	return 0;
}

static int memory_of(const void *data, size_t bytes)
{
	struct err err = {0};
	int fd = memfd_make("data", bytes, &err);
	assert_true(fd >= 0 && pwrite(fd, data, bytes, 0) == (ssize_t)bytes);
	return fd;
}

/* A candidate whose one kernel does `kind`: the fault's code, or "" and the right outputs. */
static void candidate(struct runner *r, const char *kind, char code[32])
{
	char image[128] = "\177ELF";
	float input[N], output[16 + N] = {0};
	struct runner_binary b = {
		.name = "k", .num_warps = 4, .nargs = 3, .args = {"*f32", "*f32", "i32"}, .bytes = sizeof image};
	struct runner_result result = {0};
	struct runner_fault fault = {0};
	struct runner_loaded loaded;
	struct err err = {0};
	uint64_t deadline = clock_ns() + UINT64_C(20000000000);
	/* The fake driver reads what the kernel does from the image's text. */
	snprintf(image + 4, sizeof image - 4, "%s", kind);
	for (int i = 0; i < N; i++) input[i] = (float)i;
	int fds[] = {memory_of(image, sizeof image), memory_of(input, sizeof input), memory_of(output, sizeof output)};
	struct runner_load load = {.tape = TAPE, .len = strlen(TAPE), .count = 1, .binaries = &b, .binaries_fd = fds[0]};
	if (runner_load(r, &load, deadline, &loaded, &fault, &err)) fail_msg("%s: %s%s", kind, err.text, fault.text);
	/* One trial; the outputs start 64 bytes into their memory. */
	struct runner_given given = {.bytes = sizeof input};
	struct runner_trial trial = {.ninputs = 1, .inputs = &given, .output_offset = {64}, .deadline_ms = DEADLINE_MS};
	if (runner_try(r, &trial, 1, &(struct runner_data){fds[1], fds[2], NULL, NULL}, deadline, &result, &err))
		fail_msg("%s: %s", kind, err.text);
	/* Without a fault each output is its input plus one. */
	snprintf(code, 32, "%s", result.has_fault ? result.fault.code : "");
	assert_int_equal(pread(fds[2], output, sizeof output, 0), sizeof output);
	for (int i = 0; i < N && !result.has_fault; i++) assert_true(output[16 + i] == input[i] + 1);
	runner_result_release(&result);
	for (int i = 0; i < 3; i++) close(fds[i]);
}

static void take(struct runner *r)
{
	struct err err = {0};
	if (runner_pool_take(pool, r, &err)) fail_msg("%s", err.text);
}

static void serve(const char *kind, const char *code, bool is_tainted, pid_t *pid)
{
	struct runner r;
	char found[32];
	take(&r);
	*pid = r.child.pid;
	candidate(&r, kind, found);
	assert_string_equal(found, code);
	r.is_tainted = is_tainted;
	runner_give_back(pool, &r);
}

static void test_serves_on(void **state)
{
	pid_t first, next;
	serve("add", "", false, &first);
	for (int i = 0; i < 20; i++) {
		serve("add", "", false, &next);
		assert_int_equal(next, first);
	}
	/* A fault with which the launcher lives costs the runner where the caller says so. */
	serve("spoil", "input-modified", true, &next);
	assert_int_equal(next, first);
	serve("add", "", false, &next);
	assert_int_not_equal(next, first);
}

/* Whatever the caller says: a context that is lost, and memory that forgets, end the runner. */
static void test_harm_ends_it(void **state)
{
	static const struct {
		const char *kind, *code;
	} harm[] = {{"fault", "out-of-bounds"}, {"hang", "timeout"}, {"break", ""}};
	for (size_t i = 0; i < sizeof harm / sizeof *harm; i++) {
		pid_t harmed, next;
		serve(harm[i].kind, harm[i].code, false, &harmed);
		assert_int_equal(kill(harmed, 0), -1); /* waited for: no such process */
		serve("add", "", false, &next);
		assert_int_not_equal(next, harmed);
	}
}

static void test_dead_while_it_waits(void **state)
{
	pid_t first, next;
	serve("add", "", false, &first);
	assert_int_equal(kill(first, SIGKILL), 0);
	usleep(100000);
	serve("add", "", false, &next);
	assert_int_not_equal(next, first);
}

/* Two in use at once are two processes, and both come back; the pool counts those in use. */
static void test_several(void **state)
{
	struct runner a, b;
	char found[32];
	pid_t next;
	take(&a);
	runner_pool_refill(pool); /* the one in use is the pool's one spare */
	take(&b);
	assert_int_not_equal(a.child.pid, b.child.pid);
	candidate(&b, "add", found);
	candidate(&a, "add", found);
	pid_t pids[] = {a.child.pid, b.child.pid};
	runner_give_back(pool, &a);
	runner_give_back(pool, &b);
	for (int i = 0; i < 4; i++) {
		serve("add", "", false, &next);
		assert_true(next == pids[0] || next == pids[1]);
	}
}

/* Questions of time through two processes: the driver without a GPU has no gate, so there are none,
 * and the runner says why. */
static int never_asked(void *ctx, int64_t ns, enum runner_clock *question, struct err *err)
{
	*(int *)ctx += 1;
	return ERR_INFRA;
}

static void test_says_why_untimed(void **state)
{
	struct runner r;
	char image[128] = "\177ELF"
					  "add";
	float input[N] = {0}, output[16 + N] = {0};
	struct runner_binary b = {
		.name = "k", .num_warps = 4, .nargs = 3, .args = {"*f32", "*f32", "i32"}, .bytes = sizeof image};
	struct runner_result result = {0};
	struct runner_fault fault = {0};
	struct runner_loaded loaded;
	struct err err = {0};
	int asked = 0;
	uint64_t deadline = clock_ns() + UINT64_C(20000000000);
	/* A whole trial, timed, of a runner whose driver has no gate for clocks. */
	int fds[] = {memory_of(image, sizeof image), memory_of(input, sizeof input), memory_of(output, sizeof output)};
	struct runner_load load = {.tape = TAPE, .len = strlen(TAPE), .count = 1, .binaries = &b, .binaries_fd = fds[0]};
	take(&r);
	if (runner_load(&r, &load, deadline, &loaded, &fault, &err)) fail_msg("%s %s", fault.text, err.text);
	struct runner_given given = {.bytes = sizeof input};
	struct runner_trial trial = {
		.ninputs = 1, .inputs = &given, .deadline_ms = DEADLINE_MS, .is_timed = true, .output_offset = {64}};
	struct runner_asker asker = {never_asked, &asked};
	if (runner_try(&r, &trial, 1, &(struct runner_data){fds[1], fds[2], NULL, &asker}, deadline, &result, &err))
		fail_msg("%s", err.text);
	/* The result is right, the asker was not asked, and the reason is told. */
	assert_true(!result.has_fault && asked == 0 && result.memory_bytes >= 128);
	assert_non_null(strstr(result.untimed, "gate"));
	runner_result_release(&result);
	for (int i = 0; i < 3; i++) close(fds[i]);
	runner_give_back(pool, &r);
}

/* A runner that somebody has taken over asks for questions of time for ever. */
static int one_question(void *ctx, int64_t ns, enum runner_clock *question, struct err *err)
{
	int *asked = ctx;
	*question = ++*asked > 1 ? RUNNER_END : RUNNER_SPAN;
	return 0;
}

static void test_asks_for_ever(void **state)
{
	int pair[2], asked = 0;
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, pair), 0);
	/* A false runner: it answers whatever it is sent with a question. */
	pid_t pid = fork();
	if (pid == 0) {
		static const char QUESTION[] = "{\"clock\": {\"ns\": 5}}";
		struct str text = {0};
		struct err err = {0};
		close(pair[0]);
		for (;;) {
			int fds[CHILD_FDS_MAX], nfds = CHILD_FDS_MAX;
			if (msg_recv(pair[1], 1 << 20, &text, fds, &nfds, 0, &err)) _exit(0);
			if (msg_send(pair[1], QUESTION, strlen(QUESTION), NULL, 0, 0, &err)) _exit(0);
		}
	}
	/* Asked more often than a trial has questions it is given up, before the deadline. */
	close(pair[1]);
	struct runner r = {.fd = pair[0]};
	struct runner_asker asker = {one_question, &asked};
	struct runner_trial trial = {.deadline_ms = DEADLINE_MS, .is_timed = true};
	struct runner_result result = {0};
	struct err err = {0};
	char byte = 0;
	int fds[] = {memory_of(&byte, 1), memory_of(&byte, 1)};
	assert_int_equal(runner_try(&r, &trial, 0, &(struct runner_data){fds[0], fds[1], NULL, &asker},
						 clock_ns() + UINT64_C(20000000000), &result, &err),
		ERR_FORMAT);
	assert_int_equal(asked, 2);
	close(pair[0]);
	close(fds[0]);
	close(fds[1]);
	assert_int_equal(waitpid(pid, NULL, 0), pid);
}

/* A runner that says `said` once it has a trial, `times` times, and then no more. */
static pid_t says_begin(const char *said, int times, struct runner *out)
{
	int pair[2];
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, pair), 0);
	pid_t pid = fork();
	if (pid == 0) {
		struct str text = {0};
		struct err err = {0};
		int fds[CHILD_FDS_MAX], nfds = CHILD_FDS_MAX;
		close(pair[0]);
		if (msg_recv(pair[1], 1 << 20, &text, fds, &nfds, 0, &err)) _exit(1);
		for (int i = 0; i < times; i++)
			if (msg_send(pair[1], said, strlen(said), NULL, 0, 0, &err)) _exit(1);
		msg_recv(pair[1], 1 << 20, &text, fds, &nfds, 0, &err); /* until the other end is closed */
		_exit(0);
	}
	close(pair[1]);
	*out = (struct runner){.fd = pair[0]};
	return pid;
}

/* Whether the rows had begun is known of one that falls silent; its time begins with them, once. */
static void test_begins(void **state)
{
	static const char BEGUN[] = "{\"begun\": true}";
	static const struct {
		int times; /* that it says so */
		int code;
		bool has_begun;
	} cases[] = {{0, ERR_TIMEOUT, false}, {1, ERR_TIMEOUT, true}, {2, ERR_FORMAT, true}};
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct runner r;
		struct runner_trial trial = {.deadline_ms = DEADLINE_MS};
		struct runner_result result = {0};
		struct err err = {0};
		char byte = 0;
		int fds[] = {memory_of(&byte, 1), memory_of(&byte, 1)};
		/* A runner that says so some times and then nothing more. */
		pid_t pid = says_begin(BEGUN, cases[i].times, &r);
		r.has_begun = !cases[i].has_begun; /* of an earlier trial: nothing is left of it */
		int rc = runner_try(&r, &trial, 0, &(struct runner_data){fds[0], fds[1], NULL, NULL},
			clock_ns() + UINT64_C(300000000), &result, &err);
		if (rc != cases[i].code || r.has_begun != cases[i].has_begun)
			fail_msg("%d times: %d (%s), begun %d", cases[i].times, rc, err.text, r.has_begun);
		close(r.fd);
		for (int k = 0; k < 2; k++) close(fds[k]);
		assert_int_equal(waitpid(pid, NULL, 0), pid);
	}
}

/* As many as a pool is to keep come back and are kept, also more than a few. */
static void test_many(void **state)
{
	enum { MANY = 20 };
	struct runner_pool *own = NULL;
	struct runner_device device;
	struct runner r[MANY];
	struct err err = {0};
	pid_t pids[MANY];
	struct runner_pool_options o = {
		.path = script, .device = "cuda:0", .memory_bytes = 1 << 20, .spare = MANY, .level = SANDBOX_NONE};
	if (runner_pool_create(&o, &own, &device, &err)) fail_msg("%s", err.text);
	assert_true(runner_pool_is_short(own));
	runner_pool_refill(own);
	runner_pool_settle(own);
	assert_false(runner_pool_is_short(own));
	/* All are taken at once, all come back alive, and end with the pool. */
	for (int i = 0; i < MANY; i++) {
		if (runner_pool_take(own, &r[i], &err)) fail_msg("%s", err.text);
		pids[i] = r[i].child.pid;
	}
	assert_int_equal(runner_pool_count(own), MANY);
	for (int i = 0; i < MANY; i++) runner_give_back(own, &r[i]);
	assert_int_equal(runner_pool_count(own), MANY);
	for (int i = 0; i < MANY; i++) assert_int_equal(kill(pids[i], 0), 0);
	runner_pool_free(own);
	for (int i = 0; i < MANY; i++) assert_int_equal(kill(pids[i], 0), -1);
}

static int cannot_compute(void *ctx, int row, uint64_t deadline_ns, char *why, size_t len, struct err *err)
{
	*(int *)ctx += row + 1;
	return err_set(err, ERR_INFRA, "no process to compute in");
}

/* A library row of a tape on the vm, when whoever computes such rows has failed: that is what the
 * trial ends with, and at once. */
static void test_library_fails(void **state)
{
	static const char tape[] =
		"{\"version\": 2, \"buffers\": [{\"kind\": \"input\", \"bytes\": 64, \"input\": 0}, {\"kind\": \"temp\", "
		"\"bytes\": 64}], \"kernels\": [], \"rows\": [{\"op\": \"library\", \"line\": 1, \"name\": \"aten::relu\", "
		"\"reads\": [{\"buffer\": 0, \"offset\": 0, \"dtype\": \"float32\", \"shape\": [16], \"stride\": [1]}], "
		"\"writes\": [{\"buffer\": 1, \"offset\": 0, \"dtype\": \"float32\", \"shape\": [16], \"stride\": [1]}], "
		"\"args\": {\"args\": [], \"kwargs\": {}}}], \"outputs\": [{\"buffer\": 1, \"offset\": 0, "
		"\"dtype\": \"float32\", \"shape\": [16], \"stride\": [1]}], \"tuple\": false}";
	const char *build = getenv("BUILD");
	char *relative = path_join(build ? build : "build/release", "hone-runner"), *path = realpath(relative, NULL);
	float input[N] = {0}, shared[2 * N] = {0};
	int asked = 0;
	struct runner_pool_options o = {.path = path, .memory_bytes = 256 << 20, .level = SANDBOX_NONE};
	struct runner_pool *vm;
	struct runner_device device;
	struct runner r;
	struct runner_loaded loaded;
	struct runner_fault fault = {0};
	struct runner_result result = {0};
	struct err err = {0};
	uint64_t deadline = clock_ns() + UINT64_C(20000000000);
	if (runner_pool_create(&o, &vm, &device, &err) || runner_pool_take(vm, &r, &err)) fail_msg("%s", err.text);
	struct runner_load load = {.tape = tape, .len = strlen(tape), .binaries_fd = -1};
	if (runner_load(&r, &load, deadline, &loaded, &fault, &err)) fail_msg("%s %s", fault.text, err.text);
	/* What is given, the outputs, and the memory in which the row's operands lie. */
	int fds[] = {memory_of(input, sizeof input), memory_of(shared, sizeof shared), memory_of(shared, sizeof shared)};
	struct runner_given given = {.bytes = sizeof input};
	struct runner_trial trial = {.ninputs = 1, .inputs = &given, .deadline_ms = 10000};
	struct runner_library library = {.fd = fds[2], .compute = cannot_compute, .ctx = &asked};
	assert_int_equal(
		runner_try(&r, &trial, 1, &(struct runner_data){fds[0], fds[1], &library, NULL}, deadline, &result, &err),
		ERR_INFRA);
	assert_string_equal(err.text, "no process to compute in");
	assert_int_equal(asked, 1);
	runner_end(vm, &r, NULL, 0, NULL);
	for (int i = 0; i < 3; i++) close(fds[i]);
	runner_pool_free(vm);
	free(relative);
	free(path);
}

/* The fourth field of a process's status, behind the name: its parent. */
static pid_t parent_of(pid_t pid)
{
	char path[64], line[512] = "";
	int parent = -1;
	snprintf(path, sizeof path, "/proc/%d/stat", (int)pid);
	FILE *f = fopen(path, "r");
	if (f && fgets(line, sizeof line, f) && strrchr(line, ')')) sscanf(strrchr(line, ')'), ") %*c %d", &parent);
	if (f) fclose(f);
	return parent;
}

/* The child of this process that was started to be a template, by the last of its words, which
 * `runner` has from it; -1: there is none. */
static pid_t template_beside(pid_t runner)
{
	char path[300], words[4096];
	pid_t found = -1;
	DIR *all = opendir("/proc");
	for (struct dirent *e; all && found < 0 && (e = readdir(all));) {
		pid_t pid = atoi(e->d_name);
		if (pid <= 0 || pid == runner || parent_of(pid) != getpid()) continue;
		snprintf(path, sizeof path, "/proc/%s/cmdline", e->d_name);
		FILE *f = fopen(path, "r");
		size_t n = f ? fread(words, 1, sizeof words - 1, f) : 0;
		if (f) fclose(f);
		if (n > sizeof "template" && !strcmp(words + n - sizeof "template", "template")) found = pid;
	}
	if (all) closedir(all);
	return found;
}

/* The vm's runners, where many are expected, are forked by a template: they are this process's
 * children, whose end it learns, lead a group each, and end with the pool. Where the template is
 * dead the program is started instead. */
static void test_template(void **state)
{
	const char *build = getenv("BUILD");
	char text[256], status[64];
	char *relative = path_join(build ? build : "build/release", "hone-runner"), *path = realpath(relative, NULL);
	int highest = sandbox_level_probe(text, sizeof text);
	for (int level = SANDBOX_NONE; level <= highest; level++) {
		struct runner_pool_options o = {.path = path, .memory_bytes = 256 << 20, .level = level, .spare = 3};
		struct runner_pool *vm = NULL;
		struct runner_device device;
		struct runner r[3];
		struct err err = {0};
		if (runner_pool_create(&o, &vm, &device, &err)) fail_msg("%s: %s", sandbox_level_name(level), err.text);
		runner_pool_refill(vm);
		for (int i = 0; i < 3; i++) {
			if (runner_pool_take(vm, &r[i], &err)) fail_msg("%s: %s", sandbox_level_name(level), err.text);
			assert_int_equal(parent_of(r[i].child.pid), getpid());
			assert_int_equal(getpgid(r[i].child.pid), r[i].child.pid);
		}
		/* How one ended is known: killed, and at the end of its stream. */
		assert_int_equal(kill(r[0].child.pid, SIGKILL), 0);
		runner_end(vm, &r[0], status, sizeof status, NULL);
		assert_string_equal(status, "signal 9 (SIGKILL)");
		runner_end(vm, &r[1], status, sizeof status, NULL);
		assert_string_equal(status, "exit 0");
		/* Its runners die with a template, and the next one is a program of its own. */
		pid_t orphan = r[2].child.pid, template = template_beside(orphan);
		assert_true(template > 0);
		assert_int_equal(kill(template, SIGKILL), 0);
		runner_end(vm, &r[2], NULL, 0, NULL);
		if (runner_pool_take(vm, &r[0], &err)) fail_msg("%s: %s", sandbox_level_name(level), err.text);
		assert_int_not_equal(r[0].child.pid, orphan);
		assert_int_equal(template_beside(-1), -1);
		runner_end(vm, &r[0], status, sizeof status, NULL);
		assert_string_equal(status, "exit 0");
		runner_pool_free(vm);
	}
	free(relative);
	free(path);
}

/* A runner that a tool starts, with exact allocations, serves as any other; what the tool prints is
 * kept, and when the runner is done the tool has its time to print more. */
static void test_under_a_tool(void **state)
{
	char tool[64] = "/tmp/hone-fake-tool-XXXXXX", found[32], said[256] = "";
	struct runner r;
	struct err err = {0};
	int fd = mkstemp(tool), out = memfd_create("said", MFD_CLOEXEC), count = runner_pool_count(pool);
	/* A child has none of our environment: the tool says where the driver
	 * lies, as the script does. */
	FILE *f = fopen(script, "r");
	char head[2], line[9000] = "";
	assert_true(f && fread(head, 1, 2, f) == 2 && fgets(line, sizeof line, f) && fgets(line, sizeof line, f));
	fclose(f);
	*strstr(line, " exec ") = 0;
	dprintf(fd, "#!/bin/sh\necho \"watched with $1\"\nshift\n%s \"$@\"\necho done\n", line);
	assert_int_equal(fchmod(fd, 0700), 0);
	close(fd);
	const char *words[] = {tool, "--eyes", NULL};
	if (runner_start_under(pool, words, out, 20000, &r, &err)) fail_msg("%s", err.text);
	candidate(&r, "add", found);
	assert_string_equal(found, "");
	/* Without canaries nothing of ours sees a store beside a buffer: the tool is there for it. */
	runner_end_under(pool, &r, 5000);
	assert_int_equal(r.child.status, 0);
	assert_true(pread(out, said, sizeof said - 1, 0) > 0);
	assert_string_equal(said, "watched with --eyes\ndone\n");
	assert_int_equal(runner_pool_count(pool), count);
	/* A tool that cannot be started, and one that never starts the runner. */
	const char *missing[] = {"/nowhere/tool", NULL}, *silent[] = {"/bin/true", NULL};
	assert_int_equal(runner_start_under(pool, missing, out, 20000, &r, &err), ERR_INFRA);
	assert_non_null(strstr(err.text, "/nowhere/tool cannot be started"));
	assert_int_equal(runner_start_under(pool, silent, out, 20000, &r, &err), ERR_INFRA);
	assert_int_equal(runner_pool_count(pool), count);
	close(out);
	unlink(tool);
}

/* A scheduler that hands out the second card says so in the environment, and
 * number 0 is that one. */
static void test_visible_card(void **state)
{
	struct runner_pool *own = NULL;
	struct runner_device device;
	struct err err = {0};
	struct runner_pool_options o = {
		.path = script, .device = "cuda:0", .memory_bytes = 1 << 20, .spare = 1, .level = SANDBOX_NONE};
	setenv("CUDA_VISIBLE_DEVICES", "1", 1);
	int rc = runner_pool_create(&o, &own, &device, &err);
	unsetenv("CUDA_VISIBLE_DEVICES");
	if (rc) fail_msg("%s", err.text);
	assert_memory_equal(device.uuid, "GPU-01", 6);
	runner_pool_free(own);

	/* A list of any length: one of UUIDs over many cards, or of slices of cards, has
	 * thousands of characters. */
	struct str list = {0};
	for (int i = 0; i < 400; i++) str_append(&list, "GPU-3,", 6);
	str_append(&list, "2", 2);
	own = NULL;
	setenv("CUDA_VISIBLE_DEVICES", list.data, 1);
	rc = runner_pool_create(&o, &own, &device, &err);
	unsetenv("CUDA_VISIBLE_DEVICES");
	str_release(&list);
	if (rc) fail_msg("%s", err.text);
	assert_memory_equal(device.uuid, "GPU-02", 6);
	runner_pool_free(own);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_serves_on),
		cmocka_unit_test(test_harm_ends_it),
		cmocka_unit_test(test_dead_while_it_waits),
		cmocka_unit_test(test_several),
		cmocka_unit_test(test_says_why_untimed),
		cmocka_unit_test(test_asks_for_ever),
		cmocka_unit_test(test_begins),
		cmocka_unit_test(test_many),
		cmocka_unit_test(test_library_fails),
		cmocka_unit_test(test_template),
		cmocka_unit_test(test_under_a_tool),
		cmocka_unit_test(test_visible_card),
	};
	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests_name("runner_pool", tests, set_up, tear_down);
}
