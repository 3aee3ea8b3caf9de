/* Which bytes rows use, and which rows race by them: views of fills, copies and torch's operators
 * by hand, launches by a launcher that marks what it is told. */
#include "runner/row_used.h"
#include "base/base.h"
#include "runner/launcher.h"
#include "runner/replay.h"
#include "runner/row_order.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <cmocka.h>
#include "../leaks.h"

#define BYTES 256
#define ROWS_MAX 4

/* ---- a launcher of two buffers that says what it was told ---- */

static uint8_t marks[2][2][BYTES]; /* buffer; read, written */

static struct launcher_used used_of(const struct launcher *l, int buffer)
{
	return (struct launcher_used){marks[buffer][0], marks[buffer][1], NULL};
}
static struct launcher fake = {.used = used_of};

static void mark(int buffer, bool is_write, int from, int to, int step)
{
	for (int i = from; i < to; i += step) memset(&marks[buffer][is_write][i], 1, 4);
}

/* ---- tapes ---- */

/* n floats from element `at` on, `step` apart. */
#define PART(at, n_, step) \
	(struct tape_view) \
	{ \
		.buffer = 0, .offset_bytes = 4 * (at), .dtype = DTYPE_F32, .ndim = 1, .shape = {n_}, .stride = { step } \
	}

static struct tape_buffer buffers[2] = {{.bytes = BYTES}, {.bytes = BYTES}};
static struct tape_arg both_args[3] = {
	{.kind = TAPE_ARG_POINTER, .buffer = 0}, {.kind = TAPE_ARG_INT, .i = 1}, {.kind = TAPE_ARG_POINTER, .buffer = 0}};

static struct tape tape_of(struct tape_row *rows, int n)
{
	static struct tape_kernel kernel;
	return (struct tape){.nrows = n,
		.rows = rows,
		.nkernels = 1,
		.kernels = &kernel,
		.nbuffers = 2,
		.buffers = buffers,
		.nstreams = ROWS_MAX,
		.nevents = 1};
}

/* Each row on a stream of its own: the race by bytes, and by whole buffers too if there is one. */
static struct row_race race_of(struct tape_row *rows, int n)
{
	static const bool none[ROWS_MAX];
	static const uint8_t writes[3] = {ROW_WRITES, ROW_WRITES, ROW_WRITES};
	struct row_kernel kernel = {.uses = writes, .nargs = 3};
	struct tape t = tape_of(rows, n);
	for (int i = 0; i < n; i++) rows[i].stream = i;
	struct row_used *u = row_used_create(n);
	/* what launches of the test marked is the first launch's */
	for (int i = 0; i < n; i++) row_used_take(u, &t, i, &fake);
	struct row_race r = row_race_find(&t, &kernel, none, u);
	assert_int_equal(row_race_find(&t, &kernel, none, NULL).row, 1);
	/* nothing is known once there were too many pieces */
	u->is_full = true;
	assert_int_equal(row_race_find(&t, &kernel, none, u).row, 1);
	row_used_free(u);
	for (int b = 0; b < 2; b++)
		for (int k = 0; k < 2; k++)
			for (int i = 0; i < BYTES; i++) assert_int_equal(marks[b][k][i], 0);
	return r;
}

#define EXPECT(row_, other_, at_, ...) \
	do { \
		struct tape_row rows[] = {__VA_ARGS__}; \
		struct row_race r = race_of(rows, (int)ARRAY_LEN(rows)); \
		if (r.row != (row_) || r.other != (other_) || r.at != (at_)) \
			fail_msg("line %d: row %d, other %d, byte %lld", __LINE__, r.row, r.other, (long long)r.at); \
	} while (0)
#define FILL(at, n, step) {.kind = TAPE_FILL, .dst = PART(at, n, step)}

static void test_views(void **state)
{
	/* Halves, halves that share an element, and every second one. */
	EXPECT(-1, -1, -1, FILL(0, 32, 1), FILL(32, 32, 1));
	EXPECT(1, 0, 128, FILL(0, 33, 1), FILL(32, 32, 1));
	EXPECT(1, 0, 128, FILL(32, 32, 1), FILL(0, 33, 1));
	EXPECT(-1, -1, -1, FILL(0, 32, 2), FILL(1, 32, 2));
	EXPECT(1, 0, 24, FILL(0, 32, 2), FILL(3, 20, 3));
	EXPECT(2, 0, 252, FILL(0, 2, 63), FILL(1, 31, 2), FILL(63, 1, 1));
	/* Views of nothing, of one element again and again, and backwards. */
	EXPECT(-1, -1, -1, FILL(0, 0, 1), FILL(0, 64, 1));
	EXPECT(-1, -1, -1, FILL(5, 60, 0), FILL(6, 58, 1));
	EXPECT(1, 0, 20, FILL(5, 60, 0), FILL(5, 58, 1));
	EXPECT(1, 0, 0, FILL(4, 5, -1), FILL(0, 1, 1));
	EXPECT(-1, -1, -1, FILL(4, 4, -1), FILL(0, 1, 1));
}

/* Two dimensions: columns of 8 rows of 8. */
static void test_columns(void **state)
{
	struct tape_view left = {.buffer = 0, .dtype = DTYPE_F32, .ndim = 2, .shape = {8, 5}, .stride = {8, 1}},
					 right = left;
	right.shape[1] = 3;
	right.offset_bytes = 20;
	EXPECT(-1, -1, -1, {.kind = TAPE_FILL, .dst = left}, {.kind = TAPE_FILL, .dst = right});
	right.offset_bytes = 16;
	EXPECT(1, 0, 16, {.kind = TAPE_FILL, .dst = left}, {.kind = TAPE_FILL, .dst = right});
}

/* Copies and torch's operators read as well: two reads are no race, each other pair is. */
static void test_reads(void **state)
{
	struct tape_view first = PART(0, 32, 1), second = PART(32, 32, 1), all = PART(0, 64, 1);
	struct tape_view elsewhere = {.buffer = 1, .dtype = DTYPE_F32, .ndim = 1, .shape = {32}, .stride = {1}};
#define LIBRARY(from, to) {.kind = TAPE_LIBRARY, .nreads = 1, .reads = &from, .nwrites = 1, .writes = &to}
	EXPECT(-1, -1, -1, LIBRARY(first, first), LIBRARY(second, second));
	EXPECT(2, 0, 0, LIBRARY(first, first), {.kind = TAPE_FILL, .dst = second}, LIBRARY(all, elsewhere));
}

static void test_launches(void **state)
{
	/* A launch's bytes are what it left, read or written, and are the first row's alone. */
	mark(0, true, 0, 128, 4);
	EXPECT(-1, -1, -1, {.kind = TAPE_LAUNCH, .nargs = 3, .args = both_args}, FILL(32, 32, 1));
	mark(0, true, 0, 132, 4);
	EXPECT(1, 0, 128, {.kind = TAPE_LAUNCH, .nargs = 3, .args = both_args}, FILL(32, 32, 1));
	mark(0, false, 252, 256, 4);
	EXPECT(1, 0, 252, {.kind = TAPE_LAUNCH, .nargs = 3, .args = both_args}, FILL(32, 32, 1));
	mark(0, false, 4, 256, 8);
	EXPECT(-1, -1, -1, {.kind = TAPE_LAUNCH, .nargs = 3, .args = both_args}, FILL(0, 32, 2));
	mark(0, false, 4, 256, 8);
	EXPECT(1, 0, 4, {.kind = TAPE_LAUNCH, .nargs = 3, .args = both_args}, FILL(0, 64, 1));
	/* What it does elsewhere is another buffer's. */
	EXPECT(-1, -1, -1, {.kind = TAPE_LAUNCH, .nargs = 3, .args = both_args}, FILL(0, 64, 1));
}

/* A new replay knows nothing of the last one. */
static void test_clear(void **state)
{
	struct tape_row rows[2] = {FILL(0, 33, 1), FILL(32, 32, 1)};
	struct tape t = tape_of(rows, 2);
	struct row_used *u = row_used_create(2);
	for (int round = 0; round < 2; round++) {
		rows[0].dst.shape[0] = round ? 32 : 33;
		row_used_clear(u);
		for (int i = 0; i < 2; i++) row_used_take(u, &t, i, &fake);
		assert_int_equal(row_used_meet(u, 1, 0, 0), round ? -1 : 128);
		assert_int_equal(row_used_meet(u, 1, 0, 1), -1);
		assert_int_equal(u->npieces, 2);
	}
	row_used_free(u);
	row_used_free(NULL);
}

/* ---- whole replays, by the vm and by its sample ---- */

/* y[i] = x[i] + 1 for i < n, as the replay's tests have it. */
#define ADD_ONE "module {\\n  tt.func public @k(%%x: !tt.ptr<f32>, %%y: !tt.ptr<f32>, %%n: i32) {\\n" \
	"    %%one = arith.constant dense<1.000000e+00> : tensor<64xf32>\\n" \
	"    %%i = tt.make_range {end = 64 : i32, start = 0 : i32} : tensor<64xi32>\\n" \
	"    %%b = tt.splat %%n : i32 -> tensor<64xi32>\\n" \
	"    %%m = arith.cmpi slt, %%i, %%b : tensor<64xi32>\\n" \
	"    %%xs = tt.splat %%x : !tt.ptr<f32> -> tensor<64x!tt.ptr<f32>>\\n" \
	"    %%xp = tt.addptr %%xs, %%i : tensor<64x!tt.ptr<f32>>, tensor<64xi32>\\n" \
	"    %%v = tt.load %%xp, %%m : tensor<64x!tt.ptr<f32>>\\n" \
	"    %%w = arith.addf %%v, %%one : tensor<64xf32>\\n" \
	"    %%ys = tt.splat %%y : !tt.ptr<f32> -> tensor<64x!tt.ptr<f32>>\\n" \
	"    %%yp = tt.addptr %%ys, %%i : tensor<64x!tt.ptr<f32>>, tensor<64xi32>\\n" \
	"    tt.store %%yp, %%w, %%m : tensor<64x!tt.ptr<f32>>\\n    tt.return\\n  }\\n}\\n"
#define LAUNCH "{\"op\": \"launch\", \"line\": 7, %s\"kernel\": 0, \"grid\": [1, 1, 1], \"args\": [" \
	"{\"buffer\": 0, \"offset\": 0}, {\"buffer\": 1, \"offset\": %d}, {\"int\": %d}]}"
#define FILL_ROW "{\"op\": \"fill\", \"line\": 8, \"dst\": {\"buffer\": 1, \"offset\": %d, \"dtype\": " \
	"\"float32\", \"shape\": [%d], \"stride\": [%d]}, \"value\": 0}"
#define TEXT_OF "{\"version\": 2, \"buffers\": [{\"kind\": \"input\", \"bytes\": 256, \"input\": 0}, " \
	"{\"kind\": \"temp\", \"bytes\": 256}], \"kernels\": [{\"name\": \"k\", \"ttir\": \"" ADD_ONE "\", " \
	"\"num_warps\": 1, \"num_stages\": 1, \"num_ctas\": 1}], \"rows\": [" LAUNCH ", " LAUNCH ", " FILL_ROW ", " \
	"{\"op\": \"record\", \"line\": 9, \"stream\": 1, \"event\": 0}, {\"op\": \"wait\", \"line\": 9, \"event\": 0}], " \
	"\"outputs\": [{\"buffer\": 1, \"offset\": 0, \"dtype\": \"float32\", \"shape\": [64], \"stride\": [1]}], " \
	"\"tuple\": false}"

enum how { AS_A_TAPE, AS_A_REPLAY, AS_A_SAMPLE };
/* n floats from `first` on, by a launch on a stream of its own (1); the same on the default stream;
 * and a fill of two, `step` apart. The fault's code, which is empty where there is none. */
static const char *ends_with(enum how how, const int own[2], const int main_[2], const int fill[2])
{
	static struct runner_fault fault;
	static float output[64];
	static const float input[64];
	char text[8192];
	struct tape *t;
	struct err err;
	struct replay *r = NULL;
	const struct runner_given given = {.bytes = 256};
	struct runner_result out = {.has_fault = true};
	struct runner_trial trial = {
		.ninputs = 1, .inputs = (struct runner_given *)(uintptr_t)&given, .gpu = "H200", .deadline_ms = 60000};
	struct replay_given data = {(const uint8_t *)input, sizeof input, NULL, NULL, NULL, NULL};
	int n = snprintf(text, sizeof text, TEXT_OF, "\"stream\": 1, ", 4 * own[0], own[1], "", 4 * main_[0], main_[1],
		4 * fill[0], 2, fill[1]);
	assert_true(n > 0 && n < (int)sizeof text);
	if (tape_parse(text, (size_t)n, &t, &err)) fail_msg("%s", err.text);
	/* data and tags of both buffers fit, their maps do not */
	struct launcher *l = how == AS_A_SAMPLE ? launcher_vm_create_sampling()
		: how == AS_A_TAPE                  ? launcher_vm_create(2200)
											: launcher_vm_create(1 << 20);
	fault = (struct runner_fault){.row = -1};
	if (replay_create(t, l, NULL, &r, &fault)) return fault.code;
	if (how == AS_A_SAMPLE) replay_price(r, &trial, &out);
	else replay_run(r, &trial, &data, (uint8_t *)output, sizeof output, &out);
	fault = out.has_fault ? out.fault : (struct runner_fault){.row = -1};
	runner_result_release(&out);
	replay_free(r);
	return fault.code;
}

/* Where bytes are known these count, where ends are known the ranges, else whole buffers. */
static void test_replays(void **state)
{
	static const struct {
		int own[2], main[2], fill[2];
		const char *tape, *run, *sample;
	} CASES[] = {{{0, 32}, {32, 32}, {40, 1}, "race", "", ""}, {{0, 33}, {32, 32}, {40, 1}, "race", "race", "race"},
		{{0, 30}, {32, 32}, {29, 1}, "race", "race", "race"}, {{0, 30}, {32, 32}, {30, 1}, "race", "", ""},
		/* both sides of what the other launch has */
		{{4, 28}, {32, 32}, {3, 29}, "race", "", "race"}, {{4, 28}, {32, 32}, {3, 28}, "race", "race", "race"},
		{{0, 0}, {0, 64}, {0, 1}, "race", "", ""}};
	for (size_t i = 0; i < ARRAY_LEN(CASES); i++) {
		assert_string_equal(ends_with(AS_A_TAPE, CASES[i].own, CASES[i].main, CASES[i].fill), CASES[i].tape);
		assert_string_equal(ends_with(AS_A_REPLAY, CASES[i].own, CASES[i].main, CASES[i].fill), CASES[i].run);
		assert_string_equal(ends_with(AS_A_SAMPLE, CASES[i].own, CASES[i].main, CASES[i].fill), CASES[i].sample);
	}
}

static void everything(void *ctx)
{
	test_views(NULL);
	test_columns(NULL);
	test_reads(NULL);
	test_launches(NULL);
	test_clear(NULL);
	test_replays(NULL);
}

static void test_leaves_nothing(void **state) { leaves_nothing(everything, NULL); }

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(test_views), cmocka_unit_test(test_columns),
		cmocka_unit_test(test_reads), cmocka_unit_test(test_launches), cmocka_unit_test(test_clear),
		cmocka_unit_test(test_replays), cmocka_unit_test(test_leaves_nothing)};
	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
