/* hone-runner at the other end of its socket: what it is started with, a tape that is loaded
 * and replayed, and proofs. What the answers of trials say in all their cases is
 * tests/runner's and tests/verify's. */
#include "base/base.h"
#include "prove/prove.h"
#include "runner/runner.h"
#include "sandbox/sandbox.h"
#include "tape/tape.h"
#include <setjmp.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

#define N 16
#define WAIT_NS (60 * UINT64_C(1000000000))

/* o = x + y over 16 floats. */
static const char IR[] = "module {\n"
						 "  tt.func public @k(%x: !tt.ptr<f32>, %y: !tt.ptr<f32>, %o: !tt.ptr<f32>) {\n"
						 "    %i = tt.make_range {end = 16 : i32, start = 0 : i32} : tensor<16xi32>\n"
						 "    %xs = tt.splat %x : !tt.ptr<f32> -> tensor<16x!tt.ptr<f32>>\n"
						 "    %xp = tt.addptr %xs, %i : tensor<16x!tt.ptr<f32>>, tensor<16xi32>\n"
						 "    %xv = tt.load %xp : tensor<16x!tt.ptr<f32>>\n"
						 "    %ys = tt.splat %y : !tt.ptr<f32> -> tensor<16x!tt.ptr<f32>>\n"
						 "    %yp = tt.addptr %ys, %i : tensor<16x!tt.ptr<f32>>, tensor<16xi32>\n"
						 "    %yv = tt.load %yp : tensor<16x!tt.ptr<f32>>\n"
						 "    %ov = arith.addf %xv, %yv : tensor<16xf32>\n"
						 "    %os = tt.splat %o : !tt.ptr<f32> -> tensor<16x!tt.ptr<f32>>\n"
						 "    %op = tt.addptr %os, %i : tensor<16x!tt.ptr<f32>>, tensor<16xi32>\n"
						 "    tt.store %op, %ov : tensor<16x!tt.ptr<f32>>\n"
						 "    tt.return\n"
						 "  }\n"
						 "}\n";

static char *tape_text(const char *kernel)
{
	json_t *o = json_pack("{s:i, s:[{s:s, s:i, s:i}, {s:s, s:i, s:i}, {s:s, s:i}], s:[{s:s, s:s, s:i, s:i, s:i}], "
						  "s:[{s:s, s:i, s:i, s:[i, i, i], s:[{s:i, s:i}, {s:i, s:i}, {s:i, s:i}]}], "
						  "s:[{s:i, s:i, s:s, s:[i], s:[i]}], s:b}",
		"version", TAPE_VERSION, "buffers", "kind", "input", "bytes", 4 * N, "input", 0, "kind", "input", "bytes",
		4 * N, "input", 1, "kind", "temp", "bytes", 4 * N, "kernels", "name", kernel, "ttir", IR, "num_warps", 4,
		"num_stages", 3, "num_ctas", 1, "rows", "op", "launch", "line", 1, "kernel", 0, "grid", 1, 1, 1, "args",
		"buffer", 0, "offset", 0, "buffer", 1, "offset", 0, "buffer", 2, "offset", 0, "outputs", "buffer", 2, "offset",
		0, "dtype", "float32", "shape", N, "stride", 1, "tuple", 0);
	char *text = json_dumps(o, JSON_COMPACT);
	json_decref(o);
	return text;
}

/* The graph of x OP y. */
#define INPUT(i) "{\"kind\": \"input\", \"count\": 16, \"index\": " #i ", \"fixed\": -1}"
#define MEMORY(offset) "{\"offset\": " #offset ", \"bytes\": 64, \"dtype\": \"float32\"}"
#define GRAPH(op) "{\"nodes\": [" INPUT(0) ", " INPUT(1) ", {\"kind\": \"map\", \"count\": 16, \"op\": \"" op \
	"\", \"sources\": [0, 1]}], \"inputs\": [" MEMORY(0) ", " MEMORY(64) "], \"params\": [], \"outputs\": " \
	"[{\"node\": 2, \"dtype\": \"float32\", \"shape\": [16]}]}"
/* The same, where x comes through a table at `at` of the point's tables. */
#define TAKE(at) "{\"kind\": \"take\", \"count\": 16, \"sources\": [0], \"at\": " #at ", \"width\": 8, \"fill\": -1}"
#define TAKEN(at) "{\"nodes\": [" INPUT(0) ", " INPUT(1) ", " TAKE(at) ", {\"kind\": \"map\", \"count\": 16, \"op\": " \
	"\"add\", \"sources\": [2, 1]}], \"inputs\": [" MEMORY(0) ", " MEMORY(64) "], \"params\": [], \"outputs\": " \
	"[{\"node\": 3, \"dtype\": \"float32\", \"shape\": [16]}]}"
#define WORDS(graphs) "{\"graphs\": [" graphs "], \"names\": [null, null, null]}"

/* All of a buffer. */
#define VIEW(b) "{\"buffer\": " #b ", \"offset\": 0, \"dtype\": \"float32\", \"shape\": [16], \"stride\": [1]}"
/* Its output is what a row of a library makes of its input. */
#define LIBRARY_TAPE \
	"{\"version\": 2, \"buffers\": [{\"kind\": \"input\", \"bytes\": 64, \"input\": 0}, {\"kind\": \"temp\", " \
	"\"bytes\": 64}], \"kernels\": [], \"rows\": [{\"op\": \"library\", \"line\": 1, \"name\": \"aten::mm\", " \
	"\"reads\": [" VIEW(0) "], \"writes\": [" VIEW(1) "], \"args\": {\"args\": [], \"kwargs\": {}}}], " \
	"\"outputs\": [" VIEW(1) "], \"tuple\": false}"

/* ---- the process ---- */

static const char *place = ""; /* of the program, in the folder of what is built */

static char *program_find(void)
{
	const char *build = getenv("BUILD");
	char *path = xasprintf("%s/%shone-runner", build ? build : "build/release", place), *whole = realpath(path, NULL);
	free(path);
	return whole;
}

static char *program(void)
{
	char *whole = program_find();
	if (!whole) fail_msg("%shone-runner is not built", place);
	return whole;
}

/* Started with these words and one end of a socket; the other end is returned. What it prints goes
 * to out; -1: nowhere. */
static int start_to(struct child *c, const char *const *words, int out)
{
	int ends[2], n = 1;
	struct err err = {0};
	char *argv[8] = {program()};
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
	for (; words[n - 1]; n++) argv[n] = (char *)(uintptr_t)words[n - 1];
	struct child_options o = {
		.argv = argv, .fds = {ends[1]}, .nfds = 1, .stdout_fd = out, .stderr_fd = -1, .die_with_parent = true};
	if (child_spawn(c, &o, &err)) fail_msg("%s", err.text);
	close(ends[1]);
	free(argv[0]);
	return ends[0];
}

static int start(struct child *c, const char *const *words) { return start_to(c, words, -1); }

static json_t *hear(int fd)
{
	struct str text = {0};
	struct err err = {0};
	json_t *o = NULL;
	if (msg_recv(fd, RUNNER_MESSAGE_BYTES_MAX, &text, NULL, NULL, clock_ns() + WAIT_NS, &err) ||
		json_parse(text.data, text.len, "answer", &o, &err))
		fail_msg("%s", err.text);
	str_release(&text);
	return o;
}

static json_t *ask(int fd, const char *text, const int *fds, int nfds)
{
	struct err err = {0};
	if (msg_send(fd, text, strlen(text), fds, nfds, clock_ns() + WAIT_NS, &err)) fail_msg("%s", err.text);
	return hear(fd);
}

static void expect_ready(int fd)
{
	json_t *o = hear(fd);
	assert_true(json_is_true(json_object_get(o, "ready")));
	assert_string_equal(json_string_value(json_object_get(json_object_get(o, "device"), "name")), "vm");
	json_decref(o);
}

/* The end of the stream ends the process, and well. */
static void expect_end(struct child *c, int fd)
{
	struct err err = {0};
	close(fd);
	if (child_wait(c, (int)(WAIT_NS / 1000000), &err)) fail_msg("%s", err.text);
	assert_int_equal(c->status, 0);
}

static int memory_of(const void *data, size_t bytes)
{
	struct err err = {0};
	int fd = memfd_make("data", bytes, &err);
	assert_true(fd >= 0 && pwrite(fd, data, bytes, 0) == (ssize_t)bytes);
	return fd;
}

/* Memory files that a process has mapped. */
static int mapped(pid_t pid)
{
	char *path = xasprintf("/proc/%d/maps", (int)pid), line[4096];
	int n = 0;
	FILE *f = fopen(path, "r");
	assert_non_null(f);
	while (fgets(line, sizeof line, f)) n += strstr(line, "/memfd:") != NULL;
	fclose(f);
	free(path);
	return n;
}

/* Of a process, in MiB. */
static int resident(pid_t pid)
{
	char *path = xasprintf("/proc/%d/statm", (int)pid);
	long all = 0, pages = 0;
	FILE *f = fopen(path, "r");
	assert_true(f && fscanf(f, "%ld %ld", &all, &pages) == 2);
	fclose(f);
	free(path);
	return (int)(pages * sysconf(_SC_PAGESIZE) >> 20);
}

static const char *const ALONE[] = {"none", "268435456", NULL};

/* ---- tests ---- */

/* Whoever starts it otherwise than the supervisor does gets a status and no runner. */
static void wrong_words_are_refused(void **state)
{
	static const char *const wrong[][6] = {{"none"}, {"none", "0"}, {"none", "-1"}, {"nobody", "1048576"},
		{"none", "1048576", "vm"}, {"none", "1048576", "gpu:00"}, {"none", "1048576", "cuda:"},
		{"none", "1048576", "cuda:x"}, {"none", "1048576", "cuda:0x"}, {"none", "1048576", "cuda:1024"},
		{"none", "1048576", "cuda:0", "inexact"}, {"none", "1048576", "cuda:0", "exact", "tool"},
		{"none", "1048576", "cuda:0", "under"}};
	for (size_t i = 0; i < ARRAY_LEN(wrong); i++) {
		struct child c;
		struct err err = {0};
		int fd = start(&c, wrong[i]);
		if (child_wait(&c, (int)(WAIT_NS / 1000000), &err)) fail_msg("words %zu: %s", i, err.text);
		if (!WIFEXITED(c.status) || WEXITSTATUS(c.status) != 2) fail_msg("words %zu: status 0x%x", i, c.status);
		close(fd);
	}
}

/* A tool is told to start this program again: exact, with the same memory and place, and without a
 * sandbox, since the tool is in it. echo says what it was told. */
static void a_tool_is_told_whom_to_watch(void **state)
{
	char why[512] = "", *self = program();
	int most = sandbox_level_probe(why, sizeof why), out = memfd_create("said", MFD_CLOEXEC);
	char *expected = xasprintf("watched %s none 268435456 cuda:7 exact\n", self), said[4096];
	/* A tool runs in the strongest sandbox, or in none. */
	for (int level = SANDBOX_NONE; level <= most; level += SANDBOX_FULL - SANDBOX_NONE) {
		const char *const words[] = {
			sandbox_level_name(level), "268435456", "cuda:7", "under", "/bin/echo", "watched", NULL};
		struct child c;
		struct err err = {0};
		assert_int_equal(ftruncate(out, 0), 0);
		assert_int_equal(lseek(out, 0, SEEK_SET), 0);
		int fd = start_to(&c, words, out);
		if (child_wait(&c, (int)(WAIT_NS / 1000000), &err)) fail_msg("%s", err.text);
		assert_int_equal(c.status, 0);
		ssize_t n = pread(out, said, sizeof said - 1, 0);
		assert_true(n > 0);
		said[n] = 0;
		assert_string_equal(said, expected);
		close(fd);
	}
	close(out);
	free(expected);
	free(self);
}

/* A tool that is not there: the supervisor hears which one it is. */
static void a_tool_that_is_missing_is_named(void **state)
{
	static const char *const words[] = {"none", "268435456", "cuda:7", "under", "/no/such/tool", NULL};
	struct child c;
	struct err err = {0};
	int fd = start(&c, words);
	json_t *o = hear(fd);
	assert_string_equal(json_string_value(json_object_get(o, "failed")), "/no/such/tool cannot be started");
	json_decref(o);
	if (child_wait(&c, (int)(WAIT_NS / 1000000), &err)) fail_msg("%s", err.text);
	assert_true(WIFEXITED(c.status) && WEXITSTATUS(c.status) == 3);
	close(fd);
}

/* A GPU's runner is asked behind each candidate whether it is as good as new. One that is not says
 * so, and ends. */
static void a_reset_is_answered(void **state)
{
	static const char *const words[] = {"none", "268435456", "cuda:0", NULL};
	/* Before the first tape; behind one; behind one that leaves something. */
	static const char *const kernels[] = {NULL, "k", "kept_k"};
	struct child c;
	struct err err = {0};
	place = "tests/verify/pretend/"; /* its GPU is none */
	char *path = program_find();
	if (!path) {
		place = "";
		skip();
	}
	free(path);
	int fd = start(&c, words);
	place = "";
	json_decref(hear(fd));
	for (size_t i = 0; i < ARRAY_LEN(kernels); i++) {
		if (kernels[i]) {
			char *tape = tape_text(kernels[i]);
			int fds[2] = {memory_of(tape, strlen(tape)), memory_of("", 0)};
			json_t *o = ask(fd, "{\"load\": {\"bytes\": 1, \"binaries\": []}}", fds, 2);
			assert_non_null(json_object_get(o, "loaded"));
			json_decref(o);
			close(fds[0]);
			close(fds[1]);
			free(tape);
		}
		json_t *o = ask(fd, "{\"reset\": {}}", NULL, 0);
		const json_t *fault = json_object_get(o, "fault");
		bool is_kept = i + 1 == ARRAY_LEN(kernels);
		assert_int_equal(json_is_true(json_object_get(o, "ready")), !is_kept);
		assert_int_equal(fault != NULL, is_kept);
		if (is_kept) assert_string_equal(json_string_value(json_object_get(fault, "code")), "timeout");
		json_decref(o);
	}
	if (child_wait(&c, (int)(WAIT_NS / 1000000), &err)) fail_msg("%s", err.text);
	assert_int_equal(c.status, 0);
	close(fd);
}

static void a_tape_is_loaded_and_replayed(void **state)
{
	struct child c;
	int fd = start(&c, ALONE);
	char *tape = tape_text("k");
	float given[2 * N], output[N] = {0};
	for (int i = 0; i < 2 * N; i++) given[i] = 0.5f + (float)i;
	expect_ready(fd);
	int text_fd = memory_of(tape, strlen(tape)),
		fds[2] = {memory_of(given, sizeof given), memory_of(output, sizeof output)};
	json_t *o = ask(fd, "{\"load\": {\"bytes\": 1, \"binaries\": []}}", &text_fd, 1);
	/* Of what a kernel may do that is worth a word this one does nothing. */
	static const char *const lines[] = {"tf32_line", "order_line", "narrow_line", "data_line", "fp8_line"};
	for (size_t i = 0; i < ARRAY_LEN(lines); i++) {
		const json_t *line = json_object_get(json_object_get(o, "loaded"), lines[i]);
		assert_true(json_is_integer(line) && json_integer_value(line) == -1);
	}
	json_decref(o);
	struct runner_given inputs[2] = {
		{.bytes = 4 * N, .read_offset = -1}, {.bytes = 4 * N, .offset = 4 * N, .read_offset = -1}};
	struct runner_trial trial = {.ninputs = 2, .inputs = inputs, .deadline_ms = 60000};
	/* Replayed: both inputs lie in one memory, and the output comes in another. */
	struct runner_result result = {0};
	struct err err = {0};
	json_t *request = json_pack("{s:o}", "trial", runner_trial_json(&trial, 1));
	char *request_text = json_dumps(request, JSON_COMPACT);
	o = ask(fd, request_text, fds, 2);
	/* First it says that its inputs are there and the candidate's time begins. */
	assert_true(json_is_true(json_object_get(o, "begun")));
	json_decref(o);
	o = hear(fd);
	if (runner_result_parse(json_object_get(o, "trial"), &result, &err)) fail_msg("%s", err.text);
	if (result.has_fault) fail_msg("%s", result.fault.text);
	assert_int_equal(pread(fds[1], output, sizeof output, 0), sizeof output);
	for (int i = 0; i < N; i++) assert_true(output[i] == given[i] + given[N + i]);
	/* Of what it had mapped for the load and the trial nothing is left. */
	assert_int_equal(mapped(c.pid), 0);
	runner_result_release(&result);
	json_decref(o);
	json_decref(request);
	free(request_text);
	free(tape);
	close(text_fd);
	close(fds[0]);
	close(fds[1]);
	expect_end(&c, fd);
}

/* What a row of a library reads is handed over in a memory of both sides, what it writes comes back
 * in it, and that memory is let go behind the trial. */
static void library_rows_are_asked_of_the_supervisor(void **state)
{
	static const char tape[] = LIBRARY_TAPE;
	struct child c;
	struct err err = {0};
	int fd = start(&c, ALONE);
	float given[N], output[N] = {0}, operands[2 * N] = {0};
	for (int i = 0; i < N; i++) given[i] = 1.5f * (float)i;
	expect_ready(fd);
	int text_fd = memory_of(tape, sizeof tape - 1),
		fds[3] = {
			memory_of(given, sizeof given), memory_of(output, sizeof output), memory_of(operands, sizeof operands)};
	json_decref(ask(fd, "{\"load\": {\"bytes\": 1, \"binaries\": []}}", &text_fd, 1));
	struct runner_given input = {.bytes = sizeof given, .read_offset = -1};
	struct runner_trial trial = {.ninputs = 1, .inputs = &input, .deadline_ms = 60000};
	json_t *request = json_pack("{s:o}", "trial", runner_trial_json(&trial, 1));
	char *request_text = json_dumps(request, JSON_COMPACT);
	/* It begins, and then asks for row 0. */
	json_decref(ask(fd, request_text, fds, 3));
	json_t *o = hear(fd);
	assert_true(json_is_integer(json_object_get(o, "library")) && !json_integer_value(json_object_get(o, "library")));
	json_decref(o);
	/* Its reads lie first in the memory, its writes behind them. */
	assert_int_equal(pread(fds[2], operands, sizeof given, 0), sizeof given);
	assert_memory_equal(operands, given, sizeof given);
	for (int i = 0; i < N; i++) operands[i] = given[i] - 7;
	assert_int_equal(pwrite(fds[2], operands, sizeof output, sizeof given), sizeof output);
	o = ask(fd, "{\"library\": true}", NULL, 0);
	struct runner_result result = {0};
	if (runner_result_parse(json_object_get(o, "trial"), &result, &err)) fail_msg("%s", err.text);
	if (result.has_fault) fail_msg("%s", result.fault.text);
	assert_int_equal(pread(fds[1], output, sizeof output, 0), sizeof output);
	assert_memory_equal(output, operands, sizeof output);
	assert_int_equal(mapped(c.pid), 0);
	runner_result_release(&result);
	json_decref(o);
	json_decref(request);
	free(request_text);
	close(text_fd);
	for (int i = 0; i < 3; i++) close(fds[i]);
	expect_end(&c, fd);
}

/* A tape is priced without its data, and its text is let go behind it: one that is none, too. */
static void tapes_are_priced(void **state)
{
	struct child c;
	int fd = start(&c, ALONE);
	expect_ready(fd);
	char *good = tape_text("k");
	const char *const tapes[] = {good, "no tape"};
	struct runner_trial trial = {.gpu = "H200", .seed = 7, .deadline_ms = 60000};
	json_t *request = json_pack("{s:o}", "price", runner_trial_json(&trial, 0));
	char *request_text = json_dumps(request, JSON_COMPACT);
	/* Costs for the first, a fault for the second, and nothing mapped behind either. */
	for (int i = 0; i < 2; i++) {
		struct runner_result result = {0};
		struct err err = {0};
		int text_fd = memory_of(tapes[i], strlen(tapes[i]));
		json_t *o = ask(fd, request_text, &text_fd, 1);
		if (runner_result_parse(json_object_get(o, "trial"), &result, &err)) fail_msg("%s", err.text);
		assert_int_equal(result.has_fault, i == 1);
		assert_int_equal(result.ncosts, i == 0);
		assert_int_equal(mapped(c.pid), 0);
		runner_result_release(&result);
		json_decref(o);
		close(text_fd);
	}
	free(request_text);
	/* Nor is anything kept of what was asked, however long that was: a MiB each. */
	struct str much = {0};
	for (int i = 0; i < 1 << 20; i++) str_putc(&much, 'x');
	json_object_set_new(request, "beside", json_string(much.data));
	request_text = json_dumps(request, JSON_COMPACT);
	int text_fd = memory_of(good, strlen(good)), before = 0;
	for (int i = 0; i < 40; i++) {
		if (i == 8) before = resident(c.pid);
		json_decref(ask(fd, request_text, &text_fd, 1));
	}
	assert_true(resident(c.pid) < before + 8);
	close(text_fd);
	str_release(&much);
	json_decref(request);
	free(request_text);
	free(good);
	expect_end(&c, fd);
}

/* A proof of a tape against the graphs in `words`, whose every point has its pair of
 * descriptors: the answer. The tables of point i have the places of all elements in order behind
 * 16 i that are none. */
static json_t *proof_of(int fd, const char *tape, const char *words, int points)
{
	float given[2 * N];
	int64_t places[4 * N];
	for (int i = 0; i < 2 * N; i++) given[i] = 0.2f + rng_uniform(3, 1, (uint64_t)i);
	int fds[CHILD_FDS_MAX] = {memory_of(tape, strlen(tape)), memory_of(words, strlen(words))}, n = 2 + 2 * points;
	for (int i = 0; i < points; i++) {
		for (int k = 0; k < (i + 1) * N; k++) places[k] = k < i * N ? 99 : k - i * N;
		fds[2 + 2 * i] = memory_of(given, sizeof given);
		fds[3 + 2 * i] = memory_of(places, (size_t)((i + 1) * N) * sizeof places[0]);
	}
	json_t *o = ask(fd, "{\"proof\": {\"seed\": 5, \"ms\": 60000}}", fds, n);
	for (int i = 0; i < n; i++) close(fds[i]);
	return o;
}

/* Of x + y. */
static json_t *proof(int fd, const char *words, int points)
{
	char *tape = tape_text("k");
	json_t *o = proof_of(fd, tape, words, points);
	free(tape);
	return o;
}

static void expect_proof(int fd, const char *words, int points, enum prove_answer answer)
{
	struct prove_result r;
	struct err err = {0};
	json_t *o = proof(fd, words, points);
	if (prove_result_parse(json_object_get(o, "proof"), &r, &err)) fail_msg("%s: %s", words, err.text);
	if (r.answer != answer) fail_msg("%s: %s: %s", words, prove_answer_name(r.answer), r.text);
	json_decref(o);
}

static void expect_no_proof(int fd, const char *tape, const char *words, int points, const char *says)
{
	json_t *o = tape ? proof_of(fd, tape, words, points) : proof(fd, words, points);
	const char *failed = json_string_value(json_object_get(json_object_get(o, "proof"), "failed"));
	if (!failed || !strstr(failed, says)) fail_msg("%s: %s", words, failed ? failed : "no failure");
	json_decref(o);
}

/* Every point's graph counts, and what was mapped for a proof is let go behind it. */
static void proofs_over_the_wire(void **state)
{
	struct child c;
	int fd = start(&c, ALONE);
	expect_ready(fd);
	expect_proof(fd, WORDS(GRAPH("add")), 1, PROVE_PROVED);
	expect_proof(fd, WORDS(GRAPH("add") ", " GRAPH("add")), 2, PROVE_PROVED);
	expect_proof(fd, WORDS(GRAPH("mul") ", " GRAPH("add")), 2, PROVE_NOT_PROVED);
	expect_proof(fd, WORDS(GRAPH("add") ", " GRAPH("add") ", " GRAPH("add")), 3, PROVE_PROVED);
	expect_no_proof(fd, NULL, WORDS(GRAPH("add") ", " GRAPH("add")), 1, "1 pairs of descriptors for 2 graphs");
	expect_no_proof(fd, NULL, WORDS(GRAPH("add")), 2, "2 pairs of descriptors for 1 graphs");
	expect_no_proof(fd, NULL, "no words", 1, "the reference's graphs");
	expect_no_proof(fd, "no tape", WORDS(GRAPH("add")), 1, "tape");
	/* Each point has tables of its own. */
	expect_proof(fd, WORDS(TAKEN(0) ", " TAKEN(128) ", " TAKEN(256)), 3, PROVE_PROVED);
	expect_no_proof(fd, NULL, WORDS(TAKEN(0) ", " TAKEN(0)), 2, "place 99 of 16 elements");
	assert_int_equal(mapped(c.pid), 0);
	expect_end(&c, fd);
}

/* A tape of any number of buffers is proved, and the process lives on: where the table of their
 * names is too short, the last name lies in what the heap keeps beside it. */
static void proofs_name_each_buffer(void **state)
{
	struct child c;
	int fd = start(&c, ALONE);
	expect_ready(fd);
	for (int more = 0; more < 40; more++) {
		char *text = tape_text("k");
		struct err err = {0};
		json_t *tape = NULL;
		if (json_parse(text, strlen(text), "tape", &tape, &err)) fail_msg("%s", err.text);
		free(text);
		/* Buffers that no row touches. */
		for (int i = 0; i < more; i++)
			json_array_append_new(
				json_object_get(tape, "buffers"), json_pack("{s:s, s:i}", "kind", "temp", "bytes", 64));
		text = json_dumps(tape, JSON_COMPACT);
		json_t *o = proof_of(fd, text, WORDS(GRAPH("add")), 1);
		struct prove_result r;
		if (prove_result_parse(json_object_get(o, "proof"), &r, &err)) fail_msg("%d: %s", more, err.text);
		if (r.answer != PROVE_PROVED) fail_msg("%d: %s: %s", more, prove_answer_name(r.answer), r.text);
		json_decref(o);
		json_decref(tape);
		free(text);
	}
	expect_end(&c, fd);
}

/* At the level with namespaces the first process lives as long as the one that
 * works, and ends as it does. */
static void two_processes_end_as_one(void **state)
{
	static const char *const words[] = {"full", "268435456", NULL};
	char text[256] = "";
	if (sandbox_level_probe(text, sizeof text) < SANDBOX_FULL) skip();
	struct child c;
	int fd = start(&c, words);
	expect_ready(fd);
	expect_proof(fd, WORDS(GRAPH("add")), 1, PROVE_PROVED);
	expect_end(&c, fd);
	/* A message that makes no sense ends the one that works, with a status of its own. */
	struct err err = {0};
	fd = start(&c, words);
	expect_ready(fd);
	assert_int_equal(msg_send(fd, "{}", 2, NULL, 0, clock_ns() + WAIT_NS, &err), 0);
	if (child_wait(&c, (int)(WAIT_NS / 1000000), &err)) fail_msg("%s", err.text);
	assert_true(WIFEXITED(c.status) && WEXITSTATUS(c.status) == 3);
	close(fd);
}

/* The process that works is the one child of the one that was started. */
static pid_t child_of(pid_t parent)
{
	char *path = xasprintf("/proc/%d/task/%d/children", (int)parent, (int)parent);
	int pid = -1;
	FILE *f = fopen(path, "r");
	assert_true(f && fscanf(f, "%d", &pid) == 1);
	fclose(f);
	free(path);
	return pid;
}

/* A signal that ends the one that works is what the other one ends by. */
static void a_signal_is_seen_as_one(void **state)
{
	static const char *const words[] = {"full", "268435456", NULL};
	char why[512] = "";
	if (sandbox_level_probe(why, sizeof why) < SANDBOX_FULL) skip();
	struct child c;
	struct err err = {0};
	int fd = start(&c, words);
	expect_ready(fd);
	assert_int_equal(kill(child_of(c.pid), SIGKILL), 0);
	if (child_wait(&c, (int)(WAIT_NS / 1000000), &err)) fail_msg("%s", err.text);
	if (!WIFSIGNALED(c.status) || WTERMSIG(c.status) != SIGKILL) fail_msg("status 0x%x", c.status);
	close(fd);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(wrong_words_are_refused),
		cmocka_unit_test(a_tool_is_told_whom_to_watch),
		cmocka_unit_test(a_tool_that_is_missing_is_named),
		cmocka_unit_test(a_reset_is_answered),
		cmocka_unit_test(a_tape_is_loaded_and_replayed),
		cmocka_unit_test(library_rows_are_asked_of_the_supervisor),
		cmocka_unit_test(tapes_are_priced),
		cmocka_unit_test(proofs_over_the_wire),
		cmocka_unit_test(proofs_name_each_buffer),
		cmocka_unit_test(two_processes_end_as_one),
		cmocka_unit_test(a_signal_is_seen_as_one),
	};
	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
