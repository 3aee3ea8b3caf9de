/* What a launch of a library is predicted to take, against the formula of docs/cost-model.md worked
 * by hand for an H200; counts there and back; the table for people. */
#include "cost/cost.h"
#include "base/dtype.h"
#include "cost/cost_layout.h"
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <cmocka.h>
#include "../leaks.h"

/* The H200 of the data sheet: 132 SMs at 1.98 GHz. */
#define SM_CYCLES (132 * 1.98e9)
/* 132000 programs of 1024 elements of 8 bytes: 1000 for each SM, so that none
 * has more than another. */
#define PROGRAMS 132000.0
#define BYTES (PROGRAMS * 1024 * 8)

static double cubes(const double *parts, size_t n)
{
	double sum = 0;
	for (size_t i = 0; i < n; i++) sum += parts[i] * parts[i] * parts[i];
	return cbrt(sum);
}

/* Within a thousandth: what is small beside the parts given here (start and end of the
 * launch, 3.7 us) is left out. */
static void expect_seconds(struct cost_launch l, enum cost_dot dot, const double *parts, size_t n)
{
	double found = cost_launch_s(&l, dot, vm_gpu_find("H200")), expected = cubes(parts, n);
	if (!(fabs(found - expected) <= 1e-3 * expected)) fail_msg("expected %.6g s, found %.6g s", expected, found);
}
#define EXPECT(launch, dot, ...) \
	expect_seconds(launch, dot, (double[]){__VA_ARGS__}, sizeof((double[]){__VA_ARGS__}) / sizeof(double))
#define L(...) (struct cost_launch){__VA_ARGS__}

static void test_library_launches(void **state)
{
	/* Bytes alone: two thirds read at 94 % of the bandwidth, one third written at 77 %; all through
	 * L2; a line that is read takes two turns of L1, one that is written four; a 16-byte
	 * instruction for each 512 bytes of a warp, four issued in a cycle; programs start 0.605 ns
	 * apart, and 2112 of them run at once for 1230 cycles: 500 to start and end, 400 for the way
	 * through L2, 330 for DRAM. A hundred times as many, so that the ends do not count. */
	double bytes = 100 * BYTES, programs = 100 * PROGRAMS;
	EXPECT(L(.bytes = bytes), COST_DOT_FP32, (bytes * 2 / 3 / 0.94 + bytes / 3 / 0.77) / 4.8e12, bytes / 7.8e12,
		bytes / 128 * (2.0 / 3 * 2 + 1.0 / 3 * 4) / SM_CYCLES, bytes / 512 / 4 / SM_CYCLES, programs * 0.605e-9,
		programs / 2112 * 1230 / 1.98e9);
	/* Special functions: 16 a cycle of an SM; a warp's instruction is 32 of them,
	 * four issued in a cycle. */
	EXPECT(L(.bytes = BYTES, .special = 1e13), COST_DOT_FP32, 1e13 / 16 / SM_CYCLES, 1e13 / 32 / 4 / SM_CYCLES);
	/* Other arithmetic: 128 a cycle. */
	EXPECT(L(.bytes = BYTES, .flops = 1e14), COST_DOT_FP32, 1e14 / 128 / SM_CYCLES);
	/* Products without tensor cores: a multiply-add is two flops, and a fifth
	 * instruction for each four. */
	EXPECT(L(.bytes = BYTES, .dot_flops = 1e14), COST_DOT_FP32, 1e14 / 64 * 1.25 / 4 / SM_CYCLES);
	/* Tensor cores reach 75 % of 989 Tflop/s with 16-bit operands, half as many with tf32. */
	EXPECT(L(.bytes = BYTES, .dot_flops = 1e15), COST_DOT_HALF, 1e15 / (0.75 * 989e12));
	EXPECT(L(.bytes = BYTES, .dot_flops = 1e15), COST_DOT_TF32, 1e15 / (0.75 * 989e12 / 2));
	/* A product is cut to fill the GPU, anything else is not: one program's work
	 * runs on one SM of 132. */
	EXPECT(L(.bytes = 1, .dot_flops = 1e15), COST_DOT_HALF, 1e15 / (0.75 * 989e12));
	EXPECT(L(.bytes = 1, .flops = 1e12), COST_DOT_HALF, 132 * 1e12 / 128 / SM_CYCLES);
	/* Without products it does not matter, to the bit, how products are made. */
	struct cost_launch plain = L(.bytes = 1, .flops = 10);
	double seconds = cost_launch_s(&plain, COST_DOT_FP32, vm_gpu_find("H200"));
	assert_true(seconds == cost_launch_s(&plain, COST_DOT_HALF, vm_gpu_find("H200")));
	assert_true(seconds == cost_launch_s(&plain, COST_DOT_TF32, vm_gpu_find("H200")));
}

/* A product whose operands L2 holds saves what DRAM would have taken for them (85 % of the data
 * sheet's bandwidth), less L2's time for the same; never more than its own time behind the 2 us of
 * its start. Of L2's size 56 % are held. */
static void test_products_in_l2(void **state)
{
	static const struct {
		const char *name, *gpu;
		struct cost_launch l;
		enum { BY_BYTES, BY_TIME, NOTHING } saves;
	} cases[] = {
		{"mm", "H200", {.bytes = 1 << 24, .dot_flops = 1 << 30, .extent = 512, .warm = 1}, BY_BYTES},
		{"bmm", "L40S", {.bytes = 1 << 29, .dot_flops = 0x1p34, .warm = 1}, BY_TIME},
		{"bmm", "RTX 4090", {.bytes = 1, .dot_flops = 1 << 22, .extent = 65536, .warm = 1}, NOTHING},
	};
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		const struct vm_gpu *gpu = vm_gpu_find(cases[i].gpu);
		struct cost_launch cold = cases[i].l;
		cold.warm = 0;
		/* What there is to save of the time without L2: moving the operands, and at most what the
		 * product takes behind its start. */
		double time = cost_operator_s(cases[i].name, "", &cold, COST_DOT_HALF, gpu),
			   by_bytes = cold.bytes / (0.85 * gpu->dram_bytes_s);
		double moving = cases[i].saves == BY_BYTES ? by_bytes
			: cases[i].saves == BY_TIME            ? time - 2e-6
												   : 0,
			   kept = fmin(0.56 * (double)gpu->l2_bytes / cold.bytes, 1),
			   expected = time - kept * moving * (1 - 0.85 * gpu->dram_bytes_s / gpu->l2_bytes_s),
			   found = cost_operator_s(cases[i].name, "", &cases[i].l, COST_DOT_HALF, gpu);
		assert_true(moving <= by_bytes && (cases[i].saves != NOTHING || time < 2e-6));
		if (!(fabs(found - expected) <= 1e-9 * expected))
			fail_msg("case %zu: %.9g s, expected %.9g s of %.9g s", i, found, expected, time);
	}
}

static void test_units_of_products(void **state)
{
	assert_int_equal(cost_dot_of(DTYPE_F32, false), COST_DOT_FP32);
	assert_int_equal(cost_dot_of(DTYPE_F32, true), COST_DOT_TF32);
	assert_int_equal(cost_dot_of(DTYPE_F64, false), COST_DOT_FP32);
	assert_int_equal(cost_dot_of(DTYPE_F64, true), COST_DOT_FP32);
	assert_int_equal(cost_dot_of(DTYPE_F16, false), COST_DOT_HALF);
	assert_int_equal(cost_dot_of(DTYPE_F16, true), COST_DOT_HALF);
	assert_int_equal(cost_dot_of(DTYPE_BF16, true), COST_DOT_HALF);
}

/* Every count of the structure, each another number, survives JSON. */
static void test_counts_there_and_back(void **state)
{
	struct vm_cost c, back;
	int64_t values[sizeof c / sizeof(int64_t)];
	for (size_t i = 0; i < ARRAY_LEN(values); i++) values[i] = (int64_t)i + 1;
	memcpy(&c, values, sizeof c);
	json_t *o = vm_counts_json(&c);
	vm_counts_parse(o, &back);
	assert_memory_equal(&c, &back, sizeof c);
	json_decref(o);
	/* Zeros are left out; what is no count is zero. */
	memset(&c, 0, sizeof c);
	o = vm_counts_json(&c);
	assert_int_equal(json_object_size(o), 0);
	json_object_set_new(o, "programs", json_integer(-1));
	json_object_set_new(o, "flops", json_string("7"));
	json_object_set_new(o, "dot_by", json_pack("{s:i, s:i}", "half", -5, "tf32", 1));
	vm_counts_parse(o, &back);
	c.dot_by[VM_DOT_TF32] = 1;
	assert_memory_equal(&c, &back, sizeof c);
	json_decref(o);
}

/* The JSON of a prediction has each part of the time, for every card. */
static void test_parts_of_a_prediction(void **state)
{
	struct vm_cost c = {.programs = 1000,
		.footprint_bytes = 1 << 26,
		.footprint_read = 1 << 25,
		.l2_sectors = 1 << 20,
		.flops = 1 << 30,
		.special = 1 << 20,
		.path_cycles = 1 << 20};
	struct vm_binary b = vm_binary_default(4);
	json_t *predicted = vm_predicted_json(&c, &b);
	for (int i = 0; i < VM_GPU_COUNT; i++) {
		struct vm_estimate e = vm_estimate(&c, &b, &vm_gpus[i]);
		const json_t *card = json_object_get(predicted, vm_gpus[i].name), *parts = json_object_get(card, "parts_s");
		assert_true(json_number_value(json_object_get(card, "time_s")) == e.time_s && e.time_s > 0);
		assert_int_equal(json_object_size(parts), VM_LIMIT_COUNT);
		for (int k = 0; k < VM_LIMIT_COUNT; k++)
			assert_true(json_real_value(json_object_get(parts, vm_limit_name((enum vm_limit)k))) == e.part_s[k]);
	}
	json_decref(predicted);
}

/* What registers do not hold is written as often as it is read, in turns: what neither L1 nor L2
 * keeps takes DRAM twice as long as half of it at the speed of reads, 94 % of the data sheet's, and
 * half at that of writes, 77 %. */
static void test_spills(void **state)
{
	const struct vm_gpu *gpu = vm_gpu_find("H200");
	const struct vm_cost c = {.programs = 132000, .footprint_bytes = 1 << 26, .footprint_read = 1 << 25};
	struct vm_binary b = vm_binary_default(4);
	struct vm_estimate none = vm_estimate(&c, &b, gpu);
	b.stack_bytes = b.local_bytes = 1 << 14;
	struct vm_estimate some = vm_estimate(&c, &b, gpu);
	double moved = (double)(some.dram_bytes - none.dram_bytes), factor = 4.8e12 / moved / (0.5 / 0.94 + 0.5 / 0.77);
	double times = (some.part_s[VM_LIMIT_DRAM] - none.part_s[VM_LIMIT_DRAM]) * factor;
	assert_true(moved > 1e9);
	if (!(fabs(times - 2) < 1e-6)) fail_msg("%.9g times what they move", times);
}

/* Blocks that fit on an H200's SM, by each thing that runs out: 2048 threads, 65536 registers that
 * are given by eights, 228 KiB of which a block takes one beside its own, 32 places. */
static void test_fit(void **state)
{
	static const struct {
		int warps;
		int registers;
		int64_t shared_bytes;
		int64_t fit;
	} cases[] = {{4, 16, 0, 16}, {8, 16, 0, 8}, {4, 64, 0, 8}, {4, 65, 0, 7}, {4, 72, 0, 7}, {4, 73, 0, 6},
		{1, 1, 0, 32}, {0, 0, -5, 32}, {4, 16, 100 << 10, 2}, {4, 16, 75 << 10, 3}, {4, 16, 227 << 10, 1},
		{4, 16, (227 << 10) + 1, 0}, {4, 16, INT64_MAX, 0}, {32, 64, 0, 1}, {32, 65, 0, 0}, {32, 32, 0, 2}};
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		int64_t fit = vm_gpu_fit(vm_gpu_find("H200"), cases[i].warps, cases[i].registers, cases[i].shared_bytes);
		if (fit != cases[i].fit) fail_msg("row %zu: %lld, not %lld", i, (long long)fit, (long long)cases[i].fit);
	}
}

static void test_resources(void **state)
{
	json_t *o = json_pack(
		"{s:i, s:i, s:i, s:i, s:i}", "num_warps", 1, "registers", 1, "stack_bytes", 1, "spills", 1, "shared_bytes", 1);
	struct vm_binary b = vm_binary_of(o);
	assert_true(b.warps == 1 && b.registers == 1 && b.stack_bytes == 1 && b.local_bytes == 1 && b.shared_bytes == 1);
	json_decref(o);
	b = vm_binary_of(NULL);
	assert_true(b.warps == 4 && b.registers == 32 && !b.stack_bytes && !b.local_bytes && !b.shared_bytes);
	/* What is no count gets its default; what is too large for any kernel the most. */
	static const char *const hostile[] = {"-1", "-1e300", "\"7\"", "[]", "null", "true", "0"};
	for (size_t i = 0; i < ARRAY_LEN(hostile); i++) {
		char *text = xasprintf("{\"num_warps\": %s, \"registers\": %s, \"stack_bytes\": %s, \"spills\": %s, "
							   "\"shared_bytes\": %s}",
			hostile[i], hostile[i], hostile[i], hostile[i], hostile[i]);
		o = json_loads(text, 0, NULL);
		b = vm_binary_of(o);
		if (b.warps != 4 || b.registers != 32 || b.stack_bytes || b.local_bytes || b.shared_bytes) fail_msg("%s", text);
		json_decref(o);
		free(text);
	}
	o = json_pack("{s:f, s:f, s:f, s:f, s:f}", "num_warps", 1e300, "registers", 1e300, "stack_bytes", 1e300, "spills",
		1e300, "shared_bytes", 1e300);
	b = vm_binary_of(o);
	assert_true(b.warps == 32 && b.registers == 255);
	assert_true(b.stack_bytes == 1e9 && b.local_bytes == 1e9 && b.shared_bytes == 1e9);
	json_decref(o);
	assert_int_equal(vm_binary_default(0).warps, 1);
	assert_int_equal(vm_binary_default(33).warps, 32);
	assert_string_equal(vm_gpu_find("4090")->name, "RTX 4090");
	assert_null(vm_gpu_find("B200"));
	assert_string_equal(vm_limit_name(VM_LIMIT_LAUNCH), "launch");
	assert_string_equal(vm_limit_name(VM_LIMIT_LATENCY), "latency");
	assert_string_equal(vm_limit_name(VM_LIMIT_COUNT), "?");
}

/* What one instruction of the machine code reads at once: of the place asked
 * for, at most 32 bytes. */
static void test_joined(void **state)
{
	struct err err = {0};
	struct vm_compiled *c;
	json_t *o = json_pack(
		"{s:[[i,i,i],[i,i,i],[i,i,i],[i],[i,i,i]]}", "joined", 3, 5, 16, 3, 6, 64, 2, 5, -8, 9, 1, 1, 1);
	assert_int_equal(vm_compiled_create(o, vm_gpu_find("H200"), &c, &err), 0);
	assert_int_equal(c->njoined, 5);
	assert_int_equal(vm_joined_bytes(c, 3, 5), 16);
	assert_int_equal(vm_joined_bytes(c, 3, 6), 32);
	assert_int_equal(vm_joined_bytes(c, 2, 5), 0);
	assert_int_equal(vm_joined_bytes(c, 2, 6), 0);
	assert_int_equal(vm_joined_bytes(c, 9, 0), 0);
	assert_int_equal(vm_joined_bytes(c, 1, 1), 1);
	vm_compiled_free(c);
	json_decref(o);
}

/* A 16 x 16 block of fp32 products over K = 32 by four warps, as Triton 3.6 compiles it: a warp has
 * two rows of sixteen lanes, so that a thread computes two elements of one column. Read from the
 * PTX and counted by hand: */
#define DOT_HEAD \
	"#b = #ttg.blocked<{sizePerThread = [1, 1], threadsPerWarp = [2, 16], warpsPerCTA = [4, 1], order = [1, 0]}>\n" \
	"#s = #ttg.swizzled_shared<{vec = 1, perPhase = 1, maxPhase = 1, order = [1, 0]}>\n" \
	"#t = #ttg.swizzled_shared<{vec = 1, perPhase = 1, maxPhase = 1, order = [0, 1]}>\n" \
	"#loc = loc(\"k.py\":1:0)\n" \
	"  %x = ttg.local_load %a : !ttg.memdesc<16x32xf32, #s, #smem, mutable> -> " \
	"tensor<16x32xf32, #ttg.dot_op<{opIdx = 0, parent = #b}>> loc(\"k.py\":3:1)\n"
#define DOT_TAIL \
	"  %d = tt.dot %x, %y, %c : tensor<16x32xf32, #ttg.dot_op<{opIdx = 0, parent = #b}>> * " \
	"tensor<32x16xf32, #ttg.dot_op<{opIdx = 1, parent = #b}>> -> tensor<16x16xf32, #b> loc(\"k.py\":4:2)\n"
#define RIGHT(order) \
	"  %y = ttg.local_load %b : !ttg.memdesc<32x16xf32, #" order ", #smem, mutable> -> " \
	"tensor<32x16xf32, #ttg.dot_op<{opIdx = 1, parent = #b}>> loc(\"k.py\":4:1)\n"

static int64_t turns_of(const char *ttgir)
{
	struct err err = {0};
	struct vm_layouts *all;
	const int32_t shape[] = {16, 16};
	assert_int_equal(vm_layouts_create(ttgir, strlen(ttgir), &all, &err), 0);
	const struct cost_site *site = cost_site_find(all, COST_SITE_DOT, 4, 2, 2, shape);
	assert_non_null(site);
	assert_true(site->layout >= 0);
	int64_t turns = cost_dot_turns(site, &all->layouts[site->layout], 2, shape, 32, 4, 4);
	vm_layouts_free(all);
	return turns;
}

static void test_dot_operands(void **state)
{
	/* Left: 2 rows of 32 as 16 reads of 16 bytes; eight lanes at a time, which all want the
	 * same: 4 turns each, 64. Right, row-major: 32 reads of 4 bytes by 16 neighbouring columns:
	 * 32 turns. Four warps. */
	assert_int_equal(turns_of(DOT_HEAD RIGHT("s") DOT_TAIL), 4 * (64 + 32));
	/* Transposed: 8 reads of 16 bytes by columns that are 128 bytes apart, all in the same banks:
	 * eight lanes take eight turns, four times: 256. */
	assert_int_equal(turns_of(DOT_HEAD RIGHT("t") DOT_TAIL), 4 * (64 + 256));
	/* An operand that came another way is row-major. */
	assert_int_equal(turns_of(DOT_HEAD DOT_TAIL), 4 * (64 + 32));
}

/* Lanes whose four neighbouring columns of fp32 lie 128 bytes apart: reads of 16 bytes by eight
 * lanes at a time, all in the same banks, take eight turns, four times; 32 columns a thread over K
 * = 8 are 64 such reads. The rows of the left operand, 32 bytes apart, are 2 reads of 16 bytes, of
 * one row by eight lanes: one turn each. */
static void test_dot_banks(void **state)
{
	const int32_t shape[] = {4, 256};
	struct cost_layout l = {.ndim = 2,
		.reg = {5, {{0, 1}, {0, 2}, {0, 4}, {0, 8}, {0, 16}}},
		.lane = {5, {{0, 32}, {0, 64}, {0, 128}, {1, 0}, {2, 0}}}};
	assert_int_equal(cost_dot_turns(NULL, &l, 2, shape, 8, 4, 1), 64 * 4 * 8 + 2 * 4);
	/* A left operand whose neighbours in memory are rows: 32 neighbouring ones a thread over K = 8
	 * are 64 reads of 16 bytes. Eight lanes together want the same ones, the four eights lie 128
	 * bytes apart: four turns. Read by words they would meet in one bank. The right one's eight
	 * columns are 8 reads of a word, one turn each. */
	const int32_t tall[] = {128, 8};
	const struct cost_site site = {.kind = COST_SITE_DOT, .is_depth_first = {false, false}};
	struct cost_layout m = {.ndim = 2,
		.reg = {5, {{1, 0}, {2, 0}, {4, 0}, {8, 0}, {16, 0}}},
		.lane = {5, {{0, 1}, {0, 2}, {0, 4}, {32, 0}, {64, 0}}}};
	assert_int_equal(cost_dot_turns(&site, &m, 2, tall, 8, 4, 1), 64 * 4 + 8);
}

/* The table of cards, in the units of their data sheets. */
static void test_cards(void **state)
{
	static const char *const rows[] = {
		"H200 sm_90: 132 SMs of 1.98 GHz, DRAM 143155.9375 MiB of 6144 bits 4800 GB/s, L2 60 MiB 7800 GB/s; SM: L1 256 "
		"KiB, "
		"shared 227 KiB, 65536 registers, 2048 threads, 32 blocks, lanes 128 64 16 64; TFLOPS 0 494 989 1979",
		"H100 sm_90: 132 SMs of 1.98 GHz, DRAM 81079.25 MiB of 5120 bits 3350 GB/s, L2 50 MiB 7800 GB/s; SM: L1 256 "
		"KiB, "
		"shared 227 KiB, 65536 registers, 2048 threads, 32 blocks, lanes 128 64 16 64; TFLOPS 0 494 989 1979",
		"A100 sm_80: 108 SMs of 1.41 GHz, DRAM 81153.75 MiB of 5120 bits 2039 GB/s, L2 40 MiB 4500 GB/s; SM: L1 192 "
		"KiB, "
		"shared 163 KiB, 65536 registers, 2048 threads, 32 blocks, lanes 64 64 16 32; TFLOPS 0 156 312 624",
		"L40S sm_89: 142 SMs of 2.52 GHz, DRAM 45487.75 MiB of 384 bits 864 GB/s, L2 96 MiB 5000 GB/s; SM: L1 128 KiB, "
		"shared 99 KiB, 65536 registers, 1536 threads, 24 blocks, lanes 128 64 16 2; TFLOPS 0 183 362 733",
		"RTX 4090 sm_89: 128 SMs of 2.52 GHz, DRAM 24210.3125 MiB of 384 bits 1008 GB/s, L2 72 MiB 5000 GB/s; SM: L1 "
		"128 "
		"KiB, "
		"shared 99 KiB, 65536 registers, 1536 threads, 24 blocks, lanes 128 64 16 2; TFLOPS 0 82.6 165.2 330.3"};
	assert_int_equal(ARRAY_LEN(rows), VM_GPU_COUNT);
	for (int i = 0; i < VM_GPU_COUNT; i++) {
		const struct vm_gpu *g = &vm_gpus[i];
		/* Every field, memory to the byte. */
		char *row = xasprintf("%s sm_%d: %d SMs of %g GHz, DRAM %.10g MiB of %d bits %g GB/s, L2 %g MiB %g GB/s; SM: "
							  "L1 %g KiB, shared %g "
							  "KiB, %d registers, %d threads, %d blocks, lanes %d %d %d %d; TFLOPS %g %g %g %g",
			g->name, g->capability, g->sms, g->clock_hz / 1e9, (double)g->memory_bytes / (1 << 20), g->bus_bits,
			g->dram_bytes_s / 1e9, (double)g->l2_bytes / (1 << 20), g->l2_bytes_s / 1e9, (double)g->l1_bytes / 1024,
			(double)g->shared_bytes / 1024, g->registers, g->threads, g->blocks, g->fp32, g->int32, g->special, g->fp64,
			g->tensor_flops[0] / 1e12, g->tensor_flops[1] / 1e12, g->tensor_flops[2] / 1e12, g->tensor_flops[3] / 1e12);
		assert_string_equal(row, rows[i]);
		free(row);
	}
}

static void test_table(void **state)
{
	struct vm_line_cost lines[] = {{.line = 7, .cost = {.load_bytes = 64, .load_sectors = 4}},
		{.line = 9, .cost = {.store_bytes = 4096, .store_sectors = 128, .flops = 1500, .special = 999, .atomics = 3}},
		{.line = 5, .cost = {.load_bytes = 128, .load_sectors = 4, .dot_flops = 2000000}}, {.line = 11}};
	struct vm_launch_cost r = {.cost = {.programs = 8,
								   .load_bytes = 192,
								   .store_bytes = 4096,
								   .footprint_bytes = 1024,
								   .footprint_read = 192,
								   .l2_sectors = 100},
		.nlines = 4,
		.lines = lines};
	r.cost.dot_by[VM_DOT_HALF] = 2000000;
	struct vm_binary b = {.warps = 8, .registers = 40, .stack_bytes = 96, .shared_bytes = 2048};
	struct str out = {0};
	vm_cost_table(&out, "k", &r, &b, vm_gpu_find("H200"));
	/* 256 threads of 40 registers: 6 on an SM, 48 of 64 warps, 8 of 792 programs. 4288
	 * bytes asked for of 1024. */
	assert_non_null(strstr(out.data, " on H200, limited by "));
	assert_non_null(strstr(out.data,
		"\n  programs 8 of 8 warps, 40 registers, 2048 bytes of shared memory, 96 bytes of stack; 6 programs on an SM "
		"(occupancy 75 %), 0.01 waves\n  bytes asked for 4.29 k, through L2 3.20 k, distinct 1.02 k (each used 4.2 "
		"times)"
		"\n  tl.dot: 2 M flops on tensor cores (16-bit)\n "));
	assert_non_null(strstr(out.data, "\n  predicted: H200 "));
	for (int i = 1; i < VM_GPU_COUNT; i++) {
		char name[32];
		snprintf(name, sizeof name, ", %s ", vm_gpus[i].name);
		assert_non_null(strstr(out.data, name));
	}
	/* Of the prediction each part that there is, in the order of the limits. */
	struct vm_estimate e = vm_estimate(&r.cost, &b, vm_gpu_find("H200"));
	struct str parts = {0};
	static const char *const limits[] = {
		"launch", "dram", "l2", "l1", "issue", "special", "tensor", "shared", "atomic", "latency"};
	assert_int_equal(ARRAY_LEN(limits), VM_LIMIT_COUNT);
	for (int i = 0; i < VM_LIMIT_COUNT; i++)
		if (e.part_s[i] > 0)
			str_printf(&parts, " %s %.2f us%s", limits[i], e.part_s[i] * 1e6, i < VM_LIMIT_COUNT - 1 ? "," : "\n");
	assert_non_null(strstr(out.data, "(16-bit)\n  launch "));
	assert_non_null(strstr(out.data, parts.data));
	str_release(&parts);
	/* Most sectors first, then by line; how much of the sectors was asked for. */
	const char *rows = strstr(out.data, "    line");
	assert_non_null(rows);
	assert_string_equal(rows,
		"    line      bytes    sectors      used      flops    special  dot flops    atomics\n"
		"       9     4.10 k        128     100 %     1.50 k        999          0          3\n"
		"       5        128          4     100 %          0          0        2 M          0\n"
		"       7         64          4      50 %          0          0          0          0\n"
		"      11          0          0                    0          0          0          0\n");
	str_release(&out);
}

/* A block of 4 rows of 64, summed along its rows: a warp's 32 lanes lie side by side along
 * the row, and two warps share it. So five shuffles join a warp's lanes, and shared memory
 * the two warps: 4 rows of 2 parts are fewer than the 64 threads, one round; a warp writes 4
 * rows and reads them, each a word that is alone in its bank, and the round's words go in and
 * out: 2 (2 * 4 + 2) cycles. */
static void test_reductions(void **state)
{
	struct cost_layout l = {.ndim = 2, .reg = {2, {{1, 0}, {2, 0}}}, .warp = {1, {{0, 32}}}};
	struct cost_reduce r;
	const int32_t shape[2] = {4, 64};
	for (l.lane.n = 0; l.lane.n < 5; l.lane.n++) l.lane.at[l.lane.n][1] = 1 << l.lane.n;
	assert_true(cost_reduce_of(&l, 2, shape, 1, 2, &r));
	assert_true(r.results == 4 && r.steps == 5 && r.warps_along == 2 && r.rounds == 1 && r.wavefronts == 20);
	/* Along the other axis each thread has all four of a column: nothing is joined. */
	assert_true(cost_reduce_of(&l, 2, shape, 0, 2, &r));
	assert_true(r.results == 1 && r.steps == 0 && r.warps_along == 1 && r.rounds == 0 && r.wavefronts == 0);
	/* A block of half a row: the second warp repeats what the first one has. */
	assert_true(cost_reduce_of(&l, 2, (const int32_t[2]){4, 32}, 1, 2, &r));
	assert_true(r.results == 4 && r.steps == 5 && r.warps_along == 1);
	assert_false(cost_reduce_of(&l, 1, shape, 0, 2, &r));
	/* A warp's lanes below each other, and two warps along the row of eight: words of lanes lie two
	 * apart, so that two meet in each second bank. A block of 2048 rows has 64 of them in each
	 * thread, and twice as many parts in all as there are threads, 64 times over. */
	struct cost_layout tall = {.ndim = 2,
		.reg = {8, {{0, 1}, {0, 2}, {32, 0}, {64, 0}, {128, 0}, {256, 0}, {512, 0}, {1024, 0}}},
		.lane = {5, {{1, 0}, {2, 0}, {4, 0}, {8, 0}, {16, 0}}},
		.warp = {1, {{0, 4}}}};
	assert_true(cost_reduce_of(&tall, 2, (const int32_t[2]){2048, 8}, 1, 2, &r));
	assert_true(r.results == 64 && r.steps == 0 && r.warps_along == 2 && r.rounds == 64);
	assert_int_equal(r.wavefronts, 2 * (2 * 64 * 2 + 2 * 64));
	/* Of 32 rows the higher bases are repeats: one result in each thread, in one round. */
	assert_true(cost_reduce_of(&tall, 2, (const int32_t[2]){32, 8}, 1, 2, &r));
	assert_true(r.results == 1 && r.rounds == 1 && r.wavefronts == 2 * (2 * 2 + 2));
	/* Sixteen rows, two lanes along each: both want one word, so no two words are of one bank. */
	struct cost_layout pairs = {
		.ndim = 2, .lane = {5, {{1, 0}, {2, 0}, {4, 0}, {8, 0}, {0, 1}}}, .warp = {1, {{0, 2}}}};
	assert_true(cost_reduce_of(&pairs, 2, (const int32_t[2]){16, 4}, 1, 2, &r));
	assert_true(r.results == 1 && r.steps == 1 && r.warps_along == 2 && r.rounds == 1);
	assert_int_equal(r.wavefronts, 2 * (2 * 1 + 2));
}

/* Kinds of products have measured times of their own, by name and by form; one that was not
 * timed is taken for mm. */
static void test_products(void **state)
{
	static const struct {
		const char *name;
		const char *form;
		bool is_mm;
	} kinds[] = {{"addmm", "", false}, {"bmm", "", false}, {"convolution", "", false},
		{"convolution", "transposed", false}, {"no such product", "", true}};
	const struct vm_gpu *gpu = vm_gpu_find("H200");
	const struct cost_launch l = {.bytes = 1 << 26, .dot_flops = (double)((int64_t)1 << 34), .extent = 512};
	double mm = cost_operator_s("mm", "", &l, COST_DOT_HALF, gpu), last = mm;
	for (size_t i = 0; i < ARRAY_LEN(kinds); i++) {
		double s = cost_operator_s(kinds[i].name, kinds[i].form, &l, COST_DOT_HALF, gpu);
		assert_true(s > 0 && (s == mm) == kinds[i].is_mm && (s != last || kinds[i].is_mm));
		last = s;
	}
}

/* An operator that moves bytes takes its start, and then as much longer as the card's memory is
 * slower; between two measured sizes it takes a time between theirs. */
static void test_cards_of_operators(void **state)
{
	const struct vm_gpu *h200 = vm_gpu_find("H200"), *h100 = vm_gpu_find("H100");
	double start = cost_operator_s("add", "", &L(.bytes = 0), COST_DOT_FP32, h200), last = start;
	assert_true(start > 0.5e-6 && start < 5e-6);
	assert_true(cost_operator_s("add", "", &L(.bytes = 0), COST_DOT_FP32, h100) == start);
	for (double bytes = 1 << 14; bytes <= 1 << 28; bytes *= 1.5) {
		double mine = cost_operator_s("add", "", &L(.bytes = bytes), COST_DOT_FP32, h200),
			   other = cost_operator_s("add", "", &L(.bytes = bytes), COST_DOT_FP32, h100),
			   expected = start + (mine - start) * 4.8 / 3.35;
		if (!(fabs(other - expected) <= 1e-6 * expected))
			fail_msg("%g bytes: %g s, expected %g", bytes, other, expected);
		if (!(mine >= last && mine <= 1.6 * last)) fail_msg("%g bytes: %g s after %g", bytes, mine, last);
		last = mine;
	}
}

/* None of the above leaves memory or descriptors behind, errors included. */
static void everything(void *ctx)
{
	test_library_launches(NULL);
	test_units_of_products(NULL);
	test_counts_there_and_back(NULL);
	test_parts_of_a_prediction(NULL);
	test_spills(NULL);
	test_resources(NULL);
	test_joined(NULL);
	test_dot_operands(NULL);
	test_dot_banks(NULL);
	test_cards(NULL);
	test_table(NULL);
	test_reductions(NULL);
	test_products(NULL);
	test_products_in_l2(NULL);
	test_cards_of_operators(NULL);
}

static void test_leaves_nothing(void **state) { leaves_nothing(everything, NULL); }

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(test_library_launches),
		cmocka_unit_test(test_units_of_products), cmocka_unit_test(test_counts_there_and_back),
		cmocka_unit_test(test_parts_of_a_prediction), cmocka_unit_test(test_spills), cmocka_unit_test(test_resources),
		cmocka_unit_test(test_fit), cmocka_unit_test(test_joined), cmocka_unit_test(test_dot_operands),
		cmocka_unit_test(test_dot_banks), cmocka_unit_test(test_table), cmocka_unit_test(test_cards),
		cmocka_unit_test(test_reductions), cmocka_unit_test(test_products), cmocka_unit_test(test_products_in_l2),
		cmocka_unit_test(test_cards_of_operators), cmocka_unit_test(test_leaves_nothing)};
	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
