/* The record: JSON and back, hostile text in it; the cost model's formula by hand. */
#include "verify/cost_model.h"
#include "cost/cost.h"
#include "runner/runner.h"
#include "tape/tape.h"
#include "verify/verdict.h"
#include <math.h>
#include <setjmp.h>
#include <stdlib.h>
#include <cmocka.h>
#include "../leaks.h"

static void test_round_trip(void **state)
{
	struct verdict v = {
		.class = VERDICT_WRONG,
		.stage = STAGE_CORRECTNESS,
		.reason = "mismatch",
		.detail = "line \"one\"\n\ttwo",
		.line = 17,
		.compiled = true,
		.params_seeded = true,
		.cost_s = 2.5e-6,
		.eager_cost_s = 5e-6,
		.fused_cost_s = 4e-6,
		.speedup_eager = 2,
		.speedup_fused = NAN,
		.launches = 2,
		.programs = INT64_C(1) << 40,
		.bytes = 9,
		.sectors = 8,
		.flops = 7,
		.nlines = 2,
		.lines = {{3, 10, 11, 12}, {4, 20, 21, 22}},
		.trials = 7,
		.trials_failed = 1,
		.error_max = 0.5,
		.tolerance = 5e-5,
		.kernelbench = 0,
		.sandbox = "full",
		.seconds = 0.25,
		.cached = true,
		.key = hash_bytes("x", 1),
		.gpu = "RTX 4090",
		.gpu_arch = 89,
		.device = {.name = "NVIDIA GeForce RTX 4090",
			.driver = 12080,
			.trials = 7,
			.trials_failed = 1,
			.disagreements = 1,
			.error_max = 0.25,
			.repeat = REPEAT_WITHIN,
			.seconds = 0.5,
			.timed = 30,
			.time_s = 4e-6,
			.time_low_s = 3.75e-6,
			.time_high_s = 4.5e-6,
			.predicted_s = 3.5e-6,
			.eager_predicted_s = 9e-6,
			.empty_s = 1.25e-6,
			.untimed = "why",
			.contracted = 2,
			.live = "right",
			.live_why = "so",
			.stock_trials = 3,
			.stock_error_max = 0.25,
			.stock_why = "no room",
			.subnormal = 3,
			.wall_s = 8e-6,
			.paper_s = 3e-6,
			.control_s = NAN,
			.memory_bytes = 4096,
			.others = -1,
			.floor_s = 1e-6,
			.floor_by = "memory",
			.floor_rate = 4.25e12,
			.ntuned = 1,
			.tuned = {{.label = "k(384)", .configs = 3, .chosen = 2, .first_s = 5e-6, .chosen_s = NAN}},
			.sanitized = {0, -1, 7},
			.sanitizer = "Invalid __global__ write",
			.nprofiles = 1,
			.profiles = {{.kernel = "k", .counters = {[COUNTER_TIME] = 2500, [COUNTER_L2] = NAN}}},
			.unprofiled = "no",
			.references = {[REFERENCE_COMPILE] = {.is_timed = true,
							   .is_cached = true,
							   .pairs = 30,
							   .memory_bytes = 99,
							   .error_max = NAN,
							   .time_s = {2e-6, 1e-6, 3e-6},
							   .speedup = {0.5, 0.25, 0.75},
							   .wall_s = 1e-5,
							   .paper_s = 4e-6,
							   .speedup_wall = 1.25,
							   .speedup_paper = NAN,
							   .why = "off"}}},
	};
	struct verdict w;
	/* A verdict with a value in every field, as JSON and back. */
	struct err err = {0};
	json_t *o = verdict_json(&v);
	assert_true(json_is_null(json_object_get(o, "speedup_fused")));
	assert_string_equal(json_string_value(json_object_get(o, "params")), "seeded");
	if (verdict_from_json(o, &w, &err)) fail_msg("%s", err.text);
	json_t *again = verdict_json(&w);
	assert_true(json_equal(o, again));
	/* Fields that a JSON which lost them on both ways would not show. */
	assert_true(w.device.driver == 12080 && w.device.timed == 30 && w.device.time_low_s == 3.75e-6 && w.gpu_arch == 89);
	assert_true(w.device.repeat == REPEAT_WITHIN && w.device.empty_s == 1.25e-6 && w.device.disagreements == 1);
	assert_string_equal(w.gpu, "RTX 4090");
	assert_string_equal(w.device.untimed, "why");
	const struct verdict_reference *r = &w.device.references[REFERENCE_COMPILE];
	assert_true(r->is_timed && !r->agrees && !r->is_gated && r->is_cached && r->pairs == 30 && r->memory_bytes == 99);
	assert_true(r->speedup.low == 0.25 && r->time_s.high == 3e-6 && r->speedup_wall == 1.25 && isnan(r->speedup_paper));
	assert_string_equal(r->why, "off");
	assert_true(!w.device.references[REFERENCE_EAGER].is_timed && w.device.others == -1 && w.device.contracted == 2 &&
		w.device.subnormal == 3 && w.device.sanitized[0] == 0 && w.device.sanitized[1] == -1 &&
		w.device.sanitized[2] == 7 && !strcmp(w.device.sanitizer, "Invalid __global__ write") &&
		w.device.nprofiles == 1 && !strcmp(w.device.profiles[0].kernel, "k") &&
		w.device.profiles[0].counters[COUNTER_TIME] == 2500 && isnan(w.device.profiles[0].counters[COUNTER_L2]) &&
		!strcmp(w.device.unprofiled, "no") && w.device.floor_s == 1e-6 && isnan(w.device.control_s) &&
		w.device.memory_bytes == 4096);
	assert_string_equal(w.device.floor_by, "memory");
	assert_true(w.device.floor_rate == 4.25e12);
	const struct verdict_tuned *t = &w.device.tuned[0];
	assert_true(w.device.ntuned == 1 && !strcmp(t->label, "k(384)") && t->configs == 3 && t->chosen == 2 &&
		t->first_s == 5e-6 && isnan(t->chosen_s));
	assert_true(!strcmp(w.device.live, "right") && !strcmp(w.device.live_why, "so"));
	assert_true(
		w.device.stock_trials == 3 && w.device.stock_error_max == 0.25 && !strcmp(w.device.stock_why, "no room"));
	assert_true(isnan(w.speedup_fused) && w.speedup_eager == 2 && w.eager_cost_s == 5e-6 && w.fused_cost_s == 4e-6 &&
		w.cost_s == 2.5e-6 && w.nlines == 2 && w.lines[1].flops == 22);
	/* What is wrong in front of the device's figures is wrong, whatever they are. */
	json_object_set_new(o, "fp8_line", json_integer(-1));
	assert_int_not_equal(verdict_from_json(o, &w, &err), 0);
	json_decref(o);
	json_decref(again);
}

static void test_every_name(void **state)
{
	for (int c = 0; c < VERDICT_CLASS_COUNT; c++)
		for (int s = 0; s < VERDICT_STAGE_COUNT; s++) {
			struct verdict v = {.class = (enum verdict_class)c,
							   .stage = (enum verdict_stage)s,
							   .reason = "r",
							   .detail = "",
							   .kernelbench = -1},
						   w;
			json_t *o = verdict_json(&v);
			assert_int_equal(verdict_from_json(o, &w, NULL), 0);
			assert_true(w.class == v.class && w.stage == v.stage && w.kernelbench == -1);
			json_decref(o);
		}
}

/* A candidate's bytes may end up in the detail; the record must stay JSON. */
static void test_text_that_is_no_utf8(void **state)
{
	struct verdict v = {.reason = "r", .detail = "bad \xff\xfe bytes \xc3"};
	json_t *o = verdict_json(&v);
	char *text = json_dumps(o, 0);
	assert_non_null(text);
	assert_string_equal(json_string_value(json_object_get(o, "detail")), "bad ?? bytes ?");
	free(text);
	json_decref(o);
}

static void test_bad_records_are_refused(void **state)
{
	static const char *const bad[] = {"[]", "{}",
		"{\"verdict\": \"genius\", \"stage\": \"done\", \"reason\": \"\", \"detail\": \"\"}",
		"{\"verdict\": \"genuine\", \"stage\": \"never\", \"reason\": \"\", \"detail\": \"\"}",
		"{\"verdict\": \"genuine\", \"stage\": \"done\", \"reason\": 3, \"detail\": \"\"}",
		"{\"verdict\": \"genuine\", \"stage\": \"done\", \"reason\": \"\", \"detail\": \"\", \"line\": 1e99}"};
	for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
		json_t *o = json_loads(bad[i], 0, NULL);
		struct verdict v;
		struct err err = {0};
		assert_int_not_equal(verdict_from_json(o, &v, &err), 0);
		assert_int_not_equal(err.text[0], 0);
		json_decref(o);
	}
}

/* docs/cost-model.md, by hand, in us. 48 MB in 5860 programs: dram 32 / (0.94 * 4.8) + 16 / (0.77 *
 * 4.8) = 11.42; launch 5860 * 0.000605 = 3.55; l2 48 / 7.8 = 6.15; l1 10^6 cycles of lines on 132
 * SMs, the busiest with 45 programs of 44.4, = 3.88; latency 3 waves of 500 + 400 + 330 cycles =
 * 1.86. Cubic mean 12.24, and 1.7 for a launch and 0.62 of ramp. */
static void test_cost_by_hand(void **state)
{
	struct cost_launch l = {.bytes = 48e6};
	assert_true(fabs(cost_launch_s(&l, COST_DOT_FP32, &vm_gpus[0]) - 14.56e-6) < 0.03e-6);
	l = (struct cost_launch){.bytes = 1e6,
		.dot_flops = 67e12 * 1e-3}; /* the fp32 pipes' peak for 1 ms, with a quarter more instructions that feed them */
	assert_true(cost_launch_s(&l, COST_DOT_FP32, &vm_gpus[0]) > 1.2e-3 &&
		cost_launch_s(&l, COST_DOT_FP32, &vm_gpus[0]) < 1.3e-3);
	assert_true(cost_launch_s(&l, COST_DOT_TF32, &vm_gpus[0]) < 0.2 * cost_launch_s(&l, COST_DOT_FP32, &vm_gpus[0]));
	assert_true(cost_launch_s(&l, COST_DOT_HALF, &vm_gpus[0]) < 0.6 * cost_launch_s(&l, COST_DOT_TF32, &vm_gpus[0]));
	assert_int_equal(cost_dot_of(DTYPE_F32, false), COST_DOT_FP32);
	assert_int_equal(cost_dot_of(DTYPE_F32, true), COST_DOT_TF32);
	assert_int_equal(cost_dot_of(DTYPE_BF16, false), COST_DOT_HALF);
}

/* PyTorch's operators: the table's own points, what lies between and beyond them, and names
 * that it does not have. */
static void test_cost_of_an_operator(void **state)
{
	const struct vm_gpu *h200 = vm_gpu_find("H200"), *a100 = vm_gpu_find("A100");
	struct cost_launch small = {.bytes = 12 * 4096}, middle = {.bytes = 12 << 22}, large = {.bytes = 12 << 24},
					   twice = {.bytes = 24 << 24};
	double add = cost_operator_s("add", "", &large, COST_DOT_FP32, h200);
	assert_true(add > 45e-6 && add < 55e-6); /* 201 MB at some 4 TB/s */
	assert_true(fabs(cost_operator_s("add", "", &twice, COST_DOT_FP32, h200) - 2 * add) < 1e-9);
	assert_true(cost_operator_s("add", "", &small, COST_DOT_FP32, h200) < 2e-6);
	assert_true(cost_operator_s("add", "", &middle, COST_DOT_FP32, h200) > 5e-6);
	assert_true(cost_operator_s("add", "", &middle, COST_DOT_FP32, h200) < add);
	assert_true(cost_operator_s("add", "", &large, COST_DOT_FP32, a100) > 2 * add);
	assert_true(cost_operator_s("nobody timed it", "", &large, COST_DOT_FP32, h200) == add);
	assert_true(cost_operator_s("add", "other", &large, COST_DOT_FP32, h200) == add);
	/* A softmax across rows adds one after another what it adds along a row side by side, the
	 * longer the worse; between two extents that were timed the time lies between theirs, beyond
	 * the last it is the last one's. */
	struct cost_launch few = {.bytes = 8 << 20, .extent = 16}, some = few, many = few, beyond = few, further = few;
	some.extent = 724;
	many.extent = 1024;
	beyond.extent = 1 << 22;
	further.extent = 1 << 23;
#define SOFTMAX(form, launch) cost_operator_s("_softmax", form, &(launch), COST_DOT_FP32, h200)
	assert_true(SOFTMAX("other", many) > SOFTMAX("last", many));
	assert_true(SOFTMAX("other", few) < SOFTMAX("other", some) && SOFTMAX("other", some) < SOFTMAX("other", many));
	assert_true(SOFTMAX("other", beyond) == SOFTMAX("other", further));
#undef SOFTMAX
}

/* What an earlier operator touched: all that L2 can save where others moved at most a quarter of
 * its 60 MiB since, half of it in the middle between 0.25 and 0.95 of them, nothing behind that;
 * half where the operator itself moves 1.12 times what L2 holds, of which 0.56 stays. */
static void test_cost_of_warm_operands(void **state)
{
	const struct vm_gpu *h200 = vm_gpu_find("H200");
	double l2 = 60 << 20;
	struct cost_launch l = {.bytes = 20e6}, wide = {.bytes = 1.12 * l2}, product = {.bytes = 20e6, .dot_flops = 1e9};
	double cold = cost_operator_s("add", "", &l, COST_DOT_FP32, h200);
	l.warm = 1;
	double saved = cold - cost_operator_s("add", "", &l, COST_DOT_FP32, h200);
	assert_true(saved > 0.2 * cold && saved < 0.6 * cold);
	l.since = 0.25 * l2;
	assert_true(fabs(cold - cost_operator_s("add", "", &l, COST_DOT_FP32, h200) - saved) < 1e-12);
	l.since = 0.6 * l2;
	assert_true(fabs(cold - cost_operator_s("add", "", &l, COST_DOT_FP32, h200) - saved / 2) < 1e-12);
	l.since = 0.95 * l2;
	assert_true(fabs(cost_operator_s("add", "", &l, COST_DOT_FP32, h200) - cold) < 1e-12);
	/* Both sizes lie between the last two of the table, whose warm shares are the same. */
	double wide_cold = cost_operator_s("add", "", &wide, COST_DOT_FP32, h200);
	wide.warm = 1;
	double wide_saved = wide_cold - cost_operator_s("add", "", &wide, COST_DOT_FP32, h200);
	assert_true(fabs(wide_saved / wide_cold - saved / cold / 2) < 1e-6);
	/* Of a product 20 MB take 4.902 us of DRAM at 0.85 of 4.8 TB/s, of which L2 with its
	 * 7.8 TB/s saves 47.7 %. */
	double product_cold = cost_operator_s("mm", "", &product, COST_DOT_FP32, h200);
	product.warm = 1;
	double product_saved = product_cold - cost_operator_s("mm", "", &product, COST_DOT_FP32, h200);
	assert_true(fabs(product_saved - 20e6 / (0.85 * 4.8e12) * (1 - 0.85 * 4.8 / 7.8)) < 1e-9);
}

static void test_cost_of_a_product(void **state)
{
	const struct vm_gpu *h200 = vm_gpu_find("H200");
	struct cost_launch product = {.bytes = 3 << 24, .dot_flops = 2.0 * 2048 * 2048 * 2048, .extent = 2048};
	double strict = cost_operator_s("mm", "", &product, COST_DOT_FP32, h200);
	/* A library's large product is about what a well-made launch is; fp32 is
	 * far slower than half. */
	assert_true(fabs(log(strict / cost_launch_s(&product, COST_DOT_FP32, h200))) < log(1.5));
	assert_true(strict > 5 * cost_operator_s("mm", "", &product, COST_DOT_HALF, h200));
	assert_true(cost_operator_s("nobody timed it", "", &product, COST_DOT_FP32, h200) == strict);
	/* A narrow one leaves most of each tile idle: 2^18 x 16 of 32. */
	struct cost_launch narrow = {
		.bytes = 4.0 * ((1 << 18) * 48 + 512), .dot_flops = 2.0 * (1 << 18) * 16 * 32, .extent = 32};
	assert_true(
		cost_operator_s("mm", "", &narrow, COST_DOT_FP32, h200) > 1.2 * cost_launch_s(&narrow, COST_DOT_FP32, h200));
}

static void test_cost_of_a_reference(void **state)
{
	json_t *o = json_pack("{s:[{s:s, s:s, s:i}, {s:s, s:i}], s:[{s:i}]}", "eager", "name", "sum", "form", "other",
		"bytes", 48000000, "name", "exp", "bytes", 48000000, "fused", "bytes", 48000000);
	struct cost_launch l = {.bytes = 48e6};
	double eager = 0, fused = 0;
	cost_reference_s(o, COST_DOT_FP32, &vm_gpus[0], &eager, &fused);
	assert_true(fabs(fused - 14.56e-6) < 0.03e-6);
	assert_true(fabs(eager - cost_operator_s("sum", "other", &l, COST_DOT_FP32, &vm_gpus[0]) -
					cost_operator_s("exp", "", &l, COST_DOT_FP32, &vm_gpus[0])) < 1e-12);
	json_decref(o);
	o = json_object();
	cost_reference_s(o, COST_DOT_FP32, &vm_gpus[0], &eager, &fused);
	assert_true(isnan(eager) && isnan(fused));
	json_decref(o);
}

/* A copy to other strides costs the same as the reference's operator and as a row of the
 * candidate's tape; what is no copy that can be is what its name and form say. */
static void test_cost_of_a_copy(void **state)
{
	const struct vm_gpu *h200 = vm_gpu_find("H200");
	struct cost_copy c = {2, {4096, 4096}, {8192, 2}, {2, 8192}, 2, 2};
	struct cost_launch moved = {.bytes = 2.0 * 2 * 4096 * 4096};
	struct runner_row_cost row = {
		.kind = TAPE_COPY, .counts = cost_copy_counts(&c), .footprint_bytes = (int64_t)moved.bytes};
	double error, eager, fused, candidate = cost_candidate_s(&row, 1, NULL, h200, &error);
	json_t *o = json_pack("{s:[{s:s, s:s, s:f, s:{s:[i, i], s:[i, i], s:[i, i], s:[i, i]}}]}", "eager", "name", "clone",
		"form", "other", "bytes", moved.bytes, "copy", "shape", 4096, 4096, "to", 8192, 2, "from", 2, 8192, "sizes", 2,
		2);
	cost_reference_s(o, COST_DOT_HALF, h200, &eager, &fused);
	assert_true(eager == candidate && error == 0);
	assert_true(candidate > 5 * cost_operator_s("clone", "", &moved, COST_DOT_FP32, h200));
	/* One that repeats a row: its source stands still along the first axis. */
	struct cost_copy repeated = {2, {4096, 4096}, {8192, 2}, {0, 2}, 2, 2};
	json_t *moves = json_object_get(json_array_get(json_object_get(o, "eager"), 0), "copy");
	json_object_set_new(moves, "from", json_pack("[i, i]", 0, 2));
	row.counts = cost_copy_counts(&repeated);
	candidate = cost_candidate_s(&row, 1, NULL, h200, &error);
	cost_reference_s(o, COST_DOT_HALF, h200, &eager, &fused);
	assert_true(eager == candidate);
	/* A fill has no counts. */
	row.counts = (struct vm_cost){0};
	row.kind = TAPE_FILL;
	assert_true(
		cost_candidate_s(&row, 1, NULL, h200, &error) == cost_operator_s("clone", "", &moved, COST_DOT_FP32, h200));
	/* Lists of other lengths, numbers that are none. */
	static const char *const bad[] = {"{\"shape\": [], \"to\": [], \"from\": [], \"sizes\": [4, 4]}",
		"{\"shape\": [4], \"to\": [4, 4], \"from\": [4], \"sizes\": [4, 4]}",
		"{\"shape\": [0], \"to\": [4], \"from\": [4], \"sizes\": [4, 4]}",
		"{\"shape\": [4], \"to\": [-4], \"from\": [4], \"sizes\": [4, 4]}",
		"{\"shape\": [4], \"to\": [4], \"from\": [1e300], \"sizes\": [4, 4]}",
		"{\"shape\": [1,1,1,1,1,1,1,1,1,1,1,1,1], \"to\": [1,1,1,1,1,1,1,1,1,1,1,1,1], "
		"\"from\": [1,1,1,1,1,1,1,1,1,1,1,1,1], \"sizes\": [4, 4]}",
		"{\"shape\": [4], \"to\": [4], \"from\": [16], \"sizes\": [0, 4]}", "7"};
	double other = cost_operator_s("clone", "other", &moved, COST_DOT_FP32, h200);
	for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
		json_t *copy = json_loads(bad[i], JSON_DECODE_ANY, NULL);
		json_object_set_new(json_array_get(json_object_get(o, "eager"), 0), "copy", copy);
		cost_reference_s(o, COST_DOT_HALF, h200, &eager, &fused);
		if (!copy || eager != other) fail_msg("copy %zu: %g, expected %g", i, eager, other);
	}
	json_decref(o);
}

/* None of the above leaves memory or descriptors behind, errors included. */
static void everything(void *ctx)
{
	test_round_trip(NULL);
	test_every_name(NULL);
	test_text_that_is_no_utf8(NULL);
	test_bad_records_are_refused(NULL);
	test_cost_by_hand(NULL);
	test_cost_of_an_operator(NULL);
	test_cost_of_warm_operands(NULL);
	test_cost_of_a_product(NULL);
	test_cost_of_a_reference(NULL);
	test_cost_of_a_copy(NULL);
}

static void test_leaves_nothing(void **state) { leaves_nothing(everything, NULL); }

int main(void)
{
	cmocka_set_message_output(CM_OUTPUT_TAP);
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_round_trip),
		cmocka_unit_test(test_every_name),
		cmocka_unit_test(test_text_that_is_no_utf8),
		cmocka_unit_test(test_bad_records_are_refused),
		cmocka_unit_test(test_cost_by_hand),
		cmocka_unit_test(test_cost_of_an_operator),
		cmocka_unit_test(test_cost_of_warm_operands),
		cmocka_unit_test(test_cost_of_a_product),
		cmocka_unit_test(test_cost_of_a_reference),
		cmocka_unit_test(test_cost_of_a_copy),
		cmocka_unit_test(test_leaves_nothing),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
