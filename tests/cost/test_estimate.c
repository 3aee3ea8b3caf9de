/* The predicted time of a launch, against the formula of docs/cost-model.md worked by hand: each
 * part alone, the sum of all, how many programs run at once; and what an operator of PyTorch saves
 * whose operands L2 holds. */
#include "cost/cost.h"
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <cmocka.h>

/* The H200 of the data sheet: 132 SMs at 1.98 GHz. One cycle of work, spread over the SMs. */
#define CYCLE (1 / (132 * 1.98e9))
#define A100_CYCLE (1 / (108 * 1.41e9))
/* 1000 programs for each SM, so that none has more than another; 16 of 4 warps fit
 * on one, so that they run in 63 turns. */
#define PROGRAMS 132000
#define FOUR {.warps = 4, .registers = 32}

static void expect_near(const char *what, size_t row, double found, double expected)
{
	if (!(fabs(found - expected) <= 1e-9 * expected))
		fail_msg("row %zu, %s: %.12g, expected %.12g", row, what, found, expected);
}

static void test_each_part(void **state)
{
	const double n = 1e10, path = PROGRAMS / 2112 + 1;
	const struct {
		const char *gpu;
		struct vm_cost cost;
		struct vm_binary binary;
		enum vm_limit part;
		double expected;
	} rows[] = {
		/* Programs start one after another; those of many warps take an SM's
		 * time; a launch is one. */
		{"H200", {.programs = PROGRAMS}, FOUR, VM_LIMIT_LAUNCH, PROGRAMS * 0.605e-9},
		{"H200", {.programs = PROGRAMS}, {32, 32, 0, 0, 0}, VM_LIMIT_LAUNCH, PROGRAMS * 8 * 32 * CYCLE},
		{"H200", {.programs = 1}, FOUR, VM_LIMIT_LAUNCH, 0.3e-6},
		{"H200", {.footprint_bytes = 5e9, .footprint_read = 3e9}, FOUR, VM_LIMIT_DRAM,
			(3e9 / 0.94 + 2e9 / 0.77) / 4.8e12},
		{"RTX 4090", {.footprint_bytes = 5e9, .footprint_read = 3e9}, FOUR, VM_LIMIT_DRAM,
			(3e9 / 0.94 + 2e9 / 0.77) / 1.008e12},
		{"H200", {.l2_sectors = n}, FOUR, VM_LIMIT_L2, 32 * n / 7.8e12},
		/* A line a cycle, one more if missed, four if stored; or 64 bytes a cycle from L2. */
		{"H200", {.load_lines = n}, FOUR, VM_LIMIT_L1, n * CYCLE},
		{"H200", {.load_lines = n, .missed_lines = n, .store_lines = 2 * n}, FOUR, VM_LIMIT_L1, 10 * n * CYCLE},
		{"H200", {.l2_sectors = n, .load_lines = n / 4}, FOUR, VM_LIMIT_L1, n / 2 * CYCLE},
		/* Four instructions a cycle; 64 lanes for integers are two. */
		{"H200", {.other_instrs = n}, FOUR, VM_LIMIT_ISSUE, n / 4 * CYCLE},
		{"H200", {.fma_instrs = n, .special_instrs = n, .other_instrs = n}, FOUR, VM_LIMIT_ISSUE, 3 * n / 4 * CYCLE},
		{"H200", {.alu_instrs = n}, FOUR, VM_LIMIT_ISSUE, n / 2 * CYCLE},
		{"H200", {.alu_instrs = n, .other_instrs = 9 * n}, FOUR, VM_LIMIT_ISSUE, 10 * n / 4 * CYCLE},
		{"A100", {.programs = 108, .fma_instrs = n}, FOUR, VM_LIMIT_ISSUE, n / 2 * A100_CYCLE},
		{"H200", {.special_instrs = n}, FOUR, VM_LIMIT_SPECIAL, 2 * n * CYCLE},
		/* Cycles are those of 4096 flops, of which tensor cores reach 75 %. */
		{"H200", {.tensor_cycles = n}, FOUR, VM_LIMIT_TENSOR, 4096 * n / (0.75 * 989e12)},
		{"A100", {.programs = 108, .tensor_cycles = n}, FOUR, VM_LIMIT_TENSOR, 4096 * n / (0.75 * 312e12)},
		{"H200", {.shared_bytes = n}, FOUR, VM_LIMIT_SHARED, n / 128 * CYCLE},
		{"H200", {.atomics = n}, FOUR, VM_LIMIT_ATOMIC, n / 0.7 * CYCLE},
		{"H200", {.atomics = n, .atomic_hot = n}, FOUR, VM_LIMIT_ATOMIC, n * 5e-9},
		/* The chain of a program, in turns; its loads wait for DRAM as often
		 * as L2 lacks the bytes. */
		{"H200", {.path_cycles = n}, FOUR, VM_LIMIT_LATENCY, path * (500 + n / PROGRAMS) / 1.98e9},
		{"H200", {.path_trips = 2 * PROGRAMS, .l2_sectors = 1000, .footprint_bytes = 8000}, FOUR, VM_LIMIT_LATENCY,
			path * (500 + 2 * 330 * 0.25) / 1.98e9},
		{"H200", {.path_trips = 2 * PROGRAMS, .l2_sectors = 100, .footprint_bytes = 8000}, FOUR, VM_LIMIT_LATENCY,
			path * (500 + 2 * 330) / 1.98e9},
		{"H200", {.path_trips = 2 * PROGRAMS, .footprint_bytes = 8000}, FOUR, VM_LIMIT_LATENCY, path * 500 / 1.98e9},
		{"H200", {.path_cycles_max = n}, FOUR, VM_LIMIT_LATENCY, n / 1.98e9},
		/* What one program asks of its SM, however many others ask nothing. */
		{"H200", {.load_lines = n, .l1_cycles_max = n}, FOUR, VM_LIMIT_L1, n / 1.98e9},
		{"H200", {.shared_bytes = n, .shared_bytes_max = n}, FOUR, VM_LIMIT_SHARED, n / 128 / 1.98e9},
		{"H200", {.atomics = n, .atomics_max = n}, FOUR, VM_LIMIT_ATOMIC, n / 0.7 / 1.98e9},
		/* 10 cycles for each word that a thread moves to its stack, in each turn of the loops. */
		{"H200", {.steps = 300, .steps_once = 100}, {4, 32, 64, 80, 0}, VM_LIMIT_LATENCY,
			path * (500 + 3 * 20 * 10) / 1.98e9},
		{"H200", {.steps = 100, .steps_once = 300}, {4, 32, 64, 80, 0}, VM_LIMIT_LATENCY,
			path * (500 + 20 * 10) / 1.98e9},
		/* One program more than there are SMs: one of these has twice as much as the rest. */
		{"H200", {.programs = 133, .shared_bytes = n}, FOUR, VM_LIMIT_SHARED, n / 128 * CYCLE * 2 / (133.0 / 132)},
	};
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct vm_cost c = rows[i].cost;
		if (!c.programs) c.programs = PROGRAMS;
		struct vm_estimate e = vm_estimate(&c, &rows[i].binary, vm_gpu_find(rows[i].gpu));
		expect_near(vm_limit_name(rows[i].part), i, e.part_s[rows[i].part], rows[i].expected);
		/* The limit is the largest part. */
		for (int k = 0; k < VM_LIMIT_COUNT; k++) assert_true(e.part_s[k] <= e.part_s[e.limit]);
	}
}

/* What registers do not hold: L1 keeps what is read back as far as the stacks of all threads that
 * run fit beside shared memory; L2 keeps the rest as far as it fits. */
static void test_where_spills_go(void **state)
{
	const struct {
		struct vm_binary binary;
		double share_l2; /* of the bytes spilled */
		double share_dram;
	} rows[] = {
		/* 16 programs of 128 threads on 132 SMs have 17 MB of L1's 34.6; stores go to L2. */
		{{4, 32, 64, 80, 0}, 0.5, 0},
		/* Their 69.2 MB: half fit L1, and 62.9 MB fit L2. */
		{{4, 32, 256, 80, 0}, 0.75, 1 - 60.0 * (1 << 20) / (256 * 128 * 2112)},
		/* Shared memory takes half of L1: 17.3 MB of 34.6 fit. */
		{{4, 32, 128, 80, 8192}, 0.75, 0},
	};
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		const struct vm_cost c = {.programs = PROGRAMS, .l2_sectors = 1000, .steps = 200, .steps_once = 100};
		struct vm_estimate e = vm_estimate(&c, &rows[i].binary, vm_gpu_find("H200"));
		double spill = 2.0 * 80 * 128 * PROGRAMS, l2 = spill * rows[i].share_l2, dram = spill * rows[i].share_dram;
		expect_near("spilled bytes", i, (double)e.spill_bytes, spill);
		assert_true(fabs((double)e.l2_bytes - 32000 - l2) <= 1 && fabs((double)e.dram_bytes - dram) <= 1);
		/* They are read and written in turns, which takes L2 twice as long; a line
		 * of L1 is 128 of them. */
		expect_near("l1", i, e.part_s[VM_LIMIT_L1], fmax(spill / 128, 500) * CYCLE);
		assert_true(fabs(e.part_s[VM_LIMIT_L2] * 7.8e12 - 32000 - 2 * l2) <= 2);
	}
}

/* One time of the parts: between their maximum and their sum, and what nothing hides. */
static void test_one_time(void **state)
{
	const struct vm_cost c = {.programs = PROGRAMS,
		.footprint_bytes = 5e9,
		.footprint_read = 3e9,
		.l2_sectors = 2e8,
		.load_lines = 3e8,
		.alu_instrs = 2e8,
		.special_instrs = 5e7,
		.tensor_cycles = 5e8,
		.shared_bytes = 2e10,
		.atomics = 1e8,
		.path_cycles = 1e9};
	struct vm_binary b = vm_binary_default(4);
	struct vm_estimate e = vm_estimate(&c, &b, vm_gpu_find("H200"));
	double sum = 0, ramp = 1.4e-6 + 2e-6;
	for (int i = 0; i < VM_LIMIT_COUNT; i++) {
		assert_true(e.part_s[i] > 1e-5);
		sum += pow(e.part_s[i], 3);
	}
	expect_near("time", 0, e.time_s, 0.3e-6 + cbrt(sum) + ramp);
	assert_int_equal(e.limit, VM_LIMIT_TENSOR);
	assert_true(e.blocks_per_sm == 16 && e.occupancy == 1 && e.waves == PROGRAMS / 2112.0);
	assert_true(e.dram_bytes == 5e9 && e.l2_bytes == 64e8 && !e.spill_bytes);
	/* A launch that has hardly anything to do: one pass through a program, as long as DRAM takes;
	 * the launch's own least time is no part of the sum. */
	const struct vm_cost small = {.programs = 1, .footprint_bytes = 1000, .footprint_read = 1000, .path_cycles = 1480};
	e = vm_estimate(&small, &b, vm_gpu_find("H200"));
	double path = 1e-6, dram = 1000 / 0.94 / 4.8e12, start = 0.605e-9;
	expect_near("small", 0, e.time_s, 0.3e-6 + cbrt(pow(path, 3) + pow(dram, 3) + pow(start, 3)) + path + dram);
	assert_int_equal(e.limit, VM_LIMIT_LATENCY);
	/* What a program has of L1: its share, less its shared memory and the
	 * system's KiB; 2 KiB at least. */
	b.shared_bytes = 4096;
	assert_int_equal(vm_cost_l1_bytes(&b, vm_gpu_find("H200")), (256 << 10) / 16 - 4096 - 1024);
	b.shared_bytes = 13 << 10;
	assert_int_equal(vm_cost_l1_bytes(&b, vm_gpu_find("H200")), 2048);
}

/* The cards: what a compute capability has in each SM, as the CUDA programming guide's tables and
 * the architectures' papers say, and what the data sheets say of each card. */
static void test_cards(void **state)
{
	static const struct {
		int capability, l1_kib, shared_kib, threads, blocks, fp32, fp64;
	} sms[] = {{80, 192, 163, 2048, 32, 64, 32}, {89, 128, 99, 1536, 24, 128, 2}, {90, 256, 227, 2048, 32, 128, 64}};
	static const struct {
		const char *name;
		int capability, sms, bus_bits;
		double mhz, dram_gb_s, l2_mib, gb, tf32, half, byte;
	} cards[] = {{"H200", 90, 132, 6144, 1980, 4800, 60, 141, 494, 989, 1979},
		{"H100", 90, 132, 5120, 1980, 3350, 50, 80, 494, 989, 1979},
		{"A100", 80, 108, 5120, 1410, 2039, 40, 80, 156, 312, 624},
		{"L40S", 89, 142, 384, 2520, 864, 96, 48, 183, 362, 733},
		{"RTX 4090", 89, 128, 384, 2520, 1008, 72, 24, 82.6, 165.2, 330.3}};
	assert_int_equal(ARRAY_LEN(cards), VM_GPU_COUNT);
	for (size_t i = 0; i < ARRAY_LEN(cards); i++) {
		const struct vm_gpu *g = vm_gpu_find(cards[i].name);
		assert_non_null(g);
		size_t k = 0;
		while (sms[k].capability != cards[i].capability) k++;
		assert_int_equal(g->capability, cards[i].capability);
		assert_true(g->l1_bytes == sms[k].l1_kib * 1024 && g->shared_bytes == sms[k].shared_kib * 1024);
		assert_true(g->threads == sms[k].threads && g->blocks == sms[k].blocks && g->registers == 65536);
		assert_true(g->fp32 == sms[k].fp32 && g->fp64 == sms[k].fp64 && g->int32 == 64 && g->special == 16);
		assert_true(
			g->sms == cards[i].sms && g->bus_bits == cards[i].bus_bits && g->l2_bytes == cards[i].l2_mib * (1 << 20));
		assert_true(g->clock_hz == cards[i].mhz * 1e6 && g->dram_bytes_s == cards[i].dram_gb_s * 1e9);
		assert_true(g->l2_bytes_s > 1.5 * g->dram_bytes_s && g->l2_bytes_s < 6 * g->dram_bytes_s);
		expect_near("tf32", i, g->tensor_flops[VM_DOT_TF32], cards[i].tf32 * 1e12);
		expect_near("half", i, g->tensor_flops[VM_DOT_HALF], cards[i].half * 1e12);
		expect_near("byte", i, g->tensor_flops[VM_DOT_BYTE], cards[i].byte * 1e12);
		/* A driver reports a little more or less than the round number on the box. */
		assert_true((double)g->memory_bytes > cards[i].gb * 0.98e9 && (double)g->memory_bytes < cards[i].gb * 1.08e9);
	}
}

static double seconds_of(const char *name, const char *form, struct cost_launch l)
{
	return cost_operator_s(name, form, &l, COST_DOT_FP32, vm_gpu_find("H200"));
}

/* L2 still holds what an earlier operator touched, in the share that the launch says, as far as
 * 56 % of its size keep the launch's own bytes, and less the more has moved since: all up to a
 * quarter of its size, nothing from 95 % on. */
static void test_operators_in_l2(void **state)
{
	const double l2 = 60 << 20;
	static const struct {
		const char *name;
		const char *form;
	} kinds[] = {{"add", ""}, {"sum", "last"}, {"native_layer_norm", ""}, {"no such operator", ""}};
	const struct {
		double bytes, warm, since; /* the first and last in shares of L2's size */
		double held;
	} rows[] = {{0.1, 1, 0, 1}, {0.1, 0.5, 0, 0.5}, {0.1, 1, 0.25, 1}, {0.1, 1, 0.6, 0.5}, {0.1, 1, 0.95, 0},
		{0.1, 1, 2, 0}, {0.56, 1, 0, 1}, {1.12, 1, 0, 0.5}, {2.24, 0.5, 0.6, 0.0625}};
	for (size_t k = 0; k < ARRAY_LEN(kinds); k++)
		for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
			struct cost_launch l = {.bytes = rows[i].bytes * l2, .extent = 1024};
			double cold = seconds_of(kinds[k].name, kinds[k].form, l);
			/* What all of it saves, by the slope between none and a little. */
			l.warm = 1e-3 / fmin(0.56 / rows[i].bytes, 1);
			double all = (cold - seconds_of(kinds[k].name, kinds[k].form, l)) * 1e3;
			assert_true(all > 0 && all < cold);
			l.warm = rows[i].warm;
			l.since = rows[i].since * l2;
			double saved = cold - seconds_of(kinds[k].name, kinds[k].form, l);
			if (!(fabs(saved - rows[i].held * all) <= 1e-6 * all))
				fail_msg("%s, row %zu: saves %.9g of %.9g s", kinds[k].name, i, saved, all);
		}
}

/* What was not timed costs what an addition does; a form that was not, what the first of its name
 * does; between two measured extents lies a time between theirs, and beyond the last the last. */
static void test_rows_of_operators(void **state)
{
	const struct cost_launch l = {.bytes = 1 << 26, .extent = 1024};
	assert_true(seconds_of("no such operator", "", l) == seconds_of("add", "", l));
	assert_true(seconds_of("sum", "no such form", l) == seconds_of("sum", "last", l) ||
		seconds_of("sum", "no such form", l) == seconds_of("sum", "other", l) ||
		seconds_of("sum", "no such form", l) == seconds_of("sum", "all", l));
	static const char *const forms[] = {"last", "other", "all"};
	for (size_t f = 0; f < ARRAY_LEN(forms); f++) {
		double before = 0;
		/* Steps of an eighth of a doubling: no jump where one pair of rows follows another. */
		for (double extent = 1; extent <= 0x1p24; extent *= 1.0905) {
			double s = seconds_of("sum", forms[f], (struct cost_launch){.bytes = 1 << 26, .extent = extent});
			if (before && !(fabs(log(s / before)) < 0.25))
				fail_msg("%s: %g s after %g s at %g", forms[f], s, before, extent);
			before = s;
		}
		assert_true(seconds_of("sum", forms[f], (struct cost_launch){.bytes = 1 << 26, .extent = 0x1p40}) == before);
	}
	assert_true(seconds_of("sum", "last", l) != seconds_of("sum", "other", l));
}

/* Words for ptxas with which the counts still stand; one that is not known
 * makes the time unknown. */
static void test_words_for_ptxas(void **state)
{
	static const char *const usual[] = {NULL, "", "-O3", "-O2", "-w --maxrregcount=64",
		"--fmad=false --disable-warnings -dlcm=ca"},
							 *const others[] = {"-O0", "-O1", "-O3 -O1", "-w -dlcm=cg", "--maxrregcount=", "-O33",
								 "-dscm=wt", "--allow-expensive-optimizations=false", "--disable-optimizer-constants",
								 "--uumn"};
	for (size_t i = 0; i < ARRAY_LEN(usual); i++) assert_true(vm_assembler_is_usual(usual[i]));
	for (size_t i = 0; i < ARRAY_LEN(others); i++)
		if (vm_assembler_is_usual(others[i])) fail_msg("%s", others[i]);
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(test_each_part), cmocka_unit_test(test_where_spills_go),
		cmocka_unit_test(test_one_time), cmocka_unit_test(test_cards), cmocka_unit_test(test_operators_in_l2),
		cmocka_unit_test(test_rows_of_operators), cmocka_unit_test(test_words_for_ptxas)};
	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
