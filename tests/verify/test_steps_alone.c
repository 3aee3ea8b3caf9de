/* Steps of a verdict that start no process: launches that a driver refuses, each by its own line,
 * and what the record says of comparisons' sides. */
#include "verify/attempt.h"
#include "verify/guided_internal.h"
#include "verify/verify_internal.h"
#include "base/base.h"
#include "cost/cost.h"
#include "tape/tape.h"
#include <setjmp.h>
#include <stdlib.h>
#include <cmocka.h>

/* Two kernels; the second is launched in lines 5 and 7, and the first one before it. */
static void test_launch_limits(void **state)
{
	static const struct {
		int warps, registers, ctas, blocks; /* blocks: of the launch in line 7 */
		int64_t shared, scratch;
		bool is_cooperative, has_allocator; /* the latter: in line 5 alone */
		const char *reason;
		int line;
	} rows[] = {
		{4, 32, 1, 1, 0, 0, false, false, "", 0},
		{32, 32, 1, 1, 0, 0, false, false, "", 0},
		{33, 32, 1, 1, 0, 0, false, false, "too-many-threads", 5},
		{4, 32, 1, 1, 0, 16, false, true, "no-allocator", 7},
		{4, 32, 1, 1, 0, 16, false, false, "no-allocator", 5},
		{4, 32, 16, 1, 0, 0, false, false, "", 0},
		{4, 32, 17, 1, 0, 0, false, false, "cluster-too-large", 5},
		{4, 32, 1, 1, 232448, 0, false, false, "", 0},
		{4, 32, 1, 1, 232449, 0, false, false, "out-of-resources", 5},
		/* Sixteen blocks of 128 threads fit on each of 132 multiprocessors. */
		{4, 32, 1, 16 * 132, 0, 0, true, false, "", 0},
		{4, 32, 1, 16 * 132 + 1, 0, 0, true, false, "grid-not-resident", 7},
		{4, 32, 1, 16 * 132 + 1, 0, 0, false, false, "", 0},
	};
	struct verify_shared shared = {.gpu = *vm_gpu_find("H200")};
	int bad = 0;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct tape_kernel kernels[2] = {{.name = (char *)"first", .ttir = (char *)"", .num_warps = 1, .num_ctas = 1},
			{.name = (char *)"second",
				.ttir = (char *)"tt.make_tensor_descriptor",
				.num_warps = 1,
				.num_ctas = rows[i].ctas,
				.is_cooperative = rows[i].is_cooperative}};
		struct tape_row launches[4] = {{.kind = TAPE_FILL, .line = 2}, {.kind = TAPE_LAUNCH, .line = 3},
			{.kind = TAPE_LAUNCH, .kernel = 1, .line = 5, .has_allocator = rows[i].has_allocator},
			{.kind = TAPE_LAUNCH, .kernel = 1, .line = 7}};
		for (int k = 0; k < 4; k++)
			for (int d = 0; d < 3; d++) launches[k].grid[d] = 1;
		launches[3].grid[0] = (uint32_t)rows[i].blocks;
		struct tape t = {.kernels = kernels, .nkernels = 2, .rows = launches, .nrows = 4};
		struct verdict v = {.line = 0};
		struct grading g = {.s = &shared, .v = &v};
		json_t *result = json_pack("{s:i, s:i, s:I, s:I}", "num_warps", rows[i].warps, "registers", rows[i].registers,
			"shared_bytes", (json_int_t)rows[i].shared, "global_scratch_bytes", (json_int_t)rows[i].scratch);
		int rc = launch_limits_check(&g, &t, 1, result);
		bool is_right = rc == (*rows[i].reason ? GRADE_END : GRADE_ON) && !strcmp(v.reason, rows[i].reason) &&
			v.line == rows[i].line && (!rc || v.class == VERDICT_INVALID);
		if (!is_right) print_message("# row %zu: %d, line %d: %s\n", i, rc, v.line, v.detail);
		bad += !is_right;
		json_decref(result);
	}
	assert_int_equal(bad, 0);
}

/* Sides are counted once a place, and not where nothing is compared; those that nothing took are
 * named. */
static void test_sides(void **state)
{
	struct site_state sites[] = {
		{.site = {.line = 3, .kind = SITE_COMPARE, .wanted = SIDE_BELOW | SIDE_ABOVE, .taken = SIDE_BELOW}},
		{.site =
				{.line = 4, .kind = SITE_COMPARE, .wanted = SIDE_BELOW | SIDE_ABOVE, .taken = SIDE_BELOW | SIDE_ABOVE}},
		{.site = {.line = 5, .kind = SITE_TERM, .wanted = SIDE_BELOW, .taken = SIDE_BELOW}},
		{.site = {.line = 6, .kind = SITE_STEP}},
		{.site = {.line = 7, .kind = SITE_END, .wanted = SIDE_BELOW, .low = -87.5, .high = 88, .what = "math.exp"}},
		{.site = {.line = 8, .kind = SITE_COMPARE, .wanted = SIDE_ABOVE, .constant = 0.25, .what = "arith.cmpf"}},
		{.site = {.line = 4, .kind = SITE_COMPARE, .wanted = SIDE_BELOW | SIDE_ABOVE}, .is_known_before = true}};
	struct guided s = {.variants[0] = {.n = ARRAY_LEN(sites), .sites = sites}};
	struct verdict v = {.sides = 77, .sides_taken = 77, .nunreached = 3};
	struct grading g = {.v = &v, .guided = &s};
	guided_report(&g);
	assert_true(v.sides == 6 && v.sides_taken == 3 && v.nunreached == 3);
	assert_int_equal(v.unreached[0].line, 3);
	/* An end is named by itself, a comparison by its constant. */
	assert_string_equal(v.unreached[1].text, "math.exp at -87.5: never below");
	assert_string_equal(v.unreached[2].text, "arith.cmpf 0.25: never above");
}

/* The lines that move most are kept, as many as there is room for, and none beside them. */
static void test_lines(void **state)
{
	enum { LINES = VERDICT_LINES_MAX + 4 };
	struct verify_shared shared = {.gpu = *vm_gpu_find("H200")};
	struct oracle_data oracle = {.dtype = DTYPE_F32};
	struct runner_line_cost lines[LINES] = {0};
	struct runner_row_cost row = {.kind = TAPE_FILL, .bytes = 1 << 20, .footprint_bytes = 1 << 20};
	struct runner_result r = {.costs = &row, .ncosts = 1, .lines = lines, .nlines = LINES};
	/* Line 1 moves nothing; each later one moves less than the one before it, but
	 * the last most of all. */
	for (int i = 1; i < LINES; i++) lines[i] = (struct runner_line_cost){.line = i + 1, .bytes = 1000 - i};
	lines[0].line = 1;
	lines[LINES - 1].bytes = 2000;
	struct verdict v = {.cost_s = -1, .trials = 77, .trials_failed = 78, .error_max = 79};
	struct grading g = {.s = &shared, .v = &v, .oracle = &oracle};
	json_t *reference = json_object();
	cost_keep(&g, reference, &r);
	json_decref(reference);
	assert_int_equal(v.nlines, VERDICT_LINES_MAX);
	assert_true(v.trials == 77 && v.trials_failed == 78 && v.error_max == 79);
	int64_t most = 0;
	for (int i = 0; i < v.nlines; i++) {
		assert_true(v.lines[i].line != 1);
		most = MAX(most, v.lines[i].bytes);
	}
	assert_int_equal(most, 2000);
}

static json_t *job_of(int m, int n)
{
	return json_pack("{s:[{s:{s:s, s:[i, i], s:[i, i]}}], s:{}}", "inputs", "tensor", "dtype", "float32", "shape", m, n,
		"stride", n, 1, "state");
}

/* An answer in IR is written of the tapes at the oracle's variants: strided ones are left out, and
 * what lies behind the last variant is not looked at. */
static void test_ir_form(void **state)
{
	static const char answer[] =
		"// input x0 f32[M, N]\n// output y1 f32[M, N]\n// launch k[cdiv(M * N, 1024)](x0, y1, M * N)\n"
		"module {\n  tt.func public @k(%x: !tt.ptr<f32>, %y: !tt.ptr<f32>, %n: i32) attributes {noinline = false} {\n"
		"    tt.return\n  }\n}\n";
	struct oracle_data oracle = {.nvariants = 4};
	struct verdict v = {.line = 0};
	struct grading *g = xcalloc(1, sizeof *g);
	struct trace *stock = xcalloc(1, sizeof *stock);
	struct str out = {0};
	struct err err = {0};
	*g = (struct grading){.v = &v, .oracle = &oracle, .ir = IR_TEXT, .source = answer, .source_len = strlen(answer)};
	json_t *jobs[ORACLE_VARIANTS_MAX];
	for (int i = 0; i < ORACLE_VARIANTS_MAX; i++) {
		jobs[i] = job_of(3 + i, 1500 + 700 * i);
		oracle.variants[i] = (struct oracle_variant){.kind = i == 3 ? "strided" : "larger", .job = jobs[i]};
	}
	assert_int_equal(ir_step(g, stock), GRADE_ON);
	for (int i = 1; i < ORACLE_VARIANTS_MAX; i++)
		assert_int_equal(ir_other_step(g, MIN(i, 3), &g->others[i]), GRADE_ON);
	/* These two have inputs that no tape has: nobody may ask for them. */
	for (int i = 3; i < ORACLE_VARIANTS_MAX; i++)
		json_object_set_new(jobs[i], "inputs", json_pack("[{s:{}}]", "tensor"));
	if (ir_form(g, stock, &out, &err)) fail_msg("%s", err.text);
	assert_string_equal(out.data, answer);
	str_clear(&out);
	oracle.nvariants = 5;
	assert_int_equal(ir_form(g, stock, &out, &err), ERR_MISMATCH);
	str_release(&out);
	trace_release(stock);
	for (int i = 0; i < ORACLE_VARIANTS_MAX; i++) {
		trace_release(&g->others[i]);
		json_decref(jobs[i]);
	}
	free(stock);
	free(g);
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(test_launch_limits), cmocka_unit_test(test_sides),
		cmocka_unit_test(test_lines), cmocka_unit_test(test_ir_form)};
	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
