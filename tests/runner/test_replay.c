/* The replay in this process, over tapes written by hand: what each row does, faults and
 * their codes, lineage, memory that must not change. */
#include "runner/launcher.h"
#include "runner/replay.h"
#include "vm/vm.h"
#include <errno.h>
#include <math.h>
#include <setjmp.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

#define MIB ((int64_t)1 << 20)

/* y = x + 1 over n floats. */
#define ADD_ONE "module {\\n  tt.func public @k(%x: !tt.ptr<f32>, %y: !tt.ptr<f32>, %n: i32) {\\n" \
	"    %one = arith.constant dense<1.000000e+00> : tensor<16xf32>\\n" \
	"    %i = tt.make_range {end = 16 : i32, start = 0 : i32} : tensor<16xi32>\\n" \
	"    %b = tt.splat %n : i32 -> tensor<16xi32>\\n" \
	"    %m = arith.cmpi slt, %i, %b : tensor<16xi32>\\n" \
	"    %xs = tt.splat %x : !tt.ptr<f32> -> tensor<16x!tt.ptr<f32>>\\n" \
	"    %xp = tt.addptr %xs, %i : tensor<16x!tt.ptr<f32>>, tensor<16xi32>\\n" \
	"    %v = tt.load %xp, %m : tensor<16x!tt.ptr<f32>>\\n" \
	"    %w = arith.addf %v, %one : tensor<16xf32>\\n" \
	"    %ys = tt.splat %y : !tt.ptr<f32> -> tensor<16x!tt.ptr<f32>>\\n" \
	"    %yp = tt.addptr %ys, %i : tensor<16x!tt.ptr<f32>>, tensor<16xi32>\\n" \
	"    tt.store %yp, %w, %m : tensor<16x!tt.ptr<f32>>\\n    tt.return\\n  }\\n}\\n"
#define ADD_KERNEL "{\"name\": \"k\", \"ttir\": \"" ADD_ONE "\", \"num_warps\": 1, \"num_stages\": 1, \"num_ctas\": 1}"
#define KERNELS "\"kernels\": [" ADD_KERNEL "]"
#define VIEW(b) "{\"buffer\": " #b ", \"offset\": 0, \"dtype\": \"float32\", \"shape\": [16], \"stride\": [1]}"
#define BUFFERS "\"buffers\": [{\"kind\": \"input\", \"bytes\": 64, \"input\": 0}, {\"kind\": \"temp\", " \
	"\"bytes\": 64}, {\"kind\": \"temp\", \"bytes\": 64}]"
#define LAUNCH_OF(x, y, n) "{\"op\": \"launch\", \"line\": 7, \"kernel\": 0, \"grid\": [1, 1, 1], \"args\": [" \
	x ", " y ", " n "]}"
#define MEMORY(b) "{\"buffer\": " #b ", \"offset\": 0}"
#define LAUNCH(x, y, n) LAUNCH_OF(MEMORY(x), MEMORY(y), "{\"int\": " #n "}")
#define COPY(to, from) "{\"op\": \"copy\", \"line\": 8, \"dst\": " VIEW(to) ", \"src\": " VIEW(from) "}"
#define FILL(to, value) "{\"op\": \"fill\", \"line\": 9, \"dst\": " VIEW(to) ", \"value\": " #value "}"
#define LIBRARY(to, from) "{\"op\": \"library\", \"line\": 10, \"name\": \"aten::mm\", \"reads\": [" VIEW(from) \
	"], \"writes\": [" VIEW(to) "], " \
	"\"args\": {\"args\": [], \"kwargs\": {}}}"
#define TAPE(rows, output) "{\"version\": 2, " BUFFERS ", " KERNELS ", \"rows\": [" rows "], \"outputs\": [" \
	VIEW(output) "], \"tuple\": false}"

static float input[16], output[16];
static int64_t output_bytes = sizeof output; /* of the memory that outputs are promised */

static struct tape *parse(const char *text)
{
	struct tape *t = NULL;
	struct err err = {0};
	if (tape_parse(text, strlen(text), &t, &err)) fail_msg("%s", err.text);
	return t;
}

static const char *card = "H200";
static bool looks_for_missed; /* and gives an empty input beside */

static void replay_text(const char *text, struct runner_given given, struct runner_result *out)
{
	struct replay *r = NULL;
	struct runner_fault fault = {0};
	const struct runner_given inputs[] = {given, {.bytes = 0}};
	struct runner_trial trial = {.ninputs = looks_for_missed ? 2 : 1,
		.inputs = (struct runner_given *)(uintptr_t)inputs,
		.want_cost = true,
		.want_coverage = looks_for_missed,
		.want_missed = looks_for_missed,
		.gpu = card,
		.deadline_ms = 60000};
	struct replay_given data = {(const uint8_t *)input, sizeof input, NULL, NULL, NULL, NULL};
	for (int i = 0; i < 16; i++) {
		input[i] = (float)i;
		output[i] = -1;
	}
	*out = (struct runner_result){0};
	/* A tape that is refused has a fault as one that runs may have. */
	if (replay_create(parse(text), launcher_vm_create(MIB), NULL, &r, &fault)) {
		out->has_fault = true;
		out->fault = fault;
		return;
	}
	replay_run(r, &trial, &data, (uint8_t *)output, output_bytes, out);
	assert_int_equal(replay_line(r, RUNNER_TF32), -1);
	replay_free(r);
}

static const struct runner_given X = {.bytes = 64}, X_MAY_CHANGE = {.bytes = 64, .may_change = true};

static void test_rows_do_their_work(void **state)
{
	struct runner_result r;
	replay_text(TAPE(LAUNCH(0, 1, 16) ", " COPY(2, 1), 2), X, &r);
	assert_false(r.has_fault);
	assert_int_equal(r.lineage, TAPE_LINEAGE_OK);
	for (int i = 0; i < 16; i++) assert_true(output[i] == (float)i + 1);
	assert_int_equal(r.ncosts, 2);
	assert_int_equal(r.costs[0].bytes, 128);
	assert_int_equal(r.costs[0].footprint_bytes, 128);
	assert_int_equal(r.costs[0].programs, 1);
	assert_int_equal(r.costs[1].kind, TAPE_COPY);
	assert_int_equal(r.costs[1].bytes, 128);
	assert_int_equal(r.costs[1].sectors, 4);
	/* A copy has counts: one warp's line, two sectors read and two written. */
	const struct vm_cost *copied = &r.costs[1].counts;
	assert_true(copied->load_lines == 1 && copied->store_lines == 1 && copied->l2_sectors == 4 &&
		copied->footprint_bytes == 128 && copied->programs == 1);
	runner_result_release(&r);
	/* 4100 bytes are 129 sectors of 32, the last one not full. */
	replay_text(
		"{\"version\": 2, \"buffers\": [{\"kind\": \"input\", \"bytes\": 64, \"input\": 0}, {\"kind\": \"temp\", "
		"\"bytes\": 64}, {\"kind\": \"temp\", \"bytes\": 4100}], " KERNELS ", \"rows\": [" LAUNCH(
			0, 1, 16) ", "
					  "{\"op\": \"fill\", \"line\": 9, \"dst\": {\"buffer\": 2, \"offset\": 0, \"dtype\": \"float32\", "
					  "\"shape\": "
					  "[1025], \"stride\": [1]}, \"value\": 1}], \"outputs\": [" VIEW(1) "], \"tuple\": false}",
		X, &r);
	if (r.has_fault) fail_msg("%s", r.fault.text);
	assert_true(r.ncosts == 2 && r.costs[1].kind == TAPE_FILL && !r.costs[1].counts.programs &&
		r.costs[1].bytes == 4100 && r.costs[1].sectors == 129);
	runner_result_release(&r);
}

/* Memory that is a byte too small is a fault of ours: this program ends before anything is written
 * beside it. */
static void test_outputs_fit(void **state)
{
	struct runner_result r;
	int status = 0;
	fflush(NULL);
	pid_t pid = fork();
	assert_return_code(pid, errno);
	if (pid == 0) {
		signal(SIGABRT, SIG_DFL);
		output_bytes = sizeof output - 1;
		freopen("/dev/null", "w", stderr);
		replay_text(TAPE(LAUNCH(0, 1, 16), 1), X, &r);
		_exit(0);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT);
}

/* Which elements no launch reads, also beside memory that holds none: all from the 12th on,
 * the 15th alone, or none. */
static void test_missed(void **state)
{
#define MISSED_TAPE(n) "{\"version\": 2, \"buffers\": [{\"kind\": \"input\", \"bytes\": 64, \"input\": 0}, " \
	"{\"kind\": \"temp\", \"bytes\": 64}, {\"kind\": \"input\", \"bytes\": 0, \"input\": 1}], " KERNELS \
	", \"rows\": [" LAUNCH(0, 1, n) "], \"outputs\": [" VIEW(1) "], \"tuple\": false}"
	static const char *const tapes[] = {MISSED_TAPE(12), MISSED_TAPE(15), MISSED_TAPE(16)};
	static const int from[] = {12, 15, 16};
	looks_for_missed = true;
	for (size_t i = 0; i < ARRAY_LEN(tapes); i++) {
		struct runner_result r;
		replay_text(tapes[i], X, &r);
		if (r.has_fault) fail_msg("%s", r.fault.text);
		assert_int_equal(r.coverage.nmissed, 16 - from[i]);
		for (int k = 0; k < r.coverage.nmissed; k++) {
			const struct runner_missed *m = &r.coverage.missed[k];
			assert_true(m->input == 0 && m->element == from[i] + k && m->size == 4);
		}
		runner_result_release(&r);
	}
	looks_for_missed = false;
}

/* Memory that the host reads an argument of stays what it is while rows run. */
static void test_values_stay(void **state)
{
#define VALUE_TAPE(more) "{\"version\": 2, \"buffers\": [{\"kind\": \"input\", \"bytes\": 64, \"input\": 0}, " \
	"{\"kind\": \"temp\", \"bytes\": 64}, {\"kind\": \"const\", \"bytes\": 4, \"data\": \"AADAPw==\"}], " \
	"\"kernels\": [" ADD_KERNEL ", {\"name\": \"v\", \"ttir\": \"module {\\n  tt.func public @v(%x: !tt.ptr<f32>, " \
	"%y: !tt.ptr<f32>, %a: f32) {\\n    tt.return\\n  }\\n}\\n\", \"num_warps\": 1, \"num_stages\": 1, " \
	"\"num_ctas\": 1}], \"rows\": [" LAUNCH(0, 1, 16) more \
	", {\"op\": \"fill\", \"line\": 5, \"value\": 0, \"dst\": {\"buffer\": 2, \"offset\": 0, " \
	"\"dtype\": \"float32\", \"shape\": [1], \"stride\": [1]}}], \"outputs\": [" \
	VIEW(1) "], \"tuple\": false}"
	struct runner_result r;
	replay_text(VALUE_TAPE(""), X, &r);
	assert_false(r.has_fault);
	runner_result_release(&r);
	replay_text(VALUE_TAPE(", {\"op\": \"launch\", \"line\": 7, \"kernel\": 1, \"grid\": [1, 1, 1], \"args\": "
						   "[{\"buffer\": 0, \"offset\": 0}, {\"buffer\": 1, \"offset\": 0}, {\"value\": {\"buffer\": "
						   "2, \"offset\": 0, \"dtype\": \"float32\"}}]}"),
		X, &r);
	assert_true(r.has_fault);
	assert_string_equal(r.fault.code, "param-modified");
	runner_result_release(&r);
}

/* A descriptor's words: the address and what every descriptor has; before a kernel that knows none,
 * the compiler's own part too. */
static void test_words_of_a_descriptor(void **state)
{
	enum { AT = 4096 };
	static const struct {
		const char *arguments;
		int count;
		int64_t words[12];
	} cases[] = {
		{"%n: i32, %d: !tt.tensordesc<tensor<4x8xf32>>, %a: i32, %b: i32, %c: i64, %e: i64, %m: i32", 7,
			{7, AT, 5, 24, 40, 1, 9}},
		{"%n: i32, %d: !tt.ptr<f32>, %q: i64, %r: i64, %s: i64, %t: i64, %p: i1, %a: i32, %b: i32, %c: i64, %e: i64, "
		 "%m: i32",
			12, {7, AT, 5, 24, 40, 1, 1, 5, 24, 40, 1, 9}},
	};
	struct tape_descriptor d = {.view = {.dtype = DTYPE_F32, .ndim = 2, .shape = {5, 24}, .stride = {40, 1}},
		.block = {4, 8},
		.nan_padding = true};
	struct tape_arg list[] = {{.kind = TAPE_ARG_INT, .i = 7}, {.kind = TAPE_ARG_DESCRIPTOR, .descriptor = &d},
		{.kind = TAPE_ARG_INT, .i = 9}};
	struct tape_row row = {.kind = TAPE_LAUNCH, .args = list, .nargs = ARRAY_LEN(list)};
	static const uint64_t address[] = {0, AT, 0};
	/* Each way by its own kernel, between two numbers that stay where they are. */
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct vm_kernel *k = NULL;
		struct err err = {0};
		struct vm_arg words[2 * TAPE_ARGS_MAX + 1] = {{0}};
		char *text = xasprintf("module {\n  tt.func public @k(%s) {\n    tt.return\n  }\n}\n", cases[i].arguments);
		if (vm_kernel_create(text, strlen(text), &k, &err)) fail_msg("%s", err.text);
		assert_int_equal(launcher_arguments(k, &row, address, NULL, words, &err), cases[i].count);
		for (int w = 0; w < cases[i].count; w++) assert_int_equal(words[w].i, cases[i].words[w]);
		assert_true(words[1].nan_padding);
		vm_kernel_free(k);
		free(text);
	}
}

/* The same tape twice on one replay: nothing of the first trial is left in the second. */
static void test_trials_are_independent(void **state)
{
	struct replay *r = NULL;
	struct runner_fault fault = {0};
	struct runner_given given = X;
	struct runner_trial trial = {.ninputs = 1, .inputs = &given, .deadline_ms = 60000};
	assert_int_equal(replay_create(parse(TAPE(LAUNCH(0, 1, 16), 1)), launcher_vm_create(MIB), NULL, &r, &fault), 0);
	for (int round = 0; round < 3; round++) {
		struct runner_result out;
		for (int i = 0; i < 16; i++) input[i] = (float)(100 * round + i);
		replay_run(r, &trial, &(struct replay_given){(const uint8_t *)input, sizeof input, NULL, NULL, NULL, NULL},
			(uint8_t *)output, sizeof output, &out);
		assert_false(out.has_fault);
		for (int i = 0; i < 16; i++) assert_true(output[i] == (float)(100 * round + i) + 1);
		runner_result_release(&out);
	}
	/* Another tape of the same candidate. */
	assert_int_equal(replay_reload(r, parse(TAPE(LAUNCH(0, 1, 16) ", " LAUNCH(1, 2, 16), 2)), NULL, &fault), 0);
	struct runner_result out;
	replay_run(r, &trial, &(struct replay_given){(const uint8_t *)input, sizeof input, NULL, NULL, NULL, NULL},
		(uint8_t *)output, sizeof output, &out);
	assert_false(out.has_fault);
	assert_true(output[3] == input[3] + 2);
	runner_result_release(&out);
	replay_free(r);
}

static void check_fault(const char *tape, struct runner_given given, const char *code, int line)
{
	struct runner_result r;
	replay_text(tape, given, &r);
	if (!r.has_fault || strcmp(r.fault.code, code))
		fail_msg("expected %s, found %s: %s", code, r.has_fault ? r.fault.code : "no fault", r.fault.text);
	if (line) assert_int_equal(r.fault.line, line);
	runner_result_release(&r);
}

static void test_faults_have_codes(void **state)
{
	check_fault(TAPE(FILL(0, 0) ", " LAUNCH(0, 1, 16), 1), X, "input-modified", 9);
	check_fault(TAPE(COPY(0, 0) ", " LAUNCH(0, 1, 16), 1), X, "input-modified", 8);
	check_fault(TAPE(LAUNCH(0, 0, 16), 0), X, "input-modified", 0);
	check_fault(TAPE(LAUNCH(2, 1, 16), 1), X, "uninitialised", 0);
	/* Arguments that no launcher passes on: a float or memory for an
	 * integer, a float for memory. */
	check_fault(TAPE(LAUNCH_OF(MEMORY(0), MEMORY(1), "{\"float\": 16.0}"), 1), X, "argument", 7);
	check_fault(TAPE(LAUNCH_OF(MEMORY(0), MEMORY(1), MEMORY(0)), 1), X, "argument", 7);
	check_fault(TAPE(LAUNCH_OF(MEMORY(0), "{\"float\": 0.0}", "{\"int\": 16}"), 1), X, "argument", 7);
	check_fault(TAPE(LIBRARY(1, 0) ", " LAUNCH(1, 2, 16), 2), X, "library-row", 10);
	check_fault(TAPE(LAUNCH(0, 1, 16), 1), (struct runner_given){.bytes = 60}, "bad-tape", 0);
	check_fault("{\"version\": 2, \"buffers\": [{\"kind\": \"input\", \"bytes\": 64, \"input\": 0}, {\"kind\": "
				"\"temp\", \"bytes\": 6000000}], " KERNELS ", "
				"\"rows\": [" LAUNCH(0, 1, 16) "], \"outputs\": [" VIEW(1) "], \"tuple\": false}",
		X, "memory", 0);
	/* The only row, on a stream that nobody waits for. */
	check_fault(
		TAPE("{\"op\": \"fill\", \"line\": 9, \"stream\": 1, \"dst\": " VIEW(1) ", \"value\": 1}", 1), X, "race", 9);
	/* An input that the reference modifies itself may be modified. */
	struct runner_result r;
	replay_text(TAPE(LAUNCH(0, 0, 16), 0), X_MAY_CHANGE, &r);
	assert_false(r.has_fault);
	assert_true(output[2] == 3);
	runner_result_release(&r);
}

/* Costs are a card's: none is taken for another, nor in place of none. */
static void test_costs_need_a_card(void **state)
{
	static const char *const no_card[] = {NULL, "", "H2000"};
	struct runner_result r;
	for (size_t i = 0; i < ARRAY_LEN(no_card); i++) {
		card = no_card[i];
		replay_text(TAPE(LAUNCH(0, 1, 16), 1), X, &r);
		assert_true(r.has_fault && !strcmp(r.fault.code, "unknown-card") && r.fault.row == 0);
		assert_non_null(strstr(r.fault.text, card ? card : "\"\""));
		runner_result_release(&r);
	}
	card = "H200";
	replay_text(TAPE(LAUNCH(0, 1, 16), 1), X, &r);
	assert_false(r.has_fault);
	runner_result_release(&r);
}

static void test_lineage(void **state)
{
	struct runner_result r;
	replay_text(TAPE(LAUNCH(0, 1, 9), 1), X, &r);
	assert_false(r.has_fault);
	assert_int_equal(r.lineage, TAPE_LINEAGE_OUTPUT_UNWRITTEN);
	assert_true(isnan(output[9]) && output[8] == 9);
	assert_true(r.place.output == 0 && r.place.first == 9 && r.place.unwritten > 0);
	runner_result_release(&r);
	replay_text(TAPE(FILL(1, 2.5) ", " LAUNCH(0, 1, 9), 1), X, &r);
	assert_int_equal(r.lineage, TAPE_LINEAGE_OK);
	assert_true(output[9] == 2.5f);
	runner_result_release(&r);
	replay_text(TAPE(LAUNCH(0, 2, 16) ", " COPY(1, 0), 1), X, &r);
	assert_int_equal(r.lineage, TAPE_LINEAGE_OUTPUT_NOT_FROM_KERNEL);
	runner_result_release(&r);
}

#define EIGHT(b, type) "{\"buffer\": " #b ", \"offset\": 0, \"dtype\": \"" type "\", \"shape\": [8], \"stride\": [1]}"
#define CAST(line, to, wide, from, type) "{\"op\": \"copy\", \"line\": " #line ", " \
	"\"dst\": " EIGHT(to, wide) ", \"src\": " EIGHT(from, type) "}"
#define KERNEL(body) "module {\n  tt.func public @k(%x: !tt.ptr<f32>, %y: !tt.ptr<f32>, %n: i32) {\n" \
	"%f = arith.constant 1.0 : f32\n%t = arith.constant true\n%v = tt.load %x : !tt.ptr<f32>\n" body \
	"tt.return\n  }\n}\n"
#define OF_LINE(n) " loc(\"k.py\":" #n ":1)\n"
#define PRODUCT(type, more, n) "%p = arith.constant dense<1.0> : tensor<32x32x" type ">\n" \
	"%z = arith.constant dense<0.0> : tensor<32x32xf32>\n%d = tt.dot %p, %p, %z" more \
	" : tensor<32x32x" type "> * tensor<32x32x" type "> -> tensor<32x32xf32>" OF_LINE(n)

/* What is asked of a tape's kernels and casts is answered by those on the way to an output: with
 * the line of the first, -1 where there is none. A row's kernel is ADD_ONE or what it says. */
static void test_lines(void **state)
{
	static const char tf32[] = KERNEL(PRODUCT("f32", ", inputPrecision = tf32", 31)),
					  fp8[] = KERNEL(PRODUCT("f8E5M2", " {maxNumImpreciseAcc = 32 : i32}", 32)),
					  order[] = KERNEL(
						  "%o = tt.atomic_rmw exch, relaxed, gpu, %y, %f, %t : (!tt.ptr<f32>, f32, i1) -> f32" OF_LINE(
							  33)),
					  data[] = KERNEL("%i = arith.fptosi %v : f32 to i32\n%q = tt.addptr %y, %i : !tt.ptr<f32>, i32\n"
									  "tt.store %q, %f : !tt.ptr<f32>" OF_LINE(34)),
					  narrow[] = KERNEL(
						  "%h = arith.truncf %v : f32 to f16" OF_LINE(35) "%w = arith.extf %h : f16 to f32\n"
																		  "tt.store %y, %w : !tt.ptr<f32>\n"),
					  nowhere[] = KERNEL("%h = arith.truncf %v : f32 to f16\n%w = arith.extf %h : f16 to f32\n"
										 "tt.store %y, %w : !tt.ptr<f32>\n");
	enum { QUESTIONS = RUNNER_FP8 + 1 };
	static const struct {
		const char *text;
		const char *kernel;
		int lines[QUESTIONS]; /* less one, so that 0 says none */
	} rows[] = {
		{TAPE(LAUNCH(0, 1, 16), 1), NULL, {0}},
		/* Each question has its own answer; a kernel beside the way has none. */
		{TAPE(FILL(1, 0) ", " LAUNCH(0, 1, 16), 1), tf32, {[RUNNER_TF32] = 32}},
		{TAPE(LAUNCH(0, 1, 16), 1), fp8, {[RUNNER_FP8] = 33}},
		{TAPE(LAUNCH(0, 1, 16) ", " FILL(2, 1), 2), tf32, {0}},
		{TAPE(LAUNCH(0, 1, 16) ", " LAUNCH(0, 2, 16), 2), order, {[RUNNER_ORDER] = 34}},
		{TAPE(LAUNCH(0, 1, 16), 1), data, {[RUNNER_DATA] = 35}},
		{TAPE(LAUNCH(0, 1, 16), 1), narrow, {[RUNNER_NARROW] = 36}},
		{TAPE(LAUNCH(0, 1, 16) ", " FILL(2, 1), 2), narrow, {0}},
		/* Casts by the host: the first that loses digits, wherever it stands. */
		{TAPE(LAUNCH(0, 1, 16) ", " CAST(8, 2, "float16", 1, "float32"), 2), NULL, {[RUNNER_NARROW] = 9}},
		{TAPE(CAST(8, 2, "bfloat16", 0, "float64") ", " LAUNCH(2, 1, 16), 1), NULL, {[RUNNER_NARROW] = 9}},
		{TAPE(FILL(1, 0) ", " COPY(1, 0) ", " CAST(9, 2, "float16", 1, "float32") ", " CAST(
				  10, 2, "float16", 1, "float32"),
			 2),
			NULL, {[RUNNER_NARROW] = 10}},
		{TAPE(CAST(7, 2, "float16", 0, "float32") ", " CAST(8, 1, "bfloat16", 0, "float32"), 1), NULL,
			{[RUNNER_NARROW] = 9}},
		{TAPE(CAST(7, 2, "float16", 0, "float32") ", " COPY(1, 0), 1), NULL, {0}},
		{TAPE(CAST(0, 1, "float16", 0, "float32"), 1), NULL, {[RUNNER_NARROW] = 1}},
		/* None of these does. */
		{TAPE(CAST(8, 1, "float32", 0, "float64"), 1), NULL, {0}},
		{TAPE(CAST(8, 1, "float64", 0, "float32"), 1), NULL, {0}},
		{TAPE(CAST(8, 1, "int16", 0, "float32"), 1), NULL, {0}},
		{TAPE(CAST(8, 1, "float16", 0, "int32"), 1), NULL, {0}},
		{TAPE(CAST(8, 1, "bfloat16", 0, "float16"), 1), NULL, {0}},
		{TAPE(CAST(8, 1, "float16", 0, "float16"), 1), NULL, {0}},
		/* A kernel speaks before a cast, and where it has no line says 0. */
		{TAPE(CAST(8, 2, "float16", 0, "float32") ", " LAUNCH(2, 1, 16), 1), narrow, {[RUNNER_NARROW] = 36}},
		{TAPE(LAUNCH(0, 1, 16), 1), nowhere, {[RUNNER_NARROW] = 1}},
	};
	int bad = 0;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct err err = {0};
		struct runner_fault fault = {0};
		struct replay *r = NULL;
		json_t *o = NULL;
		if (json_parse(rows[i].text, strlen(rows[i].text), "tape", &o, &err)) fail_msg("row %zu: %s", i, err.text);
		if (rows[i].kernel)
			json_object_set_new(json_array_get(json_object_get(o, "kernels"), 0), "ttir", json_string(rows[i].kernel));
		char *text = json_dumps(o, JSON_COMPACT);
		if (replay_create(parse(text), launcher_vm_create(MIB), NULL, &r, &fault))
			fail_msg("row %zu: %s", i, fault.text);
		for (int q = 0; q < QUESTIONS; q++) {
			int line = replay_line(r, (enum runner_question)q), expected = rows[i].lines[q] - 1;
			if (line != expected) print_message("# row %zu, question %d: line %d, not %d\n", i, q, line, expected);
			bad += line != expected;
		}
		replay_free(r);
		free(text);
		json_decref(o);
	}
	assert_int_equal(bad, 0);
}

/* Questions of a clock by their names, and how much room an output has: whole lines of 64 bytes. */
static void test_names_and_sizes(void **state)
{
	static const struct {
		int64_t elements;
		enum dtype dtype;
		int64_t bytes;
	} sizes[] = {{0, DTYPE_F32, 0}, {1, DTYPE_F32, 64}, {16, DTYPE_F32, 64}, {17, DTYPE_F32, 128}, {64, DTYPE_I8, 64},
		{65, DTYPE_I8, 128}, {8, DTYPE_F64, 64}, {33, DTYPE_BF16, 128}};
	for (size_t i = 0; i < ARRAY_LEN(sizes); i++) {
		struct tape_view v = {.dtype = sizes[i].dtype, .ndim = 1, .shape = {sizes[i].elements}, .stride = {1}};
		assert_int_equal(runner_output_bytes(&v), sizes[i].bytes);
	}
	enum runner_clock found;
	for (int i = 0; i < RUNNER_CLOCK_COUNT; i++) {
		assert_int_equal(runner_clock_find(runner_clock_name((enum runner_clock)i), &found), 0);
		assert_int_equal(found, i);
	}
	assert_int_equal(runner_clock_find("no such", &found), ERR_NOT_FOUND);
	assert_int_equal(runner_clock_find("", &found), ERR_NOT_FOUND);
	assert_int_equal(runner_clock_find(NULL, &found), ERR_NOT_FOUND);
}

/* A price needs no data: rows that launch have costs in their order. */
static void test_prices(void **state)
{
	static const struct runner_binaries none = {0};
	struct runner_trial trial = {.gpu = "H200", .seed = 7, .deadline_ms = 60000};
	struct runner_fault fault = {0};
	struct runner_result priced, run;
	struct replay *r = NULL;
	static const char text[] = TAPE(LAUNCH(0, 2, 16) ", " LAUNCH(2, 1, 16), 1);
	assert_int_equal(replay_create(parse(text), launcher_vm_create_sampling(), &none, &r, &fault), 0);
	replay_price(r, &trial, &priced);
	assert_false(priced.has_fault);
	assert_true(priced.place.output == -1 && priced.run_ns > 0);
	/* What it says of a small kernel is what a run counts: 64 bytes read and 64 written. */
	replay_text(text, X, &run);
	assert_int_equal(priced.ncosts, 2);
	assert_int_equal(run.ncosts, 2);
	for (int i = 0; i < 2; i++) {
		const struct runner_row_cost *a = &priced.costs[i], *b = &run.costs[i];
		assert_true(a->row == i && a->kind == TAPE_LAUNCH && a->kernel == 0 && a->error == 0);
		assert_true(a->programs == 1 && a->bytes == 128 && a->footprint_bytes == 128);
		assert_true(a->sectors == b->sectors && a->flops == b->flops && a->special == 0 && a->dot_flops == 0);
		assert_memory_equal(&a->counts, &b->counts, sizeof a->counts);
	}
	runner_result_release(&run);
	runner_result_release(&priced);
	replay_free(r);
}

/* A library row that cannot reach an output does not run, nor does what it feeds. */
static void test_dead_library_rows_are_skipped(void **state)
{
	struct runner_result r;
	replay_text(TAPE(LAUNCH(0, 1, 16) ", " LIBRARY(2, 0) ", " LAUNCH(2, 2, 16), 1), X, &r);
	assert_false(r.has_fault);
	assert_int_equal(r.ncosts, 1);
	assert_true(output[15] == 16);
	runner_result_release(&r);
}

/* Stands for whoever computes library rows: twice what the row reads. Row 1 is
 * the only one it knows. */
static int twice(const struct launcher_library *l, int row, struct runner_fault *fault)
{
	const float *reads = (const float *)(const void *)l->memory;
	float *writes = (float *)(void *)(l->memory + 64); /* one read of 64 bytes lies before */
	if (row != 1) return launcher_fault(fault, "library-row", row, 10, "cannot be computed");
	for (int i = 0; i < 16; i++) writes[i] = 2 * reads[i];
	return 0;
}

/* A library row on the data path is somebody else's: its operands go out dense, what comes back is
 * tagged as a library's, and a kernel goes on from it. */
static void test_library_rows_are_asked_for(void **state)
{
	static _Alignas(64) uint8_t memory[128];
	static const struct {
		const char *text;
		float factor, more;
		enum tape_lineage lineage;
	} cases[] = {
		{TAPE(LAUNCH(0, 1, 16) ", " LIBRARY(2, 1), 2), 2, 2, TAPE_LINEAGE_LIBRARY},
		{TAPE(FILL(1, 0) ", " LIBRARY(1, 0) ", " LAUNCH(1, 2, 16), 2), 2, 1, TAPE_LINEAGE_OK},
	};
	struct launcher_library library = {memory, sizeof memory, twice};
	struct runner_given given = X;
	struct runner_trial trial = {.ninputs = 1, .inputs = &given, .deadline_ms = 60000};
	struct replay_given data = {(const uint8_t *)input, sizeof input, &library, NULL, NULL, NULL};
	for (size_t k = 0; k < ARRAY_LEN(cases); k++) {
		struct replay *r = NULL;
		struct runner_fault fault = {0};
		struct runner_result out;
		for (int i = 0; i < 16; i++) input[i] = (float)i;
		assert_int_equal(replay_create(parse(cases[k].text), launcher_vm_create(MIB), NULL, &r, &fault), 0);
		replay_run(r, &trial, &data, (uint8_t *)output, sizeof output, &out);
		if (out.has_fault) fail_msg("%s: %s", out.fault.code, out.fault.text);
		assert_int_equal(out.lineage, cases[k].lineage);
		for (int i = 0; i < 16; i++) assert_true(output[i] == cases[k].factor * (float)i + cases[k].more);
		runner_result_release(&out);
		replay_free(r);
	}
	/* Who cannot compute it says so, and that is the trial's fault. */
	struct replay *r = NULL;
	struct runner_fault fault = {0};
	struct runner_result out;
	assert_int_equal(replay_create(parse(TAPE(LIBRARY(1, 0), 1)), launcher_vm_create(MIB), NULL, &r, &fault), 0);
	replay_run(r, &trial, &data, (uint8_t *)output, sizeof output, &out);
	assert_true(out.has_fault);
	assert_string_equal(out.fault.code, "library-row");
	runner_result_release(&out);
	replay_free(r);
}

static int (*fill)(struct launcher *, int, const uint8_t *, bool, struct runner_fault *);
static int begins;

/* Memory that takes longer than the rows may: that is said to nobody yet. */
static int slow_fill(struct launcher *l, int buffer, const uint8_t *data, bool is_read_only, struct runner_fault *fault)
{
	if (buffer == 0) usleep(600000);
	assert_int_equal(begins, 0);
	return fill(l, buffer, data, is_read_only, fault);
}

static void begun(void) { begins++; }

/* The rows' time begins with the first of them, not with the copies of what they are given. */
static void test_time_begins_with_rows(void **state)
{
	struct replay *r = NULL;
	struct runner_fault fault = {0};
	struct runner_given given = X;
	struct runner_trial trial = {.ninputs = 1, .inputs = &given, .deadline_ms = 500};
	struct runner_result out;
	struct launcher *slow = launcher_vm_create(MIB);
	fill = slow->buffer_set;
	slow->buffer_set = slow_fill;
	assert_int_equal(replay_create(parse(TAPE(LAUNCH(0, 1, 16), 1)), slow, NULL, &r, &fault), 0);
	replay_run(r, &trial, &(struct replay_given){(const uint8_t *)input, sizeof input, NULL, NULL, NULL, begun},
		(uint8_t *)output, sizeof output, &out);
	if (out.has_fault) fail_msg("%s", out.fault.text);
	assert_int_equal(begins, 1);
	assert_true(output[3] == input[3] + 1);
	runner_result_release(&out);
	replay_free(r);
}

int main(void)
{
	cmocka_set_message_output(CM_OUTPUT_TAP);
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_rows_do_their_work),
		cmocka_unit_test(test_outputs_fit),
		cmocka_unit_test(test_missed),
		cmocka_unit_test(test_words_of_a_descriptor),
		cmocka_unit_test(test_values_stay),
		cmocka_unit_test(test_trials_are_independent),
		cmocka_unit_test(test_faults_have_codes),
		cmocka_unit_test(test_costs_need_a_card),
		cmocka_unit_test(test_lineage),
		cmocka_unit_test(test_lines),
		cmocka_unit_test(test_names_and_sizes),
		cmocka_unit_test(test_prices),
		cmocka_unit_test(test_dead_library_rows_are_skipped),
		cmocka_unit_test(test_library_rows_are_asked_for),
		cmocka_unit_test(test_time_begins_with_rows),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
